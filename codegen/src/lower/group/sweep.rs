//! Sweeps: reductions that go over the same arrays in one pass. All have as many terms and results, and none needs another's result
//! for its terms; one may, once it is reduced: `(mean[i] x[i] * x[i]) - mu * mu`.

use std::collections::BTreeSet;

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Kernel, Reduce, Role, Statement};
use gpukc_dsl::types::Reducer;

use super::{Schedule, from_zero, only_reduction, schedule};
use crate::facts::Facts;
use crate::formula::Formula;
use crate::lower::map::is_identity;
use crate::size;
use crate::walk;

/// Registers that the accumulators of a sweep may take of a thread, by 32 bits, four neighbours each.
const MOST_REGISTERS: usize = 48;
/// Arrays that a sweep may read along its terms.
const MOST_ARRAYS: usize = 8;
/// How far from the first of a sweep others are looked for.
const FARTHEST: usize = 32;

/// What the reductions of a sweep have in common, and what they ask for.
struct Sweep {
    terms: Vec<Formula>,
    results: Vec<Formula>,
    /// The arrays that they read along their terms.
    arrays: BTreeSet<ArrayId>,
    registers: usize,
}

impl Sweep {
    fn of(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<Sweep> {
        let (id, reduce) = only_reduction(kernel, statement)?;
        if walk::can_fail(kernel, statement.value) || !from_zero(kernel, facts, &reduce.variables) {
            return None;
        }
        let extents = |ranges: &[_]| ranges.iter().map(|range| size::extent(kernel, facts, range)).collect::<Option<Vec<_>>>();
        let neighbours = 4;
        let registers = match reduce.reducer {
            Reducer::Argmin | Reducer::Argmax => neighbours * 4,
            _ => neighbours * kernel.exprs[id].ty.size().div_ceil(4),
        };
        let (terms, results) = (extents(&reduce.variables)?, extents(&statement.variables)?);
        Some(Sweep { terms, results, arrays: arrays(kernel, reduce), registers })
    }

    /// Takes another reduction in, if there is something to share and room for it.
    fn take(&mut self, other: Sweep) -> bool {
        let alike = self.terms == other.terms && self.results == other.results;
        let together: BTreeSet<ArrayId> = self.arrays.union(&other.arrays).copied().collect();
        let shares = together.len() < self.arrays.len() + other.arrays.len();
        let registers = self.registers + other.registers;
        if !alike || !shares || together.len() > MOST_ARRAYS || registers > MOST_REGISTERS {
            return false;
        }
        (self.arrays, self.registers) = (together, registers);
        true
    }
}

/// The arrays that a reduction reads along its terms, `let`s without reductions looked through.
fn arrays(kernel: &Kernel, reduce: &Reduce) -> BTreeSet<ArrayId> {
    let along = |read: &_| reduce.variables.iter().any(|v| walk::mentions(kernel, *read, v.variable));
    let values = reduce.filter.into_iter().chain([reduce.body]);
    let mut pending: Vec<_> = values.flat_map(|value| walk::reads(kernel, value)).filter(along).collect();
    let mut found = BTreeSet::new();
    while let Some(read) = pending.pop() {
        let ExprKind::Read { array, .. } = kernel.exprs[read].kind else { continue };
        let computed = |statement: &&Statement| statement.array == array && !walk::has_reduction(kernel, statement.value);
        let is_let = kernel.arrays[array].role == Role::Let;
        match kernel.statements.iter().find(computed).filter(|_| is_let) {
            Some(inner) => pending.extend(walk::reads(kernel, inner.value)),
            None => drop(found.insert(array)),
        }
    }
    found
}

/// Whether all of these statements make one sweep, in this order.
pub fn is_sweep(kernel: &Kernel, facts: &Facts, statements: &[usize]) -> bool {
    let mut all = statements.iter().map(|number| &kernel.statements[*number]);
    let Some(mut sweep) = all.next().and_then(|first| Sweep::of(kernel, facts, first)) else { return false };
    let independent = |(place, number): (usize, &usize)| {
        let apart = |other: &usize| !depend(kernel, &kernel.statements[*number], &kernel.statements[*other]);
        statements[..place].iter().all(apart)
    };
    statements.iter().enumerate().all(independent)
        && all.all(|next| Sweep::of(kernel, facts, next).is_some_and(|next| sweep.take(next)))
}

/// Statements, by number, around the sweep that the first of some begins.
pub struct Cut {
    /// Those that need none of its results: they stood between its reductions.
    pub before: Vec<usize>,
    pub sweep: Vec<usize>,
    pub after: Vec<usize>,
}

/// Cuts the sweep of the first of these statements, of this schedule, out of them.
pub fn cut(kernel: &Kernel, facts: &Facts, wanted: Schedule, pending: &[usize]) -> Cut {
    let Some((&first, others)) = pending.split_first() else {
        return Cut { before: Vec::new(), sweep: Vec::new(), after: Vec::new() };
    };
    let mut cut = Cut { before: Vec::new(), sweep: vec![first], after: others.to_vec() };
    let Some(mut sweep) = Sweep::of(kernel, facts, &kernel.statements[first]) else { return cut };
    let (mut members, mut before, mut after) = (vec![first], Vec::new(), Vec::new());
    for (place, &number) in others.iter().enumerate().take(FARTHEST) {
        let statement = &kernel.statements[number];
        let apart = |other: &usize| !depend(kernel, statement, &kernel.statements[*other]);
        let beside = |other: &usize| goes_beside(kernel, statement, &kernel.statements[*other]);
        let may_pass = after.iter().all(apart);
        // The result of a kernel that has one may take the place of a parameter: it passes nothing that may read that.
        let stays = kernel.results == [statement.array];
        let may_join =
            may_pass && members.iter().all(beside) && (after.is_empty() || !stays) && schedule(kernel, facts, statement) == wanted;
        if may_join && Sweep::of(kernel, facts, statement).is_some_and(|next| sweep.take(next)) {
            members.push(number);
            let left = after.iter().chain(&others[place + 1..]).copied().collect();
            cut = Cut { before: before.clone(), sweep: members.clone(), after: left };
        } else if may_pass && members.iter().all(apart) && !stays && !walk::can_fail(kernel, statement.value) {
            before.push(number);
        } else {
            after.push(number);
        }
    }
    cut
}

/// Whether a statement's reduction may share the pass of another's, which stands before it: it needs nothing of it, or only what it has
/// for the same result, outside of its own terms.
fn goes_beside(kernel: &Kernel, statement: &Statement, other: &Statement) -> bool {
    if !depend(kernel, statement, other) {
        return true;
    }
    let Some((reduction, _)) = only_reduction(kernel, statement) else { return false };
    let mut beside = statement.array != other.array && !mentions(kernel, other, statement.array);
    walk::walk(kernel, statement.value, &mut |id| {
        match &kernel.exprs[id].kind {
            ExprKind::Read { array, subscripts } if *array == other.array => {
                beside &= is_identity(kernel, subscripts, &statement.variables);
            }
            ExprKind::Reduce(_) if id == reduction => beside &= !reads(kernel, id, other.array),
            _ => {}
        }
        id != reduction
    });
    beside
}

/// Whether a statement reads or defines what another defines, or the other way round.
fn depend(kernel: &Kernel, a: &Statement, b: &Statement) -> bool {
    a.array == b.array || mentions(kernel, a, b.array) || mentions(kernel, b, a.array)
}

/// Whether anything in a statement reads an array.
fn mentions(kernel: &Kernel, statement: &Statement, array: ArrayId) -> bool {
    let subscripts = statement.subscripts.iter().map(|subscript| subscript.index);
    let bounds = statement.variables.iter().flat_map(|range| [range.lo, range.hi]);
    subscripts.chain(bounds).chain([statement.value]).any(|value| reads(kernel, value, array))
}

/// Whether a value is computed from an array.
fn reads(kernel: &Kernel, value: ExprId, array: ArrayId) -> bool {
    let is = |read: ExprId| matches!(&kernel.exprs[read].kind, ExprKind::Read { array: other, .. } if *other == array);
    walk::reads(kernel, value).into_iter().any(is)
}

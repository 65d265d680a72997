//! Where each array lives: in the caller's memory, in scratch memory, on chip, or nowhere (computed where it is read).

use std::collections::BTreeMap;

use gpukc_dsl::program::{ArrayId, Bounds, ExprKind, Kernel, Order, Role, Statement, StatementKind, Subscript};

use super::group::{Group, Schedule};
use crate::facts::Facts;
use crate::formula::Formula;
use crate::{size, walk};

/// Where an array lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A parameter or a result.
    Memory,
    /// The plan's scratch memory of this number.
    Scratch(usize),
    /// Computed where it is read, from the statement of this number.
    Inline(usize),
    /// In registers of the launch that defines it, which alone reads it.
    OnChip,
}

/// The place of every array.
#[derive(Clone, Debug)]
pub struct Places(BTreeMap<ArrayId, Place>);

impl Places {
    /// The place of an array.
    pub fn of(&self, id: ArrayId) -> Place {
        self.0.get(&id).copied().unwrap_or(Place::Memory)
    }
    /// Changes the place of an array.
    pub fn set(&mut self, id: ArrayId, place: Place) {
        self.0.insert(id, place);
    }
}

/// A `let` of at most so many instructions is computed again at each use.
const CHEAP: u32 = 8;
/// A `let` of at most so many instructions is computed again rather than stored, unless a sharing reduction reads it.
const AFFORDABLE: u32 = 64;

/// Decides the place of every array.
pub fn place(kernel: &Kernel, _facts: &Facts, groups: &[Group]) -> Places {
    let mut places = BTreeMap::new();
    let mut costs: BTreeMap<ArrayId, u32> = BTreeMap::new();
    let mut scratch = 0;
    let uses = uses(kernel);
    let defined = definitions(kernel);
    for group in groups {
        for &number in &group.statements {
            let statement = &kernel.statements[number];
            let array = statement.array;
            if kernel.arrays[array].role != Role::Let || places.contains_key(&array) {
                continue;
            }
            let uses = uses.get(&array).map_or(&[][..], Vec::as_slice);
            let once = defined.get(&array) == Some(&1);
            let place = if group.schedule == Schedule::Rows && uses.iter().all(|u| group.statements.contains(&u.statement)) {
                Place::OnChip
            } else if group.schedule != Schedule::Rows
                && once
                && is_inlinable(kernel, number, uses)
                && is_worth_inlining(kernel, number, uses, &mut costs)
            {
                Place::Inline(number)
            } else {
                scratch += 1;
                Place::Scratch(scratch - 1)
            };
            places.insert(array, place);
        }
    }
    Places(places)
}

struct Use {
    statement: usize,
    /// Its bounds are settled without a check or a rule.
    plain: bool,
    /// Under a sharing reduction, where it would be computed many times.
    shared: bool,
    /// At variables alone, and in no reduction.
    own: bool,
}

/// How many statements define each array.
fn definitions(kernel: &Kernel) -> BTreeMap<ArrayId, usize> {
    let mut counts = BTreeMap::new();
    kernel.statements.iter().for_each(|statement| *counts.entry(statement.array).or_default() += 1);
    counts
}

/// Where each array is read.
fn uses(kernel: &Kernel) -> BTreeMap<ArrayId, Vec<Use>> {
    let mut uses: BTreeMap<ArrayId, Vec<Use>> = BTreeMap::new();
    for (number, statement) in kernel.statements.iter().enumerate() {
        let roots = statement.subscripts.iter().map(|s| s.index).chain([statement.value]);
        let mut stack: Vec<_> = roots.map(|id| (id, false, false)).collect();
        while let Some((id, shared, reduced)) = stack.pop() {
            let mut below = shared;
            match &kernel.exprs[id].kind {
                ExprKind::Read { array, subscripts } => {
                    let plain = subscripts.iter().all(|s| matches!(s.bounds, Bounds::Proved | Bounds::Assumed));
                    uses.entry(*array).or_default().push(Use {
                        statement: number,
                        plain,
                        shared,
                        own: !reduced && are_variables(kernel, subscripts),
                    });
                }
                ExprKind::Reduce(reduce) => below |= matches!(reduce.order, Order::Sharing(_) | Order::Scan(_)),
                _ => {}
            }
            let reduced = reduced || matches!(kernel.exprs[id].kind, ExprKind::Reduce(_));
            stack.extend(walk::operands(kernel, id).into_iter().map(|(operand, _)| (operand, below, reduced)));
        }
    }
    uses
}

/// Whether computing the `let` of statement `number`, the only one of its array, where it is read means the same.
fn is_inlinable(kernel: &Kernel, number: usize, uses: &[Use]) -> bool {
    let statement = &kernel.statements[number];
    // What follows rules reads several elements: it is computed for one reader, at its own element.
    let once = || uses.iter().all(|u| u.own && u.statement == uses[0].statement);
    statement.kind == StatementKind::Define
        && statement.subscripts.len() == statement.variables.len()
        && are_variables(kernel, &statement.subscripts)
        && !walk::has_reduction(kernel, statement.value)
        && (!walk::can_fail(kernel, statement.value) || once() && finds_elements(kernel, statement))
}

fn are_variables(kernel: &Kernel, subscripts: &[Subscript]) -> bool {
    subscripts.iter().all(|s| matches!(kernel.exprs[s.index].kind, ExprKind::Variable(_)))
}

/// Whether every rule of a statement's reads finds an element: where there is something to compute, the axis is not empty.
fn finds_elements(kernel: &Kernel, statement: &Statement) -> bool {
    let formula = |id| size::formula(kernel, &Facts::default(), id);
    let ends: Vec<Formula> = statement
        .variables
        .iter()
        .filter(|range| formula(range.lo) == Some(Formula::Constant(0)))
        .filter_map(|range| formula(range.hi))
        .collect();
    walk::reads(kernel, statement.value).into_iter().all(|read| {
        let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { return true };
        subscripts.iter().zip(&kernel.arrays[*array].shape).all(|(subscript, extent)| match subscript.bounds {
            Bounds::Proved | Bounds::Assumed | Bounds::Constant(_) => true,
            Bounds::Clamp | Bounds::Wrap | Bounds::Mirror | Bounds::Symmetric => {
                formula(*extent).is_some_and(|end| ends.contains(&end))
            }
            _ => false,
        })
    })
}

/// The `let`s that are computed where they are read, unless rows hold them on chip: their statements.
pub fn inlined(kernel: &Kernel) -> BTreeMap<ArrayId, usize> {
    let (uses, defined, mut costs) = (uses(kernel), definitions(kernel), BTreeMap::new());
    let mut found = BTreeMap::new();
    for (number, statement) in kernel.statements.iter().enumerate() {
        let array = statement.array;
        let uses = uses.get(&array).map_or(&[][..], Vec::as_slice);
        let once = kernel.arrays[array].role == Role::Let && defined.get(&array) == Some(&1);
        if once && is_inlinable(kernel, number, uses) && is_worth_inlining(kernel, number, uses, &mut costs) {
            found.insert(array, number);
        }
    }
    found
}

fn is_worth_inlining(kernel: &Kernel, number: usize, uses: &[Use], costs: &mut BTreeMap<ArrayId, u32>) -> bool {
    let statement = &kernel.statements[number];
    let below: u32 = walk::reads(kernel, statement.value)
        .iter()
        .filter_map(|read| match &kernel.exprs[*read].kind {
            ExprKind::Read { array, .. } => costs.get(array),
            _ => None,
        })
        .fold(walk::cost(kernel, statement.value), |sum, cost| sum.saturating_add(*cost));
    let once = uses.len() == 1 && uses.iter().all(|u| !u.shared);
    let affordable = below <= CHEAP || below <= AFFORDABLE && uses.iter().all(|u| !u.shared);
    let inline = uses.iter().all(|u| u.plain) && (affordable || once && below <= 1000);
    if inline {
        costs.insert(statement.array, below);
    }
    inline
}

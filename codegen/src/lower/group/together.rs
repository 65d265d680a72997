//! Maps that share a launch: results over the same space, of which a later one reads what an earlier one reads or defines. What they
//! share then comes from memory once.

use std::collections::{BTreeMap, BTreeSet};

use gpukc_dsl::program::{ArrayId, Attributes, ExprId, ExprKind, Kernel, Statement, StatementKind};

use super::{Group, Schedule, is_plain, rows, schedule};
use crate::facts::Facts;
use crate::formula::Formula;
use crate::lower::map::is_identity;
use crate::lower::place::inlined;
use crate::size;
use crate::target::Target;
use crate::walk;

/// Most arrays that a launch goes over for the sake of several results: a thread holds a pack of each.
const MOST_ARRAYS: usize = 12;

/// The maps that the first of these statements begins, and the `let`s between them that are computed where they are read.
pub fn together(kernel: &Kernel, facts: &Facts, target: Target, pending: &[usize]) -> Vec<usize> {
    let mut maps =
        Maps { kernel, facts, inlined: inlined(kernel), defined: Vec::new(), parts: Vec::new(), first: None, inputs: BTreeSet::new() };
    let mut whole = 1;
    for (place, &number) in pending.iter().enumerate() {
        let statement = &kernel.statements[number];
        let needs_launch = maps.inlined.get(&statement.array) != Some(&number);
        let begins_rows = || place > 0 && rows::rows_from(kernel, facts, target, &pending[place..]).is_some();
        // What comes after `let`s that need no launch may be anything: an accumulation, a reduction.
        let joins = !needs_launch || schedule(kernel, facts, statement) == Schedule::Map && maps.takes(statement);
        if !joins || !maps.reads_own_elements(statement) || begins_rows() {
            break;
        }
        if is_plain(kernel, facts, statement) || !needs_launch { &mut maps.defined } else { &mut maps.parts }.push(statement.array);
        if needs_launch {
            whole = place + 1;
        }
    }
    pending[..whole].to_vec()
}

struct Maps<'k> {
    kernel: &'k Kernel,
    facts: &'k Facts,
    /// `let`s that are computed where they are read.
    inlined: BTreeMap<ArrayId, usize>,
    /// All arrays so far, those `let`s among them; and those of which statements define a part each.
    defined: Vec<ArrayId>,
    parts: Vec<ArrayId>,
    /// The first map: its space, unless it can't share a launch, and its attributes.
    first: Option<(Option<Vec<Formula>>, &'k Attributes)>,
    /// The arrays of which each element of the maps reads one of its own or defines it.
    inputs: BTreeSet<ArrayId>,
}

impl<'k> Maps<'k> {
    /// Takes a statement in, if it is the first or shares what the others go over.
    fn takes(&mut self, statement: &'k Statement) -> bool {
        let space = space(self.kernel, self.facts, statement);
        let inputs = self.inputs_of(statement);
        let joins = self.first.as_ref().is_none_or(|(first, attributes)| {
            let shares = self.parts.contains(&statement.array) || inputs.iter().any(|array| self.inputs.contains(array));
            let arrays = inputs.union(&self.inputs).count() + 1;
            first.is_some() && *first == space && **attributes == statement.attributes && shares && arrays <= MOST_ARRAYS
        });
        if joins {
            self.first.get_or_insert((space, &statement.attributes));
            self.inputs.extend(inputs);
            self.inputs.insert(statement.array);
        }
        joins
    }

    /// Whether every read of an array of the launch is of the element that is being computed.
    fn reads_own_elements(&self, statement: &Statement) -> bool {
        walk::reads(self.kernel, statement.value).into_iter().all(|read| match &self.kernel.exprs[read].kind {
            ExprKind::Read { array, subscripts } if self.defined.contains(array) => {
                is_identity(self.kernel, subscripts, &statement.variables)
            }
            ExprKind::Read { array, .. } => !self.parts.contains(array),
            _ => true,
        })
    }

    /// The arrays of which each element reads one of its own, through `let`s that are computed in place.
    fn inputs_of(&self, statement: &Statement) -> BTreeSet<ArrayId> {
        let (mut found, mut entered, mut pending) = (BTreeSet::new(), BTreeSet::new(), vec![statement]);
        while let Some(statement) = pending.pop() {
            for read in walk::reads(self.kernel, statement.value) {
                let ExprKind::Read { array, .. } = self.kernel.exprs[read].kind else { continue };
                match self.inlined.get(&array) {
                    Some(&number) if entered.insert(number) => pending.push(&self.kernel.statements[number]),
                    Some(_) => {}
                    None if statement.variables.iter().all(|v| walk::mentions(self.kernel, read, v.variable)) => {
                        found.insert(array);
                    }
                    None => {}
                }
            }
        }
        found
    }
}

/// The space of a map that can share a launch: of several statements that fail, say, the first one's index is reported.
fn space(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<Vec<Formula>> {
    let attributes = &statement.attributes;
    let hinted = attributes.block.is_some() || attributes.unroll.is_some() || !attributes.tile.is_empty();
    let shares = !hinted
        && is_one_for_one(kernel, facts, statement)
        && schedule(kernel, facts, statement) == Schedule::Map
        && !walk::has_reduction(kernel, statement.value)
        && !walk::can_fail(kernel, statement.value);
    if shares { extents(kernel, facts, statement) } else { None }
}

/// Whether the left side has each variable once, in order, from 0 on: it stands for an element of each array that it defines a part of.
fn is_one_for_one(kernel: &Kernel, facts: &Facts, statement: &Statement) -> bool {
    let mut variables = statement.variables.iter();
    let in_order = statement.subscripts.iter().all(|subscript| {
        size::linear(kernel, facts, subscript.index).is_some_and(|index| match index.terms.as_slice() {
            [] => true,
            [(variable, step)] => *step == Formula::Constant(1) && variables.next().is_some_and(|range| range.variable == *variable),
            _ => false,
        })
    });
    statement.kind == StatementKind::Define
        && in_order
        && variables.next().is_none()
        && super::from_zero(kernel, facts, &statement.variables)
}

fn extents(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<Vec<Formula>> {
    statement.variables.iter().map(|range| size::extent(kernel, facts, range)).collect()
}

/// The kernel in which the maps of each group count with the same variables: `s[i] = a[i]; d[j] = b[j];` is `s[i] = a[i]; d[i] = b[i];`.
/// Nothing if no launch has several.
pub fn share_variables(kernel: &Kernel, facts: &Facts, groups: &[Group]) -> Option<Kernel> {
    let together = |group: &&Group| group.schedule == Schedule::Map && group.statements.len() > 1;
    let mut shared = groups.iter().any(|group| together(&group)).then(|| kernel.clone())?;
    for group in groups.iter().filter(together) {
        for (place, &number) in group.statements.iter().enumerate() {
            let own = space(kernel, facts, &kernel.statements[number]);
            let same = |earlier: &&usize| own.is_some() && space(kernel, facts, &kernel.statements[**earlier]) == own;
            if let Some(&first) = group.statements[..place].iter().find(same) {
                let variables = shared.statements[first].variables.clone();
                let statement = &kernel.statements[number];
                let roots: Vec<ExprId> = statement.subscripts.iter().map(|s| s.index).chain([statement.value]).collect();
                walk::rename(&mut shared, &roots, &statement.variables, &variables);
                shared.statements[number].variables = variables;
            }
        }
    }
    Some(shared)
}

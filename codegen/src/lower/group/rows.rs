//! Groups of row statements: reductions of one shape, and what depends on them row by row.

use gpukc_dsl::program::{ArrayId, ExprKind, Kernel, Order, Ranged, Reduce, Role, Statement, Subscript};

use super::sweep::is_sweep;
use super::{Axis, Group, Schedule, axis, from_zero, is_flat, is_plain, is_small_window, only_reduction, pieces, product};
use crate::facts::Facts;
use crate::formula::Formula;
use crate::lower::rows::{self, Tile};
use crate::size;
use crate::target::Target;
use crate::walk;

/// Which variables of a left side number the rows: the first ones and the last ones. Those between, if any, run along the row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    /// How many stand before the row's own.
    pub before: usize,
    /// How many stand after them: none where rows are contiguous.
    pub after: usize,
    /// How many of the row's own number pieces of memory, along each of which the others run: none where a row is one piece.
    pub pieces: usize,
}

impl Numbering {
    /// How many variables number the rows.
    pub fn rank(self) -> usize {
        self.before + self.after
    }
    /// Those that number the rows, and those along the row.
    pub fn split(self, variables: &[Ranged]) -> (Vec<Ranged>, Vec<Ranged>) {
        let after = variables.len().saturating_sub(self.after).max(self.before);
        let rows = variables[..self.before].iter().chain(&variables[after..]).copied().collect();
        (rows, variables[self.before..after].to_vec())
    }
    /// Both together, in the order of an array's dimensions.
    pub fn join<'r>(self, rows: &'r [Ranged], inner: &'r [Ranged]) -> impl Iterator<Item = &'r Ranged> {
        let (before, after) = rows.split_at(self.before);
        before.iter().chain(inner).chain(after)
    }
}

/// Most maps that come before the first reduction of a group.
const MOST_LEADING: usize = 2;
/// Fewer rows than this do not fill a GPU by a block each.
const FEW_ROWS: i64 = 256;

/// A group of row statements that the first of these begins, if there is one.
pub fn rows_from(kernel: &Kernel, facts: &Facts, target: Target, pending: &[usize]) -> Option<Group> {
    let (shape, leading) = shape_of(kernel, facts, pending)?;
    let mut statements = pending[..=leading].to_vec();
    let fails = |number: usize| walk::can_fail(kernel, kernel.statements[number].value);
    let mut failing = fails(pending[leading]);
    for &next in &pending[leading + 1..] {
        // Of several statements that fail, the first one's index is reported: they stay apart.
        let both = failing && fails(next);
        if both || !shape.takes(kernel, facts, &kernel.statements[next], &statements) {
            break;
        }
        failing |= fails(next);
        statements.push(next);
    }
    let numbering = shape.numbering;
    if numbering.after > 0 {
        let tile = tile(kernel, facts, target, &shape, &mut statements)?;
        return Some(Group { statements, schedule: Schedule::Rows, numbering, tile: Some(tile) });
    }
    if numbering.pieces > 0 && !shape.is_short(facts) {
        return None;
    }
    // Few long rows would leave most of a GPU idle, and of longer ones than a block takes by packs nothing is won by holding them, if
    // all that is asked is reductions: they are split instead.
    let few = facts.below(&shape.row_count(), FEW_ROWS) && facts.at_least(&shape.extent, 1 << 15);
    let long = facts.at_least(&shape.extent, (1 << 15) + 1);
    if (few || long) && is_sweep(kernel, facts, &statements) {
        return None;
    }
    // Each pass over a row that nothing holds is better made by all multiprocessors than by one, and so is one over few huge rows.
    let few = facts.below(&shape.row_count(), 16) && facts.at_least(&shape.extent, 1 << 17);
    if few || facts.at_least(&shape.extent, rows::LONGEST + 1) {
        return None;
    }
    Some(Group { statements, schedule: Schedule::Rows, numbering, tile: None })
}

/// The shape of the rows, which the first reduction has, and how many maps stand before it that it reads along its rows: a sum of two
/// arrays that is a result itself, then its norm.
fn shape_of(kernel: &Kernel, facts: &Facts, pending: &[usize]) -> Option<(RowShape, usize)> {
    let reduces = |number: &usize| walk::has_reduction(kernel, kernel.statements[*number].value);
    let leading = pending.iter().take(MOST_LEADING + 1).position(reduces)?;
    let reduction = &kernel.statements[pending[leading]];
    let shape = RowShape::of_reduction(kernel, facts, reduction)?;
    let joins = |place: usize| {
        let map = &kernel.statements[pending[place]];
        let read = walk::reads_array(kernel, reduction, map.array) && !walk::can_fail(kernel, map.value);
        read && shape.takes(kernel, facts, map, &pending[..place])
    };
    let own_row = || {
        let inner = only_reduction(kernel, reduction).map(|(_, reduce)| reduce.variables.clone()).unwrap_or_default();
        shape.reads_own_row(kernel, reduction, &reduction.variables, &inner, &pending[..leading])
    };
    let fits = leading == 0 || shape.numbering.after == 0 && (0..leading).all(joins) && own_row();
    fits.then_some((shape, leading))
}

/// How a block holds the columns of a group; of one that asks for too many registers, its first statements keep those that fit.
fn tile(kernel: &Kernel, facts: &Facts, target: Target, shape: &RowShape, statements: &mut Vec<usize>) -> Option<Tile> {
    let whole = statements.len();
    while statements.len() > 1 {
        let found = Tile::choose(kernel, facts, target, statements, shape.numbering, &shape.extent);
        if found.is_some() && (statements.len() == whole || is_closed(kernel, statements, shape.numbering)) {
            return found;
        }
        statements.pop();
    }
    None
}

/// Whether no other statement reads a `let` of the group that has an element for each position of its rows: it would have to be stored
/// for that.
fn is_closed(kernel: &Kernel, group: &[usize], numbering: Numbering) -> bool {
    let others = || kernel.statements.iter().enumerate().filter(|(number, _)| !group.contains(number));
    group.iter().map(|number| &kernel.statements[*number]).all(|statement| {
        let on_chip = kernel.arrays[statement.array].role == Role::Let && statement.variables.len() > numbering.rank();
        !on_chip || !others().any(|(_, other)| walk::reads_array(kernel, other, statement.array))
    })
}

/// Rows in pieces of at most so many terms are taken by lanes, several of them a warp; longer ones by `split`, whose warps take packs.
const SHORT_IN_PIECES: i64 = 512;
/// Where packs would go from one piece into the next, those of at most so many by a block each.
const WITHOUT_PACKS: i64 = 1 << 15;

/// What the statements of a group have in common: where rows start and how many there are, and a row's terms.
#[derive(PartialEq)]
struct RowShape {
    starts: Vec<Formula>,
    rows: Vec<Formula>,
    extent: Formula,
    /// Where rows are in pieces, the extents of their own variables.
    inner: Vec<Formula>,
    numbering: Numbering,
}

impl RowShape {
    fn row_count(&self) -> Formula {
        self.rows.iter().cloned().fold(Formula::Constant(1), |n, r| n.times(r))
    }

    /// Whether rows in pieces are short enough to be taken by some lanes or a block each.
    fn is_short(&self, facts: &Facts) -> bool {
        let Numbering { pieces, .. } = self.numbering;
        let run = self.inner[pieces..].iter().cloned().fold(Formula::Constant(1), |n, extent| n.times(extent));
        let many = !facts.below(&self.row_count(), FEW_ROWS);
        let up_to = |most: i64| facts.below(&self.extent, most + 1);
        up_to(SHORT_IN_PIECES) || many && up_to(WITHOUT_PACKS) && !facts.multiple(&run, 4)
    }

    fn of_reduction(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<RowShape> {
        if !is_plain(kernel, facts, statement) || statement.variables.is_empty() {
            return None;
        }
        let (_, reduce) = only_reduction(kernel, statement)?;
        if is_small_window(kernel, facts, statement, reduce) || !matches!(reduce.order, Order::Exact | Order::Canonical) {
            return None;
        }
        let numbering = match axis(kernel, facts, statement, reduce) {
            Axis::Contiguous => {
                let pieces = pieces(kernel, facts, &[statement.value], &reduce.variables);
                Numbering { before: statement.variables.len(), after: 0, pieces }
            }
            Axis::Strided => numbering_of_columns(kernel, statement, reduce)?,
            Axis::Neither => return None,
        };
        let rows = statement.variables.iter().map(|v| size::extent(kernel, facts, v)).collect::<Option<Vec<_>>>()?;
        let extent = product(kernel, facts, &reduce.variables)?;
        let starts = statement.variables.iter().map(|v| size::formula(kernel, facts, v.lo)).collect::<Option<Vec<_>>>()?;
        let (inner, fits) = match numbering.pieces {
            0 => {
                let flat = is_flat(kernel, facts, statement.value, &reduce.variables);
                (Vec::new(), from_zero(kernel, facts, &reduce.variables) && flat)
            }
            pieces => {
                let extents = reduce.variables.iter().map(|v| size::extent(kernel, facts, v)).collect::<Option<_>>()?;
                (extents, pieces < reduce.variables.len() && reads_memory(kernel, reduce))
            }
        };
        fits.then_some(RowShape { starts, rows, extent, inner, numbering })
    }

    /// Whether a later statement can join the rows of `group`.
    fn takes(&self, kernel: &Kernel, facts: &Facts, statement: &Statement, group: &[usize]) -> bool {
        if !is_plain(kernel, facts, statement) {
            return false;
        }
        let (rows, inner) = if let Some(other) = RowShape::of_reduction(kernel, facts, statement) {
            if other != *self {
                return false;
            }
            let inner = only_reduction(kernel, statement).map(|(_, r)| r.variables.clone()).unwrap_or_default();
            (statement.variables.clone(), inner)
        } else {
            if walk::has_reduction(kernel, statement.value) || statement.variables.len() < self.rows.len() {
                return false;
            }
            let (rows, inner) = self.numbering.split(&statement.variables);
            if self.numbering.pieces > 0 && !inner.is_empty() {
                return false;
            }
            let extents: Option<Vec<_>> = rows.iter().map(|v| size::extent(kernel, facts, v)).collect();
            let starts: Option<Vec<_>> = rows.iter().map(|v| size::formula(kernel, facts, v.lo)).collect();
            if extents.as_ref() != Some(&self.rows) || starts.as_ref() != Some(&self.starts) {
                return false;
            }
            let whole = || product(kernel, facts, &inner) == Some(self.extent.clone()) && from_zero(kernel, facts, &inner);
            if !(inner.is_empty() || whole() && is_flat(kernel, facts, statement.value, &inner)) {
                return false;
            }
            (rows, inner)
        };
        self.reads_own_row(kernel, statement, &rows, &inner, group)
    }

    /// Whether every read of an array of the group stays in the statement's own row, at its own position.
    fn reads_own_row(&self, kernel: &Kernel, statement: &Statement, rows: &[Ranged], inner: &[Ranged], group: &[usize]) -> bool {
        let defined: Vec<ArrayId> = group.iter().map(|s| kernel.statements[*s].array).collect();
        if defined.contains(&statement.array) {
            return false;
        }
        walk::reads(kernel, statement.value).into_iter().all(|read| {
            let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { return true };
            !defined.contains(array)
                || subscripts.len() == rows.len() && own(kernel, subscripts, rows.iter())
                || subscripts.len() == rows.len() + inner.len() && own(kernel, subscripts, self.numbering.join(rows, inner))
        })
    }
}

/// Whether nothing that a reduction reads along its terms is a `let`, whose own order of dims decides how it runs along.
fn reads_memory(kernel: &Kernel, reduce: &Reduce) -> bool {
    let along = |read: &_| reduce.variables.iter().any(|v| walk::mentions(kernel, *read, v.variable));
    let values = reduce.filter.into_iter().chain([reduce.body]);
    values.flat_map(|value| walk::reads(kernel, value)).filter(along).all(|read| match &kernel.exprs[read].kind {
        ExprKind::Read { array, .. } => kernel.arrays[*array].role != Role::Let,
        _ => true,
    })
}

fn own<'r>(kernel: &Kernel, subscripts: &[Subscript], expected: impl Iterator<Item = &'r Ranged>) -> bool {
    subscripts.iter().zip(expected).all(|(s, range)| kernel.exprs[s.index].kind == ExprKind::Variable(range.variable))
}

/// Where the reduced variables stand among those of the left side, by the first read that has all of them in order.
fn numbering_of_columns(kernel: &Kernel, statement: &Statement, reduce: &Reduce) -> Option<Numbering> {
    let rank = statement.variables.len();
    let first = reduce.variables.first()?;
    walk::reads(kernel, reduce.body).into_iter().find_map(|read| {
        let ExprKind::Read { subscripts, .. } = &kernel.exprs[read].kind else { return None };
        let before = subscripts.iter().position(|s| kernel.exprs[s.index].kind == ExprKind::Variable(first.variable))?;
        let numbering = Numbering { before, after: rank.checked_sub(before)?, pieces: 0 };
        let whole = subscripts.len() == rank + reduce.variables.len();
        let fits = whole && before < rank && own(kernel, subscripts, numbering.join(&statement.variables, &reduce.variables));
        fits.then_some(numbering)
    })
}

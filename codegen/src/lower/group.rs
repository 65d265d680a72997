//! Which statements share a launch, and by which schedule each group is computed.

mod rows;
mod sweep;
mod together;

use gpukc_dsl::program::{ExprId, ExprKind, Kernel, Order, Ranged, Reduce, Statement, StatementKind};

use super::rows::Tile;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::size;
use crate::target::Target;
use crate::walk;

pub use rows::Numbering;
pub use together::share_variables;

/// A way to compute a group of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// A thread per element, or per few neighbouring elements; reductions inside are serial.
    Map,
    /// Tiles through shared memory, for a map whose input and output run along different dimensions.
    Transpose,
    /// Reductions along one dimension and what depends on them: a warp or a block per row, or, where a row is a column of a matrix,
    /// a block for a tile of them.
    Rows,
    /// Reductions with few results or many terms of each, those that go over the same arrays together: a warp per block of 4,096 terms,
    /// or four, levels in launches of their own.
    Split,
    /// Reductions along a strided dimension: threads side by side along the contiguous one.
    Columns,
    /// Reductions of which each result has a range of its own: some lanes, a warp or a block for each.
    Ragged,
    /// Register tiles over shared-memory tiles, for sharing reductions.
    Contract,
    /// Blocks scanned in one pass, each of which waits for the totals of those before; tiles of columns, each by one block or in pieces;
    /// or a thread for each scan of few terms.
    Scan,
    /// Atomic combinations into an array.
    Accumulate,
}

/// Statements, by number, that one schedule computes together.
#[derive(Clone, Debug)]
pub struct Group {
    /// In order.
    pub statements: Vec<usize>,
    /// How.
    pub schedule: Schedule,
    /// For [`Schedule::Rows`]: which variables number the rows.
    pub numbering: Numbering,
    /// The same where rows run along a strided dimension: how a block holds a tile of them.
    pub tile: Option<Tile>,
}

/// Cuts the statements into groups, in order but for those that stand between reductions which share a sweep.
pub fn group(kernel: &Kernel, facts: &Facts, target: Target) -> Vec<Group> {
    let mut groups = Vec::new();
    add_groups(kernel, facts, target, (0..kernel.statements.len()).collect(), &mut groups);
    groups
}

fn add_groups(kernel: &Kernel, facts: &Facts, target: Target, mut pending: Vec<usize>, groups: &mut Vec<Group>) {
    while let Some(&first) = pending.first() {
        if let Some(group) = rows::rows_from(kernel, facts, target, &pending) {
            pending.drain(..group.statements.len());
            groups.push(group);
            continue;
        }
        let schedule = schedule(kernel, facts, &kernel.statements[first]);
        let statements = match schedule {
            Schedule::Split => {
                let cut = sweep::cut(kernel, facts, schedule, &pending);
                add_groups(kernel, facts, target, cut.before, groups);
                pending = cut.after;
                cut.sweep
            }
            Schedule::Map => {
                let maps = together::together(kernel, facts, target, &pending);
                pending.drain(..maps.len());
                maps
            }
            _ => pending.drain(..1).collect(),
        };
        groups.push(Group { statements, schedule, numbering: Numbering::default(), tile: None });
    }
}

/// The one reduction of a statement that makes up its whole space, with what surrounds it as its epilogue.
pub fn only_reduction<'k>(kernel: &'k Kernel, statement: &Statement) -> Option<(ExprId, &'k Reduce)> {
    let (id, reduce) = only_reduction_or_nested(kernel, statement)?;
    let nested = walk::has_reduction(kernel, reduce.body) || reduce.filter.is_some_and(|f| walk::has_reduction(kernel, f));
    (!nested).then_some((id, reduce))
}

/// The same, where the reduction's own body may hold others, which are computed in place.
pub fn only_reduction_or_nested<'k>(kernel: &'k Kernel, statement: &Statement) -> Option<(ExprId, &'k Reduce)> {
    let mut found = Vec::new();
    walk::walk(kernel, statement.value, &mut |id| {
        let is = matches!(kernel.exprs[id].kind, ExprKind::Reduce(_));
        if is {
            found.push(id);
        }
        !is
    });
    let [id] = found.as_slice() else { return None };
    let ExprKind::Reduce(reduce) = &kernel.exprs[*id].kind else { return None };
    (!is_guarded(kernel, statement.value, *id)).then_some((*id, reduce.as_ref()))
}

/// Whether `inner` stands where it may be left unevaluated.
fn is_guarded(kernel: &Kernel, outer: ExprId, inner: ExprId) -> bool {
    let mut stack = vec![(outer, false)];
    while let Some((id, guarded)) = stack.pop() {
        if id == inner {
            return guarded;
        }
        stack.extend(walk::operands(kernel, id).into_iter().map(|(operand, g)| (operand, guarded || g)));
    }
    false
}

/// Whether the left side is plain: each variable once, in order, from 0 over the whole dimension.
pub fn is_plain(kernel: &Kernel, facts: &Facts, statement: &Statement) -> bool {
    let array = &kernel.arrays[statement.array];
    statement.kind == StatementKind::Define
        && statement.subscripts.len() == statement.variables.len()
        && statement.subscripts.iter().zip(&statement.variables).zip(&array.shape).all(|((subscript, range), extent)| {
            kernel.exprs[subscript.index].kind == ExprKind::Variable(range.variable)
                && size::formula(kernel, facts, range.lo) == Some(Formula::Constant(0))
                && size::formula(kernel, facts, range.hi) == size::formula(kernel, facts, *extent)
                && size::formula(kernel, facts, *extent).is_some()
        })
}

fn schedule(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Schedule {
    if super::accumulates(statement.kind) {
        return Schedule::Accumulate;
    }
    if !is_plain(kernel, facts, statement) {
        return Schedule::Map;
    }
    let scan = only_reduction_or_nested(kernel, statement);
    if scan.is_some_and(|(_, reduce)| super::scan::applies(kernel, facts, statement, reduce)) {
        return Schedule::Scan;
    }
    if super::ragged::applies(kernel, facts, statement) {
        return Schedule::Ragged;
    }
    match only_reduction(kernel, statement) {
        Some((_, reduce)) => match reduce.order {
            Order::Sharing(_) if super::contract::applies(kernel, facts, statement, reduce) => Schedule::Contract,
            Order::Sharing(_) | Order::Scan(_) => Schedule::Map,
            Order::Exact | Order::Canonical => reduction_schedule(kernel, facts, statement, reduce),
        },
        None if super::transpose::applies(kernel, facts, statement) => Schedule::Transpose,
        None => Schedule::Map,
    }
}

/// Most terms of a reduction that each thread of a map does by itself.
const FEW_TERMS: i64 = 64;

/// Whether a reduction is over a small window around the element: neighbouring outputs share most of their terms.
fn is_small_window(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> bool {
    let few = product(kernel, facts, &reduce.variables).and_then(|n| n.constant()).is_some_and(|n| n <= FEW_TERMS);
    let both = |id: ExprId| {
        let mentions = |ranges: &[Ranged]| ranges.iter().any(|v| walk::mentions(kernel, id, v.variable));
        mentions(&reduce.variables) && mentions(&statement.variables)
    };
    few && walk::reads(kernel, reduce.body).into_iter().any(|read| match &kernel.exprs[read].kind {
        ExprKind::Read { subscripts, .. } => subscripts.iter().any(|s| both(s.index)),
        _ => false,
    })
}

fn reduction_schedule(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> Schedule {
    let launchable = reduce.variables.iter().all(|v| size::extent(kernel, facts, v).is_some());
    if !launchable || is_small_window(kernel, facts, statement, reduce) {
        return Schedule::Map;
    }
    if statement.variables.is_empty() {
        return Schedule::Split;
    }
    match axis(kernel, facts, statement, reduce) {
        Axis::Contiguous => Schedule::Split,
        Axis::Strided => Schedule::Columns,
        Axis::Neither => Schedule::Map,
    }
}

/// Along which dimension a reduction's reads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The fastest reduced variable steps by one element.
    Contiguous,
    /// The fastest left-side variable steps by one element.
    Strided,
    /// Neither does.
    Neither,
}

/// How many of a reduction's reads run along each axis. What all results share comes from the cache and has no say, unless there is
/// nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    contiguous: usize,
    strided: usize,
    other: usize,
}

impl Tally {
    pub fn of(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> Tally {
        let mut tally = Tally::default();
        let (Some(inner), Some(outer)) = (reduce.variables.last(), statement.variables.last()) else { return tally };
        let terms = reduce.filter.into_iter().chain([reduce.body]);
        let reads: Vec<ExprId> = terms.flat_map(|term| walk::reads(kernel, term)).collect();
        let of_result = |read: &ExprId| statement.variables.iter().any(|v| walk::mentions(kernel, *read, v.variable));
        let all_shared = !reads.iter().any(of_result);
        for read in reads.into_iter().filter(|read| all_shared || of_result(read)) {
            let ExprKind::Read { subscripts, .. } = &kernel.exprs[read].kind else { continue };
            if !walk::mentions(kernel, read, inner.variable) {
                continue;
            }
            let Some(last) = subscripts.last().and_then(|s| size::linear(kernel, facts, s.index)) else {
                tally.other += 1;
                continue;
            };
            let one = Formula::Constant(1);
            match (last.coefficient(inner.variable) == one, last.coefficient(outer.variable) == one) {
                (true, _) => tally.contiguous += 1,
                (false, true) => tally.strided += 1,
                (false, false) => tally.other += 1,
            }
        }
        tally
    }
    /// Whether nothing runs along the results instead of along the terms, or less does.
    pub fn runs_along(self) -> bool {
        self.strided == 0 || self.contiguous > self.strided
    }
}

/// The axis of a reduction, by the majority of its reads.
pub fn axis(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> Axis {
    let Tally { contiguous, strided, other } = Tally::of(kernel, facts, statement, reduce);
    if contiguous >= strided && contiguous >= other {
        Axis::Contiguous
    } else if strided >= other {
        Axis::Strided
    } else {
        Axis::Neither
    }
}

/// The product of extents, if all are formulas.
pub fn product(kernel: &Kernel, facts: &Facts, ranges: &[Ranged]) -> Option<Formula> {
    ranges.iter().try_fold(Formula::Constant(1), |n, range| Some(n.times(size::extent(kernel, facts, range)?)))
}

/// Whether all variables start at 0, so that their number is where they stand.
pub fn from_zero(kernel: &Kernel, facts: &Facts, ranges: &[Ranged]) -> bool {
    ranges.iter().all(|range| size::formula(kernel, facts, range.lo) == Some(Formula::Constant(0)))
}

/// How many of some variables number pieces of memory along which the others run together in all of `values`: none where all run
/// together, as many as there are where not even the last does.
pub fn pieces(kernel: &Kernel, facts: &Facts, values: &[ExprId], variables: &[Ranged]) -> usize {
    let flat = |from: &usize| {
        let inner = &variables[*from..];
        from_zero(kernel, facts, inner) && values.iter().all(|value| is_flat(kernel, facts, *value, inner))
    };
    (0..variables.len()).find(flat).unwrap_or(variables.len())
}

/// Whether several variables run together in every read of `value`, and stand nowhere else; one variable always does.
pub fn is_flat(kernel: &Kernel, facts: &Facts, value: ExprId, variables: &[Ranged]) -> bool {
    if variables.len() <= 1 {
        return true;
    }
    let mut flat = true;
    walk::walk(kernel, value, &mut |id| match &kernel.exprs[id].kind {
        ExprKind::Variable(variable) => {
            flat &= variables.iter().all(|v| v.variable != *variable);
            false
        }
        ExprKind::Read { array, subscripts } => {
            let access = super::read::access(kernel, facts, *array, subscripts);
            let mentioned = variables.iter().any(|v| walk::mentions(kernel, id, v.variable));
            flat &=
                !mentioned || access.is_some_and(|access| super::read::flat_coefficient(kernel, facts, &access, variables).is_some());
            false
        }
        _ => true,
    });
    flat
}

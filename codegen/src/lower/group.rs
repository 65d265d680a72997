//! Which statements share a launch, and by which schedule each group is computed.

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Kernel, Order, Ranged, Reduce, Statement, StatementKind};

use crate::facts::Facts;
use crate::formula::Formula;
use crate::size;
use crate::walk;

/// A way to compute a group of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// A thread per element, or per few neighbouring elements; reductions inside are serial.
    Map,
    /// Tiles through shared memory, for a map whose input and output run along different dimensions.
    Transpose,
    /// A warp or a block per row: reductions along the contiguous dimension and what depends on them.
    Rows,
    /// Reductions with few results: a warp per block of 4,096 terms, levels in launches of their own.
    Split,
    /// Reductions along a strided dimension: threads side by side along the contiguous one.
    Columns,
    /// Register tiles over shared-memory tiles, for sharing reductions.
    Contract,
    /// Blocks scanned in one pass, each of which waits for the totals of those before.
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
    /// For [`Schedule::Rows`]: how many of the leading variables number the rows.
    pub rows: usize,
}

/// Cuts the statements into groups, in order.
pub fn group(kernel: &Kernel, facts: &Facts) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut next = 0;
    while next < kernel.statements.len() {
        let group = rows_from(kernel, facts, next).unwrap_or_else(|| {
            let schedule = schedule(kernel, facts, &kernel.statements[next]);
            Group { statements: vec![next], schedule, rows: 0 }
        });
        next += group.statements.len();
        groups.push(group);
    }
    groups
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

/// The axis of a reduction, by the majority of its reads. What all results share comes from the cache and has no say, unless there
/// is nothing else.
pub fn axis(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> Axis {
    let (Some(inner), Some(outer)) = (reduce.variables.last(), statement.variables.last()) else { return Axis::Contiguous };
    let (mut contiguous, mut strided, mut other) = (0, 0, 0);
    let reads = walk::reads(kernel, reduce.body);
    let of_result = |read: &ExprId| statement.variables.iter().any(|v| walk::mentions(kernel, *read, v.variable));
    let all_shared = !reads.iter().any(of_result);
    for read in reads.into_iter().filter(|read| all_shared || of_result(read)) {
        let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
        if !walk::mentions(kernel, read, inner.variable) {
            continue;
        }
        let Some(last) = subscripts.last().and_then(|s| size::linear(kernel, facts, s.index)) else {
            other += 1;
            continue;
        };
        let _ = array;
        let one = Formula::Constant(1);
        match (last.coefficient(inner.variable) == one, last.coefficient(outer.variable) == one) {
            (true, _) => contiguous += 1,
            (false, true) => strided += 1,
            (false, false) => other += 1,
        }
    }
    if contiguous >= strided && contiguous >= other {
        Axis::Contiguous
    } else if strided >= other {
        Axis::Strided
    } else {
        Axis::Neither
    }
}

/// A group of row statements starting at `first`, if there is one.
fn rows_from(kernel: &Kernel, facts: &Facts, first: usize) -> Option<Group> {
    let statement = &kernel.statements[first];
    let shape = RowShape::of_reduction(kernel, facts, statement)?;
    let mut statements = vec![first];
    for (next, candidate) in kernel.statements.iter().enumerate().skip(first + 1) {
        if !shape.takes(kernel, facts, candidate, &statements) {
            break;
        }
        statements.push(next);
    }
    // Few long rows would leave most of a GPU idle; a lone reduction of them is split instead.
    let few = facts.below(&shape.row_count(), 256) && facts.at_least(&shape.extent, 1 << 15);
    let reductions = statements.iter().filter(|s| only_reduction(kernel, &kernel.statements[**s]).is_some()).count();
    if few && reductions == 1 && statements.len() == 1 {
        return None;
    }
    // A single huge row per block would run on one multiprocessor.
    if facts.below(&shape.row_count(), 16) && facts.at_least(&shape.extent, 1 << 17) {
        return None;
    }
    Some(Group { statements, schedule: Schedule::Rows, rows: shape.rows.len() })
}

/// What the statements of a group have in common: where rows start and how many there are, and a row's terms.
#[derive(PartialEq)]
struct RowShape {
    starts: Vec<Formula>,
    rows: Vec<Formula>,
    extent: Formula,
}

impl RowShape {
    fn row_count(&self) -> Formula {
        self.rows.iter().cloned().fold(Formula::Constant(1), |n, r| n.times(r))
    }

    fn of_reduction(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<RowShape> {
        if !is_plain(kernel, facts, statement) || statement.variables.is_empty() {
            return None;
        }
        let (_, reduce) = only_reduction(kernel, statement)?;
        if is_small_window(kernel, facts, statement, reduce) {
            return None;
        }
        if !matches!(reduce.order, Order::Exact | Order::Canonical) || axis(kernel, facts, statement, reduce) != Axis::Contiguous {
            return None;
        }
        let rows = statement.variables.iter().map(|v| size::extent(kernel, facts, v)).collect::<Option<Vec<_>>>()?;
        let extent = product(kernel, facts, &reduce.variables)?;
        let starts = statement.variables.iter().map(|v| size::formula(kernel, facts, v.lo)).collect::<Option<Vec<_>>>()?;
        let flat = from_zero(kernel, facts, &reduce.variables) && is_flat(kernel, facts, statement.value, &reduce.variables);
        flat.then_some(RowShape { starts, rows, extent })
    }

    /// Whether a later statement can join the rows of `group`.
    fn takes(&self, kernel: &Kernel, facts: &Facts, statement: &Statement, group: &[usize]) -> bool {
        if !is_plain(kernel, facts, statement) || walk::can_fail(kernel, statement.value) {
            return false;
        }
        let inner = if let Some(other) = RowShape::of_reduction(kernel, facts, statement) {
            if other != *self {
                return false;
            }
            only_reduction(kernel, statement).map(|(_, r)| r.variables.clone()).unwrap_or_default()
        } else {
            if walk::has_reduction(kernel, statement.value) || statement.variables.len() < self.rows.len() {
                return false;
            }
            let (rows, inner) = statement.variables.split_at(self.rows.len());
            let rows: Option<Vec<_>> = rows.iter().map(|v| size::extent(kernel, facts, v)).collect();
            let per_row = inner.is_empty();
            let starts: Option<Vec<_>> =
                statement.variables[..self.rows.len()].iter().map(|v| size::formula(kernel, facts, v.lo)).collect();
            if rows.as_ref() != Some(&self.rows) || starts.as_ref() != Some(&self.starts) {
                return false;
            }
            let whole = || product(kernel, facts, inner) == Some(self.extent.clone()) && from_zero(kernel, facts, inner);
            if !(per_row || whole() && is_flat(kernel, facts, statement.value, inner)) {
                return false;
            }
            inner.to_vec()
        };
        let rows = &statement.variables[..self.rows.len()];
        self.reads_own_row(kernel, statement, rows, &inner, group)
    }

    /// Whether every read of an array of the group stays in the statement's own row, at its own position.
    fn reads_own_row(&self, kernel: &Kernel, statement: &Statement, rows: &[Ranged], inner: &[Ranged], group: &[usize]) -> bool {
        let defined: Vec<ArrayId> = group.iter().map(|s| kernel.statements[*s].array).collect();
        if defined.contains(&statement.array) {
            return false;
        }
        walk::reads(kernel, statement.value).into_iter().all(|read| {
            let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { return true };
            let expected = rows.iter().chain(inner).take(subscripts.len());
            !defined.contains(array)
                || subscripts.len() == rows.len() && own(kernel, subscripts, expected)
                || subscripts.len() == rows.len() + inner.len() && own(kernel, subscripts, rows.iter().chain(inner))
        })
    }
}

fn own<'r>(kernel: &Kernel, subscripts: &[gpukc_dsl::program::Subscript], expected: impl Iterator<Item = &'r Ranged>) -> bool {
    subscripts.iter().zip(expected).all(|(s, range)| kernel.exprs[s.index].kind == ExprKind::Variable(range.variable))
}

/// The product of extents, if all are formulas.
pub fn product(kernel: &Kernel, facts: &Facts, ranges: &[Ranged]) -> Option<Formula> {
    ranges.iter().try_fold(Formula::Constant(1), |n, range| Some(n.times(size::extent(kernel, facts, range)?)))
}

/// Whether all variables start at 0, so that their number is where they stand.
pub fn from_zero(kernel: &Kernel, facts: &Facts, ranges: &[Ranged]) -> bool {
    ranges.iter().all(|range| size::formula(kernel, facts, range.lo) == Some(Formula::Constant(0)))
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

//! Which statements are ragged, and how many lanes a row gets: by the terms that it has on average, as far as extents and bounds tell
//! before data is known.

use gpukc_dsl::program::{ExprId, ExprKind, Kernel, Order, Ranged, Reduce, Statement};
use gpukc_dsl::types::{BinaryOp, Builtin};

use super::THREADS;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::lower::group::{Tally, product};
use crate::lower::split::BLOCK;
use crate::size::{self, Linear};
use crate::walk;

/// A range that never has more terms is for a thread: neighbouring windows share theirs.
const WINDOW: i64 = 64;
/// Rows of fewer terms on average are for a thread each, too: what lanes need to meet costs more than their loads gain.
const FEWEST: i64 = 8;
/// Rows of fewer terms on average get some lanes of a warp instead of all.
const SHORT: i64 = 48;
const SHORT_LANES: i64 = 8;
/// From so many terms on, the threads of a block have enough of them; and where rows are few, from so many on.
const LONG: i64 = 4 * BLOCK;
const LONG_OF_FEW: i64 = 512;
const FEW_ROWS: i64 = 1024;

/// How threads lie over rows.
#[derive(Clone, Copy)]
pub enum Layout {
    /// So many lanes of a warp have a row.
    Lanes(i64),
    /// A block has a row.
    Block,
}

impl Layout {
    /// The layout of a statement's rows.
    pub fn choose(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Layout {
        let terms = reductions(kernel, statement.value).and_then(|found| {
            let terms = |id: &ExprId| terms(kernel, facts, statement, reduce(kernel, *id)?);
            found.iter().filter_map(terms).reduce(Formula::max)
        });
        let rows = product(kernel, facts, &statement.variables);
        let few = rows.as_ref().is_some_and(|rows| facts.below(rows, FEW_ROWS));
        let single = rows.is_some_and(|rows| rows.constant() == Some(1));
        match terms {
            _ if single => Layout::Block,
            Some(terms) if facts.at_least(&terms, if few { LONG_OF_FEW } else { LONG }) => Layout::Block,
            Some(terms) if facts.below(&terms, SHORT) => Layout::Lanes(SHORT_LANES),
            _ => Layout::Lanes(32),
        }
    }

    pub fn rows_per_block(self) -> i64 {
        match self {
            Layout::Lanes(lanes) => THREADS / lanes,
            Layout::Block => 1,
        }
    }

    /// The launch's comment.
    pub fn notes(self) -> Vec<String> {
        let first = match self {
            Layout::Block => {
                return vec!["Rows of any length, which data or the row's number gives: a block of threads a row.".into()];
            }
            Layout::Lanes(32) => "a warp a row;".into(),
            Layout::Lanes(lanes) => format!("{lanes} lanes a row;"),
        };
        vec![
            format!("Rows of any length, which data or the row's number gives: {first} neighbouring lanes load"),
            "neighbouring terms, several of them before the first is needed. Rows of more than 4,096 terms come last, one after"
                .into(),
            "the other by all threads of the block.".into(),
        ]
    }
}

fn reduce(kernel: &Kernel, id: ExprId) -> Option<&Reduce> {
    if let ExprKind::Reduce(reduce) = &kernel.exprs[id].kind { Some(reduce) } else { None }
}

/// A value's reductions, if all are evaluated wherever the value is and none stands in another.
pub fn reductions(kernel: &Kernel, value: ExprId) -> Option<Vec<ExprId>> {
    let (mut found, mut pending) = (Vec::new(), vec![(value, false)]);
    while let Some((id, guarded)) = pending.pop() {
        let below = walk::operands(kernel, id);
        if matches!(kernel.exprs[id].kind, ExprKind::Reduce(_)) {
            if guarded || below.iter().any(|(operand, _)| walk::has_reduction(kernel, *operand)) {
                return None;
            }
            found.push(id);
            continue;
        }
        pending.extend(below.into_iter().rev().map(|(operand, g)| (operand, guarded || g)));
    }
    (!found.is_empty()).then_some(found)
}

/// Whether a statement's reductions are of ranges that differ from result to result, and run along them.
pub fn applies(kernel: &Kernel, facts: &Facts, statement: &Statement) -> bool {
    let hinted = statement.attributes.block.is_some() || statement.attributes.unroll.is_some();
    let Some(found) = reductions(kernel, statement.value).filter(|_| !hinted) else { return false };
    let all: Vec<&Reduce> = found.iter().filter_map(|id| reduce(kernel, *id)).collect();
    let ragged = |reduce: &&Reduce| reduce.variables.iter().any(|v| size::extent(kernel, facts, v).is_none());
    all.iter().any(ragged)
        && all.iter().all(|reduce| {
            let runs_along = || Tally::of(kernel, facts, statement, reduce).runs_along();
            let few = || terms(kernel, facts, statement, reduce).is_some_and(|terms| facts.below(&terms, FEWEST));
            let window = || most(kernel, facts, reduce).is_some_and(|terms| terms <= WINDOW);
            matches!(reduce.order, Order::Exact | Order::Canonical) && runs_along() && !few() && !window()
        })
}

/// What a bound is at most (`hi`) or at least, as linear forms: of `min(i + 3, n)` either.
fn limits(kernel: &Kernel, facts: &Facts, bound: ExprId, hi: bool) -> Vec<Linear> {
    let narrowing = if hi { Builtin::Min } else { Builtin::Max };
    match &kernel.exprs[bound].kind {
        ExprKind::Builtin(builtin, arguments) if *builtin == narrowing => {
            arguments.iter().flat_map(|argument| limits(kernel, facts, *argument, hi)).collect()
        }
        // `i..=min(i + 2, n - 1)` ends at that plus one.
        ExprKind::Binary(BinaryOp::Add, a, b) => {
            let rest = limits(kernel, facts, *b, hi);
            let plus = |a: Linear| rest.iter().map(move |b| a.clone().plus(b.clone())).collect::<Vec<_>>();
            limits(kernel, facts, *a, hi).into_iter().flat_map(plus).collect()
        }
        _ => size::linear(kernel, facts, bound).into_iter().collect(),
    }
}

/// What the number of a range's values does not exceed, by its bounds.
fn lengths(kernel: &Kernel, facts: &Facts, range: &Ranged) -> Vec<Linear> {
    let negated = |lo: Linear| lo.times(&Formula::Constant(-1));
    let lows: Vec<Linear> = limits(kernel, facts, range.lo, false).into_iter().map(negated).collect();
    let from = |hi: Linear| lows.iter().map(move |lo| hi.clone().plus(lo.clone())).collect::<Vec<_>>();
    limits(kernel, facts, range.hi, true).into_iter().flat_map(from).collect()
}

/// Most terms of a reduction, if that is the same number wherever the row stands.
fn most(kernel: &Kernel, facts: &Facts, reduce: &Reduce) -> Option<i64> {
    reduce.variables.iter().try_fold(1i64, |terms, range| {
        let constant = |length: &Linear| length.terms.is_empty().then(|| length.constant.constant()).flatten();
        terms.checked_mul(lengths(kernel, facts, range).iter().filter_map(constant).min()?)
    })
}

/// About how many terms a row has on average.
fn terms(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> Option<Formula> {
    let each =
        |range: &Ranged| by_bounds(kernel, facts, statement, range).or_else(|| by_extents(kernel, facts, statement, reduce, range));
    reduce.variables.iter().try_fold(Formula::Constant(1), |terms, range| Some(terms.times(each(range)?)))
}

/// The same of a range, by its bounds in the middle of the variables that they mention.
fn by_bounds(kernel: &Kernel, facts: &Facts, statement: &Statement, range: &Ranged) -> Option<Formula> {
    let middle = |length: Linear| {
        length.terms.into_iter().try_fold(length.constant, |sum, (variable, coefficient)| {
            let of_row = statement.variables.iter().find(|v| v.variable == variable)?;
            let extent = size::extent(kernel, facts, of_row)?;
            Some(sum.plus(coefficient.times(extent).div_floor(2)))
        })
    };
    lengths(kernel, facts, range).into_iter().filter_map(middle).reduce(Formula::min).map(|terms| terms.max(0))
}

/// The same where data gives the bounds, by an array along which the range runs: its rows share it, unless each has one of its own.
fn by_extents(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce, range: &Ranged) -> Option<Formula> {
    let values = reduce.filter.into_iter().chain([reduce.body]);
    let mentioned = |id: ExprId| statement.variables.iter().filter(move |v| walk::mentions(kernel, id, v.variable)).copied();
    values.flat_map(|value| walk::reads(kernel, value)).find_map(|read| {
        let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { return None };
        let axis = subscripts.iter().position(|s| kernel.exprs[s.index].kind == ExprKind::Variable(range.variable))?;
        let extent = size::formula(kernel, facts, kernel.arrays[*array].shape[axis])?;
        if mentioned(read).next().is_some() {
            return Some(extent.div_floor(2));
        }
        let rows: Vec<Ranged> = mentioned(range.lo).chain(mentioned(range.hi)).collect();
        let rows: Vec<Ranged> = rows.iter().enumerate().filter(|(at, v)| !rows[..*at].contains(v)).map(|(_, v)| *v).collect();
        Some(extent.div_floor(product(kernel, facts, &rows)?.max(1)))
    })
}

//! Ragged: reductions of which each result has a range of its own: rows that data delimits (`k in start[i]..start[i + 1]`), triangles.
//!
//! - *lanes*: neighbouring lanes of a warp take neighbouring terms of a row, a warp a row, or some lanes of it where rows are short
//!   (`ragged/lanes.rs`). That is for rows of up to a block of the canonical order; what is longer, all warps of the block take
//!   together when the others are on their way, so that a few long rows among many short ones do not keep a warp each busy for ever;
//! - *block*: a block of threads a row, where rows are long, or few.
//!
//! Which of them is decided by how many terms a row has on average, as far as extents tell (`ragged/shape.rs`).

mod lanes;
mod range;
mod shape;

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::Type;

use self::lanes::Lanes;
use self::range::{Pass, passes};
use self::shape::Layout;
use super::context::Lowering;
use super::group::Group;
use super::levels::total_of_block;
use super::map::{store_element, suffix};
use super::split::{BLOCK, bind_results};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, call, int, name};

pub use shape::applies;

/// Threads of a block.
const THREADS: i64 = 256;
const WARPS: i64 = THREADS / 32;
/// Groups of as many threads as a block of the canonical order has accumulators.
const GROUPS: i64 = 2;

/// Lowers reductions over ranges that differ from result to result.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        lowering.begin_launch(&[statement.array]);
        lowering.computes_over(&statement.variables);
        lowering.passes_over([&statement]);
        let passes = passes(lowering, &statement)?;
        let layout = Layout::choose(lowering.kernel, lowering.facts, &statement);
        let rows = lowering.points(&statement.variables)?;
        match layout {
            Layout::Lanes(lanes) => by_lanes(lowering, &statement, &passes, lanes, &rows)?,
            Layout::Block => {
                let row = lowering.local("row", lowering.index_type(), lowering.block_number().cast(lowering.index_type()));
                by_block(lowering, &statement, &passes, &row, false)?;
            }
        }
        let suffix = suffix(lowering, &statement);
        let mut notes = layout.notes();
        notes.extend(lowering.block_order_note());
        let grid = [rows.div_ceil(layout.rows_per_block()), 1.into(), 1.into()];
        lowering.end_launch(&suffix, "ragged", notes, grid, [THREADS as u32, 1, 1]);
    }
    Ok(())
}

fn thread() -> Expr {
    name("threadIdx.x").cast(Type::I32)
}

/// Some lanes have a row; what is too long for them is left to the block.
fn by_lanes(lowering: &mut Lowering, statement: &Statement, passes: &[Pass], lanes: i64, rows: &Formula) -> Result<(), Error> {
    let (ty, rows_per_block) = (lowering.index_type(), THREADS / lanes);
    let rows = lowering.size(rows, "rows");
    let first_row = lowering.local("first_row", ty, lowering.block_number().cast(ty) * int(rows_per_block));
    let place = lowering.local("place", ty, first_row.clone() + thread() / int(lanes));
    let live = lowering.local("live", Type::Bool, place.clone().less(rows.clone()));
    let lane = lowering.local("lane", Type::I32, thread() % int(lanes));
    // Threads without a row look at the first one's range, which is there, and take nothing of it.
    let row = lowering.local("row", ty, live.clone().choose(place, int(0)));
    bind_results(lowering, &statement.variables, &row)?;
    let ranges = passes.iter().map(|pass| pass.range(lowering)).collect::<Result<Vec<_>, _>>()?;
    let fits = ranges.iter().map(|range| range.terms.clone().binary("<=", int(BLOCK))).reduce(Expr::and);
    let fits = lowering.local("fits", Type::Bool, fits.unwrap_or(Expr::Bool(true)));
    let is_long = lowering.shared("is_long", Type::Bool, vec![WARPS as u32]);
    let long_here = call("any_lane", vec![live.clone().and(Expr::Unary("!", Box::new(fits.clone())))]);
    let long_here = lowering.local("long_here", Type::Bool, long_here);
    let tell = Node::Assign(is_long.clone().at(thread() / int(32)), long_here);
    lowering.push(Node::If { condition: (thread() % int(32)).binary("==", int(0)), then: vec![tell], otherwise: Vec::new() });
    lowering.push(Node::Barrier);
    let takes = lowering.local("takes", Type::Bool, live.and(fits));
    for (pass, range) in passes.iter().zip(&ranges) {
        let count = lowering.local("count", Type::I32, takes.clone().choose(range.terms.clone().cast(Type::I32), int(0)));
        Lanes::begin(lowering, (pass, range), (lanes, lane.clone()), count)?.reduce(lowering)?;
    }
    lowering.when(takes.and(lane.binary("==", int(0))), |lowering| store(lowering, statement))?;
    release(lowering);
    let some_long = (0..WARPS).map(|warp| is_long.clone().at(int(warp))).reduce(|a, b| a.binary("|", b));
    lowering.when(some_long.unwrap_or(Expr::Bool(false)), |lowering| {
        let end = lowering.local("rows_here", ty, call("minimum", vec![rows - first_row.clone(), int(rows_per_block).cast(ty)]));
        lowering.each("at", ty, [int(0), end, int(1)], Unroll::By(1), |lowering, at| {
            let row = lowering.local("long_row", ty, first_row + at);
            by_block(lowering, statement, passes, &row, true)
        })
    })
}

/// The block has a row, which all of its threads know: any, or one that is too long for some lanes.
fn by_block(lowering: &mut Lowering, statement: &Statement, passes: &[Pass], row: &Expr, long: bool) -> Result<(), Error> {
    bind_results(lowering, &statement.variables, row)?;
    let ranges = passes.iter().map(|pass| pass.range(lowering)).collect::<Result<Vec<_>, _>>()?;
    let longer = ranges.iter().map(|range| int(BLOCK).less(range.terms.clone())).reduce(|a, b| a.binary("||", b));
    lowering.when_some(longer.filter(|_| long), |lowering| {
        for (pass, range) in passes.iter().zip(&ranges) {
            range.settle(lowering);
            for member in &pass.members {
                let (terms, wish) = (range.terms.clone(), pass.wish(lowering.kernel));
                let total = total_of_block(lowering, &member.reduction, terms, (GROUPS, &wish), |lowering, term, part| {
                    range.bind(lowering, pass, term)?;
                    lowering.accumulate(&member.reduction, part)
                })?;
                member.keep(lowering, total);
            }
        }
        lowering.when(name("threadIdx.x").binary("==", int(0)), |lowering| store(lowering, statement))?;
        release(lowering);
        Ok(())
    })
}

/// Stores the row's value, its reductions being known.
fn store(lowering: &mut Lowering, statement: &Statement) -> Result<(), Error> {
    let pointer = lowering.pointer(statement.array);
    store_element(lowering, statement, pointer)
}

/// What was found of a row holds no longer.
fn release(lowering: &mut Lowering) {
    lowering.computed.clear();
    lowering.in_range.clear();
}

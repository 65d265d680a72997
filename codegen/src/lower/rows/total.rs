//! Reductions along a row: the total, in every thread of the row.

mod columns;

use gpukc_dsl::program::{Order, Ranged};
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::levels::{deliver, total_of_block};
use super::super::reduction::Reduction;
use super::layout::{ACCUMULATORS, Layout};
use super::visit::{Beyond, Row, positions};
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, call, int, name};

/// The reduction's accumulator over the whole row, in every thread of it; by lane, where a thread has several rows.
pub type Total = Box<dyn Fn(&Expr) -> Expr>;

/// Reduces each row.
pub fn total(lowering: &mut Lowering, row: &Row, reduction: &Reduction, inner: &[Ranged]) -> Result<Total, Error> {
    if let Some(narrow) = row.layout.positions().and_then(|terms| lowering.narrow_sum(reduction, terms)) {
        let (total, ty) = (total(lowering, row, &narrow, inner)?, reduction.result);
        return Ok(Box::new(move |lane| total(lane).cast(ty)));
    }
    if let Layout::Columns(tile) = row.layout {
        return columns::total(lowering, row, tile, reduction, inner);
    }
    let total = total_of_row(lowering, row, reduction, inner)?;
    Ok(Box::new(move |_| total.clone()))
}

fn total_of_row(lowering: &mut Lowering, row: &Row, reduction: &Reduction, inner: &[Ranged]) -> Result<Expr, Error> {
    let wish = format!("{}_part", reduction.reduce.reducer.name());
    let ty = reduction.accumulator.clone();
    let exact = matches!(reduction.reduce.order, Order::Exact);
    match row.layout {
        Layout::Lanes { lanes, packs, warps, .. } => {
            // What any order serves needs no accumulator for each pack.
            let packs = if exact { 1 } else { packs };
            let parts = accumulators(lowering, reduction, &wish, 4 * packs)?;
            positions(lowering, row, inner, Beyond::Nothing, |lowering, spot| {
                let part = spot.pack.filter(|_| exact).map_or(spot.own, |(_, part)| part);
                lowering.accumulate(reduction, parts.clone().at(part))
            })?;
            let part = |index| parts.clone().at(int(index));
            if warps > 1 {
                let own = reduction.tree((0..4).map(part).collect());
                let own = lowering.variable(&format!("{}_of_lane", reduction.reduce.reducer.name()), ty, Some(own));
                let total = of_warps(lowering, reduction, own, warps);
                return Ok(reduction.settle(total));
            }
            // Packs are further apart than the lanes of a pack: in the lane, across lanes, then across packs.
            let values: Vec<Expr> = (0..packs)
                .map(|pack| {
                    let low = reduction.combine(part(4 * pack), part(4 * pack + 1));
                    let high = reduction.combine(part(4 * pack + 2), part(4 * pack + 3));
                    across(reduction, lanes, reduction.combine(low, high))
                })
                .collect();
            let total = reduction.tree(values);
            Ok(if 4 * lanes * packs < ACCUMULATORS { reduction.settle(total) } else { total })
        }
        Layout::Strided { lanes, parts: own, .. } => {
            let parts = accumulators(lowering, reduction, &wish, own)?;
            positions(lowering, row, inner, Beyond::Nothing, |lowering, spot| {
                lowering.accumulate(reduction, parts.clone().at(spot.own))
            })?;
            let part = |part| parts.clone().at(int(part));
            // Neighbours are in neighbouring lanes: across lanes, then in the lane, unless any order serves.
            let total = match exact {
                true => across(reduction, lanes, reduction.tree((0..own).map(part).collect())),
                false => reduction.tree((0..own).map(|at| across(reduction, lanes, part(at))).collect()),
            };
            Ok(if lanes * own < ACCUMULATORS { reduction.settle(total) } else { total })
        }
        Layout::Registers { groups, blocks, .. } => {
            let part = lowering.variable(&wish, ty.clone(), Some(reduction.identity.clone()));
            positions(lowering, row, inner, Beyond::Nothing, |lowering, _| lowering.accumulate(reduction, part.clone()))?;
            let warps = 4 * groups;
            let total = of_warps(lowering, reduction, part, warps);
            if blocks == 1 {
                return Ok(if groups > 1 { reduction.settle(total) } else { total });
            }
            let total = of_cluster(lowering, reduction, total, blocks);
            Ok(reduction.settle(total))
        }
        Layout::Reload { groups } => {
            let wish = inner.last().map_or("j", |v| lowering.kernel.variables[v.variable].name.as_str()).to_string();
            let total = total_of_block(lowering, reduction, row.extent.clone(), (groups, &wish), |lowering, position, part| {
                row.at_position(lowering, inner, position)?;
                lowering.accumulate(reduction, part)
            })?;
            lowering.flat = None;
            Ok(total)
        }
        Layout::Columns(_) => Err(Error::Bug("columns have a total for each lane".into())),
    }
}

/// Combines a value of each of the lanes that share a row.
fn across(reduction: &Reduction, lanes: i64, value: Expr) -> Expr {
    if lanes == 1 { value } else { call("butterfly", vec![int(lanes), value, reduction.functor()]) }
}

/// A thread's accumulators, of which no term has reached one.
fn accumulators(lowering: &mut Lowering, reduction: &Reduction, wish: &str, count: i64) -> Result<Expr, Error> {
    let parts = lowering.registers(wish, reduction.accumulator.clone(), vec![count as u32]);
    lowering.each("part", Type::I32, [int(0), int(count), int(1)], Unroll::Full, |lowering, part| {
        lowering.push(Node::Assign(parts.clone().at(part), reduction.identity.clone()));
        Ok(())
    })?;
    Ok(parts)
}

/// Combines the totals of a cluster's blocks, neighbours first; every reduction has a place of its own, so that none is overwritten
/// while another block reads it.
fn of_cluster(lowering: &mut Lowering, reduction: &Reduction, total: Expr, blocks: i64) -> Expr {
    let ty = reduction.accumulator.clone();
    let stem = reduction.reduce.reducer.name();
    let own = lowering.shared(&format!("{stem}_of_block"), ty.clone(), vec![1]);
    let total = lowering.local(&format!("{stem}_here"), ty.clone(), total);
    let first = name("threadIdx.x").binary("==", int(0));
    let store = Node::Assign(own.clone().at(int(0)), total);
    lowering.push(Node::If { condition: first, then: vec![store], otherwise: Vec::new() });
    lowering.push(Node::Call("cluster_barrier".into(), Vec::new()));
    reduction.tree((0..blocks).map(|block| call("of_block", vec![own.clone(), int(block)])).collect())
}

/// Combines the accumulators of a block's threads, neighbours first, in shared memory from warp to warp.
fn of_warps(lowering: &mut Lowering, reduction: &Reduction, part: Expr, warps: i64) -> Expr {
    let wish = format!("{}_of_warp", reduction.reduce.reducer.name());
    let shared = lowering.shared(&wish, reduction.accumulator.clone(), vec![warps as u32]);
    deliver(lowering, part, reduction, shared.clone(), name("threadIdx.x") / int(32));
    lowering.push(Node::Barrier);
    let lane = name("threadIdx.x") % int(warps);
    call("butterfly", vec![int(warps), shared.at(lane), reduction.functor()])
}

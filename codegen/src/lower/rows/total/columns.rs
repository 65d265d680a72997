//! The totals of a tile's columns: a thread's own accumulators, then those of the threads of a warp that share a column, by shuffles,
//! then the warps', in shared memory, then the blocks' of a cluster. Neighbouring accumulators meet first on each of these ways, as in
//! the tree of the canonical order.

use gpukc_dsl::program::Ranged;
use gpukc_dsl::types::Type;

use super::super::super::context::Lowering;
use super::super::super::reduction::Reduction;
use super::super::tile::Tile;
use super::super::visit::{Beyond, Row, positions};
use super::Total;
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, call, int, name};

/// The accumulator over each of a thread's columns, in every thread of the column.
pub fn total(lowering: &mut Lowering, row: &Row, tile: Tile, reduction: &Reduction, inner: &[Ranged]) -> Result<Total, Error> {
    let ty = reduction.accumulator.clone();
    let stem = reduction.reduce.reducer.name();
    let wish = format!("{stem}_part");
    let single = tile.own * tile.lanes == 1;
    let parts = match single {
        true => lowering.variable(&wish, ty, Some(reduction.identity.clone())),
        false => lowering.registers(&wish, ty, vec![(tile.own * tile.lanes) as u32]),
    };
    let part = move |at: Expr| if single { parts.clone() } else { parts.clone().at(at) };
    if !single {
        lowering.each("part", Type::I32, [int(0), int(tile.own * tile.lanes), int(1)], Unroll::Full, |lowering, at| {
            lowering.push(Node::Assign(part(at), reduction.identity.clone()));
            Ok(())
        })?;
    }
    positions(lowering, row, inner, Beyond::Nothing, |lowering, spot| {
        // Threads without a column could do without the branch. But with it the compiler computes addresses again for the stores instead
        // of keeping those of the loads in registers that there are not (columns of 16,384: 72 µs, without 98 µs).
        let live = spot.guard.map(|guard| guard.condition);
        lowering.when_some(live, |lowering| lowering.accumulate(reduction, part(spot.own)))
    })?;
    let (settles, reduction) = (tile.settles(), reduction.clone());
    let settled = move |reduction: &Reduction, total| if settles { reduction.settle(total) } else { total };
    let of_thread = move |reduction: &Reduction, lane: &Expr| {
        reduction.tree((0..tile.own).map(|at| part(int(at * tile.lanes) + lane.clone())).collect())
    };
    if tile.along == 1 && tile.slices == 1 {
        return Ok(Box::new(move |lane| settled(&reduction, of_thread(&reduction, lane))));
    }
    let of_column = of_block(lowering, row, tile, &reduction, of_thread)?;
    let column = move |lane: &Expr| of_column.clone().at(name("threadIdx.x").cast(Type::I32) * int(tile.lanes) + lane.clone());
    if tile.slices == 1 {
        lowering.push(Node::Barrier);
        return Ok(Box::new(move |lane| settled(&reduction, column(lane))));
    }
    lowering.push(Node::Call("cluster_barrier".into(), Vec::new()));
    Ok(Box::new(move |lane| {
        let place = Expr::Unary("&", Box::new(column(lane)));
        settled(&reduction, reduction.tree((0..tile.slices).map(|block| call("of_block", vec![place.clone(), int(block)])).collect()))
    }))
}

/// The block's totals in shared memory, by column; every reduction has a place of its own, so that none is overwritten while another
/// block reads it.
fn of_block(
    lowering: &mut Lowering,
    row: &Row,
    tile: Tile,
    reduction: &Reduction,
    of_thread: impl Fn(&Reduction, &Expr) -> Expr,
) -> Result<Expr, Error> {
    let (ty, stem) = (reduction.accumulator.clone(), reduction.reduce.reducer.name());
    let (partials, columns) = (tile.partials(), tile.columns());
    // One more than there are partial results, so that threads which store those of different columns meet different banks.
    let of_warp = lowering.shared(&format!("{stem}_of_warp"), ty.clone(), vec![columns as u32, partials as u32 + 1]);
    let of_column = lowering.shared(&format!("{stem}_of_column"), ty.clone(), vec![columns as u32]);
    let thread = name("threadIdx.y").cast(Type::I32) * int(tile.across) + name("threadIdx.x").cast(Type::I32);
    let thread = named_once(lowering, "thread", thread);
    let first = (tile.across < 32).then(|| (thread.clone() % int(32)).less(int(tile.across)));
    let warp = if tile.across < 32 { thread.clone() / int(32) } else { name("threadIdx.y").cast(Type::I32) };
    row.each_lane(lowering, |lowering, lane| {
        let own = lowering.local(&format!("{stem}_here"), ty.clone(), meeting_in_warp(tile, reduction, of_thread(reduction, &lane)));
        let column = name("threadIdx.x").cast(Type::I32) * int(tile.lanes) + lane;
        let store = Node::Assign(of_warp.clone().at(column).at(warp), own);
        match first {
            Some(condition) => lowering.push(Node::If { condition, then: vec![store], otherwise: Vec::new() }),
            None => lowering.push(store),
        }
        Ok(())
    })?;
    lowering.push(Node::Barrier);
    let at_once = tile.threads() / partials;
    let rounds = (columns + at_once - 1) / at_once;
    let round = |lowering: &mut Lowering, round: Expr| {
        let column = named_once(lowering, "own_column", round * int(at_once) + thread.clone() / int(partials));
        // Whole warps shuffle: threads that are too many do what others do, and store nothing.
        let there = if at_once > columns { column.clone() % int(columns) } else { column.clone() };
        let mut condition = (thread.clone() % int(partials)).binary("==", int(0));
        if at_once > columns {
            condition = condition.and(column.clone().less(int(columns)));
        }
        let values = of_warp.clone().at(there).at(thread.clone() % int(partials));
        let total = call("butterfly", vec![int(partials), values, reduction.functor()]);
        let total = lowering.local(&format!("{stem}_here"), ty.clone(), total);
        let store = Node::Assign(of_column.clone().at(column), total);
        lowering.push(Node::If { condition, then: vec![store], otherwise: Vec::new() });
        Ok(())
    };
    lowering.each("round", Type::I32, [int(0), int(rounds), int(1)], Unroll::Full, round)?;
    Ok(of_column)
}

/// Names a number that is the same for all reductions of a launch.
fn named_once(lowering: &mut Lowering, wish: &str, value: Expr) -> Expr {
    let key = format!("{wish} of a tile");
    if let Some(named) = lowering.recall(&key) {
        return named;
    }
    let named = lowering.local(wish, Type::I32, value);
    lowering.remember(key, named.clone());
    named
}

/// Brings together what the threads of a warp have of the same column.
fn meeting_in_warp(tile: Tile, reduction: &Reduction, own: Expr) -> Expr {
    match tile.across {
        across if across < 32 => call("butterfly_apart", vec![int(across), own, reduction.functor()]),
        _ => own,
    }
}

//! Columns: reductions along a strided dimension. Neighbouring threads take neighbouring columns, so that every access of a warp
//! is one contiguous piece; 32 warps share the 128 accumulators of the canonical order, four each, and meet through a padded tile
//! of shared memory. Blocks of 4,096 rows go to different blocks of threads; their results meet in a further launch, as in `split`.

use gpukc_dsl::program::{ExprId, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::{Group, only_reduction, product};
use super::reduction::Reduction;
use super::split::{BLOCK, Level, bind_results, finish_level, level_suffix, levels, written};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, call, int, name};

/// Columns of a tile, and threads along and across it.
const TILE: i64 = 32;

/// Fewer blocks than this leave multiprocessors idle. With more, slices only scatter the reads (4096² on an H200: 44 to 79 µs).
const FEW_BLOCKS: i64 = 128;

/// Lowers a reduction along a strided dimension.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        let Some((id, _)) = only_reduction(lowering.kernel, &statement) else {
            return Err(Error::Bug("a column statement without a reduction".into()));
        };
        lowering.begin_launch(&[]);
        let reduction = lowering.reduction(id)?;
        let terms = product(lowering.kernel, lowering.facts, &reduction.reduce.variables)
            .ok_or_else(|| Error::Bug("a column reduction without an extent".into()))?;
        let results = lowering.points(&statement.variables)?;
        for level in levels(lowering, &reduction, &terms, &results) {
            lower_level(lowering, &statement, id, &reduction, &level)?;
        }
    }
    Ok(())
}

fn lower_level(lowering: &mut Lowering, statement: &Statement, id: ExprId, reduction: &Reduction, level: &Level) -> Result<(), Error> {
    lowering.begin_launch(&written(statement));
    let ty = lowering.index_type();
    let (outer, columns): (Vec<Ranged>, Ranged) = match statement.variables.split_last() {
        Some((last, rest)) => (rest.to_vec(), *last),
        None => return Err(Error::Bug("a column reduction without columns".into())),
    };
    let column_count = lowering.extent(&columns)?;
    let outer_count = lowering.points(&outer)?;
    let tiles = column_count.clone().div_ceil(TILE);
    let terms = lowering.size(&level.terms, "terms");
    let blocks = lowering.size(&level.blocks, "blocks");
    let width = lowering.size(&column_count, "columns");
    let tiles_across = lowering.size(&tiles, "tiles");
    let slices = slices(lowering, &tiles.clone().times(outer_count.clone()).times(level.blocks.clone()));
    let warps = TILE / slices;
    let slice = (slices > 1).then(|| lowering.local("slice", Type::I32, name("blockIdx.x").cast(Type::I32) % int(slices)));
    let work = lowering.local("work", ty, name("blockIdx.x").cast(ty) / int(slices));
    let tile = lowering.local("tile", ty, work.clone() % tiles_across.clone());
    let rest = lowering.local("rest", ty, work / tiles_across);
    let block = lowering.local("block", ty, rest.clone() % blocks.clone());
    let before = lowering.local("outer", ty, rest / blocks.clone());
    let column = tile.clone() * int(TILE) + name("threadIdx.x").cast(Type::I32);
    let column = lowering.local("column", ty, column);
    bind_results(lowering, &outer, &before)?;
    lowering.variables.insert(columns.variable, column.clone());
    let parts = lowering.registers(&format!("{}_part", reduction.reduce.reducer.name()), reduction.accumulator.clone(), vec![4]);
    lowering.each("part", Type::I32, [int(0), int(4), int(1)], Unroll::Full, |lowering, part| {
        lowering.push(Node::Assign(parts.clone().at(part), reduction.identity.clone()));
        Ok(())
    })?;
    let mut extents = Vec::new();
    for range in &reduction.reduce.variables {
        let formula = lowering.extent(range)?;
        extents.push(lowering.size(&formula, "extent"));
    }
    lowering.when(column.clone().less(width.clone()), |lowering| {
        let warp = name("threadIdx.y").cast(Type::I32);
        let warp = slice.clone().map_or(warp.clone(), |slice| slice * int(warps) + warp);
        let first = block.clone() * int(BLOCK) + warp * int(4);
        let first = lowering.local("first", ty, first);
        let last = call("minimum", vec![(block.clone() + int(1)) * int(BLOCK), terms.clone()]);
        let last = lowering.local("last", ty, last);
        let take = |lowering: &mut Lowering, row: Expr, tested: bool| {
            lowering.each("part", Type::I32, [int(0), int(4), int(1)], Unroll::Full, |lowering, part| {
                let term = lowering.local("term", ty, row + part.clone());
                let inside = tested.then(|| term.clone().less(last.clone()));
                lowering.when_some(inside, |lowering| {
                    let place = parts.clone().at(part);
                    match level.source {
                        None => {
                            lowering.bind_term(reduction, term, &extents)?;
                            lowering.accumulate(reduction, place)
                        }
                        Some(source) => {
                            let at = (before.clone() * terms.clone() + term) * width.clone() + column.clone();
                            let value = source.read(lowering, at);
                            let next = reduction.combine(place.clone(), value);
                            lowering.push(Node::Assign(place, next));
                            Ok(())
                        }
                    }
                })
            })
        };
        // Four terms at a time know no test, so that the loads of several rounds are in flight at once.
        let whole = lowering.local("whole", ty, last.clone() - int(3));
        lowering.each("row", ty, [first.clone(), whole, int(128)], Unroll::By(4), |lowering, row| take(lowering, row, false))?;
        let rounds = (last.clone() - first.clone() + int(124)) / int(128);
        let left = lowering.local("left", ty, first + rounds * int(128));
        lowering.when(left.clone().less(last.clone()), |lowering| take(lowering, left, true))
    })?;
    let part = |index| parts.clone().at(int(index));
    let own = reduction.combine(reduction.combine(part(0), part(1)), reduction.combine(part(2), part(3)));
    let (total, mine, condition) = match slice {
        None => total_of_block(lowering, reduction, own, &tile),
        Some(slice) => total_of_cluster(lowering, reduction, own, &tile, slice, slices),
    };
    let mine = lowering.local("own_column", ty, mine);
    lowering.variables.insert(columns.variable, mine.clone());
    let condition = condition.and(mine.clone().less(width.clone()));
    lowering.when(condition, |lowering| {
        let at = (before.clone() * blocks.clone() + block) * width.clone() + mine.clone();
        finish_column(lowering, statement, id, reduction, level, total, blocks, at)
    })?;
    if slices > 1 {
        // No block ends while another reads its shared memory.
        lowering.push(Node::Call("cluster_barrier".into(), Vec::new()));
    }
    let suffix = level_suffix(lowering, statement, level);
    let work = tiles.times(outer_count).times(level.blocks.clone()).times(level.needed.clone()).times(slices);
    let notes = match level.source {
        None if slices > 1 => vec![
            "Columns: neighbouring threads take neighbouring columns. A cluster of 8 blocks takes 4,096 rows of 32 columns, each block".into(),
            "sixteen of the 128 accumulators, so that few columns keep many multiprocessors busy.".into(),
        ],
        None => vec![
            "Columns: neighbouring threads take neighbouring columns; 32 warps hold four of the 128 accumulators each and meet in a"
                .into(),
            "padded tile of shared memory. A block of threads takes 4,096 rows of 32 columns.".into(),
        ],
        Some(_) => vec!["The block results of the launch before, reduced in the same way; not launched if there is one block.".into()],
    };
    lowering.end_launch(&suffix, "columns", notes, [work, 1.into(), 1.into()], [TILE as u32, warps as u32, 1]);
    if let Some(launch) = lowering.plan.launches.last_mut() {
        launch.cluster = slices as u32;
    }
    Ok(())
}

/// Into how many blocks of a cluster the accumulators go: where there are too few blocks for the device's multiprocessors.
fn slices(lowering: &Lowering, blocks: &Formula) -> i64 {
    let clusters = lowering.target.capability >= 90;
    if clusters && lowering.facts.below(blocks, FEW_BLOCKS) { 8 } else { 1 }
}

/// The totals of the block's columns, the column of each thread that has one, and which threads do.
fn total_of_block(lowering: &mut Lowering, reduction: &Reduction, own: Expr, tile: &Expr) -> (Expr, Expr, Expr) {
    // A word of padding a row: the transposed reads below touch 32 different banks.
    let shared = lowering.shared("of_warp", reduction.accumulator.clone(), vec![TILE as u32, TILE as u32 + 1]);
    lowering.push(Node::Assign(shared.clone().at(name("threadIdx.y")).at(name("threadIdx.x")), own));
    lowering.push(Node::Barrier);
    let turned = shared.at(name("threadIdx.x")).at(name("threadIdx.y"));
    let total = call("butterfly", vec![int(32), turned, reduction.functor()]);
    let total = lowering.local(reduction.reduce.reducer.name(), reduction.accumulator.clone(), total);
    let mine = tile.clone() * int(TILE) + name("threadIdx.y").cast(Type::I32);
    (total, mine, name("threadIdx.x").binary("==", int(0)))
}

/// The same across the blocks of a cluster, in the first one; accumulators combine with their neighbours first.
fn total_of_cluster(
    lowering: &mut Lowering,
    reduction: &Reduction,
    own: Expr,
    tile: &Expr,
    slice: Expr,
    slices: i64,
) -> (Expr, Expr, Expr) {
    let (ty, warps) = (reduction.accumulator.clone(), TILE / slices);
    let column = name("threadIdx.x");
    let of_warp = lowering.shared("of_warp", ty.clone(), vec![warps as u32, TILE as u32]);
    lowering.push(Node::Assign(of_warp.clone().at(name("threadIdx.y")).at(column.clone()), own));
    lowering.push(Node::Barrier);
    let of_slice = lowering.shared("of_slice", ty.clone(), vec![TILE as u32]);
    let here = reduction.tree((0..warps).map(|warp| of_warp.clone().at(int(warp)).at(column.clone())).collect());
    let store = Node::Assign(of_slice.clone().at(column.clone()), here);
    let first_warp = || name("threadIdx.y").binary("==", int(0));
    lowering.push(Node::If { condition: first_warp(), then: vec![store], otherwise: Vec::new() });
    lowering.push(Node::Call("cluster_barrier".into(), Vec::new()));
    let place = Expr::Unary("&", Box::new(of_slice.at(column.clone())));
    let total = reduction.tree((0..slices).map(|block| call("of_block", vec![place.clone(), int(block)])).collect());
    let total = lowering.local(reduction.reduce.reducer.name(), ty, total);
    let mine = tile.clone() * int(TILE) + column.cast(Type::I32);
    (total, mine, first_warp().and(slice.binary("==", int(0))))
}

fn finish_column(
    lowering: &mut Lowering,
    statement: &Statement,
    id: ExprId,
    reduction: &Reduction,
    level: &Level,
    total: Expr,
    blocks: Expr,
    at: Expr,
) -> Result<(), Error> {
    // The variables are bound already.
    let bound =
        Level { source: None, terms: Formula::Constant(0), blocks: Formula::Constant(0), needed: Formula::Constant(0), ..*level };
    finish_level(lowering, statement, id, reduction, &bound, &int(0), total, blocks, at)
}

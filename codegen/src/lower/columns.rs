//! Columns: reductions along a strided dimension. Neighbouring threads take neighbouring columns, several of them by one access
//! where rows allow it, so that every access of a warp is a few whole lines of memory.
//!
//! The 128 accumulators of the canonical order are shared out by `columns/layout.rs`: some neighbours a thread, then across the
//! threads of a block, then across the blocks of a cluster where few columns and rows would leave multiprocessors idle. Any
//! aligned group of neighbouring accumulators is a subtree of the order, so each combines its own before it meets the others.
//! Blocks of 4,096 rows go to different blocks of threads; their results meet in a further launch, as in `split`.

mod layout;
mod terms;

use gpukc_dsl::program::{Ranged, Statement};
use gpukc_dsl::types::Type;

use self::layout::{Layout, packed, stores_packs};
use self::terms::Rows;
use super::context::Lowering;
use super::group::{Group, product};
use super::packs::Along;
use super::reduction::Reduction;
use super::split::{BLOCK, Level, Member, bind_results, finish_level, level_suffix, levels, members, written};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, call, int, name};

/// Lowers a reduction along a strided dimension.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    lowering.begin_launch(&[]);
    let members = members(lowering, group)?;
    for member in &members {
        let terms = product(lowering.kernel, lowering.facts, &member.reduction.reduce.variables)
            .ok_or_else(|| Error::Bug("a column reduction without an extent".into()))?;
        let results = lowering.points(&member.statement.variables)?;
        for level in levels(lowering, std::slice::from_ref(member), &terms, &results, Formula::clone) {
            let work = Columns::new(lowering, member, &level)?;
            lower_level(lowering, &work)?;
        }
    }
    Ok(())
}

/// What a level's launch computes.
struct Columns<'a> {
    member: &'a Member,
    statement: &'a Statement,
    /// The member's, or the same in fewer bits where a block's terms fit.
    reduction: Reduction,
    level: &'a Level,
    /// The columns, and the dimensions before them.
    columns: Ranged,
    outer: Vec<Ranged>,
}

impl<'a> Columns<'a> {
    fn new(lowering: &Lowering, member: &'a Member, level: &'a Level) -> Result<Self, Error> {
        let statement = &member.statement;
        let narrow = lowering.narrow_sum(&member.reduction, BLOCK).filter(|_| level.sources.is_none());
        let reduction = narrow.unwrap_or_else(|| member.reduction.clone());
        let Some((columns, outer)) = statement.variables.split_last() else {
            return Err(Error::Bug("a column reduction without columns".into()));
        };
        Ok(Columns { member, statement, reduction, level, columns: *columns, outer: outer.to_vec() })
    }

    /// A total in the type of the member's accumulators.
    fn widen(&self, total: Expr) -> Expr {
        match self.reduction.result == self.member.reduction.result {
            true => total,
            false => total.cast(self.member.reduction.result),
        }
    }
}

/// Where a block of threads stands.
struct Block {
    /// Its number in its cluster, if there are clusters.
    slice: Option<Expr>,
    /// Its first column.
    tile: Expr,
    /// The thread's first column, and whether there is one.
    column: Expr,
    inside: Expr,
    /// Its block of 4,096 rows, and how many there are.
    block: Expr,
    blocks: Expr,
    /// The number of the values of the outer variables.
    outer: Expr,
    /// The number of columns.
    width: Expr,
}

fn lower_level(lowering: &mut Lowering, work: &Columns) -> Result<(), Error> {
    lowering.begin_launch(&written(std::slice::from_ref(work.member)));
    let width = lowering.extent(&work.columns)?;
    let outer = lowering.points(&work.outer)?;
    let (lanes, reads) = match work.level.sources {
        None => packed(lowering, work.statement, &work.reduction, &work.columns),
        Some(_) => (1, Vec::new()),
    };
    let blocks = |tile: i64| width.clone().div_ceil(tile).times(outer.clone()).times(work.level.blocks.clone());
    let of_whole_columns = |tile: i64| width.clone().times(outer.clone()).div_ceil(tile);
    let bytes = work.reduction.result.size() as i64;
    let layout = Layout::choose(lowering, work.level, &width, (lanes, bytes), blocks);
    let block = if layout.has_whole_columns() {
        begin_whole_columns(lowering, work, layout, (&width, &outer))?
    } else {
        begin(lowering, work, layout, &width)?
    };
    lowering.variables.insert(work.columns.variable, block.column.clone());
    let rows = Rows::begin(lowering, work, layout, reads, &block, block.column.clone())?;
    lowering.when(block.inside.clone(), |lowering| {
        rows.take_all(lowering, work)?;
        if layout.has_whole_columns() { store_own(lowering, work, layout, &block, &rows) } else { Ok(()) }
    })?;
    if !layout.has_whole_columns() {
        meet(lowering, work, layout, &block, &rows)?;
    }
    let suffix = level_suffix(lowering, std::slice::from_ref(work.member), work.level);
    let grid = if layout.has_whole_columns() { of_whole_columns(layout.tile()) } else { blocks(layout.tile()) };
    let grid = grid.times(work.level.needed.clone()).times(layout.slices);
    let threads = [layout.across as u32, layout.along as u32, 1];
    let mut notes = notes(work.level, layout);
    notes.extend(lowering.block_order_note().filter(|_| work.level.sources.is_none()));
    lowering.end_launch(&suffix, "columns", notes, [grid, 1.into(), 1.into()], threads);
    let resident = layout.resident(bytes, widest(lowering, &rows.reads));
    if let Some(launch) = lowering.plan.launches.last_mut() {
        launch.cluster = layout.slices as u32;
        launch.resident = Some(resident);
    }
    Ok(())
}

/// Bytes of the widest element that is loaded ahead.
fn widest(lowering: &Lowering, reads: &[Along]) -> i64 {
    reads.iter().map(|along| lowering.kernel.arrays[along.array].element.size() as i64).max().unwrap_or(0)
}

fn notes(level: &Level, layout: Layout) -> Vec<String> {
    if level.sources.is_some() {
        return vec!["The block results of the launch before, reduced in the same way; not launched if there is one block.".into()];
    }
    let Layout { lanes, along, own, slices, .. } = layout;
    let mut notes = vec![format!("Columns: neighbouring threads take neighbouring columns, {} a block.", layout.tile())];
    if layout.has_whole_columns() {
        notes = vec![
            format!("Short columns: a thread takes whole ones, of {own} rows at most, and neighbouring threads take"),
            "neighbouring ones.".into(),
        ];
    }
    if lanes > 1 {
        notes.push(format!("An access takes {lanes} of them, so that few instructions carry many bytes."));
    }
    if layout.has_whole_columns() {
        return notes;
    }
    let threads = format!("A thread holds {own} of the accumulators of each of its columns");
    notes.push(match (along, slices) {
        (_, 1) => format!("{threads}; the {along} that share a column meet in shared memory."),
        _ => format!("{threads}; the {along} that share a column meet in shared memory, then"),
    });
    if slices > 1 {
        notes.push(format!("the {slices} blocks of a cluster, so that few columns keep many multiprocessors busy."));
    }
    notes
}

/// The block's number: of a level that reads the program's arrays counted from the end where that finds more in the cache.
fn block_number(lowering: &mut Lowering, work: &Columns) -> Expr {
    match work.level.sources {
        None => {
            lowering.passes_over([work.statement]);
            lowering.block_number()
        }
        Some(_) => name("blockIdx.x"),
    }
}

fn begin(lowering: &mut Lowering, work: &Columns, layout: Layout, width: &Formula) -> Result<Block, Error> {
    let ty = lowering.index_type();
    let blocks = lowering.size(&work.level.blocks, "blocks");
    let tiles = lowering.size(&width.clone().div_ceil(layout.tile()), "tiles");
    let width = lowering.size(width, "columns");
    let slices = layout.slices;
    let number = block_number(lowering, work);
    // The place in the cluster is the hardware's, whichever way the blocks go.
    let slice = (slices > 1).then(|| lowering.local("slice", Type::I32, name("blockIdx.x").cast(Type::I32) % int(slices)));
    let number = lowering.local("work", ty, number.cast(ty) / int(slices));
    let tile = lowering.local("tile", ty, number.clone() % tiles.clone());
    let (block, outer) = if work.outer.is_empty() {
        (lowering.local("block", ty, number / tiles), int(0))
    } else {
        let rest = lowering.local("rest", ty, number / tiles);
        let block = lowering.local("block", ty, rest.clone() % blocks.clone());
        (block, lowering.local("outer", ty, rest / blocks.clone()))
    };
    bind_results(lowering, &work.outer, &outer)?;
    let within = name("threadIdx.x").cast(Type::I32) * int(layout.lanes);
    let tile = tile * int(layout.tile());
    let column = lowering.local("column", ty, tile.clone() + within);
    let inside = column.clone().less(width.clone());
    Ok(Block { slice, tile, column, inside, block, blocks, outer, width })
}

/// The same where threads have whole columns, numbered over all outer indices: there are few rows, and one block of them.
fn begin_whole_columns(
    lowering: &mut Lowering,
    work: &Columns,
    layout: Layout,
    (width, outer): (&Formula, &Formula),
) -> Result<Block, Error> {
    let ty = lowering.index_type();
    let blocks = lowering.size(&work.level.blocks, "blocks");
    let count = lowering.size(&width.clone().times(outer.clone()), "results");
    let width = lowering.size(width, "columns");
    let number = block_number(lowering, work);
    let tile = number.cast(ty) * int(layout.tile());
    let within = name("threadIdx.x").cast(Type::I32) * int(layout.lanes);
    let wish = if work.outer.is_empty() { "column" } else { "result" };
    let place = lowering.local(wish, ty, tile.clone() + within);
    let inside = place.clone().less(count);
    let (outer, column) = if work.outer.is_empty() {
        (int(0), place)
    } else {
        let outer = lowering.local("outer", ty, place.clone() / width.clone());
        (outer, lowering.local("column", ty, place % width.clone()))
    };
    bind_results(lowering, &work.outer, &outer)?;
    Ok(Block { slice: None, tile, column, inside, block: int(0), blocks, outer, width })
}

/// Stores what one thread has of its columns: there is nobody to meet.
fn store_own(lowering: &mut Lowering, work: &Columns, layout: Layout, block: &Block, rows: &Rows) -> Result<(), Error> {
    let lanes = [int(0), int(layout.lanes), int(1)];
    let column = &block.column;
    let whole = work.level.targets.is_none() && stores_packs(lowering, work.statement, layout.lanes);
    let pack = whole.then(|| lowering.pack(work.statement.array, layout.lanes));
    lowering.each("lane", Type::I32, lanes, Unroll::Full, |lowering, lane| {
        let value = work.reduction.settle(rows.own(&work.reduction, &lane));
        let value = lowering.local(work.reduction.reduce.reducer.name(), work.reduction.accumulator.clone(), value);
        let mine = if layout.lanes > 1 { column.clone() + lane.clone() } else { column.clone() };
        match &pack {
            None => finish(lowering, work, block, value, mine),
            Some(pack) => {
                lowering.variables.insert(work.columns.variable, mine);
                lowering.computed.insert(work.member.id, work.member.reduction.finish(work.widen(value)));
                let value = lowering.value(work.statement.value)?;
                lowering.push(Node::Assign(pack.clone().lane(lane), value));
                Ok(())
            }
        }
    })?;
    let Some(pack) = pack else { return Ok(()) };
    lowering.variables.insert(work.columns.variable, column.clone());
    let (indices, _) = lowering.guarded_indices(work.statement.array, &work.statement.subscripts)?;
    let offset = lowering.row_major(work.statement.array, indices)?;
    let place = lowering.wide(work.statement.array, layout.lanes, offset);
    lowering.push(Node::Assign(place, pack));
    Ok(())
}

/// Brings together what the threads that share a column have: the block's in shared memory, then the cluster's.
fn meet(lowering: &mut Lowering, work: &Columns, layout: Layout, block: &Block, rows: &Rows) -> Result<(), Error> {
    let Layout { lanes, across, along, slices, .. } = layout;
    let (reduction, ty) = (&work.reduction, work.reduction.accumulator.clone());
    let parts = lowering.shared("of_thread", ty.clone(), vec![along as u32, layout.tile() as u32]);
    lowering.each("lane", Type::I32, [int(0), int(lanes), int(1)], Unroll::Full, |lowering, lane| {
        let at = if lanes > 1 { name("threadIdx.x").cast(Type::I32) * int(lanes) + lane.clone() } else { name("threadIdx.x") };
        let place = parts.clone().at(name("threadIdx.y")).at(at);
        lowering.push(Node::Assign(place, rows.own(reduction, &lane)));
        Ok(())
    })?;
    lowering.push(Node::Barrier);
    let thread = name("threadIdx.y").cast(Type::I32) * int(across) + name("threadIdx.x").cast(Type::I32);
    let thread = lowering.local("thread", Type::I32, thread);
    let of_block = reduction.tree((0..along).map(|at| parts.clone().at(int(at)).at(thread.clone())).collect());
    let mine = block.tile.clone() + thread.clone();
    let index = lowering.index_type();
    let taker = thread.clone().less(int(layout.tile()));
    let Some(slice) = block.slice.clone() else {
        return lowering.when(taker, |lowering| {
            let mine = lowering.local("own_column", index, mine);
            lowering.when(mine.clone().less(block.width.clone()), |lowering| {
                let total = layout_settled(reduction, layout, of_block);
                let total = lowering.local(reduction.reduce.reducer.name(), ty, total);
                finish(lowering, work, block, total, mine)
            })
        });
    };
    let of_slice = lowering.shared("of_slice", ty.clone(), vec![layout.tile() as u32]);
    let store = Node::Assign(of_slice.clone().at(thread.clone()), of_block);
    lowering.push(Node::If { condition: taker.clone(), then: vec![store], otherwise: Vec::new() });
    lowering.push(Node::Call("cluster_barrier".into(), Vec::new()));
    let first = taker.and(slice.binary("==", int(0)));
    lowering.when(first, |lowering| {
        let mine = lowering.local("own_column", index, mine);
        lowering.when(mine.clone().less(block.width.clone()), |lowering| {
            let place = Expr::Unary("&", Box::new(of_slice.at(thread)));
            let total = reduction.tree((0..slices).map(|block| call("of_block", vec![place.clone(), int(block)])).collect());
            let total = lowering.local(reduction.reduce.reducer.name(), ty, total);
            finish(lowering, work, block, total, mine)
        })
    })?;
    // No block ends while another reads its shared memory.
    lowering.push(Node::Call("cluster_barrier".into(), Vec::new()));
    Ok(())
}

/// The block's total, having met the identities of accumulators that no term reaches.
fn layout_settled(reduction: &Reduction, layout: Layout, total: Expr) -> Expr {
    if layout.reach() < layout::ACCUMULATORS { reduction.settle(total) } else { total }
}

/// Stores a column's total, or its epilogue's value where it is the last.
fn finish(lowering: &mut Lowering, work: &Columns, block: &Block, total: Expr, column: Expr) -> Result<(), Error> {
    lowering.variables.insert(work.columns.variable, column.clone());
    let at = (block.outer.clone() * block.blocks.clone() + block.block.clone()) * block.width.clone() + column;
    let members = std::slice::from_ref(work.member);
    finish_level(lowering, members, vec![work.widen(total)], work.level.targets.as_deref(), None, block.blocks.clone(), at)
}

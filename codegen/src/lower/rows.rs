//! Rows: reductions along one dimension and what depends on them (softmax, layernorm), one launch for all.
//!
//! A thread holds accumulators of the canonical order, so the layout of threads over a row follows from it:
//! - *lanes*: up to 512 elements, 1,024 where they are narrow or only reduced, 2 to 32 lanes of a warp a row, packs of four neighbouring
//!   accumulators a lane, the row in registers; up to 32,768 narrow ones of which nothing but what is read must be held, a warp for each
//!   4,096 of them;
//! - *strided*: the same where elements or extents do not allow packs: neighbouring lanes have neighbouring accumulators;
//! - *registers*: up to 32,768 elements, a block a row, 128 threads for each 4,096 elements, an accumulator a thread, the row in
//!   registers (at most 32 a thread): one read and one write;
//! - *reload*: any length that `split` does not take, a block a row; each pass reads the row again (from the cache, if it fits) and
//!   computes on-chip arrays again instead of holding them;
//! - *columns*: up to 16,384 elements along a strided dimension, so that a row is a column of a matrix: a block or a cluster of
//!   blocks takes a tile of neighbouring ones and holds it in registers (`rows/tile.rs`). Longer ones, and reductions on which
//!   nothing depends, are for `columns`.

mod hold;
mod layout;
mod registers;
mod tile;
mod total;
mod visit;

use std::collections::{BTreeMap, BTreeSet};

use gpukc_dsl::program::{ArrayId, ExprKind, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::{Group, Numbering, only_reduction, product};
use super::map::store_element;
use super::place::Place;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, int, name};
use crate::walk;
use hold::{beside, hold_inputs, stores_packs};
use layout::{ACCUMULATORS, BLOCK, FEW_BLOCKS, Layout, Moved};
use total::total;
use visit::{Beyond, CHUNKS, Row, positions};

pub use layout::LONGEST;
pub use tile::Tile;

/// Short rows have layouts of their own, up to these extents.
const SHORT: [i64; 2] = [4, 8];

/// Lowers a group of row statements.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    let statements: Vec<Statement> = group.statements.iter().map(|s| lowering.kernel.statements[*s].clone()).collect();
    let written: Vec<ArrayId> = statements.iter().map(|s| s.array).filter(|a| in_memory(lowering, *a)).collect();
    lowering.begin_launch(&written);
    let (numbers, inner) = ranges(lowering, &statements[0], group.numbering);
    let extent = product(lowering.kernel, lowering.facts, &inner).ok_or_else(|| Error::Bug("a row without an extent".into()))?;
    let layout = match group.tile {
        Some(tile) => Layout::Columns(tile),
        None => {
            let run = lowering.points(&inner[group.numbering.pieces..])?;
            let moved = moved(lowering, &statements, numbers.len(), &run);
            Layout::choose(bounds(lowering, &extent).map(|(most, _)| most), moved, lowering.target)
        }
    };
    let rows = lowering.points(&numbers)?;
    let mut row = begin(lowering, layout, &statements, group.numbering, &extent, &rows)?;
    for (place, statement) in statements.iter().enumerate() {
        row.at = place;
        lower_statement(lowering, &mut row, statement)?;
        // What is not held is read again, by other threads than those that have written it.
        let held = !matches!(layout, Layout::Reload { .. }) || lowering.chip.contains_key(&statement.array);
        let again = statements[place + 1..].iter().any(|later| walk::reads_array(lowering.kernel, later, statement.array));
        if !held && again && written.contains(&statement.array) {
            lowering.push(Node::Barrier);
        }
    }
    let alone = row.held.len() <= 1 && statements.iter().all(|statement| reads_only_rows(lowering, statement, &row));
    let suffix = if statements.len() == lowering.kernel.statements.len() {
        String::new()
    } else {
        lowering.kernel.arrays[statements[statements.len() - 1].array].name.replace('.', "_")
    };
    let mut blocks = rows.div_ceil(layout.rows_per_block());
    if layout.blocks() > 1 {
        // No block ends while another reads its shared memory.
        lowering.push(Node::Call("cluster_barrier".into(), Vec::new()));
        blocks = blocks.times(layout.blocks());
    }
    let few = lowering.facts.below(&blocks, FEW_BLOCKS + 1);
    lowering.end_launch(&suffix, layout.schedule(), layout.notes(), [blocks, 1.into(), 1.into()], layout.block());
    if let Some(launch) = lowering.plan.launches.last_mut() {
        launch.cluster = layout.blocks() as u32;
        launch.resident = layout.resident(alone, few, registers::held(lowering.kernel, &statements, &row));
    }
    Ok(())
}

/// What a row's extent does not exceed: a power of two, or three quarters of it, so that no more than a third of a layout is idle; and
/// what it exceeds.
fn bounds(lowering: &Lowering, extent: &Formula) -> Option<(i64, i64)> {
    let most = lowering.facts.bound(extent)?;
    if let Some(short) = SHORT.into_iter().find(|short| lowering.facts.below(extent, short + 1)) {
        return Some((short, 0));
    }
    let quarters = most / 4 * 3;
    let finer = 512 < quarters && most <= BLOCK;
    Some(match finer {
        true if lowering.facts.below(extent, quarters + 1) => (quarters, most / 2),
        true => (most, quarters),
        // The least bound serves all that it does not exceed.
        false => (most, if most > 16 { most / 2 } else { 0 }),
    })
}

/// What moves of rows that lie in memory as pieces of `run` elements, `rank` variables numbering them.
fn moved(lowering: &Lowering, statements: &[Statement], rank: usize, run: &Formula) -> Moved {
    let kernel = lowering.kernel;
    let of_rows = |array: &ArrayId| kernel.arrays[*array].shape.len() > rank;
    let read: BTreeSet<ArrayId> = statements
        .iter()
        .flat_map(|statement| walk::reads(kernel, statement.value))
        .filter_map(|read| if let ExprKind::Read { array, .. } = &kernel.exprs[read].kind { Some(*array) } else { None })
        .filter(of_rows)
        .collect();
    let written: BTreeSet<ArrayId> = statements.iter().map(|statement| statement.array).filter(of_rows).collect();
    let size = |array: &ArrayId| kernel.arrays[*array].element.size();
    let widest = read.union(&written).filter(|array| in_memory(lowering, **array)).map(size).max().unwrap_or(1);
    let packed = widest <= 4 && lowering.facts.aligned && lowering.facts.multiple(run, 4);
    let computed = read.iter().any(|array| written.contains(array) || !in_memory(lowering, *array));
    Moved { widest, packed, held: (!computed).then(|| read.iter().map(size).sum()), reduced: written.is_empty() }
}

fn in_memory(lowering: &Lowering, array: ArrayId) -> bool {
    matches!(lowering.places.of(array), Place::Memory | Place::Scratch(_))
}

/// Whether everything that a statement reads from memory is a row that the threads hold.
fn reads_only_rows(lowering: &Lowering, statement: &Statement, row: &Row) -> bool {
    let kernel = lowering.kernel;
    walk::reads(kernel, statement.value).iter().all(|read| match &kernel.exprs[*read].kind {
        ExprKind::Read { array, .. } => !in_memory(lowering, *array) || row.held.iter().any(|held| held.array == *array),
        _ => true,
    })
}

/// The variables that number the rows, and those along the row: of a reduction its own.
fn ranges(lowering: &Lowering, statement: &Statement, numbering: Numbering) -> (Vec<Ranged>, Vec<Ranged>) {
    match only_reduction(lowering.kernel, statement) {
        Some((_, reduce)) => (statement.variables.clone(), reduce.variables.clone()),
        None => numbering.split(&statement.variables),
    }
}

/// Which row a thread takes, and which part of it.
struct Part {
    index: Expr,
    extent: Expr,
    live: Option<Expr>,
    writes: Option<Expr>,
    start: Expr,
}

fn begin(
    lowering: &mut Lowering,
    layout: Layout,
    statements: &[Statement],
    numbering: Numbering,
    extent: &Formula,
    rows: &Formula,
) -> Result<Row, Error> {
    let full = layout.positions().is_some_and(|n| lowering.facts.is(extent, n));
    let length = lowering.size(extent, "row_extent");
    let clamps = !full && lowering.facts.at_least(extent, 1) && !matches!(layout, Layout::Columns(_) | Layout::Reload { .. });
    let last = clamps.then(|| length.clone());
    // Positions up to what the extent exceeds.
    let sure = bounds(lowering, extent).map_or(0, |(_, less)| less);
    let whole_chunks = CHUNKS.map(|steps| (steps, lowering.facts.multiple(extent, steps * ACCUMULATORS)));
    let part = match layout {
        Layout::Lanes { warps: 2.., .. } => part_of_block(lowering, layout, length),
        Layout::Lanes { lanes, .. } | Layout::Strided { lanes, .. } => part_of_lanes(lowering, layout, lanes, rows, (length, full)),
        Layout::Columns(tile) => part_of_tile(lowering, tile, rows, (length, full)),
        _ => part_of_block(lowering, layout, length),
    };
    let Part { index, extent, live, writes, start } = part;
    let (numbers, _) = ranges(lowering, &statements[0], numbering);
    let values = decode_rows(lowering, &numbers, index)?;
    if let Layout::Reload { .. } = layout {
        for statement in statements {
            if lowering.places.of(statement.array) == Place::OnChip && statement.variables.len() > numbering.rank() {
                let number = lowering.kernel.statements.iter().position(|s| s.array == statement.array);
                lowering.places.set(statement.array, Place::Inline(number.unwrap_or(0)));
            }
        }
    }
    for statement in statements {
        let (numbers, _) = ranges(lowering, statement, numbering);
        lowering.variables.extend(numbers.iter().map(|range| range.variable).zip(values.iter().cloned()));
    }
    Ok(Row {
        layout,
        numbering,
        at: 0,
        length: last,
        sure,
        whole_chunks,
        beside: Vec::new(),
        output: None,
        start,
        extent,
        full,
        live,
        writes,
        rows: values,
        numbers,
        values: BTreeMap::new(),
        computed: Vec::new(),
        held: Vec::new(),
        on_chip: BTreeMap::new(),
    })
}

/// Some lanes of a warp have a row.
fn part_of_lanes(lowering: &mut Lowering, layout: Layout, lanes: i64, rows: &Formula, (length, full): (Expr, bool)) -> Part {
    let ty = lowering.index_type();
    let count = lowering.size(rows, "rows");
    let per_block = int(layout.rows_per_block());
    let thread = || name("threadIdx.x").cast(Type::I32);
    let index = name("blockIdx.x").cast(ty) * per_block + thread() / int(lanes);
    let place = lowering.local("place", ty, index);
    let live = lowering.local("live", Type::Bool, place.clone().less(count));
    // Threads without a row compute the first one's values: what they read is there.
    let index = lowering.local("row", ty, live.clone().choose(place, int(0)));
    let lane = if lanes > 1 { lowering.local("lane", Type::I32, thread() % int(lanes)) } else { int(0) };
    let extent = if full { length } else { lowering.local("extent", ty, live.clone().choose(length, int(0))) };
    let writes = if lanes > 1 { live.clone().and(lane.clone().binary("==", int(0))) } else { live.clone() };
    let start = if let Layout::Lanes { .. } = layout { lane * int(4) } else { lane };
    Part { index, extent, live: Some(live), writes: Some(writes), start }
}

/// A block or a cluster of blocks has a row.
fn part_of_block(lowering: &mut Lowering, layout: Layout, length: Expr) -> Part {
    let ty = lowering.index_type();
    let blocks = layout.blocks();
    let index = lowering.local("row", ty, name("blockIdx.x").cast(ty) / int(blocks));
    let mut writes = name("threadIdx.x").binary("==", int(0));
    let mut start = int(0);
    if !matches!(layout, Layout::Reload { .. }) {
        let thread = name("threadIdx.x").cast(Type::I32);
        let first = match layout {
            Layout::Registers { groups: 1, .. } => thread,
            Layout::Lanes { .. } => thread.clone() / int(32) * int(BLOCK) + thread % int(32) * int(4),
            _ => (thread.clone() / int(ACCUMULATORS)) * int(BLOCK) + thread % int(ACCUMULATORS),
        };
        let first = if blocks > 1 {
            let part = lowering.local("part_of_row", Type::I32, name("blockIdx.x").cast(Type::I32) % int(blocks));
            writes = writes.and(part.clone().binary("==", int(0)));
            first + part * int(layout.threads() / ACCUMULATORS * BLOCK)
        } else {
            first
        };
        start = lowering.local("first", Type::I32, first);
    }
    Part { index, extent: length, live: None, writes: Some(writes), start }
}

/// A block or a cluster of blocks has a tile of columns, numbered over all dimensions but their own.
fn part_of_tile(lowering: &mut Lowering, tile: Tile, columns: &Formula, (length, full): (Expr, bool)) -> Part {
    let ty = lowering.index_type();
    let place = name("blockIdx.x").cast(ty) / int(tile.slices) * int(tile.columns());
    let place = place + name("threadIdx.x").cast(Type::I32) * int(tile.lanes);
    let mut conditions = Vec::new();
    // Nothing is asked of a tile that columns fill in both directions.
    let (index, extent) = if full && lowering.facts.multiple(columns, tile.columns()) {
        (lowering.local("column", ty, place), length)
    } else {
        let count = lowering.size(columns, "columns");
        let place = lowering.local("place", ty, place);
        let live = lowering.local("live", Type::Bool, place.clone().less(count));
        conditions.push(live.clone());
        // Threads without a column compute the first ones' values: what they read is there.
        let index = lowering.local("column", ty, live.clone().choose(place, int(0)));
        (index, if full { length } else { lowering.local("extent", ty, live.choose(length, int(0))) })
    };
    let live = conditions.first().cloned();
    let mut start = name("threadIdx.y").cast(Type::I32) * int(tile.own);
    if tile.along > 1 {
        conditions.push(name("threadIdx.y").binary("==", int(0)));
    } else {
        start = int(0);
    }
    if tile.slices > 1 {
        let slice = lowering.local("slice", Type::I32, name("blockIdx.x").cast(Type::I32) % int(tile.slices));
        conditions.push(slice.clone().binary("==", int(0)));
        start = tile.first(slice) + start;
    }
    let start = if start.constant().is_some() { start } else { lowering.local("first", Type::I32, start) };
    Part { index, extent, live, writes: conditions.into_iter().reduce(Expr::and), start }
}

fn decode_rows(lowering: &mut Lowering, variables: &[Ranged], index: Expr) -> Result<Vec<Expr>, Error> {
    if let [_] = variables {
        return Ok(vec![index]);
    }
    lowering.decode(variables, index)?;
    Ok(variables.iter().filter_map(|v| lowering.variables.get(&v.variable).cloned()).collect())
}

fn lower_statement(lowering: &mut Lowering, row: &mut Row, statement: &Statement) -> Result<(), Error> {
    if matches!(lowering.places.of(statement.array), Place::Inline(_)) {
        return Ok(());
    }
    let (numbers, inner) = ranges(lowering, statement, row.numbering);
    lowering.variables.extend(numbers.iter().map(|range| range.variable).zip(row.rows.iter().cloned()));
    lowering.element = Some(row.numbering.join(&numbers, &inner).copied().collect());
    row.numbers = numbers;
    hold_inputs(lowering, row, statement, &inner)?;
    row.beside = beside(lowering, row, statement, &inner);
    if let Some((id, _)) = only_reduction(lowering.kernel, statement) {
        let reduction = lowering.reduction(id)?;
        let total = total(lowering, row, &reduction, &inner)?;
        let named = statement.value == id;
        let wish = if named {
            lowering.kernel.arrays[statement.array].name.replace('.', "_")
        } else {
            reduction.reduce.reducer.name().into()
        };
        let ty = lowering.kernel.exprs[id].ty;
        let values = row.name(lowering, &wish, ty, |_, lane| Ok(reduction.finish(total(lane))))?;
        row.computed.push((id, values));
        row.bind_lane(lowering, &int(0));
        return per_row(lowering, row, statement);
    }
    if inner.is_empty() {
        return per_row(lowering, row, statement);
    }
    map(lowering, row, statement, &inner)
}

/// One value per row: a name for the rest of the launch, and a store if the array is in memory.
fn per_row(lowering: &mut Lowering, row: &mut Row, statement: &Statement) -> Result<(), Error> {
    let array = &lowering.kernel.arrays[statement.array];
    let named = row.computed.iter().find(|(id, _)| *id == statement.value).map(|(_, values)| values.clone());
    let values = match named {
        Some(values) => values,
        None => row.name(lowering, &array.name.replace('.', "_"), array.element, |lowering, _| lowering.value(statement.value))?,
    };
    row.values.insert(statement.array, values.clone());
    row.bind_lane(lowering, &int(0));
    if in_memory(lowering, statement.array) {
        lowering.when_some(row.writes.clone(), |lowering| {
            row.each_lane(lowering, |lowering, lane| {
                let pointer = lowering.pointer(statement.array);
                let (indices, _) = lowering.guarded_indices(statement.array, &statement.subscripts)?;
                let offset = lowering.row_major(statement.array, indices)?;
                lowering.push(Node::Assign(pointer.at(offset), row.of_lane(&values, &lane)));
                Ok(())
            })
        })?;
    }
    Ok(())
}

fn map(lowering: &mut Lowering, row: &mut Row, statement: &Statement, inner: &[Ranged]) -> Result<(), Error> {
    let array = lowering.kernel.arrays[statement.array].clone();
    let memory = in_memory(lowering, statement.array);
    let is_read = lowering.kernel.statements.iter().any(|s| walk::reads_array(lowering.kernel, s, statement.array));
    let hold = is_read && !matches!(row.layout, Layout::Reload { .. });
    let registers = hold.then(|| {
        let wish = format!("{}_row", array.name.replace('.', "_"));
        lowering.registers(&wish, array.element, vec![row.layout.per_thread()])
    });
    let pointer = memory.then(|| lowering.pointer(statement.array));
    let packs = memory && stores_packs(lowering, row, statement, inner);
    row.output = packs.then(|| statement.clone());
    hoist_row_values(lowering, row, statement, inner)?;
    let loads = !reads_only_rows(lowering, statement, row);
    let beyond = if loads || row.has_chunks() { Beyond::Repeat } else { Beyond::Nothing };
    positions(lowering, row, inner, beyond, |lowering, spot| {
        if let Some(registers) = &registers {
            let place = registers.clone().at(spot.slot);
            lowering.computed.remove(&statement.value);
            let value = lowering.value(statement.value)?;
            lowering.push(Node::Assign(place.clone(), value));
            lowering.computed.insert(statement.value, place);
        }
        match (&pointer, spot.pack) {
            (Some(_), Some((_, part))) if packs => {
                let value = lowering.value(statement.value)?;
                let pack = lowering.output_pack.clone().unwrap_or(int(0));
                lowering.push(Node::Assign(pack.lane(part), value));
                Ok(())
            }
            (Some(pointer), _) => {
                if spot.guard.is_some() && registers.is_none() {
                    let value = lowering.value(statement.value)?;
                    let value = lowering.local(&array.name.replace('.', "_"), array.element, value);
                    lowering.computed.insert(statement.value, value);
                }
                let (place, condition) = spot.guard.map(|guard| (guard.place, guard.condition)).unzip();
                lowering.when_some(condition, |lowering| {
                    place.map_or(Ok(()), |place| row.at_position(lowering, inner, place))?;
                    store_element_flat(lowering, statement, pointer.clone())
                })?;
                if registers.is_none() {
                    lowering.computed.remove(&statement.value);
                }
                Ok(())
            }
            (None, _) => Ok(()),
        }
    })?;
    row.output = None;
    lowering.computed.remove(&statement.value);
    if let Some(registers) = registers {
        row.on_chip.insert(statement.array, registers);
    }
    Ok(())
}

/// Stores at the current position of the row, which may stand for several variables.
fn store_element_flat(lowering: &mut Lowering, statement: &Statement, pointer: Expr) -> Result<(), Error> {
    if lowering.flat.as_ref().is_some_and(|f| f.variables.len() > 1) {
        if let Some(offset) = lowering.flat_place(statement.array, &statement.subscripts)? {
            let value = lowering.value(statement.value)?;
            lowering.push(Node::Assign(pointer.at(offset), value));
            return Ok(());
        }
    }
    store_element(lowering, statement, pointer)
}

/// Names what a map computes that is the same all along the row, so that it is computed once.
fn hoist_row_values(lowering: &mut Lowering, row: &mut Row, statement: &Statement, inner: &[Ranged]) -> Result<(), Error> {
    let variables: Vec<_> = inner.iter().map(|v| v.variable).collect();
    let Layout::Columns(_) = row.layout else { return lowering.hoist(statement.value, &variables, "row_value") };
    for id in lowering.hoistable(statement.value, &variables) {
        let ty = lowering.kernel.exprs[id].ty;
        let values = row.name(lowering, "column_value", ty, |lowering, _| lowering.value(id))?;
        row.computed.push((id, values));
    }
    row.bind_lane(lowering, &int(0));
    Ok(())
}

//! Rows: reductions along the contiguous dimension and what depends on them (softmax, layernorm), one launch for all.
//!
//! A thread holds accumulators of the canonical order, so the layout of threads over a row follows from it:
//! - *lanes*: up to 1,024 elements, 2 to 32 lanes of a warp a row, packs of four neighbouring accumulators a lane, the row in
//!   registers;
//! - *registers*: up to 32,768 elements, a block a row, 128 threads for each 4,096 elements, an accumulator a thread, the row in
//!   registers (at most 32 a thread): one read and one write;
//! - *reload*: any length, a block a row; each pass reads the row again (from the cache, if it fits) and computes on-chip arrays
//!   again instead of holding them.

mod layout;
mod total;
mod visit;

use std::collections::BTreeMap;

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::{Group, only_reduction, product};
use super::map::store_element;
use super::place::Place;
use super::read::{access, flat_coefficient, inside_everywhere};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node, Unroll, int, name};
use crate::walk;
use layout::{ACCUMULATORS, BLOCK, Layout};
use total::total;
use visit::{Held, Row, at_position, positions};

/// Lowers a group of row statements.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    let statements: Vec<Statement> = group.statements.iter().map(|s| lowering.kernel.statements[*s].clone()).collect();
    let written: Vec<ArrayId> = statements.iter().map(|s| s.array).filter(|a| in_memory(lowering, *a)).collect();
    lowering.begin_launch(&written);
    let first = &statements[0];
    let inner = inner_of(lowering, first, group.rows);
    let extent = product(lowering.kernel, lowering.facts, &inner).ok_or_else(|| Error::Bug("a row without an extent".into()))?;
    let layout = Layout::choose(lowering.facts.bound(&extent), lowering.target);
    let rows = lowering.points(&first.variables[..group.rows])?;
    let mut row = begin(lowering, layout, &statements, group.rows, &extent, &rows)?;
    for (place, statement) in statements.iter().enumerate() {
        lower_statement(lowering, &mut row, statement, group.rows)?;
        // What is not held is read again, by other threads than those that have written it.
        let held = !matches!(layout, Layout::Reload { .. }) || lowering.chip.contains_key(&statement.array);
        let again = statements[place + 1..].iter().any(|later| reads(lowering, later, statement.array));
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
    lowering.end_launch(&suffix, "rows", layout.notes(), [blocks, 1.into(), 1.into()], [layout.threads() as u32, 1, 1]);
    if let Some(launch) = lowering.plan.launches.last_mut() {
        launch.cluster = layout.blocks() as u32;
        launch.resident = layout.resident(alone);
    }
    Ok(())
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

fn reads(lowering: &Lowering, statement: &Statement, wanted: ArrayId) -> bool {
    let kernel = lowering.kernel;
    let reads = walk::reads(kernel, statement.value);
    reads.iter().any(|read| matches!(&kernel.exprs[*read].kind, ExprKind::Read { array, .. } if *array == wanted))
}

/// The variables along the row: of a reduction its own, of a map those after the row's.
fn inner_of(lowering: &Lowering, statement: &Statement, rows: usize) -> Vec<Ranged> {
    match only_reduction(lowering.kernel, statement) {
        Some((_, reduce)) => reduce.variables.clone(),
        None => statement.variables[rows..].to_vec(),
    }
}

fn begin(
    lowering: &mut Lowering,
    layout: Layout,
    statements: &[Statement],
    rank: usize,
    extent: &Formula,
    rows: &Formula,
) -> Result<Row, Error> {
    let ty = lowering.index_type();
    let aligned = lowering.facts.aligned && lowering.facts.multiple(extent, 4);
    let full = layout.positions().is_some_and(|n| lowering.facts.is(extent, n));
    let length = lowering.size(extent, "row_extent");
    let (index, extent, live, writes, start) = match layout {
        Layout::Lanes { lanes, .. } => {
            let count = lowering.size(rows, "rows");
            let per_block = int(layout.rows_per_block());
            let thread = || name("threadIdx.x").cast(Type::I32);
            let index = name("blockIdx.x").cast(ty) * per_block + thread() / int(lanes);
            let place = lowering.local("place", ty, index);
            let live = lowering.local("live", Type::Bool, place.clone().less(count));
            // Threads without a row compute the first one's values: what they read is there.
            let index = lowering.local("row", ty, live.clone().choose(place, int(0)));
            let lane = lowering.local("lane", Type::I32, thread() % int(lanes));
            let extent = if full { length } else { lowering.local("extent", ty, live.clone().choose(length, int(0))) };
            let writes = live.clone().and(lane.clone().binary("==", int(0)));
            (index, extent, Some(live), writes, lane)
        }
        _ => {
            let blocks = layout.blocks();
            let index = lowering.local("row", ty, name("blockIdx.x").cast(ty) / int(blocks));
            let mut writes = name("threadIdx.x").binary("==", int(0));
            let mut start = int(0);
            if !matches!(layout, Layout::Reload { .. }) {
                let thread = name("threadIdx.x").cast(Type::I32);
                let first = match layout {
                    Layout::Registers { groups: 1, .. } => thread,
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
            (index, length, None, writes, start)
        }
    };
    let values = decode_rows(lowering, &statements[0].variables[..rank], index)?;
    for statement in statements {
        for (range, value) in statement.variables[..rank].iter().zip(&values) {
            lowering.variables.insert(range.variable, value.clone());
        }
    }
    if let Layout::Reload { .. } = layout {
        for statement in statements {
            if lowering.places.of(statement.array) == Place::OnChip && statement.variables.len() > rank {
                let number = lowering.kernel.statements.iter().position(|s| s.array == statement.array);
                lowering.places.set(statement.array, Place::Inline(number.unwrap_or(0)));
            }
        }
    }
    Ok(Row {
        layout,
        output: None,
        start,
        extent,
        full,
        live,
        writes,
        rows: values,
        held: Vec::new(),
        on_chip: BTreeMap::new(),
        aligned,
    })
}

fn decode_rows(lowering: &mut Lowering, variables: &[Ranged], index: Expr) -> Result<Vec<Expr>, Error> {
    if let [_] = variables {
        return Ok(vec![index]);
    }
    lowering.decode(variables, index)?;
    Ok(variables.iter().filter_map(|v| lowering.variables.get(&v.variable).cloned()).collect())
}

fn lower_statement(lowering: &mut Lowering, row: &mut Row, statement: &Statement, rank: usize) -> Result<(), Error> {
    if matches!(lowering.places.of(statement.array), Place::Inline(_)) {
        return Ok(());
    }
    for (range, value) in statement.variables[..rank].iter().zip(&row.rows) {
        lowering.variables.insert(range.variable, value.clone());
    }
    let inner = inner_of(lowering, statement, rank);
    hold_inputs(lowering, row, statement, rank, &inner)?;
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
        let total = lowering.local(&wish, ty, reduction.finish(total));
        lowering.computed.insert(id, total);
        return per_row(lowering, row, statement);
    }
    if inner.is_empty() {
        return per_row(lowering, row, statement);
    }
    map(lowering, row, statement, &inner)
}

/// One value per row: a name for the rest of the launch, and a store if the array is in memory.
fn per_row(lowering: &mut Lowering, row: &Row, statement: &Statement) -> Result<(), Error> {
    let array = &lowering.kernel.arrays[statement.array];
    let value = lowering.value(statement.value)?;
    let value = match value {
        Expr::Name(_) => value,
        value => lowering.local(&array.name.replace('.', "_"), array.element, value),
    };
    lowering.chip.insert(statement.array, value.clone());
    if in_memory(lowering, statement.array) {
        let pointer = lowering.pointer(statement.array);
        let (indices, _) = lowering.guarded_indices(statement.array, &statement.subscripts)?;
        let offset = lowering.row_major(statement.array, indices)?;
        let store = Node::Assign(pointer.at(offset), value);
        lowering.push(Node::If { condition: row.writes.clone(), then: vec![store], otherwise: Vec::new() });
    }
    Ok(())
}

fn map(lowering: &mut Lowering, row: &mut Row, statement: &Statement, inner: &[Ranged]) -> Result<(), Error> {
    let array = lowering.kernel.arrays[statement.array].clone();
    let memory = in_memory(lowering, statement.array);
    let is_read = lowering.kernel.statements.iter().any(|s| reads(lowering, s, statement.array));
    let hold = is_read && !matches!(row.layout, Layout::Reload { .. });
    let registers = hold.then(|| {
        let wish = format!("{}_row", array.name.replace('.', "_"));
        lowering.registers(&wish, array.element, vec![row.layout.per_thread()])
    });
    let pointer = memory.then(|| lowering.pointer(statement.array));
    let packs = memory && row.aligned && array.element.size() <= 4 && matches!(row.layout, Layout::Lanes { .. });
    row.output = packs.then(|| statement.clone());
    hoist_row_values(lowering, statement, inner)?;
    positions(lowering, row, inner, |lowering, spot| {
        if let Some(registers) = &registers {
            let place = registers.clone().at(spot.slot);
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
            (Some(pointer), _) => store_element_flat(lowering, statement, pointer.clone()),
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

/// Loads the statement's own-row inputs that no earlier statement has loaded, all before the first is used.
fn hold_inputs(lowering: &mut Lowering, row: &mut Row, statement: &Statement, rank: usize, inner: &[Ranged]) -> Result<(), Error> {
    if matches!(row.layout, Layout::Reload { .. }) || inner.is_empty() {
        return Ok(());
    }
    let (root, filtered) = match only_reduction(lowering.kernel, statement) {
        Some((_, reduce)) => (reduce.body, reduce.filter.is_some()),
        None => (statement.value, false),
    };
    let sure = if filtered { Vec::new() } else { walk::sure_reads(lowering.kernel, root) };
    for read in walk::reads(lowering.kernel, statement.value) {
        let ExprKind::Read { array, subscripts } = lowering.kernel.exprs[read].kind.clone() else { continue };
        let place = lowering.places.of(array);
        if !matches!(place, Place::Memory | Place::Scratch(_))
            || lowering.chip.contains_key(&array)
            || row.on_chip.contains_key(&array)
        {
            continue;
        }
        let all: Vec<Ranged> = statement.variables[..rank].iter().chain(inner).copied().collect();
        let Some(access) = access(lowering.kernel, lowering.facts, array, &subscripts) else { continue };
        let along = flat_coefficient(lowering.kernel, lowering.facts, &access, &all) == Some(Formula::Constant(1));
        if !sure.contains(&read) && !inside_everywhere(lowering.kernel, lowering.facts, array, &subscripts, &all) {
            continue;
        }
        if !along || access.constant != Formula::Constant(0) {
            continue;
        }
        if let Some(held) = row.held.iter_mut().find(|held| held.array == array) {
            held.reads.push(read);
            continue;
        }
        load_row(lowering, row, array, read, inner)?;
    }
    Ok(())
}

fn load_row(lowering: &mut Lowering, row: &mut Row, array: ArrayId, read: ExprId, inner: &[Ranged]) -> Result<(), Error> {
    let element = lowering.kernel.arrays[array].element;
    let wish = format!("{}_row", lowering.kernel.arrays[array].name.replace('.', "_"));
    let packed = matches!(row.layout, Layout::Lanes { .. }) && row.aligned && element.size() <= 4;
    let pointer = lowering.pointer(array);
    let registers = if packed {
        let Layout::Lanes { lanes, packs, steps } = row.layout else { return Err(Error::Bug("packs outside of lanes".into())) };
        let registers = lowering.registers(&wish, CudaType::Pack(element, 4), vec![(packs * steps) as u32]);
        let ty = lowering.index_type();
        lowering.each("pack", Type::I32, [int(0), int(packs * steps), int(1)], Unroll::Full, |lowering, pack| {
            let position = pack.clone() * int(4 * lanes) + row.start.clone() * int(4);
            let position = lowering.local("j", ty, position);
            let ExprKind::Read { subscripts, .. } = lowering.kernel.exprs[read].kind.clone() else { return Ok(()) };
            lowering.when_some(row.inside(&position), |lowering| {
                at_position(lowering, inner, position.clone())?;
                let offset = match lowering.flat_place(array, &subscripts)? {
                    Some(offset) => offset,
                    None => return Err(Error::Bug("a row that does not run along".into())),
                };
                let wide = Expr::Wide(element, 4, Box::new(pointer), Box::new(offset));
                lowering.push(Node::Assign(registers.clone().at(pack), wide));
                Ok(())
            })
        })?;
        registers
    } else {
        let registers = lowering.registers(&wish, element, vec![row.layout.per_thread()]);
        positions(lowering, row, inner, |lowering, spot| {
            let value = lowering.value(read)?;
            lowering.push(Node::Assign(registers.clone().at(spot.slot), value));
            Ok(())
        })?;
        registers
    };
    row.held.push(Held { array, reads: vec![read], registers, packed });
    Ok(())
}

/// Names what a map computes that is the same all along the row, so that it is computed once.
fn hoist_row_values(lowering: &mut Lowering, statement: &Statement, inner: &[Ranged]) -> Result<(), Error> {
    let variables: Vec<_> = inner.iter().map(|v| v.variable).collect();
    lowering.hoist(statement.value, &variables, "row_value")
}

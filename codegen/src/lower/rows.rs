//! Rows: reductions along the contiguous dimension and what depends on them (softmax, layernorm), one launch for all.
//!
//! A thread holds accumulators of the canonical order, so the layout of threads over a row follows from it:
//! - *lanes*: up to 1,024 elements, 4 to 32 lanes of a warp a row, four neighbouring accumulators a lane, the row in registers;
//! - *registers*: up to 32,768 elements, a block a row, 128 threads for each 4,096 elements, an accumulator a thread, the row in
//!   registers (at most 32 a thread): one read and one write;
//! - *reload*: any length, a block a row; each pass reads the row again (from the cache, if it fits) and computes on-chip arrays
//!   again instead of holding them.

use std::collections::BTreeMap;

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::context::{Flat, Lowering};
use super::expr::{access, flat_coefficient};
use super::group::{Group, only_reduction, product};
use super::map::store_element;
use super::place::Place;
use super::reduction::Reduction;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};
use crate::walk;

/// Terms of a block of the canonical order.
const BLOCK: i64 = 4096;
/// Accumulators of a block.
const ACCUMULATORS: i64 = 128;
/// Blocks whose results shared memory holds at a time, in the reload layout.
const CHUNK: i64 = 256;

/// How threads lie over a row.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Lanes { lanes: i64, steps: i64 },
    Registers { groups: i64, steps: i64 },
    Reload { groups: i64 },
}

impl Layout {
    fn choose(bound: Option<i64>) -> Layout {
        match bound {
            Some(bound) if bound <= ACCUMULATORS => Layout::Lanes { lanes: bound / 4, steps: 1 },
            Some(bound) if bound <= 1024 => Layout::Lanes { lanes: 32, steps: bound / ACCUMULATORS },
            Some(bound) if bound <= BLOCK => Layout::Registers { groups: 1, steps: bound / ACCUMULATORS },
            Some(bound) if bound <= 8 * BLOCK => Layout::Registers { groups: bound / BLOCK, steps: 32 },
            Some(_) => Layout::Reload { groups: 4 },
            None => Layout::Reload { groups: 2 },
        }
    }
    fn threads(self) -> i64 {
        match self {
            Layout::Lanes { .. } => 256,
            Layout::Registers { groups, .. } | Layout::Reload { groups } => groups * ACCUMULATORS,
        }
    }
    fn rows_per_block(self) -> i64 {
        if let Layout::Lanes { lanes, .. } = self { self.threads() / lanes } else { 1 }
    }
    fn notes(self) -> Vec<String> {
        match self {
            Layout::Lanes { lanes, .. } => vec![
                format!("Rows: {lanes} lanes of a warp take a row, four neighbouring accumulators each, and hold it in registers:"),
                "each element is read once and written once. Partial results meet by shuffles.".into(),
            ],
            Layout::Registers { .. } => vec![
                "Rows: a block takes a row and holds it in registers, one accumulator of the canonical order a thread:".into(),
                "each element is read once and written once. Warps meet through a few words of shared memory.".into(),
            ],
            Layout::Reload { .. } => vec![
                "Rows: a block takes a row of any length, one accumulator of the canonical order a thread. Each pass reads".into(),
                "the row again, from the cache where it fits. Warps meet through shared memory.".into(),
            ],
        }
    }
}

/// The launch's state.
struct Row {
    layout: Layout,
    /// The row's extent, 0 for threads beyond the last row.
    extent: Expr,
    /// This thread writes what there is one of per row.
    writes: Expr,
    /// The row's variables' values.
    rows: Vec<Expr>,
    /// Row-long arrays in registers: inputs and on-chip `let`s.
    held: Vec<Held>,
    on_chip: BTreeMap<ArrayId, Expr>,
    aligned: bool,
    /// The lane within the row, in the lanes layout; the thread's first position, in the registers layout.
    start: Expr,
}

struct Held {
    array: ArrayId,
    reads: Vec<ExprId>,
    registers: Expr,
    packed: bool,
}

/// Lowers a group of row statements.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    let statements: Vec<Statement> = group.statements.iter().map(|s| lowering.kernel.statements[*s].clone()).collect();
    let written: Vec<ArrayId> = statements.iter().map(|s| s.array).filter(|a| in_memory(lowering, *a)).collect();
    lowering.begin_launch(&written);
    let first = &statements[0];
    let inner = inner_of(lowering, first, group.rows);
    let extent = product(lowering.kernel, lowering.facts, &inner).ok_or_else(|| Error::Bug("a row without an extent".into()))?;
    let layout = Layout::choose(lowering.facts.bound(&extent));
    let rows = lowering.points(&first.variables[..group.rows])?;
    let mut row = begin(lowering, layout, &statements, group.rows, &extent, &rows)?;
    for statement in &statements {
        lower_statement(lowering, &mut row, statement, group.rows)?;
    }
    let suffix = if statements.len() == lowering.kernel.statements.len() {
        String::new()
    } else {
        lowering.kernel.arrays[statements[statements.len() - 1].array].name.replace('.', "_")
    };
    let grid = [rows.div_ceil(layout.rows_per_block()), 1.into(), 1.into()];
    lowering.end_launch(&suffix, "rows", layout.notes(), grid, [layout.threads() as u32, 1, 1]);
    Ok(())
}

fn in_memory(lowering: &Lowering, array: ArrayId) -> bool {
    matches!(lowering.places.of(array), Place::Memory | Place::Scratch(_))
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
    let length = lowering.size(extent, "row_extent");
    let (index, extent, writes, start) = match layout {
        Layout::Lanes { lanes, .. } => {
            let count = lowering.size(rows, "rows");
            let per_block = int(layout.rows_per_block());
            let thread = || name("threadIdx.x").cast(Type::I32);
            let index = name("blockIdx.x").cast(ty) * per_block + thread() / int(lanes);
            let index = lowering.local("row", ty, index);
            let live = lowering.local("live", Type::Bool, index.clone().less(count));
            let lane = lowering.local("lane", Type::I32, thread() % int(lanes));
            let extent = lowering.local("extent", ty, live.clone().choose(length, int(0)));
            let writes = live.clone().and(lane.clone().binary("==", int(0)));
            (index, extent, writes, lane)
        }
        _ => {
            let index = lowering.local("row", ty, name("blockIdx.x").cast(ty));
            let writes = name("threadIdx.x").binary("==", int(0));
            let mut start = int(0);
            if !matches!(layout, Layout::Reload { .. }) {
                let thread = name("threadIdx.x").cast(Type::I32);
                let first = match layout {
                    Layout::Registers { groups: 1, .. } => thread,
                    _ => (thread.clone() / int(ACCUMULATORS)) * int(BLOCK) + thread % int(ACCUMULATORS),
                };
                start = lowering.local("first", Type::I32, first);
            }
            (index, length, writes, start)
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
    Ok(Row { layout, start, extent, writes, rows: values, held: Vec::new(), on_chip: BTreeMap::new(), aligned })
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
        let wish = if named { lowering.kernel.arrays[statement.array].name.replace('.', "_") } else { reduction.reduce.reducer.name().into() };
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
    let is_read = lowering.kernel.statements.iter().any(|s| {
        walk::reads(lowering.kernel, s.value)
            .iter()
            .any(|r| matches!(&lowering.kernel.exprs[*r].kind, ExprKind::Read { array, .. } if *array == statement.array))
    });
    let hold = is_read && !matches!(row.layout, Layout::Reload { .. });
    let registers = hold.then(|| {
        let wish = format!("{}_row", array.name.replace('.', "_"));
        lowering.registers(&wish, array.element, vec![row.layout.per_thread()])
    });
    let pointer = memory.then(|| lowering.pointer(statement.array));
    positions(lowering, row, inner, |lowering, slot| {
        if let Some(registers) = &registers {
            let place = registers.clone().at(slot);
            let value = lowering.value(statement.value)?;
            lowering.push(Node::Assign(place.clone(), value));
            lowering.computed.insert(statement.value, place);
        }
        match &pointer {
            Some(pointer) => store_element_flat(lowering, statement, pointer.clone()),
            None => Ok(()),
        }
    })?;
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

impl Layout {
    /// Elements that a thread holds.
    fn per_thread(self) -> u32 {
        match self {
            Layout::Lanes { steps, .. } => 4 * steps as u32,
            Layout::Registers { steps, .. } => steps as u32,
            Layout::Reload { .. } => 0,
        }
    }
}

/// Loads the statement's own-row inputs that no earlier statement has loaded, all before the first is used.
fn hold_inputs(lowering: &mut Lowering, row: &mut Row, statement: &Statement, rank: usize, inner: &[Ranged]) -> Result<(), Error> {
    if matches!(row.layout, Layout::Reload { .. }) || inner.is_empty() {
        return Ok(());
    }
    for read in walk::reads(lowering.kernel, statement.value) {
        let ExprKind::Read { array, subscripts } = lowering.kernel.exprs[read].kind.clone() else { continue };
        let place = lowering.places.of(array);
        if !matches!(place, Place::Memory | Place::Scratch(_)) || lowering.chip.contains_key(&array) || row.on_chip.contains_key(&array) {
            continue;
        }
        let all: Vec<Ranged> = statement.variables[..rank].iter().chain(inner).copied().collect();
        let Some(access) = access(lowering.kernel, lowering.facts, array, &subscripts) else { continue };
        let along = flat_coefficient(lowering.kernel, lowering.facts, &access, &all) == Some(Formula::Constant(1));
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
        let Layout::Lanes { lanes, steps } = row.layout else { return Err(Error::Bug("packs outside of lanes".into())) };
        let registers = lowering.registers(&wish, CudaType::Pack(element, 4), vec![steps as u32]);
        let ty = lowering.index_type();
        lowering.each("step", Type::I32, [int(0), int(steps), int(1)], Unroll::Full, |lowering, step| {
            let position = step.clone() * int(4 * lanes) + row.start.clone() * int(4);
            let position = lowering.local("j", ty, position);
            let ExprKind::Read { subscripts, .. } = lowering.kernel.exprs[read].kind.clone() else { return Ok(()) };
            lowering.when(position.clone().less(row.extent.clone()), |lowering| {
                at_position(lowering, inner, position.clone())?;
                let offset = match lowering.flat_place(array, &subscripts)? {
                    Some(offset) => offset,
                    None => return Err(Error::Bug("a row that does not run along".into())),
                };
                let wide = Expr::Wide(element, 4, Box::new(pointer), Box::new(offset));
                lowering.push(Node::Assign(registers.clone().at(step), wide));
                Ok(())
            })
        })?;
        registers
    } else {
        let registers = lowering.registers(&wish, element, vec![row.layout.per_thread()]);
        positions(lowering, row, inner, |lowering, slot| {
            let value = lowering.value(read)?;
            lowering.push(Node::Assign(registers.clone().at(slot), value));
            Ok(())
        })?;
        registers
    };
    row.held.push(Held { array, reads: vec![read], registers, packed });
    Ok(())
}

/// Binds the variables along the row to a position.
fn at_position(lowering: &mut Lowering, inner: &[Ranged], position: Expr) -> Result<(), Error> {
    if let [range] = inner {
        lowering.variables.insert(range.variable, position.clone());
    }
    lowering.flat = Some(Flat { variables: inner.to_vec(), position });
    Ok(())
}

/// Visits this thread's positions of the row: `write` gets the register slot of each.
fn positions(
    lowering: &mut Lowering,
    row: &Row,
    inner: &[Ranged],
    mut write: impl FnMut(&mut Lowering, Expr) -> Result<(), Error>,
) -> Result<(), Error> {
    let ty = lowering.index_type();
    let mut visit = |lowering: &mut Lowering, slot: Expr, position: Expr, lane: Option<(Expr, Expr)>| {
        let wish = inner.last().map_or("j", |v| lowering.kernel.variables[v.variable].name.as_str()).to_string();
        let position = if matches!(position, Expr::Name(_)) { position } else { lowering.local(&wish, ty, position) };
        lowering.when(position.clone().less(row.extent.clone()), |lowering| {
            at_position(lowering, inner, position)?;
            for held in &row.held {
                let element = match (&lane, held.packed) {
                    (Some((step, lane)), true) => held.registers.clone().at(step.clone()).lane(lane.clone()),
                    _ => held.registers.clone().at(slot.clone()),
                };
                lowering.computed.extend(held.reads.iter().map(|read| (*read, element.clone())));
            }
            for (array, registers) in &row.on_chip {
                lowering.chip.insert(*array, registers.clone().at(slot.clone()));
            }
            write(lowering, slot)
        })
    };
    match row.layout {
        Layout::Lanes { lanes, steps } => {
            lowering.each("step", Type::I32, [int(0), int(steps), int(1)], Unroll::Full, |lowering, step| {
                lowering.each("part", Type::I32, [int(0), int(4), int(1)], Unroll::Full, |lowering, part| {
                    let position = step.clone() * int(4 * lanes) + row.start.clone() * int(4) + part.clone();
                    let slot = step.clone() * int(4) + part.clone();
                    visit(lowering, slot, position, Some((step, part)))
                })
            })?;
        }
        Layout::Registers { steps, .. } => {
            lowering.each("step", Type::I32, [int(0), int(steps), int(1)], Unroll::Full, |lowering, step| {
                let position = row.start.clone() + step.clone() * int(ACCUMULATORS);
                visit(lowering, step, position, None)
            })?;
        }
        Layout::Reload { .. } => {
            let threads = int(row.layout.threads());
            let lo = name("threadIdx.x").cast(Type::I32);
            let wish = inner.last().map_or("j", |v| lowering.kernel.variables[v.variable].name.as_str()).to_string();
            lowering.each(&wish, ty, [lo, row.extent.clone(), threads], Unroll::By(4), |lowering, position| {
                at_position(lowering, inner, position)?;
                write(lowering, int(0))
            })?;
        }
    }
    for held in &row.held {
        held.reads.iter().for_each(|read| drop(lowering.computed.remove(read)));
    }
    row.on_chip.keys().for_each(|array| drop(lowering.chip.remove(array)));
    lowering.flat = None;
    Ok(())
}

/// The reduction's accumulator over the whole row, in every thread of it.
fn total(lowering: &mut Lowering, row: &Row, reduction: &Reduction, inner: &[Ranged]) -> Result<Expr, Error> {
    let wish = format!("{}_part", reduction.reduce.reducer.name());
    let ty = reduction.accumulator.clone();
    match row.layout {
        Layout::Lanes { lanes, .. } => {
            let parts = lowering.registers(&wish, ty, vec![4]);
            lowering.each("part", Type::I32, [int(0), int(4), int(1)], Unroll::Full, |lowering, part| {
                lowering.push(Node::Assign(parts.clone().at(part), reduction.identity.clone()));
                Ok(())
            })?;
            positions(lowering, row, inner, |lowering, slot| lowering.accumulate(reduction, parts.clone().at(part_of(slot))))?;
            let part = |index| parts.clone().at(int(index));
            let own = reduction.combine(reduction.combine(part(0), part(1)), reduction.combine(part(2), part(3)));
            Ok(call("butterfly", vec![int(lanes), own, reduction.functor()]))
        }
        Layout::Registers { groups, .. } => {
            let part = lowering.variable(&wish, ty.clone(), Some(reduction.identity.clone()));
            positions(lowering, row, inner, |lowering, _| lowering.accumulate(reduction, part.clone()))?;
            let warps = 4 * groups;
            let wish = format!("{}_of_warp", reduction.reduce.reducer.name());
            let shared = lowering.shared(&wish, ty, vec![warps as u32]);
            deliver(lowering, part, reduction, shared.clone(), name("threadIdx.x") / int(32));
            lowering.push(Node::Barrier);
            let lane = name("threadIdx.x") % int(warps);
            Ok(call("butterfly", vec![int(warps), shared.at(lane), reduction.functor()]))
        }
        Layout::Reload { groups } => reload_total(lowering, row, reduction, inner, groups),
    }
}

/// The accumulator within a lane that a register slot belongs to.
fn part_of(slot: Expr) -> Expr {
    match slot {
        // `step * 4 + part`
        Expr::Binary("+", _, part) => *part,
        slot => slot,
    }
}

/// Combines a warp's accumulators and lets its first lane store the result.
fn deliver(lowering: &mut Lowering, part: Expr, reduction: &Reduction, shared: Expr, at: Expr) {
    let combined = call("butterfly", vec![int(32), part.clone(), reduction.functor()]);
    lowering.push(Node::Assign(part.clone(), combined));
    let store = Node::Assign(shared.at(at), part);
    let first = (name("threadIdx.x") % int(32)).binary("==", int(0));
    lowering.push(Node::If { condition: first, then: vec![store], otherwise: Vec::new() });
}

fn reload_total(lowering: &mut Lowering, row: &Row, reduction: &Reduction, inner: &[Ranged], groups: i64) -> Result<Expr, Error> {
    let ty = lowering.index_type();
    let stem = reduction.reduce.reducer.name();
    let quarters = lowering.shared(&format!("{stem}_of_warp"), reduction.accumulator.clone(), vec![4 * CHUNK as u32]);
    let levels = lowering.namer.fresh(&format!("{stem}_levels"));
    let element = match reduction.accumulator {
        CudaType::Best(ty) => CudaType::Class("CanonicalLevelsOfBest", ty),
        CudaType::Element(ty) => CudaType::Class("CanonicalLevels", ty),
        _ => return Err(Error::Bug("an accumulator of an unexpected type".into())),
    };
    let start = call("start_levels", vec![reduction.identity.clone()]);
    lowering.push(Node::Declare { ty: element, name: levels.clone(), value: Some(start), mutable: true });
    let blocks = lowering.local("blocks", ty, (row.extent.clone() + int(BLOCK - 1)) / int(BLOCK));
    let inner = inner.to_vec();
    lowering.each("chunk", ty, [int(0), blocks.clone(), int(CHUNK)], Unroll::By(1), |lowering, chunk| {
        let count = call("minimum", vec![(blocks - chunk.clone()).cast(Type::I32), int(CHUNK)]);
        let count = lowering.local("count", Type::I32, count);
        let lo = name("threadIdx.x").cast(Type::I32) / int(ACCUMULATORS);
        lowering.each("block", Type::I32, [lo, count.clone(), int(groups)], Unroll::By(1), |lowering, block| {
            let part = lowering.variable(&format!("{stem}_part"), reduction.accumulator.clone(), Some(reduction.identity.clone()));
            let thread = name("threadIdx.x").cast(Type::I32) % int(ACCUMULATORS);
            let first = (chunk.clone() + block.clone()) * int(BLOCK) + thread;
            let first = lowering.local("first", ty, first);
            let last = call("minimum", vec![first.clone() + int(BLOCK), row.extent.clone()]);
            let last = lowering.local("last", ty, last);
            let wish = inner.last().map_or("j", |v| lowering.kernel.variables[v.variable].name.as_str()).to_string();
            lowering.each(&wish, ty, [first, last, int(ACCUMULATORS)], Unroll::By(8), |lowering, position| {
                at_position(lowering, &inner, position)?;
                lowering.accumulate(reduction, part.clone())
            })?;
            let at = block * int(4) + (name("threadIdx.x").cast(Type::I32) / int(32)) % int(4);
            deliver(lowering, part, reduction, quarters.clone(), at);
            Ok(())
        })?;
        lowering.push(Node::Barrier);
        lowering.push(Node::Call("take_blocks".into(), vec![name(levels.clone()), quarters.clone(), count, reduction.functor()]));
        lowering.push(Node::Barrier);
        Ok(())
    })?;
    lowering.flat = None;
    Ok(call("finish_levels", vec![name(levels), reduction.functor()]))
}

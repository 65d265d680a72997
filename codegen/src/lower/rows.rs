//! Rows: reductions along the contiguous dimension and what depends on them (softmax, layernorm), one launch for all.
//!
//! A thread holds accumulators of the canonical order, so the layout of threads over a row follows from it:
//! - *lanes*: up to 1,024 elements, 2 to 32 lanes of a warp a row, packs of four neighbouring accumulators a lane, the row in
//!   registers;
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
    /// `packs` of four accumulators a lane, `4 * lanes` elements apart; `steps` of 128 elements.
    Lanes { lanes: i64, packs: i64, steps: i64 },
    Registers { groups: i64, steps: i64 },
    Reload { groups: i64 },
}

impl Layout {
    fn choose(bound: Option<i64>) -> Layout {
        match bound {
            // About 16 elements a lane: enough loads in flight, few shuffles.
            Some(bound) if bound <= 1024 => {
                let lanes = (bound / 16).clamp(2, 32);
                let within = bound.min(ACCUMULATORS);
                Layout::Lanes { lanes, packs: within / (4 * lanes), steps: bound / within }
            }
            Some(bound) if bound <= BLOCK => Layout::Registers { groups: 1, steps: bound / ACCUMULATORS },
            Some(bound) if bound <= 8 * BLOCK => Layout::Registers { groups: bound / BLOCK, steps: 32 },
            Some(_) => Layout::Reload { groups: 8 },
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
                format!("Rows: {lanes} lanes of a warp take a row, packs of four neighbouring accumulators each, and hold it in registers:"),
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
    /// Whether every position of the layout is one of the row: only whether the row exists remains to be asked.
    full: bool,
    live: Option<Expr>,
    /// This thread writes what there is one of per row.
    writes: Expr,
    /// The row's variables' values.
    rows: Vec<Expr>,
    /// Row-long arrays in registers: inputs and on-chip `let`s.
    held: Vec<Held>,
    on_chip: BTreeMap<ArrayId, Expr>,
    aligned: bool,
    /// The map whose elements are collected to packs at the moment.
    output: Option<Statement>,
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
    let full = layout.positions().is_some_and(|n| lowering.facts.is(extent, n));
    let length = lowering.size(extent, "row_extent");
    let (index, extent, live, writes, start) = match layout {
        Layout::Lanes { lanes, .. } => {
            let count = lowering.size(rows, "rows");
            let per_block = int(layout.rows_per_block());
            let thread = || name("threadIdx.x").cast(Type::I32);
            let index = name("blockIdx.x").cast(ty) * per_block + thread() / int(lanes);
            let index = lowering.local("row", ty, index);
            let live = lowering.local("live", Type::Bool, index.clone().less(count));
            let lane = lowering.local("lane", Type::I32, thread() % int(lanes));
            let extent = if full { length } else { lowering.local("extent", ty, live.clone().choose(length, int(0))) };
            let writes = live.clone().and(lane.clone().binary("==", int(0)));
            (index, extent, Some(live), writes, lane)
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
    Ok(Row { layout, output: None, start, extent, full, live, writes, rows: values, held: Vec::new(), on_chip: BTreeMap::new(), aligned })
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

impl Layout {
    /// The length of the longest row that the layout holds.
    fn positions(self) -> Option<i64> {
        match self {
            Layout::Lanes { lanes, packs, steps } => Some(4 * lanes * packs * steps),
            Layout::Registers { groups: 1, steps } => Some(ACCUMULATORS * steps),
            Layout::Registers { groups, .. } => Some(BLOCK * groups),
            Layout::Reload { .. } => None,
        }
    }
    /// Elements that a thread holds.
    fn per_thread(self) -> u32 {
        match self {
            Layout::Lanes { packs, steps, .. } => (4 * packs * steps) as u32,
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

/// Binds the variables along the row to a position.
fn at_position(lowering: &mut Lowering, inner: &[Ranged], position: Expr) -> Result<(), Error> {
    if let [range] = inner {
        lowering.variables.insert(range.variable, position.clone());
    }
    lowering.flat = Some(Flat { variables: inner.to_vec(), position });
    Ok(())
}

/// Names what a map computes that is the same all along the row, so that it is computed once.
fn hoist_row_values(lowering: &mut Lowering, statement: &Statement, inner: &[Ranged]) -> Result<(), Error> {
    let variables: Vec<_> = inner.iter().map(|v| v.variable).collect();
    lowering.hoist(statement.value, &variables, "row_value")
}

impl Row {
    /// Declares the pack that collects an output's elements, if one is written.
    fn begin_pack(&self, lowering: &mut Lowering) -> Option<Expr> {
        let array = &lowering.kernel.arrays[self.output.as_ref()?.array];
        let (wish, element) = (format!("{}_pack", array.name.replace('.', "_")), array.element);
        let pack = lowering.variable(&wish, CudaType::Pack(element, 4), None);
        lowering.output_pack = Some(pack.clone());
        Some(pack)
    }

    /// Stores the collected pack by one access.
    fn end_pack(&self, lowering: &mut Lowering, inner: &[Ranged], pack: Option<Expr>, first: Expr) -> Result<(), Error> {
        let (Some(pack), Some(statement)) = (pack, &self.output) else { return Ok(()) };
        at_position(lowering, inner, first)?;
        let element = lowering.kernel.arrays[statement.array].element;
        let offset = match lowering.flat_place(statement.array, &statement.subscripts)? {
            Some(offset) => offset,
            None => return Err(Error::Bug("an output that does not run along its row".into())),
        };
        let pointer = lowering.pointer(statement.array);
        lowering.push(Node::Assign(Expr::Wide(element, 4, Box::new(pointer), Box::new(offset)), pack));
        Ok(())
    }

    /// The condition under which a position is one of the row, if there is something to ask.
    fn inside(&self, position: &Expr) -> Option<Expr> {
        if self.full { self.live.clone() } else { Some(position.clone().less(self.extent.clone())) }
    }
}

/// A position of the row, as `positions` visits it.
struct Spot {
    /// The register slot of the position.
    slot: Expr,
    /// Which of the thread's accumulators takes it.
    own: Expr,
    /// The pack that it belongs to, and its place there, where packs are whole.
    pack: Option<(Expr, Expr)>,
}

/// Visits this thread's positions of the row.
fn positions(
    lowering: &mut Lowering,
    row: &Row,
    inner: &[Ranged],
    mut write: impl FnMut(&mut Lowering, Spot) -> Result<(), Error>,
) -> Result<(), Error> {
    let ty = lowering.index_type();
    let wish = inner.last().map_or("j", |v| lowering.kernel.variables[v.variable].name.as_str()).to_string();
    match row.layout {
        Layout::Lanes { lanes, packs, steps } => {
            lowering.each("pack", Type::I32, [int(0), int(packs * steps), int(1)], Unroll::Full, |lowering, pack| {
                packs_of(lowering, row, inner, pack, [lanes, packs, steps], &mut write)
            })?;
        }
        Layout::Registers { steps, .. } => {
            lowering.each("step", Type::I32, [int(0), int(steps), int(1)], Unroll::Full, |lowering, step| {
                let position = row.start.clone() + step.clone() * int(ACCUMULATORS);
                let position = lowering.local(&wish, ty, position);
                lowering.when_some(row.inside(&position), |lowering| {
                    visit(lowering, row, inner, position, Spot { slot: step, own: int(0), pack: None }, &mut write)
                })
            })?;
        }
        Layout::Reload { .. } => {
            let threads = int(row.layout.threads());
            let lo = name("threadIdx.x").cast(Type::I32);
            lowering.each(&wish, ty, [lo, row.extent.clone(), threads], Unroll::By(4), |lowering, position| {
                at_position(lowering, inner, position)?;
                write(lowering, Spot { slot: int(0), own: int(0), pack: None })
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

type Write<'w> = &'w mut dyn FnMut(&mut Lowering, Spot) -> Result<(), Error>;

/// Visits the four positions of a pack. Where rows are whole packs, the pack is asked for as a whole.
fn packs_of(lowering: &mut Lowering, row: &Row, inner: &[Ranged], pack: Expr, layout: [i64; 3], write: Write) -> Result<(), Error> {
    let [lanes, packs, steps] = layout;
    let ty = lowering.index_type();
    let wish = inner.last().map_or("j", |v| lowering.kernel.variables[v.variable].name.as_str()).to_string();
    let first = pack.clone() * int(4 * lanes) + row.start.clone() * int(4);
    let spot = |part: &Expr| {
        let slot = pack.clone() * int(4) + part.clone();
        let own = match (packs, steps) {
            (_, 1) => slot.clone(),
            (1, _) => part.clone(),
            _ => (pack.clone() % int(packs)) * int(4) + part.clone(),
        };
        Spot { slot, own, pack: Some((pack.clone(), part.clone())) }
    };
    let parts = [int(0), int(4), int(1)];
    if row.aligned {
        let first = lowering.local("first", ty, first);
        return lowering.when_some(row.inside(&first), |lowering| {
            let packed = row.begin_pack(lowering);
            lowering.each("part", Type::I32, parts, Unroll::Full, |lowering, part| {
                visit(lowering, row, inner, first.clone() + part.clone(), spot(&part), write)
            })?;
            row.end_pack(lowering, inner, packed, first)
        });
    }
    lowering.each("part", Type::I32, parts, Unroll::Full, |lowering, part| {
        let position = lowering.local(&wish, ty, first.clone() + part.clone());
        lowering.when_some(row.inside(&position), |lowering| {
            visit(lowering, row, inner, position, Spot { pack: None, ..spot(&part) }, write)
        })
    })
}

fn visit(lowering: &mut Lowering, row: &Row, inner: &[Ranged], position: Expr, spot: Spot, write: Write) -> Result<(), Error> {
    at_position(lowering, inner, position)?;
    for held in &row.held {
        let element = match (&spot.pack, held.packed) {
            (Some((pack, part)), true) => held.registers.clone().at(pack.clone()).lane(part.clone()),
            _ => held.registers.clone().at(spot.slot.clone()),
        };
        lowering.computed.extend(held.reads.iter().map(|read| (*read, element.clone())));
    }
    for (array, registers) in &row.on_chip {
        lowering.chip.insert(*array, registers.clone().at(spot.slot.clone()));
    }
    write(lowering, spot)
}

/// The reduction's accumulator over the whole row, in every thread of it.
fn total(lowering: &mut Lowering, row: &Row, reduction: &Reduction, inner: &[Ranged]) -> Result<Expr, Error> {
    let wish = format!("{}_part", reduction.reduce.reducer.name());
    let ty = reduction.accumulator.clone();
    match row.layout {
        Layout::Lanes { lanes, packs, .. } => {
            let parts = lowering.registers(&wish, ty, vec![4 * packs as u32]);
            lowering.each("part", Type::I32, [int(0), int(4 * packs), int(1)], Unroll::Full, |lowering, part| {
                lowering.push(Node::Assign(parts.clone().at(part), reduction.identity.clone()));
                Ok(())
            })?;
            positions(lowering, row, inner, |lowering, spot| lowering.accumulate(reduction, parts.clone().at(spot.own)))?;
            let part = |index| parts.clone().at(int(index));
            // Packs are further apart than the lanes of a pack: in the lane, across lanes, then across packs.
            let mut values: Vec<Expr> = (0..packs)
                .map(|pack| {
                    let low = reduction.combine(part(4 * pack), part(4 * pack + 1));
                    let high = reduction.combine(part(4 * pack + 2), part(4 * pack + 3));
                    call("butterfly", vec![int(lanes), reduction.combine(low, high), reduction.functor()])
                })
                .collect();
            while values.len() > 1 {
                values = values.chunks(2).map(|pair| reduction.combine(pair[0].clone(), pair[1].clone())).collect();
            }
            values.pop().ok_or_else(|| Error::Bug("a row without accumulators".into()))
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

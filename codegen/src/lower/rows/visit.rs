//! A row in the hands of a block or of some lanes: its state, and how its positions are visited.

use std::collections::BTreeMap;

use gpukc_dsl::program::{ArrayId, ExprId, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::super::context::{Flat, Lowering};
use super::layout::{ACCUMULATORS, Layout};
use crate::error::Error;
use crate::plan::{CudaType, Expr, Node, Unroll, int, name};

/// The launch's state.
pub struct Row {
    pub layout: Layout,
    /// The row's extent, 0 for threads beyond the last row.
    pub extent: Expr,
    /// Whether every position of the layout is one of the row: only whether the row exists remains to be asked.
    pub full: bool,
    pub live: Option<Expr>,
    /// This thread writes what there is one of per row.
    pub writes: Expr,
    /// The row's variables' values.
    pub rows: Vec<Expr>,
    /// Row-long arrays in registers: inputs and on-chip `let`s.
    pub held: Vec<Held>,
    pub on_chip: BTreeMap<ArrayId, Expr>,
    pub aligned: bool,
    /// The map whose elements are collected to packs at the moment.
    pub output: Option<Statement>,
    /// The lane within the row, in the lanes layout; the thread's first position, in the registers layout.
    pub start: Expr,
}

pub struct Held {
    pub array: ArrayId,
    pub reads: Vec<ExprId>,
    pub registers: Expr,
    pub packed: bool,
}

/// Binds the variables along the row to a position.
pub fn at_position(lowering: &mut Lowering, inner: &[Ranged], position: Expr) -> Result<(), Error> {
    if let [range] = inner {
        lowering.variables.insert(range.variable, position.clone());
    }
    lowering.flat = Some(Flat { variables: inner.to_vec(), position });
    Ok(())
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
    pub fn inside(&self, position: &Expr) -> Option<Expr> {
        if self.full { self.live.clone() } else { Some(position.clone().less(self.extent.clone())) }
    }
}

/// A position of the row, as `positions` visits it.
pub struct Spot {
    /// The register slot of the position.
    pub slot: Expr,
    /// Which of the thread's accumulators takes it.
    pub own: Expr,
    /// The pack that it belongs to, and its place there, where packs are whole.
    pub pack: Option<(Expr, Expr)>,
}

/// Visits this thread's positions of the row.
pub fn positions(
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

//! A row in the hands of a block or of some lanes: its state, and how its positions are visited.

use std::collections::BTreeMap;

use gpukc_dsl::program::{ArrayId, ExprId, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::group::Numbering;
use super::super::packs::Along;
use super::super::split::run_along;
use super::layout::{ACCUMULATORS, Layout};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, call, int, name};

/// The launch's state.
pub struct Row {
    pub layout: Layout,
    pub numbering: Numbering,
    /// The row's extent, 0 for threads beyond the last row.
    pub extent: Expr,
    /// Whether every position of the layout is one of the row: only whether the row exists remains to be asked.
    pub full: bool,
    /// So many positions are those of every row that the text serves.
    pub sure: i64,
    /// Whether the extent is a multiple of the positions of so many steps.
    pub whole_chunks: [(i64, bool); 2],
    pub live: Option<Expr>,
    /// Whether this thread writes what there is one of per row; `None`: each does.
    pub writes: Option<Expr>,
    /// The row's variables' values; of the first row, where a thread has several.
    pub rows: Vec<Expr>,
    /// These variables, of the statement at hand.
    pub numbers: Vec<Ranged>,
    /// What there is one of per row: arrays and expressions. Registers by lane, where a thread has several rows.
    pub values: BTreeMap<ArrayId, Expr>,
    pub computed: Vec<(ExprId, Expr)>,
    /// Row-long arrays in registers: inputs and on-chip `let`s.
    pub held: Vec<Held>,
    pub on_chip: BTreeMap<ArrayId, Expr>,
    /// The place in the group of the statement at hand.
    pub at: usize,
    /// The row's length where it has an element for certain, and the layout may be longer: what does no harm is then computed without a
    /// branch for positions beyond the end, as for the last one, so that loads need not wait for one another.
    pub length: Option<Expr>,
    /// Vectors that the statement at hand reads along the row, by packs.
    pub beside: Vec<Along>,
    /// The map whose elements are collected to packs at the moment.
    pub output: Option<Statement>,
    /// The lane within the row, in the lanes layout; the thread's first position, in the layouts that hold rows otherwise.
    pub start: Expr,
}

pub struct Held {
    pub array: ArrayId,
    /// Where its elements lie, as far as the layout leaves it open.
    pub place: Vec<Formula>,
    pub reads: Vec<ExprId>,
    pub registers: Expr,
    pub packed: bool,
    /// The places in the group of the statements that read it first and last.
    pub first: usize,
    pub last: usize,
}

/// What is done for places of the layout that are beyond the row's end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    Nothing,
    /// What is done for the row's last position, without a branch, so that loads need not wait for one another. Something is stored
    /// where [`Spot::guard`] allows it alone.
    Repeat,
}

/// Steps that are left out together where they are beyond the row's end: those of a chunk load together.
pub const CHUNKS: [i64; 2] = [8, 4];

impl Row {
    /// Binds the variables along the row to a position.
    pub fn at_position(&self, lowering: &mut Lowering, inner: &[Ranged], position: Expr) -> Result<(), Error> {
        let (pieces, run) = inner.split_at(self.numbering.pieces);
        if pieces.is_empty() {
            run_along(lowering, run, position);
            return Ok(());
        }
        let ty = lowering.index_type();
        let extent = lowering.points(run)?;
        let extent = lowering.size(&extent, "run");
        let position = if let Expr::Name(_) = position { position } else { lowering.local("at", ty, position) };
        let mut piece = position.clone() / extent.clone();
        if pieces.len() > 1 {
            piece = lowering.local("piece", ty, piece);
        }
        lowering.decode(pieces, piece)?;
        let within = lowering.local("within", ty, position % extent);
        run_along(lowering, run, within);
        Ok(())
    }

    /// Does something for each of the thread's neighbouring rows.
    pub fn each_lane(
        &self,
        lowering: &mut Lowering,
        write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let lanes = [int(0), int(self.layout.lanes()), int(1)];
        lowering.each("lane", Type::I32, lanes, Unroll::Full, |lowering, lane| {
            self.bind_lane(lowering, &lane);
            write(lowering, lane)
        })?;
        self.bind_lane(lowering, &int(0));
        Ok(())
    }

    /// Makes a lane's row the one at hand.
    pub fn bind_lane(&self, lowering: &mut Lowering, lane: &Expr) {
        if let (Some(range), Some(first)) = (self.numbers.last(), self.rows.last()) {
            lowering.variables.insert(range.variable, first.clone() + lane.clone());
        }
        lowering.chip.extend(self.values.iter().map(|(array, values)| (*array, self.of_lane(values, lane))));
        lowering.computed.extend(self.computed.iter().map(|(id, values)| (*id, self.of_lane(values, lane))));
    }

    /// A lane's value of what there is one of per row.
    pub fn of_lane(&self, values: &Expr, lane: &Expr) -> Expr {
        if self.layout.lanes() > 1 { values.clone().at(lane.clone()) } else { values.clone() }
    }

    /// Names what there is one of per row.
    pub fn name(
        &self,
        lowering: &mut Lowering,
        wish: &str,
        ty: Type,
        compute: impl FnOnce(&mut Lowering, &Expr) -> Result<Expr, Error>,
    ) -> Result<Expr, Error> {
        let lanes = self.layout.lanes();
        if lanes == 1 {
            let value = compute(lowering, &int(0))?;
            return Ok(if matches!(value, Expr::Name(_)) { value } else { lowering.local(wish, ty, value) });
        }
        let values = lowering.registers(wish, ty, vec![lanes as u32]);
        self.each_lane(lowering, |lowering, lane| {
            let value = compute(lowering, &lane)?;
            lowering.push(Node::Assign(values.clone().at(lane), value));
            Ok(())
        })?;
        Ok(values)
    }

    /// Declares the pack that collects an output's elements, if one is written.
    fn begin_pack(&self, lowering: &mut Lowering) -> Option<Expr> {
        let pack = lowering.pack(self.output.as_ref()?.array, self.layout.pack().into());
        lowering.output_pack = Some(pack.clone());
        Some(pack)
    }

    /// Stores the collected pack by one access.
    fn end_pack(
        &self,
        lowering: &mut Lowering,
        inner: &[Ranged],
        pack: Option<Expr>,
        (first, guard): (Expr, Option<Guard>),
    ) -> Result<(), Error> {
        let (Some(pack), Some(statement)) = (pack, &self.output) else { return Ok(()) };
        let (first, condition) = guard.map_or((first, None), |guard| (guard.place, Some(guard.condition)));
        self.at_position(lowering, inner, first)?;
        let offset = match lowering.flat_place(statement.array, &statement.subscripts)? {
            Some(offset) => offset,
            None => return Err(Error::Bug("an output that does not run along its row".into())),
        };
        let place = lowering.wide(statement.array, self.layout.pack().into(), offset);
        lowering.when_some(condition, |lowering| {
            lowering.push(Node::Assign(place, pack));
            Ok(())
        })
    }

    /// Whether threads hold an array of the row, or of each row.
    pub fn holds(&self, lowering: &Lowering, array: ArrayId) -> bool {
        lowering.chip.contains_key(&array) || self.on_chip.contains_key(&array) || self.held.iter().any(|held| held.array == array)
    }

    /// A thread's steps: those whose positions every row has, and those whose positions it may not have.
    fn spans(&self) -> impl Iterator<Item = Span> + use<> {
        let (count, positions) = self.layout.steps();
        let sure = if self.full { count } else { positions.map_or(0, |positions| self.sure / positions).min(count) };
        let chunk =
            CHUNKS.into_iter().find(|chunk| self.layout.takes_blocks() && count - sure > *chunk && (count - sure) % chunk == 0);
        let chunk = chunk.filter(|_| self.length.is_some());
        // Chunks of which every row has all positions or none.
        let whole = chunk.is_some_and(|chunk| self.whole_chunks.contains(&(chunk, true)));
        let rest = Span { first: sure, end: count, sure: whole, chunk };
        [Span { first: 0, end: sure, sure: true, chunk: None }, rest].into_iter().filter(|span| span.first < span.end)
    }

    /// Whether steps beyond the row's end are left out by several.
    pub fn has_chunks(&self) -> bool {
        self.spans().any(|span| span.chunk.is_some())
    }

    /// Visits a place, the first of so many neighbours, if it is one of the row; or, as `beyond` has it, one that is.
    fn at_place(
        &self,
        lowering: &mut Lowering,
        wish: &str,
        place: Place,
        beyond: Beyond,
        visit: impl FnOnce(&mut Lowering, Expr, Option<Guard>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ty = lowering.index_type();
        let Place { first, width, sure } = place;
        match (&self.length, beyond) {
            _ if sure => {
                let position = lowering.local(wish, ty, first);
                let guard = self.live.clone().map(|condition| Guard { place: position.clone(), condition, sure });
                visit(lowering, position, guard)
            }
            (Some(length), Beyond::Repeat) => {
                let place = lowering.local("place", ty, first);
                let position = call("minimum", vec![place.clone(), length.clone() - int(width)]);
                let position = lowering.local(wish, ty, position);
                let condition = place.clone().less(self.extent.clone());
                visit(lowering, position, Some(Guard { place, condition, sure }))
            }
            _ => {
                let position = lowering.local(wish, ty, first);
                let inside = position.clone().less(self.extent.clone());
                lowering.when(inside, |lowering| visit(lowering, position, None))
            }
        }
    }
}

/// Steps from one to before another one, whether every row has their positions (of chunks that are not left out), and how many are
/// left out together where it has not.
struct Span {
    first: i64,
    end: i64,
    sure: bool,
    chunk: Option<i64>,
}

impl Span {
    /// Visits the steps.
    fn each(
        &self,
        lowering: &mut Lowering,
        row: &Row,
        wish: &str,
        mut write: impl FnMut(&mut Lowering, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let each =
            |lowering: &mut Lowering, [first, end]: [i64; 2], write: &mut dyn FnMut(&mut Lowering, Expr) -> Result<(), Error>| {
                lowering.each(wish, Type::I32, [int(first), int(end), int(1)], Unroll::Full, write)
            };
        let Some(size) = self.chunk else { return each(lowering, [self.first, self.end], &mut write) };
        lowering.each("chunk", Type::I32, [int(self.first), int(self.end), int(size)], Unroll::Full, |lowering, chunk| {
            let first = row.start.clone() + chunk.clone() * int(ACCUMULATORS);
            lowering.when(first.less(row.extent.clone()), |lowering| {
                each(lowering, [0, size], &mut |lowering, step| write(lowering, chunk.clone() + step))
            })
        })
    }
}

/// A place of the layout: its first position, how many neighbours it has, and whether every row has them.
struct Place {
    first: Expr,
    width: i64,
    sure: bool,
}

/// A position of the row, as `positions` visits it.
pub struct Spot {
    /// The register slot of the position.
    pub slot: Expr,
    /// Which of the thread's accumulators takes it.
    pub own: Expr,
    /// The pack that it belongs to, and its place there, where packs are whole.
    pub pack: Option<(Expr, Expr)>,
    /// What must be asked before something is stored.
    pub guard: Option<Guard>,
}

/// Of a place in the layout, for which another position stands in where it is beyond the row's end: itself, and whether it is of a row.
#[derive(Clone)]
pub struct Guard {
    pub place: Expr,
    pub condition: Expr,
    /// Whether every row has the position: only whether the thread has a row is asked.
    pub sure: bool,
}

/// A thread's pack: some neighbouring positions of its row, or a position of its neighbouring columns.
pub struct Pack {
    /// The register slot of the pack.
    pub slot: Expr,
    /// Which of the thread's packs of accumulators takes it.
    own: Expr,
    /// As [`Spot::guard`].
    pub guard: Option<Guard>,
}

impl Pack {
    fn spot(&self, width: u32, part: &Expr) -> Spot {
        let at = |pack: &Expr| pack.clone() * int(width.into()) + part.clone();
        let pack = Some((self.slot.clone(), part.clone()));
        Spot { slot: at(&self.slot), own: at(&self.own), pack, guard: self.guard.clone() }
    }
}

/// Visits this thread's positions of the row.
pub fn positions(
    lowering: &mut Lowering,
    row: &Row,
    inner: &[Ranged],
    beyond: Beyond,
    mut write: impl FnMut(&mut Lowering, Spot) -> Result<(), Error>,
) -> Result<(), Error> {
    let wish = inner.last().map_or("j", |v| lowering.kernel.variables[v.variable].name.as_str()).to_string();
    match row.layout {
        Layout::Lanes { .. } => packs(lowering, row, "first", beyond, |lowering, pack, first| {
            let packed = row.begin_pack(lowering);
            let beside: Vec<(&Along, Expr)> =
                row.beside.iter().map(|along| (along, lowering.load_pack(along.array, 4, first.clone()))).collect();
            lowering.each("part", Type::I32, [int(0), int(4), int(1)], Unroll::Full, |lowering, part| {
                beside.iter().for_each(|(along, pack)| lowering.take_from(along, &pack.clone().lane(part.clone())));
                visit(lowering, row, inner, first.clone() + part.clone(), pack.spot(4, &part), &mut write)
            })?;
            row.beside.iter().flat_map(|along| &along.reads).for_each(|read| drop(lowering.computed.remove(read)));
            row.end_pack(lowering, inner, packed, (first, pack.guard))
        })?,
        Layout::Columns(_) => packs(lowering, row, &wish, beyond, |lowering, pack, position| {
            let packed = row.begin_pack(lowering);
            row.each_lane(lowering, |lowering, lane| {
                visit(lowering, row, inner, position.clone(), pack.spot(row.layout.pack(), &lane), &mut write)
            })?;
            row.end_pack(lowering, inner, packed, (position, pack.guard))
        })?,
        Layout::Strided { .. } | Layout::Registers { .. } => {
            elements(lowering, row, &wish, beyond, |lowering, position, spot| visit(lowering, row, inner, position, spot, &mut write))?
        }
        Layout::Reload { .. } => {
            let (ty, threads) = (lowering.index_type(), int(row.layout.threads()));
            let lo = name("threadIdx.x").cast(Type::I32);
            lowering.each(&wish, ty, [lo, row.extent.clone(), threads], Unroll::By(4), |lowering, position| {
                row.at_position(lowering, inner, position)?;
                write(lowering, Spot { slot: int(0), own: int(0), pack: None, guard: None })
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

/// Visits this thread's positions where neighbours belong to neighbouring threads.
fn elements(
    lowering: &mut Lowering,
    row: &Row,
    wish: &str,
    beyond: Beyond,
    mut write: impl FnMut(&mut Lowering, Expr, Spot) -> Result<(), Error>,
) -> Result<(), Error> {
    row.spans().try_for_each(|span| {
        let sure = span.sure;
        let mut at = |lowering: &mut Lowering, first, slot: Expr, own: Expr| {
            row.at_place(lowering, wish, Place { first, width: 1, sure }, beyond, |lowering, position, guard| {
                write(lowering, position, Spot { slot, own, pack: None, guard })
            })
        };
        span.each(lowering, row, "step", |lowering, step| match row.layout {
            Layout::Strided { lanes, parts, .. } => {
                lowering.each("part", Type::I32, [int(0), int(parts), int(1)], Unroll::Full, |lowering, part| {
                    let first = step.clone() * int(lanes * parts) + part.clone() * int(lanes) + row.start.clone();
                    at(lowering, first, step * int(parts) + part.clone(), part)
                })
            }
            _ => at(lowering, row.start.clone() + step.clone() * int(ACCUMULATORS), step, int(0)),
        })
    })
}

/// Visits this thread's packs, each at its first position, where a pack is of the row as a whole or not at all.
pub fn packs(
    lowering: &mut Lowering,
    row: &Row,
    wish: &str,
    beyond: Beyond,
    mut write: impl FnMut(&mut Lowering, Pack, Expr) -> Result<(), Error>,
) -> Result<(), Error> {
    row.spans().try_for_each(|span| {
        let sure = span.sure;
        let mut at = |lowering: &mut Lowering, [first, slot, own]: [Expr; 3], width| {
            row.at_place(lowering, wish, Place { first, width, sure }, beyond, |lowering, position, guard| {
                write(lowering, Pack { slot, own, guard }, position)
            })
        };
        match row.layout {
            Layout::Lanes { lanes, packs, steps, .. } => span.each(lowering, row, "pack", |lowering, slot| {
                let own = match (packs, steps) {
                    (_, 1) => slot.clone(),
                    (1, _) => int(0),
                    _ => slot.clone() % int(packs),
                };
                let first = slot.clone() * int(4 * lanes) + row.start.clone();
                at(lowering, [first, slot, own], 4)
            }),
            Layout::Columns(tile) => span.each(lowering, row, "step", |lowering, step| {
                lowering.each("part", Type::I32, [int(0), int(tile.own), int(1)], Unroll::Full, |lowering, own| {
                    let first = row.start.clone() + step.clone() * int(ACCUMULATORS) + own.clone();
                    at(lowering, [first, step * int(tile.own) + own.clone(), own], 1)
                })
            }),
            _ => Err(Error::Bug("a layout without packs".into())),
        }
    })
}

type Write<'w> = &'w mut dyn FnMut(&mut Lowering, Spot) -> Result<(), Error>;

fn visit(lowering: &mut Lowering, row: &Row, inner: &[Ranged], position: Expr, spot: Spot, write: Write) -> Result<(), Error> {
    row.at_position(lowering, inner, position)?;
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

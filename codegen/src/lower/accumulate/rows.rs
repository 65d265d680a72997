//! Accumulations of rows: some of the left side's subscripts choose a row, the others run along it (`y[s[i], j] += x[i, j]`).
//!
//! Some neighbouring threads take a row of iterations, a piece of neighbouring elements each, and a few rows one after another. What
//! they read is loaded for all of these before the first is combined into the array, and where a row goes is found once a piece.
//! Pieces of neighbouring rows that go to the same place, as most do where segments are sorted, meet in registers.

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::{AccumulateOp, Type};

use super::{Container, combine, combine_by, combine_into};
use crate::error::Error;
use crate::lower::by_rows::{self, IN_FLIGHT, NOWHERE, Row, Rows, THREADS, thread};
use crate::lower::context::Lowering;
use crate::lower::expr::cast;
use crate::lower::group::{from_zero, is_flat, product};
use crate::lower::map::suffix;
use crate::lower::packs::{self, Along, Verdict, lane_of};
use crate::plan::{Expr, Node, Unroll, int, name};
use crate::walk;

/// Most rows that a thread takes.
const MOST_STEPS: i64 = 8;
/// Most arrays that are loaded ahead, of those that run along a row and of those that do not.
const MOST_AHEAD: usize = 4;
/// Bytes that atomic operations are done for at once, where they meet.
const SECTOR: i64 = 32;
/// Rows of fewer elements are no rows to speak of.
const SHORTEST: i64 = 4;

/// How iterations are taken by rows.
pub struct Shape {
    /// How many of the variables number the rows.
    pub rank: usize,
    /// Elements of a piece.
    pub lanes: i64,
    /// Neighbouring threads that take a row.
    across: i64,
    /// Rows that a thread takes.
    steps: i64,
    /// Where rows go.
    pub target: Row,
    /// What is read along a row, and what is the same all along it.
    pub along: Vec<Along>,
    once: Vec<Along>,
}

/// How a statement's iterations are taken by rows, of as many of the last variables as possible, and in packs of one of these sizes if
/// one fits.
pub fn shape(lowering: &Lowering, statement: &Statement, container: Container, packs: &[i64]) -> Option<Shape> {
    let (kernel, variables) = (lowering.kernel, &statement.variables);
    let mut roots = statement.subscripts.iter().map(|subscript| subscript.index).chain([statement.value]);
    if !from_zero(kernel, lowering.facts, variables) || roots.any(|root| walk::has_reduction(kernel, root)) {
        return None;
    }
    (1..variables.len()).find_map(|rank| by_rows(lowering, statement, container, rank, packs))
}

fn by_rows(lowering: &Lowering, statement: &Statement, container: Container, rank: usize, packs: &[i64]) -> Option<Shape> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let (rows, inner) = statement.variables.split_at(rank);
    let (row_count, extent) = (product(kernel, facts, rows)?, product(kernel, facts, inner)?);
    let target = by_rows::row_of(kernel, facts, statement.array, &statement.subscripts, inner)?;
    if !facts.at_least(&extent, SHORTEST) || !is_flat(kernel, facts, statement.value, inner) {
        return None;
    }
    let whole = |lanes: &i64| facts.aligned && [&extent, &target.stride, &target.constant].iter().all(|n| facts.multiple(n, *lanes));
    let size = |along: &Along| kernel.arrays[along.array].element.size() as i64;
    let (lanes, along) = packs.iter().copied().filter(whole).chain([1]).find_map(|lanes| {
        let along = along(lowering, statement, rank, lanes);
        let widest = along.iter().map(size).fold(container.wide.size() as i64, i64::max);
        (lanes == 1 || lanes * widest <= 16).then_some((lanes, along))
    })?;
    let once = once(lowering, statement, rank, &target);
    if along.len().max(once.len()) > MOST_AHEAD {
        return None;
    }
    // Rows that start anywhere in a sector of memory cost one more for each piece that they are cut into.
    let pieces = extent.clone().div_ceil(lanes);
    let sectors = facts.multiple(&extent, SECTOR / container.wide.size() as i64);
    let at_once = [16, 64].into_iter().filter(|_| !sectors).find(|across| facts.below(&pieces, across + 1));
    let across = at_once.unwrap_or_else(|| by_rows::across(facts, &pieces));
    let bytes = lanes * along.iter().map(size).sum::<i64>();
    let steps = (IN_FLIGHT / bytes.max(1)).clamp(1, MOST_STEPS);
    let steps = if facts.below(&row_count, THREADS / across * steps) { 1 } else { steps };
    Some(Shape { rank, lanes, across, steps, target, along, once })
}

/// What runs along a row in pieces of so many elements, in `let`s computed in place as well.
fn along(lowering: &Lowering, statement: &Statement, rank: usize, lanes: i64) -> Vec<Along> {
    packs::along(lowering, &[statement.value], &statement.variables, |read| match read.in_place {
        Some(inlined) if read.is_along(lowering, inlined, rank) => Verdict::Enter,
        None if read.runs_along(lowering, rank, lanes) => Verdict::Along,
        _ => Verdict::Apart,
    })
}

/// What is the same all along a row: indices that choose where it goes, weights.
fn once(lowering: &Lowering, statement: &Statement, rank: usize, target: &Row) -> Vec<Along> {
    let choosing = statement.subscripts[..target.choosing].iter().map(|subscript| subscript.index);
    let roots: Vec<_> = choosing.chain([statement.value]).collect();
    packs::along(lowering, &roots, &statement.variables, |read| {
        let varies = read.own[rank..].iter().any(|v| walk::mentions(lowering.kernel, read.id, v.variable));
        match read.in_place {
            Some(inlined) if read.is_along(lowering, inlined, rank) => Verdict::Enter,
            None if !varies => Verdict::Along,
            _ => Verdict::Apart,
        }
    })
}

/// Lowers the statement by rows.
pub fn lower(
    lowering: &mut Lowering,
    statement: &Statement,
    container: Container,
    op: AccumulateOp,
    shape: &Shape,
) -> Result<(), Error> {
    let (rows, inner) = statement.variables.split_at(shape.rank);
    let (row_count, extent) = (lowering.points(rows)?, lowering.points(inner)?);
    let block = (THREADS / shape.across * shape.steps, shape.across * shape.lanes);
    let ty = lowering.index_type();
    let target = container.pointer(lowering, true);
    let within = (thread() % int(shape.across)) * int(shape.lanes);
    let (first_row, position) = by_rows::stand(lowering, &extent, block, name("blockIdx.x").cast(ty), within)?;
    let first = lowering.local("first", ty, first_row + thread() / int(shape.across) * int(shape.steps));
    let rows = Rows::of(lowering, &statement.variables, shape.rank, block)?;
    let in_row = rows.has_position(&position);
    let pieces = Pieces { shape, statement, container, op, target, first, position, rows };
    lowering.when_some(in_row, |lowering| {
        let loaded = pieces.load(lowering)?;
        pieces.combine(lowering, &loaded)
    })?;
    pieces.rows.release(lowering);
    let suffix = suffix(lowering, statement);
    let grid = extent.div_ceil(block.1).times(row_count.div_ceil(block.0));
    lowering.end_launch(&suffix, "accumulate", notes(shape), [grid, 1.into(), 1.into()], [THREADS as u32, 1, 1]);
    Ok(())
}

fn notes(shape: &Shape) -> Vec<String> {
    let Shape { lanes, across, steps, .. } = shape;
    let piece = if *lanes > 1 { format!("a pack of {lanes} elements each") } else { "an element each".into() };
    let mut notes = vec![format!("Rows whose place data chooses: {across} neighbouring threads take a row, {piece}.")];
    if *steps > 1 {
        notes.push(format!("A thread has {steps} rows in flight; those that go to the same place meet in its registers."));
    }
    notes.push("Values meet in the array by atomic operations.".into());
    notes
}

/// A thread's pieces.
struct Pieces<'a> {
    shape: &'a Shape,
    statement: &'a Statement,
    container: Container,
    op: AccumulateOp,
    target: Expr,
    /// The thread's first row.
    first: Expr,
    /// Its place in each of its rows.
    position: Expr,
    rows: Rows<'a>,
}

/// What a thread has loaded.
struct Loaded {
    along: Vec<Expr>,
    once: Vec<Expr>,
}

impl Pieces<'_> {
    fn each(&self, lowering: &mut Lowering, write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>) -> Result<(), Error> {
        lowering.each("step", Type::I32, [int(0), int(self.shape.steps), int(1)], Unroll::Full, write)
    }

    /// Goes on where the row of a step exists, with the variables bound to the first element of the piece.
    fn in_row(
        &self,
        lowering: &mut Lowering,
        step: &Expr,
        write: impl FnOnce(&mut Lowering) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ty = lowering.index_type();
        let row = lowering.local("row", ty, self.first.clone() + step.clone());
        lowering.when_some(self.rows.has_row(&row), |lowering| {
            self.bind(lowering, row)?;
            write(lowering)
        })
    }

    fn bind(&self, lowering: &mut Lowering, row: Expr) -> Result<(), Error> {
        lowering.decode(self.rows.rows(), row)?;
        self.rows.bind(lowering, self.position.clone());
        Ok(())
    }

    fn load(&self, lowering: &mut Lowering) -> Result<Loaded, Error> {
        let (shape, steps) = (self.shape, self.shape.steps);
        let along: Vec<Expr> = shape.along.iter().map(|along| lowering.pieces(along.array, shape.lanes, steps)).collect();
        let once: Vec<Expr> = shape.once.iter().map(|once| lowering.pieces(once.array, 1, steps)).collect();
        self.each(lowering, |lowering, step| {
            self.in_row(lowering, &step, |lowering| {
                for (from, registers) in shape.along.iter().zip(&along) {
                    let offset = self.rows.offset(lowering, from)?;
                    let piece = lowering.piece(from.array, shape.lanes, offset);
                    lowering.push(Node::Assign(registers.clone().at(step.clone()), piece));
                }
                for (from, registers) in shape.once.iter().zip(&once) {
                    let Some(read) = from.reads.first() else { continue };
                    let element = lowering.at_element_of(&from.own, |lowering| lowering.value(*read))?;
                    lowering.push(Node::Assign(registers.clone().at(step.clone()), element));
                }
                Ok(())
            })
        })?;
        Ok(Loaded { along, once })
    }

    /// Combines piece after piece into the array, but first with those before it that go to the same place.
    fn combine(&self, lowering: &mut Lowering, loaded: &Loaded) -> Result<(), Error> {
        let (ty, several) = (lowering.index_type(), self.shape.steps > 1);
        let row = format!("{}_row", lowering.kernel.arrays[self.container.array].name.replace('.', "_"));
        let so_far = lowering.variable("so_far", self.container.piece(self.shape.lanes), None);
        let before = several.then(|| lowering.variable(&format!("{row}_before"), ty, Some(int(NOWHERE))));
        self.each(lowering, |lowering, step| {
            let found = lowering.variable(&row, ty, Some(int(NOWHERE)));
            self.in_row(lowering, &step, |lowering| {
                self.take_once(lowering, loaded, &step);
                by_rows::find_row(lowering, self.statement.array, &self.statement.subscripts, &self.shape.target, &found).map(drop)
            })?;
            let exists = int(NOWHERE).less(found.clone());
            let Some(before) = &before else {
                return lowering.when(exists, |lowering| {
                    self.take(lowering, loaded, &step, &so_far, None)?;
                    self.deliver(lowering, &found, &so_far);
                    Ok(())
                });
            };
            let again = lowering.local("again", Type::Bool, found.clone().binary("==", before.clone()));
            let leaves = Expr::Unary("!", Box::new(again.clone())).and(int(NOWHERE).less(before.clone()));
            lowering.when(leaves, |lowering| {
                self.deliver(lowering, before, &so_far);
                Ok(())
            })?;
            lowering.when(exists, |lowering| self.take(lowering, loaded, &step, &so_far, Some(&again)))?;
            lowering.push(Node::Assign(before.clone(), found));
            Ok(())
        })?;
        let Some(before) = before else { return Ok(()) };
        lowering.when(int(NOWHERE).less(before.clone()), |lowering| {
            self.deliver(lowering, &before, &so_far);
            Ok(())
        })
    }

    /// Lets what is the same all along the row of a step take its values from registers.
    fn take_once(&self, lowering: &mut Lowering, loaded: &Loaded, step: &Expr) {
        lowering.computed.clear();
        for (from, registers) in self.shape.once.iter().zip(&loaded.once) {
            lowering.take_from(from, &registers.clone().at(step.clone()));
        }
    }

    /// Computes the values of a step whose row exists; where it goes to the same place as the one before, takes them into `so_far`.
    fn take(&self, lowering: &mut Lowering, loaded: &Loaded, step: &Expr, so_far: &Expr, again: Option<&Expr>) -> Result<(), Error> {
        let (shape, statement, wide) = (self.shape, self.statement, self.container.wide);
        let row = lowering.local("row", lowering.index_type(), self.first.clone() + step.clone());
        self.bind(lowering, row)?;
        self.take_once(lowering, loaded, step);
        let variables: Vec<_> = self.rows.inner().iter().map(|v| v.variable).collect();
        lowering.hoist(statement.value, &variables, "row_value")?;
        let from = lowering.kernel.exprs[statement.value].ty;
        lowering.each("lane", Type::I32, [int(0), int(shape.lanes), int(1)], Unroll::Full, |lowering, lane| {
            for (along, registers) in shape.along.iter().zip(&loaded.along) {
                lowering.take_from(along, &lane_of(&registers.clone().at(step.clone()), shape.lanes, &lane));
            }
            self.rows.bind(lowering, self.position.clone() + lane.clone());
            let value = lowering.value(statement.value)?;
            let value = cast(value, from, wide);
            let place = lane_of(so_far, shape.lanes, &lane);
            let next = match again {
                Some(again) => {
                    let named = matches!(value, Expr::Name(_) | Expr::Lane(..) | Expr::Float(..) | Expr::Int(..));
                    let value = if named { value } else { lowering.local("value", wide, value) };
                    again.clone().choose(combine(self.op, place.clone(), value.clone(), wide), value)
                }
                None => value,
            };
            lowering.push(Node::Assign(place, next));
            Ok(())
        })?;
        lowering.computed.clear();
        Ok(())
    }

    /// Combines a piece into the row that begins there.
    fn deliver(&self, lowering: &mut Lowering, begin: &Expr, piece: &Expr) {
        let place = self.target.clone().at(begin.clone() + self.position.clone());
        lowering.push(match self.shape.lanes {
            1 => combine_into(place, piece.clone(), self.op),
            _ => combine_by("accumulate_pack", place, piece.clone(), self.op),
        });
    }
}

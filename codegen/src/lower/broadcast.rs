//! Broadcasts: element-wise maps over rows, where something is the same along a row or from row to row. Neighbouring elements of a
//! row move as packs; a block takes pieces of some rows, or of one row if there are few.

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::Type;

use super::by_rows::{IN_FLIGHT, Rows, THREADS};
use super::context::Lowering;
use super::group::{from_zero, is_flat};
use super::map::suffix;
use super::packs::{self, Along, Read, Verdict};
use super::read::{access, flat_coefficient};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, int, name};
use crate::walk;

/// Most arrays whose packs a thread holds.
const MOST_ALONG: usize = 8;

/// A map whose elements run along within rows.
pub struct Broadcast {
    /// How many of the left side's variables number the rows.
    rank: usize,
    /// Elements of a pack.
    lanes: i64,
    /// What runs along a row.
    along: Vec<Along>,
    /// Threads along a row.
    across: i64,
    /// Packs that a thread takes.
    steps: i64,
    /// Whether those are of one row.
    of_one_row: bool,
}

impl Broadcast {
    fn rows_per_block(&self) -> i64 {
        THREADS / self.across * if self.of_one_row { 1 } else { self.steps }
    }
    fn positions_per_block(&self) -> i64 {
        self.across * self.lanes * if self.of_one_row { self.steps } else { 1 }
    }
}

/// How the statement is computed by rows, if it can be: the longest run of its last variables that all reads run along with or leave
/// out, and rows of whole packs.
pub fn broadcast(lowering: &Lowering, statement: &Statement) -> Option<Broadcast> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let variables = &statement.variables;
    if !facts.aligned || variables.len() < 2 || !from_zero(kernel, facts, variables) || walk::has_reduction(kernel, statement.value) {
        return None;
    }
    (1..variables.len()).find_map(|rank| by_rows(lowering, statement, rank))
}

fn by_rows(lowering: &Lowering, statement: &Statement, rank: usize) -> Option<Broadcast> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let (rows, inner) = statement.variables.split_at(rank);
    let extent = super::group::product(kernel, facts, inner)?;
    let row_count = super::group::product(kernel, facts, rows)?;
    let output = access(kernel, facts, statement.array, &statement.subscripts)?;
    if flat_coefficient(kernel, facts, &output, inner)? != Formula::Constant(1) || !is_flat(kernel, facts, statement.value, inner) {
        return None;
    }
    let along = packs::along(lowering, &[statement.value], &statement.variables, |read| judge(lowering, read, rank))?;
    if along.len() > MOST_ALONG {
        return None;
    }
    let widest = along.iter().map(|along| kernel.arrays[along.array].element.size()).max()?;
    let widest = widest.max(kernel.arrays[statement.array].element.size()) as i64;
    let strides: Vec<Formula> =
        output.terms.iter().filter(|(v, _)| !inner.iter().any(|i| i.variable == *v)).map(|t| t.1.clone()).collect();
    let whole = |lanes: i64| facts.multiple(&extent, lanes) && strides.iter().all(|stride| facts.multiple(stride, lanes));
    let lanes = [16, 8, 4, 2].into_iter().find(|lanes| lanes * widest <= 16 && whole(*lanes))?;
    let packs = extent.clone().div_ceil(lanes);
    let across = [4, 8, 16, 32, 64, 128].into_iter().find(|across| facts.below(&packs, across + 1)).unwrap_or(THREADS);
    let steps = (IN_FLIGHT / (lanes * widest * along.len() as i64)).clamp(1, 4);
    let of_one_row = facts.at_least(&packs, THREADS * steps) || facts.below(&row_count, THREADS / across * steps);
    Some(Broadcast { rank, lanes, along, across, steps, of_one_row })
}

/// Whether a read runs along with the variables from `rank` on, in packs that are aligned in every row.
fn judge(lowering: &Lowering, read: &Read, rank: usize) -> Verdict {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let inner = &read.own[rank..];
    if read.is_checked() {
        return Verdict::Refuse;
    }
    if let Some(inlined) = read.in_place {
        let per_row = !inner.iter().any(|v| walk::mentions(kernel, read.id, v.variable));
        return match read.is_along(lowering, inlined, rank) {
            true => Verdict::Enter,
            false if per_row => Verdict::Apart,
            false => Verdict::Refuse,
        };
    }
    let Some(extent) = super::group::product(kernel, facts, inner) else { return Verdict::Refuse };
    let unit = (16 / kernel.arrays[read.array].element.size() as i64).max(1);
    let Some(unit) = [unit, 8, 4, 2].into_iter().find(|unit| facts.multiple(&extent, *unit)) else { return Verdict::Refuse };
    // Packs of every row are aligned: the steps from row to row are those of whole packs.
    if read.runs_along(lowering, rank, unit) { Verdict::Along } else { Verdict::Apart }
}

/// Lowers the statement by rows.
pub fn lower(lowering: &mut Lowering, statement: &Statement, shape: &Broadcast) -> Result<(), Error> {
    let (rows, inner) = statement.variables.split_at(shape.rank);
    let ty = lowering.index_type();
    let (row_count, extent) = (lowering.points(rows)?, lowering.points(inner)?);
    let tiles = extent.clone().div_ceil(shape.positions_per_block());
    let tiles_of_row = lowering.size(&tiles, "tiles");
    lowering.passes_over([statement]);
    let work = lowering.local("work", ty, lowering.block_number().cast(ty));
    let (x, y) = (name("threadIdx.x").cast(Type::I32), name("threadIdx.y").cast(Type::I32));
    let first = (work.clone() % tiles_of_row.clone()) * int(shape.positions_per_block()) + x * int(shape.lanes);
    let first = lowering.local("first", ty, first);
    let row = work / tiles_of_row * int(shape.rows_per_block());
    let row = if shape.across < THREADS { row + y } else { row };
    let row = lowering.local("row", ty, row);
    let block = (shape.rows_per_block(), shape.positions_per_block());
    let rows = Rows::of(lowering, &statement.variables, shape.rank, block)?;
    let place = Places { shape, statement, first, row, rows };
    let packs = place.load(lowering)?;
    place.store(lowering, &packs)?;
    let mut notes = vec![
        format!("By rows: a block takes {} elements of {} rows,", shape.positions_per_block(), shape.rows_per_block()),
        format!("packs of {} neighbours at a time; all loads of a thread are issued before the first result is needed.", shape.lanes),
    ];
    notes.extend(lowering.block_order_note());
    let suffix = suffix(lowering, statement);
    let grid = tiles.times(row_count.div_ceil(shape.rows_per_block()));
    let threads = [shape.across as u32, (THREADS / shape.across) as u32, 1];
    lowering.end_launch(&suffix, "map", notes, [grid, 1.into(), 1.into()], threads);
    Ok(())
}

/// Where a thread's packs lie.
struct Places<'a> {
    shape: &'a Broadcast,
    statement: &'a Statement,
    first: Expr,
    row: Expr,
    rows: Rows<'a>,
}

impl Places<'_> {
    /// Visits the thread's packs, with the variables bound to the first element of each.
    fn each(&self, lowering: &mut Lowering, write: impl FnOnce(&mut Lowering, Expr, Expr) -> Result<(), Error>) -> Result<(), Error> {
        let (shape, ty) = (self.shape, lowering.index_type());
        lowering.each("step", Type::I32, [int(0), int(shape.steps), int(1)], Unroll::Full, |lowering, step| {
            let several = shape.steps > 1;
            let (row, position) = match (several, shape.of_one_row) {
                (false, _) => (self.row.clone(), self.first.clone()),
                (true, true) => (self.row.clone(), self.first.clone() + step.clone() * int(shape.across * shape.lanes)),
                (true, false) => (self.row.clone() + step.clone() * int(THREADS / shape.across), self.first.clone()),
            };
            let row = if matches!(row, Expr::Name(_)) { row } else { lowering.local("row_at", ty, row) };
            let position = if matches!(position, Expr::Name(_)) { position } else { lowering.local("at", ty, position) };
            let inside = self.rows.has_row(&row).into_iter().chain(self.rows.has_position(&position)).reduce(Expr::and);
            lowering.when_some(inside, |lowering| {
                lowering.decode(self.rows.rows(), row)?;
                self.rows.bind(lowering, position.clone());
                write(lowering, step, position)
            })
        })
    }

    fn load(&self, lowering: &mut Lowering) -> Result<Vec<Expr>, Error> {
        let shape = self.shape;
        let mut packs = Vec::new();
        for along in &shape.along {
            packs.push(lowering.packs(along.array, shape.lanes, shape.steps));
        }
        self.each(lowering, |lowering, step, _| {
            for (along, pack) in shape.along.iter().zip(&packs) {
                let offset = self.rows.offset(lowering, along)?;
                let wide = lowering.wide(along.array, shape.lanes, offset);
                lowering.push(Node::Assign(pack.clone().at(step.clone()), wide));
            }
            Ok(())
        })?;
        Ok(packs)
    }

    fn store(&self, lowering: &mut Lowering, packs: &[Expr]) -> Result<(), Error> {
        let (shape, statement) = (self.shape, self.statement);
        self.each(lowering, |lowering, step, position| {
            let variables: Vec<_> = self.rows.inner().iter().map(|v| v.variable).collect();
            lowering.hoist(statement.value, &variables, "row_value")?;
            let result = lowering.pack(statement.array, shape.lanes);
            lowering.each("lane", Type::I32, [int(0), int(shape.lanes), int(1)], Unroll::Full, |lowering, lane| {
                for (along, pack) in shape.along.iter().zip(packs) {
                    lowering.take_from(along, &pack.clone().at(step.clone()).lane(lane.clone()));
                }
                self.rows.bind(lowering, position.clone() + lane.clone());
                let value = lowering.value(statement.value)?;
                lowering.push(Node::Assign(result.clone().lane(lane), value));
                Ok(())
            })?;
            self.rows.bind(lowering, position);
            let Some(offset) = lowering.flat_place(statement.array, &statement.subscripts)? else {
                return Err(Error::Bug("a row that is not stored along".into()));
            };
            lowering.computed.clear();
            let place = lowering.wide(statement.array, shape.lanes, offset);
            lowering.push(Node::Assign(place, result));
            Ok(())
        })?;
        self.rows.release(lowering);
        Ok(())
    }
}

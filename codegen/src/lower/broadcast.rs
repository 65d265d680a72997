//! Broadcasts: element-wise maps over rows, where something is the same along a row or from row to row. Neighbouring elements of a
//! row move as packs; a block takes pieces of some rows, or of one row if there are few.

use gpukc_dsl::program::{Bounds, ExprId, ExprKind, Ranged, Subscript};
use gpukc_dsl::types::Type;

use super::by_rows::{Rows, THREADS};
use super::context::Lowering;
use super::group::from_zero;
use super::map::{Results, is_identity, suffix_of};
use super::place::Place;
use super::read::{access, flat_coefficient};
use super::wide::{Layout, MOST_ELEMENTS};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Unroll, int, name};
use crate::size;
use crate::walk;

/// Bytes of packs that a thread has in flight, and where much is computed from them; and most steps that it takes for their sake
/// (8192² f32 plus a vector on an H200: 127 µs by two steps, 132 by four).
const IN_FLIGHT: [i64; 2] = [32, 64];
const MOST_STEPS: i64 = 2;
/// Instructions of an element from which on that is much.
const MUCH: u32 = 8;
/// Elements of a row that is worth a block's threads although its elements are read one by one.
const LONG: i64 = 64;
/// Bytes of a pack.
const PACK: i64 = 16;
/// Most runs that a thread holds.
const MOST_RUNS: usize = 8;

/// A map whose elements run along within rows.
pub struct Broadcast {
    /// How many of the left side's variables number the rows.
    rank: usize,
    /// How a thread's elements lie along a row.
    pub layout: Layout,
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
        self.across * self.layout.positions() * if self.of_one_row { self.steps } else { 1 }
    }
}

/// How results are computed by rows, if they can be: the longest run of its last variables, `minors` aside, that all reads run along
/// with or leave out, and rows of whole packs.
pub fn broadcast(lowering: &Lowering, results: Results, minors: usize) -> Option<Broadcast> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let variables = results.variables();
    if !facts.aligned || variables.len() < 2 || !from_zero(kernel, facts, variables) || results.has_reduction(kernel) {
        return None;
    }
    (1..variables.len()).find_map(|rank| by_rows(lowering, results, rank, minors))
}

fn by_rows(lowering: &Lowering, results: Results, rank: usize, minors: usize) -> Option<Broadcast> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let (rows, inner) = results.variables().split_at(rank);
    let (extent, row_count) = (super::group::product(kernel, facts, inner)?, super::group::product(kernel, facts, rows)?);
    let mut strides: Vec<Formula> = Vec::new();
    for statement in results.statements() {
        let output = access(kernel, facts, statement.array, &statement.subscripts)?;
        if flat_coefficient(kernel, facts, &output, inner)? != Formula::Constant(1) {
            return None;
        }
        let of_rows = output.terms.into_iter().filter(|(v, _)| !inner.iter().any(|i| i.variable == *v));
        strides.extend(of_rows.map(|(_, stride)| stride).chain([output.constant]));
    }
    let whole = |lanes: i64| lanes > 1 && facts.multiple(&extent, lanes) && strides.iter().all(|stride| facts.multiple(stride, lanes));
    let mut layout = Layout::of(lowering, results, rank, minors, whole)?;
    if extent.constant().is_some_and(|extent| extent <= MOST_ELEMENTS) {
        // Along rows as short as that, what is the same for a row is read as often as what is not.
        layout.apart += of_rows(lowering, results, rows, &layout);
    }
    let beside = minors == 0 && facts.at_least(&extent, LONG) && all_beside(lowering, results, inner.len(), false);
    if layout.runs.is_empty() && !beside || layout.runs.len() > MOST_RUNS || !facts.multiple(&extent, layout.count) {
        return None;
    }
    let pieces = extent.div_ceil(layout.count);
    let across = [4, 8, 16, 32, 64, 128].into_iter().find(|across| facts.below(&pieces, across + 1)).unwrap_or(THREADS);
    let in_flight = IN_FLIGHT[usize::from(results.cost(kernel) >= MUCH)];
    let steps = (in_flight / layout.bytes(lowering).max(PACK)).clamp(1, MOST_STEPS);
    let of_one_row = facts.at_least(&pieces, THREADS * steps) || facts.below(&row_count, THREADS / across * steps);
    Some(Broadcast { rank, layout, across, steps, of_one_row })
}

/// How many reads change from row to row and are in no run.
fn of_rows(lowering: &Lowering, results: Results, rows: &[Ranged], layout: &Layout) -> usize {
    let reads = results.values().flat_map(|value| walk::reads(lowering.kernel, value));
    let changes = |read: &ExprId| rows.iter().any(|range| walk::mentions(lowering.kernel, *read, range.variable));
    reads.filter(|read| changes(read) && !layout.runs.iter().any(|run| run.serves(*read))).count()
}

/// Whether all that neighbours read lies side by side, though not in packs: at the end of a row of another width, say. Each then reads
/// its own element, and still stores with the others. Rules that move an index are better left out of what lies inside (see `tiled`).
/// `through_lets`: also in `let`s that are computed at the element itself.
pub fn all_beside(lowering: &Lowering, results: Results, inner: usize, through_lets: bool) -> bool {
    let mut pending: Vec<(ExprId, &[Ranged])> = results.values().map(|value| (value, results.variables())).collect();
    let mut along = 0;
    while let Some((value, own)) = pending.pop() {
        let inner = &own[own.len() - inner..];
        for read in walk::reads(lowering.kernel, value) {
            let ExprKind::Read { array, subscripts } = &lowering.kernel.exprs[read].kind else { continue };
            if !inner.iter().any(|range| walk::mentions(lowering.kernel, read, range.variable)) {
                continue;
            }
            match lowering.places.of(*array) {
                Place::Inline(number) => {
                    let inlined = &lowering.kernel.statements[number];
                    let at_element = is_identity(lowering.kernel, subscripts, own)
                        && is_identity(lowering.kernel, &inlined.subscripts, &inlined.variables);
                    if !through_lets || !at_element {
                        return false;
                    }
                    pending.push((inlined.value, &inlined.variables));
                }
                _ if lies_beside(lowering, subscripts, inner) => along += 1,
                _ => return false,
            }
        }
    }
    along > 0
}

/// Whether neighbours along `inner` read neighbours.
fn lies_beside(lowering: &Lowering, subscripts: &[Subscript], inner: &[Ranged]) -> bool {
    let mentions = |id| inner.iter().any(|range| walk::mentions(lowering.kernel, id, range.variable));
    let Some((last, rest)) = subscripts.split_last() else { return true };
    let plain = subscripts.iter().all(|s| matches!(s.bounds, Bounds::Proved | Bounds::Assumed | Bounds::Constant(_)));
    let along = size::linear(lowering.kernel, lowering.facts, last.index).zip(inner.last());
    let by_one = along.is_some_and(|(index, range)| index.coefficient(range.variable) == Formula::Constant(1));
    plain && !rest.iter().any(|s| mentions(s.index)) && by_one
}

/// Lowers the results by rows.
pub fn lower(lowering: &mut Lowering, results: Results, shape: &Broadcast) -> Result<(), Error> {
    let (rows, inner) = results.variables().split_at(shape.rank);
    let inner = &inner[..inner.len() - shape.layout.minors];
    let ty = lowering.index_type();
    let (row_count, extent) = (lowering.points(rows)?, lowering.points(inner)?);
    let tiles = extent.clone().div_ceil(shape.positions_per_block());
    let tiles_of_row = lowering.size(&tiles, "tiles");
    lowering.passes_over(results.statements());
    let work = lowering.local("work", ty, lowering.block_number().cast(ty));
    let (x, y) = (name("threadIdx.x").cast(Type::I32), name("threadIdx.y").cast(Type::I32));
    let first = (work.clone() % tiles_of_row.clone()) * int(shape.positions_per_block()) + x * int(shape.layout.positions());
    let first = lowering.local("first", ty, first);
    let row = work / tiles_of_row * int(shape.rows_per_block());
    let row = if shape.across < THREADS { row + y } else { row };
    let row = lowering.local("row", ty, row);
    let block = (shape.rows_per_block(), shape.positions_per_block());
    let majors = &results.variables()[..results.variables().len() - shape.layout.minors];
    let rows = Rows::of(lowering, majors, shape.rank, block)?;
    let place = Places { shape, results, first, row, rows };
    let packs = place.load(lowering)?;
    place.store(lowering, &packs)?;
    let rows = match shape.rows_per_block() {
        1 => "a row".to_string(),
        rows => format!("{rows} rows"),
    };
    let mut notes = vec![
        format!("By rows: a block takes {} elements of {rows},", shape.positions_per_block() * shape.layout.each),
        format!(
            "packs of {} neighbours at a time; all loads of a thread are issued before the first result is needed.",
            shape.layout.lanes
        ),
    ];
    notes.extend(lowering.block_order_note());
    let suffix = suffix_of(lowering, results);
    let grid = tiles.times(row_count.div_ceil(shape.rows_per_block()));
    let threads = [shape.across as u32, (THREADS / shape.across) as u32, 1];
    lowering.end_launch(&suffix, "map", notes, [grid, 1.into(), 1.into()], threads);
    Ok(())
}

/// Where a thread's packs lie.
struct Places<'a> {
    shape: &'a Broadcast,
    results: Results<'a>,
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
                (true, true) => (self.row.clone(), self.first.clone() + step.clone() * int(shape.across * shape.layout.positions())),
                (true, false) => (self.row.clone() + step.clone() * int(THREADS / shape.across), self.first.clone()),
            };
            let row = if matches!(row, Expr::Name(_)) { row } else { lowering.local("row_at", ty, row) };
            let position = if matches!(position, Expr::Name(_)) { position } else { lowering.local("at", ty, position) };
            let inside = self.rows.has_row(&row).into_iter().chain(self.rows.has_position(&position)).reduce(Expr::and);
            lowering.when_some(inside, |lowering| {
                lowering.decode(self.rows.rows(), row)?;
                self.bind(lowering, position.clone(), &int(0));
                write(lowering, step, position)
            })
        })
    }

    fn bind(&self, lowering: &mut Lowering, position: Expr, lane: &Expr) {
        lowering.bind_lane(self.results.variables(), &self.shape.layout, self.shape.rank, position, lane);
    }

    /// Registers of a step, of those of all steps.
    fn of_step(&self, held: &[Expr], step: &Expr) -> Vec<Expr> {
        held.iter().map(|held| if self.shape.steps > 1 { held.clone().at(step.clone()) } else { held.clone() }).collect()
    }

    fn load(&self, lowering: &mut Lowering) -> Result<Vec<Expr>, Error> {
        let layout = &self.shape.layout;
        let steps = (self.shape.steps > 1).then_some(self.shape.steps);
        let held: Vec<Expr> = layout.runs.iter().map(|run| run.declare(lowering, steps)).collect();
        self.each(lowering, |lowering, step, _| layout.load(lowering, &self.of_step(&held, &step)))?;
        Ok(held)
    }

    fn store(&self, lowering: &mut Lowering, held: &[Expr]) -> Result<(), Error> {
        let (shape, results) = (self.shape, self.results);
        self.each(lowering, |lowering, step, position| {
            let held = self.of_step(held, &step);
            let variables: Vec<_> = results.variables()[shape.rank..].iter().map(|v| v.variable).collect();
            // Where the runs lie is not asked again.
            shape.layout.runs.iter().zip(&held).for_each(|(run, held)| run.serve(lowering, held, &int(0)));
            results.values().try_for_each(|value| lowering.hoist(value, &variables, "row_value"))?;
            let bind = |lowering: &mut Lowering, lane: &Expr| self.bind(lowering, position.clone(), lane);
            shape.layout.results(lowering, results, &held, (bind, |_: &mut Lowering| Ok(())))
        })?;
        self.rows.release(lowering);
        Ok(())
    }
}

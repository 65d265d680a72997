//! Scans along an axis that other axes run faster than. Their positions are *columns*: a block of threads takes a tile of neighbouring
//! ones, so that it reads and writes whole sectors of memory, and walks along the whole axis. No block waits for another.
//!
//! A turn takes some rows of 128 terms of each column:
//!
//! 1. A thread has four quads of one column in registers and scans each. It loads those of the next turn, which are in flight until
//!    then. The quads' totals go to shared memory.
//! 2. A lane has a quad's total: a warp scans the 32 of a row, for four columns. The totals of rows go to shared memory.
//! 3. One thread a column takes in the rows' totals, one after the other, and what stands before each row becomes known. At the end
//!    of a block of 4,096 terms its total is taken in by the scan of those, which knows one row of 128 of them.
//! 4. Each thread stores its 16 outputs.

use gpukc_dsl::program::{Ranged, Statement};
use gpukc_dsl::types::Type;

use super::outputs::Output;
use super::terms::{self, Along};
use super::{Shape, Span, Threads, four, threads};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::reduction::Reduction;
use crate::lower::split::{BLOCK, bind_results};
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};

/// Terms of a row of the scan order.
const ROW: i64 = 128;
/// Terms of a column that a thread takes a turn: four quads.
const OWN: i64 = 16;
/// Columns of a tile, widest first.
const WIDTHS: [i64; 3] = [32, 16, 8];
/// Rows of a turn, of all columns of a tile: 512 threads.
const ROWS: i64 = 64;
/// Bytes that a memory access moves at least: no tile is narrower.
const SECTOR: i64 = 32;
/// So many tiles keep two blocks on every multiprocessor of a large device; narrower tiles are more tiles.
const MANY: i64 = 256;
/// Fewer tiles than this leave so much of a device idle that blocks do better which share the axis.
const FEWEST: i64 = 8;
/// Most terms of a column: the totals of its blocks are a row.
const MOST: i64 = BLOCK * ROW;
/// Registers that the four quads of a thread may take, of terms and of what is loaded ahead, where two blocks of threads share a
/// multiprocessor; and at most.
const HELD: [usize; 2] = [32, 80];
/// Steps of a Kogge–Stone scan over 32 values wait for 1 + 2 + 4 + 8 + 16 of them.
const WAITING: u32 = 31;

/// How a block's threads lie over rows and columns.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Neighbouring columns of a tile.
    columns: i64,
    /// Rows that a turn takes of each.
    rows: i64,
    /// Whether there is one turn, of one row.
    single: bool,
    /// Whether a column may have several blocks of 4,096 terms.
    several: bool,
}

impl Layout {
    /// The layout, if the axis has columns, enough of them, and is not too long.
    pub fn choose(lowering: &Lowering, statement: &Statement, shape: &Shape, reduction: &Reduction) -> Result<Option<Layout>, Error> {
        let facts = lowering.facts;
        let (outer, behind) = shape.around(statement);
        let (columns, outer) = (lowering.points(behind)?, lowering.points(outer)?);
        let element = lowering.kernel.arrays[statement.array].element.size() as i64;
        let narrowest = (SECTOR / element).clamp(8, 32);
        let tiles = |width: i64| columns.clone().div_ceil(width).times(outer.clone());
        let fits = matches!(reduction.accumulator, CudaType::Element(_))
            && facts.bound(&shape.terms).is_some_and(|terms| terms <= MOST)
            && facts.at_least(&columns, narrowest)
            && facts.at_least(&tiles(narrowest), FEWEST);
        let Some(fastest) = behind.last().filter(|_| fits) else { return Ok(None) };
        // Where neighbouring terms are neighbouring elements, and neighbouring columns are not, they are read as the other schedules do.
        let along = !terms::along(lowering, shape, reduction).is_empty();
        if along && !terms::are_side_by_side(lowering, shape, reduction, fastest.variable) {
            return Ok(None);
        }
        let wide_enough = WIDTHS.into_iter().filter(|width| *width > narrowest);
        let columns = wide_enough.into_iter().find(|width| facts.at_least(&tiles(*width), MANY)).unwrap_or(narrowest);
        let single = facts.below(&shape.terms, ROW + 1);
        let rows = if single { 1 } else { ROWS / columns };
        Ok(Some(Layout { columns, rows, single, several: shape.levels(facts) > 0 }))
    }

    fn threads(self) -> i64 {
        self.rows * (ROW / OWN) * self.columns
    }

    /// Terms of a column that a turn takes.
    fn turn(self) -> i64 {
        self.rows * ROW
    }

    fn notes(self, ahead: bool) -> Vec<String> {
        let Layout { columns, rows, .. } = self;
        let taken = if self.single {
            format!("Scan: a block takes the terms of {columns} neighbouring columns, a thread four quads of one.")
        } else {
            format!(
                "Scan: a block takes {columns} neighbouring columns and walks along them, {rows} rows of 128 terms at a time, a thread four quads."
            )
        };
        let mut notes = vec![taken, "A warp scans the totals of a row's quads, which meet in shared memory.".into()];
        if !self.single {
            notes.push("One thread a column takes in the rows' totals.".into());
        }
        if ahead {
            notes.push("The next turn's terms are in flight meanwhile.".into());
        }
        if self.several {
            notes.push(format!("Up to {MOST} terms: the totals of a column's blocks of 4,096 are one row."));
        }
        notes
    }
}

impl Shape {
    /// The variables before the axis, and those behind it.
    fn around<'s>(&'s self, statement: &Statement) -> (&'s [Ranged], &'s [Ranged]) {
        let axis = statement.variables.iter().position(|v| v.variable == self.along.variable);
        self.batch.split_at(axis.unwrap_or(0).min(self.batch.len()))
    }
}

/// Lowers the scan's launch.
pub fn lower(
    lowering: &mut Lowering,
    statement: &Statement,
    shape: &Shape,
    reduction: &Reduction,
    layout: Layout,
) -> Result<(), Error> {
    let (outer, behind) = shape.around(statement);
    let tiles = lowering.points(behind)?.div_ceil(layout.columns);
    let grid = tiles.clone().times(lowering.points(outer)?);
    let walk = Walk::begin(lowering, Output { statement, shape, reduction }, layout, &tiles)?;
    walk.all_turns(lowering)?;
    if !shape.none_beyond() {
        lowering.when(walk.is_inside.clone(), |lowering| {
            walk.output.beyond(lowering, walk.group.clone(), layout.threads() / layout.columns)
        })?;
    }
    let several = walk.held <= HELD[0];
    let suffix = crate::lower::map::suffix(lowering, statement);
    lowering.end_launch(
        &suffix,
        "scan",
        layout.notes(!walk.ahead.is_empty()),
        [grid, 1.into(), 1.into()],
        [layout.threads() as u32, 1, 1],
    );
    if let Some(launch) = lowering.plan.launches.last_mut() {
        launch.resident = (!layout.single).then_some(if several { 2 } else { 1 });
    }
    Ok(())
}

/// Registers that a thread's terms of this type take. A narrow one has a register of its own, and another where it is widened.
fn registers(ty: Type) -> usize {
    let of_term = if ty.size() == 4 { 1 } else { 2 };
    of_term * OWN as usize
}

/// A block's walk along the axis.
struct Walk<'a> {
    output: Output<'a>,
    layout: Layout,
    threads: Threads,
    /// The thread's column in the tile, and which 16 terms of a turn it takes.
    within: Expr,
    group: Expr,
    /// Whether there is such a column.
    is_inside: Expr,
    /// Terms of a column, and of the thread's: none beyond the last column.
    terms: Expr,
    end: Expr,
    /// The arrays whose elements are loaded ahead, and where the thread holds four quads of them.
    ahead: Vec<(Along, Expr)>,
    /// Registers that the quads take, of both.
    held: usize,
    /// The thread's four quads.
    values: Expr,
    /// The quads' totals by column, padded so that no two lanes meet in a bank; then what stands before each in its row.
    quads: Expr,
    carried: Option<Carried>,
}

/// What goes from turn to turn, by column.
struct Carried {
    /// The totals of the turn's rows, and what stands before each.
    row_total: Expr,
    before_row: Expr,
    /// The scan of the block's rows so far.
    rows: Running,
    blocks: Option<Blocks>,
}

/// A Kogge–Stone scan that one thread a column takes part after part.
struct Running {
    /// Its value so far.
    value: Expr,
    /// What later parts will combine with.
    waiting: Expr,
}

/// The scan of blocks' totals.
struct Blocks {
    quads: Running,
    /// The sum so far of the quad of totals that is not whole.
    quad: Expr,
    /// What stands before the block.
    before: Expr,
}

impl Running {
    fn begin(lowering: &mut Lowering, reduction: &Reduction, parts: &str, columns: i64) -> Running {
        let ty = reduction.accumulator.clone();
        let waiting = lowering.shared(&format!("{parts}_waiting"), ty, vec![WAITING, columns as u32]);
        Running { value: of_column(lowering, reduction, &format!("{parts}_running"), columns), waiting }
    }

    /// Takes in the part of that number, of 32.
    fn take(&self, lowering: &mut Lowering, reduction: &Reduction, columns: i64, number: Expr, part: Expr) {
        let waiting = Expr::Unary("&", Box::new(self.waiting.clone().at(int(0)).at(name("threadIdx.x"))));
        let next = call("kogge_stone_next", vec![part, number, waiting, int(columns), reduction.functor()]);
        lowering.push(Node::Assign(self.value.clone(), next));
    }
}

/// A value that one thread a column has. It lies in shared memory, for registers would be those of all threads.
fn of_column(lowering: &mut Lowering, reduction: &Reduction, wish: &str, columns: i64) -> Expr {
    lowering.shared(wish, reduction.accumulator.clone(), vec![columns as u32]).at(name("threadIdx.x"))
}

impl Carried {
    fn begin(lowering: &mut Lowering, reduction: &Reduction, layout: Layout) -> Carried {
        let columns = layout.columns;
        let extents = vec![layout.rows as u32, columns as u32];
        let row_total = lowering.shared("row_total", reduction.accumulator.clone(), extents.clone());
        let before_row = lowering.shared("before_row", reduction.accumulator.clone(), extents);
        let rows = Running::begin(lowering, reduction, "rows", columns);
        let blocks = layout.several.then(|| Blocks {
            quads: Running::begin(lowering, reduction, "blocks", columns),
            quad: of_column(lowering, reduction, "block_quad", columns),
            before: of_column(lowering, reduction, "before_block", columns),
        });
        let values = [&rows.value].into_iter().chain(blocks.iter().flat_map(|blocks| [&blocks.quads.value, &blocks.before]));
        let then = values.map(|value| Node::Assign(value.clone(), reduction.identity.clone())).collect();
        lowering.push(Node::If { condition: takes_rows(layout), then, otherwise: Vec::new() });
        Carried { row_total, before_row, rows, blocks }
    }
}

/// Whether the thread is the one of a column that takes in the totals of rows.
fn takes_rows(layout: Layout) -> Expr {
    name("threadIdx.x").less(int(layout.columns))
}

impl<'a> Walk<'a> {
    fn begin(lowering: &mut Lowering, output: Output<'a>, layout: Layout, tiles: &Formula) -> Result<Walk<'a>, Error> {
        let (shape, reduction, ty) = (output.shape, output.reduction, lowering.index_type());
        let (outer, behind) = shape.around(output.statement);
        let threads = threads(lowering, Span::BLOCK);
        let thread = || name("threadIdx.x").cast(Type::I32);
        let within = lowering.local("within", Type::I32, thread() % int(layout.columns));
        let group = lowering.local("group", Type::I32, thread() / int(layout.columns));
        let tile = if outer.is_empty() {
            name("blockIdx.x").cast(ty)
        } else {
            let tiles = lowering.size(tiles, "tiles");
            let number = lowering.local("outer", ty, name("blockIdx.x").cast(ty) / tiles.clone());
            bind_results(lowering, outer, &number)?;
            name("blockIdx.x").cast(ty) % tiles
        };
        let column = lowering.local("column", ty, tile * int(layout.columns) + within.clone());
        let columns = lowering.points(behind)?;
        let columns = lowering.size(&columns, "columns");
        bind_results(lowering, behind, &column)?;
        let terms = lowering.size(&shape.terms, "terms");
        let is_inside = column.less(columns);
        lowering.push(Node::Comment("Columns beyond the last have no terms.".into()));
        let end = lowering.local("end", ty, is_inside.clone().choose(terms.clone(), int(0)));
        let accumulator = reduction.accumulator.clone();
        let extents = vec![(layout.rows * ROW / 4) as u32, layout.columns as u32 + 1];
        let quads = lowering.shared("quads", accumulator.clone(), extents);
        let carried = (!layout.single).then(|| Carried::begin(lowering, reduction, layout));
        let arrays = if layout.single { Vec::new() } else { terms::ahead(lowering, shape, reduction) };
        let (mut ahead, mut held) = (Vec::new(), registers(reduction.result));
        for array in arrays {
            let declared = &lowering.kernel.arrays[array.array];
            if held + registers(declared.element) > HELD[1] {
                continue;
            }
            held += registers(declared.element);
            let (wish, element) = (format!("{}_ahead", declared.name.replace('.', "_")), declared.element);
            ahead.push((array, lowering.registers(&wish, element, vec![4, 4])));
        }
        let values = lowering.registers("value", accumulator, vec![4, 4]);
        Ok(Walk { output, layout, threads, within, group, is_inside, terms, end, ahead, held, values, quads, carried })
    }

    fn all_turns(&self, lowering: &mut Lowering) -> Result<(), Error> {
        let ty = lowering.index_type();
        let own = lowering.local("own", ty, self.group.clone() * int(OWN));
        let Some(carried) = &self.carried else { return self.turn(lowering, None, own) };
        self.load_ahead(lowering, &own)?;
        let turns = [int(0), self.terms.clone(), int(self.layout.turn())];
        lowering.each("start", ty, turns, Unroll::By(1), |lowering, start| {
            let first = lowering.local("first", ty, start.clone() + own);
            self.turn(lowering, Some((carried, start)), first)
        })
    }

    /// A turn: the thread's first term has this number.
    fn turn(&self, lowering: &mut Lowering, carried: Option<(&Carried, Expr)>, first: Expr) -> Result<(), Error> {
        self.scan_quads(lowering, &first)?;
        lowering.push(Node::Barrier);
        self.scan_rows(lowering, carried.as_ref().map(|(carried, _)| *carried))?;
        lowering.push(Node::Barrier);
        let before = match carried {
            None => self.output.reduction.identity.clone(),
            Some((carried, start)) => {
                lowering
                    .when(name("threadIdx.x").less(int(self.layout.columns)), |lowering| self.take_rows(lowering, carried, start))?;
                lowering.push(Node::Barrier);
                let row = self.group.clone() / int(ROW / OWN);
                let before = carried.before_row.clone().at(row).at(self.within.clone());
                lowering.local("before", self.output.reduction.accumulator.clone(), before)
            }
        };
        self.store(lowering, &first, before)
    }

    /// Visits the thread's terms from the first on: the number of each, where there is one, and its place in the quads.
    fn each_term(
        &self,
        lowering: &mut Lowering,
        first: &Expr,
        mut visit: impl FnMut(&mut Lowering, Expr, Expr, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ty = lowering.index_type();
        four(lowering, "at", |lowering, at| {
            four(lowering, "quad", |lowering, quad| {
                let term = lowering.local("term", ty, first.clone() + at.clone() * int(4) + quad.clone());
                visit(lowering, term, at, quad)
            })
        })
    }

    fn load_ahead(&self, lowering: &mut Lowering, first: &Expr) -> Result<(), Error> {
        if self.ahead.is_empty() {
            return Ok(());
        }
        self.each_term(lowering, first, |lowering, term, at, quad| {
            lowering.when(term.clone().less(self.end.clone()), |lowering| {
                for (array, registers) in &self.ahead {
                    let element = array.first_place(lowering, self.output.shape, self.output.reduction, term.clone())?;
                    lowering.push(Node::Assign(registers.clone().at(at.clone()).at(quad.clone()), element));
                }
                Ok(())
            })
        })
    }

    /// Computes the terms and scans each quad; the terms of the next turn are on their way then.
    fn scan_quads(&self, lowering: &mut Lowering, first: &Expr) -> Result<(), Error> {
        let Output { shape, reduction, .. } = self.output;
        self.each_term(lowering, first, |lowering, term, at, quad| {
            let place = self.values.clone().at(at.clone()).at(quad.clone());
            lowering.push(Node::Assign(place.clone(), reduction.identity.clone()));
            lowering.when(term.clone().less(self.end.clone()), |lowering| {
                for (array, registers) in &self.ahead {
                    let element = registers.clone().at(at.clone()).at(quad.clone());
                    lowering.computed.extend(array.reads.iter().map(|read| (*read, element.clone())));
                }
                terms::bind(lowering, shape, reduction, term, true);
                lowering.term(reduction, place)
            })
        })?;
        lowering.computed.clear();
        self.load_ahead(lowering, &(first.clone() + int(self.layout.turn())))?;
        four(lowering, "at", |lowering, at| {
            let value = |index: i64| self.values.clone().at(at.clone()).at(int(index));
            for quad in 1..4 {
                lowering.push(Node::Assign(value(quad), reduction.combine(value(quad - 1), value(quad))));
            }
            lowering.push(Node::Assign(self.quad(at.clone()), value(3)));
            Ok(())
        })
    }

    /// Where the total of one of the thread's quads lies.
    fn quad(&self, at: Expr) -> Expr {
        self.quads.clone().at(self.group.clone() * int(4) + at).at(self.within.clone())
    }

    /// A warp scans the quads of a row, for four columns.
    fn scan_rows(&self, lowering: &mut Lowering, carried: Option<&Carried>) -> Result<(), Error> {
        let (reduction, ty) = (self.output.reduction, self.output.reduction.accumulator.clone());
        let (lane, warp, warps) = (self.threads.lane.clone(), self.threads.warp.clone(), int(self.layout.columns / 4));
        let single = self.layout.rows == 1;
        let row = if single { int(0) } else { lowering.local("of_row", Type::I32, warp.clone() / warps.clone()) };
        let first = if single { warp } else { warp % warps };
        four(lowering, "part", |lowering, part| {
            let column = lowering.local("of_column", Type::I32, first * int(4) + part);
            let place = self.quads.clone().at(row.clone() * int(32) + lane.clone()).at(column.clone());
            let running = call("kogge_stone", vec![place.clone(), reduction.functor()]);
            let running = lowering.local("running", ty, running);
            lowering.push(Node::Assign(place, call("lane_before", vec![running.clone(), reduction.identity.clone()])));
            if let Some(carried) = carried {
                let store = Node::Assign(carried.row_total.clone().at(row).at(column), running);
                lowering.push(Node::If { condition: lane.binary("==", int(31)), then: vec![store], otherwise: Vec::new() });
            }
            Ok(())
        })
    }

    /// One thread a column takes in the totals of the turn's rows.
    fn take_rows(&self, lowering: &mut Lowering, carried: &Carried, start: Expr) -> Result<(), Error> {
        let (reduction, columns) = (self.output.reduction, self.layout.columns);
        let before_block = carried.blocks.as_ref().map_or(reduction.identity.clone(), |blocks| blocks.before.clone());
        let ty = lowering.index_type();
        let narrow = |number: Expr| if ty == Type::I64 { number.cast(Type::I32) } else { number };
        let first = lowering.local("first_row", Type::I32, narrow(start.clone() / int(ROW) % int(BLOCK / ROW)));
        lowering.each("row", Type::I32, [int(0), int(self.layout.rows), int(1)], Unroll::Full, |lowering, row| {
            let of_thread = |array: &Expr| array.clone().at(row.clone()).at(name("threadIdx.x"));
            let before = reduction.combine(before_block, carried.rows.value.clone());
            lowering.push(Node::Assign(of_thread(&carried.before_row), before));
            carried.rows.take(lowering, reduction, columns, first + row.clone(), of_thread(&carried.row_total));
            Ok(())
        })?;
        let Some(blocks) = &carried.blocks else { return Ok(()) };
        let ends = (start.clone() + int(self.layout.turn())) % int(BLOCK);
        lowering.when(ends.binary("==", int(0)), |lowering| {
            lowering.push(Node::Comment("A block's total is a term of the scan above.".into()));
            let block = lowering.local("block", Type::I32, narrow(start / int(BLOCK)));
            self.take_block(lowering, &carried.rows, blocks, block)
        })
    }

    /// The scan of the blocks' totals takes in one, and what stands before the next block becomes known.
    fn take_block(&self, lowering: &mut Lowering, rows: &Running, blocks: &Blocks, block: Expr) -> Result<(), Error> {
        let Output { reduction, .. } = self.output;
        let total = rows.value.clone();
        let begins = (block.clone() % int(4)).binary("==", int(0));
        let quad = begins.choose(total.clone(), reduction.combine(blocks.quad.clone(), total));
        lowering.push(Node::Assign(blocks.quad.clone(), quad));
        let within = reduction.combine(blocks.quads.value.clone(), blocks.quad.clone());
        lowering.push(Node::Assign(blocks.before.clone(), reduction.combine(reduction.identity.clone(), within)));
        let ends = (block.clone() % int(4)).binary("==", int(3));
        lowering.when(ends, |lowering| {
            blocks.quads.take(lowering, reduction, self.layout.columns, block / int(4), blocks.quad.clone());
            Ok(())
        })?;
        lowering.push(Node::Assign(rows.value.clone(), reduction.identity.clone()));
        Ok(())
    }

    fn store(&self, lowering: &mut Lowering, first: &Expr, before: Expr) -> Result<(), Error> {
        let Output { shape, reduction, .. } = self.output;
        let (ty, exclusive) = (lowering.index_type(), int(i64::from(!shape.scan.inclusive)));
        four(lowering, "at", |lowering, at| {
            let before_quad = lowering.local("before_quad", reduction.accumulator.clone(), self.quad(at.clone()));
            four(lowering, "quad", |lowering, quad| {
                let term = lowering.local("term", ty, first.clone() + at.clone() * int(4) + quad.clone());
                let value = reduction.combine(before_quad, self.values.clone().at(at).at(quad));
                let value = reduction.combine(before, value);
                lowering.when(term.clone().less(self.end.clone()), |lowering| self.output.store(lowering, term + exclusive, value))
            })
        })
    }
}

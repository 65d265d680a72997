//! Scans along an axis that other axes run faster than. Their positions are *columns*: a block of threads takes a tile of neighbouring
//! ones, so that it reads and writes whole sectors of memory, and walks along the whole axis. No block waits for another.
//!
//! A turn takes some rows of 128 terms of each column, which are scanned by themselves ([`super::tile`]); the terms of the next turn
//! are in flight meanwhile. Then one thread a column takes in the rows' totals, one after the other, and what stands before each row
//! becomes known. At the end of a block of 4,096 terms its total is taken in by the scan of those, which knows one row of 128 of them.

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::Type;

use super::outputs::Output;
use super::terms::{self, Along};
use super::tile::{self, Extents, OWN, ROW, Tile};
use super::{Shape, WAITING, four};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::reduction::Reduction;
use crate::lower::split::{BLOCK, bind_results};
use crate::plan::{Expr, Node, Unroll, call, int, name};

/// Columns of a tile, widest first.
const WIDTHS: [i64; 3] = [32, 16, 8];
/// Rows of a turn, of all columns of a tile: 512 threads.
const ROWS: i64 = 64;
/// So many tiles keep two blocks on every multiprocessor of a large device; narrower tiles are more tiles. Fewer yet leave so much of a
/// device idle that blocks do better which share the axis ([`super::pieces`]).
const MANY: i64 = 256;
/// Most terms of a column: the totals of its blocks are a row.
const MOST: i64 = BLOCK * ROW;
/// Registers that the four quads of a thread may take, of terms and of what is loaded ahead, where two blocks of threads share a
/// multiprocessor; and at most.
const HELD: [usize; 2] = [32, 80];

/// How a block's threads lie over rows and columns.
#[derive(Clone, Copy)]
pub struct Layout {
    /// What a turn takes.
    tile: Extents,
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
        let narrowest = tile::sectors(lowering, statement, 1);
        let tiles = |width: i64| columns.clone().div_ceil(width).times(outer.clone());
        let one_turn = facts.below(&shape.terms, ROWS / narrowest * ROW + 1);
        let fits = tile::suits(lowering, statement, shape, reduction)
            && facts.bound(&shape.terms).is_some_and(|terms| terms <= MOST)
            && facts.at_least(&columns, narrowest)
            && (one_turn || facts.at_least(&tiles(narrowest), MANY));
        if !fits {
            return Ok(None);
        }
        let wide_enough = WIDTHS.into_iter().filter(|width| *width > narrowest);
        let columns = wide_enough.into_iter().find(|width| facts.at_least(&tiles(*width), MANY)).unwrap_or(narrowest);
        let single = facts.below(&shape.terms, ROW + 1);
        let rows = if single { 1 } else { ROWS / columns };
        Ok(Some(Layout { tile: Extents { columns, rows }, single, several: shape.levels(facts) > 0 }))
    }

    fn notes(self, ahead: bool) -> Vec<String> {
        let Extents { columns, rows } = self.tile;
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

/// Lowers the scan's launch.
pub fn lower(
    lowering: &mut Lowering,
    statement: &Statement,
    shape: &Shape,
    reduction: &Reduction,
    layout: Layout,
) -> Result<(), Error> {
    let (outer, behind) = shape.around(statement);
    let tiles = lowering.points(behind)?.div_ceil(layout.tile.columns);
    let grid = tiles.clone().times(lowering.points(outer)?);
    let walk = Walk::begin(lowering, Output { statement, shape, reduction }, layout, &tiles)?;
    walk.all_turns(lowering)?;
    walk.tile.beyond(lowering)?;
    let several = walk.held <= HELD[0];
    let suffix = crate::lower::map::suffix(lowering, statement);
    let notes = layout.notes(!walk.ahead.is_empty());
    lowering.end_launch(&suffix, "scan", notes, [grid, 1.into(), 1.into()], [layout.tile.threads() as u32, 1, 1]);
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
    tile: Tile<'a>,
    /// The thread's four quads.
    values: Expr,
    /// The arrays whose elements are loaded ahead, and where the thread holds four quads of them.
    ahead: Vec<(Along, Expr)>,
    /// Registers that the quads take, of both.
    held: usize,
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
        let Extents { columns, rows } = layout.tile;
        let extents = vec![rows as u32, columns as u32];
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
        lowering.push(Node::If { condition: takes_rows(layout.tile), then, otherwise: Vec::new() });
        Carried { row_total, before_row, rows, blocks }
    }
}

/// Whether the thread is the one of a column that takes in the totals of rows.
fn takes_rows(tile: Extents) -> Expr {
    name("threadIdx.x").less(int(tile.columns))
}

impl<'a> Walk<'a> {
    fn begin(lowering: &mut Lowering, output: Output<'a>, layout: Layout, tiles: &Formula) -> Result<Walk<'a>, Error> {
        let (shape, reduction, ty) = (output.shape, output.reduction, lowering.index_type());
        let (outer, _) = shape.around(output.statement);
        let number = if outer.is_empty() {
            name("blockIdx.x").cast(ty)
        } else {
            let tiles = lowering.size(tiles, "tiles");
            let number = lowering.local("outer", ty, name("blockIdx.x").cast(ty) / tiles.clone());
            bind_results(lowering, outer, &number)?;
            name("blockIdx.x").cast(ty) % tiles
        };
        let tile = Tile::begin(lowering, output, layout.tile, number)?;
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
        let values = lowering.registers("value", reduction.accumulator.clone(), vec![4, 4]);
        Ok(Walk { tile, values, ahead, held, carried })
    }

    fn all_turns(&self, lowering: &mut Lowering) -> Result<(), Error> {
        let ty = lowering.index_type();
        let own = lowering.local("own", ty, self.tile.group.clone() * int(OWN));
        let Some(carried) = &self.carried else { return self.turn(lowering, None, own) };
        self.load_ahead(lowering, &own)?;
        let turns = [int(0), self.tile.terms.clone(), int(self.tile.extents.terms())];
        lowering.each("start", ty, turns, Unroll::By(1), |lowering, start| {
            let first = lowering.local("first", ty, start.clone() + own);
            self.turn(lowering, Some((carried, start)), first)
        })
    }

    /// A turn: the thread's first term has this number.
    fn turn(&self, lowering: &mut Lowering, carried: Option<(&Carried, Expr)>, first: Expr) -> Result<(), Error> {
        self.scan_quads(lowering, &first)?;
        lowering.push(Node::Barrier);
        self.tile.scan_rows(lowering, carried.as_ref().map(|(carried, _)| &carried.row_total))?;
        lowering.push(Node::Barrier);
        let before = match carried {
            None => self.tile.output.reduction.identity.clone(),
            Some((carried, start)) => {
                lowering.when(takes_rows(self.tile.extents), |lowering| self.take_rows(lowering, carried, start))?;
                lowering.push(Node::Barrier);
                let row = self.tile.group.clone() / int(ROW / OWN);
                let before = carried.before_row.clone().at(row).at(self.tile.within.clone());
                lowering.local("before", self.tile.output.reduction.accumulator.clone(), before)
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
        let Output { shape, reduction, .. } = self.tile.output;
        self.each_term(lowering, first, |lowering, term, at, quad| {
            lowering.when(term.clone().less(self.tile.end.clone()), |lowering| {
                for (array, registers) in &self.ahead {
                    let element = array.first_place(lowering, shape, reduction, term.clone())?;
                    lowering.push(Node::Assign(registers.clone().at(at.clone()).at(quad.clone()), element));
                }
                Ok(())
            })
        })
    }

    /// Computes the terms and scans each quad; the terms of the next turn are on their way then.
    fn scan_quads(&self, lowering: &mut Lowering, first: &Expr) -> Result<(), Error> {
        let Output { shape, reduction, .. } = self.tile.output;
        self.each_term(lowering, first, |lowering, term, at, quad| {
            let place = self.values.clone().at(at.clone()).at(quad.clone());
            lowering.push(Node::Assign(place.clone(), reduction.identity.clone()));
            lowering.when(term.clone().less(self.tile.end.clone()), |lowering| {
                for (array, registers) in &self.ahead {
                    let element = registers.clone().at(at.clone()).at(quad.clone());
                    lowering.computed.extend(array.reads.iter().map(|read| (*read, element.clone())));
                }
                terms::bind(lowering, shape, reduction, term, true);
                lowering.term(reduction, place)
            })
        })?;
        lowering.computed.clear();
        self.load_ahead(lowering, &(first.clone() + int(self.tile.extents.terms())))?;
        four(lowering, "at", |lowering, at| {
            let value = |index: i64| self.values.clone().at(at.clone()).at(int(index));
            for quad in 1..4 {
                lowering.push(Node::Assign(value(quad), reduction.combine(value(quad - 1), value(quad))));
            }
            lowering.push(Node::Assign(self.tile.quad(at.clone()), value(3)));
            Ok(())
        })
    }

    fn store(&self, lowering: &mut Lowering, first: &Expr, before: Expr) -> Result<(), Error> {
        let Output { shape, reduction, .. } = self.tile.output;
        let (ty, exclusive) = (lowering.index_type(), int(i64::from(!shape.scan.inclusive)));
        four(lowering, "at", |lowering, at| {
            let before_quad = lowering.local("before_quad", reduction.accumulator.clone(), self.tile.quad(at.clone()));
            four(lowering, "quad", |lowering, quad| {
                let term = lowering.local("term", ty, first.clone() + at.clone() * int(4) + quad.clone());
                let value = reduction.combine(before_quad, self.values.clone().at(at).at(quad));
                let value = reduction.combine(before, value);
                let inside = term.clone().less(self.tile.end.clone());
                lowering.when(inside, |lowering| self.tile.output.store(lowering, term + exclusive, value))
            })
        })
    }

    /// One thread a column takes in the totals of the turn's rows.
    fn take_rows(&self, lowering: &mut Lowering, carried: &Carried, start: Expr) -> Result<(), Error> {
        let (reduction, Extents { columns, rows }) = (self.tile.output.reduction, self.tile.extents);
        let before_block = carried.blocks.as_ref().map_or(reduction.identity.clone(), |blocks| blocks.before.clone());
        let ty = lowering.index_type();
        let narrow = |number: Expr| if ty == Type::I64 { number.cast(Type::I32) } else { number };
        let first = lowering.local("first_row", Type::I32, narrow(start.clone() / int(ROW) % int(BLOCK / ROW)));
        lowering.each("row", Type::I32, [int(0), int(rows), int(1)], Unroll::Full, |lowering, row| {
            let of_thread = |array: &Expr| array.clone().at(row.clone()).at(name("threadIdx.x"));
            let before = reduction.combine(before_block, carried.rows.value.clone());
            lowering.push(Node::Assign(of_thread(&carried.before_row), before));
            carried.rows.take(lowering, reduction, columns, first + row.clone(), of_thread(&carried.row_total));
            Ok(())
        })?;
        let Some(blocks) = &carried.blocks else { return Ok(()) };
        let ends = (start.clone() + int(self.tile.extents.terms())) % int(BLOCK);
        lowering.when(ends.binary("==", int(0)), |lowering| {
            lowering.push(Node::Comment("A block's total is a term of the scan above.".into()));
            let block = lowering.local("block", Type::I32, narrow(start / int(BLOCK)));
            self.take_block(lowering, &carried.rows, blocks, block)
        })
    }

    /// The scan of the blocks' totals takes in one, and what stands before the next block becomes known.
    fn take_block(&self, lowering: &mut Lowering, rows: &Running, blocks: &Blocks, block: Expr) -> Result<(), Error> {
        let reduction = self.tile.output.reduction;
        let total = rows.value.clone();
        let begins = (block.clone() % int(4)).binary("==", int(0));
        let quad = begins.choose(total.clone(), reduction.combine(blocks.quad.clone(), total));
        lowering.push(Node::Assign(blocks.quad.clone(), quad));
        let within = reduction.combine(blocks.quads.value.clone(), blocks.quad.clone());
        lowering.push(Node::Assign(blocks.before.clone(), reduction.combine(reduction.identity.clone(), within)));
        let ends = (block.clone() % int(4)).binary("==", int(3));
        lowering.when(ends, |lowering| {
            blocks.quads.take(lowering, reduction, self.tile.extents.columns, block / int(4), blocks.quad.clone());
            Ok(())
        })?;
        lowering.push(Node::Assign(rows.value.clone(), reduction.identity.clone()));
        Ok(())
    }
}

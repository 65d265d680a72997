//! Scans along an axis whose columns are too few to keep a device busy with a block of threads for each tile of them, or are not even
//! as many as lie in a sector of memory. There the axis is cut into *pieces* of whole rows of 128 terms, and a block of threads takes
//! one piece of a tile ([`super::tile`]).
//!
//! 1. Terms are loaded and outputs stored as they lie in memory, by lines of the tile; in between they lie in shared memory, where a
//!    thread scans the quads of 16 neighbouring terms of one column, and where nothing is lost by waiting.
//! 2. What stands before its rows a warp finds out for each column: it publishes the totals of the piece's rows, waits for those of
//!    the rows before them in the block of 4,096 terms, and scans them. The piece that has the last of the 32 rows publishes the total
//!    of the block, and from such totals comes what stands before a block, as in scans along rows (`prelude/scans.cuh`).
//!
//! Waiting ends as it does there: pieces are numbered as blocks of threads start, those that come first along the axis before the
//! others. Totals of rows depend on their own piece, those of blocks on totals of rows.

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::Type;

use super::outputs::Output;
use super::tile::{self, Extents, OWN, ROW, Tile};
use super::{Shape, four, terms, ticket, words};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::map;
use crate::lower::reduction::Reduction;
use crate::lower::split::{BLOCK, bind_results};
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};

/// Rows of 128 terms of a block of threads, of all columns of a tile: 512 threads; of accumulators of 8 bytes, 256.
const ROWS: [i64; 2] = [64, 32];
/// Rows of a block of the scan order.
const OF_BLOCK: i64 = BLOCK / ROW;
/// Columns of a tile, narrowest first.
const WIDTHS: [i64; 3] = [4, 8, 16];
/// Rows for each column of the widest tile: there are as many warps as columns then.
const COLUMN_ROWS: i64 = 4;
/// Sectors that a tile's columns fill where there are so many: fewer columns are longer pieces, which have fewer totals to wait for.
const SECTORS: i64 = 2;
/// Blocks of threads that should be resident, so that some load while others wait.
const RESIDENT: [u32; 2] = [3, 4];

/// How a block's threads lie over rows and columns.
#[derive(Clone, Copy)]
pub struct Layout {
    tile: Extents,
    /// Whether one tile has all columns, and one piece the whole axis.
    one_tile: bool,
    one_piece: bool,
    /// Levels of blocks of 4,096 terms.
    levels: i64,
}

impl Layout {
    /// The layout, if the axis has columns.
    pub fn choose(lowering: &Lowering, statement: &Statement, shape: &Shape, reduction: &Reduction) -> Result<Option<Layout>, Error> {
        let facts = lowering.facts;
        let columns = lowering.points(shape.around(statement).1)?;
        let suits = tile::suits(lowering, statement, shape, reduction) && facts.at_least(&columns, 2);
        if !suits || facts.bound(&shape.terms).is_none() {
            return Ok(None);
        }
        let rows = ROWS[usize::from(is_wide(reduction))];
        let widest = tile::sectors(lowering, statement, SECTORS).min(rows / COLUMN_ROWS);
        let enough = |width: &i64| *width >= widest || facts.below(&columns, width + 1);
        let width = WIDTHS.into_iter().find(enough).unwrap_or(widest);
        let tile = Extents { columns: width, rows: rows / width };
        let one_piece = facts.below(&shape.terms, tile.terms() + 1);
        Ok(Some(Layout { tile, one_tile: facts.below(&columns, width + 1), one_piece, levels: shape.levels(facts) }))
    }

    fn notes(self) -> Vec<String> {
        let Extents { columns, rows } = self.tile;
        let which = if self.one_tile { format!("the columns, at most {columns}") } else { format!("{columns} neighbouring columns") };
        let mut notes = vec![
            format!("Scan: a block takes {which}, and {} terms of each, {rows} rows of 128, a thread four quads.", self.tile.terms()),
            "Terms are loaded and outputs stored by lines, in shared memory meanwhile. A warp scans the totals of a row's quads; then"
                .into(),
            "those of a column's rows.".into(),
        ];
        if !self.one_piece {
            notes.push(
                "One pass: a block publishes the totals of its rows, waits for the totals before them and scans those in the".into(),
            );
            notes.push("same fixed order. It takes its number when it starts: all that it waits for have started too.".into());
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
    let (columns, outers) = (lowering.points(behind)?, lowering.points(outer)?);
    let tiles = if layout.one_tile { Formula::from(1) } else { columns.clone().div_ceil(layout.tile.columns) };
    let pieces = if layout.one_piece { Formula::from(1) } else { shape.parts(layout.tile.terms()) };
    let grid = outers.clone().times(pieces.clone()).times(tiles.clone());
    let published = (!layout.one_piece).then(|| published(lowering, shape, reduction, outers.times(columns)));
    let (piece, outer_number, number) = place(lowering, [&pieces, &tiles], published.as_ref(), outer.is_empty());
    bind_results(lowering, outer, &outer_number)?;
    let tile = Tile::begin(lowering, Output { statement, shape, reduction }, layout.tile, number.clone())?;
    let lines = Lines::begin(lowering, &tile, &piece);
    lines.load(lowering)?;
    lowering.push(Node::Barrier);
    lines.scan_quads(lowering)?;
    let rows = Rows::begin(lowering, reduction, layout);
    lowering.push(Node::Barrier);
    tile.scan_rows(lowering, Some(&rows.total))?;
    lowering.push(Node::Barrier);
    let columns = lowering.points(behind)?;
    let columns = lowering.size(&columns, "columns");
    rows.each_column(lowering, &tile, [&columns, &number], |lowering, of_column, column| {
        let column = outer_number.clone() * columns.clone() + column;
        rows.find_before(lowering, &tile, published.as_ref(), &piece, [of_column, column])
    })?;
    lowering.push(Node::Barrier);
    lines.store(lowering, &rows.before)?;
    let first_piece = (!layout.one_piece).then(|| piece.binary("==", int(0)));
    if !shape.none_beyond() {
        lowering.when_some(first_piece, |lowering| tile.beyond(lowering))?;
    }
    let suffix = map::suffix(lowering, statement);
    lowering.end_launch(&suffix, "scan", layout.notes(), [grid, 1.into(), 1.into()], [layout.tile.threads() as u32, 1, 1]);
    if let Some(launch) = lowering.plan.launches.last_mut() {
        launch.resident = Some(RESIDENT[usize::from(is_wide(reduction))]);
    }
    Ok(())
}

/// Whether accumulators take 8 bytes.
fn is_wide(reduction: &Reduction) -> bool {
    matches!(reduction.accumulator, CudaType::Element(ty) if ty.size() == 8)
}

/// A block's terms, loaded and stored by lines across its tile: of a thread's column, 16 that lie equally far apart.
struct Lines<'a> {
    tile: &'a Tile<'a>,
    /// The number of the piece's first term.
    start: Expr,
    /// The terms in shared memory, by 16 neighbours of a column. Room for a seventeenth keeps the lanes of a warp, which have several
    /// columns and groups, in banks of their own.
    laid: Expr,
}

impl<'a> Lines<'a> {
    fn begin(lowering: &mut Lowering, tile: &'a Tile<'a>, piece: &Expr) -> Lines<'a> {
        let Extents { columns, rows } = tile.extents;
        let extents = vec![(rows * ROW / OWN) as u32, OWN as u32 + 1, columns as u32];
        let laid = lowering.shared("laid", tile.output.reduction.accumulator.clone(), extents);
        let start = lowering.local("start", lowering.index_type(), piece.clone() * int(tile.extents.terms()));
        Lines { tile, start, laid }
    }

    /// Lines that the block's threads take at a time.
    fn at_once(&self) -> i64 {
        self.tile.extents.terms() / OWN
    }

    /// All loads are issued before the first term is laid aside. Terms beyond the end are the identity.
    fn load(&self, lowering: &mut Lowering) -> Result<(), Error> {
        let Output { shape, reduction, .. } = self.tile.output;
        let (ty, group) = (lowering.index_type(), self.tile.group.clone());
        let values = lowering.registers("value", reduction.accumulator.clone(), vec![OWN as u32]);
        let each = |lowering: &mut Lowering, write: &dyn Fn(&mut Lowering, Expr) -> Result<(), Error>| {
            lowering.each("line", Type::I32, [int(0), int(OWN), int(1)], Unroll::Full, write)
        };
        each(lowering, &|lowering, line| {
            let term = self.start.clone() + group.clone() + line.clone() * int(self.at_once());
            let term = lowering.local("term", ty, term);
            let place = values.clone().at(line);
            lowering.push(Node::Assign(place.clone(), reduction.identity.clone()));
            lowering.when(term.clone().less(self.tile.end.clone()), |lowering| {
                terms::bind(lowering, shape, reduction, term, true);
                lowering.term(reduction, place)
            })
        })?;
        each(lowering, &|lowering, line| {
            let sixteen = line.clone() * int(self.at_once() / OWN) + group.clone() / int(OWN);
            let place = self.laid.clone().at(sixteen).at(group.clone() % int(OWN)).at(self.tile.within.clone());
            lowering.push(Node::Assign(place, values.clone().at(line)));
            Ok(())
        })
    }

    /// Each thread scans four quads in place.
    fn scan_quads(&self, lowering: &mut Lowering) -> Result<(), Error> {
        let reduction = self.tile.output.reduction;
        four(lowering, "at", |lowering, at| {
            let place =
                |quad: Expr| self.laid.clone().at(self.tile.group.clone()).at(at.clone() * int(4) + quad).at(self.tile.within.clone());
            let running = lowering.variable("running", reduction.accumulator.clone(), Some(place(int(0))));
            lowering.each("quad", Type::I32, [int(1), int(4), int(1)], Unroll::Full, |lowering, quad| {
                let next = reduction.combine(running.clone(), place(quad.clone()));
                lowering.push(Node::Assign(running.clone(), next));
                lowering.push(Node::Assign(place(quad), running.clone()));
                Ok(())
            })?;
            lowering.push(Node::Assign(self.tile.quad(at), running));
            Ok(())
        })
    }

    /// Stores the outputs, given what stands before each row.
    fn store(&self, lowering: &mut Lowering, before_row: &Expr) -> Result<(), Error> {
        let Output { shape, reduction, .. } = self.tile.output;
        let (ty, exclusive) = (lowering.index_type(), int(i64::from(!shape.scan.inclusive)));
        let lines = [self.tile.group.clone(), int(self.tile.extents.terms()), int(self.at_once())];
        lowering.each("line", Type::I32, lines, Unroll::By(4), |lowering, line| {
            let term = lowering.local("term", ty, self.start.clone() + line.clone());
            lowering.when(term.clone().less(self.tile.end.clone()), |lowering| {
                let within = || self.tile.within.clone();
                let laid = self.laid.clone().at(line.clone() / int(OWN)).at(line.clone() % int(OWN)).at(within());
                let before_quad = self.tile.quads.clone().at(line.clone() / int(4)).at(within());
                let in_row = lowering.local("in_row", reduction.accumulator.clone(), reduction.combine(before_quad, laid));
                let before_row = before_row.clone().at(line / int(ROW)).at(within());
                self.tile.output.store(lowering, term + exclusive, reduction.combine(before_row, in_row))
            })
        })
    }
}

/// Memory for what blocks of threads publish: a counter of tickets, then for each column the totals of 32 rows for every block of 4,096
/// terms, and what blocks of a scan along rows publish.
struct Published {
    pointer: Expr,
    blocks: Expr,
}

fn published(lowering: &mut Lowering, shape: &Shape, reduction: &Reduction, columns: Formula) -> Published {
    let blocks = shape.blocks();
    let room = blocks.clone().times(OF_BLOCK + 1).plus(blocks.clone().div_floor(32));
    let wish = format!("{}_published", reduction.reduce.reducer.name());
    let pointer = lowering.published(&wish, columns.times(room).times(words(reduction)).plus(1));
    Published { pointer, blocks: lowering.size(&blocks, "blocks") }
}

/// Which piece of the axis a block of threads takes, at which position of the variables before the axis, and of which tile. Tiles are
/// numbered fastest, so that neighbours in memory are read at the same time.
fn place(
    lowering: &mut Lowering,
    [pieces, tiles]: [&Formula; 2],
    published: Option<&Published>,
    no_outer: bool,
) -> (Expr, Expr, Expr) {
    let ty = lowering.index_type();
    let mut rest = match published {
        Some(published) => {
            let ticket = ticket(lowering, &published.pointer);
            lowering.local("number", ty, if ty == Type::I64 { ticket.cast(ty) } else { ticket })
        }
        None => name("blockIdx.x").cast(ty),
    };
    let mut next = |lowering: &mut Lowering, count: &Formula, wish: &str, last: bool| {
        if count.constant() == Some(1) {
            return int(0);
        }
        if last {
            return lowering.local(wish, ty, rest.clone());
        }
        let count = lowering.size(count, &format!("{wish}s"));
        let found = lowering.local(wish, ty, rest.clone() % count.clone());
        rest = rest.clone() / count;
        found
    };
    let tile = next(lowering, tiles, "tile", no_outer && pieces.constant() == Some(1));
    let piece = next(lowering, pieces, "piece", no_outer);
    let outer = if no_outer { int(0) } else { lowering.local("outer", ty, rest) };
    (piece, outer, tile)
}

/// The rows of a block's tile, in shared memory: their totals, and what stands before each.
struct Rows {
    layout: Layout,
    total: Expr,
    before: Expr,
    /// Room for 128 totals of blocks a column.
    room: Option<Expr>,
}

impl Rows {
    fn begin(lowering: &mut Lowering, reduction: &Reduction, layout: Layout) -> Rows {
        let extents = vec![layout.tile.rows as u32, layout.tile.columns as u32];
        let total = lowering.shared("row_total", reduction.accumulator.clone(), extents.clone());
        let before = lowering.shared("before_row", reduction.accumulator.clone(), extents);
        let waits = !layout.one_piece && layout.levels > 0;
        let room = waits.then(|| lowering.shared("totals", reduction.accumulator.clone(), vec![layout.tile.columns as u32, 128]));
        Rows { layout, total, before, room }
    }

    /// The first warps visit a column of the tile each: its number there, and among all.
    fn each_column(
        &self,
        lowering: &mut Lowering,
        tile: &Tile,
        [columns, number]: [&Expr; 2],
        visit: impl FnOnce(&mut Lowering, Expr, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (warps, width, warp) = (self.layout.tile.threads() / 32, self.layout.tile.columns, tile.threads.warp.clone());
        let column = lowering.local("column_of_warp", lowering.index_type(), number.clone() * int(width) + warp.clone());
        let is_inside = column.clone().less(columns.clone());
        let has_one = if width < warps { warp.clone().less(int(width)).and(is_inside) } else { is_inside };
        lowering.when(has_one, |lowering| visit(lowering, warp, column))
    }

    /// A warp finds out what stands before each row of a column.
    fn find_before(
        &self,
        lowering: &mut Lowering,
        tile: &Tile,
        published: Option<&Published>,
        piece: &Expr,
        [of_column, column]: [Expr; 2],
    ) -> Result<(), Error> {
        let (reduction, rows, lane) = (tile.output.reduction, self.layout.tile.rows, tile.threads.lane.clone());
        let (ty, identity) = (reduction.accumulator.clone(), reduction.identity.clone());
        // There are fewer than 2^31 pieces, and no memory for what more columns publish.
        let wide = lowering.index_type() == Type::I64;
        let narrow = |number: Expr| if wide && number.constant().is_none() { number.cast(Type::I32) } else { number };
        let own = lowering.local("own_row", Type::I32, lane.clone() % int(rows));
        let total = self.total.clone().at(own.clone()).at(of_column.clone());
        let (in_block, is_own) = match published {
            // Lanes beyond the last row have what nobody asks for.
            None => {
                let running = call("kogge_stone", vec![total, reduction.functor()]);
                (call("lane_before", vec![running, identity.clone()]), lane.less(int(rows)))
            }
            Some(published) => {
                let numbers = [&column, &published.blocks, piece].map(|number| narrow(number.clone()));
                let scan = [published.pointer.clone()].into_iter().chain(numbers).chain([int(rows)]);
                let arguments = scan.chain([total, identity.clone(), reduction.functor()]).collect();
                let is_own = (lane / int(rows)).binary("==", piece.clone() % int(OF_BLOCK / rows));
                (call("rows_before_in_block", arguments), is_own)
            }
        };
        let in_block = lowering.local("before_in_block", ty.clone(), in_block);
        let before_block = match (published, &self.room) {
            (Some(published), Some(room)) => {
                let room = Expr::Unary("&", Box::new(room.clone().at(tile.threads.warp.clone()).at(int(0))));
                let block = piece.clone() / int(OF_BLOCK / rows);
                let numbers = [column, published.blocks.clone(), block].map(narrow);
                let scan = [int(self.layout.levels), published.pointer.clone()].into_iter().chain(numbers);
                let arguments = scan.chain([room, identity, reduction.functor()]).collect();
                lowering.local("before_block", ty, call("scan_before_block_of_rows", arguments))
            }
            _ => identity,
        };
        lowering.when(is_own, |lowering| {
            let before = reduction.combine(before_block, in_block);
            lowering.push(Node::Assign(self.before.clone().at(own).at(of_column), before));
            Ok(())
        })
    }
}

//! What a block of threads has of a tile of neighbouring columns at a time: some rows of 128 terms of each, a thread 16 terms of one
//! column. The scans of rows of the scan order are the same wherever these terms lie along the axis:
//!
//! 1. Each thread scans its four quads; their totals go to shared memory.
//! 2. A lane has a quad's total: a warp scans the 32 of a row, for four columns, and leaves what stands before each quad.
//!
//! Where the terms are meanwhile, and what stands before a row, is the schedule's business.

use gpukc_dsl::program::{Ranged, Statement};
use gpukc_dsl::types::Type;

use super::outputs::Output;
use super::{Shape, Span, Threads, four, terms, threads};
use crate::error::Error;
use crate::lower::context::Lowering;
use crate::lower::reduction::Reduction;
use crate::lower::split::bind_results;
use crate::plan::{CudaType, Expr, Node, call, int, name};

/// Terms of a row of the scan order.
pub const ROW: i64 = 128;
/// Terms of a column that a thread has: four quads.
pub const OWN: i64 = 16;
/// Bytes that a memory access moves at least.
const SECTOR: i64 = 32;

/// Columns of a tile, and rows of 128 terms of each.
#[derive(Clone, Copy)]
pub struct Extents {
    pub columns: i64,
    pub rows: i64,
}

impl Extents {
    pub fn threads(self) -> i64 {
        self.rows * (ROW / OWN) * self.columns
    }

    /// Terms of a column.
    pub fn terms(self) -> i64 {
        self.rows * ROW
    }
}

/// Neighbouring columns that fill so many sectors.
pub fn sectors(lowering: &Lowering, statement: &Statement, count: i64) -> i64 {
    let element = lowering.kernel.arrays[statement.array].element.size() as i64;
    (count * SECTOR / element).clamp(8, 32)
}

/// Whether tiles of columns suit a scan: where neighbouring terms are neighbouring elements, and neighbouring columns are not, elements
/// are read as scans along rows do.
pub fn suits(lowering: &Lowering, statement: &Statement, shape: &Shape, reduction: &Reduction) -> bool {
    let Some(fastest) = shape.around(statement).1.last() else { return false };
    let along = !terms::along(lowering, shape, reduction).is_empty();
    matches!(reduction.accumulator, CudaType::Element(_))
        && (!along || terms::are_side_by_side(lowering, shape, reduction, fastest.variable))
}

impl Shape {
    /// The variables before the axis, and those behind it.
    pub fn around<'s>(&'s self, statement: &Statement) -> (&'s [Ranged], &'s [Ranged]) {
        let axis = statement.variables.iter().position(|v| v.variable == self.along.variable);
        self.batch.split_at(axis.unwrap_or(0).min(self.batch.len()))
    }
}

/// A block's tile.
pub struct Tile<'a> {
    pub output: Output<'a>,
    pub extents: Extents,
    pub threads: Threads,
    /// The thread's column in the tile, and which 16 terms of it the thread has.
    pub within: Expr,
    pub group: Expr,
    /// Whether there is such a column.
    pub is_inside: Expr,
    /// Terms of a column, and of the thread's: none beyond the last column.
    pub terms: Expr,
    pub end: Expr,
    /// The quads' totals by column, padded so that few lanes meet in a bank; then what stands before each in its row.
    pub quads: Expr,
}

impl<'a> Tile<'a> {
    /// The tile of that number; variables before the axis are bound.
    pub fn begin(lowering: &mut Lowering, output: Output<'a>, extents: Extents, number: Expr) -> Result<Tile<'a>, Error> {
        let (shape, reduction, ty) = (output.shape, output.reduction, lowering.index_type());
        let (_, behind) = shape.around(output.statement);
        let threads = threads(lowering, Span::BLOCK);
        let thread = || name("threadIdx.x").cast(Type::I32);
        let within = lowering.local("within", Type::I32, thread() % int(extents.columns));
        let group = lowering.local("group", Type::I32, thread() / int(extents.columns));
        let column = lowering.local("column", ty, number * int(extents.columns) + within.clone());
        let columns = lowering.points(behind)?;
        let columns = lowering.size(&columns, "columns");
        bind_results(lowering, behind, &column)?;
        let terms = lowering.size(&shape.terms, "terms");
        let is_inside = column.less(columns);
        lowering.push(Node::Comment("Columns beyond the last have no terms.".into()));
        let end = lowering.local("end", ty, is_inside.clone().choose(terms.clone(), int(0)));
        let accumulator = reduction.accumulator.clone();
        let padded = vec![(extents.terms() / 4) as u32, extents.columns as u32 + 1];
        let quads = lowering.shared("quads", accumulator, padded);
        Ok(Tile { output, extents, threads, within, group, is_inside, terms, end, quads })
    }

    /// Where the total of one of the thread's quads lies.
    pub fn quad(&self, at: Expr) -> Expr {
        self.quads.clone().at(self.group.clone() * int(4) + at).at(self.within.clone())
    }

    /// A warp scans the quads of a row, for four columns. The rows' totals are left where somebody asks for them.
    pub fn scan_rows(&self, lowering: &mut Lowering, row_total: Option<&Expr>) -> Result<(), Error> {
        let (reduction, ty) = (self.output.reduction, self.output.reduction.accumulator.clone());
        let Extents { columns, rows } = self.extents;
        let (lane, warp, warps) = (self.threads.lane.clone(), self.threads.warp.clone(), int(columns / 4));
        let row = if rows == 1 { int(0) } else { lowering.local("of_row", Type::I32, warp.clone() / warps.clone()) };
        let first = if rows == 1 { warp } else { warp.binary("%", warps) };
        four(lowering, "part", |lowering, part| {
            let column = lowering.local("of_column", Type::I32, first * int(4) + part);
            let place = self.quads.clone().at(row.clone() * int(32) + lane.clone()).at(column.clone());
            let running = call("kogge_stone", vec![place.clone(), reduction.functor()]);
            let running = lowering.local("running", ty, running);
            lowering.push(Node::Assign(place, call("lane_before", vec![running.clone(), reduction.identity.clone()])));
            if let Some(row_total) = row_total {
                let store = Node::Assign(row_total.clone().at(row).at(column), running);
                lowering.push(Node::If { condition: lane.binary("==", int(31)), then: vec![store], otherwise: Vec::new() });
            }
            Ok(())
        })
    }

    /// Stores the outputs of the tile's columns that take in no term.
    pub fn beyond(&self, lowering: &mut Lowering) -> Result<(), Error> {
        if self.output.shape.none_beyond() {
            return Ok(());
        }
        lowering.when(self.is_inside.clone(), |lowering| {
            self.output.beyond(lowering, self.group.clone(), self.extents.threads() / self.extents.columns)
        })
    }
}

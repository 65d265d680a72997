//! How many threads take the terms of a scan that go to one block.

use gpukc_dsl::types::Type;

use super::{Shape, THREADS};
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::plan::{Expr, Unroll, int};

/// What a block of threads takes.
#[derive(Clone, Copy)]
pub struct Span {
    /// Scans of the block, and warps of each.
    pub scans: i64,
    pub warps: i64,
    /// Rows of 128 terms of a warp.
    pub rows: i64,
    /// Whether a quad is of the terms as a whole or not at all.
    pub quads: bool,
}

/// Warps of a block.
const WARPS: i64 = THREADS as i64 / 32;

impl Span {
    /// A block of 4,096 terms, the last one of a scan perhaps of fewer.
    pub const BLOCK: Span = Span { scans: 1, warps: WARPS, rows: 4, quads: false };

    /// For terms that one block takes: those of several of so many scans, where a warp is enough for each.
    pub fn of_shape(shape: &Shape, facts: &Facts, scans: &Formula) -> Span {
        let terms = &shape.terms;
        let Some(bound) = facts.bound(terms) else { return Span::BLOCK };
        let (warps, rows) = ((bound / 512).clamp(1, WARPS), (bound / 128).clamp(1, Span::BLOCK.rows));
        // The outputs of an exclusive scan come from neighbouring lanes too.
        let quads = shape.scan.inclusive && facts.aligned && facts.multiple(terms, 4) && facts.at_least(terms, 4);
        let scans = if warps == 1 && scans.constant() != Some(1) { WARPS } else { 1 };
        Span { scans, warps, rows, quads }
    }

    pub fn threads(self) -> u32 {
        32 * (self.scans * self.warps) as u32
    }

    /// Rows of a scan.
    pub fn all_rows(self) -> i64 {
        self.warps * self.rows
    }

    /// Visits a warp's rows.
    pub fn each_row(self, lowering: &mut Lowering, write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>) -> Result<(), Error> {
        lowering.each("at", Type::I32, [int(0), int(self.rows), int(1)], Unroll::Full, write)
    }
}

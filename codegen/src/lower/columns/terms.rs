//! The rows that a thread takes of a block: loads first, several rounds of them in flight, then arithmetic.

use gpukc_dsl::program::ExprKind;
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::group::{from_zero, is_flat};
use super::super::packs::{Along, lane_of};
use super::super::reduction::Reduction;
use super::super::split::{BLOCK, run_along};
use super::layout::{ACCUMULATORS, Layout};
use super::{Block, Columns};
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, call, int, name};

/// What is asked of the rows of a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// All are there.
    Whole,
    /// Some may not be there, and nothing of theirs is touched.
    Tested,
    /// The same, but the last row is loaded in their place, so that no branch stands between loads.
    LastAgain,
}

/// A thread's part of a block of rows.
pub struct Rows {
    layout: Layout,
    pub reads: Vec<Along>,
    /// The accumulators, by neighbour and column.
    parts: Expr,
    /// The thread's first row, and the end of the block's.
    first: Expr,
    last: Expr,
    /// Whether no round of rows is cut short.
    even: bool,
    /// Whether every accumulator takes one term at most.
    single: bool,
    terms: Expr,
    /// Whether the reduced variables run together in every read, so that none is needed by itself.
    flat: bool,
    extents: Vec<Expr>,
    outer: Expr,
    width: Expr,
    column: Expr,
}

impl Rows {
    /// Declares the accumulators and bounds.
    pub fn begin(
        lowering: &mut Lowering,
        work: &Columns,
        layout: Layout,
        reads: Vec<Along>,
        block: &Block,
        column: Expr,
    ) -> Result<Rows, Error> {
        let (reduction, level, ty) = (&work.reduction, work.level, lowering.index_type());
        let terms = lowering.size(&level.terms, "terms");
        let mut extents = Vec::new();
        for range in &reduction.reduce.variables {
            let formula = lowering.extent(range)?;
            extents.push(lowering.size(&formula, "extent"));
        }
        let wish = format!("{}_part", reduction.reduce.reducer.name());
        let shape = [layout.own as u32, layout.lanes as u32];
        let shape = if layout.lanes > 1 { shape.to_vec() } else { vec![layout.own as u32] };
        let parts = lowering.registers(&wish, reduction.accumulator.clone(), shape);
        let mut rows = name("threadIdx.y").cast(Type::I32) * int(layout.own);
        if let Some(slice) = &block.slice {
            rows = slice.clone() * int(layout.own * layout.along) + rows;
        }
        let single = lowering.facts.below(&level.terms, layout.reach() + 1);
        let (first, last) = if single {
            (if layout.along > 1 { lowering.local("first", ty, rows) } else { int(0) }, terms.clone())
        } else {
            let first = lowering.local("first", ty, block.block.clone() * int(BLOCK) + rows);
            let last = call("minimum", vec![(block.block.clone() + int(1)) * int(BLOCK), terms.clone()]);
            (first, lowering.local("last", ty, last))
        };
        let even = match single {
            true => lowering.facts.is(&level.terms, layout.reach()),
            false => lowering.facts.multiple(&level.terms, ACCUMULATORS * layout.depth()),
        };
        let variables = &reduction.reduce.variables;
        let mut values = reduction.reduce.filter.into_iter().chain([reduction.reduce.body]);
        let runs = |value| is_flat(lowering.kernel, lowering.facts, value, variables);
        let flat = variables.len() > 1 && from_zero(lowering.kernel, lowering.facts, variables) && values.all(runs);
        let rows = Rows {
            layout,
            reads,
            parts,
            first,
            last,
            even,
            single,
            terms,
            flat,
            extents,
            outer: block.outer.clone(),
            width: block.width.clone(),
            column,
        };
        rows.each_part(lowering, |lowering, part, lane| {
            lowering.push(Node::Assign(rows.part(part, lane), reduction.identity.clone()));
            Ok(())
        })?;
        Ok(rows)
    }

    fn each_part(
        &self,
        lowering: &mut Lowering,
        write: impl FnOnce(&mut Lowering, Expr, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        lowering.each("part", Type::I32, [int(0), int(self.layout.own), int(1)], Unroll::Full, |lowering, part| {
            self.each_lane(lowering, |lowering, lane| write(lowering, part, lane))
        })
    }

    fn each_lane(&self, lowering: &mut Lowering, write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>) -> Result<(), Error> {
        lowering.each("lane", Type::I32, [int(0), int(self.layout.lanes), int(1)], Unroll::Full, write)
    }

    /// Takes all of the thread's terms of the block.
    pub fn take_all(&self, lowering: &mut Lowering, work: &Columns) -> Result<(), Error> {
        if self.single {
            let ends = if self.even { Ends::Whole } else { Ends::Tested };
            return self.take(lowering, work, self.first.clone(), 1, ends);
        }
        let ty = lowering.index_type();
        let depth = self.layout.depth();
        let step = ACCUMULATORS * depth;
        if self.even {
            let bounds = [self.first.clone(), self.last.clone(), int(step)];
            return lowering
                .each("row", ty, bounds, Unroll::By(1), |lowering, row| self.take(lowering, work, row, depth, Ends::Whole));
        }
        // Rounds that are whole know no test, so that the loads of several are in flight at once.
        let whole = self.last.clone() - int((depth - 1) * ACCUMULATORS + self.layout.own - 1);
        let whole = lowering.local("whole", ty, whole);
        let bounds = [self.first.clone(), whole.clone(), int(step)];
        lowering.each("row", ty, bounds, Unroll::By(1), |lowering, row| self.take(lowering, work, row, depth, Ends::Whole))?;
        let zero = lowering.index_constant(0).cast(ty);
        let rounds = call("maximum", vec![(whole - self.first.clone() + int(step - 1)) / int(step), zero]);
        let left = lowering.local("left", ty, self.first.clone() + rounds * int(step));
        if !self.reads.is_empty() {
            return lowering
                .when(left.clone().less(self.last.clone()), |lowering| self.take(lowering, work, left, depth, Ends::LastAgain));
        }
        let bounds = [left, self.last.clone(), int(ACCUMULATORS)];
        lowering.each("row", ty, bounds, Unroll::By(1), |lowering, row| self.take(lowering, work, row, 1, Ends::Tested))
    }

    /// Takes the terms of `depth` rounds from `row` on.
    fn take(&self, lowering: &mut Lowering, work: &Columns, row: Expr, depth: i64, ends: Ends) -> Result<(), Error> {
        let packs = self.load(lowering, work, &row, depth, ends)?;
        let tested = ends != Ends::Whole;
        self.each_term(lowering, &row, depth, tested, |lowering, term, part, at| {
            if let Some([source]) = work.level.sources.as_deref() {
                let offset = (self.outer.clone() * self.terms.clone() + term) * self.width.clone() + self.column.clone();
                let value = source.read(lowering, offset);
                let place = self.part(part, int(0));
                let next = work.reduction.combine(place.clone(), value);
                lowering.push(Node::Assign(place, next));
                return Ok(());
            }
            self.stand(lowering, work, term)?;
            self.each_lane(lowering, |lowering, lane| {
                for (along, pack) in self.reads.iter().zip(&packs) {
                    lowering.take_from(along, &lane_of(&pack.clone().at(at.clone()), self.layout.lanes, &lane));
                }
                let column = if self.layout.lanes > 1 { self.column.clone() + lane.clone() } else { self.column.clone() };
                lowering.variables.insert(work.columns.variable, column);
                lowering.accumulate(&work.reduction, self.part(part, lane))
            })
        })?;
        lowering.computed.clear();
        lowering.flat = None;
        lowering.variables.insert(work.columns.variable, self.column.clone());
        Ok(())
    }

    /// Lets the reduced variables stand at a term.
    fn stand(&self, lowering: &mut Lowering, work: &Columns, term: Expr) -> Result<(), Error> {
        if !self.flat {
            return lowering.bind_term(&work.reduction, term, &self.extents);
        }
        run_along(lowering, &work.reduction.reduce.variables, term);
        Ok(())
    }

    /// Issues the loads of whole rows, of packs where columns make them.
    fn load(&self, lowering: &mut Lowering, work: &Columns, row: &Expr, depth: i64, ends: Ends) -> Result<Vec<Expr>, Error> {
        if self.reads.is_empty() {
            return Ok(Vec::new());
        }
        let (lanes, count) = (self.layout.lanes, depth * self.layout.own);
        let packs: Vec<Expr> = self.reads.iter().map(|along| lowering.pieces(along.array, lanes, count)).collect();
        self.each_term(lowering, row, depth, ends == Ends::Tested, |lowering, term, _, at| {
            let ty = lowering.index_type();
            let term = match ends {
                Ends::LastAgain => lowering.local("loaded", ty, call("minimum", vec![term, self.last.clone() - int(1)])),
                _ => term,
            };
            self.stand(lowering, work, term)?;
            for (Along { array, reads, .. }, pack) in self.reads.iter().zip(&packs) {
                let Some(read) = reads.first() else { continue };
                let ExprKind::Read { subscripts, .. } = lowering.kernel.exprs[*read].kind.clone() else { continue };
                let offset = match lowering.flat_place(*array, &subscripts)? {
                    Some(offset) => offset,
                    None => {
                        let (indices, _) = lowering.guarded_indices(*array, &subscripts)?;
                        lowering.row_major(*array, indices)?
                    }
                };
                let piece = lowering.piece(*array, lanes, offset);
                lowering.push(Node::Assign(pack.clone().at(at.clone()), piece));
            }
            Ok(())
        })?;
        Ok(packs)
    }

    /// Visits the terms of `depth` rounds: the term, its accumulator, and its place among all.
    fn each_term(
        &self,
        lowering: &mut Lowering,
        row: &Expr,
        depth: i64,
        tested: bool,
        write: impl FnOnce(&mut Lowering, Expr, Expr, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (ty, own) = (lowering.index_type(), self.layout.own);
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            lowering.each("part", Type::I32, [int(0), int(own), int(1)], Unroll::Full, |lowering, part| {
                let term = lowering.local("term", ty, row.clone() + ahead.clone() * int(ACCUMULATORS) + part.clone());
                let inside = tested.then(|| term.clone().less(self.last.clone()));
                lowering.when_some(inside, |lowering| write(lowering, term, part.clone(), ahead * int(own) + part))
            })
        })
    }

    /// An accumulator of a column.
    fn part(&self, part: Expr, lane: Expr) -> Expr {
        let parts = self.parts.clone().at(part);
        if self.layout.lanes > 1 { parts.at(lane) } else { parts }
    }

    /// The thread's total of a column.
    pub fn own(&self, reduction: &Reduction, lane: &Expr) -> Expr {
        reduction.tree((0..self.layout.own).map(|part| self.part(int(part), lane.clone())).collect())
    }
}

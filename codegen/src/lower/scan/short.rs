//! Scans of few terms: a thread takes all of one scan. It has its terms in registers, so that all of them are in flight at once, and
//! follows the scan order by itself: quads, and the Kogge–Stone scan of their totals, one after the other. Threads need nothing of one
//! another; along an axis that others run faster than, neighbours read and store neighbouring elements.

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::Type;

use super::outputs::Output;
use super::{Shape, WAITING, four, terms};
use crate::error::Error;
use crate::lower::context::Lowering;
use crate::lower::map;
use crate::lower::reduction::Reduction;
use crate::lower::split::bind_results;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};

/// Threads of a block.
const THREADS: i64 = 256;
/// Most bytes of the accumulators that a thread has in registers.
const MOST_BYTES: i64 = 256;
/// Most terms along the last axis: of more, the accesses of a warp scatter too far.
const MOST_ALONG: i64 = 8;

/// How many quads a thread has.
#[derive(Clone, Copy)]
pub struct Layout {
    quads: i64,
}

impl Layout {
    /// The layout, if there are few terms.
    pub fn choose(lowering: &Lowering, statement: &Statement, shape: &Shape, reduction: &Reduction) -> Option<Layout> {
        let facts = lowering.facts;
        let bytes = match reduction.accumulator {
            CudaType::Element(ty) => ty.size().max(4) as i64,
            _ => 16,
        };
        let most = if shape.around(statement).1.is_empty() { MOST_ALONG } else { MOST_BYTES / bytes };
        if shape.batch.is_empty() || !facts.below(&shape.terms, most + 1) {
            return None;
        }
        let quads = if facts.below(&shape.terms, 5) { 1 } else { facts.bound(&shape.terms)? / 4 };
        Some(Layout { quads })
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
    let ty = lowering.index_type();
    let scans = lowering.points(&shape.batch)?;
    let grid = scans.clone().div_ceil(THREADS);
    let scans = lowering.size(&scans, "scans");
    let number = lowering.local("scan", ty, name("blockIdx.x").cast(ty) * int(THREADS) + name("threadIdx.x").cast(ty));
    lowering.when(number.clone().less(scans), |lowering| {
        bind_results(lowering, &shape.batch, &number)?;
        let terms = lowering.size(&shape.terms, "terms");
        let short = Short { output: Output { statement, shape, reduction }, layout, terms };
        let values = short.load(lowering)?;
        short.scan(lowering, &values)?;
        if shape.none_beyond() { Ok(()) } else { short.output.beyond(lowering, int(0), 1) }
    })?;
    let suffix = map::suffix(lowering, statement);
    let notes = vec![format!("Scan: a thread takes one scan of up to {} terms, which it has in registers.", 4 * layout.quads)];
    lowering.end_launch(&suffix, "scan", notes, [grid, 1.into(), 1.into()], [THREADS as u32, 1, 1]);
    Ok(())
}

/// A thread's scan.
struct Short<'a> {
    output: Output<'a>,
    layout: Layout,
    terms: Expr,
}

impl Short<'_> {
    /// Visits the quads that there are. Whether there is one is the same for all threads.
    fn each_quad(&self, lowering: &mut Lowering, visit: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>) -> Result<(), Error> {
        lowering.each("at", Type::I32, [int(0), int(self.layout.quads), int(1)], Unroll::Full, |lowering, at| {
            let there = (self.layout.quads > 1).then(|| (at.clone() * int(4)).less(self.terms.clone()));
            lowering.when_some(there, |lowering| visit(lowering, at))
        })
    }

    /// Visits the terms of a quad.
    fn each_term(
        &self,
        lowering: &mut Lowering,
        at: &Expr,
        visit: impl FnOnce(&mut Lowering, Expr, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        four(lowering, "quad", |lowering, quad| {
            let term = at.clone() * int(4) + quad.clone();
            visit(lowering, term, quad)
        })
    }

    /// Loads the terms; those beyond the end are the identity.
    fn load(&self, lowering: &mut Lowering) -> Result<Expr, Error> {
        let Output { shape, reduction, .. } = self.output;
        let values = lowering.registers("value", reduction.accumulator.clone(), vec![self.layout.quads as u32, 4]);
        self.each_quad(lowering, |lowering, at| {
            self.each_term(lowering, &at, |lowering, term, quad| {
                let place = values.clone().at(at.clone()).at(quad);
                lowering.push(Node::Assign(place.clone(), reduction.identity.clone()));
                lowering.when(term.clone().less(self.terms.clone()), |lowering| {
                    terms::bind(lowering, shape, reduction, term, true);
                    lowering.term(reduction, place)
                })
            })
        })?;
        Ok(values)
    }

    /// Scans the quads one after the other and stores their outputs.
    fn scan(&self, lowering: &mut Lowering, values: &Expr) -> Result<(), Error> {
        let Output { shape, reduction, .. } = self.output;
        let ty = reduction.accumulator.clone();
        let exclusive = int(i64::from(!shape.scan.inclusive));
        let several = self.layout.quads > 1;
        let before = several.then(|| lowering.variable("before_quad", ty.clone(), Some(reduction.identity.clone())));
        let waiting = several.then(|| lowering.registers("waiting", ty.clone(), vec![WAITING]));
        self.each_quad(lowering, |lowering, at| {
            let value = |quad: Expr| values.clone().at(at.clone()).at(quad);
            for quad in 1..4 {
                let next = reduction.combine(value(int(quad - 1)), value(int(quad)));
                lowering.push(Node::Assign(value(int(quad)), next));
            }
            let before_quad = before.clone().unwrap_or(reduction.identity.clone());
            self.each_term(lowering, &at, |lowering, term, quad| {
                let scanned = reduction.combine(reduction.identity.clone(), reduction.combine(before_quad, value(quad)));
                lowering.when(term.clone().less(self.terms.clone()), |lowering| self.output.store(lowering, term + exclusive, scanned))
            })?;
            if let (Some(before), Some(waiting)) = (before, waiting) {
                let waiting = Expr::Unary("&", Box::new(waiting.at(int(0))));
                let next = call("kogge_stone_next", vec![value(int(3)), at.clone(), waiting, int(1), reduction.functor()]);
                lowering.push(Node::Assign(before, next));
            }
            Ok(())
        })
    }
}

//! What a scan goes over: its terms, its outputs, and the numbers that both have.

use gpukc_dsl::program::{Direction, ExprId, ExprKind, Kernel, Order, Ranged, Reduce, Scan, Statement};
use gpukc_dsl::types::{Reducer, Type};

use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::expr::{cast, zero};
use crate::lower::reduction::Reduction;
use crate::lower::split::BLOCK;
use crate::plan::{Expr, int};
use crate::{size, walk};

/// A scan along one axis.
pub struct Shape {
    pub id: ExprId,
    /// What casts it, if anything does.
    pub cast: Option<ExprId>,
    pub scan: Scan,
    /// The axis, and the other left-side variables.
    pub along: Ranged,
    pub batch: Vec<Ranged>,
    /// How many terms any output takes in.
    pub terms: Formula,
    /// Outputs along the axis.
    pub extent: Formula,
    /// Forward: the first term's index; backward: one past the last term's.
    pub origin: Formula,
}

/// What a statement scans, if this is a scan: its one reduction `id`.
pub fn shape(kernel: &Kernel, facts: &Facts, statement: &Statement, id: ExprId, reduce: &Reduce) -> Option<Shape> {
    let (Order::Scan(scan), [range]) = (&reduce.order, reduce.variables.as_slice()) else { return None };
    let along = *statement.variables.iter().find(|v| v.variable == scan.along)?;
    let batch = statement.variables.iter().filter(|v| v.variable != scan.along).copied().collect();
    let extent = size::extent(kernel, facts, &along)?;
    let exclusive = i64::from(!scan.inclusive);
    let (origin, terms, none_outside) = match scan.direction {
        Direction::Forward => {
            let lo = size::formula(kernel, facts, range.lo)?;
            let none_outside = lo.constant().is_some_and(|lo| lo >= 0);
            (lo.clone(), extent.clone().minus(lo).minus(exclusive).max(0), none_outside)
        }
        Direction::Backward => {
            let hi = size::formula(kernel, facts, range.hi)?;
            let none_outside = [0, 1].iter().any(|more| hi.clone().plus(*more) == extent);
            (hi.clone(), hi.minus(exclusive).max(0), none_outside)
        }
    };
    // An axis without outputs takes in no terms, not even those of a range that reaches beyond it.
    let terms = if none_outside { terms } else { terms.times(extent.clone().max(0).min(1)) };
    let mut cast = None;
    walk::walk(kernel, statement.value, &mut |outer| {
        cast = cast.or((kernel.exprs[outer].kind == ExprKind::Cast(id)).then_some(outer));
        outer != id
    });
    Some(Shape { id, cast, scan: scan.clone(), along, batch, terms, extent, origin })
}

impl Shape {
    /// Blocks of a row of terms. A row without terms has outputs all the same where these are more than the terms: an exclusive
    /// scan gives `n + 1` of them.
    pub fn blocks(&self) -> Formula {
        self.parts(BLOCK)
    }

    /// The same for parts of so many terms.
    pub fn parts(&self, terms: i64) -> Formula {
        let parts = self.terms.clone().div_ceil(terms);
        let all_from_terms = self.terms == self.extent.clone().max(0);
        if all_from_terms { parts } else { parts.max(1) }
    }

    /// How many levels of blocks of 4,096 the block totals of a row have; 0: a row has one block.
    pub fn levels(&self, facts: &Facts) -> i64 {
        let terms = facts.bound(&self.terms).unwrap_or(i64::MAX);
        [1, 2, 3].iter().filter(|level| terms > BLOCK.pow(**level)).count() as i64
    }

    /// The reduction; in 32 bits where only so many of an integer sum or product are taken, which depend on no others.
    pub fn reduction(&self, lowering: &Lowering) -> Result<Reduction, Error> {
        let mut reduction = lowering.reduction(self.id)?;
        if self.narrowed(lowering, &reduction).is_some() {
            let narrow = if reduction.result.is_signed() { Type::I32 } else { Type::U32 };
            let identity = if reduction.reduce.reducer == Reducer::Prod { Expr::Int(1, narrow) } else { zero(narrow) };
            (reduction.result, reduction.accumulator, reduction.identity) = (narrow, narrow.into(), identity);
        }
        Ok(reduction)
    }

    /// The cast that takes no more than 32 bits of the reduction, of which the fewer it takes wrap.
    pub fn narrowed(&self, lowering: &Lowering, reduction: &Reduction) -> Option<ExprId> {
        let wraps = matches!(reduction.reduce.reducer, Reducer::Sum | Reducer::Prod | Reducer::Count) && !reduction.result.is_float();
        self.cast.filter(|cast| wraps && lowering.kernel.exprs[*cast].ty.is_integer() && lowering.kernel.exprs[*cast].ty.size() <= 4)
    }

    /// The scan has this value at the current output.
    pub fn give(&self, lowering: &mut Lowering, reduction: &Reduction, value: Expr) {
        let value = reduction.finish(value);
        match self.narrowed(lowering, reduction) {
            Some(narrow) => {
                let ty = lowering.kernel.exprs[narrow].ty;
                lowering.computed.insert(narrow, cast(value, reduction.result, ty))
            }
            None => lowering.computed.insert(self.id, value),
        };
    }

    /// The index of the term of that number. It is also that of the exclusive scan's output with so many terms.
    pub fn index(&self, lowering: &mut Lowering, number: Expr) -> Expr {
        let origin = lowering.size(&self.origin, "origin");
        match self.scan.direction {
            Direction::Forward => number + origin,
            Direction::Backward => origin - int(1) - number,
        }
    }
}

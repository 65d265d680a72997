//! 64-bit integer arithmetic whose values are known to fit 32 bits is done in 32: sums of bytes, their averages, what storage types
//! widen to. A GPU has no 64-bit multiplier; a division by 9 of an `i64` costs more than the nine terms of a blur.
//!
//! What is known of an expression is an interval, from the storage types of its reads and its literals; no overflow on the way,
//! so every step is the same number in either width.

use gpukc_dsl::program::{ExprId, ExprKind, Literal, Reduce};
use gpukc_dsl::types::{BinaryOp, Builtin, Reducer, Type};

use super::context::Lowering;
use super::expr::cast;
use crate::error::Error;
use crate::plan::Expr;
use crate::size;

/// Deeper than this nothing is asked: intervals of long chains of sums are of no use, and the question is asked at every step.
const DEEPEST: usize = 24;

/// The least and the greatest value.
type Interval = (i128, i128);

fn fits((lo, hi): Interval, ty: Type) -> bool {
    let (least, greatest) = ty.integer_range();
    least <= lo && hi <= greatest
}

impl Lowering<'_> {
    /// The value of a 64-bit operation whose result and operands all fit 32 bits, computed there.
    pub fn narrow_operation(&mut self, id: ExprId) -> Result<Option<Expr>, Error> {
        let expr = &self.kernel.exprs[id];
        if expr.ty != Type::I64 || !matches!(expr.kind, ExprKind::Binary(..)) || !self.narrows(id) {
            return Ok(None);
        }
        Ok(Some(self.narrow_value(id)?.cast(Type::I64)))
    }

    /// A cast of such a value to a narrow type: the way through 64 bits is left out.
    pub fn narrow_cast(&mut self, from: ExprId, to: Type) -> Result<Option<Expr>, Error> {
        let wide = self.kernel.exprs[from].ty == Type::I64;
        let operation = matches!(self.kernel.exprs[from].kind, ExprKind::Binary(..) | ExprKind::Reduce(_));
        if !wide || !operation || !to.is_integer() || to.size() > 4 || !self.narrows(from) {
            return Ok(None);
        }
        Ok(Some(cast(self.narrow_value(from)?, Type::I32, to)))
    }

    fn narrows(&self, id: ExprId) -> bool {
        if self.computed.contains_key(&id) || !self.interval(id, 0).is_some_and(|interval| fits(interval, Type::I32)) {
            return false;
        }
        match &self.kernel.exprs[id].kind {
            ExprKind::Binary(_, a, b) => {
                let small = |id| self.interval(id, 0).is_some_and(|interval| fits(interval, Type::I32));
                small(*a) && small(*b)
            }
            ExprKind::Reduce(_) => true,
            _ => false,
        }
    }

    /// The value in 32 bits of an `i64` expression that fits them.
    fn narrow_value(&mut self, id: ExprId) -> Result<Expr, Error> {
        if self.computed.contains_key(&id) {
            return Ok(self.value(id)?.cast(Type::I32));
        }
        match self.kernel.exprs[id].kind.clone() {
            ExprKind::Literal(Literal::Int(value)) => Ok(Expr::Int(value, Type::I32)),
            ExprKind::Binary(op, a, b) if self.narrows(id) => {
                let (a, b) = (self.narrow_value(a)?, self.narrow_value(b)?);
                // A divisor that is never 0, and no overflow: the operators themselves.
                Ok(a.binary(op.symbol(), b))
            }
            ExprKind::Cast(x) if self.kernel.exprs[x].ty.size() <= 4 => {
                let from = self.kernel.exprs[x].ty;
                Ok(cast(self.value(x)?, from, Type::I32))
            }
            ExprKind::Reduce(_) => match self.narrow_reduction(id)? {
                Some(value) => Ok(value),
                None => Ok(self.value(id)?.cast(Type::I32)),
            },
            _ => Ok(self.value(id)?.cast(Type::I32)),
        }
    }

    /// What an integer expression's values lie between, if something better than its type is known.
    fn interval(&self, id: ExprId, depth: usize) -> Option<Interval> {
        let expr = &self.kernel.exprs[id];
        let own = |ty: Type| (ty.size() < 4 && ty.is_integer()).then(|| ty.integer_range());
        if depth > DEEPEST || !expr.ty.is_integer() {
            return None;
        }
        let of = |id: ExprId| self.interval(id, depth + 1);
        let found = match &expr.kind {
            ExprKind::Literal(Literal::Int(value)) => Some((*value, *value)),
            ExprKind::Cast(x) => of(*x).filter(|interval| fits(*interval, expr.ty)),
            ExprKind::Binary(op, a, b) => of(*a).zip(of(*b)).and_then(|(a, b)| combined(*op, a, b)),
            ExprKind::If { then, otherwise, .. } => of(*then).zip(of(*otherwise)).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))),
            ExprKind::Builtin(builtin, arguments) => {
                let arguments: Option<Vec<Interval>> = arguments.iter().map(|a| of(*a)).collect();
                arguments.and_then(|arguments| selected(*builtin, &arguments))
            }
            ExprKind::Reduce(reduce) => self.reduced(reduce, depth),
            _ => None,
        };
        found.filter(|interval| fits(*interval, expr.ty)).or_else(|| own(expr.ty))
    }

    /// Of a sum of a known number of terms: any of them may be left out by a filter.
    fn reduced(&self, reduce: &Reduce, depth: usize) -> Option<Interval> {
        if reduce.reducer != Reducer::Sum {
            return None;
        }
        let (lo, hi) = self.interval(reduce.body, depth + 1)?;
        let terms = reduce.variables.iter().try_fold(1i64, |n, range| {
            let extent = size::extent(self.kernel, self.facts, range)?.constant()?;
            n.checked_mul(extent.max(0))
        })?;
        let terms = i128::from(terms);
        Some((terms.checked_mul(lo.min(0))?, terms.checked_mul(hi.max(0))?))
    }
}

fn combined(op: BinaryOp, a: Interval, b: Interval) -> Option<Interval> {
    // Intervals are within 64 bits, so nothing but products can leave 128.
    match op {
        BinaryOp::Add => Some((a.0 + b.0, a.1 + b.1)),
        BinaryOp::Sub => Some((a.0 - b.1, a.1 - b.0)),
        BinaryOp::Mul => {
            let products = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
            let products: Option<Vec<i128>> = products.into_iter().map(|(a, b)| a.checked_mul(b)).collect();
            let products = products?;
            Some((products.iter().copied().min()?, products.into_iter().max()?))
        }
        BinaryOp::Div if b.0 > 0 => {
            let quotients = [a.0 / b.0, a.0 / b.1, a.1 / b.0, a.1 / b.1];
            Some((quotients.into_iter().min()?, quotients.into_iter().max()?))
        }
        BinaryOp::Rem if b.0 > 0 => Some((if a.0 < 0 { 1 - b.1 } else { 0 }, if a.1 > 0 { b.1 - 1 } else { 0 })),
        BinaryOp::BitAnd if a.0 >= 0 && b.0 >= 0 => Some((0, a.1.min(b.1))),
        _ => None,
    }
}

fn selected(builtin: Builtin, arguments: &[Interval]) -> Option<Interval> {
    match (builtin, arguments) {
        (Builtin::Min, [a, b]) => Some((a.0.min(b.0), a.1.min(b.1))),
        (Builtin::Max, [a, b]) => Some((a.0.max(b.0), a.1.max(b.1))),
        (Builtin::Clamp, [x, lo, hi]) => Some((x.0.max(lo.0).min(hi.0), x.1.max(lo.1).min(hi.1))),
        _ => None,
    }
}

//! From the typed program's integer expressions to [`Formula`]s (extents, constants) and linear forms (subscripts).

use std::sync::Arc;

use gpukc_dsl::program::{ExprId, ExprKind, Kernel, Literal, Ranged, VariableId};
use gpukc_dsl::types::{BinaryOp, Builtin, Type};

use crate::facts::Facts;
use crate::formula::{Expression, Formula, Op};

/// The formula of an integer expression over literals, dims and scalars; `None` if it is anything else.
pub fn formula(kernel: &Kernel, facts: &Facts, id: ExprId) -> Option<Formula> {
    arithmetic(kernel, facts, id).or_else(|| {
        let integer = kernel.exprs[id].ty.is_integer();
        integer.then(|| Expression::of(kernel, id)).flatten().map(|expression| Formula::Expression(Arc::new(expression)))
    })
}

/// What formulas have operators for.
fn arithmetic(kernel: &Kernel, facts: &Facts, id: ExprId) -> Option<Formula> {
    let expr = &kernel.exprs[id];
    Some(match &expr.kind {
        ExprKind::Literal(Literal::Int(value)) => Formula::Constant(i64::try_from(*value).ok()?),
        ExprKind::Dim(dim) => match facts.literal.get(dim) {
            Some(value) => Formula::Constant(*value),
            None => Formula::Dim(*dim, kernel.dims[*dim].name.clone()),
        },
        ExprKind::Scalar(scalar) if expr.ty.is_integer() => Formula::Scalar(*scalar, kernel.scalars[*scalar].name.clone()),
        // Widening only: a narrowing cast wraps, which formulas don't.
        ExprKind::Cast(inner) if expr.ty == Type::I64 && kernel.exprs[*inner].ty.stores_to(Type::I64) => {
            formula(kernel, facts, *inner)?
        }
        ExprKind::Binary(op, a, b) if expr.ty == Type::I64 => {
            let op = match op {
                BinaryOp::Add => Op::Add,
                BinaryOp::Sub => Op::Sub,
                BinaryOp::Mul => Op::Mul,
                BinaryOp::Div => Op::DivTruncate,
                BinaryOp::Rem => Op::Remainder,
                _ => return None,
            };
            Formula::combine(op, formula(kernel, facts, *a)?, formula(kernel, facts, *b)?)
        }
        ExprKind::Builtin(builtin, arguments) if expr.ty == Type::I64 && arguments.len() == 2 => {
            let op = match builtin {
                Builtin::Min => Op::Min,
                Builtin::Max => Op::Max,
                Builtin::DivFloor => Op::DivFloor,
                Builtin::ModFloor => Op::ModFloor,
                _ => return None,
            };
            Formula::combine(op, formula(kernel, facts, arguments[0])?, formula(kernel, facts, arguments[1])?)
        }
        _ => return None,
    })
}

/// The number of values of a range, at least 0, if its bounds are formulas.
pub fn extent(kernel: &Kernel, facts: &Facts, range: &Ranged) -> Option<Formula> {
    let lo = formula(kernel, facts, range.lo)?;
    let hi = formula(kernel, facts, range.hi)?;
    Some(match lo.constant() {
        // A dim is never negative, so `0..n` has n values.
        Some(0) if matches!(hi, Formula::Dim(..)) => hi,
        _ => hi.minus(lo).max(0),
    })
}

/// A sum of index variables times formulas, plus a formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// Each variable once, with a coefficient that is not constant zero, in order of first appearance.
    pub terms: Vec<(VariableId, Formula)>,
    /// The rest.
    pub constant: Formula,
}

impl Linear {
    fn new(constant: Formula) -> Linear {
        Linear { terms: Vec::new(), constant }
    }
    /// The coefficient of a variable; zero if it does not occur.
    pub fn coefficient(&self, variable: VariableId) -> Formula {
        self.terms.iter().find(|(v, _)| *v == variable).map_or(Formula::Constant(0), |(_, c)| c.clone())
    }
    /// The only variable, if this is it alone with coefficient 1 and nothing added.
    pub fn alone(&self) -> Option<VariableId> {
        match self.terms.as_slice() {
            [(variable, Formula::Constant(1))] if self.constant == Formula::Constant(0) => Some(*variable),
            _ => None,
        }
    }
    /// `self + other`
    pub fn plus(mut self, other: Linear) -> Linear {
        for (variable, coefficient) in other.terms {
            match self.terms.iter_mut().find(|(v, _)| *v == variable) {
                Some((_, c)) => *c = c.clone().plus(coefficient),
                None => self.terms.push((variable, coefficient)),
            }
        }
        self.terms.retain(|(_, c)| *c != Formula::Constant(0));
        self.constant = self.constant.plus(other.constant);
        self
    }
    /// `self * factor`
    pub fn times(self, factor: &Formula) -> Linear {
        let terms = self.terms.into_iter().map(|(v, c)| (v, c.times(factor.clone()))).collect();
        Linear { terms, constant: self.constant.times(factor.clone()) }
    }
}

/// The linear form of an `i64` expression in index variables; `None` if it has none.
pub fn linear(kernel: &Kernel, facts: &Facts, id: ExprId) -> Option<Linear> {
    if let Some(constant) = formula(kernel, facts, id) {
        return Some(Linear::new(constant));
    }
    match &kernel.exprs[id].kind {
        ExprKind::Variable(variable) => {
            Some(Linear { terms: vec![(*variable, Formula::Constant(1))], constant: Formula::Constant(0) })
        }
        ExprKind::Binary(BinaryOp::Add, a, b) => Some(linear(kernel, facts, *a)?.plus(linear(kernel, facts, *b)?)),
        ExprKind::Binary(BinaryOp::Sub, a, b) => {
            Some(linear(kernel, facts, *a)?.plus(linear(kernel, facts, *b)?.times(&Formula::Constant(-1))))
        }
        ExprKind::Binary(BinaryOp::Mul, a, b) => match (formula(kernel, facts, *a), formula(kernel, facts, *b)) {
            (Some(factor), _) => Some(linear(kernel, facts, *b)?.times(&factor)),
            (_, Some(factor)) => Some(linear(kernel, facts, *a)?.times(&factor)),
            _ => None,
        },
        _ => None,
    }
}

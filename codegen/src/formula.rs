//! Integer formulas over a call's dims and integer scalars: extents, launch sizes, strides. The host evaluates them.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use gpukc_dsl::arena::Arena;
use gpukc_dsl::call::{Values, evaluate_in};
use gpukc_dsl::program::{DimId, Expr, ExprId, ExprKind, Kernel, Literal, ScalarId};

/// A formula. Build it with the functions below, which fold constants, so that texts stay short.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Formula {
    /// A constant.
    Constant(i64),
    /// A dim, with its name for the text form.
    Dim(DimId, String),
    /// An integer scalar parameter, with its name for the text form.
    Scalar(ScalarId, String),
    /// Two formulas combined.
    Binary(Op, Box<Formula>, Box<Formula>),
    /// Any other expression of the language over dims and scalars.
    Expression(Arc<Expression>),
}

/// An integer expression of a kernel, on its own: a launch knows no kernel.
#[derive(Clone, Debug)]
pub struct Expression {
    exprs: Arena<Expr>,
    root: ExprId,
    /// As it would be written. Equal texts of one kernel mean the same, since casts are written and names have one type.
    text: String,
}

impl Expression {
    /// The expression `root`; `None` unless it is known at the call.
    pub fn of(kernel: &Kernel, root: ExprId) -> Option<Expression> {
        let mut exprs = Arena::default();
        let copied = copy(kernel, root, &mut exprs)?;
        Some(Expression { exprs, root: copied, text: gpukc_dsl::program::print::expr(kernel, root) })
    }
    /// Where its nodes are.
    pub fn exprs(&self) -> &Arena<Expr> {
        &self.exprs
    }
    /// Its topmost node.
    pub fn root(&self) -> ExprId {
        self.root
    }
}

fn copy(kernel: &Kernel, id: ExprId, exprs: &mut Arena<Expr>) -> Option<ExprId> {
    let expr = &kernel.exprs[id];
    let mut below = |id: ExprId| copy(kernel, id, exprs);
    let kind = match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Dim(_) | ExprKind::Scalar(_) => expr.kind.clone(),
        ExprKind::Unary(op, a) => ExprKind::Unary(*op, below(*a)?),
        ExprKind::Cast(a) => ExprKind::Cast(below(*a)?),
        ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, below(*a)?, below(*b)?),
        ExprKind::If { condition, then, otherwise } => {
            ExprKind::If { condition: below(*condition)?, then: below(*then)?, otherwise: below(*otherwise)? }
        }
        ExprKind::Builtin(builtin, arguments) => {
            ExprKind::Builtin(*builtin, arguments.iter().map(|a| below(*a)).collect::<Option<Vec<_>>>()?)
        }
        ExprKind::Variable(_) | ExprKind::Read { .. } | ExprKind::Reduce(_) | ExprKind::Call(..) | ExprKind::Local(_) => return None,
    };
    Some(exprs.push(Expr { kind, ty: expr.ty, span: expr.span }))
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl Hash for Expression {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

/// How two formulas combine. All saturate at the ends of `i64`; division by zero gives zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `floor(a / b)`
    DivFloor,
    /// `a - b * floor(a / b)`
    ModFloor,
    /// `a / b` towards zero, as gk's `/`
    DivTruncate,
    /// The remainder of [`Op::DivTruncate`], as gk's `%`
    Remainder,
    /// The smaller.
    Min,
    /// The larger.
    Max,
}

impl Op {
    fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Op::Add => a.saturating_add(b),
            Op::Sub => a.saturating_sub(b),
            Op::Mul => a.saturating_mul(b),
            Op::DivFloor if b == 0 => 0,
            Op::DivFloor => {
                let quotient = a.wrapping_div(b);
                quotient - i64::from(a.wrapping_rem(b) != 0 && (a < 0) != (b < 0))
            }
            Op::ModFloor if b == 0 => 0,
            Op::ModFloor => a.wrapping_rem(b).wrapping_add(b).wrapping_rem(b),
            Op::DivTruncate if b == 0 => 0,
            Op::DivTruncate => a.wrapping_div(b),
            Op::Remainder if b == 0 => 0,
            Op::Remainder => a.wrapping_rem(b),
            Op::Min => a.min(b),
            Op::Max => a.max(b),
        }
    }
}

impl Formula {
    fn binary(op: Op, a: Formula, b: Formula) -> Formula {
        use Formula::Constant;
        match (op, &a, &b) {
            (_, Constant(x), Constant(y)) => Constant(op.apply(*x, *y)),
            (Op::Add, Constant(0), _) | (Op::Mul, Constant(1), _) => b,
            (Op::Add | Op::Sub, _, Constant(0)) | (Op::Mul | Op::DivFloor | Op::DivTruncate, _, Constant(1)) => a,
            (Op::Mul, Constant(0), _) | (Op::Mul, _, Constant(0)) => Constant(0),
            (Op::Mul, _, Constant(_)) => Formula::Binary(op, Box::new(b), Box::new(a)),
            (Op::Min | Op::Max, _, _) if a == b => a,
            (Op::Max, _, Constant(0)) if a.never_negative() => a,
            _ => Formula::Binary(op, Box::new(a), Box::new(b)),
        }
    }
    /// Whether it is never below 0, whatever the call: dims are not.
    pub fn never_negative(&self) -> bool {
        match self {
            Formula::Constant(value) => *value >= 0,
            Formula::Dim(..) => true,
            Formula::Binary(Op::Add | Op::Mul | Op::Min, a, b) => a.never_negative() && b.never_negative(),
            Formula::Binary(Op::Max, a, b) => a.never_negative() || b.never_negative(),
            Formula::Binary(Op::DivFloor | Op::DivTruncate, a, b) => a.never_negative() && b.never_negative(),
            _ => false,
        }
    }
    /// Its opposite, if it is written as one: a negative number, or something times one.
    pub fn negated(&self) -> Option<Formula> {
        match self {
            Formula::Constant(value) if *value < 0 => Some(Formula::Constant(value.checked_neg()?)),
            Formula::Binary(Op::Mul, a, b) => Some(a.negated()?.times((**b).clone())),
            _ => None,
        }
    }
    /// Adds the scalars that it mentions.
    pub fn scalars(&self, found: &mut BTreeSet<ScalarId>) {
        match self {
            Formula::Constant(_) | Formula::Dim(..) => {}
            Formula::Scalar(id, _) => drop(found.insert(*id)),
            Formula::Binary(_, a, b) => [a, b].into_iter().for_each(|formula| formula.scalars(found)),
            Formula::Expression(expression) => found.extend(expression.exprs.iter().filter_map(|(_, expr)| match expr.kind {
                ExprKind::Scalar(id) => Some(id),
                _ => None,
            })),
        }
    }
    /// `self + other`
    pub fn plus(self, other: impl Into<Formula>) -> Formula {
        Formula::binary(Op::Add, self, other.into())
    }
    /// `self - other`
    pub fn minus(self, other: impl Into<Formula>) -> Formula {
        Formula::binary(Op::Sub, self, other.into())
    }
    /// `self * other`
    pub fn times(self, other: impl Into<Formula>) -> Formula {
        Formula::binary(Op::Mul, self, other.into())
    }
    /// `floor(self / other)`
    pub fn div_floor(self, other: impl Into<Formula>) -> Formula {
        Formula::binary(Op::DivFloor, self, other.into())
    }
    /// `ceil(self / other)` for a positive `other`
    pub fn div_ceil(self, other: i64) -> Formula {
        self.plus(other - 1).div_floor(other)
    }
    /// The smaller of the two.
    pub fn min(self, other: impl Into<Formula>) -> Formula {
        Formula::binary(Op::Min, self, other.into())
    }
    /// The larger of the two.
    pub fn max(self, other: impl Into<Formula>) -> Formula {
        Formula::binary(Op::Max, self, other.into())
    }
    /// Two formulas combined by `op`, constants folded.
    pub fn combine(op: Op, a: Formula, b: Formula) -> Formula {
        Formula::binary(op, a, b)
    }
    /// Whether both are products of the same factors, in whichever order they were multiplied.
    pub fn same_product(&self, other: &Formula) -> bool {
        let mut left = other.factors();
        self.factors().into_iter().all(|factor| {
            let found = left.iter().position(|other| *other == factor);
            found.map(|at| left.swap_remove(at)).is_some()
        }) && left.is_empty()
    }
    /// The factors of a product.
    fn factors(&self) -> Vec<&Formula> {
        match self {
            Formula::Binary(Op::Mul, a, b) => [a, b].into_iter().flat_map(|formula| formula.factors()).collect(),
            formula => vec![formula],
        }
    }
    /// The value, if it depends on nothing.
    pub fn constant(&self) -> Option<i64> {
        if let Formula::Constant(value) = self { Some(*value) } else { None }
    }
    /// The value at a call; what is unknown counts as 0.
    pub fn evaluate(&self, values: &impl Values) -> i64 {
        let integer = |value: Option<Literal>| match value {
            Some(Literal::Int(value)) => value as i64,
            _ => 0,
        };
        match self {
            Formula::Constant(value) => *value,
            Formula::Dim(id, _) => values.dim(*id).unwrap_or(0),
            Formula::Scalar(id, _) => integer(values.scalar(*id)),
            Formula::Binary(op, a, b) => op.apply(a.evaluate(values), b.evaluate(values)),
            Formula::Expression(expression) => integer(evaluate_in(&expression.exprs, values, expression.root)),
        }
    }
}

impl From<i64> for Formula {
    fn from(value: i64) -> Formula {
        Formula::Constant(value)
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn show(formula: &Formula, outer: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Formula::Binary(op, a, b) = formula else {
                return match formula {
                    Formula::Constant(value) => write!(f, "{value}"),
                    Formula::Dim(_, name) | Formula::Scalar(_, name) => f.write_str(name),
                    Formula::Expression(expression) => write!(f, "[{}]", expression.text),
                    Formula::Binary(..) => Ok(()),
                };
            };
            if let Some(numerator) = as_ceiling(*op, a, b) {
                f.write_str("ceil(")?;
                show(&numerator, 0, f)?;
                f.write_str(" / ")?;
                show(b, 3, f)?;
                return f.write_str(")");
            }
            let (symbol, precedence) = match op {
                Op::Add => (" + ", 1),
                Op::Sub => (" - ", 1),
                Op::Mul => (" * ", 2),
                Op::DivFloor | Op::DivTruncate => (" / ", 2),
                Op::ModFloor | Op::Remainder => (" % ", 2),
                Op::Min | Op::Max => {
                    f.write_str(if *op == Op::Min { "min(" } else { "max(" })?;
                    show(a, 0, f)?;
                    f.write_str(", ")?;
                    show(b, 0, f)?;
                    return f.write_str(")");
                }
            };
            if precedence < outer {
                f.write_str("(")?;
            }
            show(a, precedence, f)?;
            f.write_str(symbol)?;
            show(b, precedence + 1, f)?;
            if precedence < outer { f.write_str(")") } else { Ok(()) }
        }
        show(self, 0, f)
    }
}

/// The `x` of `(x + (c - 1)) / c`, which reads better as a ceiling.
fn as_ceiling(op: Op, a: &Formula, divisor: &Formula) -> Option<Formula> {
    let Formula::Binary(Op::Add, x, rest) = a else { return None };
    let ceils = op == Op::DivFloor && *divisor != Formula::Constant(1) && **rest == divisor.clone().minus(1);
    ceils.then(|| (**x).clone())
}

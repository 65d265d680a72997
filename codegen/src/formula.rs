//! Integer formulas over a call's dims and integer scalars: extents, launch sizes, strides. The host evaluates them.

use std::fmt;

use gpukc_dsl::program::{DimId, ScalarId};

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

/// What dims and scalars are at a call.
pub trait Environment {
    /// The value of a dim.
    fn dim(&self, id: DimId) -> i64;
    /// The value of an integer scalar parameter.
    fn scalar(&self, id: ScalarId) -> i64;
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
            _ => Formula::Binary(op, Box::new(a), Box::new(b)),
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
    /// The value, if it depends on nothing.
    pub fn constant(&self) -> Option<i64> {
        if let Formula::Constant(value) = self { Some(*value) } else { None }
    }
    /// The value at a call.
    pub fn evaluate(&self, environment: &impl Environment) -> i64 {
        match self {
            Formula::Constant(value) => *value,
            Formula::Dim(id, _) => environment.dim(*id),
            Formula::Scalar(id, _) => environment.scalar(*id),
            Formula::Binary(op, a, b) => op.apply(a.evaluate(environment), b.evaluate(environment)),
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
                    Formula::Binary(..) => Ok(()),
                };
            };
            if let Some((divisor, numerator)) = as_ceiling(*op, a, b) {
                f.write_str("ceil(")?;
                show(&numerator, 0, f)?;
                return write!(f, " / {divisor})");
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

/// Recognises `(x + (c - 1)) / c`, which reads better as a ceiling.
fn as_ceiling(op: Op, a: &Formula, b: &Formula) -> Option<(i64, Formula)> {
    let (Op::DivFloor, Formula::Constant(divisor)) = (op, b) else { return None };
    match a {
        Formula::Binary(Op::Add, x, rest) if **rest == Formula::Constant(divisor - 1) && *divisor > 1 => {
            Some((*divisor, (**x).clone()))
        }
        _ => None,
    }
}

//! The built-in functions, of values that are known at the call. Those of mathematics are the same texts that the devices run.

use gpukc_math::{f32 as single, f64 as double};

use super::{Literal, mask, round_to, wrap};
use crate::types::{Builtin, Type};

/// The value of a function at these arguments; `None` where there is no such function.
pub(super) fn call(builtin: Builtin, ty: Type, arguments: &[Literal]) -> Option<Literal> {
    match *arguments {
        [Literal::Int(a)] => one_integer(builtin, ty, a).map(Literal::Int),
        [Literal::Int(a), Literal::Int(b)] => two_integers(builtin, ty, a, b).map(Literal::Int),
        [Literal::Int(a), Literal::Int(lo), Literal::Int(hi)] if builtin == Builtin::Clamp => Some(Literal::Int(a.max(lo).min(hi))),
        [Literal::Float(a)] => match builtin {
            Builtin::IsNan => Some(Literal::Bool(a.is_nan())),
            Builtin::IsInf => Some(Literal::Bool(a.is_infinite())),
            Builtin::IsFinite => Some(Literal::Bool(a.is_finite())),
            _ => one_float(builtin, ty, a).map(Literal::Float),
        },
        [Literal::Float(a), Literal::Float(b)] => two_floats(builtin, ty, a, b).map(Literal::Float),
        [Literal::Float(a), Literal::Float(b), Literal::Float(c)] => match builtin {
            Builtin::Clamp => Some(Literal::Float(least(greatest(a, b), c))),
            Builtin::MulAdd if ty == Type::F64 => Some(Literal::Float(a.mul_add(b, c))),
            Builtin::MulAdd => Some(Literal::Float(f64::from((a as f32).mul_add(b as f32, c as f32)))),
            _ => None,
        },
        _ => None,
    }
}

fn one_integer(builtin: Builtin, ty: Type, a: i128) -> Option<i128> {
    Some(match builtin {
        Builtin::Abs => wrap(ty, a.abs()),
        Builtin::Sign => a.signum(),
        Builtin::CountOnes => i128::from((a as u128 & mask(ty)).count_ones()),
        Builtin::LeadingZeros => i128::from((a as u128 & mask(ty)).leading_zeros() - (128 - ty.bits())),
        _ => return None,
    })
}

fn two_integers(builtin: Builtin, ty: Type, a: i128, b: i128) -> Option<i128> {
    let floor = || a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0);
    Some(match builtin {
        Builtin::Min => a.min(b),
        Builtin::Max => a.max(b),
        Builtin::DivFloor | Builtin::ModFloor if b == 0 => 0,
        Builtin::DivFloor => wrap(ty, floor()),
        Builtin::ModFloor => wrap(ty, a - b * floor()),
        _ => return None,
    })
}

/// IEEE 754-2019 minimum: NaN wins, -0 is below +0.
fn least(a: f64, b: f64) -> f64 {
    match (a.is_nan() || b.is_nan(), a == b) {
        (true, _) => f64::NAN,
        (_, true) if a.is_sign_negative() => a,
        (_, true) => b,
        _ => a.min(b),
    }
}

/// IEEE 754-2019 maximum.
fn greatest(a: f64, b: f64) -> f64 {
    match (a.is_nan() || b.is_nan(), a == b) {
        (true, _) => f64::NAN,
        (_, true) if a.is_sign_negative() => b,
        (_, true) => a,
        _ => a.max(b),
    }
}

fn one_float(builtin: Builtin, ty: Type, a: f64) -> Option<f64> {
    Some(match builtin {
        Builtin::Abs => a.abs(),
        Builtin::Sign if a.is_nan() || a == 0.0 => a,
        Builtin::Sign => a.signum(),
        Builtin::Floor => a.floor(),
        Builtin::Ceil => a.ceil(),
        Builtin::Trunc => a.trunc(),
        Builtin::Round => a.round(),
        Builtin::RoundTiesEven => a.round_ties_even(),
        Builtin::Sqrt => round_to(ty, a.sqrt()),
        _ if ty == Type::F64 => double_of(builtin)?(a),
        _ => f64::from(single_of(builtin)?(a as f32)),
    })
}

fn two_floats(builtin: Builtin, ty: Type, a: f64, b: f64) -> Option<f64> {
    let (x, y) = (a as f32, b as f32);
    Some(match builtin {
        Builtin::Min => least(a, b),
        Builtin::Max => greatest(a, b),
        Builtin::Copysign => a.copysign(b),
        Builtin::Pow if ty == Type::F64 => double::pow_f64(a, b),
        Builtin::Atan2 if ty == Type::F64 => double::atan2_f64(a, b),
        Builtin::Hypot if ty == Type::F64 => double::hypot_f64(a, b),
        Builtin::Pow => f64::from(single::pow_f32(x, y)),
        Builtin::Atan2 => f64::from(single::atan2_f32(x, y)),
        Builtin::Hypot => f64::from(single::hypot_f32(x, y)),
        _ => return None,
    })
}

/// The functions of one float, in both precisions.
macro_rules! functions {
    ($($builtin:ident $single:ident $double:ident;)+) => {
        fn single_of(builtin: Builtin) -> Option<fn(f32) -> f32> {
            match builtin {
                $(Builtin::$builtin => Some(single::$single),)+
                _ => None,
            }
        }
        fn double_of(builtin: Builtin) -> Option<fn(f64) -> f64> {
            match builtin {
                $(Builtin::$builtin => Some(double::$double),)+
                _ => None,
            }
        }
    };
}
functions! {
    Rsqrt rsqrt_f32 rsqrt_f64;
    Cbrt cbrt_f32 cbrt_f64;
    Exp exp_f32 exp_f64;
    Exp2 exp2_f32 exp2_f64;
    Expm1 expm1_f32 expm1_f64;
    Log log_f32 log_f64;
    Log2 log2_f32 log2_f64;
    Log10 log10_f32 log10_f64;
    Log1p log1p_f32 log1p_f64;
    Sin sin_f32 sin_f64;
    Cos cos_f32 cos_f64;
    Tan tan_f32 tan_f64;
    Asin asin_f32 asin_f64;
    Acos acos_f32 acos_f64;
    Atan atan_f32 atan_f64;
    Sinh sinh_f32 sinh_f64;
    Cosh cosh_f32 cosh_f64;
    Tanh tanh_f32 tanh_f64;
    Erf erf_f32 erf_f64;
    Erfc erfc_f32 erfc_f64;
}

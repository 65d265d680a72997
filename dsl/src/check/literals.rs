//! Numbers as written, their values, and whether a type can hold them.

use crate::program::Literal;
use crate::types::Type;

/// A literal's value before its type is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    /// A whole number; `None` if it is beyond even 128 bits.
    Int(Option<i128>),
    /// Decimal digits with a point or an exponent (no `_`, no suffix), and whether a minus stands before it.
    Decimal(String, bool),
    /// `INF`, `NAN`, `PI` and the limits of a type.
    Float(f64),
}

/// Splits a literal into its value and its suffix.
pub(crate) fn parse(text: &str) -> Result<(Number, Option<Type>), String> {
    let clean: String = text.chars().filter(|&c| c != '_').collect();
    for (prefix, radix) in [("0x", 16), ("0b", 2), ("0o", 8)] {
        if let Some(rest) = clean.strip_prefix(prefix) {
            let (digits, suffix) = split_suffix(rest, radix)?;
            if digits.is_empty() {
                return Err(format!("`{text}` has no digits"));
            }
            return match suffix {
                Some(ty) if !ty.is_integer() => Err(format!("a literal that starts with {prefix} is an integer, not {ty}")),
                _ => Ok((Number::Int(i128::from_str_radix(digits, radix).ok()), suffix)),
            };
        }
    }
    let (digits, suffix) = split_suffix(&clean, 10)?;
    let whole = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.is_empty();
    if whole {
        return Ok((Number::Int(digits.parse().ok()), suffix));
    }
    if digits.parse::<f64>().is_err() {
        return Err(format!("`{text}` is not a number"));
    }
    if let Some(ty) = suffix.filter(|ty| !ty.is_float()) {
        return Err(format!("`{digits}` is a float and can't have the suffix {ty}"));
    }
    Ok((Number::Decimal(digits.to_string(), false), suffix))
}

fn split_suffix(text: &str, radix: u32) -> Result<(&str, Option<Type>), String> {
    for ty in Type::ALL {
        if radix == 16 && (ty.name().starts_with('b') || ty.is_float()) {
            continue; // `0x1f32` is a number
        }
        if let Some(digits) = text.strip_suffix(ty.name()).filter(|_| ty != Type::Bool) {
            if !digits.is_empty() && digits.bytes().all(|b| (b as char).is_digit(radix) || radix == 10 && b"+-.eE".contains(&b)) {
                return Ok((digits, Some(ty)));
            }
        }
    }
    let end = text
        .char_indices()
        .find(|&(at, c)| {
            let exponent = radix == 10 && (matches!(c, '.' | 'e' | 'E') || matches!(c, '+' | '-') && at > 0);
            !(c.is_digit(radix) || exponent)
        })
        .map_or(text.len(), |(at, _)| at);
    match &text[end..] {
        "" => Ok((text, None)),
        rest => Err(format!("`{rest}` is no suffix of a number")),
    }
}

impl Number {
    /// Whether it is written as a float.
    pub(crate) fn is_float(&self) -> bool {
        !matches!(self, Number::Int(_))
    }

    /// The number with the other sign.
    pub(crate) fn negated(self) -> Number {
        match self {
            Number::Int(value) => Number::Int(value.and_then(i128::checked_neg)),
            Number::Decimal(digits, negative) => Number::Decimal(digits, !negative),
            Number::Float(value) => Number::Float(-value),
        }
    }

    /// The value in a type, rounded once; `None` if the type can't hold it.
    pub(crate) fn at(&self, ty: Type) -> Option<Literal> {
        if ty.is_integer() {
            let Number::Int(Some(value)) = *self else { return None };
            let (lo, hi) = ty.integer_range();
            return (lo <= value && value <= hi).then_some(Literal::Int(value));
        }
        if !ty.is_float() {
            return None;
        }
        let value = match self {
            Number::Int(value) => whole(&value.as_ref()?.to_string(), ty)?,
            Number::Decimal(digits, negative) => {
                let value = whole(digits, ty)?;
                if *negative { -value } else { value }
            }
            Number::Float(value) => return Some(Literal::Float(round_to(*value, ty))),
        };
        value.is_finite().then_some(Literal::Float(value))
    }
}

/// Decimal digits to a float type with one rounding.
fn whole(digits: &str, ty: Type) -> Option<f64> {
    match ty {
        Type::F64 => digits.parse::<f64>().ok(),
        Type::F32 => digits.parse::<f32>().ok().map(f64::from),
        _ => {
            // f32 is the nearest to the digits; where it is a tie between two narrow values, the f64 tells the side.
            let near = digits.parse::<f32>().ok().map(f64::from)?;
            let exact = digits.parse::<f64>().ok()?;
            let (narrow, below, above) = (round_to(near, ty), round_to(exact.next_down(), ty), round_to(exact.next_up(), ty));
            Some(if below == above {
                below
            } else if exact == near {
                narrow
            } else {
                round_to(exact, ty)
            })
        }
    }
}

/// Rounds to nearest even in a float type.
pub(crate) fn round_to(value: f64, ty: Type) -> f64 {
    let (precision, least) = match ty {
        Type::F32 => return f64::from(value as f32),
        Type::F16 => (11, -14),
        Type::Bf16 => (8, -126),
        _ => return value,
    };
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let bits = ((value.to_bits() >> 52) & 0x7FF) as i32;
    let exponent = (bits - 1023).max(least);
    let unit = 2f64.powi(exponent - precision + 1);
    let rounded = (value / unit).round_ties_even() * unit;
    let largest = if ty == Type::F16 { 65504.0 } else { 3.3895313892515355e38 };
    if rounded.abs() > largest { f64::INFINITY.copysign(value) } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_suffixes() {
        assert_eq!(parse("1_000").unwrap(), (Number::Int(Some(1000)), None));
        assert_eq!(parse("0xFFu8").unwrap(), (Number::Int(Some(255)), Some(Type::U8)));
        assert_eq!(parse("0x1f32").unwrap(), (Number::Int(Some(0x1f32)), None));
        assert_eq!(parse("0b101").unwrap(), (Number::Int(Some(5)), None));
        assert_eq!(parse("3f32").unwrap(), (Number::Int(Some(3)), Some(Type::F32)));
        assert_eq!(parse("1_0.5e-1").unwrap(), (Number::Decimal("10.5e-1".into(), false), None));
        assert_eq!(parse("1.0bf16").unwrap().1, Some(Type::Bf16));
        assert!(parse("1.5i32").is_err());
        assert!(parse("3x").is_err());
        assert_eq!(parse("999999999999999999999999999999999999999999").unwrap().0, Number::Int(None));
    }

    #[test]
    fn fitting() {
        let int = |value| Number::Int(Some(value));
        assert_eq!(int(-2147483648).at(Type::I32), Some(Literal::Int(-2147483648)));
        assert_eq!(int(2147483648).at(Type::I32), None);
        assert_eq!(int(-1).at(Type::U32), None);
        assert_eq!(int(3).at(Type::F32), Some(Literal::Float(3.0)));
        assert_eq!(Number::Decimal("1e39".into(), false).at(Type::F32), None);
        assert_eq!(Number::Decimal("65520.0".into(), false).at(Type::F16), None);
        assert_eq!(Number::Decimal("65519.9".into(), false).at(Type::F16), Some(Literal::Float(65504.0)));
        assert_eq!(Number::Decimal("0.1".into(), true).at(Type::F32), Some(Literal::Float(-f64::from(0.1f32))));
    }

    #[test]
    fn rounding_to_narrow_floats() {
        assert_eq!(round_to(1.0 + 2f64.powi(-11), Type::F16), 1.0);
        assert_eq!(round_to(1.0 + 3.0 * 2f64.powi(-11), Type::F16), 1.0 + 2f64.powi(-9));
        assert_eq!(round_to(2f64.powi(-25), Type::F16), 0.0);
        assert_eq!(round_to(1.5 * 2f64.powi(-25), Type::F16), 2f64.powi(-24));
        assert_eq!(round_to(1.0 + 2f64.powi(-8), Type::Bf16), 1.0);
    }
}

//! Literals, each spelled so that the compiler reads back the very value.

use gpukc_dsl::types::Type;

/// An integer of type `ty`. `bare`: the context makes a long long of an int anyhow.
pub fn integer(value: i128, ty: Type, bare: bool) -> String {
    let fits_int = i32::try_from(value).is_ok();
    let suffix = match ty {
        Type::I64 if bare && fits_int && value != i128::from(i32::MIN) => "",
        Type::I64 => "ll",
        Type::U32 => "u",
        Type::U64 => "ull",
        _ => "",
    };
    let smallest = ty == Type::I64 && value == i128::from(i64::MIN) || suffix.is_empty() && value == i128::from(i32::MIN);
    if smallest {
        // The minus is an operator, and the number after it would be too large.
        format!("(-{}{suffix} - 1)", -(value + 1))
    } else {
        format!("{value}{suffix}")
    }
}

/// A float of type `ty`: the shortest decimal that reads back as it; of f16 and bf16, the bits.
pub fn float(value: f64, ty: Type) -> String {
    match ty {
        Type::F16 => format!("{:#06x}", narrowed(value, 5, 10)),
        Type::Bf16 => format!("{:#06x}", narrowed(value, 8, 7)),
        _ => {
            let (name, suffix) = if ty == Type::F32 { ("f32", "f") } else { ("f64", "") };
            let minus = if value.is_sign_negative() && !value.is_nan() { "-" } else { "" };
            if value.is_nan() {
                format!("nan_{name}()")
            } else if value.is_infinite() {
                format!("{minus}infinity_{name}()")
            } else if ty == Type::F32 {
                format!("{:?}{suffix}", value as f32)
            } else {
                format!("{value:?}")
            }
        }
    }
}

/// The bits of the nearest 16-bit float, ties to even.
fn narrowed(value: f64, exponent_bits: u32, fraction_bits: u32) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let infinite = ((1 << exponent_bits) - 1) << fraction_bits;
    if value.is_nan() {
        return infinite | 1 << (fraction_bits - 1);
    }
    let lowest = 2 - (1 << (exponent_bits - 1));
    let exponent = ((value.abs().to_bits() >> 52) as i32 - 1023).max(lowest);
    let scale = 2f64.powi(fraction_bits as i32 - exponent);
    let steps = (value.abs() * scale).round_ties_even();
    let bits = f64::from((exponent - lowest) << fraction_bits) + steps;
    sign | if bits < f64::from(infinite) { bits as u16 } else { infinite }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        assert_eq!(integer(5, Type::I32, false), "5");
        assert_eq!(integer(5, Type::I64, false), "5ll");
        assert_eq!(integer(5, Type::I64, true), "5");
        assert_eq!(integer(-5, Type::I64, false), "-5ll");
        assert_eq!(integer(1 << 40, Type::I64, true), "1099511627776ll");
        assert_eq!(integer(5, Type::U32, false), "5u");
        assert_eq!(integer(u64::MAX.into(), Type::U64, false), "18446744073709551615ull");
        assert_eq!(integer(i32::MIN.into(), Type::I32, false), "(-2147483647 - 1)");
        assert_eq!(integer(i32::MIN.into(), Type::I64, true), "-2147483648ll");
        assert_eq!(integer(i64::MIN.into(), Type::I64, true), "(-9223372036854775807ll - 1)");
    }

    #[test]
    fn floats() {
        assert_eq!(float(f64::from(0.1f32), Type::F32), "0.1f");
        assert_eq!(float(1.0, Type::F32), "1.0f");
        assert_eq!(float(-0.0, Type::F32), "-0.0f");
        assert_eq!(float(f64::from(1e-5f32), Type::F32), "1e-5f");
        assert_eq!(float(f64::from(f32::MAX), Type::F32), "3.4028235e38f");
        assert_eq!(float(0.1, Type::F64), "0.1");
        assert_eq!(float(f64::NEG_INFINITY, Type::F32), "-infinity_f32()");
        assert_eq!(float(-f64::NAN, Type::F64), "nan_f64()");
    }

    #[test]
    fn halves() {
        for (value, half, brain) in [
            (1.0, "0x3c00", "0x3f80"),
            (-2.0, "0xc000", "0xc000"),
            (0.0, "0x0000", "0x0000"),
            (-0.0, "0x8000", "0x8000"),
            (65519.0, "0x7bff", "0x4780"),
            (65520.0, "0x7c00", "0x4780"),
            (1e40, "0x7c00", "0x7f80"),
            (f64::INFINITY, "0x7c00", "0x7f80"),
            (2f64.powi(-24), "0x0001", "0x3380"),
            (2f64.powi(-25), "0x0000", "0x3300"),
            (2f64.powi(-14), "0x0400", "0x3880"),
            (2f64.powi(-133), "0x0000", "0x0001"),
            (1e-300, "0x0000", "0x0000"),
            (1.0 + 2f64.powi(-11), "0x3c00", "0x3f80"),
            (1.0 + 2f64.powi(-8) + 2f64.powi(-40), "0x3c04", "0x3f81"),
        ] {
            assert_eq!(float(value, Type::F16), half, "{value}");
            assert_eq!(float(value, Type::Bf16), brain, "{value}");
        }
    }
}

//! f16 and bf16 as bits: conversions without branches, so that loops over them become vector code.

/// Exact.
#[inline(always)]
pub fn f16_to_f32(h: u16) -> f32 {
    let sign = u32::from(h & 0x8000) << 16;
    let magnitude = u32::from(h & 0x7fff) << 13;
    // As an f32 the fraction is in place and the exponent is short of 112: one exact product mends it, subnormals too.
    let scaled = f32::from_bits(magnitude) * f32::from_bits((254 - 15) << 23);
    let special = magnitude | 0x7f80_0000;
    let bits = if magnitude >= 0x7c00 << 13 { special } else { scaled.to_bits() };
    f32::from_bits(bits | sign)
}

/// To nearest even.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    // Below the normal numbers an addition rounds: 0.5's last bit is worth one unit of the f16 subnormals.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_add(0xfff + odd).wrapping_sub((127 - 15) << 23) >> 13;
    let infinite = 0x7c00 | if magnitude > 0x7f80_0000 { 0x200 } else { 0 };
    let value = if magnitude < (127 - 14) << 23 { subnormal } else { normal };
    let value = if magnitude >= (127 + 16) << 23 { infinite } else { value };
    value as u16 | sign
}

/// Exact.
#[inline(always)]
pub fn bf16_to_f32(b: u16) -> f32 {
    f32::from_bits(u32::from(b) << 16)
}

/// To nearest even.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let odd = bits >> 16 & 1;
    let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
    let value = if bits & 0x7fff_ffff > 0x7f80_0000 { bits >> 16 | 0x40 } else { rounded };
    value as u16
}

/// Rounded to odd: what is inexact gets an odd last bit, so that a second rounding to at most 22 bits is as good as one.
#[inline(always)]
pub fn f64_to_odd_f32(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    let other = if back.abs() > x.abs() { bits.wrapping_sub(1) } else { bits | 1 };
    let inexact = back != x && !x.is_nan() && bits & 1 == 0;
    f32::from_bits(if inexact { other } else { bits })
}

/// One rounding to nearest even.
#[inline(always)]
pub fn f64_to_f16(x: f64) -> u16 {
    f32_to_f16(f64_to_odd_f32(x))
}

/// One rounding to nearest even.
#[inline(always)]
pub fn f64_to_bf16(x: f64) -> u16 {
    f32_to_bf16(f64_to_odd_f32(x))
}

/// Rounded to odd.
#[inline(always)]
pub fn odd_from_u64(x: u64) -> f64 {
    let lost = 11u32.saturating_sub(x.leading_zeros());
    let kept = x >> lost << lost;
    let sticky = u64::from(kept != x) << lost;
    (kept | sticky) as f64
}

/// Rounded to odd.
#[inline(always)]
pub fn odd_from_i64(x: i64) -> f64 {
    let magnitude = odd_from_u64(x.unsigned_abs());
    if x < 0 { -magnitude } else { magnitude }
}

//! Numbers for inputs, and numbers as text.

use gpukc_cpu::Tensor;
use gpukc_dsl::types::Type;
use half::{bf16, f16};

/// The SplitMix64 output for a counter.
pub fn mixed(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An array of numbers between −0.25 and 1 (floats), of the full range (8 bits) or below 1000 or the limit (wider integers).
pub fn random(element: Type, shape: &[i64], seed: u64, below: Option<i64>) -> Tensor {
    let count: i64 = shape.iter().product();
    let mut bytes = Vec::new();
    for i in 0..count as u64 {
        let random = mixed((seed << 40) + i);
        let float = (random >> 11) as f64 / (1u64 << 53) as f64 * 1.25 - 0.25;
        let limit = below.unwrap_or(if element.size() == 1 { 256 } else { 1000 }).max(1) as u64;
        push(&mut bytes, element, Number { float, integer: (random % limit) as i128 });
    }
    Tensor::from_bytes(element, shape, &bytes).expect("memory for an input")
}

/// A number to be stored as any type.
#[derive(Clone, Copy)]
pub struct Number {
    pub float: f64,
    pub integer: i128,
}

/// Appends a number's bytes.
pub fn push(bytes: &mut Vec<u8>, element: Type, number: Number) {
    let Number { float, integer } = number;
    match element {
        Type::Bool => bytes.push(u8::from(integer & 1 != 0)),
        Type::F16 => bytes.extend(f16::from_f64(float).to_ne_bytes()),
        Type::Bf16 => bytes.extend(bf16::from_f64(float).to_ne_bytes()),
        Type::F32 => bytes.extend((float as f32).to_ne_bytes()),
        Type::F64 => bytes.extend(float.to_ne_bytes()),
        integral => {
            let all = (integer as i64).to_le_bytes();
            bytes.extend(&all[..integral.size()]);
        }
    }
}

/// Whether two arrays of one type are the same bytes, NaNs aside; the first place where they are not.
pub fn difference(element: Type, a: &[u8], b: &[u8]) -> Option<usize> {
    let size = element.size();
    if a.len() != b.len() {
        return Some(a.len().min(b.len()) / size);
    }
    let nan = |bytes: &[u8]| match element {
        Type::F16 => f16::from_ne_bytes([bytes[0], bytes[1]]).is_nan(),
        Type::Bf16 => bf16::from_ne_bytes([bytes[0], bytes[1]]).is_nan(),
        Type::F32 => f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        Type::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        _ => false,
    };
    a.chunks(size).zip(b.chunks(size)).position(|(a, b)| a != b && !(nan(a) && nan(b)))
}

/// An element as text.
pub fn text(element: Type, bytes: &[u8]) -> String {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(all);
    let shift = 64 - 8 * bytes.len() as u32;
    match element {
        Type::Bool => (unsigned != 0).to_string(),
        Type::F16 => f16::from_bits(unsigned as u16).to_string(),
        Type::Bf16 => bf16::from_bits(unsigned as u16).to_string(),
        Type::F32 => f32::from_bits(unsigned as u32).to_string(),
        Type::F64 => f64::from_bits(unsigned).to_string(),
        ty if ty.is_signed() => ((unsigned << shift) as i64 >> shift).to_string(),
        _ => unsigned.to_string(),
    }
}

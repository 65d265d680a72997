//! Made-up inputs, the same on every machine: `rand:1024x512`, `randn:…`, `arange:…`, `zeros:…`, `ones:…`.
//!
//! Element `i` of a random array depends on the seed and on `i` alone: it is the SplitMix64 output for the counter
//! `seed + i`, mixed once more. `randn` is Box and Muller's transform of two such numbers, with gk's own functions.

use half::{bf16, f16};

use gpukc_cpu::Tensor;
use gpukc_dsl::types::Type;
use gpukc_math::f64::{cos_f64, log_f64};

/// What to fill with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    Rand,
    Randn,
    Arange,
    Zeros,
    Ones,
}

/// A generator as written on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    pub fill: Fill,
    pub shape: Vec<i64>,
    /// If not stated, it follows from the parameter's name, so that two inputs differ.
    pub seed: Option<u64>,
}

/// An array of the language has no more.
const MOST_DIMS: usize = 8;

/// Parses a source that starts like a generator; `None` if it doesn't.
pub fn parse(text: &str) -> Option<Result<Generator, String>> {
    let (head, rest) = text.split_once(':')?;
    let fill = match head {
        "rand" => Fill::Rand,
        "randn" => Fill::Randn,
        "arange" => Fill::Arange,
        "zeros" => Fill::Zeros,
        "ones" => Fill::Ones,
        _ => return None,
    };
    let takes_seed = matches!(fill, Fill::Rand | Fill::Randn);
    let malformed = || {
        let seeded = if takes_seed { format!(" or {head}:1024x512:SEED") } else { String::new() };
        Some(Err(format!("`{text}` is not a generator; write {head}:1024x512{seeded}")))
    };
    let (shape, seed) = rest.split_once(':').map_or((rest, None), |(shape, seed)| (shape, Some(seed)));
    let extents: Vec<String> = shape.split('x').map(|extent| extent.replace('_', "")).collect();
    if !extents.iter().chain(seed.map(str::to_owned).iter()).all(|part| is_number(part)) {
        return malformed();
    }
    if extents.len() > MOST_DIMS {
        return Some(Err(format!("`{text}` has {} dimensions; an array has {MOST_DIMS} at most", extents.len())));
    }
    let Ok(shape) = extents.iter().map(|extent| extent.parse()).collect::<Result<Vec<i64>, _>>() else {
        return Some(Err(format!("`{text}` has an extent above {}", i64::MAX)));
    };
    let seed = match seed.map(str::parse) {
        Some(_) if !takes_seed => return Some(Err(format!("`{text}`: only rand and randn take a seed"))),
        Some(Err(_)) => return Some(Err(format!("`{text}` has a seed above {}", u64::MAX))),
        Some(Ok(seed)) => Some(seed),
        None => None,
    };
    Some(Ok(Generator { fill, shape, seed }))
}

/// Digits and nothing else.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// SplitMix64's output function.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 64 random bits for element `at`.
fn random(seed: u64, at: u64) -> u64 {
    mix(mix(seed).wrapping_add(at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// FNV-1a of a name.
fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Standard normal numbers.
fn normal(seed: u64, at: u64) -> f64 {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    // In (0, 1], so that the logarithm is finite.
    let first = ((random(seed, 2 * at) >> 11) + 1) as f64 * UNIT;
    let second = (random(seed, 2 * at + 1) >> 11) as f64 * UNIT;
    (-2.0 * log_f64(first)).sqrt() * cos_f64(second * std::f64::consts::TAU)
}

/// Makes the array; `Err` says why it can't be made.
pub fn make(generator: &Generator, element: Type, name: &str) -> Result<Tensor, String> {
    let Generator { fill, shape, seed } = generator;
    if *fill == Fill::Randn && !element.is_float() {
        return Err(format!("randn makes floats, and `{name}` is {element}"));
    }
    let mut tensor = gpukc_cli::tensor::room(element, shape, name)?;
    if *fill == Fill::Zeros {
        return Ok(tensor);
    }
    let seed = seed.unwrap_or_else(|| seed_of(name));
    let size = element.size();
    let bytes = tensor.bytes_mut();
    // Each element stands for itself, so threads may share the work.
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get()).min(bytes.len() / (1 << 20) + 1);
    let elements = (bytes.len() / size).div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (part, chunk) in bytes.chunks_mut(elements * size).enumerate() {
            let first = (part * elements) as u64;
            let fill = *fill;
            if threads == 1 {
                fill_part(fill, element, seed, first, chunk);
            } else {
                scope.spawn(move || fill_part(fill, element, seed, first, chunk));
            }
        }
    });
    Ok(tensor)
}

fn fill_part(fill: Fill, element: Type, seed: u64, first: u64, chunk: &mut [u8]) {
    macro_rules! each {
        ($value:expr) => {{
            let value = $value;
            for (at, place) in chunk.chunks_exact_mut(element.size()).enumerate() {
                place.copy_from_slice(&value(first + at as u64).to_ne_bytes());
            }
        }};
    }
    macro_rules! integer {
        ($ty:ty) => {
            match fill {
                Fill::Rand if size_of::<$ty>() == 1 => each!(|at| (random(seed, at) >> 56) as $ty),
                // The upper half of a product by 1000: 0 to 999.
                Fill::Rand => each!(|at| ((u128::from(random(seed, at)) * 1000) >> 64) as $ty),
                Fill::Arange => each!(|at: u64| at as $ty),
                _ => each!(|_| 1 as $ty),
            }
        };
    }
    macro_rules! float {
        ($bits:literal, $from:expr) => {{
            let from = $from;
            match fill {
                // As many random bits as the significand has: exact, and below 1.
                Fill::Rand => each!(|at| from((random(seed, at) >> (64 - $bits)) as f64 / (1u64 << $bits) as f64)),
                Fill::Randn => each!(|at| from(normal(seed, at))),
                Fill::Arange => each!(|at: u64| from(at as f64)),
                _ => each!(|_| from(1.0)),
            }
        }};
    }
    match element {
        Type::Bool => match fill {
            Fill::Rand => each!(|at| (random(seed, at) >> 63) as u8),
            Fill::Arange => each!(|at: u64| u8::from(at != 0)),
            _ => each!(|_| 1u8),
        },
        Type::I8 => integer!(i8),
        Type::I16 => integer!(i16),
        Type::I32 => integer!(i32),
        Type::I64 => integer!(i64),
        Type::U8 => integer!(u8),
        Type::U16 => integer!(u16),
        Type::U32 => integer!(u32),
        Type::U64 => integer!(u64),
        Type::F16 => float!(11, |value: f64| f16::from_f64(value).to_bits()),
        Type::Bf16 => float!(8, |value: f64| bf16::from_f64(value).to_bits()),
        Type::F32 => float!(24, |value: f64| value as f32),
        Type::F64 => float!(53, |value: f64| value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str, element: Type) -> Tensor {
        make(&parse(text).unwrap().unwrap(), element, "x").unwrap()
    }

    #[test]
    fn texts() {
        assert_eq!(parse("x.npy"), None);
        assert_eq!(parse("c:x.npy"), None);
        let generator = parse("rand:1_024x512:7").unwrap().unwrap();
        assert_eq!(generator, Generator { fill: Fill::Rand, shape: vec![1024, 512], seed: Some(7) });
        for bad in
            ["rand:", "rand:x", "rand:3x", "rand:-3", "rand:3:", "rand:3:y", "zeros:3:1", "rand:99999999999999999999", "ones:3.5"]
        {
            assert!(parse(bad).unwrap().is_err(), "{bad}");
        }
        let said = |text: &str| parse(text).unwrap().unwrap_err();
        assert_eq!(said("ones:3.5"), "`ones:3.5` is not a generator; write ones:1024x512");
        assert_eq!(said("rand:3:y"), "`rand:3:y` is not a generator; write rand:1024x512 or rand:1024x512:SEED");
        assert_eq!(said("ones:1x1x1x1x1x1x1x1x1"), "`ones:1x1x1x1x1x1x1x1x1` has 9 dimensions; an array has 8 at most");
        assert_eq!(parse("ones:1x1x1x1x1x1x1x1").unwrap().unwrap().shape, [1; 8]);
        assert_eq!(said("zeros:9223372036854775808"), "`zeros:9223372036854775808` has an extent above 9223372036854775807");
        assert_eq!(said("rand:3:18446744073709551616"), "`rand:3:18446744073709551616` has a seed above 18446744073709551615");
    }

    #[test]
    fn numbers_do_not_change() {
        // Recorded; a change changes everybody's benchmarks and examples.
        assert_eq!(made("rand:3:1", Type::I32).values::<i32>(), &[749, 372, 438]);
        assert_eq!(random(0, 0), mix(0x9e37_79b9_7f4a_7c15));
        assert_eq!(made("arange:3", Type::F64).values::<f64>(), &[0.0, 1.0, 2.0]);
        assert_eq!(made("ones:2", Type::Bf16).values::<u16>(), &[0x3f80, 0x3f80]);
        assert_eq!(made("arange:300", Type::U8).values::<u8>()[299], 43);
    }

    #[test]
    fn uniform_and_normal() {
        let uniform = made("rand:3000000:5", Type::F32);
        let values = uniform.values::<f32>();
        assert!(values.iter().all(|value| (0.0..1.0).contains(value)));
        let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / values.len() as f64;
        assert!((mean - 0.5).abs() < 1e-3, "{mean}");
        let normal = made("randn:1000000:5", Type::F64);
        let values = normal.values::<f64>();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 5e-3 && (square - 1.0).abs() < 1e-2, "{mean} {square}");
        // The parts of threads join without a seam: element by element the same as alone.
        assert_eq!(uniform.values::<f32>()[2_999_999], ((random(5, 2_999_999) >> 40) as f64 / (1u64 << 24) as f64) as f32);
    }
}

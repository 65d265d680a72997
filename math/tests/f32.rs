//! Single precision against references in double precision: a stride over all bit patterns, and the edges.
#![allow(clippy::approx_constant, clippy::excessive_precision, clippy::needless_range_loop, clippy::type_complexity)]

use gpukc_math::f32 as m;

/// (name, function, reference)
type One = (&'static str, fn(f32) -> f32, fn(f64) -> f64);
type Two = (&'static str, fn(f32, f32) -> f32, fn(f64, f64) -> f64);

/// erf by the series with positive terms only, for |x| < 3.
fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (x, x, 1.0);
    while term.abs() > 1e-18 * sum.abs() {
        term *= 2.0 * x * x / (2.0 * k + 1.0);
        sum += term;
        k += 1.0;
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp()
}

fn erfc_reference(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x < -7.0 {
        2.0
    } else if x < 0.0 {
        2.0 - erfc_reference(-x)
    } else if x < 2.0 {
        1.0 - erf_series(x)
    } else if x > 30.0 {
        0.0
    } else {
        // the continued fraction, from its tail
        let mut f = x;
        for k in (1..160).rev() {
            f = x + 0.5 * k as f64 / f;
        }
        (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI / (2.0 * f)
    }
}

fn erf_reference(x: f64) -> f64 {
    if x.abs() < 2.0 {
        erf_series(x)
    } else if x < 0.0 {
        erfc_reference(-x) - 1.0
    } else {
        1.0 - erfc_reference(x)
    }
}

const ONE: &[One] = &[
    ("exp", |x| m::exp_f32(x), f64::exp),
    ("exp2", |x| m::exp2_f32(x), f64::exp2),
    ("expm1", |x| m::expm1_f32(x), f64::exp_m1),
    ("log", |x| m::log_f32(x), f64::ln),
    ("log2", |x| m::log2_f32(x), f64::log2),
    ("log10", |x| m::log10_f32(x), f64::log10),
    ("log1p", |x| m::log1p_f32(x), f64::ln_1p),
    ("sin", |x| m::sin_f32(x), f64::sin),
    ("cos", |x| m::cos_f32(x), f64::cos),
    ("tan", |x| m::tan_f32(x), f64::tan),
    ("asin", |x| m::asin_f32(x), f64::asin),
    ("acos", |x| m::acos_f32(x), f64::acos),
    ("atan", |x| m::atan_f32(x), f64::atan),
    ("sinh", |x| m::sinh_f32(x), f64::sinh),
    ("cosh", |x| m::cosh_f32(x), f64::cosh),
    ("tanh", |x| m::tanh_f32(x), f64::tanh),
    ("erf", |x| m::erf_f32(x), erf_reference),
    ("erfc", |x| m::erfc_f32(x), erfc_reference),
    ("cbrt", |x| m::cbrt_f32(x), f64::cbrt),
    ("rsqrt", |x| m::rsqrt_f32(x), |x| 1.0 / x.sqrt()),
];

const TWO: &[Two] = &[
    ("pow", |x, y| m::pow_f32(x, y), f64::powf),
    ("atan2", |x, y| m::atan2_f32(x, y), f64::atan2),
    ("hypot", |x, y| m::hypot_f32(x, y), f64::hypot),
];

/// The error of `got` in units in the last place of `want`; infinite where a special value or a sign is wrong.
fn ulps(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if want == 0.0 || want.is_infinite() {
        return if got as f64 == want && got.is_sign_negative() == want.is_sign_negative() { 0.0 } else { f64::INFINITY };
    }
    if got.is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    let exponent = (((want.to_bits() >> 52) & 2047) as i32 - 1023).clamp(-126, 127);
    let unit = 2f64.powi(exponent - 23);
    // past the largest number, infinity counts as 2^128
    let top = 2f64.powi(128);
    let value = if got.is_infinite() { top.copysign(got as f64) } else { got as f64 };
    (value - want.clamp(-top, top)).abs() / unit
}

fn edges() -> Vec<f32> {
    let mut v = vec![f32::NAN, f32::INFINITY, f32::MAX, f32::MIN_POSITIVE, 0.0];
    for i in 1..4u32 {
        v.push(f32::from_bits(i));
        v.push(f32::from_bits(f32::MIN_POSITIVE.to_bits() - i));
        v.push(f32::from_bits(f32::MIN_POSITIVE.to_bits() + i));
    }
    let around = [
        0.00012,
        0.25,
        0.5,
        0.55,
        0.5625,
        0.75,
        0.7853982,
        0.9225,
        1.0,
        1.5,
        1.5707964,
        2.0,
        3.1415927,
        4.0,
        9.0,
        10.0,
        10.054,
        10.1,
        17.33,
        18.0,
        88.72284,
        89.0,
        89.416,
        89.5,
        103.97,
        104.0,
        126.0,
        127.0,
        128.0,
        129.0,
        149.0,
        150.0,
        151.0,
        0.6931472,
        0.34657359,
        0.6666667,
        1.3333334,
        0.70710678,
        std::f32::consts::SQRT_2,
        131072.0,
        65536.0,
        16777216.0,
        8388608.0,
        1e10,
        1e20,
        1e30,
        1e-10,
        1e-20,
        1e-30,
        16367173.0 * 4722366482869645213696.0,
    ];
    for a in around {
        for d in -4..=4i32 {
            v.push(f32::from_bits(f32::to_bits(a).wrapping_add_signed(d)));
        }
    }
    for k in 1..200 {
        v.push(k as f32 * std::f32::consts::FRAC_PI_2);
        v.push(k as f32 * 0.5);
        v.push(k as f32 * std::f32::consts::LN_2);
    }
    let negative: Vec<f32> = v.iter().map(|x| -x).collect();
    v.extend(negative);
    v
}

/// The largest error of `f` over some arguments, and where.
fn worst(f: fn(f32) -> f32, reference: fn(f64) -> f64, args: impl Iterator<Item = f32>) -> (f64, f32) {
    let mut top = (0.0, 0.0);
    for x in args {
        let e = ulps(f(x), reference(x as f64));
        if e > top.0 {
            top = (e, x);
        }
    }
    top
}

#[test]
fn functions_of_one_argument() {
    let mut bad = Vec::new();
    for &(name, f, reference) in ONE {
        let stride = (0..1u32 << 20).map(|i| f32::from_bits(i.wrapping_mul(4093)));
        // most bit patterns are huge or tiny: as many again where functions have their shape
        let shape = (0..1 << 19).map(|i| (i as f32 - 262144.0) * 0.00041);
        let (e, x) = worst(f, reference, stride.chain(shape).chain(edges()));
        println!("{name:>6}_f32 {e:.3} ulp at {x:e} ({:#x})", x.to_bits());
        if e > 2.0 {
            bad.push(format!("{name} {e} ulp at {x:e}: {:e}, not {:e}", f(x), reference(x as f64)));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// A fixed sequence of 32-bit patterns.
fn random(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 32) as u32
}

fn pairs() -> Vec<(f32, f32)> {
    let mut s = 7;
    let mut v = Vec::new();
    for _ in 0..200_000 {
        v.push((f32::from_bits(random(&mut s)), f32::from_bits(random(&mut s))));
        let x = f32::from_bits(random(&mut s) >> 1);
        // a power that neither overflows nor vanishes, and points not far from the diagonal
        v.push((x, (random(&mut s) as f32 / 2f32.powi(32) - 0.5) * 200.0 / x.ln().abs()));
        v.push((x, x * (0.25 + random(&mut s) as f32 / 2f32.powi(30))));
        let near = 1.0 + (random(&mut s) as i32 as f32) / 2f32.powi(34);
        v.push((near, random(&mut s) as i32 as f32 / 2f32.powi(22)));
        v.push(((random(&mut s) as i32 >> 24) as f32, (random(&mut s) as i32 >> 26) as f32));
    }
    let mut e = edges();
    e.truncate(160);
    e.extend([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, f32::NEG_INFINITY, -f32::MAX, -1e-45]);
    for &x in &e {
        for &y in &e {
            v.push((x, y));
        }
    }
    v
}

#[test]
fn functions_of_two_arguments() {
    let pairs = pairs();
    let mut bad = Vec::new();
    for &(name, f, reference) in TWO {
        let mut top = (0.0, 0.0, 0.0);
        for &(x, y) in &pairs {
            let e = ulps(f(x, y), reference(x as f64, y as f64));
            if e > top.0 {
                top = (e, x, y);
            }
        }
        let (e, x, y) = top;
        println!("{name:>6}_f32 {e:.3} ulp at {x:e}, {y:e}");
        if e > 2.0 {
            bad.push(format!("{name} {e} ulp at {x:e}, {y:e}: {:e}, not {:e}", f(x, y), reference(x as f64, y as f64)));
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn exact_functions() {
    for i in 0..1u32 << 20 {
        let x = f32::from_bits(i.wrapping_mul(4093));
        assert!(same(m::round_f32(x), x.round()), "round({x:e})");
    }
    for x in edges() {
        assert!(same(m::round_f32(x), x.round()), "round({x:e})");
    }
    for (x, y) in pairs() {
        assert!(same(m::fmod_f32(x, y), x % y), "{x:e} % {y:e}: {:e}, not {:e}", m::fmod_f32(x, y), x % y);
    }
}

#[test]
fn special_values() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    let tiny = f32::from_bits(1);
    let table: &[(&str, f32, f32)] = &[
        ("exp(-inf)", m::exp_f32(-INF), 0.0),
        ("exp(inf)", m::exp_f32(INF), INF),
        ("exp(0)", m::exp_f32(0.0), 1.0),
        ("exp(89)", m::exp_f32(89.0), INF),
        ("exp(-103)", m::exp_f32(-103.0), tiny),
        ("exp2(-149)", m::exp2_f32(-149.0), tiny),
        ("exp2(127)", m::exp2_f32(127.0), 2f32.powi(127)),
        ("exp2(128)", m::exp2_f32(128.0), INF),
        ("expm1(-0)", m::expm1_f32(-0.0), -0.0),
        ("expm1(-inf)", m::expm1_f32(-INF), -1.0),
        ("expm1(tiny)", m::expm1_f32(tiny), tiny),
        ("log(0)", m::log_f32(0.0), -INF),
        ("log(-0)", m::log_f32(-0.0), -INF),
        ("log(-1)", m::log_f32(-1.0), NAN),
        ("log(1)", m::log_f32(1.0), 0.0),
        ("log(inf)", m::log_f32(INF), INF),
        ("log2(tiny)", m::log2_f32(tiny), -149.0),
        ("log2(2^100)", m::log2_f32(2f32.powi(100)), 100.0),
        ("log10(1000)", m::log10_f32(1000.0), 3.0),
        ("log10(-inf)", m::log10_f32(-INF), NAN),
        ("log1p(-0)", m::log1p_f32(-0.0), -0.0),
        ("log1p(-1)", m::log1p_f32(-1.0), -INF),
        ("log1p(-2)", m::log1p_f32(-2.0), NAN),
        ("sin(-0)", m::sin_f32(-0.0), -0.0),
        ("sin(inf)", m::sin_f32(INF), NAN),
        ("cos(-0)", m::cos_f32(-0.0), 1.0),
        ("cos(-inf)", m::cos_f32(-INF), NAN),
        ("tan(-0)", m::tan_f32(-0.0), -0.0),
        ("tan(inf)", m::tan_f32(INF), NAN),
        ("asin(-0)", m::asin_f32(-0.0), -0.0),
        ("asin(1)", m::asin_f32(1.0), std::f32::consts::FRAC_PI_2),
        ("asin(1.0000001)", m::asin_f32(1.0000001), NAN),
        ("acos(1)", m::acos_f32(1.0), 0.0),
        ("acos(-1)", m::acos_f32(-1.0), std::f32::consts::PI),
        ("acos(-2)", m::acos_f32(-2.0), NAN),
        ("atan(-inf)", m::atan_f32(-INF), -std::f32::consts::FRAC_PI_2),
        ("atan2(0, -0)", m::atan2_f32(0.0, -0.0), std::f32::consts::PI),
        ("atan2(-0, -0)", m::atan2_f32(-0.0, -0.0), -std::f32::consts::PI),
        ("atan2(-0, 0)", m::atan2_f32(-0.0, 0.0), -0.0),
        ("atan2(-0, 1)", m::atan2_f32(-0.0, 1.0), -0.0),
        ("atan2(0, -1)", m::atan2_f32(0.0, -1.0), std::f32::consts::PI),
        ("atan2(1, 0)", m::atan2_f32(1.0, -0.0), std::f32::consts::FRAC_PI_2),
        ("atan2(inf, inf)", m::atan2_f32(INF, INF), std::f32::consts::FRAC_PI_4),
        ("atan2(-inf, -inf)", m::atan2_f32(-INF, -INF), -3.0 * std::f32::consts::FRAC_PI_4),
        ("atan2(-1, inf)", m::atan2_f32(-1.0, INF), -0.0),
        ("atan2(1, -inf)", m::atan2_f32(1.0, -INF), std::f32::consts::PI),
        ("atan2(nan, 1)", m::atan2_f32(NAN, 1.0), NAN),
        ("sinh(-0)", m::sinh_f32(-0.0), -0.0),
        ("sinh(-inf)", m::sinh_f32(-INF), -INF),
        ("cosh(-inf)", m::cosh_f32(-INF), INF),
        ("tanh(-0)", m::tanh_f32(-0.0), -0.0),
        ("tanh(-inf)", m::tanh_f32(-INF), -1.0),
        ("erf(-0)", m::erf_f32(-0.0), -0.0),
        ("erf(inf)", m::erf_f32(INF), 1.0),
        ("erfc(-inf)", m::erfc_f32(-INF), 2.0),
        ("erfc(inf)", m::erfc_f32(INF), 0.0),
        ("erfc(0)", m::erfc_f32(0.0), 1.0),
        ("cbrt(-0)", m::cbrt_f32(-0.0), -0.0),
        ("cbrt(-27)", m::cbrt_f32(-27.0), -3.0),
        ("cbrt(-inf)", m::cbrt_f32(-INF), -INF),
        ("rsqrt(0)", m::rsqrt_f32(0.0), INF),
        ("rsqrt(-0)", m::rsqrt_f32(-0.0), -INF),
        ("rsqrt(-1)", m::rsqrt_f32(-1.0), NAN),
        ("rsqrt(4)", m::rsqrt_f32(4.0), 0.5),
        ("hypot(3, -4)", m::hypot_f32(3.0, -4.0), 5.0),
        ("hypot(nan, -inf)", m::hypot_f32(NAN, -INF), INF),
        ("hypot(nan, 0)", m::hypot_f32(NAN, 0.0), NAN),
        ("hypot(tiny, 0)", m::hypot_f32(-tiny, -0.0), tiny),
        ("hypot(max, 1)", m::hypot_f32(-f32::MAX, 1.0), f32::MAX),
        ("pow(nan, 0)", m::pow_f32(NAN, -0.0), 1.0),
        ("pow(1, nan)", m::pow_f32(1.0, NAN), 1.0),
        ("pow(nan, 1)", m::pow_f32(NAN, 1.0), NAN),
        ("pow(2, nan)", m::pow_f32(2.0, NAN), NAN),
        ("pow(-2, 3)", m::pow_f32(-2.0, 3.0), -8.0),
        ("pow(-2, 2)", m::pow_f32(-2.0, 2.0), 4.0),
        ("pow(-2, 0.5)", m::pow_f32(-2.0, 0.5), NAN),
        ("pow(-1, inf)", m::pow_f32(-1.0, INF), 1.0),
        ("pow(-1, 2^24)", m::pow_f32(-1.0, 16777216.0), 1.0),
        ("pow(0, -3)", m::pow_f32(0.0, -3.0), INF),
        ("pow(-0, -3)", m::pow_f32(-0.0, -3.0), -INF),
        ("pow(-0, -2)", m::pow_f32(-0.0, -2.0), INF),
        ("pow(-0, 3)", m::pow_f32(-0.0, 3.0), -0.0),
        ("pow(-0, 0.5)", m::pow_f32(-0.0, 0.5), 0.0),
        ("pow(0.5, inf)", m::pow_f32(0.5, INF), 0.0),
        ("pow(0.5, -inf)", m::pow_f32(0.5, -INF), INF),
        ("pow(-2, -inf)", m::pow_f32(-2.0, -INF), 0.0),
        ("pow(-inf, 3)", m::pow_f32(-INF, 3.0), -INF),
        ("pow(-inf, -3)", m::pow_f32(-INF, -3.0), -0.0),
        ("pow(-inf, 0.5)", m::pow_f32(-INF, 0.5), INF),
        ("pow(inf, -1)", m::pow_f32(INF, -1.0), 0.0),
        ("fmod(-6, 3)", m::fmod_f32(-6.0, 3.0), -0.0),
        ("fmod(5.5, -2)", m::fmod_f32(5.5, -2.0), 1.5),
        ("fmod(1, 0)", m::fmod_f32(1.0, 0.0), NAN),
        ("fmod(inf, 1)", m::fmod_f32(INF, 1.0), NAN),
        ("fmod(1, inf)", m::fmod_f32(-1.0, INF), -1.0),
        ("round(-2.5)", m::round_f32(-2.5), -3.0),
        ("round(-0.4)", m::round_f32(-0.4), -0.0),
        ("round(0.49999997)", m::round_f32(0.49999997), 0.0),
    ];
    for &(what, got, want) in table {
        assert!(same(got, want), "{what} = {got:e}, not {want:e}");
    }
    for &(name, f, _) in ONE {
        assert!(f(NAN).is_nan() && f(-NAN).is_nan(), "{name}(NaN)");
    }
}

/// The largest error over 2^31 bit patterns, where it exceeds half an ulp. Generic, so that the compiler can vectorise.
fn worst_of_half(f: impl Fn(f32) -> f32, reference: impl Fn(f64) -> f64, sign: u32) -> (f64, f32) {
    const N: usize = 1024;
    let mut top = (0.0, 0.0);
    let (mut got, mut want) = ([0.0f32; N], [0.0f64; N]);
    for block in 0..(1 << 31) / N as u32 {
        let x = |k: usize| f32::from_bits(sign | (block * N as u32 + k as u32));
        for k in 0..N {
            got[k] = f(x(k));
        }
        for k in 0..N {
            want[k] = reference(x(k) as f64);
        }
        for k in 0..N {
            if got[k].to_bits() != (want[k] as f32).to_bits() {
                let e = ulps(got[k], want[k]);
                if e > top.0 {
                    top = (e, x(k));
                }
            }
        }
    }
    top
}

/// Against the functions in double precision, which `f64.rs` checks. EXHAUSTIVE=exp,log picks functions.
#[test]
#[ignore = "long: all 2^32 values"]
fn exhaustive() {
    use gpukc_math::f64 as d;
    let only = std::env::var("EXHAUSTIVE").unwrap_or_default();
    let mut bad = Vec::new();
    macro_rules! each {
        ($($name:literal $single:ident $double:ident)*) => {$(
            if only.is_empty() || only.split(',').any(|n| n == $name) {
                let half = |sign| worst_of_half(|x| m::$single(x), |x| d::$double(x), sign);
                let other = std::thread::spawn(move || half(1 << 31));
                let (a, b) = (half(0), other.join().expect("no panic"));
                let (e, x) = if a.0 > b.0 { a } else { b };
                println!("{:>6}_f32 {e:.4} ulp at {x:e} ({:#x})", $name, x.to_bits());
                if e > 2.0 {
                    bad.push(($name, e, x));
                }
            }
        )*};
    }
    each! {
        "exp" exp_f32 exp_f64
        "log" log_f32 log_f64
        "sin" sin_f32 sin_f64
        "erf" erf_f32 erf_f64
        "tanh" tanh_f32 tanh_f64
        "cos" cos_f32 cos_f64
        "tan" tan_f32 tan_f64
        "exp2" exp2_f32 exp2_f64
        "expm1" expm1_f32 expm1_f64
        "log2" log2_f32 log2_f64
        "log10" log10_f32 log10_f64
        "log1p" log1p_f32 log1p_f64
        "erfc" erfc_f32 erfc_f64
        "asin" asin_f32 asin_f64
        "acos" acos_f32 acos_f64
        "atan" atan_f32 atan_f64
        "sinh" sinh_f32 sinh_f64
        "cosh" cosh_f32 cosh_f64
        "cbrt" cbrt_f32 cbrt_f64
        "rsqrt" rsqrt_f32 rsqrt_f64
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

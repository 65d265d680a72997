//! Double precision against true values from arbitrary-precision arithmetic (`derive/reference.py`).
#![allow(clippy::type_complexity)]

use gpukc_math::f64 as m;
use std::collections::BTreeMap;

const REFERENCE: &str = include_str!("reference/f64.txt");

fn one(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "exp" => |x| m::exp_f64(x),
        "exp2" => |x| m::exp2_f64(x),
        "expm1" => |x| m::expm1_f64(x),
        "log" => |x| m::log_f64(x),
        "log2" => |x| m::log2_f64(x),
        "log10" => |x| m::log10_f64(x),
        "log1p" => |x| m::log1p_f64(x),
        "sin" => |x| m::sin_f64(x),
        "cos" => |x| m::cos_f64(x),
        "tan" => |x| m::tan_f64(x),
        "asin" => |x| m::asin_f64(x),
        "acos" => |x| m::acos_f64(x),
        "atan" => |x| m::atan_f64(x),
        "sinh" => |x| m::sinh_f64(x),
        "cosh" => |x| m::cosh_f64(x),
        "tanh" => |x| m::tanh_f64(x),
        "erf" => |x| m::erf_f64(x),
        "erfc" => |x| m::erfc_f64(x),
        "cbrt" => |x| m::cbrt_f64(x),
        "rsqrt" => |x| m::rsqrt_f64(x),
        _ => return None,
    })
}

fn two(name: &str) -> Option<fn(f64, f64) -> f64> {
    Some(match name {
        "pow" => |x, y| m::pow_f64(x, y),
        "atan2" => |x, y| m::atan2_f64(x, y),
        "hypot" => |x, y| m::hypot_f64(x, y),
        _ => return None,
    })
}

/// The error of `got` in ulps, where the true value is `want` and `rest` of its ulps; infinite for a wrong special value.
fn ulps(got: f64, want: f64, rest: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    // between numbers of one sign, the bits count ulps; where they cross a power of two, by the smaller
    let steps = got.to_bits().wrapping_sub(want.to_bits()) as i64 as f64;
    (steps - rest * want.signum()).abs()
}

fn check(text: &str) {
    let mut tops: BTreeMap<String, (f64, String)> = BTreeMap::new();
    let mut name = "";
    let mut lines = 0;
    for line in text.lines() {
        if let Some(n) = line.strip_prefix("= ") {
            name = n;
            continue;
        }
        lines += 1;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |w: &str| f64::from_bits(u64::from_str_radix(w, 16).expect("hexadecimal"));
        let rest: f64 = words[words.len() - 1].parse().expect("decimal");
        let want = number(words[words.len() - 2]);
        let (got, at) = match words.len() {
            3 => {
                let x = number(words[0]);
                (one(name).expect("known")(x), format!("{x:e}"))
            }
            _ => {
                let (x, y) = (number(words[0]), number(words[1]));
                (two(name).expect("known")(x, y), format!("{x:e}, {y:e}"))
            }
        };
        let e = ulps(got, want, rest);
        let top = tops.entry(name.to_string()).or_insert((0.0, String::new()));
        if e > top.0 {
            *top = (e, format!("{at}: {got:e}, not {want:e}"));
        }
    }
    for (name, (e, at)) in &tops {
        println!("{name:>6}_f64 {e:.3} ulp at {at}");
    }
    assert_eq!(tops.len(), 23);
    assert!(lines > 4000);
    let bad: Vec<_> = tops.iter().filter(|t| t.1.0 > 2.0).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn against_true_values() {
    check(REFERENCE);
}

#[test]
#[ignore = "needs a larger table: python3 derive/reference.py 20000 FILE, then REFERENCE=FILE"]
fn against_more_true_values() {
    let path = std::env::var("REFERENCE").expect("REFERENCE names a file");
    check(&std::fs::read_to_string(path).expect("readable"));
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// A fixed sequence of bit patterns.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    let x = *state ^ (*state >> 29);
    x.wrapping_mul(0xbf58476d1ce4e5b9) ^ (x >> 32)
}

#[test]
fn exact_functions() {
    let mut s = 3;
    let special = [
        0.0,
        5e-324,
        1e-310,
        f64::MIN_POSITIVE,
        0.49999999999999994,
        0.5,
        1.0,
        1.5,
        2.5,
        3.0,
        4503599627370495.5,
        4503599627370497.0,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    for x in special {
        for y in special {
            for (x, y) in [(x, y), (-x, y), (x, -y), (-x, -y)] {
                assert!(same(m::fmod_f64(x, y), x % y), "{x:e} % {y:e}: {:e}, not {:e}", m::fmod_f64(x, y), x % y);
            }
        }
        assert!(same(m::round_f64(x), x.round()) && same(m::round_f64(-x), (-x).round()), "round({x:e})");
    }
    for _ in 0..50_000 {
        let (x, y) = (f64::from_bits(random(&mut s)), f64::from_bits(random(&mut s)));
        assert!(same(m::fmod_f64(x, y), x % y), "{x:e} % {y:e}: {:e}, not {:e}", m::fmod_f64(x, y), x % y);
        let y = x * 2f64.powi(-((random(&mut s) % 80) as i32)) * 1.1;
        assert!(same(m::fmod_f64(x, y), x % y), "{x:e} % {y:e}: {:e}, not {:e}", m::fmod_f64(x, y), x % y);
        let x = (random(&mut s) as i64 >> (random(&mut s) % 60)) as f64 / 4.0;
        assert!(same(m::round_f64(x), x.round()), "round({x:e})");
        let x = f64::from_bits(random(&mut s));
        assert!(same(m::round_f64(x), x.round()), "round({x:e})");
    }
}

#[test]
fn special_values() {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    let tiny = 5e-324;
    let table: &[(&str, f64, f64)] = &[
        ("exp(-inf)", m::exp_f64(-INF), 0.0),
        ("exp(inf)", m::exp_f64(INF), INF),
        ("exp(0)", m::exp_f64(0.0), 1.0),
        ("exp(710)", m::exp_f64(710.0), INF),
        ("exp(-745)", m::exp_f64(-745.0), tiny),
        ("exp2(-1074)", m::exp2_f64(-1074.0), tiny),
        ("exp2(1023)", m::exp2_f64(1023.0), 2f64.powi(1023)),
        ("exp2(1024)", m::exp2_f64(1024.0), INF),
        ("expm1(-0)", m::expm1_f64(-0.0), -0.0),
        ("expm1(-inf)", m::expm1_f64(-INF), -1.0),
        ("expm1(tiny)", m::expm1_f64(tiny), tiny),
        ("log(0)", m::log_f64(0.0), -INF),
        ("log(-0)", m::log_f64(-0.0), -INF),
        ("log(-1)", m::log_f64(-1.0), NAN),
        ("log(1)", m::log_f64(1.0), 0.0),
        ("log(inf)", m::log_f64(INF), INF),
        ("log2(tiny)", m::log2_f64(tiny), -1074.0),
        ("log2(2^100)", m::log2_f64(2f64.powi(100)), 100.0),
        ("log10(1000)", m::log10_f64(1000.0), 3.0),
        ("log10(-inf)", m::log10_f64(-INF), NAN),
        ("log1p(-0)", m::log1p_f64(-0.0), -0.0),
        ("log1p(-1)", m::log1p_f64(-1.0), -INF),
        ("log1p(-2)", m::log1p_f64(-2.0), NAN),
        ("sin(-0)", m::sin_f64(-0.0), -0.0),
        ("sin(inf)", m::sin_f64(INF), NAN),
        ("cos(-0)", m::cos_f64(-0.0), 1.0),
        ("cos(-inf)", m::cos_f64(-INF), NAN),
        ("tan(-0)", m::tan_f64(-0.0), -0.0),
        ("tan(inf)", m::tan_f64(INF), NAN),
        ("asin(-0)", m::asin_f64(-0.0), -0.0),
        ("asin(1)", m::asin_f64(1.0), FRAC_PI_2),
        ("asin(1.0000000000000002)", m::asin_f64(1.0000000000000002), NAN),
        ("acos(1)", m::acos_f64(1.0), 0.0),
        ("acos(-1)", m::acos_f64(-1.0), PI),
        ("acos(-2)", m::acos_f64(-2.0), NAN),
        ("atan(-inf)", m::atan_f64(-INF), -FRAC_PI_2),
        ("atan2(0, -0)", m::atan2_f64(0.0, -0.0), PI),
        ("atan2(-0, -0)", m::atan2_f64(-0.0, -0.0), -PI),
        ("atan2(-0, 0)", m::atan2_f64(-0.0, 0.0), -0.0),
        ("atan2(-0, 1)", m::atan2_f64(-0.0, 1.0), -0.0),
        ("atan2(0, -1)", m::atan2_f64(0.0, -1.0), PI),
        ("atan2(1, 0)", m::atan2_f64(1.0, -0.0), FRAC_PI_2),
        ("atan2(inf, inf)", m::atan2_f64(INF, INF), FRAC_PI_4),
        ("atan2(-inf, -inf)", m::atan2_f64(-INF, -INF), -3.0 * FRAC_PI_4),
        ("atan2(-1, inf)", m::atan2_f64(-1.0, INF), -0.0),
        ("atan2(1, -inf)", m::atan2_f64(1.0, -INF), PI),
        ("atan2(nan, 1)", m::atan2_f64(NAN, 1.0), NAN),
        ("sinh(-0)", m::sinh_f64(-0.0), -0.0),
        ("sinh(-inf)", m::sinh_f64(-INF), -INF),
        ("cosh(-inf)", m::cosh_f64(-INF), INF),
        ("tanh(-0)", m::tanh_f64(-0.0), -0.0),
        ("tanh(-inf)", m::tanh_f64(-INF), -1.0),
        ("erf(-0)", m::erf_f64(-0.0), -0.0),
        ("erf(inf)", m::erf_f64(INF), 1.0),
        ("erfc(-inf)", m::erfc_f64(-INF), 2.0),
        ("erfc(inf)", m::erfc_f64(INF), 0.0),
        ("erfc(0)", m::erfc_f64(0.0), 1.0),
        ("cbrt(-0)", m::cbrt_f64(-0.0), -0.0),
        ("cbrt(-27)", m::cbrt_f64(-27.0), -3.0),
        ("cbrt(-inf)", m::cbrt_f64(-INF), -INF),
        ("rsqrt(0)", m::rsqrt_f64(0.0), INF),
        ("rsqrt(-0)", m::rsqrt_f64(-0.0), -INF),
        ("rsqrt(-1)", m::rsqrt_f64(-1.0), NAN),
        ("rsqrt(4)", m::rsqrt_f64(4.0), 0.5),
        ("hypot(3, -4)", m::hypot_f64(3.0, -4.0), 5.0),
        ("hypot(nan, -inf)", m::hypot_f64(NAN, -INF), INF),
        ("hypot(nan, 0)", m::hypot_f64(NAN, 0.0), NAN),
        ("hypot(tiny, 0)", m::hypot_f64(-tiny, -0.0), tiny),
        ("hypot(max, 1)", m::hypot_f64(-f64::MAX, 1.0), f64::MAX),
        ("pow(nan, 0)", m::pow_f64(NAN, -0.0), 1.0),
        ("pow(1, nan)", m::pow_f64(1.0, NAN), 1.0),
        ("pow(nan, 1)", m::pow_f64(NAN, 1.0), NAN),
        ("pow(2, nan)", m::pow_f64(2.0, NAN), NAN),
        ("pow(-2, 3)", m::pow_f64(-2.0, 3.0), -8.0),
        ("pow(-2, 2)", m::pow_f64(-2.0, 2.0), 4.0),
        ("pow(-2, 0.5)", m::pow_f64(-2.0, 0.5), NAN),
        ("pow(-1, inf)", m::pow_f64(-1.0, INF), 1.0),
        ("pow(-1, 2^53)", m::pow_f64(-1.0, 9007199254740992.0), 1.0),
        ("pow(0, -3)", m::pow_f64(0.0, -3.0), INF),
        ("pow(-0, -3)", m::pow_f64(-0.0, -3.0), -INF),
        ("pow(-0, -2)", m::pow_f64(-0.0, -2.0), INF),
        ("pow(-0, 3)", m::pow_f64(-0.0, 3.0), -0.0),
        ("pow(-0, 0.5)", m::pow_f64(-0.0, 0.5), 0.0),
        ("pow(0.5, inf)", m::pow_f64(0.5, INF), 0.0),
        ("pow(0.5, -inf)", m::pow_f64(0.5, -INF), INF),
        ("pow(-2, -inf)", m::pow_f64(-2.0, -INF), 0.0),
        ("pow(-inf, 3)", m::pow_f64(-INF, 3.0), -INF),
        ("pow(-inf, -3)", m::pow_f64(-INF, -3.0), -0.0),
        ("pow(-inf, 0.5)", m::pow_f64(-INF, 0.5), INF),
        ("pow(inf, -1)", m::pow_f64(INF, -1.0), 0.0),
        ("fmod(-6, 3)", m::fmod_f64(-6.0, 3.0), -0.0),
        ("fmod(5.5, -2)", m::fmod_f64(5.5, -2.0), 1.5),
        ("fmod(1, 0)", m::fmod_f64(1.0, 0.0), NAN),
        ("fmod(inf, 1)", m::fmod_f64(INF, 1.0), NAN),
        ("fmod(1, inf)", m::fmod_f64(-1.0, INF), -1.0),
        ("round(-2.5)", m::round_f64(-2.5), -3.0),
        ("round(-0.4)", m::round_f64(-0.4), -0.0),
        ("round(0.49999999999999994)", m::round_f64(0.49999999999999994), 0.0),
    ];
    for &(what, got, want) in table {
        assert!(same(got, want), "{what} = {got:e}, not {want:e}");
    }
    for name in [
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
        "erf", "erfc", "cbrt", "rsqrt",
    ] {
        let f = one(name).expect("known");
        assert!(f(NAN).is_nan() && f(-NAN).is_nan(), "{name}(NaN)");
    }
}

/// Many more arguments than the table holds, against a reference that is itself only good to an ulp or two.
#[test]
fn near_the_standard_library() {
    let reference: &[(&str, fn(f64) -> f64)] = &[
        ("exp", f64::exp),
        ("exp2", f64::exp2),
        ("expm1", f64::exp_m1),
        ("log", f64::ln),
        ("log2", f64::log2),
        ("log10", f64::log10),
        ("log1p", f64::ln_1p),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tan", f64::tan),
        ("asin", f64::asin),
        ("acos", f64::acos),
        ("atan", f64::atan),
        ("sinh", f64::sinh),
        ("cosh", f64::cosh),
        ("tanh", f64::tanh),
        ("cbrt", f64::cbrt),
    ];
    let mut bad = Vec::new();
    let mut s = 11;
    let mut args = Vec::new();
    for _ in 0..30_000 {
        let (a, b) = (random(&mut s), random(&mut s) as i64 as f64 / 9223372036854775808.0);
        args.extend([f64::from_bits(a), b, 2.0 * b, 800.0 * b, 30.0 * b, 1e9 * b, (a as i64 as f64) / 1e12]);
    }
    for &(name, want) in reference {
        let got = one(name).expect("known");
        let far = args.iter().map(|&x| (ulps(got(x), want(x), 0.0), x)).fold((0.0, 0.0), |t, e| if e.0 > t.0 { e } else { t });
        println!("{name:>6}_f64 {} ulp from std at {:e}", far.0, far.1);
        if far.0 > 4.0 {
            bad.push(format!("{name} {far:?}: {:e}, not {:e}", got(far.1), want(far.1)));
        }
    }
    let reference: &[(&str, fn(f64, f64) -> f64)] = &[("pow", f64::powf), ("atan2", f64::atan2), ("hypot", f64::hypot)];
    for &(name, want) in reference {
        let got = two(name).expect("known");
        for (i, &x) in args.iter().enumerate() {
            let y = args[(i + i % 5 + 1) % args.len()];
            let e = ulps(got(x, y), want(x, y), 0.0);
            if e > 4.0 {
                bad.push(format!("{name} {x:e} {y:e}: {:e}, not {:e}", got(x, y), want(x, y)));
            }
        }
    }
    for name in ["erf", "erfc", "rsqrt"] {
        let got = one(name).expect("known");
        assert!(args.iter().all(|&x| got(x).is_nan() == (x.is_nan() || (name == "rsqrt" && x < 0.0))), "{name}");
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

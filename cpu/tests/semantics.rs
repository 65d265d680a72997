//! What operators, rules and statements mean, against plain code.
// Oracles are transcriptions: indices and literals as in what they transcribe.
#![allow(clippy::needless_range_loop, clippy::excessive_precision)]

mod common;
use common::*;

use gpukc_cpu::half::*;
use gpukc_cpu::{RunError, Tensor};
use gpukc_dsl::types::Type;

#[test]
fn integers() {
    let a: Vec<i32> = vec![0, 1, -1, i32::MIN, i32::MAX, 7, -7, 100, i32::MIN, 3];
    let b: Vec<i32> = vec![0, 0, 5, -1, -1, 3, 3, 32, 31, -2];
    let given = [a.clone().into(), b.clone().into()];
    let text = "kernel k(a: i32[n], b: i32[n]) -> (add: i32[n], mul: i32[n], div: i32[n], rem: i32[n], shl: i32[n], shr: i32[n],
        df: i32[n], mf: i32[n], neg: i32[n], ab: i32[n], sg: i32[n], ones: i32[n], zeros: i32[n], x: i32[n]) {
        add[i] = a[i] + b[i];  mul[i] = a[i] * b[i];  div[i] = a[i] / b[i];  rem[i] = a[i] % b[i];
        shl[i] = a[i] << b[i];  shr[i] = a[i] >> b[i];  df[i] = div_floor(a[i], b[i]);  mf[i] = mod_floor(a[i], b[i]);
        neg[i] = -a[i];  ab[i] = abs(a[i]);  sg[i] = sign(a[i]);  ones[i] = count_ones(a[i]);  zeros[i] = leading_zeros(a[i]);
        x[i] = (a[i] ^ b[i]) | (a[i] & !b[i]);
    }";
    let got = run(text, &given);
    let floor = |a: i32, b: i32| (f64::from(a) / f64::from(b)).floor();
    for k in 0..a.len() {
        let (a, b) = (a[k], b[k]);
        let at = |r: usize| got[r].values::<i32>()[k];
        assert_eq!(at(0), a.wrapping_add(b));
        assert_eq!(at(1), a.wrapping_mul(b));
        assert_eq!(at(2), if b == 0 { 0 } else { a.wrapping_div(b) });
        assert_eq!(at(3), if b == 0 { 0 } else { a.wrapping_rem(b) });
        assert_eq!(at(4), if (0..32).contains(&b) { a << b } else { 0 }, "{a} << {b}");
        assert_eq!(at(5), if (0..32).contains(&b) { a >> b } else { a >> 31 }, "{a} >> {b}");
        if b == 0 {
            assert_eq!((at(6), at(7)), (0, 0));
        } else {
            let q = floor(a, b) as i64 as i32;
            assert_eq!(at(6), q, "{a} / {b}");
            assert_eq!(at(7), a.wrapping_sub(q.wrapping_mul(b)), "{a} mod {b}");
        }
        assert_eq!(at(8), a.wrapping_neg());
        assert_eq!(at(9), a.wrapping_abs());
        assert_eq!(at(10), a.signum());
        assert_eq!(at(11), a.count_ones() as i32);
        assert_eq!(at(12), a.leading_zeros() as i32);
        assert_eq!(at(13), (a ^ b) | (a & !b));
    }
    let u: Vec<u32> = vec![5, u32::MAX, 1 << 31, 9];
    let s: Vec<u32> = vec![40, 1, 31, 32];
    let given = [array(Type::U32, &[4], u.clone()), array(Type::U32, &[4], s.clone())];
    let got = run("kernel k(a: u32[n], b: u32[n]) -> (l: u32[n], r: u32[n]) { l[i] = a[i] << b[i]; r[i] = a[i] >> b[i]; }", &given);
    for k in 0..4 {
        assert_eq!(got[0].values::<u32>()[k], u[k].checked_shl(s[k]).unwrap_or(0));
        assert_eq!(got[1].values::<u32>()[k], u[k].checked_shr(s[k]).unwrap_or(0));
    }
}

#[test]
fn casts() {
    let x: Vec<f32> = vec![
        0.0,
        -0.0,
        1.5,
        -1.5,
        300.7,
        -300.7,
        3e9,
        -3e9,
        1e20,
        -1e20,
        f32::NAN,
        f32::INFINITY,
        65519.9,
        65520.0,
        1e-8,
        2.9802322e-8,
        2.98023224e-8 * 1.01,
    ];
    let n = x.len();
    let text = "kernel k(x: f32[n]) -> (a: i8[n], b: u8[n], c: i32[n], d: u64[n], e: f16[n], f: bf16[n], g: f64[n], h: i64[n]) {
        a[i] = x[i] as i8; b[i] = x[i] as u8; c[i] = x[i] as i32; d[i] = x[i] as u64;
        e[i] = x[i] as f16; f[i] = x[i] as bf16; g[i] = x[i] as f64; h[i] = x[i] as i64;
    }";
    let got = run(text, &[x.clone().into()]);
    for k in 0..n {
        let x = x[k];
        assert_eq!(got[0].values::<i8>()[k], x as i8);
        assert_eq!(got[1].values::<u8>()[k], x as u8);
        assert_eq!(got[2].values::<i32>()[k], x as i32);
        assert_eq!(got[3].values::<u64>()[k], x as u64);
        if !x.is_nan() {
            assert_eq!(got[4].values::<u16>()[k], half::f16::from_f32(x).to_bits(), "{x}");
            assert_eq!(got[5].values::<u16>()[k], half::bf16::from_f32(x).to_bits(), "{x}");
            assert_eq!(got[6].values::<f64>()[k], f64::from(x));
        }
        assert_eq!(got[7].values::<i64>()[k], x as i64);
    }
}

#[test]
fn half_conversions() {
    for bits in 0..=u16::MAX {
        let (f, b) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
        if !f.is_nan() {
            assert_eq!(f16_to_f32(bits).to_bits(), f.to_f32().to_bits(), "{bits:x}");
            assert_eq!(f32_to_f16(f.to_f32()), bits);
        } else {
            assert!(f16_to_f32(bits).is_nan());
        }
        if !b.is_nan() {
            assert_eq!(bf16_to_f32(bits).to_bits(), b.to_f32().to_bits());
            assert_eq!(f32_to_bf16(b.to_f32()), bits);
        }
    }
    assert!(f16_to_f32(f32_to_f16(f32::NAN)).is_nan() && bf16_to_f32(f32_to_bf16(f32::NAN)).is_nan());
    // Every f32 pattern at a stride, and neighbours of ties.
    let mut bits = 0u32;
    loop {
        let x = f32::from_bits(bits);
        if !x.is_nan() {
            assert_eq!(f32_to_f16(x), half::f16::from_f32(x).to_bits(), "{x:e}");
            assert_eq!(f32_to_bf16(x), half::bf16::from_f32(x).to_bits(), "{x:e}");
        }
        bits = match bits.checked_add(0x3fb) {
            Some(bits) => bits,
            None => break,
        };
    }
    // From f64: one rounding, decided by exact comparison with the midpoint.
    for bits in 0..0x7bffu16 {
        let (lo, hi) = (half::f16::from_bits(bits).to_f64(), half::f16::from_bits(bits + 1).to_f64());
        let middle = (lo + hi) / 2.0;
        let even = if bits & 1 == 0 { bits } else { bits + 1 };
        assert_eq!(f64_to_f16(middle), even);
        assert_eq!(f64_to_f16(f64::from_bits(middle.to_bits() + 1)), bits + 1);
        assert_eq!(f64_to_f16(f64::from_bits(middle.to_bits() - 1)), bits);
    }
    for bits in (0..0x7f7fu16).step_by(3) {
        let (lo, hi) = (half::bf16::from_bits(bits).to_f64(), half::bf16::from_bits(bits + 1).to_f64());
        let middle = (lo + hi) / 2.0;
        let even = if bits & 1 == 0 { bits } else { bits + 1 };
        assert_eq!(f64_to_bf16(middle), even, "{bits:x}");
        assert_eq!(f64_to_bf16(f64::from_bits(middle.to_bits() + 1)), bits + 1);
        assert_eq!(f64_to_bf16(-f64::from_bits(middle.to_bits() - 1)), bits | 0x8000);
    }
    // From integers: a tie that f64 would create.
    let tie = (1i64 << 62) + (1i64 << 54);
    assert_eq!(f64_to_bf16(odd_from_i64(tie)), half::bf16::from_f64(4.611686018427388e18).to_bits());
    assert_eq!(f64_to_bf16(odd_from_i64(tie + 1)), half::bf16::from_f64(4.611686018427388e18).to_bits() + 1);
    assert_eq!(f64_to_bf16(odd_from_i64(-tie - 1)), (half::bf16::from_f64(4.611686018427388e18).to_bits() + 1) | 0x8000);
}

#[test]
fn min_and_max() {
    let text = "kernel k(a: f32[n], b: f32[n]) -> (lo: f32[n], hi: f32[n], c: f32[n]) {
        lo[i] = min(a[i], b[i]); hi[i] = max(a[i], b[i]); c[i] = clamp(a[i], -1.0, 1.0); }";
    let values = [0.0f32, -0.0, 1.0, -3.0, f32::NAN, f32::INFINITY];
    let (mut a, mut b) = (vec![], vec![]);
    for x in values {
        for y in values {
            a.push(x);
            b.push(y);
        }
    }
    let got = run(text, &[a.clone().into(), b.clone().into()]);
    for k in 0..a.len() {
        let (x, y) = (a[k], b[k]);
        let (lo, hi) = (got[0].values::<f32>()[k], got[1].values::<f32>()[k]);
        if x.is_nan() || y.is_nan() {
            assert!(lo.is_nan() && hi.is_nan());
        } else {
            let less = x.total_cmp(&y).is_lt();
            assert_eq!(lo.to_bits(), if less { x } else { y }.to_bits());
            assert_eq!(hi.to_bits(), if less { y } else { x }.to_bits());
        }
    }
    let got = run(
        "kernel k(a: f32[n]) -> (lo: f32, hi: f32, s: i64, g: i64) { lo = min[i] a[i]; hi = max[i] a[i]; s = argmin[i] a[i]; g = argmax[i] a[i]; }",
        &[vec![1.0f32, 0.0, -0.0, 0.0].into()],
    );
    assert_eq!(got[0].values::<f32>()[0].to_bits(), (-0.0f32).to_bits());
    assert_eq!(got[1].values::<f32>()[0], 1.0);
    assert_eq!((got[2].values::<i64>()[0], got[3].values::<i64>()[0]), (1, 0));
}

#[test]
fn args_and_empties() {
    let text = "kernel k(a: f32[m, n]) -> (lo: f32[m], hi: f32[m], s: i64[m], g: i64[m], t: f32[m], p: f32[m], an: bool[m], al: bool[m], c: i64[m], mu: f32[m]) {
        lo[i] = min[j] a[i, j]; hi[i] = max[j] a[i, j]; s[i] = argmin[j] a[i, j]; g[i] = argmax[j] a[i, j];
        t[i] = sum[j] a[i, j]; p[i] = prod[j] a[i, j]; an[i] = any[j] (a[i, j] > 0.0); al[i] = all[j] (a[i, j] > 0.0);
        c[i] = count[j in 0..n] (a[i, j] > 0.0); mu[i] = mean[j] a[i, j]; }";
    let got = run(text, &[array(Type::F32, &[2, 0], Vec::<f32>::new())]);
    assert_eq!(got[0].values::<f32>(), [f32::INFINITY; 2]);
    assert_eq!(got[1].values::<f32>(), [f32::NEG_INFINITY; 2]);
    assert_eq!(got[2].values::<i64>(), [-1; 2]);
    assert_eq!(got[3].values::<i64>(), [-1; 2]);
    assert_eq!(got[4].values::<f32>(), [0.0; 2]);
    assert_eq!(got[5].values::<f32>(), [1.0; 2]);
    assert_eq!(got[6].values::<u8>(), [0; 2]);
    assert_eq!(got[7].values::<u8>(), [1; 2]);
    assert_eq!(got[8].values::<i64>(), [0; 2]);
    assert!(got[9].values::<f32>()[0].is_nan());
    let nan = f32::NAN;
    let got = run(text, &[array(Type::F32, &[2, 5], vec![3.0, nan, 1.0, nan, 9.0, 2.0, 1.0, 1.0, 4.0, 4.0])]);
    assert_eq!(got[2].values::<i64>(), [1, 1]);
    assert_eq!(got[3].values::<i64>(), [1, 3]);
    assert!(got[0].values::<f32>()[0].is_nan() && got[0].values::<f32>()[1] == 1.0);
}

#[test]
fn boundary_rules() {
    for n in [1i64, 2, 3, 7, 100] {
        let x: Vec<f32> = noise(n as usize, 1);
        let idx: Vec<i64> = (-250..250).map(|k| k * 3).collect();
        let text = "kernel k(x: f32[n], idx: i64[m]) -> (c: f32[m], w: f32[m], r: f32[m], s: f32[m], z: f32[m]) {
            c[i] = x[idx[i] | clamp]; w[i] = x[idx[i] | wrap]; r[i] = x[idx[i] | mirror]; s[i] = x[idx[i] | symmetric];
            z[i] = x[idx[i] | 7.5]; }";
        let got = run(text, &[x.clone().into(), idx.clone().into()]);
        let check = |got: &Tensor, at: &dyn Fn(i64) -> Option<i64>| {
            for (k, &i) in idx.iter().enumerate() {
                let want = at(i).map_or(7.5, |at| x[at as usize]);
                assert_eq!(got.values::<f32>()[k], want, "{n} {i}");
            }
        };
        // By walking: mirror turns on an element, symmetric between two.
        let walk = |i: i64, twice: bool| {
            let (mut at, mut step) = (0i64, 1i64);
            let (count, back) = if i >= 0 { (i, false) } else { (-i, true) };
            if n == 1 {
                return Some(0);
            }
            if back {
                // To the left of 0 it reads like to the right of it, or one late.
                return Some({
                    let count = if twice { count - 1 } else { count };
                    let mut at = 0i64;
                    let mut step = 1i64;
                    for _ in 0..count {
                        if at + step < 0 || at + step >= n {
                            step = -step;
                            if twice {
                                continue;
                            }
                        }
                        at += step;
                    }
                    at
                });
            }
            for _ in 0..count {
                if at + step < 0 || at + step >= n {
                    step = -step;
                    if twice {
                        continue;
                    }
                }
                at += step;
            }
            Some(at)
        };
        check(&got[0], &|i| Some(i.clamp(0, n - 1)));
        check(&got[1], &|i| Some(i.rem_euclid(n)));
        check(&got[2], &|i| walk(i, false));
        check(&got[3], &|i| walk(i, true));
        check(&got[4], &|i| (0..n).contains(&i).then_some(i));
    }
    // The same along affine subscripts, in two dimensions.
    let (h, w) = (6i64, 9i64);
    let x = noise((h * w) as usize, 2);
    for (rule, map) in [
        ("clamp", (|i: i64, n: i64| Some(i.clamp(0, n - 1))) as fn(i64, i64) -> Option<i64>),
        ("wrap", |i, n| Some(i.rem_euclid(n))),
        ("mirror", |i, n| {
            let at = i.rem_euclid(2 * (n - 1));
            Some(if at < n { at } else { 2 * (n - 1) - at })
        }),
        ("symmetric", |i, n| {
            let at = i.rem_euclid(2 * n);
            Some(if at < n { at } else { 2 * n - 1 - at })
        }),
        ("0.5", |i, n| (0..n).contains(&i).then_some(i)),
    ] {
        for (a, b) in ["i + 3", "i - 2", "4 - i", "2 * i - 5"].iter().zip(["j - 3", "2 * j", "7 - j", "j + 20"]) {
            let text = format!("kernel k(x: f32[h, w]) -> y: f32[h, w] {{ y[i, j] = x[{a} | {rule}, {b} | {rule}]; }}");
            let got = run(&text, &[array(Type::F32, &[h, w], x.clone())]);
            for i in 0..h {
                for j in 0..w {
                    let a = match *a {
                        "i + 3" => i + 3,
                        "i - 2" => i - 2,
                        "4 - i" => 4 - i,
                        _ => 2 * i - 5,
                    };
                    let b = match b {
                        "j - 3" => j - 3,
                        "2 * j" => 2 * j,
                        "7 - j" => 7 - j,
                        _ => j + 20,
                    };
                    let want = match (map(a, h), map(b, w)) {
                        (Some(a), Some(b)) => x[(a * w + b) as usize],
                        _ => 0.5,
                    };
                    assert_eq!(got[0].values::<f32>()[(i * w + j) as usize], want, "{text} {i} {j}");
                }
            }
        }
    }
}

#[test]
fn out_of_range() {
    let text = "kernel gather(x: f32[n], idx: i32[m]) -> y: f32[m] { y[i] = x[idx[i]]; }";
    let mut idx: Vec<i32> = (0..100).collect();
    let x = noise(100, 3);
    let got = run(text, &[x.clone().into(), idx.clone().into()]);
    assert_eq!(got[0].values::<f32>(), x);
    idx[70] = -1;
    idx[80] = 100;
    match try_run(text, &[x.clone().into(), idx.clone().into()]) {
        Err(RunError::OutOfRange { kernel, array, index, axis, extent, span }) => {
            assert_eq!((kernel.as_str(), array.as_str(), index, axis, extent), ("gather", "x", -1, 0, 100));
            assert_eq!(&text[span.start as usize..span.end as usize], "idx[i]");
        }
        other => panic!("{other:?}"),
    }
    // Guards keep it from being read.
    for text in [
        "kernel k(x: f32[n], idx: i32[m]) -> y: f32[m] { y[i] = if idx[i] >= 0 && idx[i] as i64 < n { x[idx[i]] } else { 0.0 }; }",
        "kernel k(x: f32[n], idx: i32[m]) -> y: f32[m] { y[i] = if i == 70 || i == 80 { 0.0 } else { x[idx[i]] }; }",
        "kernel k(x: f32[n], idx: i32[m]) -> y: f32[m] { y[i] = sum[j in i..i + 1 if j != 70 && j != 80] x[idx[j]]; }",
        "kernel k(x: f32[n], idx: i32[m]) -> y: f32[m] { y[i] = sum[j in 0..2 if i != 70 && i != 80] (if j > 0 { x[idx[i]] } else { 0.0 }); }",
    ] {
        let got = run(text, &[x.clone().into(), idx.clone().into()]);
        let want: Vec<f32> = (0..100).map(|i| if i == 70 || i == 80 { 0.0 } else { x[i] }).collect();
        assert_eq!(got[0].values::<f32>(), want, "{text}");
    }
    let text = "kernel k(x: f32[n]) -> y: f32[3] { y[i] = x[i | clamp]; }";
    assert!(matches!(try_run(text, &[Vec::<f32>::new().into()]), Err(RunError::OutOfRange { extent: 0, .. })));
}

#[test]
fn accumulations() {
    let key: Vec<i32> = (0..5000).map(|k| (k * k + 3 * k) % 64).collect();
    let x: Vec<i32> = noise(5000, 4).iter().map(|x| (x * 1000.0) as i32).collect();
    let given = [key.clone().into(), x.clone().into()];
    let text = "kernel k(key: i32[n], x: i32[n]) -> (a: i8[64], b: i32[64], c: i16[64], d: u8[64], e: i32[64], f: f32[64], g: f16[64], h: bool[64]) {
        a[key[i]] += x[i];
        b[key[i]] *= x[i];
        c[key[i]] min= x[i];
        d[key[i]] |= x[i];
        e[q] = 5;
        e[key[i]] += x[i];
        f[key[i]] += x[i] as f32 * 0.1;
        g[key[i]] max= x[i] as f32;
        h[key[i]] |= x[i] > 990;
    }";
    let got = run(text, &given);
    for bin in 0..64usize {
        let own: Vec<i32> = (0..5000).filter(|&i| key[i] == bin as i32).map(|i| x[i]).collect();
        assert_eq!(got[0].values::<i8>()[bin], own.iter().sum::<i32>() as i8);
        assert_eq!(got[1].values::<i32>()[bin], own.iter().fold(1i32, |a, &b| a.wrapping_mul(b)));
        assert_eq!(got[2].values::<i16>()[bin], own.iter().fold(i32::from(i16::MAX), |a, &b| a.min(b)) as i16);
        assert_eq!(got[3].values::<u8>()[bin], own.iter().fold(0, |a, &b| a | b) as u8);
        assert_eq!(got[4].values::<i32>()[bin], 5 + own.iter().sum::<i32>());
        assert_eq!(got[5].values::<f32>()[bin], own.iter().fold(0f32, |a, &b| a + b as f32 * 0.1));
        let most = own.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b as f32));
        assert_eq!(got[6].values::<u16>()[bin], half::f16::from_f32(most).to_bits());
        assert_eq!(got[7].values::<u8>()[bin], u8::from(own.iter().any(|&x| x > 990)));
    }
    let text = "kernel k(key: i32[n], x: i32[n]) -> h: i32[10, 3] { h[key[i] | drop, x[i] | drop] += 1; }";
    let got = run(text, &given);
    let mut want = [0; 30];
    for i in 0..5000 {
        if (0..10).contains(&key[i]) && (0..3).contains(&x[i]) {
            want[(key[i] * 3 + x[i]) as usize] += 1;
        }
    }
    assert_eq!(got[0].values::<i32>(), want);
    let text = "kernel k(key: i32[n], x: i32[n]) -> h: i32[10] { h[key[i]] += x[i]; }";
    assert!(matches!(try_run(text, &given), Err(RunError::OutOfRange { axis: 0, extent: 10, .. })));
}

#[test]
fn functions_with_loops() {
    let text = "fn escape(cr: f32, ci: f32, most: i64) -> i32 {
        let mut x = 0.0;
        let mut y = 0.0;
        let mut k = 0;
        while k < most && x * x + y * y <= 4.0 {
            let t = x * x - y * y + cr;
            y = 2.0 * x * y + ci;
            x = t;
            k = k + 1;
        }
        k as i32
    }
    kernel mandelbrot(most: i64) -> y: i32[64, 96] { y[i, j] = escape(j as f32 / 32.0 - 2.0, i as f32 / 32.0 - 1.0, most); }";
    let got = run(text, &[200.into()]);
    for i in 0..64 {
        for j in 0..96 {
            let (cr, ci) = (j as f32 / 32.0 - 2.0, i as f32 / 32.0 - 1.0);
            let (mut x, mut y, mut k) = (0f32, 0f32, 0i64);
            while k < 200 && x * x + y * y <= 4.0 {
                let t = x * x - y * y + cr;
                y = 2.0 * x * y + ci;
                x = t;
                k += 1;
            }
            assert_eq!(got[0].values::<i32>()[i * 96 + j], k as i32);
        }
    }
    let text = "fn gcd(a: i64, b: i64) -> i64 {
        let mut a = a; let mut b = b;
        while b != 0 { let t = a % b; a = b; b = t; }
        a
    }
    fn collatz(n: i64) -> i64 {
        let mut n = n; let mut steps = 0;
        while n > 1 { if n % 2 == 0 { n = n / 2; } else { n = 3 * n + 1; } steps = steps + 1; }
        steps
    }
    fn triangle(n: i64, m: i64) -> i64 {
        let mut s = 0;
        for i in 0..n { for j in i..m { s = s + i * j; } if i % 2 == 1 { s = s + 1; } }
        s
    }
    kernel k(n: i64) -> (g: i64[n, n], c: i64[n], t: i64[n, n], d: i64[n]) {
        g[i, j] = gcd(i, j); c[i] = collatz(i); t[i, j] = triangle(i, j);
        d[i] = if i > 3 { collatz(i) } else { -1 };
    }";
    let got = run(text, &[40.into()]);
    fn gcd(a: i64, b: i64) -> i64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    for i in 0..40i64 {
        let (mut n, mut steps) = (i, 0);
        while n > 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        assert_eq!(got[1].values::<i64>()[i as usize], steps);
        assert_eq!(got[3].values::<i64>()[i as usize], if i > 3 { steps } else { -1 });
        for j in 0..40 {
            let at = (i * 40 + j) as usize;
            assert_eq!(got[0].values::<i64>()[at], gcd(i, j));
            let mut s = 0;
            for a in 0..i {
                for b in a..j {
                    s += a * b;
                }
                if a % 2 == 1 {
                    s += 1;
                }
            }
            assert_eq!(got[2].values::<i64>()[at], s);
        }
    }
}

#[test]
fn several_definitions() {
    let x = noise(1000, 5);
    let text = "kernel k(x: f32[n]) -> (y: f32[2 * n], z: f32[n + 2], t: f32[n, 3], r: f32[n]) {
        y[2 * i] = x[i]; y[2 * i + 1] = -x[i];
        z[0] = 1.0; z[i + 1] = x[i]; z[n + 1] = 2.0;
        t[i, 0] = x[i]; t[i, 2] = 2.0 * x[i]; t[i, 1] = i as f32;
        r[n - 1 - i] = x[i];
    }";
    let got = run(text, &[x.clone().into()]);
    for i in 0..1000 {
        assert_eq!(got[0].values::<f32>()[2 * i..2 * i + 2], [x[i], -x[i]]);
        assert_eq!(got[1].values::<f32>()[i + 1], x[i]);
        assert_eq!(got[2].values::<f32>()[3 * i..3 * i + 3], [x[i], i as f32, 2.0 * x[i]]);
        assert_eq!(got[3].values::<f32>()[999 - i], x[i]);
    }
    assert_eq!((got[1].values::<f32>()[0], got[1].values::<f32>()[1001]), (1.0, 2.0));
}

#[test]
fn permutations_and_ranks() {
    let x = noise(2 * 3 * 4 * 5, 6);
    let text = "kernel permute(x: f32[a, b, c, d]) -> y: f32[d, b, a, c] { y[l, j, i, k] = x[i, j, k, l]; }";
    let got = run(text, &[array(Type::F32, &[2, 3, 4, 5], x.clone())]);
    for i in 0..2 {
        for j in 0..3 {
            for k in 0..4 {
                for l in 0..5 {
                    assert_eq!(got[0].values::<f32>()[((l * 3 + j) * 2 + i) * 4 + k], x[((i * 3 + j) * 4 + k) * 5 + l]);
                }
            }
        }
    }
    let text = "kernel k(x: f32[n]) -> y: f32[2, 1, 2, 1, 2, 2, 1, n] { y[a, b, c, d, e, f, g, h] = x[h] + (a + 2 * c + 4 * e + 8 * f + b + d + g) as f32; }";
    let got = run(text, &[vec![0.5f32, 0.25, 0.0].into()]);
    for at in 0..48 {
        let (h, f, e, c, a) = (at % 3, at / 3 % 2, at / 6 % 2, at / 12 % 2, at / 24);
        assert_eq!(got[0].values::<f32>()[at], [0.5, 0.25, 0.0][h] + (a + 2 * c + 4 * e + 8 * f) as f32);
    }
}

#[test]
fn integer_reductions() {
    let (m, n) = (50i64, 70i64);
    let x: Vec<i32> = noise(3500, 7).iter().map(|x| (x * 1e9) as i32).collect();
    let given = [array(Type::I32, &[m, n], x.clone())];
    let text = "kernel k(x: i32[m, n]) -> (s: i64[m], p: i64[n], lo: i32[m], c: i64, w: i64[m, n]) {
        s[i] = sum[j] x[i, j]; p[j] = prod[i] x[i, j]; lo[i] = min[j] x[i, j]; c = count[i, j if x[i, j] > 0] true;
        w[i, j] = sum[a in i - 1..=i + 1, b in j - 1..=j + 1 if (a + b) % 2 == 0] x[a | wrap, b | 0];
    }";
    let got = run(text, &given);
    let at = |i: i64, j: i64| i64::from(x[(i * n + j) as usize]);
    for i in 0..m {
        assert_eq!(got[0].values::<i64>()[i as usize], (0..n).map(|j| at(i, j)).sum::<i64>());
        assert_eq!(i64::from(got[2].values::<i32>()[i as usize]), (0..n).map(|j| at(i, j)).min().unwrap());
        for j in 0..n {
            let mut sum = 0;
            for a in i - 1..=i + 1 {
                for b in j - 1..=j + 1 {
                    if (a + b) % 2 == 0 && (0..n).contains(&b) {
                        sum += at(a.rem_euclid(m), b);
                    }
                }
            }
            assert_eq!(got[4].values::<i64>()[(i * n + j) as usize], sum, "{i} {j}");
        }
    }
    for j in 0..n {
        assert_eq!(got[1].values::<i64>()[j as usize], (0..m).fold(1i64, |p, i| p.wrapping_mul(at(i, j))));
    }
    assert_eq!(got[3].values::<i64>()[0], x.iter().filter(|&&x| x > 0).count() as i64);
}

#[test]
fn too_large_for_memory() {
    let text =
        "kernel huge(x: f32[n]) -> f32 { let t[i, j, q] = x[i] * x[j] * x[q]; t[0, 0, 0 | 0.0] + 0.0 * t[0 | 0.0, 0 | 0.0, 0 | 0.0] }";
    let text = text.replace("t[0, 0, 0 | 0.0]", "t[0 | 0.0, 0 | 0.0, 0 | 0.0]");
    match try_run(&text, &[vec![0f32; 200_000].into()]) {
        Err(RunError::Memory { array, bytes, .. }) => {
            assert_eq!((array.as_str(), bytes), ("t", 4 * 200_000u128.pow(3)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_to_do_reads_nothing() {
    let x = noise(10, 1);
    let idx = vec![99i32];
    let text = "kernel none(x: f32[n], idx: i32[m], z: f32[q]) -> y: f32[q] { y[i] = sum[j] x[idx[j]] + z[i]; }";
    let got = run(text, &[x.clone().into(), idx.clone().into(), Vec::<f32>::new().into()]);
    assert!(got[0].is_empty());
    assert!(matches!(try_run(text, &[x.into(), idx.into(), vec![1f32].into()]), Err(RunError::OutOfRange { index: 99, .. })));
}

#[test]
fn narrow_limits() {
    let text = "kernel limits(a: i8[m, n], b: f16[m, n], c: u16[m, n]) -> (p: i8[m], q: i8[m], r: f16[m], s: u16[m], t: u16[m], w: i8[m, n], v: u16[m, n]) {
        p[i] = min[j] a[i, j]; q[i] = max[j] a[i, j]; r[i] = max[j] b[i, j]; s[i] = min[j] c[i, j]; t[i] = max[j] c[i, j];
        w[i, j] = min[l in 0..j] a[i, l]; v[i, j] = max[l in j + 1..n] c[i, l];
    }";
    let given = |n: i64, a: Vec<i8>, b: Vec<u16>, c: Vec<u16>| {
        [array(Type::I8, &[1, n], a), array(Type::F16, &[1, n], b), array(Type::U16, &[1, n], c)]
    };
    let got = run(text, &given(0, vec![], vec![], vec![]));
    assert_eq!((got[0].values::<i8>()[0], got[1].values::<i8>()[0]), (127, -128));
    assert_eq!((got[2].values::<u16>()[0], got[3].values::<u16>()[0], got[4].values::<u16>()[0]), (0xfc00, 65535, 0));
    let got = run(text, &given(2, vec![-3, 4], vec![0x8000, 0x0000], vec![7, 9]));
    assert_eq!((got[0].values::<i8>()[0], got[1].values::<i8>()[0]), (-3, 4));
    assert_eq!((got[2].values::<u16>()[0], got[3].values::<u16>()[0], got[4].values::<u16>()[0]), (0, 7, 9));
    assert_eq!(got[5].values::<i8>(), [127, -3]);
    assert_eq!(got[6].values::<u16>(), [9, 0]);
}

#[test]
fn wide_until_the_end() {
    // 2049 is no f16: rounding after every addition would stay at 2048.
    let key: Vec<i32> = (0..3000).map(|_| 0).collect();
    let text = "kernel h(key: i32[n]) -> (a: f16[1], b: i32[1]) { a[key[i]] += 1.0; b[key[i]] += 1; }";
    let got = run(text, &[key.into()]);
    assert_eq!(got[0].values::<u16>()[0], half::f16::from_f32(3000.0).to_bits());
    assert_eq!(got[1].values::<i32>()[0], 3000);
}

#[test]
fn ranges_of_accumulations() {
    // The transpose of a sparse matrix, times a vector: ranges that come from data.
    let start: Vec<i64> = vec![0, 2, 2, 5];
    let column: Vec<i32> = vec![1, 3, 0, 1, 2];
    let v: Vec<f32> = vec![1.0, 2.0, 3.0, 4.0, 5.0];
    let x: Vec<f32> = vec![10.0, 20.0, 30.0];
    let text = "kernel t(start: i64[m1], column: i32[nnz], v: f32[nnz], x: f32[m], n: i64) -> y: f32[n] where m1 == m + 1 {
        let row[r] = x[r];
        y[c] = 0.0;
        y[column[q]] += sum[r in 0..m if q >= start[r] && q < start[r + 1]] v[q] * row[r];
    }";
    let got = run(text, &[start.into(), column.into(), v.into(), x.into(), 4.into()]);
    assert_eq!(got[0].values::<f32>(), [90.0, 130.0, 150.0, 20.0]);
}

#[test]
fn reversed_ranges() {
    // None has a value, though the difference of their bounds wraps to 7, or is no number of terms.
    let lo: Vec<i64> = vec![i64::MAX, 3, i64::MAX, 1];
    let hi: Vec<i64> = vec![i64::MIN + 6, i64::MIN, 0, 3];
    let text = "kernel r(lo: i64[n], hi: i64[n], x: f32[m], a: i64, b: i64) -> (c: i64[n], s: f32[n], p: i64[n], one: i64) {
        c[i] = count[k in lo[i]..hi[i]] (k != 0);
        s[i] = sum[k in lo[i]..hi[i]] x[k];
        p[i] = count[k in lo[i]..hi[i], q in 0..m] (q != k);
        one = count[k in a..b] (k != 0);
    }";
    let x: Vec<f32> = vec![1.0, 2.0, 4.0];
    let got = run(text, &[lo.into(), hi.into(), x.into(), i64::MAX.into(), i64::MIN.into()]);
    assert_eq!(got[0].values::<i64>(), [0, 0, 0, 2]);
    assert_eq!(got[1].values::<f32>(), [0.0, 0.0, 0.0, 6.0]);
    assert_eq!(got[2].values::<i64>(), [0, 0, 0, 4]);
    assert_eq!(got[3].values::<i64>(), [0]);
}

#[test]
fn guarded_scans() {
    let x = noise(500, 3);
    let mut idx: Vec<i32> = (0..500).map(|i| (i * 7) % 500).collect();
    idx[499] = -5;
    let text = "kernel s(x: f32[n], idx: i32[n]) -> y: f32[n] { y[i] = if i < 499 { sum[j in 0..=i] x[idx[j]] } else { 0.0 }; }";
    let got = run(text, &[x.clone().into(), idx.clone().into()]);
    let terms: Vec<f32> = idx[..499].iter().map(|&i| x[i as usize]).collect();
    let got_plain = run("kernel s(x: f32[n]) -> y: f32[n] { y[i] = sum[j in 0..=i] x[j]; }", &[terms.into()]);
    assert_eq!(got[0].values::<f32>()[..499], got_plain[0].values::<f32>()[..]);
}

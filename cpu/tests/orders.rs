//! The orders of `docs/language.md`, against a direct transcription of that page.
mod common;
use common::*;

use gpukc_cpu::Tensor;
use gpukc_dsl::types::Type;

trait Float: Copy + PartialEq + std::fmt::Debug {
    fn add(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn fma(a: Self, b: Self, c: Self) -> Self;
    const ZERO: Self;
    const ONE: Self;
}
macro_rules! float {
    ($t:ty) => {
        impl Float for $t {
            fn add(self, b: Self) -> Self {
                self + b
            }
            fn mul(self, b: Self) -> Self {
                self * b
            }
            fn fma(a: Self, b: Self, c: Self) -> Self {
                a.mul_add(b, c)
            }
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
        }
    };
}
float!(f32);
float!(f64);

/// Terms `count`, the identity, how an accumulator takes in term `t`, and how values combine.
fn canonical<T: Copy>(count: usize, identity: T, take: &dyn Fn(T, usize) -> T, combine: &dyn Fn(T, T) -> T) -> T {
    if count == 0 {
        return identity;
    }
    let mut blocks = Vec::new();
    for b in 0..count.div_ceil(4096) {
        let (first, end) = (4096 * b, count.min(4096 * (b + 1)));
        let mut values: Vec<T> = (0..128)
            .map(|a| {
                let mut acc = identity;
                let mut t = first + a;
                while t < end {
                    acc = take(acc, t);
                    t += 128;
                }
                acc
            })
            .collect();
        while values.len() > 1 {
            values = values.chunks(2).map(|pair| combine(pair[0], pair[1])).collect();
        }
        blocks.push(values[0]);
    }
    if blocks.len() == 1 {
        return blocks[0];
    }
    canonical(blocks.len(), identity, &|acc, t| combine(acc, blocks[t]), combine)
}

fn sum<T: Float>(terms: &[T]) -> T {
    canonical(terms.len(), T::ZERO, &|acc, t| acc.add(terms[t]), &T::add)
}
fn prod<T: Float>(terms: &[T]) -> T {
    canonical(terms.len(), T::ONE, &|acc, t| acc.mul(terms[t]), &T::mul)
}
fn dot<T: Float>(a: &[T], b: &[T]) -> T {
    canonical(a.len(), T::ZERO, &|acc, t| T::fma(a[t], b[t], acc), &T::add)
}
fn sharing<T: Float>(count: usize, outputs: usize, take: &dyn Fn(T, usize) -> T) -> T {
    let f = outputs.clamp(1, 1 << 20);
    let w = ((1 << 20) / f).max(1);
    let r = (128 * count.div_ceil(128 * w)).clamp(512, 16384);
    let mut runs = Vec::new();
    for first in (0..count).step_by(r) {
        let mut acc = T::ZERO;
        for t in first..count.min(first + r) {
            acc = take(acc, t);
        }
        runs.push(acc);
    }
    sum(&runs)
}
fn scan<T: Float>(terms: &[T], identity: T, op: &dyn Fn(T, T) -> T) -> Vec<T> {
    let kogge = |values: Vec<T>| {
        let mut k = values;
        for d in [1, 2, 4, 8, 16] {
            k = (0..32).map(|l| if l >= d { op(k[l - d], k[l]) } else { k[l] }).collect();
        }
        k
    };
    let get = |t: usize| terms.get(t).copied().unwrap_or(identity);
    let mut totals = Vec::new();
    let mut inside = Vec::new();
    for b in 0..terms.len().div_ceil(4096) {
        let mut w = Vec::new();
        let mut row_totals = Vec::new();
        for row in 0..32 {
            let quads: Vec<[T; 4]> = (0..32)
                .map(|l| {
                    let t = b * 4096 + row * 128 + l * 4;
                    let s0 = get(t);
                    let s1 = op(s0, get(t + 1));
                    let s2 = op(s1, get(t + 2));
                    [s0, s1, s2, op(s2, get(t + 3))]
                })
                .collect();
            let k = kogge(quads.iter().map(|q| q[3]).collect());
            for (l, quad) in quads.iter().enumerate() {
                let e = if l == 0 { identity } else { k[l - 1] };
                w.extend(quad.map(|s| op(e, s)));
            }
            row_totals.push(k[31]);
        }
        let rows = kogge(row_totals);
        totals.push(rows[31]);
        inside.push((w, rows));
    }
    let before = if totals.len() > 1 { scan(&totals, identity, op) } else { totals };
    let mut out = Vec::new();
    for (b, (w, rows)) in inside.iter().enumerate() {
        let p = if b == 0 { identity } else { before[b - 1] };
        for (t, &w) in w.iter().enumerate() {
            let r = if t / 128 == 0 { identity } else { rows[t / 128 - 1] };
            out.push(op(op(p, r), w));
        }
    }
    out.truncate(terms.len());
    out
}

const LENGTHS: [usize; 15] = [0, 1, 2, 5, 127, 128, 129, 130, 1000, 4095, 4096, 4097, 5000, 70_000, 600_000];

#[test]
fn sums_of_vectors() {
    for n in LENGTHS {
        let (x, y) = (noise(n, 3), noise(n, 4));
        let given = [x.clone().into(), y.clone().into()];
        let got = run("kernel k(x: f32[n], y: f32[n]) -> f32 { sum[i] x[i] + 0.0 * y[0 | 0.0] }", &given);
        let got_dot = run("kernel k(x: f32[n], y: f32[n]) -> f32 { sum[i] x[i] * y[i] }", &given);
        let got_not = run("kernel k(x: f32[n], y: f32[n]) -> f32 { sum[i] (x[i] * y[i] + 0.0) }", &given);
        assert_eq!(got[0].values::<f32>()[0].to_bits(), (sum(&x) + 0.0).to_bits(), "{n}");
        assert_eq!(got_dot[0].values::<f32>()[0].to_bits(), dot(&x, &y).to_bits(), "{n}");
        let products: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x * y + 0.0).collect();
        assert_eq!(got_not[0].values::<f32>()[0].to_bits(), sum(&products).to_bits(), "{n}");
        let factors: Vec<f64> = noise64(n, 9).iter().map(|x| 1.0 + x / 1024.0).collect();
        let got = run("kernel k(x: f64[n]) -> f64 { prod[i] x[i] }", &[factors.clone().into()]);
        assert_eq!(got[0].values::<f64>()[0].to_bits(), prod(&factors).to_bits(), "{n}");
    }
}

#[test]
fn tiny_products_lose_their_sign() {
    for n in [1, 127, 128, 4096, 8192] {
        let (x, y) = (vec![-1e-40f32; n], vec![1e-40f32; n]);
        let got = run("kernel k(x: f32[n], y: f32[n]) -> f32 { sum[i] x[i] * y[i] }", &[x.clone().into(), y.clone().into()]);
        assert_eq!(got[0].values::<f32>()[0].to_bits(), dot(&x, &y).to_bits(), "{n}");
    }
}

#[test]
fn sums_of_rows_and_columns() {
    for (m, n) in [(1, 5000), (3, 4097), (5000, 3), (300, 7), (7, 300), (0, 4), (4, 0), (130, 129)] {
        let x = noise(m * n, 5);
        let given = [array(Type::F32, &[m as i64, n as i64], x.clone())];
        let rows = run("kernel k(x: f32[m, n]) -> y: f32[m] { y[i] = sum[j] x[i, j]; }", &given);
        let columns = run("kernel k(x: f32[m, n]) -> y: f32[n] { y[j] = sum[i] x[i, j]; }", &given);
        let all = run("kernel k(x: f32[m, n]) -> f32 { sum[i, j] x[i, j] }", &given);
        let turned = run("kernel k(x: f32[m, n]) -> f32 { sum[j in 0..n, i] x[i, j] }", &given);
        let row: Vec<f32> = (0..m).map(|i| sum(&x[i * n..(i + 1) * n])).collect();
        let column: Vec<Vec<f32>> = (0..n).map(|j| (0..m).map(|i| x[i * n + j]).collect()).collect();
        assert_eq!(bits(rows[0].values()), bits(&row), "{m} {n}");
        assert_eq!(bits(columns[0].values()), bits(&column.iter().map(|c| sum(c)).collect::<Vec<_>>()), "{m} {n}");
        assert_eq!(all[0].values::<f32>()[0].to_bits(), sum(&x).to_bits());
        assert_eq!(turned[0].values::<f32>()[0].to_bits(), sum(&column.concat()).to_bits());
    }
}

#[test]
fn filters_keep_numbers() {
    let x = noise(9000, 6);
    let got = run("kernel k(x: f32[n]) -> f32 { sum[i if x[i] > 0.25] x[i] }", &[x.clone().into()]);
    let kept: Vec<f32> = x.iter().map(|&x| if x > 0.25 { x } else { 0.0 }).collect();
    assert_eq!(got[0].values::<f32>()[0].to_bits(), sum(&kept).to_bits());
    let got = run("kernel k(x: f32[n]) -> f32 { mean[i if x[i] > 0.25] x[i] }", &[x.clone().into()]);
    let count = x.iter().filter(|&&x| x > 0.25).count() as f32;
    assert_eq!(got[0].values::<f32>()[0].to_bits(), (sum(&kept) / count).to_bits());
    let got = run("kernel k(x: f32[n]) -> f32 { mean[i if x[i] > 2.0] x[i] }", &[x.into()]);
    assert!(got[0].values::<f32>()[0].is_nan());
}

#[test]
fn products_of_matrices() {
    let shapes =
        [(1, 1, 1), (3, 5, 7), (17, 600, 33), (100, 7, 3), (2, 1300, 2), (1, 20_000, 3), (64, 64, 64), (5, 0, 4), (1, 3, 2000)];
    for (m, k, n) in shapes {
        let (a, b) = (noise(m * k, 7), noise(k * n, 8));
        let given = [array(Type::F32, &[m as i64, k as i64], a.clone()), array(Type::F32, &[k as i64, n as i64], b.clone())];
        let text = "kernel mm(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n] { c[i, j] = sum[l] a[i, l] * b[l, j]; }";
        let got = run(text, &given);
        let mut want = Vec::new();
        for i in 0..m {
            for j in 0..n {
                let take = |acc: f32, l: usize| a[i * k + l].mul_add(b[l * n + j], acc);
                // With one row, `b[l, j]` is its output's own.
                want.push(if m == 1 || n == 1 {
                    continue;
                } else {
                    sharing(k, m * n, &take)
                });
            }
        }
        if m > 1 && n > 1 {
            assert_eq!(bits(got[0].values()), bits(&want), "{m} {k} {n}");
        }
    }
}

#[test]
fn scans() {
    for n in [0, 1, 2, 4, 5, 6, 127, 128, 129, 4095, 4096, 4097, 9000, 200_000] {
        let x = noise(n, 10);
        let given = [x.clone().into()];
        let forward = scan(&x, 0.0, &|a, b| a + b);
        let mut turned: Vec<f32> = x.iter().rev().copied().collect();
        turned = scan(&turned, 0.0, &|a, b| a + b);
        turned.reverse();
        let inclusive = run("kernel k(x: f32[n]) -> y: f32[n] { y[i] = sum[j in 0..=i] x[j]; }", &given);
        assert_eq!(bits(inclusive[0].values()), bits(&forward), "{n}");
        let exclusive = run("kernel k(x: f32[n]) -> y: f32[n] { y[i] = sum[j in 0..i] x[j]; }", &given);
        let want: Vec<f32> = (0..n).map(|i| if i == 0 { 0.0 } else { forward[i - 1] }).collect();
        assert_eq!(bits(exclusive[0].values()), bits(&want), "{n}");
        let backward = run("kernel k(x: f32[n]) -> y: f32[n] { y[i] = sum[j in i..n] x[j]; }", &given);
        assert_eq!(bits(backward[0].values()), bits(&turned), "{n}");
        let backward = run("kernel k(x: f32[n]) -> y: f32[n] { y[i] = sum[j in i + 1..n] x[j]; }", &given);
        let want: Vec<f32> = (0..n).map(|i| turned.get(i + 1).copied().unwrap_or(0.0)).collect();
        assert_eq!(bits(backward[0].values()), bits(&want), "{n}");
    }
}

#[test]
fn scans_of_rows_and_columns() {
    for (m, n) in [(3, 5000), (200, 30), (1, 1), (0, 3), (40, 129)] {
        let x = noise(m * n, 11);
        let given = [array(Type::F32, &[m as i64, n as i64], x.clone())];
        let got = run(
            "kernel k(x: f32[m, n]) -> y: f32[m, n] { y[i, j] = max[l in 0..n] x[i, l] - sum[l in 0..=j] x[i, l] * x[i, l]; }",
            &given,
        );
        let mut want = Vec::new();
        for row in x.chunks(n.max(1)) {
            let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let squares: Vec<f32> = row.iter().map(|x| x * x).collect();
            want.extend(scan(&squares, 0.0, &|a, b| a + b).into_iter().map(|s| top - s));
        }
        assert_eq!(bits(got[0].values()), bits(&want), "{m} {n}");
        let got = run("kernel k(x: f32[m, n]) -> y: f32[m, n] { y[i, j] = sum[l in i..m] x[l, j]; }", &given);
        let mut want = vec![0f32; m * n];
        for j in 0..n {
            let column: Vec<f32> = (0..m).rev().map(|i| x[i * n + j]).collect();
            for (at, s) in scan(&column, 0.0, &|a, b| a + b).into_iter().enumerate() {
                want[(m - 1 - at) * n + j] = s;
            }
        }
        assert_eq!(bits(got[0].values()), bits(&want), "{m} {n}");
    }
}

#[test]
fn exact_scans() {
    let n = 10_000;
    let x: Vec<i32> = noise(n, 12).iter().map(|x| (x * 100.0) as i32).collect();
    let given = [x.clone().into()];
    let text = "kernel k(x: i32[n]) -> (s: i64[n], m: i32[n], c: i64[n], a: i64[n], z: i64[n]) {
        s[i] = sum[j in 0..=i] x[j];
        m[i] = min[j in i..n] x[j];
        c[i] = count[j in 0..i if x[j] > 3] true;
        a[i] = argmax[j in 0..=i] x[j];
        z[i] = argmin[j in i + 1..n] x[j];
    }";
    let got = run(text, &given);
    let mut sum = 0i64;
    for (i, &term) in x.iter().enumerate() {
        sum += i64::from(term);
        assert_eq!(got[0].values::<i64>()[i], sum);
    }
    for i in (0..n).step_by(97) {
        assert_eq!(got[1].values::<i32>()[i], *x[i..].iter().min().unwrap());
        assert_eq!(got[2].values::<i64>()[i], x[..i].iter().filter(|&&x| x > 3).count() as i64);
        let top = x[..=i].iter().max().unwrap();
        assert_eq!(got[3].values::<i64>()[i], x.iter().position(|x| x == top).unwrap() as i64);
        let want = x[i + 1..].iter().min().map_or(-1, |least| (i + 1 + x[i + 1..].iter().position(|x| x == least).unwrap()) as i64);
        assert_eq!(got[4].values::<i64>()[i], want);
    }
}

#[test]
fn ragged_rows() {
    // Rows of very different lengths, some over a block.
    let lengths: Vec<usize> = (0..300).map(|i| if i == 77 { 9000 } else { (i * 7) % 23 }).collect();
    let mut start = vec![0i64];
    for &length in &lengths {
        start.push(start[start.len() - 1] + length as i64);
    }
    let total = start[300] as usize;
    let (v, x) = (noise(total, 13), noise(50, 14));
    let column: Vec<i32> = (0..total).map(|t| ((t * 31) % 50) as i32).collect();
    let given = [start.clone().into(), column.clone().into(), v.clone().into(), x.clone().into()];
    let text = "kernel spmv(start: i64[m1], column: i32[nnz], v: f32[nnz], x: f32[n]) -> y: f32[m1 - 1] where m1 >= 1 {
        y[i] = sum[k in start[i]..start[i + 1]] v[k] * x[column[k]];
    }";
    let got = run(text, &given);
    let want: Vec<f32> = (0..300)
        .map(|i| {
            let (from, to) = (start[i] as usize, start[i + 1] as usize);
            let picked: Vec<f32> = column[from..to].iter().map(|&c| x[c as usize]).collect();
            dot(&v[from..to], &picked)
        })
        .collect();
    assert_eq!(bits(got[0].values()), bits(&want));
}

#[test]
fn nested_ranges() {
    let n = 70;
    let x = noise(n * n, 15);
    let given = [array(Type::F32, &[n as i64, n as i64], x.clone())];
    let got = run("kernel k(x: f32[n, n]) -> f32 { sum[i, j in i..n] x[i, j] }", &given);
    let rows: Vec<f32> = (0..n).map(|i| sum(&x[i * n + i..(i + 1) * n])).collect();
    assert_eq!(got[0].values::<f32>()[0].to_bits(), sum(&rows).to_bits());
    // A triangle that mentions the left side: not a scan.
    let got = run("kernel k(x: f32[n, n]) -> y: f32[n] { y[i] = sum[j in 0..=i] x[i, j]; }", &given);
    let want: Vec<f32> = (0..n).map(|i| sum(&x[i * n..i * n + i + 1])).collect();
    assert_eq!(bits(got[0].values()), bits(&want));
}

#[test]
fn stencils_ascend() {
    let (h, w) = (37, 53);
    let x = noise(h * w, 16);
    let given = [array(Type::F32, &[h as i64, w as i64], x.clone())];
    let text = "kernel blur(x: f32[h, w]) -> y: f32[h, w] {
        y[i, j] = (sum[di in -1..=1, dj in -1..=1] x[i + di | clamp, j + dj | clamp]) / 9.0;
    }";
    let got = run(text, &given);
    let mut want = Vec::new();
    for i in 0..h as i64 {
        for j in 0..w as i64 {
            let mut acc = 0f32;
            for di in -1..=1 {
                for dj in -1..=1 {
                    let (a, b) = ((i + di).clamp(0, h as i64 - 1), (j + dj).clamp(0, w as i64 - 1));
                    acc += x[(a * w as i64 + b) as usize];
                }
            }
            want.push(acc / 9.0);
        }
    }
    assert_eq!(bits(got[0].values()), bits(&want));
}

#[test]
fn softmax() {
    let text = "kernel softmax(x: f32[m, n]) -> y: f32[m, n] {
        let top[i] = max[j] x[i, j];
        let e[i, j] = exp(x[i, j] - top[i]);
        y[i, j] = e[i, j] / sum[k] e[i, k];
    }";
    for (m, n) in [(5, 3000), (300, 5), (1, 1)] {
        let x = noise(m * n, 17);
        let got = run(text, &[array(Type::F32, &[m as i64, n as i64], x.clone())]);
        let mut want = Vec::new();
        for row in x.chunks(n) {
            let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let e: Vec<f32> = row.iter().map(|x| gpukc_math::f32::exp_f32(x - top)).collect();
            let s = sum(&e);
            want.extend(e.iter().map(|e| e / s));
        }
        assert_eq!(bits(got[0].values()), bits(&want));
    }
}

#[test]
fn half_products_ascend() {
    use gpukc_cpu::half::{bf16_to_f32, f32_to_bf16};
    let (m, k, n) = (9, 40, 11);
    let a: Vec<u16> = noise(m * k, 18).into_iter().map(f32_to_bf16).collect();
    let b: Vec<u16> = noise(k * n, 19).into_iter().map(f32_to_bf16).collect();
    let given = [
        Given::Array(Tensor::new(Type::Bf16, &[m as i64, k as i64], a.clone())),
        Given::Array(Tensor::new(Type::Bf16, &[k as i64, n as i64], b.clone())),
    ];
    let got = run("kernel mm(a: bf16[m, k], b: bf16[k, n]) -> c: bf16[m, n] { c[i, j] = sum[l] a[i, l] * b[l, j]; }", &given);
    for i in 0..m {
        for j in 0..n {
            let take = |acc: f32, l: usize| bf16_to_f32(a[i * k + l]).mul_add(bf16_to_f32(b[l * n + j]), acc);
            assert_eq!(got[0].values::<u16>()[i * n + j], f32_to_bf16(sharing(k, m * n, &take)));
        }
    }
}

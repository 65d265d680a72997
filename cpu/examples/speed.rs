//! Speed against plain scalar loops, on one thread: `cargo run --release -p gpukc-cpu --example speed [name]`.
//!
//! The loops stand in for a C++ compiler's scalar code; LLVM may vectorise some of them, which only raises the bar.
// Arguments are written as a user would write them, and constants as in the gk text.
#![allow(clippy::cloned_ref_to_slice_refs, clippy::approx_constant)]

use std::hint::black_box;
use std::time::Instant;

use gpukc_cpu::{Argument, Options, Tensor, run};
use gpukc_dsl::call::{CallArgument, bind};
use gpukc_dsl::source::Source;
use gpukc_dsl::types::Type;

/// Seconds of the fastest of some runs.
fn time(mut work: impl FnMut()) -> f64 {
    work();
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < 0.4 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

fn noise(shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>();
    Tensor::new(Type::F32, shape, (0..n).map(|k| ((k * 7919 % 1009) as f32) / 1009.0 - 0.5).collect::<Vec<f32>>())
}

fn measure(name: &str, text: &str, inputs: &[Tensor], points: f64, scalar: impl FnMut()) {
    if std::env::args().nth(1).is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let checked = gpukc_dsl::check(&Source::new(name, text));
    let program = checked.program.unwrap_or_else(|| panic!("{name}: {:?}", checked.problems));
    let kernel = program.kernels.last().expect("a kernel");
    let shapes: Vec<CallArgument> = inputs.iter().map(|t| CallArgument::Array { element: t.element(), shape: t.shape() }).collect();
    let bindings = bind(kernel, &shapes).unwrap_or_else(|error| panic!("{error}"));
    let arguments: Vec<Argument> = inputs.iter().map(Argument::Array).collect();
    let options = Options { threads: 1, ..Options::default() };
    let own = time(|| {
        black_box(run(&program, kernel, &bindings, &arguments, &options).expect("it runs"));
    });
    let plain = time(scalar);
    println!("{name:24} {:9.3} ns/point  plain {:9.3} ns/point  ratio {:6.2}", own * 1e9 / points, plain * 1e9 / points, plain / own);
}

fn matmul(m: usize, k: usize, n: usize) {
    let (a, b) = (noise(&[m as i64, k as i64]), noise(&[k as i64, n as i64]));
    let (x, y) = (a.values::<f32>().to_vec(), b.values::<f32>().to_vec());
    let text = "kernel mm(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n] { c[i, j] = sum[l] a[i, l] * b[l, j]; }";
    measure(&format!("matmul {m} {k} {n}"), text, &[a, b], (m * k * n) as f64, || {
        let mut c = vec![0f32; m * n];
        for i in 0..m {
            for j in 0..n {
                let mut acc = 0.0;
                for l in 0..k {
                    acc += x[i * k + l] * y[l * n + j];
                }
                c[i * n + j] = acc;
            }
        }
        black_box(c);
    });
}

fn main() {
    let n = 1 << 22;
    let (x, y) = (noise(&[n]), noise(&[n]));
    let (xs, ys) = (x.values::<f32>().to_vec(), y.values::<f32>().to_vec());
    let text = "kernel saxpy(x: f32[n], y: f32[n]) -> z: f32[n] { z[i] = 2.5 * x[i] + y[i]; }";
    measure("saxpy", text, &[x.clone(), y.clone()], n as f64, || {
        black_box(xs.iter().zip(&ys).map(|(x, y)| 2.5 * x + y).collect::<Vec<f32>>());
    });
    let text = "kernel gelu(x: f32[n]) -> y: f32[n] { y[i] = 0.5 * x[i] * (1.0 + erf(x[i] * 0.70710678)); }";
    measure("gelu", text, &[x.clone()], n as f64, || {
        black_box(xs.iter().map(|&x| 0.5 * x * (1.0 + gpukc_math::f32::erf_f32(x * 0.70710678))).collect::<Vec<f32>>());
    });
    measure("sum", "kernel s(x: f32[n]) -> f32 { sum[i] x[i] }", &[x.clone()], n as f64, || {
        black_box(xs.iter().sum::<f32>());
    });
    let square = noise(&[2048, 2048]);
    let text = "kernel rows(x: f32[m, n]) -> y: f32[m] { y[i] = sum[j] x[i, j]; }";
    measure("row sums", text, &[square.clone()], n as f64, || {
        black_box(xs.chunks(2048).map(|row| row.iter().sum::<f32>()).collect::<Vec<f32>>());
    });
    let text = "kernel columns(x: f32[m, n]) -> y: f32[n] { y[j] = sum[i] x[i, j]; }";
    measure("column sums", text, &[square.clone()], n as f64, || {
        let mut y = vec![0f32; 2048];
        for row in xs.chunks(2048) {
            for (y, x) in y.iter_mut().zip(row) {
                *y += x;
            }
        }
        black_box(y);
    });
    let text = "kernel softmax(x: f32[m, n]) -> y: f32[m, n] {
        let top[i] = max[j] x[i, j];
        let e[i, j] = exp(x[i, j] - top[i]);
        y[i, j] = e[i, j] / sum[k] e[i, k];
    }";
    measure("softmax", text, &[square.clone()], n as f64, || {
        let mut y = vec![0f32; xs.len()];
        for (x, y) in xs.chunks(2048).zip(y.chunks_mut(2048)) {
            let top = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut s = 0.0;
            for (x, y) in x.iter().zip(y.iter_mut()) {
                *y = gpukc_math::f32::exp_f32(x - top);
                s += *y;
            }
            for y in y {
                *y /= s;
            }
        }
        black_box(y);
    });
    let text = "kernel blur(x: f32[h, w]) -> y: f32[h, w] {
        y[i, j] = (sum[di in -1..=1, dj in -1..=1] x[i + di | clamp, j + dj | clamp]) / 9.0;
    }";
    measure("blur", text, &[square.clone()], n as f64, || {
        let (h, w) = (2048i64, 2048i64);
        let mut y = vec![0f32; xs.len()];
        for i in 0..h {
            for j in 0..w {
                let mut acc = 0.0;
                for di in -1..=1 {
                    for dj in -1..=1 {
                        let (a, b) = ((i + di).clamp(0, h - 1), (j + dj).clamp(0, w - 1));
                        acc += xs[(a * w + b) as usize];
                    }
                }
                y[(i * w + j) as usize] = acc / 9.0;
            }
        }
        black_box(y);
    });
    let text = "kernel transpose(x: f32[m, n]) -> y: f32[n, m] { y[j, i] = x[i, j]; }";
    measure("transpose", text, &[square.clone()], n as f64, || {
        let mut y = vec![0f32; xs.len()];
        for j in 0..2048 {
            for i in 0..2048 {
                y[j * 2048 + i] = xs[i * 2048 + j];
            }
        }
        black_box(y);
    });
    let text = "kernel prefix(x: f32[n]) -> y: f32[n] { y[i] = sum[j in 0..=i] x[j]; }";
    measure("prefix", text, &[x.clone()], n as f64, || {
        let mut s = 0.0;
        black_box(
            xs.iter()
                .map(|x| {
                    s += x;
                    s
                })
                .collect::<Vec<f32>>(),
        );
    });
    let key = Tensor::new(Type::U8, &[n], (0..n).map(|k| (k * 7919 % 251) as u8).collect::<Vec<u8>>());
    let keys = key.values::<u8>().to_vec();
    let text = "kernel histogram(key: u8[n]) -> h: i32[256] { h[key[i]] += 1; }";
    measure("histogram", text, &[key], n as f64, || {
        let mut h = vec![0i32; 256];
        for &k in &keys {
            h[k as usize] += 1;
        }
        black_box(h);
    });
    let (q, r) = (noise(&[512, 64]), noise(&[512, 64]));
    let (qs, rs) = (q.values::<f32>().to_vec(), r.values::<f32>().to_vec());
    let text = "kernel scores(q: f32[m, d], k: f32[n, d]) -> s: f32[m, n] { s[i, j] = sum[l] q[i, l] * k[j, l]; }";
    measure("scores 512 512 64", text, &[q, r], 512.0 * 512.0 * 64.0, || {
        let mut s = vec![0f32; 512 * 512];
        for i in 0..512 {
            for j in 0..512 {
                s[i * 512 + j] = (0..64).map(|l| qs[i * 64 + l] * rs[j * 64 + l]).sum();
            }
        }
        black_box(s);
    });
    let (q, r) = (noise(&[256, 1024]), noise(&[256, 1024]));
    let (qs, rs) = (q.values::<f32>().to_vec(), r.values::<f32>().to_vec());
    measure("scores 256 256 1024", text, &[q, r], 256.0 * 256.0 * 1024.0, || {
        let mut s = vec![0f32; 256 * 256];
        for i in 0..256 {
            for j in 0..256 {
                s[i * 256 + j] = (0..1024).map(|l| qs[i * 1024 + l] * rs[j * 1024 + l]).sum();
            }
        }
        black_box(s);
    });
    let (img, ker) = (noise(&[4, 8, 30, 30]), noise(&[16, 8, 3, 3]));
    let (xi, xk) = (img.values::<f32>().to_vec(), ker.values::<f32>().to_vec());
    let text = "kernel conv(x: f32[b, c, h, w], k: f32[o, c, 3, 3]) -> y: f32[b, o, h - 2, w - 2] where h >= 2, w >= 2 {
        y[n, p, i, j] = sum[q, u, v] x[n, q, i + u, j + v] * k[p, q, u, v];
    }";
    measure("convolution", text, &[img, ker], (4 * 16 * 28 * 28 * 72) as f64, || {
        let mut y = vec![0f32; 4 * 16 * 28 * 28];
        for n in 0..4 {
            for p in 0..16 {
                for i in 0..28 {
                    for j in 0..28 {
                        let mut acc = 0.0;
                        for q in 0..8 {
                            for u in 0..3 {
                                for v in 0..3 {
                                    acc += xi[((n * 8 + q) * 30 + i + u) * 30 + j + v] * xk[((p * 8 + q) * 3 + u) * 3 + v];
                                }
                            }
                        }
                        y[((n * 16 + p) * 28 + i) * 28 + j] = acc;
                    }
                }
            }
        }
        black_box(y);
    });
    let small = noise(&[100_000, 12]);
    let smalls = small.values::<f32>().to_vec();
    let text = "kernel rows(x: f32[m, n]) -> y: f32[m] { y[i] = sum[j] x[i, j]; }";
    measure("short row sums", text, &[small], 1_200_000.0, || {
        black_box(smalls.chunks(12).map(|row| row.iter().sum::<f32>()).collect::<Vec<f32>>());
    });
    let tall = noise(&[100_000, 12]);
    let talls = tall.values::<f32>().to_vec();
    let text = "kernel columns(x: f32[m, n]) -> y: f32[n] { y[j] = sum[i] x[i, j]; }";
    measure("tall column sums", text, &[tall], 1_200_000.0, || {
        let mut y = [0f32; 12];
        for row in talls.chunks(12) {
            for (y, x) in y.iter_mut().zip(row) {
                *y += x;
            }
        }
        black_box(y);
    });
    let rows = 100_000;
    let start: Vec<i64> = (0..=rows).map(|i| i * 9 + (i % 5)).collect();
    let nnz = start[rows as usize];
    let column: Vec<i32> = (0..nnz).map(|t| ((t * 7919) % rows) as i32).collect();
    let (v, z) = (noise(&[nnz]), noise(&[rows]));
    let (vs, zs) = (v.values::<f32>().to_vec(), z.values::<f32>().to_vec());
    let text = "kernel spmv(start: i64[m1], column: i32[nnz], v: f32[nnz], x: f32[n]) -> y: f32[m1 - 1] where m1 >= 1 {
        y[i] = sum[k in start[i]..start[i + 1]] v[k] * x[column[k]];
    }";
    measure("sparse matrix, vector", text, &[start.clone().into(), column.clone().into(), v, z], nnz as f64, || {
        let mut y = vec![0f32; rows as usize];
        for (i, y) in y.iter_mut().enumerate() {
            for k in start[i] as usize..start[i + 1] as usize {
                *y += vs[k] * zs[column[k] as usize];
            }
        }
        black_box(y);
    });
    let body = noise(&[2000]);
    let bodies = body.values::<f32>().to_vec();
    let text = "kernel bodies(x: f32[n]) -> f: f32[n] { f[i] = sum[j] (x[j] - x[i]) * rsqrt((x[j] - x[i]) * (x[j] - x[i]) + 0.01); }";
    measure("bodies", text, &[body], 4e6, || {
        let force = |x: f32| bodies.iter().map(|y| (y - x) * (1.0 / ((y - x) * (y - x) + 0.01).sqrt())).sum::<f32>();
        black_box(bodies.iter().map(|&x| force(x)).collect::<Vec<f32>>());
    });
    let c = noise(&[512, 512]);
    let cs = c.values::<f32>().to_vec();
    let text = "fn escape(cr: f32, ci: f32) -> i32 {
        let mut x = 0.0; let mut y = 0.0; let mut k = 0i32;
        while k < 256i32 && x * x + y * y <= 4.0 { let t = x * x - y * y + cr; y = 2.0 * x * y + ci; x = t; k = k + 1i32; }
        k
    }
    kernel mandelbrot(c: f32[m, n]) -> y: i32[m, n] {
        y[i, j] = escape(j as f32 / 200.0 - 2.0 + 0.0 * c[i, j], i as f32 / 256.0 - 1.0);
    }";
    measure("mandelbrot", text, &[c], 512.0 * 512.0, || {
        let mut out = vec![0i32; 512 * 512];
        for i in 0..512 {
            for j in 0..512 {
                let (cr, ci) = (j as f32 / 200.0 - 2.0 + 0.0 * cs[i * 512 + j], i as f32 / 256.0 - 1.0);
                let (mut x, mut y, mut k) = (0f32, 0f32, 0);
                while k < 256 && x * x + y * y <= 4.0 {
                    let t = x * x - y * y + cr;
                    y = 2.0 * x * y + ci;
                    x = t;
                    k += 1;
                }
                out[i * 512 + j] = k;
            }
        }
        black_box(out);
    });
    for (m, k, n) in [(512, 512, 512), (1000, 7, 3), (1024, 1024, 1024), (3, 1000, 3), (31, 33, 35), (2000, 3, 3), (8, 8, 8)] {
        matmul(m, k, n);
    }
}

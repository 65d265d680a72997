//! What the prover decides: subscripts in the forms of the reference, coverings, and what is left to the call.

use gpukc_dsl::call::{CallArgument, bind};
use gpukc_dsl::check::check;
use gpukc_dsl::program::{ConditionReason, Kernel, Literal, print};
use gpukc_dsl::source::Source;
use gpukc_dsl::types::Type;

fn kernel(text: &str) -> Kernel {
    let checked = check(&Source::new("test", text));
    assert!(checked.problems.is_empty(), "{text}\n{:?}", checked.problems);
    checked.program.expect("no errors, so there is a program").kernels.pop().expect("a kernel")
}

fn asks_the_call(kernel: &Kernel) -> bool {
    kernel.conditions.iter().any(|condition| matches!(condition.reason, ConditionReason::InRange(..)))
}

/// Gathers and copies of arrays, in shapes that programs have.
const PROVED: &[&str] = &[
    "kernel f(x: f32[n]) -> y: f32[2 * n] { y[i] = x[i / 2]; }",
    "kernel f(x: f32[(n + 1) / 2], z: f32[n]) -> y: f32[n] { y[i] = x[i / 2] + z[i]; }",
    "kernel f(x: f32[n], z: f32[m]) -> y: f32[m] where n >= 1 { y[i] = x[i % n]; }",
    "kernel f(x: f32[n, m * n], z: f32[m]) -> y: f32[m, n] { y[i, j] = x[j, i * n + j] + z[i]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[min(i + 1, n - 1)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[max(i - 1, 0)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[clamp(i - 3, 0, n - 1)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i - i % 4]; }",
    "kernel f(x: f32[n]) -> y: f32[n / 2] where n % 2 == 0 { y[i] = x[2 * i + 1]; }",
    "kernel f(x: f32[n]) -> y: f32[n / 2] { y[i] = x[2 * i + 1]; }",
    "kernel f(x: f32[n]) -> y: f32[n / 16, 16] { y[i, j] = x[16 * i + j]; }",
    "kernel f(x: f32[n, n]) -> y: f32[n] { y[i] = sum[j in i..n] x[i, j]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[n - 1 - i]; }",
    "kernel f(x: f32[n]) -> y: f32[n - 2] where n >= 2 { y[i] = sum[k in 0..3] x[i + k]; }",
    "kernel f(x: f32[n], w: f32[k]) -> y: f32[n - k + 1] where n >= k { y[i] = sum[j] w[j] * x[i + j]; }",
    "kernel f(x: f32[h, w]) -> y: f32[2 * h, 2 * w] { y[i, j] = x[i / 2, j / 2]; }",
    "kernel f(x: f32[h, w]) -> y: f32[h / 2, w / 2] { y[i, j] = (sum[a in 0..2, b in 0..2] x[2 * i + a, 2 * j + b]) / 4.0; }",
    "kernel f(x: f32[h, w]) -> y: f32[(h - 2) * (w - 2), 9] where h >= 2, w >= 2 { y[p, q] = x[p / (w - 2) + q / 3, p % (w - 2) + q % 3]; }",
    "kernel f(x: f32[b, h, d]) -> y: f32[b, h * d] where d >= 1 { y[p, q] = x[p, q / d, q % d]; }",
    "kernel f(x: f32[b, h, d]) -> y: f32[b, h * d] { y[p, q] = x[p, q / d, q % d]; }",
    "kernel f(x: f32[a, b, c]) -> y: f32[a * b * c] { y[p] = x[p / (b * c), p / c % b, p % c]; }",
    "kernel f(x: f32[a, b, c]) -> y: f32[a * b * c] { y[p] = x[p / (b * c), (p / c) % b, p % c]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = if i > 0 { x[i - 1] } else { 0.0 } + if i + 1 < n { x[i + 1] } else { 0.0 }; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = sum[j in max(i - 2, 0)..min(i + 3, n)] x[j]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = sum[j in i - 2..=i + 2 if j >= 0 && j < n] x[j]; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n % 2 == 0 { y[i] = x[(i + n / 2) % n]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[(i + 1) % n]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[(i + n - 1) % n]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[mod_floor(i - 1, n)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n % 2 == 0 { y[i] = x[i ^ 1]; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n % 2 == 0 { y[i] = if i % 2 == 0 { x[i + 1] } else { x[i - 1] }; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n % 4 == 0 { y[i] = x[i / 4 * 4 + (3 - i % 4)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i & 3]; }",
    "kernel f(x: f32[n]) -> y: f32[n / 2] { y[i] = x[i << 1]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i >> 1]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[abs(i - n / 2)]; }",
    "kernel f(x: f32[n, n]) -> y: f32[n] { y[i] = sum[j in 0..n if j != i] x[i, j] * x[j, i]; }",
    "kernel f(x: f32[m, n]) -> y: f32[n + m - 1] where n >= 1, m >= 1 { y[d] = sum[i in 0..m if d - i >= 0 && d - i < n] x[i, d - i]; }",
    "kernel f(x: f32[m, n]) -> y: f32[n + m - 1] where n >= 1, m >= 1 { y[d] = sum[i in max(0, d - n + 1)..min(m, d + 1)] x[i, d - i]; }",
    "kernel f(a: f32[n], b: f32[m]) -> y: f32[n + m] { y[i] = if i < n { a[i] } else { b[i - n] }; }",
    "kernel f(x: f32[n], z: f32[p]) -> y: f32[n + 2 * p] { y[i] = if i >= p && i < n + p { x[i - p] } else { 0.0 }; }",
    "kernel f(x: f32[c, h, w], k: f32[o, c, r, s]) -> y: f32[o, h - r + 1, w - s + 1] where h >= r, w >= s { y[o1, i, j] = sum[c1, a, b] x[c1, i + a, j + b] * k[o1, c1, a, b]; }",
    "kernel f(x: f32[c, h, w], k: f32[o, c, r, s]) -> y: f32[o, (h - r) / 2 + 1, (w - s) / 2 + 1] where h >= r, w >= s { y[o1, i, j] = sum[c1, a, b] x[c1, 2 * i + a, 2 * j + b] * k[o1, c1, a, b]; }",
    "kernel f(x: f32[n], w: f32[k]) -> y: f32[n - 2 * (k - 1)] where n >= 2 * (k - 1), k >= 1 { y[i] = sum[j] w[j] * x[i + 2 * j]; }",
    "kernel f(x: f32[n], w: f32[k]) -> y: f32[n - (k - 1) * 2] where n >= 2 * k { y[i] = sum[j] w[j] * x[i + 2 * j]; }",
    "kernel f(x: f32[n]) -> y: f32[n / 4, 4] where n % 4 == 0 { y[i, j] = x[j * (n / 4) + i]; }",
    "kernel f(x: f32[n]) -> y: f32[4, n / 4] where n % 4 == 0 { y[j, i] = x[j * (n / 4) + i]; }",
    "kernel f(x: f32[n], z: f32[g, n / g]) -> y: f32[n] where g >= 1, n % g == 0 { y[i] = x[i] + z[i / (n / g), i % (n / g)]; }",
    "kernel f(x: f32[n], s: f32[n / 32]) -> y: f32[n] where n % 32 == 0 { y[i] = x[i] * s[i / 32]; }",
    "kernel f(x: f32[m, n], s: f32[m, (n + 31) / 32]) -> y: f32[m, n] { y[i, j] = x[i, j] * s[i, j / 32]; }",
    "kernel f(q: f32[b, h, n, d], k: f32[b, g, n, d]) -> y: f32[b, h, n, n] where h % g == 0, g >= 1 { y[p, a, i, j] = sum[l] q[p, a, i, l] * k[p, a / (h / g), j, l]; }",
    "kernel f(x: f32[n, d]) -> y: f32[n, d] where d % 2 == 0 { y[i, j] = if j < d / 2 { -x[i, j + d / 2] } else { x[i, j - d / 2] }; }",
    "kernel f(x: f32[n]) -> y: f32[n - 1] where n >= 1 { y[i] = x[i + 1] - x[i]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { let d[i in 0..n - 1] = x[i + 1] - x[i]; y[i] = if i < n - 1 { d[i] } else { 0.0 }; }",
    "kernel f(start: i32[s], x: f32[n]) -> t: f32[s - 1] where s >= 1 { t[i] = sum[j in start[i]..start[i + 1]] x[j]; }",
    "kernel f(x: f32[n]) -> y: f32[n, n] { y[i, j] = x[(i + j) / 2]; }",
    "kernel f(x: f32[n]) -> y: f32[n, n] { y[i, j] = x[max(i, j) - min(i, j)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n % 2 == 0 { y[i] = x[i / 2 + (i % 2) * (n / 2)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i / 2 + (i % 2) * ((n + 1) / 2)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n % 2 == 0 { y[i] = if i < n / 2 { x[2 * i] } else { x[2 * (i - n / 2) + 1] }; }",
    "kernel f(x: f32[c, h, w]) -> y: f32[c * 4, h / 2, w / 2] where h % 2 == 0, w % 2 == 0 { y[k, i, j] = x[k / 4, 2 * i + k % 4 / 2, 2 * j + k % 2]; }",
    "kernel f(x: f32[h, w]) -> y: f32[h, w] { y[i, j] = sum[a in -1..=1, b in -1..=1 if i + a >= 0 && i + a < h && j + b >= 0 && j + b < w] x[i + a, j + b]; }",
    "kernel f(u: f32[n], x: f32[n / 2]) -> y: f32[n] where n % 2 == 0 { y[i] = x[i / 2] + u[i]; }",
    "kernel f(u: f32[p, n], x: f32[m]) -> y: f32[p, n] where m >= 1 { y[i, j] = x[(i * n + j) % m] + u[i, j]; }",
    "kernel f(u: f32[m, n], x: f32[m * n]) -> y: f32[m, n] { y[i, j] = x[i * n + j] + u[i, j]; }",
    "kernel f(u: f32[m, n], x: f32[m * n]) -> y: f32[n, m] { y[i, j] = x[j * n + i] + u[j, i]; }",
    "kernel f(u: f32[n], x: f32[n / 16, 16]) -> y: f32[n] where n % 16 == 0 { y[i] = x[i / 16, i % 16] + u[i]; }",
    "kernel f(u: f32[n], x: f32[(n + 15) / 16, 16]) -> y: f32[n] { y[i] = x[i / 16, i % 16] + u[i]; }",
    "kernel f(u: f32[h, w], x: f32[2 * h, 2 * w]) -> y: f32[h, w] { y[i, j] = (sum[a in 0..2, b in 0..2] x[2 * i + a, 2 * j + b]) / 4.0 + u[i, j]; }",
    "kernel f(u: f32[b, h], x: f32[b * h, d]) -> y: f32[b, h, d] { y[p, q, r] = x[p * h + q, r] + u[p, q]; }",
    "kernel f(u: f32[h, d], x: f32[b, h * d]) -> y: f32[b, h, d] { y[p, q, r] = x[p, q * d + r] + u[q, r]; }",
    "kernel f(u: f32[a, b, c], x: f32[a * b * c]) -> y: f32[a, b, c] { y[i, j, k] = x[(i * b + j) * c + k] + u[i, j, k]; }",
    "kernel f(u: f32[a, b, c], x: f32[a * b * c]) -> y: f32[a, b, c] { y[i, j, k] = x[i * b * c + j * c + k] + u[i, j, k]; }",
    "kernel f(u: f32[a, b, c, d], x: f32[a * b * c * d]) -> y: f32[a, b, c, d] { y[i, j, k, l] = x[((i * b + j) * c + k) * d + l] + u[i, j, k, l]; }",
    "kernel f(u: f32[n], x: f32[n * (n + 1) / 2]) -> y: f32[n, n] { y[i, j] = if j <= i { x[i * (i + 1) / 2 + j] } else { u[i] }; }",
    "kernel f(u: f32[p], x: f32[n]) -> y: f32[n + 2 * p] where n >= 1 { y[i] = if i >= p && i < n + p { x[i - p] } else { u[0 | clamp] }; }",
    "kernel f(u: f32[n], x: u8[m, n / 2]) -> y: f32[m, n] where n % 2 == 0 { y[i, j] = ((x[i, j / 2] >> (if j % 2 == 0 { 0 } else { 4 })) & 15) as f32 + u[j]; }",
    "kernel f(u: f32[n], x: f32[2 * n - 1]) -> y: f32[n, n] where n >= 1 { y[i, j] = x[i - j + n - 1] + u[i]; }",
    "kernel f(u: f32[n], x: f32[2 * n - 1]) -> y: f32[n, n] { y[i, j] = x[i + j] + u[i]; }",
    "kernel f(u: f32[m], x: f32[n]) -> y: f32[m] where m <= n { y[i] = x[i] + u[i]; }",
    "kernel f(u: f32[m], x: f32[n]) -> y: f32[m] where m <= n { y[i] = x[n - m + i] + u[i]; }",
    "kernel f(u: f32[c, r], x: f32[c * r * r, h, w]) -> y: f32[c, h * r, w * r] { y[k, i, j] = x[k * r * r + (i % r) * r + j % r, i / r, j / r] + u[k, 0 | clamp]; }",
    "kernel f(u: f32[c, r], x: f32[c * r * r, h, w]) -> y: f32[c, h * r, w * r] where r >= 1 { y[k, i, j] = x[k * r * r + (i % r) * r + j % r, i / r, j / r]; }",
    "kernel f(x: f32[h, w], k: f32[r, s]) -> y: f32[(h - r + 1) * (w - s + 1), r * s] where h >= r, w >= s { y[p, q] = x[p / (w - s + 1) + q / s, p % (w - s + 1) + q % s]; }",
    "kernel f(x: f32[c, h, w], k: f32[r, s]) -> y: f32[(h - r + 1) * (w - s + 1), c * r * s] where h >= r, w >= s { y[p, q] = x[q / (r * s), p / (w - s + 1) + q / s % r, p % (w - s + 1) + q % s]; }",
    "kernel f(x: f32[c, h, w]) -> y: f32[c * 9, h * w] { y[p, q] = x[p / 9, q / w + p / 3 % 3 - 1 | 0.0, q % w + p % 3 - 1 | 0.0]; }",
    "kernel f(x: f32[m * n], u: f32[m, n]) -> y: f32[m * n] { y[i] = x[i / n * n + (n - 1 - i % n)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n % 8 == 0 { y[i] = x[i / 8 * 8 + (i % 2) * 4 + i % 8 / 2]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[n / 2 + (i - n / 2)]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[(i * 7 + 3) % n]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i * i % n]; }",
    "kernel f(u: f32[n], x: f32[n * n]) -> y: f32[n] { y[i] = x[i * n + i] + x[i * (n + 1)] + x[(n - 1 - i) * n + i] + u[i]; }",
    "kernel f(x: f32[n, n]) -> y: f32[n] { y[i] = x[i, n - 1 - i]; }",
    "kernel f(x: f32[n], z: f32[m]) -> y: f32[n + m - 1] where n >= 1, m >= 1 { y[k] = sum[i in 0..n if k - i >= 0 && k - i < m] x[i] * z[k - i]; }",
    "kernel f(x: f32[n], z: f32[m]) -> y: f32[n + m - 1] where n >= 1, m >= 1 { y[k] = sum[i in max(0, k - m + 1)..min(n, k + 1)] x[i] * z[k - i]; }",
    "kernel f(x: f32[n], lo: i32[m], hi: i32[m]) -> y: f32[m] { y[i] = sum[j in max(lo[i] as i64, 0)..min(hi[i] as i64, n)] x[j]; }",
    "kernel f(x: f32[n], k: i32[m]) -> y: f32[m] { y[i] = x[clamp(k[i] as i64, 0, n - 1)]; }",
    "kernel f(x: f32[n], k: i32[m]) -> y: f32[m] where n >= 1 { y[i] = x[clamp(k[i] as i64, 0, n - 1)]; }",
    "kernel f(x: f32[256], k: u8[m]) -> y: f32[m] { y[i] = x[k[i]]; }",
    "kernel f(x: f32[n], k: i64[m]) -> y: f32[m] where n >= 1 { y[i] = x[mod_floor(k[i], n)]; }",
    "kernel f(x: f32[n], k: i64[m]) -> y: f32[m] { y[i] = if k[i] >= 0 && k[i] < n { x[k[i]] } else { 0.0 }; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i] - x[(i + 1) | wrap] + (if i == n - 1 { x[0] } else { x[i + 1] }); }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = if i == 0 || i == n - 1 { 0.0 } else { x[i - 1] + x[i + 1] }; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = if !(i == 0 || i == n - 1) { x[i - 1] + x[i + 1] } else { 0.0 }; }",
    "kernel f(x: f32[h, w]) -> y: f32[h, w] { y[i, j] = if i >= 1 && i < h - 1 && j >= 1 && j < w - 1 { sum[a in -1..=1, b in -1..=1] x[i + a, j + b] } else { x[i, j] }; }",
    "kernel f(x: f32[h, w]) -> y: f32[h - 2, w - 2] where h >= 2, w >= 2 { y[i, j] = sum[a in 0..3, b in 0..3] x[i + a, j + b]; }",
    "kernel f(x: f32[n]) -> y: f32[n / 3] { y[i] = max[j in 0..3] x[3 * i + j]; }",
    "kernel f(x: f32[n]) -> y: f32[(n + 2) / 3] { y[i] = max[j in 3 * i..min(3 * i + 3, n)] x[j]; }",
    "kernel f(x: f32[n]) -> y: f32[(n + 2) / 3] { y[i] = sum[j in 0..3 if 3 * i + j < n] x[3 * i + j]; }",
    "kernel f(x: f32[n], u: f32[k]) -> y: f32[n / k] where k >= 1 { y[i] = sum[j in 0..k] x[k * i + j]; }",
    "kernel f(x: f32[n], u: f32[k]) -> y: f32[(n + k - 1) / k] where k >= 1 { y[i] = sum[j in k * i..min(k * i + k, n)] x[j]; }",
    "kernel f(x: f32[n], u: f32[k]) -> y: f32[n] where k >= 1, n % k == 0 { y[i] = sum[j in 0..k] x[i / k * k + j]; }",
    "kernel f(x: f32[n], u: f32[k], v: f32[m]) -> y: f32[n] where n == m * k { y[i] = x[i] * v[i / k] + u[i % k]; }",
    "kernel f(x: f32[n], u: f32[k], v: f32[m]) -> y: f32[m, k] where n == m * k { y[i, j] = x[i * k + j]; }",
    "kernel f(x: f32[n], u: f32[k]) -> y: f32[n / k, k] where k >= 1 { y[i, j] = x[i * k + j]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[n - 1 - (n - 1 - i)] + x[(n - 1 - i) / 2]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[(n + i) / 2]; }",
    "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[(2 * i + 1) / 2] + x[(3 * i + 2) / 3] + x[(i + n) % n]; }",
    "kernel f(x: f32[n]) -> y: f32[2 * n - 1] where n >= 1 { y[i] = if i % 2 == 0 { x[i / 2] } else { 0.5 * (x[i / 2] + x[i / 2 + 1]) }; }",
    "kernel f(x: f32[n], z: f32[m]) -> y: f32[m] where n >= m / 2 + 1 { y[i] = z[i] + (if i <= m / 2 { x[i] } else { x[m - i] }); }",
    "kernel f(x: f32[n / 2 + 1], z: f32[n]) -> y: f32[n] { y[i] = z[i] + (if i <= n / 2 { x[i] } else { x[n - i] }); }",
    "kernel f(x: f32[a, n], z: f32[b, n], u: f32[c, n]) -> y: f32[a + b + c, n] { y[i, j] = if i < a { x[i, j] } else if i < a + b { z[i - a, j] } else { u[i - a - b, j] }; }",
    "kernel f(x: f32[n], t: f32[16, 16]) -> y: f32[n] { y[i] = sum[k in 0..16] t[i % 16, k] * x[i - i % 16 + k | 0.0]; }",
    "kernel f(x: f32[n], t: f32[16, 16]) -> y: f32[n] where n % 16 == 0 { y[i] = sum[k in 0..16] t[i % 16, k] * x[i - i % 16 + k]; }",
    "kernel f(x: f32[n, 4]) -> y: f32[n] { y[i] = x[i, 0] + x[i, 3] + x[i, (i + 2) % 4] + x[i, 3 - i % 4]; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n >= 4 { y[i] = x[0] + x[3] + x[n - 4] + x[i % 4]; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n > 0 && n % 2 == 1 { y[i] = x[n / 2] + x[n - n / 2 - 1] + x[(n - 1) / 2]; }",
    "kernel f(x: f32[n]) -> y: f32[n] where n == 5 || n == 7 { y[i] = x[4]; }",
    "kernel f(x: f32[n]) -> f32 where n >= 1 { max[i in 0..n - 1] x[i + 1] - x[0] }",
    "kernel f(x: f32[n]) -> f32 { sum[i in 0..n, j in i + 1..n] x[i] * x[j] }",
    "kernel f(x: f32[n]) -> f32 { sum[i in 0..n / 2] x[i] * x[n - 1 - i] + x[n / 2 | 0.0] }",
    "kernel f(x: f32[n]) -> f32 { sum[i in 1..n - 1] (x[i - 1] - 2.0 * x[i] + x[i + 1]) }",
    "kernel f(a: f32[n, n]) -> f32 { sum[i in 0..n, j in 0..i, k in 0..j] a[i, j] * a[j, k] * a[i - j, j - k] }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n * m] { y[i] = if mod_floor(-i, n + m) >= 0 && mod_floor(-i, n + m) < n + m { x[mod_floor(-i, n + m)] } else { 0.0 }; }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n * m] { y[i] = x[mod_floor(-i, n + m)]; }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n] { y[i] = x[mod_floor(-i, n + m)]; }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n] { y[i] = x[mod_floor(i - 2 * i, n + m)]; }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n] { y[i] = x[mod_floor(2 * i, n + m)]; }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n] { y[i] = x[max(min(i * n + 4, n + m - 1), 0)]; }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n] { y[i] = x[max(min(i * m, n + m - 1), 0)]; }",
    "kernel f(x: f32[n * m], a: f32[n], b: f32[m]) -> y: f32[n] where m >= 1 { y[i] = x[clamp(2 * i + 2 * m, 0, n * m - 1)]; }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n] where n % 4 == 0, m >= 2 { y[i] = x[i - i % 4 + (i * m) % 4]; }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n] where n % 4 == 0, m >= 2 { y[i] = x[i - i % 4 + (i + m) % 4]; }",
    "kernel f(x: f32[n + m], a: f32[n], b: f32[m]) -> y: f32[n] where n % 4 == 0, m >= 2 { y[i] = x[(i * m) % 4]; }",
    "kernel f(x: f32[n], a: f32[n], b: f32[m]) -> y: f32[n] where m >= 1 { y[i] = x[div_floor(i * m, m)]; }",
    "kernel f(u: f32[n], x: f32[n * (n + 1) / 2]) -> y: f32[n] { y[i] = u[i] + x[i * (i + 1) / 2]; }",
    "kernel f(u: f32[n], x: f32[n * (n + 1) / 2]) -> y: f32[n, n] { y[i, j] = u[i] + (if j <= i { x[i * (i + 1) / 2 + j] } else { 0.0 }); }",
];

#[test]
fn common_subscripts_are_proved() {
    for text in PROVED {
        assert!(!asks_the_call(&kernel(text)), "left to the call: {text}");
    }
}

#[test]
fn what_scalars_decide_is_left_to_the_call() {
    for text in [
        "kernel f(x: f32[n], z: f32[m], k: i64) -> y: f32[m] { y[i] = z[i] + x[i + k / 2] + x[i * 2 + min(k, 3)]; }",
        "kernel f(x: f32[n], w: f32[k], m: i64, s: i64, d: i64) -> y: f32[m] where s >= 1, d >= 1, m >= 0, (m - 1) * s + (k - 1) * d < n { y[i] = sum[j] w[j] * x[i * s + j * d]; }",
        "kernel f(x: f32[n], w: f32[k], m: i32, s: i32, d: i32) -> y: f32[m] { y[i] = sum[j] w[j] * x[i * (s as i64) + j * (d as i64)]; }",
        "kernel f(x: f32[n], s: i64) -> y: f32[n] { y[i] = x[mod_floor(i + s, n)]; }",
        "kernel f(u: f32[m], x: f32[n], w: f32[k], s: i64, d: i64) -> y: f32[m] where s >= 1, d >= 1, (m - 1) * s + (k - 1) * d < n { y[i] = u[i] + sum[j] w[j] * x[i * s + j * d]; }",
        "kernel f(u: f32[m], x: f32[n], w: f32[k], s: i32, d: i32) -> y: f32[m] where s >= 1, d >= 1, (m - 1) * (s as i64) + (k - 1) * (d as i64) < n { y[i] = u[i] + sum[j] w[j] * x[i * (s as i64) + j * (d as i64)]; }",
        "kernel f(u: f32[n], x: f32[n * k], k: i64) -> y: f32[n] where k >= 1 { y[i] = u[i] + sum[j in 0..k] x[i * k + j]; }",
        "kernel f(u: f32[n], x: f32[m], k: i64) -> y: f32[n] where k >= 1, n * k <= m { y[i] = u[i] + sum[j in 0..k] x[i * k + j]; }",
        "kernel f(x: f32[h, w], r: i64) -> y: f32[h, w] where r >= 0 { y[i, j] = sum[a in max(i - r, 0)..min(i + r + 1, h), b in max(j - r, 0)..min(j + r + 1, w)] x[a, b]; }",
        "kernel f(x: f32[h, w], r: i32) -> y: f32[h, w] where r >= 0 { y[i, j] = sum[a in max(i - (r as i64), 0)..min(i + (r as i64) + 1, h)] x[a, j]; }",
    ] {
        kernel(text);
    }
}

/// Binds `x: f32[n]`, `w: f32[r]` and `z: f32[m]` with two scalars.
fn dilated(n: i64, r: i64, m: i64, stride: i128, step: i128) -> Result<(), String> {
    let kernel = kernel(
        "kernel f(x: f32[n], w: f32[r], z: f32[m], s: i64, d: i64) -> y: f32[m] { y[i] = z[i] + sum[k] w[k] * x[i * s + k * d]; }",
    );
    let shapes = [[n], [r], [m]];
    let [x, w, z] = [0, 1, 2].map(|array: usize| CallArgument::Array { element: Type::F32, shape: &shapes[array] });
    let scalars = [stride, step].map(|value| CallArgument::Scalar(Literal::Int(value)));
    bind(&kernel, &[x, w, z, scalars[0], scalars[1]]).map(drop).map_err(|error| error.to_string())
}

#[test]
fn the_call_checks_the_corners() {
    assert_eq!(dilated(5, 2, 2, 2, 1), Ok(()));
    assert_eq!(dilated(5, 2, 2, 3, 1), Ok(()));
    assert!(dilated(5, 2, 2, 4, 1).is_err_and(|message| message.contains("x[5]")), "{:?}", dilated(5, 2, 2, 4, 1));
    assert!(dilated(5, 2, 3, 2, -1).is_err_and(|message| message.contains("x[-1]")), "{:?}", dilated(5, 2, 3, 2, -1));
    // Nothing is read where a range is empty.
    assert_eq!(dilated(5, 2, 0, 100, 1), Ok(()));
    assert_eq!(dilated(0, 0, 2, 1, 1), Ok(()));
    // 4 * 2^62 wraps to 0, which is in range, as 1 * 2^62 is not.
    assert!(dilated(5, 1, 5, 1 << 62, 0).is_err());
}

fn refused(text: &str, code: u16, says: &str) {
    let problems = check(&Source::new("test", text)).problems;
    let [problem] = &problems[..] else { panic!("{text}\n{problems:?}") };
    assert_eq!(problem.code.0, code, "{text}\n{problem:?}");
    assert!(problem.message.contains(says), "{}", problem.message);
}

#[test]
fn counterexamples() {
    for (text, says) in [
        ("kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i + 1]; }", "reads x[1] when n = 1, i = 0"),
        ("kernel f(x: f32[n]) -> y: f32[n] where n >= 100 { y[i] = x[i + 1]; }", "reads x[100] when n = 100, i = 99"),
        ("kernel f(x: f32[n]) -> y: f32[n] where n % 64 == 0 { y[i] = x[i / 64 * 64 + 64]; }", "reads x[64] when n = 64, i = 63"),
        ("kernel f(x: f32[n]) -> y: f32[n] { y[i] = if i > 40 { x[i - 41] + x[i + 1] } else { 0.0 }; }", "reads x[42]"),
        ("kernel f(x: f32[n], z: f32[n / 32]) -> y: f32[n] { y[i] = x[i] * z[i / 32]; }", "reads z[0] when n = 1, i = 0"),
    ] {
        refused(text, 204, says);
    }
}

#[test]
fn coverings() {
    for left in [
        "y: f32[2 * n + 1] { y[2 * i] = x[i]; y[2 * i + 1] = x[i]; y[2 * n] = 0.0; }",
        "y: f32[2 * n + 2] { y[0] = 1.0; y[2 * i + 1] = x[i]; y[2 * i + 2] = x[i]; y[2 * n + 1] = 0.0; }",
        "y: f32[n + 2] { y[0] = 0.0; y[i + 1] = x[i]; y[n + 1] = 1.0; }",
        "y: f32[n + 1] { y[n] = 0.0; y[i in 0..n] = x[i]; }",
        "y: f32[2 * n] { y[i in 0..n] = x[i]; y[n + i] = x[i]; }",
        "y: f32[3 * n] { y[3 * i + 2] = x[i]; y[3 * i] = x[i]; y[3 * i + 1] = x[i]; }",
        "y: f32[3 * n + 2] { y[3 * i + 2] = x[i]; y[3 * i + 3] = x[i]; y[3 * i + 4] = x[i]; y[0] = 0.0; y[1] = 0.0; }",
        "y: f32[n * n] { y[n * i + j] = x[i] * x[j]; }",
        "y: f32[n, n + 1] { y[i, 0] = x[i]; y[i, j + 1] = x[i] * x[j]; }",
        "y: f32[n + 1, n + 1] { y[i + 1, j + 1] = x[i] * x[j]; y[i + 1, 0] = x[i]; y[0, j] = 1.0; }",
        "y: f32[n + 1, n + 1] { y[i, 0] = 0.5; y[0, j + 1] = x[j]; y[i + 1, j + 1] = x[i] * x[j]; }",
        "y: f32[2 * n, n] { y[2 * i, j] = x[i] * x[j]; y[2 * i + 1, n - 1 - j] = x[i] - x[j]; }",
        "y: f32[n] { y[n - 1 - i] = x[i]; }",
    ] {
        kernel(&format!("kernel f(x: f32[n]) -> {left}"));
    }
    kernel("kernel f(x: f32[n], z: f32[n / 2], w: f32[(n + 1) / 2]) -> y: f32[n] { y[2 * i] = w[i]; y[2 * i + 1] = z[i]; }");
    refused("kernel f(x: f32[n]) -> y: f32[2 * n + 1] { y[2 * i] = x[i]; y[2 * i + 1] = x[i]; y[0] = 0.0; }", 402, "`y[0]`");
    refused("kernel f(x: f32[n]) -> y: f32[2 * n + 1] { y[2 * i] = x[i]; y[2 * i + 1] = x[i]; }", 403, "`y[0]` when n = 0");
    refused("kernel f(x: f32[n]) -> y: f32[n + 1, n] { y[i + 1, j] = x[i] * x[j]; }", 403, "`y[0, 0]` when n = 1");
    refused("kernel f(x: f32[n]) -> y: f32[1] { y[i % 1] = x[i]; }", 403, "`y[0]` when n = 0");
    refused("kernel f(x: f32[n]) -> y: f32[1] where n >= 2 { y[i * 0] = x[i]; }", 402, "`y[0]` is defined twice when n = 2");
}

#[test]
fn kernels_that_expand_without_end_are_refused() {
    let mut text = "kernel k0(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }\n".to_string();
    for level in 1..40 {
        let below = level - 1;
        text += &format!("kernel k{level}(x: f32[n]) -> y: f32[n] {{ let a = k{below}(x); let b = k{below}(a); y[i] = b[i]; }}\n");
    }
    let problems = check(&Source::new("test", text)).problems;
    assert!(problems.first().is_some_and(|problem| problem.code.0 == 607), "{problems:?}");
}

#[test]
fn u64_subscripts_by_a_rule_stay_what_they_are() {
    // As i64 they would be below 0: `clamp` would find the first element, and the others some other.
    let text = "kernel f(x: i64[n], k: u64[m]) -> (a: i64[m], b: i64[m], c: i64[m], d: i64[m]) {\n\
        a[i] = x[k[i] | clamp]; b[i] = x[k[i] | wrap]; c[i] = x[k[i] | symmetric]; d[i] = x[k[i] | mirror];\n}";
    let printed = |text: &str| print::print(&check(&Source::new("test", text)).program.expect("a program"));
    let ranges = printed("kernel f(x: f32[n], a: u64) -> f32 { sum[j in 0..a if j < n] x[j] }");
    assert!(ranges.contains("min(a, 9223372036854775807"), "{ranges}");
    let program = printed(text);
    for wanted in ["min(k[i], 9223372036854775807", "k[i] % (n as u64)", "k[i] % ((n as u64) * 2", "% ((n as u64) * 2"] {
        assert!(program.contains(wanted), "{wanted}\n{program}");
    }
}

#[test]
fn u64_subscripts_are_proved() {
    for text in [
        "kernel f(x: f32[8], k: u64[n]) -> y: f32[n] { y[i] = x[k[i] % 8]; }",
        "kernel f(x: f32[8], k: u64[n]) -> y: f32[n] { y[i] = x[min(k[i], 7)]; }",
        "kernel f(x: f32[256], k: u64[n]) -> y: f32[n] { y[i] = x[k[i] >> 56]; }",
        "kernel f(x: f32[16], k: u64[n]) -> y: f32[n] { y[i] = x[k[i] & 15]; }",
    ] {
        assert!(!asks_the_call(&kernel(text)), "{text}");
    }
}

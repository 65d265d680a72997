//! The mathematical functions of gk, written once.
//!
//! The files `src/*.gk` are gk scalar functions and, at the same time, Rust. The Rust compiler builds them into
//! [`mod@f32`] and [`mod@f64`]; gk's own compiler reads the same texts from [`SOURCES`] and emits them as CUDA
//! device functions. They consist of IEEE 754 operations alone (addition, multiplication, division, square root,
//! fused multiply-add where it is written, integer arithmetic on the bits), so they give the same bits everywhere.
//!
//! Every function stays within 2 ulp of the true value over the whole range of its arguments, subnormal arguments
//! and results included, as far as measured. The maxima stand in the documentation of each function, and
//! `cargo test -p gpukc-math -- --nocapture` measures them again. Special cases are those of C99 and IEEE 754.
//!
//! # Speed on a CPU
//! `mul_add` becomes one instruction only where the target has it. On x86-64 that takes a caller compiled for it:
//! all functions are `#[inline(always)]`, so a loop in a function with `#[target_feature(enable = "avx2,fma")]`
//! has them inlined, and most of them vectorised. Elsewhere the results are the same bits, only slower.
//!
//! # The common subset
//! One item per function: `fn name(x: f32) -> f32 { ... }`, and a function calls only those that stand above it,
//! in its own file or in an earlier one. Bodies hold `let`, `let mut`, assignments, `while`, `if` with an `else`,
//! and a final expression. Integer arithmetic never overflows, or says `wrapping_`. The intrinsics are `mul_add
//! sqrt abs trunc copysign min max is_nan to_bits f32_from_bits f64_from_bits mul_high wrapping_add wrapping_sub
//! wrapping_mul`, with bits as signed integers of the same width.

mod intrinsics;

/// The functions for single precision, named `exp_f32` and so on.
pub mod f32 {
    #![allow(clippy::all, unused_assignments, unused_parens, missing_docs)]
    #[allow(unused_imports)]
    use crate::intrinsics::*;
    include!(concat!(env!("OUT_DIR"), "/f32.rs"));
}

/// The functions for double precision, named `exp_f64` and so on.
pub mod f64 {
    #![allow(clippy::all, unused_assignments, unused_parens, missing_docs)]
    #[allow(unused_imports)]
    use crate::intrinsics::*;
    include!(concat!(env!("OUT_DIR"), "/f64.rs"));
}

/// The texts, as (file name, text): every function refers only to functions above it, in its own text or an earlier one.
pub const SOURCES: &[(&str, &str)] = &[
    ("f32_basic.gk", include_str!("f32_basic.gk")),
    ("f32_exp.gk", include_str!("f32_exp.gk")),
    ("f32_log.gk", include_str!("f32_log.gk")),
    ("f32_trig.gk", include_str!("f32_trig.gk")),
    ("f32_erf.gk", include_str!("f32_erf.gk")),
    ("f64_basic.gk", include_str!("f64_basic.gk")),
    ("f64_exp.gk", include_str!("f64_exp.gk")),
    ("f64_log.gk", include_str!("f64_log.gk")),
    ("f64_trig.gk", include_str!("f64_trig.gk")),
    ("f64_erf.gk", include_str!("f64_erf.gk")),
];

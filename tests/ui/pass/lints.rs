//! Every lint that a crate may ask for, on top of all warnings; and kernels and parameters with names of crates, of functions
//! that come with kernels, and of constants.
#![forbid(missing_docs, unsafe_code)]
#![deny(warnings, future_incompatible, rust_2018_idioms, rust_2021_compatibility, unused, let_underscore)]
#![deny(absolute_paths_not_starting_with_crate, ambiguous_negative_literals, elided_lifetimes_in_paths)]
#![deny(explicit_outlives_requirements, meta_variable_misuse, missing_debug_implementations, non_ascii_idents)]
#![deny(single_use_lifetimes, trivial_casts, trivial_numeric_casts, unit_bindings, unnameable_types, unused_extern_crates)]
#![deny(unused_import_braces, unused_lifetimes, unused_macro_rules, unused_qualifications, unused_results, variant_size_differences)]

/// A constant that a parameter is called like.
pub const N: i64 = 1;
/// A static.
pub static LIMIT: i64 = 2;
/// A unit.
#[derive(Clone, Copy, Debug)]
pub struct Unit;

gpukc::gpu_kernel! {
    kernel std(N: i64, LIMIT: f32, x: f32[m]) -> Unit: f32[m] { Unit[i] = if i < N { x[i] } else { LIMIT }; }
    kernel core(Some: f32, None: f32, Ok: f32, Err: f32, x: f32[n]) -> KERNEL: f32[n] { KERNEL[i] = x[i] + Some + None + Ok + Err; }
    kernel half(n: i64, gen: i32, try: i32) -> (Results: i32[n], sum_of: i32) where n > 0 { Results[i] = gen; sum_of = try; }
    kernel into(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }
    kernel on(cuda: f32[n], on: f32[n]) -> plan: f32[n] { plan[i] = cuda[i] + on[i]; }
}

/// Calls them.
pub fn call(gpu: &gpukc::Gpu, x: &gpukc::DeviceArray<f32, 1>) -> Result<f32, gpukc::Error> {
    let half::Results { Results, sum_of } = half(gpu, N, 2, 3)?;
    drop((Results, sum_of.value()?));
    let y = core(gpu, 1.0, 2.0, 3.0, 4.0, &std(gpu, LIMIT, 0.5, x)?)?;
    let mut z = on(gpu, &into(gpu, &y)?, x)?;
    on::into(gpu, x, &y, &mut z)?;
    on::on_in_place_cuda(gpu.stream(), &mut z, x)?;
    z.reshape([])?.value()
}

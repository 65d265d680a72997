//! name: array_kernels
//! The crate has another name.
#![deny(warnings, missing_docs)]

array_kernels::gpu_kernel! {
    kernel scale(a: f32, x: f32[n]) -> y: f32[n] { y[i] = a * x[i]; }
}

/// Calls it.
pub fn call(gpu: &array_kernels::Gpu, x: &mut array_kernels::DeviceArray<f32, 1>) -> Result<(), array_kernels::Error> {
    let _: array_kernels::DeviceArray<f32, 1> = scale(gpu, 2.0, x)?;
    scale::in_place_x(gpu, 2.0, x)
}

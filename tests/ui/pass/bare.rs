//! Without preludes.
#![no_implicit_prelude]
#![deny(warnings, missing_docs)]

::gpukc::gpu_kernel! {
    /// In front and behind.
    kernel pairs(x: f32[n], k: u8) -> (y: f32[n], z: bf16[n], any_of: bool) {
        y[i] = x[i] + 1.0;
        z[i] = x[n - 1 - i];
        any_of = any[i] (x[i] > k as f32);
    }
    kernel backwards(x: f32[n]) -> y: f32[n] { y[i] = x[n - 1 - i]; }
}

::gpukc::gpu_kernel!("kernels.gk");

/// Calls one of them.
pub fn call(gpu: &::gpukc::Gpu, x: &mut ::gpukc::DeviceArray<f32, 1>) -> ::core::result::Result<bool, ::gpukc::Error> {
    let pairs::Results { y, z, any_of } = pairs(gpu, x, 3)?;
    ::core::mem::drop((y, z));
    backwards::prepare(gpu, [3])?;
    any_of.value()
}

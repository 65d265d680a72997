//! name: gpukc diagnostic
//! A dependency is called like rustc's attributes for diagnostics.
#![deny(warnings, missing_docs)]

gpukc::gpu_kernel! {
    kernel total(x: f32[n]) -> f32 { sum[k] x[k] }
}

/// Uses both.
pub fn call(gpu: &diagnostic::Gpu, x: &diagnostic::DeviceArray<f32, 1>) -> Result<f32, gpukc::Error> {
    total(gpu, x)?.value()
}

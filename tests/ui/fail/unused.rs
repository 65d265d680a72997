//! Results that nobody uses.
#![deny(unused_must_use)]
gpukc::gpu_kernel! {
    kernel twice(x: f32[n]) -> y: f32[n] { y[i] = x[i] + x[i]; }
    kernel both(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; z[i] = -x[i]; }
}

pub fn call(gpu: &gpukc::Gpu, x: &gpukc::DeviceArray<f32, 1>) -> Result<(), gpukc::Error> {
    twice(gpu, x);
    twice(gpu, x)?;
    both(gpu, x)?;
    x.view(0..1)?;
    gpu.stream().record()?;
    gpukc::build::Files::new();
    Ok(())
}

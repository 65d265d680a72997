//! Several errors of one call, each under its tokens, behind text that is not ASCII; and no further errors where the kernels are used.
gpukc::gpu_kernel! {
    /// Größe 🎉
    kernel shifted(x: f32[n]) -> y: f32[n] {
        /* ä */ y[i] = x[i - 1] + x[
            i + 1
        ];
    }
    kernel types(k: i32, x: f32[n]) -> y: f32[n] { y[i] = x[i] + k; }
}

pub fn call(gpu: &gpukc::Gpu, x: &mut gpukc::DeviceArray<f32, 1>) -> Result<(), gpukc::Error> {
    let y = shifted(gpu, x)?;
    shifted::in_place_x(gpu, x)?;
    types::into(gpu, 1, &y, x)
}

//! Names that are not there, or are there twice.
gpukc::gpu_kernel! {
    kernel f(x: f32[n]) -> y: f32[n] { y[i] = z[i]; }
    kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[j]; }
    kernel g(x: f32[n], x: f32[n]) -> y: f32[n] { y[i] = x[i]; }
    kernel h(x: f32[n]) -> (y: f32[n], y: f32[n]) { y[i] = x[i]; }
}

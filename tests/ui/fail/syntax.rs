//! Mistakes that the parser finds.
gpukc::gpu_kernel! {
    kernel missing(x: f32[n]) -> y: f32[n] { y[i] = x[i] + 1.0 }
    kernel doubled(x: f32[n]) -> y: f32[n] { y[i] = x[i] ++ 1.0; }
    kernel text(x: f32[n]) -> y: f32[n] { y[i] = "one"; }
    kernel unknown(x: f33[n]) -> y: f32[n] { y[i] = x[i]; }
}

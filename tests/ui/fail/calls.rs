//! Right kernels, called wrongly: rustc checks element types, ranks, counts, and what may be done in place.
gpukc::gpu_kernel! {
    kernel total(x: f32[n]) -> f32 { sum[k] x[k] }
    kernel transpose(x: f32[m, n]) -> y: f32[n, m] { y[j, i] = x[i, j]; }
}

pub fn call(gpu: &gpukc::Gpu, x: &mut gpukc::DeviceArray<f32, 2>, k: &gpukc::DeviceArray<i32, 1>) {
    let _ = total(gpu, x);
    let _ = total(gpu, k);
    let _ = transpose(gpu);
    let _ = transpose::in_place_x(gpu, x);
    let _: f32 = total(gpu, &gpu.zeros([1]).unwrap()).unwrap();
}

//! Right kernels, called wrongly: rustc checks element types, ranks, counts, what is written, and what may be done in place.
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

gpukc::gpu_kernel! {
    kernel normalised(x: f32[n]) -> y: f32[n] { let t[i] = exp(x[i]); y[i] = t[i] / sum[k] t[k]; }
    kernel both(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; z[i] = -x[i]; }
}

pub fn in_place(gpu: &gpukc::Gpu, x: &mut gpukc::DeviceArray<f32, 1>, values: &[f32]) -> Result<(), gpukc::Error> {
    normalised::on_in_place_x(gpu.stream(), x)?;
    both::in_place_x(gpu, x)?;
    normalised(gpu, x)?;
    normalised::into(gpu, &values, &mut x.view(0..1)?)?;
    normalised::prepare(gpu, 3)
}

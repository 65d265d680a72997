//! A matrix product with what follows it, in one kernel: the plan has the tiles. `cargo run --example matmul`

use gpukc::{DeviceArray, Error, Gpu};

gpukc::gpu_kernel! {
    fn relu(x: f32) -> f32 { max(x, 0.0) }

    /// A layer of a network: `relu(x · w + b)`.
    kernel layer(x: f32[m, k], w: f32[k, n], b: f32[n]) -> y: f32[m, n] {
        y[i, j] = relu((sum[l] x[i, l] * w[l, j]) + b[j]);
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let (m, k, n) = (60, 70, 50);
    let values = |count: usize, step: usize| -> Vec<f32> { (0..count).map(|i| ((i * step) % 17) as f32 - 8.0).collect() };
    let (x, w, b) = (values(m * k, 5), values(k * n, 3), values(n, 7));

    let (dx, dw) = (DeviceArray::new(&gpu, [m, k], &x)?, DeviceArray::new(&gpu, [k, n], &w)?);
    let y = layer(&gpu, &dx, &dw, &gpu.upload(&b)?)?;

    // Whole numbers: every order gives the same.
    let expected = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * w[l * n + j]).sum::<f32>() + b[j];
    let y = y.to_vec()?;
    assert!((0..m * n).all(|at| y[at] == expected(at / n, at % n).max(0.0)));
    println!("{gpu:?}: y[0, 0..4] = {:?}", &y[..4]);
    println!("{}", layer::plan());
    Ok(())
}

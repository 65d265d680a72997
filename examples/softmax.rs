//! Softmax of each row: intermediate results that never reach memory. `cargo run --example softmax`

use gpukc::{DeviceArray, Error, Gpu};

gpukc::gpu_kernel! {
    /// Probabilities from scores, row by row.
    kernel softmax(x: f32[m, n]) -> y: f32[m, n] {
        let top[i] = max[j] x[i, j];
        let e[i, j] = exp(x[i, j] - top[i]);
        y[i, j] = e[i, j] / sum[k] e[i, k];
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let (rows, columns) = (32, 1000);
    let scores: Vec<f32> = (0..rows * columns).map(|i| (i % 13) as f32).collect();

    let y = softmax(&gpu, &DeviceArray::new(&gpu, [rows, columns], &scores)?)?.to_vec()?;

    for row in y.chunks(columns) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
    }
    println!("{gpu:?}: the first row starts with {:?}", &y[..4]);
    Ok(())
}

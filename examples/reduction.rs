//! Sums, extremes and their places. The order of a sum is part of the language: every device gives the same bits.
//! `cargo run --example reduction`

use gpukc::{Error, Gpu};

gpukc::gpu_kernel! {
    /// All of them in one pass over `x`.
    kernel summary(x: f32[n]) -> (total: f32, average: f32, least: f32, most: f32, at: i64, positive: i64) {
        total = sum[k] x[k];
        average = mean[k] x[k];
        least = min[k] x[k];
        most = max[k] x[k];
        at = argmax[k] x[k];
        positive = count[k] (x[k] > 0.0);
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let x: Vec<f32> = (0..100_000).map(|i| ((i * 7919) % 10_007) as f32 - 5000.0).collect();

    let found = summary(&gpu, &gpu.upload(&x)?)?;

    let at = found.at.value()? as usize;
    assert_eq!(x[at], found.most.value()?);
    assert_eq!(found.positive.value()? as usize, x.iter().filter(|&&x| x > 0.0).count());
    println!("sum {}, mean {}", found.total.value()?, found.average.value()?);
    println!("from {} to {}, first at {at}", found.least.value()?, found.most.value()?);
    Ok(())
}

//! A dot product and what is made of it: scalars stay on the device until their value is asked for.
//! `cargo run --example dot_product`

use gpukc::{Error, Gpu};

gpukc::gpu_kernel! {
    /// Each term is added with one rounding.
    kernel dot(x: f32[n], y: f32[n]) -> f32 { sum[k] x[k] * y[k] }

    /// The cosine of the angle between two vectors.
    kernel cosine(x: f32[n], y: f32[n]) -> f32 {
        let xy = dot(x, y);
        let xx = dot(x, x);
        let yy = dot(y, y);
        xy / sqrt(xx * yy)
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let x = gpu.upload(&[1.0, 2.0, 2.0])?;
    let y = gpu.upload(&[2.0, 1.0, -2.0])?;

    assert_eq!(dot(&gpu, &x, &y)?.value()?, 0.0);
    assert_eq!(cosine(&gpu, &x, &x)?.value()?, 1.0);
    println!("x · y = {}", dot(&gpu, &x, &y)?.value()?);
    Ok(())
}

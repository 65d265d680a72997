//! Two vectors, element by element: the smallest whole program. `cargo run --example vector_add`

use gpukc::{Error, Gpu};

gpukc::gpu_kernel! {
    /// `a + b`.
    kernel vector_add(a: f32[n], b: f32[n]) -> c: f32[n] {
        c[i] = a[i] + b[i];
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let a: Vec<f32> = (0..1_000_000).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..1_000_000).map(|i| 2.0 * i as f32).collect();

    let c = vector_add(&gpu, &gpu.upload(&a)?, &gpu.upload(&b)?)?.to_vec()?;

    assert!(c.iter().enumerate().all(|(i, &c)| c == 3.0 * i as f32));
    println!("{gpu:?}: c[999_999] = {}", c[999_999]);
    Ok(())
}

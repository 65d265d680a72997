//! Heat that spreads over a plate: a stencil, two arrays in turn, and nothing waited for until the end.
//! `cargo run --example heat`

use gpukc::{DeviceArray, Error, Gpu};

gpukc::gpu_kernel! {
    /// One step of the heat equation; outside it is cold.
    kernel step(rate: f32, t: f32[h, w]) -> next: f32[h, w] {
        next[i, j] = t[i, j] + rate * (
            t[i - 1 | 0.0, j] + t[i + 1 | 0.0, j] + t[i, j - 1 | 0.0] + t[i, j + 1 | 0.0] - 4.0 * t[i, j]
        );
    }

    kernel total(t: f32[h, w]) -> f32 { sum[i, j] t[i, j] }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let (height, width) = (64, 64);
    let mut plate = vec![0.0f32; height * width];
    plate[32 * width + 32] = 1000.0;

    let mut now = DeviceArray::new(&gpu, [height, width], &plate)?;
    let mut next = gpu.zeros([height, width])?;
    for _ in 0..50 {
        step::into(&gpu, 0.2, &now, &mut next)?;
        std::mem::swap(&mut now, &mut next);
    }

    let warmth = total(&gpu, &now)?.value()?;
    let plate = now.to_vec()?;
    // None has reached the edge yet: what is there is what there was.
    assert!((warmth - 1000.0).abs() < 1.0, "{warmth}");
    assert!((plate[32 * width + 22] - plate[42 * width + 32]).abs() < 1e-5, "it spreads alike in all directions");
    println!("{gpu:?}: {warmth} in all, {} in the middle", plate[32 * width + 32]);
    Ok(())
}

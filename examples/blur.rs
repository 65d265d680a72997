//! A blur with what to do at the edges written in the subscripts, several times in turn. `cargo run --example blur`

use gpukc::{DeviceArray, Error, Gpu};

gpukc::gpu_kernel! {
    /// The mean of each 3 × 3 neighbourhood; the edge repeats outwards.
    kernel blur(x: u8[h, w]) -> y: u8[h, w] {
        y[i, j] = ((sum[di in -1..=1, dj in -1..=1] x[i + di | clamp, j + dj | clamp]) / 9) as u8;
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let (height, width) = (48, 64);
    // A bright square on a dark ground.
    let pixel = |i: usize, j: usize| if (16..32).contains(&i) && (24..40).contains(&j) { 252u8 } else { 0 };
    let image: Vec<u8> = (0..height * width).map(|at| pixel(at / width, at % width)).collect();

    let mut from = DeviceArray::new(&gpu, [height, width], &image)?;
    let mut to = gpu.zeros([height, width])?;
    for _ in 0..4 {
        blur::into(&gpu, &from, &mut to)?;
        std::mem::swap(&mut from, &mut to);
    }

    let blurred = from.to_vec()?;
    assert_eq!((blurred[24 * width + 32], blurred[0]), (252, 0));
    assert!((1..252).contains(&blurred[16 * width + 32]));
    for row in blurred.chunks(width).step_by(4) {
        println!("{}", row.iter().step_by(2).map(|&value| b" .:-=+*#%@"[usize::from(value) * 9 / 252] as char).collect::<String>());
    }
    Ok(())
}

//! The Mandelbrot set as a picture: a loop in scalar code, and an image file. `cargo run --example mandelbrot`

use gpukc::{Error, Gpu};

gpukc::gpu_kernel! {
    /// After how many steps a point leaves the circle of radius 2.
    fn escape(re: f32, im: f32, limit: i32) -> i32 {
        let mut x = 0.0;
        let mut y = 0.0;
        let mut steps = 0;
        while steps < limit && x * x + y * y <= 4.0 {
            let next = x * x - y * y + re;
            y = 2.0 * x * y + im;
            x = next;
            steps = steps + 1;
        }
        steps
    }

    /// Red, green and blue of a picture around a point; `scale` is the distance of two pixels.
    kernel mandelbrot(width: i64, height: i64, re: f32, im: f32, scale: f32, limit: i32) -> rgb: u8[height, width, 3]
        where width >= 0, height >= 0
    {
        let steps[i in 0..height, j in 0..width]: i32 =
            escape(re + (j - width / 2) as f32 * scale, im + (i - height / 2) as f32 * scale, limit);
        rgb[i, j, c] = if steps[i, j] == limit { 0 as u8 } else { (steps[i, j] * (5 + 4 * (c as i32))) as u8 };
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let (width, height) = (320, 240);
    let rgb = mandelbrot(&gpu, width, height, -0.6, 0.0, 0.01, 200)?.to_vec()?;

    let middle = 3 * (120 * 320 + 160);
    assert_eq!(rgb[middle..middle + 3], [0, 0, 0], "the middle is in the set");
    let path = std::env::temp_dir().join("mandelbrot.png");
    write(&path, width as u32, height as u32, &rgb).expect("a file");
    println!("{gpu:?}: {}", path.display());
    Ok(())
}

fn write(path: &std::path::Path, width: u32, height: u32, rgb: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let mut encoder = png::Encoder::new(std::io::BufWriter::new(std::fs::File::create(path)?), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(rgb)?;
    Ok(())
}

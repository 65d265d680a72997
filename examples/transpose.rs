//! A transpose, and views: parts of arrays that go wherever an array goes. `cargo run --example transpose`

use gpukc::{DeviceArray, Error, Gpu};

gpukc::gpu_kernel!("examples/transpose.gk");

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let values: Vec<f32> = (0..6 * 4).map(|i| i as f32).collect();
    let x = DeviceArray::new(&gpu, [6, 4], &values)?;

    let y = transpose(&gpu, &x)?;
    assert_eq!(y.shape(), [4, 6]);
    assert_eq!(y.view(1..2)?.to_vec()?, [1.0, 5.0, 9.0, 13.0, 17.0, 21.0]);

    // Rows 2 to 3 of `x`, transposed into rows 0 to 3 of a larger array.
    let mut into = gpu.zeros([10, 2])?;
    transpose::into(&gpu, &x.view(2..4)?, &mut into.view_mut(0..4)?)?;
    assert_eq!(into.view(0..4)?.to_vec()?, [8.0, 12.0, 9.0, 13.0, 10.0, 14.0, 11.0, 15.0]);
    println!("{gpu:?}: {:?} became {:?}", x.shape(), y.shape());
    Ok(())
}

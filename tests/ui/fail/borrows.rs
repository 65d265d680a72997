//! What is written is borrowed alone, and a part is never taken for an array of its own.
use gpukc::{DeviceArray, Error, Gpu, PinnedBuffer};

gpukc::gpu_kernel! { kernel add(x: f32[n], y: f32[n]) -> z: f32[n] { z[i] = x[i] + y[i]; } }

pub fn read_and_written(gpu: &Gpu, mut x: DeviceArray<f32, 1>) -> Result<(), Error> {
    add::into(gpu, &x, &x, &mut x)?;
    add::in_place_x(gpu, &mut x, &x)
}

pub fn part_and_whole(gpu: &Gpu, mut x: DeviceArray<f32, 1>) -> Result<(), Error> {
    let part = x.view(0..1)?;
    add::in_place_x(gpu, &mut x, &part)
}

pub fn parts(mut x: DeviceArray<f32, 1>) -> Result<(), Error> {
    let part = x.view_mut(0..1)?;
    drop((x.view_mut(1..2)?, part));
    Ok(())
}

pub fn moved_away(mut x: DeviceArray<f32, 1>, y: DeviceArray<f32, 1>) -> Result<DeviceArray<f32, 1>, Error> {
    let mut part = x.view_mut(0..1)?;
    Ok(std::mem::replace(&mut *part, y))
}

pub fn outlived(x: DeviceArray<f32, 1>) -> Result<f32, Error> {
    let part = x.view(0..1)?;
    drop(x);
    Ok(part.to_vec()?[0])
}

pub fn used_while_copied(gpu: &Gpu, buffer: PinnedBuffer<f32>, x: &mut DeviceArray<f32, 1>) -> Result<f32, Error> {
    let copy = buffer.copy_to(gpu.stream(), x)?;
    let first = buffer.as_slice()[0];
    copy.wait().map(|_| first)
}

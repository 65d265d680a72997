//! Programs that use the crate [`cudarc`] already: its context, streams and memory, used from here.
//!
//! ```no_run
//! use gpukc::{Gpu, interop};
//! use gpukc::interop::cudarc::driver::CudaContext;
//!
//! gpukc::gpu_kernel! { kernel scale(a: f32, x: f32[n]) -> y: f32[n] { y[i] = a * x[i]; } }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = CudaContext::new(0)?;
//! let theirs = context.new_stream()?;
//! let x = theirs.clone_htod(&[1.0f32, 2.0])?;
//!
//! let gpu = interop::gpu(&context)?;
//! let stream = interop::stream(&gpu, &theirs)?;
//! let x = interop::array(&gpu, x, [2])?; // given to us …
//! let y = scale::on(&stream, 2.0, &x)?;
//! let x = interop::into_slice(x)?; // … and back
//! # let _ = (y, x);
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
pub use gpukc_runtime::cudarc;

use crate::array::DeviceArray;
use crate::element::Element;
use crate::error::Error;
use crate::gpu::{Backend, Cuda, Gpu};
use crate::stream::Stream;
use crate::untyped::{Extents, Untyped};
use gpukc_runtime::memory::{Memory, foreign};
use gpukc_runtime::stream as device;

/// The device of a context. cudarc and we share its context, so that memory and streams of one are the other's as well.
///
/// # Errors
/// If the device can't be used, or the context is not the device's primary one, as [`CudaContext::new`] gives it.
pub fn gpu(context: &CudaContext) -> Result<Gpu, Error> {
    let ordinal = u32::try_from(context.ordinal()).map_err(|_| Error::arguments("a context without a device"))?;
    let gpu = Gpu::new(ordinal)?;
    if let Backend::Cuda(cuda) = gpu.backend() {
        foreign::check(&cuda.queue, context, "a context")?;
    }
    Ok(gpu)
}

/// A stream of cudarc's, for calls on it. What cudarc has asked of it comes before what is asked of it here, and the other way
/// round. Dropping it waits for what was asked of it here.
///
/// On `sm_90` and later our kernels are set up while what stands in front of them still runs, and let what comes behind be set up while
/// they run. Nothing of this shows, unless you launch kernels of your own there with the driver's attribute for it (programmatic stream
/// serialization): these must wait for the launch in front (`griddepcontrol.wait`) in every block, as ours do.
///
/// # Errors
/// If it is of another device, or cudarc's per-thread stream, which is another one in each thread.
pub fn stream(gpu: &Gpu, stream: &Arc<CudaStream>) -> Result<Stream, Error> {
    match gpu.backend() {
        Backend::Cuda(cuda) => Ok(gpu.adopted(device::Stream::of_cudarc(&cuda.queue, stream)?)),
        Backend::Cpu => Err(Error::arguments("a stream of another device")),
    }
}

/// cudarc's memory as an array. It waits for what cudarc has asked of it.
///
/// # Errors
/// If it is of another device, or the shape does not hold just as many elements.
pub fn array<T, const RANK: usize>(gpu: &Gpu, slice: CudaSlice<T>, shape: [usize; RANK]) -> Result<DeviceArray<T, RANK>, Error>
where
    T: Element,
    CudaSlice<T>: Send + Sync,
{
    let (cuda, extents) = lendable(gpu, &slice, shape)?;
    DeviceArray::from_untyped(Untyped::of_memory(gpu, Memory::of_cudarc(&cuda.queue, slice)?, T::TYPE, extents)?)
}

/// Gives memory that [`array()`] took back to cudarc, once everything has been done that was asked of it here.
///
/// # Errors
/// If the array has other memory, or something has failed that was asked of the device before, an index out of range say; the
/// memory is freed then.
pub fn into_slice<T, const RANK: usize>(array: DeviceArray<T, RANK>) -> Result<CudaSlice<T>, Error>
where
    T: Element,
    CudaSlice<T>: Send + Sync,
{
    let other = || Error::arguments("the array's memory is not cudarc's");
    let memory = array.into_untyped().into_memory().ok_or_else(other)?;
    memory.into_cudarc()?.ok_or_else(other)
}

/// Lends cudarc's memory as an array, to be read within `use_it`; waits for both sides.
///
/// # Errors
/// If it is of another device, or the shape does not hold just as many elements; as `use_it` says; or if something has failed that
/// was asked of the device before, an index out of range say.
pub fn with<T: Element, R, const RANK: usize>(
    gpu: &Gpu,
    slice: &CudaSlice<T>,
    shape: [usize; RANK],
    use_it: impl FnOnce(&DeviceArray<T, RANK>) -> Result<R, Error>,
) -> Result<R, Error> {
    let (cuda, extents) = lendable(gpu, slice, shape)?;
    Memory::lend(&cuda.queue, slice, |memory| use_it(&DeviceArray::from_untyped(Untyped::of_memory(gpu, memory, T::TYPE, extents)?)?))?
}

/// Lends cudarc's memory as an array within `use_it`; waits for both sides.
///
/// # Errors
/// As for [`with`].
pub fn with_mut<T: Element, R, const RANK: usize>(
    gpu: &Gpu,
    slice: &mut CudaSlice<T>,
    shape: [usize; RANK],
    use_it: impl FnOnce(&mut DeviceArray<T, RANK>) -> Result<R, Error>,
) -> Result<R, Error> {
    let (cuda, extents) = lendable(gpu, slice, shape)?;
    Memory::lend_mut(&cuda.queue, slice, |memory| {
        use_it(&mut DeviceArray::from_untyped(Untyped::of_memory(gpu, memory, T::TYPE, extents)?)?)
    })?
}

fn lendable<'a, T, const RANK: usize>(gpu: &'a Gpu, slice: &CudaSlice<T>, shape: [usize; RANK]) -> Result<(&'a Cuda, Extents), Error> {
    let Backend::Cuda(cuda) = gpu.backend() else { return Err(Error::arguments("memory of another device")) };
    let extents = Extents::new(&shape).ok_or_else(|| Error::arguments(format!("an array can't have the shape {shape:?}")))?;
    if extents.elements() != Some(slice.len()) {
        return Err(Error::arguments(format!("{} elements for an array of shape {shape:?}", slice.len())));
    }
    Ok((cuda, extents))
}

//! Memory of the crate `cudarc`: given to us and given back, or lent for a while.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaContext, CudaSlice, DevicePtr, DevicePtrMut, DriverError};

use super::Memory;
use crate::error::Error;
use crate::queue::{Fault, Queue, Uses};
use crate::stream::misuse;

impl Memory {
    /// Takes cudarc's memory, which must be of the queue's device; it is dropped when we are done with it.
    pub fn of_cudarc<T>(queue: &Queue, mut slice: CudaSlice<T>) -> Result<Memory, Error>
    where
        CudaSlice<T>: Send + Sync + 'static,
    {
        let (pointer, bytes) = (to_write(queue, &mut slice)?, slice.num_bytes());
        Ok(Memory { queue: queue.clone(), pointer, bytes, uses: Arc::new(Uses::new(0)), owner: Some(Box::new(slice)) })
    }

    /// Gives cudarc's memory back, after all that has been asked of it here; none if it is not of that kind.
    pub fn into_cudarc<T>(mut self) -> Result<Option<CudaSlice<T>>, Fault>
    where
        CudaSlice<T>: Send + Sync + 'static,
    {
        self.queue.drain()?;
        self.queue.reported()?;
        match self.owner.take().map(|owner| owner.downcast::<CudaSlice<T>>()) {
            Some(Ok(slice)) => {
                // Dropping what is left frees nothing.
                self.pointer = 0;
                Ok(Some(*slice))
            }
            Some(Err(owner)) => {
                self.owner = Some(owner);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Lends cudarc's memory to `use_it`, to be read. Whatever becomes of it there, it can't be used afterwards.
    pub fn lend<T, R>(queue: &Queue, slice: &CudaSlice<T>, use_it: impl FnOnce(Memory) -> R) -> Result<R, Fault> {
        let memory = Memory::lent(queue, to_read(queue, slice)?, slice.num_bytes());
        memory.uses.protect();
        Loan::of(&memory).end_after(|| use_it(memory))
    }

    /// Lends cudarc's memory to `use_it`. Whatever becomes of it there, it can't be used afterwards.
    pub fn lend_mut<T, R>(queue: &Queue, slice: &mut CudaSlice<T>, use_it: impl FnOnce(Memory) -> R) -> Result<R, Fault> {
        let memory = Memory::lent(queue, to_write(queue, slice)?, slice.num_bytes());
        Loan::of(&memory).end_after(|| use_it(memory))
    }

    fn lent(queue: &Queue, pointer: u64, bytes: usize) -> Memory {
        Memory { queue: queue.clone(), pointer, bytes, uses: Arc::new(Uses::new(0)), owner: Some(Box::new(())) }
    }
}

/// The contexts are one, so that memory and streams of one are the other's as well.
pub fn check(queue: &Queue, context: &CudaContext, what: &str) -> Result<(), Error> {
    if context.cu_ctx() == queue.device().context() { Ok(()) } else { Err(misuse(&format!("{what} of another device"))) }
}

/// Where cudarc's memory is, once what cudarc has asked to be written there is.
fn to_read<T>(queue: &Queue, slice: &CudaSlice<T>) -> Result<CUdeviceptr, Error> {
    let stream = slice.stream();
    check(queue, stream.context(), "memory")?;
    // Other streams of cudarc's are waited for by its own events, which its stream is told of here.
    let pointer = slice.device_ptr(stream).0;
    stream.synchronize().map_err(unsettled)?;
    Ok(pointer)
}

/// The same, once what cudarc has asked to be read there has been, too.
fn to_write<T>(queue: &Queue, slice: &mut CudaSlice<T>) -> Result<CUdeviceptr, Error> {
    let stream = slice.stream().clone();
    check(queue, stream.context(), "memory")?;
    let pointer = slice.device_ptr_mut(&stream).0;
    stream.synchronize().map_err(unsettled)?;
    Ok(pointer)
}

fn unsettled(error: DriverError) -> Error {
    Error::call("cuStreamSynchronize", error.0 as i32, format!("{:?}", error.0))
}

/// Ends a loan when it is dropped, a panic being no way around.
struct Loan {
    queue: Queue,
    uses: Arc<Uses>,
}

impl Loan {
    fn of(memory: &Memory) -> Loan {
        Loan { queue: memory.queue.clone(), uses: memory.uses.clone() }
    }

    fn end_after<R>(self, use_it: impl FnOnce() -> R) -> Result<R, Fault> {
        let result = use_it();
        self.queue.end_loan(&self.uses)?;
        self.queue.reported()?;
        Ok(result)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let _ = self.queue.end_loan(&self.uses);
    }
}

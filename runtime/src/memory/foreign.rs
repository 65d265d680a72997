//! Memory of the crate `cudarc`: given to us and given back, or lent for a while.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};

use super::Memory;
use crate::error::Error;
use crate::queue::{Fault, Queue, Uses};
use crate::stream::misuse;

impl Memory {
    /// Takes cudarc's memory, which must be of the queue's device; it is dropped when we are done with it.
    pub fn of_cudarc<T>(queue: &Queue, slice: CudaSlice<T>) -> Result<Memory, Error>
    where
        CudaSlice<T>: Send + Sync + 'static,
    {
        let stream = slice.stream().clone();
        check(queue, &stream)?;
        let (pointer, bytes) = (slice.device_ptr(&stream).0, slice.num_bytes());
        settle(&stream)?;
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
        let stream = slice.stream();
        check(queue, stream)?;
        let pointer = slice.device_ptr(stream).0;
        settle(stream)?;
        let memory = Memory::lent(queue, pointer, slice.num_bytes());
        memory.uses.protect();
        Loan::of(&memory).end_after(|| use_it(memory))
    }

    /// Lends cudarc's memory to `use_it`. Whatever becomes of it there, it can't be used afterwards.
    pub fn lend_mut<T, R>(queue: &Queue, slice: &mut CudaSlice<T>, use_it: impl FnOnce(Memory) -> R) -> Result<R, Fault> {
        let stream = slice.stream();
        check(queue, stream)?;
        let pointer = slice.device_ptr(stream).0;
        settle(stream)?;
        let memory = Memory::lent(queue, pointer, slice.num_bytes());
        Loan::of(&memory).end_after(|| use_it(memory))
    }

    fn lent(queue: &Queue, pointer: u64, bytes: usize) -> Memory {
        Memory { queue: queue.clone(), pointer, bytes, uses: Arc::new(Uses::new(0)), owner: Some(Box::new(())) }
    }
}

fn check(queue: &Queue, stream: &CudaStream) -> Result<(), Error> {
    if stream.context().cu_ctx() == queue.device().context() { Ok(()) } else { Err(misuse("memory of another device")) }
}

/// What cudarc has asked of its memory is over before we begin.
fn settle(stream: &CudaStream) -> Result<(), Error> {
    // Its other streams are waited for by its own events, which its stream has been told of.
    stream.synchronize().map_err(|error| Error::Bug(format!("cudarc does not wait for its stream: {error}")))
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

//! Device memory of a queue: allocated and freed in the order of streams, and used by several of them.

pub mod foreign;

use std::any::Any;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;

use crate::error::Error;
use crate::queue::{Queue, Uses};
use crate::stream::{Stream, misuse};

/// A piece of device memory, aligned to 256 bytes at least if it is ours. It is freed when dropped, after all that has been asked
/// of it.
pub struct Memory {
    queue: Queue,
    pointer: CUdeviceptr,
    bytes: usize,
    uses: Arc<Uses>,
    /// The owner of memory that is not ours; of lent memory, nothing.
    owner: Option<Box<dyn Any + Send + Sync>>,
}

// The owner is only kept, and given back whole: a panic elsewhere shows nothing of it half done.
impl UnwindSafe for Memory {}
impl RefUnwindSafe for Memory {}

/// A part of some memory.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    /// None if it is no memory of a queue: whoever uses it finds out in [`Piece::check`].
    memory: Option<&'a Memory>,
    offset: usize,
    bytes: usize,
}

impl Memory {
    pub(crate) fn allocate(stream: &Stream, bytes: usize) -> Result<Memory, Error> {
        let queue = stream.queue();
        let device = queue.device();
        let pointer = match bytes {
            0 => 0,
            _ => {
                let driver = device.enter()?;
                let on = queue.lock().stream(stream.slot());
                driver.alloc(bytes, device.ordered().map(|_| on))?
            }
        };
        Ok(Memory { queue: queue.clone(), pointer, bytes, uses: Arc::new(Uses::new(stream.slot())), owner: None })
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The queue that it is of.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// All of it.
    pub fn whole(&self) -> Piece<'_> {
        self.piece(0, self.bytes)
    }

    /// So many bytes of it from a place on. That they lie within it is checked where the piece is used.
    #[inline]
    pub fn piece(&self, offset: usize, bytes: usize) -> Piece<'_> {
        Piece { memory: Some(self), offset, bytes }
    }

    /// A stream on which it can be read at once: the one that wrote it.
    pub fn stream(&self) -> Stream {
        self.queue.stream_of(&self.uses)
    }

    fn free(&mut self) -> Result<(), Error> {
        if self.pointer == 0 {
            return Ok(());
        }
        let device = self.queue.device();
        let driver = device.enter()?;
        if self.owner.is_some() {
            // The owner knows nothing of our streams.
            return self.queue.drain();
        }
        let state = self.queue.lock();
        let slot = state.last_writer(&self.uses);
        state.write(driver, slot, Some(&self.uses))?;
        driver.free(self.pointer, device.ordered().map(|_| state.stream(slot)));
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Where the device is lost, so is its memory.
        let _ = self.free();
    }
}

impl<'a> Piece<'a> {
    /// A piece that is not on a device: using it is an error.
    #[inline]
    pub fn elsewhere() -> Piece<'a> {
        Piece { memory: None, offset: 0, bytes: 0 }
    }

    /// Its length in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is a piece of this queue's memory.
    pub(crate) fn check(&self, queue: &Queue) -> Result<(), Error> {
        let Some(memory) = self.memory.filter(|memory| memory.queue.is(queue)) else {
            return Err(misuse("an array of another device, or of this one opened again"));
        };
        match self.offset.checked_add(self.bytes) {
            Some(end) if end <= memory.bytes => Ok(()),
            _ => Err(Error::Bug(format!("{} bytes at {} of a memory of {}", self.bytes, self.offset, memory.bytes))),
        }
    }

    pub(crate) fn uses(&self) -> Option<&'a Uses> {
        self.memory.map(|memory| &*memory.uses)
    }

    #[inline]
    pub(crate) fn pointer(&self) -> CUdeviceptr {
        self.memory.map_or(0, |memory| memory.pointer) + self.offset as CUdeviceptr
    }

    /// Whether it starts at a multiple of so many bytes.
    #[inline]
    pub fn is_aligned(&self, bytes: usize) -> bool {
        self.pointer().is_multiple_of(bytes as CUdeviceptr)
    }

    pub(crate) fn overlaps(&self, other: &Piece) -> bool {
        let (a, b) = (self.pointer(), other.pointer());
        self.bytes != 0 && other.bytes != 0 && a < b + other.bytes as CUdeviceptr && b < a + self.bytes as CUdeviceptr
    }
}

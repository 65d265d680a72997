//! Streams of a queue, and points on them with their time.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::CUevent;

use crate::error::Error;
use crate::memory::{self, Memory, Piece};
use crate::queue::{Fault, Queue, Slot};

/// A stream: what is asked of it happens in order. Dropping it does not wait, unless it is somebody else's.
pub struct Stream {
    queue: Queue,
    slot: Slot,
}

impl Stream {
    pub(crate) fn new(queue: &Queue, slot: Slot) -> Stream {
        Stream { queue: queue.clone(), slot }
    }

    /// A stream of the crate `cudarc`, which must be of this device. Dropping it waits for what was asked of it here.
    pub fn of_cudarc(queue: &Queue, stream: &Arc<cudarc::driver::CudaStream>) -> Result<Stream, Error> {
        /// The driver's name for the calling thread's own stream, as a handle.
        const PER_THREAD: usize = 2;
        memory::foreign::check(queue, stream.context(), "a stream")?;
        // What one thread asks of it would not be ordered with what others do.
        if stream.cu_stream() as usize == PER_THREAD {
            return Err(misuse("the per-thread stream, which is another one in each thread"));
        }
        queue.adopt(stream.cu_stream(), stream.clone())
    }

    /// The queue that it is of.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    /// Waits for it, then says whether something has failed: a call, or a check of a kernel.
    pub fn synchronize(&self) -> Result<(), Fault> {
        self.queue.synchronize(self.slot)
    }

    /// Lets what is asked of it from now on wait for all that has been asked of another.
    pub fn wait_for(&self, other: &Stream) -> Result<(), Error> {
        if !self.queue.is(&other.queue) {
            return Err(misuse("a stream of another device, or of this one opened again"));
        }
        let driver = self.queue.device().enter()?;
        self.queue.lock().wait(driver, self.slot, other.slot)
    }

    /// Memory with unspecified contents, allocated in the stream's order. One of no bytes has no memory.
    pub fn allocate(&self, bytes: usize) -> Result<Memory, Error> {
        Memory::allocate(self, bytes)
    }

    /// Fills a piece of memory with zero bytes.
    pub fn zero(&self, piece: Piece) -> Result<(), Error> {
        piece.check(&self.queue)?;
        if piece.bytes() == 0 {
            return Ok(());
        }
        let driver = self.queue.device().enter()?;
        let state = self.queue.lock();
        state.write(driver, self.slot, piece.uses())?;
        // SAFETY: the piece lies within its memory, which is freed after all that has been asked of it.
        unsafe { driver.fill(piece.pointer(), 0, piece.bytes(), state.stream(self.slot)) }
    }

    /// Copies host bytes to a piece of memory of as many; they have been taken when it returns.
    pub fn write(&self, piece: Piece, bytes: &[u8]) -> Result<(), Error> {
        piece.check(&self.queue)?;
        if piece.bytes() != bytes.len() {
            return Err(Error::Bug(format!("{} bytes into a piece of {}", bytes.len(), piece.bytes())));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let driver = self.queue.device().enter()?;
        let (copied, stream) = {
            let state = self.queue.lock();
            state.write(driver, self.slot, piece.uses())?;
            let stream = state.stream(self.slot);
            // SAFETY: the piece lies within its memory; the stream is waited for before the slice's borrow ends.
            (unsafe { driver.copy_in(piece.pointer(), bytes, stream) }, stream)
        };
        let waited = driver.stream_synchronize(stream);
        copied.and(waited)
    }

    /// Copies a piece of memory to host bytes, of which there are as many, after all that has been asked before; waits, and
    /// says whether something has failed.
    pub fn read(&self, piece: Piece, bytes: &mut [u8]) -> Result<(), Fault> {
        piece.check(&self.queue)?;
        if piece.bytes() != bytes.len() {
            return Err(Error::Bug(format!("{} bytes from a piece of {}", bytes.len(), piece.bytes())).into());
        }
        if bytes.is_empty() {
            return self.synchronize();
        }
        let driver = self.queue.device().enter()?;
        let (copied, stream) = {
            let state = self.queue.lock();
            state.read(driver, self.slot, piece.uses())?;
            let stream = state.stream(self.slot);
            // SAFETY: the piece lies within its memory; the stream is waited for before the slice's borrow ends.
            (unsafe { driver.copy_out(bytes, piece.pointer(), stream) }, stream)
        };
        let waited = driver.stream_synchronize(stream);
        copied.and(waited)?;
        self.synchronize()
    }

    /// Copies one piece of memory to another of the same size.
    pub fn copy(&self, from: Piece, to: Piece) -> Result<(), Error> {
        from.check(&self.queue)?;
        to.check(&self.queue)?;
        if from.bytes() != to.bytes() || from.overlaps(&to) {
            return Err(Error::Bug("a copy between pieces of different sizes, or of the same memory".into()));
        }
        if to.bytes() == 0 {
            return Ok(());
        }
        let driver = self.queue.device().enter()?;
        let state = self.queue.lock();
        state.read(driver, self.slot, from.uses())?;
        state.write(driver, self.slot, to.uses())?;
        // SAFETY: both pieces lie within their memory, which is freed after all that has been asked of it.
        unsafe { driver.copy_within(to.pointer(), from.pointer(), to.bytes(), state.stream(self.slot)) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.queue.release(self.slot);
    }
}

/// A caller's mistake that types don't rule out.
pub(crate) fn misuse(what: &str) -> Error {
    Error::Arguments { kernel: String::new(), message: what.to_owned() }
}

/// A point on a stream, with its time.
pub struct Event {
    queue: Queue,
    event: CUevent,
}

// SAFETY: events may be used from any thread that has entered their context; all uses do.
unsafe impl Send for Event {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for Event {}

impl Event {
    /// Marks what has been asked of a stream so far.
    pub fn record(stream: &Stream) -> Result<Event, Error> {
        let queue = stream.queue().clone();
        let driver = queue.device().enter()?;
        let event = Event { event: driver.event_create()?, queue };
        driver.event_record(event.event, event.queue.lock().stream(stream.slot))?;
        Ok(event)
    }

    /// Whether the device has passed it.
    pub fn is_done(&self) -> Result<bool, Error> {
        self.queue.device().enter()?.event_done(self.event)
    }

    /// Waits until the device has passed it, then says whether something has failed: a call, or a check of a kernel.
    pub fn synchronize(&self) -> Result<(), Fault> {
        self.wait()?;
        self.queue.reported()
    }

    /// Waits until the device has passed it.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.queue.device().enter()?.event_synchronize(self.event)
    }

    /// The device's time since an earlier event of the same device; waits for both.
    pub fn since(&self, earlier: &Event) -> Result<Duration, Error> {
        if !self.queue.is(&earlier.queue) {
            return Err(misuse("an event of another device, or of this one opened again"));
        }
        earlier.wait()?;
        self.wait()?;
        let milliseconds = self.queue.device().enter()?.event_elapsed(earlier.event, self.event)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(driver) = self.queue.device().enter() {
            driver.event_destroy(self.event);
        }
    }
}

//! Pinned host memory: the device copies to and from it by itself, while the host goes on.

use std::ffi::c_void;

use cudarc::driver::sys::CUstream;

use crate::device::Device;
use crate::driver::Driver;
use crate::error::Error;
use crate::memory::Piece;
use crate::queue::{Fault, Slot, State, Uses};
use crate::stream::{Event, Stream, misuse};

/// Host bytes that the device reaches by itself; zero at first.
pub struct Pinned {
    device: Device,
    host: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory is this value's own, as a vector's is.
unsafe impl Send for Pinned {}
// SAFETY: as above; it is changed through exclusive references only.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// So many bytes, page-aligned.
    pub fn new(device: &Device, bytes: usize) -> Result<Pinned, Error> {
        let host = match bytes {
            0 => std::ptr::NonNull::<u64>::dangling().as_ptr().cast(),
            _ => {
                let host = device.enter()?.host_alloc(bytes)?.0;
                // SAFETY: as many bytes, which nobody else knows yet.
                unsafe { host.cast::<u8>().write_bytes(0, bytes) };
                host
            }
        };
        Ok(Pinned { device: device.clone(), host, bytes })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: as many bytes, initialised, and nobody changes them while this is borrowed: a copy to them owns this value.
        unsafe { std::slice::from_raw_parts(self.host.cast(), self.bytes) }
    }

    /// The bytes.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.host.cast(), self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.bytes != 0
            && let Ok(driver) = self.device.enter()
        {
            driver.host_free(self.host);
        }
    }
}

/// A copy under way. It owns the host's side; the device's side is in its stream's order.
pub struct Copying {
    // In this order: the wait comes before the memory goes.
    done: Event,
    pinned: Option<Pinned>,
}

impl Copying {
    /// Starts a copy to the device; the sizes must be the same.
    pub fn to_device(stream: &Stream, pinned: Pinned, to: Piece) -> Result<Copying, Error> {
        Copying::start(stream, pinned, to, State::write, |driver, stream, pinned, pointer| {
            // SAFETY: as many bytes on both sides; `Copying` owns the host's until the copy is over, and the device's is freed
            // after all that has been asked of it.
            unsafe { driver.copy_in(pointer, pinned.as_bytes(), stream) }
        })
    }

    /// Starts a copy from the device; the sizes must be the same.
    pub fn to_host(stream: &Stream, from: Piece, pinned: Pinned) -> Result<Copying, Error> {
        Copying::start(stream, pinned, from, State::read, |driver, stream, pinned, pointer| {
            // SAFETY: as above.
            unsafe { driver.copy_out(pinned.as_bytes_mut(), pointer, stream) }
        })
    }

    fn start(
        stream: &Stream,
        mut pinned: Pinned,
        piece: Piece,
        used: impl FnOnce(&State, &Driver, Slot, Option<&Uses>) -> Result<(), Error>,
        copy: impl FnOnce(&Driver, CUstream, &mut Pinned, u64) -> Result<(), Error>,
    ) -> Result<Copying, Error> {
        let queue = stream.queue();
        piece.check(queue)?;
        if piece.bytes() != pinned.bytes {
            return Err(misuse("the two sides of a copy have different sizes"));
        }
        let driver = queue.device().enter()?;
        let copied = if piece.bytes() == 0 {
            Ok(())
        } else {
            let state = queue.lock();
            used(&state, driver, stream.slot(), piece.uses())?;
            copy(driver, state.stream(stream.slot()), &mut pinned, piece.pointer())
        };
        let done = copied.and_then(|()| Event::record(stream));
        match done {
            Ok(done) => Ok(Copying { done, pinned: Some(pinned) }),
            Err(error) => {
                // It may have started all the same.
                let _ = queue.drain();
                Err(error)
            }
        }
    }

    /// Whether it is over.
    pub fn is_done(&self) -> Result<bool, Error> {
        self.done.is_done()
    }

    /// Waits for it, and says whether something has failed; gives the host's side back.
    pub fn wait(mut self) -> Result<Pinned, Fault> {
        self.done.synchronize()?;
        self.pinned.take().ok_or_else(|| Error::Bug("a copy without its memory".into()).into())
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        if self.pinned.is_some() && self.done.wait().is_err() {
            // The device may still write; better to lose the memory than to give it to somebody else.
            std::mem::forget(self.pinned.take());
        }
    }
}

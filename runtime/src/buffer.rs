//! Device memory that is freed when dropped.

use cudarc::driver::sys::CUdeviceptr;

use crate::device::Device;
use crate::error::Error;

/// A piece of device memory, aligned to 256 bytes at least. One of no bytes has no memory.
pub struct Buffer {
    device: Device,
    pointer: CUdeviceptr,
    bytes: usize,
}

impl Buffer {
    /// Memory with unspecified contents.
    pub fn new(device: &Device, bytes: usize) -> Result<Buffer, Error> {
        let pointer = if bytes == 0 { 0 } else { device.enter()?.alloc(bytes, device.ordered())? };
        Ok(Buffer { device: device.clone(), pointer, bytes })
    }

    /// Memory with these contents.
    pub fn from_bytes(device: &Device, bytes: &[u8]) -> Result<Buffer, Error> {
        let buffer = Buffer::new(device, bytes.len())?;
        buffer.write(bytes)?;
        Ok(buffer)
    }

    /// More memory, with the same contents: what they are once all that is enqueued by now is done.
    pub fn duplicate(&self) -> Result<Buffer, Error> {
        let copy = Buffer::new(&self.device, self.bytes)?;
        if self.bytes > 0 {
            let driver = self.device.enter()?;
            // SAFETY: both have as many bytes, and are freed in the order of the same stream, or after waiting.
            unsafe { driver.copy_within(copy.pointer, self.pointer, self.bytes, self.device.stream())? };
        }
        Ok(copy)
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn pointer(&self) -> CUdeviceptr {
        self.pointer
    }

    /// Copies host bytes in; returns when they have been taken. Waits, so that the slice is free again.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() != self.bytes {
            return Err(Error::Bug(format!("{} bytes into a buffer of {}", bytes.len(), self.bytes)));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let driver = self.device.enter()?;
        // SAFETY: the buffer has just as many bytes, and the stream is waited for before the slice's borrow ends.
        let copied = unsafe { driver.copy_in(self.pointer, bytes, self.device.stream()) };
        let waited = driver.stream_synchronize(self.device.stream());
        copied.and(waited)
    }

    /// Copies the contents to the host, after everything enqueued before; waits for it.
    pub fn read(&self, into: &mut [u8]) -> Result<(), Error> {
        if into.len() != self.bytes {
            return Err(Error::Bug(format!("{} bytes from a buffer of {}", into.len(), self.bytes)));
        }
        if into.is_empty() {
            return Ok(());
        }
        let driver = self.device.enter()?;
        // SAFETY: the buffer has just as many bytes, and the stream is waited for before the slice's borrow ends.
        let copied = unsafe { driver.copy_out(into, self.pointer, self.device.stream()) };
        let waited = driver.stream_synchronize(self.device.stream());
        copied.and(waited)
    }

    /// Enqueues filling it with zeros.
    pub(crate) fn zero(&self) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the buffer has this many bytes; it is freed in the order of the same stream, or after waiting.
        unsafe { self.device.enter()?.fill(self.pointer, 0, self.bytes, self.device.stream()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.pointer != 0
            && let Ok(driver) = self.device.enter()
        {
            driver.free(self.pointer, self.device.ordered());
        }
    }
}

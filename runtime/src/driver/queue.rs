//! What only [queues](crate::queue) ask of the driver: streams that wait for one another, pinned memory, copies within a device.

use std::ffi::{c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{CUdeviceptr, CUevent, CUresult, CUstream};

use super::{Driver, Status};
use crate::error::Error;

impl Driver {
    /// Copies within the device.
    ///
    /// # Safety
    /// Both places have as many bytes and don't overlap.
    pub(crate) unsafe fn copy_within(&self, to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        self.check("cuMemcpyDtoDAsync", unsafe { (self.functions.copy_within)(to, from, bytes, stream) })
    }

    /// Lets what is asked of a stream from now on wait for an event, as it was recorded last.
    pub(crate) fn stream_wait(&self, stream: CUstream, event: CUevent) -> Result<(), Error> {
        // SAFETY: both are alive; 0 is the only flag there is.
        self.check("cuStreamWaitEvent", unsafe { (self.functions.stream_wait)(stream, event, 0) })
    }

    /// Whether all that stood before an event is done.
    pub(crate) fn event_done(&self, event: CUevent) -> Result<bool, Error> {
        const NOT_READY: Status = CUresult::CUDA_ERROR_NOT_READY as Status;
        // SAFETY: the event is alive.
        match unsafe { (self.functions.event_query)(event) } {
            NOT_READY => Ok(false),
            code => self.check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Pinned host memory, mapped into the devices of this process: its addresses on the host and on the device.
    pub(crate) fn host_alloc(&self, bytes: usize) -> Result<(*mut c_void, CUdeviceptr), Error> {
        const PORTABLE_AND_MAPPED: c_uint = 3;
        let (mut host, mut device) = (ptr::null_mut(), 0);
        // SAFETY: a valid pointer.
        self.check("cuMemHostAlloc", unsafe { (self.functions.host_alloc)(&mut host, bytes, PORTABLE_AND_MAPPED) })?;
        // SAFETY: a valid pointer, and memory that was allocated so that it has one.
        let code = unsafe { (self.functions.host_pointer)(&mut device, host, 0) };
        self.check("cuMemHostGetDevicePointer", code).inspect_err(|_| self.host_free(host))?;
        Ok((host, device))
    }

    /// Frees pinned memory.
    pub(crate) fn host_free(&self, host: *mut c_void) {
        // SAFETY: freed once, by its owner, when the device doesn't use it any more.
        let _ = unsafe { (self.functions.host_free)(host) };
    }
}

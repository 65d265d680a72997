//! A call from arrays of its own memory: every argument checked and in its place, intermediate memory at hand; then launched as
//! often as wanted.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use gpukc_codegen::kernel::{Argument, REPORT_WORDS};
use gpukc_dsl::program::ArrayId;

use super::laid::{Laid, Scratch};
use super::{Call, Program};
use crate::buffer::Buffer;
use crate::error::Error;

/// A call laid out: launching it only makes driver calls. It holds on to the arrays' memory.
pub struct Prepared<'a> {
    program: &'a Program,
    laid: Laid,
    arrays: Vec<CUdeviceptr>,
    scalars: Vec<u64>,
    /// Intermediate memory. Calls in the order of one stream may share it.
    scratch: Arc<Buffer>,
    report: Option<Buffer>,
    _arrays: std::marker::PhantomData<&'a Buffer>,
}

/// Lays a call out. With `like`, the same call on other memory, it takes that one's intermediate memory.
pub(super) fn prepare<'a>(
    program: &'a Program,
    call: &Call,
    arrays: &[(ArrayId, &'a Buffer)],
    like: Option<&Prepared>,
) -> Result<Prepared<'a>, Error> {
    let kernel = &program.kernel;
    let device = program.device();
    for (at, &(id, buffer)) in arrays.iter().enumerate() {
        if !buffer.device().is(device) {
            return Err(Error::Bug("memory of another device".into()));
        }
        if program.bytes_of(call, id)? != buffer.bytes() {
            return Err(Error::Bug(format!("{} bytes of memory for an array of another size", buffer.bytes())));
        }
        // The emitted code says `__restrict__`.
        let overlap = |other: &Buffer| buffer.bytes() != 0 && buffer.pointer() == other.pointer();
        if arrays[..at].iter().any(|&(earlier, other)| earlier == id || overlap(other)) {
            return Err(Error::Bug("one memory for two arrays".into()));
        }
    }
    let laid_scratch = Scratch::of(kernel, call)?;
    let scratch = match like {
        // As large as this call needs, if it is the same one.
        Some(other) if other.scratch.bytes() >= laid_scratch.bytes => other.scratch.clone(),
        _ => {
            let made = Buffer::new(device, laid_scratch.bytes);
            Arc::new(made.map_err(|error| program.explain_memory(error, || program.memory_of(call, &[], &|_| String::new())))?)
        }
    };
    let reports = kernel.launches.iter().any(|launch| launch.arguments.contains(&Argument::Report));
    let report = if reports { Some(Buffer::new(device, REPORT_WORDS * 8)?) } else { None };
    let position = |id: ArrayId| arrays.iter().position(|&(array, _)| array == id);
    let laid = Laid::new(program, call, laid_scratch, position, report.as_ref().map(Buffer::pointer))?;
    let arrays = arrays.iter().map(|(_, buffer)| buffer.pointer()).collect();
    let scalars = call.scalars.iter().map(|scalar| scalar.bits).collect();
    Ok(Prepared { program, laid, arrays, scalars, scratch, report, _arrays: std::marker::PhantomData })
}

impl Prepared<'_> {
    /// Enqueues the call: clears what must be zero, then launches in order. Doesn't wait.
    pub fn launch(&mut self) -> Result<(), Error> {
        self.clear_report().and_then(|()| self.enqueue(false)).map_err(|error| error.for_kernel(&self.program.kernel.name))
    }

    /// The same, waiting for each launch before the next, so that a fault is known to be of that launch.
    pub(super) fn launch_watched(&mut self) -> Result<(), Error> {
        self.clear_report().and_then(|()| self.enqueue(true)).map_err(|error| error.for_kernel(&self.program.kernel.name))
    }

    /// Enqueues that no check has failed so far.
    pub(super) fn clear_report(&self) -> Result<(), Error> {
        self.report.as_ref().map_or(Ok(()), Buffer::zero)
    }

    /// Enqueues all but the clearing of the report: this alone may be captured, and leaves what the checks have found.
    pub(super) fn enqueue(&mut self, watched: bool) -> Result<(), Error> {
        let device = self.program.device();
        let on = (&self.program.kernel, device.enter()?, device.stream());
        // SAFETY: `prepare` has found the arrays' memory, which is borrowed for 'a, as large as the call's shapes say; intermediate
        // and report memory are ours. All of it is freed in stream order or after waiting, so not before the launches are over.
        unsafe { self.laid.enqueue(on, |at| self.arrays[at], &self.scalars, self.scratch.pointer(), watched) }
    }

    /// Waits until the device is done, then says whether a check there failed.
    pub fn finish(&self) -> Result<(), Error> {
        let kernel = &self.program.kernel;
        self.program.device().synchronize().map_err(|error| {
            match self.laid.launches.as_slice() {
                [only] => error.for_launch(&kernel.launches[only.number].entry, kernel.launches[only.number].span),
                _ => error,
            }
            .for_kernel(&kernel.name)
        })?;
        let Some(report) = &self.report else { return Ok(()) };
        let mut bytes = [0u8; REPORT_WORDS * 8];
        report.read(&mut bytes)?;
        let mut words = [0u64; REPORT_WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        }
        let [reported, site, index, extent] = words;
        if reported == 0 {
            return Ok(());
        }
        let site = usize::try_from(site).ok().and_then(|site| kernel.sites.get(site));
        let site = site.ok_or_else(|| Error::Bug(format!("kernel `{}` reports an unknown place", kernel.name)))?;
        Err(Error::IndexOutOfRange { kernel: kernel.name.clone(), site: site.clone(), index: index as i64, extent: extent as i64 })
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // The arrays' borrow ends here; nothing enqueued may use them any more.
        let _ = self.program.device().synchronize();
    }
}

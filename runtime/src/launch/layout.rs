//! A kernel with everything evaluated that depends on shapes: what a call of these shapes launches. A launch fills in pointers and
//! scalars, sees to it that its stream comes after others that use the arrays, and calls the driver; it waits for nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUdeviceptr;
use gpukc_codegen::kernel::{Argument, Kernel};
use gpukc_dsl::program::ArrayId;
use gpukc_dsl::source::Source;

use super::laid::{Laid, Scratch};
use super::{Call, Program};
use crate::compile::Binary;
use crate::error::Error;
use crate::memory::Piece;
use crate::queue::{Fault, Queue};
use crate::reports::Report;
use crate::stream::{Stream, misuse};

/// A kernel loaded for a queue.
pub struct Loaded {
    program: Program,
    queue: Queue,
    report: Option<Arc<Report>>,
    source: Arc<Source>,
}

impl Loaded {
    /// Loads a binary of the kernel's text. `source` is the program that the kernel's spans are of.
    pub fn new(queue: &Queue, kernel: &Kernel, binary: &Binary, source: &Arc<Source>) -> Result<Loaded, Error> {
        let program = Program::load(queue.device(), kernel, binary)?;
        let reports = kernel.launches.iter().any(|launch| launch.arguments.contains(&Argument::Report));
        let add = || queue.reports().add(queue.device(), &kernel.name, &kernel.sites, source);
        let report = if reports { Some(add()?) } else { None };
        Ok(Loaded { program, queue: queue.clone(), report, source: source.clone() })
    }

    /// Whether it checks indices on the device.
    pub fn checks(&self) -> bool {
        self.report.is_some()
    }

    /// The kernel as it is loaded.
    pub fn program(&self) -> &Program {
        &self.program
    }

    fn fault(&self, error: Error) -> Fault {
        Fault { error: error.for_kernel(&self.program.kernel.name), source: Some(self.source.clone()) }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // Code is unloaded when nothing of it runs on any stream.
        let _ = self.queue.drain();
        if let Some(report) = &self.report {
            self.queue.reports().remove(report);
        }
    }
}

/// What a call with these shapes launches.
pub struct Layout {
    loaded: Arc<Loaded>,
    /// By array: the parameters, then the results.
    bytes: Vec<usize>,
    /// How many of them are results.
    results: usize,
    /// What arrays must start at a multiple of.
    alignment: usize,
    scalars: usize,
    laid: Laid,
}

impl Layout {
    /// Evaluates the contract for a call. `parameters` and `results` are the kernel's arrays in order; with `in_place` a
    /// parameter is left out there and has the memory of a result.
    pub fn new(
        loaded: &Arc<Loaded>,
        call: &Call,
        parameters: &[ArrayId],
        results: &[ArrayId],
        in_place: Option<(ArrayId, ArrayId)>,
        alignment: usize,
    ) -> Result<Layout, Error> {
        let evaluate = || {
            let arrays: Vec<ArrayId> = parameters.iter().chain(results).copied().collect();
            let bytes = arrays.iter().map(|&id| loaded.program.bytes_of(call, id)).collect::<Result<Vec<_>, _>>()?;
            let position = |id: ArrayId| {
                let id = in_place.filter(|(parameter, _)| *parameter == id).map_or(id, |(_, result)| result);
                arrays.iter().position(|&array| array == id)
            };
            let report = loaded.report.as_ref().map(|report| report.pointer());
            let laid = Laid::new(&loaded.program, call, Scratch::of(&loaded.program.kernel, call)?, position, report)?;
            Ok(Layout { loaded: loaded.clone(), bytes, results: results.len(), alignment, scalars: call.scalars.len(), laid })
        };
        evaluate().map_err(|error: Error| error.for_kernel(&loaded.program.kernel.name))
    }

    /// The kernel that it launches.
    pub fn loaded(&self) -> &Arc<Loaded> {
        &self.loaded
    }

    /// Enqueues a call: scalars as their bits in the kernel's order; the arrays that are read, then those that are written. In a
    /// watched queue it waits, and says whether a check has failed.
    pub fn launch(&self, stream: &Stream, scalars: &[u64], reads: &[Piece], writes: &[Piece]) -> Result<(), Fault> {
        self.check(stream, scalars, reads, writes)
            .and_then(|()| self.enqueue(stream, scalars, reads, writes))
            .map_err(|error| self.loaded.fault(error))?;
        let queue = &self.loaded.queue;
        if queue.is_watched() { queue.reported() } else { Ok(()) }
    }

    /// How long plain launches by the driver (`cuLaunchKernel`) take the host, the arguments being in place: what a call is measured against. Makes each
    /// launch so many times, without what orders streams; the arrays must not be in use on others.
    pub fn time_bare(
        &self,
        stream: &Stream,
        scalars: &[u64],
        reads: &[Piece],
        writes: &[Piece],
        count: usize,
    ) -> Result<Duration, Fault> {
        let timed = || {
            // As a call, once: everything is allocated, and in order.
            self.check(stream, scalars, reads, writes)?;
            self.enqueue(stream, scalars, reads, writes)?;
            let queue = &self.loaded.queue;
            let driver = queue.device().enter()?;
            let mut state = queue.lock();
            let scratch = state.scratch(queue.device(), stream.slot(), self.laid.scratch.bytes)?;
            let on = state.stream(stream.slot());
            let mut time = Duration::ZERO;
            for launch in &self.laid.launches {
                launch.with_values(pointer(reads, writes), scalars, scratch, |pointers| {
                    let start = Instant::now();
                    for _ in 0..count {
                        // SAFETY: as in `enqueue`, under the same lock.
                        unsafe { launch.make_bare(driver, on, pointers)? };
                    }
                    time += start.elapsed();
                    Ok::<(), Error>(())
                })?;
            }
            Ok(time)
        };
        timed().map_err(|error| self.loaded.fault(error))
    }

    /// Everything that the launches' soundness rests on.
    fn check(&self, stream: &Stream, scalars: &[u64], reads: &[Piece], writes: &[Piece]) -> Result<(), Error> {
        let queue = &self.loaded.queue;
        if !stream.queue().is(queue) {
            return Err(misuse("a stream of another device, or of this one opened again"));
        }
        if scalars.len() != self.scalars || writes.len() != self.results || reads.len() + writes.len() != self.bytes.len() {
            return Err(Error::Bug("a call of another kind than was laid out".into()));
        }
        for (piece, &bytes) in reads.iter().chain(writes).zip(&self.bytes) {
            piece.check(queue)?;
            if piece.bytes() != bytes || (bytes > 0 && !piece.is_aligned(self.alignment)) {
                return Err(Error::Bug("an array of another size or alignment than was laid out".into()));
            }
        }
        // The emitted code says `__restrict__`.
        for (at, piece) in writes.iter().enumerate() {
            if reads.iter().chain(&writes[..at]).any(|other| piece.overlaps(other)) {
                return Err(misuse("an array is written whose memory another argument has too"));
            }
        }
        Ok(())
    }

    fn enqueue(&self, stream: &Stream, scalars: &[u64], reads: &[Piece], writes: &[Piece]) -> Result<(), Error> {
        if self.laid.launches.is_empty() {
            return Ok(());
        }
        let queue = &self.loaded.queue;
        let (driver, slot) = (queue.device().enter()?, stream.slot());
        let mut state = queue.lock();
        reads.iter().try_for_each(|piece| state.read(driver, slot, piece.uses()))?;
        writes.iter().try_for_each(|piece| state.write(driver, slot, piece.uses()))?;
        let scratch = state.scratch(queue.device(), slot, self.laid.scratch.bytes)?;
        let on = (&self.loaded.program.kernel, driver, state.stream(slot));
        // SAFETY: `check` has found every array's memory as large as the call's shapes say, none written that another argument has,
        // and all scalars there; the memory is freed after what is asked of it here, the code is unloaded after waiting. `scratch`
        // has made the stream's intermediate memory as large as this call needs.
        unsafe { self.laid.enqueue(on, pointer(reads, writes), scalars, scratch, queue.is_watched()) }
    }
}

/// The arrays' pointers, by their numbers.
fn pointer<'a>(reads: &'a [Piece], writes: &'a [Piece]) -> impl Fn(usize) -> CUdeviceptr + use<'a> {
    move |at| if at < reads.len() { reads[at].pointer() } else { writes[at - reads.len()].pointer() }
}

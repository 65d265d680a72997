//! A kernel with everything evaluated that depends on shapes: what a call of these shapes launches. A launch fills in pointers and
//! scalars, sees to it that its stream comes after others that use the arrays, and calls the driver; it waits for nothing.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUdeviceptr, CUfunction};
use gpukc_codegen::kernel::{Argument, Kernel};
use gpukc_dsl::program::ArrayId;
use gpukc_dsl::source::Source;
use smallvec::SmallVec;

use super::prepare::{grid_of, size_value};
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
    launches: Vec<Laid>,
    scratch: Scratch,
}

/// Where the intermediate memories of a call lie in the stream's.
#[derive(Default)]
struct Scratch {
    offsets: Vec<usize>,
    /// Where, and how many bytes, must be zero at first.
    zeroed: Vec<(usize, usize)>,
    /// How much they take together.
    bytes: usize,
}

struct Laid {
    /// Its number in the contract.
    number: usize,
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    values: Vec<Value>,
}

// SAFETY: functions are handles into the loaded module, which may be used from any thread that has entered its context.
unsafe impl Send for Laid {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for Laid {}

/// What a launch passes.
enum Value {
    /// The pointer of an array.
    Array(usize),
    /// A pointer into the intermediate memory.
    Scratch(usize),
    /// A scalar.
    Scalar(usize),
    /// What is known already.
    Known(u64),
}

/// Intermediate memories start at multiples of this.
const SCRATCH_ALIGNMENT: usize = 256;

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
            let program = &loaded.program;
            let kernel = &program.kernel;
            let arrays: Vec<ArrayId> = parameters.iter().chain(results).copied().collect();
            let bytes = arrays.iter().map(|&id| program.bytes_of(call, id)).collect::<Result<Vec<_>, _>>()?;
            let position = |id: ArrayId| {
                let id = in_place.filter(|(parameter, _)| *parameter == id).map_or(id, |(_, result)| result);
                arrays
                    .iter()
                    .position(|&array| array == id)
                    .ok_or_else(|| Error::Bug("a launch takes an array that the call lacks".into()))
            };
            let scratch = Scratch::of(kernel, call)?;
            let value = |argument: &Argument| match argument {
                Argument::Array(id) => position(*id).map(Value::Array),
                Argument::Scratch(at) => scratch
                    .offsets
                    .get(*at)
                    .copied()
                    .map(Value::Scratch)
                    .ok_or_else(|| Error::Bug("a launch takes a scratch memory too many".into())),
                Argument::Scalar(id) if id.index() < call.scalars.len() => Ok(Value::Scalar(id.index())),
                Argument::Scalar(_) => Err(Error::Bug("a launch takes a scalar that the call lacks".into())),
                Argument::Size(formula, ty) => size_value(formula, *ty, call).map(|value| Value::Known(value.to_le())),
                Argument::Report => {
                    loaded.report.as_ref().map(|report| Value::Known(report.pointer())).ok_or_else(|| Error::Bug("no report".into()))
                }
            };
            let mut launches = Vec::new();
            for (number, (launch, &function)) in kernel.launches.iter().zip(&program.functions).enumerate() {
                let Some(grid) = grid_of(kernel, launch, call)? else { continue };
                let values = launch.arguments.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                launches.push(Laid { number, function, grid, block: launch.block, shared_bytes: launch.shared_bytes, values });
            }
            let (loaded, results, scalars) = (loaded.clone(), results.len(), call.scalars.len());
            Ok(Layout { loaded, bytes, results, alignment, scalars, launches, scratch })
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

    /// How long the driver's own launches take the host, the arguments being in place: what a call is measured against. Makes each
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
            let scratch = state.scratch(queue.device(), stream.slot(), self.scratch.bytes)?;
            let on = state.stream(stream.slot());
            let value = self.values(scalars, reads, writes, scratch);
            let mut time = Duration::ZERO;
            for launch in &self.launches {
                with_values(launch.values.iter().map(&value), |pointers| {
                    let start = Instant::now();
                    for _ in 0..count {
                        // SAFETY: as in `enqueue`, under the same lock.
                        unsafe { driver.launch(launch.function, launch.grid, launch.block, launch.shared_bytes, on, pointers)? };
                    }
                    time += start.elapsed();
                    Ok::<(), Error>(())
                })?;
            }
            Ok(time)
        };
        timed().map_err(|error| self.loaded.fault(error))
    }

    /// What a launch passes, by what it is.
    fn values<'a>(
        &self,
        scalars: &'a [u64],
        reads: &'a [Piece],
        writes: &'a [Piece],
        scratch: CUdeviceptr,
    ) -> impl Fn(&Value) -> u64 + use<'a> {
        move |value| match *value {
            Value::Array(at) if at < reads.len() => reads[at].pointer(),
            Value::Array(at) => writes[at - reads.len()].pointer(),
            Value::Scratch(offset) => scratch + offset as u64,
            Value::Scalar(at) => scalars[at].to_le(),
            Value::Known(value) => value,
        }
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
        if self.launches.is_empty() {
            return Ok(());
        }
        let queue = &self.loaded.queue;
        let (driver, slot) = (queue.device().enter()?, stream.slot());
        let mut state = queue.lock();
        reads.iter().try_for_each(|piece| state.read(driver, slot, piece.uses()))?;
        writes.iter().try_for_each(|piece| state.write(driver, slot, piece.uses()))?;
        let scratch = state.scratch(queue.device(), slot, self.scratch.bytes)?;
        let on = state.stream(slot);
        for &(offset, bytes) in &self.scratch.zeroed {
            // SAFETY: within the stream's intermediate memory, which `scratch` has made as large as this call needs.
            unsafe { driver.fill(scratch + offset as u64, 0, bytes, on)? };
        }
        let value = self.values(scalars, reads, writes, scratch);
        for launch in &self.launches {
            let contract = &self.loaded.program.kernel.launches[launch.number];
            let launched = with_values(launch.values.iter().map(&value), |pointers| {
                // SAFETY: `Layout::new` has one value per argument of the contract, which `Program::load` compared with the
                // function's own parameters where the driver tells them. `check` has found every array's memory as large as the
                // call's shapes say, and none written that another argument has; all of it is freed after what is asked of it
                // here, the code is unloaded after waiting. That it stays within that memory is what the compiler proves or
                // checks.
                unsafe { driver.launch(launch.function, launch.grid, launch.block, launch.shared_bytes, on, pointers) }
            });
            let waited = if queue.is_watched() { launched.and_then(|()| driver.stream_synchronize(on)) } else { launched };
            waited.map_err(|error| error.for_launch(&contract.entry, contract.span))?;
        }
        Ok(())
    }
}

impl Scratch {
    fn of(kernel: &Kernel, call: &Call) -> Result<Scratch, Error> {
        let mut all = Scratch::default();
        for scratch in &kernel.scratch {
            let value = scratch.bytes.evaluate(call);
            let bytes = usize::try_from(value).ok().filter(|&bytes| isize::try_from(bytes).is_ok());
            let next = bytes.and_then(|bytes| all.bytes.checked_add(bytes)?.checked_next_multiple_of(SCRATCH_ALIGNMENT));
            let (Some(bytes), Some(next)) = (bytes, next) else {
                let message = format!("`{}` would need {value} bytes of memory", scratch.name);
                return Err(Error::Limit { kernel: kernel.name.clone(), message });
            };
            all.offsets.push(all.bytes);
            if scratch.zeroed && bytes > 0 {
                all.zeroed.push((all.bytes, bytes));
            }
            all.bytes = next;
        }
        Ok(all)
    }
}

/// Gives pointers to the values of a launch, as the driver takes them. Allocates nothing unless they are many.
fn with_values<T>(values: impl ExactSizeIterator<Item = u64>, launch: impl FnOnce(&mut [*mut c_void]) -> T) -> T {
    let mut storage: SmallVec<[u64; 64]> = values.collect();
    let mut pointers: SmallVec<[*mut c_void; 64]> = storage.iter_mut().map(|value| (value as *mut u64).cast()).collect();
    launch(&mut pointers)
}

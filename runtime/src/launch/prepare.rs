//! A call laid out: every argument checked and in its place, scratch memory at hand; then launched as often as wanted.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::CUfunction;
use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch, REPORT_WORDS, Scratch};
use gpukc_dsl::program::ArrayId;
use gpukc_dsl::types::Type;

use super::{Call, Program};
use crate::buffer::Buffer;
use crate::error::Error;

const MAX_GRID: [i64; 3] = [0x7fff_ffff, 65_535, 65_535];

/// A call laid out: launching it only makes driver calls. It holds on to the arrays' memory.
pub struct Prepared<'a> {
    program: &'a Program,
    launches: Vec<Laid>,
    /// What the launches' pointers point to; never grows once they do.
    _values: Box<[u64]>,
    /// Intermediate memories, and whether they must be zero at first. Calls in the order of one stream may share them.
    scratch: Arc<[(Buffer, bool)]>,
    report: Option<Buffer>,
    _arrays: std::marker::PhantomData<&'a Buffer>,
}

/// One launch, ready.
struct Laid {
    /// Its number in the contract.
    number: usize,
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    pointers: Box<[*mut c_void]>,
}

/// Lays a call out. With `like`, the same call on other memory, it takes that one's intermediate memories.
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
    let scratch = match like {
        Some(other) => other.scratch.clone(),
        None => scratch_of(program, call)?,
    };
    let reports = kernel.launches.iter().any(|launch| launch.arguments.contains(&Argument::Report));
    let report = if reports { Some(Buffer::new(device, REPORT_WORDS * 8)?) } else { None };

    let mut values = Vec::new();
    let mut shapes = Vec::new();
    for (number, (launch, &function)) in kernel.launches.iter().zip(&program.functions).enumerate() {
        let Some(grid) = grid_of(kernel, launch, call)? else { continue };
        let first = values.len();
        for argument in &launch.arguments {
            values.push(value_of(argument, call, arrays, &scratch, report.as_ref())?.to_le());
        }
        shapes.push((number, launch, function, grid, first));
    }
    let mut values = values.into_boxed_slice();
    let base = values.as_mut_ptr();
    let launches = shapes.into_iter().map(|(number, launch, function, grid, first)| {
        let pointers = (first..first + launch.arguments.len()).map(|at| base.wrapping_add(at).cast()).collect();
        Laid { number, function, grid, block: launch.block, shared_bytes: launch.shared_bytes, pointers }
    });
    let launches = launches.collect();
    Ok(Prepared { program, launches, _values: values, scratch, report, _arrays: std::marker::PhantomData })
}

/// The intermediate memories of a call.
fn scratch_of(program: &Program, call: &Call) -> Result<Arc<[(Buffer, bool)]>, Error> {
    let kernel = &program.kernel;
    let mut sizes = Vec::with_capacity(kernel.scratch.len());
    for scratch in &kernel.scratch {
        let bytes = usize::try_from(scratch.bytes.evaluate(call)).ok().filter(|&bytes| isize::try_from(bytes).is_ok());
        sizes.push(bytes.ok_or_else(|| Error::Limit {
            kernel: kernel.name.clone(),
            message: format!("`{}` would need {} bytes of memory", scratch.name, scratch.bytes.evaluate(call)),
        })?);
    }
    let allocate = |(contract, &bytes): (&Scratch, &usize)| match Buffer::new(program.device(), bytes) {
        Ok(buffer) => Ok((buffer, contract.zeroed)),
        Err(error) => Err(program.explain_memory(error, || program.memory_of(call, &[], &|_| String::new()))),
    };
    kernel.scratch.iter().zip(&sizes).map(allocate).collect()
}

/// The grid at this call; none if it is empty.
pub(super) fn grid_of(kernel: &Kernel, launch: &Launch, call: &Call) -> Result<Option<[u32; 3]>, Error> {
    let mut grid = [0; 3];
    for axis in 0..3 {
        let extent = launch.grid[axis].evaluate(call);
        if extent == 0 {
            return Ok(None);
        }
        if !(0..=MAX_GRID[axis]).contains(&extent) {
            let (name, entry) = (&kernel.name, &launch.entry);
            return Err(Error::Bug(format!("`{entry}` of kernel `{name}` would have {extent} blocks along axis {axis}")));
        }
        grid[axis] = extent as u32;
    }
    Ok(Some(grid))
}

fn value_of(
    argument: &Argument,
    call: &Call,
    arrays: &[(ArrayId, &Buffer)],
    scratch: &[(Buffer, bool)],
    report: Option<&Buffer>,
) -> Result<u64, Error> {
    let bug = |what: &str| Error::Bug(format!("a launch takes {what} that the call lacks"));
    match argument {
        Argument::Array(id) => {
            let found = arrays.iter().find(|(array, _)| array == id).ok_or_else(|| bug("an array"))?;
            Ok(found.1.pointer())
        }
        Argument::Scratch(at) => Ok(scratch.get(*at).ok_or_else(|| bug("a scratch memory"))?.0.pointer()),
        Argument::Scalar(id) => Ok(call.scalars.get(id.index()).ok_or_else(|| bug("a scalar"))?.bits),
        Argument::Report => Ok(report.ok_or_else(|| bug("a report"))?.pointer()),
        Argument::Size(formula, ty) => size_value(formula, *ty, call),
    }
}

pub(super) fn size_value(formula: &Formula, ty: Type, call: &Call) -> Result<u64, Error> {
    let value = formula.evaluate(call);
    match ty {
        Type::I64 => Ok(value as u64),
        Type::I32 => match i32::try_from(value) {
            Ok(value) => Ok(u64::from(value as u32)),
            Err(_) => Err(Error::Bug(format!("`{formula}` is {value}, which is no `int`"))),
        },
        other => Err(Error::Bug(format!("a size of type {other}"))),
    }
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
        let driver = device.enter()?;
        for (buffer, _) in self.scratch.iter().filter(|(_, zeroed)| *zeroed) {
            buffer.zero()?;
        }
        for launch in &mut self.launches {
            let Laid { number, function, grid, block, shared_bytes, pointers } = launch;
            let contract = &self.program.kernel.launches[*number];
            // SAFETY: `prepare` laid out one value per argument of the contract, which `load` compared with the function's
            // own parameters where the driver tells them; the values live in `_values`. Array memory is borrowed for 'a and
            // as large as the call's shapes say; scratch and report memory are ours. All of it is freed in stream order or
            // after waiting, so not before the launch is over. That the code stays within that memory is what the compiler
            // proves or checks.
            let launched = unsafe { driver.launch(*function, *grid, *block, *shared_bytes, device.stream(), pointers) };
            let waited = if watched { launched.and_then(|()| driver.stream_synchronize(device.stream())) } else { launched };
            waited.map_err(|error| error.for_launch(&contract.entry, contract.span))?;
        }
        Ok(())
    }

    /// Waits until the device is done, then says whether a check there failed.
    pub fn finish(&self) -> Result<(), Error> {
        let kernel = &self.program.kernel;
        self.program.device().synchronize().map_err(|error| {
            match self.launches.as_slice() {
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

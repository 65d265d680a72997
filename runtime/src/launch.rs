//! A loaded kernel, a call of it with every argument checked, and the one launch.
//!
//! [`Program::load`] loads a binary. [`Program::prepare`] takes a [`Call`] and device memory, evaluates the contract's
//! formulas, allocates scratch memory and lays the arguments out, once; [`Prepared::launch`] then only makes driver calls,
//! so that repeated launches cost their least. [`Program::run`] does all of it from and to host memory.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUmodule};
use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch, REPORT_WORDS};
use gpukc_dsl::call::{Bindings, Values, scalar_bits, scalar_value};
use gpukc_dsl::program::{self, ArrayId, DimId, Literal, Role, ScalarId};
use gpukc_dsl::types::Type;

use crate::buffer::Buffer;
use crate::compile::Binary;
use crate::device::{Device, Event};
use crate::error::Error;
use crate::nvrtc::Form;

/// What a call fixes: the values of dims and scalars, types and shapes of parameters and results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// By dim.
    pub dims: Vec<i64>,
    /// By scalar parameter.
    pub scalars: Vec<Scalar>,
    /// By array; what is neither a parameter nor a result may be `None`.
    pub arrays: Vec<Option<Shape>>,
}

/// The value of a scalar parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar {
    /// Its type.
    pub ty: Type,
    /// Its bits, in the low bytes.
    pub bits: u64,
}

/// Element type and extents of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The element's type.
    pub element: Type,
    /// The extents.
    pub extents: Vec<i64>,
}

impl Shape {
    /// Its size in bytes, if it is one.
    pub fn bytes(&self) -> Option<usize> {
        if self.extents.contains(&0) {
            return Some(0);
        }
        let count = self.extents.iter().try_fold(1usize, |count, &extent| count.checked_mul(usize::try_from(extent).ok()?))?;
        count.checked_mul(self.element.size()).filter(|&bytes| isize::try_from(bytes).is_ok())
    }
}

impl Call {
    /// A call whose arguments have been bound.
    pub fn new(kernel: &program::Kernel, bindings: &Bindings) -> Call {
        let scalar = |(scalar, &value): (&program::Scalar, &Literal)| Scalar { ty: scalar.ty, bits: scalar_bits(scalar.ty, value) };
        let array = |(array, extents): (&program::Array, &Vec<i64>)| {
            (array.role != Role::Let).then(|| Shape { element: array.element, extents: extents.clone() })
        };
        Call {
            dims: bindings.dims.clone(),
            scalars: kernel.scalars.iter().map(|(_, scalar)| scalar).zip(&bindings.scalars).map(scalar).collect(),
            arrays: kernel.arrays.iter().map(|(_, array)| array).zip(&bindings.extents).map(array).collect(),
        }
    }
}

impl Values for Call {
    fn dim(&self, id: DimId) -> Option<i64> {
        self.dims.get(id.index()).copied()
    }
    fn scalar(&self, id: ScalarId) -> Option<Literal> {
        self.scalars.get(id.index()).map(|scalar| scalar_value(scalar.ty, scalar.bits))
    }
}

/// Code on a device.
struct Module {
    device: Device,
    module: CUmodule,
}

// SAFETY: a module may be used from any thread that has entered its context; all uses enter it first.
unsafe impl Send for Module {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for Module {}

impl Module {
    fn load(device: &Device, binary: &Binary) -> Result<Module, Error> {
        let whole = match binary.form {
            Form::Cubin => binary.image.len() > 64 && binary.image.starts_with(b"\x7fELF"),
            Form::Ptx => binary.image.last() == Some(&0),
        };
        if !whole {
            return Err(Error::Bug(format!("NVRTC gave no whole {}", binary.form.name())));
        }
        Ok(Module { device: device.clone(), module: device.enter()?.module_load(&binary.image)? })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(driver) = self.device.enter() {
            // Nothing of it may still run.
            let _ = driver.stream_synchronize(self.device.stream());
            driver.module_unload(self.module);
        }
    }
}

/// A kernel loaded on a device.
pub struct Program {
    kernel: Kernel,
    functions: Vec<CUfunction>,
    module: Module,
}

// SAFETY: functions are handles into the module, which may be used from any thread that has entered its context.
unsafe impl Send for Program {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for Program {}

/// What the compiler made of one launch's function.
#[derive(Clone, Debug, PartialEq)]
pub struct Resources {
    /// The function.
    pub entry: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Local memory of a thread in bytes: spills and arrays.
    pub local_bytes: u32,
}

/// Device memory for the arrays of a call.
pub struct Resident {
    buffers: Vec<(ArrayId, Buffer)>,
}

impl Resident {
    /// As [`Program::prepare`] takes it.
    pub fn arrays(&self) -> Vec<(ArrayId, &Buffer)> {
        self.buffers.iter().map(|(id, buffer)| (*id, buffer)).collect()
    }
    /// The memory of an array.
    pub fn buffer(&self, id: ArrayId) -> Option<&Buffer> {
        self.buffers.iter().find(|(array, _)| *array == id).map(|(_, buffer)| buffer)
    }
}

/// How long the parts of a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Allocation and copies to the device.
    pub host_to_device: Duration,
    /// From the first launch until the device was done.
    pub launch: Duration,
    /// Copies from the device.
    pub device_to_host: Duration,
}

/// What a run gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The results' bytes, in the order asked for.
    pub results: Vec<Vec<u8>>,
    /// How long it took.
    pub times: Times,
}

const MAX_GRID: [i64; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Dynamic shared memory beyond this must be asked for.
const PLAIN_SHARED_BYTES: u32 = 48 << 10;

impl Program {
    /// Loads a binary of the kernel's text.
    pub fn load(device: &Device, kernel: &Kernel, binary: &Binary) -> Result<Program, Error> {
        let load = || {
            let module = Module::load(device, binary)?;
            let driver = device.enter()?;
            let mut functions = Vec::with_capacity(kernel.launches.len());
            for launch in &kernel.launches {
                let function = driver.module_function(module.module, &launch.entry)?;
                if let Some(sizes) = driver.function_parameters(function, launch.arguments.len()) {
                    check_parameters(kernel, launch, &sizes)?;
                }
                check_block(device, kernel, launch)?;
                if launch.shared_bytes > PLAIN_SHARED_BYTES {
                    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                    driver.function_set(function, attribute, launch.shared_bytes)?;
                }
                functions.push(function);
            }
            Ok(Program { kernel: kernel.clone(), functions, module })
        };
        load().map_err(|error: Error| error.for_kernel(&kernel.name))
    }

    /// The device it is loaded on.
    pub fn device(&self) -> &Device {
        &self.module.device
    }

    /// Registers and local memory of each launch, where the driver tells.
    pub fn resources(&self) -> Vec<Resources> {
        let Ok(driver) = self.device().enter() else { return Vec::new() };
        let ask = |(launch, &function): (&Launch, &CUfunction)| {
            Some(Resources {
                entry: launch.entry.clone(),
                registers: driver.function_get(function, CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
                local_bytes: driver.function_get(function, CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            })
        };
        self.kernel.launches.iter().zip(&self.functions).filter_map(ask).collect()
    }

    /// Checks a call against the contract and lays it out. `arrays` has the memory of every parameter and result.
    pub fn prepare<'a>(&'a self, call: &Call, arrays: &[(ArrayId, &'a Buffer)]) -> Result<Prepared<'a>, Error> {
        prepare(self, call, arrays).map_err(|error| error.for_kernel(&self.kernel.name))
    }

    /// Brings inputs to the device and allocates results. `names` are the arrays' names, for the error if memory runs out.
    pub fn upload(
        &self,
        call: &Call,
        inputs: &[(ArrayId, &[u8])],
        results: &[ArrayId],
        names: &dyn Fn(ArrayId) -> String,
    ) -> Result<Resident, Error> {
        let mut wanted = Vec::new();
        for &(id, bytes) in inputs {
            if self.bytes_of(call, id)? != bytes.len() {
                let message = format!("`{}` has {} bytes, which is not what its shape says", names(id), bytes.len());
                return Err(Error::Arguments { kernel: self.kernel.name.clone(), message });
            }
            wanted.push((id, bytes.len(), Some(bytes)));
        }
        for &id in results {
            wanted.push((id, self.bytes_of(call, id)?, None));
        }
        let mut buffers = Vec::with_capacity(wanted.len());
        for &(id, size, bytes) in &wanted {
            let made = match bytes {
                Some(bytes) => Buffer::from_bytes(self.device(), bytes),
                None => Buffer::new(self.device(), size),
            };
            let buffer = made.map_err(|error| {
                let list = wanted.iter().map(|&(id, bytes, _)| (format!("`{}`", names(id)), bytes as u64)).collect();
                drop(std::mem::take(&mut buffers));
                self.explain_memory(error, list)
            })?;
            buffers.push((id, buffer));
        }
        Ok(Resident { buffers })
    }

    /// Runs a call from host memory to host memory.
    pub fn run(
        &self,
        call: &Call,
        inputs: &[(ArrayId, &[u8])],
        results: &[ArrayId],
        names: &dyn Fn(ArrayId) -> String,
    ) -> Result<Outcome, Error> {
        let start = Instant::now();
        let resident = self.upload(call, inputs, results, names)?;
        let mut prepared = self.prepare(call, &resident.arrays())?;
        let ready = Instant::now();
        prepared.launch()?;
        prepared.finish()?;
        let done = Instant::now();
        let mut read = Vec::with_capacity(results.len());
        for &id in results {
            let buffer = resident.buffer(id).ok_or_else(|| Error::Bug("a result without memory".into()))?;
            let mut bytes = vec![0; buffer.bytes()];
            buffer.read(&mut bytes)?;
            read.push(bytes);
        }
        let times = Times { host_to_device: ready - start, launch: done - ready, device_to_host: done.elapsed() };
        Ok(Outcome { results: read, times })
    }

    fn bytes_of(&self, call: &Call, id: ArrayId) -> Result<usize, Error> {
        let shape = call.arrays.get(id.index()).and_then(Option::as_ref);
        let shape = shape.ok_or_else(|| Error::Bug("an array without a shape in a call".into()))?;
        shape.bytes().ok_or_else(|| Error::Limit {
            kernel: self.kernel.name.clone(),
            message: format!("an array of shape {:?} is larger than any memory", shape.extents),
        })
    }

    fn explain_memory(&self, error: Error, list: Vec<(String, u64)>) -> Error {
        match error {
            Error::OutOfMemory { .. } => {
                Error::OutOfMemory { kernel: Some(self.kernel.name.clone()), wanted: list, memory: self.device().memory() }
            }
            other => other,
        }
    }
}

/// The size of an argument as the function takes it.
fn argument_size(argument: &Argument, scalar: impl Fn(ScalarId) -> Option<Type>) -> Option<usize> {
    match argument {
        Argument::Array(_) | Argument::Scratch(_) | Argument::Report => Some(8),
        Argument::Scalar(id) => scalar(*id).map(Type::size),
        Argument::Size(_, ty) => Some(ty.size()),
    }
}

/// The function takes what the contract says, as far as sizes tell.
fn check_parameters(kernel: &Kernel, launch: &Launch, sizes: &[usize]) -> Result<(), Error> {
    let agree = sizes.len() == launch.arguments.len()
        && launch.arguments.iter().zip(sizes).all(|(argument, &size)| {
            argument_size(argument, |_| None).map_or(matches!(size, 1 | 2 | 4 | 8), |expected| expected == size)
        });
    if agree {
        return Ok(());
    }
    let (name, entry) = (&kernel.name, &launch.entry);
    Err(Error::Bug(format!("`{entry}` of kernel `{name}` takes parameters of {sizes:?} bytes, which is not its contract")))
}

fn check_block(device: &Device, kernel: &Kernel, launch: &Launch) -> Result<(), Error> {
    let threads = launch.block.iter().map(|&extent| u64::from(extent)).product::<u64>();
    if launch.block.contains(&0) || threads > 1024 || launch.block[2] > 64 {
        return Err(Error::Bug(format!("`{}` of kernel `{}` has blocks of {:?}", launch.entry, kernel.name, launch.block)));
    }
    let most = device.facts().shared_bytes.max(PLAIN_SHARED_BYTES);
    if launch.shared_bytes > most {
        let message = format!(
            "`{}` needs {} bytes of shared memory for a block; {} has {most}",
            launch.entry,
            launch.shared_bytes,
            device.facts().name
        );
        return Err(Error::Limit { kernel: kernel.name.clone(), message });
    }
    Ok(())
}

/// A call laid out: launching it only makes driver calls. It holds on to the arrays' memory.
pub struct Prepared<'a> {
    program: &'a Program,
    launches: Vec<Laid>,
    /// What the launches' pointers point to; never grows once they do.
    _values: Box<[u64]>,
    scratch: Vec<(Buffer, bool)>,
    report: Option<Buffer>,
    _arrays: std::marker::PhantomData<&'a Buffer>,
}

/// One launch, ready.
struct Laid {
    function: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    pointers: Box<[*mut c_void]>,
}

fn prepare<'a>(program: &'a Program, call: &Call, arrays: &[(ArrayId, &'a Buffer)]) -> Result<Prepared<'a>, Error> {
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
    let mut sizes = Vec::with_capacity(kernel.scratch.len());
    for scratch in &kernel.scratch {
        let bytes = usize::try_from(scratch.bytes.evaluate(call)).ok().filter(|&bytes| isize::try_from(bytes).is_ok());
        sizes.push(bytes.ok_or_else(|| Error::Limit {
            kernel: kernel.name.clone(),
            message: format!("`{}` would need {} bytes of memory", scratch.name, scratch.bytes.evaluate(call)),
        })?);
    }
    let mut scratch = Vec::with_capacity(sizes.len());
    for (contract, &bytes) in kernel.scratch.iter().zip(&sizes) {
        let buffer = Buffer::new(device, bytes).map_err(|error| {
            let list = kernel.scratch.iter().zip(&sizes).map(|(scratch, &bytes)| (format!("`{}`", scratch.name), bytes as u64));
            program.explain_memory(error, list.collect())
        })?;
        scratch.push((buffer, contract.zeroed));
    }
    let reports = kernel.launches.iter().any(|launch| launch.arguments.contains(&Argument::Report));
    let report = if reports { Some(Buffer::new(device, REPORT_WORDS * 8)?) } else { None };

    let mut values = Vec::new();
    let mut shapes = Vec::new();
    for (launch, &function) in kernel.launches.iter().zip(&program.functions) {
        let Some(grid) = grid_of(kernel, launch, call)? else { continue };
        let first = values.len();
        for argument in &launch.arguments {
            values.push(value_of(argument, call, arrays, &scratch, report.as_ref())?.to_le());
        }
        shapes.push((launch, function, grid, first));
    }
    let mut values = values.into_boxed_slice();
    let base = values.as_mut_ptr();
    let launches = shapes.into_iter().map(|(launch, function, grid, first)| {
        let pointers = (first..first + launch.arguments.len()).map(|at| base.wrapping_add(at).cast()).collect();
        Laid { function, grid, block: launch.block, shared_bytes: launch.shared_bytes, pointers }
    });
    let launches = launches.collect();
    Ok(Prepared { program, launches, _values: values, scratch, report, _arrays: std::marker::PhantomData })
}

/// The grid at this call; none if it is empty.
fn grid_of(kernel: &Kernel, launch: &Launch, call: &Call) -> Result<Option<[u32; 3]>, Error> {
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

fn size_value(formula: &Formula, ty: Type, call: &Call) -> Result<u64, Error> {
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
        self.enqueue().map_err(|error| error.for_kernel(&self.program.kernel.name))
    }

    fn enqueue(&mut self) -> Result<(), Error> {
        let device = self.program.device();
        let driver = device.enter()?;
        for (buffer, zeroed) in &self.scratch {
            if *zeroed {
                buffer.zero()?;
            }
        }
        if let Some(report) = &self.report {
            report.zero()?;
        }
        for launch in &mut self.launches {
            let Laid { function, grid, block, shared_bytes, pointers } = launch;
            // SAFETY: `prepare` laid out one value per argument of the contract, which `load` compared with the function's
            // own parameters where the driver tells them; the values live in `_values`. Array memory is borrowed for 'a and
            // as large as the call's shapes say; scratch and report memory are ours. All of it is freed in stream order or
            // after waiting, so not before the launch is over. That the code stays within that memory is what the compiler
            // proves or checks.
            unsafe { driver.launch(*function, *grid, *block, *shared_bytes, device.stream(), pointers)? };
        }
        Ok(())
    }

    /// Waits until the device is done, then says whether a check there failed.
    pub fn finish(&self) -> Result<(), Error> {
        let kernel = &self.program.kernel;
        self.program.device().synchronize().map_err(|error| error.for_kernel(&kernel.name))?;
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

    /// Times the call `count` times, one after the other, with the device's own clock: milliseconds each.
    pub fn time_launches(&mut self, count: usize) -> Result<Vec<f32>, Error> {
        let device = self.program.device().clone();
        let events = (0..=count).map(|_| Event::new(&device)).collect::<Result<Vec<_>, _>>()?;
        events[0].record()?;
        for event in &events[1..] {
            self.launch()?;
            event.record()?;
        }
        events[count].synchronize()?;
        self.finish()?;
        events.windows(2).map(|pair| pair[1].since(&pair[0])).collect()
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // The arrays' borrow ends here; nothing enqueued may use them any more.
        let _ = self.program.device().synchronize();
    }
}

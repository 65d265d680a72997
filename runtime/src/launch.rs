//! A loaded kernel, a call of it with every argument checked, and the one launch.
//!
//! [`Program::load`] loads a binary. [`Program::prepare`] takes a [`Call`] and device memory, evaluates the contract's
//! formulas, allocates scratch memory and lays the arguments out, once; [`Prepared::launch`] then only makes driver calls,
//! so that repeated launches cost their least. [`Program::run`] does all of it from and to host memory.

mod call;
mod fit;
mod laid;
mod layout;
mod measure;
mod prepare;

use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute, CUmodule, CUresult};
use gpukc_codegen::kernel::{Argument, Kernel, Launch};
use gpukc_codegen::target::Target;
use gpukc_dsl::program::{ArrayId, ScalarId};
use gpukc_dsl::types::Type;

pub use call::{Call, Scalar, Shape};
pub use fit::{Fit, fitting};
pub use layout::{Layout, Loaded};
pub use measure::{Method, Rotation, Timing};
pub use prepare::Prepared;

use crate::buffer::Buffer;
use crate::compile::Binary;
use crate::device::Device;
use crate::error::{Error, Missing};
use crate::nvrtc::Form;

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
            Form::Cubin => {
                let image = &binary.image;
                image.len() > 64 && (image.starts_with(b"\x7fELF") || crate::fatbin::is_container(image))
            }
            Form::Ptx => binary.image.last() == Some(&0),
        };
        if !whole {
            return Err(Error::Bug(format!("NVRTC gave no whole {}", binary.form.name())));
        }
        let driver = device.enter()?;
        let module = driver.module_load(&binary.image).map_err(|error| match error {
            Error::Call { call, code, .. } if too_new(code, driver.version().ok(), binary.nvrtc) => {
                Missing::DriverTooOld { call, driver: driver.version().ok(), nvrtc: binary.nvrtc }.into()
            }
            other => other,
        })?;
        Ok(Module { device: device.clone(), module })
    }
}

/// Whether a driver refuses code because it is newer than the driver. PTX it calls by its name; machine code of a later CUDA
/// it takes for damaged.
fn too_new(code: i32, driver: Option<(u32, u32)>, nvrtc: (u32, Option<u32>)) -> bool {
    const INVALID_IMAGE: i32 = CUresult::CUDA_ERROR_INVALID_IMAGE as i32;
    const NO_CODE: i32 = CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as i32;
    const INVALID_PTX: i32 = CUresult::CUDA_ERROR_INVALID_PTX as i32;
    const PTX_TOO_NEW: i32 = CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as i32;
    match code {
        PTX_TOO_NEW => true,
        INVALID_IMAGE | NO_CODE | INVALID_PTX => driver.is_some_and(|(major, minor)| (major, Some(minor)) < nvrtc),
        _ => false,
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
    /// The most blocks of each launch, where more than run at once only cost.
    most_blocks: Vec<Option<u32>>,
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
    /// Bytes of all of it.
    pub fn bytes(&self) -> u64 {
        self.buffers.iter().map(|(_, buffer)| buffer.bytes() as u64).sum()
    }
    /// As much memory again, with the same contents.
    pub fn duplicate(&self) -> Result<Resident, Error> {
        let copy = |(id, buffer): &(ArrayId, Buffer)| Ok((*id, buffer.duplicate()?));
        Ok(Resident { buffers: self.buffers.iter().map(copy).collect::<Result<_, Error>>()? })
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

/// Dynamic shared memory beyond this must be asked for.
const PLAIN_SHARED_BYTES: u32 = 48 << 10;

/// Whether code of this architecture waits for the launch in front where its text says so. An NVRTC that is older than the device makes
/// PTX of an architecture on which the text's wait is nothing: its launches must not overlap.
fn waits(architecture: &str) -> bool {
    Target::parse(&architecture.replacen("compute_", "sm_", 1)).is_some_and(Target::has_dependent_launches)
}

impl Program {
    /// Loads a binary of the kernel's text.
    pub fn load(device: &Device, kernel: &Kernel, binary: &Binary) -> Result<Program, Error> {
        let load = || {
            let module = Module::load(device, binary)?;
            let driver = device.enter()?;
            let (mut functions, mut most_blocks) = (Vec::with_capacity(kernel.launches.len()), Vec::new());
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
                most_blocks.push(launch.striding.then(|| blocks_at_once(device, launch, function)).flatten());
            }
            let mut kernel = kernel.clone();
            kernel.launches.iter_mut().for_each(|launch| launch.overlapping &= waits(&binary.architecture));
            Ok(Program { kernel, functions, most_blocks, module })
        };
        load().map_err(|error: Error| error.for_kernel(&kernel.name))
    }

    /// The kernel that it is.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
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
        prepare::prepare(self, call, arrays, None).map_err(|error| error.for_kernel(&self.kernel.name))
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
                drop(std::mem::take(&mut buffers));
                let arrays: Vec<ArrayId> = wanted.iter().map(|&(id, ..)| id).collect();
                self.explain_memory(error, || self.memory_of(call, &arrays, names))
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
        let mut prepared = self.prepare(call, &resident.arrays()).map_err(|error| {
            let arrays: Vec<ArrayId> = resident.buffers.iter().map(|&(id, _)| id).collect();
            let held = resident.bytes();
            let mut error = self.explain_memory(error, || self.memory_of(call, &arrays, names));
            if let Error::OutOfMemory { memory: Some((free, _)), .. } = &mut error {
                *free += held;
            }
            error
        })?;
        let ready = Instant::now();
        prepared.launch_watched()?;
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

    /// What a call takes on the device: names and bytes of these arrays and of the scratch memory.
    fn memory_of(&self, call: &Call, arrays: &[ArrayId], names: &dyn Fn(ArrayId) -> String) -> Vec<(String, u64)> {
        let arrays = arrays.iter().map(|&id| (format!("`{}`", names(id)), self.bytes_of(call, id).unwrap_or(0) as u64));
        let scratch = self.kernel.scratch.iter().map(|scratch| {
            let bytes = u64::try_from(scratch.bytes.evaluate(call)).unwrap_or(0);
            (format!("`{}` (intermediate)", scratch.name), bytes)
        });
        arrays.chain(scratch).collect()
    }

    /// Says for what memory was wanted and what there is.
    fn explain_memory(&self, error: Error, list: impl FnOnce() -> Vec<(String, u64)>) -> Error {
        match error {
            Error::OutOfMemory { memory, .. } => Error::OutOfMemory {
                kernel: Some(self.kernel.name.clone()),
                wanted: list(),
                memory: memory.or_else(|| self.device().memory()),
                fits: Vec::new(),
            },
            other => other,
        }
    }
}

/// How many blocks of a launch the device runs at once, if the driver tells.
fn blocks_at_once(device: &Device, launch: &Launch, function: CUfunction) -> Option<u32> {
    let threads = launch.block.iter().product();
    let blocks = device.enter().ok()?.occupancy(function, threads, launch.shared_bytes)?;
    Some(blocks.saturating_mul(device.facts().multiprocessors)).filter(|&blocks| blocks > 0)
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

#[cfg(test)]
mod tests {
    use super::waits;

    #[test]
    fn only_code_that_waits_overlaps() {
        assert!(["sm_90", "sm_90a", "compute_90", "compute_120", "sm_100"].into_iter().all(waits));
        assert!(["compute_87", "sm_80", "compute_75", "", "fatbin"].into_iter().all(|architecture| !waits(architecture)));
    }
}

//! Devices that run kernels: the GPUs of this machine, and its CPU.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::array::DeviceArray;
use crate::element::Element;
use crate::error::Error;
use crate::kernel::Prepared;
use crate::stream::Stream;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::Compiler;
use gpukc_runtime::device::Device;
use gpukc_runtime::queue::Queue;

/// A device that runs kernels: a GPU, or the CPU in its place. Clones are the same device.
///
/// What is asked of a GPU happens in order on its [stream](Gpu::stream), and later: a call returns when it has been asked for.
/// Reading an array waits for what computes it. An index that depends on data and is out of range makes the next wait fail:
/// [`Gpu::synchronize`], [`Stream::synchronize`], [`Event::synchronize`](crate::Event::synchronize), or reading an array.
///
/// ```
/// let gpu = gpukc::Gpu::cpu();
/// let x = gpu.upload(&[1.0f32, 2.0, 3.0])?;
/// assert_eq!(x.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), gpukc::Error>(())
/// ```
#[derive(Clone)]
pub struct Gpu {
    /// The stream that calls use that name none; it knows the device.
    main: Stream,
}

pub(crate) struct Shared {
    pub(crate) backend: Backend,
}

pub(crate) enum Backend {
    Cpu,
    Cuda(Box<Cuda>),
}

/// What runs kernels on a GPU.
pub(crate) struct Cuda {
    pub(crate) queue: Queue,
    pub(crate) compiler: Compiler,
    /// By the kernels' numbers.
    kernels: Mutex<Vec<Option<Arc<Prepared>>>>,
}

impl Cuda {
    pub(crate) fn kernels(&self) -> MutexGuard<'_, Vec<Option<Arc<Prepared>>>> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// Its number, as [`Gpu::new`] takes it; none for the CPU.
    pub ordinal: Option<u32>,
    /// Its name.
    pub name: String,
    /// The architecture that kernels are compiled for, such as `sm_90a`; `cpu` for the CPU.
    pub architecture: String,
    /// Multiprocessors of a GPU; cores of the CPU that are used.
    pub multiprocessors: u32,
    /// Shared memory that a block of threads may have, in bytes; 0 for the CPU.
    pub shared_bytes: u32,
    /// Level-2 cache in bytes; 0 where that is not known.
    pub cache_bytes: u32,
    /// Memory in bytes; 0 where that is not known.
    pub memory_bytes: u64,
}

impl Info {
    /// The device in a sentence: there may be several of its name.
    pub(crate) fn called(&self) -> String {
        self.ordinal.map_or(self.name.clone(), |ordinal| format!("GPU {ordinal}, {}", self.name))
    }
}

impl Gpu {
    /// The GPU of that number among those that the driver shows this program (`CUDA_VISIBLE_DEVICES`), from 0. Arrays belong to this
    /// value and its clones: what is opened again has arrays, kernels and failures of its own.
    ///
    /// # Errors
    /// If there is no such GPU, or no driver, or if this process was forked from one that has used a GPU.
    pub fn new(ordinal: u32) -> Result<Gpu, Error> {
        let queue = Queue::new(&Device::open(ordinal)?)?;
        let compiler = Compiler::new(Cache::from_environment());
        let gpu = Gpu::of(Backend::Cuda(Box::new(Cuda { queue, compiler, kernels: Mutex::default() })));
        gpu.watch(std::env::var_os("GPUKC_SYNC").is_some_and(|value| value != "0" && !value.is_empty()));
        Ok(gpu)
    }

    /// The CPU in a GPU's place: the same kernels, the same bits, no GPU needed. Calls return when they are done.
    pub fn cpu() -> Gpu {
        Gpu::of(Backend::Cpu)
    }

    fn of(backend: Backend) -> Gpu {
        Gpu::of_shared(&Arc::new(Shared { backend }))
    }

    /// The first GPU, or the CPU where there is none.
    ///
    /// # Errors
    /// If there is a GPU that can't be used.
    pub fn any() -> Result<Gpu, Error> {
        use gpukc_runtime::error::{Error as Device, Missing};
        match Gpu::new(0) {
            Err(error) => match error.cause() {
                Some(Device::Missing(Missing::Driver | Missing::Device(_, 100, _) | Missing::Ordinal { count: 0, .. })) => {
                    Ok(Gpu::cpu())
                }
                _ => Err(error),
            },
            gpu => gpu,
        }
    }

    /// What it is.
    pub fn info(&self) -> Info {
        match self.backend() {
            Backend::Cpu => Info {
                ordinal: None,
                name: "CPU".to_owned(),
                architecture: "cpu".to_owned(),
                multiprocessors: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
                shared_bytes: 0,
                cache_bytes: 0,
                memory_bytes: 0,
            },
            Backend::Cuda(cuda) => {
                let facts = cuda.queue.device().facts();
                Info {
                    ordinal: Some(facts.ordinal),
                    name: facts.name.clone(),
                    architecture: facts.target.to_string(),
                    multiprocessors: facts.multiprocessors,
                    shared_bytes: facts.shared_bytes,
                    cache_bytes: facts.cache_bytes,
                    memory_bytes: facts.memory_bytes,
                }
            }
        }
    }

    /// Free and total memory of a GPU in bytes, if the driver tells; waits for what has been asked of it.
    pub fn memory(&self) -> Option<(u64, u64)> {
        match self.backend() {
            Backend::Cpu => None,
            Backend::Cuda(cuda) => cuda.queue.device().memory(),
        }
    }

    /// Whether it is the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(self.backend(), Backend::Cpu)
    }

    /// The stream that calls use that name none.
    pub fn stream(&self) -> &Stream {
        &self.main
    }

    /// A further stream, which runs beside the others. Arrays may be used on any of them: a stream that uses an array waits for
    /// those that wrote it before.
    ///
    /// # Errors
    /// If the driver refuses one.
    pub fn new_stream(&self) -> Result<Stream, Error> {
        match self.backend() {
            Backend::Cpu => Ok(Stream::cpu(self.shared())),
            Backend::Cuda(cuda) => Ok(Stream::cuda(self.shared(), cuda.queue.stream()?)),
        }
    }

    /// Waits until everything is done that was asked of the device.
    ///
    /// # Errors
    /// If something of it has failed, an index out of range say.
    pub fn synchronize(&self) -> Result<(), Error> {
        match self.backend() {
            Backend::Cpu => Ok(()),
            Backend::Cuda(cuda) => Ok(cuda.queue.synchronize_all()?),
        }
    }

    /// Whether each launch is waited for, so that the call whose kernel fails is the one that returns the error, indices out of
    /// range included. Slow, for looking for faults; the environment variable `GPUKC_SYNC=1` switches it on from the start.
    pub fn watch(&self, watched: bool) {
        if let Backend::Cuda(cuda) = self.backend() {
            cuda.queue.watch(watched);
        }
    }

    /// An array of one dim with these elements.
    ///
    /// # Errors
    /// If the device has no memory left.
    pub fn upload<T: Element>(&self, values: &[T]) -> Result<DeviceArray<T, 1>, Error> {
        DeviceArray::new(self, [values.len()], values)
    }

    /// An array of zeros (of `false`).
    ///
    /// # Errors
    /// If the device has no memory left.
    pub fn zeros<T: Element, const RANK: usize>(&self, shape: [usize; RANK]) -> Result<DeviceArray<T, RANK>, Error> {
        DeviceArray::zeros(self, shape)
    }

    pub(crate) fn backend(&self) -> &Backend {
        self.main.backend()
    }

    fn shared(&self) -> &Arc<Shared> {
        self.main.shared()
    }

    /// The device of a stream.
    pub(crate) fn of_shared(shared: &Arc<Shared>) -> Gpu {
        let stream = match &shared.backend {
            Backend::Cpu => Stream::cpu(shared),
            Backend::Cuda(cuda) => Stream::cuda(shared, cuda.queue.main_stream()),
        };
        Gpu { main: stream }
    }

    /// A stream that is not ours.
    pub(crate) fn adopted(&self, stream: gpukc_runtime::stream::Stream) -> Stream {
        Stream::cuda(self.shared(), stream)
    }

    /// Whether memory of one is memory of the other.
    pub(crate) fn same_queue(&self, other: &Gpu) -> bool {
        self.is(other.shared())
    }

    pub(crate) fn is(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(self.shared(), shared)
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let info = self.info();
        write!(f, "Gpu({}, {})", info.called(), info.architecture)
    }
}

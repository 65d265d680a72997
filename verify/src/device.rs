//! What runs texts: a GPU, or the C++ compiler of this machine.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpukc_codegen::kernel::Site;
use gpukc_codegen::target::Target;
use gpukc_dsl::program::{ArrayId, Kernel, Parameter};
use gpukc_emulate::{Emulator, Error, Mode};
use gpukc_runtime::compile::{Binary, Compiler, Wanted};
use gpukc_runtime::device::Device as RuntimeDevice;
use gpukc_runtime::error::{Error as RuntimeError, Kind};
use gpukc_runtime::launch;

use crate::draw::Call;
use crate::text::Text;

/// A text and a call of it.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The text.
    pub text: &'a Text,
    /// The kernel that it was made of.
    pub kernel: &'a Kernel,
    /// The call.
    pub call: &'a Call,
}

/// Results by bytes, in the kernel's order.
pub type Results = Result<Vec<Vec<u8>>, Problem>;

/// Why there are no results.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// An index is reported.
    Index {
        /// The kernel's name.
        kernel: String,
        /// The subscript.
        site: Site,
        /// The index.
        index: i64,
        /// The extent that it must be below.
        extent: i64,
    },
    /// The text is wrong, or what runs it.
    Wrong(String),
    /// The machine has not enough of something.
    Machine(String),
}

/// Something that runs texts.
pub trait Device {
    /// What texts are made for; an emulator runs those of several architectures.
    fn targets(&self) -> &[Target];
    /// About how many terms and points a usual call may have, and one with large extents.
    fn work(&self) -> [i64; 2];
    /// Whether a job ends in reasonable time.
    fn bears(&self, job: &Job) -> bool;
    /// Runs jobs.
    fn run(&self, jobs: &[Job]) -> Vec<Results>;
    /// Removes what was kept of past runs.
    fn forget(&self) {}
    /// Why nothing more can be run, if so.
    fn lost(&self) -> Option<String> {
        None
    }
}

/// The C++ compiler of this machine, behind crate `emulate`.
#[derive(Debug)]
pub struct Emulated(Emulator);

/// Without clusters of blocks and with them.
pub const EMULATED: [Target; 2] = [Target { capability: 80, specific: false }, Target { capability: 90, specific: true }];

/// A launch of more threads takes minutes.
const THREADS: u64 = 600_000;

impl Emulated {
    /// Keeps what is compiled in a folder. Watched are the ends of arrays, barriers and shuffles: what costs no time.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Emulated, Error> {
        Emulated::with_mode(folder, Mode::Plain)
    }
    /// As [`Emulated::new`], watching something else.
    pub fn with_mode(folder: impl Into<PathBuf>, mode: Mode) -> Result<Emulated, Error> {
        Ok(Emulated(Emulator::with_mode(folder, mode)?.limit(120)))
    }
    /// Uses this many cores; without it, one.
    pub fn threads(self, threads: usize) -> Emulated {
        Emulated(self.0.threads(threads))
    }
}

fn emulated_call<'a>(number: usize, job: &Job<'a>) -> gpukc_emulate::Call<'a> {
    gpukc_emulate::Call {
        text: &job.text.cuda,
        kernel: job.kernel,
        bindings: &job.call.bindings,
        inputs: job.call.arrays.iter().map(|array| array.bytes()).collect(),
        in_place: None,
        aligned: job.text.facts.aligned,
        order: number as u64 % 4,
    }
}

impl Device for Emulated {
    fn targets(&self) -> &[Target] {
        &EMULATED
    }
    fn work(&self) -> [i64; 2] {
        [20_000, 200_000]
    }
    fn forget(&self) {
        self.0.forget();
    }
    fn bears(&self, job: &Job) -> bool {
        emulated_call(0, job).threads() <= THREADS
    }
    fn run(&self, jobs: &[Job]) -> Vec<Results> {
        let calls: Vec<gpukc_emulate::Call> = jobs.iter().enumerate().map(|(number, job)| emulated_call(number, job)).collect();
        let problem = |error| match error {
            Error::Index { kernel, site, index, extent } => Problem::Index { kernel, site, index, extent },
            Error::Tool(what) => Problem::Machine(what),
            other => Problem::Wrong(other.to_string()),
        };
        self.0.run_many(&calls).into_iter().map(|result| result.map_err(problem)).collect()
    }
}

/// A GPU.
pub struct Gpu {
    device: RuntimeDevice,
    compiler: Compiler,
    targets: [Target; 1],
}

impl Gpu {
    /// The GPU of that number.
    pub fn open(ordinal: u32, compiler: Compiler) -> Result<Gpu, RuntimeError> {
        let device = RuntimeDevice::open(ordinal)?;
        Ok(Gpu { targets: [device.facts().target], device, compiler })
    }

    /// Compiles on all cores.
    fn compile(&self, jobs: &[Job]) -> Vec<Option<Result<Binary, RuntimeError>>> {
        let next = AtomicUsize::new(0);
        let some = || {
            let mut made = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(at) else { return made };
                let cuda = &job.text.cuda;
                made.push((at, self.compiler.compile(&cuda.source, &cuda.name, self.targets[0], Wanted::Binary, &[])));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
        let made = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect::<Vec<_>>()
        });
        let mut binaries: Vec<Option<Result<Binary, RuntimeError>>> = jobs.iter().map(|_| None).collect();
        made.into_iter().for_each(|(at, binary)| binaries[at] = Some(binary));
        binaries
    }

    fn run_one(&self, job: &Job, binary: Option<Result<Binary, RuntimeError>>) -> Result<Vec<Vec<u8>>, RuntimeError> {
        let binary = binary.unwrap_or_else(|| Err(RuntimeError::Bug("a text was not compiled".into())))?;
        let loaded = launch::Program::load(&self.device, &job.text.cuda, &binary)?;
        let ids = job.kernel.parameters.iter().filter_map(|parameter| match *parameter {
            Parameter::Array(id) => Some(id),
            Parameter::Scalar(_) => None,
        });
        let inputs: Vec<(ArrayId, &[u8])> = ids.zip(&job.call.arrays).map(|(id, tensor)| (id, tensor.bytes())).collect();
        let names = |id: ArrayId| job.kernel.arrays[id].name.clone();
        let call = launch::Call::new(job.kernel, &job.call.bindings);
        Ok(loaded.run(&call, &inputs, &job.kernel.results, &names)?.results)
    }
}

impl Device for Gpu {
    fn targets(&self) -> &[Target] {
        &self.targets
    }
    fn work(&self) -> [i64; 2] {
        [200_000, 4_000_000]
    }
    fn bears(&self, _: &Job) -> bool {
        true
    }
    fn run(&self, jobs: &[Job]) -> Vec<Results> {
        let problem = |error: RuntimeError| match error {
            RuntimeError::IndexOutOfRange { kernel, site, index, extent } => Problem::Index { kernel, site, index, extent },
            RuntimeError::Rejected(rejected) => Problem::Wrong(format!("NVRTC rejects the text: {}", rejected.log)),
            other @ RuntimeError::OutOfMemory { .. } => Problem::Machine(other.to_string()),
            other if matches!(other.kind(), Kind::Bug | Kind::Input) => Problem::Wrong(other.to_string()),
            other => Problem::Machine(other.to_string()),
        };
        jobs.iter().zip(self.compile(jobs)).map(|(job, binary)| self.run_one(job, binary).map_err(problem)).collect()
    }
    fn lost(&self) -> Option<String> {
        self.device.synchronize().err().map(|error| error.to_string())
    }
}

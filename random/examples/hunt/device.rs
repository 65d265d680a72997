//! What runs texts: the emulator or the first GPU.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpukc_codegen::target::Target;
use gpukc_dsl::program::{ArrayId, Kernel, Parameter};
use gpukc_emulate::{Emulator, Error, Mode};
use gpukc_random::draw::Call;
use gpukc_random::trial::Text;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Binary, Compiler, Wanted};
use gpukc_runtime::error::Error as RuntimeError;
use gpukc_runtime::launch;

/// A text and a call of it.
pub struct Job<'a> {
    pub text: &'a Text,
    pub kernel: &'a Kernel,
    pub call: &'a Call,
}

/// Why there are no results.
pub enum Problem {
    Index,
    Other(String),
}

/// Something that runs texts.
pub trait Device {
    fn target(&self) -> Target;
    fn run(&self, jobs: &[Job]) -> Vec<Result<Vec<Vec<u8>>, Problem>>;
    /// Removes what was kept of past runs.
    fn forget(&self) {}
}

/// The device of that name; none for `passes`.
pub fn open(name: &str) -> Option<Box<dyn Device>> {
    match name {
        "passes" => None,
        "gpu" => Some(Box::new(Gpu {
            device: gpukc_runtime::device::Device::open(0).expect("a GPU"),
            compiler: Compiler::new(Cache::off()),
        })),
        other => {
            let mode = match other {
                "emulate" => Mode::Address,
                "emulate-plain" => Mode::Plain,
                "emulate-thread" => Mode::Thread,
                _ => panic!("--against {other}: passes, emulate, emulate-plain, emulate-thread or gpu"),
            };
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("gpukc-hunt-{}-{number}", std::process::id()));
            Some(Box::new(Emulated(Emulator::with_mode(folder.clone(), mode).expect("an emulator").limit(60), folder)))
        }
    }
}

struct Emulated(Emulator, std::path::PathBuf);

impl Drop for Emulated {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

impl Device for Emulated {
    fn target(&self) -> Target {
        Target { capability: 80, specific: false }
    }
    fn forget(&self) {
        self.0.forget();
    }
    fn run(&self, jobs: &[Job]) -> Vec<Result<Vec<Vec<u8>>, Problem>> {
        fn call<'a>(number: usize, job: &Job<'a>) -> gpukc_emulate::Call<'a> {
            gpukc_emulate::Call {
                text: &job.text.cuda,
                kernel: job.kernel,
                bindings: &job.call.bindings,
                inputs: job.call.arrays.iter().map(|array| array.bytes()).collect(),
                aligned: job.text.facts.aligned,
                order: number as u64 % 4,
            }
        }
        let calls: Vec<gpukc_emulate::Call> = jobs.iter().enumerate().map(|(number, job)| call(number, job)).collect();
        let results = self.0.run_many(&calls);
        let results = results.into_iter().map(|result| {
            result.map_err(|error| match error {
                Error::Index { .. } => Problem::Index,
                other => Problem::Other(other.to_string()),
            })
        });
        results.collect()
    }
}

struct Gpu {
    device: gpukc_runtime::device::Device,
    compiler: Compiler,
}

impl Device for Gpu {
    fn target(&self) -> Target {
        self.device.facts().target
    }
    fn run(&self, jobs: &[Job]) -> Vec<Result<Vec<Vec<u8>>, Problem>> {
        let next = AtomicUsize::new(0);
        let binaries: Vec<Mutex<Option<Result<Binary, RuntimeError>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(at) else { break };
                        let cuda = &job.text.cuda;
                        let binary = self.compiler.compile(&cuda.source, &cuda.name, self.target(), Wanted::Binary, &[]);
                        *binaries[at].lock().expect("a lock") = Some(binary);
                    }
                });
            }
        });
        let run = |(job, binary): (&Job, Mutex<Option<Result<Binary, RuntimeError>>>)| {
            let binary = binary.into_inner().expect("a lock").expect("a binary")?;
            let loaded = launch::Program::load(&self.device, &job.text.cuda, &binary)?;
            let ids = job.kernel.parameters.iter().filter_map(|parameter| match *parameter {
                Parameter::Array(id) => Some(id),
                Parameter::Scalar(_) => None,
            });
            let inputs: Vec<(ArrayId, &[u8])> = ids.zip(&job.call.arrays).map(|(id, tensor)| (id, tensor.bytes())).collect();
            let names = |id: ArrayId| job.kernel.arrays[id].name.clone();
            let outcome = loaded.run(&launch::Call::new(job.kernel, &job.call.bindings), &inputs, &job.kernel.results, &names)?;
            Ok(outcome.results)
        };
        let results = jobs.iter().zip(binaries).map(run).map(|result: Result<Vec<Vec<u8>>, RuntimeError>| {
            result.map_err(|error| match error {
                RuntimeError::IndexOutOfRange { .. } => Problem::Index,
                other => Problem::Other(other.to_string()),
            })
        });
        results.collect()
    }
}

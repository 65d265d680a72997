//! Emitted CUDA on the CPU, for tests and `gpukc verify`: a text and a call in, the bytes of its results out, or what is wrong with the text.
//!
//! A text is compiled, unmodified, by the machine's C++ compiler behind `shim/cuda_on_cpu.h`; a runner executes the launches
//! of its contract as `runtime` would, every thread as a fiber (`shim/runner.cpp`, `shim/fibers.h`). Found are: accesses outside an array,
//! misaligned wide accesses, C++'s undefined arithmetic, shared, register and scratch memory read before it is written, barriers
//! and shuffles that not all threads reach, and with [`Mode::Thread`] races between the threads of a block.
//!
//! Not found: races between blocks (they run one after the other, in an order that [`Call::order`] chooses; those of a cluster
//! take turns from one of its barriers to the next), and faults of
//! inline PTX, in whose place a text has C++ for the host.

mod error;
mod job;
mod toolchain;

use std::borrow::Cow;
use std::path::PathBuf;

use gpukc_codegen::kernel::Kernel;
use gpukc_dsl::call::Bindings;
use gpukc_dsl::program;

pub use error::Error;
use toolchain::Toolchain;

/// What is watched while a text runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Addresses, alignment and undefined arithmetic.
    #[default]
    Address,
    /// Races between the threads of a block; slower.
    Thread,
    /// Barriers, shuffles, and accesses to what is not memory next to an array; fast.
    Plain,
}

/// A call of a compiled kernel.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The text and its contract.
    pub text: &'a Kernel,
    /// The kernel that it was made of.
    pub kernel: &'a program::Kernel,
    /// The call's dims, scalars and extents.
    pub bindings: &'a Bindings,
    /// The bytes of the array parameters, in order.
    pub inputs: Vec<&'a [u8]>,
    /// The parameter whose memory the only result has, if the text was made so.
    pub in_place: Option<program::ArrayId>,
    /// Whether arrays start at multiples of 16 bytes; else at multiples of their elements' size only.
    pub aligned: bool,
    /// In which order threads and blocks run: 0 ascending, 1 descending, else shuffled with this seed.
    pub order: u64,
}

impl<'a> Call<'a> {
    /// A call with aligned arrays, in ascending order.
    pub fn new(text: &'a Kernel, kernel: &'a program::Kernel, bindings: &'a Bindings, inputs: &[&'a [u8]]) -> Call<'a> {
        Call { text, kernel, bindings, inputs: inputs.to_vec(), in_place: None, aligned: true, order: 0 }
    }
}

impl Call<'_> {
    /// How many threads its launches have between them: what running it takes, roughly.
    pub fn threads(&self) -> u64 {
        let launched = self.text.launches.iter().map(|launch| {
            let blocks = launch.grid.iter().map(|extent| extent.evaluate(self.bindings).max(0) as u64).fold(1, u64::saturating_mul);
            launch.block.iter().map(|extent| u64::from(*extent)).fold(blocks, u64::saturating_mul)
        });
        launched.fold(0, u64::saturating_add)
    }
}

/// The bytes of a call's results, in the order of the kernel's.
pub type Results = Vec<Vec<u8>>;

/// Compiles and runs texts; keeps what it has compiled in a folder.
#[derive(Debug)]
pub struct Emulator {
    toolchain: Toolchain,
    seconds: u32,
}

impl Emulator {
    /// With the compiler that `CXX` names, else `g++`, `c++` or `clang++`. Builds of other versions in the folder do no harm.
    pub fn new(cache: impl Into<PathBuf>) -> Result<Emulator, Error> {
        Emulator::with_mode(cache, Mode::default())
    }

    /// As [`Emulator::new`], watching something else.
    pub fn with_mode(cache: impl Into<PathBuf>, mode: Mode) -> Result<Emulator, Error> {
        Ok(Emulator { toolchain: Toolchain::new(cache.into(), mode)?, seconds: 120 })
    }

    /// Ends calls that take longer; without it, than two minutes.
    pub fn limit(mut self, seconds: u32) -> Emulator {
        self.seconds = seconds;
        self
    }

    /// Removes what was compiled. No other emulator may be using the folder.
    pub fn forget(&self) {
        self.toolchain.forget();
    }

    /// Compiles and runs this many things at a time; without it, one.
    pub fn threads(mut self, threads: usize) -> Emulator {
        self.toolchain.threads = threads;
        self
    }

    /// Runs a call with aligned arrays.
    pub fn run(&self, text: &Kernel, kernel: &program::Kernel, bindings: &Bindings, inputs: &[&[u8]]) -> Result<Results, Error> {
        let mut results = self.run_many(&[Call::new(text, kernel, bindings, inputs)]);
        results.pop().unwrap_or_else(|| Err(Error::Tool("no result of a call".into())))
    }

    /// Runs calls one after the other; one that ends its process does not end the others. Their texts are compiled together, which is
    /// faster.
    pub fn run_many(&self, calls: &[Call]) -> Vec<Result<Results, Error>> {
        let texts: Vec<Cow<str>> = calls.iter().map(|call| job::source(call.text)).collect();
        let sources: Vec<&str> = texts.iter().map(|text| text.as_ref()).collect();
        let entries: Vec<Vec<&str>> =
            calls.iter().map(|call| call.text.launches.iter().map(|launch| launch.entry.as_str()).collect()).collect();
        let built = self.toolchain.build(&sources, &entries);
        let mut jobs = Vec::new();
        let mut places = Vec::new();
        for (call, built) in calls.iter().zip(built) {
            let job = built.and_then(|built| job::encode(call, &built));
            places.push(job.map(|job| {
                jobs.push(job);
                jobs.len() - 1
            }));
        }
        let mut ended = match self.toolchain.execute(&jobs, self.seconds) {
            Ok(ended) => ended.into_iter().map(Some).collect(),
            Err(error) => {
                let all = places.into_iter().map(|place| place.and(Err(error.clone())));
                return all.collect();
            }
        };
        let take = |place: usize, ended: &mut Vec<Option<Result<Vec<u8>, Error>>>| {
            ended.get_mut(place).and_then(Option::take).unwrap_or_else(|| Err(Error::Tool("no result of a call".into())))
        };
        let decode = |(call, place): (&Call, Result<usize, Error>)| job::decode(call, take(place?, &mut ended)?);
        calls.iter().zip(places).map(decode).collect()
    }
}

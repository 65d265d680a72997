//! The command line as plain data; nothing is done yet.

use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand, ValueEnum};

/// What holds for all commands.
const NOTES: &str = "\
Exit status: 0 done; 1 the program is wrong; 2 usage; 3 the machine lacks something; 4 the inputs do not fit, or
  --timeout; 70 an internal error. Ctrl-C ends a command at once.
Environment: GPUKC_CACHE_DIR, GPUKC_CACHE=off, GPUKC_CACHE_BYTES; GPUKC_NVRTC, CUDA_PATH, CUDA_HOME; NO_COLOR.";

/// A compiler for array programs in index notation.
#[derive(Debug, Parser)]
#[command(name = "gpukc", disable_version_flag = true, max_term_width = 100, after_help = NOTES)]
pub struct Args {
    /// Print the version, and the NVRTC and driver found
    #[arg(short = 'V', long)]
    pub version: bool,
    /// End after this many seconds, whatever is not done by then
    #[arg(long, value_name = "SECONDS", global = true)]
    pub timeout: Option<f64>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check a program and report its problems
    Check(Check),
    /// Compile kernels to CUDA text, PTX or machine code
    Compile(Compile),
    /// Run a kernel on the GPU or the CPU
    Run(Run),
    /// Time a kernel on the GPU, its inputs resident there
    ///
    /// Calls go round several sets of inputs and results, which together hold three times the level-2 cache, so that nothing is
    /// found there; the further sets are copies of the first. Calls below a millisecond are timed as a CUDA graph of many. The time is
    /// the median by the device's clock. JSON: median_us, min_us, p90_us; runs, the number of timings, each of so many calls; method,
    /// graph or event; sets; bytes of inputs and results, and gb_per_s by them; sites, the subscripts checked on the device; host_us,
    /// what a launch takes the host; registers and local memory of each launch.
    Bench(Bench),
    /// Compare every schedule with the reference, on adversarial sizes and data, bit for bit
    ///
    /// Calls of each kernel are drawn: empty, one, odd, just around what schedules are made of, large; with data that round,
    /// overflow and are no numbers. Each is evaluated by the reference in several ways, and every CUDA text that the compiler
    /// would make for it is run: on a GPU, or with --device cpu by this machine's C++ compiler, if there is one. Results that
    /// @fast_math or float accumulation without @deterministic goes into are compared with a tolerance.
    Verify(Verify),
    /// Describe a diagnostic's code, such as GK0203, or list them all
    Explain(Explain),
    /// Lay programs out in the usual way, in place
    ///
    /// Comments stay, and so does what a program means; a file with syntax errors is left alone. Lines come out ending in LF,
    /// whatever they ended in (CRLF becomes LF), and a byte-order mark is dropped.
    Fmt(Fmt),
    /// Look at or empty the cache of compiled kernels
    Cache(Cache),
    /// Say what of driver, device, NVRTC and cache works, and what to do about the rest
    ///
    /// The exit status is 3 if the device asked for can't be used: without --device, if there is a GPU and NVRTC, and they fail.
    /// A machine without them runs on the CPU, and lacks nothing that was asked for.
    Doctor(Doctor),
    /// Fetch NVRTC with this machine's pip into the user's data folder
    Setup,
    /// Print a completion script for a shell
    Completions(Completions),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Human,
    Json,
}

#[derive(Debug, Arguments)]
pub struct Check {
    /// .gk files, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Emit {
    Cuda,
    Ptx,
    Cubin,
    Fatbin,
    Project,
    Plan,
}

/// A stage of the pipeline, to stop after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Stage {
    Parse,
    Check,
    Cuda,
    Compile,
}

#[derive(Debug, Arguments)]
pub struct Compile {
    /// A .gk file, or - for standard input
    pub file: PathBuf,
    /// Only this kernel; may be given several times
    #[arg(long, value_name = "NAME")]
    pub kernel: Vec<String>,
    /// native, all, or architectures such as sm_80,sm_90a
    #[arg(long, value_delimiter = ',', value_name = "ARCH")]
    pub arch: Vec<String>,
    /// Specialise for these extents: n=4096,m=512
    #[arg(long, value_delimiter = ',', value_name = "DIM=EXTENT")]
    pub shape: Vec<String>,
    /// Choose the text that a call with these dims and integers gets, as run does: n=4096,k=3; it serves other calls too
    #[arg(long, value_delimiter = ',', value_name = "NAME=VALUE", conflicts_with = "shape", allow_hyphen_values = true)]
    pub call: Vec<String>,
    /// With --call: one whose arrays do not all start at multiples of 16 bytes
    #[arg(long, requires = "call")]
    pub misaligned: bool,
    /// The text of a call whose result takes the place of this parameter, as Rust programs make them; of one kernel
    #[arg(long, value_name = "PARAMETER", conflicts_with = "line_info")]
    pub in_place: Option<String>,
    /// What to write
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cuda")]
    pub emit: Vec<Emit>,
    /// Let the text refer to the lines of the program, for profilers and sanitizers
    #[arg(long)]
    pub line_info: bool,
    /// The folder to write into; without it, or as -, one file goes to standard output
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[arg(long, value_enum, hide = true)]
    pub stop_after: Option<Stage>,
}

#[derive(Debug, Arguments)]
pub struct Run {
    /// A .gk file, or - for standard input
    pub file: PathBuf,
    /// Which kernel, if the file has several
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// NAME=SOURCE: a .npy file, a scalar, or rand:1024x512[:SEED], randn:…, arange:…, zeros:…, ones:…
    #[arg(long = "in", value_name = "NAME=SOURCE", allow_hyphen_values = true)]
    pub inputs: Vec<String>,
    /// NAME=FILE.npy: where to write a result, - being standard output; an unnamed result is called out
    #[arg(long = "out", value_name = "NAME=FILE")]
    pub outputs: Vec<String>,
    /// auto, cpu, cuda or cuda:N
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Write times and counts to this file
    #[arg(long, value_name = "FILE.json")]
    pub stats: Option<PathBuf>,
    #[arg(long, value_enum, hide = true)]
    pub stop_after: Option<Stage>,
}

#[derive(Debug, Arguments)]
pub struct Bench {
    /// A .gk file, or - for standard input
    pub file: PathBuf,
    /// Which kernel, if the file has several
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// NAME=SOURCE, as for run
    #[arg(long = "in", value_name = "NAME=SOURCE", allow_hyphen_values = true)]
    pub inputs: Vec<String>,
    /// cuda or cuda:N
    #[arg(long, default_value = "cuda")]
    pub device: String,
    /// NAME=FILE.npy: writes a result of the measured program, so that it can be checked; may be given several times
    #[arg(long = "out", value_name = "NAME=FILE.npy")]
    pub outputs: Vec<String>,
    /// Use the same memory in every call, so that what fits the level-2 cache is found there
    #[arg(long)]
    pub hot: bool,
    /// How many timings, of several calls each where a call is short; without it 50, fewer of long calls
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: Option<u32>,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Arguments)]
pub struct Verify {
    /// .gk files, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Only this kernel; may be given several times
    #[arg(long, value_name = "NAME")]
    pub kernel: Vec<String>,
    /// auto, cpu, cuda or cuda:N
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// How many calls of each kernel
    #[arg(long, default_value_t = 24, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub calls: u32,
    /// What calls and data follow from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Take about this long at most, shared among the kernels; each gets one call at least, even of 0 seconds
    #[arg(long)]
    pub seconds: Option<f64>,
}

#[derive(Debug, Arguments)]
pub struct Explain {
    /// A code such as GK0203; without one, all codes are listed
    pub code: Option<String>,
    /// List all codes
    #[arg(long, conflicts_with = "code")]
    pub list: bool,
}

#[derive(Debug, Arguments)]
pub struct Doctor {
    /// auto, cpu, cuda or cuda:N: which must be usable
    #[arg(long, default_value = "auto")]
    pub device: String,
}

#[derive(Debug, Arguments)]
pub struct Fmt {
    /// .gk files, or - for standard input to standard output
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Change nothing; print the names of files that are not formatted, and exit with 1 if there are any
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, Arguments)]
pub struct Cache {
    /// What to do with it
    #[arg(value_enum)]
    pub action: Option<CacheAction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheAction {
    /// Print the folder
    Path,
    /// List the entries, the most recently used first
    List,
    /// Remove all entries
    Clear,
    /// Read and check every entry
    Verify,
}

#[derive(Debug, Arguments)]
pub struct Completions {
    pub shell: clap_complete::Shell,
}

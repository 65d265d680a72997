//! For build scripts: kernels compiled ahead of time, so that programs need neither NVRTC nor time at their first call.
//!
//! ```no_run
//! // build.rs, with gpukc among the build-dependencies
//! fn main() -> Result<(), gpukc::build::Error> {
//!     gpukc::build::Files::new().file("src/kernels.gk").architectures(&["sm_80", "sm_90a"]).compile()
//! }
//! ```
//!
//! `gpu_kernel!("src/kernels.gk")` then embeds the binaries: machine code for the architectures, and PTX for later ones, each of
//! the text that serves every shape and alignment, and of those for calls in place. The machine that builds needs NVRTC, and no
//! GPU; the one that runs the program needs the driver only.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::bundle::{Bundle, Entry, hash};
use crate::error::WORDS;
use crate::kernel::compile;
use gpukc_codegen::facts::Facts;
use gpukc_codegen::target::Target;
use gpukc_dsl::diagnostic::render;
use gpukc_dsl::program::Program;
use gpukc_dsl::program::in_place::in_place;
use gpukc_dsl::source::Source;
use gpukc_runtime::advice::Words;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Compiler, Wanted};

/// Files whose kernels are to be compiled, and for what.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is compiled before `compile` is called"]
pub struct Files {
    files: Vec<PathBuf>,
    architectures: Vec<String>,
}

/// Why a build script has failed: what to tell its user.
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As people read it: this is what `main` prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

/// What is compiled for if nothing is said, as far as NVRTC can.
const USUAL: &[&str] = &["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"];

impl Files {
    /// None yet, for the usual architectures that NVRTC compiles for.
    pub fn new() -> Files {
        Files::default()
    }

    /// A `.gk` file, relative to the folder of the crate's `Cargo.toml`: as [`gpu_kernel!`](crate::gpu_kernel) names it.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Files {
        self.files.push(path.into());
        self
    }

    /// What to compile for, such as `sm_90a`, instead of the usual.
    pub fn architectures(mut self, names: &[&str]) -> Files {
        self.architectures.extend(names.iter().map(|&name| name.to_owned()));
        self
    }

    /// Compiles, and leaves the binaries where the macro finds them. Tells cargo to run the build script again when a file has
    /// changed.
    ///
    /// # Errors
    /// If a file can't be read or is wrong, if NVRTC does not compile for an architecture, or if there is no NVRTC.
    pub fn compile(&self) -> Result<(), Error> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let (Some(folder), Some(out)) = (variable("CARGO_MANIFEST_DIR"), variable("OUT_DIR")) else {
            return Err(Error("cargo sets CARGO_MANIFEST_DIR and OUT_DIR for build scripts: this is none".to_owned()));
        };
        for file in &self.files {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        println!("cargo::rerun-if-env-changed=GPUKC_NVRTC");
        self.compile_in(&folder, &out)
    }

    /// The same with these folders: that of the files, and that for the binaries.
    ///
    /// # Errors
    /// As [`Files::compile`].
    pub fn compile_in(&self, folder: &Path, out: &Path) -> Result<(), Error> {
        let compiler = Compiler::new(Cache::from_environment());
        let targets = self.targets(&compiler)?;
        for file in &self.files {
            let text =
                std::fs::read(folder.join(file)).map_err(|error| Error(format!("{} can't be read: {error}", file.display())))?;
            let text = String::from_utf8(text).map_err(|error| Error(format!("{}: {error}", file.display())))?;
            let source = Source::new(file.display().to_string(), text);
            let checked = gpukc_dsl::check(&source);
            let program = checked.program.ok_or_else(|| Error(render::human(&source, &checked.problems, false)))?;
            let mut bundle = Bundle::default();
            for target in &targets {
                bundle.entries.extend(entries(&source, &program, *target, &compiler)?);
            }
            // As the macro looks for it.
            let name = format!("{}.gpukc", blake3::hash(source.text().as_bytes()).to_hex());
            std::fs::write(out.join(name), bundle.write())
                .map_err(|error| Error(format!("{} can't be written to: {error}", out.display())))?;
        }
        Ok(())
    }

    /// Architectures, and whether PTX is made for them too: for the oldest, so that all later ones have something.
    fn targets(&self, compiler: &Compiler) -> Result<Vec<(Target, bool)>, Error> {
        let unknown = |name: &str| Error(format!("`{name}` is no architecture: they are called like sm_80 or sm_90a"));
        let named = self.architectures.iter().map(|name| Target::parse(name).ok_or_else(|| unknown(name)));
        let mut targets = named.collect::<Result<Vec<_>, _>>()?;
        let nvrtc = compiler.nvrtc().map_err(|error| failed(&error))?;
        let compiles = |target: &Target| nvrtc.architectures.contains(&target.capability);
        if targets.is_empty() {
            targets.extend(USUAL.iter().filter_map(|name| Target::parse(name)).filter(compiles));
        }
        if let Some(other) = targets.iter().find(|target| !compiles(target)) {
            let (major, minor) = nvrtc.version;
            let list: Vec<String> = nvrtc.architectures.iter().map(|capability| format!("sm_{capability}")).collect();
            return Err(Error(format!(
                "NVRTC {major}.{minor} does not compile for {other}; it does for {}\n  help: leave it out, or install another NVRTC; \
                 the PTX of the oldest architecture serves later GPUs",
                list.join(", ")
            )));
        }
        targets.sort();
        targets.dedup();
        let oldest = targets.first().copied();
        Ok(targets.into_iter().map(|target| (target, Some(target) == oldest)).collect())
    }
}

/// What NVRTC says, and what to do about it.
fn failed(error: &gpukc_runtime::error::Error) -> Error {
    // The GPU of the machine that builds is of no account, and so is its CPU.
    let words = Words { cpu: None, results: None, ..WORDS };
    Error(format!("{error}\n  help: {}", error.help(&words)))
}

fn entries(source: &Source, program: &Program, (target, oldest): (Target, bool), compiler: &Compiler) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    for kernel in &program.kernels {
        let mut add = |target: Target, wanted, in_place| {
            let cuda = compile(program, kernel, target, &Facts::default(), in_place);
            let cuda = cuda.map_err(|error| Error(format!("{}: kernel `{}`: {error}", source.name(), kernel.name)))?;
            let compiled = compiler.compile(&cuda.source, &kernel.name, target, wanted, &[]);
            let binary = compiled.map_err(|error| failed(&error))?;
            let architecture = binary.architecture;
            let entry =
                Entry { text: hash(&cuda.source), form: binary.form, architecture, version: binary.nvrtc, image: binary.image };
            if !entries.contains(&entry) {
                entries.push(entry);
            }
            Ok(())
        };
        let result = kernel.results.first().copied();
        let places = in_place(kernel).into_iter().filter_map(|parameter| Some((parameter, result?)));
        for call in std::iter::once(None).chain(places.map(Some)) {
            add(target, Wanted::Binary, call)?;
            if oldest {
                // PTX of architecture-specific code would not run on later ones.
                add(Target { specific: false, ..target }, Wanted::Ptx, call)?;
            }
        }
    }
    Ok(entries)
}

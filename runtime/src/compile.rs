//! CUDA text to a binary for one target, through the cache.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpukc_codegen::target::Target;

use crate::cache::{Cache, Entry, Key};
use crate::error::Error;
use crate::locate::{self, Located};
use crate::nvrtc::{Form, Nvrtc, Resolved};

/// Compiles, remembering where NVRTC is. Cheap to make; may be shared between threads.
pub struct Compiler {
    /// Where binaries are kept.
    pub cache: Cache,
    located: OnceLock<Result<Located, Error>>,
    nvrtc: OnceLock<Result<Nvrtc, Error>>,
    warned: AtomicBool,
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct Binary {
    /// Machine code or PTX.
    pub form: Form,
    /// What it was compiled for: `sm_90a`, `compute_90`.
    pub architecture: String,
    /// The code.
    pub image: Vec<u8>,
    /// The version of NVRTC that made it, as far as its files' names tell.
    pub nvrtc: (u32, Option<u32>),
    /// The compiler's log: registers, spills, warnings.
    pub log: String,
    /// Whether it came from the cache.
    pub hit: bool,
    /// How long it took.
    pub time: Duration,
    /// What is wrong with the cache, if something is. Of all binaries of a compiler one has it at most.
    pub warning: Option<String>,
}

/// What is wanted of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Machine code for the target, or PTX if NVRTC doesn't know the target yet.
    Binary,
    /// PTX of the target.
    Ptx,
}

impl Compiler {
    /// A compiler with this cache.
    pub fn new(cache: Cache) -> Compiler {
        Compiler { cache, located: OnceLock::new(), nvrtc: OnceLock::new(), warned: AtomicBool::new(false) }
    }

    /// Where NVRTC is.
    pub fn located(&self) -> Result<&Located, Error> {
        self.located.get_or_init(locate::locate).as_ref().map_err(Error::clone)
    }

    /// NVRTC, loaded when first asked for.
    pub fn nvrtc(&self) -> Result<&Nvrtc, Error> {
        let open = || self.located().and_then(Nvrtc::open);
        self.nvrtc.get_or_init(open).as_ref().map_err(Error::clone)
    }

    /// Compiles the text of a kernel. `extra` are more options, after ours. A hit doesn't load NVRTC.
    pub fn compile(&self, source: &str, kernel: &str, target: Target, wanted: Wanted, extra: &[String]) -> Result<Binary, Error> {
        let start = Instant::now();
        let located = self.located()?;
        let (identity, version) = (located.identity(), located.version);
        // The architecture that NVRTC ends up with follows from the target and NVRTC itself; both are in the key.
        let base = options("", extra);
        let mut parts: Vec<&[u8]> = vec![source.as_bytes(), identity.as_bytes()];
        let goal = format!("{wanted:?} {target}");
        parts.push(goal.as_bytes());
        parts.extend(base.iter().map(|option| option.as_bytes()));
        let key = Key::of(&parts);
        let lookup = self.cache.get(&key);
        if let Some(entry) = lookup.entry {
            let (head, log) = entry.notes.split_once('\n').unwrap_or((&entry.notes, ""));
            let architecture = head.rsplit(' ').next().unwrap_or("").to_owned();
            let (log, time) = (log.to_owned(), start.elapsed());
            return Ok(Binary {
                form: entry.form,
                architecture,
                image: entry.image,
                nvrtc: version,
                log,
                hit: true,
                time,
                warning: None,
            });
        }
        let nvrtc = self.nvrtc()?;
        let mut resolved = nvrtc.resolve(target)?;
        if wanted == Wanted::Ptx && resolved.form == Form::Cubin {
            let architecture = resolved.architecture.replacen("sm_", "compute_", 1);
            resolved = Resolved { form: Form::Ptx, architecture };
        }
        let mut all = options(&resolved.architecture, extra);
        all.extend(nvrtc.version_options().map(str::to_owned));
        let start = Instant::now();
        let compiled = nvrtc.compile(source, kernel, &all, resolved.form)?;
        let time = start.elapsed();
        let notes = format!("{kernel} {}\n{}", resolved.architecture, compiled.log);
        let entry = Entry { form: resolved.form, notes, image: compiled.image };
        let warning = self.cache.put(&key, &entry);
        let warning = lookup.warning.or(warning).filter(|_| !self.warned.swap(true, Ordering::Relaxed));
        Ok(Binary {
            form: entry.form,
            architecture: resolved.architecture,
            image: entry.image,
            nvrtc: version,
            log: compiled.log,
            hit: false,
            time,
            warning,
        })
    }
}

/// NVRTC's options. Contraction is off: gk says where it fuses. Nothing here may change what a program computes.
fn options(architecture: &str, extra: &[String]) -> Vec<String> {
    let ours = [
        &format!("--gpu-architecture={architecture}"),
        "--std=c++17",
        "--fmad=false",
        "--ftz=false",
        "--prec-div=true",
        "--prec-sqrt=true",
        "--ptxas-options=-v",
    ];
    ours.into_iter().map(str::to_owned).chain(extra.iter().cloned()).collect()
}

//! Why something could not be compiled, loaded or launched, and whose turn it is to act.

use std::fmt;
use std::path::PathBuf;

use gpukc_codegen::kernel::Site;
use gpukc_dsl::source::Span;

use crate::launch::Fit;

/// A failure of this crate. [`Error::kind`] sorts it.
#[derive(Clone, Debug)]
pub enum Error {
    /// The machine lacks something.
    Missing(Missing),
    /// A call of the driver or of NVRTC failed.
    Call {
        /// The function, `cuLaunchKernel` say.
        call: &'static str,
        /// Its result code.
        code: i32,
        /// The code's name, `CUDA_ERROR_LAUNCH_FAILED` say.
        name: String,
        /// The gk kernel it was made for, where there is one.
        kernel: Option<String>,
        /// The function that was launched and the statements that it computes, where that is known.
        launch: Option<(String, Span)>,
    },
    /// Device memory ran out.
    OutOfMemory {
        /// The kernel.
        kernel: Option<String>,
        /// What was to be allocated in all: names and bytes.
        wanted: Vec<(String, u64)>,
        /// Free and total bytes of the device, if it still said.
        memory: Option<(u64, u64)>,
        /// What would fit.
        fits: Vec<Fit>,
    },
    /// The arguments of a call do not fit the kernel.
    Arguments {
        /// The kernel.
        kernel: String,
        /// One sentence.
        message: String,
    },
    /// A check on the device found a subscript out of range.
    IndexOutOfRange {
        /// The kernel.
        kernel: String,
        /// The subscript.
        site: Site,
        /// Its value.
        index: i64,
        /// The extent of the array's axis.
        extent: i64,
    },
    /// The call is beyond a known limit of ours or of the device.
    Limit {
        /// The kernel.
        kernel: String,
        /// One sentence.
        message: String,
    },
    /// NVRTC rejects the text that we emitted: our bug, with all it takes to see why.
    Rejected(Box<Rejected>),
    /// An invariant of ours is broken.
    Bug(String),
}

/// Something that the machine lacks.
#[derive(Clone, Debug, PartialEq)]
pub enum Missing {
    /// No driver library can be opened.
    Driver,
    /// The driver library lacks a function.
    DriverFunction(&'static str),
    /// The driver sees no device, or refuses to start: the call, its code and its name.
    Device(&'static str, i32, String),
    /// There is no device of that number.
    Ordinal {
        /// The number asked for.
        asked: u32,
        /// How many there are.
        count: u32,
    },
    /// NVRTC is nowhere to be found.
    Nvrtc {
        /// Where it was looked for, in order.
        searched: Vec<String>,
    },
    /// `$GPUKC_NVRTC` is set and holds no NVRTC.
    NvrtcSetting(PathBuf),
    /// An NVRTC library does not load, or lacks a function.
    NvrtcBroken(PathBuf, String),
    /// NVRTC misses its `libnvrtc-builtins`.
    NvrtcBuiltins(PathBuf),
    /// NVRTC does not compile for so old an architecture.
    Architecture {
        /// The one asked for.
        asked: String,
        /// NVRTC's version.
        version: String,
        /// What it compiles for.
        supported: Vec<u32>,
    },
    /// The driver is too old for the code.
    DriverTooOld {
        /// The call that said so.
        call: &'static str,
        /// The driver's CUDA version, such as 12.4.
        driver: Option<(u32, u32)>,
        /// The version of NVRTC, whose code it is.
        nvrtc: (u32, Option<u32>),
    },
    /// The driver was started before this process was forked.
    Forked,
}

/// A text that NVRTC rejects.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The kernel.
    pub kernel: String,
    /// The text.
    pub source: String,
    /// The options, in order.
    pub options: Vec<String>,
    /// What NVRTC says.
    pub log: String,
    /// The result code's name.
    pub code: String,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The user's inputs do not fit.
    Input,
    /// The environment lacks something.
    Environment,
    /// A known limit.
    Limit,
    /// Ours to mend.
    Bug,
}

impl Error {
    /// Sorts the error.
    pub fn kind(&self) -> Kind {
        match self {
            // What was wanted for a call does not fit; else the device was full before.
            Error::OutOfMemory { wanted, .. } if !wanted.is_empty() => Kind::Input,
            Error::Missing(_) | Error::OutOfMemory { .. } => Kind::Environment,
            Error::Arguments { .. } | Error::IndexOutOfRange { .. } => Kind::Input,
            Error::Limit { .. } => Kind::Limit,
            Error::Rejected(_) | Error::Bug(_) => Kind::Bug,
            // NVRTC is out of host memory; whatever else it says of our text is ours to mend.
            Error::Call { call, code, .. } if call.starts_with("nvrtc") => {
                if *code == 1 {
                    Kind::Environment
                } else {
                    Kind::Bug
                }
            }
            // The driver's own trouble: what is not started, not there, broken, or not permitted. What a kernel or a call of
            // ours does wrong (invalid value, illegal address, misaligned address, launch failure …) is a bug.
            Error::Call { code, .. } => match code {
                3 | 4 | 34..=36 | 46 | 100..=102 | 205..=207 | 214 | 216 | 219..=223 | 226 | 300..=304 | 702 => Kind::Environment,
                800..=808 | 999 => Kind::Environment,
                _ => Kind::Bug,
            },
        }
    }
    /// A call that failed.
    pub(crate) fn call(call: &'static str, code: i32, name: String) -> Error {
        Error::Call { call, code, name, kernel: None, launch: None }
    }
    /// Where in the source it happened, as far as that is known.
    pub fn span(&self) -> Option<Span> {
        match self {
            Error::IndexOutOfRange { site, .. } => Some(site.span),
            Error::Call { launch: Some((_, span)), .. } => Some(*span),
            _ => None,
        }
    }
    /// The same error, naming the launch it happened in.
    pub(crate) fn for_launch(mut self, entry: &str, span: Span) -> Error {
        if let Error::Call { launch, .. } = &mut self {
            launch.get_or_insert_with(|| (entry.to_owned(), span));
        }
        self
    }
    /// The same error, naming the kernel it happened to.
    pub fn for_kernel(mut self, kernel_name: &str) -> Error {
        if let Error::Call { kernel, .. } | Error::OutOfMemory { kernel, .. } = &mut self {
            kernel.get_or_insert_with(|| kernel_name.to_owned());
        }
        self
    }
}

/// `13.0`, or `13` where the minor number is unknown.
pub(crate) fn version_text((major, minor): (u32, Option<u32>)) -> String {
    minor.map_or(major.to_string(), |minor| format!("{major}.{minor}"))
}

/// A number of bytes, for people.
pub fn bytes_text(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing(missing) => missing.fmt(f),
            Error::Call { call, code, name, kernel, launch } => {
                write!(f, "{call} failed with {code} ({name})")?;
                if let Some(kernel) = kernel {
                    write!(f, " for kernel `{kernel}`")?;
                }
                launch.as_ref().map_or(Ok(()), |(entry, _)| write!(f, ", in its launch `{entry}`"))
            }
            Error::OutOfMemory { kernel, wanted, .. } => {
                f.write_str("out of device memory")?;
                if let Some(kernel) = kernel {
                    write!(f, " for kernel `{kernel}`")?;
                }
                for (at, (name, bytes)) in wanted.iter().enumerate() {
                    write!(f, "{} {name} {}", if at == 0 { ":" } else { "," }, bytes_text(*bytes))?;
                }
                Ok(())
            }
            Error::Arguments { kernel, message } => write!(f, "kernel `{kernel}`: {message}"),
            Error::IndexOutOfRange { kernel, site, index, extent } => write!(
                f,
                "kernel `{kernel}`: index {index} is out of range for axis {} of `{}`, whose extent is {extent}",
                site.axis, site.array
            ),
            Error::Limit { kernel, message } => write!(f, "kernel `{kernel}`: {message}"),
            Error::Rejected(rejected) => {
                write!(f, "NVRTC rejects the CUDA text of kernel `{}` ({})", rejected.kernel, rejected.code)
            }
            Error::Bug(message) => write!(f, "internal error: {message}"),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Driver => f.write_str("there is no NVIDIA driver here (libcuda does not load)"),
            Missing::DriverFunction(name) => write!(f, "the NVIDIA driver lacks `{name}`"),
            Missing::Device(_, 100, _) => f.write_str("the NVIDIA driver sees no GPU"),
            Missing::Device(call, code, name) => write!(f, "the NVIDIA driver does not start: {call} says {code} ({name})"),
            Missing::Ordinal { asked, count } => write!(f, "there is no device cuda:{asked}: the driver sees {count}"),
            Missing::Nvrtc { searched } => write!(f, "NVRTC is not found; looked in {}", searched.join(", ")),
            Missing::NvrtcSetting(path) => write!(f, "GPUKC_NVRTC is `{}`, which holds no NVRTC library", path.display()),
            Missing::NvrtcBroken(path, why) => write!(f, "NVRTC at `{}` does not work: {why}", path.display()),
            Missing::NvrtcBuiltins(path) => {
                write!(f, "NVRTC at `{}` does not find its libnvrtc-builtins", path.display())
            }
            Missing::Architecture { asked, version, supported } => {
                let list: Vec<String> = supported.iter().map(|capability| format!("sm_{capability}")).collect();
                write!(f, "NVRTC {version} does not compile for {asked}; it does for {}", list.join(", "))
            }
            Missing::DriverTooOld { call, driver, nvrtc } => {
                write!(f, "the NVIDIA driver is too old for the code of NVRTC {}", version_text(*nvrtc))?;
                if let Some((major, minor)) = driver {
                    write!(f, ": it knows CUDA {major}.{minor}")?;
                }
                write!(f, " ({call})")
            }
            Missing::Forked => f.write_str("CUDA was started before this process was forked, and can't be used in it"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Missing> for Error {
    fn from(missing: Missing) -> Error {
        Error::Missing(missing)
    }
}

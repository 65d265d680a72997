//! What the typed interface fails with.

use std::fmt;

use gpukc_codegen as codegen;
use gpukc_cpu::RunError;
use gpukc_dsl::call::CallError;
use gpukc_dsl::source::{Source, Span};
use gpukc_runtime::advice::Words;
use gpukc_runtime::error::{self as device, Missing};
use gpukc_runtime::queue::Fault;

/// Why a call failed: one sentence, whose turn it is to act, and, where these are known, the kernel, the place in its text, the
/// driver's call and what to do.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    place: Option<Place>,
    help: Option<String>,
    cause: Option<device::Error>,
}

/// Sorts errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes or scalars don't suit the kernel, or arrays are not of one device.
    Arguments,
    /// An index that depends on data was out of range. Nothing outside of the array was read or written; what the kernel should
    /// have computed is not to be relied on.
    IndexOutOfRange,
    /// The device, or the host, has no memory left.
    OutOfMemory,
    /// The machine lacks something: a driver, a device, NVRTC.
    Environment,
    /// A known limit of gpukc or of the device.
    Limit,
    /// A fault of gpukc.
    Bug,
}

/// A call of the driver or of NVRTC that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverCall<'a> {
    /// The function, `cuLaunchKernel` say.
    pub function: &'static str,
    /// Its result code.
    pub code: i32,
    /// The code's name, `CUDA_ERROR_LAUNCH_FAILED` say.
    pub name: &'a str,
}

/// Where in a program something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as rustc or the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, message: message.into(), place: None, help: None, cause: None }))
    }

    pub(crate) fn arguments(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Arguments, message)
    }

    pub(crate) fn bug(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Bug, format!("internal error: {}", message.into())).help("this is a bug of gpukc: please report it")
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Error {
        self.0.help = Some(help.into());
        self
    }

    fn at(mut self, source: &Source, span: Option<Span>) -> Error {
        self.0.place = span.map(|span| {
            let position = source.position(span.start as usize);
            Place { file: source.name().to_owned(), line: position.line, column: position.column }
        });
        self
    }

    /// Shapes and scalars that don't suit a kernel.
    pub(crate) fn call(error: &CallError, source: &Source) -> Error {
        Error::arguments(error.describe(Some(source))).at(source, error.span)
    }

    /// A kernel that is not compiled for GPUs.
    pub(crate) fn compilation(error: codegen::error::Error, kernel: &str, source: &Source) -> Error {
        match error {
            codegen::error::Error::Limit { message, span } => Error::new(ErrorKind::Limit, format!("kernel `{kernel}`: {message}"))
                .help("this is not supported on the GPU yet; `Gpu::cpu()` runs it")
                .at(source, Some(span)),
            codegen::error::Error::Bug(message) => Error::bug(format!("kernel `{kernel}`: {message}")),
        }
    }

    /// A run on the CPU that failed.
    pub(crate) fn run(error: RunError, source: &Source) -> Error {
        match error {
            RunError::OutOfRange { kernel, span, array, index, axis, extent } => {
                let site = codegen::kernel::Site { array, axis, span };
                Error::device(device::Error::IndexOutOfRange { kernel, site, index, extent }, Some(source))
            }
            RunError::Memory { kernel, array, bytes } => {
                let bytes = device::bytes_text(u64::try_from(bytes).unwrap_or(u64::MAX));
                Error::new(ErrorKind::OutOfMemory, format!("kernel `{kernel}`: no memory for `{array}`, which takes {bytes}"))
            }
            RunError::Argument { .. } | RunError::Unsupported { .. } => Error::bug(error.to_string()),
        }
    }

    /// A failure of the device. `source` is the text of the kernel that it is about.
    pub(crate) fn device(error: device::Error, source: Option<&Source>) -> Error {
        let kind = match (&error, error.kind()) {
            (device::Error::IndexOutOfRange { .. }, _) => ErrorKind::IndexOutOfRange,
            (device::Error::OutOfMemory { .. }, _) => ErrorKind::OutOfMemory,
            (_, device::Kind::Input) => ErrorKind::Arguments,
            (_, device::Kind::Environment) => ErrorKind::Environment,
            (_, device::Kind::Limit) => ErrorKind::Limit,
            (_, device::Kind::Bug) => ErrorKind::Bug,
        };
        let message = match &error {
            // Not about a kernel.
            device::Error::Arguments { kernel, message } | device::Error::Limit { kernel, message } if kernel.is_empty() => {
                message.clone()
            }
            device::Error::Missing(Missing::Ordinal { asked, count }) => {
                format!("there is no device number {asked}: the driver sees {count}")
            }
            other => other.to_string(),
        };
        let mut made = Error::new(kind, message);
        // Of a mistake that is about no kernel, the message says it all.
        if !matches!(&error, device::Error::Arguments { kernel, .. } if kernel.is_empty()) {
            made = made.help(error.help(&WORDS));
        }
        if let Some(source) = source {
            made = made.at(source, error.span());
        }
        made.0.cause = Some(error);
        made
    }

    /// Whose turn it is to act.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Where in the kernel's text it happened.
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// The call of the driver or of NVRTC that failed, if it was one.
    pub fn driver_call(&self) -> Option<DriverCall<'_>> {
        match self.0.cause.as_ref()? {
            device::Error::Call { call, code, name, .. } | device::Error::Missing(Missing::Device(call, code, name)) => {
                Some(DriverCall { function: call, code: *code, name })
            }
            _ => None,
        }
    }

    /// The failure of the device below.
    pub(crate) fn cause(&self) -> Option<&device::Error> {
        self.0.cause.as_ref()
    }
}

/// What programs can be advised to do.
pub(crate) const WORDS: Words = Words {
    cpu: Some("`Gpu::cpu()`"),
    results: Some("`Gpu::cpu()`"),
    architecture: None,
    doctor: Some("`gpukc doctor`"),
    setup: Some("`gpukc setup`"),
    device: "number ",
};

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.0.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

/// As people read it: this is what `main` prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        self.0.help.as_ref().map_or(Ok(()), |help| write!(f, "\n  help: {help}"))
    }
}

// What it is made of is part of its own message: it has no source.
impl std::error::Error for Error {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::device(fault.error, fault.source.as_deref())
    }
}

impl From<device::Error> for Error {
    fn from(error: device::Error) -> Error {
        Error::device(error, None)
    }
}

//! `--device`: which device a run takes, and why not another.

use gpukc_runtime::compile::Compiler;
use gpukc_runtime::device::Facts;
use gpukc_runtime::error::{Error, Missing};

use crate::failure::Failure;
use crate::output;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Auto,
    Cpu,
    Cuda(u32),
}

/// Parses `--device`.
pub fn parse(text: &str) -> Result<Asked, Failure> {
    match (text, text.strip_prefix("cuda:").map(str::parse)) {
        ("auto", _) => Ok(Asked::Auto),
        ("cpu", _) => Ok(Asked::Cpu),
        ("cuda", _) => Ok(Asked::Cuda(0)),
        (_, Some(Ok(ordinal))) => Ok(Asked::Cuda(ordinal)),
        _ => Err(Failure::usage(format!("--device is auto, cpu, cuda or cuda:N, not `{text}`"))),
    }
}

/// Parses `--device` of a command that is about a GPU.
pub fn parse_gpu(text: &str) -> Result<u32, Failure> {
    match parse(text) {
        Ok(Asked::Cuda(ordinal)) => Ok(ordinal),
        Ok(Asked::Auto) => Ok(0),
        Ok(Asked::Cpu) | Err(_) => Err(Failure::usage(format!("--device is cuda or cuda:N, not `{text}`: the GPU is measured"))),
    }
}

/// Whether there is such a GPU, and an NVRTC.
pub fn usable(ordinal: u32, compiler: &Compiler) -> Result<(), Error> {
    Facts::of(ordinal).and_then(|_| compiler.located()).map(|_| ())
}

/// The GPU to run on, or none for the CPU. If `auto` takes the CPU, says so in one line.
pub fn choose(asked: Asked, compiler: &Compiler) -> Result<Option<u32>, Failure> {
    match asked {
        Asked::Cpu => Ok(None),
        Asked::Cuda(ordinal) => usable(ordinal, compiler).map(|()| Some(ordinal)).map_err(Failure::from),
        Asked::Auto => match usable(0, compiler) {
            Ok(()) => Ok(Some(0)),
            Err(error) => {
                let command = match error {
                    Error::Missing(Missing::Nvrtc { .. }) => "gpukc setup",
                    _ => "gpukc doctor",
                };
                let reason = match error {
                    Error::Missing(Missing::Nvrtc { .. }) => "NVRTC is not found".to_owned(),
                    other => other.to_string(),
                };
                output::note(&format!("note: running on the CPU, since {reason}; `{command}` helps"));
                Ok(None)
            }
        },
    }
}

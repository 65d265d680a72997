//! What to do about an error, in the words of whoever tells it: one command takes what another refuses, and programs have other
//! names for the same things. So advice is made when it is given, and offers what its reader has.

use crate::error::{Error, Kind, Missing, version_text};
use crate::launch::Fit;

/// What those who get advice have at hand, as they call it.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// What does the same on the CPU.
    pub cpu: Option<&'static str>,
    /// What gives a kernel's results without the GPU, where that is not all that was asked for.
    pub results: Option<&'static str>,
    /// How to choose another architecture.
    pub architecture: Option<&'static str>,
    /// What finds out what the machine lacks.
    pub doctor: Option<&'static str>,
    /// What fetches NVRTC.
    pub setup: Option<&'static str>,
    /// What stands before a device's number.
    pub device: &'static str,
}

impl Words {
    /// For those who have nothing at hand, and number devices as the command line does.
    pub const NONE: Words = Words { cpu: None, results: None, architecture: None, doctor: None, setup: None, device: "cuda:" };

    /// Where results are to be had although something of ours is broken.
    pub fn meanwhile(&self) -> Option<String> {
        self.results.map(|results| format!("meanwhile {results} gives the same results"))
    }

    /// One way, or else the CPU.
    fn or_cpu(&self, way: impl Into<String>) -> String {
        either([Some(way.into()), self.on_cpu()])
    }

    fn on_cpu(&self) -> Option<String> {
        self.cpu.map(|cpu| format!("use {cpu}"))
    }

    /// Finds out more.
    fn look(&self) -> String {
        self.doctor.map_or("see whether `nvidia-smi` finds the GPU".to_owned(), |doctor| format!("run {doctor}"))
    }
}

/// Several ways, of which each will do.
fn either<const COUNT: usize>(ways: [Option<String>; COUNT]) -> String {
    let mut ways: Vec<String> = ways.into_iter().flatten().collect();
    match ways.pop() {
        Some(last) if !ways.is_empty() => format!("{}, or {last}", ways.join(", ")),
        last => last.unwrap_or_default(),
    }
}

impl Error {
    /// What to do about it.
    pub fn help(&self, words: &Words) -> String {
        match self {
            Error::Missing(missing) => missing.help(words),
            Error::OutOfMemory { fits, .. } if !fits.is_empty() => {
                let fits: Vec<String> =
                    fits.iter().map(|Fit { dim, value, largest }| format!("{dim} up to {largest} (it is {value})")).collect();
                words.or_cpu(format!("use smaller inputs, such as {}", fits.join(", ")))
            }
            Error::OutOfMemory { .. } => either([
                Some("use smaller inputs".to_owned()),
                Some("end other programs that use the GPU's memory".to_owned()),
                words.on_cpu(),
            ]),
            Error::Arguments { .. } => "pass arrays of the shapes and types that the kernel declares".to_owned(),
            Error::IndexOutOfRange { .. } => {
                "mend the index data, or state a boundary rule in the subscript (`| clamp`, `| 0.0`, …)".to_owned()
            }
            Error::Limit { .. } => words.or_cpu("use smaller inputs"),
            Error::Call { call, code: 1, .. } if call.starts_with("nvrtc") => {
                words.or_cpu("end other programs, for this machine's memory is used up")
            }
            Error::Call { code: 702, .. } => {
                "the display's driver ends kernels that run for seconds; use smaller inputs, or a GPU without a display".to_owned()
            }
            Error::Call { code: 803, .. } => {
                "the driver's library and kernel module are of different versions; restart the machine".to_owned()
            }
            Error::Call { code: 214 | 220, .. } => {
                "the GPU reports broken memory or links; restart the machine or use another GPU".to_owned()
            }
            Error::Call { .. } if self.kind() == Kind::Environment => {
                format!("the GPU may be lost or in use; {}", words.or_cpu(words.look()))
            }
            Error::Call { .. } | Error::Rejected(_) | Error::Bug(_) => {
                let meanwhile = words.meanwhile().map_or(String::new(), |meanwhile| format!("; {meanwhile}"));
                format!("this is a bug of gpukc: please report it{meanwhile}")
            }
        }
    }
}

impl Missing {
    fn help(&self, words: &Words) -> String {
        match self {
            Missing::Driver => words.or_cpu("install the NVIDIA driver"),
            Missing::DriverFunction(_) => words.or_cpu("update the NVIDIA driver"),
            Missing::DriverTooOld { nvrtc, driver, .. } => {
                let older = driver.and_then(|(major, _)| match major {
                    ..12 => None,
                    12 => Some("set GPUKC_NVRTC to an NVRTC of CUDA 12 (`pip install nvidia-cuda-nvrtc-cu12`)".to_owned()),
                    _ => Some(format!("set GPUKC_NVRTC to an NVRTC of CUDA {major}")),
                });
                let update = format!("update the NVIDIA driver to one for CUDA {}", version_text(*nvrtc));
                either([Some(update), older, words.on_cpu()])
            }
            Missing::Device(_, 100 | 101, _) if std::env::var_os("CUDA_VISIBLE_DEVICES").is_some() => {
                words.or_cpu("unset CUDA_VISIBLE_DEVICES, which may hide the devices")
            }
            Missing::Device(_, 803, _) => "its library and kernel module are of different versions; restart the machine".to_owned(),
            Missing::Device(..) | Missing::Ordinal { count: 0, .. } => words.or_cpu(words.look()),
            Missing::Ordinal { count: 1, .. } => format!("the only device is {}0", words.device),
            Missing::Ordinal { count, .. } => format!("the devices are {0}0 to {0}{1}", words.device, count - 1),
            Missing::Nvrtc { .. } | Missing::NvrtcBuiltins(_) => either([
                words.setup.map(|setup| format!("run {setup}, which fetches NVRTC")),
                Some("set GPUKC_NVRTC to the library or its folder".to_owned()),
            ]),
            Missing::NvrtcSetting(_) => "set GPUKC_NVRTC to libnvrtc.so.* or its folder, or unset it".to_owned(),
            Missing::NvrtcBroken(..) => either([
                words.setup.map(|setup| format!("install NVRTC anew ({setup})")),
                Some("set GPUKC_NVRTC to another".to_owned()),
            ]),
            Missing::Architecture { .. } => {
                either([words.architecture.map(str::to_owned), Some("install an older NVRTC".to_owned()), words.on_cpu()])
            }
            Missing::Forked => "start CUDA in the new process only, or start the new process by exec".to_owned(),
        }
    }
}

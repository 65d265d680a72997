//! The stand-ins for the driver and for NVRTC, built once, and commands that meet them instead of the machine's own.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const DRIVER: &str = include_str!("driver.cpp");
const NVRTC: &str = include_str!("nvrtc.cpp");

/// Which driver there is.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code)]
pub enum Driver {
    /// With all that the runtime can use.
    Whole,
    /// Without what drivers before CUDA 11.2 lack.
    Old,
    /// Without a function that every driver has.
    Broken,
    /// None at all.
    Absent,
}

/// A folder with `libcuda.so.1`; an empty one for [`Driver::Absent`].
pub fn driver(which: Driver) -> PathBuf {
    match which {
        Driver::Whole => library("libcuda.so.1", DRIVER, "-DWHOLE"),
        Driver::Old => library("libcuda.so.1", DRIVER, "-DOLD"),
        Driver::Broken => library("libcuda.so.1", DRIVER, "-DBROKEN"),
        Driver::Absent => Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned(),
    }
}

/// A folder with `libnvrtc.so.13`.
pub fn nvrtc() -> PathBuf {
    library("libnvrtc.so.13", NVRTC, "-DWHOLE")
}

/// Lets a command meet this driver and the stand-in for NVRTC, with nothing set that changes what they do.
pub fn prepare(command: &mut Command, which: Driver) -> &mut Command {
    for name in ["CUDA_VISIBLE_DEVICES", "CUDA_PATH", "CUDA_HOME", "GPUKC_CACHE", "GPUKC_CACHE_BYTES"] {
        command.env_remove(name);
    }
    command.env("LD_LIBRARY_PATH", driver(which)).env("GPUKC_NVRTC", nvrtc())
}

/// Builds a library unless it is there, in a folder of its own that is named after its text.
fn library(name: &str, text: &str, option: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (name, text, option).hash(&mut hasher);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("standin-{:016x}", hasher.finish()));
    if folder.join(name).is_file() {
        return folder;
    }
    // Under another name first: tests of several processes and threads build at once.
    let staged = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = staged.path().join("source.cpp");
    fs::write(&source, text).unwrap();
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-O1", "-fPIC", "-shared", "-pthread", option]).arg(&source);
    let output = command.arg("-o").arg(staged.path().join(name)).output().expect("a C++ compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    if name.starts_with("libnvrtc") {
        fs::write(staged.path().join("libnvrtc-builtins.so.13.0"), "").unwrap();
    }
    // Whoever is first keeps its place.
    let _ = fs::rename(staged.keep(), &folder);
    assert!(folder.join(name).is_file());
    folder
}

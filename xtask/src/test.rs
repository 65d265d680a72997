//! `cargo xtask test` and `cargo xtask gpu`.
//!
//! Everything is built in the release profile: the tests evaluate millions of values, and the artefacts are those of the `gpukc`
//! that users run. `cargo test` while working uses the dev profile, with overflow checks.

use std::process::Command;

use crate::command::{Result, cargo, root, run};
use crate::{bundle, nvrtc};

/// Everything that needs no GPU. Tests of every crate end in cargo's usual lines.
pub fn test() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    let nvrtc = nvrtc::provide()?;
    let features = ["--workspace", "--features", "device,ndarray"];
    run(cargo(&["clippy", "--release", "--all-targets"]).args(features).args(["--", "--deny", "warnings"]))?;
    run(cargo(&["doc", "--release", "--no-deps"]).args(features).env("RUSTDOCFLAGS", "--deny warnings"))?;
    run(with(nvrtc, &mut cargo(&["test", "--release", "--workspace", "--features", "nvrtc,ndarray"])))
}

/// The cache under processes that are killed, for as long as asked.
pub fn stress(seconds: &str) -> Result<()> {
    run(&mut cargo(&["test", "--release", "--package", "gpukc-runtime", "--test", "stress", "--", "--seconds", seconds]))
}

/// Mutated inputs, as many as asked.
pub fn fuzz(arguments: &[&str]) -> Result<()> {
    run(cargo(&["run", "--release", "--package", "gpukc-fuzz", "--"]).args(arguments))
}

/// The tests of the feature `device` on this machine's GPU, what calls from Rust cost, and every schedule against the reference.
pub fn gpu() -> Result<()> {
    let nvrtc = nvrtc::provide()?;
    let mut tests = cargo(&["test", "--release", "--workspace", "--features", "device"]);
    tests.args(["--test", "device", "--test", "face_device", "--test", "nvrtc"]);
    let tested = run(with(nvrtc.clone(), &mut tests));
    let calls = bundle::built(bundle::CALLS)?.pop().ok_or("nothing was built that calls")?;
    let measured = run(with(nvrtc.clone(), &mut Command::new(&calls)));
    let program = bundle::built(&["build", "--release", "--package", "gpukc-cli"])?.pop().ok_or("no gpukc was built")?;
    let mut verify = Command::new("bash");
    verify.args(["-c", bundle::VERIFY, "verify.sh"]).arg(program).env("CALLS", calls).current_dir(root());
    let verified = run(with(nvrtc, &mut verify));
    tested.and(measured).and(verified)
}

fn with(nvrtc: Option<std::ffi::OsString>, command: &mut Command) -> &mut Command {
    if let Some(folder) = nvrtc {
        command.env("GPUKC_NVRTC", folder);
    }
    command
}

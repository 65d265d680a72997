//! `cargo xtask gpu --bundle DIR`: a folder that runs the device tests on a machine that has a GPU and no Rust.
//!
//! It holds the `gpukc` program, the tests of the feature `device` as stripped executables, the cases and snapshots that they
//! read, the examples, `calls`, which measures calls from Rust, `run.sh`, and `verify.sh`, which it calls: every schedule against
//! the reference, under sanitizers too. NVRTC is found there as for users (`GPUKC_NVRTC` names one, `./gpukc setup` fetches one).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Result, cargo, output, root, run};

const SCRIPT: &str = r#"#!/usr/bin/env bash
# Runs the device tests. Needs an NVIDIA driver, and NVRTC (found as gpukc finds it; $GPUKC_NVRTC names one).
set -euo pipefail
cd "$(dirname "$0")"
# The tests read tests/cases and tests/snapshots below this folder.
export CARGO_MANIFEST_DIR="$PWD"
./gpukc doctor || true
failed=0
for test in bin/*; do
  echo "== $test"
  "$test" || failed=1
done
echo "== an example"
./gpukc run examples/reduce.gk --in x=rand:8000000 --device cuda || failed=1
echo "== calls from Rust"
./calls || failed=1
CALLS=./calls ./verify.sh ./gpukc || failed=1
exit $failed
"#;

/// `gpukc verify` over all programs, plain and under compute-sanitizer.
pub const VERIFY: &str = include_str!("verify.sh");

/// Builds what measures calls from Rust.
pub const CALLS: &[&str] = &["build", "--release", "--bench", "calls"];

/// Builds and fills `folder`, which must be new or a bundle of before.
pub fn bundle(folder: &Path) -> Result<()> {
    let folder = if folder.is_absolute() { folder.to_owned() } else { root().join(folder) };
    let is_bundle = folder.join("run.sh").is_file() && folder.join("gpukc").is_file();
    let is_empty = fs::read_dir(&folder).map_or(true, |mut entries| entries.next().is_none());
    if !is_bundle && !is_empty {
        return Err(format!("{} is there already and is no bundle", folder.display()));
    }
    let program = built(&["build", "--release", "--package", "gpukc-cli"])?;
    let tests = built(&[
        "test",
        "--release",
        "--no-run",
        "--workspace",
        "--features",
        "device",
        "--test",
        "device",
        "--test",
        "face_device",
        "--test",
        "nvrtc",
    ])?;
    let _ = fs::remove_dir_all(&folder);
    for (files, name) in [(&program, "gpukc"), (&built(CALLS)?, "calls")] {
        files.iter().try_for_each(|file| place(file, &folder.join(name)))?;
    }
    for file in &tests {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        place(file, &folder.join("bin").join(stem))?;
    }
    for part in ["tests/cases", "tests/emulated", "tests/snapshots", "examples"] {
        copy_folder(&root().join(part), &folder.join(part))?;
    }
    let script = folder.join("run.sh");
    for (path, text) in [(&script, SCRIPT), (&folder.join("verify.sh"), VERIFY)] {
        let trouble = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::write(path, text).map_err(trouble)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(trouble)?;
    }
    println!("{}: {} test programs; run {}", folder.display(), tests.len(), script.display());
    Ok(())
}

/// Builds, and gives the executables, as cargo names them in its messages.
pub fn built(arguments: &[&str]) -> Result<Vec<PathBuf>> {
    let messages = output(cargo(arguments).args(["--message-format", "json-render-diagnostics"]))?;
    let executable = |line: &str| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split_once('"').map(|(path, _)| PathBuf::from(path))
    };
    let found: Vec<PathBuf> = messages.lines().filter_map(executable).collect();
    if found.is_empty() { Err(format!("cargo {} built no executable", arguments.join(" "))) } else { Ok(found) }
}

/// Copies and strips an executable.
fn place(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    run(Command::new("strip").arg(to))
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let trouble = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(trouble)?;
    for entry in fs::read_dir(from).map_err(trouble)? {
        let entry = entry.map_err(trouble)?;
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).map_err(trouble)?;
        }
    }
    Ok(())
}

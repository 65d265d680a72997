//! Makes sure that the tests find an NVRTC library: the one that users would get, else a wheel fetched into `target/nvrtc`.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use gpukc_runtime::locate;

use crate::command::{Result, root, run};

/// The same as `gpukc setup` fetches (`tests/tidy.rs` compares them).
const WHEEL: &str = "nvidia-cuda-nvrtc==13.0.88";

/// The value of `GPUKC_NVRTC` for the tests; `None` if they find NVRTC without it.
pub fn provide() -> Result<Option<OsString>> {
    let kept = root().join("target").join("nvrtc");
    if std::env::var_os("GPUKC_NVRTC").is_none_or(|value| value.is_empty()) && kept.join("nvidia").is_dir() {
        return Ok(Some(kept.into()));
    }
    match locate::locate() {
        Ok(found) => {
            eprintln!("NVRTC: {} ({})", found.path.display(), found.origin);
            return Ok(None);
        }
        // A setting that leads nowhere is the user's to mend.
        Err(error) if std::env::var_os("GPUKC_NVRTC").is_some_and(|value| !value.is_empty()) => return Err(error.to_string()),
        Err(_) => eprintln!("NVRTC: none found; fetching {WHEEL} (about 90 MB) into {}", kept.display()),
    }
    // Beside its place and then renamed, so that half an installation is never found.
    let staged = kept.with_extension("partial");
    let _ = fs::remove_dir_all(&staged);
    fetch(&staged)?;
    fs::rename(&staged, &kept).map_err(|error| format!("{}: {error}", kept.display()))?;
    Ok(Some(kept.into()))
}

fn fetch(folder: &std::path::Path) -> Result<()> {
    let python = if cfg!(windows) { "python" } else { "python3" };
    let install = |python: &std::ffi::OsStr| {
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
        run(pip.arg(folder).arg(WHEEL))
    };
    if Command::new(python).args(["-m", "pip", "--version"]).output().is_ok_and(|output| output.status.success()) {
        return install(python.as_ref());
    }
    // Python without pip: an environment of its own brings one.
    let venv = root().join("target").join("nvrtc-venv");
    run(Command::new(python).args(["-m", "venv"]).arg(&venv)).map_err(|error| {
        format!(
            "{error}; NVRTC is fetched with Python's pip: install python3-pip or python3-venv, or set GPUKC_NVRTC to an NVRTC library"
        )
    })?;
    install(venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python3" }).as_os_str())
}

//! `gpukc setup`: fetches NVRTC with this machine's pip into the user's data folder.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::Compiler;
use gpukc_runtime::error::{Error, Missing};
use gpukc_runtime::locate;

use crate::commands::version::of_nvrtc;
use crate::failure::Failure;
use crate::output;

/// The wheel that everything is tested with.
const WHEEL: &str = "nvidia-cuda-nvrtc==13.0.88";

/// How a folder's name starts while pip fills it.
const STAGED: &str = "nvrtc-";

pub fn run() -> Result<(), Failure> {
    match locate::locate() {
        Ok(located) => {
            let (version, path) = (of_nvrtc(&located), located.path.display());
            output::result(format!("NVRTC {version} is there already: {path} (by {}). Nothing was done.\n", located.origin));
            return Ok(());
        }
        Err(error @ Error::Missing(Missing::NvrtcSetting(_))) => return Err(error.into()),
        Err(_) => {}
    }
    let data = locate::data_folder()
        .ok_or_else(|| Failure::environment("there is no data folder: HOME is not set", Some("set XDG_DATA_HOME")))?;
    let trouble = |error: std::io::Error| Failure::environment(format!("{}: {error}", data.display()), None);
    fs::create_dir_all(&data).map_err(trouble)?;
    sweep(&data);
    // Beside its place and then renamed, so that half an installation is never found.
    let staged = tempfile::Builder::new().prefix(STAGED).tempdir_in(&data).map_err(trouble)?;
    let goal = data.join("nvrtc");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
    pip.arg(staged.path()).arg(WHEEL).stdin(Stdio::null()).stdout(Stdio::null());
    output::note(&format!("fetching {WHEEL} (about 90 MB) with python3 -m pip into {}", goal.display()));
    let status = pip.status().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::environment("python3 is not found", Some("install Python with pip, or set GPUKC_NVRTC to an NVRTC library"))
        }
        _ => Failure::environment(format!("python3: {error}"), None),
    })?;
    if !status.success() {
        let help = "see pip's message above; or set GPUKC_NVRTC to an NVRTC library";
        return Err(Failure::environment(format!("pip does not install {WHEEL}"), Some(help)));
    }
    if goal.exists() {
        fs::remove_dir_all(&goal).map_err(trouble)?;
    }
    fs::rename(staged.keep(), &goal).map_err(trouble)?;
    let compiler = Compiler::new(Cache::off());
    let nvrtc = compiler.nvrtc()?;
    let (version, path) = (nvrtc.version_text(), nvrtc.located.path.display());
    output::result(format!("installed NVRTC {version}: {path}\nTo remove it, delete {}.\n", goal.display()));
    Ok(())
}

/// Removes what a setup has left that was ended a day ago or earlier.
fn sweep(data: &Path) {
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        let old = entry
            .metadata()
            .and_then(|data| data.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > Duration::from_secs(86_400)));
        if old && entry.file_name().to_str().is_some_and(|name| name.starts_with(STAGED)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

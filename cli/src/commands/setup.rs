//! `gpukc setup`: fetches NVRTC with this machine's pip into the user's data folder.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpukc_codegen::target::Target;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Compiler, Wanted};
use gpukc_runtime::error::Error;
use gpukc_runtime::locate::{self, Located};

use crate::commands::doctor::TRIAL;
use crate::commands::version::of_nvrtc;
use crate::ending::Guarded;
use crate::failure::Failure;
use crate::output;

/// The wheel that everything is tested with.
const WHEEL: &str = "nvidia-cuda-nvrtc==13.0.88";

/// How a folder's name starts while pip fills it.
const STAGED: &str = "nvrtc-";

pub fn run() -> Result<(), Failure> {
    match working() {
        Ok(located) => {
            let (version, path) = (of_nvrtc(&located), located.path.display());
            output::result(format!("NVRTC {version} is there already: {path} (by {}). Nothing was done.\n", located.origin));
            return Ok(());
        }
        // It would be found before whatever is fetched.
        Err(error) if std::env::var_os("GPUKC_NVRTC").is_some_and(|value| !value.is_empty()) => {
            return Err(Failure::from(error).help("unset GPUKC_NVRTC, then `gpukc setup` fetches NVRTC"));
        }
        Err(_) => {}
    }
    let data = locate::data_folder()
        .ok_or_else(|| Failure::environment("there is no data folder: HOME is not set", Some("set XDG_DATA_HOME")))?;
    let trouble = |error: std::io::Error| Failure::environment(format!("{}: {error}", data.display()), None);
    fs::create_dir_all(&data).map_err(trouble)?;
    sweep(&data);
    // Beside its place and then renamed, so that half an installation is never found.
    let make = || tempfile::Builder::new().prefix(STAGED).tempdir_in(&data);
    let (staged, _guarded) = Guarded::make(make, |folder| folder.path().to_owned()).map_err(trouble)?;
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
    let first = locate::locate()?;
    if !first.path.starts_with(&goal) {
        let message =
            format!("installed NVRTC in {}, but {} is found before it and does not work", goal.display(), first.path.display());
        return Err(Failure::environment(message, None).help(format!("set GPUKC_NVRTC={}", goal.display())));
    }
    let located = working()?;
    let (version, path) = (of_nvrtc(&located), located.path.display());
    output::result(format!("installed NVRTC {version}: {path}\nTo remove it, delete {}.\n", goal.display()));
    Ok(())
}

/// The NVRTC that is found, if it compiles.
fn working() -> Result<Located, Error> {
    let compiler = Compiler::new(Cache::off());
    let newest = compiler.nvrtc()?.architectures.last().copied().unwrap_or(90);
    compiler.compile(TRIAL, "trial", Target { capability: newest, specific: false }, Wanted::Binary, &[])?;
    compiler.located().cloned()
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

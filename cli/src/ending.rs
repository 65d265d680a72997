//! The end of the command before its work is done: by Ctrl-C or `--timeout`. At once, and without leaving temporary files.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use gpukc_runtime::process::exit_at_once;

use crate::failure::Failure;
use crate::output;

/// What a signal's end says to the shell: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// Temporary files and folders that are there now.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporary() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARY.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A temporary file or folder that goes if the command ends early. Dropping this forgets it.
pub struct Guarded(PathBuf);

impl Guarded {
    /// Makes something temporary. No end comes between its making and its being known.
    pub fn make<T>(make: impl FnOnce() -> std::io::Result<T>, path: impl FnOnce(&T) -> PathBuf) -> std::io::Result<(T, Guarded)> {
        let mut all = temporary();
        let made = make()?;
        let path = path(&made);
        all.push(path.clone());
        Ok((made, Guarded(path)))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        temporary().retain(|path| *path != self.0);
    }
}

/// A temporary folder, gone when this is dropped, and if the command ends early.
pub struct Folder {
    folder: tempfile::TempDir,
    _guarded: Guarded,
}

impl Folder {
    pub fn new() -> std::io::Result<Folder> {
        let make = || tempfile::Builder::new().prefix("gpukc-").tempdir();
        let (folder, _guarded) = Guarded::make(make, |folder| folder.path().to_owned())?;
        Ok(Folder { folder, _guarded })
    }
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes what is temporary and ends the process. The lock is kept, so that nothing temporary is made meanwhile.
fn end(status: u8) -> ! {
    let all = temporary();
    for path in all.iter() {
        let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
    exit_at_once(status)
}

/// From now on Ctrl-C, and a request to terminate, end the command at once.
pub fn on_interrupt() {
    // Where no handler can be set, the system's own way to end stays.
    let _ = ctrlc::set_handler(|| end(INTERRUPTED));
}

/// Ends the command after some seconds, whatever it is doing.
pub fn after(seconds: f64) -> Result<(), Failure> {
    let limit = Duration::try_from_secs_f64(seconds).map_err(|_| Failure::usage(format!("--timeout {seconds:?} is no time")))?;
    let timer = std::thread::Builder::new().name("timeout".into()).spawn(move || {
        std::thread::sleep(limit);
        output::note(&format!("{} no answer within {seconds:?} s (--timeout)", output::red("error:")));
        end(4)
    });
    timer.map(drop).map_err(|error| Failure::environment(format!("no thread for --timeout: {error}"), None))
}

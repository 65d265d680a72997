//! The end of the command before its work is done: by Ctrl-C, `--timeout`, an output that is full or a panic. At once, and without
//! leaving temporary files.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, TryLockError};
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
pub fn now(status: u8) -> ! {
    let all = temporary();
    remove(&all);
    exit_at_once(status)
}

/// The same in a panic's hook, where the lock may be held further up.
pub fn in_panic(status: u8) -> ! {
    let all = match TEMPORARY.try_lock() {
        Ok(all) => Some(all),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    remove(all.as_deref().map_or(&[], Vec::as_slice));
    exit_at_once(status)
}

fn remove(all: &[PathBuf]) {
    for path in all {
        let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
}

/// From now on Ctrl-C, and a request to terminate, end the command at once.
pub fn on_interrupt() {
    // Where no handler can be set, the system's own way to end stays.
    let _ = ctrlc::set_handler(|| now(INTERRUPTED));
}

/// Ends the command after some seconds, whatever it is doing.
pub fn after(seconds: f64) -> Result<(), Failure> {
    let limit = Duration::try_from_secs_f64(seconds).map_err(|_| Failure::usage(format!("--timeout {seconds:?} is no time")))?;
    let timer = std::thread::Builder::new().name("timeout".into()).spawn(move || {
        std::thread::sleep(limit);
        output::note(&format!("{} no answer within {seconds:?} s (--timeout)", output::red("error:")));
        now(4)
    });
    timer.map(drop).map_err(|error| Failure::environment(format!("no thread for --timeout: {error}"), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the test below, run once more as a process of its own, makes its temporary file.
    const PLACE: &str = "GPUKC_TEST_OF_A_PANIC";

    #[test]
    fn a_panic_leaves_nothing_temporary() {
        if let Some(folder) = std::env::var_os(PLACE) {
            crate::report::install();
            let make = || tempfile::NamedTempFile::new_in(&folder);
            let _file = Guarded::make(make, |file| file.path().to_owned()).unwrap();
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
            panic!("on purpose");
        }
        let (folder, reports) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["ending::tests::a_panic_leaves_nothing_temporary", "--exact", "--nocapture"]);
        let output = again.env(PLACE, folder.path()).env("TMPDIR", reports.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(70), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("internal error: on purpose"), "{output:?}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}

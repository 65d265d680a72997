//! Whether this is the process that the driver was started in. The driver can't be used in one that was forked from it; a call asks
//! each time, so it must cost nothing: the system counts forks for us, where it can.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many forks lie between the first process and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// A process, to be known again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    number: u32,
    /// None where forks are not counted: then the number, which costs a call of the system, must do.
    forks: Option<usize>,
}

impl Process {
    /// This one.
    pub(crate) fn this() -> Process {
        static COUNTED: OnceLock<bool> = OnceLock::new();
        let forks = COUNTED.get_or_init(count).then(|| FORKS.load(Ordering::Relaxed));
        Process { number: std::process::id(), forks }
    }

    /// Whether it is this one.
    pub(crate) fn is_this(&self) -> bool {
        match self.forks {
            Some(forks) => forks == FORKS.load(Ordering::Relaxed),
            None => self.number == std::process::id(),
        }
    }
}

/// Lets forks be counted from now on.
#[cfg(unix)]
fn count() -> bool {
    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the function lives as long as this code, which takes it along when it is unloaded; to change an atomic is allowed in
    // a process that was just forked.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) == 0 }
}

/// Nothing forks here.
#[cfg(not(unix))]
fn count() -> bool {
    true
}

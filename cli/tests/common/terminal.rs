//! A terminal of one's own, as a user has it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Runs a command whose streams are a terminal; gives its status and all that was shown.
pub fn on_a_terminal(command: &mut Command) -> (ExitStatus, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = || -> OwnedFd { open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap() };
    if command.get_envs().all(|(name, _)| name != "TERM") {
        command.env("TERM", "xterm");
    }
    let mut child = command.stdin(theirs()).stdout(theirs()).stderr(theirs()).spawn().unwrap();
    // The command keeps its ends open, which would be waited for.
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    let mut ours = File::from(ours);
    // Linux ends the reading with an error when the other end is closed.
    while let Ok(count @ 1..) = ours.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..count]);
    }
    (child.wait().unwrap(), String::from_utf8_lossy(&shown).into_owned())
}

//! What is kept for a report when something of ours breaks: the program, the CUDA text, the compiler's log.

use std::backtrace::Backtrace;
use std::fs;
use std::panic;
use std::sync::Mutex;

use crate::{ending, output};

static KEPT: Mutex<Vec<(&'static str, String)>> = Mutex::new(Vec::new());

/// Keeps a text for a report, under a file name; a later one of that name replaces it.
pub fn keep(name: &'static str, text: &str) {
    let mut kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    kept.retain(|(other, _)| *other != name);
    kept.push((name, text.to_owned()));
}

/// Writes what is kept into a folder of its own, and says what to do with it, and meanwhile.
pub fn write(message: &str, meanwhile: Option<&str>) -> String {
    // From a panic's hook: the lock may be held further up.
    let kept = KEPT.try_lock().map(|kept| kept.clone()).unwrap_or_default();
    let files: Vec<(String, Vec<u8>)> = kept.into_iter().map(|(name, text)| (name.to_owned(), text.into_bytes())).collect();
    save(message, meanwhile, &files)
}

/// Writes files into a folder of its own, and says what to do with it, and meanwhile.
pub fn save(message: &str, meanwhile: Option<&str>, files: &[(String, Vec<u8>)]) -> String {
    let meanwhile = meanwhile.map_or(String::new(), |meanwhile| format!("{meanwhile}; "));
    let ask = format!("this is a bug of gpukc; {meanwhile}please report it");
    let Ok(folder) = tempfile::Builder::new().prefix("gpukc-report-").tempdir() else { return format!("  help: {ask}") };
    let folder = folder.keep();
    let arguments: Vec<String> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let head = format!("gpukc {}\n{}\n\n{message}\n", env!("CARGO_PKG_VERSION"), arguments.join(" "));
    let written = fs::write(folder.join("message.txt"), head).is_ok();
    for (name, bytes) in files {
        let _ = fs::write(folder.join(name), bytes);
    }
    if written { format!("  help: {ask} with the files in {}", folder.display()) } else { format!("  help: {ask}") }
}

/// Turns a panic anywhere into a report and exit status 70.
pub fn install() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or(String::new(), |location| format!(" ({}:{})", location.file(), location.line()));
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        output::note(&format!("{} internal error: {text}{place}", output::red("error:")));
        output::note(&write(&format!("panic: {text}{place}\n{}", Backtrace::force_capture()), None));
        ending::in_panic(70);
    }));
}

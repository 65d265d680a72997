//! `gpukc check`: the problems of programs, nothing else.

use std::path::Path;

use crate::args::{Check, Format};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{advice, load, output};

/// Every file is checked, whatever becomes of those before it.
pub fn run(args: &Check) -> Result<(), Failure> {
    let mut statuses = Vec::new();
    let mut progress = Progress::patient(args.files.len());
    for path in &args.files {
        progress.begin(&path.display().to_string());
        statuses.push(progress.pause(|| file(path, args.format).map_or_else(|failure| failure.tell(&advice::PLAIN), |()| 0)));
        progress.end();
    }
    Failure::of_several(&statuses)
}

fn file(path: &Path, format: Format) -> Result<(), Failure> {
    let loaded = load::load(path, format)?;
    if format == Format::Human {
        let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let kernels = count(loaded.program.kernels.len(), "kernel");
        let warnings = if loaded.warnings == 0 { "no problems".to_owned() } else { count(loaded.warnings, "warning") };
        output::result(format!("{}: {kernels}, {warnings}\n", loaded.source.name()));
    }
    Ok(())
}

//! `gpukc check`: the program's problems, nothing else.

use crate::args::{Check, Format};
use crate::failure::Failure;
use crate::{load, output};

pub fn run(args: &Check) -> Result<(), Failure> {
    let loaded = load::load(&args.file, args.format)?;
    if args.format == Format::Human {
        let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let kernels = count(loaded.program.kernels.len(), "kernel");
        let warnings = if loaded.warnings == 0 { "no problems".to_owned() } else { count(loaded.warnings, "warning") };
        output::result(format!("{}: {kernels}, {warnings}\n", loaded.source.name()));
    }
    Ok(())
}

//! Which attributes the crate can name that uses the macro.

use std::fs;

/// Whether `#[diagnostic::…]` is rustc's: not in a crate that depends on one of this name, nor without the prelude of tools
/// (`#![no_implicit_prelude]`), and nothing else names rustc's. Only rustc's command line tells, and the sources that it leads to;
/// editors have none, and don't mind.
pub fn has_diagnostics() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).flat_map(listed).collect();
    let here = proc_macro::is_available().then(|| proc_macro::Span::call_site().file());
    let sources = arguments.iter().filter(|argument| argument.ends_with(".rs")).chain(&here);
    let bare = |file: &String| fs::read_to_string(file).is_ok_and(|text| text.contains("no_implicit_prelude"));
    !sources.into_iter().any(bare) && !depends_on("diagnostic", arguments.iter().cloned())
}

/// Arguments too long for a command line stand in a file, one a line.
fn listed(argument: String) -> Vec<String> {
    let text = argument.strip_prefix('@').and_then(|file| fs::read_to_string(file).ok());
    text.map_or_else(|| vec![argument], |text| text.lines().map(str::to_owned).collect())
}

/// `--extern name`, `--extern=name=path`, `--extern options:name=path`.
fn depends_on(name: &str, arguments: impl Iterator<Item = String>) -> bool {
    let mut next = false;
    let mut externs = arguments.filter_map(|argument| {
        let named = std::mem::take(&mut next).then(|| argument.clone());
        next = argument == "--extern";
        named.or_else(|| argument.strip_prefix("--extern=").map(str::to_owned))
    });
    externs.any(|named| named.split('=').next().and_then(|names| names.rsplit(':').next()) == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found() {
        let found = |line: &str| depends_on("diagnostic", line.split(' ').map(str::to_owned));
        for line in [
            "--extern diagnostic=a.rlib",
            "lib.rs --extern x=y --extern diagnostic -O",
            "--extern=diagnostic=b",
            "--extern noprelude,priv:diagnostic=c",
        ] {
            assert!(found(line), "{line}");
        }
        for line in ["--crate-name diagnostic", "--extern diagnostics=a", "diagnostic.rs --extern", "--extern a=diagnostic", ""] {
            assert!(!found(line), "{line}");
        }
    }
}

//! Every program of the repository, cut into tokens and put together again: on the tokens' places it has the same problems at the
//! same places, and without places it means the same.

use std::fs;
use std::path::{Path, PathBuf};

use gpukc_dsl::check;
use gpukc_dsl::program::print::print;
use gpukc_dsl::source::Source;
use gpukc_tokens::Text;
use proc_macro2::{Span, TokenStream};

/// Programs with what is no token of Rust's.
const NO_TOKENS: &[&str] = &["GK0001.gk", "GK0002.gk", "GK0005.gk", "slips.gk"];

fn programs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["tests/cases", "tests/diagnostics", "tests/emulated", "examples"].map(|folder| root.join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|ending| ending == "gk")).collect();
    files.sort();
    files
}

fn place(span: Span) -> Option<(usize, usize)> {
    let start = span.start();
    Some((start.line, start.column + 1))
}

/// Conditions are quoted as they were written.
fn without_blanks(text: String) -> String {
    text.split_whitespace().collect()
}

/// Codes and places of the problems, and the program.
fn described(text: &str, padding: usize) -> (Vec<String>, Option<String>) {
    let source = Source::new("t", "\n".repeat(padding) + text);
    let checked = check(&source);
    let problem = |problem: &gpukc_dsl::diagnostic::Diagnostic| {
        let place = source.position(problem.span().range().start);
        format!("{}:{} {}: {}", place.line, place.column, problem.code, problem.message)
    };
    (checked.problems.iter().map(problem).collect(), checked.program.as_ref().map(print).map(without_blanks))
}

#[test]
fn tokens_tell_what_the_text_does() {
    let mut faults = Vec::new();
    for path in programs() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let text = text.trim_start_matches('\u{feff}');
        let same = || {
            let tokens: TokenStream = text.parse().map_err(|_| "no tokens")?;
            let (problems, program) = described(text, 0);
            let laid = Text::of(tokens.clone(), place);
            let (laid_problems, laid_program) = described(&laid.text, laid.line.ok_or("not laid out")? - 1);
            if (&laid_problems, &laid_program) != (&problems, &program) {
                return Err(format!("laid out: {laid_problems:#?} instead of {problems:#?}"));
            }
            let joined = Text::of(tokens, |_| None);
            for (what, text) in [("joined", &joined.text), ("to run", &joined.code)] {
                let (found, found_program) = described(text, 0);
                if found_program != program || found.len() != problems.len() {
                    return Err(format!("{what}: {found:#?} instead of {problems:#?}"));
                }
            }
            Ok(())
        };
        match (same(), NO_TOKENS.contains(&name.as_str())) {
            (Err(fault), false) => faults.push(format!("{name}: {fault}")),
            (Ok(()), true) => faults.push(format!("{name}: is the same by now")),
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

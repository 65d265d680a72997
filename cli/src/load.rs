//! Reads a program and takes it through the front end.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use gpukc_dsl::diagnostic::{Diagnostic, Severity, json, render};
use gpukc_dsl::program::{Kernel, Program};
use gpukc_dsl::source::{Source, Span};

use crate::args::Format;
use crate::failure::Failure;
use crate::output;
use crate::report;

/// No program is longer; what is, is another file.
const LARGEST: u64 = gpukc_dsl::parser::LARGEST as u64;

/// A program's text with its problems so far.
pub struct Text {
    pub source: Source,
    /// Problems with the text itself; checking makes no sense if there are any.
    pub problems: Vec<Diagnostic>,
    /// A byte-order mark stood before it.
    pub marked: bool,
}

/// Reads a program; `-` is standard input.
pub fn read(path: &Path) -> Result<Text, Failure> {
    let (name, bytes) = if path == Path::new("-") {
        let mut bytes = Vec::new();
        ("<stdin>".to_owned(), io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes).map(|_| bytes))
    } else {
        let open = || {
            if fs::metadata(path)?.is_dir() {
                return Err(io::Error::other("it is a folder"));
            }
            let mut bytes = Vec::new();
            fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        (path.display().to_string(), open())
    };
    let bytes = bytes.map_err(|error| Failure::input(format!("{name} can't be read: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(Failure::input(format!("{name} is longer than any program: more than {} MiB", LARGEST >> 20)));
    }
    let marked = bytes.starts_with(b"\xef\xbb\xbf");
    let text = match String::from_utf8(bytes) {
        Ok(text) => Text { source: Source::new(name, text), problems: Vec::new(), marked },
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let bad = error.as_bytes()[valid];
            let source = Source::new(name, String::from_utf8_lossy(error.as_bytes()));
            // The byte-order mark, which `Source` drops, shifts the place; the rest before it is as it was.
            let at = valid.saturating_sub(if marked { 3 } else { 0 });
            let message = format!("the text is not UTF-8: byte 0x{bad:02x}");
            let problem =
                Diagnostic::error(2, Span::new(at, at + '\u{fffd}'.len_utf8()), message, "here").help("save the file as UTF-8");
            Text { source, problems: vec![problem], marked }
        }
    };
    report::keep("program.gk", text.source.text());
    Ok(text)
}

/// The problems, as asked for: human-readable on standard error, objects on standard output.
pub fn show(source: &Source, problems: &[Diagnostic], format: Format) {
    match format {
        Format::Human if problems.is_empty() => {}
        Format::Human => output::note(render::human(source, problems, output::color()).trim_end_matches('\n')),
        Format::Json => {
            let lines: String = problems.iter().map(|problem| json::json(source, problem) + "\n").collect();
            output::result(lines);
        }
    }
}

/// Whether there is an error among them.
pub fn refused(problems: &[Diagnostic]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}

/// A checked program.
pub struct Loaded {
    pub source: Source,
    pub program: Program,
    pub warnings: usize,
}

/// Reads and checks a program, and shows its problems.
pub fn load(path: &Path, format: Format) -> Result<Loaded, Failure> {
    let Text { source, problems, .. } = read(path)?;
    if refused(&problems) {
        show(&source, &problems, format);
        return Err(Failure::shown());
    }
    let checked = gpukc_dsl::check(&source);
    show(&source, &checked.problems, format);
    if refused(&checked.problems) {
        return Err(Failure::shown());
    }
    let program = checked.program.ok_or_else(|| Failure::bug("the checker gives neither a program nor an error"))?;
    Ok(Loaded { source, program, warnings: checked.problems.len() })
}

impl Loaded {
    /// The kernel asked for, or the only one.
    pub fn kernel(&self, name: Option<&str>) -> Result<&Kernel, Failure> {
        let names: Vec<&str> = self.program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        match (name, &self.program.kernels[..]) {
            (Some(name), _) => self.program.kernel(name).ok_or_else(|| {
                let there = if names.is_empty() { "no kernel".to_owned() } else { names.join(", ") };
                Failure::usage(format!("{} has no kernel `{name}`; it has {there}", self.source.name()))
            }),
            (None, [kernel]) => Ok(kernel),
            (None, []) => Err(Failure::usage(format!("{} has no kernel", self.source.name()))),
            (None, _) => {
                let message = format!("{} has several kernels: {}", self.source.name(), names.join(", "));
                Err(Failure::usage(message).help(format!("choose one: --kernel {}", names[0])))
            }
        }
    }
}

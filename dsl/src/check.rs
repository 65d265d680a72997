//! From syntax to a typed program: names, types, ranges, bounds, definitions. One mistake gives one error.

mod at_call;
mod attributes;
mod bounds;
mod calls;
mod cover;
mod define;
mod expr;
mod extents;
mod functions;
mod infer;
mod inline;
mod items;
mod kernel;
mod literals;
mod lower;
mod names;
mod operators;
mod order;
mod ranges;
mod reduce;
mod regions;
mod statement;
mod unknown;
mod visit;
pub(crate) mod walk;
mod whole;

use crate::diagnostic::{Diagnostic, Severity};
use crate::parser;
use crate::program::Program;
use crate::source::Source;

/// What checking a text gives.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The program, if there are no errors.
    pub program: Option<Program>,
    /// Errors and warnings in order of position.
    pub problems: Vec<Diagnostic>,
}

impl Checked {
    /// Whether the text is refused.
    pub fn failed(&self) -> bool {
        self.program.is_none()
    }
}

fn has_errors(problems: &[Diagnostic]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}

/// Checks a text.
pub fn check(source: &Source) -> Checked {
    crate::prover::effort::start();
    let (file, mut problems) = parser::parse(source);
    let mut program = Program::default();
    if !has_errors(&problems) {
        items::check_file(source, &file, false, &mut program, &mut problems);
    }
    problems.sort_by_key(|problem| (problem.span().start, std::cmp::Reverse(problem.severity)));
    let program = (!has_errors(&problems)).then_some(program);
    Checked { program, problems }
}

/// Checks the project's own mathematical texts: `fn`s and `const`s that may call internal functions. All texts, given with
/// their names, are one file.
pub fn check_library(sources: &[(&str, &str)]) -> Result<Program, Vec<Diagnostic>> {
    let name = sources.first().map_or("library", |(name, _)| *name);
    let text: Vec<&str> = sources.iter().map(|(_, text)| *text).collect();
    let source = Source::new(name, text.join("\n"));
    let (file, mut problems) = parser::parse(&source);
    let mut program = Program::default();
    if !has_errors(&problems) {
        items::check_file(&source, &file, true, &mut program, &mut problems);
    }
    if has_errors(&problems) { Err(problems) } else { Ok(program) }
}

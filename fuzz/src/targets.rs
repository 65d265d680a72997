//! The targets: functions of bytes that panic if something is wrong.

use std::panic::{self, AssertUnwindSafe};

use gpukc_cli::npy;
use gpukc_codegen::error::Error;
use gpukc_codegen::facts::Facts;
use gpukc_codegen::target::Target as Architecture;
use gpukc_dsl::check::check as check_program;
use gpukc_dsl::diagnostic::{Diagnostic, json, render};
use gpukc_dsl::format::{Refusal, format};
use gpukc_dsl::parser;
use gpukc_dsl::program::verify;
use gpukc_dsl::source::Source;
use gpukc_runtime::cache;

use crate::binary;
use crate::random::Random;
use crate::text::Corpus;
use crate::tokens;

/// Something that reads what others write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Text to tree.
    Parser,
    /// Text to a typed, proved program.
    Checker,
    /// Text to the same text, laid out.
    Formatter,
    /// Text to CUDA text.
    Compiler,
    /// A `.npy` file to a tensor.
    Npy,
    /// A cache entry's file to a binary.
    Cache,
    /// Rust tokens to text.
    Text,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 7] =
        [Target::Parser, Target::Checker, Target::Formatter, Target::Compiler, Target::Npy, Target::Cache, Target::Text];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Target::Parser => "parser",
            Target::Checker => "checker",
            Target::Formatter => "formatter",
            Target::Compiler => "compiler",
            Target::Npy => "npy",
            Target::Cache => "cache",
            Target::Text => "text",
        }
    }

    /// The input of a number: the same on every machine.
    pub fn input(self, corpus: &Corpus, number: u64) -> Vec<u8> {
        let mut random = Random::new(number ^ (self as u64) << 56);
        match self {
            Target::Parser | Target::Checker | Target::Formatter | Target::Compiler => corpus.input(&mut random),
            Target::Npy => binary::npy(&mut random),
            Target::Cache => binary::cache(&mut random),
            Target::Text => tokens::input(corpus, &mut random),
        }
    }

    /// What the panic says with which reading an input ends, if it does.
    pub fn failure(self, data: &[u8]) -> Option<String> {
        let payload = panic::catch_unwind(AssertUnwindSafe(|| self.run(data))).err()?;
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Some(text.unwrap_or_else(|| "a panic".to_owned()))
    }

    /// Reads an input; panics if something is wrong.
    pub fn run(self, data: &[u8]) {
        match self {
            Target::Parser => parse(data),
            Target::Checker => check(data),
            Target::Formatter => reformat(data),
            Target::Compiler => compile(data),
            Target::Npy => read_npy(data),
            Target::Cache => read_cache(data),
            Target::Text => drop(tokens::recover(data)),
        }
    }
}

/// What is no UTF-8 is turned away before the parser.
fn source(data: &[u8]) -> Option<Source> {
    Some(Source::new("fuzz.gk", std::str::from_utf8(data).ok()?))
}

/// Problems can be shown, whatever they are about.
fn show(source: &Source, problems: &[Diagnostic]) {
    assert!(render::human(source, problems, true).len() >= problems.len());
    for problem in problems {
        let span = problem.span();
        assert!(span.start <= span.end && span.end as usize <= source.text().len(), "{problem:?}");
        assert!(!json::json(source, problem).contains('\n'));
    }
}

/// Ends, with a tree or problems that can be shown.
pub fn parse(data: &[u8]) {
    let Some(source) = source(data) else { return };
    let (_, problems) = parser::parse(&source);
    show(&source, &problems);
}

/// Ends, with a program that is sound or with problems that can be shown.
pub fn check(data: &[u8]) {
    let Some(source) = source(data) else { return };
    let checked = check_program(&source);
    show(&source, &checked.problems);
    match &checked.program {
        Some(program) => assert!(verify::program(program).is_ok(), "{:?}", verify::program(program)),
        None => assert!(!checked.problems.is_empty(), "refused without a word"),
    }
}

/// Gives a text that it leaves as it is.
pub fn reformat(data: &[u8]) {
    let Some(source) = source(data) else { return };
    match format(&source) {
        Ok(text) => match format(&Source::new("again.gk", text.as_str())) {
            Ok(again) => assert_eq!(again, text, "formatting again changes it"),
            Err(refusal) => panic!("refuses what it gave: {refusal:?}"),
        },
        Err(Refusal::Program(problems)) => show(&source, &problems),
        Err(Refusal::Internal) => panic!("would change the meaning"),
    }
}

/// Compiles what checks, or names a limit.
pub fn compile(data: &[u8]) {
    let Some(source) = source(data) else { return };
    let Some(program) = check_program(&source).program else { return };
    for kernel in &program.kernels {
        for facts in [Facts::default(), Facts { narrow: true, ..Facts::default() }] {
            match gpukc_codegen::compile(&program, kernel, Architecture { capability: 90, specific: true }, &facts) {
                Ok(cuda) => assert!(cuda.launches.iter().all(|launch| cuda.source.contains(&launch.entry))),
                Err(Error::Limit { .. }) => {}
                Err(Error::Bug(message)) => panic!("{message}"),
            }
        }
    }
}

/// Gives an array that the file has the bytes for, and that is the same once it has been written and read again.
pub fn read_npy(data: &[u8]) {
    let (element, file) = binary::npy_parts(data);
    let Ok(tensor) = npy::read_from(file, Some(file.len() as u64), element, "x") else { return };
    assert!(tensor.bytes().len() <= file.len() && tensor.element() == element);
    let mut written = Vec::new();
    assert!(npy::write(&mut written, &tensor).is_ok());
    let again = npy::read_from(written.as_slice(), Some(written.len() as u64), element, "x");
    assert!(again.is_ok_and(|again| again.shape() == tensor.shape() && again.bytes() == tensor.bytes()));
    // From a pipe, whose length nobody knows.
    let piped = npy::read_from(file, None, element, "x");
    assert!(piped.is_ok_and(|piped| piped.bytes() == tensor.bytes()));
}

/// Gives an entry only for its own key, and then exactly what was written.
pub fn read_cache(data: &[u8]) {
    let Ok(parsed) = cache::parse(data) else { return };
    let (key, _) = binary::cached();
    if let Ok(entry) = parsed.entry(&key)
        && std::str::from_utf8(entry.notes.as_bytes()).is_ok_and(|notes| !notes.contains('\u{fffd}'))
    {
        assert_eq!(cache::serialise(&key, &entry), data);
    }
    assert!(parsed.entry(&cache::Key::of(&[b"another"])).is_err());
}

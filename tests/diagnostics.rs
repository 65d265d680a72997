//! Programs with mistakes, `tests/diagnostics/*.gk`: which problem is reported, and where.
//!
//! `//~ GK0103` marks the line of a problem, `//~^ GK0103` the line above, `//~v GK0103` the line below. All problems of a
//! file must be marked, and nothing else. Every code that the checker can report has a file `GKnnnn.gk`, whose first problem
//! of that code is a snapshot; of the other files all problems are one. What a suggestion writes must mend its problem.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use common::{files, root};
use gpukc_dsl::diagnostic::codes::{self, Explanation};
use gpukc_dsl::diagnostic::{Code, json, render};
use gpukc_dsl::source::Source;
use libtest_mimic::{Arguments, Failed, Trial};

/// Codes without a file, and why.
const WITHOUT_FILE: &[(u16, &str)] = &[
    (codes::LENGTH, "thousands of operators: see the tests of limits"),
    (codes::TOO_LONG, "4 MiB: see the tests of limits"),
    (codes::EXPANSION, "thousands of statements: see the tests of limits"),
    (codes::INTERNAL, "a fault of ours: no text shows it"),
];

fn main() -> ExitCode {
    let paths = files("tests/diagnostics", "gk");
    let named: BTreeSet<String> = paths.iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let expected: BTreeSet<String> = named.iter().map(|name| format!("{}.snap", snapshot(name))).collect();
    if std::env::var_os("GPUKC_LIST_STALE").is_some() {
        stale(&expected).iter().for_each(|file| println!("stale: {file}"));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let (looks, mends) = (path.clone(), path.clone());
        let of = name.clone();
        trials.push(Trial::test(format!("{name}.look"), move || look(&looks, &of)));
        trials.push(Trial::test(format!("{name}.suggestions"), move || suggestions(&mends)));
        trials.push(Trial::test(name, move || marks(&path)));
    }
    trials.push(Trial::test("every code has a file", move || every_code(&named)));
    trials.push(Trial::test("no stale snapshots", move || match stale(&expected).as_slice() {
        [] => Ok(()),
        files => Err(format!("these belong to no file (`cargo xtask accept` removes them): {}", files.join(", ")).into()),
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn read(path: &Path) -> Source {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    Source::new(name, std::fs::read_to_string(path).unwrap())
}

/// Line and code of every mark.
fn marked(source: &Source) -> BTreeSet<(usize, String)> {
    let mut found = BTreeSet::new();
    for (line, text) in (1..).zip(source.text().lines()) {
        let Some((_, mark)) = text.split_once("//~") else { continue };
        let (line, codes) = match mark.split_at(1) {
            ("^", codes) => (line - 1, codes),
            ("v", codes) => (line + 1, codes),
            _ => (line, mark),
        };
        found.extend(codes.split_whitespace().map(|code| (line, code.to_owned())));
    }
    found
}

fn marks(path: &Path) -> Result<(), Failed> {
    let source = read(path);
    let checked = gpukc_dsl::check(&source);
    let found: BTreeSet<(usize, String)> = checked
        .problems
        .iter()
        .map(|problem| (source.position(problem.span().start as usize).line, problem.code.to_string()))
        .collect();
    let wanted = marked(&source);
    let mut faults = String::new();
    for (line, code) in wanted.difference(&found) {
        faults += &format!("line {line}: {code} is marked, and not reported\n");
    }
    for (line, code) in found.difference(&wanted) {
        faults += &format!("line {line}: {code} is reported, and not marked\n");
    }
    if faults.is_empty() { Ok(()) } else { Err((faults + "\n" + &render::human(&source, &checked.problems, false)).into()) }
}

fn is_code(name: &str) -> bool {
    name.strip_prefix("GK").is_some_and(|digits| digits.len() == 4 && digits.parse::<u16>().is_ok())
}

/// The name of a file's snapshot.
fn snapshot(name: &str) -> String {
    if is_code(name) { name.to_owned() } else { format!("GK-{name}") }
}

/// How the first problem of the file's own code looks; all problems of a file that is not named after a code.
fn look(path: &Path, name: &str) -> Result<(), Failed> {
    let source = read(path);
    let mut problems = gpukc_dsl::check(&source).problems;
    if is_code(name) {
        let first = problems.iter().position(|problem| problem.code.to_string() == name);
        problems = vec![problems.swap_remove(first.ok_or_else(|| format!("{name} is not reported"))?)];
    }
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(root().join("tests").join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_input_file(path);
    settings.bind(|| insta::assert_snapshot!(snapshot(name), render::human(&source, &problems, false)));
    Ok(())
}

/// Edits that can be made as they are do away with the problem that they are suggested for; and help says nothing twice.
fn suggestions(path: &Path) -> Result<(), Failed> {
    let source = read(path);
    let mut faults = String::new();
    for problem in gpukc_dsl::check(&source).problems {
        let help = json::help(&source, &problem).unwrap_or_default();
        let code: Vec<&str> = help.split('`').skip(1).step_by(2).filter(|code| code.len() > 5).collect();
        if code.iter().enumerate().any(|(nth, code_)| code[..nth].contains(code_)) {
            faults += &format!("{}: the help repeats itself: {help}\n", problem.message);
        }
        for suggestion in problem.suggestions.iter().filter(|each| each.edits.iter().all(|(_, text)| !text.contains('…'))) {
            let (mut mended, mut at) = (String::new(), 0);
            for (span, text) in &suggestion.edits {
                mended += &source.text()[at..span.start as usize];
                mended += text;
                at = span.end as usize;
            }
            mended += &source.text()[at..];
            let left = gpukc_dsl::check(&Source::new(source.name(), mended.as_str())).problems;
            let same = left.iter().any(|other| other.message == problem.message && other.span().start == problem.span().start);
            if same {
                faults += &format!("{}: still so after: {}\n{mended}\n", problem.message, suggestion.text);
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.into()) }
}

fn every_code(named: &BTreeSet<String>) -> Result<(), Failed> {
    let mut missing = Vec::new();
    for Explanation { code, title, .. } in codes::TABLE {
        let excused = WITHOUT_FILE.iter().any(|(other, _)| other == code);
        if !excused && !named.contains(&Code(*code).to_string()) {
            missing.push(format!("{} ({title})", Code(*code)));
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("no tests/diagnostics/GKnnnn.gk for: {}", missing.join(", ")).into()) }
}

/// Snapshots of codes that no file has.
fn stale(expected: &BTreeSet<String>) -> Vec<String> {
    let names = files("tests/snapshots", "snap").into_iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("GK") && !expected.contains(name)).collect()
}

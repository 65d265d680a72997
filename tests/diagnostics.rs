//! Programs with mistakes, `tests/diagnostics/*.gk`: which problem is reported, and where.
//!
//! `//~ GK0103` marks the line of a problem, `//~^ GK0103` the line above, `//~v GK0103` the line below. All problems of a file must be marked, and nothing
//! else. How a problem looks is one snapshot a code: that of the file `GKnnnn.gk`. Every code that the checker can report has
//! such a file.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use common::{files, root};
use gpukc::dsl::check::codes;
use gpukc::dsl::diagnostic::{Code, render};
use gpukc::dsl::source::Source;
use libtest_mimic::{Arguments, Failed, Trial};

/// Codes without a file, and why.
const WITHOUT_FILE: &[(u16, &str)] = &[
    (90, "the parser refuses such nesting first, with GK0006"),
    (91, "a fault of ours: no text shows it"),
    (104, "the parser refuses reserved words first, with GK0003"),
    (308, "the parser refuses malformed numbers first, with GK0004"),
];

fn main() -> ExitCode {
    let paths = files("tests/diagnostics", "gk");
    let named: BTreeSet<String> = paths.iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let of_code = |name: &str| name.strip_prefix("GK").is_some_and(|digits| digits.len() == 4 && digits.parse::<u16>().is_ok());
    let expected: BTreeSet<String> = named.iter().filter(|name| of_code(name)).map(|name| format!("{name}.snap")).collect();
    if std::env::var_os("GPUKC_LIST_STALE").is_some() {
        stale(&expected).iter().for_each(|file| println!("stale: {file}"));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if of_code(&name) {
            let (path, name) = (path.clone(), name.clone());
            trials.push(Trial::test(format!("{name}.look"), move || look(&path, &name)));
        }
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
    let checked = gpukc::dsl::check(&source);
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

/// How the first problem of the file's own code looks.
fn look(path: &Path, name: &str) -> Result<(), Failed> {
    let source = read(path);
    let checked = gpukc::dsl::check(&source);
    let problem = checked.problems.iter().find(|problem| problem.code.to_string() == name);
    let problem = problem.ok_or_else(|| format!("{name} is not reported"))?;
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(root().join("tests").join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_input_file(path);
    settings.bind(|| insta::assert_snapshot!(name, render::human(&source, std::slice::from_ref(problem), false)));
    Ok(())
}

fn every_code(named: &BTreeSet<String>) -> Result<(), Failed> {
    let mut missing = Vec::new();
    for (code, title, _) in codes::TABLE {
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

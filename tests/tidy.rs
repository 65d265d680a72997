//! The project's own rules, checked: headers, sizes, where `unsafe` and panics may stand, and that documents name files that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of more than 500 lines, and why.
const LONG: &[(&str, &str)] = &[
    ("cpu/src/build.rs", "one walk over typed expressions; to be split by node family"),
    ("cpu/src/exec.rs", "to be split: loops and reads"),
    ("cpu/src/ops.rs", "tables of operations for each type"),
    ("cpu/src/reduce.rs", "to be split by order"),
    ("cpu/src/run.rs", "to be split: calls, tasks, accumulations"),
    ("cpu/tests/semantics.rs", "a list of programs"),
    ("dsl/src/call.rs", "binding and its messages, with their tests"),
    ("dsl/tests/parse.rs", "a list of programs"),
];

/// Lines outside tests that may panic: a file, a piece of the line, and why no input, file or environment reaches it.
const PANICS: &[(&str, &str, &str)] = &[
    ("cpu/src/tensor.rs", "is not stored as", "callers ask for the type that they have just looked at"),
    ("macros/src/text.rs", "let span = span.unwrap();", "it gives rustc's own span, which there is where a macro runs"),
    ("dsl/src/parser/item.rs", "an `if` has a condition", "the grammar gives every `if` one"),
];

fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// Files that git knows or would add, with their texts.
fn files(ending: &str) -> Vec<(String, String)> {
    let listed = Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root()).output();
    let listed = String::from_utf8(listed.expect("git").stdout).expect("names in UTF-8");
    let names: BTreeSet<&str> = listed.lines().filter(|name| name.ends_with(ending)).collect();
    let read = |name: &str| Some((name.to_owned(), fs::read_to_string(root().join(name)).ok()?));
    let found: Vec<_> = names.into_iter().filter_map(read).collect();
    assert!(!found.is_empty(), "git lists no {ending} files");
    found
}

/// Tests, tools, and what runs while building.
fn is_test(name: &str) -> bool {
    name.ends_with("build.rs")
        || Path::new(name)
            .components()
            .any(|part| ["tests", "benches", "examples", "fuzz", "xtask"].iter().any(|folder| part.as_os_str() == *folder))
}

/// The text without its unit tests: those stand last in a file, or in files of their own.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn report(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn files_say_what_they_are() {
    let faults = files(".rs").into_iter().filter(|(_, text)| !text.starts_with("//!"));
    report(faults.map(|(name, _)| format!("{name}: does not start with //!")).collect());
}

#[test]
fn files_are_not_long() {
    let mut faults = Vec::new();
    for (name, text) in files(".rs") {
        let lines = text.lines().count();
        let listed = LONG.iter().any(|(long, _)| *long == name);
        match (lines > 500, listed) {
            (true, false) => faults.push(format!("{name}: {lines} lines; split it, or list it in tests/tidy.rs with a reason")),
            (false, true) => faults.push(format!("{name}: {lines} lines; take it off the list in tests/tidy.rs")),
            _ => {}
        }
    }
    report(faults);
}

#[test]
fn unsafe_code_is_in_runtime_only() {
    let mut faults = Vec::new();
    for (name, text) in files(".rs") {
        if name.starts_with("runtime/") || name == "tests/tidy.rs" {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.split("//").next().unwrap_or("");
            if ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|word| code.contains(word)) {
                faults.push(format!("{name}:{number}: unsafe"));
            }
        }
    }
    // The crates forbid it by the workspace's lints; only runtime has lints of its own.
    for (name, text) in files("Cargo.toml") {
        let inherits = text.contains("[lints]\nworkspace = true");
        if !inherits && name != "runtime/Cargo.toml" {
            faults.push(format!("{name}: does not take the workspace's lints"));
        }
    }
    report(faults);
}

#[test]
fn nothing_panics_outside_tests() {
    let words = [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!(", "unreachable!("];
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    let sources = files(".rs");
    // Unit tests in files of their own: `#[cfg(test)] mod fuzz;`
    let declared = sources.iter().flat_map(|(_, text)| text.split("#[cfg(test)]\nmod ").skip(1));
    let tests: BTreeSet<String> =
        declared.filter_map(|rest| rest.split_once(';')).map(|(module, _)| format!("/{module}.rs")).collect();
    for (name, text) in &sources {
        if is_test(name) || tests.iter().any(|file| name.ends_with(file)) {
            continue;
        }
        for (number, line) in (1..).zip(without_tests(text).lines()) {
            if line.trim_start().starts_with("//") || !words.iter().any(|word| line.contains(word)) {
                continue;
            }
            match PANICS.iter().position(|(file, piece, _)| file == name && line.contains(piece)) {
                Some(entry) => drop(used.insert(entry)),
                None => faults.push(format!("{name}:{number}: {}", line.trim())),
            }
        }
    }
    faults.extend(
        PANICS
            .iter()
            .enumerate()
            .filter(|(entry, _)| !used.contains(entry))
            .map(|(_, (file, piece, _))| format!("{file}: `{piece}` is not there any more; take it off the list in tests/tidy.rs")),
    );
    report(faults);
}

#[test]
fn every_code_is_explained() {
    let mut faults = Vec::new();
    for (name, text) in files(".rs").iter().filter(|(name, _)| !is_test(name)) {
        let text = without_tests(text);
        // The parser's codes are numbers where they are used; the checker's are constants of the table that explains them.
        for call in ["Diagnostic::error(", "Diagnostic::warning("] {
            for rest in text.split(call).skip(1) {
                let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
                let Ok(code) = digits.parse() else { continue };
                if gpukc_dsl::diagnostic::codes::explain(code).is_none() {
                    faults.push(format!("{name}: GK{code:04} has no explanation"));
                }
            }
        }
    }
    report(faults);
}

/// Files and folders that a document names: words in backticks with a `/` or a known ending, and link targets.
fn named_paths(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let endings = [".rs", ".md", ".gk", ".toml", ".pest", ".cuh", ".snap"];
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let quoted = line.split('`').skip(1).step_by(2);
        let linked = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for word in quoted.chain(linked) {
            let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let path = word.contains('/') || endings.iter().any(|ending| word.ends_with(ending));
            // NAME and nnnn stand for something.
            let pattern = word.contains("NAME") || word.contains("nnnn") || word.contains("STAGE");
            if plain && path && !pattern && !word.is_empty() && !word.starts_with(['/', '-']) && !word.contains("://") {
                found.push(word.trim_end_matches('/').to_owned());
            }
        }
    }
    found
}

#[test]
fn documents_name_what_exists() {
    let mut faults = Vec::new();
    let documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/language.md"];
    for document in documents {
        let text = fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"));
        for path in named_paths(&text) {
            // Places that a build makes.
            if path.starts_with("target") {
                continue;
            }
            let beside = Path::new(document).parent().unwrap_or(Path::new("")).join(&path);
            if !root().join(&path).exists() && !root().join(beside).exists() {
                faults.push(format!("{document}: `{path}` does not exist"));
            }
        }
    }
    report(faults);
}

#[test]
fn the_readme_shows_text_that_is_emitted() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let snapshots = files(".cuda.snap");
    for shown in readme.split("```cuda\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        assert!(snapshots.iter().any(|(_, text)| text.contains(shown)), "no CUDA snapshot holds this text of README.md:\n{shown}");
    }
}

#[test]
fn code_names_documents_that_exist() {
    let mut faults = Vec::new();
    for (name, text) in files(".rs").into_iter().chain(files(".cuh")).chain(files(".gk")) {
        for (number, line) in (1..).zip(text.lines()) {
            for piece in line.split("docs/").skip(1) {
                let end = piece.find(|c: char| !(c.is_ascii_alphanumeric() || "._-/".contains(c))).unwrap_or(piece.len());
                let path = format!("docs/{}", piece[..end].trim_end_matches('.'));
                if path.ends_with(".md") && !root().join(&path).is_file() {
                    faults.push(format!("{name}:{number}: {path} does not exist"));
                }
            }
        }
    }
    report(faults);
}

#[test]
fn one_wheel_of_nvrtc_is_named() {
    let wheel = |file: &str| {
        let text = fs::read_to_string(root().join(file)).expect(file);
        text.split('"').find(|piece| piece.starts_with("nvidia-cuda-nvrtc==")).map(str::to_owned)
    };
    assert_eq!(wheel("cli/src/commands/setup.rs"), wheel("xtask/src/nvrtc.rs"));
}

#[test]
fn examples_say_how_they_are_run() {
    for (name, text) in files(".gk").into_iter().filter(|(name, _)| name.starts_with("examples/")) {
        assert!(text.contains(&format!("gpukc run {name} ")), "{name}: no command that runs it");
    }
}

/// What a package holds is all that it needs: published crates use published ones, and include files of their own.
#[test]
fn packages_are_whole() {
    let mut faults = Vec::new();
    let manifests: Vec<(String, String)> = files("Cargo.toml");
    let published = |name: &str| {
        manifests.iter().any(|(_, text)| text.contains(&format!("name = \"{name}\"\n")) && !text.contains("\npublish = false\n"))
    };
    for (manifest, text) in manifests.iter().filter(|(_, text)| !text.contains("\npublish = false\n")) {
        let needed =
            text.split("\n[").filter(|section| section.starts_with("dependencies]") || section.starts_with("build-dependencies]"));
        for name in needed.flat_map(str::lines).filter_map(|line| line.split(['.', ' ']).next()) {
            if name.starts_with("gpukc") && !published(name) {
                faults.push(format!("{manifest}: needs {name}, which is not published"));
            }
        }
        let folder = Path::new(manifest).parent().unwrap_or(Path::new(""));
        let sources = folder.join("src");
        for (name, text) in files(".rs").iter().filter(|(name, _)| Path::new(name).starts_with(&sources)) {
            for included in text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let path = root().join(name).parent().unwrap_or(Path::new("")).join(included);
                let crate_folder = root().join(folder).canonicalize().unwrap_or_default();
                if !path.canonicalize().is_ok_and(|path| path.starts_with(crate_folder)) {
                    faults.push(format!("{name}: includes {included}, which the package lacks"));
                }
            }
        }
    }
    let unpublished = fs::read_to_string(root().join("xtask/src/release.rs")).expect("xtask/src/release.rs");
    for (_, text) in manifests.iter().filter(|(_, text)| text.contains("\npublish = false\n")) {
        let name = text.split("name = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        if !unpublished.contains(&format!("\"{name}\"")) {
            faults.push(format!("{name} is not published, and `cargo xtask release` would package it"));
        }
    }
    report(faults);
}

//! Builds the corpus in: the same inputs on a machine that has neither this folder nor Rust.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// Folders of sound programs, and of every kind of mistake.
const FOLDERS: [&str; 3] = ["examples", "tests/cases", "tests/diagnostics"];

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo names the crate's folder");
    let root = Path::new(&root).parent().expect("the crate lies in the project").to_owned();
    let mut list = String::from("[\n");
    for folder in FOLDERS.map(|folder| root.join(folder)) {
        println!("cargo::rerun-if-changed={}", folder.display());
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "gk")) {
            writeln!(list, "include_bytes!({file:?}),").expect("memory takes what is written");
        }
    }
    list.push(']');
    let place = Path::new(&env::var("OUT_DIR").expect("cargo names a folder for this")).join("corpus.rs");
    fs::write(&place, list).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
}

//! What rustc says to users of `gpu_kernel!`: each file of `tests/ui/fail` is refused with the errors of its `.txt` file, which has
//! their exact places; each of `tests/ui/pass` compiles without a warning. `cargo xtask accept ui` writes the `.txt` files.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui")
}

/// The library as it was just built for this test, and the folder of its dependencies. Older builds may lie beside it.
fn library() -> (PathBuf, PathBuf) {
    let test = std::env::current_exe().expect("the path of this test");
    let deps = test.parent().expect("a folder").to_owned();
    let built = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let entries = fs::read_dir(&deps).expect("the folder of this test").filter_map(|entry| Some(entry.ok()?.path()));
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libgpukc-"));
    let libraries = entries.filter(|path| named(path) && path.extension().is_some_and(|ending| ending == "rlib"));
    (libraries.max_by_key(built).expect("the library"), deps)
}

/// Compiles a file as a library; gives rustc's messages. A first line `//! name: other` calls the crate so.
fn compile(file: &Path, edition: &str) -> Vec<Value> {
    let (library, deps) = library();
    let text = fs::read_to_string(file).expect("a file");
    let name = text.lines().next().and_then(|line| line.strip_prefix("//! name: ")).unwrap_or("gpukc");
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--crate-type", "lib", "--emit", "metadata", "--error-format", "json", "--edition", edition, "--out-dir"])
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .args(["--extern", &format!("{name}={}", library.display()), "-L", &format!("dependency={}", deps.display())])
        .arg(file.file_name().expect("a name"))
        .current_dir(file.parent().expect("a folder"))
        .env("CARGO_MANIFEST_DIR", folder())
        .env_remove("OUT_DIR")
        .output()
        .expect("rustc");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    let messages: Vec<Value> = stderr.lines().filter(|line| line.starts_with('{')).map(|line| line.parse().expect("JSON")).collect();
    assert!(output.status.success() || !messages.is_empty(), "{}: {stderr}", file.display());
    messages
}

fn files(of: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder().join(of)).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "rs"));
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Errors with their places: `line:column-line:column`, ends exclusive.
fn described(messages: &[Value], root: &str) -> String {
    let mut text = String::new();
    for message in messages.iter().filter(|message| message["level"] == "error" && message["spans"] != Value::Array(Vec::new())) {
        for span in message["spans"].as_array().expect("spans").iter().filter(|span| span["is_primary"] == true) {
            let (a, b, c, d) = (&span["line_start"], &span["column_start"], &span["line_end"], &span["column_end"]);
            let _ = writeln!(text, "{a}:{b}-{c}:{d}");
        }
        for line in message["message"].as_str().expect("a message").replace(root, "$ROOT").lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

#[test]
fn wrong_kernels_are_refused_where_they_are_wrong() {
    let mut faults = Vec::new();
    for file in files("fail") {
        let found = described(&compile(&file, "2024"), &folder().display().to_string());
        let expected = file.with_extension("txt");
        if std::env::var_os("GPUKC_ACCEPT").is_some() {
            fs::write(&expected, &found).expect("written");
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        if found != wanted || found.is_empty() {
            faults.push(format!("{}\n--- expected\n{wanted}\n--- found\n{found}", file.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn right_kernels_compile_without_warnings() {
    for file in files("pass") {
        for edition in ["2021", "2024"] {
            let messages: Vec<String> =
                compile(&file, edition).iter().map(|message| message["rendered"].as_str().unwrap_or("").to_owned()).collect();
            assert!(messages.is_empty(), "{} ({edition}):\n{}", file.display(), messages.join("\n"));
        }
    }
}

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

/// What a file calls the crate: its first line may be `//! name: other`, or give it several names.
fn externs(file: &Path, library: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("a file");
    let names = text.lines().next().and_then(|line| line.strip_prefix("//! name: ")).unwrap_or("gpukc");
    names.split(' ').flat_map(|name| ["--extern".to_owned(), format!("{name}={}", library.display())]).collect()
}

/// Compiles a file as a library into a folder; gives rustc's messages.
fn compile(file: &Path, edition: &str, out: &Path) -> Vec<Value> {
    let (library, deps) = library();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--crate-type", "lib", "--emit", "metadata,dep-info", "--error-format", "json", "--edition", edition, "--out-dir"])
        .arg(out)
        .args(externs(file, &library))
        .args(["-L", &format!("dependency={}", deps.display())])
        .arg(file.file_name().expect("a name"))
        .current_dir(file.parent().expect("a folder"))
        .env("CARGO_MANIFEST_DIR", folder())
        .env("OUT_DIR", out)
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
    let out = tempfile::tempdir().expect("a folder");
    for file in files("fail") {
        let found = described(&compile(&file, "2024", out.path()), &folder().display().to_string());
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
    let out = tempfile::tempdir().expect("a folder");
    for file in files("pass") {
        for edition in ["2018", "2021", "2024"] {
            compiles(&file, edition, out.path());
        }
    }
}

fn compiles(file: &Path, edition: &str, out: &Path) {
    let messages = compile(file, edition, out);
    let messages: Vec<&str> = messages.iter().map(|message| message["rendered"].as_str().unwrap_or("")).collect();
    assert!(messages.is_empty(), "{} ({edition}):\n{}", file.display(), messages.join("\n"));
}

/// rustdoc shows what users wrote about a kernel, and its signature with the shapes; it warns of nothing.
#[test]
fn kernels_are_documented() {
    let (library, deps) = library();
    let out = tempfile::tempdir().expect("a folder");
    for file in files("pass") {
        let output = Command::new(std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into()))
            .args(["--crate-name", "documented", "--edition", "2024", "-D", "warnings", "--document-private-items", "--out-dir"])
            .arg(out.path())
            .args(externs(&file, &library))
            .args(["-L", &format!("dependency={}", deps.display())])
            .arg(&file)
            .env("CARGO_MANIFEST_DIR", folder())
            .output()
            .expect("rustdoc");
        assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
        if file.ends_with("names.rs") {
            let page = fs::read_to_string(out.path().join("documented/self__/fn.on.html")).expect("a page");
            assert!(page.contains("href=\"../fn.self__.html\""), "{page}");
        }
        if file.ends_with("modules.rs") {
            let page = fs::read_to_string(out.path().join("documented/two/fn.f.html")).expect("a page");
            let passed_on = fs::read_to_string(out.path().join("documented/fn.plus_one.html")).expect("a page");
            assert!(passed_on.contains("One “more”."), "{passed_on}");
            let block = fs::read_to_string(out.path().join("documented/blocks/fn.several.html")).expect("a page");
            assert!(block.contains("<p>In a block.</p>\n<ul>\n<li>A list"), "{block}");
            assert!(page.contains("Documented.") && page.contains("kernel f(x: i64[n, m]) -&gt; (a: i64[n], b: i64)"), "{page}");
        }
    }
}

/// Cargo builds again when a kernel's file changes, or what a build script has made of it.
#[test]
fn files_are_dependencies() {
    let out = tempfile::tempdir().expect("a folder");
    let text = fs::read(folder().join("kernels.gk")).expect("a file");
    let bundle = out.path().join(format!("{}.gpukc", blake3::hash(&text).to_hex()));
    let depends = |on: &Path| {
        compiles(&folder().join("pass/modules.rs"), "2024", out.path());
        let known = fs::read_to_string(out.path().join("modules.d")).expect("what the crate depends on");
        known.contains(&on.display().to_string())
    };
    assert!(depends(&folder().join("kernels.gk")));
    assert!(!depends(&bundle));
    fs::write(&bundle, "binaries").expect("written");
    assert!(depends(&bundle));
}

//! `gpukc fmt` as users meet it: what it writes, what it leaves alone, its exit status.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const LOOSE: &str = "\u{feff}kernel k(x:f32[n])->y:f32[n]{ // why\r\n  y[i]=x[i]; }";
const TIDY: &str = "kernel k(x: f32[n]) -> y: f32[n] { // why\n    y[i] = x[i];\n}\n";
const WRONG: &str = "kernel k(x:f32[n])->y:f32[n]{ y[i]=; }";

/// Exit status, standard output, standard error.
fn fmt(folder: &Path, args: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpukc"));
    command.arg("fmt").args(args).current_dir(folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Who reads no input closes it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn files_are_formatted_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for (name, text) in [("loose.gk", LOOSE), ("tidy.gk", TIDY), ("wrong.gk", WRONG)] {
        fs::write(file(name), text).unwrap();
    }
    let read = |name: &str| fs::read_to_string(file(name)).unwrap();
    let before = fs::metadata(file("tidy.gk")).unwrap().modified().unwrap();

    let (status, out, err) = fmt(folder.path(), &["--check", "loose.gk", "tidy.gk"], "");
    assert_eq!((status, out.as_str()), (1, "loose.gk\n"), "{err}");
    assert_eq!(read("loose.gk"), LOOSE);

    let (status, out, err) = fmt(folder.path(), &["wrong.gk", "loose.gk", "tidy.gk"], "");
    assert_eq!((status, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("wrong.gk:1:36"), "{err}");
    assert_eq!((read("wrong.gk").as_str(), read("loose.gk").as_str()), (WRONG, TIDY));
    assert_eq!(fs::metadata(file("tidy.gk")).unwrap().modified().unwrap(), before);

    assert_eq!(fmt(folder.path(), &["--check", "loose.gk", "tidy.gk"], ""), (0, String::new(), String::new()));
    let (status, _, err) = fmt(folder.path(), &["missing.gk", "tidy.gk"], "");
    assert_eq!(status, 4, "{err}");
    assert_eq!(fmt(folder.path(), &[], "").0, 2);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "a temporary file is left");
}

#[test]
fn standard_input_goes_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(fmt(folder.path(), &["-"], LOOSE), (0, TIDY.to_owned(), String::new()));
    let (status, out, _) = fmt(folder.path(), &["-"], WRONG);
    assert_eq!((status, out.as_str()), (1, ""));
    let (status, out, _) = fmt(folder.path(), &["--check", "-"], &format!("\u{feff}{TIDY}"));
    assert_eq!((status, out.as_str()), (1, "<stdin>\n"));
}

#[cfg(unix)]
#[test]
fn permissions_and_links_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file.gk"), folder.path().join("link.gk"));
    fs::write(&file, LOOSE).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&file, &link).unwrap();
    assert_eq!(fmt(folder.path(), &["link.gk"], "").0, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), TIDY);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);

    fs::write(&file, LOOSE).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
    let (status, _, err) = fmt(folder.path(), &["file.gk"], "");
    assert!(status == 4 && err.contains("read-only"), "{status} {err}");
    assert_eq!(fs::read_to_string(&file).unwrap(), LOOSE);
}

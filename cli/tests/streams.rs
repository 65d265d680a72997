//! What goes to which stream, and in which form: colours, objects, completions, pipes.

mod common;

use std::fs;
use std::process::Stdio;

use common::{Done, Place, SCALE};
use serde_json::Value;

#[test]
fn diagnostics_as_objects() {
    let place = Place::new();
    // Columns count scalar values: the comment has some of several bytes.
    place.file("wrong.gk", "kernel f(x: f32[n]) -> y: f32[n] {\n    /* ä𝄞 */ y[i] = x[i + 1] + valeu;\n}\n");
    let done = place.run(&["check", "wrong.gk", "--format", "json"]).expect(1, &[]);
    assert_eq!(done.err, "");
    let objects: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!objects.is_empty());
    for object in &objects {
        let fields: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
        let wanted = ["code", "column", "end_column", "end_line", "file", "help", "labels", "line", "message", "severity"];
        let mut sorted = fields.clone();
        sorted.sort();
        assert_eq!(sorted, wanted);
        assert_eq!(object["severity"], "error");
        assert_eq!(object["file"], "wrong.gk");
        assert!(object["message"].is_string() && object["labels"].is_array());
        assert!(object["help"].is_string() || object["help"].is_null());
        let code = object["code"].as_str().unwrap();
        place.run(&["explain", code]).expect(0, &[code]);
    }
    let unknown = objects.iter().find(|object| object["code"] == "GK0101").unwrap();
    assert_eq!([&unknown["line"], &unknown["column"], &unknown["end_line"], &unknown["end_column"]], [2, 32, 2, 37]);
    // A good program gives no object, and a warning is one.
    place.file("scale.gk", SCALE);
    assert_eq!(place.run(&["check", "scale.gk", "--format", "json"]).expect(0, &[]).out, "");
    place.file("warned.gk", "kernel f(x: f32[n]) -> s: f32 { s = sum[i] x[i] / 9.0; }\n");
    let done = place.run(&["check", "warned.gk", "--format", "json"]).expect(0, &["GK0207"]);
    assert_eq!(serde_json::from_str::<Value>(done.out.trim()).unwrap()["severity"], "warning");
}

#[test]
fn completions() {
    let place = Place::new();
    for (shell, words) in [
        ("bash", &["complete -F", "verify", "--line-info"][..]),
        ("zsh", &["#compdef gpukc", "verify"]),
        ("fish", &["complete -c gpukc", "verify"]),
        ("powershell", &["Register-ArgumentCompleter", "verify"]),
        ("elvish", &["gpukc", "verify"]),
    ] {
        assert_eq!(place.run(&["completions", shell]).expect(0, words).err, "");
    }
    place.run(&["completions", "cmd"]).expect(2, &["cmd"]);
}

#[test]
fn readers_that_have_had_enough() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let many: String =
        (0..300).map(|n| format!("kernel k{n}(x: f32[n]) -> y: f32[n] {{ y[i] = x[i] / 3.0 + missing{n}; }}\n")).collect();
    place.file("many.gk", many);
    for arguments in [
        &["compile", "scale.gk"][..],
        &["check", "many.gk", "--format", "json"],
        &["run", "scale.gk", "--in", "a=2", "--in", "x=ones:9", "--device", "cpu"],
        &["run", "scale.gk", "--in", "a=2", "--in", "x=ones:99999", "--device", "cpu", "--out", "y=/dev/stdout"],
        &["explain", "GK0203"],
        &["--help"],
    ] {
        let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let done = Done::from(child.wait_with_output().unwrap());
        assert!(done.status == 0 || arguments[0] == "check" && done.status == 1, "{arguments:?}: {done:#?}");
        assert!(!done.err.contains("panicked") && !done.err.contains("pipe"), "{arguments:?}: {done:#?}");
    }
}

/// Nobody reads the results; what the command does besides, and how it ends, is as ever.
#[test]
fn work_goes_on_without_a_reader() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    place.file("wrong.gk", "kernel f(\n");
    place.file("tight.gk", SCALE.replace(" = ", "="));
    let unread = |arguments: &[&str], status: i32| {
        let mut command = place.command(arguments);
        let mut child = command.env("CXX", "absent").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        Done::from(child.wait_with_output().unwrap()).expect(status, &[])
    };
    unread(&["check", "--format", "json", "wrong.gk", "scale.gk"], 1);
    unread(&["check", "scale.gk", "missing.gk"], 4);
    unread(&["fmt", "--check", "tight.gk", "scale.gk"], 1);
    unread(&["run", "scale.gk", "--in", "a=2", "--in", "x=ones:9", "--device", "cpu", "--stats", "s.json"], 0);
    assert!(fs::read_to_string(place.path("s.json")).unwrap().contains("\"total\""));
    fs::create_dir(place.path("temporary")).unwrap();
    let mut child = place.command(&["verify", "scale.gk", "--device", "cpu", "--calls", "1"]);
    child.env("CXX", "absent").env("TMPDIR", place.path("temporary")).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_dir(place.path("temporary")).unwrap().count(), 0);
}

#[test]
fn more_than_the_memory_is_one_line() {
    let place = Place::new();
    place.file("outer.gk", "kernel outer(x: f64[m], y: f64[n]) -> z: f64[m, n] { z[i, j] = x[i] * y[j]; }\n");
    let done = place.run(&["run", "outer.gk", "--device", "cpu", "--in", "x=ones:3000000", "--in", "y=ones:3000000"]).expect(4, &[]);
    assert!(done.err.contains("results of kernel `outer`") && done.err.lines().count() == 1, "{done:#?}");
    // A file that is as long as it says, and longer than any memory: its holes take no room.
    let header = common::npy("<f8", "(1000000000000,)", &[]);
    let path = place.file("sparse.npy", &header);
    let file = fs::File::options().write(true).open(&path).unwrap();
    if file.set_len(header.len() as u64 + 8_000_000_000_000).is_ok() {
        let done = place.run(&["run", "outer.gk", "--device", "cpu", "--in", "x=sparse.npy", "--in", "y=ones:1"]).expect(4, &["`x`"]);
        assert_eq!(done.err.lines().count(), 1, "{done:#?}");
    }
}

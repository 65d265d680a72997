//! Ctrl-C and `--timeout`: every command ends at once, and nothing temporary is left.
#![cfg(unix)]

mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Done, Place, SCALE};

/// Its loop never ends for positive x.
const ENDLESS: &str = "\
fn forever(x: f32) -> f32 { let mut y = x; while y > 0.0 { y = y * 1.0; } y }
kernel endless(x: f32[n]) -> y: f32[n] { y[i] = forever(x[i]); }
";

/// A program that waits, as a compiler.
const WAITING: &str = "#!/bin/sh\n[ \"$1\" = --version ] && { echo waiting; exit; }\nexec sleep 60\n";

fn names(place: &Place, folder: &str) -> Vec<String> {
    let all = fs::read_dir(place.path(folder)).unwrap();
    all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[track_caller]
fn soon(start: Instant) {
    assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
}

#[test]
fn time_is_over() {
    let place = Place::new();
    place.file("endless.gk", ENDLESS);
    place.file("scale.gk", SCALE);
    fs::create_dir(place.path("temporary")).unwrap();
    let start = Instant::now();
    let arguments = ["run", "endless.gk", "--in", "x=ones:3", "--device", "cpu", "--timeout", "0.5", "--out", "y=out.npy"];
    place.run(&arguments).expect(4, &["0.5 s (--timeout)"]);
    soon(start);
    assert!(!place.path("out.npy").exists());

    // Before the command too, and for what waits for another process.
    let mut command = place.command(&["--timeout", "0.5", "verify", "scale.gk", "--device", "cpu"]);
    command.env("CXX", place.script("waiting", WAITING)).env("TMPDIR", place.path("temporary"));
    Done::from(command.output().unwrap()).expect(4, &["--timeout"]);
    soon(start);
    assert_eq!(names(&place, "temporary"), [""; 0]);

    // Standard input that does not come.
    let mut child = place.command(&["fmt", "-", "--timeout", "0.5"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    Done::from(child.wait_with_output().unwrap()).expect(4, &["--timeout"]);
    drop(input);
    soon(start);
    // Enough time changes nothing.
    place.run(&["check", "scale.gk", "--timeout", "600"]).expect(0, &["1 kernel"]);
    for wrong in ["-1", "inf", "soon"] {
        place.run(&["check", "scale.gk", &format!("--timeout={wrong}")]).expect(2, &["timeout"]);
    }
}

#[test]
fn interrupted() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    fs::create_dir(place.path("temporary")).unwrap();
    let compiler = place.script("waiting", WAITING);
    for signal in ["INT", "TERM"] {
        let start = Instant::now();
        let mut command = place.command(&["verify", "scale.gk", "--device", "cpu"]);
        command.env("CXX", &compiler).env("TMPDIR", place.path("temporary")).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        while names(&place, "temporary").is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "it has ended by itself");
            soon(start);
            std::thread::sleep(Duration::from_millis(20));
        }
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        soon(start);
        assert_eq!(names(&place, "temporary"), [""; 0], "{signal}");
    }
}

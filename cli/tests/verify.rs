//! `gpukc verify` on the CPU: what it compares, what it finds, how it ends. Needs a C++ compiler.

mod common;

use std::fs;

use common::{Place, SCALE};

/// Extents and scalars that drawing alone would not hit upon.
const TIED: &str = "\
kernel tied(x: f32[n], y: f32[m], z: f32[2 * n, k], a: i32, t: f64) -> s: f32[n]
where n == 2 * m + 6, k % 48 == 0, 3 * m == 2 * k, a >= 17, (a as i64) < k, t > 0.25 {
    s[i] = x[i] + y[i / 2 - 3 | clamp] * z[2 * i, a as i64] + (t as f32);
}
";

/// The numbers in a line such as `scale: 6 calls, 3 texts, equal bits`.
fn counts(line: &str) -> (usize, usize) {
    let numbers: Vec<usize> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1])
}

#[test]
fn all_kernels_of_all_files() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    place.file("two.gk", format!("{TIED}\nkernel gather(x: f32[m], k: i32[n]) -> y: f32[n] {{ y[i] = x[k[i]]; }}\n"));
    place.file("wrong.gk", "kernel wrong(x: f32[n]) -> y: f32[n] { y[i] = x[i + 1]; }\n");
    let done = place.run(&["verify", "scale.gk", "wrong.gk", "two.gk", "--device", "cpu", "--calls", "6"]);
    let done = done.expect(1, &["GK0204", "wrong.gk:1:", "(2 of 3)"]);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines.len(), 3, "{done:#?}");
    for (line, name) in lines.iter().zip(["scale.gk: scale: 6 calls", "two.gk: tied: 6 calls", "two.gk: gather: 6 calls"]) {
        assert!(line.starts_with(name) && line.ends_with(" texts, equal bits"), "{line}");
        assert!(counts(line).1 >= 2, "{line}");
    }

    let done = place.run(&["verify", "two.gk", "--kernel", "gather", "--device", "cpu", "--calls", "1"]).expect(0, &[]);
    assert!(done.out.starts_with("gather: 1 call, "), "{done:#?}");
    place.run(&["verify", "two.gk", "--kernel", "scatter"]).expect(2, &["scatter", "tied, gather"]);
}

#[test]
fn a_wrong_text_is_found_and_saved() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    place.file("copy.gk", "kernel copy(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }\n");
    // A compiler that gets products wrong.
    let compiler = place.script("compiler", "#!/bin/sh\nsed -i 's/a \\* x/-a * x/' ./*.cu 2>/dev/null\nexec g++ \"$@\"\n");
    fs::create_dir(place.path("temporary")).unwrap();
    let mut command = place.command(&["verify", "scale.gk", "copy.gk", "--device", "cpu", "--calls", "6", "--seed", "9"]);
    let done = common::Done::from(command.env("CXX", compiler).env("TMPDIR", place.path("temporary")).output().unwrap());
    let done =
        done.expect(70, &["scale.gk: scale: unequal", "copy.gk: copy: 6 calls", "the evaluator's", "text: y[", "please report"]);

    // What is saved shows it again: the program, the text, the inputs and the command.
    let folder = done.err.split(" with the files in ").nth(1).unwrap().lines().next().unwrap();
    let read = |name: &str| fs::read(format!("{folder}/{name}")).unwrap();
    assert_eq!(read("program.gk"), SCALE.as_bytes());
    assert!(String::from_utf8(read("kernel.cu")).unwrap().contains("a * x"));
    assert!(read("x.npy").starts_with(b"\x93NUMPY"));
    let about = String::from_utf8(read("call.txt")).unwrap();
    assert!(about.contains("n = ") && about.contains("--in x=x.npy") && about.contains("--seed 9"), "{about}");
    // Nothing else is left.
    assert_eq!(fs::read_dir(place.path("temporary")).unwrap().count(), 1);
    let command = about.lines().find(|line| line.starts_with("gpukc run")).unwrap();
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    let again = place.command(&arguments).current_dir(folder).output().unwrap();
    common::Done::from(again).expect(0, &["y: f32["]);
}

#[test]
fn without_a_compiler_the_evaluator_alone() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let mut command = place.command(&["verify", "scale.gk", "--device", "auto", "--calls", "3"]);
    let done = common::Done::from(command.env("CXX", "no-such-compiler").output().unwrap());
    let done = done.expect(0, &["running on the CPU", "no-such-compiler"]);
    assert_eq!(done.out, "scale: 3 calls, 0 texts, equal bits\n");
}

#[test]
fn what_cannot_be_verified() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    place.file("never.gk", "kernel never(x: f32[n]) -> y: f32[n] where n * n % 7 == 3 { y[i] = x[i]; }\n");
    place.file("empty.gk", "// nothing\n");
    place.run(&["verify", "never.gk", "--device", "cpu"]).expect(4, &["never: not verified", "conditions"]);
    place.run(&["verify", "empty.gk", "--device", "cpu"]).expect(2, &["no kernel"]);
    place.run(&["verify", "scale.gk", "--device", "cuda"]).expect(3, &["driver", "--device cpu"]);
    place.run(&["verify", "missing.gk", "--device", "cpu"]).expect(4, &["missing.gk"]);
    place.run(&["verify"]).expect(2, &["FILE"]);
    place.run(&["verify", "scale.gk", "--calls", "0"]).expect(2, &["--calls"]);
    place.run(&["verify", "scale.gk", "--seconds", "-1"]).expect(2, &[]);
    // No time: each kernel gets one call nevertheless.
    place.file("two.gk", format!("{SCALE}{}", SCALE.replace("scale", "again")));
    let done = place.run(&["verify", "two.gk", "--device", "cpu", "--calls", "20", "--seconds", "0"]).expect(0, &[]);
    let each: Vec<&str> = done.out.lines().collect();
    assert!(
        matches!(each[..], [a, b] if a.starts_with("scale: 1 call of 20, ") && b.starts_with("again: 1 call of 20, ")),
        "{done:#?}"
    );
}

#[test]
fn licences_are_compared_with_a_tolerance() {
    let place = Place::new();
    place.file("sums.gk", "kernel sums(x: f32[n], k: i32[n]) -> h: f32[8] { h[k[i]] += x[i]; }\n");
    let done = place.run(&["verify", "sums.gk", "--device", "cpu", "--calls", "3"]).expect(0, &[]);
    assert!(done.out.ends_with("equal within the tolerance of its licences\n"), "{done:#?}");
}

#[cfg(target_os = "linux")]
#[path = "../../runtime/tests/standin/mod.rs"]
mod standin;

/// A driver that computes nothing: the texts are compiled, loaded, launched and read back, and found to be wrong.
#[cfg(target_os = "linux")]
#[test]
fn a_device_that_computes_nothing() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    place.file("ones.gk", "kernel ones(x: f32[n]) -> y: f32[n] { y[i] = 1.0; }\n");
    fs::create_dir(place.path("temporary")).unwrap();
    let mut command = place.command(&["verify", "ones.gk", "scale.gk", "--device", "cuda", "--calls", "6"]);
    standin::prepare(&mut command, standin::Driver::Whole).env("TMPDIR", place.path("temporary"));
    let done = common::Done::from(command.output().unwrap()).expect(70, &["ones.gk: ones: unequal", "the general text", "y["]);
    assert!(done.out.contains("scale.gk: scale: "), "{done:#?}");
    let kept = fs::read_dir(place.path("temporary")).unwrap().next().unwrap().unwrap().path();
    assert!(kept.join("kernel.cu").is_file() && kept.join("x.npy").is_file());
    // Memory that runs out is the machine's matter; after a fault nothing more is tried.
    let again = |setting: &str, value: &str| {
        let mut command = place.command(&["verify", "ones.gk", "scale.gk", "--device", "cuda", "--calls", "6"]);
        standin::prepare(&mut command, standin::Driver::Whole).env("TMPDIR", place.path("temporary")).env(setting, value);
        common::Done::from(command.output().unwrap())
    };
    again("STANDIN_MEMORY", "16").expect(3, &["ones.gk: ones: not verified", "memory"]);
    let done = again("STANDIN_FAIL", "cuLaunchKernelEx=700").expect(70, &["cannot be used any more", "not verified: scale"]);
    assert_eq!(done.out, "ones.gk: ones: unequal\n");
}

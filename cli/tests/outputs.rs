//! Files that a command writes: whole or not at all, all or none, and where there are places for them.

mod common;

use std::fs;

use common::{Place, SCALE, floats, npy};

const TWO: &str = "kernel two(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; z[i] = 2.0 * x[i]; }\n";

/// A folder with the kernel `two`, and what else is in it after a run.
fn place() -> Place {
    let place = Place::new();
    place.file("two.gk", TWO);
    place
}

fn names(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "cache" && !name.ends_with(".gk")).collect();
    names.sort();
    names
}

fn arguments<'a>(input: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&["run", "two.gk", "--device", "cpu", "--in", input], options].concat()
}

#[test]
fn outputs_appear_whole_or_not_at_all() {
    let place = place();
    place.file("y.npy", "before");
    let run = |input: &str| place.run(&arguments(input, &["--out", "y=y.npy"]));
    run("x=missing.npy").expect(4, &["missing.npy"]);
    assert_eq!(fs::read(place.path("y.npy")).unwrap(), b"before");
    run("x=ones:3").expect(0, &[]);
    assert_eq!(fs::read(place.path("y.npy")).unwrap(), npy_of("(3,)", &[1.0; 3]));
    assert_eq!(names(&place), ["y.npy"]);
}

/// As the command writes it: data start at a multiple of 64.
fn npy_of(shape: &str, values: &[f32]) -> Vec<u8> {
    let short = npy("<f4", shape, &[]).len();
    let padded = format!("{shape}, }}{}", " ".repeat((64 - short % 64) % 64));
    let mut bytes = npy("<f4", shape, &[]);
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {padded}\n");
    bytes.truncate(8);
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(floats(values));
    bytes
}

#[cfg(target_os = "linux")]
#[test]
fn several_outputs_appear_together_or_not_at_all() {
    let place = place();
    place.file("y.npy", "before");
    // The last one fails, whichever it is: no other is written, and none is half there.
    for options in [
        ["--out", "y=y.npy", "--out", "z=/dev/full", "--stats", "s.json"],
        ["--out", "z=/dev/full", "--out", "y=y.npy", "--stats", "s.json"],
        ["--out", "y=y.npy", "--out", "z=z.npy", "--stats", "/dev/full"],
    ] {
        place.run(&arguments("x=ones:3", &options)).expect(4, &["/dev/full can't be written"]);
        assert_eq!(names(&place), ["y.npy"], "{options:?}");
        assert_eq!(fs::read(place.path("y.npy")).unwrap(), b"before", "{options:?}");
    }
    place.run(&arguments("x=ones:3", &["--out", "y=y.npy", "--out", "z=z.npy", "--stats", "s.json"])).expect(0, &[]);
    assert_eq!(names(&place), ["s.json", "y.npy", "z.npy"]);
    assert_eq!(fs::read(place.path("z.npy")).unwrap(), npy_of("(3,)", &[2.0; 3]));
    let stats = fs::read_to_string(place.path("s.json")).unwrap();
    assert!(stats.contains("\"outputs\"") && stats.contains("\"total\""), "{stats}");
}

/// Before the work, and before its inputs are read.
#[test]
fn missing_places_are_found_first() {
    let place = place();
    fs::create_dir(place.path("folder")).unwrap();
    for (options, file) in [
        (&["--out", "y=y.npy", "--out", "z=no/z.npy"][..], "no/z.npy"),
        (&["--out", "y=y.npy", "--stats", "no/s.json"], "no/s.json"),
        (&["--out", "y=two.gk/y.npy"], "two.gk/y.npy"),
        (&["--out", "y=folder"], "folder"),
    ] {
        let done = place.run(&arguments("x=missing.npy", options)).expect(4, &[&format!("{file} can't be written")]);
        assert!(!done.err.contains("missing.npy"), "{done:#?}");
        assert_eq!(names(&place), ["folder"]);
    }
    // A folder for compiled text is made, but not before the program is found to be right.
    place.file("wrong.gk", "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i + 1]; }\n");
    place.run(&["compile", "wrong.gk", "-o", "new/deep"]).expect(1, &[]);
    place.run(&["compile", "wrong.gk", "-o", "two.gk/deep"]).expect(4, &["two.gk is no folder"]);
    assert_eq!(names(&place), ["folder"]);
    place.run(&["compile", "two.gk", "-o", "new/deep"]).expect(0, &[]);
    assert!(place.path("new/deep/two.cu").is_file());
}

/// A file's successor is as private as it was, and stands where links lead.
#[cfg(unix)]
#[test]
fn what_stands_in_a_place_is_respected() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = place();
    let run = |options: &[&str]| place.run(&arguments("x=ones:3", options));
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    let with_mode = |name: &str, mode: u32| {
        place.file(name, "before");
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    with_mode("private.npy", 0o600);
    run(&["--out", "y=private.npy"]).expect(0, &[]);
    assert_eq!((fs::read(place.path("private.npy")).unwrap(), mode("private.npy")), (npy_of("(3,)", &[1.0; 3]), 0o600));
    with_mode("kept.npy", 0o444);
    run(&["--out", "y=kept.npy"]).expect(4, &["kept.npy can't be written: it is read-only"]);
    assert_eq!(fs::read(place.path("kept.npy")).unwrap(), b"before");
    for (link, target) in [("one.npy", "private.npy"), ("two.npy", "three.npy"), ("three.npy", "new.npy")] {
        symlink(target, place.path(link)).unwrap();
    }
    run(&["--out", "y=one.npy", "--out", "z=two.npy"]).expect(0, &[]);
    assert_eq!(fs::read(place.path("new.npy")).unwrap(), npy_of("(3,)", &[2.0; 3]));
    assert!(["one.npy", "two.npy", "three.npy"].iter().all(|link| place.path(link).is_symlink()));
    assert_eq!(names(&place), ["kept.npy", "new.npy", "one.npy", "private.npy", "three.npy", "two.npy"]);
    // A program is laid out anew in the same way.
    with_mode("laid.gk", 0o640);
    fs::write(place.path("laid.gk"), TWO.replace(' ', "  ")).unwrap();
    place.run(&["fmt", "laid.gk"]).expect(0, &[]);
    assert_eq!(mode("laid.gk"), 0o640);
}

#[test]
fn standard_output_is_a_place() {
    let place = place();
    let run = |options: &[&str]| place.command(&arguments("x=ones:3", options)).output().unwrap();
    let output = run(&["--out", "z=-"]);
    assert_eq!((output.status.code(), output.stdout), (Some(0), npy_of("(3,)", &[2.0; 3])));
    let output = run(&["--out", "z=-", "--out", "y=y.npy"]);
    assert_eq!((output.status.code(), output.stdout), (Some(0), npy_of("(3,)", &[2.0; 3])));
    assert_eq!(names(&place), ["y.npy"]);
    let done = place.run(&arguments("x=ones:3", &["--out", "z=z.npy", "--stats", "-"])).expect(0, &["\"device\": \"cpu\""]);
    assert_eq!(done.err, "");
    place.run(&arguments("x=ones:3", &["--out", "z=-", "--out", "y=-"])).expect(2, &["- is to be written twice"]);
    place.run(&arguments("x=ones:3", &["--out", "z=-", "--stats", "-"])).expect(2, &["- is to be written twice"]);
    // A file of that name has to be asked for.
    place.run(&arguments("x=ones:3", &["--out", "z=./-"])).expect(0, &[]);
    assert_eq!(names(&place), ["-", "y.npy", "z.npy"]);
    // Texts too.
    place.file("scale.gk", SCALE);
    let text = place.run(&["compile", "scale.gk"]).expect(0, &["__global__"]).out;
    assert_eq!(place.run(&["compile", "scale.gk", "-o", "-"]).expect(0, &[]).out, text);
    assert_eq!(names(&place), ["-", "y.npy", "z.npy"]);
    place.run(&["compile", "scale.gk", "-o", "-", "--emit", "cuda,plan"]).expect(2, &["several files: scale.cu, scale.plan"]);
}

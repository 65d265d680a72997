//! The command as users and scripts meet it: exit status, streams, files.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use common::{Done, Place, SCALE, floats, npy};

#[test]
fn usage() {
    let place = Place::new();
    place.run(&[]).expect(2, &["Usage"]);
    place.run(&["--help"]).expect(0, &["Usage", "check", "run"]);
    place.run(&["no-such-command"]).expect(2, &[]);
    place.run(&["check"]).expect(2, &["FILE"]);
    place.run(&["run", "x.gk", "--device", "tpu"]).expect(2, &["tpu"]);
    let done = place.run(&["--version"]).expect(0, &["NVRTC", "driver"]);
    assert!(done.out.starts_with("gpukc "));
}

#[test]
fn checking() {
    let place = Place::new();
    place.file("good.gk", SCALE);
    let done = place.run(&["check", "good.gk"]).expect(0, &["1 kernel"]);
    assert_eq!(done.err, "");
    place.file("bad.gk", "kernel f(x: f32[n]) -> y: f32[n] {\n    y[i] = x[i] +;\n}\n");
    let done = place.run(&["check", "bad.gk"]).expect(1, &["bad.gk"]);
    assert_eq!(done.out, "");
    let done = place.run(&["check", "bad.gk", "--format", "json"]).expect(1, &["\"severity\"", "\"line\": 2"]);
    assert!(done.out.lines().all(|line| line.starts_with('{') && line.ends_with('}')));
    place.run(&["check", "missing.gk"]).expect(4, &["missing.gk"]);
    place.run(&["check", "."]).expect(4, &["folder"]);
    place.file("marked.gk", format!("\u{feff}{SCALE}"));
    place.run(&["check", "marked.gk"]).expect(0, &[]);
    place.file("latin.gk", b"// caf\xe9\n");
    place.run(&["check", "latin.gk"]).expect(1, &["UTF-8", "0xe9"]);
    place.run(&["check", "latin.gk", "--format", "json"]).expect(1, &["\"line\": 1", "\"column\": 7"]);
}

#[test]
fn standard_input() {
    let place = Place::new();
    let mut child =
        place.command(&["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(SCALE.as_bytes()).unwrap();
    Done::from(child.wait_with_output().unwrap()).expect(0, &["<stdin>", "1 kernel"]);
}

#[test]
fn running() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    place.file("x.npy", npy("<f4", "(3,)", &floats(&[1.0, -2.0, 3.5])));
    let run = |inputs: &[&str]| {
        let mut args = vec!["run", "scale.gk", "--device", "cpu"];
        args.extend(inputs);
        place.run(&args)
    };
    run(&["--in", "a=2", "--in", "x=x.npy"]).expect(0, &["y: f32[3] = [2.0, -4.0, 7.0]"]);
    run(&["--in", "a=-1.5e0", "--in", "x=x.npy", "--out", "y=y.npy"]).expect(0, &[]);
    let written = fs::read(place.path("y.npy")).unwrap();
    assert!(written.ends_with(&floats(&[-1.5, 3.0, -5.25])));
    assert_eq!(written.len() % 64, 12);
    // Nothing else is left behind.
    let names: Vec<_> = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{names:?}");
    place.file("a.npy", npy(">f4", "()", &2f32.to_be_bytes()));
    run(&["--in", "a=a.npy", "--in", "x=x.npy"]).expect(0, &["[2.0, -4.0, 7.0]"]);
    run(&["--in", "a=1", "--in", "x=arange:20"]).expect(0, &["y: f32[20] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, …, 19.0]"]);
    run(&["--in", "a=INF", "--in", "x=ones:1"]).expect(0, &["[inf]"]);
    run(&["--in", "a=nan", "--in", "x=zeros:0"]).expect(0, &["y: f32[0] = []"]);
    let first = run(&["--in", "a=1", "--in", "x=rand:5:3"]).expect(0, &[]);
    assert_eq!(first.out, run(&["--in", "a=1", "--in", "x=rand:5:3"]).out);
    assert_ne!(first.out, run(&["--in", "a=1", "--in", "x=rand:5:4"]).out);
    run(&["--in", "a=1", "--in", "x=x.npy", "--stats", "stats.json"]).expect(0, &[]);
    assert!(fs::read_to_string(place.path("stats.json")).unwrap().contains("\"parse_check\""));
    run(&["--in", "a=1", "--in", "x=x.npy", "--out", "y=/dev/stdout"]).expect(0, &["NUMPY"]);
}

#[test]
fn wrong_options_of_run() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let run = |inputs: &[&str]| {
        let mut args = vec!["run", "scale.gk", "--device", "cpu"];
        args.extend(inputs);
        place.run(&args)
    };
    run(&[]).expect(2, &["`a`", "`x`", "--in a=2.5", "--in x=rand:64"]);
    run(&["--in", "a=1"]).expect(2, &["`x`"]);
    run(&["--in", "a=1", "--in", "x=ones:3", "--in", "b=1"]).expect(2, &["no parameter `b`", "a, x"]);
    run(&["--in", "a=1", "--in", "a=2", "--in", "x=ones:3"]).expect(2, &["twice"]);
    run(&["--in", "a"]).expect(2, &["NAME=SOURCE"]);
    run(&["--in", "a=1", "--in", "x=rand:3y"]).expect(2, &["rand:3y"]);
    run(&["--in", "a=1", "--in", "x=sin:3"]).expect(2, &["no generator `sin`"]);
    run(&["--in", "a=one", "--in", "x=ones:3"]).expect(2, &["one"]);
    run(&["--in", "a=1", "--in", "x=ones:3", "--out", "z=z.npy"]).expect(2, &["no result `z`", "y"]);
    run(&["--in", "a=1", "--in", "x=ones:3", "--kernel", "other"]).expect(2, &["other", "scale"]);
    run(&["--in", "a=1", "--in", "x=ones:3", "--timeout=-1"]).expect(2, &["timeout"]);
}

#[test]
fn inputs_that_do_not_fit() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let x = |source: &str| place.run(&["run", "scale.gk", "--device", "cpu", "--in", "a=1", "--in", &format!("x={source}")]);
    x("missing.npy").expect(4, &["missing.npy"]);
    x("rand:3x4").expect(4, &["x"]);
    x("3.5").expect(4, &["scalar"]);
    x("rand:9000000000000000").expect(4, &["x"]);
    x("rand:4611686018427387904x4611686018427387904").expect(4, &["x"]);
    place.file("double.npy", npy("<f8", "(1,)", &[0; 8]));
    x("double.npy").expect(4, &["float64 (f64)", "f32"]);
    for (name, bytes) in [
        ("short", npy("<f4", "(3,)", &[0; 11])),
        ("huge", npy("<f4", "(4611686018427387904, 4)", &[0; 12])),
        ("objects", npy("|O", "(1,)", b"\x80\x04N.")),
        ("magic", b"\x92NUMPY\x01\x00".to_vec()),
        ("empty", Vec::new()),
    ] {
        let file = place.file(&format!("{name}.npy"), bytes);
        x(&file).expect(4, &[name]);
    }
    let a = |source: &str| place.run(&["run", "scale.gk", "--device", "cpu", "--in", "x=ones:1", "--in", &format!("a={source}")]);
    a("true").expect(4, &["f32"]);
    place.file("array.npy", npy("<f4", "(1,)", &[0; 4]));
    a("array.npy").expect(4, &["scalar"]);
    a("1").expect(0, &[]);
    let done =
        place.run(&["run", "scale.gk", "--device", "cpu", "--in", "a=1", "--in", "x=ones:1", "--out", "y=no/such/folder/y.npy"]);
    done.expect(4, &["can't be written"]);
}

#[test]
fn without_a_gpu() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let done = place.run(&["run", "scale.gk", "--in", "a=1", "--in", "x=ones:1"]).expect(0, &["running on the CPU", "gpukc "]);
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    place.run(&["run", "scale.gk", "--in", "a=1", "--in", "x=ones:1", "--device", "cuda"]).expect(3, &["error"]);
    place.run(&["bench", "scale.gk", "--in", "a=1", "--in", "x=ones:1"]).expect(3, &["error"]);
    place.run(&["compile", "scale.gk", "--emit", "cubin", "-o", "here"]).expect(3, &["--arch sm_90"]);
    let lines = &["driver", "NVRTC", "cache", "do without"];
    // Without a GPU nothing is missing that was asked for.
    place.run(&["doctor"]).expect(0, lines);
    place.run(&["doctor", "--device", "cpu"]).expect(0, lines);
    place.run(&["doctor", "--device", "cuda"]).expect(3, lines);
    place.run(&["doctor", "--device", "gpu"]).expect(2, &["cuda:N"]);
}

#[test]
fn compiling_to_text() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let first = place.command(&["compile", "scale.gk"]).env("GPUKC_NVRTC", "/nowhere").output().unwrap();
    let first = Done::from(first).expect(0, &["__global__"]);
    assert_eq!(first.out, place.run(&["compile", "scale.gk", "--emit", "cuda", "--kernel", "scale"]).out);
    place.run(&["compile", "scale.gk", "--arch", "sm_80,sm_90a", "-o", "here"]).expect(0, &[]);
    assert!(place.path("here/scale.sm_80.cu").is_file() && place.path("here/scale.sm_90a.cu").is_file());
    place.run(&["compile", "scale.gk", "--arch", "sm_80,sm_90"]).expect(2, &["-o DIR"]);
    place.run(&["compile", "scale.gk", "--emit", "plan"]).expect(0, &["scale"]);
    place.run(&["compile", "scale.gk", "--arch", "hopper"]).expect(2, &["hopper"]);
    place.run(&["compile", "scale.gk", "--shape", "k=3"]).expect(2, &["no dim `k`"]);
    place.run(&["compile", "scale.gk", "--shape", "n=-3"]).expect(2, &["-3"]);
    place.run(&["compile", "scale.gk", "--kernel", "other"]).expect(2, &["other"]);
    let none =
        place.command(&["compile", "scale.gk", "--emit", "ptx", "--arch", "sm_90"]).env("GPUKC_NVRTC", "/nowhere").output().unwrap();
    Done::from(none).expect(3, &["GPUKC_NVRTC"]);
}

#[test]
fn the_cache() {
    let place = Place::new();
    place.run(&["cache", "path"]).expect(0, &[place.path("cache").to_str().unwrap()]);
    place.run(&["cache", "list"]).expect(0, &["0 entries"]);
    place.run(&["cache", "clear"]).expect(0, &["0 entries removed"]);
    place.run(&["cache", "verify"]).expect(0, &["0 damaged"]);
    fs::create_dir(place.path("cache")).unwrap();
    let name = format!("{}.gkc", "0".repeat(64));
    fs::write(place.path("cache").join(&name), "rubbish").unwrap();
    place.run(&["cache", "list"]).expect(0, &["too short"]);
    place.run(&["cache", "verify"]).expect(3, &["1 damaged"]);
    place.run(&["cache", "clear"]).expect(0, &["1 entry removed"]);
    assert!(!Path::new(&place.path("cache").join(name)).exists());
}

#[test]
fn codes_are_explained() {
    let place = Place::new();
    place.run(&["explain", "GK0203"]).expect(0, &["GK0203"]);
    // The parser's codes too, the first and the last, and those that name a limit.
    for code in ["GK0001", "gk0006", "GK0014"] {
        place.run(&["explain", code]).expect(0, &[&code.to_uppercase()]);
    }
    place.run(&["explain", "GK9999"]).expect(2, &["GK9999", "--list"]);
    // All of them in order, each explained under its title.
    let list = place.run(&["explain"]).expect(0, &["GK0203", "GK0207"]).out;
    assert_eq!(place.run(&["explain", "--list"]).out, list);
    let codes: Vec<(&str, &str)> = list.lines().map(|line| line.split_once("  ").unwrap()).collect();
    assert!(codes.len() > 50 && codes.is_sorted_by(|before, after| before.0 < after.0), "{list}");
    for (code, title) in codes.iter().step_by(10) {
        place.run(&["explain", code]).expect(0, &[&format!("{code}: {title}\n")]);
    }
    place.run(&["explain", "nonsense"]).expect(2, &["GK0203"]);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    let mut child = place.command(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = Done::from(child.wait_with_output().unwrap()).expect(0, &[]);
    assert_eq!(done.err, "");
}

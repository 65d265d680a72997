//! What nobody would write, and what a program makes that writes programs: an answer within bounded time and memory, never a
//! crash; and files that are not what they should be.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use common::{Done, Place, SCALE, floats, npy};

/// The command with 4 GiB of address space and a minute.
fn bounded(place: &Place, arguments: &[&str]) -> Done {
    let inner = place.command(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 4194304; exec timeout -s KILL 60 \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(place.path("")).stdin(Stdio::null()).env("CUDA_VISIBLE_DEVICES", "").env("GPUKC_CACHE", "off");
    Done::from(command.output().unwrap())
}

fn kernel(body: &str) -> String {
    format!("kernel f(x: f32[n]) -> y: f32[n] {{ {body} }}\n")
}

/// Texts of `n` things in a row or inside one another.
fn large(n: usize) -> Vec<(&'static str, String)> {
    let each = |text: &dyn Fn(usize) -> String, separator: &str| (0..n).map(text).collect::<Vec<_>>().join(separator);
    let chain = |operator: &str| {
        let step = |at: usize| {
            let before = if at == 0 { "x[i]".to_owned() } else { format!("t{}[i]", at - 1) };
            format!("let t{at}[i] = {before} {operator};").replace('_', &before)
        };
        kernel(&format!("{} y[i] = t{}[i];", each(&step, " "), n - 1))
    };
    let function = |body: String| format!("fn g(a: f32) -> f32 {{ let mut y = a; {body} y }}\n{}", kernel("y[i] = g(x[i]);"));
    let called = |at: usize| match at {
        0 => "kernel f0(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }".to_owned(),
        _ => format!("kernel f{at}(x: f32[n]) -> y: f32[n] {{ let t = f{0}(x); let u = f{0}(t); y[i] = u[i]; }}", at - 1),
    };
    let several = |kind: &str| format!("kernel f(x: f32[n]) -> ({}) {{ {} }}\n", each(&|at| format!("y{at}: f32[n]"), ", "), kind);
    vec![
        ("terms", kernel(&format!("y[i] = {};", each(&|_| "x[i]".into(), " + ")))),
        ("factors", kernel(&format!("y[i] = {};", each(&|_| "x[i]".into(), " * ")))),
        ("conditions", kernel(&format!("y[i] = if {} {{ x[i] }} else {{ 0.0 }};", each(&|at| format!("i > {at}"), " && ")))),
        ("brackets", kernel(&format!("y[i] = {}x[i]{};", "(".repeat(n), ")".repeat(n)))),
        ("signs", kernel(&format!("y[i] = {}x[i];", "-".repeat(n)))),
        ("casts", kernel(&format!("y[i] = x[i]{};", " as f32".repeat(n)))),
        ("calls", kernel(&format!("y[i] = {}x[i]{};", "exp(".repeat(n), ")".repeat(n)))),
        ("subscripts", kernel(&format!("y[i] = {}i{};", "x[".repeat(n), "]".repeat(n)))),
        ("reductions", kernel(&format!("y[i] = {}x[i]{};", each(&|at| format!("(sum[k{at}] x[k{at}] * "), ""), ")".repeat(n)))),
        ("bound", kernel(&format!("y[i] = sum[{}] 1.0;", each(&|at| format!("k{at} in 0..2"), ", ")))),
        ("ifs", kernel(&format!("y[i] = {}x[i]{};", "if i > 0 { ".repeat(n), " } else { 0.0 }".repeat(n)))),
        ("else ifs", kernel(&format!("y[i] = {} {{ 1.0 }};", "if i > 0 { 0.0 } else".repeat(n)))),
        ("loops", function(format!("{} y = 1.0; {}", "while y > 1.0 {".repeat(n), "}".repeat(n)))),
        ("assignments", function("y = y * y + 1.0; ".repeat(n))),
        ("comments", format!("{}{}{}", "/*".repeat(n), "*/".repeat(n), kernel("y[i] = x[i];"))),
        ("sums of the last", chain("+ 1.0")),
        ("squares of the last", chain("* _")),
        (
            "scalars",
            kernel(&format!("let s0 = sum[k] x[k]; {} y[i] = s{n};", each(&|at| format!("let s{} = s{at} * s{at};", at + 1), " "))),
        ),
        ("kernels", each(&|at| kernel("y[i] = x[i];").replace("f(", &format!("k{at}(")), "")),
        ("kernels that call", each(&called, "\n")),
        (
            "constants",
            format!(
                "const c0: i64 = 1;\n{}{}",
                each(&|at| format!("const c{}: i64 = c{at} + c{at};\n", at + 1), ""),
                kernel("y[i] = x[i];")
            ),
        ),
        ("parameters", kernel("y[i] = x0[i];").replace("x: f32[n]", &each(&|at| format!("x{at}: f32[n]"), ", "))),
        ("results", several(&each(&|at| format!("y{at}[i] = x[i];"), " "))),
        ("elements", format!("kernel f() -> y: f32[{n}] {{ {} }}\n", each(&|at| format!("y[{at}] = 1.0;"), " "))),
        (
            "residues",
            format!("kernel f(x: f32[n]) -> y: f32[{n} * n] {{ {} }}\n", each(&|at| format!("y[{n} * i + {at}] = x[i];"), " ")),
        ),
        (
            "where",
            kernel("y[i] = x[i / 2 * 2];").replace(" {", &format!(" where {} {{", each(&|at| format!("n % {} == 0", at + 2), ", "))),
        ),
        ("dims", kernel("y[i] = 1.0;").replace("y: f32[n]", &format!("y: f32[{}]", each(&|_| "n".into(), " * ")))),
        ("divided dims", kernel("y[i] = 1.0;").replace("y: f32[n]", &format!("y: f32[{}n{}]", "(".repeat(n), " + 1) / 2".repeat(n)))),
        ("rank", kernel("y[i] = 1.0;").replace("x: f32[n]", &format!("x: f32[{}]", each(&|_| "n".into(), ", ")))),
        ("remainders", kernel(&format!("y[i] = x[{}i{}];", "(".repeat(n), " + 1) % n".repeat(n)))),
        ("quotients", kernel(&format!("y[i] = x[{} | clamp];", each(&|at| format!("i / {}", at + 1), " + ")))),
        ("attributes", format!("{}{}", "@exact ".repeat(n), kernel("y[i] = x[i];"))),
        ("digits", kernel(&format!("y[i] = {0}.{0}e{0};", "9".repeat(n)))),
        ("names", kernel(&format!("y[{0}] = x[{0}];", "i".repeat(13 * n)))),
        ("lines", format!("{}{}", "\r\n".repeat(n), kernel("y[i] = z[i];"))),
        ("marks", format!("{}{}", "\u{feff}".repeat(n), kernel("y[i] = x[i];"))),
        ("zeros", "\0".repeat(n)),
        ("accents", kernel(&format!("y[i] = x[i]{};", "\u{301}".repeat(n)))),
        ("documentation", format!("{}{}", "/// why\n".repeat(n), kernel("y[i] = x[i];"))),
    ]
}

#[test]
fn large_texts() {
    let place = Place::new();
    for (what, text) in large(60).into_iter().chain(large(5000)) {
        place.file("large.gk", &text);
        for arguments in [&["check", "large.gk"][..], &["compile", "large.gk", "-o", "out"], &["fmt", "large.gk"]] {
            let done = bounded(&place, arguments);
            assert!(matches!(done.status, 0 | 1), "{what}: {arguments:?}: {} {:.500}", done.status, done.err);
            assert!(done.err.len() < 200_000, "{what}: {arguments:?} says {} bytes", done.err.len());
        }
    }
}

#[test]
fn calls_that_would_take_all_memory_or_all_time() {
    let place = Place::new();
    place.file(
        "much.gk",
        "kernel terms(x: f32[n]) -> f32 { sum[a in 0..4000000000, b in 0..4000000000, c in 0..4000000000] 1.0 }
kernel scan(x: f32[n]) -> y: f32[n] { y[i] = sum[j in 0..i + 1000000000000000] 1.0; }
kernel arg(x: f32[n]) -> y: i64[n] { y[i] = argmax[j in 0..i + 1000000000000000] 1.0; }
kernel dims(k: i64, x: f32[n]) -> y: f32[k * n] { y[i] = 1.0; }
kernel square(x: f64[n]) -> y: f64[n] { let t[i, j] = exp(x[i] * x[j]); let u[i] = sum[l] t[i, l]; y[i] = sum[j] u[i] * t[j, i]; }
",
    );
    let run = |kernel: &str, inputs: &[&str]| {
        bounded(&place, &[&["run", "much.gk", "--device", "cpu", "--timeout", "3", "--kernel", kernel], inputs].concat())
    };
    run("terms", &["--in", "x=ones:3"]).expect(4, &["--timeout"]);
    for kernel in ["scan", "arg"] {
        let done = run(kernel, &["--in", "x=ones:3"]);
        assert!(done.status == 4 && (done.err.contains("no memory") || done.err.contains("--timeout")), "{kernel}: {done:#?}");
    }
    // A product that wraps to 4.
    let wraps = run("dims", &["--in", "x=ones:4", "--in", "k=4611686018427387905"]);
    wraps.expect(4, &["axis 0 of y leaves the 64-bit integers: k * n (k = 4611686018427387905, n = 4)"]);
    run("dims", &["--in", "x=ones:4", "--in", "k=2"]).expect(0, &["y: f32[8]"]);
    run("square", &["--in", "x=ones:100000"]).expect(4, &["no memory for `t`, which takes 74.5 GiB"]);
}

#[test]
fn files_that_are_no_programs() {
    let place = Place::new();
    place.file("empty.gk", "");
    place.file("mark.gk", "\u{feff}");
    place.file("utf16.gk", b"\xff\xfek\0e\0");
    fs::File::create(place.path("big.gk")).unwrap().set_len(5 << 20).unwrap();
    std::os::unix::fs::symlink("loop.gk", place.path("loop.gk")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", place.path("endless.gk")).unwrap();
    for (name, status, words) in [
        ("empty.gk", 0, "0 kernels"),
        ("mark.gk", 0, "0 kernels"),
        ("/dev/null", 0, "0 kernels"),
        ("utf16.gk", 1, "not UTF-8"),
        ("big.gk", 4, "more than 4 MiB"),
        ("endless.gk", 4, "more than 4 MiB"),
        ("loop.gk", 4, "can't be read"),
        (".", 4, "folder"),
        ("/proc/self/mem", 4, "can't be read"),
    ] {
        bounded(&place, &["check", name]).expect(status, &[words]);
        let formatted = bounded(&place, &["fmt", "--check", name]);
        assert!([0, 1, 4].contains(&formatted.status), "{name}: {formatted:#?}");
        let compiled = bounded(&place, &["compile", name]);
        assert!([1, 2, 4].contains(&compiled.status) && compiled.out.is_empty(), "{name}: {compiled:#?}");
    }
}

#[test]
fn outputs_in_odd_places() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    place.file("two.gk", "kernel two(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; z[i] = 2.0 * x[i]; }\n");
    place.file("x.npy", npy("<f4", "(3,)", &floats(&[1.0, 2.0, 3.0])));
    place.file("taken", "");
    let run = |options: &[&str]| place.run(&[&["run", "two.gk", "--device", "cpu", "--in", "x=x.npy"], options].concat());
    // Into its own input.
    run(&["--out", "z=x.npy"]).expect(0, &[]);
    assert!(fs::read(place.path("x.npy")).unwrap().ends_with(&floats(&[2.0, 4.0, 6.0])));
    // One file for two things, however it is spelled.
    for options in [
        &["--out", "y=o.npy", "--out", "z=o.npy"][..],
        &["--out", "y=o.npy", "--out", "z=./o.npy"],
        &["--out", "y=o.npy", "--stats", "o.npy"],
        &["--out", "y=x.npy", "--out", "z=./x.npy"],
    ] {
        run(options).expect(2, &["is to be written twice"]);
        assert!(!place.path("o.npy").exists());
    }
    run(&["--out", "y=/dev/null", "--out", "z=/dev/null"]).expect(0, &[]);
    for (file, why) in [
        ("/dev/full", "No space left"),
        ("taken/y.npy", "Not a directory"),
        (".", "it is a folder"),
        ("no/y.npy", "No such file"),
        ("/proc/y.npy", ""),
    ] {
        let done = run(&["--out", &format!("y={file}")]).expect(4, &["can't be written", why]);
        // The temporary file beside it is nobody's business.
        assert!(done.err.lines().count() == 1 && !done.err.contains(".gpukc-"), "{done:#?}");
    }
    for folder in ["scale.gk", "/dev/null"] {
        place.run(&["compile", "scale.gk", "-o", folder]).expect(4, &["is no folder"]);
    }
    place.run(&["compile", "scale.gk", "-o", "/proc"]).expect(4, &["can't be written"]);
    // Standard output that is full, or closed.
    for arguments in [&["compile", "scale.gk"][..], &["check", "scale.gk"], &["fmt", "-"], &["--help"], &["completions", "zsh"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let done = Done::from(place.command(arguments).stdout(full).output().unwrap());
        assert!(done.status == 4 || arguments == ["fmt", "-"], "{arguments:?}: {done:#?}");
    }
}

#[test]
fn pipes_as_inputs_and_outputs() {
    let place = Place::new();
    place.file("two.gk", "kernel two(x: f32[n]) -> y: f32[n] { y[i] = 2.0 * x[i]; }\n");
    for name in ["in", "out"] {
        assert!(Command::new("mkfifo").arg(place.path(name)).status().unwrap().success());
    }
    let arguments = ["run", "two.gk", "--device", "cpu", "--in", "x=in", "--out", "y=out"];
    let child = place.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    fs::File::options().write(true).open(place.path("in")).unwrap().write_all(&npy("<f4", "(2,)", &floats(&[1.0, 2.5]))).unwrap();
    assert!(fs::read(place.path("out")).unwrap().ends_with(&floats(&[2.0, 5.0])));
    Done::from(child.wait_with_output().unwrap()).expect(0, &[]);
    // A pipe that nobody writes to, and one that stops early.
    bounded(&place, &["run", "two.gk", "--device", "cpu", "--in", "x=in", "--timeout", "0.5"]).expect(4, &["--timeout"]);
    let child = place.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    fs::File::options().write(true).open(place.path("in")).unwrap().write_all(&npy("<f4", "(2,)", &[0; 5])).unwrap();
    Done::from(child.wait_with_output().unwrap()).expect(4, &["in", "8 bytes"]);
}

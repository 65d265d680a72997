//! Planted faults: each file of `tests/faults` holds one, and says at its head by which mode and in which words it is found.
//!
//! ```text
//! // mode: address        or thread, or plain
//! // grid: 2              blocks; 1 if nothing is said
//! // block: 64            threads of a block; 256 if nothing is said
//! // finds: heap          a part of the report; without it, the text is right and must pass
//! ```
//! Each file has one function `planted(const float* x, float* y, int n)`; x and y have n = 1024 elements, x[i] = i.

use std::fs;
use std::path::Path;

use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch};
use gpukc_dsl::call::{self, CallArgument};
use gpukc_dsl::program::{self, DimId, Parameter};
use gpukc_dsl::source::{Source, Span};
use gpukc_dsl::types::Type;
use gpukc_emulate::{Call, Emulator, Error, Mode};

const ELEMENTS: i64 = 1024;

fn kernel() -> program::Kernel {
    let source = Source::new("planted.gk", "kernel planted(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }");
    let program = gpukc_dsl::check(&source).program.expect("a program");
    program.kernels.into_iter().next().expect("a kernel")
}

fn asked<'t>(text: &'t str, what: &str) -> Option<&'t str> {
    let start = format!("// {what}: ");
    text.lines().find_map(|line| line.strip_prefix(start.as_str()))
}

fn planted(kernel: &program::Kernel, source: &str) -> Kernel {
    let number = |what, otherwise: i64| asked(source, what).map_or(otherwise, |text| text.parse().expect("a number"));
    let Parameter::Array(input) = kernel.parameters[0] else { panic!("an array") };
    let launch = Launch {
        entry: "planted".into(),
        grid: [number("grid", 1), 1, 1].map(Formula::from),
        block: [number("block", 256) as u32, 1, 1],
        striding: false,
        overlapping: false,
        cluster: number("cluster", 1) as u32,
        shared_bytes: 0,
        arguments: vec![
            Argument::Array(input),
            Argument::Array(kernel.results[0]),
            Argument::Size(Formula::Dim(DimId::new(0), "n".into()), Type::I32),
        ],
        span: Span::new(0, 0),
    };
    Kernel { name: "planted".into(), source: source.into(), scratch: Vec::new(), launches: vec![launch], sites: Vec::new() }
}

fn check(mode: Mode, name: &str) {
    let emulator = Emulator::with_mode(Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated"), mode).unwrap();
    let kernel = kernel();
    let bindings = call::bind(&kernel, &[CallArgument::Array { element: Type::F32, shape: &[ELEMENTS] }]).unwrap();
    let input: Vec<u8> = (0..ELEMENTS).flat_map(|i| (i as f32).to_ne_bytes()).collect();
    let mut files: Vec<_> =
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut texts = Vec::new();
    for path in files {
        let source = fs::read_to_string(&path).unwrap();
        if asked(&source, "mode") == Some(name) {
            texts.push((path, planted(&kernel, &source)));
        }
    }
    assert!(texts.len() > 2, "planted faults for mode {name}");
    let mut calls = Vec::new();
    for (_, text) in &texts {
        for order in [0, 1, 7] {
            calls.push(Call { order, ..Call::new(text, &kernel, &bindings, &[&input]) });
        }
    }
    let results = emulator.run_many(&calls);
    let mut wrong = Vec::new();
    for ((path, text), results) in texts.iter().zip(results.chunks(3)) {
        let file = path.file_name().unwrap().to_string_lossy();
        for (order, result) in ["ascending", "descending", "shuffled"].iter().zip(results) {
            match (asked(&text.source, "finds"), result) {
                (None, Ok(_)) => {}
                (Some(wanted), Err(Error::Fault(found) | Error::Contract(found))) if found.contains(wanted) => {}
                (wanted, Ok(_)) => wrong.push(format!("{file}, {order}: passes, {wanted:?} was to be found")),
                (wanted, Err(error)) => wrong.push(format!("{file}, {order}: {wanted:?} was to be found: {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn addresses_and_arithmetic() {
    check(Mode::Address, "address");
}

#[test]
fn races() {
    check(Mode::Thread, "thread");
}

#[test]
fn barriers_and_warps() {
    check(Mode::Plain, "plain");
}

#[test]
fn what_is_not_written_is_seen() {
    let emulator = Emulator::with_mode(Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated"), Mode::Address).unwrap();
    let kernel = kernel();
    let bindings = call::bind(&kernel, &[CallArgument::Array { element: Type::F32, shape: &[ELEMENTS] }]).unwrap();
    let input = vec![0; 4 * ELEMENTS as usize];
    let head = "extern \"C\" __global__ void planted(const float* x, float* y, int n) {\n    int i = threadIdx.x;\n";
    let run = |body: &str| emulator.run(&planted(&kernel, &format!("{head}{body}}}\n")), &kernel, &bindings, &[&input]).unwrap();
    let first = |results: Vec<Vec<u8>>| results[0][..4].to_vec();
    assert_eq!(first(run("    if (i > 0) y[i] = 1.0f;\n")), [0xcb; 4]);
    assert_eq!(first(run("    __shared__ float tile[256];\n    if (i > 0) tile[i] = 1.0f;\n    y[i] = tile[i];\n")), [0xff; 4]);
    assert_ne!(first(run("    float own[4];\n    own[1] = x[i];\n    y[i] = own[n & 3];\n")), [0; 4]);
}

#[test]
fn pages_guard_arrays() {
    let emulator = Emulator::with_mode(Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated"), Mode::Plain).unwrap();
    let kernel = kernel();
    let bindings = call::bind(&kernel, &[CallArgument::Array { element: Type::F32, shape: &[ELEMENTS] }]).unwrap();
    let input = vec![0; 4 * ELEMENTS as usize];
    // A page of data. Order 0 puts it next to the guard behind it, order 1 next to the one before; of odd size, with room aside.
    let run = |body: &str, order, aligned| {
        let head = "extern \"C\" __global__ void planted(const float* x, float* y, int n) {\n    int i = threadIdx.x;\n";
        let text = planted(&kernel, &format!("{head}    y[i] = y[i + n - 256] = 1.0f;\n{body}}}\n"));
        emulator.run_many(&[Call { order, aligned, ..Call::new(&text, &kernel, &bindings, &[&input]) }]).remove(0).map(|_| ())
    };
    let fault = |result: Result<(), Error>, with: &str| match result {
        Err(Error::Fault(said)) => assert!(said.contains(with), "{said}"),
        other => panic!("{other:?}, a fault was to be found: {with}"),
    };
    for aligned in [false, true] {
        assert_eq!(run("", 0, aligned), Ok(()));
        assert_eq!(run("", 1, aligned), Ok(()));
    }
    fault(run("    y[i] += x[n + (i & 3)];\n", 0, true), "signal");
    fault(run("    y[i] += x[(i & 3) - 4];\n", 1, true), "signal");
    fault(run("    y[n] = x[i];\n", 0, false), "beside an array");
    fault(run("    y[-1] = x[i];\n", 1, false), "beside an array");
}

#[test]
fn texts_that_do_not_compile_do_not_spoil_others() {
    let emulator = Emulator::with_mode(Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated"), Mode::Plain).unwrap();
    let kernel = kernel();
    let bindings = call::bind(&kernel, &[CallArgument::Array { element: Type::F32, shape: &[ELEMENTS] }]).unwrap();
    let input = vec![0; 4 * ELEMENTS as usize];
    let head = "extern \"C\" __global__ void planted(const float* x, float* y, int n)";
    let good = planted(&kernel, &format!("{head} {{ y[threadIdx.x] = x[0]; }}\n"));
    let bad = planted(&kernel, &format!("{head} {{ y[threadIdx.x] = z; }}\n"));
    let results = emulator.run_many(&[&good, &bad, &good].map(|text| Call::new(text, &kernel, &bindings, &[&input])));
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(matches!(&results[1], Err(Error::Build(said)) if said.contains("'z'")));
}

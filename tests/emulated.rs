//! The emitted text of every case on the CPU, unmodified, and the evaluator's results byte by byte: a trial a program of
//! `tests/cases` and `tests/emulated`, each with calls that are empty, one, odd, and just past the tiles of the schedules.
//!
//! For each call: the general text with arrays at any address, and the text for the call; for the calls that the header names
//! also the call's text with 64-bit indices; and all of these in the place of each parameter that the result may take the place
//! of. Pages guard the arrays; one call of each text whose threads share memory is run again with a race detector.
//! `GPUKC_EMULATE=address` watches every access and C++'s undefined arithmetic, which takes several times as long, and
//! `GPUKC_EMULATE=thread` looks for races in all calls, on fewer sizes: twenty minutes and more.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Case, Setting, TARGET, files, values};
use gpukc_codegen::{self as codegen, facts::Facts, kernel::Kernel as Text, target::Target};
use gpukc_cpu::{Argument, Options, RunError, Tensor};
use gpukc_dsl::call::Bindings;
use gpukc_dsl::program::{ArrayId, Kernel, Parameter, Program, in_place};
use gpukc_emulate::{Call, Emulator, Error, Mode};
use libtest_mimic::{Arguments, Failed, Trial};

/// Extents to try: around the packs, warps, tiles, blocks and levels that schedules are made of.
const SIZES: [i64; 17] = [0, 1, 3, 31, 32, 33, 64, 127, 129, 1000, 1023, 1025, 4095, 4097, 8192, 8193, 33000];
/// Extents of the other dimensions meanwhile.
const SMALL: [i64; 3] = [2, 5, 3];
/// Calls with more points are left to the GPU, unless the header or the list below names them.
const POINTS: i64 = 40_000;
/// The same for elements of one array, and for threads.
const ELEMENTS: i64 = 1_000_000;
const THREADS: u64 = 600_000;
/// Threads of a call that is run again with the race detector.
const MEETING: u64 = 4_096;

/// Calls that reach schedules for large extents.
const FURTHER: &[(&str, &str)] = &[
    ("matmul", "m=132 n=260 k=36"),
    ("matmul", "m=2048 n=1025 k=3"),
    ("matmul", "m=4 n=5 k=9000"),
    ("matmul_any", "m=132 n=68 k=20"),
    ("matmul_batched", "b=2 m=68 n=132 k=20"),
    ("matmul_scaled", "m=68 n=132 k=36"),
    ("linear", "m=68 n=132 k=36"),
    ("attention", "h=2 n=5 m=1100 d=4"),
    ("few_rows", "m=2 n=140000"),
    ("softmax", "m=1 n=140000"),
    ("column_sum", "m=5000 n=33"),
    ("permute", "a=17 b=16 c=33"),
    ("layernorm", "m=2 n=9000 eps=0.001"),
    ("scan", "n=600000"),
    ("softmax_clusters", "m=2 n=131071"),
    ("columns_clusters", "m=4500 n=33"),
];

/// An architecture with clusters of blocks. Its other texts are those of [`TARGET`].
const CLUSTERS: Target = Target { capability: 90, specific: true };

/// How many calls of how many texts were made.
static CALLS: AtomicUsize = AtomicUsize::new(0);
static TEXTS: AtomicUsize = AtomicUsize::new(0);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mode = match std::env::var("GPUKC_EMULATE").as_deref() {
        Ok("thread") => Mode::Thread,
        Ok("address") => Mode::Address,
        Ok("plain" | "") | Err(_) => Mode::Plain,
        Ok(other) => panic!("GPUKC_EMULATE={other}: address, thread or plain"),
    };
    let emulator = |mode| {
        let emulator = Emulator::with_mode(Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated"), mode);
        Arc::new(emulator.unwrap_or_else(|error| panic!("{error}")))
    };
    let racing = (mode == Mode::Plain).then(|| emulator(Mode::Thread));
    let emulator = emulator(mode);
    let mut trials = Vec::new();
    let further = files("tests/emulated", "gk");
    for case in Case::all().into_iter().chain(further.iter().map(|path| Case::read(path))) {
        let (emulator, racing) = (emulator.clone(), racing.clone());
        trials.push(Trial::test(case.name.clone(), move || same_bytes(&case, &emulator, mode, racing.as_deref())));
    }
    for (name, source, at) in reports() {
        let emulator = emulator.clone();
        trials.push(Trial::test(format!("report {name}"), move || same_report(source, at, &emulator)));
    }
    let ended = libtest_mimic::run(&arguments, trials).exit_code();
    eprintln!("{} calls of {} texts", CALLS.load(Ordering::Relaxed), TEXTS.load(Ordering::Relaxed));
    ended
}

/// The calls to make: those that the header names, then variations of the first. The flag: asked for by name.
fn settings(case: &Case, kernel: &Kernel, mode: Mode) -> Vec<(Setting, bool)> {
    let mut all: Vec<(Setting, bool)> = case.runs.iter().map(|run| (run.clone(), true)).collect();
    let further = FURTHER.iter().filter(|(name, _)| *name == case.name && mode != Mode::Thread);
    all.extend(further.map(|(_, text)| (Setting::parse(text), true)));
    let Some(base) = case.runs.first().or(case.shape.as_ref()) else { return all };
    let names: Vec<&str> = kernel.dims.iter().map(|(_, dim)| dim.name.as_str()).collect();
    let mut extents: Vec<Vec<i64>> = [0, 1, 3, 33].map(|size| vec![size; names.len()]).to_vec();
    let most = if mode == Mode::Thread { 1025 } else { i64::MAX };
    for place in 0..names.len() {
        for size in SIZES.into_iter().filter(|size| *size <= most) {
            let other = |other: usize| if other == place { size } else { SMALL[(other + place) % SMALL.len()] };
            extents.push((0..names.len()).map(other).collect());
        }
    }
    let mut seen = BTreeSet::new();
    for extents in extents {
        let points = extents.iter().fold(1i64, |points, extent| points.saturating_mul((*extent).max(1)));
        if names.is_empty() || points > POINTS || !seen.insert(extents.clone()) {
            continue;
        }
        all.push((varied(base, &names, &extents), false));
    }
    all
}

/// The setting with other extents; a limit of elements that is an extent remains that extent.
fn varied(base: &Setting, names: &[&str], extents: &[i64]) -> Setting {
    let mut setting = base.clone();
    for (name, extent) in names.iter().zip(extents) {
        let before = setting.values.insert((*name).to_owned(), *extent as f64);
        for (array, limit) in &base.below {
            if before == Some(*limit as f64) {
                setting.below.insert(array.clone(), *extent);
            }
        }
    }
    let values = setting.values.iter().map(|(name, value)| format!("{name}={value}"));
    setting.text = values.collect::<Vec<_>>().join(" ");
    setting
}

/// A call, its text, and what should come of it.
struct Prepared {
    what: String,
    text: Arc<Text>,
    in_place: Option<ArrayId>,
    aligned: bool,
    input: usize,
}

struct Input {
    bindings: Bindings,
    arrays: Vec<Tensor>,
    expected: Result<Vec<Tensor>, RunError>,
}

fn same_bytes(case: &Case, emulator: &Emulator, mode: Mode, racing: Option<&Emulator>) -> Result<(), Failed> {
    let program = case.program();
    let kernel = case.kernel(&program);
    let places: Vec<Option<ArrayId>> = std::iter::once(None).chain(in_place::in_place(kernel).into_iter().map(Some)).collect();
    let mut texts: Vec<Arc<Text>> = Vec::new();
    let mut inputs = Vec::new();
    let mut prepared = Vec::new();
    for (setting, named) in settings(case, kernel, mode) {
        let bindings = match setting.try_bind(kernel) {
            Ok(bindings) => bindings,
            Err(error) if named => return Err(error.into()),
            // A condition of the kernel excludes this size.
            Err(_) => continue,
        };
        let large = |extents: &Vec<i64>| extents.iter().fold(1i64, |n, extent| n.saturating_mul(*extent)) > ELEMENTS;
        if !named && bindings.extents.iter().any(large) {
            continue;
        }
        let arrays = setting.arrays(kernel, &bindings);
        let expected = evaluate(&program, kernel, &bindings, &arrays);
        let call = Facts::of_call(kernel, &bindings);
        let mut variants = vec![
            ("general", TARGET, Facts::default()),
            ("call's", TARGET, call.clone()),
            ("call's with clusters", CLUSTERS, call.clone()),
        ];
        if named {
            variants.push(("call's 64-bit", TARGET, Facts { narrow: false, aligned: false, ..call }));
        }
        let each = |variant| places.iter().map(move |place| (variant, *place));
        for ((what, target, facts), in_place) in variants.iter().flat_map(each) {
            let text = match compile(&program, kernel, *target, facts, in_place) {
                Ok(text) => text,
                Err(codegen::error::Error::Limit { .. }) if case.plan.contains_key("limit") => continue,
                Err(error) => return Err(format!("{}: {error}", setting.text).into()),
            };
            let known = texts.iter().find(|known| known.source == text.source && known.launches.len() == text.launches.len());
            let asks = Call::new(&text, kernel, &bindings, &[]).threads();
            if !named && asks > THREADS {
                continue;
            }
            if *target == CLUSTERS && known.is_some() {
                continue;
            }
            // Equal texts may have unequal contracts.
            let text = match known {
                Some(known) if format!("{:?}", known.launches) == format!("{:?}", text.launches) => known.clone(),
                _ => Arc::new(text),
            };
            texts.push(text.clone());
            let place = in_place.map_or(String::new(), |id| format!(" in place of `{}`", kernel.arrays[id].name));
            let what = format!("{}, the {what} text{place}", setting.text);
            prepared.push(Prepared { what, text, in_place, aligned: facts.aligned, input: inputs.len() });
        }
        inputs.push(Input { bindings, arrays, expected });
    }
    let distinct: BTreeSet<&str> = texts.iter().map(|text| &*text.source).collect();
    TEXTS.fetch_add(distinct.len(), Ordering::Relaxed);
    CALLS.fetch_add(prepared.len(), Ordering::Relaxed);
    let mut calls: Vec<Call> = Vec::new();
    for (number, prepared) in prepared.iter().enumerate() {
        let input = &inputs[prepared.input];
        calls.push(Call {
            text: &prepared.text,
            kernel,
            bindings: &input.bindings,
            inputs: input.arrays.iter().map(Tensor::bytes).collect(),
            in_place: prepared.in_place,
            aligned: prepared.aligned,
            order: number as u64 % 4,
        });
    }
    let mut results: Vec<_> = prepared.iter().zip(emulator.run_many(&calls)).collect();
    if let Some(racing) = racing {
        let some = where_threads_meet(&calls);
        let again: Vec<Call> = some.iter().map(|number| calls[*number].clone()).collect();
        results.extend(some.iter().map(|number| &prepared[*number]).zip(racing.run_many(&again)));
    }
    let mut wrong = Vec::new();
    for (prepared, result) in results {
        if let Err(message) = compare(kernel, &inputs[prepared.input].expected, result, false) {
            wrong.push(format!("{}: {message}", prepared.what));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{} of {} calls:\n{}", wrong.len(), prepared.len(), wrong[..wrong.len().min(4)].join("\n")).into())
}

/// Of each text whose threads share memory, the largest call that is small enough for the race detector.
fn where_threads_meet(calls: &[Call]) -> Vec<usize> {
    let mut some: Vec<usize> = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        let threads = call.threads();
        if !call.text.source.contains("__shared__") || threads > MEETING {
            continue;
        }
        match some.iter_mut().find(|other| calls[**other].text.source == call.text.source) {
            Some(other) if calls[*other].threads() < threads => *other = number,
            Some(_) => {}
            None => some.push(number),
        }
    }
    some
}

fn compile(
    program: &Program,
    kernel: &Kernel,
    target: Target,
    facts: &Facts,
    in_place: Option<ArrayId>,
) -> Result<Text, codegen::error::Error> {
    match (in_place, kernel.results.as_slice()) {
        (Some(parameter), &[result]) => codegen::compile_in_place(program, kernel, target, facts, parameter, result),
        _ => codegen::compile(program, kernel, target, facts),
    }
}

fn evaluate(program: &Program, kernel: &Kernel, bindings: &Bindings, arrays: &[Tensor]) -> Result<Vec<Tensor>, RunError> {
    let mut arrays = arrays.iter();
    let arguments: Vec<Argument> = kernel
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Scalar(_) => Argument::Scalar,
            Parameter::Array(_) => Argument::Array(arrays.next().expect("an array for each parameter")),
        })
        .collect();
    gpukc_cpu::run(program, kernel, bindings, &arguments, &Options::default())
}

/// Equal bytes, or equal reports. Of several indices that are out of range any may be reported, unless `exact`.
fn compare(
    kernel: &Kernel,
    expected: &Result<Vec<Tensor>, RunError>,
    found: Result<Vec<Vec<u8>>, Error>,
    exact: bool,
) -> Result<(), String> {
    match (expected, found) {
        (Ok(expected), Ok(found)) => {
            for ((&id, bytes), cpu) in kernel.results.iter().zip(&found).zip(expected) {
                let array = &kernel.arrays[id];
                if let Some(at) = values::difference(array.element, bytes, cpu.bytes()) {
                    let size = array.element.size();
                    let element = |bytes: &[u8]| {
                        bytes.get(at * size..(at + 1) * size).map_or("nothing".to_owned(), |bytes| values::text(array.element, bytes))
                    };
                    let (text, evaluator) = (element(bytes), element(cpu.bytes()));
                    return Err(format!("element {at} of `{}` is {text}, the evaluator's {evaluator}", array.name));
                }
            }
            Ok(())
        }
        (Err(expected), Err(Error::Index { kernel, site, index, extent })) => {
            let RunError::OutOfRange { kernel: k, span, array, index: i, axis, extent: e } = expected else {
                return Err(format!("reports an index, the evaluator: {expected}"));
            };
            let same = *k == kernel && *span == site.span && *array == site.array && *axis == site.axis && *e == extent && *i == index;
            let possible = *k == kernel && !(0..extent).contains(&index);
            let all = format!("reports {index} for axis {} of {}, extent {extent}; the evaluator: {expected}", site.axis, site.array);
            if same || possible && !exact { Ok(()) } else { Err(all) }
        }
        (Ok(_), Err(error)) => Err(error.to_string()),
        (Err(expected), Ok(_)) => Err(format!("gives results, the evaluator reports: {expected}")),
        (Err(expected), Err(error)) => Err(format!("{error}; the evaluator: {expected}")),
    }
}

/// Programs with indices that are data: a name, a text whose array `k` is for indices of 100 elements, and which of them is bad.
fn reports() -> Vec<(String, &'static str, (usize, i64))> {
    let programs = [
        ("gather", "kernel gather(x: f32[m], k: i32[n]) -> y: f32[n] { y[i] = x[k[i]]; }"),
        ("second axis", "kernel second(x: f32[3, m], k: i64[n]) -> y: f32[n] { y[i] = x[i % 3, k[i]]; }"),
        ("in a reduction", "kernel inside(x: f64[m], k: i32[n]) -> f64 { sum[i] x[k[i]] * x[k[i]] }"),
        ("accumulation", "kernel counts(x: f32[m], k: i32[n]) -> h: i64[m] { h[k[i]] += 1; }"),
        ("two launches", "kernel chain(x: f32[m], k: i32[n]) -> (y: f32[n], s: f32) { y[i] = x[k[i]]; s = sum[i] y[i]; }"),
    ];
    let mut all = Vec::new();
    for (name, source) in programs {
        for bad in [(0, 100), (777, -1), (1000, i64::from(i32::MAX)), (5, i64::from(i32::MIN))] {
            all.push((format!("{name} {}", bad.1), source, bad));
        }
    }
    all
}

fn same_report(source: &str, (at, bad): (usize, i64), emulator: &Emulator) -> Result<(), Failed> {
    let program = common::checked(&gpukc_dsl::source::Source::new("report.gk", source));
    let kernel = &program.kernels[0];
    let setting = Setting::parse("m=100 n=1001 k<100");
    let bindings = setting.try_bind(kernel)?;
    let mut arrays = setting.arrays(kernel, &bindings);
    let indices = arrays.last_mut().ok_or("no indices")?;
    let element = indices.element();
    let mut bytes = Vec::new();
    values::push(&mut bytes, element, values::Number { float: 0.0, integer: i128::from(bad) });
    indices.bytes_mut()[at * element.size()..(at + 1) * element.size()].copy_from_slice(&bytes);
    let expected = evaluate(&program, kernel, &bindings, &arrays);
    let inputs: Vec<&[u8]> = arrays.iter().map(Tensor::bytes).collect();
    for facts in [Facts::default(), Facts::of_call(kernel, &bindings)] {
        let text = codegen::compile(&program, kernel, TARGET, &facts).map_err(|error| error.to_string())?;
        compare(kernel, &expected, emulator.run(&text, kernel, &bindings, &inputs), true)?;
    }
    if expected.is_ok() { Err("the evaluator reports nothing".into()) } else { Ok(()) }
}

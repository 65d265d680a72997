//! Quotients by a value that many are divided by: the text's `divide_by` against the division of this machine, bit by bit.

use std::path::Path;

use gpukc_codegen::emit::library;
use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch};
use gpukc_dsl::call::{self, CallArgument};
use gpukc_dsl::program::{DimId, Parameter};
use gpukc_dsl::source::{Source, Span};
use gpukc_dsl::types::Type;
use gpukc_emulate::{Call, Emulator, Mode};

const PROGRAM: &str = "kernel quotients(x: TYPE[m, n], by: TYPE[m]) -> y: TYPE[m, n] { y[i, j] = x[i, j] / by[i]; }";

const TEXT: &str = r#"
extern "C" __global__ void quotients(const TYPE* x, const TYPE* by, TYPE* y, int n) {
    Divisor<TYPE> by_this = divisor(by[blockIdx.x]);
    for (int j = threadIdx.x; j < n; j += 32) y[blockIdx.x * n + j] = divide_by(x[blockIdx.x * n + j], by_this);
}
"#;

const DIVISORS: i64 = 4096;
const DIVIDENDS: i64 = 1024;

fn text(ty: &str, kernel: &gpukc_dsl::program::Kernel) -> Kernel {
    let [Parameter::Array(x), Parameter::Array(by)] = kernel.parameters[..] else { panic!("two arrays") };
    let own = TEXT.replace("TYPE", ty);
    let launch = Launch {
        entry: "quotients".into(),
        grid: [Formula::from(DIVISORS), 1.into(), 1.into()],
        block: [32, 1, 1],
        striding: false,
        overlapping: false,
        cluster: 1,
        shared_bytes: 0,
        arguments: vec![
            Argument::Array(x),
            Argument::Array(by),
            Argument::Array(kernel.results[0]),
            Argument::Size(Formula::Dim(DimId::new(1), "n".into()), Type::I32),
        ],
        span: Span::new(0, 0),
    };
    Kernel {
        name: "quotients".into(),
        source: (library::needed_by(&own) + &own).into(),
        scratch: Vec::new(),
        launches: vec![launch],
        sites: Vec::new(),
    }
}

/// Bit patterns: all of them at random, of one magnitude, and with few or nearly all bits of the significand set, where rounding is tightest.
fn patterns(count: i64, significand: u32, exponent_of_one: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    (0..count).map(move |number| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state ^ state >> 29;
        let fraction = random & ((1 << significand) - 1);
        let few = (random >> 40) % 16;
        let near_one = (exponent_of_one + (random >> 58) % 4) << significand;
        match number % 4 {
            0 => random,
            1 => near_one | fraction,
            2 => near_one | few,
            _ => near_one | ((1 << significand) - 1 - few),
        }
    })
}

fn check<const BYTES: usize>(
    element: Type,
    (gk, cuda): (&str, &str),
    bits: impl Fn(i64, u64) -> Vec<[u8; BYTES]>,
    divide: impl Fn([u8; BYTES], [u8; BYTES]) -> [u8; BYTES],
    is_nan: impl Fn([u8; BYTES]) -> bool,
) {
    let source = Source::new("quotients.gk", PROGRAM.replace("TYPE", gk));
    let program = gpukc_dsl::check(&source).program.expect("a program");
    let kernel = &program.kernels[0];
    let shapes: [&[i64]; 2] = [&[DIVISORS, DIVIDENDS], &[DIVISORS]];
    let arguments = shapes.map(|shape| CallArgument::Array { element, shape });
    let bindings = call::bind(kernel, &arguments).unwrap();
    let (x, by) = (bits(DIVISORS * DIVIDENDS, 1), bits(DIVISORS, 99));
    let emulator = Emulator::with_mode(Path::new(env!("CARGO_TARGET_TMPDIR")).join("division"), Mode::Plain).unwrap();
    let text = text(cuda, kernel);
    let (x_bytes, by_bytes) = (x.concat(), by.concat());
    let call = Call::new(&text, kernel, &bindings, &[&x_bytes, &by_bytes]);
    let found = emulator.run_many(&[call]).remove(0).unwrap();
    for (number, found) in found[0].chunks_exact(BYTES).enumerate() {
        let (a, b) = (x[number], by[number / DIVIDENDS as usize]);
        let (found, expected) = (<[u8; BYTES]>::try_from(found).unwrap(), divide(a, b));
        assert!(found == expected || is_nan(found) && is_nan(expected), "{a:?} / {b:?}: {found:?}, not {expected:?}");
    }
}

#[test]
fn quotients_of_floats() {
    let bits = |count, seed| patterns(count, 23, 126, seed).map(|bits| (bits as u32).to_ne_bytes()).collect();
    let divide = |a, b| (f32::from_ne_bytes(a) / f32::from_ne_bytes(b)).to_ne_bytes();
    check(Type::F32, ("f32", "float"), bits, divide, |x| f32::from_ne_bytes(x).is_nan());
}

#[test]
fn quotients_of_doubles() {
    let bits = |count, seed| patterns(count, 52, 1022, seed).map(u64::to_ne_bytes).collect();
    let divide = |a, b| (f64::from_ne_bytes(a) / f64::from_ne_bytes(b)).to_ne_bytes();
    check(Type::F64, ("f64", "double"), bits, divide, |x| f64::from_ne_bytes(x).is_nan());
}

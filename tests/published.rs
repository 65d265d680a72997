//! What blocks of a scan publish for each other, over more blocks than a test could launch whole: a warp stands for a block, an
//! element for its total. The exclusive scan of the totals is what stands before each block, in the order of scans.

use std::path::Path;

use gpukc_codegen::emit::library;
use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch, Scratch};
use gpukc_cpu::{self as cpu, Options};
use gpukc_dsl::call::{self, CallArgument};
use gpukc_dsl::program::{DimId, Parameter};
use gpukc_dsl::source::{Source, Span};
use gpukc_dsl::types::Type;
use gpukc_emulate::{Call, Emulator, Mode};

const PROGRAM: &str = "kernel before(x: TYPE[m, n]) -> y: TYPE[m, n] { y[i, j] = sum[k in 0..j] x[i, k]; }";

const TEXT: &str = r#"
extern "C" __global__ void before(const TYPE* x, TYPE* y, unsigned long long* published, int n) {
    __shared__ TYPE totals[128];
    int block = 0;
    if (threadIdx.x == 0) block = (int)take_ticket(published);
    block = lane_value(block, 0);
    TYPE zero = 0;
    if (threadIdx.x == 0) publish_block_total(published, block / n, n, block % n, x[block]);
    TYPE value = scan_before_block<3>(published, block / n, n, block % n, totals, zero, Sum());
    if (threadIdx.x == 0) y[block] = value;
}
"#;

/// Several groups of 4,096 blocks and a part of one; two scans of a group and one block; rows of 128 and their ends.
const EXTENTS: [(i64, i64); 5] = [(1, 13_000), (2, 4_097), (2, 4_096), (3, 257), (5, 128)];

fn text(ty: &str, kernel: &gpukc_dsl::program::Kernel, m: i64, n: i64) -> Kernel {
    let Parameter::Array(x) = kernel.parameters[0] else { panic!("an array") };
    let own = TEXT.replace("TYPE", ty);
    let words = 1 + 2 * m * (n + n / 32);
    let launch = Launch {
        entry: "before".into(),
        grid: [Formula::from(m * n), 1.into(), 1.into()],
        block: [32, 1, 1],
        striding: false,
        overlapping: false,
        cluster: 1,
        shared_bytes: 0,
        arguments: vec![
            Argument::Array(x),
            Argument::Array(kernel.results[0]),
            Argument::Scratch(0),
            Argument::Size(Formula::Dim(DimId::new(1), "n".into()), Type::I32),
        ],
        span: Span::new(0, 0),
    };
    let scratch = Scratch { name: "published".into(), bytes: Formula::from(8 * words), zeroed: true };
    Kernel {
        name: "before".into(),
        source: (library::needed_by(&own) + &own).into(),
        scratch: vec![scratch],
        launches: vec![launch],
        sites: Vec::new(),
    }
}

/// Numbers of many sizes and both signs, so that any other order of combination shows.
fn totals(count: i64) -> Vec<f64> {
    let step = |seed: &mut u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(((*seed >> 40) as f64 / (1 << 24) as f64 - 0.5) * f64::exp2(((*seed >> 8) % 12) as f64))
    };
    let mut seed = 1;
    std::iter::from_fn(|| step(&mut seed)).take(count as usize).collect()
}

fn check(element: Type, gk: &str, cuda: &str, bytes_of: impl Fn(f64) -> Vec<u8>) {
    let source = Source::new("before.gk", PROGRAM.replace("TYPE", gk));
    let program = gpukc_dsl::check(&source).program.expect("a program");
    let kernel = &program.kernels[0];
    let emulator = Emulator::with_mode(Path::new(env!("CARGO_TARGET_TMPDIR")).join("published"), Mode::Plain).unwrap();
    for (m, n) in EXTENTS {
        let bindings = call::bind(kernel, &[CallArgument::Array { element, shape: &[m, n] }]).unwrap();
        let input: Vec<u8> = totals(m * n).into_iter().flat_map(&bytes_of).collect();
        let tensor = cpu::Tensor::from_bytes(element, &[m, n], &input).unwrap();
        let expected = cpu::run(&program, kernel, &bindings, &[cpu::Argument::Array(&tensor)], &Options::default()).unwrap();
        let text = text(cuda, kernel, m, n);
        for order in [0, 7] {
            let call = Call { order, ..Call::new(&text, kernel, &bindings, &[&input]) };
            let found = emulator.run_many(&[call]).remove(0).unwrap();
            assert!(found[0] == expected[0].bytes(), "{gk}, {m} x {n}, order {order}");
        }
    }
}

#[test]
fn totals_of_one_word() {
    check(Type::F32, "f32", "float", |x| (x as f32).to_ne_bytes().to_vec());
}

#[test]
fn totals_of_two_words() {
    check(Type::F64, "f64", "double", |x| x.to_ne_bytes().to_vec());
}

//! On a machine with an NVIDIA GPU and NVRTC (feature `device`): launches, results, reports, times.

use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch, Scratch, Site};
use gpukc_codegen::target::Target;
use gpukc_dsl::arena::Id;
use gpukc_dsl::source::Span;
use gpukc_dsl::types::Type;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Compiler, Wanted};
use gpukc_runtime::device::{Device, Memory};
use gpukc_runtime::error::Error;
use gpukc_runtime::fatbin::{self, Entry};
use gpukc_runtime::launch::{Call, Method, Program, Scalar, Shape};
use gpukc_runtime::nvrtc::Form;

const SOURCE: &str = "extern \"C\" __global__ void first(const float* __restrict__ x, float* __restrict__ t, float a, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) t[i] += a * x[i];
}
extern \"C\" __global__ void second(const float* __restrict__ t, float* __restrict__ y, long long n, unsigned long long* report) {
    extern __shared__ float staged[];
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    staged[threadIdx.x] = i < n ? t[i] : 0.0f;
    __syncthreads();
    if (i < n) {
        y[i] = staged[threadIdx.x];
        if (t[i] < 0.0f && atomicCAS(report, 0ull, 1ull) == 0ull) { report[1] = 0; report[2] = (unsigned long long)-7ll; report[3] = n; }
    }
}
";

fn kernel() -> Kernel {
    let n = || Formula::Dim(Id::new(0), "n".into());
    let blocks = |threads: i64| [n().div_ceil(threads), 1.into(), 1.into()];
    Kernel {
        name: "scale".into(),
        source: SOURCE.into(),
        scratch: vec![Scratch { name: "t".into(), bytes: n().times(4), zeroed: true }],
        launches: vec![
            Launch {
                entry: "first".into(),
                grid: blocks(256),
                block: [256, 1, 1],
                cluster: 1,
                striding: false,
                overlapping: false,
                shared_bytes: 0,
                arguments: vec![
                    Argument::Array(Id::new(0)),
                    Argument::Scratch(0),
                    Argument::Scalar(Id::new(0)),
                    Argument::Size(n(), Type::I32),
                ],
                span: Span::new(0, 0),
            },
            Launch {
                entry: "second".into(),
                grid: blocks(128),
                block: [128, 1, 1],
                cluster: 1,
                striding: false,
                overlapping: false,
                shared_bytes: 64 << 10,
                arguments: vec![Argument::Scratch(0), Argument::Array(Id::new(1)), Argument::Size(n(), Type::I64), Argument::Report],
                span: Span::new(0, 0),
            },
        ],
        sites: vec![Site { array: "x".into(), axis: 0, span: Span::new(1, 2) }],
    }
}

fn call(n: i64, a: f32) -> Call {
    let shape = Shape { element: Type::F32, extents: vec![n] };
    Call {
        dims: vec![n],
        scalars: vec![Scalar { ty: Type::F32, bits: u64::from(a.to_bits()) }],
        arrays: vec![Some(shape.clone()), Some(shape)],
    }
}

fn load() -> Program {
    let device = Device::open(0).unwrap();
    let compiler = Compiler::new(Cache::off());
    let binary = compiler.compile(SOURCE, "scale", device.facts().target, Wanted::Binary, &[]).unwrap();
    Program::load(&device, &kernel(), &binary).unwrap()
}

fn names(_: Id<gpukc_dsl::program::Array>) -> String {
    "x".into()
}

#[test]
fn two_launches_with_scratch_and_report() {
    let program = load();
    for n in [0usize, 1, 127, 1000, 100_003] {
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let bytes: Vec<u8> = x.iter().flat_map(|value| value.to_le_bytes()).collect();
        for _ in 0..2 {
            let outcome = program.run(&call(n as i64, 3.0), &[(Id::new(0), &bytes)], &[Id::new(1)], &names).unwrap();
            let expected: Vec<u8> = x.iter().flat_map(|value| (value * 3.0).to_le_bytes()).collect();
            assert_eq!(outcome.results[0], expected);
        }
    }
    let error = program.run(&call(1, -3.0), &[(Id::new(0), &1f32.to_le_bytes())], &[Id::new(1)], &names).unwrap_err();
    assert!(matches!(error, Error::IndexOutOfRange { index: -7, extent: 1, .. }), "{error}");
    assert_eq!(program.resources().len(), 2);
}

#[test]
fn launches_are_timed_and_cheap() {
    let program = load();
    let bytes = vec![0u8; 4 * 1024];
    let call = call(1024, 1.0);
    let resident = program.upload(&call, &[(Id::new(0), &bytes)], &[Id::new(1)], &names).unwrap();
    let mut prepared = program.prepare(&call, &resident.arrays()).unwrap();
    let start = std::time::Instant::now();
    for _ in 0..200 {
        prepared.launch().unwrap();
    }
    let each = start.elapsed() / 200;
    prepared.finish().unwrap();
    println!("host time of a call of 2 launches and 2 fills: {each:?}");
    assert!(each.as_micros() < 40, "{each:?}");
    drop(prepared);
    let sets = [resident.duplicate().unwrap(), resident];
    let timing = program.rotation(&call, &sets).unwrap().time(Some(20)).unwrap();
    assert_eq!((timing.method, timing.milliseconds.len()), (Method::Graph, 20));
    assert!(timing.milliseconds.is_sorted() && timing.milliseconds[0] > 0.0, "{timing:?}");
}

#[test]
fn a_contract_that_the_text_breaks_is_noticed() {
    let device = Device::open(0).unwrap();
    let compiler = Compiler::new(Cache::off());
    let binary = compiler.compile(SOURCE, "scale", device.facts().target, Wanted::Binary, &[]).unwrap();
    let mut wrong = kernel();
    wrong.launches[0].arguments.push(Argument::Report);
    let result = Program::load(&device, &wrong, &binary).map(|_| ());
    // Drivers before 12.4 don't tell a function's parameters.
    if gpukc_runtime::driver::driver().unwrap().version().unwrap() >= (12, 4) {
        assert!(matches!(result, Err(Error::Bug(_))));
    }
    wrong = kernel();
    wrong.launches[1].shared_bytes = 1 << 20;
    assert!(matches!(Program::load(&device, &wrong, &binary), Err(Error::Limit { .. })));
}

#[test]
fn too_much_memory_names_the_arrays() {
    let program = load();
    let error = program.run(&call(1 << 50, 1.0), &[], &[Id::new(1)], &|_| "y".into()).unwrap_err();
    let Error::OutOfMemory { wanted, .. } = &error else { panic!("{error}") };
    assert_eq!(wanted[0].0, "`y`");
}

#[test]
fn a_container_of_several_architectures_is_loaded() {
    let compiler = Compiler::new(Cache::off());
    let device = Device::open(0).unwrap();
    let target = device.facts().target;
    let made = |wanted, target| compiler.compile(SOURCE, "scale", target, wanted, &[]).unwrap();
    let old = Target { capability: 75, specific: false };
    let (own, ptx, other) = (made(Wanted::Binary, target), made(Wanted::Ptx, old), made(Wanted::Binary, old));
    let entry = |form, target, binary: &'_ gpukc_runtime::compile::Binary| (form, target, binary.image.clone());
    let code = entry(Form::Cubin, target, &own);
    let (text, foreign) = (entry(Form::Ptx, old, &ptx), entry(Form::Cubin, old, &other));
    // The device's own code among others; and PTX alone, which the driver compiles.
    for parts in [vec![foreign.clone(), code.clone(), text.clone()], vec![code], vec![foreign, text.clone()], vec![text]] {
        let entries: Vec<Entry> = parts.iter().map(|(form, target, image)| Entry { form: *form, target: *target, image }).collect();
        let packed = gpukc_runtime::compile::Binary { image: fatbin::pack(&entries), form: Form::Cubin, ..own.clone() };
        let program = Program::load(&device, &kernel(), &packed).unwrap();
        let outcome = program.run(&call(1, 3.0), &[(Id::new(0), &2f32.to_le_bytes())], &[Id::new(1)], &names).unwrap();
        assert_eq!(outcome.results[0], 6f32.to_le_bytes());
    }
}

#[test]
fn plain_memory_serves_as_well() {
    let compiler = Compiler::new(Cache::off());
    let device = Device::open_with(0, Memory::Plain).unwrap();
    let binary = compiler.compile(SOURCE, "scale", device.facts().target, Wanted::Binary, &[]).unwrap();
    let program = Program::load(&device, &kernel(), &binary).unwrap();
    let outcome = program.run(&call(1, 3.0), &[(Id::new(0), &2f32.to_le_bytes())], &[Id::new(1)], &names).unwrap();
    assert_eq!(outcome.results[0], 6f32.to_le_bytes());
    let (free, total) = device.memory().unwrap();
    assert!(free <= total && total == device.facts().memory_bytes);
}

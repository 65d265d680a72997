//! A kernel of two launches for tests with the stand-ins, and running a test again in a process that meets them.
#![allow(dead_code)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch, Scratch, Site};
use gpukc_codegen::target::Target;
use gpukc_dsl::arena::Id;
use gpukc_dsl::source::Span;
use gpukc_dsl::types::Type;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Binary, Compiler, Wanted};
use gpukc_runtime::device::{Device, Memory};
use gpukc_runtime::error::Error;
use gpukc_runtime::launch::{Call, Outcome, Program, Scalar, Shape};

use crate::standin::{self, Driver};

pub const SOURCE: &str = "extern \"C\" __global__ void __launch_bounds__(256) first(
    float a,
    const float* __restrict__ x,
    float* __restrict__ t,
    int n
) {}
extern \"C\" __global__ void __launch_bounds__(128, 2) second(const float* __restrict__ t, float* __restrict__ y, long long n, unsigned long long* report) {}
";

pub fn kernel() -> Kernel {
    let n = || Formula::Dim(Id::new(0), "n".into());
    let launch = |entry: &str, threads: u32, shared_bytes: u32, arguments: Vec<Argument>, span: Span| Launch {
        entry: entry.into(),
        grid: [n().div_ceil(i64::from(threads)), 1.into(), 1.into()],
        block: [threads, 1, 1],
        cluster: 1,
        // The first one's blocks stride.
        striding: entry == "first",
        // The second may begin before the first has ended.
        overlapping: entry == "second",
        shared_bytes,
        arguments,
        span,
    };
    let (x, y) = (Argument::Array(Id::new(0)), Argument::Array(Id::new(1)));
    let first = vec![Argument::Scalar(Id::new(0)), x, Argument::Scratch(0), Argument::Size(n(), Type::I32)];
    let second = vec![Argument::Scratch(0), y, Argument::Size(n(), Type::I64), Argument::Report];
    Kernel {
        name: "scale".into(),
        source: SOURCE.into(),
        scratch: vec![Scratch { name: "t".into(), bytes: n().times(4), zeroed: true }],
        launches: vec![launch("first", 256, 0, first, Span::new(10, 20)), launch("second", 128, 64 << 10, second, Span::new(30, 40))],
        sites: vec![Site { array: "x".into(), axis: 0, span: Span::new(12, 13) }],
    }
}

pub fn call(n: i64) -> Call {
    let shape = Shape { element: Type::F32, extents: vec![n] };
    let scalars = vec![Scalar { ty: Type::F32, bits: u64::from(3f32.to_bits()) }];
    Call { dims: vec![n], scalars, arrays: vec![Some(shape.clone()), Some(shape)] }
}

pub fn compile(target: Target) -> Result<Binary, Error> {
    Compiler::new(Cache::off()).compile(SOURCE, "scale", target, Wanted::Binary, &[])
}

pub fn load(memory: Memory) -> Result<Program, Error> {
    let device = Device::open_with(0, memory)?;
    Program::load(&device, &kernel(), &compile(device.facts().target)?)
}

pub fn run(program: &Program, n: i64) -> Result<Outcome, Error> {
    let bytes = vec![7; 4 * n as usize];
    program.run(&call(n), &[(Id::new(0), &bytes)], &[Id::new(1)], &|id| ["x", "y"][id.index()].into())
}

/// Runs `body` in a process of its own that meets the stand-ins, under these settings; gives the driver's log. `test` is the
/// name of the test that calls this.
#[track_caller]
pub fn within(test: &str, which: Driver, settings: &[(&str, &str)], body: impl FnOnce()) -> String {
    if std::env::var_os("STANDIN_CHILD").is_some() {
        body();
        return String::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let output = child(test, which, settings, &log);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{settings:?}: {text}");
    assert!(text.contains("1 passed"), "{test} is not the name of a test: {text}");
    fs::read_to_string(log).unwrap_or_default()
}

fn child(test: &str, which: Driver, settings: &[(&str, &str)], log: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    standin::prepare(&mut command, which).env("STANDIN_CHILD", "1").env("STANDIN_LOG", log);
    command.envs(settings.iter().copied()).output().unwrap()
}

pub fn is_child() -> bool {
    std::env::var_os("STANDIN_CHILD").is_some()
}

/// Nothing is left on the device when the last of its users is gone.
#[track_caller]
pub fn nothing_is_left(log: &str) {
    assert_eq!(log.lines().last(), Some("release allocations=0 modules=0 streams=0 events=0"), "{log}");
}

//! `gpukc doctor`: one line per thing that a run on the GPU needs, what limits what, and what to do where something is missing.

use std::process::{Command, Stdio};

use gpukc_codegen::kernel::{Argument, Kernel, Launch};
use gpukc_codegen::target::Target;
use gpukc_dsl::arena::Id;
use gpukc_dsl::source::Span;
use gpukc_dsl::types::Type;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Binary, Compiler, Wanted};
use gpukc_runtime::device::{Device, Facts, Memory};
use gpukc_runtime::driver;
use gpukc_runtime::error::{Error, bytes_text};
use gpukc_runtime::launch::{Call, Program, Shape};
use gpukc_runtime::nvrtc::{Form, Nvrtc};

use crate::advice;
use crate::args::Doctor;
use crate::commands::cache::entries;
use crate::commands::version::of_nvrtc;
use crate::devices::{self, Asked};
use crate::failure::Failure;
use crate::output;

/// A kernel that any architecture takes.
pub const TRIAL: &str = "extern \"C\" __global__ void trial(int* x) { x[0] = 42; }\n";

/// What is missing and what to do about it.
type Trouble = (String, Option<String>);

/// What the lines so far told of something missing.
#[derive(Default)]
struct Report {
    missing: usize,
    /// For which GPU each thing is missing; for all of them.
    of_gpu: Vec<Option<u32>>,
}

impl Report {
    fn line(&mut self, name: &str, result: Result<String, Trouble>) {
        let text = match result {
            Ok(text) => format!("ok       {name}: {text}\n"),
            Err((text, help)) => {
                self.missing += 1;
                format!("missing  {name}: {text}{}\n", arrow(help))
            }
        };
        output::result(text);
    }
    /// What a run on this GPU, or on any, can't do without.
    fn needed(&mut self, gpu: Option<u32>, name: &str, result: Result<String, Trouble>) {
        if result.is_err() {
            self.of_gpu.push(gpu);
        }
        self.line(name, result);
    }
    /// What works, but not as well as it could.
    fn limit(&mut self, name: &str, text: String, help: &str) {
        output::result(format!("limit    {name}: {text}{}\n", arrow(Some(help.to_owned()))));
    }
}

fn arrow(help: Option<String>) -> String {
    help.map_or(String::new(), |help| format!("\n         → {help}"))
}

fn told(error: Error) -> Trouble {
    let help = error.help(&advice::DOCTOR);
    (error.to_string(), Some(help))
}

pub fn run(args: &Doctor) -> Result<(), Failure> {
    let asked = devices::parse(&args.device)?;
    let mut report = Report::default();
    let driver = driver::driver().and_then(|driver| Ok((driver.version()?, driver.device_count()?)));
    report.needed(
        None,
        "driver",
        driver.as_ref().map(|((major, minor), _)| format!("CUDA {major}.{minor}")).map_err(|error| told(error.clone())),
    );
    let count = driver.as_ref().map_or(0, |(_, count)| *count);
    let devices: Vec<Facts> = (0..count).filter_map(|ordinal| device(&mut report, ordinal)).collect();

    let compiler = Compiler::new(Cache::off());
    let located = compiler.located();
    let found = located.map(|located| format!("{} at {} (by {})", of_nvrtc(located), located.path.display(), located.origin));
    let is_found = found.is_ok();
    report.needed(None, "NVRTC", found.map_err(told));
    if is_found {
        match compiler.nvrtc() {
            Ok(nvrtc) => code(&mut report, &compiler, nvrtc, driver.ok().map(|(version, _)| version), &devices),
            Err(error) => report.needed(None, "architectures", Err(told(error))),
        }
    } else {
        report.line("python", python());
    }
    report.line("cache", cache());
    report.line("CPU", Ok(format!("{} threads; `run --device cpu` needs nothing of the above", threads())));
    verdict(&report, asked, &compiler)
}

/// What is missing is a failure where it keeps the device that was asked for from being used.
fn verdict(report: &Report, asked: Asked, compiler: &Compiler) -> Result<(), Failure> {
    if report.missing == 0 {
        return Ok(());
    }
    let are = if report.missing == 1 { "is" } else { "are" };
    let text =
        format!("{} of these {are} missing; `gpukc check`, `compile --emit cuda` and `run --device cpu` do without", report.missing);
    let wanted = match asked {
        Asked::Cpu => None,
        Asked::Cuda(ordinal) => Some(ordinal),
        // As a run does, which otherwise takes the CPU.
        Asked::Auto => devices::usable(0, compiler).is_ok().then_some(0),
    };
    let lacks = |wanted: u32| Facts::of(wanted).is_err() || report.of_gpu.iter().any(|gpu| gpu.is_none_or(|gpu| gpu == wanted));
    if wanted.is_some_and(lacks) {
        return Err(Failure::environment(text, None));
    }
    output::note(&format!("note: {text}"));
    Ok(())
}

fn device(report: &mut Report, ordinal: u32) -> Option<Facts> {
    let facts = Facts::of(ordinal);
    let shown = facts.as_ref().map(|facts| {
        let memory = bytes_text(facts.memory_bytes);
        format!("{} ({}), {} multiprocessors, {memory}", facts.name, facts.target, facts.multiprocessors)
    });
    report.needed(Some(ordinal), &format!("device cuda:{ordinal}"), shown.map_err(|error| told(error.clone())));
    facts.ok()
}

/// What NVRTC compiles for, what the driver takes of it, and a trial on each device.
fn code(report: &mut Report, compiler: &Compiler, nvrtc: &Nvrtc, driver: Option<(u32, u32)>, devices: &[Facts]) {
    let names: Vec<String> = nvrtc.architectures.iter().map(|capability| format!("sm_{capability}")).collect();
    report.line("architectures", Ok(names.join(" ")));
    if let Some((major, minor)) = driver.filter(|version| *version < nvrtc.version) {
        let text = format!("the driver knows CUDA {major}.{minor}, NVRTC is of CUDA {}", nvrtc.version_text());
        report.limit("driver and NVRTC", text, "PTX of so new an NVRTC will not load, nor will machine code of a later major version");
    }
    if devices.is_empty() {
        let trial = compiler.compile(TRIAL, "trial", Target { capability: 90, specific: false }, Wanted::Binary, &[]);
        report.needed(None, "compilation", trial.map(|binary| compiled(&binary)).map_err(told));
    }
    for facts in devices {
        let name = format!("code for cuda:{}", facts.ordinal);
        let trial = compiler.compile(TRIAL, "trial", facts.target, Wanted::Binary, &[]);
        let tried = trial.and_then(|binary| launch(facts.ordinal, &binary).map(|()| binary));
        let is_ptx = tried.as_ref().is_ok_and(|binary| binary.form == Form::Ptx);
        report.needed(Some(facts.ordinal), &name, tried.map(|binary| compiled(&binary) + "; loads and runs").map_err(told));
        if is_ptx {
            let text =
                format!("NVRTC {} does not know {}; the driver compiles PTX at every start", nvrtc.version_text(), facts.target);
            report.limit(&name, text, "a later NVRTC would give machine code");
        }
    }
}

fn compiled(binary: &Binary) -> String {
    format!("{} for {}, {:.0} ms", binary.form.name(), binary.architecture, binary.time.as_secs_f64() * 1e3)
}

/// Loads and runs the trial kernel.
fn launch(ordinal: u32, binary: &Binary) -> Result<(), Error> {
    let array = Id::new(0);
    let launch = Launch {
        entry: "trial".into(),
        grid: [1, 1, 1].map(Into::into),
        striding: false,
        overlapping: false,
        block: [1, 1, 1],
        cluster: 1,
        shared_bytes: 0,
        arguments: vec![Argument::Array(array)],
        span: Span::new(0, 0),
    };
    let kernel = Kernel { name: "trial".into(), source: TRIAL.into(), scratch: Vec::new(), launches: vec![launch], sites: Vec::new() };
    let device = Device::open_with(ordinal, Memory::Plain)?;
    let call = Call { arrays: vec![Some(Shape { element: Type::I32, extents: vec![1] })], ..Call::default() };
    Program::load(&device, &kernel, binary)?.run(&call, &[], &[array], &|_| "x".into()).map(drop)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

fn cache() -> Result<String, Trouble> {
    if Cache::switched_off() {
        return Ok("switched off by GPUKC_CACHE".to_owned());
    }
    let help =
        || Some("set GPUKC_CACHE_DIR to a folder of your own that can be written; without it every run compiles anew".to_owned());
    let cache = Cache::from_environment();
    let Some(folder) = cache.folder() else { return Err(("HOME is not set".to_owned(), help())) };
    let trouble = |error: std::io::Error| (format!("{} can't be used: {error}", folder.display()), help());
    cache.check().map_err(trouble)?;
    let list = cache.list(false).map_err(trouble)?;
    let total = list.iter().map(|listed| listed.bytes).sum();
    Ok(format!("{} ({}, {} of {})", folder.display(), entries(list.len()), bytes_text(total), bytes_text(cache.bound)))
}

/// `gpukc setup` needs it.
fn python() -> Result<String, Trouble> {
    let output = Command::new("python3").arg("--version").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        _ => Err(("python3 does not run".to_owned(), Some("`gpukc setup` needs it, to fetch NVRTC".to_owned()))),
    }
}

//! The stages behind the commands, each called in one place: plan and emit, compile, run on a device.

use std::time::{Duration, Instant};

use gpukc_codegen::error::Error as CodegenError;
use gpukc_codegen::facts::Facts;
use gpukc_codegen::kernel::{Kernel as Cuda, Site};
use gpukc_codegen::target::Target;
use gpukc_cpu::{Argument, Options, RunError, Tensor};
use gpukc_dsl::program::{ArrayId, Kernel, Program};
use gpukc_dsl::source::Source;
use gpukc_runtime::compile::{Binary, Compiler, Wanted};
use gpukc_runtime::device::{Device, Memory};
use gpukc_runtime::error::{Error, bytes_text};
use gpukc_runtime::launch::{self, Call};

use crate::failure::Failure;
use crate::inputs::{Inputs, Value};
use crate::output;
use crate::report;

/// The checked program's kernel as CUDA text.
pub fn cuda(program: &Program, kernel: &Kernel, target: Target, facts: &Facts, source: &Source) -> Result<Cuda, Failure> {
    gpukc_codegen::compile(program, kernel, target, facts).map_err(|error| refused(error, source))
}

/// Kernels of the checked program as one CUDA text, which each of them names. `lines`: whether it refers to the program's lines.
pub fn cuda_file(
    program: &Program,
    kernels: &[(&Kernel, Facts)],
    target: Target,
    lines: bool,
    source: &Source,
) -> Result<Vec<Cuda>, Failure> {
    gpukc_codegen::compile_file(program, kernels, target, lines.then_some(source)).map_err(|error| refused(error, source))
}

/// The text of a kernel whose result takes the place of a parameter.
pub fn cuda_in_place(
    program: &Program,
    (kernel, facts): &(&Kernel, Facts),
    target: Target,
    (parameter, result): (ArrayId, ArrayId),
    source: &Source,
) -> Result<Cuda, Failure> {
    gpukc_codegen::compile_in_place(program, kernel, target, facts, parameter, result).map_err(|error| refused(error, source))
}

/// Compiles CUDA text.
pub fn compile(compiler: &Compiler, cuda: &Cuda, target: Target, wanted: Wanted, extra: &[String]) -> Result<Binary, Failure> {
    compiler.compile(&cuda.source, &cuda.name, target, wanted, extra).map_err(Failure::from)
}

/// Says what is wrong with the cache, if something is.
pub fn warn(binary: &Binary) {
    if let Some(warning) = &binary.warning {
        output::note(&format!("warning: {warning}"));
    }
}

/// What is known of a call when its text is made.
pub fn facts(kernel: &Kernel, inputs: &Inputs) -> Facts {
    Facts::of_call(kernel, &inputs.bindings)
}

/// A kernel ready on a device.
pub struct Ready {
    pub program: launch::Program,
    pub binary: Binary,
    pub facts: Facts,
    pub plan_time: Duration,
    pub open_time: Duration,
    pub load_time: Duration,
}

/// Opens the device, makes the text, compiles and loads it.
pub fn ready(
    program: &Program,
    kernel: &Kernel,
    inputs: &Inputs,
    (ordinal, memory): (u32, Memory),
    compiler: &Compiler,
    source: &Source,
) -> Result<Ready, Failure> {
    let start = Instant::now();
    let device = Device::open_with(ordinal, memory)?;
    let opened = Instant::now();
    let target = device.facts().target;
    let facts = facts(kernel, inputs);
    let cuda = cuda(program, kernel, target, &facts, source)?;
    report::keep("kernel.cu", &cuda.source);
    let planned = Instant::now();
    let binary = compile(compiler, &cuda, target, Wanted::Binary, &[])?;
    warn(&binary);
    let compiled = Instant::now();
    let program = launch::Program::load(&device, &cuda, &binary).map_err(|error| Failure::runtime(&error, Some(source)))?;
    Ok(Ready { program, binary, facts, plan_time: planned - opened, open_time: opened - start, load_time: compiled.elapsed() })
}

/// The arrays' bytes, for the device.
pub fn bytes<'a>(kernel: &'a Kernel, inputs: &'a Inputs) -> Vec<(ArrayId, &'a [u8])> {
    inputs.arrays(kernel).map(|(id, tensor)| (id, tensor.bytes())).collect()
}

/// Runs on the GPU.
pub fn run_on_gpu(kernel: &Kernel, inputs: &Inputs, ready: &Ready, source: &Source) -> Result<(Vec<Tensor>, launch::Times), Failure> {
    let call = Call::new(kernel, &inputs.bindings);
    let names = |id: ArrayId| kernel.arrays[id].name.clone();
    let outcome = ready.program.run(&call, &bytes(kernel, inputs), &kernel.results, &names);
    let outcome = outcome.map_err(|mut error| {
        if let Error::OutOfMemory { memory: Some((free, _)), fits, .. } = &mut error {
            *fits = launch::fitting(kernel, ready.program.kernel(), &inputs.bindings, *free);
        }
        Failure::runtime(&error, Some(source))
    })?;
    let results = kernel.results.iter().zip(&outcome.results).map(|(&id, bytes)| tensor(kernel, inputs, id, bytes));
    Ok((results.collect::<Result<_, _>>()?, outcome.times))
}

/// A result by its bytes.
pub fn tensor(kernel: &Kernel, inputs: &Inputs, id: ArrayId, bytes: &[u8]) -> Result<Tensor, Failure> {
    let extents = &inputs.bindings.extents[id.index()];
    Tensor::from_bytes(kernel.arrays[id].element, extents, bytes)
        .ok_or_else(|| Failure::input(format!("no memory for result `{}`", kernel.arrays[id].name)))
}

/// Runs on the CPU.
pub fn run_on_cpu(program: &Program, kernel: &Kernel, inputs: &Inputs, source: &Source) -> Result<Vec<Tensor>, Failure> {
    let arguments: Vec<Argument> = inputs
        .values
        .iter()
        .map(|value| match value {
            Value::Array(tensor) => Argument::Array(tensor),
            Value::Scalar(_) => Argument::Scalar,
        })
        .collect();
    let results = gpukc_cpu::run(program, kernel, &inputs.bindings, &arguments, &Options::default());
    results.map_err(|error| match error {
        RunError::OutOfRange { kernel, span, array, index, axis, extent } => {
            let site = Site { array, axis, span };
            Failure::runtime(&Error::IndexOutOfRange { kernel, site, index, extent }, Some(source))
        }
        RunError::Memory { kernel, array, bytes } => {
            let bytes = bytes_text(u64::try_from(bytes).unwrap_or(u64::MAX));
            Failure::input(format!("kernel `{kernel}`: no memory for `{array}`, which takes {bytes}"))
        }
        RunError::Argument { .. } | RunError::Unsupported { .. } => Failure::bug(error.to_string()),
    })
}

/// Title and text of a diagnostic's code.
pub fn explanation(number: u16) -> Option<(&'static str, String)> {
    gpukc_dsl::diagnostic::codes::explain(number).map(|code| (code.title, code.full_text()))
}

/// All codes of diagnostics, with their titles, in order.
pub fn codes() -> impl Iterator<Item = (u16, &'static str)> {
    gpukc_dsl::diagnostic::codes::TABLE.iter().map(|code| (code.code, code.title))
}

/// The plan's text form.
pub fn plan(program: &Program, kernel: &Kernel, target: Target, facts: &Facts, source: &Source) -> Result<String, Failure> {
    let lowered = gpukc_codegen::plan(program, kernel, target, facts).map_err(|error| refused(error, source))?;
    Ok(gpukc_codegen::plan::print::print(&lowered.plan))
}

/// A program that checks and is not compiled.
fn refused(error: CodegenError, source: &Source) -> Failure {
    match error {
        CodegenError::Limit { message, span } => {
            let place = source.position(span.start as usize);
            Failure::unsupported(format!("{}:{}:{}: {message}", source.name(), place.line, place.column))
        }
        CodegenError::Bug(message) => Failure::bug_on_gpu(message),
    }
}

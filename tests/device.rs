//! Every case on the GPU and on the CPU, byte by byte (feature `device`): for each `run` of a case's header, the text made for
//! that call and the text that serves every call.

mod common;

use std::process::ExitCode;
use std::sync::Arc;

use common::{Case, Setting, on_cpu, values};
use gpukc_codegen::{self as codegen, error::Error, facts::Facts};
use gpukc_cpu::Tensor;
use gpukc_dsl::call::Bindings;
use gpukc_dsl::program::{ArrayId, Kernel, Parameter, Program};
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Compiler, Wanted};
use gpukc_runtime::device::Device;
use gpukc_runtime::launch::{self, Call};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let device = Device::open(0).unwrap_or_else(|error| panic!("{error}"));
    let compiler = Arc::new(Compiler::new(Cache::off()));
    let mut trials = Vec::new();
    for case in Case::all() {
        let case = Arc::new(case);
        for run in case.runs.clone() {
            let (case, device, compiler) = (case.clone(), device.clone(), compiler.clone());
            trials.push(Trial::test(format!("{} {}", case.name, run.text), move || same_bytes(&case, &run, &device, &compiler)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn same_bytes(case: &Case, run: &Setting, device: &Device, compiler: &Compiler) -> Result<(), Failed> {
    let program = case.program();
    let kernel = case.kernel(&program);
    let bindings = run.bind(kernel);
    let arrays = run.arrays(kernel, &bindings);
    let expected = on_cpu(&program, kernel, &bindings, &arrays)?;
    for (facts, what) in [(Facts::of_call(kernel, &bindings), "the call's text"), (Facts::default(), "the general text")] {
        let found = match on_gpu(&program, kernel, &bindings, &arrays, &facts, device, compiler) {
            Err(Problem::Limit(_)) if case.plan.contains_key("limit") => continue,
            Err(Problem::Limit(message) | Problem::Other(message)) => return Err(format!("{what}: {message}").into()),
            Ok(found) => found,
        };
        for ((&id, bytes), cpu) in kernel.results.iter().zip(&found).zip(&expected) {
            let array = &kernel.arrays[id];
            if let Some(at) = values::difference(array.element, bytes, cpu.bytes()) {
                let element = |bytes: &[u8]| {
                    let size = array.element.size();
                    bytes.get(at * size..(at + 1) * size).map_or("nothing".to_owned(), |bytes| values::text(array.element, bytes))
                };
                let (gpu, cpu) = (element(bytes), element(cpu.bytes()));
                return Err(format!("{what}: element {at} of `{}` is {gpu} on the GPU, {cpu} on the CPU", array.name).into());
            }
        }
    }
    Ok(())
}

enum Problem {
    Limit(String),
    Other(String),
}

fn on_gpu(
    program: &Program,
    kernel: &Kernel,
    bindings: &Bindings,
    arrays: &[Tensor],
    facts: &Facts,
    device: &Device,
    compiler: &Compiler,
) -> Result<Vec<Vec<u8>>, Problem> {
    let target = device.facts().target;
    let cuda = codegen::compile(program, kernel, target, facts).map_err(|error| match error {
        Error::Limit { .. } => Problem::Limit(error.to_string()),
        Error::Bug(_) => Problem::Other(error.to_string()),
    })?;
    let trouble = |error: gpukc_runtime::error::Error| Problem::Other(error.to_string());
    let binary = compiler.compile(&cuda.source, &cuda.name, target, Wanted::Binary, &[]).map_err(trouble)?;
    let loaded = launch::Program::load(device, &cuda, &binary).map_err(trouble)?;
    let ids = kernel.parameters.iter().filter_map(|parameter| match *parameter {
        Parameter::Array(id) => Some(id),
        Parameter::Scalar(_) => None,
    });
    let inputs: Vec<(ArrayId, &[u8])> = ids.zip(arrays).map(|(id, tensor)| (id, tensor.bytes())).collect();
    let names = |id: ArrayId| kernel.arrays[id].name.clone();
    let outcome = loaded.run(&Call::new(kernel, bindings), &inputs, &kernel.results, &names).map_err(trouble)?;
    Ok(outcome.results)
}

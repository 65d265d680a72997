//! The same bits: the evaluator under different circumstances, and results of different devices.

use gpukc_codegen::facts::Facts;
use gpukc_cpu::{Argument, Lanes, Options, RunError, Tensor};
use gpukc_dsl::program::{Kernel, Parameter, Program};
use gpukc_dsl::types::Type;
use half::{bf16, f16};

use crate::draw::Call;

/// What the evaluator gives.
pub type Evaluated = Result<Vec<Tensor>, RunError>;

/// Runs the evaluator.
pub fn evaluate(program: &Program, kernel: &Kernel, call: &Call, options: &Options) -> Evaluated {
    let mut arrays = call.arrays.iter();
    let arguments: Vec<Argument> = kernel
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Scalar(_) => Argument::Scalar,
            Parameter::Array(_) => arrays.next().map_or(Argument::Scalar, Argument::Array),
        })
        .collect();
    gpukc_cpu::run(program, kernel, &call.bindings, &arguments, options)
}

/// Says how two runs of the evaluator differ. Of several indices out of range, any may be reported.
pub fn same(kernel: &Kernel, a: &Evaluated, b: &Evaluated) -> Result<(), String> {
    match (a, b) {
        (Ok(a), Ok(b)) => {
            let b: Vec<&[u8]> = b.iter().map(Tensor::bytes).collect();
            same_bytes(kernel, a, &b)
        }
        (Err(RunError::OutOfRange { .. }), Err(RunError::OutOfRange { .. })) => Ok(()),
        (Err(a), Err(b)) if a == b => Ok(()),
        (a, b) => {
            let text = |r: &Evaluated| r.as_ref().map_or_else(ToString::to_string, |_| "results".to_owned());
            Err(format!("{}; the other: {}", text(a), text(b)))
        }
    }
}

/// Says where results differ: the first element, with both values and their bits.
pub fn same_bytes(kernel: &Kernel, expected: &[Tensor], found: &[&[u8]]) -> Result<(), String> {
    if expected.len() != found.len() {
        return Err(format!("{} results, {} expected", found.len(), expected.len()));
    }
    for ((&id, expected), found) in kernel.results.iter().zip(expected).zip(found) {
        let array = &kernel.arrays[id];
        if let Some(at) = difference(array.element, expected.bytes(), found) {
            let size = array.element.size();
            let element =
                |bytes: &[u8]| bytes.get(at * size..(at + 1) * size).map_or("nothing".to_owned(), |b| text(array.element, b));
            let count = expected.bytes().chunks(size).zip(found.chunks(size)).filter(|(a, b)| a != b).count();
            let (reference, other) = (element(expected.bytes()), element(found));
            return Err(format!(
                "element {at} of `{}` {:?} is {other}, the evaluator's {reference} ({count} differ)",
                array.name,
                expected.shape()
            ));
        }
    }
    Ok(())
}

/// The first element in which two arrays of a type differ, NaNs aside.
pub fn difference(element: Type, a: &[u8], b: &[u8]) -> Option<usize> {
    let size = element.size();
    if a.len() != b.len() {
        return Some(a.len().min(b.len()) / size);
    }
    if a == b {
        return None;
    }
    a.chunks(size).zip(b.chunks(size)).position(|(a, b)| a != b && !(is_nan(element, a) && is_nan(element, b)))
}

fn bits(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

fn float(element: Type, bytes: &[u8]) -> Option<f64> {
    let bits = bits(bytes);
    match element {
        Type::F16 => Some(f16::from_bits(bits as u16).to_f64()),
        Type::Bf16 => Some(bf16::from_bits(bits as u16).to_f64()),
        Type::F32 => Some(f64::from(f32::from_bits(bits as u32))),
        Type::F64 => Some(f64::from_bits(bits)),
        _ => None,
    }
}

fn is_nan(element: Type, bytes: &[u8]) -> bool {
    float(element, bytes).is_some_and(f64::is_nan)
}

/// An element's value and bits.
pub fn text(element: Type, bytes: &[u8]) -> String {
    let shift = 64 - 8 * bytes.len() as u32;
    match float(element, bytes) {
        Some(value) => format!("{value:e} ({:#x})", bits(bytes)),
        None if element.is_signed() => ((bits(bytes) << shift) as i64 >> shift).to_string(),
        None => bits(bytes).to_string(),
    }
}

/// The evaluator against itself: threads, ways for lanes to run, and the kernel after codegen's rewritings. Gives its results.
pub fn against_itself(program: &Program, kernel: &Kernel, call: &Call) -> Result<Evaluated, String> {
    let one = evaluate(program, kernel, call, &Options { threads: 1, ..Options::default() });
    let variants = [
        ("two threads", Options { threads: 2, ..Options::default() }),
        ("lanes along terms", Options { threads: 1, lanes: Lanes::Terms, width: 0 }),
        ("lanes along outputs", Options { threads: 1, lanes: Lanes::Outputs, width: 0 }),
    ];
    for (what, options) in variants {
        let other = evaluate(program, kernel, call, &options);
        same(kernel, &one, &other).map_err(|error| format!("evaluator, {what}: {error}"))?;
    }
    let mut last: Option<Kernel> = None;
    for (what, facts) in [("general", Facts::default()), ("call's", Facts::of_call(kernel, &call.bindings))] {
        let mut rewritten = kernel.clone();
        gpukc_codegen::passes::run(&mut rewritten, &facts, |_, _| {});
        let text = |kernel: &Kernel| format!("{:?} {:?}", kernel.statements, kernel.exprs);
        if last.as_ref().is_some_and(|last| text(last) == text(&rewritten)) {
            continue;
        }
        // New arrays have extents of their own.
        let known = call.bindings.clone();
        let bindings = crate::draw::bind(&rewritten, &known).ok_or_else(|| format!("the {what} rewritten kernel refuses the call"))?;
        let other = Call { bindings, arrays: call.arrays.clone() };
        let found = evaluate(program, &rewritten, &other, &Options { threads: 1, ..Options::default() });
        same(kernel, &one, &found).map_err(|error| format!("after the {what} rewritings: {error}"))?;
        last = Some(rewritten);
    }
    Ok(one)
}

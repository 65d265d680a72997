//! The same bits: the evaluator under different circumstances, and results of different devices.

use std::collections::BTreeSet;

use gpukc_codegen::facts::Facts;
use gpukc_cpu::{Argument, Lanes, Options, RunError, Tensor};
use gpukc_dsl::program::{ArrayId, Kernel, Parameter, Program};
use gpukc_dsl::types::Type;
use half::{bf16, f16};

use crate::draw::Call;
use crate::licence::TOLERANCE;

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
    same_results(kernel, expected, found, &BTreeSet::new())
}

/// As [`same_bytes`], but of the licensed arrays floats may be apart by [`TOLERANCE`], and the rest may be anything.
pub fn same_results(kernel: &Kernel, expected: &[Tensor], found: &[&[u8]], licensed: &BTreeSet<ArrayId>) -> Result<(), String> {
    if expected.len() != found.len() {
        return Err(format!("{} results, {} expected", found.len(), expected.len()));
    }
    for ((&id, expected), found) in kernel.results.iter().zip(expected).zip(found) {
        let array = &kernel.arrays[id];
        let differs: &dyn Fn(&[u8], &[u8]) -> bool = if licensed.contains(&id) {
            let margin = TOLERANCE * largest(array.element, expected.bytes());
            &move |a, b| is_apart(array.element, a, b, margin)
        } else {
            &|a, b| a != b && !(is_nan(array.element, a) && is_nan(array.element, b))
        };
        let size = array.element.size();
        let (reference, found) = (expected.bytes(), *found);
        if reference == found {
            continue;
        }
        if reference.len() != found.len() {
            return Err(format!("`{}` has {} bytes, the evaluator's {}", array.name, found.len(), reference.len()));
        }
        let pairs = || reference.chunks(size).zip(found.chunks(size));
        if let Some((at, (a, b))) = pairs().enumerate().find(|(_, (a, b))| differs(a, b)) {
            let count = pairs().filter(|(a, b)| differs(a, b)).count();
            let (element, place) = (array.element, place(expected.shape(), at));
            let (a, b) = (text(element, a), text(element, b));
            return Err(format!("{}{place} is {b}, the evaluator's {a} ({count} of {} differ)", array.name, expected.len()));
        }
    }
    Ok(())
}

/// An element's place: `[2, 17]`.
fn place(shape: &[i64], at: usize) -> String {
    let mut rest = at as i64;
    let mut indices: Vec<String> = Vec::new();
    for extent in shape.iter().rev() {
        indices.push((rest % extent.max(&1)).to_string());
        rest /= extent.max(&1);
    }
    indices.reverse();
    if indices.is_empty() { String::new() } else { format!("[{}]", indices.join(", ")) }
}

/// The largest finite magnitude; of what is no float, 0.
fn largest(element: Type, bytes: &[u8]) -> f64 {
    let values = bytes.chunks(element.size()).filter_map(|bytes| float(element, bytes));
    values.map(f64::abs).filter(|value| value.is_finite()).fold(0.0, f64::max)
}

/// Whether floats are further apart than they may be. What is not finite in the reference, or no float, may be anything.
fn is_apart(element: Type, reference: &[u8], other: &[u8], margin: f64) -> bool {
    match (float(element, reference), float(element, other)) {
        (Some(reference), Some(other)) if reference.is_finite() => other.is_nan() || (reference - other).abs() > margin,
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use gpukc_dsl::source::Source;

    use super::*;

    fn kernel(text: &str) -> Kernel {
        gpukc_dsl::check(&Source::new("test.gk", text)).program.map(|p| p.kernels[0].clone()).expect("a program")
    }

    fn compare(text: &str, expected: &[f32], found: &[f32], licensed: bool) -> Result<(), String> {
        let kernel = kernel(text);
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
        let expected = Tensor::from_bytes(Type::F32, &[expected.len() as i64], &bytes(expected)).expect("a tensor");
        let licensed = if licensed { kernel.results.iter().copied().collect() } else { BTreeSet::new() };
        same_results(&kernel, &[expected], &[&bytes(found)], &licensed)
    }

    const COPY: &str = "kernel copy(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }";

    #[test]
    fn bits_count() {
        let other_nan = f32::from_bits(0xffc0_1234);
        assert_eq!(compare(COPY, &[1.0, f32::NAN], &[1.0, other_nan], false), Ok(()));
        let zeros = compare(COPY, &[1.0, 0.0], &[1.0, -0.0], false);
        assert_eq!(zeros, Err("y[1] is -0e0 (0x80000000), the evaluator's 0e0 (0x0) (1 of 2 differ)".to_owned()));
        assert!(compare(COPY, &[1.0, 2.0], &[1.0], false).is_err_and(|e| e.contains("4 bytes, the evaluator's 8")));
    }

    #[test]
    fn licences_allow_a_little() {
        assert_eq!(compare(COPY, &[100.0, 0.0], &[100.1, 0.2], true), Ok(()));
        assert!(compare(COPY, &[100.0, 0.0], &[100.0, 0.5], true).is_err_and(|e| e.starts_with("y[1] is 5e-1")));
        assert!(compare(COPY, &[1.0], &[f32::NAN], true).is_err());
        assert!(compare(COPY, &[1.0], &[f32::INFINITY], true).is_err());
        assert_eq!(compare(COPY, &[f32::INFINITY], &[3.0e38], true), Ok(()));
    }
}

//! Running gk texts in tests.
#![allow(dead_code)]

use gpukc_cpu::{Argument, Element, Lanes, Options, RunError, Tensor};
use gpukc_dsl::call::{CallArgument, bind};
use gpukc_dsl::program::{Literal, Program};
use gpukc_dsl::source::Source;
use gpukc_dsl::types::Type;

/// A checked program; panics with the problems otherwise.
pub fn program(text: &str) -> Program {
    let source = Source::new("test.gk", text);
    let checked = gpukc_dsl::check(&source);
    let problems: Vec<&str> = checked.problems.iter().map(|problem| problem.message.as_str()).collect();
    checked.program.unwrap_or_else(|| panic!("{text}\n{problems:#?}"))
}

/// What a test gives.
pub enum Given {
    Scalar(Literal),
    Array(Tensor),
}
impl From<f64> for Given {
    fn from(value: f64) -> Given {
        Given::Scalar(Literal::Float(value))
    }
}
impl From<i64> for Given {
    fn from(value: i64) -> Given {
        Given::Scalar(Literal::Int(value.into()))
    }
}
impl From<Tensor> for Given {
    fn from(value: Tensor) -> Given {
        Given::Array(value)
    }
}
impl From<Vec<f32>> for Given {
    fn from(value: Vec<f32>) -> Given {
        Given::Array(value.into())
    }
}
impl From<Vec<f64>> for Given {
    fn from(value: Vec<f64>) -> Given {
        Given::Array(value.into())
    }
}
impl From<Vec<i32>> for Given {
    fn from(value: Vec<i32>) -> Given {
        Given::Array(value.into())
    }
}
impl From<Vec<i64>> for Given {
    fn from(value: Vec<i64>) -> Given {
        Given::Array(value.into())
    }
}

/// An array of a shape.
pub fn array<T: Element>(element: Type, shape: &[i64], values: Vec<T>) -> Given {
    Given::Array(Tensor::new(element, shape, values))
}

pub fn run_with(program: &Program, given: &[Given], options: &Options) -> Result<Vec<Tensor>, RunError> {
    let kernel = program.kernels.last().expect("a kernel");
    let shapes: Vec<CallArgument> = given
        .iter()
        .map(|given| match given {
            Given::Scalar(value) => CallArgument::Scalar(*value),
            Given::Array(tensor) => CallArgument::Array { element: tensor.element(), shape: tensor.shape() },
        })
        .collect();
    let bindings = bind(kernel, &shapes).unwrap_or_else(|error| panic!("{error}"));
    let arguments: Vec<Argument> = given
        .iter()
        .map(|given| match given {
            Given::Scalar(_) => Argument::Scalar,
            Given::Array(tensor) => Argument::Array(tensor),
        })
        .collect();
    gpukc_cpu::run(program, kernel, &bindings, &arguments, options)
}

/// Every way to run: they must agree to the last bit.
pub fn ways() -> Vec<Options> {
    let mut ways = Vec::new();
    for lanes in [Lanes::Auto, Lanes::Terms, Lanes::Outputs] {
        for (threads, width) in [(1, 0), (3, 0), (1, 7), (2, 64)] {
            ways.push(Options { threads, lanes, width });
        }
    }
    ways
}

/// Runs the last kernel of a text in every way.
pub fn try_run(text: &str, given: &[Given]) -> Result<Vec<Tensor>, RunError> {
    let program = program(text);
    let mut first: Option<Result<Vec<Tensor>, RunError>> = None;
    for way in ways() {
        let result = run_with(&program, given, &way);
        match &first {
            None => first = Some(result),
            Some(first) => match (first, &result) {
                (Ok(a), Ok(b)) => {
                    for (a, b) in a.iter().zip(b) {
                        assert!(same(a, b), "{text}\n{way:?}\n{:?}\n{:?}", head(a), head(b));
                    }
                }
                (Err(RunError::OutOfRange { .. }), Err(RunError::OutOfRange { .. })) => {}
                (a, b) => assert_eq!(a, b, "{text}\n{way:?}"),
            },
        }
    }
    first.expect("a way")
}

pub fn run(text: &str, given: &[Given]) -> Vec<Tensor> {
    try_run(text, given).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn head(tensor: &Tensor) -> Vec<u8> {
    tensor.bytes().iter().copied().take(64).collect()
}

/// Bit by bit, but any NaN is like any other.
pub fn same(a: &Tensor, b: &Tensor) -> bool {
    let floats = |tensor: &Tensor| -> Option<Vec<u64>> {
        let nan = |bits: u64, nan: bool| if nan { u64::MAX } else { bits };
        match tensor.element() {
            Type::F32 => Some(tensor.values::<f32>().iter().map(|v| nan(v.to_bits().into(), v.is_nan())).collect()),
            Type::F64 => Some(tensor.values::<f64>().iter().map(|v| nan(v.to_bits(), v.is_nan())).collect()),
            _ => None,
        }
    };
    a.shape() == b.shape() && a.element() == b.element() && floats(a) == floats(b) && {
        a.element().is_float() || a.bytes() == b.bytes()
    }
}

/// Numbers between −1 and 1 that look random.
pub fn noise(n: usize, seed: u64) -> Vec<f32> {
    noise64(n, seed).into_iter().map(|x| x as f32).collect()
}

pub fn noise64(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
        .collect()
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

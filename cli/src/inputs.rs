//! `--in NAME=SOURCE`: what the command line gives for a kernel's parameters.

use std::path::Path;

use gpukc_cli::npy;
use gpukc_cli::tensor::{kind, lacking};
use gpukc_cpu::Tensor;
use gpukc_dsl::call::{self, Bindings, CallArgument};
use gpukc_dsl::program::{ArrayId, Kernel, Literal, Parameter};
use gpukc_dsl::source::Source;
use gpukc_dsl::types::Type;
use gpukc_runtime::error::bytes_text;

use crate::failure::Failure;
use crate::generate;

/// A parameter's value.
pub enum Value {
    Scalar(Literal),
    Array(Tensor),
}

/// All parameters' values, in their order, and what follows from them.
pub struct Inputs {
    pub values: Vec<Value>,
    pub bindings: Bindings,
}

impl Inputs {
    /// The arrays, with their handles.
    pub fn arrays<'a>(&'a self, kernel: &'a Kernel) -> impl Iterator<Item = (ArrayId, &'a Tensor)> {
        kernel.parameters.iter().zip(&self.values).filter_map(|pair| match pair {
            (Parameter::Array(id), Value::Array(tensor)) => Some((*id, tensor)),
            _ => None,
        })
    }
}

fn name_of(kernel: &Kernel, parameter: Parameter) -> &str {
    match parameter {
        Parameter::Scalar(id) => &kernel.scalars[id].name,
        Parameter::Array(id) => &kernel.arrays[id].name,
    }
}

/// The parameter as it is declared, and a source that would serve it.
fn example(kernel: &Kernel, parameter: Parameter) -> String {
    match parameter {
        Parameter::Scalar(id) => {
            let scalar = &kernel.scalars[id];
            let value = match scalar.ty {
                Type::Bool => "true",
                ty if ty.is_float() => "2.5",
                _ => "3",
            };
            format!("--in {}={value}", scalar.name)
        }
        Parameter::Array(id) => {
            let array = &kernel.arrays[id];
            let extent = |&shape| match call::evaluate(kernel, &Bindings::default(), shape) {
                Some(Literal::Int(extent)) => extent.to_string(),
                _ => "64".to_owned(),
            };
            let extents: Vec<String> = array.shape.iter().map(extent).collect();
            format!("--in {}=rand:{}", array.name, extents.join("x"))
        }
    }
}

/// Splits `NAME=…`.
pub fn split<'a>(option: &str, text: &'a str, what: &str) -> Result<(&'a str, &'a str), Failure> {
    match text.split_once('=') {
        Some((name, rest)) if !name.is_empty() && !rest.is_empty() => Ok((name, rest)),
        _ => Err(Failure::usage(format!("`{option} {text}`: expected NAME={what}"))),
    }
}

/// Reads and makes the inputs of a call, and binds them.
pub fn take(kernel: &Kernel, options: &[String], source: &Source) -> Result<Inputs, Failure> {
    let mut given: Vec<(&str, &str)> = Vec::new();
    for option in options {
        let (name, text) = split("--in", option, "SOURCE")?;
        if given.iter().any(|(other, _)| *other == name) {
            return Err(Failure::usage(format!("--in {name} is given twice")));
        }
        if !kernel.parameters.iter().any(|&parameter| name_of(kernel, parameter) == name) {
            let names: Vec<&str> = kernel.parameters.iter().map(|&parameter| name_of(kernel, parameter)).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Failure::usage(format!("kernel `{}` has no parameter `{name}`; it has {there}", kernel.name)));
        }
        given.push((name, text));
    }
    let missing: Vec<Parameter> = kernel
        .parameters
        .iter()
        .copied()
        .filter(|&parameter| !given.iter().any(|(name, _)| *name == name_of(kernel, parameter)))
        .collect();
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(|&parameter| format!("`{}`", name_of(kernel, parameter))).collect();
        let examples: Vec<String> = missing.iter().map(|&parameter| example(kernel, parameter)).collect();
        let message = format!("kernel `{}` needs an input for {}", kernel.name, names.join(", "));
        return Err(Failure::usage(message).help(format!("for example {}", examples.join(" "))));
    }
    let mut values = Vec::with_capacity(kernel.parameters.len());
    for &parameter in &kernel.parameters {
        let name = name_of(kernel, parameter);
        let text = given.iter().find(|(other, _)| *other == name).map_or("", |(_, text)| text);
        values.push(match parameter {
            Parameter::Scalar(id) => Value::Scalar(scalar(text, kernel.scalars[id].ty, name)?),
            Parameter::Array(id) => {
                let array = &kernel.arrays[id];
                Value::Array(tensor(text, array.element, array.rank(), name)?)
            }
        });
    }
    let arguments: Vec<CallArgument> = values
        .iter()
        .map(|value| match value {
            Value::Scalar(value) => CallArgument::Scalar(*value),
            Value::Array(tensor) => CallArgument::Array { element: tensor.element(), shape: tensor.shape() },
        })
        .collect();
    let bindings = call::bind(kernel, &arguments).map_err(|error| Failure::input(error.describe(Some(source))))?;
    // Bytes of each array fit; the sum of several may not.
    let bytes = |&id: &ArrayId| bindings.elements(id).unsigned_abs().saturating_mul(kernel.arrays[id].element.size() as u64);
    let results = kernel.results.iter().map(bytes).fold(0, u64::saturating_add);
    if let Some(available) = lacking(results) {
        let (wanted, there) = (bytes_text(results), bytes_text(available));
        let message = format!("the results of kernel `{}` take {wanted}, and {there} of memory are available", kernel.name);
        return Err(Failure::input(message));
    }
    Ok(Inputs { values, bindings })
}

fn is_file(text: &str) -> bool {
    text.ends_with(".npy") || Path::new(text).is_file()
}

fn tensor(text: &str, element: Type, rank: usize, name: &str) -> Result<Tensor, Failure> {
    match generate::parse(text) {
        Some(Ok(generator)) => return generate::make(&generator, element, name).map_err(Failure::input),
        Some(Err(message)) => return Err(Failure::usage(message)),
        None => {}
    }
    if !is_file(text) && (text.parse::<f64>().is_ok() || text == "true" || text == "false") {
        return Err(Failure::input(format!("`{name}` is an array of rank {rank}, and `{text}` is a scalar")));
    }
    if let Some((head, _)) = text.split_once(':')
        && head.bytes().all(|byte| byte.is_ascii_lowercase())
        && !is_file(text)
    {
        return Err(Failure::usage(format!("`{text}`: there is no generator `{head}`; there are rand, randn, arange, zeros, ones")));
    }
    npy::read(Path::new(text), element, name).map_err(Failure::input)
}

fn scalar(text: &str, ty: Type, name: &str) -> Result<Literal, Failure> {
    if generate::parse(text).is_some() {
        return Err(Failure::usage(format!("`{name}` is a scalar ({ty}), and `{text}` makes an array")));
    }
    if is_file(text) {
        let tensor = npy::read(Path::new(text), ty, name).map_err(Failure::input)?;
        if !tensor.shape().is_empty() {
            let shown = kind(ty, tensor.shape());
            return Err(Failure::input(format!("`{name}` is a scalar ({ty}), and {text} holds an array: {shown}")));
        }
        return Ok(literal_of(&tensor));
    }
    let malformed = || Failure::usage(format!("`{text}` is no scalar for `{name}` ({ty}), and no file"));
    let unfit = || Failure::input(format!("`{name}` is {ty}, and {text} is not"));
    let plain = text.replace('_', "");
    let integer = parse_integer(&plain);
    if ty == Type::Bool {
        return match plain.as_str() {
            "true" => Ok(Literal::Bool(true)),
            "false" => Ok(Literal::Bool(false)),
            other if other.parse::<f64>().is_ok() => Err(unfit()),
            _ => Err(malformed()),
        };
    }
    if plain == "true" || plain == "false" {
        return Err(unfit());
    }
    if ty.is_float() {
        let value = match (ty, integer) {
            // Straight to f32: by way of f64 it would be rounded twice.
            (Type::F32, _) => plain.parse::<f32>().map(f64::from).ok(),
            _ => plain.parse::<f64>().ok(),
        };
        let value = value.or(integer.map(|value| value as f64)).ok_or_else(malformed)?;
        // As in a program, what is written in digits fits the type.
        let infinite = call::round_to(ty, value).is_infinite();
        let digits = plain.bytes().any(|byte| byte.is_ascii_digit());
        return if infinite && digits { Err(unfit()) } else { Ok(Literal::Float(value)) };
    }
    match integer {
        Some(value) if (ty.integer_range().0..=ty.integer_range().1).contains(&value) => Ok(Literal::Int(value)),
        Some(_) => Err(unfit()),
        None if plain.parse::<f64>().is_ok() => Err(unfit()),
        None => Err(malformed()),
    }
}

fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match (digits.strip_prefix("0x"), digits.strip_prefix("0b")) {
        (Some(hex), _) => i128::from_str_radix(hex, 16).ok()?,
        (_, Some(binary)) => i128::from_str_radix(binary, 2).ok()?,
        _ => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// The one element of an array of rank 0.
fn literal_of(tensor: &Tensor) -> Literal {
    let bytes = tensor.bytes();
    macro_rules! number {
        ($ty:ty) => {
            <$ty>::from_ne_bytes(bytes.try_into().unwrap_or_default())
        };
    }
    match tensor.element() {
        Type::Bool => Literal::Bool(bytes[0] != 0),
        Type::I8 => Literal::Int(number!(i8).into()),
        Type::I16 => Literal::Int(number!(i16).into()),
        Type::I32 => Literal::Int(number!(i32).into()),
        Type::I64 => Literal::Int(number!(i64).into()),
        Type::U8 => Literal::Int(number!(u8).into()),
        Type::U16 => Literal::Int(number!(u16).into()),
        Type::U32 => Literal::Int(number!(u32).into()),
        Type::U64 => Literal::Int(number!(u64).into()),
        Type::F16 => Literal::Float(half::f16::from_bits(number!(u16)).to_f64()),
        Type::Bf16 => Literal::Float(half::bf16::from_bits(number!(u16)).to_f64()),
        Type::F32 => Literal::Float(number!(f32).into()),
        Type::F64 => Literal::Float(number!(f64)),
    }
}

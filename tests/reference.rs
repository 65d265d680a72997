//! Checks every gk program of `docs/language.md`, and runs those that state values.
//!
//! - A block that opens with three backticks and `gk` must be accepted without warnings; after `gk GK0204` it must be refused
//!   with this code, or accepted with this warning.
//! - If a `text` block follows, its lines `name = value` give the parameters of the block's last kernel; the lines that name its
//!   results are compared with what the CPU device computes, number by number.

mod common;

use std::collections::BTreeMap;

use common::values::{self, Number};
use common::{checked, on_cpu, root};
use gpukc_cpu::Tensor;
use gpukc_dsl::call::{CallArgument, bind};
use gpukc_dsl::diagnostic::render;
use gpukc_dsl::program::{Literal, Parameter};
use gpukc_dsl::source::Source;
use gpukc_dsl::types::Type;

/// A fenced block of the document.
struct Block {
    line: usize,
    language: String,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (line, text) in (1..).zip(document.lines()) {
        match text.strip_prefix("```") {
            Some(language) if !open => {
                found.push(Block { line: line + 1, language: language.trim().to_owned(), text: String::new() });
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let block = found.last_mut().unwrap();
                block.text += text;
                block.text += "\n";
            }
            None => {}
        }
    }
    found
}

#[test]
fn programs_of_the_reference() {
    let document = std::fs::read_to_string(root().join("docs/language.md")).unwrap();
    let blocks = blocks(&document);
    let mut faults = Vec::new();
    let mut runs = 0;
    for (nth, block) in blocks.iter().enumerate() {
        let Some(code) = block.language.strip_prefix("gk") else { continue };
        let source = Source::new(format!("docs/language.md, from line {}", block.line), block.text.clone());
        let found = gpukc_dsl::check(&source).problems;
        let codes: Vec<String> = found.iter().map(|problem| problem.code.to_string()).collect();
        let wanted: Vec<&str> = code.split_whitespace().collect();
        if codes != wanted {
            faults.push(format!("expected {wanted:?}, found {codes:?}\n{}", render::human(&source, &found, false)));
            continue;
        }
        if let Some(values) = blocks.get(nth + 1).filter(|next| next.language == "text" && !code.contains("GK")) {
            runs += 1;
            if let Err(fault) = run(&source, &values.text) {
                faults.push(format!("docs/language.md:{}: {fault}", values.line));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert!(runs >= 10, "only {runs} programs with values");
}

/// A number, or rows of them, as written: `2.5`, `[1, 2]`, `[[1, 2], [3, 4]]`.
struct Value {
    shape: Vec<i64>,
    numbers: Vec<String>,
}

fn parse(text: &str) -> Value {
    let numbers: Vec<String> = text.split(|c: char| "[], ".contains(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let rows = text.matches('[').count() as i64;
    let shape = match rows {
        0 => vec![],
        1 => vec![numbers.len() as i64],
        rows => vec![rows - 1, numbers.len() as i64 / (rows - 1)],
    };
    Value { shape, numbers }
}

fn number(word: &str) -> Number {
    let float = match word {
        "true" => 1.0,
        "false" => 0.0,
        word => word.parse().unwrap_or_else(|_| panic!("`{word}` is no number")),
    };
    Number { float, integer: word.parse().unwrap_or(float as i128) }
}

fn tensor(element: Type, value: &Value) -> Tensor {
    let mut bytes = Vec::new();
    value.numbers.iter().for_each(|word| values::push(&mut bytes, element, number(word)));
    Tensor::from_bytes(element, &value.shape, &bytes).expect("a tensor")
}

fn run(source: &Source, text: &str) -> Result<(), String> {
    let program = checked(source);
    let kernel = program.kernels.last().ok_or("no kernel")?;
    let given: BTreeMap<&str, Value> =
        text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.trim(), parse(value.trim()))).collect();
    let value = |name: &str| given.get(name).ok_or_else(|| format!("no value for `{name}`"));
    let mut tensors = Vec::new();
    let mut literals = Vec::new();
    for parameter in &kernel.parameters {
        match *parameter {
            Parameter::Array(id) => tensors.push(tensor(kernel.arrays[id].element, value(&kernel.arrays[id].name)?)),
            Parameter::Scalar(id) => {
                let scalar = &kernel.scalars[id];
                let number = number(&value(&scalar.name)?.numbers[0]);
                literals.push(match scalar.ty {
                    Type::Bool => Literal::Bool(number.integer != 0),
                    ty if ty.is_float() => Literal::Float(number.float),
                    _ => Literal::Int(number.integer),
                });
            }
        }
    }
    let (mut arrays, mut scalars) = (tensors.iter(), literals.iter());
    let arguments: Vec<CallArgument> = kernel
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Scalar(_) => CallArgument::Scalar(*scalars.next().unwrap()),
            Parameter::Array(_) => {
                let tensor = arrays.next().unwrap();
                CallArgument::Array { element: tensor.element(), shape: tensor.shape() }
            }
        })
        .collect();
    let bindings = bind(kernel, &arguments).map_err(|error| error.describe(Some(source)))?;
    let results = on_cpu(&program, kernel, &bindings, &tensors)?;
    for (&id, result) in kernel.results.iter().zip(&results) {
        let array = &kernel.arrays[id];
        let wanted = tensor(array.element, value(&array.name)?);
        let shown = |tensor: &Tensor| {
            let words: Vec<String> =
                tensor.bytes().chunks(array.element.size()).map(|bytes| values::text(array.element, bytes)).collect();
            format!("{:?} of shape {:?}", words, tensor.shape())
        };
        if wanted.shape() != result.shape() || values::difference(array.element, wanted.bytes(), result.bytes()).is_some() {
            return Err(format!("`{}` is {}, the document says {}", array.name, shown(result), shown(&wanted)));
        }
    }
    Ok(())
}

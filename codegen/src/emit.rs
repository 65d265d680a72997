//! A plan as CUDA C++ text: it decides nothing, it only spells.
//!
//! A text consists of a comment that says what it computes and how it is launched, the pieces of the [prelude](library)
//! that it uses, the device functions that it uses, callees first, and one `__global__` function a launch. It needs no
//! headers.

pub mod expr;
mod header;
pub mod library;
pub mod literals;
pub mod names;
pub mod scope;
mod statement;

use std::collections::HashMap;

use gpukc_dsl::source::{Source, Span};

use crate::emit::expr::{element_name, type_name};
pub use crate::emit::header::comment;
use crate::emit::header::prose;
use crate::emit::scope::Scope;
use crate::emit::statement::Writer;
use crate::error::Error;
use crate::lower::Lowered;
use crate::plan::{CudaType, Expr, Launch, Node, Parameter, ParameterType, Plan, walk_nodes};

/// Lines are broken beyond this column.
const WIDTH: usize = 110;

/// A scalar function: a `fn` of the program, or one of the project's mathematical functions.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFunction {
    /// Its name in the text.
    pub name: String,
    /// The type of what it returns.
    pub result: CudaType,
    /// Parameters in order.
    pub parameters: Vec<(CudaType, String)>,
    /// The body; [`Node::Return`] ends it.
    pub body: Vec<Node>,
    /// What it computes: its comment.
    pub doc: Vec<String>,
}

/// The text of `plan`. Of `functions`, it has those that are called.
pub fn emit(plan: &Plan, functions: &[DeviceFunction]) -> String {
    let mut code = String::new();
    for function in called(plan, functions) {
        code += &device_function(function);
        code += "\n";
    }
    let launches: Vec<String> = plan.launches.iter().map(global_function).collect();
    code += &launches.join("\n");
    header::header(plan) + "\n" + &library::needed_by(&code) + &code
}

/// The text of several kernels of a program: what they share once, then each with a heading of its own. With `lines`, the
/// program's text, the lines of a launch stand for the first line of its statements.
pub fn emit_file(members: &[Lowered], lines: Option<&Source>) -> Result<String, Error> {
    let mut functions: Vec<(&str, String)> = Vec::new();
    for member in members {
        for function in called(&member.plan, &member.functions) {
            let text = device_function(function);
            match functions.iter().find(|(name, _)| *name == function.name) {
                Some((_, known)) if *known == text => {}
                Some(_) => return Err(Error::Bug(format!("two functions of the file are called `{}`", function.name))),
                None => functions.push((&function.name, text)),
            }
        }
    }
    let alone = members.len() == 1;
    let mut code: String = functions.into_iter().map(|(_, text)| text + "\n").collect();
    for (number, member) in members.iter().enumerate() {
        if !alone {
            code += &format!("{}{}\n", if number > 0 { "\n" } else { "" }, header::section(&member.plan));
        }
        let launches = member.plan.launches.iter().zip(&member.spans).map(|(launch, span)| match lines {
            Some(source) => numbered(&global_function(launch), source, *span),
            None => global_function(launch),
        });
        code += &launches.collect::<Vec<_>>().join("\n");
    }
    let head = match members {
        [member] => header::header(&member.plan),
        _ => header::of_file(members.iter().map(|member| member.plan.name.as_str())),
    };
    Ok(head + "\n" + &library::needed_by(&code) + &code)
}

/// The text with each of its lines, comments aside, as the line of the program at which `span` starts.
fn numbered(text: &str, source: &Source, span: Span) -> String {
    // NVRTC's assembler does not take a name with a quotation mark, escaped or not.
    let name = source.name().replace('\\', "\\\\").replace('"', "'");
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let directive = format!("#line {} \"{name}\"\n", source.position(span.start as usize).line);
    let line = |line: &str| if line.trim_start().starts_with("//") { format!("{line}\n") } else { format!("{directive}{line}\n") };
    text.lines().map(line).collect()
}

/// The device functions that the launches need, callees first.
fn called<'a>(plan: &Plan, functions: &'a [DeviceFunction]) -> Vec<&'a DeviceFunction> {
    let by_name: HashMap<&str, usize> = functions.iter().enumerate().map(|(i, f)| (f.name.as_str(), i)).collect();
    let callees = |nodes: &[Node]| {
        let mut found = Vec::new();
        walk_nodes(nodes, &mut |expr| {
            if let Expr::Call(name, _) = expr {
                found.extend(by_name.get(name.as_str()).copied());
            }
        });
        found
    };
    // Depth first without recursion: a function is placed when it comes up for the second time, its callees placed.
    let mut stack: Vec<usize> = plan.launches.iter().flat_map(|launch| callees(&launch.body)).collect();
    stack.reverse();
    let mut opened = vec![false; functions.len()];
    let mut placed = vec![false; functions.len()];
    let mut order = Vec::new();
    while let Some(&index) = stack.last() {
        if !opened[index] {
            opened[index] = true;
            stack.extend(callees(&functions[index].body).into_iter().rev().filter(|callee| !opened[*callee]));
        } else {
            stack.pop();
            if !placed[index] {
                placed[index] = true;
                order.push(&functions[index]);
            }
        }
    }
    order
}

fn device_function(function: &DeviceFunction) -> String {
    let mut scope = Scope::default();
    let mut parameters = Vec::new();
    for (ty, name) in &function.parameters {
        scope.declare(name, ty);
        parameters.push(format!("{} {name}", type_name(ty)));
    }
    let result = type_name(&function.result);
    let head = format!("__device__ __forceinline__ {result} {}", function.name);
    let mut writer = Writer::new(scope, Some(function.result.clone()));
    writer.nodes(&function.body);
    prose(&function.doc, 0) + &signature(&head, &parameters) + &writer.finish() + "}\n"
}

fn global_function(launch: &Launch) -> String {
    let threads: u32 = launch.block.iter().product();
    let resident = launch.resident.map(|blocks| format!(", {blocks}")).unwrap_or_default();
    let cluster = if launch.cluster > 1 { format!("__cluster_dims__({}, 1, 1) ", launch.cluster) } else { String::new() };
    let head = format!("extern \"C\" __global__ void {cluster}__launch_bounds__({threads}{resident}) {}", launch.entry);
    let parameters: Vec<String> = launch.parameters.iter().map(parameter).collect();
    let mut writer = Writer::new(Scope::of_launch(&launch.parameters), None);
    if launch.dynamic_shared > 0 {
        writer.line("extern __shared__ __align__(16) unsigned char block_memory[];");
    }
    writer.find_alignments(&launch.body);
    writer.nodes(&launch.body);
    prose(&launch.notes, 0) + &signature(&head, &parameters) + &writer.finish() + "}\n"
}

fn signature(head: &str, parameters: &[String]) -> String {
    let flat = format!("{head}({}) {{", parameters.join(", "));
    if flat.len() <= WIDTH {
        return flat + "\n";
    }
    format!("{head}(\n    {}\n) {{\n", parameters.join(",\n    "))
}

fn parameter(parameter: &Parameter) -> String {
    let name = &parameter.name;
    match parameter.ty {
        ParameterType::Input(ty) => format!("const {}* __restrict__ {name}", element_name(ty)),
        ParameterType::Output(ty) => format!("{}* __restrict__ {name}", element_name(ty)),
        ParameterType::Value(ty) => format!("{} {name}", element_name(ty)),
        ParameterType::Report | ParameterType::Published => format!("unsigned long long* {name}"),
    }
}

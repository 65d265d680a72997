//! Items of a file: which there are, in what order they are checked, and what is known of those that have been.

use super::lower::{Lower, Place};
use super::names::{Binding, Entry};
use super::visit;
use crate::ast::{self, ExprKind as Ast};
use crate::call::{Bindings, evaluate};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::{Function, FunctionId, Kernel, Literal, Program};
use crate::source::{Source, Span};
use crate::types::{Builtin, Type};
use std::collections::HashMap;

/// A `const`; no value if it is in error.
#[derive(Debug)]
pub(crate) struct ConstantItem {
    pub(crate) value: Option<(Type, Literal)>,
}

/// A `fn`; `None` where it is in error.
#[derive(Debug)]
pub(crate) struct FunctionItem {
    pub(crate) parameters: Option<Vec<(String, Type)>>,
    pub(crate) result: Option<Type>,
    pub(crate) id: Option<FunctionId>,
    pub(crate) checked: Option<Function>,
}

/// What is known of a file's items.
#[derive(Debug, Default)]
pub(crate) struct Items {
    /// Whether this is a text of the project's own, which may call internal functions.
    pub(crate) library: bool,
    pub(crate) constants: Vec<ConstantItem>,
    pub(crate) constant_names: HashMap<String, Entry>,
    pub(crate) functions: Vec<FunctionItem>,
    pub(crate) function_names: HashMap<String, usize>,
    pub(crate) kernel_names: HashMap<String, usize>,
    /// Checked kernels; `None` if in error or not reached yet.
    pub(crate) kernels: Vec<Option<Kernel>>,
}

/// Checks all items of a file.
pub(crate) fn check_file(source: &Source, file: &ast::File, library: bool, program: &mut Program, problems: &mut Vec<Diagnostic>) {
    let mut session = Session { source, problems, items: Items { library, ..Items::default() } };
    let mut lists = Lists::default();
    session.register(file, &mut lists);
    session.constants(&lists);
    session.functions(&lists, program);
    session.kernels(&lists, program);
}

/// A file's items by kind.
#[derive(Default)]
struct Lists<'a> {
    constants: Vec<&'a ast::Constant>,
    functions: Vec<&'a ast::Function>,
    kernels: Vec<&'a ast::Kernel>,
}

struct Session<'s> {
    source: &'s Source,
    problems: &'s mut Vec<Diagnostic>,
    items: Items,
}

impl Session<'_> {
    fn register<'a>(&mut self, file: &'a ast::File, lists: &mut Lists<'a>) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for item in &file.items {
            let name = match item {
                ast::Item::Kernel(kernel) => &kernel.name,
                ast::Item::Function(function) => &function.name,
                ast::Item::Constant(constant) => &constant.name,
            };
            if crate::parser::is_reserved(&name.text) {
                self.problems.push(crate::parser::reserved(&name.text, name.span));
            }
            if let Some(&first) = seen.get(name.text.as_str()) {
                let message = format!("`{}` is defined twice", name.text);
                let problem = Diagnostic::error(codes::DUPLICATE_ITEM, name.span, message, "again");
                self.problems.push(problem.label(first, "first here").help("rename one of them"));
                continue;
            }
            seen.insert(&name.text, name.span);
            match item {
                ast::Item::Kernel(kernel) => {
                    self.items.kernel_names.insert(name.text.clone(), lists.kernels.len());
                    lists.kernels.push(kernel);
                    self.items.kernels.push(None);
                }
                ast::Item::Function(function) => {
                    self.items.function_names.insert(name.text.clone(), lists.functions.len());
                    lists.functions.push(function);
                }
                ast::Item::Constant(constant) => lists.constants.push(constant),
            }
        }
    }

    fn constants(&mut self, lists: &Lists) {
        let names: HashMap<&str, usize> = lists.constants.iter().enumerate().map(|(i, c)| (c.name.text.as_str(), i)).collect();
        let edges: Vec<Vec<usize>> = lists.constants.iter().map(|constant| uses(&[&constant.value], &names, By::Name)).collect();
        for constant in &lists.constants {
            let (name, span) = (constant.name.text.clone(), constant.name.span);
            let binding = Binding::Constant(self.items.constants.len());
            self.items.constant_names.insert(name, Entry { binding, span });
            self.items.constants.push(ConstantItem { value: None });
        }
        for index in self.order(&edges, |i| (&lists.constants[i].name, "constant")) {
            let constant = lists.constants[index];
            let mut lower = Lower::new(&self.items, self.source, Place::Header);
            let value = lower.constant(constant);
            self.problems.append(&mut lower.problems);
            self.items.constants[index].value = value;
        }
    }

    fn functions(&mut self, lists: &Lists, program: &mut Program) {
        for function in &lists.functions {
            let mut lower = Lower::new(&self.items, self.source, Place::Function);
            let result = lower.scalar_type(&function.result);
            let parameters: Vec<Option<(String, Type)>> = function
                .parameters
                .iter()
                .map(|parameter| lower.scalar_type(&parameter.ty).map(|ty| (parameter.name.text.clone(), ty)))
                .collect();
            let parameters = parameters.into_iter().collect();
            self.problems.append(&mut lower.problems);
            self.items.functions.push(FunctionItem { parameters, result, id: None, checked: None });
        }
        let names: HashMap<&str, usize> = lists.functions.iter().enumerate().map(|(i, f)| (f.name.text.as_str(), i)).collect();
        let edges: Vec<Vec<usize>> = lists
            .functions
            .iter()
            .map(|function| {
                let mut roots = Vec::new();
                visit::block_children(&function.body, &mut roots);
                uses(&roots, &names, By::Call)
            })
            .collect();
        for index in self.order(&edges, |i| (&lists.functions[i].name, "function")) {
            let FunctionItem { parameters: Some(parameters), result: Some(result), .. } = &self.items.functions[index] else {
                continue;
            };
            let lower = Lower::new(&self.items, self.source, Place::Function);
            let (function, mut problems) = lower.function(lists.functions[index], parameters, *result);
            self.problems.append(&mut problems);
            self.items.functions[index].checked = function.clone();
            self.items.functions[index].id = function.map(|function| program.functions.push(function));
        }
    }

    fn kernels(&mut self, lists: &Lists, program: &mut Program) {
        if let Some(kernel) = lists.kernels.first().filter(|_| self.items.library) {
            let message = "a library of functions holds no kernels";
            self.problems.push(Diagnostic::error(codes::NOT_HERE, kernel.name.span, message, "a kernel"));
            return;
        }
        // A function or a built-in of that name is what a call in an expression means.
        let is_function = |name: &str| {
            Builtin::from_name(name).is_some_and(|builtin| !builtin.is_internal()) || self.items.function_names.contains_key(name)
        };
        let kernels = lists.kernels.iter().enumerate().map(|(i, kernel)| (kernel.name.text.as_str(), i));
        let names: HashMap<&str, usize> = kernels.filter(|(name, _)| !is_function(name)).collect();
        let edges: Vec<Vec<usize>> = lists
            .kernels
            .iter()
            .map(|kernel| uses(&kernel.statements.iter().flat_map(visit::statement_exprs).collect::<Vec<_>>(), &names, By::Call))
            .collect();
        for index in self.order(&edges, |i| (&lists.kernels[i].name, "kernel")) {
            let lower = Lower::new(&self.items, self.source, Place::Statement);
            let (kernel, mut problems) = lower.kernel(lists.kernels[index]);
            self.problems.append(&mut problems);
            self.items.kernels[index] = kernel;
        }
        program.kernels.extend(std::mem::take(&mut self.items.kernels).into_iter().flatten());
    }

    /// An order in which users come after what they use; items that use themselves are reported and left out.
    fn order<'a>(&mut self, edges: &[Vec<usize>], name: impl Fn(usize) -> (&'a ast::Name, &'static str)) -> Vec<usize> {
        let mut state = vec![0u8; edges.len()]; // 0 new, 1 open, 2 done, 3 in a cycle
        let mut order = Vec::new();
        for root in 0..edges.len() {
            let mut path: Vec<(usize, usize)> = vec![(root, 0)];
            if state[root] != 0 {
                continue;
            }
            state[root] = 1;
            while let Some((node, next)) = path.last_mut() {
                let node = *node;
                let Some(&target) = edges[node].get(*next) else {
                    path.pop();
                    if state[node] == 1 {
                        state[node] = 2;
                        order.push(node);
                    }
                    continue;
                };
                *next += 1;
                match state[target] {
                    0 => {
                        state[target] = 1;
                        path.push((target, 0));
                    }
                    1 => {
                        let from = path.iter().position(|&(node, _)| node == target).unwrap_or(0);
                        let cycle: Vec<usize> = path[from..].iter().map(|&(node, _)| node).collect();
                        cycle.iter().for_each(|&node| state[node] = 3);
                        self.recursion(&cycle, &name);
                    }
                    _ => {}
                }
            }
        }
        order
    }

    fn recursion<'a>(&mut self, cycle: &[usize], name: &impl Fn(usize) -> (&'a ast::Name, &'static str)) {
        let Some(&first) = cycle.iter().min() else { return };
        let at = cycle.iter().position(|&node| node == first).unwrap_or(0);
        let names: Vec<String> =
            (0..=cycle.len()).map(|step| format!("`{}`", name(cycle[(at + step) % cycle.len()]).0.text)).collect();
        let (first, what) = name(first);
        let message = format!("the {what} `{}` is recursive: {}", first.text, names.join(" uses "));
        let help = if what == "function" { "write a `while` or `for` loop" } else { "take the circle apart" };
        self.problems.push(Diagnostic::error(codes::RECURSION, first.span, message, "recursive").help(help));
    }
}

/// How an item is used: by its name alone, or by a call.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Name,
    Call,
}

/// Which of the named items expressions use. (An index may be called like a kernel: only a call uses one.)
fn uses(roots: &[&ast::Expr], names: &HashMap<&str, usize>, by: By) -> Vec<usize> {
    let mut found = Vec::new();
    for root in roots {
        visit::each(root, |e| {
            let name = match &e.kind {
                Ast::Name(name) if by == By::Name => name,
                Ast::Call { function, .. } if by == By::Call => &function.text,
                _ => return,
            };
            if let Some(&index) = names.get(name.as_str()) {
                if !found.contains(&index) {
                    found.push(index);
                }
            }
        });
    }
    found
}

impl Lower<'_> {
    fn constant(&mut self, constant: &ast::Constant) -> Option<(Type, Literal)> {
        let ty = self.scalar_type(&constant.ty)?;
        let id = self.expr(&constant.value);
        let id = self.store(id, ty, &format!("`{}`", constant.name.text));
        self.settle();
        let id = id.filter(|_| !self.failed_since(0))?;
        let value = evaluate(&self.kernel, &Bindings::default(), id);
        if value.is_none() {
            let message = "this is not a constant";
            let help = "constants are made of literals, other constants, operators and casts";
            self.report(Diagnostic::error(codes::NOT_CONSTANT, constant.value.span, message, "no value here").help(help));
        }
        value.map(|value| (ty, value))
    }
}

//! Scalar functions, the program's own and the mathematical library's, to device functions. They read no arrays, so every
//! expression stays an expression.

mod needed;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use gpukc_dsl::arena::Id;
use gpukc_dsl::program::{ExprId, ExprKind, Function, FunctionId, LocalId, LocalStatement, Program};
use gpukc_dsl::types::{BinaryOp, Builtin, Type};

use self::needed::Needed;
use super::context::Lowering;
use super::expr::{binary, cast, literal, unary};
use crate::emit::DeviceFunction;
use crate::emit::names::Namer;
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, call, int, name, walk_nodes};

/// An item of the mathematical library's texts: a function or a constant, with its comment.
struct Item {
    name: &'static str,
    text: &'static str,
}

/// The library's items, in an order in which each mentions only items before it. Found by their first words, without parsing:
/// a kernel pays only for the functions that it calls.
fn items() -> &'static [Item] {
    static ITEMS: OnceLock<Vec<Item>> = OnceLock::new();
    ITEMS.get_or_init(|| gpukc_math::SOURCES.iter().flat_map(|(_, text)| split(text)).collect())
}

fn split(text: &'static str) -> Vec<Item> {
    let mut found = Vec::new();
    let (mut start, mut position, mut name) = (0, 0, None);
    for line in text.split_inclusive('\n') {
        let item = line.strip_prefix("fn ").or(line.strip_prefix("const "));
        if let Some(rest) = item {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            name = Some(&rest[..end]);
        }
        position += line.len();
        let ends = line.starts_with('}') || line.starts_with("const ") || item.is_some() && line.trim_end().ends_with('}');
        if let (true, Some(name)) = (ends, name.take_if(|_| ends)) {
            found.push(Item { name, text: &text[start..position] });
            start = position;
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// The functions of those names and all that they call, checked, callees first.
fn library(called: &BTreeSet<String>) -> Result<Program, Error> {
    let mut wanted: BTreeSet<&str> = called.iter().map(String::as_str).collect();
    let mut texts = Vec::new();
    // Items mention only items before them: from the last to the first, every caller is seen before its callees.
    for item in items().iter().rev() {
        if !wanted.contains(item.name) {
            continue;
        }
        wanted.extend(words(item.text));
        texts.push(("library", item.text));
    }
    texts.reverse();
    gpukc_dsl::check_library(&texts).map_err(|problems| {
        let message = problems.first().map_or("unknown", |problem| problem.message.as_str());
        Error::Bug(format!("the mathematical library does not check: {message}"))
    })
}

impl Lowering<'_> {
    /// The device function of a `fn`, lowered when first called.
    pub fn function(&mut self, id: FunctionId) -> Result<String, Error> {
        let fresh = self.function_names.get(&id).cloned().ok_or_else(|| Error::Bug("a call of an unknown function".into()))?;
        if self.functions.iter().any(|f| f.name == fresh) {
            return Ok(fresh);
        }
        let program = self.program;
        let function = &program.functions[id];
        let needed = Needed::of(function);
        for (_, expr) in function.exprs.iter().filter(|(id, _)| needed.has(*id)) {
            if let ExprKind::Call(callee, _) = expr.kind {
                self.function(callee)?;
            }
        }
        let names = self.function_names.clone();
        let lowered = lower(function, &fresh, &self.file_namer, &|callee| names.get(&callee).cloned())?;
        self.functions.push(lowered);
        Ok(fresh)
    }

    /// Adds the library functions that the plan and the functions call, callees first.
    pub fn add_library_functions(&mut self) -> Result<(), Error> {
        let mut called = BTreeSet::new();
        let mut collect = |expr: &Expr| {
            if let Expr::Call(function, _) = expr {
                called.insert(function.clone());
            }
        };
        self.plan.launches.iter().for_each(|launch| walk_nodes(&launch.body, &mut collect));
        self.functions.iter().for_each(|function| walk_nodes(&function.body, &mut collect));
        let library = library(&called)?;
        let mut lowered = Vec::new();
        for (_, function) in library.functions.iter() {
            let callee = |callee: FunctionId| Some(library.functions[callee].name.clone());
            lowered.push(lower(function, &function.name, &self.file_namer, &callee)?);
        }
        lowered.append(&mut self.functions);
        self.functions = lowered;
        Ok(())
    }
}

/// The names of the mathematical library's functions.
pub fn library_names() -> impl Iterator<Item = &'static str> {
    items().iter().map(|item| item.name)
}

/// The library's function for a built-in at a float type, if it has one.
pub fn library_call(builtin: Builtin, ty: Type) -> Option<String> {
    let wanted = format!("{builtin}_{ty}");
    items().iter().any(|item| item.name == wanted).then_some(wanted)
}

type Callee<'a> = &'a dyn Fn(FunctionId) -> Option<String>;

struct Scalar<'a> {
    function: &'a Function,
    needed: Needed,
    names: Vec<String>,
    callee: Callee<'a>,
    declared: Vec<bool>,
}

fn lower(function: &Function, fresh: &str, namer: &Namer, callee: Callee) -> Result<DeviceFunction, Error> {
    let mut namer = namer.clone();
    let names: Vec<String> = function.locals.iter().map(|(_, local)| namer.local(&local.name)).collect();
    let mut declared = vec![false; names.len()];
    declared.iter_mut().take(function.parameters).for_each(|d| *d = true);
    let mut scalar = Scalar { function, needed: Needed::of(function), names, callee, declared };
    let parameters =
        (0..function.parameters).map(|index| (function.locals[Id::new(index)].ty.into(), scalar.names[index].clone())).collect();
    let mut body = Vec::new();
    scalar.statements(&function.body, &mut body)?;
    body.push(Node::Return(Some(scalar.value(function.value)?)));
    Ok(DeviceFunction { name: fresh.into(), result: function.result.into(), parameters, body, doc: function.doc.clone() })
}

impl Scalar<'_> {
    fn statements(&mut self, statements: &[LocalStatement], nodes: &mut Vec<Node>) -> Result<(), Error> {
        for statement in statements {
            match statement {
                _ if !self.needed.has_statement(statement) => {}
                LocalStatement::Set(local, value) => {
                    let value = self.value(*value)?;
                    nodes.push(self.set(*local, value));
                }
                LocalStatement::While(condition, body) => {
                    let condition = self.value(*condition)?;
                    let body = self.scope(body)?;
                    nodes.push(Node::While(condition, body));
                }
                LocalStatement::For(local, lo, hi, body) => {
                    let (lo, hi) = (self.value(*lo)?, self.value(*hi)?);
                    let ty = self.function.locals[*local].ty;
                    self.declared[local.index()] = true;
                    let body = self.scope(body)?;
                    let variable = self.names[local.index()].clone();
                    nodes.push(Node::For { variable, ty: ty.into(), lo, hi, step: int(1), unroll: Unroll::Default, body });
                }
                LocalStatement::If(condition, then, otherwise) => {
                    let condition = self.value(*condition)?;
                    let (then, otherwise) = (self.scope(then)?, self.scope(otherwise)?);
                    nodes.push(Node::If { condition, then, otherwise });
                }
            }
        }
        Ok(())
    }

    fn scope(&mut self, statements: &[LocalStatement]) -> Result<Vec<Node>, Error> {
        let before = self.declared.clone();
        let mut nodes = Vec::new();
        self.statements(statements, &mut nodes)?;
        self.declared = before;
        Ok(nodes)
    }

    fn set(&mut self, local: LocalId, value: Expr) -> Node {
        let index = local.index();
        if std::mem::replace(&mut self.declared[index], true) {
            return Node::Assign(name(self.names[index].clone()), value);
        }
        let definition = &self.function.locals[local];
        let (ty, name) = (definition.ty.into(), self.names[index].clone());
        Node::Declare { ty, name, value: Some(value), mutable: definition.mutable }
    }

    fn value(&self, id: ExprId) -> Result<Expr, Error> {
        let expr = &self.function.exprs[id];
        let operand = |id: ExprId| self.function.exprs[id].ty;
        Ok(match &expr.kind {
            ExprKind::Literal(value) => literal(*value, expr.ty),
            ExprKind::Local(local) => name(self.names[local.index()].clone()),
            ExprKind::Unary(op, x) => unary(*op, self.value(*x)?, expr.ty),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => self.value(*a)?.binary(op.symbol(), self.value(*b)?),
            ExprKind::Binary(op, a, b) => binary(*op, self.value(*a)?, self.value(*b)?, operand(*a), false),
            ExprKind::Cast(x) => cast(self.value(*x)?, operand(*x), expr.ty),
            ExprKind::If { condition, then, otherwise } => self.value(*condition)?.choose(self.value(*then)?, self.value(*otherwise)?),
            ExprKind::Builtin(builtin, arguments) => {
                let ty = arguments.first().map_or(expr.ty, |a| operand(*a));
                let arguments = arguments.iter().map(|a| self.value(*a)).collect::<Result<Vec<_>, _>>()?;
                super::expr::builtin_call(*builtin, arguments, ty)
            }
            ExprKind::Call(callee, arguments) => {
                let callee = (self.callee)(*callee).ok_or_else(|| Error::Bug("a call of an unknown function".into()))?;
                call(callee, arguments.iter().map(|a| self.value(*a)).collect::<Result<Vec<_>, _>>()?)
            }
            _ => return Err(Error::Bug(format!("`{}` mentions something that only a kernel has", self.function.name))),
        })
    }
}

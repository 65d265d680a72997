//! Kernel calls: the called kernel's statements, expanded into the caller.

use super::define::Defined;
use super::expr::unparenthesized;
use super::infer::Ty;
use super::lower::Lower;
use super::names::Binding;
use super::walk;
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::*;
use crate::prover::{self, Truth};
use crate::source::Span;
use crate::types::{BinaryOp, Type};

/// The most statements of a kernel, those of the kernels that it calls included.
pub(crate) const MOST_STATEMENTS: usize = 4096;

/// What stands for what in the caller.
struct Substitution {
    dims: Vec<Option<ExprId>>,
    scalars: Vec<Option<ExprId>>,
    arrays: Vec<Option<ArrayId>>,
    variables: Vec<VariableId>,
    exprs: Vec<ExprId>,
}

impl Lower<'_> {
    pub(crate) fn let_call(&mut self, names: &[ast::Name], value: &ast::Expr, scope: usize) {
        let mark = self.problems.len();
        let arrays = self.expand(names, value);
        self.names.leave(scope);
        for (at, name) in names.iter().enumerate() {
            match arrays.as_ref().and_then(|arrays| arrays.get(at)) {
                Some(&array) if !self.failed_since(mark) => {
                    self.bind_new(name, Binding::Array(array));
                }
                _ if self.names.find(&name.text).is_none() => self.names.bind(&name.text, Binding::Broken, name.span),
                _ => {}
            }
        }
    }

    /// Expands a call; gives the arrays of its results.
    fn expand(&mut self, names: &[ast::Name], value: &ast::Expr) -> Option<Vec<ArrayId>> {
        let Ast::Call { function, arguments } = &unparenthesized(value).kind else {
            let message = "several names on the left side take the results of a kernel";
            self.report(Diagnostic::error(codes::KERNEL_IN_EXPRESSION, value.span, message, "no call of a kernel"));
            return None;
        };
        let Some(&index) = self.items.kernel_names.get(&function.text) else {
            let message = format!("`{}` is no kernel of this file", function.text);
            self.report(Diagnostic::error(codes::UNKNOWN_FUNCTION, function.span, message, "no kernel"));
            return None;
        };
        let items = self.items;
        let callee = items.kernels.get(index)?.as_ref()?;
        if callee.parameters.len() != arguments.len() {
            let (wanted, given) = (callee.parameters.len(), arguments.len());
            let plural = if wanted == 1 { "" } else { "s" };
            let message = format!("kernel `{}` takes {wanted} argument{plural}, and this gives {given}", callee.name);
            self.report(Diagnostic::error(codes::ARGUMENT_COUNT, value.span, message, format!("{given} given")));
            return None;
        }
        if callee.results.len() != names.len() {
            let (wanted, given) = (callee.results.len(), names.len());
            let (results, are) = (if wanted == 1 { "result" } else { "results" }, if given == 1 { "is" } else { "are" });
            let message = format!("kernel `{}` gives {wanted} {results}, and {given} {are} named", callee.name);
            let span = names.first().map_or(value.span, |name| name.span).to(names.last().map_or(value.span, |name| name.span));
            let help = if wanted == 1 { "write `let p = …`" } else { "name all of them: `let (a, b) = …`" };
            self.report(Diagnostic::error(codes::RESULT_COUNT, span, message, format!("{given} named")).help(help));
            return None;
        }
        let mut to = Substitution {
            dims: vec![None; callee.dims.len()],
            scalars: vec![None; callee.scalars.len()],
            arrays: vec![None; callee.arrays.len()],
            variables: Vec::new(),
            exprs: Vec::new(),
        };
        let mut fine = true;
        for (&parameter, argument) in callee.parameters.iter().zip(arguments) {
            fine &= match parameter {
                Parameter::Array(id) => self.array_argument(callee, id, argument, &mut to),
                Parameter::Scalar(id) => self.scalar_argument(callee, id, argument, &mut to),
            };
        }
        self.settle();
        if !fine {
            return None;
        }
        for (id, dim) in callee.dims.iter() {
            let array = to.arrays[dim.array.index()]?;
            to.dims[id.index()] = self.kernel.arrays[array].shape.get(dim.axis).copied();
        }
        if self.kernel.statements.len() + callee.statements.len() > MOST_STATEMENTS {
            let message = format!("with the kernels that it calls, this kernel has more than {MOST_STATEMENTS} statements");
            let problem = Diagnostic::error(codes::EXPANSION, value.span, message, "one call too many");
            self.report(problem.help("a called kernel is expanded where it is called, and so are those that it calls"));
            return None;
        }
        self.substitute(callee, names, &mut to)?;
        self.agree(callee, &to, value.span)?;
        self.pass_conditions(callee, &to, value.span)?;
        self.copy_statements(callee, &to, value.span);
        callee.results.iter().map(|&id| to.arrays[id.index()]).collect()
    }

    fn array_argument(&mut self, callee: &Kernel, id: ArrayId, argument: &ast::Expr, to: &mut Substitution) -> bool {
        let parameter = &callee.arrays[id];
        let (wanted, rank) = (parameter.element, parameter.rank());
        let name = match &unparenthesized(argument).kind {
            Ast::Name(name) => self.names.find(name).map(|entry| entry.binding).map(|binding| (name.clone(), binding)),
            _ => None,
        };
        let array = match name {
            Some((_, Binding::Broken)) => return false,
            Some((_, Binding::Array(array))) => array,
            _ => {
                if let Ast::Name(name) = &unparenthesized(argument).kind {
                    if self.names.find(name).is_none() {
                        self.unknown_array(&ast::Name { text: name.clone(), span: argument.span });
                        return false;
                    }
                }
                let message = format!("parameter `{}` of `{}` takes an array", parameter.name, callee.name);
                let problem = Diagnostic::error(codes::ARGUMENT_KIND, argument.span, message, "not an array's name");
                self.report(problem.help("give it the name of an array; a `let t[i] = …` makes one"));
                return false;
            }
        };
        if !self.readable(array, argument.span) {
            return false;
        }
        let given = &self.kernel.arrays[array];
        if given.element != wanted || given.rank() != rank {
            let message = format!(
                "parameter `{}` of `{}` has {wanted} and rank {rank}; `{}` has {} and rank {}",
                parameter.name,
                callee.name,
                given.name,
                given.element,
                given.rank()
            );
            self.report(Diagnostic::error(codes::ARGUMENT_KIND, argument.span, message, "another array"));
            return false;
        }
        to.arrays[id.index()] = Some(array);
        true
    }

    fn scalar_argument(&mut self, callee: &Kernel, id: ScalarId, argument: &ast::Expr, to: &mut Substitution) -> bool {
        let scalar = &callee.scalars[id];
        let value = self.expr(argument);
        let what = format!("parameter `{}`", scalar.name);
        let Some(value) = self.store(value, scalar.ty, &what) else { return false };
        self.settle();
        if walk::at_call(&self.kernel, value) {
            to.scalars[id.index()] = Some(value);
            return true;
        }
        // A value that is known only while the kernel runs gets a place of its own.
        let is_scalar = |kind: &ExprKind| *kind == ExprKind::Scalar(id);
        let extents = callee.arrays.iter().flat_map(|(_, array)| array.shape.iter().copied());
        let conditions = callee.conditions.iter().map(|condition| condition.holds);
        if extents.chain(conditions).any(|root| walk::any(callee, root, is_scalar)) {
            let message = format!(
                "`{}` decides an extent or a condition of `{}`, so it is needed before anything runs",
                scalar.name, callee.name
            );
            let problem = Diagnostic::error(codes::CALL_TIME_EXTENT, argument.span, message, "known only while the kernel runs");
            self.report(problem.help("give a value made of dims, scalar parameters and literals"));
            return false;
        }
        let array = self.new_let(&format!("{}.{}", callee.name, scalar.name), argument.span, scalar.ty, Vec::new());
        self.finish(Statement {
            array,
            variables: Vec::new(),
            subscripts: Vec::new(),
            value,
            kind: StatementKind::Define,
            attributes: self.kernel.attributes.clone(),
            span: argument.span,
        });
        let read = self.push(ExprKind::Read { array, subscripts: Vec::new() }, Ty::Known(scalar.ty), argument.span);
        to.scalars[id.index()] = Some(read);
        true
    }

    /// An array of the caller under a name that no other has.
    fn new_let(&mut self, name: &str, span: Span, element: Type, shape: Vec<ExprId>) -> ArrayId {
        let taken = |l: &Self, name: &str| l.kernel.arrays.iter().any(|(_, array)| array.name == name);
        let mut unique = name.to_string();
        let mut number = 2;
        while taken(self, &unique) {
            unique = format!("{name}{number}");
            number += 1;
        }
        self.defined.push(Defined::new(Role::Let));
        self.kernel.arrays.push(Array { name: unique, span, element, shape, role: Role::Let })
    }

    /// Copies expressions, and declares the arrays and variables that they need.
    fn substitute(&mut self, callee: &Kernel, names: &[ast::Name], to: &mut Substitution) -> Option<()> {
        for (id, array) in callee.arrays.iter() {
            if array.role == Role::Parameter {
                continue;
            }
            let result = callee.results.iter().position(|&result| result == id).and_then(|at| names.get(at));
            let new = match result {
                Some(name) => self.new_let(&name.text, name.span, array.element, Vec::new()),
                None => self.new_let(&format!("{}.{}", callee.name, array.name), array.span, array.element, Vec::new()),
            };
            to.arrays[id.index()] = Some(new);
        }
        to.variables = callee.variables.iter().map(|(_, variable)| self.kernel.variables.push(variable.clone())).collect();
        for (_, expr) in callee.exprs.iter() {
            let id = match &expr.kind {
                ExprKind::Dim(dim) => to.dims.get(dim.index()).copied().flatten()?,
                ExprKind::Scalar(scalar) => to.scalars.get(scalar.index()).copied().flatten()?,
                kind => {
                    let mut whole = true;
                    let kind = walk::map(
                        kind,
                        &mut |child| {
                            whole &= child.index() < to.exprs.len();
                            to.exprs.get(child.index()).copied().unwrap_or(child)
                        },
                        &mut |variable| to.variables.get(variable.index()).copied().unwrap_or(variable),
                        &mut |array| to.arrays.get(array.index()).copied().flatten().unwrap_or(array),
                    );
                    debug_assert!(whole, "an expression stands before its parts");
                    self.push(kind, Ty::Known(expr.ty), expr.span)
                }
            };
            to.exprs.push(id);
        }
        for (id, array) in callee.arrays.iter().filter(|(_, array)| array.role != Role::Parameter) {
            let shape = array.shape.iter().map(|extent| to.exprs.get(extent.index()).copied()).collect::<Option<Vec<_>>>()?;
            self.kernel.arrays[to.arrays[id.index()]?].shape = shape;
        }
        self.settle();
        Some(())
    }

    /// Extents that the callee takes to be the same must be.
    fn agree(&mut self, callee: &Kernel, to: &Substitution, span: Span) -> Option<()> {
        for (id, array) in callee.arrays.iter().filter(|(_, array)| array.role == Role::Parameter) {
            let given = to.arrays[id.index()]?;
            for (axis, extent) in array.shape.iter().enumerate() {
                let wanted = to.exprs.get(extent.index()).copied()?;
                let actual = self.kernel.arrays[given].shape.get(axis).copied()?;
                if wanted == actual || prover::same(&self.kernel, wanted, actual) {
                    continue;
                }
                let holds = self.push(ExprKind::Binary(BinaryOp::Eq, actual, wanted), Ty::Known(Type::Bool), span);
                self.settle();
                let [a, b] = [actual, wanted].map(|extent| print::expr(&self.kernel, extent));
                if prover::decide(&self.kernel, holds) == Truth::Never {
                    let (name, parameter) = (&self.kernel.arrays[given].name, &array.name);
                    let message =
                        format!("`{name}` has extent {a} on axis {axis}, and parameter `{parameter}` of `{}` needs {b}", callee.name);
                    self.report(Diagnostic::error(codes::EXTENTS_DIFFER, span, message, format!("{a} is not {b}")));
                    return None;
                }
                let reason = ConditionReason::Where(format!("{}: {a} == {b}", callee.name));
                self.kernel.conditions.push(Condition { holds, span, reason });
            }
        }
        Some(())
    }

    /// The callee's conditions follow from the caller's, or become its own.
    fn pass_conditions(&mut self, callee: &Kernel, to: &Substitution, span: Span) -> Option<()> {
        for condition in &callee.conditions {
            let holds = to.exprs.get(condition.holds.index()).copied()?;
            match prover::decide(&self.kernel, holds) {
                Truth::Always => continue,
                Truth::Never => {
                    let text = print::expr(&self.kernel, holds);
                    let message = format!("a condition of `{}` never holds here: `{text}`", callee.name);
                    let problem = Diagnostic::error(codes::PRECONDITION, span, message, "called here");
                    self.report(problem.label(condition.span, "the condition"));
                    return None;
                }
                Truth::Unknown => {}
            }
            let array = |id: ArrayId| to.arrays.get(id.index()).copied().flatten().unwrap_or(id);
            let expr = |id: ExprId| to.exprs.get(id.index()).copied().unwrap_or(id);
            let reason = match &condition.reason {
                ConditionReason::Where(text) if text.contains(": ") => ConditionReason::Where(text.clone()),
                ConditionReason::Where(text) => ConditionReason::Where(format!("{}: {text}", callee.name)),
                ConditionReason::Extent(id, axis) => ConditionReason::Extent(array(*id), *axis),
                ConditionReason::NotNegative(id, axis, extent) => ConditionReason::NotNegative(array(*id), *axis, expr(*extent)),
                ConditionReason::InRange(id, axis, value) => ConditionReason::InRange(array(*id), *axis, expr(*value)),
            };
            self.kernel.conditions.push(Condition { holds, span: condition.span, reason });
        }
        Some(())
    }

    fn copy_statements(&mut self, callee: &Kernel, to: &Substitution, span: Span) {
        let expr = |id: ExprId| to.exprs.get(id.index()).copied().unwrap_or(id);
        for statement in &callee.statements {
            let copied = Statement {
                array: to.arrays.get(statement.array.index()).copied().flatten().unwrap_or(statement.array),
                variables: statement
                    .variables
                    .iter()
                    .map(|ranged| Ranged {
                        variable: to.variables.get(ranged.variable.index()).copied().unwrap_or(ranged.variable),
                        lo: expr(ranged.lo),
                        hi: expr(ranged.hi),
                    })
                    .collect(),
                subscripts: statement.subscripts.iter().map(|subscript| walk::subscript(subscript, &mut |id| expr(id))).collect(),
                value: expr(statement.value),
                kind: statement.kind,
                attributes: statement.attributes.clone(),
                span: statement.span,
            };
            let index = self.kernel.statements.len();
            self.defined[copied.array.index()].statements.push(index);
            self.kernel.statements.push(copied);
        }
        let _ = span;
    }
}

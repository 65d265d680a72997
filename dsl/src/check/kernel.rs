//! A kernel from its header to its last statement.

use super::define::Defined;
use super::infer::Ty;
use super::inline::MOST_STATEMENTS;
use super::lower::{Lower, Place};
use super::names::Binding;
use crate::ast;
use crate::diagnostic::{Diagnostic, codes};
use crate::parser::is_reserved;
use crate::program::{
    Array, ArrayId, Condition, ConditionReason, Dim, ExprId, Kernel, Parameter, Role, Scalar, Statement, StatementKind,
};
use crate::source::Span;
use crate::types::Type;

/// The most dimensions of an array.
pub(crate) const MAX_RANK: usize = 8;
/// The most parameters of a kernel, about what a launch can pass; and the most results, and conditions.
const MOST_PARAMETERS: usize = 1024;

impl Lower<'_> {
    /// Checks a kernel.
    pub(crate) fn kernel(mut self, k: &ast::Kernel) -> (Option<Kernel>, Vec<Diagnostic>) {
        self.kernel.name = k.name.text.clone();
        self.kernel.doc = k.doc.clone();
        self.kernel.span = k.name.span;
        if let Some(problem) = too_long(k) {
            return (None, vec![problem]);
        }
        let licences = self.attributes(&k.attributes);
        self.kernel.attributes = licences.attributes.clone();
        self.parameters(&k.parameters);
        self.conditions(&k.conditions);
        let named_by_statements = self.results(k);
        self.settle();
        self.distrust_extents();
        self.header_failed = self.failed_since(0);
        if !self.failed_since(0) && !self.poisoned {
            self.check_extents();
        }
        for statement in &k.statements {
            self.statement(statement, &licences);
        }
        if !named_by_statements {
            self.final_value(k, &licences);
        }
        if !self.failed_since(0) && !self.poisoned {
            self.check_results();
            self.take_joined();
        }
        let failed = self.failed_since(0) || self.poisoned;
        if cfg!(debug_assertions) && !failed {
            if let Err(broken) = crate::program::verify::kernel(&self.kernel) {
                let message = format!("internal error of the compiler: {broken}");
                self.report(Diagnostic::error(codes::INTERNAL, k.name.span, message, "in this kernel"));
            }
        }
        let failed = failed || self.failed_since(0);
        ((!failed).then_some(self.kernel), self.problems)
    }

    fn parameters(&mut self, parameters: &[ast::Parameter]) {
        // Scalars first: one that stands later may still be a dim.
        let mut slots: Vec<Option<Parameter>> = Vec::new();
        for parameter in parameters {
            if parameter.ty.dims.is_some() {
                slots.push(None);
                continue;
            }
            let ty = self.element_type(&parameter.ty.element);
            let (name, span) = (parameter.name.text.clone(), parameter.name.span);
            let scalar = self.kernel.scalars.push(Scalar { name, ty: ty.unwrap_or(Type::F32), span });
            let binding = if ty.is_some() { Binding::Scalar(scalar) } else { Binding::Broken };
            self.bind_new(&parameter.name, binding);
            slots.push(Some(Parameter::Scalar(scalar)));
        }
        let mut arrays = Vec::new();
        for (parameter, slot) in parameters.iter().zip(&mut slots) {
            let Some(dims) = parameter.ty.dims.as_ref().filter(|_| slot.is_none()) else { continue };
            let array = self.declare(&parameter.name, &parameter.ty, Role::Parameter);
            *slot = Some(Parameter::Array(array));
            self.bind_dims(array, dims);
            arrays.push((array, dims));
        }
        for (array, dims) in arrays {
            self.shape(array, dims);
        }
        self.kernel.parameters = slots.into_iter().flatten().collect();
    }

    /// Binds names that stand alone and stand for nothing yet.
    fn bind_dims(&mut self, array: ArrayId, dims: &[ast::Expr]) {
        for (axis, dim) in dims.iter().enumerate() {
            let ast::ExprKind::Name(name) = &super::expr::unparenthesized(dim).kind else { continue };
            if self.names.find(name).is_some() || is_reserved(name) {
                continue;
            }
            let id = self.kernel.dims.push(Dim { name: name.clone(), span: dim.span, array, axis });
            self.names.bind(name, Binding::Dim(id), dim.span);
        }
    }

    /// A new array without its shape, bound to its name.
    fn declare(&mut self, name: &ast::Name, ty: &ast::TypeExpr, role: Role) -> ArrayId {
        let element = self.element_type(&ty.element);
        let rank = ty.dims.as_ref().map_or(0, Vec::len);
        let array = Array { name: name.text.clone(), span: name.span, element: element.unwrap_or(Type::F32), shape: Vec::new(), role };
        let array = self.kernel.arrays.push(array);
        self.defined.push(Defined::new(role));
        let ranked = rank <= MAX_RANK;
        if !ranked {
            let message = format!("`{}` has {rank} dimensions, and the most is {MAX_RANK}", name.text);
            self.report(Diagnostic::error(codes::TOO_MANY_DIMENSIONS, ty.span, message, format!("{rank} dimensions")));
        }
        let binding = if element.is_some() && ranked { Binding::Array(array) } else { Binding::Broken };
        self.bind_new(name, binding);
        array
    }

    fn shape(&mut self, array: ArrayId, dims: &[ast::Expr]) {
        let place = std::mem::replace(&mut self.place, Place::Header);
        let shape = dims
            .iter()
            .map(|dim| match self.index(dim, "a dim") {
                Some(id) => id,
                None => {
                    self.defined[array.index()].broken = true;
                    self.poison(dim.span)
                }
            })
            .collect();
        self.place = place;
        self.kernel.arrays[array].shape = shape;
    }

    fn conditions(&mut self, conditions: &[ast::Expr]) {
        self.place = Place::Header;
        for condition in conditions {
            let Some(holds) = self.condition(condition, "a `where` condition") else { continue };
            let reason = ConditionReason::Where(self.text(condition.span).to_string());
            self.kernel.conditions.push(Condition { holds, span: condition.span, reason });
        }
        self.place = Place::Statement;
    }

    /// Arrays whose extents are in error: nothing is said of their subscripts.
    fn distrust_extents(&mut self) {
        for (id, array) in self.kernel.arrays.iter() {
            let wrong = |&extent: &ExprId| super::walk::in_order(&self.kernel, extent).iter().any(|&id| self.ty(id) == Ty::Poison);
            if array.shape.iter().any(wrong) {
                self.defined[id.index()].broken = true;
            }
        }
    }

    /// Declares the results. Says whether statements define one that the header should have named.
    fn results(&mut self, k: &ast::Kernel) -> bool {
        match &k.results {
            ast::Results::Unnamed(ty) => {
                if let Some(name) = self.meant_result(k) {
                    self.unnamed_result(ty, name);
                    return true;
                }
                if let Some(dims) = &ty.dims {
                    self.unnamed_array(ty, dims.len(), k.value.as_ref());
                }
                let element = self.element_type(&ty.element).unwrap_or(Type::F32);
                let array = Array { name: "out".into(), span: ty.span, element, shape: Vec::new(), role: Role::Result };
                let array = self.kernel.arrays.push(array);
                self.defined.push(Defined::new(Role::Result));
                self.kernel.results.push(array);
            }
            ast::Results::Named(list) => {
                for result in list {
                    let array = self.declare(&result.name, &result.ty, Role::Result);
                    self.kernel.results.push(array);
                }
                for (result, array) in list.iter().zip(self.kernel.results.clone()) {
                    if let Some(dims) = &result.ty.dims {
                        self.shape(array, dims);
                    }
                }
            }
        }
        false
    }

    /// The first name that statements define although nothing introduces it, in a kernel without a final expression.
    fn meant_result<'a>(&self, k: &'a ast::Kernel) -> Option<&'a ast::Name> {
        let lets: Vec<&str> = k.statements.iter().flat_map(let_names).collect();
        let unknown = |name: &ast::Name| self.names.find(&name.text).is_none() && !lets.contains(&name.text.as_str());
        let defined = k.statements.iter().filter_map(|statement| match &statement.kind {
            ast::StatementKind::Define { target, .. } | ast::StatementKind::Accumulate { target, .. } => Some(&target.name),
            _ => None,
        });
        defined.filter(|_| k.value.is_none()).find(|name| unknown(name))
    }

    /// `-> f32[n] { y[i] = …; }`: goes on as if the result had the name.
    fn unnamed_result(&mut self, ty: &ast::TypeExpr, name: &ast::Name) {
        if Type::from_name(&ty.element.text).is_some() {
            let message = format!("the result has no name, and a statement defines `{}`", name.text);
            let start = Span { start: ty.span.start, end: ty.span.start };
            self.report(
                Diagnostic::error(codes::RESULT_FORM, ty.span, message, "no name")
                    .label(name.span, format!("`{}` is no result", name.text))
                    .suggest("name the result", start, format!("{}: ", name.text)),
            );
        }
        if ty.element.text == name.text {
            let message = format!("the result `{}` has no type", name.text);
            let end = Span { start: ty.element.span.end, end: ty.element.span.end };
            let problem = Diagnostic::error(codes::RESULT_FORM, ty.span, message, "no type");
            self.report(problem.suggest("such as", end, ": f32[…]"));
            self.names.bind(&name.text, Binding::Broken, ty.span);
            return;
        }
        let name = ast::Name { text: name.text.clone(), span: ty.span };
        let array = self.declare(&name, ty, Role::Result);
        self.kernel.results.push(array);
        if let Some(dims) = &ty.dims {
            self.shape(array, dims);
        }
    }

    /// `-> f32[n]` with a final expression or none.
    fn unnamed_array(&mut self, ty: &ast::TypeExpr, rank: usize, value: Option<&ast::Expr>) {
        let problem = Diagnostic::error(codes::RESULT_FORM, ty.span, "an array result needs a name", "no name");
        let text = self.text(ty.span);
        let Some(value) = value else {
            self.report(problem.help(format!("name it, and define it by a statement: `-> y: {text}`")));
            return;
        };
        let name = ["y", "z", "out", "result"].into_iter().find(|name| self.names.find(name).is_none()).unwrap_or("y_");
        let indices: Vec<&str> = INDICES.into_iter().filter(|name| self.names.find(name).is_none()).take(rank).collect();
        let at = |at: u32| Span { start: at, end: at };
        let edits = vec![
            (at(ty.span.start), format!("{name}: ")),
            (at(value.span.start), format!("{name}[{}] = ", indices.join(", "))),
            (at(value.span.end), ";".to_string()),
        ];
        self.report(problem.suggest_edits("name it, and define its elements", edits));
    }

    fn final_value(&mut self, k: &ast::Kernel, licences: &super::attributes::Licences) {
        let mark = self.problems.len();
        match (&k.results, &k.value) {
            (ast::Results::Unnamed(ty), _) if ty.dims.is_some() => {} // said already
            (ast::Results::Unnamed(_), Some(value)) => {
                let Some(&array) = self.kernel.results.first() else { return };
                self.f64_asked = licences.accumulate;
                let id = self.expr(value);
                let id = self.store(id, self.kernel.arrays[array].element, "the result");
                self.settle();
                self.defined[array.index()].defined = true;
                let Some(value_id) = id.filter(|_| !self.failed_since(mark)) else { return };
                let statement = Statement {
                    array,
                    variables: Vec::new(),
                    subscripts: Vec::new(),
                    value: value_id,
                    kind: StatementKind::Define,
                    attributes: licences.attributes.clone(),
                    span: value.span,
                };
                self.finish(statement);
            }
            (ast::Results::Unnamed(ty), None) => {
                let end = Span { start: k.span.end.saturating_sub(1), end: k.span.end };
                let message = format!("`{}` gives no value", k.name.text);
                let ty = self.text(ty.span).to_string();
                let help = format!("end it with an expression of type {ty}, without a semicolon, or name the result: `-> y: {ty}`");
                self.report(Diagnostic::error(codes::RESULT_FORM, end, message, "no final expression").help(help));
            }
            (ast::Results::Named(_), Some(value)) => {
                let message = "the results of this kernel have names, so it has no final expression";
                let problem = Diagnostic::error(codes::RESULT_FORM, value.span, message, "not used");
                self.report(self.missing_definition(problem, value.span));
            }
            (ast::Results::Named(_), None) => {}
        }
    }

    /// Says how a final expression defines the one result of a kernel.
    fn missing_definition(&self, problem: Diagnostic, value: Span) -> Diagnostic {
        let [array] = self.kernel.results[..] else {
            return problem.help("define each result by a statement, such as `y[i] = …;`");
        };
        let array = &self.kernel.arrays[array];
        let start = Span { end: value.start, ..value };
        let end = Span { start: value.end, ..value };
        let left = left_side(&array.name, array.rank());
        problem.suggest_edits("define the result by a statement", vec![(start, format!("{left} = ")), (end, ";".into())])
    }
}

/// A kernel with more of something than the compiler takes.
fn too_long(k: &ast::Kernel) -> Option<Diagnostic> {
    let results = if let ast::Results::Named(results) = &k.results { results.as_slice() } else { &[] };
    let one_too_many = [
        (MOST_PARAMETERS, "parameters", k.parameters.get(MOST_PARAMETERS).map(|parameter| parameter.name.span)),
        (MOST_PARAMETERS, "results", results.get(MOST_PARAMETERS).map(|result| result.name.span)),
        (MOST_PARAMETERS, "conditions", k.conditions.get(MOST_PARAMETERS).map(|condition| condition.span)),
        (MOST_STATEMENTS, "statements", k.statements.get(MOST_STATEMENTS).map(|statement| statement.span)),
    ];
    let (most, what, span) = one_too_many.into_iter().find_map(|(most, what, span)| Some((most, what, span?)))?;
    let message = format!("this kernel has more than {most} {what}, which is a limit of the compiler");
    Some(Diagnostic::error(codes::LENGTH, span, message, "one too many").help("divide it into several kernels"))
}

/// Names for index variables in suggestions.
const INDICES: [&str; MAX_RANK] = ["i", "j", "k", "l", "o", "p", "q", "r"];

/// `y[i, j]`
pub(crate) fn left_side(name: &str, rank: usize) -> String {
    if rank == 0 { name.to_string() } else { format!("{name}[{}]", INDICES[..rank.min(MAX_RANK)].join(", ")) }
}

/// What a statement introduces.
fn let_names(statement: &ast::Statement) -> Vec<&str> {
    match &statement.kind {
        ast::StatementKind::Let { target, .. } => vec![&target.name.text],
        ast::StatementKind::LetCall { names, .. } => names.iter().map(|name| name.text.as_str()).collect(),
        _ => Vec::new(),
    }
}

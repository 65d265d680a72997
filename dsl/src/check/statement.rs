//! Statements of a kernel: left sides, values, and what each adds to the program.

use super::attributes::Licences;
use super::define::Defined;
use super::expr::unparenthesized;
use super::infer::Ty;
use super::kernel::MAX_RANK;
use super::lower::Lower;
use super::names::{Binding, nearest};
use super::visit;
use crate::ast::{self, ExprKind as Ast, StatementKind as Stmt};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::{Array, ArrayId, Bounds, ExprId, Ranged, Role, Statement, StatementKind, Subscript};
use crate::prover;
use crate::source::Span;
use crate::types::{AccumulateOp, Type};

impl Lower<'_> {
    pub(crate) fn statement(&mut self, statement: &ast::Statement, kernel: &Licences) {
        let licences = self.attributes(&statement.attributes).over(kernel);
        self.f64_asked = licences.accumulate;
        let mark = self.names.enter();
        match &statement.kind {
            Stmt::Define { target, value } => self.define(target, value, None, statement.span, &licences),
            Stmt::Accumulate { target, op, value } => self.define(target, value, Some(*op), statement.span, &licences),
            Stmt::LetCall { names, value } => {
                self.refuse_attributes(statement);
                self.let_call(names, value, mark);
            }
            Stmt::Let { target, ty, value } => match self.called_kernel(value) {
                true => {
                    self.refuse_attributes(statement);
                    self.let_of_call(target, ty.as_ref(), value, mark);
                }
                false => self.let_array(target, ty.as_ref(), value, statement.span, &licences, mark),
            },
        }
        self.settle();
    }

    fn refuse_attributes(&mut self, statement: &ast::Statement) {
        if let Some(attribute) = statement.attributes.first() {
            let message = "an attribute does not reach into a called kernel";
            let problem = Diagnostic::error(codes::ATTRIBUTE_ARGUMENTS, attribute.span, message, "before a kernel call");
            self.report(problem.help("put it before the kernel that is called"));
        }
    }

    pub(crate) fn called_kernel(&self, value: &ast::Expr) -> bool {
        match &unparenthesized(value).kind {
            Ast::Call { function, .. } => {
                self.items.kernel_names.contains_key(&function.text) && !self.items.function_names.contains_key(&function.text)
            }
            _ => false,
        }
    }

    fn let_of_call(&mut self, target: &ast::Target, ty: Option<&ast::TypeExpr>, value: &ast::Expr, mark: usize) {
        if target.subscripts.is_some() {
            let message = "a kernel's result is named without subscripts";
            let help = format!("write `let {} = …`", target.name.text);
            self.report(Diagnostic::error(codes::KERNEL_IN_EXPRESSION, target.span, message, "subscripts").help(help));
            self.names.bind(&target.name.text, Binding::Broken, target.name.span);
            return;
        }
        if let Some(ty) = ty {
            let message = "a kernel's result has the type that the kernel gives it";
            self.report(Diagnostic::error(codes::NOT_HERE, ty.span, message, "a type").help("leave the type out"));
        }
        self.let_call(std::slice::from_ref(&target.name), value, mark);
    }

    /// `y[i] = e` and `y[i] op= e`.
    fn define(&mut self, target: &ast::Target, value: &ast::Expr, op: Option<AccumulateOp>, span: Span, licences: &Licences) {
        let mark = self.problems.len();
        let scope = self.names.enter();
        let array = self.target(target, op);
        let none = Vec::new();
        let subscripts = target.subscripts.as_ref().unwrap_or(&none);
        if let Some(array) = array {
            if target.subscripts.is_none() && self.kernel.arrays[array].rank() > 0 {
                self.whole_array(array, target, value);
                self.defined[array.index()].broken = true;
                return;
            }
            if self.kernel.arrays[array].rank() != subscripts.len() {
                self.wrong_rank(array, target.name.span, target.span, subscripts.len());
            }
        }
        let outside = std::mem::replace(&mut self.earlier_known, op.is_none());
        let variables = self.left_variables(array, subscripts, value);
        self.earlier_known = outside;
        let failed = self.failed_since(mark);
        self.current = array;
        let left: Vec<Option<Subscript>> =
            subscripts.iter().enumerate().map(|(axis, subscript)| self.left_subscript(array, axis, subscript, op)).collect();
        let id = self.expr(value);
        self.current = None;
        let stored = array.and_then(|array| {
            let element = self.kernel.arrays[array].element;
            let name = format!("`{}`", target.name.text);
            self.store(id, if op.is_some() { element.widened() } else { element }, &name)
        });
        if let (Some(array), Some(op)) = (array, op) {
            self.check_operator(array, op, target.span);
        }
        self.names.leave(scope);
        self.settle();
        let Some(array) = array else { return };
        let defined = &mut self.defined[array.index()];
        defined.defined = true;
        let left: Option<Vec<Subscript>> = left.into_iter().collect();
        let (Some(left), Some(variables), Some(value), false) = (left, variables, stored, failed || self.failed_since(mark)) else {
            self.defined[array.index()].broken = true;
            return;
        };
        let kind = match op {
            None => StatementKind::Define,
            Some(op) => {
                let from_identity = self.defined[array.index()].statements.is_empty();
                self.defined[array.index()].accumulated = Some(target.span);
                StatementKind::Accumulate { op, from_identity }
            }
        };
        if op.is_none() && !self.affine_left(array, &left) {
            self.defined[array.index()].broken = true;
            return;
        }
        let attributes = licences.attributes.clone();
        self.finish(Statement { array, variables, subscripts: left, value, kind, attributes, span });
    }

    /// The array on a left side, if it may stand there.
    fn target(&mut self, target: &ast::Target, op: Option<AccumulateOp>) -> Option<ArrayId> {
        let name = &target.name;
        let Some(entry) = self.names.find(&name.text) else {
            let results = self.kernel.results.iter().map(|&id| self.kernel.arrays[id].name.as_str());
            let guess = nearest(&name.text, results).map(str::to_string);
            if !self.unknown.insert(name.text.clone()) {
                self.poisoned = true;
                return None; // said once
            }
            let message = format!("unknown result `{}`", name.text);
            let mut problem = Diagnostic::error(codes::UNKNOWN_NAME, name.span, message, "no result of this name");
            problem = match guess {
                Some(guess) => problem.suggest(format!("did you mean `{guess}`?"), name.span, guess),
                None => problem.help(format!("an intermediate array is introduced by `let {}`", self.text(target.span))),
            };
            self.report(problem);
            return None;
        };
        let array = match entry.binding {
            Binding::Broken => return None,
            Binding::Array(array) if self.kernel.arrays[array].role == Role::Result => array,
            Binding::Array(array) if self.kernel.arrays[array].role == Role::Let => {
                let message = format!("`{}` is already defined by its `let`", name.text);
                let problem = Diagnostic::error(codes::CANT_DEFINE, name.span, message, "defined again");
                self.report(problem.label(entry.span, "defined here").help("statements define results; take a new name"));
                return None;
            }
            other => {
                let what = match other {
                    Binding::Array(_) => "a parameter",
                    other => other.what(),
                };
                let message = format!("`{}` is {what} and can't be defined", name.text);
                let problem = Diagnostic::error(codes::CANT_DEFINE, name.span, message, "not a result");
                self.report(
                    problem
                        .label(entry.span, format!("{what} here"))
                        .help("statements define results; `let` introduces intermediates"),
                );
                return None;
            }
        };
        self.still_open(array, target, op).then_some(array)
    }

    /// Whether a result may still be defined, or accumulated into.
    fn still_open(&mut self, array: ArrayId, target: &ast::Target, op: Option<AccumulateOp>) -> bool {
        let Defined { broken, read, accumulated, .. } = self.defined[array.index()].clone();
        let name = &target.name.text;
        if broken {
            return true;
        }
        if let Some(read) = read {
            let message = format!("`{name}` is already read above");
            let problem = Diagnostic::error(codes::READ_TOO_EARLY, target.span, message, "defined further here");
            self.report(problem.label(read, "read here").help("complete its definition before it is read"));
            return false;
        }
        if let Some(earlier) = accumulated {
            let what = if op.is_some() { "accumulated into twice" } else { "defined after it is accumulated into" };
            let problem = Diagnostic::error(codes::ACCUMULATION, target.span, format!("`{name}` is {what}"), "again");
            let help = "an array is accumulated into by one statement, which stands after its definition if it has one";
            self.report(problem.label(earlier, "accumulated into here").help(help));
            return false;
        }
        true
    }

    fn check_operator(&mut self, array: ArrayId, op: AccumulateOp, span: Span) {
        let ty = self.kernel.arrays[array].element;
        let fits = match op {
            AccumulateOp::Or | AccumulateOp::And => !ty.is_float(),
            _ => ty != Type::Bool,
        };
        if !fits {
            let help = if ty == Type::Bool { "bools have `|=` (any) and `&=` (all)" } else { "floats have `+= *= min= max=`" };
            self.report(Diagnostic::error(codes::ACCUMULATION, span, format!("`{op}` is not defined for {ty}"), ty.name()).help(help));
        }
    }

    fn left_subscript(
        &mut self,
        array: Option<ArrayId>,
        axis: usize,
        subscript: &ast::Subscript,
        op: Option<AccumulateOp>,
    ) -> Option<Subscript> {
        let index = self.subscript_index(&subscript.index);
        let bounds = match (&subscript.rule, op) {
            (None, None) => Bounds::Proved,
            (None, Some(_)) => Bounds::Checked,
            (Some(ast::Rule::Name(name)), Some(_)) => match name.text.as_str() {
                "drop" => Bounds::Drop,
                "assume" => Bounds::Assumed,
                "clamp" => Bounds::Clamp,
                "wrap" => Bounds::Wrap,
                "mirror" => Bounds::Mirror,
                "symmetric" => Bounds::Symmetric,
                other => {
                    let message = format!("`{other}` is no boundary rule of an accumulation");
                    let problem = Diagnostic::error(codes::BOUNDARY_RULE, name.span, message, "unknown rule");
                    self.report(problem.help("the rules are drop clamp wrap mirror symmetric assume"));
                    return None;
                }
            },
            (Some(ast::Rule::Value(value)), Some(_)) => {
                let message = "an accumulation has no value outside";
                let problem = Diagnostic::error(codes::BOUNDARY_RULE, value.span, message, "a value");
                self.report(problem.help("`| drop` leaves out what falls outside"));
                return None;
            }
            (Some(_), None) => {
                let message = "the left side of a definition takes no boundary rule";
                let problem = Diagnostic::error(codes::BOUNDARY_RULE, subscript.span, message, "a rule");
                self.report(problem.help("define exactly the elements that the array has"));
                return None;
            }
        };
        index.map(|index| match array {
            Some(array) => Subscript { index: self.within_i64(index, &bounds, array, axis), bounds },
            None => Subscript { index, bounds },
        })
    }

    /// Names on a left side that nothing in scope defines, in order of appearance.
    fn fresh_names(&mut self, array: Option<ArrayId>, subscripts: &[ast::Subscript]) -> Vec<ast::Name> {
        let mut found: Vec<ast::Name> = Vec::new();
        let mut inner: Vec<String> = Vec::new();
        for (axis, subscript) in subscripts.iter().enumerate() {
            if let Ast::Name(name) = &unparenthesized(&subscript.index).kind {
                let name = ast::Name { text: name.clone(), span: subscript.index.span };
                let constant = is_constant_name(&name.text) || self.names_element(array, axis, &subscript.index, &name.text);
                if found.iter().all(|other| other.text != name.text) && !constant {
                    found.push(name);
                }
                continue;
            }
            visit::each(&subscript.index, |e| match &e.kind {
                Ast::Reduce { variables, .. } => inner.extend(variables.iter().map(|variable| variable.name.text.clone())),
                Ast::Name(name) => {
                    let fresh = self.names.find(name).is_none() && !is_constant_name(name) && !inner.contains(name);
                    if fresh && found.iter().all(|other| other.text != *name) {
                        found.push(ast::Name { text: name.clone(), span: e.span });
                    }
                }
                _ => {}
            });
        }
        found
    }

    /// Whether a name that stands alone on a left side is bound to a value, and so names an element: a constant, or a dim or
    /// scalar that is an index of the axis whatever it is. Else an index variable is meant whose name is taken.
    fn names_element(&mut self, array: Option<ArrayId>, axis: usize, index: &ast::Expr, name: &str) -> bool {
        match self.names.find(name).map(|entry| entry.binding) {
            Some(Binding::Constant(_)) => true,
            Some(Binding::Array(id)) => self.kernel.arrays[id].rank() > 0, // said where it is read
            Some(Binding::Dim(_) | Binding::Scalar(_)) => {
                let Some(&extent) = array.and_then(|array| self.kernel.arrays[array].shape.get(axis)) else { return false };
                let ty = match self.names.find(name).map(|entry| entry.binding) {
                    Some(Binding::Scalar(scalar)) => self.kernel.scalars[scalar].ty,
                    _ => Type::I64,
                };
                ty.is_integer()
                    && self.index(index, "a subscript").is_some_and(|index| prover::in_range(&self.kernel, &[], index, extent))
            }
            _ => false,
        }
    }

    /// Binds the variables of a left side with their ranges; `None` if one has no range.
    fn left_variables(&mut self, array: Option<ArrayId>, subscripts: &[ast::Subscript], value: &ast::Expr) -> Option<Vec<Ranged>> {
        let names = self.fresh_names(array, subscripts);
        let mut ranged = Vec::new();
        let mut complete = true;
        for name in names {
            let stated = subscripts.iter().filter(|subscript| is_name(&subscript.index, &name.text)).find_map(|s| s.range.as_ref());
            let stated = stated.map(|range| self.left_range(range));
            let variable = self.new_variable(&name);
            if let Some(ends) = stated {
                match (variable, ends) {
                    (Some(variable), Some((lo, hi))) => ranged.push(Ranged { variable, lo, hi }),
                    _ => complete = false,
                }
                continue;
            }
            let mut alone = Vec::new();
            for (axis, subscript) in subscripts.iter().enumerate() {
                let is_alone = is_name(&subscript.index, &name.text);
                if let (true, Some(array), None) = (is_alone, array, &subscript.rule) {
                    alone.push((array, axis, subscript.span));
                }
            }
            let hi = if array.is_none_or(|array| self.defined[array.index()].broken) {
                None // what it ranges over is unknown, and that has been said
            } else if alone.is_empty() {
                let mut roots: Vec<&ast::Expr> = subscripts.iter().map(|subscript| &subscript.index).collect();
                roots.push(value);
                self.in_left = true;
                let range = self.range_from_uses(&name, &roots);
                self.in_left = false;
                range
            } else {
                self.one_range(&name, &alone)
            };
            match (variable, hi) {
                (Some(variable), Some(hi)) => {
                    let lo = self.int(0, name.span);
                    ranged.push(Ranged { variable, lo, hi });
                }
                _ => complete = false,
            }
        }
        complete.then_some(ranged)
    }

    /// `let t[i, j] = e;` and `let s = e;`
    fn let_array(
        &mut self,
        target: &ast::Target,
        ty: Option<&ast::TypeExpr>,
        value: &ast::Expr,
        span: Span,
        licences: &Licences,
        outer: usize,
    ) {
        let mark = self.problems.len();
        let none = Vec::new();
        let subscripts = target.subscripts.as_ref().unwrap_or(&none);
        let ranges = self.let_ranges(subscripts, value);
        let stated = ty.map(|ty| self.scalar_type(ty));
        self.scalar_let = target.subscripts.is_none().then_some(target.name.span);
        let id = self.expr(value);
        self.scalar_let = None;
        let name = format!("`{}`", target.name.text);
        let id = match stated {
            Some(Some(ty)) => self.store(id, ty, &name),
            Some(None) => None,
            None => Some(id).filter(|&id| self.ty(id) != Ty::Poison),
        };
        let element = id.and_then(|id| self.decide(id));
        self.names.leave(outer);
        self.settle();
        if subscripts.len() > MAX_RANK {
            let (rank, name) = (subscripts.len(), &target.name);
            let message = format!("`{}` has {rank} dimensions, and the most is {MAX_RANK}", name.text);
            self.report(Diagnostic::error(codes::TOO_MANY_DIMENSIONS, target.span, message, format!("{rank} dimensions")));
        }
        let (Some(ranges), Some(value), Some(element), false) = (ranges, id, element, self.failed_since(mark)) else {
            if self.names.find(&target.name.text).is_none() {
                self.names.bind(&target.name.text, Binding::Broken, target.name.span);
            }
            return;
        };
        let array = Array {
            name: target.name.text.clone(),
            span: target.name.span,
            element,
            shape: ranges.iter().map(|ranged| ranged.hi).collect(),
            role: Role::Let,
        };
        let array = self.kernel.arrays.push(array);
        self.defined.push(Defined::new(Role::Let));
        if !self.bind_new(&target.name, Binding::Array(array)) {
            self.names.bind(&target.name.text, Binding::Broken, target.name.span); // either may be meant below
            return;
        }
        let subscripts = ranges
            .iter()
            .zip(subscripts)
            .map(|(ranged, subscript)| Subscript { index: self.variable(ranged.variable, subscript.span), bounds: Bounds::Proved })
            .collect();
        let kind = StatementKind::Define;
        let attributes = licences.attributes.clone();
        self.finish(Statement { array, variables: ranges, subscripts, value, kind, attributes, span });
    }

    fn let_ranges(&mut self, subscripts: &[ast::Subscript], value: &ast::Expr) -> Option<Vec<Ranged>> {
        let mut ranges = Vec::new();
        let mut complete = true;
        for subscript in subscripts {
            let Ast::Name(name) = &unparenthesized(&subscript.index).kind else {
                let message = "the left side of a `let` holds index variables alone";
                let problem = Diagnostic::error(codes::NOT_AFFINE, subscript.span, message, "not a variable");
                self.report(problem.help("each stands for its whole dimension: `let t[i, j] = …`"));
                self.break_names(&subscript.index);
                complete = false;
                continue;
            };
            if let Some(rule) = &subscript.rule {
                let _ = rule;
                let message = "the left side of a `let` takes no boundary rule";
                self.report(Diagnostic::error(codes::BOUNDARY_RULE, subscript.span, message, "a rule"));
                complete = false;
            }
            let name = ast::Name { text: name.clone(), span: subscript.index.span };
            let stated = subscript.range.as_ref().map(|range| self.let_range(range));
            let variable = self.new_variable(&name);
            let hi = match stated {
                Some(hi) => hi,
                None if variable.is_none() => None,
                None => self.range_from_uses(&name, &[value]),
            };
            match (variable, hi) {
                (Some(variable), Some(hi)) => {
                    let lo = self.int(0, name.span);
                    ranges.push(Ranged { variable, lo, hi });
                }
                _ => complete = false,
            }
        }
        complete.then_some(ranges)
    }

    /// What is said of an expression has been said: unknown names in it stand for something.
    fn break_names(&mut self, e: &ast::Expr) {
        let mut unknown = Vec::new();
        visit::each(e, |e| {
            if let Ast::Name(name) = &e.kind {
                unknown.push((name.clone(), e.span));
            }
        });
        for (name, span) in unknown {
            if self.names.find(&name).is_none() {
                self.names.bind(&name, Binding::Broken, span);
            }
        }
    }

    /// The ends of a range on a left side, made of dims and scalars.
    fn left_range(&mut self, range: &ast::Range) -> Option<(ExprId, ExprId)> {
        let place = std::mem::replace(&mut self.place, super::lower::Place::Header);
        let ends = self.range_ends(range);
        self.place = place;
        self.settle();
        ends
    }

    /// The extent of `i in 0..hi` on the left side of a `let`.
    fn let_range(&mut self, range: &ast::Range) -> Option<ExprId> {
        let (lo, hi) = self.left_range(range)?;
        if !self.is_zero(lo) {
            let message = "the range of a `let` starts at 0";
            let problem = Diagnostic::error(codes::BAD_RANGE, range.lo.span, message, "not 0");
            self.report(problem.help("shift the index in the value instead"));
            return None;
        }
        Some(self.not_negative(hi))
    }
}

fn is_name(e: &ast::Expr, name: &str) -> bool {
    matches!(&unparenthesized(e).kind, Ast::Name(text) if text == name)
}

fn is_constant_name(name: &str) -> bool {
    matches!(name, "INF" | "NAN" | "PI")
}

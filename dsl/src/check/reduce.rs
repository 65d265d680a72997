//! Reductions: variables, accumulators, nesting where ranges depend on one another, means.

use super::expr::unparenthesized;
use super::infer::{Kind, Ty};
use super::lower::{Closed, Lower, Place};
use super::visit;
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::{ExprId, ExprKind, Literal, Order, Ranged, Reduce, Variable};
use crate::source::Span;
use crate::types::{BinaryOp, Builtin, Reducer, Type};

/// The parts of a reduction once its variables and body are typed.
struct Parts {
    reducer: Reducer,
    /// Groups of independent ranges, the outermost first.
    groups: Vec<Vec<Ranged>>,
    filter: Option<ExprId>,
    body: ExprId,
    span: Span,
}

impl Lower<'_> {
    pub(crate) fn reduce(&mut self, e: &ast::Expr) -> ExprId {
        let Ast::Reduce { reducer, variables, filter, body } = &e.kind else { return self.poison(e.span) };
        let (reducer, reducer_span) = *reducer;
        if self.place != Place::Statement {
            let message = "a reduction stands only in a kernel's statements";
            self.report(Diagnostic::error(codes::NOT_HERE, reducer_span, message, "not allowed here"));
            return self.poison(e.span);
        }
        if matches!(reducer, Reducer::Argmin | Reducer::Argmax) && variables.len() != 1 {
            let message = format!("`{reducer}` takes one index variable, and this gives {}", variables.len());
            let help = "its result is the variable's value; nest two, or make one index of both";
            self.report(Diagnostic::error(codes::ARG_VARIABLES, reducer_span, message, "several variables").help(help));
            return self.poison(e.span);
        }
        let mark = self.problems.len();
        let scope = self.names.enter();
        let ranges = self.reduced_variables(variables, filter.as_deref(), body);
        let terms = std::mem::take(&mut self.f64_terms);
        let condition = filter.as_ref().map(|filter| self.condition(filter, "the condition of a reduction"));
        let adds = matches!(reducer, Reducer::Sum | Reducer::Prod | Reducer::Mean);
        self.f64_terms = terms || self.f64_asked && adds;
        let operands = std::mem::take(&mut self.operands);
        let typed = self.expr(body);
        self.operands = operands;
        let widened = std::mem::replace(&mut self.f64_terms, terms);
        self.names.leave(scope);
        let names = variables.iter().map(|variable| variable.name.text.clone()).collect();
        self.closed.push(Closed { variables: names, reduction: e.span, body: body.span });
        if self.ty(typed) == Ty::Poison || condition == Some(None) || self.failed_since(mark) {
            return self.poison(e.span);
        }
        let Some(ranges) = ranges else { return self.poison(e.span) };
        if matches!(reducer, Reducer::Sum | Reducer::Mean) {
            self.warn_division(reducer, variables, body, e.span);
        }
        if let (true, Ty::Open(open)) = (widened && adds, self.ty(typed)) {
            if self.infer.kind(open) == Kind::Float {
                let _ = self.infer.bind(open, Type::F64);
            }
        }
        let parts = Parts { reducer, groups: self.groups(ranges), filter: condition.flatten(), body: typed, span: e.span };
        self.build(parts, body)
    }

    /// Binds the variables of a bracket from left to right.
    fn reduced_variables(
        &mut self,
        variables: &[ast::IndexVariable],
        filter: Option<&ast::Expr>,
        body: &ast::Expr,
    ) -> Option<Vec<Ranged>> {
        let mut ranged = Vec::new();
        let mut complete = true;
        let terms = std::mem::take(&mut self.f64_terms);
        for (at, variable) in variables.iter().enumerate() {
            let stated = variable.range.as_ref().map(|range| self.range_ends(range));
            let fresh = self.names.find(&variable.name.text).is_none();
            let id = self.new_variable(&variable.name);
            let range = match stated {
                Some(range) => range,
                None if !fresh || id.is_none() => None,
                None => {
                    let mut roots: Vec<&ast::Expr> = filter.into_iter().collect();
                    roots.push(body);
                    let later = variables[at + 1..].iter().filter_map(|variable| variable.range.as_ref());
                    roots.extend(later.flat_map(|range| [&range.lo, &range.hi]));
                    let hi = self.range_from_uses(&variable.name, &roots);
                    hi.map(|hi| (self.int(0, variable.name.span), hi))
                }
            };
            match (id, range) {
                (Some(variable), Some((lo, hi))) => ranged.push(Ranged { variable, lo, hi }),
                _ => complete = false,
            }
        }
        self.f64_terms = terms;
        complete.then_some(ranged)
    }

    /// Splits a bracket where a range depends on a variable of the same group.
    fn groups(&self, ranges: Vec<Ranged>) -> Vec<Vec<Ranged>> {
        let mut groups: Vec<Vec<Ranged>> = Vec::new();
        for ranged in ranges {
            let depends = groups.last().is_some_and(|group| {
                group
                    .iter()
                    .any(|outer| [ranged.lo, ranged.hi].iter().any(|&end| super::walk::mentions(&self.kernel, end, outer.variable)))
            });
            match groups.last_mut() {
                Some(group) if !depends => group.push(ranged),
                _ => groups.push(vec![ranged]),
            }
        }
        groups
    }

    fn build(&mut self, mut parts: Parts, written: &ast::Expr) -> ExprId {
        let Some(body_ty) = self.decide(parts.body) else { return self.poison(parts.span) };
        let (reducer, span) = (parts.reducer, parts.span);
        let accumulator = match reducer {
            Reducer::Sum | Reducer::Prod => match body_ty {
                Type::U32 | Type::U64 => Type::U64,
                ty if ty.is_float() => ty.widened(),
                _ => Type::I64,
            },
            Reducer::Mean if body_ty.is_float() => body_ty.widened(),
            Reducer::Mean => return self.wrong_body(&parts, written, body_ty, "floats", Some(Type::F32)),
            Reducer::Any | Reducer::All | Reducer::Count if body_ty == Type::Bool => Type::Bool,
            Reducer::Any | Reducer::All | Reducer::Count => return self.wrong_body(&parts, written, body_ty, "bools", None),
            _ if body_ty == Type::Bool => return self.wrong_body(&parts, written, body_ty, "numbers", None),
            _ => body_ty,
        };
        parts.body = self.cast(parts.body, accumulator);
        match reducer {
            Reducer::Mean => {
                let count = self.count_terms(&parts);
                let sum = self.chain(&parts, Reducer::Sum, Reducer::Sum, accumulator);
                let count = self.cast(count, accumulator);
                self.push(ExprKind::Binary(BinaryOp::Div, sum, count), Ty::Known(accumulator), span)
            }
            Reducer::Count => self.chain(&parts, Reducer::Count, Reducer::Sum, Type::I64),
            Reducer::Argmin | Reducer::Argmax => self.chain(&parts, reducer, reducer, Type::I64),
            other => self.chain(&parts, other, other, accumulator),
        }
    }

    /// One `Reduce` per group, the innermost by `inner`, the others by `outer`.
    fn chain(&mut self, parts: &Parts, inner: Reducer, outer: Reducer, ty: Type) -> ExprId {
        let mut id = parts.body;
        for (at, group) in parts.groups.iter().enumerate().rev() {
            let innermost = at + 1 == parts.groups.len();
            let product = matches!(self.kernel.exprs[id].kind, ExprKind::Binary(BinaryOp::Mul, ..));
            let reduce = Reduce {
                reducer: if innermost { inner } else { outer },
                variables: group.clone(),
                filter: parts.filter.filter(|_| innermost),
                body: id,
                order: Order::Exact,
                fused: innermost && inner == Reducer::Sum && ty.is_float() && product,
            };
            id = self.push(ExprKind::Reduce(Box::new(reduce)), Ty::Known(ty), parts.span);
        }
        id
    }

    /// How many terms there are, as i64.
    fn count_terms(&mut self, parts: &Parts) -> ExprId {
        let span = parts.span;
        if let Some(filter) = parts.filter {
            let mut copies = std::collections::HashMap::new();
            let groups = self.fresh_groups(&parts.groups, &mut copies);
            let body = super::walk::copy(self, filter, &copies);
            let counted = Parts { reducer: Reducer::Count, groups, filter: None, body, span };
            return self.chain(&counted, Reducer::Count, Reducer::Sum, Type::I64);
        }
        let mut groups = parts.groups.clone();
        if groups.len() > 1 {
            groups = self.fresh_groups(&parts.groups, &mut std::collections::HashMap::new());
        }
        let mut id = None;
        for group in groups.iter().rev() {
            if let Some(inner) = id.take() {
                let reduce = Reduce {
                    reducer: Reducer::Sum,
                    variables: group.clone(),
                    filter: None,
                    body: inner,
                    order: Order::Exact,
                    fused: false,
                };
                id = Some(self.push(ExprKind::Reduce(Box::new(reduce)), Ty::Known(Type::I64), span));
                continue;
            }
            for ranged in group {
                let extent = self.extent(*ranged);
                id = Some(match id {
                    None => extent,
                    Some(id) => self.push(ExprKind::Binary(BinaryOp::Mul, id, extent), Ty::Known(Type::I64), span),
                });
            }
        }
        match id {
            Some(id) => id,
            None => self.int(1, span),
        }
    }

    /// The number of values of a variable.
    fn extent(&mut self, ranged: Ranged) -> ExprId {
        let span = self.span(ranged.hi);
        let difference = if self.is_zero(ranged.lo) {
            ranged.hi
        } else {
            self.push(ExprKind::Binary(BinaryOp::Sub, ranged.hi, ranged.lo), Ty::Known(Type::I64), span)
        };
        let plain = matches!(self.kernel.exprs[difference].kind, ExprKind::Dim(_))
            || matches!(self.kernel.exprs[difference].kind, ExprKind::Literal(Literal::Int(value)) if value > 0);
        if plain {
            return difference;
        }
        let zero = self.int(0, span);
        self.push(ExprKind::Builtin(Builtin::Max, vec![difference, zero]), Ty::Known(Type::I64), span)
    }

    /// The same ranges with variables of their own.
    fn fresh_groups(
        &mut self,
        groups: &[Vec<Ranged>],
        copies: &mut std::collections::HashMap<crate::program::VariableId, crate::program::VariableId>,
    ) -> Vec<Vec<Ranged>> {
        let mut fresh = Vec::new();
        for group in groups {
            let ranges: Vec<Ranged> = group
                .iter()
                .map(|ranged| {
                    let (lo, hi) = (super::walk::copy(self, ranged.lo, copies), super::walk::copy(self, ranged.hi, copies));
                    let Variable { name, span } = self.kernel.variables[ranged.variable].clone();
                    let variable = self.kernel.variables.push(Variable { name, span });
                    Ranged { variable, lo, hi }
                })
                .collect();
            for (old, new) in group.iter().zip(&ranges) {
                copies.insert(old.variable, new.variable);
            }
            fresh.push(ranges);
        }
        fresh
    }

    /// `any[i] x[i]` and `any[i] x[i] > 0.0`: a comparison is no part of a term without parentheses.
    fn compared_terms(&self, problem: Diagnostic, body: Span, ty: Type) -> Diagnostic {
        let at = |at: u32| Span { start: at, end: at };
        let (end, zero) = match self.compared {
            Some(end) if end > body.end => (end, ""),
            _ => (body.end, if ty.is_float() { " != 0.0" } else { " != 0" }),
        };
        let edits = vec![(at(body.start), "(".to_string()), (at(end), format!("{zero})"))];
        problem.suggest_edits("compare, in parentheses", edits)
    }

    fn wrong_body(&mut self, parts: &Parts, written: &ast::Expr, ty: Type, needs: &str, cast: Option<Type>) -> ExprId {
        let reducer = parts.reducer;
        let message = format!("`{reducer}` is defined for {needs}, and this body is {ty}");
        let code = if needs == "bools" { codes::NOT_BOOL } else { codes::NOT_DEFINED_FOR };
        let mut problem = Diagnostic::error(code, written.span, message, ty.name());
        if let Some(cast) = cast.filter(|_| ty.is_integer()) {
            let cast = self.cast_text(written.span, cast);
            problem = problem.suggest("cast the terms", written.span, cast);
        } else if needs == "bools" {
            problem = self.compared_terms(problem, written.span, ty);
        } else if ty == Type::Bool {
            problem = problem.help("for bools there are `any`, `all` and `count`");
        }
        self.report(problem);
        self.poison(parts.span)
    }

    /// Warns of `sum[k] x[k] / 9.0`.
    fn warn_division(&mut self, reducer: Reducer, variables: &[ast::IndexVariable], body: &ast::Expr, span: Span) {
        let Ast::Binary(BinaryOp::Div, op_span, dividend, divisor) = &body.kind else { return };
        let mut constant = true;
        visit::each(divisor, |e| {
            let name = match &e.kind {
                Ast::Name(name) => name,
                _ => return,
            };
            constant &= variables.iter().all(|variable| variable.name.text != *name);
        });
        if !constant || matches!(unparenthesized(dividend).kind, Ast::Error) {
            return;
        }
        let (open, close) = (Span { start: span.start, end: span.start }, Span { start: dividend.span.end, end: dividend.span.end });
        let by = self.text(divisor.span).to_string();
        self.report(
            Diagnostic::warning(
                codes::DIVISION_INSIDE,
                *op_span,
                format!("every term of this {reducer} is divided by `{by}`, which is the same for all"),
                "inside the reduction's body",
            )
            .suggest_edits("divide once, outside", vec![(open, "(".into()), (close, ")".into())]),
        );
    }
}

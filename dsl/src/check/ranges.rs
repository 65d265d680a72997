//! Ranges of index variables: as stated, or from the dimensions that a variable subscripts alone.

use super::expr::unparenthesized;
use super::infer::Ty;
use super::lower::Lower;
use super::names::Binding;
use super::visit;
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::{ArrayId, ExprId, ExprKind, Literal, Variable, VariableId};
use crate::source::Span;
use crate::types::{BinaryOp, Builtin, Type};

impl Lower<'_> {
    /// Introduces an index variable; `None` if its name is taken.
    pub(crate) fn new_variable(&mut self, name: &ast::Name) -> Option<VariableId> {
        let variable = self.kernel.variables.push(Variable { name: name.text.clone(), span: name.span });
        self.bind_new(name, Binding::Variable(variable)).then_some(variable)
    }

    pub(crate) fn variable(&mut self, variable: VariableId, span: Span) -> ExprId {
        self.push(ExprKind::Variable(variable), Ty::Known(Type::I64), span)
    }

    /// The ends of a stated range; the second is exclusive.
    pub(crate) fn range_ends(&mut self, range: &ast::Range) -> Option<(ExprId, ExprId)> {
        let lo = self.index(&range.lo, "the start of a range");
        let hi = self.index(&range.hi, "the end of a range");
        let (lo, hi) = (lo?, hi?);
        if !range.inclusive {
            return Some((lo, hi));
        }
        let span = range.hi.span;
        if let ExprKind::Literal(Literal::Int(value)) = self.kernel.exprs[hi].kind {
            if self.literals.iter().all(|(id, _)| *id != hi) {
                return Some((lo, self.int(value + 1, span)));
            }
        }
        let one = self.int(1, span);
        Some((lo, self.push(ExprKind::Binary(BinaryOp::Add, hi, one), Ty::Known(Type::I64), span)))
    }

    /// Whether an expression is the literal 0.
    pub(crate) fn is_zero(&self, id: ExprId) -> bool {
        match self.kernel.exprs[id].kind {
            ExprKind::Literal(Literal::Int(value)) => value == 0,
            ExprKind::Literal(_) => {
                self.literals.iter().any(|(literal, number)| *literal == id && *number == super::literals::Number::Int(Some(0)))
            }
            _ => false,
        }
    }

    /// An extent, clipped at 0 unless it is known not to be negative.
    pub(crate) fn not_negative(&mut self, extent: ExprId) -> ExprId {
        if crate::prover::not_negative(&self.kernel, extent) {
            return extent;
        }
        let span = self.span(extent);
        let zero = self.int(0, span);
        self.push(ExprKind::Builtin(Builtin::Max, vec![extent, zero]), Ty::Known(Type::I64), span)
    }

    /// The extent of the dimensions that a variable subscripts alone in some expressions.
    pub(crate) fn range_from_uses(&mut self, name: &ast::Name, roots: &[&ast::Expr]) -> Option<ExprId> {
        let mut places = Vec::new();
        let mut ruled: Option<Span> = None;
        let mut unknown = false;
        for root in roots {
            visit::each(root, |e| {
                let Ast::Index { array, subscripts } = &e.kind else { return };
                let alone = |s: &ast::Subscript| matches!(&unparenthesized(&s.index).kind, Ast::Name(text) if *text == name.text);
                for (axis, subscript) in subscripts.iter().enumerate().filter(|(_, subscript)| alone(subscript)) {
                    if subscript.rule.is_some() {
                        ruled = ruled.or(Some(subscript.span));
                        continue;
                    }
                    match self.names.find(&array.text).map(|entry| entry.binding) {
                        Some(Binding::Array(id)) if self.kernel.arrays[id].rank() == subscripts.len() => {
                            unknown |= self.defined[id.index()].broken;
                            places.push((id, axis, e.span));
                        }
                        _ => unknown = true, // reported where it is read
                    }
                }
            });
        }
        if unknown {
            return None;
        }
        if places.is_empty() {
            self.no_range(name, ruled);
            return None;
        }
        self.one_range(name, &places)
    }

    fn no_range(&mut self, name: &ast::Name, ruled: Option<Span>) {
        let text = &name.text;
        let message = format!("the index variable `{text}` has no range");
        let mut problem = Diagnostic::error(codes::NO_RANGE, name.span, message, "which values?");
        if let Some(ruled) = ruled {
            problem = problem.label(ruled, "a place with a boundary rule gives no range");
        }
        self.report(problem.help(if self.in_left {
            format!("nothing is read at `{text}` alone, which would give it a range; take one index for the axis, and an `if`")
        } else {
            format!("it subscripts no dimension alone and without a boundary rule; state its range: `{text} in 0..n`")
        }));
    }

    /// The one extent of several dimensions, or an error that names two that differ.
    pub(crate) fn one_range(&mut self, name: &ast::Name, places: &[(ArrayId, usize, Span)]) -> Option<ExprId> {
        let extent = |l: &Self, place: &(ArrayId, usize, Span)| l.kernel.arrays[place.0].shape.get(place.1).copied();
        let first = places.first()?;
        let hi = extent(self, first)?;
        for place in &places[1..] {
            let other = extent(self, place)?;
            if !crate::prover::same(&self.kernel, hi, other) {
                self.two_ranges(name, (first, hi), (place, other));
                return None;
            }
        }
        Some(hi)
    }

    fn two_ranges(&mut self, name: &ast::Name, a: (&(ArrayId, usize, Span), ExprId), b: (&(ArrayId, usize, Span), ExprId)) {
        let text = &name.text;
        let [x, y] = [a, b].map(|(_, extent)| crate::program::print::expr(&self.kernel, extent));
        let [p, q] = [a, b].map(|(place, _)| self.text(place.2).to_string());
        let message = format!("`{text}` has two ranges: 0..{x} in `{p}` and 0..{y} in `{q}`");
        self.report(
            Diagnostic::error(codes::RANGES_DIFFER, name.span, message, format!("0..{x} or 0..{y}?"))
                .label(a.0.2, format!("extent {x}"))
                .label(b.0.2, format!("extent {y}"))
                .help(format!("give both dimensions one name, add `where {x} == {y}`, or state the range: `{text} in 0..{x}`")),
        );
    }
}

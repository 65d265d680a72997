//! The state in which one kernel or function is turned from syntax into typed expressions.

use super::infer::{Infer, Kind, Open, Ty};
use super::items::Items;
use super::literals::Number;
use super::names::{Binding, Names};
use crate::arena::Arena;
use crate::ast;
use crate::diagnostic::{Diagnostic, codes};
use crate::parser::{is_reserved, reserved};
use crate::program::{Expr, ExprId, ExprKind, Kernel, Literal, Local, LocalStatement};
use crate::source::{Source, Span};
use crate::types::Type;

/// How deep expressions may nest, chains of binary operators aside: deeper than the parser allows, so that it says so first.
pub(crate) const MAX_DEPTH: usize = crate::parser::NESTING + crate::parser::NESTING / 8;

/// Where an expression stands, as far as rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a kernel's statement.
    Statement,
    /// In a dim, a `where` condition or a constant: no reads, no reductions.
    Header,
    /// In a `fn`.
    Function,
}

/// A reduction whose scope has ended, remembered for the message about its variables.
#[derive(Clone, Debug)]
pub(crate) struct Closed {
    pub(crate) variables: Vec<String>,
    pub(crate) reduction: Span,
    pub(crate) body: Span,
}

/// One kernel or function in the making.
pub(crate) struct Lower<'c> {
    pub(crate) items: &'c Items,
    pub(crate) source: &'c Source,
    pub(crate) problems: Vec<Diagnostic>,
    pub(crate) place: Place,
    pub(crate) names: Names<'c>,
    pub(crate) infer: Infer,
    /// Dims, scalars, arrays, variables and expressions; a function uses only the expressions.
    pub(crate) kernel: Kernel,
    /// The type of each expression of `kernel.exprs`.
    pub(crate) tys: Vec<Ty>,
    /// Expressions below are final.
    pub(crate) settled: usize,
    /// Literals whose type is open.
    pub(crate) literals: Vec<(ExprId, Number)>,
    /// Locals of a function, and their types.
    pub(crate) locals: Arena<Local>,
    pub(crate) local_tys: Vec<Ty>,
    /// Blocks of a function that are being filled, innermost last.
    pub(crate) blocks: Vec<Vec<LocalStatement>>,
    /// Whether floats are read as f64 (`@accumulate(f64)`, inside of a reduction's body), and whether it is asked for.
    pub(crate) f64_terms: bool,
    pub(crate) f64_asked: bool,
    /// Reductions of this statement that are over.
    pub(crate) closed: Vec<Closed>,
    /// The right operands of binary operators around the current expression.
    pub(crate) operands: Vec<Span>,
    pub(crate) depth: usize,
    /// Whether the expression stands in a subscript; the name that a `let` without subscripts defines.
    pub(crate) in_subscript: bool,
    pub(crate) scalar_let: Option<Span>,
    /// The end of the comparison whose left operand the expression is.
    pub(crate) compared: Option<u32>,
    /// Whether the variables of a left side are bound.
    pub(crate) in_left: bool,
    /// Whether the header holds an error, so that its extents say nothing.
    pub(crate) header_failed: bool,
    /// The array that the current statement defines.
    pub(crate) current: Option<crate::program::ArrayId>,
    /// Whether something could not be typed, here or where it is defined.
    pub(crate) poisoned: bool,
    /// Unknown names that have been reported.
    pub(crate) unknown: std::collections::BTreeSet<String>,
    /// What each array of the kernel is defined by, while it is checked.
    pub(crate) defined: Vec<super::define::Defined>,
    /// Definitions that stand for several.
    pub(crate) joined: Vec<super::regions::Joined>,
    /// Whether a range may depend on variables that stand before it on the left side.
    pub(crate) earlier_known: bool,
}

impl<'c> Lower<'c> {
    pub(crate) fn new(items: &'c Items, source: &'c Source, place: Place) -> Self {
        Lower {
            items,
            source,
            problems: Vec::new(),
            place,
            names: Names::new(&items.constant_names),
            infer: Infer::default(),
            kernel: Kernel::default(),
            tys: Vec::new(),
            settled: 0,
            literals: Vec::new(),
            locals: Arena::default(),
            local_tys: Vec::new(),
            blocks: Vec::new(),
            f64_terms: false,
            f64_asked: false,
            closed: Vec::new(),
            operands: Vec::new(),
            depth: 0,
            in_subscript: false,
            scalar_let: None,
            compared: None,
            in_left: false,
            header_failed: false,
            current: None,
            poisoned: false,
            unknown: std::collections::BTreeSet::new(),
            defined: Vec::new(),
            joined: Vec::new(),
            earlier_known: false,
        }
    }

    pub(crate) fn report(&mut self, problem: Diagnostic) {
        self.problems.push(problem);
    }

    pub(crate) fn text(&self, span: Span) -> &'c str {
        self.source.slice(span)
    }

    /// Whether an error has been reported since `mark` problems.
    pub(crate) fn failed_since(&self, mark: usize) -> bool {
        self.problems.iter().skip(mark).any(|problem| problem.severity == crate::diagnostic::Severity::Error)
    }

    /// Binds a name that must be new: no reserved word, nothing in scope. Says whether it is.
    pub(crate) fn bind_new(&mut self, name: &ast::Name, binding: Binding) -> bool {
        if is_reserved(&name.text) {
            self.report(reserved(&name.text, name.span));
            return false;
        }
        if let Some(entry) = self.names.find(&name.text) {
            if entry.binding != Binding::Broken {
                self.shadowing(name, entry);
            }
            return false;
        }
        self.names.bind(&name.text, binding, name.span);
        true
    }

    fn shadowing(&mut self, name: &ast::Name, entry: super::names::Entry) {
        let text = &name.text;
        let what = entry.binding.what();
        let mut problem =
            Diagnostic::error(codes::ALREADY_BOUND, name.span, format!("`{text}` is already bound"), format!("`{text}` again"));
        if entry.span != Span::default() {
            problem = problem.label(entry.span, format!("`{text}` is {what} here"));
        }
        let index = matches!(entry.binding, Binding::Variable(_));
        let fresh = self.fresh_name(text, index);
        self.report(problem.help(format!("names are never shadowed; take another name, such as `{fresh}`")));
    }

    /// A short name that is not in scope.
    fn fresh_name(&self, like: &str, index: bool) -> String {
        let letters = "ijklpqrstuvw".chars().map(String::from).filter(|_| index && like.len() == 1);
        letters.chain((2..).map(|number| format!("{like}{number}"))).find(|name| self.names.find(name).is_none()).unwrap_or_default()
    }

    // Expressions

    pub(crate) fn push(&mut self, kind: ExprKind, ty: Ty, span: Span) -> ExprId {
        let known = match ty {
            Ty::Known(ty) => ty,
            _ => Type::Bool,
        };
        self.tys.push(ty);
        self.kernel.exprs.push(Expr { kind, ty: known, span })
    }

    pub(crate) fn poison(&mut self, span: Span) -> ExprId {
        self.poisoned = true;
        self.push(ExprKind::Literal(Literal::Bool(false)), Ty::Poison, span)
    }

    pub(crate) fn int(&mut self, value: i128, span: Span) -> ExprId {
        self.push(ExprKind::Literal(Literal::Int(value)), Ty::Known(Type::I64), span)
    }

    /// A literal of open type.
    pub(crate) fn open_literal(&mut self, number: Number, span: Span) -> ExprId {
        let kind = if number.is_float() { Kind::Float } else { Kind::Number };
        let ty = self.infer.open(kind);
        let id = self.push(ExprKind::Literal(Literal::Bool(false)), ty, span);
        self.literals.push((id, number));
        id
    }

    pub(crate) fn ty(&self, id: ExprId) -> Ty {
        self.tys.get(id.index()).map_or(Ty::Poison, |&ty| self.infer.resolve(ty))
    }

    pub(crate) fn span(&self, id: ExprId) -> Span {
        self.kernel.exprs[id].span
    }

    /// Casts unless it has the type.
    pub(crate) fn cast(&mut self, id: ExprId, to: Type) -> ExprId {
        match self.ty(id) {
            Ty::Known(from) if from != to => {
                let span = self.span(id);
                self.push(ExprKind::Cast(id), Ty::Known(to), span)
            }
            _ => id,
        }
    }

    /// The type of an expression, deciding it now if it is open. `None` if it is in error.
    pub(crate) fn decide(&mut self, id: ExprId) -> Option<Type> {
        match self.ty(id) {
            Ty::Known(ty) => Some(ty),
            Ty::Open(open) => self.decide_open(open),
            Ty::Poison => None,
        }
    }

    fn decide_open(&mut self, open: Open) -> Option<Type> {
        let default = self.infer.fallback(open);
        self.infer.bind(open, default).ok()
    }

    /// Fixes the types of all expressions since the last time; reports literals that don't fit.
    pub(crate) fn settle(&mut self) {
        for index in self.settled..self.tys.len() {
            let ty = match self.infer.resolve(self.tys[index]) {
                Ty::Open(open) => self.decide_open(open).map_or(Ty::Poison, Ty::Known),
                other => other,
            };
            self.tys[index] = ty;
            if let Ty::Known(ty) = ty {
                self.kernel.exprs[super::names::id(index)].ty = ty;
            }
        }
        self.settled = self.tys.len();
        for (id, number) in std::mem::take(&mut self.literals) {
            let Ty::Known(ty) = self.tys[id.index()] else { continue };
            match number.at(ty) {
                Some(value) => self.kernel.exprs[id].kind = ExprKind::Literal(value),
                None => {
                    let span = self.span(id);
                    self.unfit_literal(span, &number, ty);
                    self.tys[id.index()] = Ty::Poison;
                    self.poisoned = true;
                }
            }
        }
        self.closed.clear();
    }

    pub(crate) fn unfit_literal(&mut self, span: Span, number: &Number, ty: Type) {
        let text = self.text(span).to_string();
        let (lo, hi) = ty.integer_range();
        let help = match number {
            Number::Int(Some(value)) if *value < 0 && ty.is_integer() && !ty.is_signed() => {
                format!("{ty} holds no negative numbers: {lo} to {hi}")
            }
            _ if ty.is_integer() => format!("{ty} holds {lo} to {hi}"),
            _ => format!("it is beyond the largest {ty}"),
        };
        let problem =
            Diagnostic::error(codes::LITERAL_RANGE, span, format!("{text} does not fit {ty}"), format!("not a value of {ty}"));
        self.report(problem.help(help));
    }

    /// Runs `f` one level deeper; refuses what is nested too deeply.
    pub(crate) fn nested(&mut self, span: Span, f: impl FnOnce(&mut Self) -> ExprId) -> ExprId {
        if self.depth >= MAX_DEPTH {
            let message = format!("this is nested more than {} levels deep", crate::parser::NESTING);
            self.report(Diagnostic::error(codes::NESTING, span, message, "too deep").help("split it with `let`"));
            return self.poison(span);
        }
        self.depth += 1;
        let id = f(self);
        self.depth -= 1;
        id
    }
}

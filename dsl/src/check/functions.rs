//! Scalar functions: locals, loops, and where a literal's type comes from.

use super::expr::unparenthesized;
use super::infer::{Kind, Ty};
use super::lower::{Lower, Place};
use super::names::Binding;
use crate::ast::{self, ExprKind as Ast, LocalStatementKind as Stmt};
use crate::diagnostic::{Diagnostic, codes};
use crate::parser::is_reserved;
use crate::program::{ExprId, ExprKind, Function, Local, LocalId, LocalStatement};
use crate::source::Span;
use crate::types::Type;

impl<'c> Lower<'c> {
    /// Checks a function whose signature is known.
    pub(crate) fn function(
        mut self,
        f: &ast::Function,
        parameters: &[(String, Type)],
        result: Type,
    ) -> (Option<Function>, Vec<Diagnostic>) {
        self.place = Place::Function;
        for (parameter, (name, ty)) in f.parameters.iter().zip(parameters) {
            let local = self.local(name, Ty::Known(*ty), false);
            self.bind_local(&parameter.name, local, true);
        }
        self.blocks.push(Vec::new());
        self.statements(&f.body.statements);
        let value = match &f.body.value {
            Some(value) => {
                let id = self.tail(value);
                self.store(id, result, "the result")
            }
            None => {
                let end = Span { start: f.body.span.end.saturating_sub(1), end: f.body.span.end };
                let message = format!("`{}` gives no value", f.name.text);
                let help = format!("end it with an expression of type {result}, without a semicolon");
                self.report(Diagnostic::error(codes::RESULT_FORM, end, message, "no final expression").help(help));
                None
            }
        };
        self.settle();
        let body = self.blocks.pop().unwrap_or_default();
        self.settle_locals();
        let failed = self.failed_since(0) || self.poisoned;
        let function = value.filter(|_| !failed).map(|value| Function {
            name: f.name.text.clone(),
            doc: f.doc.clone(),
            span: f.name.span,
            parameters: parameters.len(),
            locals: std::mem::take(&mut self.locals),
            exprs: std::mem::take(&mut self.kernel.exprs),
            result,
            body,
            value,
        });
        (function, self.problems)
    }

    fn settle_locals(&mut self) {
        let locals: Vec<(LocalId, Ty)> = self.locals.ids().zip(self.local_tys.clone()).collect();
        for (local, ty) in locals {
            let ty = match self.infer.resolve(ty) {
                Ty::Known(ty) => ty,
                Ty::Open(open) => self.infer.fallback(open),
                Ty::Poison => Type::F32,
            };
            self.locals[local].ty = ty;
        }
    }

    fn local(&mut self, name: &str, ty: Ty, mutable: bool) -> LocalId {
        self.local_tys.push(ty);
        self.locals.push(Local { name: name.to_string(), ty: Type::F32, mutable })
    }

    /// Binds a local; a `let` may hide an outer one, as in Rust.
    fn bind_local(&mut self, name: &ast::Name, local: LocalId, fresh: bool) {
        let hides = matches!(self.names.find(&name.text), Some(entry) if matches!(entry.binding, Binding::Local(_) | Binding::Broken));
        if fresh || !hides || is_reserved(&name.text) {
            self.bind_new(name, Binding::Local(local));
        } else {
            self.names.bind(&name.text, Binding::Local(local), name.span);
        }
    }

    fn emit(&mut self, statement: LocalStatement) {
        if let Some(block) = self.blocks.last_mut() {
            block.push(statement);
        }
    }

    fn statements(&mut self, statements: &[ast::LocalStatement]) {
        for statement in statements {
            self.local_statement(statement);
        }
    }

    fn block(&mut self, block: &ast::Block) -> Vec<LocalStatement> {
        let mark = self.names.enter();
        self.blocks.push(Vec::new());
        if self.depth >= super::lower::MAX_DEPTH {
            let message = "this is nested too deeply";
            self.report(Diagnostic::error(codes::NESTING, block.span, message, "too deep").help("split the function"));
        } else {
            self.depth += 1;
            self.statements(&block.statements);
            if let Some(value) = &block.value {
                let message = "the value of this block is not used";
                self.report(Diagnostic::error(codes::NOT_HERE, value.span, message, "unused").help("end it with `;`"));
            }
            self.depth -= 1;
        }
        self.names.leave(mark);
        self.blocks.pop().unwrap_or_default()
    }

    fn local_statement(&mut self, statement: &ast::LocalStatement) {
        match &statement.kind {
            Stmt::Let { mutable, name, ty, value } => self.let_local(*mutable, name, ty.as_ref(), value),
            Stmt::Assign { name, value } => self.assign(name, value),
            Stmt::While { condition, body } => {
                let before = self.blocks.last().map_or(0, Vec::len);
                let condition_id = self.condition(condition, "the condition of `while`");
                if self.blocks.last().map_or(0, Vec::len) != before {
                    let message = "a condition of `while` can't hold statements";
                    self.report(Diagnostic::error(codes::NOT_HERE, condition.span, message, "statements inside"));
                }
                let body = self.block(body);
                if let Some(condition) = condition_id {
                    self.emit(LocalStatement::While(condition, body));
                }
            }
            Stmt::For { name, range, body } => self.for_loop(name, range, body),
            Stmt::If { condition, then, otherwise } => {
                let condition = self.condition(condition, "the condition of `if`");
                let then = self.block(then);
                let otherwise = otherwise.as_ref().map_or_else(Vec::new, |block| self.block(block));
                if let Some(condition) = condition {
                    self.emit(LocalStatement::If(condition, then, otherwise));
                }
            }
        }
    }

    fn let_local(&mut self, mutable: bool, name: &ast::Name, ty: Option<&ast::TypeExpr>, value: &ast::Expr) {
        let id = self.tail(value);
        let id = match ty {
            None => Some(id),
            Some(ty) => self.scalar_type(ty).and_then(|ty| self.store(id, ty, &format!("`{}`", name.text))),
        };
        let ty = match (id, ty.and_then(|ty| Type::from_name(&ty.element.text))) {
            (_, Some(ty)) => Ty::Known(ty),
            (Some(id), None) => self.ty(id),
            (None, None) => Ty::Poison,
        };
        let local = self.local(&name.text, ty, mutable);
        self.bind_local(name, local, false);
        if let Some(id) = id {
            self.emit(LocalStatement::Set(local, id));
        }
    }

    /// The element type of a type without dims.
    pub(crate) fn scalar_type(&mut self, ty: &ast::TypeExpr) -> Option<Type> {
        if ty.dims.is_some() {
            let message = "this takes a scalar type, without dims";
            let problem = Diagnostic::error(codes::NOT_HERE, ty.span, message, "an array type");
            self.report(problem.help("functions are scalar code, and so are types behind a `:`; kernels take and give arrays"));
            return None;
        }
        self.element_type(&ty.element)
    }

    /// The place behind the `let` that introduces a local; none for a parameter or a loop's variable.
    fn let_keyword(&self, name: Span) -> Option<Span> {
        let before = self.text(Span { start: 0, end: name.start }).trim_end();
        let end = before.ends_with("let").then_some(before.len() as u32)?;
        Some(Span { start: end, end })
    }

    fn assign(&mut self, name: &ast::Name, value: &ast::Expr) {
        let id = self.tail(value);
        let local = match self.names.find(&name.text) {
            Some(entry) => match entry.binding {
                Binding::Local(local) if self.locals[local].mutable => local,
                Binding::Broken => return,
                other => {
                    let message = format!("`{}` can't be assigned", name.text);
                    let mut problem = Diagnostic::error(codes::NOT_MUTABLE, name.span, message, "not mutable");
                    if let Binding::Local(_) = other {
                        problem = problem.label(entry.span, "introduced here");
                        problem = match self.let_keyword(entry.span) {
                            Some(after_let) => problem.suggest("let it change", after_let, " mut"),
                            None => problem.help(format!("copy it into a local that may change: `let mut y = {};`", name.text)),
                        };
                    }
                    self.report(problem);
                    return;
                }
            },
            None => return self.unknown_name(&name.text, name.span),
        };
        let stored = match (self.infer.resolve(self.local_tys[local.index()]), self.ty(id)) {
            (Ty::Poison, _) | (_, Ty::Poison) => return,
            (Ty::Open(open), Ty::Known(ty)) => match self.infer.bind(open, ty) {
                Ok(ty) => self.store(id, ty, &format!("`{}`", name.text)),
                Err(_) => self.store(id, self.infer.fallback(open), &format!("`{}`", name.text)),
            },
            (Ty::Open(a), Ty::Open(b)) => match self.infer.join(b, a) {
                Ok(()) => Some(id),
                Err(_) => self.store(id, self.infer.fallback(a), &format!("`{}`", name.text)),
            },
            (Ty::Known(ty), _) => self.store(id, ty, &format!("`{}`", name.text)),
        };
        if let Some(id) = stored {
            self.emit(LocalStatement::Set(local, id));
        }
    }

    fn for_loop(&mut self, name: &ast::Name, range: &ast::Range, body: &ast::Block) {
        let (lo, hi) = (self.expr(&range.lo), self.expr(&range.hi));
        let span = range.lo.span.to(range.hi.span);
        let bounds = self.select(&[lo, hi], span).and_then(|(ids, ty)| self.loop_bounds(ids, ty, range, span));
        let ty = bounds.map_or(Ty::Poison, |(_, _, ty)| ty);
        let local = self.local(&name.text, ty, false);
        let mark = self.names.enter();
        self.bind_local(name, local, true);
        let body = self.block(body);
        self.names.leave(mark);
        if let Some((lo, hi, _)) = bounds {
            self.emit(LocalStatement::For(local, lo, hi, body));
        }
    }

    fn loop_bounds(&mut self, ids: Vec<ExprId>, ty: Ty, range: &ast::Range, span: Span) -> Option<(ExprId, ExprId, Ty)> {
        let (lo, mut hi) = (ids[0], ids[1]);
        let ok = match ty {
            Ty::Known(ty) => ty.is_integer(),
            Ty::Open(open) => {
                self.infer.computes(open);
                self.infer.restrict(open, Kind::Integer).is_ok()
            }
            Ty::Poison => return None,
        };
        if !ok {
            let message = "the ends of a range are integers";
            self.report(Diagnostic::error(codes::NOT_AN_INDEX, span, message, "not integers"));
            return None;
        }
        let wide = match ty {
            Ty::Known(ty) => Ty::Known(ty.widened()),
            other => other,
        };
        let cast = |l: &mut Self, id| if let Ty::Known(ty) = wide { l.cast(id, ty) } else { id };
        let lo = cast(self, lo);
        hi = cast(self, hi);
        if range.inclusive {
            let one = self.open_literal(super::literals::Number::Int(Some(1)), span);
            match (wide, self.ty(one)) {
                (Ty::Known(ty), Ty::Open(open)) => self.infer.bind(open, ty).map(|_| ()).unwrap_or(()),
                (Ty::Open(a), Ty::Open(b)) => self.infer.join(b, a).unwrap_or(()),
                _ => {}
            }
            hi = self.push(ExprKind::Binary(crate::types::BinaryOp::Add, hi, one), wide, span);
        }
        Some((lo, hi, wide))
    }

    /// An expression at the end of a statement, where the blocks of an `if` may hold statements.
    fn tail(&mut self, e: &ast::Expr) -> ExprId {
        let e = unparenthesized(e);
        match &e.kind {
            Ast::If { condition, then, otherwise } if holds_statements(then) || holds_statements(otherwise) => {
                self.nested(e.span, |l| l.tail_if(condition, then, otherwise, e.span))
            }
            _ => self.expr(e),
        }
    }

    fn tail_if(&mut self, condition: &ast::Expr, then: &ast::Block, otherwise: &ast::Block, span: Span) -> ExprId {
        let condition = self.condition(condition, "the condition of `if`");
        let [(mut yes, a), (mut no, b)] = [then, otherwise].map(|block| {
            let mark = self.names.enter();
            self.blocks.push(Vec::new());
            self.statements(&block.statements);
            let id = match &block.value {
                Some(value) => self.tail(value),
                None => {
                    let message = "this block has no value";
                    let help = "end it with an expression, without a semicolon";
                    self.report(Diagnostic::error(codes::NOT_HERE, block.span, message, "no value").help(help));
                    self.poison(block.span)
                }
            };
            self.names.leave(mark);
            (self.blocks.pop().unwrap_or_default(), id)
        });
        let (Some(condition), Some((ids, ty))) = (condition, self.select(&[a, b], span)) else { return self.poison(span) };
        let local = self.local("chosen", ty, true);
        yes.push(LocalStatement::Set(local, ids[0]));
        no.push(LocalStatement::Set(local, ids[1]));
        self.emit(LocalStatement::If(condition, yes, no));
        self.push(ExprKind::Local(local), ty, span)
    }

    /// Statements in a block inside an expression: `let`s, which are made before the expression. Says whether all are.
    pub(crate) fn inner_lets(&mut self, block: &ast::Block) -> bool {
        let mut allowed = true;
        for statement in &block.statements {
            match &statement.kind {
                Stmt::Let { mutable: false, .. } if self.place == Place::Function => self.local_statement(statement),
                _ => {
                    let (message, help) = if self.place == Place::Function {
                        ("only `let` may stand in a block inside an expression", "give the `if` a `let` or a statement of its own")
                    } else {
                        ("a kernel's expressions hold no statements", "move this into a `fn`, or into a `let` of the kernel")
                    };
                    self.report(Diagnostic::error(codes::NOT_HERE, statement.span, message, "a statement").help(help));
                    allowed = false;
                }
            }
        }
        allowed
    }
}

/// Whether a block, or the `else if` that it holds, has statements.
fn holds_statements(block: &ast::Block) -> bool {
    let mut block = block;
    loop {
        if !block.statements.is_empty() {
            return true;
        }
        match block.value.as_ref().map(|value| &unparenthesized(value).kind) {
            Some(Ast::If { then, .. }) if !then.statements.is_empty() => return true,
            Some(Ast::If { otherwise, .. }) => block = otherwise,
            _ => return false,
        }
    }
}

//! The types of operators, casts and stores.

use super::expr::compared;
use super::infer::{Kind, Ty};
use super::literals::Number;
use super::lower::Lower;
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::{ExprId, ExprKind};
use crate::source::Span;
use crate::types::{BinaryOp, Type, UnaryOp};

impl<'c> Lower<'c> {
    /// `a op b op c …`, down the left side without recursion.
    pub(crate) fn binary_chain(&mut self, e: &ast::Expr) -> ExprId {
        let mut spine = Vec::new();
        let mut left = e;
        while let Ast::Binary(op, span, a, b) = &left.kind {
            spine.push((*op, *span, b.as_ref(), left.span));
            left = a;
        }
        // A reduction that a comparison follows may be meant to take it in.
        let innermost = spine.last().filter(|(op, ..)| op.is_comparison());
        let outside = std::mem::replace(&mut self.compared, innermost.map(|(.., whole)| whole.end));
        let mut id = self.expr(left);
        self.compared = outside;
        for (op, op_span, right, whole) in spine.into_iter().rev() {
            self.operands.push(right.span);
            let right = self.expr(right);
            self.operands.pop();
            id = self.binary(op, op_span, id, right, whole);
        }
        id
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, id: ExprId, span: Span) -> ExprId {
        let ty = match (self.ty(id), op) {
            (Ty::Poison, _) => return self.poison(span),
            (Ty::Open(open), _) => {
                self.infer.computes(open);
                if op == UnaryOp::Not && self.infer.restrict(open, Kind::Integer).is_err() {
                    return self.not_defined(span, "`!` is not defined for floats", "a float");
                }
                Ty::Open(open)
            }
            (Ty::Known(Type::Bool), UnaryOp::Not) => Ty::Known(Type::Bool),
            (Ty::Known(ty), UnaryOp::Not) if ty.is_integer() => Ty::Known(ty.widened()),
            (Ty::Known(ty), UnaryOp::Negate) if ty.widened().is_signed() => Ty::Known(ty.widened()),
            (Ty::Known(ty), UnaryOp::Negate) if ty.is_integer() => {
                let message = format!("{ty} has no negative numbers, so unary `-` is not defined for it");
                return self.not_defined(span, &message, ty.name());
            }
            (Ty::Known(ty), _) => {
                let symbol = if op == UnaryOp::Not { "!" } else { "-" };
                return self.not_defined(span, &format!("unary `{symbol}` is not defined for {ty}"), ty.name());
            }
        };
        let id = match ty {
            Ty::Known(ty) => self.cast(id, ty),
            _ => id,
        };
        self.push(ExprKind::Unary(op, id), ty, span)
    }

    pub(crate) fn not_defined(&mut self, span: Span, message: &str, label: &str) -> ExprId {
        self.report(Diagnostic::error(codes::NOT_DEFINED_FOR, span, message, label));
        self.poison(span)
    }

    fn binary(&mut self, op: BinaryOp, op_span: Span, a: ExprId, b: ExprId, span: Span) -> ExprId {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            return self.logic(op, a, b, span);
        }
        let Some((a, b, ty)) = self.unify(op, op_span, a, b) else { return self.poison(span) };
        let defined = match (op, ty) {
            (_, Ty::Poison) => return self.poison(span),
            (_, Ty::Known(Type::Bool)) => op.is_comparison() || matches!(op, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor),
            (BinaryOp::Shl | BinaryOp::Shr | BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor, Ty::Known(ty)) => ty.is_integer(),
            (BinaryOp::Shl | BinaryOp::Shr | BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor, Ty::Open(open)) => {
                self.infer.restrict(open, Kind::Integer).is_ok()
            }
            _ => true,
        };
        if !defined {
            let name = match ty {
                Ty::Known(ty) => ty.name(),
                _ => "a float",
            };
            let message = format!("`{}` is not defined for {name}", op.symbol());
            let mut problem = Diagnostic::error(codes::NOT_DEFINED_FOR, op_span, message, name);
            if op == BinaryOp::BitXor {
                problem = problem.help("`^` is the exclusive or of bits; a power is written `pow(x, y)`");
            }
            self.report(problem);
            return self.poison(span);
        }
        let result = if op.is_comparison() { Ty::Known(Type::Bool) } else { ty };
        self.push(ExprKind::Binary(op, a, b), result, span)
    }

    fn logic(&mut self, op: BinaryOp, a: ExprId, b: ExprId, span: Span) -> ExprId {
        for id in [a, b] {
            match self.decide(id) {
                Some(Type::Bool) => {}
                None => return self.poison(span),
                Some(ty) => {
                    let at = self.span(id);
                    let message = format!("the operands of `{}` are bools, and this is {ty}", op.symbol());
                    let mut problem = compared(Diagnostic::error(codes::NOT_BOOL, at, message, ty.name()), at, ty);
                    if ty.is_integer() {
                        let symbol = if op == BinaryOp::And { "&" } else { "|" };
                        problem = problem.help(format!("the bitwise operator is `{symbol}`"));
                    }
                    self.report(problem);
                    return self.poison(span);
                }
            }
        }
        self.push(ExprKind::Binary(op, a, b), Ty::Known(Type::Bool), span)
    }

    /// Brings the operands of an operator to one type, in which it computes.
    fn unify(&mut self, op: BinaryOp, op_span: Span, a: ExprId, b: ExprId) -> Option<(ExprId, ExprId, Ty)> {
        match (self.ty(a), self.ty(b)) {
            (Ty::Poison, _) | (_, Ty::Poison) => None,
            (Ty::Known(x), Ty::Known(y)) if x.widened() == y.widened() => {
                let ty = x.widened();
                Some((self.cast(a, ty), self.cast(b, ty), Ty::Known(ty)))
            }
            (Ty::Known(x), Ty::Known(y)) => {
                self.mixed(op.symbol(), op_span, (a, x), (b, y));
                None
            }
            (Ty::Open(x), Ty::Open(y)) => {
                if self.infer.join(x, y).is_err() {
                    self.not_defined(op_span, &format!("`{}` mixes an integer and a float", op.symbol()), "mixed");
                    return None;
                }
                self.infer.computes(y);
                let ty = self.infer.resolve(Ty::Open(y));
                Some((a, b, ty))
            }
            (Ty::Known(known), Ty::Open(open)) => {
                let ty = self.operand(open, known, b, (a, known), op, op_span)?;
                Some((self.cast(a, ty), b, Ty::Known(ty)))
            }
            (Ty::Open(open), Ty::Known(known)) => {
                let ty = self.operand(open, known, a, (b, known), op, op_span)?;
                Some((a, self.cast(b, ty), Ty::Known(ty)))
            }
        }
    }

    /// Gives an open operand the type of the other one.
    fn operand(
        &mut self,
        open: super::infer::Open,
        known: Type,
        at: ExprId,
        other: (ExprId, Type),
        op: BinaryOp,
        op_span: Span,
    ) -> Option<Type> {
        let ty = known.widened();
        if self.infer.bind(open, ty).is_ok() {
            return Some(ty);
        }
        let number = known == Type::Bool && self.infer.kind(open) != super::infer::Kind::Float;
        // A number beside a bool would take the type of whatever the bool is made: i32 goes anywhere that i64 does.
        let default = if number { Type::I32 } else { self.infer.fallback(open) };
        self.mixed(op.symbol(), op_span, (at, default), other);
        None
    }

    /// Reports `i32 + f32`, with the cast that mends it.
    pub(crate) fn mixed(&mut self, symbol: &str, op_span: Span, a: (ExprId, Type), b: (ExprId, Type)) {
        let ordered = self.span(a.0) <= self.span(b.0);
        let (a, b) = if ordered { (a, b) } else { (b, a) };
        let (x, y) = (a.1, b.1);
        let message = format!("`{symbol}` mixes {x} and {y}");
        if x == Type::Bool || y == Type::Bool {
            let bool_side = self.span(if x == Type::Bool { a.0 } else { b.0 });
            let problem = Diagnostic::error(codes::MIXED_TYPES, op_span, message, format!("{x} {symbol} {y}"));
            let problem = problem.label(self.span(a.0), x.name()).label(self.span(b.0), y.name());
            let number = if x == Type::Bool { y } else { x };
            if number.is_float() && matches!(symbol, "<<" | ">>" | "&" | "|" | "^") {
                self.report(problem.help("bitwise operators take integers, or bools; compare the float, in parentheses"));
                return;
            }
            let cast = match number.is_float() {
                true => format!("(if {} {{ 1.0 }} else {{ 0.0 }})", self.text(bool_side)),
                false => self.cast_text(bool_side, number),
            };
            self.report(problem.suggest("make a number of the bool", bool_side, cast));
            return;
        }
        let bits = matches!(symbol, "<<" | ">>" | "&" | "|" | "^");
        let to = match join_hint(x, y) {
            Some(to) if bits && to.is_float() => {
                if x.is_float() {
                    y.widened()
                } else {
                    x.widened()
                }
            }
            Some(to) => to,
            None => x.widened(),
        };
        let mistyped = [a, b].into_iter().filter(|(_, ty)| ty.widened() != to);
        let edits = mistyped.map(|(id, _)| (self.span(id), self.cast_text(self.span(id), to))).collect();
        self.report(
            Diagnostic::error(codes::MIXED_TYPES, op_span, message, format!("{x} {symbol} {y}"))
                .label(self.span(a.0), x.name())
                .label(self.span(b.0), y.name())
                .suggest_edits(format!("cast to {to}"), edits),
        );
    }

    /// The text of an expression with a cast, in parentheses.
    pub(crate) fn cast_text(&self, span: Span, to: Type) -> String {
        let text = self.text(span);
        let simple = text.chars().all(|c| c.is_alphanumeric() || "_[](), .".contains(c)) && balanced(text);
        if simple { format!("({text} as {to})") } else { format!("(({text}) as {to})") }
    }

    pub(crate) fn explicit_cast(&mut self, id: ExprId, to: Type, span: Span) -> ExprId {
        if let Ty::Open(open) = self.ty(id) {
            self.hint_wide_literal(id, open, to);
        }
        let Some(from) = self.decide(id) else { return self.poison(span) };
        let allowed = from == to || from != Type::Bool && to != Type::Bool || from == Type::Bool && to.is_integer();
        if !allowed {
            let help = match (from, to) {
                (Type::Bool, _) => format!("go through an integer: `… as i32 as {to}`"),
                _ => "compare: `… != 0`".to_string(),
            };
            self.report(Diagnostic::error(codes::BAD_CAST, span, format!("{from} can't be cast to {to}"), "no such cast").help(help));
            return self.poison(span);
        }
        if from == to {
            return id;
        }
        self.push(ExprKind::Cast(id), Ty::Known(to), span)
    }

    /// A whole number under a cast that only u64 holds is one.
    fn hint_wide_literal(&mut self, id: ExprId, open: super::infer::Open, to: Type) {
        let wide = |number: &Number| matches!(number, Number::Int(Some(value)) if *value > i128::from(i64::MAX) && *value <= i128::from(u64::MAX));
        if to.is_integer() && self.literals.iter().rev().any(|(literal, number)| *literal == id && wide(number)) {
            let _ = self.infer.bind(open, Type::U64);
        }
    }

    /// Brings a value to the type that a store or an argument needs.
    pub(crate) fn store(&mut self, id: ExprId, to: Type, what: &str) -> Option<ExprId> {
        let from = match self.ty(id) {
            Ty::Poison => return None,
            Ty::Known(from) => from,
            Ty::Open(open) => match self.infer.bind(open, to) {
                Ok(from) => from,
                Err(_) => self.infer.fallback(open),
            },
        };
        if from.stores_to(to) {
            return Some(self.cast(id, to));
        }
        let span = self.span(id);
        let cast = self.cast_text(span, to);
        let message = format!("{what} of type {to} does not take {from}");
        let mut problem = Diagnostic::error(codes::NEEDS_CAST, span, message, format!("{from}, not {to}"));
        let castable = from != Type::Bool && to != Type::Bool || from == Type::Bool && to.is_integer();
        if castable {
            let plain = cast.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&cast).to_string();
            problem = problem.suggest(format!("cast to {to}"), span, plain);
        } else if to == Type::Bool {
            problem = compared(problem, span, from);
        } else {
            let text = format!("if {} {{ 1.0 }} else {{ 0.0 }}", self.text(span));
            problem = problem.suggest("make a number of the bool", span, text);
        }
        self.report(problem);
        None
    }

    /// Brings values of which one is chosen to one type, keeping a storage type that they share.
    pub(crate) fn select(&mut self, ids: &[ExprId], span: Span) -> Option<(Vec<ExprId>, Ty)> {
        let mut common: Option<(ExprId, Type)> = None;
        for round in 0..2 {
            for &id in ids {
                match (self.ty(id), common) {
                    (Ty::Poison, _) => return None,
                    (Ty::Known(ty), None) => common = Some((id, ty)),
                    (Ty::Known(ty), Some((_, best))) if ty == best => {}
                    (Ty::Known(ty), Some((first, best))) if ty.widened() == best.widened() => common = Some((first, ty.widened())),
                    (Ty::Known(ty), Some(best)) => {
                        self.mixed_choice(best, (id, ty), span);
                        return None;
                    }
                    (Ty::Open(open), Some((first, best))) if round == 1 => match self.infer.bind(open, best) {
                        Ok(ty) if ty == best => {}
                        Ok(ty) => common = Some((first, ty)),
                        Err(_) => {
                            let ty = self.infer.fallback(open);
                            self.mixed_choice((first, best), (id, ty), span);
                            return None;
                        }
                    },
                    (Ty::Open(_), _) => {}
                }
            }
        }
        if let Some((_, ty)) = common {
            return Some((ids.iter().map(|&id| self.cast(id, ty)).collect(), Ty::Known(ty)));
        }
        let opens: Vec<_> = ids.iter().filter_map(|&id| if let Ty::Open(open) = self.ty(id) { Some(open) } else { None }).collect();
        for pair in opens.windows(2) {
            if self.infer.join(pair[0], pair[1]).is_err() {
                self.not_defined(span, "an integer and a float are mixed", "mixed");
                return None;
            }
        }
        let ty = opens.last().map_or(Ty::Poison, |&open| self.infer.resolve(Ty::Open(open)));
        Some((ids.to_vec(), ty))
    }

    fn mixed_choice(&mut self, a: (ExprId, Type), b: (ExprId, Type), span: Span) {
        let (x, y) = (a.1, b.1);
        let to = join_hint(x, y).unwrap_or(x);
        let mistyped = [a, b].into_iter().filter(|(_, ty)| *ty != to);
        let edits = mistyped.map(|(id, _)| (self.span(id), self.cast_text(self.span(id), to))).collect();
        let mut problem = Diagnostic::error(codes::MIXED_TYPES, span, format!("{x} and {y} are mixed"), "values of two types")
            .label(self.span(a.0), x.name())
            .label(self.span(b.0), y.name());
        if x != Type::Bool && y != Type::Bool {
            problem = problem.suggest_edits(format!("cast to {to}"), edits);
        }
        self.report(problem);
    }
}

/// The type to suggest for two that don't mix: floats over integers, the wider one.
fn join_hint(a: Type, b: Type) -> Option<Type> {
    // u8 and u16 compute as i32, and are at home in u32 and u64 as well.
    let unsigned = |ty: Type| ty.is_integer() && !ty.is_signed();
    if unsigned(a) && unsigned(b) {
        return Some(if a.size() > b.size() { a } else { b });
    }
    let (a, b) = (a.widened(), b.widened());
    match (a.is_float(), b.is_float()) {
        (true, false) => Some(a),
        (false, true) => Some(b),
        _ if a.stores_to(b) => Some(b),
        _ if b.stores_to(a) => Some(a),
        _ => Some(Type::I64).filter(|_| a.size() == 4 && b.size() == 4),
    }
}

/// Whether brackets match and never close one that was open before.
fn balanced(text: &str) -> bool {
    let mut depth = 0i32;
    for c in text.chars() {
        depth += match c {
            '(' | '[' => 1,
            ')' | ']' => -1,
            _ => 0,
        };
        if depth < 0 {
            return false;
        }
        if depth == 0 && (c == ',' || c == ' ') {
            return false;
        }
    }
    depth == 0
}

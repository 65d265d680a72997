//! Expressions: names, literals, reads, casts and choices.

use super::infer::{Kind, Ty};
use super::literals::{self, Number};
use super::lower::{Lower, Place};
use super::names::{Binding, nearest};
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::{ArrayId, Bounds, ExprId, ExprKind, Literal, Subscript};
use crate::source::Span;
use crate::types::{BinaryOp, Builtin, Type, UnaryOp};

/// An expression without the parentheses around it.
pub(crate) fn unparenthesized(mut e: &ast::Expr) -> &ast::Expr {
    while let Ast::Paren(inner) = &e.kind {
        e = inner;
    }
    e
}

impl<'c> Lower<'c> {
    /// Types an expression.
    pub(crate) fn expr(&mut self, e: &ast::Expr) -> ExprId {
        let e = unparenthesized(e);
        match &e.kind {
            Ast::Number(text) => self.number(text, false, e.span),
            Ast::Bool(value) => self.push(ExprKind::Literal(Literal::Bool(*value)), Ty::Known(Type::Bool), e.span),
            Ast::Name(name) => self.name(name, e.span),
            Ast::Path(ty, name) => self.path(ty, name, e.span),
            Ast::Index { array, subscripts } => self.nested(e.span, |l| l.read(array, subscripts, e.span)),
            Ast::Call { function, arguments } => self.nested(e.span, |l| l.call(function, arguments, e.span)),
            Ast::Reduce { .. } => self.nested(e.span, |l| l.reduce(e)),
            Ast::Unary(op, _, inner) => self.unary_expr(*op, inner, e.span),
            Ast::Binary(..) => self.nested(e.span, |l| l.binary_chain(e)),
            Ast::Cast(inner, ty) => self.cast_chain(inner, ty, e.span),
            Ast::If { condition, then, otherwise } => self.nested(e.span, |l| l.if_expr(condition, then, otherwise, e.span)),
            Ast::Paren(_) | Ast::Error => self.poison(e.span),
        }
    }

    fn number(&mut self, text: &str, negative: bool, span: Span) -> ExprId {
        let (number, suffix) = match literals::parse(text) {
            Ok(parsed) => parsed,
            Err(why) => {
                let help = "numbers are written as in Rust: `1_000`, `0xFF`, `1.5e-3`, `3i32`, `1.0f64`";
                self.report(Diagnostic::error(codes::NUMBER, span, why, "not a number").help(help));
                return self.poison(span);
            }
        };
        let number = if negative { number.negated() } else { number };
        if matches!(number, Number::Int(None)) {
            self.unfit_literal(span, &number, suffix.unwrap_or(Type::I64));
            return self.poison(span);
        }
        let Some(ty) = suffix else { return self.open_literal(number, span) };
        match number.at(ty) {
            Some(value) => self.push(ExprKind::Literal(value), Ty::Known(ty), span),
            None => {
                self.unfit_literal(span, &number, ty);
                self.poison(span)
            }
        }
    }

    fn name(&mut self, name: &str, span: Span) -> ExprId {
        match name {
            "INF" => return self.open_literal(Number::Float(f64::INFINITY), span),
            "NAN" => return self.open_literal(Number::Float(f64::NAN), span),
            "PI" => return self.open_literal(Number::Float(std::f64::consts::PI), span),
            _ => {}
        }
        let Some(entry) = self.names.find(name) else {
            self.unknown_name(name, span);
            return self.poison(span);
        };
        match entry.binding {
            Binding::Dim(dim) => self.push(ExprKind::Dim(dim), Ty::Known(Type::I64), span),
            Binding::Scalar(scalar) => {
                let ty = self.kernel.scalars[scalar].ty;
                let id = self.push(ExprKind::Scalar(scalar), Ty::Known(ty), span);
                self.float_leaf(id)
            }
            Binding::Variable(_) if self.place == Place::Header && !self.earlier_known => self.not_constant(span),
            Binding::Variable(variable) => self.push(ExprKind::Variable(variable), Ty::Known(Type::I64), span),
            Binding::Local(local) => {
                let ty = self.local_tys.get(local.index()).copied().unwrap_or(Ty::Poison);
                self.push(ExprKind::Local(local), ty, span)
            }
            Binding::Constant(index) => match self.items.constants.get(index).and_then(|constant| constant.value) {
                Some((ty, value)) => {
                    let id = self.push(ExprKind::Literal(value), Ty::Known(ty), span);
                    self.float_leaf(id)
                }
                None => self.poison(span),
            },
            Binding::Array(array) => self.bare_array(array, name, span),
            Binding::Broken => self.poison(span),
        }
    }

    fn not_constant(&mut self, span: Span) -> ExprId {
        let text = self.text(span).to_string();
        let message = format!("`{text}` is not known at the call");
        let problem = Diagnostic::error(codes::NOT_CONSTANT, span, message, "not allowed here");
        self.report(problem.help("only dims, scalar parameters, constants, literals, and scalar `let`s of these are, here"));
        self.poison(span)
    }

    fn bare_array(&mut self, array: ArrayId, name: &str, span: Span) -> ExprId {
        let rank = self.kernel.arrays[array].rank();
        if rank > 0 {
            let example = super::kernel::left_side(name, rank);
            let mut edits = vec![(span, example)];
            if let Some(target) = self.scalar_let {
                edits.insert(0, (Span { start: target.end, end: target.end }, super::kernel::left_side("", rank)));
            }
            self.report(
                Diagnostic::error(codes::WRONG_KIND, span, format!("`{name}` is an array, not a value"), "needs subscripts")
                    .suggest_edits("name the element", edits),
            );
            return self.poison(span);
        }
        if self.place == Place::Header {
            return self.let_at_call(array).unwrap_or_else(|| self.not_constant(span));
        }
        if !self.readable(array, span) {
            return self.poison(span);
        }
        let ty = self.kernel.arrays[array].element;
        let id = self.push(ExprKind::Read { array, subscripts: Vec::new() }, Ty::Known(ty), span);
        self.float_leaf(id)
    }

    /// In a reduction under `@accumulate(f64)`, floats are f64 from where they are read.
    pub(crate) fn float_leaf(&mut self, id: ExprId) -> ExprId {
        match self.ty(id) {
            Ty::Known(ty) if self.f64_terms && ty.is_float() => self.cast(id, Type::F64),
            _ => id,
        }
    }

    fn path(&mut self, ty_name: &ast::Name, name: &ast::Name, span: Span) -> ExprId {
        let Some(ty) = Type::from_name(&ty_name.text) else {
            self.unknown_type(ty_name);
            return self.poison(span);
        };
        let value = match limit(ty, &name.text) {
            Some(value) => value,
            None => {
                let names = if ty.is_float() { "MAX MIN MIN_POSITIVE EPSILON INFINITY NEG_INFINITY NAN" } else { "MAX MIN" };
                let message = format!("{ty} has no constant `{}`", name.text);
                let help = if ty == Type::Bool { "bool has none".to_string() } else { format!("it has {names}") };
                self.report(Diagnostic::error(codes::UNKNOWN_NAME, name.span, message, "unknown").help(help));
                return self.poison(span);
            }
        };
        let id = self.push(ExprKind::Literal(value), Ty::Known(ty), span);
        self.float_leaf(id)
    }

    /// The element type of that name, or an error.
    pub(crate) fn element_type(&mut self, name: &ast::Name) -> Option<Type> {
        let ty = Type::from_name(&name.text);
        if ty.is_none() {
            self.unknown_type(name);
        }
        ty
    }

    fn read(&mut self, array: &ast::Name, subscripts: &[ast::Subscript], span: Span) -> ExprId {
        let id = match self.names.find(&array.text).map(|entry| entry.binding) {
            Some(Binding::Array(id)) => id,
            Some(Binding::Broken) => return self.poison(span),
            Some(other) => {
                let message = format!("`{}` is {}, not an array", array.text, other.what());
                self.report(Diagnostic::error(codes::WRONG_KIND, array.span, message, "takes no subscripts"));
                return self.poison(span);
            }
            None => {
                self.unknown_array(array);
                return self.poison(span);
            }
        };
        if self.place != Place::Statement {
            return self.not_constant(span);
        }
        let rank = self.kernel.arrays[id].rank();
        if rank != subscripts.len() {
            match self.rule_after_comma(id, subscripts) {
                Some(comma) => {
                    let problem =
                        Diagnostic::error(codes::BOUNDARY_RULE, comma, "a boundary rule stands behind `|`", "not behind `,`");
                    self.report(problem.suggest("write", comma, " |"));
                }
                None => self.wrong_rank(id, array.span, span, subscripts.len()),
            }
            return self.poison(span);
        }
        let readable = self.readable(id, array.span);
        let typed: Vec<Option<Subscript>> =
            subscripts.iter().enumerate().map(|(axis, subscript)| self.subscript(id, axis, subscript)).collect();
        let Some(typed) = typed.into_iter().collect::<Option<Vec<_>>>().filter(|_| readable) else {
            return self.poison(span);
        };
        let ty = self.kernel.arrays[id].element;
        let read = self.push(ExprKind::Read { array: id, subscripts: typed }, Ty::Known(ty), span);
        self.float_leaf(read)
    }

    /// The comma of `x[i, clamp]`.
    fn rule_after_comma(&self, array: ArrayId, subscripts: &[ast::Subscript]) -> Option<Span> {
        let [.., before, last] = subscripts else { return None };
        let Ast::Name(name) = &last.index.kind else { return None };
        let rule = matches!(name.as_str(), "clamp" | "wrap" | "mirror" | "symmetric" | "assume") && self.names.find(name).is_none();
        let one_more = self.kernel.arrays[array].rank() + 1 == subscripts.len();
        let comma = Span { start: before.span.end, end: before.span.end + 1 };
        (rule && one_more && self.text(comma) == ",").then_some(comma)
    }

    pub(crate) fn wrong_rank(&mut self, array: ArrayId, at: Span, whole: Span, given: usize) {
        let declared = &self.kernel.arrays[array];
        let (rank, name, declaration) = (declared.rank(), declared.name.clone(), declared.span);
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let message = format!("`{name}` has {rank} dimension{}, and this gives {given} subscript{}", plural(rank), plural(given));
        let label = format!("{given} subscript{}", plural(given));
        let span = at.to(whole);
        let mut problem = Diagnostic::error(codes::RANK, span, message, label);
        if declaration != Span::default() {
            problem = problem.label(declaration, format!("declared with rank {rank}"));
        }
        self.report(problem.help("one subscript per dimension"));
    }

    /// A subscript of a read.
    fn subscript(&mut self, array: ArrayId, axis: usize, subscript: &ast::Subscript) -> Option<Subscript> {
        let index = self.subscript_index(&subscript.index);
        let bounds = match &subscript.rule {
            None => Bounds::Checked,
            Some(ast::Rule::Name(name)) => match name.text.as_str() {
                "clamp" => Bounds::Clamp,
                "wrap" => Bounds::Wrap,
                "mirror" => Bounds::Mirror,
                "symmetric" => Bounds::Symmetric,
                "assume" => Bounds::Assumed,
                "drop" => {
                    let message = "`| drop` stands only on the left side of an accumulation";
                    let help = "a read outside needs a value: `| 0.0`, `| clamp`, …";
                    self.report(Diagnostic::error(codes::BOUNDARY_RULE, name.span, message, "this is a read").help(help));
                    return None;
                }
                _ => self.boundary_value(array, &ast::Expr { kind: Ast::Name(name.text.clone()), span: name.span })?,
            },
            Some(ast::Rule::Value(value)) => self.boundary_value(array, value)?,
        };
        index.map(|index| Subscript { index: self.within_i64(index, &bounds, array, axis), bounds })
    }

    /// A u64 as i64: values that i64 does not have become its largest, which is beyond every array as they are.
    fn at_most_i64(&mut self, id: ExprId) -> ExprId {
        let span = self.span(id);
        let most = self.push(ExprKind::Literal(Literal::Int(i128::from(i64::MAX))), Ty::Known(Type::U64), span);
        let least = self.push(ExprKind::Builtin(Builtin::Min, vec![id, most]), Ty::Known(Type::U64), span);
        self.cast(least, Type::I64)
    }

    /// A subscript whose type may have been u64: a rule that turns back finds the element of the value that it was.
    pub(crate) fn within_i64(&mut self, index: ExprId, bounds: &Bounds, array: ArrayId, axis: usize) -> ExprId {
        let ExprKind::Cast(least) = self.kernel.exprs[index].kind else { return index };
        let (Ty::Known(Type::U64), ExprKind::Builtin(Builtin::Min, operands)) = (self.ty(least), &self.kernel.exprs[least].kind)
        else {
            return index;
        };
        let (&[value, _], Some(&extent)) = (operands.as_slice(), self.kernel.arrays[array].shape.get(axis)) else { return index };
        let settled = matches!(bounds, Bounds::Clamp | Bounds::Wrap | Bounds::Mirror | Bounds::Symmetric);
        // What was signed is below 0 as i64 where it was: out of range all the same, and a proof sees it as it was written.
        if let ExprKind::Cast(signed) = self.kernel.exprs[value].kind {
            if !settled && matches!(self.ty(signed), Ty::Known(ty) if ty.is_signed()) {
                return self.cast(value, Type::I64);
            }
        }
        let span = self.span(index);
        let u64_literal = |l: &mut Self, value: i128| l.push(ExprKind::Literal(Literal::Int(value)), Ty::Known(Type::U64), span);
        let extent = self.cast(extent, Type::U64);
        let two = u64_literal(self, 2);
        let binary = |l: &mut Self, op, a, b| l.push(ExprKind::Binary(op, a, b), Ty::Known(Type::U64), span);
        let value = match bounds {
            Bounds::Wrap => binary(self, BinaryOp::Rem, value, extent),
            Bounds::Symmetric => {
                let period = binary(self, BinaryOp::Mul, extent, two);
                binary(self, BinaryOp::Rem, value, period)
            }
            // The period of one element is 0, and the remainder by it.
            Bounds::Mirror => {
                let both = binary(self, BinaryOp::Mul, extent, two);
                let period = binary(self, BinaryOp::Sub, both, two);
                binary(self, BinaryOp::Rem, value, period)
            }
            _ => return index,
        };
        self.cast(value, Type::I64)
    }

    fn boundary_value(&mut self, array: ArrayId, value: &ast::Expr) -> Option<Bounds> {
        if let Ast::Name(name) = &value.kind {
            let known = self.names.find(name).is_some() || matches!(name.as_str(), "INF" | "NAN" | "PI");
            if !known {
                let rules = ["clamp", "wrap", "mirror", "symmetric", "assume"];
                let message = format!("`{name}` is neither a boundary rule nor a constant");
                let problem = Diagnostic::error(codes::BOUNDARY_RULE, value.span, message, "unknown rule");
                let foreign = match name.as_str() {
                    "reflect" => Some("mirror"),
                    "replicate" | "edge" | "nearest" | "border" => Some("clamp"),
                    "circular" | "periodic" | "repeat" | "cyclic" => Some("wrap"),
                    "zero" | "zeros" | "constant" => Some("0"),
                    _ => None,
                };
                self.report(match foreign.or_else(|| nearest(name, rules.into_iter())) {
                    Some(guess) => problem.suggest(format!("did you mean `{guess}`?"), value.span, guess),
                    None => {
                        problem.help("the rules are clamp wrap mirror symmetric, a constant value, assume, and drop for accumulations")
                    }
                });
                return None;
            }
        }
        let element = self.kernel.arrays[array].element;
        let (place, terms) = (std::mem::replace(&mut self.place, Place::Header), std::mem::take(&mut self.f64_terms));
        let id = self.expr(value);
        (self.place, self.f64_terms) = (place, terms);
        let id = match self.ty(id) {
            Ty::Known(ty) if ty.is_float() && element.is_float() => self.cast(id, element),
            _ => self.store(id, element, "a boundary value")?,
        };
        Some(Bounds::Constant(id))
    }

    /// The expression of a subscript.
    pub(crate) fn subscript_index(&mut self, e: &ast::Expr) -> Option<ExprId> {
        let outside = std::mem::replace(&mut self.in_subscript, true);
        let index = self.index(e, "a subscript");
        self.in_subscript = outside;
        index
    }

    /// An integer expression, as i64.
    pub(crate) fn index(&mut self, e: &ast::Expr, what: &str) -> Option<ExprId> {
        let terms = std::mem::take(&mut self.f64_terms);
        let id = self.expr(e);
        self.f64_terms = terms;
        if let Ty::Open(open) = self.ty(id) {
            if self.infer.kind(open) != Kind::Float && self.infer.bind(open, Type::I64).is_ok() {
                return Some(id);
            }
        }
        match self.decide(id)? {
            Type::U64 => Some(self.at_most_i64(id)),
            ty if ty.is_integer() => Some(self.cast(id, Type::I64)),
            ty => {
                let text = self.text(e.span).to_string();
                let named = matches!(unparenthesized(e).kind, Ast::Name(_)) && self.place == Place::Header;
                if named && !self.unknown.insert(text.clone()) {
                    return None; // said once
                }
                let message = format!("{what} is an integer, and this is {ty}");
                let help = if ty.is_float() { format!("round it down with `floor({text}) as i64`") } else { "use `as i64`".into() };
                self.report(Diagnostic::error(codes::NOT_AN_INDEX, e.span, message, format!("{ty}")).help(help));
                None
            }
        }
    }

    fn unary_expr(&mut self, op: UnaryOp, inner: &ast::Expr, span: Span) -> ExprId {
        if op == UnaryOp::Negate {
            if let Ast::Number(text) = &unparenthesized(inner).kind {
                return self.number(text, true, span);
            }
        }
        self.nested(span, |l| {
            let id = l.expr(inner);
            l.unary(op, id, span)
        })
    }

    fn cast_chain(&mut self, inner: &ast::Expr, ty: &ast::Name, span: Span) -> ExprId {
        let mut casts = vec![(ty, span)];
        let mut inner = inner;
        while let Ast::Cast(next, ty) = &unparenthesized(inner).kind {
            casts.push((ty, inner.span));
            inner = next;
        }
        let terms = std::mem::take(&mut self.f64_terms);
        let mut id = self.nested(span, |l| l.expr(inner));
        self.f64_terms = terms;
        for (ty, span) in casts.into_iter().rev() {
            id = match self.element_type(ty) {
                Some(ty) => self.explicit_cast(id, ty, span),
                None => self.poison(span),
            };
        }
        self.float_leaf(id)
    }

    fn if_expr(&mut self, condition: &ast::Expr, then: &ast::Block, otherwise: &ast::Block, span: Span) -> ExprId {
        let test = self.condition(condition, "the condition of `if`");
        let sides = [then, otherwise].map(|block| self.block_value(block));
        let (Some(condition), [Some(then), Some(otherwise)]) = (test, sides) else { return self.poison(span) };
        let Some((ids, ty)) = self.select(&[then, otherwise], span) else { return self.poison(span) };
        let (then, otherwise) = (ids[0], ids[1]);
        self.push(ExprKind::If { condition, then, otherwise }, ty, span)
    }

    /// The value of a block inside an expression.
    fn block_value(&mut self, block: &ast::Block) -> Option<ExprId> {
        let Some(value) = &block.value else {
            let message = "this block has no value";
            let help = "end it with an expression, without a semicolon";
            self.report(Diagnostic::error(codes::NOT_HERE, block.span, message, "no value").help(help));
            return None;
        };
        let mark = self.names.enter();
        let allowed = block.statements.is_empty() || self.inner_lets(block);
        let id = self.expr(value);
        self.names.leave(mark);
        allowed.then_some(id)
    }

    /// A bool expression.
    pub(crate) fn condition(&mut self, e: &ast::Expr, what: &str) -> Option<ExprId> {
        let id = self.expr(e);
        match self.decide(id)? {
            Type::Bool => Some(id),
            ty => {
                let message = format!("{what} is a bool, and this is {ty}");
                let problem = Diagnostic::error(codes::NOT_BOOL, e.span, message, format!("{ty}"));
                self.report(compared(problem, e.span, ty));
                None
            }
        }
    }
}

/// Suggests the comparison that makes a bool of a number.
pub(crate) fn compared(problem: Diagnostic, value: Span, ty: Type) -> Diagnostic {
    let zero = if ty.is_float() { "0.0" } else { "0" };
    let end = Span { start: value.end, end: value.end };
    problem.suggest("compare it", end, format!(" != {zero}"))
}

/// `f32::MAX` and its like.
fn limit(ty: Type, name: &str) -> Option<Literal> {
    if ty.is_integer() {
        let (lo, hi) = ty.integer_range();
        return match name {
            "MAX" => Some(Literal::Int(hi)),
            "MIN" => Some(Literal::Int(lo)),
            _ => None,
        };
    }
    let (max, positive, epsilon) = match ty {
        Type::F16 => (65504.0, 2f64.powi(-14), 2f64.powi(-10)),
        Type::Bf16 => (3.3895313892515355e38, 2f64.powi(-126), 2f64.powi(-7)),
        Type::F32 => (f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE), f64::from(f32::EPSILON)),
        Type::F64 => (f64::MAX, f64::MIN_POSITIVE, f64::EPSILON),
        _ => return None,
    };
    let value = match name {
        "MAX" => max,
        "MIN" => -max,
        "MIN_POSITIVE" => positive,
        "EPSILON" => epsilon,
        "INFINITY" => f64::INFINITY,
        "NEG_INFINITY" => f64::NEG_INFINITY,
        "NAN" => f64::NAN,
        _ => return None,
    };
    Some(Literal::Float(value))
}

//! Names that nothing defines: what may have been meant.

use super::lower::{Closed, Lower, Place};
use super::names::{Binding, nearest};
use crate::ast;
use crate::diagnostic::{Diagnostic, codes};
use crate::source::Span;
use crate::types::{Builtin, Type};

/// What the names of other languages and libraries for values are in gk.
fn foreign_value(name: &str) -> Option<&'static str> {
    Some(match name {
        "True" | "TRUE" => "true",
        "False" | "FALSE" => "false",
        "inf" | "Inf" | "infinity" | "INFINITY" => "INF",
        "nan" | "NaN" => "NAN",
        "pi" | "Pi" | "M_PI" => "PI",
        _ => return None,
    })
}

/// What the names of other languages and libraries for functions are in gk.
fn foreign_function(name: &str) -> Option<Builtin> {
    let plain = name.trim_start_matches("__").trim_end_matches("_rn");
    let plain = plain.strip_suffix('f').filter(|plain| Builtin::from_name(plain).is_some()).unwrap_or(plain);
    let known = match plain {
        "ln" => "log",
        "fabs" | "fabsf" | "absolute" => "abs",
        "fma" | "fmaf" | "fmac" | "mad" => "mul_add",
        "power" | "powf" | "powi" => "pow",
        "popcount" | "popc" | "popcnt" => "count_ones",
        "clz" | "countl_zero" => "leading_zeros",
        "maximum" | "fmax" | "fmaxf" => "max",
        "minimum" | "fmin" | "fminf" => "min",
        "clip" => "clamp",
        "arctan" => "atan",
        "arctan2" => "atan2",
        "arcsin" => "asin",
        "arccos" => "acos",
        "rint" | "nearbyint" => "round_ties_even",
        "isnan" => "is_nan",
        "isinf" => "is_inf",
        "isfinite" => "is_finite",
        "signum" | "sgn" => "sign",
        "mod" => "mod_floor",
        other => other,
    };
    Builtin::from_name(known).filter(|builtin| !builtin.is_internal() && known != name)
}

impl Lower<'_> {
    pub(crate) fn unknown_name(&mut self, name: &str, span: Span) {
        if let Some(closed) = self.closed.iter().rev().find(|closed| closed.variables.iter().any(|v| v == name)).cloned() {
            // A body that is no bool, since the comparison is no part of it: that is said, with these parentheses.
            let said = |problem: &Diagnostic| {
                problem.code.0 == codes::NOT_BOOL && closed.body.start <= problem.span().start && problem.span().end <= closed.body.end
            };
            if !self.problems.iter().any(said) {
                self.outside_term(name, span, &closed);
            }
            return;
        }
        if !self.unknown.insert(name.to_string()) {
            return; // said once
        }
        let problem = Diagnostic::error(codes::UNKNOWN_NAME, span, format!("unknown name `{name}`"), "not defined here");
        let guess = foreign_value(name).or_else(|| nearest(name, self.names.all().map(|(name, _)| name))).map(str::to_string);
        let is_function = self.items.function_names.contains_key(name) || Builtin::from_name(name).is_some_and(|b| !b.is_internal());
        let problem = match guess {
            _ if self.in_subscript && foreign_value(name).is_none() => self.unknown_index(problem, name, guess, span),
            Some(guess) => problem.suggest(format!("did you mean `{guess}`?"), span, guess),
            None if is_function => problem.help(format!("`{name}` is a function: call it with `{name}(…)`")),
            None if self.place == Place::Header && self.kernel.name.is_empty() => {
                problem.help("a constant is made of literals and other constants")
            }
            None if self.place == Place::Header => problem.help(format!(
                "a dim is bound where its name stands alone in a parameter, as in `x: f32[{name}]`; else it may be a parameter \
                 itself: `{name}: i64`"
            )),
            None => problem,
        };
        self.report(problem);
    }

    /// An unknown name in a subscript: an index variable that nothing binds.
    fn unknown_index(&self, problem: Diagnostic, name: &str, guess: Option<String>, span: Span) -> Diagnostic {
        if let Some(target) = self.scalar_let {
            let end = Span { start: target.end, end: target.end };
            return problem.suggest("an array names its index variables", end, format!("[{name}]"));
        }
        match guess.filter(|guess| guess.len() > 1) {
            Some(guess) => problem.suggest(format!("did you mean `{guess}`?"), span, guess),
            None => {
                problem.help(format!("an index variable is bound by a left side, `y[{name}] = …`, or by a reduction, `sum[{name}] …`"))
            }
        }
    }

    fn outside_term(&mut self, name: &str, span: Span, closed: &Closed) {
        let end = self.operands.iter().map(|operand| operand.end).max().unwrap_or(span.end).max(span.end);
        let whole = Span { start: closed.body.start, end };
        let head = self.text(Span { start: closed.reduction.start, end: closed.body.start }).trim_end().to_string();
        let (open, close) = (Span { start: whole.start, end: whole.start }, Span { start: whole.end, end: whole.end });
        // One pair of parentheses takes in every place that was left out.
        let same = |problem: &&mut Diagnostic| {
            problem.code.0 == codes::OUTSIDE_TERM && problem.labels.get(1).is_some_and(|label| label.span == closed.body)
        };
        if let Some(said) = self.problems.iter_mut().find(same) {
            if let Some((place, _)) = said.suggestions.first_mut().and_then(|suggestion| suggestion.edits.get_mut(1)) {
                *place = (*place).max(close);
            }
            return;
        }
        self.report(
            Diagnostic::error(
                codes::OUTSIDE_TERM,
                span,
                format!("`{name}` is bound only in the term of `{head}`, which has ended"),
                format!("no `{name}` here"),
            )
            .label(closed.body, "the term, which ends before `+`, `-`, comparisons and logic")
            .suggest_edits("to take it all in, use parentheses", vec![(open, "(".into()), (close, ")".into())]),
        );
    }

    pub(crate) fn unknown_type(&mut self, name: &ast::Name) {
        let foreign = Type::from_foreign_name(&name.text).map(Type::name);
        let alias = foreign.or_else(|| nearest(&name.text, Type::ALL.iter().map(|ty| ty.name())));
        let all: Vec<&str> = Type::ALL.iter().map(|ty| ty.name()).collect();
        let problem = Diagnostic::error(codes::UNKNOWN_TYPE, name.span, format!("unknown type `{}`", name.text), "no element type");
        self.report(match alias {
            Some(alias) => problem.suggest(format!("did you mean `{alias}`?"), name.span, alias),
            None if matches!(name.text.as_str(), "void" | "None" | "unit") => {
                problem.help("everything gives something: a kernel names its results, `-> y: f32[n]`")
            }
            None => problem.help(format!("the element types are {}", all.join(" "))),
        });
    }

    pub(crate) fn unknown_array(&mut self, array: &ast::Name) {
        if !self.unknown.insert(array.text.clone()) {
            return; // said once
        }
        let arrays = self.names.all().filter(|(_, binding)| matches!(binding, Binding::Array(_))).map(|(name, _)| name);
        let guess = nearest(&array.text, arrays).map(str::to_string);
        let mut problem =
            Diagnostic::error(codes::UNKNOWN_NAME, array.span, format!("unknown array `{}`", array.text), "not defined here");
        if let Some(guess) = guess {
            problem = problem.suggest(format!("did you mean `{guess}`?"), array.span, guess);
        }
        self.report(problem);
    }

    pub(crate) fn unknown_function(&mut self, function: &ast::Name, arguments: &[ast::Expr], span: Span) {
        let name = &function.text;
        if self.items.kernel_names.contains_key(name) {
            let message = format!("the kernel `{name}` is called inside an expression");
            let problem = Diagnostic::error(codes::KERNEL_IN_EXPRESSION, function.span, message, "a kernel");
            self.report(problem.help(format!("give its result a name first: `let p = {name}(…);`")));
            return;
        }
        let mut problem =
            Diagnostic::error(codes::UNKNOWN_FUNCTION, function.span, format!("unknown function `{name}`"), "not defined");
        let builtins = Builtin::ALL.iter().filter(|builtin| !builtin.is_internal()).map(|builtin| builtin.name());
        let mut similar = builtins.chain(self.items.function_names.keys().map(String::as_str)).collect::<Vec<_>>();
        similar.sort_unstable();
        let known = foreign_function(name).map(Builtin::name).or_else(|| nearest(name, similar.into_iter())).map(str::to_string);
        if let (Some(ty), [value]) = (Type::from_foreign_name(name), arguments) {
            let plain = self.cast_text(value.span, ty);
            problem = problem.suggest("a cast is written with `as`", span, plain);
        } else if let Some(known) = known {
            problem = problem.suggest(format!("did you mean `{known}`?"), function.span, known);
        } else if self.names.find(name).is_some() {
            problem = problem.help(format!("`{name}` is an array or a value; elements are read with `{name}[…]`"));
        } else if matches!(name.as_str(), "len" | "shape" | "size") {
            problem = problem.help("the extents of an array are its dims: `n` of `x: f32[n]`, an `i64` in expressions");
        }
        self.report(problem);
    }
}

//! Slips in expressions: operators, choices, casts, reductions, brackets.

use super::super::expected::Expected;
use super::super::recover::Part;
use super::super::scan::Kind;
use super::{Advice, Stop, foreign_type};
use crate::source::Span;
use crate::types::{Builtin, Reducer, Type};

impl Stop<'_, '_> {
    pub(super) fn operator(&self) -> Option<Advice> {
        let (word, before, at) = (self.word(self.at), self.before(1), self.at);
        let operator = self.expects(Expected::Operator);
        match word {
            "=" if before == "==" || before == "!=" => {
                let replacement = before.to_string();
                Advice::edit(format!("write `{before}`"), self.spans(at - 1, at), replacement)
            }
            "=" if operator && (self.compares() || self.assigned()) => Advice::edit("`==` compares", self.span(at), "=="),
            "=" if operator && self.part == Part::FunctionBody && before == "]" => {
                Advice::help("a `fn` works on scalars: it has no arrays to define")
            }
            "and" | "or" if operator => {
                let sign = if word == "and" { "&&" } else { "||" };
                Advice::edit(format!("`{sign}` is the logical {word}"), self.span(at), sign)
            }
            _ if before == "not" && operator => {
                let whole = self.expression_end(at);
                let joins = |other: &usize| matches!(self.word(*other), "and" | "or" | "&&" | "||") && self.same_level(at, *other);
                let end = (at + 1..=whole).find(joins).map_or(whole, |join| join - 1);
                let text = self.text(at, end);
                let plain = self.operand_after(at) == Some(end);
                let negated = if plain { format!("!{text}") } else { format!("!({text})") };
                Advice::edit("`!` is the logical not", self.spans(at - 1, end), negated)
            }
            "*" if before == "*" => {
                let power = || {
                    let (base, end) = (self.operand_before(at.checked_sub(2)?)?, self.operand_after(at + 1)?);
                    let (x, y) = (self.text(base, at - 2), self.text(at + 1, end));
                    Advice::edit("a power is written", self.spans(base, end), format!("pow({x}, {y})"))
                };
                power().or_else(|| Advice::help("a power is written `pow(x, y)`"))
            }
            "+" if before == "+" || self.word(at + 1) == "+" => {
                Advice::help("there is no `++`: a statement of a kernel defines, `s += 1` in a `fn` counts")
            }
            "+" if self.expects(Expected::Expression) => Advice::edit("there is no sign `+`: remove it", self.span(at), ""),
            ">" if before == "<" => Advice::edit("`!=` compares", self.spans(at - 1, at), "!="),
            "@" if operator => Advice::help("a product of matrices is a sum: `sum[k] a[i, k] * b[k, j]`"),
            "|" if operator => Advice::help("a bit-or in a subscript stands in parentheses: a `|` begins a boundary rule"),
            _ => None,
        }
    }

    /// Whether the statement has defined something already: what is being read is its value.
    fn assigned(&self) -> bool {
        let equals = (self.places.start..self.at).find(|&at| matches!(self.word(at), "=" | "+=" | "*=" | "|=" | "&="));
        equals.is_some_and(|at| self.same_level(at, self.at))
    }

    /// Whether a `=` here can only be meant to compare: it stands in parentheses, or in the condition of an `if`, a `while`
    /// or a `where`.
    fn compares(&self) -> bool {
        let mut open = 0usize;
        for before in (self.places.start..self.at).rev() {
            match self.word(before) {
                ")" | "]" | "}" => open += 1,
                "(" if open == 0 => return true,
                "[" | "{" if open == 0 => return false,
                "(" | "[" | "{" => open -= 1,
                "if" | "while" | "where" if open == 0 => return true,
                _ => {}
            }
        }
        false
    }

    /// `a if c else b`, `c ? a : b`, `if c then a else b`, `if c: a`.
    pub(super) fn choice(&self) -> Option<Advice> {
        const WRITTEN: &str = "a choice is written";
        let at = self.at;
        let find = |sign: &str| (at + 1..self.places.end).find(|&other| self.word(other) == sign && self.same_level(at, other));
        let whole = |condition: &str, then: &str, otherwise: &str, from: usize, to: usize| {
            Advice::edit(WRITTEN, self.spans(from, to), format!("if {condition} {{ {then} }} else {{ {otherwise} }}"))
        };
        let edit = match self.word(at) {
            "if" if self.expects(Expected::Operator) => find("else").and_then(|other| {
                let (start, end) = (self.expression_start(at - 1), self.expression_end(other + 1));
                whole(self.text(at + 1, other - 1), self.text(start, at - 1), self.text(other + 1, end), start, end)
            }),
            "?" => find(":").and_then(|other| {
                let (start, end) = (self.expression_start(at - 1), self.expression_end(other + 1));
                whole(self.text(start, at - 1), self.text(at + 1, other - 1), self.text(other + 1, end), start, end)
            }),
            "then" => find("else").and_then(|other| {
                let end = self.expression_end(other + 1);
                let (then, otherwise) = (self.text(at + 1, other - 1), self.text(other + 1, end));
                Advice::edit(WRITTEN, self.spans(at, end), format!("{{ {then} }} else {{ {otherwise} }}"))
            }),
            "elif" | "elsif" | "elseif" => return Advice::edit("another condition follows", self.span(at), "else if"),
            _ if self.expects(Expected::Sign("{")) && self.expects(Expected::Operator) => None,
            _ => return None,
        };
        edit.or_else(|| Advice::help(format!("{WRITTEN} `if c {{ a }} else {{ b }}`")))
    }

    /// Whether no bracket between two tokens is left open or closes more than was opened.
    fn same_level(&self, from: usize, to: usize) -> bool {
        let mut depth = 0i32;
        for at in from + 1..to {
            match self.word(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth < 0 {
                return false;
            }
        }
        depth == 0
    }

    /// `f32(x)`, `(f32) x`, `sqrt x`.
    pub(super) fn cast_or_call(&self) -> Option<Advice> {
        let at = self.at;
        let word = self.word(at);
        let cast = |operand: &str, ty: Type, span: Span| {
            let simple = operand.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '[' | ']'));
            let text = if simple { format!("({operand} as {ty})") } else { format!("(({operand}) as {ty})") };
            Advice::edit("a cast is written with `as`", span, text)
        };
        if let Some(ty) = Type::from_name(word) {
            if self.word(at + 1) == "(" {
                let close = self.closing(at + 1)?;
                let advice = cast(self.text(at + 2, close - 1), ty, self.spans(at, close))?;
                return advice.instead(format!("`{word}` is a type, not a function"), "a type");
            }
            if self.before(1) == "(" && self.word(at + 1) == ")" {
                let end = self.operand_after(at + 2)?;
                let advice = cast(self.text(at + 2, end), ty, self.spans(at - 1, end))?;
                return advice.instead(format!("a cast does not stand before its operand: `({word})`"), "a type");
            }
            return None;
        }
        if !self.expects(Expected::Operator) || !self.starts_operand(at) {
            return None;
        }
        if self.before(1) == ")" && self.before(3) == "(" {
            let (ty, end) = (foreign_type(self.before(2))?, self.operand_after(at)?);
            return cast(self.text(at, end), ty, self.spans(at - 3, end));
        }
        let function = Builtin::from_name(self.before(1)).filter(|builtin| !builtin.is_internal())?;
        let end = self.operand_after(at)?;
        Advice::edit("arguments stand in parentheses", self.spans(at - 1, end), format!("{function}({})", self.text(at, end)))
    }

    pub(super) fn reduction(&self) -> Option<Advice> {
        let (word, before, at) = (self.word(self.at), self.before(1), self.at);
        let bare = Reducer::from_name(before).is_some() && self.expects(Expected::Sign("["));
        match word {
            "(" if bare => return self.reduction_call(),
            "{" if bare => {
                let close = self.closing(at)?;
                let edits = vec![(self.span(at), "[".into()), (self.span(close), "]".into())];
                return Advice::edits("a reduction names its variables in brackets", edits);
            }
            _ if bare && self.starts_operand(at) => {
                return Advice::help(format!("a reduction names its variables in brackets: `{before}[i] x[i]`"));
            }
            "]" if before == "[" && Reducer::from_name(self.before(2)).is_some() => {
                return Advice::help(format!("a reduction names its variables: `{}[i] x[i]`", self.before(2)));
            }
            "{" if before == "]" && self.expects(Expected::Expression) => {
                let reducer = self.opening(at - 1).and_then(|open| open.checked_sub(1))?;
                let close = self.closing(at).filter(|_| Reducer::from_name(self.word(reducer)).is_some())?;
                let edits = vec![(self.span(at), "(".into()), (self.span(close), ")".into())];
                return Advice::edits("what a reduction reduces stands in parentheses, if in any", edits);
            }
            _ => {}
        }
        if self.in_reducer() || self.expects(Expected::Sign("..")) {
            return self.reduction_range();
        }
        if before == "]" && self.expects(Expected::Operator) && self.starts_operand(at) {
            return self.foreign_reducer();
        }
        // `sum_j x[j]`
        let (reducer, variable) = before.split_once('_')?;
        (Reducer::from_name(reducer).is_some() && !variable.is_empty() && self.starts_operand(at)).then(|| {
            Advice::edit("a reduction names its variables in brackets", self.span(at - 1), format!("{reducer}[{variable}]"))
        })?
    }

    /// `avg[i] x[i]`
    fn foreign_reducer(&self) -> Option<Advice> {
        let name = self.opening(self.at - 1)?.checked_sub(1).filter(|&name| self.is_name(name))?;
        let word = self.word(name).to_ascii_lowercase();
        let known = match word.as_str() {
            "avg" | "average" => "mean",
            "product" => "prod",
            "maximum" => "max",
            "minimum" => "min",
            "total" | "add" | "reduce" => "sum",
            "exists" | "some" => "any",
            "every" | "forall" => "all",
            other => Reducer::from_name(other)?.name(),
        };
        Advice::edit(format!("did you mean `{known}`?"), self.span(name), known)
    }

    /// A name for an index variable that stands nowhere in the statement.
    fn free_index(&self) -> &'static str {
        let names = ["i", "j", "k", "l", "p", "q"];
        names.into_iter().find(|name| self.places.clone().all(|at| self.word(at) != *name)).unwrap_or("index")
    }

    /// `sum(x)`, `sum(x[i] for i in 0..n)`.
    fn reduction_call(&self) -> Option<Advice> {
        const WRITTEN: &str = "a reduction names its variables in brackets";
        let (reducer, open) = (self.before(1), self.at);
        let close = self.closing(open);
        let each = close.and_then(|close| (open..close).find(|&at| self.word(at) == "for"));
        match (close, each) {
            (Some(close), Some(each)) => {
                let (body, range) = (self.text(open + 1, each - 1), self.text(each + 1, close - 1));
                Advice::edit(WRITTEN, self.spans(open - 1, close), format!("{reducer}[{range}] ({body})"))
            }
            (Some(close), None) if close == open + 2 && self.is_name(open + 1) => {
                let (array, index) = (self.word(open + 1), self.free_index());
                Advice::edit(WRITTEN, self.spans(open - 1, close), format!("{reducer}[{index}] {array}[{index}]"))
            }
            _ => Advice::help(format!("{WRITTEN}: `{reducer}[i] x[i]`")),
        }
    }

    /// `j < n`, `j = 0..n`, `j in 0:n`, `j in range(n)`.
    fn reduction_range(&self) -> Option<Advice> {
        const WRITTEN: &str = "a range is written";
        let at = self.at;
        let stated = (self.places.start..at).rev().find(|&at| matches!(self.word(at), "in" | "[" | ","));
        let stated = stated.is_some_and(|at| self.word(at) == "in");
        match self.word(at) {
            "<" | "<=" if !stated => {
                let included = if self.word(at) == "<=" { "=" } else { "" };
                let span = self.up_to(at - 1, at + 1);
                Advice::edit(WRITTEN, span, format!("{} in 0..{included}", self.before(1)))
            }
            ":" | "=" if !stated => {
                let span = self.up_to(at - 1, at + 1);
                Advice::edit(WRITTEN, span, format!("{} in ", self.before(1)))
            }
            "where" if self.before(1) != "[" => Advice::edit("a filter is written", self.span(at), "if"),
            "for" if self.before(2) == "[" => {
                let span = self.up_to(at - 1, at + 1);
                Advice::edit(WRITTEN, span, "")
            }
            "[" | "(" | "." | ">" | "==" if !stated && self.before(2) == "," => {
                Advice::edit("a filter is written", self.span(at - 2), " if")
            }
            "]" | "," if stated && (self.is_name(at - 1) || self.before(1).starts_with(|c: char| c.is_ascii_digit())) => {
                let start = (self.places.start..at).rev().find(|&at| self.word(at) == "in")? + 1;
                Advice::edit(WRITTEN, self.spans(start, at - 1), format!("0..{}", self.text(start, at - 1)))
            }
            _ if self.before(1) == "[" && self.context.tokens.get(at)?.kind == Kind::Number => {
                Advice::help("a reduction names its variables: `sum[i in 0..n] x[i]`")
            }
            ":" => Advice::edit(WRITTEN, self.span(at), ".."),
            "]" | "," | "{" if self.before(1) == ")" => {
                let open = self.opening(at - 1)?;
                let name = open.checked_sub(1).filter(|&name| self.word(name) == "range")?;
                let comma = (open + 1..at).find(|&at| self.word(at) == "," && self.same_level(open, at));
                let range = match comma {
                    Some(comma) => format!("{}..{}", self.text(open + 1, comma - 1), self.text(comma + 1, at - 2)),
                    None => format!("0..{}", self.text(open + 1, at - 2)),
                };
                Advice::edit(WRITTEN, self.spans(name, at - 1), range)
            }
            _ => None,
        }
    }

    /// Words that mean something elsewhere.
    pub(super) fn foreign(&self) -> Option<Advice> {
        let (before, at, next) = (self.before(1), self.at, self.word(self.at + 1));
        if self.word(at) != "." || !self.expects(Expected::Operator) || !next.starts_with(char::is_alphabetic) {
            return (self.word(at) == "." && next.starts_with(|c: char| c.is_ascii_digit()))
                .then(|| Advice::edit("a number begins with a digit", self.spans(at, at + 1), format!("0.{next}")))?;
        }
        match (before, next) {
            ("np" | "numpy" | "math" | "torch" | "jnp" | "tf" | "std", _) => {
                Advice::edit("functions stand alone", self.spans(at - 1, at), "")
            }
            ("threadIdx" | "blockIdx" | "blockDim" | "gridDim", _) => {
                Advice::help("a kernel has no threads: it says what each element is, and index variables stand for all indices")
            }
            (_, "shape" | "len" | "size" | "length") => {
                Advice::help("the extents of an array are its dims: `n` of `x: f32[n]`, an `i64` in expressions")
            }
            (_, "T") => Advice::help("a transposed array is one with its indices the other way round: `x[j, i]`"),
            _ => Advice::help("there are no methods: write `f(x)` for `x.f()`"),
        }
    }

    pub(super) fn brackets(&self) -> Option<Advice> {
        let (word, before, earlier, at) = (self.word(self.at), self.before(1), self.before(2), self.at);
        match word {
            "[" if before == "]" => {
                let pairs = self.places.clone().filter(|&close| self.word(close) == "]" && self.word(close + 1) == "[");
                let edits = pairs.map(|close| (self.spans(close, close + 1), ", ".to_string())).collect();
                Advice::edits("subscripts and dims stand in one pair of brackets", edits)
            }
            "]" if before == "[" && Type::from_name(earlier).is_some() => Advice::help("a scalar's type has no brackets"),
            "]" if before == "[" => Advice::help("an array is read with one subscript for each dimension"),
            ":" if matches!(before, "[" | ",") && self.expects(Expected::Expression) => {
                Advice::help("there are no slices: an index variable stands for every index, as in `y[i] = x[i];`")
            }
            ":" if self.expects(Expected::Operator) && self.context.open_bracket(self.places.start, at).is_some() => {
                Advice::help("there are no slices: an index variable stands for every index, as in `y[i] = x[i + 1];`")
            }
            ")" | "]" if self.context.open_bracket(self.places.start, at).is_none() => {
                Advice::edit("remove it", self.span(at), "")?.instead(format!("unmatched `{word}`"), "nothing opens it")
            }
            _ => None,
        }
    }
}

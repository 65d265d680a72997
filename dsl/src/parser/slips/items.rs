//! Slips in statements, headers and items.

use super::super::expected::Expected;
use super::super::recover::Part;
use super::{Advice, Stop, foreign_type};
use crate::source::Span;
use crate::types::Type;

impl Stop<'_, '_> {
    pub(super) fn statement(&self) -> Option<Advice> {
        let (word, before, at, first) = (self.word(self.at), self.before(1), self.at, self.places.start);
        let operator = self.expects(Expected::Operator);
        match word {
            ":" if self.word(at + 1) == "=" => Advice::edit("`=` defines", self.spans(at, at + 1), "="),
            "==" if self.expects(Expected::Sign("=")) => Advice::edit("`=` defines, `==` compares", self.span(at), "="),
            ";" if at == first || before == ";" => {
                Advice::edit("remove it", self.span(at), "")?.instead("a `;` without a statement", "nothing ends here")
            }
            _ if before == "return" && self.part == Part::KernelBody && self.word(at + 1) == ";" && self.word(first) == "return" => {
                Advice::help(
                    "there is no `return`: statements define the results that have names, a final expression the one that has none",
                )
            }
            _ if before == "return" => {
                let mut edits = vec![(self.up_to(at - 1, at), String::new())];
                let last = self.places.end - 1;
                if self.word(last) == ";" && last > at {
                    edits.push((self.span(last), String::new()));
                }
                Advice::edits("there is no `return`: the last expression, without `;`, is the value", edits)
            }
            ";" if self.arrow().is_some() => Advice::edit("`=` defines", self.arrow()?, "="),
            ";" if operator && self.expects(Expected::Sign("}")) => match self.context.word(at + 1) {
                "}" => Advice::edit("a final expression has no `;`", self.span(at), ""),
                _ => Advice::help("a statement names what it defines: `y[i] = …;`, `let s = …;`"),
            },
            "(" if before == "for" => Advice::help("a loop is written `for i in 0..n { … }`"),
            "=" if operator && before == ")" && self.word(first + 1) == "(" && self.closing(first + 1) == Some(at - 1) => {
                let edits = vec![(self.span(first + 1), "[".into()), (self.span(at - 1), "]".into())];
                Advice::edits("subscripts stand in brackets", edits)
            }
            _ if at == first + 1 && operator && self.is_name(at) => self.typed_first(first, at),
            _ if at == first && Type::from_name(word).is_some() && self.is_name(at + 1) => self.typed_first(at, at + 1),
            _ => None,
        }
    }

    /// The `<-` of `y[i] <- x[i]`.
    fn arrow(&self) -> Option<Span> {
        let less = self.places.clone().find(|&at| self.word(at) == "<")?;
        let adjacent = self.word(less + 1) == "-" && self.span(less).end == self.span(less + 1).start;
        (adjacent && self.operand_before(less.checked_sub(1)?) == Some(self.places.start)).then(|| self.spans(less, less + 1))
    }

    /// `float t = 2.0;`, `auto t = 2.0;`
    pub(super) fn typed_first(&self, ty: usize, name: usize) -> Option<Advice> {
        let text = self.word(name);
        let replacement = match (foreign_type(self.word(ty)), self.word(ty)) {
            (Some(ty), _) => format!("let {text}: {ty}"),
            (None, "auto" | "var" | "val" | "double" | "def") => format!("let {text}"),
            _ => return None,
        };
        Advice::edit("`let` introduces a name", self.spans(ty, name), replacement)?
            .instead(format!("`{}` does not introduce a name", self.word(ty)), "not how a name is introduced")
    }

    pub(super) fn item(&self) -> Option<Advice> {
        let (word, at) = (self.word(self.at), self.at);
        if at != self.places.start || !self.expects(Expected::Item) {
            return None;
        }
        match word {
            "pub" | "static" | "extern" | "inline" => Advice::edit("items have no qualifiers", self.span(at), ""),
            "import" | "use" | "from" | "include" => Advice::help("there are no imports: all functions of a file stand in it"),
            "let" => Advice::help("outside of kernels and functions stand constants: `const N: i64 = 3;`"),
            "}" => Advice::edit("remove it", self.span(at), "")?.instead("unmatched `}`", "nothing opens it"),
            "y" | "x" | "s" => Advice::help("statements stand in a kernel: `kernel f(x: f32[n]) -> y: f32[n] { … }`"),
            _ => Advice::help("a kernel begins `kernel f(x: f32[n]) -> y: f32[n] {`, a function `fn f(x: f32) -> f32 {`"),
        }
    }

    pub(super) fn header(&self) -> Option<Advice> {
        let (word, before, at) = (self.word(self.at), self.before(1), self.at);
        const ARRAY: &str = "a parameter is written `x: f32[m, n]`, a scalar one `a: f32`";
        if self.expects(Expected::Sign("->")) {
            return match self.context.word(at) {
                "=>" | ":" | "=" | "-" | ">" => {
                    let attached = self.span(at - 1).end == self.span(at).start;
                    let arrow = if attached { " ->" } else { "->" };
                    Advice::edit("results stand behind `->`", self.span(at), arrow)
                }
                _ => Advice::help("what it gives stands after `->`: a type, or in a kernel also `y: f32[n]`"),
            };
        }
        if let Some(ty) = foreign_type(word).filter(|_| self.expects(Expected::Name)) {
            return self.type_first(at, ty);
        }
        if self.expects(Expected::Sign(":")) && before != ")" {
            let end = Span { start: self.span(at).start.min(self.span(at - 1).end), end: self.span(at - 1).end };
            return match foreign_type(before).filter(|_| self.is_name(at)) {
                Some(ty) => self.type_first(at - 1, ty),
                None if foreign_type(word).is_some() => Advice::edit("a `:` stands before a type", end, ":"),
                None if word == "=" && self.before(2) == "const" => Advice::edit("a constant states its type", end, ": i64"),
                None => Advice::help(ARRAY),
            };
        }
        if matches!(word, "const" | "let" | "mut" | "in") && self.expects(Expected::Name) {
            return Advice::help(ARRAY)?.instead(format!("`{word}` does not stand before a parameter"), "not here");
        }
        if word == "," && self.expects(Expected::Sign("{")) {
            return self.several_results();
        }
        if word == ";" && self.expects(Expected::Sign("{")) {
            return Advice::edit("remove it", self.span(at), "")?.instead("a `;` before the body", "not here");
        }
        if self.expects(Expected::Type) && word == "{" {
            return Advice::help("what it gives stands after `->`: a type, or in a kernel also `y: f32[n]`");
        }
        if self.expects(Expected::Type) && word == "(" && before == "->" {
            return Advice::help("a `fn` gives one value; the results of a kernel have names: `-> (a: f32, b: f32)`");
        }
        if self.expects(Expected::Type) && matches!(word, "[" | "*" | "&" | "(")
            || matches!(word, "<" | "(" | "*") && foreign_type(before).is_some()
        {
            return Advice::help(ARRAY);
        }
        None
    }

    /// `-> y: f32[n], z: f32[n]`
    fn several_results(&self) -> Option<Advice> {
        let first = self.places.clone().find(|&at| self.word(at) == "->")? + 1;
        let end = (first..self.places.end).find(|&at| matches!(self.word(at), "where" | "{")).unwrap_or(self.places.end);
        let (open, close) = (self.span(first).start, self.span(end.checked_sub(1)?).end);
        let edits = [(open, "("), (close, ")")].map(|(at, text)| (Span { start: at, end: at }, text.to_string()));
        Advice::edits("several results stand in parentheses", edits.to_vec())
    }

    /// `f32[n] x`, `float x`
    fn type_first(&self, at: usize, ty: Type) -> Option<Advice> {
        let end = if self.word(at + 1) == "[" { self.closing(at + 1)? } else { at };
        if !self.is_name(end + 1) {
            let item = at.checked_sub(1).is_some_and(|before| matches!(self.word(before), "kernel" | "fn" | "const"));
            let help = match item {
                true => format!("types are no names; another will do: `{}_`", self.word(at)),
                false => "a parameter is written `x: f32[m, n]`: the name, a `:`, the type".to_owned(),
            };
            return Advice::help(help)?.instead(format!("a type where a name should be: `{}`", self.word(at)), "a type");
        }
        let dims = self.text(at + 1, end);
        let replacement = format!("{}: {ty}{dims}", self.word(end + 1));
        Advice::edit("the type stands behind the name", self.spans(at, end + 1), replacement)?
            .instead(format!("a type where a name should be: `{}`", self.word(at)), "a type")
    }
}

//! Common slips and habits of other languages: what to write instead, as an edit where the text says what is meant.

mod expressions;
mod items;

use super::Context;
use super::expected::Expected;
use super::recover::Part;
use super::scan::Kind;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::types::{Reducer, Type};

/// Where the grammar stopped, and what it would have taken.
pub(super) struct Stop<'c, 't> {
    pub context: &'c Context<'t>,
    /// The token that did not fit.
    pub at: usize,
    /// The tokens of the statement or header around it.
    pub places: super::Places,
    pub part: Part,
    pub expected: &'c [Expected],
}

/// What is said of a slip.
#[derive(Default)]
pub(super) struct Advice {
    /// Message and label, where those that list what was expected would mislead.
    instead: Option<(String, String)>,
    help: Option<String>,
    edits: Option<(String, Vec<(Span, String)>)>,
}

impl Advice {
    fn help(text: impl Into<String>) -> Option<Advice> {
        Some(Advice { help: Some(text.into()), ..Advice::default() })
    }
    fn edit(text: impl Into<String>, span: Span, replacement: impl Into<String>) -> Option<Advice> {
        Self::edits(text, vec![(span, replacement.into())])
    }
    fn edits(text: impl Into<String>, edits: Vec<(Span, String)>) -> Option<Advice> {
        Some(Advice { edits: Some((text.into(), edits)), ..Advice::default() })
    }
    fn instead(mut self, message: impl Into<String>, label: impl Into<String>) -> Option<Advice> {
        self.instead = Some((message.into(), label.into()));
        Some(self)
    }

    /// The problem with this advice.
    pub fn on(self, mut problem: Diagnostic) -> Diagnostic {
        if let (Some((message, label)), Some(first)) = (self.instead, problem.labels.first_mut()) {
            problem.message = message;
            first.text = label;
        }
        if let Some(help) = self.help {
            problem = problem.help(help);
        }
        match self.edits {
            Some((text, edits)) => problem.suggest_edits(text, edits),
            None => problem,
        }
    }
}

/// Names of element types elsewhere.
fn foreign_type(word: &str) -> Option<Type> {
    Type::from_name(word).or_else(|| Type::from_foreign_name(word))
}

impl Stop<'_, '_> {
    /// What the slip is taken for, if for anything.
    pub fn advice(&self) -> Option<Advice> {
        if self.part == Part::Item || self.part == Part::Header {
            return self.item().or_else(|| self.header()).or_else(|| self.operator()).or_else(|| self.brackets());
        }
        self.reduction()
            .or_else(|| self.statement())
            .or_else(|| self.operator())
            .or_else(|| self.choice())
            .or_else(|| self.cast_or_call())
            .or_else(|| self.foreign())
            .or_else(|| self.brackets())
    }

    fn word(&self, at: usize) -> &str {
        if self.places.contains(&at) { self.context.word(at) } else { "" }
    }
    /// A token before the one that did not fit; 1 is next to it.
    fn before(&self, steps: usize) -> &str {
        self.at.checked_sub(steps).map_or("", |at| self.word(at))
    }
    fn span(&self, at: usize) -> Span {
        self.context.tokens.get(at).map_or(Span::default(), |token| token.span)
    }
    /// From one token to another, both included.
    fn spans(&self, from: usize, to: usize) -> Span {
        self.span(from).to(self.span(to))
    }
    /// From a token up to where another begins, which may not be there.
    fn up_to(&self, from: usize, next: usize) -> Span {
        let from = self.span(from);
        Span { end: self.span(next).start.max(from.end), ..from }
    }
    fn text(&self, from: usize, to: usize) -> &str {
        if from > to { "" } else { &self.context.text[self.spans(from, to).range()] }
    }
    fn expects(&self, what: Expected) -> bool {
        self.expected.contains(&what)
    }
    fn is_name(&self, at: usize) -> bool {
        self.places.contains(&at) && self.context.tokens[at].kind == Kind::Word && !super::is_reserved(self.word(at))
    }
    fn starts_operand(&self, at: usize) -> bool {
        self.places.contains(&at) && (self.context.tokens[at].kind == Kind::Number || self.is_name(at) || self.word(at) == "(")
    }

    /// The bracket that closes the one at `open`.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        (open..self.places.end).find(|&at| {
            match self.word(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }
    /// The bracket that the one at `close` closes.
    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0usize;
        (self.places.start..=close).rev().find(|&at| {
            match self.word(at) {
                ")" | "]" | "}" => depth += 1,
                "(" | "[" | "{" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }
    /// Where the operand that ends at `last` begins: a name or number with the brackets behind it.
    fn operand_before(&self, last: usize) -> Option<usize> {
        let mut start = last;
        while matches!(self.word(start), ")" | "]") {
            start = self.opening(start)?;
            match start.checked_sub(1).filter(|&before| self.is_name(before) || matches!(self.word(before), ")" | "]")) {
                Some(before) => start = before,
                None => return Some(start),
            }
        }
        (self.is_name(start) || self.context.tokens.get(start)?.kind == Kind::Number).then_some(start)
    }
    /// Where the operand that begins at `first` ends.
    fn operand_after(&self, first: usize) -> Option<usize> {
        let mut at = first;
        while self.word(at) == "-" {
            at += 1;
        }
        if !self.starts_operand(at) {
            return None;
        }
        let mut end = if self.word(at) == "(" { self.closing(at)? } else { at };
        while matches!(self.word(end + 1), "(" | "[") {
            end = self.closing(end + 1)?;
        }
        Some(end)
    }
    /// First and last token of what stands around, up to brackets, commas, semicolons and `=`.
    fn expression_start(&self, last: usize) -> usize {
        let mut at = last;
        loop {
            let start = if matches!(self.word(at), ")" | "]" | "}") { self.opening(at).unwrap_or(at) } else { at };
            let Some(before) = start.checked_sub(1).filter(|&before| before >= self.places.start) else { return start };
            let word = self.word(before);
            let assigns = word.ends_with('=') && !matches!(word, "==" | "!=" | "<=" | ">=");
            if assigns || matches!(word, "(" | "[" | "{" | "," | ";" | "return" | "|") {
                return start;
            }
            at = before;
        }
    }
    fn expression_end(&self, first: usize) -> usize {
        let mut at = first;
        while at + 1 < self.places.end {
            if matches!(self.word(at), "(" | "[" | "{") {
                at = self.closing(at).unwrap_or(at);
            }
            if matches!(self.word(at + 1), ")" | "]" | "}" | "," | ";" | "") {
                break;
            }
            at += 1;
        }
        at
    }
    /// Whether the bracket that is open here belongs to a reducer.
    fn in_reducer(&self) -> bool {
        let open = self.context.open_bracket(self.places.start, self.at);
        open.and_then(|open| open.checked_sub(1)).is_some_and(|at| Reducer::from_name(self.word(at)).is_some())
    }
}

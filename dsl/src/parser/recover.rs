//! What is said about an item that breaks the grammar: one problem for each mistake, where it stands.
//!
//! Header and statements are parsed one by one; `;` and braces, which nothing else uses, tell where a statement ends.

use super::expected::{Expected, describe, list};
use super::grammar::{Gk, Rule};
use super::item::Builder;
use super::scan::Kind;
use super::slips::Stop;
use super::{Context, MOST, Places, is_item_keyword, is_reserved, is_type_or_reducer, shown};
use crate::diagnostic::{Diagnostic, codes};
use crate::source::Span;
use crate::types::{Reducer, Type};
use pest::Parser;
use pest::error::{Error, ErrorVariant, InputLocation};
use std::collections::BTreeSet;

/// Which part of an item is being parsed: what may follow its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Item,
    Header,
    KernelBody,
    FunctionBody,
}

impl Context<'_> {
    /// Reports what is wrong with an item; `whole` is what the grammar says of it.
    pub(super) fn recover(&self, whole: Option<Error<Rule>>, problems: &mut Vec<Diagnostic>) {
        let before = problems.len();
        let lost = self.bad(&self.item);
        let keyword = self.item.clone().find(|&at| is_item_keyword(self.word(at)));
        let brace = self.opening_brace();
        if let (Some(keyword), Some(brace)) = (keyword, brace)
            && self.word(keyword) != "const"
        {
            self.check(Rule::only_header, self.item.start..brace, Part::Header, problems);
            let (rule, part) = match self.word(keyword) {
                "kernel" => (Rule::only_statements, Part::KernelBody),
                _ => (Rule::only_local_statements, Part::FunctionBody),
            };
            let close = self.closing_brace(brace);
            let mut named = BTreeSet::new();
            for mut piece in self.pieces(brace + 1..close.unwrap_or(self.item.end)) {
                if problems.len() > MOST {
                    return;
                }
                // A statement that uses a reserved word as the name that it is not would only say so again.
                named.extend(
                    problems[before..].iter().filter(|problem| problem.code.0 == codes::RESERVED).map(|problem| problem.span()),
                );
                // So would the rest of an `if` that went wrong.
                if problems.len() > before && self.word(piece.start) == "else" {
                    continue;
                }
                if piece.clone().any(|at| named.iter().any(|name: &Span| self.text[name.range()] == *self.word(at))) {
                    continue;
                }
                while problems.len() <= MOST
                    && let Some(next) = self.check(rule, piece.clone(), part, problems)
                {
                    piece.start = next;
                }
            }
            // A brace too few or too many may follow from another mistake.
            if problems.len() == before && !lost {
                match close {
                    None => problems.push(self.unclosed(brace)),
                    Some(close) if close + 1 < self.item.end => {
                        let (span, found) = self.found(close + 1);
                        let expected = "expected an item (`kernel`, `fn` or `const`)";
                        problems.push(match self.word(close + 1) {
                            "}" => Diagnostic::error(codes::SYNTAX, span, "unmatched `}`", "nothing opens it").suggest(
                                "remove it",
                                span,
                                "",
                            ),
                            _ => Diagnostic::error(codes::SYNTAX, span, format!("{expected}, found {found}"), expected),
                        });
                    }
                    Some(_) => {}
                }
            }
        }
        if problems.len() == before
            && !lost
            && let Some(error) = whole
        {
            let base = self.extent(&self.item).0;
            problems.push(self.syntax_error(&error, base, &self.item, Part::Item).0);
        }
    }

    fn bad(&self, places: &Places) -> bool {
        self.tokens[places.clone()].iter().any(|token| token.kind == Kind::Bad)
    }

    /// Parses a part; reports what is wrong and says where to go on behind a missing semicolon.
    fn check(&self, rule: Rule, places: Places, part: Part, problems: &mut Vec<Diagnostic>) -> Option<usize> {
        // What could not even be read is reported already.
        if self.bad(&places) {
            return None;
        }
        let (base, end) = self.extent(&places);
        let error = match Gk::parse(rule, &self.text[base..end]) {
            Ok(pairs) => {
                let mut builder = Builder::new(self, base);
                builder.in_kernel = part == Part::KernelBody;
                for node in pairs.flat_map(|whole| whole.into_inner()) {
                    match node.as_rule() {
                        Rule::statements => drop(builder.statements(node)),
                        Rule::local_statements => drop(builder.local_statements(node)),
                        _ => {}
                    }
                }
                problems.append(&mut builder.problems);
                return None;
            }
            Err(error) => error,
        };
        let (problem, next) = self.syntax_error(&error, base, &places, part);
        problems.push(problem);
        next
    }

    /// The brace that opens the body. `if` may stand in a header, but only inside brackets or behind `where`.
    fn opening_brace(&self) -> Option<usize> {
        let mut depth = 0usize;
        let mut conditional = false;
        for at in self.item.clone() {
            match self.word(at) {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.saturating_sub(1),
                "if" => conditional = true,
                "{" if depth == 0 && !conditional => return Some(at),
                _ => {}
            }
        }
        // Something is not closed in the header, or an `if` stands there.
        let mut braces = self.item.clone().filter(|&at| self.word(at) == "{");
        if conditional {
            braces.find(|&at| self.closing_brace(at).is_some_and(|close| close + 1 == self.item.end))
        } else {
            braces.next()
        }
    }

    fn closing_brace(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for at in open..self.item.end {
            match self.word(at) {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    /// Cuts a body into statements. A `for`, `while` or `if` that starts one ends it with its last brace.
    fn pieces(&self, body: Places) -> Vec<Places> {
        let mut pieces = Vec::new();
        let (mut start, mut depth, mut parentheses) = (body.start, 0usize, 0usize);
        for at in body.clone() {
            let ends = match self.word(at) {
                "(" | ")" if self.word(start) == "for" => {
                    parentheses = if self.word(at) == "(" { parentheses + 1 } else { parentheses.saturating_sub(1) };
                    false
                }
                "{" => {
                    depth += 1;
                    false
                }
                "}" => {
                    depth = depth.saturating_sub(1);
                    let first = (start..at).find(|&at| !matches!(self.word(at), "@")).map_or("", |at| self.word(at));
                    let next = self.tokens.get(at + 1).filter(|_| at + 1 < body.end);
                    let goes_on = next.is_some_and(|token| token.kind == Kind::Sign) || matches!(self.word(at + 1), "else" | "as");
                    depth == 0 && matches!(first, "for" | "while" | "if") && !goes_on
                }
                ";" => depth == 0 && parentheses == 0,
                _ => false,
            };
            if ends {
                pieces.push(start..at + 1);
                start = at + 1;
                parentheses = 0;
            }
        }
        pieces.push(start..body.end);
        pieces
    }

    fn unclosed(&self, brace: usize) -> Diagnostic {
        let (span, found) = self.found(self.item.end);
        Diagnostic::error(codes::SYNTAX, span, format!("expected `}}`, found {found}"), "expected `}`")
            .label(self.tokens[brace].span, "this brace is not closed")
    }

    /// The token that stands at a place, and its description; behind the last one, the end of the text.
    fn found(&self, at: usize) -> (Span, String) {
        let Some(token) = self.tokens.get(at) else {
            let end = self.tokens.last().map_or(0, |token| token.span.end);
            return (Span { start: end, end }, "the end of the text".into());
        };
        let word = self.word(at);
        let what = match token.kind {
            Kind::Word if is_reserved(word) && !is_type_or_reducer(word) => "the keyword ",
            _ => "",
        };
        (token.span, format!("{what}`{}`", shown(word)))
    }

    /// Words the grammar's complaint, and says where the next statement starts if a semicolon is missing before it.
    fn syntax_error(&self, error: &Error<Rule>, base: usize, places: &Places, part: Part) -> (Diagnostic, Option<usize>) {
        let offset = base
            + match error.location {
                InputLocation::Pos(at) => at,
                InputLocation::Span((at, _)) => at,
            };
        let at = self.tokens.partition_point(|token| (token.span.end as usize) <= offset);
        let (span, found) = self.found(at);
        let rules: &[Rule] = match &error.variant {
            ErrorVariant::ParsingError { positives, .. } => positives,
            ErrorVariant::CustomError { .. } => {
                let message = "this is nested too deeply for the compiler";
                return (Diagnostic::error(codes::NESTING, span, message, "somewhere here"), None);
            }
        };
        let mut expected: Vec<Expected> = rules.iter().filter_map(|&rule| describe(rule, part)).collect();
        expected.sort();
        expected.dedup();
        let word = self.word(at);
        let previous = at.checked_sub(1).filter(|&at| at >= places.start);

        // A reserved word where a name should be.
        let wants_name = expected.contains(&Expected::Name) || expected.contains(&Expected::Target);
        let wants_value = expected.iter().any(|e| matches!(e, Expected::Expression | Expected::Statement));
        if let Some(problem) = self.misplaced(at, places, part, &expected) {
            return (problem, None);
        }
        let new_line = previous.is_some_and(|previous| self.new_line_between(previous, at));
        let missing_semicolon = expected.contains(&Expected::Sign(";")) && (new_line || word == "}" || at >= self.tokens.len());
        let stop = Stop { context: self, at, places: places.clone(), part, expected: &expected };
        let advice = if missing_semicolon { None } else { stop.advice() };
        if advice.is_none()
            && let Some(previous) = previous
            && self.stands_for_a_name(previous, at, &expected)
        {
            return (reserved(self.word(previous), self.tokens[previous].span), None);
        }
        if advice.is_none() && is_reserved(word) && (wants_name || wants_value && is_type_or_reducer(word)) {
            return (reserved(word, span), None);
        }
        if missing_semicolon {
            expected = vec![Expected::Sign(";")];
        } else if expected.contains(&Expected::Operator) && expected.len() > 1 {
            // After any operand one could go on in these ways too.
            expected.retain(|e| !matches!(e, Expected::Sign("(" | "[" | "{")) || word == "{");
        }
        let list = list(&expected);
        let mut problem =
            Diagnostic::error(codes::SYNTAX, span, format!("expected {list}, found {found}"), format!("expected {list}"));
        if let Some(previous) = previous {
            let end = self.tokens[previous].span.end;
            if missing_semicolon {
                problem = problem.suggest("add the missing `;`", Span { start: end, end }, ";");
            }
            if let Some(open) = self.open_bracket(places.start, at)
                && (at >= places.end || matches!(word, ";" | "=" | "->" | "{" | "}" | ")" | "]"))
                && expected.contains(&Expected::Sign(closing(self.word(open))))
            {
                let open = self.tokens[open].span;
                problem = problem.label(open, format!("this `{}` is not closed", &self.text[open.range()]));
            }
        }
        if let Some(advice) = advice {
            problem = advice.on(problem);
        }
        let goes_on = missing_semicolon && at < places.end && at > places.start && self.open_bracket(places.start, at).is_none();
        let next = goes_on.then_some(at);
        (problem, next)
    }

    fn new_line_between(&self, left: usize, right: usize) -> bool {
        let start = self.tokens[left].span.end as usize;
        let end = self.tokens.get(right).map_or(self.text.len(), |token| token.span.start as usize);
        self.text[start..end].contains('\n')
    }

    /// The innermost bracket that is open at a place.
    pub(super) fn open_bracket(&self, from: usize, to: usize) -> Option<usize> {
        let mut open = Vec::new();
        for at in from..to.min(self.tokens.len()) {
            match self.word(at) {
                "(" | "[" | "{" => open.push(at),
                ")" | "]" | "}" => drop(open.pop()),
                _ => {}
            }
        }
        open.pop()
    }

    /// The tokens that stand in no bracket opened after `places` begins.
    fn outside_brackets(&self, places: Places) -> impl Iterator<Item = usize> {
        let mut depth = 0usize;
        places.filter(move |&at| {
            match self.word(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => return depth == 0,
            }
            false
        })
    }

    /// Things that have their place elsewhere.
    fn misplaced(&self, at: usize, places: &Places, part: Part, expected: &[Expected]) -> Option<Diagnostic> {
        let (word, span) = (self.word(at), self.found(at).0);
        let statement = expected.contains(&Expected::Statement) || expected.contains(&Expected::Expression);
        Some(match word {
            "for" | "while" if part == Part::KernelBody && statement => {
                Diagnostic::error(codes::SEQUENTIAL, span, format!("a `{word}` loop in a kernel"), "only a `fn` has loops")
                    .help("a kernel says what each element is: `y[i] = …;` holds for every `i`, and `sum[j] …` reduces")
            }
            "mut" if part == Part::KernelBody => {
                let after = self.tokens.get(at + 1).map_or(span.end, |token| token.span.start);
                Diagnostic::error(codes::SEQUENTIAL, span, "a `let mut` in a kernel", "only a `fn` has variables that change").suggest(
                    "remove `mut`",
                    Span { end: after, ..span },
                    "",
                )
            }
            "=" if part == Part::KernelBody && self.first_is_if(at) => {
                Diagnostic::error(codes::SEQUENTIAL, span, "a statement inside an `if` of a kernel", "only a value can stand here")
                    .help("in a kernel `if` chooses between values: `y[i] = if c { a } else { b };`")
            }
            // What stands there is an expression: perhaps a comparison instead of a definition.
            ";" if part != Part::Item && part != Part::Header && expected.contains(&Expected::Sign("}")) => {
                let equals = self.outside_brackets(places.start..at).find(|&at| self.word(at) == "==")?;
                let span = self.tokens[equals].span;
                Diagnostic::error(codes::SYNTAX, span, "expected `=`, found `==`", "expected `=`").suggest(
                    "`=` defines, `==` compares",
                    span,
                    "=",
                )
            }
            _ => return None,
        })
    }

    /// Whether the reserved word before a place stands where a name should: what would follow a reducer, a function or a keyword
    /// does not, but what follows a name.
    fn stands_for_a_name(&self, previous: usize, at: usize, expected: &[Expected]) -> bool {
        let word = self.word(previous);
        if Reducer::from_name(word).is_some() {
            let after_name = matches!(self.word(at), "]" | "," | ")" | ":");
            return expected == [Expected::Sign("[")] || after_name && expected.iter().all(|e| matches!(e, Expected::Sign("(" | "[")));
        }
        matches!(self.word(at), "]" | "," | ":")
            && matches!(word, "if" | "else" | "while" | "for" | "let" | "mut" | "in" | "as" | "where")
    }

    /// Whether the statement around a place starts with `if`.
    fn first_is_if(&self, at: usize) -> bool {
        let mut depth = 0usize;
        for at in (self.item.start..at).rev() {
            match self.word(at) {
                "}" => depth += 1,
                "{" if depth == 0 => {
                    let statement = (self.item.start..at).rev().find(|&at| matches!(self.word(at), ";" | "{" | "}"));
                    return statement.is_some_and(|start| matches!(self.word(start + 1), "if" | "else"));
                }
                "{" => depth -= 1,
                ";" if depth == 0 => return false,
                _ => {}
            }
        }
        false
    }
}

/// A reserved word where a name should be.
pub(crate) fn reserved(word: &str, span: Span) -> Diagnostic {
    let what = if Type::from_name(word).is_some() {
        "the name of an element type"
    } else if Reducer::from_name(word).is_some() {
        "the name of a reducer"
    } else {
        "a word of the language"
    };
    let problem = Diagnostic::error(codes::RESERVED, span, format!("`{word}` is reserved"), what);
    problem.suggest("another name will do", span, format!("{word}_"))
}

fn closing(open: &str) -> &'static str {
    match open {
        "(" => ")",
        "[" => "]",
        _ => "}",
    }
}

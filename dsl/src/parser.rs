//! Text to syntax tree. `gk.pest` is the grammar; this file cuts a text into items, and `parser/` builds their trees and
//! words the problems.
//!
//! An item that follows the grammar is taken as a whole. One that does not is taken apart, header and statement by statement,
//! so that every mistake is reported once, where it stands (`parser/recover.rs`).

mod expected;
mod expr;
mod item;
mod limits;
mod literal;
mod recover;
mod scan;
mod slips;

use crate::ast;
use crate::diagnostic::{Diagnostic, codes};
use crate::source::{Source, Span};
use crate::types::{Reducer, Type};
pub(crate) use limits::NESTING;
use pest::Parser;
use scan::{Kind, Scan, Token};

/// What pest makes of the grammar.
mod grammar {
    /// The recogniser.
    #[derive(pest_derive::Parser)]
    #[grammar = "gk.pest"]
    pub(super) struct Gk;
}
use grammar::{Gk, Rule};

/// The most bytes of a text; longer ones are refused. So large a one takes about a gigabyte of memory.
pub const LARGEST: usize = 4 << 20;

/// More problems than this are not reported: whoever mends so many comes back.
const MOST: usize = 100;

/// Parses a text. Where it breaks the grammar the tree lacks the items concerned, so that a tree that comes with errors is
/// good for looking at, not for checking.
pub fn parse(source: &Source) -> (ast::File, Vec<Diagnostic>) {
    let text = source.text();
    let mut problems = Vec::new();
    if text.len() > LARGEST {
        let message = format!("this text is longer than {} MiB, which is a limit of the compiler", LARGEST >> 20);
        return (ast::File::default(), vec![Diagnostic::error(codes::TOO_LONG, Span::default(), message, "")]);
    }
    let mut scan = scan::scan(text, &mut problems);
    let mut file = ast::File::default();
    if scan.hopeless {
        return (file, problems);
    }
    let docs = cut(text, &mut scan);
    for (place, doc) in &docs {
        if problems.len() > MOST {
            break;
        }
        let context = Context { text, tokens: &scan.tokens, item: place.clone() };
        file.items.extend(context.item(doc.clone(), &mut problems));
    }
    file.comments = scan.comments.iter().filter(|comment| !comment.doc).map(|comment| comment.span).collect();
    problems.sort_by_key(|problem| problem.span().start);
    problems.truncate(MOST);
    (file, problems)
}

/// The places of a text's words, numbers and signs, as the parser cuts it, and the problems of what is none of these. What follows
/// a comment without an end is left out.
pub fn words(text: &str) -> (Vec<Span>, Vec<Diagnostic>) {
    let mut problems = Vec::new();
    let scan = scan::scan(text, &mut problems);
    (scan.tokens.iter().map(|token| token.span).collect(), problems)
}

type Places = std::ops::Range<usize>;

/// Cuts the tokens into items, each with the doc comments before it; doc comments elsewhere become ordinary ones.
fn cut(text: &str, scan: &mut Scan) -> Vec<(Places, Vec<String>)> {
    let tokens = &scan.tokens;
    let mut starts: Vec<usize> = Vec::new();
    if !tokens.is_empty() {
        starts.push(0);
    }
    for at in 1..tokens.len() {
        let last = starts.last().copied().unwrap_or(0);
        starts.extend(item_start(text, tokens, last, at).filter(|&start| start > last));
    }
    let mut items = Vec::new();
    let mut comments = scan.comments.iter_mut().peekable();
    for (nth, &start) in starts.iter().enumerate() {
        let end = starts.get(nth + 1).copied().unwrap_or(tokens.len());
        let before = if start == 0 { 0 } else { tokens[start - 1].span.end };
        let keyword = tokens[start..end].iter().find(|token| is_item_keyword(&text[token.span.range()]));
        let after = keyword.map_or(before, |token| token.span.start);
        let mut doc = Vec::new();
        while let Some(comment) = comments.next_if(|comment| comment.span.start < after) {
            if comment.doc && comment.span.start >= before {
                let line = &text[comment.span.range()][3..];
                doc.push(line.strip_prefix(' ').unwrap_or(line).trim_end().to_string());
            } else {
                comment.doc = false;
            }
        }
        items.push((start..end, doc));
    }
    comments.for_each(|comment| comment.doc = false);
    items
}

fn is_item_keyword(word: &str) -> bool {
    matches!(word, "kernel" | "fn" | "const")
}

/// If an item's keyword stands at `at`: where the item, attributes included, starts; `last` is where the one before it does. The
/// words are reserved, so they can only be misplaced as names, which is what most of this rules out.
fn item_start(text: &str, tokens: &[Token], last: usize, at: usize) -> Option<usize> {
    let word = |at: usize| tokens.get(at).map_or("", |token| &text[token.span.range()]);
    if !is_item_keyword(word(at)) {
        return None;
    }
    let mut start = at;
    // `@name` or `@name(…)` before it
    while start >= last + 2 {
        let mut name = start - 1;
        if word(name) == ")" {
            // The parenthesis before it opens it, or is another's: then the search ends, so that no token is looked at twice.
            let other = (last..name).rev().find(|&at| matches!(word(at), "(" | ")"));
            let Some(open) = other.filter(|&open| open > last && word(open) == "(") else { break };
            name = open - 1;
        }
        if name == 0 || tokens[name].kind != Kind::Word || word(name - 1) != "@" {
            break;
        }
        start = name - 1;
    }
    let before = start.checked_sub(1)?;
    let on_a_new_line = text[tokens[before].span.end as usize..tokens[start].span.start as usize].contains('\n');
    (!is_item_keyword(word(before)) && (on_a_new_line || matches!(word(before), "}" | ";"))).then_some(start)
}

/// An item of a text.
struct Context<'a> {
    text: &'a str,
    /// All tokens of the text.
    tokens: &'a [Token],
    /// The item's.
    item: Places,
}

impl Context<'_> {
    /// The item's tree, or the reasons why there is none.
    fn item(&self, doc: Vec<String>, problems: &mut Vec<Diagnostic>) -> Option<ast::Item> {
        let tokens = &self.tokens[self.item.clone()];
        if let Some(problem) = limits::exceeded(self.text, tokens) {
            problems.push(problem);
            return None;
        }
        if tokens.iter().any(|token| token.kind == Kind::Bad) {
            self.recover(None, problems);
            return None;
        }
        let (base, end) = self.extent(&self.item);
        match Gk::parse(Rule::only_item, &self.text[base..end]) {
            Ok(mut pairs) => {
                let mut builder = item::Builder::new(self, base);
                let item = builder.item(pairs.next()?, doc);
                let good = builder.problems.is_empty();
                problems.append(&mut builder.problems);
                item.filter(|_| good)
            }
            Err(error) => {
                self.recover(Some(error), problems);
                None
            }
        }
    }

    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &self.text[token.span.range()])
    }

    /// First and last byte of some tokens.
    fn extent(&self, places: &Places) -> (usize, usize) {
        if places.is_empty() {
            let at = self.tokens.get(places.start).map_or(self.text.len(), |token| token.span.start as usize);
            return (at, at);
        }
        (self.tokens[places.start].span.start as usize, self.tokens[places.end - 1].span.end as usize)
    }
}

/// The problem of a reserved word where a name should be.
pub(crate) use recover::reserved;

/// Whether a word can't be a name.
pub(crate) fn is_reserved(word: &str) -> bool {
    const KEYWORDS: &str = " kernel fn const let mut in if else while for as where true false INF NAN PI ";
    is_type_or_reducer(word) || !word.is_empty() && KEYWORDS.split(' ').any(|keyword| keyword == word)
}

fn is_type_or_reducer(word: &str) -> bool {
    Type::from_name(word).is_some() || Reducer::from_name(word).is_some()
}

/// A piece of the program as a message shows it.
fn shown(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

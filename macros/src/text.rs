//! Rust tokens to gk text. The text has every token on its own line and column, where the tokens tell them, so that places in
//! the text are places in the user's file; else the tokens are joined by blanks, which means the same.
//!
//! Tokens don't tell their places under some editors, and tokens that another macro has put together come from several.

use std::ops::Range;

use gpukc_dsl::source::Span as Place;
use proc_macro2::{Delimiter, Spacing, Span, TokenStream, TokenTree};

/// gk text, and which token each piece of it is.
pub struct Text {
    /// The text.
    pub text: String,
    /// The same, for when the program runs, without what is for readers only if it is on one line.
    pub code: String,
    /// The line of the user's file that the text's first line is; none where that is not known: then the code is one line.
    pub line: Option<usize>,
    pieces: Vec<(Range<usize>, Span)>,
}

/// A token, delimiters being tokens too.
struct Leaf {
    text: String,
    span: Span,
    /// Line and column, from 1, in characters.
    place: Option<(usize, usize)>,
    /// Nothing may stand between this and the next.
    joint: bool,
    /// A doc comment: ends its line.
    doc: bool,
}

impl Text {
    /// The text of some tokens.
    pub fn of(tokens: TokenStream) -> Text {
        let mut leaves = Vec::new();
        collect(tokens, &mut leaves);
        laid_out(&leaves).unwrap_or_else(|| joined(&leaves))
    }

    /// The first and the last token of a place. A place between two tokens is that of the token before, if it follows at once;
    /// else of the next one.
    pub fn tokens_of(&self, place: Place) -> (Span, Span) {
        let Range { start, end } = place.range();
        let mut inside = self.pieces.iter().filter(|(piece, _)| piece.start < end.max(start + 1) && start < piece.end);
        let touched = inside.next().map(|(_, first)| (*first, inside.next_back().map_or(*first, |(_, last)| *last)));
        let before = || self.pieces.iter().find(|(piece, _)| piece.end == start);
        let after = || self.pieces.iter().find(|(piece, _)| piece.start >= start);
        let near = || before().or_else(after).or(self.pieces.last()).map(|(_, span)| (*span, *span));
        match touched {
            Some(found) if start < end => found,
            // What is missing is missing behind the token before.
            found => {
                before().map(|(_, span)| (*span, *span)).or(found).or_else(near).unwrap_or((Span::call_site(), Span::call_site()))
            }
        }
    }
}

fn collect(tokens: TokenStream, leaves: &mut Vec<Leaf>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                // `#![doc = …]` is the comment `//!`.
                let inner = tokens.next_if(|next| matches!(next, TokenTree::Punct(punct) if punct.as_char() == '!'));
                match tokens.peek().map(doc_comment) {
                    Some(Some(doc)) => {
                        tokens.next();
                        if inner.is_none() {
                            push_doc(&doc, hash.span(), leaves);
                        }
                    }
                    _ => {
                        push("#", hash.span(), false, leaves);
                        inner.iter().for_each(|token| push("!", token.span(), false, leaves));
                    }
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                push(open, group.span_open(), false, leaves);
                collect(group.stream(), leaves);
                push(close, group.span_close(), false, leaves);
            }
            TokenTree::Punct(punct) => push(&punct.as_char().to_string(), punct.span(), punct.spacing() == Spacing::Joint, leaves),
            other => push(&other.to_string(), other.span(), false, leaves),
        }
    }
}

fn push(text: &str, span: Span, joint: bool, leaves: &mut Vec<Leaf>) {
    if !text.is_empty() {
        leaves.push(Leaf { text: text.to_owned(), span, place: place(span), joint, doc: false });
    }
}

/// The lines of a doc comment; `/** … */` is none in gk.
fn push_doc(doc: &str, span: Span, leaves: &mut Vec<Leaf>) {
    if !doc.contains('\n') {
        leaves.push(Leaf { text: format!("///{doc}"), span, place: place(span), joint: false, doc: true });
    }
}

/// The text of `[doc = "…"]`, as a doc comment arrives.
fn doc_comment(token: &TokenTree) -> Option<String> {
    let TokenTree::Group(group) = token else { return None };
    let mut inside = group.stream().into_iter();
    match (inside.next()?, inside.next()?, inside.next()?) {
        (TokenTree::Ident(name), TokenTree::Punct(equals), TokenTree::Literal(text)) if name == "doc" && equals.as_char() == '=' => {
            syn::parse2::<syn::LitStr>(TokenTree::Literal(text).into()).ok().map(|text| text.value())
        }
        _ => None,
    }
}

/// Line and column of a token, if rustc tells.
fn place(span: Span) -> Option<(usize, usize)> {
    if !proc_macro::is_available() {
        return None;
    }
    let span = span.unwrap();
    (span.line() > 0 && span.column() > 0).then(|| (span.line(), span.column()))
}

/// Every token on its line and column; none unless they follow one another.
fn laid_out(leaves: &[Leaf]) -> Option<Text> {
    let places: Vec<(usize, usize)> = leaves.iter().map(|leaf| leaf.place).collect::<Option<_>>()?;
    let first = places.first()?.0;
    if !places.is_sorted_by(|before, after| before < after) {
        return None;
    }
    let mut text = String::new();
    let mut pieces = Vec::with_capacity(leaves.len());
    let (mut line, mut column) = (first, 1);
    for (leaf, (to_line, to_column)) in leaves.iter().zip(places) {
        while line < to_line {
            text.push('\n');
            (line, column) = (line + 1, 1);
        }
        // The places are not those of the text.
        if (to_line, to_column) < (line, column) {
            return None;
        }
        while column < to_column {
            text.push(' ');
            column += 1;
        }
        pieces.push(add(&mut text, leaf));
        column += leaf.text.chars().count();
        if leaf.doc {
            text.push('\n');
            (line, column) = (line + 1, 1);
        }
    }
    Some(Text { code: text.clone(), text, line: Some(first), pieces })
}

/// The tokens in their order.
fn joined(leaves: &[Leaf]) -> Text {
    let (mut text, mut code) = (String::new(), String::new());
    let mut pieces = Vec::with_capacity(leaves.len());
    for leaf in leaves {
        pieces.push(add(&mut text, leaf));
        match leaf {
            Leaf { doc: true, .. } => text.push('\n'),
            _ => {
                code.push_str(&leaf.text);
                let between = if leaf.joint { "" } else { " " };
                [&mut text, &mut code].into_iter().for_each(|text| text.push_str(between));
            }
        }
    }
    Text { text, code, line: None, pieces }
}

fn add(text: &mut String, leaf: &Leaf) -> (Range<usize>, Span) {
    let start = text.len();
    text.push_str(&leaf.text);
    (start..text.len(), leaf.span)
}

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(text: &str, place: Option<(usize, usize)>) -> Leaf {
        Leaf { text: text.into(), span: Span::call_site(), place, joint: false, doc: text.starts_with("///") }
    }

    #[test]
    fn tokens_keep_their_places() {
        let leaves = [
            leaf("/// ä", Some((7, 5))),
            leaf("fn", Some((8, 5))),
            leaf("f", Some((8, 8))),
            leaf("(", Some((8, 9))),
            leaf(")", Some((10, 1))),
        ];
        let text = laid_out(&leaves).unwrap();
        assert_eq!((text.text.as_str(), text.line), ("    /// ä\n    fn f(\n\n)", Some(7)));
    }

    #[test]
    fn tokens_of_several_places_are_joined() {
        let leaves = [leaf("x", Some((3, 5))), leaf("+", Some((1, 1)))];
        assert!(laid_out(&leaves).is_none());
        assert_eq!(joined(&leaves).text, "x + ");
        assert!(laid_out(&[leaf("x", None)]).is_none());
        // Ascending places that are too close are those of something else.
        assert!(laid_out(&[leaf("kernel", Some((1, 1))), leaf("k", Some((1, 2)))]).is_none());
    }

    #[test]
    fn joined_text_is_what_the_tokens_mean() {
        let tokens = "/// Doc \"quoted\".\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = sum[k in 0..=i] x[k] as f32 * 1.5e3; }";
        let text = Text::of(tokens.parse().unwrap());
        assert!(text.text.starts_with("/// Doc \"quoted\".\nkernel f ( x : f32 [ n ] ) ->"), "{}", text.text);
        assert!(text.text.contains("..="), "{}", text.text);
        let checked = gpukc_dsl::check(&gpukc_dsl::source::Source::new("t", text.text));
        assert_eq!(checked.program.unwrap().kernels[0].doc, ["Doc \"quoted\"."]);
    }

    #[test]
    fn inner_and_block_docs_are_comments() {
        let text = Text::of("//! inner\n/** block\n comment */ const A: i64 = 1;".parse().unwrap());
        assert_eq!(text.text, "const A : i64 = 1 ; ");
    }
}

//! A macro's tokens to gk text, on the places that rustc tells. How, is `gpukc_tokens`'s, which does without rustc.

use gpukc_tokens::Text;
use proc_macro2::{Span, TokenStream};

/// The text of some tokens, and the name of the file that all of them stand in, if they tell.
pub fn of(tokens: TokenStream) -> (Text, Option<String>) {
    let file = tokens.clone().into_iter().next().and_then(|token| file(token.span()));
    let text = Text::of(tokens, |span| place(span).filter(|_| self::file(span) == file));
    (text, file)
}

/// Line and column of a token.
fn place(span: Span) -> Option<(usize, usize)> {
    let span = known(span)?;
    (span.line() > 0 && span.column() > 0).then(|| (span.line(), span.column()))
}

/// The file of a token: where another macro has made the token, that macro's. Spelled as `file!()` spells it.
fn file(span: Span) -> Option<String> {
    known(span).map(|span| span.file()).filter(|file| !file.is_empty())
}

/// What rustc knows of a token, if it is rustc that we run in.
fn known(span: Span) -> Option<proc_macro::Span> {
    if !proc_macro::is_available() {
        return None;
    }
    let span = span.unwrap();
    Some(span)
}

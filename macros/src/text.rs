//! A macro's tokens to gk text, on the places that rustc tells. How, is `gpukc_tokens`'s, which does without rustc.

use gpukc_tokens::Text;
use proc_macro2::{Span, TokenStream};

/// The text of some tokens.
pub fn of(tokens: TokenStream) -> Text {
    Text::of(tokens, place)
}

/// Line and column of a token, if rustc tells.
fn place(span: Span) -> Option<(usize, usize)> {
    if !proc_macro::is_available() {
        return None;
    }
    let span = span.unwrap();
    (span.line() > 0 && span.column() > 0).then(|| (span.line(), span.column()))
}

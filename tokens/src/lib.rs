//! Rust tokens to gk text. The text has every token on its own line and column, where the tokens tell them, so that places in
//! the text are places in the user's file; else the tokens are joined by blanks, which means the same.
//!
//! Tokens don't tell their places under some editors, and tokens that another macro has put together come from several: places
//! are believed if the text that they give has the same words as the joined one.
//!
//! A crate of its own, for what is part of a procedural macro can be called by nothing but rustc.

mod leaf;

use std::ops::Range;

use gpukc_dsl::parser;
use gpukc_dsl::source::Span as Place;
use leaf::{Leaf, leaves};
use proc_macro2::{Span, TokenStream};

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

impl Text {
    /// The text of some tokens. `place` gives the line and the column of a token, both from 1, in characters, if they are known.
    pub fn of(tokens: TokenStream, place: impl Fn(Span) -> Option<(usize, usize)>) -> Text {
        let leaves = leaves(tokens);
        let joined = joined(&leaves);
        let places: Option<Vec<(usize, usize)>> = leaves.iter().map(|leaf| place(leaf.span)).collect();
        let laid_out = places.and_then(|places| {
            let placed = leaves.iter().zip(places).collect();
            laid_out(&on_lines_of_their_own(placed))
        });
        laid_out.filter(|laid_out| words(&laid_out.text).eq(words(&joined.text))).unwrap_or(joined)
    }

    /// The first and the last token of a place. A place between two tokens is that of the token before, if it follows at once;
    /// else of the next one.
    pub fn tokens_of(&self, place: Place) -> (Span, Span) {
        let Range { start, end } = place.range();
        // The pieces follow one another: those before `touched` end before the place, those from `behind` on start behind it.
        let touched = self.pieces.partition_point(|(piece, _)| piece.end <= start);
        let behind = self.pieces.partition_point(|(piece, _)| piece.start < end.max(start + 1));
        let before = || self.pieces[..touched].last().filter(|(piece, _)| piece.end == start);
        let inside = self.pieces.get(touched..behind).and_then(|pieces| Some((pieces.first()?, pieces.last()?)));
        // What is missing is missing behind the token before.
        let at_end = || before().or(inside.map(|(first, _)| first)).or(self.pieces.get(touched)).or(self.pieces.last());
        match inside {
            Some(((_, first), (_, last))) if start < end => (*first, *last),
            _ => at_end().map_or((Span::call_site(), Span::call_site()), |(_, span)| (*span, *span)),
        }
    }
}

/// What gk reads in a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    parser::words(text).0.into_iter().map(|place| &text[place.range()])
}

type Placed<'a> = (&'a Leaf, (usize, usize));

/// Sees to it that doc comments have lines of their own, as gk's do, which blocks need not have. They move up to lines where nothing
/// is; where there are none, they are left out.
fn on_lines_of_their_own(mut placed: Vec<Placed>) -> Vec<Placed> {
    let mut kept = vec![true; placed.len()];
    for at in 0..placed.len() {
        let (leaf, (line, column)) = placed[at];
        let Some(&(_, (next, _))) = placed.get(at + 1).filter(|_| leaf.doc) else { continue };
        let lines = 1 + leaf.text.matches('\n').count();
        let (before, (last, _)) = placed[..at].last().copied().unwrap_or((leaf, (0, 0)));
        let free = last + if before.doc { 1 + before.text.matches('\n').count() } else { 1 };
        match next.checked_sub(lines) {
            Some(_) if line + lines <= next => {}
            Some(higher) if higher >= free && higher > 0 => placed[at].1 = (higher, column),
            _ => kept[at] = false,
        }
    }
    placed.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(placed, _)| placed).collect()
}

/// Every token on its line and column; none unless they follow one another.
fn laid_out(placed: &[Placed]) -> Option<Text> {
    let first = placed.first()?.1.0;
    let mut text = String::new();
    let mut pieces = Vec::with_capacity(placed.len());
    let (mut line, mut column) = (first, 1);
    for &(leaf, (to_line, to_column)) in placed {
        // The places are not those of one text.
        if (to_line, to_column) < (line, column) {
            return None;
        }
        if line < to_line {
            text.extend(std::iter::repeat_n('\n', to_line - line));
            (line, column) = (to_line, 1);
        }
        text.extend(std::iter::repeat_n(' ', to_column - column));
        pieces.push(add(&mut text, leaf));
        // Blocks of documentation go over several lines, and so may texts in quotes, which gk refuses.
        line += leaf.text.matches('\n').count();
        column = leaf.text.rsplit_once('\n').map_or(to_column, |_| 1);
        column += leaf.text.rsplit('\n').next().map_or(0, |last| last.chars().count());
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
mod tests {
    use super::*;

    fn leaf(text: &str) -> Leaf {
        Leaf { text: text.into(), span: Span::call_site(), joint: false, doc: text.starts_with("///") }
    }

    fn at(leaves: &[Leaf], places: &[(usize, usize)]) -> Option<Text> {
        laid_out(&leaves.iter().zip(places.iter().copied()).collect::<Vec<_>>())
    }

    #[test]
    fn block_comments_are_not_lines_of_documentation() {
        let text = placed("/** before */ fn f", &[(1, 1), (1, 15), (1, 18)]);
        assert_eq!((text.text.as_str(), text.line), ("              fn f", Some(1)));
    }

    #[test]
    fn blocks_of_documentation_have_lines_of_their_own() {
        for (tokens, text) in [
            // As many lines as before, so that what follows stays where it was.
            ("fn a\n/**\n * One.\n * Two.\n */\nfn f", "fn a\n/// One.\n/// Two.\n\n\nfn f"),
            ("fn a\n\n/** One.\n    Two. */ fn f", "fn a\n/// One.\n/// Two. \n            fn f"),
            ("fn a\n\n  /** One. */ fn f", "fn a\n  /// One. \n              fn f"),
            // Nothing is free: it is left out.
            ("fn a\n/** One. */ fn f", "fn a\n            fn f"),
            ("fn a\n/** One.\n    Two. */ fn f", "fn a\n\n            fn f"),
            ("/** One. */ fn f", "            fn f"),
        ] {
            let made = Text::of(tokens.parse().unwrap(), |span| Some((span.start().line, span.start().column + 1)));
            assert_eq!((made.text.as_str(), made.line), (text, Some(1)), "{tokens}");
        }
    }

    /// The text of tokens that tell these places.
    fn placed(tokens: &str, places: &[(usize, usize)]) -> Text {
        let mut places = places.iter();
        let places: Vec<_> = leaves(tokens.parse().unwrap()).iter().map(|_| places.next().copied()).collect();
        let places = std::cell::RefCell::new(places.into_iter());
        Text::of(tokens.parse().unwrap(), |_| places.borrow_mut().next().flatten())
    }

    #[test]
    fn tokens_keep_their_places() {
        let leaves = ["/// ä", "fn", "f", "(", ")"].map(leaf);
        let text = at(&leaves, &[(7, 5), (8, 5), (8, 8), (8, 9), (10, 1)]).unwrap();
        assert_eq!((text.text.as_str(), text.line), ("    /// ä\n    fn f(\n\n)", Some(7)));
    }

    #[test]
    fn tokens_of_several_lines_keep_their_places() {
        let text = placed("\"a\nbc\" x", &[(3, 2), (4, 4)]);
        assert_eq!((text.text.as_str(), text.line), (" \"a\nbc\"x", Some(3)));
        assert!(placed("\"a\nbc\" x", &[(3, 2), (4, 3)]).line.is_none());
    }

    #[test]
    fn tokens_of_several_places_are_joined() {
        assert_eq!(placed("x +", &[(3, 5), (1, 1)]).text, "x + ");
        assert!(placed("x", &[]).line.is_none());
        // Ascending places that are too close are those of something else.
        assert!(placed("kernel k", &[(1, 1), (1, 2)]).line.is_none());
        // So are those where tokens would become one.
        assert_eq!(placed("a b", &[(1, 1), (1, 2)]).text, "a b ");
        assert_eq!(placed("+ = x", &[(1, 1), (1, 2), (1, 4)]).text, "+ = x ");
        assert_eq!(placed("1 . 5", &[(1, 1), (1, 2), (1, 3)]).text, "1 . 5 ");
        assert_eq!(placed("= - 5", &[(1, 1), (1, 2), (1, 3)]).text, "=-5");
    }

    #[test]
    fn places_lead_to_tokens() {
        let text = Text::of("ab  (c)\n d".parse().unwrap(), |span| Some((span.start().line, span.start().column + 1)));
        assert_eq!(text.text, "ab  (c)\n d");
        let columns = |start, end| {
            let (first, last) = text.tokens_of(Place::new(start, end));
            (first.start().column, last.start().column)
        };
        assert_eq!([columns(0, 2), columns(1, 2), columns(0, 6), columns(5, 100)], [(0, 0), (0, 0), (0, 5), (5, 1)]);
        // Between tokens: at once behind one, before one, and within one.
        assert_eq!([columns(2, 2), columns(3, 3), columns(3, 4), columns(1, 1)], [(0, 0), (4, 4), (4, 4), (0, 0)]);
        // At the end, and where nothing is.
        assert_eq!([columns(10, 10), columns(50, 60)], [(1, 1), (1, 1)]);
        Text::of(TokenStream::new(), |_| None).tokens_of(Place::new(3, 4));
    }

    #[test]
    fn joined_text_is_what_the_tokens_mean() {
        let tokens = "/// Doc \"quoted\".\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = sum[k in 0..=i] x[k] as f32 * 1.5e3; }";
        let text = Text::of(tokens.parse().unwrap(), |_| None);
        assert!(text.text.starts_with("/// Doc \"quoted\".\nkernel f ( x : f32 [ n ] ) ->"), "{}", text.text);
        assert!(text.text.contains("..="), "{}", text.text);
        let checked = gpukc_dsl::check(&gpukc_dsl::source::Source::new("t", text.text));
        assert_eq!(checked.program.unwrap().kernels[0].doc, ["Doc \"quoted\"."]);
    }
}

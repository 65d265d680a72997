//! What a macro sees of a program: its Rust tokens, and tokens that other macros have changed on the way. gk text comes out.
//!
//! An input is a text, and, behind its last zero byte if there is one, pairs of bytes that say how its tokens are changed: what
//! to do, and with which token.

use gpukc_dsl::ast::{File, Item};
use gpukc_dsl::parser::{self, words};
use gpukc_dsl::source::{Source, Span as Place};
use gpukc_tokens::Text;
use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree, extra};

use crate::random::Random;
use crate::text::Corpus;

/// A program, mostly with changes of its tokens.
pub fn input(corpus: &Corpus, random: &mut Random) -> Vec<u8> {
    let mut input = corpus.input(random);
    if !random.one_in(3) {
        input.push(0);
        input.extend((0..2 * (1 + random.below(4))).map(|_| random.bits() as u8));
    }
    input
}

/// Recovers what the tokens of a text and its changed tokens mean in gk. Of how many streams every word was compared: the
/// unchanged one, and the changed one with and without places.
pub fn recover(data: &[u8]) -> [bool; 3] {
    let mut compared = [false; 3];
    let end = data.iter().rposition(|&byte| byte == 0).unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return compared };
    let source = Source::new("fuzz.rs", text);
    // The crate keeps every text that it has cut into tokens, to look up their places.
    extra::invalidate_current_thread_spans();
    let Ok(mut tokens) = source.text().parse::<TokenStream>() else { return compared };
    if words(source.text()).1.is_empty() {
        unchanged(&source, &tokens);
        compared[0] = true;
    }
    let changes = data.get(end + 1..).unwrap_or_default().chunks_exact(2);
    if changes.len() > 0 {
        for change in changes {
            let count = count(&tokens);
            tokens = changed(tokens, &mut (usize::from(change[1]) * count / 256), change[0]);
        }
        compared[1] = means_the_same(&tokens, place);
        compared[2] = means_the_same(&tokens, |_| None);
    }
    compared
}

fn place(span: Span) -> Option<(usize, usize)> {
    let start = span.start();
    // Tokens that no text holds are on line 0.
    (start.line > 0 && !span.byte_range().is_empty()).then_some((start.line, start.column + 1))
}

/// The tokens of a gk text give all its words and doc comments, and each leads back to where it stands.
fn unchanged(source: &Source, tokens: &TokenStream) {
    let (expected, _) = words(source.text());
    let (file, problems) = parser::parse(source);
    for text in [Text::of(tokens.clone(), place), Text::of(tokens.clone(), |_| None)] {
        let found = Source::new("recovered", text.text.as_str());
        let (places, _) = words(found.text());
        assert_eq!(slices(&found, &places), slices(source, &expected));
        let (mut in_source, mut in_found) = (Walk::along(source.text()), Walk::along(found.text()));
        for (&place, &original) in places.iter().zip(&expected) {
            let (start, end) = (in_source.to(original.range().start), in_source.to(original.range().end));
            let (first, last) = text.tokens_of(place);
            // Where the tokenizers differ, a token of Rust's is several words.
            assert!(position(first.start()) <= start, "{place:?} starts at {first:?}");
            assert!(position(last.end()) >= end, "{place:?} ends at {last:?}");
            assert!(position(first.end()) > start, "{place:?} starts at {first:?}");
            if let Some(line) = text.line {
                let (found, column) = in_found.to(place.range().start);
                assert_eq!((found + line - 1, column), start, "{place:?}");
            }
        }
        let code = Source::new("code", text.code.as_str());
        assert_eq!(slices(&code, &words(code.text()).0), slices(source, &expected));
        assert!(text.line.is_some() || !text.code.contains('\n'), "{:?}", text.code);
        // Where lines end helps to tell the items of a wrong program apart.
        if text.line.is_some() || problems.is_empty() {
            assert_eq!(docs(&parser::parse(&found).0), docs(&file));
        }
    }
    let laid_out = Text::of(tokens.clone(), place).line.is_some();
    assert!(laid_out || expected.is_empty(), "places are not believed");
}

/// Lines and columns, both from 1, of places that ascend. [`Source::position`] counts from the start of the line every time, which
/// for every word of a long line takes the square of its length.
struct Walk<'a> {
    ahead: &'a str,
    offset: usize,
    at: (usize, usize),
}

impl<'a> Walk<'a> {
    fn along(text: &'a str) -> Self {
        Walk { ahead: text, offset: 0, at: (1, 1) }
    }
    fn to(&mut self, offset: usize) -> (usize, usize) {
        let (passed, ahead) = self.ahead.split_at(offset - self.offset);
        for character in passed.chars() {
            let (line, column) = self.at;
            self.at = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        (self.ahead, self.offset) = (ahead, offset);
        self.at
    }
}

fn slices<'a>(source: &'a Source, places: &[Place]) -> Vec<&'a str> {
    places.iter().map(|&place| source.slice(place)).collect()
}

/// Line and column from 1.
fn position(place: proc_macro2::LineColumn) -> (usize, usize) {
    (place.line, place.column + 1)
}

fn docs(file: &File) -> Vec<Vec<String>> {
    let doc = |item: &Item| match item {
        Item::Kernel(kernel) => kernel.doc.clone(),
        Item::Function(function) => function.doc.clone(),
        Item::Constant(constant) => constant.doc.clone(),
    };
    file.items.iter().map(doc).collect()
}

/// Whatever tokens there are, the text has their words and no others, and each leads back to its token.
fn means_the_same(tokens: &TokenStream, place: impl Fn(Span) -> Option<(usize, usize)>) -> bool {
    let text = Text::of(tokens.clone(), place);
    let source = Source::new("recovered", text.text.as_str());
    let (_, problems) = parser::parse(&source);
    for problem in &problems {
        text.tokens_of(problem.span());
    }
    let mut runs = Vec::new();
    collect(tokens, &mut runs);
    // What gk does not know may end where a later token does.
    if runs.iter().any(|run| !words(&run.text).1.is_empty()) {
        return false;
    }
    let expected = || runs.iter().flat_map(|run| words(&run.text).0.into_iter().map(move |place| (run, place)));
    let (places, _) = words(source.text());
    assert_eq!(slices(&source, &places), expected().map(|(run, place)| &run.text[place.range()]).collect::<Vec<_>>());
    let code = Source::new("code", text.code.as_str());
    assert_eq!(slices(&code, &words(code.text()).0), slices(&source, &places));
    for (place, (run, inside)) in places.into_iter().zip(expected()) {
        let span = run.spans[run.spans.partition_point(|(start, _)| *start <= inside.range().start) - 1].1;
        assert_eq!(format!("{:?}", text.tokens_of(place).0), format!("{span:?}"), "{}", source.slice(place));
    }
    true
}

/// Tokens between which nothing may stand.
struct Run {
    text: String,
    /// Where each of them starts.
    spans: Vec<(usize, Span)>,
}

fn collect(tokens: &TokenStream, runs: &mut Vec<Run>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut rest = trees.as_slice();
    let mut joint = false;
    while let [first, behind @ ..] = rest {
        if let Some(behind) = behind_comment(rest) {
            (rest, joint) = (behind, false);
            continue;
        }
        rest = behind;
        let mut push = |text: &str, span, joint| match runs.last_mut().filter(|_| joint) {
            Some(run) => {
                run.spans.push((run.text.len(), span));
                run.text.push_str(text);
            }
            None => runs.push(Run { text: text.to_owned(), spans: vec![(0, span)] }),
        };
        match first {
            TokenTree::Group(group) => {
                let signs = match group.delimiter() {
                    Delimiter::Parenthesis => Some(("(", ")")),
                    Delimiter::Bracket => Some(("[", "]")),
                    Delimiter::Brace => Some(("{", "}")),
                    Delimiter::None => None,
                };
                signs.iter().for_each(|(open, _)| push(open, group.span_open(), false));
                collect(&group.stream(), runs);
                let close = |(_, text): (&str, &str)| Run { text: text.to_owned(), spans: vec![(0, group.span_close())] };
                runs.extend(signs.map(close));
                joint = false;
            }
            leaf => {
                push(&leaf.to_string(), leaf.span(), joint);
                joint = match (leaf, behind.first()) {
                    (TokenTree::Punct(sign), Some(TokenTree::Punct(next))) => {
                        let comment = sign.as_char() == '/' && matches!(next.as_char(), '/' | '*');
                        sign.spacing() == Spacing::Joint && !comment
                    }
                    _ => false,
                };
            }
        }
    }
}

/// What follows `#[doc = "…"]` or `#![doc = "…"]`, if trees start with it.
fn behind_comment(trees: &[TokenTree]) -> Option<&[TokenTree]> {
    let is = |tree: &TokenTree, sign: char| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == sign);
    let (group, behind) = match trees {
        [hash, TokenTree::Group(group), behind @ ..] if is(hash, '#') => (group, behind),
        [hash, inner, TokenTree::Group(group), behind @ ..] if is(hash, '#') && is(inner, '!') => (group, behind),
        _ => return None,
    };
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    let text = |literal: &Literal| ["\"", "r\"", "r#"].iter().any(|start| literal.to_string().starts_with(start));
    let doc = matches!(&inside[..], [TokenTree::Ident(name), equals, TokenTree::Literal(literal)]
        if name == "doc" && is(equals, '=') && text(literal));
    (doc && group.delimiter() == Delimiter::Bracket).then_some(behind)
}

/// How many trees there are, those inside of others too.
fn count(tokens: &TokenStream) -> usize {
    let inside = |tree| if let TokenTree::Group(group) = tree { count(&group.stream()) } else { 0 };
    tokens.clone().into_iter().map(|tree| 1 + inside(tree)).sum()
}

/// The tokens with a change of the tree that `left` trees stand before.
fn changed(tokens: TokenStream, left: &mut usize, what: u8) -> TokenStream {
    let mut trees = Vec::new();
    for tree in tokens {
        let here = *left == 0;
        *left = left.wrapping_sub(1);
        match tree {
            _ if here => change(tree, what, &mut trees),
            TokenTree::Group(group) => trees.push(regrouped(&group, group.delimiter(), changed(group.stream(), left, what))),
            other => trees.push(other),
        }
    }
    trees.into_iter().collect()
}

/// What other macros do to a tree: some things that they may, and some that they had better not.
fn change(mut tree: TokenTree, what: u8, trees: &mut Vec<TokenTree>) {
    const DELIMITERS: [Delimiter; 4] = [Delimiter::Parenthesis, Delimiter::Bracket, Delimiter::Brace, Delimiter::None];
    const SIGNS: [char; 12] = ['/', '*', '=', '.', '-', '<', '>', ':', '#', '!', '&', '\''];
    let span = tree.span();
    let choice = usize::from(what / 12);
    let mut beside = |mut other: TokenTree| {
        other.set_span(if choice.is_multiple_of(2) { Span::call_site() } else { span });
        trees.push(other);
    };
    match what % 12 {
        0 => return,
        1 => tree.set_span(Span::call_site()),
        2 => beside(tree.clone()),
        3 => tree = TokenTree::Group(Group::new(Delimiter::None, tree.into())),
        4 => {
            let inside = if let TokenTree::Group(group) = &tree { group.stream() } else { tree.clone().into() };
            tree = TokenTree::Group(Group::new(DELIMITERS[choice % 4], inside));
        }
        5 | 6 => {
            if let TokenTree::Punct(punct) = &tree {
                let mut other = Punct::new(punct.as_char(), if choice.is_multiple_of(2) { Spacing::Joint } else { Spacing::Alone });
                other.set_span(span);
                tree = other.into();
            }
        }
        7 => beside(Punct::new(SIGNS[choice % 12], Spacing::Joint).into()),
        8 => beside(if choice.is_multiple_of(3) { Literal::i64_unsuffixed(-1) } else { Literal::f32_suffixed(1.5) }.into()),
        9 => {
            let docs = ["#[doc = \"a\"]", "#![doc = \"/b\"]", "#[doc = \"two\\nlines\"]", "#[doc]", "/// c\n"];
            trees.extend(docs[choice % 5].parse::<TokenStream>().into_iter().flatten());
        }
        10 => beside(if choice.is_multiple_of(3) { Ident::new_raw("type", span) } else { Ident::new("n", span) }.into()),
        _ => beside(if choice.is_multiple_of(3) { Literal::string("\"//\n") } else { Literal::usize_unsuffixed(7) }.into()),
    }
    trees.push(tree);
}

fn regrouped(group: &Group, delimiter: Delimiter, inside: TokenStream) -> TokenTree {
    let mut other = Group::new(delimiter, inside);
    other.set_span(group.span());
    other.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_what_a_look_up_finds() {
        let source = Source::new("t", "a é\n\n線b\r\nc");
        let mut walk = Walk::along(source.text());
        let all: Vec<usize> = source.text().char_indices().map(|(at, _)| at).chain([source.text().len()]).collect();
        for &at in all.iter().flat_map(|at| [at, at]) {
            let found = source.position(at);
            assert_eq!(walk.to(at), (found.line, found.column), "{at}");
        }
    }
}

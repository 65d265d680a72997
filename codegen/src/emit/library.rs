//! The prelude: device helpers as real CUDA, of which a text receives those that it uses.
//!
//! The files `prelude/*.cuh` consist of *pieces* between blank lines: a comment and a declaration (several, if they belong
//! together). A piece defines the names that its unindented lines declare; overloads are pieces of one name. A piece
//! without a comment belongs to the family of the piece before, whose comment serves them all.
//!
//! A text needs the pieces that define a name it mentions, and what these need. Of overloads on `float`, `double` and
//! `Best` it needs those whose type it mentions, or the heads of its pieces do: a kernel without doubles has no helper for
//! doubles.

use std::collections::BTreeSet;
use std::sync::OnceLock;

const FILES: [&str; 9] = [
    include_str!("prelude/types.cuh"),
    include_str!("prelude/integers.cuh"),
    include_str!("prelude/floats.cuh"),
    include_str!("prelude/indices.cuh"),
    include_str!("prelude/reductions.cuh"),
    include_str!("prelude/scans.cuh"),
    include_str!("prelude/atomics.cuh"),
    include_str!("prelude/clusters.cuh"),
    include_str!("prelude/launches.cuh"),
];

/// Types that select overloads.
const SELECTORS: [&str; 3] = ["float", "double", "Best"];

/// A part of the prelude that is taken or left as a whole.
#[derive(Debug)]
struct Piece {
    /// The comment of its family.
    comment: &'static str,
    /// The declarations.
    code: &'static str,
    /// What it defines.
    names: Vec<&'static str>,
    /// The selectors that must be mentioned for it to be taken.
    selectors: Vec<&'static str>,
    /// What it mentions.
    mentions: BTreeSet<&'static str>,
}

fn pieces() -> &'static [Piece] {
    static PIECES: OnceLock<Vec<Piece>> = OnceLock::new();
    PIECES.get_or_init(|| {
        let declarations: Vec<&str> = FILES.iter().flat_map(|file| file.lines()).filter_map(declared).collect();
        let mut family = "";
        let mut pieces = Vec::new();
        for text in FILES.iter().flat_map(|file| file.split("\n\n")) {
            let text = text.trim_end();
            let length: usize = text.split_inclusive('\n').take_while(|line| line.starts_with("//")).map(str::len).sum();
            let (comment, code) = text.split_at(length);
            family = if comment.is_empty() { family } else { comment };
            pieces.push(parse(family, code, &declarations));
        }
        pieces
    })
}

/// Every name that the prelude defines.
pub fn helper_names() -> impl Iterator<Item = &'static str> {
    pieces().iter().flat_map(|piece| piece.names.iter().copied())
}

/// Whether the prelude defines this name.
pub fn is_helper(name: &str) -> bool {
    helper_names().any(|helper| helper == name)
}

/// Whether the first argument of a helper is a constant between angle brackets.
pub fn takes_constant(name: &str) -> bool {
    pieces().iter().any(|piece| piece.names.contains(&name) && piece.code.starts_with("template <int "))
}

/// The pieces that `text` needs, in the order of the prelude, with their comments.
pub fn needed_by(text: &str) -> String {
    let mut mentioned: BTreeSet<&str> = identifiers(text).collect();
    let mut taken = vec![false; pieces().len()];
    loop {
        let mut grown = false;
        for (piece, taken) in pieces().iter().zip(&mut taken) {
            let wanted = piece.names.iter().any(|name| mentioned.contains(name))
                && piece.selectors.iter().all(|selector| mentioned.contains(selector));
            if wanted && !*taken {
                *taken = true;
                grown = true;
                mentioned.extend(&piece.mentions);
            }
        }
        if !grown {
            break;
        }
    }
    let mut out = String::new();
    let mut family = "";
    for (piece, _) in pieces().iter().zip(taken).filter(|(_, taken)| *taken) {
        if piece.comment != family {
            out += piece.comment;
            family = piece.comment;
        }
        out += piece.code;
        out += "\n\n";
    }
    out
}

fn parse(comment: &'static str, code: &'static str, declarations: &[&str]) -> Piece {
    let names: Vec<&str> = code.lines().filter_map(declared).collect();
    let head = code.lines().find(|line| declared(line).is_some()).unwrap_or_default();
    let overloaded = declarations.iter().filter(|name| names.first() == Some(name)).count() > names.len();
    let words: Vec<&str> = identifiers(head).collect();
    let selectors = SELECTORS.into_iter().filter(|selector| overloaded && words.contains(selector)).collect();
    let mentions = identifiers(code).filter(|word| !SELECTORS.contains(word) || words.contains(word) || names.contains(word));
    Piece { comment, code, mentions: mentions.collect(), names, selectors }
}

/// The name that an unindented line declares, if it is the head of a declaration.
fn declared(line: &str) -> Option<&str> {
    if !line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return None;
    }
    let head = line.strip_prefix("template ").map_or(line, |rest| rest.split_once("> ").map_or("", |(_, head)| head));
    if head.starts_with("struct ") {
        identifiers(head.split(['{', '<']).next()?).last()
    } else if head.starts_with("using ") {
        identifiers(head).nth(1)
    } else {
        identifiers(head.split_once('(')?.0).last()
    }
}

/// The identifiers of a C++ text, without those in comments and strings.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let first = rest.chars().next()?;
            if rest.starts_with("//") {
                rest = rest.split_once('\n').map_or("", |(_, after)| after);
            } else if first == '"' {
                rest = rest.get(1..)?.split_once('"').map_or("", |(_, after)| after);
            } else if first.is_ascii_alphanumeric() || first == '_' {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                rest = after;
                if !first.is_ascii_digit() {
                    return Some(word);
                }
            } else {
                rest = rest.get(first.len_utf8()..)?;
            }
        }
    })
}

//! A first look at the text, before the grammar sees it: words, signs and comments with their places. It finds characters
//! that no program holds, malformed numbers and comments without an end, and gives the parser what it needs to say where an
//! expected thing is missing and where the next statement begins. Never recursive.

use super::literal;
use crate::diagnostic::{Diagnostic, codes};
use crate::source::Span;

/// Comments may be nested this deep.
const COMMENT_NESTING: usize = super::NESTING;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a reserved word.
    Word,
    /// A number, well formed or not.
    Number,
    /// A sign, the longest that fits.
    Sign,
    /// Something already reported.
    Bad,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub span: Span,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Comment {
    pub span: Span,
    /// Starts with exactly three slashes.
    pub doc: bool,
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    /// Nothing can be parsed: a comment has no end or is nested too deeply.
    pub hopeless: bool,
}

/// Signs of two and three characters, longest first.
const SIGNS: [&str; 24] = [
    "..=", "...", "<<=", ">>=", "->", "=>", "::", "..", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "/=", "%=",
    "&=", "|=", "^=",
];
const SINGLE_SIGNS: &[u8] = b"()[]{},;:=+-*/%&|^!<>@.?";

pub(super) fn scan(text: &str, problems: &mut Vec<Diagnostic>) -> Scan {
    let bytes = text.as_bytes();
    let mut scan = Scan::default();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let rest = &bytes[at..];
        let kind = match bytes[at] {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'/' if rest.starts_with(b"//") => {
                at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                let doc = rest.starts_with(b"///") && !rest.starts_with(b"////");
                let end = if bytes[at - 1] == b'\r' { at - 1 } else { at };
                scan.comments.push(Comment { span: Span::new(start, end), doc });
                continue;
            }
            b'/' if rest.starts_with(b"/*") => {
                match block_comment(bytes, start) {
                    Ok(end) => at = end,
                    Err(problem) => {
                        problems.push(problem);
                        scan.hopeless = true;
                        return scan;
                    }
                }
                scan.comments.push(Comment { span: Span::new(start, at), doc: false });
                continue;
            }
            b'0'..=b'9' => {
                at = literal::end(bytes, at);
                match literal::problem(&text[start..at], Span::new(start, at)) {
                    Some(problem) => {
                        problems.push(problem);
                        Kind::Bad
                    }
                    None => Kind::Number,
                }
            }
            b if b.is_ascii_alphabetic() || b == b'_' || text[at..].starts_with(char::is_alphabetic) => {
                at += text[at..].find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len() - at);
                if text[start..at].is_ascii() {
                    Kind::Word
                } else {
                    problems.push(foreign_name(&text[start..at], Span::new(start, at)));
                    Kind::Bad
                }
            }
            b => {
                if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(sign.as_bytes())) {
                    at += sign.len();
                    Kind::Sign
                } else if let Some(length) = quoted(&text[at..]) {
                    at += length;
                    let problem = Diagnostic::error(codes::CHARACTER, Span::new(start, at), "there are no texts in gk", "a text");
                    problems.push(problem.help("numbers and truth values are all there is"));
                    Kind::Bad
                } else if SINGLE_SIGNS.contains(&b) {
                    at += 1;
                    Kind::Sign
                } else {
                    let c = text[at..].chars().next().unwrap_or(' ');
                    while text[at..].starts_with(c) {
                        at += c.len_utf8();
                    }
                    problems.push(foreign_character(c, Span::new(start, start + c.len_utf8())));
                    Kind::Bad
                }
            }
        };
        // What is never reported would only fill the memory.
        problems.truncate(super::MOST + 1);
        scan.tokens.push(Token { kind, span: Span::new(start, at) });
    }
    scan
}

/// The length of `"text"` or `'c'` on one line.
fn quoted(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let end = text[1..].find([quote, '\n'])?;
    text[1 + end..].starts_with(quote).then_some(end + 2)
}

/// The end of the comment that starts at `start`.
fn block_comment(bytes: &[u8], start: usize) -> Result<usize, Diagnostic> {
    let (mut at, mut depth) = (start + 2, 1);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"*/") {
            at += 2;
            depth -= 1;
            if depth == 0 {
                return Ok(at);
            }
        } else if bytes[at..].starts_with(b"/*") {
            depth += 1;
            if depth > COMMENT_NESTING {
                let message = format!("comments are nested more than {COMMENT_NESTING} deep");
                return Err(Diagnostic::error(codes::NESTING, Span::new(at, at + 2), message, "one too many"));
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    let help = "comments nest: each `/*` needs a `*/` of its own";
    Err(Diagnostic::error(codes::COMMENT, Span::new(start, start + 2), "this comment has no end", "starts here").help(help))
}

fn foreign_name(text: &str, span: Span) -> Diagnostic {
    let problem = Diagnostic::error(codes::CHARACTER, span, format!("`{}` is not a name", super::shown(text)), "not ASCII");
    match text {
        "π" => problem.suggest("the constant is called", span, "PI"),
        _ => problem.help("names are made of ASCII letters, digits and `_`"),
    }
}

/// What to write instead of characters that word processors, web pages and mathematicians use.
const LOOKALIKES: [(char, &str, &str); 20] = [
    ('\u{a0}', "a no-break space", " "),
    ('\u{2007}', "a figure space", " "),
    ('\u{202f}', "a narrow no-break space", " "),
    ('\u{3000}', "an ideographic space", " "),
    ('\u{200b}', "a zero-width space", ""),
    ('\u{feff}', "a byte-order mark", ""),
    ('\u{2212}', "a minus sign", "-"),
    ('\u{2013}', "a dash", "-"),
    ('\u{2014}', "a dash", "-"),
    ('×', "a multiplication sign", "*"),
    ('·', "a dot", "*"),
    ('÷', "a division sign", "/"),
    ('≤', "a relation", "<="),
    ('≥', "a relation", ">="),
    ('≠', "a relation", "!="),
    ('→', "an arrow", "->"),
    ('…', "an ellipsis", ".."),
    ('∞', "the infinity sign", "INF"),
    ('∑', "the summation sign", "sum"),
    ('¬', "the negation sign", "!"),
];

fn foreign_character(c: char, span: Span) -> Diagnostic {
    if let Some((_, name, replacement)) = LOOKALIKES.iter().find(|(other, ..)| *other == c) {
        let message = format!("{name} (U+{:04X}) has no meaning here", c as u32);
        return match *replacement {
            "" => Diagnostic::error(codes::CHARACTER, span, message, "unexpected").suggest("remove it", span, ""),
            " " => Diagnostic::error(codes::CHARACTER, span, message, "unexpected").suggest("use an ordinary space", span, " "),
            ascii => Diagnostic::error(codes::CHARACTER, span, message, "unexpected").suggest(format!("write `{ascii}`"), span, ascii),
        };
    }
    let shown = if c.is_control() || c.is_whitespace() || !c.is_ascii() && c.escape_debug().count() > 1 {
        format!("character U+{:04X}", c as u32)
    } else {
        format!("character `{c}`")
    };
    let problem = Diagnostic::error(codes::CHARACTER, span, format!("unexpected {shown}"), "unexpected");
    match c {
        '~' => problem.suggest("`!` inverts bits", span, "!"),
        '#' => problem.help("attributes are written `@name`, comments `// text`"),
        '"' | '\'' => problem.help("there are no texts in gk"),
        _ => problem,
    }
}

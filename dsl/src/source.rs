//! Source text and positions in it: byte spans inside, lines and columns (from 1, in characters) outside.

use std::ops::Range;

/// A half-open range of byte offsets into a [`Source`]'s text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span of `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        Span { start: start as u32, end: end as u32 }
    }
    /// The smallest span that holds both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
    /// As a range of byte offsets.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A line and a column, both from 1; columns count Unicode scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A named program text, with its lines indexed.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    line_starts: Vec<usize>,
    /// The bytes that continue a character: columns are counted without looking at the line again.
    continuing: Vec<usize>,
}

impl Source {
    /// Takes a text; a leading byte-order mark is dropped, so that it shifts no position.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let continuing = (0..text.len()).filter(|&at| !text.is_char_boundary(at)).collect();
        Source { name: name.into(), text, line_starts, continuing }
    }
    /// The name to show: a path, or `<stdin>`.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The text, without a byte-order mark.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// The text that a span covers.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }
    /// Line and column of a byte offset (of its character, if it lies inside one).
    pub fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.text.len());
        let line = self.line_starts.partition_point(|&start| start <= offset);
        let start = self.line_starts[line - 1];
        let continuing = |end: usize| self.continuing.partition_point(|&at| at < end);
        let characters = offset - start - (continuing(offset) - continuing(start));
        let inside = !self.text.is_char_boundary(offset);
        Position { line, column: characters + 1 - usize::from(inside) }
    }
}

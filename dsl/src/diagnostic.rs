//! Problems in a program: what is wrong, where, and what to do. Messages are written beside the check that finds them;
//! this file only carries them. `render.rs` alone knows how they are drawn.

pub mod codes;
pub mod json;
pub mod render;

use crate::source::Span;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program is accepted.
    Warning,
    /// The program is refused.
    Error,
}

/// A stable code such as `GK0203`; `gpukc explain` describes each. The hundreds name the stage:
/// 00 text and syntax, 01 names, 02 subscripts and ranges, 03 types and literals, 04 definitions, 05 attributes, 06 kernel calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GK{:04}", self.0)
    }
}

/// A marked piece of source with a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// What is underlined.
    pub span: Span,
    /// What is said of it; may be empty.
    pub text: String,
}

/// A replacement that can be pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// What to do, as an imperative.
    pub text: String,
    /// Spans and what replaces them, in order of position, not overlapping.
    pub edits: Vec<(Span, String)>,
}

/// One problem. The first label is the primary one: its start is the problem's position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// The stable code.
    pub code: Code,
    /// One sentence, lower case, no full stop.
    pub message: String,
    /// Primary label first.
    pub labels: Vec<Label>,
    /// What to do next, if there is something to say beyond the suggestions.
    pub help: Option<String>,
    /// Edits that would mend it.
    pub suggestions: Vec<Suggestion>,
}

impl Diagnostic {
    /// An error at `span`; `label` says what is wrong right there.
    pub fn error(code: u16, span: Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, span, message, label)
    }
    /// A warning at `span`.
    pub fn warning(code: u16, span: Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, span, message, label)
    }
    fn new(severity: Severity, code: u16, span: Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        let labels = vec![Label { span, text: abridged(label.into()) }];
        let message = abridged(message.into());
        Diagnostic { severity, code: Code(code), message, labels, help: None, suggestions: Vec::new() }
    }
    /// Adds a secondary label.
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: abridged(text.into()) });
        self
    }
    /// Sets the help text.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(abridged(text.into()));
        self
    }
    /// Adds a suggestion that replaces one span.
    pub fn suggest(mut self, text: impl Into<String>, span: Span, replacement: impl Into<String>) -> Self {
        self.suggestions.push(Suggestion { text: abridged(text.into()), edits: vec![(span, replacement.into())] });
        self
    }
    /// Adds a suggestion of several edits.
    pub fn suggest_edits(mut self, text: impl Into<String>, edits: Vec<(Span, String)>) -> Self {
        self.suggestions.push(Suggestion { text: text.into(), edits });
        self
    }
    /// The primary span.
    pub fn span(&self) -> Span {
        self.labels.first().map_or(Span::default(), |label| label.span)
    }
}

/// The most characters of a piece of program that a message quotes.
const LONGEST_QUOTE: usize = 120;

/// A text whose quotations, in backticks, are cut where they are very long: names may be of any length.
fn abridged(text: String) -> String {
    if text.len() <= LONGEST_QUOTE {
        return text;
    }
    let cut = |(nth, piece): (usize, &str)| match piece.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) if nth % 2 == 1 => format!("{}…", &piece[..end]),
        _ => piece.to_string(),
    };
    text.split('`').enumerate().map(cut).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        let name = "ä".repeat(LONGEST_QUOTE + 1);
        let expected = format!("unknown name `{}…`, did you mean `b`?", "ä".repeat(LONGEST_QUOTE));
        assert_eq!(abridged(format!("unknown name `{name}`, did you mean `b`?")), expected);
        assert_eq!(abridged("x ".repeat(100)), "x ".repeat(100));
    }
}

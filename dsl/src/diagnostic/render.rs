//! Draws problems for people, as rustc does. The only file that knows the drawing crate.

use super::{Diagnostic, Severity};
use crate::source::{Source, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};

/// More are counted, not drawn.
const SHOWN: usize = 50;
/// Suggestions in longer lines are told instead of drawn.
const LONGEST: usize = 400;

/// All problems of a text, a blank line between two; with a count at the end where there are several errors.
pub fn human(source: &Source, diagnostics: &[Diagnostic], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut drawn = String::new();
    for diagnostic in diagnostics.iter().take(SHOWN) {
        drawn += renderer.render(&groups(source, diagnostic)).trim_end();
        drawn += "\n\n";
    }
    let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    if errors > 1 {
        let and_warnings = match warnings {
            0 => String::new(),
            1 => " and 1 warning".into(),
            n => format!(" and {n} warnings"),
        };
        let unseen = match diagnostics.len().checked_sub(SHOWN) {
            Some(more @ 1..) => format!(", the first {SHOWN} shown, {more} more not"),
            _ => String::new(),
        };
        let title = Level::ERROR.primary_title(format!("{errors} errors{and_warnings} found{unseen}"));
        drawn += renderer.render(&[Group::with_title(title)]).trim_end();
        drawn += "\n\n";
    }
    drawn.truncate(drawn.trim_end().len());
    if !drawn.is_empty() {
        drawn.push('\n');
    }
    drawn
}

fn groups<'a>(source: &'a Source, diagnostic: &'a Diagnostic) -> Vec<Group<'a>> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.to_string()));
    if !diagnostic.labels.is_empty() {
        let window = Window::around(source, diagnostic.labels.iter().map(|label| label.span));
        let annotations = diagnostic.labels.iter().enumerate().map(|(nth, label)| {
            let kind = if nth == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            kind.span(window.within(label.span)).label((!label.text.is_empty()).then_some(label.text.as_str()))
        });
        let snippet = Snippet::source(window.text).line_start(window.line).path(source.name()).annotations(annotations);
        group = group.element(snippet);
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    let mut groups = vec![group];
    for suggestion in &diagnostic.suggestions {
        let window = Window::around(source, suggestion.edits.iter().map(|(span, _)| *span));
        if window.text.len() > LONGEST {
            let text = super::json::suggestion(source, suggestion);
            groups[0] = std::mem::replace(&mut groups[0], Group::with_level(Level::HELP)).element(Level::HELP.message(text));
            continue;
        }
        let group = Group::with_title(Level::HELP.secondary_title(suggestion.text.as_str()));
        let patches = suggestion.edits.iter().map(|(span, text)| Patch::new(window.within(*span), text.as_str()));
        groups.push(group.element(Snippet::source(window.text).line_start(window.line).path(source.name()).patches(patches)));
    }
    groups
}

/// The lines of a text that some spans touch: the drawing crate looks at every line that it is given.
struct Window<'a> {
    text: &'a str,
    start: usize,
    line: usize,
}

impl<'a> Window<'a> {
    fn around(source: &'a Source, spans: impl Iterator<Item = Span>) -> Self {
        let whole = spans.reduce(Span::to).unwrap_or_default();
        let text = source.text();
        let (start, end) = (boundary(text, whole.start as usize), boundary(text, whole.end as usize));
        let start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        Window { text: &text[start..end], start, line: source.position(start).line }
    }
    fn within(&self, span: Span) -> std::ops::Range<usize> {
        let place = |at: u32| boundary(self.text, (at as usize).saturating_sub(self.start));
        place(span.start)..place(span.end).max(place(span.start))
    }
}

/// The nearest place at or before `at` that is not inside a character.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

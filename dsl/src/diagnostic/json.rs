//! Problems for programs: one JSON object for each, on a line.

use super::{Diagnostic, Severity, Suggestion};
use crate::source::{Source, Span};
use std::fmt::Write;

/// `{"severity", "code", "message", "help", "file", "line", "column", "end_line", "end_column", "labels"}`, without a newline
/// at the end. Lines and columns count from 1, columns in Unicode scalar values, ends are exclusive.
pub fn json(source: &Source, diagnostic: &Diagnostic) -> String {
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let code = diagnostic.code;
    let message = string(&diagnostic.message);
    let help = help(source, diagnostic).map_or("null".to_string(), |help| string(&help));
    let labels: Vec<String> = diagnostic
        .labels
        .iter()
        .map(|label| format!("{{{}, \"text\": {}}}", place(source, label.span), string(&label.text)))
        .collect();
    format!(
        "{{\"severity\": \"{severity}\", \"code\": \"{code}\", \"message\": {message}, \"help\": {help}, \"file\": {}, {}, \"labels\": [{}]}}",
        string(source.name()),
        place(source, diagnostic.span()),
        labels.join(", ")
    )
}

fn place(source: &Source, span: Span) -> String {
    let (start, end) = (source.position(span.start as usize), source.position(span.end as usize));
    format!("\"line\": {}, \"column\": {}, \"end_line\": {}, \"end_column\": {}", start.line, start.column, end.line, end.column)
}

/// The help text and what the suggestions would write.
fn help(source: &Source, diagnostic: &Diagnostic) -> Option<String> {
    let suggestions = diagnostic.suggestions.iter().map(|each| suggestion(source, each));
    let parts: Vec<String> = diagnostic.help.iter().cloned().chain(suggestions).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A suggestion in words.
pub(super) fn suggestion(source: &Source, suggestion: &Suggestion) -> String {
    match rewritten(source, suggestion) {
        text if text.is_empty() => suggestion.text.clone(),
        text => format!("{}: `{text}`", suggestion.text),
    }
}

/// What stands, after its edits, where a suggestion applies.
fn rewritten(source: &Source, suggestion: &Suggestion) -> String {
    let mut text = String::new();
    let mut end = None;
    for (span, replacement) in &suggestion.edits {
        text += source.slice(Span { start: end.unwrap_or(span.start), end: span.start });
        text += replacement;
        end = Some(span.end);
    }
    text.trim().to_string()
}

/// A JSON string.
fn string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => drop(write!(quoted, "\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

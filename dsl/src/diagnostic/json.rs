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

/// The help text and what the suggestions would write, on one line.
pub fn help(source: &Source, diagnostic: &Diagnostic) -> Option<String> {
    let suggestions = diagnostic.suggestions.iter().map(|each| suggestion(source, each));
    let parts: Vec<String> = diagnostic.help.iter().cloned().chain(suggestions).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A suggestion in words.
pub fn suggestion(source: &Source, suggestion: &Suggestion) -> String {
    match rewritten(source, suggestion) {
        text if text.is_empty() || suggestion.text.contains(&format!("`{text}`")) => suggestion.text.clone(),
        text if suggestion.text.ends_with('?') => format!("{} `{text}`", suggestion.text),
        text => format!("{}: `{text}`", suggestion.text),
    }
}

/// The longest piece that a suggestion is shown in.
const LONGEST: usize = 160;

/// The statement or header around a suggestion, after its edits; of a long one the edited place alone. So it can be pasted.
fn rewritten(source: &Source, suggestion: &Suggestion) -> String {
    let Some(whole) = suggestion.edits.iter().map(|(span, _)| *span).reduce(Span::to) else { return String::new() };
    let around = around(source.text(), whole);
    let place = if around.end - around.start <= LONGEST as u32 { around } else { whole };
    let mut text = String::new();
    let mut at = place.start;
    for (span, replacement) in &suggestion.edits {
        text += source.slice(Span { start: at, end: span.start });
        text += replacement;
        at = span.end;
    }
    text += source.slice(Span { start: at, end: place.end });
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What stands between the signs that end statements and open or close blocks; on the line alone, if comments are there.
fn around(text: &str, span: Span) -> Span {
    let (start, end) = (span.start as usize, span.end as usize);
    let (Some(before), Some(after)) = (text.get(..start), text.get(end..)) else { return span };
    let start = before.rfind([';', '{', '}', '\n']).map_or(0, |at| at + 1);
    let stop = after.find([';', '{', '}', '\n']).unwrap_or(after.len());
    let stop = stop + usize::from(after[stop..].starts_with(';'));
    let comment = after[..stop].find("//").unwrap_or(stop);
    Span { start: start as u32, end: (end + comment) as u32 }
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

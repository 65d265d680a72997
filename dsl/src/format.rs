//! Program text in, the same program laid out in the one usual way out.
//!
//! The words, signs and comments of the source are printed in the order in which they stand; the syntax tree says only where
//! lines may break and how deep they are indented. So nothing can be lost, and parentheses and literals stay as written. What
//! is added or removed: commas before a closing bracket, and `;` after the `}` of a statement.
//!
//! - Lines are at most 100 characters where that is possible, indented by 4 spaces. What does not fit breaks at its outermost
//!   places: lists one element a line, chains of operators before each operator, reductions after their brackets.
//! - A body of one statement or value, and an `if` that is a value, stay on one line if they are written so and fit.
//! - At most one blank line is kept between lines; one follows every item of several lines.
//! - A comment stays after what it follows, or before what it precedes: alone on its line, or at the end of a line, as written.
//! - Lines end in LF, the last one too. A byte-order mark goes, CRLF becomes LF, spaces before the end of a `//` line go.
//!
//! `format/gap.rs` reads what lies between tokens, `format/layout.rs` decides where lines break, `format/writer.rs` joins the
//! two, `format/item.rs` and `format/expr.rs` walk the tree.

mod expr;
mod gap;
mod item;
mod layout;
mod writer;

use crate::diagnostic::{Diagnostic, Severity};
use crate::parser::parse;
use crate::source::Source;

/// Why a text is not formatted.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// It has syntax errors.
    Program(Vec<Diagnostic>),
    /// The formatter would have changed what it means: a fault of its own.
    Internal,
}

/// Formats a text. Formatting the result changes nothing, and it parses to the same tree, spans aside.
pub fn format(source: &Source) -> Result<String, Refusal> {
    let file = parsed(source).map_err(Refusal::Program)?;
    let formatted = item::file(source.text(), &file).ok_or(Refusal::Internal)?;
    // Files are overwritten with this: better to look twice.
    let again = Source::new(source.name(), formatted.as_str());
    if parsed(&again).is_err() || gap::essence(source.text()) != gap::essence(&formatted) {
        return Err(Refusal::Internal);
    }
    Ok(formatted)
}

fn parsed(source: &Source) -> Result<crate::ast::File, Vec<Diagnostic>> {
    let (file, problems) = parse(source);
    if problems.iter().any(|problem| problem.severity == Severity::Error) { Err(problems) } else { Ok(file) }
}

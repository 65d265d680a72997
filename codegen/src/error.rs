//! Why a checked program can't be compiled: a known limit of ours, explained, or a bug of ours.

use gpukc_dsl::source::Span;

/// A program that checks but is not compiled.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A known limit: what is not supported, where, and what to do.
    Limit {
        /// One sentence.
        message: String,
        /// Where in the source.
        span: Span,
    },
    /// An invariant of ours is broken; to be reported.
    Bug(String),
}

impl Error {
    /// A known limit at `span`.
    pub fn limit(span: Span, message: impl Into<String>) -> Error {
        Error::Limit { message: message.into(), span }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Limit { message, .. } => write!(f, "not supported yet: {message}"),
            Error::Bug(message) => write!(f, "internal error: {message}"),
        }
    }
}

impl std::error::Error for Error {}

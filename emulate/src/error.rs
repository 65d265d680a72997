//! Why a call has no results.

use std::fmt;

use gpukc_codegen::kernel::Site;

/// Why a call has no results.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The text does not compile: what the compiler said.
    Build(String),
    /// The text does what it must not: what was seen.
    Fault(String),
    /// The contract is broken: sizes that are none, parameters that do not agree with the text.
    Contract(String),
    /// A checked index was out of range, and the text said so.
    Index {
        /// The kernel's name.
        kernel: String,
        /// The subscript.
        site: Site,
        /// The index.
        index: i64,
        /// The extent that it must be below.
        extent: i64,
    },
    /// A call took too long.
    Slow,
    /// The compiler or the file system fails, or the call's inputs are not as bound.
    Tool(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Build(said) => write!(f, "the text does not compile:\n{said}"),
            Error::Fault(seen) => write!(f, "fault: {seen}"),
            Error::Contract(what) => write!(f, "contract: {what}"),
            Error::Index { kernel, site, index, extent } => {
                write!(f, "{kernel}: index {index} is out of range for axis {} of {}, extent {extent}", site.axis, site.array)
            }
            Error::Slow => f.write_str("the call does not end in time"),
            Error::Tool(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

//! The gk language: text to a checked, typed program. No CUDA, no files, no devices.
//!
//! `Source` → *parse* → `ast::File` → *check* → [`program::Program`], with [`diagnostic::Diagnostic`]s along the way.

pub mod arena;
pub mod ast;
pub mod call;
pub mod check;
pub mod diagnostic;
pub mod format;
pub mod parser;
pub mod program;
mod prover;
pub mod source;
pub mod types;

pub use check::{Checked, check, check_library};

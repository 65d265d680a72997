//! Random gk programs: what every device and every way to evaluate must agree on.
//!
//! ```text
//! seed ─generate→ tree::Program ─print, check→ typed program ─draw→ calls ─compare→ equal bits, or a difference ─shrink→ a small one
//! ```
//!
//! Programs are texts, so that the whole compiler sees them as users write them. Everything follows from the seed, on every machine.

// Without the dereference, inference takes the list for one of `str`.
#![allow(clippy::explicit_auto_deref, clippy::cloned_ref_to_slice_refs)]

mod express;
mod functions;
mod generate;
mod rarer;
mod recipes;

pub mod shrink;
mod smaller;
pub mod tree;
pub mod trial;

pub use generate::generate;

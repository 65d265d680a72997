//! The CPU device of gk, and the reference for every other: results follow `docs/language.md` to the last bit.
//!
//! A call's statements are compiled, one by one, to instructions over columns: some hundred points of a statement, or
//! terms of a reduction, are evaluated together, so that every instruction is a loop that the compiler has vectorised.
//! Points are spread over the cores. Which way the lanes run is chosen by cost and changes no bit.
//!
//! ```text
//! run      statements in order, arrays, tasks       build  typed expressions → code     code  instructions
//! cost     which way the lanes run                  lin    linear forms                 exec  reads, loops
//! reduce   reductions in their orders               scan   scans                        ops   elements
//! ```

#![allow(missing_docs)]

mod build;
mod code;
mod cost;
mod exec;
mod frame;
pub mod half;
mod lin;
mod ops;
mod par;
mod plan;
mod points;
mod reduce;
mod run;
mod scan;
mod sweep;
mod tensor;

pub use run::{Argument, Lanes, Options, RunError, run};
pub use tensor::{Data, Element, Store, Tensor};

//! Typed gk programs to CUDA C++ text. No files, no driver.

pub mod error;
pub mod formula;
pub mod kernel;
pub mod target;

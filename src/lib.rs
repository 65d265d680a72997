//! gpukc compiles programs in index notation to readable CUDA, and runs them on an NVIDIA GPU or on the CPU with the same bits.
//!
//! This crate names the stages; each is a crate of its own (`ARCHITECTURE.md` has the map):
//!
//! ```
//! use gpukc::codegen::{facts::Facts, target::Target};
//!
//! let source = gpukc::Source::new("saxpy.gk", "kernel saxpy(a: f32, x: f32[n]) -> y: f32[n] { y[i] = a * x[i]; }");
//! let checked = gpukc::check(&source);
//! let program = checked.program.expect("no errors");
//! let target = Target::parse("sm_90a").expect("an architecture");
//! let kernel = gpukc::compile(&program, &program.kernels[0], target, &Facts::default()).expect("CUDA text");
//! assert!(kernel.source.contains("__global__"));
//! ```

pub use gpukc_codegen as codegen;
pub use gpukc_cpu as cpu;
pub use gpukc_dsl as dsl;
pub use gpukc_runtime as runtime;

pub use gpukc_codegen::{compile, plan};
pub use gpukc_dsl::check;
pub use gpukc_dsl::program::Program;
pub use gpukc_dsl::source::Source;

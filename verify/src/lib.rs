//! Whether a kernel gives the same bits everywhere: calls of it, the texts of its plan space, devices that run them, comparisons.
//!
//! ```text
//! kernel ─draw→ calls ─evaluate→ expected results
//!                 └──texts→ CUDA texts ─device→ results ─compare→ equal bits, or a difference
//! ```
//!
//! Everything but the devices follows from the seed, on every machine.

mod data;
mod satisfy;
mod tame;
mod text;

pub mod compare;
pub mod device;
pub mod draw;
pub mod licence;
pub mod rng;
pub mod verify;

pub use text::{Text, texts};
pub use verify::{Difference, Effort, Stopped, Verified, verify};

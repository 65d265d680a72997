//! From CUDA text to a finished launch: finding and calling NVRTC, the cache, the driver, launches.
//!
//! [`compile::Compiler`] turns the text of a `codegen` kernel into a binary, through the [`cache`]. [`launch::Program`] loads
//! it on a [`device::Device`], checks the arguments of a call and launches. Nothing is linked: the driver and NVRTC are
//! opened when first needed, and a machine without them gets an [`error::Error`] that says what to do. Nothing here prints,
//! and nothing panics on account of a library, a file or a device.
//!
//! For programs that keep arrays on the device there is a [`queue::Queue`]: several [`stream`]s, [`memory`] that knows which of
//! them use it, and [`launch::Layout`]s, which launch without waiting, allocating or evaluating anything.
//!
//! All `unsafe` of the project is in this crate.

pub mod advice;
pub mod buffer;
pub mod cache;
pub mod compile;
pub mod device;
pub mod driver;
pub mod error;
pub mod fatbin;
mod fork;
pub mod launch;
pub mod locate;
pub mod memory;
pub mod nvrtc;
pub mod pinned;
pub mod process;
pub mod queue;
mod reports;
pub mod stream;

pub use cudarc;

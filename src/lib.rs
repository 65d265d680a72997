//! Array kernels in index notation, in Rust source: checked while rustc runs, compiled to readable CUDA when first used, the same
//! bits on an NVIDIA GPU and on the CPU.
//!
//! ```
//! gpukc::gpu_kernel! {
//!     /// `a` times `x`, plus `y`.
//!     kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] {
//!         z[i] = a * x[i] + y[i];
//!     }
//! }
//!
//! # fn main() -> Result<(), gpukc::Error> {
//! let gpu = gpukc::Gpu::cpu(); // `Gpu::new(0)?` is the first GPU.
//! let x = gpu.upload(&[1.0, 2.0, 3.0])?;
//! let y = gpu.upload(&[10.0, 20.0, 30.0])?;
//! let z = saxpy(&gpu, 2.0, &x, &y)?;
//! assert_eq!(z.to_vec()?, [12.0, 24.0, 36.0]);
//! # Ok(())
//! # }
//! ```
//!
//! [`tutorial`] goes through all of it. The language is described in `docs/language.md` of the project. The compiler's stages are
//! crates of their own, which this one hides (`ARCHITECTURE.md` has the map).

mod array;
pub mod build;
mod bundle;
mod element;
mod error;
mod gpu;
mod input;
pub mod interop;
mod kernel;
mod pinned;
mod shaping;
mod stream;
mod untyped;
mod view;

pub use half;

pub use array::DeviceArray;
pub use element::Element;
pub use error::{DriverCall, Error, ErrorKind, Place};
pub use gpu::{Gpu, Info};
pub use input::{Input, Output};
pub use pinned::{PinnedBuffer, Transfer};
pub use stream::{Event, Stream};
pub use view::{View, ViewMut};

/// Declares kernels: gk text becomes Rust functions.
///
/// In braces stands gk text: any number of `kernel`, `fn` and `const`. In parentheses stands the path of a `.gk` file, relative to
/// the folder of the crate's `Cargo.toml`. Mistakes are rustc's errors, under the tokens that they are about.
///
/// `kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n]` becomes
///
/// - `saxpy(&gpu, a, &x, &y)`, which gives a new [`DeviceArray`]; several results come in a struct with their names;
/// - `saxpy::into(&gpu, a, &x, &y, &mut z)`, which writes into an existing array;
/// - `saxpy::on(&stream, …)` and `saxpy::on_into(&stream, …)`, which do the same on a [`Stream`];
/// - `saxpy::in_place_x(&gpu, a, &mut x, &y)` and `saxpy::on_in_place_x(&stream, …)` for each parameter in which the kernel is
///   element-wise: the result is left in that array;
/// - `saxpy::prepare(&gpu, a, [n], [n])` and `saxpy::prepare_in_place_x(&gpu, a, [n], [n])`, which make the kernel ready for calls with
///   arrays of these shapes, so that the first one need not wait for the compiler;
/// - `saxpy::cuda()` and `saxpy::plan()`, the text that the kernel is compiled to and its plan: see [`snapshot!`](crate::snapshot).
///
/// Everything is `pub` in the module where the macro stands. `fn`s and `const`s are for the kernels of the same call only. Names
/// that are Rust's keywords become raw (`r#type`), or get an underscore where they can't (`self_`). Parameters' names are in small
/// letters in Rust; those of functions, modules and fields are as in gk.
///
/// Rust cuts the text into tokens before gk sees it. It refuses a lone `'`, a backslash, a backtick, and malformed numbers
/// (`1e`, `0x`), with errors of its own. What gk only warns of is not shown by rustc: `gpukc check` shows it.
#[macro_export]
macro_rules! gpu_kernel {
    ($($text:tt)*) => { $crate::__private::gpu_kernel! { [$crate] $($text)* } };
}

/// Compares a kernel's CUDA text with a snapshot, by the crate `insta`, which the caller depends on: `snapshot!(saxpy)`.
/// `snapshot!(plan saxpy)` compares its plan.
#[macro_export]
macro_rules! snapshot {
    (plan $($kernel:ident)::+ $(,)?) => { ::insta::assert_snapshot!($($kernel)::+::plan()) };
    (plan ::$($kernel:ident)::+ $(,)?) => { ::insta::assert_snapshot!(::$($kernel)::+::plan()) };
    ($($kernel:ident)::+ $(,)?) => { ::insta::assert_snapshot!($($kernel)::+::cuda()) };
    (::$($kernel:ident)::+ $(,)?) => { ::insta::assert_snapshot!(::$($kernel)::+::cuda()) };
}

#[doc = include_str!("../docs/rust.md")]
pub mod tutorial {}

/// What [`gpu_kernel!`] expands to. Not for use elsewhere.
#[doc(hidden)]
pub mod __private {
    pub use crate::kernel::Kernel;
    pub use crate::untyped::Untyped;
    pub use gpukc_macros::gpu_kernel;
    pub use std::fmt::Debug;
    pub use std::string::String;

    use crate::{DeviceArray, Element, Error, Input, Output};

    /// The bits of a scalar.
    pub fn bits<T: Element>(value: T) -> u64 {
        value.bits()
    }

    /// An array that is read.
    pub fn given<T, const RANK: usize>(array: &impl Input<T, RANK>) -> &Untyped {
        array.untyped()
    }

    /// An array that is written.
    pub fn taken<T, const RANK: usize>(array: &mut impl Output<T, RANK>) -> &Untyped {
        array.untyped_mut()
    }

    /// A result.
    pub fn typed<T: Element, const RANK: usize>(array: Untyped) -> Result<DeviceArray<T, RANK>, Error> {
        DeviceArray::from_untyped(array)
    }
}

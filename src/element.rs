//! The element types of arrays.

use half::{bf16, f16};

use crate::error::{Error, ErrorKind};
use gpukc_dsl::types::Type;

/// So many zeros (`false`), or that there is no memory for them.
pub(crate) fn defaults<T: Element>(len: usize) -> Result<Vec<T>, Error> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| no_memory::<T>(len))?;
    values.resize(len, T::default());
    Ok(values)
}

/// The host has no memory for so many elements.
pub(crate) fn no_memory<T: Element>(len: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("no memory for {len} elements of {} on the host", T::TYPE))
}

mod sealed {
    pub trait Sealed {}
}

/// A type that arrays on a device hold: `bool`, the integers of 8 to 64 bits, [`half::f16`], [`half::bf16`], `f32` and `f64`.
pub trait Element: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static + sealed::Sealed {
    /// Its type in gk.
    #[doc(hidden)]
    const TYPE: Type;
    /// The value's bits, in the low bytes.
    #[doc(hidden)]
    fn bits(self) -> u64;
    /// The bytes of values, in native order.
    #[doc(hidden)]
    fn as_bytes(values: &[Self]) -> &[u8];
    /// The values of bytes, which have been made by [`Element::as_bytes`], are all zero, or are [settled](Element::settle).
    #[doc(hidden)]
    fn of_bytes(bytes: &[u8]) -> &[Self];
    /// The same, to be changed.
    #[doc(hidden)]
    fn of_bytes_mut(bytes: &mut [u8]) -> &mut [Self];
    /// Makes values of bytes that come from a device.
    #[doc(hidden)]
    fn settle(_bytes: &mut [u8]) {}
    /// Lets `fill` fill the bytes of values.
    #[doc(hidden)]
    fn fill<E>(values: &mut [Self], fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E>;
}

macro_rules! elements {
    ($($ty:ty, $variant:ident, |$value:ident| $bits:expr;)+) => {
        $(
            impl sealed::Sealed for $ty {}
            impl Element for $ty {
                const TYPE: Type = Type::$variant;
                fn bits(self) -> u64 {
                    let $value = self;
                    $bits
                }
                fn as_bytes(values: &[Self]) -> &[u8] {
                    bytemuck::cast_slice(values)
                }
                fn of_bytes(bytes: &[u8]) -> &[Self] {
                    bytemuck::cast_slice(bytes)
                }
                fn of_bytes_mut(bytes: &mut [u8]) -> &mut [Self] {
                    bytemuck::cast_slice_mut(bytes)
                }
                fn fill<E>(values: &mut [Self], fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
                    fill(bytemuck::cast_slice_mut(values))
                }
            }
        )+
    };
}

elements! {
    i8, I8, |value| u64::from(value as u8);
    i16, I16, |value| u64::from(value as u16);
    i32, I32, |value| u64::from(value as u32);
    i64, I64, |value| value as u64;
    u8, U8, |value| u64::from(value);
    u16, U16, |value| u64::from(value);
    u32, U32, |value| u64::from(value);
    u64, U64, |value| value;
    f16, F16, |value| u64::from(value.to_bits());
    bf16, Bf16, |value| u64::from(value.to_bits());
    f32, F32, |value| u64::from(value.to_bits());
    f64, F64, |value| value.to_bits();
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const TYPE: Type = Type::Bool;
    fn bits(self) -> u64 {
        u64::from(self)
    }
    fn as_bytes(values: &[Self]) -> &[u8] {
        bytemuck::cast_slice(values)
    }
    fn of_bytes(bytes: &[u8]) -> &[Self] {
        bytemuck::checked::cast_slice(bytes)
    }
    fn of_bytes_mut(bytes: &mut [u8]) -> &mut [Self] {
        bytemuck::checked::cast_slice_mut(bytes)
    }
    // A byte from a device may be anything; a `bool` may not.
    fn settle(bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    fn fill<E>(values: &mut [Self], fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
        let mut bytes = vec![0u8; values.len()];
        fill(&mut bytes)?;
        values.iter_mut().zip(bytes).for_each(|(value, byte)| *value = byte != 0);
        Ok(())
    }
}

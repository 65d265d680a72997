//! What calls take: arrays, their parts, and whatever owns or borrows one.

use std::rc::Rc;
use std::sync::Arc;

use crate::array::{DeviceArray, View, ViewMut};
use crate::element::Element;
use crate::untyped::Untyped;

mod sealed {
    pub trait Sealed {}
}

/// An array that a call reads: a [`DeviceArray`], a [`View`] or [`ViewMut`] of one, or a reference, `Box`, `Rc` or `Arc` of these.
/// Calls take it by reference: `total(&gpu, &x)`, `total(&gpu, &x.view(0..2)?)`.
#[diagnostic::on_unimplemented(
    message = "expected an array on a device with elements `{T}` and rank {RANK}, found `{Self}`",
    label = "not an array of `{T}` with rank {RANK}",
    note = "`Gpu::upload` and `DeviceArray::new` bring values to a device; `reshape` and `part` give an array another rank"
)]
pub trait Input<T, const RANK: usize>: sealed::Sealed {
    /// The array.
    #[doc(hidden)]
    fn untyped(&self) -> &Untyped;
}

/// An array that a call writes: a [`DeviceArray`], a [`ViewMut`] of one, or a `&mut` or `Box` of these. Calls take it by `&mut`:
/// `scale::into(&gpu, 2.0, &x, &mut y)`, `scale::into(&gpu, 2.0, &x, &mut y.view_mut(0..2)?)`.
#[diagnostic::on_unimplemented(
    message = "expected an array on a device with elements `{T}` and rank {RANK} that can be written, found `{Self}`",
    label = "not an array of `{T}` with rank {RANK} that can be written",
    note = "`Gpu::zeros` makes an array to be written; `view_mut` and `part_mut` give parts of one that can be"
)]
pub trait Output<T, const RANK: usize>: Input<T, RANK> {}

macro_rules! arrays {
    ($($array:ty, |$own:ident| $inner:expr;)+) => {
        $(
            impl<T, const RANK: usize> sealed::Sealed for $array {}
            impl<T: Element, const RANK: usize> Input<T, RANK> for $array {
                fn untyped(&self) -> &Untyped {
                    let $own = self;
                    DeviceArray::untyped($inner)
                }
            }
        )+
    };
}

arrays! {
    DeviceArray<T, RANK>, |own| own;
    View<'_, T, RANK>, |own| own;
    ViewMut<'_, T, RANK>, |own| own;
}

impl<T: Element, const RANK: usize> Output<T, RANK> for DeviceArray<T, RANK> {}
impl<T: Element, const RANK: usize> Output<T, RANK> for ViewMut<'_, T, RANK> {}

macro_rules! pointers {
    ($($pointer:ty)+) => {
        $(
            impl<A: sealed::Sealed + ?Sized> sealed::Sealed for $pointer {}
            impl<A: Input<T, RANK> + ?Sized, T, const RANK: usize> Input<T, RANK> for $pointer {
                fn untyped(&self) -> &Untyped {
                    (**self).untyped()
                }
            }
        )+
    };
}

pointers! { &A &mut A Box<A> Rc<A> Arc<A> }

impl<A: Output<T, RANK> + ?Sized, T, const RANK: usize> Output<T, RANK> for &mut A {}
impl<A: Output<T, RANK> + ?Sized, T, const RANK: usize> Output<T, RANK> for Box<A> {}

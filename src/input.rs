//! What calls take: arrays, their parts, and whatever leads to one.

use std::ops::{Deref, DerefMut};

use crate::array::DeviceArray;
use crate::element::Element;
use crate::untyped::Untyped;
use crate::view::ViewMut;

mod sealed {
    use std::ops::Deref;

    pub trait Sealed {}
    impl<T, const RANK: usize> Sealed for crate::DeviceArray<T, RANK> {}
    impl<P: Deref<Target: Sealed>> Sealed for P {}
}

/// An array that a call reads: a [`DeviceArray`], or whatever dereferences to one: a [`View`](crate::View) or a [`ViewMut`], a
/// reference, a `Box`, `Rc` or `Arc`, the guard of a lock. Calls take it by reference: `total(&gpu, &x)`,
/// `total(&gpu, &x.view(0..2)?)`.
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

/// An array that a call writes: a [`DeviceArray`], a [`ViewMut`] of one, or whatever dereferences to one of these and lets it be
/// changed: a `&mut`, a `Box`, the guard of a lock. Calls take it by `&mut`: `scale::into(&gpu, 2.0, &x, &mut y)`,
/// `scale::into(&gpu, 2.0, &x, &mut y.view_mut(0..2)?)`.
#[diagnostic::on_unimplemented(
    message = "expected an array on a device with elements `{T}` and rank {RANK} that can be written, found `{Self}`",
    label = "not an array of `{T}` with rank {RANK} that can be written",
    note = "`Gpu::zeros` makes an array to be written; `view_mut` and `part_mut` give parts of one that can be"
)]
pub trait Output<T, const RANK: usize>: Input<T, RANK> {
    /// The array, which nobody else uses meanwhile. A pointer may lead elsewhere than for reading: to a copy of its own.
    #[doc(hidden)]
    fn untyped_mut(&mut self) -> &Untyped;
}

impl<T: Element, const RANK: usize> Input<T, RANK> for DeviceArray<T, RANK> {
    fn untyped(&self) -> &Untyped {
        DeviceArray::untyped(self)
    }
}

impl<T: Element, const RANK: usize> Output<T, RANK> for DeviceArray<T, RANK> {
    fn untyped_mut(&mut self) -> &Untyped {
        DeviceArray::untyped(self)
    }
}

impl<T: Element, const RANK: usize> Output<T, RANK> for ViewMut<'_, T, RANK> {
    fn untyped_mut(&mut self) -> &Untyped {
        DeviceArray::untyped(self)
    }
}

// rustc is to say what is wrong with an array, not that it is no pointer.
#[diagnostic::do_not_recommend]
impl<P: Deref<Target: Input<T, RANK>>, T, const RANK: usize> Input<T, RANK> for P {
    fn untyped(&self) -> &Untyped {
        (**self).untyped()
    }
}

#[diagnostic::do_not_recommend]
impl<P: DerefMut<Target: Output<T, RANK>>, T, const RANK: usize> Output<T, RANK> for P {
    fn untyped_mut(&mut self) -> &Untyped {
        (**self).untyped_mut()
    }
}

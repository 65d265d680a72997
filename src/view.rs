//! Parts of arrays on a device. They can be used as arrays are, but never taken for one that owns its memory: no `&mut DeviceArray`
//! comes of a view, for what is behind one can be moved away, out of reach of the borrow.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, RangeBounds};

use crate::array::DeviceArray;
use crate::element::Element;
use crate::error::Error;
use crate::input::Input;

/// A part of an array, to be read; calls take it as they take arrays: `total(&gpu, &x.view(0..2)?)`.
#[must_use = "a view does nothing by itself"]
pub struct View<'a, T, const RANK: usize>(DeviceArray<T, RANK>, PhantomData<&'a ()>);

impl<'a, T: Element, const RANK: usize> View<'a, T, RANK> {
    /// The part must be borrowed for `'a`.
    pub(crate) fn of(part: DeviceArray<T, RANK>) -> Self {
        View(part, PhantomData)
    }

    /// As [`DeviceArray::view`]; it may outlive this view.
    ///
    /// # Errors
    /// If the view has no such part, or no axis.
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<View<'a, T, RANK>, Error> {
        self.0.view(range).map(|view| View::of(view.0))
    }

    /// As [`DeviceArray::part`]; it may outlive this view.
    ///
    /// # Errors
    /// If the view ends before.
    pub fn part<const OTHER: usize>(&self, offset: usize, shape: [usize; OTHER]) -> Result<View<'a, T, OTHER>, Error> {
        self.0.part(offset, shape).map(|view| View::of(view.0))
    }
}

impl<T, const RANK: usize> Deref for View<'_, T, RANK> {
    type Target = DeviceArray<T, RANK>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A part of an array, to be read or written; calls take it as they take arrays:
/// `scale::into(&gpu, 2.0, &x, &mut y.view_mut(0..2)?)`.
#[must_use = "a view does nothing by itself"]
pub struct ViewMut<'a, T, const RANK: usize>(DeviceArray<T, RANK>, PhantomData<&'a mut ()>);

impl<T: Element, const RANK: usize> ViewMut<'_, T, RANK> {
    /// The part must be borrowed for the view's lifetime.
    pub(crate) fn of(part: DeviceArray<T, RANK>) -> Self {
        ViewMut(part, PhantomData)
    }

    /// As [`DeviceArray::write`].
    ///
    /// # Errors
    /// If there are not just as many elements, or the device has failed.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        self.0.write(values)
    }

    /// As [`DeviceArray::assign`].
    ///
    /// # Errors
    /// If the shapes differ, or a device has failed.
    pub fn assign(&mut self, from: &impl Input<T, RANK>) -> Result<(), Error> {
        self.0.assign(from)
    }

    /// As [`DeviceArray::view_mut`].
    ///
    /// # Errors
    /// If the view has no such part, or no axis.
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T, RANK>, Error> {
        self.0.view_mut(range)
    }

    /// As [`DeviceArray::part_mut`].
    ///
    /// # Errors
    /// If the view ends before.
    pub fn part_mut<const OTHER: usize>(&mut self, offset: usize, shape: [usize; OTHER]) -> Result<ViewMut<'_, T, OTHER>, Error> {
        self.0.part_mut(offset, shape)
    }

    /// As [`DeviceArray::split_at_mut`].
    ///
    /// # Errors
    /// If the view has no such index, or no axis.
    pub fn split_at_mut(&mut self, index: usize) -> Result<(ViewMut<'_, T, RANK>, ViewMut<'_, T, RANK>), Error> {
        self.0.split_at_mut(index)
    }
}

impl<T, const RANK: usize> Deref for ViewMut<'_, T, RANK> {
    type Target = DeviceArray<T, RANK>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: Element, const RANK: usize> fmt::Debug for View<'_, T, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<T: Element, const RANK: usize> fmt::Debug for ViewMut<'_, T, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

//! Arrays on a device.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use crate::element::{Element, defaults};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::input::Input;
use crate::untyped::{Extents, Untyped};
use crate::view::{View, ViewMut};

/// An array on a device: `RANK` dims, row-major, elements of type `T`. Its memory is freed when it is dropped, after everything
/// that has been asked of it, so that it may be dropped at any time.
///
/// An array without dims is a scalar that a kernel has computed: [`value`](DeviceArray::value) waits for it.
///
/// ```
/// use gpukc::{DeviceArray, Gpu};
///
/// let gpu = Gpu::cpu();
/// let mut x = DeviceArray::new(&gpu, [2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!(x.shape(), [2, 3]);
/// x.view_mut(0..1)?.write(&[7.0, 8.0, 9.0])?;
/// assert_eq!(x.view(0..1)?.to_vec()?, [7.0, 8.0, 9.0]);
/// # Ok::<(), gpukc::Error>(())
/// ```
#[must_use = "an array that nobody uses was computed or copied for nothing"]
pub struct DeviceArray<T, const RANK: usize> {
    array: Untyped,
    element: PhantomData<T>,
}

fn extents<const RANK: usize>(shape: [usize; RANK]) -> Result<Extents, Error> {
    Extents::new(&shape).ok_or_else(|| Error::arguments(format!("an array can't have the shape {shape:?}")))
}

impl<T: Element, const RANK: usize> DeviceArray<T, RANK> {
    /// An array with these elements, row-major.
    ///
    /// # Errors
    /// If the shape does not hold just as many elements, or the device has no memory left.
    pub fn new(gpu: &Gpu, shape: [usize; RANK], values: &[T]) -> Result<Self, Error> {
        let extents = extents(shape)?;
        if extents.elements() != Some(values.len()) {
            return Err(Error::arguments(format!("{} elements for an array of shape {shape:?}", values.len())));
        }
        let array = Untyped::unspecified(gpu, gpu.stream(), T::TYPE, extents)?;
        array.write(T::as_bytes(values))?;
        Ok(Self::of(array))
    }

    /// An array of zeros (of `false`).
    ///
    /// # Errors
    /// If the device has no memory left.
    pub fn zeros(gpu: &Gpu, shape: [usize; RANK]) -> Result<Self, Error> {
        Ok(Self::of(Untyped::zeros(gpu, T::TYPE, extents(shape)?)?))
    }

    fn of(array: Untyped) -> Self {
        DeviceArray { array, element: PhantomData }
    }

    /// If it has this type and rank.
    pub(crate) fn from_untyped(array: Untyped) -> Result<Self, Error> {
        if array.element() == T::TYPE && array.extents().as_slice().len() == RANK {
            Ok(Self::of(array))
        } else {
            Err(Error::bug("an array of another type than it was declared with"))
        }
    }

    pub(crate) fn untyped(&self) -> &Untyped {
        &self.array
    }

    pub(crate) fn into_untyped(self) -> Untyped {
        self.array
    }

    /// The extents, the slowest first.
    pub fn shape(&self) -> [usize; RANK] {
        let extents = self.array.extents().as_slice();
        std::array::from_fn(|axis| extents.get(axis).map_or(0, |&extent| extent as usize))
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.array.extents().elements().unwrap_or(0)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device it is on.
    pub fn gpu(&self) -> &Gpu {
        self.array.gpu()
    }

    /// The elements, row-major; waits for what computes them.
    ///
    /// # Errors
    /// If something has failed that was asked of the device before, an index out of range say.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut values = defaults(self.len())?;
        self.read(&mut values)?;
        Ok(values)
    }

    /// Copies the elements to the host, row-major; waits for what computes them.
    ///
    /// # Errors
    /// If there are not just as many, or something has failed that was asked of the device before.
    pub fn read(&self, values: &mut [T]) -> Result<(), Error> {
        self.check_count(values.len())?;
        T::fill(values, |bytes| self.array.read(bytes))
    }

    /// Replaces the elements, row-major.
    ///
    /// # Errors
    /// If there are not just as many, or the device has failed.
    pub fn write(&mut self, values: &[T]) -> Result<(), Error> {
        self.check_count(values.len())?;
        self.array.write(T::as_bytes(values))
    }

    fn check_count(&self, count: usize) -> Result<(), Error> {
        if count == self.len() {
            Ok(())
        } else {
            Err(Error::arguments(format!("{count} elements for an array of shape {:?}", self.shape())))
        }
    }

    /// Replaces the elements by those of another array of the same shape, on any device.
    ///
    /// # Errors
    /// If the shapes differ, or a device has failed.
    pub fn assign(&mut self, from: &impl Input<T, RANK>) -> Result<(), Error> {
        self.array.assign(from.untyped())
    }

    /// A copy on the same device.
    ///
    /// # Errors
    /// If the device has no memory left.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let copy = Untyped::unspecified(self.gpu(), self.gpu().stream(), T::TYPE, *self.array.extents())?;
        copy.assign(&self.array)?;
        Ok(Self::of(copy))
    }

    /// The same elements, row-major, in another shape.
    ///
    /// # Errors
    /// If the shape does not hold just as many elements.
    pub fn reshape<const OTHER: usize>(self, shape: [usize; OTHER]) -> Result<DeviceArray<T, OTHER>, Error> {
        let extents = extents(shape)?;
        if extents.elements() != Some(self.len()) {
            return Err(Error::arguments(format!("{} elements for an array of shape {shape:?}", self.len())));
        }
        Ok(DeviceArray::of(self.array.part(0, extents)?))
    }

    /// The part between two indices of the first axis.
    ///
    /// # Errors
    /// If the array has no such part, or no axis.
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<View<'_, T, RANK>, Error> {
        let (offset, shape) = self.along_first(range)?;
        self.part(offset, shape)
    }

    /// The part between two indices of the first axis.
    ///
    /// # Errors
    /// If the array has no such part, or no axis.
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T, RANK>, Error> {
        let (offset, shape) = self.along_first(range)?;
        self.part_mut(offset, shape)
    }

    /// Neighbouring elements, row-major, from an element on, in any shape.
    ///
    /// # Errors
    /// If the array ends before.
    pub fn part<const OTHER: usize>(&self, offset: usize, shape: [usize; OTHER]) -> Result<View<'_, T, OTHER>, Error> {
        Ok(View::of(self.part_of(offset, shape)?))
    }

    /// Neighbouring elements, row-major, from an element on, in any shape.
    ///
    /// # Errors
    /// If the array ends before.
    pub fn part_mut<const OTHER: usize>(&mut self, offset: usize, shape: [usize; OTHER]) -> Result<ViewMut<'_, T, OTHER>, Error> {
        Ok(ViewMut::of(self.part_of(offset, shape)?))
    }

    /// The parts of the first axis before an index and from it on, to be written at once: a call may have one and the other as
    /// results.
    ///
    /// # Errors
    /// If the array has no such index, or no axis.
    pub fn split_at_mut(&mut self, index: usize) -> Result<(ViewMut<'_, T, RANK>, ViewMut<'_, T, RANK>), Error> {
        let (first, second) = (self.along_first(..index)?, self.along_first(index..)?);
        Ok((ViewMut::of(self.part_of(first.0, first.1)?), ViewMut::of(self.part_of(second.0, second.1)?)))
    }

    /// The same memory once more, which a view's lifetime must guard.
    fn part_of<const OTHER: usize>(&self, offset: usize, shape: [usize; OTHER]) -> Result<DeviceArray<T, OTHER>, Error> {
        Ok(DeviceArray::of(self.array.part(offset, extents(shape)?)?))
    }

    fn along_first(&self, range: impl RangeBounds<usize>) -> Result<(usize, [usize; RANK]), Error> {
        let mut shape = self.shape();
        let row = shape.iter().skip(1).product::<usize>();
        // What can't be counted on is beyond every extent as it is.
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => shape.first().copied().unwrap_or(0),
        };
        match shape.first_mut() {
            Some(first) if start <= end && end <= *first => {
                *first = end - start;
                Ok((start * row, shape))
            }
            _ => Err(Error::arguments(format!("there is no part {start}..{end} of an array of shape {:?}", self.shape()))),
        }
    }
}

impl<T: Element> DeviceArray<T, 0> {
    /// The scalar; waits for what computes it.
    ///
    /// # Errors
    /// If something has failed that was asked of the device before, an index out of range say.
    pub fn value(&self) -> Result<T, Error> {
        let mut value = [T::default()];
        self.read(&mut value)?;
        Ok(value[0])
    }
}

#[cfg(feature = "ndarray")]
impl<T: Element, const RANK: usize> DeviceArray<T, RANK> {
    /// An array with the elements of one of the crate `ndarray`, in any layout.
    ///
    /// # Errors
    /// If it has another number of dims, or the device has no memory left.
    pub fn from_ndarray<S, D>(gpu: &Gpu, array: &ndarray::ArrayBase<S, D>) -> Result<Self, Error>
    where
        S: ndarray::Data<Elem = T>,
        D: ndarray::Dimension,
    {
        let shape: [usize; RANK] =
            array.shape().try_into().map_err(|_| Error::arguments(format!("an array of {} dims, not {RANK}", array.ndim())))?;
        match array.as_slice() {
            Some(values) => Self::new(gpu, shape, values),
            None => Self::new(gpu, shape, &array.iter().copied().collect::<Vec<_>>()),
        }
    }

    /// The elements as an array of the crate `ndarray`, of up to 6 dims, as that crate names them; waits for what computes them.
    ///
    /// # Errors
    /// If something has failed that was asked of the device before.
    pub fn to_ndarray(&self) -> Result<ndarray::Array<T, ndarray::Dim<[usize; RANK]>>, Error>
    where
        ndarray::Dim<[usize; RANK]>: ndarray::Dimension,
        [usize; RANK]: ndarray::IntoDimension<Dim = ndarray::Dim<[usize; RANK]>>,
    {
        let made = ndarray::Array::from_shape_vec(self.shape(), self.to_vec()?);
        made.map_err(|error| Error::bug(format!("a shape that its elements don't fill: {error}")))
    }
}

impl<T: Element, const RANK: usize> fmt::Debug for DeviceArray<T, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape().iter().map(usize::to_string).collect();
        write!(f, "{}[{}] on {:?}", T::TYPE, shape.join(", "), self.gpu())
    }
}

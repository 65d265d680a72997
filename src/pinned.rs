//! Pinned host memory and copies beside other work.

use std::fmt;
use std::marker::PhantomData;

use crate::element::{Element, defaults, no_memory};
use crate::error::Error;
use crate::gpu::{Backend, Gpu};
use crate::input::{Input, Output};
use crate::stream::Stream;
use crate::untyped::Untyped;
use gpukc_runtime::error::Error as Device;
use gpukc_runtime::pinned::{Copying, Pinned};

/// Elements in host memory that a GPU copies from and to by itself, while the host goes on; it serves all GPUs. A [`Transfer`] owns
/// it until it is over.
///
/// ```
/// use gpukc::{Gpu, PinnedBuffer};
///
/// let gpu = Gpu::cpu();
/// let mut buffer = PinnedBuffer::zeros(&gpu, 3)?;
/// buffer.as_mut_slice().copy_from_slice(&[1.0f32, 2.0, 3.0]);
/// let mut x = gpu.zeros([3])?;
/// let copy = buffer.copy_to(gpu.stream(), &mut x)?;
/// // … the host does something else …
/// let buffer = copy.wait()?;
/// assert_eq!(buffer.as_slice(), x.to_vec()?);
/// # Ok::<(), gpukc::Error>(())
/// ```
pub struct PinnedBuffer<T>(Host<T>);

enum Host<T> {
    Pinned(Pinned, PhantomData<T>),
    /// On the CPU in a GPU's place.
    Plain(Vec<T>),
}

impl<T: Element> PinnedBuffer<T> {
    /// So many zeros (`false`).
    ///
    /// # Errors
    /// If the system has no memory left that can be pinned.
    pub fn zeros(gpu: &Gpu, len: usize) -> Result<Self, Error> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
        let bytes = bytes.ok_or_else(|| Error::arguments(format!("{len} elements are more than any memory holds")))?;
        Ok(PinnedBuffer(match gpu.backend() {
            Backend::Cpu => Host::Plain(defaults(len)?),
            Backend::Cuda(cuda) => {
                let pinned = Pinned::new(cuda.queue.device(), bytes).map_err(|error| match error {
                    Device::OutOfMemory { .. } => no_memory::<T>(len).help("the system limits how much of it can be pinned"),
                    other => other.into(),
                })?;
                Host::Pinned(pinned, PhantomData)
            }
        }))
    }

    /// These elements.
    ///
    /// # Errors
    /// If the system has no memory left that can be pinned.
    pub fn from_slice(gpu: &Gpu, values: &[T]) -> Result<Self, Error> {
        let mut buffer = Self::zeros(gpu, values.len())?;
        buffer.as_mut_slice().copy_from_slice(values);
        Ok(buffer)
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        match &self.0 {
            Host::Pinned(pinned, _) => T::of_bytes(pinned.as_bytes()),
            Host::Plain(values) => values,
        }
    }

    /// The elements, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match &mut self.0 {
            Host::Pinned(pinned, _) => T::of_bytes_mut(pinned.as_bytes_mut()),
            Host::Plain(values) => values,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.0 {
            Host::Pinned(pinned, _) => pinned.as_bytes().len() / size_of::<T>(),
            Host::Plain(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Starts copying the elements to an array of as many, in the stream's order.
    ///
    /// # Errors
    /// If the sizes differ, or the array is of another device; the buffer is freed then.
    pub fn copy_to<const RANK: usize>(self, stream: &Stream, array: &mut impl Output<T, RANK>) -> Result<Transfer<T>, Error> {
        let array = array.untyped_mut();
        self.check(stream, array)?;
        Ok(Transfer(match (self.0, stream.device()) {
            (Host::Pinned(pinned, _), Some(device)) => Moving::Device(Copying::to_device(device, pinned, array.piece())?),
            (Host::Plain(values), None) => {
                array.write(T::as_bytes(&values))?;
                Moving::Done(values)
            }
            _ => return Err(Error::arguments("a buffer of another device, or of this one opened again")),
        }))
    }

    /// Starts copying an array of as many elements here, in the stream's order.
    ///
    /// # Errors
    /// If the sizes differ, or the array is of another device; the buffer is freed then.
    pub fn copy_from<const RANK: usize>(self, stream: &Stream, array: &impl Input<T, RANK>) -> Result<Transfer<T>, Error> {
        let array = array.untyped();
        self.check(stream, array)?;
        Ok(Transfer(match (self.0, stream.device()) {
            (Host::Pinned(pinned, _), Some(device)) => Moving::Device(Copying::to_host(device, array.piece(), pinned)?),
            (Host::Plain(mut values), None) => {
                T::fill(&mut values, |bytes| array.read(bytes))?;
                Moving::Done(values)
            }
            _ => return Err(Error::arguments("a buffer of another device, or of this one opened again")),
        }))
    }

    fn check(&self, stream: &Stream, array: &Untyped) -> Result<(), Error> {
        if !array.gpu().is(stream.shared()) {
            return Err(Error::arguments("an array of another device than the stream, or of this one opened again"));
        }
        if array.extents().elements() == Some(self.len()) {
            Ok(())
        } else {
            let shape = array.extents().as_slice();
            Err(Error::arguments(format!("a buffer of {} elements and an array of shape {shape:?}", self.len())))
        }
    }
}

/// A copy under way between a [`PinnedBuffer`] and an array. Dropping it waits for it.
#[must_use = "dropping a transfer waits for it"]
pub struct Transfer<T>(Moving<T>);

enum Moving<T> {
    Device(Copying),
    Done(Vec<T>),
}

impl<T: Element> Transfer<T> {
    /// Whether it is over.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn is_done(&self) -> Result<bool, Error> {
        match &self.0 {
            Moving::Device(copying) => Ok(copying.is_done()?),
            Moving::Done(_) => Ok(true),
        }
    }

    /// Waits for it, and gives the buffer back.
    ///
    /// # Errors
    /// If something has failed that was asked of the device before, an index out of range say; the buffer is freed then.
    pub fn wait(self) -> Result<PinnedBuffer<T>, Error> {
        Ok(PinnedBuffer(match self.0 {
            Moving::Device(copying) => {
                let mut pinned = copying.wait()?;
                T::settle(pinned.as_bytes_mut());
                Host::Pinned(pinned, PhantomData)
            }
            Moving::Done(values) => Host::Plain(values),
        }))
    }
}

impl<T: Element> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pinned elements of {}", self.len(), T::TYPE)
    }
}

impl<T: Element> fmt::Debug for Transfer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a copy of elements of {}", T::TYPE)
    }
}

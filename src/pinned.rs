//! Pinned host memory and copies beside other work.

use std::fmt;
use std::marker::PhantomData;

use crate::array::DeviceArray;
use crate::element::Element;
use crate::error::Error;
use crate::gpu::{Backend, Gpu};
use crate::runtime::pinned::{Copying, Pinned};
use crate::stream::Stream;

/// Elements in host memory that a GPU copies from and to by itself, while the host goes on. A copy owns it until it is over.
///
/// ```
/// use gpukc::{DeviceArray, Gpu, PinnedBuffer};
///
/// let gpu = Gpu::cpu();
/// let buffer = PinnedBuffer::from_slice(&gpu, &[1.0f32, 2.0, 3.0])?;
/// let mut x = gpu.zeros([3])?;
/// let copy = buffer.copy_to(gpu.stream(), &mut x)?;
/// // … the host does something else …
/// let buffer = copy.wait()?;
/// assert_eq!((buffer.to_vec(), x.to_vec()?), (vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0]));
/// # Ok::<(), gpukc::Error>(())
/// ```
pub struct PinnedBuffer<T> {
    memory: Host,
    len: usize,
    element: PhantomData<T>,
}

enum Host {
    Pinned(Pinned),
    /// On the CPU in a GPU's place.
    Plain(Vec<u8>),
}

impl Host {
    fn bytes(&self) -> &[u8] {
        match self {
            Host::Pinned(pinned) => pinned.as_bytes(),
            Host::Plain(bytes) => bytes,
        }
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Host::Pinned(pinned) => pinned.as_bytes_mut(),
            Host::Plain(bytes) => bytes,
        }
    }
}

impl<T: Element> PinnedBuffer<T> {
    /// So many zeros (`false`).
    ///
    /// # Errors
    /// If the system has no memory left that can be pinned.
    pub fn zeros(gpu: &Gpu, len: usize) -> Result<Self, Error> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok());
        let bytes = bytes.ok_or_else(|| Error::arguments(format!("{len} elements are more than any memory holds")))?;
        let memory = match gpu.backend() {
            Backend::Cpu => Host::Plain(vec![0; bytes]),
            Backend::Cuda(cuda) => Host::Pinned(Pinned::new(cuda.queue.device(), bytes)?),
        };
        Ok(PinnedBuffer { memory, len, element: PhantomData })
    }

    /// These elements.
    ///
    /// # Errors
    /// If the system has no memory left that can be pinned.
    pub fn from_slice(gpu: &Gpu, values: &[T]) -> Result<Self, Error> {
        let mut buffer = Self::zeros(gpu, values.len())?;
        buffer.memory.bytes_mut().copy_from_slice(T::as_bytes(values));
        Ok(buffer)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements.
    pub fn to_vec(&self) -> Vec<T> {
        let mut values = vec![T::default(); self.len];
        self.read(0, &mut values);
        values
    }

    /// Copies elements from an index on; how many there were.
    pub fn read(&self, at: usize, values: &mut [T]) -> usize {
        let count = values.len().min(self.len.saturating_sub(at));
        let bytes = &self.memory.bytes()[at.min(self.len) * size_of::<T>()..][..count * size_of::<T>()];
        let Ok(()) = T::fill(&mut values[..count], |into| {
            into.copy_from_slice(bytes);
            Ok::<(), std::convert::Infallible>(())
        });
        count
    }

    /// Replaces elements from an index on; how many there was room for.
    pub fn write(&mut self, at: usize, values: &[T]) -> usize {
        let count = values.len().min(self.len.saturating_sub(at));
        let place = &mut self.memory.bytes_mut()[at.min(self.len) * size_of::<T>()..][..count * size_of::<T>()];
        place.copy_from_slice(T::as_bytes(&values[..count]));
        count
    }

    /// Starts copying the elements to an array of as many, in the stream's order.
    ///
    /// # Errors
    /// If the sizes differ, or the array is of another device.
    pub fn copy_to<const RANK: usize>(self, stream: &Stream, array: &mut DeviceArray<T, RANK>) -> Result<Copy<T>, Error> {
        self.check(array)?;
        let memory = match (self.memory, stream.device()) {
            (Host::Pinned(pinned), Some(device)) => {
                Moving::Device(Copying::to_device(device.another(), pinned, array.untyped().piece())?)
            }
            (Host::Plain(bytes), None) => {
                array.untyped().write(&bytes)?;
                Moving::Done(Host::Plain(bytes))
            }
            _ => return Err(Error::arguments("a buffer of another device")),
        };
        Ok(Copy { memory, len: self.len, element: PhantomData })
    }

    /// Starts copying an array of as many elements here, in the stream's order.
    ///
    /// # Errors
    /// If the sizes differ, or the array is of another device.
    pub fn copy_from<const RANK: usize>(self, stream: &Stream, array: &DeviceArray<T, RANK>) -> Result<Copy<T>, Error> {
        self.check(array)?;
        let memory = match (self.memory, stream.device()) {
            (Host::Pinned(pinned), Some(device)) => {
                Moving::Device(Copying::to_host(device.another(), array.untyped().piece(), pinned)?)
            }
            (Host::Plain(mut bytes), None) => {
                array.untyped().read(&mut bytes)?;
                Moving::Done(Host::Plain(bytes))
            }
            _ => return Err(Error::arguments("a buffer of another device")),
        };
        Ok(Copy { memory, len: self.len, element: PhantomData })
    }

    fn check<const RANK: usize>(&self, array: &DeviceArray<T, RANK>) -> Result<(), Error> {
        if array.len() == self.len {
            Ok(())
        } else {
            Err(Error::arguments(format!("a buffer of {} elements and an array of shape {:?}", self.len, array.shape())))
        }
    }
}

/// A copy under way between a [`PinnedBuffer`] and an array. Dropping it waits for it.
#[must_use = "dropping a copy waits for it"]
pub struct Copy<T> {
    memory: Moving,
    len: usize,
    element: PhantomData<T>,
}

enum Moving {
    Device(Copying),
    Done(Host),
}

impl<T: Element> Copy<T> {
    /// Whether it is over.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn is_done(&self) -> Result<bool, Error> {
        match &self.memory {
            Moving::Device(copying) => Ok(copying.is_done()?),
            Moving::Done(_) => Ok(true),
        }
    }

    /// Waits for it, and gives the buffer back.
    ///
    /// # Errors
    /// If something has failed that was asked of the device before; the buffer is lost then.
    pub fn wait(self) -> Result<PinnedBuffer<T>, Error> {
        let memory = match self.memory {
            Moving::Device(copying) => Host::Pinned(copying.wait()?),
            Moving::Done(memory) => memory,
        };
        Ok(PinnedBuffer { memory, len: self.len, element: PhantomData })
    }
}

impl<T: Element> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pinned elements of {}", self.len, T::TYPE)
    }
}

impl<T: Element> fmt::Debug for Copy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a copy of {} elements of {}", self.len, T::TYPE)
    }
}

//! Arrays without their Rust types: memory on a device, and which part of it in which shape. [`DeviceArray`](crate::DeviceArray)
//! adds the types.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind};
use crate::gpu::{Backend, Cuda, Gpu};
use crate::stream::Stream;
use gpukc_cpu::Tensor;
use gpukc_dsl::types::Type;
use gpukc_runtime::error as device;
use gpukc_runtime::memory::{Memory, Piece};

/// An array has no more dims than this.
const MOST: usize = 8;

/// The extents of an array, without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    rank: usize,
    extents: [i64; MOST],
}

impl Extents {
    /// None if there are too many, or one is too large.
    pub(crate) fn new<I: TryInto<i64> + Copy>(shape: &[I]) -> Option<Extents> {
        let mut extents = [0; MOST];
        let places = extents.get_mut(..shape.len())?;
        for (place, &extent) in places.iter_mut().zip(shape) {
            *place = extent.try_into().ok()?;
        }
        Some(Extents { rank: shape.len(), extents })
    }

    pub(crate) fn as_slice(&self) -> &[i64] {
        &self.extents[..self.rank]
    }

    /// The number of elements, if it is one.
    pub(crate) fn elements(&self) -> Option<usize> {
        let extents = self.as_slice();
        if extents.contains(&0) {
            return Some(0);
        }
        extents.iter().try_fold(1usize, |count, &extent| count.checked_mul(usize::try_from(extent).ok()?))
    }
}

/// An array without its Rust types.
pub struct Untyped {
    storage: Arc<Storage>,
    element: Type,
    /// In bytes, as the next.
    offset: usize,
    bytes: usize,
    extents: Extents,
}

/// Memory on a device.
struct Storage {
    gpu: Gpu,
    place: Place,
}

enum Place {
    /// In the shape that it was made in; shared with whoever reads it at the moment.
    Host(Mutex<Arc<Tensor>>),
    Device(Memory),
}

/// No memory for an array of this type and shape.
fn no_memory(element: Type, extents: &Extents) -> Error {
    let shape: Vec<String> = extents.as_slice().iter().map(i64::to_string).collect();
    Error::new(ErrorKind::OutOfMemory, format!("no memory for an array {element}[{}]", shape.join(", ")))
}

/// Says for what memory was wanted, and what there is.
fn explained(error: device::Error, cuda: &Cuda, element: Type, extents: &Extents, size: usize) -> device::Error {
    match error {
        device::Error::OutOfMemory { .. } => {
            let shape: Vec<String> = extents.as_slice().iter().map(i64::to_string).collect();
            let wanted = vec![(format!("an array {element}[{}]", shape.join(", ")), size as u64)];
            device::Error::OutOfMemory { kernel: None, wanted, memory: cuda.queue.device().memory(), fits: Vec::new() }
        }
        other => other,
    }
}

fn bytes(element: Type, extents: &Extents) -> Result<usize, Error> {
    let bytes = extents.elements().and_then(|count| count.checked_mul(element.size()));
    bytes.filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(|| no_memory(element, extents))
}

impl Untyped {
    /// Zeros.
    pub(crate) fn zeros(gpu: &Gpu, element: Type, extents: Extents) -> Result<Untyped, Error> {
        let array = Untyped::unspecified(gpu, gpu.stream(), element, extents)?;
        if let Place::Device(memory) = &array.storage.place {
            memory.stream().zero(memory.whole())?;
        }
        Ok(array)
    }

    /// Contents that must not be seen before they are written. (On the CPU they are zeros.)
    pub(crate) fn unspecified(gpu: &Gpu, stream: &Stream, element: Type, extents: Extents) -> Result<Untyped, Error> {
        let size = bytes(element, &extents)?;
        let place = match (gpu.backend(), stream.device()) {
            (Backend::Cpu, _) => {
                let tensor = Tensor::zeros(element, extents.as_slice()).ok_or_else(|| no_memory(element, &extents))?;
                Place::Host(Mutex::new(Arc::new(tensor)))
            }
            (Backend::Cuda(cuda), Some(stream)) => {
                Place::Device(stream.allocate(size).map_err(|error| explained(error, cuda, element, &extents, size))?)
            }
            (Backend::Cuda(_), None) => return Err(Error::arguments("a stream of another device, or of this one opened again")),
        };
        Ok(Untyped::of(gpu, place, element, extents))
    }

    fn of(gpu: &Gpu, place: Place, element: Type, extents: Extents) -> Untyped {
        let bytes = extents.elements().unwrap_or(0) * element.size();
        Untyped { storage: Arc::new(Storage { gpu: gpu.clone(), place }), element, offset: 0, bytes, extents }
    }

    /// What a run on the CPU gave.
    pub(crate) fn of_tensor(gpu: &Gpu, tensor: Tensor) -> Result<Untyped, Error> {
        let (element, extents) = (tensor.element(), Extents::new(tensor.shape()));
        let extents = extents.ok_or_else(|| Error::bug("a result with too many dims"))?;
        Ok(Untyped::of(gpu, Place::Host(Mutex::new(Arc::new(tensor))), element, extents))
    }

    /// Memory that has come from elsewhere.
    pub(crate) fn of_memory(gpu: &Gpu, memory: Memory, element: Type, extents: Extents) -> Result<Untyped, Error> {
        if bytes(element, &extents)? != memory.bytes() {
            return Err(Error::arguments(format!("{} bytes are no array of this shape", memory.bytes())));
        }
        Ok(Untyped::of(gpu, Place::Device(memory), element, extents))
    }

    /// The memory itself, if it is on a GPU and nobody else has a part of it.
    pub(crate) fn into_memory(self) -> Option<Memory> {
        match Arc::into_inner(self.storage)?.place {
            Place::Device(memory) => Some(memory),
            Place::Host(_) => None,
        }
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.storage.gpu
    }

    pub(crate) fn element(&self) -> Type {
        self.element
    }

    pub(crate) fn extents(&self) -> &Extents {
        &self.extents
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Another part of the same memory, by elements from this array's start.
    pub(crate) fn part(&self, offset: usize, extents: Extents) -> Result<Untyped, Error> {
        let there = self.extents.elements().unwrap_or(0);
        let end = extents.elements().and_then(|count| offset.checked_add(count));
        if end.is_none_or(|end| end > there) {
            let shape = extents.as_slice();
            return Err(Error::arguments(format!(
                "a part of shape {shape:?} at element {offset} of an array that has {there} elements"
            )));
        }
        let offset = self.offset + offset * self.element.size();
        let bytes = extents.elements().unwrap_or(0) * self.element.size();
        Ok(Untyped { storage: self.storage.clone(), element: self.element, offset, bytes, extents })
    }

    /// Its memory on a GPU.
    pub(crate) fn piece(&self) -> Piece<'_> {
        match &self.storage.place {
            Place::Device(memory) => memory.piece(self.offset, self.bytes()),
            Place::Host(_) => Piece::elsewhere(),
        }
    }

    /// Its elements on the CPU.
    pub(crate) fn tensor(&self) -> Result<Arc<Tensor>, Error> {
        let Place::Host(tensor) = &self.storage.place else {
            return Err(Error::arguments("an array of another device, or of this one opened again"));
        };
        let whole = tensor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.offset == 0 && whole.shape() == self.extents.as_slice() {
            return Ok(whole);
        }
        let bytes = whole.bytes().get(self.offset..self.offset + self.bytes());
        let part = bytes.and_then(|bytes| Tensor::from_bytes(self.element, self.extents.as_slice(), bytes));
        part.map(Arc::new).ok_or_else(|| no_memory(self.element, &self.extents))
    }

    /// Replaces its elements on the CPU.
    pub(crate) fn set_tensor(&self, new: Tensor) -> Result<(), Error> {
        let Place::Host(tensor) = &self.storage.place else {
            return Err(Error::arguments("an array of another device, or of this one opened again"));
        };
        let mut whole = tensor.lock().unwrap_or_else(PoisonError::into_inner);
        if self.offset == 0 && whole.shape() == new.shape() {
            *whole = Arc::new(new);
        } else {
            let range = self.offset..self.offset + self.bytes();
            let part = Arc::make_mut(&mut whole).bytes_mut().get_mut(range).filter(|part| part.len() == new.bytes().len());
            part.ok_or_else(|| Error::bug("a result of another size than its array"))?.copy_from_slice(new.bytes());
        }
        Ok(())
    }

    /// Copies its elements' bytes to the host; waits for what computes them.
    pub(crate) fn read(&self, into: &mut [u8]) -> Result<(), Error> {
        match &self.storage.place {
            Place::Device(memory) => Ok(memory.stream().read(self.piece(), into)?),
            Place::Host(_) => {
                let tensor = self.tensor()?;
                if tensor.bytes().len() != into.len() {
                    return Err(Error::bug("an array of another size than is read"));
                }
                into.copy_from_slice(tensor.bytes());
                Ok(())
            }
        }
    }

    /// Replaces its elements by bytes from the host.
    pub(crate) fn write(&self, from: &[u8]) -> Result<(), Error> {
        match &self.storage.place {
            Place::Device(memory) => Ok(memory.stream().write(self.piece(), from)?),
            Place::Host(_) => {
                let tensor = Tensor::from_bytes(self.element, self.extents.as_slice(), from);
                self.set_tensor(tensor.ok_or_else(|| no_memory(self.element, &self.extents))?)
            }
        }
    }

    /// Replaces its elements by those of another array of the same type and shape.
    pub(crate) fn assign(&self, from: &Untyped) -> Result<(), Error> {
        if (from.element, from.extents) != (self.element, self.extents) {
            let (own, other) = (self.extents.as_slice(), from.extents.as_slice());
            return Err(Error::arguments(format!("an array of shape {other:?} can't be copied to one of shape {own:?}")));
        }
        match (&self.storage.place, &from.storage.place) {
            (Place::Device(memory), Place::Device(_)) if self.storage.gpu.same_queue(&from.storage.gpu) => {
                Ok(memory.stream().copy(from.piece(), self.piece())?)
            }
            (Place::Host(_), Place::Host(_)) => self.set_tensor(Tensor::clone(&*from.tensor()?)),
            _ => {
                let mut bytes = vec![0; from.bytes()];
                from.read(&mut bytes)?;
                self.write(&bytes)
            }
        }
    }
}

//! A GPU: its context, its stream, what it is.

use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute as Attribute, CUevent, CUstream};
use gpukc_codegen::target::Target;

use crate::driver::{self, Driver};
use crate::error::{Error, Missing};

/// A GPU of this machine, with one stream on which everything happens in order. Clones are the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    driver: &'static Driver,
    device: CUdevice,
    context: CUcontext,
    stream: CUstream,
    ordered: bool,
    facts: Facts,
}

// SAFETY: contexts and streams of the driver may be used from any thread; the thread that does makes the context its own
// first (`Device::enter`).
unsafe impl Send for Inner {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for Inner {}

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Its number.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// The target to compile for.
    pub target: Target,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Shared memory that a block may have, in bytes.
    pub shared_bytes: u32,
    /// Level-2 cache in bytes.
    pub cache_bytes: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Facts {
    /// Asks the driver about a device, without starting a context.
    pub fn of(ordinal: u32) -> Result<Facts, Error> {
        let driver = driver::driver()?;
        let count = driver.device_count()?;
        if ordinal >= count {
            return Err(match (ordinal, count) {
                (0, 0) => Missing::Device("cuDeviceGetCount", 100, "CUDA_ERROR_NO_DEVICE".to_owned()),
                _ => Missing::Ordinal { asked: ordinal, count },
            }
            .into());
        }
        let device = driver.device(ordinal)?;
        let ask = |attribute| driver.device_attribute(device, attribute);
        let major = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = ask(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Facts {
            ordinal,
            name: driver.device_name(device)?,
            target: Target::of_device(major, minor),
            multiprocessors: ask(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_bytes: ask(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            cache_bytes: ask(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            memory_bytes: driver.device_memory(device).unwrap_or(0),
        })
    }
}

/// Where a device's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The driver's pool, which keeps what is freed: for many calls. Its first use takes some ten milliseconds.
    Pooled,
    /// Each piece from the system: for one call.
    Plain,
}

impl Device {
    /// Opens a device, with pooled memory.
    pub fn open(ordinal: u32) -> Result<Device, Error> {
        Device::open_with(ordinal, Memory::Pooled)
    }

    /// Opens a device: its primary context, shared with other users in this process, and a stream.
    pub fn open_with(ordinal: u32, memory: Memory) -> Result<Device, Error> {
        let facts = Facts::of(ordinal)?;
        let driver = driver::driver()?;
        let device = driver.device(ordinal)?;
        let context = driver.context_retain(device)?;
        let stream = driver.context_set(context).and_then(|()| driver.stream_create());
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                driver.context_release(device);
                return Err(error);
            }
        };
        let pools = || driver.device_attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
        let ordered = memory == Memory::Pooled && pools().is_ok_and(|supported| supported != 0) && driver.keep_pool(device);
        Ok(Device(Arc::new(Inner { driver, device, context, stream, ordered, facts })))
    }

    /// What it is.
    pub fn facts(&self) -> &Facts {
        &self.0.facts
    }

    /// Waits until all that was asked of it is done.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.enter()?.stream_synchronize(self.0.stream)
    }

    /// Makes its context this thread's, as most driver calls need.
    pub(crate) fn enter(&self) -> Result<&'static Driver, Error> {
        self.0.driver.same_process()?;
        self.0.driver.context_set(self.0.context)?;
        Ok(self.0.driver)
    }

    pub(crate) fn stream(&self) -> CUstream {
        self.0.stream
    }

    /// The stream for stream-ordered memory, if the device has that.
    pub(crate) fn ordered(&self) -> Option<CUstream> {
        self.0.ordered.then_some(self.0.stream)
    }

    /// Free and total memory in bytes, once all that is no longer used has been given back.
    pub fn memory(&self) -> Option<(u64, u64)> {
        let driver = self.enter().ok()?;
        driver.stream_synchronize(self.0.stream).ok()?;
        if self.0.ordered {
            driver.trim_pool(self.0.device);
        }
        driver.memory_info()
    }

    /// The number that the driver knows its context by, to compare with other users of the driver.
    pub(crate) fn context(&self) -> CUcontext {
        self.0.context
    }

    pub(crate) fn is(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.driver.same_process().is_err() {
            return;
        }
        if self.driver.context_set(self.context).is_ok() {
            let _ = self.driver.stream_synchronize(self.stream);
            self.driver.stream_destroy(self.stream);
        }
        self.driver.context_release(self.device);
    }
}

/// A point on a device's stream, with its time.
pub(crate) struct Event {
    device: Device,
    event: CUevent,
}

impl Event {
    pub(crate) fn new(device: &Device) -> Result<Event, Error> {
        let event = device.enter()?.event_create()?;
        Ok(Event { device: device.clone(), event })
    }
    /// Marks what has been enqueued so far.
    pub(crate) fn record(&self) -> Result<(), Error> {
        self.device.0.driver.event_record(self.event, self.device.stream())
    }
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.device.0.driver.event_synchronize(self.event)
    }
    /// Milliseconds since an earlier one; both must be over.
    pub(crate) fn since(&self, earlier: &Event) -> Result<f32, Error> {
        self.device.0.driver.event_elapsed(earlier.event, self.event)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(driver) = self.device.enter() {
            driver.event_destroy(self.event);
        }
    }
}

//! Streams, and points on them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::gpu::{Backend, Gpu, Shared};
use gpukc_runtime::stream as device;

/// What is asked of a stream happens in order; streams run beside one another. [`Gpu::stream`](crate::Gpu::stream) is the one that
/// calls use that name none; [`Gpu::new_stream`](crate::Gpu::new_stream) gives others. Clones are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    /// None on the CPU, where everything happens at once.
    stream: Option<device::Stream>,
}

impl Stream {
    pub(crate) fn cpu(shared: &Arc<Shared>) -> Stream {
        Stream(Arc::new(Inner { shared: shared.clone(), stream: None }))
    }

    pub(crate) fn cuda(shared: &Arc<Shared>, stream: device::Stream) -> Stream {
        Stream(Arc::new(Inner { shared: shared.clone(), stream: Some(stream) }))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    pub(crate) fn device(&self) -> Option<&device::Stream> {
        self.0.stream.as_ref()
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.0.shared.backend
    }

    /// The device that it is of.
    pub fn gpu(&self) -> Gpu {
        Gpu::of_shared(&self.0.shared)
    }

    /// Waits until everything is done that was asked of it.
    ///
    /// # Errors
    /// If something of it has failed, an index out of range say.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.device().map_or(Ok(()), |stream| Ok(stream.synchronize()?))
    }

    /// Lets what is asked of it from now on wait for all that has been asked of another. Arrays see to this by themselves.
    ///
    /// # Errors
    /// If the other is of another device.
    pub fn wait_for(&self, other: &Stream) -> Result<(), Error> {
        match (self.device(), other.device()) {
            (Some(own), Some(other)) => Ok(own.wait_for(other)?),
            (None, None) if Arc::ptr_eq(self.shared(), other.shared()) => Ok(()),
            _ => Err(Error::arguments("a stream of another device, or of this one opened again")),
        }
    }

    /// Marks what has been asked of it so far.
    ///
    /// # Errors
    /// If the driver refuses an event.
    pub fn record(&self) -> Result<Event, Error> {
        Ok(Event(match self.device() {
            Some(stream) => Point::Device(Arc::new(device::Event::record(stream)?)),
            None => Point::Host(self.shared().clone(), Instant::now()),
        }))
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream")
    }
}

/// A point on a stream, with its time. [`Stream::record`] makes one; clones are the same point.
#[derive(Clone)]
#[must_use = "an event that nobody asks was recorded for nothing"]
pub struct Event(Point);

#[derive(Clone)]
enum Point {
    Host(Arc<Shared>, Instant),
    Device(Arc<device::Event>),
}

impl Event {
    /// Whether the device has passed it.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn is_done(&self) -> Result<bool, Error> {
        match &self.0 {
            Point::Host(..) => Ok(true),
            Point::Device(event) => Ok(event.is_done()?),
        }
    }

    /// Waits until the device has passed it.
    ///
    /// # Errors
    /// If something has failed that was asked of the device before, an index out of range say.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.0 {
            Point::Host(..) => Ok(()),
            Point::Device(event) => Ok(event.synchronize()?),
        }
    }

    /// The time between an earlier event and this one, by the device's clock; waits for both.
    ///
    /// # Errors
    /// If they are of different devices, or the device has failed.
    pub fn since(&self, earlier: &Event) -> Result<Duration, Error> {
        match (&self.0, &earlier.0) {
            (Point::Host(of, end), Point::Host(other, start)) if Arc::ptr_eq(of, other) => Ok(end.saturating_duration_since(*start)),
            (Point::Device(end), Point::Device(start)) => Ok(end.since(start)?),
            _ => Err(Error::arguments("an event of another device, or of this one opened again")),
        }
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Event")
    }
}

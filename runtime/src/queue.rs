//! What is asked of a device: its streams, and in which order they use memory.
//!
//! Streams run beside one another. Memory knows which streams have used it since it was last written (`Uses`); whoever uses it
//! on another stream lets that stream wait for those first. A stream waits by an event that is recorded only then, so that a
//! program that keeps to one stream pays nothing. All of it happens under one lock, for the driver has one as well; so the order
//! is right whichever threads share arrays, and a launch of several functions is never taken apart.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUdeviceptr, CUevent, CUstream};
use gpukc_dsl::source::Source;

use crate::device::Device;
use crate::driver::Driver;
use crate::error::Error;
use crate::reports::Reports;
use crate::stream::{Stream, misuse};

/// The streams of a device. Clones are the same.
#[derive(Clone)]
pub struct Queue(Arc<Shared>);

struct Shared {
    device: Device,
    state: Mutex<State>,
    reports: Reports,
    watched: AtomicBool,
}

/// A failure, and the text of the kernel that it is about.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What failed.
    pub error: Error,
    /// The kernel's text, where the kernel is known.
    pub source: Option<Arc<Source>>,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault { error, source: None }
    }
}

/// The number of a stream in its queue.
pub(crate) type Slot = usize;

/// A set of slots is a word; beyond so many, streams are shared.
const MOST: usize = 64;

/// The streams, under the queue's lock.
#[derive(Default)]
pub(crate) struct State {
    lanes: Vec<Lane>,
}

/// A stream, and what belongs to it.
struct Lane {
    stream: CUstream,
    /// For other streams to wait for.
    event: CUevent,
    /// Intermediate memory of the launches on this stream, one after the other.
    scratch: Option<(CUdeviceptr, usize)>,
    /// The owner of a stream that is not ours.
    owner: Option<Arc<dyn Any + Send + Sync>>,
    /// How many [`Stream`]s are on it.
    holders: usize,
    /// It was somebody else's, and nothing of it is outstanding.
    vacant: bool,
}

// SAFETY: streams and events of the driver may be used from any thread that has entered their context; all uses do.
unsafe impl Send for Lane {}

/// Which streams use a piece of memory. Read and changed under the queue's lock only.
#[derive(Debug)]
pub(crate) struct Uses {
    /// The stream that wrote it last.
    writer: AtomicUsize,
    /// Streams whose further work comes after that, the writer among them.
    after: AtomicU64,
    /// Streams that have used it since, the writer among them.
    users: AtomicU64,
    /// What may be done with it.
    access: AtomicU8,
}

/// Memory may be read and written.
const WRITABLE: u8 = 0;
/// It is lent, to be read.
const READABLE: u8 = 1;
/// It was lent, and must not be used any more.
const OVER: u8 = 2;

impl Uses {
    pub(crate) fn new(writer: Slot) -> Uses {
        let own = || AtomicU64::new(1 << writer);
        Uses { writer: AtomicUsize::new(writer), after: own(), users: own(), access: AtomicU8::new(WRITABLE) }
    }

    /// Forbids to write.
    pub(crate) fn protect(&self) {
        self.access.store(READABLE, Ordering::Relaxed);
    }

    fn is_alone(&self, slot: Slot) -> bool {
        let own = 1 << slot;
        self.users.load(Ordering::Relaxed) == own && self.after.load(Ordering::Relaxed) & own != 0
    }
}

impl Queue {
    /// The queue of a device, with the device's own stream.
    pub fn new(device: &Device) -> Result<Queue, Error> {
        let driver = device.enter()?;
        let mut state = State::default();
        state.push(driver, device.stream(), None)?;
        let shared =
            Shared { device: device.clone(), state: Mutex::new(state), reports: Reports::default(), watched: AtomicBool::new(false) };
        Ok(Queue(Arc::new(shared)))
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The device's own stream.
    pub fn main_stream(&self) -> Stream {
        self.lock().lanes[0].holders += 1;
        Stream::new(self, 0)
    }

    /// A further stream. Those that are done with are used again; when there are very many, some are the same.
    pub fn stream(&self) -> Result<Stream, Error> {
        let driver = self.device().enter()?;
        let mut state = self.lock();
        let free = |state: &State| (1..state.lanes.len()).find(|&slot| state.lanes[slot].holders == 0 && !state.lanes[slot].vacant);
        let slot = match free(&state) {
            Some(slot) => slot,
            None if state.lanes.len() < MOST => {
                let stream = driver.stream_create()?;
                state.push(driver, stream, None).inspect_err(|_| driver.stream_destroy(stream))?
            }
            None => {
                let own = (0..state.lanes.len()).filter(|&slot| state.lanes[slot].owner.is_none() && !state.lanes[slot].vacant);
                own.min_by_key(|&slot| state.lanes[slot].holders).unwrap_or(0)
            }
        };
        state.lanes[slot].holders += 1;
        Ok(Stream::new(self, slot))
    }

    pub(crate) fn stream_of(&self, uses: &Uses) -> Stream {
        let mut state = self.lock();
        let slot = state.last_writer(uses);
        state.lanes[slot].holders += 1;
        Stream::new(self, slot)
    }

    /// Somebody else's stream of the same context. `owner` keeps it.
    pub(crate) fn adopt(&self, stream: CUstream, owner: Arc<dyn Any + Send + Sync>) -> Result<Stream, Error> {
        let driver = self.device().enter()?;
        let mut state = self.lock();
        let same = state.lanes.iter().position(|lane| lane.stream == stream && !lane.vacant);
        let vacant = state.lanes.iter().position(|lane| lane.vacant);
        let slot = match (same, vacant) {
            (Some(slot), _) => slot,
            (None, Some(slot)) => {
                let lane = &mut state.lanes[slot];
                (lane.stream, lane.owner, lane.vacant) = (stream, Some(owner), false);
                slot
            }
            (None, None) if state.lanes.len() < MOST => state.push(driver, stream, Some(owner))?,
            (None, None) => {
                let message = format!("more than {MOST} streams of one device");
                return Err(Error::Limit { kernel: String::new(), message });
            }
        };
        state.lanes[slot].holders += 1;
        Ok(Stream::new(self, slot))
    }

    /// Ends the use of a stream.
    pub(crate) fn release(&self, slot: Slot) {
        let mut state = self.lock();
        let lane = &mut state.lanes[slot];
        lane.holders -= 1;
        if lane.holders > 0 || lane.owner.is_none() {
            return;
        }
        // Not ours: nothing of ours may be left on it, for it may go away.
        if let Ok(driver) = self.device().enter() {
            let _ = driver.stream_synchronize(lane.stream);
            if let Some((pointer, _)) = lane.scratch.take() {
                driver.free(pointer, self.device().ordered());
            }
        }
        lane.vacant = true;
        lane.owner = None;
    }

    /// Waits for a stream, then says whether something has failed: a call, or a check of a kernel.
    pub(crate) fn synchronize(&self, slot: Slot) -> Result<(), Fault> {
        let driver = self.device().enter()?;
        let stream = self.lock().lanes[slot].stream;
        driver.stream_synchronize(stream)?;
        self.reported()
    }

    /// Waits for all streams, then says whether something has failed: a call, or a check of a kernel.
    pub fn synchronize_all(&self) -> Result<(), Fault> {
        self.drain()?;
        self.reported()
    }

    /// Ends a loan: nothing of the memory is outstanding, and it can't be used any more.
    pub(crate) fn end_loan(&self, uses: &Uses) -> Result<(), Error> {
        let state = self.lock();
        uses.access.store(OVER, Ordering::Relaxed);
        drop(state);
        self.drain()
    }

    /// Waits for all streams.
    pub(crate) fn drain(&self) -> Result<(), Error> {
        let driver = self.device().enter()?;
        // Owners are held meanwhile, so that no stream goes away.
        let state = self.lock();
        let streams: Vec<_> = state.lanes.iter().filter(|lane| !lane.vacant).map(|lane| (lane.stream, lane.owner.clone())).collect();
        drop(state);
        streams.iter().try_for_each(|(stream, _)| driver.stream_synchronize(*stream))
    }

    pub(crate) fn reported(&self) -> Result<(), Fault> {
        if !self.0.reports.any() {
            return Ok(());
        }
        // The report may be of another stream, and not yet whole.
        self.drain()?;
        self.0.reports.take().map_or(Ok(()), Err)
    }

    pub(crate) fn reports(&self) -> &Reports {
        &self.0.reports
    }

    /// Whether every launch is waited for, so that its faults are known to be its own.
    pub fn watch(&self, watched: bool) {
        self.0.watched.store(watched, Ordering::Relaxed);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.0.watched.load(Ordering::Relaxed)
    }

    pub(crate) fn is(&self, other: &Queue) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, driver: &Driver, stream: CUstream, owner: Option<Arc<dyn Any + Send + Sync>>) -> Result<Slot, Error> {
        let event = driver.event_create()?;
        self.lanes.push(Lane { stream, event, scratch: None, owner, holders: 0, vacant: false });
        Ok(self.lanes.len() - 1)
    }

    pub(crate) fn stream(&self, slot: Slot) -> CUstream {
        self.lanes[slot].stream
    }

    /// Lets one stream wait for all that has been asked of another.
    pub(crate) fn wait(&self, driver: &Driver, slot: Slot, other: Slot) -> Result<(), Error> {
        let (own, other) = (&self.lanes[slot], &self.lanes[other]);
        if own.stream == other.stream || other.vacant {
            return Ok(());
        }
        driver.event_record(other.event, other.stream)?;
        driver.stream_wait(own.stream, other.event)
    }

    /// To be called before memory is read on a stream.
    pub(crate) fn read(&self, driver: &Driver, slot: Slot, uses: Option<&Uses>) -> Result<(), Error> {
        let Some(uses) = uses else { return Ok(()) };
        if uses.access.load(Ordering::Relaxed) == OVER {
            return Err(misuse("an array whose loan is over"));
        }
        let own = 1 << slot;
        let (after, users) = (uses.after.load(Ordering::Relaxed), uses.users.load(Ordering::Relaxed));
        if after & own == 0 {
            self.wait(driver, slot, uses.writer.load(Ordering::Relaxed))?;
            uses.after.store(after | own, Ordering::Relaxed);
        }
        // Nobody else changes it meanwhile, and most have used it before.
        if users & own == 0 {
            uses.users.store(users | own, Ordering::Relaxed);
        }
        Ok(())
    }

    /// To be called before memory is written, or freed, on a stream.
    pub(crate) fn write(&self, driver: &Driver, slot: Slot, uses: Option<&Uses>) -> Result<(), Error> {
        let Some(uses) = uses else { return Ok(()) };
        match uses.access.load(Ordering::Relaxed) {
            WRITABLE => {}
            READABLE => return Err(misuse("an array that is lent to be read is written")),
            _ => return Err(misuse("an array whose loan is over")),
        }
        if uses.is_alone(slot) && uses.writer.load(Ordering::Relaxed) == slot {
            return Ok(());
        }
        let mut users = uses.users.load(Ordering::Relaxed) & !(1 << slot);
        while users != 0 {
            self.wait(driver, slot, users.trailing_zeros() as Slot)?;
            users &= users - 1;
        }
        uses.writer.store(slot, Ordering::Relaxed);
        uses.after.store(1 << slot, Ordering::Relaxed);
        uses.users.store(1 << slot, Ordering::Relaxed);
        Ok(())
    }

    /// A stream on which memory may be freed once `write` has been called for it.
    pub(crate) fn last_writer(&self, uses: &Uses) -> Slot {
        let slot = uses.writer.load(Ordering::Relaxed);
        if self.lanes[slot].vacant { 0 } else { slot }
    }

    /// Intermediate memory for the launches of one call on a stream: the next call's come after it.
    pub(crate) fn scratch(&mut self, device: &Device, slot: Slot, bytes: usize) -> Result<CUdeviceptr, Error> {
        if bytes == 0 {
            return Ok(0);
        }
        let lane = &mut self.lanes[slot];
        match lane.scratch {
            Some((pointer, there)) if bytes <= there => return Ok(pointer),
            _ => {}
        }
        let driver = device.enter()?;
        let ordered = device.ordered().map(|_| lane.stream);
        if let Some((pointer, _)) = lane.scratch.take() {
            driver.free(pointer, ordered);
        }
        // Somewhat more, so that a growing program does not allocate each time.
        let wanted = bytes.checked_next_power_of_two().filter(|&more| more < 1 << 24).unwrap_or(bytes);
        let pointer = driver.alloc(wanted, ordered)?;
        lane.scratch = Some((pointer, wanted));
        Ok(pointer)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Ok(driver) = self.device.enter() else { return };
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (slot, lane) in state.lanes.drain(..).enumerate() {
            if !lane.vacant {
                let _ = driver.stream_synchronize(lane.stream);
            }
            if let Some((pointer, _)) = lane.scratch {
                driver.free(pointer, self.device.ordered().map(|_| if lane.vacant { self.device.stream() } else { lane.stream }));
            }
            driver.event_destroy(lane.event);
            // The first is the device's; foreign ones are their owners'.
            if slot > 0 && !lane.vacant && lane.owner.is_none() {
                driver.stream_destroy(lane.stream);
            }
        }
    }
}

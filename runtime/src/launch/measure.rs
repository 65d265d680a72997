//! How long a call takes on the device: on several sets of memory in turn, so that no call finds its inputs in the cache; short calls
//! many at a time, as a graph that is replayed, so that what a launch costs the host does not show.

use std::time::{Duration, Instant};

use cudarc::driver::sys::CUgraphExec;

use super::{Call, Prepared, Program, Resident, prepare};
use crate::device::{Device, Event};
use crate::error::Error;

/// Calls below this are timed several at a time, in milliseconds.
const SHORT: f32 = 1.0;
/// About how long several calls take together, in milliseconds, and how many of them there are at most for one set.
const TOGETHER: f32 = 0.4;
const MOST_TOGETHER: usize = 64;
/// How long the device is kept busy before anything counts, so that its clocks are where they stay.
const WARM_UP: Duration = Duration::from_millis(100);
/// How many timings there are at most and at least, and when one of them is so long that a few will do, in milliseconds.
const TIMINGS: usize = 50;
const FEWEST: usize = 20;
const LONG: f32 = 20.0;
const FEWEST_LONG: usize = 7;
/// About how long all timings together may take, in milliseconds.
const ALL_TIMINGS: f32 = 500.0;

/// A call laid out on several sets of memory, which share their intermediate memory.
pub struct Rotation<'a> {
    device: Device,
    sets: Vec<Prepared<'a>>,
    /// Whose turn it is.
    next: usize,
}

/// Between which events a timing lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Around a graph of calls.
    Graph,
    /// Around calls that the host launches.
    Event,
}

impl Method {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Method::Graph => "graph",
            Method::Event => "event",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// How.
    pub method: Method,
    /// How many calls each timing is of.
    pub together: usize,
    /// Milliseconds of a call, by each timing; the shortest first.
    pub milliseconds: Vec<f32>,
}

/// Work of the device, noted once and enqueued as often as wanted.
struct Graph {
    device: Device,
    executable: CUgraphExec,
}

impl Graph {
    /// What `enqueue` asks of the device's stream.
    fn capture(device: &Device, enqueue: impl FnOnce() -> Result<(), Error>) -> Result<Graph, Error> {
        let driver = device.enter()?;
        driver.capture_begin(device.stream())?;
        let enqueued = enqueue();
        // The stream is of no other use before.
        let graph = driver.capture_end(device.stream())?;
        let executable = enqueued.and_then(|()| driver.graph_instantiate(graph));
        driver.graph_destroy(graph);
        Ok(Graph { device: device.clone(), executable: executable? })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(driver) = self.device.enter() {
            let _ = driver.stream_synchronize(self.device.stream());
            driver.graph_executable_destroy(self.executable);
        }
    }
}

impl Program {
    /// Lays a call out on several sets of memory.
    pub fn rotation<'a>(&'a self, call: &Call, sets: &'a [Resident]) -> Result<Rotation<'a>, Error> {
        if sets.is_empty() {
            return Err(Error::Bug("a rotation of no sets".into()));
        }
        let mut prepared: Vec<Prepared<'a>> = Vec::with_capacity(sets.len());
        for set in sets {
            let next = prepare::prepare(self, call, &set.arrays(), prepared.first());
            prepared.push(next.map_err(|error| error.for_kernel(&self.kernel.name))?);
        }
        Ok(Rotation { device: self.device().clone(), sets: prepared, next: 0 })
    }
}

impl Rotation<'_> {
    /// How many sets there are.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Enqueues a call on the first set, as a program that calls does it.
    pub fn launch(&mut self) -> Result<(), Error> {
        self.sets[0].launch()
    }

    /// Waits until the device is done, then says whether a check there has failed.
    pub fn finish(&self) -> Result<(), Error> {
        self.sets.iter().try_for_each(Prepared::finish)
    }

    /// Times the call, so many times if that is said.
    pub fn time(&mut self, timings: Option<usize>) -> Result<Timing, Error> {
        self.sets.iter_mut().try_for_each(Prepared::launch)?;
        self.finish()?;
        let mut together = 1;
        let mut graph = None;
        let once = (0..3).map(|_| self.once(1, None)).collect::<Result<Vec<f32>, _>>()?.into_iter().fold(f32::INFINITY, f32::min);
        if once < SHORT {
            together = together_of(once, self.sets.len());
            graph = self.capture(together)?;
        }
        let each = self.once(together, graph.as_ref())?;
        let start = Instant::now();
        while start.elapsed() < WARM_UP {
            self.once(together, graph.as_ref())?;
        }
        let timings = timings.unwrap_or_else(|| timings_of(each)).max(1);
        let mut milliseconds = self.times(timings, together, graph.as_ref())?;
        self.finish()?;
        milliseconds.sort_by(f32::total_cmp);
        Ok(Timing { method: if graph.is_some() { Method::Graph } else { Method::Event }, together, milliseconds })
    }

    /// The next calls on the sets in turn, as a graph. None if this driver makes none of them: its launches are timed then.
    fn capture(&mut self, together: usize) -> Result<Option<Graph>, Error> {
        let device = self.device.clone();
        if !device.enter()?.has_graphs() {
            return Ok(None);
        }
        match Graph::capture(&device, || self.enqueue(together)) {
            Ok(graph) => Ok(Some(graph)),
            // A stream that does not work any more has a better reason.
            Err(Error::Call { .. }) => device.synchronize().map(|()| None),
            Err(error) => Err(error),
        }
    }

    fn enqueue(&mut self, together: usize) -> Result<(), Error> {
        for _ in 0..together {
            self.sets[self.next].enqueue(false)?;
            self.next = (self.next + 1) % self.sets.len();
        }
        Ok(())
    }

    fn replay(&mut self, together: usize, graph: Option<&Graph>) -> Result<(), Error> {
        match graph {
            // SAFETY: the graph is of launches on these sets, whose memory lives as long as they do, and dropping them waits.
            Some(graph) => unsafe { self.device.enter()?.graph_launch(graph.executable, self.device.stream()) },
            None => self.enqueue(together),
        }
    }

    /// Milliseconds of these calls together.
    fn once(&mut self, together: usize, graph: Option<&Graph>) -> Result<f32, Error> {
        self.times(1, together, graph).map(|times| times[0] * together as f32)
    }

    /// Milliseconds of a call, by each timing.
    fn times(&mut self, timings: usize, together: usize, graph: Option<&Graph>) -> Result<Vec<f32>, Error> {
        let events = (0..=timings).map(|_| Event::new(&self.device)).collect::<Result<Vec<_>, _>>()?;
        events[0].record()?;
        for event in &events[1..] {
            self.replay(together, graph)?;
            event.record()?;
        }
        events[timings].synchronize()?;
        events.windows(2).map(|pair| Ok(pair[1].since(&pair[0])? / together as f32)).collect()
    }
}

/// How many calls of this length are timed together: each set as often as any other.
fn together_of(milliseconds: f32, sets: usize) -> usize {
    let wanted = (TOGETHER / milliseconds.max(1e-3)) as usize + 1;
    wanted.clamp(1, MOST_TOGETHER).next_multiple_of(sets.max(1))
}

/// How many timings of this length there are, unless somebody asks for more.
fn timings_of(milliseconds: f32) -> usize {
    let fewest = if milliseconds > LONG { FEWEST_LONG } else { FEWEST };
    ((ALL_TIMINGS / milliseconds.max(1e-3)) as usize).clamp(fewest, TIMINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_calls_are_timed_together_and_long_ones_seldom() {
        assert_eq!([together_of(0.9, 1), together_of(0.3, 1), together_of(0.1, 3), together_of(0.001, 32)], [1, 2, 6, 64]);
        assert_eq!([together_of(0.0, 1), together_of(0.05, 9), together_of(0.5, 32)], [64, 9, 32]);
        assert_eq!([timings_of(0.4), timings_of(15.0), timings_of(25.0), timings_of(1e4)], [50, 33, 20, 7]);
    }
}

//! Work captured from a stream as a graph, which one call enqueues again: several times cheaper for the host than its launches.

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::ptr;

use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstream};
use libloading::Library;

use super::{Driver, Status};
use crate::error::{Error, Missing};

functions! {
    /// From now on what is asked of a stream is noted, not done.
    begin = cuStreamBeginCapture_v2(CUstream, c_uint);
    /// What has been noted.
    end = cuStreamEndCapture(CUstream, *mut CUgraph);
    /// Makes it executable, since 11.4.
    instantiate = cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, c_ulonglong);
    /// Enqueues it.
    launch = cuGraphLaunch(CUgraphExec, CUstream);
    /// Destroys what was noted.
    destroy = cuGraphDestroy(CUgraph);
    /// Destroys what is executable.
    executable_destroy = cuGraphExecDestroy(CUgraphExec);
    optional:
}

impl Driver {
    fn graphs(&self) -> Result<&Functions, Error> {
        self.graphs.as_ref().ok_or(Missing::DriverFunction("cuGraphInstantiateWithFlags").into())
    }

    /// Whether it has graphs.
    pub(crate) fn has_graphs(&self) -> bool {
        self.graphs.is_some()
    }

    pub(crate) fn capture_begin(&self, stream: CUstream) -> Result<(), Error> {
        // Other threads, and other streams of this one, may do what they like meanwhile.
        const RELAXED: c_uint = 2;
        // SAFETY: the stream is alive.
        self.check("cuStreamBeginCapture", unsafe { (self.graphs()?.begin)(stream, RELAXED) })
    }

    pub(crate) fn capture_end(&self, stream: CUstream) -> Result<CUgraph, Error> {
        let mut graph = ptr::null_mut();
        // SAFETY: a valid pointer; the stream is alive.
        self.check("cuStreamEndCapture", unsafe { (self.graphs()?.end)(stream, &mut graph) })?;
        Ok(graph)
    }

    /// What is executable refers to nothing of the graph that it was made of.
    pub(crate) fn graph_instantiate(&self, graph: CUgraph) -> Result<CUgraphExec, Error> {
        let mut executable = ptr::null_mut();
        // SAFETY: a valid pointer; the graph is alive; 0 means no flags.
        self.check("cuGraphInstantiateWithFlags", unsafe { (self.graphs()?.instantiate)(&mut executable, graph, 0) })?;
        Ok(executable)
    }

    /// Enqueues everything that was captured.
    ///
    /// # Safety
    /// What the caller of [`Driver::launch`] and of the other captured functions promises holds until this is over.
    pub(crate) unsafe fn graph_launch(&self, executable: CUgraphExec, stream: CUstream) -> Result<(), Error> {
        // SAFETY: both are alive; the rest is the caller's promise.
        self.check("cuGraphLaunch", unsafe { (self.graphs()?.launch)(executable, stream) })
    }

    pub(crate) fn graph_destroy(&self, graph: CUgraph) {
        let Some(functions) = &self.graphs else { return };
        // SAFETY: destroyed once, by its owner.
        let _: c_int = unsafe { (functions.destroy)(graph) };
    }

    pub(crate) fn graph_executable_destroy(&self, executable: CUgraphExec) {
        let Some(functions) = &self.graphs else { return };
        // SAFETY: destroyed once, by its owner, when it does not run.
        let _: c_int = unsafe { (functions.executable_destroy)(executable) };
    }
}

//! Launches.

use std::ffi::c_void;
use std::{mem, ptr};

use cudarc::driver::sys::{CUfunction, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUstream};

use super::Driver;
use crate::error::Error;

/// The blocks of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    /// How many in x, y, z.
    pub(crate) grid: [u32; 3],
    /// Threads of one.
    pub(crate) block: [u32; 3],
    /// Dynamic shared memory of one in bytes.
    pub(crate) shared_bytes: u32,
    /// Whether they may be set up before the launch in front is over, for which they wait by themselves.
    pub(crate) overlapping: bool,
}

impl Driver {
    /// Launches.
    ///
    /// # Safety
    /// `arguments` points to one value per parameter of the function, of its size, valid during the call; device pointers
    /// among them point to memory that suffices for what the function does with it, until the launch is over. A function that is
    /// launched as overlapping touches no memory before it has waited.
    pub(crate) unsafe fn launch(
        &self,
        function: CUfunction,
        blocks: &Blocks,
        stream: CUstream,
        arguments: &mut [*mut c_void],
    ) -> Result<(), Error> {
        let Blocks { grid, block, shared_bytes, overlapping } = *blocks;
        let (arguments, none) = (arguments.as_mut_ptr(), ptr::null_mut());
        let Some(launch_with) = self.functions.launch_with.filter(|_| overlapping) else {
            let launch = self.functions.launch;
            // SAFETY: the caller's promise.
            let code = unsafe {
                launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, stream, arguments, none)
            };
            return self.check("cuLaunchKernel", code);
        };
        let mut overlap = overlapping_attribute();
        let config = CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared_bytes,
            hStream: stream,
            attrs: &mut overlap,
            numAttrs: 1,
        };
        // SAFETY: the caller's promise; the configuration lives during the call, and has one attribute.
        self.check("cuLaunchKernelEx", unsafe { launch_with(&config, function, arguments, none) })
    }
}

/// Programmatic stream serialization.
fn overlapping_attribute() -> CUlaunchAttribute {
    // SAFETY: numbers, pointers and unions of them, for which zero is a value.
    let mut attribute: CUlaunchAttribute = unsafe { mem::zeroed() };
    attribute.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value = CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
    attribute
}

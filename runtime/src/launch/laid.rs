//! A call laid out: with everything evaluated that depends on shapes and on scalars that shape. What is left for each launch are the
//! arrays' pointers, the other scalars, and the place of the intermediate memory.

use std::ffi::c_void;

use cudarc::driver::sys::{CUdeviceptr, CUfunction, CUstream};
use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch};
use gpukc_dsl::program::ArrayId;
use gpukc_dsl::types::Type;
use smallvec::SmallVec;

use super::{Call, Program};
use crate::driver::{Blocks, Driver};
use crate::error::Error;

const MAX_GRID: [i64; 3] = [0x7fff_ffff, 65_535, 65_535];

/// Intermediate memories start at multiples of this.
const SCRATCH_ALIGNMENT: usize = 256;

/// What a call launches, in order.
pub(super) struct Laid {
    pub(super) launches: Vec<LaidLaunch>,
    pub(super) scratch: Scratch,
}

/// One launch.
pub(super) struct LaidLaunch {
    /// Its number in the contract.
    pub(super) number: usize,
    function: CUfunction,
    blocks: Blocks,
    values: Vec<Value>,
}

// SAFETY: functions are handles into the loaded module, which may be used from any thread that has entered its context.
unsafe impl Send for LaidLaunch {}
// SAFETY: as above; the driver's functions are thread-safe.
unsafe impl Sync for LaidLaunch {}

/// What a launch passes.
enum Value {
    /// The pointer of an array.
    Array(usize),
    /// A pointer into the intermediate memory.
    Scratch(usize),
    /// A scalar.
    Scalar(usize),
    /// What is known already.
    Known(u64),
}

/// Where the intermediate memories of a call lie in one piece of memory.
#[derive(Default)]
pub(super) struct Scratch {
    offsets: Vec<usize>,
    /// Where, and how many bytes, must be zero at first.
    zeroed: Vec<(usize, usize)>,
    /// How much they take together.
    pub(super) bytes: usize,
}

impl Laid {
    /// Evaluates the contract for a call, whose intermediate memory is laid out already. `array` gives the number by which an array's pointer is asked for later; `report` is
    /// where checks report to.
    pub(super) fn new(
        program: &Program,
        call: &Call,
        scratch: Scratch,
        array: impl Fn(ArrayId) -> Option<usize>,
        report: Option<CUdeviceptr>,
    ) -> Result<Laid, Error> {
        let kernel = &program.kernel;
        let lacking = |what: &str| Error::Bug(format!("a launch takes {what} that the call lacks"));
        let value = |argument: &Argument| match argument {
            Argument::Array(id) => array(*id).map(Value::Array).ok_or_else(|| lacking("an array")),
            Argument::Scratch(at) => {
                scratch.offsets.get(*at).copied().map(Value::Scratch).ok_or_else(|| lacking("an intermediate memory"))
            }
            Argument::Scalar(id) if id.index() < call.scalars.len() => Ok(Value::Scalar(id.index())),
            Argument::Scalar(_) => Err(lacking("a scalar")),
            Argument::Size(formula, ty) => size_value(formula, *ty, call).map(|value| Value::Known(value.to_le())),
            Argument::Report => report.map(Value::Known).ok_or_else(|| lacking("a report")),
        };
        let mut launches = Vec::new();
        for (number, (launch, &function)) in kernel.launches.iter().zip(&program.functions).enumerate() {
            let Some(mut grid) = grid_of(kernel, launch, call)? else { continue };
            if let Some(Some(most)) = program.most_blocks.get(number) {
                grid[0] = grid[0].min(*most);
            }
            let values = launch.arguments.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            let (block, shared_bytes, overlapping) = (launch.block, launch.shared_bytes, launch.overlapping);
            launches.push(LaidLaunch { number, function, blocks: Blocks { grid, block, shared_bytes, overlapping }, values });
        }
        Ok(Laid { launches, scratch })
    }

    /// Enqueues clearing what must be zero, then the launches in order; if it is watched, waits for each.
    ///
    /// # Safety
    /// The kernel is that which was laid out, loaded; the context has been entered. `array` gives memory that is as large as the call's
    /// shapes say, and `scratch` as much as [`Scratch`] says, until the launches are over; `scalars` are the call's, all of them.
    pub(super) unsafe fn enqueue(
        &self,
        (kernel, driver, stream): (&Kernel, &Driver, CUstream),
        array: impl Fn(usize) -> CUdeviceptr,
        scalars: &[u64],
        scratch: CUdeviceptr,
        watched: bool,
    ) -> Result<(), Error> {
        for &(offset, bytes) in &self.scratch.zeroed {
            // SAFETY: within the intermediate memory.
            unsafe { driver.fill(scratch + offset as u64, 0, bytes, stream)? };
        }
        for launch in &self.launches {
            let contract = &kernel.launches[launch.number];
            let launched = launch.with_values(&array, scalars, scratch, |pointers| {
                // SAFETY: `Laid::new` has one value per argument of the contract, which `Program::load` compared with the
                // function's own parameters where the driver tells them; the caller promises memory. That the code stays within
                // that memory is what the compiler proves or checks.
                unsafe { launch.make(driver, stream, pointers) }
            });
            let waited = if watched { launched.and_then(|()| driver.stream_synchronize(stream)) } else { launched };
            waited.map_err(|error| error.for_launch(&contract.entry, contract.span))?;
        }
        Ok(())
    }
}

impl LaidLaunch {
    /// Gives pointers to what the launch passes, as the driver takes them. Allocates nothing unless they are many.
    pub(super) fn with_values<T>(
        &self,
        array: impl Fn(usize) -> CUdeviceptr,
        scalars: &[u64],
        scratch: CUdeviceptr,
        launch: impl FnOnce(&mut [*mut c_void]) -> T,
    ) -> T {
        let value = |value: &Value| match *value {
            Value::Array(at) => array(at),
            Value::Scratch(offset) => scratch + offset as u64,
            Value::Scalar(at) => scalars[at].to_le(),
            Value::Known(value) => value,
        };
        let mut storage: SmallVec<[u64; 64]> = self.values.iter().map(value).collect();
        let mut pointers: SmallVec<[*mut c_void; 64]> = storage.iter_mut().map(|value| (value as *mut u64).cast()).collect();
        launch(&mut pointers)
    }

    /// The driver's call.
    ///
    /// # Safety
    /// As for [`Driver::launch`].
    pub(super) unsafe fn make(&self, driver: &Driver, stream: CUstream, pointers: &mut [*mut c_void]) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { driver.launch(self.function, &self.blocks, stream, pointers) }
    }

    /// The same by `cuLaunchKernel`, without attributes: it begins when the launch in front is over.
    ///
    /// # Safety
    /// As for [`Driver::launch`].
    pub(super) unsafe fn make_bare(&self, driver: &Driver, stream: CUstream, pointers: &mut [*mut c_void]) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { driver.launch(self.function, &Blocks { overlapping: false, ..self.blocks }, stream, pointers) }
    }
}

impl Scratch {
    pub(super) fn of(kernel: &Kernel, call: &Call) -> Result<Scratch, Error> {
        let mut all = Scratch::default();
        for scratch in &kernel.scratch {
            let value = scratch.bytes.evaluate(call);
            let bytes = usize::try_from(value).ok().filter(|&bytes| isize::try_from(bytes).is_ok());
            let start = all.bytes.checked_next_multiple_of(SCRATCH_ALIGNMENT);
            let (Some(bytes), Some(start), Some(end)) =
                (bytes, start, start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes)))
            else {
                let message = format!("`{}` would need {value} bytes of memory", scratch.name);
                return Err(Error::Limit { kernel: kernel.name.clone(), message });
            };
            all.offsets.push(start);
            if scratch.zeroed && bytes > 0 {
                all.zeroed.push((start, bytes));
            }
            all.bytes = end;
        }
        Ok(all)
    }
}

/// The grid at this call; none if it is empty.
fn grid_of(kernel: &Kernel, launch: &Launch, call: &Call) -> Result<Option<[u32; 3]>, Error> {
    let mut grid = [0; 3];
    for axis in 0..3 {
        let extent = launch.grid[axis].evaluate(call);
        if extent == 0 {
            return Ok(None);
        }
        if !(0..=MAX_GRID[axis]).contains(&extent) {
            let (name, entry) = (&kernel.name, &launch.entry);
            return Err(Error::Bug(format!("`{entry}` of kernel `{name}` would have {extent} blocks along axis {axis}")));
        }
        grid[axis] = extent as u32;
    }
    Ok(Some(grid))
}

fn size_value(formula: &Formula, ty: Type, call: &Call) -> Result<u64, Error> {
    let value = formula.evaluate(call);
    match ty {
        Type::I64 => Ok(value as u64),
        Type::I32 => match i32::try_from(value) {
            Ok(value) => Ok(u64::from(value as u32)),
            Err(_) => Err(Error::Bug(format!("`{formula}` is {value}, which is no `int`"))),
        },
        other => Err(Error::Bug(format!("a size of type {other}"))),
    }
}

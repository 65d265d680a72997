//! The CUDA driver: one thin wrapper per call, the code turned into an [`Error`] that names the call.
//!
//! The types are cudarc's. The functions are looked up one by one with plain integers as results, because cudarc's own
//! bindings panic where a function is missing (older drivers) and return a closed enum (newer drivers add codes).

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute, CUlaunchConfig,
    CUmemPool_attribute, CUmemoryPool, CUmodule, CUresult, CUstream,
};
use libloading::Library;

use crate::error::{Error, Missing};
use crate::fork::Process;

type Status = c_int;

macro_rules! functions {
    ($(#[$doc:meta] $field:ident = $name:ident($($ty:ty),*);)+ optional: $(#[$odoc:meta] $ofield:ident = $oname:ident($($oty:ty),*);)*) => {
        pub(super) struct Functions {
            $(#[$doc] $field: unsafe extern "C" fn($($ty),*) -> Status,)+
            $(#[$odoc] $ofield: Option<unsafe extern "C" fn($($oty),*) -> Status>,)*
        }

        impl Functions {
            pub(super) fn of(library: &Library) -> Result<Functions, Missing> {
                Ok(Functions {
                    $($field: {
                        // SAFETY: the driver's API has the function of this name with this signature, and keeps it. The
                        // pointer stays valid because the library is never closed (see `Driver::library`).
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($ty),*) -> Status>(stringify!($name).as_bytes()) };
                        *symbol.map_err(|_| Missing::DriverFunction(stringify!($name)))?
                    },)+
                    $($ofield: {
                        // SAFETY: as above; a driver may lack this one.
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($oty),*) -> Status>(stringify!($oname).as_bytes()) };
                        symbol.ok().map(|symbol| *symbol)
                    },)*
                })
            }
        }
    };
}

mod graph;
mod launch;
mod queue;

pub(crate) use launch::Blocks;

functions! {
    /// Starts the driver.
    init = cuInit(c_uint);
    /// Its CUDA version.
    driver_version = cuDriverGetVersion(*mut c_int);
    /// How many devices.
    device_count = cuDeviceGetCount(*mut c_int);
    /// A device by number.
    device_get = cuDeviceGet(*mut CUdevice, c_int);
    /// Its name.
    device_name = cuDeviceGetName(*mut c_char, c_int, CUdevice);
    /// A property.
    device_attribute = cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
    /// The context that all users of the device in this process share.
    context_retain = cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    /// Gives it back.
    context_release = cuDevicePrimaryCtxRelease_v2(CUdevice);
    /// Makes it this thread's.
    context_set = cuCtxSetCurrent(CUcontext);
    /// Device memory.
    alloc = cuMemAlloc_v2(*mut CUdeviceptr, usize);
    /// Frees it.
    free = cuMemFree_v2(CUdeviceptr);
    /// To the device.
    copy_in = cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    /// From the device.
    copy_out = cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    /// Within the device.
    copy_within = cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    /// Fills bytes.
    fill = cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    /// A stream.
    stream_create = cuStreamCreate(*mut CUstream, c_uint);
    /// Destroys it.
    stream_destroy = cuStreamDestroy_v2(CUstream);
    /// Waits for it.
    stream_synchronize = cuStreamSynchronize(CUstream);
    /// An event.
    event_create = cuEventCreate(*mut CUevent, c_uint);
    /// Destroys it.
    event_destroy = cuEventDestroy_v2(CUevent);
    /// Marks a point of a stream.
    event_record = cuEventRecord(CUevent, CUstream);
    /// Waits for it.
    event_synchronize = cuEventSynchronize(CUevent);
    /// Milliseconds between two: every driver has this one, under the newer name only those since 12.8.
    event_elapsed = cuEventElapsedTime(*mut f32, CUevent, CUevent);
    /// Lets a stream wait for it.
    stream_wait = cuStreamWaitEvent(CUstream, CUevent, c_uint);
    /// Whether it is over.
    event_query = cuEventQuery(CUevent);
    /// Host memory that the device reads and writes by itself.
    host_alloc = cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    /// Frees it.
    host_free = cuMemFreeHost(*mut c_void);
    /// Its address on the device.
    host_pointer = cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
    /// Loads code.
    module_load = cuModuleLoadData(*mut CUmodule, *const c_void);
    /// Unloads it.
    module_unload = cuModuleUnload(CUmodule);
    /// An entry of it.
    module_function = cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    /// Launches.
    launch = cuLaunchKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void);
    /// A code's name.
    error_name = cuGetErrorName(Status, *mut *const c_char);
    optional:
    /// Launches with attributes, since 11.8.
    launch_with = cuLaunchKernelEx(*const CUlaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
    /// Stream-ordered memory, since 11.2.
    alloc_ordered = cuMemAllocAsync(*mut CUdeviceptr, usize, CUstream);
    /// Frees it.
    free_ordered = cuMemFreeAsync(CUdeviceptr, CUstream);
    /// The device's pool.
    pool = cuDeviceGetDefaultMemPool(*mut CUmemoryPool, CUdevice);
    /// Its settings.
    pool_set = cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, *mut c_void);
    /// Gives back what a pool keeps.
    pool_trim = cuMemPoolTrimTo(CUmemoryPool, usize);
    /// Free and total memory.
    memory_info = cuMemGetInfo_v2(*mut usize, *mut usize);
    /// Total memory of a device.
    device_memory = cuDeviceTotalMem_v2(*mut usize, CUdevice);
    /// A function's setting.
    function_set = cuFuncSetAttribute(CUfunction, CUfunction_attribute, c_int);
    /// A function's property.
    function_get = cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction);
    /// How many blocks of a function run on a multiprocessor at once.
    occupancy = cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, CUfunction, c_int, usize);
    /// Place and size of a parameter, since 12.4.
    function_parameter = cuFuncGetParamInfo(CUfunction, usize, *mut usize, *mut usize);
}

/// The driver library of this process, started.
pub struct Driver {
    functions: Functions,
    /// None where the driver is too old for them.
    graphs: Option<graph::Functions>,
    /// The process that started it: one forked from it can't use it.
    process: Process,
    /// Never closed.
    _library: ManuallyDrop<Library>,
}

/// Opens and starts the driver, once for the process.
pub fn driver() -> Result<&'static Driver, Error> {
    static DRIVER: OnceLock<Result<Driver, Missing>> = OnceLock::new();
    let driver = DRIVER.get_or_init(open).as_ref().map_err(Missing::clone)?;
    driver.same_process().map(|()| driver)
}

fn open() -> Result<Driver, Missing> {
    let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };
    let library = names.iter().find_map(|name| {
        // SAFETY: this is the system's CUDA driver; its initialisers are what every CUDA program runs. It is never unloaded.
        unsafe { Library::new(*name) }.ok()
    });
    let library = ManuallyDrop::new(library.ok_or(Missing::Driver)?);
    let (functions, graphs) = (Functions::of(&library)?, graph::Functions::of(&library).ok());
    let driver = Driver { functions, graphs, process: Process::this(), _library: library };
    // SAFETY: takes no pointer; 0 is the only flag there is.
    match unsafe { (driver.functions.init)(0) } {
        0 => Ok(driver),
        code => Err(Missing::Device("cuInit", code, driver.code_name(code))),
    }
}

impl Driver {
    fn code_name(&self, code: Status) -> String {
        let mut text: *const c_char = ptr::null();
        // SAFETY: the function takes any integer and a valid pointer to a pointer.
        let status = unsafe { (self.functions.error_name)(code, &mut text) };
        if status != 0 || text.is_null() {
            return "unknown".to_owned();
        }
        // SAFETY: on success it is a static string ended by zero.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    fn check(&self, call: &'static str, code: Status) -> Result<(), Error> {
        const OUT_OF_MEMORY: Status = CUresult::CUDA_ERROR_OUT_OF_MEMORY as Status;
        const NO_DEVICE: Status = CUresult::CUDA_ERROR_NO_DEVICE as Status;
        match code {
            0 => Ok(()),
            OUT_OF_MEMORY => Err(Error::OutOfMemory { kernel: None, wanted: Vec::new(), memory: None, fits: Vec::new() }),
            NO_DEVICE => Err(Missing::Device(call, code, self.code_name(code)).into()),
            code => Err(Error::call(call, code, self.code_name(code))),
        }
    }

    /// An error in a process that was forked after the driver had been started.
    pub(crate) fn same_process(&self) -> Result<(), Error> {
        if self.process.is_this() { Ok(()) } else { Err(Missing::Forked.into()) }
    }

    /// The newest CUDA version that the driver knows.
    pub fn version(&self) -> Result<(u32, u32), Error> {
        let mut version = 0;
        // SAFETY: a valid pointer to an integer.
        let code = unsafe { (self.functions.driver_version)(&mut version) };
        if code != 0 {
            return Err(Error::call("cuDriverGetVersion", code, self.code_name(code)));
        }
        let version = version.max(0) as u32;
        Ok((version / 1000, version % 1000 / 10))
    }

    /// How many devices there are.
    pub fn device_count(&self) -> Result<u32, Error> {
        let mut count = 0;
        // SAFETY: a valid pointer to an integer.
        self.check("cuDeviceGetCount", unsafe { (self.functions.device_count)(&mut count) })?;
        Ok(count.max(0) as u32)
    }

    pub(crate) fn device(&self, ordinal: u32) -> Result<CUdevice, Error> {
        let mut device = 0;
        // SAFETY: a valid pointer; an ordinal out of range is answered with a code.
        self.check("cuDeviceGet", unsafe { (self.functions.device_get)(&mut device, ordinal as c_int) })?;
        Ok(device)
    }

    pub(crate) fn device_name(&self, device: CUdevice) -> Result<String, Error> {
        let mut text = [0u8; 256];
        // SAFETY: the buffer has the stated length, of which the last byte stays zero.
        let code = unsafe { (self.functions.device_name)(text.as_mut_ptr().cast(), text.len() as c_int - 1, device) };
        self.check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&text).map(|name| name.to_string_lossy().into_owned());
        Ok(name.unwrap_or_default())
    }

    pub(crate) fn device_attribute(&self, device: CUdevice, attribute: CUdevice_attribute) -> Result<u32, Error> {
        let mut value = 0;
        // SAFETY: a valid pointer; attribute and device are values that the driver checks.
        self.check("cuDeviceGetAttribute", unsafe { (self.functions.device_attribute)(&mut value, attribute, device) })?;
        Ok(value.max(0) as u32)
    }

    pub(crate) fn device_memory(&self, device: CUdevice) -> Option<u64> {
        let mut bytes = 0usize;
        // SAFETY: a valid pointer.
        let code = unsafe { self.functions.device_memory?(&mut bytes, device) };
        (code == 0).then_some(bytes as u64)
    }

    pub(crate) fn context_retain(&self, device: CUdevice) -> Result<CUcontext, Error> {
        let mut context = ptr::null_mut();
        // SAFETY: a valid pointer; each success is paired with one release.
        self.check("cuDevicePrimaryCtxRetain", unsafe { (self.functions.context_retain)(&mut context, device) })?;
        Ok(context)
    }

    pub(crate) fn context_release(&self, device: CUdevice) {
        // SAFETY: called once for a retain, when nothing of the context is used any more. At exit the driver may refuse.
        let _ = unsafe { (self.functions.context_release)(device) };
    }

    pub(crate) fn context_set(&self, context: CUcontext) -> Result<(), Error> {
        // SAFETY: the context is retained by the `Device` that calls this.
        self.check("cuCtxSetCurrent", unsafe { (self.functions.context_set)(context) })
    }

    /// Gives the memory that the device's pool keeps back to the system.
    pub(crate) fn trim_pool(&self, device: CUdevice) {
        let (Some(pool_of), Some(trim)) = (self.functions.pool, self.functions.pool_trim) else { return };
        let mut pool = ptr::null_mut();
        // SAFETY: a valid pointer; the pool is the device's own, and only memory that nobody uses leaves it.
        let _ = unsafe { if pool_of(&mut pool, device) == 0 { trim(pool, 0) } else { 0 } };
    }

    /// Free and total memory of the current context's device.
    pub(crate) fn memory_info(&self) -> Option<(u64, u64)> {
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: valid pointers.
        let code = unsafe { self.functions.memory_info?(&mut free, &mut total) };
        (code == 0).then_some((free as u64, total as u64))
    }

    /// Whether memory can be had in stream order; if so, the pool is told to keep what is freed.
    pub(crate) fn keep_pool(&self, device: CUdevice) -> bool {
        let functions = &self.functions;
        let (Some(pool_of), Some(set), Some(_), Some(_)) =
            (functions.pool, functions.pool_set, functions.alloc_ordered, functions.free_ordered)
        else {
            return false;
        };
        let mut pool = ptr::null_mut();
        // SAFETY: a valid pointer.
        if unsafe { pool_of(&mut pool, device) } != 0 {
            return false;
        }
        let mut threshold = u64::MAX;
        // SAFETY: the pool is the device's own, and this attribute is a 64-bit integer, which the driver copies.
        let code = unsafe { set(pool, CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, (&raw mut threshold).cast()) };
        code == 0
    }

    pub(crate) fn alloc(&self, bytes: usize, ordered: Option<CUstream>) -> Result<CUdeviceptr, Error> {
        let mut pointer = 0;
        match (ordered, self.functions.alloc_ordered) {
            (Some(stream), Some(alloc)) => {
                // SAFETY: a valid pointer; the stream is the device's, alive.
                self.check("cuMemAllocAsync", unsafe { alloc(&mut pointer, bytes, stream) })?;
            }
            // SAFETY: a valid pointer.
            _ => self.check("cuMemAlloc", unsafe { (self.functions.alloc)(&mut pointer, bytes) })?,
        }
        Ok(pointer)
    }

    pub(crate) fn free(&self, pointer: CUdeviceptr, ordered: Option<CUstream>) {
        // The device may be lost, or the process at its end; there is nobody to tell.
        let _ = match (ordered, self.functions.free_ordered) {
            // SAFETY: `Buffer` frees what it allocated in the same way, once; work on it was enqueued before, on this stream.
            (Some(stream), Some(free)) => unsafe { free(pointer, stream) },
            // SAFETY: as above; this call waits for the device.
            _ => unsafe { (self.functions.free)(pointer) },
        };
    }

    /// Copies to the device; the source may be reused at once only because callers synchronise or the driver stages it.
    ///
    /// # Safety
    /// `to` has room for the bytes, and they stay as they are until the stream has been waited for.
    pub(crate) unsafe fn copy_in(&self, to: CUdeviceptr, from: &[u8], stream: CUstream) -> Result<(), Error> {
        // SAFETY: the slice is valid for its length; the rest is the caller's promise.
        self.check("cuMemcpyHtoDAsync", unsafe { (self.functions.copy_in)(to, from.as_ptr().cast(), from.len(), stream) })
    }

    /// Copies from the device.
    ///
    /// # Safety
    /// `from` holds as many bytes, and `to` is not touched until the stream has been waited for.
    pub(crate) unsafe fn copy_out(&self, to: &mut [u8], from: CUdeviceptr, stream: CUstream) -> Result<(), Error> {
        // SAFETY: the slice is valid for its length; the rest is the caller's promise.
        self.check("cuMemcpyDtoHAsync", unsafe { (self.functions.copy_out)(to.as_mut_ptr().cast(), from, to.len(), stream) })
    }

    /// Fills memory with a byte.
    ///
    /// # Safety
    /// `to` has room for the bytes.
    pub(crate) unsafe fn fill(&self, to: CUdeviceptr, value: u8, bytes: usize, stream: CUstream) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        self.check("cuMemsetD8Async", unsafe { (self.functions.fill)(to, value, bytes, stream) })
    }

    pub(crate) fn stream_create(&self) -> Result<CUstream, Error> {
        const NON_BLOCKING: c_uint = 1;
        let mut stream = ptr::null_mut();
        // SAFETY: a valid pointer.
        self.check("cuStreamCreate", unsafe { (self.functions.stream_create)(&mut stream, NON_BLOCKING) })?;
        Ok(stream)
    }

    pub(crate) fn stream_destroy(&self, stream: CUstream) {
        // SAFETY: the stream is destroyed once, by its `Device`.
        let _ = unsafe { (self.functions.stream_destroy)(stream) };
    }

    pub(crate) fn stream_synchronize(&self, stream: CUstream) -> Result<(), Error> {
        // SAFETY: the stream is alive.
        self.check("cuStreamSynchronize", unsafe { (self.functions.stream_synchronize)(stream) })
    }

    pub(crate) fn event_create(&self) -> Result<CUevent, Error> {
        let mut event = ptr::null_mut();
        // SAFETY: a valid pointer; 0 means an event that keeps time.
        self.check("cuEventCreate", unsafe { (self.functions.event_create)(&mut event, 0) })?;
        Ok(event)
    }

    pub(crate) fn event_destroy(&self, event: CUevent) {
        // SAFETY: the event is destroyed once, by its owner.
        let _ = unsafe { (self.functions.event_destroy)(event) };
    }

    pub(crate) fn event_record(&self, event: CUevent, stream: CUstream) -> Result<(), Error> {
        // SAFETY: both are alive.
        self.check("cuEventRecord", unsafe { (self.functions.event_record)(event, stream) })
    }

    pub(crate) fn event_synchronize(&self, event: CUevent) -> Result<(), Error> {
        // SAFETY: the event is alive.
        self.check("cuEventSynchronize", unsafe { (self.functions.event_synchronize)(event) })
    }

    pub(crate) fn event_elapsed(&self, from: CUevent, to: CUevent) -> Result<f32, Error> {
        let mut milliseconds = 0.0;
        // SAFETY: a valid pointer; both events are alive.
        self.check("cuEventElapsedTime", unsafe { (self.functions.event_elapsed)(&mut milliseconds, from, to) })?;
        Ok(milliseconds)
    }

    pub(crate) fn module_load(&self, image: &[u8]) -> Result<CUmodule, Error> {
        let mut module = ptr::null_mut();
        // SAFETY: the image is a whole cubin, which states its own length, or PTX ended by zero: `Module::load` sees to it.
        self.check("cuModuleLoadData", unsafe { (self.functions.module_load)(&mut module, image.as_ptr().cast()) })?;
        Ok(module)
    }

    pub(crate) fn module_unload(&self, module: CUmodule) {
        // SAFETY: unloaded once, by its owner, when no launch of it is outstanding.
        let _ = unsafe { (self.functions.module_unload)(module) };
    }

    pub(crate) fn module_function(&self, module: CUmodule, name: &str) -> Result<CUfunction, Error> {
        let name = CString::new(name).map_err(|_| Error::Bug("a zero byte in the name of an entry".into()))?;
        let mut function = ptr::null_mut();
        // SAFETY: valid pointers, a string ended by zero, a module that is alive.
        let code = unsafe { (self.functions.module_function)(&mut function, module, name.as_ptr()) };
        self.check("cuModuleGetFunction", code)?;
        Ok(function)
    }

    pub(crate) fn function_set(&self, function: CUfunction, attribute: CUfunction_attribute, value: u32) -> Result<(), Error> {
        let Some(set) = self.functions.function_set else { return Err(Missing::DriverFunction("cuFuncSetAttribute").into()) };
        // SAFETY: the function's module is alive; the driver checks the value.
        self.check("cuFuncSetAttribute", unsafe { set(function, attribute, value as c_int) })
    }

    pub(crate) fn function_get(&self, function: CUfunction, attribute: CUfunction_attribute) -> Option<u32> {
        let mut value = 0;
        // SAFETY: a valid pointer; the function's module is alive.
        let code = unsafe { self.functions.function_get?(&mut value, attribute, function) };
        (code == 0).then_some(value.max(0) as u32)
    }

    /// How many blocks of so many threads, and of so much dynamic shared memory, run on a multiprocessor at once, if the driver tells.
    pub(crate) fn occupancy(&self, function: CUfunction, threads: u32, shared_bytes: u32) -> Option<u32> {
        let mut blocks = 0;
        // SAFETY: a valid pointer; the function's module is alive.
        let code = unsafe { self.functions.occupancy?(&mut blocks, function, threads as c_int, shared_bytes as usize) };
        (code == 0).then_some(blocks.max(0) as u32)
    }

    /// The sizes of a function's first `count` parameters (fewer, if it has fewer), if the driver tells. It is not asked for
    /// one more: tools that watch the driver take the answer for an error.
    pub(crate) fn function_parameters(&self, function: CUfunction, count: usize) -> Option<Vec<usize>> {
        let ask = self.functions.function_parameter?;
        let mut sizes = Vec::new();
        while sizes.len() < count {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: valid pointers; the function's module is alive; an index past the last is answered with a code.
            match unsafe { ask(function, sizes.len(), &mut offset, &mut size) } {
                0 => sizes.push(size),
                code if code == CUresult::CUDA_ERROR_INVALID_VALUE as Status => return Some(sizes),
                _ => return None,
            }
        }
        Some(sizes)
    }
}

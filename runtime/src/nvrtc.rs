//! NVRTC: opened by the path that [`locate`](crate::locate) found, called through function pointers with cudarc's types.
//!
//! cudarc's own wrappers open the library by name alone, panic if it or a function is missing, and return a closed enum,
//! which a newer library could leave. So the functions are looked up here, one by one, with plain integers as results.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::ptr;

use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};
use gpukc_codegen::target::Target;
use libloading::Library;

use crate::error::{Error, Missing, Rejected};
use crate::locate::Located;

type Status = c_int;

const OK: Status = nvrtcResult::NVRTC_SUCCESS as Status;

macro_rules! functions {
    ($($field:ident = $name:ident($($ty:ty),*) -> $result:ty;)+) => {
        #[allow(non_snake_case)]
        struct Functions { $($field: unsafe extern "C" fn($($ty),*) -> $result,)+ }

        impl Functions {
            fn of(library: &Library) -> Result<Functions, String> {
                Ok(Functions {
                    $($field: {
                        // SAFETY: NVRTC documents the function of this name with this signature, in every version since 11.2.
                        // The pointer stays valid because the library is never closed (see `Nvrtc::library`).
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($ty),*) -> $result>(stringify!($name).as_bytes()) };
                        *symbol.map_err(|_| format!("it lacks `{}`", stringify!($name)))?
                    },)+
                })
            }
        }
    };
}

functions! {
    version = nvrtcVersion(*mut c_int, *mut c_int) -> Status;
    supported_count = nvrtcGetNumSupportedArchs(*mut c_int) -> Status;
    supported = nvrtcGetSupportedArchs(*mut c_int) -> Status;
    error_string = nvrtcGetErrorString(Status) -> *const c_char;
    create = nvrtcCreateProgram(*mut nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> Status;
    destroy = nvrtcDestroyProgram(*mut nvrtcProgram) -> Status;
    compile = nvrtcCompileProgram(nvrtcProgram, c_int, *const *const c_char) -> Status;
    log_size = nvrtcGetProgramLogSize(nvrtcProgram, *mut usize) -> Status;
    log = nvrtcGetProgramLog(nvrtcProgram, *mut c_char) -> Status;
    cubin_size = nvrtcGetCUBINSize(nvrtcProgram, *mut usize) -> Status;
    cubin = nvrtcGetCUBIN(nvrtcProgram, *mut c_char) -> Status;
    ptx_size = nvrtcGetPTXSize(nvrtcProgram, *mut usize) -> Status;
    ptx = nvrtcGetPTX(nvrtcProgram, *mut c_char) -> Status;
}

/// A loaded NVRTC.
pub struct Nvrtc {
    functions: Functions,
    /// Where it came from.
    pub located: Located,
    /// Major and minor version.
    pub version: (u32, u32),
    /// Compute capabilities that it compiles for, ascending.
    pub architectures: Vec<u32>,
    /// Never closed: the library keeps threads and thread-local data of its own.
    _library: ManuallyDrop<Library>,
    _builtins: Option<ManuallyDrop<Library>>,
}

/// Which form of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Machine code for one architecture.
    Cubin,
    /// Text that the driver compiles.
    Ptx,
}

impl Form {
    /// `cubin` or `ptx`, also the file's extension.
    pub fn name(self) -> &'static str {
        match self {
            Form::Cubin => "cubin",
            Form::Ptx => "ptx",
        }
    }
}

/// What NVRTC gives for a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Compiled {
    /// The code. PTX ends in a zero byte, as the driver wants it.
    pub image: Vec<u8>,
    /// Warnings and `ptxas` information, such as registers and spills.
    pub log: String,
}

/// The driver loads this for the target asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Machine code, or PTX where NVRTC doesn't know the target yet.
    pub form: Form,
    /// `sm_90a`, `compute_90`.
    pub architecture: String,
}

impl Nvrtc {
    /// Loads the library, its builtins first (some versions don't find them by themselves).
    pub fn open(located: &Located) -> Result<Nvrtc, Error> {
        let broken = |why: String| Error::from(Missing::NvrtcBroken(located.path.clone(), why));
        let open = |path: &std::path::Path| {
            // SAFETY: the file is NVIDIA's NVRTC (or its builtins), by its name and place; its initialisers are what every
            // program that links it runs. It is never unloaded.
            unsafe { Library::new(path) }.map(ManuallyDrop::new)
        };
        let builtins = located.builtins.as_deref().and_then(|path| open(path).ok());
        let library = open(&located.path).map_err(|error| broken(error.to_string()))?;
        let functions = Functions::of(&library).map_err(broken)?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: all three take pointers to integers, which are valid for the calls.
        let status = unsafe {
            match (functions.version)(&mut major, &mut minor) {
                OK => (functions.supported_count)(&mut count),
                status => status,
            }
        };
        if status != OK || !(0..10_000).contains(&count) {
            return Err(broken(format!("it doesn't tell its version ({status})")));
        }
        let mut list: Vec<c_int> = vec![0; count as usize];
        // SAFETY: the function writes as many integers as the count said, for which the list has room.
        if unsafe { (functions.supported)(list.as_mut_ptr()) } != OK {
            return Err(broken("it doesn't tell its architectures".to_owned()));
        }
        let architectures: BTreeSet<u32> = list.into_iter().filter_map(|value| u32::try_from(value).ok()).collect();
        Ok(Nvrtc {
            functions,
            located: located.clone(),
            version: (major.max(0) as u32, minor.max(0) as u32),
            architectures: architectures.into_iter().collect(),
            _library: library,
            _builtins: builtins,
        })
    }

    /// `13.0`
    pub fn version_text(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Options that change no result, as far as this version has them.
    pub(crate) fn version_options(&self) -> impl Iterator<Item = &'static str> {
        let since = [
            // Leaves out what our texts never use; a third of the time of a small kernel.
            ((12, 4), "--minimal"),
            // NVRTC's own cache answers without a log.
            ((12, 9), "--no-cache"),
        ];
        let version = self.version;
        since.into_iter().filter(move |(since, _)| version >= *since).map(|(_, option)| option)
    }

    /// What to compile for a target: its machine code if NVRTC knows it, else PTX of the newest one before it.
    pub fn resolve(&self, target: Target) -> Result<Resolved, Error> {
        /// The first with architectures of instructions of their own: before, `sm_90a` is no name.
        const SPECIFIC: (u32, u32) = (12, 0);
        if self.architectures.contains(&target.capability) {
            let target = Target { specific: target.specific && self.version >= SPECIFIC, ..target };
            return Ok(Resolved { form: Form::Cubin, architecture: target.to_string() });
        }
        match self.architectures.iter().rev().find(|&&known| known < target.capability) {
            Some(known) => Ok(Resolved { form: Form::Ptx, architecture: format!("compute_{known}") }),
            None => Err(Missing::Architecture {
                asked: target.to_string(),
                version: self.version_text(),
                supported: self.architectures.clone(),
            }
            .into()),
        }
    }

    /// Compiles a text. `options` are passed as they are; `form` says what is taken out and must agree with them.
    pub fn compile(&self, source: &str, kernel: &str, options: &[String], form: Form) -> Result<Compiled, Error> {
        let terminated = |text: &str| CString::new(text).map_err(|_| Error::Bug("a zero byte in CUDA text or options".into()));
        let text = terminated(source)?;
        // The name of the text in messages; the same for all, so that the binary doesn't depend on the kernel's.
        let name = c"kernel.cu";
        let option_texts = options.iter().map(|option| terminated(option)).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = option_texts.iter().map(|option| option.as_ptr()).collect();
        let mut program = Program { functions: &self.functions, handle: ptr::null_mut() };
        // SAFETY: text and name end in zero bytes and outlive the call, which copies them; no headers are passed.
        let status =
            unsafe { (self.functions.create)(&mut program.handle, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()) };
        self.check("nvrtcCreateProgram", status)?;
        // SAFETY: the handle is of the call above; `pointers` holds as many strings as stated, ended by zeros, alive here.
        let status = unsafe { (self.functions.compile)(program.handle, pointers.len() as c_int, pointers.as_ptr()) };
        let log = program.bytes(self.functions.log_size, self.functions.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_owned();
        if status == nvrtcResult::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE as Status {
            return Err(Missing::NvrtcBuiltins(self.located.path.clone()).into());
        }
        if status == nvrtcResult::NVRTC_ERROR_COMPILATION as Status || status == nvrtcResult::NVRTC_ERROR_INVALID_OPTION as Status {
            return Err(Error::Rejected(Box::new(Rejected {
                kernel: kernel.to_owned(),
                source: source.to_owned(),
                options: options.to_vec(),
                log,
                code: self.error_name(status),
            })));
        }
        self.check("nvrtcCompileProgram", status).map_err(|error| error.for_kernel(kernel))?;
        let (size, get) = match form {
            Form::Cubin => (self.functions.cubin_size, self.functions.cubin),
            Form::Ptx => (self.functions.ptx_size, self.functions.ptx),
        };
        let image = program.bytes(size, get).map_err(|status| self.call_error("nvrtcGetCUBIN or nvrtcGetPTX", status))?;
        Ok(Compiled { image, log })
    }

    fn error_name(&self, status: Status) -> String {
        // SAFETY: the function takes any integer and returns a static string, or null.
        let text = unsafe { (self.functions.error_string)(status) };
        if text.is_null() {
            return "unknown".to_owned();
        }
        // SAFETY: it is not null, so it is a static string ended by zero.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    fn call_error(&self, call: &'static str, status: Status) -> Error {
        Error::call(call, status, self.error_name(status))
    }

    fn check(&self, call: &'static str, status: Status) -> Result<(), Error> {
        if status == OK { Ok(()) } else { Err(self.call_error(call, status)) }
    }
}

/// A program of NVRTC, freed whichever way it is left.
struct Program<'a> {
    functions: &'a Functions,
    handle: nvrtcProgram,
}

impl Program<'_> {
    /// A result of the program: its size first, then its bytes.
    fn bytes(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> Status,
        get: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> Status,
    ) -> Result<Vec<u8>, Status> {
        let mut count = 0usize;
        // SAFETY: the handle is alive and the integer valid.
        match unsafe { size(self.handle, &mut count) } {
            OK => {}
            status => return Err(status),
        }
        let mut bytes = vec![0u8; count];
        // SAFETY: the handle is alive and the function writes exactly as many bytes as the size said.
        match unsafe { get(self.handle, bytes.as_mut_ptr().cast()) } {
            OK => Ok(bytes),
            status => Err(status),
        }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle came from nvrtcCreateProgram and nothing uses it after this.
            unsafe { (self.functions.destroy)(&mut self.handle) };
        }
    }
}

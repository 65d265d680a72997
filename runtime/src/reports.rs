//! Reports of checks on the device, in host memory that the device writes by itself: launches need not clear them, and whoever
//! waits for a stream need not copy them. Every loaded kernel that checks has one.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::CUdeviceptr;
use gpukc_codegen::kernel::{REPORT_WORDS, Site};
use gpukc_dsl::source::Source;

use crate::device::Device;
use crate::error::Error;
use crate::queue::Fault;

/// The reports of the kernels that are loaded on a device.
#[derive(Default)]
pub(crate) struct Reports(Mutex<Known>);

#[derive(Default)]
struct Known {
    loaded: Vec<Arc<Report>>,
    /// What a kernel said that nobody had been told when it was unloaded: the first of them.
    left: Option<Fault>,
}

/// The report of a loaded kernel.
pub(crate) struct Report {
    device: Device,
    /// [`REPORT_WORDS`] words.
    host: *mut c_void,
    pointer: CUdeviceptr,
    kernel: String,
    sites: Vec<Site>,
    source: Arc<Source>,
}

// SAFETY: the memory is reached through atomics only.
unsafe impl Send for Report {}
// SAFETY: as above.
unsafe impl Sync for Report {}

impl Report {
    fn words(&self) -> &[AtomicU64; REPORT_WORDS] {
        // SAFETY: the memory was allocated with that size, page-aligned, and zeroed; it lives as long as this.
        unsafe { &*self.host.cast() }
    }

    pub(crate) fn pointer(&self) -> CUdeviceptr {
        self.pointer
    }

    /// What it says, once; nothing of its kernel may be running.
    fn take(&self) -> Option<Fault> {
        let [reported, site, index, extent] = self.words();
        if reported.load(Ordering::Acquire) == 0 {
            return None;
        }
        let value = |word: &AtomicU64| word.swap(0, Ordering::AcqRel);
        let (site, index, extent) = (value(site), value(index) as i64, value(extent) as i64);
        value(reported);
        let site = usize::try_from(site).ok().and_then(|site| self.sites.get(site));
        let error = match site {
            Some(site) => Error::IndexOutOfRange { kernel: self.kernel.clone(), site: site.clone(), index, extent },
            None => Error::Bug(format!("kernel `{}` reports an unknown place", self.kernel)),
        };
        Some(Fault { error, source: Some(self.source.clone()) })
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Ok(driver) = self.device.enter() {
            driver.host_free(self.host);
        }
    }
}

impl Reports {
    /// The report of a kernel that is being loaded.
    pub(crate) fn add(&self, device: &Device, kernel: &str, sites: &[Site], source: &Arc<Source>) -> Result<Arc<Report>, Error> {
        let (host, pointer) = device.enter()?.host_alloc(REPORT_WORDS * size_of::<u64>())?;
        // SAFETY: as many words, page-aligned, which nobody else knows yet.
        unsafe { host.cast::<[u64; REPORT_WORDS]>().write([0; REPORT_WORDS]) };
        let (kernel, sites, source) = (kernel.to_owned(), sites.to_vec(), source.clone());
        let report = Arc::new(Report { device: device.clone(), host, pointer, kernel, sites, source });
        self.lock().loaded.push(report.clone());
        Ok(report)
    }

    /// Ends the report of a kernel that is being unloaded, nothing of which is running. What it says is still to be told.
    pub(crate) fn remove(&self, report: &Arc<Report>) {
        let mut known = self.lock();
        known.loaded.retain(|other| !Arc::ptr_eq(other, report));
        known.left = known.left.take().or_else(|| report.take());
    }

    /// Whether one says something.
    pub(crate) fn any(&self) -> bool {
        let known = self.lock();
        known.left.is_some() || known.loaded.iter().any(|report| report.words()[0].load(Ordering::Acquire) != 0)
    }

    /// What one of them says, once; nothing may be running.
    pub(crate) fn take(&self) -> Option<Fault> {
        let mut known = self.lock();
        known.left.take().or_else(|| known.loaded.iter().find_map(|report| report.take()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! What runs texts, by its name.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpukc_codegen::target::Target;
use gpukc_emulate::Mode;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::Compiler;
use gpukc_verify::device::{Device, Emulated, Gpu, Job, Results};

/// The device of that name; none for `passes`.
pub fn open(name: &str) -> Option<Box<dyn Device>> {
    let mode = match name {
        "passes" => return None,
        "gpu" => return Some(Box::new(Gpu::open(0, Compiler::new(Cache::off())).expect("a GPU"))),
        "emulate" => Mode::Address,
        "emulate-plain" => Mode::Plain,
        "emulate-thread" => Mode::Thread,
        other => panic!("--against {other}: passes, emulate, emulate-plain, emulate-thread or gpu"),
    };
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("gpukc-hunt-{}-{number}", std::process::id()));
    Some(Box::new(Temporary(Emulated::with_mode(&folder, mode).expect("an emulator"), folder)))
}

/// An emulator whose folder goes with it.
struct Temporary(Emulated, PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

impl Device for Temporary {
    fn targets(&self) -> &[Target] {
        self.0.targets()
    }
    fn work(&self) -> [i64; 2] {
        self.0.work()
    }
    fn bears(&self, job: &Job) -> bool {
        self.0.bears(job)
    }
    fn run(&self, jobs: &[Job]) -> Vec<Results> {
        self.0.run(jobs)
    }
    fn forget(&self) {
        self.0.forget();
    }
}

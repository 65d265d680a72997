//! `gpukc run`: one call of a kernel, from files and generators to files or a summary.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpukc_cli::npy;
use gpukc_cpu::Tensor;
use gpukc_dsl::program::Kernel;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::Compiler;
use gpukc_runtime::device::Memory;
use serde_json::{Map, Value, json};

use crate::args::{Format, Run, Stage};
use crate::failure::Failure;
use crate::files::{self, Files};
use crate::{devices, inputs, load, output, pipeline, show};

pub fn run(args: &Run) -> Result<(), Failure> {
    let asked = devices::parse(&args.device)?;
    let start = Instant::now();
    let loaded = load::load(&args.file, Format::Human)?;
    let mut stats = Stats::default();
    stats.time("parse_check", start.elapsed());
    if matches!(args.stop_after, Some(Stage::Parse | Stage::Check)) {
        return Ok(());
    }
    let kernel = loaded.kernel(args.kernel.as_deref())?;
    let outputs = outputs(kernel, &args.outputs)?;
    let places: Vec<&Path> = outputs.iter().map(|(_, path)| path.as_path()).chain(args.stats.as_deref()).collect();
    check(&places)?;
    let made = Instant::now();
    let inputs = inputs::take(kernel, &args.inputs, &loaded.source)?;
    stats.time("inputs", made.elapsed());

    let compiler = Compiler::new(Cache::from_environment());
    let results = match devices::choose(asked, &compiler)? {
        Some(ordinal) => {
            let ready = pipeline::ready(&loaded.program, kernel, &inputs, (ordinal, Memory::Plain), &compiler, &loaded.source)?;
            stats.set("device", json!(format!("cuda:{ordinal}")));
            stats.set("cache_hit", json!(ready.binary.hit));
            stats.set("variant", variant(&ready));
            stats.set("variants_compiled", json!(u32::from(!ready.binary.hit)));
            stats.set("architecture", json!(ready.binary.architecture));
            stats.time("device_open", ready.open_time);
            stats.time("plan", ready.plan_time);
            stats.time("compile", ready.binary.time);
            stats.time("load", ready.load_time);
            if args.stop_after.is_some() {
                let mut files = Files::default();
                if let Some(path) = &args.stats {
                    files.add(path, |stream| stats.write(stream, start));
                }
                return files.write();
            }
            let (results, times) = pipeline::run_on_gpu(kernel, &inputs, &ready, &loaded.source)?;
            stats.time("host_to_device", times.host_to_device);
            stats.time("launch", times.launch);
            stats.time("device_to_host", times.device_to_host);
            results
        }
        None => {
            if args.stop_after.is_some() {
                return Ok(());
            }
            let begin = Instant::now();
            let results = pipeline::run_on_cpu(&loaded.program, kernel, &inputs, &loaded.source)?;
            stats.set("device", json!("cpu"));
            stats.time("launch", begin.elapsed());
            results
        }
    };
    let begin = Instant::now();
    let mut files = give(kernel, &results, &outputs)?;
    // The last file: by then the others are written.
    if let Some(path) = &args.stats {
        files.add(path, move |stream| {
            stats.time("outputs", begin.elapsed());
            stats.write(stream, start)
        });
    }
    files.write()
}

/// The text that the call got: calls with the same one share their code. `compile --call` shows it.
fn variant(ready: &pipeline::Ready) -> Value {
    let digest = blake3::hash(ready.program.kernel().source.as_bytes()).to_hex();
    json!({ "text": digest[..16], "aligned": ready.facts.aligned, "narrow": ready.facts.narrow })
}

/// `--out NAME=FILE`, each name a result.
pub(super) fn outputs(kernel: &Kernel, options: &[String]) -> Result<Vec<(usize, PathBuf)>, Failure> {
    let mut outputs: Vec<(usize, PathBuf)> = Vec::new();
    for option in options {
        let (name, file) = inputs::split("--out", option, "FILE.npy")?;
        let at = kernel.results.iter().position(|&id| kernel.arrays[id].name == name).ok_or_else(|| {
            let names: Vec<&str> = kernel.results.iter().map(|&id| kernel.arrays[id].name.as_str()).collect();
            Failure::usage(format!("kernel `{}` has no result `{name}`; it has {}", kernel.name, names.join(", ")))
        })?;
        if outputs.iter().any(|(other, _)| *other == at) {
            return Err(Failure::usage(format!("--out {name} is given twice")));
        }
        if files::is_standard_output(Path::new(file)) {
            files::no_terminal(&format!("an array, such as `{name}`,"), "file")?;
        }
        outputs.push((at, file.into()));
    }
    Ok(outputs)
}

/// Finds out whether these can be written, before there is anything to write. Each file holds one thing, and so does standard output
/// as `-`; devices and pipes take any number.
pub(super) fn check(paths: &[&Path]) -> Result<(), Failure> {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        path.canonicalize().ok().or_else(|| Some(folder.canonicalize().ok()?.join(path.file_name()?)))
    };
    let once = |path: &&&Path| files::is_standard_output(path) || path.metadata().map_or(true, |data| data.is_file());
    let mut seen = Vec::new();
    for path in paths.iter().filter(once) {
        let place = place(path).filter(|_| !files::is_standard_output(path)).unwrap_or_else(|| path.to_path_buf());
        if seen.contains(&place) {
            return Err(Failure::usage(format!("{} is to be written twice", path.display())));
        }
        seen.push(place);
    }
    paths.iter().try_for_each(|path| files::check(path))
}

/// The files asked for, yet to be written; without any, shows a summary.
pub(super) fn give<'a>(kernel: &Kernel, results: &'a [Tensor], outputs: &[(usize, PathBuf)]) -> Result<Files<'a>, Failure> {
    if results.len() != kernel.results.len() {
        return Err(Failure::bug(format!("{} results instead of {}", results.len(), kernel.results.len())));
    }
    if outputs.is_empty() {
        let lines: String =
            kernel.results.iter().zip(results).map(|(&id, tensor)| show::summary(&kernel.arrays[id].name, tensor) + "\n").collect();
        output::result(lines);
    }
    let mut files = Files::default();
    for (at, path) in outputs {
        let result = &results[*at];
        files.add(path, move |stream| npy::write(stream, result));
    }
    Ok(files)
}

/// `--stats`: times in milliseconds, and facts.
#[derive(Default)]
struct Stats {
    times: Map<String, Value>,
    facts: Map<String, Value>,
}

impl Stats {
    fn time(&mut self, name: &str, time: Duration) {
        self.times.insert(name.to_owned(), json!(time.as_secs_f64() * 1e3));
    }
    fn set(&mut self, name: &str, value: Value) {
        self.facts.insert(name.to_owned(), value);
    }
    fn write(mut self, stream: &mut dyn Write, start: Instant) -> io::Result<()> {
        self.time("total", start.elapsed());
        self.facts.insert("milliseconds".to_owned(), Value::Object(self.times));
        writeln!(stream, "{:#}", Value::Object(self.facts))
    }
}

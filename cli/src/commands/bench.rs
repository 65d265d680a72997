//! `gpukc bench`: a kernel's time on the GPU, inputs and results resident there, by the device's own clock.
//!
//! Calls go round several sets of inputs and results, which together hold three times the level-2 cache, so that a call finds
//! nothing of the one before. Short calls are timed as a graph of many. It is how the peers of `benches/peers` are timed as well.

use std::path::Path;
use std::time::Instant;

use gpukc_cpu::Tensor;
use gpukc_dsl::program::Kernel;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::Compiler;
use gpukc_runtime::device::Memory;
use gpukc_runtime::error::Error;
use gpukc_runtime::launch::{Call, Resident, Rotation, Timing};
use serde_json::json;

use crate::args::{Bench, Format};
use crate::devices::{self, Asked};
use crate::failure::Failure;
use crate::inputs::Inputs;
use crate::{files, inputs, load, output, pipeline};

/// The sets hold at least this together, unless that would be too many.
const TURN_BYTES: u64 = 180_000_000;
const MOST_SETS: usize = 32;

pub fn run(args: &Bench) -> Result<(), Failure> {
    let ordinal = devices::parse_gpu(&args.device)?;
    let loaded = load::load(&args.file, Format::Human)?;
    let kernel = loaded.kernel(args.kernel.as_deref())?;
    let outputs = super::run::outputs(kernel, &args.outputs)?;
    if outputs.iter().any(|(_, path)| files::is_standard_output(path)) {
        return Err(Failure::usage("--out NAME=-: what bench measures goes to standard output"));
    }
    super::run::check(&outputs.iter().map(|(_, path)| path.as_path()).collect::<Vec<&Path>>())?;
    let inputs = inputs::take(kernel, &args.inputs, &loaded.source)?;
    let compiler = Compiler::new(Cache::from_environment());
    devices::choose(Asked::Cuda(ordinal), &compiler)?;
    let ready = pipeline::ready(&loaded.program, kernel, &inputs, (ordinal, Memory::Pooled), &compiler, &loaded.source)?;
    let told = |error| Failure::runtime(&error, Some(&loaded.source));
    let call = Call::new(kernel, &inputs.bindings);
    let names = |id| kernel.arrays[id].name.clone();
    let first = ready.program.upload(&call, &pipeline::bytes(kernel, &inputs), &kernel.results, &names).map_err(told)?;
    let mut sets = vec![first];
    {
        let mut prepared = ready.program.prepare(&call, &sets[0].arrays()).map_err(told)?;
        prepared.launch().and_then(|()| prepared.finish()).map_err(told)?;
    }
    if !outputs.is_empty() {
        let results = results(kernel, &inputs, &sets[0]).map_err(told)??;
        super::run::give(kernel, &results, &outputs)?.write()?;
    }
    let bytes = sets[0].bytes();
    let facts = ready.program.device().facts();
    if !args.hot {
        add_sets(&mut sets, TURN_BYTES.max(3 * u64::from(facts.cache_bytes))).map_err(told)?;
    }
    let mut rotation = ready.program.rotation(&call, &sets).map_err(told)?;
    let timing = rotation.time(args.runs.map(|runs| runs as usize)).map_err(told)?;
    let host = host_time(&mut rotation).map_err(told)?;

    let Spread { median, low, high } = Spread::of(&timing);
    let rate = bytes as f64 / (median * 1e-6) / 1e9;
    let (method, together, runs) = (timing.method.name(), timing.together, timing.milliseconds.len());
    if args.format == Format::Json {
        let row = json!({
            "kernel": kernel.name, "device": facts.name, "architecture": ready.binary.architecture, "runs": runs,
            "median_us": median, "min_us": low, "p90_us": high, "bytes": bytes, "gb_per_s": rate,
            "method": method, "calls": together, "sets": rotation.sets(), "sites": ready.program.kernel().sites.len(),
            "host_us": host, "resources": ready.program.resources().iter().map(|resources| json!({
                "entry": resources.entry, "registers": resources.registers, "local_bytes": resources.local_bytes,
            })).collect::<Vec<_>>(),
        });
        output::result(format!("{row}\n"));
        return Ok(());
    }
    output::result(format!(
        "{}: {median:.2} µs median of {runs} ({low:.2} best, {high:.2} at 90%), {rate:.0} GB/s of inputs and results, {host:.1} µs of host time a call\n",
        kernel.name
    ));
    let calls = if together == 1 { "single calls".to_owned() } else { format!("{together} calls together") };
    let how = if method == "graph" { ", as a graph" } else { "" };
    let sets =
        if rotation.sets() == 1 { "one set of memory".to_owned() } else { format!("{} sets of memory in turn", rotation.sets()) };
    output::note(&format!("on {}, {}; {calls}{how}, {sets}", facts.name, ready.binary.architecture));
    Ok(())
}

/// The results as the first call has left them.
fn results(kernel: &Kernel, inputs: &Inputs, set: &Resident) -> Result<Result<Vec<Tensor>, Failure>, Error> {
    let mut read = Vec::with_capacity(kernel.results.len());
    for &id in &kernel.results {
        let buffer = set.buffer(id).ok_or_else(|| Error::Bug("a result without memory".into()))?;
        let mut bytes = vec![0; buffer.bytes()];
        buffer.read(&mut bytes)?;
        read.push((id, bytes));
    }
    Ok(read.iter().map(|(id, bytes)| pipeline::tensor(kernel, inputs, *id, bytes)).collect())
}

/// Copies of the first set until all together hold so many bytes, or the device's memory is full.
fn add_sets(sets: &mut Vec<Resident>, bytes: u64) -> Result<(), Error> {
    let each = sets[0].bytes();
    while sets.len() < MOST_SETS && each > 0 && sets.len() as u64 * each < bytes {
        match sets[0].duplicate() {
            Ok(set) => sets.push(set),
            Err(Error::OutOfMemory { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Microseconds that a call takes the host, nothing waited for; few enough calls not to fill the device's queue.
fn host_time(rotation: &mut Rotation) -> Result<f64, Error> {
    const CALLS: u32 = 100;
    let begin = Instant::now();
    (0..CALLS).try_for_each(|_| rotation.launch())?;
    let host = begin.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS);
    rotation.finish().map(|()| host)
}

/// Microseconds of a call.
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(timing: &Timing) -> Spread {
        let last = timing.milliseconds.len().saturating_sub(1);
        let at =
            |share: f64| timing.milliseconds.get((last as f64 * share).round() as usize).map_or(0.0, |&time| f64::from(time) * 1e3);
        Spread { median: at(0.5), low: at(0.0), high: at(0.9) }
    }
}

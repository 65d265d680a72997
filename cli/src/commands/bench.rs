//! `gpukc bench`: a kernel's time on the GPU, inputs and results resident there, by the device's own clock.
//!
//! A first form: the same memory every time, so what fits the level-2 cache is measured from there.

use std::time::{Duration, Instant};

use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::Compiler;
use gpukc_runtime::device::Memory;
use gpukc_runtime::launch::Call;
use serde_json::json;

use crate::args::{Bench, Format};
use crate::devices::{self, Asked};
use crate::failure::Failure;
use crate::{inputs, load, output, pipeline};

/// Warming up brings the clocks to where they stay.
const WARM_UP: Duration = Duration::from_millis(100);

pub fn run(args: &Bench) -> Result<(), Failure> {
    let ordinal = match devices::parse(&args.device)? {
        Asked::Cuda(ordinal) => ordinal,
        Asked::Auto => 0,
        Asked::Cpu => return Err(Failure::usage("bench measures the GPU: --device cuda or cuda:N")),
    };
    let runs = args.runs.clamp(20, 100_000);
    let loaded = load::load(&args.file, Format::Human)?;
    let kernel = loaded.kernel(args.kernel.as_deref())?;
    let inputs = inputs::take(kernel, &args.inputs, &loaded.source)?;
    let compiler = Compiler::new(Cache::from_environment());
    devices::choose(Asked::Cuda(ordinal), &compiler)?;
    let ready = pipeline::ready(&loaded.program, kernel, &inputs, (ordinal, Memory::Pooled), &compiler, &loaded.source)?;
    let told = |error| Failure::runtime(&error, Some(&loaded.source));
    let call = Call::new(kernel, &inputs.bindings);
    let names = |id| kernel.arrays[id].name.clone();
    let resident = ready.program.upload(&call, &pipeline::bytes(kernel, &inputs), &kernel.results, &names).map_err(told)?;
    let mut prepared = ready.program.prepare(&call, &resident.arrays()).map_err(told)?;
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        prepared.time_launches(5).map_err(told)?;
    }
    let mut times = prepared.time_launches(runs).map_err(told)?;
    // Host time of a call, nothing waited for; few enough not to fill the device's queue.
    let begin = Instant::now();
    for _ in 0..100 {
        prepared.launch().map_err(told)?;
    }
    let host = begin.elapsed().as_secs_f64() * 1e6 / 100.0;
    prepared.finish().map_err(told)?;

    times.sort_by(f32::total_cmp);
    let at = |share: f64| f64::from(times[((times.len() - 1) as f64 * share).round() as usize]) * 1e3;
    let (median, low, high) = (at(0.5), at(0.0), at(0.9));
    let bytes: u64 = resident.arrays().iter().map(|(_, buffer)| buffer.bytes() as u64).sum();
    let rate = bytes as f64 / (median * 1e-6) / 1e9;
    let facts = ready.program.device().facts();
    if args.format == Format::Json {
        let row = json!({
            "kernel": kernel.name, "device": facts.name, "architecture": ready.binary.architecture, "runs": runs,
            "median_us": median, "min_us": low, "p90_us": high, "bytes": bytes, "gb_per_s": rate,
            "host_us": host, "resources": ready.program.resources().iter().map(|resources| json!({
                "entry": resources.entry, "registers": resources.registers, "local_bytes": resources.local_bytes,
            })).collect::<Vec<_>>(),
        });
        output::result(format!("{row}\n"));
        return Ok(());
    }
    output::result(format!(
        "{}: {median:.1} µs median of {runs} ({low:.1} best, {high:.1} at 90%), {rate:.0} GB/s of inputs and results, {host:.1} µs of host time a call\n",
        kernel.name
    ));
    output::note(&format!("on {}, {}", facts.name, ready.binary.architecture));
    Ok(())
}

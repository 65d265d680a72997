//! What calls from Rust cost on this machine's GPU, and that they go on for long: `cargo bench --bench calls`, or the executable.
//!
//! ```text
//! calls [cost] [memory] [streams] [--rounds N]      all three, unless some are named
//! ```
//!
//! - `cost`: the host's time for a call that writes into an existing array, with 3 and with 19 arguments, beside the driver's own
//!   `cuLaunchKernel` of the same kernel with its arguments in place; it fails if a call takes more than half a microsecond longer.
//! - `memory`: a million launches, some with new arrays; it fails if the device or the host has less memory afterwards.
//! - `streams`: ten thousand rounds of arrays that are uploaded, used on two streams in turn, and dropped meanwhile; it fails at a
//!   wrong value. This is the one to run under `compute-sanitizer`.
//!
//! `--rounds` says how many launches or rounds instead, for slow tools.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use gpukc::__private::{bits, given};
use gpukc::{DeviceArray, Error, Gpu, PinnedBuffer};

gpukc::gpu_kernel! {
    kernel scale(a: f32, x: f32[n]) -> z: f32[n] { z[i] = a * x[i]; }
    kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] { z[i] = a * x[i] + y[i]; }
    kernel others(x: f32[n], value: f32) -> i64 { count[k] (x[k] != value) }
    kernel nineteen(
        a: f32, b: f32, c: f32, d: f32, e: f32, f: f32, g: f32, h: f32, k: f32,
        x0: f32[n], x1: f32[n], x2: f32[n], x3: f32[n], x4: f32[n], x5: f32[n], x6: f32[n], x7: f32[n], x8: f32[n]
    ) -> y: f32[n] {
        y[i] = a * x0[i] + b * x1[i] + c * x2[i] + d * x3[i] + e * x4[i] + f * x5[i] + g * x6[i] + h * x7[i] + k * x8[i];
    }
}

/// A part by its name: what it does, and how many rounds it makes unless told otherwise. Gives whether all is well.
type Part = (&'static str, fn(&Gpu, usize) -> Result<bool, Error>, usize);

const PARTS: [Part; 3] = [("cost", cost, 40), ("memory", memory, 1_000_000), ("streams", streams, 10_000)];

fn main() -> ExitCode {
    let mut named = Vec::new();
    let mut rounds = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {} // from cargo
            "--rounds" => match arguments.next().and_then(|count| count.parse().ok()) {
                Some(count) => rounds = Some(count),
                None => return usage(),
            },
            name if PARTS.iter().any(|(part, ..)| *part == name) => named.push(argument),
            _ => return usage(),
        }
    }
    let run = || -> Result<bool, Error> {
        let gpu = Gpu::new(0)?;
        println!("{gpu:?}");
        let mut well = true;
        for (name, part, usual) in PARTS {
            if named.is_empty() || named.iter().any(|wanted| wanted == name) {
                well &= part(&gpu, rounds.unwrap_or(usual))?;
            }
        }
        Ok(well)
    };
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("calls [cost] [memory] [streams] [--rounds N]");
    ExitCode::from(2)
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919) % 1000) as f32 / 250.0 - 2.0).collect()
}

/// Few enough launches for the driver's queue to take all without waiting.
const BATCH: usize = 500;

/// What a call may cost the host beyond a launch, in microseconds.
const MOST: f64 = 0.5;

/// Which of the two is timed.
#[derive(Clone, Copy, PartialEq)]
enum Timed {
    Launch,
    Call,
}

/// Microseconds of a launch and of a call, by batches in turn, so that both see the same machine: the best and the middle of some.
fn timed(gpu: &Gpu, rounds: usize, mut batch: impl FnMut(Timed) -> Result<Duration, Error>) -> Result<[[f64; 2]; 2], Error> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds.max(1) {
        for (which, times) in [Timed::Launch, Timed::Call].into_iter().zip(&mut times) {
            gpu.synchronize()?;
            times.push(batch(which)?.as_secs_f64() * 1e6 / BATCH as f64);
        }
    }
    gpu.synchronize()?;
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        [times[0], times[times.len() / 2]]
    }))
}

fn batch(mut call: impl FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
    let start = Instant::now();
    for _ in 0..BATCH {
        call()?;
    }
    Ok(start.elapsed())
}

fn cost(gpu: &Gpu, rounds: usize) -> Result<bool, Error> {
    let x: Vec<DeviceArray<f32, 1>> = (0..9).map(|_| gpu.upload(&values(1000))).collect::<Result<_, _>>()?;
    let (stream, mut y) = (gpu.stream(), gpu.zeros([1000])?);
    let [x0, x1, x2, x3, x4, x5, x6, x7, x8] = std::array::from_fn(|at| &x[at]);

    let few = timed(gpu, rounds, |which| match which {
        Timed::Launch => scale::kernel().time_bare(stream, &[bits(2.0f32)], &[given(x0)], &[given(&y)], BATCH),
        Timed::Call => batch(|| scale::into(gpu, 2.0, x0, &mut y)),
    })?;
    let few = told(3, few);

    let scalars: Vec<u64> = (0..9).map(|at| bits(at as f32)).collect();
    let inputs: Vec<_> = x.iter().map(given).collect();
    let many = timed(gpu, rounds, |which| match which {
        Timed::Launch => nineteen::kernel().time_bare(stream, &scalars, &inputs, &[given(&y)], BATCH),
        Timed::Call => {
            batch(|| nineteen::into(gpu, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, x0, x1, x2, x3, x4, x5, x6, x7, x8, &mut y))
        }
    })?;
    let many = told(19, many);
    Ok(few && many)
}

fn told(arguments: usize, [launch, call]: [[f64; 2]; 2]) -> bool {
    let beyond = call[0] - launch[0];
    let judged = if beyond <= MOST { "ok" } else { "TOO MUCH" };
    println!(
        "cost: {arguments:2} arguments: a call {:.2} µs (middle {:.2}), cuLaunchKernel {:.2} µs (middle {:.2}): {beyond:+.2} µs, {judged}",
        call[0], call[1], launch[0], launch[1]
    );
    beyond <= MOST
}

/// Bytes that this process has in memory, in pages of the system.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

/// Pages that the host may have in use for reasons of its own: 8 MiB.
const PAGES: u64 = 2048;

fn memory(gpu: &Gpu, rounds: usize) -> Result<bool, Error> {
    let x = gpu.upload(&values(10_000))?;
    let mut z = gpu.zeros([10_000])?;
    let mut run = |count: usize| -> Result<(), Error> {
        for round in 0..count {
            saxpy::into(gpu, 1.0, &x, &x, &mut z)?;
            if round % 10 == 0 {
                drop(scale(gpu, 2.0, &x)?);
            }
            if round % 1000 == 0 {
                gpu.synchronize()?;
            }
        }
        gpu.synchronize()
    };
    run(10_000)?;
    let (device, host) = (gpu.memory(), resident());
    run(rounds)?;
    let (device_after, host_after) = (gpu.memory(), resident());
    let free = |memory: Option<(u64, u64)>| memory.map_or(0, |(free, _)| free);
    let well = free(device_after) >= free(device) && host_after <= host + PAGES;
    println!(
        "memory: after {rounds} launches, free on the device {} bytes, before {}; pages of the host {host_after}, before {host}: {}",
        free(device_after),
        free(device),
        if well { "ok" } else { "IT GROWS" }
    );
    Ok(well)
}

fn streams(gpu: &Gpu, rounds: usize) -> Result<bool, Error> {
    const LENGTH: usize = 5000;
    let (a, b) = (gpu.new_stream()?, gpu.new_stream()?);
    let ones = gpu.upload(&[1.0f32; LENGTH])?;
    let mut buffer = PinnedBuffer::zeros(gpu, LENGTH)?;
    let mut kept = gpu.zeros([LENGTH])?;
    let (mut wrong, mut counts) = (0, Vec::new());
    for round in 0..rounds {
        let value = (round % 1000) as f32;
        buffer.as_mut_slice().fill(value);
        let mut x = gpu.zeros([LENGTH])?;
        let copy = buffer.copy_to(&b, &mut x)?;
        let y = saxpy::on(&a, 2.0, &x, &ones)?; // 2 v + 1, after the copy
        let z = saxpy::on(&b, 1.0, &y, &x)?; // 3 v + 1
        saxpy::on_into(&a, 1.0, &z, &ones, &mut kept)?; // 3 v + 2, after its last reader
        drop((x, y));
        counts.push(others::on(&b, &kept, 3.0 * value + 2.0)?);
        drop(z);
        if round % 5 == 0 {
            kept = gpu.upload(&values(LENGTH))?;
        }
        // Waited for now and then only, so that the streams run on.
        if counts.len() == 100 || round + 1 == rounds {
            wrong += sum(counts.drain(..))?;
        }
        buffer = copy.wait()?;
    }
    gpu.synchronize()?;
    println!("streams: {rounds} rounds on two streams, {wrong} wrong values: {}", if wrong == 0 { "ok" } else { "WRONG" });
    Ok(wrong == 0)
}

fn sum(counts: impl Iterator<Item = DeviceArray<i64, 0>>) -> Result<i64, Error> {
    counts.map(|count| count.value()).sum()
}

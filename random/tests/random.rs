//! Random programs: the evaluator against itself over threads, lanes and rewritings, and against the emitted text on the CPU.
//!
//! A plain run takes the seeds from 1 on, as many as are done within a minute. `GPUKC_RANDOM="seed=1 count=20000 seconds=3600"` takes
//! others; `cargo run --release -p gpukc-random --example hunt` shrinks what is found.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gpukc_dsl::program::Kernel;
use gpukc_emulate::{Call, Emulator, Error, Mode};
use gpukc_random::generate;
use gpukc_random::trial::{Ended, Trial, trial};
use gpukc_verify::Text;
use gpukc_verify::compare::{self, Evaluated};
use gpukc_verify::device::EMULATED;
use gpukc_verify::draw::{self, Wish};

fn setting(name: &str, default: u64) -> u64 {
    let all = std::env::var("GPUKC_RANDOM").unwrap_or_default();
    let value = all.split_whitespace().filter_map(|part| part.split_once('=')).find(|(key, _)| *key == name);
    value.map_or(default, |(_, value)| value.parse().expect("GPUKC_RANDOM: a number"))
}

fn wishes() -> [Wish; 2] {
    [Wish { work: 30_000, wild: true, extent: None }, Wish { work: 6_000, wild: false, extent: None }]
}

/// Seeds for all cores, some at a time, until they or the time are used up; how many were taken.
fn each(count: u64, seconds: u64, at_once: u64, work: impl Fn(&[u64]) + Sync) -> u64 {
    let (first, count) = (setting("seed", 1), setting("count", count));
    let limit = Duration::from_secs(setting("seconds", seconds));
    let start = Instant::now();
    let taken = AtomicU64::new(0);
    let worker = || {
        while start.elapsed() < limit {
            let at = taken.fetch_add(at_once, Ordering::Relaxed);
            if at >= count {
                break;
            }
            let seeds: Vec<u64> = (first + at..first + count.min(at + at_once)).collect();
            work(&seeds);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            // Programs nest.
            std::thread::Builder::new().stack_size(1 << 28).spawn_scoped(scope, worker).expect("a thread");
        }
    });
    taken.into_inner().min(count)
}

#[test]
fn evaluator_agrees_with_itself() {
    let rejected = AtomicU64::new(0);
    let faults = Mutex::new(Vec::new());
    let programs = each(4000, 20, 16, |seeds| {
        for &seed in seeds {
            match trial(&generate(seed, 4), seed, &wishes()) {
                Ok(_) | Err(Ended::Uncalled) => {}
                Err(Ended::Rejected(_)) => drop(rejected.fetch_add(1, Ordering::Relaxed)),
                Err(Ended::Fault(what, _)) => faults.lock().expect("a lock").push(format!("seed {seed}: {what}")),
            }
        }
    });
    let (rejected, faults) = (rejected.into_inner(), faults.into_inner().expect("a lock"));
    eprintln!("{programs} programs, {rejected} of them rejected");
    assert!(rejected * 10 <= programs, "{rejected} programs of {programs} are rejected");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn texts_agree_with_the_evaluator() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("random");
    let emulator = Emulator::with_mode(folder, Mode::Plain).expect("an emulator");
    let faults = Mutex::new(Vec::new());
    let programs = each(200, 60, 10, |seeds| {
        let trials: Vec<(u64, Trial)> =
            seeds.iter().filter_map(|&seed| Some((seed, trial(&generate(seed, 4), seed, &wishes()).ok()?))).collect();
        faults.lock().expect("a lock").extend(emulate(&emulator, &trials));
    });
    let faults = faults.into_inner().expect("a lock");
    eprintln!("{programs} programs");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Compares trials with their emulated texts.
fn emulate(emulator: &Emulator, trials: &[(u64, Trial)]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut all = Vec::new();
    for (seed, trial) in trials {
        let kernel = trial.kernel().expect("a kernel");
        for (call, expected) in &trial.calls {
            match trial.texts(call, &EMULATED) {
                Ok((texts, _)) => all.extend(texts.into_iter().map(|text| (*seed, kernel, call, expected, text))),
                Err(error) => faults.push(format!("seed {seed}: {error}")),
            }
        }
    }
    let calls: Vec<Call> = all.iter().map(|(seed, kernel, call, _, text)| emulated_call(text, kernel, call, *seed % 4)).collect();
    for ((seed, kernel, call, expected, text), found) in all.iter().zip(emulator.run_many(&calls)) {
        if let Err(error) = same(kernel, expected, found) {
            faults.push(format!("seed {seed}, the {} text: {error} [{}]", text.what, call.text(kernel)));
        }
    }
    faults
}

fn emulated_call<'a>(text: &'a Text, kernel: &'a Kernel, call: &'a draw::Call, order: u64) -> Call<'a> {
    let inputs = call.arrays.iter().map(|array| array.bytes()).collect();
    Call { text: &text.cuda, kernel, bindings: &call.bindings, inputs, in_place: None, aligned: text.facts.aligned, order }
}

fn same(kernel: &Kernel, expected: &Evaluated, found: Result<Vec<Vec<u8>>, Error>) -> Result<(), String> {
    match (expected, found) {
        (Ok(expected), Ok(found)) => compare::same_bytes(kernel, expected, &found.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        // Of several indices any may be reported.
        (Err(_), Err(Error::Index { .. })) => Ok(()),
        (Err(expected), Ok(_)) => Err(format!("gives results; the evaluator: {expected}")),
        (_, Err(error)) => Err(error.to_string()),
    }
}

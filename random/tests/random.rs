//! Random programs: the evaluator against itself over threads, lanes and rewritings, and against the emitted text on the CPU.
//!
//! A plain run takes the seeds from 1 on for about a minute. `GPUKC_RANDOM="seed=1 count=20000 seconds=3600 emulate=0"` takes
//! others; `cargo run --release -p gpukc-random --example hunt` shrinks what is found.

use std::path::Path;
use std::time::{Duration, Instant};

use gpukc_codegen::target::Target;
use gpukc_dsl::program::Kernel;
use gpukc_emulate::{Call, Emulator, Error, Mode};
use gpukc_random::generate;
use gpukc_random::trial::{Ended, Trial, trial};
use gpukc_verify::Text;
use gpukc_verify::compare::{self, Evaluated};
use gpukc_verify::draw::{self, Wish};

const TARGET: Target = Target { capability: 80, specific: false };

fn setting(name: &str, default: u64) -> u64 {
    let all = std::env::var("GPUKC_RANDOM").unwrap_or_default();
    let value = all.split_whitespace().filter_map(|part| part.split_once('=')).find(|(key, _)| *key == name);
    value.map_or(default, |(_, value)| value.parse().expect("GPUKC_RANDOM: a number"))
}

fn wishes() -> [Wish; 2] {
    [Wish { work: 30_000, wild: true, extent: None }, Wish { work: 6_000, wild: false, extent: None }]
}

fn emulator(name: &str) -> Emulator {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    Emulator::with_mode(folder, Mode::Address).expect("an emulator")
}

#[test]
fn same_bits() {
    let first = setting("seed", 1);
    let count = setting("count", 400);
    let limit = Duration::from_secs(setting("seconds", 60));
    let emulated = setting("emulate", 24);
    let start = Instant::now();
    let (mut rejected, mut checked, mut faults, mut trials) = (0, 0, Vec::new(), Vec::new());
    for seed in first..first + count {
        if start.elapsed() > limit / 2 {
            break;
        }
        match trial(&generate(seed, 4), seed, &wishes()) {
            Ok(found) => {
                checked += 1;
                trials.push((seed, found));
            }
            Err(Ended::Rejected(_)) => rejected += 1,
            Err(Ended::Uncalled) => checked += 1,
            Err(Ended::Fault(what, _)) => faults.push(format!("seed {seed}: {what}")),
        }
    }
    let emulator = emulator("random");
    let mut compared = 0;
    for some in trials.chunks(8).take((emulated / 8) as usize) {
        if start.elapsed() > limit {
            break;
        }
        compared += some.len();
        faults.extend(emulate(&emulator, some));
    }
    eprintln!(
        "{checked} programs checked, {rejected} rejected, {compared} of them emulated, {} s; {} faults",
        start.elapsed().as_secs(),
        faults.len()
    );
    assert!(rejected * 10 <= checked + rejected, "{rejected} programs of {} are rejected", checked + rejected);
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Compares trials with their emulated texts.
fn emulate(emulator: &Emulator, trials: &[(u64, Trial)]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut all = Vec::new();
    for (seed, trial) in trials {
        let kernel = trial.kernel().expect("a kernel");
        for (call, expected) in &trial.calls {
            match trial.texts(call, TARGET) {
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
    Call { text: &text.cuda, kernel, bindings: &call.bindings, inputs, aligned: text.facts.aligned, order }
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

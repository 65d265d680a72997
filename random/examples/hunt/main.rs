//! Hunts for faults with random programs.
//!
//! ```text
//! hunt --seed 1 --count 20000 --against passes|emulate|gpu [--size 4] [--work 40000] [--seconds 600] [--calls 2] [--print]
//! ```
//!
//! Prints each fault with its seed and a shrunk program, and at the end how many programs were compared with what.
//! Exit status 1 if there was a fault.

mod device;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use device::{Device, Job};
use gpukc_random::draw::Wish;
use gpukc_random::trial::{Ended, Trial, trial};
use gpukc_random::{compare, generate, shrink, tree};

struct Options {
    seed: u64,
    count: u64,
    against: String,
    size: usize,
    work: i64,
    seconds: u64,
    calls: usize,
    print: bool,
}

fn main() -> ExitCode {
    let options = options();
    // Programs nest.
    let work = std::thread::Builder::new().stack_size(1 << 28).spawn(move || run(&options)).expect("a thread");
    if work.join().expect("no panic of the hunt itself") == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, default: u64| text(name).map_or(default, |text| text.parse().expect("a number"));
    Options {
        seed: number("--seed", 1),
        count: number("--count", 1000),
        against: text("--against").unwrap_or_else(|| "passes".to_owned()),
        size: number("--size", 4) as usize,
        work: number("--work", 40_000) as i64,
        seconds: number("--seconds", 600),
        calls: number("--calls", 2) as usize,
        print: arguments.iter().any(|a| a == "--print"),
    }
}

fn wishes(options: &Options) -> Vec<Wish> {
    (0..options.calls).map(|at| Wish { work: options.work >> (2 * at), wild: at != 1 }).collect()
}

#[derive(Default)]
struct Tally {
    programs: u64,
    checked: u64,
    rejected: BTreeMap<String, u64>,
    uncalled: u64,
    limits: usize,
    calls: usize,
    errors: usize,
    texts: usize,
    runs: usize,
    faults: usize,
}

fn run(options: &Options) -> usize {
    let start = Instant::now();
    let device = device::open(&options.against);
    let mut tally = Tally::default();
    let mut seed = options.seed;
    let end = options.seed + options.count;
    while seed < end && start.elapsed().as_secs() < options.seconds {
        let mut batch = Vec::new();
        while batch.len() < 48 && seed < end {
            let program = generate(seed, options.size);
            if options.print {
                println!("// {seed}\n{program}");
            }
            tally.programs += 1;
            match trial(&program, seed, &wishes(options)) {
                Ok(trial) => {
                    tally.checked += 1;
                    tally.calls += trial.calls.len();
                    tally.errors += trial.calls.iter().filter(|(_, results)| results.is_err()).count();
                    batch.push((seed, program, trial));
                }
                Err(Ended::Rejected(texts)) => {
                    let code = texts.first().map_or(String::new(), |text| text.chars().take(90).collect());
                    let first = !tally.rejected.contains_key(&code);
                    *tally.rejected.entry(code).or_default() += 1;
                    if options.print && first {
                        println!("// {seed} rejected: {texts:?}");
                    }
                }
                Err(Ended::Uncalled) => {
                    tally.checked += 1;
                    tally.uncalled += 1;
                }
                Err(Ended::Fault(what)) => {
                    tally.faults += 1;
                    println!("==== fault, seed {seed}: {what}");
                    let kind = kind(&what);
                    let persists = |some: &[tree::Program]| {
                        some.iter()
                            .position(|p| matches!(trial(p, seed, &wishes(options)), Err(Ended::Fault(w)) if kind == self::kind(&w)))
                    };
                    report(&shrink::shrink(&program, 200, persists), seed, options, device.as_deref());
                }
            }
            seed += 1;
        }
        let Some(device) = &device else { continue };
        for (at, what) in differences(&batch.iter().map(|b| &b.2).collect::<Vec<_>>(), device.as_ref(), &mut tally) {
            let (seed, program, _) = &batch[at];
            tally.faults += 1;
            println!("==== fault, seed {seed}: {what}");
            if tally.faults > 30 {
                continue;
            }
            let kind = kind(&what);
            let persists = |some: &[tree::Program]| {
                let mut places = Vec::new();
                let mut trials = Vec::new();
                for (at, program) in some.iter().enumerate() {
                    if let Ok(trial) = trial(program, *seed, &wishes(options)) {
                        places.push(at);
                        trials.push(trial);
                    }
                }
                let found = differences(&trials.iter().collect::<Vec<_>>(), device.as_ref(), &mut Tally::default());
                found.into_iter().find(|(_, what)| kind == self::kind(what)).map(|(at, _)| places[at])
            };
            report(&shrink::shrink(program, 40, persists), *seed, options, Some(device.as_ref()));
        }
        if tally.programs % 480 < 48 {
            eprintln!("{} programs, {} faults, {} s", tally.programs, tally.faults, start.elapsed().as_secs());
        }
    }
    let rejected: u64 = tally.rejected.values().sum();
    println!(
        "{} programs from seed {}: {} checked, {rejected} rejected, {} without a call; {} calls of the evaluator ({} report an index), \
         each against threads, lanes and rewritings; {} texts, {} runs on {}, {} texts beyond limits; {} faults; {} s",
        tally.programs,
        options.seed,
        tally.checked,
        tally.uncalled,
        tally.calls,
        tally.errors,
        tally.texts,
        tally.runs,
        options.against,
        tally.limits,
        tally.faults,
        start.elapsed().as_secs()
    );
    let mut reasons: Vec<_> = tally.rejected.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (reason, count) in reasons.into_iter().take(12) {
        println!("  rejected {count}: {reason}");
    }
    tally.faults
}

/// A message without its numbers, so that shrinking stays with one fault.
fn kind(what: &str) -> String {
    let what = what.split_once(": ").map_or(what, |(_, rest)| rest);
    let word = what.split_whitespace().next().unwrap_or("");
    format!(
        "{word} {}",
        ["differ)", "compile", "fault:", "panic", "not supported", "internal", "results", "in time"]
            .iter()
            .filter(|w| what.contains(**w))
            .copied()
            .collect::<String>()
    )
}

/// Compares trials with a device; the places of those that differ.
fn differences(trials: &[&Trial], device: &dyn Device, tally: &mut Tally) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    let mut found = Vec::new();
    for (at, trial) in trials.iter().enumerate() {
        for (number, (call, _)) in trial.calls.iter().enumerate() {
            match trial.texts(call, device.target()) {
                Err(error) => found.push((at, format!("text: {error}"))),
                Ok((texts, limits)) => {
                    tally.limits += limits;
                    tally.texts += texts.len();
                    all.extend(texts.into_iter().map(|text| (at, number, text)));
                }
            }
        }
    }
    let jobs: Vec<Job> = all
        .iter()
        .filter_map(|(at, number, text)| {
            let call = &trials[*at].calls[*number].0;
            Some(Job { text, kernel: trials[*at].kernel()?, call })
        })
        .collect();
    tally.runs += jobs.len();
    let results = device.run(&jobs);
    for ((at, number, text), result) in all.iter().zip(results) {
        let trial = trials[*at];
        let (call, expected) = &trial.calls[*number];
        let Some(kernel) = trial.kernel() else { continue };
        let outcome = match (expected, result) {
            (Ok(expected), Ok(found)) => {
                let found: Vec<&[u8]> = found.iter().map(Vec::as_slice).collect();
                compare::same_bytes(kernel, expected, &found)
            }
            (Err(_), Err(device::Problem::Index)) => Ok(()),
            (Err(expected), Ok(_)) => Err(format!("gives results; the evaluator: {expected}")),
            (Ok(_), Err(device::Problem::Index)) => Err("reports an index; the evaluator gives results".to_owned()),
            (_, Err(device::Problem::Other(error))) => Err(error),
        };
        if let Err(error) = outcome {
            if !found.iter().any(|(other, _)| other == at) {
                found.push((*at, format!("the {} text: {error} [{}]", text.what, call.text(kernel))));
            }
        }
    }
    found
}

/// Prints a shrunk program and what is wrong with it.
fn report(program: &tree::Program, seed: u64, options: &Options, device: Option<&dyn Device>) {
    let what = match trial(program, seed, &wishes(options)) {
        Err(Ended::Fault(what)) => what,
        Err(other) => format!("{other:?}"),
        Ok(trial) => {
            device.map_or(Vec::new(), |d| differences(&[&trial], d, &mut Tally::default())).pop().map_or("?".to_owned(), |d| d.1)
        }
    };
    println!("---- {what}\n{program}");
}

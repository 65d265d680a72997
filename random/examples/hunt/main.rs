//! Hunts for faults with random programs.
//!
//! ```text
//! hunt --seed 1 --count 20000 --against passes|emulate|emulate-plain|emulate-thread|gpu [--jobs 16]
//!      [--size 4] [--work 40000] [--seconds 600] [--calls 2] [--print] [--quick]
//! ```
//!
//! Prints each fault with its seed and a shrunk program (`--quick`: as it was found), and at the end how many programs were compared
//! with what. Exit status 1 if there was a fault. The emulator needs a C++ compiler on the machine, nothing else.

mod against;
mod device;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use against::{Compared, differences};
use gpukc_random::shrink::{Specimen, shrink};
use gpukc_random::trial::{Ended, Trial, evaluate, trial};
use gpukc_random::{generate, tree};
use gpukc_verify::device::Device;
use gpukc_verify::draw::Wish;

/// Programs whose texts are compiled together.
const BATCH: u64 = 24;
/// Shrinking takes long; so many faults are enough to look at.
const SHRUNK: usize = 30;

struct Options {
    seed: u64,
    count: u64,
    against: String,
    jobs: usize,
    size: usize,
    work: i64,
    seconds: u64,
    calls: usize,
    print: bool,
    quick: bool,
}

fn main() -> ExitCode {
    let options = options();
    let start = Instant::now();
    let next = AtomicU64::new(options.seed);
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            // Programs nest.
            let worker = std::thread::Builder::new().stack_size(1 << 28);
            worker.spawn_scoped(scope, || work(&options, start, &next, &tally)).expect("a thread");
        }
    });
    let tally = tally.into_inner().expect("no panic of the hunt itself");
    tally.print(&options, start.elapsed().as_secs());
    if tally.faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, default: u64| text(name).map_or(default, |text| text.parse().expect("a number"));
    let flag = |name: &str| arguments.iter().any(|a| a == name);
    Options {
        seed: number("--seed", 1),
        count: number("--count", 1000),
        against: text("--against").unwrap_or_else(|| "passes".to_owned()),
        jobs: number("--jobs", 1).max(1) as usize,
        size: number("--size", 4) as usize,
        work: number("--work", 40_000) as i64,
        seconds: number("--seconds", 600),
        calls: number("--calls", 2) as usize,
        print: flag("--print"),
        quick: flag("--quick"),
    }
}

impl Options {
    /// What is asked of the calls of a program: some programs get large ones, which fill tiles.
    fn wishes(&self, seed: u64) -> Vec<Wish> {
        let work = if seed.is_multiple_of(8) { 12 * self.work } else { self.work };
        (0..self.calls).map(|at| Wish { work: work >> (2 * at), wild: at != 1, extent: None }).collect()
    }
}

#[derive(Default)]
struct Tally {
    programs: u64,
    checked: u64,
    rejected: BTreeMap<String, u64>,
    uncalled: u64,
    calls: usize,
    errors: usize,
    compared: Compared,
    faults: usize,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.programs += other.programs;
        self.checked += other.checked;
        other.rejected.into_iter().for_each(|(reason, count)| *self.rejected.entry(reason).or_default() += count);
        self.uncalled += other.uncalled;
        self.calls += other.calls;
        self.errors += other.errors;
        self.compared.texts += other.compared.texts;
        self.compared.runs += other.compared.runs;
        self.compared.limits += other.compared.limits;
        self.faults += other.faults;
    }

    fn print(&self, options: &Options, seconds: u64) {
        let Tally { programs, checked, uncalled, calls, errors, compared, faults, .. } = self;
        let Compared { texts, runs, limits } = compared;
        let rejected: u64 = self.rejected.values().sum();
        println!(
            "{programs} programs from seed {}: {checked} checked, {rejected} rejected, {uncalled} without a call; {calls} calls of the \
             evaluator ({errors} report an index), each against threads, lanes and rewritings; {texts} texts, {runs} runs on {}, \
             {limits} calls with texts beyond limits; {faults} faults; {seconds} s",
            options.seed, options.against
        );
        let mut reasons: Vec<_> = self.rejected.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons.into_iter().take(12) {
            println!("  rejected {count}: {reason}");
        }
    }
}

/// Takes seeds until there are no more, or no more time.
fn work(options: &Options, start: Instant, next: &AtomicU64, all: &Mutex<Tally>) {
    let device = device::open(&options.against);
    let end = options.seed + options.count;
    loop {
        let first = next.fetch_add(BATCH, Ordering::Relaxed);
        if first >= end || start.elapsed().as_secs() >= options.seconds {
            return;
        }
        let mut tally = Tally::default();
        let mut batch = Vec::new();
        for seed in first..end.min(first + BATCH) {
            batch.extend(one(options, seed, device.as_deref(), &mut tally));
        }
        if let Some(device) = device.as_deref() {
            let trials: Vec<&Trial> = batch.iter().map(|(_, _, trial)| trial).collect();
            for difference in differences(&trials, device, None, &mut tally.compared) {
                let (seed, tree, trial) = &batch[difference.at];
                let specimen = Specimen { tree: tree.clone(), program: trial.program.clone(), call: difference.call };
                let before = all.lock().expect("a lock").faults + tally.faults;
                tally.faults += 1;
                let fault = Fault { what: difference.what, text: Some(difference.text) };
                report(options, *seed, fault, specimen, Some(device), before);
            }
            device.forget();
        }
        let mut all = all.lock().expect("a lock");
        all.add(tally);
        if all.programs % 960 < BATCH {
            eprintln!("{} programs, {} faults, {} s", all.programs, all.faults, start.elapsed().as_secs());
        }
    }
}

/// The program of a seed on trial.
fn one(options: &Options, seed: u64, device: Option<&dyn Device>, tally: &mut Tally) -> Option<(u64, tree::Program, Trial)> {
    let tree = generate(seed, options.size);
    if options.print {
        println!("// {seed}\n{tree}");
    }
    tally.programs += 1;
    match trial(&tree, seed, &options.wishes(seed)) {
        Ok(trial) => {
            tally.checked += 1;
            tally.calls += trial.calls.len();
            tally.errors += trial.calls.iter().filter(|(_, results)| results.is_err()).count();
            return Some((seed, tree, trial));
        }
        Err(Ended::Rejected(texts)) => {
            let reason = texts.first().map_or(String::new(), |text| text.chars().take(90).collect());
            if options.print {
                println!("// {seed} rejected: {texts:?}");
            }
            *tally.rejected.entry(reason).or_default() += 1;
        }
        Err(Ended::Uncalled) => {
            tally.checked += 1;
            tally.uncalled += 1;
        }
        Err(Ended::Fault(what, None)) => {
            tally.faults += 1;
            println!("==== fault, seed {seed}: {what}\n{tree}");
        }
        Err(Ended::Fault(what, Some(place))) => {
            tally.faults += 1;
            let (program, call) = *place;
            report(options, seed, Fault { what, text: None }, Specimen { tree, program, call }, device, tally.faults);
        }
    }
    None
}

/// What is wrong, and in which text, if it is one.
struct Fault {
    what: String,
    text: Option<String>,
}

impl Fault {
    /// The message without its numbers, so that shrinking stays with one fault.
    fn kind(&self) -> String {
        let what = self.what.split_once(": ").map_or(self.what.as_str(), |(_, rest)| rest);
        let word = what.split_whitespace().next().unwrap_or("");
        let words =
            ["differ)", "compile", "fault:", "panic", "not supported", "internal", "results", "in time", "after the", "evaluator,"];
        words.iter().filter(|word| self.what.contains(**word)).fold(word.to_owned(), |kind, word| kind + " " + word)
    }
}

/// What is wrong with which specimens.
fn faults(specimens: &[Specimen], device: Option<&dyn Device>, text: Option<&str>) -> Vec<(usize, Fault)> {
    let mut found = Vec::new();
    let mut trials = Vec::new();
    for (at, specimen) in specimens.iter().enumerate() {
        match evaluate(&specimen.program, &specimen.call) {
            Err(what) => found.push((at, Fault { what, text: None })),
            Ok(results) => {
                trials.push((at, Trial { program: specimen.program.clone(), calls: vec![(specimen.call.clone(), results)] }))
            }
        }
    }
    if let (Some(device), Some(text)) = (device, text) {
        let all: Vec<&Trial> = trials.iter().map(|(_, trial)| trial).collect();
        let differences = differences(&all, device, Some(text), &mut Compared::default());
        found.extend(differences.into_iter().map(|d| (trials[d.at].0, Fault { what: d.what, text: Some(d.text) })));
    }
    found
}

/// Prints a fault and a shrunk program with it. In one piece: others print as well.
fn report(options: &Options, seed: u64, fault: Fault, specimen: Specimen, device: Option<&dyn Device>, before: usize) {
    let mut out = format!("==== fault, seed {seed}: {}\n", fault.what);
    if options.quick || before > SHRUNK {
        let _ = writeln!(out, "{}", specimen.tree);
    } else {
        let kind = fault.kind();
        let persists = |some: &[Specimen]| {
            let all = faults(some, device, fault.text.as_deref());
            all.into_iter().find(|(_, other)| other.kind() == kind).map(|(at, _)| at)
        };
        let small = shrink(specimen, if fault.text.is_some() { 60 } else { 400 }, persists);
        let what =
            faults(std::slice::from_ref(&small), device, fault.text.as_deref()).pop().map_or("?".to_owned(), |(_, fault)| fault.what);
        let _ = writeln!(out, "---- {what}\n{}", small.tree);
        if let Some(kernel) = small.program.kernels.last() {
            let _ = write!(out, "{}", small.call.data(kernel));
        }
    }
    println!("{out}");
}

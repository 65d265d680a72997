//! Processes that fill, read, list and clear one small cache at once, while they are killed at random and, in every other
//! round, entries are damaged. Whoever finds an entry must find the right one; what is left must be sound and within bounds.
//!
//! `cargo test -p gpukc-runtime --test stress` takes seconds; `-- --seconds 3600` goes on for an hour.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use gpukc_runtime::cache::{Cache, Entry, Key};
use gpukc_runtime::nvrtc::Form;

const PROCESSES: usize = 32;
const ROUNDS: u64 = 50;
const ROUND: Duration = Duration::from_millis(40);
const KEYS: u64 = 40;
/// Holds about half of the entries.
const BOUND: u64 = 400_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |flag: &str| arguments.iter().position(|argument| argument == flag).map(|at| &arguments[at + 1..]);
    if let Some([folder, seed, damage]) = after("--worker") {
        return worker(folder.as_ref(), seed.parse().unwrap(), damage == "true");
    }
    let seconds = after("--seconds").map(|rest| rest.first().expect("--seconds N").parse().expect("--seconds N"));
    let start = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x9e37_79b9);
    let (mut rounds, mut done) = (0, Done::default());
    while seconds.map_or(rounds < ROUNDS, |seconds| start.elapsed() < Duration::from_secs(seconds)) {
        round(folder.path(), rounds, &mut random, &mut done);
        done.torn += check(folder.path());
        rounds += 1;
    }
    let took = start.elapsed().as_secs_f64();
    println!("stress: {rounds} rounds of {PROCESSES} processes in {took:.1} s, {done:?}: every entry found was right");
    // That there was something to survive.
    assert!(done.killed >= rounds && done.torn > 0 && done.hits >= rounds && done.puts >= rounds, "{done:?}");
    ExitCode::SUCCESS
}

/// What processes did, those that were not killed.
#[derive(Debug, Default)]
struct Done {
    killed: u64,
    /// Files that the killed were writing.
    torn: u64,
    hits: u64,
    puts: u64,
}

/// Lets processes loose, kills half of them at random moments, and looks at how the others ended.
fn round(folder: &Path, number: u64, random: &mut Random, done: &mut Done) {
    let damage = number % 2 == 1;
    let left = AtomicUsize::new(PROCESSES);
    let outputs: Vec<(bool, Output)> = std::thread::scope(|scope| {
        // Each has a thread that waits for it, so that kills come in time however busy the machine is.
        let keepers: Vec<_> = (0..PROCESSES)
            .map(|at| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                let seed = number * PROCESSES as u64 + at as u64 + 1;
                command.arg("--worker").arg(folder).args([seed.to_string(), damage.to_string()]);
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let deadline = (at % 2 == 0).then(|| Duration::from_micros(random.below(2 * ROUND.as_micros() as u64)));
                let left = &left;
                scope.spawn(move || {
                    let mut child = command.spawn().unwrap();
                    if let Some(deadline) = deadline {
                        std::thread::sleep(deadline);
                        child.kill().unwrap();
                    }
                    let output = child.wait_with_output().unwrap();
                    left.fetch_sub(1, Ordering::Relaxed);
                    (deadline.is_some(), output)
                })
            })
            .collect();
        while damage && left.load(Ordering::Relaxed) > 0 {
            hurt(folder, random);
            std::thread::sleep(Duration::from_millis(3));
        }
        keepers.into_iter().map(|keeper| keeper.join().unwrap()).collect()
    });
    for (marked, output) in outputs {
        // One that has ended before its kill is judged by its own status.
        let killed = marked && output.status.code().is_none();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || killed, "round {number}: {}: {errors}", output.status);
        done.killed += u64::from(killed);
        let text = String::from_utf8_lossy(&output.stdout);
        for (hits, puts) in text.lines().filter_map(|line| line.split_once(' ')) {
            done.hits += hits.parse::<u64>().unwrap_or(0);
            done.puts += puts.parse::<u64>().unwrap_or(0);
        }
    }
}

/// Cuts an entry off, flips a bit of it, or replaces it by another, in place, as no sound writer would.
fn hurt(folder: &Path, random: &mut Random) {
    let files: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    if files.is_empty() {
        return;
    }
    let mut any = || &files[random.below(files.len() as u64) as usize];
    let (path, other) = (any(), any());
    // Each may be gone by now.
    match random.below(3) {
        0 => drop(fs::File::options().write(true).open(path).and_then(|file| file.set_len(random.below(2000)))),
        1 => {
            if let Ok(mut bytes) = fs::read(path)
                && !bytes.is_empty()
            {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
                let _ = fs::write(path, bytes);
            }
        }
        _ => drop(fs::copy(other, path)),
    }
}

/// After a round: no temporary file outlives its time, the bound holds, and what is there is sound once it has been read. Gives
/// how many temporary files there were.
fn check(folder: &Path) -> u64 {
    let mut torn = 0;
    let mut cache = Cache::at(folder);
    cache.bound = BOUND;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_name().to_str().unwrap().starts_with(".gkc-tmp-") {
            let file = fs::File::options().append(true).open(entry.path()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
            torn += 1;
        }
    }
    // Reading drops what was damaged.
    for number in 0..KEYS {
        if let Some(found) = cache.get(&key(number)).entry {
            assert_eq!(found, entry(number));
        }
    }
    assert_eq!(cache.put(&key(0), &entry(0)), None);
    let list = cache.list(true).unwrap();
    assert!(list.iter().all(|listed| listed.notes.is_ok()), "{list:?}");
    assert!(list.iter().map(|listed| listed.bytes).sum::<u64>() <= BOUND);
    assert_eq!(fs::read_dir(folder).unwrap().count(), list.len(), "something else than entries is left");
    torn
}

/// Two threads that use the cache until the time is over.
fn worker(folder: &Path, seed: u64, damage: bool) -> ExitCode {
    let mut cache = Cache::at(folder);
    cache.bound = BOUND;
    let until = Instant::now() + ROUND * 2;
    let work = |seed: u64| {
        let (mut hits, mut puts) = (0, 0);
        let mut random = Random(seed);
        while Instant::now() < until {
            let number = random.below(KEYS);
            let lookup = cache.get(&key(number));
            assert!(damage || lookup.warning.is_none(), "{:?}", lookup.warning);
            match lookup.entry {
                Some(found) => {
                    assert_eq!(found, entry(number));
                    hits += 1;
                }
                None => {
                    assert_eq!(cache.put(&key(number), &entry(number)), None);
                    puts += 1;
                }
            }
            match random.below(200) {
                0 => drop(cache.clear().unwrap()),
                1..4 => drop(cache.list(true).unwrap()),
                _ => {}
            }
        }
        println!("{hits} {puts}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(seed.wrapping_mul(0x1234_5677)));
        work(seed.wrapping_mul(0x7654_3211));
    });
    ExitCode::SUCCESS
}

fn key(number: u64) -> Key {
    Key::of(&[b"stress", &number.to_le_bytes()])
}

fn entry(number: u64) -> Entry {
    let mut random = Random(number + 1);
    let image = (0..1000 + 900 * number).map(|_| random.next() as u8).collect();
    Entry { form: if number.is_multiple_of(2) { Form::Cubin } else { Form::Ptx }, notes: format!("k{number} sm_90\nlog"), image }
}

/// Xorshift; its state is never zero.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}

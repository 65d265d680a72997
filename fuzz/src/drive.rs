//! Running many inputs: each job a process, so that even one that overflows its stack or hangs costs no other.

use std::io::{BufRead, BufReader, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, process, thread};

use crate::shrink::shrink;
use crate::targets::Target;
use crate::text::Corpus;

/// The stack that the command gives the compiler.
const STACK: usize = 256 << 20;
/// An input may take this long; the machine may be busy.
const LONGEST: Duration = Duration::from_secs(30);
/// How many inputs a job goes between two words to its parent.
const STEP: u64 = 256;
/// The status of a job that an input held up.
const HUNG: i32 = 3;

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What reads.
    pub target: Target,
    /// The number of the first input.
    pub first: u64,
    /// How many inputs.
    pub count: u64,
    /// How many processes.
    pub jobs: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Numbers of the inputs that failed.
    pub failures: Vec<u64>,
    /// The longest that one input took, and its number.
    pub slowest: (Duration, u64),
}

/// Runs a plan in processes of this program. Failing inputs, made smaller, are written to `folder`.
pub fn run(plan: Plan, folder: &Path, mut progress: impl FnMut(u64)) -> io::Result<Outcome> {
    let mut jobs = Vec::new();
    for job in 0..plan.jobs {
        // Neighbouring inputs to one job; the last one gets what is left.
        let share = plan.count.div_ceil(plan.jobs);
        let first = plan.first + (job * share).min(plan.count);
        let end = plan.first + ((job + 1) * share).min(plan.count);
        jobs.push(Job::start(plan.target, first, end, folder)?);
    }
    let mut outcome = Outcome::default();
    let mut done = vec![0; jobs.len()];
    while !jobs.iter().all(|job| job.at == job.end) {
        for (number, job) in jobs.iter_mut().enumerate().filter(|(_, job)| job.at < job.end) {
            job.listen(&mut outcome)?;
            done[number] = job.at - job.first;
        }
        progress(done.iter().sum());
    }
    outcome.failures.sort_unstable();
    outcome.failures.dedup();
    Ok(outcome)
}

/// A process that works on a range of inputs.
struct Job {
    target: Target,
    first: u64,
    at: u64,
    end: u64,
    folder: PathBuf,
    child: Child,
    words: BufReader<ChildStdout>,
}

impl Job {
    fn start(target: Target, first: u64, end: u64, folder: &Path) -> io::Result<Job> {
        let (child, words) = spawn(target, first, end, STEP, folder)?;
        Ok(Job { target, first, at: first, end, folder: folder.to_owned(), child, words })
    }

    /// Takes the next word; a job that has died is started again behind the input that killed it.
    fn listen(&mut self, outcome: &mut Outcome) -> io::Result<()> {
        let mut word = String::new();
        if self.words.read_line(&mut word)? == 0 {
            let hung = self.child.wait()?.code() == Some(HUNG);
            let culprit = if hung { self.at } else { self.find_culprit()? };
            outcome.failures.push(culprit);
            let input = Corpus::load().map(|corpus| self.target.input(&corpus, culprit)).unwrap_or_default();
            let place = keep(&self.folder, self.target, culprit, &input);
            eprintln!("{} {culprit}: {}{place}", self.target.name(), if hung { "no end" } else { "the process died" });
            *self = Job { first: self.first, ..Job::start(self.target, culprit + 1, self.end, &self.folder)? };
            self.at = culprit + 1;
            return Ok(());
        }
        let mut words = word.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match kind {
            "at" => self.at = number(),
            "failed" => outcome.failures.push(number()),
            "slow" => {
                let (input, micros) = (number(), number());
                outcome.slowest = outcome.slowest.max((Duration::from_micros(micros), input));
            }
            _ => {}
        }
        if self.at == self.end {
            self.child.wait()?;
        }
        Ok(())
    }

    /// Goes through the last inputs again, one word each, to see which is the last one begun.
    fn find_culprit(&self) -> io::Result<u64> {
        let end = (self.at + STEP).min(self.end);
        let (mut child, words) = spawn(self.target, self.at, end, 1, &self.folder)?;
        let last = words.lines().map_while(Result::ok).filter_map(|line| line.strip_prefix("at ")?.parse().ok()).last();
        child.wait()?;
        Ok(last.unwrap_or(self.at).min(end - 1))
    }
}

fn spawn(target: Target, first: u64, end: u64, step: u64, folder: &Path) -> io::Result<(Child, BufReader<ChildStdout>)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--job", target.name()]).args([first, end, step].map(|number| number.to_string())).arg(folder);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let words = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
    Ok((child, BufReader::new(words)))
}

/// A job's own side: runs inputs and says how far it is.
pub fn job(target: Target, corpus: &Corpus, range: std::ops::Range<u64>, step: u64, folder: &Path) {
    // The panics of inputs are told by their numbers; shrinking makes thousands.
    panic::set_hook(Box::new(|_| {}));
    let at = AtomicU64::new(range.start);
    let finished = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| watch(&at, &finished));
        let work = || {
            for number in range.clone() {
                at.store(number, Ordering::Relaxed);
                if (number - range.start).is_multiple_of(step) {
                    say(&format!("at {number}"));
                }
                one(target, corpus, number, folder);
            }
            finished.store(1, Ordering::Relaxed);
        };
        // Without a thread of this size there is nothing to run.
        let worker = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        if worker.is_err() {
            finished.store(1, Ordering::Relaxed);
        }
    });
    say(&format!("at {}", range.end));
}

/// Ends the process if an input takes too long.
fn watch(at: &AtomicU64, finished: &AtomicU64) {
    let mut last = (u64::MAX, Instant::now());
    while finished.load(Ordering::Relaxed) == 0 {
        thread::sleep(Duration::from_millis(20));
        let now = at.load(Ordering::Relaxed);
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > LONGEST {
            say(&format!("at {now}"));
            process::exit(HUNG);
        }
    }
}

fn one(target: Target, corpus: &Corpus, number: u64, folder: &Path) {
    let input = target.input(corpus, number);
    let start = Instant::now();
    let message = failure(target, &input);
    let took = start.elapsed();
    if took > Duration::from_millis(20) {
        say(&format!("slow {number} {}", took.as_micros()));
    }
    let Some(message) = message else { return };
    say(&format!("failed {number}"));
    let small = shrink(&input, |candidate| failure(target, candidate).is_some_and(|other| kind(&other) == kind(&message)));
    let place = keep(folder, target, number, &small);
    eprintln!("{} {number}: {}{place}", target.name(), message.lines().next().unwrap_or_default());
}

/// Writes a failing input; says where.
fn keep(folder: &Path, target: Target, number: u64, input: &[u8]) -> String {
    let path = folder.join(format!("{}-{number}", target.name()));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, input));
    if written.is_ok() { format!(" (see {})", path.display()) } else { String::new() }
}

/// The start of a message, which smaller inputs share.
fn kind(message: &str) -> &str {
    message.char_indices().nth(30).map_or(message, |(end, _)| &message[..end])
}

/// What an input's panic says.
pub fn failure(target: Target, input: &[u8]) -> Option<String> {
    let payload = panic::catch_unwind(AssertUnwindSafe(|| target.run(input))).err()?;
    let text = payload.downcast_ref::<String>().cloned();
    Some(text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "a panic".to_owned()))
}

/// A word to the parent, at once. Without a parent there is nobody to work for.
fn say(word: &str) {
    let mut stream = io::stdout().lock();
    if writeln!(stream, "{word}").and_then(|()| stream.flush()).is_err() {
        process::exit(0);
    }
}

//! Work on many numbers in processes, so that even a number that overflows the stack, takes all memory or never ends costs no
//! other. What the work is, and how its processes are started, is the caller's.
//!
//! A job says how far it is, a word a line, on its standard output ([`job`]); its parent listens ([`run`]), and starts a job
//! that has died again behind the number that killed it.

use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{self, Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The stack that the command gives the compiler.
const STACK: usize = 256 << 20;
/// The memory that a job may take.
const MEMORY: u64 = 4 << 30;
/// How many numbers a job goes between two words to its parent.
const STEP: u64 = 256;
/// The status of a job that a number held up.
const HUNG: i32 = 3;
/// The status of a job that cannot work at all.
pub const UNUSABLE: u8 = 2;

/// What is to be done.
pub struct Plan<'a> {
    /// The first number.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// How many processes.
    pub jobs: u64,
    /// A process that calls [`job`] for these numbers, with this step.
    pub command: &'a dyn Fn(Range<u64>, u64) -> io::Result<Command>,
}

/// How a number ended its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// By a signal.
    Killed,
    /// It took too long.
    Hung,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Numbers that were said to fail.
    pub failures: Vec<u64>,
    /// Numbers that ended their process.
    pub deaths: Vec<(u64, Death)>,
    /// The longest that one took, and its number.
    pub slowest: (Duration, u64),
}

/// Works a plan off. `progress` is told how many numbers are done.
pub fn run(plan: &Plan, mut progress: impl FnMut(u64)) -> io::Result<Outcome> {
    let share = plan.count.div_ceil(plan.jobs);
    // Neighbouring numbers to one job; the last one gets what is left.
    let part = |job: u64| plan.first + (job * share).min(plan.count)..plan.first + ((job + 1) * share).min(plan.count);
    let mut jobs = (0..plan.jobs).map(|job| Job::start(plan, part(job))).collect::<io::Result<Vec<Job>>>()?;
    let mut outcome = Outcome::default();
    while jobs.iter().any(|job| !job.done) {
        for job in jobs.iter_mut().filter(|job| !job.done) {
            job.listen(plan, &mut outcome)?;
        }
        let left: u64 = jobs.iter().map(|job| job.numbers.end - job.numbers.start).sum();
        progress(plan.count - left);
    }
    outcome.failures.sort_unstable();
    outcome.deaths.sort_unstable_by_key(|(number, _)| *number);
    Ok(outcome)
}

/// A process, and what it has yet to do, as far as it has said.
struct Job {
    numbers: Range<u64>,
    done: bool,
    child: Child,
    words: BufReader<ChildStdout>,
}

impl Job {
    fn start(plan: &Plan, numbers: Range<u64>) -> io::Result<Job> {
        let (child, words) = spawn(plan, numbers.clone(), STEP)?;
        Ok(Job { numbers, done: false, child, words })
    }

    /// Takes the next word; a job that has died is started again behind the number that killed it.
    fn listen(&mut self, plan: &Plan, outcome: &mut Outcome) -> io::Result<()> {
        let mut word = String::new();
        if self.words.read_line(&mut word)? > 0 {
            hear(&word, &mut self.numbers.start, outcome);
            return Ok(());
        }
        let status = self.child.wait()?;
        let (number, death) = match status.code() {
            Some(0) if self.numbers.is_empty() => {
                self.done = true;
                return Ok(());
            }
            Some(HUNG) => (self.numbers.start, Death::Hung),
            Some(code) if code == 0 || code == i32::from(UNUSABLE) => {
                return Err(io::Error::other(format!("a job ended by itself: {status}")));
            }
            _ => (self.find_culprit(plan)?, Death::Killed),
        };
        outcome.deaths.push((number, death));
        *self = Job::start(plan, number + 1..self.numbers.end)?;
        Ok(())
    }

    /// Goes through the last numbers again, one word each, to see which is the last one begun.
    fn find_culprit(&self, plan: &Plan) -> io::Result<u64> {
        let end = (self.numbers.start + STEP).min(self.numbers.end);
        let (mut child, words) = spawn(plan, self.numbers.start..end, 1)?;
        let mut last = self.numbers.start;
        for word in words.lines() {
            hear(&word?, &mut last, &mut Outcome::default());
        }
        child.wait()?;
        Ok(last.min(end.saturating_sub(1)))
    }
}

fn spawn(plan: &Plan, numbers: Range<u64>, step: u64) -> io::Result<(Child, BufReader<ChildStdout>)> {
    let mut child = (plan.command)(numbers, step)?.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let words = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
    Ok((child, BufReader::new(words)))
}

/// What a job's word says.
fn hear(word: &str, at: &mut u64, outcome: &mut Outcome) {
    let mut words = word.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    match kind {
        "at" => *at = number(),
        "failed" => outcome.failures.push(number()),
        "slow" => {
            let (which, micros) = (number(), number());
            outcome.slowest = outcome.slowest.max((Duration::from_micros(micros), which));
        }
        _ => {}
    }
}

/// A job's own side: does the work for each number, which is whether it went well, and ends the process if one takes longer
/// than `longest`.
pub fn job(numbers: Range<u64>, step: u64, longest: Duration, work: impl Fn(u64) -> bool + Sync) -> io::Result<()> {
    limit_memory();
    let at = AtomicU64::new(numbers.start);
    let finished = AtomicBool::new(false);
    let all = || {
        for number in numbers.clone() {
            at.store(number, Ordering::Relaxed);
            if (number - numbers.start).is_multiple_of(step) {
                say(&format!("at {number}"));
            }
            let start = Instant::now();
            if !work(number) {
                say(&format!("failed {number}"));
            }
            let took = start.elapsed();
            if took > Duration::from_millis(20) {
                say(&format!("slow {number} {}", took.as_micros()));
            }
        }
        finished.store(true, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        let worker = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, all)?;
        watch(&at, &finished, longest, || worker.is_finished());
        io::Result::Ok(())
    })?;
    say(&format!("at {}", numbers.end));
    Ok(())
}

/// Memory is asked for in vain beyond the limit, which ends the process.
fn limit_memory() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        // Where there can be no limit, what is too large takes too long.
        let _ = setrlimit(Resource::As, Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) });
    }
}

/// Ends the process if one number takes too long.
fn watch(at: &AtomicU64, finished: &AtomicBool, longest: Duration, over: impl Fn() -> bool) {
    let mut last = (u64::MAX, Instant::now());
    while !finished.load(Ordering::Relaxed) && !over() {
        thread::sleep(Duration::from_millis(20));
        let now = at.load(Ordering::Relaxed);
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > longest {
            say(&format!("at {now}"));
            process::exit(HUNG);
        }
    }
}

/// A word to the parent, at once. Without a parent there is nobody to work for.
fn say(word: &str) {
    let mut stream = io::stdout().lock();
    if writeln!(stream, "{word}").and_then(|()| stream.flush()).is_err() {
        process::exit(0);
    }
}

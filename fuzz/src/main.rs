//! `gpukc-fuzz TARGET [--inputs N] [--jobs J] [--from NUMBER]`, or `gpukc-fuzz TARGET FILE`; see `cargo xtask fuzz`.

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs, panic};

use gpukc_fuzz::drive::{self, Death, Plan};
use gpukc_fuzz::shrink::shrink;
use gpukc_fuzz::targets::Target;
use gpukc_fuzz::text::Corpus;

const USAGE: &str = "\
gpukc-fuzz TARGET [--inputs N] [--jobs J] [--from NUMBER]    N mutated inputs, in J processes
gpukc-fuzz TARGET --show NUMBER                              prints the input of this number
gpukc-fuzz TARGET FILE                                       one input, from a file
targets: parser checker formatter compiler npy cache text
";

/// An input may take this long; the machine may be busy.
const LONGEST: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(drive::UNUSABLE)
        }
    }
}

fn run(arguments: &[&str]) -> Result<bool, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| USAGE.to_owned());
    let [first, options @ ..] = arguments else { return Err(USAGE.to_owned()) };
    if let ("--job", [target, first, end, step]) = (*first, options) {
        return job(named(target)?, number(first)?..number(end)?, number(step)?).map(|()| true);
    }
    let target = named(first)?;
    match options {
        ["--show", which] => {
            let input = target.input(&Corpus::built_in(), number(which)?);
            io::stdout().write_all(&input).map(|()| true).map_err(|error| error.to_string())
        }
        [file] => {
            let input = fs::read(file).map_err(|error| format!("{file}: {error}"))?;
            let failure = target.failure(&input);
            println!("{}", failure.as_deref().unwrap_or("nothing is wrong"));
            Ok(failure.is_none())
        }
        _ => {
            let (mut count, mut from) = (100_000, 0);
            let mut jobs = std::thread::available_parallelism().map_or(1, |jobs| jobs.get() as u64);
            for pair in options.chunks(2) {
                let [option, value] = pair else { return Err(USAGE.to_owned()) };
                match *option {
                    "--inputs" => count = number(value)?,
                    "--jobs" => jobs = number(value)?.max(1),
                    "--from" => from = number(value)?,
                    _ => return Err(USAGE.to_owned()),
                }
            }
            many(target, from, count, jobs).map_err(|error| error.to_string())
        }
    }
}

fn named(name: &str) -> Result<Target, String> {
    Target::ALL.into_iter().find(|target| target.name() == name).ok_or_else(|| USAGE.to_owned())
}

/// Where failing inputs are kept.
fn place(target: Target, number: u64) -> PathBuf {
    env::temp_dir().join("gpukc-fuzz").join(format!("{}-{number}", target.name()))
}

fn keep(path: &Path, input: &[u8]) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, input)
}

fn many(target: Target, first: u64, count: u64, jobs: u64) -> io::Result<bool> {
    let (start, mut told) = (Instant::now(), Instant::now());
    let command = |numbers: Range<u64>, step: u64| {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--job", target.name()]).args([numbers.start, numbers.end, step].map(|number| number.to_string()));
        Ok(command)
    };
    let outcome = drive::run(&Plan { first, count, jobs, command: &command }, |done| {
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            eprintln!("{}: {done} of {count}, {:.0} s", target.name(), start.elapsed().as_secs_f64());
        }
    })?;
    let (seconds, (longest, slowest)) = (start.elapsed().as_secs_f64(), outcome.slowest);
    let failed = outcome.failures.len() + outcome.deaths.len();
    let longest = longest.as_secs_f64();
    println!(
        "{}: {count} inputs in {seconds:.0} s, {failed} failed; the slowest took {longest:.2} s (number {slowest})",
        target.name()
    );
    for &number in &outcome.failures {
        println!("  {number}: {}", place(target, number).display());
    }
    for &(number, death) in &outcome.deaths {
        keep(&place(target, number), &target.input(&Corpus::built_in(), number))?;
        let what = if death == Death::Hung { "no end" } else { "the process died" };
        println!("  {number}: {what}: {}", place(target, number).display());
    }
    Ok(failed == 0)
}

/// Reads these inputs in this process; one that fails is made smaller and kept.
fn job(target: Target, numbers: Range<u64>, step: u64) -> Result<(), String> {
    // What panics say is told below; making an input smaller makes thousands.
    panic::set_hook(Box::new(|_| {}));
    let corpus = Corpus::built_in();
    let work = |number: u64| {
        let input = target.input(&corpus, number);
        let Some(message) = target.failure(&input) else { return true };
        let alike = |other: String| start(&other) == start(&message);
        let small = shrink(&input, |candidate| target.failure(candidate).is_some_and(alike));
        let path = place(target, number);
        let kept = keep(&path, &small).map_or_else(|error| error.to_string(), |()| path.display().to_string());
        eprintln!("{} {number}: {} ({kept})", target.name(), message.lines().next().unwrap_or_default());
        false
    };
    drive::job(numbers, step, LONGEST, work).map_err(|error| error.to_string())
}

/// The start of a message, which smaller inputs share.
fn start(message: &str) -> &str {
    message.char_indices().nth(30).map_or(message, |(end, _)| &message[..end])
}

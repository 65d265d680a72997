//! `gpukc-fuzz TARGET [--inputs N] [--jobs J] [--from NUMBER]`, or `gpukc-fuzz TARGET FILE`; see `cargo xtask fuzz`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gpukc_fuzz::drive::{self, Plan};
use gpukc_fuzz::targets::Target;
use gpukc_fuzz::text::Corpus;

const USAGE: &str = "\
gpukc-fuzz TARGET [--inputs N] [--jobs J] [--from NUMBER]    N mutated inputs, in J processes
gpukc-fuzz TARGET --show NUMBER                              prints the input of this number
gpukc-fuzz TARGET FILE                                       one input, from a file
targets: parser checker formatter compiler npy cache
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[&str]) -> Result<bool, String> {
    if let ["--job", target, first, end, step, folder] = arguments {
        let number = |text: &str| text.parse().map_err(|_| USAGE.to_owned());
        drive::job(named(target)?, &Corpus::load()?, number(first)?..number(end)?, number(step)?, Path::new(folder));
        return Ok(true);
    }
    let [target, options @ ..] = arguments else { return Err(USAGE.to_owned()) };
    let target = named(target)?;
    if let ["--show", number] = options {
        let input = target.input(&Corpus::load()?, number.parse().map_err(|_| USAGE.to_owned())?);
        return std::io::stdout().write_all(&input).map(|()| true).map_err(|error| error.to_string());
    }
    if let [file] = options {
        let input = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        let failure = drive::failure(target, &input);
        println!("{}", failure.as_deref().unwrap_or("nothing is wrong"));
        return Ok(failure.is_none());
    }
    let mut plan =
        Plan { target, first: 0, count: 100_000, jobs: std::thread::available_parallelism().map_or(1, |jobs| jobs.get() as u64) };
    for pair in options.chunks(2) {
        let [option, value] = pair else { return Err(USAGE.to_owned()) };
        let value: u64 = value.parse().map_err(|_| USAGE.to_owned())?;
        match *option {
            "--inputs" => plan.count = value,
            "--jobs" => plan.jobs = value.max(1),
            "--from" => plan.first = value,
            _ => return Err(USAGE.to_owned()),
        }
    }
    many(plan)
}

fn named(name: &str) -> Result<Target, String> {
    Target::ALL.into_iter().find(|target| target.name() == name).ok_or_else(|| USAGE.to_owned())
}

fn many(plan: Plan) -> Result<bool, String> {
    let folder: PathBuf = std::env::temp_dir().join("gpukc-fuzz");
    let (start, mut told) = (Instant::now(), Instant::now());
    let outcome = drive::run(plan, &folder, |done| {
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            eprintln!("{}: {done} of {}, {:.0} s", plan.target.name(), plan.count, start.elapsed().as_secs_f64());
        }
    });
    let outcome = outcome.map_err(|error| error.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    let (name, (longest, number)) = (plan.target.name(), outcome.slowest);
    println!(
        "{name}: {} inputs in {seconds:.0} s, {} failed; the slowest took {:.2} s (number {number})",
        plan.count,
        outcome.failures.len(),
        longest.as_secs_f64()
    );
    for number in &outcome.failures {
        println!("  {number}: {}", folder.join(format!("{name}-{number}")).display());
    }
    Ok(outcome.failures.is_empty())
}

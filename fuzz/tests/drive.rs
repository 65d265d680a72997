//! Numbers that fail, that kill their process in every way, and that never end: each is found, and every other one is worked on.

use std::io::{Error, Result};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, fs};

use gpukc_fuzz::drive::{Death, Outcome, Plan, UNUSABLE, job, run};

const FAILS: [u64; 2] = [12, 4000];
/// By themselves, by their stack, and by memory.
const ABORTS: u64 = 1000;
const OVERFLOWS: u64 = 2300;
const DEVOURS: u64 = 2301;
const HANGS: u64 = 3333;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--job") {
        return match child(&arguments[at + 1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(UNUSABLE),
        };
    }
    every_fault_is_found(4001, 1);
    every_fault_is_found(5000, 3);
    every_fault_is_found(6000, 16);
    a_job_that_cannot_work_is_no_fault_of_a_number();
    println!("drive: every number that fails, kills or hangs was found");
    ExitCode::SUCCESS
}

/// Marks each number as done in a file of its own.
fn child(arguments: &[String]) -> Result<()> {
    let [folder, first, end, step] = arguments else { return Err(Error::other("--job FOLDER FIRST END STEP")) };
    let number = |text: &str| text.parse::<u64>().map_err(Error::other);
    job(number(first)?..number(end)?, number(step)?, Duration::from_millis(1500), |number| {
        match number {
            ABORTS => std::process::abort(),
            OVERFLOWS => assert!(deep(number) > 0),
            // Beyond the limit; without one it would be granted, untouched as it is.
            DEVOURS => drop(std::hint::black_box(vec![0u8; 8 << 30])),
            HANGS => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            _ => {}
        }
        fs::write(Path::new(folder).join(number.to_string()), "").is_ok() && !FAILS.contains(&number)
    })
}

#[allow(unconditional_recursion)]
fn deep(number: u64) -> u64 {
    let room = std::hint::black_box([number; 64]);
    deep(number + 1) + room[7]
}

fn drive(folder: &Path, count: u64, jobs: u64) -> Result<Outcome> {
    let command = |numbers: Range<u64>, step: u64| {
        let mut command = Command::new(env::current_exe()?);
        command.arg("--job").arg(folder).args([numbers.start, numbers.end, step].map(|number| number.to_string()));
        command.stderr(std::process::Stdio::null());
        Ok(command)
    };
    let mut told = 0;
    let outcome = run(&Plan { first: 0, count, jobs, command: &command }, |done| {
        assert!(told <= done && done <= count, "{told} {done}");
        told = done;
    })?;
    assert_eq!(told, count);
    Ok(outcome)
}

fn every_fault_is_found(count: u64, jobs: u64) {
    let folder = tempfile::tempdir().unwrap();
    let outcome = drive(folder.path(), count, jobs).unwrap();
    let deaths = [(ABORTS, Death::Killed), (OVERFLOWS, Death::Killed), (DEVOURS, Death::Killed), (HANGS, Death::Hung)];
    assert_eq!(outcome.deaths, deaths);
    assert_eq!(outcome.failures, FAILS);
    for number in (0..count).filter(|number| !deaths.iter().any(|(dead, _)| dead == number)) {
        assert!(folder.path().join(number.to_string()).exists(), "{number} of {count} in {jobs}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count() as u64, count - deaths.len() as u64);
}

fn a_job_that_cannot_work_is_no_fault_of_a_number() {
    let command = |_: Range<u64>, _: u64| {
        let mut command = Command::new(env::current_exe()?);
        command.arg("--job");
        Ok(command)
    };
    let error = run(&Plan { first: 0, count: 10, jobs: 2, command: &command }, |_| ()).unwrap_err();
    assert!(error.to_string().contains("ended by itself"), "{error}");
}

//! `gpukc doctor`: one line per thing that a run on the GPU needs, and what to do where it is missing.

use std::fs;
use std::process::{Command, Stdio};

use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Compiler, Wanted};
use gpukc_runtime::device::{Device, Facts, Memory};
use gpukc_runtime::driver;
use gpukc_runtime::error::{Error, bytes_text};

use crate::commands::version::of_nvrtc;
use crate::failure::Failure;
use crate::output;

/// A kernel that any architecture takes.
const TRIAL: &str = "extern \"C\" __global__ void trial(int* x) { x[0] = 42; }\n";

pub fn run() -> Result<(), Failure> {
    let mut missing = 0;
    let mut line = |name: &str, result: Result<String, (String, Option<String>)>| {
        let text = match result {
            Ok(text) => format!("ok       {name}: {text}\n"),
            Err((text, help)) => {
                missing += 1;
                let help = help.map_or(String::new(), |help| format!("\n         → {help}"));
                format!("missing  {name}: {text}{help}\n")
            }
        };
        output::result(text);
    };
    let told = |error: Error| (error.to_string(), Some(error.help()));

    let count = driver::driver().and_then(|driver| Ok((driver.version()?, driver.device_count()?)));
    line("driver", count.as_ref().map(|((major, minor), _)| format!("CUDA {major}.{minor}")).map_err(|error| told(error.clone())));
    let mut target = None;
    for ordinal in 0..count.as_ref().map_or(0, |(_, count)| *count) {
        let facts = Facts::of(ordinal);
        if let Ok(facts) = &facts {
            target.get_or_insert(facts.target);
        }
        let shown = facts.map(|facts| {
            let memory = bytes_text(facts.memory_bytes);
            format!("{} ({}), {} multiprocessors, {memory}", facts.name, facts.target, facts.multiprocessors)
        });
        line(&format!("device cuda:{ordinal}"), shown.map_err(told));
    }
    if count.as_ref().is_ok_and(|(_, count)| *count == 0) {
        line("device", Err(("the driver sees no GPU".into(), Some("is CUDA_VISIBLE_DEVICES set? `--device cpu` works".into()))));
    }

    let compiler = Compiler::new(Cache::off());
    let located = compiler.located();
    line(
        "NVRTC",
        located
            .clone()
            .map(|located| format!("{} at {} (by {})", of_nvrtc(located), located.path.display(), located.origin))
            .map_err(told),
    );
    if located.is_ok() {
        let list = compiler.nvrtc().map(|nvrtc| {
            let names: Vec<String> = nvrtc.architectures.iter().map(|capability| format!("sm_{capability}")).collect();
            names.join(" ")
        });
        let loads = list.is_ok();
        line("architectures", list.map_err(told));
        if loads {
            let trial_target = target.unwrap_or(gpukc_codegen::target::Target { capability: 90, specific: false });
            let binary = compiler.compile(TRIAL, "trial", trial_target, Wanted::Binary, &[]);
            let shown = binary.as_ref().map(|binary| {
                let form = binary.form.name();
                format!("{form} for {}, {:.0} ms", binary.architecture, binary.time.as_secs_f64() * 1e3)
            });
            line("compilation", shown.map_err(|error| told(error.clone())));
            if target.is_some() && binary.is_ok() {
                line("context", Device::open_with(0, Memory::Plain).map(|device| device.facts().name.clone()).map_err(told));
            }
        }
    }

    line("cache", cache());
    line("python", python());
    line("CPU", Ok(format!("{} threads; `--device cpu` needs nothing of the above", threads())));
    if missing == 0 {
        return Ok(());
    }
    Err(Failure::environment(
        format!("{missing} of these are missing; `gpukc check`, `compile --emit cuda` and `run --device cpu` do without"),
        None,
    ))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

fn cache() -> Result<String, (String, Option<String>)> {
    if std::env::var_os("GPUKC_CACHE").is_some_and(|value| value == "off") {
        return Ok("switched off by GPUKC_CACHE".to_owned());
    }
    let help = || Some("set GPUKC_CACHE_DIR to a folder that can be written; without it every run compiles anew".to_owned());
    let cache = Cache::from_environment();
    let Some(folder) = cache.folder() else { return Err(("HOME is not set".to_owned(), help())) };
    let list = cache.list(false).map_err(|error| (format!("{}: {error}", folder.display()), help()))?;
    let trial = fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    trial.map_err(|error| (format!("{} can't be written: {error}", folder.display()), help()))?;
    let total = list.iter().map(|listed| listed.bytes).sum();
    Ok(format!("{} ({} entries, {})", folder.display(), list.len(), bytes_text(total)))
}

fn python() -> Result<String, (String, Option<String>)> {
    let output = Command::new("python3").arg("--version").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        _ => Err(("python3 does not run".to_owned(), Some("only `gpukc setup` needs it".to_owned()))),
    }
}

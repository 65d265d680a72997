//! The `gpukc` command: arguments in, one command run, an exit status out.
//!
//! Results go to standard output, everything else to standard error. Exit status: 0 done; 1 the program is wrong; 2 usage;
//! 3 the environment lacks something; 4 the inputs do not fit; 70 an internal error.

mod advice;
mod args;
mod commands;
mod cpp;
mod devices;
mod ending;
mod facts;
mod failure;
mod files;
mod generate;
mod inputs;
mod load;
mod output;
mod pipeline;
mod progress;
mod project;
mod report;
mod show;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use gpukc_runtime::advice::Words;

use args::{Args, Command};
use failure::Failure;

fn main() -> ExitCode {
    report::install();
    ending::on_interrupt();
    // Programs nest; the compiler's recursion gets more room than a main thread has.
    let work = std::thread::Builder::new().name("gpukc".into()).stack_size(256 << 20).spawn(run);
    let status = match work.map(|thread| thread.join()) {
        Ok(Ok(status)) => status,
        // A panic ends the process in the hook, so this is the thread that could not be started.
        _ => Failure::environment("no thread can be started", None).tell(&advice::PLAIN),
    };
    ExitCode::from(status)
}

fn run() -> u8 {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let usage = error.use_stderr();
            let color = if usage { output::color() } else { output::color_of_result() };
            let text = if color { error.render().ansi().to_string() } else { error.to_string() };
            if usage {
                output::note(text.trim_end());
                return 2;
            }
            output::result(text);
            return 0;
        }
    };
    if args.version {
        return finish(commands::version::run(), &advice::PLAIN);
    }
    let Some(command) = args.command else {
        output::note(&Args::command().render_help().to_string());
        return 2;
    };
    let words = advice::words(&command);
    if let Some(Err(failure)) = args.timeout.map(ending::after) {
        return failure.tell(&words);
    }
    let result = match &command {
        Command::Check(args) => commands::check::run(args),
        Command::Compile(args) => commands::compile::run(args),
        Command::Run(args) => commands::run::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Verify(args) => commands::verify::run(args),
        Command::Explain(args) => commands::explain::run(args),
        Command::Fmt(args) => commands::fmt::run(args),
        Command::Cache(args) => commands::cache::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Setup => commands::setup::run(),
        Command::Completions(args) => commands::completions::run(args),
    };
    finish(result, &words)
}

fn finish(result: Result<(), Failure>, words: &Words) -> u8 {
    match result {
        Ok(()) => 0,
        Err(failure) => failure.tell(words),
    }
}

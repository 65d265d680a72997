//! Project tasks: `cargo xtask test | accept | stress | fuzz | release | gpu`. Each runs cargo and tools of the machine; nothing
//! is hidden: every command is printed before it runs.

mod accept;
mod bundle;
mod command;
mod nvrtc;
mod release;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask test                 format, lints, and every test that needs no GPU (fetches NVRTC if there is none)
cargo xtask accept [FILTER]      write the snapshots of the cases whose name contains FILTER; remove stale ones
cargo xtask stress SECONDS       processes that fill one cache and are killed meanwhile, for so long
cargo xtask fuzz TARGET [--inputs N] [--jobs J]    mutated inputs for parser, checker, formatter, compiler,
                                                   text (of macros), npy or cache
cargo xtask release              packages, installation, the oldest Rust, other systems
cargo xtask gpu                  the device tests on this machine's GPU, what calls from Rust cost, and gpukc verify there, under
                                 compute-sanitizer too
cargo xtask gpu --bundle DIR     a folder that runs them on a machine without Rust: copy it there, then ./run.sh
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["test"] => test::test(),
        ["accept"] => accept::accept(""),
        ["accept", filter] => accept::accept(filter),
        ["stress", seconds] => test::stress(seconds),
        ["fuzz", arguments @ ..] => test::fuzz(arguments),
        ["release"] => release::release(),
        ["gpu"] => test::gpu(),
        ["gpu", "--bundle", folder] => bundle::bundle(folder.as_ref()),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

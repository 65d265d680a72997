//! The command line as it is promised: every command with every option, and texts that depend on nothing else.

mod common;

use std::collections::BTreeSet;

use common::{Done, Place, SCALE};

/// Commands, and their options besides `--help` and `--timeout`, which all have.
const COMMANDS: &[(&str, &[&str])] = &[
    ("check", &["--format", "<FILE>..."]),
    ("compile", &["--kernel", "--arch", "--shape", "--call", "--misaligned", "--in-place", "--emit", "--line-info", "-o", "<FILE>"]),
    ("run", &["--kernel", "--in", "--out", "--device", "--stats", "<FILE>"]),
    ("bench", &["--kernel", "--in", "--out", "--hot", "--device", "--runs", "--format", "<FILE>"]),
    ("verify", &["--kernel", "--device", "--calls", "--seed", "--seconds", "<FILE>..."]),
    ("explain", &["--list"]),
    ("fmt", &["--check", "<FILE>..."]),
    ("cache", &[]),
    ("doctor", &["--device"]),
    ("setup", &[]),
    ("completions", &["<SHELL>"]),
];

/// What the lines of a help text begin with.
fn listed(help: &str) -> BTreeSet<String> {
    let first = |line: &str| {
        let word = line.split_whitespace().find(|word| word.starts_with("--") || word.starts_with('<'));
        let word = word.or_else(|| line.split_whitespace().next().filter(|word| word.starts_with('-')))?;
        Some(word.trim_end_matches(',').to_owned())
    };
    let lines = help.lines().filter(|line| line.trim_start().starts_with(['-', '<']) && !line.trim_start().starts_with("- "));
    lines.filter_map(first).map(|word| if word == "<DIR>" { "-o".to_owned() } else { word }).collect()
}

#[test]
fn every_command_and_option() {
    let place = Place::new();
    let help = place.run(&["--help"]).expect(0, &["--version", "Exit status", "GPUKC_CACHE_DIR"]).out;
    let section = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands: Vec<&str> =
        section.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert_eq!(commands, COMMANDS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, options) in COMMANDS {
        let wanted: BTreeSet<String> = options.iter().chain(&["--help", "--timeout"]).map(|&option| option.to_owned()).collect();
        assert_eq!(listed(&place.run(&[name, "--help"]).expect(0, &[]).out), wanted, "{name}");
        place.run(&[name, "--no-such-option"]).expect(2, &["--no-such-option"]);
        match *name {
            "explain" | "doctor" | "setup" => {}
            "cache" => drop(place.run(&[name]).expect(2, &["path, list, clear, verify"])),
            _ => drop(place.run(&[name]).expect(2, &["required"])),
        }
    }
    for values in ["human, json", "cuda, ptx, cubin, fatbin, project, plan", "path, list, clear, verify"] {
        for value in values.split(", ") {
            let helps = ["check", "compile", "cache"].map(|name| place.run(&[name, "--help"]).out);
            assert!(helps.iter().any(|help| help.contains(value)), "{value}");
        }
    }
}

#[test]
fn exit_statuses() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    place.file("wrong.gk", "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i + 1]; }\n");
    place.file("loose.gk", "kernel f( x: f32[n] ) -> y: f32[n] { y[i] = x[i]; }\n");
    let nowhere = place.path("nowhere");
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        Done::from(command.env("GPUKC_NVRTC", &nowhere).output().unwrap()).status
    };
    for (status, arguments) in [
        (0, "check scale.gk"),
        (0, "check scale.gk loose.gk"),
        (0, "explain"),
        (0, "explain --list"),
        (1, "check wrong.gk"),
        (1, "check scale.gk wrong.gk none.gk"),
        (1, "compile wrong.gk"),
        (1, "run wrong.gk --in x=ones:3"),
        (1, "verify wrong.gk"),
        (0, "fmt --check scale.gk"),
        (1, "fmt --check loose.gk"),
        (2, "run scale.gk --device cpu --in a=1"),
        (2, "run scale.gk --device cpu --in a=1 --in x=rand:q"),
        (2, "run scale.gk --device gpu --in a=1 --in x=ones:3"),
        (2, "compile scale.gk --arch sm_x"),
        (2, "compile scale.gk --emit doc"),
        (2, "explain GK9998"),
        (2, "explain GK0203 --list"),
        (2, "cache prune"),
        (3, "run scale.gk --device cuda --in a=1 --in x=ones:3"),
        (3, "compile scale.gk --arch native"),
        (3, "compile scale.gk --emit ptx --arch sm_90"),
        (3, "bench scale.gk --in a=1 --in x=ones:3"),
        (0, "doctor"),
        (3, "doctor --device cuda"),
        (4, "check none.gk"),
        (4, "check none.gk wrong.gk"),
        (4, "run scale.gk --device cpu --in a=1 --in x=none.npy"),
        (4, "run scale.gk --device cpu --in a=1 --in x=ones:3x3"),
        (4, "run scale.gk --device cpu --in a=true --in x=ones:3"),
    ] {
        assert_eq!(run(&arguments.split(' ').collect::<Vec<_>>()), status, "{arguments}");
    }
}

/// The text is a function of program, version, architecture, shape and hints: no place, no time, no language, no order of hashing.
#[test]
fn emitted_texts_are_the_same_everywhere() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut files: Vec<_> = std::fs::read_dir(&examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "gk"));
    assert!(files.len() > 3);
    for file in files {
        let (here, there) = (Place::new(), Place::new());
        let text = std::fs::read(&file).unwrap();
        here.file("a.gk", &text);
        std::fs::create_dir(there.path("deep ä")).unwrap();
        there.file("deep ä/other.gk", &text);
        for options in [&["--emit", "cuda"][..], &["--emit", "plan"], &["--emit", "cuda", "--arch", "sm_80"]] {
            let first = here.command(&[&["compile", "a.gk"], options].concat()).output().unwrap();
            assert!(first.status.success(), "{}", file.display());
            for (home, threads) in [("/", "1"), ("/nowhere", "7")] {
                let mut command = there.command(&[&["compile", "deep ä/other.gk"], options].concat());
                command.env("HOME", home).env("LANG", "de_DE.UTF-8").env("TZ", "Asia/Tokyo").env("RAYON_NUM_THREADS", threads);
                command.env("USER", "somebody").env("SOURCE_DATE_EPOCH", "0").env("TMPDIR", there.path("deep ä"));
                assert!(command.output().unwrap().stdout == first.stdout, "{}: {options:?}", file.display());
            }
        }
    }
}

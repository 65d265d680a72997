//! On a terminal: colours, unless they are not wanted, and bars for long work; elsewhere neither.
#![cfg(target_os = "linux")]

mod common;
#[path = "../../runtime/tests/standin/mod.rs"]
mod standin;
#[path = "common/terminal.rs"]
mod terminal;

use std::fs;

use common::{Done, Place, SCALE};
use terminal::on_a_terminal;

const BAR: &str = "[====";

#[test]
fn colours() {
    let place = Place::new();
    place.file("wrong.gk", "kernel f(\n");
    place.file("scale.gk", SCALE);
    for (arguments, word) in [
        (&["check", "wrong.gk"][..], "GK0001"),
        (&["run", "scale.gk", "--device", "cpu"], "error:"),
        (&["run"], "error:"),
        (&["--help"], "Usage:"),
    ] {
        let on = |terminal: &str, no_color: Option<&str>| {
            let mut command = place.command(arguments);
            command.env("TERM", terminal).env_remove("NO_COLOR").envs(no_color.map(|value| ("NO_COLOR", value)));
            on_a_terminal(&mut command).1
        };
        // Empty means unset, as its authors ask.
        for no_color in [None, Some("")] {
            let shown = on("xterm", no_color);
            assert!(shown.contains(word) && shown.contains("\x1b["), "{arguments:?}: {shown}");
        }
        for shown in [on("xterm", Some("1")), on("dumb", None)] {
            assert!(shown.contains(word) && !shown.contains('\x1b'), "{arguments:?}: {shown}");
        }
        let done = place.run(arguments);
        assert!(!done.out.contains('\x1b') && !done.err.contains('\x1b'), "{done:#?}");
    }
}

#[test]
fn arrays_are_not_shown() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let arguments = ["run", "scale.gk", "--device", "cpu", "--in", "a=2", "--in", "x=ones:3", "--out", "y=-"];
    let (status, shown) = on_a_terminal(&mut place.command(&arguments));
    assert_eq!(status.code(), Some(2));
    assert!(shown.contains("`y`, is no text for the terminal") && !shown.contains("NUMPY"), "{shown}");
    place.run(&arguments).expect(0, &["NUMPY"]);
}

#[test]
fn verifying_shows_how_far_it_is() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let arguments = ["verify", "scale.gk", "--device", "cpu", "--calls", "1"];
    let (status, shown) = on_a_terminal(&mut place.command(&arguments));
    assert!(status.success() && shown.contains(BAR) && shown.contains("scale (1 of 1)"), "{shown}");
    let done = place.run(&arguments).expect(0, &["equal bits"]);
    assert_eq!(done.err, "scale (1 of 1)\n");
    assert!(!done.out.contains(BAR));
}

/// Nothing is shown of what is over in a moment; then a bar, or a line for each file.
#[test]
fn formatting_many_files_shows_how_far_it_is() {
    let place = Place::new();
    let long: String = (0..3000).map(|n| format!("kernel k{n}(x:f32[n])->y:f32[n]{{y[i]=x[i]+{n}.0*(x[i]-1.0);}}\n")).collect();
    let names: Vec<String> = (0..12).map(|n| format!("f{n}.gk")).collect();
    names.iter().for_each(|name| drop(place.file(name, &long)));
    let arguments: Vec<&str> = ["fmt", "--check"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let (status, shown) = on_a_terminal(&mut place.command(&arguments));
    assert_eq!(status.code(), Some(1));
    assert!(shown.contains(BAR) && shown.contains("of 12)") && !shown.contains("(1 of 12)"), "{shown}");
    let done = place.run(&arguments).expect(1, &["not formatted"]);
    assert!(done.err.contains("of 12)\n") && !done.err.contains("(1 of 12)"), "{done:#?}");
    assert_eq!(done.out.lines().collect::<Vec<_>>(), names);

    place.file("short.gk", SCALE);
    let (_, shown) = on_a_terminal(&mut place.command(&["fmt", "--check", "short.gk"]));
    assert_eq!(shown, "");
}

/// NVRTC that takes its time, for several architectures.
#[test]
fn compiling_shows_how_far_it_is() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let arguments = ["compile", "scale.gk", "--emit", "cubin", "--arch", "sm_80,sm_86,sm_90", "-o", "out"];
    let command = |milliseconds: &str, folder: &str| {
        let mut command = place.command(&[&arguments[..arguments.len() - 1], &[folder]].concat());
        standin::prepare(&mut command, standin::Driver::Absent).env("STANDIN_NVRTC_SLEEP", milliseconds).env("GPUKC_CACHE", "off");
        command
    };
    let (status, shown) = on_a_terminal(&mut command("700", "slow"));
    assert!(status.success() && shown.contains(BAR) && shown.contains("scale.gk for sm_90 (3 of 3)"), "{shown}");
    let done = Done::from(command("700", "again").output().unwrap()).expect(0, &[]);
    assert_eq!(done.err, "scale.gk for sm_90 (3 of 3)\n");
    assert_eq!(fs::read_dir(place.path("again")).unwrap().count(), 3);
    let done = Done::from(command("0", "fast").output().unwrap()).expect(0, &[]);
    assert_eq!(done.err, "");
}

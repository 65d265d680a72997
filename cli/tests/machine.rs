//! `gpukc compile` to machine code, with stand-ins for the driver and for NVRTC: which files there are, and for what.
#![cfg(target_os = "linux")]

mod common;
#[path = "../../runtime/tests/standin/mod.rs"]
mod standin;
#[path = "common/terminal.rs"]
mod terminal;

use std::fs;

use common::{Done, Place, SCALE};
use standin::Driver;
use terminal::on_a_terminal;

const TWO: &str = "\
kernel first(x: f32[n]) -> y: f32[n] { y[i] = exp(x[i]); }
kernel second(x: f32[n]) -> y: f32[n] { y[i] = exp(x[i]) + 1.0; }
";

fn run(place: &Place, driver: Driver, settings: &[(&str, &str)], arguments: &[&str]) -> Done {
    let mut command = place.command(arguments);
    standin::prepare(&mut command, driver).envs(settings.iter().copied());
    Done::from(command.output().unwrap())
}

fn names(place: &Place, folder: &str) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(place.path(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn one_file_for_each_architecture() {
    let place = Place::new();
    place.file("two.gk", TWO);
    let arguments = ["compile", "two.gk", "--emit", "cubin,ptx,cuda", "--arch", "sm_80,sm_90a,sm_80", "-o", "out"];
    run(&place, Driver::Absent, &[], &arguments).expect(0, &[]);
    let wanted = ["two.sm_80.cu", "two.sm_80.cubin", "two.sm_80.ptx", "two.sm_90a.cu", "two.sm_90a.cubin", "two.sm_90a.ptx"];
    assert_eq!(names(&place, "out"), wanted);
    let text = |name: &str| String::from_utf8_lossy(&fs::read(place.path(&format!("out/{name}"))).unwrap()).into_owned();
    // The stand-in's code is its text: all kernels are in it.
    assert!(text("two.sm_90a.cubin").starts_with("\x7fELF// stand-in sm_90a "));
    assert!(text("two.sm_80.ptx").starts_with("// stand-in compute_80 "));
    for name in wanted {
        assert!(text(name).contains(" first(") && text(name).contains(" second("), "{name}");
    }
    // One architecture is named all the same; one kernel alone names its files.
    let one = ["compile", "two.gk", "--kernel", "second", "--emit", "cubin", "--arch", "sm_90", "-o", "one"];
    run(&place, Driver::Absent, &[], &one).expect(0, &[]);
    assert_eq!(names(&place, "one"), ["second.sm_90.cubin"]);
    // Every architecture that is tested.
    run(&place, Driver::Absent, &[], &["compile", "two.gk", "--emit", "cubin", "--arch", "all", "-o", "all"]).expect(0, &[]);
    let all = names(&place, "all");
    assert!(all.len() >= 7 && all.contains(&"two.sm_75.cubin".to_owned()) && all.contains(&"two.sm_120.cubin".to_owned()), "{all:?}");
}

/// Kind, architecture and code of what is in a container.
fn entries(bytes: &[u8]) -> Vec<(usize, usize, String)> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!((word(0), word(8)), (0xba55ed50, bytes.len() - 16));
    let (mut at, mut entries) = (16, Vec::new());
    while at < bytes.len() {
        let (head, length) = (word(at + 4), word(at + 8));
        let code = String::from_utf8_lossy(&bytes[at + head..at + head + length]).into_owned();
        entries.push((word(at) & 0xffff, word(at + 28), code));
        at += head + length;
    }
    entries
}

/// What the stand-in was asked to compile for.
fn made_for(code: &str) -> String {
    code.split(' ').nth(2).unwrap().to_owned()
}

/// The texts for these rows are launched in two ways, by one block a row and by a cluster. Whichever code a driver picks from a
/// container, one way is right.
#[test]
fn code_of_one_container_is_of_one_text() {
    let place = Place::new();
    place.file("rows.gk", "kernel rows(x: f32[m, n]) -> y: f32[m, n] { y[i, j] = exp(x[i, j]) / sum[k] exp(x[i, k]); }\n");
    let texts = |architectures: &str| -> Vec<String> {
        let arguments = ["compile", "rows.gk", "--emit", "fatbin", "--shape", "m=128,n=131072", "--arch", architectures, "-o", "out"];
        run(&place, Driver::Absent, &[], &arguments).expect(0, &[]);
        let code = entries(&fs::read(place.path("out/rows.fatbin")).unwrap());
        let text = |code: &str| code.split_once('\n').unwrap().1.trim_end_matches('\0').to_owned();
        code.iter().map(|(_, _, code)| text(code)).collect()
    };
    let (both, new) = (texts("sm_90a,sm_80"), texts("sm_90a"));
    assert!(both.len() == 3 && both.iter().all(|text| *text == both[0] && !text.contains("__cluster_dims__")), "{}", both[0]);
    assert!(new.len() == 2 && new.iter().all(|text| text.contains("__cluster_dims__")), "{}", new[0]);
}

#[test]
fn one_container_for_all() {
    let place = Place::new();
    place.file("two.gk", TWO);
    let arguments = ["compile", "two.gk", "--emit", "fatbin", "--arch", "sm_80,sm_90a", "-o", "out"];
    run(&place, Driver::Absent, &[], &arguments).expect(0, &[]);
    assert_eq!(names(&place, "out"), ["two.fatbin"]);
    let bytes = fs::read(place.path("out/two.fatbin")).unwrap();
    let found: Vec<(usize, usize, String)> = entries(&bytes).into_iter().map(|(kind, of, code)| (kind, of, made_for(&code))).collect();
    let wanted = [(2, 80, "sm_80"), (2, 90, "sm_90a"), (1, 90, "compute_90")].map(|(kind, of, name)| (kind, of, name.to_owned()));
    assert_eq!(found, wanted);
    // One file may go to standard output, where that is no terminal.
    let to_standard_output = ["compile", "two.gk", "--emit", "fatbin", "--arch", "sm_80,sm_90a"];
    let mut command = place.command(&to_standard_output);
    let output = standin::prepare(&mut command, Driver::Absent).output().unwrap();
    assert!(output.status.success() && output.stdout == bytes);
    let (status, shown) = on_a_terminal(standin::prepare(&mut place.command(&to_standard_output), Driver::Absent));
    assert_eq!(status.code(), Some(2));
    assert!(shown.contains("two.fatbin is no text for the terminal") && shown.lines().count() == 2, "{shown}");
}

#[test]
fn native_asks_the_driver() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let arguments = ["compile", "scale.gk", "--emit", "cubin", "--arch", "native", "-o", "out"];
    run(&place, Driver::Whole, &[], &arguments).expect(0, &[]);
    assert_eq!(names(&place, "out"), ["scale.sm_90a.cubin"]);
    run(&place, Driver::Absent, &[], &arguments).expect(3, &["--arch sm_90"]);
    // Without --arch as well.
    run(&place, Driver::Absent, &[], &["compile", "scale.gk", "--emit", "ptx"]).expect(3, &["--arch sm_90"]);
}

#[test]
fn lines_are_kept_in_machine_code() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let done = run(&place, Driver::Absent, &[], &["compile", "scale.gk", "--emit", "ptx", "--arch", "sm_90", "--line-info"]);
    done.expect(0, &["#line 2 \"scale.gk\""]);
}

#[test]
fn an_architecture_that_nvrtc_does_not_know() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let arguments = ["compile", "scale.gk", "--emit", "cubin", "--arch", "sm_300", "-o", "out"];
    let done = run(&place, Driver::Absent, &[], &arguments).expect(0, &["does not know sm_300", "PTX for compute_"]);
    assert_eq!(done.err.lines().count(), 1, "{done:#?}");
    assert!(names(&place, "out") == ["scale.sm_300.ptx"], "{:?}", names(&place, "out"));
    // The same text to standard output.
    let done = run(&place, Driver::Absent, &[], &arguments[..6]).expect(0, &["does not know sm_300"]);
    assert_eq!(done.out, fs::read_to_string(place.path("out/scale.sm_300.ptx")).unwrap());
}

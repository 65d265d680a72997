//! `gpukc bench` with stand-ins for the driver and for NVRTC: what is launched and how often, and what is told.
#![cfg(target_os = "linux")]

mod common;
#[path = "../../runtime/tests/standin/mod.rs"]
mod standin;

use std::fs;

use common::{Done, Place, SCALE};
use serde_json::Value;
use standin::Driver;

/// Two launches, the second of which checks its subscripts.
const GATHER: &str = "kernel gather(x: f32[n], k: i32[m]) -> (s: f32, y: f32[m]) {\n    s = sum[i] x[i];\n    y[j] = x[k[j]];\n}\n";

fn bench(place: &Place, driver: Driver, settings: &[(&str, &str)], arguments: &[&str]) -> Done {
    let mut command = place.command(&[&["bench"], arguments].concat());
    standin::prepare(&mut command, driver).env("STANDIN_LOG", place.path("log")).envs(settings.iter().copied());
    Done::from(command.output().unwrap())
}

fn row(done: Done) -> Value {
    serde_json::from_str(&done.expect(0, &[]).out).unwrap()
}

#[test]
fn calls_go_round_as_many_sets_as_the_cache_asks_for() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    // 40 MB of input and as much of result: three sets hold 180 MB, and a launch takes 0.25 ms here.
    let arguments = ["scale.gk", "--in", "a=2", "--in", "x=ones:10000000", "--format", "json"];
    let told = row(bench(&place, Driver::Whole, &[], &arguments));
    assert_eq!((told["sets"].as_u64(), told["calls"].as_u64(), told["method"].as_str()), (Some(3), Some(3), Some("graph")));
    assert_eq!((told["runs"].as_u64(), told["bytes"].as_u64(), told["sites"].as_u64()), (Some(50), Some(80_000_000), Some(0)));
    assert!((told["median_us"].as_f64().unwrap() - 250.0 / 3.0).abs() < 1e-3, "{told}");
    assert!((told["gb_per_s"].as_f64().unwrap() - 960.0).abs() < 1e-3, "{told}");
    let hot = row(bench(&place, Driver::Whole, &[], &[&arguments[..], &["--hot", "--runs", "30"]].concat()));
    assert_eq!((hot["sets"].as_u64(), hot["calls"].as_u64(), hot["runs"].as_u64()), (Some(1), Some(2), Some(30)));
    // Two sets where a third would not fit.
    let small = row(bench(&place, Driver::Whole, &[("STANDIN_MEMORY", "200000000")], &arguments));
    assert_eq!(small["sets"].as_u64(), Some(2));
    let old = row(bench(&place, Driver::Old, &[], &arguments));
    assert_eq!((old["sets"].as_u64(), old["method"].as_str()), (Some(3), Some("event")));
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.lines().filter(|line| line.starts_with("release")).all(|line| line.ends_with("streams=0 events=0")), "{log}");
}

#[test]
fn kernels_that_check_their_subscripts_are_measured() {
    let place = Place::new();
    place.file("gather.gk", GATHER);
    let arguments = ["gather.gk", "--in", "x=ones:1000", "--in", "k=zeros:500", "--format", "json"];
    let told = row(bench(&place, Driver::Whole, &[], &arguments));
    assert_eq!((told["method"].as_str(), told["sites"].as_u64(), told["sets"].as_u64()), (Some("graph"), Some(1), Some(32)));
    let found = bench(&place, Driver::Whole, &[("STANDIN_REPORT", "0 -7 1000")], &arguments);
    found.expect(4, &["index -7 is out of range"]);
}

#[test]
fn results_of_the_first_set_are_written() {
    let place = Place::new();
    place.file("scale.gk", SCALE);
    let arguments = ["scale.gk", "--in", "a=2", "--in", "x=ones:3", "--out", "y=y.npy"];
    bench(&place, Driver::Whole, &[], &arguments).expect(0, &["scale: ", "calls together, as a graph, 32 sets of memory in turn"]);
    // The stand-in computes nothing: the result is what its memory held.
    let file = fs::read(place.path("y.npy")).unwrap();
    assert!(file.starts_with(b"\x93NUMPY") && file.ends_with(&[0xa5; 12]) && !file.ends_with(&[0xa5; 13]));
    bench(&place, Driver::Whole, &[], &[&arguments[..5], &["--out", "z=z.npy"]].concat()).expect(2, &["no result `z`"]);
    let to = |out| bench(&place, Driver::Whole, &[], &[&arguments[..5], &["--out", out]].concat());
    to("y=-").expect(2, &["standard output"]);
    to("y=no/y.npy").expect(4, &["no/y.npy can't be written"]);
    bench(&place, Driver::Whole, &[], &[&arguments[..], &["--runs", "0"]].concat()).expect(2, &["--runs"]);
}

/// What `benches` measures is laid out as usual, checks without a warning, and is compiled.
#[test]
fn kernels_of_the_harnesses() {
    let benches = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches");
    let place = Place::new();
    let mut count = 0;
    let folders = ["peers/kernels", "peers/kernels/others", "sweep"];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(benches.join(folder)).unwrap());
    for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|kind| kind == "gk")) {
        let file = path.to_str().unwrap();
        let checked = place.run(&["check", file]).expect(0, &["no problems"]);
        assert!(!checked.err.contains("warning"), "{checked:#?}");
        place.run(&["fmt", "--check", file]).expect(0, &[]);
        place.run(&["compile", file]).expect(0, &["__global__"]);
        count += 1;
    }
    assert!(count > 15);
}

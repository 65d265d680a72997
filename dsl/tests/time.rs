//! Texts that nobody writes, but a program may: an answer comes in time that is in proportion to their length.

use gpukc_dsl::check::{Checked, check};
use gpukc_dsl::diagnostic::json::json;
use gpukc_dsl::source::Source;
use std::time::{Duration, Instant};

/// A busy machine needs a small part of it; what grows with the square of the length needs many times as much.
const LIMIT: Duration = Duration::from_secs(20);

#[track_caller]
fn in_time(what: &str, text: &str) -> Checked {
    let start = Instant::now();
    let checked = check(&Source::new("t", text));
    assert!(start.elapsed() < LIMIT, "{what}: {:?}", start.elapsed());
    checked
}

/// About a megabyte of each.
#[test]
fn mistakes_in_long_texts() {
    let body = |text: &str| format!("kernel f(x: f32[n]) -> f32 {{ {text} }}");
    for (what, text) in [
        ("items behind what closes nothing", ") kernel ".repeat(120_000)),
        ("items behind what closes something far away", format!("( {}", ") kernel ".repeat(120_000))),
        ("attributes before what closes nothing", format!("{}({}", "@a ".repeat(120_000), "kernel ) ".repeat(50_000))),
        ("statements without an end", body(&"y[i] = x[i]\n".repeat(80_000))),
        ("comparisons in brackets", body(&format!("f({}1);", "(a == b), ".repeat(100_000)))),
        ("texts", "\"".repeat(1_000_000)),
        ("what means nothing", "$ ".repeat(500_000)),
    ] {
        let problems = in_time(what, &text).problems;
        assert!((1..=100).contains(&problems.len()), "{what}: {} problems", problems.len());
    }
}

/// Each is shown with its line and column.
#[test]
fn many_mistakes_in_one_line() {
    let text = "/* \u{e4}\u{1d11e} */ kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; } ".repeat(20_000);
    let source = Source::new("t", text);
    let start = Instant::now();
    let problems = check(&source).problems;
    assert_eq!(problems.len(), 19_999);
    let shown: Vec<String> = problems.iter().map(|problem| json(&source, problem)).collect();
    let last = &shown[19_998];
    assert!(last.contains(&format!("\"line\": 1, \"column\": {},", 19_999 * 59 + 17)), "{last}");
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
}

/// Many facts, and many questions about them. The answers may be that nobody knows.
#[test]
fn questions_about_many_conditions() {
    let each =
        |count: usize, separator: &str, text: &dyn Fn(usize) -> String| (0..count).map(text).collect::<Vec<_>>().join(separator);
    let between = format!(
        "kernel f(x: f32[n], {}) -> y: f32[n] where a0 >= 0, {}, a200 < n {{ y[i] = {}; }}",
        each(201, ", ", &|at| format!("a{at}: i64")),
        each(200, ", ", &|at| format!("a{at} <= a{}", at + 1)),
        each(201, " + ", &|at| format!("x[a{at}]")),
    );
    let multiples = format!(
        "kernel f(x: f32[n]) -> y: f32[n] where {} {{ y[i] = {}; }}",
        each(300, ", ", &|at| format!("n % {} == 0", at + 2)),
        each(300, " + ", &|at| format!("x[i / {0} * {0}]", at + 2)),
    );
    for (what, text) in [("between", between), ("multiples", multiples)] {
        assert!(in_time(what, &text).program.is_some(), "{what}");
    }
}

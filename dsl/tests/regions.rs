//! Definitions whose ranges depend on each other: which divide the array, what becomes of them, and what is said of the others.

use gpukc_dsl::check::check;
use gpukc_dsl::diagnostic::Severity;
use gpukc_dsl::program::{print, verify};
use gpukc_dsl::source::Source;

fn kernel(statements: &str) -> String {
    format!("kernel f(x: f32[n, n], z: f32[m, n]) -> y: f32[n, n] {{\n{statements}\n}}\n")
}

fn accepted(statements: &str) -> String {
    let checked = check(&Source::new("test", kernel(statements)));
    assert!(checked.problems.is_empty(), "{statements}\n{:?}", checked.problems);
    let program = checked.program.expect("no errors, so there is a program");
    verify::program(&program).expect("a program keeps its invariants");
    print::print(&program)
}

/// The code and message of the one error.
fn refused(statements: &str) -> (u16, String) {
    let checked = check(&Source::new("test", kernel(statements)));
    let errors: Vec<_> = checked.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    let [error] = errors[..] else { panic!("{statements}\n{errors:?}") };
    (error.code.0, error.message.clone())
}

#[test]
fn triangles_and_bands() {
    let program = accepted("y[i, j in 0..=i] = x[i, j]; y[i, j in i + 1..n] = 0.0;");
    assert_eq!(program.matches("y[i").count(), 1, "one definition: {program}");
    for statements in [
        "y[i, j in 0..i] = x[j, i]; y[i, j in i..n] = x[i, j];",
        "y[i, j in i..n] = x[i, j]; y[i, j in 0..i] = x[j, i];",
        "y[i, j in 0..i] = 0.0; y[i, j in i..i + 1] = 1.0; y[i, j in i + 1..n] = 2.0;",
        "y[i, j in 0..max(i - 2, 0)] = 0.0; y[i, j in max(i - 2, 0)..min(i + 3, n)] = x[i, j]; y[i, j in min(i + 3, n)..n] = 1.0;",
        "y[i, j in 0..n - 1 - i] = x[i, j]; y[i, j in n - 1 - i..n] = x[i, j] + x[n - 1 - i, j];",
        "y[i in 0..n / 2, j in 0..=i] = 1.0; y[i in 0..n / 2, j in i + 1..n] = 2.0; y[i in n / 2..n, j] = 3.0;",
    ] {
        accepted(statements);
    }
}

#[test]
fn reads_are_proved_in_the_region() {
    // In the whole square x[i + 1, j] and x[i - j - 1, j] would leave it.
    accepted("y[i, j in 0..i] = x[i - j - 1, j]; y[i, j in i..n] = 0.0;");
}

#[test]
fn what_does_not_divide() {
    assert_eq!(refused("y[i, j in 0..=i] = x[i, j]; y[i, j in i..n] = 0.0;"), (402, "`y[0, 0]` is defined twice when n = 1".into()));
    assert_eq!(refused("y[i, j in 0..i] = 1.0; y[i, j in i + 1..n] = 0.0;"), (403, "nothing defines `y[0, 0]` when n = 1".into()));
    assert_eq!(refused("y[i, j in 0..i + 2] = 1.0; y[i, j in i + 2..n] = 0.0;").0, 204);
    assert_eq!(refused("y[i, n - 1 - j] = x[i, j]; y[i, j in 0..i] = 1.0;").0, 403);
    assert_eq!(refused("let t[i, j in 0..=i] = x[i, j]; y[i, j] = 1.0;").0, 309);
    assert_eq!(refused("y[i, j in 0..=i] += x[i, j];").0, 309);
    assert_eq!(refused("y[i in 0..=j, j] = x[i, j];").0, 101);
}

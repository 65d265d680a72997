//! What has its value at the call: dims and scalars, built-in functions of them, scalar `let`s and functions of the program.

use gpukc_dsl::call::{self, CallArgument, integer};
use gpukc_dsl::check::check;
use gpukc_dsl::program::Literal;
use gpukc_dsl::source::Source;

/// The extents of the first result of a kernel of one dim and one f64 at a call; an error's text.
fn extents(text: &str, n: i64, a: f64) -> Result<Vec<i64>, String> {
    let checked = check(&Source::new("test", text));
    let program = checked.program.unwrap_or_else(|| panic!("{text}\n{:?}", checked.problems));
    let kernel = &program.kernels[0];
    let x = CallArgument::Array { element: kernel.arrays[kernel.results[0]].element, shape: &[n] };
    let bindings = call::bind(kernel, &[x, CallArgument::Scalar(Literal::Float(a))]).map_err(|error| error.to_string())?;
    Ok(kernel.arrays[kernel.results[0]].shape.iter().map(|&extent| integer(kernel, &bindings, extent)).collect())
}

fn of(extent: &str) -> Result<Vec<i64>, String> {
    extents(&format!("kernel f(x: i64[n], a: f64) -> y: i64[{extent}] {{ y[i] = i; }}"), 10, 2.5)
}

#[test]
fn built_in_functions() {
    for (extent, wanted) in [
        ("exp(a) as i64", 12),
        ("(exp(a as f32) * 10.0) as i64", 121),
        ("pow(a, 3.0) as i64", 15),
        ("log2(a * 16.0) as i64", 5),
        ("(sin(a) * 100.0) as i64", 59),
        ("(hypot(3.0f64, 4.0) + rsqrt(a * 10.0)) as i64", 5),
        ("mul_add(a, 2.0, 1.0) as i64", 6),
        ("clamp(a, 3.0, 9.0) as i64", 3),
        ("min(n, (cbrt(27.5f64)) as i64)", 3),
    ] {
        assert_eq!(of(extent), Ok(vec![wanted]), "{extent}");
    }
    let condition = "kernel f(x: i64[n], a: f64) -> y: i64[n] where log(a) > 1.0 { y[i] = i; }";
    assert!(extents(condition, 3, 2.5).unwrap_err().contains("log(a) > 1.0"));
    assert_eq!(extents(condition, 3, 2.8), Ok(vec![3]));
}

#[test]
fn functions_of_the_program() {
    let text = "fn half(k: i64) -> i64 { let h = k / 2; h }\n\
        fn area(k: i64, l: i64) -> i64 { half(k) * half(l + half(k)) }\n\
        kernel f(x: i64[n], a: f64) -> y: i64[area(n, n) + 1] where half(n) > 1 { y[i] = i; }";
    assert_eq!(extents(text, 10, 0.0), Ok(vec![36]));
    assert!(extents(text, 2, 0.0).is_err());
    let loops = "fn root(k: i64) -> i64 { let mut r = 0; while r * r < k { r = r + 1; } r }\n\
        kernel f(x: i64[n]) -> y: i64[root(n)] { y[i] = i; }";
    let problems = check(&Source::new("test", loops)).problems;
    assert!(problems.len() == 1 && problems[0].code.0 == 309, "{problems:?}");
}

#[test]
fn scalar_lets() {
    let accepted = |text: &str| {
        let problems = check(&Source::new("test", text)).problems;
        assert!(problems.is_empty(), "{text}\n{problems:?}");
    };
    accepted(
        "kernel f(x: f32[n]) -> y: f32[n] { let k = n / 2; let t[i in 0..k] = x[2 * i]; y[i in 0..k] = t[i]; y[i in k..n] = 1.0; }",
    );
    accepted("kernel f(x: f32[n]) -> y: f32[n] { let k: i64 = n - n / 3; let l = k / 2; y[i in 0..l] = 0.0; y[i in l..n] = 1.0; }");
    let doubled: String = (1..60).map(|i| format!("let k{i} = k{} * k{};", i - 1, i - 1)).collect();
    let text = format!("kernel f(x: f32[n]) -> y: f32[n] {{ let k0 = n; {doubled} let t[i in 0..k59] = 1.0; y[i] = x[i]; }}");
    let problems = check(&Source::new("test", text.as_str())).problems;
    assert!(problems.iter().any(|problem| problem.code.0 == 309), "{problems:?}");
}

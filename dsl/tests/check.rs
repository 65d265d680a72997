//! What the checker accepts and refuses, with codes and positions; and the program that it makes.

use gpukc_dsl::check::{Checked, check};
use gpukc_dsl::diagnostic::{Severity, json::json};
use gpukc_dsl::program::{print, verify};
use gpukc_dsl::source::Source;

fn checked(text: &str) -> (Source, Checked) {
    let source = Source::new("test", text);
    let checked = check(&source);
    (source, checked)
}

/// The printed program of a text that is accepted without a warning.
fn accepts(text: &str) -> String {
    let (_, checked) = checked(text);
    assert!(checked.problems.is_empty(), "{text}\n{:?}", checked.problems);
    let program = checked.program.expect("no errors, so there is a program");
    verify::program(&program).expect("a program keeps its invariants");
    print::print(&program)
}

/// Asserts that a text is refused with one error: code, position, and a part of the message or help.
fn refuses(text: &str, code: u16, at: (usize, usize), says: &str) {
    let (source, checked) = checked(text);
    let errors: Vec<_> = checked.problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    let [error] = errors[..] else { panic!("{text}\n{errors:?}") };
    let position = source.position(error.span().start as usize);
    assert_eq!((error.code.0, position.line, position.column), (code, at.0, at.1), "{text}\n{error:?}");
    let all = json(&source, error);
    assert!(all.contains(says), "{all}");
}

fn body(statement: &str) -> String {
    format!("kernel f(x: f32[n], k: i32[n], u: u32[n], b: bool[n], h: f16[n], a: f32[m, n]) -> y: f32[n] {{\n    {statement}\n}}\n")
}

#[test]
fn orders() {
    let scan = accepts("kernel f(x: f32[n]) -> y: f32[n] { y[i] = sum[j in 0..=i] x[j]; }");
    assert!(scan.contains("sum<f32, scan along i, forward, inclusive>"), "{scan}");
    let backward = accepts("kernel f(x: f32[n]) -> y: f32[n] { y[i] = max[j in i + 1..n] x[j]; }");
    assert!(backward.contains("max<f32, scan along i, backward, exclusive>"), "{backward}");
    let window = accepts("kernel f(x: f32[n]) -> y: f32[n] { y[i] = sum[j in i - 2..=i + 2] x[j | 0.0]; }");
    assert!(window.contains("sharing i"), "{window}");
    let own = accepts("kernel f(x: f32[n]) -> y: f32[n] { y[i] = sum[j in 0..=i] x[j] * x[i]; }");
    assert!(own.contains("sum<f32, sharing i, fused>"), "{own}");
    let product = accepts("kernel f(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n] { c[i, j] = sum[l] a[i, l] * b[l, j]; }");
    assert!(product.contains("sum<f32, sharing i j, fused>"), "{product}");
    let rows = accepts("kernel f(a: f32[m, n], x: f32[n]) -> y: f32[m] { y[i] = sum[j] a[i, j] * x[j]; }");
    assert!(rows.contains("sum<f32, canonical, fused>"), "{rows}");
    let flat = accepts(
        "kernel f(x: f32[p], w: f32[n], d: f32[m]) -> y: f32[m] where p == m * n { y[i] = sum[k] x[i * n + k] * w[k] + d[i]; }",
    );
    assert!(flat.contains("sum<f32, canonical, fused>"), "{flat}");
    let whole = accepts("kernel f(x: i32[n]) -> i64 { sum[i] x[i] }");
    assert!(whole.contains("sum<i64, exact>[i in 0..n] x[i] as i64"), "{whole}");
    let data = accepts("kernel f(s: i32[m], x: f32[n]) -> y: f32[m - 1] where m >= 1 { y[i] = sum[j in s[i]..s[i + 1]] x[j]; }");
    assert!(data.contains("canonical"), "{data}");
}

#[test]
fn products_are_fused_at_the_top_only() {
    let quotient = accepts("kernel f(a: f32[n], b: f32[n]) -> f32 { sum[i] a[i] * b[i] / a[i] }");
    assert!(!quotient.contains("fused"), "{quotient}");
    let parentheses = accepts("kernel f(a: f32[n], b: f32[n]) -> f32 { sum[i] ((a[i] * b[i])) }");
    assert!(parentheses.contains("fused"), "{parentheses}");
    let whole = accepts("kernel f(a: i32[n], b: i32[n]) -> i64 { sum[i] a[i] * b[i] }");
    assert!(!whole.contains("fused"), "{whole}");
}

#[test]
fn accumulators() {
    for (element, accumulator) in [
        ("u8", "i64"),
        ("i32", "i64"),
        ("u32", "u64"),
        ("u64", "u64"),
        ("bool", "i64"),
        ("f16", "f32"),
        ("bf16", "f32"),
        ("f64", "f64"),
    ] {
        let text = accepts(&format!("kernel f(x: {element}[n]) -> {accumulator} {{ sum[i] x[i] }}"));
        assert!(text.contains(&format!("sum<{accumulator}, ")), "{text}");
    }
    let selected = accepts("kernel f(x: f16[n]) -> f16 { max[i] x[i] }");
    assert!(selected.contains("max<f16, exact>[i in 0..n] x[i]"), "{selected}");
    let wide = accepts("@accumulate(f64)\nkernel f(x: f32[n], w: f32[n]) -> f64 { sum[i] x[i] * w[i] }");
    assert!(wide.contains("sum<f64, canonical, fused>[i in 0..n] (x[i] as f64) * (w[i] as f64)"), "{wide}");
}

#[test]
fn means_and_nested_brackets() {
    let mean = accepts("kernel f(x: f16[n]) -> f32 { mean[i] x[i] }");
    assert!(mean.contains("(sum<f32, canonical>[i in 0..n] x[i] as f32) / (n as f32)"), "{mean}");
    let filtered = accepts("kernel f(x: f32[n]) -> f32 { mean[i if x[i] > 0.0] x[i] }");
    assert!(filtered.contains("((count<i64, exact>[i in 0..n] (x[i] > 0.0f32)) as f32)"), "{filtered}");
    let nested = accepts("kernel f(x: f32[n, n]) -> f32 { sum[i, j in i..n] x[i, j] }");
    assert!(nested.contains("[i in 0..n] sum<f32, "), "{nested}");
    let counts = accepts("kernel f(x: f32[n, n]) -> i64 { count[i, j in i..n] (x[i, j] > 0.0) }");
    assert!(counts.contains("sum<i64, exact>[i in 0..n] count<i64, exact>[j in i..n]"), "{counts}");
}

#[test]
fn subscripts_that_are_proved() {
    for text in [
        "kernel f(x: f32[m, n]) -> y: f32[m * n] { y[i] = x[i / n, i % n]; }",
        "kernel f(x: f32[a, b, c]) -> y: f32[a * b * c] { y[i] = x[i / (b * c), i / c % b, i % c]; }",
        "kernel f(x: f32[a * b * c], d: f32[a, b, c]) -> y: f32[a, b, c] { y[i, j, k] = x[(i * b + j) * c + k] + d[i, j, k]; }",
        "kernel f(x: f32[n]) -> y: f32[(n + 2) / 3] { y[i] = x[3 * i]; }",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[n - 1 - i] + x[(i + 1) % n] + x[mod_floor(i - 1, n)]; }",
        "kernel f(x: f32[n], k: i64) -> y: f32[n] { y[i] = x[mod_floor(i + k, n)] + x[clamp(i + k, 0, n - 1)]; }",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[clamp(i - 3, 0, n - 1)] + x[max(i - 1, 0)] + x[min(i + 1, n - 1)]; }",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = if i == 0 || i == n - 1 { 0.0 } else { x[i - 1] + x[i + 1] }; }",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = if i != 0 { x[i - 1] } else { 0.0 }; }",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[if i > 0 { i - 1 } else { 0 }]; }",
        "kernel f(x: f32[n]) -> y: f32[n, n] { y[i, j] = x[abs(i - j)]; }",
        "kernel f(t: f32[p * q], a: f32[p], b: f32[q]) -> y: f32[p, q] { y[i, j] = t[i * j] + a[i] + b[j]; }",
        "kernel f(x: f32[n], k: f32[b]) -> y: f32[n / b] where n % b == 0 { y[i] = sum[j in 0..b] x[i * b + j] * k[j]; }",
        "kernel f(x: f32[n], w: f32[r]) -> y: f32[n - r + 1] where r <= n { y[i] = sum[j] x[i + j] * w[j]; }",
        "kernel f(x: f32[n], k: i64[m]) -> y: f32[m] { y[i] = if k[i] >= 0 && k[i] + 1 < n && k[i] < n { x[k[i]] } else { 0.0 }; }",
    ] {
        assert!(!accepts(text).contains("checked"), "{text}");
    }
}

#[test]
fn arithmetic_that_may_wrap_proves_nothing() {
    // k[i] + 1 may wrap to the least integer, so the guard does not keep it in range.
    let text =
        accepts("kernel f(x: f32[n], k: i64[m]) -> y: f32[m] { y[i] = if k[i] >= 0 && k[i] + 1 < n { x[k[i] + 1] } else { 0.0 }; }");
    assert!(text.contains("x[k[i] + 1 | checked]"), "{text}");
    // With an upper bound on k[i] itself it does.
    let text =
        accepts("kernel f(x: f32[n], k: i64[m]) -> y: f32[m] { y[i] = if k[i] >= 0 && k[i] < n - 1 { x[k[i] + 1] } else { 0.0 }; }");
    assert!(!text.contains("checked"), "{text}");
}

#[test]
fn subscripts_that_the_call_checks() {
    let text = accepts("kernel f(x: f32[n], z: f32[m], k: i64) -> y: f32[m] { y[i] = z[i] + x[i + k]; }");
    assert!(text.contains("require m <= 0 || 0 <= 0 + k && 0 + k < n"), "{text}");
    assert!(text.contains("require m <= 0 || 0 <= m - 1 + k && m - 1 + k < n"), "{text}");
    let text = accepts("kernel f(m: i64) -> y: i64[m] { y[i] = i; }");
    assert!(text.contains("require m >= 0"), "{text}");
}

#[test]
fn kernel_calls_are_expanded() {
    let quads = "kernel quads(x: i32[n]) -> y: i32[n / 4] where n % 4 == 0 { y[i] = max[t in 0..4] x[4 * i + t]; }\n";
    let passed = accepts(&format!("{quads}kernel top(x: i32[n]) -> y: i32[n / 4] {{ let q = quads(x); y[i] = q[i]; }}"));
    assert!(passed.contains("require n % 4 == 0  // where quads: n % 4 == 0"), "{passed}");
    let follows =
        accepts(&format!("{quads}kernel top(x: i32[n]) -> y: i32[n / 4] where n % 8 == 0 {{ let q = quads(x); y[i] = q[i]; }}"));
    assert_eq!(follows.matches("require n % 4").count(), 1, "{follows}");
}

#[test]
fn definitions_that_cover() {
    for text in [
        "kernel f(a: f32[n], b: f32[n]) -> y: f32[2 * n] { y[2 * i] = a[i]; y[2 * i + 1] = b[i]; }",
        "kernel f(x: f32[n]) -> y: f32[n] where n >= 1 { y[0] = 1.0; y[i in 1..n] = x[i] - x[i - 1]; }",
        "kernel f(x: f32[m, n]) -> y: f32[m * n] { y[i * n + j] = x[i, j]; }",
        "kernel f(x: f32[n]) -> y: f32[n] { y[n - 1 - i] = x[i]; }",
        "kernel f(a: f32[(n + 2) / 3], b: f32[(n + 1) / 3], c: f32[n / 3], d: f32[n]) -> y: f32[n] { y[3 * i] = a[i]; y[3 * i + 1] = b[i]; y[3 * i + 2] = c[i]; }",
        "kernel f(x: f32[m, n]) -> y: f32[2 * m, n] { y[2 * i, j] = x[i, j]; y[2 * i + 1, n - 1 - j] = x[i, j]; }",
        "kernel f(k: i32[n], s: i64[b]) -> h: i64[b] { h[c] = s[c]; h[k[i]] += 1; }",
    ] {
        accepts(text);
    }
}

#[test]
fn literals_take_the_type_that_they_need() {
    let text = accepts(
        "fn g(x: f64) -> f64 { let mut s = 0; for i in 0..3 { s = s + x; } s * 2 }\nkernel f(x: f64[n]) -> y: f64[n] { y[i] = g(x[i]) / 3; }",
    );
    assert!(text.contains("s.1 = 0.0f64") && text.contains("/ 3.0f64"), "{text}");
    let text = accepts(
        "kernel f(n: i64) -> (a: i32[n], b: u64[n], c: u8[n]) { a[i] = -2147483648; b[i] = 18446744073709551615; c[i] = 255; }",
    );
    assert!(text.contains("-2147483648i32") && text.contains("18446744073709551615u64") && text.contains("255u8"), "{text}");
    let text = accepts("kernel f(x: f16[n]) -> y: f16[n] { y[i] = x[i] * 0.1; }");
    assert!(text.contains("((x[i] as f32) * 0.1f32) as f16"), "{text}");
}

#[test]
fn suggestions_fit() {
    let kernel = |element: &str, other: &str, out: &str, value: &str| {
        format!("kernel f(x: {element}[n], z: {other}[n]) -> y: {out}[n] {{ y[i] = {value}; }}")
    };
    refuses(&kernel("u8", "u32", "u32", "x[i] + z[i]"), 302, (1, 58), "(x[i] as u32)");
    refuses(&kernel("u64", "u16", "u64", "x[i] + z[i]"), 302, (1, 59), "(z[i] as u64)");
    refuses(&kernel("bool", "f32", "i32", "x[i] + 1"), 302, (1, 60), "(x[i] as i32)");
    refuses(&kernel("i32", "u32", "i64", "min(x[i], z[i])"), 302, (1, 54), "(z[i] as i64)");
    accepts(&kernel("i32", "u32", "i64", "min((x[i] as i64), (z[i] as i64))"));
    refuses(&kernel("bool", "f32", "bool", "x[i] & z[i]"), 302, (1, 61), "in parentheses");
    accepts(&kernel("u8", "u32", "u32", "(x[i] as u32) + z[i]"));
    accepts(&kernel("bool", "f32", "i32", "(x[i] as i32) + 1"));
}

#[test]
fn reserved_words_where_names_should_be() {
    for (word, column) in [("min", 38), ("if", 38), ("true", 38), ("u8", 38), ("argmax", 38)] {
        refuses(&format!("kernel f(x: f32[n]) -> y: f32[n] {{ y[{word}] = 1.0; }}"), 3, (1, column), word);
    }
    for word in ["min", "if"] {
        refuses(&format!("kernel f(x: f32[{word}]) -> y: f32[3] {{ y[i] = 1.0; }}"), 3, (1, 17), word);
    }
}

#[test]
fn one_mistake_one_error() {
    refuses("kernel f(a: f32[n], b: f32[n]) -> bool { any[k] a[k] > b[k] }", 306, (1, 49), "(a[k] > b[k])");
    refuses("kernel f(a: f32[n]) -> i64 { count[k] a[k] > 1.0 }", 306, (1, 39), "(a[k] > 1.0)");
    refuses("kernel f(x: f32[n]) -> f32 { sum[j] x[j] - x[j] + x[j] }", 108, (1, 46), "parentheses");
    let nine = "kernel f(x: bool[n]) -> y: f32[n] { let t[a, b, c, d, e, g, h, i, j] = x[a] && x[b] && x[c] && x[d] && x[e] && x[g] && \
        x[h] && x[i] && x[j]; y[i] = 1.0; }";
    refuses(nine, 212, (1, 41), "9 dimensions");
}

#[test]
fn names() {
    refuses(&body("y[i] = xx[i];"), 101, (2, 12), "`x`");
    refuses(&body("y[i] = ln(x[i]);"), 102, (2, 12), "log");
    refuses(&body("y[i] = to_bits(x[i]) as f32;"), 102, (2, 12), "to_bits");
    refuses(&body("y[i] = sum[i] x[i];"), 103, (2, 16), "`i`");
    refuses(&body("y[i] = x + 1.0;"), 105, (2, 12), "x[i]");
    refuses(&body("y[i] = (sum[j] x[j] - h[j]) * x[i];"), 108, (2, 29), "(x[j] - h[j])");
    refuses("fn g(x: f32) -> f32 { h(x) }\nfn h(x: f32) -> f32 { g(x) }\n", 106, (1, 4), "recursive");
    refuses("const A: i64 = B;\nconst B: i64 = A;\nkernel f(x: f32[A]) -> y: f32[A] { y[i] = x[i]; }", 106, (1, 7), "recursive");
    refuses("kernel f(x: f32[n], x: f32[n]) -> y: f32[n] { y[i] = x[i]; }", 103, (1, 21), "x");
}

#[test]
fn ranges_and_subscripts() {
    refuses(&body("y[i] = a[i];"), 201, (2, 12), "2 dimensions");
    refuses(&body("y[i] = sum[j] x[j | 0.0];"), 202, (2, 16), "`j`");
    refuses("kernel f(a: f32[m], b: f32[n]) -> f32 {\n    sum[i] a[i] * b[i]\n}\n", 203, (2, 9), "0..m in `a[i]` and 0..n in `b[i]`");
    refuses(&body("y[i] = x[i - 1];"), 204, (2, 14), "x[-1] when i = 0");
    refuses(
        "kernel f(x: f32[n], z: f32[m]) -> y: f32[m] {\n    y[i] = z[i] + x[2 * i];\n}",
        204,
        (2, 21),
        "reads x[2] when n = 1, m = 2, i = 1",
    );
    refuses(&body("y[i] = x[i | clmap];"), 206, (2, 18), "clmap");
    refuses("kernel f(x: f32[n]) -> y: f32[n - 1] { y[i] = x[i + 1]; }", 209, (1, 31), "where n >= 1");
    refuses(&body("y[i] = x[x[i]];"), 210, (2, 14), "floor");
}

#[test]
fn types() {
    refuses(&body("y[i] = x[i] + k[i];"), 302, (2, 17), "x[i] + (k[i] as f32)");
    refuses(&body("y[i] = if k[i] < u[i] { 1.0 } else { 0.0 };"), 302, (2, 20), "as i64");
    refuses(&body("y[i] = k[i];"), 303, (2, 12), "k[i] as f32");
    refuses(&body("y[i] = (k[i] + 3000000000) as f32;"), 304, (2, 20), "i32");
    refuses(&body("y[i] = (u[i] + -1) as f32;"), 304, (2, 20), "negative");
    refuses(&body("y[i] = (-u[i]) as f32;"), 305, (2, 13), "u32");
    refuses(&body("y[i] = if k[i] { 1.0 } else { 0.0 };"), 306, (2, 15), "!= 0");
    refuses(&body("y[i] = pow(x[i]);"), 307, (2, 12), "2 arguments");
    refuses(&body("y[i] = b[i] as f32;"), 310, (2, 12), "as i32");
    refuses("kernel f(x: float[n]) -> y: f32[n] { y[i] = 1.0; }", 301, (1, 13), "float");
}

#[test]
fn definitions() {
    refuses("kernel f(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; }", 401, (1, 36), "`z`");
    refuses(&body("y[i] = x[i];\n    y[i] = 2.0;"), 402, (3, 5), "`y[0]`");
    refuses("kernel f(a: f32[n]) -> y: f32[2 * n] { y[2 * i] = a[i]; }", 403, (1, 40), "y[1]");
    refuses("kernel f(k: i32[n], w: f32[n]) -> h: f32[16] { h[k[i]] = w[i]; }", 404, (1, 50), "`h`");
    refuses(&body("x[i] = 1.0;"), 406, (2, 5), "parameter");
    refuses(&body("y[i] = y[i] + x[i];"), 407, (2, 12), "`y`");
    refuses("kernel f(x: f32[n]) -> f32 { let s = sum[i] x[i]; }", 409, (1, 51), "f32");
}

#[test]
fn attributes_and_calls() {
    refuses("@fastmath\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }", 501, (1, 2), "fast_math");
    refuses("@block(0)\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }", 502, (1, 1), "block");
    let g = "kernel g(x: f32[n]) -> z: f32[n] where n >= 5 { z[i] = x[i]; }\n";
    refuses(&format!("{g}kernel f(x: f64[n]) -> y: f64[n] {{ let p = g(x); y[i] = p[i]; }}"), 601, (2, 46), "f64");
    refuses(&format!("{g}kernel f(x: f32[n]) -> y: f32[n] {{ let (p, q) = g(x); y[i] = p[i]; }}"), 602, (2, 41), "1 result,");
    refuses(&format!("{g}kernel f(x: f32[n]) -> y: f32[n] {{ y[i] = g(x); }}"), 604, (2, 43), "let p = g(…)");
    refuses(&format!("{g}kernel f(x: f32[3]) -> y: f32[3] {{ let p = g(x); y[i] = p[i]; }}"), 605, (2, 44), "3 >= 5");
}

#[test]
fn division_inside_a_body_is_warned_of() {
    let (source, checked) = checked("kernel f(x: f32[n]) -> f32 {\n    sum[k] x[k] / 9.0\n}\n");
    assert!(checked.program.is_some());
    let [warning] = &checked.problems[..] else { panic!("{:?}", checked.problems) };
    assert_eq!((warning.severity, warning.code.0), (Severity::Warning, 207));
    assert_eq!(source.position(warning.span().start as usize).column, 17);
    let [suggestion] = &warning.suggestions[..] else { panic!("{:?}", warning.suggestions) };
    let mut text = source.text().to_string();
    for (span, new) in suggestion.edits.iter().rev() {
        text.replace_range(span.range(), new);
    }
    assert!(text.contains("    (sum[k] x[k]) / 9.0\n"), "{text}");
}

#[test]
fn long_and_deep_expressions() {
    let chain = vec!["x[i]"; 3000].join(" + ");
    accepts(&format!("kernel f(x: f32[n]) -> y: f32[n] {{ y[i] = {chain}; }}"));
    let conditions = vec!["x[i] > 0.0"; 1500].join(" && ");
    accepts(&format!("kernel f(x: f32[n]) -> y: bool[n] {{ y[i] = {conditions}; }}"));
    for deep in [
        format!("{}x[i]{}", "abs(".repeat(200), ")".repeat(200)),
        format!("{}x[i]", "- ".repeat(200)),
        format!("{}x[0]", "if i > 0 { 1.0 } else ".repeat(0)) + &" + 1.0".repeat(10),
        format!("{}1.0{}", "if i > 0 { x[i] } else { ".repeat(100), " }".repeat(100)),
    ] {
        let (_, checked) = checked(&format!("kernel f(x: f32[n]) -> y: f32[n] {{ y[i] = {deep}; }}"));
        assert!(checked.program.is_some() || !checked.problems.is_empty());
    }
}

/// A mistake in a deep nest ends every attempt to read it another way; none of them starts anew at each level.
#[test]
fn mistakes_in_deep_nests_are_found_in_time() {
    let nest = |open: &str, inside: &str, close: &str| format!("{}{inside}{}", open.repeat(120), close.repeat(120));
    for inside in ["", "x[", "1 +", "if", ")"] {
        for (open, close) in
            [("if true { ", " } else { 0 }"), ("if true { 0 } else { ", " }"), ("if ", " { 1 } else { 0 }"), ("(", ")")]
        {
            let deep = nest(open, inside, close);
            for text in [
                format!("kernel f(x: f32[n]) -> y: f32[n] {{ y[i] = {deep}; }}"),
                format!("kernel f(x: f32[{deep}]) -> f32 {{ 0.0 }}"),
                format!("@block({deep})\nkernel f(x: f32[n]) -> f32 {{ 0.0 }}"),
                format!("fn f(x: f32) -> f32 {{ let a = {deep}; {deep} }}"),
            ] {
                assert!(checked(&text).1.failed(), "{text}");
            }
        }
    }
    // Nests that are left open.
    for open in [
        "(sum[j] x[j] * ",
        "(prod[j] x[j] / ",
        "max[j] x[j] % (",
        "f(sum[j] x[j] * ",
        "x[sum[j] x[j] * ",
        "min[j if (",
        "sum[j in 0..(",
    ] {
        let deep = open.repeat(120);
        for text in [
            format!("kernel f(x: f32[n]) -> y: f32[n] {{ y[i] = {deep}; }}"),
            format!("kernel f(x: f32[n]) -> y: f32[n] {{ y[{deep}] = x[i]; }}"),
            format!("fn f(x: f32) -> f32 {{ let a = {deep}1.0; a }}"),
        ] {
            assert!(checked(&text).1.failed(), "{text}");
        }
    }
}

#[test]
fn an_index_may_be_called_like_its_kernel() {
    accepts("kernel q(x: f32[n]) -> f32 { sum[q] x[q] }");
    accepts("kernel k(x: i64[m, n]) -> y: i64[m, n] { y[i, k] = sum[j in 0..=k] x[i, j]; }");
    accepts("kernel exp(x: f32[n]) -> y: f32[n] { y[i] = exp(x[i]); }");
    refuses("kernel k(x: f32[n]) -> y: f32[n] {\n    let p = k(x);\n    y[i] = p[i];\n}\n", 106, (1, 8), "");
}

//! What the formatter makes of programs, and what it must not: it changes neither trees nor comments, and its result is final.

#[path = "format/random.rs"]
mod random;

use std::fs;
use std::path::{Path, PathBuf};

use gpukc_dsl::diagnostic::render::human;
use gpukc_dsl::format::{Refusal, format};
use gpukc_dsl::parser::parse;
use gpukc_dsl::source::Source;

/// The tree without its spans, and the comments; `None` if there are errors.
fn meaning(text: &str) -> Option<(String, Vec<String>)> {
    let source = Source::new("test.gk", text);
    let (file, problems) = parse(&source);
    if !problems.is_empty() {
        return None;
    }
    let shown = format!("{:?}", file.items);
    let mut tree = String::new();
    let mut rest = shown.as_str();
    while let Some(at) = rest.find("Span {") {
        tree.push_str(&rest[..at]);
        rest = rest[at..].split_once('}').expect("the end of a span").1;
    }
    let comments = file.comments.iter().map(|&span| source.slice(span).trim_end().replace("\r\n", "\n"));
    Some((tree + rest, comments.collect()))
}

/// Formats a program and checks what holds for all.
#[track_caller]
fn formatted(text: &str) -> String {
    let once = |text: &str| match format(&Source::new("test.gk", text)) {
        Ok(formatted) => formatted,
        Err(Refusal::Program(problems)) => panic!("{}", human(&Source::new("test.gk", text), &problems, false)),
        Err(Refusal::Internal) => panic!("the formatter fails for\n{text}"),
    };
    let result = once(text);
    assert!(result.is_empty() || result.ends_with('\n') && !result.ends_with("\n\n"), "{result:?}");
    assert!(!result.starts_with('\n') && !result.contains("\n\n\n"), "{result}");
    let (before, after) = (meaning(text).expect("a program"), meaning(&result).expect("a program"));
    assert_eq!(before.1, after.1, "comments of\n{text}\nnow\n{result}");
    assert!(before.0 == after.0, "another tree:\n{text}\nnow\n{result}");
    let again = once(&result);
    assert!(again == result, "not final: {}\nof\n{text}", difference(&result, &again));
    result
}

/// The first lines that differ, with those around.
fn difference(one: &str, other: &str) -> String {
    let same = one.lines().zip(other.lines()).take_while(|(one, other)| one == other).count();
    let piece = |text: &str| text.lines().skip(same.saturating_sub(6)).take(12).collect::<Vec<_>>().join("\n");
    format!("\n{}\n-- then\n{}", piece(one), piece(other))
}

#[track_caller]
fn becomes(text: &str, expected: &str) {
    let result = formatted(text);
    assert!(result == expected, "expected\n{expected}\n-- got\n{result}");
}

#[track_caller]
fn stays(text: &str) {
    becomes(text, text);
}

/// Deep trees need more stack than a test has.
fn with_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(512 << 20).spawn(work).expect("a thread");
    thread.join().expect("no panic");
}

// ---- by hand

#[test]
fn the_usual_style_stays() {
    stays(
        "// saxpy
kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] {
    z[i] = a * x[i] + y[i];
}

kernel total(x: f32[n]) -> f32 { sum[i] x[i] }
fn gelu(x: f32) -> f32 { 0.5 * x * (1.0 + erf(x * 0.70710678)) }
kernel linear(x: bf16[m, k], w: bf16[k, n], b: f32[n]) -> y: bf16[m, n] {
    y[i, j] = gelu(sum[l] x[i, l] * w[l, j] + b[j]);
}

kernel transpose(x: f32[m, n]) -> y: f32[n, m] { y[j, i] = x[i, j]; }
kernel blur3(x: f32[h, w]) -> y: f32[h, w] {
    y[i, j] = (sum[di in -1..=1, dj in -1..=1] x[i + di | clamp, j + dj | clamp]) / 9.0;
}

kernel histogram(key: u8[n]) -> h: i32[256] { h[key[i]] += 1; }
",
    );
}

#[test]
fn spaces_and_lines() {
    becomes(
        "\n\n  kernel   saxpy ( a :f32 ,x:f32 [ n ],y : f32[n] , )->z:f32[n]{z[i]=a*x[i]+y[i] ;w [ i ]=- a as f64;}const A:i64=1 ;",
        "kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] {
    z[i] = a * x[i] + y[i];
    w[i] = -a as f64;
}

const A: i64 = 1;
",
    );
    becomes(
        "kernel k(x: f32[n]) -> (y: f32[n]) where n%4==0,k<=1024, {\n\n\n  let (a,b,)=moments(x);\n\n\n y[i] = x[i];\n\n}\n\n\n\n",
        "kernel k(x: f32[n]) -> (y: f32[n]) where n % 4 == 0, k <= 1024 {
    let (a, b) = moments(x);

    y[i] = x[i];
}
",
    );
    becomes("kernel k() -> f32 {\n\n}", "kernel k() -> f32 {}\n");
    becomes("", "");
    becomes(" \r\n\t", "");
}

#[test]
fn line_ends_and_byte_order_mark() {
    becomes(
        "\u{feff}// one \r\n/* two\r\n   three */\r\nkernel k(x: f32[n]) -> f32\r\n{\r\n    sum[i] x[i] // four\t\r\n}",
        "// one\n/* two\n   three */\nkernel k(x: f32[n]) -> f32 {\n    sum[i] x[i] // four\n}\n",
    );
}

#[test]
fn comments_between_items() {
    stays(
        "// of the file

// before
/// Documents k.
/// More.
@exact // why
kernel k(x: f32[n]) -> f32 { sum[i] x[i] } // after
// next

const A: i64 = 1; /* one */
/* two */ const B: i64 = 2;
/// Documents C.
const C: i64 = 3;

// last

/* of the file */
",
    );
    becomes(
        "kernel k(x: f32[n]) -> f32 {\n    sum[i] x[i]\n}\n// about l\n///Documents l.\n\nkernel l(x: f32[n]) -> f32 { sum[i] x[i] }",
        "kernel k(x: f32[n]) -> f32 {
    sum[i] x[i]
}

// about l
///Documents l.
kernel l(x: f32[n]) -> f32 { sum[i] x[i] }
",
    );
}

#[test]
fn comments_between_statements() {
    becomes(
        "kernel k(x: f32[n]) -> y: f32[n] { // first

  // second


        // third
      let a = 1.0; // fourth
      /* fifth
           /* nested */ as it was */
      y[i] = a; /* sixth */
            // last

}
",
        "kernel k(x: f32[n]) -> y: f32[n] { // first
    // second

    // third
    let a = 1.0; // fourth
    /* fifth
           /* nested */ as it was */
    y[i] = a; /* sixth */
    // last
}
",
    );
    becomes("kernel k() -> f32 {\n// nothing\n}", "kernel k() -> f32 {\n    // nothing\n}\n");
    becomes("kernel k() -> f32 {/* nothing */}", "kernel k() -> f32 { /* nothing */ }\n");
}

#[test]
fn comments_inside_statements() {
    becomes(
        "kernel k(x: f32[n] /* in */, // one\n a: f32 // two\n) -> y: f32[n] {
    y[i] = x[i] /* left */ + // right
      a * f(a, // first
        x[/* here */ i], b /* there */);
    y[i] = // moved
      a;
    y // odd
    [i] = a // late
    ;
}",
        "kernel k(
    x: f32[n] /* in */, // one
    a: f32, // two
) -> y: f32[n] {
    y[i] = x[i]
        /* left */ + // right
        a
            * f(
                a, // first
                x[/* here */ i],
                b, /* there */
            );
    y[i] = // moved
        a;
    y // odd
    [i] = a // late
    ;
}
",
    );
}

#[test]
fn long_headers() {
    stays(
        "kernel attention(
    queries: f32[heads, n, d],
    keys: f32[heads, m, d],
    values: f32[heads, m, d],
    scale: f32,
) -> out: f32[heads, n, d] {
    out[h, i, j] = 0.0;
}

kernel normalised(inputs: f32[rows, columns], gain: f32[columns]) -> outputs: f32[rows, columns]
    where columns % 4 == 0, columns <= 1024
{
    outputs[i, j] = inputs[i, j] * gain[j];
}

kernel moments(x: f32[rows, columns]) -> (
    mean_of_each_row: f32[rows],
    variance_of_each_row: f32[rows],
    rows_with_data: i64,
)
    where
        rows * columns * 4 + 16 * rows + 16 * columns <= 1073741824,
        columns % 4 == 0 && rows % 4 == 0,
{
    rows_with_data = 1;
}
",
    );
    becomes(
        "kernel a_kernel_on_one_line(first: f32[number_of_elements]) -> result: f32[number_of_elements] { result[i] = first[i]; }",
        "kernel a_kernel_on_one_line(first: f32[number_of_elements]) -> result: f32[number_of_elements] {
    result[i] = first[i];
}
",
    );
}

#[test]
fn long_statements() {
    stays(
        "kernel k(x: f32[n]) -> y: f32[n] {
    let convolved[b, o, i, j] = sum[c, p, q]
        x[b, c, i + p - r / 2 | 0.0, j + q - s / 2 | 0.0] * weights[o, c, p, q] * scales[o, c];
    let chosen[i] = alpha_of_the_row[i] * beta_of_the_row[i]
        + gamma_of_the_row[i]
        - (delta_of_the_row[i] + epsilon_of_the_row[i])
        + zeta_of_the_row[i] * eta_of_the_row[i];
    let called[i] = a_function_of_three(
        alpha_of_the_row[i] * beta_of_the_row[i],
        gamma_of_the_row[i],
        delta_of_the_row[i] - epsilon_of_the_row[i],
    );
    y[i] = if x[i] > 0.0 && x[i] < 100.0 { x[i] } else if x[i] > -1.0 { -x[i] } else { 0.0 };
    y[i] = if alpha_of_the_row[i] > 0.0 {
        alpha_of_the_row[i]
    } else if beta_of_the_row[i] > 0.0 {
        beta_of_the_row[i]
    } else {
        gamma_of_the_row[i]
    };
    y[i] = sum[
        first in start_of_the_row[i]..start_of_the_row[i + 1],
        second in 0..count_of_columns
        if mask_of_the_elements[first, second]
    ]
        x[first];
}
",
    );
}

#[test]
fn every_construct() {
    becomes(
        "@fast_math @block ( 256 )\n\n@tile(i=64,j = 64,) kernel k(x: f32[n, 2*n+1]) -> y: f32[(n + 1)/2] {
  @accumulate(f64)
  let t[i in 0..n-1,j in 0 ..= n] :f32=x[i-1|0.0,(j|1)|clamp];
  @unroll(4) h[k[i]|drop] min =f32::MAX*- -1.5e-3f32;
  h[0]|=!true as i32&0xFF_u8<<3;
  a=sum[i,j in i..n if x[i]>0.0]x[i]*x[j]as f64+count[i]!(a<b);
}",
        "@fast_math @block(256)
@tile(i = 64, j = 64) kernel k(x: f32[n, 2 * n + 1]) -> y: f32[(n + 1) / 2] {
    @accumulate(f64)
    let t[i in 0..n - 1, j in 0..=n]: f32 = x[i - 1 | 0.0, (j | 1) | clamp];
    @unroll(4) h[k[i] | drop] min= f32::MAX * --1.5e-3f32;
    h[0] |= !true as i32 & 0xFF_u8 << 3;
    a = sum[i, j in i..n if x[i] > 0.0] x[i] * x[j] as f64 + count[i] !(a < b);
}
",
    );
    becomes(
        "fn f(x: f64, n: i64) -> f64 {
    let mut s:f64=0.0; let t = 1.;
    for i in 1. ..2. { s+=x; s = s-1.0; };
    while s<x {if s > 1.0{s*=2.0;}else if s > 0.0 { s<<=1; } else { if a { b = c; }; }; };
    if x > 0.0 { s } else { let u = 1.0; u } + 1.0
}",
        "fn f(x: f64, n: i64) -> f64 {
    let mut s: f64 = 0.0;
    let t = 1.;
    for i in 1. ..2. {
        s += x;
        s = s - 1.0;
    }
    while s < x {
        if s > 1.0 {
            s *= 2.0;
        } else if s > 0.0 {
            s <<= 1;
        } else {
            if a {
                b = c;
            }
        }
    }
    if x > 0.0 {
        s
    } else {
        let u = 1.0;
        u
    }
        + 1.0
}
",
    );
}

#[test]
fn deep_and_long() {
    with_stack(|| {
        for terms in [300, 4000] {
            let sum = vec!["x[i]"; terms].join("+");
            let result = formatted(&format!("kernel k(x: f32[n]) -> y: f32[n] {{ y[i] = {sum}; }}"));
            assert_eq!(result.matches("\n        + x[i]").count(), terms - 1);
        }
        let nested = |open: &str, inside: &str, close: &str| {
            let (open, close) = (open.repeat(200), close.repeat(200));
            formatted(&format!("kernel k(x: f32[n]) -> y: f32[n] {{ y[i] = {open}{inside}{close}; }}"));
        };
        nested("(", "x[i]", ")");
        nested("-", "x[i]", "");
        nested("f(", "x[i]", ")");
        nested("x[1 + ", "x[i]", "]");
        nested("if c { 1.0 } else ", "{ x[i] }", "");
        nested("a + b * (", "x[i]", ")");
        nested("(// c\n", "x[i]", "/* d */)");
        nested("sum[i]", "x[i]", "");
        nested("", "x[i]", " as f32");
    });
}

#[test]
fn errors_leave_a_text_alone() {
    for text in ["kernel k( -> f32 { x }", "/* open", "kernel k() -> f32 { a < b < c }", "x"] {
        let refusal = format(&Source::new("test.gk", text));
        assert!(matches!(&refusal, Err(Refusal::Program(problems)) if !problems.is_empty()), "{refusal:?}");
    }
}

// ---- programs of the project

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn texts(folder: &str, ending: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.to_string_lossy().ends_with(ending));
    let mut texts: Vec<_> = paths.map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("a text"))).collect();
    texts.sort();
    texts
}

#[test]
fn examples_are_formatted() {
    let examples = texts("examples", ".gk");
    assert!(examples.len() > 10);
    for (name, text) in examples {
        assert!(formatted(&text) == text, "{name} is not formatted");
    }
}

#[test]
fn programs_of_the_tests_and_documents() {
    let mut programs: Vec<String> = Vec::new();
    programs.extend(texts("tests/cases", ".gk").into_iter().map(|(_, text)| text));
    programs.extend(texts("tests/diagnostics", ".gk").into_iter().map(|(_, text)| text));
    let documents = texts(".", ".md").into_iter().chain(texts("docs", ".md"));
    programs.extend(documents.flat_map(|(_, text)| text.split("```").skip(1).step_by(2).map(fenced).collect::<Vec<_>>()));
    let mut count = 0;
    for program in programs {
        if meaning(&program).is_some_and(|(tree, _)| tree != "[]") {
            formatted(&program);
            count += 1;
        }
    }
    assert!(count > 60, "only {count} programs");
}

/// What is between the fences, without the language's name.
fn fenced(block: &str) -> String {
    block.split_once('\n').map_or("", |(_, text)| text).to_owned()
}

//! Schedule hints: each is honoured, visible in the plan, or refused with its reason.

use gpukc_codegen::error::Error;
use gpukc_codegen::facts::Facts;
use gpukc_codegen::target::Target;
use gpukc_dsl::source::Source;

fn compile(text: &str) -> Result<String, Error> {
    let program = gpukc_dsl::check(&Source::new("hints.gk", text)).program.expect("a program that checks");
    let target = Target { capability: 90, specific: true };
    gpukc_codegen::compile(&program, &program.kernels[0], target, &Facts::default()).map(|kernel| kernel.source.to_string())
}

#[test]
fn honoured() {
    for (program, text) in [
        ("@block(128) kernel k(x: f32[n]) -> y: f32[n] { y[i] = x[i] + 1.0; }", "k<<<ceil(n / 1024), 128>>>"),
        ("@unroll(4) kernel k(x: f32[n]) -> y: f32[n] { y[i] = x[i] + 1.0; }", "k<<<ceil(n / 4096), 256>>>"),
        ("kernel k(x: f32[n]) -> y: f32[n] { @block(64) y[i] = x[n - 1 - i]; }", ", 64>>>"),
        (
            "@tile(i = 64, j = 64, l = 16) kernel k(a: f32[m, p], b: f32[p, n]) -> c: f32[m, n] { c[i, j] = sum[l] a[i, l] * b[l, j]; }",
            "64 x 64 outputs",
        ),
        (
            "@tile(i = 8, j = 32) kernel k(x: f32[m, n]) -> y: f32[m, n] { y[i, j] = sum[d in -1..=1] x[i + d | clamp, j]; }",
            "tile of 8 x 32 elements",
        ),
        // A kernel's hint speaks to those of its launches that have such a choice.
        (
            "@block(64) kernel k(x: f32[m, n]) -> (s: f32[m], y: f32[m, n]) { s[i] = sum[j] x[i, j]; y[i, j] = x[i, j] * s[0 | 0.0]; }",
            ", 64>>>",
        ),
    ] {
        let source = compile(program).unwrap_or_else(|error| panic!("{program}\n{error}"));
        assert!(source.contains(text), "{program}\n{source}");
    }
}

#[test]
fn refused() {
    for (program, hint, why) in [
        ("@block(100) kernel k(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }", "@block", "multiple of 32"),
        ("@unroll(64) kernel k(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }", "@unroll", "registers"),
        ("@tile(i = 8) kernel k(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }", "@tile", "has a tile along"),
        (
            "@tile(i = 64, j = 32) kernel k(a: f32[m, p], b: f32[p, n]) -> c: f32[m, n] { c[i, j] = sum[l] a[i, l] * b[l, j]; }",
            "@tile",
            "as many rows as columns",
        ),
        (
            "@tile(i = 96, l = 8) kernel k(a: f32[m, p], b: f32[p, n]) -> c: f32[m, n] { c[i, j] = sum[l] a[i, l] * b[l, j]; }",
            "@tile",
            "64 x 64",
        ),
        (
            "@tile(i = 512, j = 512) kernel k(x: f32[m, n]) -> y: f32[m, n] { y[i, j] = sum[d in -1..=1] x[i + d | clamp, j]; }",
            "@tile",
            "shared memory",
        ),
        (
            "@tile(i = 9, j = 32) kernel k(x: f32[m, n]) -> y: f32[m, n] { y[i, j] = sum[d in -1..=1] x[i + d | clamp, j]; }",
            "@tile",
            "multiple of 8",
        ),
    ] {
        match compile(program) {
            Err(Error::Limit { message, .. }) => assert!(message.contains(hint) && message.contains(why), "{program}\n{message}"),
            Err(error) => panic!("{program}\n{error}"),
            Ok(source) => panic!("{program} is not refused\n{source}"),
        }
    }
}

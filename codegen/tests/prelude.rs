//! The prelude, compiled for the host and checked against direct transcriptions of what its comments promise.
//!
//! Each `prelude/*.cpp` is compiled behind `prelude/host.h`, which stands in for CUDA, and the pieces of the prelude that
//! it mentions; it exits with 0 if all its checks hold. So the selection of pieces is tested too.

use std::path::Path;
use std::process::Command;

use gpukc_codegen::emit::library;
use gpukc_codegen::target::Target;

fn check(name: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prelude");
    let test = std::fs::read_to_string(here.join(name)).unwrap();
    let host = std::fs::read_to_string(here.join("host.h")).unwrap();
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (scratch.join(name), scratch.join(name).with_extension("out"));
    std::fs::write(&source, format!("{host}\n{}{test}", library::needed_by(&test))).unwrap();
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let options = "-std=c++17 -O1 -Wall -Wextra -Werror -Wno-unknown-pragmas -ffp-contract=off -pthread";
    let sanitizers = "-fsanitize=undefined -fno-sanitize-recover=undefined";
    let compiled = Command::new(&compiler)
        .args(options.split(' ').chain(sanitizers.split(' ')))
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
}

#[test]
fn integers() {
    check("integers.cpp");
}

#[test]
fn floats() {
    check("floats.cpp");
}

#[test]
fn indices() {
    check("indices.cpp");
}

#[test]
fn reductions() {
    check("reductions.cpp");
}

#[test]
fn warps() {
    check("warps.cpp");
}

#[test]
fn a_text_receives_only_what_it_uses() {
    let pieces = library::needed_by("float x = minimum(y, z);");
    assert!(pieces.contains("float minimum(float a, float b)"));
    assert!(!pieces.contains("double"), "no helper for doubles in a text without doubles");
    assert!(!pieces.contains("maximum") && !pieces.contains("struct"));
    assert!(library::needed_by("double x = minimum(y, z);").contains("double minimum"));
    assert_eq!(library::needed_by("float total(int n); // minimum(a, b)"), "");
}

#[test]
fn a_family_keeps_its_comment() {
    let pieces = library::needed_by("x = count_ones_u8(y);");
    assert!(pieces.starts_with("// How many bits are set."), "{pieces}");
}

/// The guard around the wait is where the plan takes launches to wait, and no overload of it is without.
#[test]
fn launches_wait_where_plans_take_them_to() {
    let first = Target::DEPENDENT_LAUNCHES;
    assert!(Target { capability: first, specific: false }.has_dependent_launches());
    assert!(!Target { capability: first - 1, specific: true }.has_dependent_launches());
    for (name, instruction) in
        [("trigger_next_launch", "griddepcontrol.launch_dependents;"), ("wait_for_previous_launch", "griddepcontrol.wait;")]
    {
        let text = library::needed_by(name);
        let guarded = format!("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= {first}0\n    asm volatile(\"{instruction}\"");
        assert_eq!((text.matches(&guarded).count(), text.matches("asm").count()), (1, 1), "{text}");
    }
}

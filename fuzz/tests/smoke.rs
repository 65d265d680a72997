//! Some thousand inputs of each target; `cargo xtask fuzz` runs more.

use gpukc_fuzz::random::Random;
use gpukc_fuzz::targets::Target;
use gpukc_fuzz::text::Corpus;

fn some(target: Target, count: u64) {
    let corpus = Corpus::built_in();
    let check = || {
        let failures = (0..count).filter_map(|number| Some((number, target.failure(&target.input(&corpus, number))?)));
        assert_eq!(failures.collect::<Vec<_>>(), [], "{}", target.name());
    };
    // With the stack that the command has.
    std::thread::scope(|scope| std::thread::Builder::new().stack_size(256 << 20).spawn_scoped(scope, check).unwrap().join().unwrap());
}

#[test]
fn parser() {
    some(Target::Parser, 4000);
}

#[test]
fn checker() {
    some(Target::Checker, 1500);
}

#[test]
fn formatter() {
    some(Target::Formatter, 3000);
}

#[test]
fn compiler() {
    some(Target::Compiler, 600);
}

#[test]
fn npy() {
    some(Target::Npy, 20_000);
}

#[test]
fn cache() {
    some(Target::Cache, 20_000);
}

#[test]
fn text() {
    some(Target::Text, 5000);
}

/// A target takes any bytes, as libFuzzer would give it: those meant for other targets, and those meant for nothing.
#[test]
fn any_bytes() {
    let corpus = Corpus::built_in();
    let mut random = Random::new(7);
    for target in Target::ALL {
        let others = Target::ALL.into_iter().flat_map(|other| (0..300).map(move |number| (other, number)));
        let mut inputs: Vec<Vec<u8>> = others.map(|(other, number)| other.input(&corpus, number)).collect();
        inputs.extend((0..2000).map(|_| (0..random.below(200)).map(|_| random.bits() as u8).collect()));
        inputs.push(Vec::new());
        for input in inputs {
            assert_eq!(target.failure(&input), None, "{}: {input:?}", target.name());
        }
    }
}

/// Inputs that failed once, by target.
#[test]
fn what_failed_once() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let entries = |folder: &std::path::Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let folders = entries(&root);
    assert!(!folders.is_empty());
    for folder in folders {
        let target = Target::ALL.into_iter().find(|target| folder.ends_with(target.name()));
        let target = target.unwrap_or_else(|| panic!("{} names no target", folder.display()));
        for path in entries(&folder) {
            assert_eq!(target.failure(&std::fs::read(&path).unwrap()), None, "{}", path.display());
        }
    }
}

/// What takes the square of a line's length takes minutes for these.
#[test]
fn long_lines_take_no_longer_for_it() {
    let subscripts = |count: usize| format!("i{}", ", j".repeat(count));
    let ranges = |count: usize| "1..".repeat(count);
    let texts = [
        format!("kernel f(x: f32[n]) -> y: f32[n] {{\n    y[i] = x[{}];\n}}\n", subscripts(70_000)),
        format!("kernel f(x: f32[n]) -> y: f32[n] {{\n    y[i] = {}1;\n}}\n", ranges(80_000)),
        subscripts(100_000),
        ranges(100_000),
    ];
    for text in texts {
        // Without changes of its tokens, and with one.
        for changes in [&b""[..], b"\0\x01\x80"] {
            let input = [text.as_bytes(), changes].concat();
            let start = std::time::Instant::now();
            assert!(gpukc_fuzz::tokens::recover(&input)[0], "not compared");
            let took = start.elapsed().as_secs();
            assert!(took < 30, "{took} s for {} bytes: {}…", text.len(), &text[..60]);
        }
    }
}

/// The inputs reach what they are meant for: of each kind, some are accepted and some refused.
#[test]
fn inputs_are_of_both_kinds() {
    let corpus = Corpus::built_in();
    let checks = |number| {
        let input = Target::Checker.input(&corpus, number);
        std::str::from_utf8(&input).is_ok_and(|text| !gpukc_dsl::check::check(&gpukc_dsl::source::Source::new("x", text)).failed())
    };
    let share =
        |count: u64, accepted: &dyn Fn(u64) -> bool| (0..count).filter(|&number| accepted(number)).count() as f64 / count as f64;
    let between = |share: f64| assert!((0.02..0.9).contains(&share), "{share}");
    between(share(500, &checks));
    between(share(2000, &|number| {
        let input = Target::Npy.input(&corpus, number);
        let (element, file) = gpukc_fuzz::binary::npy_parts(&input);
        gpukc_cli::npy::read_from(file, Some(file.len() as u64), element, "x").is_ok()
    }));
    for stream in 0..3 {
        between(share(2000, &|number| gpukc_fuzz::tokens::recover(&Target::Text.input(&corpus, number))[stream]));
    }
    between(share(2000, &|number| gpukc_runtime::cache::parse(&Target::Cache.input(&corpus, number)).is_ok()));
}

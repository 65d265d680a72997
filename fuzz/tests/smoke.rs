//! Some thousand inputs of each target; `cargo xtask fuzz` runs more.

use gpukc_fuzz::drive::failure;
use gpukc_fuzz::targets::Target;
use gpukc_fuzz::text::Corpus;

fn some(target: Target, count: u64) {
    let corpus = Corpus::load().unwrap();
    let check = || {
        let failures = (0..count).filter_map(|number| Some((number, failure(target, &target.input(&corpus, number))?)));
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

/// Inputs that failed once, by target.
#[test]
fn what_failed_once() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut count = 0;
    for target in Target::ALL {
        for entry in std::fs::read_dir(root.join(target.name())).into_iter().flatten() {
            let path = entry.unwrap().path();
            assert_eq!(failure(target, &std::fs::read(&path).unwrap()), None, "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 0);
}

/// The inputs reach what they are meant for: of each kind, some are accepted and some refused.
#[test]
fn inputs_are_of_both_kinds() {
    let corpus = Corpus::load().unwrap();
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
    between(share(2000, &|number| gpukc_runtime::cache::parse(&Target::Cache.input(&corpus, number)).is_ok()));
}

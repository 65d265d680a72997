//! With an NVRTC library at hand (feature `nvrtc`): compiling for every architecture, errors, the cache in front.

use gpukc_codegen::target::Target;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Compiler, Wanted};
use gpukc_runtime::error::{Error, Kind, Missing};
use gpukc_runtime::nvrtc::Form;

const SOURCE: &str = "extern \"C\" __global__ void twice(const float* __restrict__ x, float* __restrict__ y, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = __fmul_rn(x[i], 2.0f);
}
";

#[test]
fn every_tested_architecture() {
    let compiler = Compiler::new(Cache::off());
    for target in Target::TESTED {
        let binary = compiler.compile(SOURCE, "twice", target, Wanted::Binary, &[]).unwrap();
        assert_eq!(binary.form, Form::Cubin);
        assert_eq!(binary.architecture, target.to_string());
        assert!(binary.image.starts_with(b"\x7fELF"));
        assert!(binary.log.contains("registers"), "{}", binary.log);
        let ptx = compiler.compile(SOURCE, "twice", target, Wanted::Ptx, &[]).unwrap();
        let text = String::from_utf8(ptx.image).unwrap();
        assert!(text.ends_with('\0') && text.contains(".entry twice") && text.contains(&format!(".target {target}")));
    }
}

#[test]
fn a_newer_architecture_gets_ptx_and_an_older_one_the_list() {
    let compiler = Compiler::new(Cache::off());
    let newest = *compiler.nvrtc().unwrap().architectures.last().unwrap();
    let later = Target { capability: 999, specific: false };
    let binary = compiler.compile(SOURCE, "twice", later, Wanted::Binary, &[]).unwrap();
    assert_eq!((binary.form, binary.architecture), (Form::Ptx, format!("compute_{newest}")));
    let earlier = Target { capability: 50, specific: false };
    if !compiler.nvrtc().unwrap().architectures.contains(&50) {
        let error = compiler.compile(SOURCE, "twice", earlier, Wanted::Binary, &[]).unwrap_err();
        assert!(matches!(error, Error::Missing(Missing::Architecture { .. })));
        assert!(error.to_string().contains("sm_90"), "{error}");
    }
}

#[test]
fn what_is_rejected_comes_back_whole() {
    let compiler = Compiler::new(Cache::off());
    let error = compiler.compile("nonsense;", "k", Target::TESTED[1], Wanted::Binary, &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::Bug);
    let Error::Rejected(rejected) = error else { panic!("{error}") };
    assert_eq!(rejected.source, "nonsense;");
    assert!(rejected.log.contains("error"));
    assert!(rejected.options.iter().any(|option| option == "--gpu-architecture=sm_80"));
    let bogus = ["--no-such-option".to_owned()];
    assert!(matches!(compiler.compile(SOURCE, "k", Target::TESTED[1], Wanted::Binary, &bogus), Err(Error::Rejected(_))));
}

#[test]
fn the_second_time_is_a_hit_and_equal() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::TESTED[4];
    let first = Compiler::new(Cache::at(folder.path())).compile(SOURCE, "twice", target, Wanted::Binary, &[]).unwrap();
    let second = Compiler::new(Cache::at(folder.path())).compile(SOURCE, "twice", target, Wanted::Binary, &[]).unwrap();
    assert!(!first.hit && second.hit);
    assert_eq!(
        (first.form, &first.architecture, &first.image, &first.log),
        (second.form, &second.architecture, &second.image, &second.log)
    );
    assert!(second.time.as_millis() < 50, "{:?}", second.time);
    let other = Compiler::new(Cache::at(folder.path())).compile(SOURCE, "twice", Target::TESTED[1], Wanted::Binary, &[]).unwrap();
    assert!(!other.hit);
}

#[test]
fn threads_compile_at_once() {
    let compiler = Compiler::new(Cache::off());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| compiler.compile(SOURCE, "twice", Target::TESTED[2], Wanted::Binary, &[]).unwrap());
        }
    });
}

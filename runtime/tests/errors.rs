//! Every failure in one line, with one line that says what to do next, and whose turn it is.

use gpukc_codegen::kernel::Site;
use gpukc_dsl::source::Span;
use gpukc_runtime::advice::Words;
use gpukc_runtime::error::{Error, Kind, Missing, Rejected};
use gpukc_runtime::launch::Fit;

/// Of those who have everything at hand, and of those who have nothing.
const ALL: Words = Words {
    cpu: Some("`--device cpu`"),
    results: Some("`run --device cpu`"),
    architecture: Some("choose one of these with --arch"),
    doctor: Some("`gpukc doctor`"),
    setup: Some("`gpukc setup`"),
    device: "cuda:",
};
const NONE: Words = Words { device: "number ", ..Words::NONE };

fn called(call: &'static str, code: i32) -> Error {
    Error::Call { call, code, name: "NAME".into(), kernel: Some("k".into()), launch: Some(("k_sums".into(), Span::new(3, 9))) }
}

#[test]
fn each_says_what_to_do() {
    let site = Site { array: "x".into(), axis: 1, span: Span::new(1, 2) };
    let rejected = Rejected { kernel: "k".into(), source: "s".into(), options: vec![], log: "l\nl".into(), code: "c".into() };
    let memory = |wanted, fits| Error::OutOfMemory { kernel: Some("k".into()), wanted, memory: Some((1 << 30, 2 << 30)), fits };
    let fit = Fit { dim: "n".into(), value: 1000, largest: 585 };
    let all = [
        (Error::Missing(Missing::Driver), Kind::Environment, "--device cpu"),
        (Error::Missing(Missing::DriverFunction("cuInit")), Kind::Environment, "update the NVIDIA driver"),
        (Error::Missing(Missing::Device("cuInit", 999, "N".into())), Kind::Environment, "gpukc doctor"),
        (Error::Missing(Missing::Device("cuInit", 803, "N".into())), Kind::Environment, "restart"),
        (Error::Missing(Missing::Ordinal { asked: 1, count: 0 }), Kind::Environment, "--device cpu"),
        (Error::Missing(Missing::Ordinal { asked: 1, count: 1 }), Kind::Environment, "cuda:0"),
        (Error::Missing(Missing::Ordinal { asked: 9, count: 8 }), Kind::Environment, "cuda:0 to cuda:7"),
        (Error::Missing(Missing::Nvrtc { searched: vec!["a".into()] }), Kind::Environment, "gpukc setup"),
        (Error::Missing(Missing::NvrtcSetting("p".into())), Kind::Environment, "unset"),
        (Error::Missing(Missing::NvrtcBroken("p".into(), "w".into())), Kind::Environment, "gpukc setup"),
        (Error::Missing(Missing::NvrtcBuiltins("p".into())), Kind::Environment, "gpukc setup"),
        (
            Error::Missing(Missing::Architecture { asked: "sm_50".into(), version: "13.0".into(), supported: vec![75] }),
            Kind::Environment,
            "--arch",
        ),
        (
            Error::Missing(Missing::DriverTooOld { call: "c", driver: Some((12, 2)), nvrtc: (13, None) }),
            Kind::Environment,
            "one for CUDA 13, set GPUKC_NVRTC to an NVRTC of CUDA 12",
        ),
        (Error::Missing(Missing::Forked), Kind::Environment, "new process"),
        (memory(vec![("`x`".into(), 5)], vec![fit]), Kind::Input, "n up to 585 (it is 1000), or use `--device cpu`"),
        (memory(vec![("`x`".into(), 5)], vec![]), Kind::Input, "smaller inputs"),
        (memory(vec![], vec![]), Kind::Environment, "other programs"),
        (Error::Arguments { kernel: "k".into(), message: "m".into() }, Kind::Input, "shapes and types"),
        (Error::IndexOutOfRange { kernel: "k".into(), site, index: -1, extent: 3 }, Kind::Input, "boundary rule"),
        (Error::Limit { kernel: "k".into(), message: "m".into() }, Kind::Limit, "--device cpu"),
        (Error::Rejected(Box::new(rejected)), Kind::Bug, "report"),
        (Error::Bug("m".into()), Kind::Bug, "report"),
        (called("cuLaunchKernel", 700), Kind::Bug, "report"),
        (called("cuLaunchKernel", 719), Kind::Bug, "report"),
        (called("cuStreamSynchronize", 702), Kind::Environment, "display"),
        (called("cuStreamSynchronize", 214), Kind::Environment, "another GPU"),
        (called("cuModuleLoadData", 221), Kind::Environment, "gpukc doctor"),
        (called("nvrtcCompileProgram", 1), Kind::Environment, "memory is used up"),
        (called("nvrtcCompileProgram", 11), Kind::Bug, "report"),
    ];
    for (error, kind, help) in all {
        assert_eq!(error.kind(), kind, "{error}");
        let (all, none) = (error.help(&ALL), error.help(&NONE));
        assert!(all.contains(help), "{error}: {all}");
        for text in [&error.to_string(), &all, &none] {
            assert!(!text.is_empty() && !text.contains('\n'), "{text}");
        }
        // What is not at hand is not advised.
        for word in ["--device", "--arch", "gpukc doctor", "gpukc setup", "cuda:", " or ,", ", ,"] {
            assert!(!none.contains(word), "{error}: {none}");
        }
    }
    assert!(called("cuLaunchKernel", 700).to_string().ends_with("for kernel `k`, in its launch `k_sums`"));
}

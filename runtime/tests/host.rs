//! The host's side of everything, with stand-ins for the driver and for NVRTC: what is launched and how, every call that may
//! fail, machines that lack something. Each test runs itself again in a process that meets the stand-ins.
#![cfg(target_os = "linux")]

mod standin;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch, Scratch, Site};
use gpukc_dsl::arena::Id;
use gpukc_dsl::source::Span;
use gpukc_dsl::types::Type;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Binary, Compiler, Wanted};
use gpukc_runtime::device::{Device, Facts, Memory};
use gpukc_runtime::error::{Error, Kind, Missing};
use gpukc_runtime::launch::{Call, Outcome, Program, Scalar, Shape};
use gpukc_runtime::nvrtc::Form;
use standin::Driver;

const SOURCE: &str = "extern \"C\" __global__ void __launch_bounds__(256) first(
    float a,
    const float* __restrict__ x,
    float* __restrict__ t,
    int n
) {}
extern \"C\" __global__ void __launch_bounds__(128, 2) second(const float* __restrict__ t, float* __restrict__ y, long long n, unsigned long long* report) {}
";

fn kernel() -> Kernel {
    let n = || Formula::Dim(Id::new(0), "n".into());
    let launch = |entry: &str, threads: u32, shared_bytes: u32, arguments: Vec<Argument>, span: Span| Launch {
        entry: entry.into(),
        grid: [n().div_ceil(i64::from(threads)), 1.into(), 1.into()],
        block: [threads, 1, 1],
        shared_bytes,
        arguments,
        span,
    };
    let (x, y) = (Argument::Array(Id::new(0)), Argument::Array(Id::new(1)));
    let first = vec![Argument::Scalar(Id::new(0)), x, Argument::Scratch(0), Argument::Size(n(), Type::I32)];
    let second = vec![Argument::Scratch(0), y, Argument::Size(n(), Type::I64), Argument::Report];
    Kernel {
        name: "scale".into(),
        source: SOURCE.into(),
        scratch: vec![Scratch { name: "t".into(), bytes: n().times(4), zeroed: true }],
        launches: vec![launch("first", 256, 0, first, Span::new(10, 20)), launch("second", 128, 64 << 10, second, Span::new(30, 40))],
        sites: vec![Site { array: "x".into(), axis: 0, span: Span::new(12, 13) }],
    }
}

fn call(n: i64) -> Call {
    let shape = Shape { element: Type::F32, extents: vec![n] };
    let scalars = vec![Scalar { ty: Type::F32, bits: u64::from(3f32.to_bits()) }];
    Call { dims: vec![n], scalars, arrays: vec![Some(shape.clone()), Some(shape)] }
}

fn compile(target: gpukc_codegen::target::Target) -> Result<Binary, Error> {
    Compiler::new(Cache::off()).compile(SOURCE, "scale", target, Wanted::Binary, &[])
}

fn load(memory: Memory) -> Result<Program, Error> {
    let device = Device::open_with(0, memory)?;
    Program::load(&device, &kernel(), &compile(device.facts().target)?)
}

fn run(program: &Program, n: i64) -> Result<Outcome, Error> {
    let bytes = vec![7; 4 * n as usize];
    program.run(&call(n), &[(Id::new(0), &bytes)], &[Id::new(1)], &|id| ["x", "y"][id.index()].into())
}

/// Runs `body` in a process of its own that meets the stand-ins, under these settings; gives the driver's log. `test` is the
/// name of the test that calls this.
#[track_caller]
fn within(test: &str, which: Driver, settings: &[(&str, &str)], body: impl FnOnce()) -> String {
    if std::env::var_os("STANDIN_CHILD").is_some() {
        body();
        return String::new();
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let output = child(test, which, settings, &log);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{settings:?}: {text}");
    assert!(text.contains("1 passed"), "{test} is not the name of a test: {text}");
    fs::read_to_string(log).unwrap_or_default()
}

fn child(test: &str, which: Driver, settings: &[(&str, &str)], log: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    standin::prepare(&mut command, which).env("STANDIN_CHILD", "1").env("STANDIN_LOG", log);
    command.envs(settings.iter().copied()).output().unwrap()
}

fn is_child() -> bool {
    std::env::var_os("STANDIN_CHILD").is_some()
}

/// Nothing is left on the device when the last of its users is gone.
#[track_caller]
fn nothing_is_left(log: &str) {
    assert_eq!(log.lines().last(), Some("release allocations=0 modules=0 streams=0 events=0"), "{log}");
}

#[test]
fn launches_are_as_the_contract_says() {
    let log = within("launches_are_as_the_contract_says", Driver::Whole, &[], || {
        let program = load(Memory::Pooled).unwrap();
        let outcome = run(&program, 1000).unwrap();
        // The stand-in computes nothing: what comes back is what its memory held.
        assert_eq!(outcome.results, [vec![0xa5; 4000]]);
        assert_eq!(program.resources()[1].registers, 32);
    });
    if is_child() {
        return;
    }
    let launches: Vec<&str> = log.lines().filter(|line| line.starts_with("launch")).collect();
    // 3.0f32 is 1077936128 as an integer; the report has four words of 8 bytes.
    assert_eq!(
        launches,
        [
            "launch first grid=4,1,1 block=256,1,1 shared=0 parameters=4:1077936128,memory:4000,memory:4000,4:1000",
            "launch second grid=8,1,1 block=128,1,1 shared=65536 parameters=memory:4000,memory:4000,8:1000,memory:32",
        ]
    );
    nothing_is_left(&log);
}

#[test]
fn empty_calls_launch_nothing() {
    let log = within("empty_calls_launch_nothing", Driver::Whole, &[], || {
        assert_eq!(run(&load(Memory::Plain).unwrap(), 0).unwrap().results, [Vec::<u8>::new()]);
    });
    if !is_child() {
        assert!(!log.contains("launch"), "{log}");
        nothing_is_left(&log);
    }
}

#[test]
fn prepared_calls_are_timed_by_the_device() {
    let log = within("prepared_calls_are_timed_by_the_device", Driver::Whole, &[], || {
        let program = load(Memory::Pooled).unwrap();
        let bytes = vec![0; 4000];
        let resident = program.upload(&call(1000), &[(Id::new(0), &bytes)], &[Id::new(1)], &|_| "x".into()).unwrap();
        let mut prepared = program.prepare(&call(1000), &resident.arrays()).unwrap();
        assert_eq!(prepared.time_launches(5).unwrap(), [0.25; 5]);
    });
    if !is_child() {
        assert_eq!(log.matches("launch first").count(), 5);
        nothing_is_left(&log);
    }
}

#[test]
fn threads_share_a_device() {
    let log = within("threads_share_a_device", Driver::Whole, &[], || {
        let program = load(Memory::Pooled).unwrap();
        std::thread::scope(|scope| {
            for thread in 1..=8 {
                let program = &program;
                scope.spawn(move || (0..20).for_each(|round| drop(run(program, 100 * thread + round).unwrap())));
            }
        });
    });
    if !is_child() {
        assert_eq!(log.matches("launch second").count(), 160);
        nothing_is_left(&log);
    }
}

#[test]
fn a_text_that_breaks_its_contract_is_not_launched() {
    within("a_text_that_breaks_its_contract_is_not_launched", Driver::Whole, &[], || {
        let device = Device::open(0).unwrap();
        let binary = compile(device.facts().target).unwrap();
        let load = |change: &dyn Fn(&mut Kernel)| {
            let mut kernel = kernel();
            change(&mut kernel);
            Program::load(&device, &kernel, &binary).map(drop).unwrap_err()
        };
        assert!(matches!(load(&|kernel| kernel.launches[0].arguments.push(Argument::Report)), Error::Bug(_)));
        assert!(matches!(load(&|kernel| kernel.launches[0].arguments.swap(0, 1)), Error::Bug(_)));
        assert!(matches!(load(&|kernel| kernel.launches[0].block = [2048, 1, 1]), Error::Bug(_)));
        assert!(matches!(load(&|kernel| kernel.launches[1].shared_bytes = 1 << 20), Error::Limit { .. }));
        assert_eq!(load(&|kernel| kernel.launches[0].entry = "third".into()).kind(), Kind::Bug);
    });
}

#[test]
fn reports_of_the_device_name_place_index_and_extent() {
    within("reports_of_the_device_name_place_index_and_extent", Driver::Whole, &[("STANDIN_REPORT", "0 -7 1000")], || {
        let error = run(&load(Memory::Plain).unwrap(), 1000).unwrap_err();
        assert!(matches!(error, Error::IndexOutOfRange { index: -7, extent: 1000, .. }), "{error}");
        assert_eq!((error.kind(), error.span()), (Kind::Input, Some(Span::new(12, 13))));
    });
}

#[test]
fn a_report_of_no_known_place_is_a_bug() {
    within("a_report_of_no_known_place_is_a_bug", Driver::Whole, &[("STANDIN_REPORT", "9 1 1")], || {
        assert_eq!(run(&load(Memory::Plain).unwrap(), 1000).unwrap_err().kind(), Kind::Bug);
    });
}

/// Each call of the driver, failing the first time or the second, with a lost device and with an invalid value.
#[test]
fn every_call_may_fail() {
    const CALLS: [&str; 21] = [
        "cuDeviceGetCount",
        "cuDeviceGet",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuCtxSetCurrent#5",
        "cuStreamCreate",
        "cuMemAlloc",
        "cuMemAlloc#2",
        "cuMemAlloc#3",
        "cuMemAlloc#4",
        "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync",
        "cuMemcpyDtoHAsync#2",
        "cuMemsetD8Async",
        "cuModuleLoadData",
        "cuModuleGetFunction#2",
        "cuLaunchKernel",
        "cuLaunchKernel#2",
        "cuStreamSynchronize",
    ];
    let test = |call: &str, code: &str| {
        let setting = format!("{call}={code}");
        within("every_call_may_fail", Driver::Whole, &[("STANDIN_FAIL", &setting), ("STANDIN_CALL", call)], || {
            let error = load(Memory::Plain).and_then(|program| run(&program, 1000)).map(drop).unwrap_err();
            let failing = std::env::var("STANDIN_CALL").unwrap();
            assert!(matches!(&error, Error::Call { call, .. } if *call == failing.split('#').next().unwrap()), "{error}");
            assert!(!error.help().is_empty());
            let code: i32 = std::env::var("STANDIN_FAIL").unwrap().rsplit('=').next().unwrap().parse().unwrap();
            assert_eq!(error.kind(), if code == 1 { Kind::Bug } else { Kind::Environment });
        })
    };
    if is_child() {
        test("", "");
        return;
    }
    for call in CALLS {
        for code in ["1", "46", "999"] {
            let log = test(call, code);
            // What was made before is given back, unless giving it back is what fails.
            if code == "46" && log.contains("release") && !call.starts_with("cuCtxSetCurrent") && call != "cuStreamSynchronize" {
                nothing_is_left(&log);
            }
        }
    }
}

/// A fault of a kernel shows when the device is waited for; it is known which launch it was, and all later calls fail.
#[test]
fn faults_are_attributed() {
    let test = |fail: &str| {
        within("faults_are_attributed", Driver::Whole, &[("STANDIN_FAIL", fail)], || {
            let error = run(&load(Memory::Plain).unwrap(), 1000).unwrap_err();
            let Error::Call { code, kernel, launch, .. } = &error else { panic!("{error}") };
            let second = std::env::var("STANDIN_FAIL").unwrap().contains('3');
            let expected = if second { ("second", Span::new(30, 40)) } else { ("first", Span::new(10, 20)) };
            assert_eq!((*code / 100, kernel.as_deref()), (7, Some("scale")));
            assert_eq!(launch.as_ref().map(|(entry, span)| (entry.as_str(), *span)), Some(expected));
            assert_eq!(error.kind(), if *code == 702 { Kind::Environment } else { Kind::Bug });
        });
    };
    if is_child() {
        test("");
        return;
    }
    // The first wait is for the upload, the second for the first launch.
    for fail in ["cuStreamSynchronize#2=700", "cuStreamSynchronize#3=719", "cuLaunchKernel=702", "cuStreamSynchronize#2=702"] {
        test(fail);
    }
}

#[test]
fn out_of_memory_names_arrays_and_sizes() {
    // Inputs and results fit, intermediates do not; or the second array does not.
    let test = |memory: &str| {
        let log = within("out_of_memory_names_arrays_and_sizes", Driver::Whole, &[("STANDIN_MEMORY", memory)], || {
            for memory in [Memory::Plain, Memory::Pooled] {
                let program = load(memory).unwrap();
                let error = run(&program, 1 << 20).unwrap_err();
                let Error::OutOfMemory { wanted, memory: Some((free, total)), .. } = &error else { panic!("{error}") };
                let size = 4 << 20;
                assert_eq!(wanted, &[("`x`".into(), size), ("`y`".into(), size), ("`t` (intermediate)".into(), size)]);
                assert_eq!(free, total);
                assert_eq!(error.kind(), Kind::Environment);
                let text = error.to_string();
                assert!(text.contains("kernel `scale`: `x` 4.0 MiB, `y` 4.0 MiB, `t` (intermediate) 4.0 MiB"), "{text}");
                // And afterwards smaller ones run.
                run(&program, 1000).unwrap();
            }
        });
        if !is_child() {
            nothing_is_left(&log);
        }
    };
    if is_child() {
        return test("");
    }
    ["10000000", "6000000", "3000000"].into_iter().for_each(test);
}

#[test]
fn there_may_be_no_device_or_several() {
    let test = |settings: &[(&str, &str)], expected: &str| {
        let settings: Vec<_> = settings.iter().copied().chain([("STANDIN_EXPECTED", expected)]).collect();
        within("there_may_be_no_device_or_several", Driver::Whole, &settings, || {
            let names = |ordinal| match Facts::of(ordinal) {
                Ok(facts) => facts.target.to_string(),
                Err(Error::Missing(Missing::Device(_, 100, _))) => "none".into(),
                Err(Error::Missing(Missing::Ordinal { count, .. })) => format!("of {count}"),
                Err(other) => other.to_string(),
            };
            let seen: Vec<String> = (0..3).map(names).collect();
            assert_eq!(seen.join(" "), std::env::var("STANDIN_EXPECTED").unwrap());
        });
    };
    if is_child() {
        return test(&[], "");
    }
    test(&[], "sm_90a of 1 of 1");
    test(&[("STANDIN_DEVICES", "")], "none none none");
    test(&[("CUDA_VISIBLE_DEVICES", "")], "none none none");
    test(&[("CUDA_VISIBLE_DEVICES", "7")], "none none none");
    test(&[("STANDIN_DEVICES", "8.0 9.0"), ("CUDA_VISIBLE_DEVICES", "1")], "sm_90a of 1 of 1");
    test(&[("STANDIN_DEVICES", "8.0 9.0 7.5")], "sm_80 sm_90a sm_75");
}

/// Without pools of memory, and without telling what a function takes.
#[test]
fn an_old_driver_will_do() {
    let log = within("an_old_driver_will_do", Driver::Old, &[], || {
        [Memory::Pooled, Memory::Plain].into_iter().for_each(|memory| drop(run(&load(memory).unwrap(), 1000).unwrap()));
    });
    if !is_child() {
        assert_eq!(log.matches("launch second").count(), 2);
        nothing_is_left(&log);
    }
}

#[test]
fn a_driver_older_than_the_code() {
    let test = |settings: &[(&str, &str)], words: &str| {
        let settings: Vec<_> = settings.iter().copied().chain([("STANDIN_EXPECTED", words)]).collect();
        within("a_driver_older_than_the_code", Driver::Whole, &settings, || {
            let error = load(Memory::Plain).map(drop).unwrap_err();
            assert!(matches!(error, Error::Missing(Missing::DriverTooOld { .. })), "{error}");
            let text = format!("{error}; {}", error.help());
            for words in std::env::var("STANDIN_EXPECTED").unwrap().split('|') {
                assert!(text.contains(words), "{text}");
            }
        });
    };
    if is_child() {
        return test(&[], "");
    }
    test(&[("STANDIN_DRIVER", "12.4")], "NVRTC 13.0|it knows CUDA 12.4|nvidia-cuda-nvrtc-cu12");
    // PTX, for a device that NVRTC does not know.
    test(&[("STANDIN_DRIVER", "12.8"), ("STANDIN_DEVICES", "13.0")], "NVRTC 13.0|it knows CUDA 12.8|cuModuleLoadData");
}

#[test]
fn a_driver_without_a_function() {
    within("a_driver_without_a_function", Driver::Broken, &[], || {
        let error = Device::open(0).map(drop).unwrap_err();
        assert!(matches!(error, Error::Missing(Missing::DriverFunction("cuLaunchKernel"))), "{error}");
    });
}

#[test]
fn no_driver() {
    within("no_driver", Driver::Absent, &[], || match Device::open(0) {
        Err(Error::Missing(Missing::Driver)) => {}
        // A machine with a GPU: its own driver is found, as it should be.
        other => assert!(Path::new("/dev/nvidiactl").exists(), "{:?}", other.map(drop)),
    });
}

#[test]
fn a_driver_that_does_not_start() {
    within("a_driver_that_does_not_start", Driver::Whole, &[("STANDIN_FAIL", "cuInit=803")], || {
        let error = Device::open(0).map(drop).unwrap_err();
        assert!(matches!(error, Error::Missing(Missing::Device("cuInit", 803, _))), "{error}");
        assert!(error.help().contains("restart"));
    });
}

#[test]
fn devices_that_nvrtc_does_not_know() {
    let test = |device: &str, expected: &str| {
        let settings = [("STANDIN_DEVICES", device), ("STANDIN_EXPECTED", expected)];
        within("devices_that_nvrtc_does_not_know", Driver::Whole, &settings, || {
            let target = Facts::of(0).unwrap().target;
            let shown = match compile(target) {
                Ok(binary) => {
                    load(Memory::Plain).unwrap();
                    format!("{} {}", binary.form.name(), binary.architecture)
                }
                Err(error) => error.to_string(),
            };
            assert_eq!(shown, std::env::var("STANDIN_EXPECTED").unwrap());
        });
    };
    if is_child() {
        return test("", "");
    }
    test("8.6", "cubin sm_86");
    test("9.0", "cubin sm_90a");
    test("11.0", "ptx compute_100");
    test("13.5", "ptx compute_120");
    test("8.7", "ptx compute_86");
    test("7.0", "NVRTC 13.0 does not compile for sm_70; it does for sm_75, sm_80, sm_86, sm_89, sm_90, sm_100, sm_120");
}

#[test]
fn what_nvrtc_may_say() {
    let test = |fail: &str| {
        within("what_nvrtc_may_say", Driver::Whole, &[("STANDIN_NVRTC_FAIL", fail)], || {
            let error = compile(Facts::of(0).unwrap().target).unwrap_err();
            match std::env::var("STANDIN_NVRTC_FAIL").unwrap().as_str() {
                "builtins" => assert!(matches!(error, Error::Missing(Missing::NvrtcBuiltins(_))), "{error}"),
                "reject" => {
                    let Error::Rejected(rejected) = &error else { panic!("{error}") };
                    assert!(rejected.log.contains("rejects every text") && rejected.source == SOURCE);
                    assert_eq!(error.kind(), Kind::Bug);
                }
                _ => assert!(matches!(error, Error::Call { call: "nvrtcCompileProgram", code: 1, .. }), "{error}"),
            }
        });
    };
    if is_child() {
        return test("");
    }
    ["builtins", "reject", "memory"].into_iter().for_each(test);
}

/// A warm start does not even load the library.
#[test]
fn a_hit_does_not_load_nvrtc() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, log) = (folder.path().join("cache"), folder.path().join("nvrtc-log"));
    let settings = [("GPUKC_CACHE_DIR", cache.to_str().unwrap()), ("STANDIN_NVRTC_LOG", log.to_str().unwrap())];
    let test = || {
        within("a_hit_does_not_load_nvrtc", Driver::Whole, &settings, || {
            let compiler = Compiler::new(Cache::from_environment());
            let target = Facts::of(0).unwrap().target;
            let binary = compiler.compile(SOURCE, "scale", target, Wanted::Binary, &[]).unwrap();
            assert_eq!((binary.form, binary.warning), (Form::Cubin, None));
        })
    };
    test();
    if is_child() {
        return;
    }
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("loaded\n") && text.matches("nvrtcCompileProgram").count() == 1, "{text}");
    assert_eq!(text.matches("nvrtcCreateProgram").count(), text.matches("nvrtcDestroyProgram").count());
    fs::remove_file(&log).unwrap();
    test();
    assert!(!log.exists(), "a hit calls NVRTC: {}", fs::read_to_string(&log).unwrap_or_default());
}

/// The driver can't be used in a process forked from the one that started it: an error says so, and nothing hangs.
#[test]
fn forked_processes_are_told() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
    }
    let log = within("forked_processes_are_told", Driver::Whole, &[], || {
        let program = load(Memory::Plain).unwrap();
        run(&program, 10).unwrap();
        // SAFETY: the child calls nothing but our own code, which takes no lock that another thread may hold, and ends.
        let child = unsafe { fork() };
        if child == 0 {
            let told = |error: Error| matches!(error, Error::Missing(Missing::Forked)) && error.kind() == Kind::Environment;
            let all = run(&program, 10).is_err_and(told) && Device::open(0).is_err_and(told) && Facts::of(0).is_err_and(told);
            drop(program);
            // SAFETY: ends the child at once, without what the parent has registered.
            unsafe { _exit(if all { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: a valid pointer, and a child of this process.
        assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        run(&program, 10).unwrap();
    });
    if !is_child() {
        nothing_is_left(&log);
    }
}

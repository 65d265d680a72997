//! Machines of all sorts, made with stand-ins for the driver and for NVRTC: devices, versions, architectures, what is missing.
#![cfg(target_os = "linux")]

#[path = "standin/sample.rs"]
mod sample;
mod standin;

use std::fs;
use std::path::Path;

use gpukc_runtime::advice::Words;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Compiler, Wanted};
use gpukc_runtime::device::{Device, Facts, Memory};
use gpukc_runtime::error::{Error, Kind, Missing};
use gpukc_runtime::nvrtc::Form;
use sample::{SOURCE, compile, is_child, load, nothing_is_left, run, within};
use standin::Driver;

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
            let text = format!("{error}; {}", error.help(&Words::NONE));
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
        assert!(error.help(&Words::NONE).contains("restart"));
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

/// Options and architectures that a version lacks are not asked for.
#[test]
fn older_versions_of_nvrtc_will_do() {
    for version in ["11.2", "11.8", "12.0", "12.3", "12.4", "12.8", "12.9"] {
        within("older_versions_of_nvrtc_will_do", Driver::Whole, &[("STANDIN_NVRTC", version)], || {
            let binary = compile(Facts::of(0).unwrap().target).unwrap();
            let expected = if std::env::var("STANDIN_NVRTC").unwrap().starts_with("11") { "sm_90" } else { "sm_90a" };
            assert_eq!((binary.form, binary.architecture.as_str()), (Form::Cubin, expected));
        });
        if is_child() {
            return;
        }
    }
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

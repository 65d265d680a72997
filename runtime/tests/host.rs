//! The host's side of a call, with stand-ins for the driver and for NVRTC: what is launched and how, and every call that may
//! fail. Each test runs itself again in a process that meets the stand-ins.
#![cfg(target_os = "linux")]

#[path = "standin/sample.rs"]
mod sample;
mod standin;

use gpukc_codegen::kernel::{Argument, Kernel};
use gpukc_dsl::arena::Id;
use gpukc_dsl::source::Span;
use gpukc_runtime::advice::Words;
use gpukc_runtime::device::{Device, Facts, Memory};
use gpukc_runtime::error::{Error, Kind, Missing};
use gpukc_runtime::launch::{Method, Program, Timing};
use sample::{call, compile, is_child, kernel, load, nothing_is_left, run, within};
use standin::Driver;

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
            "launch second grid=8,1,1 block=128,1,1 shared=65536 overlapping parameters=memory:4000,memory:4000,8:1000,memory:32",
        ]
    );
    nothing_is_left(&log);
}

/// Where NVRTC is older than the device, its code may not wait for the launch in front: nothing overlaps then.
#[test]
fn code_of_older_architectures_does_not_overlap() {
    for (architectures, overlaps) in [("75 80 89", 0), ("75 80 90", 1)] {
        let settings = [("STANDIN_ARCHITECTURES", architectures)];
        let log = within("code_of_older_architectures_does_not_overlap", Driver::Whole, &settings, || {
            run(&load(Memory::Pooled).unwrap(), 1000).unwrap();
        });
        if is_child() {
            return;
        }
        assert_eq!(log.lines().filter(|line| line.contains(" overlapping ")).count(), overlaps, "{log}");
        assert_eq!(log.lines().filter(|line| line.starts_with("launch ")).count(), 2, "{log}");
    }
}

/// Blocks that stride are no more than run at once by the driver's calculator; where it does not tell, as many as the contract says.
#[test]
fn striding_blocks_run_at_once() {
    for (setting, blocks) in [("", 132 * 2048 / 256), ("cuOccupancyMaxActiveBlocksPerMultiprocessor=1", 3907)] {
        let log = within("striding_blocks_run_at_once", Driver::Whole, &[("STANDIN_FAIL", setting)], || {
            run(&load(Memory::Plain).unwrap(), 1_000_000).unwrap();
        });
        if is_child() {
            return;
        }
        assert!(log.contains(&format!("launch first grid={blocks},1,1 ")) && log.contains("launch second grid=7813,1,1 "), "{log}");
    }
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
fn calls_are_timed_on_several_sets_in_turn() {
    // A launch takes 0.25 ms here: two are as long as a timing, and each of the three sets has its turn.
    let log = within("calls_are_timed_on_several_sets_in_turn", Driver::Whole, &[], || {
        let timing = time(3, Some(5)).unwrap();
        assert_eq!((timing.method, timing.together), (Method::Graph, 3));
        assert_eq!(timing.milliseconds, [0.25f32 / 3.0; 5]);
    });
    if is_child() {
        return;
    }
    // One intermediate memory for all: 4000 bytes for `x`, `y` of each set, and for it.
    assert_eq!(log.matches("allocate 4000").count(), 7, "{log}");
    let replays: Vec<&str> = log.split("replay\n").skip(1).collect();
    assert!(replays.len() > 6);
    for replay in &replays[..replays.len() - 1] {
        let launches: Vec<&str> = replay.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(launches, ["first", "second", "first", "second", "first", "second"]);
    }
    nothing_is_left(&log);
}

#[test]
fn drivers_without_graphs_time_launches() {
    let log = within("drivers_without_graphs_time_launches", Driver::Old, &[], || {
        let timing = time(2, Some(4)).unwrap();
        assert_eq!((timing.method, timing.together, timing.milliseconds), (Method::Event, 2, vec![0.125; 4]));
    });
    if !is_child() {
        assert!(!log.contains("replay"));
        nothing_is_left(&log);
    }
}

/// A driver that does not capture a launch, or make the graph, has its launches timed.
#[test]
fn graphs_that_cannot_be_made() {
    let test = |fail: &str| {
        within("graphs_that_cannot_be_made", Driver::Whole, &[("STANDIN_FAIL", fail)], || {
            assert_eq!(time(1, None).unwrap().method, Method::Event);
        })
    };
    if is_child() {
        test("");
        return;
    }
    // Eight launches go before: two of every call, to see how long one takes.
    for fail in ["cuStreamBeginCapture=1", "cuLaunchKernel#5=900", "cuLaunchKernelEx#5=900", "cuGraphInstantiateWithFlags=1"] {
        let log = test(fail);
        assert!(!log.contains("replay"));
        nothing_is_left(&log);
    }
}

#[test]
fn a_device_lost_in_a_graph_is_an_error() {
    within("a_device_lost_in_a_graph_is_an_error", Driver::Whole, &[("STANDIN_FAIL", "cuGraphLaunch#3=719")], || {
        assert!(matches!(time(1, None).unwrap_err(), Error::Call { code: 719, .. }));
    });
}

/// What the checks on the device find is found behind the timed calls, which do not clear it.
#[test]
fn timed_calls_report() {
    within("timed_calls_report", Driver::Whole, &[("STANDIN_REPORT", "0 -7 1000")], || {
        assert!(matches!(time(2, None).unwrap_err(), Error::IndexOutOfRange { index: -7, extent: 1000, .. }));
    });
}

/// Times the sample on as many sets.
fn time(sets: usize, timings: Option<usize>) -> Result<Timing, Error> {
    let program = load(Memory::Pooled)?;
    let bytes = vec![0; 4000];
    let first = program.upload(&call(1000), &[(Id::new(0), &bytes)], &[Id::new(1)], &|_| "x".into())?;
    let mut all = vec![first];
    for _ in 1..sets {
        all.push(all[0].duplicate()?);
    }
    program.rotation(&call(1000), &all)?.time(timings)
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
        "cuLaunchKernelEx",
        "cuStreamSynchronize",
    ];
    let test = |call: &str, code: &str| {
        let setting = format!("{call}={code}");
        within("every_call_may_fail", Driver::Whole, &[("STANDIN_FAIL", &setting), ("STANDIN_CALL", call)], || {
            let error = load(Memory::Plain).and_then(|program| run(&program, 1000)).map(drop).unwrap_err();
            let failing = std::env::var("STANDIN_CALL").unwrap();
            assert!(matches!(&error, Error::Call { call, .. } if *call == failing.split('#').next().unwrap()), "{error}");
            assert!(!error.help(&Words::NONE).is_empty());
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
                assert_eq!(error.kind(), Kind::Input);
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

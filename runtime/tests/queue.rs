//! Streams, memory and laid out launches, with the stand-in for the driver: what waits for what, what is freed, what is reported.
#![cfg(target_os = "linux")]

mod standin;

use std::fs;
use std::process::Command;
use std::sync::Arc;

use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch, Scratch, Site};
use gpukc_dsl::arena::Id;
use gpukc_dsl::source::{Source, Span};
use gpukc_dsl::types::Type;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Compiler, Wanted};
use gpukc_runtime::device::Device;
use gpukc_runtime::error::{Error, Kind};
use gpukc_runtime::launch::{Call, Layout, Loaded, Scalar, Shape};
use gpukc_runtime::memory::{Memory, Piece};
use gpukc_runtime::pinned::{Copying, Pinned};
use gpukc_runtime::queue::Queue;
use gpukc_runtime::stream::{Event, Stream};
use standin::Driver;

const SOURCE: &str = "extern \"C\" __global__ void __launch_bounds__(256) first(float a, const float* __restrict__ x, float* __restrict__ t, int n) {}
extern \"C\" __global__ void __launch_bounds__(256) second(const float* __restrict__ t, float* __restrict__ y, unsigned long long* report) {}
";

/// `y` from `x` by way of an intermediate memory, with a check.
fn kernel() -> Kernel {
    let n = || Formula::Dim(Id::new(0), "n".into());
    let launch = |entry: &str, arguments: Vec<Argument>| Launch {
        entry: entry.into(),
        grid: [n().div_ceil(256), 1.into(), 1.into()],
        block: [256, 1, 1],
        cluster: 1,
        striding: false,
        overlapping: false,
        shared_bytes: 0,
        arguments,
        span: Span::new(2, 3),
    };
    let (x, y) = (Argument::Array(Id::new(0)), Argument::Array(Id::new(1)));
    let first = vec![Argument::Scalar(Id::new(0)), x, Argument::Scratch(1), Argument::Size(n(), Type::I32)];
    let scratch = |name: &str, bytes: Formula, zeroed| Scratch { name: name.into(), bytes, zeroed };
    Kernel {
        name: "scale".into(),
        source: SOURCE.into(),
        scratch: vec![scratch("s", 8.into(), true), scratch("t", n().times(4), false)],
        launches: vec![launch("first", first), launch("second", vec![Argument::Scratch(1), y, Argument::Report])],
        sites: vec![Site { array: "x".into(), axis: 0, span: Span::new(4, 5) }],
    }
}

fn call(n: i64) -> Call {
    let shape = Shape { element: Type::F32, extents: vec![n] };
    let scalars = vec![Scalar { ty: Type::F32, bits: 0 }];
    Call { dims: vec![n], scalars, arrays: vec![Some(shape.clone()), Some(shape)] }
}

fn loaded(queue: &Queue) -> Arc<Loaded> {
    let target = queue.device().facts().target;
    let binary = Compiler::new(Cache::off()).compile(SOURCE, "scale", target, Wanted::Binary, &[]).unwrap();
    Arc::new(Loaded::new(queue, &kernel(), &binary, &Arc::new(Source::new("scale.gk", "text"))).unwrap())
}

fn layout(queue: &Queue, n: i64) -> Layout {
    Layout::new(&loaded(queue), &call(n), &[Id::new(0)], &[Id::new(1)], None, 16).unwrap()
}

fn queue() -> Queue {
    Queue::new(&Device::open(0).unwrap()).unwrap()
}

fn filled(stream: &Stream, n: usize) -> Memory {
    let memory = stream.allocate(4 * n).unwrap();
    stream.write(memory.whole(), &vec![1; 4 * n]).unwrap();
    memory
}

/// Runs `body` in a process of its own that meets the stand-in, under these settings; gives the driver's log.
#[track_caller]
fn within(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) -> Option<String> {
    if std::env::var_os("STANDIN_CHILD").is_some() {
        body();
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    standin::prepare(&mut command, Driver::Whole).env("STANDIN_CHILD", "1").env("STANDIN_LOG", &log);
    let output = command.envs(settings.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.lines().last(), Some("release allocations=0 modules=0 streams=0 events=0"), "{log}");
    Some(log)
}

fn count(log: &str, start: &str) -> usize {
    log.lines().filter(|line| line.starts_with(start)).count()
}

#[test]
fn launches_are_as_the_contract_says() {
    let log = within("launches_are_as_the_contract_says", &[], || {
        let queue = queue();
        let stream = queue.main_stream();
        let (x, y) = (filled(&stream, 1000), filled(&stream, 1000));
        let layout = layout(&queue, 1000);
        for _ in 0..3 {
            layout.launch(&stream, &[u64::from(3f32.to_bits())], &[x.whole()], &[y.whole()]).unwrap();
        }
        stream.synchronize().unwrap();
    });
    let Some(log) = log else { return };
    // Both intermediates lie in one memory, 256 bytes apart; repeated launches allocate nothing.
    assert_eq!(
        count(&log, "launch first grid=4,1,1 block=256,1,1 shared=0 parameters=4:1077936128,memory:4000,inside,4:1000"),
        3,
        "{log}"
    );
    assert_eq!(count(&log, "launch second grid=4,1,1 block=256,1,1 shared=0 parameters=inside,memory:4000,pinned:32"), 3, "{log}");
    assert_eq!(count(&log, "allocate"), 3, "{log}");
    assert_eq!(count(&log, "wait"), 0, "{log}");
}

#[test]
fn streams_wait_for_those_that_used_memory_before() {
    let log = within("streams_wait_for_those_that_used_memory_before", &[], || {
        let queue = queue();
        let (a, b) = (queue.main_stream(), queue.stream().unwrap());
        let (x, y, z) = (filled(&a, 8), filled(&a, 8), filled(&b, 8));
        let layout = layout(&queue, 8);
        let launch =
            |stream: &Stream, from: &Memory, to: &Memory| layout.launch(stream, &[0], &[from.whole()], &[to.whole()]).unwrap();
        launch(&a, &x, &y); // 0: all of it is a's
        launch(&b, &x, &z); // 1: x was written on a
        launch(&b, &x, &z); // 0: b comes after that already
        launch(&a, &x, &y); // 0: read by both
        launch(&b, &y, &z); // 1: y was written on a since
        launch(&b, &z, &x); // 1: x was read on a; by b itself too
        launch(&a, &x, &y); // 1 for x, written on b; 1 for y, read on b
        drop((x, z)); // x: b wrote it, a read it: 1. z: b alone
        drop(y);
    });
    if let Some(log) = log {
        assert_eq!(count(&log, "wait"), 6, "{log}");
    }
}

#[test]
fn what_a_launch_rests_on_is_checked() {
    within("what_a_launch_rests_on_is_checked", &[], || {
        let (queue, other) = (queue(), queue());
        let stream = queue.main_stream();
        let (x, y) = (filled(&stream, 16), filled(&stream, 16));
        let foreign = filled(&other.main_stream(), 8);
        let layout = layout(&queue, 8);
        fn part(memory: &Memory, offset: usize) -> Piece<'_> {
            memory.piece(offset, 32)
        }
        let (x, y) = (&x, &y);
        let fails = |reads: &[Piece], writes: &[Piece]| layout.launch(&stream, &[0], reads, writes).unwrap_err().error;
        assert!(layout.launch(&stream, &[0], &[part(x, 16)], &[part(y, 32)]).is_ok());
        // Another size, outside, unaligned, of another device, on none, too few.
        assert_eq!(fails(&[x.whole()], &[part(y, 0)]).kind(), Kind::Bug);
        assert_eq!(fails(&[part(x, 48)], &[part(y, 0)]).kind(), Kind::Bug);
        assert_eq!(fails(&[part(x, usize::MAX)], &[part(y, 0)]).kind(), Kind::Bug);
        assert_eq!(fails(&[part(x, 4)], &[part(y, 0)]).kind(), Kind::Bug);
        assert_eq!(fails(&[foreign.whole()], &[part(y, 0)]).kind(), Kind::Input);
        assert_eq!(fails(&[Piece::elsewhere()], &[part(y, 0)]).kind(), Kind::Input);
        assert_eq!(fails(&[], &[part(y, 0)]).kind(), Kind::Bug);
        assert_eq!(layout.launch(&other.main_stream(), &[0], &[part(x, 0)], &[part(y, 0)]).unwrap_err().error.kind(), Kind::Input);
        assert_eq!(layout.launch(&stream, &[], &[part(x, 0)], &[part(y, 0)]).unwrap_err().error.kind(), Kind::Bug);
        // What is written is nobody else's.
        assert!(fails(&[part(x, 0)], &[part(x, 16)]).to_string().contains("another argument has too"));
    });
}

#[test]
fn reports_come_with_the_next_wait() {
    within("reports_come_with_the_next_wait", &[("STANDIN_REPORT", "0 -7 8")], || {
        let queue = queue();
        let stream = queue.stream().unwrap();
        let (x, y) = (filled(&stream, 8), filled(&stream, 8));
        let layout = layout(&queue, 8);
        layout.launch(&stream, &[0], &[x.whole()], &[y.whole()]).unwrap();
        let mut bytes = [0; 32];
        let fault = stream.read(y.whole(), &mut bytes).unwrap_err();
        let Error::IndexOutOfRange { kernel, site, index, extent } = &fault.error else { panic!("{}", fault.error) };
        assert_eq!((kernel.as_str(), site.span, *index, *extent), ("scale", Span::new(4, 5), -7, 8));
        assert_eq!(fault.source.unwrap().name(), "scale.gk");
        // Once.
        stream.read(y.whole(), &mut bytes).unwrap();
        layout.launch(&stream, &[0], &[x.whole()], &[y.whole()]).unwrap();
        assert!(queue.synchronize_all().is_err() && queue.synchronize_all().is_ok());
        layout.launch(&stream, &[0], &[x.whole()], &[y.whole()]).unwrap();
        let event = Event::record(&stream).unwrap();
        assert!(event.synchronize().is_err() && event.synchronize().is_ok());
        // A watched launch waits itself.
        queue.watch(true);
        let fault = layout.launch(&stream, &[0], &[x.whole()], &[y.whole()]).unwrap_err();
        assert!(matches!(fault.error, Error::IndexOutOfRange { index: -7, .. }), "{}", fault.error);
        assert!(stream.synchronize().is_ok());
        // What was reported is told even if the kernel is gone.
        queue.watch(false);
        layout.launch(&stream, &[0], &[x.whole()], &[y.whole()]).unwrap();
        drop(layout);
        let fault = queue.synchronize_all().unwrap_err();
        assert!(matches!(fault.error, Error::IndexOutOfRange { index: -7, .. }), "{}", fault.error);
        assert!(queue.synchronize_all().is_ok());
    });
}

#[test]
fn watched_launches_know_their_faults() {
    for (watched, expected) in [("1", "cuStreamSynchronize failed with 700"), ("0", "")] {
        let settings = [("STANDIN_FAIL", "cuStreamSynchronize#3=700"), ("WATCHED", watched)];
        if std::env::var_os("STANDIN_CHILD").is_some_and(|_| std::env::var("WATCHED").as_deref() != Ok(watched)) {
            continue;
        }
        let body = || {
            let queue = queue();
            queue.watch(watched == "1");
            let stream = queue.main_stream();
            let (x, y) = (filled(&stream, 8), filled(&stream, 8));
            let launched = layout(&queue, 8).launch(&stream, &[0], &[x.whole()], &[y.whole()]);
            if expected.is_empty() {
                launched.unwrap();
                return;
            }
            let error = launched.unwrap_err().error.to_string();
            assert!(error.starts_with(expected) && error.ends_with("for kernel `scale`, in its launch `first`"), "{error}");
        };
        let run =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| within("watched_launches_know_their_faults", &settings, body)));
        // A device that has failed gives nothing back; what matters is what the child has asserted.
        let failed = run.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default());
        assert!(failed.is_none_or(|text| text.contains("release allocations=") && !text.contains("panicked")), "{watched}");
    }
}

#[test]
fn many_streams_share() {
    let log = within("many_streams_share", &[], || {
        let queue = queue();
        let streams: Vec<Stream> = (0..100).map(|_| queue.stream().unwrap()).collect();
        streams.iter().for_each(|stream| stream.synchronize().unwrap());
        drop(streams);
        let again: Vec<Stream> = (0..20).map(|_| queue.stream().unwrap()).collect();
        drop(filled(&again[19], 8));
    });
    if let Some(log) = log {
        assert_eq!(count(&log, "allocate"), 1);
    }
}

#[test]
fn pinned_memory_is_copied_while_the_host_goes_on() {
    within("pinned_memory_is_copied_while_the_host_goes_on", &[], || {
        let queue = queue();
        let stream = || queue.main_stream();
        let memory = stream().allocate(16).unwrap();
        let mut pinned = Pinned::new(queue.device(), 16).unwrap();
        assert_eq!(pinned.as_bytes(), [0; 16]);
        pinned.as_bytes_mut()[3] = 9;
        let pinned = Copying::to_device(&stream(), pinned, memory.whole()).unwrap().wait().unwrap();
        let mut bytes = [0; 16];
        stream().read(memory.whole(), &mut bytes).unwrap();
        assert_eq!((bytes[3], bytes[4]), (9, 0));
        stream().zero(memory.piece(3, 1)).unwrap();
        let copying = Copying::to_host(&stream(), memory.whole(), pinned).unwrap();
        assert!(copying.is_done().unwrap());
        assert_eq!(copying.wait().unwrap().as_bytes(), [0; 16]);
        // A copy of another size is refused; one that is dropped waits.
        assert!(Copying::to_device(&stream(), Pinned::new(queue.device(), 8).unwrap(), memory.whole()).is_err());
        drop(Copying::to_host(&stream(), memory.whole(), Pinned::new(queue.device(), 16).unwrap()).unwrap());
        drop(Copying::to_host(&stream(), memory.piece(0, 0), Pinned::new(queue.device(), 0).unwrap()).unwrap());
    });
}

#[test]
fn copies_and_events() {
    within("copies_and_events", &[], || {
        let queue = queue();
        let stream = queue.stream().unwrap();
        let start = Event::record(&stream).unwrap();
        let (x, y) = (filled(&stream, 4), stream.allocate(16).unwrap());
        stream.copy(x.whole(), y.whole()).unwrap();
        let mut bytes = [0; 16];
        y.stream().read(y.whole(), &mut bytes).unwrap();
        assert_eq!(bytes, [1; 16]);
        assert!(stream.copy(x.whole(), x.whole()).is_err() && stream.copy(x.piece(0, 4), y.whole()).is_err());
        let end = Event::record(&stream).unwrap();
        assert_eq!(end.since(&start).unwrap().as_micros(), 250);
    });
}

#[test]
fn threads_share_a_queue() {
    within("threads_share_a_queue", &[], || {
        let queue = queue();
        let x = filled(&queue.main_stream(), 64);
        let layout = layout(&queue, 64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let stream = queue.stream().unwrap();
                    for _ in 0..50 {
                        let y = stream.allocate(256).unwrap();
                        layout.launch(&stream, &[0], &[x.whole()], &[y.whole()]).unwrap();
                    }
                    stream.synchronize().unwrap();
                });
            }
        });
    });
}

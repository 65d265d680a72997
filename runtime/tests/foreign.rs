//! Programs that use cudarc, with the stand-in for the driver: which of its streams and memory are taken, and what is waited for.
#![cfg(target_os = "linux")]

#[path = "standin/sample.rs"]
mod sample;
mod standin;

use std::sync::Arc;

use gpukc_runtime::cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use gpukc_runtime::device::Device;
use gpukc_runtime::memory::Memory;
use gpukc_runtime::queue::Queue;
use gpukc_runtime::stream::Stream;
use sample::{is_child, within};
use standin::Driver;

fn queue() -> Queue {
    Queue::new(&Device::open(0).unwrap()).unwrap()
}

/// Memory of one stream that another one has read since.
fn read_elsewhere(own: &Arc<CudaStream>, other: &Arc<CudaStream>) -> CudaSlice<f32> {
    let slice = own.clone_htod(&[1.0f32, 2.0]).unwrap();
    let copy = other.clone_dtod(&slice).unwrap();
    drop(copy);
    slice
}

/// Whoever is lent memory to be written, or given it, comes after all of cudarc's streams that read it; a reader after those that wrote it.
#[test]
fn what_cudarc_has_asked_of_memory_comes_first() {
    // How often streams wait for others while the memory changes hands.
    for (what, waits) in [("lend", 1), ("lend_mut", 2), ("give", 2)] {
        let settings = [("WHAT", what)];
        if is_child() && std::env::var("WHAT").as_deref() != Ok(what) {
            continue;
        }
        let log = within("what_cudarc_has_asked_of_memory_comes_first", Driver::Whole, &settings, || {
            let (queue, context) = (queue(), CudaContext::new(0).unwrap());
            let (own, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
            let mut slice = read_elsewhere(&own, &other);
            mark(&queue);
            match what {
                "lend" => Memory::lend(&queue, &slice, |_| mark(&queue)).unwrap(),
                "lend_mut" => Memory::lend_mut(&queue, &mut slice, |_| mark(&queue)).unwrap(),
                _ => {
                    let memory = Memory::of_cudarc(&queue, slice).unwrap();
                    mark(&queue);
                    assert_eq!(memory.into_cudarc::<f32>().unwrap().unwrap().len(), 2);
                }
            }
        });
        if !is_child() {
            let between = log.split("allocate 4242\n").nth(1).unwrap_or_else(|| panic!("{log}"));
            assert_eq!(between.lines().filter(|line| *line == "wait").count(), waits, "{what}: {log}");
        }
    }
}

/// Leaves a line in the log.
fn mark(queue: &Queue) {
    drop(queue.main_stream().allocate(4242).unwrap());
}

#[test]
fn streams_that_are_another_one_in_each_thread_are_refused() {
    within("streams_that_are_another_one_in_each_thread_are_refused", Driver::Whole, &[], || {
        let (queue, context) = (queue(), CudaContext::new(0).unwrap());
        let refused = Stream::of_cudarc(&queue, &context.per_thread_stream()).map(drop).unwrap_err();
        assert!(refused.to_string().contains("per-thread stream"), "{refused}");
        Stream::of_cudarc(&queue, &context.default_stream()).unwrap().synchronize().unwrap();
        Stream::of_cudarc(&queue, &context.new_stream().unwrap()).unwrap().synchronize().unwrap();
    });
}

//! Kernels called from Rust, on a GPU (feature `device`): values, faults, threads, binaries made ahead, programs that use cudarc. What
//! takes its time is in `benches/calls.rs`.
#![allow(dead_code)]

use std::process::Command;

use gpukc::half::f16;
use gpukc::{DeviceArray, Error, ErrorKind, Gpu, PinnedBuffer, interop};

#[macro_use]
#[path = "common/examples.rs"]
mod list;

macro_rules! run_all {
    ($($name:ident $file:literal)+) => {
        $(
            #[path = $file]
            mod $name;
        )+

        #[test]
        fn examples_run() -> Result<(), Error> {
            $($name::main()?;)+
            Ok(())
        }
    };
}

examples!(run_all);

gpukc::gpu_kernel! {
    kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] { z[i] = a * x[i] + y[i]; }
    kernel scale(a: f32, x: f32[n]) -> z: f32[n] { z[i] = a * x[i]; }
    kernel rows(x: f32[m, n]) -> y: f32[m] { y[i] = sum[j] x[i, j]; }
    kernel total(x: f32[n]) -> f32 { sum[k] x[k] }
    kernel gather(x: f32[n], at: i32[m]) -> y: f32[m] { y[i] = x[at[i]]; }
    kernel halves(x: f16[n], y: f16[n]) -> z: f16[n] { z[i] = x[i] * y[i] + x[i]; }
    kernel negative(x: f32[n]) -> y: bool[n] { y[i] = x[i] < 0.0; }
    kernel turn(x: i64[n]) -> y: i64[n] { y[i] = 3 * x[n - 1 - i] + i; }
    kernel mix(x: i64[n]) -> y: i64[n] {
        let s = sum[k] x[k];
        y[i] = 3 * x[n - 1 - i] + s;
    }
    kernel keys(x: i64[n]) -> at: i32[n] { at[i] = mod_floor(x[i], n) as i32; }
    kernel pick(x: i64[n], at: i32[n]) -> y: i64[n] { y[i] = x[at[i]] + i; }
    kernel spread(x: i64[n], at: i32[n]) -> h: i64[n] { h[at[i]] += x[i]; }
    kernel prefix(x: i64[n]) -> y: i64[n] { y[i] = sum[j in 0..=i] x[j]; }
    kernel fused(x: f32[m, n], w: f32[n]) -> y: f32[m, n] {
        let t[i, j] = exp(x[i, j]) * w[j];
        y[i, j] = t[i, j] / (1.0 + abs(x[i, j]));
    }
}

fn gpu() -> Result<Gpu, Error> {
    Gpu::new(0)
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919) % 1000) as f32 / 250.0 - 2.0).collect()
}

#[test]
fn the_same_bits_as_on_the_cpu() -> Result<(), Error> {
    let (gpu, cpu) = (gpu()?, Gpu::cpu());
    for n in [0, 1, 2, 3, 4, 31, 1000, 4096, 4097, 100_003] {
        let (x, y) = (values(n), values(2 * n)[n..].to_vec());
        let on = |device: &Gpu| -> Result<_, Error> {
            let (x, y) = (device.upload(&x)?, device.upload(&y)?);
            let z = saxpy(device, 1.7, &x, &y)?;
            let tail = if n > 3 { total(device, &z.part(1, [n - 1])?)?.value()? } else { 0.0 };
            Ok((z.to_vec()?, total(device, &z)?.value()?, tail))
        };
        assert_eq!(on(&gpu)?, on(&cpu)?, "{n}");
    }
    Ok(())
}

/// Launches may be set up while those in front of them still run, but read only what these have written: back to back, each block reads
/// what others, elsewhere, have just written, into memory that was read a launch before.
#[test]
fn launches_see_what_those_in_front_wrote() -> Result<(), Error> {
    let gpu = gpu()?;
    for n in [1000_i64, 40_000, 1_000_003] {
        let mut expected: Vec<i64> = (0..n).collect();
        let (mut x, mut y) = (gpu.upload(&expected)?, gpu.zeros([n as usize])?);
        for round in 0..(10_000_000 / n).min(2000) {
            let sum = expected.iter().fold(0_i64, |sum, x| sum.wrapping_add(*x));
            let mixed = round % 3 == 0;
            let next = |(i, x): (usize, &i64)| x.wrapping_mul(3).wrapping_add(if mixed { sum } else { i as i64 });
            expected = expected.iter().rev().enumerate().map(next).collect();
            if mixed {
                mix::into(&gpu, &x, &mut y)?
            } else {
                turn::into(&gpu, &x, &mut y)?
            };
            std::mem::swap(&mut x, &mut y);
        }
        assert!(x.to_vec()? == expected, "{n} elements");
    }
    Ok(())
}

/// Launches that may be set up early, between fills, copies, allocations that reuse what was just freed, checks and atomics, and on streams
/// that wait for one another.
#[test]
fn launches_keep_their_order_beside_everything_else() -> Result<(), Error> {
    let on = |gpu: &Gpu, n: usize| -> Result<Vec<i64>, Error> {
        let streams = [gpu.stream().clone(), gpu.new_stream()?, gpu.new_stream()?];
        let mut x = gpu.upload(&(0..n as i64).collect::<Vec<_>>())?;
        for round in 0..150 {
            let [first, second] = [&streams[round % 3], &streams[(round / 2) % 3]];
            let y = turn::on(first, &x)?;
            let mut z = gpu.zeros([n])?;
            mix::on_into(second, &y, &mut z)?;
            let at = keys::on(first, &z)?;
            let picked = pick::on(second, &z, &at)?;
            x.assign(&spread::on(second, &picked, &at)?)?;
            x = prefix::on(first, &x)?;
        }
        x.to_vec()
    };
    let gpu = gpu()?;
    for n in [1000, 40_000, 300_007] {
        assert!(on(&gpu, n)? == on(&Gpu::cpu(), n)?, "{n} elements");
    }
    gpu.synchronize()
}

#[test]
fn in_place_gives_the_same() -> Result<(), Error> {
    let gpu = gpu()?;
    for (m, n) in [(1, 1), (3, 5), (64, 64), (100, 257), (1000, 1024)] {
        let mut x = DeviceArray::new(&gpu, [m, n], &values(m * n))?;
        let w = gpu.upload(&values(n))?;
        let expected = fused(&gpu, &x, &w)?.to_vec()?;
        fused::in_place_x(&gpu, &mut x, &w)?;
        assert_eq!(x.to_vec()?, expected, "{m} {n}");
        let (x, mut y) = (gpu.upload(&values(m * n))?, gpu.upload(&values(m * n))?);
        let expected = saxpy(&gpu, 3.0, &x, &y)?.to_vec()?;
        saxpy::in_place_y(&gpu, 3.0, &x, &mut y)?;
        assert_eq!(y.to_vec()?, expected, "{m} {n}");
    }
    Ok(())
}

#[test]
fn indices_out_of_range_are_reported() -> Result<(), Error> {
    let gpu = gpu()?;
    let x = gpu.upload(&values(100))?;
    let stream = gpu.new_stream()?;
    for wrong in [-1, 100, i32::MAX] {
        let at = gpu.upload(&[0, wrong, 99])?;
        let y = gather::on(&stream, &x, &at)?;
        let error = y.to_vec().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexOutOfRange);
        assert!(
            error.to_string().contains(&format!("index {wrong} is out of range for axis 0 of `x`, whose extent is 100")),
            "{error}"
        );
        assert_eq!(y.to_vec()?[1], 0.0);
        // The device goes on as before.
        assert_eq!(gather(&gpu, &x, &gpu.upload(&[5])?)?.to_vec()?, [values(100)[5]]);
        let _ = gather(&gpu, &x, &at)?;
        assert!(gpu.synchronize().is_err() && gpu.synchronize().is_ok());
    }
    Ok(())
}

#[test]
fn other_types_at_any_place() -> Result<(), Error> {
    const COUNT: usize = 995;
    let x: Vec<f16> = values(COUNT + 8).into_iter().map(f16::from_f32).collect();
    for start in [0, 1, 3, 8] {
        let on = |device: &Gpu| -> Result<_, Error> {
            let (x, signs) = (device.upload(&x)?, device.upload(&values(COUNT + 8))?);
            let mut z = device.zeros([COUNT + 8])?;
            let place = &mut z.part_mut(8 - start, [COUNT])?;
            halves::into(device, &x.part(start, [COUNT])?, &x.part(1, [COUNT])?, place)?;
            Ok((z.to_vec()?, negative(device, &signs.part(start, [COUNT])?)?.to_vec()?))
        };
        assert_eq!(on(&gpu()?)?, on(&Gpu::cpu())?, "{start}");
    }
    Ok(())
}

#[test]
fn events_and_pinned_memory() -> Result<(), Error> {
    const COUNT: usize = 1 << 20;
    let gpu = gpu()?;
    let stream = gpu.new_stream()?;
    let mut x = gpu.zeros([COUNT])?;
    let start = stream.record()?;
    let copy = PinnedBuffer::from_slice(&gpu, &values(COUNT))?.copy_to(&stream, &mut x)?;
    let end = stream.record()?;
    end.synchronize()?;
    assert!(end.is_done()? && (1..1_000_000).contains(&end.since(&start)?.as_micros()), "{:?}", end.since(&start)?);
    let buffer = copy.wait()?.copy_from(&stream, &scale::on(&stream, 2.0, &x)?)?.wait()?;
    assert!(buffer.as_slice().iter().zip(values(COUNT)).all(|(found, x)| *found == 2.0 * x));
    let signs = PinnedBuffer::zeros(&gpu, COUNT)?.copy_from(&stream, &negative::on(&stream, &x)?)?.wait()?;
    assert!(signs.as_slice().iter().zip(values(COUNT)).all(|(found, x)| *found == (x < 0.0)));
    Ok(())
}

#[test]
fn watched_calls_know_their_faults() -> Result<(), Error> {
    let gpu = gpu()?;
    gpu.watch(true);
    let (x, wrong) = (gpu.upload(&values(10))?, gpu.upload(&[10])?);
    assert_eq!(gather(&gpu, &x, &wrong).unwrap_err().kind(), ErrorKind::IndexOutOfRange);
    assert_eq!(total(&gpu, &gpu.upload(&[1.0, 2.0])?)?.value()?, 3.0);
    Ok(())
}

const AHEAD: &str = "kernel twice(x: f32[n]) -> y: f32[n] { y[i] = x[i] + x[i]; }\nkernel total(x: f32[n]) -> f32 { sum[k] x[k] }\n";

/// A process that does what a build script does, then one that finds no NVRTC.
#[test]
fn binaries_made_ahead_need_the_driver_only() {
    let Some(folder) = std::env::var_os("AHEAD").map(std::path::PathBuf::from) else {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ahead.gk"), AHEAD).unwrap();
        for part in ["build", "run"] {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["binaries_made_ahead_need_the_driver_only", "--exact"]).env("GPUKC_CACHE", "off");
            command.env("AHEAD", folder.path()).env("AHEAD_PART", part);
            if part == "run" {
                command.env("GPUKC_NVRTC", folder.path());
            }
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        return;
    };
    let architecture = gpu().unwrap().info().architecture;
    if std::env::var("AHEAD_PART").as_deref() == Ok("build") {
        gpukc::build::Files::new().file("ahead.gk").architectures(&[&architecture]).compile_in(&folder, &folder).unwrap();
        return;
    }
    run_what_was_built(&folder).unwrap();
}

fn run_what_was_built(folder: &std::path::Path) -> Result<(), Error> {
    use gpukc::__private::{Kernel, given, taken, typed};
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|ending| ending == "gpukc")).unwrap();
    let bytes: &'static [u8] = std::fs::read(file).unwrap().leak();
    let (twice, total) = (Kernel::new("twice", AHEAD, "ahead.gk", 1, bytes), Kernel::new("total", AHEAD, "ahead.gk", 1, bytes));
    let gpu = gpu()?;
    let mut x = gpu.upload(&values(1000))?;
    twice.call_in_place(gpu.stream(), &[], &[taken(&mut x.part_mut(1, [999])?)], 0)?;
    let [y] = twice.call::<1>(gpu.stream(), &[], &[given(&x)])?;
    let y = typed::<f32, 1>(y)?;
    let [sum] = total.call::<1>(gpu.stream(), &[], &[given(&y)])?;
    let expected: Vec<f32> = (0..1000).map(|at| values(1000)[at] * if at == 0 { 2.0 } else { 4.0 }).collect();
    assert_eq!(y.to_vec()?, expected);
    let cpu = Gpu::cpu();
    assert_eq!(typed::<f32, 0>(sum)?.value()?, self::total(&cpu, &cpu.upload(&expected)?)?.value()?);
    Ok(())
}

#[test]
fn threads_share_a_gpu() -> Result<(), Error> {
    let gpu = gpu()?;
    let x = gpu.upload(&values(1000))?;
    let expected = saxpy(&gpu, 2.0, &x, &x)?.to_vec()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| -> Result<(), Error> {
                    let stream = gpu.new_stream()?;
                    for _ in 0..200 {
                        assert_eq!(saxpy::on(&stream, 2.0, &x, &x)?.to_vec()?, expected);
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })
}

#[test]
fn programs_with_cudarc() -> Result<(), Box<dyn std::error::Error>> {
    let context = interop::cudarc::driver::CudaContext::new(0)?;
    let theirs = context.new_stream()?;
    let mut x = theirs.clone_htod(&values(1000))?;
    let gpu = interop::gpu(&context)?;
    let stream = interop::stream(&gpu, &theirs)?;
    let doubled: Vec<f32> = values(1000).iter().map(|x| 2.0 * x).collect();

    let sum = interop::with(&gpu, &x, [1000], |x| scale::on(&stream, 2.0, x)?.to_vec())?;
    assert_eq!(sum, doubled);
    interop::with_mut(&gpu, &mut x, [1000], |x| scale::on_in_place_x(&stream, 2.0, x))?;
    assert_eq!(theirs.clone_dtoh(&x)?, doubled);
    let written = interop::with(&gpu, &x, [1000], |x| {
        let mut other = gpu.zeros([1000])?;
        other.assign(x)?;
        other.to_vec()
    })?;
    assert_eq!(written, doubled);

    // An array that is taken out of its loan can't be used any more.
    let mut stolen = gpu.zeros([1000])?;
    interop::with_mut(&gpu, &mut x, [1000], |x| {
        std::mem::swap(x, &mut stolen);
        Ok(())
    })?;
    assert!(stolen.to_vec().is_err());
    drop(stolen);

    let mut array = interop::array(&gpu, x, [10, 100])?;
    array.write(&values(1000))?;
    assert_eq!(rows(&gpu, &array)?.shape(), [10]);
    let x = interop::into_slice(array)?;
    assert_eq!(theirs.clone_dtoh(&x)?, values(1000));
    assert!(interop::into_slice(gpu.upload(&[1.0f32])?).is_err());
    Ok(())
}

/// What cudarc's other streams still read is not written by us: copies that are asked for, memory that is lent or given meanwhile.
#[test]
fn cudarc_has_read_before_we_write() -> Result<(), Box<dyn std::error::Error>> {
    const COUNT: usize = 1 << 26;
    let context = interop::cudarc::driver::CudaContext::new(0)?;
    let (own, other) = (context.new_stream()?, context.new_stream()?);
    let gpu = interop::gpu(&context)?;
    let ones = vec![1.0f32; COUNT];
    let mut x = own.clone_htod(&ones)?;
    let mut copies = [other.alloc_zeros::<f32>(COUNT)?, other.alloc_zeros::<f32>(COUNT)?];
    // Everything is at hand, so that nothing but the order keeps us from writing at once.
    let (zeros, filled) = (gpu.zeros([COUNT])?, gpu.upload(&ones)?);
    scale::prepare(&gpu, 1.0, [COUNT])?;
    gpu.synchronize()?;

    (0..50).try_for_each(|_| other.memcpy_dtod(&x, &mut copies[0]))?;
    interop::with_mut(&gpu, &mut x, [COUNT], |x| x.assign(&zeros))?;
    (0..50).try_for_each(|_| other.memcpy_dtod(&x, &mut copies[1]))?;
    let mut x = interop::array(&gpu, x, [COUNT])?;
    scale::into(&gpu, 1.0, &filled, &mut x)?;

    assert!(other.clone_dtoh(&copies[0])? == ones, "lent too early");
    assert!(other.clone_dtoh(&copies[1])?.iter().all(|x| *x == 0.0), "taken too early");
    assert!(x.to_vec()? == ones);
    Ok(())
}

/// Streams and contexts that can't be ordered with ours.
#[test]
fn what_cudarc_has_besides_is_refused() -> Result<(), Box<dyn std::error::Error>> {
    let context = interop::cudarc::driver::CudaContext::new(0)?;
    let gpu = interop::gpu(&context)?;
    let refused = interop::stream(&gpu, &context.per_thread_stream()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("per-thread stream"), "{refused}");
    let on_default = interop::stream(&gpu, &context.default_stream())?;
    assert_eq!(scale::on(&on_default, 2.0, &gpu.upload(&[1.5])?)?.to_vec()?, [3.0]);
    let own = interop::cudarc::driver::CudaContext::new_non_primary(0, 0)?;
    assert_eq!(interop::gpu(&own).unwrap_err().kind(), ErrorKind::Arguments);
    Ok(())
}

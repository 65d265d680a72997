//! Kernels called from Rust, on a GPU (feature `device`): values, faults, what a call costs the host, memory over many launches,
//! streams that share arrays. `GPUKC_ROUNDS` sets how many rounds the long ones make, for slow tools.
#![allow(dead_code)]

use std::time::{Duration, Instant};

use gpukc::{DeviceArray, Error, ErrorKind, Gpu, PinnedBuffer, interop};

macro_rules! examples {
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

examples! {
    dot_product "../examples/dot_product.rs"
    heat "../examples/heat.rs"
    histogram "../examples/histogram.rs"
    blur "../examples/blur.rs"
    kmeans "../examples/kmeans.rs"
    mandelbrot "../examples/mandelbrot.rs"
    matmul "../examples/matmul.rs"
    reduction "../examples/reduction.rs"
    softmax "../examples/softmax.rs"
    transpose "../examples/transpose.rs"
    vector_add "../examples/vector_add.rs"
}

gpukc::gpu_kernel! {
    kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] { z[i] = a * x[i] + y[i]; }
    kernel scale(a: f32, x: f32[n]) -> z: f32[n] { z[i] = a * x[i]; }
    kernel rows(x: f32[m, n]) -> y: f32[m] { y[i] = sum[j] x[i, j]; }
    kernel total(x: f32[n]) -> f32 { sum[k] x[k] }
    kernel gather(x: f32[n], at: i32[m]) -> y: f32[m] { y[i] = x[at[i]]; }
    kernel fused(x: f32[m, n], w: f32[n]) -> y: f32[m, n] {
        let t[i, j] = exp(x[i, j]) * w[j];
        y[i, j] = t[i, j] / (1.0 + abs(x[i, j]));
    }
    kernel nineteen(
        a: f32, b: f32, c: f32, d: f32, e: f32, f: f32, g: f32, h: f32, k: f32,
        x0: f32[n], x1: f32[n], x2: f32[n], x3: f32[n], x4: f32[n], x5: f32[n], x6: f32[n], x7: f32[n], x8: f32[n]
    ) -> y: f32[n] {
        y[i] = a * x0[i] + b * x1[i] + c * x2[i] + d * x3[i] + e * x4[i] + f * x5[i] + g * x6[i] + h * x7[i] + k * x8[i];
    }
}

fn gpu() -> Result<Gpu, Error> {
    Gpu::new(0)
}

fn rounds(usual: usize) -> usize {
    std::env::var("GPUKC_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
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
            let tail = if n > 3 { total(device, &*z.part(1, [n - 1])?)?.value()? } else { 0.0 };
            Ok((z.to_vec()?, total(device, &z)?.value()?, tail))
        };
        assert_eq!(on(&gpu)?, on(&cpu)?, "{n}");
    }
    Ok(())
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

/// The best of some batches, per call.
fn best(mut batch: impl FnMut() -> Result<Duration, Error>) -> Result<f64, Error> {
    let mut least = f64::INFINITY;
    for _ in 0..20 {
        least = least.min(batch()?.as_secs_f64() * 1e6 / BATCH as f64);
    }
    Ok(least)
}

/// Few enough for the driver's queue to take all without waiting.
const BATCH: usize = 500;

#[test]
fn a_call_costs_the_host_little_more_than_a_launch() -> Result<(), Error> {
    use gpukc::__private::{bits, given};
    let gpu = gpu()?;
    let x: Vec<DeviceArray<f32, 1>> = (0..9).map(|_| gpu.upload(&values(1000))).collect::<Result<_, _>>()?;
    let (stream, mut y) = (gpu.stream(), gpu.zeros([1000])?);
    let timed = |y: &mut DeviceArray<f32, 1>, call: &dyn Fn(&mut DeviceArray<f32, 1>) -> Result<(), Error>| {
        best(|| {
            gpu.synchronize()?;
            let start = Instant::now();
            for _ in 0..BATCH {
                call(y)?;
            }
            Ok(start.elapsed())
        })
    };
    let bare_3 = best(|| {
        gpu.synchronize()?;
        scale::kernel().time_bare(stream, &[bits(2.0f32)], &[given(&x[0])], &[given(&y)], BATCH)
    })?;
    let call_3 = timed(&mut y, &|y| scale::into(&gpu, 2.0, &x[0], y))?;
    let scalars: Vec<u64> = (0..9).map(|at| bits(at as f32)).collect();
    let inputs: Vec<_> = x.iter().map(given).collect();
    let bare_19 = best(|| {
        gpu.synchronize()?;
        nineteen::kernel().time_bare(stream, &scalars, &inputs, &[given(&y)], BATCH)
    })?;
    let [x0, x1, x2, x3, x4, x5, x6, x7, x8] = std::array::from_fn(|at| &x[at]);
    let call_19 =
        timed(&mut y, &|y| nineteen::into(&gpu, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, x0, x1, x2, x3, x4, x5, x6, x7, x8, y))?;
    println!("host cost in µs: 3 arguments {call_3:.2}, bare {bare_3:.2}; 19 arguments {call_19:.2}, bare {bare_19:.2}");
    assert!(call_3 < bare_3 + 0.5, "{call_3} against {bare_3}");
    assert!(call_19 < bare_19 + 0.5, "{call_19} against {bare_19}");
    Ok(())
}

/// Pages that this process has in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

#[test]
fn memory_does_not_grow() -> Result<(), Error> {
    let gpu = gpu()?;
    let x = gpu.upload(&values(10_000))?;
    let mut z = gpu.zeros([10_000])?;
    let run = |z: &mut DeviceArray<f32, 1>, count: usize| -> Result<(), Error> {
        for round in 0..count {
            saxpy::into(&gpu, 1.0, &x, &x, z)?;
            if round % 10 == 0 {
                drop(scale(&gpu, 2.0, &x)?);
            }
            if round % 1000 == 0 {
                gpu.synchronize()?;
            }
        }
        gpu.synchronize()
    };
    run(&mut z, 10_000)?;
    let before = (gpu.memory(), resident());
    run(&mut z, rounds(1_000_000))?;
    let after = (gpu.memory(), resident());
    println!("free and total bytes, resident pages: before {before:?}, after {after:?}");
    assert_eq!(before.0, after.0);
    assert!(after.1 < before.1 + 2048, "{} pages became {}", before.1, after.1);
    Ok(())
}

#[test]
fn two_streams_take_turns() -> Result<(), Error> {
    let gpu = gpu()?;
    let (a, b) = (gpu.new_stream()?, gpu.new_stream()?);
    let ones = gpu.upload(&vec![1.0f32; 5000])?;
    let mut buffer = PinnedBuffer::zeros(&gpu, 5000)?;
    let mut kept = gpu.zeros([5000])?;
    for round in 0..rounds(10_000) {
        let value = (round % 1000) as f32;
        buffer.write(0, &vec![value; 5000]);
        let mut x = gpu.zeros([5000])?;
        let copy = buffer.copy_to(&b, &mut x)?;
        let y = saxpy::on(&a, 2.0, &x, &ones)?; // 2 v + 1, after the copy
        let z = saxpy::on(&b, 1.0, &y, &x)?; // 3 v + 1
        saxpy::on_into(&a, 1.0, &z, &ones, &mut kept)?; // 3 v + 2, after its last reader
        drop((x, y));
        let read = saxpy::on(&b, 0.0, &kept, &kept)?;
        drop(z);
        if round % 7 == 0 {
            let all = read.to_vec()?;
            assert!(all.iter().all(|&found| found == 3.0 * value + 2.0), "round {round}: {value} gave {}", all[0]);
        }
        buffer = copy.wait()?;
    }
    a.synchronize()?;
    b.synchronize()
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
                    for _ in 0..rounds(200) {
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

//! Kernels called from Rust, on the CPU in a GPU's place: values, errors, views, streams.
#![deny(warnings, missing_docs)]

use std::cell::RefCell;
use std::ops::{Bound, Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use gpukc::half::{bf16, f16};
use gpukc::{DeviceArray, Error, ErrorKind, Gpu, PinnedBuffer};

gpukc::gpu_kernel! {
    /// `a` times `x`, plus `y`.
    kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] {
        z[i] = a * x[i] + y[i];
    }

    kernel total(x: f32[n]) -> f32 { sum[k] x[k] }

    /// Mean and variance of rows.
    kernel moments(x: f32[m, n]) -> (mu: f32[m], var: f32[m]) {
        mu[i] = mean[k] x[i, k];
        var[i] = mean[k] (x[i, k] - mu[i]) * (x[i, k] - mu[i]);
    }

    kernel gather(x: f32[n], at: i32[m]) -> y: f32[m] { y[i] = x[at[i]]; }

    kernel part(lo: i64, width: i64, x: f32[n]) -> y: f32[width] where lo >= 0, lo + width <= n {
        y[i] = x[lo + i];
    }

    kernel types(
        a: bool, b: i8, c: i16, d: i32, e: i64, f: u8, g: u16, h: u32, j: u64, k: f16, l: bf16, m: f32, o: f64
    ) -> (ra: bool, rb: i8, rc: i16, rd: i32, re: i64, rf: u8, rg: u16, rh: u32, rj: u64, rk: f16, rl: bf16, rm: f32, ro: f64) {
        ra = a; rb = b; rc = c; rd = d; re = e; rf = f; rg = g; rh = h; rj = j; rk = k; rl = l; rm = m; ro = o;
    }

    kernel split(n: i64) -> (even: i32[n], odd: i32[n]) { even[i] = (2 * i) as i32; odd[i] = (2 * i + 1) as i32; }
}

/// A module with a kernel of a name that is taken outside of it.
mod other {
    gpukc::gpu_kernel! {
        kernel total(x: i32[n]) -> i64 { sum[k] x[k] }
    }
}

#[test]
fn kernels_are_functions() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let (x, y) = (gpu.upload(&[1.0, 2.0, 3.0])?, gpu.upload(&[10.0, 20.0, 30.0])?);
    assert_eq!(saxpy(&gpu, 2.0, &x, &y)?.to_vec()?, [12.0, 24.0, 36.0]);
    assert_eq!(total(&gpu, &x)?.value()?, 6.0);
    assert_eq!(other::total(&gpu, &gpu.upload(&[i32::MAX, i32::MAX])?)?.value()?, 2 * i64::from(i32::MAX));
    let moments = moments(&gpu, &DeviceArray::new(&gpu, [2, 2], &[1.0, 3.0, 5.0, 5.0])?)?;
    assert_eq!((moments.mu.to_vec()?, moments.var.to_vec()?), (vec![2.0, 5.0], vec![1.0, 0.0]));
    Ok(())
}

#[test]
fn results_go_into_existing_arrays() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let (x, y) = (gpu.upload(&[1.0, 2.0, 3.0])?, gpu.upload(&[10.0, 20.0, 30.0])?);
    let mut z = gpu.zeros([3])?;
    saxpy::into(&gpu, 2.0, &x, &y, &mut z)?;
    assert_eq!(z.to_vec()?, [12.0, 24.0, 36.0]);
    saxpy::in_place_y(&gpu, 2.0, &x, &mut z)?;
    assert_eq!(z.to_vec()?, [14.0, 28.0, 42.0]);
    saxpy::in_place_x(&gpu, 0.5, &mut z, &y)?;
    assert_eq!(z.to_vec()?, [17.0, 34.0, 51.0]);
    let stream = gpu.new_stream()?;
    saxpy::on_into(&stream, 1.0, &x, &x, &mut z)?;
    saxpy::on_in_place_x(&stream, 1.0, &mut z, &x)?;
    assert_eq!(saxpy::on(&stream, -1.0, &x, &z)?.to_vec()?, [2.0, 4.0, 6.0]);
    let (mut even, mut odd) = (gpu.zeros([2])?, gpu.zeros([2])?);
    split::into(&gpu, 2, &mut even, &mut odd)?;
    assert_eq!((even.to_vec()?, odd.to_vec()?), (vec![0, 2], vec![1, 3]));
    Ok(())
}

#[test]
fn shapes_and_conditions_are_checked_at_the_call() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let x = gpu.upload(&[1.0, 2.0, 3.0])?;
    let error = saxpy(&gpu, 1.0, &x, &gpu.zeros([4])?).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Arguments);
    let line = error.place().unwrap().line;
    assert_eq!(error.to_string(), format!("tests/face.rs:{line}:37: saxpy: x has n = 3, y has n = 4"));
    // That line of this file.
    assert!(include_str!("face.rs").lines().nth(line - 1).unwrap().contains("kernel saxpy(a: f32, x: f32[n], y: f32[n])"));
    let error = saxpy::into(&gpu, 1.0, &x, &x, &mut gpu.zeros([4])?).unwrap_err();
    assert_eq!(error.to_string(), format!("tests/face.rs:{line}:51: saxpy: x has n = 3, z has n = 4"));
    let error = part::into(&gpu, 1, 2, &x, &mut gpu.zeros([3])?).unwrap_err();
    assert!(error.to_string().ends_with("part: y has 3 on axis 0, width = 2 is needed (width = 2)"), "{error}");
    let error = saxpy::in_place_x(&gpu, 1.0, &mut gpu.zeros([4])?, &x).unwrap_err();
    assert!(error.to_string().ends_with("saxpy: x has n = 4, y has n = 3"), "{error}");
    let error = part(&gpu, 2, 2, &x).unwrap_err();
    assert!(error.to_string().contains("part: `lo + width <= n` does not hold: lo = 2, width = 2, n = 3"), "{error}");
    let error = part(&gpu, 0, -1, &x).unwrap_err();
    assert!(
        error.to_string().contains("axis 0 of y is negative: width = -1") || error.to_string().contains("negative: -1"),
        "{error}"
    );
    assert_eq!(part(&gpu, 1, 2, &x)?.to_vec()?, [2.0, 3.0]);
    Ok(())
}

#[macro_use]
#[path = "face/elsewhere.rs"]
mod elsewhere;

whole!();
partly!(partly, f32);

/// What is wrong is told where the kernel stands; of one that stands in several places, where it was asked for.
#[test]
fn kernels_by_macros_of_other_files_have_places() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let (x, y) = (gpu.zeros([3])?, gpu.zeros([4])?);
    let line = |text: &str, part: &str| text.lines().position(|line| line.contains(part)).unwrap() + 1;
    let error = whole(&gpu, &x, &y).unwrap_err();
    let there = line(include_str!("face/elsewhere.rs"), "kernel whole(");
    assert!(error.to_string().starts_with(&format!("tests/face/elsewhere.rs:{there}:37: whole: ")), "{error}");
    let error = partly(&gpu, &x, &y).unwrap_err();
    let place = error.place().unwrap();
    assert_eq!((place.file.as_str(), place.line), ("tests/face.rs", line(include_str!("face.rs"), "partly!(partly, f32)")));
    Ok(())
}

#[test]
fn indices_out_of_range_are_errors() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let x = gpu.upload(&[1.0, 2.0, 3.0])?;
    assert_eq!(gather(&gpu, &x, &gpu.upload(&[2, 0])?)?.to_vec()?, [3.0, 1.0]);
    let error = gather(&gpu, &x, &gpu.upload(&[2, 3])?).and_then(|y| y.to_vec()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IndexOutOfRange);
    assert!(error.to_string().ends_with("kernel `gather`: index 3 is out of range for axis 0 of `x`, whose extent is 3"), "{error}");
    assert!(format!("{error:?}").contains("\n  help: mend the index data"), "{error:?}");
    Ok(())
}

#[test]
fn every_type_passes() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let (k, l) = (f16::from_f32(-1.5), bf16::from_f32(3.0));
    let r = types(&gpu, true, -1, -2, -3, -4, 5, 6, 7, u64::MAX, k, l, f32::MIN_POSITIVE, -0.1)?;
    assert!(r.ra.value()?);
    assert_eq!((r.rb.value()?, r.rc.value()?, r.rd.value()?, r.re.value()?), (-1, -2, -3, -4));
    assert_eq!((r.rf.value()?, r.rg.value()?, r.rh.value()?, r.rj.value()?), (5, 6, 7, u64::MAX));
    assert_eq!((r.rk.value()?, r.rl.value()?, r.rm.value()?, r.ro.value()?), (k, l, f32::MIN_POSITIVE, -0.1));
    let bits = DeviceArray::new(&gpu, [2, 2], &[true, false, false, true])?;
    assert_eq!(bits.to_vec()?, [true, false, false, true]);
    Ok(())
}

#[test]
fn views_are_arrays() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
    let mut x = DeviceArray::new(&gpu, [4, 3], &values)?;
    assert_eq!(total(&gpu, &x.part(1, [5])?)?.value()?, 15.0);
    assert_eq!(total(&gpu, &x.part_mut(0, [2])?)?.value()?, 1.0);
    assert_eq!(moments(&gpu, &x.view(2..4)?)?.mu.to_vec()?, [7.0, 10.0]);
    let ones = gpu.upload(&[1.0; 3])?;
    saxpy::into(&gpu, 1.0, &ones, &ones, &mut x.part_mut(3, [3])?)?;
    assert_eq!(x.view(0..2)?.to_vec()?, [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
    x.view_mut(3..4)?.write(&[0.0, 0.0, 0.0])?;
    assert_eq!(x.part(8, [4])?.to_vec()?, [8.0, 0.0, 0.0, 0.0]);
    assert_eq!(x.view(1..5).unwrap_err().to_string(), "there is no part 1..5 of an array of shape [4, 3]");
    let error = x.part(10, [3]).unwrap_err();
    assert_eq!(error.to_string(), "a part of shape [3] at element 10 of an array that has 12 elements");
    let flat = x.reshape([12])?;
    assert_eq!(flat.len(), 12);
    assert!(flat.reshape([5]).is_err());
    assert!(DeviceArray::new(&gpu, [usize::MAX, 2], &[1.0f32]).is_err());
    Ok(())
}

#[test]
fn views_of_views() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let mut x = DeviceArray::new(&gpu, [4, 2], &[0, 1, 2, 3, 4, 5, 6, 7])?;
    // A part of a part outlives the latter.
    let row = x.view(1..4)?.view(1..2)?;
    assert_eq!((row.to_vec()?, row.part(1, [])?.value()?), (vec![4, 5], 5));
    // Ranges are written as for slices.
    assert_eq!((x.view(..)?.shape(), x.view(..=1)?.shape(), x.view(3..)?.to_vec()?), ([4, 2], [2, 2], vec![6, 7]));
    assert_eq!(x.view((Bound::Excluded(1), Bound::Included(2)))?.to_vec()?, [4, 5]);
    assert!(x.view(..=usize::MAX).is_err() && x.view(5..).is_err() && x.part(0, [])?.view(..).is_err());
    let mut rows = x.view_mut(1..)?;
    rows.view_mut(0..1)?.assign(&DeviceArray::new(&gpu, [1, 2], &[20, 30])?)?;
    rows.part_mut(3, [1])?.write(&[50])?;
    assert_eq!(x.to_vec()?, [0, 1, 20, 30, 4, 50, 6, 7]);
    Ok(())
}

/// One call may write both parts; neither knows of the other.
#[test]
fn arrays_are_split() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let mut both = gpu.zeros([5])?;
    let (mut even, mut rest) = both.split_at_mut(2)?;
    let (mut odd, mut last) = rest.split_at_mut(2)?;
    split::into(&gpu, 2, &mut even, &mut odd)?;
    last.write(&[9])?;
    assert_eq!(both.to_vec()?, [0, 2, 1, 3, 9]);
    assert_eq!(both.split_at_mut(5)?.1.to_vec()?, []);
    assert_eq!(both.split_at_mut(6).unwrap_err().to_string(), "there is no part 0..6 of an array of shape [5]");
    assert!(both.part_mut(0, [])?.split_at_mut(0).is_err());
    Ok(())
}

/// Whatever owns or borrows an array serves as one; types are inferred from the kernel.
#[test]
fn arrays_behind_pointers() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let (boxed, counted, shared) = (Box::new(gpu.upload(&[1.0])?), Rc::new(gpu.upload(&[2.0])?), Arc::new(gpu.upload(&[3.0])?));
    assert_eq!(saxpy(&gpu, 2.0, &boxed, &counted)?.to_vec()?, [4.0]);
    assert_eq!(saxpy(&gpu, 2.0, &shared, &&*boxed)?.to_vec()?, [7.0]);
    let (mut boxed, mut z) = (boxed, gpu.zeros([1])?);
    saxpy::in_place_x(&gpu, 2.0, &mut boxed, &shared)?;
    saxpy::into(&gpu, 1.0, &shared, &boxed, &mut &mut z)?;
    assert_eq!((boxed.to_vec()?, z.to_vec()?), (vec![5.0], vec![8.0]));
    z.assign(&boxed.view(0..1)?)?;
    let buffer = PinnedBuffer::zeros(&gpu, 1)?.copy_from(gpu.stream(), &z.view(0..1)?)?.wait()?;
    buffer.copy_to(gpu.stream(), &mut boxed.view_mut(0..1)?)?.wait()?;
    assert_eq!(boxed.to_vec()?, [5.0]);
    Ok(())
}

#[test]
fn arrays_behind_locks() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let (x, z) = (RefCell::new(gpu.upload(&[1.0, 2.0])?), Mutex::new(gpu.zeros([2])?));
    saxpy::into(&gpu, 2.0, &x.borrow(), &x.borrow(), &mut z.lock().unwrap())?;
    saxpy::in_place_x(&gpu, 1.0, &mut x.borrow_mut(), &z.lock().unwrap())?;
    assert_eq!((x.into_inner().to_vec()?, z.into_inner().unwrap().to_vec()?), (vec![4.0, 8.0], vec![3.0, 6.0]));
    Ok(())
}

/// An array that is copied before it is written if others have it too.
struct Shared(Rc<DeviceArray<f32, 1>>);

impl Deref for Shared {
    type Target = DeviceArray<f32, 1>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Self::Target {
        if Rc::get_mut(&mut self.0).is_none() {
            self.0 = Rc::new(self.0.try_clone().unwrap());
        }
        Rc::get_mut(&mut self.0).unwrap()
    }
}

/// A call writes the array that a pointer gives for writing, which need not be the one that it gives for reading.
#[test]
fn pointers_say_what_is_written() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let x = Rc::new(gpu.upload(&[1.0])?);
    let mut own = Shared(x.clone());
    saxpy::into(&gpu, 1.0, &x, &x, &mut own)?;
    saxpy::in_place_x(&gpu, 2.0, &mut Shared(x.clone()), &own)?;
    let _ = PinnedBuffer::from_slice(&gpu, &[7.0])?.copy_to(gpu.stream(), &mut Shared(x.clone()))?.wait()?;
    assert_eq!((x.to_vec()?, own.to_vec()?), (vec![1.0], vec![2.0]));
    Ok(())
}

#[test]
fn arrays_of_another_device_are_refused() -> Result<(), Error> {
    let (one, two) = (Gpu::cpu(), Gpu::cpu());
    let (x, mut y) = (one.upload(&[1.0])?, two.zeros([1])?);
    let refused = |error: Error, name: &str| {
        let text = "is of another `Gpu` than the call, though of the same device: arrays belong to a `Gpu` and its clones";
        assert_eq!(error.to_string(), format!("saxpy: `{name}` {text}"));
        assert_eq!(error.kind(), ErrorKind::Arguments);
    };
    refused(saxpy(&one, 1.0, &x, &y).unwrap_err(), "y");
    refused(saxpy(&two, 1.0, &x, &y).unwrap_err(), "x");
    refused(saxpy::into(&one, 1.0, &x, &x, &mut y).unwrap_err(), "z");
    refused(saxpy::in_place_y(&one, 1.0, &x, &mut y).unwrap_err(), "y");
    y.assign(&x)?;
    assert_eq!(total(&two.clone(), &y.try_clone()?)?.value()?, 1.0);
    Ok(())
}

/// What a call would refuse, making it ready refuses as well.
/// As on GPUs: what works on the CPU works there.
#[test]
fn streams_and_copies_of_another_device_are_refused() -> Result<(), Error> {
    let (gpu, other) = (Gpu::cpu(), Gpu::cpu());
    let mut x = gpu.upload(&[1.0, 2.0])?;
    let refused = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(error.kind() == ErrorKind::Arguments && error.to_string().contains("of another device"), "{error}");
    };
    refused(gpu.stream().wait_for(&other.new_stream()?));
    gpu.stream().wait_for(&gpu.clone().new_stream()?)?;
    refused(gpu.stream().record()?.since(&other.stream().record()?).map(drop));
    // Pinned memory is of no device, streams and arrays are.
    refused(PinnedBuffer::from_slice(&gpu, &[3.0, 4.0])?.copy_to(other.stream(), &mut x).map(drop));
    refused(PinnedBuffer::zeros(&gpu, 2)?.copy_from(other.stream(), &x).map(drop));
    let found = PinnedBuffer::zeros(&other, 2)?.copy_from(gpu.stream(), &x)?.wait()?;
    assert_eq!(found.as_slice(), [1.0, 2.0]);
    Ok(())
}

#[test]
fn kernels_are_made_ready() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    saxpy::prepare(&gpu, 2.0, [3], [3])?;
    saxpy::prepare_in_place_y(&gpu, 2.0, [3], [3])?;
    moments::prepare(&gpu, [2, 3])?;
    let error = saxpy::prepare(&gpu, 2.0, [3], [4]).unwrap_err();
    assert!(error.to_string().ends_with("saxpy: x has n = 3, y has n = 4"), "{error}");
    let error = part::prepare(&gpu, 2, 2, [3]).unwrap_err();
    assert!(error.to_string().contains("`lo + width <= n` does not hold"), "{error}");
    assert!(total::prepare(&gpu, [usize::MAX]).is_err());
    Ok(())
}

/// An error is told once: what it is made of stands in its message, not in a source besides.
#[test]
fn errors_have_no_source_that_repeats_them() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let error = gather(&gpu, &gpu.upload(&[1.0])?, &gpu.upload(&[3])?).unwrap_err();
    assert!(std::error::Error::source(&error).is_none() && error.driver_call().is_none());
    Ok(())
}

#[test]
fn pinned_buffers_are_slices() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let mut x = gpu.zeros([2, 2])?;
    let mut buffer = PinnedBuffer::from_slice(&gpu, &[true, false, false, true])?.copy_to(gpu.stream(), &mut x)?.wait()?;
    buffer.as_mut_slice().fill(false);
    assert_eq!(buffer.copy_from(gpu.stream(), &x)?.wait()?.as_slice(), [true, false, false, true]);
    assert!(PinnedBuffer::<f64>::zeros(&gpu, usize::MAX / 2).is_err());
    Ok(())
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_of_ndarray_come_and_go() -> Result<(), Error> {
    use ndarray::{Array, Array2, Axis, arr0, arr2};
    let gpu = Gpu::cpu();
    let rows: Array2<f32> = arr2(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let x = DeviceArray::<f32, 2>::from_ndarray(&gpu, &rows)?;
    assert_eq!((x.shape(), x.to_ndarray()?), ([2, 3], rows.clone()));
    // Other layouts, parts, and dims that only the array itself knows.
    assert_eq!(DeviceArray::<f32, 2>::from_ndarray(&gpu, &rows.t())?.to_vec()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let mut turned = rows.clone();
    turned.invert_axis(Axis(1));
    assert_eq!(DeviceArray::<f32, 2>::from_ndarray(&gpu, &turned)?.to_vec()?, [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);
    assert_eq!(DeviceArray::<f32, 1>::from_ndarray(&gpu, &rows.index_axis(Axis(1), 1))?.to_vec()?, [2.0, 5.0]);
    assert_eq!(DeviceArray::<f32, 2>::from_ndarray(&gpu, &rows.clone().into_dyn())?.to_ndarray()?, rows);
    let error = DeviceArray::<f32, 1>::from_ndarray(&gpu, &rows).unwrap_err();
    assert_eq!(error.to_string(), "an array of 2 dims, not 1");
    // Other types, no dims, no elements.
    let halves = Array::from_vec(vec![f16::ONE, f16::NEG_ONE]);
    assert_eq!(DeviceArray::<f16, 1>::from_ndarray(&gpu, &halves)?.to_ndarray()?, halves);
    assert_eq!(total(&gpu, &x.reshape([6])?)?.to_ndarray()?, arr0(21.0));
    let none = Array2::<bool>::default((0, 3));
    assert_eq!(DeviceArray::<bool, 2>::from_ndarray(&gpu, &none)?.to_ndarray()?, none);
    Ok(())
}

#[test]
fn empty_arrays() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let x = gpu.upload::<f32>(&[])?;
    assert!(x.is_empty());
    assert_eq!(saxpy(&gpu, 1.0, &x, &x)?.to_vec()?, [0.0; 0]);
    assert_eq!(total(&gpu, &x)?.value()?, 0.0);
    Ok(())
}

#[test]
fn texts_for_snapshots() {
    assert!(saxpy::cuda().contains("__global__"));
    assert!(saxpy::plan().contains("saxpy"));
    assert!(total::cuda().starts_with("// total: generated by gpukc"));
    // Any path leads to a kernel.
    let _ = || {
        gpukc::snapshot!(crate::other::total,);
        gpukc::snapshot!(plan self::total);
    };
}

#[test]
fn events_and_streams() -> Result<(), Error> {
    let gpu = Gpu::cpu();
    let (a, b) = (gpu.new_stream()?, gpu.new_stream()?);
    let start = a.record()?;
    b.wait_for(&a)?;
    let end = b.record()?;
    assert!(end.is_done()? && end.since(&start)?.as_secs() < 60);
    gpu.synchronize()?;
    assert!(gpu.is_cpu() && gpu.info().multiprocessors > 0);
    Ok(())
}

/// Threads may share them, and a panic that is caught leaves them as they are.
#[test]
fn handles_go_anywhere() {
    fn anywhere<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>() {}
    anywhere::<Gpu>();
    anywhere::<DeviceArray<f32, 2>>();
    anywhere::<gpukc::View<'static, f32, 2>>();
    anywhere::<gpukc::Stream>();
    anywhere::<gpukc::Event>();
    anywhere::<PinnedBuffer<bool>>();
    anywhere::<gpukc::Transfer<f32>>();
    anywhere::<Error>();
    // No more across a caught panic than a `&mut`.
    fn to_threads<T: Send + Sync>() {}
    to_threads::<gpukc::ViewMut<'static, f32, 2>>();
}

//! Kernels called from Rust, on stand-ins for the driver and for NVRTC: what is compiled, loaded, allocated and launched. The
//! stand-ins compute nothing; `tests/face.rs` has the values. Each test runs itself again in a process that meets the stand-ins.
#![cfg(target_os = "linux")]

#[path = "../runtime/tests/standin/mod.rs"]
mod standin;

use std::fs;
use std::path::Path;
use std::process::Command;

use gpukc::{DeviceArray, Error, ErrorKind, Gpu, PinnedBuffer};
use standin::Driver;

gpukc::gpu_kernel! {
    kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] { z[i] = a * x[i] + y[i]; }
    kernel gather(x: f32[n], at: i32[m]) -> y: f32[m] { y[i] = x[at[i]]; }
    kernel part(lo: i64, x: f32[n]) -> y: f32[n - lo] where 0 <= lo, lo <= n { y[i] = x[lo + i]; }
    fn twice(k: i64) -> i64 { 2 * k }
    kernel grown(k: i64, a: f32) -> y: f32[twice(k)] where k >= 0 { let last = twice(k) - 1; y[i] = if i == last { a } else { 1.0 }; }
    kernel rows(x: f32[m, n]) -> y: f32[m] { y[i] = sum[j] x[i, j]; }
    kernel nineteen(
        a: f32, b: f32, c: f32, d: f32, e: f32, f: f32, g: f32, h: f32, k: f32,
        x0: f32[n], x1: f32[n], x2: f32[n], x3: f32[n], x4: f32[n], x5: f32[n], x6: f32[n], x7: f32[n], x8: f32[n]
    ) -> y: f32[n] {
        y[i] = a * x0[i] + b * x1[i] + c * x2[i] + d * x3[i] + e * x4[i] + f * x5[i] + g * x6[i] + h * x7[i] + k * x8[i];
    }
}

/// Runs `body` in a process of its own that meets the stand-ins, under these settings; gives the driver's log.
#[track_caller]
fn within(test: &str, settings: &[(&str, &str)], body: impl FnOnce() -> Result<(), Error>) -> Option<String> {
    if std::env::var_os("STANDIN_CHILD").is_some() {
        body().unwrap();
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    standin::prepare(&mut command, Driver::Whole).env("STANDIN_CHILD", "1").env("STANDIN_LOG", &log).env("GPUKC_CACHE", "off");
    let output = command.envs(settings.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    let log = fs::read_to_string(log).unwrap_or_default();
    assert!(log.is_empty() || log.lines().last() == Some("release allocations=0 modules=0 streams=0 events=0"), "{log}");
    Some(log)
}

fn count(log: &str, start: &str) -> usize {
    log.lines().filter(|line| line.starts_with(start)).count()
}

#[test]
fn a_known_shape_only_launches() {
    let log = within("a_known_shape_only_launches", &[], || {
        let gpu = Gpu::new(0)?;
        let (x, y, mut z) = (gpu.zeros([1000])?, gpu.zeros([1000])?, gpu.zeros([1000])?);
        for a in 0..10 {
            saxpy::into(&gpu, a as f32, &x, &y, &mut z)?;
        }
        gpu.synchronize()
    });
    if let Some(log) = log {
        assert_eq!((count(&log, "load"), count(&log, "launch"), count(&log, "allocate"), count(&log, "wait")), (1, 10, 3, 0), "{log}");
        // a = 9.0, and the arrays in the order of the signature.
        assert!(log.contains("parameters=4:1091567616,memory:4000,memory:4000,memory:4000"), "{log}");
    }
}

#[test]
fn many_shapes_load_few_texts() {
    let log = within("many_shapes_load_few_texts", &[], || {
        let gpu = Gpu::new(0)?;
        for n in 0..300 {
            let _ = saxpy(&gpu, 1.0, &gpu.zeros([n])?, &gpu.zeros([n])?)?;
            let _ = rows(&gpu, &gpu.zeros([3, n])?)?;
        }
        gpu.synchronize()
    });
    if let Some(log) = log {
        assert!((2..40).contains(&count(&log, "load")), "{} texts for 300 shapes", count(&log, "load"));
    }
}

#[test]
fn scalars_that_shape_are_told_apart() {
    within("scalars_that_shape_are_told_apart", &[], || {
        let gpu = Gpu::new(0)?;
        let x = gpu.zeros([10])?;
        assert_eq!((part(&gpu, 3, &x)?.shape(), part(&gpu, 4, &x)?.shape(), part(&gpu, 3, &x)?.shape()), ([7], [6], [7]));
        assert_eq!((grown(&gpu, 3, 1.0)?.shape(), grown(&gpu, 4, 1.0)?.shape(), grown(&gpu, 3, 2.0)?.shape()), ([6], [8], [6]));
        assert_eq!(part(&gpu, 11, &x).unwrap_err().kind(), ErrorKind::Arguments);
        assert_eq!(saxpy(&gpu, 1.0, &x, &gpu.zeros([9])?).unwrap_err().kind(), ErrorKind::Arguments);
        let error = saxpy::into(&gpu, 1.0, &x, &x, &mut gpu.zeros([9])?).unwrap_err();
        assert!(error.to_string().ends_with("saxpy: x has n = 10, z has n = 9"), "{error}");
        Ok(())
    });
}

#[test]
fn in_place_is_one_pointer() {
    let log = within("in_place_is_one_pointer", &[], || {
        let gpu = Gpu::new(0)?;
        let (mut x, y) = (gpu.zeros([1000])?, gpu.zeros([1000])?);
        saxpy::in_place_x(&gpu, 1.0, &mut x, &y)?;
        saxpy::in_place_y(&gpu, 1.0, &y, &mut x)?;
        gpu.synchronize()
    });
    if let Some(log) = log {
        let launches: Vec<&str> = log.lines().filter(|line| line.starts_with("launch")).collect();
        // 1.0 is 1065353216; two pointers, and what the launch takes of sizes.
        assert!(launches.len() == 2 && launches.iter().all(|line| line.matches("memory:4000").count() == 2), "{log}");
        assert!(launches[0].contains("parameters=4:1065353216,"), "{log}");
    }
}

#[test]
fn reports_of_indices_come_with_the_result() {
    within("reports_of_indices_come_with_the_result", &[("STANDIN_REPORT", "0 7 5")], || {
        let gpu = Gpu::new(0)?;
        let y = gather(&gpu, &gpu.zeros([5])?, &gpu.zeros([4])?)?;
        let error = y.to_vec().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IndexOutOfRange);
        let line = (1..).zip(include_str!("gpu.rs").lines()).find(|(_, line)| line.contains("kernel gather")).unwrap().0;
        assert!(error.to_string().starts_with(&format!("tests/gpu.rs:{line}:")), "{error}");
        assert!(error.to_string().contains("index 7 is out of range for axis 0 of `x`, whose extent is 5"), "{error}");
        // What a kernel that checks may leave out does not show what was there before.
        assert_eq!(y.to_vec()?, [0.0; 4]);
        // Any wait tells; so does the call itself where it is watched.
        let (x, at) = (gpu.zeros([5])?, gpu.zeros([4])?);
        let again = || gather(&gpu, &x, &at).map(drop);
        let told = |waited: Result<(), Error>| waited.is_err_and(|error| error.kind() == ErrorKind::IndexOutOfRange);
        again()?;
        assert!(told(gpu.synchronize()));
        again()?;
        assert!(told(gpu.stream().synchronize()));
        again()?;
        assert!(told(gpu.stream().record()?.synchronize()));
        again()?;
        assert!(told(PinnedBuffer::zeros(&gpu, 4)?.copy_from(gpu.stream(), &y)?.wait().map(drop)));
        gpu.watch(true);
        assert!(told(again()) && gpu.synchronize().is_ok());
        Ok(())
    });
}

#[test]
fn views_off_the_alignment_have_their_text() {
    let log = within("views_off_the_alignment_have_their_text", &[], || {
        let gpu = Gpu::new(0)?;
        let x = gpu.zeros([2052])?;
        let _ = rows(&gpu, &x.part(0, [4, 512])?)?;
        let _ = rows(&gpu, &x.part(4, [4, 512])?)?;
        let _ = rows(&gpu, &x.part(1, [4, 512])?)?;
        gpu.synchronize()
    });
    if let Some(log) = log {
        assert_eq!((count(&log, "load"), count(&log, "launch")), (2, 3), "{log}");
    }
}

#[test]
fn streams_wait_for_what_they_use() {
    let log = within("streams_wait_for_what_they_use", &[], || {
        let gpu = Gpu::new(0)?;
        let (a, b) = (gpu.new_stream()?, gpu.new_stream()?);
        let x = gpu.zeros([100])?;
        let y = saxpy::on(&a, 1.0, &x, &x)?; // waits for the stream of `x`
        let z = saxpy::on(&b, 1.0, &y, &y)?; // waits for `a`
        drop(y); // `a` waits for `b` before its memory goes
        z.to_vec()?;
        let mut z = z;
        assert!(saxpy::into(&gpu, 1.0, &x, &x, &mut z).is_ok()); // waits for `b`
        b.synchronize()
    });
    if let Some(log) = log {
        assert_eq!(count(&log, "wait"), 5, "{log}");
    }
}

#[test]
fn nineteen_arguments() {
    let log = within("nineteen_arguments", &[], || {
        let gpu = Gpu::new(0)?;
        let x: Vec<DeviceArray<f32, 1>> = (0..9).map(|_| gpu.zeros([8])).collect::<Result<_, _>>()?;
        let [x0, x1, x2, x3, x4, x5, x6, x7, x8] = std::array::from_fn(|at| &x[at]);
        nineteen(&gpu, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, x0, x1, x2, x3, x4, x5, x6, x7, x8)?.to_vec()?;
        Ok(())
    });
    if let Some(log) = log {
        let launch = log.lines().find(|line| line.starts_with("launch")).unwrap();
        assert_eq!(launch.matches("memory:32").count(), 10, "{log}");
    }
}

/// More arguments than fit where a launch usually has them.
#[test]
fn sixty_arguments() {
    const COUNT: usize = 60;
    let list = |each: &dyn Fn(usize) -> String, by: &str| (0..COUNT).map(each).collect::<Vec<_>>().join(by);
    let (parameters, sum) = (list(&|at| format!("x{at}: f32[n]"), ", "), list(&|at| format!("x{at}[i]"), " + "));
    let text: &'static str = format!("kernel many({parameters}) -> y: f32[n] {{ y[i] = {sum}; }}").leak();
    let log = within("sixty_arguments", &[], || {
        let gpu = Gpu::new(0)?;
        let many = gpukc::__private::Kernel::new("many", text, "many.gk", 1, &[]);
        let x: Vec<DeviceArray<f32, 1>> = (0..COUNT).map(|_| gpu.zeros([8])).collect::<Result<_, _>>()?;
        let inputs: Vec<_> = x.iter().map(gpukc::__private::given).collect();
        let [_] = many.call::<1>(gpu.stream(), &[], &inputs)?;
        gpu.synchronize()
    });
    if let Some(log) = log {
        let launch = log.lines().find(|line| line.starts_with("launch")).unwrap();
        assert_eq!(launch.matches("memory:32").count(), COUNT + 1, "{log}");
    }
}

#[test]
fn arrays_of_another_device_are_refused() {
    within("arrays_of_another_device_are_refused", &[("STANDIN_DEVICES", "9.0 8.0")], || {
        let (gpu, again, other, cpu) = (Gpu::new(0)?, Gpu::new(0)?, Gpu::new(1)?, Gpu::cpu());
        let pairs = [(&gpu, &other), (&other, &gpu), (&gpu, &again), (&gpu, &cpu), (&cpu, &gpu)];
        for (gpu, elsewhere) in pairs {
            let mut elsewhere = elsewhere.zeros([8])?;
            let mine = gpu.zeros([8])?;
            let errors = [
                (saxpy(gpu, 1.0, &mine, &elsewhere).unwrap_err(), "`y` is"),
                (saxpy(gpu, 1.0, &elsewhere, &mine).unwrap_err(), "`x` is"),
                (saxpy::into(gpu, 1.0, &mine, &mine, &mut elsewhere).unwrap_err(), "`z` is"),
                (saxpy::in_place_x(gpu, 1.0, &mut elsewhere, &mine).unwrap_err(), "`x` is"),
            ];
            for (error, name) in errors {
                let text = error.to_string();
                assert!(text.contains(name) && (text.contains("on another device") || text.contains("of another `Gpu`")), "{text}");
            }
            elsewhere.assign(&mine)?;
        }
        assert!(gpu.stream().wait_for(other.stream()).is_err() && gpu.stream().wait_for(again.stream()).is_err());
        let buffer = || PinnedBuffer::from_slice(&gpu, &[1.0f32; 8]);
        // Pinned memory serves all GPUs.
        let mut there = other.zeros([8])?;
        assert_eq!((buffer()?.copy_to(other.stream(), &mut there)?.wait()?.len(), there.to_vec()?), (8, vec![1.0; 8]));
        assert!(buffer()?.copy_to(gpu.stream(), &mut other.zeros([8])?).is_err());
        assert!(buffer()?.copy_to(cpu.stream(), &mut cpu.zeros([8])?).is_err());
        Ok(())
    });
}

#[test]
fn handles_outlive_the_device_value() {
    within("handles_outlive_the_device_value", &[], || {
        let gpu = Gpu::new(0)?;
        let x = gpu.upload(&[1.0f32, 2.0])?;
        let y = saxpy(&gpu, 1.0, &x, &x)?;
        drop(gpu);
        assert_eq!(x.to_vec()?, [1.0, 2.0]);
        std::thread::spawn(move || y.to_vec().map(drop)).join().unwrap()
    });
}

#[test]
fn memory_that_is_not_there() {
    within("memory_that_is_not_there", &[("STANDIN_MEMORY", "1000")], || {
        let gpu = Gpu::new(0)?;
        let error = gpu.zeros::<f32, 1>([1000]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(error.to_string(), "out of device memory: an array f32[1000] 3.9 KiB");
        assert!(gpu.zeros::<f32, 1>([100]).is_ok());
        Ok(())
    });
}

#[test]
fn driver_calls_are_named() {
    let settings = [("STANDIN_FAIL", "cuLaunchKernelEx=1")];
    within("driver_calls_are_named", &settings, || {
        let gpu = Gpu::new(0)?;
        let x = gpu.zeros([8])?;
        let error = saxpy(&gpu, 1.0, &x, &x).unwrap_err();
        assert!(error.to_string().contains("cuLaunchKernelEx failed with 1 (CUDA_ERROR_INVALID_VALUE) for kernel `saxpy`"), "{error}");
        assert!(error.place().is_some_and(|place| place.file == "tests/gpu.rs"), "{error}");
        let call = error.driver_call().unwrap();
        assert_eq!((call.function, call.code, call.name), ("cuLaunchKernelEx", 1, "CUDA_ERROR_INVALID_VALUE"));
        assert!(std::error::Error::source(&error).is_none());
        Ok(())
    });
}

/// A kernel that has been made ready is not compiled again, nor loaded, when it is called.
#[test]
fn kernels_are_made_ready() {
    let log = within("kernels_are_made_ready", &[], || {
        let gpu = Gpu::new(0)?;
        saxpy::prepare(&gpu, 2.0, [1000], [1000])?;
        saxpy::prepare_in_place_y(&gpu, 2.0, [1000], [1000])?;
        let (x, mut y) = (gpu.zeros([1000])?, gpu.zeros([1000])?);
        let _ = saxpy(&gpu, 2.0, &x, &y)?;
        saxpy::in_place_y(&gpu, 2.0, &x, &mut y)?;
        gpu.synchronize()
    });
    let Some(log) = log else { return };
    let first = log.lines().position(|line| line.starts_with("launch")).unwrap();
    let loads: Vec<usize> = log.lines().enumerate().filter(|(_, line)| line.starts_with("load")).map(|(at, _)| at).collect();
    assert!(loads.len() == 2 && loads.iter().all(|&load| load < first), "{log}");
}

/// Clones of a stream are the same stream, which lives as long as one of them.
#[test]
fn streams_and_events_are_handles() {
    let log = within("streams_and_events_are_handles", &[], || {
        let gpu = Gpu::new(0)?;
        let (x, stream) = (gpu.zeros([8])?, gpu.new_stream()?);
        let again = stream.clone();
        drop(stream);
        let y = saxpy::on(&again, 1.0, &x, &x)?;
        let event = again.record()?;
        let clone = event.clone();
        drop((event, again));
        clone.synchronize()?;
        y.to_vec().map(drop)
    });
    let Some(log) = log else { return };
    assert_eq!(count(&log, "launch"), 1);
}

#[test]
fn pinned_buffers() {
    within("pinned_buffers", &[], || {
        let gpu = Gpu::new(0)?;
        let stream = gpu.new_stream()?;
        let mut x = gpu.zeros([3])?;
        let buffer = PinnedBuffer::from_slice(&gpu, &[1.0f32, 2.0, 3.0])?.copy_to(&stream, &mut x)?.wait()?;
        assert_eq!(x.to_vec()?, buffer.as_slice());
        x.write(&[4.0, 5.0, 6.0])?;
        let mut buffer = buffer.copy_from(&stream, &x)?.wait()?;
        assert_eq!(buffer.as_slice(), [4.0, 5.0, 6.0]);
        buffer.as_mut_slice()[2] = 7.0;
        let mut buffer = buffer.copy_to(&stream, &mut x)?.wait()?;
        assert_eq!((x.to_vec()?, buffer.len()), (vec![4.0, 5.0, 7.0], 3));
        buffer.as_mut_slice().fill(0.0);
        assert!(buffer.copy_to(&stream, &mut gpu.zeros([4])?).is_err());
        Ok(())
    });
}

#[test]
fn no_driver_is_the_cpu() {
    if std::env::var_os("STANDIN_CHILD").is_some() {
        assert!(Gpu::any().unwrap().is_cpu());
        let error = Gpu::new(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Environment);
        assert_eq!(error.advice(), Some("install the NVIDIA driver, or use `Gpu::cpu()`"));
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["no_driver_is_the_cpu", "--exact"]);
    let status = standin::prepare(&mut command, Driver::Absent).env("STANDIN_CHILD", "1").status().unwrap();
    assert!(status.success());
}

#[test]
fn a_gpu_that_is_not_there() {
    within("a_gpu_that_is_not_there", &[], || {
        let error = Gpu::new(1).unwrap_err();
        assert_eq!(error.to_string(), "there is no device number 1: the driver sees 1");
        assert_eq!(error.advice(), Some("the only device is number 0"));
        Ok(())
    });
}

#[test]
fn errors_tell_devices_and_memories_apart() {
    within("errors_tell_devices_and_memories_apart", &[("STANDIN_DEVICES", "9.0 9.0")], || {
        let (one, two) = (Gpu::new(0)?, Gpu::new(1)?);
        let (x, y) = (one.zeros([4])?, two.zeros([4])?);
        let error = saxpy(&one, 1.0, &x, &y).unwrap_err();
        let text = "saxpy: `y` is on another device (GPU 1, Stand-in 9.0) than the call (GPU 0, Stand-in 9.0)";
        assert_eq!((error.to_string().as_str(), error.advice()), (text, None));
        let error = saxpy(&one, 1.0, &x, &Gpu::new(0)?.zeros([4])?).unwrap_err();
        assert!(error.to_string().starts_with("saxpy: `y` is of another `Gpu` than the call, though of the same device"), "{error}");
        assert_eq!((two.info().ordinal, Gpu::cpu().info().ordinal), (Some(1), None));
        let error = one.stream().wait_for(two.stream()).unwrap_err();
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Arguments, None));
        let error = PinnedBuffer::<u8>::zeros(&one, 1 << 50).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(error.to_string(), "no memory for 1125899906842624 elements of u8 on the host");
        Ok(())
    });
}

const AHEAD: &str = "kernel twice(x: f32[n]) -> y: f32[n] { y[i] = x[i] + x[i]; }\nkernel total(x: f32[n]) -> f32 { sum[k] x[k] }\n";

/// What a build script does, then a program on a machine without NVRTC.
#[test]
fn binaries_made_ahead_need_no_nvrtc() {
    let folder = std::env::var_os("AHEAD").map(std::path::PathBuf::from);
    if let Some(folder) = folder {
        if std::env::var_os("BUILD").is_some() {
            build(&folder);
        } else {
            run_what_was_built(&folder).unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ahead.gk"), AHEAD).unwrap();
    for (build, nvrtc) in [(true, None), (false, Some(folder.path()))] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["binaries_made_ahead_need_no_nvrtc", "--exact"]);
        standin::prepare(&mut command, Driver::Whole).env("AHEAD", folder.path()).env("GPUKC_CACHE", "off");
        command.env("STANDIN_LOG", folder.path().join("log")).env("STANDIN_DEVICES", "8.6");
        // A folder without NVRTC.
        nvrtc.map(|path| command.env("GPUKC_NVRTC", path));
        let command = if build { command.env("BUILD", "1").env("STANDIN_ARCHITECTURES", "80 90 103") } else { &mut command };
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    // One binary serves every shape and alignment, another calls in place.
    assert_eq!((count(&log, "load"), count(&log, "launch") >= 6), (3, true), "{log}");
    assert_eq!(count(&log, "load sm_80"), 3, "{log}");
}

fn build(folder: &Path) {
    let files = gpukc::build::Files::new().file("ahead.gk").architectures(&["sm_90a", "sm_80"]);
    files.compile_in(folder, folder).unwrap();
    fs::write(folder.join("wrong.gk"), "kernel k(x: f32[n]) -> y: f32[n] { y[i] = x[i + 1]; }").unwrap();
    let error = gpukc::build::Files::new().file("wrong.gk").compile_in(folder, folder).unwrap_err();
    assert!(error.to_string().contains("reads x[1] when i = 0, n = 1") || error.to_string().contains("error[GK02"), "{error}");
    for name in ["sm90", "sm_80a", "compute_80"] {
        let error = gpukc::build::Files::new().architectures(&[name]).compile_in(folder, folder).unwrap_err();
        assert!(error.to_string().starts_with(&format!("`{name}` is no architecture")), "{error}");
    }
    let error = gpukc::build::Files::new().architectures(&["sm_80", "sm_120"]).compile_in(folder, folder).unwrap_err();
    assert!(
        error.to_string().starts_with("NVRTC 13.0 does not compile for sm_120; it does for sm_80, sm_90, sm_103\n  help:"),
        "{error}"
    );
    // Of the usual ones, those that this NVRTC knows.
    let usual = folder.join("usual");
    fs::create_dir(&usual).unwrap();
    gpukc::build::Files::new().file("ahead.gk").compile_in(folder, &usual).unwrap();
    let made = fs::read(fs::read_dir(usual).unwrap().next().unwrap().unwrap().path()).unwrap();
    let mentions = |name: &str| made.windows(name.len()).any(|part| part == name.as_bytes());
    let names = ["sm_75", "sm_80", "compute_80", "sm_90a", "compute_90", "sm_100", "sm_103"];
    assert_eq!(names.map(mentions), [false, true, true, true, false, false, false]);
}

fn run_what_was_built(folder: &Path) -> Result<(), Error> {
    let named = |entry: fs::DirEntry| entry.path().extension().is_some_and(|ending| ending == "gpukc").then(|| entry.path());
    let file = fs::read_dir(folder).unwrap().filter_map(|entry| named(entry.unwrap())).next().unwrap();
    let bytes: &'static [u8] = fs::read(file).unwrap().leak();
    let gpu = Gpu::new(0)?;
    let twice = gpukc::__private::Kernel::new("twice", AHEAD, "ahead.gk", 1, bytes);
    let total = gpukc::__private::Kernel::new("total", AHEAD, "ahead.gk", 1, bytes);
    let mut x: DeviceArray<f32, 1> = gpu.zeros([100])?;
    twice.call_in_place(gpu.stream(), &[], &[gpukc::__private::taken(&mut x)], 0)?;
    twice.call_in_place(gpu.stream(), &[], &[gpukc::__private::taken(&mut x.part_mut(1, [99])?)], 0)?;
    for part in [x.part(0, [100])?, x.part(1, [64])?, x.part(4, [8])?] {
        let [_] = twice.call::<1>(gpu.stream(), &[], &[gpukc::__private::given(&part)])?;
    }
    let [sum] = total.call::<1>(gpu.stream(), &[], &[gpukc::__private::given(&x)])?;
    gpukc::__private::typed::<f32, 0>(sum)?.value()?;
    // Without a binary there is an error that says what is missing.
    let other = gpukc::__private::Kernel::new("total", "kernel total(x: f32[n]) -> f32 { max[k] x[k] }", "other.gk", 1, bytes);
    let error = other.call::<1>(gpu.stream(), &[], &[gpukc::__private::given(&x)]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Environment);
    Ok(())
}

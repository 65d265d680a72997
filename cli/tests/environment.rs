//! Machines that lack something, made with stand-ins for the driver and for NVRTC: exit status, one line that says what is
//! wrong and one that says what to do; and the cache, wherever it lies.
#![cfg(target_os = "linux")]

#[path = "../../runtime/tests/standin/mod.rs"]
mod standin;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use standin::Driver;

const SCALE: &str = "kernel scale(a: f32, x: f32[n]) -> y: f32[n] {\n    y[i] = a * x[i];\n}\n";
/// Two launches, the second of which checks its subscripts.
const GATHER: &str = "kernel gather(x: f32[n], k: i32[m]) -> (s: f32, y: f32[m]) {\n    s = sum[i] x[i];\n    y[j] = x[k[j]];\n}\n";
const RUN: &[&str] = &["run", "scale.gk", "--device", "cuda", "--in", "a=2", "--in", "x=ones:1000"];

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.path("scale.gk"), SCALE).unwrap();
        fs::write(place.path("gather.gk"), GATHER).unwrap();
        place
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn command(&self, driver: Driver, settings: &[(&str, &str)], args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpukc"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null()).env("GPUKC_CACHE_DIR", self.path("cache"));
        standin::prepare(&mut command, driver).env("STANDIN_LOG", self.path("log")).env("STANDIN_NVRTC_LOG", self.path("nvrtc-log"));
        command.envs(settings.iter().copied());
        command
    }
    fn run(&self, driver: Driver, settings: &[(&str, &str)], args: &[&str]) -> Done {
        done(&mut self.command(driver, settings, args))
    }
    fn compilations(&self) -> usize {
        fs::read_to_string(self.path("nvrtc-log")).unwrap_or_default().matches("nvrtcCompileProgram").count()
    }
}

#[derive(Debug)]
struct Done {
    status: i32,
    out: String,
    err: String,
}

fn done(command: &mut Command) -> Done {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Done { status: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

impl Done {
    #[track_caller]
    fn expect(self, status: i32, words: &[&str]) -> Done {
        assert_eq!(self.status, status, "{self:#?}");
        for word in words {
            assert!(self.err.contains(word) || self.out.contains(word), "`{word}` is not in {self:#?}");
        }
        assert!(!self.err.contains("panicked") && !self.err.contains("stack backtrace"), "{self:#?}");
        self
    }
    /// One line says what is wrong, one what to do.
    #[track_caller]
    fn expect_error(self, status: i32, words: &[&str]) {
        let done = self.expect(status, words);
        let lines: Vec<&str> = done.err.lines().collect();
        let two = matches!(lines.as_slice(), [what, help] if what.starts_with("error: ") && help.starts_with("  help: "));
        assert!(two && done.out.is_empty(), "{done:#?}");
    }
}

#[test]
fn a_whole_machine() {
    let place = Place::new();
    place.run(Driver::Whole, &[], RUN).expect(0, &["y: f32[1000]"]);
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(log.contains("launch scale") && log.contains("release allocations=0 modules=0 streams=0 events=0"), "{log}");
    assert_eq!(place.compilations(), 1);
    place.run(Driver::Whole, &[], RUN).expect(0, &[]);
    assert_eq!(place.compilations(), 1, "the second run hits the cache");
    let auto = ["run", "scale.gk", "--in", "a=2", "--in", "x=ones:10"];
    assert_eq!(place.run(Driver::Whole, &[], &auto).expect(0, &[]).err, "");
    let doctor = place.run(Driver::Whole, &[], &["doctor"]).expect(0, &["CUDA 13.0", "sm_90a", "loads and runs"]);
    assert!(!doctor.out.contains("missing") && !doctor.out.contains("limit"), "{doctor:#?}");
}

/// Calls of many shapes get few texts: `--stats` says which one a call has got and whether it was compiled, and `compile --call`
/// shows that very text.
#[test]
fn many_shapes_few_texts() {
    let place = Place::new();
    let text =
        "kernel rows(k: i64, x: f32[m, n]) -> y: f32[m] where k >= 0, k < n { y[i] = sum[j] if j < k { x[i, j] } else { 0.0 }; }\n";
    fs::write(place.path("rows.gk"), text).unwrap();
    let (mut texts, mut compiled) = (std::collections::BTreeSet::new(), 0);
    for step in 0..24 {
        let (m, n, k) = (1 + step * 5 % 7, 8 + step * 67, step % 3);
        let (x, scalar) = (format!("x=ones:{m}x{n}"), format!("k={k}"));
        let call = ["run", "rows.gk", "--device", "cuda", "--in", &x, "--in", &scalar, "--stats", "stats.json"];
        place.run(Driver::Whole, &[], &call).expect(0, &[]);
        let stats: serde_json::Value = serde_json::from_str(&fs::read_to_string(place.path("stats.json")).unwrap()).unwrap();
        let text = stats["variant"]["text"].as_str().unwrap().to_owned();
        assert_eq!((&stats["variant"]["aligned"], &stats["variant"]["narrow"]), (&true.into(), &true.into()), "{stats}");
        // A text is compiled when it is met first.
        let new = texts.insert(text.clone());
        assert_eq!(stats["variants_compiled"], u32::from(new), "{stats}");
        compiled += u32::from(new);
        let sizes = format!("m={m},n={n},k={k}");
        let shown = place.run(Driver::Whole, &[], &["compile", "rows.gk", "--arch", "native", "--call", &sizes]).expect(0, &[]).out;
        assert_eq!(blake3::hash(shown.as_bytes()).to_hex()[..16], *text, "{sizes}");
    }
    assert!((2..=12).contains(&compiled) && place.compilations() == compiled as usize, "{compiled} texts");
}

/// What is missing; the settings that make it so; exit status and words of `run --device cuda`; words of `doctor`.
type Case<'a> = (Driver, &'a [(&'a str, &'a str)], i32, &'a [&'a str], &'a [&'a str]);

const CASES: &[Case] = &[
    (Driver::Absent, &[], 3, &["there is no NVIDIA driver here", "--device cpu"], &["missing  driver", "install the NVIDIA driver"]),
    (Driver::Broken, &[], 3, &["lacks `cuLaunchKernel`", "update the NVIDIA driver"], &["missing  driver"]),
    (Driver::Whole, &[("STANDIN_DEVICES", "")], 3, &["sees no GPU", "--device cpu"], &["sees no GPU"]),
    (Driver::Whole, &[("CUDA_VISIBLE_DEVICES", "")], 3, &["sees no GPU", "unset CUDA_VISIBLE_DEVICES"], &["CUDA_VISIBLE_DEVICES"]),
    (Driver::Whole, &[("CUDA_VISIBLE_DEVICES", "GPU-none")], 3, &["unset CUDA_VISIBLE_DEVICES"], &["CUDA_VISIBLE_DEVICES"]),
    (Driver::Whole, &[("STANDIN_FAIL", "cuInit=803")], 3, &["CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "restart"], &["restart"]),
    (
        Driver::Whole,
        &[("STANDIN_DRIVER", "12.4")],
        3,
        &["too old for the code of NVRTC 13.0", "knows CUDA 12.4", "nvidia-cuda-nvrtc-cu12"],
        &["limit    driver and NVRTC", "CUDA 12.4", "missing  code for cuda:0"],
    ),
    (
        Driver::Whole,
        &[("STANDIN_DRIVER", "12.4"), ("STANDIN_DEVICES", "13.0")],
        3,
        &["too old", "update the NVIDIA driver to one for CUDA 13.0"],
        &["missing  code for cuda:0"],
    ),
    (Driver::Whole, &[("GPUKC_NVRTC", "/nowhere")], 3, &["GPUKC_NVRTC is `/nowhere`"], &["missing  NVRTC", "unset it"]),
    (Driver::Whole, &[("STANDIN_NVRTC_FAIL", "builtins")], 3, &["libnvrtc-builtins", "gpukc setup"], &["libnvrtc-builtins"]),
    (
        Driver::Whole,
        &[("STANDIN_DEVICES", "6.1")],
        3,
        &["does not compile for sm_61; it does for sm_75", "older NVRTC"],
        &["missing  code for cuda:0", "sm_61"],
    ),
    (
        Driver::Whole,
        &[("STANDIN_FAIL", "cuDevicePrimaryCtxRetain=46")],
        3,
        &["CUDA_ERROR_DEVICE_UNAVAILABLE"],
        &["cuDevicePrimaryCtx"],
    ),
    (Driver::Whole, &[("STANDIN_FAIL", "cuDevicePrimaryCtxRetain=2")], 3, &["out of device memory", "other programs"], &["out of"]),
    (Driver::Whole, &[("STANDIN_FAIL", "cuStreamSynchronize#2=214")], 3, &["ECC", "another GPU"], &[]),
    (
        Driver::Whole,
        &[("STANDIN_FAIL", "cuLaunchKernel=999 cuLaunchKernelEx=999")],
        3,
        &["scale.gk:2:5", "gpukc doctor"],
        &["cuLaunchKernel"],
    ),
    (
        Driver::Whole,
        &[("STANDIN_MEMORY", "5000")],
        4,
        &["kernel `scale`: `x` 3.9 KiB, `y` 3.9 KiB", "4.9 KiB of 4.9 KiB free", "n up to 585 (it is 1000)"],
        &[],
    ),
];

#[test]
fn what_may_be_missing() {
    let real_gpu = Path::new("/dev/nvidiactl").exists();
    for (driver, settings, status, words, of_doctor) in CASES {
        if matches!(driver, Driver::Absent) && real_gpu {
            continue;
        }
        let place = Place::new();
        place.run(*driver, settings, RUN).expect_error(*status, words);
        if !of_doctor.is_empty() {
            place.run(*driver, settings, &["doctor", "--device", "cuda"]).expect(3, of_doctor);
            place.run(*driver, settings, &["doctor", "--device", "cpu"]).expect(0, of_doctor);
            // Where a run takes the CPU instead, nothing is missing that was asked for.
            let run = place.run(*driver, settings, &["run", "scale.gk", "--in", "a=2", "--in", "x=ones:3"]);
            assert_eq!(place.run(*driver, settings, &["doctor"]).expect(run.status, of_doctor).status, run.status);
        }
        advice_can_be_taken(&place, *driver, settings);
        // Whatever the GPU lacks, the CPU runs, and so does all that needs no GPU.
        let cpu = ["run", "scale.gk", "--device", "cpu", "--in", "a=2", "--in", "x=ones:3"];
        place.run(*driver, settings, &cpu).expect(0, &["[2.0, 2.0, 2.0]"]);
        place.run(*driver, settings, &["compile", "scale.gk", "--emit", "cuda"]).expect(0, &["__global__"]);
    }
}

/// What every command advises is something that it takes, or another command that does.
fn advice_can_be_taken(place: &Place, driver: Driver, settings: &[(&str, &str)]) {
    const INPUTS: &[&str] = &["--in", "a=2", "--in", "x=ones:1000"];
    let bench = [&["bench", "scale.gk", "--runs", "1"][..], INPUTS].concat();
    let native = ["compile", "scale.gk", "--emit", "cubin", "--arch", "native", "-o", "there"];
    let named = ["compile", "scale.gk", "--emit", "cubin", "--arch", "sm_61", "-o", "there"];
    let verify = ["verify", "scale.gk", "--device", "cuda", "--calls", "1"];
    for args in [RUN, &bench, &native, &named, &verify, &["doctor"], &["setup"]] {
        // Nothing is fetched: there is no Python.
        let done = done(place.command(driver, settings, args).env("PATH", "/nowhere"));
        let help = |line: &&str| line.starts_with("  help: ") || line.contains("→");
        for line in done.err.lines().chain(done.out.lines()).filter(help) {
            let own = |word: &str| line.replace("`gpukc run --device cpu`", "").contains(word);
            assert!(!own("--device cpu") || ["run", "verify"].contains(&args[0]), "{args:?}: {line}");
            assert!(!own("--arch") || args[0] == "compile", "{args:?}: {line}");
            assert!(!own(&format!("run `gpukc {}`", args[0])), "{args:?}: {line}");
        }
    }
}

#[test]
fn without_nvrtc() {
    let place = Place::new();
    let nowhere = |command: &mut Command| {
        command.env_remove("GPUKC_NVRTC").env("HOME", place.path("home")).env("PATH", "/nowhere").env_remove("XDG_DATA_HOME");
        command.env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX");
    };
    let run = |args: &[&str]| {
        let mut command = place.command(Driver::Whole, &[], args);
        nowhere(&mut command);
        done(&mut command)
    };
    if !run(&["--version"]).out.contains("NVRTC: none") {
        // The whole machine has one, which is found, as it should be.
        return drop(run(RUN));
    }
    run(RUN).expect_error(3, &["NVRTC is not found; looked in", "gpukc setup"]);
    let auto = run(&["run", "scale.gk", "--in", "a=2", "--in", "x=ones:3"]).expect(0, &["[2.0, 2.0, 2.0]", "NVRTC", "`gpukc setup`"]);
    assert_eq!(auto.err.lines().count(), 1, "{auto:#?}");
    run(&["doctor"]).expect(0, &["missing  NVRTC", "missing  python"]);
    run(&["doctor", "--device", "cuda"]).expect(3, &["missing  NVRTC", "missing  python"]);
}

#[test]
fn several_devices() {
    let place = Place::new();
    let settings = [("STANDIN_DEVICES", "9.0 8.0")];
    let on = |device: &str| {
        let args = ["run", "scale.gk", "--device", device, "--in", "a=2", "--in", "x=ones:3"];
        place.run(Driver::Whole, &settings, &args)
    };
    on("cuda:2").expect_error(3, &["there is no device cuda:2: the driver sees 2", "cuda:0 to cuda:1"]);
    on("cuda:0").expect(0, &[]);
    place.run(Driver::Whole, &settings, &["doctor"]).expect(0, &["device cuda:0", "sm_90a", "device cuda:1", "sm_80"]);
    // Of several devices the one asked for counts.
    let old = [("STANDIN_DEVICES", "9.0 6.1")];
    for (device, status) in [("cuda:0", 0), ("cuda:1", 3), ("cuda:2", 3), ("auto", 0), ("cpu", 0)] {
        place.run(Driver::Whole, &old, &["doctor", "--device", device]).expect(status, &["missing  code for cuda:1"]);
    }
    let args = ["run", "scale.gk", "--device", "cuda:1", "--in", "a=2", "--in", "x=ones:3"];
    let hidden = place.run(Driver::Whole, &[("STANDIN_DEVICES", "9.0 8.0"), ("CUDA_VISIBLE_DEVICES", "1")], &args);
    hidden.expect_error(3, &["the driver sees 1", "the only device is cuda:0"]);
}

/// Architectures that NVRTC does not know yet get PTX of the newest that it knows.
#[test]
fn a_newer_device() {
    let place = Place::new();
    let settings = [("STANDIN_DEVICES", "13.0")];
    place.run(Driver::Whole, &settings, RUN).expect(0, &[]);
    assert!(fs::read_to_string(place.path("log")).unwrap().contains("load compute_120"));
    place.run(Driver::Whole, &settings, &["doctor"]).expect(0, &["limit    code for cuda:0", "sm_130", "later NVRTC"]);
}

/// A fault of a kernel is ours: it names the kernel, its launch, the statement in the source, and asks for a report.
#[test]
fn faults_name_the_statement() {
    let place = Place::new();
    let run = |fail: &str| {
        let args = ["run", "gather.gk", "--device", "cuda", "--in", "x=ones:100", "--in", "k=zeros:10"];
        place.run(Driver::Whole, &[("STANDIN_FAIL", fail)], &args)
    };
    // Two arrays are uploaded before the first launch is waited for.
    let first = run("cuStreamSynchronize#3=700").expect(70, &["CUDA_ERROR_ILLEGAL_ADDRESS", "`gather`", "please report"]);
    assert!(first.err.contains("gather.gk:2:5:"), "{first:#?}");
    let last = run("cuLaunchKernelEx#2=719").expect(70, &["CUDA_ERROR_LAUNCH_FAILED"]);
    assert!(last.err.contains("gather.gk:3:5:") || last.err.contains("gather.gk:2:5:"), "{last:#?}");
}

#[test]
fn an_index_out_of_range_names_the_line() {
    let place = Place::new();
    let args = ["run", "gather.gk", "--device", "cuda", "--in", "x=ones:100", "--in", "k=zeros:10"];
    let settings = [("STANDIN_REPORT", "0 -7 100")];
    let words = ["gather.gk:3:", "index -7 is out of range for axis 0 of `x`, whose extent is 100", "in `k[j]`", "| clamp"];
    place.run(Driver::Whole, &settings, &args).expect_error(4, &words);
}

#[test]
fn a_rejected_text_is_kept_for_a_report() {
    let place = Place::new();
    let settings = [("STANDIN_NVRTC_FAIL", "reject"), ("TMPDIR", place.0.path().to_str().unwrap())];
    let done = place.run(Driver::Whole, &settings, RUN).expect(70, &["NVRTC rejects"]);
    // One help says all: what to do meanwhile, in the command's words, and with the report.
    let help = |done: &Done, meanwhile: &str| {
        let lines: Vec<&str> = done.err.lines().collect();
        let [_, help] = lines[..] else { panic!("{done:#?}") };
        let start = format!(
            "  help: this is a bug of gpukc; meanwhile {meanwhile} gives the same results; please report it with the files in "
        );
        help.strip_prefix(&start).unwrap_or_else(|| panic!("{done:#?}")).to_owned()
    };
    let folder = help(&done, "`--device cpu`");
    let compile = place.run(Driver::Whole, &settings, &["compile", "scale.gk", "--emit", "ptx", "--arch", "sm_90"]).expect(70, &[]);
    assert_ne!(help(&compile, "`gpukc run --device cpu`"), folder);
    assert!(fs::read_to_string(Path::new(&folder).join("nvrtc.log")).unwrap().contains("rejects every text"));
    assert!(fs::read_to_string(Path::new(&folder).join("kernel.cu")).unwrap().contains("__global__"));
}

// ---- the cache

/// Runs twice with a cache in some state; gives how often NVRTC compiled, and checks that there is at most one warning.
#[track_caller]
fn compiled_twice(place: &Place, change: impl Fn(&mut Command)) -> usize {
    let before = place.compilations();
    for _ in 0..2 {
        let mut command = place.command(Driver::Whole, &[], RUN);
        change(&mut command);
        let done = done(&mut command).expect(0, &["y: f32[1000]"]);
        assert!(done.err.lines().count() <= 1 && done.err.lines().all(|line| line.starts_with("warning: the cache")), "{done:#?}");
    }
    place.compilations() - before
}

#[test]
fn caches_in_odd_places() {
    let place = Place::new();
    assert_eq!(compiled_twice(&place, |command| _ = command.env("GPUKC_CACHE_DIR", place.path("fäden 線/🧵"))), 1);
    assert_eq!(compiled_twice(&place, |command| _ = command.env("GPUKC_CACHE", "off")), 2);
    // No home, no cache, and nothing to say about it.
    let homeless = |command: &mut Command| {
        ["GPUKC_CACHE_DIR", "XDG_CACHE_HOME", "HOME"].iter().for_each(|name| _ = command.env_remove(name));
    };
    assert_eq!(compiled_twice(&place, homeless), 2);
    let mut command = place.command(Driver::Whole, &[], &["cache", "list"]);
    homeless(&mut command);
    done(&mut command).expect_error(3, &["HOME is not set", "GPUKC_CACHE_DIR"]);
    // Homes that nobody can write to, not even root.
    for home in ["/proc", "/dev/null"] {
        let there = |command: &mut Command| {
            ["GPUKC_CACHE_DIR", "XDG_CACHE_HOME"].iter().for_each(|name| _ = command.env_remove(name));
            command.env("HOME", home);
        };
        assert_eq!(compiled_twice(&place, there), 2);
    }
    let home = place.path("home");
    fs::create_dir(&home).unwrap();
    assert_eq!(compiled_twice(&place, |command| _ = command.env_remove("GPUKC_CACHE_DIR").env("XDG_CACHE_HOME", &home)), 1);
    assert!(home.join("gpukc").is_dir());
}

#[test]
fn folders_that_are_not_ours_to_use() {
    let place = Place::new();
    fs::write(place.path("file"), "mine").unwrap();
    assert_eq!(compiled_twice(&place, |command| _ = command.env("GPUKC_CACHE_DIR", place.path("file"))), 2);
    assert_eq!(fs::read(place.path("file")).unwrap(), b"mine");
    let folder = place.path("locked");
    fs::create_dir(&folder).unwrap();
    if std::os::unix::fs::chown(&folder, Some(54321), None).is_ok() {
        assert_eq!(compiled_twice(&place, |command| _ = command.env("GPUKC_CACHE_DIR", &folder)), 2);
        let doctor = place.command(Driver::Whole, &[], &["doctor"]).env("GPUKC_CACHE_DIR", &folder).output().unwrap();
        assert!(String::from_utf8_lossy(&doctor.stdout).contains("missing  cache"));
    } else {
        // Not root: permissions hold.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
        assert_eq!(compiled_twice(&place, |command| _ = command.env("GPUKC_CACHE_DIR", &folder)), 2);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

/// Writing fails as on a full disk: files may not grow beyond a few hundred bytes.
#[test]
fn a_full_disk() {
    let place = Place::new();
    for _ in 0..2 {
        let inner = place.command(Driver::Whole, &[("GPUKC_CACHE_DIR", "cache")], RUN);
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
        command.current_dir(place.0.path()).stdin(Stdio::null());
        for (name, value) in inner.get_envs() {
            if let (Some(value), true) = (value, name != "STANDIN_LOG" && name != "STANDIN_NVRTC_LOG") {
                command.env(name, value);
            }
        }
        let done = done(&mut command).expect(0, &["y: f32[1000]", "warning: the cache can't be written"]);
        assert_eq!(done.err.lines().count(), 1, "{done:#?}");
        assert_eq!(fs::read_dir(place.path("cache")).unwrap().count(), 0, "a temporary file is left");
    }
}

#[test]
fn damaged_entries_are_replaced() {
    let place = Place::new();
    assert_eq!(compiled_twice(&place, |_| ()), 1);
    let entry = fs::read_dir(place.path("cache")).unwrap().next().unwrap().unwrap().path();
    let good = fs::read(&entry).unwrap();
    let listed = |status: i32, words: &[&str]| {
        place.run(Driver::Whole, &[], &["cache", "verify"]).expect(status, words);
        place.run(Driver::Whole, &[], &["cache", "list"]).expect(0, &["1 entry,"]);
    };
    listed(0, &["1 entry, 0 damaged"]);
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for bad in [&good[..good.len() / 2], &flipped, b"", b"#!/bin/sh\nnothing of ours\n"] {
        fs::write(&entry, bad).unwrap();
        listed(3, &["1 damaged", "gpukc cache clear"]);
        assert_eq!(compiled_twice(&place, |_| ()), 1);
        assert_eq!(fs::read(&entry).unwrap(), good);
    }
    // A folder in its place stays in the way; every run compiles.
    fs::remove_file(&entry).unwrap();
    fs::create_dir(&entry).unwrap();
    assert_eq!(compiled_twice(&place, |_| ()), 2);
}

/// A text, an option, a target, another NVRTC: each has an entry of its own.
#[test]
fn whatever_a_binary_depends_on_is_in_its_key() {
    let place = Place::new();
    let compile = |settings: &[(&str, &str)], emit: &str, arch: &str| {
        let before = place.compilations();
        let args = ["compile", "scale.gk", "--emit", emit, "--arch", arch, "-o", "there"];
        place.run(Driver::Whole, settings, &args).expect(0, &[]);
        place.compilations() - before
    };
    assert_eq!(compile(&[], "cubin", "sm_90"), 1);
    assert_eq!(compile(&[], "cubin", "sm_90"), 0);
    assert_eq!(compile(&[], "cubin", "sm_80"), 1);
    assert_eq!(compile(&[], "ptx", "sm_90"), 1);
    // The same library under a later version's name.
    let later = place.path("later");
    fs::create_dir(&later).unwrap();
    fs::copy(standin::nvrtc().join("libnvrtc.so.13"), later.join("libnvrtc.so.13")).unwrap();
    fs::write(later.join("libnvrtc-builtins.so.13.1"), "").unwrap();
    assert_eq!(compile(&[("GPUKC_NVRTC", later.to_str().unwrap())], "cubin", "sm_90"), 1);
    // The same text but for a constant.
    fs::write(place.path("scale.gk"), SCALE.replace("a * x", "2.0 * a * x")).unwrap();
    assert_eq!(compile(&[], "cubin", "sm_90"), 1);
    assert_eq!(compile(&[], "cubin", "sm_90"), 0);
}

#[test]
fn many_kernels_warn_once() {
    let place = Place::new();
    let two = format!("{SCALE}{}", SCALE.replace("scale", "again"));
    fs::write(place.path("two.gk"), two).unwrap();
    fs::write(place.path("file"), "").unwrap();
    let args = ["compile", "two.gk", "--emit", "cubin", "--arch", "sm_80,sm_90", "-o", "there"];
    let done = place.run(Driver::Whole, &[("GPUKC_CACHE_DIR", "file")], &args).expect(0, &["warning: the cache"]);
    assert_eq!(done.err.matches("warning").count(), 1, "{done:#?}");
}

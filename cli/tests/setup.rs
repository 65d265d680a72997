//! `gpukc setup` with a stand-in for `python3` and its pip.
#![cfg(target_os = "linux")]

#[path = "../../runtime/tests/standin/mod.rs"]
mod standin;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use standin::Driver;

struct Place(tempfile::TempDir);

impl Place {
    /// A machine whose `python3 -m pip install … --target FOLDER WHEEL` does this in FOLDER.
    fn new(pip: &str) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("bin")).unwrap();
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = -m ] || exit 0\nlog='{}'\nlibrary='{}'\nprintf '%s\\n' \"$*\" >>\"$log\"\n\
             while [ \"$1\" != --target ]; do shift; done\ncd \"$2\" || exit 9\n{pip}\n",
            place.path("pip-log").display(),
            standin::nvrtc().display(),
        );
        let python = place.path("bin/python3");
        fs::write(&python, script).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(place.path("scale.gk"), "kernel scale(x: f32[n]) -> y: f32[n] { y[i] = 2.0 * x[i]; }\n").unwrap();
        place
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    /// Neither NVRTC nor Python but those of this place.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpukc"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        standin::prepare(&mut command, Driver::Whole);
        for name in ["GPUKC_NVRTC", "XDG_DATA_HOME", "XDG_CACHE_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT"] {
            command.env_remove(name);
        }
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        command.env("PATH", path).env("HOME", self.path("home")).env("GPUKC_CACHE_DIR", self.path("cache"));
        command
    }
    fn data(&self) -> PathBuf {
        self.path("home/.local/share/gpukc")
    }
    /// What is in the data folder.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Installs what the wheel holds.
const INSTALL: &str = "mkdir -p nvidia/cu13/lib && cp \"$library\"/libnvrtc* nvidia/cu13/lib";

#[track_caller]
fn expect(command: &mut Command, status: i32, words: &[&str]) -> String {
    let Output { status: ended, stdout, stderr } = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(ended.code(), Some(status), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in {text}");
    }
    text
}

/// Where the whole machine has an NVRTC, there is nothing to fetch, whatever this place is like.
fn nothing_to_fetch(place: &Place) -> bool {
    let version = String::from_utf8(place.command(&["--version"]).output().unwrap().stdout).unwrap();
    let found = !version.contains("NVRTC: none");
    if found {
        expect(&mut place.command(&["setup"]), 0, &["there already", "Nothing was done"]);
        assert!(!place.path("pip-log").exists());
    }
    found
}

#[test]
fn fetches_once_and_is_used() {
    let place = Place::new(INSTALL);
    if nothing_to_fetch(&place) {
        return;
    }
    let run = ["run", "scale.gk", "--device", "cuda", "--in", "x=ones:3"];
    expect(&mut place.command(&run), 3, &["NVRTC is not found", "gpukc setup"]);
    expect(&mut place.command(&["setup"]), 0, &["nvidia-cuda-nvrtc==13.0.88", "about 90 MB", "installed NVRTC 13.0", "To remove it"]);
    let pip = fs::read_to_string(place.path("pip-log")).unwrap();
    assert!(pip.contains("-m pip install") && pip.contains("--no-deps") && pip.ends_with("nvidia-cuda-nvrtc==13.0.88\n"), "{pip}");
    assert_eq!(place.left(), ["nvrtc"]);
    expect(&mut place.command(&run), 0, &["y: f32[3]"]);
    expect(&mut place.command(&["setup"]), 0, &["there already", "(by gpukc setup)", "Nothing was done"]);
    assert_eq!(fs::read_to_string(place.path("pip-log")).unwrap(), pip);
}

#[test]
fn failures_leave_nothing_behind() {
    for (pip, words) in [
        ("echo 'ERROR: no network' >&2; exit 1", &["ERROR: no network", "pip does not install", "see pip's message"][..]),
        ("mkdir -p nvidia/cu13/lib; kill -9 $$", &["pip does not install"]),
    ] {
        let place = Place::new(pip);
        if nothing_to_fetch(&place) {
            return;
        }
        expect(&mut place.command(&["setup"]), 3, words);
        assert!(place.left().is_empty(), "{:?}", place.left());
    }
}

#[test]
fn a_wheel_of_something_else() {
    let place = Place::new("mkdir nonsense");
    if !nothing_to_fetch(&place) {
        expect(&mut place.command(&["setup"]), 3, &["NVRTC is not found"]);
    }
}

#[test]
fn machines_where_it_cannot_work() {
    let place = Place::new(INSTALL);
    expect(place.command(&["setup"]).env("GPUKC_NVRTC", "/nowhere"), 3, &["GPUKC_NVRTC is `/nowhere`", "unset GPUKC_NVRTC"]);
    if nothing_to_fetch(&place) {
        return;
    }
    expect(place.command(&["setup"]).env("PATH", "/nowhere"), 3, &["python3 is not found", "GPUKC_NVRTC"]);
    expect(place.command(&["setup"]).env_remove("HOME"), 3, &["HOME is not set", "XDG_DATA_HOME"]);
    expect(place.command(&["setup"]).env("HOME", "/dev/null"), 3, &["/dev/null"]);
    assert!(!place.path("pip-log").exists());
}

/// An NVRTC that is found and does not work is no reason to do nothing.
#[test]
fn a_broken_nvrtc_in_the_way() {
    let place = Place::new(INSTALL);
    let toolkit = place.path("toolkit");
    fs::create_dir_all(toolkit.join("lib64")).unwrap();
    fs::write(toolkit.join("lib64/libnvrtc.so.13"), "nothing that loads").unwrap();
    let words = ["is found before it and does not work", "set GPUKC_NVRTC=", ".local/share/gpukc/nvrtc"];
    expect(place.command(&["setup"]).env("CUDA_PATH", &toolkit), 3, &words);
    let run = ["run", "scale.gk", "--device", "cuda", "--in", "x=ones:3"];
    expect(place.command(&run).env("CUDA_PATH", &toolkit), 3, &["does not work", "gpukc setup"]);
    expect(place.command(&run).env("CUDA_PATH", &toolkit).env("GPUKC_NVRTC", place.data().join("nvrtc")), 0, &["y: f32[3]"]);
    // And one that says by its setting that nothing else is wanted.
    let setting = toolkit.join("lib64/libnvrtc.so.13");
    expect(place.command(&["setup"]).env("GPUKC_NVRTC", setting), 3, &["does not work", "unset GPUKC_NVRTC"]);
}

/// What an earlier setup left that was killed goes; what another may be filling just now stays.
#[test]
fn old_leftovers_are_swept() {
    let place = Place::new(INSTALL);
    if nothing_to_fetch(&place) {
        return;
    }
    for (name, hours) in [("nvrtc-old", 30), ("nvrtc-new", 1), ("others", 30)] {
        fs::create_dir_all(place.data().join(name)).unwrap();
        let folder = fs::File::open(place.data().join(name)).unwrap();
        folder.set_modified(SystemTime::now() - Duration::from_secs(3600 * hours)).unwrap();
    }
    expect(&mut place.command(&["setup"]), 0, &["installed NVRTC"]);
    assert_eq!(place.left(), ["nvrtc", "nvrtc-new", "others"]);
}

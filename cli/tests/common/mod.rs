//! A folder to run the command in, and what comes of it. Each test program uses a part.

#![allow(dead_code)]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub const SCALE: &str = "kernel scale(a: f32, x: f32[n]) -> y: f32[n] {\n    y[i] = a * x[i];\n}\n";

pub struct Place(pub tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), contents).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }
    /// An executable script. Another process writes it: one that this process has open cannot be run, and every child that another
    /// test starts meanwhile has it open for a moment.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let mut shell = Command::new("sh");
        shell.args(["-c", "cat > \"$0\" && chmod 755 \"$0\"", name]).current_dir(self.0.path()).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success());
        self.path(name)
    }
    /// The command in this folder, with a cache of its own and no GPU to be seen.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpukc"));
        command.args(args).current_dir(self.0.path()).env("GPUKC_CACHE_DIR", self.path("cache")).env("CUDA_VISIBLE_DEVICES", "");
        command.stdin(Stdio::null());
        command
    }
    pub fn run(&self, args: &[&str]) -> Done {
        Done::from(self.command(args).output().unwrap())
    }
}

#[derive(Debug)]
pub struct Done {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Done {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Done { status: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Done {
    #[track_caller]
    pub fn expect(self, status: i32, words: &[&str]) -> Done {
        assert_eq!(self.status, status, "{self:#?}");
        for word in words {
            assert!(self.err.contains(word) || self.out.contains(word), "`{word}` is not in {self:#?}");
        }
        assert!(!self.err.contains("panicked") && !self.err.contains("stack backtrace"), "{self:#?}");
        self
    }
}

/// A version 1 `.npy` file.
pub fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

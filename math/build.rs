//! Writes, for each type, the gk texts as one Rust file: every `fn` becomes public and `#[inline(always)]`,
//! so that a caller's own `#[target_feature]` loop gets them inlined and vectorised. Rare slow paths stay calls.

use std::{env, fs, path::Path};

fn main() {
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for (name, files) in [
        ("f32.rs", ["f32_basic", "f32_exp", "f32_log", "f32_trig", "f32_erf"]),
        ("f64.rs", ["f64_basic", "f64_exp", "f64_log", "f64_trig", "f64_erf"]),
    ] {
        let mut rust = String::new();
        for file in files {
            let path = format!("src/{file}.gk");
            println!("cargo::rerun-if-changed={path}");
            let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("fn ") {
                    let slow = rest.split('(').next().is_some_and(|n| n.contains("_slow_"));
                    rust += if slow { "#[inline(never)]\n" } else { "#[inline(always)]\n" };
                    rust += "pub fn ";
                    rust += rest;
                } else {
                    rust += line;
                }
                rust += "\n";
            }
        }
        fs::write(Path::new(&out).join(name), rust).expect("OUT_DIR can be written");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

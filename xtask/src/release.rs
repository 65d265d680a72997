//! `cargo xtask release`: what must hold of a release besides the tests. Packages are built from what they hold alone, the
//! command is installed and works without CUDA, the oldest Rust that is promised compiles everything, and so does a compiler
//! for other systems.

use std::process::Command;

use crate::command::{Result, cargo, output, root, run};

/// Members of the workspace that are not published.
const UNPUBLISHED: [&str; 3] = ["gpukc-random", "gpukc-fuzz", "xtask"];
/// Systems that gpukc is not tested on, and must compile for.
const OTHERS: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

pub fn release() -> Result<()> {
    let excluded = UNPUBLISHED.iter().flat_map(|name| ["--exclude", name]);
    run(cargo(&["package", "--workspace", "--allow-dirty"]).args(excluded))?;
    install()?;
    oldest()?;
    for system in OTHERS {
        run(Command::new("rustup").args(["target", "add", system]))?;
        // A dependency builds a little C. Nothing is linked here, so that no C compiler for that system is needed.
        let stubs = ["CC", "AR"].map(|tool| (format!("{tool}_{}", system.replace('-', "_")), "true"));
        run(cargo(&["check", "--package", "gpukc-cli", "--target", system]).envs(stubs))?;
    }
    Ok(())
}

/// The installed command on a machine without driver and NVRTC.
fn install() -> Result<()> {
    let place = root().join("target/installed");
    run(cargo(&["install", "--path", "cli", "--locked", "--root"]).arg(&place))?;
    for arguments in [
        ["check", "examples/softmax.gk"].as_slice(),
        &["compile", "--emit", "cuda", "examples/softmax.gk"],
        &["fmt", "--check", "examples/softmax.gk"],
        &["run", "--device", "cpu", "examples/reduce.gk", "--in", "x=rand:1000"],
    ] {
        let mut command = Command::new(place.join("bin/gpukc"));
        output(command.args(arguments).current_dir(root()).env("GPUKC_NVRTC", "/nowhere").env("LD_LIBRARY_PATH", "/nowhere"))?;
    }
    Ok(())
}

/// Everything, by the `rust-version` of Cargo.toml.
fn oldest() -> Result<()> {
    let manifest = root().join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let version = text.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    let version = version.ok_or("Cargo.toml states no rust-version")?;
    let toolchain = toolchain(version)?;
    // rustup's own cargo: the one that runs us is of one version only.
    let folder = root().join("target/oldest");
    let mut command = Command::new("rustup");
    command.args(["run", &toolchain, "cargo", "check", "--workspace", "--all-targets", "--target-dir"]).arg(folder);
    run(command.current_dir(root()).env_remove("RUSTUP_TOOLCHAIN"))
}

/// A toolchain of this version: one that is there, whichever of its releases it is, or else the latest.
fn toolchain(version: &str) -> Result<String> {
    let listed = output(Command::new("rustup").args(["toolchain", "list"]))?;
    if let Some(installed) = installed(&listed, version) {
        return Ok(installed.to_owned());
    }
    run(Command::new("rustup").args(["toolchain", "install", version, "--profile", "minimal"]))?;
    Ok(version.to_owned())
}

/// In rustup's list, `1.88` is there as `1.88-…` or `1.88.0-…`.
fn installed<'a>(listed: &'a str, version: &str) -> Option<&'a str> {
    let mut names = listed.lines().filter_map(|line| line.split_whitespace().next());
    names.find(|name| name.strip_prefix(version).is_some_and(|rest| rest.starts_with(['.', '-'])))
}

#[cfg(test)]
mod tests {
    use super::installed;

    #[test]
    fn toolchains_are_of_a_version() {
        let listed = "stable-x86_64-unknown-linux-gnu (active, default)\n1.188-x86_64\n1.88.0-x86_64\n1.9-x86_64\n";
        assert_eq!(installed(listed, "1.88"), Some("1.88.0-x86_64"));
        assert_eq!(installed(listed, "1.88.0"), Some("1.88.0-x86_64"));
        assert_eq!(installed(listed, "1.188"), Some("1.188-x86_64"));
        assert_eq!([installed(listed, "1.8"), installed(listed, "1.88.1"), installed("", "1.88")], [None; 3]);
    }
}

//! Running commands in the project's root, each printed first.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What went wrong, for people.
pub type Result<T> = std::result::Result<T, String>;

/// The project's root.
pub fn root() -> PathBuf {
    // Cargo says where xtask is now; the built-in path serves when the program is started by hand.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&xtask).parent().map(Path::to_owned).unwrap_or_default()
}

/// The cargo that runs us.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    // What cargo tells this crate must not reach the crates that a nested cargo builds.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(name);
    }
    command
}

/// Prints and runs a command; a failure of it is an error.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("+ {}", text(command));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` failed ({status})", text(command))),
        Err(error) => Err(format!("`{}` does not start: {error}", text(command))),
    }
}

/// Prints and runs a command; gives its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    eprintln!("+ {}", text(command));
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("`{}` does not start: {error}", text(command)))?;
    if !output.status.success() {
        return Err(format!("`{}` failed ({})", text(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{}` prints something that is not UTF-8", text(command)))
}

fn text(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    // A script's text is long.
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).filter(|text| !text.contains('\n'));
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

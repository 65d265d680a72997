//! What each command can be advised to do: no command is told to take what it refuses.

use gpukc_runtime::advice::Words;

use crate::args::Command;

/// For commands that do without a device.
pub const PLAIN: Words = Words { doctor: Some("`gpukc doctor`"), setup: Some("`gpukc setup`"), ..Words::NONE };

/// For commands that any device will do for.
pub const ANY_DEVICE: Words = Words { cpu: Some(CPU), results: Some(CPU), ..PLAIN };

const CPU: &str = "`--device cpu`";
const RUN_ON_CPU: &str = "`gpukc run --device cpu`";

/// What the command can be advised to do.
pub fn words(command: &Command) -> Words {
    match command {
        Command::Run(_) | Command::Verify(_) => ANY_DEVICE,
        Command::Bench(_) => Words { results: Some(RUN_ON_CPU), ..PLAIN },
        Command::Compile(_) => Words { results: Some(RUN_ON_CPU), architecture: Some("choose one of these with --arch"), ..PLAIN },
        Command::Doctor(_) => DOCTOR,
        Command::Setup => Words { setup: None, ..PLAIN },
        Command::Check(_) | Command::Explain(_) | Command::Fmt(_) | Command::Cache(_) | Command::Completions(_) => PLAIN,
    }
}

/// For `gpukc doctor`, which is not told to ask itself.
pub const DOCTOR: Words = Words { doctor: None, ..PLAIN };

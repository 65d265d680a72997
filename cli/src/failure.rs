//! How a command ends when it does not succeed: an exit status and what to say.

use gpukc_dsl::source::Source;
use gpukc_runtime::advice::Words;
use gpukc_runtime::error::{Error, Kind, bytes_text};

use crate::output;
use crate::report;

/// Why a command ends.
#[derive(Debug)]
pub struct Failure {
    status: u8,
    /// Empty if everything has been said.
    message: String,
    help: Option<Help>,
}

/// What to do, said when it is known which command says it.
#[derive(Debug)]
enum Help {
    Text(String),
    /// What the runtime advises.
    Runtime(Box<Error>),
    /// The GPU's part is beyond a known limit: the CPU does it.
    Unsupported,
    /// The GPU's part is broken: the CPU gives the results.
    Meanwhile,
}

impl Help {
    fn say(&self, words: &Words) -> Option<String> {
        match self {
            Help::Text(text) => Some(text.clone()),
            Help::Runtime(error) => Some(error.help(words)),
            Help::Unsupported => words.results.map(|results| format!("this is not supported on the GPU yet; {results} runs it")),
            Help::Meanwhile => words.meanwhile(),
        }
    }
}

impl Failure {
    fn new(status: u8, message: impl Into<String>, help: Option<Help>) -> Failure {
        Failure { status, message: message.into(), help }
    }
    /// The program is wrong; its diagnostics have been shown.
    pub fn shown() -> Failure {
        Failure::new(1, "", None)
    }
    /// Everything has been said, and reported if it is to be.
    pub fn told(status: u8) -> Failure {
        Failure::new(status, "", None)
    }
    /// What comes of several things that have told how they ended: a fault of ours counts first, then whatever came first.
    pub fn of_several(statuses: &[u8]) -> Result<(), Failure> {
        let failed = statuses.iter().find(|status| **status == 70).or_else(|| statuses.iter().find(|status| **status != 0));
        failed.map_or(Ok(()), |status| Err(Failure::told(*status)))
    }
    /// The program is beyond a known limit.
    pub fn program(message: impl Into<String>) -> Failure {
        Failure::new(1, message, None)
    }
    /// The program is beyond a limit of what GPUs run.
    pub fn unsupported(message: impl Into<String>) -> Failure {
        Failure::new(1, message, Some(Help::Unsupported))
    }
    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(2, message, None)
    }
    /// The machine lacks something.
    pub fn environment(message: impl Into<String>, help: Option<&str>) -> Failure {
        Failure::new(3, message, help.map(|help| Help::Text(help.to_owned())))
    }
    /// The inputs do not fit.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure::new(4, message, None)
    }
    /// Ours to mend.
    pub fn bug(message: impl Into<String>) -> Failure {
        Failure::new(70, message, None)
    }
    /// Ours to mend, in what is done for the GPU.
    pub fn bug_on_gpu(message: impl Into<String>) -> Failure {
        Failure::new(70, message, Some(Help::Meanwhile))
    }
    /// Adds what to do.
    pub fn help(mut self, help: impl Into<String>) -> Failure {
        self.help = Some(Help::Text(help.into()));
        self
    }
    /// A failure of the runtime. `source` is the program, for places in it.
    pub fn runtime(error: &Error, source: Option<&Source>) -> Failure {
        let status = match error.kind() {
            Kind::Input | Kind::Limit => 4,
            Kind::Environment => 3,
            Kind::Bug => 70,
        };
        let mut message = error.to_string();
        if let (Some(span), Some(source)) = (error.span(), source) {
            let place = source.position(span.start as usize);
            message = format!("{}:{}:{}: {message}", source.name(), place.line, place.column);
            if matches!(error, Error::IndexOutOfRange { .. }) {
                message.push_str(&format!(", in `{}`", source.slice(span)));
            }
        }
        if let Error::OutOfMemory { memory: Some((free, total)), .. } = error {
            message.push_str(&format!(" ({} of {} free)", bytes_text(*free), bytes_text(*total)));
        }
        if let Error::Rejected(rejected) = error {
            report::keep("kernel.cu", &rejected.source);
            report::keep("nvrtc.log", &format!("{}\n{}\n\n{}\n", rejected.code, rejected.options.join(" "), rejected.log));
        }
        let help = if status == 70 { Help::Meanwhile } else { Help::Runtime(error.clone().into()) };
        Failure::new(status, message, Some(help))
    }
    /// Says it in the command's words, and gives the exit status.
    pub fn tell(self, words: &Words) -> u8 {
        if !self.message.is_empty() {
            output::note(&format!("{} {}", output::red("error:"), self.message));
        }
        let help = self.help.and_then(|help| help.say(words));
        if self.status == 70 && !self.message.is_empty() {
            output::note(&report::write(&self.message, help.as_deref()));
        } else if let Some(help) = help {
            output::note(&format!("  help: {help}"));
        }
        self.status
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::runtime(&error, None)
    }
}

//! `gpukc explain GK0203`: what a diagnostic's code means.

use crate::args::Explain;
use crate::failure::Failure;
use crate::{output, pipeline};

pub fn run(args: &Explain) -> Result<(), Failure> {
    let number = args.code.strip_prefix("GK").or_else(|| args.code.strip_prefix("gk")).and_then(|digits| digits.parse::<u16>().ok());
    let Some(number) = number else {
        return Err(Failure::usage(format!("`{}` is not a code; codes look like GK0203", args.code)));
    };
    match pipeline::explanation(number) {
        Some((title, text)) => {
            output::result(format!("GK{number:04}: {title}\n\n{text}\n"));
            Ok(())
        }
        None => Err(Failure::usage(format!("there is no code GK{number:04}"))),
    }
}

//! `gpukc explain GK0203`: what a diagnostic's code means. Without a code: which there are.

use crate::args::Explain;
use crate::failure::Failure;
use crate::{output, pipeline};

pub fn run(args: &Explain) -> Result<(), Failure> {
    let Some(code) = &args.code else {
        let lines: String = pipeline::codes().map(|(number, title)| format!("GK{number:04}  {title}\n")).collect();
        output::result(lines);
        return Ok(());
    };
    let number = code
        .strip_prefix("GK")
        .or_else(|| code.strip_prefix("gk"))
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse::<u16>().ok());
    let Some(number) = number else {
        return Err(Failure::usage(format!("`{code}` is not a code; codes look like GK0203")).help(LIST));
    };
    match pipeline::explanation(number) {
        Some((title, text)) => {
            output::result(format!("GK{number:04}: {title}\n\n{text}\n"));
            Ok(())
        }
        None => Err(Failure::usage(format!("there is no code GK{number:04}")).help(LIST)),
    }
}

const LIST: &str = "`gpukc explain --list` lists all codes";

//! The two streams. A closed pipe is no error: the reader has had enough. The command goes on, for its files and its status.

use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::ending;

/// Writes a result to standard output.
pub fn result(text: impl AsRef<[u8]>) {
    let mut stream = io::stdout().lock();
    let written = stream.write_all(text.as_ref()).and_then(|()| stream.flush());
    if let Err(error) = written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }) {
        note(&format!("{} standard output: {error}", red("error:")));
        ending::now(4);
    }
}

/// Writes a line to standard error.
pub fn note(text: &str) {
    let mut stream = io::stderr().lock();
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(b"\n"));
}

fn color_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// Whether standard error takes colours.
pub fn color() -> bool {
    color_wanted() && io::stderr().is_terminal()
}

/// Whether standard output takes colours.
pub fn color_of_result() -> bool {
    color_wanted() && io::stdout().is_terminal()
}

/// A word in red, on a terminal.
pub fn red(word: &str) -> String {
    if color() { format!("\x1b[1;31m{word}\x1b[0m") } else { word.to_owned() }
}

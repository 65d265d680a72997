//! The two streams. A closed pipe is no error: the reader has had enough.

use std::fs::Permissions;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;

use crate::ending::Guarded;
use crate::failure::Failure;

/// Writes a result to standard output.
pub fn result(text: impl AsRef<[u8]>) {
    let mut stream = io::stdout().lock();
    if let Err(error) = stream.write_all(text.as_ref()).and_then(|()| stream.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            note(&format!("{} standard output: {error}", red("error:")));
            std::process::exit(4);
        }
        std::process::exit(0);
    }
}

/// Writes a line to standard error.
pub fn note(text: &str) {
    let mut stream = io::stderr().lock();
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(b"\n"));
}

fn color_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
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

/// Writes a file so that it appears whole or not at all. What is no regular file (`/dev/stdout`, a pipe) is written to.
pub fn file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let result = (|| {
        if path.symlink_metadata().is_ok_and(|data| !data.is_file() && !data.is_symlink())
            || path.metadata().is_ok_and(|data| !data.is_file())
        {
            let mut stream = io::BufWriter::new(std::fs::File::options().write(true).open(path)?);
            let written = write(&mut stream).and_then(|()| stream.flush());
            // What is not written by now never will be; and a reader that has had enough is no error.
            let _ = stream.into_parts();
            return written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) });
        }
        replace(path, None, write)
    })();
    result.map_err(|error: io::Error| Failure::input(format!("{} can't be written: {error}", path.display())))
}

/// Writes a file beside its place, then renames it: through a link to what it points at, as writing in place would do.
pub fn replace(path: &Path, permissions: Option<Permissions>, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (mut temporary, _guarded) = Guarded::make(|| temporary(folder), |file| file.path().to_owned())?;
    let mut stream = io::BufWriter::with_capacity(1 << 20, temporary.as_file_mut());
    write(&mut stream)?;
    stream.flush()?;
    drop(stream);
    if let Some(permissions) = permissions {
        temporary.as_file().set_permissions(permissions)?;
    }
    temporary.persist(&path).map(drop).map_err(|error| error.error)
}

fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gpukc-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // What the user's mask leaves of it, as for any file.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    // Its error names the temporary file, which is nobody's business.
    builder.tempfile_in(folder).map_err(|error| {
        let text = error.to_string();
        io::Error::new(error.kind(), text.split(" at path ").next().unwrap_or_default())
    })
}

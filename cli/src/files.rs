//! What a command writes. A file appears whole or not at all, and all files of a command together: each is made beside its place,
//! and they are renamed when all of them are there. `-` is standard output; what is no regular file (`/dev/stdout`, a pipe) is
//! written to.

use std::fs::Permissions;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::ending::Guarded;
use crate::failure::Failure;

/// Writes one file's bytes.
type Writer<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + 'a>;

/// Files to be written together.
#[derive(Default)]
pub struct Files<'a>(Vec<(PathBuf, Writer<'a>)>);

impl<'a> Files<'a> {
    /// One more.
    pub fn add(&mut self, path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()> + 'a) {
        self.0.push((path.to_owned(), Box::new(write)));
    }

    /// Writes them, in their order; what can't be taken back comes after all that may fail.
    pub fn write(self) -> Result<(), Failure> {
        let mut made = Vec::new();
        let mut streams = Vec::new();
        for (path, write) in self.0 {
            if is_stream(&path) {
                streams.push((path, write));
            } else {
                made.push((Made::new(&path, None, write).map_err(|error| refused(&path, &error))?, path));
            }
        }
        for (path, write) in streams {
            send(&path, write).map_err(|error| refused(&path, &error))?;
        }
        made.into_iter().try_for_each(|(file, path)| file.put().map_err(|error| refused(&path, &error)))
    }
}

/// Finds out whether a file could be written there, before there is anything to write.
pub fn check(path: &Path) -> Result<(), Failure> {
    let tried = match path.metadata() {
        _ if is_standard_output(path) => Ok(()),
        Ok(data) if data.is_dir() => Err(io::Error::other("it is a folder")),
        Ok(data) if !data.is_file() => Ok(()),
        _ => Guarded::make(|| temporary(folder(&resolved(path))), |file| file.path().to_owned()).map(drop),
    };
    tried.map_err(|error| refused(path, &error))
}

/// Whether a file's name stands for standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Bytes that are no text are not for a terminal.
pub fn no_terminal(what: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Err(Failure::usage(format!("{what} is no text for the terminal")).help("name a file, or send standard output to one"));
    }
    Ok(())
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    let name = if is_standard_output(path) { "standard output".to_owned() } else { path.display().to_string() };
    Failure::input(format!("{name} can't be written: {error}"))
}

fn is_stream(path: &Path) -> bool {
    is_standard_output(path)
        || path.symlink_metadata().is_ok_and(|data| !data.is_file() && !data.is_symlink())
        || path.metadata().is_ok_and(|data| !data.is_file())
}

/// Writes to what is no regular file. A reader that has had enough is no error.
fn send(path: &Path, write: Writer) -> io::Result<()> {
    let target: Box<dyn Write> = if is_standard_output(path) {
        Box::new(io::stdout().lock())
    } else {
        Box::new(std::fs::File::options().write(true).open(path)?)
    };
    let mut stream = io::BufWriter::new(target);
    let written = write(&mut stream).and_then(|()| stream.flush());
    // What is not written by now never will be.
    let _ = stream.into_parts();
    written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Writes a file beside its place, then renames it.
pub fn replace(path: &Path, permissions: Option<Permissions>, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    Made::new(path, permissions, write)?.put()
}

/// A file that is whole, beside its place.
struct Made {
    file: tempfile::NamedTempFile,
    path: PathBuf,
    _guarded: Guarded,
}

impl Made {
    fn new(path: &Path, permissions: Option<Permissions>, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Made> {
        let path = resolved(path);
        let (mut file, _guarded) = Guarded::make(|| temporary(folder(&path)), |file| file.path().to_owned())?;
        let mut stream = io::BufWriter::with_capacity(1 << 20, file.as_file_mut());
        write(&mut stream)?;
        stream.flush()?;
        drop(stream);
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        Ok(Made { file, path, _guarded })
    }

    fn put(self) -> io::Result<()> {
        self.file.persist(&self.path).map(drop).map_err(|error| error.error)
    }
}

/// Through a link to what it points at, as writing in place would do.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
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

//! What a command writes. A file appears whole or not at all, and all files of a command together: each is made beside its place,
//! and they are renamed when all of them are there. `-` is standard output; what is no regular file (`/dev/stdout`, a pipe) is
//! written to.

use std::fs::Permissions;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::ending::Guarded;
use crate::failure::Failure;

/// Links that point at links are followed so far; a circle has no end.
const MOST_LINKS: usize = 40;

/// How the names of temporary files begin.
const PREFIX: &str = ".gpukc-";

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
                made.push((Made::new(&path, write).map_err(|error| refused(&path, &error))?, path));
            }
        }
        for (path, write) in streams {
            send(&path, write).map_err(|error| refused(&path, &error))?;
        }
        put(made)
    }
}

/// Finds out whether a file could be written there, before there is anything to write.
pub fn check(path: &Path) -> Result<(), Failure> {
    let tried = match path.metadata() {
        _ if is_standard_output(path) => Ok(()),
        Ok(data) if data.is_dir() => Err(io::Error::other("it is a folder")),
        Ok(data) if !data.is_file() => Ok(()),
        _ => permissions(path)
            .and_then(|_| Guarded::make(|| temporary(folder(&resolved(path))), |file| file.path().to_owned()))
            .map(drop),
    };
    tried.map_err(|error| refused(path, &error))
}

/// Whether a file's name stands for standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Bytes that are no text are not for a terminal; `place` is where else the command puts them.
pub fn no_terminal(what: &str, place: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Err(Failure::usage(format!("{what} is no text for the terminal"))
            .help(format!("name a {place}, or send standard output to a file")));
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
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    Made::new(path, write)?.put()
}

/// Renames files to their places. If one can't be, those before it are taken back.
fn put(made: Vec<(Made, PathBuf)>) -> Result<(), Failure> {
    let alone = made.len() == 1;
    let mut replaced = Vec::new();
    for (file, path) in made {
        replaced.extend((!alone).then(|| Replaced::by(&file)));
        if let Err(error) = file.put() {
            // The last one has not been replaced.
            replaced.pop();
            replaced.into_iter().rev().for_each(Replaced::back);
            return Err(refused(&path, &error));
        }
    }
    Ok(())
}

/// What stood in a file's place.
enum Replaced {
    Nothing(PathBuf),
    /// It has a second name meanwhile.
    File(tempfile::NamedTempFile<()>, PathBuf, Guarded),
    /// It can have no second name on this file system.
    Lost,
}

impl Replaced {
    fn by(file: &Made) -> Replaced {
        if !file.path.exists() {
            return Replaced::Nothing(file.path.clone());
        }
        let link = |name: &Path| std::fs::hard_link(&file.path, name);
        let make = || tempfile::Builder::new().prefix(PREFIX).make_in(folder(&file.path), link);
        match Guarded::make(make, |kept| kept.path().to_owned()) {
            Ok((kept, guarded)) => Replaced::File(kept, file.path.clone(), guarded),
            Err(_) => Replaced::Lost,
        }
    }

    fn back(self) {
        let _ = match self {
            Replaced::Nothing(path) => std::fs::remove_file(path),
            Replaced::File(kept, path, _guarded) => kept.persist(path).map_err(|error| error.error),
            Replaced::Lost => Ok(()),
        };
    }
}

/// A file that is whole, beside its place.
struct Made {
    file: tempfile::NamedTempFile,
    path: PathBuf,
    _guarded: Guarded,
}

impl Made {
    fn new(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Made> {
        let path = resolved(path);
        let permissions = permissions(&path)?;
        let (mut file, _guarded) = Guarded::make(|| temporary(folder(&path)), |file| file.path().to_owned())?;
        // What nobody else may read they may not read meanwhile.
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        let mut stream = io::BufWriter::with_capacity(1 << 20, file.as_file_mut());
        write(&mut stream)?;
        stream.flush()?;
        drop(stream);
        Ok(Made { file, path, _guarded })
    }

    fn put(self) -> io::Result<()> {
        self.file.persist(&self.path).map(drop).map_err(|error| error.error)
    }
}

/// Through links to what they point at, there or not, as writing in place would do.
fn resolved(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        place = match (place.canonicalize(), place.read_link()) {
            (Ok(whole), _) => return whole,
            (Err(_), Ok(target)) => folder(&place).join(target),
            (Err(_), Err(_)) => return place,
        };
    }
    path.to_owned()
}

/// The permissions of the file that stands in a place, which its successor takes over. It must be one that may be written.
fn permissions(path: &Path) -> io::Result<Option<Permissions>> {
    match path.metadata() {
        Ok(data) if data.permissions().readonly() => Err(io::Error::other("it is read-only")),
        Ok(data) => Ok(Some(data.permissions())),
        Err(_) => Ok(None),
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A file to be replaced and one that is not there yet.
    fn old_and_new(folder: &Path) -> Files<'static> {
        fs::write(folder.join("old"), "before").unwrap();
        let mut files = Files::default();
        for name in ["old", "new"] {
            files.add(&folder.join(name), |stream| stream.write_all(b"after"));
        }
        files
    }

    #[test]
    fn what_was_replaced_comes_back_if_a_later_file_has_no_place() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let mut files = old_and_new(folder.path());
        // Its place is taken while it is written.
        files.add(&place("taken"), |stream| fs::create_dir(place("taken")).and_then(|()| stream.write_all(b"after")));
        assert!(files.write().is_err());
        assert_eq!(fs::read(place("old")).unwrap(), b"before");
        let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["old", "taken"]);
    }

    #[test]
    fn files_that_are_replaced_leave_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let files = old_and_new(folder.path());
        files.write().unwrap();
        assert_eq!((fs::read(place("old")).unwrap(), fs::read(place("new")).unwrap()), (b"after".to_vec(), b"after".to_vec()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

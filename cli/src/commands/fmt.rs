//! `gpukc fmt`: programs laid out in the one usual way, in place.

use std::fs;
use std::io;
use std::path::Path;

use gpukc_dsl::format::{self, Refusal};

use crate::args::{Fmt, Format};
use crate::failure::Failure;
use crate::load::{self, Text};
use crate::progress::Progress;
use crate::{advice, files, output};

/// Every file is treated, whatever becomes of those before it.
pub fn run(args: &Fmt) -> Result<(), Failure> {
    let mut changes = 0;
    let mut failed: Option<Failure> = None;
    let mut progress = Progress::patient(args.files.len());
    for path in &args.files {
        progress.begin(&path.display().to_string());
        match progress.pause(|| file(path, args.check)) {
            Ok(changed) => changes += usize::from(changed),
            Err(failure) => drop(failed.replace(failure).map(|failure| progress.pause(|| failure.tell(&advice::PLAIN)))),
        }
        progress.end();
    }
    drop(progress);
    match failed {
        Some(failure) => Err(failure),
        None if args.check && changes > 0 => {
            let what = if changes == 1 { "one file is" } else { "these files are" };
            Err(Failure::program(format!("{what} not formatted")).help("`gpukc fmt` without --check formats them"))
        }
        None => Ok(()),
    }
}

/// Formats a file, or says its name if that would change it. Whether it does.
fn file(path: &Path, check: bool) -> Result<bool, Failure> {
    let Text { source, problems, marked } = load::read(path)?;
    if load::refused(&problems) {
        load::show(&source, &problems, Format::Human);
        return Err(Failure::shown());
    }
    let formatted = format::format(&source).map_err(|refusal| match refusal {
        Refusal::Program(problems) => {
            load::show(&source, &problems, Format::Human);
            Failure::shown()
        }
        Refusal::Internal => Failure::bug(format!("{} can't be formatted without a change of its meaning", source.name())),
    })?;
    let changed = marked || formatted != source.text();
    if check {
        if changed {
            output::result(format!("{}\n", source.name()));
        }
    } else if path == Path::new("-") {
        output::result(formatted);
    } else if changed {
        replace(path, &formatted).map_err(|error| Failure::input(format!("{} can't be written: {error}", path.display())))?;
    }
    Ok(changed)
}

/// Writes a file anew. What is no file can't be replaced by one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file; `gpukc fmt -` formats standard input"));
    }
    files::replace(path, |stream| stream.write_all(text.as_bytes()))
}

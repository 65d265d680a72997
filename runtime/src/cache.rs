//! Compiled kernels on disk. A miss is always an answer: whatever is wrong with folder or entry, the caller compiles.
//!
//! An entry is one file, `<64 hexadecimal digits>.gkc`, named after the digest of its [`Key`]. It is written beside its place
//! and renamed, so that readers see all of it or nothing, and many processes may fill the cache at once. Reading touches the
//! file's time, and writing drops the least recently used entries beyond the size bound. Code is run that lies here, so folder
//! and entry must belong to the user (or to root).

mod entry;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

pub use entry::{Entry, Key, Parsed, parse, serialise};

use crate::locate::set;

const EXTENSION: &str = "gkc";
const TEMPORARY: &str = ".gkc-tmp-";
/// A temporary file of this age is of a process that was killed: writing one takes milliseconds.
const STALE: Duration = Duration::from_secs(600);
/// An entry beyond this is not read: it is none of ours.
const LARGEST: u64 = 1 << 30;

/// What a look-up says: an entry, or none and perhaps why that is strange.
#[derive(Debug, Default)]
pub struct Lookup {
    /// The entry.
    pub entry: Option<Entry>,
    /// Something is wrong with the cache, in one sentence. The caller says so at most once.
    pub warning: Option<String>,
}

/// A folder of entries, or none.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
    /// Beyond this many bytes, writing drops the least recently used.
    pub bound: u64,
}

/// An entry as it lies in the folder.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When it was last used.
    pub used: SystemTime,
    /// The first line of its notes, or what is wrong with it.
    pub notes: Result<String, String>,
}

impl Cache {
    /// `$GPUKC_CACHE_DIR`, else `gpukc` in the platform's cache folder; none with `GPUKC_CACHE=off` or without a home.
    pub fn from_environment() -> Cache {
        let bound = set("GPUKC_CACHE_BYTES").and_then(|value| value.to_str()?.parse().ok()).unwrap_or(512 << 20);
        if Cache::switched_off() {
            return Cache { folder: None, bound };
        }
        Cache { folder: Cache::folder_of_environment(), bound }
    }
    /// Whether the environment switches the cache off.
    pub fn switched_off() -> bool {
        set("GPUKC_CACHE").is_some_and(|value| value == "off" || value == "0")
    }
    /// A cache in this folder, which need not exist.
    pub fn at(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: Some(folder.into()), bound: 512 << 20 }
    }
    /// No cache: every look-up misses, nothing is kept.
    pub fn off() -> Cache {
        Cache { folder: None, bound: 0 }
    }
    /// The folder that the environment names, whether switched off or not.
    pub fn folder_of_environment() -> Option<PathBuf> {
        if let Some(folder) = set("GPUKC_CACHE_DIR") {
            return Some(folder.into());
        }
        if let Some(folder) = set("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute()) {
            return Some(folder.join("gpukc"));
        }
        if cfg!(windows) {
            return set("LOCALAPPDATA").map(|folder| PathBuf::from(folder).join("gpukc").join("cache"));
        }
        let home = PathBuf::from(set("HOME")?);
        Some(home.join(if cfg!(target_os = "macos") { "Library/Caches/gpukc" } else { ".cache/gpukc" }))
    }
    /// The folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Looks a key up.
    pub fn get(&self, key: &Key) -> Lookup {
        let Some(folder) = &self.folder else { return Lookup::default() };
        let path = place(folder, key);
        let warning = |text: String| Lookup { entry: None, warning: Some(text) };
        match ours(folder).and_then(|()| read(&path)) {
            Ok(bytes) => match parse(&bytes).and_then(|parsed| parsed.entry(key)) {
                Ok(entry) => {
                    touch(&path);
                    Lookup { entry: Some(entry), warning: None }
                }
                Err(why) => {
                    // Out of the way, so that the next one finds a good entry; if that fails too, the write will say so.
                    let _ = fs::remove_file(&path);
                    warning(format!("the cache entry {} is damaged ({why})", path.display()))
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Lookup::default(),
            Err(error) => warning(format!("the cache can't be read: {}: {error}", path.display())),
        }
    }

    /// Keeps an entry. If that fails, says why.
    pub fn put(&self, key: &Key, entry: &Entry) -> Option<String> {
        let folder = self.folder.as_ref()?;
        let bytes = serialise(key, entry);
        let mut written = write(folder, key, &bytes);
        // Where others clear the cache meanwhile, folder or file may be gone before the file has its name.
        for _ in 0..10 {
            if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                written = write(folder, key, &bytes);
            }
        }
        match written {
            Ok(()) => {
                self.evict(folder);
                None
            }
            Err(error) => Some(format!("the cache can't be written: {}: {error}", folder.display())),
        }
    }

    /// Drops the least recently used entries beyond the bound, and temporary files that no one will finish.
    fn evict(&self, folder: &Path) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut files = Vec::new();
        let mut total = 0u64;
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(data) = entry.metadata() else { continue };
            let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if is_entry(&path) {
                total = total.saturating_add(data.len());
                files.push((used, data.len(), path));
            } else if is_temporary(&path) && used.elapsed().is_ok_and(|age| age > STALE) {
                let _ = fs::remove_file(&path);
            }
        }
        if total <= self.bound {
            return;
        }
        files.sort();
        // Somewhat below the bound, so that not every write has to do this.
        let goal = self.bound / 10 * 9;
        for (_, bytes, path) in files {
            if total <= goal {
                break;
            }
            // Another process may have dropped it meanwhile: gone is gone.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => total -= bytes,
            }
        }
    }

    /// The entries, the most recently used first. Each is read and checked if `verify`.
    pub fn list(&self, verify: bool) -> io::Result<Vec<Listed>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut list = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(data) = entry.metadata() else { continue };
            if !is_entry(&path) {
                continue;
            }
            let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
            let notes = if verify {
                read(&path).map_err(|error| error.to_string()).and_then(|bytes| parse(&bytes)?.notes(name))
            } else {
                read_notes(&path)
            };
            let notes = notes.map(|notes| notes.lines().next().unwrap_or("").to_owned());
            list.push(Listed { path, bytes: data.len(), used: data.modified().unwrap_or(SystemTime::UNIX_EPOCH), notes });
        }
        list.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
        Ok(list)
    }

    /// Whether entries can be kept: makes the folder and a file in it.
    pub fn check(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        fs::create_dir_all(folder)?;
        ours(folder)?;
        let trial = temporary(folder);
        File::options().write(true).create_new(true).open(&trial)?;
        fs::remove_file(trial)
    }

    /// Removes all entries and temporary files, and nothing else. Gives how many entries there were.
    pub fn clear(&self) -> io::Result<usize> {
        let Some(folder) = &self.folder else { return Ok(0) };
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            other => other?,
        };
        let (mut count, mut failure) = (0, None);
        for path in entries.flatten().map(|entry| entry.path()) {
            if is_entry(&path) || is_temporary(&path) {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => failure = Some(error),
                    _ => count += usize::from(is_entry(&path)),
                }
            }
        }
        failure.map_or(Ok(count), Err)
    }
}

fn is_entry(path: &Path) -> bool {
    let hexadecimal = |name: &str| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    path.extension() == Some(OsStr::new(EXTENSION)) && path.file_stem().and_then(OsStr::to_str).is_some_and(hexadecimal)
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(TEMPORARY))
}

/// Where a key's entry lies.
fn place(folder: &Path, key: &Key) -> PathBuf {
    folder.join(key.name()).with_extension(EXTENSION)
}

/// An error if it belongs to someone else, who could have put anything there.
fn ours(path: &Path) -> io::Result<()> {
    trusted(&fs::metadata(path)?)
}

#[cfg(unix)]
fn trusted(data: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let owner = data.uid();
    if owner == 0 || owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::other("it belongs to another user; set GPUKC_CACHE_DIR to a folder of your own"))
}

#[cfg(not(unix))]
fn trusted(_: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// A name that no other thread or process uses. What killed processes leave is swept by `evict`.
fn temporary(folder: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("{TEMPORARY}{}-{number}-{nanos:x}", std::process::id()))
}

fn write(folder: &Path, key: &Key, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    ours(folder)?;
    let temporary = temporary(folder);
    let result = File::options().write(true).create_new(true).open(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        drop(file);
        fs::rename(&temporary, place(folder, key))
    });
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Reads a regular file of a sane size.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Asked before opening: to open a pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let file = File::open(path)?;
    let data = file.metadata()?;
    trusted(&data)?;
    if data.len() > LARGEST {
        return Err(io::Error::other("it is larger than any entry"));
    }
    let mut bytes = Vec::with_capacity(data.len() as usize);
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The notes alone, unverified.
fn read_notes(path: &Path) -> Result<String, String> {
    let told = |error: io::Error| error.to_string();
    if !fs::metadata(path).map_err(told)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut file = File::open(path).map_err(told)?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(entry::HEADER as u64).read_to_end(&mut bytes).map_err(told)?;
    let (_, [length, ..]) = entry::header(&bytes)?;
    let mut notes = Vec::new();
    file.take(length.min(1 << 20)).read_to_end(&mut notes).map_err(told)?;
    Ok(String::from_utf8_lossy(&notes).into_owned())
}

/// Marks a file as used now; in a cache that can't be written it stays as it is.
fn touch(path: &Path) {
    if let Ok(file) = File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

//! Compiled kernels on disk. A miss is always an answer: whatever is wrong with folder or entry, the caller compiles.
//!
//! An entry is one file, `<64 hexadecimal digits>.gkc`, named after its [`Key`]. It is written beside its place and renamed,
//! so that readers see all of it or nothing, and many processes may fill the cache at once. Inside: a magic word with the
//! format's number, the key, the form, lengths, the notes and the image, and a checksum over everything before it.
//! Reading touches the file's time, and writing drops the least recently used entries beyond the size bound.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::locate::set;
use crate::nvrtc::Form;

/// Format version: part of every key and every file.
const FORMAT: u32 = 1;
const MAGIC: [u8; 8] = *b"gpukc\x00k1";
const HEADER: usize = 8 + 32 + 4 + 4 + 8;
const CHECKSUM: usize = 32;
const EXTENSION: &str = "gkc";
const TEMPORARY: &str = ".gkc-tmp-";
/// An entry beyond this is not read: it is none of ours.
const LARGEST: u64 = 1 << 30;

/// A digest of all that a binary depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of the given parts, in order. Lengths are hashed too, so that no two lists of parts run into one another.
    pub fn of(parts: &[&[u8]]) -> Key {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&FORMAT.to_le_bytes());
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Key(*hasher.finalize().as_bytes())
    }
    fn file_name(&self) -> String {
        let mut name: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        name.push('.');
        name.push_str(EXTENSION);
        name
    }
}

/// What is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Machine code or PTX.
    pub form: Form,
    /// A line for people and the compiler's log: `kernel arch`, newline, log.
    pub notes: String,
    /// The code.
    pub image: Vec<u8>,
}

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
        if set("GPUKC_CACHE").is_some_and(|value| value == "off" || value == "0") {
            return Cache { folder: None, bound };
        }
        Cache { folder: Cache::folder_of_environment(), bound }
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
        let path = folder.join(key.file_name());
        match read(&path) {
            Ok(bytes) => match parse(&bytes, Some(key)) {
                Ok(entry) => {
                    touch(&path);
                    Lookup { entry: Some(entry), warning: None }
                }
                Err(why) => {
                    // Out of the way, so that the next one finds a good entry; if that fails too, the write will say so.
                    let _ = fs::remove_file(&path);
                    Lookup { entry: None, warning: Some(format!("the cache entry {} is damaged ({why})", path.display())) }
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Lookup::default(),
            Err(error) => Lookup { entry: None, warning: Some(format!("the cache can't be read: {}: {error}", path.display())) },
        }
    }

    /// Keeps an entry. If that fails, says why.
    pub fn put(&self, key: &Key, entry: &Entry) -> Option<String> {
        let folder = self.folder.as_ref()?;
        let warning = |error: io::Error| Some(format!("the cache can't be written: {}: {error}", folder.display()));
        if let Err(error) = self.write(folder, key, entry) {
            return warning(error);
        }
        self.evict(folder);
        None
    }

    fn write(&self, folder: &Path, key: &Key, entry: &Entry) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        // A name that no other thread or process uses; stale ones of killed processes are swept by `evict`.
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!("{TEMPORARY}{}-{number}-{nanos:x}", std::process::id()));
        let result = File::options().write(true).create_new(true).open(&temporary).and_then(|mut file| {
            file.write_all(&serialise(key, entry))?;
            drop(file);
            fs::rename(&temporary, folder.join(key.file_name()))
        });
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        result
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
            } else if is_temporary(&path) && used.elapsed().is_ok_and(|age| age > Duration::from_secs(3600)) {
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
            if fs::remove_file(&path).is_ok() {
                total -= bytes;
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
            let key_of_name = path.file_stem().and_then(OsStr::to_str).and_then(parse_key);
            let notes = match (read(&path), verify) {
                (Err(error), _) => Err(error.to_string()),
                (Ok(bytes), true) => parse(&bytes, key_of_name.as_ref()).map(|entry| entry.notes),
                (Ok(bytes), false) => notes_of(&bytes),
            };
            let notes = notes.map(|notes| notes.lines().next().unwrap_or("").to_owned());
            list.push(Listed { path, bytes: data.len(), used: data.modified().unwrap_or(SystemTime::UNIX_EPOCH), notes });
        }
        list.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
        Ok(list)
    }

    /// Removes all entries and temporary files, and nothing else. Gives how many entries there were.
    pub fn clear(&self) -> io::Result<usize> {
        let Some(folder) = &self.folder else { return Ok(0) };
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            other => other?,
        };
        let mut count = 0;
        for path in entries.flatten().map(|entry| entry.path()) {
            if is_entry(&path) || is_temporary(&path) {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => count += usize::from(is_entry(&path)),
                }
            }
        }
        Ok(count)
    }
}

fn is_entry(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(EXTENSION)) && path.file_stem().and_then(OsStr::to_str).and_then(parse_key).is_some()
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with(TEMPORARY))
}

fn parse_key(text: &str) -> Option<Key> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
        return None;
    }
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(Key(key))
}

/// Reads a regular file of a sane size.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Asked before opening: to open a pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length > LARGEST {
        return Err(io::Error::other("it is larger than any entry"));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Marks a file as used now; in a cache that can't be written it stays as it is.
fn touch(path: &Path) {
    if let Ok(file) = File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn serialise(key: &Key, entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + entry.notes.len() + entry.image.len() + CHECKSUM);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&key.0);
    bytes.extend_from_slice(&u32::from(entry.form == Form::Ptx).to_le_bytes());
    bytes.extend_from_slice(&(entry.notes.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(entry.image.len() as u64).to_le_bytes());
    bytes.extend_from_slice(entry.notes.as_bytes());
    bytes.extend_from_slice(&entry.image);
    let checksum = blake3::hash(&bytes);
    bytes.extend_from_slice(checksum.as_bytes());
    bytes
}

/// A file's header, notes and image.
type Parts<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// Splits a file into its parts by its lengths; the checksum comes after them.
fn split(bytes: &[u8]) -> Result<Parts<'_>, String> {
    let header = bytes.get(..HEADER).ok_or("too short")?;
    if header[..8] != MAGIC {
        return Err("another format".to_owned());
    }
    let notes = u64::from(u32::from_le_bytes(header[44..48].try_into().unwrap_or_default()));
    let image = u64::from_le_bytes(header[48..56].try_into().unwrap_or_default());
    let whole = (HEADER as u64 + CHECKSUM as u64).checked_add(notes).and_then(|sum| sum.checked_add(image));
    if whole != Some(bytes.len() as u64) {
        return Err("another length than it states".to_owned());
    }
    let (notes, rest) = bytes[HEADER..].split_at(notes as usize);
    Ok((header, notes, &rest[..image as usize]))
}

fn notes_of(bytes: &[u8]) -> Result<String, String> {
    let (_, notes, _) = split(bytes)?;
    Ok(String::from_utf8_lossy(notes).into_owned())
}

fn parse(bytes: &[u8], key: Option<&Key>) -> Result<Entry, String> {
    let (header, notes, image) = split(bytes)?;
    let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    if blake3::hash(body).as_bytes() != checksum {
        return Err("wrong checksum".to_owned());
    }
    if key.is_some_and(|key| header[8..40] != key.0) {
        return Err("another key".to_owned());
    }
    let form = match header[40..44] {
        [0, 0, 0, 0] => Form::Cubin,
        [1, 0, 0, 0] => Form::Ptx,
        _ => return Err("unknown form".to_owned()),
    };
    Ok(Entry { form, notes: String::from_utf8_lossy(notes).into_owned(), image: image.to_vec() })
}

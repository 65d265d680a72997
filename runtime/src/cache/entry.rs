//! An entry's file, byte by byte: magic word, lengths, form, notes, the whole key, the image, and a checksum over all before it.
//!
//! A file is untrusted until [`parse`] has accepted it, and of no use until its key is the one wanted.

use crate::nvrtc::Form;

/// Format version: part of every key and of the magic word.
const FORMAT: u32 = 2;
const MAGIC: [u8; 8] = *b"gpukc\x00k2";
/// The magic word, the form, and three lengths.
pub(super) const HEADER: usize = 8 + 8 + 8 + 8 + 8;
const CHECKSUM: usize = 32;

/// All that a binary depends on, whole and as a digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    parts: Vec<u8>,
    digest: [u8; 32],
}

impl Key {
    /// The key of the given parts, in order. Each stands after its length, so that no two lists of parts run into one another.
    pub fn of(parts: &[&[u8]]) -> Key {
        let mut whole = FORMAT.to_le_bytes().to_vec();
        for part in parts {
            whole.extend_from_slice(&(part.len() as u64).to_le_bytes());
            whole.extend_from_slice(part);
        }
        let digest = *blake3::hash(&whole).as_bytes();
        Key { parts: whole, digest }
    }

    /// The digest in 64 hexadecimal digits.
    pub(super) fn name(&self) -> String {
        blake3::Hash::from_bytes(self.digest).to_hex().to_string()
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

/// The entry's file.
pub fn serialise(key: &Key, entry: &Entry) -> Vec<u8> {
    let parts: [&[u8]; 3] = [entry.notes.as_bytes(), &key.parts, &entry.image];
    let mut bytes = Vec::with_capacity(HEADER + parts.iter().map(|part| part.len()).sum::<usize>() + CHECKSUM);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&u64::from(entry.form == Form::Ptx).to_le_bytes());
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    let checksum = blake3::hash(&bytes);
    bytes.extend_from_slice(checksum.as_bytes());
    bytes
}

/// What a sound file holds.
#[derive(Debug)]
pub struct Parsed<'a> {
    form: Form,
    notes: &'a [u8],
    key: &'a [u8],
    image: &'a [u8],
}

impl Parsed<'_> {
    /// The entry, if it is this key's.
    pub fn entry(&self, key: &Key) -> Result<Entry, String> {
        if self.key != key.parts {
            return Err("another key".to_owned());
        }
        Ok(Entry { form: self.form, notes: String::from_utf8_lossy(self.notes).into_owned(), image: self.image.to_vec() })
    }
    /// The notes, if the file bears the name of its key.
    pub(super) fn notes(&self, name: &str) -> Result<String, String> {
        if *blake3::hash(self.key).to_hex() != *name {
            return Err("another key".to_owned());
        }
        Ok(String::from_utf8_lossy(self.notes).into_owned())
    }
}

/// Reads a file. Errors say what is wrong with it in a few words.
pub fn parse(bytes: &[u8]) -> Result<Parsed<'_>, String> {
    let (form, lengths) = header(bytes)?;
    let whole = lengths.iter().try_fold((HEADER + CHECKSUM) as u64, |sum, &length| sum.checked_add(length));
    if whole != Some(bytes.len() as u64) {
        return Err("another length than it states".to_owned());
    }
    let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    if blake3::hash(body).as_bytes() != checksum {
        return Err("wrong checksum".to_owned());
    }
    // None of them is longer than the file.
    let (notes, rest) = body[HEADER..].split_at(lengths[0] as usize);
    let (key, image) = rest.split_at(lengths[1] as usize);
    Ok(Parsed { form, notes, key, image })
}

/// The form, and the lengths of notes, key and image.
pub(super) fn header(bytes: &[u8]) -> Result<(Form, [u64; 3]), String> {
    let header = bytes.get(..HEADER).ok_or("too short")?;
    if header[..8] != MAGIC {
        return Err("another format".to_owned());
    }
    let mut words = header[8..].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let mut word = || words.next().unwrap_or_default();
    let form = match word() {
        0 => Form::Cubin,
        1 => Form::Ptx,
        _ => return Err("unknown form".to_owned()),
    };
    Ok((form, [word(), word(), word()]))
}

//! `.npy` files and cache entries, changed byte by byte and field by field.

use gpukc_cpu::Tensor;
use gpukc_dsl::types::Type;
use gpukc_runtime::cache::{Entry, Key, serialise};
use gpukc_runtime::nvrtc::Form;

use crate::random::Random;

/// What stands in the headers of `.npy` files, and what might.
const HEADER_WORDS: &[&str] = &[
    "'descr'",
    "'fortran_order'",
    "'shape'",
    "\"shape\"",
    "True",
    "False",
    "'<f4'",
    "'>f8'",
    "'|b1'",
    "'<i8'",
    "'|V2'",
    "'<f2'",
    "'|O'",
    "'<U3'",
    "'>c16'",
    "[('a', '<f4')]",
    "(",
    ")",
    ",",
    ":",
    "{",
    "}",
    "()",
    "(3,)",
    "(0,)",
    "(3)",
    "(2, 2)",
    "(-1,)",
    "(1L,)",
    "(9223372036854775807,)",
    "(4294967296, 4294967296)",
    "(18446744073709551616,)",
    "1_000",
    "0x10",
    "1e3",
    " ",
    "\n",
    "\t",
    "\0",
    "\\",
    "'",
    "None",
    "(1, 1, 1, 1, 1, 1, 1, 1, 1)",
    "'extra': 1,",
];

/// The type that an input of the `.npy` target is read as, and the file.
pub fn npy_parts(data: &[u8]) -> (Type, &[u8]) {
    match data.split_first() {
        Some((first, file)) => (Type::ALL[usize::from(*first) % Type::ALL.len()], file),
        None => (Type::F32, data),
    }
}

/// A type's number and a `.npy` file, mostly of that type.
pub fn npy(random: &mut Random) -> Vec<u8> {
    let number = random.below(Type::ALL.len());
    let element = if random.one_in(8) { *random.pick(&Type::ALL) } else { Type::ALL[number] };
    let shape: Vec<i64> = (0..random.below(4)).map(|_| random.below(5) as i64).collect();
    let mut file = Vec::new();
    if let Some(mut tensor) = Tensor::zeros(element, &shape) {
        // Bytes of a `bool` are 0 or 1 wherever a tensor comes from.
        let most = if element == Type::Bool { 2 } else { 256 };
        tensor.bytes_mut().iter_mut().for_each(|byte| *byte = random.below(most) as u8);
        // Writing to memory does not fail.
        let _ = gpukc_cli::npy::write(&mut file, &tensor);
    }
    let end = (file.iter().position(|&byte| byte == b'\n').unwrap_or(0) + 1).min(file.len());
    let start = 10.min(end);
    let mut header = file[start..end].to_vec();
    let data = file[end..].to_vec();
    for _ in 0..random.below(4) {
        change_header(&mut header, random);
    }
    let mut file = b"\x93NUMPY".to_vec();
    let version = if random.one_in(20) { random.bits() as u8 } else { 1 + random.below(3) as u8 };
    file.extend([version, 0]);
    let length = if random.one_in(10) { random.bits() as usize >> random.below(64) } else { header.len() };
    match version {
        1 => file.extend((length as u16).to_le_bytes()),
        _ => file.extend((length as u32).to_le_bytes()),
    }
    file.extend(header);
    file.extend(data);
    for _ in 0..[0, 0, 0, 1, 4][random.below(5)] {
        change_bytes(&mut file, random);
    }
    file.insert(0, number as u8);
    file
}

fn change_header(header: &mut Vec<u8>, random: &mut Random) {
    let word = random.pick(HEADER_WORDS).as_bytes();
    // Mostly at the border of a word, where it can mean something.
    let borders: Vec<usize> = (0..header.len()).filter(|&at| b"'(),:{} ".contains(&header[at])).collect();
    let at = if borders.is_empty() || random.one_in(4) { random.below(header.len() + 1) } else { *random.pick(&borders) };
    let end = match random.below(3) {
        0 => at,
        1 => (at + random.below(12)).min(header.len()),
        _ => (at + 1..header.len()).find(|&end| b"'(),:{} ".contains(&header[end])).unwrap_or(header.len()),
    };
    let replacement = if random.one_in(4) { Vec::new() } else { word.to_vec() };
    header.splice(at..end, replacement);
}

fn change_bytes(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let range = random.range(bytes.len());
    match random.below(5) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, random.bits() as u8),
        2 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        3 => drop(bytes.drain(range)),
        _ => bytes.extend((0..random.below(40)).map(|_| random.bits() as u8).collect::<Vec<_>>()),
    }
}

/// The key whose entry the cache target asks for, and the entry.
pub fn cached() -> (Key, Entry) {
    let key = Key::of(&[b"source of a kernel", b"nvrtc 13.0", b"--fmad=false"]);
    (key, Entry { form: Form::Cubin, notes: "k sm_90a\nlog".to_owned(), image: (0..200).collect() })
}

/// A cache entry: that of [`cached`], or another, in one of many states.
pub fn cache(random: &mut Random) -> Vec<u8> {
    let (key, entry) = cached();
    let image: Vec<u8> = (0..random.below(300)).map(|_| random.bits() as u8).collect();
    let mut bytes = match random.below(3) {
        0 => serialise(&key, &entry),
        1 => serialise(&key, &Entry { form: Form::Ptx, notes: String::new(), image }),
        _ => serialise(&Key::of(&[&image]), &entry),
    };
    for _ in 0..random.below(4) {
        // The header: its words, or any byte.
        if random.one_in(2) {
            let field = 8 * random.below(5);
            let value = if random.one_in(2) { random.bits() >> random.below(64) } else { random.below(400) as u64 };
            bytes.iter_mut().skip(field).zip(value.to_le_bytes()).for_each(|(byte, new)| *byte = new);
        } else {
            change_bytes(&mut bytes, random);
        }
    }
    // A checksum that is right lets what lies behind it be read.
    if random.one_in(2) && bytes.len() >= 32 {
        let body = bytes.len() - 32;
        let checksum = blake3::hash(&bytes[..body]);
        bytes[body..].copy_from_slice(checksum.as_bytes());
    }
    bytes
}

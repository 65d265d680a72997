//! Reads and writes `.npy` files. Nothing a header says is believed before the file's own size confirms it.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use gpukc_cpu::Tensor;
use gpukc_dsl::types::Type;

/// A header is a line of text; one beyond this is hostile.
const LONGEST_HEADER: usize = 1 << 20;
const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// What a header says.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The element's type as NumPy spells it: byte order, kind, bytes.
    pub descr: String,
    /// Whether the first axis is the fastest.
    pub fortran_order: bool,
    /// The extents.
    pub shape: Vec<i64>,
}

/// Reads an array of `element`s, the type of the parameter `name`. Errors are one sentence.
pub fn read(path: &Path, element: Type, name: &str) -> Result<Tensor, String> {
    let fail = |error: io::Error| format!("{} can't be read: {error}", path.display());
    let data = std::fs::metadata(path).map_err(fail)?;
    if data.is_dir() {
        return Err(format!("{} is a folder", path.display()));
    }
    let file = File::open(path).map_err(fail)?;
    let size = data.is_file().then_some(data.len());
    read_from(BufReader::with_capacity(1 << 16, file), size, element, name).map_err(|why| format!("{}: {why}", path.display()))
}

/// Reads from a stream whose length is `size`, if that is known.
pub fn read_from(mut stream: impl Read, size: Option<u64>, element: Type, name: &str) -> Result<Tensor, String> {
    let (header, taken) = read_header(&mut stream)?;
    let swap = accept(&header.descr, element).ok_or_else(|| {
        let (descr, wanted) = (described(&header.descr), numpy_name(element));
        format!("it holds {descr}, and `{name}` is {element}, which is {wanted} in NumPy; there are no silent casts")
    })?;
    let count = header.shape.iter().try_fold(1u64, |count, &extent| count.checked_mul(extent.unsigned_abs()));
    let count = if header.shape.contains(&0) { Some(0) } else { count };
    let bytes = count.and_then(|count| count.checked_mul(element.size() as u64)).filter(|&bytes| bytes < 1 << 62);
    let bytes = bytes.ok_or_else(|| format!("its shape {:?} is larger than any memory", header.shape))?;
    if let Some(there) = size.map(|size| size.saturating_sub(taken))
        && there < bytes
    {
        return Err(format!("its shape {:?} needs {bytes} bytes of data, and there are {there}", header.shape));
    }
    let mut tensor = crate::tensor::room(element, &header.shape, name)?;
    let data = tensor.bytes_mut();
    stream.read_exact(data).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("its shape {:?} needs {bytes} bytes of data, and there are fewer", header.shape),
        _ => error.to_string(),
    })?;
    if swap != cfg!(target_endian = "big") && element.size() > 1 {
        data.chunks_exact_mut(element.size()).for_each(<[u8]>::reverse);
    }
    if element == Type::Bool {
        data.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
    if header.fortran_order && header.shape.iter().filter(|&&extent| extent > 1).count() > 1 {
        let mut turned = crate::tensor::room(element, &header.shape, name)?;
        turn(tensor.bytes(), turned.bytes_mut(), &header.shape, element.size());
        tensor = turned;
    }
    Ok(tensor)
}

/// Column-major to row-major.
fn turn(from: &[u8], to: &mut [u8], shape: &[i64], size: usize) {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1usize;
    for &extent in shape {
        strides.push(stride);
        stride *= extent as usize;
    }
    let mut index = vec![0i64; shape.len()];
    let mut at = 0usize;
    for place in to.chunks_exact_mut(size) {
        place.copy_from_slice(&from[at * size..][..size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis] as usize;
            index[axis] = 0;
        }
    }
}

/// Whether files of this type serve an element type; if so, whether the bytes are big-endian.
fn accept(descr: &str, element: Type) -> Option<bool> {
    let (order, kind) = descr.split_at_checked(1)?;
    let big = match order {
        "<" | "|" => false,
        ">" => true,
        "=" => cfg!(target_endian = "big"),
        _ => return None,
    };
    let fits = match element {
        Type::Bool => kind == "b1" || kind == "?",
        // Bit patterns; and what the `ml_dtypes` package writes.
        Type::Bf16 => kind == "u2" || kind == "V2",
        _ => kind == &npy_kind(element)[1..],
    };
    fits.then_some(big)
}

/// How NumPy spells the type in a header.
fn npy_kind(element: Type) -> &'static str {
    match element {
        Type::Bool => "|b1",
        Type::I8 => "|i1",
        Type::I16 => "<i2",
        Type::I32 => "<i4",
        Type::I64 => "<i8",
        Type::U8 => "|u1",
        Type::U16 | Type::Bf16 => "<u2",
        Type::U32 => "<u4",
        Type::U64 => "<u8",
        Type::F16 => "<f2",
        Type::F32 => "<f4",
        Type::F64 => "<f8",
    }
}

fn numpy_name(element: Type) -> &'static str {
    match element {
        Type::Bool => "bool",
        Type::I8 => "int8",
        Type::I16 => "int16",
        Type::I32 => "int32",
        Type::I64 => "int64",
        Type::U8 => "uint8",
        Type::U16 => "uint16",
        Type::Bf16 => "uint16 bit patterns",
        Type::U32 => "uint32",
        Type::U64 => "uint64",
        Type::F16 => "float16",
        Type::F32 => "float32",
        Type::F64 => "float64",
    }
}

/// `float64 (f64)`, or the header's spelling.
fn described(descr: &str) -> String {
    let found = Type::ALL.into_iter().find(|&ty| ty != Type::Bf16 && accept(descr, ty).is_some());
    match found {
        Some(ty) => format!("{} ({ty})", numpy_name(ty)),
        None => format!("elements of type `{}`", shown(descr)),
    }
}

/// The beginning of a header's text. What would move a terminal's cursor or worse does not come through.
fn shown(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Reads magic, version and header; gives it with the number of bytes taken.
fn read_header(stream: &mut impl Read) -> Result<(Header, u64), String> {
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends inside its header".to_owned(),
        _ => error.to_string(),
    };
    let mut start = [0u8; 8];
    if let Err(error) = stream.read_exact(&mut start) {
        return Err(if error.kind() == io::ErrorKind::UnexpectedEof { "it is no .npy file".to_owned() } else { error.to_string() });
    }
    if &start[..6] != MAGIC {
        return Err("it is no .npy file".to_owned());
    }
    let (length, taken) = match start[6] {
        1 => {
            let mut bytes = [0; 2];
            stream.read_exact(&mut bytes).map_err(cut)?;
            (u16::from_le_bytes(bytes) as usize, 10)
        }
        2 | 3 => {
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).map_err(cut)?;
            (u32::from_le_bytes(bytes) as usize, 12)
        }
        version => return Err(format!("it has version {version} of the format; versions 1 to 3 are known")),
    };
    if length > LONGEST_HEADER {
        return Err(format!("its header would have {length} bytes"));
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text).map_err(cut)?;
    // Versions 1 and 2 are Latin-1, which only matters for names of fields; those are refused anyway.
    let text = String::from_utf8_lossy(&text);
    let header = parse_header(&text).ok_or_else(|| "its header is damaged".to_owned())?;
    Ok((header, taken + length as u64))
}

/// A header is a Python dictionary of three literals, in any order and spacing.
fn parse_header(text: &str) -> Option<Header> {
    let mut parser = Literals { text: text.as_bytes(), at: 0 };
    parser.take(b'{')?;
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    while !parser.peek(b'}') {
        let key = parser.string()?;
        parser.take(b':')?;
        match key.as_str() {
            "descr" if descr.is_none() => descr = Some(parser.descr()?),
            "fortran_order" if fortran_order.is_none() => fortran_order = Some(parser.boolean()?),
            "shape" if shape.is_none() => shape = Some(parser.shape()?),
            _ => return None,
        }
        if !parser.peek(b'}') {
            parser.take(b',')?;
        }
    }
    parser.take(b'}')?;
    parser.blanks();
    // NumPy ends it with blanks and a newline; some writers pad with zeros.
    if parser.text[parser.at..].iter().any(|&byte| byte != 0) {
        return None;
    }
    Some(Header { descr: descr?, fortran_order: fortran_order?, shape: shape? })
}

struct Literals<'a> {
    text: &'a [u8],
    at: usize,
}

impl Literals<'_> {
    fn blanks(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
    fn peek(&mut self, byte: u8) -> bool {
        self.blanks();
        self.text.get(self.at) == Some(&byte)
    }
    fn take(&mut self, byte: u8) -> Option<()> {
        let there = self.peek(byte);
        self.at += usize::from(there);
        there.then_some(())
    }
    fn word(&mut self, word: &str) -> bool {
        self.blanks();
        let there = self.text[self.at..].starts_with(word.as_bytes());
        self.at += if there { word.len() } else { 0 };
        there
    }
    fn string(&mut self) -> Option<String> {
        self.blanks();
        // Python 2 wrote u'…' at times.
        if matches!(self.text.get(self.at), Some(b'u' | b'b')) {
            self.at += 1;
        }
        let quote = *self.text.get(self.at).filter(|&&byte| byte == b'\'' || byte == b'"')?;
        let start = self.at + 1;
        let length = self.text[start..].iter().position(|&byte| byte == quote)?;
        self.at = start + length + 1;
        let inside = &self.text[start..start + length];
        if inside.contains(&b'\\') {
            return None;
        }
        String::from_utf8(inside.to_vec()).ok()
    }
    /// A string; or the list of a structured type, as it stands, which no parameter accepts.
    fn descr(&mut self) -> Option<String> {
        if !self.peek(b'[') {
            return self.string();
        }
        let start = self.at;
        let mut depth = 0usize;
        for (at, byte) in self.text.iter().enumerate().skip(start) {
            match byte {
                b'[' | b'(' => depth += 1,
                b']' | b')' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                self.at = at + 1;
                return Some(String::from_utf8_lossy(&self.text[start..=at]).into_owned());
            }
        }
        None
    }
    fn boolean(&mut self) -> Option<bool> {
        if self.word("True") { Some(true) } else { self.word("False").then_some(false) }
    }
    fn integer(&mut self) -> Option<i64> {
        self.blanks();
        let length = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = std::str::from_utf8(&self.text[self.at..self.at + length]).ok()?;
        let value = digits.parse().ok()?;
        self.at += length;
        // Python 2's long integers.
        if self.text.get(self.at) == Some(&b'L') {
            self.at += 1;
        }
        Some(value)
    }
    fn shape(&mut self) -> Option<Vec<i64>> {
        self.take(b'(')?;
        let mut shape = Vec::new();
        while !self.peek(b')') {
            shape.push(self.integer()?);
            if shape.len() > 64 {
                return None;
            }
            if !self.peek(b')') {
                self.take(b',')?;
            } else if shape.len() == 1 {
                // `(3)` is a number in Python, not a shape.
                return None;
            }
        }
        self.take(b')')?;
        Some(shape)
    }
}

/// Writes an array, row-major, version 1.
pub fn write(stream: &mut dyn Write, tensor: &Tensor) -> io::Result<()> {
    let extents: String = tensor.shape().iter().map(|extent| format!("{extent}, ")).collect();
    let shape = if tensor.shape().len() == 1 { extents.trim_end() } else { extents.trim_end_matches(", ") };
    let kind = npy_kind(tensor.element());
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Data start at a multiple of 64.
    let padding = (64 - (10 + header.len() + 1) % 64) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    stream.write_all(MAGIC)?;
    stream.write_all(&[1, 0])?;
    stream.write_all(&(header.len() as u16).to_le_bytes())?;
    stream.write_all(header.as_bytes())?;
    if cfg!(target_endian = "big") && tensor.element().size() > 1 {
        let mut bytes = tensor.bytes().to_vec();
        bytes.chunks_exact_mut(tensor.element().size()).for_each(<[u8]>::reverse);
        return stream.write_all(&bytes);
    }
    stream.write_all(tensor.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((header.len() as u16).to_le_bytes()),
            _ => bytes.extend((header.len() as u32).to_le_bytes()),
        }
        bytes.extend(header.bytes());
        bytes.extend(data);
        bytes
    }
    fn get(bytes: &[u8], element: Type) -> Result<Tensor, String> {
        let known = read_from(bytes, Some(bytes.len() as u64), element, "x");
        let unknown = read_from(bytes, None, element, "x");
        assert_eq!(known.is_ok(), unknown.is_ok());
        known
    }
    fn floats(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }
    const PLAIN: &str = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }";

    #[test]
    fn versions_and_spellings() {
        let data = floats(&[0.0, 1.0, 2.0]);
        for version in [1, 2, 3] {
            assert_eq!(get(&file(version, PLAIN, &data), Type::F64).unwrap().values::<f64>(), [0.0, 1.0, 2.0]);
        }
        for header in [
            "{\"shape\":(3,),\"fortran_order\":False,\"descr\":\"<f8\"}",
            "{ 'fortran_order' : True ,'descr':'=f8', 'shape': ( 3 , ) }   \n",
            "{'descr': u'<f8', 'fortran_order': False, 'shape': (3L,), }\n",
        ] {
            assert_eq!(get(&file(1, header, &data), Type::F64).unwrap().shape(), [3], "{header}");
        }
        let mut long = data.clone();
        long.extend([1, 2, 3]);
        assert!(get(&file(1, PLAIN, &long), Type::F64).is_ok());
    }

    #[test]
    fn orders_and_types() {
        let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }";
        let data: Vec<u8> = [1i16, 4, 2, 5, 3, 6].iter().flat_map(|value| value.to_be_bytes()).collect();
        assert_eq!(get(&file(1, header, &data), Type::I16).unwrap().values::<i16>(), [1, 2, 3, 4, 5, 6]);
        let header = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 1, 2, 2), }";
        let data: Vec<u8> = (0..8i32).flat_map(i32::to_le_bytes).collect();
        assert_eq!(get(&file(1, header, &data), Type::I32).unwrap().values::<i32>(), [0, 4, 2, 6, 1, 5, 3, 7]);
        let header = "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }";
        assert_eq!(get(&file(1, header, &[0, 1, 255]), Type::Bool).unwrap().values::<u8>(), [0, 1, 1]);
        let header = "{'descr': '<u2', 'fortran_order': False, 'shape': (1,), }";
        assert_eq!(get(&file(1, header, &[0x80, 0x3f]), Type::Bf16).unwrap().values::<u16>(), [0x3f80]);
        assert!(get(&file(1, header, &[0x80, 0x3f]), Type::F16).unwrap_err().contains("uint16 (u16)"));
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (), }";
        assert_eq!(get(&file(1, header, &floats(&[5.0])), Type::F64).unwrap().shape(), [0i64; 0]);
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4), }";
        assert_eq!(get(&file(1, header, &[]), Type::F64).unwrap().shape(), [0, 4]);
        let error = get(&file(1, PLAIN, &floats(&[0.0; 3])), Type::F32).unwrap_err();
        assert!(error.contains("float64 (f64)") && error.contains("f32"), "{error}");
    }

    #[test]
    fn damage_is_an_error() {
        let data = floats(&[0.0, 1.0, 2.0]);
        let good = file(1, PLAIN, &data);
        for length in 0..good.len() {
            assert!(get(&good[..length], Type::F64).is_err(), "{length}");
        }
        for header in [
            "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
            "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3), }",
            "{'descr': '<f8', 'fortran_order': 0, 'shape': (3,), }",
            "{'descr': '<f8', 'shape': (3,), }",
            "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3,), }",
            "{'descr': '', 'fortran_order': False, 'shape': (3,), }",
            "{'descr': 'é8', 'fortran_order': False, 'shape': (3,), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), } x",
            "{",
            "",
        ] {
            assert!(get(&file(1, header, &data), Type::F64).is_err(), "{header}");
        }
        let mut bad = good.clone();
        bad[0] = 0x92;
        assert!(get(&bad, Type::F64).unwrap_err().contains("no .npy file"));
        let mut bad = good.clone();
        bad[8..10].copy_from_slice(&[255, 255]);
        assert!(get(&bad, Type::F64).is_err());
        assert!(get(&file(4, PLAIN, &data), Type::F64).unwrap_err().contains("version 4"));
        let mut huge = MAGIC.to_vec();
        huge.extend([2, 0, 255, 255, 255, 255]);
        assert!(get(&huge, Type::F64).is_err());
        assert!(get(b"", Type::F64).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        for shape in [&[][..], &[3], &[2, 3], &[0, 4], &[1, 1, 5]] {
            let mut tensor = Tensor::zeros(Type::F32, shape).unwrap();
            tensor.values_mut::<f32>().iter_mut().enumerate().for_each(|(at, value)| *value = at as f32);
            let mut bytes = Vec::new();
            write(&mut bytes, &tensor).unwrap();
            assert_eq!((bytes.len() - tensor.bytes().len()) % 64, 0);
            assert_eq!(get(&bytes, Type::F32).unwrap(), tensor);
        }
    }
}

//! CUDA's container for the code of several architectures. The driver loads it like machine code and picks what fits the device:
//! machine code of its architecture, else PTX of an older one.
//!
//! The toolkit's `fatbinary` writes such files and does not document them. What is written here is what it writes without
//! compression, found by looking:
//!
//! ```text
//! file   magic u32, version u16 = 1, length of this head u16 = 16, bytes that follow u64
//! entry  kind u16 (1 PTX, 2 machine code), version u16 = 0x101, length of the head u32, length of the code u64,
//!        0 u32, place of the options u32, minor u16, major u16, architecture u32, name 0 u64, flags u64, 0 u64, 0 u64;
//!        of PTX the options, which are none; then the code, PTX filled up with zeros to a multiple of 8
//! ```

use gpukc_codegen::target::Target;

use crate::nvrtc::Form;

const MAGIC: u32 = 0xba55_ed50;
const HEAD: u32 = 64;
const OPTIONS: u32 = 16;
/// For 64-bit programs and Linux, as the toolkit marks what it writes there.
const FLAGS: u64 = 0x11;
/// For one architecture only: `sm_90a`.
const SPECIFIC: u64 = 0x10_0000;

/// Code for an architecture.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Machine code or PTX.
    pub form: Form,
    /// What it is for.
    pub target: Target,
    /// The code.
    pub image: &'a [u8],
}

/// Whether an image is such a container: the driver takes it in the place of machine code.
pub fn is_container(image: &[u8]) -> bool {
    image.starts_with(&MAGIC.to_le_bytes())
}

/// The container of some entries.
pub fn pack(entries: &[Entry]) -> Vec<u8> {
    let body: Vec<u8> = entries.iter().flat_map(entry).collect();
    let mut all = Vec::with_capacity(body.len() + 16);
    all.extend(MAGIC.to_le_bytes());
    all.extend([1, 0, 16, 0]);
    all.extend((body.len() as u64).to_le_bytes());
    all.extend(body);
    all
}

fn entry(entry: &Entry) -> Vec<u8> {
    let Entry { form, target, image } = *entry;
    let (kind, head, options, (major, minor)) = match form {
        Form::Ptx => (1u16, HEAD + OPTIONS, HEAD, ptx_version(image)),
        // The version of the machine code's own format: 1, and what its identification says.
        Form::Cubin => (2, HEAD, 0, (1, image.get(8).copied().map_or(0, u16::from))),
    };
    let mut code = image.to_vec();
    if form == Form::Ptx {
        while code.last() == Some(&0) {
            code.pop();
        }
        code.push(0);
    }
    code.resize(code.len().next_multiple_of(8), 0);
    let mut all = Vec::with_capacity(head as usize + code.len());
    all.extend(kind.to_le_bytes());
    all.extend(0x101u16.to_le_bytes());
    all.extend(head.to_le_bytes());
    all.extend((code.len() as u64).to_le_bytes());
    all.extend(0u32.to_le_bytes());
    all.extend(options.to_le_bytes());
    all.extend(minor.to_le_bytes());
    all.extend(major.to_le_bytes());
    all.extend(target.capability.to_le_bytes());
    all.extend(0u64.to_le_bytes());
    all.extend((FLAGS | if target.specific { SPECIFIC } else { 0 }).to_le_bytes());
    all.extend([0; 16]);
    if form == Form::Ptx {
        // Where the options' text would be, and its length.
        all.extend((HEAD + 8).to_le_bytes());
        all.extend([0; 12]);
    }
    all.extend(code);
    all
}

/// `.version 9.0` of a PTX text.
fn ptx_version(image: &[u8]) -> (u16, u16) {
    let text = String::from_utf8_lossy(image);
    let line = text.lines().find_map(|line| line.trim().strip_prefix(".version"));
    let version = line.and_then(|version| version.trim().split_once('.'));
    version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?))).unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of a file that the toolkit's `fatbinary` 13.0 made of machine code and PTX of these lengths, code left out.
    #[test]
    fn as_the_toolkit_writes_it() {
        let elf: Vec<u8> = b"\x7fELF\x02\x01\x01\x41\x08".iter().copied().chain([7; 3967]).collect();
        let ptx = format!("//\n.version 9.0\n.target sm_80\n{:x<815}\n", "");
        let target = |capability, specific| Target { capability, specific };
        let packed = pack(&[
            Entry { form: Form::Cubin, target: target(90, true), image: &elf },
            Entry { form: Form::Ptx, target: target(80, false), image: ptx.as_bytes() },
        ]);
        let words = |from: usize, count: usize| -> Vec<u32> {
            packed[from..from + 4 * count].chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
        };
        assert!(is_container(&packed) && !is_container(&elf));
        assert_eq!(words(0, 4), [0xba55ed50, 0x100001, 64 + 3976 + 80 + 848, 0]);
        assert_eq!(words(16, 16), [0x1010002, 64, 3976, 0, 0, 0, 0x10008, 90, 0, 0, 0x100011, 0, 0, 0, 0, 0]);
        let second = 16 + 64 + 3976;
        assert_eq!(&packed[80..second], elf);
        let head = [0x1010001, 80, 848, 0, 0, 64, 0x90000, 80, 0, 0, 0x11, 0, 0, 0, 0, 0, 72, 0, 0, 0];
        assert_eq!(words(second, 20), head);
        assert!(packed[second + 80..].starts_with(ptx.as_bytes()) && packed.len() == second + 80 + 848);
    }
}

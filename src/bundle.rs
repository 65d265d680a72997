//! Binaries made ahead of time: what a build script writes, and what a program finds in itself.
//!
//! ```text
//! bundle = "gpukc bundle 1\n", count, entry*     entry = kernel text's hash (32 bytes), form, architecture, version, image
//! ```
//! Numbers are 64-bit little-endian; texts and images are preceded by their length.

use gpukc_codegen::target::Target;
use gpukc_runtime::compile::Binary;
use gpukc_runtime::nvrtc::Form;

const HEAD: &[u8] = b"gpukc bundle 1\n";

/// Binaries of the kernels of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bundle {
    pub(crate) entries: Vec<Entry>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The hash of the CUDA text.
    pub(crate) text: [u8; 32],
    pub(crate) form: Form,
    /// `sm_90a`, `compute_90`
    pub(crate) architecture: String,
    /// The version of NVRTC that made it.
    pub(crate) version: (u32, Option<u32>),
    pub(crate) image: Vec<u8>,
}

/// The hash that an entry is found by.
pub(crate) fn hash(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

impl Entry {
    fn target(&self) -> Option<Target> {
        Target::parse(&self.architecture.replacen("compute_", "sm_", 1))
    }

    /// How well it suits a device: the newest machine code first, then PTX; none if it does not run there.
    fn suits(&self, target: Target) -> Option<(bool, u32)> {
        let made = self.target()?;
        let same = made.capability == target.capability;
        let runs = match self.form {
            // Machine code runs on later devices of its generation; architecture-specific code on its own only.
            Form::Cubin => {
                same || (!made.specific && made.capability / 10 == target.capability / 10 && made.capability < target.capability)
            }
            Form::Ptx => same || (!made.specific && made.capability < target.capability),
        };
        runs.then_some((self.form == Form::Cubin, made.capability))
    }
}

impl Bundle {
    /// The architectures whose binaries run on a device, the best first.
    pub(crate) fn suiting(&self, target: Target) -> Vec<Target> {
        let suits = |entry: &Entry| Some((entry.suits(target)?, entry.target()?));
        let mut found: Vec<_> = self.entries.iter().filter_map(suits).collect();
        found.sort_by(|(one, _), (other, _)| other.cmp(one));
        let mut targets: Vec<Target> = found.into_iter().map(|(_, made)| made).collect();
        targets.dedup();
        targets
    }

    /// The binary of the CUDA text that was made for one of its architectures.
    pub(crate) fn find(&self, text: &str, made: Target) -> Option<Binary> {
        let text = hash(text);
        let mine = self.entries.iter().filter(|entry| entry.text == text && entry.target() == Some(made));
        let best = mine.max_by_key(|entry| entry.form == Form::Cubin)?;
        Some(Binary {
            form: best.form,
            architecture: best.architecture.clone(),
            image: best.image.clone(),
            nvrtc: best.version,
            log: String::new(),
            hit: true,
            time: std::time::Duration::ZERO,
            warning: None,
        })
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = HEAD.to_vec();
        let number = |out: &mut Vec<u8>, value: u64| out.extend(value.to_le_bytes());
        number(&mut out, self.entries.len() as u64);
        for entry in &self.entries {
            out.extend(entry.text);
            out.push(u8::from(entry.form == Form::Cubin));
            number(&mut out, entry.architecture.len() as u64);
            out.extend(entry.architecture.as_bytes());
            number(&mut out, u64::from(entry.version.0));
            number(&mut out, entry.version.1.map_or(u64::MAX, u64::from));
            number(&mut out, entry.image.len() as u64);
            out.extend(&entry.image);
        }
        out
    }

    /// Reads what [`Bundle::write`] wrote.
    pub(crate) fn read(bytes: &[u8]) -> Result<Bundle, String> {
        let mut rest = bytes.strip_prefix(HEAD).ok_or("binaries of another version of gpukc: build the program anew")?;
        Bundle::entries(&mut rest).ok_or_else(|| "binaries that are cut short: build the program anew".to_owned())
    }

    fn entries(rest: &mut &[u8]) -> Option<Bundle> {
        fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
            let (taken, after) = rest.split_at_checked(count)?;
            *rest = after;
            Some(taken)
        }
        let number = |rest: &mut &[u8]| Some(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?));
        let count = number(rest)?;
        let mut entries = Vec::new();
        for _ in 0..count {
            let text = take(rest, 32)?.try_into().ok()?;
            let form = if take(rest, 1)? == [1] { Form::Cubin } else { Form::Ptx };
            let length = usize::try_from(number(rest)?).ok()?;
            let architecture = String::from_utf8(take(rest, length)?.to_vec()).ok()?;
            let version = (u32::try_from(number(rest)?).ok()?, u32::try_from(number(rest)?).ok());
            let length = usize::try_from(number(rest)?).ok()?;
            entries.push(Entry { text, form, architecture, version, image: take(rest, length)?.to_vec() });
        }
        Some(Bundle { entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(architecture: &str, form: Form) -> Entry {
        let image = architecture.as_bytes().to_vec();
        Entry { text: hash("text"), form, architecture: architecture.into(), version: (13, Some(0)), image }
    }

    fn found(capability: u32, specific: bool) -> Option<String> {
        let entries = vec![
            entry("sm_80", Form::Cubin),
            entry("sm_86", Form::Cubin),
            entry("sm_90a", Form::Cubin),
            entry("compute_80", Form::Ptx),
        ];
        let bundle = Bundle::read(&Bundle { entries }.write()).unwrap();
        let made = bundle.suiting(Target { capability, specific });
        bundle.find("text", *made.first()?).map(|binary| binary.architecture)
    }

    #[test]
    fn the_best_binary_is_found() {
        assert_eq!(found(75, false), None);
        assert_eq!(found(80, false).as_deref(), Some("sm_80"));
        assert_eq!(found(87, false).as_deref(), Some("sm_86"));
        assert_eq!(found(90, true).as_deref(), Some("sm_90a"));
    }

    #[test]
    fn later_devices_get_ptx() {
        let entries = vec![entry("sm_90a", Form::Cubin), entry("compute_80", Form::Ptx)];
        let made = Bundle { entries: entries.clone() }.suiting(Target { capability: 120, specific: false });
        assert_eq!(made, [Target { capability: 80, specific: false }]);
        assert_eq!(Bundle { entries }.find("text", made[0]).unwrap().form, Form::Ptx);
    }

    #[test]
    fn all_that_run_on_a_device_are_told() {
        let entries = ["compute_75", "compute_75", "sm_80", "sm_86", "sm_90a"];
        let form = |name: &str| if name.starts_with("sm") { Form::Cubin } else { Form::Ptx };
        let bundle = Bundle { entries: entries.iter().map(|name| entry(name, form(name))).collect() };
        let made = bundle.suiting(Target { capability: 87, specific: false });
        assert_eq!(made.iter().map(|target| target.capability).collect::<Vec<_>>(), [86, 80, 75]);
    }

    #[test]
    fn other_texts_and_damaged_bundles_are_not() {
        let bundle = Bundle { entries: vec![entry("sm_80", Form::Cubin)] };
        assert!(bundle.find("another text", Target { capability: 80, specific: false }).is_none());
        let bytes = bundle.write();
        assert_eq!(Bundle::read(&bytes).unwrap(), bundle);
        for end in 0..bytes.len() {
            assert!(Bundle::read(&bytes[..end]).is_err(), "{end}");
        }
    }
}

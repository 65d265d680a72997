//! Binaries that a build script has made of a file's kernels, found by the file's text.

use std::path::PathBuf;

/// The bundle for this text, if the crate's build script has made one.
pub fn find(text: &str) -> Option<String> {
    let folder = PathBuf::from(std::env::var_os("OUT_DIR")?);
    // As `gpukc::build` names it.
    let path = folder.join(format!("{}.gpukc", blake3::hash(text.as_bytes()).to_hex()));
    path.is_file().then(|| path.to_str().map(str::to_owned)).flatten()
}

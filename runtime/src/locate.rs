//! Finds NVRTC without loading it, and tells its version from file names: a warm start must not pay for loading.
//!
//! Order: `$GPUKC_NVRTC` (a file or a folder; if set, nothing else is tried); `$CUDA_PATH`, `$CUDA_HOME`; the loader's path;
//! the wheels of the active Python; where `gpukc setup` puts it. Python is found by looking at files; only if that fails and
//! nothing else is found, it is asked.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Missing};

/// An NVRTC library on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The library.
    pub path: PathBuf,
    /// Its `libnvrtc-builtins` beside it, if there is one.
    pub builtins: Option<PathBuf>,
    /// Major and minor version, as far as the file names tell.
    pub version: (u32, Option<u32>),
    /// Its size in bytes.
    pub bytes: u64,
    /// The linker's mark of this very build, where it has one.
    pub build: Option<String>,
    /// Where it was found, for people.
    pub origin: String,
}

impl Located {
    /// What binaries depend on: version, size and build, not the place or the date of installation.
    pub fn identity(&self) -> String {
        let minor = self.version.1.map_or("?".to_owned(), |minor| minor.to_string());
        format!("nvrtc {}.{minor} {} {}", self.version.0, self.bytes, self.build.as_deref().unwrap_or("-"))
    }
}

/// Finds NVRTC.
pub fn locate() -> Result<Located, Error> {
    if let Some(setting) = set("GPUKC_NVRTC") {
        let setting = PathBuf::from(setting);
        let found = if setting.is_file() { describe(&setting, "$GPUKC_NVRTC") } else { in_tree(&setting, "$GPUKC_NVRTC") };
        return found.ok_or_else(|| Missing::NvrtcSetting(setting).into());
    }
    let mut searched = Vec::new();
    for variable in ["CUDA_PATH", "CUDA_HOME"] {
        if let Some(root) = set(variable) {
            if let Some(found) = in_tree(Path::new(&root), &format!("${variable}")) {
                return Ok(found);
            }
            searched.push(format!("${variable}"));
        }
    }
    searched.push("the loader's path".to_owned());
    if let Some(found) = loader_folders().iter().find_map(|folder| in_folder(folder, "the loader's path")) {
        return Ok(found);
    }
    searched.push("the active Python's packages".to_owned());
    let guess = python_folders();
    for folder in &guess.folders {
        if let Some(found) = in_packages(folder, "Python's packages") {
            return Ok(found);
        }
    }
    if let Some(data) = data_folder() {
        let folder = data.join("nvrtc");
        searched.push(folder.display().to_string());
        if let Some(found) = in_packages(&folder, "gpukc setup") {
            return Ok(found);
        }
    }
    // The last resort, since starting Python takes longer than all of the above.
    if !guess.certain {
        for folder in ask_python() {
            if let Some(found) = in_packages(&folder, "Python's packages") {
                return Ok(found);
            }
        }
    }
    Err(Missing::Nvrtc { searched }.into())
}

/// The user's data folder of gpukc, where `gpukc setup` puts NVRTC (in `nvrtc`).
pub fn data_folder() -> Option<PathBuf> {
    if let Some(folder) = set("XDG_DATA_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute()) {
        return Some(folder.join("gpukc"));
    }
    if cfg!(windows) {
        return set("LOCALAPPDATA").map(|folder| PathBuf::from(folder).join("gpukc"));
    }
    let home = PathBuf::from(set("HOME")?);
    let below = if cfg!(target_os = "macos") { "Library/Application Support/gpukc" } else { ".local/share/gpukc" };
    Some(home.join(below))
}

/// An environment variable that is set to something.
pub(crate) fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The version that a library's file name states: `libnvrtc.so.13`, `libnvrtc.so.12.4.127`, `nvrtc64_130_0.dll`. From 11.2 to 11.8 all
/// have one name.
fn version_of_name(name: &str) -> Option<(u32, Option<u32>)> {
    if ["libnvrtc.so.11.2", "nvrtc64_112_0.dll"].contains(&name) {
        return Some((11, None));
    }
    if let Some(rest) = name.strip_prefix("nvrtc64_").and_then(|rest| rest.strip_suffix("_0.dll")) {
        let number: u32 = rest.parse().ok()?;
        return Some((number / 10, (!number.is_multiple_of(10)).then_some(number % 10)));
    }
    let mut parts = name.strip_prefix("libnvrtc.so.")?.split('.').map(|part| part.parse::<u32>());
    let major = parts.next()?.ok()?;
    Some((major, parts.next().and_then(Result::ok)))
}

/// The version that the name of a builtins library states: `libnvrtc-builtins.so.13.0`.
fn version_of_builtins(name: &str) -> Option<(u32, u32)> {
    if let Some(rest) = name.strip_prefix("nvrtc-builtins64_").and_then(|rest| rest.strip_suffix(".dll")) {
        let number: u32 = rest.parse().ok()?;
        return Some((number / 10, number % 10));
    }
    let mut parts = name.strip_prefix("libnvrtc-builtins.so.")?.split('.').map(|part| part.parse::<u32>().ok());
    Some((parts.next()??, parts.next()??))
}

fn describe(path: &Path, origin: &str) -> Option<Located> {
    let bytes = fs::metadata(path).ok().filter(|data| data.is_file())?.len();
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let named = |path: &Path| path.file_name().and_then(|name| name.to_str()).and_then(version_of_name);
    let version = named(&real).filter(|version| version.1.is_some()).or_else(|| named(path)).or_else(|| named(&real));
    let mut builtins: Vec<((u32, u32), PathBuf)> = fs::read_dir(path.parent()?)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((version_of_builtins(entry.file_name().to_str()?)?, entry.path())))
        .filter(|(found, _)| version.is_none_or(|(major, minor)| found.0 == major && minor.is_none_or(|minor| found.1 == minor)))
        .collect();
    builtins.sort();
    let builtins = builtins.pop();
    let version = match (version, &builtins) {
        (Some((major, minor)), found) => (major, minor.or(found.as_ref().map(|(version, _)| version.1))),
        (None, Some((found, _))) => (found.0, Some(found.1)),
        (None, None) => (0, None),
    };
    let builtins = builtins.map(|(_, path)| path);
    Some(Located { path: path.to_owned(), builtins, version, bytes, build: build_of(path), origin: origin.to_owned() })
}

/// The build id of an ELF file: a note of 20 bytes near its start.
fn build_of(path: &Path) -> Option<String> {
    const NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let mut start = Vec::new();
    fs::File::open(path).ok()?.take(4096).read_to_end(&mut start).ok()?;
    let at = start.windows(NOTE.len()).position(|window| window == NOTE)? + NOTE.len();
    Some(start.get(at..at + 20)?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The newest NVRTC in a folder.
fn in_folder(folder: &Path, origin: &str) -> Option<Located> {
    let mut found: Vec<((u32, Option<u32>), PathBuf)> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter_map(|entry| Some((version_of_name(entry.file_name().to_str()?)?, entry.path())))
        .collect();
    found.sort();
    found.into_iter().rev().find_map(|(_, path)| describe(&path, origin))
}

/// In a folder, a toolkit, or a folder of Python packages.
fn in_tree(root: &Path, origin: &str) -> Option<Located> {
    let direct = [root.to_owned(), root.join("lib64"), root.join("lib"), root.join("bin")];
    let found = direct.iter().find_map(|folder| in_folder(folder, origin)).or_else(|| in_packages(root, origin));
    found.or_else(|| {
        let targets = fs::read_dir(root.join("targets")).ok()?;
        targets.flatten().find_map(|target| in_folder(&target.path().join("lib"), origin))
    })
}

/// In a folder of Python packages: the newest wheel.
fn in_packages(packages: &Path, origin: &str) -> Option<Located> {
    let nvidia = packages.join("nvidia");
    let mut toolkits: Vec<PathBuf> = fs::read_dir(&nvidia)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("cu")))
        .filter(|path| !path.ends_with("cuda_nvrtc"))
        .collect();
    toolkits.sort();
    let mut folders: Vec<PathBuf> = toolkits.into_iter().rev().collect();
    folders.push(nvidia.join("cuda_nvrtc"));
    folders.iter().find_map(|folder| in_folder(&folder.join("lib"), origin).or_else(|| in_folder(&folder.join("bin"), origin)))
}

/// Folders in which the loader looks.
fn loader_folders() -> Vec<PathBuf> {
    let variable = if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" };
    let mut folders: Vec<PathBuf> =
        set(variable).map(|value| env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()).unwrap_or_default();
    if cfg!(target_os = "linux") {
        // The loader's own cache: names and paths as strings ended by zero.
        if let Ok(cache) = fs::read("/etc/ld.so.cache") {
            for path in cache.split(|&byte| byte == 0).filter(|text| text.starts_with(b"/")) {
                let Ok(path) = std::str::from_utf8(path).map(Path::new) else { continue };
                if path.file_name().and_then(|name| name.to_str()).and_then(version_of_name).is_some() {
                    folders.extend(path.parent().map(Path::to_owned));
                }
            }
        }
        folders.push("/usr/local/cuda/lib64".into());
    }
    folders
}

/// Where Python packages may lie, and whether that is surely where the active Python looks.
struct Guess {
    folders: Vec<PathBuf>,
    certain: bool,
}

fn python_folders() -> Guess {
    let mut folders = Vec::new();
    if let Some(environment) = set("VIRTUAL_ENV").or_else(|| set("CONDA_PREFIX")) {
        folders.extend(packages_below(Path::new(&environment)));
    }
    let mut certain = !folders.is_empty();
    let executable = set("PATH").and_then(|path| {
        let names: &[&str] = if cfg!(windows) { &["python.exe"] } else { &["python3", "python"] };
        env::split_paths(&path).find_map(|folder| names.iter().map(|name| folder.join(name)).find(|file| file.is_file()))
    });
    if let Some(executable) = executable {
        let prefix = if executable.parent().is_some_and(|folder| folder.ends_with("shims")) {
            pyenv_prefix(&executable)
        } else if executable.ancestors().nth(2).is_some_and(|root| root.join("pyvenv.cfg").is_file()) {
            executable.ancestors().nth(2).map(Path::to_owned)
        } else {
            fs::canonicalize(&executable).ok().and_then(|real| real.ancestors().nth(2).map(Path::to_owned))
        };
        if let Some(prefix) = prefix {
            let found = packages_below(&prefix);
            certain |= !found.is_empty() && !prefix.starts_with("/usr");
            folders.extend(found);
        }
    }
    if let Some(home) = set("HOME") {
        folders.extend(packages_below(&Path::new(&home).join(".local")));
    }
    Guess { folders, certain }
}

/// The version that pyenv's shims stand for.
fn pyenv_prefix(shim: &Path) -> Option<PathBuf> {
    let root = set("PYENV_ROOT").map(PathBuf::from).or_else(|| shim.ancestors().nth(2).map(Path::to_owned))?;
    let first_line = |text: String| text.split([':', '\n']).next().map(|name| name.trim().to_owned());
    let local = || {
        let here = env::current_dir().ok()?;
        here.ancestors().find_map(|folder| fs::read_to_string(folder.join(".python-version")).ok())
    };
    let version = set("PYENV_VERSION").and_then(|version| version.into_string().ok()).or_else(local);
    let version = version.or_else(|| fs::read_to_string(root.join("version")).ok()).and_then(first_line)?;
    let prefix = root.join("versions").join(version);
    prefix.is_dir().then_some(prefix)
}

/// `lib/python3.N/site-packages` and the like below an installation, the newest Python first.
fn packages_below(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for library in ["lib", "lib64", "local/lib"] {
        for entry in fs::read_dir(prefix.join(library)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(version) = name.to_str().and_then(|name| name.strip_prefix("python3")) else { continue };
            let minor: u32 = version.trim_start_matches('.').parse().unwrap_or(0);
            for packages in ["site-packages", "dist-packages"] {
                let folder = entry.path().join(packages);
                if folder.is_dir() {
                    found.push((minor, folder));
                }
            }
        }
    }
    let windows = prefix.join("Lib").join("site-packages");
    if cfg!(windows) && windows.is_dir() {
        found.push((0, windows));
    }
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, folder)| folder).collect()
}

fn ask_python() -> Vec<PathBuf> {
    let program = "import sys, site; print('\\n'.join(p for p in sys.path + [site.getusersitepackages()] if p.endswith('-packages')))";
    let output = Command::new(if cfg!(windows) { "python" } else { "python3" })
        .args(["-c", program])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = output.ok().filter(|output| output.status.success()).and_then(|output| String::from_utf8(output.stdout).ok());
    text.unwrap_or_default().lines().map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_versions() {
        assert_eq!(version_of_name("libnvrtc.so.13"), Some((13, None)));
        assert_eq!(version_of_name("libnvrtc.so.12.4.127"), Some((12, Some(4))));
        assert_eq!(["libnvrtc.so.11.2", "nvrtc64_112_0.dll"].map(version_of_name), [Some((11, None)); 2]);
        assert_eq!(version_of_name("libnvrtc.so.11.8.89"), Some((11, Some(8))));
        assert_eq!(version_of_name("libnvrtc.alt.so.13"), None);
        assert_eq!(version_of_name("libnvrtc-builtins.so.13.0"), None);
        assert_eq!(version_of_builtins("libnvrtc-builtins.so.13.0"), Some((13, 0)));
        assert_eq!(version_of_builtins("libnvrtc-builtins.so.12.4.127"), Some((12, 4)));
        assert_eq!(version_of_builtins("libnvrtc-builtins.alt.so.13.0"), None);
    }

    #[test]
    fn versions_of_one_name_are_told_by_what_lies_beside() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libnvrtc.so.11.2", "libnvrtc-builtins.so.11.8"] {
            fs::write(folder.path().join(name), b"1").unwrap();
        }
        let found = in_folder(folder.path(), "here").unwrap();
        assert_eq!((found.version, found.builtins.is_some()), ((11, Some(8)), true));
    }

    #[test]
    fn builds_of_one_size_differ() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libnvrtc.so.13");
        let identity = |mark: u8| {
            let mut bytes = b"\x7fELF.....\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0".to_vec();
            bytes.extend([mark; 30]);
            fs::write(&path, bytes).unwrap();
            describe(&path, "here").unwrap().identity()
        };
        assert_eq!(identity(0xab), format!("nvrtc 13.? 55 {}", "ab".repeat(20)));
        assert_ne!(identity(0xab), identity(0xac));
    }

    #[test]
    fn a_wheel_and_a_toolkit_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join("nvidia/cu13/lib");
        fs::create_dir_all(&wheel).unwrap();
        fs::write(wheel.join("libnvrtc.so.13"), b"12345").unwrap();
        fs::write(wheel.join("libnvrtc-builtins.so.13.1"), b"").unwrap();
        let found = in_packages(folder.path(), "here").unwrap();
        assert_eq!(found.identity(), "nvrtc 13.1 5 -");
        assert_eq!(found.builtins, Some(wheel.join("libnvrtc-builtins.so.13.1")));
        let toolkit = folder.path().join("cuda/targets/x86_64-linux/lib");
        fs::create_dir_all(&toolkit).unwrap();
        fs::write(toolkit.join("libnvrtc.so.12.4.127"), b"1").unwrap();
        let found = in_tree(&folder.path().join("cuda"), "here").unwrap();
        assert_eq!(found.version, (12, Some(4)));
        assert_eq!(found.builtins, None);
    }
}

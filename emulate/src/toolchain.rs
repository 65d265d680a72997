//! The C++ compiler and the runner as processes, and the folder that keeps what was compiled.
//!
//! Texts are compiled several at a time to shared objects; `KEY.at` says in which object the text of that hash is, and where.
//! Everything is written under another name and then renamed, so that processes may share the folder.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Mode;
use crate::error::Error;

const HEADER: &str = include_str!("shim/cuda_on_cpu.h");
const FIBERS: &str = include_str!("shim/fibers.h");
const RUNNER: &str = include_str!("shim/runner.cpp");

/// Texts of one shared object: the more, the less the compiler starts; the fewer, the less is compiled anew after a change.
const GROUP: usize = 6;

/// How the runner's jobs end, besides 0: see `runner.cpp`.
const CONTRACT: i32 = 68;
const OUT_OF_TIME: i32 = -14;

/// Where a text was compiled to.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// The shared object.
    pub library: PathBuf,
    /// Which of its texts.
    pub index: usize,
}

/// A text: its hash, itself, its entries.
type Part<'a> = (&'a str, &'a str, &'a [&'a str]);

/// A compiler, its options, and what it has built.
#[derive(Debug)]
pub struct Toolchain {
    compiler: String,
    mode: Mode,
    /// Options for texts.
    options: Vec<String>,
    /// What a text's hash begins with: everything else that a build depends on.
    salt: String,
    folder: PathBuf,
    runner: PathBuf,
    /// How many processes may run at a time.
    pub threads: usize,
}

fn tool(what: &str, path: &Path, error: io::Error) -> Error {
    Error::Tool(format!("{what} {}: {error}", path.display()))
}

/// A name that no other thread or process uses.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn key(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(32).collect()
}

impl Toolchain {
    /// Finds the compiler and builds the runner, unless it is there.
    pub fn new(folder: PathBuf, mode: Mode) -> Result<Toolchain, Error> {
        let (compiler, version) = compiler()?;
        let watched = match mode {
            Mode::Address => {
                "-O1 -fsanitize=address,alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero,float-cast-overflow \
                 -fno-sanitize-recover=all -fsanitize-sections=cuda_shared_*"
            }
            // Compiling takes the most time.
            Mode::Thread => "-Og -fsanitize=thread --param tsan-distinguish-volatile=1",
            Mode::Plain => "-Og",
        };
        // Texts say themselves where a product and a sum are one operation.
        let always = "-std=c++17 -g1 -w -fPIC -shared -fvisibility=hidden -Wl,-Bsymbolic -ffp-contract=off -fno-strict-aliasing";
        let mut options: Vec<String> = always.split(' ').chain(watched.split_whitespace()).map(str::to_owned).collect();
        // Registers that are read before they are written hold something conspicuous.
        let pattern = "-ftrivial-auto-var-init=pattern";
        if run(Command::new(&compiler).args([pattern, "-fsyntax-only", "-x", "c++", "/dev/null"]))?.status.success() {
            options.push(pattern.into());
        }
        // Otherwise fma is a function of the C library.
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("fma") {
            options.push("-mfma".into());
        }
        let salt = key(&[&version, &options.join(" "), HEADER, FIBERS, RUNNER]);
        let folder = folder.join(&salt);
        fs::create_dir_all(&folder).map_err(|error| tool("can't make", &folder, error))?;
        let folder = folder.canonicalize().map_err(|error| tool("can't find", &folder, error))?;
        let toolchain = Toolchain { compiler, mode, options, salt, runner: folder.join("runner"), folder, threads: 1 };
        toolchain.write("cuda_on_cpu.h", HEADER)?;
        toolchain.write("fibers.h", FIBERS)?;
        toolchain.write("runner.cpp", RUNNER)?;
        toolchain.build_runner()?;
        Ok(toolchain)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let (path, temporary) = (self.folder.join(name), self.folder.join(unique()));
        if path.exists() {
            return Ok(());
        }
        fs::write(&temporary, text).map_err(|error| tool("can't write", &temporary, error))?;
        fs::rename(&temporary, &path).map_err(|error| tool("can't write", &path, error))
    }

    /// The runner itself is not watched, but linked with what watches the texts.
    fn build_runner(&self) -> Result<(), Error> {
        if self.runner.exists() {
            return Ok(());
        }
        let (define, link) = match self.mode {
            Mode::Address => ("-DMODE_ADDRESS", "-fsanitize=address,undefined"),
            Mode::Thread => ("-DMODE_THREAD", "-fsanitize=thread"),
            Mode::Plain => ("-DMODE_PLAIN", "-rdynamic"),
        };
        let name = unique();
        let (object, program) = (self.folder.join(format!("{name}.o")), self.folder.join(&name));
        let mut compile = Command::new(&self.compiler);
        compile.args(["-std=c++17", "-O2", "-fPIE", define, "-c"]).arg(self.folder.join("runner.cpp")).arg("-o").arg(&object);
        succeed(run(&mut compile)?)?;
        let mut linked = Command::new(&self.compiler);
        linked.args([link, "-rdynamic"]).arg(&object).arg("-o").arg(&program).arg("-ldl");
        succeed(run(&mut linked)?)?;
        let _ = fs::remove_file(&object);
        fs::rename(&program, &self.runner).map_err(|error| tool("can't write", &self.runner, error))
    }

    /// Compiles texts, each of which has some entries, unless they are there.
    pub fn build(&self, texts: &[&str], entries: &[Vec<&str>]) -> Vec<Result<Built, Error>> {
        let keys: Vec<String> =
            texts.iter().zip(entries).map(|(text, entries)| key(&[&self.salt, text, &entries.join(" ")])).collect();
        let mut built: BTreeMap<&str, Result<Built, Error>> = BTreeMap::new();
        let mut missing = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            if built.contains_key(key.as_str()) || missing.iter().any(|&earlier: &usize| keys[earlier] == *key) {
                continue;
            }
            match self.find(key) {
                Some(found) => drop(built.insert(key, Ok(found))),
                None => missing.push(place),
            }
        }
        let groups: Vec<Vec<Part>> = missing
            .chunks(GROUP)
            .map(|group| group.iter().map(|&place| (keys[place].as_str(), texts[place], entries[place].as_slice())).collect())
            .collect();
        built.extend(spread(self.threads, &groups, |group| self.compile_group(group)).into_iter().flatten());
        let lost = || Err(Error::Tool("a text was not compiled".into()));
        keys.iter().map(|key| built.get(key.as_str()).cloned().unwrap_or_else(lost)).collect()
    }

    /// Compiles some texts to one shared object; if that fails, each to one of its own, to see which of them it is.
    fn compile_group<'a>(&self, parts: &[Part<'a>]) -> Vec<(&'a str, Result<Built, Error>)> {
        match self.compile(parts) {
            Err(Error::Build(_)) if parts.len() > 1 => {
                let alone = |part: &Part<'a>| (part.0, self.compile(&[*part]).map(|library| Built { library, index: 0 }));
                parts.iter().map(alone).collect()
            }
            library => {
                let at = |(index, part): (usize, &Part<'a>)| (part.0, library.clone().map(|library| Built { library, index }));
                parts.iter().enumerate().map(at).collect()
            }
        }
    }

    fn find(&self, key: &str) -> Option<Built> {
        let place = fs::read_to_string(self.folder.join(format!("{key}.at"))).ok()?;
        let (library, index) = place.split_once(' ')?;
        let library = self.folder.join(library);
        library.exists().then_some(Built { library, index: index.parse().ok()? })
    }

    /// Compiles some texts to one shared object.
    fn compile(&self, parts: &[Part]) -> Result<PathBuf, Error> {
        let keys: Vec<&str> = parts.iter().map(|part| part.0).collect();
        let name = format!("{}.so", key(&keys));
        for (key, text, _) in parts {
            self.write(&format!("{key}.cu"), text)?;
        }
        let temporary = unique();
        let (source, library) = (self.folder.join(format!("{temporary}.cpp")), self.folder.join(format!("{temporary}.so")));
        fs::write(&source, frame(parts)).map_err(|error| tool("can't write", &source, error))?;
        let mut compile = Command::new(&self.compiler);
        compile.args(&self.options).arg(&source).arg("-o").arg(&library).current_dir(&self.folder);
        succeed(run(&mut compile)?)?;
        let _ = fs::remove_file(&source);
        let path = self.folder.join(&name);
        fs::rename(&library, &path).map_err(|error| tool("can't write", &path, error))?;
        for (index, key) in keys.into_iter().enumerate() {
            self.write(&format!("{key}.at"), &format!("{name} {index}"))?;
        }
        Ok(path)
    }

    /// Runs jobs; gives the bytes of each one's output buffers.
    pub fn execute(&self, jobs: &[Vec<u8>], seconds: u32) -> Result<Vec<Result<Vec<u8>, Error>>, Error> {
        let some: Vec<&[Vec<u8>]> = jobs.chunks(jobs.len().div_ceil(self.threads.max(1)).max(1)).collect();
        let ended: Result<Vec<_>, Error> = spread(self.threads, &some, |jobs| self.execute_some(jobs, seconds)).into_iter().collect();
        Ok(ended?.into_iter().flatten().collect())
    }

    fn execute_some(&self, jobs: &[Vec<u8>], seconds: u32) -> Result<Vec<Result<Vec<u8>, Error>>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let folder = Folder(self.folder.join(unique()));
        fs::create_dir(&folder.0).map_err(|error| tool("can't make", &folder.0, error))?;
        let mut bytes = (jobs.len() as u64).to_ne_bytes().to_vec();
        for job in jobs {
            bytes.extend((job.len() as u64).to_ne_bytes());
            bytes.extend(job);
        }
        let (input, output) = (folder.0.join("jobs"), folder.0.join("results"));
        fs::write(&input, bytes).map_err(|error| tool("can't write", &input, error))?;
        let mut runner = Command::new(&self.runner);
        runner.arg(&input).arg(&output).arg(seconds.to_string());
        runner.env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0:exitcode=66:allocator_may_return_null=1");
        runner.env("UBSAN_OPTIONS", "exitcode=66").env("TSAN_OPTIONS", "halt_on_error=1:exitcode=66:report_bugs=1");
        let ran = run(&mut runner)?;
        if !ran.status.success() {
            return Err(Error::Tool(format!("the runner failed: {}", excerpt(&String::from_utf8_lossy(&ran.stderr)))));
        }
        let statuses = fs::read_to_string(&output).map_err(|error| tool("can't read", &output, error))?;
        let mut ended = Vec::new();
        for (number, status) in statuses.lines().enumerate() {
            let own = folder.0.join(format!("results.{number}"));
            let said =
                || excerpt(&String::from_utf8_lossy(&fs::read(own.with_extension(format!("{number}.err"))).unwrap_or_default()));
            ended.push(match status.parse() {
                Ok(0) => fs::read(&own).map_err(|error| tool("can't read", &own, error)),
                Ok(OUT_OF_TIME) => Err(Error::Slow),
                Ok(CONTRACT) => Err(Error::Contract(said())),
                Ok(signal @ ..0) => Err(Error::Fault(format!("signal {}: {}", -signal, said()))),
                _ => Err(Error::Fault(said())),
            });
            let _ = fs::remove_file(&own);
        }
        Ok(ended)
    }
}

impl Toolchain {
    /// Removes what was compiled, except the runner.
    pub fn forget(&self) {
        let compiled = |path: &PathBuf| path.extension().is_some_and(|kind| ["cu", "so", "at"].iter().any(|of| kind == *of));
        let all = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        all.filter(compiled).for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Does several things on some threads; gives what becomes of each, in order.
fn spread<T: Sync, R: Send>(threads: usize, things: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(at) else { return done };
            done.push((at, act(thing)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads.min(things.len())).map(|_| scope.spawn(some)).collect();
        let own = some();
        // A panic of one is a panic of all.
        let others = workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        own.into_iter().chain(others).collect::<Vec<_>>()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// A folder for the time being.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The C++ file around texts: each in a namespace, its entries by names of their own, listed for the runner.
fn frame(parts: &[Part]) -> String {
    let mut out = String::from("#include \"cuda_on_cpu.h\"\n");
    let mut list = String::new();
    for (index, (key, _, entries)) in parts.iter().enumerate() {
        let renamed = |entry: &str| format!("cuda_on_cpu_{index}_{entry}");
        let _ = write!(out, "\n#undef CUDA_ON_CPU_SHARED\n#define CUDA_ON_CPU_SHARED \"cuda_shared_{index}\"\n");
        for entry in *entries {
            let _ = writeln!(out, "#define {entry} {}", renamed(entry));
        }
        let _ = writeln!(out, "namespace text_{index} {{\n#include \"{key}.cu\"\n}}");
        for entry in *entries {
            let _ = writeln!(out, "#undef {entry}");
        }
        for end in ["start", "stop"] {
            let _ = writeln!(out, "extern \"C\" char __{end}_cuda_shared_{index}[] __attribute__((weak, visibility(\"hidden\")));");
        }
        for entry in *entries {
            let name = format!("text_{index}::{}", renamed(entry));
            let _ = writeln!(
                list,
                "    {{\"{index}:{entry}\", (void (*)()){name}, cuda_on_cpu::Entry<decltype({name})>::call, \
                 cuda_on_cpu::Entry<decltype({name})>::sizes, __start_cuda_shared_{index}, __stop_cuda_shared_{index}}},",
            );
        }
    }
    out + "\nextern \"C\" __attribute__((visibility(\"default\"))) const cuda_on_cpu::Listed cuda_on_cpu_entries[] = {\n"
        + &list
        + "    {}\n};\n"
}

/// The compiler that `CXX` names, else the first of the usual ones that starts; and its version.
fn compiler() -> Result<(String, String), Error> {
    let named = std::env::var("CXX").ok().filter(|name| !name.trim().is_empty());
    let names = named.map_or_else(|| ["g++", "c++", "clang++"].map(str::to_owned).to_vec(), |name| vec![name]);
    for name in &names {
        match run(Command::new(name).arg("--version")) {
            Ok(output) if output.status.success() => return Ok((name.clone(), String::from_utf8_lossy(&output.stdout).into_owned())),
            _ => {}
        }
    }
    Err(Error::Tool(format!("there is no C++ compiler: {}", names.join(", "))))
}

fn run(command: &mut Command) -> Result<Output, Error> {
    // Messages are quoted in reports: not in the user's language.
    command.env("LC_ALL", "C").output().map_err(|error| tool("can't run", Path::new(command.get_program()), error))
}

fn succeed(output: Output) -> Result<(), Error> {
    if output.status.success() { Ok(()) } else { Err(Error::Build(excerpt(&String::from_utf8_lossy(&output.stderr)))) }
}

/// The first lines, which say what it is about.
fn excerpt(said: &str) -> String {
    let telling =
        |line: &&str| !line.trim().is_empty() && !["=====", "  0x", "=>0x", "Shadow"].iter().any(|with| line.starts_with(with));
    let lines: Vec<&str> = said.lines().filter(telling).take(24).collect();
    lines.join("\n")
}

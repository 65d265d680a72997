//! `gpukc compile`: kernels to CUDA text, PTX or machine code, for one or several architectures.

use std::cell::RefCell;
use std::path::Path;

use gpukc_codegen::facts::Facts as Known;
use gpukc_codegen::kernel::Kernel as Cuda;
use gpukc_codegen::target::Target;
use gpukc_dsl::program::in_place::refusal;
use gpukc_dsl::program::{ArrayId, Kernel, Parameter};
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Binary, Compiler, Wanted};
use gpukc_runtime::device::Facts;
use gpukc_runtime::fatbin::{self, Entry};
use gpukc_runtime::nvrtc::Form;

use crate::args::{Compile, Emit, Format, Stage};
use crate::failure::Failure;
use crate::files::{self, Files};
use crate::load::{self, Loaded};
use crate::progress::Progress;
use crate::{facts, output, pipeline, project, report};

/// A file to write, by its name below the folder.
struct Product {
    name: String,
    bytes: Vec<u8>,
    text: bool,
}

/// What all products are made of.
struct Job<'a> {
    loaded: &'a Loaded,
    kernels: Vec<(&'a Kernel, Known)>,
    /// The parameter whose place the result of the only kernel takes, and that result.
    in_place: Option<(ArrayId, ArrayId)>,
    line_info: bool,
    compiler: Compiler,
    /// A step for each compilation.
    progress: RefCell<Progress>,
}

pub fn run(args: &Compile) -> Result<(), Failure> {
    let mut emit = args.emit.clone();
    emit.sort();
    emit.dedup();
    let folder = args.output.as_deref().filter(|folder| !files::is_standard_output(folder));
    folder.map_or(Ok(()), usable)?;
    let loaded = load::load(&args.file, Format::Human)?;
    if matches!(args.stop_after, Some(Stage::Parse | Stage::Check)) {
        return Ok(());
    }
    let kernels = kernels(&loaded, &args.kernel)?;
    let kernels = facts::of(kernels, &args.shape, &args.call, args.misaligned)?;
    let in_place = args.in_place.as_deref().map(|name| in_place(&kernels, name, &emit)).transpose()?;
    let needs_nvrtc =
        emit.iter().any(|emit| matches!(emit, Emit::Ptx | Emit::Cubin | Emit::Fatbin)) && args.stop_after != Some(Stage::Cuda);
    let targets = targets(&args.arch, needs_nvrtc)?;
    let stem = stem(&args.file, &args.kernel);
    let binaries = |&emit: &Emit| match emit {
        Emit::Ptx | Emit::Cubin => targets.len(),
        Emit::Fatbin => targets.len() + 1,
        Emit::Cuda | Emit::Project | Emit::Plan => 0,
    };
    let job = Job {
        loaded: &loaded,
        kernels,
        in_place,
        line_info: args.line_info,
        compiler: Compiler::new(Cache::from_environment()),
        progress: Progress::patient(emit.iter().map(binaries).sum()).into(),
    };
    let mut products = Vec::new();
    for &target in &targets {
        // Text for one architecture needs no name of it; machine code always says what it is for.
        let plain = targets.len() == 1 && !needs_nvrtc;
        let stem = if plain { stem.clone() } else { format!("{stem}.{target}") };
        for &emit in emit.iter().filter(|emit| !matches!(emit, Emit::Fatbin | Emit::Project)) {
            products.push(job.product(target, emit, &stem)?);
        }
    }
    if emit.contains(&Emit::Fatbin) {
        products.push(job.fatbin(&targets, &stem)?);
    }
    if emit.contains(&Emit::Project) {
        products.extend(job.project(&targets, &stem)?);
    }
    match folder {
        Some(folder) => write(folder, &products),
        None => print(products),
    }
}

/// What files are called: as the program, or as the one kernel asked for. A name that a file system would refuse is cut; then a
/// digest keeps it apart from others.
fn stem(file: &Path, kernels: &[String]) -> String {
    let name = match kernels {
        [kernel] => kernel.clone(),
        _ if file == Path::new("-") => "stdin".to_owned(),
        _ => file.file_stem().map_or("program".into(), |stem| stem.to_string_lossy()).into_owned(),
    };
    if name.len() <= 100 {
        return name;
    }
    let digest = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let head: String = name
        .chars()
        .scan(0, |length, c| {
            *length += c.len_utf8();
            (*length <= 80).then_some(c)
        })
        .collect();
    format!("{head}-{digest:016x}")
}

fn kernels<'a>(loaded: &'a Loaded, names: &[String]) -> Result<Vec<&'a Kernel>, Failure> {
    if names.is_empty() {
        let all: Vec<&Kernel> = loaded.program.kernels.iter().collect();
        return if all.is_empty() { loaded.kernel(None).map(|kernel| vec![kernel]) } else { Ok(all) };
    }
    names.iter().map(|name| loaded.kernel(Some(name))).collect()
}

/// The array called `name`, and the result that takes its place.
fn in_place(kernels: &[(&Kernel, Known)], name: &str, emit: &[Emit]) -> Result<(ArrayId, ArrayId), Failure> {
    let usage = |message: &str| Failure::usage(format!("--in-place {name}: {message}"));
    if emit.iter().any(|emit| matches!(emit, Emit::Plan | Emit::Project)) {
        return Err(usage("text and machine code only, no plan and no project"));
    }
    let [(kernel, _)] = kernels else { return Err(usage("which kernel?").help("choose one with --kernel")) };
    let arrays = kernel.parameters.iter().filter_map(|parameter| match *parameter {
        Parameter::Array(id) => Some((id, kernel.arrays[id].name.as_str())),
        Parameter::Scalar(_) => None,
    });
    let arrays: Vec<(ArrayId, &str)> = arrays.collect();
    let Some((parameter, _)) = arrays.iter().find(|(_, known)| *known == name) else {
        let names: Vec<&str> = arrays.into_iter().map(|(_, name)| name).collect();
        return Err(usage(&format!("kernel `{}` has no such array; it has {}", kernel.name, facts::listed(&names))));
    };
    match (refusal(kernel, *parameter), kernel.results.first()) {
        (None, Some(result)) => Ok((*parameter, *result)),
        (why, _) => Err(usage(&format!("`{}` can't be computed there: {}", kernel.name, why.unwrap_or_default()))),
    }
}

fn targets(names: &[String], needs_nvrtc: bool) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for name in names {
        match name.as_str() {
            "native" => targets.push(native()?),
            "all" => targets.extend(Target::TESTED),
            name => targets.push(Target::parse(name).ok_or_else(|| {
                Failure::usage(format!("`{name}` is not an architecture; write native, all, or names such as sm_90,sm_80"))
            })?),
        }
    }
    if targets.is_empty() {
        // Text is the same on every machine unless it is asked to follow the machine.
        targets.push(if needs_nvrtc { native()? } else { Target { capability: 90, specific: true } });
    }
    let mut unique = Vec::new();
    for target in targets {
        if !unique.contains(&target) {
            unique.push(target);
        }
    }
    Ok(unique)
}

fn native() -> Result<Target, Failure> {
    match Facts::of(0) {
        Ok(facts) => Ok(facts.target),
        Err(error) => Err(Failure::environment(format!("--arch native: {error}"), Some("name an architecture, such as --arch sm_90"))),
    }
}

impl Job<'_> {
    /// The text of all kernels.
    fn cuda(&self, target: Target) -> Result<Vec<Cuda>, Failure> {
        let Loaded { program, source, .. } = self.loaded;
        let all = match (self.in_place, self.kernels.as_slice()) {
            (Some(place), [kernel]) => vec![pipeline::cuda_in_place(program, kernel, target, place, source)?],
            _ => pipeline::cuda_file(program, &self.kernels, target, self.line_info, source)?,
        };
        if let Some(cuda) = all.first() {
            report::keep("kernel.cu", &cuda.source);
        }
        Ok(all)
    }

    /// Code for a target, of the text that is made for `least`, and what it is for.
    fn binary(&self, least: Target, target: Target, wanted: Wanted) -> Result<Binary, Failure> {
        let all = self.cuda(least)?;
        let cuda = all.first().ok_or_else(|| Failure::bug("no text for some kernels"))?;
        let extra: &[String] = if self.line_info { &["--generate-line-info".to_owned()] } else { &[] };
        let mut progress = self.progress.borrow_mut();
        progress.begin(&format!("{} for {target}", self.loaded.source.name()));
        let mut binary = pipeline::compile(&self.compiler, cuda, target, wanted, extra)?;
        progress.end();
        progress.pause(|| {
            pipeline::warn(&binary);
            if wanted == Wanted::Binary && binary.form == Form::Ptx {
                let architecture = &binary.architecture;
                output::note(&format!("note: this NVRTC does not know {target}; wrote PTX for {architecture} instead"));
            }
        });
        // The driver wants the zero at its end, files don't.
        while binary.form == Form::Ptx && binary.image.last() == Some(&0) {
            binary.image.pop();
        }
        Ok(binary)
    }

    /// One file for one target.
    fn product(&self, target: Target, emit: Emit, stem: &str) -> Result<Product, Failure> {
        let text = |ending: &str, text: String| Product { name: format!("{stem}.{ending}"), bytes: text.into_bytes(), text: true };
        let wanted = match emit {
            Emit::Plan => {
                let Loaded { program, source, .. } = self.loaded;
                let plan = |(kernel, facts): &(&Kernel, Known)| pipeline::plan(program, kernel, target, facts, source);
                let texts = self.kernels.iter().map(plan).collect::<Result<Vec<String>, Failure>>()?;
                return Ok(text("plan", texts.join("\n")));
            }
            Emit::Ptx => Wanted::Ptx,
            Emit::Cubin => Wanted::Binary,
            Emit::Cuda | Emit::Fatbin | Emit::Project => {
                let first = self.cuda(target)?.into_iter().next();
                return first.map(|cuda| text("cu", cuda.source.to_string())).ok_or_else(|| Failure::bug("no text for some kernels"));
            }
        };
        let binary = self.binary(target, target, wanted)?;
        let name = format!("{stem}.{}", binary.form.name());
        Ok(Product { name, bytes: binary.image, text: binary.form == Form::Ptx })
    }

    /// The target whose text all of them run: the least, unless its text takes more shared memory than others have.
    fn least(&self, targets: &[Target]) -> Result<Target, Failure> {
        let least = targets.iter().min().copied().ok_or_else(|| Failure::bug("no architecture"))?;
        let room = targets.iter().map(|target| target.shared_bytes()).min().unwrap_or(0);
        if self.cuda(least)?.iter().flat_map(|cuda| &cuda.launches).all(|launch| i64::from(launch.shared_bytes) <= room) {
            return Ok(least);
        }
        let smaller = Target::TESTED.into_iter().filter(|other| other.capability <= least.capability && other.shared_bytes() <= room);
        Ok(smaller.max().unwrap_or(least))
    }

    /// Code for all targets in one file, and for GPUs that come later PTX of the newest of them. All of it is of one text, that for the
    /// least of the targets: whichever the driver picks is launched in one way.
    fn fatbin(&self, targets: &[Target], stem: &str) -> Result<Product, Failure> {
        let least = self.least(targets)?;
        let mut all = Vec::new();
        for &target in targets {
            all.push((self.binary(least, target, Wanted::Binary)?, target));
        }
        let newest = targets.iter().map(|target| target.capability).max().map(|capability| Target { capability, specific: false });
        if let Some(target) = newest {
            all.push((self.binary(least, target, Wanted::Ptx)?, target));
        }
        let mut entries = Vec::new();
        for (binary, target) in &all {
            // PTX may be for an older one than asked for.
            let target = Target::parse(&binary.architecture.replacen("compute_", "sm_", 1)).unwrap_or(*target);
            entries.push(Entry { form: binary.form, target, image: &binary.image });
        }
        Ok(Product { name: format!("{stem}.fatbin"), bytes: fatbin::pack(&entries), text: false })
    }

    /// A folder that builds without gpukc. Its one text is that for the least of the targets, which the others run too.
    fn project(&self, targets: &[Target], stem: &str) -> Result<Vec<Product>, Failure> {
        let least = self.least(targets)?;
        let files = project::files(stem, &self.kernels, &self.cuda(least)?, least, targets)?;
        let product =
            |(name, text): (String, String)| Product { name: format!("{stem}/{name}"), bytes: text.into_bytes(), text: true };
        Ok(files.into_iter().map(product).collect())
    }
}

/// A folder is made when there is something to write into it; that it can't be is found before.
fn usable(folder: &Path) -> Result<(), Failure> {
    match folder.ancestors().find(|part| part.exists()) {
        Some(part) if !part.is_dir() => Err(Failure::input(format!("{} is no folder", part.display()))),
        _ => Ok(()),
    }
}

fn write(folder: &Path, products: &[Product]) -> Result<(), Failure> {
    let mut files = Files::default();
    for product in products {
        let path = folder.join(&product.name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| Failure::input(format!("{}: {error}", parent.display())))?;
        }
        files.add(&path, |stream| stream.write_all(&product.bytes));
    }
    files.write()
}

/// One product to standard output.
fn print(products: Vec<Product>) -> Result<(), Failure> {
    let [product] = &products[..] else {
        // Several files after one another would be no file of any kind.
        let names: Vec<&str> = products.iter().map(|product| product.name.as_str()).collect();
        return Err(Failure::usage(format!("there are several files: {}", names.join(", ")))
            .help("name a folder (-o DIR), or choose one (--kernel, --arch)"));
    };
    if !product.text {
        files::no_terminal(&product.name, "folder (-o DIR)")?;
    }
    output::result(&product.bytes);
    Ok(())
}

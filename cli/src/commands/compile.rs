//! `gpukc compile`: kernels to CUDA text, PTX or machine code, for one or several architectures.

use std::path::Path;

use gpukc_codegen::facts::Facts as Known;
use gpukc_codegen::target::Target;
use gpukc_dsl::program::Kernel;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::{Compiler, Wanted};
use gpukc_runtime::device::Facts;
use gpukc_runtime::nvrtc::Form;

use crate::args::{Compile, Emit, Format, Stage};
use crate::failure::Failure;
use crate::load::{self, Loaded};
use crate::{inputs, output, pipeline, report};

/// A file to write: its name's ending, and its bytes.
struct Product {
    name: String,
    bytes: Vec<u8>,
    text: bool,
}

pub fn run(args: &Compile) -> Result<(), Failure> {
    let mut emit = args.emit.clone();
    emit.sort();
    emit.dedup();
    if let Some(later) = emit.iter().find(|emit| matches!(emit, Emit::Fatbin | Emit::Project)) {
        let name = if *later == Emit::Fatbin { "fatbin" } else { "project" };
        return Err(Failure::usage(format!("--emit {name} is not there yet; cuda, ptx, cubin and plan are")));
    }
    let loaded = load::load(&args.file, Format::Human)?;
    if matches!(args.stop_after, Some(Stage::Parse | Stage::Check)) {
        return Ok(());
    }
    let kernels = kernels(&loaded, &args.kernel)?;
    let needs_nvrtc = emit.iter().any(|emit| matches!(emit, Emit::Ptx | Emit::Cubin)) && args.stop_after != Some(Stage::Cuda);
    let targets = targets(&args.arch, needs_nvrtc)?;
    let compiler = Compiler::new(Cache::from_environment());
    let mut products = Vec::new();
    for kernel in &kernels {
        let facts = facts(kernel, &args.shape)?;
        for &target in &targets {
            let stem = if targets.len() == 1 && !needs_nvrtc { file_stem(kernel) } else { format!("{}.{target}", file_stem(kernel)) };
            for &emit in &emit {
                product(&loaded, kernel, target, &facts, emit, &stem, &compiler, &mut products)?;
            }
        }
    }
    match &args.output {
        Some(folder) => write(folder, &products),
        None => print(products),
    }
}

fn kernels<'a>(loaded: &'a Loaded, names: &[String]) -> Result<Vec<&'a Kernel>, Failure> {
    if names.is_empty() {
        let all: Vec<&Kernel> = loaded.program.kernels.iter().collect();
        return if all.is_empty() { loaded.kernel(None).map(|kernel| vec![kernel]) } else { Ok(all) };
    }
    names.iter().map(|name| loaded.kernel(Some(name))).collect()
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

/// `--shape n=4096,m=512`: dims by name, spelled into the text.
fn facts(kernel: &Kernel, shape: &[String]) -> Result<Known, Failure> {
    let mut facts = Known::default();
    for part in shape {
        let (name, extent) = inputs::split("--shape", part, "EXTENT")?;
        let extent = extent.replace('_', "").parse::<i64>().ok().filter(|&extent| extent >= 0);
        let extent = extent.ok_or_else(|| Failure::usage(format!("--shape {part}: an extent is a number, 0 or more")))?;
        let Some((id, _)) = kernel.dims.iter().find(|(_, dim)| dim.name == name) else {
            let names: Vec<&str> = kernel.dims.iter().map(|(_, dim)| dim.name.as_str()).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Failure::usage(format!("--shape {part}: kernel `{}` has no dim `{name}`; it has {there}", kernel.name)));
        };
        facts.literal.insert(id, extent);
    }
    Ok(facts)
}

/// The kernel's name, cut where a file system would refuse it; then a digest keeps it apart from others.
fn file_stem(kernel: &Kernel) -> String {
    if kernel.name.len() <= 100 {
        return kernel.name.clone();
    }
    let digest =
        kernel.name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}-{digest:016x}", &kernel.name[..80])
}

fn product(
    loaded: &Loaded,
    kernel: &Kernel,
    target: Target,
    facts: &Known,
    emit: Emit,
    stem: &str,
    compiler: &Compiler,
    products: &mut Vec<Product>,
) -> Result<(), Failure> {
    if emit == Emit::Plan {
        let text = pipeline::plan(&loaded.program, kernel, target, facts, &loaded.source)?;
        products.push(Product { name: format!("{stem}.plan"), bytes: text.into_bytes(), text: true });
        return Ok(());
    }
    let cuda = pipeline::cuda(&loaded.program, kernel, target, facts, &loaded.source)?;
    report::keep("kernel.cu", &cuda.source);
    let wanted = match emit {
        Emit::Ptx => Wanted::Ptx,
        Emit::Cubin => Wanted::Binary,
        _ => {
            products.push(Product { name: format!("{stem}.cu"), bytes: cuda.source.into_bytes(), text: true });
            return Ok(());
        }
    };
    let mut binary = pipeline::compile(compiler, &cuda, target, wanted)?;
    if emit == Emit::Cubin && binary.form == Form::Ptx {
        let (target, architecture) = (target, &binary.architecture);
        output::note(&format!("note: this NVRTC does not know {target}; wrote PTX for {architecture} instead"));
    }
    let text = binary.form == Form::Ptx;
    if text {
        // The driver wants the zero at its end, files don't.
        while binary.image.last() == Some(&0) {
            binary.image.pop();
        }
    }
    products.push(Product { name: format!("{stem}.{}", binary.form.name()), bytes: binary.image, text });
    Ok(())
}

fn write(folder: &Path, products: &[Product]) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::input(format!("{}: {error}", folder.display())))?;
    for product in products {
        output::file(&folder.join(&product.name), |stream| stream.write_all(&product.bytes))?;
    }
    Ok(())
}

fn print(products: Vec<Product>) -> Result<(), Failure> {
    if let [product] = &products[..]
        && product.text
    {
        output::result(&product.bytes);
        return Ok(());
    }
    if let Some(binary) = products.iter().find(|product| !product.text) {
        return Err(Failure::usage(format!("{} is no text for the terminal", binary.name)).help("name a folder: -o DIR"));
    }
    // Several texts after one another would be no file of any kind.
    let names: Vec<&str> = products.iter().map(|product| product.name.as_str()).collect();
    Err(Failure::usage(format!("there are several texts: {}", names.join(", ")))
        .help("name a folder (-o DIR), or choose one (--kernel, --arch)"))
}

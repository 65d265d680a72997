//! `gpukc verify`: every schedule against the reference, on adversarial sizes and data, bit for bit.

use std::path::Path;
use std::time::{Duration, Instant};

use gpukc_cli::npy;
use gpukc_dsl::program::{Kernel, Literal, Parameter};
use gpukc_runtime::cache::Cache;
use gpukc_runtime::compile::Compiler;
use gpukc_verify::device::{Device, Emulated, Gpu};
use gpukc_verify::{Difference, Effort, Stopped, Verified, verify};

use crate::args::{Format, Verify};
use crate::ending::Folder;
use crate::failure::Failure;
use crate::load::{self, Loaded};
use crate::progress::Progress;
use crate::{advice, devices, output, report};

/// Inputs beyond this are not saved with a difference.
const SAVED: usize = 64 << 20;

pub fn run(args: &Verify) -> Result<(), Failure> {
    let seconds = args.seconds.map(Duration::try_from_secs_f64).transpose();
    let seconds = seconds.map_err(|_| Failure::usage("--seconds takes a number of seconds, 0 or more"))?;
    let asked = devices::parse(&args.device)?;
    let mut statuses = Vec::new();
    let mut all = Vec::new();
    for path in &args.files {
        match load::load(path, Format::Human) {
            Ok(loaded) => all.push(loaded),
            Err(failure) => statuses.push(failure.tell(&advice::ANY_DEVICE)),
        }
    }
    let kernels = choose(&all, &args.kernel, statuses.is_empty())?;
    let folder = Folder::new().map_err(|error| Failure::environment(format!("no temporary folder: {error}"), None))?;
    let device = open(asked, folder.path())?;
    let device = device.as_deref();
    let calls = args.calls as usize;
    let mut progress = Progress::new(kernels.len(), calls);
    let start = Instant::now();
    for (at, (loaded, kernel)) in kernels.iter().enumerate() {
        let name = if args.files.len() == 1 { kernel.name.clone() } else { format!("{}: {}", loaded.source.name(), kernel.name) };
        progress.begin(&name);
        // What is left of the time is shared among the kernels that are left.
        let until = seconds.map(|seconds| {
            let left = seconds.saturating_sub(start.elapsed());
            Instant::now() + left / (kernels.len() - at) as u32
        });
        let effort = Effort { calls, seed: args.seed, until };
        let result = verify(&loaded.program, kernel, device, &effort, &mut |done| progress.reach(at * calls + done));
        progress.reach((at + 1) * calls);
        let status = progress.pause(|| tell(&name, result, loaded, kernel, args));
        statuses.push(status);
        if let Some(why) = device.filter(|_| status == 70).and_then(Device::lost) {
            let left: Vec<&str> = kernels[at + 1..].iter().map(|(_, kernel)| kernel.name.as_str()).collect();
            let left = if left.is_empty() { String::new() } else { format!("; not verified: {}", left.join(", ")) };
            progress.pause(|| output::note(&format!("the GPU cannot be used any more ({why}){left}")));
            break;
        }
    }
    Failure::of_several(&statuses)
}

/// The kernels to verify, by file. A name must be there in some file; if files are missing, it may be in one of those.
fn choose<'a>(all: &'a [Loaded], names: &[String], complete: bool) -> Result<Vec<(&'a Loaded, &'a Kernel)>, Failure> {
    let every = all.iter().flat_map(|loaded| loaded.program.kernels.iter().map(move |kernel| (loaded, kernel)));
    let every: Vec<(&Loaded, &Kernel)> = every.collect();
    if let Some(name) = names.iter().find(|name| complete && !every.iter().any(|(_, kernel)| kernel.name == **name)) {
        let there: Vec<&str> = every.iter().map(|(_, kernel)| kernel.name.as_str()).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        return Err(Failure::usage(format!("there is no kernel `{name}`; there is {there}")));
    }
    if every.is_empty() && complete {
        return Err(Failure::usage("there is no kernel to verify"));
    }
    Ok(every.into_iter().filter(|(_, kernel)| names.is_empty() || names.contains(&kernel.name)).collect())
}

/// What runs the texts; none if there is no GPU and no C++ compiler.
fn open(asked: devices::Asked, folder: &Path) -> Result<Option<Box<dyn Device>>, Failure> {
    let compiler = Compiler::new(Cache::from_environment());
    if let Some(ordinal) = devices::choose(asked, &compiler)? {
        return Ok(Some(Box::new(Gpu::open(ordinal, compiler)?)));
    }
    match Emulated::new(folder) {
        Ok(emulated) => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            Ok(Some(Box::new(emulated.threads(threads))))
        }
        Err(error) => {
            let what = error.to_string();
            let why = what.lines().next().unwrap_or_default();
            output::note(&format!("note: the CUDA texts do not run, only the evaluator is compared with itself, since {why}"));
            Ok(None)
        }
    }
}

/// Says how a kernel's verification ended; gives the exit status.
fn tell(name: &str, result: Result<Verified, Stopped>, loaded: &Loaded, kernel: &Kernel, args: &Verify) -> u8 {
    match result {
        Ok(verified) => {
            output::result(format!("{name}: {}\n", summary(&verified, args)));
            0
        }
        Err(Stopped::Uncalled) => {
            output::result(format!("{name}: not verified, no call found that its conditions allow\n"));
            4
        }
        Err(Stopped::Machine(what)) => {
            output::result(format!("{name}: not verified\n"));
            Failure::environment(format!("{name}: {what}"), None).tell(&advice::ANY_DEVICE)
        }
        Err(Stopped::Difference(difference)) => {
            let call = difference.call.text(kernel);
            output::result(format!("{name}: unequal\n"));
            output::note(&format!("{} {name}: {} [{call}]", output::red("error:"), difference.message));
            output::note(&report::save(&difference.message, None, &files(&difference, loaded, kernel, args)));
            70
        }
    }
}

fn summary(verified: &Verified, args: &Verify) -> String {
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let mut text = count(verified.calls, "call");
    if verified.cut {
        text.push_str(&format!(" of {}", args.calls));
    }
    if verified.reports > 0 {
        text.push_str(&format!(" ({} out of range)", verified.reports));
    }
    text.push_str(&format!(", {}, ", count(verified.texts, "text")));
    text.push_str(if verified.licensed { "equal within the tolerance of its licences" } else { "equal bits" });
    if let Some(limit) = &verified.limit {
        text.push_str(&format!("; not every text can be made: {limit}"));
    }
    text
}

/// What it takes to see a difference again: program, text, inputs, and the command.
fn files(difference: &Difference, loaded: &Loaded, kernel: &Kernel, args: &Verify) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![("program.gk".to_owned(), loaded.source.text().as_bytes().to_vec())];
    let mut command = format!("gpukc run program.gk --kernel {} --device {}", kernel.name, args.device);
    let small = difference.call.arrays.iter().map(|array| array.bytes().len()).sum::<usize>() <= SAVED;
    let mut arrays = difference.call.arrays.iter();
    for parameter in &kernel.parameters {
        match *parameter {
            Parameter::Scalar(id) => {
                let value = match difference.call.bindings.scalars.get(id.index()) {
                    Some(Literal::Float(value)) => format!("{value:?}"),
                    Some(Literal::Int(value)) => value.to_string(),
                    Some(Literal::Bool(value)) => value.to_string(),
                    None => continue,
                };
                command.push_str(&format!(" --in {}={value}", kernel.scalars[id].name));
            }
            Parameter::Array(id) => {
                let (name, mut bytes) = (&kernel.arrays[id].name, Vec::new());
                let written = arrays.next().filter(|_| small).map(|array| npy::write(&mut bytes, array));
                if matches!(written, Some(Ok(()))) {
                    command.push_str(&format!(" --in {name}={name}.npy"));
                    files.push((format!("{name}.npy"), bytes));
                }
            }
        }
    }
    let again = format!("gpukc verify program.gk --kernel {} --seed {} --calls {}", kernel.name, args.seed, args.calls);
    let text = difference.text.as_ref().map_or("the evaluator", |text| text.what.as_str());
    let about = format!(
        "{}\ncall: {}\ntext: {text}\n{command}\n{again} --device {}\n",
        difference.message,
        difference.call.text(kernel),
        args.device
    );
    files.push(("call.txt".to_owned(), about.into_bytes()));
    if let Some(text) = &difference.text {
        files.push(("kernel.cu".to_owned(), text.cuda.source.as_bytes().to_vec()));
    }
    files
}

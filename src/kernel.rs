//! Kernels as the macro declares them, and what a call does.
//!
//! A [`Kernel`] is a static: text, and once it is used the checked program. A device keeps what it has [`Prepared`] of it: loaded
//! variants, and for each shape that it has met an [`Entry`] with everything evaluated. A call of a shape that is known looks it up
//! and launches; no allocation, nothing evaluated. Otherwise it binds the shapes (errors name the dims), plans, compiles and loads.
//! Variants whose contract comes out the same share their code, so that many shapes load few.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::bundle::Bundle;
use crate::codegen::facts::Facts;
use crate::codegen::kernel::Kernel as Cuda;
use crate::codegen::target::Target;
use crate::dsl::call::{self, Bindings, CallArgument, scalar_value};
use crate::dsl::program::{ArrayId, Kernel as Typed, Parameter, Program, ScalarId};
use crate::dsl::source::Source;
use crate::error::Error;
use crate::gpu::{self, Backend, Gpu};
use crate::runtime::compile::{Binary, Wanted};
use crate::runtime::launch::{Call, Layout, Loaded};
use crate::runtime::memory::Piece;
use crate::stream::Stream;
use crate::untyped::{Extents, Untyped};
use crate::{codegen, cpu};

/// A kernel of the user's program.
pub struct Kernel {
    name: &'static str,
    code: &'static str,
    file: &'static str,
    line: usize,
    binaries: &'static [u8],
    checked: OnceLock<Result<Checked, String>>,
    number: OnceLock<usize>,
}

/// A checked program, seen from one of its kernels.
struct Checked {
    source: Arc<Source>,
    program: Program,
    /// The kernel's number.
    kernel: usize,
    /// The parameters that are arrays.
    arrays: Vec<ArrayId>,
    /// The scalars that extents, ranges, subscripts or conditions depend on.
    shaping: Vec<ScalarId>,
    bundle: Option<Bundle>,
}

impl Checked {
    fn typed(&self) -> Option<&Typed> {
        self.program.kernels.get(self.kernel)
    }

    /// What a build script has made for a device: it serves every call, and needs no NVRTC. Calls in place are compiled here.
    fn made_ahead(
        &self,
        device: Target,
        in_place: Option<(ArrayId, ArrayId)>,
    ) -> Result<Option<(Cuda, Binary)>, codegen::error::Error> {
        let (Some(bundle), Some(typed), None) = (&self.bundle, self.typed(), in_place) else { return Ok(None) };
        let Some(made) = bundle.best(device) else { return Ok(None) };
        let kernel = codegen::compile(&self.program, typed, made, &Facts::default())?;
        // None if the build script was of another version.
        let binary = bundle.find(&kernel.source, made);
        Ok(binary.map(|binary| (kernel, binary)))
    }
}

/// What a device has ready of a kernel.
#[derive(Default)]
pub(crate) struct Prepared {
    entries: Mutex<Vec<Arc<Entry>>>,
    variants: Mutex<Vec<(String, Arc<Loaded>)>>,
}

/// A call that the device has met.
struct Entry {
    key: Key,
    layout: Layout,
    results: Vec<Extents>,
}

/// What calls must have in common to be launched alike.
#[derive(PartialEq)]
struct Key {
    inputs: Vec<Extents>,
    /// Bits of the scalars that matter.
    scalars: Vec<u64>,
    aligned: bool,
    in_place: Option<usize>,
}

/// So many shapes of a kernel are kept.
const KEPT: usize = 256;

/// Wide accesses need multiples of this.
const ALIGNMENT: usize = 16;

impl Prepared {
    fn entries(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's arguments.
struct Given<'a> {
    scalars: &'a [u64],
    inputs: &'a [&'a Untyped],
    aligned: bool,
    /// The number of the parameter, among arrays, that the result takes the place of; it is not among the inputs.
    in_place: Option<(usize, &'a Untyped)>,
}

impl Given<'_> {
    fn fits(&self, key: &Key, shaping: &[ScalarId]) -> bool {
        self.aligned == key.aligned
            && self.in_place.map(|(at, _)| at) == key.in_place
            && self.extents().eq(key.inputs.iter())
            && shaping.iter().zip(&key.scalars).all(|(id, bits)| self.scalars.get(id.index()) == Some(bits))
    }

    /// Of all parameters that are arrays.
    fn extents(&self) -> impl Iterator<Item = &Extents> {
        let at = self.in_place.map_or(usize::MAX, |(at, _)| at);
        let before = self.inputs.iter().take(at);
        let own = self.in_place.iter().map(|(_, array)| array);
        before.chain(own).chain(self.inputs.iter().skip(at)).map(|array| array.extents())
    }
}

impl Kernel {
    /// A kernel of a text that stands in a file from a line on, with binaries made by a build script.
    pub const fn new(name: &'static str, code: &'static str, file: &'static str, line: usize, binaries: &'static [u8]) -> Kernel {
        Kernel { name, code, file, line, binaries, checked: OnceLock::new(), number: OnceLock::new() }
    }

    fn checked(&self) -> Result<&Checked, Error> {
        self.checked.get_or_init(|| self.check()).as_ref().map_err(|message| Error::bug(message.clone()))
    }

    fn check(&self) -> Result<Checked, String> {
        // So that lines of the text are lines of the file.
        let padding = "\n".repeat(self.line.saturating_sub(1));
        let source = Source::new(self.file, padding + self.code);
        let checked = crate::dsl::check(&source);
        let program = checked.program.ok_or_else(|| format!("{}: the text is refused, which rustc was not told", self.file))?;
        let kernel = program.kernels.iter().position(|kernel| kernel.name == self.name);
        let kernel = kernel.ok_or_else(|| format!("{}: there is no kernel `{}`", self.file, self.name))?;
        let typed = &program.kernels[kernel];
        let arrays = typed.parameters.iter().filter_map(|parameter| match *parameter {
            Parameter::Array(id) => Some(id),
            Parameter::Scalar(_) => None,
        });
        let (arrays, shaping) = (arrays.collect(), crate::shaping::scalars(typed));
        let bundle = if self.binaries.is_empty() { None } else { Some(Bundle::read(self.binaries)?) };
        Ok(Checked { source: Arc::new(source), program, kernel, arrays, shaping, bundle })
    }

    /// Its number in the tables of devices.
    fn number(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        *self.number.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed))
    }

    fn prepared(&self, cuda: &gpu::Cuda) -> Arc<Prepared> {
        let number = self.number();
        let mut kernels = cuda.kernels();
        if kernels.len() <= number {
            kernels.resize_with(number + 1, || None);
        }
        kernels[number].get_or_insert_default().clone()
    }

    /// A call that gives new arrays.
    pub fn call<const RESULTS: usize>(
        &self,
        stream: &Stream,
        scalars: &[u64],
        inputs: &[&Untyped],
    ) -> Result<[Untyped; RESULTS], Error> {
        let count = || Error::bug(format!("kernel `{}` has another number of results", self.name));
        let checked = self.checked()?;
        let gpu = stream.gpu();
        let given = Given { scalars, inputs, aligned: aligned(inputs, &[]), in_place: None };
        let results = match gpu.backend() {
            Backend::Cpu => {
                let results = self.run_on_cpu(checked, stream, &given)?;
                results.into_iter().map(|tensor| Untyped::of_tensor(&gpu, tensor)).collect::<Result<Vec<_>, _>>()?
            }
            Backend::Cuda(cuda) => {
                let entry = self.entry(checked, cuda, &given)?;
                let types = checked.typed().map_or(&[][..], |typed| &typed.results).iter();
                let types = types.filter_map(|&id| checked.typed().map(|typed| typed.arrays[id].element));
                let made = entry.results.iter().zip(types).map(|(extents, element)| {
                    let array = Untyped::unspecified(&gpu, stream, element, *extents)?;
                    // Where a check may end the kernel early, what it leaves out must not show what was there before.
                    if entry.layout.loaded().checks()
                        && let Some(device) = stream.device()
                    {
                        device.zero(array.piece())?;
                    }
                    Ok(array)
                });
                let results = made.collect::<Result<Vec<_>, Error>>()?;
                launch(&entry, stream, scalars, inputs, &results.iter().collect::<Vec<_>>())?;
                results
            }
        };
        results.try_into().map_err(|_| count())
    }

    /// A call that writes into existing arrays.
    pub fn call_into(&self, stream: &Stream, scalars: &[u64], inputs: &[&Untyped], outputs: &[&Untyped]) -> Result<(), Error> {
        let checked = self.checked()?;
        let given = Given { scalars, inputs, aligned: aligned(inputs, outputs), in_place: None };
        match stream.backend() {
            Backend::Cpu => self.write_on_cpu(checked, stream, &given, outputs),
            Backend::Cuda(cuda) => {
                let entry = self.entry(checked, cuda, &given)?;
                self.check_outputs(checked, &entry.results, outputs)?;
                launch(&entry, stream, scalars, inputs, outputs)
            }
        }
    }

    /// A call whose result takes the place of the parameter `at`, counted among arrays; it is not among the inputs.
    pub fn call_in_place(
        &self,
        stream: &Stream,
        scalars: &[u64],
        inputs: &[&Untyped],
        at: usize,
        target: &Untyped,
    ) -> Result<(), Error> {
        let checked = self.checked()?;
        let given = Given { scalars, inputs, aligned: aligned(inputs, &[target]), in_place: Some((at, target)) };
        match stream.backend() {
            Backend::Cpu => self.write_on_cpu(checked, stream, &given, &[target]),
            Backend::Cuda(cuda) => {
                let entry = self.entry(checked, cuda, &given)?;
                launch(&entry, stream, scalars, inputs, &[target])
            }
        }
    }

    /// How long the driver's own launches of such a call take the host, for so many calls.
    pub fn time_bare(
        &self,
        stream: &Stream,
        scalars: &[u64],
        inputs: &[&Untyped],
        outputs: &[&Untyped],
        count: usize,
    ) -> Result<Duration, Error> {
        let checked = self.checked()?;
        let given = Given { scalars, inputs, aligned: aligned(inputs, outputs), in_place: None };
        let (Backend::Cuda(cuda), Some(device)) = (stream.backend(), stream.device()) else { return Ok(Duration::ZERO) };
        let entry = self.entry(checked, cuda, &given)?;
        let reads: Vec<Piece> = inputs.iter().map(|array| array.piece()).collect();
        let writes: Vec<Piece> = outputs.iter().map(|array| array.piece()).collect();
        Ok(entry.layout.time_bare(device, scalars, &reads, &writes, count)?)
    }

    /// Outputs have the shapes that the inputs say.
    fn check_outputs(&self, checked: &Checked, results: &[Extents], outputs: &[&Untyped]) -> Result<(), Error> {
        for (at, (expected, output)) in results.iter().zip(outputs).enumerate() {
            if expected != output.extents() {
                let typed = checked.typed();
                let name = typed.map_or("", |typed| typed.results.get(at).map_or("", |&id| typed.arrays[id].name.as_str()));
                let (expected, found) = (expected.as_slice(), output.extents().as_slice());
                return Err(Error::arguments(format!("{}: `{name}` has shape {found:?}, {expected:?} is needed", self.name)));
            }
        }
        Ok(())
    }

    /// Binds the shapes and scalars of a call.
    fn bind(&self, checked: &Checked, given: &Given) -> Result<Bindings, Error> {
        let typed = checked.typed().ok_or_else(|| Error::bug("a kernel is lost"))?;
        let mut arrays = given.extents();
        let mut arguments = Vec::with_capacity(typed.parameters.len());
        for parameter in &typed.parameters {
            let missing = || Error::bug(format!("a call of `{}` with too few arguments", self.name));
            arguments.push(match *parameter {
                Parameter::Scalar(id) => {
                    let bits = given.scalars.get(id.index()).ok_or_else(missing)?;
                    CallArgument::Scalar(scalar_value(typed.scalars[id].ty, *bits))
                }
                Parameter::Array(id) => {
                    CallArgument::Array { element: typed.arrays[id].element, shape: arrays.next().ok_or_else(missing)?.as_slice() }
                }
            });
        }
        call::bind(typed, &arguments).map_err(|error| Error::call(&error, &checked.source))
    }

    /// The entry for a call: one that is there, or a new one.
    fn entry(&self, checked: &Checked, cuda: &gpu::Cuda, given: &Given) -> Result<Arc<Entry>, Error> {
        let prepared = self.prepared(cuda);
        {
            let mut entries = prepared.entries();
            if let Some(at) = entries.iter().position(|entry| given.fits(&entry.key, &checked.shaping)) {
                // Those in use stay in front; one place at a time, so that two in turn don't move all.
                if at > 0 {
                    entries.swap(at, at - 1);
                    return Ok(entries[at - 1].clone());
                }
                return Ok(entries[0].clone());
            }
        }
        let entry = Arc::new(self.prepare(checked, cuda, &prepared, given)?);
        let mut entries = prepared.entries();
        entries.insert(0, entry.clone());
        entries.truncate(KEPT);
        Ok(entry)
    }

    fn prepare(&self, checked: &Checked, cuda: &gpu::Cuda, prepared: &Prepared, given: &Given) -> Result<Entry, Error> {
        let bindings = self.bind(checked, given)?;
        let typed = checked.typed().ok_or_else(|| Error::bug("a kernel is lost"))?;
        let device = cuda.queue.device().facts().target;
        let in_place = match (given.in_place, typed.results.as_slice()) {
            (Some((at, _)), &[result]) => checked.arrays.get(at).map(|&parameter| (parameter, result)),
            (Some(_), _) => return Err(Error::bug("a call in place of a kernel with several results")),
            (None, _) => None,
        };
        let refused = |error| Error::compilation(error, self.name, &checked.source);
        let made = checked.made_ahead(device, in_place).map_err(refused)?;
        let (facts, kernel, binary) = match made {
            Some((kernel, binary)) => (Facts::default(), kernel, Some(binary)),
            None => {
                let mut facts = Facts::of_call(typed, &bindings);
                facts.scalars.retain(|id, _| checked.shaping.contains(id));
                facts.aligned &= given.aligned;
                let kernel = compile(&checked.program, typed, device, &facts, in_place).map_err(refused)?;
                (facts, kernel, None)
            }
        };
        let loaded = self.load(checked, cuda, prepared, &kernel, binary)?;
        let parameters: Vec<ArrayId> =
            checked.arrays.iter().copied().filter(|&id| in_place.is_none_or(|(parameter, _)| parameter != id)).collect();
        let alignment = if facts.aligned { ALIGNMENT } else { 1 };
        let layout = Layout::new(&loaded, &Call::new(typed, &bindings), &parameters, &typed.results, in_place, alignment)
            .map_err(|error| Error::device(error, Some(&checked.source)))?;
        let results = typed.results.iter().map(|id| Extents::new(&bindings.extents[id.index()])).collect::<Option<Vec<_>>>();
        let key = Key {
            inputs: given.extents().copied().collect(),
            scalars: checked.shaping.iter().filter_map(|id| given.scalars.get(id.index()).copied()).collect(),
            aligned: given.aligned,
            in_place: given.in_place.map(|(at, _)| at),
        };
        Ok(Entry { key, layout, results: results.ok_or_else(|| Error::bug("a result with too many dims"))? })
    }

    /// The loaded code of a contract, compiled unless there is a binary. While it is compiled, other calls of this kernel that
    /// need new code wait.
    fn load(
        &self,
        checked: &Checked,
        cuda: &gpu::Cuda,
        prepared: &Prepared,
        kernel: &Cuda,
        binary: Option<Binary>,
    ) -> Result<Arc<Loaded>, Error> {
        let contract = format!("{kernel:?}");
        let mut variants = prepared.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, loaded)) = variants.iter().find(|(known, _)| *known == contract) {
            return Ok(loaded.clone());
        }
        let about = |error| Error::device(error, Some(&checked.source));
        let target = cuda.queue.device().facts().target;
        let compile = || cuda.compiler.compile(&kernel.source, self.name, target, Wanted::Binary, &[]);
        let binary = binary.map_or_else(compile, Ok).map_err(about)?;
        let loaded = Arc::new(Loaded::new(&cuda.queue, kernel, &binary, &checked.source).map_err(about)?);
        variants.push((contract, loaded.clone()));
        if variants.len() > KEPT {
            variants.remove(0);
        }
        Ok(loaded)
    }

    fn run_on_cpu(&self, checked: &Checked, stream: &Stream, given: &Given) -> Result<Vec<cpu::Tensor>, Error> {
        let typed = checked.typed().ok_or_else(|| Error::bug("a kernel is lost"))?;
        let at = given.in_place.map_or(usize::MAX, |(at, _)| at);
        let all = given
            .inputs
            .iter()
            .take(at)
            .copied()
            .chain(given.in_place.map(|(_, array)| array))
            .chain(given.inputs.iter().skip(at).copied());
        let mut tensors = Vec::with_capacity(checked.arrays.len());
        for array in all {
            if !array.gpu().is(stream.shared()) {
                return Err(Error::arguments(format!("{}: an array of another device", self.name)));
            }
            tensors.push(array.tensor()?);
        }
        let bindings = self.bind(checked, given)?;
        let mut next = tensors.iter();
        let arguments: Vec<cpu::Argument> = typed
            .parameters
            .iter()
            .map(|parameter| match parameter {
                Parameter::Array(_) => next.next().map_or(cpu::Argument::Scalar, |tensor| cpu::Argument::Array(tensor)),
                Parameter::Scalar(_) => cpu::Argument::Scalar,
            })
            .collect();
        let results = cpu::run(&checked.program, typed, &bindings, &arguments, &cpu::Options::default());
        results.map_err(|error| Error::run(error, &checked.source))
    }

    fn write_on_cpu(&self, checked: &Checked, stream: &Stream, given: &Given, outputs: &[&Untyped]) -> Result<(), Error> {
        if outputs.iter().any(|output| !output.gpu().is(stream.shared())) {
            return Err(Error::arguments(format!("{}: an array of another device", self.name)));
        }
        let results = self.run_on_cpu(checked, stream, given)?;
        let shapes = results.iter().map(|tensor| Extents::new(tensor.shape())).collect::<Option<Vec<_>>>();
        self.check_outputs(checked, &shapes.ok_or_else(|| Error::bug("a result with too many dims"))?, outputs)?;
        results.into_iter().zip(outputs).try_for_each(|(tensor, output)| output.set_tensor(tensor))
    }

    /// The CUDA text that serves every call; a comment where there is none.
    pub fn cuda(&self) -> String {
        self.text(|checked, typed, target| Ok(compile(&checked.program, typed, target, &Facts::default(), None)?.source.to_string()))
    }

    /// The plan of the text that serves every call; a comment where there is none.
    pub fn plan(&self) -> String {
        self.text(|checked, typed, target| {
            let lowered = codegen::plan(&checked.program, typed, target, &Facts::default())?;
            Ok(codegen::plan::print::print(&lowered.plan))
        })
    }

    fn text(&self, make: impl Fn(&Checked, &Typed, Target) -> Result<String, codegen::error::Error>) -> String {
        const TARGET: Target = Target { capability: 90, specific: true };
        match self.checked() {
            Ok(checked) => match checked.typed().map(|typed| make(checked, typed, TARGET)) {
                Some(Ok(text)) => text,
                Some(Err(error)) => format!("// no text for GPUs: {error}\n"),
                None => String::new(),
            },
            Err(error) => format!("// no text for GPUs: {error}\n"),
        }
    }
}

fn compile(
    program: &Program,
    kernel: &Typed,
    target: Target,
    facts: &Facts,
    in_place: Option<(ArrayId, ArrayId)>,
) -> Result<Cuda, codegen::error::Error> {
    match in_place {
        None => codegen::compile(program, kernel, target, facts),
        Some((parameter, result)) => codegen::compile_in_place(program, kernel, target, facts, parameter, result),
    }
}

/// Whether wide accesses may be made to all of them.
fn aligned(inputs: &[&Untyped], outputs: &[&Untyped]) -> bool {
    inputs.iter().chain(outputs).all(|array| array.piece().is_aligned(ALIGNMENT))
}

/// So many arrays need no allocation.
const FEW: usize = 24;

/// Launches, with the pieces of memory on the stack if they are few.
fn launch(entry: &Entry, stream: &Stream, scalars: &[u64], inputs: &[&Untyped], outputs: &[&Untyped]) -> Result<(), Error> {
    let Some(device) = stream.device() else { return Err(Error::arguments("a stream of another device")) };
    let (mut few, mut many) = ([Piece::elsewhere(); FEW], Vec::new());
    let count = inputs.len() + outputs.len();
    let pieces: &mut [Piece] = if count <= FEW {
        &mut few[..count]
    } else {
        many.resize(count, Piece::elsewhere());
        &mut many
    };
    pieces.iter_mut().zip(inputs.iter().chain(outputs)).for_each(|(piece, array)| *piece = array.piece());
    let (reads, writes) = pieces.split_at(inputs.len());
    Ok(entry.layout.launch(device, scalars, reads, writes)?)
}

impl Stream {
    pub(crate) fn backend(&self) -> &Backend {
        &self.shared().backend
    }

    /// The device that it is of.
    pub fn gpu(&self) -> Gpu {
        Gpu::of_shared(self.shared())
    }
}

//! Kernels as the macro declares them, and what a call does.
//!
//! A [`Kernel`] is a static: text, and once it is used the checked program. A device keeps what it has [`Prepared`] of it: loaded
//! variants, and for each shape that it has met an [`Entry`] with everything evaluated. A call of a shape that is known looks it up
//! and launches; no allocation, nothing evaluated. Otherwise it binds the shapes (errors name the dims), plans, compiles and loads.
//! Variants whose contract comes out the same share their code, so that many shapes load few.

mod host;
mod prepare;
mod text;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;

use crate::bundle::Bundle;
use crate::error::Error;
use crate::gpu::{self, Backend, Gpu};
use crate::stream::Stream;
use crate::untyped::{Extents, Untyped};
use gpukc_dsl::call::{self, Bindings, CallArgument, scalar_value};
use gpukc_dsl::program::{ArrayId, Kernel as Typed, Parameter, Program, ScalarId};
use gpukc_dsl::source::Source;
use gpukc_runtime::launch::{Layout, Loaded};
use gpukc_runtime::memory::Piece;

pub(crate) use prepare::compile;

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
    fn typed(&self) -> &Typed {
        &self.program.kernels[self.kernel]
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
    /// The scalars that matter, and their bits.
    scalars: Vec<(ScalarId, u64)>,
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
    /// The extents of the arrays.
    shapes: SmallVec<[&'a Extents; 32]>,
    aligned: bool,
    /// The number of the array that the result takes the place of.
    in_place: Option<usize>,
}

impl<'a> Given<'a> {
    fn of(scalars: &'a [u64], arrays: &[&'a Untyped], pieces: &Pieces, in_place: Option<usize>) -> Given<'a> {
        let aligned = pieces.iter().all(|piece| piece.is_aligned(ALIGNMENT));
        Given { scalars, shapes: arrays.iter().map(|array| array.extents()).collect(), aligned, in_place }
    }

    fn fits(&self, key: &Key) -> bool {
        self.aligned == key.aligned
            && self.in_place == key.in_place
            && self.shapes.iter().copied().eq(&key.inputs)
            && key.scalars.iter().all(|(id, bits)| self.scalars.get(id.index()) == Some(bits))
    }
}

/// The memory of a call's arrays: those that are read, then those that are written. A call allocates nothing unless it has many.
type Pieces<'a> = SmallVec<[Piece<'a>; 32]>;

fn add<'a>(pieces: &mut Pieces<'a>, arrays: &[&'a Untyped]) {
    pieces.extend(arrays.iter().map(|array| array.piece()));
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
        let checked = gpukc_dsl::check(&source);
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
        arrays: &[&Untyped],
    ) -> Result<[Untyped; RESULTS], Error> {
        let checked = self.checked()?;
        let gpu = stream.gpu();
        let mut pieces = Pieces::new();
        add(&mut pieces, arrays);
        let given = Given::of(scalars, arrays, &pieces, None);
        let results = match gpu.backend() {
            Backend::Cpu => {
                let bindings = self.bind(checked, &given)?;
                let results = self.run_on_cpu(checked, stream, arrays, &bindings)?;
                results.into_iter().map(|tensor| Untyped::of_tensor(&gpu, tensor)).collect::<Result<Vec<_>, _>>()?
            }
            Backend::Cuda(cuda) => {
                let entry = self.entry(checked, cuda, &given)?;
                let results = self.new_results(checked, &gpu, stream, &entry)?;
                let all: Pieces = pieces.iter().copied().chain(results.iter().map(Untyped::piece)).collect();
                let launched = launch(&entry, stream, scalars, &all, arrays.len());
                launched.map_err(|error| self.about_arguments(checked, stream, arrays, &[], error))?;
                drop(all);
                results
            }
        };
        results.try_into().map_err(|_| Error::bug(format!("kernel `{}` has another number of results", self.name)))
    }

    fn new_results(&self, checked: &Checked, gpu: &Gpu, stream: &Stream, entry: &Entry) -> Result<Vec<Untyped>, Error> {
        let typed = checked.typed();
        let made = entry.results.iter().zip(&typed.results).map(|(extents, &id)| {
            let array = Untyped::unspecified(gpu, stream, typed.arrays[id].element, *extents)?;
            // Where a check may end the kernel early, what it leaves out must not show what was there before.
            if entry.layout.loaded().checks()
                && let Some(device) = stream.device()
            {
                device.zero(array.piece())?;
            }
            Ok(array)
        });
        made.collect()
    }

    /// A call that writes into existing arrays.
    pub fn call_into(&self, stream: &Stream, scalars: &[u64], arrays: &[&Untyped], outputs: &[&Untyped]) -> Result<(), Error> {
        let checked = self.checked()?;
        let mut pieces = Pieces::new();
        add(&mut pieces, arrays);
        add(&mut pieces, outputs);
        let given = Given::of(scalars, arrays, &pieces, None);
        match stream.backend() {
            Backend::Cpu => self.write_on_cpu(checked, stream, &given, arrays, outputs),
            Backend::Cuda(cuda) => {
                let entry = self.entry(checked, cuda, &given)?;
                if !entry.results.iter().eq(outputs.iter().map(|output| output.extents())) {
                    self.check_outputs(checked, &self.bind(checked, &given)?, outputs)?;
                }
                let launched = launch(&entry, stream, scalars, &pieces, arrays.len());
                launched.map_err(|error| self.about_arguments(checked, stream, arrays, outputs, error))
            }
        }
    }

    /// A call whose result takes the place of the array with the number `at`.
    pub fn call_in_place(&self, stream: &Stream, scalars: &[u64], arrays: &[&Untyped], at: usize) -> Result<(), Error> {
        let checked = self.checked()?;
        let (Some((before, rest)), mut pieces) = (arrays.split_at_checked(at), Pieces::new()) else {
            return Err(Error::bug(format!("kernel `{}` has fewer arrays", self.name)));
        };
        let Some((target, after)) = rest.split_first() else {
            return Err(Error::bug(format!("kernel `{}` has fewer arrays", self.name)));
        };
        [before, after, &[*target]].into_iter().for_each(|arrays| add(&mut pieces, arrays));
        let given = Given::of(scalars, arrays, &pieces, Some(at));
        match stream.backend() {
            Backend::Cpu => self.write_on_cpu(checked, stream, &given, arrays, &[target]),
            Backend::Cuda(cuda) => {
                let entry = self.entry(checked, cuda, &given)?;
                let launched = launch(&entry, stream, scalars, &pieces, arrays.len() - 1);
                launched.map_err(|error| self.about_arguments(checked, stream, arrays, &[], error))
            }
        }
    }

    /// How long the driver's own launches of such a call take the host, for so many calls.
    pub fn time_bare(
        &self,
        stream: &Stream,
        scalars: &[u64],
        arrays: &[&Untyped],
        outputs: &[&Untyped],
        count: usize,
    ) -> Result<Duration, Error> {
        let checked = self.checked()?;
        let mut pieces = Pieces::new();
        add(&mut pieces, arrays);
        add(&mut pieces, outputs);
        let given = Given::of(scalars, arrays, &pieces, None);
        let (Backend::Cuda(cuda), Some(device)) = (stream.backend(), stream.device()) else { return Ok(Duration::ZERO) };
        let entry = self.entry(checked, cuda, &given)?;
        let (reads, writes) = pieces.split_at(arrays.len());
        Ok(entry.layout.time_bare(device, scalars, reads, writes, count)?)
    }

    /// Makes everything ready that a call with arrays of these shapes needs, of fresh memory. `in_place` is the number of the array
    /// that the result takes the place of.
    pub fn prepare(&self, gpu: &Gpu, scalars: &[u64], shapes: &[&[usize]], in_place: Option<usize>) -> Result<(), Error> {
        let checked = self.checked()?;
        let extents = |shape: &&[usize]| {
            Extents::new(shape).ok_or_else(|| Error::arguments(format!("{}: an array can't have the shape {shape:?}", self.name)))
        };
        let shapes = shapes.iter().map(extents).collect::<Result<Vec<_>, _>>()?;
        let given = Given { scalars, shapes: shapes.iter().collect(), aligned: true, in_place };
        match gpu.backend() {
            Backend::Cpu => self.bind(checked, &given).map(drop),
            Backend::Cuda(cuda) => self.entry(checked, cuda, &given).map(drop),
        }
    }

    /// Names the argument that is on another device, if that is what has failed.
    fn about_arguments(&self, checked: &Checked, stream: &Stream, arrays: &[&Untyped], outputs: &[&Untyped], error: Error) -> Error {
        self.foreign(checked, stream, arrays, outputs).err().unwrap_or(error)
    }

    /// All arrays are of the stream's device.
    fn foreign(&self, checked: &Checked, stream: &Stream, arrays: &[&Untyped], outputs: &[&Untyped]) -> Result<(), Error> {
        let typed = checked.typed();
        let inputs = checked.arrays.iter().zip(arrays);
        let Some((&id, array)) = inputs.chain(typed.results.iter().zip(outputs)).find(|(_, array)| !array.gpu().is(stream.shared()))
        else {
            return Ok(());
        };
        let (own, other) = (stream.gpu().info(), array.gpu().info());
        let (kernel, name) = (self.name, &typed.arrays[id].name);
        Err(Error::arguments(if own == other {
            format!(
                "{kernel}: `{name}` is of another `Gpu` than the call, though of the same device: arrays belong to a `Gpu` and its clones"
            )
        } else {
            format!("{kernel}: `{name}` is on another device ({}) than the call ({})", other.called(), own.called())
        }))
    }

    /// Outputs have the shapes that the inputs say.
    fn check_outputs(&self, checked: &Checked, bindings: &Bindings, outputs: &[&Untyped]) -> Result<(), Error> {
        let typed = checked.typed();
        typed.results.iter().zip(outputs).try_for_each(|(&result, output)| {
            call::check_result(typed, bindings, result, output.extents().as_slice())
                .map_err(|error| Error::call(&error, &checked.source))
        })
    }

    /// Binds the shapes and scalars of a call.
    fn bind(&self, checked: &Checked, given: &Given) -> Result<Bindings, Error> {
        let typed = checked.typed();
        let mut shapes = given.shapes.iter();
        let mut arguments = Vec::with_capacity(typed.parameters.len());
        for parameter in &typed.parameters {
            let missing = || Error::bug(format!("a call of `{}` with too few arguments", self.name));
            arguments.push(match *parameter {
                Parameter::Scalar(id) => {
                    let bits = given.scalars.get(id.index()).ok_or_else(missing)?;
                    CallArgument::Scalar(scalar_value(typed.scalars[id].ty, *bits))
                }
                Parameter::Array(id) => {
                    CallArgument::Array { element: typed.arrays[id].element, shape: shapes.next().ok_or_else(missing)?.as_slice() }
                }
            });
        }
        call::bind(typed, &arguments).map_err(|error| Error::call(&error, &checked.source))
    }
}

fn launch(entry: &Entry, stream: &Stream, scalars: &[u64], pieces: &Pieces, reads: usize) -> Result<(), Error> {
    let Some(device) = stream.device() else {
        return Err(Error::arguments("a stream of another device, or of this one opened again"));
    };
    let (reads, writes) = pieces.split_at(reads);
    Ok(entry.layout.launch(device, scalars, reads, writes)?)
}

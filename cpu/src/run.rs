//! Runs kernels: statement by statement, points of a statement spread over the cores.

use std::fmt;

use gpukc_dsl::arena::Id;
use gpukc_dsl::call::Bindings;
use gpukc_dsl::program::*;
use gpukc_dsl::source::Span;
use gpukc_dsl::types::{AccumulateOp, Reducer, Type};

use crate::build::{self, Bound, Context, HashMap, Replaced, Run, Target, Value};
use crate::code::Step;
use crate::exec::{Failure, Machine};
use crate::frame::{Frame, Layout};
use crate::ops::{self, Number, Tag, Unsupported, with_store};
use crate::points::{constant, define_monotone, is_monotone, scatter, scatter_apart};
use crate::sweep::Sweep;
use crate::tensor::{Data, Element, Store, Tensor};
use crate::{cost, plan, reduce};

/// What is given for a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A scalar; its value stands in the bindings.
    Scalar,
    /// An array.
    Array(&'a Tensor),
}

/// Which way lanes run along reductions. Results are the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// Whichever seems faster.
    #[default]
    Auto,
    /// Along the terms, where that is possible.
    Terms,
    /// Along the outputs.
    Outputs,
}

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How many threads; 0 for as many as there are cores.
    pub threads: usize,
    /// For tests.
    pub lanes: Lanes,
    /// Lanes of a column; 0 to have it chosen. For tests.
    pub width: usize,
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum RunError {
    /// A checked subscript was out of range.
    OutOfRange {
        /// The kernel's name.
        kernel: String,
        /// The subscript.
        span: Span,
        /// The array's name.
        array: String,
        /// The index.
        index: i64,
        /// On this axis.
        axis: usize,
        /// Whose extent this is.
        extent: i64,
    },
    /// Memory for an array can't be had.
    Memory {
        /// The kernel's name.
        kernel: String,
        /// The array's name.
        array: String,
        /// What it takes.
        bytes: u128,
    },
    /// Arguments that the bindings do not describe.
    Argument {
        /// The kernel's name.
        kernel: String,
        /// The parameter's name.
        array: String,
    },
    /// The program holds something that no checked program does.
    Unsupported {
        /// The kernel's name.
        kernel: String,
        /// What it is.
        what: String,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::OutOfRange { kernel, array, index, axis, extent, .. } => {
                write!(f, "{kernel}: index {index} is out of range for axis {axis} of {array}, extent {extent}")
            }
            RunError::Memory { kernel, array, bytes } => {
                write!(f, "{kernel}: no memory for {array}, {bytes} bytes")
            }
            RunError::Argument { kernel, array } => write!(f, "{kernel}: the argument for {array} is not as bound"),
            RunError::Unsupported { kernel, what } => write!(f, "{kernel}: the CPU device can't compute {what}"),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs a kernel. Results come in the order of the kernel's.
pub fn run(
    program: &Program,
    kernel: &Kernel,
    bindings: &Bindings,
    arguments: &[Argument],
    options: &Options,
) -> Result<Vec<Tensor>, RunError> {
    let threads = if options.threads == 0 { rayon::current_num_threads() } else { options.threads };
    match pool(options.threads) {
        Some(pool) => pool.install(|| run_here(program, kernel, bindings, arguments, options, threads)),
        None => run_here(program, kernel, bindings, arguments, options, threads),
    }
}

/// A pool of that many threads, if it is not the common one; made once.
fn pool(threads: usize) -> Option<std::sync::Arc<rayon::ThreadPool>> {
    use std::sync::{Arc, Mutex};
    static POOLS: Mutex<Vec<(usize, Arc<rayon::ThreadPool>)>> = Mutex::new(Vec::new());
    // A single thread asks nobody for help.
    if threads <= 1 {
        return None;
    }
    let mut pools = POOLS.lock().ok()?;
    if let Some((_, pool)) = pools.iter().find(|pool| pool.0 == threads) {
        return Some(pool.clone());
    }
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok()?);
    pools.push((threads, pool.clone()));
    Some(pool)
}

enum Slot<'a> {
    Empty,
    Given(&'a Data),
    Owned(Data),
    /// An accumulation's result in its widened type.
    Wide(Data),
}

struct Runner<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    bindings: &'a Bindings,
    options: &'a Options,
    threads: usize,
    width: usize,
    slots: Vec<Slot<'a>>,
    extents: Vec<Vec<i64>>,
    elements: Vec<Type>,
    ranges: HashMap<VariableId, Ranged>,
    replaced: Replaced,
}

enum Stop {
    Failure(Failure),
    Memory(usize, u128),
    Unsupported(String),
}
impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failure(failure)
    }
}
impl From<Unsupported> for Stop {
    fn from(unsupported: Unsupported) -> Stop {
        Stop::Unsupported(unsupported.0)
    }
}

fn run_here(
    program: &Program,
    kernel: &Kernel,
    bindings: &Bindings,
    arguments: &[Argument],
    options: &Options,
    threads: usize,
) -> Result<Vec<Tensor>, RunError> {
    let mut slots: Vec<Slot> = kernel.arrays.ids().map(|_| Slot::Empty).collect();
    for (parameter, argument) in kernel.parameters.iter().zip(arguments) {
        if let Parameter::Array(id) = parameter {
            let array = &kernel.arrays[*id];
            match argument {
                Argument::Array(tensor)
                    if tensor.element() == array.element && tensor.shape() == &bindings.extents[id.index()][..] =>
                {
                    slots[id.index()] = Slot::Given(tensor.data());
                }
                _ => return Err(RunError::Argument { kernel: kernel.name.clone(), array: array.name.clone() }),
            }
        }
    }
    let mut ranges = HashMap::default();
    for statement in &kernel.statements {
        ranges.extend(statement.variables.iter().map(|ranged| (ranged.variable, *ranged)));
    }
    for (_, expr) in kernel.exprs.iter() {
        if let ExprKind::Reduce(reduce) = &expr.kind {
            ranges.extend(reduce.variables.iter().map(|ranged| (ranged.variable, *ranged)));
        }
    }
    let largest = kernel.arrays.ids().map(|id| bindings.elements(id)).max().unwrap_or(1).max(1);
    let width = if options.width > 0 { options.width.max(2) } else { (largest as u64).clamp(32, 1024).next_power_of_two() as usize };
    let mut runner = Runner {
        program,
        kernel,
        bindings,
        options,
        threads,
        width,
        slots,
        extents: bindings.extents.clone(),
        elements: kernel.arrays.iter().map(|(_, array)| array.element).collect(),
        ranges,
        replaced: Replaced::default(),
    };
    let name = |array: usize| match array < kernel.arrays.len() {
        true => kernel.arrays[Id::new(array)].name.clone(),
        false => "an intermediate result".to_string(),
    };
    let outcome = runner.all();
    let kernel_name = kernel.name.clone();
    outcome.map_err(|stop| match stop {
        Stop::Failure(Failure::OutOfRange { span, array, index, axis, extent }) => {
            RunError::OutOfRange { kernel: kernel_name.clone(), span, array: name(array), index, axis, extent }
        }
        Stop::Failure(Failure::Memory { bytes }) => {
            RunError::Memory { kernel: kernel_name.clone(), array: "the terms of a scan".into(), bytes }
        }
        Stop::Failure(Failure::Skewed) => RunError::Unsupported { kernel: kernel_name.clone(), what: "ragged lanes".into() },
        Stop::Memory(array, bytes) => RunError::Memory { kernel: kernel_name.clone(), array: name(array), bytes },
        Stop::Unsupported(what) => RunError::Unsupported { kernel: kernel_name.clone(), what },
    })
}

impl<'a> Runner<'a> {
    fn context(&self) -> Context<'_> {
        Context {
            program: self.program,
            kernel: self.kernel,
            bindings: self.bindings,
            extents: &self.extents,
            elements: &self.elements,
            replaced: &self.replaced,
            ranges: &self.ranges,
            width: self.width,
        }
    }

    fn all(&mut self) -> Result<Vec<Tensor>, Stop> {
        // After which statement an array is not needed any more.
        let mut last = vec![0; self.kernel.arrays.len()];
        for (at, statement) in self.kernel.statements.iter().enumerate() {
            last[statement.array.index()] = at;
            for array in arrays_read(self.kernel, statement) {
                last[array.index()] = at;
            }
        }
        for at in 0..self.kernel.statements.len() {
            self.statement(&self.kernel.statements[at])?;
            for (id, array) in self.kernel.arrays.iter() {
                if array.role == Role::Let && last[id.index()] == at {
                    self.slots[id.index()] = Slot::Empty;
                }
            }
            self.slots.truncate(self.kernel.arrays.len());
            self.extents.truncate(self.kernel.arrays.len());
            self.elements.truncate(self.kernel.arrays.len());
            self.replaced.clear();
        }
        let results = self.kernel.results.clone();
        results.into_iter().map(|id| self.finish(id.index())).collect()
    }

    /// Takes a result out.
    fn finish(&mut self, array: usize) -> Result<Tensor, Stop> {
        self.settle(array)?;
        let data = match std::mem::replace(&mut self.slots[array], Slot::Empty) {
            Slot::Owned(data) | Slot::Wide(data) => data,
            Slot::Given(data) => data.clone(),
            // Nothing defines it: it has no elements, or the program is not a checked one.
            Slot::Empty => self.zeros(array, self.elements[array])?,
        };
        Ok(Tensor::from_parts(self.elements[array], self.extents[array].clone(), data))
    }

    fn zeros(&self, array: usize, ty: Type) -> Result<Data, Stop> {
        let extents = &self.extents[array];
        let elements = extents.iter().map(|&extent| extent.max(0) as u128).product::<u128>();
        let bytes = elements * ty.size() as u128;
        let len = usize::try_from(elements).ok().filter(|_| bytes < 1 << 62);
        len.and_then(|len| Data::zeros(Store::of(ty), len)).ok_or(Stop::Memory(array, bytes))
    }

    /// Ends an accumulation: its result in its own type.
    fn settle(&mut self, array: usize) -> Result<(), Stop> {
        if let Slot::Wide(_) = self.slots[array] {
            let ty = self.elements[array];
            if let Slot::Wide(wide) = std::mem::replace(&mut self.slots[array], Slot::Empty) {
                let data = if ty.is_storage() { self.convert(array, &wide, ty.widened(), ty)? } else { wide };
                self.slots[array] = Slot::Owned(data);
            }
        }
        Ok(())
    }

    fn convert(&self, array: usize, data: &Data, from: Type, to: Type) -> Result<Data, Stop> {
        const TOGETHER: usize = 1024;
        let mut out = self.zeros(array, to)?;
        let mut layout = Layout::default();
        let (a, b) = (layout.add(Store::of(from), true), layout.add(Store::of(to), true));
        let mut frame = Frame::new(&layout, 0, TOGETHER);
        let cast = ops::cast(from, to);
        for start in (0..data.len()).step_by(TOGETHER) {
            frame.n = TOGETHER.min(data.len() - start);
            with_store!(a.store, T => frame.load::<T>(a.index, data, start));
            cast(&mut frame, b.index, a.index);
            with_store!(b.store, T => frame.unload::<T>(b.index, &mut out, start));
        }
        Ok(out)
    }

    fn statement(&mut self, statement: &'a Statement) -> Result<(), Stop> {
        let kernel = self.kernel;
        for array in arrays_read(kernel, statement) {
            self.settle(array.index())?;
        }
        let variables: Vec<Run> = statement.variables.iter().map(Run::from).collect();
        let boxed = build::is_boxed(self.context(), &variables);
        let array = statement.array.index();
        let nothing = boxed && variables.iter().any(|run| self.extent_of(run) == 0);
        if nothing && statement.kind == StatementKind::Define {
            if let Slot::Empty = self.slots[array] {
                self.slots[array] = Slot::Owned(self.zeros(array, self.elements[array])?);
            }
            return Ok(());
        }
        let want = match statement.kind {
            StatementKind::Define => kernel.arrays[statement.array].element,
            StatementKind::Accumulate { .. } => kernel.arrays[statement.array].element.widened(),
        };
        let mut lanes = if boxed { self.lanes_of(&variables) } else { usize::from(!variables.is_empty()) };
        // Reductions that are better computed by themselves, before.
        let mut bare = statement.value;
        while let ExprKind::Cast(inner) = kernel.exprs[bare].kind {
            bare = inner;
        }
        let found = if nothing { Vec::new() } else { plan::reductions(kernel, statement.value) };
        for found in found {
            let ExprKind::Reduce(reduce) = &kernel.exprs[found.expr].kind else { continue };
            if let Order::Scan(scan) = &reduce.order {
                if !self.extract_scan(statement, &found, reduce, scan)? {
                    // Term by term, for each output by itself.
                    lanes = 0;
                }
                continue;
            }
            if !boxed || !found.around.is_empty() {
                continue;
            }
            let context = self.context();
            if found.guarded && plan::may_fail(context, found.expr) {
                continue;
            }
            let mentioned = plan::mentioned(context, found.expr);
            let some = |run: &&Run| mentioned.contains(&run.variable) || self.extent_of(run) == 1;
            if variables.iter().all(|run| some(&run)) {
                let terms = reduce.variables.iter().map(|ranged| self.extent_of(&Run::from(ranged)));
                let few = build::is_boxed(context, &reduce.variables.iter().map(Run::from).collect::<Vec<_>>())
                    && terms.product::<i64>() <= 32
                    && variables.iter().map(|run| self.extent_of(run)).product::<i64>() >= 64;
                if lanes == 0 || few && self.options.lanes == Lanes::Auto {
                    continue;
                }
                let value = Value { filter: None, expr: found.expr, want: kernel.exprs[found.expr].ty };
                let terms = build::statement(context, &variables, Target::Next, value, 0, false)?;
                let better = match self.options.lanes {
                    Lanes::Terms => true,
                    Lanes::Outputs => false,
                    Lanes::Auto => {
                        let outputs = build::statement(context, &variables, Target::Next, value, lanes, false)?;
                        cost::of(&terms, context) < cost::of(&outputs, context)
                    }
                };
                if better && bare == found.expr {
                    lanes = 0;
                } else if better || terms.is_ragged() && bare != found.expr {
                    self.extract(found.expr, variables.clone(), if better { 0 } else { lanes })?;
                }
            } else {
                let own: Vec<Run> = variables.iter().filter(|run| mentioned.contains(&run.variable)).copied().collect();
                let value = Value { filter: None, expr: found.expr, want: kernel.exprs[found.expr].ty };
                let lanes = self.lanes_of(&own);
                let outputs = build::statement(context, &own, Target::Next, value, lanes, false)?;
                let terms = build::statement(context, &own, Target::Next, value, 0, false)?;
                let along = match self.options.lanes {
                    Lanes::Terms => true,
                    Lanes::Outputs => false,
                    Lanes::Auto => cost::of(&terms, context) < cost::of(&outputs, context),
                };
                self.extract(found.expr, own, if along { 0 } else { lanes })?;
            }
        }
        if self.take_over(statement, &variables, boxed) {
            return Ok(());
        }
        let value = Value { filter: None, expr: statement.value, want };
        let target = Target::Array(array, &statement.subscripts);
        let step = build::statement(self.context(), &variables, target, value, lanes, !boxed)?;
        let single = if lanes > 0 && boxed && step.is_ragged() {
            Some(build::statement(self.context(), &variables, target, value, 0, false)?)
        } else {
            None
        };
        match statement.kind {
            StatementKind::Define => {
                let data = match std::mem::replace(&mut self.slots[array], Slot::Empty) {
                    Slot::Owned(data) => data,
                    _ => self.zeros(array, self.elements[array])?,
                };
                let data = self.define(array, &step, single.as_ref(), data)?;
                self.slots[array] = Slot::Owned(data);
            }
            StatementKind::Accumulate { op, from_identity } => {
                let data = match std::mem::replace(&mut self.slots[array], Slot::Empty) {
                    Slot::Wide(data) if !from_identity => data,
                    Slot::Owned(data) if !from_identity => {
                        let ty = self.elements[array];
                        if ty.is_storage() { self.convert(array, &data, ty, ty.widened())? } else { data }
                    }
                    _ => {
                        let mut data = self.zeros(array, want)?;
                        fill_identity(&mut data, op, self.elements[array]);
                        data
                    }
                };
                let data = self.accumulate(array, &step, data, op)?;
                self.slots[array] = Slot::Wide(data);
            }
        }
        Ok(())
    }

    /// If the value stands in a hidden array already, as the whole of the statement's own array, nothing is left to do.
    fn take_over(&mut self, statement: &Statement, variables: &[Run], boxed: bool) -> bool {
        let array = statement.array.index();
        let Some((hidden, order)) = self.replaced.get(&statement.value) else { return false };
        let hidden = *hidden;
        let whole = boxed
            && statement.kind == StatementKind::Define
            && order.iter().eq(variables.iter().map(|run| &run.variable))
            && self.extents[hidden] == self.extents[array]
            && variables.iter().all(|run| self.context().bound(run.lo) == Some(0))
            && statement.subscripts.len() == variables.len()
            && statement
                .subscripts
                .iter()
                .zip(variables)
                .all(|(subscript, run)| self.kernel.exprs[subscript.index].kind == ExprKind::Variable(run.variable));
        if !whole {
            return false;
        }
        match std::mem::replace(&mut self.slots[hidden], Slot::Empty) {
            Slot::Owned(data) if data.store() == Store::of(self.elements[array]) => {
                self.slots[array] = Slot::Owned(data);
                true
            }
            other => {
                self.slots[hidden] = other;
                false
            }
        }
    }

    fn extent_of(&self, run: &Run) -> i64 {
        let context = self.context();
        build::extent(context.bound(run.lo).unwrap_or(0), context.bound(run.hi).unwrap_or(0))
    }

    /// How many of the last variables share the lanes.
    fn lanes_of(&self, variables: &[Run]) -> usize {
        let mut lanes = 0;
        let mut points = 1i64;
        for run in variables.iter().rev() {
            if points >= self.width as i64 || lanes == 1 && points >= self.width as i64 / 4 {
                break;
            }
            points = points.saturating_mul(self.extent_of(run));
            lanes += 1;
        }
        lanes
    }

    /// Computes a reduction into an array of its own.
    fn extract(&mut self, expr: ExprId, variables: Vec<Run>, lanes: usize) -> Result<(), Stop> {
        let ty = self.kernel.exprs[expr].ty;
        let value = Value { filter: None, expr, want: ty };
        let step = build::statement(self.context(), &variables, Target::Next, value, lanes, false)?;
        let single = if lanes > 0 && step.is_ragged() {
            Some(build::statement(self.context(), &variables, Target::Next, value, 0, false)?)
        } else {
            None
        };
        let array = self.hidden(ty, &variables);
        let data = self.zeros(array, ty)?;
        let data = self.define(array, &step, single.as_ref(), data)?;
        self.slots[array] = Slot::Owned(data);
        self.replaced.insert(expr, (array, variables.iter().map(|run| run.variable).collect()));
        Ok(())
    }

    fn hidden(&mut self, ty: Type, variables: &[Run]) -> usize {
        let extents = variables.iter().map(|run| self.extent_of(run)).collect();
        self.extents.push(extents);
        self.elements.push(ty);
        self.slots.push(Slot::Empty);
        self.slots.len() - 1
    }

    fn data(&self) -> Vec<Option<&Data>> {
        self.slots
            .iter()
            .map(|slot| match slot {
                Slot::Empty => None,
                Slot::Given(data) => Some(*data),
                Slot::Owned(data) | Slot::Wide(data) => Some(data),
            })
            .collect()
    }

    fn define(&self, array: usize, step: &Step, single: Option<&Step>, mut data: Data) -> Result<Data, Stop> {
        let arrays = self.data();
        let machine = Machine { arrays: &arrays, width: self.width, threads: self.threads };
        let cost = cost::of(step, self.context());
        with_store!(data.store(), T => {
            if let Some(out) = T::slice_mut(&mut data) {
                if !step.nested && is_monotone(step) {
                    define_monotone::<T>(&machine, step, single, out, cost)?;
                } else {
                    scatter::<T>(&machine, step, array, cost, &mut |offsets, values| {
                        for (&offset, &value) in offsets.iter().zip(values) {
                            if let Some(place) = out.get_mut(offset as usize) {
                                *place = value;
                            }
                        }
                    })?;
                }
            }
        });
        Ok(data)
    }

    fn accumulate(&self, array: usize, step: &Step, mut data: Data, op: AccumulateOp) -> Result<Data, Stop> {
        let arrays = self.data();
        let machine = Machine { arrays: &arrays, width: self.width, threads: self.threads };
        let cost = cost::of(step, self.context());
        let points: f64 = step.variables.iter().map(|(_, len)| constant(len) as f64).product();
        let widened = self.elements[array].widened();
        let exact = !widened.is_float() || matches!(op, AccumulateOp::Min | AccumulateOp::Max);
        // Every task needs an array of its own.
        let pays = points > 16384.0 && points > 4.0 * (data.len() * self.threads) as f64;
        let apart = exact && pays && !step.nested && self.threads > 1;
        macro_rules! apply {
            ($t:ty, $combine:expr) => {
                if apart {
                    let mut none = Data::zeros(Store::of(widened), 1).ok_or(Stop::Memory(array, 8))?;
                    fill_identity(&mut none, op, widened);
                    let none = <$t as Tag>::E::slice(&none).map_or(Default::default(), |none| none[0]);
                    if let Some(out) = <$t as Tag>::E::slice_mut(&mut data) {
                        scatter_apart::<<$t as Tag>::E>(&machine, step, array, cost, none, &$combine, out)?;
                    }
                } else if let Some(out) = <$t as Tag>::E::slice_mut(&mut data) {
                    scatter::<<$t as Tag>::E>(&machine, step, array, cost, &mut |offsets, values| {
                        for (&offset, &value) in offsets.iter().zip(values) {
                            if let Some(place) = out.get_mut(offset as usize) {
                                *place = $combine(*place, value);
                            }
                        }
                    })?;
                }
            };
        }
        macro_rules! number {
            ($t:ty) => {
                match op {
                    AccumulateOp::Add => apply!($t, <$t as Number>::add),
                    AccumulateOp::Mul => apply!($t, <$t as Number>::mul),
                    AccumulateOp::Min => apply!($t, <$t as Tag>::min),
                    AccumulateOp::Max => apply!($t, <$t as Tag>::max),
                    AccumulateOp::Or | AccumulateOp::And => return Err(Stop::Unsupported(format!("{op} of floats"))),
                }
            };
        }
        macro_rules! integer {
            ($t:ty) => {
                match op {
                    AccumulateOp::Or => apply!($t, <$t as ops::Bits>::or),
                    AccumulateOp::And => apply!($t, <$t as ops::Bits>::and),
                    _ => number!($t),
                }
            };
        }
        match self.elements[array].widened() {
            Type::I32 => integer!(ops::I32),
            Type::I64 => integer!(ops::I64),
            Type::U32 => integer!(ops::U32),
            Type::U64 => integer!(ops::U64),
            Type::F32 => number!(ops::F32),
            Type::F64 => number!(ops::F64),
            Type::Bool => match op {
                AccumulateOp::Or | AccumulateOp::Max | AccumulateOp::Add => apply!(ops::Bool, <ops::Bool as Tag>::max),
                AccumulateOp::And | AccumulateOp::Min | AccumulateOp::Mul => apply!(ops::Bool, <ops::Bool as Tag>::min),
            },
            ty => return Err(Stop::Unsupported(format!("{op} of {ty}"))),
        }
        Ok(data)
    }

    /// Computes a scan into an array of its own, along its variable; false if it can't be done before the statement.
    fn extract_scan(&mut self, statement: &Statement, place: &plan::Found, reduce: &Reduce, scan: &Scan) -> Result<bool, Stop> {
        let kernel = self.kernel;
        let context = self.context();
        let [ranged] = reduce.variables[..] else { return Ok(false) };
        if place.guarded && plan::may_fail(context, place.expr) {
            return Ok(false);
        }
        let constant = |variable: &VariableId| {
            let ranged = context.ranges.get(variable)?;
            let run = Run::from(ranged);
            (context.bound(run.lo).is_some() && context.bound(run.hi).is_some()).then_some(run)
        };
        let Some(along) = constant(&scan.along) else { return Ok(false) };
        let (lo, hi) = (context.bound(along.lo).unwrap_or(0), context.bound(along.hi).unwrap_or(0));
        let forward = scan.direction == Direction::Forward;
        // The other end, the filter and the body decide how many scans there are.
        let end = if forward { ranged.lo } else { ranged.hi };
        let mut free = plan::mentioned_by(kernel, &[end], &[]);
        let inner: Vec<ExprId> = reduce.filter.into_iter().chain([reduce.body]).collect();
        for variable in plan::mentioned_by(kernel, &inner, &[ranged.variable]) {
            if !free.contains(&variable) {
                free.push(variable);
            }
        }
        if free.contains(&scan.along) {
            return Ok(false);
        }
        // In the statement's order, variables of reductions around last.
        let order = |variable: &VariableId| statement.variables.iter().position(|v| v.variable == *variable);
        free.sort_by_key(|variable| order(variable).unwrap_or(usize::MAX));
        let Some(mut variables) = free.iter().map(constant).collect::<Option<Vec<Run>>>() else { return Ok(false) };
        if !place.around.is_empty() && plan::may_fail(context, place.expr) {
            return Ok(false);
        }
        let rows = variables.clone();
        // The term's own range, as far as any output reaches.
        let shift = i64::from(scan.inclusive);
        let run = if forward {
            Run { variable: ranged.variable, lo: Bound::Expr(ranged.lo), hi: Bound::Const(hi - 1 + shift) }
        } else {
            Run { variable: ranged.variable, lo: Bound::Const(lo + 1 - shift), hi: Bound::Expr(ranged.hi) }
        };
        let mut all = rows.clone();
        all.push(run);
        let ty = kernel.exprs[place.expr].ty;
        let term = kernel.exprs[reduce.body].ty;
        // Comparisons happen in the widest type.
        let selects = matches!(reduce.reducer, Reducer::Min | Reducer::Max | Reducer::Argmin | Reducer::Argmax);
        let wide = match term {
            Type::U64 => Type::U64,
            term if term.is_float() => Type::F64,
            _ => Type::I64,
        };
        let want = if selects { wide } else { term };
        let value = Value { filter: reduce.filter, expr: reduce.body, want };
        let step = build::statement(context, &all, Target::Next, value, 1, true)?;
        variables.push(along);
        let array = self.hidden(ty, &variables);
        let found = if selects && ty == term { want } else { ty };
        let mut data = self.zeros(array, found)?;
        let arrays = self.data();
        let machine = Machine { arrays: &arrays, width: self.width, threads: self.threads };
        let scan = Sweep {
            step: &step,
            rows: rows.iter().map(|run| self.extent_of(run)).collect(),
            lo,
            extent: build::extent(lo, hi),
            forward,
            inclusive: scan.inclusive,
        };
        macro_rules! scanned {
            ($c:ty) => {
                scan.run::<$c>(&machine, &mut data)?
            };
        }
        match (reduce.reducer, want) {
            (Reducer::Sum, Type::I64) => scanned!(reduce::Sum<ops::I64>),
            (Reducer::Sum, Type::U64) => scanned!(reduce::Sum<ops::U64>),
            (Reducer::Sum, Type::F32) => scanned!(reduce::Sum<ops::F32>),
            (Reducer::Sum, Type::F64) => scanned!(reduce::Sum<ops::F64>),
            (Reducer::Prod, Type::I64) => scanned!(reduce::Prod<ops::I64>),
            (Reducer::Prod, Type::U64) => scanned!(reduce::Prod<ops::U64>),
            (Reducer::Prod, Type::F32) => scanned!(reduce::Prod<ops::F32>),
            (Reducer::Prod, Type::F64) => scanned!(reduce::Prod<ops::F64>),
            (Reducer::Min, Type::I64) => scanned!(reduce::Least<ops::I64>),
            (Reducer::Min, Type::U64) => scanned!(reduce::Least<ops::U64>),
            (Reducer::Min, Type::F64) => scanned!(reduce::Least<ops::F64>),
            (Reducer::Max, Type::I64) => scanned!(reduce::Greatest<ops::I64>),
            (Reducer::Max, Type::U64) => scanned!(reduce::Greatest<ops::U64>),
            (Reducer::Max, Type::F64) => scanned!(reduce::Greatest<ops::F64>),
            (Reducer::Any, Type::Bool) => scanned!(reduce::Any<ops::Bool>),
            (Reducer::All, Type::Bool) => scanned!(reduce::All<ops::Bool>),
            (Reducer::Count, Type::Bool) => scanned!(reduce::Count<ops::Bool>),
            (Reducer::Argmin, Type::I64) => scan.run_arg::<ops::I64, false>(&machine, &mut data)?,
            (Reducer::Argmin, Type::U64) => scan.run_arg::<ops::U64, false>(&machine, &mut data)?,
            (Reducer::Argmin, Type::F64) => scan.run_arg::<ops::F64, false>(&machine, &mut data)?,
            (Reducer::Argmax, Type::I64) => scan.run_arg::<ops::I64, true>(&machine, &mut data)?,
            (Reducer::Argmax, Type::U64) => scan.run_arg::<ops::U64, true>(&machine, &mut data)?,
            (Reducer::Argmax, Type::F64) => scan.run_arg::<ops::F64, true>(&machine, &mut data)?,
            (reducer, _) => return Err(Stop::Unsupported(format!("a scan {reducer} of {term}"))),
        }
        drop(arrays);
        if found != ty {
            // No terms give the narrow type's own limit.
            let (lo, hi) = ty.integer_range();
            match &mut data {
                Data::I64(values) => values.iter_mut().for_each(|v| *v = (*v).clamp(lo as i64, hi as i64)),
                Data::U64(values) => values.iter_mut().for_each(|v| *v = (*v).min(hi as u64)),
                _ => {}
            }
            data = self.convert(array, &data, found, ty)?;
        }
        self.slots[array] = Slot::Owned(data);
        self.replaced.insert(place.expr, (array, variables.iter().map(|run| run.variable).collect()));
        Ok(true)
    }
}

/// The arrays that a statement reads.
fn arrays_read(kernel: &Kernel, statement: &Statement) -> Vec<ArrayId> {
    let mut arrays = Vec::new();
    let mut open = vec![statement.value];
    open.extend(statement.subscripts.iter().map(|subscript| subscript.index));
    open.extend(statement.variables.iter().flat_map(|ranged| [ranged.lo, ranged.hi]));
    while let Some(expr) = open.pop() {
        if let ExprKind::Read { array, .. } = &kernel.exprs[expr].kind
            && !arrays.contains(array)
        {
            arrays.push(*array);
        }
        open.extend(plan::parts(kernel, expr));
    }
    arrays
}

/// The operator's identity in the widened type; of `min` and `max` the element type's own limit.
fn fill_identity(data: &mut Data, op: AccumulateOp, element: Type) {
    macro_rules! fill {
        ($data:expr, $ty:ty) => {{
            let (lo, hi) = element.integer_range();
            let one = match op {
                AccumulateOp::Add | AccumulateOp::Or => 0,
                AccumulateOp::Mul => 1,
                AccumulateOp::Min => hi,
                AccumulateOp::Max => lo,
                AccumulateOp::And if element.is_signed() => -1,
                AccumulateOp::And => hi,
            };
            $data.fill(one as $ty)
        }};
    }
    macro_rules! float {
        ($data:expr, $ty:ident) => {
            $data.fill(match op {
                AccumulateOp::Mul => 1.0,
                AccumulateOp::Min => $ty::INFINITY,
                AccumulateOp::Max => $ty::NEG_INFINITY,
                _ => 0.0,
            })
        };
    }
    match data {
        Data::U8(data) => fill!(data, u8),
        Data::I32(data) => fill!(data, i32),
        Data::I64(data) => fill!(data, i64),
        Data::U32(data) => fill!(data, u32),
        Data::U64(data) => fill!(data, u64),
        Data::F32(data) => float!(data, f32),
        Data::F64(data) => float!(data, f64),
        _ => {}
    }
}

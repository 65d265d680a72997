//! Runs kernels: statement by statement, points of a statement spread over the cores.

use std::collections::HashMap;
use std::fmt;

use gpukc_dsl::arena::Id;
use gpukc_dsl::call::Bindings;
use gpukc_dsl::program::*;
use gpukc_dsl::source::Span;
use gpukc_dsl::types::{AccumulateOp, Reducer, Type};
use pulp::NullaryFnOnce;
use rayon::prelude::*;

use crate::build::{self, Bound, Context, Replaced, Run, Target, Value};
use crate::code::{Len, Rule, Step};
use crate::exec::{self, Failure, Machine, Place, fill_flat, fill_index};
use crate::frame::{Frame, Lane};
use crate::lin::Atom;
use crate::ops::{self, Number, Op1, Tag, Unsupported, with_store};
use crate::reduce::Combine;
use crate::tensor::{Data, Element, Store, Tensor};
use crate::{cost, plan, reduce, scan, with_tag};

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
    let mut ranges = HashMap::new();
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
        replaced: Replaced::new(),
    };
    let name = |array: usize| match array < kernel.arrays.len() {
        true => kernel.arrays[Id::new(array)].name.clone(),
        false => "an intermediate result".to_string(),
    };
    let outcome = runner.all();
    let kernel_name = kernel.name.clone();
    outcome.map_err(|stop| match stop {
        Stop::Failure(failure) => RunError::OutOfRange {
            kernel: kernel_name.clone(),
            span: failure.span,
            array: name(failure.array),
            index: failure.index,
            axis: failure.axis,
            extent: failure.extent,
        },
        Stop::Memory(array, bytes) => RunError::Memory { kernel: kernel_name.clone(), array: name(array), bytes },
        Stop::Unsupported(what) => RunError::Unsupported { kernel: kernel_name.clone(), what },
    })
}

/// Nanoseconds of work below which other threads are not woken.
const LEAST_PARALLEL: f64 = 40_000.0;

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
            let mut open = vec![statement.value];
            open.extend(statement.subscripts.iter().map(|subscript| subscript.index));
            open.extend(statement.variables.iter().flat_map(|ranged| [ranged.lo, ranged.hi]));
            while let Some(expr) = open.pop() {
                if let ExprKind::Read { array, .. } = &self.kernel.exprs[expr].kind {
                    last[array.index()] = at;
                }
                open.extend(plan::parts(self.kernel, expr));
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
                let data = if ty.is_storage() { self.convert(array, wide, ty.widened(), ty)? } else { wide };
                self.slots[array] = Slot::Owned(data);
            }
        }
        Ok(())
    }

    fn convert(&self, array: usize, data: Data, from: Type, to: Type) -> Result<Data, Stop> {
        let mut out = self.zeros(array, to)?;
        let arch = pulp::Arch::new();
        with_tag!(from, A => with_tag!(to, B => {
            if let (Some(data), Some(out)) = (<A as Tag>::E::slice(&data), <B as Tag>::E::slice_mut(&mut out)) {
                arch.dispatch(Convert::<A, B>(data, out));
            }
        }));
        Ok(out)
    }

    fn statement(&mut self, statement: &'a Statement) -> Result<(), Stop> {
        let kernel = self.kernel;
        // What is read must be settled.
        for array in 0..kernel.arrays.len() {
            if array != statement.array.index() {
                self.settle(array)?;
            }
        }
        let variables: Vec<Run> = statement.variables.iter().map(Run::from).collect();
        let boxed = build::is_boxed(self.context(), &variables);
        let array = statement.array.index();
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
        for found in plan::reductions(kernel, statement.value) {
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
                if lanes == 0 {
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
                } else if better {
                    self.extract(found.expr, variables.clone(), 0)?;
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
        let value = Value { filter: None, expr: statement.value, want };
        let target = Target::Array(array, &statement.subscripts);
        let step = build::statement(self.context(), &variables, target, value, lanes, !boxed)?;
        match statement.kind {
            StatementKind::Define => {
                let data = match std::mem::replace(&mut self.slots[array], Slot::Empty) {
                    Slot::Owned(data) => data,
                    _ => self.zeros(array, self.elements[array])?,
                };
                let data = self.define(array, &step, data)?;
                self.slots[array] = Slot::Owned(data);
            }
            StatementKind::Accumulate { op, from_identity } => {
                let data = match std::mem::replace(&mut self.slots[array], Slot::Empty) {
                    Slot::Wide(data) if !from_identity => data,
                    Slot::Owned(data) if !from_identity => {
                        let ty = self.elements[array];
                        if ty.is_storage() { self.convert(array, data, ty, ty.widened())? } else { data }
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
        let array = self.hidden(ty, &variables);
        let data = self.zeros(array, ty)?;
        let data = self.define(array, &step, data)?;
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

    fn define(&self, array: usize, step: &Step, mut data: Data) -> Result<Data, Stop> {
        let arrays = self.data();
        let machine = Machine { arrays: &arrays, width: self.width, threads: self.threads };
        let cost = cost::of(step, self.context());
        with_store!(data.store(), T => {
            if let Some(out) = T::slice_mut(&mut data) {
                if !step.nested && is_monotone(step) {
                    define_monotone::<T>(&machine, step, out, cost)?;
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
        macro_rules! apply {
            ($t:ty, $combine:expr) => {
                if let Some(out) = <$t as Tag>::E::slice_mut(&mut data) {
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
    fn extract_scan(&mut self, statement: &Statement, found: &plan::Found, reduce: &Reduce, scan: &Scan) -> Result<bool, Stop> {
        let kernel = self.kernel;
        let context = self.context();
        let [ranged] = reduce.variables[..] else { return Ok(false) };
        if found.guarded && plan::may_fail(context, found.expr) {
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
        if !found.around.is_empty() && plan::may_fail(context, found.expr) {
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
        let ty = kernel.exprs[found.expr].ty;
        let term = kernel.exprs[reduce.body].ty;
        let value = Value { filter: reduce.filter, expr: reduce.body, want: term };
        let step = build::statement(context, &all, Target::Next, value, 1, true)?;
        variables.push(along);
        let array = self.hidden(ty, &variables);
        let mut data = self.zeros(array, ty)?;
        let arrays = self.data();
        let machine = Machine { arrays: &arrays, width: self.width, threads: self.threads };
        let scan = ScanCode {
            step: &step,
            rows: rows.iter().map(|run| self.extent_of(run)).collect(),
            lo,
            extent: build::extent(lo, hi),
            forward,
            inclusive: scan.inclusive,
        };
        let (reducer, unsupported) = (reduce.reducer, || Stop::Unsupported(format!("a scan {} of {term}", reduce.reducer)));
        macro_rules! scanned {
            ($c:ty) => {
                scan.run::<$c>(&machine, &mut data)?
            };
        }
        macro_rules! number {
            ($c:ident) => {
                match term {
                    Type::I32 => scanned!(reduce::$c<ops::I32>),
                    Type::I64 => scanned!(reduce::$c<ops::I64>),
                    Type::U32 => scanned!(reduce::$c<ops::U32>),
                    Type::U64 => scanned!(reduce::$c<ops::U64>),
                    Type::F32 => scanned!(reduce::$c<ops::F32>),
                    Type::F64 => scanned!(reduce::$c<ops::F64>),
                    _ => return Err(unsupported()),
                }
            };
        }
        match reducer {
            Reducer::Sum => number!(Sum),
            Reducer::Prod => number!(Prod),
            Reducer::Min => with_tag!(term, T => scanned!(reduce::Least<T>)),
            Reducer::Max => with_tag!(term, T => scanned!(reduce::Greatest<T>)),
            Reducer::Any => scanned!(reduce::Any<ops::Bool>),
            Reducer::All => scanned!(reduce::All<ops::Bool>),
            Reducer::Count => scanned!(reduce::Count<ops::Bool>),
            Reducer::Argmin => with_tag!(term, T => scan.run_arg::<T, false>(&machine, &mut data)?),
            Reducer::Argmax => with_tag!(term, T => scan.run_arg::<T, true>(&machine, &mut data)?),
            Reducer::Mean => return Err(unsupported()),
        }
        drop(arrays);
        self.slots[array] = Slot::Owned(data);
        self.replaced.insert(found.expr, (array, variables.iter().map(|run| run.variable).collect()));
        Ok(true)
    }
}

struct Convert<'a, A: Tag, B: Tag>(&'a [A::E], &'a mut [B::E]);
impl<A: Tag, B: Tag> NullaryFnOnce for Convert<'_, A, B>
where
    ops::Cast<A, B>: Op1<A::E, B::E>,
{
    type Output = ();
    #[inline(always)]
    fn call(self) {
        for (out, &value) in self.1.iter_mut().zip(self.0) {
            *out = ops::Cast::<A, B>::op(value);
        }
    }
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

fn constant(len: &Len) -> i64 {
    if let Len::Const(n) = len { *n } else { 0 }
}

fn coefficients(step: &Step) -> Vec<(i64, i64)> {
    let of = |counter: u32| step.place.terms.iter().find(|term| term.0 == Atom::Counter(counter)).map_or(0, |term| term.1);
    step.variables.iter().map(|(counter, len)| (of(*counter), constant(len))).collect()
}

/// Whether offsets ascend as the points do.
fn is_monotone(step: &Step) -> bool {
    if !step.ruled.is_empty() || step.place.terms.iter().any(|term| matches!(term.0, Atom::Reg(_))) {
        return false;
    }
    let mut span = 0i128;
    for (coefficient, extent) in coefficients(step).into_iter().rev() {
        if extent > 1 {
            if i128::from(coefficient) <= span {
                return false;
            }
            span += i128::from(coefficient) * i128::from(extent - 1);
        }
    }
    true
}

/// A statement's points as chunks of lanes.
struct Space {
    outer: i64,
    inner: i64,
    chunks: i64,
    chunk: i64,
    outer_lens: Vec<i64>,
}

impl Space {
    fn new(step: &Step, machine: &Machine, cost: f64) -> Space {
        let lens: Vec<i64> = step.variables.iter().map(|(_, len)| constant(len)).collect();
        let first = lens.len() - step.lanes;
        let outer: i64 = lens[..first].iter().product();
        let inner: i64 = lens[first..].iter().product();
        let mut width = machine.width as i64;
        if machine.threads > 1 && cost > LEAST_PARALLEL && step.lanes > 0 {
            // Chunks for everyone.
            let share = outer.saturating_mul(inner) / (machine.threads as i64 * 2);
            width = width.min(share.max(64));
        }
        let chunks = (inner + width - 1) / width;
        let chunk = if chunks > 0 { (inner + chunks - 1) / chunks } else { 1 };
        let chunks = if inner > 0 { (inner + chunk - 1) / chunk } else { 0 };
        Space { outer, inner, chunks, chunk, outer_lens: lens[..first].to_vec() }
    }
    fn units(&self) -> i64 {
        self.outer * self.chunks
    }
    /// The offset at which a unit's values begin.
    fn start(&self, coefficients: &[(i64, i64)], constant: i64, unit: i64) -> i64 {
        let mut rest = unit / self.chunks * self.inner + unit % self.chunks * self.chunk;
        let mut offset = constant;
        for &(coefficient, extent) in coefficients.iter().rev() {
            offset += coefficient * (rest % extent.max(1));
            rest /= extent.max(1);
        }
        offset
    }
}

struct Worker<'a> {
    frame: Frame,
    outer: i64,
    step: &'a Step,
}

fn frame(step: &Step, machine: &Machine) -> Frame {
    let mut frame = Frame::new(&step.layout, step.counters, machine.width);
    for &(reg, bits) in &step.constants {
        ops::set(&mut frame, reg, bits);
    }
    frame
}

impl<'a> Worker<'a> {
    fn new(step: &'a Step, machine: &Machine, alone: bool) -> Worker<'a> {
        let mut frame = frame(step, machine);
        frame.alone = alone;
        Worker { frame, outer: -1, step }
    }

    /// Evaluates a unit.
    fn unit(&mut self, machine: &Machine, space: &Space, unit: i64) -> Result<(), Failure> {
        let (step, frame) = (self.step, &mut self.frame);
        let (outer, chunk) = (unit / space.chunks, unit % space.chunks);
        if outer != self.outer {
            let mut rest = outer;
            for (&(counter, _), &len) in step.variables.iter().zip(&space.outer_lens).rev() {
                frame.counters[counter as usize] = rest % len;
                rest /= len;
            }
            frame.n = 1;
            exec::run(machine, frame, &step.scopes[0])?;
            self.outer = outer;
        }
        let start = chunk * space.chunk;
        frame.n = space.chunk.min(space.inner - start) as usize;
        match &step.flat {
            Some(flat) => fill_flat(frame, &step.variables[step.variables.len() - step.lanes..], flat, start),
            None => {
                if let (true, Some(last)) = (step.lanes > 0, step.variables.last()) {
                    frame.counters[last.0 as usize] = start;
                }
            }
        }
        exec::run(machine, frame, &step.scopes[1])
    }
}

/// Ranges of units for tasks.
fn tasks(units: i64, machine: &Machine, cost: f64) -> Vec<(i64, i64)> {
    let tasks = if machine.threads > 1 && cost > LEAST_PARALLEL { units.min(machine.threads as i64 * 8) } else { 1 };
    (0..tasks.max(1)).map(|task| (units * task / tasks.max(1), units * (task + 1) / tasks.max(1))).collect()
}

fn define_monotone<T: Lane>(machine: &Machine, step: &Step, out: &mut [T], cost: f64) -> Result<(), Failure> {
    let space = Space::new(step, machine, cost);
    let units = space.units();
    if units == 0 {
        return Ok(());
    }
    let coefficients = coefficients(step);
    let constant = step.place.constant;
    // With few units, each may use all cores itself.
    let inside = units < machine.threads as i64 * 2;
    let tasks = if inside && step.lanes == 0 { vec![(0, units)] } else { tasks(units, machine, cost) };
    let work = |(from, to): (i64, i64), out: &mut [T], base: i64| -> Result<(), Failure> {
        let mut worker = Worker::new(step, machine, tasks.len() > 1);
        for unit in from..to {
            worker.unit(machine, &space, unit)?;
            store::<T>(&worker.frame, step, out, base);
        }
        Ok(())
    };
    if tasks.len() == 1 {
        return work(tasks[0], out, 0);
    }
    let mut rest = out;
    let mut at = 0i64;
    let mut parts = Vec::with_capacity(tasks.len());
    for (number, &task) in tasks.iter().enumerate() {
        let end = match tasks.get(number + 1) {
            Some(next) => space.start(&coefficients, constant, next.0),
            None => at + rest.len() as i64,
        };
        let (part, after) = rest.split_at_mut((end - at) as usize);
        parts.push((task, part, at));
        rest = after;
        at = end;
    }
    let results: Vec<Result<(), Failure>> = parts.into_par_iter().map(|(task, part, base)| work(task, part, base)).collect();
    results.into_iter().collect()
}

/// Puts the value of each lane in its place.
fn store<T: Lane>(frame: &Frame, step: &Step, out: &mut [T], base: i64) {
    let n = frame.n;
    let value = frame.get::<T>(step.value.index);
    let at = step.offset.base(frame).wrapping_sub(base);
    match (step.offset.column, value) {
        (None, [value]) if step.offset.stride == 1 => out[at as usize..at as usize + n].fill(*value),
        (None, values) if step.offset.stride == 1 => out[at as usize..at as usize + n].copy_from_slice(values),
        (None, values) => {
            let step_by = step.offset.stride.max(1) as usize;
            let each = usize::from(values.len() > 1);
            for (lane, place) in out[at as usize..].iter_mut().step_by(step_by).take(n).enumerate() {
                *place = values[lane * each];
            }
        }
        (Some(column), values) => {
            let each = usize::from(values.len() > 1);
            for (lane, &column) in frame.get::<i64>(column).iter().enumerate() {
                out[(at + column) as usize] = values[lane * each];
            }
        }
    }
}

/// Appends the lanes' offsets (−1 for those that are dropped) and values.
fn collect<T: Lane>(frame: &Frame, step: &Step, array: usize, offsets: &mut Vec<i64>, values: &mut Vec<T>) -> Result<(), Failure> {
    let n = frame.n;
    let start = offsets.len();
    offsets.resize(start + n, 0);
    fill_index(frame, &step.offset, &mut offsets[start..]);
    let mut index = vec![0i64; if step.ruled.is_empty() { 0 } else { n }];
    for dim in &step.ruled {
        fill_index(frame, &dim.index, &mut index);
        for (offset, &index) in offsets[start..].iter_mut().zip(&index) {
            match exec::place(dim.rule, index, dim.extent) {
                Place::In(at) if *offset >= 0 || dim.rule != Rule::Drop => *offset += at * dim.pitch,
                Place::In(_) => {}
                Place::Outside => *offset = i64::MIN / 2,
                Place::Error => {
                    return Err(Failure { span: dim.span, array, index, axis: dim.axis, extent: dim.extent });
                }
            }
        }
    }
    match frame.get::<T>(step.value.index) {
        [value] => values.resize(start + n, *value),
        lanes => values.extend_from_slice(lanes),
    }
    Ok(())
}

/// Evaluates a statement and hands offsets and values on, in the order of its points.
fn scatter<T: Lane>(
    machine: &Machine,
    step: &Step,
    array: usize,
    cost: f64,
    take: &mut dyn FnMut(&[i64], &[T]),
) -> Result<(), Failure> {
    const TOGETHER: i64 = 1 << 20;
    if step.nested {
        let mut worker = Worker::new(step, machine, true);
        let mut buffer = (Vec::new(), Vec::new());
        nested(machine, &mut worker, 0, &mut |frame| {
            collect::<T>(frame, step, array, &mut buffer.0, &mut buffer.1)?;
            if buffer.0.len() >= 1 << 14 {
                take(&buffer.0, &buffer.1);
                buffer.0.clear();
                buffer.1.clear();
            }
            Ok(())
        })?;
        take(&buffer.0, &buffer.1);
        return Ok(());
    }
    let space = Space::new(step, machine, cost);
    let units = space.units();
    let alone = tasks(units, machine, cost).len() == 1;
    if alone {
        let mut worker = Worker::new(step, machine, units >= machine.threads as i64 * 2);
        let mut buffer = (Vec::new(), Vec::new());
        for unit in 0..units {
            worker.unit(machine, &space, unit)?;
            collect::<T>(&worker.frame, step, array, &mut buffer.0, &mut buffer.1)?;
            if buffer.0.len() >= 1 << 14 {
                take(&buffer.0, &buffer.1);
                buffer.0.clear();
                buffer.1.clear();
            }
        }
        take(&buffer.0, &buffer.1);
        return Ok(());
    }
    let together = (TOGETHER / space.chunk.max(1)).max(1);
    let mut from = 0;
    while from < units {
        let to = units.min(from + together);
        let parts = tasks(to - from, machine, cost);
        let results: Vec<Result<(Vec<i64>, Vec<T>), Failure>> = parts
            .into_par_iter()
            .map(|part| {
                let mut worker = Worker::new(step, machine, true);
                let mut buffer = (Vec::new(), Vec::new());
                for unit in part.0..part.1 {
                    worker.unit(machine, &space, from + unit)?;
                    collect::<T>(&worker.frame, step, array, &mut buffer.0, &mut buffer.1)?;
                }
                Ok(buffer)
            })
            .collect();
        for result in results {
            let (offsets, values) = result?;
            take(&offsets, &values);
        }
        from = to;
    }
    Ok(())
}

/// Runs through ranges that depend on one another, from variable `at` on; the last may run along the lanes.
fn nested(
    machine: &Machine,
    worker: &mut Worker,
    at: usize,
    take: &mut dyn FnMut(&Frame) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let step = worker.step;
    if at == step.variables.len() {
        if at == 0 || step.lanes == 0 {
            worker.frame.n = 1;
        }
        exec::run(machine, &mut worker.frame, &step.scopes[at])?;
        return take(&worker.frame);
    }
    worker.frame.n = 1;
    exec::run(machine, &mut worker.frame, &step.scopes[at])?;
    let (counter, len) = &step.variables[at];
    let len = length(&worker.frame, len);
    if at + 1 == step.variables.len() && step.lanes > 0 {
        let mut start = 0;
        while start < len {
            let n = (len - start).min(machine.width as i64);
            worker.frame.counters[*counter as usize] = start;
            worker.frame.n = n as usize;
            exec::run(machine, &mut worker.frame, &step.scopes[at + 1])?;
            take(&worker.frame)?;
            start += n;
        }
        return Ok(());
    }
    for value in 0..len {
        worker.frame.counters[*counter as usize] = value;
        nested(machine, worker, at + 1, take)?;
    }
    Ok(())
}

fn length(frame: &Frame, len: &Len) -> i64 {
    match len {
        Len::Const(n) => *n,
        Len::Uniform(index) => index.base(frame).max(0),
        Len::Column(column) => frame.first::<i64>(*column).max(0),
    }
}

/// A scan along one variable, for every setting of others.
struct ScanCode<'a> {
    /// Evaluates the terms; its last variable is the scan's.
    step: &'a Step,
    rows: Vec<i64>,
    /// The variable of the left side: its first value, and how many there are.
    lo: i64,
    extent: i64,
    forward: bool,
    inclusive: bool,
}

impl ScanCode<'_> {
    /// Sets the counters for a row, and gives the first value and the number of terms.
    fn enter(&self, machine: &Machine, frame: &mut Frame, row: i64) -> Result<i64, Failure> {
        let step = self.step;
        let mut rest = row;
        for (&(counter, _), &extent) in step.variables.iter().zip(&self.rows).rev() {
            frame.counters[counter as usize] = rest % extent;
            rest /= extent;
        }
        frame.n = 1;
        for scope in &step.scopes[..step.scopes.len() - 1] {
            exec::run(machine, frame, scope)?;
        }
        Ok(step.variables.last().map_or(0, |variable| length(frame, &variable.1)))
    }

    /// Evaluates the terms `from..to` of `count`; `take` gets each chunk with the number of its first term.
    fn terms(
        &self,
        machine: &Machine,
        frame: &mut Frame,
        from: i64,
        to: i64,
        take: &mut dyn FnMut(&Frame, i64),
    ) -> Result<(), Failure> {
        let Some((counter, _)) = self.step.variables.last() else { return Ok(()) };
        let mut at = from;
        while at < to {
            let n = (to - at).min(machine.width as i64);
            frame.counters[*counter as usize] = at;
            frame.n = n as usize;
            exec::run(machine, frame, &self.step.scopes[self.step.scopes.len() - 1])?;
            take(frame, at);
            at += n;
        }
        Ok(())
    }

    /// The terms `from..to` in the scan's order, as accumulators.
    fn block<C: Combine>(
        &self,
        machine: &Machine,
        frame: &mut Frame,
        count: i64,
        from: i64,
        to: i64,
        out: &mut [C::Acc],
    ) -> Result<(), Failure> {
        let (a, b) = if self.forward { (from, to) } else { (count - to, count - from) };
        let step = self.step;
        self.terms(machine, frame, a, b, &mut |frame, at| {
            let start = (at - a) as usize;
            let value = frame.get::<C::In>(step.value.index);
            let keep = step.keep.map_or(&[][..], |keep| frame.get::<u8>(keep.index));
            let (sv, sk) = (usize::from(value.len() > 1), usize::from(keep.len() > 1));
            for lane in 0..frame.n {
                let kept = keep.is_empty() || keep[lane * sk] != 0;
                out[start + lane] = if kept { C::first(value[lane * sv]) } else { C::identity() };
            }
        })?;
        if !self.forward {
            out[..(to - from) as usize].reverse();
        }
        Ok(())
    }

    /// Of an output the number of the term whose inclusive value it is; −1 for none. `count` terms in all.
    fn term_of(&self, count: i64, first: i64, output: i64) -> i64 {
        let excluded = i64::from(!self.inclusive);
        let at = self.lo + output;
        let term = if self.forward { at - first - excluded } else { first + count - 1 - at - excluded };
        term.clamp(-1, count - 1)
    }

    /// The first value of the scan's variable in this row.
    fn first(&self, count: i64) -> i64 {
        let excluded = i64::from(!self.inclusive);
        if self.forward { self.lo + self.extent - excluded - count } else { self.lo + excluded }
    }

    fn run<C: Combine>(&self, machine: &Machine, data: &mut Data) -> Result<(), Failure> {
        let rows: i64 = self.rows.iter().product();
        let Some(out) = C::Acc::slice_mut(data) else { return Ok(()) };
        if rows == 0 || self.extent == 0 {
            return Ok(());
        }
        let extent = self.extent as usize;
        let work = rows.saturating_mul(self.extent);
        let apart = machine.threads > 1 && work > 1 << 15;
        if apart && rows >= machine.threads as i64 * 2 {
            let each = (rows / (machine.threads as i64 * 8)).max(1) as usize;
            let results: Vec<Result<(), Failure>> = out
                .par_chunks_mut(extent * each)
                .enumerate()
                .map(|(number, part)| {
                    let mut frame = frame(self.step, machine);
                    for (row, out) in part.chunks_mut(extent).enumerate() {
                        self.row::<C>(machine, &mut frame, (number * each + row) as i64, out, false)?;
                    }
                    Ok(())
                })
                .collect();
            return results.into_iter().collect();
        }
        let mut frame = frame(self.step, machine);
        for (row, out) in out.chunks_mut(extent).enumerate() {
            self.row::<C>(machine, &mut frame, row as i64, out, apart)?;
        }
        Ok(())
    }

    fn row<C: Combine>(&self, machine: &Machine, frame: &mut Frame, row: i64, out: &mut [C::Acc], apart: bool) -> Result<(), Failure> {
        const BLOCK: i64 = 4096;
        let count = self.enter(machine, frame, row)?;
        let blocks = (count + BLOCK - 1) / BLOCK;
        let first = self.first(count);
        // What stands before each block.
        let total = |frame: &mut Frame, b: i64| -> Result<C::Acc, Failure> {
            let (from, to) = (b * BLOCK, count.min((b + 1) * BLOCK));
            let mut values = vec![C::identity(); (to - from) as usize];
            self.block::<C>(machine, frame, count, from, to, &mut values)?;
            Ok(scan::total::<C>(&mut values))
        };
        let mut totals: Vec<C::Acc> = Vec::new();
        if blocks > 1 {
            totals = if apart {
                let each = (blocks / (machine.threads as i64 * 4)).max(1);
                let shared = &*frame;
                let parts: Vec<Result<Vec<C::Acc>, Failure>> = (0..(blocks + each - 1) / each)
                    .into_par_iter()
                    .map(|part| {
                        let mut frame = shared.clone();
                        (part * each..blocks.min((part + 1) * each)).map(|b| total(&mut frame, b)).collect()
                    })
                    .collect();
                let mut totals = Vec::new();
                for part in parts {
                    totals.extend(part?);
                }
                totals
            } else {
                (0..blocks).map(|b| total(frame, b)).collect::<Result<_, _>>()?
            };
            scan::inclusive::<C>(&mut totals);
        }
        // Blocks of outputs; each needs one block of terms, or two.
        let fill = |frame: &mut Frame, from: i64, out: &mut [C::Acc]| -> Result<(), Failure> {
            let mut values = vec![C::identity(); BLOCK as usize];
            let mut held = -1;
            let n = out.len() as i64;
            // In ascending order of terms.
            for k in 0..n {
                let output = from + if self.forward { k } else { n - 1 - k };
                let term = self.term_of(count, first, output);
                let value = if term < 0 {
                    C::identity()
                } else {
                    let b = term / BLOCK;
                    if held != b {
                        let (start, end) = (b * BLOCK, count.min((b + 1) * BLOCK));
                        let values = &mut values[..(end - start) as usize];
                        self.block::<C>(machine, frame, count, start, end, values)?;
                        let p = if b == 0 { C::identity() } else { totals[b as usize - 1] };
                        scan::apply::<C>(values, p);
                        held = b;
                    }
                    values[(term - b * BLOCK) as usize]
                };
                out[(output - from) as usize] = value;
            }
            Ok(())
        };
        if !apart {
            return fill(frame, 0, out);
        }
        let each = ((out.len() as i64 / (machine.threads as i64 * 4)) / BLOCK).max(1) * BLOCK;
        let shared = &*frame;
        let results: Vec<Result<(), Failure>> = out
            .par_chunks_mut(each as usize)
            .enumerate()
            .map(|(number, part)| fill(&mut shared.clone(), number as i64 * each, part))
            .collect();
        results.into_iter().collect()
    }

    fn run_arg<T: Tag, const GREATEST: bool>(&self, machine: &Machine, data: &mut Data) -> Result<(), Failure> {
        let Some(out) = i64::slice_mut(data) else { return Ok(()) };
        if self.extent == 0 {
            return Ok(());
        }
        let mut frame = frame(self.step, machine);
        for (row, out) in out.chunks_mut(self.extent as usize).enumerate() {
            let count = self.enter(machine, &mut frame, row as i64)?;
            let first = self.first(count);
            let mut terms: Vec<(bool, T::E)> = Vec::with_capacity(count.max(0) as usize);
            let step = self.step;
            self.terms(machine, &mut frame, 0, count, &mut |frame, _| {
                let value = frame.get::<T::E>(step.value.index);
                let keep = step.keep.map_or(&[][..], |keep| frame.get::<u8>(keep.index));
                let (sv, sk) = (usize::from(value.len() > 1), usize::from(keep.len() > 1));
                for lane in 0..frame.n {
                    terms.push((keep.is_empty() || keep[lane * sk] != 0, value[lane * sv]));
                }
            })?;
            // The best term up to each, in the scan's direction; where values tie, the smallest index.
            let mut best = Vec::with_capacity(terms.len());
            let mut found: (i64, T::E) = (-1, T::LEAST);
            for k in 0..count {
                let at = if self.forward { k } else { count - 1 - k };
                let (kept, value) = terms[at as usize];
                let wins = if self.forward {
                    reduce::better::<T, GREATEST>(found.0, found.1, value)
                } else {
                    !reduce::better::<T, GREATEST>(0, value, found.1) || found.0 < 0
                };
                if kept && wins {
                    found = (at, value);
                }
                best.push(found.0);
            }
            for (output, out) in out.iter_mut().enumerate() {
                let term = self.term_of(count, first, output as i64);
                let at = if term < 0 { -1 } else { best[term as usize] };
                *out = if at < 0 { -1 } else { first + at };
            }
        }
        Ok(())
    }
}

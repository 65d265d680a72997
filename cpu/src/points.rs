//! The points of a statement: cut into chunks of lanes, spread over the cores, evaluated, and stored in order.

use crate::code::{Len, Rule, Step};
use crate::exec::{self, Failure, Machine, Place, fill_flat, fill_index};
use crate::frame::{Frame, Lane};
use crate::lin::Atom;
use crate::{ops, par};

/// Nanoseconds of work below which other threads are not woken.
const LEAST_PARALLEL: f64 = 40_000.0;

pub fn constant(len: &Len) -> i64 {
    if let Len::Const(n) = len { *n } else { 0 }
}

fn coefficients(step: &Step) -> Vec<(i64, i64)> {
    let of = |counter: u32| step.place.terms.iter().find(|term| term.0 == Atom::Counter(counter)).map_or(0, |term| term.1);
    step.variables.iter().map(|(counter, len)| (of(*counter), constant(len))).collect()
}

/// Whether offsets ascend as the points do.
pub fn is_monotone(step: &Step) -> bool {
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
    /// The points of a unit.
    fn points(&self, unit: i64) -> std::ops::Range<i64> {
        let (outer, start) = (unit / self.chunks * self.inner, unit % self.chunks * self.chunk);
        outer + start..outer + (start + self.chunk).min(self.inner)
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

pub fn frame(step: &Step, machine: &Machine) -> Frame {
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

/// Evaluates a statement whose offsets ascend, each task into its own part of the array. `single` is the same statement
/// without lanes, for chunks whose lanes have very different numbers of terms.
pub fn define_monotone<T: Lane>(
    machine: &Machine,
    step: &Step,
    single: Option<&Step>,
    out: &mut [T],
    cost: f64,
) -> Result<(), Failure> {
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
        worker.frame.picky = single.is_some();
        let mut one_by_one = single.map(|single| Worker::new(single, machine, true));
        for unit in from..to {
            match (worker.unit(machine, &space, unit), &mut one_by_one) {
                (Err(Failure::Skewed), Some(worker)) => {
                    let points = Space::new(worker.step, machine, cost);
                    for point in space.points(unit) {
                        worker.unit(machine, &points, point)?;
                        store::<T>(&worker.frame, worker.step, out, base);
                    }
                }
                (result, _) => {
                    result?;
                    store::<T>(&worker.frame, step, out, base);
                }
            }
        }
        Ok(())
    };
    if tasks.len() == 1 {
        return work(tasks[0], out, 0);
    }
    let starts: Vec<usize> = tasks.iter().map(|task| space.start(&coefficients, constant, task.0) as usize).collect();
    let end = out.len();
    let cuts = starts.iter().enumerate().map(|(n, &start)| (start, starts.get(n + 1).copied().unwrap_or(end)));
    let parts = par::Parts::new(out, cuts);
    par::each(parts.len(), &|n| parts.with(n, |part| work(tasks[n], part, starts[n] as i64)))
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
                    return Err(Failure::OutOfRange { span: dim.span, array, index, axis: dim.axis, extent: dim.extent });
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
pub fn scatter<T: Lane>(
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
        let results = par::collect(parts.len(), &|n| {
            let mut worker = Worker::new(step, machine, true);
            let mut buffer = (Vec::new(), Vec::new());
            for unit in parts[n].0..parts[n].1 {
                worker.unit(machine, &space, from + unit)?;
                collect::<T>(&worker.frame, step, array, &mut buffer.0, &mut buffer.1)?;
            }
            Ok(buffer)
        })?;
        for (offsets, values) in results {
            take(&offsets, &values);
        }
        from = to;
    }
    Ok(())
}

/// The same where no order matters: every task accumulates by itself.
pub fn scatter_apart<T: Lane>(
    machine: &Machine,
    step: &Step,
    array: usize,
    cost: f64,
    none: T,
    combine: &(dyn Fn(T, T) -> T + Sync),
    out: &mut [T],
) -> Result<(), Failure> {
    let space = Space::new(step, machine, cost);
    let units = space.units();
    let count = (machine.threads as i64).min(units).max(1);
    let len = out.len();
    let results = par::collect(count as usize, &|task| {
        let task = task as i64;
        let mut worker = Worker::new(step, machine, true);
        let mut own = vec![none; len];
        let mut buffer = (Vec::new(), Vec::new());
        for unit in units * task / count..units * (task + 1) / count {
            worker.unit(machine, &space, unit)?;
            buffer.0.clear();
            buffer.1.clear();
            collect::<T>(&worker.frame, step, array, &mut buffer.0, &mut buffer.1)?;
            for (&offset, &value) in buffer.0.iter().zip(&buffer.1) {
                if let Some(place) = own.get_mut(offset as usize) {
                    *place = combine(*place, value);
                }
            }
        }
        Ok(own)
    })?;
    for own in results {
        for (place, value) in out.iter_mut().zip(own) {
            *place = combine(*place, value);
        }
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

pub fn length(frame: &Frame, len: &Len) -> i64 {
    match len {
        Len::Const(n) => *n,
        Len::Uniform(index) => index.base(frame).max(0),
        Len::Column(column) => frame.first::<i64>(*column).max(0),
    }
}

//! Executes instructions.

use gpukc_dsl::source::Span;
use pulp::NullaryFnOnce;

use crate::code::*;
use crate::frame::{Frame, Lane};
use crate::ops::with_store;
use crate::tensor::{Data, Store};

/// Why evaluation ended early.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    /// An index out of range.
    OutOfRange { span: Span, array: usize, index: i64, axis: usize, extent: i64 },
    /// Lanes have so different numbers of terms that they are better evaluated one by one.
    Skewed,
    /// No memory for the terms of a scan.
    Memory { bytes: u128 },
}

/// Room for so many values.
pub fn room<T>(count: i64) -> Result<Vec<T>, Failure> {
    let mut values = Vec::new();
    let failure = || Failure::Memory { bytes: count.max(0) as u128 * size_of::<T>() as u128 };
    values.try_reserve_exact(usize::try_from(count.max(0)).unwrap_or(usize::MAX)).map(|()| values).map_err(|_| failure())
}

/// What workers share.
pub struct Machine<'a> {
    /// The arrays' elements; nothing for those that are not defined yet.
    pub arrays: &'a [Option<&'a Data>],
    /// Lanes of a column.
    pub width: usize,
    pub threads: usize,
}

type Outcome = Result<(), Failure>;

/// Executes a list of instructions.
pub fn run(machine: &Machine, frame: &mut Frame, instrs: &[Instr]) -> Outcome {
    for instr in instrs {
        match instr {
            Instr::Op1(f, dst, a) => f(frame, *dst, *a),
            Instr::Op2(f, dst, a, b) => f(frame, *dst, *a, *b),
            Instr::Op3(f, dst, a, b, c) => f(frame, *dst, *a, *b, *c),
            Instr::Index(dst, index) => {
                let mut out = frame.take::<i64>(*dst);
                let n = if out.len() == 1 { 1 } else { frame.n };
                fill_index(frame, index, &mut out[..n]);
                frame.put(*dst, out);
            }
            Instr::Columns(columns) => sum_columns(frame, columns),
            Instr::Read(read) => {
                with_store!(read.dst.store, T => run_read::<T>(machine, frame, read))?;
            }
            Instr::Reduce(reduce) => (reduce.run)(machine, frame, reduce)?,
            Instr::Loop(code) => run_loop(machine, frame, code)?,
        }
    }
    Ok(())
}

/// The index of each lane.
pub fn fill_index(frame: &Frame, index: &Index, out: &mut [i64]) {
    let base = index.base(frame);
    match index.column {
        Some(column) => {
            let column = frame.get::<i64>(column);
            for (out, &column) in out.iter_mut().zip(column) {
                *out = base.wrapping_add(column);
            }
        }
        None => {
            for (lane, out) in out.iter_mut().enumerate() {
                *out = base.wrapping_add(index.stride.wrapping_mul(lane as i64));
            }
        }
    }
}

fn sum_columns(frame: &mut Frame, columns: &Columns) {
    let mut out = frame.take::<i64>(columns.dst);
    let n = frame.n;
    let base = columns.counter.map_or(0, |counter| columns.stride.wrapping_mul(frame.counters[counter as usize]));
    for (lane, out) in out[..n].iter_mut().enumerate() {
        *out = base.wrapping_add(columns.stride.wrapping_mul(lane as i64));
    }
    for &(coefficient, column) in &columns.columns {
        for (out, &column) in out[..n].iter_mut().zip(frame.get::<i64>(column)) {
            *out = out.wrapping_add(coefficient.wrapping_mul(column));
        }
    }
    frame.put(columns.dst, out);
}

/// Fills the columns of a box's counters for lanes that start at `position`.
pub fn fill_flat(frame: &mut Frame, counters: &[(u32, Len)], flat: &Flat, position: i64) {
    frame.counters[flat.counter as usize] = position;
    if flat.columns.iter().all(|column| column.1.is_none()) {
        return;
    }
    let n = frame.n;
    let mut rest = position;
    // Lanes in which a value stays the same, and the value of the first lane with how many lanes of it are over.
    let mut each = 1i64;
    for (&(extent, column), _) in flat.columns.iter().zip(counters).rev() {
        let Some(column) = column else {
            rest /= extent.max(1);
            each = each.saturating_mul(extent);
            continue;
        };
        let mut out = frame.take::<i64>(column);
        let mut value = rest % extent.max(1);
        let mut over = position % each;
        let mut lane = 0;
        if each == 1 {
            while lane < n {
                let run = ((extent - value) as usize).min(n - lane);
                for (k, out) in out[lane..lane + run].iter_mut().enumerate() {
                    *out = value + k as i64;
                }
                lane += run;
                value = 0;
            }
        } else {
            while lane < n {
                let run = ((each - over) as usize).min(n - lane);
                out[lane..lane + run].fill(value);
                lane += run;
                over = 0;
                value = if value + 1 == extent { 0 } else { value + 1 };
            }
        }
        frame.put(column, out);
        rest /= extent.max(1);
        each = each.saturating_mul(extent);
    }
}

/// Where an index leads.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    In(i64),
    Outside,
    Error,
}

/// Applies a rule to an index.
#[inline(always)]
pub fn place(rule: Rule, index: i64, extent: i64) -> Place {
    if (index as u64) < (extent as u64) {
        return Place::In(index);
    }
    match rule {
        Rule::Checked => Place::Error,
        Rule::Constant | Rule::Drop => Place::Outside,
        _ if extent <= 0 => Place::Error,
        Rule::Clamp => Place::In(index.clamp(0, extent - 1)),
        Rule::Wrap => Place::In(index.rem_euclid(extent)),
        Rule::Mirror if extent == 1 => Place::In(0),
        Rule::Mirror => {
            let at = i128::from(index).rem_euclid(2 * (i128::from(extent) - 1)) as i64;
            Place::In(if at < extent { at } else { 2 * (extent - 1) - at })
        }
        Rule::Symmetric => {
            let at = i128::from(index).rem_euclid(2 * i128::from(extent)) as i64;
            Place::In(if at < extent { at } else { 2 * extent - 1 - at })
        }
    }
}

struct Gather<'a, T> {
    data: &'a [T],
    base: i64,
    column: &'a [i64],
    out: &'a mut [T],
}
impl<T: Lane> NullaryFnOnce for Gather<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Gather { data, base, column, out } = self;
        for (out, &column) in out.iter_mut().zip(column) {
            *out = data.get(base.wrapping_add(column) as usize).copied().unwrap_or_default();
        }
    }
}

/// Gathers along one dimension; gives whether all indices are in range.
struct CheckedGather<'a, T> {
    data: &'a [T],
    base: i64,
    index: i64,
    column: &'a [i64],
    extent: i64,
    pitch: i64,
    out: &'a mut [T],
}
impl<T: Lane> NullaryFnOnce for CheckedGather<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn call(self) -> bool {
        let CheckedGather { data, base, index, column, extent, pitch, out } = self;
        let mut good = true;
        for (out, &column) in out.iter_mut().zip(column) {
            let at = index.wrapping_add(column);
            good &= (at as u64) < extent as u64;
            *out = data.get(base.wrapping_add(at.wrapping_mul(pitch)) as usize).copied().unwrap_or_default();
        }
        good
    }
}

/// Whether all indices are in range.
struct Inside<'a> {
    indices: &'a [i64],
    extent: i64,
}
impl NullaryFnOnce for Inside<'_> {
    type Output = bool;
    #[inline(always)]
    fn call(self) -> bool {
        let last = self.extent - 1;
        // Negative if any index, or what is left of the extent after it, is.
        self.indices.iter().fold(0, |signs, &index| signs | index | (last - index.max(0))) >= 0
    }
}

/// Reads along a line: in range, or zero.
fn read_line<T: Lane>(data: &[T], base: i64, stride: i64, out: &mut [T]) {
    let n = out.len();
    if n == 0 {
        return;
    }
    if n == 1 || stride == 0 {
        out.fill(data.get(base as usize).copied().unwrap_or_default());
        return;
    }
    let last = i128::from(base) + i128::from(stride) * (n as i128 - 1);
    let len = data.len() as i128;
    let inside = (0..len).contains(&i128::from(base)) && (0..len).contains(&last);
    if !inside {
        for (lane, out) in out.iter_mut().enumerate() {
            let at = base.wrapping_add(stride.wrapping_mul(lane as i64));
            *out = data.get(at as usize).copied().unwrap_or_default();
        }
    } else if stride == 1 {
        out.copy_from_slice(&data[base as usize..base as usize + n]);
    } else if stride == -1 {
        for (out, &value) in out.iter_mut().rev().zip(&data[last as usize..]) {
            *out = value;
        }
    } else if stride > 0 {
        for (out, &value) in out.iter_mut().zip(data[base as usize..].iter().step_by(stride as usize)) {
            *out = value;
        }
    } else {
        let step = stride.unsigned_abs() as usize;
        for (out, &value) in out.iter_mut().rev().zip(data[last as usize..].iter().step_by(step)) {
            *out = value;
        }
    }
}

fn run_read<T: Lane>(machine: &Machine, frame: &mut Frame, read: &Read) -> Outcome {
    let data: &[T] = machine.arrays[read.array].and_then(T::slice).unwrap_or(&[]);
    let mut out = frame.take::<T>(read.dst.index);
    let n = if out.len() == 1 { 1 } else { frame.n };
    let result = if read.ruled.is_empty() {
        let base = read.flat.base(frame);
        match read.flat.column {
            Some(column) => {
                let column = frame.get::<i64>(column);
                frame.arch.dispatch(Gather { data, base, column, out: &mut out[..n] });
            }
            None => read_line(data, base, read.flat.stride, &mut out[..n]),
        }
        Ok(())
    } else {
        read_ruled(frame, read, data, &mut out[..n])
    };
    frame.put(read.dst.index, out);
    result
}

fn failure(array: usize, dim: &Ruled, index: i64) -> Failure {
    Failure::OutOfRange { span: dim.span, array, index, axis: dim.axis, extent: dim.extent }
}

fn read_ruled<T: Lane>(frame: &Frame, read: &Read, data: &[T], out: &mut [T]) -> Outcome {
    let n = out.len();
    let mask: &[u8] = read.mask.map_or(&[], |mask| frame.get::<u8>(mask));
    let wanted = |lane: usize| match mask {
        [] => true,
        [all] => *all != 0,
        mask => mask[lane] != 0,
    };
    // Dimensions whose index all lanes share are settled first; the others bound the lanes that are inside.
    let mut base = read.flat.base(frame);
    let mut stride = read.flat.stride;
    let mut columns = read.flat.column.is_some();
    let (mut first, mut last) = (0i64, n as i64);
    let mut moving: Vec<(&Ruled, i64)> = Vec::with_capacity(read.ruled.len());
    for dim in &read.ruled {
        let index = dim.index.base(frame);
        if !dim.index.varies() {
            match place(dim.rule, index, dim.extent) {
                Place::In(at) => base = base.wrapping_add(at.wrapping_mul(dim.pitch)),
                Place::Outside if read.ruled.len() == 1 => {
                    fill_outside(frame, dim, 0, out);
                    return Ok(());
                }
                // Other dimensions are still to be checked.
                Place::Outside => return read_slowly(frame, read, data, out, 0..n),
                Place::Error => match (0..n).find(|&lane| wanted(lane)) {
                    Some(_) => return Err(failure(read.array, dim, index)),
                    None => {
                        out.fill(T::default());
                        return Ok(());
                    }
                },
            }
            continue;
        }
        columns |= dim.index.column.is_some();
        base = base.wrapping_add(index.wrapping_mul(dim.pitch));
        stride = stride.wrapping_add(dim.index.stride.wrapping_mul(dim.pitch));
        if dim.index.column.is_none() {
            let (from, to) = inside(index, dim.index.stride, dim.extent, n as i64);
            first = first.max(from);
            last = last.min(to);
        }
        moving.push((dim, index));
    }
    if columns {
        return read_columns(frame, read, data, out, &moving, &wanted);
    }
    if first >= last {
        return read_slowly(frame, read, data, out, 0..n);
    }
    let (from, to) = (first as usize, last as usize);
    if from > 0 {
        read_slowly(frame, read, data, out, 0..from)?;
    }
    read_line(data, base.wrapping_add(stride.wrapping_mul(first)), stride, &mut out[from..to]);
    if to < n {
        read_slowly(frame, read, data, out, to..n)?;
    }
    Ok(())
}

/// The lanes for which `index + stride · lane` is in `0..extent`.
fn inside(index: i64, stride: i64, extent: i64, n: i64) -> (i64, i64) {
    let (index, stride, extent) = (i128::from(index), i128::from(stride), i128::from(extent));
    let (from, to) = if stride > 0 {
        ((-index + stride - 1).div_euclid(stride), (extent - index + stride - 1).div_euclid(stride))
    } else {
        let step = -stride;
        ((index - extent + step).div_euclid(step), (index + step).div_euclid(step))
    };
    (from.clamp(0, i128::from(n)) as i64, to.clamp(0, i128::from(n)) as i64)
}

fn fill_outside<T: Lane>(frame: &Frame, dim: &Ruled, from: usize, out: &mut [T]) {
    match dim.fill.map(|fill| frame.get::<T>(fill.index)) {
        Some([value]) => out.fill(*value),
        Some(values) => out.copy_from_slice(&values[from..from + out.len()]),
        None => out.fill(T::default()),
    }
}

/// Lane by lane.
fn read_slowly<T: Lane>(frame: &Frame, read: &Read, data: &[T], out: &mut [T], lanes: std::ops::Range<usize>) -> Outcome {
    let mask: &[u8] = read.mask.map_or(&[], |mask| frame.get::<u8>(mask));
    let at = |index: &Index, lane: usize| {
        let column = index.column.map_or(0, |column| frame.get::<i64>(column)[lane]);
        index.base(frame).wrapping_add(index.stride.wrapping_mul(lane as i64)).wrapping_add(column)
    };
    for lane in lanes {
        let wanted = match mask {
            [] => true,
            [all] => *all != 0,
            mask => mask[lane] != 0,
        };
        if !wanted {
            out[lane] = T::default();
            continue;
        }
        let mut offset = at(&read.flat, lane);
        let mut outside = None;
        for dim in &read.ruled {
            let index = at(&dim.index, lane);
            match place(dim.rule, index, dim.extent) {
                Place::In(at) => offset = offset.wrapping_add(at.wrapping_mul(dim.pitch)),
                Place::Outside => outside = outside.or(Some(dim)),
                Place::Error => return Err(failure(read.array, dim, index)),
            }
        }
        match outside {
            Some(dim) => fill_outside(frame, dim, lane, &mut out[lane..lane + 1]),
            None => out[lane] = data.get(offset as usize).copied().unwrap_or_default(),
        }
    }
    Ok(())
}

/// Through columns of offsets.
fn read_columns<T: Lane>(
    frame: &Frame,
    read: &Read,
    data: &[T],
    out: &mut [T],
    moving: &[(&Ruled, i64)],
    wanted: &dyn Fn(usize) -> bool,
) -> Outcome {
    let n = out.len();
    let mut settled = 0i64;
    for dim in &read.ruled {
        if !dim.index.varies()
            && let Place::In(at) = place(dim.rule, dim.index.base(frame), dim.extent)
        {
            settled = settled.wrapping_add(at.wrapping_mul(dim.pitch));
        }
    }
    if let [(dim, index)] = moving
        && let (Rule::Checked, Some(column), false) = (dim.rule, dim.index.column, read.flat.varies())
    {
        let base = settled.wrapping_add(read.flat.base(frame));
        let (column, extent, pitch) = (frame.get::<i64>(column), dim.extent, dim.pitch);
        let good = frame.arch.dispatch(CheckedGather { data, base, index: *index, column, extent, pitch, out });
        if good {
            return Ok(());
        }
        let bad = |lane: usize| wanted(lane) && index.wrapping_add(column[lane]) as u64 >= extent as u64;
        return match (0..n).find(|&lane| bad(lane)) {
            Some(lane) => Err(failure(read.array, dim, index.wrapping_add(column[lane]))),
            None => Ok(()),
        };
    }
    let mut offsets = vec![0i64; n];
    fill_index(frame, &read.flat, &mut offsets);
    let mut indices = vec![0i64; n];
    let mut outside: Vec<(usize, usize)> = Vec::new();
    for (at, (dim, _)) in moving.iter().enumerate() {
        fill_index(frame, &dim.index, &mut indices);
        let (extent, pitch) = (dim.extent, dim.pitch);
        match dim.rule {
            Rule::Clamp if extent > 0 => {
                for (offset, &index) in offsets.iter_mut().zip(&indices) {
                    let index = index.max(0).min(extent - 1);
                    *offset = offset.wrapping_add(index.wrapping_mul(pitch));
                }
            }
            _ if frame.arch.dispatch(Inside { indices: &indices, extent }) => {
                for (offset, &index) in offsets.iter_mut().zip(&indices) {
                    *offset = offset.wrapping_add(index.wrapping_mul(pitch));
                }
            }
            rule => {
                for (lane, (offset, &index)) in offsets.iter_mut().zip(&indices).enumerate() {
                    match place(rule, index, extent) {
                        Place::In(index) => *offset = offset.wrapping_add(index.wrapping_mul(pitch)),
                        Place::Outside => outside.push((lane, at)),
                        Place::Error if wanted(lane) => return Err(failure(read.array, dim, index)),
                        // Nothing is there.
                        Place::Error => *offset = i64::MIN / 2,
                    }
                }
            }
        }
    }
    frame.arch.dispatch(Gather { data, base: settled, column: &offsets, out: &mut *out });
    // The first dimension that is outside gives its value.
    for &(lane, at) in outside.iter().rev() {
        fill_outside(frame, moving[at].0, lane, &mut out[lane..lane + 1]);
    }
    Ok(())
}

fn run_loop(machine: &Machine, frame: &mut Frame, code: &Loop) -> Outcome {
    if let Some(mask) = code.mask
        && !frame.get::<u8>(mask).iter().any(|&m| m != 0)
    {
        return Ok(());
    }
    let trips = match &code.trips {
        Some(trips) => trips.base(frame),
        None => i64::MAX,
    };
    if let Some(active) = code.active {
        let mut lanes = frame.take::<u8>(active);
        let n = if lanes.len() == 1 { 1 } else { frame.n };
        match code.mask.map(|mask| frame.get::<u8>(mask)) {
            None => lanes[..n].fill(1),
            Some([all]) => lanes[..n].fill(*all),
            Some(mask) => lanes[..n].copy_from_slice(mask),
        }
        frame.put(active, lanes);
    }
    let mut trip = 0i64;
    while trip < trips {
        if let Some(counter) = code.counter {
            frame.counters[counter as usize] = trip;
        }
        run(machine, frame, &code.condition)?;
        if let (Some(holds), Some(active)) = (code.holds, code.active) {
            let mut lanes = frame.take::<u8>(active);
            let n = if lanes.len() == 1 { 1 } else { frame.n };
            let any = match frame.get::<u8>(holds) {
                [all] => {
                    let all = *all;
                    lanes[..n].iter_mut().fold(0, |any, lane| {
                        *lane &= all;
                        any | *lane
                    })
                }
                holds => lanes[..n].iter_mut().zip(holds).fold(0, |any, (lane, &holds)| {
                    *lane &= holds;
                    any | *lane
                }),
            };
            frame.put(active, lanes);
            if any == 0 {
                break;
            }
        }
        run(machine, frame, &code.body)?;
        trip += 1;
    }
    Ok(())
}

//! Reductions, in the orders of `docs/language.md`. The order is the same whichever way the lanes run.

use std::marker::PhantomData;

use gpukc_dsl::types::{Reducer, Type};
use pulp::NullaryFnOnce;

use crate::code::{Len, OrderCode, ReduceCode, ReduceFn};
use crate::exec::{Failure, Machine, fill_flat, fill_index, room, run};
use crate::frame::{Frame, Lane};
use crate::ops::{self, Number, Tag, Unsupported};
use crate::par;

/// Terms of a block.
const BLOCK: i64 = 4096;
/// Accumulators of a block.
const ACCUMULATORS: usize = 128;

/// How terms combine.
pub trait Combine: 'static + Send + Sync {
    /// A term.
    type In: Lane;
    /// An accumulator.
    type Acc: Lane;
    fn identity() -> Self::Acc;
    /// A term by itself.
    fn first(term: Self::In) -> Self::Acc;
    /// Takes in a term.
    fn step(acc: Self::Acc, term: Self::In) -> Self::Acc;
    /// Takes in a product.
    fn fused(acc: Self::Acc, a: Self::In, b: Self::In) -> Self::Acc;
    /// Combines accumulators.
    fn combine(a: Self::Acc, b: Self::Acc) -> Self::Acc;
}

macro_rules! combines {
    ($($name:ident $bound:ident $in:ty => $acc:ty, $identity:expr, |$f:ident| $first:expr, |$a:ident, $t:ident| $step:expr, |$x:ident, $y:ident| $combine:expr;)+) => { $(
        pub struct $name<T>(PhantomData<fn() -> T>);
        impl<T: $bound> Combine for $name<T> {
            type In = $in;
            type Acc = $acc;
            #[inline(always)]
            fn identity() -> $acc { $identity }
            #[inline(always)]
            fn first($f: $in) -> $acc { $first }
            #[inline(always)]
            fn step($a: $acc, $t: $in) -> $acc { $step }
            #[inline(always)]
            fn fused(acc: $acc, _: $in, _: $in) -> $acc { acc }
            #[inline(always)]
            fn combine($x: $acc, $y: $acc) -> $acc { $combine }
        }
    )+ };
}
combines! {
    Prod Number T::E => T::E, T::ONE, |t| t, |a, t| T::mul(a, t), |x, y| T::mul(x, y);
    Least Tag T::E => T::E, T::GREATEST, |t| t, |a, t| T::min(a, t), |x, y| T::min(x, y);
    Greatest Tag T::E => T::E, T::LEAST, |t| t, |a, t| T::max(a, t), |x, y| T::max(x, y);
    Any Tag u8 => u8, 0, |t| t, |a, t| a | t, |x, y| x | y;
    All Tag u8 => u8, 1, |t| t, |a, t| a & t, |x, y| x & y;
    Count Tag u8 => i64, 0, |t| i64::from(t), |a, t| a + i64::from(t), |x, y| x + y;
}
/// Sums; products are accumulated fused.
pub struct Sum<T>(PhantomData<fn() -> T>);
impl<T: Number> Combine for Sum<T> {
    type In = T::E;
    type Acc = T::E;
    #[inline(always)]
    fn identity() -> T::E {
        T::ZERO
    }
    #[inline(always)]
    fn first(term: T::E) -> T::E {
        term
    }
    #[inline(always)]
    fn step(acc: T::E, term: T::E) -> T::E {
        T::add(acc, term)
    }
    #[inline(always)]
    fn fused(acc: T::E, a: T::E, b: T::E) -> T::E {
        T::mul_add(a, b, acc)
    }
    #[inline(always)]
    fn combine(a: T::E, b: T::E) -> T::E {
        T::add(a, b)
    }
}

/// The length of a run of a sharing reduction with `terms` terms and `wanted` runs.
pub fn run_length(terms: i64, wanted: i64) -> i64 {
    let per = i128::from(wanted) * 128;
    let length = 128 * ((i128::from(terms) + per - 1) / per);
    length.clamp(512, 16384) as i64
}

/// One value from the accumulators, neighbours first.
#[inline(always)]
pub fn tree<C: Combine>(mut acc: [C::Acc; ACCUMULATORS]) -> C::Acc {
    let mut n = ACCUMULATORS;
    while n > 1 {
        n /= 2;
        for k in 0..n {
            acc[k] = C::combine(acc[2 * k], acc[2 * k + 1]);
        }
    }
    acc[0]
}

/// The canonical reduction of values.
pub fn canonical<C: Combine>(values: &[C::Acc]) -> C::Acc {
    if values.is_empty() {
        return C::identity();
    }
    let blocks: Vec<C::Acc> = values
        .chunks(BLOCK as usize)
        .map(|block| {
            let mut acc = [C::identity(); ACCUMULATORS];
            for row in block.chunks(ACCUMULATORS) {
                for (acc, &value) in acc.iter_mut().zip(row) {
                    *acc = C::combine(*acc, value);
                }
            }
            tree::<C>(acc)
        })
        .collect();
    if let [value] = blocks[..] { value } else { canonical::<C>(&blocks) }
}

/// The same for columns.
fn canonical_columns<C: Combine>(arch: pulp::Arch, values: Vec<Vec<C::Acc>>) -> Option<Vec<C::Acc>> {
    let mut blocks = Vec::new();
    let n = values.first()?.len();
    for block in values.chunks(BLOCK as usize) {
        let mut counter = Counter::<C>::new(arch);
        for a in 0..ACCUMULATORS.min(block.len()) {
            let mut acc = counter.fresh(n);
            for value in block.iter().skip(a).step_by(ACCUMULATORS) {
                arch.dispatch(Both::<C>(&mut acc, value));
            }
            counter.push(acc);
        }
        blocks.push(counter.finish(block.len() < ACCUMULATORS));
    }
    if blocks.len() == 1 { blocks.pop() } else { canonical_columns::<C>(arch, blocks) }
}

struct Both<'a, C: Combine>(&'a mut [C::Acc], &'a [C::Acc]);
impl<C: Combine> NullaryFnOnce for Both<'_, C> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        for (a, &b) in self.0.iter_mut().zip(self.1) {
            *a = C::combine(*a, b);
        }
    }
}

/// The tree over accumulators that come one after the other: like a binary counter's digits, neighbours that are complete
/// combine.
struct Counter<C: Combine> {
    arch: pulp::Arch,
    stack: Vec<(u32, Vec<C::Acc>)>,
    free: Vec<Vec<C::Acc>>,
}
impl<C: Combine> Counter<C> {
    fn new(arch: pulp::Arch) -> Self {
        Counter { arch, stack: Vec::with_capacity(8), free: Vec::new() }
    }
    fn fresh(&mut self, n: usize) -> Vec<C::Acc> {
        let mut column = self.free.pop().unwrap_or_default();
        column.clear();
        column.resize(n, C::identity());
        column
    }
    fn push(&mut self, value: Vec<C::Acc>) {
        let mut top = (0, value);
        while let Some(below) = self.stack.pop_if(|below| below.0 == top.0) {
            top = self.join(below, top);
        }
        self.stack.push(top);
    }
    fn join(&mut self, mut a: (u32, Vec<C::Acc>), b: (u32, Vec<C::Acc>)) -> (u32, Vec<C::Acc>) {
        self.arch.dispatch(Both::<C>(&mut a.1, &b.1));
        self.free.push(b.1);
        (a.0 + 1, a.1)
    }
    /// Accumulators that no term has reached count as the identity.
    fn finish(&mut self, short: bool) -> Vec<C::Acc> {
        let Some(mut top) = self.stack.pop() else { return Vec::new() };
        while let Some(below) = self.stack.pop() {
            top = self.join(below, top);
        }
        if short {
            for value in &mut top.1 {
                *value = C::combine(*value, C::identity());
            }
        }
        top.1
    }
}

/// Takes a term of every lane into the lanes' accumulators.
struct Step<'a, C: Combine, const FUSED: bool> {
    acc: &'a mut [C::Acc],
    a: &'a [C::In],
    b: &'a [C::In],
    keep: &'a [u8],
}
impl<C: Combine, const FUSED: bool> Step<'_, C, FUSED> {
    #[inline(always)]
    fn go<const VA: bool, const VB: bool, const KEEP: bool>(self) {
        let n = self.acc.len();
        let acc = self.acc;
        let (a, b) = (&self.a[..if VA { n } else { 1 }], &self.b[..if VB { n } else { 1 }]);
        let keep = &self.keep[..if KEEP { n } else { 0 }];
        let (a0, b0) = (a[0], b[0]);
        for k in 0..n {
            let (x, y) = (if VA { a[k] } else { a0 }, if VB { b[k] } else { b0 });
            let next = if FUSED { C::fused(acc[k], x, y) } else { C::step(acc[k], x) };
            acc[k] = if !KEEP || keep[k] != 0 { next } else { acc[k] };
        }
    }
}
impl<C: Combine, const FUSED: bool> NullaryFnOnce for Step<'_, C, FUSED> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let n = self.acc.len();
        let keep = match self.keep.len() {
            0 => false,
            1 if n > 1 => {
                if self.keep[0] == 0 {
                    return;
                }
                false
            }
            _ => true,
        };
        if FUSED {
            match (self.a.len() > 1, self.b.len() > 1, keep) {
                (true, true, false) => self.go::<true, true, false>(),
                (true, false, false) => self.go::<true, false, false>(),
                (false, true, false) => self.go::<false, true, false>(),
                (false, false, false) => self.go::<false, false, false>(),
                (true, true, true) => self.go::<true, true, true>(),
                (true, false, true) => self.go::<true, false, true>(),
                (false, true, true) => self.go::<false, true, true>(),
                (false, false, true) => self.go::<false, false, true>(),
            }
        } else {
            match (self.a.len() > 1, keep) {
                (true, false) => self.go::<true, false, false>(),
                (false, false) => self.go::<false, false, false>(),
                (true, true) => self.go::<true, false, true>(),
                (false, true) => self.go::<false, false, true>(),
            }
        }
    }
}

/// Takes terms along the lanes into 128 accumulators, the first term into number `start`.
struct Row<'a, C: Combine, const FUSED: bool> {
    acc: &'a mut [C::Acc; ACCUMULATORS],
    start: usize,
    n: usize,
    a: &'a [C::In],
    b: &'a [C::In],
    keep: &'a [u8],
}
impl<C: Combine, const FUSED: bool> Row<'_, C, FUSED> {
    #[inline(always)]
    fn go<const VA: bool, const VB: bool, const KEEP: bool>(self) {
        let Row { acc, start, n, a, b, keep } = self;
        let (a, b) = (&a[..if VA { n } else { 1 }], &b[..if VB { n } else { 1 }]);
        let keep = &keep[..if KEEP { n } else { 0 }];
        let (a0, b0) = (a[0], b[0]);
        let mut at = 0;
        let mut slot = start;
        while at < n {
            let run = (ACCUMULATORS - slot).min(n - at);
            let part = &mut acc[slot..slot + run];
            let a = &a[if VA { at..at + run } else { 0..1 }];
            let b = &b[if VB { at..at + run } else { 0..1 }];
            let keep = &keep[if KEEP { at..at + run } else { 0..0 }];
            for k in 0..run {
                let (x, y) = (if VA { a[k] } else { a0 }, if VB { b[k] } else { b0 });
                let next = if FUSED { C::fused(part[k], x, y) } else { C::step(part[k], x) };
                part[k] = if !KEEP || keep[k] != 0 { next } else { part[k] };
            }
            at += run;
            slot = 0;
        }
    }
}
impl<C: Combine, const FUSED: bool> NullaryFnOnce for Row<'_, C, FUSED> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let keep = match self.keep.len() {
            0 => false,
            1 if self.n > 1 => {
                if self.keep[0] == 0 {
                    return;
                }
                false
            }
            _ => true,
        };
        if FUSED {
            match (self.a.len() > 1, self.b.len() > 1, keep) {
                (true, true, false) => self.go::<true, true, false>(),
                (true, false, false) => self.go::<true, false, false>(),
                (false, true, false) => self.go::<false, true, false>(),
                (false, false, false) => self.go::<false, false, false>(),
                (true, true, true) => self.go::<true, true, true>(),
                (true, false, true) => self.go::<true, false, true>(),
                (false, true, true) => self.go::<false, true, true>(),
                (false, false, true) => self.go::<false, false, true>(),
            }
        } else {
            match (self.a.len() > 1, keep) {
                (true, false) => self.go::<true, false, false>(),
                (false, false) => self.go::<false, false, false>(),
                (true, true) => self.go::<true, false, true>(),
                (false, true) => self.go::<false, false, true>(),
            }
        }
    }
}

/// Takes terms along the lanes into one accumulator.
struct Chain<'a, C: Combine, const FUSED: bool> {
    acc: C::Acc,
    n: usize,
    a: &'a [C::In],
    b: &'a [C::In],
    keep: &'a [u8],
}
impl<C: Combine, const FUSED: bool> NullaryFnOnce for Chain<'_, C, FUSED> {
    type Output = C::Acc;
    #[inline(always)]
    fn call(self) -> C::Acc {
        let Chain { mut acc, n, a, b, keep } = self;
        let step = |slice: usize| usize::from(slice > 1);
        let (sa, sb, sk) = (step(a.len()), step(b.len()), step(keep.len()));
        for k in 0..n {
            if keep.is_empty() || keep[k * sk] != 0 {
                acc = if FUSED { C::fused(acc, a[k * sa], b[k * sb]) } else { C::step(acc, a[k * sa]) };
            }
        }
        acc
    }
}

/// Whether any lane is set.
pub fn any_lane(frame: &mut Frame, dst: u32, a: u32) {
    let any = frame.get::<u8>(a).iter().any(|&lane| lane != 0);
    u8::pool_mut(frame)[dst as usize][0] = u8::from(any);
}

/// Numbers of values of the variables, and of terms.
struct Terms {
    lens: Vec<Extent>,
    /// The most that any lane has.
    total: i64,
    /// Of each lane, where they differ.
    totals: Option<Vec<i64>>,
}
enum Extent {
    Uniform(i64),
    Column(Vec<i64>),
}

fn terms(frame: &Frame, code: &ReduceCode) -> Terms {
    let mut lens = Vec::with_capacity(code.variables.len());
    let mut uniform = 1i64;
    let mut ragged = false;
    for (_, len) in &code.variables {
        let len = match len {
            Len::Const(n) => Extent::Uniform(*n),
            Len::Uniform(index) => Extent::Uniform(index.base(frame).max(0)),
            Len::Column(column) => {
                ragged = true;
                Extent::Column(frame.get::<i64>(*column).iter().map(|&n| n.max(0)).collect())
            }
        };
        if let Extent::Uniform(n) = len {
            uniform = uniform.saturating_mul(n);
        }
        lens.push(len);
    }
    if !ragged {
        return Terms { lens, total: uniform, totals: None };
    }
    let mut totals = vec![uniform; frame.n];
    for len in &lens {
        if let Extent::Column(column) = len {
            for (total, &n) in totals.iter_mut().zip(column) {
                *total = total.saturating_mul(n);
            }
        }
    }
    match code.mask.map(|mask| frame.get::<u8>(mask)) {
        None => {}
        Some([0]) if frame.n > 1 => totals.fill(0),
        Some([_]) if frame.n > 1 => {}
        Some(mask) => {
            for (total, &mask) in totals.iter_mut().zip(mask) {
                *total *= i64::from(mask != 0);
            }
        }
    }
    let total = totals.iter().copied().max().unwrap_or(0);
    Terms { lens, total, totals: Some(totals) }
}

/// Whether most lanes would wait for a few.
fn skewed(terms: &Terms) -> bool {
    let Some(totals) = &terms.totals else { return false };
    let sum = totals.iter().fold(0i64, |sum, &total| sum.saturating_add(total));
    terms.total > 64
        && terms.total.saturating_mul(totals.len() as i64) > sum.saturating_mul(8).saturating_add(256 * totals.len() as i64)
}

/// Whether nothing is to be evaluated.
fn masked_out(frame: &Frame, code: &ReduceCode) -> bool {
    code.mask.is_some_and(|mask| frame.get::<u8>(mask).iter().all(|&lane| lane == 0))
}

/// Sets the counters for term `t` of all lanes, and evaluates it.
fn term(machine: &Machine, frame: &mut Frame, code: &ReduceCode, terms: &Terms, t: i64) -> Result<(), Failure> {
    if code.digits.is_empty() {
        let mut rest = t;
        for (at, (&(counter, _), len)) in code.variables.iter().zip(&terms.lens).enumerate().rev() {
            frame.counters[counter as usize] = match len {
                Extent::Uniform(n) if at > 0 => {
                    let digit = rest % n;
                    rest /= n;
                    digit
                }
                _ => rest,
            };
        }
    } else {
        let mut rest = vec![t; frame.n];
        for (at, (&digit, len)) in code.digits.iter().zip(&terms.lens).enumerate().rev() {
            let mut out = frame.take::<i64>(digit);
            for (lane, out) in out[..frame.n].iter_mut().enumerate() {
                let n = match len {
                    Extent::Uniform(n) => *n,
                    Extent::Column(column) => column[lane],
                };
                if at > 0 {
                    *out = rest[lane] % n.max(1);
                    rest[lane] /= n.max(1);
                } else {
                    *out = rest[lane];
                }
            }
            frame.put(digit, out);
        }
    }
    if let (Some(active), Some(totals)) = (code.active, &terms.totals) {
        let mut lanes = frame.take::<u8>(active);
        for (lane, &total) in lanes.iter_mut().zip(totals) {
            *lane = u8::from(t < total);
        }
        frame.put(active, lanes);
    }
    run(machine, frame, &code.body)
}

fn accumulate<C: Combine, const FUSED: bool>(frame: &Frame, code: &ReduceCode, acc: &mut [C::Acc]) {
    let a = frame.get::<C::In>(code.a.index);
    let b = code.b.map_or(a, |b| frame.get::<C::In>(b.index));
    let keep = code.keep.map_or(&[][..], |keep| frame.get::<u8>(keep));
    frame.arch.dispatch(Step::<C, FUSED> { acc, a, b, keep });
}

/// Terms one after the other, all lanes at once, where no order matters.
fn lanes_exact<C: Combine>(machine: &Machine, frame: &mut Frame, code: &ReduceCode) -> Result<(), Failure> {
    let n = frame.n;
    let mut out = frame.take::<C::Acc>(code.dst.index);
    out[..n].fill(C::identity());
    let mut result = Ok(());
    if !masked_out(frame, code) {
        let terms = terms(frame, code);
        result = if frame.picky && skewed(&terms) {
            Err(Failure::Skewed)
        } else {
            (0..terms.total).try_for_each(|t| {
                term(machine, frame, code, &terms, t)?;
                accumulate::<C, false>(frame, code, &mut out[..n]);
                Ok(())
            })
        };
    }
    frame.put(code.dst.index, out);
    result
}

/// Lanes along the terms, for one value, where no order matters.
fn row_exact<C: Combine>(machine: &Machine, frame: &mut Frame, code: &ReduceCode) -> Result<(), Failure> {
    let mut value = C::identity();
    if !masked_out(frame, code) {
        let (lens, total) = uniform_lens(frame, code);
        let length = BLOCK * 16;
        let parts = total.max(0) / length + i64::from(total % length > 0);
        let values = split(machine, frame, total, parts, &|frame, parts| {
            row_parts::<C, false>(machine, frame, code, &lens, total, length, parts)
        })?;
        value = values.iter().fold(C::identity(), |a, &b| C::combine(a, b));
    }
    let mut out = frame.take::<C::Acc>(code.dst.index);
    out[0] = value;
    frame.put(code.dst.index, out);
    Ok(())
}

/// Terms one after the other, all lanes at once.
fn lanes<C: Combine, const FUSED: bool>(machine: &Machine, frame: &mut Frame, code: &ReduceCode) -> Result<(), Failure> {
    let n = frame.n;
    let mut out = frame.take::<C::Acc>(code.dst.index);
    out[..n].fill(C::identity());
    if masked_out(frame, code) {
        frame.put(code.dst.index, out);
        return Ok(());
    }
    let mut terms = terms(frame, code);
    if frame.picky && skewed(&terms) {
        frame.put(code.dst.index, out);
        return Err(Failure::Skewed);
    }
    let result = match code.order {
        OrderCode::Exact | OrderCode::Canonical => lanes_canonical::<C, FUSED>(machine, frame, code, &terms).map(|values| {
            if let Some(values) = values {
                out[..n].copy_from_slice(&values);
            }
        }),
        OrderCode::Scan { forward } => lanes_scan::<C>(machine, frame, code, &terms, forward, &mut out[..n]),
        OrderCode::Sharing(wanted) => match terms.totals.clone() {
            Some(totals) if terms.total > 512 => {
                // Lanes with runs of one length at a time.
                let mut lengths: Vec<i64> = totals.iter().map(|&total| run_length(total, wanted)).collect();
                let of = lengths.clone();
                lengths.sort_unstable();
                lengths.dedup();
                lengths.into_iter().try_for_each(|length| {
                    let own = |lane: usize| of[lane] == length;
                    let some: Vec<i64> = (0..n).map(|lane| if own(lane) { totals[lane] } else { 0 }).collect();
                    terms.total = some.iter().copied().max().unwrap_or(0);
                    terms.totals = Some(some);
                    let values = lanes_sharing::<C, FUSED>(machine, frame, code, &terms, length)?;
                    if let Some(values) = values {
                        for lane in (0..n).filter(|&lane| own(lane)) {
                            out[lane] = values[lane];
                        }
                    }
                    Ok(())
                })
            }
            _ => {
                let length = run_length(terms.total, wanted);
                lanes_sharing::<C, FUSED>(machine, frame, code, &terms, length).map(|values| {
                    if let Some(values) = values {
                        out[..n].copy_from_slice(&values);
                    }
                })
            }
        },
    };
    frame.put(code.dst.index, out);
    result
}

fn lanes_canonical<C: Combine, const FUSED: bool>(
    machine: &Machine,
    frame: &mut Frame,
    code: &ReduceCode,
    terms: &Terms,
) -> Result<Option<Vec<C::Acc>>, Failure> {
    let n = frame.n;
    let mut blocks = Vec::new();
    let mut counter = Counter::<C>::new(frame.arch);
    let mut start = 0;
    while start < terms.total {
        let end = terms.total.min(start + BLOCK);
        for a in start..end.min(start + ACCUMULATORS as i64) {
            let mut acc = counter.fresh(n);
            let mut t = a;
            while t < end {
                term(machine, frame, code, terms, t)?;
                accumulate::<C, FUSED>(frame, code, &mut acc);
                t += ACCUMULATORS as i64;
            }
            counter.push(acc);
        }
        blocks.push(counter.finish(end - start < ACCUMULATORS as i64));
        start = end;
    }
    match blocks.len() {
        0 => Ok(None),
        1 => Ok(blocks.pop()),
        _ => {
            // A lane with one block has that block's value.
            let first = terms.totals.as_ref().map(|_| blocks[0].clone());
            let mut values = canonical_columns::<C>(frame.arch, blocks);
            if let (Some(values), Some(first), Some(totals)) = (&mut values, first, &terms.totals) {
                for (lane, &total) in totals.iter().enumerate() {
                    if total <= BLOCK {
                        values[lane] = first[lane];
                    }
                }
            }
            Ok(values)
        }
    }
}

fn lanes_sharing<C: Combine, const FUSED: bool>(
    machine: &Machine,
    frame: &mut Frame,
    code: &ReduceCode,
    terms: &Terms,
    length: i64,
) -> Result<Option<Vec<C::Acc>>, Failure> {
    let mut runs = Vec::new();
    let mut start = 0;
    while start < terms.total {
        let end = terms.total.min(start.saturating_add(length));
        let mut acc = vec![C::identity(); frame.n];
        for t in start..end {
            term(machine, frame, code, terms, t)?;
            accumulate::<C, FUSED>(frame, code, &mut acc);
        }
        runs.push(acc);
        start = end;
    }
    Ok(canonical_columns::<C>(frame.arch, runs))
}

/// The last value of a scan, of each lane by itself.
fn lanes_scan<C: Combine>(
    machine: &Machine,
    frame: &mut Frame,
    code: &ReduceCode,
    terms: &Terms,
    forward: bool,
    out: &mut [C::Acc],
) -> Result<(), Failure> {
    drop(room::<C::Acc>(terms.total.saturating_mul(out.len() as i64))?);
    let mut columns: Vec<Vec<C::Acc>> = Vec::new();
    for t in 0..terms.total {
        term(machine, frame, code, terms, t)?;
        columns.push((0..out.len()).map(|lane| kept::<C>(frame, code, lane)).collect());
    }
    for (lane, out) in out.iter_mut().enumerate() {
        let total = terms.totals.as_ref().map_or(terms.total, |totals| totals[lane]);
        let values: Vec<C::Acc> = columns[..total.max(0) as usize].iter().map(|column| column[lane]).collect();
        *out = last_of_scan::<C>(values, forward);
    }
    Ok(())
}

/// A lane's term, the identity if it is left out.
fn kept<C: Combine>(frame: &Frame, code: &ReduceCode, lane: usize) -> C::Acc {
    let a = frame.get::<C::In>(code.a.index);
    let keep = code.keep.map_or(&[1][..], |keep| frame.get::<u8>(keep));
    if keep[lane.min(keep.len() - 1)] != 0 { C::first(a[lane.min(a.len() - 1)]) } else { C::identity() }
}

fn last_of_scan<C: Combine>(mut values: Vec<C::Acc>, forward: bool) -> C::Acc {
    if !forward {
        values.reverse();
    }
    crate::scan::last::<C>(&values)
}

/// Evaluates terms `from..to` along the lanes, chunk by chunk; `take` gets the number of each chunk's first.
fn along(
    machine: &Machine,
    frame: &mut Frame,
    code: &ReduceCode,
    lens: &[i64],
    from: i64,
    to: i64,
    take: &mut dyn FnMut(&Frame, i64),
) -> Result<(), Failure> {
    let mut t = from;
    let saved = frame.n;
    let mut result = Ok(());
    while t < to && result.is_ok() {
        let mut n = (to - t).min(machine.width as i64);
        if let Some(flat) = &code.flat {
            frame.n = n as usize;
            fill_flat(frame, &code.variables, flat, t);
        } else {
            let mut rest = t;
            for (at, (&(counter, _), &len)) in code.variables.iter().zip(lens).enumerate().rev() {
                let digit = if at > 0 { rest % len } else { rest };
                frame.counters[counter as usize] = digit;
                if at > 0 {
                    rest /= len;
                }
                if at == lens.len() - 1 && at > 0 {
                    n = n.min(len - digit);
                }
            }
            frame.n = n as usize;
        }
        result = run(machine, frame, &code.body);
        if result.is_ok() {
            take(frame, t);
        }
        t += n;
    }
    frame.n = saved;
    result
}

fn uniform_lens(frame: &Frame, code: &ReduceCode) -> (Vec<i64>, i64) {
    let terms = terms(frame, code);
    let lens = terms.lens.iter().map(|len| if let Extent::Uniform(n) = len { *n } else { 0 }).collect();
    (lens, terms.total)
}

/// Values of the parts `parts` (of `length` terms each), each reduced in its own order.
fn row_parts<C: Combine, const FUSED: bool>(
    machine: &Machine,
    frame: &mut Frame,
    code: &ReduceCode,
    lens: &[i64],
    total: i64,
    length: i64,
    parts: std::ops::Range<i64>,
) -> Result<Vec<C::Acc>, Failure> {
    // Not all of them at once: more terms than can ever be evaluated are no more than a loop that does not end.
    let mut values = Vec::with_capacity((parts.end - parts.start).min(1 << 16) as usize);
    let chain = matches!(code.order, OrderCode::Sharing(_));
    for part in parts {
        let from = part * length;
        let to = total.min(from.saturating_add(length));
        let mut acc = [C::identity(); ACCUMULATORS];
        along(machine, frame, code, lens, from, to, &mut |frame, t| {
            let a = frame.get::<C::In>(code.a.index);
            let b = code.b.map_or(a, |b| frame.get::<C::In>(b.index));
            let keep = code.keep.map_or(&[][..], |keep| frame.get::<u8>(keep));
            let n = frame.n;
            if chain {
                acc[0] = frame.arch.dispatch(Chain::<C, FUSED> { acc: acc[0], n, a, b, keep });
            } else {
                let start = ((t - from) % ACCUMULATORS as i64) as usize;
                frame.arch.dispatch(Row::<C, FUSED> { acc: &mut acc, start, n, a, b, keep });
            }
        })?;
        values.push(if chain { acc[0] } else { tree::<C>(acc) });
    }
    Ok(values)
}

type Work<'a, V> = dyn Fn(&mut Frame, std::ops::Range<i64>) -> Result<Vec<V>, Failure> + Sync + 'a;

/// Splits `parts` among workers if that pays.
fn split<V: Send>(machine: &Machine, frame: &mut Frame, total: i64, parts: i64, work: &Work<V>) -> Result<Vec<V>, Failure> {
    let tasks = (parts.min(machine.threads as i64 * 4)).min(total / 32768);
    if frame.alone || machine.threads < 2 || tasks < 2 {
        return work(frame, 0..parts);
    }
    let frame = &*frame;
    let values = par::collect(tasks as usize, &|task| {
        let mut frame = frame.clone();
        frame.alone = true;
        let task = task as i64;
        work(&mut frame, parts * task / tasks..parts * (task + 1) / tasks)
    })?;
    Ok(values.into_iter().flatten().collect())
}

/// Lanes along the terms, for one value.
fn row<C: Combine, const FUSED: bool>(machine: &Machine, frame: &mut Frame, code: &ReduceCode) -> Result<(), Failure> {
    let mut value = C::identity();
    if !masked_out(frame, code) {
        let (lens, total) = uniform_lens(frame, code);
        if let OrderCode::Scan { forward } = code.order {
            let mut values = room(total)?;
            along(machine, frame, code, &lens, 0, total, &mut |frame, _| {
                values.extend((0..frame.n).map(|lane| kept::<C>(frame, code, lane)));
            })?;
            let mut out = frame.take::<C::Acc>(code.dst.index);
            out[0] = last_of_scan::<C>(values, forward);
            frame.put(code.dst.index, out);
            return Ok(());
        }
        let length = match code.order {
            OrderCode::Exact | OrderCode::Canonical | OrderCode::Scan { .. } => BLOCK,
            OrderCode::Sharing(wanted) => run_length(total, wanted),
        };
        let parts = total.max(0) / length + i64::from(total % length > 0);
        let values = split(machine, frame, total, parts, &|frame, parts| {
            row_parts::<C, FUSED>(machine, frame, code, &lens, total, length, parts)
        })?;
        value = match (code.order, &values[..]) {
            (OrderCode::Exact | OrderCode::Canonical, [value]) => *value,
            (_, values) => canonical::<C>(values),
        };
    }
    let mut out = frame.take::<C::Acc>(code.dst.index);
    out[0] = value;
    frame.put(code.dst.index, out);
    Ok(())
}

#[inline(always)]
pub fn better<T: Tag, const GREATEST: bool>(at: i64, best: T::E, value: T::E) -> bool {
    let beyond = if GREATEST { T::lt(best, value) } else { T::lt(value, best) };
    at < 0 || !T::nan(best) && (T::nan(value) || beyond)
}

fn arg_lanes<T: Tag, const GREATEST: bool>(machine: &Machine, frame: &mut Frame, code: &ReduceCode) -> Result<(), Failure> {
    let n = frame.n;
    let mut at = vec![-1i64; n];
    if !masked_out(frame, code) {
        let terms = terms(frame, code);
        let mut best = vec![T::LEAST; n];
        for t in 0..terms.total {
            term(machine, frame, code, &terms, t)?;
            let a = frame.get::<T::E>(code.a.index);
            let keep = code.keep.map_or(&[][..], |keep| frame.get::<u8>(keep));
            let (sa, sk) = (usize::from(a.len() > 1), usize::from(keep.len() > 1));
            for lane in 0..n {
                let value = a[lane * sa];
                if (keep.is_empty() || keep[lane * sk] != 0) && better::<T, GREATEST>(at[lane], best[lane], value) {
                    best[lane] = value;
                    at[lane] = t;
                }
            }
        }
        if let Some(least) = &code.least {
            let mut lo = vec![0i64; n];
            fill_index(frame, least, &mut lo);
            for (at, lo) in at.iter_mut().zip(lo) {
                if *at >= 0 {
                    *at = at.wrapping_add(lo);
                }
            }
        }
    }
    let mut out = frame.take::<i64>(code.dst.index);
    out[..n].copy_from_slice(&at);
    frame.put(code.dst.index, out);
    Ok(())
}

fn arg_row<T: Tag, const GREATEST: bool>(machine: &Machine, frame: &mut Frame, code: &ReduceCode) -> Result<(), Failure> {
    let mut found = (-1i64, T::LEAST);
    if !masked_out(frame, code) {
        let (lens, total) = uniform_lens(frame, code);
        let length = BLOCK * 16;
        let parts = total.max(0) / length + i64::from(total % length > 0);
        let values = split(machine, frame, total, parts, &|frame, parts| {
            let (from, to) = (parts.start * length, total.min(parts.end.saturating_mul(length)));
            let mut found = (-1i64, T::LEAST);
            along(machine, frame, code, &lens, from, to, &mut |frame, t| {
                let a = frame.get::<T::E>(code.a.index);
                let keep = code.keep.map_or(&[][..], |keep| frame.get::<u8>(keep));
                let (sa, sk) = (usize::from(a.len() > 1), usize::from(keep.len() > 1));
                for lane in 0..frame.n {
                    let value = a[lane * sa];
                    if better::<T, GREATEST>(found.0, found.1, value) && (keep.is_empty() || keep[lane * sk] != 0) {
                        found = (t + lane as i64, value);
                    }
                }
            })?;
            Ok(vec![found])
        })?;
        for (at, value) in values {
            if at >= 0 && better::<T, GREATEST>(found.0, found.1, value) {
                found = (at, value);
            }
        }
        if let (true, Some(least)) = (found.0 >= 0, &code.least) {
            found.0 = found.0.wrapping_add(least.base(frame));
        }
    }
    let mut out = frame.take::<i64>(code.dst.index);
    out[0] = found.0;
    frame.put(code.dst.index, out);
    Ok(())
}

/// What executes a reduction.
pub fn function(reducer: Reducer, ty: Type, fused: bool, along: bool) -> Result<ReduceFn, Unsupported> {
    macro_rules! pick {
        ($c:ty) => {
            if along { row_exact::<$c> as ReduceFn } else { lanes_exact::<$c> }
        };
    }
    macro_rules! arg {
        ($t:ty, $greatest:literal) => {
            if along { arg_row::<$t, $greatest> as ReduceFn } else { arg_lanes::<$t, $greatest> }
        };
    }
    macro_rules! float_sum {
        ($t:ty) => {
            match (fused, along) {
                (true, true) => row::<Sum<$t>, true> as ReduceFn,
                (true, false) => lanes::<Sum<$t>, true>,
                (false, true) => row::<Sum<$t>, false>,
                (false, false) => lanes::<Sum<$t>, false>,
            }
        };
    }
    Ok(match (reducer, ty) {
        (Reducer::Sum, Type::F32) => float_sum!(ops::F32),
        (Reducer::Sum, Type::F64) => float_sum!(ops::F64),
        (Reducer::Sum, Type::I32) => pick!(Sum<ops::I32>),
        (Reducer::Sum, Type::U32) => pick!(Sum<ops::U32>),
        (Reducer::Sum, Type::I64) => pick!(Sum<ops::I64>),
        (Reducer::Sum, Type::U64) => pick!(Sum<ops::U64>),
        (Reducer::Prod, Type::F32) if along => row::<Prod<ops::F32>, false>,
        (Reducer::Prod, Type::F32) => lanes::<Prod<ops::F32>, false>,
        (Reducer::Prod, Type::F64) if along => row::<Prod<ops::F64>, false>,
        (Reducer::Prod, Type::F64) => lanes::<Prod<ops::F64>, false>,
        (Reducer::Prod, Type::I32) => pick!(Prod<ops::I32>),
        (Reducer::Prod, Type::U32) => pick!(Prod<ops::U32>),
        (Reducer::Prod, Type::I64) => pick!(Prod<ops::I64>),
        (Reducer::Prod, Type::U64) => pick!(Prod<ops::U64>),
        (Reducer::Min, Type::I32) => pick!(Least<ops::I32>),
        (Reducer::Min, Type::I64) => pick!(Least<ops::I64>),
        (Reducer::Min, Type::U32) => pick!(Least<ops::U32>),
        (Reducer::Min, Type::U64) => pick!(Least<ops::U64>),
        (Reducer::Min, Type::F32) => pick!(Least<ops::F32>),
        (Reducer::Min, Type::F64) => pick!(Least<ops::F64>),
        (Reducer::Max, Type::I32) => pick!(Greatest<ops::I32>),
        (Reducer::Max, Type::I64) => pick!(Greatest<ops::I64>),
        (Reducer::Max, Type::U32) => pick!(Greatest<ops::U32>),
        (Reducer::Max, Type::U64) => pick!(Greatest<ops::U64>),
        (Reducer::Max, Type::F32) => pick!(Greatest<ops::F32>),
        (Reducer::Max, Type::F64) => pick!(Greatest<ops::F64>),
        (Reducer::Any, Type::Bool) => pick!(Any<ops::Bool>),
        (Reducer::All, Type::Bool) => pick!(All<ops::Bool>),
        (Reducer::Count, Type::Bool) => pick!(Count<ops::Bool>),
        (Reducer::Argmin, Type::I32) => arg!(ops::I32, false),
        (Reducer::Argmin, Type::I64) => arg!(ops::I64, false),
        (Reducer::Argmin, Type::U32) => arg!(ops::U32, false),
        (Reducer::Argmin, Type::U64) => arg!(ops::U64, false),
        (Reducer::Argmin, Type::F32) => arg!(ops::F32, false),
        (Reducer::Argmin, Type::F64) => arg!(ops::F64, false),
        (Reducer::Argmax, Type::I32) => arg!(ops::I32, true),
        (Reducer::Argmax, Type::I64) => arg!(ops::I64, true),
        (Reducer::Argmax, Type::U32) => arg!(ops::U32, true),
        (Reducer::Argmax, Type::U64) => arg!(ops::U64, true),
        (Reducer::Argmax, Type::F32) => arg!(ops::F32, true),
        (Reducer::Argmax, Type::F64) => arg!(ops::F64, true),
        (reducer, ty) => return Err(Unsupported(format!("{reducer} of {ty}"))),
    })
}

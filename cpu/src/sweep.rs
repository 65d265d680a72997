//! Scans over the terms of a statement, row by row or block by block.

use crate::code::Step;
use crate::exec::{self, Failure, Machine};
use crate::frame::Frame;
use crate::ops::Tag;
use crate::points::{frame, length};
use crate::reduce::{self, Combine};
use crate::tensor::{Data, Element};
use crate::{par, scan};

const BLOCK: i64 = scan::BLOCK as i64;

/// A scan along one variable, for every setting of others.
pub struct Sweep<'a> {
    /// Evaluates the terms; its last variable is the scan's.
    pub step: &'a Step,
    pub rows: Vec<i64>,
    /// The variable of the left side: its first value, and how many there are.
    pub lo: i64,
    pub extent: i64,
    pub forward: bool,
    pub inclusive: bool,
}

impl Sweep<'_> {
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

    /// Scans block `b` of `count` terms into `out`, with `p` before it; gives its total.
    fn block<C: Combine>(
        &self,
        machine: &Machine,
        frame: &mut Frame,
        count: i64,
        b: i64,
        p: C::Acc,
        out: &mut [C::Acc],
    ) -> Result<C::Acc, Failure> {
        let (from, to) = (b * BLOCK, count.min((b + 1) * BLOCK));
        let out = &mut out[..(to - from) as usize];
        let (first, end) = if self.forward { (from, to) } else { (count - to, count - from) };
        let step = self.step;
        self.terms(machine, frame, first, end, &mut |frame, at| {
            let out = &mut out[(at - first) as usize..][..frame.n];
            match (frame.get::<C::In>(step.value.index), step.keep) {
                ([value], None) => out.fill(C::first(*value)),
                (values, None) => out.iter_mut().zip(values).for_each(|(out, &value)| *out = C::first(value)),
                (values, Some(keep)) => {
                    let keep = frame.get::<u8>(keep.index);
                    for (lane, out) in out.iter_mut().enumerate() {
                        let kept = keep[lane.min(keep.len() - 1)] != 0;
                        *out = if kept { C::first(values[lane.min(values.len() - 1)]) } else { C::identity() };
                    }
                }
            }
        })?;
        if !self.forward {
            out.reverse();
        }
        Ok(frame.arch.dispatch(scan::Block::<C> { terms: out, p }))
    }

    /// The output whose value is that of term 0; later terms belong to the outputs after it, or before it.
    fn origin(&self, count: i64, first: i64) -> i64 {
        let excluded = i64::from(!self.inclusive);
        if self.forward { first + excluded - self.lo } else { first + count - 1 - excluded - self.lo }
    }

    /// The outputs of a block's terms, and how many of these terms come before them.
    fn outputs(&self, count: i64, origin: i64, b: i64) -> (std::ops::Range<usize>, usize) {
        let (from, to) = (b * BLOCK, count.min((b + 1) * BLOCK));
        let (start, end) = if self.forward { (origin + from, origin + to) } else { (origin - to + 1, origin - from + 1) };
        let (inside_start, inside_end) = (start.clamp(0, self.extent), end.clamp(0, self.extent));
        let skipped = if self.forward { inside_start - start } else { end - inside_end };
        (inside_start as usize..inside_end.max(inside_start) as usize, skipped.max(0) as usize)
    }

    fn deliver<T: Copy>(&self, values: &[T], skipped: usize, out: &mut [T]) {
        let values = &values[skipped.min(values.len())..];
        if self.forward {
            out.iter_mut().zip(values).for_each(|(out, &value)| *out = value);
        } else {
            out.iter_mut().rev().zip(values).for_each(|(out, &value)| *out = value);
        }
    }

    /// The first value of the scan's variable in this row.
    fn first(&self, count: i64) -> i64 {
        let excluded = i64::from(!self.inclusive);
        if self.forward { self.lo + self.extent - excluded - count } else { self.lo + excluded }
    }

    pub fn run<C: Combine>(&self, machine: &Machine, data: &mut Data) -> Result<(), Failure> {
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
            let tasks = (rows as usize).div_ceil(each);
            let cut = |task: usize| extent * each * task;
            let parts = par::Parts::new(out, (0..tasks).map(|task| (cut(task), cut(task + 1).min(extent * rows as usize))));
            return par::each(tasks, &|task| {
                let mut frame = frame(self.step, machine);
                parts.with(task, |part| {
                    for (row, out) in part.chunks_mut(extent).enumerate() {
                        self.row::<C>(machine, &mut frame, (task * each + row) as i64, out, false)?;
                    }
                    Ok(())
                })
            });
        }
        let mut frame = frame(self.step, machine);
        for (row, out) in out.chunks_mut(extent).enumerate() {
            self.row::<C>(machine, &mut frame, row as i64, out, apart)?;
        }
        Ok(())
    }

    fn row<C: Combine>(&self, machine: &Machine, frame: &mut Frame, row: i64, out: &mut [C::Acc], apart: bool) -> Result<(), Failure> {
        let count = self.enter(machine, frame, row)?;
        let blocks = (count + BLOCK - 1) / BLOCK;
        let origin = self.origin(count, self.first(count));
        out.fill(C::identity());
        let mut before = scan::Online::<C>::new();
        if !apart || blocks < 2 {
            let mut values = vec![C::identity(); BLOCK.min(count.max(0)) as usize];
            let mut p = C::identity();
            for b in 0..blocks {
                // The value with `p` in front is not the block's own total.
                let total = self.block::<C>(machine, frame, count, b, p, &mut values)?;
                let (range, skipped) = self.outputs(count, origin, b);
                self.deliver(&values[..(count - b * BLOCK).min(BLOCK) as usize], skipped, &mut out[range]);
                p = before.push(total);
            }
            return Ok(());
        }
        // The blocks' totals first, then what stands before each, then the values.
        let each = (blocks / (machine.threads as i64 * 4)).max(1);
        let shared = &*frame;
        let mut groups: Vec<(i64, i64)> =
            (0..(blocks + each - 1) / each).map(|group| (group * each, blocks.min((group + 1) * each))).collect();
        let totals = par::collect(groups.len(), &|group| {
            let (from, to) = groups[group];
            let mut frame = shared.clone();
            let mut values = vec![C::identity(); BLOCK as usize];
            let mut totals = Vec::with_capacity((to - from).min(1 << 16) as usize);
            for b in from..to {
                totals.push(self.block::<C>(machine, &mut frame, count, b, C::identity(), &mut values)?);
            }
            Ok(totals)
        })?;
        let mut ahead = vec![C::identity()];
        for total in totals.into_iter().flatten() {
            ahead.push(before.push(total));
        }
        // Each group's outputs lie together; in a backward scan the last group's come first.
        if !self.forward {
            groups.reverse();
        }
        let mut cuts = Vec::with_capacity(groups.len());
        let mut at = 0;
        for &(from, to) in &groups {
            let (a, b) = (self.outputs(count, origin, from).0, self.outputs(count, origin, to - 1).0);
            let start = a.start.min(b.start).max(at);
            at = a.end.max(b.end).max(start);
            cuts.push((start, at));
        }
        let parts = par::Parts::new(out, cuts.iter().copied());
        par::each(groups.len(), &|group| {
            let ((from, to), start) = (groups[group], cuts[group].0);
            let mut frame = shared.clone();
            let mut values = vec![C::identity(); BLOCK as usize];
            for b in from..to {
                self.block::<C>(machine, &mut frame, count, b, ahead[b as usize], &mut values)?;
                let (range, skipped) = self.outputs(count, origin, b);
                if !range.is_empty() {
                    let values = &values[..(count - b * BLOCK).min(BLOCK) as usize];
                    parts.with(group, |part| self.deliver(values, skipped, &mut part[range.start - start..range.end - start]));
                }
            }
            Ok(())
        })
    }

    pub fn run_arg<T: Tag, const GREATEST: bool>(&self, machine: &Machine, data: &mut Data) -> Result<(), Failure> {
        let Some(out) = i64::slice_mut(data) else { return Ok(()) };
        if self.extent == 0 {
            return Ok(());
        }
        let mut frame = frame(self.step, machine);
        for (row, out) in out.chunks_mut(self.extent as usize).enumerate() {
            let count = self.enter(machine, &mut frame, row as i64)?;
            let first = self.first(count);
            let mut terms: Vec<(bool, T::E)> = exec::room(count)?;
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
            let mut best = exec::room(count)?;
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
            let origin = self.origin(count, first);
            for (output, out) in out.iter_mut().enumerate() {
                let term = if self.forward { output as i64 - origin } else { origin - output as i64 };
                let at = usize::try_from(term).ok().and_then(|term| best.get(term)).copied().unwrap_or(-1);
                *out = if at < 0 { -1 } else { first + at };
            }
        }
        Ok(())
    }
}

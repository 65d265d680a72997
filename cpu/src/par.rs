//! Work in parallel. Everything generic is outside: the scheduler is compiled once.

use std::sync::Mutex;

use rayon::prelude::*;

use crate::exec::Failure;

/// Does tasks `0..tasks`; gives the first failure in their order.
pub fn each(tasks: usize, work: &(dyn Fn(usize) -> Result<(), Failure> + Sync)) -> Result<(), Failure> {
    let results: Vec<Result<(), Failure>> = (0..tasks).into_par_iter().map(work).collect();
    results.into_iter().collect()
}

/// The values of tasks `0..tasks`.
pub fn collect<V: Send>(tasks: usize, work: &(dyn Fn(usize) -> Result<V, Failure> + Sync)) -> Result<Vec<V>, Failure> {
    let slots: Vec<Mutex<Option<V>>> = (0..tasks).map(|_| Mutex::new(None)).collect();
    each(tasks, &|task| {
        let value = work(task)?;
        if let Ok(mut slot) = slots[task].lock() {
            *slot = Some(value);
        }
        Ok(())
    })?;
    Ok(slots.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect())
}

/// Parts of a slice, each for the task of its number.
pub struct Parts<'a, T>(Vec<Mutex<&'a mut [T]>>);

impl<'a, T> Parts<'a, T> {
    /// Cuts at ascending positions: part `n` goes from `cuts[n].0` to `cuts[n].1`.
    pub fn new(slice: &'a mut [T], cuts: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut rest = slice;
        let mut at = 0;
        let mut parts = Vec::new();
        for (start, end) in cuts {
            let (_, tail) = rest.split_at_mut(start - at);
            let (part, tail) = tail.split_at_mut(end - start);
            parts.push(Mutex::new(part));
            rest = tail;
            at = end;
        }
        Parts(parts)
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Works on a part.
    pub fn with<R>(&self, number: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
        match self.0[number].lock() {
            Ok(mut part) => work(&mut part),
            // Another worker has panicked in it; so does this one.
            Err(_) => work(&mut []),
        }
    }
}

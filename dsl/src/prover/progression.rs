//! Arithmetic progressions of index values, and whether some of them divide an axis.

use super::Trial;
use super::poly::Poly;
use super::search::Related;
use super::solver::Solver;
use crate::program::*;
use std::collections::BTreeSet;

/// `start + stride * t` for t in `0..count`, over dims and scalars, in one solver's atoms. A count below 0 is one of 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progression {
    start: Poly,
    stride: Poly,
    count: Poly,
}

/// The values that an index runs through, each once, while its variables run through their ranges.
pub(crate) fn progression(solver: &mut Solver, variables: &[Ranged], index: ExprId) -> Option<Progression> {
    let terms = &mut solver.terms;
    let mut start = terms.term(index).poly;
    let mut steps: Vec<(Poly, Poly)> = Vec::new(); // factor and count
    for ranged in variables {
        let atom = terms.variable(ranged.variable);
        if !start.mentions(atom) {
            continue;
        }
        let (lo, hi) = (terms.term(ranged.lo).poly, terms.term(ranged.hi).poly);
        let mut factor = Poly::default();
        for (monomial, coefficient) in start.terms().filter(|(monomial, _)| monomial.contains(&atom)) {
            let rest = super::poly::quotient(monomial, &vec![atom])?;
            if rest.contains(&atom) {
                return None;
            }
            factor = factor.plus(&Poly::constant(1).times_monomial(&rest)?, coefficient)?;
        }
        let count = hi.plus(&lo, -1)?;
        let first = start.substitute(atom, &lo)?;
        // A falling progression is a rising one from its other end.
        let falls = factor.terms().all(|(_, coefficient)| coefficient < 0);
        if falls {
            let last = factor.times(&count.shifted(-1)?)?;
            start = first.plus(&last, 1)?;
            factor = Poly::default().plus(&factor, -1)?;
        } else {
            start = first;
        }
        steps.push((factor, count));
    }
    if start.atoms().any(|atom| matches!(terms.atoms[atom as usize].kind, super::terms::AtomKind::Variable(_))) {
        return None;
    }
    // `i * n + j` with j in 0..n is one progression: the inner count times the inner stride is the outer stride.
    while steps.len() > 1 {
        let mut joined = None;
        for (a, (inner, count)) in steps.iter().enumerate() {
            let Some(span) = inner.times(count) else { continue };
            if let Some(b) = steps.iter().enumerate().position(|(b, (outer, _))| a != b && *outer == span) {
                joined = Some((a, b));
                break;
            }
        }
        let (a, b) = joined?;
        let step = (steps[a].0.clone(), steps[a].1.times(&steps[b].1)?);
        steps[b] = step;
        steps.remove(a);
    }
    let (stride, count) = steps.pop().unwrap_or((Poly::constant(1), Poly::constant(1)));
    Some(Progression { start, stride, count })
}

/// Whether progressions divide `0..extent`: each value belongs to exactly one.
pub(crate) fn partition(solver: &mut Solver, parts: &[&Progression], extent: ExprId) -> bool {
    let extent = solver.terms.term(extent).poly;
    segments(solver, parts, &extent).unwrap_or(false) || residues(solver, parts, &extent).unwrap_or(false)
}

fn equal(solver: &mut Solver, a: &Poly, b: &Poly) -> bool {
    a == b || {
        let (up, down) = (a.plus(b, -1), b.plus(a, -1));
        solver.proves(BTreeSet::new(), up) && solver.proves(BTreeSet::new(), down)
    }
}

/// Segments that follow one another from 0 to the extent.
fn segments(solver: &mut Solver, parts: &[&Progression], extent: &Poly) -> Option<bool> {
    let one = Poly::constant(1);
    if parts.iter().any(|part| part.stride != one && part.count != one) {
        return Some(false);
    }
    let mut left: Vec<&Progression> = parts.to_vec();
    let mut at = Poly::default();
    while !left.is_empty() {
        let next =
            left.iter().position(|part| part.start == at).or_else(|| left.iter().position(|part| equal(solver, &part.start, &at)));
        let Some(next) = next else { return Some(false) };
        let part = left.remove(next);
        if !solver.proves(BTreeSet::new(), Some(part.count.clone())) {
            return Some(false);
        }
        at = at.plus(&part.count, 1)?;
    }
    Some(equal(solver, &at, extent))
}

/// One progression per residue of a common literal stride, each as long as the extent asks for.
fn residues(solver: &mut Solver, parts: &[&Progression], extent: &Poly) -> Option<bool> {
    let stride = parts.first()?.stride.as_constant()?;
    if stride != parts.len() as i128 || parts.iter().any(|part| part.stride.as_constant() != Some(stride)) {
        return Some(false);
    }
    let mut starts: Vec<i128> = parts.iter().map(|part| part.start.as_constant()).collect::<Option<_>>()?;
    starts.sort_unstable();
    if starts.iter().enumerate().any(|(at, &start)| start != at as i128) {
        return Some(false);
    }
    // The count is the extent's share: extent - start, divided by the stride, rounded up.
    Some(parts.iter().all(|part| {
        let shared = || {
            let end = part.count.times(&part.stride)?.plus(&part.start, 1)?;
            Some((end.plus(extent, -1)?, extent.plus(&end, -1)?.shifted(stride - 1)?))
        };
        let Some((covers, fits)) = shared() else { return false };
        solver.proves(BTreeSet::new(), Some(covers)) && solver.proves(BTreeSet::new(), Some(fits))
    }))
}

/// Calls `f` for each point of a box of ranges until it says to stop.
pub(crate) fn each_point(trial: &mut Trial, ranges: &[Ranged], f: &mut dyn FnMut(&mut Trial) -> bool) -> bool {
    let Some((first, rest)) = ranges.split_first() else { return f(trial) };
    let (Some(lo), Some(hi)) = (trial.value(first.lo), trial.value(first.hi)) else { return false };
    for value in lo..hi.min(lo + 64) {
        trial.variables.insert(first.variable, value);
        if !each_point(trial, rest, f) {
            return false;
        }
    }
    trial.variables.remove(&first.variable);
    true
}

/// Calls `f` for small extents that satisfy a kernel's conditions, until it says to stop. Scalars are
/// tried alike.
pub(crate) fn try_dims(kernel: &Kernel, roots: &[ExprId], largest: i128, f: &mut dyn FnMut(&mut Trial) -> bool) {
    super::effort::question();
    let Some(Related { conditions, shapes, names }) = super::search::related(kernel, roots) else { return };
    let mut trial = Trial::new(kernel);
    let limit = names.limit(largest, 1024);
    let mut values = vec![0; names.len()];
    for sum in 0..=limit * names.len() as i128 {
        let stop = super::search::compositions(&mut values, 0, sum, limit, &mut |values| {
            names.set(&mut trial, values);
            trial.variables.clear();
            let holds = conditions.iter().all(|&condition| trial.value(condition) == Some(1))
                && shapes.iter().all(|&shape| trial.value(shape).is_some_and(|extent| extent >= 0));
            trial.budget == 0 || holds && f(&mut trial)
        });
        if stop {
            return;
        }
    }
}

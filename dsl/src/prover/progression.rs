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
            // The variable may still hide in an atom, or have gone: what it runs through is met more than once.
            if crate::check::walk::mentions(terms.kernel, index, ranged.variable) {
                return None;
            }
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
///
/// They are laid end to end from 0: what begins where the ones before end is a segment, or a set of progressions of one
/// literal stride whose starts are a full set of consecutive residues, which together are a segment.
pub(crate) fn partition(solver: &mut Solver, parts: &[&Progression], extent: ExprId) -> bool {
    let extent = solver.terms.term(extent).poly;
    if let [part] = parts
        && part.start == Poly::default()
        && part.stride == Poly::constant(1)
        && part.count == extent
    {
        return true; // the whole axis
    }
    let ends: Vec<Poly> = parts.iter().map(|part| part.start.clone()).chain([extent.clone()]).collect();
    let mut walk = Walk { solver, ends };
    walk.from(Poly::default(), parts.to_vec(), &extent)
}

/// The walk along an axis.
struct Walk<'s, 'k> {
    solver: &'s mut Solver<'k>,
    /// Where something may begin: all starts, and the extent.
    ends: Vec<Poly>,
}

impl Walk<'_, '_> {
    fn proves(&mut self, poly: Option<Poly>) -> bool {
        self.solver.proves(BTreeSet::new(), poly)
    }

    fn equal(&mut self, a: &Poly, b: &Poly) -> bool {
        a == b || self.proves(a.plus(b, -1)) && self.proves(b.plus(a, -1))
    }

    /// Whether some parts fill everything from a place on.
    fn from(&mut self, at: Poly, left: Vec<&Progression>, extent: &Poly) -> bool {
        if left.is_empty() {
            return self.equal(&at, extent);
        }
        let here: Vec<usize> = (0..left.len()).filter(|&part| left[part].start == at).collect();
        let here = if here.is_empty() { (0..left.len()).filter(|&part| self.equal(&left[part].start, &at)).collect() } else { here };
        for part in here {
            let Some((members, end)) = self.segment(&left, part) else { continue };
            let rest: Vec<&Progression> = (0..left.len()).filter(|other| !members.contains(other)).map(|other| left[other]).collect();
            // A segment of no length leaves the place to others that begin there.
            if self.from(end, rest, extent) {
                return true;
            }
        }
        false
    }

    /// The segment that begins with a part: its members and its end.
    fn segment(&mut self, left: &[&Progression], first: usize) -> Option<(Vec<usize>, Poly)> {
        let part = left[first];
        let one = Poly::constant(1);
        if part.stride == one || part.count == one {
            return self.proves(Some(part.count.clone())).then(|| Some((vec![first], part.start.plus(&part.count, 1)?)))?;
        }
        let stride = part.stride.as_constant().filter(|stride| (2..=64).contains(stride))?;
        let mut members = vec![first];
        for residue in 1..stride {
            let start = part.start.shifted(residue)?;
            let fits = |other: &usize| left[*other].start == start && left[*other].stride == part.stride;
            members.push((0..left.len()).find(fits)?);
        }
        let counts: Vec<&Poly> = members.iter().map(|&member| &left[member].count).collect();
        if counts.iter().all(|&count| *count == part.count) {
            return self
                .proves(Some(part.count.clone()))
                .then(|| Some((members, part.start.plus(&part.count.times(&part.stride)?, 1)?)))?;
        }
        let ends = self.ends.clone();
        let end = ends.into_iter().find(|end| members.iter().all(|&member| self.shares(left[member], stride, end)))?;
        Some((members, end))
    }

    /// Whether a progression has all its values up to an end, and none behind: its count is `end - start`, divided by the
    /// stride, rounded up.
    fn shares(&mut self, part: &Progression, stride: i128, end: &Poly) -> bool {
        let own = || {
            let last = part.count.times(&part.stride)?.plus(&part.start, 1)?;
            Some((last.plus(end, -1)?, end.plus(&last, -1)?.shifted(stride - 1)?))
        };
        let Some((covers, fits)) = own() else { return false };
        self.proves(Some(covers)) && self.proves(Some(fits))
    }
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

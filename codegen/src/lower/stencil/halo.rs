//! How far a statement's reads reach from its element, array by array, and under which boundary rules.

use std::collections::{BTreeMap, BTreeSet};

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Ranged, Statement, Subscript, VariableId};

use super::super::context::Lowering;
use super::super::map::is_identity;
use super::super::place::Place;
use super::super::read::Staged;
use super::super::tiled::constant_ranges;
use crate::plan::Expr;
use crate::{size, walk};

/// An array that is staged.
#[derive(Clone)]
pub struct Halo {
    pub array: ArrayId,
    /// The reads that the tile serves, and the variables that they are at: the statement's, or those of a `let` that it computes in
    /// place.
    pub reads: BTreeMap<ExprId, Vec<VariableId>>,
    /// A subscript with the boundary rule of each axis; without a rule, nothing outside is read.
    pub rules: Vec<Subscript>,
    /// How far reads reach from the element, axis by axis, batch axes included.
    pub reach: Vec<(i64, i64)>,
    /// The distinct reaches of single reads, and how many elements each reads.
    pub taps: BTreeMap<Vec<(i64, i64)>, i64>,
}

impl Halo {
    /// Lets a tile over the last dims serve the reads.
    pub fn serve(&self, lowering: &mut Lowering, tile: &Expr, dims: usize, low: &[i64]) {
        for (read, own) in &self.reads {
            let staged = Staged { tile: tile.clone(), axes: own[own.len() - dims..].to_vec(), low: low.to_vec() };
            lowering.staged.insert(*read, staged);
        }
    }

    /// The extents of its tile, halo included.
    pub fn extents(&self, tile: &[i64]) -> Vec<i64> {
        let spanned = &self.reach[self.reach.len() - tile.len()..];
        tile.iter().zip(spanned).map(|(extent, (low, high))| extent + high - low).collect()
    }
}

/// The arrays that are read around the element, by the statement and by the `let`s that it computes there.
pub fn halos(lowering: &Lowering, statement: &Statement) -> Vec<Halo> {
    let mut halos: Vec<Halo> = Vec::new();
    let mut pending = vec![(statement.value, statement.variables.clone())];
    let mut entered = BTreeSet::new();
    while let Some((value, own)) = pending.pop() {
        let ranges = constant_ranges(lowering, value);
        for read in walk::reads(lowering.kernel, value) {
            let ExprKind::Read { array, subscripts } = &lowering.kernel.exprs[read].kind else { continue };
            match lowering.places.of(*array) {
                Place::Inline(number) if is_identity(lowering.kernel, subscripts, &own) => {
                    let inlined = &lowering.kernel.statements[number];
                    if is_identity(lowering.kernel, &inlined.subscripts, &inlined.variables) && entered.insert(number) {
                        pending.push((inlined.value, inlined.variables.clone()));
                    }
                }
                Place::Memory | Place::Scratch(_) if *array != statement.array => take_in(lowering, &mut halos, read, &own, &ranges),
                _ => {}
            }
        }
    }
    halos
}

fn take_in(lowering: &Lowering, halos: &mut Vec<Halo>, read: ExprId, own: &[Ranged], ranges: &Ranges) {
    let ExprKind::Read { array, subscripts } = &lowering.kernel.exprs[read].kind else { return };
    let Some((reach, taps)) = reach(lowering, own, *array, subscripts, ranges) else { return };
    let own = own.iter().map(|range| range.variable).collect();
    match halos.iter_mut().find(|halo| halo.array == *array) {
        None => {
            let taps = [(reach.clone(), taps)].into();
            halos.push(Halo { array: *array, reads: [(read, own)].into(), rules: subscripts.clone(), reach, taps });
        }
        Some(halo) => {
            if halo.join(lowering, subscripts, &reach) {
                halo.reads.insert(read, own);
                halo.taps.insert(reach, taps);
            }
        }
    }
}

impl Halo {
    /// Takes in a further read, unless its boundary rules are others.
    fn join(&mut self, lowering: &Lowering, subscripts: &[Subscript], reach: &[(i64, i64)]) -> bool {
        let has_rule = |s: &Subscript| !matches!(s.bounds, Bounds::Proved | Bounds::Assumed);
        let agrees = |(own, other): (&Subscript, &Subscript)| {
            !has_rule(own) || !has_rule(other) || same_rule(lowering, &own.bounds, &other.bounds)
        };
        if !self.rules.iter().zip(subscripts).all(agrees) {
            return false;
        }
        for (own, other) in self.rules.iter_mut().zip(subscripts) {
            if !has_rule(own) {
                *own = other.clone();
            }
        }
        for (own, other) in self.reach.iter_mut().zip(reach) {
            *own = (own.0.min(other.0), own.1.max(other.1));
        }
        true
    }
}

fn same_rule(lowering: &Lowering, a: &Bounds, b: &Bounds) -> bool {
    let text = |id: &ExprId| gpukc_dsl::program::print::expr(lowering.kernel, *id);
    match (a, b) {
        (Bounds::Constant(a), Bounds::Constant(b)) => text(a) == text(b),
        (a, b) => a == b,
    }
}

type Ranges = BTreeMap<VariableId, Option<(i64, i64)>>;

/// How far a read reaches along each axis, and how many elements it reads; `None` if a tile can't serve it.
fn reach(
    lowering: &Lowering,
    own: &[Ranged],
    array: ArrayId,
    subscripts: &[Subscript],
    ranges: &Ranges,
) -> Option<(Vec<(i64, i64)>, i64)> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if subscripts.len() != own.len() {
        return None;
    }
    let mut all = Vec::new();
    let mut taps: i64 = 1;
    let mut seen = BTreeSet::new();
    for (axis, (subscript, own)) in subscripts.iter().zip(own).enumerate() {
        let index = size::linear(kernel, facts, subscript.index)?;
        let offset = index.constant.constant()?;
        let (mut low, mut high) = (offset, offset);
        let mut moves = false;
        for (variable, coefficient) in &index.terms {
            let factor = coefficient.constant()?;
            if *variable == own.variable {
                moves = factor == 1;
                continue;
            }
            let (lo, hi) = (*ranges.get(variable)?)?;
            let ends = [lo.checked_mul(factor)?, hi.checked_mul(factor)?];
            low = low.checked_add(ends[0].min(ends[1]))?;
            high = high.checked_add(ends[0].max(ends[1]))?;
            if seen.insert(*variable) {
                taps = taps.checked_mul(hi.checked_sub(lo)?.checked_add(1)?)?;
            }
        }
        let near = |offset: i64| offset.abs() < 1 << 16;
        if !moves || !near(low) || !near(high) || !rule_is_stageable(lowering, own, array, axis, &subscript.bounds) {
            return None;
        }
        all.push((low, high));
    }
    Some((all, taps))
}

/// Whether the rule can be applied while a tile is filled. Tiles reach past the last element of the left side: what lies there
/// must not be reported, so the axis must not be empty where there are elements.
fn rule_is_stageable(lowering: &Lowering, own: &Ranged, array: ArrayId, axis: usize, bounds: &Bounds) -> bool {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let extent = size::formula(kernel, facts, kernel.arrays[array].shape[axis]);
    match bounds {
        Bounds::Proved | Bounds::Assumed => extent.is_some(),
        Bounds::Constant(value) => {
            let mut constant = extent.is_some();
            walk::walk(kernel, *value, &mut |id| {
                constant &= matches!(
                    kernel.exprs[id].kind,
                    ExprKind::Literal(_) | ExprKind::Dim(_) | ExprKind::Scalar(_) | ExprKind::Unary(..) | ExprKind::Cast(_)
                );
                constant
            });
            constant
        }
        Bounds::Clamp | Bounds::Wrap | Bounds::Mirror | Bounds::Symmetric => {
            let same = extent.is_some() && extent == size::extent(kernel, facts, own);
            same || extent.and_then(|n| n.constant()).is_some_and(|n| n > 0)
        }
        Bounds::Checked | Bounds::Drop => false,
    }
}

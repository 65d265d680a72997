//! Packs: neighbouring elements that move as one access. Which arrays run along a loop, so that packs of them can be loaded ahead of
//! the arithmetic, and how packs are declared, loaded and stored.

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Ranged, Reduce, Statement, Subscript};

use super::context::Lowering;
use super::group::is_flat;
use super::map::is_identity;
use super::place::Place;
use super::read::{access, flat_coefficient, inside_everywhere};
use crate::formula::Formula;
use crate::plan::{CudaType, Expr};
use crate::walk;

/// An array whose elements run along, and the reads that do so.
pub struct Along {
    pub array: ArrayId,
    pub reads: Vec<ExprId>,
    /// The variables that the first of them stands under: the statement's, or those of a `let` computed in place.
    pub own: Vec<Ranged>,
}

/// A read, as [`along`] meets it.
pub struct Read<'a> {
    pub id: ExprId,
    pub array: ArrayId,
    pub subscripts: &'a [Subscript],
    /// The variables that it stands under.
    pub own: &'a [Ranged],
    /// The `let` that is computed where this reads it.
    pub in_place: Option<&'a Statement>,
}

/// What becomes of a read.
pub enum Verdict {
    /// It runs along.
    Along,
    /// What it reads is computed in place: the reads there are to be judged too.
    Enter,
    /// It is made where its value is needed.
    Apart,
    /// Nothing can run along beside it.
    Refuse,
}

impl Read<'_> {
    /// Whether the read may report an index.
    pub fn is_checked(&self) -> bool {
        self.subscripts.iter().any(|subscript| matches!(subscript.bounds, Bounds::Checked))
    }

    /// Whether a `let` is read at the element itself, and its variables run along from `rank` on.
    pub fn is_along(&self, lowering: &Lowering, inlined: &Statement, rank: usize) -> bool {
        let kernel = lowering.kernel;
        let left = is_identity(kernel, &inlined.subscripts, &inlined.variables);
        left && is_identity(kernel, self.subscripts, self.own)
            && is_flat(kernel, lowering.facts, inlined.value, &inlined.variables[rank..])
    }

    /// Whether the points of its variables, counted through, read the elements from the first on.
    pub fn is_counted_through(&self, lowering: &Lowering) -> bool {
        let (kernel, facts) = (lowering.kernel, lowering.facts);
        access(kernel, facts, self.array, self.subscripts).is_some_and(|access| {
            flat_coefficient(kernel, facts, &access, self.own) == Some(Formula::Constant(1))
                && access.constant == Formula::Constant(0)
                && access.terms.len() == self.own.len()
        })
    }
}

/// The arrays that run along with some values under these variables, and may be read ahead of them: a read that is evaluated only
/// sometimes counts if it lies inside its array in any case. `None` if a read refuses.
pub fn along<'l>(
    lowering: &'l Lowering,
    values: &[ExprId],
    variables: &'l [Ranged],
    judge: impl Fn(&Read) -> Verdict,
) -> Option<Vec<Along>> {
    search(lowering, values.iter().rev().map(|&value| (value, variables, true)).collect(), judge)
}

/// The same for the terms of a reduction: the body is evaluated where the filter lets it.
pub fn along_terms<'l>(
    lowering: &'l Lowering,
    reduce: &Reduce,
    variables: &'l [Ranged],
    judge: impl Fn(&Read) -> Verdict,
) -> Option<Vec<Along>> {
    let body = (reduce.body, variables, reduce.filter.is_none());
    search(lowering, std::iter::once(body).chain(reduce.filter.map(|filter| (filter, variables, true))).collect(), judge)
}

/// Searches values, each under its variables, and whether it is evaluated in any case.
fn search<'l>(
    lowering: &'l Lowering,
    mut pending: Vec<(ExprId, &'l [Ranged], bool)>,
    judge: impl Fn(&Read) -> Verdict,
) -> Option<Vec<Along>> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let mut found: Vec<Along> = Vec::new();
    while let Some((value, own, evaluated)) = pending.pop() {
        let sure = if evaluated { walk::sure_reads(kernel, value) } else { Vec::new() };
        for id in walk::reads(kernel, value) {
            let ExprKind::Read { array, subscripts } = &kernel.exprs[id].kind else { continue };
            let in_place = match lowering.places.of(*array) {
                Place::Inline(number) => Some(&kernel.statements[number]),
                Place::Memory | Place::Scratch(_) => None,
                Place::OnChip => continue,
            };
            match (judge(&Read { id, array: *array, subscripts, own, in_place }), in_place) {
                (Verdict::Refuse, _) => return None,
                (Verdict::Enter, Some(inlined)) => pending.push((inlined.value, &inlined.variables, sure.contains(&id))),
                (Verdict::Along, None) if sure.contains(&id) || inside_everywhere(kernel, facts, *array, subscripts, own) => {
                    match found.iter_mut().find(|other| other.array == *array) {
                        Some(same) => same.reads.push(id),
                        None => found.push(Along { array: *array, reads: vec![id], own: own.to_vec() }),
                    }
                }
                _ => {}
            }
        }
    }
    Some(found)
}

impl Lowering<'_> {
    fn pack_name(&self, array: ArrayId) -> String {
        format!("{}_pack", self.kernel.arrays[array].name.replace('.', "_"))
    }

    fn pack_type(&self, array: ArrayId, lanes: i64) -> CudaType {
        CudaType::Pack(self.kernel.arrays[array].element, lanes as u32)
    }

    /// Declares a pack of an array's elements, assigned later.
    pub fn pack(&mut self, array: ArrayId, lanes: i64) -> Expr {
        self.variable(&self.pack_name(array), self.pack_type(array, lanes), None)
    }

    /// Declares registers for several packs of an array's elements.
    pub fn packs(&mut self, array: ArrayId, lanes: i64, count: i64) -> Expr {
        self.registers(&self.pack_name(array), self.pack_type(array, lanes), vec![count as u32])
    }

    /// Loads a pack of an array's elements from an offset on.
    pub fn load_pack(&mut self, array: ArrayId, lanes: i64, offset: Expr) -> Expr {
        let wide = self.wide(array, lanes, offset);
        self.local(&self.pack_name(array), self.pack_type(array, lanes), wide)
    }

    /// A pack of an array's elements in memory.
    pub fn wide(&mut self, array: ArrayId, lanes: i64, offset: Expr) -> Expr {
        let pointer = self.pointer(array);
        Expr::Wide(self.kernel.arrays[array].element, lanes as u32, Box::new(pointer), Box::new(offset))
    }

    /// Lets reads that run along take their values from a pack.
    pub fn take_from(&mut self, along: &Along, element: &Expr) {
        self.computed.extend(along.reads.iter().map(|read| (*read, element.clone())));
    }
}

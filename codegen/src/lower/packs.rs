//! Packs: neighbouring elements that move as one access. Which arrays run along a loop, so that packs of them can be loaded ahead of
//! the arithmetic, and how packs are declared, loaded and stored.

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Ranged, Reduce, Statement, Subscript, VariableId};

use super::context::Lowering;
use super::group::is_flat;
use super::map::is_identity;
use super::place::Place;
use super::read::{access, flat_coefficient, inside_everywhere};
use crate::facts::Facts;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr};
use crate::size::Linear;
use crate::walk;

/// An array whose elements run along, and the reads that do so: all of them of the same element.
pub struct Along {
    pub array: ArrayId,
    pub reads: Vec<ExprId>,
    /// The variables that the first of them stands under: the statement's, or those of a `let` computed in place.
    pub own: Vec<Ranged>,
    pub offset: Offset,
}

/// Which element is read, in a form that can be compared: the row-major offset by the variables that the reads stand under.
#[derive(Clone, Debug, PartialEq)]
pub struct Offset {
    /// The coefficients of those variables, by number, where they are not zero.
    steps: Vec<(usize, Formula)>,
    /// Those of others, which do not change meanwhile.
    outer: Vec<(VariableId, Formula)>,
    constant: Formula,
}

impl Offset {
    fn of(access: Linear, own: &[Ranged]) -> Offset {
        let (mut steps, mut outer) = (Vec::new(), Vec::new());
        for (variable, step) in access.terms {
            match own.iter().position(|range| range.variable == variable) {
                Some(number) => steps.push((number, step)),
                None => outer.push((variable, step)),
            }
        }
        steps.sort_by_key(|(number, _)| *number);
        Offset { steps, outer, constant: access.constant }
    }

    /// Whether it is a multiple of `lanes` wherever the variables from number `rank` on are 0.
    pub fn is_multiple(&self, facts: &Facts, rank: usize, lanes: i64) -> bool {
        let slower = self.steps.iter().filter(|(number, _)| *number < rank).map(|(_, step)| step);
        let all = slower.chain(self.outer.iter().map(|(_, step)| step)).chain([&self.constant]);
        lanes == 1 || all.into_iter().all(|step| facts.multiple(step, lanes))
    }
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
}

impl Along {
    /// A read and those of the same element that are found later.
    pub fn of(lowering: &Lowering, read: &Read) -> Option<Along> {
        let access = access(lowering.kernel, lowering.facts, read.array, read.subscripts)?;
        let offset = Offset::of(access, read.own);
        Some(Along { array: read.array, reads: vec![read.id], own: read.own.to_vec(), offset })
    }

    /// Whether the first `rank` of its variables have no say in where it is.
    pub fn is_shared_by_rows(&self, rank: usize) -> bool {
        self.offset.steps.iter().all(|(number, _)| *number >= rank)
    }

    /// Whether the reads of another are of the same element.
    pub fn is_same(&self, other: &Along) -> bool {
        self.array == other.array && self.offset == other.offset
    }

    /// Joins those that read the same element, or stands by itself.
    pub fn join(self, found: &mut Vec<Along>) {
        match found.iter_mut().find(|other| other.is_same(&self)) {
            Some(same) => same.reads.extend(self.reads),
            None => found.push(self),
        }
    }
}

impl Read<'_> {
    /// Whether a `let` is read at the element itself, and its variables run along from `rank` on.
    pub fn is_along(&self, lowering: &Lowering, inlined: &Statement, rank: usize) -> bool {
        let kernel = lowering.kernel;
        let left = is_identity(kernel, &inlined.subscripts, &inlined.variables);
        left && is_identity(kernel, self.subscripts, self.own)
            && is_flat(kernel, lowering.facts, inlined.value, &inlined.variables[rank..])
    }

    /// Whether the variables from `rank` on run along the elements of memory, which begin at a multiple of `lanes` for every row.
    pub fn runs_along(&self, lowering: &Lowering, rank: usize, lanes: i64) -> bool {
        let (kernel, facts) = (lowering.kernel, lowering.facts);
        access(kernel, facts, self.array, self.subscripts).is_some_and(|access| {
            let along = flat_coefficient(kernel, facts, &access, &self.own[rank..]) == Some(Formula::Constant(1));
            along && Offset::of(access, self.own).is_multiple(facts, rank, lanes)
        })
    }

    /// Whether the points of its variables, counted through, read the elements from the first on.
    pub fn is_counted_through(&self, lowering: &Lowering) -> bool {
        self.counted_from(lowering) == Some(Formula::Constant(0))
    }

    /// The same of its variables from `rank` on, whatever the others are: all rows read the same.
    pub fn is_shared_by_rows(&self, lowering: &Lowering, rank: usize) -> bool {
        self.counted_along(lowering, &self.own[rank..]) == Some(Formula::Constant(0))
    }

    /// The element from which on the points of its variables, counted through, read one after another, if they do.
    pub fn counted_from(&self, lowering: &Lowering) -> Option<Formula> {
        self.counted_along(lowering, self.own)
    }

    fn counted_along(&self, lowering: &Lowering, variables: &[Ranged]) -> Option<Formula> {
        let (kernel, facts) = (lowering.kernel, lowering.facts);
        let access = access(kernel, facts, self.array, self.subscripts)?;
        let along = flat_coefficient(kernel, facts, &access, variables) == Some(Formula::Constant(1));
        (along && access.terms.len() == variables.len()).then_some(access.constant)
    }
}

/// The arrays that run along with some values under these variables, and may be read ahead of them: a read that is evaluated only
/// sometimes counts if it lies inside its array in any case.
pub fn along<'l>(lowering: &'l Lowering, values: &[ExprId], variables: &'l [Ranged], judge: impl Fn(&Read) -> Verdict) -> Vec<Along> {
    search(lowering, values.iter().rev().map(|&value| (value, variables, true)).collect(), judge)
}

/// The same for the terms of a reduction: the body is evaluated where the filter lets it.
pub fn along_terms<'l>(
    lowering: &'l Lowering,
    reduce: &Reduce,
    variables: &'l [Ranged],
    judge: impl Fn(&Read) -> Verdict,
) -> Vec<Along> {
    let body = (reduce.body, variables, reduce.filter.is_none());
    search(lowering, std::iter::once(body).chain(reduce.filter.map(|filter| (filter, variables, true))).collect(), judge)
}

/// Searches values, each under its variables, and whether it is evaluated in any case.
fn search<'l>(lowering: &'l Lowering, mut pending: Vec<(ExprId, &'l [Ranged], bool)>, judge: impl Fn(&Read) -> Verdict) -> Vec<Along> {
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
            let read = Read { id, array: *array, subscripts, own, in_place };
            match (judge(&read), in_place) {
                (Verdict::Enter, Some(inlined)) => pending.push((inlined.value, &inlined.variables, sure.contains(&id))),
                (Verdict::Along, None) if sure.contains(&id) || inside_everywhere(kernel, facts, *array, subscripts, own) => {
                    Along::of(lowering, &read).into_iter().for_each(|along| along.join(&mut found));
                }
                _ => {}
            }
        }
    }
    found
}

/// An element of a piece.
pub fn lane_of(piece: &Expr, lanes: i64, lane: &Expr) -> Expr {
    if lanes > 1 { piece.clone().lane(lane.clone()) } else { piece.clone() }
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

    /// The name and the type of a piece of an array's elements: a pack, or an element where there is one lane.
    pub fn piece_of(&self, array: ArrayId, lanes: i64) -> (String, CudaType) {
        match lanes {
            1 => (format!("{}_element", self.kernel.arrays[array].name.replace('.', "_")), self.kernel.arrays[array].element.into()),
            lanes => (self.pack_name(array), self.pack_type(array, lanes)),
        }
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

    /// Declares registers for several pieces of an array's elements: packs, or an element each where there is one lane.
    pub fn pieces(&mut self, array: ArrayId, lanes: i64, count: i64) -> Expr {
        let (wish, ty) = self.piece_of(array, lanes);
        self.registers(&wish, ty, vec![count as u32])
    }

    /// A piece of an array in memory.
    pub fn piece(&mut self, array: ArrayId, lanes: i64, offset: Expr) -> Expr {
        if lanes > 1 { self.wide(array, lanes, offset) } else { self.pointer(array).at(offset) }
    }

    /// Lets reads that run along take their values from a pack.
    pub fn take_from(&mut self, along: &Along, element: &Expr) {
        self.computed.extend(along.reads.iter().map(|read| (*read, element.clone())));
    }
}

//! The 16 terms of a lane: as packs of four where arrays run along with the terms, one by one in a block that is not whole, or
//! where the arrays' addresses do not allow packs.

use std::collections::HashSet;

use gpukc_dsl::program::{ArrayId, Direction, ExprId, ExprKind, Kernel, Subscript, VariableId};
use gpukc_dsl::types::Reducer;

use super::{Block, Shape, four, wide};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::place::Place;
use crate::lower::read::{access, is_whole};
use crate::lower::reduction::Reduction;
use crate::plan::{CudaType, Expr, Node, call, int};
use crate::size::{self, Linear};
use crate::walk;

/// Most arrays whose packs a lane holds next to the terms.
const MOST_ALONG: usize = 3;

/// An array whose elements run along with the terms.
pub struct Along {
    pub array: ArrayId,
    subscripts: Vec<Subscript>,
    /// Where it is read so.
    pub reads: Vec<ExprId>,
    /// Whether later terms lie at smaller addresses.
    reversed: bool,
}

/// Loads the lane's terms into registers; those beyond the end are the identity.
pub fn load(lowering: &mut Lowering, shape: &Shape, reduction: &Reduction, block: &Block, values: &Expr) -> Result<(), Error> {
    let along = along(lowering, shape, reduction);
    if along.is_empty() {
        return one_by_one(lowering, shape, reduction, block, values);
    }
    let mut places = Vec::new();
    for array in &along {
        let place = array.first_place(lowering, shape, reduction, block.start.clone())?;
        places.push((place, lowering.kernel.arrays[array.array].element.size()));
    }
    let condition = wide(block, places);
    let (then, ()) = lowering.block(|lowering| in_packs(lowering, shape, reduction, block, &along, values))?;
    lowering.computed.clear();
    let (otherwise, ()) = lowering.block(|lowering| one_by_one(lowering, shape, reduction, block, values))?;
    lowering.push(Node::If { condition, then, otherwise });
    Ok(())
}

fn one_by_one(lowering: &mut Lowering, shape: &Shape, reduction: &Reduction, block: &Block, values: &Expr) -> Result<(), Error> {
    let ty = lowering.index_type();
    block.span.each_row(lowering, |lowering, at| {
        four(lowering, "quad", |lowering, quad| {
            let term = lowering.local("term", ty, block.quad(at.clone()) + quad.clone());
            let place = values.clone().at(at).at(quad);
            lowering.push(Node::Assign(place.clone(), reduction.identity.clone()));
            lowering.when(term.clone().less(block.terms.clone()), |lowering| {
                bind(lowering, shape, reduction, term, true);
                lowering.term(reduction, place)
            })
        })
    })
}

/// All loads are issued before the first term is computed.
fn in_packs(
    lowering: &mut Lowering,
    shape: &Shape,
    reduction: &Reduction,
    block: &Block,
    along: &[Along],
    values: &Expr,
) -> Result<(), Error> {
    let packs: Vec<Expr> = along.iter().map(|along| lowering.packs(along.array, 4, block.span.rows)).collect();
    block.span.each_row(lowering, |lowering, at| {
        let first = block.quad_there(lowering, at.clone());
        for (array, pack) in along.iter().zip(&packs) {
            let Expr::Element(_, offset) = array.first_place(lowering, shape, reduction, first.clone())? else {
                return Err(Error::Bug("an array's element is none".into()));
            };
            let [offset] = <[Expr; 1]>::try_from(offset).map_err(|_| Error::Bug("an element with several offsets".into()))?;
            let place = Expr::Unary("&", Box::new(lowering.wide(array.array, 4, offset)));
            lowering.push(Node::Assign(pack.clone().at(at.clone()), call("load_once", vec![place])));
        }
        Ok(())
    })?;
    let numbered = asks_for_number(lowering.kernel, reduction, along);
    block.span.each_row(lowering, |lowering, at| {
        let first = if numbered { block.quad_there(lowering, at.clone()) } else { block.quad(at.clone()) };
        four(lowering, "quad", |lowering, quad| {
            for (array, pack) in along.iter().zip(&packs) {
                let lane = if array.reversed { int(3) - quad.clone() } else { quad.clone() };
                let element = pack.clone().at(at.clone()).lane(lane);
                lowering.computed.extend(array.reads.iter().map(|read| (*read, element.clone())));
            }
            bind(lowering, shape, reduction, first.clone() + quad.clone(), numbered);
            let place = values.clone().at(at).at(quad);
            if reduction.reduce.filter.is_some() {
                lowering.push(Node::Assign(place.clone(), reduction.identity.clone()));
            }
            lowering.term(reduction, place)
        })
    })
}

/// Binds the reduction's variable to the term of that number, by a name where the text asks for it.
pub fn bind(lowering: &mut Lowering, shape: &Shape, reduction: &Reduction, number: Expr, named: bool) {
    let Some(range) = reduction.reduce.variables.first() else { return };
    let value = shape.index(lowering, number);
    let bound = if named && !matches!(value, Expr::Name(_)) {
        let (wish, ty) = (lowering.kernel.variables[range.variable].name.clone(), lowering.index_type());
        lowering.local(&wish, ty, value)
    } else {
        value
    };
    lowering.variables.insert(range.variable, bound);
}

/// Whether terms need the reduction's variable for more than the elements that packs hold.
fn asks_for_number(kernel: &Kernel, reduction: &Reduction, along: &[Along]) -> bool {
    let reduce = &reduction.reduce;
    let held: HashSet<ExprId> = along.iter().flat_map(|array| array.reads.iter().copied()).collect();
    let mut asks = matches!(reduce.reducer, Reducer::Argmin | Reducer::Argmax);
    for root in reduce.filter.into_iter().chain([reduce.body]) {
        walk::walk(kernel, root, &mut |id| {
            asks |= matches!(kernel.exprs[id].kind, ExprKind::Variable(v) if reduce.variables.iter().any(|range| range.variable == v));
            !held.contains(&id)
        });
    }
    asks
}

impl Shape {
    /// Whether all terms have an index along the axis, and one below this.
    fn stays_below(&self, extent: &Formula) -> bool {
        let exclusive = i64::from(!self.scan.inclusive);
        match self.scan.direction {
            Direction::Forward => {
                let from_zero = self.origin.constant().is_some_and(|lo| lo >= 0);
                from_zero && (0..=exclusive).any(|more| extent.clone().plus(more) == self.extent)
            }
            Direction::Backward => self.origin == *extent,
        }
    }
}

impl Along {
    /// The element at the lowest address of the quad that starts with the term of that number.
    pub fn first_place(&self, lowering: &mut Lowering, shape: &Shape, reduction: &Reduction, number: Expr) -> Result<Expr, Error> {
        let number = if self.reversed { number + int(3) } else { number };
        bind(lowering, shape, reduction, number, false);
        let mut indices = Vec::new();
        for subscript in &self.subscripts {
            indices.push(lowering.index(subscript.index)?);
        }
        let offset = lowering.row_major(self.array, indices)?;
        Ok(lowering.pointer(self.array).at(offset))
    }
}

/// Arrays whose elements run along with the terms, and are read whatever conditions say.
pub fn along(lowering: &Lowering, shape: &Shape, reduction: &Reduction) -> Vec<Along> {
    let backward = shape.scan.direction == Direction::Backward;
    arrays(lowering, shape, reduction, |step, _| match step {
        Formula::Constant(1) => Some(backward),
        Formula::Constant(-1) => Some(!backward),
        _ => None,
    })
}

/// Arrays of which each term reads another element, however far from the last one's, whatever conditions say.
pub fn ahead(lowering: &Lowering, shape: &Shape, reduction: &Reduction) -> Vec<Along> {
    arrays(lowering, shape, reduction, |step, _| (*step != Formula::Constant(0)).then_some(false))
}

/// Whether neighbouring columns, by this variable, read neighbouring elements of some array.
pub fn are_side_by_side(lowering: &Lowering, shape: &Shape, reduction: &Reduction, columns: VariableId) -> bool {
    let neighbours = |_: &Formula, access: &Linear| (access.coefficient(columns) == Formula::Constant(1)).then_some(false);
    !arrays(lowering, shape, reduction, neighbours).is_empty()
}

/// Arrays that each term reads unguarded. `judge` has the step from one term's element to the next one's, and the access: whether the
/// array counts, and whether later terms lie at smaller addresses.
fn arrays(lowering: &Lowering, shape: &Shape, reduction: &Reduction, judge: impl Fn(&Formula, &Linear) -> Option<bool>) -> Vec<Along> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let [range] = reduction.reduce.variables.as_slice() else { return Vec::new() };
    let mut found: Vec<(Along, Linear)> = Vec::new();
    let mut reads = reads(kernel, reduction);
    // What a condition guards may lie outside, unless the same element is read unguarded, or all elements are inside.
    reads.sort_by_key(|(_, guarded)| *guarded);
    for (read, guarded) in reads {
        let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
        let Some(access) = access(kernel, facts, *array, subscripts) else { continue };
        if let Some((along, _)) = found.iter_mut().find(|(along, other)| along.array == *array && *other == access) {
            along.reads.push(read);
            continue;
        }
        let Some(reversed) = judge(&access.coefficient(range.variable), &access) else { continue };
        let bound = |v| v == range.variable || shape.batch.iter().any(|outer| outer.variable == v);
        let in_memory = matches!(lowering.places.of(*array), Place::Memory | Place::Scratch(_));
        let outside = guarded && !is_inside(lowering, shape, range.variable, *array, subscripts);
        if outside || !in_memory || found.len() == MOST_ALONG || !access.terms.iter().all(|(v, _)| bound(*v)) {
            continue;
        }
        found.push((Along { array: *array, subscripts: subscripts.clone(), reads: vec![read], reversed }, access));
    }
    found.into_iter().map(|(along, _)| along).collect()
}

/// Whether a read stays inside its array at all terms: its subscripts are variables that go over whole dims at most.
fn is_inside(lowering: &Lowering, shape: &Shape, term: VariableId, array: ArrayId, subscripts: &[Subscript]) -> bool {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    subscripts.iter().zip(&kernel.arrays[array].shape).all(|(subscript, extent)| {
        if kernel.exprs[subscript.index].kind == ExprKind::Variable(term) {
            size::formula(kernel, facts, *extent).is_some_and(|extent| shape.stays_below(&extent))
        } else {
            is_whole(kernel, facts, subscript, *extent, &shape.batch)
        }
    })
}

/// The reads of filter and body, those of reductions inside left out, and whether a condition guards them.
fn reads(kernel: &Kernel, reduction: &Reduction) -> Vec<(ExprId, bool)> {
    let reduce = &reduction.reduce;
    let mut found = Vec::new();
    let mut pending = vec![(reduce.body, reduce.filter.is_some())];
    pending.extend(reduce.filter.map(|filter| (filter, false)));
    while let Some((id, guarded)) = pending.pop() {
        match kernel.exprs[id].kind {
            ExprKind::Reduce(_) => continue,
            ExprKind::Read { .. } => found.push((id, guarded)),
            _ => {}
        }
        pending.extend(walk::operands(kernel, id).into_iter().rev().map(|(operand, below)| (operand, guarded || below)));
    }
    found
}

impl Lowering<'_> {
    /// Assigns a term's value to `place`; where the filter is false, `place` keeps the identity.
    pub fn term(&mut self, reduction: &Reduction, place: Expr) -> Result<(), Error> {
        let assign = |lowering: &mut Self| {
            let value = lowering.term_value(reduction)?;
            // A sum in fewer bits than its terms have.
            let value = match reduction.accumulator {
                CudaType::Element(ty) if ty.is_integer() && ty.size() < reduction.term.size() => value.cast(ty),
                _ => value,
            };
            lowering.push(Node::Assign(place.clone(), value));
            Ok(())
        };
        match reduction.reduce.filter {
            None => assign(self),
            Some(filter) => {
                let condition = self.value(filter)?;
                self.when(condition, assign)
            }
        }
    }
}

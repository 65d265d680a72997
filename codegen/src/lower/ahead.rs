//! Loads ahead of arithmetic, for several terms of a reduction at a time: first what is read at the terms themselves, then what data
//! chooses by it, then the terms are taken. No load passes the branch in which an index outside is reported; this way none waits for
//! one before it.

use gpukc_dsl::program::{Bounds, ExprId, ExprKind, Reduce, Subscript, print};
use gpukc_dsl::types::{BinaryOp, Type};

use super::context::Lowering;
use super::place::Place;
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, int};
use crate::walk;

/// Most arrays that are loaded ahead.
const MOST_NEAR: usize = 8;

/// What is known of a term before it is taken.
pub struct Ahead {
    /// What is read at the term itself: reads that are the same.
    near: Vec<Vec<ExprId>>,
    /// Values that need an index which data gives and which is checked.
    far: Vec<ExprId>,
}

/// The registers that hold it, by term.
pub struct Loaded {
    near: Vec<Expr>,
    far: Vec<Expr>,
}

/// Binds the reduced variables to a term; of those of a group by its number.
type Stand<'s> = &'s mut dyn FnMut(&mut Lowering, &Expr) -> Result<(), Error>;

impl Ahead {
    /// What the terms of reductions over the same range have.
    pub fn of(lowering: &Lowering, reduces: &[&Reduce]) -> Ahead {
        let far = reduces.iter().filter(|reduce| reduce.filter.is_none()).flat_map(|reduce| factors(lowering, reduce));
        Ahead { near: near(lowering, reduces), far: far.filter(|id| is_far(lowering, *id)).collect() }
    }

    /// Whether there is anything that may find an index outside.
    pub fn has_far(&self) -> bool {
        !self.far.is_empty()
    }

    /// Loads what so many terms have.
    pub fn load(&self, lowering: &mut Lowering, count: i64, stand: Stand) -> Result<Loaded, Error> {
        let near: Vec<Expr> = self.near.iter().filter_map(|reads| self.registers(lowering, *reads.first()?, count)).collect();
        if !near.is_empty() {
            each(lowering, count, &mut |lowering, part| {
                stand(lowering, &part)?;
                for (read, registers) in self.near.iter().filter_map(|reads| reads.first()).zip(&near) {
                    let element = lowering.value(*read)?;
                    lowering.push(Node::Assign(registers.clone().at(part.clone()), element));
                }
                Ok(())
            })?;
        }
        let types: Vec<Type> = self.far.iter().map(|id| lowering.kernel.exprs[*id].ty).collect();
        let far: Vec<Expr> = types.iter().map(|ty| lowering.registers("value_ahead", *ty, vec![count as u32])).collect();
        let mut loaded = Loaded { near, far: Vec::new() };
        if !far.is_empty() {
            each(lowering, count, &mut |lowering, part| {
                stand(lowering, &part)?;
                self.recall(lowering, &loaded, &part);
                for (id, registers) in self.far.iter().zip(&far) {
                    let value = lowering.value(*id)?;
                    lowering.push(Node::Assign(registers.clone().at(part.clone()), value));
                }
                Ok(())
            })?;
        }
        loaded.far = far;
        Ok(loaded)
    }

    fn registers(&self, lowering: &mut Lowering, read: ExprId, count: i64) -> Option<Expr> {
        let ExprKind::Read { array, .. } = &lowering.kernel.exprs[read].kind else { return None };
        let array = &lowering.kernel.arrays[*array];
        let (wish, ty) = (format!("{}_ahead", array.name.replace('.', "_")), array.element);
        Some(lowering.registers(&wish, ty, vec![count as u32]))
    }

    /// Lets a term take what has been loaded for it.
    pub fn recall(&self, lowering: &mut Lowering, loaded: &Loaded, part: &Expr) {
        for (reads, registers) in self.near.iter().zip(&loaded.near) {
            lowering.computed.extend(reads.iter().map(|read| (*read, registers.clone().at(part.clone()))));
        }
        lowering.computed.extend(self.far.iter().zip(&loaded.far).map(|(id, registers)| (*id, registers.clone().at(part.clone()))));
    }

    /// Nothing is known of terms any longer.
    pub fn release(&self, lowering: &mut Lowering) {
        self.near.iter().flatten().chain(&self.far).for_each(|id| drop(lowering.computed.remove(id)));
    }
}

/// Visits the terms of a group.
pub fn each(
    lowering: &mut Lowering,
    count: i64,
    visit: &mut dyn FnMut(&mut Lowering, Expr) -> Result<(), Error>,
) -> Result<(), Error> {
    lowering.each("part", Type::I32, [int(0), int(count), int(1)], Unroll::Full, visit)
}

/// The reads that every term evaluates at itself, without a check; those that are written alike together.
fn near(lowering: &Lowering, reduces: &[&Reduce]) -> Vec<Vec<ExprId>> {
    let kernel = lowering.kernel;
    let mut found: Vec<(String, Vec<ExprId>)> = Vec::new();
    for reduce in reduces {
        let own = |id: ExprId| reduce.variables.iter().any(|v| walk::mentions(kernel, id, v.variable));
        for read in walk::sure_reads(kernel, reduce.filter.unwrap_or(reduce.body)) {
            let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
            let in_memory = matches!(lowering.places.of(*array), Place::Memory | Place::Scratch(_));
            let chosen = subscripts.iter().any(|s| !walk::reads(kernel, s.index).is_empty());
            if !in_memory || chosen || !own(read) || can_fail(lowering, read) {
                continue;
            }
            let text = print::expr(kernel, read);
            match found.iter().position(|(known, _)| *known == text) {
                Some(at) => found[at].1.push(read),
                None if found.len() < MOST_NEAR => found.push((text, vec![read])),
                None => {}
            }
        }
        // Where a filter lets the body be evaluated, what the filter reads is known.
        for read in walk::reads(kernel, reduce.body) {
            let text = print::expr(kernel, read);
            if let Some((_, reads)) = found.iter_mut().find(|(known, reads)| *known == text && !reads.contains(&read)) {
                reads.push(read);
            }
        }
    }
    found.into_iter().map(|(_, reads)| reads).collect()
}

/// What makes up a term: the factors of a fused product, else the body.
fn factors(lowering: &Lowering, reduce: &Reduce) -> Vec<ExprId> {
    match lowering.kernel.exprs[reduce.body].kind {
        ExprKind::Binary(BinaryOp::Mul, a, b) if reduce.fused => vec![a, b],
        _ => vec![reduce.body],
    }
}

/// Whether a value needs an element that data chooses, and whose index may be outside.
fn is_far(lowering: &Lowering, id: ExprId) -> bool {
    unsettled(lowering, id, |subscript| !walk::reads(lowering.kernel, subscript.index).is_empty())
}

/// Whether a value may find an index outside that has not been checked before.
fn can_fail(lowering: &Lowering, id: ExprId) -> bool {
    unsettled(lowering, id, |_| true)
}

/// Whether a value has a subscript of this kind that may be outside.
fn unsettled(lowering: &Lowering, id: ExprId, kind: impl Fn(&Subscript) -> bool) -> bool {
    walk::reads(lowering.kernel, id).into_iter().any(|read| {
        let ExprKind::Read { array, subscripts } = &lowering.kernel.exprs[read].kind else { return false };
        let fails = |(axis, subscript): (usize, &Subscript)| {
            let settled = matches!(subscript.bounds, Bounds::Proved | Bounds::Assumed | Bounds::Constant(_));
            !settled && !lowering.in_range.contains(&(*array, axis, subscript.index)) && kind(subscript)
        };
        subscripts.iter().enumerate().any(fails)
    })
}

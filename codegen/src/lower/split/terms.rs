//! The terms of a block that come from the program, as its threads take them.

use gpukc_dsl::program::Ranged;
use gpukc_dsl::types::Type;

use super::{ACCUMULATORS, BLOCK, Member, member};
use crate::error::Error;
use crate::lower::context::{Flat, Lowering};
use crate::lower::group::{from_zero, is_flat};
use crate::lower::packs::{self, Along, Verdict};
use crate::plan::{Expr, Node, Unroll, call, int};

/// Loads that a lane has in flight, by their bytes. Wide ones take registers, and where few are taken, blocks of the next launch find room
/// before this one ends (sum of 8·10^6 f32 on an H200: 16 loads 10.6 µs, 8 loads 10.1 µs); narrow ones take few (2^28 f16: 16 loads
/// 125.8 µs, 32 loads 123.6 µs).
const WIDE_LOADS: i64 = 8;
const NARROW_LOADS: i64 = 32;
/// Registers of elements that are loaded one by one: no more than packs take, or fewer blocks are resident, and fewer find room before the
/// launch ends (twice as many: dot of 8·10^6 f32 18.1 to 23.9 µs).
const SINGLE_REGISTERS: i64 = 16;
/// Arrays read by packs at most: each has some in registers.
pub const MOST_ALONG: usize = 8;

/// A block of terms, as one of its threads sees it.
pub struct Block {
    pub thread: Expr,
    /// Neighbouring accumulators that the thread has of each reduction.
    pub own: i64,
    /// The block's first term in its result.
    pub first: Expr,
    /// Terms of the result.
    pub terms: Expr,
    /// The result's first term among all results' terms.
    pub base: Option<Expr>,
    /// The accumulators of each reduction.
    pub parts: Vec<Expr>,
}

impl Block {
    /// The thread's first term.
    pub fn lo(&self) -> Expr {
        self.first.clone() + self.thread.clone() * int(self.own)
    }
    /// One of the thread's accumulators of a reduction.
    pub fn part(&self, parts: &Expr, part: &Expr) -> Expr {
        if self.own > 1 { parts.clone().at(part.clone()) } else { parts.clone() }
    }
    /// The loop over the accumulators.
    pub fn each_part(&self) -> [Expr; 3] {
        [int(0), int(self.own), int(1)]
    }
    /// The place of a term among all results' terms.
    pub fn at(&self, term: Expr) -> Expr {
        self.base.clone().map_or(term.clone(), |base| base + term)
    }
    /// Declares the end of the block's terms.
    pub fn last(&self, lowering: &mut Lowering) -> Expr {
        let last = call("minimum", vec![self.first.clone() + int(BLOCK), self.terms.clone()]);
        lowering.local("last", lowering.index_type(), last)
    }
}

/// Takes a block's terms from the program.
pub fn of_program(lowering: &mut Lowering, members: &[Member], block: &Block, along: &[Along]) -> Result<(), Error> {
    let flat = members.iter().all(|member| runs_together(lowering, member));
    if along.is_empty() || !flat {
        one_by_one(lowering, members, block, flat)?;
    } else {
        let condition = is_wide(lowering, block, along);
        let (then, ()) = lowering.block(|lowering| wide(lowering, members, block, along))?;
        lowering.computed.clear();
        let (otherwise, ()) = lowering.block(|lowering| narrow(lowering, members, block, along))?;
        lowering.computed.clear();
        lowering.push(Node::If { condition, then, otherwise });
    }
    (lowering.element, lowering.flat) = (None, None);
    Ok(())
}

/// Whether a reduction's variables number its terms in every read.
fn runs_together(lowering: &Lowering, member: &Member) -> bool {
    let (kernel, facts, reduce) = (lowering.kernel, lowering.facts, &member.reduction.reduce);
    let mut values = reduce.filter.into_iter().chain([reduce.body]);
    from_zero(kernel, facts, &reduce.variables) && values.all(|value| is_flat(kernel, facts, value, &reduce.variables))
}

/// Arrays whose elements run along with the terms, result after result, in `let`s computed in place as well.
pub fn along(lowering: &Lowering, members: &[Member]) -> Vec<Along> {
    let mut found: Vec<Along> = Vec::new();
    for member in members {
        let (reduce, results) = (&member.reduction.reduce, member.statement.variables.len());
        let along = packs::along_terms(lowering, reduce, &member.element(), |read| match read.in_place {
            Some(inlined) if read.is_along(lowering, inlined, results) => Verdict::Enter,
            None if read.is_counted_through(lowering) => Verdict::Along,
            _ => Verdict::Apart,
        });
        for along in along {
            match found.iter_mut().find(|other| other.array == along.array) {
                Some(same) => same.reads.extend(along.reads),
                None => found.push(along),
            }
        }
    }
    found.truncate(MOST_ALONG);
    found
}

/// Whether a block's terms can be taken by packs: all are there, and packs of every array may start where they do.
fn is_wide(lowering: &mut Lowering, block: &Block, along: &[Along]) -> Expr {
    let mut condition = (block.first.clone() + int(BLOCK)).binary("<=", block.terms.clone());
    if block.base.is_some() {
        condition = condition.and((block.terms.clone() % int(block.own)).binary("==", int(0)));
    }
    for Along { array, .. } in along {
        let bytes = block.own * lowering.kernel.arrays[*array].element.size() as i64;
        let pointer = lowering.pointer(*array);
        condition = condition.and(call("is_aligned", vec![pointer, int(bytes)]));
    }
    condition
}

/// The lane's terms of a block, one at a time.
fn one_by_one(lowering: &mut Lowering, members: &[Member], block: &Block, flat: bool) -> Result<(), Error> {
    let ty = lowering.index_type();
    let last = block.last(lowering);
    lowering.each("row", ty, [block.lo(), last.clone(), int(ACCUMULATORS)], Unroll::By(4), |lowering, start| {
        lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
            let term = lowering.local("term", ty, start + part.clone());
            lowering.when(term.clone().less(last), |lowering| {
                if !flat {
                    tell_apart(lowering, members, &term)?;
                }
                accumulate(lowering, members, block, &part, |lowering, number| {
                    if flat {
                        run_along(lowering, &members[number].reduction.reduce.variables, term.clone());
                    }
                })
            })
        })
    })
}

/// Binds the reduced variables to the term of that number, where they don't run together.
fn tell_apart(lowering: &mut Lowering, members: &[Member], term: &Expr) -> Result<(), Error> {
    let Some((first, others)) = members.split_first() else { return Ok(()) };
    let mut extents = Vec::new();
    for range in &first.reduction.reduce.variables {
        let formula = lowering.extent(range)?;
        extents.push(lowering.size(&formula, "extent"));
    }
    lowering.bind_term(&first.reduction, term.clone(), &extents)?;
    for other in others {
        member::alike(lowering, &first.reduction.reduce.variables, &other.reduction.reduce.variables);
    }
    Ok(())
}

/// Lets variables that run together stand at a position.
pub fn run_along(lowering: &mut Lowering, variables: &[Ranged], position: Expr) {
    if let [range] = variables {
        lowering.variables.insert(range.variable, position.clone());
    }
    lowering.flat = Some(Flat { variables: variables.to_vec(), position });
}

/// Takes a term of each reduction, at which `stand` binds the variables of the reduction of that number, into the accumulator `part`.
pub fn accumulate(
    lowering: &mut Lowering,
    members: &[Member],
    block: &Block,
    part: &Expr,
    stand: impl Fn(&mut Lowering, usize),
) -> Result<(), Error> {
    for (number, (member, parts)) in members.iter().zip(&block.parts).enumerate() {
        lowering.element = Some(member.element());
        stand(lowering, number);
        lowering.accumulate(&member.reduction, block.part(parts, part))?;
    }
    Ok(())
}

/// Packs of each array that a lane has in flight, if a load is one of so many bytes.
fn depth(lowering: &Lowering, block: &Block, along: &[Along]) -> i64 {
    let widest = along.iter().map(|along| lowering.kernel.arrays[along.array].element.size()).max().unwrap_or(1);
    let streams = along.len().next_power_of_two() as i64;
    let depth = if block.own * widest as i64 > 8 { (2 * WIDE_LOADS / streams).min(WIDE_LOADS) } else { NARROW_LOADS / streams };
    depth.max(4)
}

/// The lane's terms of a whole block, by packs, several of them in flight.
fn wide(lowering: &mut Lowering, members: &[Member], block: &Block, along: &[Along]) -> Result<(), Error> {
    let ty = lowering.index_type();
    let depth = depth(lowering, block, along);
    lowering.each("row", Type::I32, [int(0), int(32), int(depth)], Unroll::By(1), |lowering, row| {
        let start = block.first.clone() + row * int(ACCUMULATORS) + block.thread.clone() * int(block.own);
        let start = lowering.local("start", ty, start);
        let packs: Vec<Expr> = along.iter().map(|along| lowering.packs(along.array, block.own, depth)).collect();
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            for (along, pack) in along.iter().zip(&packs) {
                let at = block.at(start.clone() + ahead.clone() * int(ACCUMULATORS));
                let wide = lowering.wide(along.array, block.own, at);
                lowering.push(Node::Assign(pack.clone().at(ahead.clone()), wide));
            }
            Ok(())
        })?;
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
                let term = start.clone() + ahead.clone() * int(ACCUMULATORS) + part.clone();
                take(lowering, members, block, along, &packs, (&ahead, &part), term)
            })
        })
    })
}

/// The lane's terms of a block that ends early, or where packs may not start: several in flight, an element a load.
fn narrow(lowering: &mut Lowering, members: &[Member], block: &Block, along: &[Along]) -> Result<(), Error> {
    let ty = lowering.index_type();
    let last = block.last(lowering);
    let registers = along.iter().map(|along| (lowering.kernel.arrays[along.array].element.size() as i64 / 4).max(1)).sum::<i64>();
    let depth = 1 << (SINGLE_REGISTERS / (block.own * registers)).max(1).ilog2();
    lowering.each("row", ty, [block.lo(), last.clone(), int(ACCUMULATORS * depth)], Unroll::By(1), |lowering, row| {
        let packs: Vec<Expr> = along.iter().map(|along| lowering.packs(along.array, block.own, depth)).collect();
        let term = |ahead: &Expr, part: &Expr| row.clone() + ahead.clone() * int(ACCUMULATORS) + part.clone();
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
                // No branches between loads: past the end the last term is loaded again.
                let term = call("minimum", vec![term(&ahead, &part), last.clone() - int(1)]);
                let place = lowering.local("place", ty, block.at(term));
                for (along, pack) in along.iter().zip(&packs) {
                    let element = lowering.pointer(along.array).at(place.clone());
                    lowering.push(Node::Assign(pack.clone().at(ahead.clone()).lane(part.clone()), element));
                }
                Ok(())
            })
        })?;
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
                let term = lowering.local("term", ty, term(&ahead, &part));
                lowering.when(term.clone().less(last.clone()), |lowering| {
                    take(lowering, members, block, along, &packs, (&ahead, &part), term)
                })
            })
        })
    })
}

/// Takes a term from a lane of what has been loaded.
fn take(
    lowering: &mut Lowering,
    members: &[Member],
    block: &Block,
    along: &[Along],
    packs: &[Expr],
    (ahead, part): (&Expr, &Expr),
    term: Expr,
) -> Result<(), Error> {
    for (along, pack) in along.iter().zip(packs) {
        lowering.take_from(along, &pack.clone().at(ahead.clone()).lane(part.clone()));
    }
    accumulate(lowering, members, block, part, |lowering, number| {
        run_along(lowering, &members[number].reduction.reduce.variables, term.clone());
    })
}

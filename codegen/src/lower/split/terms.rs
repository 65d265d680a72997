//! The terms of a block that come from the program, as its threads take them.

use gpukc_dsl::program::Ranged;
use gpukc_dsl::types::Type;

use super::{ACCUMULATORS, BLOCK, Member, member};
use crate::error::Error;
use crate::lower::context::{Flat, Lowering};
use crate::lower::group::{from_zero, is_flat};
use crate::lower::packs::{self, Along, Verdict, lane_of};
use crate::lower::reduction::Reduction;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int};
use crate::walk;

/// Loads that a lane has in flight, by their bytes. Wide ones take registers, and where few are taken, blocks of the next launch find room
/// before this one ends (sum of 8·10^6 f32 on an H200: 16 loads 10.6 µs, 8 loads 10.1 µs); narrow ones take few (2^28 f16: 16 loads
/// 125.8 µs, 32 loads 123.6 µs).
const WIDE_LOADS: i64 = 8;
const NARROW_LOADS: i64 = 32;
/// Registers of elements that are loaded one by one: no more than packs take, or fewer blocks are resident, and fewer find room before the
/// launch ends (32 in blocks that end early, where each element has an address of its own: dot of 8·10^6 f32 18.1 to 23.9 µs). In whole
/// blocks all addresses are one and constants.
const SINGLE_REGISTERS: i64 = 32;
const SINGLE_REGISTERS_ENDED: i64 = 16;
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
    /// The result's first term among all results' terms, and how many variables number the results.
    pub base: Option<Expr>,
    pub rank: usize,
    /// Whether results may begin where no pack does.
    pub anywhere: bool,
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
    /// The place of a term in an array that runs along.
    fn place(&self, along: &Along, term: Expr) -> Expr {
        if along.is_shared_by_rows(self.rank) { term } else { self.at(term) }
    }
    /// That the block ends before its result does: all its terms are there.
    fn is_whole(&self) -> Expr {
        (self.first.clone() + int(BLOCK)).binary("<=", self.terms.clone())
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
    match along.is_empty() || !flat {
        true => one_by_one(lowering, members, block, flat)?,
        false => several(lowering, members, block, along)?,
    }
    (lowering.element, lowering.flat) = (None, None);
    Ok(())
}

/// A thread's terms of a block, several in flight: by packs where they may start, by elements elsewhere.
fn several(lowering: &mut Lowering, members: &[Member], block: &Block, along: &[Along]) -> Result<(), Error> {
    let by_packs = match block.own {
        1 => None,
        _ => {
            let condition = is_wide(lowering, block, along);
            Some((condition, lowering.block(|lowering| whole(lowering, members, block, along, Load::Packs))?.0))
        }
    };
    // Of rows of any width most blocks are whole all the same, and take their terms without a test of each.
    let by_elements = match block.anywhere || by_packs.is_none() {
        true => Some(lowering.block(|lowering| whole(lowering, members, block, along, Load::Elements))?.0),
        false => None,
    };
    let mut otherwise = lowering.block(|lowering| ended(lowering, members, block, along))?.0;
    if let Some(then) = by_elements {
        otherwise = vec![Node::If { condition: block.is_whole(), then, otherwise }];
    }
    if let Some((condition, then)) = by_packs {
        otherwise = vec![Node::If { condition, then, otherwise }];
    }
    otherwise.into_iter().for_each(|node| lowering.push(node));
    Ok(())
}

/// Whether a reduction's variables number its terms in every read.
fn runs_together(lowering: &Lowering, member: &Member) -> bool {
    let (kernel, facts, reduce) = (lowering.kernel, lowering.facts, &member.reduction.reduce);
    let mut values = reduce.filter.into_iter().chain([reduce.body]);
    from_zero(kernel, facts, &reduce.variables) && values.all(|value| is_flat(kernel, facts, value, &reduce.variables))
}

/// Arrays whose elements run along with the terms, result after result or the same for each result, in `let`s computed in place as well.
pub fn along(lowering: &Lowering, members: &[Member]) -> Vec<Along> {
    let mut found: Vec<Along> = Vec::new();
    for member in members {
        let (reduce, results) = (&member.reduction.reduce, member.statement.variables.len());
        let along = packs::along_terms(lowering, reduce, &member.element(), |read| match read.in_place {
            Some(inlined) if read.is_along(lowering, inlined, results) => Verdict::Enter,
            None if read.is_counted_through(lowering) || read.is_shared_by_rows(lowering, results) => Verdict::Along,
            _ => Verdict::Apart,
        });
        along.into_iter().for_each(|along| along.join(&mut found));
    }
    found.truncate(MOST_ALONG);
    found
}

/// Whether a block's terms can be taken by packs: all are there, and packs of every array may start where they do.
fn is_wide(lowering: &mut Lowering, block: &Block, along: &[Along]) -> Expr {
    let mut condition = block.is_whole();
    let by_result = block.anywhere && along.iter().any(|along| !along.is_shared_by_rows(block.rank));
    if let Some(base) = block.base.clone().filter(|_| by_result) {
        condition = condition.and((base % int(block.own)).binary("==", int(0)));
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

/// How the terms of a whole block are loaded.
#[derive(Clone, Copy)]
enum Load {
    Packs,
    /// Where packs may not start.
    Elements,
}

/// Packs of each array that a thread has in flight.
fn depth(lowering: &Lowering, block: &Block, along: &[Along]) -> i64 {
    let widest = along.iter().map(|along| lowering.kernel.arrays[along.array].element.size()).max().unwrap_or(1);
    let streams = along.len().next_power_of_two() as i64;
    let depth = if block.own * widest as i64 > 8 { (2 * WIDE_LOADS / streams).min(WIDE_LOADS) } else { NARROW_LOADS / streams };
    depth.max(4)
}

/// The same where elements are loaded one by one into so many registers.
fn single_depth(lowering: &Lowering, block: &Block, along: &[Along], registers: i64) -> i64 {
    let of_term = along.iter().map(|along| (lowering.kernel.arrays[along.array].element.size() as i64 / 4).max(1)).sum::<i64>();
    1 << (registers / (block.own * of_term)).max(1).ilog2()
}

/// A thread's terms of a whole block, several rounds of them in flight.
fn whole(lowering: &mut Lowering, members: &[Member], block: &Block, along: &[Along], load: Load) -> Result<(), Error> {
    let ty = lowering.index_type();
    let depth = match load {
        Load::Packs => depth(lowering, block, along),
        Load::Elements => single_depth(lowering, block, along, SINGLE_REGISTERS),
    };
    lowering.each("row", Type::I32, [int(0), int(32), int(depth)], Unroll::By(1), |lowering, row| {
        let start = block.first.clone() + row * int(ACCUMULATORS) + block.thread.clone() * int(block.own);
        let start = lowering.local("start", ty, start);
        let term = |ahead: &Expr| start.clone() + ahead.clone() * int(ACCUMULATORS);
        let packs: Vec<Expr> = along.iter().map(|along| lowering.pieces(along.array, block.own, depth)).collect();
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| match load {
            Load::Packs => {
                for (along, pack) in along.iter().zip(&packs) {
                    let wide = lowering.wide(along.array, block.own, block.place(along, term(&ahead)));
                    lowering.push(Node::Assign(pack.clone().at(ahead.clone()), wide));
                }
                Ok(())
            }
            Load::Elements => lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
                for (along, pack) in along.iter().zip(&packs) {
                    let place = block.place(along, term(&ahead) + part.clone());
                    let element = lowering.pointer(along.array).at(place);
                    lowering.push(Node::Assign(lane_of(&pack.clone().at(ahead.clone()), block.own, &part), element));
                }
                Ok(())
            }),
        })?;
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
                take_from(lowering, along, &packs, block.own, (&ahead, &part));
                accumulate(lowering, members, block, &part, |lowering, number| {
                    run_along(lowering, &members[number].reduction.reduce.variables, term(&ahead) + part.clone());
                })
            })
        })
    })?;
    lowering.computed.clear();
    Ok(())
}

/// A thread's terms of a block that ends early: several in flight, an element a load.
fn ended(lowering: &mut Lowering, members: &[Member], block: &Block, along: &[Along]) -> Result<(), Error> {
    let ty = lowering.index_type();
    let last = block.last(lowering);
    let depth = single_depth(lowering, block, along, SINGLE_REGISTERS_ENDED);
    lowering.each("row", ty, [block.lo(), last.clone(), int(ACCUMULATORS * depth)], Unroll::By(1), |lowering, row| {
        let packs: Vec<Expr> = along.iter().map(|along| lowering.pieces(along.array, block.own, depth)).collect();
        let term = |ahead: &Expr, part: &Expr| row.clone() + ahead.clone() * int(ACCUMULATORS) + part.clone();
        // No branches between loads: past the end the last term is loaded again.
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
                let term = lowering.local("term", ty, there(term(&ahead, &part), &last));
                for (along, pack) in along.iter().zip(&packs) {
                    let element = lowering.pointer(along.array).at(block.place(along, term.clone()));
                    lowering.push(Node::Assign(lane_of(&pack.clone().at(ahead.clone()), block.own, &part), element));
                }
                Ok(())
            })
        })?;
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
                let term = lowering.local("term", ty, term(&ahead, &part));
                take_from(lowering, along, &packs, block.own, (&ahead, &part));
                for (member, parts) in members.iter().zip(&block.parts) {
                    lowering.element = Some(member.element());
                    take_if_there(lowering, block, &member.reduction, block.part(parts, &part), [&term, &last])?;
                }
                Ok(())
            })
        })
    })?;
    lowering.computed.clear();
    Ok(())
}

/// Takes a term of a reduction if it comes before the end. Where there are few blocks, so that this one's time counts, the last term is
/// computed once more instead, if it may be, and dropped: no branch keeps a thread's terms from going side by side.
fn take_if_there(
    lowering: &mut Lowering,
    block: &Block,
    reduction: &Reduction,
    accumulator: Expr,
    [term, end]: [&Expr; 2],
) -> Result<(), Error> {
    let is_number = matches!(reduction.accumulator, CudaType::Element(_));
    let can_fail = walk::can_fail(lowering.kernel, reduction.reduce.body);
    let may_be = block.own == 1 && is_number && reduction.reduce.filter.is_none() && !can_fail;
    let is_there = term.clone().less(end.clone());
    if !may_be {
        run_along(lowering, &reduction.reduce.variables, term.clone());
        return lowering.when(is_there, |lowering| lowering.accumulate(reduction, accumulator));
    }
    run_along(lowering, &reduction.reduce.variables, there(term.clone(), end));
    let next = lowering.step(reduction, accumulator.clone())?;
    lowering.push(Node::Assign(accumulator.clone(), is_there.choose(next, accumulator)));
    Ok(())
}

/// A term that is there: past the end, the last one.
fn there(term: Expr, end: &Expr) -> Expr {
    call("minimum", vec![term, end.clone() - int(1)])
}

/// Lets reads take their values from what has been loaded.
fn take_from(lowering: &mut Lowering, along: &[Along], packs: &[Expr], own: i64, (ahead, part): (&Expr, &Expr)) {
    for (along, pack) in along.iter().zip(packs) {
        lowering.take_from(along, &lane_of(&pack.clone().at(ahead.clone()), own, part));
    }
}

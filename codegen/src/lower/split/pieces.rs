//! Terms in pieces: reduced variables that don't run together, but the last of them do, such as `a`, `i` and `j` of `x[a, k, i, j]`.
//!
//! Consecutive terms then lie side by side up to the end of a piece, wherever the next one lies. One division finds the piece of a
//! term. Where packs fit into pieces, a thread has neighbouring accumulators and takes a pack a load; elsewhere it has one
//! accumulator, so that neighbouring threads load neighbouring elements.

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Ranged};
use gpukc_dsl::types::Type;

use super::terms::{Block, MOST_ALONG, accumulate, run_along};
use super::{ACCUMULATORS, Member, member};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::group::{from_zero, is_flat, product};
use crate::lower::packs::{self, Verdict};
use crate::lower::read::{access, flat_coefficient};
use crate::plan::{Expr, Node, Unroll, call, int};
use crate::size::Linear;

/// Loads that a thread has in flight at most, of packs and of elements.
const PACKS: i64 = 8;
const ELEMENTS: i64 = 16;

/// How the terms of a sweep lie in pieces.
pub struct Pieces {
    /// How many of the reduced variables number the pieces; the others run along each.
    outer: usize,
    /// Terms of a piece.
    run: Formula,
    /// Neighbouring accumulators of a thread, and elements of a load.
    pub own: i64,
    streams: Vec<Stream>,
}

/// Reads of the same elements of an array, which lie side by side in a piece.
struct Stream {
    array: ArrayId,
    reads: Vec<ExprId>,
    /// The reduction that the first of them belongs to.
    member: usize,
    offset: Offset,
}

/// A row-major offset: the coefficients of a term's variables, by their number, and a constant.
#[derive(PartialEq)]
struct Offset {
    terms: Vec<(usize, Formula)>,
    constant: Formula,
}

impl Offset {
    fn of(access: &Linear, element: &[Ranged]) -> Offset {
        let coefficient = |range: &Ranged| access.coefficient(range.variable);
        let terms = element.iter().map(coefficient).enumerate().filter(|(_, step)| *step != Formula::Constant(0));
        Offset { terms: terms.collect(), constant: access.constant.clone() }
    }
}

impl Pieces {
    /// How the terms lie in pieces, if they do and something is read along these.
    pub fn of(lowering: &Lowering, members: &[Member]) -> Option<Pieces> {
        let outer = members.iter().map(|member| outer(lowering, member)).max()?;
        let first = &members.first()?.reduction.reduce.variables;
        if outer == 0 || outer == first.len() {
            return None;
        }
        let run = product(lowering.kernel, lowering.facts, &first[outer..])?;
        let mut pieces = Pieces { outer, run, own: 1, streams: Vec::new() };
        for (number, member) in members.iter().enumerate() {
            pieces.add_streams(lowering, number, member);
        }
        pieces.streams.truncate(MOST_ALONG);
        if pieces.streams.is_empty() {
            return None;
        }
        pieces.own = pieces.neighbours(lowering, members);
        Some(pieces)
    }

    /// The variables of a reduction that run along a piece.
    fn inner<'m>(&self, member: &'m Member) -> &'m [Ranged] {
        &member.reduction.reduce.variables[self.outer..]
    }

    fn add_streams(&mut self, lowering: &Lowering, number: usize, member: &Member) {
        let (kernel, facts) = (lowering.kernel, lowering.facts);
        let element = member.element();
        let inner = self.inner(member);
        let side_by_side = |access: Linear| flat_coefficient(kernel, facts, &access, inner) == Some(Formula::Constant(1));
        let found = packs::along_terms(lowering, &member.reduction.reduce, &element, |read| {
            let along = read.in_place.is_none() && access(kernel, facts, read.array, read.subscripts).is_some_and(side_by_side);
            if along { Verdict::Along } else { Verdict::Apart }
        });
        for read in found.unwrap_or_default().into_iter().flat_map(|along| along.reads) {
            let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
            let Some(access) = access(kernel, facts, *array, subscripts) else { continue };
            let offset = Offset::of(&access, &element);
            match self.streams.iter_mut().find(|stream| stream.array == *array && stream.offset == offset) {
                Some(same) => same.reads.push(read),
                None => self.streams.push(Stream { array: *array, reads: vec![read], member: number, offset }),
            }
        }
    }

    /// How many neighbouring accumulators a thread has: those of a pack, if all packs start and end in a piece.
    fn neighbours(&self, lowering: &Lowering, members: &[Member]) -> i64 {
        let facts = lowering.facts;
        let size = |stream: &Stream| lowering.kernel.arrays[stream.array].element.size();
        let own = if self.streams.iter().any(|stream| size(stream) >= 8) { 2 } else { 4 };
        let inner = members.first().map_or(0, |member| member.statement.variables.len() + self.outer);
        let starts = |stream: &Stream| {
            let mut steps = stream.offset.terms.iter().filter(|(place, _)| *place < inner).map(|(_, step)| step);
            facts.multiple(&stream.offset.constant, own) && steps.all(|step| facts.multiple(step, own))
        };
        let from_zero = members.iter().all(|member| from_zero(lowering.kernel, facts, self.inner(member)));
        let packs = facts.aligned && from_zero && facts.multiple(&self.run, own) && self.streams.iter().all(starts);
        if packs { own } else { 1 }
    }

    /// Takes a block's terms: loads first, several of them in flight, then arithmetic.
    pub fn terms(&self, lowering: &mut Lowering, members: &[Member], block: &Block) -> Result<(), Error> {
        let ty = lowering.index_type();
        let last = block.last(lowering);
        let most = if self.own > 1 { PACKS } else { ELEMENTS };
        let depth = (2 * most / self.streams.len().next_power_of_two() as i64).clamp(4, most);
        lowering.each("row", ty, [block.lo(), last.clone(), int(ACCUMULATORS * depth)], Unroll::By(1), |lowering, row| {
            let packs: Vec<Expr> = self.streams.iter().map(|stream| self.registers(lowering, stream, depth)).collect();
            let rounds = [int(0), int(depth), int(1)];
            let term = |ahead: &Expr| row.clone() + ahead.clone() * int(ACCUMULATORS);
            lowering.each("ahead", Type::I32, rounds.clone(), Unroll::Full, |lowering, ahead| {
                // No branches between loads: past the end the last term is loaded again.
                let term = call("minimum", vec![term(&ahead), last.clone() - int(self.own)]);
                let term = lowering.local("term", ty, term);
                let within = self.bind(lowering, members, &term)?;
                for (stream, pack) in self.streams.iter().zip(&packs) {
                    let element = self.load(lowering, members, stream, &within)?;
                    lowering.push(Node::Assign(pack.clone().at(ahead.clone()), element));
                }
                Ok(())
            })?;
            lowering.each("ahead", Type::I32, rounds, Unroll::Full, |lowering, ahead| {
                let term = lowering.local("term", ty, term(&ahead));
                let packs: Vec<Expr> = packs.iter().map(|pack| pack.clone().at(ahead.clone())).collect();
                lowering.when(term.clone().less(last), |lowering| self.take(lowering, members, block, &term, packs))
            })
        })?;
        lowering.computed.clear();
        (lowering.element, lowering.flat) = (None, None);
        Ok(())
    }

    /// Takes a term, or as many as a pack has, from what has been loaded of each stream.
    fn take(&self, lowering: &mut Lowering, members: &[Member], block: &Block, term: &Expr, loaded: Vec<Expr>) -> Result<(), Error> {
        let within = self.bind(lowering, members, term)?;
        lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
            for (stream, loaded) in self.streams.iter().zip(loaded) {
                let element = if self.own > 1 { loaded.lane(part.clone()) } else { loaded };
                lowering.computed.extend(stream.reads.iter().map(|read| (*read, element.clone())));
            }
            accumulate(lowering, members, block, &part, |lowering, member| {
                run_along(lowering, self.inner(member), within.clone() + part.clone());
            })
        })
    }

    /// Registers for what a stream has in flight.
    fn registers(&self, lowering: &mut Lowering, stream: &Stream, depth: i64) -> Expr {
        if self.own > 1 {
            return lowering.packs(stream.array, self.own, depth);
        }
        let array = &lowering.kernel.arrays[stream.array];
        let (wish, element) = (format!("{}_element", array.name.replace('.', "_")), array.element);
        lowering.registers(&wish, element, vec![depth as u32])
    }

    /// Binds the variables that number the pieces; gives the term's place in its piece.
    fn bind(&self, lowering: &mut Lowering, members: &[Member], term: &Expr) -> Result<Expr, Error> {
        let ty = lowering.index_type();
        let run = lowering.size(&self.run, "run");
        let Some((first, others)) = members.split_first() else { return Ok(term.clone()) };
        let outer = |member: &Member| member.reduction.reduce.variables[..self.outer].to_vec();
        let mut piece = term.clone() / run.clone();
        if self.outer > 1 {
            piece = lowering.local("piece", ty, piece);
        }
        lowering.decode(&outer(first), piece)?;
        others.iter().for_each(|other| member::alike(lowering, &outer(first), &outer(other)));
        Ok(lowering.local("within", ty, term.clone() % run))
    }

    /// What a stream has from a place in a piece on.
    fn load(&self, lowering: &mut Lowering, members: &[Member], stream: &Stream, within: &Expr) -> Result<Expr, Error> {
        let read = stream.reads.first().map(|read| lowering.kernel.exprs[*read].kind.clone());
        let (Some(ExprKind::Read { subscripts, .. }), Some(member)) = (read, members.get(stream.member)) else {
            return Err(Error::Bug("a stream that nothing reads".into()));
        };
        run_along(lowering, self.inner(member), within.clone());
        let Some(offset) = lowering.flat_place(stream.array, &subscripts)? else {
            return Err(Error::Bug("a stream that does not run along".into()));
        };
        Ok(if self.own > 1 { lowering.wide(stream.array, self.own, offset) } else { lowering.pointer(stream.array).at(offset) })
    }
}

/// How many of a reduction's variables do not run together with those after them.
fn outer(lowering: &Lowering, member: &Member) -> usize {
    let (kernel, facts, reduce) = (lowering.kernel, lowering.facts, &member.reduction.reduce);
    let flat = |from: &usize| {
        let values = reduce.filter.into_iter().chain([reduce.body]);
        let inner = &reduce.variables[*from..];
        from_zero(kernel, facts, inner) && values.into_iter().all(|value| is_flat(kernel, facts, value, inner))
    };
    (0..reduce.variables.len()).find(flat).unwrap_or(reduce.variables.len())
}

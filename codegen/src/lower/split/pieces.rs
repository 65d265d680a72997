//! Terms in pieces: reduced variables that don't run together, but the last of them do, such as `a`, `i` and `j` of `x[a, k, i, j]`.
//!
//! Consecutive terms then lie side by side up to the end of a piece, wherever the next one lies. One division finds the piece of a
//! term. Where packs fit into pieces, a thread has neighbouring accumulators and takes a pack a load; elsewhere it has one
//! accumulator, so that neighbouring threads load neighbouring elements.

use gpukc_dsl::program::{ExprKind, Ranged};
use gpukc_dsl::types::Type;

use super::terms::{Block, MOST_ALONG, accumulate, run_along};
use super::{ACCUMULATORS, Member, member};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::group::{self, from_zero, product};
use crate::lower::packs::{self, Along, Verdict, lane_of};
use crate::lower::place::Place;
use crate::plan::{Expr, Node, Unroll, call, int};
use crate::walk;

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
    /// In which order the variables of each reduction's terms stand, those that run along a piece last.
    orders: Vec<Vec<usize>>,
    streams: Vec<Stream>,
}

/// Reads of the same elements of an array, which lie side by side in a piece.
struct Stream {
    along: Along,
    /// The reduction that the first of them belongs to.
    member: usize,
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
        let orders = orders(lowering, members, outer);
        let mut pieces = Pieces { outer, run, own: 1, orders, streams: Vec::new() };
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

    /// The variables of a reduction's terms, in their order.
    fn element(&self, member: &Member, number: usize) -> Vec<Ranged> {
        let all = member.element();
        self.orders.get(number).into_iter().flatten().filter_map(|place| all.get(*place).copied()).collect()
    }

    fn add_streams(&mut self, lowering: &Lowering, number: usize, member: &Member) {
        let element = self.element(member, number);
        let rank = element.len() - self.inner(member).len();
        let found = packs::along_terms(lowering, &member.reduction.reduce, &element, |read| match read.in_place {
            Some(inlined) if read.is_along(lowering, inlined, rank) => Verdict::Enter,
            None if read.runs_along(lowering, rank, 1) => Verdict::Along,
            _ => Verdict::Apart,
        });
        for along in found {
            // Places are told by numbers of variables, which mean the same where their order is.
            let orders = &self.orders;
            let is_same = |stream: &&mut Stream| orders[stream.member] == orders[number] && stream.along.is_same(&along);
            match self.streams.iter_mut().find(is_same) {
                Some(same) => same.along.reads.extend(along.reads),
                None => self.streams.push(Stream { along, member: number }),
            }
        }
    }

    /// How many neighbouring accumulators a thread has: those of a pack, if all packs start and end in a piece.
    fn neighbours(&self, lowering: &Lowering, members: &[Member]) -> i64 {
        let facts = lowering.facts;
        let size = |stream: &Stream| lowering.kernel.arrays[stream.along.array].element.size();
        let own = if self.streams.iter().any(|stream| size(stream) >= 8) { 2 } else { 4 };
        let inner = members.first().map_or(0, |member| self.inner(member).len());
        let starts = |Stream { along, .. }: &Stream| along.offset.is_multiple(facts, along.own.len() - inner, own);
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
            let packs: Vec<Expr> = self.streams.iter().map(|stream| lowering.pieces(stream.along.array, self.own, depth)).collect();
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
                lowering.take_from(&stream.along, &lane_of(&loaded, self.own, &part));
            }
            accumulate(lowering, members, block, &part, |lowering, number| {
                self.stand(lowering, members, number, within.clone() + part.clone());
            })
        })
    }

    /// Lets a reduction's variables stand at a place in the piece at hand.
    fn stand(&self, lowering: &mut Lowering, members: &[Member], number: usize, within: Expr) {
        if let Some(member) = members.get(number) {
            lowering.element = Some(self.element(member, number));
            run_along(lowering, self.inner(member), within);
        }
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
        let Stream { along, member } = stream;
        let read = along.reads.first().map(|read| lowering.kernel.exprs[*read].kind.clone());
        let Some(ExprKind::Read { subscripts, .. }) = read else { return Err(Error::Bug("a stream that nothing reads".into())) };
        self.stand(lowering, members, *member, within.clone());
        let offset = lowering.at_element_of(&along.own, |lowering| lowering.flat_place(along.array, &subscripts))?;
        let offset = offset.ok_or_else(|| Error::Bug("a stream that does not run along".into()))?;
        Ok(lowering.piece(along.array, self.own, offset))
    }
}

/// In which order the variables of each reduction's terms stand: the result's, then those that are reduced, of which `outer` number the
/// pieces. Where a `let` that is computed in place is read at each of them, in the order of its dims.
fn orders(lowering: &Lowering, members: &[Member], outer: usize) -> Vec<Vec<usize>> {
    let orders: Vec<Option<Vec<usize>>> = members.iter().map(|member| order(lowering, member, outer)).collect();
    let usual = orders.iter().flatten().next().cloned();
    let ordered =
        |(member, own): (&Member, Option<Vec<usize>>)| own.or(usual.clone()).unwrap_or_else(|| (0..member.element().len()).collect());
    members.iter().zip(orders).map(ordered).collect()
}

/// In which order a `let` that is computed in place is read at all variables of a reduction's terms, if one is and those that run along
/// come last.
fn order(lowering: &Lowering, member: &Member, outer: usize) -> Option<Vec<usize>> {
    let kernel = lowering.kernel;
    let (reduce, all) = (&member.reduction.reduce, member.element());
    let of_let = |read| {
        let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { return None };
        let place = |index| all.iter().position(|range| kernel.exprs[index].kind == ExprKind::Variable(range.variable));
        let order: Vec<usize> = subscripts.iter().map(|subscript| place(subscript.index)).collect::<Option<_>>()?;
        let each_once = order.len() == all.len() && (0..all.len()).all(|number| order.contains(&number));
        let inner_last = order.iter().rev().zip((0..all.len()).rev()).take(reduce.variables.len() - outer).all(|(a, b)| *a == b);
        (matches!(lowering.places.of(*array), Place::Inline(_)) && each_once && inner_last).then_some(order)
    };
    let values = reduce.filter.into_iter().chain([reduce.body]);
    values.flat_map(|value| walk::reads(kernel, value)).find_map(of_let)
}

/// How many of a reduction's variables do not run together with those after them.
fn outer(lowering: &Lowering, member: &Member) -> usize {
    let reduce = &member.reduction.reduce;
    let values: Vec<_> = reduce.filter.into_iter().chain([reduce.body]).collect();
    group::pieces(lowering.kernel, lowering.facts, &values, &reduce.variables)
}

//! Some neighbouring lanes of a warp have a row: neighbours take neighbouring terms, so that an access of theirs is a few whole
//! sectors of memory wherever the row begins.
//!
//! The 128 accumulators of the canonical order are shared out like the terms: a lane has every so-many-th. A group of four of them is
//! taken at a time, loads first: what is read at the term itself, then what data chooses by it, then arithmetic.

use gpukc_dsl::program::{Order, Reduce};
use gpukc_dsl::types::Type;

use super::range::{Member, Pass, Range};
use crate::error::Error;
use crate::lower::ahead::{self, Ahead};
use crate::lower::context::Lowering;
use crate::lower::reduction::Reduction;
use crate::lower::split::ACCUMULATORS;
use crate::plan::{Expr, Node, Unroll, call, int};

/// Accumulators, and so terms, that a lane takes at a time.
const GROUP: i64 = 4;

/// The lanes of a row.
pub struct Lanes<'a> {
    pass: &'a Pass,
    range: &'a Range,
    /// How many there are.
    lanes: i64,
    /// Which of them this is.
    lane: Expr,
    /// The row's terms, at most a block.
    count: Expr,
    /// The accumulators of each reduction.
    parts: Vec<Expr>,
    ahead: Ahead,
}

/// Some terms of a lane.
struct Step {
    /// The number of the first one's neighbour in the row's first lane.
    first: Expr,
    /// The group of accumulators that takes them.
    group: Expr,
    /// Where the first of them stands, if all are there and one variable counts them; else each is asked for.
    stands: Option<Expr>,
}

impl<'a> Lanes<'a> {
    /// Declares the accumulators.
    pub fn begin(
        lowering: &mut Lowering,
        (pass, range): (&'a Pass, &'a Range),
        (lanes, lane): (i64, Expr),
        count: Expr,
    ) -> Result<Lanes<'a>, Error> {
        range.settle(lowering);
        let mut parts = Vec::new();
        for Member { reduction, .. } in &pass.members {
            let own = if is_exact(reduction) { GROUP } else { ACCUMULATORS / lanes };
            let wish = format!("{}_part", reduction.reduce.reducer.name());
            let registers = lowering.registers(&wish, reduction.accumulator.clone(), vec![own as u32]);
            lowering.each("part", Type::I32, [int(0), int(own), int(1)], Unroll::Full, |lowering, part| {
                lowering.push(Node::Assign(registers.clone().at(part), reduction.identity.clone()));
                Ok(())
            })?;
            parts.push(registers);
        }
        let reduces: Vec<&Reduce> = pass.members.iter().map(|member| &member.reduction.reduce).collect();
        Ok(Lanes { pass, range, lanes, lane, count, parts, ahead: Ahead::of(lowering, &reduces) })
    }

    /// Takes all terms, and lets the statement find the totals.
    pub fn reduce(&self, lowering: &mut Lowering) -> Result<(), Error> {
        match self.lanes * GROUP {
            ACCUMULATORS => self.take_rounds(lowering)?,
            terms => self.take_groups(lowering, terms)?,
        }
        for (member, parts) in self.pass.members.iter().zip(&self.parts) {
            let total = self.total(lowering, member, parts)?;
            member.keep(lowering, total);
        }
        Ok(())
    }

    /// A warp's rounds: all accumulators take a term each; those that are whole without a test.
    fn take_rounds(&self, lowering: &mut Lowering) -> Result<(), Error> {
        let whole = self.count.clone() / int(ACCUMULATORS) * int(ACCUMULATORS);
        let whole = lowering.local("whole", Type::I32, whole);
        lowering.each("first", Type::I32, [int(0), whole.clone(), int(ACCUMULATORS)], Unroll::By(2), |lowering, first| {
            let stands = self.range.place(lowering, self.pass, first.clone() + self.lane.clone());
            self.take(lowering, &Step { first, group: int(0), stands })
        })?;
        lowering.when(whole.clone().less(self.count.clone()), |lowering| {
            self.take(lowering, &Step { first: whole, group: int(0), stands: None })
        })
    }

    /// Rounds of fewer lanes, one group of accumulators after the other.
    fn take_groups(&self, lowering: &mut Lowering, terms: i64) -> Result<(), Error> {
        let rounds = [int(0), self.count.clone(), int(ACCUMULATORS)];
        lowering.each("round", Type::I32, rounds, Unroll::By(1), |lowering, round| {
            let groups = [int(0), int(ACCUMULATORS / terms), int(1)];
            lowering.each("group", Type::I32, groups, Unroll::Full, |lowering, group| {
                let first = lowering.local("first", Type::I32, round + group.clone() * int(terms));
                lowering
                    .when(first.clone().less(self.count.clone()), |lowering| self.take(lowering, &Step { first, group, stands: None }))
            })
        })
    }

    /// Takes a term into each accumulator of a group.
    fn take(&self, lowering: &mut Lowering, step: &Step) -> Result<(), Error> {
        let loaded = self.ahead.load(lowering, GROUP, &mut |lowering, part| self.stand(lowering, step, part, true))?;
        ahead::each(lowering, GROUP, &mut |lowering, part| {
            let inside = match step.stands {
                Some(_) => None,
                None => Some(self.term(step, &part).less(self.count.clone())),
            };
            lowering.when_some(inside, |lowering| {
                self.stand(lowering, step, &part, false)?;
                self.ahead.recall(lowering, &loaded, &part);
                for (Member { reduction, .. }, parts) in self.pass.members.iter().zip(&self.parts) {
                    let own = if is_exact(reduction) { part.clone() } else { step.group.clone() * int(GROUP) + part.clone() };
                    lowering.accumulate(reduction, parts.clone().at(own))?;
                }
                Ok(())
            })
        })?;
        self.ahead.release(lowering);
        Ok(())
    }

    /// The number of the term that a part of the lane takes.
    fn term(&self, step: &Step, part: &Expr) -> Expr {
        step.first.clone() + self.lane.clone() + part.clone() * int(self.lanes)
    }

    /// Binds the variables to that term; where it may be beyond the end, to the last one instead if `ahead`: no branch stands between
    /// loads.
    fn stand(&self, lowering: &mut Lowering, step: &Step, part: &Expr, ahead: bool) -> Result<(), Error> {
        if let Some(first) = &step.stands {
            self.range.bind_at(lowering, self.pass, 0, first.clone() + part.clone() * int(self.lanes));
            return Ok(());
        }
        let term = self.term(step, part);
        let term = if ahead { call("minimum", vec![term, self.count.clone() - int(1)]) } else { term };
        // It may be the reduced variable's value, which is of the index type.
        let term = lowering.local("term", lowering.index_type(), term);
        self.range.bind(lowering, self.pass, term)
    }

    /// The row's total, in every lane of it.
    fn total(&self, lowering: &mut Lowering, member: &Member, parts: &Expr) -> Result<Expr, Error> {
        let reduction = &member.reduction;
        if is_exact(reduction) {
            let own = reduction.tree((0..GROUP).map(|part| parts.clone().at(int(part))).collect());
            return Ok(call("butterfly", vec![int(self.lanes), own, reduction.functor()]));
        }
        // Neighbours are in neighbouring lanes, and further accumulators in the same.
        let group = |group: i64| {
            let first = if group == 0 { parts.clone() } else { Expr::Unary("&", Box::new(parts.clone().at(int(GROUP * group)))) };
            call("butterfly_of_four", vec![int(self.lanes), first, reduction.functor()])
        };
        let groups = ACCUMULATORS / self.lanes / GROUP;
        if groups == 1 {
            return Ok(group(0));
        }
        let wish = format!("{}_of_lanes", reduction.reduce.reducer.name());
        let total = lowering.variable(&wish, reduction.accumulator.clone(), Some(group(0)));
        let further = call("any_lane", vec![int(self.lanes * GROUP).less(self.count.clone())]);
        let (then, ()) = lowering.block(|lowering| {
            let all = reduction.tree((0..groups).map(|at| if at == 0 { total.clone() } else { group(at) }).collect());
            lowering.push(Node::Assign(total.clone(), all));
            Ok(())
        })?;
        let settled = reduction.settle(total.clone());
        let otherwise = if settled == total { Vec::new() } else { vec![Node::Assign(total.clone(), settled)] };
        lowering.push(Node::If { condition: further, then, otherwise });
        Ok(total)
    }
}

/// Whether any order of the terms serves.
fn is_exact(reduction: &Reduction) -> bool {
    reduction.reduce.order == Order::Exact
}

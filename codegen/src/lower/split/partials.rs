//! Block results between two levels of a reduction: where they are, and how the next level's warps take them in.

use gpukc_dsl::types::{Reducer, Type};

use super::{ACCUMULATORS, Block, Member};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::reduction::Reduction;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int};

/// Most loads that a lane has in flight: those of a whole block of terms.
const MOST_LOADS: i64 = 32;
/// Bytes that a lane has in flight: there are few warps, so each has more than one that goes through an array.
const IN_FLIGHT: i64 = 512;

/// Block results between two levels.
#[derive(Clone, Copy)]
pub struct Partials {
    values: usize,
    /// Of argmin and argmax.
    indices: Option<usize>,
    element: Type,
}

impl Partials {
    /// Scratch memory for `count` accumulators of a reduction.
    pub fn of(lowering: &mut Lowering, member: &Member, wish: &str, count: Formula) -> Partials {
        let element = match member.reduction.accumulator {
            CudaType::Best(ty) | CudaType::Element(ty) | CudaType::Pack(ty, _) | CudaType::Class(_, ty) => ty,
        };
        let wish = format!("{}_{wish}", member.stem);
        let values = lowering.scratch(&wish, count.clone().times(element.size() as i64));
        let places = matches!(member.reduction.accumulator, CudaType::Best(_));
        let indices = places.then(|| lowering.scratch(&format!("{wish}_at"), count.times(8)));
        Partials { values, indices, element }
    }
    /// Reads the block result at `at` as an accumulator.
    pub fn read(self, lowering: &mut Lowering, at: Expr) -> Expr {
        let pointers = self.memories().into_iter().map(|(_, index, element)| lowering.scratch_pointer(index, element, false));
        Partials::accumulator(pointers.map(|pointer| pointer.at(at.clone())).collect())
    }
    /// Its memories: what a pack of each is called, its number, its elements.
    fn memories(self) -> Vec<(&'static str, usize, Type)> {
        let indices = self.indices.map(|index| ("place_pack", index, Type::I64));
        std::iter::once(("value_pack", self.values, self.element)).chain(indices).collect()
    }
    /// An accumulator of an element of each memory.
    fn accumulator(mut elements: Vec<Expr>) -> Expr {
        if elements.len() == 1 { elements.remove(0) } else { call("best", elements) }
    }
    /// Takes a block result into an accumulator that has seen only blocks before it.
    fn take(reduction: &Reduction, so_far: Expr, elements: Vec<Expr>) -> Expr {
        // Without a condition a block has terms, and so its result a place: it is compared like a term.
        let function = match (reduction.reduce.reducer, reduction.reduce.filter) {
            (Reducer::Argmin, None) => "later_minimum",
            (Reducer::Argmax, None) => "later_maximum",
            _ => return reduction.combine(so_far, Partials::accumulator(elements)),
        };
        call(function, std::iter::once(so_far).chain(elements).collect())
    }
    /// Bytes of the widest element.
    pub(super) fn widest(self) -> usize {
        self.memories().iter().map(|(_, _, element)| element.size()).max().unwrap_or(0)
    }
    /// Bytes of a block result.
    fn bytes(self) -> i64 {
        self.memories().iter().map(|(_, _, element)| element.size() as i64).sum()
    }
    /// Stores an accumulator as the block result at `at`.
    pub fn write(self, lowering: &mut Lowering, at: Expr, accumulator: Expr) {
        let values = lowering.scratch_pointer(self.values, self.element, true);
        match self.indices {
            None => lowering.push(Node::Assign(values.at(at), accumulator)),
            Some(indices) => {
                let pointer = lowering.scratch_pointer(indices, Type::I64, true);
                lowering.push(Node::Assign(values.at(at.clone()), call("value_of", vec![accumulator.clone()])));
                lowering.push(Node::Assign(pointer.at(at), call("place_of", vec![accumulator])));
            }
        }
    }
}

/// The thread's terms of a block of partial results. Few threads have one, so all that counts is how many loads are in flight.
pub(super) fn terms(lowering: &mut Lowering, members: &[Member], block: &Block, sources: &[Partials]) -> Result<(), Error> {
    let (ty, own) = (lowering.index_type(), block.own);
    let last = block.last(lowering);
    // They start where a pack may; at most one thread has terms that make none.
    let whole = lowering.local("whole", ty, last.clone() / int(own) * int(own));
    let rest = |member: &Member| {
        let wish = if members.len() > 1 { format!("{}_rest", member.stem) } else { "rest".into() };
        lowering.registers(&wish, member.reduction.accumulator.clone(), vec![own as u32])
    };
    let rests: Vec<Expr> = members.iter().map(rest).collect();
    let owner = whole.clone() / int(own) % int(ACCUMULATORS / own);
    lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
        let term = lowering.local("term", ty, whole.clone() + part.clone());
        let has = owner.clone().binary("==", block.thread.clone()).and(term.clone().less(last.clone()));
        for ((member, source), rest) in members.iter().zip(sources).zip(&rests) {
            let value = source.read(lowering, block.at(term.clone()));
            let value = has.clone().choose(value, member.reduction.identity.clone());
            lowering.push(Node::Assign(rest.clone().at(part.clone()), value));
        }
        Ok(())
    })?;
    packed_terms(lowering, members, block, sources, whole)?;
    lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
        for ((member, parts), rest) in members.iter().zip(&block.parts).zip(&rests) {
            let place = parts.clone().at(part.clone());
            let next = member.reduction.combine(place.clone(), rest.clone().at(part.clone()));
            lowering.push(Node::Assign(place, next));
        }
        Ok(())
    })
}

/// A memory of block results, and the packs of it that a thread has in flight.
struct Stream {
    element: Type,
    pointer: Expr,
    packs: Expr,
}

/// Of the terms below `whole`, the thread's, a pack a load.
fn packed_terms(lowering: &mut Lowering, members: &[Member], block: &Block, sources: &[Partials], whole: Expr) -> Result<(), Error> {
    let (ty, own) = (lowering.index_type(), block.own as u32);
    let bytes: i64 = sources.iter().map(|source| source.bytes()).sum();
    let depth = 1 << (IN_FLIGHT / (block.own * bytes)).clamp(4, MOST_LOADS).ilog2();
    lowering.each("row", ty, [block.lo(), whole.clone(), int(ACCUMULATORS * depth)], Unroll::By(1), |lowering, start| {
        let mut stream = |(wish, index, element): (&str, usize, Type)| {
            let packs = lowering.registers(wish, CudaType::Pack(element, own), vec![depth as u32]);
            Stream { element, packs, pointer: lowering.scratch_pointer(index, element, false) }
        };
        let streams = |source: &Partials| source.memories().into_iter().map(&mut stream).collect();
        let streams: Vec<Vec<Stream>> = sources.iter().map(streams).collect();
        let term = |ahead: Expr| start.clone() + ahead * int(ACCUMULATORS);
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            let term = lowering.local("term", ty, term(ahead.clone()));
            lowering.when(term.clone().less(whole.clone()), |lowering| {
                for Stream { element, pointer, packs } in streams.iter().flatten() {
                    let wide = Expr::Wide(*element, own, Box::new(pointer.clone()), Box::new(block.at(term.clone())));
                    lowering.push(Node::Assign(packs.clone().at(ahead.clone()), wide));
                }
                Ok(())
            })
        })?;
        lowering.each("ahead", Type::I32, [int(0), int(depth), int(1)], Unroll::Full, |lowering, ahead| {
            lowering.when(term(ahead.clone()).less(whole.clone()), |lowering| {
                lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
                    for ((member, parts), streams) in members.iter().zip(&block.parts).zip(&streams) {
                        let lane = |stream: &Stream| stream.packs.clone().at(ahead.clone()).lane(part.clone());
                        let place = parts.clone().at(part.clone());
                        let next = Partials::take(&member.reduction, place.clone(), streams.iter().map(lane).collect());
                        lowering.push(Node::Assign(place, next));
                    }
                    Ok(())
                })
            })
        })
    })
}

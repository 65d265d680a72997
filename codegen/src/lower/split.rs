//! Split: reductions along contiguous memory with too few results to fill a GPU by a block each, or too many terms for one: full
//! reductions, few or long rows.
//!
//! A warp takes a block of 4,096 terms of the canonical order, four neighbouring accumulators a lane, so that a lane's loads are
//! 16 bytes wide and several of them are in flight. Block results are reduced by a further launch of the same form, up to three
//! levels; a level that has nothing to do is not launched. Where all blocks together leave most of a device's threads idle, four warps
//! take a block, an accumulator a thread.

mod member;
mod partials;
mod pieces;
mod terms;

use gpukc_dsl::program::ArrayId;
use gpukc_dsl::types::Type;

pub use self::member::{Member, bind_results, finish_level, members};
pub use self::partials::Partials;
use self::pieces::Pieces;
use self::terms::Block;
pub use self::terms::run_along;
use super::context::Lowering;
use super::group::{Group, product};
use super::packs::Along;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};

/// Terms of a block of the canonical order.
pub const BLOCK: i64 = 4096;
/// So many blocks leave a multiprocessor less than eight warps, if a warp takes one.
const FEW_BLOCKS: i64 = 1024;
/// Accumulators of a block of terms; each takes every 128th of them.
pub const ACCUMULATORS: i64 = 128;

/// A level of a sweep: terms in, block results or the final results out.
pub struct Level {
    /// 1, 2 or 3.
    pub number: usize,
    /// Terms of a result.
    pub terms: Formula,
    /// Blocks of a result.
    pub blocks: Formula,
    /// Where the terms come from, by reduction; `None`: the program.
    pub sources: Option<Vec<Partials>>,
    /// Where block results go; `None`: this is the last level, one block a result.
    pub targets: Option<Vec<Partials>>,
    /// 0 where this level has nothing to do.
    pub needed: Formula,
}

/// The levels that reductions of `terms` terms with `results` results need at most. `pitch` is how many block results are
/// set aside for a result that has so many blocks.
pub fn levels(
    lowering: &mut Lowering,
    members: &[Member],
    terms: &Formula,
    results: &Formula,
    pitch: impl Fn(&Formula) -> Formula,
) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    let (mut sources, mut terms, mut needed) = (None, terms.clone(), Formula::Constant(1));
    for number in 1..=3 {
        let blocks = terms.clone().div_ceil(BLOCK).max(1);
        let last = number == 3
            || lowering.facts.bound(&terms).is_some_and(|bound| bound <= BLOCK)
            || terms.constant().is_some_and(|n| n <= BLOCK);
        let targets = (!last).then(|| {
            let count = results.clone().times(pitch(&blocks));
            let wish = format!("blocks{number}");
            members.iter().map(|member| Partials::of(lowering, member, &wish, count.clone())).collect::<Vec<_>>()
        });
        let next_needed = needed.clone().times(blocks.clone().minus(1).min(1));
        levels.push(Level { number, terms, blocks: blocks.clone(), sources, targets: targets.clone(), needed });
        if last {
            break;
        }
        (sources, terms, needed) = (targets, blocks, next_needed);
    }
    levels
}

/// Lowers a sweep of split reductions.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    lowering.begin_launch(&[]);
    let members = members(lowering, group)?;
    let Some(first) = members.first() else { return Err(Error::Bug("a sweep of no reductions".into())) };
    let terms = product(lowering.kernel, lowering.facts, &first.reduction.reduce.variables)
        .ok_or_else(|| Error::Bug("a split reduction without an extent".into()))?;
    let results = lowering.points(&first.statement.variables)?;
    let single = results.constant() == Some(1);
    let pitch = |blocks: &Formula| if single { blocks.clone() } else { pitch(blocks) };
    for level in levels(lowering, &members, &terms, &results, pitch) {
        lower_level(lowering, &members, &level, &results)?;
    }
    Ok(())
}

/// What a level writes of memory that others see.
pub fn written(members: &[Member]) -> Vec<ArrayId> {
    members.iter().map(|member| member.statement.array).collect()
}

/// The entry's suffix of a level.
pub fn level_suffix(lowering: &Lowering, members: &[Member], level: &Level) -> String {
    let stem = members.first().map(|member| super::map::suffix(lowering, &member.statement)).unwrap_or_default();
    let stem = if stem.is_empty() { stem } else { stem + "_" };
    match (level.number, level.targets.is_none() && level.sources.is_none()) {
        (_, true) => stem.trim_end_matches('_').to_string(),
        (1, _) => format!("{stem}blocks"),
        (number, _) => format!("{stem}level{number}"),
    }
}

/// The block results of one of several results: so many that the next one's begin where a pack may, too.
fn pitch(blocks: &Formula) -> Formula {
    blocks.clone().div_ceil(4).times(4)
}

fn lower_level(lowering: &mut Lowering, members: &[Member], level: &Level, results: &Formula) -> Result<(), Error> {
    lowering.begin_launch(&written(members));
    let number = match level.sources {
        None => {
            lowering.passes_over(members.iter().map(|member| &member.statement));
            lowering.block_number()
        }
        Some(_) => name("blockIdx.x"),
    };
    let ty = lowering.index_type();
    let terms = lowering.size(&level.terms, "terms");
    let blocks = lowering.size(&level.blocks, "blocks");
    let single = results.constant() == Some(1);
    let number = lowering.local(if single { "block" } else { "number" }, ty, number.cast(ty));
    let thread = lowering.local("thread", Type::I32, name("threadIdx.x").cast(Type::I32));
    let (result, block) = if single {
        (int(0), number.clone())
    } else {
        let result = lowering.local("result", ty, number.clone() / blocks.clone());
        let block = lowering.local("block", ty, number.clone() % blocks.clone());
        (result, block)
    };
    let first = lowering.local("first", ty, block.clone() * int(BLOCK));
    if level.sources.is_none() {
        member::bind_all(lowering, members, &result)?;
    }
    let base = match level.sources {
        _ if single => None,
        None => Some(result.clone() * terms.clone()),
        Some(_) => Some(result.clone() * lowering.size(&pitch(&level.terms), "pitch")),
    };
    // Where it goes among the block results.
    let at = match level.targets {
        Some(_) if !single => result.clone() * lowering.size(&pitch(&level.blocks), "pitch") + block,
        _ => number,
    };
    let pieces = if level.sources.is_none() { Pieces::of(lowering, members) } else { None };
    let along = if level.sources.is_none() && pieces.is_none() { terms::along(lowering, members) } else { Vec::new() };
    let own = pieces.as_ref().map_or_else(|| neighbours(lowering, members, level, (results, &along)), |pieces| pieces.own);
    let parts = accumulators(lowering, members, own)?;
    let rank = members.first().map_or(0, |member| member.statement.variables.len());
    let anywhere = base.is_some() && !(lowering.facts.aligned && lowering.facts.multiple(&level.terms, own));
    let block = Block { thread: thread.clone(), own, first, terms, base, rank, anywhere, parts };
    match (&level.sources, &pieces) {
        (Some(sources), _) => partials::terms(lowering, members, &block, sources)?,
        (None, Some(pieces)) => pieces.terms(lowering, members, &block)?,
        (None, None) => terms::of_program(lowering, members, &block, &along)?,
    }
    let totals = totals(lowering, members, &block)?;
    lowering.when(thread.binary("==", int(0)), |lowering| {
        let variables = level.sources.is_some().then_some(&result);
        finish_level(lowering, members, totals, level.targets.as_deref(), variables, blocks, at)
    })?;
    let suffix = level_suffix(lowering, members, level);
    let grid = [results.clone().times(level.blocks.clone()).times(level.needed.clone()), 1.into(), 1.into()];
    let mut notes = notes(members, level, own, pieces.is_some());
    notes.extend(lowering.block_order_note().filter(|_| level.sources.is_none()));
    lowering.end_launch(&suffix, "split", notes, grid, [(ACCUMULATORS / own) as u32, 1, 1]);
    Ok(())
}

/// How many neighbouring accumulators a thread has: as many as make a load of 16 bytes, but 4 at most; one where there are few blocks of
/// terms from the program. Places of best terms cost more to compare across warps than that gains: argmax of 8·10^6 f64 takes 20.8 µs by
/// one, 24.1 µs by two (H200).
fn neighbours(lowering: &Lowering, members: &[Member], level: &Level, (results, along): (&Formula, &[Along])) -> i64 {
    let places = |member: &Member| matches!(member.reduction.accumulator, CudaType::Best(_));
    let few = || lowering.facts.below(&results.clone().times(level.blocks.clone()), FEW_BLOCKS + 1);
    let widest = match &level.sources {
        Some(sources) => sources.iter().map(|source| source.widest()).max().unwrap_or(4),
        None if members.iter().all(places) => return 4,
        None if few() && !members.iter().any(places) => return 1,
        None => along.iter().map(|along| lowering.kernel.arrays[along.array].element.size()).max().unwrap_or(4),
    };
    if widest >= 8 { 2 } else { 4 }
}

/// A thread's accumulators of each reduction, with nothing in them.
fn accumulators(lowering: &mut Lowering, members: &[Member], own: i64) -> Result<Vec<Expr>, Error> {
    let mut parts = Vec::new();
    for Member { stem, reduction, .. } in members {
        let wish = format!("{stem}_part");
        parts.push(match own {
            1 => lowering.variable(&wish, reduction.accumulator.clone(), Some(reduction.identity.clone())),
            _ => lowering.registers(&wish, reduction.accumulator.clone(), vec![own as u32]),
        });
    }
    if own == 1 {
        return Ok(parts);
    }
    lowering.each("part", Type::I32, [int(0), int(own), int(1)], Unroll::Full, |lowering, part| {
        for (member, parts) in members.iter().zip(&parts) {
            lowering.push(Node::Assign(parts.clone().at(part.clone()), member.reduction.identity.clone()));
        }
        Ok(())
    })?;
    Ok(parts)
}

/// The block's results, which its first thread has: neighbours combine, then neighbours among those, in a thread, a warp, the block.
fn totals(lowering: &mut Lowering, members: &[Member], block: &Block) -> Result<Vec<Expr>, Error> {
    let warps = ACCUMULATORS / block.own / 32;
    let of_warp = |(member, parts): (&Member, &Expr)| {
        let own = member.reduction.tree((0..block.own).map(|part| block.part(parts, &int(part))).collect());
        call("butterfly", vec![int(32), own, member.reduction.functor()])
    };
    let of_warp: Vec<Expr> = members.iter().zip(&block.parts).map(of_warp).collect();
    let of_block = match warps {
        1 => of_warp,
        _ => across_warps(lowering, members, block, of_warp, warps)?,
    };
    let named = |(member, total): (&Member, Expr)| lowering.local(&member.stem, member.reduction.accumulator.clone(), total);
    Ok(members.iter().zip(of_block).map(named).collect())
}

/// The same from what each warp has, in shared memory.
fn across_warps(
    lowering: &mut Lowering,
    members: &[Member],
    block: &Block,
    of_warp: Vec<Expr>,
    warps: i64,
) -> Result<Vec<Expr>, Error> {
    let mut meet = Vec::new();
    for (Member { stem, reduction, .. }, warp) in members.iter().zip(of_warp) {
        let shared = lowering.shared(&format!("{stem}_of_warp"), reduction.accumulator.clone(), vec![warps as u32]);
        meet.push((shared, lowering.local(&format!("{stem}_here"), reduction.accumulator.clone(), warp)));
    }
    lowering.when((block.thread.clone() % int(32)).binary("==", int(0)), |lowering| {
        for (shared, here) in &meet {
            lowering.push(Node::Assign(shared.clone().at(block.thread.clone() / int(32)), here.clone()));
        }
        Ok(())
    })?;
    lowering.push(Node::Barrier);
    let total = |(member, (shared, _)): (&Member, (Expr, Expr))| {
        member.reduction.tree((0..warps).map(|warp| shared.clone().at(int(warp))).collect())
    };
    Ok(members.iter().zip(meet).map(total).collect())
}

fn notes(members: &[Member], level: &Level, own: i64, pieces: bool) -> Vec<String> {
    if level.sources.is_some() {
        return vec!["The block results of the launch before, reduced in the same way; not launched if there is one block.".into()];
    }
    let who = match own {
        1 => "four warps take a block of 4,096 terms, one accumulator a thread, so that neighbours load neighbours, and many",
        2 => "two warps take a block of 4,096 terms, two neighbouring accumulators a thread, so that loads are wide and many",
        _ => "a warp takes a block of 4,096 terms, four neighbouring accumulators a thread, so that loads are wide and many",
    };
    let order = "lanes meet by shuffles. No atomics: the order, and so every bit, is fixed.";
    let mut notes = vec![format!("Reduction: {who} of"), format!("them are in flight; {order}")];
    if pieces {
        notes.push("Terms lie side by side in pieces of memory; a division finds the piece.".into());
    }
    if members.len() > 1 {
        notes.push(format!("{} reductions share the pass: what they read is loaded once.", members.len()));
    }
    notes
}

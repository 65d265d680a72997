//! Split: reductions along contiguous memory with too few results to fill a GPU by a block each: full reductions, few long rows.
//!
//! A warp takes a block of 4,096 terms of the canonical order, four neighbouring accumulators a lane, so that a lane's loads are
//! 16 bytes wide and several of them are in flight. Block results are reduced by a further launch of the same form, up to three
//! levels; a level that has nothing to do is not launched.

mod partials;

use gpukc_dsl::program::{ArrayId, ExprId, Ranged, Statement};
use gpukc_dsl::types::Type;

pub use self::partials::{Partials, partials};
use super::context::{Flat, Lowering};
use super::group::{Group, is_flat, only_reduction, product};
use super::map::store_element;
use super::packs::{self, Along, Verdict};
use super::reduction::Reduction;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};

/// Terms of a block of the canonical order.
pub const BLOCK: i64 = 4096;
/// Accumulators of a block of terms; each takes every 128th of them.
const ACCUMULATORS: i64 = 128;
/// Loads that a lane has in flight, by their bytes. Wide ones take registers, and where few are taken, blocks of the next launch find room
/// before this one ends (sum of 8·10^6 f32 on an H200: 16 loads 10.6 µs, 8 loads 10.1 µs); narrow ones take few (2^28 f16: 16 loads
/// 125.8 µs, 32 loads 123.6 µs).
const WIDE_LOADS: i64 = 8;
const NARROW_LOADS: i64 = 32;
/// Arrays read by packs at most: each has some in registers.
const MOST_ALONG: usize = 8;

/// A level of a reduction: terms in, block results or the final result out.
pub struct Level {
    /// 1, 2 or 3.
    pub number: usize,
    /// Terms of a result.
    pub terms: Formula,
    /// Blocks of a result.
    pub blocks: Formula,
    /// Where the terms come from; `None`: the program.
    pub source: Option<Partials>,
    /// Where block results go; `None`: this is the last level, one block a result.
    pub target: Option<Partials>,
    /// 0 where this level has nothing to do.
    pub needed: Formula,
}

/// The levels that a reduction of `terms` terms with `results` results needs at most. `pitch` is how many block results are
/// set aside for a result that has so many blocks.
pub fn levels(
    lowering: &mut Lowering,
    reduction: &Reduction,
    terms: &Formula,
    results: &Formula,
    pitch: impl Fn(&Formula) -> Formula,
) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    let (mut source, mut terms, mut needed) = (None, terms.clone(), Formula::Constant(1));
    for number in 1..=3 {
        let blocks = terms.clone().div_ceil(BLOCK).max(1);
        let last = number == 3
            || lowering.facts.bound(&terms).is_some_and(|bound| bound <= BLOCK)
            || terms.constant().is_some_and(|n| n <= BLOCK);
        let target = (!last).then(|| partials(lowering, reduction, &format!("blocks{number}"), results.clone().times(pitch(&blocks))));
        let next_needed = needed.clone().times(blocks.clone().minus(1).min(1));
        levels.push(Level { number, terms, blocks: blocks.clone(), source, target, needed });
        if last {
            break;
        }
        (source, terms, needed) = (target, blocks, next_needed);
    }
    levels
}

/// Lowers a split reduction.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        let Some((id, _)) = only_reduction(lowering.kernel, &statement) else {
            return Err(Error::Bug("a split statement without a reduction".into()));
        };
        lowering.begin_launch(&[]);
        let reduction = lowering.reduction(id)?;
        let terms = product(lowering.kernel, lowering.facts, &reduction.reduce.variables)
            .ok_or_else(|| Error::Bug("a split reduction without an extent".into()))?;
        let results = lowering.points(&statement.variables)?;
        let single = results.constant() == Some(1);
        let pitch = |blocks: &Formula| if single { blocks.clone() } else { pitch(blocks) };
        for level in levels(lowering, &reduction, &terms, &results, pitch) {
            lower_level(lowering, &statement, id, &reduction, &level, &results)?;
        }
    }
    Ok(())
}

/// What a level writes of memory that others see.
pub fn written(statement: &Statement) -> Vec<ArrayId> {
    vec![statement.array]
}

/// The entry's suffix of a level.
pub fn level_suffix(lowering: &Lowering, statement: &Statement, level: &Level) -> String {
    let stem = super::map::suffix(lowering, statement);
    let stem = if stem.is_empty() { stem } else { stem + "_" };
    match (level.number, level.target.is_none() && level.source.is_none()) {
        (_, true) => stem.trim_end_matches('_').to_string(),
        (1, _) => format!("{stem}blocks"),
        (number, _) => format!("{stem}level{number}"),
    }
}

/// The block results of one of several results: so many that the next one's begin where a pack may, too.
fn pitch(blocks: &Formula) -> Formula {
    blocks.clone().div_ceil(4).times(4)
}

fn lower_level(
    lowering: &mut Lowering,
    statement: &Statement,
    id: ExprId,
    reduction: &Reduction,
    level: &Level,
    results: &Formula,
) -> Result<(), Error> {
    lowering.begin_launch(&written(statement));
    let number = match level.source {
        None => {
            lowering.passes_over(statement);
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
    if level.source.is_none() {
        bind_results(lowering, &statement.variables, &result)?;
    }
    let base = match level.source {
        _ if single => None,
        None => Some(result.clone() * terms.clone()),
        Some(_) => Some(result.clone() * lowering.size(&pitch(&level.terms), "pitch")),
    };
    // Where it goes among the block results.
    let at = match level.target {
        Some(_) if !single => result.clone() * lowering.size(&pitch(&level.blocks), "pitch") + block,
        _ => number,
    };
    let along = level.source.map_or_else(|| along(lowering, statement, reduction), |_| Vec::new());
    let own = neighbours(lowering, reduction, level, &along);
    let parts = accumulators(lowering, reduction, own)?;
    let block = Block { thread: thread.clone(), own, first, terms, base, parts };
    match level.source {
        None => {
            lowering.element = Some(element(statement, reduction));
            program_terms(lowering, reduction, &block, &along)?;
            lowering.element = None;
        }
        Some(source) => partials::terms(lowering, reduction, &block, source)?,
    }
    let total = total(lowering, reduction, &block)?;
    lowering.when(thread.binary("==", int(0)), |lowering| {
        finish_level(lowering, statement, id, reduction, level, &result, total, blocks, at)
    })?;
    let suffix = level_suffix(lowering, statement, level);
    let grid = [results.clone().times(level.blocks.clone()).times(level.needed.clone()), 1.into(), 1.into()];
    let mut notes = notes(level, own);
    notes.extend(lowering.block_order_note().filter(|_| level.source.is_none()));
    lowering.end_launch(&suffix, "split", notes, grid, [(ACCUMULATORS / own) as u32, 1, 1]);
    Ok(())
}

/// How many neighbouring accumulators a thread has: as many as make a load of 16 bytes, but 4 at most. Places of best terms cost more
/// to compare across two warps than narrow loads gain: argmax of 8·10^6 f64 takes 20.8 µs by one, 24.1 µs by two (H200).
fn neighbours(lowering: &Lowering, reduction: &Reduction, level: &Level, along: &[Along]) -> i64 {
    let widest = match level.source {
        Some(source) => source.widest(),
        None if matches!(reduction.accumulator, CudaType::Best(_)) => return 4,
        None => along.iter().map(|along| lowering.kernel.arrays[along.array].element.size()).max().unwrap_or(4),
    };
    if widest >= 8 { 2 } else { 4 }
}

/// A thread's accumulators, with nothing in them.
fn accumulators(lowering: &mut Lowering, reduction: &Reduction, own: i64) -> Result<Expr, Error> {
    let wish = format!("{}_part", reduction.reduce.reducer.name());
    let parts = lowering.registers(&wish, reduction.accumulator.clone(), vec![own as u32]);
    lowering.each("part", Type::I32, [int(0), int(own), int(1)], Unroll::Full, |lowering, part| {
        lowering.push(Node::Assign(parts.clone().at(part), reduction.identity.clone()));
        Ok(())
    })?;
    Ok(parts)
}

/// The block's result, which its first thread has: neighbours combine, then neighbours among those, in a thread, a warp, the block.
fn total(lowering: &mut Lowering, reduction: &Reduction, block: &Block) -> Result<Expr, Error> {
    let stem = reduction.reduce.reducer.name();
    let own = reduction.tree((0..block.own).map(|part| block.parts.clone().at(int(part))).collect());
    let warp = call("butterfly", vec![int(32), own, reduction.functor()]);
    let warps = ACCUMULATORS / block.own / 32;
    if warps == 1 {
        return Ok(lowering.local(stem, reduction.accumulator.clone(), warp));
    }
    let of_warp = lowering.shared(&format!("{stem}_of_warp"), reduction.accumulator.clone(), vec![warps as u32]);
    let here = lowering.local(&format!("{stem}_here"), reduction.accumulator.clone(), warp);
    lowering.when((block.thread.clone() % int(32)).binary("==", int(0)), |lowering| {
        lowering.push(Node::Assign(of_warp.clone().at(block.thread.clone() / int(32)), here));
        Ok(())
    })?;
    lowering.push(Node::Barrier);
    let total = reduction.tree((0..warps).map(|warp| of_warp.clone().at(int(warp))).collect());
    Ok(lowering.local(stem, reduction.accumulator.clone(), total))
}

fn notes(level: &Level, own: i64) -> Vec<String> {
    if level.source.is_some() {
        return vec!["The block results of the launch before, reduced in the same way; not launched if there is one block.".into()];
    }
    let who = if own == 4 { "a warp takes a block of 4,096 terms, four" } else { "two warps take a block of 4,096 terms, two" };
    vec![
        format!("Reduction: {who} neighbouring accumulators a thread, so that loads are wide and many of"),
        "them are in flight; lanes meet by shuffles. No atomics: the order, and so every bit, is fixed.".into(),
    ]
}

/// Binds a statement's variables to the result of that number.
pub fn bind_results(lowering: &mut Lowering, variables: &[Ranged], result: &Expr) -> Result<(), Error> {
    match variables {
        [] => Ok(()),
        [range] => {
            lowering.variables.insert(range.variable, result.clone());
            Ok(())
        }
        _ => lowering.decode(variables, result.clone()),
    }
}

/// Stores a level's value: a block result, or the final value with its epilogue where there is one block.
pub fn finish_level(
    lowering: &mut Lowering,
    statement: &Statement,
    id: ExprId,
    reduction: &Reduction,
    level: &Level,
    result: &Expr,
    total: Expr,
    blocks: Expr,
    at: Expr,
) -> Result<(), Error> {
    let (last, ()) = lowering.block(|lowering| {
        if level.source.is_some() {
            bind_results(lowering, &statement.variables, result)?;
        }
        lowering.computed.insert(id, reduction.finish(total.clone()));
        let pointer = lowering.pointer(statement.array);
        store_element(lowering, statement, pointer)
    })?;
    let Some(target) = level.target else {
        last.into_iter().for_each(|node| lowering.push(node));
        return Ok(());
    };
    let (more, ()) = lowering.block(|lowering| {
        target.write(lowering, at, total);
        Ok(())
    })?;
    lowering.push(Node::If { condition: blocks.binary("==", int(1)), then: last, otherwise: more });
    Ok(())
}

/// A block of terms, as one of its threads sees it.
struct Block {
    thread: Expr,
    /// Neighbouring accumulators that the thread has.
    own: i64,
    /// The block's first term in its result.
    first: Expr,
    /// Terms of the result.
    terms: Expr,
    /// The result's first term among all results' terms.
    base: Option<Expr>,
    /// The accumulators.
    parts: Expr,
}

impl Block {
    /// The thread's first term.
    fn lo(&self) -> Expr {
        self.first.clone() + self.thread.clone() * int(self.own)
    }
    /// The loop over the accumulators.
    fn each_part(&self) -> [Expr; 3] {
        [int(0), int(self.own), int(1)]
    }
    /// The place of a term among all results' terms.
    fn at(&self, term: Expr) -> Expr {
        self.base.clone().map_or(term.clone(), |base| base + term)
    }
}

/// The lane's terms of a block, one at a time.
fn one_by_one(
    lowering: &mut Lowering,
    block: &Block,
    mut take: impl FnMut(&mut Lowering, Expr, Expr) -> Result<(), Error>,
) -> Result<(), Error> {
    let ty = lowering.index_type();
    let last = call("minimum", vec![block.first.clone() + int(BLOCK), block.terms.clone()]);
    let last = lowering.local("last", ty, last);
    lowering.each("row", ty, [block.lo(), last.clone(), int(ACCUMULATORS)], Unroll::By(4), |lowering, start| {
        lowering.each("part", Type::I32, block.each_part(), Unroll::Full, |lowering, part| {
            let term = lowering.local("term", ty, start + part.clone());
            lowering.when(term.clone().less(last), |lowering| take(lowering, term, block.parts.clone().at(part)))
        })
    })
}

fn program_terms(lowering: &mut Lowering, reduction: &Reduction, block: &Block, along: &[Along]) -> Result<(), Error> {
    let flat = is_flat(lowering.kernel, lowering.facts, reduction.reduce.body, &reduction.reduce.variables)
        && reduction.reduce.filter.is_none_or(|f| is_flat(lowering.kernel, lowering.facts, f, &reduction.reduce.variables))
        && super::group::from_zero(lowering.kernel, lowering.facts, &reduction.reduce.variables);
    let serial = |lowering: &mut Lowering| {
        one_by_one(lowering, block, |lowering, term, part| {
            bind(lowering, reduction, flat, term)?;
            lowering.accumulate(reduction, part)
        })
    };
    if along.is_empty() || !flat {
        return serial(lowering);
    }
    let mut condition = (block.first.clone() + int(BLOCK)).binary("<=", block.terms.clone());
    if block.base.is_some() {
        condition = condition.and((block.terms.clone() % int(block.own)).binary("==", int(0)));
    }
    for Along { array, .. } in along {
        let bytes = block.own * lowering.kernel.arrays[*array].element.size() as i64;
        let pointer = lowering.pointer(*array);
        condition = condition.and(call("is_aligned", vec![pointer, int(bytes)]));
    }
    let (then, ()) = lowering.block(|lowering| wide_terms(lowering, reduction, block, along))?;
    lowering.computed.clear();
    let (otherwise, ()) = lowering.block(serial)?;
    lowering.push(Node::If { condition, then, otherwise });
    Ok(())
}

fn bind(lowering: &mut Lowering, reduction: &Reduction, flat: bool, term: Expr) -> Result<(), Error> {
    let variables = &reduction.reduce.variables;
    if !flat {
        let mut extents = Vec::new();
        for range in variables {
            let formula = lowering.extent(range)?;
            extents.push(lowering.size(&formula, "extent"));
        }
        return lowering.bind_term(reduction, term, &extents);
    }
    if let [range] = variables.as_slice() {
        lowering.variables.insert(range.variable, term.clone());
    }
    lowering.flat = Some(Flat { variables: variables.clone(), position: term });
    Ok(())
}

/// Arrays whose elements run along with the terms, result after result, in `let`s computed in place as well.
fn along(lowering: &Lowering, statement: &Statement, reduction: &Reduction) -> Vec<Along> {
    if reduction.reduce.filter.is_some() {
        return Vec::new();
    }
    let (all, results) = (element(statement, reduction), statement.variables.len());
    let along = packs::along(lowering, &[reduction.reduce.body], &all, |read| match read.in_place {
        Some(inlined) if read.is_along(lowering, inlined, results) => Verdict::Enter,
        None if read.is_counted_through(lowering) => Verdict::Along,
        _ => Verdict::Apart,
    });
    let mut along = along.unwrap_or_default();
    along.truncate(MOST_ALONG);
    along
}

/// The variables of an element of the terms: the result's, then those that are reduced.
fn element(statement: &Statement, reduction: &Reduction) -> Vec<Ranged> {
    statement.variables.iter().chain(&reduction.reduce.variables).copied().collect()
}

fn wide_terms(lowering: &mut Lowering, reduction: &Reduction, block: &Block, along: &[Along]) -> Result<(), Error> {
    let ty = lowering.index_type();
    let widest = along.iter().map(|along| lowering.kernel.arrays[along.array].element.size()).max().unwrap_or(1);
    let streams = along.len().next_power_of_two() as i64;
    let depth = if block.own * widest as i64 > 8 { (2 * WIDE_LOADS / streams).min(WIDE_LOADS) } else { NARROW_LOADS / streams };
    let depth = depth.max(4);
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
                for (along, pack) in along.iter().zip(&packs) {
                    lowering.take_from(along, &pack.clone().at(ahead.clone()).lane(part.clone()));
                }
                let term = start.clone() + ahead.clone() * int(ACCUMULATORS) + part.clone();
                bind(lowering, reduction, true, term)?;
                lowering.accumulate(reduction, block.parts.clone().at(part))
            })
        })
    })
}

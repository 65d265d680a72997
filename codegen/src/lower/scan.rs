//! Scans: reductions whose range runs from one end to a left-side variable, at the cost of one pass over the terms and a little.
//!
//! Reduce-then-scan, in the scan order of the numeric contract: a first launch reduces blocks of 4,096 terms, a second scans the
//! block totals, a last one scans each block again and adds what stands before it. Nothing waits for another block, and no bit
//! depends on timing. Two more launches serve axes of more than 2^24 terms; a launch that has nothing to do is left out.
//!
//! In a block, a warp takes four rows of 128 terms, a lane four neighbouring terms (a quad) of each: quads are scanned in the
//! lane, quad totals across the warp, row totals by every warp for itself.

use gpukc_dsl::program::{Direction, ExprId, Kernel, Order, Ranged, Reduce, Scan, Statement};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::Group;
use super::map::store_element;
use super::reduction::Reduction;
use super::split::{BLOCK, Partials, bind_results, partials};
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, call, int, name};
use crate::size;

/// Threads of a block: eight warps of four rows each.
const THREADS: u32 = 256;

struct Shape {
    id: ExprId,
    scan: Scan,
    /// The axis, and the other left-side variables.
    along: Ranged,
    batch: Vec<Ranged>,
    /// How many terms any output takes in.
    terms: Formula,
    /// Outputs along the axis.
    extent: Formula,
    /// Forward: the first term's index; backward: one past the last term's.
    origin: Formula,
}

/// Whether this schedule takes the statement.
pub fn applies(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> bool {
    shape(kernel, facts, statement, ExprId::new(0), reduce).is_some()
}

fn shape(kernel: &Kernel, facts: &Facts, statement: &Statement, id: ExprId, reduce: &Reduce) -> Option<Shape> {
    let (Order::Scan(scan), [range]) = (&reduce.order, reduce.variables.as_slice()) else { return None };
    let along = *statement.variables.iter().find(|v| v.variable == scan.along)?;
    let batch = statement.variables.iter().filter(|v| v.variable != scan.along).copied().collect();
    let extent = size::extent(kernel, facts, &along)?;
    let exclusive = i64::from(!scan.inclusive);
    let (origin, terms) = match scan.direction {
        Direction::Forward => {
            let lo = size::formula(kernel, facts, range.lo)?;
            (lo.clone(), extent.clone().minus(lo).minus(exclusive).max(0))
        }
        Direction::Backward => {
            let hi = size::formula(kernel, facts, range.hi)?;
            (hi.clone(), hi.minus(exclusive).max(0))
        }
    };
    Some(Shape { id, scan: scan.clone(), along, batch, terms, extent, origin })
}

/// A launch of the scan.
struct Stage {
    suffix: &'static str,
    /// Terms of this stage, and their blocks, in a row.
    terms: Formula,
    blocks: Formula,
    /// Where the terms come from; `None`: the program.
    source: Option<Partials>,
    /// What stands before each block, if it was computed.
    before: Option<Partials>,
    output: Output,
    needed: Formula,
}

#[derive(Clone, Copy)]
enum Output {
    /// A total for each block.
    Totals(Partials),
    /// For each term, what stands before it.
    Before(Partials),
    /// The statement's elements.
    Elements,
}

/// Lowers a scan.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        let found = super::group::only_reduction_or_nested(lowering.kernel, &statement)
            .and_then(|(id, reduce)| shape(lowering.kernel, lowering.facts, &statement, id, reduce));
        let Some(shape) = found else { return Err(Error::Bug("a scan that is none".into())) };
        lowering.begin_launch(&[]);
        let reduction = lowering.reduction(shape.id)?;
        let rows = lowering.points(&shape.batch)?;
        for stage in stages(lowering, &reduction, &shape, &rows) {
            lower_stage(lowering, &statement, &shape, &reduction, &stage, &rows)?;
        }
    }
    Ok(())
}

fn stages(lowering: &mut Lowering, reduction: &Reduction, shape: &Shape, rows: &Formula) -> Vec<Stage> {
    // A row without terms has outputs all the same where these are more than the terms: an exclusive scan gives `n + 1` of them.
    let all_from_terms = shape.terms == shape.extent.clone().max(0);
    let first = shape.terms.clone().div_ceil(BLOCK);
    let first = if all_from_terms { first } else { first.max(1) };
    let second = first.clone().div_ceil(BLOCK);
    let several = |blocks: &Formula| blocks.clone().minus(1).max(0).min(1);
    let bound = lowering.facts.bound(&shape.terms);
    let short = bound.is_some_and(|n| n <= BLOCK);
    let medium = bound.is_some_and(|n| n <= BLOCK * BLOCK);
    let mut stages = Vec::new();
    let mut before_first = None;
    if !short {
        let totals = partials(lowering, reduction, "totals", rows.clone().times(first.clone()));
        let before = partials(lowering, reduction, "before", rows.clone().times(first.clone()));
        before_first = Some(before);
        let needed = several(&first);
        stages.push(Stage {
            suffix: "totals",
            terms: shape.terms.clone(),
            blocks: first.clone(),
            source: None,
            before: None,
            output: Output::Totals(totals),
            needed: needed.clone(),
        });
        let mut before_second = None;
        if !medium {
            let upper_totals = partials(lowering, reduction, "upper_totals", rows.clone().times(second.clone()));
            let upper_before = partials(lowering, reduction, "upper_before", rows.clone().times(second.clone()));
            before_second = Some(upper_before);
            let needed = several(&second);
            let stage = |suffix, terms: &Formula, blocks: Formula, source, output| Stage {
                suffix,
                terms: terms.clone(),
                blocks,
                source: Some(source),
                before: None,
                output,
                needed: needed.clone(),
            };
            stages.push(stage("upper_totals", &first, second.clone(), totals, Output::Totals(upper_totals)));
            stages.push(stage("upper_before", &second, 1.into(), upper_totals, Output::Before(upper_before)));
        }
        stages.push(Stage {
            suffix: "before",
            terms: first.clone(),
            blocks: second,
            source: Some(totals),
            before: before_second,
            output: Output::Before(before),
            needed,
        });
    }
    stages.push(Stage {
        suffix: "",
        terms: shape.terms.clone(),
        blocks: first,
        source: None,
        before: before_first,
        output: Output::Elements,
        needed: 1.into(),
    });
    stages
}

fn lower_stage(
    lowering: &mut Lowering,
    statement: &Statement,
    shape: &Shape,
    reduction: &Reduction,
    stage: &Stage,
    rows: &Formula,
) -> Result<(), Error> {
    lowering.begin_launch(&[statement.array]);
    let ty = lowering.index_type();
    let terms = lowering.size(&stage.terms, "terms");
    let blocks = lowering.size(&stage.blocks, "blocks");
    let work = name("blockIdx.x").cast(ty);
    let (row, block) = if rows.constant() == Some(1) {
        (int(0), lowering.local("block", ty, work))
    } else {
        let work = lowering.local("work", ty, work);
        (lowering.local("row", ty, work.clone() / blocks.clone()), lowering.local("block", ty, work % blocks.clone()))
    };
    if stage.source.is_none() {
        bind_results(lowering, &shape.batch, &row)?;
    }
    let lane = lowering.local("lane", Type::I32, name("threadIdx.x").cast(Type::I32) % int(32));
    let warp = lowering.local("warp", Type::I32, name("threadIdx.x").cast(Type::I32) / int(32));
    let first = lowering.local("first", ty, block.clone() * int(BLOCK) + warp.clone() * int(512) + lane.clone() * int(4));
    let values = lowering.registers("value", reduction.accumulator.clone(), vec![4, 4]);
    rows_of_warp(lowering, |lowering, at, quad| {
        let term = lowering.local("term", ty, first.clone() + at.clone() * int(128) + quad.clone());
        let place = values.clone().at(at).at(quad);
        lowering.push(Node::Assign(place.clone(), reduction.identity.clone()));
        lowering.when(term.clone().less(terms.clone()), |lowering| match stage.source {
            Some(source) => {
                let value = source.read(lowering, row.clone() * terms.clone() + term);
                lowering.push(Node::Assign(place, value));
                Ok(())
            }
            None => {
                bind_term(lowering, shape, reduction, term)?;
                lowering.term(reduction, place)
            }
        })
    })?;
    let (before_row, total) = block_scan(lowering, reduction, &values, &lane, &warp)?;
    match stage.output {
        Output::Totals(totals) => {
            let total = lowering.local("total", reduction.accumulator.clone(), total);
            let first = name("threadIdx.x").binary("==", int(0));
            lowering.when(first, |lowering| {
                totals.write(lowering, row * blocks + block, total);
                Ok(())
            })?;
        }
        _ => outputs(
            lowering,
            statement,
            shape,
            reduction,
            stage,
            Position { row, block, terms, blocks, first, warp, values, before_row },
        )?,
    }
    finish(lowering, statement, stage, rows);
    Ok(())
}

fn finish(lowering: &mut Lowering, statement: &Statement, stage: &Stage, rows: &Formula) {
    let stem = super::map::suffix(lowering, statement);
    let suffix = [stem.as_str(), stage.suffix].iter().filter(|s| !s.is_empty()).copied().collect::<Vec<_>>().join("_");
    let note = match stage.output {
        Output::Totals(_) => "Scan: the totals of blocks of 4,096 terms.",
        Output::Before(_) => "Scan: from block totals to what stands before each block.",
        Output::Elements => "Scan: every block of 4,096 terms by itself, with what stands before it added.",
    };
    let notes = vec![
        note.into(),
        "A lane takes four neighbouring terms of a row of 128, a warp four rows; row totals meet in shared memory.".into(),
    ];
    let grid = [rows.clone().times(stage.blocks.clone()).times(stage.needed.clone()), 1.into(), 1.into()];
    lowering.end_launch(&suffix, "scan", notes, grid, [THREADS, 1, 1]);
}

/// Visits the 16 terms that a thread holds.
fn rows_of_warp(lowering: &mut Lowering, mut write: impl FnMut(&mut Lowering, Expr, Expr) -> Result<(), Error>) -> Result<(), Error> {
    let four = || [int(0), int(4), int(1)];
    lowering.each("at", Type::I32, four(), Unroll::Full, |lowering, at| {
        lowering.each("quad", Type::I32, four(), Unroll::Full, |lowering, quad| write(lowering, at.clone(), quad))
    })
}

/// Binds the reduction's variable to the term of that number.
fn bind_term(lowering: &mut Lowering, shape: &Shape, reduction: &Reduction, term: Expr) -> Result<(), Error> {
    let ty = lowering.index_type();
    let Some(range) = reduction.reduce.variables.first() else { return Ok(()) };
    let origin = lowering.size(&shape.origin, "origin");
    let value = match shape.scan.direction {
        Direction::Forward => term + origin,
        Direction::Backward => origin - int(1) - term,
    };
    let wish = lowering.kernel.variables[range.variable].name.clone();
    let bound = if matches!(value, Expr::Name(_)) { value } else { lowering.local(&wish, ty, value) };
    lowering.variables.insert(range.variable, bound);
    Ok(())
}

/// Scans the block's terms in place, each row for itself; gives what stands before each row, by lane, and the block's total.
fn block_scan(lowering: &mut Lowering, reduction: &Reduction, values: &Expr, lane: &Expr, warp: &Expr) -> Result<(Expr, Expr), Error> {
    let ty = reduction.accumulator.clone();
    let totals = lowering.shared("row_total", ty.clone(), vec![32]);
    lowering.each("at", Type::I32, [int(0), int(4), int(1)], Unroll::Full, |lowering, at| {
        let value = |index: i64| values.clone().at(at.clone()).at(int(index));
        for quad in 1..4 {
            lowering.push(Node::Assign(value(quad), reduction.combine(value(quad - 1), value(quad))));
        }
        let running = call("kogge_stone", vec![value(3), reduction.functor()]);
        let running = lowering.local("running", ty.clone(), running);
        let before = call("lane_before", vec![running.clone(), reduction.identity.clone()]);
        let before = lowering.local("before", ty.clone(), before);
        lowering.each("quad", Type::I32, [int(0), int(4), int(1)], Unroll::Full, |lowering, quad| {
            let place = values.clone().at(at.clone()).at(quad);
            let value = reduction.combine(before, place.clone());
            lowering.push(Node::Assign(place, value));
            Ok(())
        })?;
        let store = Node::Assign(totals.clone().at(warp.clone() * int(4) + at.clone()), running);
        lowering.push(Node::If { condition: lane.clone().binary("==", int(31)), then: vec![store], otherwise: Vec::new() });
        Ok(())
    })?;
    lowering.push(Node::Barrier);
    let running = call("kogge_stone", vec![totals.at(lane.clone()), reduction.functor()]);
    let running = lowering.local("rows_running", ty.clone(), running);
    let before = call("lane_before", vec![running.clone(), reduction.identity.clone()]);
    let before = lowering.local("rows_before", ty, before);
    Ok((before, call("lane_value", vec![running, int(31)])))
}

struct Position {
    row: Expr,
    block: Expr,
    terms: Expr,
    blocks: Expr,
    first: Expr,
    warp: Expr,
    values: Expr,
    /// What stands before each of the block's 32 rows, by lane.
    before_row: Expr,
}

fn outputs(
    lowering: &mut Lowering,
    statement: &Statement,
    shape: &Shape,
    reduction: &Reduction,
    stage: &Stage,
    at: Position,
) -> Result<(), Error> {
    let ty = lowering.index_type();
    let element = reduction.accumulator.clone();
    let before_block = match stage.before {
        None => reduction.identity.clone(),
        Some(before) => {
            let value = lowering.variable("before_block", element.clone(), Some(reduction.identity.clone()));
            let several = at.blocks.clone().binary(">", int(1));
            lowering.when(several, |lowering| {
                let read = before.read(lowering, at.row.clone() * at.blocks.clone() + at.block.clone());
                lowering.push(Node::Assign(value.clone(), read));
                Ok(())
            })?;
            value
        }
    };
    lowering.each("at", Type::I32, [int(0), int(4), int(1)], Unroll::Full, |lowering, row| {
        let before = call("lane_value", vec![at.before_row.clone(), at.warp.clone() * int(4) + row.clone()]);
        let before = lowering.local("before", element.clone(), reduction.combine(before_block.clone(), before));
        lowering.each("quad", Type::I32, [int(0), int(4), int(1)], Unroll::Full, |lowering, quad| {
            let term = lowering.local("term", ty, at.first.clone() + row.clone() * int(128) + quad.clone());
            let value = reduction.combine(before, at.values.clone().at(row.clone()).at(quad));
            lowering.when(term.clone().less(at.terms.clone()), |lowering| match stage.output {
                Output::Before(target) => {
                    // What stands before the next term; the first term has nothing before it.
                    let place = at.row.clone() * at.terms.clone() + term.clone();
                    let (next, ()) = lowering.block(|lowering| {
                        target.write(lowering, place.clone() + int(1), value);
                        Ok(())
                    })?;
                    let more = (term.clone() + int(1)).less(at.terms.clone());
                    lowering.push(Node::If { condition: more, then: next, otherwise: Vec::new() });
                    lowering.when(term.binary("==", int(0)), |lowering| {
                        target.write(lowering, place, reduction.identity.clone());
                        Ok(())
                    })
                }
                _ => element_of(lowering, statement, shape, reduction, term, value),
            })
        })
    })?;
    if matches!(stage.output, Output::Elements) {
        beyond(lowering, statement, shape, reduction, &at)?;
    }
    Ok(())
}

/// Stores the output whose last term has that number, if there is one.
fn element_of(
    lowering: &mut Lowering,
    statement: &Statement,
    shape: &Shape,
    reduction: &Reduction,
    term: Expr,
    value: Expr,
) -> Result<(), Error> {
    let ty = lowering.index_type();
    let origin = lowering.size(&shape.origin, "origin");
    let shift = int(i64::from(!shape.scan.inclusive));
    let index = match shape.scan.direction {
        Direction::Forward => term + origin + shift,
        Direction::Backward => origin - int(1) - shift - term,
    };
    let wish = lowering.kernel.variables[shape.along.variable].name.clone();
    let index = lowering.local(&wish, ty, index);
    lowering.variables.insert(shape.along.variable, index.clone());
    let extent = lowering.size(&shape.extent, "extent");
    let element = reduction.accumulator.clone();
    lowering.when(index.less(extent), |lowering| {
        let named = lowering.local(reduction.reduce.reducer.name(), element, value);
        lowering.computed.insert(shape.id, reduction.finish(named));
        let pointer = lowering.pointer(statement.array);
        store_element(lowering, statement, pointer)
    })
}

/// Outputs that take in no term: before the first forward, from the last backward.
fn beyond(lowering: &mut Lowering, statement: &Statement, shape: &Shape, reduction: &Reduction, at: &Position) -> Result<(), Error> {
    let ty = lowering.index_type();
    let exclusive = i64::from(!shape.scan.inclusive);
    let (lo, hi) = match shape.scan.direction {
        Direction::Forward => (0.into(), shape.origin.clone().plus(exclusive).max(0).min(shape.extent.clone())),
        Direction::Backward => (shape.origin.clone().minus(exclusive).max(0), shape.extent.clone()),
    };
    if hi.clone().minus(lo.clone()).constant() == Some(0) || hi == lo {
        return Ok(());
    }
    let lo = lowering.size(&lo, "no_terms_from");
    let hi = lowering.size(&hi, "no_terms_to");
    let wish = lowering.kernel.variables[shape.along.variable].name.clone();
    lowering.when(at.block.clone().binary("==", int(0)), |lowering| {
        let lo = lo + name("threadIdx.x").cast(Type::I32);
        lowering.each(&wish, ty, [lo, hi, int(i64::from(THREADS))], Unroll::Default, |lowering, index| {
            lowering.variables.insert(shape.along.variable, index);
            lowering.computed.insert(shape.id, reduction.finish(reduction.identity.clone()));
            let pointer = lowering.pointer(statement.array);
            store_element(lowering, statement, pointer)
        })
    })
}

impl Lowering<'_> {
    /// Assigns a term's value to `place`; where the filter is false, `place` keeps the identity.
    fn term(&mut self, reduction: &Reduction, place: Expr) -> Result<(), Error> {
        let assign = |lowering: &mut Self| {
            let value = lowering.term_value(reduction)?;
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

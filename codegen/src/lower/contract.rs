//! Contractions: sharing reductions such as the matrix product. A block computes a tile of the output from two tiles of the
//! operands in shared memory; a thread holds a square of accumulators in registers, so that an operand read from shared memory
//! serves several multiply-adds. The next tiles are fetched to registers while the current ones are used (two buffers, one
//! barrier a step).
//!
//! The body may be any function of *leaves*: subexpressions that depend on the row variable or on the column variable, but not on
//! both. Leaves are computed once per tile element while staging; `a[i, l] * b[l, j]` has the leaves `a[i, l]` and `b[l, j]`.
//!
//! Terms ascend in one accumulator for a run of the numeric contract; if there are several runs, each has blocks of its own, and
//! a second launch combines their results in the canonical order.

mod shape;
mod stage;

use gpukc_dsl::program::{ExprId, ExprKind, Kernel, Order, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::{Group, only_reduction};
use super::map::{store_element, suffix};
use super::reduction::Reduction;
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, call, int, name};
use shape::{Shape, Side, shape};
use stage::Staged;

pub use shape::applies;

/// Threads along each side of the output tile.
const SIDE: i64 = 16;

/// Tile sizes.
#[derive(Clone, Copy)]
struct Tile {
    /// Output rows and columns of a block.
    outer: i64,
    /// Terms staged at a time.
    depth: i64,
}

impl Tile {
    /// Outputs of a thread along each side.
    fn per_thread(self) -> i64 {
        self.outer / SIDE
    }
    fn choose(facts: &Facts, outputs: &Formula) -> Tile {
        if facts.below(outputs, 1 << 21) { Tile { outer: 64, depth: 16 } } else { Tile { outer: 128, depth: 8 } }
    }
}

/// Lowers a contraction.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        let Some((id, reduce)) = only_reduction(lowering.kernel, &statement) else {
            return Err(Error::Bug("a contraction without a reduction".into()));
        };
        let Some(shape) = shape(lowering.kernel, lowering.facts, &statement, reduce) else {
            return Err(Error::Bug("a contraction that is none".into()));
        };
        lower_statement(lowering, &statement, id, &shape)?;
    }
    Ok(())
}

struct Sizes {
    tile: Tile,
    /// Terms of a run, and how many runs there are.
    run: Formula,
    runs: Formula,
    outputs: Formula,
}

fn sizes(lowering: &mut Lowering, statement: &Statement, reduction: &Reduction, shape: &Shape) -> Result<Sizes, Error> {
    let Order::Sharing(free) = &reduction.reduce.order else { return Err(Error::Bug("a contraction that shares nothing".into())) };
    let wanted = lowering.wanted_runs(free)?;
    let terms = lowering.extent(&shape.term)?;
    let per_run = wanted.times(128);
    let run = terms.clone().plus(per_run.clone().minus(1)).div_floor(per_run).times(128).max(512).min(16384);
    let runs = terms.plus(run.clone().minus(1)).div_floor(run.clone()).max(1);
    let outputs = lowering.points(&statement.variables)?;
    let tile = asked_tile(lowering, statement, shape)?.unwrap_or_else(|| Tile::choose(lowering.facts, &outputs));
    Ok(Sizes { tile, run, runs, outputs })
}

/// The tile that a hint asks for.
fn asked_tile(lowering: &mut Lowering, statement: &Statement, shape: &Shape) -> Result<Option<Tile>, Error> {
    let variables = [&shape.row, &shape.column, &shape.term].map(|range| range.variable);
    match lowering.tile_hint(statement, &variables).as_deref() {
        None => Ok(None),
        Some([rows, columns, depth]) if rows.unwrap_or(128) == columns.or(*rows).unwrap_or(128) => {
            match (rows.or(*columns).unwrap_or(128), depth.unwrap_or(8)) {
                (64, depth @ (8 | 16)) => Ok(Some(Tile { outer: 64, depth })),
                (128, 8) => Ok(Some(Tile { outer: 128, depth: 8 })),
                _ => Err(lowering.refuse_tile(
                    statement,
                    "a contraction takes 64 x 64 outputs and 8 or 16 terms, or 128 x 128 outputs and 8 terms",
                )),
            }
        }
        Some(_) => Err(lowering.refuse_tile(statement, "a contraction's tile has as many rows as columns")),
    }
}

fn lower_statement(lowering: &mut Lowering, statement: &Statement, id: ExprId, shape: &Shape) -> Result<(), Error> {
    lowering.begin_launch(&[statement.array]);
    let reduction = lowering.reduction(id)?;
    let sizes = sizes(lowering, statement, &reduction, shape)?;
    let partial = (sizes.runs.constant() != Some(1) && !lowering.facts.below(&sizes.runs, 2)).then(|| {
        let several = sizes.runs.clone().minus(1).min(1);
        let bytes = sizes.outputs.clone().times(sizes.runs.clone()).times(several).times(reduction.result.size() as i64);
        lowering.scratch("run_results", bytes)
    });
    let block = Block::begin(lowering, shape, &sizes)?;
    let sums = block.body(lowering, shape, &reduction)?;
    block.finish(lowering, statement, id, shape, &sizes, partial, (&sums, &reduction))?;
    let tile = sizes.tile;
    let stem = suffix(lowering, statement);
    let across = |range: &Ranged| Ok::<_, Error>(lowering.extent(range)?.div_ceil(tile.outer));
    let (down, right) = (across(&shape.row)?, across(&shape.column)?);
    let work = down.times(right).times(lowering.points(&shape.batch)?).times(sizes.runs.clone());
    let notes = vec![
        format!(
            "Contraction: a block computes {0} x {0} outputs, a thread {1} x {1} of them in registers. Tiles of {2} terms are",
            tile.outer,
            tile.per_thread(),
            tile.depth
        ),
        "double-buffered in shared memory: the next is fetched while the current one is used, one barrier a step.".into(),
        "Terms ascend in one accumulator; each operand read from shared memory serves several multiply-adds.".into(),
    ];
    lowering.end_launch(&stem, "contract", notes, [work, 1.into(), 1.into()], [(SIDE * SIDE) as u32, 1, 1]);
    if let (Some(launch), true) = (lowering.plan.launches.last_mut(), tile.outer == 128 && reduction.result.size() == 4) {
        // At most 128 registers a thread: two blocks hide each other's barriers.
        launch.resident = Some(2);
    }
    match partial {
        Some(partial) => combine_runs(lowering, statement, id, &reduction, &sizes, partial, &stem),
        None => Ok(()),
    }
}

/// The second launch: the results of the runs, combined in the canonical order.
fn combine_runs(
    lowering: &mut Lowering,
    statement: &Statement,
    id: ExprId,
    reduction: &Reduction,
    sizes: &Sizes,
    partial: usize,
    stem: &str,
) -> Result<(), Error> {
    lowering.begin_launch(&[statement.array]);
    let ty = lowering.index_type();
    let pointer = lowering.pointer(statement.array);
    let results = lowering.scratch_pointer(partial, reduction.result, false);
    let outputs = lowering.size(&sizes.outputs, "outputs");
    let runs = lowering.size(&sizes.runs, "runs");
    let lo = name("blockIdx.x").cast(ty) * int(256) + name("threadIdx.x").cast(Type::I32);
    let step = name("gridDim.x").cast(ty) * int(256);
    lowering.each("output", ty, [lo, outputs.clone(), step], Unroll::By(1), |lowering, output| {
        lowering.decode(&statement.variables, output.clone())?;
        let accumulator = lowering.namer.fresh("so_far");
        let term = lowering.namer.fresh("run");
        let read = results.at(name(term.clone()) * outputs + output);
        let value = reduction.combine(name(accumulator.clone()), read);
        let total = lowering.namer.fresh("total");
        lowering.push(Node::Reduce {
            name: total.clone(),
            ty: reduction.accumulator.clone(),
            helper: "canonical",
            arguments: vec![int(2), runs.cast(Type::I64), reduction.identity.clone(), reduction.functor()],
            accumulator,
            term,
            body: Vec::new(),
            value,
        });
        lowering.computed.insert(id, name(total));
        store_element(lowering, statement, pointer)
    })?;
    let several = sizes.runs.clone().minus(1).min(1);
    let grid = [sizes.outputs.clone().div_ceil(256).min(1 << 16).times(several), 1.into(), 1.into()];
    let notes = vec!["The results of the runs, combined in the canonical order; not launched if there is one run.".into()];
    let suffix = if stem.is_empty() { "runs".to_string() } else { format!("{stem}_runs") };
    lowering.end_launch(&suffix, "map", notes, grid, [256, 1, 1]);
    Ok(())
}

/// Names of the launch that is being written.
struct Block {
    tile: Tile,
    row_tile: Expr,
    column_tile: Expr,
    first: Expr,
    last: Expr,
    run: Expr,
    across: Expr,
    down: Expr,
    row_extent: Expr,
    column_extent: Expr,
}

impl Block {
    fn begin(lowering: &mut Lowering, shape: &Shape, sizes: &Sizes) -> Result<Block, Error> {
        let ty = lowering.index_type();
        let tile = sizes.tile;
        let stem = |lowering: &Lowering, range: &Ranged| lowering.kernel.variables[range.variable].name.clone();
        let (row_name, column_name) = (stem(lowering, &shape.row), stem(lowering, &shape.column));
        let (rows, columns) = (lowering.extent(&shape.row)?, lowering.extent(&shape.column)?);
        let row_extent = lowering.size(&rows, &format!("{row_name}_extent"));
        let column_extent = lowering.size(&columns, &format!("{column_name}_extent"));
        let row_tiles = lowering.size(&rows.div_ceil(tile.outer), &format!("{row_name}_tiles"));
        let column_tiles = lowering.size(&columns.div_ceil(tile.outer), &format!("{column_name}_tiles"));
        let terms = lowering.extent(&shape.term)?;
        let terms = lowering.size(&terms, "terms");
        let work = lowering.local("work", ty, name("blockIdx.x").cast(ty));
        let column_tile = (work.clone() % column_tiles.clone()) * int(tile.outer);
        let column_tile = lowering.local(&format!("{column_name}_tile"), ty, column_tile);
        let rest = lowering.local("rest", ty, work / column_tiles);
        let row_tile = lowering.local(&format!("{row_name}_tile"), ty, (rest.clone() % row_tiles.clone()) * int(tile.outer));
        let mut rest = lowering.local("rest", ty, rest / row_tiles);
        if !shape.batch.is_empty() {
            let batches = lowering.points(&shape.batch)?;
            let batches = lowering.size(&batches, "batches");
            let batch = lowering.local("batch", ty, rest.clone() % batches.clone());
            rest = lowering.local("rest", ty, rest / batches);
            lowering.decode(&shape.batch, batch)?;
        }
        let run = rest;
        let run_terms = lowering.size(&sizes.run, "run_terms");
        let first = lowering.local("first", ty, run.clone() * run_terms.clone());
        let last = call("minimum", vec![first.clone() + run_terms, terms]);
        let last = lowering.local("last", ty, last);
        let thread = || name("threadIdx.x").cast(Type::I32);
        let across = lowering.local("across", Type::I32, (thread() % int(SIDE)) * int(4));
        let down = lowering.local("down", Type::I32, (thread() / int(SIDE)) * int(4));
        Ok(Block { tile, row_tile, column_tile, first, last, run, across, down, row_extent, column_extent })
    }

    /// The `index`-th of a thread's rows or columns, from its `start` (a multiple of four): quarters of the tile apart.
    fn own(&self, start: &Expr, index: Expr) -> Expr {
        if self.tile.per_thread() == 4 {
            return start.clone() + index;
        }
        (index.clone() / int(4)) * int(self.tile.outer / 2) + start.clone() + index % int(4)
    }

    /// Computes the thread's square of outputs; gives its name.
    fn body(&self, lowering: &mut Lowering, shape: &Shape, reduction: &Reduction) -> Result<Expr, Error> {
        let ty = lowering.index_type();
        let (tile, per_thread) = (self.tile, self.tile.per_thread());
        let mut staged = Vec::new();
        for leaf in &shape.leaves {
            staged.push(Staged::declare(lowering, leaf, tile)?);
        }
        let sums = lowering.registers("sum", reduction.accumulator.clone(), vec![per_thread as u32, per_thread as u32]);
        let square = |lowering: &mut Lowering, write: &mut dyn FnMut(&mut Lowering, Expr, Expr) -> Result<(), Error>| {
            lowering.each("p", Type::I32, [int(0), int(per_thread), int(1)], Unroll::Full, |lowering, p| {
                lowering
                    .each("q", Type::I32, [int(0), int(per_thread), int(1)], Unroll::Full, |lowering, q| write(lowering, p.clone(), q))
            })
        };
        square(lowering, &mut |lowering, p, q| {
            lowering.push(Node::Assign(sums.clone().at(p).at(q), reduction.identity.clone()));
            Ok(())
        })?;
        for (leaf, staged) in shape.leaves.iter().zip(&staged) {
            staged.fetch(lowering, self, shape, leaf, self.first.clone())?;
            staged.store(lowering, self, int(0))?;
        }
        lowering.push(Node::Barrier);
        let buffer = lowering.variable("buffer", Type::I32, Some(int(0)));
        let bounds = [self.first.clone(), self.last.clone(), int(tile.depth)];
        lowering.each("tile", ty, bounds, Unroll::By(1), |lowering, start| {
            let next = start.clone() + int(tile.depth);
            let more = lowering.local("more", Type::Bool, next.clone().less(self.last.clone()));
            lowering.when(more.clone(), |lowering| {
                shape.leaves.iter().zip(&staged).try_for_each(|(leaf, s)| s.fetch(lowering, self, shape, leaf, next.clone()))
            })?;
            lowering.each("l", Type::I32, [int(0), int(tile.depth), int(1)], Unroll::Full, |lowering, l| {
                let inside = start.clone() + l.clone();
                let multiply = |lowering: &mut Lowering| {
                    let mut fragments = Vec::new();
                    for staged in &staged {
                        fragments.push(staged.fragment(lowering, self, buffer.clone(), l.clone())?);
                    }
                    square(lowering, &mut |lowering, p, q| {
                        for (leaf, fragment) in shape.leaves.iter().zip(&fragments) {
                            let index = if leaf.side == Side::Row { p.clone() } else { q.clone() };
                            let element = fragment.clone().at(index);
                            lowering.computed.extend(leaf.exprs.iter().map(|id| (*id, element.clone())));
                        }
                        let place = sums.clone().at(p).at(q);
                        let value = lowering.step(reduction, place.clone())?;
                        lowering.push(Node::Assign(place, value));
                        Ok(())
                    })
                };
                // Zeros beyond the last term change no sum of products; other bodies leave them out.
                if reduction.reduce.fused && product_of_leaves(lowering.kernel, reduction, shape) {
                    multiply(lowering)
                } else {
                    lowering.when(inside.less(self.last.clone()), multiply)
                }
            })?;
            lowering.computed.clear();
            lowering.when(more, |lowering| staged.iter().try_for_each(|s| s.store(lowering, self, int(1) - buffer.clone())))?;
            lowering.push(Node::Assign(buffer.clone(), int(1) - buffer.clone()));
            lowering.push(Node::Barrier);
            Ok(())
        })?;
        Ok(sums)
    }

    fn finish(
        &self,
        lowering: &mut Lowering,
        statement: &Statement,
        id: ExprId,
        shape: &Shape,
        sizes: &Sizes,
        partial: Option<usize>,
        (sums, reduction): (&Expr, &Reduction),
    ) -> Result<(), Error> {
        let result = lowering.kernel.exprs[id].ty;
        let ty = lowering.index_type();
        let per_thread = self.tile.per_thread();
        let pointer = lowering.pointer(statement.array);
        let stem = |lowering: &Lowering, range: &Ranged| lowering.kernel.variables[range.variable].name.clone();
        let (row_name, column_name) = (stem(lowering, &shape.row), stem(lowering, &shape.column));
        lowering.each("p", Type::I32, [int(0), int(per_thread), int(1)], Unroll::Full, |lowering, p| {
            let row = lowering.local(&row_name, ty, self.row_tile.clone() + self.own(&self.down, p.clone()));
            lowering.variables.insert(shape.row.variable, row.clone());
            lowering.each("q", Type::I32, [int(0), int(per_thread), int(1)], Unroll::Full, |lowering, q| {
                let column = lowering.local(&column_name, ty, self.column_tile.clone() + self.own(&self.across, q.clone()));
                lowering.variables.insert(shape.column.variable, column.clone());
                let inside = row.clone().less(self.row_extent.clone()).and(column.less(self.column_extent.clone()));
                lowering.when(inside, |lowering| {
                    let sum = sums.clone().at(p).at(q);
                    let (whole, ()) = lowering.block(|lowering| {
                        lowering.computed.insert(id, reduction.settle(sum.clone()));
                        store_element(lowering, statement, pointer.clone())
                    })?;
                    let Some(partial) = partial else {
                        whole.into_iter().for_each(|node| lowering.push(node));
                        return Ok(());
                    };
                    let (part, ()) = lowering.block(|lowering| {
                        let (indices, _) = lowering.guarded_indices(statement.array, &statement.subscripts)?;
                        let output = lowering.row_major(statement.array, indices)?;
                        let outputs = lowering.size(&sizes.outputs, "outputs");
                        let results = lowering.scratch_pointer(partial, result, true);
                        lowering.push(Node::Assign(results.at(self.run.clone() * outputs + output), sum));
                        Ok(())
                    })?;
                    let runs = lowering.size(&sizes.runs, "runs");
                    lowering.push(Node::If { condition: runs.binary("==", int(1)), then: whole, otherwise: part });
                    Ok(())
                })
            })
        })
    }
}

/// Whether the body is the plain product of two leaves.
fn product_of_leaves(kernel: &Kernel, reduction: &Reduction, shape: &Shape) -> bool {
    let ExprKind::Binary(_, a, b) = kernel.exprs[reduction.reduce.body].kind else { return false };
    let is_leaf = |id: ExprId| shape.leaves.iter().any(|leaf| leaf.exprs.contains(&id));
    is_leaf(a) && is_leaf(b)
}

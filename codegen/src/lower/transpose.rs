//! Transposes: maps whose input and output run along different dimensions. A tile goes through shared memory, so that both sides
//! move whole pieces of memory: it is read along the input's contiguous dimension and written along the output's.

use gpukc_dsl::program::{Bounds, ExprId, ExprKind, Kernel, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::Group;
use super::map::{store_element, suffix};
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, int, name};
use crate::size;
use crate::walk;

/// Elements along each side of a tile, and threads along one side.
const TILE: i64 = 64;
/// Bytes of all tiles' elements at one place, so that the tiles fit shared memory.
const MOST_BYTES: usize = 8;
/// Threads along the other side; each moves `TILE / ROWS` elements.
const ROWS: i64 = 8;

struct Shape {
    /// Reads that run along `across`: those of the same element together.
    turned: Vec<Vec<ExprId>>,
    /// The variable that those reads run along.
    across: Ranged,
    /// The variable that the output runs along.
    along: Ranged,
}

fn shape(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<Shape> {
    let along = *statement.variables.last()?;
    let mut turned: Vec<Vec<ExprId>> = Vec::new();
    let mut across: Option<Ranged> = None;
    let every = walk::reads(kernel, statement.value);
    let ruled = |read: &ExprId| match &kernel.exprs[*read].kind {
        ExprKind::Read { subscripts, .. } => subscripts.iter().any(|s| !matches!(s.bounds, Bounds::Proved)),
        _ => false,
    };
    if every.iter().any(ruled) {
        return None;
    }
    for read in reads_of_every_element(kernel, statement.value) {
        let ExprKind::Read { subscripts, .. } = &kernel.exprs[read].kind else { continue };
        let (last, before) = subscripts.split_last()?;
        let last = size::linear(kernel, facts, last.index);
        let Some(variable) = last.as_ref().and_then(|l| l.alone()) else { continue };
        let strided = before.iter().any(|s| walk::mentions(kernel, s.index, along.variable));
        if variable == along.variable || !strided {
            continue;
        }
        let range = *statement.variables.iter().find(|v| v.variable == variable)?;
        if across.is_some_and(|a| a.variable != variable) {
            return None;
        }
        across = Some(range);
        let text = |read: ExprId| gpukc_dsl::program::print::expr(kernel, read);
        match turned.iter_mut().find(|same| text(same[0]) == text(read)) {
            Some(same) => same.push(read),
            None => turned.push(vec![read]),
        }
    }
    let across = across?;
    let thin = |range: &Ranged| size::extent(kernel, facts, range).is_none_or(|n| facts.below(&n, 16));
    let bytes: usize = turned.iter().map(|same| kernel.exprs[same[0]].ty.size()).sum();
    (!thin(&across) && !thin(&along) && bytes <= MOST_BYTES).then_some(Shape { turned, across, along })
}

/// The reads that every element evaluates, outside of reductions: staging them reads nothing that the program does not read.
fn reads_of_every_element(kernel: &Kernel, value: ExprId) -> Vec<ExprId> {
    let mut found = Vec::new();
    let mut stack = vec![value];
    while let Some(id) = stack.pop() {
        match &kernel.exprs[id].kind {
            ExprKind::Read { .. } => found.push(id),
            ExprKind::Reduce(_) => continue,
            _ => {}
        }
        let below = walk::operands(kernel, id);
        stack.extend(below.into_iter().rev().filter(|(_, guarded)| !guarded).map(|(operand, _)| operand));
    }
    found
}

/// Whether this schedule takes the statement.
pub fn applies(kernel: &Kernel, facts: &Facts, statement: &Statement) -> bool {
    shape(kernel, facts, statement).is_some()
}

/// Lowers a transpose.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        if matches!(lowering.places.of(statement.array), super::place::Place::Inline(_)) {
            continue;
        }
        let Some(shape) = shape(lowering.kernel, lowering.facts, &statement) else {
            return Err(Error::Bug("a transpose that is none".into()));
        };
        lower_statement(lowering, &statement, &shape)?;
    }
    Ok(())
}

fn lower_statement(lowering: &mut Lowering, statement: &Statement, shape: &Shape) -> Result<(), Error> {
    lowering.begin_launch(&[statement.array]);
    let ty = lowering.index_type();
    let batch: Vec<Ranged> = statement
        .variables
        .iter()
        .filter(|v| v.variable != shape.across.variable && v.variable != shape.along.variable)
        .copied()
        .collect();
    let (across, along) = (lowering.extent(&shape.across)?, lowering.extent(&shape.along)?);
    let wishes = |lowering: &Lowering, range: &Ranged| lowering.kernel.variables[range.variable].name.clone();
    let (across_name, along_name) = (wishes(lowering, &shape.across), wishes(lowering, &shape.along));
    let across_extent = lowering.size(&across, &format!("{across_name}_extent"));
    let along_extent = lowering.size(&along, &format!("{along_name}_extent"));
    let across_tiles = lowering.size(&across.clone().div_ceil(TILE), &format!("{across_name}_tiles"));
    let along_tiles = lowering.size(&along.clone().div_ceil(TILE), &format!("{along_name}_tiles"));
    let work = lowering.local("work", ty, name("blockIdx.x").cast(ty));
    let across_tile = lowering.local(&format!("{across_name}_tile"), ty, (work.clone() % across_tiles.clone()) * int(TILE));
    let rest = lowering.local("rest", ty, work / across_tiles);
    let along_tile = lowering.local(&format!("{along_name}_tile"), ty, (rest.clone() % along_tiles.clone()) * int(TILE));
    if !batch.is_empty() {
        let outer = lowering.local("outer", ty, rest / along_tiles);
        lowering.decode(&batch, outer)?;
    }
    let mut tiles = Vec::new();
    for read in shape.turned.iter().map(|same| same[0]) {
        let ExprKind::Read { array, .. } = &lowering.kernel.exprs[read].kind else { continue };
        let element = lowering.kernel.exprs[read].ty;
        let wish = format!("{}_tile", lowering.kernel.arrays[*array].name.replace('.', "_"));
        // A word of padding a row keeps the turned accesses in different banks.
        let pitch = TILE as u32 + (4 / element.size() as u32).max(1);
        tiles.push(lowering.shared(&wish, element, vec![TILE as u32, pitch]));
    }
    let thread = [name("threadIdx.x").cast(Type::I32), name("threadIdx.y").cast(Type::I32)];
    let steps = || [int(0), int(TILE), int(ROWS)];
    lowering.each("row", Type::I32, steps(), Unroll::Full, |lowering, row| {
        let down = lowering.local("down", Type::I32, thread[1].clone() + row);
        bind(lowering, shape, &across_tile, thread[0].clone(), &along_tile, down.clone())?;
        lowering.when(in_range(lowering, shape, &across_extent, &along_extent), |lowering| {
            for (same, tile) in shape.turned.iter().zip(&tiles) {
                let value = lowering.value(same[0])?;
                lowering.push(Node::Assign(tile.clone().at(down.clone()).at(name("threadIdx.x")), value));
            }
            Ok(())
        })
    })?;
    lowering.push(Node::Barrier);
    let pointer = lowering.pointer(statement.array);
    lowering.each("row", Type::I32, steps(), Unroll::Full, |lowering, row| {
        let down = lowering.local("down", Type::I32, thread[1].clone() + row);
        bind(lowering, shape, &across_tile, down.clone(), &along_tile, thread[0].clone())?;
        lowering.when(in_range(lowering, shape, &across_extent, &along_extent), |lowering| {
            for (same, tile) in shape.turned.iter().zip(&tiles) {
                let staged = tile.clone().at(name("threadIdx.x")).at(down.clone());
                lowering.computed.extend(same.iter().map(|read| (*read, staged.clone())));
            }
            store_element(lowering, statement, pointer.clone())
        })
    })?;
    lowering.computed.clear();
    let batches = lowering.points(&batch)?;
    let work: Formula = across.div_ceil(TILE).times(along.div_ceil(TILE)).times(batches);
    let notes = vec![
        format!(
            "Transpose: a {TILE} x {TILE} tile through shared memory, read along the input's contiguous dimension and written along"
        ),
        "the output's. The padding keeps the turned accesses free of bank conflicts.".into(),
    ];
    let suffix = suffix(lowering, statement);
    lowering.end_launch(&suffix, "transpose", notes, [work, 1.into(), 1.into()], [TILE as u32, ROWS as u32, 1]);
    Ok(())
}

fn bind(lowering: &mut Lowering, shape: &Shape, across: &Expr, x: Expr, along: &Expr, y: Expr) -> Result<(), Error> {
    let ty = lowering.index_type();
    for (range, tile, within) in [(&shape.across, across, x), (&shape.along, along, y)] {
        let wish = lowering.kernel.variables[range.variable].name.clone();
        let value = lowering.local(&wish, ty, tile.clone() + within);
        lowering.variables.insert(range.variable, value);
    }
    Ok(())
}

fn in_range(lowering: &Lowering, shape: &Shape, across: &Expr, along: &Expr) -> Expr {
    let bound = |range: &Ranged| lowering.variables.get(&range.variable).cloned().unwrap_or(int(0));
    bound(&shape.across).less(across.clone()).and(bound(&shape.along).less(along.clone()))
}

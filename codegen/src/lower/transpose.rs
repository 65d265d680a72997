//! Transposes: maps whose input and output run along different dimensions. A tile goes through shared memory, so that both sides
//! move whole pieces of memory: it is read along the input's contiguous dimension and written along the output's. Where rows of
//! both sides are whole packs, see `transpose/wide.rs`.

mod wide;

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
const ROWS: i64 = 4;

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
    for read in walk::sure_reads(kernel, statement.value) {
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

/// Where a block's tile lies, and the launch's grid.
struct Tiles {
    /// The first values of both variables in the tile, and their extents.
    across: Expr,
    along: Expr,
    across_extent: Expr,
    along_extent: Expr,
    blocks: Formula,
}

/// Numbers tiles of `side` by `side` elements: along the input's contiguous dimension first, then the output's, then the rest.
fn tiles(lowering: &mut Lowering, statement: &Statement, shape: &Shape, side: i64) -> Result<Tiles, Error> {
    let ty = lowering.index_type();
    let both = [shape.across.variable, shape.along.variable];
    let batch: Vec<Ranged> = statement.variables.iter().filter(|v| !both.contains(&v.variable)).copied().collect();
    let (across, along) = (lowering.extent(&shape.across)?, lowering.extent(&shape.along)?);
    let wishes = |lowering: &Lowering, range: &Ranged| lowering.kernel.variables[range.variable].name.clone();
    let (across_name, along_name) = (wishes(lowering, &shape.across), wishes(lowering, &shape.along));
    let across_extent = lowering.size(&across, &format!("{across_name}_extent"));
    let along_extent = lowering.size(&along, &format!("{along_name}_extent"));
    let across_tiles = lowering.size(&across.clone().div_ceil(side), &format!("{across_name}_tiles"));
    let along_tiles = lowering.size(&along.clone().div_ceil(side), &format!("{along_name}_tiles"));
    let work = lowering.local("work", ty, name("blockIdx.x").cast(ty));
    let across_tile = lowering.local(&format!("{across_name}_tile"), ty, (work.clone() % across_tiles.clone()) * int(side));
    let rest = lowering.local("rest", ty, work / across_tiles);
    let along_tile = lowering.local(&format!("{along_name}_tile"), ty, (rest.clone() % along_tiles.clone()) * int(side));
    if !batch.is_empty() {
        let outer = lowering.local("outer", ty, rest / along_tiles);
        lowering.decode(&batch, outer)?;
    }
    let blocks = across.div_ceil(side).times(along.div_ceil(side)).times(lowering.points(&batch)?);
    Ok(Tiles { across: across_tile, along: along_tile, across_extent, along_extent, blocks })
}

fn lower_statement(lowering: &mut Lowering, statement: &Statement, shape: &Shape) -> Result<(), Error> {
    lowering.begin_launch(&[statement.array]);
    if let Some(lanes) = wide::lanes(lowering, statement, shape) {
        return wide::lower(lowering, statement, shape, lanes);
    }
    let at = tiles(lowering, statement, shape, TILE)?;
    let mut staged = Vec::new();
    for read in shape.turned.iter().map(|same| same[0]) {
        let ExprKind::Read { array, .. } = &lowering.kernel.exprs[read].kind else { continue };
        let element = lowering.kernel.exprs[read].ty;
        let wish = format!("{}_tile", lowering.kernel.arrays[*array].name.replace('.', "_"));
        // A word of padding a row keeps the turned accesses in different banks.
        let pitch = TILE as u32 + (4 / element.size() as u32).max(1);
        staged.push(lowering.shared(&wish, element, vec![TILE as u32, pitch]));
    }
    load_tile(lowering, shape, &at, &staged)?;
    lowering.push(Node::Barrier);
    store_tile(lowering, statement, shape, &at, &staged)?;
    let notes = vec![
        format!(
            "Transpose: a {TILE} x {TILE} tile through shared memory, read along the input's contiguous dimension and written along"
        ),
        "the output's. The padding keeps the turned accesses free of bank conflicts.".into(),
    ];
    let suffix = suffix(lowering, statement);
    lowering.end_launch(&suffix, "transpose", notes, [at.blocks, 1.into(), 1.into()], [TILE as u32, ROWS as u32, 1]);
    Ok(())
}

fn load_tile(lowering: &mut Lowering, shape: &Shape, at: &Tiles, staged: &[Expr]) -> Result<(), Error> {
    let (x, y) = (name("threadIdx.x").cast(Type::I32), name("threadIdx.y").cast(Type::I32));
    lowering.each("row", Type::I32, [int(0), int(TILE), int(ROWS)], Unroll::Full, |lowering, row| {
        let down = lowering.local("down", Type::I32, y + row);
        bind(lowering, shape, at, x, down.clone())?;
        lowering.when(in_range(lowering, shape, at), |lowering| {
            for (same, tile) in shape.turned.iter().zip(staged) {
                let value = lowering.value(same[0])?;
                lowering.push(Node::Assign(tile.clone().at(down.clone()).at(name("threadIdx.x")), value));
            }
            Ok(())
        })
    })
}

fn store_tile(lowering: &mut Lowering, statement: &Statement, shape: &Shape, at: &Tiles, staged: &[Expr]) -> Result<(), Error> {
    let (x, y) = (name("threadIdx.x").cast(Type::I32), name("threadIdx.y").cast(Type::I32));
    let pointer = lowering.pointer(statement.array);
    lowering.each("row", Type::I32, [int(0), int(TILE), int(ROWS)], Unroll::Full, |lowering, row| {
        let down = lowering.local("down", Type::I32, y + row);
        bind(lowering, shape, at, down.clone(), x)?;
        lowering.when(in_range(lowering, shape, at), |lowering| {
            for (same, tile) in shape.turned.iter().zip(staged) {
                let staged = tile.clone().at(name("threadIdx.x")).at(down.clone());
                lowering.computed.extend(same.iter().map(|read| (*read, staged.clone())));
            }
            store_element(lowering, statement, pointer.clone())
        })
    })?;
    lowering.computed.clear();
    Ok(())
}

/// Binds both variables to a place in the tile.
fn bind(lowering: &mut Lowering, shape: &Shape, at: &Tiles, across: Expr, along: Expr) -> Result<(), Error> {
    let ty = lowering.index_type();
    for (range, tile, within) in [(&shape.across, &at.across, across), (&shape.along, &at.along, along)] {
        let wish = lowering.kernel.variables[range.variable].name.clone();
        let value = lowering.local(&wish, ty, tile.clone() + within);
        lowering.variables.insert(range.variable, value);
    }
    Ok(())
}

fn in_range(lowering: &Lowering, shape: &Shape, at: &Tiles) -> Expr {
    let bound = |range: &Ranged| lowering.variables.get(&range.variable).cloned().unwrap_or(int(0));
    bound(&shape.across).less(at.across_extent.clone()).and(bound(&shape.along).less(at.along_extent.clone()))
}

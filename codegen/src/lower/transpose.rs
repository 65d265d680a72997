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

/// Threads of a block.
const THREADS: i64 = 256;
/// Bytes of all tiles' elements at one place, so that the tiles fit shared memory.
const MOST_BYTES: usize = 8;

/// Elements of a tile along the input's contiguous dimension, and along the output's.
#[derive(Clone, Copy)]
struct Tile {
    across: i64,
    along: i64,
}

impl Tile {
    fn square(side: i64) -> Tile {
        Tile { across: side, along: side }
    }
    /// Long pieces of the output: where rows start anywhere, a piece that is written has a rim that it shares with another block
    /// (4093×8191 f32 on an H200: 64×64 104 µs, 32×128 91 µs, with tiles numbered along the output 78 µs).
    fn of_elements(lowering: &Lowering, along: &Formula) -> Tile {
        if lowering.facts.below(along, 65) { Tile::square(64) } else { Tile { across: 32, along: 128 } }
    }
}
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

/// Numbers the tiles: along the output's contiguous dimension first, so that neighbours complete each other's lines of memory in the
/// cache, then along the input's, then the rest.
fn tiles(lowering: &mut Lowering, statement: &Statement, shape: &Shape, tile: Tile) -> Result<Tiles, Error> {
    let ty = lowering.index_type();
    let both = [shape.across.variable, shape.along.variable];
    let batch: Vec<Ranged> = statement.variables.iter().filter(|v| !both.contains(&v.variable)).copied().collect();
    let (across, along) = (lowering.extent(&shape.across)?, lowering.extent(&shape.along)?);
    let wishes = |lowering: &Lowering, range: &Ranged| lowering.kernel.variables[range.variable].name.clone();
    let (across_name, along_name) = (wishes(lowering, &shape.across), wishes(lowering, &shape.along));
    let across_extent = lowering.size(&across, &format!("{across_name}_extent"));
    let along_extent = lowering.size(&along, &format!("{along_name}_extent"));
    let across_tiles = lowering.size(&across.clone().div_ceil(tile.across), &format!("{across_name}_tiles"));
    let along_tiles = lowering.size(&along.clone().div_ceil(tile.along), &format!("{along_name}_tiles"));
    let work = lowering.local("work", ty, name("blockIdx.x").cast(ty));
    let along_tile = lowering.local(&format!("{along_name}_tile"), ty, (work.clone() % along_tiles.clone()) * int(tile.along));
    let rest = lowering.local("rest", ty, work / along_tiles);
    let across_tile = lowering.local(&format!("{across_name}_tile"), ty, (rest.clone() % across_tiles.clone()) * int(tile.across));
    if !batch.is_empty() {
        let outer = lowering.local("outer", ty, rest / across_tiles);
        lowering.decode(&batch, outer)?;
    }
    let blocks = across.div_ceil(tile.across).times(along.div_ceil(tile.along)).times(lowering.points(&batch)?);
    Ok(Tiles { across: across_tile, along: along_tile, across_extent, along_extent, blocks })
}

fn lower_statement(lowering: &mut Lowering, statement: &Statement, shape: &Shape) -> Result<(), Error> {
    lowering.begin_launch(&[statement.array]);
    if let Some(lanes) = wide::lanes(lowering, statement, shape) {
        return wide::lower(lowering, statement, shape, lanes);
    }
    let along = lowering.extent(&shape.along)?;
    let size = Tile::of_elements(lowering, &along);
    let at = tiles(lowering, statement, shape, size)?;
    let mut staged = Vec::new();
    for read in shape.turned.iter().map(|same| same[0]) {
        let ExprKind::Read { array, .. } = &lowering.kernel.exprs[read].kind else { continue };
        let element = lowering.kernel.exprs[read].ty;
        let wish = format!("{}_tile", lowering.kernel.arrays[*array].name.replace('.', "_"));
        // A word of padding a row keeps the turned accesses in different banks.
        let pitch = size.across as u32 + (4 / element.size() as u32).max(1);
        staged.push(lowering.shared(&wish, element, vec![size.along as u32, pitch]));
    }
    load_tile(lowering, shape, &at, size, &staged)?;
    lowering.push(Node::Barrier);
    store_tile(lowering, statement, shape, &at, size, &staged)?;
    let notes = vec![
        format!(
            "Transpose: a {} x {} tile through shared memory, read along the input's contiguous dimension and written along",
            size.along, size.across
        ),
        "the output's. The padding keeps the turned accesses free of bank conflicts.".into(),
    ];
    let suffix = suffix(lowering, statement);
    lowering.end_launch(&suffix, "transpose", notes, [at.blocks, 1.into(), 1.into()], [THREADS as u32, 1, 1]);
    Ok(())
}

fn load_tile(lowering: &mut Lowering, shape: &Shape, at: &Tiles, size: Tile, staged: &[Expr]) -> Result<(), Error> {
    each_row(lowering, [size.along, size.across], |lowering, x, down| {
        bind(lowering, shape, at, x.clone(), down.clone())?;
        lowering.when(in_range(lowering, shape, at), |lowering| {
            for (same, tile) in shape.turned.iter().zip(staged) {
                let value = lowering.value(same[0])?;
                lowering.push(Node::Assign(tile.clone().at(down.clone()).at(x.clone()), value));
            }
            Ok(())
        })
    })
}

fn store_tile(
    lowering: &mut Lowering,
    statement: &Statement,
    shape: &Shape,
    at: &Tiles,
    size: Tile,
    staged: &[Expr],
) -> Result<(), Error> {
    let pointer = lowering.pointer(statement.array);
    each_row(lowering, [size.across, size.along], |lowering, x, down| {
        bind(lowering, shape, at, down.clone(), x.clone())?;
        lowering.when(in_range(lowering, shape, at), |lowering| {
            for (same, tile) in shape.turned.iter().zip(staged) {
                let staged = tile.clone().at(x.clone()).at(down.clone());
                lowering.computed.extend(same.iter().map(|read| (*read, staged.clone())));
            }
            store_element(lowering, statement, pointer)
        })
    })?;
    lowering.computed.clear();
    Ok(())
}

/// Visits a thread's places in a tile of so many rows of so many elements: the place in the row, and the row.
fn each_row(
    lowering: &mut Lowering,
    [rows, row]: [i64; 2],
    write: impl FnOnce(&mut Lowering, Expr, Expr) -> Result<(), Error>,
) -> Result<(), Error> {
    let thread = || name("threadIdx.x").cast(Type::I32);
    let place = lowering.local("place", Type::I32, thread() % int(row));
    let own_row = lowering.local("own_row", Type::I32, thread() / int(row));
    lowering.each("row", Type::I32, [int(0), int(rows), int(THREADS / row)], Unroll::Full, |lowering, row| {
        let down = lowering.local("down", Type::I32, own_row + row);
        write(lowering, place, down)
    })
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

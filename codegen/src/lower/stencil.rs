//! Stencils: maps that read an array at several fixed offsets from the element. Every element comes from memory about once:
//!
//! - *registers*: a thread takes neighbouring elements, as many as one access carries (one, where rows are no whole accesses), several
//!   steps along a slower dimension, and holds the window of elements that all of these read. For near reads.
//! - *shared*: for far ones, and lines of any length, a block stages a tile and its halo in shared memory, boundary rules applied on the
//!   way in. Neighbouring lanes take neighbouring elements, free of bank conflicts; a thread goes several steps along a slower dimension,
//!   where the elements that two steps share are read once.
//!
//! Blocks whose tile lies inside of every array do all of this without a single test; only those at the rim follow the rules.

mod halo;
mod registers;
mod shared;

use gpukc_dsl::program::{Ranged, Statement, VariableId};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::is_plain;
use super::map::suffix;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, int, name};
use halo::{Halo, halos};
use registers::Window;

/// Lanes along the fastest dimension, and threads across the next.
const LANES: i64 = 32;
const ACROSS: i64 = 8;
/// Threads of a block over one dimension.
const LINE: i64 = 256;
/// Fewer reads of an element's neighbourhood than this do not pay for staging.
const FEWEST_TAPS: i64 = 3;
/// Shared memory that leaves room for several blocks.
const MOST_BYTES: i64 = 40 * 1024;
/// Tiles of a launch below which smaller tiles are better: a few for each multiprocessor.
const FEW_TILES: i64 = 512;

/// How a stencil is tiled.
pub struct Stencil {
    /// The tile's extents, for the statement's last variables.
    tile: Vec<i64>,
    arrays: Vec<Halo>,
    held: Held,
}

/// Where the elements that are read several times are held.
#[derive(Clone, Copy)]
enum Held {
    Shared,
    Registers(Window),
}

/// The tiling of a statement, if it is a stencil.
pub fn stencil(lowering: &mut Lowering, statement: &Statement) -> Result<Option<Stencil>, Error> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if statement.variables.is_empty() || !is_plain(kernel, facts, statement) {
        return Ok(None);
    }
    let mut arrays = halos(lowering, statement);
    let all = arrays.clone();
    arrays.retain(|halo| halo.taps.values().sum::<i64>() >= FEWEST_TAPS && halo.reach.iter().any(|(low, high)| low != high));
    // Dimensions that the tile spans: the two fastest, and a third if reads reach along it.
    let rank = statement.variables.len();
    let reaches = |axis: usize| arrays.iter().any(|halo| halo.reach[axis] != (0, 0));
    let spanned = if rank >= 3 && reaches(rank - 3) { 3 } else { rank.min(2) };
    arrays.retain(|halo| halo.reach[..rank - spanned].iter().all(|reach| *reach == (0, 0)));
    let points = super::group::product(kernel, facts, &statement.variables);
    let (false, Some(points)) = (arrays.is_empty(), points) else { return Ok(None) };
    if let Some(stencil) = registers::stencil(lowering, statement, &arrays, all, spanned) {
        lowering.unroll_hint(statement)?;
        return Ok(Some(stencil));
    }
    let candidates = candidates(lowering, statement, spanned)?;
    let bytes = |tile: &Vec<i64>| {
        let bytes = |halo: &Halo| halo.extents(tile).iter().product::<i64>() * kernel.arrays[halo.array].element.size() as i64;
        arrays.iter().map(bytes).sum::<i64>()
    };
    let enough = |tile: &&Vec<i64>| !facts.below(&points, FEW_TILES * tile.iter().product::<i64>());
    let mut fitting = candidates.iter().filter(|tile| bytes(tile) <= MOST_BYTES);
    let roomy = |tile: &&Vec<i64>| bytes(tile) <= lowering.target.shared_bytes();
    // Far reads: better one block on a multiprocessor than every element from memory many times.
    let tile = fitting.clone().find(enough).or_else(|| fitting.next_back()).or_else(|| candidates.iter().rfind(roomy)).cloned();
    if tile.is_none() && !statement.attributes.tile.is_empty() {
        return Err(lowering.refuse_tile(statement, "with its halo it does not fit shared memory"));
    }
    Ok(tile.map(|tile| Stencil { tile, arrays, held: Held::Shared }))
}

/// Tiles to choose from, larger ones first; the one that a hint asks for alone.
fn candidates(lowering: &mut Lowering, statement: &Statement, spanned: usize) -> Result<Vec<Vec<i64>>, Error> {
    let usual: &[&[i64]] = match spanned {
        1 => &[&[1024], &[256]],
        2 => &[&[32, 128], &[32, 64], &[16, 64], &[16, 32], &[8, 32]],
        _ => &[&[4, 8, 64], &[2, 8, 64], &[2, 8, 32], &[1, 8, 32]],
    };
    let variables: Vec<VariableId> = statement.variables.iter().rev().take(spanned).rev().map(|v| v.variable).collect();
    let Some(wish) = lowering.tile_hint(statement, &variables) else { return Ok(usual.iter().map(|tile| tile.to_vec()).collect()) };
    let tile: Vec<i64> = wish.iter().zip(usual[0]).map(|(wish, usual)| wish.unwrap_or(*usual)).collect();
    let legal = match tile.as_slice() {
        [along] => along % LINE == 0,
        [across, along] => across % ACROSS == 0 && along % LANES == 0,
        [_, across, along] => *across == ACROSS && along % LANES == 0,
        _ => false,
    };
    let why = match spanned {
        1 => "a stencil over one dimension takes a multiple of 256",
        2 => "a stencil takes a multiple of 8 times a multiple of 32",
        _ => "a stencil over three dimensions takes any number times 8 times a multiple of 32",
    };
    if legal { Ok(vec![tile]) } else { Err(lowering.refuse_tile(statement, why)) }
}

/// Where a block's tile lies.
struct Origin {
    /// The first element's index along each spanned variable.
    first: Vec<Expr>,
    /// The block's threads.
    thread: [Expr; 2],
}

/// Lowers a stencil.
pub fn lower(lowering: &mut Lowering, statement: &Statement, stencil: &Stencil) -> Result<(), Error> {
    let rank = statement.variables.len();
    let (batch, spanned) = statement.variables.split_at(rank - stencil.tile.len());
    let origin = origin(lowering, batch, spanned, &stencil.tile)?;
    let inside = interior(lowering, spanned, stencil, &origin)?;
    let inside = lowering.local("interior", Type::Bool, inside);
    match stencil.held {
        Held::Shared => shared::lower(lowering, statement, stencil, &origin, inside)?,
        Held::Registers(window) => registers::lower(lowering, statement, stencil, window, &origin, inside)?,
    }
    lowering.staged.clear();
    lowering.tile_position.clear();
    finish(lowering, statement, stencil)
}

fn finish(lowering: &mut Lowering, statement: &Statement, stencil: &Stencil) -> Result<(), Error> {
    let shape: Vec<String> = stencil.tile.iter().map(ToString::to_string).collect();
    let names: Vec<&str> = stencil.arrays.iter().map(|halo| lowering.kernel.arrays[halo.array].name.as_str()).collect();
    let (shape, names) = (shape.join(" x "), names.join(", "));
    let notes = match stencil.held {
        Held::Shared => vec![
            format!("Stencil: a block stages a tile of {shape} elements of {names} and its halo in shared memory."),
            "Boundary rules apply as the tile is filled; tiles that lie inside know no rules and no tests.".into(),
        ],
        Held::Registers(Window { lanes, steps, .. }) => {
            let own = if lanes == 1 { "an element" } else { &format!("{lanes} neighbours") };
            vec![
                format!("Stencil: a block computes a tile of {shape} elements, a thread {own} at {steps} steps from a window of"),
                format!("{names} in registers. Only tiles at the rim follow boundary rules."),
            ]
        }
    };
    let (batch, spanned) = statement.variables.split_at(statement.variables.len() - stencil.tile.len());
    let mut work = lowering.points(batch)?;
    for (range, tile) in spanned.iter().zip(&stencil.tile) {
        work = work.times(lowering.extent(range)?.div_ceil(*tile));
    }
    let block = match (stencil.tile.len(), stencil.held) {
        (1, _) => [LINE as u32, 1, 1],
        (_, Held::Registers(Window { threads: [along, across], .. })) => [along as u32, across as u32, 1],
        (_, Held::Shared) => [LANES as u32, ACROSS as u32, 1],
    };
    let suffix = suffix(lowering, statement);
    lowering.end_launch(&suffix, "stencil", notes, [work, 1.into(), 1.into()], block);
    Ok(())
}

/// Finds the block's tile, the fastest dimension along neighbouring blocks, and binds the batch variables.
fn origin(lowering: &mut Lowering, batch: &[Ranged], spanned: &[Ranged], tile: &[i64]) -> Result<Origin, Error> {
    let ty = lowering.index_type();
    let mut work = lowering.local("work", ty, name("blockIdx.x").cast(ty));
    let mut first = Vec::new();
    for (depth, (range, tile)) in spanned.iter().zip(tile).enumerate().rev() {
        let wish = lowering.kernel.variables[range.variable].name.clone();
        let tiles = lowering.extent(range)?.div_ceil(*tile);
        let last = depth == 0 && batch.is_empty();
        let at = if last {
            work.clone()
        } else {
            let tiles = lowering.size(&tiles, &format!("{wish}_tiles"));
            let at = work.clone() % tiles.clone();
            work = lowering.local("rest", ty, work / tiles);
            at
        };
        first.push(lowering.local(&format!("{wish}_first"), ty, at * int(*tile)));
    }
    first.reverse();
    lowering.decode(batch, work)?;
    let thread = [name("threadIdx.y").cast(Type::I32), name("threadIdx.x").cast(Type::I32)];
    Ok(Origin { first, thread })
}

/// That the tile, halo included, lies inside of every array.
fn interior(lowering: &mut Lowering, spanned: &[Ranged], stencil: &Stencil, origin: &Origin) -> Result<Expr, Error> {
    let mut all: Vec<Expr> = Vec::new();
    for (axis, (range, tile)) in spanned.iter().zip(&stencil.tile).enumerate() {
        let first = &origin.first[axis];
        let own = lowering.extent(range)?;
        // By extent: how far the tile reaches at either end.
        let mut ends: Vec<(Formula, i64, i64)> = vec![(own, 0, 0)];
        for halo in &stencil.arrays {
            let array_axis = halo.reach.len() - stencil.tile.len() + axis;
            let extent = lowering.formula(lowering.kernel.arrays[halo.array].shape[array_axis])?;
            let (low, high) = halo.reach[array_axis];
            match ends.iter_mut().find(|(known, _, _)| *known == extent) {
                Some((_, lowest, highest)) => (*lowest, *highest) = ((*lowest).min(low), (*highest).max(high)),
                None => ends.push((extent, low, high)),
            }
        }
        let lowest = ends.iter().map(|end| end.1).min().unwrap_or(0);
        if lowest < 0 {
            all.push(int(-lowest).binary("<=", first.clone()));
        }
        let wish = lowering.kernel.variables[range.variable].name.clone();
        for (extent, _, high) in ends {
            let extent = lowering.size(&extent, &format!("{wish}_extent"));
            all.push((first.clone() + int(tile + high)).binary("<=", extent));
        }
    }
    Ok(all.into_iter().reduce(Expr::and).unwrap_or(Expr::Bool(true)))
}

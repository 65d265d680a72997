//! Stencils: maps that read an array at several fixed offsets from the element. A block stages a tile of each such array and its
//! halo in shared memory, boundary rules applied on the way in, so that every element comes from memory about once and what each
//! thread evaluates has no rules left. Neighbouring lanes take neighbouring elements, free of bank conflicts; a thread goes
//! several steps along a slower dimension, where the elements that two steps share are read once.
//!
//! Blocks whose tile lies inside of every array do all of this without a single test; only those at the rim follow the rules.

use std::collections::{BTreeMap, BTreeSet};

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Ranged, Statement, Subscript, VariableId};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::is_plain;
use super::map::{store_element, suffix};
use super::place::Place;
use super::read::Staged;
use super::tiled::constant_ranges;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, int, name};
use crate::{size, walk};

/// Lanes along the fastest dimension, and threads across the next.
const LANES: i64 = 32;
const ACROSS: i64 = 8;
/// Threads of a block over one dimension.
const LINE: i64 = 256;
/// Fewer reads of an element's neighbourhood than this do not pay for a barrier.
const FEWEST_TAPS: i64 = 3;
/// Shared memory that leaves room for several blocks.
const MOST_BYTES: i64 = 40 * 1024;
/// Tiles of a launch below which smaller tiles are better: a few for each multiprocessor.
const FEW_TILES: i64 = 512;
/// A staging loop of at most so many steps is unrolled, so that all its loads are in flight at once.
const MOST_IN_FLIGHT: i64 = 32;

/// How a stencil is tiled.
pub struct Stencil {
    /// The tile's extents, for the statement's last variables.
    tile: Vec<i64>,
    arrays: Vec<Halo>,
}

/// An array that is staged.
struct Halo {
    array: ArrayId,
    /// The reads that the tile serves.
    reads: BTreeSet<ExprId>,
    /// A subscript with the boundary rule of each axis; without a rule, nothing outside is read.
    rules: Vec<Subscript>,
    /// How far reads reach from the element, axis by axis, batch axes included.
    reach: Vec<(i64, i64)>,
    /// The distinct reaches of single reads, and how many elements each reads.
    taps: BTreeMap<Vec<(i64, i64)>, i64>,
}

/// The tiling of a statement, if it is a stencil.
pub fn stencil(lowering: &mut Lowering, statement: &Statement) -> Result<Option<Stencil>, Error> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if statement.variables.is_empty() || !is_plain(kernel, facts, statement) {
        return Ok(None);
    }
    let mut arrays = halos(lowering, statement);
    arrays.retain(|halo| halo.taps.values().sum::<i64>() >= FEWEST_TAPS && halo.reach.iter().any(|(low, high)| low != high));
    // Dimensions that the tile spans: the two fastest, and a third if reads reach along it.
    let rank = statement.variables.len();
    let reaches = |axis: usize| arrays.iter().any(|halo| halo.reach[axis] != (0, 0));
    let spanned = if rank >= 3 && reaches(rank - 3) { 3 } else { rank.min(2) };
    arrays.retain(|halo| halo.reach[..rank - spanned].iter().all(|reach| *reach == (0, 0)));
    let points = super::group::product(kernel, facts, &statement.variables);
    let (false, Some(points)) = (arrays.is_empty(), points) else { return Ok(None) };
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
    Ok(tile.map(|tile| Stencil { tile, arrays }))
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

impl Halo {
    /// The extents of its tile, halo included.
    fn extents(&self, tile: &[i64]) -> Vec<i64> {
        let spanned = &self.reach[self.reach.len() - tile.len()..];
        tile.iter().zip(spanned).map(|(extent, (low, high))| extent + high - low).collect()
    }
}

/// The arrays that are read around the element.
fn halos(lowering: &Lowering, statement: &Statement) -> Vec<Halo> {
    let ranges = constant_ranges(lowering, statement.value);
    let mut halos: Vec<Halo> = Vec::new();
    for read in walk::reads(lowering.kernel, statement.value) {
        let ExprKind::Read { array, subscripts } = &lowering.kernel.exprs[read].kind else { continue };
        if !matches!(lowering.places.of(*array), Place::Memory | Place::Scratch(_)) || *array == statement.array {
            continue;
        }
        let Some((reach, taps)) = reach(lowering, statement, *array, subscripts, &ranges) else { continue };
        match halos.iter_mut().find(|halo| halo.array == *array) {
            None => {
                let taps = [(reach.clone(), taps)].into();
                halos.push(Halo { array: *array, reads: [read].into(), rules: subscripts.clone(), reach, taps });
            }
            Some(halo) => {
                if halo.join(lowering, subscripts, &reach) {
                    halo.reads.insert(read);
                    halo.taps.insert(reach, taps);
                }
            }
        }
    }
    halos
}

impl Halo {
    /// Takes in a further read, unless its boundary rules are others.
    fn join(&mut self, lowering: &Lowering, subscripts: &[Subscript], reach: &[(i64, i64)]) -> bool {
        let has_rule = |s: &Subscript| !matches!(s.bounds, Bounds::Proved | Bounds::Assumed);
        let agrees = |(own, other): (&Subscript, &Subscript)| {
            !has_rule(own) || !has_rule(other) || same_rule(lowering, &own.bounds, &other.bounds)
        };
        if !self.rules.iter().zip(subscripts).all(agrees) {
            return false;
        }
        for (own, other) in self.rules.iter_mut().zip(subscripts) {
            if !has_rule(own) {
                *own = other.clone();
            }
        }
        for (own, other) in self.reach.iter_mut().zip(reach) {
            *own = (own.0.min(other.0), own.1.max(other.1));
        }
        true
    }
}

fn same_rule(lowering: &Lowering, a: &Bounds, b: &Bounds) -> bool {
    let text = |id: &ExprId| gpukc_dsl::program::print::expr(lowering.kernel, *id);
    match (a, b) {
        (Bounds::Constant(a), Bounds::Constant(b)) => text(a) == text(b),
        (a, b) => a == b,
    }
}

type Ranges = BTreeMap<VariableId, Option<(i64, i64)>>;

/// How far a read reaches along each axis, and how many elements it reads; `None` if a tile can't serve it.
fn reach(
    lowering: &Lowering,
    statement: &Statement,
    array: ArrayId,
    subscripts: &[Subscript],
    ranges: &Ranges,
) -> Option<(Vec<(i64, i64)>, i64)> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if subscripts.len() != statement.variables.len() {
        return None;
    }
    let mut all = Vec::new();
    let mut taps: i64 = 1;
    let mut seen = BTreeSet::new();
    for (axis, (subscript, own)) in subscripts.iter().zip(&statement.variables).enumerate() {
        let index = size::linear(kernel, facts, subscript.index)?;
        let offset = index.constant.constant()?;
        let (mut low, mut high) = (offset, offset);
        let mut moves = false;
        for (variable, coefficient) in &index.terms {
            let factor = coefficient.constant()?;
            if *variable == own.variable {
                moves = factor == 1;
                continue;
            }
            let (lo, hi) = (*ranges.get(variable)?)?;
            let ends = [lo.checked_mul(factor)?, hi.checked_mul(factor)?];
            low = low.checked_add(ends[0].min(ends[1]))?;
            high = high.checked_add(ends[0].max(ends[1]))?;
            if seen.insert(*variable) {
                taps = taps.checked_mul(hi.checked_sub(lo)?.checked_add(1)?)?;
            }
        }
        let near = |offset: i64| offset.abs() < 1 << 16;
        if !moves || !near(low) || !near(high) || !rule_is_stageable(lowering, own, array, axis, &subscript.bounds) {
            return None;
        }
        all.push((low, high));
    }
    Some((all, taps))
}

/// Whether the rule can be applied while a tile is filled. Tiles reach past the last element of the left side: what lies there
/// must not be reported, so the axis must not be empty where there are elements.
fn rule_is_stageable(lowering: &Lowering, own: &Ranged, array: ArrayId, axis: usize, bounds: &Bounds) -> bool {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let extent = size::formula(kernel, facts, kernel.arrays[array].shape[axis]);
    match bounds {
        Bounds::Proved | Bounds::Assumed => extent.is_some(),
        Bounds::Constant(value) => {
            let mut constant = extent.is_some();
            walk::walk(kernel, *value, &mut |id| {
                constant &= matches!(
                    kernel.exprs[id].kind,
                    ExprKind::Literal(_) | ExprKind::Dim(_) | ExprKind::Scalar(_) | ExprKind::Unary(..) | ExprKind::Cast(_)
                );
                constant
            });
            constant
        }
        Bounds::Clamp | Bounds::Wrap | Bounds::Mirror | Bounds::Symmetric => {
            let same = extent.is_some() && extent == size::extent(kernel, facts, own);
            same || extent.and_then(|n| n.constant()).is_some_and(|n| n > 0)
        }
        Bounds::Checked | Bounds::Drop => false,
    }
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
    let mut tiles = Vec::new();
    for halo in &stencil.arrays {
        let extents = halo.extents(&stencil.tile).iter().map(|extent| *extent as u32).collect();
        let array = &lowering.kernel.arrays[halo.array];
        let wish = format!("{}_tile", array.name.replace('.', "_"));
        tiles.push(lowering.shared(&wish, array.element, extents));
    }
    let (then, ()) = lowering.block(|lowering| stage_all(lowering, batch, stencil, &origin, &tiles, true))?;
    let (otherwise, ()) = lowering.block(|lowering| stage_all(lowering, batch, stencil, &origin, &tiles, false))?;
    lowering.push(Node::If { condition: inside.clone(), then, otherwise });
    lowering.push(Node::Barrier);
    for (halo, tile) in stencil.arrays.iter().zip(&tiles) {
        let low = halo.reach[rank - stencil.tile.len()..].iter().map(|(low, _)| *low).collect();
        let staged = Staged { tile: tile.clone(), axes: spanned.iter().map(|v| v.variable).collect(), low };
        lowering.staged.extend(halo.reads.iter().map(|read| (*read, staged.clone())));
    }
    let pointer = lowering.pointer(statement.array);
    let (then, ()) = lowering.block(|lowering| elements(lowering, statement, stencil, &origin, &pointer, true))?;
    let (otherwise, ()) = lowering.block(|lowering| elements(lowering, statement, stencil, &origin, &pointer, false))?;
    lowering.push(Node::If { condition: inside, then, otherwise });
    lowering.staged.clear();
    lowering.tile_position.clear();
    finish(lowering, statement, stencil)
}

fn finish(lowering: &mut Lowering, statement: &Statement, stencil: &Stencil) -> Result<(), Error> {
    let shape: Vec<String> = stencil.tile.iter().map(ToString::to_string).collect();
    let names: Vec<&str> = stencil.arrays.iter().map(|halo| lowering.kernel.arrays[halo.array].name.as_str()).collect();
    let notes = vec![
        format!("Stencil: a block stages a tile of {} elements of {} and its halo.", shape.join(" x "), names.join(", ")),
        "Boundary rules apply as the tile is filled; tiles that lie inside know no rules and no tests.".into(),
    ];
    let (batch, spanned) = statement.variables.split_at(statement.variables.len() - stencil.tile.len());
    let mut work = lowering.points(batch)?;
    for (range, tile) in spanned.iter().zip(&stencil.tile) {
        work = work.times(lowering.extent(range)?.div_ceil(*tile));
    }
    let block = if stencil.tile.len() == 1 { [LINE as u32, 1, 1] } else { [LANES as u32, ACROSS as u32, 1] };
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

fn stage_all(
    lowering: &mut Lowering,
    batch: &[Ranged],
    stencil: &Stencil,
    origin: &Origin,
    tiles: &[Expr],
    inside: bool,
) -> Result<(), Error> {
    stencil.arrays.iter().zip(tiles).try_for_each(|(halo, tile)| {
        let filling = Filling { batch, halo, extents: halo.extents(&stencil.tile), tile, inside };
        filling.stage(lowering, origin)
    })
}

/// A tile that is being filled.
struct Filling<'a> {
    batch: &'a [Ranged],
    halo: &'a Halo,
    extents: Vec<i64>,
    tile: &'a Expr,
    inside: bool,
}

impl Filling<'_> {
    /// Threads along the fastest dimension take neighbouring elements; those across take the rows of all slower ones in turn.
    fn stage(&self, lowering: &mut Lowering, origin: &Origin) -> Result<(), Error> {
        let Some((columns, slower)) = self.extents.split_last() else { return Ok(()) };
        let rows: i64 = slower.iter().product();
        let along = if slower.is_empty() { LINE } else { LANES };
        let steps = rounds(rows, ACROSS) * rounds(*columns, along);
        let unroll = if self.inside && steps <= MOST_IN_FLIGHT { Unroll::Full } else { Unroll::By(1) };
        let [across_thread, along_thread] = origin.thread.clone();
        let take_row = |lowering: &mut Lowering, row: Expr| {
            stride(lowering, "column", along_thread, *columns, along, unroll, |lowering, column| {
                self.element(lowering, origin, row, column)
            })
        };
        if slower.is_empty() {
            take_row(lowering, int(0))
        } else {
            stride(lowering, "row", across_thread, rows, ACROSS, unroll, take_row)
        }
    }

    fn element(&self, lowering: &mut Lowering, origin: &Origin, row: Expr, column: Expr) -> Result<(), Error> {
        let mut within = vec![column];
        let mut rest = row;
        for (depth, extent) in self.extents.iter().enumerate().rev().skip(1) {
            within.push(if depth == 0 { rest.clone() } else { rest.clone() % int(*extent) });
            rest = rest / int(*extent);
        }
        within.reverse();
        let place = within.iter().fold(self.tile.clone(), |tile, at| tile.at(at.clone()));
        let batch = self.batch.len();
        let mut indices = Vec::new();
        for range in self.batch {
            indices.push(lowering.variables.get(&range.variable).cloned().unwrap_or(int(0)));
        }
        let mut conditions = Vec::new();
        for (axis, at) in within.into_iter().enumerate() {
            let (low, _) = self.halo.reach[batch + axis];
            let index = origin.first[axis].clone() + at + int(low);
            if self.inside {
                indices.push(index);
                continue;
            }
            let (index, condition) = lowering.staged_index(self.halo.array, batch + axis, &self.halo.rules[batch + axis], index)?;
            indices.push(index);
            conditions.extend(condition);
        }
        let value = lowering.staged_element(self.halo.array, indices, conditions)?;
        lowering.push(Node::Assign(place, value));
        Ok(())
    }
}

/// How often `threads` threads go to take `count` positions.
fn rounds(count: i64, threads: i64) -> i64 {
    (count + threads - 1) / threads
}

/// `count` positions, taken in turn by `threads` threads. Unrolled, the trip count is a constant.
fn stride(
    lowering: &mut Lowering,
    wish: &str,
    thread: Expr,
    count: i64,
    threads: i64,
    unroll: Unroll,
    write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>,
) -> Result<(), Error> {
    if unroll != Unroll::Full {
        return lowering.each(wish, Type::I32, [thread, int(count), int(threads)], unroll, write);
    }
    let bounds = [int(0), int(rounds(count, threads) * threads), int(threads)];
    lowering.each(&format!("first_{wish}"), Type::I32, bounds, unroll, |lowering, first| {
        let at = lowering.local(wish, Type::I32, first + thread);
        if count % threads == 0 {
            return write(lowering, at);
        }
        lowering.when(at.clone().less(int(count)), |lowering| write(lowering, at))
    })
}

/// Computes and stores the thread's elements of the tile.
fn elements(
    lowering: &mut Lowering,
    statement: &Statement,
    stencil: &Stencil,
    origin: &Origin,
    pointer: &Expr,
    inside: bool,
) -> Result<(), Error> {
    let spanned = statement.variables[statement.variables.len() - stencil.tile.len()..].to_vec();
    let unroll = if inside { Unroll::Full } else { Unroll::By(1) };
    let [across, along] = origin.thread.clone();
    let store = |lowering: &mut Lowering, at: Vec<Expr>| -> Result<(), Error> {
        let mut condition: Option<Expr> = None;
        for ((range, local), first) in spanned.iter().zip(at).zip(&origin.first) {
            let wish = lowering.kernel.variables[range.variable].name.clone();
            let ty = lowering.index_type();
            let local = if matches!(local, Expr::Int(..) | Expr::Name(_)) {
                local
            } else {
                lowering.local(&format!("{wish}_within"), Type::I32, local)
            };
            let index = lowering.local(&wish, ty, first.clone() + local.clone());
            let extent = lowering.extent(range)?;
            let below = index.clone().less(lowering.size(&extent, &format!("{wish}_extent")));
            condition = Some(condition.map_or(below.clone(), |all| all.and(below)));
            lowering.variables.insert(range.variable, index);
            lowering.tile_position.insert(range.variable, local);
        }
        lowering.when_some(condition.filter(|_| !inside), |lowering| store_element(lowering, statement, pointer.clone()))
    };
    match stencil.tile.as_slice() {
        [columns] => lowering
            .each("step", Type::I32, [int(0), int(*columns), int(LINE)], unroll, |lowering, step| store(lowering, vec![step + along])),
        [rows, columns] => {
            let each = rows / ACROSS;
            lowering.each("column", Type::I32, [int(0), int(*columns), int(LANES)], unroll, |lowering, column| {
                lowering.each("row", Type::I32, [int(0), int(each), int(1)], unroll, |lowering, row| {
                    store(lowering, vec![across * int(each) + row, column + along])
                })
            })
        }
        [layers, _, columns] => lowering.each("column", Type::I32, [int(0), int(*columns), int(LANES)], unroll, |lowering, column| {
            lowering.each("layer", Type::I32, [int(0), int(*layers), int(1)], unroll, |lowering, layer| {
                store(lowering, vec![layer, across, column + along])
            })
        }),
        _ => Err(Error::Bug("a stencil over more than three dimensions".into())),
    }
}

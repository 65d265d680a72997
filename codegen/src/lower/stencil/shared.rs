//! The tile in shared memory: filled by all threads, read by all.

use gpukc_dsl::program::{Ranged, Statement};
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::map::store_element;
use super::halo::Halo;
use super::{ACROSS, LANES, LINE, Origin, Stencil};
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, call, int};

/// A staging loop of at most so many steps is unrolled, so that all its loads are in flight at once.
const MOST_IN_FLIGHT: i64 = 32;

/// Stages the tiles, then computes the elements from them; `inside` is the condition that the block's tile lies inside.
pub fn lower(lowering: &mut Lowering, statement: &Statement, stencil: &Stencil, origin: &Origin, inside: Expr) -> Result<(), Error> {
    let rank = statement.variables.len();
    let (batch, spanned) = statement.variables.split_at(rank - stencil.tile.len());
    let mut tiles = Vec::new();
    for halo in &stencil.arrays {
        let extents = halo.extents(&stencil.tile).iter().map(|extent| *extent as u32).collect();
        let array = &lowering.kernel.arrays[halo.array];
        let wish = format!("{}_tile", array.name.replace('.', "_"));
        tiles.push(lowering.shared(&wish, array.element, extents));
    }
    let dims = (batch, spanned);
    let (then, ()) = lowering.block(|lowering| stage_all(lowering, dims, stencil, origin, &tiles, true))?;
    let (otherwise, ()) = lowering.block(|lowering| stage_all(lowering, dims, stencil, origin, &tiles, false))?;
    lowering.push(Node::If { condition: inside.clone(), then, otherwise });
    lowering.push(Node::Barrier);
    for (halo, tile) in stencil.arrays.iter().zip(&tiles) {
        let low: Vec<i64> = halo.reach[rank - stencil.tile.len()..].iter().map(|(low, _)| *low).collect();
        halo.serve(lowering, tile, spanned.len(), &low);
    }
    let pointer = lowering.pointer(statement.array);
    let (then, ()) = lowering.block(|lowering| elements(lowering, statement, stencil, origin, &pointer, true))?;
    let (otherwise, ()) = lowering.block(|lowering| elements(lowering, statement, stencil, origin, &pointer, false))?;
    lowering.push(Node::If { condition: inside, then, otherwise });
    Ok(())
}

fn stage_all(
    lowering: &mut Lowering,
    (batch, spanned): (&[Ranged], &[Ranged]),
    stencil: &Stencil,
    origin: &Origin,
    tiles: &[Expr],
    inside: bool,
) -> Result<(), Error> {
    stencil.arrays.iter().zip(tiles).try_for_each(|(halo, tile)| {
        let filling = Filling { batch, spanned, halo, extents: halo.extents(&stencil.tile), tile, inside };
        filling.stage(lowering, origin)
    })
}

/// A tile that is being filled.
struct Filling<'a> {
    batch: &'a [Ranged],
    spanned: &'a [Ranged],
    halo: &'a Halo,
    extents: Vec<i64>,
    tile: &'a Expr,
    inside: bool,
}

impl Filling<'_> {
    /// Threads along the fastest dimension take neighbouring elements; those across take the rows of all slower ones in turn. At the
    /// rim only what the array has, and what reads reach beyond it, is taken: of the last tile that may be little.
    fn stage(&self, lowering: &mut Lowering, origin: &Origin) -> Result<(), Error> {
        let Some((columns, slower)) = self.extents.split_last() else { return Ok(()) };
        let rows: i64 = slower.iter().product();
        let along = if slower.is_empty() { LINE } else { LANES };
        let steps = rounds(rows, ACROSS) * rounds(*columns, along);
        let unroll = if steps <= MOST_IN_FLIGHT { Unroll::Full } else { Unroll::By(1) };
        let [across_thread, along_thread] = origin.thread.clone();
        let there = self.there(lowering, origin, self.extents.len() - 1)?;
        let columns = Stride { wish: "column", thread: along_thread, count: *columns, threads: along, there };
        let take_row = |lowering: &mut Lowering, row: Expr| {
            columns.each(lowering, unroll, |lowering, column| self.element(lowering, origin, row, column))
        };
        if slower.is_empty() {
            return take_row(lowering, int(0));
        }
        let of_layer: i64 = slower[1..].iter().product();
        let there = self.there(lowering, origin, 0)?.map(|there| there * int(of_layer));
        Stride { wish: "row", thread: across_thread, count: rows, threads: ACROSS, there }.each(lowering, unroll, take_row)
    }

    /// How far a tile at the rim goes along a dimension, halo included.
    fn there(&self, lowering: &mut Lowering, origin: &Origin, axis: usize) -> Result<Option<Expr>, Error> {
        if self.inside {
            return Ok(None);
        }
        let range = &self.spanned[axis];
        let (low, high) = self.halo.reach[self.batch.len() + axis];
        let wish = lowering.kernel.variables[range.variable].name.clone();
        let extent = lowering.extent(range)?;
        let rest = lowering.size(&extent, &format!("{wish}_extent")) - origin.first[axis].clone() + int(high - low);
        let rest = call("minimum", vec![rest, int(self.extents[axis]).cast(lowering.index_type())]);
        let rest = if lowering.facts.narrow { rest } else { rest.cast(Type::I32) };
        Ok(Some(lowering.local(&format!("{wish}_there"), Type::I32, rest)))
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

/// `count` positions, or those that are `there`, taken in turn by `threads` threads. Unrolled, the trip count is a constant.
struct Stride<'a> {
    wish: &'a str,
    thread: Expr,
    count: i64,
    threads: i64,
    there: Option<Expr>,
}

impl Stride<'_> {
    fn each(
        &self,
        lowering: &mut Lowering,
        unroll: Unroll,
        write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Stride { wish, thread, count, threads, there } = self;
        let end = there.clone().unwrap_or(int(*count));
        if unroll != Unroll::Full {
            return lowering.each(wish, Type::I32, [thread.clone(), end, int(*threads)], unroll, write);
        }
        let bounds = [int(0), int(rounds(*count, *threads) * threads), int(*threads)];
        lowering.each(&format!("first_{wish}"), Type::I32, bounds, unroll, |lowering, first| {
            let at = lowering.local(wish, Type::I32, first + thread.clone());
            if there.is_none() && count % threads == 0 {
                return write(lowering, at);
            }
            lowering.when(at.clone().less(end), |lowering| write(lowering, at))
        })
    }
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

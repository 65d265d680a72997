//! The window in registers: of each array, the elements that a thread's own elements read.

use std::collections::BTreeSet;

use gpukc_dsl::program::{ArrayId, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::map::store_element;
use super::super::read::Inside;
use super::halo::Halo;
use super::{ACROSS, FEW_TILES, Held, LANES, LINE, Origin, Stencil};
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, int};
use crate::size;

/// Elements of all windows, of four bytes, that leave registers for the arithmetic and for other blocks.
const MOST_HELD: i64 = 64;
/// Reads along the fastest dimension further than this are better served by shared memory.
const FURTHEST: i64 = 4;
/// Threads along rows that are short.
const NARROW: [i64; 2] = [8, 16];
/// Threads of a block at least.
const FEWEST_THREADS: i64 = 64;

/// Fewer points than this are too few tiles, most of them at the rim.
const FEWEST_POINTS: i64 = 1 << 16;

/// What a thread computes, and how the threads of a block lie.
#[derive(Clone, Copy)]
pub struct Window {
    /// Neighbouring elements.
    pub lanes: i64,
    /// Steps along a slower dimension.
    pub steps: i64,
    /// Threads along the fastest dimension, and across the next.
    pub threads: [i64; 2],
}

/// The stencil with windows in registers, if reads are near and all rows are as long as the result's.
pub fn stencil(lowering: &Lowering, statement: &Statement, staged: &[Halo], all: Vec<Halo>, spanned: usize) -> Option<Stencil> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if !facts.aligned || !statement.attributes.tile.is_empty() {
        return None;
    }
    let rank = statement.variables.len();
    let element = |array: ArrayId| kernel.arrays[array].element.size() as i64;
    let widest = staged.iter().map(|halo| element(halo.array)).chain([element(statement.array)]).max()?;
    // Rows of whole accesses, as long as those of the result: a thread's own elements are inside all together. Accesses of an element
    // serve rows of any width.
    let row = |array: ArrayId| size::formula(kernel, facts, *kernel.arrays[array].shape.last()?);
    let own_row = row(statement.array)?;
    let lanes = [16, 8, 4, 2].into_iter().find(|lanes| lanes * widest <= 16 && facts.multiple(&own_row, *lanes)).unwrap_or(1);
    let whole = |array: ArrayId| row(array).is_some_and(|extent| extent == own_row);
    let near = |halo: &Halo| {
        let (low, high) = halo.reach[rank - 1];
        -FURTHEST <= low && high <= FURTHEST && halo.reach[..rank - spanned].iter().all(|reach| *reach == (0, 0))
    };
    let serves = |halo: &Halo| whole(halo.array) && near(halo) && element(halo.array) <= widest;
    if (lanes == 1 && spanned == 1) || !staged.iter().all(serves) {
        return None;
    }
    // Arrays that are read at the element alone are read as wide.
    let arrays: Vec<Halo> = all.into_iter().filter(serves).collect();
    let points = super::super::group::product(kernel, facts, &statement.variables)?;
    // Where accesses are narrow, more steps: the loads that neighbouring steps share are a larger part.
    let usual: &[i64] = match spanned {
        1 => &[1],
        2 if lanes * widest < 8 => &[8, 4, 2],
        _ => &[4, 2],
    };
    let asked = statement.attributes.unroll.map(|(steps, _)| vec![i64::from(steps)]).filter(|_| spanned > 1);
    let usual_window = |steps: i64| Window { lanes, steps, threads: [LANES, ACROSS] };
    let held = |steps: i64| {
        let window = usual_window(steps);
        arrays.iter().map(|halo| window.held(halo, spanned) * element(halo.array).max(2)).sum::<i64>() / 4
    };
    let enough = |steps: i64| {
        let least = if steps == usual[usual.len() - 1] { FEWEST_POINTS } else { FEW_TILES * usual_window(steps).points(spanned) };
        facts.at_least(&points, least)
    };
    let steps = match &asked {
        Some(asked) => *asked.first()?,
        None => *usual.iter().find(|steps| held(**steps) <= MOST_HELD && enough(**steps))?,
    };
    let window = Window { threads: threads(lowering, statement, (lanes, steps), spanned)?, ..usual_window(steps) };
    Some(Stencil { tile: window.tile(spanned), arrays, held: Held::Registers(window) })
}

/// Threads of a block along the fastest dimension, and across the next: of short rows fewer along, so that none idles, and no more
/// across than there are rows.
fn threads(lowering: &Lowering, statement: &Statement, (lanes, steps): (i64, i64), spanned: usize) -> Option<[i64; 2]> {
    let facts = lowering.facts;
    let [.., across, along] = statement.variables.as_slice() else { return Some([LANES, ACROSS]) };
    let (rows, columns) = (lowering.extent(across).ok()?, lowering.extent(along).ok()?);
    let short = NARROW.into_iter().find(|threads| facts.below(&columns, threads * lanes + 1));
    let Some(along) = short else { return Some([LANES, ACROSS]) };
    let of_thread = if spanned == 2 { steps } else { 1 };
    let mut across = LANES * ACROSS / along;
    while along * across > FEWEST_THREADS && facts.below(&rows, across * of_thread / 2 + 1) {
        across /= 2;
    }
    Some([along, across])
}

impl Window {
    /// The tile of a block over so many dimensions.
    fn tile(self, spanned: usize) -> Vec<i64> {
        let [along, across] = self.threads;
        match spanned {
            1 => vec![LINE * self.lanes],
            2 => vec![across * self.steps, along * self.lanes],
            _ => vec![self.steps, across, along * self.lanes],
        }
    }

    fn points(self, spanned: usize) -> i64 {
        self.tile(spanned).iter().product()
    }

    /// How many elements of an array a thread's own elements read.
    fn held(self, halo: &Halo, spanned: usize) -> i64 {
        let mut found = BTreeSet::new();
        for tap in halo.taps.keys() {
            let tap = &tap[tap.len() - spanned..];
            let (along, slower) = (tap[spanned - 1], &tap[..spanned - 1]);
            let mut rows = vec![Vec::new()];
            for (axis, (low, high)) in slower.iter().enumerate() {
                let own = self.own(spanned)[axis];
                let positions: Vec<i64> = (*low..*high + own).collect();
                rows = rows.iter().flat_map(|row: &Vec<i64>| positions.iter().map(|at| [row.as_slice(), &[*at]].concat())).collect();
            }
            for row in rows {
                found.extend((along.0..along.1 + self.lanes).map(|column| (row.clone(), column)));
            }
        }
        found.len() as i64
    }

    /// A thread's own elements along each dimension.
    fn own(self, spanned: usize) -> Vec<i64> {
        match spanned {
            1 => vec![self.lanes],
            2 => vec![self.steps, self.lanes],
            _ => vec![self.steps, 1, self.lanes],
        }
    }

    /// How far the window reaches from the first of the thread's elements, and from the last: the elements themselves included.
    fn reach(halo: &Halo, spanned: usize) -> Vec<(i64, i64)> {
        halo.reach[halo.reach.len() - spanned..].iter().map(|(low, high)| ((*low).min(0), (*high).max(0))).collect()
    }

    /// The extents of an array's window.
    fn extents(self, halo: &Halo, spanned: usize) -> Vec<i64> {
        self.own(spanned).iter().zip(Window::reach(halo, spanned)).map(|(own, (low, high))| own + high - low).collect()
    }
}

/// Computes the block's tile; `inside` is the condition that it lies inside.
pub fn lower(
    lowering: &mut Lowering,
    statement: &Statement,
    stencil: &Stencil,
    window: Window,
    origin: &Origin,
    inside: Expr,
) -> Result<(), Error> {
    let rank = statement.variables.len();
    let (batch, spanned) = statement.variables.split_at(rank - stencil.tile.len());
    let tile = Tile { statement, stencil, window, origin, batch, spanned };
    let (then, ()) = lowering.block(|lowering| tile.elements_of_thread(lowering, true))?;
    let (otherwise, ()) = lowering.block(|lowering| tile.elements_of_thread(lowering, false))?;
    lowering.push(Node::If { condition: inside, then, otherwise });
    Ok(())
}

/// An index, and the condition under which it is inside.
type Place = (Expr, Option<Inside>);

struct Tile<'a> {
    statement: &'a Statement,
    stencil: &'a Stencil,
    window: Window,
    origin: &'a Origin,
    batch: &'a [Ranged],
    spanned: &'a [Ranged],
}

impl Tile<'_> {
    /// Where the thread's first element lies in the tile.
    fn within(&self) -> Vec<Expr> {
        let [across, along] = self.origin.thread.clone();
        let along = along * int(self.window.lanes);
        match self.spanned.len() {
            1 => vec![along],
            2 => vec![across * int(self.window.steps), along],
            _ => vec![int(0), across, along],
        }
    }

    fn batch_indices(&self, lowering: &Lowering) -> Vec<Expr> {
        self.batch.iter().filter_map(|range| lowering.variables.get(&range.variable).cloned()).collect()
    }

    /// Loads the thread's windows and computes its elements; at the rim by the boundary rules, and only what is inside. Rows are
    /// whole accesses, so that along the fastest dimension a thread's elements are inside all together.
    fn elements_of_thread(&self, lowering: &mut Lowering, inside: bool) -> Result<(), Error> {
        let ty = lowering.index_type();
        let mut first = Vec::new();
        for ((range, tile), within) in self.spanned.iter().zip(&self.origin.first).zip(self.within()) {
            let wish = format!("{}_own", lowering.kernel.variables[range.variable].name);
            first.push(match within.constant() {
                Some(0) => tile.clone(),
                _ => lowering.local(&wish, ty, tile.clone() + within),
            });
        }
        let along = self.spanned[self.spanned.len() - 1];
        let extent = lowering.extent(&along)?;
        let wish = format!("{}_extent", lowering.kernel.variables[along.variable].name);
        let below = first[self.spanned.len() - 1].clone().less(lowering.size(&extent, &wish));
        lowering.when_some((!inside).then_some(below), |lowering| {
            for halo in &self.stencil.arrays {
                self.load(lowering, halo, &first, inside)?;
            }
            self.elements(lowering, &first, inside)
        })
    }

    /// Loads an array's window: of each row a wide access, and what the neighbours' elements are read for one by one.
    fn load(&self, lowering: &mut Lowering, halo: &Halo, first: &[Expr], inside: bool) -> Result<(), Error> {
        let spanned = self.spanned.len();
        let array = &lowering.kernel.arrays[halo.array];
        let (element, stem) = (array.element, array.name.replace('.', "_"));
        let reach = Window::reach(halo, spanned);
        let extents = self.window.extents(halo, spanned);
        let held = lowering.registers(&format!("{stem}_window"), element, extents.iter().map(|n| *n as u32).collect());
        let low: Vec<i64> = reach.iter().map(|(low, _)| *low).collect();
        halo.serve(lowering, &held, spanned, &low);
        let (low, high) = reach[spanned - 1];
        let lanes = self.window.lanes;
        let along = first[spanned - 1].clone();
        let mut beside = Vec::new();
        for column in (low..0).chain(lanes..lanes + high) {
            let index = along.clone() + int(column);
            beside.push((column, self.place(lowering, halo, spanned - 1, index, inside)?));
        }
        self.rows(lowering, &extents, Vec::new(), &mut |lowering, row| {
            let mut slower = Vec::new();
            for (axis, at) in row.iter().enumerate() {
                let index = first[axis].clone() + at.clone() + int(reach[axis].0);
                slower.push(self.place(lowering, halo, axis, index, inside)?);
            }
            let place = row.iter().fold(held.clone(), |held, at| held.at(at.clone()));
            self.load_own(lowering, halo, &slower, &along, &place, low)?;
            for (column, at) in &beside {
                let value = self.element(lowering, halo, &slower, at)?;
                lowering.push(Node::Assign(place.clone().at(int(column - low)), value));
            }
            Ok(())
        })
    }

    /// An index of an axis of the window, after its rule at the rim.
    fn place(&self, lowering: &mut Lowering, halo: &Halo, axis: usize, index: Expr, inside: bool) -> Result<Place, Error> {
        let axis = self.batch.len() + axis;
        if inside {
            return Ok((index, None));
        }
        let (index, condition) = lowering.staged_index(halo.array, axis, &halo.rules[axis], index)?;
        let ty = lowering.index_type();
        let index = if matches!(index, Expr::Name(_)) { index } else { lowering.local("ruled", ty, index) };
        Ok((index, condition))
    }

    fn element(&self, lowering: &mut Lowering, halo: &Halo, slower: &[Place], at: &Place) -> Result<Expr, Error> {
        let places = || slower.iter().chain([at]);
        let indices = self.batch_indices(lowering).into_iter().chain(places().map(|(index, _)| index.clone())).collect();
        let conditions = places().filter_map(|(_, condition)| condition.clone()).collect();
        lowering.staged_element(halo.array, indices, conditions)
    }

    /// The elements of a row that the thread's own are: one access, where the row is surely there.
    fn load_own(
        &self,
        lowering: &mut Lowering,
        halo: &Halo,
        slower: &[Place],
        along: &Expr,
        place: &Expr,
        low: i64,
    ) -> Result<(), Error> {
        let lanes = self.window.lanes;
        if lanes == 1 {
            let value = self.element(lowering, halo, slower, &(along.clone(), None))?;
            lowering.push(Node::Assign(place.clone().at(int(-low)), value));
            return Ok(());
        }
        let each = [int(0), int(lanes), int(1)];
        if slower.iter().any(|(_, condition)| condition.is_some()) {
            return lowering.each("lane", Type::I32, each, Unroll::Full, |lowering, lane| {
                let at = (along.clone() + lane.clone(), None);
                let value = self.element(lowering, halo, slower, &at)?;
                lowering.push(Node::Assign(place.clone().at(lane - int(low)), value));
                Ok(())
            });
        }
        let indices = self.batch_indices(lowering).into_iter().chain(slower.iter().map(|(index, _)| index.clone()));
        let offset = lowering.row_major(halo.array, indices.chain([along.clone()]).collect())?;
        let pack = lowering.load_pack(halo.array, lanes, offset);
        lowering.each("lane", Type::I32, each, Unroll::Full, |lowering, lane| {
            lowering.push(Node::Assign(place.clone().at(lane.clone() - int(low)), pack.lane(lane)));
            Ok(())
        })
    }

    /// Visits the rows of a window: the positions of all dimensions but the fastest.
    fn rows(
        &self,
        lowering: &mut Lowering,
        extents: &[i64],
        row: Vec<Expr>,
        write: &mut impl FnMut(&mut Lowering, Vec<Expr>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if row.len() + 1 == extents.len() {
            return write(lowering, row);
        }
        let count = extents[row.len()];
        let wish = if row.is_empty() { "row" } else { "beside" };
        lowering.each(wish, Type::I32, [int(0), int(count), int(1)], Unroll::Full, |lowering, at| {
            let row = row.into_iter().chain([at]).collect();
            self.rows(lowering, extents, row, write)
        })
    }

    /// The thread's elements, in packs.
    fn elements(&self, lowering: &mut Lowering, first: &[Expr], inside: bool) -> Result<(), Error> {
        let lanes = self.window.lanes;
        let ty = lowering.index_type();
        lowering.each("step", Type::I32, [int(0), int(self.window.steps), int(1)], Unroll::Full, |lowering, step| {
            let mut below: Option<Expr> = None;
            let (along, slower) = (self.spanned[self.spanned.len() - 1], &self.spanned[..self.spanned.len() - 1]);
            for (axis, range) in slower.iter().enumerate() {
                let own = if axis == 0 { step.clone() } else { int(0) };
                let wish = lowering.kernel.variables[range.variable].name.clone();
                let index = first[axis].clone() + own.clone();
                let index = if matches!(index, Expr::Name(_)) { index } else { lowering.local(&wish, ty, index) };
                let extent = lowering.extent(range)?;
                let one = index.clone().less(lowering.size(&extent, &format!("{wish}_extent")));
                below = Some(below.map_or(one.clone(), |all| all.and(one)));
                lowering.variables.insert(range.variable, index);
                lowering.tile_position.insert(range.variable, own);
            }
            let start = first[self.spanned.len() - 1].clone();
            lowering.when_some(below.filter(|_| !inside), |lowering| {
                if lanes == 1 {
                    lowering.variables.insert(along.variable, start.clone());
                    lowering.tile_position.insert(along.variable, int(0));
                    let pointer = lowering.pointer(self.statement.array);
                    return store_element(lowering, self.statement, pointer);
                }
                let pack = lowering.pack(self.statement.array, lanes);
                lowering.each("lane", Type::I32, [int(0), int(lanes), int(1)], Unroll::Full, |lowering, lane| {
                    lowering.variables.insert(along.variable, start.clone() + lane.clone());
                    lowering.tile_position.insert(along.variable, lane.clone());
                    let value = lowering.value(self.statement.value)?;
                    lowering.push(Node::Assign(pack.clone().lane(lane), value));
                    Ok(())
                })?;
                lowering.variables.insert(along.variable, start.clone());
                let (indices, _) = lowering.guarded_indices(self.statement.array, &self.statement.subscripts)?;
                let offset = lowering.row_major(self.statement.array, indices)?;
                let wide = lowering.wide(self.statement.array, lanes, offset);
                lowering.push(Node::Assign(wide, pack));
                Ok(())
            })
        })
    }
}

//! A thread per element, or per few neighbouring elements: element-wise programs, gathers, and everything without a schedule
//! of its own, whose reductions each thread computes serially.
//!
//! *Wide*: where the elements of all arrays run together, a block takes a tile of them by 16-byte accesses, loads first, then
//! arithmetic, then stores; the last tile, and all tiles of misaligned arrays, go element by element.
//! *By rows*: where they run together within rows only, see `broadcast`; where data chooses the rows, see `gather`.
//! *Stencil*: where an array is read around the element, see `stencil`.
//! *Tiled*: over two and more dimensions, see `tiled`.
//! *Strided*: otherwise a grid-stride loop numbers the points of the left side, the fastest variable along neighbouring threads.

use gpukc_dsl::program::{ExprKind, Kernel, Ranged, Statement, Subscript};
use gpukc_dsl::types::Type;

use super::context::{Flat, Lowering};
use super::group::{Group, is_flat};
use super::packs::{self, Along, Read, Verdict};
use super::place::Place;
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, call, int, name};
use crate::walk;

/// Threads of a block.
const THREADS: i64 = 256;
/// Fewer points than this are spread over as many threads as there are: nothing but latency counts.
const FEW_POINTS: i64 = 1 << 16;
/// Below this cost an element's arithmetic needs few registers.
const LIGHT: u32 = 8;
/// Most arrays whose packs a thread holds.
const MOST_ALONG: usize = 24;
/// Most blocks of a grid-stride launch: more only cost scheduling.
const MOST_BLOCKS: i64 = 1 << 16;

/// Lowers a map.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        if matches!(lowering.places.of(statement.array), Place::Inline(_)) {
            continue;
        }
        lowering.begin_launch(&[statement.array]);
        lowering.computes_over(&statement.variables);
        if let Some(stencil) = super::stencil::stencil(lowering, &statement)? {
            super::stencil::lower(lowering, &statement, &stencil)?;
            continue;
        }
        if is_small(lowering, &statement) {
            lower_strided(lowering, &statement)?;
            continue;
        }
        if let Some(gather) = super::gather::gather(lowering, &statement) {
            super::gather::lower(lowering, &statement, &gather)?;
            continue;
        }
        let by_rows = super::broadcast::broadcast(lowering, &statement);
        match (wide_shape(lowering, &statement), by_rows) {
            (Some(mut wide), _) => {
                wide.threads = lowering.block_hint(&statement)?.map_or(wide.threads, i64::from);
                wide.unroll = lowering.unroll_hint(&statement)?.map_or(wide.unroll, i64::from);
                lower_wide(lowering, &statement, &wide)?;
            }
            (None, Some(shape)) => super::broadcast::lower(lowering, &statement, &shape)?,
            _ if super::tiled::applies(lowering, &statement) => super::tiled::lower(lowering, &statement)?,
            _ => lower_strided(lowering, &statement)?,
        }
    }
    Ok(())
}

/// The suffix of a launch's entry: the array's name, unless the launch is the kernel's only one.
pub fn suffix(lowering: &Lowering, statement: &Statement) -> String {
    if lowering.kernel.statements.len() == 1 {
        return String::new();
    }
    lowering.kernel.arrays[statement.array].name.replace('.', "_")
}

/// Whether a thread an element is best: neighbours together would leave most of the device idle.
fn is_small(lowering: &Lowering, statement: &Statement) -> bool {
    let points = super::group::product(lowering.kernel, lowering.facts, &statement.variables);
    statement.attributes.unroll.is_none() && points.is_some_and(|points| lowering.facts.below(&points, FEW_POINTS))
}

// ---- wide

struct Wide {
    /// Elements that one thread takes as one access.
    lanes: i64,
    /// Accesses of each array that a thread has in flight.
    unroll: i64,
    /// Threads of a block.
    threads: i64,
    /// What runs along with the left side.
    along: Vec<Along>,
}

fn wide_shape(lowering: &Lowering, statement: &Statement) -> Option<Wide> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let variables = &statement.variables;
    let launchable = variables.iter().all(|v| crate::size::extent(kernel, facts, v).is_some());
    if variables.is_empty() || !launchable || !is_flat(kernel, facts, statement.value, variables) {
        return None;
    }
    let left = Read { id: statement.value, array: statement.array, subscripts: &statement.subscripts, own: variables, in_place: None };
    if !left.is_counted_through(lowering) || walk::has_reduction(kernel, statement.value) {
        return None;
    }
    let along = packs::along(lowering, &[statement.value], variables, |read| match read.in_place {
        _ if read.is_checked() => Verdict::Refuse,
        Some(inlined) if read.is_along(lowering, inlined, 0) => Verdict::Enter,
        Some(_) => Verdict::Refuse,
        None if read.is_counted_through(lowering) => Verdict::Along,
        None => Verdict::Apart,
    })?;
    // Each has a pack in registers.
    if along.len() > MOST_ALONG {
        return None;
    }
    let sizes = along.iter().map(|along| along.array).chain([statement.array]).map(|array| kernel.arrays[array].element.size() as i64);
    let widest = sizes.max().unwrap_or(1);
    let unroll = if along.len() <= 1 { 2 } else { 1 };
    // Blocks of narrow elements would carry few bytes (10^7 sums of f16 on an H200: 17.3 to 16.1 µs).
    let threads = if widest <= 2 && walk::cost(kernel, statement.value) < LIGHT { 2 * THREADS } else { THREADS };
    Some(Wide { lanes: (16 / widest).max(1), unroll, threads, along })
}

/// Whether subscripts are just these variables, in order.
pub fn is_identity(kernel: &Kernel, subscripts: &[Subscript], variables: &[Ranged]) -> bool {
    subscripts.len() == variables.len()
        && subscripts.iter().zip(variables).all(|(s, v)| kernel.exprs[s.index].kind == ExprKind::Variable(v.variable))
}

fn lower_wide(lowering: &mut Lowering, statement: &Statement, wide: &Wide) -> Result<(), Error> {
    let points = lowering.points(&statement.variables)?;
    let tile = wide.threads * wide.lanes * wide.unroll;
    let ty = lowering.index_type();
    let count = lowering.size(&points, "points");
    lowering.passes_over([statement]);
    let block = lowering.block_number();
    let block = if lowering.facts.narrow { block.cast(Type::I32) } else { block.cast(Type::I64) };
    let first = lowering.local("tile", ty, block * lowering.index_constant(tile));
    let output = lowering.pointer(statement.array);
    let lanes = wide.lanes;
    let mut condition = (first.clone() + int(tile)).binary("<=", count.clone());
    if lanes > 1 {
        for array in wide.along.iter().map(|along| along.array).chain([statement.array]) {
            let bytes = lanes * lowering.kernel.arrays[array].element.size() as i64;
            let pointer = lowering.pointer(array);
            condition = condition.and(call("is_aligned", vec![pointer, int(bytes)]));
        }
    }
    let (then, ()) = lowering.block(|lowering| wide_tile(lowering, statement, wide, first.clone()))?;
    let (otherwise, ()) = lowering.block(|lowering| {
        let hi = lowering.local("end", ty, call("minimum", vec![first.clone() + int(tile), count.clone()]));
        let lo = first.clone() + name("threadIdx.x").cast(Type::I32);
        lowering
            .each("i", ty, [lo, hi, int(wide.threads)], Unroll::By(1), |lowering, i| store_at(lowering, statement, output.clone(), i))
    })?;
    lowering.push(Node::If { condition, then, otherwise });
    let suffix = suffix(lowering, statement);
    let element = lowering.kernel.arrays[statement.array].element;
    let mut notes = wide_notes(tile, lanes, element);
    notes.extend(lowering.block_order_note());
    let grid = [points.div_ceil(tile), 1.into(), 1.into()];
    lowering.end_launch(&suffix, "map", notes, grid, [wide.threads as u32, 1, 1]);
    Ok(())
}

fn wide_notes(tile: i64, lanes: i64, element: Type) -> Vec<String> {
    let bytes = lanes * element.size() as i64;
    let mut notes = vec![format!("Element-wise: a block takes one tile of {tile} elements.")];
    if lanes > 1 {
        notes.push(format!("Neighbouring elements move together ({bytes} bytes a store), so that few instructions carry many bytes;"));
        notes.push("all loads of a thread are issued before the first result is needed. The last tile goes one by one.".into());
    }
    notes
}

fn wide_tile(lowering: &mut Lowering, statement: &Statement, wide: &Wide, first: Expr) -> Result<(), Error> {
    let Wide { lanes, unroll, threads, ref along } = *wide;
    let ty = lowering.index_type();
    let position = |step: Option<Expr>| {
        let thread = name("threadIdx.x").cast(Type::I32);
        let thread = step.map_or(thread.clone(), |step| step * int(threads) + thread);
        first.clone() + thread * int(lanes)
    };
    if unroll == 1 {
        let at = lowering.local("at", ty, position(None));
        let packs: Vec<Expr> = along.iter().map(|along| lowering.load_pack(along.array, lanes, at.clone())).collect();
        return wide_pack(lowering, statement, wide, &packs, at);
    }
    let packs: Vec<Expr> = along.iter().map(|along| lowering.packs(along.array, lanes, unroll)).collect();
    let steps = [int(0), int(unroll), int(1)];
    if !along.is_empty() {
        lowering.each("step", Type::I32, steps.clone(), Unroll::Full, |lowering, step| {
            let at = lowering.local("at", ty, position(Some(step.clone())));
            for (along, pack) in along.iter().zip(&packs) {
                let wide = lowering.wide(along.array, lanes, at.clone());
                lowering.push(Node::Assign(pack.clone().at(step.clone()), wide));
            }
            Ok(())
        })?;
    }
    lowering.each("step", Type::I32, steps, Unroll::Full, |lowering, step| {
        let at = lowering.local("at", ty, position(Some(step.clone())));
        let packs: Vec<Expr> = packs.iter().map(|pack| pack.clone().at(step.clone())).collect();
        wide_pack(lowering, statement, wide, &packs, at)
    })
}

/// Computes and stores the elements from `at` on that make a pack, of packs that are loaded: one of each array that runs along.
fn wide_pack(lowering: &mut Lowering, statement: &Statement, wide: &Wide, packs: &[Expr], at: Expr) -> Result<(), Error> {
    let result = lowering.pack(statement.array, wide.lanes);
    lowering.each("lane", Type::I32, [int(0), int(wide.lanes), int(1)], Unroll::Full, |lowering, lane| {
        for (along, pack) in wide.along.iter().zip(packs) {
            lowering.take_from(along, &pack.clone().lane(lane.clone()));
        }
        lowering.flat = Some(Flat { variables: statement.variables.clone(), position: at.clone() + lane.clone() });
        bind_single(lowering, statement, at.clone() + lane.clone());
        let value = lowering.value(statement.value)?;
        lowering.push(Node::Assign(result.clone().lane(lane), value));
        Ok(())
    })?;
    let place = lowering.wide(statement.array, wide.lanes, at);
    lowering.push(Node::Assign(place, result));
    lowering.computed.clear();
    Ok(())
}

/// With one variable, it is the position; with several, none is needed by itself.
fn bind_single(lowering: &mut Lowering, statement: &Statement, position: Expr) {
    if let [range] = statement.variables.as_slice() {
        lowering.variables.insert(range.variable, position);
    }
}

fn store_at(lowering: &mut Lowering, statement: &Statement, output: Expr, position: Expr) -> Result<(), Error> {
    lowering.flat = Some(Flat { variables: statement.variables.clone(), position: position.clone() });
    bind_single(lowering, statement, position.clone());
    let value = lowering.value(statement.value)?;
    lowering.push(Node::Assign(output.at(position), value));
    Ok(())
}

// ---- strided

fn lower_strided(lowering: &mut Lowering, statement: &Statement) -> Result<(), Error> {
    let points = lowering.points(&statement.variables)?;
    let ty = lowering.index_type();
    let suffix = suffix(lowering, statement);
    let pointer = lowering.pointer(statement.array);
    let mut notes = vec!["A thread per element, grid-stride; neighbouring threads take neighbouring elements.".to_string()];
    if walk::has_reduction(lowering.kernel, statement.value) {
        notes.push("Each thread reduces its own terms, in the order that docs/language.md defines.".into());
    }
    if statement.variables.is_empty() {
        lowering.flat = None;
        store_element(lowering, statement, pointer)?;
        lowering.end_launch(&suffix, "map", vec!["A single element: one thread.".into()], [1.into(), 1.into(), 1.into()], [1, 1, 1]);
        return Ok(());
    }
    let count = lowering.size(&points, "points");
    let threads = lowering.block_hint(statement)?.map_or(THREADS, i64::from);
    let lo = name("blockIdx.x").cast(ty) * int(threads) + name("threadIdx.x").cast(Type::I32);
    let step = name("gridDim.x").cast(ty) * int(threads);
    let wish = lowering.point_name(&statement.variables);
    lowering.each(&wish, ty, [lo, count, step], Unroll::By(1), |lowering, point| {
        lowering.decode(&statement.variables, point)?;
        store_element(lowering, statement, pointer.clone())
    })?;
    let grid = [points.div_ceil(threads).min(MOST_BLOCKS), 1.into(), 1.into()];
    lowering.end_launch(&suffix, "map", notes, grid, [threads as u32, 1, 1]);
    Ok(())
}

/// Stores a statement's value where its left side says; its variables are bound.
pub fn store_element(lowering: &mut Lowering, statement: &Statement, pointer: Expr) -> Result<(), Error> {
    let (indices, _) = lowering.guarded_indices(statement.array, &statement.subscripts)?;
    let offset = lowering.row_major(statement.array, indices)?;
    let value = lowering.value(statement.value)?;
    lowering.push(Node::Assign(pointer.at(offset), value));
    Ok(())
}

impl Lowering<'_> {
    /// What a loop over the points of some variables is called by: the variable, if there is one.
    pub fn point_name(&self, variables: &[Ranged]) -> String {
        match variables {
            [range] => self.kernel.variables[range.variable].name.clone(),
            _ => "point".into(),
        }
    }

    /// Binds variables to the point of that number, the last variable fastest.
    pub fn decode(&mut self, variables: &[Ranged], point: Expr) -> Result<(), Error> {
        let ty = self.index_type();
        let mut rest = point;
        for (depth, range) in variables.iter().enumerate().rev() {
            let formula = self.extent(range)?;
            let wish = self.kernel.variables[range.variable].name.clone();
            let extent = self.size(&formula, &format!("{wish}_extent"));
            let lo = self.index(range.lo)?;
            let within = if depth == 0 { rest.clone() } else { rest.clone() % extent.clone() };
            let value = within + lo;
            let bound = if matches!(value, Expr::Name(_)) { value } else { self.local(&wish, ty, value) };
            self.variables.insert(range.variable, bound);
            if depth > 0 {
                rest = self.local("rest", ty, rest / extent);
            }
        }
        Ok(())
    }
}

//! A thread per element, or per few neighbouring elements: element-wise programs, gathers, and everything without a schedule
//! of its own, whose reductions each thread computes serially.
//!
//! *Wide*: where the elements of all arrays run together, a block takes a tile of them by 16-byte accesses, loads first, then
//! arithmetic, then stores; the last tile, and all tiles of misaligned arrays, go element by element.
//! *By rows*: where they run together within rows only, see `broadcast`.
//! *Stencil*: where an array is read around the element, see `stencil`.
//! *Tiled*: over two and more dimensions, see `tiled`.
//! *Strided*: otherwise a grid-stride loop numbers the points of the left side, the fastest variable along neighbouring threads.

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Kernel, Ranged, Statement, Subscript};
use gpukc_dsl::types::Type;

use super::context::{Flat, Lowering};
use super::group::{Group, is_flat};
use super::place::Place;
use super::read::{access, flat_coefficient, inside_everywhere};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};
use crate::walk;

/// Threads of a block.
const THREADS: u32 = 256;
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
        let by_rows = super::broadcast::broadcast(lowering, &statement);
        match (wide_shape(lowering, &statement), by_rows) {
            (Some(mut wide), _) => {
                wide.threads = lowering.block_hint(&statement)?.unwrap_or(wide.threads);
                wide.unroll = lowering.unroll_hint(&statement)?.unwrap_or(wide.unroll);
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
    lanes: u32,
    /// Accesses of each array that a thread has in flight.
    unroll: u32,
    /// Threads of a block.
    threads: u32,
    /// Arrays that run along with the left side, and where they are read so.
    along: Vec<(ArrayId, Vec<ExprId>)>,
}

fn wide_shape(lowering: &Lowering, statement: &Statement) -> Option<Wide> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let variables = &statement.variables;
    let launchable = variables.iter().all(|v| crate::size::extent(kernel, facts, v).is_some());
    if variables.is_empty() || !launchable || !is_flat(kernel, facts, statement.value, variables) {
        return None;
    }
    let runs_along = |array, subscripts: &[_]| {
        let access = access(kernel, facts, array, subscripts)?;
        let step = flat_coefficient(kernel, facts, &access, variables)?;
        Some((step, access.constant))
    };
    if runs_along(statement.array, &statement.subscripts) != Some((Formula::Constant(1), Formula::Constant(0))) {
        return None;
    }
    if walk::has_reduction(kernel, statement.value) {
        return None;
    }
    let mut along: Vec<(ArrayId, Vec<ExprId>)> = Vec::new();
    let mut pending = vec![(statement.value, variables.clone(), true)];
    let mut widest = kernel.arrays[statement.array].element.size();
    while let Some((value, own, evaluated)) = pending.pop() {
        let sure = if evaluated { walk::sure_reads(kernel, value) } else { Vec::new() };
        for read in walk::reads(kernel, value) {
            let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
            if subscripts.iter().any(|s| matches!(s.bounds, Bounds::Checked)) {
                return None;
            }
            if let Place::Inline(number) = lowering.places.of(*array) {
                let inlined = &kernel.statements[number];
                if !is_identity(kernel, subscripts, &own) || !is_flat(kernel, facts, inlined.value, &inlined.variables) {
                    return None;
                }
                pending.push((inlined.value, inlined.variables.clone(), sure.contains(&read)));
                continue;
            }
            let Some(access) = access(kernel, facts, *array, subscripts) else { continue };
            let step = flat_coefficient(kernel, facts, &access, &own);
            if !sure.contains(&read) && !inside_everywhere(kernel, facts, *array, subscripts, &own) {
                continue;
            }
            if step == Some(Formula::Constant(1)) && access.constant == Formula::Constant(0) && access.terms.len() == own.len() {
                widest = widest.max(kernel.arrays[*array].element.size());
                match along.iter_mut().find(|(other, _)| other == array) {
                    Some((_, reads)) => reads.push(read),
                    None => along.push((*array, vec![read])),
                }
            }
        }
    }
    // Each has a pack in registers.
    if along.len() > MOST_ALONG {
        return None;
    }
    let unroll = if along.len() <= 1 { 2 } else { 1 };
    // Blocks of narrow elements would carry few bytes (10^7 sums of f16 on an H200: 17.3 to 16.1 µs).
    let threads = if widest <= 2 && walk::cost(kernel, statement.value) < LIGHT { 2 * THREADS } else { THREADS };
    Some(Wide { lanes: (16 / widest as u32).max(1), unroll, threads, along })
}

/// Whether subscripts are just these variables, in order.
pub fn is_identity(kernel: &Kernel, subscripts: &[Subscript], variables: &[Ranged]) -> bool {
    subscripts.len() == variables.len()
        && subscripts.iter().zip(variables).all(|(s, v)| kernel.exprs[s.index].kind == ExprKind::Variable(v.variable))
}

fn lower_wide(lowering: &mut Lowering, statement: &Statement, wide: &Wide) -> Result<(), Error> {
    let points = lowering.points(&statement.variables)?;
    let tile = i64::from(wide.threads * wide.lanes * wide.unroll);
    let ty = lowering.index_type();
    let count = lowering.size(&points, "points");
    lowering.passes_over(statement);
    let block = lowering.block_number();
    let block = if lowering.facts.narrow { block.cast(Type::I32) } else { block.cast(Type::I64) };
    let first = lowering.local("tile", ty, block * lowering.index_constant(tile));
    let output = lowering.pointer(statement.array);
    let pointers: Vec<(ArrayId, Expr)> = wide.along.iter().map(|(array, _)| (*array, lowering.pointer(*array))).collect();
    let lanes = wide.lanes;
    let aligned = |element: Type| int(i64::from(lanes) * element.size() as i64);
    let mut condition = (first.clone() + int(tile)).binary("<=", count.clone());
    let element = lowering.kernel.arrays[statement.array].element;
    if lanes > 1 {
        for (array, pointer) in &pointers {
            let element = lowering.kernel.arrays[*array].element;
            condition = condition.and(call("is_aligned", vec![pointer.clone(), aligned(element)]));
        }
        condition = condition.and(call("is_aligned", vec![output.clone(), aligned(element)]));
    }
    let (then, ()) = lowering.block(|lowering| wide_tile(lowering, statement, wide, &pointers, first.clone(), output.clone()))?;
    let (otherwise, ()) = lowering.block(|lowering| {
        let hi = lowering.local("end", ty, call("minimum", vec![first.clone() + int(tile), count.clone()]));
        let lo = first.clone() + name("threadIdx.x").cast(Type::I32);
        lowering.each("i", ty, [lo, hi, int(i64::from(wide.threads))], Unroll::By(1), |lowering, i| {
            store_at(lowering, statement, output.clone(), i)
        })
    })?;
    lowering.push(Node::If { condition, then, otherwise });
    let suffix = suffix(lowering, statement);
    let mut notes = wide_notes(tile, lanes, element);
    notes.extend(lowering.block_order_note());
    let grid = [points.div_ceil(tile), 1.into(), 1.into()];
    lowering.end_launch(&suffix, "map", notes, grid, [wide.threads, 1, 1]);
    Ok(())
}

fn wide_notes(tile: i64, lanes: u32, element: Type) -> Vec<String> {
    let bytes = lanes as usize * element.size();
    let mut notes = vec![format!("Element-wise: a block takes one tile of {tile} elements.")];
    if lanes > 1 {
        notes.push(format!("Neighbouring elements move together ({bytes} bytes a store), so that few instructions carry many bytes;"));
        notes.push("all loads of a thread are issued before the first result is needed. The last tile goes one by one.".into());
    }
    notes
}

fn wide_tile(
    lowering: &mut Lowering,
    statement: &Statement,
    wide: &Wide,
    pointers: &[(ArrayId, Expr)],
    first: Expr,
    output: Expr,
) -> Result<(), Error> {
    let (lanes, unroll) = (wide.lanes, wide.unroll);
    let ty = lowering.index_type();
    let position = |step: Option<Expr>| {
        let thread = name("threadIdx.x").cast(Type::I32);
        let within = match step {
            Some(step) => (step * int(i64::from(wide.threads)) + thread) * int(i64::from(lanes)),
            None => thread * int(i64::from(lanes)),
        };
        first.clone() + within
    };
    let kernel = lowering.kernel;
    let arrays: Vec<(String, Type, &Expr)> = pointers
        .iter()
        .map(|(id, pointer)| (format!("{}_pack", kernel.arrays[*id].name.replace('.', "_")), kernel.arrays[*id].element, pointer))
        .collect();
    let load = |element: Type, pointer: &Expr, at: &Expr| Expr::Wide(element, lanes, Box::new(pointer.clone()), Box::new(at.clone()));
    if unroll == 1 {
        let at = lowering.local("at", ty, position(None));
        let packs: Vec<Expr> = arrays
            .iter()
            .map(|(wish, element, pointer)| lowering.local(wish, CudaType::Pack(*element, lanes), load(*element, pointer, &at)))
            .collect();
        return wide_pack(lowering, statement, wide, &packs, at, output);
    }
    let packs: Vec<Expr> =
        arrays.iter().map(|(wish, element, _)| lowering.registers(wish, CudaType::Pack(*element, lanes), vec![unroll])).collect();
    let steps = [int(0), int(i64::from(unroll)), int(1)];
    if !pointers.is_empty() {
        lowering.each("step", Type::I32, steps.clone(), Unroll::Full, |lowering, step| {
            let at = lowering.local("at", ty, position(Some(step.clone())));
            for ((_, element, pointer), pack) in arrays.iter().zip(&packs) {
                lowering.push(Node::Assign(pack.clone().at(step.clone()), load(*element, pointer, &at)));
            }
            Ok(())
        })?;
    }
    lowering.each("step", Type::I32, steps, Unroll::Full, |lowering, step| {
        let at = lowering.local("at", ty, position(Some(step.clone())));
        let packs: Vec<Expr> = packs.iter().map(|pack| pack.clone().at(step.clone())).collect();
        wide_pack(lowering, statement, wide, &packs, at, output.clone())
    })
}

/// Computes and stores the elements from `at` on that make a pack, of packs that are loaded: one of each array that runs along.
fn wide_pack(
    lowering: &mut Lowering,
    statement: &Statement,
    wide: &Wide,
    packs: &[Expr],
    at: Expr,
    output: Expr,
) -> Result<(), Error> {
    let (array, lanes) = (&lowering.kernel.arrays[statement.array], wide.lanes);
    let element = array.element;
    let result = lowering.variable(&format!("{}_pack", array.name.replace('.', "_")), CudaType::Pack(element, lanes), None);
    lowering.each("lane", Type::I32, [int(0), int(i64::from(lanes)), int(1)], Unroll::Full, |lowering, lane| {
        for ((_, reads), pack) in wide.along.iter().zip(packs) {
            let element = pack.clone().lane(lane.clone());
            lowering.computed.extend(reads.iter().map(|read| (*read, element.clone())));
        }
        lowering.flat = Some(Flat { variables: statement.variables.clone(), position: at.clone() + lane.clone() });
        bind_single(lowering, statement, at.clone() + lane.clone());
        let value = lowering.value(statement.value)?;
        lowering.push(Node::Assign(result.clone().lane(lane), value));
        Ok(())
    })?;
    let place = Expr::Wide(element, lanes, Box::new(output), Box::new(at));
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
    let threads = lowering.block_hint(statement)?.unwrap_or(THREADS);
    let lo = name("blockIdx.x").cast(ty) * int(i64::from(threads)) + name("threadIdx.x").cast(Type::I32);
    let step = name("gridDim.x").cast(ty) * int(i64::from(threads));
    let wish = lowering.point_name(&statement.variables);
    lowering.each(&wish, ty, [lo, count, step], Unroll::By(1), |lowering, point| {
        lowering.decode(&statement.variables, point)?;
        store_element(lowering, statement, pointer.clone())
    })?;
    let grid = [points.div_ceil(i64::from(threads)).min(MOST_BLOCKS), 1.into(), 1.into()];
    lowering.end_launch(&suffix, "map", notes, grid, [threads, 1, 1]);
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

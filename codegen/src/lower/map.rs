//! A thread per element, or per few neighbouring elements: element-wise programs, gathers, and everything without a schedule
//! of its own, whose reductions each thread computes serially.
//!
//! *Wide*: where results lie one after another as the left side counts, by 16-byte accesses, see `wide`.
//! *By rows*: where they do within rows only, see `broadcast`; where data chooses the rows, see `gather`.
//! *Stencil*: where an array is read around the element, see `stencil`.
//! *Tiled*: over two and more dimensions, see `tiled`.
//! *Strided*: otherwise a grid-stride loop numbers the points of the left side, the fastest variable along neighbouring threads.

use gpukc_dsl::program::{ExprKind, Kernel, Ranged, Statement, Subscript};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::Group;
use super::place::Place;
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, int, name};
use crate::walk;

/// Threads of a block.
const THREADS: i64 = 256;
/// Fewer points than this are spread over as many threads as there are: nothing but latency counts.
const FEW_POINTS: i64 = 1 << 16;
/// Most variables whose values are told apart in a thread.
const MOST_MINORS: usize = 2;
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
        lower_neighbours(lowering, &statement)?;
    }
    Ok(())
}

/// Lowers a map that is neither a stencil nor a gather: neighbours together, if they can be, by the schedule that tells fewest of them
/// apart.
fn lower_neighbours(lowering: &mut Lowering, statement: &Statement) -> Result<(), Error> {
    for minors in 0..statement.variables.len().clamp(1, MOST_MINORS + 1) {
        if let Some(wide) = super::wide::wide(lowering, statement, minors) {
            return super::wide::lower(lowering, statement, wide);
        }
        if let Some(shape) = super::broadcast::broadcast(lowering, statement, minors) {
            return super::broadcast::lower(lowering, statement, &shape);
        }
    }
    if super::tiled::applies(lowering, statement) {
        super::tiled::lower(lowering, statement)
    } else {
        lower_strided(lowering, statement)
    }
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

/// Whether subscripts are just these variables, in order.
pub fn is_identity(kernel: &Kernel, subscripts: &[Subscript], variables: &[Ranged]) -> bool {
    subscripts.len() == variables.len()
        && subscripts.iter().zip(variables).all(|(s, v)| kernel.exprs[s.index].kind == ExprKind::Variable(v.variable))
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

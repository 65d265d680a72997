//! Maps over two and more dimensions whose arrays do not run along with the left side: broadcasts, gathers. A block takes a
//! 32 x 32 tile of the two fastest dimensions, a warp 32 neighbouring elements of a row, so that accesses of a warp are whole
//! pieces of memory and nothing is divided per element.
//!
//! Stencils: elements whose whole neighbourhood lies inside evaluate a copy of the value without boundary rules; only those at
//! the rim follow the rules. Rows that several warps read again come from the first-level cache.

use std::collections::BTreeMap;

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Kernel, Ranged, Statement, Subscript, VariableId};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::map::{Results, store_elements, suffix_of};
use super::place::Place;
use super::read::is_settled;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, int, name};
use crate::size::{self, Linear};
use crate::walk;

/// Elements along each side of a tile.
const TILE: i64 = 32;
/// Threads across it; each takes `TILE / ROWS` elements.
const ROWS: i64 = 8;

/// Whether a map is computed in tiles: it has two dimensions that are not known to be thin.
pub fn applies(lowering: &Lowering, results: Results) -> bool {
    let extents: Option<Vec<Formula>> = results.variables().iter().map(|v| size::extent(lowering.kernel, lowering.facts, v)).collect();
    let Some(extents) = extents else { return false };
    let wide = |extent: &Formula| !lowering.facts.below(extent, 16) && extent.constant().is_none_or(|n| n >= 16);
    matches!(extents.as_slice(), [.., across, along] if wide(along) && across.constant() != Some(1))
}

/// Lowers a map over two and more dimensions.
pub fn lower(lowering: &mut Lowering, results: Results) -> Result<(), Error> {
    let [batch @ .., across, along] = results.variables() else {
        return Err(Error::Bug("a tiled map over fewer than two dimensions".into()));
    };
    let ty = lowering.index_type();
    let (across_count, along_count) = (lowering.extent(across)?, lowering.extent(along)?);
    let names = [across, along].map(|v| lowering.kernel.variables[v.variable].name.clone());
    let across_extent = lowering.size(&across_count, &format!("{}_extent", names[0]));
    let along_extent = lowering.size(&along_count, &format!("{}_extent", names[1]));
    let across_tiles = lowering.size(&across_count.clone().div_ceil(TILE), &format!("{}_tiles", names[0]));
    let along_tiles = lowering.size(&along_count.clone().div_ceil(TILE), &format!("{}_tiles", names[1]));
    let work = lowering.local("work", ty, name("blockIdx.x").cast(ty));
    let thread = [name("threadIdx.x").cast(Type::I32), name("threadIdx.y").cast(Type::I32)];
    let [across_thread, along_thread] = [thread[1].clone(), thread[0].clone()];
    let along_at = (work.clone() % along_tiles.clone()) * int(TILE) + along_thread;
    let along_at = lowering.local(&names[1], ty, along_at);
    let rest = lowering.local("rest", ty, work / along_tiles);
    let first = lowering.local("first", ty, (rest.clone() % across_tiles.clone()) * int(TILE) + across_thread);
    if !batch.is_empty() {
        let outer = lowering.local("outer", ty, rest / across_tiles);
        lowering.decode(batch, outer)?;
    }
    let along_value = along_at.clone() + lowering.index(along.lo)?;
    lowering.variables.insert(along.variable, along_value);
    let rim = rim(lowering, results);
    let each_row = |lowering: &mut Lowering, visit: Visit| {
        lowering.each("row", Type::I32, [int(0), int(TILE), int(ROWS)], Unroll::Full, |lowering, row| {
            let at = lowering.local(&names[0], ty, first.clone() + row.clone());
            let value = at.clone() + lowering.index(across.lo)?;
            lowering.variables.insert(across.variable, value);
            lowering.when(at.less(across_extent.clone()), |lowering| visit(lowering, row))
        })
    };
    lowering.when(along_at.less(along_extent), |lowering| match (&rim, results.statements()) {
        (None, [statement]) if is_chosen(lowering.kernel, statement) => chosen(lowering, statement, each_row),
        (None, _) => each_row(lowering, &mut |lowering, _| store_elements(lowering, results)),
        (Some(rim), _) => each_row(lowering, &mut |lowering, _| by_place(lowering, results, rim)),
    })?;
    let mut notes = vec![format!("A block takes a {TILE} x {TILE} tile of the two fastest dimensions, a warp a piece of a row.")];
    if rim.is_some() {
        notes.push("Where the whole neighbourhood lies inside, boundary rules are left out.".into());
    }
    let suffix = suffix_of(lowering, results);
    let batches = lowering.points(batch)?;
    let work = along_count.div_ceil(TILE).times(across_count.div_ceil(TILE)).times(batches);
    lowering.end_launch(&suffix, "map", notes, [work, 1.into(), 1.into()], [TILE as u32, ROWS as u32, 1]);
    Ok(())
}

/// Does something at a row of the tile.
type Visit<'v> = &'v mut dyn FnMut(&mut Lowering, Expr) -> Result<(), Error>;

/// Whether data may choose an element, and find none.
fn is_chosen(kernel: &Kernel, statement: &Statement) -> bool {
    walk::can_fail(kernel, statement.value) && !walk::has_reduction(kernel, statement.value)
}

/// Elements that data chooses: all of a thread's indices are loaded before the first is used, and all elements before the first is
/// stored, since no load passes the branch in which an index outside is reported.
fn chosen(
    lowering: &mut Lowering,
    statement: &Statement,
    each_row: impl Fn(&mut Lowering, Visit) -> Result<(), Error>,
) -> Result<(), Error> {
    let place = |registers: &Expr, row: Expr| registers.clone().at(row / int(ROWS));
    let registers = |lowering: &mut Lowering, wish: &str, ty| lowering.registers(wish, ty, vec![(TILE / ROWS) as u32]);
    let mut ahead = Vec::new();
    for (read, array) in read_in_place(lowering, statement.value) {
        let array = &lowering.kernel.arrays[array];
        let (wish, ty) = (format!("{}_ahead", array.name.replace('.', "_")), array.element);
        ahead.push((read, registers(lowering, &wish, ty)));
    }
    if !ahead.is_empty() {
        each_row(lowering, &mut |lowering, row| {
            ahead.iter().try_for_each(|(read, registers)| {
                let element = lowering.value(*read)?;
                lowering.push(Node::Assign(place(registers, row.clone()), element));
                Ok(())
            })
        })?;
    }
    let result = &lowering.kernel.arrays[statement.array];
    let (wish, ty) = (format!("{}_ahead", result.name.replace('.', "_")), result.element);
    let values = registers(lowering, &wish, ty);
    each_row(lowering, &mut |lowering, row| {
        lowering.computed.extend(ahead.iter().map(|(read, registers)| (*read, place(registers, row.clone()))));
        let value = lowering.value(statement.value)?;
        lowering.push(Node::Assign(place(&values, row), value));
        Ok(())
    })?;
    lowering.computed.clear();
    each_row(lowering, &mut |lowering, row| {
        lowering.computed.insert(statement.value, place(&values, row));
        store_elements(lowering, Results::of(statement))
    })
}

/// The reads that are evaluated at every element, at a place that no data chooses.
fn read_in_place(lowering: &Lowering, value: ExprId) -> Vec<(ExprId, ArrayId)> {
    let kernel = lowering.kernel;
    let in_place = |read: ExprId| match &kernel.exprs[read].kind {
        ExprKind::Read { array, subscripts } => {
            let in_memory = matches!(lowering.places.of(*array), Place::Memory | Place::Scratch(_));
            let settled = |s: &Subscript| is_settled(s) && walk::reads(kernel, s.index).is_empty();
            (in_memory && subscripts.iter().all(settled)).then_some((read, *array))
        }
        _ => None,
    };
    walk::sure_reads(kernel, value).into_iter().filter_map(in_place).collect()
}

/// The element without boundary rules where its neighbourhood lies inside, with them at the rim.
fn by_place(lowering: &mut Lowering, results: Results, rim: &Rim) -> Result<(), Error> {
    let Some(inside) = rim.condition(lowering)? else { return store_elements(lowering, results) };
    lowering.interior = true;
    let then = lowering.block(|lowering| store_elements(lowering, results));
    lowering.interior = false;
    let (otherwise, ()) = lowering.block(|lowering| store_elements(lowering, results))?;
    lowering.push(Node::If { condition: inside, then: then?.0, otherwise });
    Ok(())
}

/// How far reads with boundary rules reach from the element: for each linear form of left-side variables and each extent, the
/// lowest and the highest offset.
struct Rim(Vec<(Linear, Formula, i64, i64)>);

/// Conditions of the interior beyond this cost more than the rules that they save.
const MOST_CONDITIONS: usize = 6;

fn rim(lowering: &Lowering, results: Results) -> Option<Rim> {
    let kernel = lowering.kernel;
    let ranges = results.values().flat_map(|value| constant_ranges(lowering, value)).collect();
    let mut rim = Rim(Vec::new());
    for read in results.values().flat_map(|value| walk::reads(kernel, value)) {
        let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
        if let Place::Inline(number) = lowering.places.of(*array) {
            let rules = walk::reads(kernel, kernel.statements[number].value).into_iter().any(|read| has_rule(lowering, read));
            if rules {
                return None;
            }
        }
        for (subscript, extent) in subscripts.iter().zip(&kernel.arrays[*array].shape) {
            if !is_rule(&subscript.bounds) {
                continue;
            }
            let index = size::linear(kernel, lowering.facts, subscript.index)?;
            let extent = size::formula(kernel, lowering.facts, *extent)?;
            rim.reach(index, extent, &ranges)?;
        }
    }
    (!rim.0.is_empty() && rim.0.len() <= MOST_CONDITIONS).then_some(rim)
}

fn is_rule(bounds: &Bounds) -> bool {
    matches!(bounds, Bounds::Clamp | Bounds::Wrap | Bounds::Mirror | Bounds::Symmetric | Bounds::Constant(_))
}

fn has_rule(lowering: &Lowering, read: ExprId) -> bool {
    let ExprKind::Read { subscripts, .. } = &lowering.kernel.exprs[read].kind else { return false };
    subscripts.iter().any(|s| is_rule(&s.bounds))
}

/// The reduced variables of `value` whose ranges are constants: their lowest and highest values. Others are missing.
pub fn constant_ranges(lowering: &Lowering, value: ExprId) -> BTreeMap<VariableId, Option<(i64, i64)>> {
    let mut found = BTreeMap::new();
    walk::walk(lowering.kernel, value, &mut |id| {
        if let ExprKind::Reduce(reduce) = &lowering.kernel.exprs[id].kind {
            for range in &reduce.variables {
                found.insert(range.variable, constant_range(lowering, range));
            }
        }
        true
    });
    found
}

fn constant_range(lowering: &Lowering, range: &Ranged) -> Option<(i64, i64)> {
    let bound = |id| size::formula(lowering.kernel, lowering.facts, id)?.constant();
    let (lo, hi) = (bound(range.lo)?, bound(range.hi)?);
    (lo < hi).then_some((lo, hi - 1))
}

impl Rim {
    /// Takes in a subscript; `None` if its reach is not constant.
    fn reach(&mut self, index: Linear, extent: Formula, ranges: &BTreeMap<VariableId, Option<(i64, i64)>>) -> Option<()> {
        let offset = index.constant.constant();
        let (mut low, mut high) = (offset.unwrap_or(0), offset.unwrap_or(0));
        let constant = if offset.is_some() { Formula::Constant(0) } else { index.constant.clone() };
        let mut own = Linear { terms: Vec::new(), constant };
        for (variable, coefficient) in index.terms {
            match ranges.get(&variable) {
                None => own.terms.push((variable, coefficient)),
                Some(range) => {
                    let (lo, hi) = (*range)?;
                    let factor = coefficient.constant()?;
                    let ends = [lo.checked_mul(factor)?, hi.checked_mul(factor)?];
                    low = low.checked_add(ends[0].min(ends[1]))?;
                    high = high.checked_add(ends[0].max(ends[1]))?;
                }
            }
        }
        match self.0.iter_mut().find(|(form, n, _, _)| *form == own && *n == extent) {
            Some((_, _, lowest, highest)) => (*lowest, *highest) = ((*lowest).min(low), (*highest).max(high)),
            None => self.0.push((own, extent, low, high)),
        }
        Some(())
    }

    /// That every read lies inside.
    fn condition(&self, lowering: &mut Lowering) -> Result<Option<Expr>, Error> {
        let mut all: Option<Expr> = None;
        for (form, extent, low, high) in &self.0 {
            let mut index: Option<Expr> = None;
            for (variable, coefficient) in &form.terms {
                let value = lowering.variables.get(variable).cloned();
                let Some(value) = value else { return Ok(None) };
                let term = value * lowering.size(coefficient, "stride");
                index = Some(index.map_or(term.clone(), |sum| sum + term));
            }
            let mut index = index.unwrap_or(int(0));
            if form.constant != Formula::Constant(0) {
                index = index + lowering.size(&form.constant, "offset");
            }
            let extent = lowering.size(extent, "extent");
            let from = int(0).binary("<=", index.clone() + lowering.index_constant(*low));
            let to = (index + lowering.index_constant(*high)).less(extent);
            let both = from.and(to);
            all = Some(all.map_or(both.clone(), |all| all.and(both)));
        }
        Ok(all)
    }
}

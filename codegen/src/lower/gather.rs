//! Gathers: element-wise maps over rows that data chooses (`y[a, j] = t[k[a], j]`).
//!
//! A block takes some rows of the left side. First its threads find, a row each, where the rows of the tables begin: they alone read
//! the indices, apply rules and report. Then some neighbouring threads move each row, as packs of neighbouring elements where extents
//! and alignment allow; a thread's loads are issued before the first result is needed.

mod find;

use gpukc_dsl::program::{ExprKind, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::context::{Flat, Lowering};
use super::map::suffix;
use super::packs::Along;
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, int, name};
use find::Chosen;

pub use find::{Gather, gather};

/// Threads of a block.
const THREADS: i64 = 256;
/// Where a row begins that is outside its table.
const NOWHERE: i64 = -1;

/// Lowers the statement.
pub fn lower(lowering: &mut Lowering, statement: &Statement, shape: &Gather) -> Result<(), Error> {
    let (rows, inner) = statement.variables.split_at(shape.rank);
    let ty = lowering.index_type();
    let (row_count, extent) = (lowering.points(rows)?, lowering.points(inner)?);
    let (rows_per_block, positions) = (shape.rows_per_block(), shape.positions());
    lowering.passes_over([statement]);
    let block = lowering.block_number().cast(ty);
    let thread = || name("threadIdx.x").cast(Type::I32);
    let along_row = (thread() % int(shape.across)) * int(shape.lanes);
    let tiles = extent.clone().div_ceil(positions);
    let (first_row, position) = if lowering.facts.below(&extent, positions + 1) {
        (lowering.local("first_row", ty, block * int(rows_per_block)), lowering.local("column", Type::I32, along_row))
    } else {
        let of_row = lowering.size(&tiles, "tiles");
        let work = lowering.local("work", ty, block);
        let first = lowering.local("first_row", ty, work.clone() / of_row.clone() * int(rows_per_block));
        (first, lowering.local("column", ty, (work % of_row) * int(positions) + along_row))
    };
    let (rows_end, row_end) = (lowering.size(&row_count, "rows"), lowering.size(&extent, "row_extent"));
    let whole_rows = lowering.facts.multiple(&row_count, rows_per_block);
    let whole_tiles = lowering.facts.multiple(&extent, positions);
    let place = Places {
        shape,
        statement,
        first_row,
        position,
        rows_end: (!whole_rows).then_some(rows_end),
        row_end: (!whole_tiles).then_some(row_end),
    };
    let begins = place.choose(lowering)?;
    lowering.push(Node::Barrier);
    let moved = place.load(lowering, &begins)?;
    place.store(lowering, &begins, &moved)?;
    let mut notes = vec![
        format!("Rows that data chooses: a block takes {rows_per_block} rows. Its threads find where each begins, a row a thread;"),
        match shape.lanes {
            1 => format!("then {} neighbouring threads move a row, an element each at a time.", shape.across),
            lanes => format!("then {} neighbouring threads move a row, packs of {lanes} elements at a time.", shape.across),
        },
    ];
    notes.extend(lowering.block_order_note());
    let suffix = suffix(lowering, statement);
    let grid = tiles.times(row_count.div_ceil(rows_per_block));
    lowering.end_launch(&suffix, "map", notes, [grid, 1.into(), 1.into()], [THREADS as u32, 1, 1]);
    Ok(())
}

/// Where a thread's elements lie.
struct Places<'a> {
    shape: &'a Gather,
    statement: &'a Statement,
    first_row: Expr,
    position: Expr,
    /// The ends of rows and of a row, unless blocks end there.
    rows_end: Option<Expr>,
    row_end: Option<Expr>,
}

/// Where the block's rows begin in a table, in shared memory.
struct Begins {
    at: Expr,
    /// Whether a row may be outside.
    outside: bool,
}

/// What a thread has loaded.
struct Moved {
    chosen: Vec<Expr>,
    along: Vec<Expr>,
}

impl Places<'_> {
    fn rows(&self) -> &[Ranged] {
        &self.statement.variables[..self.shape.rank]
    }

    fn inner(&self) -> &[Ranged] {
        &self.statement.variables[self.shape.rank..]
    }

    /// Finds where the block's rows begin in each table, a row a thread.
    fn choose(&self, lowering: &mut Lowering) -> Result<Vec<Begins>, Error> {
        let (shape, ty) = (self.shape, lowering.index_type());
        let rows = shape.rows_per_block();
        let tables: Vec<String> = shape.chosen.iter().map(|c| lowering.kernel.arrays[c.array].name.replace('.', "_")).collect();
        let shared = |table: &String| lowering.shared(&format!("{table}_rows"), ty, vec![rows as u32]);
        let mut begins: Vec<Begins> = tables.iter().map(shared).map(|at| Begins { at, outside: false }).collect();
        let bounds = [name("threadIdx.x").cast(Type::I32), int(rows), int(THREADS)];
        lowering.each("place", Type::I32, bounds, Unroll::By(1), |lowering, place| {
            let row = lowering.local("row", ty, self.first_row.clone() + place.clone());
            let found: Vec<Expr> =
                tables.iter().map(|table| lowering.variable(&format!("{table}_row"), ty, Some(int(NOWHERE)))).collect();
            lowering.when_some(self.rows_end.clone().map(|end| row.clone().less(end)), |lowering| {
                lowering.decode(self.rows(), row)?;
                for ((chosen, found), begins) in shape.chosen.iter().zip(&found).zip(&mut begins) {
                    begins.outside = choose_row(lowering, chosen, found)?;
                }
                Ok(())
            })?;
            for (begins, found) in begins.iter().zip(found) {
                lowering.push(Node::Assign(begins.at.clone().at(place.clone()), found));
            }
            Ok(())
        })?;
        Ok(begins)
    }

    /// Visits the thread's pieces: their number, and their row's place in the block.
    fn each(
        &self,
        lowering: &mut Lowering,
        mut write: impl FnMut(&mut Lowering, Expr, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let shape = self.shape;
        lowering.each("step", Type::I32, [int(0), int(shape.steps), int(1)], Unroll::Full, |lowering, step| {
            let in_row = self.row_end.clone().map(|end| self.position.clone().less(end));
            lowering.when_some(in_row, |lowering| {
                let place = step.clone() * int(THREADS / shape.across) + name("threadIdx.x").cast(Type::I32) / int(shape.across);
                let place = lowering.local("place", Type::I32, place);
                write(lowering, step, place)
            })
        })
    }

    /// Goes on where the row exists, with its variables bound to the first element of the piece.
    fn in_row(
        &self,
        lowering: &mut Lowering,
        place: Expr,
        write: impl FnOnce(&mut Lowering) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ty = lowering.index_type();
        let row = lowering.local("row", ty, self.first_row.clone() + place);
        lowering.when_some(self.rows_end.clone().map(|end| row.clone().less(end)), |lowering| {
            lowering.decode(self.rows(), row)?;
            self.bind(lowering, self.position.clone());
            write(lowering)
        })
    }

    fn bind(&self, lowering: &mut Lowering, position: Expr) {
        if let [range] = self.inner() {
            lowering.variables.insert(range.variable, position.clone());
        }
        lowering.flat = Some(Flat { variables: self.inner().to_vec(), position });
        lowering.element = Some(self.statement.variables.clone());
    }

    fn load(&self, lowering: &mut Lowering, begins: &[Begins]) -> Result<Moved, Error> {
        let shape = self.shape;
        let chosen: Vec<Expr> = shape.chosen.iter().map(|chosen| shape.registers(lowering, chosen.array)).collect();
        let along: Vec<Expr> = shape.along.iter().map(|along| shape.registers(lowering, along.array)).collect();
        self.each(lowering, |lowering, step, place| {
            for ((from, begins), registers) in shape.chosen.iter().zip(begins).zip(&chosen) {
                let wish = format!("{}_row", lowering.kernel.arrays[from.array].name.replace('.', "_"));
                let begin = lowering.local(&wish, lowering.index_type(), begins.at.clone().at(place.clone()));
                let exists = int(0).binary("<=", begin.clone());
                lowering.when_some((begins.outside || self.rows_end.is_some()).then_some(exists), |lowering| {
                    let element = shape.piece(lowering, from.array, begin + self.position.clone());
                    lowering.push(Node::Assign(registers.clone().at(step.clone()), element));
                    Ok(())
                })?;
            }
            if shape.along.is_empty() {
                return Ok(());
            }
            self.in_row(lowering, place, |lowering| {
                for (from, registers) in shape.along.iter().zip(&along) {
                    let offset = offset(lowering, from)?;
                    let element = shape.piece(lowering, from.array, offset);
                    lowering.push(Node::Assign(registers.clone().at(step.clone()), element));
                }
                Ok(())
            })
        })?;
        Ok(Moved { chosen, along })
    }

    fn store(&self, lowering: &mut Lowering, begins: &[Begins], moved: &Moved) -> Result<(), Error> {
        self.each(lowering, |lowering, step, place| {
            self.in_row(lowering, place.clone(), |lowering| self.store_piece(lowering, begins, moved, (step, place)))
        })?;
        lowering.element = None;
        lowering.flat = None;
        Ok(())
    }

    fn store_piece(
        &self,
        lowering: &mut Lowering,
        begins: &[Begins],
        moved: &Moved,
        (step, place): (Expr, Expr),
    ) -> Result<(), Error> {
        let (shape, statement) = (self.shape, self.statement);
        // What the whole row shares is computed and reported once for each piece.
        for &id in &shape.shared {
            let value = lowering.value(id)?;
            let value = lowering.local("row_value", lowering.kernel.exprs[id].ty, value);
            lowering.computed.insert(id, value);
        }
        let mut chosen = Vec::new();
        for ((from, begins), registers) in shape.chosen.iter().zip(begins).zip(&moved.chosen) {
            let inside = begins.outside.then(|| int(0).binary("<=", begins.at.clone().at(place.clone())));
            chosen.push((from, registers.clone().at(step.clone()), inside, from.outside(lowering)?));
        }
        let variables: Vec<_> = self.inner().iter().map(|v| v.variable).collect();
        lowering.computed.extend(chosen.iter().map(|(from, piece, ..)| (from.read, shape.lane(piece, &int(0)))));
        lowering.hoist(statement.value, &variables, "row_value")?;
        let result = match shape.lanes {
            1 => None,
            lanes => Some(lowering.pack(statement.array, lanes)),
        };
        let mut single = None;
        lowering.each("lane", Type::I32, [int(0), int(shape.lanes), int(1)], Unroll::Full, |lowering, lane| {
            for (from, piece, inside, outside) in &chosen {
                let element = shape.lane(piece, &lane);
                let element = match inside {
                    Some(inside) => inside.clone().choose(element, outside.clone()),
                    None => element,
                };
                lowering.computed.insert(from.read, element);
            }
            for (from, registers) in shape.along.iter().zip(&moved.along) {
                lowering.take_from(from, &shape.lane(&registers.clone().at(step.clone()), &lane));
            }
            self.bind(lowering, self.position.clone() + lane.clone());
            let value = lowering.value(statement.value)?;
            match &result {
                Some(result) => lowering.push(Node::Assign(result.clone().lane(lane), value)),
                None => single = Some(value),
            }
            Ok(())
        })?;
        self.bind(lowering, self.position.clone());
        let Some(offset) = lowering.flat_place(statement.array, &statement.subscripts)? else {
            return Err(Error::Bug("a row that is not stored along".into()));
        };
        lowering.computed.clear();
        let target = shape.piece(lowering, statement.array, offset);
        if let Some(value) = result.or(single) {
            lowering.push(Node::Assign(target, value));
        }
        Ok(())
    }
}

/// Finds where the row of a table begins that the bound variables choose. Where it is outside, `found` stays as it is; gives whether it
/// may be.
fn choose_row(lowering: &mut Lowering, chosen: &Chosen, found: &Expr) -> Result<bool, Error> {
    let ExprKind::Read { subscripts, .. } = &lowering.kernel.exprs[chosen.read].kind else {
        return Err(Error::Bug("a row of what is no read".into()));
    };
    let (indices, conditions) = lowering.guarded_indices(chosen.array, &subscripts[..chosen.choosing])?;
    let inside = conditions.into_iter().map(|inside| inside.condition).reduce(Expr::and);
    let outside = inside.is_some();
    lowering.when_some(inside, |lowering| {
        let ty = lowering.index_type();
        let row = lowering.row_major(chosen.array, indices)?;
        let begin = row * lowering.size(&chosen.stride, "stride") + lowering.size(&chosen.constant, "offset");
        lowering.push(Node::Assign(found.clone(), begin.cast(ty)));
        Ok(())
    })?;
    Ok(outside)
}

/// The offset at the current element of what runs along.
fn offset(lowering: &mut Lowering, along: &Along) -> Result<Expr, Error> {
    let kernel = lowering.kernel;
    let Some(ExprKind::Read { subscripts, .. }) = along.reads.first().map(|read| &kernel.exprs[*read].kind) else {
        return Err(Error::Bug("a row of what is no read".into()));
    };
    let offset = lowering.flat_place(along.array, subscripts)?;
    offset.ok_or_else(|| Error::Bug("a row that does not run along".into()))
}

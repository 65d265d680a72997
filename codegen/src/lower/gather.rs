//! Gathers: element-wise maps over rows that data chooses (`y[a, j] = t[k[a], j]`).
//!
//! A block takes some rows of the left side. First its threads find, a row each, where the rows of the tables begin: they alone read
//! the indices, apply rules and report. Then some neighbouring threads move each row, as packs of neighbouring elements where extents
//! and alignment allow; a thread's loads are issued before the first result is needed.

mod find;

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::Type;

use super::by_rows::{self, NOWHERE, Rows, THREADS, thread};
use super::context::Lowering;
use super::map::suffix;
use super::packs::lane_of;
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, int};

pub use find::{Gather, gather};

/// Lowers the statement.
pub fn lower(lowering: &mut Lowering, statement: &Statement, shape: &Gather) -> Result<(), Error> {
    let (rows, inner) = statement.variables.split_at(shape.rank);
    let (row_count, extent) = (lowering.points(rows)?, lowering.points(inner)?);
    let (rows_per_block, positions) = (shape.rows_per_block(), shape.positions());
    lowering.passes_over([statement]);
    let block = lowering.block_number().cast(lowering.index_type());
    let within = (thread() % int(shape.across)) * int(shape.lanes);
    let (first_row, position) = by_rows::stand(lowering, &extent, (rows_per_block, positions), block, within)?;
    let rows = Rows::of(lowering, &statement.variables, shape.rank, (rows_per_block, positions))?;
    let place = Places { shape, statement, first_row, position, rows };
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
    let grid = extent.div_ceil(positions).times(row_count.div_ceil(rows_per_block));
    lowering.end_launch(&suffix, "map", notes, [grid, 1.into(), 1.into()], [THREADS as u32, 1, 1]);
    Ok(())
}

/// Where a thread's elements lie.
struct Places<'a> {
    shape: &'a Gather,
    statement: &'a Statement,
    first_row: Expr,
    position: Expr,
    rows: Rows<'a>,
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
    /// Finds where the block's rows begin in each table, a row a thread.
    fn choose(&self, lowering: &mut Lowering) -> Result<Vec<Begins>, Error> {
        let (shape, ty) = (self.shape, lowering.index_type());
        let rows = shape.rows_per_block();
        let tables: Vec<String> = shape.chosen.iter().map(|c| lowering.kernel.arrays[c.array].name.replace('.', "_")).collect();
        let shared = |table: &String| lowering.shared(&format!("{table}_rows"), ty, vec![rows as u32]);
        let mut begins: Vec<Begins> = tables.iter().map(shared).map(|at| Begins { at, outside: false }).collect();
        let bounds = [thread(), int(rows), int(THREADS)];
        lowering.each("place", Type::I32, bounds, Unroll::By(1), |lowering, place| {
            let row = lowering.local("row", ty, self.first_row.clone() + place.clone());
            let found: Vec<Expr> =
                tables.iter().map(|table| lowering.variable(&format!("{table}_row"), ty, Some(int(NOWHERE)))).collect();
            lowering.when_some(self.rows.has_row(&row), |lowering| {
                lowering.decode(self.rows.rows(), row)?;
                for ((chosen, found), begins) in shape.chosen.iter().zip(&found).zip(&mut begins) {
                    begins.outside = chosen.find(lowering, found)?;
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
            lowering.when_some(self.rows.has_position(&self.position), |lowering| {
                let place = step.clone() * int(THREADS / shape.across) + thread() / int(shape.across);
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
        lowering.when_some(self.rows.has_row(&row), |lowering| {
            lowering.decode(self.rows.rows(), row)?;
            self.rows.bind(lowering, self.position.clone());
            write(lowering)
        })
    }

    fn load(&self, lowering: &mut Lowering, begins: &[Begins]) -> Result<Moved, Error> {
        let shape = self.shape;
        let chosen: Vec<Expr> = shape.chosen.iter().map(|chosen| lowering.pieces(chosen.array, shape.lanes, shape.steps)).collect();
        let along: Vec<Expr> = shape.along.iter().map(|along| lowering.pieces(along.array, shape.lanes, shape.steps)).collect();
        self.each(lowering, |lowering, step, place| {
            for ((from, begins), registers) in shape.chosen.iter().zip(begins).zip(&chosen) {
                let wish = format!("{}_row", lowering.kernel.arrays[from.array].name.replace('.', "_"));
                let begin = lowering.local(&wish, lowering.index_type(), begins.at.clone().at(place.clone()));
                let exists = int(0).binary("<=", begin.clone());
                lowering.when_some((begins.outside || self.rows.rows_end.is_some()).then_some(exists), |lowering| {
                    let element = lowering.piece(from.array, shape.lanes, begin + self.position.clone());
                    lowering.push(Node::Assign(registers.clone().at(step.clone()), element));
                    Ok(())
                })?;
            }
            if shape.along.is_empty() {
                return Ok(());
            }
            self.in_row(lowering, place, |lowering| {
                for (from, registers) in shape.along.iter().zip(&along) {
                    let offset = self.rows.offset(lowering, from)?;
                    let element = lowering.piece(from.array, shape.lanes, offset);
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
        self.rows.release(lowering);
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
        let variables: Vec<_> = self.rows.inner().iter().map(|v| v.variable).collect();
        lowering.computed.extend(chosen.iter().map(|(from, piece, ..)| (from.read, lane_of(piece, shape.lanes, &int(0)))));
        lowering.hoist(statement.value, &variables, "row_value")?;
        let result = match shape.lanes {
            1 => None,
            lanes => Some(lowering.pack(statement.array, lanes)),
        };
        let mut single = None;
        lowering.each("lane", Type::I32, [int(0), int(shape.lanes), int(1)], Unroll::Full, |lowering, lane| {
            for (from, piece, inside, outside) in &chosen {
                let element = lane_of(piece, shape.lanes, &lane);
                let element = match inside {
                    Some(inside) => inside.clone().choose(element, outside.clone()),
                    None => element,
                };
                lowering.computed.insert(from.read, element);
            }
            for (from, registers) in shape.along.iter().zip(&moved.along) {
                lowering.take_from(from, &lane_of(&registers.clone().at(step.clone()), shape.lanes, &lane));
            }
            self.rows.bind(lowering, self.position.clone() + lane.clone());
            let value = lowering.value(statement.value)?;
            match &result {
                Some(result) => lowering.push(Node::Assign(result.clone().lane(lane), value)),
                None => single = Some(value),
            }
            Ok(())
        })?;
        self.rows.bind(lowering, self.position.clone());
        let Some(offset) = lowering.flat_place(statement.array, &statement.subscripts)? else {
            return Err(Error::Bug("a row that is not stored along".into()));
        };
        lowering.computed.clear();
        let target = lowering.piece(statement.array, shape.lanes, offset);
        if let Some(value) = result.or(single) {
            lowering.push(Node::Assign(target, value));
        }
        Ok(())
    }
}

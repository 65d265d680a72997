//! Elements by rows, as the threads of a launch take them: the first of some variables number the rows, the others run along each.
//! What `gather`, `broadcast` and `accumulate` have in common: which threads a row gets, where rows and blocks end, and the bindings
//! of a piece of neighbouring elements.

use gpukc_dsl::program::{ArrayId, ExprKind, Kernel, Ranged, Subscript};
use gpukc_dsl::types::Type;

use super::context::{Flat, Lowering};
use super::packs::Along;
use super::read::{access_of, flat_coefficient};
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::plan::{Expr, Node, int, name};
use crate::walk;

/// Threads of a block.
pub const THREADS: i64 = 256;
/// Bytes that a thread has in flight.
pub const IN_FLIGHT: i64 = 64;

/// The rows of a launch.
pub struct Rows<'a> {
    variables: &'a [Ranged],
    /// How many of the variables number the rows.
    rank: usize,
    /// The ends of rows and of a row, unless blocks end there.
    pub rows_end: Option<Expr>,
    pub row_end: Option<Expr>,
}

impl<'a> Rows<'a> {
    /// The rows of which a block takes so many, and so many positions of each.
    pub fn of(lowering: &mut Lowering, variables: &'a [Ranged], rank: usize, block: (i64, i64)) -> Result<Rows<'a>, Error> {
        let (rows, inner) = variables.split_at(rank);
        let (row_count, extent) = (lowering.points(rows)?, lowering.points(inner)?);
        let whole_rows = lowering.facts.multiple(&row_count, block.0);
        let whole_tiles = lowering.facts.multiple(&extent, block.1);
        let (rows_end, row_end) = (lowering.size(&row_count, "rows"), lowering.size(&extent, "row_extent"));
        Ok(Rows { variables, rank, rows_end: (!whole_rows).then_some(rows_end), row_end: (!whole_tiles).then_some(row_end) })
    }

    /// The variables that number the rows.
    pub fn rows(&self) -> &'a [Ranged] {
        &self.variables[..self.rank]
    }

    /// Those that run along a row.
    pub fn inner(&self) -> &'a [Ranged] {
        &self.variables[self.rank..]
    }

    /// Whether a row is there, if that is to be asked.
    pub fn has_row(&self, row: &Expr) -> Option<Expr> {
        self.rows_end.clone().map(|end| row.clone().less(end))
    }

    /// Whether a position is in its row, if that is to be asked.
    pub fn has_position(&self, position: &Expr) -> Option<Expr> {
        self.row_end.clone().map(|end| position.clone().less(end))
    }

    /// Lets the variables that run along stand at a position; the others are bound.
    pub fn bind(&self, lowering: &mut Lowering, position: Expr) {
        if let [range] = self.inner() {
            lowering.variables.insert(range.variable, position.clone());
        }
        lowering.flat = Some(Flat { variables: self.inner().to_vec(), position });
        lowering.element = Some(self.variables.to_vec());
    }

    /// Nothing is bound to a position any longer.
    pub fn release(&self, lowering: &mut Lowering) {
        lowering.element = None;
        lowering.flat = None;
    }

    /// The offset at the element at hand of what runs along.
    pub fn offset(&self, lowering: &mut Lowering, along: &Along) -> Result<Expr, Error> {
        let kernel = lowering.kernel;
        let Some(ExprKind::Read { subscripts, .. }) = along.reads.first().map(|read| &kernel.exprs[*read].kind) else {
            return Err(Error::Bug("a piece of what is no read".into()));
        };
        let offset = lowering.at_element_of(&along.own, |lowering| lowering.flat_place(along.array, subscripts))?;
        offset.ok_or_else(|| Error::Bug("a row that does not run along".into()))
    }
}

/// Where a block stands that takes whole rows, or so many positions of them: its first row, and the thread's first position.
pub fn stand(
    lowering: &mut Lowering,
    extent: &Formula,
    (rows, positions): (i64, i64),
    block: Expr,
    within: Expr,
) -> Result<(Expr, Expr), Error> {
    let ty = lowering.index_type();
    if lowering.facts.below(extent, positions + 1) {
        let first_row = lowering.local("first_row", ty, block * int(rows));
        return Ok((first_row, lowering.local("column", Type::I32, within)));
    }
    let tiles = lowering.size(&extent.clone().div_ceil(positions), "tiles");
    let work = lowering.local("work", ty, block);
    let first_row = lowering.local("first_row", ty, work.clone() / tiles.clone() * int(rows));
    Ok((first_row, lowering.local("column", ty, (work % tiles) * int(positions) + within)))
}

/// The thread's number in its block.
pub fn thread() -> Expr {
    name("threadIdx.x").cast(Type::I32)
}

/// The threads that take a row of so many pieces: as many as leave less than a quarter of themselves idle; for short rows, as many as
/// there are pieces.
pub fn across(facts: &Facts, pieces: &Formula) -> i64 {
    let busy = |across: &i64| facts.below(&pieces.clone().div_ceil(*across).times(3 * across).minus(pieces.clone().times(4)), 0);
    let short = |across: &i64| facts.below(pieces, across + 1);
    [128, 64, 32, 16, 8].into_iter().find(busy).or_else(|| [1, 2, 4].into_iter().find(short)).unwrap_or(8)
}

/// A row of an array that the first of some subscripts choose; the others run along it.
pub struct Row {
    /// How many choose.
    pub choosing: usize,
    /// Elements from row to row, and the place in the row of the first that is meant.
    pub stride: Formula,
    pub constant: Formula,
}

/// The row of an array in which these variables run along, if they do.
pub fn row_of(kernel: &Kernel, facts: &Facts, array: ArrayId, subscripts: &[Subscript], inner: &[Ranged]) -> Option<Row> {
    let varies = |subscript: &Subscript| inner.iter().any(|v| walk::mentions(kernel, subscript.index, v.variable));
    let choosing = subscripts.iter().position(varies)?;
    let shape = &kernel.arrays[array].shape[choosing..];
    let access = access_of(kernel, facts, shape, &subscripts[choosing..])?;
    let stride =
        shape.iter().try_fold(Formula::Constant(1), |n, extent| Some(n.times(crate::size::formula(kernel, facts, *extent)?)))?;
    let alone = access.terms.iter().all(|(variable, _)| inner.iter().any(|v| v.variable == *variable));
    let along = flat_coefficient(kernel, facts, &access, inner) == Some(Formula::Constant(1));
    (alone && along).then_some(Row { choosing, stride, constant: access.constant })
}

/// Where a row begins that is outside its array.
pub const NOWHERE: i64 = -1;

/// Finds where the row begins that the bound variables choose. Where it is outside, `found` stays as it is; gives whether it may be.
pub fn find_row(lowering: &mut Lowering, array: ArrayId, subscripts: &[Subscript], row: &Row, found: &Expr) -> Result<bool, Error> {
    let (indices, conditions) = lowering.guarded_indices(array, &subscripts[..row.choosing])?;
    let inside = conditions.into_iter().map(|inside| inside.condition).reduce(Expr::and);
    let outside = inside.is_some();
    lowering.when_some(inside, |lowering| {
        let ty = lowering.index_type();
        let number = lowering.row_major(array, indices)?;
        let begin = number * lowering.size(&row.stride, "stride") + lowering.size(&row.constant, "offset");
        lowering.push(Node::Assign(found.clone(), begin.cast(ty)));
        Ok(())
    })?;
    Ok(outside)
}

//! Accumulations under `@deterministic`: a thread per element visits the iterations in ascending order, the same bits every time, at a
//! price. Of rows (`y[s[i], j] += x[i, j]`) a thread has a piece, and visits the rows of iterations.

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::{AccumulateOp, Type};

use super::rows::{self, Shape};
use super::{Container, combine, iteration, over};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::by_rows::Rows;
use crate::lower::context::Lowering;
use crate::lower::expr::{cast, zero};
use crate::lower::group::product;
use crate::lower::map::suffix;
use crate::lower::packs::lane_of;
use crate::plan::{Expr, Node, Unroll, int};

/// Lowers the statement.
pub fn lower(lowering: &mut Lowering, statement: &Statement, container: Container, op: AccumulateOp) -> Result<(), Error> {
    lowering.begin_launch(container.written());
    if let Some(shape) = rows::shape(lowering, statement, container, &[4, 2]).filter(|shape| covers(lowering, statement, shape)) {
        return by_rows(lowering, statement, container, op, &shape);
    }
    let ty = lowering.index_type();
    let elements = lowering.elements(&lowering.kernel.arrays[container.array].clone())?;
    let iterations = lowering.points(&statement.variables)?;
    let target = container.pointer(lowering, true);
    let what = suffix(lowering, statement);
    let notes = vec!["@deterministic: a thread per element takes its values in ascending order of the iterations.".into()];
    let existing = lowering.size(&elements, "elements");
    // One thread looks at the indices even where there is no element: all of them are out of range.
    over(lowering, &elements.max(1), ("element", &what), notes, |lowering, element| {
        let exists = element.clone().less(existing);
        let so_far = lowering.variable("so_far", container.wide, Some(zero(container.wide)));
        lowering.when(exists.clone(), |lowering| {
            lowering.push(Node::Assign(so_far.clone(), target.clone().at(element.clone())));
            Ok(())
        })?;
        let count = lowering.size(&iterations, "iterations");
        lowering.each("iteration", ty, [int(0), count, int(1)], Unroll::Default, |lowering, number| {
            lowering.decode(&statement.variables, number)?;
            iteration(lowering, statement, container, |lowering, offset, value| {
                lowering.when(offset.binary("==", element.clone()), |lowering| {
                    let next = combine(op, so_far.clone(), value, container.wide);
                    lowering.push(Node::Assign(so_far.clone(), next));
                    Ok(())
                })
            })
        })?;
        lowering.when(exists, |lowering| {
            lowering.push(Node::Assign(target.at(element), so_far));
            Ok(())
        })
    })
}

/// Whether the iterations of a row go to all elements of a row.
fn covers(lowering: &Lowering, statement: &Statement, shape: &Shape) -> bool {
    let extent = product(lowering.kernel, lowering.facts, &statement.variables[shape.rank..]);
    shape.target.constant == Formula::Constant(0) && extent.is_some_and(|extent| extent.same_product(&shape.target.stride))
}

/// The same where iterations go to whole rows: a thread has a piece of one, and takes those of the rows of iterations that go there.
fn by_rows(
    lowering: &mut Lowering,
    statement: &Statement,
    container: Container,
    op: AccumulateOp,
    shape: &Shape,
) -> Result<(), Error> {
    let (ty, lanes) = (lowering.index_type(), shape.lanes);
    let (number_of_rows, inner) = statement.variables.split_at(shape.rank);
    let (row_count, extent) = (lowering.points(number_of_rows)?, lowering.points(inner)?);
    let elements = lowering.elements(&lowering.kernel.arrays[container.array].clone())?;
    let target = container.pointer(lowering, true);
    let (row_extent, existing) = (lowering.size(&extent, "row_extent"), lowering.size(&elements, "elements"));
    let rows = Rows::of(lowering, &statement.variables, shape.rank, (1, 1))?;
    let piece = |element: Expr| match lanes {
        1 => target.clone().at(element),
        _ => Expr::Wide(container.wide, lanes as u32, Box::new(target.clone()), Box::new(element)),
    };
    let what = suffix(lowering, statement);
    let notes = vec![
        "@deterministic: a thread takes neighbouring elements of a row, and what goes there of the iterations, in".into(),
        "ascending order.".into(),
    ];
    // One thread looks at the indices even where there is no element: all of them are out of range.
    over(lowering, &elements.div_ceil(lanes).max(1), ("piece", &what), notes, |lowering, number| {
        let element = lowering.local("element", ty, number * int(lanes));
        let exists = element.clone().less(existing);
        let own = lowering.local("own_row", ty, element.clone() / row_extent.clone());
        let position = lowering.local("column", ty, element.clone() % row_extent);
        let so_far = lowering.variable("so_far", container.piece(lanes), None);
        lowering.when(exists.clone(), |lowering| {
            lowering.push(Node::Assign(so_far.clone(), piece(element.clone())));
            Ok(())
        })?;
        let count = lowering.size(&row_count, "rows");
        lowering.each("row", ty, [int(0), count, int(1)], Unroll::Default, |lowering, row| {
            lowering.decode(rows.rows(), row)?;
            rows.bind(lowering, position.clone());
            let (indices, conditions) = lowering.guarded_indices(container.array, &statement.subscripts[..shape.target.choosing])?;
            let inside = conditions.into_iter().map(|inside| inside.condition).reduce(Expr::and);
            lowering.when_some(inside, |lowering| {
                let chosen = lowering.row_major(container.array, indices)?;
                lowering.when(chosen.binary("==", own), |lowering| {
                    take(lowering, statement, (container, op), shape, &rows, &position, &so_far)
                })
            })
        })?;
        rows.release(lowering);
        lowering.when(exists, |lowering| {
            lowering.push(Node::Assign(piece(element), so_far));
            Ok(())
        })
    })
}

/// Takes the values of the row of iterations at hand into what a thread has so far.
fn take(
    lowering: &mut Lowering,
    statement: &Statement,
    (container, op): (Container, AccumulateOp),
    shape: &Shape,
    rows: &Rows,
    position: &Expr,
    so_far: &Expr,
) -> Result<(), Error> {
    let lanes = shape.lanes;
    let mut loaded = Vec::new();
    for along in &shape.along {
        let offset = rows.offset(lowering, along)?;
        loaded.push(match lanes {
            1 => lowering.piece(along.array, 1, offset),
            _ => lowering.load_pack(along.array, lanes, offset),
        });
    }
    let from = lowering.kernel.exprs[statement.value].ty;
    lowering.each("lane", Type::I32, [int(0), int(lanes), int(1)], Unroll::Full, |lowering, lane| {
        for (along, loaded) in shape.along.iter().zip(&loaded) {
            lowering.take_from(along, &lane_of(loaded, lanes, &lane));
        }
        rows.bind(lowering, position.clone() + lane.clone());
        let value = lowering.value(statement.value)?;
        let place = lane_of(so_far, lanes, &lane);
        let next = combine(op, place.clone(), cast(value, from, container.wide), container.wide);
        lowering.push(Node::Assign(place, next));
        Ok(())
    })?;
    lowering.computed.clear();
    Ok(())
}

//! Tells the planes of an image from its interleaved channels, where there are few of them:
//!
//! - planes that are defined from channels get a statement each, which share a launch: `y[q, i, j] = x[i, j, q]` becomes
//!   `y[0, i, j] = x[i, j, 0]; y[1, i, j] = x[i, j, 1];` and so on;
//! - channels that are defined from planes read each by its number: `y[i, j, q] = x[q, i, j]` becomes
//!   `y[i, j, q] = if q == 0 { x[0, i, j] } else …`.
//!
//! A thread then moves packs of neighbouring elements on both sides, and picks them apart in registers.

use gpukc_dsl::program::{
    Bounds, Expr, ExprId, ExprKind, Kernel, Literal, Ranged, Role, Statement, StatementKind, Subscript, VariableId,
};
use gpukc_dsl::types::{BinaryOp, Type};

use crate::facts::Facts;
use crate::formula::Formula;
use crate::lower::{is_plain, offset_of};
use crate::size::{self, Linear};
use crate::walk;

/// Most planes.
const MOST: i64 = 4;
/// Most instructions of an element whose text is repeated for each plane.
const MOST_COST: u32 = 32;

/// Runs the pass.
pub fn run(kernel: &mut Kernel, facts: &Facts) {
    let statements = std::mem::take(&mut kernel.statements);
    for statement in statements {
        match (planes(kernel, facts, &statement), channels(kernel, facts, &statement)) {
            (Some((axis, count)), _) => {
                let planes = (0..count).map(|number| plane(kernel, &statement, axis, number));
                let planes: Vec<Statement> = planes.collect();
                kernel.statements.extend(planes);
            }
            (None, Some((reads, variable, count))) => {
                reads.into_iter().for_each(|read| by_number(kernel, read, variable, count));
                kernel.statements.push(statement);
            }
            (None, None) => kernel.statements.push(statement),
        }
    }
}

/// The number of values of a variable that numbers few planes.
fn few(kernel: &Kernel, facts: &Facts, range: &Ranged) -> Option<i64> {
    let count = size::extent(kernel, facts, range)?.constant()?;
    (2..=MOST).contains(&count).then_some(count)
}

/// The offsets that a statement reads at, by read, and its variable along the elements of a plane; of a map that no hint is for.
fn offsets(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<Vec<(ExprId, Linear)>> {
    let attributes = &statement.attributes;
    let hinted = attributes.block.is_some() || attributes.unroll.is_some() || !attributes.tile.is_empty();
    let reduces = walk::has_reduction(kernel, statement.value);
    // A `let` that is defined in parts has to be stored.
    let fits = statement.kind == StatementKind::Define
        && kernel.arrays[statement.array].role == Role::Result
        && is_plain(kernel, facts, statement)
        && !hinted
        && !reduces
        && !walk::can_fail(kernel, statement.value)
        && walk::cost(kernel, statement.value) <= MOST_COST;
    let reads = || walk::reads(kernel, statement.value).into_iter();
    fits.then(|| reads().filter_map(|read| Some((read, offset_of(kernel, facts, read)?))).collect())
}

/// Which axis of the left side numbers planes, and how many there are: the elements of all of them lie beside each other where one is
/// read.
fn planes(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<(usize, i64)> {
    let offsets = offsets(kernel, facts, statement)?;
    let (along, others) = statement.variables.split_last()?;
    others.iter().enumerate().find_map(|(axis, range)| {
        let count = few(kernel, facts, range)?;
        let (one, all) = (Formula::Constant(1), Formula::Constant(count));
        let interleaved =
            |(_, offset): &(ExprId, Linear)| offset.coefficient(range.variable) == one && offset.coefficient(along.variable) == all;
        offsets.iter().any(interleaved).then_some((axis, count))
    })
}

/// The reads of planes that the last axis of the left side numbers, its variable, and how many there are.
fn channels(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<(Vec<ExprId>, VariableId, i64)> {
    let offsets = offsets(kernel, facts, statement)?;
    let (channel, others) = statement.variables.split_last()?;
    let (along, count) = (others.last()?, few(kernel, facts, channel)?);
    let of_plane = |(read, offset): (ExprId, Linear)| {
        let plane = offset.coefficient(channel.variable);
        let apart = plane.constant().is_none() && (facts.multiple(&plane, 2) || !facts.tells(&plane));
        (apart && offset.coefficient(along.variable) == Formula::Constant(1)).then_some(read)
    };
    let reads: Vec<ExprId> = offsets.into_iter().filter_map(of_plane).collect();
    (!reads.is_empty()).then_some((reads, channel.variable, count))
}

/// The statement of one plane.
fn plane(kernel: &mut Kernel, statement: &Statement, axis: usize, number: i64) -> Statement {
    let mut plane = statement.clone();
    let variable = plane.variables.remove(axis).variable;
    plane.value = copy(kernel, statement.value, variable, number);
    for subscript in &mut plane.subscripts {
        subscript.index = copy(kernel, subscript.index, variable, number);
    }
    plane
}

/// Puts a choice by the value of a variable in the place of a read.
fn by_number(kernel: &mut Kernel, read: ExprId, variable: VariableId, count: i64) {
    let (ty, span) = (kernel.exprs[read].ty, kernel.exprs[read].span);
    let mut rest = copy(kernel, read, variable, count - 1);
    for number in (0..count - 1).rev() {
        let own = kernel.exprs.push(Expr { kind: ExprKind::Variable(variable), ty: Type::I64, span });
        let wanted = kernel.exprs.push(Expr { kind: ExprKind::Literal(Literal::Int(i128::from(number))), ty: Type::I64, span });
        let kind = ExprKind::Binary(BinaryOp::Eq, own, wanted);
        let condition = kernel.exprs.push(Expr { kind, ty: Type::Bool, span });
        let then = copy(kernel, read, variable, number);
        rest = kernel.exprs.push(Expr { kind: ExprKind::If { condition, then, otherwise: rest }, ty, span });
    }
    kernel.exprs[read] = kernel.exprs[rest].clone();
}

/// A copy with a number in the place of a variable.
fn copy(kernel: &mut Kernel, id: ExprId, variable: VariableId, number: i64) -> ExprId {
    let mut expr = kernel.exprs[id].clone();
    let mut again = |id: &mut ExprId| *id = copy(kernel, *id, variable, number);
    match &mut expr.kind {
        ExprKind::Variable(own) if *own == variable => expr.kind = ExprKind::Literal(Literal::Int(i128::from(number))),
        ExprKind::Read { subscripts, .. } => {
            for Subscript { index, bounds } in subscripts {
                again(index);
                if let Bounds::Constant(value) = bounds {
                    again(value);
                }
            }
        }
        ExprKind::Unary(_, x) | ExprKind::Cast(x) => again(x),
        ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(again),
        ExprKind::If { condition, then, otherwise } => [condition, then, otherwise].into_iter().for_each(again),
        ExprKind::Builtin(_, arguments) | ExprKind::Call(_, arguments) => arguments.iter_mut().for_each(again),
        // Of what holds others, only reductions are left, which no plane has.
        _ => {}
    }
    kernel.exprs.push(expr)
}

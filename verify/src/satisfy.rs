//! Dims and scalars that satisfy a kernel's conditions: where drawn ones do not, one of them is moved until they do.

use gpukc_dsl::call::{self, Bindings};
use gpukc_dsl::program::*;
use gpukc_dsl::types::{BinaryOp, Type};

use crate::draw::EXTENTS;
use crate::rng::Rng;

/// A value that a condition may be mended by.
#[derive(Clone, Copy, PartialEq)]
enum Unknown {
    Dim(DimId),
    Scalar(ScalarId),
}

/// Moves dims and scalars until every condition holds; false if none was found. One condition's mending may break another's,
/// so that several rounds are made.
pub(crate) fn satisfy(kernel: &Kernel, known: &mut Bindings, rng: &mut Rng) -> bool {
    for _ in 0..4 * (kernel.conditions.len() + 1) {
        let broken: Vec<ExprId> = kernel.conditions.iter().map(|c| c.holds).filter(|&holds| !is_true(kernel, known, holds)).collect();
        if broken.is_empty() {
            return true;
        }
        if !mend(kernel, known, *rng.pick(&broken), rng) {
            return false;
        }
    }
    false
}

fn is_true(kernel: &Kernel, known: &Bindings, holds: ExprId) -> bool {
    call::evaluate(kernel, known, holds) == Some(Literal::Bool(true))
}

/// Moves one dim or scalar that a condition mentions so that it holds: one that stands alone on a side of a comparison to what
/// the other side says, else any to one of many candidates.
fn mend(kernel: &Kernel, known: &mut Bindings, holds: ExprId, rng: &mut Rng) -> bool {
    let solved = solutions(kernel, known, holds);
    let mut unknowns = unknowns(kernel, holds);
    for last in (1..unknowns.len()).rev() {
        unknowns.swap(last, rng.below(last + 1));
    }
    let scanned = unknowns.into_iter().flat_map(|unknown| candidates(kernel, known, unknown).into_iter().map(move |v| (unknown, v)));
    let scanned: Vec<(Unknown, Literal)> = scanned.collect();
    // From a random place on, so that not always the smallest is found.
    let start = rng.below(scanned.len());
    let rotated = scanned[start..].iter().chain(&scanned[..start]);
    for &(unknown, value) in solved.iter().chain(rotated) {
        let before = set(known, unknown, value);
        if is_true(kernel, known, holds) {
            return true;
        }
        set(known, unknown, before);
    }
    false
}

fn set(known: &mut Bindings, unknown: Unknown, value: Literal) -> Literal {
    match (unknown, value) {
        (Unknown::Dim(id), Literal::Int(value)) => Literal::Int(std::mem::replace(&mut known.dims[id.index()], value as i64).into()),
        (Unknown::Dim(id), _) => Literal::Int(known.dims[id.index()].into()),
        (Unknown::Scalar(id), value) => std::mem::replace(&mut known.scalars[id.index()], value),
    }
}

fn unknown(kernel: &Kernel, expr: ExprId) -> Option<Unknown> {
    match kernel.exprs[expr].kind {
        ExprKind::Dim(id) => Some(Unknown::Dim(id)),
        ExprKind::Scalar(id) => Some(Unknown::Scalar(id)),
        // A narrow scalar in an extent.
        ExprKind::Cast(inner) => unknown(kernel, inner),
        _ => None,
    }
}

fn unknowns(kernel: &Kernel, holds: ExprId) -> Vec<Unknown> {
    let mut found = Vec::new();
    gpukc_codegen::walk::walk(kernel, holds, &mut |id| {
        match unknown(kernel, id) {
            Some(unknown) if !found.contains(&unknown) => found.push(unknown),
            _ => {}
        }
        true
    });
    found
}

fn ty(kernel: &Kernel, unknown: Unknown) -> Type {
    match unknown {
        Unknown::Dim(_) => Type::I64,
        Unknown::Scalar(id) => kernel.scalars[id].ty,
    }
}

/// An integer as a value of an unknown, if it may be one.
fn integer(kernel: &Kernel, unknown: Unknown, value: i128) -> Option<Literal> {
    let ty = ty(kernel, unknown);
    let (lo, hi) = if ty.is_integer() { ty.integer_range() } else { return None };
    let lo = if matches!(unknown, Unknown::Dim(_)) { 0 } else { lo };
    (lo..=hi).contains(&value).then_some(Literal::Int(value))
}

/// What comparisons say of unknowns that stand alone.
fn solutions(kernel: &Kernel, known: &Bindings, holds: ExprId) -> Vec<(Unknown, Literal)> {
    let ExprKind::Binary(op, a, b) = kernel.exprs[holds].kind else { return Vec::new() };
    let mut found = Vec::new();
    for (side, other, mirrored) in [(a, b, false), (b, a, true)] {
        let (Some(unknown), Some(value)) = (unknown(kernel, side), call::evaluate(kernel, known, other)) else { continue };
        let less = if mirrored { 1 } else { -1 };
        let moves: &[i128] = match op {
            BinaryOp::Eq | BinaryOp::Le | BinaryOp::Ge => &[0],
            BinaryOp::Lt => &[less],
            BinaryOp::Gt => &[-less],
            _ => &[],
        };
        match value {
            Literal::Int(value) => {
                found.extend(moves.iter().filter_map(|by| Some((unknown, integer(kernel, unknown, value + by)?))));
            }
            value if ty(kernel, unknown) == kernel.exprs[other].ty => found.push((unknown, value)),
            _ => {}
        }
    }
    found
}

/// Values to try: small ones, adversarial extents, and what is near the present one, multiples of powers of two among it.
fn candidates(kernel: &Kernel, known: &Bindings, unknown: Unknown) -> Vec<Literal> {
    let ty = ty(kernel, unknown);
    if ty == Type::Bool {
        return vec![Literal::Bool(false), Literal::Bool(true)];
    }
    let present = match unknown {
        Unknown::Dim(id) => Literal::Int(known.dims[id.index()].into()),
        Unknown::Scalar(id) => known.scalars[id.index()],
    };
    let Literal::Int(present) = present else {
        return [0.0, 1.0, -1.0, 0.5, 2.0, 0.001, 1000.0].map(Literal::Float).to_vec();
    };
    let near = (-64..=64).map(|by| present.saturating_add(by));
    let multiples = (1..=12).flat_map(|bits| [present >> bits << bits, ((present >> bits) + 1) << bits]);
    let all = near.chain(multiples).chain((0..=64).flat_map(|n| [n, -n])).chain(EXTENTS.iter().map(|&n| n.into()));
    all.filter_map(|value| integer(kernel, unknown, value)).collect()
}

//! What the passes share: a reduction that becomes a `let` of its own.
//!
//! In its place it was evaluated where every variable of its scope has a value: never, if one of their ranges is empty. The `let`
//! ranges over those that the reduction mentions. Unless all its reads are in range anyhow, it is made empty with the others.

use std::collections::BTreeSet;

use gpukc_dsl::program::{
    Array, Attributes, Bounds, Expr, ExprId, ExprKind, Kernel, Literal, Ranged, Role, Statement, StatementKind, Subscript, VariableId,
};
use gpukc_dsl::types::{BinaryOp, Builtin, Type};

use crate::facts::Facts;
use crate::size;
use crate::walk;

/// The variables of `scope` that `root` mentions, and the others; `None` if no `let` can range over the former: from a constant on,
/// to what is known at the call.
pub fn variables(kernel: &Kernel, facts: &Facts, root: ExprId, scope: &[Ranged]) -> Option<(Vec<Ranged>, Vec<Ranged>)> {
    let (own, others): (Vec<Ranged>, Vec<Ranged>) = scope.iter().copied().partition(|v| walk::mentions(kernel, root, v.variable));
    let distinct: BTreeSet<VariableId> = own.iter().map(|v| v.variable).collect();
    let possible = own.iter().all(|v| {
        size::formula(kernel, facts, v.lo).and_then(|lo| lo.constant()).is_some_and(|lo| lo >= 0)
            && size::formula(kernel, facts, v.hi).is_some()
    });
    (possible && distinct.len() == own.len()).then_some((own, others))
}

/// Moves the reduction `root`, which stands where the variables of `scope` are bound, into a `let` over those of them that it
/// mentions; a read of it stays behind. `None`, and nothing changes, if there can be no such `let`.
pub fn into_let(kernel: &mut Kernel, facts: &Facts, root: ExprId, scope: &[Ranged], attributes: &Attributes) -> Option<Statement> {
    let ExprKind::Reduce(mut reduce) = kernel.exprs[root].kind.clone() else { return None };
    let (mut variables, dropped) = variables(kernel, facts, root, scope)?;
    if !reads_regardless(kernel, facts, root, &variables) {
        let first = variables.first_mut().or(reduce.variables.first_mut().filter(|v| size::extent(kernel, facts, v).is_some()))?;
        for v in dropped {
            empty_with(kernel, facts, first, v)?;
        }
    }
    let stem = reduce.reducer.name();
    kernel.exprs[root].kind = ExprKind::Reduce(reduce);
    Some(replace(kernel, root, stem, variables, attributes))
}

/// Whether every read below `root` is in range whatever other ranges are empty: it follows from the variable that it is, if that is
/// one of these or bound below `root`. What a proof or the user has assumed besides may be that there is something to evaluate.
pub fn reads_regardless(kernel: &Kernel, facts: &Facts, root: ExprId, variables: &[Ranged]) -> bool {
    let mut bound = variables.to_vec();
    let mut reads = Vec::new();
    walk::walk(kernel, root, &mut |id| {
        match &kernel.exprs[id].kind {
            ExprKind::Reduce(reduce) => bound.extend(&reduce.variables),
            ExprKind::Read { array, subscripts } => reads.push((*array, subscripts)),
            _ => {}
        }
        true
    });
    let formula = |id| size::formula(kernel, facts, id);
    let within = |index: ExprId, extent: ExprId| {
        let ExprKind::Variable(variable) = kernel.exprs[index].kind else { return false };
        let range = bound.iter().find(|v| v.variable == variable);
        range.is_some_and(|v| {
            formula(v.lo).and_then(|lo| lo.constant()).is_some_and(|lo| lo >= 0)
                && formula(v.hi).is_some_and(|hi| Some(hi) == formula(extent))
        })
    };
    reads.into_iter().all(|(array, subscripts)| {
        let shape = &kernel.arrays[array].shape;
        subscripts.iter().zip(shape).all(|(s, extent)| matches!(s.bounds, Bounds::Constant(_)) || within(s.index, *extent))
    })
}

/// Makes a range empty where another one is.
fn empty_with(kernel: &mut Kernel, facts: &Facts, range: &mut Ranged, other: Ranged) -> Option<()> {
    if facts.at_least(&size::extent(kernel, facts, &other)?, 1) {
        return Some(());
    }
    let span = kernel.exprs[range.hi].span;
    let mut push = |kind| kernel.exprs.push(Expr { kind, ty: Type::I64, span });
    let zero = push(ExprKind::Literal(Literal::Int(0)));
    let one = push(ExprKind::Literal(Literal::Int(1)));
    let count = push(ExprKind::Binary(BinaryOp::Sub, other.hi, other.lo));
    let positive = push(ExprKind::Builtin(Builtin::Max, vec![count, zero]));
    let some = push(ExprKind::Builtin(Builtin::Min, vec![positive, one]));
    let own = push(ExprKind::Binary(BinaryOp::Sub, range.hi, range.lo));
    let kept = push(ExprKind::Binary(BinaryOp::Mul, own, some));
    range.hi = push(ExprKind::Binary(BinaryOp::Add, range.lo, kept));
    Some(())
}

fn replace(kernel: &mut Kernel, root: ExprId, stem: &str, variables: Vec<Ranged>, attributes: &Attributes) -> Statement {
    let array = temporary(kernel, root, stem, &variables);
    let whole = kernel.exprs[root].clone();
    let span = whole.span;
    let value = kernel.exprs.push(whole);
    let mut subscript = |v: &Ranged| {
        let kind = ExprKind::Variable(v.variable);
        Subscript { index: kernel.exprs.push(Expr { kind, ty: Type::I64, span }), bounds: Bounds::Proved }
    };
    let subscripts: Vec<Subscript> = variables.iter().map(&mut subscript).collect();
    // Not the same nodes: who rewrites one place must not change the other.
    let reading = variables.iter().map(&mut subscript).collect();
    kernel.exprs[root].kind = ExprKind::Read { array, subscripts: reading };
    Statement { array, variables, subscripts, value, kind: StatementKind::Define, attributes: attributes.clone(), span }
}

fn temporary(kernel: &mut Kernel, root: ExprId, stem: &str, variables: &[Ranged]) -> gpukc_dsl::program::ArrayId {
    let taken = |name: &str| kernel.arrays.iter().any(|(_, a)| a.name == name);
    let mut number = 1;
    while taken(&format!("{stem}{number}")) {
        number += 1;
    }
    let root = &kernel.exprs[root];
    kernel.arrays.push(Array {
        name: format!("{stem}{number}"),
        span: root.span,
        element: root.ty,
        shape: variables.iter().map(|v| v.hi).collect(),
        role: Role::Let,
    })
}

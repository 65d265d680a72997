//! Writes windows relative to their centre: `sum[j in i - 2..=i + 2] x[j | clamp]` becomes `sum[j in -2..=2] x[i + j | clamp]`.
//! The number of terms is then a constant, which loops unroll by, and reads have constant offsets from the element, which a
//! stencil stages. Terms and their order stay.

use gpukc_dsl::program::{Expr, ExprId, ExprKind, Kernel, Literal, Ranged, VariableId};
use gpukc_dsl::types::{BinaryOp, Reducer, Type};

use crate::facts::Facts;
use crate::size;
use crate::walk;

/// Runs the pass.
pub fn run(kernel: &mut Kernel, facts: &Facts) {
    let roots: Vec<ExprId> =
        kernel.statements.iter().flat_map(|s| s.subscripts.iter().map(|subscript| subscript.index).chain([s.value])).collect();
    for root in roots {
        let mut reductions = Vec::new();
        walk::walk(kernel, root, &mut |id| {
            if matches!(kernel.exprs[id].kind, ExprKind::Reduce(_)) {
                reductions.push(id);
            }
            true
        });
        reductions.into_iter().for_each(|id| center(kernel, facts, id));
    }
}

/// A range from `around + low` to `around + high`, exclusive.
struct Window {
    around: VariableId,
    low: i64,
    high: i64,
}

fn window(kernel: &Kernel, facts: &Facts, range: &Ranged) -> Option<Window> {
    let (lo, hi) = (size::linear(kernel, facts, range.lo)?, size::linear(kernel, facts, range.hi)?);
    let ([(around, step)], [(other, other_step)]) = (lo.terms.as_slice(), hi.terms.as_slice()) else { return None };
    let one = |step: &crate::formula::Formula| step.constant() == Some(1);
    (around == other && one(step) && one(other_step))
        .then(|| Some(Window { around: *around, low: lo.constant.constant()?, high: hi.constant.constant()? }))?
}

fn center(kernel: &mut Kernel, facts: &Facts, id: ExprId) {
    let ExprKind::Reduce(reduce) = &kernel.exprs[id].kind else { return };
    // An argmin is the value of its variable.
    if matches!(reduce.reducer, Reducer::Argmin | Reducer::Argmax) {
        return;
    }
    for number in 0..reduce.variables.len() {
        let ExprKind::Reduce(reduce) = kernel.exprs[id].kind.clone() else { return };
        let range = reduce.variables[number];
        let Some(window) = window(kernel, facts, &range) else { continue };
        let span = kernel.exprs[range.lo].span;
        // Before the range's own ends are replaced: these do not mention its variable.
        let inner = reduce.variables[number + 1..].iter().flat_map(|v| [v.lo, v.hi]);
        let below: Vec<ExprId> = inner.chain(reduce.filter).chain([reduce.body]).collect();
        for root in below {
            shift(kernel, root, range.variable, window.around);
        }
        let mut bound =
            |value: i64| kernel.exprs.push(Expr { kind: ExprKind::Literal(Literal::Int(i128::from(value))), ty: Type::I64, span });
        let (lo, hi) = (bound(window.low), bound(window.high));
        let mut centered = reduce;
        centered.variables[number] = Ranged { lo, hi, ..range };
        kernel.exprs[id].kind = ExprKind::Reduce(centered);
    }
}

/// Puts `around + variable` in place of `variable`.
fn shift(kernel: &mut Kernel, root: ExprId, variable: VariableId, around: VariableId) {
    let mut places = Vec::new();
    walk::walk(kernel, root, &mut |id| {
        if kernel.exprs[id].kind == ExprKind::Variable(variable) {
            places.push(id);
        }
        true
    });
    for id in places {
        let span = kernel.exprs[id].span;
        let mut leaf = |variable| kernel.exprs.push(Expr { kind: ExprKind::Variable(variable), ty: Type::I64, span });
        let (around, own) = (leaf(around), leaf(variable));
        kernel.exprs[id].kind = ExprKind::Binary(BinaryOp::Add, around, own);
    }
}

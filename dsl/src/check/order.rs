//! In which order a reduction's terms combine: exact, canonical, sharing, or a scan.

use super::walk;
use crate::program::*;
use crate::prover::{self, Scope};
use crate::types::{Reducer, Type};

/// Classifies all reductions of a statement.
pub(crate) fn classify(kernel: &mut Kernel, statement: usize) {
    let Statement { variables, subscripts, value, .. } = &kernel.statements[statement];
    let mut roots: Vec<ExprId> = subscripts.iter().map(|subscript| subscript.index).collect();
    roots.push(*value);
    let left = variables.clone();
    let mut orders: Vec<(ExprId, Order)> = Vec::new();
    let mut stack: Vec<(ExprId, Vec<Ranged>)> = roots.into_iter().map(|root| (root, left.clone())).collect();
    let mut children = Vec::new();
    while let Some((id, scope)) = stack.pop() {
        children.clear();
        walk::children(&kernel.exprs[id].kind, &mut children);
        if let ExprKind::Reduce(reduce) = &kernel.exprs[id].kind {
            orders.push((id, order(kernel, reduce, kernel.exprs[id].ty, &left, &scope)));
            let mut inner = scope.clone();
            inner.extend(&reduce.variables);
            stack.extend(children.iter().map(|&child| (child, inner.clone())));
        } else {
            stack.extend(children.iter().map(|&child| (child, scope.clone())));
        }
    }
    for (id, order) in orders {
        if let ExprKind::Reduce(reduce) = &mut kernel.exprs[id].kind {
            reduce.fused &= !matches!(order, Order::Scan(_)); // a scan adds rounded terms
            reduce.order = order;
        }
    }
}

fn order(kernel: &Kernel, reduce: &Reduce, ty: Type, left: &[Ranged], outer: &[Ranged]) -> Order {
    if let Some(scan) = scan(kernel, reduce, left) {
        return Order::Scan(scan);
    }
    if !ty.is_float() || !matches!(reduce.reducer, Reducer::Sum | Reducer::Prod) {
        return Order::Exact;
    }
    sharing(kernel, reduce, outer).map_or(Order::Canonical, Order::Sharing)
}

/// Expressions that a reduction evaluates per term.
fn terms(reduce: &Reduce) -> impl Iterator<Item = ExprId> {
    reduce.filter.into_iter().chain([reduce.body])
}

/// A range from one end to a left-side variable that neither body nor filter mentions.
fn scan(kernel: &Kernel, reduce: &Reduce, left: &[Ranged]) -> Option<Scan> {
    let [Ranged { lo, hi, .. }] = reduce.variables[..] else { return None };
    let candidates = left.iter().map(|ranged| ranged.variable);
    for along in candidates {
        if terms(reduce).any(|root| walk::mentions(kernel, root, along)) {
            continue;
        }
        let fixed = |end: ExprId| walk::at_call(kernel, end);
        if fixed(lo) {
            if let Some(distance @ (0 | 1)) = prover::distance(kernel, hi, along) {
                return Some(Scan { along, direction: Direction::Forward, inclusive: distance == 1 });
            }
        }
        if fixed(hi) {
            if let Some(distance @ (0 | 1)) = prover::distance(kernel, lo, along) {
                return Some(Scan { along, direction: Direction::Backward, inclusive: distance == 0 });
            }
        }
    }
    None
}

/// The free indices, if the reduction's outputs have no data of their own to reduce.
fn sharing(kernel: &Kernel, reduce: &Reduce, outer: &[Ranged]) -> Option<Vec<VariableId>> {
    let ends = || reduce.variables.iter().flat_map(|ranged| [ranged.lo, ranged.hi]);
    let from_array = |root: ExprId| walk::any(kernel, root, |kind| matches!(kind, ExprKind::Read { .. }));
    if ends().any(from_array) {
        return None;
    }
    let roots: Vec<ExprId> = terms(reduce).chain(ends()).collect();
    let free: Vec<Ranged> =
        outer.iter().filter(|ranged| roots.iter().any(|&root| walk::mentions(kernel, root, ranged.variable))).copied().collect();
    if free.is_empty() {
        return None;
    }
    let reduced: Vec<VariableId> = reduce.variables.iter().map(|ranged| ranged.variable).collect();
    let mut through = 0;
    let mut private = false;
    let scope: Vec<Scope> = outer.iter().chain(&reduce.variables).map(|ranged| Scope::Range(*ranged)).collect();
    for root in terms(reduce) {
        walk::each(kernel, root, |id| {
            let ExprKind::Read { subscripts, .. } = &kernel.exprs[id].kind else { return };
            let mentions = |subscript: &Subscript| reduced.iter().any(|&variable| walk::mentions(kernel, subscript.index, variable));
            if subscripts.iter().any(mentions) {
                through += 1;
                private = private || is_private(kernel, &scope, subscripts, &free, &reduced);
            }
        });
    }
    (through > 0 && !private).then(|| free.iter().map(|ranged| ranged.variable).collect())
}

/// Whether every free index with more than one value is recovered from the subscripts of a read.
fn is_private(kernel: &Kernel, scope: &[Scope], subscripts: &[Subscript], free: &[Ranged], reduced: &[VariableId]) -> bool {
    free.iter().all(|ranged| {
        prover::at_most_one(kernel, ranged)
            || subscripts
                .iter()
                .filter(|subscript| no_rule(&subscript.bounds))
                .any(|subscript| prover::recovers(kernel, scope, subscript.index, ranged.variable, reduced))
    })
}

fn no_rule(bounds: &Bounds) -> bool {
    matches!(bounds, Bounds::Proved | Bounds::Checked | Bounds::Assumed)
}

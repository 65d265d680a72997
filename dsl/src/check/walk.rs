//! Walks over typed expressions that do not recurse along chains of operators.

use super::lower::Lower;
use crate::program::*;
use std::collections::HashMap;

/// The expressions right below one.
pub(crate) fn children(kind: &ExprKind, out: &mut Vec<ExprId>) {
    match kind {
        ExprKind::Literal(_) | ExprKind::Dim(_) | ExprKind::Variable(_) | ExprKind::Scalar(_) | ExprKind::Local(_) => {}
        ExprKind::Read { subscripts, .. } => {
            for subscript in subscripts {
                out.push(subscript.index);
                if let Bounds::Constant(value) = subscript.bounds {
                    out.push(value);
                }
            }
        }
        ExprKind::Reduce(reduce) => {
            for ranged in &reduce.variables {
                out.extend([ranged.lo, ranged.hi]);
            }
            out.extend(reduce.filter);
            out.push(reduce.body);
        }
        ExprKind::Unary(_, a) | ExprKind::Cast(a) => out.push(*a),
        ExprKind::Binary(_, a, b) => out.extend([*a, *b]),
        ExprKind::If { condition, then, otherwise } => out.extend([*condition, *then, *otherwise]),
        ExprKind::Builtin(_, arguments) | ExprKind::Call(_, arguments) => out.extend(arguments),
    }
}

/// Calls `f` for an expression and all below it.
pub(crate) fn each(kernel: &Kernel, root: ExprId, mut f: impl FnMut(ExprId)) {
    let mut stack = vec![root];
    while let Some(id) = stack.pop() {
        f(id);
        children(&kernel.exprs[id].kind, &mut stack);
    }
}

/// Whether any expression below satisfies a condition.
pub(crate) fn any(kernel: &Kernel, root: ExprId, mut f: impl FnMut(&ExprKind) -> bool) -> bool {
    let mut found = false;
    each(kernel, root, |id| found = found || f(&kernel.exprs[id].kind));
    found
}

/// Whether an expression mentions a variable.
pub(crate) fn mentions(kernel: &Kernel, root: ExprId, variable: VariableId) -> bool {
    any(kernel, root, |kind| *kind == ExprKind::Variable(variable))
}

/// Whether an expression has its value at the call: made of dims, scalars and literals.
pub(crate) fn at_call(kernel: &Kernel, root: ExprId) -> bool {
    !any(kernel, root, |kind| {
        matches!(kind, ExprKind::Variable(_) | ExprKind::Read { .. } | ExprKind::Reduce(_) | ExprKind::Call(..) | ExprKind::Local(_))
    })
}

/// The kind with its children, arrays, variables and functions replaced.
pub(crate) fn map(
    kind: &ExprKind,
    expr: &mut dyn FnMut(ExprId) -> ExprId,
    variable: &mut dyn FnMut(VariableId) -> VariableId,
    array: &mut dyn FnMut(ArrayId) -> ArrayId,
) -> ExprKind {
    match kind {
        ExprKind::Literal(value) => ExprKind::Literal(*value),
        ExprKind::Dim(dim) => ExprKind::Dim(*dim),
        ExprKind::Variable(id) => ExprKind::Variable(variable(*id)),
        ExprKind::Scalar(scalar) => ExprKind::Scalar(*scalar),
        ExprKind::Local(local) => ExprKind::Local(*local),
        ExprKind::Read { array: id, subscripts } => {
            let subscripts = subscripts.iter().map(|subscript| self::subscript(subscript, expr)).collect();
            ExprKind::Read { array: array(*id), subscripts }
        }
        ExprKind::Reduce(reduce) => {
            let variables = reduce
                .variables
                .iter()
                .map(|ranged| Ranged { variable: variable(ranged.variable), lo: expr(ranged.lo), hi: expr(ranged.hi) })
                .collect();
            let order = match &reduce.order {
                Order::Sharing(free) => Order::Sharing(free.iter().map(|&id| variable(id)).collect()),
                Order::Scan(scan) => Order::Scan(Scan { along: variable(scan.along), ..scan.clone() }),
                other => other.clone(),
            };
            ExprKind::Reduce(Box::new(Reduce {
                reducer: reduce.reducer,
                variables,
                filter: reduce.filter.map(&mut *expr),
                body: expr(reduce.body),
                order,
                fused: reduce.fused,
            }))
        }
        ExprKind::Unary(op, a) => ExprKind::Unary(*op, expr(*a)),
        ExprKind::Cast(a) => ExprKind::Cast(expr(*a)),
        ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, expr(*a), expr(*b)),
        ExprKind::If { condition, then, otherwise } => {
            ExprKind::If { condition: expr(*condition), then: expr(*then), otherwise: expr(*otherwise) }
        }
        ExprKind::Builtin(builtin, arguments) => ExprKind::Builtin(*builtin, arguments.iter().map(|&a| expr(a)).collect()),
        ExprKind::Call(function, arguments) => ExprKind::Call(*function, arguments.iter().map(|&a| expr(a)).collect()),
    }
}

/// A subscript with its expressions replaced.
pub(crate) fn subscript(subscript: &Subscript, expr: &mut dyn FnMut(ExprId) -> ExprId) -> Subscript {
    let bounds = match &subscript.bounds {
        Bounds::Constant(value) => Bounds::Constant(expr(*value)),
        other => other.clone(),
    };
    Subscript { index: expr(subscript.index), bounds }
}

/// Expressions below one, each after what it is made of, itself last.
pub(crate) fn in_order(kernel: &Kernel, root: ExprId) -> Vec<ExprId> {
    let mut all = Vec::new();
    each(kernel, root, |id| all.push(id));
    all.sort_unstable();
    all.dedup();
    all // children are made before what holds them
}

/// Copies an expression; variables that it introduces become new ones, others are replaced as `variables` says.
pub(crate) fn copy(lower: &mut Lower, root: ExprId, variables: &HashMap<VariableId, VariableId>) -> ExprId {
    let mut variables = variables.clone();
    let mut copies: HashMap<ExprId, ExprId> = HashMap::new();
    let order = in_order(&lower.kernel, root);
    for &id in &order {
        if let ExprKind::Reduce(reduce) = &lower.kernel.exprs[id].kind {
            for ranged in reduce.variables.clone() {
                let fresh = lower.kernel.variables[ranged.variable].clone();
                let fresh = lower.kernel.variables.push(fresh);
                variables.insert(ranged.variable, fresh);
            }
        }
    }
    for id in order {
        let Expr { kind, span, .. } = lower.kernel.exprs[id].clone();
        let kind = map(
            &kind,
            &mut |child| copies.get(&child).copied().unwrap_or(child),
            &mut |variable| variables.get(&variable).copied().unwrap_or(variable),
            &mut |array| array,
        );
        let ty = lower.ty(id);
        let new = lower.push(kind, ty, span);
        if let Some(number) = lower.literals.iter().find(|(literal, _)| *literal == id).map(|(_, number)| number.clone()) {
            lower.literals.push((new, number));
        }
        copies.insert(id, new);
    }
    copies.get(&root).copied().unwrap_or(root)
}

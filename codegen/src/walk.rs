//! Walking typed expressions: which variables and arrays they mention, whether they are guarded, what they cost.

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Kernel, Ranged, Statement, Subscript, VariableId};
use gpukc_dsl::types::{BinaryOp, Builtin};

/// The direct operands of an expression, subscripts and boundary constants of a read, ranges, filter and body of a reduction
/// included. `guarded` tells of each whether it may be left unevaluated when the expression is evaluated.
pub fn operands(kernel: &Kernel, id: ExprId) -> Vec<(ExprId, bool)> {
    operands_of(&kernel.exprs[id].kind)
}

/// The same of an expression of a kernel or of a function.
pub fn operands_of(kind: &ExprKind) -> Vec<(ExprId, bool)> {
    match kind {
        ExprKind::Literal(_) | ExprKind::Dim(_) | ExprKind::Variable(_) | ExprKind::Scalar(_) | ExprKind::Local(_) => Vec::new(),
        ExprKind::Read { subscripts, .. } => subscripts.iter().flat_map(subscript_operands).collect(),
        ExprKind::Reduce(reduce) => {
            let ranges = reduce.variables.iter().flat_map(|v| [(v.lo, false), (v.hi, false)]);
            let filtered = reduce.filter.is_some();
            ranges.chain(reduce.filter.map(|f| (f, true))).chain([(reduce.body, filtered)]).collect()
        }
        ExprKind::Unary(_, x) | ExprKind::Cast(x) => vec![(*x, false)],
        ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, b) => vec![(*a, false), (*b, true)],
        ExprKind::Binary(_, a, b) => vec![(*a, false), (*b, false)],
        ExprKind::If { condition, then, otherwise } => vec![(*condition, false), (*then, true), (*otherwise, true)],
        ExprKind::Builtin(_, arguments) | ExprKind::Call(_, arguments) => arguments.iter().map(|a| (*a, false)).collect(),
    }
}

fn subscript_operands(subscript: &Subscript) -> Vec<(ExprId, bool)> {
    match subscript.bounds {
        Bounds::Constant(value) => vec![(subscript.index, false), (value, true)],
        _ => vec![(subscript.index, false)],
    }
}

/// Visits `id` and everything below it, until `visit` gives false for a subtree.
pub fn walk(kernel: &Kernel, id: ExprId, visit: &mut impl FnMut(ExprId) -> bool) {
    // An explicit stack: a sum of thousands of terms is thousands of nodes deep.
    let mut stack = vec![id];
    while let Some(id) = stack.pop() {
        if visit(id) {
            let below = operands(kernel, id);
            stack.extend(below.into_iter().rev().map(|(operand, _)| operand));
        }
    }
}

/// Every read in `id`, in order of the text.
pub fn reads(kernel: &Kernel, id: ExprId) -> Vec<ExprId> {
    let mut found = Vec::new();
    walk(kernel, id, &mut |id| {
        if matches!(kernel.exprs[id].kind, ExprKind::Read { .. }) {
            found.push(id);
        }
        true
    });
    found
}

/// Whether a statement's value is computed from this array.
pub fn reads_array(kernel: &Kernel, statement: &Statement, wanted: ArrayId) -> bool {
    let is = |read: ExprId| matches!(&kernel.exprs[read].kind, ExprKind::Read { array, .. } if *array == wanted);
    reads(kernel, statement.value).into_iter().any(is)
}

/// The reads that are evaluated wherever `value` is, outside of reductions: to load them ahead reads nothing that the program
/// does not read.
pub fn sure_reads(kernel: &Kernel, value: ExprId) -> Vec<ExprId> {
    let mut found = Vec::new();
    let mut stack = vec![value];
    while let Some(id) = stack.pop() {
        match &kernel.exprs[id].kind {
            ExprKind::Read { .. } => found.push(id),
            ExprKind::Reduce(_) => continue,
            _ => {}
        }
        let below = operands(kernel, id);
        stack.extend(below.into_iter().rev().filter(|(_, guarded)| !guarded).map(|(operand, _)| operand));
    }
    found
}

/// Whether `id` mentions a variable.
pub fn mentions(kernel: &Kernel, id: ExprId, variable: VariableId) -> bool {
    let mut found = false;
    walk(kernel, id, &mut |id| {
        found |= kernel.exprs[id].kind == ExprKind::Variable(variable);
        !found
    });
    found
}

/// Puts other variables in the place of some, one for one, in these expressions and all below them.
pub fn rename(kernel: &mut Kernel, roots: &[ExprId], from: &[Ranged], to: &[Ranged]) {
    let mut places = Vec::new();
    for root in roots {
        walk(kernel, *root, &mut |id| {
            if let ExprKind::Variable(variable) = kernel.exprs[id].kind {
                let counterpart = from.iter().zip(to).find(|(range, _)| range.variable == variable);
                places.extend(counterpart.map(|(_, range)| (id, range.variable)));
            }
            true
        });
    }
    places.into_iter().for_each(|(id, variable)| kernel.exprs[id].kind = ExprKind::Variable(variable));
}

/// Whether `id` holds a reduction.
pub fn has_reduction(kernel: &Kernel, id: ExprId) -> bool {
    let mut found = false;
    walk(kernel, id, &mut |id| {
        found |= matches!(kernel.exprs[id].kind, ExprKind::Reduce(_));
        !found
    });
    found
}

/// Whether evaluating `id` can report an index out of range.
pub fn can_fail(kernel: &Kernel, id: ExprId) -> bool {
    reads(kernel, id).into_iter().any(|read| {
        let ExprKind::Read { subscripts, .. } = &kernel.exprs[read].kind else { return false };
        subscripts.iter().any(|s| !matches!(s.bounds, Bounds::Proved | Bounds::Assumed | Bounds::Constant(_)))
    })
}

/// About how many instructions one evaluation of `id` takes, reductions aside.
pub fn cost(kernel: &Kernel, id: ExprId) -> u32 {
    let mut total = 0u32;
    walk(kernel, id, &mut |id| {
        total = total.saturating_add(match &kernel.exprs[id].kind {
            ExprKind::Binary(BinaryOp::Div | BinaryOp::Rem, ..) => 10,
            ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::If { .. } | ExprKind::Cast(_) => 1,
            ExprKind::Builtin(Builtin::Abs | Builtin::Min | Builtin::Max | Builtin::MulAdd, _) => 1,
            ExprKind::Builtin(..) => 12,
            ExprKind::Call(..) => 20,
            _ => 0,
        });
        // The arithmetic of a subscript is counted with the read.
        !matches!(kernel.exprs[id].kind, ExprKind::Read { .. })
    });
    total
}

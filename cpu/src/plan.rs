//! Walks over expressions: what they mention, which reductions they hold.

use gpukc_dsl::program::*;

use crate::build::Context;

/// The direct parts of an expression; of a reduction its ranges, filter and body.
pub fn parts(kernel: &Kernel, expr: ExprId) -> Vec<ExprId> {
    let of = |subscripts: &[Subscript]| -> Vec<ExprId> {
        let mut parts = Vec::new();
        for subscript in subscripts {
            parts.push(subscript.index);
            if let Bounds::Constant(value) = subscript.bounds {
                parts.push(value);
            }
        }
        parts
    };
    match &kernel.exprs[expr].kind {
        ExprKind::Literal(_) | ExprKind::Dim(_) | ExprKind::Variable(_) | ExprKind::Scalar(_) | ExprKind::Local(_) => Vec::new(),
        ExprKind::Read { subscripts, .. } => of(subscripts),
        ExprKind::Reduce(reduce) => {
            let mut parts: Vec<ExprId> = reduce.variables.iter().flat_map(|v| [v.lo, v.hi]).collect();
            parts.extend(reduce.filter);
            parts.push(reduce.body);
            parts
        }
        ExprKind::Unary(_, a) | ExprKind::Cast(a) => vec![*a],
        ExprKind::Binary(_, a, b) => vec![*a, *b],
        ExprKind::If { condition, then, otherwise } => vec![*condition, *then, *otherwise],
        ExprKind::Builtin(_, arguments) | ExprKind::Call(_, arguments) => arguments.clone(),
    }
}

/// The variables that an expression mentions and does not bind.
pub fn mentioned(context: Context, expr: ExprId) -> Vec<VariableId> {
    let mut out = Vec::new();
    mention(context.kernel, expr, &mut Vec::new(), &mut out);
    out
}

/// The same for several expressions, less what is bound around them.
pub fn mentioned_by(kernel: &Kernel, exprs: &[ExprId], bound: &[VariableId]) -> Vec<VariableId> {
    let mut out = Vec::new();
    for &expr in exprs {
        mention(kernel, expr, &mut bound.to_vec(), &mut out);
    }
    out
}

fn mention(kernel: &Kernel, expr: ExprId, bound: &mut Vec<VariableId>, out: &mut Vec<VariableId>) {
    match &kernel.exprs[expr].kind {
        ExprKind::Variable(variable) => {
            if !bound.contains(variable) && !out.contains(variable) {
                out.push(*variable);
            }
        }
        ExprKind::Reduce(reduce) => {
            for ranged in &reduce.variables {
                mention(kernel, ranged.lo, bound, out);
                mention(kernel, ranged.hi, bound, out);
            }
            bound.extend(reduce.variables.iter().map(|v| v.variable));
            for part in reduce.filter.into_iter().chain([reduce.body]) {
                mention(kernel, part, bound, out);
            }
            bound.truncate(bound.len() - reduce.variables.len());
        }
        _ => {
            for part in parts(kernel, expr) {
                mention(kernel, part, bound, out);
            }
        }
    }
}

/// A reduction in a statement's value.
pub struct Found {
    pub expr: ExprId,
    /// It stands where it may not be evaluated.
    pub guarded: bool,
    /// Reductions around it.
    pub around: Vec<ExprId>,
}

/// All reductions of an expression, outer ones first.
pub fn reductions(kernel: &Kernel, expr: ExprId) -> Vec<Found> {
    let mut out = Vec::new();
    find(kernel, expr, false, &mut Vec::new(), &mut out);
    out
}

fn find(kernel: &Kernel, expr: ExprId, guarded: bool, around: &mut Vec<ExprId>, out: &mut Vec<Found>) {
    use gpukc_dsl::types::BinaryOp;
    match &kernel.exprs[expr].kind {
        ExprKind::Reduce(reduce) => {
            out.push(Found { expr, guarded, around: around.clone() });
            for ranged in &reduce.variables {
                find(kernel, ranged.lo, guarded, around, out);
                find(kernel, ranged.hi, guarded, around, out);
            }
            around.push(expr);
            if let Some(filter) = reduce.filter {
                find(kernel, filter, guarded, around, out);
            }
            find(kernel, reduce.body, guarded || reduce.filter.is_some(), around, out);
            around.pop();
        }
        ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
            find(kernel, *a, guarded, around, out);
            find(kernel, *b, true, around, out);
        }
        ExprKind::If { condition, then, otherwise } => {
            find(kernel, *condition, guarded, around, out);
            find(kernel, *then, true, around, out);
            find(kernel, *otherwise, true, around, out);
        }
        _ => {
            for part in parts(kernel, expr) {
                find(kernel, part, guarded, around, out);
            }
        }
    }
}

/// Whether evaluating an expression where the program does not may fail, or never end.
pub fn may_fail(context: Context, expr: ExprId) -> bool {
    if let ExprKind::Read { array, subscripts } = &context.kernel.exprs[expr].kind {
        let extents = &context.extents[array.index()];
        for (subscript, &extent) in subscripts.iter().zip(extents) {
            match subscript.bounds {
                Bounds::Checked => return true,
                Bounds::Proved | Bounds::Assumed | Bounds::Constant(_) | Bounds::Drop => {}
                _ if extent == 0 => return true,
                _ => {}
            }
        }
    }
    if let ExprKind::Call(function, _) = &context.kernel.exprs[expr].kind
        && may_run_on(context.program, *function)
    {
        return true;
    }
    parts(context.kernel, expr).into_iter().any(|part| may_fail(context, part))
}

/// Whether a function holds a loop, which may have no end for arguments that it is never given.
fn may_run_on(program: &Program, function: FunctionId) -> bool {
    fn holds(statements: &[LocalStatement]) -> bool {
        statements.iter().any(|statement| match statement {
            LocalStatement::Set(..) => false,
            LocalStatement::While(..) | LocalStatement::For(..) => true,
            LocalStatement::If(_, then, otherwise) => holds(then) || holds(otherwise),
        })
    }
    let function = &program.functions[function];
    holds(&function.body)
        || function.exprs.iter().any(|(_, expr)| match &expr.kind {
            ExprKind::Call(inner, _) => may_run_on(program, *inner),
            _ => false,
        })
}

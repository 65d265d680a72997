//! Walks over syntax without recursion: chains and nesting of any depth.

use crate::ast::*;

/// Calls `f` for the expression and everything inside, outer before inner, in order of the text among siblings.
pub(crate) fn each<'a>(root: &'a Expr, mut f: impl FnMut(&'a Expr)) {
    let mut stack = vec![root];
    while let Some(e) = stack.pop() {
        f(e);
        let from = stack.len();
        children(e, &mut stack);
        stack[from..].reverse();
    }
}

fn children<'a>(e: &'a Expr, out: &mut Vec<&'a Expr>) {
    match &e.kind {
        ExprKind::Number(_) | ExprKind::Bool(_) | ExprKind::Name(_) | ExprKind::Path(..) | ExprKind::Error => {}
        ExprKind::Paren(inner) | ExprKind::Unary(_, _, inner) | ExprKind::Cast(inner, _) => out.push(inner),
        ExprKind::Index { subscripts, .. } => {
            for subscript in subscripts {
                subscript_children(subscript, out);
            }
        }
        ExprKind::Call { arguments, .. } => out.extend(arguments),
        ExprKind::Reduce { variables, filter, body, .. } => {
            for range in variables.iter().filter_map(|variable| variable.range.as_ref()) {
                out.extend([&range.lo, &range.hi]);
            }
            out.extend(filter.as_deref());
            out.push(body);
        }
        ExprKind::Binary(_, _, a, b) => out.extend([a.as_ref(), b.as_ref()]),
        ExprKind::If { condition, then, otherwise } => {
            out.push(condition);
            block_children(then, out);
            block_children(otherwise, out);
        }
    }
}

/// The expressions of a subscript.
pub(crate) fn subscript_children<'a>(subscript: &'a Subscript, out: &mut Vec<&'a Expr>) {
    out.push(&subscript.index);
    if let Some(range) = &subscript.range {
        out.extend([&range.lo, &range.hi]);
    }
    if let Some(Rule::Value(value)) = &subscript.rule {
        out.push(value);
    }
}

/// The expressions that stand in a block, at any level.
pub(crate) fn block_children<'a>(block: &'a Block, out: &mut Vec<&'a Expr>) {
    let mut blocks = vec![block];
    while let Some(block) = blocks.pop() {
        for statement in &block.statements {
            match &statement.kind {
                LocalStatementKind::Let { value, .. } | LocalStatementKind::Assign { value, .. } => out.push(value),
                LocalStatementKind::While { condition, body } => {
                    out.push(condition);
                    blocks.push(body);
                }
                LocalStatementKind::For { range, body, .. } => {
                    out.extend([&range.lo, &range.hi]);
                    blocks.push(body);
                }
                LocalStatementKind::If { condition, then, otherwise } => {
                    out.push(condition);
                    blocks.push(then);
                    blocks.extend(otherwise);
                }
            }
        }
        out.extend(&block.value);
    }
}

/// The expressions of a kernel's statement.
pub(crate) fn statement_exprs(statement: &Statement) -> Vec<&Expr> {
    let mut out = Vec::new();
    match &statement.kind {
        StatementKind::Define { target, value }
        | StatementKind::Let { target, value, .. }
        | StatementKind::Accumulate { target, value, .. } => {
            for subscript in target.subscripts.iter().flatten() {
                subscript_children(subscript, &mut out);
            }
            out.push(value);
        }
        StatementKind::LetCall { value, .. } => out.push(value),
    }
    out
}

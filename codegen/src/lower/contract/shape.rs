//! Recognises contractions: which variables number the output's rows and columns, and which subexpressions are leaves.

use gpukc_dsl::program::{Bounds, ExprId, ExprKind, Kernel, Ranged, Reduce, Role, Statement, VariableId};
use gpukc_dsl::types::Type;

use super::super::read::inside_everywhere;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::size;
use crate::walk;

/// A subexpression that is staged through shared memory.
pub struct Leaf {
    /// Its occurrences in the body.
    pub exprs: Vec<ExprId>,
    pub ty: Type,
    /// Whether it belongs to the output's rows or columns.
    pub side: Side,
    /// Whether its memory runs along the terms (else along the output's side).
    pub along_terms: bool,
    /// The read that 16-byte (for f16: 8-byte) accesses can serve, if the facts promise aligned rows.
    pub wide: Option<ExprId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Row,
    Column,
}

pub struct Shape {
    pub batch: Vec<Ranged>,
    pub row: Ranged,
    pub column: Ranged,
    pub term: Ranged,
    pub leaves: Vec<Leaf>,
}

/// Whether this schedule takes the statement.
pub fn applies(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> bool {
    shape(kernel, facts, statement, reduce).is_some()
}

/// The shape of a contraction, if the statement is one.
pub fn shape(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> Option<Shape> {
    let ([term], None) = (reduce.variables.as_slice(), reduce.filter) else { return None };
    let term_known =
        size::extent(kernel, facts, term).is_some() && size::formula(kernel, facts, term.lo) == Some(Formula::Constant(0));
    let (column, before) = statement.variables.split_last()?;
    // The row variable: the last other one that no read shares with the column variable.
    let together = |variable: VariableId| {
        walk::reads(kernel, reduce.body)
            .into_iter()
            .any(|r| walk::mentions(kernel, r, variable) && walk::mentions(kernel, r, column.variable))
    };
    let mentioned = |v: &&Ranged| walk::mentions(kernel, reduce.body, v.variable);
    let row = *before.iter().rev().filter(mentioned).find(|v| !together(v.variable))?;
    if !term_known || !walk::mentions(kernel, reduce.body, column.variable) || walk::can_fail(kernel, reduce.body) {
        return None;
    }
    let batch = before.iter().filter(|v| v.variable != row.variable).copied().collect();
    let mut leaves = Vec::new();
    collect(kernel, facts, reduce.body, &row, column, term, &mut leaves)?;
    let one_each = leaves.iter().any(|l: &Leaf| l.side == Side::Row) && leaves.iter().any(|l| l.side == Side::Column);
    (one_each && leaves.len() <= 4).then_some(Shape { batch, row, column: *column, term: *term, leaves })
}

/// Collects the leaves of `id`; `None` if part of it is no function of leaves.
fn collect(
    kernel: &Kernel,
    facts: &Facts,
    id: ExprId,
    row: &Ranged,
    column: &Ranged,
    term: &Ranged,
    leaves: &mut Vec<Leaf>,
) -> Option<()> {
    let mentions = |range: &Ranged| walk::mentions(kernel, id, range.variable);
    let (has_row, has_column, has_term) = (mentions(row), mentions(column), mentions(term));
    if !has_row && !has_column && !has_term && walk::reads(kernel, id).is_empty() {
        return Some(());
    }
    if !(has_row && has_column) {
        let side = if has_column { Side::Column } else { Side::Row };
        let same = |leaf: &&mut Leaf| leaf.side == side && same_value(kernel, leaf.exprs[0], id);
        if let Some(leaf) = leaves.iter_mut().find(same) {
            leaf.exprs.push(id);
            return Some(());
        }
        let along_terms = runs_along(kernel, facts, id, term);
        let outer = if side == Side::Row { row } else { column };
        let wide = wide_read(kernel, facts, id, if along_terms { term } else { outer });
        leaves.push(Leaf { exprs: vec![id], ty: kernel.exprs[id].ty, side, along_terms, wide });
        return Some(());
    }
    if matches!(kernel.exprs[id].kind, ExprKind::Read { .. } | ExprKind::Variable(_) | ExprKind::Reduce(_)) {
        return None;
    }
    walk::operands(kernel, id).into_iter().try_for_each(|(operand, guarded)| {
        let ranges = [*row, *column, *term];
        // A leaf is loaded whatever guards it.
        let inside = |read: &ExprId| match &kernel.exprs[*read].kind {
            ExprKind::Read { array, subscripts } => inside_everywhere(kernel, facts, *array, subscripts, &ranges),
            _ => false,
        };
        let safe = !guarded || walk::reads(kernel, operand).iter().all(inside);
        safe.then_some(())?;
        collect(kernel, facts, operand, row, column, term, leaves)
    })
}

fn runs_along(kernel: &Kernel, facts: &Facts, id: ExprId, term: &Ranged) -> bool {
    walk::reads(kernel, id).into_iter().any(|read| {
        let ExprKind::Read { subscripts, .. } = &kernel.exprs[read].kind else { return false };
        let last = subscripts.last().and_then(|s| size::linear(kernel, facts, s.index));
        last.is_some_and(|last| last.coefficient(term.variable) == Formula::Constant(1))
    })
}

/// The one read of a leaf, if packs of four of its elements along `range` are aligned, and wholly inside or outside.
fn wide_read(kernel: &Kernel, facts: &Facts, id: ExprId, range: &Ranged) -> Option<ExprId> {
    let reads = walk::reads(kernel, id);
    let [read] = reads.as_slice() else { return None };
    // Packs are loaded whatever the leaf's own conditions say.
    if walk::sure_reads(kernel, id) != reads {
        return None;
    }
    let ExprKind::Read { array, subscripts } = &kernel.exprs[*read].kind else { return None };
    let plain = subscripts.iter().all(|s| matches!(s.bounds, Bounds::Proved));
    let (last, before) = subscripts.split_last()?;
    let along = size::linear(kernel, facts, last.index).and_then(|l| l.alone()) == Some(range.variable);
    let elsewhere = before.iter().any(|s| walk::mentions(kernel, s.index, range.variable));
    let array = &kernel.arrays[*array];
    let pitch = size::formula(kernel, facts, *array.shape.last()?)?;
    let whole = facts.multiple(&pitch, 4) && facts.multiple(&size::extent(kernel, facts, range)?, 4);
    let in_memory = array.role != Role::Let;
    (plain && along && !elsewhere && whole && facts.aligned && in_memory && array.element.size() <= 4).then_some(*read)
}

/// Whether two expressions are the same text over the same variables.
fn same_value(kernel: &Kernel, a: ExprId, b: ExprId) -> bool {
    let (x, y) = (&kernel.exprs[a], &kernel.exprs[b]);
    let head = |kind: &ExprKind| match kind {
        ExprKind::Literal(value) => format!("{value:?}"),
        ExprKind::Dim(id) => format!("dim {id:?}"),
        ExprKind::Variable(id) => format!("variable {id:?}"),
        ExprKind::Scalar(id) => format!("scalar {id:?}"),
        ExprKind::Local(id) => format!("local {id:?}"),
        ExprKind::Read { array, subscripts } => {
            let rules: Vec<_> = subscripts.iter().map(|s| std::mem::discriminant(&s.bounds)).collect();
            format!("read {array:?} {rules:?}")
        }
        ExprKind::Unary(op, _) => format!("{op:?}"),
        ExprKind::Binary(op, ..) => format!("{op:?}"),
        ExprKind::Cast(_) => "cast".into(),
        ExprKind::If { .. } => "if".into(),
        ExprKind::Builtin(builtin, _) => format!("{builtin:?}"),
        ExprKind::Call(function, _) => format!("call {function:?}"),
        // Never taken for the same.
        ExprKind::Reduce(_) => format!("reduce {a:?} {b:?} {:p}", kind),
    };
    let (below_x, below_y) = (walk::operands(kernel, a), walk::operands(kernel, b));
    x.ty == y.ty
        && head(&x.kind) == head(&y.kind)
        && below_x.len() == below_y.len()
        && below_x.iter().zip(&below_y).all(|(p, q)| same_value(kernel, p.0, q.0))
}

//! What the passes share: an expression that becomes a `let` of its own.

use gpukc_dsl::program::{
    Array, Attributes, Bounds, Expr, ExprId, ExprKind, Kernel, Ranged, Role, Statement, StatementKind, Subscript,
};
use gpukc_dsl::types::Type;

use crate::facts::Facts;
use crate::size;

/// Whether a `let` can range over these variables: from a constant on, to what is known at the call.
pub fn can_range(kernel: &Kernel, facts: &Facts, variables: &[Ranged]) -> bool {
    variables.iter().all(|v| {
        size::formula(kernel, facts, v.lo).and_then(|lo| lo.constant()).is_some_and(|lo| lo >= 0)
            && size::formula(kernel, facts, v.hi).is_some()
    })
}

/// Moves the expression `root` into a `let` over these variables, named after `stem`; a read of it stays behind.
pub fn into_let(kernel: &mut Kernel, root: ExprId, stem: &str, variables: Vec<Ranged>, attributes: &Attributes) -> Statement {
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

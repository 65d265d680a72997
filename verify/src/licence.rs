//! Which results a program allows to differ: those that `@fast_math` or float accumulation in no particular order goes into.

use std::collections::BTreeSet;

use gpukc_dsl::program::{ArrayId, ExprKind, Kernel, Statement, StatementKind};
use gpukc_dsl::types::AccumulateOp;

/// What licensed results may be away from one another, as a share of the largest finite magnitude of the reference.
pub const TOLERANCE: f64 = 1.0 / 256.0;

/// Whether a statement adds or multiplies floats in no particular order.
pub fn is_unordered(kernel: &Kernel, statement: &Statement) -> bool {
    let StatementKind::Accumulate { op, .. } = statement.kind else { return false };
    matches!(op, AccumulateOp::Add | AccumulateOp::Mul)
        && kernel.arrays[statement.array].element.is_float()
        && !statement.attributes.deterministic
}

/// Whether a kernel uses hardware approximations anywhere.
pub fn is_fast(kernel: &Kernel) -> bool {
    kernel.attributes.fast_math || kernel.statements.iter().any(|s| s.attributes.fast_math)
}

/// The arrays whose bits depend on a licence: directly, or by what their statements read.
pub fn licensed(kernel: &Kernel) -> BTreeSet<ArrayId> {
    let mut found = BTreeSet::new();
    for statement in &kernel.statements {
        let subscripts = statement.subscripts.iter().map(|s| s.index);
        let reads = subscripts.chain([statement.value]).flat_map(|expr| gpukc_codegen::walk::reads(kernel, expr));
        let inherits = reads.into_iter().any(|read| match kernel.exprs[read].kind {
            ExprKind::Read { array, .. } => found.contains(&array),
            _ => false,
        });
        if inherits || statement.attributes.fast_math || kernel.attributes.fast_math || is_unordered(kernel, statement) {
            found.insert(statement.array);
        }
    }
    found
}

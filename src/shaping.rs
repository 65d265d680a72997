//! Which scalars of a kernel a call's shape depends on. The others may change from call to call at no cost.

use std::collections::BTreeSet;

use gpukc_dsl::program::{Bounds, ExprId, ExprKind, Kernel, Ranged, ScalarId, Subscript};

/// The scalars that extents, conditions, ranges or subscripts mention, in order.
pub(crate) fn scalars(kernel: &Kernel) -> Vec<ScalarId> {
    let mut found = BTreeSet::new();
    for (_, array) in kernel.arrays.iter() {
        array.shape.iter().for_each(|&extent| collect(kernel, extent, &mut found));
    }
    kernel.conditions.iter().for_each(|condition| collect(kernel, condition.holds, &mut found));
    for statement in &kernel.statements {
        ranges(kernel, &statement.variables, &mut found);
        subscripts(kernel, &statement.subscripts, &mut found);
    }
    // Reads and reductions wherever they stand.
    for (_, expr) in kernel.exprs.iter() {
        match &expr.kind {
            ExprKind::Read { subscripts: all, .. } => subscripts(kernel, all, &mut found),
            ExprKind::Reduce(reduce) => ranges(kernel, &reduce.variables, &mut found),
            _ => {}
        }
    }
    found.into_iter().collect()
}

fn ranges(kernel: &Kernel, ranges: &[Ranged], found: &mut BTreeSet<ScalarId>) {
    for range in ranges {
        collect(kernel, range.lo, found);
        collect(kernel, range.hi, found);
    }
}

fn subscripts(kernel: &Kernel, subscripts: &[Subscript], found: &mut BTreeSet<ScalarId>) {
    for subscript in subscripts {
        collect(kernel, subscript.index, found);
        if let Bounds::Constant(value) = subscript.bounds {
            collect(kernel, value, found);
        }
    }
}

fn collect(kernel: &Kernel, id: ExprId, found: &mut BTreeSet<ScalarId>) {
    let mut below = |id: &ExprId| collect(kernel, *id, found);
    match &kernel.exprs[id].kind {
        ExprKind::Scalar(scalar) => drop(found.insert(*scalar)),
        ExprKind::Unary(_, a) | ExprKind::Cast(a) => below(a),
        ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(below),
        ExprKind::If { condition, then, otherwise } => [condition, then, otherwise].into_iter().for_each(below),
        ExprKind::Builtin(_, arguments) | ExprKind::Call(_, arguments) => arguments.iter().for_each(below),
        // Reads and reductions are met on their own.
        ExprKind::Literal(_)
        | ExprKind::Dim(_)
        | ExprKind::Variable(_)
        | ExprKind::Local(_)
        | ExprKind::Read { .. }
        | ExprKind::Reduce(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use gpukc_dsl::source::Source;

    #[test]
    fn scalars_that_only_are_values_do_not_shape() {
        let text = "kernel k(a: f32, lo: i64, width: i64, limit: f32, step: i32, x: f32[n]) -> y: f32[width] \
                    where limit > 0.0, lo >= 0, lo + width <= n { y[i] = if step > 3 { a } else { x[i + lo] }; }";
        let program = gpukc_dsl::check(&Source::new("t", text)).program.unwrap();
        let kernel = &program.kernels[0];
        let names: Vec<&str> = super::scalars(kernel).into_iter().map(|id| kernel.scalars[id].name.as_str()).collect();
        assert_eq!(names, ["lo", "width", "limit"]);
    }
}

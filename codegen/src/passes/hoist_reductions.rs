//! Gives every reduction a statement of its own over exactly the variables that it depends on.
//!
//! `y[i, j] = e[i, j] / sum[k] e[i, k]` becomes `let sum1[i] = sum[k] e[i, k]; y[i, j] = e[i, j] / sum1[i]`: the sum is computed
//! once a row instead of once an element, and the schedules below see reductions only at the top of a statement.
//!
//! Left where they stand: a reduction under a guard (it may not be evaluated at all), one whose variables have ranges that
//! depend on other variables or on data, one with few terms (a window), and one that alone makes up the arithmetic of its
//! statement's every element (`gelu(sum[l] a[i, l] * b[l, j])`: what surrounds it becomes its epilogue), or together with others whose
//! ranges depend on data or on the element.

use std::collections::BTreeSet;

use gpukc_dsl::program::{Attributes, ExprId, ExprKind, Kernel, Ranged, Reduce, Statement, StatementKind, VariableId};

use super::extract;
use crate::facts::Facts;
use crate::size;
use crate::walk;

/// Reductions with at most this many terms are cheaper as a loop in place.
const FEW_TERMS: i64 = 64;

/// Runs the pass.
pub fn run(kernel: &mut Kernel, facts: &Facts) {
    let statements = std::mem::take(&mut kernel.statements);
    for statement in statements {
        let mut hoister = Hoister { kernel, facts, hoisted: Vec::new(), attributes: &statement.attributes };
        hoister.statement(&statement);
        let hoisted = hoister.hoisted;
        kernel.statements.extend(hoisted);
        kernel.statements.push(statement);
    }
}

struct Hoister<'a> {
    kernel: &'a mut Kernel,
    facts: &'a Facts,
    hoisted: Vec<Statement>,
    attributes: &'a Attributes,
}

impl Hoister<'_> {
    fn statement(&mut self, statement: &Statement) {
        let roots = unguarded_reductions(self.kernel, statement.value);
        let own: BTreeSet<VariableId> = statement.variables.iter().map(|v| v.variable).collect();
        // Ranges of each result's own are visited by the same threads, together where they are the same.
        let ragged = roots.iter().all(|root| self.is_ragged(*root));
        let stays = |hoister: &Self, root: ExprId| {
            (roots.len() == 1 || ragged)
                && statement.kind == StatementKind::Define
                && free_variables(hoister.kernel, root, &statement.variables).len() == own.len()
        };
        for &root in &roots {
            let scope = statement.variables.clone();
            self.inside(root, &scope);
            if !stays(self, root) {
                self.hoist(root, &scope);
            }
        }
    }

    /// Hoists what stands unguarded in the body of the reduction `root`.
    fn inside(&mut self, root: ExprId, scope: &[Ranged]) {
        let ExprKind::Reduce(reduce) = self.kernel.exprs[root].kind.clone() else { return };
        if reduce.filter.is_some() || self.terms(&reduce).is_none() {
            return;
        }
        let scope: Vec<Ranged> = scope.iter().chain(&reduce.variables).copied().collect();
        for inner in unguarded_reductions(self.kernel, reduce.body) {
            self.inside(inner, &scope);
            self.hoist(inner, &scope);
        }
    }

    fn is_ragged(&self, root: ExprId) -> bool {
        matches!(&self.kernel.exprs[root].kind, ExprKind::Reduce(reduce) if self.terms(reduce).is_none())
    }

    /// The number of terms, if it is the same for every output.
    fn terms(&self, reduce: &Reduce) -> Option<crate::formula::Formula> {
        let one = crate::formula::Formula::Constant(1);
        reduce.variables.iter().try_fold(one, |n, v| Some(n.times(size::extent(self.kernel, self.facts, v)?)))
    }

    fn hoist(&mut self, root: ExprId, scope: &[Ranged]) {
        let ExprKind::Reduce(reduce) = self.kernel.exprs[root].kind.clone() else { return };
        if self.terms(&reduce).and_then(|n| n.constant()).is_some_and(|n| n <= FEW_TERMS) {
            return;
        }
        self.hoisted.extend(extract::into_let(self.kernel, self.facts, root, scope, self.attributes));
    }
}

/// The outermost reductions below `id` that are evaluated whenever `id` is, in order of the text.
fn unguarded_reductions(kernel: &Kernel, id: ExprId) -> Vec<ExprId> {
    let mut found = Vec::new();
    let mut stack = vec![id];
    while let Some(id) = stack.pop() {
        if matches!(kernel.exprs[id].kind, ExprKind::Reduce(_)) {
            found.push(id);
            continue;
        }
        let below = walk::operands(kernel, id);
        stack.extend(below.into_iter().rev().filter(|(_, guarded)| !guarded).map(|(operand, _)| operand));
    }
    found
}

/// Those variables of `scope` that `id` mentions, in scope's order.
fn free_variables(kernel: &Kernel, id: ExprId, scope: &[Ranged]) -> Vec<Ranged> {
    scope.iter().filter(|v| walk::mentions(kernel, id, v.variable)).copied().collect()
}

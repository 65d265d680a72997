//! Extents that no array can have, and conditions that no call satisfies.

use super::bounds;
use super::lower::Lower;
use crate::call::{Bindings, evaluate};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::*;
use crate::prover;
use crate::types::BinaryOp;

impl Lower<'_> {
    /// Results' dims: proved not to be negative, refuted, or checked at the call.
    pub(crate) fn check_extents(&mut self) {
        self.check_parameters();
        self.check_conditions();
        if self.failed_since(0) {
            return;
        }
        for array in self.kernel.results.clone() {
            for (axis, extent) in self.kernel.arrays[array].shape.clone().into_iter().enumerate() {
                if prover::not_negative(&self.kernel, extent) {
                    continue;
                }
                if let Some(found) = prover::counterexample(&self.kernel, &[], extent, None) {
                    self.negative_extent(array, extent, &found);
                    continue;
                }
                let span = self.span(extent);
                let zero = self.int(0, span);
                let holds = self.expr_bool(BinaryOp::Ge, extent, zero, span);
                let reason = ConditionReason::NotNegative(array, axis, extent);
                self.kernel.conditions.push(Condition { holds, span, reason });
            }
        }
        self.settle();
    }

    fn negative_extent(&mut self, array: ArrayId, extent: ExprId, found: &prover::Counterexample) {
        let name = &self.kernel.arrays[array].name;
        let span = self.span(extent);
        let text = print::expr(&self.kernel, extent);
        let when = bounds::when(&self.kernel, found);
        let value = if text == found.value.to_string() { "negative".to_string() } else { found.value.to_string() };
        let message = format!("the extent `{text}` of `{name}` is {value}{when}");
        if when.is_empty() {
            self.report(Diagnostic::error(codes::NEGATIVE_EXTENT, span, message, "always negative"));
            self.defined[array.index()].broken = true;
            return;
        }
        let help = match extent_condition(&self.kernel, extent) {
            Some(condition) => format!("rule it out with `where {condition}`"),
            None => format!("rule it out with `where {text} >= 0`"),
        };
        self.report(Diagnostic::error(codes::NEGATIVE_EXTENT, span, message, "may be negative").help(help));
        self.defined[array.index()].broken = true;
    }

    /// Extents of parameters that are constants, and no extents.
    fn check_parameters(&mut self) {
        for (id, array) in self.kernel.arrays.iter().filter(|(_, array)| array.role != Role::Let) {
            let extents = array.shape.iter().map(|&extent| match evaluate(&self.kernel, &Bindings::default(), extent) {
                Some(Literal::Int(value)) => Some(value),
                _ => None,
            });
            let extents: Vec<Option<i128>> = extents.collect();
            let (name, span) = (&array.name, array.span);
            if let Some((axis, value)) = extents.iter().enumerate().find_map(|(axis, value)| Some((axis, value.filter(|v| *v < 0)?))) {
                if array.role == Role::Parameter {
                    let extent = array.shape[axis];
                    let text = self.text(self.span(extent));
                    let value = if text == value.to_string() { "negative".to_string() } else { value.to_string() };
                    let message = format!("the extent `{text}` of `{name}` is {value}");
                    let problem = Diagnostic::error(codes::NEGATIVE_EXTENT, self.span(extent), message, "always negative");
                    self.problems.push(problem);
                    self.defined[id.index()].broken = true;
                }
                continue;
            }
            let bytes = extents.iter().try_fold(array.element.size() as i128, |bytes, extent| bytes.checked_mul((*extent)?));
            let beyond = bytes.is_some_and(|bytes| bytes > i128::from(i64::MAX))
                || bytes.is_none() && extents.iter().all(|extent| extent.is_some_and(|extent| extent > 0));
            if beyond {
                let message = format!("`{name}` is larger than any memory: its bytes exceed 2^63");
                self.problems.push(Diagnostic::error(codes::TOO_LARGE, span, message, "too large"));
                self.defined[id.index()].broken = true;
            }
        }
    }

    /// Conditions that contradict one another, or what the extents say.
    fn check_conditions(&mut self) {
        if self.failed_since(0) || self.kernel.conditions.is_empty() || !prover::never_called(&self.kernel) {
            return;
        }
        let all = std::mem::take(&mut self.kernel.conditions);
        let mut culprit = None;
        for condition in &all {
            self.kernel.conditions.push(condition.clone());
            if prover::never_called(&self.kernel) {
                culprit = Some(condition.span);
                break;
            }
        }
        self.kernel.conditions = all;
        let Some(span) = culprit else { return };
        let text = self.text(span);
        let others: Vec<&Condition> = self.kernel.conditions.iter().take_while(|condition| condition.span != span).take(3).collect();
        let label = if others.is_empty() { "never holds" } else { "not together with what stands before" };
        let mut problem = Diagnostic::error(codes::PRECONDITION, span, format!("no call satisfies `{text}`"), label);
        for other in others {
            problem = problem.label(other.span, "this holds");
        }
        self.report(problem);
    }
}

/// `n >= 1` for the extent `n - 1`.
fn extent_condition(kernel: &Kernel, extent: ExprId) -> Option<String> {
    let ExprKind::Binary(BinaryOp::Sub, a, b) = kernel.exprs[extent].kind else { return None };
    Some(format!("{} >= {}", print::expr(kernel, a), print::expr(kernel, b)))
}

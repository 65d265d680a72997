//! Statements that name whole arrays, where elements are defined.

use super::lower::Lower;
use super::names::Binding;
use super::visit;
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::ArrayId;
use crate::source::Span;

impl Lower<'_> {
    /// `y = x + w;` for arrays: what it says of each element.
    pub(crate) fn whole_array(&mut self, array: ArrayId, target: &ast::Target, value: &ast::Expr) {
        if self.called_kernel(value) {
            self.whole_call(array, target, value);
            return;
        }
        let rank = self.kernel.arrays[array].rank();
        let left = super::kernel::left_side("", rank);
        let end = |span: Span| Span { start: span.end, end: span.end };
        let mut edits = vec![(end(target.span), left.clone())];
        visit::each(value, |e| {
            let Ast::Name(name) = &e.kind else { return };
            let binding = self.names.find(name).map(|entry| entry.binding);
            if matches!(binding, Some(Binding::Array(id)) if self.kernel.arrays[id].rank() == rank) {
                edits.push((end(e.span), left.clone()));
            }
        });
        edits.sort();
        let message = format!("`{}` is an array: a statement defines its elements", target.name.text);
        let problem = Diagnostic::error(codes::RANK, target.span, message, "0 subscripts");
        let problem = problem.label(self.kernel.arrays[array].span, format!("declared with rank {rank}"));
        self.report(problem.suggest_edits("say what each element is", edits));
    }

    /// `y = g(x);` for a kernel `g`.
    fn whole_call(&mut self, array: ArrayId, target: &ast::Target, value: &ast::Expr) {
        let message = "a kernel is called by a `let`";
        let problem = Diagnostic::error(codes::KERNEL_IN_EXPRESSION, value.span, message, "a kernel call");
        let name = ["p", "q", "t", "result"].into_iter().find(|name| self.names.find(name).is_none()).unwrap_or("result_");
        let [left, read] = [&target.name.text, name].map(|name| super::kernel::left_side(name, self.kernel.arrays[array].rank()));
        let edits =
            vec![(target.span, format!("let {name}")), (Span { start: value.span.end, ..value.span }, format!("; {left} = {read}"))];
        self.report(problem.suggest_edits("name its result, then define the elements", edits));
    }
}

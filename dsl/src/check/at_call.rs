//! Scalars and functions of the program where only what is known at the call will do: in dims, conditions, and ranges on a left
//! side. A scalar `let` over dims and scalar parameters stands there for its value, a `fn` for its result, if neither loops nor
//! `if` statements lead to it.

use super::infer::Ty;
use super::lower::Lower;
use super::walk;
use crate::program::*;

/// The most nodes that one of them may become: `let`s that square each other would double with each.
const MOST: usize = 4096;

/// What the locals of a function stand for, and how many nodes that is.
type Locals = Vec<Option<(ExprId, usize)>>;

impl Lower<'_> {
    /// What a scalar `let` stands for.
    pub(crate) fn let_at_call(&mut self, array: ArrayId) -> Option<ExprId> {
        self.let_value(array, &mut MOST.clone())
    }

    fn let_value(&mut self, array: ArrayId, left: &mut usize) -> Option<ExprId> {
        let &[number] = self.defined.get(array.index())?.statements.as_slice() else { return None };
        let statement = self.kernel.statements.get(number)?;
        let plain = statement.kind == StatementKind::Define && statement.subscripts.is_empty();
        let value = statement.value;
        if plain { self.resolved(value, left) } else { None }
    }

    /// A copy of an expression of the kernel, scalar `let`s resolved.
    fn resolved(&mut self, id: ExprId, left: &mut usize) -> Option<ExprId> {
        *left = left.checked_sub(1)?;
        let Expr { kind, ty, span } = self.kernel.exprs[id].clone();
        let kind = match kind {
            ExprKind::Literal(_) | ExprKind::Dim(_) | ExprKind::Scalar(_) => return Some(id),
            ExprKind::Read { array, subscripts } if subscripts.is_empty() => return self.let_value(array, left),
            kind => rebuilt(&kind, |child| self.resolved(child, left))?,
        };
        Some(self.push(kind, Ty::Known(ty), span))
    }

    /// What a function gives for these arguments.
    pub(crate) fn function_at_call(&mut self, function: &Function, arguments: &[ExprId]) -> Option<ExprId> {
        let mut locals: Locals = arguments.iter().map(|&argument| Some((argument, self.nodes(argument)))).collect();
        locals.resize(function.locals.len(), None);
        let mut left = MOST;
        for statement in &function.body {
            let LocalStatement::Set(local, value) = statement else { return None };
            let before = left;
            let value = self.inlined(function, *value, &locals, &mut left)?;
            *locals.get_mut(local.index())? = Some((value, before - left));
        }
        self.inlined(function, function.value, &locals, &mut left)
    }

    /// A copy of an expression of a function, for these locals.
    fn inlined(&mut self, function: &Function, id: ExprId, locals: &Locals, left: &mut usize) -> Option<ExprId> {
        *left = left.checked_sub(1)?;
        let Expr { kind, ty, span } = function.exprs[id].clone();
        let kind = match kind {
            ExprKind::Local(local) => {
                let (value, nodes) = (*locals.get(local.index())?)?;
                *left = left.checked_sub(nodes)?;
                return Some(value);
            }
            ExprKind::Literal(_) => kind,
            ExprKind::Call(called, arguments) => {
                let arguments: Option<Vec<ExprId>> = arguments.iter().map(|&a| self.inlined(function, a, locals, left)).collect();
                let items = self.items;
                let called = items.functions.iter().find(|item| item.id == Some(called))?.checked.as_ref()?;
                let result = self.function_at_call(called, &arguments?)?;
                *left = left.checked_sub(self.nodes(result))?;
                return Some(result);
            }
            kind => rebuilt(&kind, |child| self.inlined(function, child, locals, left))?,
        };
        Some(self.push(kind, Ty::Known(ty), span))
    }

    /// The nodes of an expression, as far as they matter.
    fn nodes(&self, root: ExprId) -> usize {
        let mut stack = vec![root];
        let mut count = 0;
        while let Some(id) = stack.pop().filter(|_| count <= MOST) {
            count += 1;
            walk::children(&self.kernel.exprs[id].kind, &mut stack);
        }
        count
    }
}

/// An operator or built-in function over other operands; `None` of what has no value at the call.
fn rebuilt(kind: &ExprKind, mut each: impl FnMut(ExprId) -> Option<ExprId>) -> Option<ExprKind> {
    Some(match kind {
        ExprKind::Unary(op, a) => ExprKind::Unary(*op, each(*a)?),
        ExprKind::Cast(a) => ExprKind::Cast(each(*a)?),
        ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, each(*a)?, each(*b)?),
        ExprKind::If { condition, then, otherwise } => {
            ExprKind::If { condition: each(*condition)?, then: each(*then)?, otherwise: each(*otherwise)? }
        }
        ExprKind::Builtin(builtin, arguments) => {
            ExprKind::Builtin(*builtin, arguments.iter().map(|&argument| each(argument)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

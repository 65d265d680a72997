//! What goes into loops of scalar functions: its values stay small, so that a call's loops end soon.

use std::collections::BTreeSet;

use gpukc_dsl::program::*;

/// Whether each function loops, or calls one that does.
pub(crate) fn loops(program: &Program) -> Vec<bool> {
    let mut looping: Vec<bool> = Vec::new();
    for (_, function) in program.functions.iter() {
        // A function calls only functions that stand before it.
        let calls = function.exprs.iter().any(|(_, expr)| match expr.kind {
            ExprKind::Call(id, _) => looping.get(id.index()).copied().unwrap_or(false),
            _ => false,
        });
        looping.push(calls || function.body.iter().any(has_loop));
    }
    looping
}

fn has_loop(statement: &LocalStatement) -> bool {
    match statement {
        LocalStatement::While(..) | LocalStatement::For(..) => true,
        LocalStatement::If(_, then, otherwise) => then.iter().chain(otherwise).any(has_loop),
        _ => false,
    }
}

/// Parameters whose values loops depend on.
#[derive(Default)]
pub(crate) struct Tame {
    pub scalars: BTreeSet<ScalarId>,
    pub arrays: BTreeSet<ArrayId>,
}

impl Tame {
    pub fn of(program: &Program, kernel: &Kernel) -> Tame {
        let loops = loops(program);
        let mut tame = Tame::default();
        for (_, expr) in kernel.exprs.iter() {
            if let ExprKind::Call(id, arguments) = &expr.kind {
                if loops.get(id.index()).copied().unwrap_or(false) {
                    arguments.iter().for_each(|&argument| tame.note(kernel, argument));
                }
            }
        }
        // What an array that goes into a loop is made of goes there too.
        for statement in kernel.statements.iter().rev() {
            if tame.arrays.contains(&statement.array) {
                tame.note(kernel, statement.value);
            }
        }
        tame
    }

    fn note(&mut self, kernel: &Kernel, expr: ExprId) {
        gpukc_codegen::walk::walk(kernel, expr, &mut |id| {
            match kernel.exprs[id].kind {
                ExprKind::Scalar(scalar) => drop(self.scalars.insert(scalar)),
                ExprKind::Read { array, .. } => drop(self.arrays.insert(array)),
                _ => {}
            }
            true
        });
    }
}

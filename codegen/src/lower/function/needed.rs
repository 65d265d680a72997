//! What of a `fn` its value asks for. A `fn` does nothing but compute its value, so that all the rest of it, such as a `let` that is
//! mentioned nowhere, is left out with the functions that only it calls.

use gpukc_dsl::program::{ExprId, ExprKind, Function, LocalId, LocalStatement};

use crate::walk;

/// The expressions and locals that are asked for, by their numbers.
pub struct Needed {
    exprs: Vec<bool>,
    locals: Vec<bool>,
}

impl Needed {
    /// Of a function.
    pub fn of(function: &Function) -> Needed {
        let mut needed = Needed { exprs: vec![false; function.exprs.len()], locals: vec![false; function.locals.len()] };
        needed.mark(function, function.value);
        // What a loop computes may be asked for by what stands before it there.
        loop {
            let before = needed.locals.clone();
            needed.mark_statements(function, &function.body);
            if needed.locals == before {
                return needed;
            }
        }
    }

    /// Whether an expression is evaluated.
    pub fn has(&self, id: ExprId) -> bool {
        self.exprs[id.index()]
    }

    /// Whether a local is declared.
    pub fn has_local(&self, local: LocalId) -> bool {
        self.locals[local.index()]
    }

    /// Whether a statement is executed.
    pub fn has_statement(&self, statement: &LocalStatement) -> bool {
        match statement {
            LocalStatement::Set(local, _) => self.has_local(*local),
            // It may never end.
            LocalStatement::While(..) => true,
            LocalStatement::For(_, _, _, body) => body.iter().any(|statement| self.has_statement(statement)),
            LocalStatement::If(_, then, otherwise) => then.iter().chain(otherwise).any(|statement| self.has_statement(statement)),
        }
    }

    fn mark_statements(&mut self, function: &Function, statements: &[LocalStatement]) {
        for statement in statements {
            if !self.has_statement(statement) {
                continue;
            }
            match statement {
                LocalStatement::Set(_, value) => self.mark(function, *value),
                LocalStatement::While(condition, body) => {
                    self.mark(function, *condition);
                    self.mark_statements(function, body);
                }
                LocalStatement::For(_, lo, hi, body) => {
                    [lo, hi].into_iter().for_each(|bound| self.mark(function, *bound));
                    self.mark_statements(function, body);
                }
                LocalStatement::If(condition, then, otherwise) => {
                    self.mark(function, *condition);
                    self.mark_statements(function, then);
                    self.mark_statements(function, otherwise);
                }
            }
        }
    }

    fn mark(&mut self, function: &Function, id: ExprId) {
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            if std::mem::replace(&mut self.exprs[id.index()], true) {
                continue;
            }
            let kind = &function.exprs[id].kind;
            if let ExprKind::Local(local) = kind {
                self.locals[local.index()] = true;
            }
            pending.extend(walk::operands_of(kind).into_iter().map(|(operand, _)| operand));
        }
    }
}

#[cfg(test)]
mod tests {
    use gpukc_dsl::source::Source;

    use crate::facts::Facts;
    use crate::target::Target;

    /// The text of the function `f` in a kernel's text, and whether there is a function `g`.
    fn texts(functions: &str) -> (String, bool) {
        let text = format!("{functions} kernel k(x: f32[n]) -> y: f32[n] {{ y[i] = f(x[i]); }}");
        let program = gpukc_dsl::check(&Source::new("needed.gk", &text)).program.expect("a program that checks");
        let target = Target { capability: 90, specific: true };
        let kernel = crate::compile(&program, &program.kernels[0], target, &Facts::default()).expect("a kernel that compiles");
        let of_f = kernel.source.split("float f(").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap_or_default();
        let body = of_f.lines().skip(1).map(|line| line.trim().to_owned() + "\n").collect();
        (body, kernel.source.contains("float g("))
    }

    #[test]
    fn what_the_value_does_not_ask_for_is_left_out() {
        let g = "fn g(x: f32) -> f32 { x * 3.0 }";
        for (body, left, calls) in [
            ("let a = g(x); let b = a + 1.0; x + 1.0", "return x + 1.0f;\n", false),
            ("let a = g(x); let b = a + 1.0; x + a", "const float a = g(x);\nreturn x + a;\n", true),
            ("let mut a = 1.0; a = g(x); x", "return x;\n", false),
            ("let c = x > 0.0; let mut a = 1.0; if c { a = 2.0; } for i in 0..3 { a = a + 1.0; } x", "return x;\n", false),
            (
                "let mut a = x; let mut b = x; for i in 0..3 { a = a + b; b = 2.0 * b; } a",
                "float a = x;\nfloat b = x;\nfor (long long i = 0; i < 3; i++) {\na += b;\nb = 2.0f * b;\n}\nreturn a;\n",
                false,
            ),
        ] {
            assert_eq!(texts(&format!("{g} fn f(x: f32) -> f32 {{ {body} }}")), (left.to_owned(), calls), "{body}");
        }
    }
}

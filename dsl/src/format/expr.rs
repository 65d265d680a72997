//! Expressions, subscripts and the blocks of `if`.

use super::writer::Writer;
use crate::ast::*;
use crate::types::UnaryOp;

impl Writer<'_> {
    /// An expression. Recursive in what the parser limits; chains of operators are not.
    pub fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Number(text) | ExprKind::Name(text) => self.token(text),
            ExprKind::Bool(value) => self.token(if *value { "true" } else { "false" }),
            ExprKind::Path(ty, item) => {
                self.token(&ty.text);
                self.token("::");
                self.token(&item.text);
            }
            ExprKind::Paren(inside) => self.list(["(", ")"], std::slice::from_ref(&**inside), false, Self::expr),
            ExprKind::Index { array, subscripts } => {
                self.token(&array.text);
                self.list(["[", "]"], subscripts, false, Self::subscript);
            }
            ExprKind::Call { function, arguments } => {
                self.token(&function.text);
                self.list(["(", ")"], arguments, true, Self::expr);
            }
            ExprKind::Reduce { reducer, variables, filter, body } => {
                let group = self.begin();
                self.token(reducer.0.name());
                self.variables(variables, filter.as_deref());
                self.indent();
                self.break_here(true);
                self.expr(body);
                self.dedent();
                self.end(group);
            }
            ExprKind::Unary(op, _, inside) => {
                self.token(if *op == UnaryOp::Negate { "-" } else { "!" });
                self.expr(inside);
            }
            ExprKind::Binary(..) => self.chain(expr),
            ExprKind::Cast(value, ty) => {
                self.expr(value);
                self.space();
                self.token("as");
                self.space();
                self.token(&ty.text);
            }
            ExprKind::If { condition, then, otherwise } => {
                let blocks = self.text.get(then.span.start as usize..expr.span.end as usize);
                let one_line = blocks.is_some_and(|blocks| !blocks.contains('\n'));
                self.conditional(condition, then, otherwise, one_line);
            }
            // Not in a text without errors: this reports the disagreement.
            ExprKind::Error => self.token(""),
        }
    }

    /// Operators of one precedence in a row.
    fn chain(&mut self, expr: &Expr) {
        let ExprKind::Binary(last, ..) = &expr.kind else { return };
        let (mut first, mut rest) = (expr, Vec::new());
        while let ExprKind::Binary(op, _, left, right) = &first.kind
            && op.precedence() == last.precedence()
        {
            rest.push((op, &**right));
            first = left;
        }
        let group = self.begin();
        self.expr(first);
        self.indent();
        for (op, operand) in rest.into_iter().rev() {
            self.break_here(true);
            self.token(op.symbol());
            self.space();
            self.expr(operand);
        }
        self.dedent();
        self.end(group);
    }

    /// `[i, j in 0..n if cond]`
    fn variables(&mut self, variables: &[IndexVariable], filter: Option<&Expr>) {
        let group = self.begin();
        self.token("[");
        self.indent();
        for (nth, variable) in variables.iter().enumerate() {
            if nth > 0 {
                self.token(",");
            }
            self.break_here(nth > 0);
            self.token(&variable.name.text);
            self.in_range(variable.range.as_ref());
        }
        if let Some(filter) = filter {
            self.break_here(true);
            self.token("if");
            self.space();
            self.expr(filter);
        }
        self.leading(false);
        self.dedent();
        self.break_here(false);
        self.token("]");
        self.end(group);
    }

    fn in_range(&mut self, range: Option<&Range>) {
        if let Some(range) = range {
            self.space();
            self.token("in");
            self.space();
            self.range(range);
        }
    }

    /// `lo..hi`
    pub fn range(&mut self, range: &Range) {
        self.expr(&range.lo);
        self.token(if range.inclusive { "..=" } else { ".." });
        self.expr(&range.hi);
    }

    /// A subscript, of a read or of a left side.
    pub fn subscript(&mut self, subscript: &Subscript) {
        self.expr(&subscript.index);
        self.in_range(subscript.range.as_ref());
        if let Some(rule) = &subscript.rule {
            self.space();
            self.token("|");
            self.space();
            match rule {
                Rule::Name(name) => self.token(&name.text),
                Rule::Value(value) => self.expr(value),
            }
        }
    }

    /// `if`, every `else if`, `else`, as a value. On one line if it is written so, fits and only gives values.
    fn conditional(&mut self, condition: &Expr, then: &Block, otherwise: &Block, one_line: bool) {
        let group = self.begin();
        let (mut condition, mut then, mut otherwise) = (condition, then, otherwise);
        loop {
            self.token("if");
            self.space();
            self.expr(condition);
            self.space();
            self.block(then, one_line && then.statements.is_empty());
            self.space();
            self.token("else");
            self.space();
            match &otherwise.value {
                Some(Expr { kind: ExprKind::If { condition: next, then: first, otherwise: second }, .. }) if self.cursor.at("if") => {
                    (condition, then, otherwise) = (next, first, second);
                }
                _ => break,
            }
        }
        self.block(otherwise, one_line && otherwise.statements.is_empty());
        self.end(group);
    }

    /// `{ … }`. On one line: if the group around it fits.
    pub fn block(&mut self, block: &Block, one_line: bool) {
        self.token("{");
        self.indent();
        let mut first = true;
        for statement in &block.statements {
            self.start(one_line, &mut first);
            self.local(statement);
        }
        if let Some(value) = &block.value {
            self.start(one_line, &mut first);
            self.expr(value);
        }
        self.close_block(one_line, first);
    }

    /// The start of a statement or value in a block.
    pub fn start(&mut self, one_line: bool, first: &mut bool) {
        if one_line {
            self.break_here(true);
        } else {
            self.line(*first);
        }
        *first = false;
    }

    /// The end of a block. Comments before it are indented as its statements are.
    pub fn close_block(&mut self, one_line: bool, empty: bool) {
        let comments = !self.cursor.comments.is_empty();
        if one_line || empty && self.cursor.newlines_ahead() == 0 {
            self.leading(false);
            self.dedent();
            if !empty {
                self.break_here(true);
            }
        } else {
            if comments {
                self.line(empty);
            }
            self.dedent();
            if comments || !empty {
                self.hard(false);
            }
        }
        self.token("}");
    }
}

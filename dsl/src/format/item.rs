//! Items and statements.

use super::writer::Writer;
use crate::ast::*;

/// A whole file; `None` if the tree does not say what the text says.
pub fn file(text: &str, file: &File) -> Option<String> {
    let mut writer = Writer::new(text);
    let mut out = String::new();
    // Whether the item before has several lines; none does before the first.
    let mut long = false;
    for item in &file.items {
        let blank = writer.cursor.newlines_ahead() > 1 || long && !writer.cursor.blank_ahead();
        let comments = comments(&mut writer)?;
        writer.item(item);
        let item = writer.take()?;
        long = item.contains('\n');
        separate(&mut out, blank);
        out.push_str(&comments);
        out.push_str(&item);
    }
    if !writer.cursor.at_end() {
        return None;
    }
    if !writer.cursor.comments.is_empty() {
        separate(&mut out, writer.cursor.newlines_ahead() > 1);
        out.push_str(comments(&mut writer)?.trim_end());
    }
    if !out.is_empty() {
        out.push('\n');
    }
    Some(out)
}

fn separate(out: &mut String, blank: bool) {
    if !out.is_empty() {
        out.push_str(if blank { "\n\n" } else { "\n" });
    }
}

/// The comments between items, and the white space that follows them.
fn comments(writer: &mut Writer<'_>) -> Option<String> {
    if writer.cursor.comments.is_empty() {
        return Some(String::new());
    }
    writer.leading(true);
    let after = match writer.cursor.newlines {
        0 => " ",
        1 => "\n",
        _ => "\n\n",
    };
    Some(writer.take()? + after)
}

impl Writer<'_> {
    fn item(&mut self, item: &Item) {
        match item {
            Item::Kernel(kernel) => self.kernel(kernel),
            Item::Function(function) => self.function(function),
            Item::Constant(constant) => {
                self.token("const");
                self.space();
                self.token(&constant.name.text);
                self.type_of(Some(&constant.ty));
                self.value("=", &constant.value);
            }
        }
    }

    fn kernel(&mut self, kernel: &Kernel) {
        self.attributes(&kernel.attributes);
        let whole = self.begin();
        let header = self.begin();
        self.token("kernel");
        self.space();
        self.token(&kernel.name.text);
        self.list(["(", ")"], &kernel.parameters, true, Self::parameter);
        self.space();
        self.token("->");
        self.space();
        match &kernel.results {
            Results::Unnamed(ty) => self.type_expr(ty),
            Results::Named(several) if self.cursor.at("(") => self.list(["(", ")"], several, true, Self::parameter),
            Results::Named(results) => results.iter().for_each(|result| self.parameter(result)),
        }
        if kernel.conditions.is_empty() {
            self.space();
        } else {
            self.conditions(&kernel.conditions);
        }
        let body = self.cursor.ahead(kernel.span.end as usize);
        let one_line = kernel.statements.len() + usize::from(kernel.value.is_some()) <= 1 && !body.contains('\n');
        self.token("{");
        self.end(header);
        self.indent();
        let mut first = true;
        for statement in &kernel.statements {
            self.start(one_line, &mut first);
            self.statement(statement);
        }
        if let Some(value) = &kernel.value {
            self.start(one_line, &mut first);
            self.expr(value);
        }
        self.close_block(one_line, first);
        self.end(whole);
    }

    /// `where …`, on a line of its own if the header does not fit on one.
    fn conditions(&mut self, conditions: &[Expr]) {
        self.indent();
        self.break_here(true);
        let group = self.begin();
        self.token("where");
        self.indent();
        for (nth, condition) in conditions.iter().enumerate() {
            if nth > 0 {
                self.token(",");
            }
            self.break_here(true);
            self.expr(condition);
        }
        self.last_comma(group);
        self.dedent();
        self.end(group);
        self.dedent();
        self.break_here(true);
    }

    fn function(&mut self, function: &Function) {
        let whole = self.begin();
        self.token("fn");
        self.space();
        self.token(&function.name.text);
        self.list(["(", ")"], &function.parameters, true, Self::parameter);
        self.space();
        self.token("->");
        self.space();
        self.type_expr(&function.result);
        self.space();
        let body = &function.body;
        let one_line = body.statements.len() + usize::from(body.value.is_some()) <= 1;
        let written = self.cursor.ahead(function.span.end as usize);
        self.block(body, one_line && !written.contains('\n'));
        self.end(whole);
    }

    fn parameter(&mut self, parameter: &Parameter) {
        self.token(&parameter.name.text);
        self.type_of(Some(&parameter.ty));
    }

    /// `: T`, if there is one.
    fn type_of(&mut self, ty: Option<&TypeExpr>) {
        if let Some(ty) = ty {
            self.token(":");
            self.space();
            self.type_expr(ty);
        }
    }

    fn type_expr(&mut self, ty: &TypeExpr) {
        self.token(&ty.element.text);
        if let Some(dims) = &ty.dims {
            self.list(["[", "]"], dims, false, Self::expr);
        }
    }

    /// Attributes, and what separates them from what they belong to: a line end where one is written.
    fn attributes(&mut self, attributes: &[Attribute]) {
        for attribute in attributes {
            self.token("@");
            self.token(&attribute.name.text);
            if self.cursor.at("(") {
                self.list(["(", ")"], &attribute.arguments, true, |this, (key, value)| {
                    if let Some(key) = key {
                        this.token(&key.text);
                        this.space();
                        this.token("=");
                        this.space();
                    }
                    this.expr(value);
                });
            }
            if self.cursor.newlines_ahead() > 0 {
                self.hard(false);
            } else {
                self.space();
            }
        }
    }

    /// `= e;` or `op= e;`
    fn value(&mut self, sign: &str, value: &Expr) {
        self.space();
        // `min=` may be written `min =`.
        if let Some(word) = sign.strip_suffix('=').filter(|word| matches!(*word, "min" | "max")) {
            self.token(word);
            self.token("=");
        } else {
            self.token(sign);
        }
        self.space();
        let moved = self.line_ends_here();
        if moved {
            self.indent();
        }
        self.expr(value);
        if moved {
            self.dedent();
        }
        self.token(";");
    }

    fn statement(&mut self, statement: &Statement) {
        self.attributes(&statement.attributes);
        match &statement.kind {
            StatementKind::Define { target, value } => {
                self.target(target);
                self.value("=", value);
            }
            StatementKind::Let { target, ty, value } => {
                self.token("let");
                self.space();
                self.target(target);
                self.type_of(ty.as_ref());
                self.value("=", value);
            }
            StatementKind::LetCall { names, value } => {
                self.token("let");
                self.space();
                self.list(["(", ")"], names, true, |this, name| this.token(&name.text));
                self.value("=", value);
            }
            StatementKind::Accumulate { target, op, value } => {
                self.target(target);
                self.value(op.name(), value);
            }
        }
    }

    fn target(&mut self, target: &Target) {
        self.token(&target.name.text);
        if let Some(subscripts) = &target.subscripts {
            self.list(["[", "]"], subscripts, false, Self::subscript);
        }
    }

    /// A statement of scalar code.
    pub fn local(&mut self, statement: &LocalStatement) {
        match &statement.kind {
            LocalStatementKind::Let { mutable, name, ty, value } => {
                self.token("let");
                self.space();
                if *mutable {
                    self.token("mut");
                    self.space();
                }
                self.token(&name.text);
                self.type_of(ty.as_ref());
                self.value("=", value);
            }
            LocalStatementKind::Assign { name, value } => {
                self.token(&name.text);
                match &value.kind {
                    // `x += e` is kept as `x = x + e` with one place for both `x`.
                    ExprKind::Binary(_, sign, read, value) if read.span == name.span => {
                        self.value(self.text.get(sign.range()).unwrap_or(""), value);
                    }
                    _ => self.value("=", value),
                }
            }
            LocalStatementKind::While { condition, body } => {
                self.token("while");
                self.space();
                self.expr(condition);
                self.space();
                self.block(body, false);
                self.no_semicolon();
            }
            LocalStatementKind::For { name, range, body } => {
                self.token("for");
                self.space();
                self.token(&name.text);
                self.space();
                self.token("in");
                self.space();
                self.range(range);
                self.space();
                self.block(body, false);
                self.no_semicolon();
            }
            LocalStatementKind::If { condition, then, otherwise } => {
                self.token("if");
                self.space();
                self.expr(condition);
                self.space();
                self.block(then, false);
                if let Some(otherwise) = otherwise {
                    self.space();
                    self.token("else");
                    self.space();
                    match &otherwise.statements[..] {
                        [next] if self.cursor.at("if") => self.local(next),
                        _ => self.block(otherwise, false),
                    }
                }
                self.no_semicolon();
            }
        }
    }
}

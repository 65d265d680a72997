//! Trees of items and statements.

use super::{Context, Rule};
use crate::ast::*;
use crate::diagnostic::{Diagnostic, codes};
use crate::source::Span;
use crate::types::{AccumulateOp, BinaryOp};
use pest::iterators::Pair;

pub(super) type Node<'a> = Pair<'a, Rule>;

/// Builds trees from what the grammar recognised. Rules that the grammar leaves open are checked on the way.
pub(super) struct Builder<'a> {
    context: &'a Context<'a>,
    /// Where the parsed piece starts in the text.
    base: usize,
    /// Whether the blocks of an `if` may hold only a value.
    pub in_kernel: bool,
    pub problems: Vec<Diagnostic>,
}

impl<'a> Builder<'a> {
    pub fn new(context: &'a Context<'a>, base: usize) -> Self {
        Builder { context, base, in_kernel: true, problems: Vec::new() }
    }

    /// Where a node stands. The grammar's own spans may end in white space: the end is the last token's.
    pub fn span(&self, node: &Node<'_>) -> Span {
        let span = node.as_span();
        let (start, end) = (self.base + span.start(), self.base + span.end());
        let after = self.context.tokens.partition_point(|token| (token.span.start as usize) < end);
        let end = after.checked_sub(1).map_or(end, |last| self.context.tokens[last].span.end as usize);
        Span::new(start, end.max(start))
    }

    pub fn name(&self, node: &Node<'_>) -> Name {
        Name { text: node.as_str().to_string(), span: self.span(node) }
    }

    pub fn text(&self, span: Span) -> &'a str {
        &self.context.text[span.range()]
    }

    pub fn report(&mut self, problem: Diagnostic) {
        self.problems.push(problem);
    }

    pub fn item(&mut self, node: Node<'a>, doc: Vec<String>) -> Option<Item> {
        let node = if node.as_rule() == Rule::only_item { node.into_inner().next()? } else { node };
        let whole = self.span(&node);
        let mut attributes = Vec::new();
        for part in children(node) {
            match part.as_rule() {
                Rule::attribute => attributes.push(self.attribute(part)),
                Rule::kernel => return Some(Item::Kernel(self.kernel(part, doc, attributes, whole)?)),
                rule => {
                    if let Some(first) = attributes.first() {
                        let what = if rule == Rule::function { "function" } else { "constant" };
                        let problem =
                            Diagnostic::error(codes::ATTRIBUTE_PLACE, first.span, format!("a {what} has no attributes"), "not here");
                        self.report(problem.help("attributes stand before kernels and statements"));
                    }
                    return match rule {
                        Rule::function => Some(Item::Function(self.function(part, doc, whole)?)),
                        _ => Some(Item::Constant(self.constant(part, doc, whole)?)),
                    };
                }
            }
        }
        None
    }

    fn kernel(&mut self, node: Node<'a>, doc: Vec<String>, attributes: Vec<Attribute>, span: Span) -> Option<Kernel> {
        self.in_kernel = true;
        let mut parts = children(node);
        let name = self.name(&parts.next()?);
        let parameters = self.parameters(parts.next()?)?;
        let results = self.results(parts.next()?)?;
        let mut part = parts.next()?;
        let mut conditions = Vec::new();
        if part.as_rule() == Rule::conditions {
            conditions = children(part).map(|condition| self.expression(condition)).collect();
            part = parts.next()?;
        }
        let (statements, value) = self.statements(part)?;
        Some(Kernel { doc, attributes, name, parameters, results, conditions, statements, value, span })
    }

    fn function(&mut self, node: Node<'a>, doc: Vec<String>, span: Span) -> Option<Function> {
        self.in_kernel = false;
        let mut parts = children(node);
        let name = self.name(&parts.next()?);
        let parameters = self.parameters(parts.next()?)?;
        let result = self.type_expression(parts.next()?)?;
        let body = self.block(parts.next()?)?;
        Some(Function { doc, name, parameters, result, body, span })
    }

    fn constant(&mut self, node: Node<'a>, doc: Vec<String>, span: Span) -> Option<Constant> {
        let mut parts = children(node);
        let name = self.name(&parts.next()?);
        let ty = self.type_expression(parts.next()?)?;
        let value = self.expression(parts.next()?);
        Some(Constant { doc, name, ty, value, span })
    }

    fn parameters(&mut self, node: Node<'a>) -> Option<Vec<Parameter>> {
        children(node).map(|parameter| self.parameter(parameter)).collect()
    }

    fn parameter(&mut self, node: Node<'a>) -> Option<Parameter> {
        let mut parts = children(node);
        Some(Parameter { name: self.name(&parts.next()?), ty: self.type_expression(parts.next()?)? })
    }

    fn results(&mut self, node: Node<'a>) -> Option<Results> {
        let results = children(node).next()?;
        Some(match results.as_rule() {
            Rule::several => Results::Named(self.parameters(results)?),
            Rule::parameter => Results::Named(vec![self.parameter(results)?]),
            _ => Results::Unnamed(self.type_expression(results)?),
        })
    }

    fn type_expression(&mut self, node: Node<'a>) -> Option<TypeExpr> {
        let span = self.span(&node);
        let mut parts = children(node);
        let element = self.name(&parts.next()?);
        let dims = parts.next().map(|dims| children(dims).map(|dim| self.expression(dim)).collect());
        Some(TypeExpr { element, dims, span })
    }

    fn attribute(&mut self, node: Node<'a>) -> Attribute {
        let span = self.span(&node);
        let mut name = Name { text: String::new(), span };
        let mut arguments = Vec::new();
        for part in children(node) {
            if part.as_rule() == Rule::name {
                name = self.name(&part);
                continue;
            }
            let mut key = None;
            for argument in children(part) {
                match argument.as_rule() {
                    Rule::name => key = Some(self.name(&argument)),
                    Rule::type_name => {
                        let Name { text, span } = self.name(&argument);
                        arguments.push((key.take(), Expr { kind: ExprKind::Name(text), span }));
                    }
                    _ => arguments.push((key.take(), self.expression(argument))),
                }
            }
        }
        Attribute { name, arguments, span }
    }

    pub fn statements(&mut self, node: Node<'a>) -> Option<(Vec<Statement>, Option<Expr>)> {
        let mut statements = Vec::new();
        let mut value = None;
        for part in children(node) {
            let span = self.span(&part);
            if part.as_rule() == Rule::statement {
                statements.push(self.statement(part, span)?);
                continue;
            }
            for part in children(part) {
                if part.as_rule() == Rule::attribute {
                    let span = self.span(&part);
                    let problem = Diagnostic::error(codes::ATTRIBUTE_PLACE, span, "a final expression has no attributes", "not here");
                    self.report(problem.help("put it before the kernel, or name the value: `-> s: f32 { @exact s = …; }`"));
                } else {
                    value = Some(self.expression(part));
                }
            }
        }
        Some((statements, value))
    }

    fn statement(&mut self, node: Node<'a>, span: Span) -> Option<Statement> {
        let mut attributes = Vec::new();
        for part in children(node) {
            let kind = match part.as_rule() {
                Rule::attribute => {
                    attributes.push(self.attribute(part));
                    continue;
                }
                Rule::let_several => {
                    let (names, values): (Vec<_>, Vec<_>) = children(part).partition(|part| part.as_rule() == Rule::name);
                    let names = names.iter().map(|name| self.name(name)).collect();
                    StatementKind::LetCall { names, value: self.expression(values.into_iter().next()?) }
                }
                Rule::let_array => {
                    let mut parts = children(part);
                    let target = self.target(parts.next()?)?;
                    let mut part = parts.next()?;
                    let mut ty = None;
                    if part.as_rule() == Rule::type_expression {
                        ty = Some(self.type_expression(part)?);
                        part = parts.next()?;
                    }
                    StatementKind::Let { target, ty, value: self.expression(part) }
                }
                _ => self.definition(part)?,
            };
            return Some(Statement { attributes, kind, span });
        }
        None
    }

    fn definition(&mut self, node: Node<'a>) -> Option<StatementKind> {
        let mut parts = children(node);
        let target = self.target(parts.next()?)?;
        let part = parts.next()?;
        if part.as_rule() != Rule::assign_operator {
            return Some(StatementKind::Define { target, value: self.expression(part) });
        }
        let spelling = assign_operator(&part);
        let operator = self.span(&part);
        let value = self.expression(parts.next()?);
        let op = AccumulateOp::from_name(&spelling).unwrap_or_else(|| {
            self.no_accumulation(&spelling, operator, value.span);
            AccumulateOp::Add
        });
        Some(StatementKind::Accumulate { target, op, value })
    }

    /// `y[i] -= e;`
    fn no_accumulation(&mut self, spelling: &str, operator: Span, value: Span) {
        let problem = Diagnostic::error(codes::OPERATOR, operator, format!("`{spelling}` does not accumulate"), "unknown here");
        self.report(match spelling {
            "-=" => {
                let value_text = self.text(value);
                let simple = value_text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']'));
                let negated = if simple { format!("-{value_text}") } else { format!("-({value_text})") };
                problem.suggest_edits("accumulate the negated value", vec![(operator, "+=".into()), (value, negated)])
            }
            "/=" => problem.help("accumulate the reciprocal with `*=`"),
            _ => problem.help("what accumulates is `+= *= min= max= |= &=`"),
        });
    }

    fn target(&mut self, node: Node<'a>) -> Option<Target> {
        let span = self.span(&node);
        let mut parts = children(node);
        let name = self.name(&parts.next()?);
        let subscripts = match parts.next() {
            Some(list) => Some(children(list).map(|part| self.subscript(part)).collect::<Option<Vec<_>>>()?),
            None => None,
        };
        Some(Target { name, subscripts, span })
    }

    /// A block of scalar code, or of an `if` in a kernel.
    pub fn block(&mut self, node: Node<'a>) -> Option<Block> {
        let span = self.span(&node);
        let (statements, value) = self.local_statements(children(node).next()?)?;
        Some(Block { statements, value, span })
    }

    pub fn local_statements(&mut self, node: Node<'a>) -> Option<(Vec<LocalStatement>, Option<Expr>)> {
        let mut statements = Vec::new();
        let mut value = None;
        let mut parts = children(node).peekable();
        while let Some(part) = parts.next() {
            if part.as_rule() != Rule::local_statement {
                value = Some(self.expression(part));
                break;
            }
            let span = self.span(&part);
            let statement = children(part).next()?;
            let last = parts.peek().is_none();
            match statement.as_rule() {
                Rule::local_if => match self.local_if(statement, span, last)? {
                    IfForm::Statement(kind) => statements.push(LocalStatement { kind: *kind, span }),
                    IfForm::Value(expr) => value = Some(expr),
                },
                _ => {
                    let kind = self.local_statement(statement)?;
                    statements.push(LocalStatement { kind, span });
                }
            }
        }
        if self.in_kernel
            && let Some(first) = statements.first()
        {
            let problem = Diagnostic::error(
                codes::SEQUENTIAL,
                first.span,
                "a statement inside an `if` of a kernel",
                "only a value can stand here",
            );
            self.report(problem.help("name it with a `let` before, or move the `if` into a `fn`"));
        }
        Some((statements, value))
    }

    fn local_statement(&mut self, node: Node<'a>) -> Option<LocalStatementKind> {
        let rule = node.as_rule();
        let mut parts = children(node).peekable();
        Some(match rule {
            Rule::local_let => {
                let mutable = parts.next_if(|part| part.as_rule() == Rule::MUT).is_some();
                let name = self.name(&parts.next()?);
                let ty = match parts.next_if(|part| part.as_rule() == Rule::type_expression) {
                    Some(ty) => Some(self.type_expression(ty)?),
                    None => None,
                };
                LocalStatementKind::Let { mutable, name, ty, value: self.expression(parts.next()?) }
            }
            Rule::while_loop => {
                let condition = self.expression(parts.next()?);
                LocalStatementKind::While { condition, body: self.loop_body(parts.next()?)? }
            }
            Rule::for_loop => {
                let name = self.name(&parts.next()?);
                let range = self.range(parts.next()?)?;
                LocalStatementKind::For { name, range, body: self.loop_body(parts.next()?)? }
            }
            _ => {
                let name = self.name(&parts.next()?);
                let Some(operator) = parts.next_if(|part| part.as_rule() == Rule::assign_operator) else {
                    return Some(LocalStatementKind::Assign { name, value: self.expression(parts.next()?) });
                };
                let spelling = assign_operator(&operator);
                let operator = self.span(&operator);
                let value = self.expression(parts.next()?);
                let read = Expr { kind: ExprKind::Name(name.text.clone()), span: name.span };
                let span = name.span.to(value.span);
                let kind = match binary(spelling.trim_end_matches('=')) {
                    Some(op) => ExprKind::Binary(op, operator, Box::new(read), Box::new(value)),
                    None => {
                        let function = spelling.trim_end_matches('=').to_string();
                        let message = format!("`{spelling}` accumulates into arrays, in kernels");
                        let hint = format!("write `{} = {function}({}, …)`", name.text, name.text);
                        self.report(Diagnostic::error(codes::OPERATOR, operator, message, "unknown here").help(hint));
                        ExprKind::Error
                    }
                };
                LocalStatementKind::Assign { name, value: Expr { kind, span } }
            }
        })
    }

    fn loop_body(&mut self, node: Node<'a>) -> Option<Block> {
        let block = self.block(node)?;
        if let Some(value) = &block.value {
            self.report(Diagnostic::error(codes::UNUSED_VALUE, value.span, "a loop has no value", "this value is not used"));
        }
        Some(block)
    }

    /// An `if` that starts a statement. It is a value if it is the last thing in its block and has one.
    fn local_if(&mut self, node: Node<'a>, span: Span, last: bool) -> Option<IfForm> {
        let mut parts = children(node);
        let conditional = parts.next()?;
        let head = self.span(&conditional);
        let continuation = parts.next();
        let terminated = self.context.text[span.range()].ends_with(';');
        if let Some(rest) = continuation.filter(|rest| rest.clone().into_inner().next().is_some()) {
            let first = self.conditional(conditional, true)?;
            let rest_span = self.span(&rest);
            let value = self.operators(Some(Expr { kind: first, span: head }), rest);
            if !last {
                let problem =
                    Diagnostic::error(codes::UNUSED_VALUE, head.to(rest_span), "the value of this expression is not used", "not used");
                self.report(problem.help("a value stands last in its block; a statement ends with `;`"));
            }
            return Some(IfForm::Value(value));
        }
        let ExprKind::If { condition, then, otherwise } = self.conditional(conditional, false)? else { return None };
        let value = first_value(&then).or_else(|| first_value(&otherwise)).map(|value| value.span);
        match value {
            Some(_) if last && !terminated => {
                let kind = ExprKind::If { condition, then, otherwise };
                self.require_values(&kind, head);
                Some(IfForm::Value(Expr { kind, span: head }))
            }
            _ => {
                if let Some(value) = value {
                    let problem =
                        Diagnostic::error(codes::UNUSED_VALUE, value, "the value of this `if` is not used", "this value goes nowhere");
                    self.report(
                        problem.help("to compute with it put the whole `if` in parentheses; to give it stand it last, without `;`"),
                    );
                }
                Some(IfForm::Statement(Box::new(statement_of(*condition, *then, *otherwise))))
            }
        }
    }
}

/// What an `if` at the start of a statement turns out to be.
enum IfForm {
    Statement(Box<LocalStatementKind>),
    Value(Expr),
}

/// The value of a block, or one that an `if` in its place has.
fn first_value(block: &Block) -> Option<&Expr> {
    let mut block = block;
    loop {
        match block.value.as_ref() {
            Some(Expr { kind: ExprKind::If { then, otherwise, .. }, .. }) => {
                if let Some(value) = then.value.as_ref() {
                    return Some(value);
                }
                block = otherwise;
            }
            other => return other,
        }
    }
}

/// An `if` as a statement; `else if` is a block that holds just another one.
fn statement_of(condition: Expr, then: Block, otherwise: Block) -> LocalStatementKind {
    let mut chain = vec![(condition, then)];
    let mut rest = otherwise;
    while let Some(Expr { kind: ExprKind::If { condition, then, otherwise }, .. }) = rest.value {
        chain.push((*condition, *then));
        rest = *otherwise;
    }
    // A missing `else` is a block of no width.
    let mut otherwise = (rest.span.start != rest.span.end).then_some(rest);
    loop {
        let Some((condition, then)) = chain.pop() else { unreachable!("an `if` has a condition") };
        let span = condition.span.to(otherwise.as_ref().map_or(then.span, |block| block.span));
        let kind = LocalStatementKind::If { condition, then, otherwise: otherwise.take() };
        if chain.is_empty() {
            return kind;
        }
        otherwise = Some(Block { statements: vec![LocalStatement { kind, span }], value: None, span });
    }
}

/// The parts of a node that carry meaning: all but keywords and punctuation.
pub(super) fn children<'a>(node: Node<'a>) -> impl Iterator<Item = Node<'a>> {
    node.into_inner().filter(|part| {
        use Rule::*;
        !matches!(
            part.as_rule(),
            KERNEL
                | FN
                | CONST
                | LET
                | IN
                | IF
                | ELSE
                | WHILE
                | FOR
                | AS
                | WHERE
                | OPEN_PAREN
                | CLOSE_PAREN
                | OPEN_BRACKET
                | CLOSE_BRACKET
                | OPEN_BRACE
                | CLOSE_BRACE
                | COMMA
                | SEMICOLON
                | COLON
                | EQUALS
                | ARROW
                | AT
                | BAR
                | EOI
        )
    })
}

/// `min=` may be written `min =`.
fn assign_operator(node: &Node<'_>) -> String {
    let text = node.as_str();
    match text.get(..3) {
        Some(word @ ("min" | "max")) => format!("{word}="),
        _ => text.trim_end().to_string(),
    }
}

/// The binary operator of that spelling.
pub(super) fn binary(symbol: &str) -> Option<BinaryOp> {
    use BinaryOp::*;
    [Mul, Div, Rem, Add, Sub, Shl, Shr, BitAnd, BitXor, BitOr, Eq, Ne, Lt, Le, Gt, Ge, And, Or]
        .into_iter()
        .find(|op| op.symbol() == symbol)
}

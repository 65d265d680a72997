//! Trees of expressions: precedence, reductions, subscripts, conditionals.

use super::item::{Builder, Node, binary, children};
use super::recover::reserved;
use super::{Rule, is_reserved};
use crate::ast::*;
use crate::diagnostic::{Diagnostic, codes};
use crate::source::Span;
use crate::types::{BinaryOp, Reducer, UnaryOp};

impl<'a> Builder<'a> {
    /// A row of operands and operators. What the grammar vouches for and is missing all the same becomes [`ExprKind::Error`].
    pub fn expression(&mut self, node: Node<'a>) -> Expr {
        self.operators(None, node)
    }

    /// Sorts a row by precedence, without recursion: rows may be long. `first` is the operand that the row continues, if any.
    pub fn operators(&mut self, first: Option<Expr>, row: Node<'a>) -> Expr {
        let nothing = Expr { kind: ExprKind::Error, span: self.span(&row) };
        let mut operands: Vec<Expr> = first.into_iter().collect();
        let mut operators: Vec<(BinaryOp, Span)> = Vec::new();
        for part in children(row) {
            match part.as_rule() {
                Rule::operand => {
                    let operand = self.operand(part);
                    operands.push(operand);
                }
                Rule::type_name => {
                    let ty = self.name(&part);
                    if let Some(operand) = operands.pop() {
                        operands.push(cast(operand, ty));
                    }
                }
                _ => {
                    let Some(op) = binary(part.as_str()) else { continue };
                    let span = self.span(&part);
                    while let Some(&(left, left_span)) = operators.last()
                        && left.precedence() >= op.precedence()
                    {
                        if left.is_comparison() && op.is_comparison() {
                            self.comparison_chain((left, left_span), (op, span), operands.last().map(|middle| middle.span));
                        }
                        operators.pop();
                        apply(&mut operands, left, left_span);
                    }
                    operators.push((op, span));
                }
            }
        }
        while let Some((op, span)) = operators.pop() {
            apply(&mut operands, op, span);
        }
        operands.pop().unwrap_or(nothing)
    }

    fn comparison_chain(&mut self, first: (BinaryOp, Span), second: (BinaryOp, Span), middle: Option<Span>) {
        let message = format!("comparisons do not chain: `{}` follows `{}`", second.0.symbol(), first.0.symbol());
        let problem = Diagnostic::error(codes::CHAIN, second.1, message, "a second comparison").label(first.1, "the first");
        let middle = middle.map_or("", |span| self.text(span));
        self.report(if middle.is_empty() || middle.len() > 40 || middle.contains('\n') {
            problem.help("compare twice and join with `&&`, or put one comparison in parentheses")
        } else {
            let before = Span { end: second.1.start, ..second.1 };
            problem.suggest("compare twice", before, format!("&& {middle} "))
        });
    }

    fn operand(&mut self, node: Node<'a>) -> Expr {
        let whole = self.span(&node);
        let mut signs = Vec::new();
        let mut value = Expr { kind: ExprKind::Error, span: whole };
        let mut casts = Vec::new();
        for part in children(node) {
            match part.as_rule() {
                Rule::unary_operator => signs.push((part.as_str() == "-", self.span(&part))),
                Rule::type_name => casts.push(self.name(&part)),
                _ => value = self.primary(part),
            }
        }
        for (minus, at) in signs.into_iter().rev() {
            let op = if minus { UnaryOp::Negate } else { UnaryOp::Not };
            let span = at.to(value.span);
            value = Expr { kind: ExprKind::Unary(op, at, Box::new(value)), span };
        }
        casts.into_iter().fold(value, cast)
    }

    fn primary(&mut self, node: Node<'a>) -> Expr {
        let span = self.span(&node);
        let kind = match node.as_rule() {
            Rule::number => Some(ExprKind::Number(node.as_str().to_string())),
            Rule::truth => Some(ExprKind::Bool(node.as_str() == "true")),
            Rule::limit => Some(ExprKind::Name(node.as_str().to_string())),
            Rule::conditional => self.conditional(node, true),
            Rule::parenthesised => children(node).next().map(|inside| ExprKind::Paren(Box::new(self.expression(inside)))),
            Rule::path => {
                let mut parts = children(node);
                parts.next().zip(parts.next()).map(|(ty, item)| ExprKind::Path(self.name(&ty), self.name(&item)))
            }
            Rule::call_or_read => self.call_or_read(node),
            Rule::reduction => self.reduction(node),
            _ => None,
        };
        Expr { kind: kind.unwrap_or(ExprKind::Error), span }
    }

    fn call_or_read(&mut self, node: Node<'a>) -> Option<ExprKind> {
        let mut parts = children(node);
        let name = self.name(&parts.next()?);
        Some(match parts.next() {
            None => ExprKind::Name(name.text),
            Some(list) if list.as_rule() == Rule::arguments => {
                ExprKind::Call { function: name, arguments: children(list).map(|part| self.expression(part)).collect() }
            }
            Some(list) => {
                let subscripts = children(list).map(|part| self.subscript(part)).collect::<Option<Vec<_>>>()?;
                ExprKind::Index { array: name, subscripts }
            }
        })
    }

    /// Of a read or of a left side.
    pub fn subscript(&mut self, node: Node<'a>) -> Option<Subscript> {
        let (span, target) = (self.span(&node), node.as_rule() == Rule::target_subscript);
        let mut parts = children(node).peekable();
        let index = parts.next()?;
        let index = if index.as_rule() == Rule::name {
            let Name { text, span } = self.name(&index);
            Expr { kind: ExprKind::Name(text), span }
        } else {
            self.expression(index)
        };
        let word = self.text(index.span);
        if target && is_reserved(word) {
            self.report(reserved(word, index.span));
        }
        let range = match parts.next_if(|part| part.as_rule() == Rule::index_range) {
            Some(range) => Some(self.range(range)?),
            None => None,
        };
        let rule = match parts.next() {
            Some(boundary) => {
                let value = self.expression(children(boundary).next()?);
                Some(match value.kind {
                    ExprKind::Name(text) => crate::ast::Rule::Name(Name { text, span: value.span }),
                    kind => crate::ast::Rule::Value(Expr { kind, span: value.span }),
                })
            }
            None => None,
        };
        Some(Subscript { index, range, rule, span })
    }

    pub fn range(&mut self, node: Node<'a>) -> Option<Range> {
        let mut parts = children(node);
        let lo = self.expression(parts.next()?);
        let inclusive = parts.next()?.as_rule() == Rule::TO_INCLUDED;
        Some(Range { lo, hi: self.expression(parts.next()?), inclusive })
    }

    fn reduction(&mut self, node: Node<'a>) -> Option<ExprKind> {
        let mut parts = children(node);
        let reducer = parts.next()?;
        let reducer = (Reducer::from_name(reducer.as_str())?, self.span(&reducer));
        let mut variables = Vec::new();
        let mut filter = None;
        for part in parts {
            match part.as_rule() {
                Rule::index_variable => {
                    let mut parts = children(part);
                    let name = self.name(&parts.next()?);
                    let range = match parts.next() {
                        Some(range) => Some(self.range(range)?),
                        None => None,
                    };
                    variables.push(IndexVariable { name, range });
                }
                Rule::filter => filter = Some(Box::new(self.expression(children(part).next()?))),
                _ => {
                    let body = Box::new(self.expression(part));
                    return Some(ExprKind::Reduce { reducer, variables, filter, body });
                }
            }
        }
        None
    }

    /// `if`, every `else if`, `else`. Without an `else` the last block is empty and has no width, which [`Self::require_values`]
    /// refuses.
    pub fn conditional(&mut self, node: Node<'a>, value: bool) -> Option<ExprKind> {
        let whole = self.span(&node);
        let mut arms = Vec::new();
        let mut otherwise = Block { statements: Vec::new(), value: None, span: Span { start: whole.end, end: whole.end } };
        let (mut keyword, mut condition) = (whole, None);
        for part in node.into_inner() {
            match part.as_rule() {
                Rule::IF => keyword = self.span(&part),
                Rule::ELSE => {}
                Rule::block => {
                    let block = self.block(part)?;
                    match condition.take() {
                        Some(condition) => arms.push((keyword, condition, block)),
                        None => otherwise = block,
                    }
                }
                _ => condition = Some(self.expression(part)),
            }
        }
        let mut arms = arms.into_iter().rev().peekable();
        while let Some((keyword, condition, then)) = arms.next() {
            let kind = ExprKind::If { condition: Box::new(condition), then: Box::new(then), otherwise: Box::new(otherwise) };
            if arms.peek().is_none() {
                if value {
                    self.require_values(&kind, whole);
                }
                return Some(kind);
            }
            let span = Span { start: keyword.start, end: whole.end };
            otherwise = Block { statements: Vec::new(), value: Some(Expr { kind, span }), span };
        }
        None
    }

    /// An `if` that is a value has one in each block.
    pub fn require_values(&mut self, conditional: &ExprKind, whole: Span) {
        let (mut conditional, mut start) = (conditional, whole.start);
        while let ExprKind::If { then, otherwise, .. } = conditional {
            for block in [then, otherwise] {
                if block.span.start == block.span.end {
                    let keyword = Span { start, end: start + 2 };
                    let problem =
                        Diagnostic::error(codes::NO_VALUE, keyword, "an `if` that gives a value needs an `else`", "no `else`");
                    self.report(problem.suggest("say what it gives otherwise", block.span, " else { … }"));
                } else if block.value.is_none() {
                    let end = Span { start: block.span.end - 1, ..block.span };
                    let problem = Diagnostic::error(
                        codes::NO_VALUE,
                        end,
                        "this block of an `if` gives no value",
                        "expected a value before this",
                    );
                    let problem = problem.label(Span { start, end: start + 2 }, "the value of this `if` is needed");
                    self.report(problem.help("the last expression of a block, without `;`, is its value"));
                }
            }
            match &otherwise.value {
                Some(next) if next.span == otherwise.span => (conditional, start) = (&next.kind, next.span.start),
                _ => return,
            }
        }
    }
}

fn cast(value: Expr, ty: Name) -> Expr {
    let span = value.span.to(ty.span);
    Expr { kind: ExprKind::Cast(Box::new(value), ty), span }
}

fn apply(operands: &mut Vec<Expr>, op: BinaryOp, at: Span) {
    if let (Some(right), Some(left)) = (operands.pop(), operands.pop()) {
        let span = left.span.to(right.span);
        operands.push(Expr { kind: ExprKind::Binary(op, at, Box::new(left), Box::new(right)), span });
    }
}

//! Names are declared before use, and once per scope.

use super::Check;
use crate::emit::scope::is_builtin;
use crate::plan::{Expr, Launch, Node};

/// Checks one launch.
pub fn check(launch: &Launch) -> Check {
    let mut names = Names::default();
    launch.parameters.iter().try_for_each(|parameter| names.declare(&parameter.name))?;
    names.nodes(&launch.body)
}

#[derive(Default)]
struct Names<'a> {
    known: Vec<&'a str>,
    /// Where the innermost scope begins.
    scope: usize,
}

impl<'a> Names<'a> {
    fn declare(&mut self, name: &'a str) -> Check {
        if self.known[self.scope..].contains(&name) {
            return Err(format!("{name} is declared twice"));
        }
        self.known.push(name);
        Ok(())
    }

    fn uses(&self, expr: &Expr) -> Check {
        let mut unknown = None;
        expr.walk(&mut |expr| {
            if let Expr::Name(name) = expr {
                if !is_builtin(name) && !self.known.contains(&name.as_str()) {
                    unknown = Some(format!("{name} is not declared"));
                }
            }
        });
        unknown.map_or(Ok(()), Err)
    }

    fn scoped(&mut self, own: &[&'a str], nodes: &'a [Node], value: Option<&Expr>) -> Check {
        let (outer, depth) = (self.scope, self.known.len());
        self.scope = depth;
        own.iter().try_for_each(|name| self.declare(name))?;
        self.nodes(nodes)?;
        value.map_or(Ok(()), |value| self.uses(value))?;
        self.known.truncate(depth);
        self.scope = outer;
        Ok(())
    }

    fn nodes(&mut self, nodes: &'a [Node]) -> Check {
        nodes.iter().try_for_each(|node| self.node(node))
    }

    fn node(&mut self, node: &'a Node) -> Check {
        match node {
            Node::Comment(_) | Node::Barrier | Node::Return(None) => Ok(()),
            Node::Declare { name, value, .. } => {
                value.iter().try_for_each(|value| self.uses(value))?;
                self.declare(name)
            }
            Node::Array { name, .. } => self.declare(name),
            Node::Assign(place, value) => self.uses(place).and_then(|()| self.uses(value)),
            Node::For { variable, lo, hi, step, body, .. } => {
                [lo, hi, step].into_iter().try_for_each(|bound| self.uses(bound))?;
                self.scoped(&[variable], body, None)
            }
            Node::While(condition, body) => self.uses(condition).and_then(|()| self.scoped(&[], body, None)),
            Node::If { condition, then, otherwise } => {
                self.uses(condition)?;
                self.scoped(&[], then, None)?;
                self.scoped(&[], otherwise, None)
            }
            Node::Return(Some(value)) => self.uses(value),
            Node::Call(_, arguments) => arguments.iter().try_for_each(|argument| self.uses(argument)),
            Node::Reduce { name, arguments, accumulator, term, body, value, .. } => {
                arguments.iter().try_for_each(|argument| self.uses(argument))?;
                self.scoped(&[accumulator, term], body, Some(value))?;
                self.declare(name)
            }
            Node::Scope(body) => self.scoped(&[], body, None),
        }
    }
}

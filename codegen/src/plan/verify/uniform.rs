//! All threads of a block reach the same barriers.
//!
//! A value *varies* if it may differ between the threads of a block: it depends on `threadIdx`, or was assigned where only
//! some threads come. What shared or global memory holds at an index that does not vary is the same for all.

use std::collections::HashSet;

use super::Check;
use crate::emit::scope::root;
use crate::plan::{Expr, Launch, Memory, Node};

/// Checks one launch.
pub fn check(launch: &Launch) -> Check {
    let mut analysis = Analysis::default();
    analysis.memory.extend(launch.parameters.iter().map(|parameter| parameter.name.as_str()));
    // Until no further name varies.
    loop {
        let before = analysis.varying.len();
        (analysis.returned, analysis.problem) = (false, None);
        analysis.nodes(&launch.body, false);
        if before == analysis.varying.len() {
            return analysis.problem.map_or(Ok(()), |problem| Err(problem.into()));
        }
    }
}

#[derive(Default)]
struct Analysis<'a> {
    /// Names of varying values.
    varying: HashSet<&'a str>,
    /// Arrays that all threads see: shared ones and parameters.
    memory: HashSet<&'a str>,
    /// Some threads may have returned.
    returned: bool,
    problem: Option<&'static str>,
}

impl<'a> Analysis<'a> {
    fn varies(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Int(..) | Expr::Float(..) | Expr::Bool(_) => false,
            Expr::Name(name) => name.starts_with("threadIdx.") || self.varying.contains(name.as_str()),
            Expr::Element(array, indices) => {
                indices.iter().any(|index| self.varies(index)) || (!self.is_memory(array) && self.varies(array))
            }
            Expr::Wide(_, _, array, index) => self.varies(index) || (!self.is_memory(array) && self.varies(array)),
            Expr::Lane(a, b) | Expr::Binary(_, a, b) => self.varies(a) || self.varies(b),
            Expr::Unary(_, a) | Expr::Cast(_, a) => self.varies(a),
            Expr::Conditional(a, b, c) => self.varies(a) || self.varies(b) || self.varies(c),
            Expr::Call(_, arguments) => arguments.iter().any(|argument| self.varies(argument)),
        }
    }

    fn is_memory(&self, array: &Expr) -> bool {
        root(array).is_some_and(|name| self.memory.contains(name))
    }

    fn set(&mut self, name: &'a str, varies: bool) {
        if varies && !self.memory.contains(name) {
            self.varying.insert(name);
        }
    }

    fn barrier(&mut self, divergent: bool) {
        if divergent {
            self.problem = Some("a barrier that not every thread reaches");
        } else if self.returned {
            self.problem = Some("a barrier after a return");
        }
    }

    /// `divergent`: only some threads come here.
    fn nodes(&mut self, nodes: &'a [Node], divergent: bool) {
        for node in nodes {
            self.node(node, divergent);
        }
    }

    /// A loop's body, twice: what it ends with comes before what it begins with.
    fn repeated(&mut self, body: &'a [Node], divergent: bool) {
        self.nodes(body, divergent);
        self.nodes(body, divergent);
    }

    fn node(&mut self, node: &'a Node, divergent: bool) {
        match node {
            Node::Comment(_) => {}
            Node::Barrier => self.barrier(divergent),
            Node::Return(_) => self.returned |= divergent,
            Node::Declare { name, value, .. } => {
                let varies = divergent || value.as_ref().is_some_and(|value| self.varies(value));
                self.set(name, varies);
            }
            Node::Array { name, memory, .. } => {
                if *memory != Memory::Registers {
                    self.memory.insert(name);
                }
            }
            Node::Assign(place, value) => {
                let varies = divergent || self.varies(value) || self.varies(place);
                if let Some(name) = root(place) {
                    self.set(name, varies);
                }
            }
            Node::For { variable, lo, hi, step, body, .. } => {
                let varies = divergent || [lo, hi, step].into_iter().any(|bound| self.varies(bound));
                self.set(variable, varies);
                self.repeated(body, varies);
            }
            Node::While(condition, body) => {
                let varies = divergent || self.varies(condition);
                self.repeated(body, varies);
            }
            Node::If { condition, then, otherwise } => {
                let varies = divergent || self.varies(condition);
                self.nodes(then, varies);
                self.nodes(otherwise, varies);
            }
            Node::Call(_, arguments) => {
                let varies = divergent || arguments.iter().any(|argument| self.varies(argument));
                for name in arguments.iter().filter_map(root) {
                    self.set(name, varies);
                }
            }
            Node::Reduce { name, arguments, term, accumulator, body, value, .. } => {
                let varies = divergent || arguments.iter().any(|argument| self.varies(argument));
                [term, accumulator].into_iter().for_each(|own| self.set(own, varies));
                // Not all threads take the same number of terms: a barrier has no place here.
                self.nodes(body, true);
                let varies = varies || self.varies(value);
                self.set(name, varies);
            }
            Node::Scope(body) => self.nodes(body, divergent),
        }
    }
}

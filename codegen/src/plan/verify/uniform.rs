//! All threads of a block reach the same barriers.
//!
//! A value *varies* if it may differ between the threads of a block: it depends on `threadIdx`, or was assigned where only
//! some threads come. What shared or global memory holds at an index that does not vary is the same for all.

use std::collections::{HashMap, HashSet};

use super::Check;
use crate::emit::scope::root;
use crate::plan::{Expr, Launch, Memory, Node};

/// Checks one launch.
pub fn check(launch: &Launch) -> Check {
    let mut analysis = Analysis::default();
    let parameters = launch.parameters.iter().enumerate();
    analysis.names.extend(parameters.clone().map(|(number, parameter)| (parameter.name.as_str(), number)));
    analysis.memory.extend(parameters.map(|(number, _)| number));
    let first = launch.parameters.len();
    // Until nothing further varies.
    loop {
        let before = analysis.varying.len();
        (analysis.returned, analysis.problem, analysis.next) = (false, None, first);
        analysis.nodes(&launch.body, false);
        if before == analysis.varying.len() {
            return analysis.problem.map_or(Ok(()), |problem| Err(problem.into()));
        }
    }
}

/// Declarations are told apart by their number in the text: a name may be free again after its scope.
#[derive(Default)]
struct Analysis<'a> {
    /// What names in scope stand for.
    names: HashMap<&'a str, usize>,
    /// The number of the declaration that comes next.
    next: usize,
    /// Declarations of varying values.
    varying: HashSet<usize>,
    /// Of arrays that all threads see: shared ones and parameters.
    memory: HashSet<usize>,
    /// Some threads may have returned.
    returned: bool,
    problem: Option<&'static str>,
}

impl<'a> Analysis<'a> {
    fn declare(&mut self, name: &'a str, varies: bool) {
        self.names.insert(name, self.next);
        self.next += 1;
        self.set(name, varies);
    }

    fn varies(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Int(..) | Expr::Float(..) | Expr::Bool(_) => false,
            Expr::Name(name) => name.starts_with("threadIdx.") || self.is(&self.varying, name),
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
        root(array).is_some_and(|name| self.is(&self.memory, name))
    }

    fn is(&self, some: &HashSet<usize>, name: &str) -> bool {
        self.names.get(name).is_some_and(|declaration| some.contains(declaration))
    }

    fn set(&mut self, name: &str, varies: bool) {
        if let Some(declaration) = self.names.get(name).filter(|declaration| varies && !self.memory.contains(declaration)) {
            self.varying.insert(*declaration);
        }
    }

    /// Lets a name stand again for what it stood for.
    fn restore(&mut self, name: &'a str, before: Option<usize>) {
        match before {
            Some(declaration) => self.names.insert(name, declaration),
            None => self.names.remove(name),
        };
    }

    fn barrier(&mut self, divergent: bool) {
        if divergent {
            self.problem = Some("a barrier that not every thread reaches");
        } else if self.returned {
            self.problem = Some("a barrier after a return");
        }
    }

    /// `divergent`: only some threads come here. What is declared here ends here.
    fn nodes(&mut self, nodes: &'a [Node], divergent: bool) {
        let names = self.names.clone();
        for node in nodes {
            self.node(node, divergent);
        }
        self.names = names;
    }

    /// A loop's body, twice: what it ends with comes before what it begins with.
    fn repeated(&mut self, body: &'a [Node], divergent: bool) {
        let first = self.next;
        self.nodes(body, divergent);
        self.next = first;
        self.nodes(body, divergent);
    }

    fn node(&mut self, node: &'a Node, divergent: bool) {
        match node {
            Node::Comment(_) => {}
            Node::Barrier => self.barrier(divergent),
            Node::Return(_) => self.returned |= divergent,
            Node::Declare { name, value, .. } => {
                let varies = divergent || value.as_ref().is_some_and(|value| self.varies(value));
                self.declare(name, varies);
            }
            Node::Array { name, memory, .. } => {
                if *memory != Memory::Registers {
                    self.memory.insert(self.next);
                }
                self.declare(name, false);
            }
            Node::Assign(place, value) => {
                let varies = divergent || self.varies(value) || self.varies(place);
                if let Some(name) = root(place) {
                    self.set(name, varies);
                }
            }
            Node::For { variable, lo, hi, step, body, .. } => {
                let varies = divergent || [lo, hi, step].into_iter().any(|bound| self.varies(bound));
                let before = self.names.get(variable.as_str()).copied();
                self.declare(variable, varies);
                self.repeated(body, varies);
                self.restore(variable, before);
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
                let before = self.names.clone();
                [term, accumulator].into_iter().for_each(|own| self.declare(own, varies));
                // Not all threads take the same number of terms: a barrier has no place here.
                body.iter().for_each(|node| self.node(node, true));
                let varies = varies || self.varies(value);
                self.names = before;
                self.declare(name, varies);
            }
            Node::Scope(body) => self.nodes(body, divergent),
        }
    }
}

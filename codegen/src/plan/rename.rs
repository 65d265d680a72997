//! Another name for a parameter, everywhere in a launch's body. Names are unique in a launch, so no scope needs looking at.

use super::{Expr, Node};

/// Replaces the name `from` by `to` in all expressions of some nodes.
pub fn rename(nodes: &mut [Node], from: &str, to: &str) {
    for node in nodes {
        match node {
            Node::Comment(_) | Node::Array { .. } | Node::Barrier => {}
            Node::Declare { value, .. } | Node::Return(value) => value.iter_mut().for_each(|value| expr(value, from, to)),
            Node::Assign(place, value) => {
                expr(place, from, to);
                expr(value, from, to);
            }
            Node::For { lo, hi, step, body, .. } => {
                [lo, hi, step].into_iter().for_each(|bound| expr(bound, from, to));
                rename(body, from, to);
            }
            Node::While(condition, body) => {
                expr(condition, from, to);
                rename(body, from, to);
            }
            Node::If { condition, then, otherwise } => {
                expr(condition, from, to);
                rename(then, from, to);
                rename(otherwise, from, to);
            }
            Node::Call(_, arguments) => arguments.iter_mut().for_each(|argument| expr(argument, from, to)),
            Node::Reduce { arguments, body, value, .. } => {
                arguments.iter_mut().for_each(|argument| expr(argument, from, to));
                rename(body, from, to);
                expr(value, from, to);
            }
            Node::Scope(body) => rename(body, from, to),
        }
    }
}

fn expr(node: &mut Expr, from: &str, to: &str) {
    match node {
        Expr::Int(..) | Expr::Float(..) | Expr::Bool(_) => {}
        Expr::Name(name) => {
            if name == from {
                *name = to.to_owned();
            }
        }
        Expr::Element(array, indices) => {
            expr(array, from, to);
            indices.iter_mut().for_each(|index| expr(index, from, to));
        }
        Expr::Lane(a, b) | Expr::Wide(_, _, a, b) | Expr::Binary(_, a, b) => {
            expr(a, from, to);
            expr(b, from, to);
        }
        Expr::Unary(_, a) | Expr::Cast(_, a) => expr(a, from, to),
        Expr::Conditional(a, b, c) => [a, b, c].into_iter().for_each(|each| expr(each, from, to)),
        Expr::Call(_, arguments) => arguments.iter_mut().for_each(|argument| expr(argument, from, to)),
    }
}

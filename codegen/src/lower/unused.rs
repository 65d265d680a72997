//! Locals that nothing asks for. A schedule names all that its statements may want, such as the index of every dimension, before it is
//! known what they do want; what nothing mentions in the end is not declared.

use std::collections::BTreeSet;

use crate::plan::{Expr, Node};

/// Functions that compute their result and do nothing besides.
const PURE: [&str; 2] = ["minimum", "maximum"];

/// Names that are mentioned.
type Names = BTreeSet<String>;

/// Takes out the declarations that nothing mentions but others that go, and the branches and loops that are left empty. A value that
/// has a call is kept, for what it may do besides, but for calls that compute and no more. Gives the names that the nodes take from outside.
pub fn drop_unused(nodes: &mut Vec<Node>) -> Names {
    before(nodes, Names::new())
}

/// The same, where these names are mentioned afterwards: what is mentioned before the nodes.
fn before(nodes: &mut Vec<Node>, mut mentioned: Names) -> Names {
    let mut kept = Vec::new();
    for mut node in std::mem::take(nodes).into_iter().rev() {
        let wanted = match &node {
            Node::Declare { name, value, .. } => mentioned.remove(name) || value.as_ref().is_some_and(calls),
            Node::Array { name, .. } => mentioned.remove(name),
            _ => true,
        };
        if wanted && does_something(&mut node, &mut mentioned) {
            kept.push(node);
        }
    }
    kept.reverse();
    *nodes = kept;
    mentioned
}

/// Whether a node is left with something to do; if so, adds what it mentions.
fn does_something(node: &mut Node, mentioned: &mut Names) -> bool {
    match node {
        Node::Comment(_) | Node::Array { .. } | Node::Barrier => {}
        Node::Declare { value, .. } | Node::Return(value) => value.iter().for_each(|value| mention(value, mentioned)),
        Node::Assign(place, value) => [place, value].into_iter().for_each(|each| mention(each, mentioned)),
        Node::For { variable, lo, hi, step, body, .. } => {
            let mut inner = drop_unused(body);
            let bounds = [&*lo, &*hi, &*step];
            if body.is_empty() && !bounds.into_iter().any(calls) {
                return false;
            }
            inner.remove(variable);
            mentioned.append(&mut inner);
            bounds.into_iter().for_each(|bound| mention(bound, mentioned));
        }
        Node::While(condition, body) => {
            mentioned.append(&mut drop_unused(body));
            mention(condition, mentioned);
        }
        Node::If { condition, then, otherwise } => {
            mentioned.append(&mut drop_unused(then));
            mentioned.append(&mut drop_unused(otherwise));
            if then.is_empty() && otherwise.is_empty() && !calls(condition) {
                return false;
            }
            mention(condition, mentioned);
        }
        Node::Call(_, arguments) => arguments.iter().for_each(|argument| mention(argument, mentioned)),
        Node::Reduce { name, arguments, accumulator, term, body, value, .. } => {
            mentioned.remove(name);
            let mut inner = Names::new();
            mention(value, &mut inner);
            let mut inner = before(body, inner);
            inner.remove(accumulator);
            inner.remove(term);
            mentioned.append(&mut inner);
            arguments.iter().for_each(|argument| mention(argument, mentioned));
        }
        Node::Scope(body) => {
            mentioned.append(&mut drop_unused(body));
            return !body.is_empty();
        }
    }
    true
}

fn mention(expr: &Expr, mentioned: &mut Names) {
    expr.walk(&mut |expr| {
        if let Expr::Name(name) = expr
            && !mentioned.contains(name)
        {
            mentioned.insert(name.clone());
        }
    });
}

fn calls(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| found |= matches!(expr, Expr::Call(function, _) if !PURE.contains(&function.as_str())));
    found
}

#[cfg(test)]
mod tests {
    use gpukc_dsl::types::Type;

    use super::drop_unused;
    use crate::plan::{Expr, Node, Unroll, call, int, name};

    fn local(text: &str, value: Expr) -> Node {
        Node::Declare { ty: Type::I32.into(), name: text.into(), value: Some(value), mutable: false }
    }

    fn loop_over(variable: &str, body: Vec<Node>) -> Node {
        let [lo, hi, step] = [int(0), name("n"), int(1)];
        Node::For { variable: variable.into(), ty: Type::I32.into(), lo, hi, step, unroll: Unroll::Default, body }
    }

    /// What is left of some nodes, and what they take from outside.
    fn left(mut nodes: Vec<Node>) -> (Vec<Node>, Vec<String>) {
        let names = drop_unused(&mut nodes).into_iter().collect();
        (nodes, names)
    }

    #[test]
    fn what_only_the_unused_mentions_goes_too() {
        let store = Node::Assign(name("y").at(name("i")), name("a"));
        let nodes = vec![local("i", name("p")), local("rest", name("p") / 3), local("j", name("rest") % 5), store.clone()];
        assert_eq!(left(nodes), (vec![local("i", name("p")), store], vec!["a".into(), "p".into(), "y".into()]));
    }

    #[test]
    fn a_name_of_an_inner_block_is_another() {
        let store = |value: &str| Node::Assign(name("y").at(0), name(value));
        let inner = Node::Scope(vec![local("i", int(1)), store("i")]);
        let outer = vec![local("i", int(2)), inner.clone(), store("i")];
        assert_eq!(left(outer.clone()).0, outer);
        assert_eq!(left(vec![local("i", int(2)), inner.clone()]).0, [inner]);
        // Mentioned inside of a loop, declared before it.
        let nodes = vec![local("k", int(2)), loop_over("i", vec![store("k"), local("k", int(3))])];
        assert_eq!(left(nodes), (vec![local("k", int(2)), loop_over("i", vec![store("k")])], vec!["n".into(), "y".into()]));
    }

    #[test]
    fn what_is_left_empty_goes_and_calls_stay() {
        let asks = local("ticket", call("take_ticket", vec![name("counter")]));
        let branch = |then| Node::If { condition: name("c"), then, otherwise: Vec::new() };
        let nodes =
            vec![local("c", int(1)), branch(vec![local("x", int(1))]), loop_over("i", vec![local("j", name("i"))]), asks.clone()];
        assert_eq!(left(nodes), (vec![asks], vec!["counter".into()]));
    }

    #[test]
    fn a_reduction_asks_for_what_its_value_mentions() {
        let reduce = |body| Node::Reduce {
            name: "sum".into(),
            ty: Type::F32.into(),
            helper: "canonical",
            arguments: vec![name("n")],
            accumulator: "so_far".into(),
            term: "k".into(),
            body,
            value: name("so_far") + name("x"),
        };
        let read = local("x", name("p").at(name("k")));
        let nodes = vec![reduce(vec![read.clone(), local("i", name("k"))])];
        assert_eq!(left(nodes), (vec![reduce(vec![read])], vec!["n".into(), "p".into()]));
    }
}

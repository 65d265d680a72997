//! Appending to a list of statements.

use super::{Expr, Node};

/// Appends a statement. A loop that does for further rounds what the loop before it did makes that one longer.
pub fn append(nodes: &mut Vec<Node>, node: Node) {
    let longer = nodes.last().and_then(|before| end_of_both(before, &node));
    match (nodes.last_mut(), longer) {
        (Some(Node::For { hi, .. }), Some(end)) => *hi = end,
        _ => nodes.push(node),
    }
}

/// Where the second loop ends, if it goes on where the first one ended and does the same.
fn end_of_both(before: &Node, after: &Node) -> Option<Expr> {
    let (Node::For { lo, hi, step, .. }, Node::For { lo: next, hi: end, .. }) = (before, after) else { return None };
    let whole = (hi.constant()? - lo.constant()?) % step.constant()? == 0;
    let mut longer = before.clone();
    if let Node::For { lo, hi, .. } = &mut longer {
        (*lo, *hi) = (next.clone(), end.clone());
    }
    (whole && hi == next && longer == *after).then(|| end.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Unroll, int, name};
    use gpukc_dsl::types::Type;

    fn round([lo, hi, step]: [i64; 3], value: &str) -> Node {
        let body = vec![Node::Assign(name("x").at(name("i")), name(value))];
        Node::For { variable: "i".into(), ty: Type::I32.into(), lo: int(lo), hi: int(hi), step: int(step), unroll: Unroll::Full, body }
    }

    fn appended(nodes: [Node; 2]) -> Vec<Node> {
        let mut all = Vec::new();
        nodes.into_iter().for_each(|node| append(&mut all, node));
        all
    }

    #[test]
    fn a_loop_that_goes_on_is_one_with_the_loop_before() {
        assert_eq!(appended([round([0, 4, 2], "a"), round([4, 6, 2], "a")]), [round([0, 6, 2], "a")]);
    }

    #[test]
    fn other_loops_stay_by_themselves() {
        for after in [round([4, 6, 2], "b"), round([5, 7, 2], "a"), round([4, 6, 1], "a")] {
            assert_eq!(appended([round([0, 4, 2], "a"), after]).len(), 2);
        }
        // The first loop's last round goes beyond its end.
        assert_eq!(appended([round([0, 3, 2], "a"), round([3, 5, 2], "a")]).len(), 2);
    }
}

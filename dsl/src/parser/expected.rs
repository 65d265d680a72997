//! What the grammar would have taken where it stopped, in words.

use super::grammar::Rule;
use super::recover::Part;

/// What could stand at a place, in the order in which messages list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expected {
    Item,
    Statement,
    Target,
    Name,
    Type,
    Expression,
    Operator,
    Assignment,
    Sign(&'static str),
}

pub(super) fn describe(rule: Rule, part: Part) -> Option<Expected> {
    use Expected::*;
    Some(match rule {
        Rule::item | Rule::kernel | Rule::function | Rule::constant | Rule::KERNEL | Rule::FN | Rule::CONST | Rule::only_item => Item,
        Rule::statements
        | Rule::statement
        | Rule::local_statements
        | Rule::local_statement
        | Rule::local_let
        | Rule::local_if
        | Rule::LET
        | Rule::let_array
        | Rule::let_several
        | Rule::while_loop
        | Rule::for_loop
        | Rule::WHILE
        | Rule::FOR
        | Rule::only_statements
        | Rule::only_local_statements => Statement,
        Rule::definition | Rule::assignment | Rule::target => Target,
        Rule::name | Rule::parameter | Rule::index_variable | Rule::word => Name,
        Rule::type_expression | Rule::type_name | Rule::element_type | Rule::results => Type,
        Rule::expression
        | Rule::index_expression
        | Rule::term
        | Rule::operand
        | Rule::final_value
        | Rule::subscript
        | Rule::target_subscript
        | Rule::argument
        | Rule::parenthesised
        | Rule::conditional
        | Rule::reduction
        | Rule::reducer
        | Rule::path
        | Rule::call_or_read
        | Rule::truth
        | Rule::limit
        | Rule::range
        | Rule::index_range
        | Rule::unary_operator => Expression,
        Rule::number => Expression,
        Rule::binary_operator | Rule::index_operator | Rule::term_operator | Rule::AS | Rule::continuation => Operator,
        Rule::assign_operator => Assignment,
        Rule::block | Rule::OPEN_BRACE => Sign("{"),
        Rule::parameters | Rule::OPEN_PAREN | Rule::arguments | Rule::several => Sign("("),
        Rule::dims | Rule::subscripts | Rule::target_subscripts | Rule::OPEN_BRACKET => Sign("["),
        Rule::CLOSE_PAREN => Sign(")"),
        Rule::CLOSE_BRACKET => Sign("]"),
        Rule::CLOSE_BRACE => Sign("}"),
        Rule::COMMA => Sign(","),
        Rule::SEMICOLON => Sign(";"),
        Rule::COLON => Sign(":"),
        Rule::EQUALS => Sign("="),
        Rule::ARROW => Sign("->"),
        Rule::BAR | Rule::boundary => Sign("|"),
        Rule::TO => Sign(".."),
        Rule::TO_INCLUDED => Sign("..="),
        Rule::IN => Sign("in"),
        Rule::IF | Rule::filter => Sign("if"),
        Rule::ELSE => Sign("else"),
        Rule::WHERE | Rule::conditions => Sign("where"),
        Rule::MUT => return None,
        Rule::EOI => match part {
            Part::Item => Item,
            Part::Header => Sign("{"),
            Part::KernelBody | Part::FunctionBody => Sign("}"),
        },
        _ => return None,
    })
}

pub(super) fn list(expected: &[Expected]) -> String {
    let one = |expected: &Expected| match expected {
        Expected::Item => "an item (`kernel`, `fn` or `const`)".to_string(),
        Expected::Statement => "a statement".to_string(),
        Expected::Target | Expected::Name => "a name".to_string(),
        Expected::Type => "a type".to_string(),
        Expected::Expression => "an expression".to_string(),
        Expected::Operator => "an operator".to_string(),
        Expected::Assignment => "`+=` or its like".to_string(),
        Expected::Sign(sign) => format!("`{sign}`"),
    };
    let mut words: Vec<String> = expected.iter().map(one).collect();
    words.dedup();
    match words.as_slice() {
        [] => "something else".into(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

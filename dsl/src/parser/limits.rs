//! How deep and how long an expression may be, found out before the grammar and the tree builder, which are recursive, see
//! it. Nothing here recurses.

use super::item::binary;
use super::scan::{Kind, Token};
use crate::diagnostic::{Diagnostic, codes};
use crate::types::Reducer;

/// Brackets, reductions in the term of another, unary operators and casts in a row, `else if`s: so many inside one another.
pub(crate) const NESTING: usize = 256;
/// Binary operators from the root of an expression to a leaf. `a + b + c` leans to the left: it counts 2.
pub(super) const OPERATORS: usize = 4096;
/// Precedences are smaller.
const PRECEDENCES: usize = 11;

/// What is known of the text since a bracket was opened.
#[derive(Default)]
struct Level {
    brace: bool,
    /// The bracket belongs to a reducer: what follows it is a term.
    reducer: bool,
    /// Nesting outside.
    outside: usize,
    /// Reductions whose term is not over, unary operators and casts in a row, `else if`s in a row.
    reductions: usize,
    run: usize,
    otherwise: usize,
    /// Operators in a row, by precedence: in the row that is not over, and in the longest.
    rows: [(usize, usize); PRECEDENCES],
    /// The most in a bracketed part of this expression, and in an expression before this one.
    inside: usize,
    before: usize,
}

impl Level {
    fn nesting(&self) -> usize {
        self.outside + 1 + self.reductions + self.run + self.otherwise
    }
    fn height(&self) -> usize {
        self.before.max(self.rows.iter().map(|row| row.1).sum::<usize>() + self.inside)
    }
    /// A binary operator: rows of those that bind tighter are over.
    fn operator(&mut self, precedence: usize) {
        for row in &mut self.rows[precedence + 1..] {
            row.0 = 0;
        }
        let (length, longest) = &mut self.rows[precedence];
        *length += 1;
        *longest = (*longest).max(*length);
    }
    /// Another expression begins.
    fn separate(&mut self) {
        self.before = self.height();
        (self.reductions, self.run, self.otherwise, self.inside) = (0, 0, 0, 0);
        self.rows = Default::default();
    }
}

/// The limit that an item exceeds, if it does.
pub(super) fn exceeded(text: &str, tokens: &[Token]) -> Option<Diagnostic> {
    let mut levels = vec![Level { brace: true, ..Level::default() }];
    let mut previous = "";
    // Whether an operand ended just now, so that `-` is binary; whether a reducer's name did.
    let (mut operand, mut reducer) = (false, false);
    for (at, token) in tokens.iter().enumerate() {
        let here = &text[token.span.range()];
        let level = levels.last_mut()?;
        let was_reducer = std::mem::take(&mut reducer);
        if previous == "}" && token.kind != Kind::Sign && !matches!(here, "else" | "as") {
            level.separate();
        }
        match here {
            "(" | "[" | "{" => {
                let outside = level.nesting();
                levels.push(Level { brace: here == "{", reducer: here == "[" && was_reducer, outside, ..Level::default() });
                operand = false;
            }
            ")" | "]" | "}" => {
                while here == "}" && levels.len() > 1 && !level_is_brace(&levels) {
                    close(&mut levels);
                }
                let reduces = levels.last()?.reducer;
                close(&mut levels);
                levels.last_mut()?.reductions += usize::from(reduces);
                operand = !reduces;
            }
            ";" => {
                while levels.len() > 1 && !level_is_brace(&levels) {
                    close(&mut levels);
                }
                levels.last_mut()?.separate();
                operand = false;
            }
            "," => {
                level.separate();
                operand = false;
            }
            "-" | "!" if !operand => level.run += 1,
            "as" => level.run += 1,
            "else" => {
                level.otherwise += 1;
                operand = false;
            }
            "if" => {
                if previous != "else" {
                    level.otherwise = 0;
                }
                operand = false;
            }
            "in" | "where" | "let" | "while" | "for" => operand = false,
            _ if token.kind == Kind::Sign => {
                level.run = 0;
                if let Some(operator) = binary(here) {
                    level.operator(usize::from(operator.precedence()));
                }
                if !matches!(here, "*" | "/" | "%") {
                    level.reductions = 0;
                }
                operand = false;
            }
            _ => {
                reducer = Reducer::from_name(here).is_some() && text_of(text, tokens.get(at + 1)) == "[";
                operand = true;
            }
        }
        let level = levels.last()?;
        if level.nesting() > NESTING {
            let message = format!("this is nested more than {NESTING} deep, which is a limit of the compiler");
            let help = "name a part of it with `let`";
            return Some(Diagnostic::error(codes::NESTING, token.span, message, "one too many").help(help));
        }
        if level.height() > OPERATORS {
            let message = format!("this expression has more than {OPERATORS} operators in a row, which is a limit of the compiler");
            let help = "name parts of it with `let`, or write a reduction";
            return Some(Diagnostic::error(codes::LENGTH, token.span, message, "one too many").help(help));
        }
        previous = here;
    }
    None
}

fn level_is_brace(levels: &[Level]) -> bool {
    levels.last().is_some_and(|level| level.brace)
}

fn close(levels: &mut Vec<Level>) {
    if levels.len() > 1
        && let (Some(closed), Some(level)) = (levels.pop(), levels.last_mut())
    {
        level.inside = level.inside.max(closed.height());
    }
}

fn text_of<'a>(text: &'a str, token: Option<&Token>) -> &'a str {
    token.map_or("", |token| &text[token.span.range()])
}

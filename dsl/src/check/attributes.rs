//! `@name(arguments)` before a kernel or a statement.

use super::literals::{self, Number};
use super::lower::Lower;
use super::names::nearest;
use crate::ast::{self, ExprKind as Ast};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::Attributes;

/// Attributes, and the one that the checker uses up itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Licences {
    pub(crate) attributes: Attributes,
    /// `@accumulate(f64)`
    pub(crate) accumulate: bool,
}

impl Licences {
    /// A statement's licences: its own, and the kernel's where it has none.
    pub(crate) fn over(self, kernel: &Licences) -> Licences {
        let (own, outer) = (self.attributes, &kernel.attributes);
        Licences {
            accumulate: self.accumulate || kernel.accumulate,
            attributes: Attributes {
                fast_math: own.fast_math || outer.fast_math,
                deterministic: own.deterministic || outer.deterministic,
                tf32: own.tf32 || outer.tf32,
                exact: own.exact || outer.exact,
                block: own.block.or(outer.block),
                tile: if own.tile.is_empty() { outer.tile.clone() } else { own.tile },
                unroll: own.unroll.or(outer.unroll),
            },
        }
    }
}

const NAMES: [&str; 8] = ["fast_math", "deterministic", "tf32", "exact", "accumulate", "block", "tile", "unroll"];

impl Lower<'_> {
    pub(crate) fn attributes(&mut self, list: &[ast::Attribute]) -> Licences {
        let mut licences = Licences::default();
        let mut seen: Vec<&ast::Name> = Vec::new();
        for attribute in list {
            if let Some(first) = seen.iter().find(|name| name.text == attribute.name.text) {
                let message = format!("`@{}` is given twice", attribute.name.text);
                let problem = Diagnostic::error(codes::ATTRIBUTE_TWICE, attribute.span, message, "again");
                let first = first.span;
                self.report(problem.label(first, "first here"));
                continue;
            }
            seen.push(&attribute.name);
            self.attribute(attribute, &mut licences);
        }
        licences
    }

    fn attribute(&mut self, attribute: &ast::Attribute, licences: &mut Licences) {
        let own = &mut licences.attributes;
        match attribute.name.text.as_str() {
            "fast_math" => own.fast_math = self.no_arguments(attribute),
            "deterministic" => own.deterministic = self.no_arguments(attribute),
            "tf32" => own.tf32 = self.no_arguments(attribute),
            "exact" => own.exact = self.no_arguments(attribute),
            "accumulate" => match attribute.arguments.as_slice() {
                [(None, ast::Expr { kind: Ast::Name(name), .. })] if name == "f64" => licences.accumulate = true,
                _ => self.wrong_arguments(attribute, "`@accumulate` takes one type, f64", "write `@accumulate(f64)`"),
            },
            "block" => {
                let most = 1024;
                let value = self.one_number(attribute, "@block(256)", most);
                own.block = value.map(|value| (value, attribute.span));
            }
            "unroll" => {
                let value = self.one_number(attribute, "@unroll(4)", 1024);
                own.unroll = value.map(|value| (value, attribute.span));
            }
            "tile" => own.tile = self.tile(attribute),
            name => {
                let message = format!("unknown attribute `@{name}`");
                let problem = Diagnostic::error(codes::UNKNOWN_ATTRIBUTE, attribute.name.span, message, "unknown");
                self.report(match nearest(name, NAMES.into_iter()) {
                    Some(guess) => problem.suggest(format!("did you mean `@{guess}`?"), attribute.name.span, guess),
                    None => problem.help(
                        "the attributes are @fast_math @deterministic @tf32 @exact @accumulate(f64) @block(n) @tile(i = n, …) @unroll(n)",
                    ),
                });
            }
        }
    }

    fn wrong_arguments(&mut self, attribute: &ast::Attribute, message: &str, help: &str) {
        self.report(Diagnostic::error(codes::ATTRIBUTE_ARGUMENTS, attribute.span, message, "wrong arguments").help(help));
    }

    fn no_arguments(&mut self, attribute: &ast::Attribute) -> bool {
        if !attribute.arguments.is_empty() {
            let name = &attribute.name.text;
            self.wrong_arguments(attribute, &format!("`@{name}` takes no arguments"), &format!("write `@{name}`"));
        }
        attribute.arguments.is_empty()
    }

    fn positive(value: &ast::Expr, most: u32) -> Option<u32> {
        let Ast::Number(text) = &super::expr::unparenthesized(value).kind else { return None };
        let Ok((Number::Int(Some(value)), None)) = literals::parse(text) else { return None };
        u32::try_from(value).ok().filter(|&value| value > 0 && value <= most)
    }

    fn one_number(&mut self, attribute: &ast::Attribute, example: &str, most: u32) -> Option<u32> {
        if let [(None, value)] = attribute.arguments.as_slice() {
            if let Some(value) = Self::positive(value, most) {
                return Some(value);
            }
        }
        let message = format!("`@{}` takes one integer from 1 to {most}", attribute.name.text);
        self.wrong_arguments(attribute, &message, &format!("write `{example}`, for example"));
        None
    }

    fn tile(&mut self, attribute: &ast::Attribute) -> Vec<(String, u32, crate::source::Span)> {
        let mut tiles = Vec::new();
        for (key, value) in &attribute.arguments {
            match (key, Self::positive(value, 65536)) {
                (Some(key), Some(size)) if tiles.iter().all(|(name, _, _)| *name != key.text) => {
                    tiles.push((key.text.clone(), size, key.span.to(value.span)));
                }
                _ => {
                    let message = "`@tile` takes index variables with sizes from 1 to 65536, each once";
                    self.wrong_arguments(attribute, message, "write `@tile(i = 64, j = 64)`, for example");
                    return Vec::new();
                }
            }
        }
        if tiles.is_empty() {
            self.wrong_arguments(attribute, "`@tile` takes index variables with sizes", "write `@tile(i = 64, j = 64)`, for example");
        }
        tiles
    }
}

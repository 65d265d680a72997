//! What has been defined: reads come after definitions, results are defined, extents are not negative.

use super::infer::Ty;
use super::lower::Lower;
use super::{bounds, cover, order, regions, walk};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::*;
use crate::prover::{self, effort};
use crate::source::Span;
use crate::types::{BinaryOp, Type};

/// How far an array's definition has come.
#[derive(Clone, Debug)]
pub(crate) struct Defined {
    pub(crate) role: Role,
    /// An error has been reported for it; nothing more is said.
    pub(crate) broken: bool,
    /// Whether any statement defines it.
    pub(crate) defined: bool,
    /// The first place that reads it; it is complete from there on.
    pub(crate) read: Option<Span>,
    /// The accumulation into it.
    pub(crate) accumulated: Option<Span>,
    /// Its statements, by position in the kernel.
    pub(crate) statements: Vec<usize>,
}

impl Defined {
    pub(crate) fn new(role: Role) -> Self {
        Defined { role, broken: false, defined: role != Role::Result, read: None, accumulated: None, statements: Vec::new() }
    }
}

impl Lower<'_> {
    /// Whether an array may be read here; if it is a result, it must be complete, and is from now on.
    pub(crate) fn readable(&mut self, array: ArrayId, span: Span) -> bool {
        let Defined { role, broken, defined, read, .. } = self.defined[array.index()].clone();
        if broken {
            return false;
        }
        if role != Role::Result {
            return true;
        }
        let name = self.kernel.arrays[array].name.clone();
        if self.current == Some(array) || !defined {
            let (message, label) = if defined || self.current == Some(array) {
                (format!("`{name}` is read while it is being defined"), "its own value")
            } else {
                (format!("`{name}` is read before it is defined"), "not defined yet")
            };
            let mut problem = Diagnostic::error(codes::READ_TOO_EARLY, span, message, label);
            problem = if self.current == Some(array) {
                problem.help("a running sum is `sum[j in 0..=i] x[j]`; to accumulate into elements write `+=`, `max=` and so on")
            } else {
                problem.help("define it above")
            };
            self.report(problem);
            return false;
        }
        if read.is_none() {
            self.defined[array.index()].read = Some(span);
            return self.covered(array);
        }
        true
    }

    /// Adds a checked statement to the kernel.
    pub(crate) fn finish(&mut self, statement: Statement) {
        let index = self.kernel.statements.len();
        self.defined[statement.array.index()].statements.push(index);
        self.kernel.statements.push(statement);
        if self.header_failed {
            return; // its extents and conditions decide nothing
        }
        order::classify(&mut self.kernel, index);
        let asked = effort::on_subscripts(|| bounds::check(&mut self.kernel, self.source, index, &mut self.problems));
        for at_call in asked {
            self.ask_at_call(at_call);
        }
    }

    pub(crate) fn expr_bool(&mut self, op: BinaryOp, a: ExprId, b: ExprId, span: Span) -> ExprId {
        self.push(ExprKind::Binary(op, a, b), Ty::Known(Type::Bool), span)
    }

    /// Conditions for a subscript that is decided at the call: its lowest and highest value are in range, unless a range on
    /// the way is empty.
    fn ask_at_call(&mut self, asked: bounds::AtCall) {
        let span = asked.span;
        let empty: Vec<ExprId> = asked
            .ranges
            .iter()
            .filter(|ranged| !self.surely_holds(ranged))
            .map(|ranged| (ranged.lo, ranged.hi))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(lo, hi)| self.expr_bool(BinaryOp::Le, hi, lo, span))
            .collect();
        for corner in corners(&asked.slopes) {
            let value = self.at_corner(&asked, &corner);
            let zero = self.int(0, span);
            let above = self.expr_bool(BinaryOp::Le, zero, value, span);
            let below = self.expr_bool(BinaryOp::Lt, value, asked.extent, span);
            let mut holds = self.expr_bool(BinaryOp::And, above, below, span);
            for &empty in empty.iter().rev() {
                holds = self.expr_bool(BinaryOp::Or, empty, holds, span);
            }
            let reason = ConditionReason::InRange(asked.array, asked.axis, value);
            self.kernel.conditions.push(Condition { holds, span, reason });
        }
        self.settle();
    }

    fn surely_holds(&self, ranged: &Ranged) -> bool {
        let literal = |id: ExprId| match self.kernel.exprs[id].kind {
            ExprKind::Literal(Literal::Int(value)) => Some(value),
            _ => None,
        };
        matches!((literal(ranged.lo), literal(ranged.hi)), (Some(lo), Some(hi)) if lo < hi)
    }

    /// The index with each variable at the last (`true`) or first value of its range.
    fn at_corner(&mut self, asked: &bounds::AtCall, corner: &[bool]) -> ExprId {
        let span = asked.span;
        let mut ends = std::collections::HashMap::new();
        for (ranged, last) in asked.ranges.iter().zip(corner) {
            let value = if *last {
                let one = self.int(1, span);
                self.push(ExprKind::Binary(BinaryOp::Sub, ranged.hi, one), Ty::Known(Type::I64), span)
            } else {
                ranged.lo
            };
            ends.insert(ranged.variable, value);
        }
        let mut copies = std::collections::HashMap::new();
        for id in walk::in_order(&self.kernel, asked.index) {
            let Expr { kind, span, ty } = self.kernel.exprs[id].clone();
            let new = match kind {
                ExprKind::Variable(variable) if ends.contains_key(&variable) => ends[&variable],
                kind => {
                    let kind = walk::map(
                        &kind,
                        &mut |child| copies.get(&child).copied().unwrap_or(child),
                        &mut |variable| variable,
                        &mut |array| array,
                    );
                    self.push(kind, Ty::Known(ty), span)
                }
            };
            copies.insert(id, new);
        }
        copies.get(&asked.index).copied().unwrap_or(asked.index)
    }

    /// Every result is defined, and completely.
    pub(crate) fn check_results(&mut self) {
        for array in self.kernel.results.clone() {
            let Defined { broken, defined, read, .. } = self.defined[array.index()].clone();
            if broken {
                continue;
            }
            if !defined {
                let (name, span) = (self.kernel.arrays[array].name.clone(), self.kernel.arrays[array].span);
                let message = format!("nothing defines the result `{name}`");
                let left = super::kernel::left_side(&name, self.kernel.arrays[array].rank());
                self.report(
                    Diagnostic::error(codes::NOT_DEFINED, span, message, "never defined")
                        .help(format!("add a statement: `{left} = …;`")),
                );
            } else if read.is_none() {
                self.covered(array);
            }
        }
    }

    /// Whether the statements of an array define every element exactly once; reports what is missing or twice.
    fn covered(&mut self, array: ArrayId) -> bool {
        let statements = self.defined[array.index()].statements.clone();
        let dependent = statements.iter().any(|&number| regions::is_dependent(&self.kernel, &self.kernel.statements[number]));
        let problem = if dependent { self.join(array, &statements) } else { cover::check(&self.kernel, array, &statements) };
        match problem {
            None => true,
            Some(problem) => {
                self.report(problem);
                self.defined[array.index()].broken = true;
                false
            }
        }
    }

    /// Whether a definition's left side is made of variables, literals, dims and scalars.
    pub(crate) fn affine_left(&mut self, array: ArrayId, left: &[Subscript]) -> bool {
        for subscript in left {
            let data = walk::any(&self.kernel, subscript.index, |kind| {
                matches!(kind, ExprKind::Read { .. } | ExprKind::Reduce(_) | ExprKind::Call(..))
            });
            if data {
                let name = self.kernel.arrays[array].name.clone();
                let span = self.span(subscript.index);
                let message = format!("which elements of `{name}` this defines depends on data");
                let problem = Diagnostic::error(codes::NOT_AFFINE, span, message, "read from an array");
                self.report(
                    problem.help(format!("elements may meet, so accumulate: `{name}[…] += …` (or `max=`, `min=`, `*=`, `|=`, `&=`)")),
                );
                return false;
            }
        }
        true
    }
}

/// The corners of a box, last (`true`) or first values, at which an index of these slopes is least or greatest.
fn corners(slopes: &[prover::Slope]) -> Vec<Vec<bool>> {
    let mut corners = Vec::new();
    for high in [false, true] {
        let mut some: Vec<Vec<bool>> = vec![Vec::new()];
        for slope in slopes {
            some = match slope {
                prover::Slope::Rises => some.into_iter().map(|corner| [corner, vec![high]].concat()).collect(),
                prover::Slope::Falls => some.into_iter().map(|corner| [corner, vec![!high]].concat()).collect(),
                prover::Slope::Either => {
                    some.iter().flat_map(|corner| [false, true].map(|last| [corner.as_slice(), &[last]].concat())).collect()
                }
            };
        }
        for corner in some {
            if !corners.contains(&corner) {
                corners.push(corner);
            }
        }
    }
    corners
}

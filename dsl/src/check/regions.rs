//! Definitions whose ranges depend on each other: `y[i, j in 0..=i] = …; y[i, j in i + 1..n] = …;`.
//!
//! Their regions must divide the array, which the prover decides: each lies in the array, no two meet, and no element is in none.
//! In the program they are one definition of the whole array, which chooses between their values, so that nothing after the
//! checker knows of regions.

use super::infer::Ty;
use super::lower::Lower;
use super::{cover, walk};
use crate::diagnostic::{Diagnostic, codes};
use crate::program::*;
use crate::prover::{self, Scope};
use crate::source::Span;
use crate::types::{BinaryOp, Type};
use std::collections::HashMap;

/// The most ways of being in no region that are looked at.
const MOST_WAYS: usize = 1024;

/// Several statements, and the one that stands for them.
pub(crate) struct Joined {
    pub(crate) statements: Vec<usize>,
    pub(crate) by: Statement,
}

/// A statement's variables in terms of those of the whole array, and what holds in its region alone.
struct Region {
    variables: HashMap<VariableId, VariableId>,
    conditions: Vec<ExprId>,
}

/// Whether a range of the left side depends on another of its variables.
pub(crate) fn is_dependent(kernel: &Kernel, statement: &Statement) -> bool {
    statement.variables.iter().any(|ranged| !walk::at_call(kernel, ranged.lo) || !walk::at_call(kernel, ranged.hi))
}

impl Lower<'_> {
    /// Joins the statements of an array, or says why they don't divide it.
    pub(crate) fn join(&mut self, array: ArrayId, statements: &[usize]) -> Option<Diagnostic> {
        let defines: Vec<Statement> = statements.iter().map(|&number| self.kernel.statements[number].clone()).collect();
        let whole = self.whole_ranges(array, &defines);
        let mut regions = Vec::new();
        for define in &defines {
            match self.region(array, define, &whole) {
                Some(region) => regions.push(region),
                None => return Some(self.not_understood(array, define.span)),
            }
        }
        if !self.divide(array, &defines, &regions, &whole) {
            let defines: Vec<&Statement> = defines.iter().collect();
            let last = defines.last().map_or(Span::default(), |define| define.span);
            return Some(cover::by_example(&self.kernel, array, &defines).unwrap_or_else(|| self.not_understood(array, last)));
        }
        if let Some(other) = defines.iter().find(|define| define.attributes != defines[0].attributes) {
            let message = "statements whose ranges depend on each other have the same attributes";
            return Some(Diagnostic::error(codes::ATTRIBUTE_PLACE, other.span, message, "other attributes than above"));
        }
        let by = self.chosen(array, &defines, &regions, &whole);
        self.joined.push(Joined { statements: statements.to_vec(), by });
        None
    }

    fn not_understood(&self, array: ArrayId, span: Span) -> Diagnostic {
        let name = &self.kernel.arrays[array].name;
        let message = format!("it can't be told whether every element of `{name}` is defined exactly once");
        Diagnostic::error(codes::NOT_COVERED, span, message, "not decided").help(
            "where a range depends on another variable, the left sides hold variables alone and what is known at the call; or choose \
             with `if` in one definition",
        )
    }

    /// A variable for each axis.
    fn whole_ranges(&mut self, array: ArrayId, defines: &[Statement]) -> Vec<Ranged> {
        let shape = self.kernel.arrays[array].shape.clone();
        let named = |lower: &Self, axis: usize| {
            let indices = defines.iter().filter_map(|define| define.subscripts.get(axis));
            indices.into_iter().find_map(|subscript| match lower.kernel.exprs[subscript.index].kind {
                ExprKind::Variable(variable) => Some(lower.kernel.variables[variable].clone()),
                _ => None,
            })
        };
        let mut all = Vec::new();
        for (axis, hi) in shape.into_iter().enumerate() {
            let span = self.kernel.arrays[array].span;
            let variable = named(self, axis).unwrap_or(Variable { name: "i".into(), span });
            let variable = self.kernel.variables.push(variable);
            let lo = self.int(0, span);
            all.push(Ranged { variable, lo, hi });
        }
        all
    }

    fn region(&mut self, array: ArrayId, define: &Statement, whole: &[Ranged]) -> Option<Region> {
        let mut variables = HashMap::new();
        let mut conditions = Vec::new();
        for (subscript, own) in define.subscripts.iter().zip(whole) {
            match self.kernel.exprs[subscript.index].kind {
                ExprKind::Variable(variable) => {
                    if variables.insert(variable, own.variable).is_some() {
                        return None;
                    }
                }
                _ if walk::at_call(&self.kernel, subscript.index) => {
                    conditions.push(self.compared(BinaryOp::Eq, own.variable, subscript.index));
                }
                _ => return None,
            }
        }
        for ranged in &define.variables {
            let own = *variables.get(&ranged.variable)?;
            let axis = whole.iter().position(|whole| whole.variable == own)?;
            let from_zero = self.kernel.exprs[ranged.lo].kind == ExprKind::Literal(Literal::Int(0));
            if !from_zero {
                let lo = walk::copy(self, ranged.lo, &variables);
                conditions.push(self.compared(BinaryOp::Ge, own, lo));
            }
            if !prover::same(&self.kernel, ranged.hi, self.kernel.arrays[array].shape[axis]) {
                let hi = walk::copy(self, ranged.hi, &variables);
                conditions.push(self.compared(BinaryOp::Lt, own, hi));
            }
        }
        Some(Region { variables, conditions })
    }

    fn compared(&mut self, op: BinaryOp, variable: VariableId, with: ExprId) -> ExprId {
        let span = self.span(with);
        let variable = self.push(ExprKind::Variable(variable), Ty::Known(Type::I64), span);
        self.push(ExprKind::Binary(op, variable, with), Ty::Known(Type::Bool), span)
    }

    /// Whether the regions lie in the array, don't meet, and leave nothing out.
    fn divide(&self, array: ArrayId, defines: &[Statement], regions: &[Region], whole: &[Ranged]) -> bool {
        let kernel = &self.kernel;
        let inside = defines.iter().all(|define| {
            let scope: Vec<Scope> = define.variables.iter().map(|ranged| Scope::Range(*ranged)).collect();
            let mut axes = define.subscripts.iter().zip(&kernel.arrays[array].shape);
            axes.all(|(subscript, &extent)| prover::in_range(kernel, &scope, subscript.index, extent))
        });
        let scope: Vec<Scope> = whole.iter().map(|ranged| Scope::Range(*ranged)).collect();
        let never = |guards: &[(ExprId, bool)]| {
            let guards = guards.iter().map(|&(condition, holds)| Scope::Guard(condition, holds));
            let all: Vec<Scope> = scope.iter().copied().chain(guards).collect();
            prover::solver(kernel, &all).impossible()
        };
        let apart = (0..regions.len()).all(|second| {
            (0..second).all(|first| {
                let both = regions[first].conditions.iter().chain(&regions[second].conditions);
                never(&both.map(|&condition| (condition, true)).collect::<Vec<_>>())
            })
        });
        let ways = regions.iter().map(|region| region.conditions.len()).product::<usize>();
        inside
            && apart
            && ways <= MOST_WAYS
            && (0..ways).all(|mut way| {
                let broken = regions.iter().map(|region| {
                    let count = region.conditions.len();
                    let condition = region.conditions[way % count];
                    way /= count;
                    (condition, false)
                });
                never(&broken.collect::<Vec<_>>())
            })
    }

    /// The definition that chooses.
    fn chosen(&mut self, array: ArrayId, defines: &[Statement], regions: &[Region], whole: &[Ranged]) -> Statement {
        let element = self.kernel.arrays[array].element;
        let mut value = None;
        for (define, region) in defines.iter().zip(regions).rev() {
            let own = walk::copy(self, define.value, &region.variables);
            let own = self.cast(own, element);
            value = Some(match value {
                None => own,
                Some(otherwise) => {
                    let condition = region
                        .conditions
                        .iter()
                        .copied()
                        .reduce(|a, b| self.push(ExprKind::Binary(BinaryOp::And, a, b), Ty::Known(Type::Bool), define.span));
                    match condition {
                        Some(condition) => {
                            self.push(ExprKind::If { condition, then: own, otherwise }, Ty::Known(element), define.span)
                        }
                        None => own,
                    }
                }
            });
        }
        let mut subscripts = Vec::new();
        for ranged in whole {
            let index = self.push(ExprKind::Variable(ranged.variable), Ty::Known(Type::I64), defines[0].span);
            subscripts.push(Subscript { index, bounds: Bounds::Proved });
        }
        self.settle();
        let value = value.unwrap_or(subscripts[0].index);
        Statement { value, subscripts, variables: whole.to_vec(), ..defines[0].clone() }
    }

    /// Puts the joined statements where the last of each stood.
    pub(crate) fn take_joined(&mut self) {
        let joined = std::mem::take(&mut self.joined);
        let mut statements = Vec::new();
        for (number, statement) in std::mem::take(&mut self.kernel.statements).into_iter().enumerate() {
            match joined.iter().find(|joined| joined.statements.contains(&number)) {
                Some(joined) if joined.statements.last() == Some(&number) => statements.push(joined.by.clone()),
                Some(_) => {}
                None => statements.push(statement),
            }
        }
        self.kernel.statements = statements;
    }
}

//! Decides inequalities between integer expressions: subscripts, extents, conditions.
//!
//! Understood are sums and products of dims, scalars, variables and literals; `/`, `%`, `div_floor`, `mod_floor` by divisors
//! that are provably positive; `min max clamp abs`; the ranges of variables; guards and `where` conditions made of
//! comparisons, `&&`, `||`, `!`. Whatever else occurs (reads, calls, narrow arithmetic) counts as an unknown value, equal to
//! itself. Arithmetic on 64-bit scalars and data may wrap, so facts and goals that do it count only where both are bounded.

mod contradiction;
pub(crate) mod effort;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod fuzz;
mod integer;
mod poly;
mod progression;
mod search;
mod simplex;
mod solver;
mod terms;

pub(crate) use progression::{Progression, each_point, partition, progression, try_dims};
pub(crate) use search::{Counterexample, Trial, counterexample};
pub(crate) use solver::Solver;

use crate::program::{ExprId, ExprKind, Kernel, Ranged, VariableId};
use std::collections::BTreeSet;

/// What is known where an expression stands, from outside to inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scope {
    /// A variable has a value in its range.
    Range(Ranged),
    /// A condition holds (`true`) or does not.
    Guard(ExprId, bool),
}

/// Whether a condition holds at every call, at none, or nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    Always,
    Never,
    Unknown,
}

/// A solver that knows a kernel's conditions and a scope.
pub(crate) fn solver<'k>(kernel: &'k Kernel, scope: &[Scope]) -> Solver<'k> {
    enter(Solver::new(kernel, true), scope)
}

fn enter<'k>(mut solver: Solver<'k>, scope: &[Scope]) -> Solver<'k> {
    for entry in scope {
        match entry {
            Scope::Range(ranged) => solver.range(ranged),
            Scope::Guard(condition, holds) => solver.assume(*condition, *holds),
        }
    }
    solver
}

/// Whether a subscript lies in its array wherever it is evaluated.
pub(crate) fn in_range(kernel: &Kernel, scope: &[Scope], index: ExprId, extent: ExprId) -> bool {
    let plain = scope.iter().any(|entry| match entry {
        Scope::Range(ranged) => {
            let zero = matches!(kernel.exprs[ranged.lo].kind, crate::program::ExprKind::Literal(crate::program::Literal::Int(value)) if value >= 0);
            let same = ranged.hi == extent || kernel.exprs[ranged.hi].kind == kernel.exprs[extent].kind;
            zero && same && kernel.exprs[index].kind == crate::program::ExprKind::Variable(ranged.variable)
        }
        Scope::Guard(..) => false,
    });
    plain || {
        let inside = |mut solver: Solver| {
            let risky = !solver.terms.term(index).risky.is_empty() || !solver.terms.wild.is_empty();
            (solver.proves_at_least(index, 0) && solver.proves_below(index, extent), risky)
        };
        let (proved, risky) = inside(solver(kernel, scope));
        proved
            || risky && {
                let mut terms = terms::Terms::new(kernel);
                terms.cautious = true;
                inside(enter(Solver::with(terms, true), scope)).0
            }
    }
}

/// Whether an extent is at least 0 at every call. Counts on the conditions and the parameters alone.
pub(crate) fn not_negative(kernel: &Kernel, extent: ExprId) -> bool {
    Solver::new(kernel, false).proves_at_least(extent, 0)
}

/// Whether an extent is at most 0 at every call.
pub(crate) fn always_empty(kernel: &Kernel, extent: ExprId) -> bool {
    let mut solver = Solver::new(kernel, false);
    let term = solver.terms.term(extent);
    let positive = |poly: &poly::Poly| poly.as_constant().is_none() && poly.terms().all(|(_, coefficient)| coefficient >= 0);
    !positive(&term.poly) && solver.proves(term.risky, poly::Poly::default().plus(&term.poly, -1))
}

/// Whether no call satisfies a kernel's conditions and gives its parameters extents that are not negative.
pub(crate) fn never_called(kernel: &Kernel) -> bool {
    Solver::new(kernel, false).impossible()
}

/// Whether two expressions over dims and scalars have the same value at every call.
pub(crate) fn same(kernel: &Kernel, a: ExprId, b: ExprId) -> bool {
    same_within(kernel, &[], a, b)
}

/// Whether two expressions have the same value wherever a scope is entered.
pub(crate) fn same_within(kernel: &Kernel, scope: &[Scope], a: ExprId, b: ExprId) -> bool {
    if a == b || kernel.exprs[a].kind == kernel.exprs[b].kind {
        return true;
    }
    let mut solver = solver(kernel, scope);
    let (a, b) = (solver.terms.term(a), solver.terms.term(b));
    if a.poly == b.poly {
        return true; // wrapping or not
    }
    let risky: BTreeSet<_> = a.risky.union(&b.risky).copied().collect();
    let (up, down) = (a.poly.plus(&b.poly, -1), b.poly.plus(&a.poly, -1));
    solver.proves(risky.clone(), up) && solver.proves(risky, down)
}

/// Whether a condition follows from a kernel's own, or contradicts them.
pub(crate) fn decide(kernel: &Kernel, condition: ExprId) -> Truth {
    let refuted = |holds: bool| {
        let mut solver = Solver::new(kernel, true);
        solver.assume(condition, holds);
        solver.impossible()
    };
    if refuted(false) {
        Truth::Always
    } else if refuted(true) {
        Truth::Never
    } else {
        Truth::Unknown
    }
}

/// `end - variable`, if that is a constant.
pub(crate) fn distance(kernel: &Kernel, end: ExprId, variable: VariableId) -> Option<i128> {
    let mut terms = terms::Terms::new(kernel);
    let end = terms.term(end).poly;
    let variable = poly::Poly::atom(terms.variable(variable));
    end.plus(&variable, -1)?.as_constant()
}

/// Whether a variable has at most one value, whatever the dims are.
pub(crate) fn at_most_one(kernel: &Kernel, ranged: &Ranged) -> bool {
    let mut terms = terms::Terms::new(kernel);
    let (lo, hi) = (terms.term(ranged.lo).poly, terms.term(ranged.hi).poly);
    hi.plus(&lo, -1).and_then(|extent| extent.as_constant()).is_some_and(|extent| extent <= 1)
}

/// How an index changes with a variable in which it is linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slope {
    /// It rises or stays.
    Rises,
    Falls,
    /// It does the one or the other, as scalars and other variables decide.
    Either,
}

/// Whether an expression depends on a variable otherwise than by sums and products.
fn entangled(kernel: &Kernel, index: ExprId, variable: VariableId) -> bool {
    use crate::types::{BinaryOp, UnaryOp};
    crate::check::walk::in_order(kernel, index).into_iter().any(|id| {
        let plain = matches!(
            kernel.exprs[id].kind,
            ExprKind::Variable(_)
                | ExprKind::Unary(UnaryOp::Negate, _)
                | ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, ..)
        );
        !plain && crate::check::walk::mentions(kernel, id, variable)
    })
}

/// The slope of an index in a variable; `None` where it is not linear in it.
pub(crate) fn slope(kernel: &Kernel, scope: &[Scope], index: ExprId, variable: VariableId) -> Option<Slope> {
    let mut solver = solver(kernel, scope);
    let term = solver.terms.term(index);
    let atom = solver.terms.variable(variable);
    if entangled(kernel, index, variable) {
        return None;
    }
    if !term.poly.mentions(atom) {
        return Some(Slope::Rises);
    }
    let mut factor = poly::Poly::default();
    for (monomial, coefficient) in term.poly.terms() {
        let rest: Vec<poly::Atom> = monomial.iter().copied().filter(|&other| other != atom).collect();
        match monomial.len() - rest.len() {
            0 => {}
            1 => factor = factor.plus(&poly::Poly::constant(1).times_monomial(&rest)?, coefficient)?,
            _ => return None,
        }
    }
    if factor.atoms().any(|other| !solver.terms.is_dim(other) && !solver.terms.is_scalar(other)) {
        return Some(Slope::Either);
    }
    // The call computes without wrapping, so nothing is at risk.
    if solver.proves(BTreeSet::new(), Some(factor.clone())) {
        return Some(Slope::Rises);
    }
    let falls = poly::Poly::default().plus(&factor, -1);
    Some(if solver.proves(BTreeSet::new(), falls) { Slope::Falls } else { Slope::Either })
}

/// Whether a variable's value follows from a subscript: it is the variable plus a constant expression, or `p * s + r` with
/// `s` a positive literal or dim and `r` made of reduced variables and literals, proved to lie in `0..s`.
pub(crate) fn recovers(kernel: &Kernel, scope: &[Scope], index: ExprId, variable: VariableId, reduced: &[VariableId]) -> bool {
    recovery(kernel, scope, index, variable, reduced).unwrap_or(false)
}

fn recovery(kernel: &Kernel, scope: &[Scope], index: ExprId, variable: VariableId, reduced: &[VariableId]) -> Option<bool> {
    let mut solver = solver(kernel, scope);
    let term = solver.terms.term(index);
    let atom = solver.terms.variable(variable);
    let mut own = term.poly.terms().filter(|(monomial, _)| monomial.contains(&atom));
    let (monomial, coefficient) = own.next()?;
    if own.next().is_some() {
        return None;
    }
    let factor = poly::quotient(monomial, &vec![atom])?;
    let p = poly::Poly::constant(coefficient).times_monomial(monomial)?;
    let rest = term.poly.plus(&p, -1)?;
    let constant = |other: poly::Atom| solver.terms.is_dim(other) || solver.terms.is_scalar(other);
    if factor.is_empty() && coefficient == 1 && rest.atoms().all(constant) {
        return Some(true);
    }
    let single = match factor.as_slice() {
        [] => coefficient > 0,
        [dim] => coefficient == 1 && solver.terms.is_dim(*dim),
        _ => false,
    };
    let from_reduced = rest.atoms().all(|other| reduced.iter().any(|&variable| solver.terms.is_variable(other, variable)));
    if !single || !from_reduced {
        return Some(false);
    }
    let size = poly::Poly::constant(coefficient).times_monomial(&factor)?;
    let below = size.plus(&rest, -1).and_then(|poly| poly.shifted(-1));
    Some(solver.proves(BTreeSet::new(), Some(rest)) && solver.proves(BTreeSet::new(), below))
}

//! Gives every scan a statement of its own over the variables that it depends on, wherever it stands: under a guard, inside
//! another reduction, in a subscript, beside another scan. There the scan schedule takes it, at the cost of one pass; in place,
//! each element would start from the first term again.
//!
//! Under a guard or a filter nothing may be read that is not read there. The scan that moves out reads nothing outside of its
//! arrays all the same: its subscripts get a constant as their boundary rule. A term that is really outside belongs only to
//! elements that the guard leaves out, since a scan's terms do not depend on the element.
//!
//! Left where they stand: the scan that already makes up a plain statement, one whose variables have ranges that depend on other
//! variables or on data, and a guarded one that can report an index.

use gpukc_dsl::program::{
    Attributes, Bounds, Direction, Expr, ExprId, ExprKind, Kernel, Literal, Order, Ranged, Statement, StatementKind,
};
use gpukc_dsl::types::Type;

use super::extract;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::lower::is_plain;
use crate::size;
use crate::walk;

/// Runs the pass.
pub fn run(kernel: &mut Kernel, facts: &Facts) {
    let statements = std::mem::take(&mut kernel.statements);
    for statement in statements {
        let mut places = scans(kernel, &statement);
        if let [only] = places.as_slice() {
            // It stays, and what surrounds it becomes its epilogue.
            let whole = statement.variables.iter().all(|v| walk::mentions(kernel, only.root, v.variable));
            let outermost = !only.guarded && !only.inside && statement.kind == StatementKind::Define;
            if whole && outermost && is_plain(kernel, facts, &statement) {
                places.clear();
            }
        }
        for place in places {
            let hoisted = hoist(kernel, facts, place, &statement.attributes);
            kernel.statements.extend(hoisted);
        }
        kernel.statements.push(statement);
    }
}

/// A scan and where it stands.
struct Place {
    root: ExprId,
    /// It may be left unevaluated.
    guarded: bool,
    /// Inside another reduction, or in a subscript of the left side.
    inside: bool,
    /// The variables that are bound there.
    scope: Vec<Ranged>,
}

/// The scans of a statement, inner ones first.
fn scans(kernel: &Kernel, statement: &Statement) -> Vec<Place> {
    let left = statement.subscripts.iter().map(|s| (s.index, true));
    let mut stack: Vec<Place> = left
        .chain([(statement.value, false)])
        .map(|(root, inside)| Place { root, guarded: false, inside, scope: statement.variables.clone() })
        .collect();
    let mut found = Vec::new();
    while let Some(place) = stack.pop() {
        let mut scope = place.scope.clone();
        let mut inside = place.inside;
        if let ExprKind::Reduce(reduce) = &kernel.exprs[place.root].kind {
            scope.extend(&reduce.variables);
            inside = true;
        }
        for (operand, guarded) in walk::operands(kernel, place.root) {
            stack.push(Place { root: operand, guarded: place.guarded || guarded, inside, scope: scope.clone() });
        }
        if matches!(&kernel.exprs[place.root].kind, ExprKind::Reduce(reduce) if matches!(reduce.order, Order::Scan(_))) {
            found.push(place);
        }
    }
    found.reverse();
    found
}

fn hoist(kernel: &mut Kernel, facts: &Facts, mut place: Place, attributes: &Attributes) -> Option<Statement> {
    let early = start_early(kernel, facts, &mut place);
    let own = extract::variables(kernel, facts, place.root, &place.scope).map(|(own, _)| own);
    let further = early && !own.as_ref().is_some_and(|own| extract::reads_regardless(kernel, facts, place.root, own));
    if place.guarded || further {
        let reads = walk::reads(kernel, place.root);
        let possible = own.is_some();
        if !possible || !reads.iter().all(|read| can_be_made_safe(kernel, *read)) {
            return None;
        }
        reads.into_iter().for_each(|read| make_safe(kernel, read));
    }
    extract::into_let(kernel, facts, place.root, &place.scope, attributes)
}

/// A scan from the first term on whose elements begin later has all elements from 0 on; what is in front of those that are asked
/// for takes some of their terms. Says whether there are any.
fn start_early(kernel: &mut Kernel, facts: &Facts, place: &mut Place) -> bool {
    let ExprKind::Reduce(reduce) = &kernel.exprs[place.root].kind else { return false };
    let Order::Scan(scan) = &reduce.order else { return false };
    let (along, forward) = (scan.along, scan.direction == Direction::Forward);
    let Some(range) = place.scope.iter_mut().find(|v| v.variable == along && forward) else { return false };
    let zero = Formula::Constant(0);
    if size::formula(kernel, facts, range.lo).is_none_or(|lo| lo == zero) {
        return false;
    }
    let span = kernel.exprs[range.lo].span;
    range.lo = kernel.exprs.push(Expr { kind: ExprKind::Literal(Literal::Int(0)), ty: Type::I64, span });
    true
}

fn can_be_made_safe(kernel: &Kernel, read: ExprId) -> bool {
    let ExprKind::Read { subscripts, .. } = &kernel.exprs[read].kind else { return false };
    subscripts.iter().all(|s| matches!(s.bounds, Bounds::Proved | Bounds::Assumed | Bounds::Constant(_)))
}

/// Gives each subscript without a rule a constant.
fn make_safe(kernel: &mut Kernel, read: ExprId) {
    let Expr { kind: ExprKind::Read { array, mut subscripts }, ty, span } = kernel.exprs[read].clone() else { return };
    let value = match ty {
        Type::Bool => Literal::Bool(false),
        float if float.is_float() => Literal::Float(0.0),
        _ => Literal::Int(0),
    };
    for subscript in subscripts.iter_mut().filter(|s| matches!(s.bounds, Bounds::Proved | Bounds::Assumed)) {
        subscript.bounds = Bounds::Constant(kernel.exprs.push(Expr { kind: ExprKind::Literal(value), ty, span }));
    }
    kernel.exprs[read].kind = ExprKind::Read { array, subscripts };
}

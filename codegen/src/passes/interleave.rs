//! Makes one statement of those that define the elements of an array in turn: `y[2 * i] = a; y[2 * i + 1] = b;` becomes
//! `y[2 * i + k] = if k == 0 { a } else { b };`, and so do `y[i, 0]` and `y[i, 1]`, with k for the literal. One launch then stores
//! neighbours together, and reads once what they share.

use gpukc_dsl::program::{
    ArrayId, Bounds, Expr, ExprId, ExprKind, Kernel, Literal, Ranged, Statement, StatementKind, Subscript, Variable, VariableId,
};
use gpukc_dsl::source::Span;
use gpukc_dsl::types::{BinaryOp, Type};

use crate::facts::Facts;
use crate::formula::Formula;
use crate::size;
use crate::walk;

/// Most statements that take turns.
const MOST: usize = 4;

/// Runs the pass.
pub fn run(kernel: &mut Kernel, facts: &Facts) {
    let arrays: Vec<ArrayId> = kernel.arrays.iter().map(|(id, _)| id).collect();
    for array in arrays {
        let numbers: Vec<usize> = (0..kernel.statements.len()).filter(|number| kernel.statements[*number].array == array).collect();
        if let Some(turns) = turns(kernel, facts, &numbers) {
            let last = numbers[numbers.len() - 1];
            kernel.statements[last] = joined(kernel, &turns);
            numbers[..numbers.len() - 1].iter().rev().for_each(|number| drop(kernel.statements.remove(*number)));
        }
    }
}

/// Statements that take turns along an axis, the first of them first.
struct Turns {
    axis: usize,
    statements: Vec<Statement>,
    /// The variable whose every value each of them has a turn at; none where the axis has no more elements than there are statements.
    variable: Option<VariableId>,
}

fn turns(kernel: &Kernel, facts: &Facts, numbers: &[usize]) -> Option<Turns> {
    if !(2..=MOST).contains(&numbers.len()) {
        return None;
    }
    let mut statements: Vec<Statement> = numbers.iter().map(|number| kernel.statements[*number].clone()).collect();
    let first = statements.first()?.clone();
    let ranges = |statement: &Statement| -> Option<Vec<Formula>> {
        statement.variables.iter().map(|range| size::formula(kernel, facts, range.hi)).collect()
    };
    let fits = |statement: &Statement| {
        let attributes = &statement.attributes;
        let hinted = attributes.block.is_some() || attributes.unroll.is_some() || !attributes.tile.is_empty();
        statement.kind == StatementKind::Define
            && !hinted
            && *attributes == first.attributes
            && !walk::has_reduction(kernel, statement.value)
            && crate::lower::from_zero(kernel, facts, &statement.variables)
            && ranges(statement).is_some_and(|own| Some(own) == ranges(&first))
    };
    if !statements.iter().all(fits) {
        return None;
    }
    let places: Vec<Place> = statements.iter().map(|statement| place(kernel, facts, statement)).collect::<Option<_>>()?;
    let one = places.first()?;
    let count = statements.len() as i64;
    let regular = |place: &Place| place.axis == one.axis && place.step == one.step && place.variable == one.variable;
    let mut offsets: Vec<i64> = places.iter().map(|place| place.offset).collect();
    let whole = match one.variable {
        Some(_) => one.step == count,
        // Planes, whose elements lie apart, share a launch as they are.
        None if one.axis + 1 < kernel.arrays[first.array].rank() => return None,
        None => size::formula(kernel, facts, kernel.arrays[first.array].shape[one.axis])? == Formula::Constant(count),
    };
    if !places.iter().all(regular) || !whole {
        return None;
    }
    let mut order: Vec<usize> = (0..statements.len()).collect();
    order.sort_by_key(|number| offsets[*number]);
    offsets.sort_unstable();
    statements = order.into_iter().map(|number| statements[number].clone()).collect();
    let variable = one.variable.and_then(|place| Some(statements.first()?.variables.get(place)?.variable));
    offsets.into_iter().eq(0..count).then_some(Turns { axis: one.axis, statements, variable })
}

/// Where a left side stands: along one axis at a multiple of a variable, by its number, plus an offset, or at a literal; along the others
/// at the other variables, in order.
struct Place {
    axis: usize,
    variable: Option<usize>,
    step: i64,
    offset: i64,
}

fn place(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<Place> {
    let mut place = None;
    let mut plain = statement.variables.iter().enumerate();
    for (axis, subscript) in statement.subscripts.iter().enumerate() {
        let index = size::linear(kernel, facts, subscript.index)?;
        let offset = index.constant.constant()?;
        match (index.alone(), index.terms.as_slice()) {
            (Some(variable), _) => drop(plain.next().filter(|(_, range)| range.variable == variable)?),
            (None, _) if place.is_some() => return None,
            (None, []) => place = Some(Place { axis, variable: None, step: 0, offset }),
            (None, [(variable, step)]) => {
                let (number, _) = plain.next().filter(|(_, range)| range.variable == *variable)?;
                place = Some(Place { axis, variable: Some(number), step: step.constant()?, offset });
            }
            _ => return None,
        }
    }
    place.filter(|_| plain.next().is_none())
}

/// The one statement that they make.
fn joined(kernel: &mut Kernel, turns: &Turns) -> Statement {
    let Turns { axis, statements, variable } = turns;
    let mut joined = statements[0].clone();
    for other in &statements[1..] {
        joined.span = joined.span.to(other.span);
        walk::rename(kernel, &[other.value], &other.variables, &joined.variables);
    }
    let span = joined.span;
    let turn = kernel.variables.push(Variable { name: free_name(kernel), span });
    let number = |kernel: &mut Kernel, value: usize| index(kernel, ExprKind::Literal(Literal::Int(value as i128)), span);
    let (lo, hi) = (number(kernel, 0), number(kernel, statements.len()));
    let own = index(kernel, ExprKind::Variable(turn), span);
    let (subscript, place) = match variable {
        None => (own, joined.subscripts[..*axis].iter().filter(|s| is_variable(kernel, s.index)).count()),
        Some(variable) => {
            let (step, turned) = (number(kernel, statements.len()), index(kernel, ExprKind::Variable(*variable), span));
            let first = index(kernel, ExprKind::Binary(BinaryOp::Mul, step, turned), span);
            let after = joined.variables.iter().position(|range| range.variable == *variable).map_or(0, |place| place + 1);
            (index(kernel, ExprKind::Binary(BinaryOp::Add, first, own), span), after)
        }
    };
    joined.subscripts[*axis] = Subscript { index: subscript, bounds: Bounds::Proved };
    joined.variables.insert(place, Ranged { variable: turn, lo, hi });
    joined.value = chosen(kernel, statements, turn, span);
    joined
}

/// `if k == 0 { … } else if k == 1 { … } else { … }`
fn chosen(kernel: &mut Kernel, statements: &[Statement], turn: VariableId, span: Span) -> ExprId {
    let ty = kernel.exprs[statements[0].value].ty;
    let mut rest = statements[statements.len() - 1].value;
    for (number, statement) in statements.iter().enumerate().rev().skip(1) {
        let own = index(kernel, ExprKind::Variable(turn), span);
        let number = index(kernel, ExprKind::Literal(Literal::Int(number as i128)), span);
        let kind = ExprKind::Binary(BinaryOp::Eq, own, number);
        let condition = kernel.exprs.push(Expr { kind, ty: Type::Bool, span });
        let kind = ExprKind::If { condition, then: statement.value, otherwise: rest };
        rest = kernel.exprs.push(Expr { kind, ty, span });
    }
    rest
}

fn index(kernel: &mut Kernel, kind: ExprKind, span: Span) -> ExprId {
    kernel.exprs.push(Expr { kind, ty: Type::I64, span })
}

fn is_variable(kernel: &Kernel, id: ExprId) -> bool {
    matches!(kernel.exprs[id].kind, ExprKind::Variable(_))
}

/// A name that no variable has.
fn free_name(kernel: &Kernel) -> String {
    let taken = |name: &str| kernel.variables.iter().any(|(_, variable)| variable.name == name);
    let mut name = "turn".to_string();
    while taken(&name) {
        name.push('_');
    }
    name
}

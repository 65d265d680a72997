//! What an integer expression is along a thread's elements, neighbours of the left side: a part that they have in common, of which
//! it is known what divides it, and a step that is known for each element. `3 * i + 1` at four elements from `first` on is
//! `3 * first` and 1, 4, 7, 10; `i / 2` is `first / 2` and 0, 0, 1, 1; `n - 1 - i` is `n - first` and -1, -2, -3, -4.

mod course;

use gpukc_dsl::program::{ExprId, ExprKind, Kernel, Ranged, VariableId};
use gpukc_dsl::types::{BinaryOp, Builtin, Type, UnaryOp};

use super::read::{access, flat_coefficient};
use crate::facts::Facts;
use crate::formula::{Formula, Op};
use crate::plan::{Expr, int, name};
use crate::size;
use crate::walk;
use course::{Factor, gcd};

pub use course::Course;

/// A thread's elements. The variables that number them are *rows*, the same for all of them; *majors*, which run together; and
/// *minors* of constant extents, all of whose values are at every major position.
#[derive(Clone, Copy)]
pub struct Lanes<'l> {
    pub kernel: &'l Kernel,
    pub facts: &'l Facts,
    pub own: &'l [Ranged],
    /// How many are rows, and how many minors.
    pub rank: usize,
    pub minors: usize,
    /// How many elements, and how many of each major position.
    pub count: i64,
    pub each: i64,
}

/// A condition along a thread's elements.
pub enum Holds {
    /// Known for each.
    ByLane(Vec<bool>),
    /// The same for all.
    Together,
    /// Neither.
    Unknown,
}

impl<'l> Lanes<'l> {
    /// The positions of a thread.
    pub fn positions(&self) -> i64 {
        self.count / self.each
    }

    pub fn majors(&self) -> &'l [Ranged] {
        &self.own[self.rank..self.own.len() - self.minors]
    }

    /// The same elements under other variables, which stand for these one for one.
    pub fn under(self, own: &'l [Ranged]) -> Lanes<'l> {
        Lanes { own, ..self }
    }

    /// The position of an element, and the value of a minor there, in terms of `lane`.
    pub fn position_text(&self) -> Expr {
        match (self.each, self.positions()) {
            (_, 1) => int(0),
            (1, _) => name("lane"),
            (each, _) => name("lane") / int(each),
        }
    }

    /// The value of each minor: its extent, the elements from one value to the next, and its text in terms of `lane`.
    pub fn minor_texts(&self) -> Option<Vec<(Ranged, i64, i64, Expr)>> {
        let mut inside = self.each;
        let mut found = Vec::new();
        for range in &self.own[self.own.len() - self.minors..] {
            let extent = size::extent(self.kernel, self.facts, range)?.constant()?;
            let within = if inside == self.count { name("lane") } else { name("lane") % int(inside) };
            inside /= extent;
            found.push((*range, extent, inside, within / int(inside)));
        }
        Some(found)
    }

    fn constant(&self, value: i64) -> Course {
        Course::constant(self.count, value)
    }

    fn shared(&self, text: String, multiple: i64, natural: bool) -> Course {
        self.constant(0).beside(Factor::Shared(text, multiple, natural), 1)
    }

    fn along(&self, step: impl Fn(i64) -> i64, text: Expr) -> Course {
        Course::along((0..self.count).map(step).collect(), text)
    }

    fn position(&self) -> Course {
        self.along(|lane| lane / self.each, self.position_text()).beside(Factor::Thread, self.positions())
    }

    fn known(&self, formula: &Formula) -> Option<Course> {
        match formula {
            Formula::Constant(value) => Some(self.constant(*value)),
            Formula::Binary(Op::Add, a, b) => self.known(a)?.plus(&self.known(b)?),
            Formula::Binary(Op::Sub, a, b) => self.known(a)?.plus(&self.known(b)?.times(-1)?),
            Formula::Binary(Op::Mul, a, b) => self.known(a)?.product(&self.known(b)?),
            formula => Some(self.constant(0).beside(Factor::Known(formula.clone()), 1)),
        }
    }

    fn variable(&self, id: VariableId) -> Option<Course> {
        let place = self.own.iter().position(|range| range.variable == id)?;
        if place < self.rank {
            return Some(self.shared(format!("row {place}"), 1, true));
        }
        if let [major] = self.majors() {
            if major.variable == id {
                return Some(self.position());
            }
        }
        let (_, extent, inside, text) = self.minor_texts()?.into_iter().find(|minor| minor.0.variable == id)?;
        Some(self.along(|lane| lane % self.each / inside % extent, text))
    }

    /// Whether an expression may differ among the elements of a thread.
    pub fn tells_apart(&self, id: ExprId) -> bool {
        self.own[self.rank..].iter().any(|range| walk::mentions(self.kernel, id, range.variable))
    }

    fn is_shared(&self, id: ExprId) -> bool {
        !self.tells_apart(id)
    }

    /// An `i64` expression along the elements, if it can be told.
    pub fn course(&self, id: ExprId) -> Option<Course> {
        if let Some(formula) = size::formula(self.kernel, self.facts, id) {
            return self.known(&formula);
        }
        let found = match &self.kernel.exprs[id].kind {
            _ if self.kernel.exprs[id].ty != Type::I64 => None,
            ExprKind::Variable(variable) => self.variable(*variable),
            ExprKind::Unary(UnaryOp::Negate, x) => self.course(*x)?.times(-1),
            ExprKind::Binary(op, a, b) => self.binary(*op, *a, *b, id),
            ExprKind::Builtin(Builtin::DivFloor, arguments) => self.divided(arguments, id, Lanes::quotient),
            ExprKind::Builtin(Builtin::ModFloor, arguments) => self.divided(arguments, id, Lanes::remainder),
            _ => None,
        };
        found.or_else(|| self.is_shared(id).then(|| self.shared(format!("{id:?}"), 1, false)))
    }

    fn binary(&self, op: BinaryOp, a: ExprId, b: ExprId, id: ExprId) -> Option<Course> {
        let dividend = self.course(a)?;
        match op {
            BinaryOp::Add => dividend.plus(&self.course(b)?),
            BinaryOp::Sub => dividend.plus(&self.course(b)?.times(-1)?),
            BinaryOp::Mul => dividend.product(&self.course(b)?),
            // Towards zero: down, where nothing is negative.
            BinaryOp::Div if dividend.is_natural() => self.divided(&[a, b], id, Lanes::quotient),
            BinaryOp::Rem if dividend.is_natural() => self.divided(&[a, b], id, Lanes::remainder),
            _ => None,
        }
    }

    /// A division by what is known to be positive.
    fn divided(
        &self,
        operands: &[ExprId],
        id: ExprId,
        divide: fn(&Self, Course, &Course, ExprId) -> Option<Course>,
    ) -> Option<Course> {
        let [a, b] = operands else { return None };
        let by = size::formula(self.kernel, self.facts, *b)?;
        let positive = by.constant().map_or_else(|| self.facts.at_least(&by, 1), |by| by > 0);
        if positive { divide(self, self.course(*a)?, &self.known(&by)?, id) } else { None }
    }

    /// Rounded down.
    fn quotient(&self, a: Course, b: &Course, id: ExprId) -> Option<Course> {
        if let Some(by) = b.only().filter(|by| a.is_divided_by(*by)) {
            let steps = self.along(|lane| a.steps[lane as usize].div_euclid(by), a.text() / int(by));
            return Some(a.divided_by(by, steps));
        }
        self.whole(&a, b)?;
        Some(self.shared(format!("{id:?}"), 1, a.is_natural()))
    }

    fn remainder(&self, a: Course, b: &Course, id: ExprId) -> Option<Course> {
        if let Some(by) = b.only().filter(|by| a.is_divided_by(*by)) {
            let within = a.steps.iter().all(|step| (0..by).contains(step));
            let text = if within { a.text() } else { a.text() % int(by) };
            return Some(self.along(|lane| a.steps[lane as usize].rem_euclid(by), text));
        }
        let whole = self.whole(&a, b)?;
        self.shared(format!("{id:?}"), whole, true).plus(&a.steps_alone())
    }

    /// A number that divides both `b` and what is common of `a`, whose steps are all below it: they stay between the same two
    /// multiples of `b`.
    fn whole(&self, a: &Course, b: &Course) -> Option<i64> {
        let of_b = gcd(b.divisor(self.facts), b.same_step()?.checked_abs()?);
        let whole = gcd(a.divisor(self.facts), of_b);
        a.steps.iter().all(|step| (0..whole).contains(step)).then_some(whole)
    }

    /// The offset of a read in its array, if nothing but its subscripts decides it.
    pub fn offset(&self, read: ExprId) -> Option<Course> {
        let ExprKind::Read { array, subscripts } = &self.kernel.exprs[read].kind else { return None };
        if !subscripts.iter().all(super::read::is_settled) {
            return None;
        }
        if self.majors().len() > 1 {
            return self.linear_offset(&access(self.kernel, self.facts, *array, subscripts)?);
        }
        let mut offset = self.constant(0);
        for (subscript, extent) in subscripts.iter().zip(&self.kernel.arrays[*array].shape) {
            let extent = size::formula(self.kernel, self.facts, *extent)?;
            offset = offset.product(&self.known(&extent)?)?.plus(&self.course(subscript.index)?)?;
        }
        Some(offset)
    }

    fn linear_offset(&self, access: &size::Linear) -> Option<Course> {
        let step = flat_coefficient(self.kernel, self.facts, access, self.majors())?;
        let mut offset = self.known(&access.constant)?.plus(&self.position().product(&self.known(&step)?)?)?;
        for (variable, coefficient) in &access.terms {
            if !self.majors().iter().any(|range| range.variable == *variable) {
                offset = offset.plus(&self.variable(*variable)?.product(&self.known(coefficient)?)?)?;
            }
        }
        Some(offset)
    }

    /// What a condition is along the elements.
    pub fn holds(&self, id: ExprId) -> Holds {
        let kernel = self.kernel;
        let found = match &kernel.exprs[id].kind {
            ExprKind::Unary(UnaryOp::Not, x) => match self.holds(*x) {
                Holds::ByLane(lanes) => Holds::ByLane(lanes.into_iter().map(|holds| !holds).collect()),
                other => other,
            },
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, b) => match (self.holds(*a), self.holds(*b)) {
                (Holds::ByLane(a), Holds::ByLane(b)) => {
                    let is_and = matches!(kernel.exprs[id].kind, ExprKind::Binary(BinaryOp::And, ..));
                    Holds::ByLane(a.into_iter().zip(b).map(|(a, b)| if is_and { a && b } else { a || b }).collect())
                }
                (Holds::Together, Holds::Together) => Holds::Together,
                _ => Holds::Unknown,
            },
            ExprKind::Binary(op, a, b) if kernel.exprs[*a].ty == Type::I64 => {
                let difference = self.course(*a).zip(self.course(*b)).and_then(|(a, b)| a.plus(&b.times(-1)?));
                difference.and_then(|difference| difference.compared(*op, self.facts)).unwrap_or(Holds::Unknown)
            }
            _ => Holds::Unknown,
        };
        match found {
            Holds::Unknown if self.is_shared(id) && !walk::can_fail(kernel, id) => Holds::Together,
            found => found,
        }
    }
}

//! Sums of products along a thread's elements, split into what the elements have in common and the steps from there.

use gpukc_dsl::types::BinaryOp;

use super::super::read::plus;
use super::Holds;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::plan::{Expr, int, name};

/// The powers of two that extents are asked about.
const POWERS: [i64; 4] = [16, 8, 4, 2];

/// One factor of what is common.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// The thread's number: its first position is that times its positions.
    Thread,
    /// Known at the call.
    Known(Formula),
    /// The same for all elements of a thread: by its text, what divides it, and whether it is never negative.
    Shared(String, i64, bool),
}

/// A product of factors, and of a number.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    factors: Vec<Factor>,
    times: i64,
}

/// What an expression is along a thread's elements.
#[derive(Clone, Debug)]
pub struct Course {
    common: Vec<Term>,
    /// By element.
    pub steps: Vec<i64>,
    /// The steps as text: a sum of expressions in `lane`, each a number of times, and a constant.
    text: (Vec<(Expr, i64)>, i64),
}

/// Of two numbers that are not negative.
pub fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Term {
    /// A number that divides it, whatever the rest.
    fn divisor(&self, facts: &Facts) -> i64 {
        let of_factor = |factor: &Factor| match factor {
            Factor::Thread => 1,
            Factor::Known(formula) => POWERS.into_iter().find(|power| facts.multiple(formula, *power)).unwrap_or(1),
            Factor::Shared(_, multiple, _) => *multiple,
        };
        let times = self.times.checked_abs().unwrap_or(1);
        self.factors.iter().map(of_factor).fold(times, |divisor, factor| divisor.checked_mul(factor).unwrap_or(divisor))
    }

    fn is_thread(&self) -> bool {
        self.factors.contains(&Factor::Thread)
    }

    fn is_known(&self) -> bool {
        self.factors.iter().all(|factor| matches!(factor, Factor::Known(_)))
    }
}

impl Course {
    /// The same number at all of so many elements.
    pub fn constant(count: i64, value: i64) -> Course {
        Course { common: Vec::new(), steps: vec![value; count as usize], text: (Vec::new(), value) }
    }

    /// Steps with nothing in common.
    pub fn along(steps: Vec<i64>, text: Expr) -> Course {
        let text = if text == int(0) { Vec::new() } else { vec![(text, 1)] };
        Course { common: Vec::new(), steps, text: (text, 0) }
    }

    /// The same steps, and so many times a factor in common.
    pub fn beside(self, factor: Factor, times: i64) -> Course {
        Course { common: vec![Term { factors: vec![factor], times }], ..self }
    }

    /// Its steps with nothing in common.
    pub fn steps_alone(self) -> Course {
        Course { common: Vec::new(), ..self }
    }

    /// Whether this divides what is common, whatever its factors.
    pub fn is_divided_by(&self, by: i64) -> bool {
        self.common.iter().all(|term| term.times % by == 0)
    }

    /// What is common divided so, with these steps.
    pub fn divided_by(&self, by: i64, steps: Course) -> Course {
        let common = self.common.iter().map(|term| Term { times: term.times / by, ..term.clone() }).collect();
        Course { common, ..steps }
    }

    pub fn plus(&self, other: &Course) -> Option<Course> {
        let mut common = self.common.clone();
        for term in &other.common {
            match common.iter_mut().find(|own| own.factors == term.factors) {
                Some(own) => own.times = own.times.checked_add(term.times)?,
                None => common.push(term.clone()),
            }
        }
        common.retain(|term| term.times != 0);
        let steps = self.steps.iter().zip(&other.steps).map(|(a, b)| a.checked_add(*b)).collect::<Option<Vec<_>>>()?;
        let (mut text, constant) = (self.text.0.clone(), self.text.1.checked_add(other.text.1)?);
        for (part, times) in &other.text.0 {
            match text.iter_mut().find(|(own, _)| own == part) {
                Some((_, own)) => *own = own.checked_add(*times)?,
                None => text.push((part.clone(), *times)),
            }
        }
        text.retain(|(_, times)| *times != 0);
        Some(Course { common, steps, text: (text, constant) })
    }

    pub fn times(&self, number: i64) -> Option<Course> {
        let common = self.common.iter().map(|term| Some(Term { times: term.times.checked_mul(number)?, ..term.clone() }));
        let text = self.text.0.iter().map(|(part, times)| Some((part.clone(), times.checked_mul(number)?)));
        let mut result = Course {
            common: common.collect::<Option<_>>()?,
            steps: self.steps.iter().map(|step| step.checked_mul(number)).collect::<Option<_>>()?,
            text: (text.collect::<Option<_>>()?, self.text.1.checked_mul(number)?),
        };
        if number == 0 {
            (result.common, result.text.0) = (Vec::new(), Vec::new());
        }
        Some(result)
    }

    /// The product, if one of the two is constant, or neither has steps of its own.
    pub fn product(&self, other: &Course) -> Option<Course> {
        if let Some(number) = self.only() {
            return other.times(number);
        }
        if let Some(number) = other.only() {
            return self.times(number);
        }
        let (a, b) = (self.same_step()?, other.same_step()?);
        let only = |course: &Course| Course { steps: vec![0; course.steps.len()], text: (Vec::new(), 0), ..course.clone() };
        let mut result =
            Course { common: Vec::new(), steps: vec![a.checked_mul(b)?; self.steps.len()], text: (Vec::new(), a.checked_mul(b)?) };
        for x in &self.common {
            for y in &other.common {
                let mut factors: Vec<Factor> = x.factors.iter().chain(&y.factors).cloned().collect();
                factors.sort_by_key(|factor| format!("{factor:?}"));
                let term = Term { factors, times: x.times.checked_mul(y.times)? };
                result = result.plus(&Course { common: vec![term], ..only(&result) })?;
            }
        }
        result.plus(&only(self).times(b)?)?.plus(&only(other).times(a)?)
    }

    /// The value, if it is one number.
    pub fn only(&self) -> Option<i64> {
        self.same_step().filter(|_| self.common.is_empty())
    }

    /// The step, if all elements have the same.
    pub fn same_step(&self) -> Option<i64> {
        let first = *self.steps.first()?;
        self.steps.iter().all(|step| *step == first).then_some(first)
    }

    /// A number that divides what is common.
    pub fn divisor(&self, facts: &Facts) -> i64 {
        self.common.iter().map(|term| term.divisor(facts)).fold(0, gcd)
    }

    pub fn is_natural(&self) -> bool {
        let natural = |factor: &Factor| match factor {
            Factor::Thread => true,
            Factor::Known(formula) => formula.never_negative(),
            Factor::Shared(_, _, natural) => *natural,
        };
        self.steps.iter().all(|step| *step >= 0) && self.common.iter().all(|term| term.times >= 0 && term.factors.iter().all(natural))
    }

    /// Whether two expressions have the same in common.
    pub fn runs_with(&self, other: &Course) -> bool {
        self.common.len() == other.common.len() && self.common.iter().all(|term| other.common.contains(term))
    }

    /// From one thread to the next; `None` if that is not known here.
    pub fn by_thread(&self) -> Option<i64> {
        let mut terms = self.common.iter().filter(|term| term.is_thread());
        match (terms.next(), terms.next()) {
            (None, _) => Some(0),
            (Some(Term { factors, times }), None) if factors.len() == 1 => Some(*times),
            _ => None,
        }
    }

    /// Whether what is common is a multiple of `unit`; where it depends on the call alone, and nothing is known of that, `open` counts.
    pub fn is_multiple(&self, unit: i64, facts: &Facts, open: bool) -> bool {
        let told = |factor: &Factor| if let Factor::Known(formula) = factor { facts.tells(formula) } else { true };
        self.common.iter().all(|term| match term.divisor(facts) % unit {
            0 => true,
            _ => open && term.is_known() && !term.factors.iter().all(told),
        })
    }

    /// Whether something in it is known at the call only.
    pub fn depends_on_call(&self) -> bool {
        self.common.iter().any(Term::is_known)
    }

    /// Whether nothing but the thread is common.
    pub fn is_by_thread_alone(&self) -> bool {
        self.common.iter().all(|term| term.factors == [Factor::Thread])
    }

    /// The steps as text in terms of `lane`, less what they begin at.
    pub fn text_from(&self, begin: i64) -> Expr {
        if let Some((by, from)) = self.affine() {
            let from = from - begin;
            let part = name("lane") * int(by.abs());
            return if by < 0 { int(from) - part } else { plus(part, from) };
        }
        let constant = self.text.1 - begin;
        let part = |(part, times): &(Expr, i64)| part.clone() * int(times.abs());
        let (more, less): (Vec<_>, Vec<_>) = self.text.0.iter().partition(|(_, times)| *times > 0);
        let sum = match more.into_iter().map(part).reduce(|a, b| a + b) {
            Some(sum) => plus(sum, constant),
            None => int(constant),
        };
        less.into_iter().map(part).fold(sum, |sum, part| sum - part)
    }

    pub fn text(&self) -> Expr {
        self.text_from(0)
    }

    /// From one element to the next, and at the first, if each step is as far as the one before.
    fn affine(&self) -> Option<(i64, i64)> {
        let [first, second, ..] = self.steps.as_slice() else { return None };
        let by = second.checked_sub(*first)?;
        self.steps.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(by)).then_some((by, *first))
    }

    /// What comparing it with zero gives.
    pub fn compared(&self, op: BinaryOp, facts: &Facts) -> Option<Holds> {
        let compare = |step: i64| match op {
            BinaryOp::Lt => step < 0,
            BinaryOp::Le => step <= 0,
            BinaryOp::Gt => step > 0,
            BinaryOp::Ge => step >= 0,
            BinaryOp::Eq => step == 0,
            _ => step != 0,
        };
        // `x <= 0` is `x - 1 < 0`.
        let less = match op {
            BinaryOp::Lt | BinaryOp::Ge => 0,
            BinaryOp::Le | BinaryOp::Gt => 1,
            BinaryOp::Eq | BinaryOp::Ne if self.common.is_empty() => 0,
            BinaryOp::Eq | BinaryOp::Ne => return self.same_step().map(|_| Holds::Together),
            _ => return None,
        };
        if self.common.is_empty() {
            return Some(Holds::ByLane(self.steps.iter().map(|step| compare(*step)).collect()));
        }
        // Between the same two multiples of what divides the rest, all are on the same side.
        let whole = self.divisor(facts);
        let place = |step: &i64| (step - less).div_euclid(whole);
        let first = place(self.steps.first()?);
        self.steps.iter().all(|step| place(step) == first).then_some(Holds::Together)
    }
}

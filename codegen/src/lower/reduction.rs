//! What every schedule needs of a reduction: its accumulator, identity, step and combination; and reductions in place, which
//! one thread computes where they stand.

use gpukc_dsl::program::{Direction, ExprId, ExprKind, Order, Ranged, Reduce, Scan};
use gpukc_dsl::types::{BinaryOp, Reducer, Type};

use super::ahead::{self, Ahead};
use super::context::Lowering;
use super::expr::{binary, extreme, zero};
use super::through::length;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};
use crate::size;

/// A sharing reduction of at most so many terms has one run.
const SHORTEST_RUN: i64 = 512;
/// Loops over at most so many terms are unrolled.
const UNROLLED: i64 = 64;
/// Terms whose loads a thread has in flight, where data chooses them.
const TOGETHER: i64 = 4;

/// How terms of a reduction come together in the text.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The reduction.
    pub reduce: Reduce,
    /// The type of the result.
    pub result: Type,
    /// The type of the body.
    pub term: Type,
    /// The accumulator's type.
    pub accumulator: CudaType,
    /// The class of the prelude that combines two accumulators.
    pub functor: &'static str,
    /// The identity.
    pub identity: Expr,
    /// Whether its sums are integers that can't overflow.
    pub plain: bool,
}

impl Lowering<'_> {
    /// What a schedule needs of the reduction `id`.
    pub fn reduction(&self, id: ExprId) -> Result<Reduction, Error> {
        let ExprKind::Reduce(reduce) = &self.kernel.exprs[id].kind else {
            return Err(Error::Bug("not a reduction".into()));
        };
        let result = self.kernel.exprs[id].ty;
        let term = self.kernel.exprs[reduce.body].ty;
        let (functor, identity, accumulator): (_, _, CudaType) = match reduce.reducer {
            Reducer::Sum | Reducer::Mean => ("Sum", zero(result), result.into()),
            Reducer::Count => ("Sum", zero(Type::I64), Type::I64.into()),
            Reducer::Prod => ("Product", one(result), result.into()),
            Reducer::Min => (minimum_functor(result), lowest_or_highest(result, false), result.into()),
            Reducer::Max => (maximum_functor(result), lowest_or_highest(result, true), result.into()),
            Reducer::Any => ("Any", Expr::Bool(false), Type::Bool.into()),
            Reducer::All => ("All", Expr::Bool(true), Type::Bool.into()),
            Reducer::Argmin => (first_functor(term, false), call("nothing", vec![zero(widened(term))]), CudaType::Best(widened(term))),
            Reducer::Argmax => (first_functor(term, true), call("nothing", vec![zero(widened(term))]), CudaType::Best(widened(term))),
        };
        Ok(Reduction { reduce: reduce.as_ref().clone(), result, term, accumulator, functor, identity, plain: false })
    }

    /// Takes one term into `accumulator`; the reduction's variables are bound. A filter becomes a branch.
    pub fn accumulate(&mut self, reduction: &Reduction, accumulator: Expr) -> Result<(), Error> {
        let take = |lowering: &mut Self| {
            let next = lowering.step(reduction, accumulator.clone())?;
            lowering.push(Node::Assign(accumulator.clone(), next));
            Ok(())
        };
        match reduction.reduce.filter {
            None => take(self),
            Some(filter) => {
                let condition = self.value(filter)?;
                self.when(condition, take)
            }
        }
    }

    /// The accumulator's value after the term at which the variables are bound.
    pub fn step(&mut self, reduction: &Reduction, accumulator: Expr) -> Result<Expr, Error> {
        let body = reduction.reduce.body;
        if reduction.reduce.fused {
            if let ExprKind::Binary(BinaryOp::Mul, a, b) = self.kernel.exprs[body].kind {
                let (a, b) = (self.value(a)?, self.value(b)?);
                let function = if reduction.result == Type::F32 { "fmaf" } else { "fma" };
                return Ok(call(function, vec![a, b, accumulator]));
            }
        }
        let term = self.value(body)?;
        Ok(match reduction.reduce.reducer {
            Reducer::Argmin | Reducer::Argmax => {
                let variable = reduction.reduce.variables.first().map(|v| v.variable);
                let index = variable.and_then(|v| self.variables.get(&v).cloned()).unwrap_or(int(0));
                let term = super::expr::cast(term, reduction.term, widened(reduction.term));
                let index = index.cast(Type::I64);
                match (reduction.reduce.reducer, &reduction.reduce.order) {
                    // Terms of a backward scan come last first.
                    (_, Order::Scan(_)) => call(reduction.functor_call(), vec![accumulator, call("best", vec![term, index])]),
                    (Reducer::Argmin, _) => call("later_minimum", vec![accumulator, term, index]),
                    _ => call("later_maximum", vec![accumulator, term, index]),
                }
            }
            Reducer::Count => accumulator + term.choose(int(1), int(0)),
            Reducer::Sum => reduction.combine(accumulator, super::expr::cast(term, self.kernel.exprs[body].ty, reduction.result)),
            _ => reduction.combine(accumulator, term),
        })
    }

    /// The accumulator that one term alone makes, in a scan.
    pub fn term_value(&mut self, reduction: &Reduction) -> Result<Expr, Error> {
        let term = self.value(reduction.reduce.body)?;
        Ok(match reduction.reduce.reducer {
            Reducer::Argmin | Reducer::Argmax => {
                let variable = reduction.reduce.variables.first().map(|v| v.variable);
                let index = variable.and_then(|v| self.variables.get(&v).cloned()).unwrap_or(int(0));
                let term = super::expr::cast(term, reduction.term, widened(reduction.term));
                call("best", vec![term, index.cast(Type::I64)])
            }
            Reducer::Count => term.choose(Expr::Int(1, Type::I64), Expr::Int(0, Type::I64)),
            _ => term,
        })
    }

    /// A reduction that the current thread computes on the spot.
    pub fn reduce_in_place(&mut self, id: ExprId) -> Result<Expr, Error> {
        let reduction = self.reduction(id)?;
        let result = match &reduction.reduce.order {
            // A scan that no schedule took, each element by itself.
            Order::Scan(_) if !is_exact(&reduction) => self.in_order(&reduction, "last_of_scan", None)?,
            Order::Exact | Order::Scan(_) => self.loops(&reduction)?,
            // One run: its terms ascend in one accumulator.
            Order::Sharing(_) if self.has_one_run(&reduction) => {
                let sum = self.loops(&reduction)?;
                reduction.settle(sum)
            }
            Order::Canonical => self.in_order(&reduction, "canonical", None)?,
            Order::Sharing(free) => {
                let wanted = self.wanted_runs(free)?;
                self.in_order(&reduction, "ascending_runs", Some(wanted))?
            }
        };
        Ok(reduction.finish(result))
    }

    /// `W` of the numeric contract: how many runs a sharing reduction with these free variables wants.
    pub fn wanted_runs(&self, free: &[gpukc_dsl::program::VariableId]) -> Result<Formula, Error> {
        let mut outputs = Formula::Constant(1);
        let all = self.kernel.statements.iter().flat_map(|s| &s.variables);
        let ranges: Vec<_> = all.copied().chain(self.reduced_variables()).collect();
        for variable in free {
            let extent = ranges.iter().find(|r| r.variable == *variable).and_then(|r| size::extent(self.kernel, self.facts, r));
            if let Some(extent) = extent {
                // Cut off at every step, so that the product can't overflow.
                outputs = outputs.times(extent.max(1)).min(1 << 20);
            }
        }
        Ok(Formula::Constant(1 << 20).div_floor(outputs).max(1))
    }

    fn reduced_variables(&self) -> Vec<gpukc_dsl::program::Ranged> {
        let mut all = Vec::new();
        for (_, expr) in self.kernel.exprs.iter() {
            if let ExprKind::Reduce(reduce) = &expr.kind {
                all.extend(reduce.variables.iter().copied());
            }
        }
        all
    }

    /// The number of terms, if it is a constant.
    fn constant_terms(&self, reduction: &Reduction) -> Option<i64> {
        reduction
            .reduce
            .variables
            .iter()
            .try_fold(1i64, |n, range| n.checked_mul(size::extent(self.kernel, self.facts, range)?.constant()?))
    }

    /// Whether a sharing reduction has terms for one run only.
    fn has_one_run(&self, reduction: &Reduction) -> bool {
        let terms = super::group::product(self.kernel, self.facts, &reduction.reduce.variables);
        terms.is_some_and(|terms| terms.constant().is_some_and(|n| n <= SHORTEST_RUN) || self.facts.below(&terms, SHORTEST_RUN + 1))
    }

    /// Nested loops in ascending order, for what is exact in any order, and for a run of a sharing reduction.
    fn loops(&mut self, reduction: &Reduction) -> Result<Expr, Error> {
        if let Some(narrow) = self.constant_terms(reduction).and_then(|terms| self.narrow_sum(reduction, terms)) {
            return Ok(self.loops(&narrow)?.cast(reduction.result));
        }
        let wish = reduction.reduce.reducer.name();
        let accumulator = self.variable(wish, reduction.accumulator.clone(), Some(reduction.identity.clone()));
        let few = self.constant_terms(reduction).is_some_and(|n| n <= UNROLLED);
        let unroll = if few { Unroll::Full } else { Unroll::Default };
        let [range] = reduction.reduce.variables.as_slice() else {
            self.nest(reduction, 0, &accumulator, unroll)?;
            return Ok(accumulator);
        };
        let span = self.ragged_span(&reduction.reduce)?;
        let (bounds, in_range) = match &span {
            Some(span) => ([span.begin.clone(), span.last()], span.in_range.as_slice()),
            None => ([self.bound(range.lo)?, self.bound(range.hi)?], &[][..]),
        };
        let before = self.in_range.clone();
        self.in_range.extend(in_range);
        let ahead = Ahead::of(self, &[&reduction.reduce]);
        match ahead.has_far() {
            true => self.groups(reduction, (range, bounds), &ahead, &accumulator)?,
            false => self.each_value(range, bounds, unroll, |lowering| lowering.accumulate(reduction, accumulator.clone()))?,
        }
        self.in_range = before;
        Ok(accumulator)
    }

    /// One variable's terms, some at a time, so that what data chooses is on its way for all of them before the first is taken.
    fn groups(
        &mut self,
        reduction: &Reduction,
        (range, [lo, hi]): (&Ranged, [Expr; 2]),
        ahead: &Ahead,
        accumulator: &Expr,
    ) -> Result<(), Error> {
        let (ty, wish) = (self.index_type(), self.kernel.variables[range.variable].name.clone());
        let whole = size::extent(self.kernel, self.facts, range).is_some_and(|terms| match terms.constant() {
            Some(terms) => terms % TOGETHER == 0,
            None => self.facts.multiple(&terms, TOGETHER),
        });
        let named = hi.constant().is_some() || matches!(hi, Expr::Name(_));
        let hi = if named { hi } else { self.local(&format!("{wish}_last"), ty, hi) };
        let last = hi.constant().map_or(hi.clone() - int(1), |hi| Expr::Int(hi - 1, ty));
        self.each(&format!("{wish}_first"), ty, [lo, hi.clone(), int(TOGETHER)], Unroll::By(1), |lowering, first| {
            let loaded = ahead.load(lowering, TOGETHER, &mut |lowering, part| {
                let place = first.clone() + part.clone();
                let place = if whole { place } else { call("minimum", vec![place, last.clone()]) };
                let place = lowering.local(&wish, ty, place);
                lowering.variables.insert(range.variable, place);
                Ok(())
            })?;
            ahead::each(lowering, TOGETHER, &mut |lowering, part| {
                let place = lowering.local(&wish, ty, first.clone() + part.clone());
                lowering.variables.insert(range.variable, place.clone());
                lowering.when_some((!whole).then(|| place.less(hi.clone())), |lowering| {
                    ahead.recall(lowering, &loaded, &part);
                    lowering.accumulate(reduction, accumulator.clone())
                })
            })?;
            ahead.release(lowering);
            Ok(())
        })
    }

    /// A reduction's value in 32 bits, where it is computed there.
    pub fn narrow_reduction(&mut self, id: ExprId) -> Result<Option<Expr>, Error> {
        let reduction = self.reduction(id)?;
        let narrow = self.constant_terms(&reduction).and_then(|terms| self.narrow_sum(&reduction, terms));
        match (&reduction.reduce.order, narrow) {
            (Order::Exact, Some(narrow)) => Ok(Some(self.loops(&narrow)?)),
            _ => Ok(None),
        }
    }

    /// The same sum or count in 32 bits, where so many terms of narrow types can't leave them.
    pub fn narrow_sum(&self, reduction: &Reduction, terms: i64) -> Option<Reduction> {
        let body = reduction.reduce.body;
        let (term, most) = match (reduction.reduce.reducer, &self.kernel.exprs[body].kind) {
            (Reducer::Count, _) => (body, i32::MAX.into()),
            (Reducer::Sum, ExprKind::Cast(term)) => match self.kernel.exprs[*term].ty {
                Type::I8 | Type::U8 | Type::I16 | Type::U16 => (*term, 1 << 15),
                _ => return None,
            },
            _ => return None,
        };
        if terms > most || reduction.result.size() != 8 {
            return None;
        }
        let mut sum = reduction.clone();
        sum.reduce.body = term;
        (sum.result, sum.term, sum.accumulator, sum.identity) =
            (Type::I32, self.kernel.exprs[term].ty, Type::I32.into(), zero(Type::I32));
        sum.plain = true;
        Some(sum)
    }

    fn nest(&mut self, reduction: &Reduction, depth: usize, accumulator: &Expr, unroll: Unroll) -> Result<(), Error> {
        let Some(range) = reduction.reduce.variables.get(depth).copied() else {
            return self.accumulate(reduction, accumulator.clone());
        };
        let bounds = [self.bound(range.lo)?, self.bound(range.hi)?];
        self.each_value(&range, bounds, unroll, |lowering| lowering.nest(reduction, depth + 1, accumulator, unroll))
    }

    /// Visits the values of a range.
    fn each_value(
        &mut self,
        range: &Ranged,
        [lo, hi]: [Expr; 2],
        unroll: Unroll,
        visit: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (ty, wish) = (self.index_type(), self.kernel.variables[range.variable].name.clone());
        // A constant number of terms may stand between bounds that are none: `n..n + 3`.
        let constant = lo.constant().is_some() && hi.constant().is_some();
        self.each(&wish, ty, [lo, hi, int(1)], if constant { unroll } else { Unroll::Default }, |lowering, variable| {
            lowering.variables.insert(range.variable, variable);
            visit(lowering)
        })
    }

    /// A bound of a range: a number if it is one, however it is written.
    fn bound(&mut self, id: ExprId) -> Result<Expr, Error> {
        match size::formula(self.kernel, self.facts, id).and_then(|formula| formula.constant()) {
            Some(value) => Ok(self.index_constant(value)),
            None => self.index(id),
        }
    }

    /// A call of the prelude's serial reducer in a defined order.
    fn in_order(&mut self, reduction: &Reduction, helper: &'static str, wanted: Option<Formula>) -> Result<Expr, Error> {
        let mut count: Option<Expr> = None;
        let mut terms = Some(Formula::Constant(1));
        let mut extents = Vec::new();
        let span = self.ragged_span(&reduction.reduce)?;
        for range in &reduction.reduce.variables {
            let formula = size::extent(self.kernel, self.facts, range);
            let extent = match (&formula, &span) {
                (Some(formula), _) => self.size(formula, "terms"),
                (None, Some(span)) => {
                    self.computed.insert(range.lo, span.begin.clone());
                    self.local("terms", Type::I64, span.terms())
                }
                (None, None) => {
                    let (begin, end) = (self.index(range.lo)?, self.index(range.hi)?);
                    if reduction.reduce.variables.len() > 1 { length(&begin, &end) } else { end - begin }
                }
            };
            terms = terms.zip(formula).map(|(a, b)| a.times(b));
            extents.push(extent.clone());
            count = Some(match count {
                None => extent,
                Some(before) => before * extent,
            });
        }
        let count = count.unwrap_or(int(1)).cast(Type::I64);
        let levels = if terms.and_then(|t| t.constant()).is_some_and(|n| n <= 4096) { 1 } else { 3 };
        let mut arguments = vec![int(levels), count.clone()];
        if let Some(wanted) = wanted {
            let wanted = self.size(&wanted, "wanted_runs");
            arguments.push(call("run_length", vec![count, wanted.cast(Type::I64)]));
        }
        arguments.extend([reduction.identity.clone(), call(reduction.functor_call_bare(), Vec::new())]);
        let accumulator = self.namer.fresh("so_far");
        let term = self.namer.fresh("term");
        let before = self.in_range.clone();
        self.in_range.extend(span.iter().flat_map(|span| &span.in_range));
        let (body, value) = self.block(|lowering| {
            lowering.bind_term(reduction, name(term.clone()), &extents)?;
            match reduction.reduce.filter {
                None => lowering.step(reduction, name(accumulator.clone())),
                Some(filter) => {
                    let condition = lowering.value(filter)?;
                    let next = lowering.variable("next", reduction.accumulator.clone(), Some(name(accumulator.clone())));
                    lowering.when(condition, |lowering| {
                        let value = lowering.step(reduction, next.clone())?;
                        lowering.push(Node::Assign(next.clone(), value));
                        Ok(())
                    })?;
                    Ok(next)
                }
            }
        })?;
        self.in_range = before;
        span.iter().zip(&reduction.reduce.variables).for_each(|(_, range)| drop(self.computed.remove(&range.lo)));
        let result = self.namer.fresh(reduction.reduce.reducer.name());
        let ty = reduction.accumulator.clone();
        self.push(Node::Reduce { name: result.clone(), ty, helper, arguments, accumulator, term, body, value });
        Ok(name(result))
    }

    /// Binds a reduction's variables to the term of that number.
    pub fn bind_term(&mut self, reduction: &Reduction, term: Expr, extents: &[Expr]) -> Result<(), Error> {
        let ty = self.index_type();
        let ranges = &reduction.reduce.variables;
        let mut rest = if self.facts.narrow { term.cast(ty) } else { term };
        if let (Order::Scan(Scan { direction: Direction::Backward, .. }), [range]) = (&reduction.reduce.order, ranges.as_slice()) {
            let last = self.index(range.hi)? - int(1);
            let wish = self.kernel.variables[range.variable].name.clone();
            let bound = self.local(&wish, ty, last - rest);
            self.variables.insert(range.variable, bound);
            return Ok(());
        }
        for (depth, range) in ranges.iter().enumerate().rev() {
            let lo = self.index(range.lo)?;
            let wish = self.kernel.variables[range.variable].name.clone();
            let within = if depth == 0 { rest.clone() } else { rest.clone() % extents[depth].clone() };
            let value = within + lo;
            let bound = if matches!(value, Expr::Name(_)) { value } else { self.local(&wish, ty, value) };
            self.variables.insert(range.variable, bound);
            if depth > 0 {
                rest = rest / extents[depth].clone();
            }
        }
        Ok(())
    }
}

impl Reduction {
    /// The combination of two accumulators.
    pub fn combine(&self, a: Expr, b: Expr) -> Expr {
        match self.reduce.reducer {
            Reducer::Sum | Reducer::Count | Reducer::Mean => binary(BinaryOp::Add, a, b, self.result, self.plain),
            Reducer::Prod => binary(BinaryOp::Mul, a, b, self.result, false),
            Reducer::Min => call(extreme("minimum", self.result), vec![a, b]),
            Reducer::Max => call(extreme("maximum", self.result), vec![a, b]),
            Reducer::Any => a.binary("|", b),
            Reducer::All => a.binary("&", b),
            Reducer::Argmin | Reducer::Argmax => call(self.functor_call(), vec![a, b]),
        }
    }
    /// The combination of values in a tree, neighbours first, as the canonical order has it; of none, the identity.
    pub fn tree(&self, mut values: Vec<Expr>) -> Expr {
        while values.len() > 1 {
            values = values.chunks(2).map(|pair| self.combine(pair[0].clone(), pair[1].clone())).collect();
        }
        values.pop().unwrap_or(self.identity.clone())
    }
    /// Combines a value with the identity of accumulators that no term reaches, where a schedule has left them out. It matters
    /// for fused products alone: one that underflows leaves −0, which +0 turns into +0.
    pub fn settle(&self, value: Expr) -> Expr {
        if self.reduce.fused { self.combine(value, self.identity.clone()) } else { value }
    }
    /// The result's value, from the accumulator's.
    pub fn finish(&self, accumulator: Expr) -> Expr {
        match self.accumulator {
            CudaType::Best(_) => call("index_of", vec![accumulator]),
            _ => accumulator,
        }
    }
    /// `Sum()`, to be passed to a helper.
    pub fn functor(&self) -> Expr {
        call(self.functor_call_bare(), Vec::new())
    }
    fn functor_call_bare(&self) -> &'static str {
        self.functor
    }
    fn functor_call(&self) -> String {
        format!("{}()", self.functor)
    }
}

/// Whether the order of terms changes nothing.
fn is_exact(reduction: &Reduction) -> bool {
    !reduction.result.is_float() || !matches!(reduction.reduce.reducer, Reducer::Sum | Reducer::Prod | Reducer::Mean)
}

/// The type in which argmin and argmax compare.
fn widened(ty: Type) -> Type {
    ty.widened()
}

fn minimum_functor(ty: Type) -> &'static str {
    match ty {
        Type::F16 => "MinimumF16",
        Type::Bf16 => "MinimumBf16",
        _ => "Minimum",
    }
}

fn maximum_functor(ty: Type) -> &'static str {
    match ty {
        Type::F16 => "MaximumF16",
        Type::Bf16 => "MaximumBf16",
        _ => "Maximum",
    }
}

fn first_functor(_ty: Type, maximum: bool) -> &'static str {
    if maximum { "FirstMaximum" } else { "FirstMinimum" }
}

fn one(ty: Type) -> Expr {
    if ty.is_float() { Expr::Float(1.0, ty) } else { Expr::Int(1, ty) }
}

/// The identity of `max` (`lowest`) or `min`.
fn lowest_or_highest(ty: Type, lowest: bool) -> Expr {
    if ty.is_float() {
        return Expr::Float(if lowest { f64::NEG_INFINITY } else { f64::INFINITY }, ty);
    }
    if ty == Type::Bool {
        return Expr::Bool(!lowest);
    }
    let (low, high) = ty.integer_range();
    Expr::Int(if lowest { low } else { high }, ty)
}

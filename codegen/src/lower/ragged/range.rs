//! The ranges of a row: which reductions share one, where it begins, and how many terms it has.

use gpukc_dsl::program::{ExprId, Kernel, Ranged, Reduce, Statement, print};
use gpukc_dsl::types::Type;

use crate::error::Error;
use crate::lower::context::Lowering;
use crate::lower::reduction::Reduction;
use crate::lower::through::{InRange, length};
use crate::plan::{Expr, long};

use super::shape::reductions;

/// A reduction of the statement.
pub struct Member {
    pub id: ExprId,
    pub reduction: Reduction,
}

impl Member {
    /// Lets the statement find the reduction's value.
    pub fn keep(&self, lowering: &mut Lowering, total: Expr) {
        let wish = self.reduction.reduce.reducer.name();
        let total = lowering.local(wish, self.reduction.accumulator.clone(), total);
        lowering.computed.insert(self.id, self.reduction.finish(total));
    }
}

/// Reductions over one range, whose terms are visited together.
pub struct Pass {
    pub members: Vec<Member>,
}

/// A range at the row at hand.
pub struct Range {
    /// Where each variable begins.
    begins: Vec<Expr>,
    /// How many values each has, where there are several.
    extents: Vec<Expr>,
    /// How many terms there are; none where one of them would be outside, which has been reported.
    pub terms: Expr,
    /// The subscripts that have been found in range.
    in_range: Vec<InRange>,
}

/// A statement's reductions, those over equal ranges together.
pub fn passes(lowering: &Lowering, statement: &Statement) -> Result<Vec<Pass>, Error> {
    let kernel = lowering.kernel;
    let text = |member: &Member| {
        let bounds = member.reduction.reduce.variables.iter().flat_map(|v| [v.lo, v.hi]);
        bounds.map(|bound| print::expr(kernel, bound)).collect::<Vec<_>>()
    };
    let mut passes: Vec<Pass> = Vec::new();
    for id in reductions(kernel, statement.value).unwrap_or_default() {
        let member = Member { id, reduction: lowering.reduction(id)? };
        match passes.iter_mut().find(|pass| pass.members.first().map(text) == Some(text(&member))) {
            Some(pass) => pass.members.push(member),
            None => passes.push(Pass { members: vec![member] }),
        }
    }
    Ok(passes)
}

impl Pass {
    fn variables(&self) -> &[Ranged] {
        self.members.first().map_or(&[], |member| &member.reduction.reduce.variables)
    }

    /// What the visited position is called.
    pub fn wish(&self, kernel: &Kernel) -> String {
        self.variables().last().map_or("term".into(), |v| kernel.variables[v.variable].name.clone())
    }

    /// Finds the range at the row at hand.
    pub fn range(&self, lowering: &mut Lowering) -> Result<Range, Error> {
        if let [range] = self.variables() {
            let reduces: Vec<&Reduce> = self.members.iter().map(|member| &member.reduction.reduce).collect();
            let span = lowering.span(&reduces, range)?;
            let terms = lowering.local("terms", Type::I64, span.terms());
            return Ok(Range { begins: vec![span.begin], extents: Vec::new(), terms, in_range: span.in_range });
        }
        let (mut begins, mut extents) = (Vec::new(), Vec::new());
        for range in self.variables() {
            let wish = lowering.kernel.variables[range.variable].name.clone();
            let begin = lowering.named_bound(&format!("{wish}_begin"), range.lo)?;
            let end = lowering.index(range.hi)?;
            extents.push(lowering.local(&format!("{wish}_extent"), Type::I64, length(&begin, &end)));
            begins.push(begin);
        }
        let terms = extents.iter().cloned().reduce(|a, b| a * b).unwrap_or(long(1));
        let terms = lowering.local("terms", Type::I64, terms);
        Ok(Range { begins, extents, terms, in_range: Vec::new() })
    }
}

impl Range {
    /// Lets reads through the range do without a check.
    pub fn settle(&self, lowering: &mut Lowering) {
        lowering.in_range = self.in_range.iter().copied().collect();
    }

    /// Where the term of that number stands, if one variable counts them.
    pub fn place(&self, lowering: &mut Lowering, pass: &Pass, term: Expr) -> Option<Expr> {
        let [begin] = self.begins.as_slice() else { return None };
        let (wish, ty) = (format!("{}_first", pass.wish(lowering.kernel)), lowering.index_type());
        let place = if begin.constant() == Some(0) { term } else { begin.clone() + term };
        Some(lowering.local(&wish, ty, place))
    }

    /// Binds the variables of a pass to the term of that number.
    pub fn bind(&self, lowering: &mut Lowering, pass: &Pass, term: Expr) -> Result<(), Error> {
        let mut rest = term;
        for (depth, begin) in self.begins.iter().enumerate().rev() {
            let within = if depth == 0 { rest.clone() } else { rest.clone() % self.extents[depth].clone() };
            let value = if begin.constant() == Some(0) { within } else { begin.clone() + within };
            self.bind_at(lowering, pass, depth, value);
            if depth > 0 {
                rest = lowering.local("rest", Type::I64, rest / self.extents[depth].clone());
            }
        }
        Ok(())
    }

    /// Binds a variable of each reduction of a pass to a value.
    pub fn bind_at(&self, lowering: &mut Lowering, pass: &Pass, depth: usize, value: Expr) {
        let Some(range) = pass.variables().get(depth) else { return };
        let (wish, ty) = (lowering.kernel.variables[range.variable].name.clone(), lowering.index_type());
        let value = if matches!(value, Expr::Name(_)) { value } else { lowering.local(&wish, ty, value) };
        let own = pass.members.iter().filter_map(|member| member.reduction.reduce.variables.get(depth));
        lowering.variables.extend(own.map(|range| (range.variable, value.clone())));
    }
}

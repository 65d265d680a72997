//! Ranges that a reduction runs through: where its subscripts are just the reduced variable, the range is checked as a whole, once,
//! instead of every term.

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Order, Ranged, Reduce, Subscript};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::place::Place;
use crate::error::Error;
use crate::plan::{Expr, call, long};
use crate::size;
use crate::walk;

/// A subscript of an array, by axis and index.
pub type InRange = (ArrayId, usize, ExprId);

/// The range of a reduced variable.
pub struct Span {
    pub begin: Expr,
    pub end: Expr,
    /// Whether all that is checked is in range; what is not has been reported.
    inside: Option<Expr>,
    /// The subscripts that need no further check.
    pub in_range: Vec<InRange>,
}

impl Span {
    /// The number of terms; none where one of them would be outside.
    pub fn terms(&self) -> Expr {
        let terms = length(&self.begin, &self.end);
        match self.inside.clone() {
            Some(inside) => inside.choose(terms, long(0)),
            None => terms,
        }
    }
    /// Where the terms end; at the beginning, where one of them would be outside.
    pub fn last(&self) -> Expr {
        self.inside.clone().map_or(self.end.clone(), |inside| inside.choose(self.end.clone(), self.begin.clone()))
    }
}

/// The number of values of a range; none of a reversed one, however far apart its bounds are.
pub fn length(begin: &Expr, end: &Expr) -> Expr {
    match begin.constant() {
        Some(0) => call("maximum", vec![end.clone().cast(Type::I64), long(0)]),
        _ => call("maximum", [end, begin].map(|bound| bound.clone().cast(Type::I64)).into()) - begin.clone(),
    }
}

impl<'a> Lowering<'a> {
    /// Names the range of the only variable of some reductions, and checks it for what runs through it.
    pub fn span(&mut self, reduces: &[&Reduce], range: &Ranged) -> Result<Span, Error> {
        let wish = self.kernel.variables[range.variable].name.clone();
        let begin = self.named_bound(&format!("{wish}_begin"), range.lo)?;
        let end = self.named_bound(&format!("{wish}_end"), range.hi)?;
        let (mut inside, mut extents) = (Vec::new(), Vec::new());
        for (array, axis, subscript) in self.through(reduces, true) {
            // What is in range for one array is in range for all of this extent.
            let extent = self.array_extent(array, axis)?;
            if !extents.contains(&extent) {
                extents.push(extent);
                inside.push(self.check_range(array, axis, subscript, [begin.clone(), end.clone()])?);
            }
        }
        let mut in_range = Vec::new();
        for (array, axis, subscript) in self.through(reduces, false) {
            if extents.contains(&self.array_extent(array, axis)?) {
                in_range.push((array, axis, subscript.index));
            }
        }
        Ok(Span { begin, end, inside: inside.into_iter().reduce(Expr::and), in_range })
    }

    /// The same of a reduction in place, whose number of terms is not known at the call.
    pub fn ragged_span(&mut self, reduce: &Reduce) -> Result<Option<Span>, Error> {
        match reduce.variables.as_slice() {
            _ if matches!(reduce.order, Order::Scan(_)) => Ok(None),
            [range] if size::extent(self.kernel, self.facts, range).is_none() => Ok(Some(self.span(&[reduce], range)?)),
            _ => Ok(None),
        }
    }

    /// The bound of a range, which has a name unless it is a number or has one.
    pub fn named_bound(&mut self, wish: &str, bound: ExprId) -> Result<Expr, Error> {
        let value = self.index(bound)?;
        let plain = matches!(value, Expr::Name(_) | Expr::Int(..));
        Ok(if plain { value } else { self.local(wish, Type::I64, value) })
    }

    /// The subscripts that are just the reduced variable and are to be checked; of reads that every term evaluates, or of all.
    fn through(&self, reduces: &[&Reduce], every_term: bool) -> Vec<(ArrayId, usize, &'a Subscript)> {
        let kernel = self.kernel;
        let mut found = Vec::new();
        for reduce in reduces {
            let Some(own) = reduce.variables.first() else { continue };
            let reads = match every_term {
                true => walk::sure_reads(kernel, reduce.filter.unwrap_or(reduce.body)),
                false => reduce.filter.into_iter().chain([reduce.body]).flat_map(|value| walk::reads(kernel, value)).collect(),
            };
            for read in reads {
                let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
                if !matches!(self.places.of(*array), Place::Memory | Place::Scratch(_)) {
                    continue;
                }
                let runs = |subscript: &Subscript| {
                    subscript.bounds == Bounds::Checked && kernel.exprs[subscript.index].kind == ExprKind::Variable(own.variable)
                };
                let through = subscripts.iter().enumerate().filter(|(_, subscript)| runs(subscript));
                found.extend(through.map(|(axis, subscript)| (*array, axis, subscript)));
            }
        }
        found
    }
}

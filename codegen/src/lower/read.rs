//! Reads: where an element lies, and what keeps a subscript in range.

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Kernel, Ranged, Subscript, VariableId};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::expr::zero;
use super::place::Place;
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::kernel::Site;
use crate::plan::{Expr, Node, call, int};
use crate::size;
use crate::walk;

/// A condition under which an element may be touched, and what counts where it does not hold.
#[derive(Clone)]
pub struct Inside {
    pub condition: Expr,
    pub constant: Option<ExprId>,
}

/// A tile in shared memory that serves reads around the element.
#[derive(Clone)]
pub struct Staged {
    pub tile: Expr,
    /// The variables of its axes.
    pub axes: Vec<VariableId>,
    /// The offset of its first element from the first that the block computes.
    pub low: Vec<i64>,
}

/// The prelude's function for a rule that moves an index.
fn rule_function(bounds: &Bounds) -> Option<&'static str> {
    match bounds {
        Bounds::Clamp => Some("clamp_index"),
        Bounds::Wrap => Some("wrap_index"),
        Bounds::Mirror => Some("mirror_index"),
        Bounds::Symmetric => Some("symmetric_index"),
        Bounds::Proved | Bounds::Assumed | Bounds::Checked | Bounds::Constant(_) | Bounds::Drop => None,
    }
}

/// The sum with a constant, constants at the end of `index` taken in.
pub fn plus(index: Expr, constant: i64) -> Expr {
    let ended = match &index {
        Expr::Binary("+", a, b) => b.constant().map(|b| (a, b as i64)),
        Expr::Binary("-", a, b) => b.constant().map(|b| (a, -(b as i64))),
        _ => None,
    };
    let (index, constant) = ended.map_or((index.clone(), constant), |(a, b)| ((**a).clone(), b + constant));
    if constant < 0 { index - int(-constant) } else { index + int(constant) }
}

impl Lowering<'_> {
    pub fn read(&mut self, array: ArrayId, subscripts: &[Subscript]) -> Result<Expr, Error> {
        if let Some(element) = self.chip.get(&array) {
            return Ok(element.clone());
        }
        if let Place::Inline(statement) = self.places.of(array) {
            return self.inline(array, statement, subscripts);
        }
        if let Some(offset) = self.flat_place(array, subscripts)? {
            return Ok(self.pointer(array).at(offset));
        }
        let (indices, conditions) = self.guarded_indices(array, subscripts)?;
        let offset = self.row_major(array, indices)?;
        let element = self.pointer(array).at(offset);
        let can_fail = subscripts.iter().enumerate().any(|(axis, s)| {
            !matches!(s.bounds, Bounds::Proved | Bounds::Assumed | Bounds::Constant(_))
                && !self.in_range.contains(&(array, axis, s.index))
        });
        self.guard(array, conditions, element, can_fail && !self.interior)
    }

    /// The offset of a read in terms of [`Lowering::flat`], if its variables run together in it.
    pub fn flat_place(&mut self, array: ArrayId, subscripts: &[Subscript]) -> Result<Option<Expr>, Error> {
        let Some(flat) = self.flat.clone() else { return Ok(None) };
        let Some(access) = access(self.kernel, self.facts, array, subscripts) else { return Ok(None) };
        // The step is 0 in an array without elements, too.
        let mentions = |v: &Ranged| subscripts.iter().any(|s| walk::mentions(self.kernel, s.index, v.variable));
        match flat_coefficient(self.kernel, self.facts, &access, &flat.variables) {
            Some(step) if flat.variables.iter().any(mentions) => {
                let mut terms = Vec::new();
                for (variable, coefficient) in &access.terms {
                    if flat.variables.iter().any(|v| v.variable == *variable) {
                        continue;
                    }
                    let Some(index) = self.variables.get(variable).cloned() else { return Ok(None) };
                    terms.push((index, coefficient.clone(), "stride"));
                }
                terms.push((flat.position, step, "stride"));
                terms.push((int(1), access.constant, "offset"));
                Ok(Some(self.sum_of(terms)))
            }
            _ => Ok(None),
        }
    }

    /// The sum of some indices times formulas, each with a name for it. What is subtracted comes last.
    fn sum_of(&mut self, terms: Vec<(Expr, Formula, &str)>) -> Expr {
        let (mut sum, mut less): (Option<Expr>, Vec<Expr>) = (None, Vec::new());
        for (index, coefficient, wish) in terms {
            match coefficient.negated().filter(|_| index.constant() != Some(0)) {
                Some(opposite) => less.push(index * self.size(&opposite, wish)),
                None => {
                    let term = index * self.size(&coefficient, wish);
                    sum = Some(sum.map_or(term.clone(), |sum| sum + term));
                }
            }
        }
        less.into_iter().fold(sum.unwrap_or(int(0)), |sum, term| sum - term)
    }

    /// Indices after boundary rules, and the conditions under which the element may be touched. Those that report come first:
    /// what is outside by a rule in one dimension is reported all the same in another.
    pub fn guarded_indices(&mut self, array: ArrayId, subscripts: &[Subscript]) -> Result<(Vec<Expr>, Vec<Inside>), Error> {
        let mut indices = Vec::new();
        let (mut conditions, mut quiet) = (Vec::new(), Vec::new());
        for (axis, subscript) in subscripts.iter().enumerate() {
            let index = self.index(subscript.index)?;
            let settled = matches!(subscript.bounds, Bounds::Proved | Bounds::Assumed)
                || self.in_range.contains(&(array, axis, subscript.index))
                || self.interior && !matches!(subscript.bounds, Bounds::Checked | Bounds::Drop);
            if settled {
                indices.push(index);
                continue;
            }
            let (index, inside) = self.guarded_index(array, axis, subscript, index)?;
            let is_quiet = matches!(subscript.bounds, Bounds::Constant(_) | Bounds::Drop);
            if is_quiet {
                quiet.extend(inside)
            } else {
                conditions.extend(inside)
            }
            indices.push(index);
        }
        conditions.extend(quiet);
        Ok((indices, conditions))
    }

    /// An index after its boundary rule, and the condition under which the element may be touched.
    fn guarded_index(
        &mut self,
        array: ArrayId,
        axis: usize,
        subscript: &Subscript,
        index: Expr,
    ) -> Result<(Expr, Option<Inside>), Error> {
        let extent = self.array_extent(array, axis)?;
        let extent = if self.facts.narrow && extent.constant().is_none() { extent.cast(Type::I64) } else { extent };
        let mut index = self.named_index(index);
        if let Some(rule) = rule_function(&subscript.bounds) {
            // Both of one type: an offset may leave 31 bits before the rule brings it back.
            index = call(rule, vec![index.cast(Type::I64), extent.clone().cast(Type::I64)]);
        }
        let inside = match subscript.bounds {
            Bounds::Constant(_) | Bounds::Drop => Some(int(0).binary("<=", index.clone()).and(index.clone().less(extent))),
            Bounds::Checked => Some(self.check(array, axis, subscript, index.clone(), extent)),
            // Only an empty array can be left through a rule.
            _ if extent.constant().is_some_and(|n| n > 0) || self.is_nonempty(array, axis) => None,
            _ => {
                index = self.named_index(index);
                Some(self.check(array, axis, subscript, index.clone(), extent))
            }
        };
        let constant = if let Bounds::Constant(value) = subscript.bounds { Some(value) } else { None };
        Ok((index, inside.map(|condition| Inside { condition, constant })))
    }

    fn is_nonempty(&self, array: ArrayId, axis: usize) -> bool {
        let extent = size::formula(self.kernel, self.facts, self.kernel.arrays[array].shape[axis]);
        extent.is_some_and(|extent| self.nonempty.contains(&extent))
    }

    /// The same for an element that a tile stages, of an array that is not empty where it is read.
    pub fn staged_index(
        &mut self,
        array: ArrayId,
        axis: usize,
        subscript: &Subscript,
        index: Expr,
    ) -> Result<(Expr, Option<Inside>), Error> {
        let ty = self.index_type();
        let extent = self.array_extent(array, axis)?;
        let index = self.local("at", ty, index);
        if let Some(rule) = rule_function(&subscript.bounds) {
            return Ok((call(rule, vec![index, extent.cast(ty)]), None));
        }
        let constant = if let Bounds::Constant(value) = subscript.bounds { Some(value) } else { None };
        let condition = int(0).binary("<=", index.clone()).and(index.clone().less(extent));
        Ok((index, Some(Inside { condition, constant })))
    }

    /// The element there; where a condition does not hold, its constant.
    pub fn staged_element(&mut self, array: ArrayId, indices: Vec<Expr>, conditions: Vec<Inside>) -> Result<Expr, Error> {
        let offset = self.row_major(array, indices)?;
        let element = self.pointer(array).at(offset);
        self.guard(array, conditions, element, false)
    }

    /// A read that a tile in shared memory serves.
    pub fn staged_read(&mut self, staged: &Staged, subscripts: &[Subscript]) -> Result<Expr, Error> {
        let global: Vec<Option<Expr>> = staged.axes.iter().map(|v| self.variables.get(v).cloned()).collect();
        for variable in &staged.axes {
            if let Some(local) = self.tile_position.get(variable).cloned() {
                self.variables.insert(*variable, local);
            }
        }
        let batch = subscripts.len() - staged.axes.len();
        let indices: Result<Vec<Expr>, Error> = subscripts[batch..].iter().map(|s| self.index(s.index)).collect();
        for (variable, index) in staged.axes.iter().zip(global) {
            self.variables.extend(index.map(|index| (*variable, index)));
        }
        let places = indices?.into_iter().zip(&staged.low).map(|(index, low)| plus(index, -low));
        Ok(places.fold(staged.tile.clone(), |tile, at| tile.at(at)))
    }

    fn check(&mut self, array: ArrayId, axis: usize, subscript: &Subscript, index: Expr, extent: Expr) -> Expr {
        let (site, report) = (self.subscript_site(array, axis, subscript), self.report());
        call("index_ok", vec![index, extent, site, report])
    }

    /// Whether a subscript that runs through a range stays in range; if not, what is outside first is reported.
    pub fn check_range(&mut self, array: ArrayId, axis: usize, subscript: &Subscript, [lo, hi]: [Expr; 2]) -> Result<Expr, Error> {
        let extent = self.array_extent(array, axis)?;
        let (site, report) = (self.subscript_site(array, axis, subscript), self.report());
        Ok(call("range_ok", vec![lo, hi, extent, site, report]))
    }

    fn subscript_site(&mut self, array: ArrayId, axis: usize, subscript: &Subscript) -> Expr {
        let span = self.kernel.exprs[subscript.index].span;
        self.site(Site { array: self.kernel.arrays[array].name.clone(), axis, span })
    }

    /// Gives an index that is used twice a name.
    fn named_index(&mut self, index: Expr) -> Expr {
        match index {
            Expr::Name(_) | Expr::Int(..) => index,
            index => self.local("at", Type::I64, index),
        }
    }

    /// `((i0 * n1 + i1) * n2 + i2) …`
    pub fn row_major(&mut self, array: ArrayId, indices: Vec<Expr>) -> Result<Expr, Error> {
        let mut offset: Option<Expr> = None;
        for (axis, index) in indices.into_iter().enumerate() {
            offset = Some(match offset {
                None => index,
                Some(before) => before * self.array_extent(array, axis)? + index,
            });
        }
        Ok(offset.unwrap_or(int(0)))
    }

    fn guard(&mut self, array: ArrayId, conditions: Vec<Inside>, element: Expr, can_fail: bool) -> Result<Expr, Error> {
        let all = conditions.iter().map(|inside| inside.condition.clone()).reduce(Expr::and);
        let Some(inside) = all else { return Ok(element) };
        let ty = self.kernel.arrays[array].element;
        // Outside in several dimensions, the first one's constant counts.
        let mut outside: Option<Expr> = None;
        for Inside { condition, constant } in conditions.into_iter().rev() {
            let Some(constant) = constant else { continue };
            let value = self.value(constant)?;
            outside = Some(match outside {
                Some(later) if later != value => condition.choose(later, value),
                _ => value,
            });
        }
        let outside = outside.unwrap_or(zero(ty));
        if !can_fail {
            return Ok(inside.choose(element, outside));
        }
        let wish = format!("{}_at", self.kernel.arrays[array].name.replace('.', "_"));
        let result = self.variable(&wish, ty, Some(outside));
        self.push(Node::If { condition: inside, then: vec![Node::Assign(result.clone(), element)], otherwise: Vec::new() });
        Ok(result)
    }
}

/// The row-major offset as a linear form, if every subscript is linear and stays in range by itself.
pub fn access(kernel: &Kernel, facts: &Facts, array: ArrayId, subscripts: &[Subscript]) -> Option<size::Linear> {
    access_of(kernel, facts, &kernel.arrays[array].shape, subscripts)
}

/// The same of a read.
pub fn offset_of(kernel: &Kernel, facts: &Facts, read: ExprId) -> Option<size::Linear> {
    let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { return None };
    access(kernel, facts, *array, subscripts)
}

/// The same within the last dimensions of an array.
pub fn access_of(kernel: &Kernel, facts: &Facts, shape: &[ExprId], subscripts: &[Subscript]) -> Option<size::Linear> {
    let mut offset: Option<size::Linear> = None;
    for (subscript, extent) in subscripts.iter().zip(shape) {
        if !is_settled(subscript) {
            return None;
        }
        let index = size::linear(kernel, facts, subscript.index)?;
        offset = Some(match offset {
            Some(before) => before.times(&size::formula(kernel, facts, *extent)?).plus(index),
            None => index,
        });
    }
    Some(offset.unwrap_or(size::Linear { terms: Vec::new(), constant: Formula::Constant(0) }))
}

/// Whether a subscript stays in range by itself.
pub fn is_settled(subscript: &Subscript) -> bool {
    matches!(subscript.bounds, Bounds::Proved | Bounds::Assumed)
}

/// Whether a read stays inside its array for all values of `ranges`, whatever condition guards it: its subscripts are variables that
/// run over whole dims, or numbers in dims that are numbers.
pub fn inside_everywhere(kernel: &Kernel, facts: &Facts, array: ArrayId, subscripts: &[Subscript], ranges: &[Ranged]) -> bool {
    let number = |id| size::formula(kernel, facts, id).and_then(|formula| formula.constant());
    let mut all = subscripts.iter().zip(&kernel.arrays[array].shape);
    all.all(|(subscript, extent)| match (number(subscript.index), number(*extent)) {
        (Some(index), Some(extent)) => (0..extent).contains(&index),
        _ => is_whole(kernel, facts, subscript, *extent, ranges),
    })
}

/// Whether a subscript is a variable of `ranges` that runs over this whole extent.
pub fn is_whole(kernel: &Kernel, facts: &Facts, subscript: &Subscript, extent: ExprId, ranges: &[Ranged]) -> bool {
    let ExprKind::Variable(variable) = kernel.exprs[subscript.index].kind else { return false };
    let Some(range) = ranges.iter().find(|range| range.variable == variable) else { return false };
    let hi = size::formula(kernel, facts, range.hi);
    size::formula(kernel, facts, range.lo) == Some(Formula::Constant(0)) && hi.is_some() && hi == size::formula(kernel, facts, extent)
}

/// The step from one position of `variables` (slowest first) to the next in an access; `None` if they don't run together, or
/// not from 0: position 0 is where all of them are 0. Where there is a position, no extent is negative: nothing is clamped.
pub fn flat_coefficient(kernel: &Kernel, facts: &Facts, access: &size::Linear, variables: &[Ranged]) -> Option<Formula> {
    let (last, slower) = variables.split_last()?;
    if !super::group::from_zero(kernel, facts, variables) {
        return None;
    }
    let step = access.coefficient(last.variable);
    let mut extent = size::formula(kernel, facts, last.hi)?;
    for range in slower.iter().rev() {
        if !access.coefficient(range.variable).same_product(&extent.clone().times(step.clone())) {
            return None;
        }
        extent = size::formula(kernel, facts, range.hi)?.times(extent);
    }
    Some(step)
}

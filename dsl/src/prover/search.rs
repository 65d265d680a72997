//! Counterexamples: small extents and index values for which a subscript leaves its array, found by trying them.

use super::Scope;
use crate::check::walk;
use crate::program::*;
use crate::types::{BinaryOp, Builtin, UnaryOp};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The largest extent that is tried.
const LARGEST: i128 = 6;
/// How many nodes may be evaluated.
const BUDGET: usize = 300_000;

/// Values for which something goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counterexample {
    /// The value of the subscript (or extent) in question.
    pub(crate) value: i128,
    /// The array's extent.
    pub(crate) extent: i128,
    pub(crate) dims: BTreeMap<DimId, i128>,
    pub(crate) scalars: BTreeMap<ScalarId, i128>,
    pub(crate) variables: Vec<(VariableId, i128)>,
}

/// Values in the making.
pub(crate) struct Trial<'k> {
    kernel: &'k Kernel,
    pub(crate) dims: BTreeMap<DimId, i128>,
    pub(crate) scalars: BTreeMap<ScalarId, i128>,
    pub(crate) variables: HashMap<VariableId, i128>,
    orders: HashMap<ExprId, Vec<ExprId>>,
    /// Values of expressions, by their position; only those of the current order count.
    values: Vec<Option<i128>>,
    pub(crate) budget: usize,
}

impl<'k> Trial<'k> {
    pub(crate) fn new(kernel: &'k Kernel) -> Self {
        Trial {
            kernel,
            dims: BTreeMap::new(),
            scalars: BTreeMap::new(),
            variables: HashMap::new(),
            orders: HashMap::new(),
            values: vec![None; kernel.exprs.len()],
            budget: BUDGET,
        }
    }

    /// The value of an integer or bool expression (1 for true); `None` if it depends on data or is too much work.
    pub(crate) fn value(&mut self, root: ExprId) -> Option<i128> {
        let kernel = self.kernel;
        match kernel.exprs[root].kind {
            ExprKind::Literal(Literal::Int(value)) => return Some(value),
            ExprKind::Dim(dim) => return self.dims.get(&dim).copied(),
            ExprKind::Variable(variable) => return self.variables.get(&variable).copied(),
            _ => {}
        }
        let order = self.orders.entry(root).or_insert_with(|| walk::in_order(kernel, root));
        let within = self.budget.checked_sub(order.len());
        if within.is_none() || super::effort::spend(order.len()).is_none() {
            self.budget = 0;
            return None;
        }
        self.budget = within?;
        for &id in order.iter() {
            let value = evaluate(&kernel.exprs[id], &self.values, &self.dims, &self.scalars, &self.variables);
            self.values[id.index()] = value;
        }
        self.values[root.index()]
    }
}

fn evaluate(
    expr: &Expr,
    values: &[Option<i128>],
    dims: &BTreeMap<DimId, i128>,
    scalars: &BTreeMap<ScalarId, i128>,
    variables: &HashMap<VariableId, i128>,
) -> Option<i128> {
    let get = |id: &ExprId| values.get(id.index()).copied().flatten();
    let fits = |value: i128| {
        let (lo, hi) = expr.ty.integer_range();
        (lo <= value && value <= hi).then_some(value)
    };
    if expr.ty.is_float() {
        return None;
    }
    match &expr.kind {
        ExprKind::Literal(Literal::Int(value)) => Some(*value),
        ExprKind::Literal(Literal::Bool(value)) => Some(i128::from(*value)),
        ExprKind::Dim(dim) => dims.get(dim).copied(),
        ExprKind::Scalar(scalar) => scalars.get(scalar).copied(),
        ExprKind::Variable(variable) => variables.get(variable).copied(),
        ExprKind::Unary(UnaryOp::Negate, a) => fits(-get(a)?),
        ExprKind::Unary(UnaryOp::Not, a) if expr.ty == crate::types::Type::Bool => Some(1 - get(a)?),
        ExprKind::Cast(a) => fits(get(a)?),
        ExprKind::If { condition, then, otherwise } => get(if get(condition)? == 1 { then } else { otherwise }),
        ExprKind::Binary(BinaryOp::And, a, b) => match get(a) {
            Some(0) => Some(0),
            a => a.and(get(b)),
        },
        ExprKind::Binary(BinaryOp::Or, a, b) => match get(a) {
            Some(1) => Some(1),
            a => a.and_then(|_| get(b)),
        },
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (get(a)?, get(b)?);
            let value = match op {
                BinaryOp::Add => a.checked_add(b)?,
                BinaryOp::Sub => a.checked_sub(b)?,
                BinaryOp::Mul => a.checked_mul(b)?,
                BinaryOp::Div => a.checked_div(b).unwrap_or(0),
                BinaryOp::Rem => a.checked_rem(b).unwrap_or(0),
                BinaryOp::Shl => a.checked_mul(1i128.checked_shl(u32::try_from(b).ok()?)?)?,
                BinaryOp::Shr => a >> u32::try_from(b).ok()?.min(127),
                BinaryOp::BitAnd => a & b,
                BinaryOp::BitOr => a | b,
                BinaryOp::BitXor => a ^ b,
                BinaryOp::Eq => i128::from(a == b),
                BinaryOp::Ne => i128::from(a != b),
                BinaryOp::Lt => i128::from(a < b),
                BinaryOp::Le => i128::from(a <= b),
                BinaryOp::Gt => i128::from(a > b),
                BinaryOp::Ge => i128::from(a >= b),
                BinaryOp::And | BinaryOp::Or => return None,
            };
            if op.is_comparison() { Some(value) } else { fits(value) }
        }
        ExprKind::Builtin(builtin, arguments) => {
            let arguments: Vec<i128> = arguments.iter().map(get).collect::<Option<_>>()?;
            let value = match (builtin, arguments.as_slice()) {
                (Builtin::Min, [a, b]) => *a.min(b),
                (Builtin::Max, [a, b]) => *a.max(b),
                (Builtin::Clamp, [x, lo, hi]) => *x.max(lo).min(hi),
                (Builtin::Abs, [x]) => x.abs(),
                (Builtin::Sign, [x]) => x.signum(),
                (Builtin::DivFloor, [_, 0]) | (Builtin::ModFloor, [_, 0]) => 0,
                (Builtin::DivFloor, [a, b]) => a / b - i128::from(a % b != 0 && (a % b < 0) != (*b < 0)),
                (Builtin::ModFloor, [a, b]) => (a % b + b) % b,
                _ => return None,
            };
            fits(value)
        }
        _ => None,
    }
}

/// Looks for extents and index values that satisfy a scope and a kernel's conditions and put `index` outside of
/// `0..extent`. Without an extent: that make `index` negative. Prefers arrays that have elements. All small values are tried,
/// then some larger ones.
pub(crate) fn counterexample(kernel: &Kernel, scope: &[Scope], index: ExprId, extent: Option<ExprId>) -> Option<Counterexample> {
    super::effort::question();
    let search = Search::new(kernel, scope, index, extent)?;
    let near: Vec<i128> = (0..=search.related.names.limit(LARGEST, 4096)).collect();
    let Some(any) = search.find(&near, 0, Reach::All) else {
        super::effort::question();
        return search.find(&search.far(), 1, Reach::Some).or_else(|| search.find(&search.far(), 0, Reach::Some));
    };
    if any.extent > 0 || extent.is_none() {
        return Some(any);
    }
    search.find(&near, 1, Reach::All).or(Some(any))
}

/// Which values of a variable are tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The first 64.
    All,
    /// Those near the ends, the middle, the literals of the program, and the dims.
    Some,
}

/// A search for values that put an index outside of its array.
struct Search<'k, 's> {
    kernel: &'k Kernel,
    scope: &'s [Scope],
    index: ExprId,
    extent: Option<ExprId>,
    related: Related,
    /// Literals that occur in what has to do with it.
    literals: BTreeSet<i128>,
}

impl<'k, 's> Search<'k, 's> {
    /// `None` if it is a matter of scalars, or of floats.
    fn new(kernel: &'k Kernel, scope: &'s [Scope], index: ExprId, extent: Option<ExprId>) -> Option<Self> {
        let mut roots = vec![index];
        roots.extend(extent);
        for entry in scope {
            match entry {
                Scope::Range(ranged) => roots.extend([ranged.lo, ranged.hi]),
                Scope::Guard(condition, _) => roots.push(*condition),
            }
        }
        let scalar = |root: &ExprId| walk::any(kernel, *root, |kind| matches!(kind, ExprKind::Scalar(_)));
        if roots.iter().any(scalar) {
            return None; // a matter of the call
        }
        let related = related(kernel, &roots)?;
        let mut literals = BTreeSet::new();
        for root in roots.iter().chain(&related.conditions).chain(&related.shapes) {
            walk::each(kernel, *root, |id| match kernel.exprs[id].kind {
                ExprKind::Literal(Literal::Int(value)) if (2..=1 << 20).contains(&value.abs()) => {
                    literals.insert(value.abs());
                }
                _ => {}
            });
        }
        Some(Search { kernel, scope, index, extent, related, literals })
    }

    /// Values beyond the small ones: near literals and their multiples, and some others; so many that all combinations can
    /// be tried.
    fn far(&self) -> Vec<i128> {
        let near_literals = self.literals.iter().take(8).flat_map(|&literal| {
            [literal, literal - 1, literal + 1, 2 * literal, literal + 2, 2 * literal + 1, 3 * literal, 4 * literal]
        });
        let mut values: Vec<i128> = Vec::new();
        for value in [1, 2, 0, 7].into_iter().chain(near_literals).chain([8, 16, 3, 9, 12, 33, 4, 5, 10, 17, 24, 64, 6, 11, 100]) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let names = self.related.names.len() as u32;
        while values.len() > 2 && values.len().checked_pow(names).is_none_or(|count| count > 4096) {
            values.pop();
        }
        values.sort_unstable();
        values
    }

    /// Tries values of dims, smallest sums first, in arrays of at least some extent.
    fn find(&self, candidates: &[i128], least: i128, reach: Reach) -> Option<Counterexample> {
        let Related { conditions, shapes, names } = &self.related;
        let (kernel, scope, index, extent) = (self.kernel, self.scope, self.index, self.extent);
        let mut trial = Trial::new(kernel);
        let mut attempt = Attempt { index, extent, literals: &self.literals, reach };
        let limit = candidates.len() as i128 - 1;
        for sum in 0..=limit * names.len() as i128 {
            let mut places = vec![0; names.len()];
            let found = compositions(&mut places, 0, sum, limit, &mut |places| {
                let values: Vec<i128> = places.iter().map(|&place| candidates[place as usize]).collect();
                names.set(&mut trial, &values);
                let holds = conditions.iter().all(|&condition| trial.value(condition) == Some(1))
                    && shapes.iter().all(|&shape| trial.value(shape).is_some_and(|extent| extent >= 0));
                if !holds || extent.is_some_and(|extent| trial.value(extent).is_some_and(|extent| extent < least)) {
                    return trial.budget == 0;
                }
                trial.variables.clear();
                attempt.run(&mut trial, scope).is_some()
            });
            if found || trial.budget == 0 {
                break;
            }
        }
        let value = trial.value(index)?;
        let limit = match extent {
            Some(extent) => trial.value(extent)?,
            None => 0,
        };
        let wrong = value < 0 || extent.is_some() && value >= limit;
        let mut variables = Vec::new();
        for entry in scope {
            if let Scope::Range(ranged) = entry {
                variables.push((ranged.variable, *trial.variables.get(&ranged.variable)?));
            }
        }
        let holds = wrong && satisfied(&mut trial, scope, conditions, shapes);
        holds.then_some(Counterexample { value, extent: limit, dims: trial.dims, scalars: trial.scalars, variables })
    }
}

/// Checks a counterexample from scratch.
fn satisfied(trial: &mut Trial, scope: &[Scope], conditions: &[ExprId], shapes: &[ExprId]) -> bool {
    trial.budget = BUDGET;
    conditions.iter().all(|&condition| trial.value(condition) == Some(1))
        && shapes.iter().all(|&shape| trial.value(shape).is_some_and(|extent| extent >= 0))
        && scope.iter().all(|entry| match entry {
            Scope::Guard(condition, holds) => trial.value(*condition) == Some(i128::from(*holds)),
            Scope::Range(ranged) => {
                let value = trial.variables.get(&ranged.variable).copied();
                match (value, trial.value(ranged.lo), trial.value(ranged.hi)) {
                    (Some(value), Some(lo), Some(hi)) => lo <= value && value < hi,
                    _ => false,
                }
            }
        })
}

/// Dims and scalars that values are tried for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Names {
    dims: BTreeSet<DimId>,
    scalars: BTreeSet<ScalarId>,
}

impl Names {
    fn of(kernel: &Kernel, root: ExprId) -> Names {
        let mut names = Names::default();
        walk::each(kernel, root, |id| match kernel.exprs[id].kind {
            ExprKind::Dim(dim) => {
                names.dims.insert(dim);
            }
            ExprKind::Scalar(scalar) => {
                names.scalars.insert(scalar);
            }
            _ => {}
        });
        names
    }

    fn touches(&self, other: &Names) -> bool {
        !self.dims.is_disjoint(&other.dims) || !self.scalars.is_disjoint(&other.scalars)
    }

    fn extend(&mut self, other: &Names) {
        self.dims.extend(&other.dims);
        self.scalars.extend(&other.scalars);
    }

    pub(crate) fn len(&self) -> usize {
        self.dims.len() + self.scalars.len()
    }

    /// The largest value to try, so that there are at most `most` cases.
    pub(crate) fn limit(&self, largest: i128, most: i128) -> i128 {
        let mut limit = largest;
        while limit > 1 && (limit + 1).checked_pow(self.len() as u32).is_none_or(|count| count > most) {
            limit -= 1;
        }
        limit
    }

    /// Gives the dims and scalars values, in order.
    pub(crate) fn set(&self, trial: &mut Trial, values: &[i128]) {
        trial.dims = self.dims.iter().copied().zip(values.iter().copied()).collect();
        let rest = values.get(self.dims.len()..).unwrap_or_default();
        trial.scalars = self.scalars.iter().copied().zip(rest.iter().copied()).collect();
    }
}

/// Conditions and extents that have to do with some expressions, and the names in all of them.
pub(crate) struct Related {
    pub(crate) conditions: Vec<ExprId>,
    pub(crate) shapes: Vec<ExprId>,
    pub(crate) names: Names,
}

/// What has to do with some expressions; `None` if floats do, which are not tried.
pub(crate) fn related(kernel: &Kernel, roots: &[ExprId]) -> Option<Related> {
    let mut names = Names::default();
    roots.iter().for_each(|&root| names.extend(&Names::of(kernel, root)));
    let all_conditions: Vec<(ExprId, Names)> =
        kernel.conditions.iter().map(|condition| (condition.holds, Names::of(kernel, condition.holds))).collect();
    let parameters = kernel.arrays.iter().filter(|(_, array)| array.role == Role::Parameter);
    let all_shapes: Vec<(ExprId, Names)> = parameters
        .flat_map(|(_, array)| array.shape.iter().copied())
        .filter(|&extent| !matches!(kernel.exprs[extent].kind, ExprKind::Dim(_) | ExprKind::Literal(_)))
        .map(|extent| (extent, Names::of(kernel, extent)))
        .collect();
    loop {
        let before = names.len();
        for (_, more) in all_conditions.iter().chain(&all_shapes) {
            if more.touches(&names) {
                names.extend(more);
            }
        }
        if names.len() == before {
            break;
        }
    }
    if names.scalars.iter().any(|&scalar| kernel.scalars[scalar].ty.is_float()) {
        return None;
    }
    let near = |list: Vec<(ExprId, Names)>| {
        list.into_iter().filter(|(_, own)| own.len() == 0 || own.touches(&names)).map(|(id, _)| id).collect()
    };
    Some(Related { conditions: near(all_conditions), shapes: near(all_shapes), names: names.clone() })
}

/// Calls `f` for all values from 0 to `limit` that add up to `sum`, until it says to stop.
pub(crate) fn compositions(values: &mut Vec<i128>, at: usize, sum: i128, limit: i128, f: &mut dyn FnMut(&[i128]) -> bool) -> bool {
    if at == values.len() {
        return sum == 0 && f(values);
    }
    let room = limit * (values.len() - at - 1) as i128;
    for value in (sum - room).max(0)..=sum.min(limit) {
        values[at] = value;
        if compositions(values, at + 1, sum - value, limit, f) {
            return true;
        }
    }
    false
}

/// Values of the variables of a scope, at given dims.
struct Attempt<'s> {
    index: ExprId,
    extent: Option<ExprId>,
    literals: &'s BTreeSet<i128>,
    reach: Reach,
}

impl Attempt<'_> {
    /// Stops at the first values that are wrong, leaving them in the trial.
    fn run(&mut self, trial: &mut Trial, scope: &[Scope]) -> Option<()> {
        let Some((first, rest)) = scope.split_first() else {
            let value = trial.value(self.index)?;
            let wrong = match self.extent {
                Some(extent) => {
                    let extent = trial.value(extent)?;
                    value < 0 || value >= extent
                }
                None => value < 0,
            };
            return wrong.then_some(());
        };
        match first {
            Scope::Guard(condition, holds) => {
                if trial.value(*condition)? != i128::from(*holds) {
                    return None;
                }
                self.run(trial, rest)
            }
            Scope::Range(ranged) => {
                let (lo, hi) = (trial.value(ranged.lo)?, trial.value(ranged.hi)?);
                let dims: Vec<i128> = trial.dims.values().copied().take(3).collect();
                for value in self.values(lo, hi, &dims) {
                    trial.variables.insert(ranged.variable, value);
                    if self.run(trial, rest).is_some() {
                        return Some(());
                    }
                }
                trial.variables.remove(&ranged.variable);
                None
            }
        }
    }

    fn values(&self, lo: i128, hi: i128, dims: &[i128]) -> Vec<i128> {
        if self.reach == Reach::All {
            return (lo..hi.min(lo + 64)).collect();
        }
        let ends = [hi - 1, lo, hi - 2, lo + 1, lo + (hi - lo) / 2];
        let near = self.literals.iter().take(4).flat_map(|&literal| [literal, literal - 1, literal + 1]);
        let below_dims = dims.iter().flat_map(|&dim| [dim - 1, dim - 2, dim]);
        let mut values = Vec::new();
        for value in ends.into_iter().chain(near).chain(below_dims).filter(|&value| lo <= value && value < hi) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

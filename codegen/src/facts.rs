//! What is known of a call when its kernel is planned. Facts choose schedules and simplify texts; they never change bits.
//!
//! Values of a call are only asked coarse questions (which power of two bounds this extent, does 4 divide it), so that the
//! texts planned for many shapes coincide: a loop over a hundred shapes compiles a handful of texts.

use std::collections::BTreeMap;

use gpukc_dsl::call::{Bindings, Values};
use gpukc_dsl::program::{DimId, Direction, ExprKind, Kernel, Literal, Order, Ranged, Reduce, ScalarId, Scan};

use crate::formula::Formula;
use crate::size;

/// Knowledge about the calls that a text will serve. The default serves every call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Dims whose value is spelled into the text, which then serves this value only.
    pub literal: BTreeMap<DimId, i64>,
    /// Dims of the call at hand, for coarse questions.
    pub dims: BTreeMap<DimId, i64>,
    /// Integer scalars of the call at hand, for coarse questions.
    pub scalars: BTreeMap<ScalarId, i64>,
    /// Whether every array starts at a multiple of 16 bytes.
    pub aligned: bool,
    /// Whether every index of the call, grid-stride overshoot included, fits 31 bits.
    pub narrow: bool,
}

struct Known<'a>(&'a Facts, std::cell::Cell<bool>);

impl Values for Known<'_> {
    fn dim(&self, id: DimId) -> Option<i64> {
        let value = self.0.literal.get(&id).or_else(|| self.0.dims.get(&id));
        self.1.set(self.1.get() && value.is_some());
        value.copied()
    }
    fn scalar(&self, id: ScalarId) -> Option<Literal> {
        let value = self.0.scalars.get(&id);
        self.1.set(self.1.get() && value.is_some());
        value.map(|value| Literal::Int(i128::from(*value)))
    }
}

impl Facts {
    fn value(&self, formula: &Formula) -> Option<i64> {
        let known = Known(self, std::cell::Cell::new(true));
        let value = formula.evaluate(&known);
        known.1.get().then_some(value)
    }
    /// A power of two, at least 16, that the value does not exceed.
    pub fn bound(&self, formula: &Formula) -> Option<i64> {
        let value = self.value(formula)?;
        (value <= 1 << 40).then(|| (value.max(16) as u64).next_power_of_two() as i64)
    }
    /// Whether the value is known.
    pub fn tells(&self, formula: &Formula) -> bool {
        self.value(formula).is_some()
    }
    /// Whether the value is known to be at least `threshold`.
    pub fn at_least(&self, formula: &Formula, threshold: i64) -> bool {
        self.value(formula).is_some_and(|value| value >= threshold)
    }
    /// Whether the value is known to be below `threshold`.
    pub fn below(&self, formula: &Formula, threshold: i64) -> bool {
        self.value(formula).is_some_and(|value| value < threshold)
    }
    /// Whether the value is known to be exactly `wanted`, a size that a schedule is made for.
    pub fn is(&self, formula: &Formula, wanted: i64) -> bool {
        self.value(formula) == Some(wanted)
    }
    /// Whether the value is known to be a multiple of `factor`.
    pub fn multiple(&self, formula: &Formula, factor: i64) -> bool {
        self.value(formula).is_some_and(|value| value % factor == 0)
    }
}

/// More elements than this, and 31 bits may not hold an offset plus a grid-stride overshoot.
const NARROW: i64 = 1 << 30;

impl Facts {
    /// Everything that is known at a call whose arrays all start at a multiple of 16 bytes.
    pub fn of_call(kernel: &Kernel, bindings: &Bindings) -> Facts {
        let dims = bindings.dims.iter().enumerate().map(|(index, value)| (DimId::new(index), *value)).collect();
        let integer = |(index, value): (usize, &Literal)| match value {
            Literal::Int(value) => Some((ScalarId::new(index), i64::try_from(*value).ok()?)),
            _ => None,
        };
        let scalars = bindings.scalars.iter().enumerate().filter_map(integer).collect();
        let mut facts = Facts { dims, scalars, aligned: true, ..Facts::default() };
        facts.narrow = facts.fits_31_bits(kernel, &bindings.extents);
        facts
    }

    /// What is known at a call with these dims, all of them, and these integer scalars. If an extent depends on another scalar,
    /// nothing is said of indices.
    pub fn of_sizes(kernel: &Kernel, dims: BTreeMap<DimId, i64>, scalars: BTreeMap<ScalarId, i64>, aligned: bool) -> Facts {
        let mut facts = Facts { dims, scalars, aligned, ..Facts::default() };
        let extent = |&id| facts.value(&size::formula(kernel, &facts, id)?);
        let extents = kernel.arrays.iter().map(|(_, array)| array.shape.iter().map(extent).collect::<Option<Vec<i64>>>());
        let extents = extents.collect::<Option<Vec<_>>>();
        facts.narrow = extents.is_some_and(|extents| facts.fits_31_bits(kernel, &extents));
        facts
    }

    fn fits_31_bits(&self, kernel: &Kernel, extents: &[Vec<i64>]) -> bool {
        let elements = |extents: &Vec<i64>| extents.iter().try_fold(1i64, |n, extent| n.checked_mul((*extent).max(1)));
        let points = |ranges: &[Ranged]| {
            ranges.iter().try_fold(1i64, |n, range| {
                let extent = self.value(&size::extent(kernel, self, range)?)?;
                n.checked_mul(extent.max(1))
            })
        };
        let small = |n: Option<i64>| n.is_some_and(|n| n < NARROW);
        // A scan's range goes from a fixed end to a variable of the left side.
        let fixed_end = |scan: &Scan, range: &Ranged| {
            let end = if scan.direction == Direction::Forward { range.lo } else { range.hi };
            self.value(&size::formula(kernel, self, end)?)
        };
        let reduction = |reduce: &Reduce| match (&reduce.order, reduce.variables.as_slice()) {
            (Order::Scan(scan), [range]) => fixed_end(scan, range).is_some_and(|end| (-NARROW / 2..NARROW).contains(&end)),
            (_, ranges) => small(points(ranges)),
        };
        extents.iter().all(|extents| small(elements(extents)))
            && self.dims.values().all(|dim| *dim < NARROW)
            && kernel.statements.iter().all(|statement| small(points(&statement.variables)))
            && kernel.exprs.iter().all(|(_, expr)| if let ExprKind::Reduce(reduce) = &expr.kind { reduction(reduce) } else { true })
    }
}

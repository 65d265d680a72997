//! A call's data: numbers that round, overflow and compare in their own ways, and indices that suit the subscripts they end in.

use std::collections::BTreeMap;

use gpukc_cpu::Tensor;
use gpukc_dsl::call::Bindings;
use gpukc_dsl::program::*;
use gpukc_dsl::types::Type;
use half::{bf16, f16};

use crate::licence::is_unordered;
use crate::rng::Rng;
use crate::tame::Tame;

/// A float that rounds, overflows or compares in its own way.
pub(crate) fn special(rng: &mut Rng) -> f64 {
    let value = match rng.below(14) {
        0 | 1 => 0.0,
        2 => f64::INFINITY,
        3 => f64::NAN,
        4 => f64::from(f32::MAX),
        5 => f64::from(f32::MIN_POSITIVE),
        6 => f64::from(f32::from_bits(1 + (rng.next() as u32 & 0xffff))),
        7 => 6.0e-8,
        8 => 65504.0,
        9 => 16_777_217.0,
        10 => 2f64.powi(rng.between(-140, 127) as i32),
        11 => 1.0 + f64::from(f32::EPSILON),
        12 => 0.5,
        _ => 3.0e38,
    };
    if rng.one_in(2) { -value } else { value }
}

/// Limits that follow from where the elements of integer arrays are used.
#[derive(Clone, Copy, Debug)]
struct Limit {
    below: i64,
    /// Whether an index must never be outside: nothing checks it.
    assumed: bool,
    /// Whether the elements bound ranges: they ascend, and the limit itself is one of them.
    bounds: bool,
}

fn limits(kernel: &Kernel, bindings: &Bindings) -> BTreeMap<ArrayId, Limit> {
    let mut limits: BTreeMap<ArrayId, Limit> = BTreeMap::new();
    let mut note = |expr: ExprId, below: i64, assumed: bool, bounds: bool| {
        gpukc_codegen::walk::walk(kernel, expr, &mut |id| {
            if let ExprKind::Read { array, .. } = kernel.exprs[id].kind {
                if kernel.arrays[array].element.is_integer() {
                    let limit = limits.entry(array).or_insert(Limit { below, assumed, bounds });
                    limit.below = limit.below.min(below);
                    limit.assumed |= assumed;
                    limit.bounds |= bounds;
                }
            }
            true
        });
    };
    let mut of = |array: ArrayId, subscripts: &[Subscript]| {
        for (subscript, &extent) in subscripts.iter().zip(&bindings.extents[array.index()]) {
            note(subscript.index, extent, subscript.bounds == Bounds::Assumed, false);
        }
    };
    for (_, expr) in kernel.exprs.iter() {
        if let ExprKind::Read { array, subscripts } = &expr.kind {
            of(*array, subscripts);
        }
    }
    for statement in &kernel.statements {
        of(statement.array, &statement.subscripts);
    }
    for (_, expr) in kernel.exprs.iter() {
        let ExprKind::Reduce(reduce) = &expr.kind else { continue };
        for variable in &reduce.variables {
            let reads = |e: ExprId| !gpukc_codegen::walk::reads(kernel, e).is_empty();
            if !reads(variable.lo) && !reads(variable.hi) {
                continue;
            }
            let below = bounded_by(kernel, bindings, reduce.body, variable.variable).unwrap_or(8);
            note(variable.lo, below, false, true);
            note(variable.hi, below, false, true);
        }
    }
    limits
}

/// The least extent that a variable subscripts.
fn bounded_by(kernel: &Kernel, bindings: &Bindings, body: ExprId, variable: VariableId) -> Option<i64> {
    let mut least: Option<i64> = None;
    for read in gpukc_codegen::walk::reads(kernel, body) {
        let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
        for (subscript, &extent) in subscripts.iter().zip(&bindings.extents[array.index()]) {
            if gpukc_codegen::walk::mentions(kernel, subscript.index, variable) {
                least = Some(least.map_or(extent, |least| least.min(extent)));
            }
        }
    }
    least
}

#[derive(Clone, Copy, PartialEq)]
enum Flavour {
    Unit,
    Small,
    Mixed,
    Scaled,
}

pub(crate) fn arrays(kernel: &Kernel, bindings: &Bindings, rng: &mut Rng, wild: bool, tame: &Tame) -> Option<Vec<Tensor>> {
    let limits = limits(kernel, bindings);
    let exact = kernel.statements.iter().any(|s| is_unordered(kernel, s));
    let stray = wild && rng.one_in(40);
    let mut arrays = Vec::new();
    for parameter in &kernel.parameters {
        let Parameter::Array(id) = *parameter else { continue };
        let element = kernel.arrays[id].element;
        let small = tame.arrays.contains(&id);
        let flavour = match rng.below(if wild && !small { 6 } else { 3 }) {
            _ if exact => Flavour::Small,
            0 => Flavour::Small,
            1 | 2 => Flavour::Unit,
            3 => Flavour::Mixed,
            4 => Flavour::Scaled,
            _ => Flavour::Unit,
        };
        let count = bindings.elements(id);
        let mut bytes = Vec::with_capacity(count as usize * element.size());
        let limit = limits.get(&id).copied();
        let full = rng.one_in(4) && !small;
        for at in 0..count {
            match limit {
                Some(limit) if limit.bounds => {
                    // Ascending in steps of any length.
                    let share = (at as f64 + rng.unit() * 0.9) / (count.max(2) - 1) as f64;
                    push(&mut bytes, element, 0.0, i128::from(((share * limit.below as f64) as i64).clamp(0, limit.below)));
                }
                Some(limit) if stray && !limit.assumed && rng.one_in(200) => {
                    push(&mut bytes, element, 0.0, i128::from(limit.below + rng.between(0, 3)));
                }
                Some(limit) => push(&mut bytes, element, 0.0, i128::from(rng.between(0, (limit.below - 1).max(0)))),
                None => {
                    let float = match flavour {
                        Flavour::Unit => rng.unit() * 2.0 - 1.0,
                        Flavour::Small => rng.between(-4, 4) as f64,
                        Flavour::Mixed if rng.one_in(3) => special(rng),
                        Flavour::Mixed => rng.unit() * 2.0 - 1.0,
                        Flavour::Scaled => (rng.unit() * 2.0 - 1.0) * 2f64.powi(rng.between(-30, 30) as i32),
                    };
                    let integer = if full && !exact { i128::from(rng.next() as i64) } else { i128::from(rng.between(-9, 20)) };
                    let integer = if element.is_signed() || full { integer } else { integer.abs() };
                    push(&mut bytes, element, float, integer);
                }
            }
        }
        arrays.push(Tensor::from_bytes(element, &bindings.extents[id.index()], &bytes)?);
    }
    Some(arrays)
}

/// Appends an element.
fn push(bytes: &mut Vec<u8>, element: Type, float: f64, integer: i128) {
    match element {
        Type::Bool => bytes.push(u8::from(integer & 1 != 0)),
        Type::F16 => bytes.extend(f16::from_f64(float).to_ne_bytes()),
        Type::Bf16 => bytes.extend(bf16::from_f64(float).to_ne_bytes()),
        Type::F32 => bytes.extend((float as f32).to_ne_bytes()),
        Type::F64 => bytes.extend(float.to_ne_bytes()),
        integral => bytes.extend(&(integer as i64).to_le_bytes()[..integral.size()]),
    }
}

//! Calls of a kernel: adversarial extents that its conditions allow, of bounded work, and data that suit its subscripts.

use std::collections::BTreeMap;

use gpukc_cpu::Tensor;
use gpukc_dsl::call::{self, Bindings, CallArgument};
use gpukc_dsl::program::*;
use gpukc_dsl::types::{AccumulateOp, Type};
use half::{bf16, f16};

use crate::compare;
use crate::rng::Rng;

/// Extents around the packs, warps, tiles, blocks and levels that schedules are made of.
pub const EXTENTS: [i64; 36] = [
    0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513, 1000, 1023, 1024, 1025, 4095,
    4096, 4097, 8192, 8193, 20_000, 70_000,
];

/// A call: what is bound, and the array parameters in order.
#[derive(Clone, Debug)]
pub struct Call {
    /// Dims, scalars, extents.
    pub bindings: Bindings,
    /// Arrays.
    pub arrays: Vec<Tensor>,
}

impl Call {
    /// `n = 3, k = 5`
    pub fn text(&self, kernel: &Kernel) -> String {
        let dims = kernel.dims.iter().zip(&self.bindings.dims).map(|((_, dim), value)| format!("{} = {value}", dim.name));
        let scalars =
            kernel.scalars.iter().zip(&self.bindings.scalars).map(|((_, scalar), value)| format!("{} = {value:?}", scalar.name));
        dims.chain(scalars).collect::<Vec<_>>().join(", ")
    }

    /// The elements of the arrays, if they are few, a line each.
    pub fn data(&self, kernel: &Kernel) -> String {
        let ids = kernel.parameters.iter().filter_map(|parameter| match *parameter {
            Parameter::Array(id) => Some(id),
            Parameter::Scalar(_) => None,
        });
        let mut out = String::new();
        for (id, array) in ids.zip(&self.arrays).filter(|(_, array)| array.len() <= 32) {
            let elements = array.bytes().chunks(array.element().size()).map(|bytes| compare::text(array.element(), bytes));
            let elements: Vec<String> = elements.map(|text| text.split(' ').next().unwrap_or_default().to_owned()).collect();
            out += &format!("{} = [{}]\n", kernel.arrays[id].name, elements.join(", "));
        }
        out
    }
}

/// What is asked of a call.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// At most about so many evaluations of terms and points.
    pub work: i64,
    /// Whether floats may be anything; else they are moderate numbers.
    pub wild: bool,
}

/// Draws a call that the kernel accepts; `None` if none is found.
pub fn draw(kernel: &Kernel, rng: &mut Rng, wish: Wish) -> Option<Call> {
    for attempt in 0..400 {
        // Extents come down as attempts fail, so that some call is found.
        let most = if attempt < 300 { EXTENTS.len() } else { 12 };
        let equal = rng.one_in(4).then(|| *rng.pick(&EXTENTS[..most]));
        let short = rng.one_in(3);
        let dims: Vec<i64> = kernel
            .dims
            .iter()
            .map(|_| {
                let most = if short && rng.one_in(2) { 10 } else { most };
                equal.unwrap_or_else(|| *rng.pick(&EXTENTS[..most]))
            })
            .collect();
        let extents = extent_scalars(kernel);
        let scalars = kernel.scalars.iter().map(|(id, scalar)| number(scalar.ty, rng, extents.contains(&id), wish.wild)).collect();
        let known = Bindings { dims, scalars, extents: Vec::new() };
        let Some(bindings) = bind(kernel, &known) else { continue };
        if work(kernel, &bindings) > wish.work as f64 {
            continue;
        }
        let arrays = arrays(kernel, &bindings, rng, wish.wild);
        return arrays.map(|arrays| Call { bindings, arrays });
    }
    None
}

/// Binds a call whose dims and scalars are known, if the kernel accepts it.
pub fn bind(kernel: &Kernel, known: &Bindings) -> Option<Bindings> {
    let mut shapes = Vec::new();
    for (_, array) in kernel.arrays.iter() {
        let mut shape = Vec::new();
        for &extent in &array.shape {
            let Some(Literal::Int(extent)) = call::evaluate(kernel, known, extent) else { return None };
            shape.push(i64::try_from(extent).ok()?);
        }
        shapes.push(shape);
    }
    let arguments: Vec<CallArgument> = kernel
        .parameters
        .iter()
        .map(|parameter| match *parameter {
            Parameter::Scalar(id) => CallArgument::Scalar(known.scalars[id.index()]),
            Parameter::Array(id) => CallArgument::Array { element: kernel.arrays[id].element, shape: &shapes[id.index()] },
        })
        .collect();
    call::bind(kernel, &arguments).ok()
}

/// Scalars that an extent or a condition depends on.
fn extent_scalars(kernel: &Kernel) -> Vec<ScalarId> {
    let shapes = kernel.arrays.iter().flat_map(|(_, array)| array.shape.iter().copied());
    let ranges = kernel.statements.iter().flat_map(|s| &s.variables).flat_map(|v| [v.lo, v.hi]);
    let mut found = Vec::new();
    for expr in shapes.chain(ranges).chain(kernel.conditions.iter().map(|c| c.holds)).chain(reduce_bounds(kernel)) {
        gpukc_codegen::walk::walk(kernel, expr, &mut |id| {
            if let ExprKind::Scalar(scalar) = kernel.exprs[id].kind {
                found.push(scalar);
            }
            true
        });
    }
    found
}

fn reduce_bounds(kernel: &Kernel) -> Vec<ExprId> {
    let reduces = kernel.exprs.iter().filter_map(|(_, expr)| match &expr.kind {
        ExprKind::Reduce(reduce) => Some(reduce),
        _ => None,
    });
    reduces.flat_map(|reduce| &reduce.variables).flat_map(|v| [v.lo, v.hi]).collect()
}

/// A scalar's value.
fn number(ty: Type, rng: &mut Rng, extent: bool, wild: bool) -> Literal {
    match ty {
        Type::Bool => Literal::Bool(rng.one_in(2)),
        ty if ty.is_float() => {
            let value = if wild && rng.one_in(8) { special(rng) } else { (rng.unit() - 0.5) * 4.0 };
            Literal::Float(if ty == Type::F64 { value } else { f64::from(value as f32) })
        }
        ty => {
            let (lo, hi) = ty.integer_range();
            Literal::Int(match rng.below(8) {
                _ if extent => i128::from(*rng.pick(&EXTENTS[..20])).min(hi),
                0 => lo,
                1 => hi,
                2 => i128::from(rng.next() as i64).clamp(lo, hi),
                _ => i128::from(rng.between(-9, 9)).clamp(lo, hi),
            })
        }
    }
}

/// A float that rounds, overflows or compares in its own way.
fn special(rng: &mut Rng) -> f64 {
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

/// About how many points and terms a call evaluates.
pub fn work(kernel: &Kernel, bindings: &Bindings) -> f64 {
    let cost = |s: &Statement| points(kernel, bindings, &s.variables) * cost(kernel, bindings, s.value);
    kernel.statements.iter().map(cost).sum::<f64>()
        + bindings.extents.iter().map(|e| e.iter().map(|n| *n as f64).product::<f64>()).sum::<f64>()
}

fn points(kernel: &Kernel, bindings: &Bindings, variables: &[Ranged]) -> f64 {
    let largest = bindings.extents.iter().flatten().chain(&bindings.dims).copied().max().unwrap_or(1) as f64;
    let extent = |v: &Ranged| match (call::evaluate(kernel, bindings, v.lo), call::evaluate(kernel, bindings, v.hi)) {
        (Some(Literal::Int(lo)), Some(Literal::Int(hi))) => (hi - lo).max(0) as f64,
        _ => largest,
    };
    variables.iter().map(extent).product()
}

fn cost(kernel: &Kernel, bindings: &Bindings, expr: ExprId) -> f64 {
    if let ExprKind::Reduce(reduce) = &kernel.exprs[expr].kind {
        let inner = cost(kernel, bindings, reduce.body) + reduce.filter.map_or(0.0, |f| cost(kernel, bindings, f));
        return 1.0 + points(kernel, bindings, &reduce.variables) * inner.max(1.0);
    }
    let parts = gpukc_codegen::walk::operands(kernel, expr);
    parts.into_iter().map(|(part, _)| cost(kernel, bindings, part)).sum::<f64>().max(1.0)
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

/// Whether a statement adds or multiplies floats in no particular order.
pub fn is_unordered(kernel: &Kernel, statement: &Statement) -> bool {
    let StatementKind::Accumulate { op, .. } = statement.kind else { return false };
    matches!(op, AccumulateOp::Add | AccumulateOp::Mul)
        && kernel.arrays[statement.array].element.is_float()
        && !statement.attributes.deterministic
}

#[derive(Clone, Copy, PartialEq)]
enum Flavour {
    Unit,
    Small,
    Mixed,
    Scaled,
}

fn arrays(kernel: &Kernel, bindings: &Bindings, rng: &mut Rng, wild: bool) -> Option<Vec<Tensor>> {
    let limits = limits(kernel, bindings);
    let exact = kernel.statements.iter().any(|s| is_unordered(kernel, s));
    let stray = wild && rng.one_in(40);
    let mut arrays = Vec::new();
    for parameter in &kernel.parameters {
        let Parameter::Array(id) = *parameter else { continue };
        let element = kernel.arrays[id].element;
        let flavour = match rng.below(if wild { 6 } else { 3 }) {
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
        let full = rng.one_in(4);
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

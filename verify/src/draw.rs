//! Calls of a kernel: adversarial extents that its conditions allow, of bounded work, and data that suit its subscripts.

use gpukc_cpu::Tensor;
use gpukc_dsl::call::{self, Bindings, CallArgument};
use gpukc_dsl::program::*;
use gpukc_dsl::types::Type;

use crate::compare;
use crate::data::{arrays, special};
use crate::rng::Rng;
use crate::satisfy::satisfy;
use crate::tame::Tame;

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
    /// An extent that one dim shall have, if the conditions allow it.
    pub extent: Option<i64>,
}

/// Draws a call that the kernel accepts; `None` if none is found.
pub fn draw(program: &Program, kernel: &Kernel, rng: &mut Rng, wish: Wish) -> Option<Call> {
    let tame = Tame::of(program, kernel);
    let extents = extent_scalars(kernel);
    let small = |id: ScalarId| extents.contains(&id) || tame.scalars.contains(&id);
    for attempt in 0..400 {
        // Extents come down as attempts fail, so that some call is found.
        let most = if attempt < 300 { EXTENTS.len() } else { 12 };
        let equal = rng.one_in(4).then(|| *rng.pick(&EXTENTS[..most]));
        let short = rng.one_in(3);
        let mut dims: Vec<i64> = kernel
            .dims
            .iter()
            .map(|_| {
                let most = if short && rng.one_in(2) { 10 } else { most };
                equal.unwrap_or_else(|| *rng.pick(&EXTENTS[..most]))
            })
            .collect();
        let place = rng.below(dims.len());
        if let (Some(extent), Some(dim), 0..200) = (wish.extent, dims.get_mut(place), attempt) {
            *dim = extent;
        }
        let number = |(id, scalar): (ScalarId, &Scalar)| number(scalar.ty, rng, small(id), wish.wild);
        let scalars = kernel.scalars.iter().map(number).collect();
        let mut known = Bindings { dims, scalars, extents: Vec::new() };
        if !satisfy(kernel, &mut known, rng) {
            continue;
        }
        let Some(bindings) = bind(kernel, &known) else { continue };
        if work(kernel, &bindings) > wish.work as f64 {
            continue;
        }
        let arrays = arrays(kernel, &bindings, rng, wish.wild, &tame);
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

/// A scalar's value; `small` if an extent or a loop's length may depend on it.
fn number(ty: Type, rng: &mut Rng, small: bool, wild: bool) -> Literal {
    match ty {
        Type::Bool => Literal::Bool(rng.one_in(2)),
        ty if ty.is_float() => {
            let value = if wild && !small && rng.one_in(8) { special(rng) } else { (rng.unit() - 0.5) * 4.0 };
            Literal::Float(if ty == Type::F64 { value } else { f64::from(value as f32) })
        }
        ty => {
            let (lo, hi) = ty.integer_range();
            Literal::Int(match rng.below(8) {
                _ if small => i128::from(*rng.pick(&EXTENTS[..20])).min(hi),
                0 => lo,
                1 => hi,
                2 => i128::from(rng.next() as i64).clamp(lo, hi),
                _ => i128::from(rng.between(-9, 9)).clamp(lo, hi),
            })
        }
    }
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
    // A function may loop.
    let own = if matches!(kernel.exprs[expr].kind, ExprKind::Call(..)) { 20.0 } else { 1.0 };
    let parts = gpukc_codegen::walk::operands(kernel, expr);
    parts.into_iter().map(|(part, _)| cost(kernel, bindings, part)).sum::<f64>().max(own)
}

#[cfg(test)]
mod tests {
    use gpukc_dsl::source::Source;

    use super::*;

    fn program(text: &str) -> Program {
        gpukc_dsl::check(&Source::new("test.gk", text)).program.expect("a program")
    }

    fn calls(text: &str, wish: Wish) -> Vec<Call> {
        let program = program(text);
        let mut rng = Rng::new(1);
        (0..40).filter_map(|_| draw(&program, &program.kernels[0], &mut rng, wish)).collect()
    }

    #[test]
    fn conditions_are_met() {
        let tied = "kernel f(x: f32[n], y: f32[m], z: f32[k], a: i32) -> s: f32[n]
                    where n == 2 * m + 6, 3 * k == 2 * m, k % 10 == 4, a >= 17, (a as i64) < k, a % 2 == 1 { s[i] = x[i]; }";
        let calls = calls(tied, Wish { work: 1_000_000, wild: true, extent: None });
        assert_eq!(calls.len(), 40);
        let mut seen = std::collections::BTreeSet::new();
        for call in &calls {
            let [n, m, k] = call.bindings.dims[..] else { panic!("{call:?}") };
            let Literal::Int(a) = call.bindings.scalars[0] else { panic!("{call:?}") };
            assert!(n == 2 * m + 6 && 3 * k == 2 * m && k % 10 == 4 && a >= 17 && a < k.into() && a % 2 == 1, "{call:?}");
            seen.insert(k);
        }
        assert!(seen.len() > 5, "{seen:?}");
    }

    #[test]
    fn wished_extents_come() {
        for extent in [0, 1, 4097, 70_000] {
            let wish = Wish { work: 20_000_000, wild: true, extent: Some(extent) };
            let calls = calls("kernel f(x: f32[m, n]) -> y: f32[n, m] { y[j, i] = x[i, j]; }", wish);
            assert_eq!(calls.len(), 40);
            assert!(calls.iter().filter(|call| call.bindings.dims.contains(&extent)).count() >= 35, "{extent}");
        }
    }

    #[test]
    fn loops_end() {
        let text = "fn f(x: f32, n: i32) -> f32 { let mut y = x; for i in 0..n { y = y * x; } y }
                    kernel f_of(x: f32[m], n: i32, k: i32[m], e: i32) -> y: f32[m] { y[i] = f(x[i], n + k[i]) + (e as f32); }";
        let calls = calls(text, Wish { work: 100_000, wild: true, extent: None });
        let scalar = |call: &Call, at: usize| matches!(call.bindings.scalars[at], Literal::Int(value) if value.abs() < 200);
        assert!(calls.iter().all(|call| scalar(call, 0)));
        assert!(!calls.iter().all(|call| scalar(call, 1)));
        let values = |call: &Call| call.arrays[1].bytes().chunks(4).all(|b| i32::from_ne_bytes(b.try_into().unwrap()).abs() < 200);
        assert!(calls.iter().all(values));
    }
}

//! Random subscripts: what is proved must hold, for all small extents, when the program is carried out.

use crate::program::*;
use crate::source::Source;
use crate::types::{BinaryOp, Builtin, Type, UnaryOp};
use std::collections::HashMap;

/// A small generator of pseudo-random numbers (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E3779B97F4A7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB);
        (z ^ (z >> 31)) % limit
    }
    pub(super) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

fn index(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return random.pick(&["i", "i", "j", "j", "n", "m", "0", "1", "2", "3", "k"]).to_string();
    }
    let a = index(random, depth - 1);
    let deep = random.below(2) as usize * (depth - 1);
    let b = index(random, deep);
    match random.below(13) {
        0 | 1 => format!("({a} + {b})"),
        2 | 3 => format!("({a} - {b})"),
        4 => format!("({a} * {b})"),
        5 => format!("({a} / {b})"),
        6 => format!("({a} % {b})"),
        7 => format!("min({a}, {b})"),
        8 => format!("max({a}, {b})"),
        9 => format!("clamp({a}, 0, {b})"),
        10 => format!("mod_floor({a}, {b})"),
        11 => format!("div_floor({a}, {b})"),
        _ => format!("(if {} {{ {a} }} else {{ {b} }})", guard(random)),
    }
}

fn guard(random: &mut Random) -> String {
    let a = index(random, 1);
    let b = index(random, 0);
    let one = format!("{a} {} {b}", random.pick(&["<", "<=", ">", ">=", "==", "!="]));
    match random.below(4) {
        0 => format!("{one} && i {} {}", random.pick(&["<", ">", ">="]), index(random, 0)),
        1 => format!("({one} || j < {})", index(random, 0)),
        _ => one,
    }
}

fn program(random: &mut Random) -> String {
    let extent = random.pick(&["n", "m", "n * m", "n + m", "2 * n", "n / 2", "(n + 2) / 3", "max(n, m)"]);
    let range = random.pick(&["0..n", "0..=i", "i..m", "0..3", "i - 1..i + 2", "0..n / 2", "1..m"]);
    let condition =
        random.pick(&["", "", " where n >= 1", " where n == m", " where n % 2 == 0, m > 2", " where k >= 0, k < n", " where m <= n"]);
    let depth = 1 + random.below(3) as usize;
    let (index, guard, filter) = (index(random, depth), self::guard(random), self::guard(random));
    let body = match random.below(4) {
        0 => format!("sum[j in {range}] x[{index}]"),
        1 => format!("sum[j in {range} if {filter}] x[{index}]"),
        2 => format!("sum[j in {range}] (if {guard} {{ x[{index}] }} else {{ 0.0 }})"),
        _ => format!("(count[j in {range}] ({guard} && x[{index}] > 0.0)) as f32"),
    };
    format!("kernel f(k: i64, x: f32[{extent}], a: f32[n], b: f32[m]) -> y: f32[m]{condition} {{ y[i] = {body}; }}")
}

/// Carries a kernel out on zeros; panics where a proved subscript leaves its array.
pub(super) struct Run<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) dims: Vec<i64>,
    pub(super) k: i64,
    pub(super) variables: HashMap<VariableId, i64>,
    pub(super) text: &'k str,
    /// Whether a read without a rule was outside of its array.
    pub(super) outside: bool,
}

impl Run<'_> {
    pub(super) fn value(&mut self, id: ExprId) -> i64 {
        let expr = &self.kernel.exprs[id];
        match &expr.kind {
            ExprKind::Literal(Literal::Int(value)) => *value as i64,
            ExprKind::Literal(Literal::Bool(value)) => i64::from(*value),
            ExprKind::Literal(Literal::Float(_)) => 0,
            ExprKind::Dim(dim) => self.dims[dim.index()],
            ExprKind::Scalar(_) => self.k,
            ExprKind::Variable(variable) => self.variables[variable],
            ExprKind::Unary(UnaryOp::Negate, a) => self.value(*a).wrapping_neg(),
            ExprKind::Unary(UnaryOp::Not, a) => 1 - self.value(*a),
            ExprKind::Cast(a) => self.value(*a),
            ExprKind::If { condition, then, otherwise } => {
                let chosen = if self.value(*condition) != 0 { *then } else { *otherwise };
                self.value(chosen)
            }
            ExprKind::Binary(BinaryOp::And, a, b) => i64::from(self.value(*a) != 0 && self.value(*b) != 0),
            ExprKind::Binary(BinaryOp::Or, a, b) => i64::from(self.value(*a) != 0 || self.value(*b) != 0),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.value(*a), self.value(*b));
                if expr.ty.is_float() { 0 } else { binary(*op, a, b) }
            }
            ExprKind::Builtin(builtin, arguments) => {
                let arguments: Vec<i64> = arguments.iter().map(|&argument| self.value(argument)).collect();
                self::builtin(*builtin, &arguments)
            }
            ExprKind::Read { array, subscripts } => {
                for (axis, subscript) in subscripts.iter().enumerate() {
                    let index = self.value(subscript.index);
                    let extent = self.value(self.kernel.arrays[*array].shape[axis]);
                    let inside = 0 <= index && index < extent;
                    self.outside |= !inside;
                    assert!(
                        inside || subscript.bounds != Bounds::Proved,
                        "{index} of {extent}, {:?}, k = {}: {}",
                        self.dims,
                        self.k,
                        self.text
                    );
                }
                0
            }
            ExprKind::Reduce(reduce) => self.reduce(reduce),
            other => panic!("{other:?}"),
        }
    }

    fn reduce(&mut self, reduce: &Reduce) -> i64 {
        let [ranged] = reduce.variables[..] else { panic!("one variable") };
        let (lo, hi) = (self.value(ranged.lo), self.value(ranged.hi));
        for value in lo..hi {
            self.variables.insert(ranged.variable, value);
            if reduce.filter.is_none_or(|filter| self.value(filter) != 0) {
                self.value(reduce.body);
            }
        }
        self.variables.remove(&ranged.variable);
        0
    }
}

fn binary(op: BinaryOp, a: i64, b: i64) -> i64 {
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div => a.checked_div(b).unwrap_or(0),
        BinaryOp::Rem => a.checked_rem(b).unwrap_or(0),
        BinaryOp::BitAnd => a & b,
        BinaryOp::Eq => i64::from(a == b),
        BinaryOp::Ne => i64::from(a != b),
        BinaryOp::Lt => i64::from(a < b),
        BinaryOp::Le => i64::from(a <= b),
        BinaryOp::Gt => i64::from(a > b),
        BinaryOp::Ge => i64::from(a >= b),
        other => panic!("{other:?}"),
    }
}

fn builtin(builtin: Builtin, arguments: &[i64]) -> i64 {
    match (builtin, arguments) {
        (Builtin::Min, [a, b]) => *a.min(b),
        (Builtin::Max, [a, b]) => *a.max(b),
        (Builtin::Clamp, [x, lo, hi]) => *x.max(lo).min(hi),
        (Builtin::DivFloor | Builtin::ModFloor, [_, 0]) => 0,
        (Builtin::DivFloor, [a, b]) => a.wrapping_div(*b) - i64::from(a.wrapping_rem(*b) != 0 && (a.wrapping_rem(*b) < 0) != (*b < 0)),
        (Builtin::ModFloor, [a, b]) => {
            let rest = a.wrapping_rem(*b);
            if rest != 0 && (rest < 0) != (*b < 0) { rest + b } else { rest }
        }
        other => panic!("{other:?}"),
    }
}

fn carry_out(kernel: &Kernel, text: &str) {
    for n in 0..5 {
        for m in 0..5 {
            for k in [0, 1, 3, -2, i64::MAX, i64::MIN] {
                let dims = kernel.dims.iter().map(|(_, dim)| if dim.name == "n" { n } else { m }).collect();
                let mut run = Run { kernel, dims, k, variables: HashMap::new(), text, outside: false };
                let shapes = kernel.arrays.iter().flat_map(|(_, array)| array.shape.clone());
                let given = shapes.into_iter().all(|extent| run.value(extent) >= 0);
                if !given || !kernel.conditions.iter().all(|condition| run.value(condition.holds) != 0) {
                    continue;
                }
                let statement = &kernel.statements[0];
                let ranged = statement.variables[0];
                for value in 0..m {
                    run.variables.insert(ranged.variable, value);
                    run.value(statement.value);
                }
            }
        }
    }
}

#[test]
fn what_is_proved_holds() {
    let mut random = Random(std::env::var("GPUKC_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1));
    let count: usize = std::env::var("GPUKC_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(200);
    let mut outcomes = [0; 4];
    for _ in 0..count {
        let text = program(&mut random);
        let start = std::time::Instant::now();
        let checked = crate::check::check(&Source::new("fuzz", text.as_str()));
        assert!(start.elapsed().as_millis() < 20_000, "too slow: {text}");
        let Some(program) = checked.program else {
            let expected = checked.problems.iter().any(|problem| matches!(problem.code.0, 204 | 209));
            assert!(expected, "{:?}: {text}", checked.problems);
            outcomes[0] += 1;
            continue;
        };
        let kernel = &program.kernels[0];
        assert_eq!(kernel.exprs.iter().find(|(_, expr)| expr.ty == Type::F16).map(|(id, _)| id), None);
        let warned = !checked.problems.is_empty();
        outcomes[if warned {
            1
        } else if kernel.conditions.iter().any(|c| matches!(c.reason, ConditionReason::InRange(..))) {
            2
        } else {
            3
        }] += 1;
        carry_out(kernel, &text);
    }
    println!("refuted {}, undecided {}, at the call {}, proved {}", outcomes[0], outcomes[1], outcomes[2], outcomes[3]);
}

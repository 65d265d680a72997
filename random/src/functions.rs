//! Scalar functions and constants for programs to use.

use gpukc_dsl::types::Type;

use crate::generate::{Function, Making};

const FUNCTIONS: [(&str, &[Type], Type); 8] = [
    ("fn NAME(x: f32) -> f32 { 0.5 * x * (1.0 + tanh(x * 0.79)) }", &[Type::F32], Type::F32),
    ("fn NAME(x: f32, y: f32) -> f32 { let mut a = x; for i in 0..3 { a = a * 0.5 + y; } a }", &[Type::F32, Type::F32], Type::F32),
    (
        "fn NAME(start: i64) -> i64 { let mut n = start & 255; let mut steps = 0; while n > 1 { n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 }; steps += 1; } steps }",
        &[Type::I64],
        Type::I64,
    ),
    (
        "fn NAME(a: i32, b: i32) -> i32 { let mut c = a; if a > b { c = b - a; } else { c = c * 3; } c ^ b }",
        &[Type::I32, Type::I32],
        Type::I32,
    ),
    ("fn NAME(x: f64) -> f64 { let y = x * x; if y > 2.0 { y - 1.0 } else { y + x } }", &[Type::F64], Type::F64),
    (
        "fn NAME(x: f32, n: i32) -> f32 { let mut p = 1.0f32; for i in 0..(n & 3) { if p < 100.0 { p *= x; } } p }",
        &[Type::F32, Type::I32],
        Type::F32,
    ),
    ("fn NAME(x: bool, y: f32) -> bool { x && y > 0.0 || !x && y < 1.0 }", &[Type::Bool, Type::F32], Type::Bool),
    ("fn NAME(a: u32) -> u32 { let mut h = a; h ^= h >> 16; h *= 0x45d9f3bu32; h ^= h >> 13; h }", &[Type::U32], Type::U32),
];

impl Making {
    /// The functions of the program.
    pub(crate) fn functions(&mut self) {
        for _ in 0..self.rng.below(3) {
            let (text, parameters, result) = *self.rng.pick(&FUNCTIONS);
            let name = self.fresh("f");
            self.items.push(text.replace("NAME", &name));
            self.functions.push(Function { name, parameters: parameters.to_vec(), result });
        }
        if self.rng.one_in(6) {
            self.items.push("const SCALE: f32 = 1.0 / 64.0;".to_owned());
        }
    }
}

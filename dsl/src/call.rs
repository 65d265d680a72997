//! Binding a call: from the shapes and scalars that a caller gives to the dims and extents of a kernel, with everything
//! checked that can be checked before it runs. Every device uses this.

mod functions;

use std::fmt;

use crate::arena::Arena;
use crate::program::*;
use crate::source::{Source, Span};
use crate::types::{BinaryOp, Type, UnaryOp};

/// The value of a scalar: a literal of the scalar's type.
pub type ScalarValue = Literal;

/// What a caller gives for one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallArgument<'a> {
    /// A scalar's value.
    Scalar(ScalarValue),
    /// An array's element type and shape.
    Array {
        /// Its element type.
        element: Type,
        /// Its extents.
        shape: &'a [i64],
    },
}

/// A kernel's dims, scalars and extents for one call; all checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings {
    /// Values of the dims, by `DimId`.
    pub dims: Vec<i64>,
    /// Values of the scalar parameters, by `ScalarId`.
    pub scalars: Vec<ScalarValue>,
    /// Extents of every array, by `ArrayId`; the bytes of each array fit an `i64`.
    pub extents: Vec<Vec<i64>>,
}

impl Bindings {
    /// The number of elements of an array.
    pub fn elements(&self, array: ArrayId) -> i64 {
        self.extents[array.index()].iter().product()
    }
}

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct CallError {
    /// The kernel's name.
    pub kernel: String,
    /// What is wrong, with names and values. A `{code}` in it stands for the text at `span`.
    message: String,
    /// What is said in the code's place when there is no source at hand.
    fallback: String,
    /// The part of the program that the call contradicts.
    pub span: Option<Span>,
}

impl CallError {
    /// The message; with the source at hand it quotes the code.
    pub fn describe(&self, source: Option<&Source>) -> String {
        let code = match (source, self.span) {
            (Some(source), Some(span)) if !source.slice(span).is_empty() => source.slice(span),
            _ => &self.fallback,
        };
        format!("{}: {}", self.kernel, self.message.replace("{code}", code))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(None))
    }
}

impl std::error::Error for CallError {}

/// Binds a call: `arguments` in the order of the kernel's parameters.
pub fn bind(kernel: &Kernel, arguments: &[CallArgument]) -> Result<Bindings, CallError> {
    let fail = |message: String, span: Option<Span>| CallError { kernel: kernel.name.clone(), message, fallback: String::new(), span };
    if arguments.len() != kernel.parameters.len() {
        let message = format!("{} arguments were given, {} are needed", arguments.len(), kernel.parameters.len());
        return Err(fail(message, None));
    }
    // Kinds, types and ranks.
    let mut scalars = vec![Literal::Bool(false); kernel.scalars.len()];
    let mut given: Vec<Option<&[i64]>> = vec![None; kernel.arrays.len()];
    for (&parameter, &argument) in kernel.parameters.iter().zip(arguments) {
        match (parameter, argument) {
            (Parameter::Scalar(id), CallArgument::Scalar(value)) => {
                let scalar = &kernel.scalars[id];
                let fits = match value {
                    Literal::Bool(_) => scalar.ty == Type::Bool,
                    Literal::Int(v) => {
                        let (lo, hi) = scalar.ty.integer_range();
                        scalar.ty.is_integer() && lo <= v && v <= hi
                    }
                    Literal::Float(_) => scalar.ty.is_float(),
                };
                if !fits {
                    let message = format!("{} is {}, {} was given", scalar.name, scalar.ty, show(value));
                    return Err(fail(message, Some(scalar.span)));
                }
                scalars[id.index()] = match value {
                    Literal::Float(v) if scalar.ty != Type::F64 => Literal::Float(round_to(scalar.ty, v)),
                    value => value,
                };
            }
            (Parameter::Array(id), CallArgument::Array { element, shape }) => {
                let array = &kernel.arrays[id];
                if element != array.element {
                    let message = format!("{} has elements of type {}, {element} was given", array.name, array.element);
                    return Err(fail(message, Some(array.span)));
                }
                if shape.len() != array.rank() {
                    return Err(fail(wrong_rank(&array.name, array.rank(), shape.len()), Some(array.span)));
                }
                if let Some(axis) = shape.iter().position(|&extent| extent < 0) {
                    let message = format!("{} has extent {} on axis {axis}", array.name, shape[axis]);
                    return Err(fail(message, Some(array.span)));
                }
                given[id.index()] = Some(shape);
            }
            (Parameter::Scalar(id), _) => {
                let scalar = &kernel.scalars[id];
                return Err(fail(format!("{} is a scalar, an array was given", scalar.name), Some(scalar.span)));
            }
            (Parameter::Array(id), _) => {
                let array = &kernel.arrays[id];
                return Err(fail(format!("{} is an array, a scalar was given", array.name), Some(array.span)));
            }
        }
    }
    // Dims, then the extents that follow from them.
    let mut bindings = Bindings { dims: Vec::new(), scalars, extents: Vec::new() };
    for (_, dim) in kernel.dims.iter() {
        let extent = given[dim.array.index()].and_then(|shape| shape.get(dim.axis)).copied();
        let Some(extent) = extent else {
            return Err(fail(format!("no argument binds {}", dim.name), Some(dim.span)));
        };
        bindings.dims.push(extent);
    }
    for (id, array) in kernel.arrays.iter() {
        let mut extents = Vec::with_capacity(array.rank());
        for (axis, &shape) in array.shape.iter().enumerate() {
            let extent = integer(kernel, &bindings, shape);
            // What is proved of extents holds for integers that do not wrap.
            if evaluate(kernel, &bindings, shape) != value_in(&kernel.exprs, &bindings, shape, true) {
                let (text, values) = (unparse(kernel, shape), values(kernel, &bindings, shape));
                let message = format!("axis {axis} of {} leaves the 64-bit integers: {text} ({values})", array.name);
                return Err(fail(message, Some(array.span)));
            }
            if let Some(given) = given[id.index()] {
                if given[axis] != extent {
                    return Err(fail(mismatch(kernel, &bindings, id, axis, given[axis], extent), Some(array.span)));
                }
            }
            extents.push(extent);
        }
        bindings.extents.push(extents);
    }
    // Conditions in their order; then what must hold of every array, asked for or not.
    for condition in &kernel.conditions {
        if let ConditionReason::Extent(..) = condition.reason {
            continue;
        }
        // Corners of a box stand for what is between only where nothing wraps.
        let exact = matches!(condition.reason, ConditionReason::InRange(..));
        if value_in(&kernel.exprs, &bindings, condition.holds, exact) == Some(Literal::Bool(true)) {
            continue;
        }
        return Err(failed(kernel, &bindings, condition));
    }
    for (id, array) in kernel.arrays.iter() {
        let extents = &bindings.extents[id.index()];
        if let Some(axis) = extents.iter().position(|&extent| extent < 0) {
            return Err(negative(kernel, &bindings, id, axis, array.shape[axis], array.span));
        }
        let bytes = extents.iter().try_fold(array.element.size() as i64, |bytes, &extent| bytes.checked_mul(extent));
        if bytes.is_none() && !extents.contains(&0) {
            let extents: Vec<String> = extents.iter().map(i64::to_string).collect();
            let message = format!("{}: {}[{}] is too large: its bytes exceed 2^63", array.name, array.element, extents.join(", "));
            return Err(fail(message, Some(array.span)));
        }
    }
    Ok(bindings)
}

/// Compares an array for a result with what the call gives.
pub fn check_result(kernel: &Kernel, bindings: &Bindings, result: ArrayId, shape: &[i64]) -> Result<(), CallError> {
    let array = &kernel.arrays[result];
    let extents = &bindings.extents[result.index()];
    let message = match extents.iter().zip(shape).position(|(needed, given)| needed != given) {
        _ if shape.len() != extents.len() => wrong_rank(&array.name, extents.len(), shape.len()),
        Some(axis) => mismatch(kernel, bindings, result, axis, shape[axis], extents[axis]),
        None => return Ok(()),
    };
    Err(CallError { kernel: kernel.name.clone(), message, fallback: String::new(), span: Some(array.span) })
}

fn wrong_rank(name: &str, rank: usize, given: usize) -> String {
    let dimensions = if rank == 1 { "dimension" } else { "dimensions" };
    format!("{name} has {rank} {dimensions}, {given} {} given", if given == 1 { "was" } else { "were" })
}

/// `a has n = 10, b has n = 11`, or what is needed in so many words.
fn mismatch(kernel: &Kernel, bindings: &Bindings, id: ArrayId, axis: usize, given: i64, needed: i64) -> String {
    let array = &kernel.arrays[id];
    let shape = array.shape[axis];
    match &kernel.exprs[shape].kind {
        ExprKind::Dim(dim) => {
            let dim = &kernel.dims[*dim];
            let binder = &kernel.arrays[dim.array].name;
            let name = &dim.name;
            if dim.array == id {
                return format!("{binder} has {name} = {needed} on axis {}, {given} on axis {axis}", dim.axis);
            }
            format!("{binder} has {name} = {needed}, {} has {name} = {given}", array.name)
        }
        ExprKind::Literal(_) => format!("{} has {given} on axis {axis}, {needed} is needed", array.name),
        _ => {
            let text = unparse(kernel, shape);
            let values = values(kernel, bindings, shape);
            format!("{} has {given} on axis {axis}, {text} = {needed} is needed ({values})", array.name)
        }
    }
}

fn negative(kernel: &Kernel, bindings: &Bindings, id: ArrayId, axis: usize, extent: ExprId, span: Span) -> CallError {
    let array = &kernel.arrays[id];
    let value = integer(kernel, bindings, extent);
    let text = unparse(kernel, extent);
    let values = match &kernel.exprs[extent].kind {
        ExprKind::Dim(_) | ExprKind::Scalar(_) | ExprKind::Literal(_) => String::new(),
        _ => match values(kernel, bindings, extent) {
            values if values.is_empty() => values,
            values => format!(" ({values})"),
        },
    };
    let message = if text == value.to_string() {
        format!("axis {axis} of {} is negative: {value}", array.name)
    } else {
        format!("axis {axis} of {} is negative: {text} = {value}{values}", array.name)
    };
    CallError { kernel: kernel.name.clone(), message, fallback: String::new(), span: Some(span) }
}

fn failed(kernel: &Kernel, bindings: &Bindings, condition: &Condition) -> CallError {
    let error = |message: String, fallback: &str| CallError {
        kernel: kernel.name.clone(),
        message,
        fallback: fallback.to_string(),
        span: Some(condition.span),
    };
    match &condition.reason {
        ConditionReason::Where(text) => {
            let values = values(kernel, bindings, condition.holds);
            error(format!("`{text}` does not hold: {values}"), "")
        }
        ConditionReason::NotNegative(array, axis, extent) => negative(kernel, bindings, *array, *axis, *extent, condition.span),
        ConditionReason::InRange(array, axis, index) => {
            let name = &kernel.arrays[*array].name;
            let rank = kernel.arrays[*array].rank();
            let extent = bindings.extents[array.index()].get(*axis).copied().unwrap_or(0);
            let Some(Literal::Int(value)) = value_in(&kernel.exprs, bindings, *index, true) else {
                return error(format!("{{code}} leaves the 64-bit integers, extent {extent}"), name);
            };
            let element: Vec<String> = (0..rank).map(|at| if at == *axis { value.to_string() } else { "_".to_string() }).collect();
            let on = if rank > 1 { format!(" on axis {axis}") } else { String::new() };
            let message = format!("{{code}} reads {name}[{}], extent {extent}{on}", element.join(", "));
            error(message, name)
        }
        ConditionReason::Extent(array, axis) => {
            error(format!("{} has the wrong extent on axis {axis}", kernel.arrays[*array].name), "")
        }
    }
}

fn show(value: Literal) -> String {
    match value {
        Literal::Bool(v) => v.to_string(),
        Literal::Int(v) => v.to_string(),
        Literal::Float(v) => format!("{v:?}"),
    }
}

/// `n = 10, k = 3`: dims and scalars that an expression mentions.
fn values(kernel: &Kernel, bindings: &Bindings, expr: ExprId) -> String {
    fn collect(kernel: &Kernel, bindings: &Bindings, expr: ExprId, out: &mut Vec<String>) {
        let text = match &kernel.exprs[expr].kind {
            ExprKind::Dim(dim) => format!("{} = {}", kernel.dims[*dim].name, bindings.dims[dim.index()]),
            ExprKind::Scalar(scalar) => {
                format!("{} = {}", kernel.scalars[*scalar].name, show(bindings.scalars[scalar.index()]))
            }
            ExprKind::Unary(_, a) | ExprKind::Cast(a) => return collect(kernel, bindings, *a, out),
            ExprKind::Binary(_, a, b) => {
                collect(kernel, bindings, *a, out);
                return collect(kernel, bindings, *b, out);
            }
            ExprKind::If { condition, then, otherwise } => {
                return [condition, then, otherwise].into_iter().for_each(|&e| collect(kernel, bindings, e, out));
            }
            ExprKind::Builtin(_, arguments) | ExprKind::Call(_, arguments) => {
                return arguments.iter().for_each(|&e| collect(kernel, bindings, e, out));
            }
            _ => return,
        };
        if !out.contains(&text) {
            out.push(text);
        }
    }
    let mut out = Vec::new();
    collect(kernel, bindings, expr, &mut out);
    out.join(", ")
}

/// The text of an expression over dims, scalars and literals.
fn unparse(kernel: &Kernel, expr: ExprId) -> String {
    fn go(kernel: &Kernel, expr: ExprId, above: u8) -> String {
        let (text, precedence) = match &kernel.exprs[expr].kind {
            ExprKind::Literal(value) => (show(*value), 20),
            ExprKind::Dim(dim) => (kernel.dims[*dim].name.clone(), 20),
            ExprKind::Scalar(scalar) => (kernel.scalars[*scalar].name.clone(), 20),
            ExprKind::Unary(op, a) => {
                let symbol = if *op == UnaryOp::Negate { "-" } else { "!" };
                (format!("{symbol}{}", go(kernel, *a, 12)), 12)
            }
            // The checker writes i64 casts around i32 scalars; they would only get in the way.
            ExprKind::Cast(a) => return go(kernel, *a, above),
            ExprKind::Binary(op, a, b) => {
                let own = op.precedence();
                (format!("{} {} {}", go(kernel, *a, own), op.symbol(), go(kernel, *b, own + 1)), own)
            }
            ExprKind::If { condition, then, otherwise } => (
                format!("if {} {{ {} }} else {{ {} }}", go(kernel, *condition, 0), go(kernel, *then, 0), go(kernel, *otherwise, 0)),
                0,
            ),
            ExprKind::Builtin(builtin, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(|&e| go(kernel, e, 0)).collect();
                (format!("{builtin}({})", arguments.join(", ")), 20)
            }
            _ => ("…".to_string(), 20),
        };
        if precedence < above { format!("({text})") } else { text }
    }
    go(kernel, expr, 0)
}

/// The value of an `i64` expression over dims and scalars; 0 if it is none.
pub fn integer(kernel: &Kernel, bindings: &Bindings, expr: ExprId) -> i64 {
    match evaluate(kernel, bindings, expr) {
        Some(Literal::Int(value)) => value as i64,
        _ => 0,
    }
}

/// The value of an expression over dims and scalars, by the rules of the language: integers wrap, division by zero gives
/// 0. `None` if it mentions anything else (variables, arrays, functions of the program).
pub fn evaluate(kernel: &Kernel, bindings: &Bindings, expr: ExprId) -> Option<Literal> {
    evaluate_in(&kernel.exprs, bindings, expr)
}

/// What dims and scalars are at a call.
pub trait Values {
    /// The value of a dim, if it is known.
    fn dim(&self, id: DimId) -> Option<i64>;
    /// The value of a scalar parameter, if it is known.
    fn scalar(&self, id: ScalarId) -> Option<Literal>;
}

impl Values for Bindings {
    fn dim(&self, id: DimId) -> Option<i64> {
        self.dims.get(id.index()).copied()
    }
    fn scalar(&self, id: ScalarId) -> Option<Literal> {
        self.scalars.get(id.index()).copied()
    }
}

/// [`evaluate`] for expressions outside of a kernel.
pub fn evaluate_in(exprs: &Arena<Expr>, values: &impl Values, expr: ExprId) -> Option<Literal> {
    value_in(exprs, values, expr, false)
}

/// The value of an expression; if `exact`, none where an integer leaves its type.
fn value_in(exprs: &Arena<Expr>, values: &impl Values, expr: ExprId, exact: bool) -> Option<Literal> {
    let node = &exprs[expr];
    let ty = node.ty;
    let value = |id: ExprId| value_in(exprs, values, id, exact);
    Some(match &node.kind {
        ExprKind::Literal(value) => *value,
        ExprKind::Dim(dim) => Literal::Int(i128::from(values.dim(*dim)?)),
        ExprKind::Scalar(scalar) => values.scalar(*scalar)?,
        ExprKind::Unary(op, a) => match (op, value(*a)?) {
            (UnaryOp::Negate, Literal::Int(a)) => Literal::Int(wrap(ty, -a)),
            (UnaryOp::Negate, Literal::Float(a)) => Literal::Float(-a),
            (UnaryOp::Not, Literal::Bool(a)) => Literal::Bool(!a),
            (UnaryOp::Not, Literal::Int(a)) => Literal::Int(wrap(ty, !a)),
            _ => return None,
        },
        ExprKind::Binary(op, a, b) => {
            let a = value(*a)?;
            match (op, a) {
                (BinaryOp::And, Literal::Bool(false)) | (BinaryOp::Or, Literal::Bool(true)) => a,
                _ => {
                    let b = value(*b)?;
                    let result = binary(*op, ty, a, b)?;
                    if exact && wraps(*op, a, b, result) {
                        return None;
                    }
                    result
                }
            }
        }
        ExprKind::Cast(a) => cast(ty, value(*a)?),
        ExprKind::If { condition, then, otherwise } => match value(*condition)? {
            Literal::Bool(true) => value(*then)?,
            Literal::Bool(false) => value(*otherwise)?,
            _ => return None,
        },
        ExprKind::Builtin(builtin, arguments) => {
            let arguments: Option<Vec<Literal>> = arguments.iter().map(|&e| value(e)).collect();
            functions::call(*builtin, ty, &arguments?)?
        }
        _ => return None,
    })
}

/// Whether a sum, difference or product is not what it is among all integers.
fn wraps(op: BinaryOp, a: Literal, b: Literal, result: Literal) -> bool {
    let (Literal::Int(a), Literal::Int(b), Literal::Int(result)) = (a, b, result) else { return false };
    let true_result = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        _ => return false,
    };
    true_result != Some(result)
}

/// An integer modulo the type's range.
fn wrap(ty: Type, value: i128) -> i128 {
    match ty {
        Type::I8 => i128::from(value as i8),
        Type::I16 => i128::from(value as i16),
        Type::I32 => i128::from(value as i32),
        Type::I64 => i128::from(value as i64),
        Type::U8 => i128::from(value as u8),
        Type::U16 => i128::from(value as u16),
        Type::U32 => i128::from(value as u32),
        Type::U64 => i128::from(value as u64),
        _ => value,
    }
}

/// An `f64` rounded to a float type. For f32 one rounding of an f64 result of `+ - * / sqrt` over f32 values is exact.
pub fn round_to(ty: Type, value: f64) -> f64 {
    match ty {
        Type::F32 => f64::from(value as f32),
        Type::F16 => round_narrow(value, 11, -14, 65504.0),
        Type::Bf16 => round_narrow(value, 8, -126, 3.3895313892515355e38),
        _ => value,
    }
}

/// Rounds to `bits` of significand (the leading one included) and a least normal exponent, to nearest even.
fn round_narrow(value: f64, bits: i32, least: i32, largest: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = ((value.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least);
    let ulp = 2f64.powi(exponent - bits + 1);
    let rounded = (value / ulp).round_ties_even() * ulp;
    if rounded.abs() > largest { f64::INFINITY.copysign(value) } else { rounded }
}

fn cast(to: Type, value: Literal) -> Literal {
    match value {
        Literal::Bool(v) if to == Type::Bool => Literal::Bool(v),
        Literal::Bool(v) => cast(to, Literal::Int(i128::from(v))),
        Literal::Int(v) if to == Type::Bool => Literal::Bool(v != 0),
        Literal::Int(v) if to.is_integer() => Literal::Int(wrap(to, v)),
        Literal::Int(v) if to == Type::F32 => Literal::Float(f64::from(v as f32)),
        Literal::Int(v) => Literal::Float(round_to(to, v as f64)),
        Literal::Float(v) if to.is_float() => Literal::Float(round_to(to, v)),
        Literal::Float(v) if to == Type::Bool => Literal::Bool(v != 0.0),
        Literal::Float(v) => {
            let (lo, hi) = to.integer_range();
            Literal::Int((v as i128).clamp(lo, hi))
        }
    }
}

fn binary(op: BinaryOp, ty: Type, a: Literal, b: Literal) -> Option<Literal> {
    use BinaryOp::*;
    let value = match (a, b) {
        (Literal::Bool(a), Literal::Bool(b)) => Literal::Bool(match op {
            And | BitAnd => a & b,
            Or | BitOr => a | b,
            BitXor | Ne => a ^ b,
            Eq => a == b,
            Lt => !a & b,
            Le => !a | b,
            Gt => a & !b,
            Ge => a | !b,
            _ => return None,
        }),
        (Literal::Int(a), Literal::Int(b)) => {
            let bits = i128::from(ty.bits());
            let inside = 0 <= b && b < bits;
            Literal::Int(match op {
                Mul => wrap(ty, a.wrapping_mul(b)),
                Div => wrap(ty, a.checked_div(b).unwrap_or(0)),
                Rem => wrap(ty, a.checked_rem(b).unwrap_or(0)),
                Add => wrap(ty, a + b),
                Sub => wrap(ty, a - b),
                Shl => wrap(ty, if inside { a << b } else { 0 }),
                Shr => wrap(ty, if inside { a >> b } else { a >> 127 }),
                BitAnd => a & b,
                BitXor => a ^ b,
                BitOr => a | b,
                Eq => return Some(Literal::Bool(a == b)),
                Ne => return Some(Literal::Bool(a != b)),
                Lt => return Some(Literal::Bool(a < b)),
                Le => return Some(Literal::Bool(a <= b)),
                Gt => return Some(Literal::Bool(a > b)),
                Ge => return Some(Literal::Bool(a >= b)),
                And | Or => return None,
            })
        }
        (Literal::Float(a), Literal::Float(b)) => Literal::Float(match op {
            Mul => round_to(ty, a * b),
            Div => round_to(ty, a / b),
            Rem => round_to(ty, a % b),
            Add => round_to(ty, a + b),
            Sub => round_to(ty, a - b),
            Eq => return Some(Literal::Bool(a == b)),
            Ne => return Some(Literal::Bool(a != b)),
            Lt => return Some(Literal::Bool(a < b)),
            Le => return Some(Literal::Bool(a <= b)),
            Gt => return Some(Literal::Bool(a > b)),
            Ge => return Some(Literal::Bool(a >= b)),
            _ => return None,
        }),
        _ => return None,
    };
    Some(value)
}

fn mask(ty: Type) -> u128 {
    (1u128 << ty.bits()) - 1
}

/// A scalar's bits in its type, in the low end.
pub fn scalar_bits(ty: Type, value: ScalarValue) -> u64 {
    match value {
        Literal::Bool(v) => u64::from(v),
        Literal::Int(v) => (v as u128 & mask(if ty == Type::Bool { Type::U8 } else { ty })) as u64,
        Literal::Float(v) => match ty {
            Type::F64 => v.to_bits(),
            Type::F32 => u64::from((v as f32).to_bits()),
            Type::Bf16 if v.is_nan() => 0x7fc0,
            Type::Bf16 => u64::from((round_to(ty, v) as f32).to_bits() >> 16),
            _ => u64::from(f16_bits(v)),
        },
    }
}

/// The value of a scalar whose bits are these: the inverse of [`scalar_bits`].
pub fn scalar_value(ty: Type, bits: u64) -> ScalarValue {
    match ty {
        Type::Bool => Literal::Bool(bits & 1 != 0),
        Type::F64 => Literal::Float(f64::from_bits(bits)),
        Type::F32 => Literal::Float(f64::from(f32::from_bits(bits as u32))),
        Type::Bf16 => Literal::Float(f64::from(f32::from_bits((bits as u32) << 16))),
        Type::F16 => Literal::Float(f16_value(bits as u16)),
        integer => Literal::Int(wrap(integer, i128::from(bits))),
    }
}

fn f16_value(bits: u16) -> f64 {
    let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// The bits of a value rounded to f16.
fn f16_bits(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let rounded = round_to(Type::F16, value).abs();
    if value.is_nan() {
        0x7e00
    } else if rounded.is_infinite() {
        sign | 0x7c00
    } else if rounded < 2f64.powi(-14) {
        sign | (rounded * 2f64.powi(24)) as u16
    } else {
        let exponent = (rounded.to_bits() >> 52) as i32 - 1023;
        let fraction = (rounded.to_bits() >> 42 & 0x3ff) as u16;
        sign | ((exponent + 15) as u16) << 10 | fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Build(Kernel);
    impl Build {
        fn expr(&mut self, kind: ExprKind, ty: Type) -> ExprId {
            self.0.exprs.push(Expr { kind, ty, span: Span::default() })
        }
        fn int(&mut self, value: i128) -> ExprId {
            self.expr(ExprKind::Literal(Literal::Int(value)), Type::I64)
        }
        fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
            let ty = if op.is_comparison() { Type::Bool } else { Type::I64 };
            self.expr(ExprKind::Binary(op, a, b), ty)
        }
        fn array(&mut self, name: &str, shape: Vec<ExprId>, role: Role) -> ArrayId {
            let array = Array { name: name.into(), span: Span::default(), element: Type::F32, shape, role };
            let id = self.0.arrays.push(array);
            if role == Role::Parameter {
                self.0.parameters.push(Parameter::Array(id));
            }
            id
        }
    }

    /// `kernel vector_add(a: f32[n], b: f32[n], k: i32) -> y: f32[n - 5]`
    fn example() -> (Build, ExprId) {
        let mut build = Build(Kernel { name: "vector_add".into(), ..Kernel::default() });
        let dim = Dim { name: "n".into(), span: Span::default(), array: ArrayId::new(0), axis: 0 };
        let dim = build.0.dims.push(dim);
        let n = build.expr(ExprKind::Dim(dim), Type::I64);
        build.array("a", vec![n], Role::Parameter);
        build.array("b", vec![n], Role::Parameter);
        let five = build.int(5);
        let shape = build.binary(BinaryOp::Sub, n, five);
        build.array("y", vec![shape], Role::Result);
        let k = Scalar { name: "k".into(), ty: Type::I32, span: Span::default() };
        let k = build.0.scalars.push(k);
        build.0.parameters.push(Parameter::Scalar(k));
        (build, n)
    }

    fn given(n: i64, m: i64, k: i128) -> Result<Bindings, String> {
        let (mut build, n_expr) = example();
        let four = build.int(4);
        let zero = build.int(0);
        let rem = build.binary(BinaryOp::Rem, n_expr, four);
        let holds = build.binary(BinaryOp::Eq, rem, zero);
        let reason = ConditionReason::Where("n % 4 == 0".into());
        build.0.conditions.push(Condition { holds, span: Span::default(), reason });
        let k_expr = build.expr(ExprKind::Scalar(ScalarId::new(0)), Type::I32);
        let k64 = build.expr(ExprKind::Cast(k_expr), Type::I64);
        let holds = build.binary(BinaryOp::Lt, k64, n_expr);
        let reason = ConditionReason::InRange(ArrayId::new(0), 0, k64);
        build.0.conditions.push(Condition { holds, span: Span { start: 0, end: 8 }, reason });
        let array = |shape| CallArgument::Array { element: Type::F32, shape };
        let k = CallArgument::Scalar(Literal::Int(k));
        let source = Source::new("x.gk", "x[i + k]");
        bind(&build.0, &[array(&[n]), array(&[m]), k]).map_err(|error| error.describe(Some(&source)))
    }

    #[test]
    fn binds() {
        let bindings = given(12, 12, 3).unwrap();
        assert_eq!(bindings.dims, [12]);
        assert_eq!(bindings.extents, [vec![12], vec![12], vec![7]]);
    }

    #[test]
    fn refuses() {
        assert_eq!(given(10, 11, 0).unwrap_err(), "vector_add: a has n = 10, b has n = 11");
        assert_eq!(given(10, 10, 0).unwrap_err(), "vector_add: `n % 4 == 0` does not hold: n = 10");
        assert_eq!(given(12, 12, 50).unwrap_err(), "vector_add: x[i + k] reads a[50], extent 12");
        assert_eq!(given(4, 4, 0).unwrap_err(), "vector_add: axis 0 of y is negative: n - 5 = -1 (n = 4)");
        assert_eq!(given(12, 12, 1 << 31).unwrap_err(), "vector_add: k is i32, 2147483648 was given");
        assert!(given(1 << 61, 1 << 61, 0).unwrap_err().contains("too large"));
    }

    #[test]
    fn half_bits() {
        for (value, bits) in [
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (5.960464477539063e-8, 1),
            (6.103515625e-5, 0x400),
            (1.0009765625, 0x3c01),
        ] {
            assert_eq!(scalar_bits(Type::F16, Literal::Float(value)), bits, "{value}");
        }
        assert_eq!(scalar_bits(Type::Bf16, Literal::Float(-1.5)), 0xbfc0);
        assert_eq!(scalar_bits(Type::I8, Literal::Int(-1)), 0xff);
    }
}

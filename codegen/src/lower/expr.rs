//! Typed expressions to plan expressions. What needs statements (a guarded read that can fail, a reduction in place) appends
//! them to the current block, so a side that may not be evaluated gets a block of its own.

use gpukc_dsl::program::{ExprId, ExprKind, Literal, VariableId};
use gpukc_dsl::types::{BinaryOp, Builtin, Type, UnaryOp};

use super::context::Lowering;
use super::function::library_call;
use super::place::Place;
use crate::error::Error;
use crate::plan::{Expr, Node, call, int};
use crate::size;
use crate::walk;

/// From this cost on, what is the same for a whole loop is computed before it.
const HOISTED: u32 = 10;

impl Lowering<'_> {
    /// The value of an expression, of its gk type (f16 and bf16 as bits).
    pub fn value(&mut self, id: ExprId) -> Result<Expr, Error> {
        if let Some(value) = self.computed.get(&id) {
            return Ok(value.clone());
        }
        let expr = &self.kernel.exprs[id];
        let ty = expr.ty;
        match &expr.kind {
            ExprKind::Literal(value) => Ok(literal(*value, ty)),
            ExprKind::Dim(_) | ExprKind::Variable(_) => {
                let index = self.index(id)?;
                Ok(match index.constant() {
                    Some(value) => Expr::Int(value, Type::I64),
                    None if self.facts.narrow => index.cast(Type::I64),
                    None => index,
                })
            }
            ExprKind::Scalar(scalar) => Ok(self.scalar(*scalar)),
            ExprKind::Local(_) => Err(Error::Bug("a local outside of a function".into())),
            ExprKind::Read { array, subscripts } => match self.staged.get(&id).cloned() {
                Some(staged) => self.staged_read(&staged, subscripts),
                None => self.read(*array, subscripts),
            },
            ExprKind::Reduce(_) => self.reduce_in_place(id),
            ExprKind::Unary(op, x) => {
                let x = self.value(*x)?;
                Ok(unary(*op, x, ty))
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => self.short_circuit(*op, *a, *b),
            ExprKind::Binary(op, a, b) => {
                if let Some(value) = self.narrow_operation(id)? {
                    return Ok(value);
                }
                match self.index_comparison(*op, *a, *b)? {
                    Some(value) => Ok(value),
                    None => self.chain(id),
                }
            }
            ExprKind::Cast(x) => {
                if let Some(value) = self.narrow_cast(*x, ty)? {
                    return Ok(value);
                }
                let from = self.kernel.exprs[*x].ty;
                let x = self.value(*x)?;
                Ok(cast(x, from, ty))
            }
            ExprKind::If { condition, then, otherwise } => self.choose(*condition, *then, *otherwise, ty),
            ExprKind::Builtin(builtin, arguments) => {
                let operand = arguments.first().map_or(ty, |a| self.kernel.exprs[*a].ty);
                let arguments = self.values(arguments)?;
                Ok(builtin_call(*builtin, arguments, operand))
            }
            ExprKind::Call(function, arguments) => {
                let arguments = self.values(arguments)?;
                let callee = self.function(*function)?;
                Ok(call(callee, arguments))
            }
        }
    }

    fn values(&mut self, ids: &[ExprId]) -> Result<Vec<Expr>, Error> {
        ids.iter().map(|id| self.value(*id)).collect()
    }

    /// A binary operation; a left-deep chain of them is walked without recursion.
    fn chain(&mut self, id: ExprId) -> Result<Expr, Error> {
        let mut spine = Vec::new();
        let mut at = id;
        while let ExprKind::Binary(op, a, b) = &self.kernel.exprs[at].kind {
            if matches!(op, BinaryOp::And | BinaryOp::Or) || self.computed.contains_key(&at) {
                break;
            }
            spine.push((*op, *b, self.kernel.exprs[*a].ty, self.is_index_arithmetic(at)));
            at = *a;
        }
        let mut result = self.value(at)?;
        for (op, b, operand, plain) in spine.into_iter().rev() {
            let b = self.value(b)?;
            result = binary(op, result, b, operand, plain);
        }
        Ok(result)
    }

    /// Whether an `i64` expression is made of index variables, dims and literals only, whose bits together are not too many: its values
    /// stay far from overflow.
    fn is_index_arithmetic(&self, id: ExprId) -> bool {
        if self.kernel.exprs[id].ty != Type::I64 {
            return false;
        }
        let (mut only, mut bits) = (true, 0);
        walk::walk(self.kernel, id, &mut |id| {
            let expr = &self.kernel.exprs[id];
            only &= expr.ty == Type::I64
                && match &expr.kind {
                    ExprKind::Literal(Literal::Int(value)) => {
                        bits += 128 - value.unsigned_abs().leading_zeros();
                        bits <= 31
                    }
                    ExprKind::Dim(_) | ExprKind::Variable(_) => true,
                    ExprKind::Binary(op, ..) => matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul),
                    _ => false,
                };
            only
        });
        only
    }

    /// The value of an `i64` expression as an index, of the index type where it is made of variables, dims and small literals.
    pub fn index(&mut self, id: ExprId) -> Result<Expr, Error> {
        match &self.kernel.exprs[id].kind {
            ExprKind::Variable(variable) => self
                .variables
                .get(variable)
                .cloned()
                .ok_or_else(|| Error::Bug(format!("index variable `{}` is not bound", self.kernel.variables[*variable].name))),
            ExprKind::Dim(_) => {
                let formula = self.formula(id)?;
                Ok(self.size(&formula, "extent"))
            }
            ExprKind::Literal(Literal::Int(value)) if i32::try_from(*value).is_ok() => Ok(int(*value as i64)),
            ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) if self.is_index_arithmetic(id) => {
                let symbol = op.symbol();
                let narrow_product = self.facts.narrow && *op == BinaryOp::Mul;
                let a = self.index(*a)?;
                let b = self.index(*b)?;
                // A product of in-range indices may pass 31 bits on the way to an offset that does not.
                Ok(if narrow_product { a.cast(Type::I64).binary(symbol, b) } else { a.binary(symbol, b) })
            }
            ExprKind::Binary(op @ (BinaryOp::Div | BinaryOp::Rem), a, b) if self.is_index_arithmetic(*a) && self.is_positive(*b) => {
                let (a, b) = (self.index(*a)?, self.index(*b)?);
                Ok(a.binary(op.symbol(), b))
            }
            _ => self.value(id),
        }
    }

    /// Whether an expression is a dim or a literal that is known to be positive, so that dividing by it needs no care.
    fn is_positive(&self, id: ExprId) -> bool {
        match self.kernel.exprs[id].kind {
            ExprKind::Literal(Literal::Int(value)) => value > 0 && value < 1 << 31,
            ExprKind::Dim(_) => size::formula(self.kernel, self.facts, id).is_some_and(|dim| self.facts.at_least(&dim, 1)),
            _ => false,
        }
    }

    /// Whether an expression is an index, a dim or a small literal, the quotient or the rest of one, or a sum of two: of the index type,
    /// it has no overflow on the way.
    fn is_short_sum(&self, id: ExprId) -> bool {
        match self.kernel.exprs[id].kind {
            ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => self.is_short(a) && self.is_short(b),
            _ => self.is_short(id),
        }
    }

    fn is_short(&self, id: ExprId) -> bool {
        let expr = &self.kernel.exprs[id];
        let plain = match expr.kind {
            ExprKind::Literal(Literal::Int(value)) => value.unsigned_abs() < 1 << 30,
            ExprKind::Dim(_) | ExprKind::Variable(_) => true,
            ExprKind::Binary(BinaryOp::Div | BinaryOp::Rem, a, b) => {
                self.is_positive(b) && self.is_index_arithmetic(a) && self.is_short_sum(a)
            }
            _ => false,
        };
        plain && expr.ty == Type::I64 && !self.computed.contains_key(&id)
    }

    /// A comparison of indices, of the index type.
    fn index_comparison(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> Result<Option<Expr>, Error> {
        let compares = matches!(op, BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne);
        if !compares || !self.is_short_sum(a) || !self.is_short_sum(b) {
            return Ok(None);
        }
        let (a, b) = (self.index(a)?, self.index(b)?);
        Ok(Some(a.binary(op.symbol(), b)))
    }

    fn short_circuit(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> Result<Expr, Error> {
        let a = self.value(a)?;
        let result = self.reserve("holds");
        let (nodes, b) = self.block(|lowering| lowering.value(b))?;
        if nodes.is_empty() {
            self.release(&result);
            return Ok(a.binary(op.symbol(), b));
        }
        let result = self.declare(result, Type::Bool, Some(a));
        let condition = if op == BinaryOp::And { result.clone() } else { Expr::Unary("!", Box::new(result.clone())) };
        let then = nodes.into_iter().chain([Node::Assign(result.clone(), b)]).collect();
        self.push(Node::If { condition, then, otherwise: Vec::new() });
        Ok(result)
    }

    fn choose(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId, ty: Type) -> Result<Expr, Error> {
        let condition = self.value(condition)?;
        let result = self.reserve("chosen");
        let (mut then_nodes, a) = self.block(|lowering| lowering.value(then))?;
        let (mut otherwise_nodes, b) = self.block(|lowering| lowering.value(otherwise))?;
        if then_nodes.is_empty() && otherwise_nodes.is_empty() {
            self.release(&result);
            return Ok(condition.choose(a, b));
        }
        let result = self.declare(result, ty, None);
        then_nodes.push(Node::Assign(result.clone(), a));
        otherwise_nodes.push(Node::Assign(result.clone(), b));
        self.push(Node::If { condition, then: then_nodes, otherwise: otherwise_nodes });
        Ok(result)
    }

    /// The costly subexpressions of `value` that mention none of `variables` and are evaluated wherever `value` is: a loop over those
    /// variables need not compute them again.
    pub fn hoistable(&self, value: ExprId, variables: &[VariableId]) -> Vec<ExprId> {
        let mut found = Vec::new();
        let mut stack = vec![value];
        while let Some(id) = stack.pop() {
            if self.computed.contains_key(&id) {
                continue;
            }
            if variables.iter().any(|v| walk::mentions(self.kernel, id, *v)) {
                let below = walk::operands(self.kernel, id);
                stack.extend(below.into_iter().rev().filter(|(_, guarded)| !guarded).map(|(operand, _)| operand));
                continue;
            }
            let inlined = match &self.kernel.exprs[id].kind {
                ExprKind::Read { array, .. } => matches!(self.places.of(*array), Place::Inline(_)),
                _ => false,
            };
            let costly = inlined || walk::cost(self.kernel, id) >= HOISTED;
            if costly && !walk::can_fail(self.kernel, id) && !found.contains(&id) {
                found.push(id);
            }
        }
        found
    }

    /// Computes them now, and names them.
    pub fn hoist(&mut self, value: ExprId, variables: &[VariableId], wish: &str) -> Result<(), Error> {
        for id in self.hoistable(value, variables) {
            let value = self.value(id)?;
            let named = matches!(value, Expr::Name(_) | Expr::Int(..) | Expr::Float(..));
            let value = if named { value } else { self.local(wish, self.kernel.exprs[id].ty, value) };
            self.computed.insert(id, value);
        }
        Ok(())
    }
}

/// A built-in function; `operand` is the type of its first argument.
pub fn builtin_call(builtin: Builtin, mut arguments: Vec<Expr>, operand: Type) -> Expr {
    let selects = matches!(builtin, Builtin::Min | Builtin::Max | Builtin::Clamp);
    if let (true, Some(function)) = (operand.is_float() && !selects, library_call(builtin, operand)) {
        return call(function, arguments);
    }
    let suffix = if operand == Type::F32 { "f" } else { "" };
    let first = arguments.first().cloned().unwrap_or(int(0));
    let cuda = |stem: &str| format!("{stem}{suffix}");
    match builtin {
        Builtin::Abs if operand.is_float() => call(cuda("fabs"), arguments),
        Builtin::Abs if operand.is_signed() => call("absolute", arguments),
        Builtin::Abs => first,
        Builtin::Sign => call("sign", arguments),
        Builtin::Min => call(extreme("minimum", operand), arguments),
        Builtin::Max => call(extreme("maximum", operand), arguments),
        Builtin::Clamp => {
            let hi = arguments.pop().unwrap_or(int(0));
            call(extreme("minimum", operand), vec![call(extreme("maximum", operand), arguments), hi])
        }
        Builtin::Floor => call(cuda("floor"), arguments),
        Builtin::Ceil => call(cuda("ceil"), arguments),
        Builtin::Trunc => call(cuda("trunc"), arguments),
        Builtin::RoundTiesEven => call(cuda("rint"), arguments),
        Builtin::Sqrt => call(cuda("sqrt"), arguments),
        Builtin::MulAdd => call(cuda("fma"), arguments),
        Builtin::Copysign => call(cuda("copysign"), arguments),
        Builtin::IsNan => first.clone().binary("!=", first),
        Builtin::IsInf => call(cuda("fabs"), vec![first]).binary("==", Expr::Float(f64::INFINITY, operand)),
        Builtin::IsFinite => call(cuda("fabs"), vec![first]).binary("<", Expr::Float(f64::INFINITY, operand)),
        Builtin::CountOnes | Builtin::LeadingZeros => call(format!("{builtin}_{operand}"), arguments),
        Builtin::ToBits => call(if operand == Type::F32 { "float_bits" } else { "double_bits" }, arguments),
        Builtin::F32FromBits => call("bits_float", arguments),
        Builtin::F64FromBits => call("bits_double", arguments),
        other => call(other.name(), arguments),
    }
}

/// `minimum` or `maximum`; on f16 and bf16 the one for their bits.
pub fn extreme(stem: &str, ty: Type) -> String {
    if matches!(ty, Type::F16 | Type::Bf16) { format!("{stem}_{}", ty.name()) } else { stem.to_string() }
}

/// The zero of a type.
pub fn zero(ty: Type) -> Expr {
    match ty {
        Type::Bool => Expr::Bool(false),
        ty if ty.is_float() => Expr::Float(0.0, ty),
        ty => Expr::Int(0, ty),
    }
}

pub fn literal(value: Literal, ty: Type) -> Expr {
    match value {
        Literal::Bool(value) => Expr::Bool(value),
        Literal::Int(value) => Expr::Int(value, ty),
        Literal::Float(value) => Expr::Float(value, ty),
    }
}

pub fn unary(op: UnaryOp, x: Expr, ty: Type) -> Expr {
    match op {
        UnaryOp::Negate if ty.is_float() => Expr::Unary("-", Box::new(x)),
        UnaryOp::Negate => call("wrapping_neg", vec![x]),
        UnaryOp::Not if ty == Type::Bool => Expr::Unary("!", Box::new(x)),
        UnaryOp::Not => Expr::Unary("~", Box::new(x)),
    }
}

/// `plain`: integer arithmetic that can't overflow.
pub fn binary(op: BinaryOp, a: Expr, b: Expr, operand: Type, plain: bool) -> Expr {
    let helper = match op {
        _ if operand.is_float() => match op {
            BinaryOp::Rem if operand == Type::F32 => Some("fmod_f32"),
            BinaryOp::Rem => Some("fmod_f64"),
            _ => None,
        },
        BinaryOp::Add if !plain && operand.is_signed() => Some("wrapping_add"),
        BinaryOp::Sub if !plain && operand.is_signed() => Some("wrapping_sub"),
        BinaryOp::Mul if !plain && operand.is_signed() => Some("wrapping_mul"),
        BinaryOp::Div => Some("divide"),
        BinaryOp::Rem => Some("remainder"),
        BinaryOp::Shl => Some("shift_left"),
        BinaryOp::Shr => Some("shift_right"),
        _ => None,
    };
    match helper {
        Some(helper) => call(helper, vec![a, b]),
        None => a.binary(op.symbol(), b),
    }
}

/// Rust's `as`; to f16 and bf16 with one rounding.
pub fn cast(x: Expr, from: Type, to: Type) -> Expr {
    if from == to {
        return x;
    }
    match (from, to) {
        (Type::F16, Type::Bf16) | (Type::Bf16, Type::F16) => cast(cast(x, from, Type::F32), Type::F32, to),
        (Type::F16 | Type::Bf16, Type::F32) => call(format!("{from}_to_f32"), vec![x]),
        (Type::F16 | Type::Bf16, _) => cast(cast(x, from, Type::F32), Type::F32, to),
        (Type::F32 | Type::F64, Type::F16 | Type::Bf16) => call(format!("{from}_to_{to}"), vec![x]),
        (Type::U64, Type::F16 | Type::Bf16) => call(format!("u64_to_{to}"), vec![x]),
        (_, Type::F16 | Type::Bf16) => call(format!("i64_to_{to}"), vec![x.cast(Type::I64)]),
        (Type::F32 | Type::F64, to) if to.is_integer() => call(format!("saturate_{to}"), vec![x]),
        (_, Type::Bool) => x.binary("!=", zero(from)),
        _ => x.cast(to),
    }
}

//! Typed expressions to plan expressions. What needs statements (a guarded read that can fail, a reduction in place) appends
//! them to the current block, so a side that may not be evaluated gets a block of its own.

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Kernel, Literal, Ranged, Statement, Subscript, VariableId};
use gpukc_dsl::types::{BinaryOp, Builtin, Type, UnaryOp};

use super::context::{Flat, Lowering};
use super::function::library_call;
use super::place::Place;
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::kernel::Site;
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
                Ok(if self.facts.narrow { index.cast(Type::I64) } else { index })
            }
            ExprKind::Scalar(scalar) => Ok(self.scalar(*scalar)),
            ExprKind::Local(_) => Err(Error::Bug("a local outside of a function".into())),
            ExprKind::Read { array, subscripts } => self.read(*array, &subscripts.clone()),
            ExprKind::Reduce(_) => self.reduce_in_place(id),
            ExprKind::Unary(op, x) => {
                let x = self.value(*x)?;
                Ok(unary(*op, x, ty))
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => self.short_circuit(*op, *a, *b),
            ExprKind::Binary(op, ..) => self.chain(*op, id),
            ExprKind::Cast(x) => {
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
    fn chain(&mut self, _op: BinaryOp, id: ExprId) -> Result<Expr, Error> {
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

    /// Whether an `i64` expression is made of index variables, dims and literals only: its values stay far from overflow.
    fn is_index_arithmetic(&self, id: ExprId) -> bool {
        if self.kernel.exprs[id].ty != Type::I64 {
            return false;
        }
        let mut only = true;
        walk::walk(self.kernel, id, &mut |id| {
            let expr = &self.kernel.exprs[id];
            only &= expr.ty == Type::I64
                && match &expr.kind {
                    ExprKind::Literal(Literal::Int(value)) => value.unsigned_abs() < 1 << 31,
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
                // The dividend of a proved subscript is not negative where the divisor is a dim.
                let symbol = op.symbol();
                let a = self.index(*a)?;
                let b = self.index(*b)?;
                Ok(a.binary(symbol, b))
            }
            _ => self.value(id),
        }
    }

    /// Whether an expression is a positive literal, so that dividing by it needs no care.
    fn is_positive(&self, id: ExprId) -> bool {
        matches!(self.kernel.exprs[id].kind, ExprKind::Literal(Literal::Int(value)) if value > 0 && value < 1 << 31)
    }

    fn short_circuit(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> Result<Expr, Error> {
        let a = self.value(a)?;
        let (nodes, b) = self.block(|lowering| lowering.value(b))?;
        if nodes.is_empty() {
            return Ok(a.binary(op.symbol(), b));
        }
        let result = self.variable("holds", Type::Bool, Some(a));
        let condition = if op == BinaryOp::And { result.clone() } else { Expr::Unary("!", Box::new(result.clone())) };
        let then = nodes.into_iter().chain([Node::Assign(result.clone(), b)]).collect();
        self.push(Node::If { condition, then, otherwise: Vec::new() });
        Ok(result)
    }

    fn choose(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId, ty: Type) -> Result<Expr, Error> {
        let condition = self.value(condition)?;
        let (mut then_nodes, a) = self.block(|lowering| lowering.value(then))?;
        let (mut otherwise_nodes, b) = self.block(|lowering| lowering.value(otherwise))?;
        if then_nodes.is_empty() && otherwise_nodes.is_empty() {
            return Ok(condition.choose(a, b));
        }
        let result = self.variable("chosen", ty, None);
        then_nodes.push(Node::Assign(result.clone(), a));
        otherwise_nodes.push(Node::Assign(result.clone(), b));
        self.push(Node::If { condition, then: then_nodes, otherwise: otherwise_nodes });
        Ok(result)
    }

    /// Computes the costly subexpressions of `value` that mention none of `variables` now, and names them, so that the loop over
    /// those variables that follows does not compute them again.
    pub fn hoist(&mut self, value: ExprId, variables: &[VariableId], wish: &str) -> Result<(), Error> {
        let mut stack = vec![value];
        while let Some(id) = stack.pop() {
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
            if costly && !walk::can_fail(self.kernel, id) && !self.computed.contains_key(&id) {
                let value = self.value(id)?;
                let named = matches!(value, Expr::Name(_) | Expr::Int(..) | Expr::Float(..));
                let value = if named { value } else { self.local(wish, self.kernel.exprs[id].ty, value) };
                self.computed.insert(id, value);
            }
        }
        Ok(())
    }

    // ---- reads

    fn read(&mut self, array: ArrayId, subscripts: &[Subscript]) -> Result<Expr, Error> {
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
        self.guard(array, subscripts, conditions, element)
    }

    /// A `let` that is computed where it is read: its value with the subscripts for its variables.
    fn inline(&mut self, array: ArrayId, statement: usize, subscripts: &[Subscript]) -> Result<Expr, Error> {
        let statement = &self.kernel.statements[statement];
        if let Some(flat) = self.flat.clone() {
            if super::map::is_identity(self.kernel, subscripts, &flat.variables) {
                return self.inline_along(array, statement, flat);
            }
        }
        let mut indices = Vec::new();
        for subscript in subscripts {
            indices.push(self.index(subscript.index)?);
        }
        let key = format!("{array:?}{indices:?}");
        if let Some(value) = self.recall(&key) {
            return Ok(value);
        }
        // The left side's subscripts are its variables, each once, in any order of the dims.
        let mut saved = Vec::new();
        for (target, index) in statement.subscripts.iter().zip(indices) {
            let ExprKind::Variable(variable) = self.kernel.exprs[target.index].kind else {
                return Err(Error::Bug("an inlined `let` has a left side that is not plain".into()));
            };
            saved.push((variable, self.variables.insert(variable, index)));
        }
        // What is known of expressions here holds at the current position only.
        let (computed, flat) = (std::mem::take(&mut self.computed), self.flat.take());
        let value = self.value(statement.value);
        (self.computed, self.flat) = (computed, flat);
        for (variable, before) in saved {
            match before {
                Some(index) => self.variables.insert(variable, index),
                None => self.variables.remove(&variable),
            };
        }
        Ok(self.keep(array, key, value?))
    }

    /// The same at the current position of [`Lowering::flat`].
    fn inline_along(&mut self, array: ArrayId, statement: &Statement, flat: Flat) -> Result<Expr, Error> {
        let key = format!("{array:?} at {:?}", flat.position);
        if let Some(value) = self.recall(&key) {
            return Ok(value);
        }
        for (outer, own) in flat.variables.iter().zip(&statement.variables) {
            if let Some(index) = self.variables.get(&outer.variable).cloned() {
                self.variables.insert(own.variable, index);
            }
        }
        let position = flat.position.clone();
        self.flat = Some(Flat { variables: statement.variables.clone(), position });
        let value = self.value(statement.value);
        self.flat = Some(flat);
        Ok(self.keep(array, key, value?))
    }

    /// Names the value of an inlined `let`, so that its other uses in this block share it.
    fn keep(&mut self, array: ArrayId, key: String, value: Expr) -> Expr {
        let array = &self.kernel.arrays[array];
        let value = match value {
            Expr::Name(_) | Expr::Int(..) | Expr::Float(..) | Expr::Bool(_) => value,
            value => self.local(&array.name.replace('.', "_"), array.element, value),
        };
        self.remember(key, value.clone());
        value
    }

    /// The offset of a read in terms of [`Lowering::flat`], if its variables run together in it.
    pub fn flat_place(&mut self, array: ArrayId, subscripts: &[Subscript]) -> Result<Option<Expr>, Error> {
        let Some(flat) = self.flat.clone() else { return Ok(None) };
        let Some(access) = access(self.kernel, self.facts, array, subscripts) else { return Ok(None) };
        match flat_coefficient(self.kernel, self.facts, &access, &flat.variables) {
            Some(step) if step != Formula::Constant(0) => {
                let mut offset = None;
                for (variable, coefficient) in &access.terms {
                    if flat.variables.iter().any(|v| v.variable == *variable) {
                        continue;
                    }
                    let Some(index) = self.variables.get(variable).cloned() else { return Ok(None) };
                    let term = index * self.size(coefficient, "stride");
                    offset = Some(match offset {
                        Some(sum) => sum + term,
                        None => term,
                    });
                }
                let position = flat.position * self.size(&step, "stride");
                let offset = offset.map_or(position.clone(), |sum: Expr| sum + position);
                Ok(Some(offset + self.size(&access.constant, "offset")))
            }
            _ => Ok(None),
        }
    }

    /// Indices after boundary rules, and the conditions under which the element may be touched.
    pub fn guarded_indices(&mut self, array: ArrayId, subscripts: &[Subscript]) -> Result<(Vec<Expr>, Vec<Expr>), Error> {
        let mut indices = Vec::new();
        let mut conditions = Vec::new();
        for (axis, subscript) in subscripts.iter().enumerate() {
            let index = self.index(subscript.index)?;
            let rule = match subscript.bounds {
                Bounds::Proved | Bounds::Assumed => {
                    indices.push(index);
                    continue;
                }
                Bounds::Clamp => Some("clamp_index"),
                Bounds::Wrap => Some("wrap_index"),
                Bounds::Mirror => Some("mirror_index"),
                Bounds::Symmetric => Some("symmetric_index"),
                Bounds::Checked | Bounds::Constant(_) | Bounds::Drop => None,
            };
            let extent = self.array_extent(array, axis)?;
            let extent = if self.facts.narrow && extent.constant().is_none() { extent.cast(Type::I64) } else { extent };
            let mut index = self.named_index(index);
            if let Some(rule) = rule {
                // Both of one type: an offset may leave 31 bits before the rule brings it back.
                index = call(rule, vec![index.cast(Type::I64), extent.clone().cast(Type::I64)]);
            }
            let inside = match subscript.bounds {
                Bounds::Constant(_) | Bounds::Drop => {
                    Some(int(0).binary("<=", index.clone()).and(index.clone().less(extent)))
                }
                Bounds::Checked => Some(self.check(array, axis, subscript, index.clone(), extent)),
                // Only an empty array can be left through a rule.
                _ if extent.constant().is_some_and(|n| n > 0) => None,
                _ => {
                    index = self.named_index(index);
                    Some(self.check(array, axis, subscript, index.clone(), extent))
                }
            };
            conditions.extend(inside);
            indices.push(index);
        }
        Ok((indices, conditions))
    }

    fn check(&mut self, array: ArrayId, axis: usize, subscript: &Subscript, index: Expr, extent: Expr) -> Expr {
        let site = Site {
            array: self.kernel.arrays[array].name.clone(),
            axis,
            span: self.kernel.exprs[subscript.index].span,
        };
        let site = self.site(site);
        let report = self.report();
        call("index_ok", vec![index, extent, site, report])
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

    fn guard(&mut self, array: ArrayId, subscripts: &[Subscript], conditions: Vec<Expr>, element: Expr) -> Result<Expr, Error> {
        let Some(inside) = conditions.into_iter().reduce(Expr::and) else { return Ok(element) };
        let ty = self.kernel.arrays[array].element;
        let outside = subscripts.iter().find_map(|s| if let Bounds::Constant(value) = s.bounds { Some(value) } else { None });
        let outside = match outside {
            Some(value) => self.value(value)?,
            None => zero(ty),
        };
        let can_fail = subscripts.iter().any(|s| !matches!(s.bounds, Bounds::Proved | Bounds::Assumed | Bounds::Constant(_)));
        if !can_fail {
            return Ok(inside.choose(element, outside));
        }
        let wish = format!("{}_at", self.kernel.arrays[array].name.replace('.', "_"));
        let result = self.variable(&wish, ty, Some(outside));
        self.push(Node::If { condition: inside, then: vec![Node::Assign(result.clone(), element)], otherwise: Vec::new() });
        Ok(result)
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

/// The row-major offset as a linear form, if every subscript is linear and stays in range by itself.
pub fn access(kernel: &Kernel, facts: &Facts, array: ArrayId, subscripts: &[Subscript]) -> Option<size::Linear> {
    let shape = &kernel.arrays[array].shape;
    let mut offset: Option<size::Linear> = None;
    for (subscript, extent) in subscripts.iter().zip(shape) {
        if !matches!(subscript.bounds, Bounds::Proved | Bounds::Assumed) {
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

/// The step from one position of `variables` (slowest first) to the next in an access; `None` if they don't run together.
pub fn flat_coefficient(kernel: &Kernel, facts: &Facts, access: &size::Linear, variables: &[Ranged]) -> Option<Formula> {
    let (last, slower) = variables.split_last()?;
    let step = access.coefficient(last.variable);
    let mut extent = size::extent(kernel, facts, last)?;
    for range in slower.iter().rev() {
        let found = access.coefficient(range.variable);
        if found != extent.clone().times(step.clone()) && found != step.clone().times(extent.clone()) {
            return None;
        }
        extent = size::extent(kernel, facts, range)?.times(extent);
    }
    Some(step)
}

//! Calls of built-in functions and of the file's own.

use super::infer::{Kind, Ty};
use super::lower::{Lower, Place};
use crate::ast;
use crate::diagnostic::{Diagnostic, codes};
use crate::program::{ExprId, ExprKind};
use crate::source::Span;
use crate::types::{Builtin, Type};

/// How a built-in function types its arguments.
enum Class {
    /// Floats; the result is one.
    Float(usize),
    /// Floats; the result is a bool.
    Test,
    /// Numbers, widened.
    Number(usize),
    /// Numbers, of which one is chosen.
    Choice(usize),
    /// Integers, not widened.
    Bits,
    /// Integers, widened.
    Integer(usize),
}

fn class(builtin: Builtin) -> Class {
    use Builtin::*;
    match builtin {
        Abs | Sign => Class::Number(1),
        Min | Max => Class::Choice(2),
        Clamp => Class::Choice(3),
        Pow | Atan2 | Hypot | Copysign => Class::Float(2),
        MulAdd => Class::Float(3),
        IsNan | IsInf | IsFinite => Class::Test,
        CountOnes | LeadingZeros => Class::Bits,
        DivFloor | ModFloor | MulHigh | WrappingAdd | WrappingSub | WrappingMul => Class::Integer(2),
        F32FromBits | F64FromBits => Class::Integer(1),
        _ => Class::Float(1),
    }
}

impl Class {
    fn count(&self) -> usize {
        match *self {
            Class::Float(count) | Class::Number(count) | Class::Choice(count) | Class::Integer(count) => count,
            Class::Test | Class::Bits => 1,
        }
    }
}

impl<'c> Lower<'c> {
    pub(crate) fn call(&mut self, function: &ast::Name, arguments: &[ast::Expr], span: Span) -> ExprId {
        if let Some(&index) = self.items.function_names.get(&function.text) {
            return self.call_function(index, function, arguments, span);
        }
        match Builtin::from_name(&function.text).filter(|builtin| self.items.library || !builtin.is_internal()) {
            Some(builtin) => self.call_builtin(builtin, arguments, span),
            None => {
                self.unknown_function(function, arguments, span);
                self.poison(span)
            }
        }
    }

    fn count_arguments(&mut self, name: &str, wanted: usize, given: usize, span: Span) -> bool {
        if wanted != given {
            let plural = if wanted == 1 { "" } else { "s" };
            let message = format!("`{name}` takes {wanted} argument{plural}, and this gives {given}");
            let mut problem = Diagnostic::error(codes::ARGUMENT_COUNT, span, message, format!("{given} given"));
            if given == 1 && matches!(name, "min" | "max") {
                problem = problem.help(format!("the {name} of many values is a reduction: `{name}[i] x[i]`"));
            }
            self.report(problem);
        }
        wanted == given
    }

    fn call_function(&mut self, index: usize, function: &ast::Name, arguments: &[ast::Expr], span: Span) -> ExprId {
        let Some(signature) = self.items.functions.get(index) else { return self.not_called(function, span) };
        let (parameters, result, id) = (&signature.parameters, signature.result, signature.id);
        let terms = std::mem::take(&mut self.f64_terms);
        let given: Vec<ExprId> = arguments.iter().map(|argument| self.expr(argument)).collect();
        self.f64_terms = terms;
        let (Some(parameters), Some(result), Some(id)) = (parameters, result, id) else { return self.poison(span) };
        if !self.count_arguments(&function.text, parameters.len(), arguments.len(), span) {
            return self.poison(span);
        }
        let stored: Vec<Option<ExprId>> =
            given.iter().zip(parameters).map(|(&id, (name, ty))| self.store(id, *ty, &format!("parameter `{name}`"))).collect();
        let Some(stored) = stored.into_iter().collect::<Option<Vec<_>>>() else { return self.poison(span) };
        if self.place == Place::Header {
            let items = self.items;
            let checked = items.functions.get(index).and_then(|item| item.checked.as_ref());
            return match checked.and_then(|checked| self.function_at_call(checked, &stored)) {
                Some(value) => self.float_leaf(value),
                None => self.not_called(function, span),
            };
        }
        let call = self.push(ExprKind::Call(id, stored), Ty::Known(result), span);
        self.float_leaf(call)
    }

    /// A function of the program where only what is known at the call will do.
    fn not_called(&mut self, function: &ast::Name, span: Span) -> ExprId {
        let message = format!("`{}` can't be called here", function.text);
        let help = "constants call built-in functions alone; dims and conditions also a `fn` without loops and `if` statements";
        self.report(Diagnostic::error(codes::NOT_CONSTANT, function.span, message, "a `fn`").help(help));
        self.poison(span)
    }

    fn call_builtin(&mut self, builtin: Builtin, arguments: &[ast::Expr], span: Span) -> ExprId {
        let class = class(builtin);
        if !self.count_arguments(builtin.name(), class.count(), arguments.len(), span) {
            return self.poison(span);
        }
        let ids: Vec<ExprId> = arguments.iter().map(|argument| self.expr(argument)).collect();
        if ids.iter().any(|&id| self.ty(id) == Ty::Poison) {
            return self.poison(span);
        }
        let keeps = matches!(class, Class::Choice(_) | Class::Bits);
        let Some((ids, ty)) = self.arguments(&ids, keeps, span) else { return self.poison(span) };
        let ty = self.bits_type(builtin, ty);
        let fits = match (&class, ty) {
            (Class::Float(_) | Class::Test, Ty::Open(open)) => self.infer.restrict(open, Kind::Float).is_ok(),
            (Class::Bits | Class::Integer(_), Ty::Open(open)) => self.infer.restrict(open, Kind::Integer).is_ok(),
            (Class::Float(_) | Class::Test, Ty::Known(_)) if builtin == Builtin::ToBits => true,
            (Class::Float(_) | Class::Test, Ty::Known(ty)) => ty.is_float(),
            (Class::Integer(1), Ty::Known(ty)) => ty == if builtin == Builtin::F64FromBits { Type::I64 } else { Type::I32 },
            (Class::Bits | Class::Integer(_), Ty::Known(ty)) => ty.is_integer(),
            (_, Ty::Known(ty)) => ty != Type::Bool,
            _ => true,
        };
        if !fits {
            return self.unfit_arguments(builtin, &class, &ids, ty, span);
        }
        let result = match builtin {
            Builtin::ToBits => match self.decide(ids[0]) {
                Some(Type::F64) => Ty::Known(Type::I64),
                _ => Ty::Known(Type::I32),
            },
            Builtin::F32FromBits => Ty::Known(Type::F32),
            Builtin::F64FromBits => Ty::Known(Type::F64),
            _ if matches!(class, Class::Test) => Ty::Known(Type::Bool),
            _ => ty,
        };
        self.push(ExprKind::Builtin(builtin, ids), result, span)
    }

    /// An open argument of `f32_from_bits` is an i32, of `f64_from_bits` an i64.
    fn bits_type(&mut self, builtin: Builtin, ty: Ty) -> Ty {
        let wanted = match builtin {
            Builtin::F32FromBits => Type::I32,
            Builtin::F64FromBits => Type::I64,
            _ => return ty,
        };
        match ty {
            Ty::Open(open) => self.infer.bind(open, wanted).map_or(ty, Ty::Known),
            other => other,
        }
    }

    /// Brings arguments to one type, widened unless it is only chosen among them.
    fn arguments(&mut self, ids: &[ExprId], keeps: bool, span: Span) -> Option<(Vec<ExprId>, Ty)> {
        if keeps {
            return self.select(ids, span);
        }
        let mut widened = Vec::new();
        for &id in ids {
            match self.ty(id) {
                Ty::Known(ty) => widened.push(self.cast(id, ty.widened())),
                Ty::Open(open) => {
                    self.infer.computes(open);
                    widened.push(id);
                }
                Ty::Poison => return None,
            }
        }
        self.select(&widened, span)
    }

    fn unfit_arguments(&mut self, builtin: Builtin, class: &Class, ids: &[ExprId], ty: Ty, span: Span) -> ExprId {
        let needs = match class {
            Class::Float(_) | Class::Test => "floats",
            Class::Bits | Class::Integer(_) => "integers",
            _ => "numbers",
        };
        let name = match ty {
            Ty::Known(ty) => ty.name(),
            _ => "a float",
        };
        let message = format!("`{builtin}` is defined for {needs}, not for {name}");
        let mut problem = Diagnostic::error(codes::NOT_DEFINED_FOR, span, message, name);
        if let (Class::Float(_), Ty::Known(ty), Some(&first)) = (class, ty, ids.first()) {
            if ty.is_integer() {
                let cast = self.cast_text(self.span(first), Type::F32);
                let plain = cast.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&cast);
                problem = problem.suggest("cast it", self.span(first), plain);
            }
        }
        self.report(problem);
        self.poison(span)
    }
}

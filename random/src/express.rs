//! Expressions of a wanted type, over the variables in scope.

use gpukc_dsl::types::Type;

use crate::generate::{Extent, Making, Values, Variable};
use crate::tree::{self, Expr, Node, Reduce, Subscript};

const UNARY: [&str; 24] = [
    "abs",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "round",
    "round_ties_even",
    "sqrt",
    "rsqrt",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sin",
    "cos",
    "atan",
    "tanh",
    "erf",
    "sinh",
    "acos",
    "erfc",
];

impl Making {
    /// A literal.
    pub(crate) fn literal(&mut self, ty: Type) -> Expr {
        let text = match ty {
            Type::Bool => (if self.rng.one_in(2) { "true" } else { "false" }).to_owned(),
            ty if ty.is_float() => {
                let text = *self.rng.pick(&["0.5", "1.0", "2.0", "-1.0", "0.0", "-0.0", "3.0", "0.25", "1e-3", "7.0", "0.1", "1e4"]);
                let plain = ty == Type::F32 && self.rng.one_in(2);
                if plain { text.to_owned() } else { format!("{text}{ty}") }
            }
            ty => {
                let value = if ty.is_signed() { self.rng.between(-7, 9) } else { self.rng.between(0, 9) };
                if ty == Type::I64 && self.rng.one_in(2) { value.to_string() } else { format!("{value}{ty}") }
            }
        };
        Expr::atom(ty, text)
    }

    /// An expression of a type.
    pub(crate) fn expr(&mut self, want: Type, scope: &[Variable], depth: usize) -> Expr {
        if depth == 0 || self.rng.one_in(5) {
            return self.leaf(want, scope);
        }
        match want {
            Type::Bool => self.truth(scope, depth - 1),
            Type::F32 | Type::F64 => self.float(want, scope, depth - 1),
            ty if ty.is_storage() => self.storage(ty, scope, depth - 1),
            ty => self.integer(ty, scope, depth - 1),
        }
    }

    fn leaf(&mut self, want: Type, scope: &[Variable]) -> Expr {
        match self.rng.below(10) {
            0 => self.literal(want),
            1 => self.scalar(want),
            2 if want == Type::I64 && !scope.is_empty() => Expr::atom(Type::I64, self.rng.pick(scope).name.clone()),
            3 if want == Type::F32 => {
                let ty = *self.rng.pick(&[Type::F16, Type::Bf16, Type::U8, Type::I32]);
                self.read(ty, scope).cast(want)
            }
            4 if want == Type::I32 => {
                let ty = *self.rng.pick(&[Type::I8, Type::U16, Type::U8, Type::I16]);
                self.read(ty, scope).cast(want)
            }
            _ => self.read(want, scope),
        }
    }

    fn pair(&mut self, want: Type, scope: &[Variable], depth: usize) -> (Expr, Expr) {
        let a = self.expr(want, scope, depth);
        (a, self.expr(want, scope, depth))
    }

    fn float(&mut self, want: Type, scope: &[Variable], depth: usize) -> Expr {
        match self.rng.below(24) {
            0..=7 => {
                let op = *self.rng.pick(&["+", "-", "*", "*", "+", "/", "%"]);
                let (a, b) = self.pair(want, scope, depth);
                Expr::binary(want, op, a, b)
            }
            8 => Expr { ty: want, node: Node::Unary("-", Box::new(self.expr(want, scope, depth))) },
            9 | 10 => {
                let name = *self.rng.pick(&UNARY);
                Expr::call(want, name, vec![self.expr(want, scope, depth)])
            }
            11 => {
                let name = *self.rng.pick(&["min", "max", "atan2", "hypot", "pow", "min", "max"]);
                let (a, b) = self.pair(want, scope, depth);
                Expr::call(want, name, vec![a, b])
            }
            12 => {
                // The sign of a NaN is nobody's business.
                let sign = self.expr(Type::I32, scope, depth.min(1)).cast(want);
                Expr::call(want, "copysign", vec![self.expr(want, scope, depth), sign])
            }
            13 => {
                let (a, b) = self.pair(want, scope, depth);
                let c = self.leaf(want, scope);
                Expr::call(want, *self.rng.pick(&["mul_add", "clamp"]), vec![a, b, c])
            }
            14 | 15 => self.choice(want, scope, depth),
            16 => {
                let from = *self.rng.pick(&[Type::I32, Type::I64, Type::U64, Type::U32, Type::F64, Type::F16, Type::Bf16, Type::F32]);
                self.expr(from, scope, depth).cast(want)
            }
            17 => self.function_call(want, scope, depth),
            _ => self.reduction(want, scope, depth),
        }
    }

    fn integer(&mut self, want: Type, scope: &[Variable], depth: usize) -> Expr {
        match self.rng.below(20) {
            0..=6 => {
                let op = *self.rng.pick(&["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]);
                let (a, b) = self.pair(want, scope, depth);
                Expr::binary(want, op, a, b)
            }
            7 => Expr { ty: want, node: Node::Unary("!", Box::new(self.expr(want, scope, depth))) },
            8 | 9 => {
                let name = *self.rng.pick(&["min", "max", "div_floor", "mod_floor"]);
                let (a, b) = self.pair(want, scope, depth);
                Expr::call(want, name, vec![a, b])
            }
            10 => {
                let name = if want.is_signed() { *self.rng.pick(&["abs", "sign", "count_ones"]) } else { "count_ones" };
                Expr::call(want, name, vec![self.expr(want, scope, depth)])
            }
            11 | 12 => self.choice(want, scope, depth),
            13 | 14 => {
                let from = *self.rng.pick(&Type::ALL);
                self.expr(from, scope, depth).cast(want)
            }
            15 => self.function_call(want, scope, depth),
            _ => self.reduction(want, scope, depth),
        }
    }

    fn storage(&mut self, want: Type, scope: &[Variable], depth: usize) -> Expr {
        match self.rng.below(8) {
            0 => {
                let (a, b) = (self.read(want, scope), self.leaf(want, scope));
                Expr::call(want, *self.rng.pick(&["min", "max"]), vec![a, b])
            }
            1 => self.choice(want, scope, depth),
            2 => self.reduction(want, scope, depth),
            3 => {
                let from = *self.rng.pick(&Type::ALL);
                let from = if from == Type::Bool && want.is_float() { Type::I32 } else { from };
                self.expr(from, scope, depth).cast(want)
            }
            _ => self.expr(want.widened(), scope, depth).cast(want),
        }
    }

    fn truth(&mut self, scope: &[Variable], depth: usize) -> Expr {
        match self.rng.below(10) {
            0..=4 => {
                let ty = self.some_type();
                let ty = if ty == Type::Bool { Type::I64 } else { ty.widened() };
                let op = *self.rng.pick(&["<", "<=", ">", ">=", "==", "!="]);
                let (a, b) = self.pair(ty, scope, depth.min(1));
                Expr::binary(Type::Bool, op, a, b)
            }
            5 | 6 => {
                let op = *self.rng.pick(&["&&", "||", "^", "&", "|", "=="]);
                let (a, b) = self.pair(Type::Bool, scope, depth);
                Expr::binary(Type::Bool, op, a, b)
            }
            7 => Expr { ty: Type::Bool, node: Node::Unary("!", Box::new(self.expr(Type::Bool, scope, depth))) },
            8 => {
                let name = *self.rng.pick(&["is_nan", "is_inf", "is_finite"]);
                Expr::call(Type::Bool, name, vec![self.expr(Type::F32, scope, depth)])
            }
            _ => self.reduction(Type::Bool, scope, depth),
        }
    }

    fn choice(&mut self, want: Type, scope: &[Variable], depth: usize) -> Expr {
        let condition = self.expr(Type::Bool, scope, depth.min(2));
        let (a, b) = self.pair(want, scope, depth);
        Expr::choice(condition, a, b)
    }

    fn function_call(&mut self, want: Type, scope: &[Variable], depth: usize) -> Expr {
        let fits: Vec<_> = self.functions.iter().filter(|f| f.result == want).cloned().collect();
        if fits.is_empty() {
            return self.leaf(want, scope);
        }
        let function = self.rng.pick(&fits).clone();
        let arguments = function.parameters.iter().map(|ty| self.expr(*ty, scope, depth.min(1))).collect();
        Expr::call(want, function.name, arguments)
    }

    /// A read of an element of this type, by a new array or one that is there.
    pub(crate) fn read(&mut self, ty: Type, scope: &[Variable]) -> Expr {
        let there: Vec<_> = self.arrays.iter().filter(|a| a.ty == ty && a.indexes.is_none() && a.shape.len() <= 4).cloned().collect();
        if !there.is_empty() && self.rng.below(4) > 0 {
            // What stands last is read with preference: intermediates.
            let at = there.len() - 1 - self.rng.below(there.len()).min(self.rng.below(there.len()));
            let array = there[at].clone();
            let subscripts = array.shape.iter().map(|extent| self.subscript(extent, scope, ty)).collect();
            return Expr { ty, node: Node::Read(array.name, subscripts) };
        }
        if self.kernel.parameters.len() > 14 {
            return self.literal(ty);
        }
        // A parameter that some of the variables subscript, the last ones with preference.
        let mut over: Vec<Variable> = Vec::new();
        for (at, variable) in scope.iter().enumerate() {
            let last = at + 1 == scope.len();
            if matches!(variable.values, Values::All(_) | Values::Some(_)) && over.len() < 4 && (last || self.rng.below(3) > 0) {
                over.push(variable.clone());
            }
        }
        if over.len() > 1 && self.rng.one_in(5) {
            let at = self.rng.below(over.len() - 1);
            over.swap(at, at + 1);
        }
        let extent = |v: &Variable| match &v.values {
            Values::All(extent) | Values::Some(extent) => extent.clone(),
            Values::Any => Extent::Literal(1),
        };
        let shape: Vec<Extent> = over.iter().map(extent).collect();
        if shape.is_empty() {
            return if scope.is_empty() { self.scalar(ty) } else { self.outside(ty, scope) };
        }
        let name = self.parameter(ty, &shape);
        let plain = |v: &Variable| Subscript { index: Expr::atom(Type::I64, v.name.clone()), rule: None };
        Expr { ty, node: Node::Read(name, over.iter().map(plain).collect()) }
    }

    /// A read by a variable that may be anything.
    fn outside(&mut self, ty: Type, scope: &[Variable]) -> Expr {
        let extent = self.some_extent();
        let name = self.parameter(ty, std::slice::from_ref(&extent));
        let subscript = self.subscript(&extent, scope, ty);
        Expr { ty, node: Node::Read(name, vec![subscript]) }
    }

    /// What follows after `|` so that a subscript may be anything.
    pub(crate) fn rule(&mut self, extent: &Extent, ty: Type) -> Expr {
        let safe = self.is_positive(extent);
        match self.rng.below(if safe { 5 } else { 1 }) {
            0 => {
                let mut value = self.literal(ty);
                if let Node::Atom(text) = &mut value.node {
                    // The type is the array's.
                    *text = text.trim_end_matches(ty.name()).to_owned();
                }
                value
            }
            1 => Expr::atom(ty, "clamp"),
            2 => Expr::atom(ty, "wrap"),
            3 => Expr::atom(ty, "mirror"),
            _ => Expr::atom(ty, "symmetric"),
        }
    }

    /// A subscript for a dimension of this extent.
    pub(crate) fn subscript(&mut self, extent: &Extent, scope: &[Variable], ty: Type) -> Subscript {
        let inside = |v: &&Variable| matches!(&v.values, Values::All(e) | Values::Some(e) if e == extent);
        let inside: Vec<Variable> = scope.iter().filter(inside).cloned().collect();
        if !inside.is_empty() && self.rng.below(8) > 0 {
            let at = inside.len() - 1 - self.rng.below(inside.len()).min(self.rng.below(2));
            return Subscript { index: Expr::atom(Type::I64, inside[at].name.clone()), rule: None };
        }
        if let Extent::Plus(dim, more) = extent {
            if let Some(v) = scope.iter().find(|v| v.values == Values::All(Extent::Dim(*dim))) {
                let index =
                    Expr::binary(Type::I64, "+", Expr::atom(Type::I64, v.name.clone()), Expr::atom(Type::I64, more.to_string()));
                return Subscript { index, rule: None };
            }
        }
        if let Extent::Times(a, b) = extent {
            let of = |dim: usize| scope.iter().find(|v| v.values == Values::All(Extent::Dim(dim)));
            if let (Some(i), Some(j)) = (of(*a), of(*b)) {
                let (i, j) = (i.name.clone(), j.name.clone());
                let row = Expr::binary(Type::I64, "*", Expr::atom(Type::I64, i), Expr::atom(Type::I64, self.dims[*b].name.clone()));
                return Subscript { index: Expr::binary(Type::I64, "+", row, Expr::atom(Type::I64, j)), rule: None };
            }
        }
        if let (Some(v), 0) = (inside.first(), self.rng.below(3)) {
            // From the other end.
            let end = Expr::binary(Type::I64, "-", Expr::atom(Type::I64, self.text(extent)), Expr::atom(Type::I64, "1"));
            if !matches!(extent, Extent::Plus(..) | Extent::Times(..)) {
                return Subscript { index: Expr::binary(Type::I64, "-", end, Expr::atom(Type::I64, v.name.clone())), rule: None };
            }
        }
        let all: Vec<Variable> = scope.iter().filter(|v| matches!(&v.values, Values::All(_))).cloned().collect();
        if !all.is_empty() && self.rng.one_in(3) {
            return self.gathered(extent, &all, ty);
        }
        let rule = Some(self.rule(extent, ty));
        let index = match scope.len() {
            0 => Expr::atom(Type::I64, self.rng.below(3).to_string()),
            _ => {
                let v = Expr::atom(Type::I64, self.rng.pick(scope).name.clone());
                let by = Expr::atom(Type::I64, self.rng.between(1, 3).to_string());
                let op = *self.rng.pick(&["+", "-", "*", "/"]);
                Expr::binary(Type::I64, op, v, by)
            }
        };
        Subscript { index, rule }
    }

    /// A subscript that is an element of an array.
    pub(crate) fn gathered(&mut self, extent: &Extent, over: &[Variable], ty: Type) -> Subscript {
        let v = self.rng.pick(over).clone();
        let Values::All(of) = &v.values else {
            let rule = Some(self.rule(extent, ty));
            return Subscript { index: Expr::atom(Type::I64, v.name), rule };
        };
        let of = of.clone();
        let element = *self.rng.pick(&[Type::I32, Type::I32, Type::I64, Type::U32, Type::U64, Type::U16]);
        let name = self.index_parameter(element, &[of], extent);
        let own = Subscript { index: Expr::atom(Type::I64, v.name), rule: None };
        let index = Expr { ty: element, node: Node::Read(name, vec![own]) };
        let rule = match self.rng.below(3) {
            0 => None,
            1 if self.is_positive(extent) => Some(Expr::atom(ty, "assume")),
            _ => Some(self.rule(extent, ty)),
        };
        Subscript { index, rule }
    }

    /// A reduction that gives a type.
    pub(crate) fn reduction(&mut self, want: Type, scope: &[Variable], depth: usize) -> Expr {
        let (reducer, body): (&'static str, Type) = match want {
            Type::F32 | Type::F64 => (*self.rng.pick(&["sum", "sum", "sum", "sum", "max", "min", "mean", "prod"]), want),
            Type::I64 => match self.rng.below(6) {
                0 => ("count", Type::Bool),
                1 => (*self.rng.pick(&["argmin", "argmax"]), self.some_comparable()),
                2 => ("max", want),
                3 => ("min", want),
                _ => ("sum", *self.rng.pick(&[Type::I64, Type::I32, Type::I8, Type::U8, Type::Bool])),
            },
            Type::U64 => (*self.rng.pick(&["sum", "prod", "max"]), *self.rng.pick(&[Type::U64, Type::U64])),
            Type::Bool => (*self.rng.pick(&["any", "all"]), Type::Bool),
            other => (*self.rng.pick(&["min", "max"]), other),
        };
        let mut inner = scope.to_vec();
        let mut variables = Vec::new();
        let count = if reducer.starts_with("arg") || self.rng.below(4) > 0 { 1 } else { 2 };
        for _ in 0..count {
            let (variable, range) = self.ranged(&inner);
            inner.push(variable.clone());
            variables.push((variable, range));
        }
        let body = if reducer == "sum" && matches!(body, Type::F32 | Type::F64) && self.rng.below(5) > 1 {
            let a = self.read(body, &inner);
            let b = self.expr(body, &inner, depth.min(1));
            Expr::binary(body, "*", a, b)
        } else if reducer == "sum" && body.is_storage() {
            self.read(body, &inner)
        } else {
            self.expr(body, &inner, depth.min(2))
        };
        let filter = self.rng.one_in(6).then(|| self.expr(Type::Bool, &inner, 1));
        let variable = |(variable, range): (Variable, Option<(String, String)>)| {
            let plain = matches!(variable.values, Values::All(_)) && self.is_implied(&body, &variable.name);
            tree::Variable { range: range.filter(|_| !plain), name: variable.name }
        };
        let variables = variables.into_iter().map(variable).collect();
        Expr { ty: want, node: Node::Reduce(Box::new(Reduce { reducer, variables, filter, body })) }
    }

    fn some_comparable(&mut self) -> Type {
        let ty = self.some_type();
        if ty == Type::Bool { Type::F32 } else { ty }
    }

    /// Whether a variable's range may be left to its subscripts: neighbours in an array of one more element state another.
    pub(crate) fn is_implied(&self, value: &Expr, name: &str) -> bool {
        value.subscripts_alone(name) && !value.to_string().contains(&format!("[{name} + 1]"))
    }

    /// A reduced variable and its range.
    fn ranged(&mut self, scope: &[Variable]) -> (Variable, Option<(String, String)>) {
        let name = self.fresh("r");
        let of = scope.iter().rev().find_map(|v| match &v.values {
            Values::All(extent) => Some((v.name.clone(), extent.clone())),
            _ => None,
        });
        let (values, range) = match (self.rng.below(16), of) {
            (0, Some((v, extent))) => (Values::Some(extent), ("0".to_owned(), if self.rng.one_in(2) { v } else { format!("={v}") })),
            (1, Some((v, extent))) => {
                let end = self.text(&extent);
                (Values::Some(extent), (v, end))
            }
            (2, Some((v, _))) => (Values::Any, (format!("{v} - 1"), format!("={v} + 2"))),
            (3, _) => (Values::Any, ("-1".to_owned(), "=1".to_owned())),
            (4, Some((v, Extent::Dim(dim)))) => {
                let below = self.some_extent();
                let starts = self.index_parameter(Type::I32, &[Extent::Plus(dim, 1)], &below);
                (Values::Some(below), (format!("{starts}[{v}]"), format!("{starts}[{v} + 1]")))
            }
            _ => {
                let extent = self.some_extent();
                self.use_dims(std::slice::from_ref(&extent));
                let end = self.text(&extent);
                (Values::All(extent), ("0".to_owned(), end))
            }
        };
        (Variable { name, values }, Some(range))
    }
}

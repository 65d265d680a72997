//! Statements of the kinds that programs are made of, each of which some schedule is meant for.

use gpukc_dsl::types::Type;

use crate::generate::{Extent, Making, Values, Variable};
use crate::tree::{self, Expr, Form, Node, Reduce, Subscript};

/// A variable as an index.
pub(crate) fn index(name: &str) -> Subscript {
    Subscript { index: Expr::atom(Type::I64, name), rule: None }
}

pub(crate) fn read(name: &str, ty: Type, by: &[&str]) -> Expr {
    Expr { ty, node: Node::Read(name.to_owned(), by.iter().map(|v| index(v)).collect()) }
}

pub(crate) fn reduce(ty: Type, reducer: &'static str, over: &[&str], filter: Option<Expr>, body: Expr) -> Expr {
    let variables = over.iter().map(|name| tree::Variable { name: (*name).to_owned(), range: None }).collect();
    Expr { ty, node: Node::Reduce(Box::new(Reduce { reducer, variables, filter, body })) }
}

impl Making {
    /// One or a few statements.
    pub(crate) fn recipe(&mut self, must_define: bool) {
        match self.rng.below(25) {
            0..=3 => self.map(must_define),
            4..=6 => self.rows(),
            7 | 8 => self.contraction(),
            9 => self.columns(),
            10..=12 => self.scan(),
            13 => self.window(),
            14 | 15 => self.accumulation(),
            16 => self.interleaved(),
            17 => self.permuted(),
            18 => self.total(),
            19 => self.distances(),
            20 => self.called(),
            21..=23 => self.rarer(),
            _ => self.gather(),
        }
    }

    /// Left-side variables with their extents.
    fn left(&mut self, rank: usize) -> (Vec<Variable>, Vec<Extent>) {
        let mut variables = Vec::new();
        let mut shape = Vec::new();
        for _ in 0..rank {
            let extent = self.some_extent();
            variables.push(Variable { name: self.fresh("e"), values: Values::All(extent.clone()) });
            shape.push(extent);
        }
        (variables, shape)
    }

    pub(crate) fn map(&mut self, must_define: bool) {
        let rank = *self.rng.pick(&[0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6]);
        let (over, shape) = self.left(rank);
        let ty = self.some_type();
        let depth = 1 + self.rng.below(4);
        let value = self.expr(ty, &over, depth);
        let intermediate = !must_define && self.rng.one_in(3);
        self.define(&over, &shape, ty, value, intermediate);
    }

    /// Reductions of rows and what depends on them.
    fn rows(&mut self) {
        let ty = self.some_float();
        let wide = ty.widened();
        let rank = *self.rng.pick(&[0, 1, 1, 1, 1, 2, 3]);
        let (mut over, mut shape) = self.left(rank);
        let rows: Vec<String> = over.iter().map(|v| v.name.clone()).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let row_shape = shape.clone();
        let row_over = over.clone();
        let extent = self.some_extent();
        let (j, k) = (self.fresh("j"), self.fresh("k"));
        shape.push(extent.clone());
        over.push(Variable { name: j.clone(), values: Values::All(extent.clone()) });
        let at = |last: &str| -> Vec<String> { rows.iter().map(|r| (*r).to_owned()).chain([last.to_owned()]).collect() };
        let x = self.parameter(ty, &shape);
        let item = |name: &str, ty: Type, last: &str| {
            let all = at(last);
            read(name, ty, &all.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let by_k = item(&x, ty, &k).cast(wide);
        let filter = self.rng.one_in(8).then(|| {
            let zero = self.literal(wide);
            Expr::binary(Type::Bool, "<", item(&x, ty, &k).cast(wide), zero)
        });
        let reducer = *self.rng.pick(&["max", "sum", "mean", "min", "prod"]);
        let first = reduce(wide, reducer, &[&k], filter, by_k);
        let first = self.define(&row_over, &row_shape, wide, first, true);
        if self.rng.one_in(4) {
            // Only per row.
            let value = Expr::binary(wide, "*", read(&first, wide, &rows), self.literal(wide));
            self.define(&row_over, &row_shape, ty, value, false);
            return;
        }
        let centred = Expr::binary(wide, "-", item(&x, ty, &j).cast(wide), read(&first, wide, &rows));
        let shaped = match self.rng.below(3) {
            0 => Expr::call(wide, "exp", vec![centred]),
            1 => Expr::binary(wide, "*", centred.clone(), centred),
            _ => centred,
        };
        let kept = if self.rng.one_in(3) { ty } else { wide };
        let keeps = self.rng.below(4) > 0;
        let second = self.define(&over, &shape, kept, shaped, keeps);
        let l = self.fresh("l");
        let body = item(&second, kept, &l).cast(wide);
        let body = if self.rng.one_in(3) { Expr::binary(wide, "*", body.clone(), body) } else { body };
        let total = reduce(wide, *self.rng.pick(&["sum", "sum", "mean", "max"]), &[&l], None, body);
        let total = if self.rng.one_in(2) {
            let name = self.define(&row_over, &row_shape, wide, total, true);
            read(&name, wide, &rows)
        } else {
            total
        };
        let mut value = Expr::binary(wide, *self.rng.pick(&["/", "*", "+"]), item(&second, kept, &j).cast(wide), total);
        if self.rng.one_in(3) {
            let weights = self.parameter(ty, &[extent]);
            value = Expr::binary(wide, "*", value, read(&weights, ty, &[&j]).cast(wide));
        }
        self.define(&over, &shape, ty, value, false);
    }

    /// A product of matrices, of any layout, perhaps batched, perhaps with something around it.
    fn contraction(&mut self) {
        let ty = *self.rng.pick(&[self.float, Type::F32, Type::F32, Type::F16, Type::I8, Type::I32, Type::F64]);
        let wide = ty.widened();
        let batch = self.rng.one_in(4);
        let (over, shape) = self.left(2 + usize::from(batch));
        let extent = self.some_extent();
        self.use_dims(&[extent.clone()]);
        let l = self.fresh("l");
        let names: Vec<String> = over.iter().map(|v| v.name.clone()).collect();
        let tail = names.len() - 2;
        let (i, j) = (names[tail].clone(), names[tail + 1].clone());
        let operand = |own: &str, own_extent: &Extent, making: &mut Making| {
            let mut by = vec![own.to_owned(), l.clone()];
            let mut dims = vec![own_extent.clone(), extent.clone()];
            if making.rng.one_in(2) {
                by.swap(0, 1);
                dims.swap(0, 1);
            }
            if batch && making.rng.below(4) > 0 {
                by.insert(0, names[0].clone());
                dims.insert(0, shape[0].clone());
            }
            let name = making.parameter(ty, &dims);
            let by: Vec<&str> = by.iter().map(String::as_str).collect();
            read(&name, ty, &by).cast(wide)
        };
        let mut a = operand(&i, &shape[tail], self);
        let b = operand(&j, &shape[tail + 1], self);
        if self.rng.one_in(4) {
            let scale = self.parameter(ty, std::slice::from_ref(&extent));
            a = Expr::binary(wide, "*", a, read(&scale, ty, &[&l]).cast(wide));
        }
        if self.rng.one_in(8) {
            a = Expr::call(wide, "abs", vec![a]);
        }
        let out = if wide == Type::I32 { Type::I64 } else { wide };
        let body = Expr::binary(wide, "*", a, b);
        let filter =
            self.rng.one_in(10).then(|| Expr::binary(Type::Bool, "!=", Expr::atom(Type::I64, l.clone()), Expr::atom(Type::I64, "1")));
        let mut value = reduce(out, "sum", &[&l], filter, body);
        if self.rng.one_in(3) {
            let bias = self.parameter(out, &[shape[tail + 1].clone()]);
            value = Expr::binary(out, "+", value, read(&bias, out, &[&j]));
        }
        let stored = if out == Type::F32 && self.rng.one_in(3) { ty } else { out };
        let intermediate = self.rng.one_in(6);
        self.define(&over, &shape, stored, value, intermediate);
    }

    /// Reductions along a dimension that is not the last.
    fn columns(&mut self) {
        let rank = 1 + self.rng.below(2);
        let (over, shape) = self.left(rank);
        let r = Variable { name: self.fresh("r"), values: Values::All(self.some_extent()) };
        let Values::All(extent) = r.values.clone() else { return };
        let ty = self.some_comparable_type();
        let at = self.rng.below(over.len());
        let mut by: Vec<String> = over.iter().map(|v| v.name.clone()).collect();
        let mut dims = shape.clone();
        by.insert(at, r.name.clone());
        dims.insert(at, extent);
        let name = self.parameter(ty, &dims);
        let mut body = read(&name, ty, &by.iter().map(String::as_str).collect::<Vec<_>>());
        if self.rng.one_in(3) && !ty.is_storage() {
            body = Expr::binary(ty, "*", body.clone(), body);
        }
        let reducer = *self.rng.pick(&["sum", "max", "min", "argmax", "argmin", "sum", "mean"]);
        let (out, reducer) = self.reduced(ty, reducer);
        let value = reduce(out, reducer, &[&r.name], None, body);
        self.define(&over, &shape, out, value, false);
    }

    fn some_comparable_type(&mut self) -> Type {
        let ty = self.some_type();
        if ty == Type::Bool { Type::F32 } else { ty }
    }

    /// The type that a reducer gives for a type of term.
    pub(crate) fn reduced(&self, ty: Type, reducer: &'static str) -> (Type, &'static str) {
        match reducer {
            "argmin" | "argmax" => (Type::I64, reducer),
            "min" | "max" => (ty, reducer),
            "mean" if !ty.is_float() => self.reduced(ty, "sum"),
            _ if ty.is_float() => (ty.widened(), reducer),
            _ if matches!(ty, Type::U32 | Type::U64) => (Type::U64, reducer),
            _ => (Type::I64, reducer),
        }
    }

    fn scan(&mut self) {
        let rank = *self.rng.pick(&[1, 1, 1, 2, 2, 3]);
        let (over, shape) = self.left(rank);
        let along = self.rng.below(rank);
        let j = self.fresh("j");
        let ty = self.some_type();
        let mut by: Vec<String> = over.iter().map(|v| v.name.clone()).collect();
        by[along] = j.clone();
        let name = self.parameter(ty, &shape);
        let mut body = read(&name, ty, &by.iter().map(String::as_str).collect::<Vec<_>>());
        let (out, reducer) = match ty {
            Type::Bool => *self.rng.pick(&[(Type::Bool, "any"), (Type::Bool, "all"), (Type::I64, "count"), (Type::I64, "sum")]),
            _ => {
                let reducer = *self.rng.pick(&["sum", "sum", "sum", "prod", "max", "min", "argmax", "mean"]);
                self.reduced(ty, reducer)
            }
        };
        if self.rng.one_in(4) && ty != Type::Bool && !ty.is_storage() {
            let scope = vec![Variable { name: j.clone(), values: Values::All(shape[along].clone()) }];
            let more = self.read(ty, &scope);
            body = Expr::binary(ty, "*", body, more);
        }
        let filter = if self.rng.one_in(6) && ty != Type::Bool && !ty.is_storage() {
            Some(Expr::binary(Type::Bool, ">", body.clone(), self.literal(ty)))
        } else {
            None
        };
        let i = over[along].name.clone();
        let end = self.text(&shape[along]);
        let range = match self.rng.below(6) {
            0 => ("0".to_owned(), i),
            1 => (i, end),
            2 => (format!("{i} + 1"), end),
            _ => ("0".to_owned(), format!("={i}")),
        };
        let variables = vec![tree::Variable { name: j, range: Some(range) }];
        let mut value = Expr { ty: out, node: Node::Reduce(Box::new(Reduce { reducer, variables, filter, body })) };
        if self.rng.one_in(3) && out != Type::Bool && !out.is_storage() {
            value = Expr::binary(out, *self.rng.pick(&["+", "*", "-"]), value, self.literal(out));
        }
        let intermediate = self.rng.one_in(5);
        self.define(&over, &shape, out, value, intermediate);
    }

    /// A stencil or a convolution.
    fn window(&mut self) {
        let rank = 1 + self.rng.below(2);
        let (over, shape) = self.left(rank);
        let ty = self.some_float();
        let wide = ty.widened();
        let x = self.parameter(ty, &shape);
        let reach = self.rng.between(1, 2);
        let mut variables = Vec::new();
        let mut subscripts = Vec::new();
        let mut weights = Vec::new();
        for (v, extent) in over.iter().zip(&shape) {
            let d = self.fresh("d");
            let index = Expr::binary(Type::I64, "+", Expr::atom(Type::I64, v.name.clone()), Expr::atom(Type::I64, d.clone()));
            let rule = Some(self.rule(extent, ty));
            subscripts.push(Subscript { index, rule });
            let own = Expr::binary(Type::I64, "+", Expr::atom(Type::I64, d.clone()), Expr::atom(Type::I64, reach.to_string()));
            weights.push(Subscript { index: own, rule: None });
            variables.push(tree::Variable { name: d, range: Some((format!("-{reach}"), format!("={reach}"))) });
        }
        let mut body = Expr { ty, node: Node::Read(x, subscripts) }.cast(wide);
        if self.rng.one_in(2) {
            let name = self.parameter(ty, &vec![Extent::Literal(2 * reach + 1); rank]);
            body = Expr::binary(wide, "*", body, Expr { ty, node: Node::Read(name, weights) }.cast(wide));
        }
        let reducer = *self.rng.pick(&["sum", "sum", "max", "mean"]);
        let value = Expr { ty: wide, node: Node::Reduce(Box::new(Reduce { reducer, variables, filter: None, body })) };
        self.define(&over, &shape, ty, value, false);
    }

    fn accumulation(&mut self) {
        let ty = self.some_type();
        let ops: &[&'static str] = match ty {
            Type::Bool => &["|=", "&="],
            ty if ty.is_float() => &["+=", "+=", "min=", "max=", "*="],
            _ => &["+=", "+=", "*=", "min=", "max=", "|=", "&="],
        };
        let op = *self.rng.pick(ops);
        // Every variable stands on the left, for rows the last one by itself.
        let rank = 1 + usize::from(self.rng.one_in(3));
        let of_rows = rank > 1 && self.rng.one_in(2);
        let (over, own) = self.left(rank);
        let (_, mut target) = self.left(rank);
        if let (true, Some(along), Some(last)) = (of_rows, own.last(), target.last_mut()) {
            *last = along.clone();
        }
        self.use_dims(&target);
        let name = self.result(ty, &target);
        if self.rng.one_in(3) {
            let left: Vec<Variable> =
                target.iter().map(|extent| Variable { name: self.fresh("b"), values: Values::All(extent.clone()) }).collect();
            // Of floats what sums exactly: they may come in any order.
            let value = if ty.is_float() {
                Expr::atom(ty, format!("{}{ty}", self.rng.pick(&["0.5", "1.0", "2.0", "-1.0", "0.0", "-0.0", "-3.0"])))
            } else {
                self.expr(ty, &left, 1)
            };
            self.push(Form::Define, &name, left.iter().map(|v| v.name.clone()).collect(), None, value);
        }
        let mut left = Vec::new();
        for (place, (extent, v)) in target.iter().zip(&over).enumerate() {
            if of_rows && place + 1 == rank {
                left.push(v.name.clone());
                continue;
            }
            let mut subscript = self.gathered(extent, std::slice::from_ref(v), ty);
            if subscript.rule.is_some() {
                subscript.rule = self.rng.one_in(2).then(|| Expr::atom(ty, "drop"));
            }
            left.push(subscript.to_string());
        }
        // Every variable needs a place that gives its range: a read.
        let shape: Vec<Extent> =
            over.iter().filter_map(|v| if let Values::All(e) = &v.values { Some(e.clone()) } else { None }).collect();
        let names: Vec<&str> = over.iter().map(|v| v.name.as_str()).collect();
        let deterministic = ty.is_float() && self.rng.one_in(3);
        let x = self.parameter(ty, &shape);
        let item = read(&x, ty, &names);
        let wide = ty.widened();
        let value = match op {
            "*=" if ty.is_float() => {
                let sign = Expr::binary(Type::Bool, "<", item.cast(wide), Expr::atom(wide, format!("0.0{wide}")));
                Expr::choice(sign, Expr::atom(wide, format!("-1.0{wide}")), Expr::atom(wide, format!("1.0{wide}")))
            }
            "+=" if ty.is_float() => item.cast(wide),
            _ if self.rng.one_in(2) => item.cast(wide),
            "+=" | "*=" => Expr::binary(wide, "+", item.cast(wide), self.literal(wide)),
            _ => item.cast(wide),
        };
        self.push(Form::Accumulate(op), &name, left, None, value);
        if deterministic {
            if let Some(statement) = self.kernel.statements.last_mut() {
                statement.attribute = Some("@deterministic".to_owned());
            }
        }
        self.readable(&name, ty, &target);
    }

    /// Left sides that are affine.
    fn interleaved(&mut self) {
        let ty = self.some_type();
        let extent = Extent::Dim(self.rng.below(3));
        let i = Variable { name: self.fresh("e"), values: Values::All(extent.clone()) };
        let own = self.text(&extent);
        let x = self.parameter(ty, std::slice::from_ref(&extent));
        let name = self.fresh("y");
        let by = self.rng.between(2, 3);
        self.kernel.results.push(tree::Declared { name: name.clone(), ty, shape: vec![format!("{by} * {own}")] });
        for at in 0..by {
            let v = Variable { name: format!("{}_{at}", i.name), values: i.values.clone() };
            let item = read(&x, ty, &[&v.name]);
            let value = match self.rng.below(3) {
                0 => item,
                _ => {
                    let other = self.expr(ty, std::slice::from_ref(&v), 2);
                    Expr::choice(Expr::binary(Type::Bool, "==", item.clone(), item.clone()), item, other)
                }
            };
            self.push(Form::Define, &name, vec![format!("{by} * {} + {at}", v.name)], None, value);
        }
    }

    fn permuted(&mut self) {
        let rank = *self.rng.pick(&[2, 2, 2, 3, 4]);
        let (over, shape) = self.left(rank);
        let mut order: Vec<usize> = (0..rank).collect();
        for at in (1..rank).rev() {
            order.swap(at, self.rng.below(at + 1));
        }
        let ty = self.some_type();
        let dims: Vec<Extent> = order.iter().map(|&at| shape[at].clone()).collect();
        let x = self.parameter(ty, &dims);
        let by: Vec<&str> = order.iter().map(|&at| over[at].name.as_str()).collect();
        let mut value = read(&x, ty, &by);
        if self.rng.one_in(3) && ty != Type::Bool {
            let wide = ty.widened();
            let names: Vec<&str> = over.iter().map(|v| v.name.as_str()).collect();
            let z = self.parameter(ty, &shape);
            value = Expr::binary(wide, *self.rng.pick(&["+", "*"]), value.cast(wide), read(&z, ty, &names).cast(wide));
        }
        let intermediate = self.rng.one_in(4);
        self.define(&over, &shape, ty, value, intermediate);
    }

    /// A reduction of everything.
    fn total(&mut self) {
        let ty = *self.rng.pick(&[Type::F32, Type::F64, Type::I64, Type::Bool, Type::U64, Type::I32]);
        let value = self.reduction(ty, &[], 2);
        let intermediate = self.rng.one_in(4) && !self.kernel.results.is_empty();
        self.define(&[], &[], ty, value, intermediate);
    }

    fn distances(&mut self) {
        let (over, shape) = self.left(2);
        let extent = self.some_extent();
        let k = self.fresh("k");
        let ty = self.some_float();
        let wide = ty.widened();
        let a = self.parameter(ty, &[shape[0].clone(), extent.clone()]);
        let b = self.parameter(ty, &[shape[1].clone(), extent]);
        let item = |name: &str, v: &str| read(name, ty, &[v, &k]).cast(wide);
        let gap = Expr::binary(wide, "-", item(&a, &over[0].name), item(&b, &over[1].name));
        let body = match self.rng.below(3) {
            0 => Expr::call(wide, "abs", vec![gap]),
            _ => Expr::binary(wide, "*", gap.clone(), gap),
        };
        let mut value = reduce(wide, *self.rng.pick(&["sum", "sum", "max"]), &[&k], None, body);
        if self.rng.one_in(2) {
            value = Expr::call(wide, "sqrt", vec![value]);
        }
        self.define(&over, &shape, wide, value, false);
    }

    /// A call of another kernel.
    fn called(&mut self) {
        let extents = [self.some_extent(), self.some_extent()];
        let helper = self.fresh("helper");
        let x = self.parameter(Type::F32, &extents);
        let out = self.fresh("t");
        let (text, shape) = match self.rng.below(3) {
            0 => (
                "kernel NAME(x: f32[a, b]) -> z: f32[b, a] { z[j, i] = x[i, j] * 2.0; }",
                vec![extents[1].clone(), extents[0].clone()],
            ),
            1 => (
                "kernel NAME(x: f32[a, b]) -> z: f32[a] { let top[i] = max[j] x[i, j]; z[i] = sum[j] exp(x[i, j] - top[i]); }",
                vec![extents[0].clone()],
            ),
            _ => ("kernel NAME(x: f32[a, b]) -> z: f32[a, b] { z[i, j] = sum[k in 0..=j] x[i, k]; }", extents.to_vec()),
        };
        self.items.push(text.replace("NAME", &helper));
        let value = Expr::call(Type::F32, helper, vec![Expr::atom(Type::F32, x)]);
        self.push(Form::Let, &out, Vec::new(), None, value);
        self.readable(&out, Type::F32, &shape);
        let over: Vec<Variable> =
            shape.iter().map(|extent| Variable { name: self.fresh("e"), values: Values::All(extent.clone()) }).collect();
        let names: Vec<&str> = over.iter().map(|v| v.name.as_str()).collect();
        let own = read(&out, Type::F32, &names);
        let more = self.expr(Type::F32, &over, 2);
        self.define(&over, &shape, Type::F32, Expr::binary(Type::F32, "+", own, more), false);
    }

    fn gather(&mut self) {
        let rank = 1 + self.rng.below(2);
        let (over, shape) = self.left(rank);
        let ty = self.some_type();
        if let ([Extent::Dim(a), Extent::Dim(b)], true) = (shape.as_slice(), self.rng.one_in(3)) {
            // Rows one after the other in an array of one dimension.
            let flat = Extent::Times(*a, *b);
            let x = self.parameter(ty, std::slice::from_ref(&flat));
            let value = Expr { ty, node: Node::Read(x, vec![self.subscript(&flat, &over, ty)]) };
            self.define(&over, &shape, ty, value, false);
            return;
        }
        let from = self.some_extent();
        let mut subscripts = vec![self.gathered(&from, &over, ty)];
        let mut dims = vec![from];
        if rank == 2 && self.rng.one_in(2) {
            subscripts.push(index(&over[1].name));
            dims.push(shape[1].clone());
        }
        let x = self.parameter(ty, &dims);
        let value = Expr { ty, node: Node::Read(x, subscripts) };
        self.define(&over, &shape, ty, value, false);
    }
}

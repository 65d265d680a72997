//! Statements of forms that the language has and the recipes seldom make: left sides of several parts, extents that are no dims,
//! many dimensions, sums in f64, hints, and shapes that just pass the tiles of schedules.

use gpukc_dsl::types::Type;

use crate::generate::{Extent, Making, Values, Variable};
use crate::recipes::{index, read, reduce};
use crate::tree::{Expr, Form, Node, Subscript};

fn plus(index: &str, more: &str) -> Subscript {
    Subscript { index: Expr::binary(Type::I64, "+", Expr::atom(Type::I64, index), Expr::atom(Type::I64, more)), rule: None }
}

impl Making {
    /// A statement of a rarer form.
    pub(crate) fn rarer(&mut self) {
        match self.rng.below(10) {
            0 => self.concatenated(),
            1 => self.reversed(),
            2 => self.every_second(),
            3 => self.neighbours(),
            4 => self.sized(),
            5 => self.many_dimensions(),
            6 => self.in_f64(),
            7 => self.hinted(),
            8 => self.triangular(),
            _ => self.by_row_and_all(),
        }
    }

    fn some_variable(&mut self, extent: &Extent) -> Variable {
        Variable { name: self.fresh("e"), values: Values::All(extent.clone()) }
    }

    /// Defines a result in two statements: along one of its dimensions, up to somewhere and from there.
    pub(crate) fn in_parts(&mut self, name: &str, left: Vec<String>, shape: &[Extent], value: Expr) {
        let axis = self.rng.below(left.len());
        let end = self.text(&shape[axis]);
        let cut = if self.rng.one_in(2) { format!("({end}) / 2") } else { format!("({end} + 2) / 3") };
        for range in [format!("0..{cut}"), format!("{cut}..{end}")] {
            let mut part = left.clone();
            part[axis] = format!("{} in {range}", left[axis]);
            self.push(Form::Define, name, part, None, value.clone());
        }
    }

    /// One array after another.
    fn concatenated(&mut self) {
        let ty = self.some_type();
        let (a, b) = (Extent::Dim(self.rng.below(3)), Extent::Dim(self.rng.below(3)));
        let name = self.fresh("y");
        let (first, second) = (self.text(&a), self.text(&b));
        let (v, w) = (self.some_variable(&a), self.some_variable(&b));
        let (x, z) = (self.parameter(ty, &[a]), self.parameter(ty, &[b]));
        self.kernel.results.push(crate::tree::Declared { name: name.clone(), ty, shape: vec![format!("{first} + {second}")] });
        let own = read(&x, ty, &[&v.name]);
        let value =
            if ty == Type::Bool { own } else { Expr::binary(ty.widened(), "-", own.cast(ty.widened()), self.literal(ty.widened())) };
        let value = value.cast(ty);
        self.push(Form::Define, &name, vec![format!("{} in 0..{first}", v.name)], None, value);
        self.push(Form::Define, &name, vec![format!("{first} + {}", w.name)], None, read(&z, ty, &[&w.name]));
    }

    /// From the other end.
    fn reversed(&mut self) {
        let ty = self.some_type();
        let extent = Extent::Dim(self.rng.below(3));
        let own = self.text(&extent);
        let v = self.some_variable(&extent);
        let x = self.parameter(ty, std::slice::from_ref(&extent));
        let name = self.result(ty, std::slice::from_ref(&extent));
        self.push(Form::Define, &name, vec![format!("{own} - 1 - {}", v.name)], None, read(&x, ty, &[&v.name]));
        self.readable(&name, ty, &[extent]);
    }

    /// One thing below the diagonal, another one above.
    fn triangular(&mut self) {
        let ty = self.some_type();
        let extent = Extent::Dim(self.rng.below(3));
        let own = self.text(&extent);
        let shape = [extent.clone(), extent.clone()];
        let x = self.parameter(ty, &shape);
        let (i, j) = (self.fresh("e"), self.fresh("e"));
        let end = self.rng.pick(&["", " + 1"]);
        let cut = format!("{i}{end}");
        let over = [&i, &j].map(|name| Variable { name: name.clone(), values: Values::All(extent.clone()) });
        let value = if self.rng.one_in(2) { read(&x, ty, &[&i, &j]) } else { self.expr(ty, &over, 2).cast(ty) };
        let name = self.result(ty, &shape);
        self.push(Form::Define, &name, vec![i.clone(), format!("{j} in 0..{cut}")], None, value);
        self.push(Form::Define, &name, vec![i.clone(), format!("{j} in {cut}..{own}")], None, read(&x, ty, &[&j, &i]));
        self.readable(&name, ty, &shape);
    }

    /// Half of the elements, or sums of pairs.
    fn every_second(&mut self) {
        let ty = self.some_float();
        let wide = ty.widened();
        let extent = Extent::Dim(self.rng.below(3));
        let own = self.text(&extent);
        let v = self.some_variable(&extent);
        let x = self.parameter(ty, &[extent]);
        let name = self.fresh("y");
        self.kernel.results.push(crate::tree::Declared { name: name.clone(), ty: wide, shape: vec![format!("({own} + 1) / 2")] });
        let twice = |more: i64| Expr::atom(Type::I64, format!("2 * {} + {more}", v.name));
        let at = |index, rule| Expr { ty, node: Node::Read(x.clone(), vec![Subscript { index, rule }]) }.cast(wide);
        let first = at(Expr::atom(Type::I64, format!("2 * {}", v.name)), None);
        let second = at(twice(1), Some(Expr::atom(ty, "0.0")));
        let value = if self.rng.one_in(2) { Expr::binary(wide, "+", first, second) } else { first };
        self.push(Form::Define, &name, vec![v.name.clone()], None, value);
    }

    /// Differences of neighbours, and what is made of them.
    fn neighbours(&mut self) {
        let ty = self.some_float();
        let wide = ty.widened();
        let dim = self.rng.below(3);
        self.dims[dim].least = self.dims[dim].least.max(1);
        let (row, along) = (self.some_extent(), Extent::Dim(dim));
        let (i, j) = (self.fresh("e"), self.fresh("e"));
        let x = self.parameter(ty, &[row.clone(), along.clone()]);
        let own = self.text(&along);
        let at = |subscript: Subscript| Expr { ty, node: Node::Read(x.clone(), vec![index(&i), subscript]) }.cast(wide);
        let gap = Expr::binary(wide, "-", at(plus(&j, "1")), at(index(&j)));
        let name = self.fresh("t");
        self.push(Form::Let, &name, vec![i.clone(), format!("{j} in 0..{own} - 1")], Some(wide), gap);
        let k = self.fresh("k");
        let total = reduce(wide, *self.rng.pick(&["sum", "max", "mean"]), &[&k], None, read(&name, wide, &[&i, &k]));
        let result = self.result(wide, std::slice::from_ref(&row));
        self.push(Form::Define, &result, vec![i.clone()], None, total);
        self.readable(&result, wide, &[row]);
    }

    /// Extents that are a constant of the file or a scalar of the call.
    fn sized(&mut self) {
        let ty = self.some_type();
        let constant = self.rng.one_in(2);
        let size = self.fresh(if constant { "SIZE" } else { "size" });
        if constant {
            self.items.push(format!("const {size}: i64 = {};", self.rng.pick(&[1, 3, 5, 32, 100])));
        } else {
            let ty = *self.rng.pick(&[Type::I64, Type::I32, Type::U8]);
            self.kernel.parameters.push(crate::tree::Declared { name: size.clone(), ty, shape: Vec::new() });
        }
        let row = self.some_extent();
        self.use_dims(&[row.clone()]);
        let (i, j) = (self.fresh("e"), self.fresh("e"));
        let x = self.fresh("x");
        let shape = vec![self.text(&row), size.clone()];
        self.kernel.parameters.push(crate::tree::Declared { name: x.clone(), ty, shape: shape.clone() });
        let name = self.fresh("y");
        if self.rng.one_in(2) && ty != Type::Bool {
            let (out, reducer) = self.reduced(ty, "sum");
            let value = reduce(out, reducer, &[&j], None, read(&x, ty, &[&i, &j]));
            self.kernel.results.push(crate::tree::Declared { name: name.clone(), ty: out, shape: vec![self.text(&row)] });
            self.push(Form::Define, &name, vec![i], None, value);
        } else {
            self.kernel.results.push(crate::tree::Declared { name: name.clone(), ty, shape });
            let value = read(&x, ty, &[&i, &j]);
            self.push(Form::Define, &name, vec![i, j], None, value);
        }
    }

    /// Up to eight dimensions, of which some are reduced.
    fn many_dimensions(&mut self) {
        let ty = self.some_type();
        let ty = if ty == Type::Bool { Type::F32 } else { ty };
        let rank = 5 + self.rng.below(4);
        let long = self.rng.below(rank);
        let extents: Vec<Extent> = (0..rank)
            .map(|at| if at == long || self.rng.one_in(4) { self.some_extent() } else { Extent::Literal(self.rng.between(1, 3)) })
            .collect();
        let names: Vec<String> = (0..rank).map(|_| self.fresh("e")).collect();
        let by: Vec<&str> = names.iter().map(String::as_str).collect();
        let x = self.parameter(ty, &extents);
        let reduced: Vec<bool> = (0..rank).map(|_| self.rng.one_in(3)).collect();
        let of = |kept: bool| (0..rank).filter(|at| reduced[*at] != kept).collect::<Vec<usize>>();
        let (kept, gone) = (of(true), of(false));
        let mut value = read(&x, ty, &by);
        let mut out = ty;
        if !gone.is_empty() {
            let reducer = *self.rng.pick(&["sum", "max", "min", "sum", "mean"]);
            let (sum, reducer) = self.reduced(ty, reducer);
            let over: Vec<&str> = gone.iter().map(|at| by[*at]).collect();
            value = reduce(sum, reducer, &over, None, value);
            out = sum;
        }
        let mut order = kept;
        if self.rng.one_in(3) {
            order.reverse();
        }
        let over: Vec<Variable> =
            order.iter().map(|at| Variable { name: names[*at].clone(), values: Values::All(extents[*at].clone()) }).collect();
        let shape: Vec<Extent> = order.iter().map(|at| extents[*at].clone()).collect();
        self.define(&over, &shape, out, value, false);
    }

    /// Terms and sums in f64.
    fn in_f64(&mut self) {
        let ty = *self.rng.pick(&[Type::F32, Type::F32, Type::F16, Type::Bf16]);
        let (row, along) = (self.some_extent(), self.some_extent());
        let (i, k) = (self.fresh("e"), self.fresh("k"));
        let x = self.parameter(ty, &[row.clone(), along.clone()]);
        let item = read(&x, ty, &[&i, &k]).cast(Type::F32);
        let body = match self.rng.below(3) {
            0 => item,
            1 => Expr::binary(Type::F32, "*", item.clone(), item),
            _ => {
                let w = self.parameter(ty, &[along]);
                Expr::binary(Type::F32, "*", item, read(&w, ty, &[&k]).cast(Type::F32))
            }
        };
        let total = reduce(Type::F64, *self.rng.pick(&["sum", "sum", "mean", "prod"]), &[&k], None, body);
        let over = [Variable { name: i, values: Values::All(row.clone()) }];
        self.define(&over, &[row], Type::F64, total, false);
        self.attribute("@accumulate(f64)");
    }

    fn attribute(&mut self, text: &str) {
        if let Some(statement) = self.kernel.statements.last_mut() {
            statement.attribute = Some(text.to_owned());
        }
    }

    /// A product of matrices in a tile that is asked for, or kept off tensor cores.
    fn hinted(&mut self) {
        let ty = *self.rng.pick(&[Type::F32, Type::F32, Type::F16, Type::Bf16]);
        let (rows, columns, along) = (self.some_extent(), self.some_extent(), self.some_extent());
        let (i, j, l) = (self.fresh("e"), self.fresh("e"), self.fresh("l"));
        let a = self.parameter(ty, &[rows.clone(), along.clone()]);
        let b = self.parameter(ty, &[along, columns.clone()]);
        let body = Expr::binary(Type::F32, "*", read(&a, ty, &[&i, &l]).cast(Type::F32), read(&b, ty, &[&l, &j]).cast(Type::F32));
        let value = reduce(Type::F32, "sum", &[&l], None, body);
        let over = [&i, &j].map(|name| Variable { name: name.clone(), values: Values::All(Extent::Literal(1)) });
        let hint = match self.rng.below(4) {
            0 => format!("@tile({i} = 64, {j} = 64, {l} = 8)"),
            1 => format!("@tile({i} = 64, {j} = 64, {l} = 16)"),
            2 => format!("@tile({i} = 128, {j} = 128, {l} = 8)"),
            _ => "@exact".to_owned(),
        };
        self.define(&over, &[rows, columns], Type::F32, value, false);
        self.attribute(&hint);
    }

    /// What depends on a row's sum and on everything's.
    fn by_row_and_all(&mut self) {
        let ty = self.some_float();
        let wide = ty.widened();
        let (row, along) = (self.some_extent(), self.some_extent());
        let [i, j, k, a, b] = [0; 5].map(|_| self.fresh("e"));
        let x = self.parameter(ty, &[row.clone(), along.clone()]);
        let item = |i: &str, j: &str| read(&x, ty, &[i, j]).cast(wide);
        let own = reduce(wide, *self.rng.pick(&["sum", "max"]), &[&k], None, item(&i, &k));
        let all = reduce(wide, *self.rng.pick(&["max", "min"]), &[&a, &b], None, item(&a, &b));
        let value = Expr::binary(wide, "-", Expr::binary(wide, "*", item(&i, &j), own), all);
        let over = [Variable { name: i, values: Values::All(row.clone()) }, Variable { name: j, values: Values::All(along.clone()) }];
        self.define(&over, &[row, along], ty, value, false);
    }
}

//! A program from a seed: the state of its making, its declarations, and how many of which statements it gets.

use gpukc_dsl::types::Type;

use crate::tree::{Declared, Expr, Form, Kernel, Program, Statement};
use gpukc_verify::rng::Rng;

/// An extent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Extent {
    /// A dim, by number.
    Dim(usize),
    /// A number.
    Literal(i64),
    /// A dim and a little more.
    Plus(usize, i64),
    /// A product of dims.
    Times(usize, usize),
}

/// What is known of an index variable's values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    /// All below an extent.
    All(Extent),
    /// Some below an extent.
    Some(Extent),
    /// Anything.
    Any,
}

/// An index variable in scope.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) values: Values,
}

/// A dim with what the program's conditions say.
#[derive(Clone, Debug)]
pub(crate) struct Dim {
    pub(crate) name: String,
    pub(crate) least: i64,
    pub(crate) bound: bool,
}

/// An array that may be read.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) shape: Vec<Extent>,
    /// Its elements are indices below this extent, and used for nothing else.
    pub(crate) indexes: Option<Extent>,
}

/// A scalar function.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Type>,
    pub(crate) result: Type,
}

/// A program in the making.
pub(crate) struct Making {
    pub(crate) rng: Rng,
    pub(crate) dims: Vec<Dim>,
    pub(crate) arrays: Vec<Array>,
    pub(crate) scalars: Vec<(String, Type)>,
    pub(crate) functions: Vec<Function>,
    pub(crate) items: Vec<String>,
    pub(crate) kernel: Kernel,
    /// The float type that this program likes.
    pub(crate) float: Type,
    count: usize,
}

/// A program from a seed; `size` statements or a few more.
pub fn generate(seed: u64, size: usize) -> Program {
    let mut rng = Rng::new(seed);
    let odd = rng.one_in(20);
    let names = if odd { ["int", "blockIdx", "I", "main"] } else { ["n", "m", "k", "p"] };
    let dims = names.map(|name| Dim { name: name.to_owned(), least: if rng.one_in(3) { 1 } else { 0 }, bound: false });
    let float = *rng.pick(&[Type::F32, Type::F32, Type::F32, Type::F32, Type::F16, Type::Bf16, Type::F64]);
    let mut making = Making {
        rng,
        dims: dims.to_vec(),
        arrays: Vec::new(),
        scalars: Vec::new(),
        functions: Vec::new(),
        items: Vec::new(),
        kernel: Kernel { name: if odd { "float".to_owned() } else { "random".to_owned() }, ..Kernel::default() },
        float,
        count: 0,
    };
    making.functions();
    let statements = 1 + making.rng.below(size.max(1));
    for at in 0..statements {
        let last = at + 1 == statements && making.kernel.results.is_empty();
        making.recipe(last);
    }
    if making.kernel.results.is_empty() {
        making.map(true);
    }
    making.finish()
}

impl Making {
    /// A fresh name.
    pub(crate) fn fresh(&mut self, stem: &str) -> String {
        self.count += 1;
        format!("{stem}{}", self.count)
    }

    /// One of the compute types, mostly the program's float.
    pub(crate) fn some_type(&mut self) -> Type {
        if self.rng.one_in(2) { self.float } else { *self.rng.pick(&Type::ALL) }
    }

    /// A float type.
    pub(crate) fn some_float(&mut self) -> Type {
        if self.rng.below(4) > 0 { self.float } else { *self.rng.pick(&[Type::F32, Type::F32, Type::F16, Type::Bf16, Type::F64]) }
    }

    /// A dim or a small literal.
    pub(crate) fn some_extent(&mut self) -> Extent {
        match self.rng.below(12) {
            0 => Extent::Literal(*self.rng.pick(&[1, 2, 3, 4, 8, 16, 33])),
            n => Extent::Dim(match n {
                1..=5 => 0,
                6..=8 => 1,
                9 | 10 => 2,
                _ => 3,
            }),
        }
    }

    /// An extent's text.
    pub(crate) fn text(&self, extent: &Extent) -> String {
        match extent {
            Extent::Dim(dim) => self.dims[*dim].name.clone(),
            Extent::Literal(value) => value.to_string(),
            Extent::Plus(dim, more) => format!("{} + {more}", self.dims[*dim].name),
            Extent::Times(a, b) => format!("{} * {}", self.dims[*a].name, self.dims[*b].name),
        }
    }

    /// Whether an extent is 1 or more in every call.
    pub(crate) fn is_positive(&self, extent: &Extent) -> bool {
        match extent {
            Extent::Dim(dim) => self.dims[*dim].least > 0,
            Extent::Literal(value) => *value > 0,
            Extent::Plus(_, more) => *more > 0,
            Extent::Times(a, b) => self.dims[*a].least > 0 && self.dims[*b].least > 0,
        }
    }

    /// A parameter of this type and shape; often one that is there.
    pub(crate) fn parameter(&mut self, ty: Type, shape: &[Extent]) -> String {
        let fits = |array: &&Array| array.ty == ty && array.shape == shape && array.indexes.is_none();
        let there: Vec<String> = self.arrays.iter().filter(fits).map(|array| array.name.clone()).collect();
        if !there.is_empty() && (self.rng.below(3) > 0 || self.kernel.parameters.len() > 12) {
            return self.rng.pick(&there).clone();
        }
        let name = self.fresh("x");
        self.declare(name, ty, shape, None)
    }

    /// An integer parameter whose elements are indices.
    pub(crate) fn index_parameter(&mut self, ty: Type, shape: &[Extent], below: &Extent) -> String {
        let fits = |array: &&Array| array.ty == ty && array.shape == shape && array.indexes.as_ref() == Some(below);
        if let Some(array) = self.arrays.iter().find(fits) {
            return array.name.clone();
        }
        let name = self.fresh("at");
        self.declare(name, ty, shape, Some(below.clone()))
    }

    fn declare(&mut self, name: String, ty: Type, shape: &[Extent], indexes: Option<Extent>) -> String {
        self.use_dims(shape);
        let texts = shape.iter().map(|extent| self.text(extent)).collect();
        for extent in shape {
            if let Extent::Dim(dim) = extent {
                self.dims[*dim].bound = true;
            }
        }
        self.kernel.parameters.push(Declared { name: name.clone(), ty, shape: texts });
        self.arrays.push(Array { name: name.clone(), ty, shape: shape.to_vec(), indexes });
        name
    }

    /// Sees to it that the dims of a shape are bound by a parameter, at the latest by one that is added in the end.
    pub(crate) fn use_dims(&mut self, shape: &[Extent]) {
        for extent in shape {
            let used: Vec<usize> = match extent {
                Extent::Dim(a) | Extent::Plus(a, _) => vec![*a],
                Extent::Times(a, b) => vec![*a, *b],
                Extent::Literal(_) => Vec::new(),
            };
            for dim in used {
                if !self.dims[dim].bound && self.rng.one_in(2) {
                    let ty = self.some_float();
                    self.dims[dim].bound = true;
                    self.parameter(ty, &[Extent::Dim(dim)]);
                }
            }
        }
    }

    /// A scalar parameter.
    pub(crate) fn scalar(&mut self, ty: Type) -> Expr {
        let there: Vec<String> = self.scalars.iter().filter(|(_, other)| *other == ty).map(|(name, _)| name.clone()).collect();
        if !there.is_empty() && self.rng.below(3) > 0 {
            return Expr::atom(ty, self.rng.pick(&there).clone());
        }
        let name = self.fresh("s");
        self.scalars.push((name.clone(), ty));
        self.kernel.parameters.push(Declared { name: name.clone(), ty, shape: Vec::new() });
        Expr::atom(ty, name)
    }

    /// A new result of this type and shape.
    pub(crate) fn result(&mut self, ty: Type, shape: &[Extent]) -> String {
        self.use_dims(shape);
        let name = self.fresh("y");
        let shape = shape.iter().map(|extent| self.text(extent)).collect();
        self.kernel.results.push(Declared { name: name.clone(), ty, shape });
        name
    }

    /// Adds a statement.
    pub(crate) fn push(&mut self, form: Form, name: &str, left: Vec<String>, ty: Option<Type>, value: Expr) {
        self.kernel.statements.push(Statement { attribute: None, form, name: name.to_owned(), left, ty, value });
    }

    /// Defines a result or a `let`.
    pub(crate) fn define(&mut self, over: &[Variable], shape: &[Extent], ty: Type, value: Expr, intermediate: bool) -> String {
        self.use_dims(shape);
        let names = |v: &Variable| v.name.clone();
        let value = if value.ty == ty || value.ty == Type::F32 && ty.is_float() { value } else { value.cast(ty) };
        let name = if intermediate {
            let name = self.fresh("t");
            let left = over.iter().zip(shape).map(|(v, extent)| {
                let end = self.text(extent);
                if self.is_implied(&value, &v.name) { v.name.clone() } else { format!("{} in 0..{end}", v.name) }
            });
            let left = left.collect();
            self.push(Form::Let, &name, left, Some(ty), value);
            name
        } else {
            let name = self.result(ty, shape);
            let left: Vec<String> = over.iter().map(names).collect();
            if !left.is_empty() && self.rng.one_in(6) {
                self.in_parts(&name, left, shape, value);
            } else {
                self.push(Form::Define, &name, left, None, value);
            }
            name
        };
        self.readable(&name, ty, shape);
        name
    }

    /// Makes an array readable by the statements that follow.
    pub(crate) fn readable(&mut self, name: &str, ty: Type, shape: &[Extent]) {
        self.arrays.push(Array { name: name.to_owned(), ty, shape: shape.to_vec(), indexes: None });
    }

    /// Binds the dims that no parameter binds yet, and states the conditions.
    fn finish(mut self) -> Program {
        let text = self.kernel.to_string();
        for dim in 0..self.dims.len() {
            let name = self.dims[dim].name.clone();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let used = text.split(|c| !is_name(c)).any(|word| word == name);
            let declared = self.kernel.parameters.iter().any(|p| p.shape.contains(&name));
            if used && !declared {
                let parameter = self.fresh("x");
                let declared = Declared { name: parameter, ty: Type::F32, shape: vec![name.clone()] };
                self.kernel.parameters.push(declared);
            }
            if used && self.dims[dim].least > 0 {
                self.kernel.conditions.push(format!("{name} >= {}", self.dims[dim].least));
            } else if used && self.rng.one_in(8) {
                let further = match self.rng.below(4) {
                    0 | 1 => format!("{name} % {} == 0", self.rng.pick(&[2, 4, 8])),
                    2 => format!("{name} <= {}", self.rng.pick(&[16, 100, 1024])),
                    _ => format!("{name} % 2 == 1"),
                };
                self.kernel.conditions.push(further);
            }
        }
        Program { items: self.items, kernel: self.kernel }
    }
}

//! What the names of a text stand for, as far as spelling needs it.

use gpukc_dsl::types::Type;

use crate::plan::{CudaType, Expr, Parameter, ParameterType};

/// What a name stands for.
#[derive(Clone, Debug)]
struct Symbol {
    name: String,
    /// Its type; of an array and a pointer, the elements'.
    ty: CudaType,
    /// Elements that can't be written.
    constant: bool,
}

/// The names in scope, innermost last.
#[derive(Clone, Debug, Default)]
pub struct Scope(Vec<Symbol>);

impl Scope {
    /// The parameters of a launch.
    pub fn of_launch(parameters: &[Parameter]) -> Scope {
        let mut scope = Scope::default();
        for parameter in parameters {
            let (ty, constant) = match parameter.ty {
                ParameterType::Input(ty) => (ty, true),
                ParameterType::Output(ty) | ParameterType::Value(ty) => (ty, false),
                ParameterType::Report | ParameterType::Published => (Type::U64, false),
            };
            scope.0.push(Symbol { name: parameter.name.clone(), ty: ty.into(), constant });
        }
        scope
    }
    /// Adds a name.
    pub fn declare(&mut self, name: &str, ty: &CudaType) {
        self.0.push(Symbol { name: name.into(), ty: ty.clone(), constant: false });
    }
    /// How many names there are; for [`Scope::leave`].
    pub fn depth(&self) -> usize {
        self.0.len()
    }
    /// Forgets what came after `depth`.
    pub fn leave(&mut self, depth: usize) {
        self.0.truncate(depth);
    }

    fn find(&self, name: &str) -> Option<&Symbol> {
        self.0.iter().rev().find(|symbol| symbol.name == name)
    }

    /// Whether the elements of this array can't be written.
    pub fn is_constant(&self, array: &Expr) -> bool {
        root(array).and_then(|name| self.find(name)).is_some_and(|symbol| symbol.constant)
    }

    /// The arithmetic type of an expression, where that is plain to see.
    pub fn type_of(&self, expr: &Expr) -> Option<Type> {
        match expr {
            Expr::Int(_, ty) | Expr::Float(_, ty) | Expr::Cast(CudaType::Element(ty), _) => Some(*ty),
            Expr::Bool(_) | Expr::Unary("!", _) => Some(Type::Bool),
            Expr::Name(name) if is_builtin(name) => Some(Type::U32),
            Expr::Name(name) => element(&self.find(name)?.ty),
            Expr::Element(array, _) => element(&self.find(root(array)?)?.ty),
            Expr::Lane(pack, _) => match (&**pack, root(pack)) {
                (Expr::Wide(ty, ..), _) => Some(*ty),
                (_, Some(name)) => lane(&self.find(name)?.ty),
                _ => None,
            },
            Expr::Unary(_, a) => Some(promoted(self.type_of(a)?)),
            Expr::Binary("==" | "!=" | "<" | "<=" | ">" | ">=" | "&&" | "||", ..) => Some(Type::Bool),
            Expr::Binary("<<" | ">>", a, _) => Some(promoted(self.type_of(a)?)),
            // Of two narrow types alike, C++ makes no int; literals are ints.
            Expr::Conditional(_, a, b) => {
                let (left, right) = (self.type_of(a)?, self.type_of(b)?);
                let literal = matches!(**a, Expr::Int(..)) || matches!(**b, Expr::Int(..));
                Some(if left == right && !literal { left } else { common(left, right) })
            }
            Expr::Binary(_, a, b) => Some(common(self.type_of(a)?, self.type_of(b)?)),
            Expr::Cast(..) | Expr::Wide(..) | Expr::Call(..) => None,
        }
    }
}

/// The array's or pack's name.
pub fn root(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Name(name) => Some(name),
        Expr::Element(array, _) | Expr::Lane(array, _) | Expr::Wide(_, _, array, _) => root(array),
        _ => None,
    }
}

/// `threadIdx.x` and its like.
pub fn is_builtin(name: &str) -> bool {
    let Some((variable, "x" | "y" | "z")) = name.split_once('.') else { return false };
    ["threadIdx", "blockIdx", "blockDim", "gridDim"].contains(&variable)
}

fn element(ty: &CudaType) -> Option<Type> {
    if let CudaType::Element(ty) = ty { Some(*ty) } else { None }
}

fn lane(ty: &CudaType) -> Option<Type> {
    if let CudaType::Pack(ty, _) = ty { Some(*ty) } else { None }
}

/// C++'s integral promotion. f16 and bf16 are unsigned shorts.
fn promoted(ty: Type) -> Type {
    if ty.is_float() && ty.size() > 2 || ty.is_integer() && ty.size() > 2 { ty } else { Type::I32 }
}

/// C++'s usual arithmetic conversions.
fn common(a: Type, b: Type) -> Type {
    let order = [Type::F64, Type::F32, Type::U64, Type::I64, Type::U32];
    order.into_iter().find(|ty| [a, b].map(promoted).contains(ty)).unwrap_or(Type::I32)
}

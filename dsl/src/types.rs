//! Element types and their properties; operators, reducers and functions of the language as plain data.

use std::fmt;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Type {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Type {
    /// Every type, in the order of the language page.
    pub const ALL: [Type; 13] = [
        Type::Bool,
        Type::I8,
        Type::I16,
        Type::I32,
        Type::I64,
        Type::U8,
        Type::U16,
        Type::U32,
        Type::U64,
        Type::F16,
        Type::Bf16,
        Type::F32,
        Type::F64,
    ];
    /// The name in gk.
    pub fn name(self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::I8 => "i8",
            Type::I16 => "i16",
            Type::I32 => "i32",
            Type::I64 => "i64",
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::F16 => "f16",
            Type::Bf16 => "bf16",
            Type::F32 => "f32",
            Type::F64 => "f64",
        }
    }
    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Type> {
        Type::ALL.into_iter().find(|t| t.name() == name)
    }
    /// The type that is meant by a name of other languages and libraries.
    pub fn from_foreign_name(name: &str) -> Option<Type> {
        Some(match name {
            "int" | "int32" | "int32_t" | "i32_t" => Type::I32,
            "long" | "int64" | "int64_t" | "isize" | "integer" => Type::I64,
            "short" | "int16" | "int16_t" => Type::I16,
            "int8" | "int8_t" | "schar" => Type::I8,
            "float" | "float32" | "single" => Type::F32,
            "double" | "float64" => Type::F64,
            "half" | "float16" | "fp16" => Type::F16,
            "bfloat16" | "bfloat" => Type::Bf16,
            "usize" | "uint64" | "uint64_t" | "ulong" | "size_t" => Type::U64,
            "uint" | "uint32" | "uint32_t" | "unsigned" => Type::U32,
            "ushort" | "uint16" | "uint16_t" => Type::U16,
            "byte" | "uint8" | "uint8_t" | "char" | "uchar" => Type::U8,
            "boolean" | "Bool" | "bool_" => Type::Bool,
            _ => return None,
        })
    }
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Type::Bool | Type::I8 | Type::U8 => 1,
            Type::I16 | Type::U16 | Type::F16 | Type::Bf16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 => 8,
        }
    }
    /// Bits of one element.
    pub fn bits(self) -> u32 {
        if self == Type::Bool { 1 } else { self.size() as u32 * 8 }
    }
    /// `f16 bf16 f32 f64`.
    pub fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::Bf16 | Type::F32 | Type::F64)
    }
    /// The signed and unsigned integers.
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != Type::Bool
    }
    /// Signed integers and floats.
    pub fn is_signed(self) -> bool {
        self.is_float() || matches!(self, Type::I8 | Type::I16 | Type::I32 | Type::I64)
    }
    /// Storage types: arithmetic on them happens in [`Type::widened`].
    pub fn is_storage(self) -> bool {
        self != self.widened()
    }
    /// The type that arithmetic on this one happens in.
    pub fn widened(self) -> Type {
        match self {
            Type::F16 | Type::Bf16 => Type::F32,
            Type::I8 | Type::I16 | Type::U8 | Type::U16 => Type::I32,
            other => other,
        }
    }
    /// Smallest and largest value of an integer type (0 and 1 for bool, 0 and 0 for floats).
    pub fn integer_range(self) -> (i128, i128) {
        match self {
            Type::Bool => (0, 1),
            t if t.is_float() => (0, 0),
            t if t.is_signed() => (-(1i128 << (t.bits() - 1)), (1i128 << (t.bits() - 1)) - 1),
            t => (0, (1i128 << t.bits()) - 1),
        }
    }
    /// Whether a store from this type to `to` is implicit: it loses nothing, or rounds f32 to f16 or bf16.
    pub fn stores_to(self, to: Type) -> bool {
        if self == to || self == Type::F32 && matches!(to, Type::F16 | Type::Bf16) {
            return true;
        }
        if self.is_integer() && to.is_integer() {
            let (lo, hi) = self.integer_range();
            let (to_lo, to_hi) = to.integer_range();
            return to_lo <= lo && hi <= to_hi;
        }
        self.is_float() && to.is_float() && self.size() < to.size()
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-x`
    Negate,
    /// `!x`: logical for bool, bitwise for integers
    Not,
}

/// Binary operators, as Rust has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Mul,
    Div,
    Rem,
    Add,
    Sub,
    Shl,
    Shr,
    BitAnd,
    BitXor,
    BitOr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Short-circuit `&&`
    And,
    /// Short-circuit `||`
    Or,
}

impl BinaryOp {
    /// The operator's spelling.
    pub fn symbol(self) -> &'static str {
        use BinaryOp::*;
        match self {
            Mul => "*",
            Div => "/",
            Rem => "%",
            Add => "+",
            Sub => "-",
            Shl => "<<",
            Shr => ">>",
            BitAnd => "&",
            BitXor => "^",
            BitOr => "|",
            Eq => "==",
            Ne => "!=",
            Lt => "<",
            Le => "<=",
            Gt => ">",
            Ge => ">=",
            And => "&&",
            Or => "||",
        }
    }
    /// Rust's precedence: larger binds tighter.
    pub fn precedence(self) -> u8 {
        use BinaryOp::*;
        match self {
            Mul | Div | Rem => 10,
            Add | Sub => 9,
            Shl | Shr => 8,
            BitAnd => 7,
            BitXor => 6,
            BitOr => 5,
            Eq | Ne | Lt | Le | Gt | Ge => 4,
            And => 3,
            Or => 2,
        }
    }
    /// `== != < <= > >=`
    pub fn is_comparison(self) -> bool {
        self.precedence() == 4
    }
}

macro_rules! names {
    ($(#[$doc:meta])* $ty:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum $ty { $($variant),+ }
        impl $ty {
            /// Every one, in the order of the language page.
            pub const ALL: &'static [$ty] = &[$($ty::$variant),+];
            /// The name in gk.
            pub fn name(self) -> &'static str {
                match self { $($ty::$variant => $name),+ }
            }
            /// The one of that name.
            pub fn from_name(name: &str) -> Option<$ty> {
                match name { $($name => Some($ty::$variant),)+ _ => None }
            }
        }
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.pad(self.name()) }
        }
    };
}

names! {
    /// The reducers.
    Reducer {
        Sum = "sum", Prod = "prod", Min = "min", Max = "max", Any = "any", All = "all", Count = "count", Mean = "mean",
        Argmin = "argmin", Argmax = "argmax",
    }
}

names! {
    /// The built-in functions.
    Builtin {
        Abs = "abs", Sign = "sign", Min = "min", Max = "max", Clamp = "clamp", Floor = "floor", Ceil = "ceil", Trunc = "trunc",
        Round = "round", RoundTiesEven = "round_ties_even", Sqrt = "sqrt", Rsqrt = "rsqrt", Cbrt = "cbrt", Exp = "exp",
        Exp2 = "exp2", Expm1 = "expm1", Log = "log", Log2 = "log2", Log10 = "log10", Log1p = "log1p", Pow = "pow", Sin = "sin",
        Cos = "cos", Tan = "tan", Asin = "asin", Acos = "acos", Atan = "atan", Atan2 = "atan2", Sinh = "sinh", Cosh = "cosh",
        Tanh = "tanh", Erf = "erf", Erfc = "erfc", Hypot = "hypot", MulAdd = "mul_add", Copysign = "copysign", IsNan = "is_nan",
        IsInf = "is_inf", IsFinite = "is_finite", CountOnes = "count_ones", LeadingZeros = "leading_zeros",
        DivFloor = "div_floor", ModFloor = "mod_floor",
        // Only in the project's own mathematical functions: names that user programs can't reach.
        ToBits = "to_bits", F32FromBits = "f32_from_bits", F64FromBits = "f64_from_bits", MulHigh = "mul_high",
        WrappingAdd = "wrapping_add", WrappingSub = "wrapping_sub", WrappingMul = "wrapping_mul",
    }
}

impl Builtin {
    /// Functions that only the project's own mathematical texts may call.
    pub fn is_internal(self) -> bool {
        self >= Builtin::ToBits
    }
}

names! {
    /// The operators of an accumulating definition (`h[k[i]] += e`), by their gk spelling.
    AccumulateOp { Add = "+=", Mul = "*=", Min = "min=", Max = "max=", Or = "|=", And = "&=" }
}

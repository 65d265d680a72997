//! The typed program: what a checked gk text means, with nothing left to infer.
//!
//! ```text
//! Program   = Function* Kernel*
//! Kernel    = dims, scalars, arrays, variables, exprs (arenas); parameters, results; conditions; checks; Statement*
//! Statement = Define     array[subscripts] = value         for all values of its variables
//!           | Accumulate array[subscripts] op= value       for all values of its variables, in no particular order
//! Expr      = literal | dim | variable | scalar | local
//!           | read(array, subscripts) | reduce | unary | binary | cast | if | builtin(args) | call(function, args)
//! ```
//!
//! What every stage after the checker may rely on:
//! - Kernel calls are expanded in place; their arrays appear as `let` arrays of the caller. Constants are literals.
//! - All conversions are explicit [`ExprKind::Cast`]s: operands of an operator have one type, the value of a `Define` has
//!   the array's element type, and arithmetic never happens in a storage type (reads of `f16` are cast to `f32` first).
//! - Index expressions, ranges and extents have type `i64`.
//! - A `mean` is a [`Reducer::Sum`] divided by a count. A range that depends on a variable of the same bracket is a nested
//!   [`Reduce`], so the ranges of one `Reduce` are independent of one another: a box, whose points are its terms, numbered
//!   lexicographically with the first variable slowest.
//! - An expression is evaluated only where it stands: the untaken side of an `if`, of `&&` and of `||`, and the body where
//!   the filter is false, are not evaluated, subscripts included.
//! - A variable's scope is its statement (left-side variables) or its `Reduce` (body, filter).

pub mod in_place;
pub mod print;
pub mod verify;

use crate::arena::{Arena, Id};
use crate::source::Span;
use crate::types::{AccumulateOp, BinaryOp, Builtin, Reducer, Type, UnaryOp};

/// A checked file.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Scalar functions; a function calls only functions that stand before it.
    pub functions: Arena<Function>,
    /// Kernels in order of the text.
    pub kernels: Vec<Kernel>,
}

impl Program {
    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

/// Handle of a dim.
pub type DimId = Id<Dim>;
/// Handle of a scalar parameter.
pub type ScalarId = Id<Scalar>;
/// Handle of an array.
pub type ArrayId = Id<Array>;
/// Handle of an index variable.
pub type VariableId = Id<Variable>;
/// Handle of an expression.
pub type ExprId = Id<Expr>;
/// Handle of a function.
pub type FunctionId = Id<Function>;
/// Handle of a local of a function.
pub type LocalId = Id<Local>;

/// A kernel, calls of other kernels expanded.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Doc comment lines.
    pub doc: Vec<String>,
    /// The name's span.
    pub span: Span,
    /// Numeric licences and schedule hints of the whole kernel.
    pub attributes: Attributes,
    /// Extents bound by the shapes of parameters.
    pub dims: Arena<Dim>,
    /// Scalar parameters.
    pub scalars: Arena<Scalar>,
    /// Parameters, results and `let`s, scalars among the latter two as rank 0.
    pub arrays: Arena<Array>,
    /// Index variables of all statements.
    pub variables: Arena<Variable>,
    /// Expressions of all statements, extents and conditions.
    pub exprs: Arena<Expr>,
    /// Parameters in the order of the text.
    pub parameters: Vec<Parameter>,
    /// Results in the order of the text. The one result of `-> T` is called `out`.
    pub results: Vec<ArrayId>,
    /// Checked at the call before anything runs: `where` conditions and what the prover left to the call.
    pub conditions: Vec<Condition>,
    /// In order; each array is defined before it is read.
    pub statements: Vec<Statement>,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// `a: f32`
    Scalar(ScalarId),
    /// `x: f32[n]`
    Array(ArrayId),
}

/// A named extent: bound to axis `axis` of parameter `array` at the call.
#[derive(Clone, Debug)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// Where it is bound.
    pub span: Span,
    /// The parameter that binds it.
    pub array: ArrayId,
    /// Which of its axes.
    pub axis: usize,
}

/// A scalar parameter.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Its name's span.
    pub span: Span,
}

/// What an array is to its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Given by the caller.
    Parameter,
    /// Given to the caller.
    Result,
    /// An intermediate; whether it exists in memory is the compiler's choice.
    Let,
}

/// An array, row-major. A scalar result or `let` has rank 0.
#[derive(Clone, Debug)]
pub struct Array {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    pub span: Span,
    /// Its element type.
    pub element: Type,
    /// Extents, of type `i64`, over dims, scalars and literals.
    pub shape: Vec<ExprId>,
    /// Parameter, result or let.
    pub role: Role,
}

impl Array {
    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

/// An index variable; its value has type `i64`.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where it is introduced.
    pub span: Span,
}

/// A variable with its range `lo..hi`; empty if `hi <= lo`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranged {
    /// The variable.
    pub variable: VariableId,
    /// First value.
    pub lo: ExprId,
    /// One past the last value.
    pub hi: ExprId,
}

/// What must hold at the call.
#[derive(Clone, Debug)]
pub struct Condition {
    /// A bool expression over dims and scalars.
    pub holds: ExprId,
    /// Where it comes from.
    pub span: Span,
    /// Why it is asked for.
    pub reason: ConditionReason,
}

/// Why a condition is asked for; for the message when it fails.
#[derive(Clone, Debug)]
pub enum ConditionReason {
    /// A `where` condition, as written; one that a called kernel brings along as `kernel: condition`.
    Where(String),
    /// Axis `axis` of parameter `array` must have this extent.
    Extent(ArrayId, usize),
    /// A dim of an array must not be negative: `extent >= 0`, the extent's expression.
    NotNegative(ArrayId, usize, ExprId),
    /// A subscript's lowest or highest value must be in range: `array`, axis, the value's expression.
    InRange(ArrayId, usize, ExprId),
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The array that is defined or accumulated into.
    pub array: ArrayId,
    /// The left side's variables, in the order in which they first appear there.
    pub variables: Vec<Ranged>,
    /// One per dimension. Of a `Define`: affine and proved. Of an accumulation: anything, with bounds.
    pub subscripts: Vec<Subscript>,
    /// The value: of the element type; of an accumulation, of the widened element type.
    pub value: ExprId,
    /// Definition or accumulation.
    pub kind: StatementKind,
    /// Numeric licences and schedule hints (the kernel's merged in).
    pub attributes: Attributes,
    /// Where it stands.
    pub span: Span,
}

/// The kinds of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Stores to distinct elements. Several definitions of one array together cover each element exactly once.
    Define,
    /// Combines into the array.
    Accumulate {
        /// With what.
        op: AccumulateOp,
        /// Whether the array starts at the operator's identity (else an earlier `Define` has filled it).
        from_identity: bool,
    },
}

/// A subscript and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscript {
    /// The index, of type `i64`.
    pub index: ExprId,
    /// How it is kept in range.
    pub bounds: Bounds,
}

/// How a subscript is kept in range.
#[derive(Clone, Debug, PartialEq)]
pub enum Bounds {
    /// It never leaves the range wherever it is evaluated: proved, or checked by a [`Condition`] at the call.
    Proved,
    /// Checked where it is evaluated; out of range ends the launch with an error. Reads nothing outside.
    Checked,
    /// `| assume`: not checked.
    Assumed,
    /// `| clamp`: the nearest element. Like the next three, out of range (checked) only if the array is empty there.
    Clamp,
    /// `| wrap`: modulo the extent.
    Wrap,
    /// `| mirror`: reflected, the edge not repeated.
    Mirror,
    /// `| symmetric`: reflected, the edge repeated.
    Symmetric,
    /// `| value`: the value outside (an expression of the array's element type).
    Constant(ExprId),
    /// `| drop`: nothing is accumulated outside.
    Drop,
}

/// A typed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Type,
    /// Where it was written.
    pub span: Span,
}

/// A constant, exactly representable in its expression's type.
#[derive(Clone, Copy, Debug)]
pub enum Literal {
    /// `true`, `false`
    Bool(bool),
    /// Any integer type.
    Int(i128),
    /// Any float type; rounded to it already.
    Float(f64),
}

impl PartialEq for Literal {
    /// Bit by bit, so that NaN equals itself and −0 differs from 0.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Literal::Bool(a), Literal::Bool(b)) => a == b,
            (Literal::Int(a), Literal::Int(b)) => a == b,
            (Literal::Float(a), Literal::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

/// The kinds of typed expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A constant.
    Literal(Literal),
    /// A dim's value.
    Dim(DimId),
    /// An index variable's value.
    Variable(VariableId),
    /// A scalar parameter's value.
    Scalar(ScalarId),
    /// A function's parameter or local.
    Local(LocalId),
    /// An element.
    Read {
        /// Of which array.
        array: ArrayId,
        /// One per dimension.
        subscripts: Vec<Subscript>,
    },
    /// A reduction.
    Reduce(Box<Reduce>),
    /// `-x`, `!x`
    Unary(UnaryOp, ExprId),
    /// Operands of one type (a shift's count too); `&&` and `||` evaluate as Rust does.
    Binary(BinaryOp, ExprId, ExprId),
    /// To the expression's type, as Rust's `as`; to f16 and bf16 with one rounding.
    Cast(ExprId),
    /// Only the chosen side is evaluated.
    If {
        /// bool
        condition: ExprId,
        /// Where it holds.
        then: ExprId,
        /// Where it does not.
        otherwise: ExprId,
    },
    /// A built-in function; arguments have the type it is used at.
    Builtin(Builtin, Vec<ExprId>),
    /// A `fn` of the program.
    Call(FunctionId, Vec<ExprId>),
}

/// A reduction over the box of its variables' ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduce {
    /// Any reducer but `mean`.
    pub reducer: Reducer,
    /// Independent ranges, the slowest first.
    pub variables: Vec<Ranged>,
    /// Terms where it is false count as the identity and are not evaluated.
    pub filter: Option<ExprId>,
    /// The term. Its type is the accumulator's (`any all count`: bool; `argmin argmax`: the compared type, not widened).
    pub body: ExprId,
    /// In which order terms combine.
    pub order: Order,
    /// Each term is a product that one fused multiply-add accumulates; `body` is the [`BinaryOp::Mul`] node. Never of a scan.
    pub fused: bool,
}

/// In which order a reduction's terms combine. `docs/language.md` defines each exactly.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Any: integers, bool, min, max, arg.
    Exact,
    /// The canonical order.
    Canonical,
    /// Ascending runs, combined canonically; the run's length follows from the extents of these free variables.
    Sharing(Vec<VariableId>),
    /// A scan along a left-side variable: of floats in the scan order; else exact. The reduction has one variable.
    Scan(Scan),
}

/// A reduction whose range ends at, or starts from, a left-side variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The left-side variable.
    pub along: VariableId,
    /// `lo..=i`, `lo..i`: forward, ending at `along`; `i..hi`, `i + 1..hi`: backward, from `along`.
    pub direction: Direction,
    /// Whether the term at `along` itself is taken in.
    pub inclusive: bool,
}

/// Which way a scan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the low end.
    Forward,
    /// From the high end.
    Backward,
}

/// Numeric licences and schedule hints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// `@fast_math`
    pub fast_math: bool,
    /// `@deterministic`
    pub deterministic: bool,
    /// `@tf32`
    pub tf32: bool,
    /// `@exact`
    pub exact: bool,
    /// `@block(256)`
    pub block: Option<(u32, Span)>,
    /// `@tile(i = 64, j = 64)`, by variable name
    pub tile: Vec<(String, u32, Span)>,
    /// `@unroll(4)`
    pub unroll: Option<(u32, Span)>,
}

/// A scalar function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Doc comment lines.
    pub doc: Vec<String>,
    /// The name's span.
    pub span: Span,
    /// The first `parameters` locals are the parameters.
    pub parameters: usize,
    /// Parameters, `let`s and loop variables.
    pub locals: Arena<Local>,
    /// Expressions of the body.
    pub exprs: Arena<Expr>,
    /// The result's type.
    pub result: Type,
    /// Statements in order.
    pub body: Vec<LocalStatement>,
    /// The final expression.
    pub value: ExprId,
}

/// A parameter, `let` or loop variable of a function.
#[derive(Clone, Debug)]
pub struct Local {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Whether it is assigned to.
    pub mutable: bool,
}

/// A statement of a function.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalStatement {
    /// `let x = e;` and `x = e;`
    Set(LocalId, ExprId),
    /// `while c { … }`
    While(ExprId, Vec<LocalStatement>),
    /// `for i in lo..hi { … }`; both ends are evaluated once
    For(LocalId, ExprId, ExprId, Vec<LocalStatement>),
    /// `if c { … } else { … }`
    If(ExprId, Vec<LocalStatement>, Vec<LocalStatement>),
}

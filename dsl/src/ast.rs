//! The syntax tree: what was written, with a span on every node, before any name is resolved.
//!
//! ```text
//! File      = Item*                      Item = Kernel | Function | Constant
//! Kernel    = attributes doc `kernel` name(Parameter*) -> results [where Expr*] { Statement* [Expr] }
//! Statement = Define: target = e;  |  Let: let target = e;  |  LetCall: let (a, b) = k(x);  |  Accumulate: target op= e;
//! Target    = name [ [ Subscript* ] ] with an optional type; a subscript may be `i in lo..hi` (in a `let`) or carry a rule
//! ```

use crate::source::Span;
use crate::types::{AccumulateOp, BinaryOp, Reducer, UnaryOp};

/// A name where it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// The identifier.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A parsed file. Comments are kept beside the tree for the formatter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// Items in order.
    pub items: Vec<Item>,
    /// Every comment that is not a doc comment, in order of position.
    pub comments: Vec<Span>,
}

/// A top-level item.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `kernel`
    Kernel(Kernel),
    /// `fn`
    Function(Function),
    /// `const`
    Constant(Constant),
}

/// `const NAME: T = e;`
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Lines of `///`, without the marker.
    pub doc: Vec<String>,
    /// The constant's name.
    pub name: Name,
    /// Its type.
    pub ty: TypeExpr,
    /// Its value.
    pub value: Expr,
    /// The whole item.
    pub span: Span,
}

/// `fn NAME(x: T, …) -> T { … }`
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Lines of `///`, without the marker.
    pub doc: Vec<String>,
    /// The function's name.
    pub name: Name,
    /// Parameters, all scalar.
    pub parameters: Vec<Parameter>,
    /// The result's type.
    pub result: TypeExpr,
    /// The body.
    pub body: Block,
    /// The whole item.
    pub span: Span,
}

/// `@name` or `@name(arguments)`
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The name after `@`.
    pub name: Name,
    /// `(i = 64, 256)`: arguments with an optional key.
    pub arguments: Vec<(Option<Name>, Expr)>,
    /// From `@` to the closing parenthesis.
    pub span: Span,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Lines of `///`, without the marker.
    pub doc: Vec<String>,
    /// Attributes before `kernel`.
    pub attributes: Vec<Attribute>,
    /// The kernel's name.
    pub name: Name,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// What stands after `->`.
    pub results: Results,
    /// The conditions after `where`.
    pub conditions: Vec<Expr>,
    /// Statements in order.
    pub statements: Vec<Statement>,
    /// The final expression of an unnamed result.
    pub value: Option<Expr>,
    /// The whole item.
    pub span: Span,
}

/// What a kernel gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Results {
    /// `-> T`, one unnamed value
    Unnamed(TypeExpr),
    /// `-> y: T` or `-> (a: T, b: T)`
    Named(Vec<Parameter>),
}

/// `name: type`
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The name.
    pub name: Name,
    /// Its type.
    pub ty: TypeExpr,
}

/// `T` or `T[dim, …]`. The element type's name is not resolved here.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExpr {
    /// The element type's name.
    pub element: Name,
    /// The dims; `None` for a scalar.
    pub dims: Option<Vec<Expr>>,
    /// The whole type.
    pub span: Span,
}

/// A statement of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Attributes before it.
    pub attributes: Vec<Attribute>,
    /// What it does.
    pub kind: StatementKind,
    /// From its first token to the semicolon.
    pub span: Span,
}

/// The kinds of statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// `y[i, j] = e;` or `s = e;` (a named scalar result)
    Define {
        /// What is defined.
        target: Target,
        /// Its value.
        value: Expr,
    },
    /// `let t[i, j]: T = e;` or `let s = e;`
    Let {
        /// What is defined.
        target: Target,
        /// The stated element type.
        ty: Option<TypeExpr>,
        /// Its value.
        value: Expr,
    },
    /// `let (a, b) = k(x);` — a `let` of one name whose value calls a kernel is a [`StatementKind::Let`]
    LetCall {
        /// The names bound to the results.
        names: Vec<Name>,
        /// The call.
        value: Expr,
    },
    /// `h[k[i]] += e;`
    Accumulate {
        /// What is accumulated into.
        target: Target,
        /// The operator.
        op: AccumulateOp,
        /// What is added.
        value: Expr,
    },
}

/// The left side of a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The array or scalar.
    pub name: Name,
    /// Its subscripts; `None` where there are no brackets.
    pub subscripts: Option<Vec<Subscript>>,
    /// The whole left side.
    pub span: Span,
}

/// A subscript, of a read or of a left side.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscript {
    /// The expression; in a range (`i in lo..hi`), the variable as an [`ExprKind::Name`].
    pub index: Expr,
    /// `in lo..hi`, only on the left side of a `let`.
    pub range: Option<Range>,
    /// What stands after `|`.
    pub rule: Option<Rule>,
    /// The whole subscript.
    pub span: Span,
}

/// A boundary rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// `clamp wrap mirror symmetric drop assume`, or any other lone name (a constant, or a mistake)
    Name(Name),
    /// A constant value.
    Value(Expr),
}

/// `lo..hi` or `lo..=hi`
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The first value.
    pub lo: Expr,
    /// The end.
    pub hi: Expr,
    /// Whether the end is included.
    pub inclusive: bool,
}

/// A variable of a reduction, with the range if one is stated.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexVariable {
    /// Its name.
    pub name: Name,
    /// Its range.
    pub range: Option<Range>,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands, parentheses included.
    pub span: Span,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A numeric literal as written, suffix included: `1_0.5e-1`, `0xFF`, `1.0f64`
    Number(String),
    /// `true` or `false`
    Bool(bool),
    /// A name: a scalar, dim, constant, index variable, local, or `INF NAN PI`
    Name(String),
    /// `f32::MAX`
    Path(Name, Name),
    /// `(e)`
    Paren(Box<Expr>),
    /// `x[i, j | clamp]`
    Index {
        /// The array.
        array: Name,
        /// One per dimension, if the rank is right.
        subscripts: Vec<Subscript>,
    },
    /// `f(a, b)`
    Call {
        /// The function's or kernel's name.
        function: Name,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// `sum[i, j in 0..n if cond] body`
    Reduce {
        /// Which reducer, and where its name stands.
        reducer: (Reducer, Span),
        /// The variables.
        variables: Vec<IndexVariable>,
        /// The condition after `if`.
        filter: Option<Box<Expr>>,
        /// The term.
        body: Box<Expr>,
    },
    /// `-x`, `!x`; the span of the operator
    Unary(UnaryOp, Span, Box<Expr>),
    /// `a + b`; the span of the operator
    Binary(BinaryOp, Span, Box<Expr>, Box<Expr>),
    /// `x as T`
    Cast(Box<Expr>, Name),
    /// `if c { a } else { b }`; blocks hold `let`s only in functions
    If {
        /// The condition.
        condition: Box<Expr>,
        /// Chosen where it holds.
        then: Box<Block>,
        /// Chosen where it does not: a block, or a block that holds just another `if`.
        otherwise: Box<Block>,
    },
    /// A place where an expression could not be parsed, already reported.
    Error,
}

/// `{ statements; value }`
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Statements of scalar code.
    pub statements: Vec<LocalStatement>,
    /// The final expression.
    pub value: Option<Expr>,
    /// From brace to brace.
    pub span: Span,
}

/// A statement of scalar code.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalStatement {
    /// What it does.
    pub kind: LocalStatementKind,
    /// Where it stands.
    pub span: Span,
}

/// The kinds of statement in a `fn`.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalStatementKind {
    /// `let x: T = e;`, `let mut x = e;`
    Let {
        /// Whether `mut`.
        mutable: bool,
        /// The local's name.
        name: Name,
        /// The stated type.
        ty: Option<TypeExpr>,
        /// Its value.
        value: Expr,
    },
    /// `x = e;`; `x += e;` is `x = x + e` whose operator's span covers `+=`
    Assign {
        /// The local.
        name: Name,
        /// Its new value.
        value: Expr,
    },
    /// `while c { … }`
    While {
        /// The condition.
        condition: Expr,
        /// The body.
        body: Block,
    },
    /// `for i in lo..hi { … }`
    For {
        /// The variable.
        name: Name,
        /// Its range.
        range: Range,
        /// The body.
        body: Block,
    },
    /// `if c { … } else { … }`
    If {
        /// The condition.
        condition: Expr,
        /// Done where it holds.
        then: Block,
        /// Done where it does not.
        otherwise: Option<Block>,
    },
}

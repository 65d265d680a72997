//! Programs as trees that are made, printed as gk text, and shrunk. They hold what a generator needs to know, no more:
//! whether a text is right is the checker's to say.

use std::fmt::{self, Display, Write};

use gpukc_dsl::types::Type;

/// An expression with the type that it is meant to have.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its type; of a read the element type.
    pub ty: Type,
    /// What it is.
    pub node: Node,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Node {
    /// A literal, variable, dim, scalar or constant.
    Atom(String),
    Read(String, Vec<Subscript>),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Cast(Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Call(String, Vec<Expr>),
    Reduce(Box<Reduce>),
}

/// `sum[i in 0..n if c] body`
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Reduce {
    pub reducer: &'static str,
    pub variables: Vec<Variable>,
    pub filter: Option<Expr>,
    pub body: Expr,
}

/// A variable, with its range if that is stated.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Variable {
    pub name: String,
    pub range: Option<(String, String)>,
}

/// An index and what follows after `|`.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Subscript {
    pub index: Expr,
    pub rule: Option<Expr>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Statement {
    /// Before it, such as `@deterministic`.
    pub attribute: Option<String>,
    pub form: Form,
    /// What is defined.
    pub name: String,
    /// The left side's subscripts, as text.
    pub left: Vec<String>,
    /// For a `let`: its type, if it is stated.
    pub ty: Option<Type>,
    pub value: Expr,
}

/// The kinds of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Form {
    Let,
    Define,
    Accumulate(&'static str),
}

/// A parameter or a result.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Declared {
    pub name: String,
    pub ty: Type,
    pub shape: Vec<String>,
}

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Kernel {
    pub name: String,
    pub attribute: Option<String>,
    pub parameters: Vec<Declared>,
    pub results: Vec<Declared>,
    pub conditions: Vec<String>,
    pub statements: Vec<Statement>,
}

/// A program; the last kernel is the one that is called.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Program {
    /// Constants, functions and kernels that are called, as texts.
    pub items: Vec<String>,
    pub kernel: Kernel,
}

impl Expr {
    /// A literal or a name.
    pub fn atom(ty: Type, text: impl Into<String>) -> Expr {
        Expr { ty, node: Node::Atom(text.into()) }
    }
    /// `a op b`
    pub fn binary(ty: Type, op: &'static str, a: Expr, b: Expr) -> Expr {
        Expr { ty, node: Node::Binary(op, Box::new(a), Box::new(b)) }
    }
    /// `f(…)`
    pub fn call(ty: Type, name: impl Into<String>, arguments: Vec<Expr>) -> Expr {
        Expr { ty, node: Node::Call(name.into(), arguments) }
    }
    /// `a as ty`
    pub fn cast(self, ty: Type) -> Expr {
        if self.ty == ty { self } else { Expr { ty, node: Node::Cast(Box::new(self)) } }
    }
    /// `if c { a } else { b }`
    pub fn choice(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
        Expr { ty: then.ty, node: Node::If(Box::new(condition), Box::new(then), Box::new(otherwise)) }
    }
    /// The expressions that it is made of, subscripts included.
    pub fn parts(&self) -> Vec<&Expr> {
        match &self.node {
            Node::Atom(_) => Vec::new(),
            Node::Read(_, subscripts) => subscripts.iter().map(|s| &s.index).collect(),
            Node::Unary(_, a) | Node::Cast(a) => vec![a],
            Node::Binary(_, a, b) => vec![a, b],
            Node::If(a, b, c) => vec![a, b, c],
            Node::Call(_, arguments) => arguments.iter().collect(),
            Node::Reduce(reduce) => reduce.filter.iter().chain([&reduce.body]).collect(),
        }
    }
    /// The same, to be changed.
    pub fn parts_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.node {
            Node::Atom(_) => Vec::new(),
            Node::Read(_, subscripts) => subscripts.iter_mut().map(|s| &mut s.index).collect(),
            Node::Unary(_, a) | Node::Cast(a) => vec![a],
            Node::Binary(_, a, b) => vec![a, b],
            Node::If(a, b, c) => vec![a, b, c],
            Node::Call(_, arguments) => arguments.iter_mut().collect(),
            Node::Reduce(reduce) => reduce.filter.iter_mut().chain([&mut reduce.body]).collect(),
        }
    }
    /// How many expressions it holds, itself included.
    pub fn size(&self) -> usize {
        1 + self.parts().into_iter().map(Expr::size).sum::<usize>()
    }
    /// Whether `name` stands alone in a subscript without a rule.
    pub fn subscripts_alone(&self, name: &str) -> bool {
        let here = match &self.node {
            Node::Read(_, subscripts) => {
                subscripts.iter().any(|s| s.rule.is_none() && matches!(&s.index.node, Node::Atom(text) if text == name))
            }
            _ => false,
        };
        here || self.parts().into_iter().any(|part| part.subscripts_alone(name))
    }
}

/// Whether it needs parentheses as an operand.
fn is_compound(e: &Expr) -> bool {
    match &e.node {
        Node::Binary(..) | Node::If(..) | Node::Reduce(_) | Node::Cast(_) | Node::Unary(..) => true,
        Node::Atom(text) => text.starts_with('-'),
        _ => false,
    }
}

struct Operand<'a>(&'a Expr);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_compound(self.0) { write!(f, "({})", self.0) } else { self.0.fmt(f) }
    }
}

/// Items with commas between them.
fn list<T: Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
    }
    Ok(())
}

impl Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Node::Atom(text) => f.write_str(text),
            Node::Read(name, subscripts) if subscripts.is_empty() => f.write_str(name),
            Node::Read(name, subscripts) => {
                write!(f, "{name}[")?;
                list(f, subscripts)?;
                f.write_char(']')
            }
            Node::Unary(op, a) => write!(f, "{op}{}", Operand(a)),
            Node::Binary(op, a, b) => {
                // `a * b * c` is `(a * b) * c`.
                match &a.node {
                    Node::Binary(inner, ..) if inner == op && *op == "*" => write!(f, "{a} {op} {}", Operand(b)),
                    _ => write!(f, "{} {op} {}", Operand(a), Operand(b)),
                }
            }
            Node::Cast(a) => write!(f, "{} as {}", Operand(a), self.ty),
            Node::If(condition, a, b) => write!(f, "if {condition} {{ {a} }} else {{ {b} }}"),
            Node::Call(name, arguments) => {
                write!(f, "{name}(")?;
                list(f, arguments)?;
                f.write_char(')')
            }
            Node::Reduce(reduce) => {
                write!(f, "{}[", reduce.reducer)?;
                list(f, &reduce.variables)?;
                if let Some(filter) = &reduce.filter {
                    write!(f, " if {filter}")?;
                }
                let bare = matches!(&reduce.body.node, Node::Binary("*" | "/", ..) | Node::Cast(_) | Node::Read(..) | Node::Call(..));
                if bare { write!(f, "] {}", reduce.body) } else { write!(f, "] ({})", reduce.body) }
            }
        }
    }
}

impl Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.range {
            None => f.write_str(&self.name),
            Some((lo, hi)) => write!(f, "{} in {lo}..{hi}", self.name),
        }
    }
}

impl Display for Subscript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            None => self.index.fmt(f),
            Some(rule) => write!(f, "{} | {rule}", self.index),
        }
    }
}

impl Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.ty)?;
        if !self.shape.is_empty() {
            write!(f, "[{}]", self.shape.join(", "))?;
        }
        Ok(())
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(attribute) = &self.attribute {
            writeln!(f, "    {attribute}")?;
        }
        f.write_str(if self.form == Form::Let { "    let " } else { "    " })?;
        f.write_str(&self.name)?;
        if !self.left.is_empty() {
            write!(f, "[{}]", self.left.join(", "))?;
        }
        if let Some(ty) = self.ty {
            write!(f, ": {ty}")?;
        }
        let op = match self.form {
            Form::Accumulate(op) => op,
            _ => "=",
        };
        writeln!(f, " {op} {};", self.value)
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(attribute) = &self.attribute {
            writeln!(f, "{attribute}")?;
        }
        write!(f, "kernel {}(", self.name)?;
        list(f, &self.parameters)?;
        f.write_str(") -> (")?;
        list(f, &self.results)?;
        f.write_char(')')?;
        if !self.conditions.is_empty() {
            write!(f, " where {}", self.conditions.join(", "))?;
        }
        f.write_str(" {\n")?;
        for statement in &self.statements {
            statement.fmt(f)?;
        }
        f.write_str("}\n")
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in &self.items {
            writeln!(f, "{item}")?;
        }
        self.kernel.fmt(f)
    }
}

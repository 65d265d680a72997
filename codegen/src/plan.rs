//! The plan: everything that a GPU will do, decided. The emitter only spells it.
//!
//! ```text
//! Plan   = Launch*                    in order, on one stream; scratch memory between them
//! Launch = entry, parameters, grid formulas, block, Node*
//! Node   = declare    a register variable or array             | shared   a tile in shared memory, padding included
//!        | assign     place = value                            | for      a loop, with how it unrolls
//!        | if         with both sides                          | barrier  all threads of the block
//!        | reduce     a serial reduction in a defined order    | call     a device function for its effect
//!        | comment    a reason for the reader of the text      | return   only where no barrier follows
//! Expr   = literal | name | place | unary | binary | cast | conditional | call of a device function
//! Place  = element of a global, shared or register array, one wide or `lanes` wide
//! ```
//!
//! Loops, staging, widths, padding, unrolling, barriers and launch sizes all stand here; changing one of them is a change of
//! a plan, visible in its printed form. A later asynchronous copy, fragment, mbarrier or role of warps is a further node or
//! a further device function ([`Node::Call`]): inline PTX lives in named device functions only.
//!
//! Invariants (checked by `plan/verify.rs`): every name is declared before use and once per scope; no barrier stands under a
//! condition or in a loop whose bounds depend on the thread; shared memory fits the target; block sizes are legal.

mod append;
pub mod print;
pub mod rename;
pub mod shared;
pub mod verify;

use std::ops;

use gpukc_dsl::types::Type;

use crate::formula::Formula;
use crate::kernel::{Argument, Scratch, Site};

pub use append::append;

/// All launches of one gk kernel.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The gk kernel's name.
    pub name: String,
    /// What it computes, in gk: the text's header comment.
    pub summary: Vec<String>,
    /// Memory between launches.
    pub scratch: Vec<Scratch>,
    /// In order.
    pub launches: Vec<Launch>,
    /// Checked places.
    pub sites: Vec<Site>,
}

/// One `__global__` function and how it is launched.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The function's name.
    pub entry: String,
    /// The schedule's name: `map`, `rows`, `columns`, `contract`, …
    pub schedule: &'static str,
    /// What it does and why each optimisation is there: its comment.
    pub notes: Vec<String>,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// Blocks in x, y, z.
    pub grid: [Formula; 3],
    /// Whether its blocks stride over the work and each costs something of its own, so that a launcher takes no more of them along x
    /// than run at once. Any number from 1 does the same work, and its order is not part of the result.
    pub striding: bool,
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks that should be resident on one multiprocessor; bounds the registers.
    pub resident: Option<u32>,
    /// Neighbouring blocks that run at the same time and see each other's shared memory (`sm_90` and later); else 1.
    pub cluster: u32,
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared: u32,
    /// Whether its blocks may be set up while the launch in front of it on the stream still runs (programmatic dependent launch): the
    /// body then [begins](OVERLAPPING) by letting the next one do so, and by waiting for the end of the one in front.
    pub overlapping: bool,
    /// The body.
    pub body: Vec<Node>,
}

/// What the body of an overlapping launch begins with. Nothing before the wait may touch memory: the launch in front may still write
/// what this one reads, and read what it writes.
pub const OVERLAPPING: [&str; 2] = ["trigger_next_launch", "wait_for_previous_launch"];

impl Launch {
    /// A launch of just so many blocks, which need nothing of one another: its name, schedule and comment; blocks and threads.
    pub fn new(
        (entry, schedule, notes): (String, &'static str, Vec<String>),
        (grid, block): ([Formula; 3], [u32; 3]),
        parameters: Vec<Parameter>,
        body: Vec<Node>,
    ) -> Launch {
        let (striding, resident, cluster, dynamic_shared, overlapping) = (false, None, 1, 0, false);
        Launch { entry, schedule, notes, parameters, grid, striding, block, resident, cluster, dynamic_shared, overlapping, body }
    }
    /// Lets it overlap with the launch in front of it.
    pub fn overlap(&mut self) {
        self.overlapping = true;
        self.body.splice(0..0, OVERLAPPING.map(|function| Node::Call(function.into(), Vec::new())));
    }
}

/// A parameter of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name in the text.
    pub name: String,
    /// Its type.
    pub ty: ParameterType,
    /// What is passed.
    pub argument: Argument,
}

impl Parameter {
    /// Its place among a launch's parameters: scalars of the program, inputs, outputs, sizes.
    pub fn rank(&self) -> u32 {
        match (self.ty, &self.argument) {
            (ParameterType::Value(_), Argument::Scalar(_)) => 0,
            (ParameterType::Input(_), _) => 1,
            (ParameterType::Output(_), _) => 2,
            (ParameterType::Published, _) => 3,
            (ParameterType::Value(_), _) => 4,
            (ParameterType::Report, _) => 5,
        }
    }
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterType {
    /// `const T* __restrict__`: nothing writes it during the launch
    Input(Type),
    /// `T* __restrict__`
    Output(Type),
    /// By value
    Value(Type),
    /// `unsigned long long*`: the report
    Report,
    /// `unsigned long long*`: what blocks write while others of the launch wait for it
    Published,
}

/// How a loop unrolls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroll {
    /// As the compiler likes.
    Default,
    /// Completely: its trip count is a constant, and register arrays are indexed by it.
    Full,
    /// By this factor; 1 keeps it rolled.
    By(u32),
}

/// Where an array of a launch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// In registers of each thread.
    Registers,
    /// In the block's static shared memory.
    Shared,
    /// In the block's dynamic shared memory, from this byte on: a launch may ask for more of it than of static.
    Dynamic(u32),
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A comment line.
    Comment(String),
    /// `const T name = value;` (or without `const`, or without value).
    Declare {
        /// Its type.
        ty: CudaType,
        /// Its name.
        name: String,
        /// Its initial value.
        value: Option<Expr>,
        /// Whether it is assigned later.
        mutable: bool,
    },
    /// `T name[extents];` in registers or shared memory.
    Array {
        /// Element type.
        ty: CudaType,
        /// Its name.
        name: String,
        /// Extents, slowest first, padding included.
        extents: Vec<u32>,
        /// Where it lies.
        memory: Memory,
        /// Initialised to zero bits.
        zeroed: bool,
    },
    /// `place = value;`, spelled `place op= x;` where the value is `place op x`.
    Assign(Expr, Expr),
    /// `for (T variable = lo; variable < hi; variable += step) { body }`
    For {
        /// The loop variable.
        variable: String,
        /// Its type.
        ty: CudaType,
        /// First value.
        lo: Expr,
        /// While below.
        hi: Expr,
        /// Step.
        step: Expr,
        /// How it unrolls.
        unroll: Unroll,
        /// The body.
        body: Vec<Node>,
    },
    /// `while (condition) { body }`: how often is not known before.
    While(Expr, Vec<Node>),
    /// A branch.
    If {
        /// The condition.
        condition: Expr,
        /// Where it holds.
        then: Vec<Node>,
        /// Where it does not.
        otherwise: Vec<Node>,
    },
    /// `__syncthreads();`
    Barrier,
    /// `return;`
    Return(Option<Expr>),
    /// A device function called for its effect.
    Call(String, Vec<Expr>),
    /// `const T name = helper<levels>(count, identity, [&](T accumulator, long long term) { body; return value; });`
    /// One thread reduces `count` terms in the order that the helper's name says.
    Reduce {
        /// The result.
        name: String,
        /// Its type.
        ty: CudaType,
        /// The device function.
        helper: &'static str,
        /// Template and leading arguments.
        arguments: Vec<Expr>,
        /// The accumulator's name in the body.
        accumulator: String,
        /// The term's number in the body.
        term: String,
        /// Computes the term.
        body: Vec<Node>,
        /// The accumulator's next value.
        value: Expr,
    },
    /// `{ … }`
    Scope(Vec<Node>),
}

/// The type of a register variable or element in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CudaType {
    /// An element of a gk type. f16 and bf16 are their bits, 16 bits wide.
    Element(Type),
    /// `Pack<T, lanes>`: neighbouring elements that move as one access.
    Pack(Type, u32),
    /// `Best<T>`: the value and index that an argmin or argmax has found.
    Best(Type),
    /// A named class of the prelude, such as `CanonicalLevels<float>`.
    Class(&'static str, Type),
}

impl From<Type> for CudaType {
    fn from(ty: Type) -> CudaType {
        CudaType::Element(ty)
    }
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// An integer of type `int`, or with the suffix of a wider or unsigned type.
    Int(i128, Type),
    /// A float; f64 holds f32's value exactly.
    Float(f64, Type),
    /// `true`, `false`
    Bool(bool),
    /// A variable, parameter or built-in such as `threadIdx.x`.
    Name(String),
    /// `array[i][j]`: an element of a register, shared or global array.
    Element(Box<Expr>, Vec<Expr>),
    /// `pack.at[i]`
    Lane(Box<Expr>, Box<Expr>),
    /// `*(Pack<T, lanes>*)&array[index]`: a wide access
    Wide(Type, u32, Box<Expr>, Box<Expr>),
    /// `-x`, `!x`, `~x`
    Unary(&'static str, Box<Expr>),
    /// `a op b`, C++ operators
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `(T)x`
    Cast(CudaType, Box<Expr>),
    /// `c ? a : b`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A device function: a helper, a function of the program, or of CUDA.
    Call(String, Vec<Expr>),
}

/// What two integer constants make: of 64 bits if one of them is.
fn folded(value: i128, a: &Expr, b: &Expr) -> Expr {
    let wide = [a, b].iter().any(|x| matches!(x, Expr::Int(_, Type::I64)));
    Expr::Int(value, if wide { Type::I64 } else { Type::I32 })
}

/// A name.
pub fn name(text: impl Into<String>) -> Expr {
    Expr::Name(text.into())
}

/// An `int`.
pub fn int(value: i64) -> Expr {
    Expr::Int(value as i128, Type::I32)
}

/// A `long long` (spelled without suffix where that says the same).
pub fn long(value: i64) -> Expr {
    Expr::Int(value as i128, Type::I64)
}

/// A call of a device function.
pub fn call(function: impl Into<String>, arguments: Vec<Expr>) -> Expr {
    Expr::Call(function.into(), arguments)
}

impl Expr {
    /// `self[index]`
    pub fn at(self, index: impl Into<Expr>) -> Expr {
        match self {
            Expr::Element(array, mut indices) => {
                indices.push(index.into());
                Expr::Element(array, indices)
            }
            array => Expr::Element(Box::new(array), vec![index.into()]),
        }
    }
    /// `self.at[lane]` of a pack
    pub fn lane(self, lane: impl Into<Expr>) -> Expr {
        Expr::Lane(Box::new(self), Box::new(lane.into()))
    }
    /// `self op other`, integer constants folded.
    pub fn binary(self, op: &'static str, other: impl Into<Expr>) -> Expr {
        let other = other.into();
        match (op, self.constant(), other.constant()) {
            ("+", Some(0), _) | ("*", Some(1), _) => return other,
            ("+" | "-", _, Some(0)) | ("*" | "/", _, Some(1)) => return self,
            ("*", _, Some(0)) => return other,
            ("*", Some(0), _) => return self,
            ("+", Some(a), Some(b)) => return folded(a + b, &self, &other),
            ("-", Some(a), Some(b)) => return folded(a - b, &self, &other),
            ("*", Some(a), Some(b)) => return folded(a * b, &self, &other),
            ("/", Some(a), Some(b)) if b > 0 => return folded(a / b, &self, &other),
            ("%", Some(a), Some(b)) if b > 0 => return folded(a % b, &self, &other),
            _ => {}
        }
        Expr::Binary(op, Box::new(self), Box::new(other))
    }
    /// The value of an integer constant.
    pub fn constant(&self) -> Option<i128> {
        if let Expr::Int(value, Type::I32 | Type::I64) = self { Some(*value) } else { None }
    }
    /// `self < other`
    pub fn less(self, other: impl Into<Expr>) -> Expr {
        self.binary("<", other)
    }
    /// `self && other`
    pub fn and(self, other: impl Into<Expr>) -> Expr {
        self.binary("&&", other)
    }
    /// `self ? a : b`
    pub fn choose(self, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        Expr::Conditional(Box::new(self), Box::new(a.into()), Box::new(b.into()))
    }
    /// `(T)self`
    pub fn cast(self, ty: impl Into<CudaType>) -> Expr {
        Expr::Cast(ty.into(), Box::new(self))
    }
    /// Visits this expression and all below it.
    pub fn walk(&self, visit: &mut impl FnMut(&Expr)) {
        visit(self);
        match self {
            Expr::Int(..) | Expr::Float(..) | Expr::Bool(_) | Expr::Name(_) => {}
            Expr::Element(array, indices) => {
                array.walk(visit);
                indices.iter().for_each(|index| index.walk(visit));
            }
            Expr::Lane(a, b) | Expr::Wide(_, _, a, b) | Expr::Binary(_, a, b) => {
                a.walk(visit);
                b.walk(visit);
            }
            Expr::Unary(_, a) | Expr::Cast(_, a) => a.walk(visit),
            Expr::Conditional(a, b, c) => {
                a.walk(visit);
                b.walk(visit);
                c.walk(visit);
            }
            Expr::Call(_, arguments) => arguments.iter().for_each(|argument| argument.walk(visit)),
        }
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        int(value)
    }
}
impl From<&str> for Expr {
    fn from(text: &str) -> Expr {
        name(text)
    }
}
impl<T: Into<Expr>> ops::Add<T> for Expr {
    type Output = Expr;
    fn add(self, other: T) -> Expr {
        self.binary("+", other)
    }
}
impl<T: Into<Expr>> ops::Sub<T> for Expr {
    type Output = Expr;
    fn sub(self, other: T) -> Expr {
        self.binary("-", other)
    }
}
impl<T: Into<Expr>> ops::Mul<T> for Expr {
    type Output = Expr;
    fn mul(self, other: T) -> Expr {
        self.binary("*", other)
    }
}
impl<T: Into<Expr>> ops::Div<T> for Expr {
    type Output = Expr;
    fn div(self, other: T) -> Expr {
        self.binary("/", other)
    }
}
impl<T: Into<Expr>> ops::Rem<T> for Expr {
    type Output = Expr;
    fn rem(self, other: T) -> Expr {
        self.binary("%", other)
    }
}

/// Visits every expression of some nodes.
pub fn walk_nodes(nodes: &[Node], visit: &mut impl FnMut(&Expr)) {
    for node in nodes {
        match node {
            Node::Comment(_) | Node::Array { .. } | Node::Barrier => {}
            Node::Declare { value, .. } | Node::Return(value) => value.iter().for_each(|value| value.walk(visit)),
            Node::Assign(place, value) => {
                place.walk(visit);
                value.walk(visit);
            }
            Node::For { lo, hi, step, body, .. } => {
                [lo, hi, step].into_iter().for_each(|bound| bound.walk(visit));
                walk_nodes(body, visit);
            }
            Node::While(condition, body) => {
                condition.walk(visit);
                walk_nodes(body, visit);
            }
            Node::If { condition, then, otherwise } => {
                condition.walk(visit);
                walk_nodes(then, visit);
                walk_nodes(otherwise, visit);
            }
            Node::Call(_, arguments) => arguments.iter().for_each(|argument| argument.walk(visit)),
            Node::Reduce { arguments, body, value, helper, .. } => {
                visit(&Expr::Call((*helper).into(), Vec::new()));
                arguments.iter().for_each(|argument| argument.walk(visit));
                walk_nodes(body, visit);
                value.walk(visit);
            }
            Node::Scope(body) => walk_nodes(body, visit),
        }
    }
    // Calls for effect name a device function too.
    for node in nodes {
        if let Node::Call(function, _) = node {
            visit(&Expr::Call(function.clone(), Vec::new()));
        }
    }
}

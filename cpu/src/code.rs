//! What a statement is compiled to: lists of instructions over registers.

use gpukc_dsl::source::Span;

use crate::exec::{Failure, Machine};
use crate::frame::{Frame, Layout, Reg};
use crate::lin::Lin;
use crate::ops::{Fn1, Fn2, Fn3};

/// A sum of constants, counters and registers; affine along the lanes if there is no column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Index {
    pub constant: i64,
    /// Coefficients and what they belong to.
    pub uniform: Vec<(i64, Source)>,
    /// What the next lane has more.
    pub stride: i64,
    /// An `i64` register that is added lane by lane; then the stride is 0.
    pub column: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A loop counter.
    Counter(u32),
    /// An `i64` register.
    Reg(u32),
}

impl Index {
    /// The part that all lanes share.
    #[inline(always)]
    pub fn base(&self, frame: &Frame) -> i64 {
        let mut sum = self.constant;
        for &(coefficient, source) in &self.uniform {
            let value = match source {
                Source::Counter(counter) => frame.counters[counter as usize],
                Source::Reg(reg) => frame.first::<i64>(reg),
            };
            sum = sum.wrapping_add(coefficient.wrapping_mul(value));
        }
        sum
    }
    /// Whether lanes differ.
    pub fn varies(&self) -> bool {
        self.stride != 0 || self.column.is_some()
    }
}

/// One instruction.
pub enum Instr {
    Op1(Fn1, u32, u32),
    Op2(Fn2, u32, u32, u32),
    Op3(Fn3, u32, u32, u32, u32),
    /// An index as a register.
    Index(u32, Index),
    /// A sum of columns, and of a multiple of a lane counter.
    Columns(Columns),
    Read(Box<Read>),
    Reduce(Box<ReduceCode>),
    Loop(Box<Loop>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Columns {
    pub dst: u32,
    pub stride: i64,
    pub counter: Option<u32>,
    pub columns: Vec<(i64, u32)>,
}

/// How an index outside is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    Checked,
    Clamp,
    Wrap,
    Mirror,
    Symmetric,
    Constant,
    Drop,
}

/// A dimension whose index may be outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ruled {
    pub index: Index,
    pub rule: Rule,
    pub extent: i64,
    /// Elements from one index to the next.
    pub pitch: i64,
    pub axis: usize,
    pub span: Span,
    /// The value outside.
    pub fill: Option<Reg>,
}

/// Reads elements of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Read {
    pub dst: Reg,
    pub array: usize,
    /// Offset of the dimensions whose index is in range.
    pub flat: Index,
    pub ruled: Vec<Ruled>,
    /// Lanes that are evaluated; the others give zero.
    pub mask: Option<u32>,
}

/// The number of values of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Len {
    Const(i64),
    Uniform(Index),
    /// Differs from lane to lane: an `i64` register.
    Column(u32),
}

/// Lanes along a box of counters.
#[derive(Clone, Debug, Default)]
pub struct Flat {
    /// The counter of the position in the box; the box's own counters, if the lanes run along the last alone.
    pub counter: u32,
    /// Extents of the box, and registers that hold the values of its counters, where they are needed.
    pub columns: Vec<(i64, Option<u32>)>,
}

pub type ReduceFn = fn(&Machine, &mut Frame, &ReduceCode) -> Result<(), Failure>;

/// A reduction.
pub struct ReduceCode {
    pub run: ReduceFn,
    /// Whether lanes run along the terms; else terms follow each other for all lanes at once.
    pub row: bool,
    pub dst: Reg,
    /// Counters and numbers of values, the slowest first.
    pub variables: Vec<(u32, Len)>,
    /// Columns that hold the variables' counters, where lengths differ from lane to lane.
    pub digits: Vec<u32>,
    /// Of row mode with lanes across the last variable's rows.
    pub flat: Option<Flat>,
    pub body: Vec<Instr>,
    /// The term, or its factors.
    pub a: Reg,
    pub b: Option<Reg>,
    /// Lanes whose term counts.
    pub keep: Option<u32>,
    /// Set by the loop: lanes that still have terms.
    pub active: Option<u32>,
    /// Lanes that are evaluated at all.
    pub mask: Option<u32>,
    pub order: OrderCode,
    pub least: Option<Index>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OrderCode {
    Exact,
    Canonical,
    /// `W`: how many runs are wanted.
    Sharing(i64),
    /// The last value of a scan of the terms, ascending or descending.
    Scan {
        forward: bool,
    },
}

/// `while`, `for`.
pub struct Loop {
    /// Counts the iterations.
    pub counter: Option<u32>,
    /// How many there are, if all lanes agree.
    pub trips: Option<Index>,
    pub condition: Vec<Instr>,
    /// bool
    pub holds: Option<u32>,
    /// Set by the loop: lanes that are still in it.
    pub active: Option<u32>,
    pub mask: Option<u32>,
    pub body: Vec<Instr>,
}

impl Step {
    /// Whether outputs may have different numbers of terms.
    pub fn is_ragged(&self) -> bool {
        self.scopes.iter().flatten().any(|instr| match instr {
            Instr::Reduce(code) => code.variables.iter().any(|(_, len)| !matches!(len, Len::Const(_))),
            _ => false,
        })
    }
}

/// A statement's code.
pub struct Step {
    pub layout: Layout,
    pub counters: usize,
    pub constants: Vec<(Reg, u64)>,
    /// Instructions by depth: of statements over a box, what the outer variables decide, then what the lanes do.
    pub scopes: Vec<Vec<Instr>>,
    /// Left-side variables with their counters: the last `lanes` of them run along the lanes.
    pub variables: Vec<(u32, Len)>,
    pub lanes: usize,
    pub flat: Option<Flat>,
    pub value: Reg,
    /// Lanes that have a value, if not all.
    pub keep: Option<Reg>,
    /// Where values go: the offset that dimensions in range decide, and the others.
    pub place: Lin,
    pub offset: Index,
    pub ruled: Vec<Ruled>,
    /// Ranges depend on one another: each variable has a scope.
    pub nested: bool,
}

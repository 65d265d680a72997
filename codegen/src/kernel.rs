//! What a gk kernel compiles to: CUDA text and the contract for launching it. This is all that `runtime` sees.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpukc_dsl::program::{ArrayId, ScalarId};
use gpukc_dsl::source::Span;
use gpukc_dsl::types::Type;

use crate::formula::Formula;

/// CUDA text for one gk kernel, with the launches that run it.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The gk kernel's name.
    pub name: String,
    /// A self-contained CUDA C++ text: what NVRTC receives.
    pub source: Arc<str>,
    /// Device memory that the launches need between them, by index.
    pub scratch: Vec<Scratch>,
    /// To be launched in this order on one stream. A launch whose grid has an extent of zero is left out.
    pub launches: Vec<Launch>,
    /// Places that a device-side check can report, by number.
    pub sites: Vec<Site>,
}

impl Kernel {
    /// The scalars that the sizes of launches and memory depend on, and arguments other than themselves.
    pub fn sized_by(&self) -> BTreeSet<ScalarId> {
        let mut found = BTreeSet::new();
        self.scratch.iter().for_each(|scratch| scratch.bytes.scalars(&mut found));
        for launch in &self.launches {
            launch.grid.iter().for_each(|extent| extent.scalars(&mut found));
            for argument in &launch.arguments {
                if let Argument::Size(formula, _) = argument {
                    formula.scalars(&mut found);
                }
            }
        }
        found
    }
}

/// A piece of device memory that lives for one call.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// What it holds.
    pub name: String,
    /// Its size in bytes; aligned to 256 by the runtime.
    pub bytes: Formula,
    /// Whether it must be zero before the first launch.
    pub zeroed: bool,
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The `extern "C" __global__` function.
    pub entry: String,
    /// Blocks in x, y, z.
    pub grid: [Formula; 3],
    /// Whether fewer blocks along x do the same, from 1 on, and more than run at once only cost.
    pub striding: bool,
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster, neighbours along x; 1 without clusters. The text says it too: a launch need not.
    pub cluster: u32,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Whether it may be launched with programmatic stream serialization: it waits for the launch in front of it by itself.
    pub overlapping: bool,
    /// In the order of the function's parameters.
    pub arguments: Vec<Argument>,
    /// The statements that it computes, in the source.
    pub span: Span,
}

/// What a launch passes.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// The device pointer of a parameter or a result.
    Array(ArrayId),
    /// The device pointer of a scratch memory.
    Scratch(usize),
    /// A scalar parameter by value: 1, 2, 4 or 8 bytes of its type (`bool` as one byte, f16 and bf16 as their bits).
    Scalar(ScalarId),
    /// A formula's value as `int` ([`Type::I32`]) or `long long` ([`Type::I64`]).
    Size(Formula, Type),
    /// The device pointer of the [report](REPORT_WORDS).
    Report,
}

/// A report is this many 64-bit words, zero before the first launch: whether something is reported (0 or 1), the number of
/// the [`Site`], the index as a signed number, the extent.
pub const REPORT_WORDS: usize = 4;

/// A place whose index is checked on the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The array's name in gk.
    pub array: String,
    /// Which of its axes.
    pub axis: usize,
    /// The subscript in the source.
    pub span: Span,
}

//! How threads lie over the rows and columns that a block takes.

use gpukc_dsl::program::{ExprKind, Ranged, Statement, Subscript};

use super::super::context::Lowering;
use super::super::group::only_reduction;
use super::super::packs::{self, Along, Read, Verdict};
use super::super::read::inside_everywhere;
use super::super::reduction::Reduction;
use super::super::split::Level;
use crate::formula::Formula;
use crate::plan::CudaType;
use crate::{size, walk};

/// Accumulators of a block of the canonical order.
pub const ACCUMULATORS: i64 = 128;
/// Threads of a block, where the accumulators suffice.
const THREADS: i64 = 256;
/// Fewer blocks than this do not keep a large device's memory busy; a cluster then shares the accumulators of a block of rows.
const FEW_BLOCKS: i64 = 256;
/// From so many blocks on, tiles of [`LINE`] are better than a cluster, whose blocks wait for each other: sums of 32×100×32×256 f32 over
/// axes 0 and 2 on an H200 33.0 to 26.8 µs (800 blocks), of f16 18.2 to 15.3 µs (400).
const MANY_NARROW: i64 = 384;
/// Bytes of a row that a tile has at least where accesses are packs: a line of memory.
const LINE: i64 = 128;
/// Fewer terms than this are not worth a cluster.
const SHORT: i64 = 1024;
/// Blocks of such a cluster.
const SLICES: i64 = 8;
/// Registers that a thread's accumulators, and a pack that is in flight for each of them, may take of the 128 that two resident blocks
/// leave it: with more of them some go through memory.
const MOST_REGISTERS: i64 = 96;
/// Registers and bytes of a pack.
const PACK: i64 = 4;
const PACK_BYTES: i64 = 16;
/// Accesses of each array that a thread has in flight, if it holds many accumulators or few.
const IN_FLIGHT: [i64; 2] = [8, 16];
/// Most arrays whose elements are loaded ahead one by one; of more the compiler orders the loads.
const MOST_SINGLE: usize = 2;
/// Accumulators of a thread that are few.
const FEW_HELD: i64 = 8;

/// Blocks that should be resident at once: the registers that this leaves hold all loads that are to be in flight (sums of the columns
/// of 65536×128 f32 on an H200: 11.7 to 10.0 µs, of 1048576×16: 20.6 to 17.1 µs); and how many where loads of narrow elements take no more
/// than half of those.
const RESIDENT: u32 = 2;
const RESIDENT_NARROW: u32 = 4;
/// Registers of a thread's accumulators and loads in flight of which four blocks are faster (minima of the columns of 8192×8192 u8: 25.6 to
/// 24.5 µs; sums of f16, which take 48: 39.3 to 39.7 µs).
const NARROW_REGISTERS: i64 = 32;

/// Heights of short columns, each of which one thread takes as a whole: the heights that a text serves end at one of them.
const SHORT_COLUMNS: [i64; 3] = [4, 8, 16];

/// How threads lie over the rows and columns of a block. A thread holds `own` neighbouring accumulators of each of `lanes`
/// neighbouring columns.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Neighbouring columns that one access takes.
    pub lanes: i64,
    /// Threads along the columns.
    pub across: i64,
    /// Threads along the rows.
    pub along: i64,
    /// Accumulators of a column in one thread.
    pub own: i64,
    /// Blocks that share the accumulators as a cluster.
    pub slices: i64,
}

impl Layout {
    /// Columns of a tile.
    pub fn tile(self) -> i64 {
        self.lanes * self.across
    }
    /// Whether a thread has whole columns: a tile then goes on with the columns of the next outer index.
    pub fn has_whole_columns(self) -> bool {
        self.along * self.slices == 1
    }
    /// The accumulators that terms reach.
    pub fn reach(self) -> i64 {
        self.own * self.along * self.slices
    }
    /// Rounds of rows whose accesses are in flight together.
    pub fn depth(self) -> i64 {
        let few = self.own * self.lanes <= FEW_HELD;
        (IN_FLIGHT[usize::from(few)] / self.own).max(1)
    }

    /// Blocks that should be resident at once, of accumulators and elements of so many bytes.
    pub fn resident(self, accumulator: i64, element: i64) -> u32 {
        let accumulators = self.own * self.lanes * accumulator.max(4) / 4;
        let loads = self.depth() * self.own * (self.lanes * element).max(4) / 4;
        let narrow = self.lanes > 1 && element > 0 && accumulators + loads <= NARROW_REGISTERS;
        if narrow { RESIDENT_NARROW } else { RESIDENT }
    }

    /// The layout for a level whose accumulators have so many bytes: `blocks(columns)` gives the blocks that tiles of so many columns
    /// make.
    pub fn choose(
        lowering: &Lowering,
        level: &Level,
        width: &Formula,
        (lanes, bytes): (i64, i64),
        blocks: impl Fn(i64) -> Formula,
    ) -> Layout {
        let facts = lowering.facts;
        let registers = bytes.max(4) / 4;
        if let Some(own) = SHORT_COLUMNS.into_iter().find(|height| facts.below(&level.terms, height + 1)) {
            // Accumulators, and as many elements that are in flight.
            let fits = |lanes: &i64| 2 * own * lanes * registers <= MOST_REGISTERS;
            let lanes = [lanes, lanes / 2].into_iter().find(|lanes| *lanes > 1 && fits(lanes)).unwrap_or(1);
            return Layout { lanes, across: THREADS, along: 1, own, slices: 1 };
        }
        let reach = [32, 64].into_iter().find(|reach| facts.below(&level.terms, reach + 1)).unwrap_or(ACCUMULATORS);
        // A warp reads a few whole lines of memory, of narrow matrices several rows.
        let narrowest = [4, 8, 16].into_iter().find(|across| facts.below(width, across * lanes + 1)).unwrap_or(32);
        let long = !facts.below(&level.terms, SHORT);
        let few = reach == ACCUMULATORS && long && facts.below(&blocks(narrowest * lanes), FEW_BLOCKS);
        // A tile of a line of memory, by packs.
        let line = LINE / PACK_BYTES;
        let narrow = few && lanes > 1 && line < narrowest && facts.at_least(&blocks(line * lanes), MANY_NARROW);
        let (narrowest, few) = if narrow { (line, false) } else { (narrowest, few) };
        let slices = if few && lowering.target.capability >= 90 { SLICES } else { 1 };
        let held = reach / slices;
        let mut across = narrowest;
        let mut along = (THREADS / across).min(held);
        let registers = lanes * registers + PACK;
        while held / along * registers > MOST_REGISTERS && lanes > 1 {
            (across, along) = (across / 2, along * 2);
        }
        Layout { lanes, across, along, own: held / along, slices }
    }
}

/// The arrays whose rows are loaded ahead, and how many columns an access serves: reads of whole rows at the loop's own variables. It
/// serves several where every row starts at a multiple of the access.
pub fn packed(lowering: &Lowering, statement: &Statement, reduction: &Reduction, columns: &Ranged) -> (i64, Vec<Along>) {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if !facts.aligned || reduction.reduce.filter.is_some() || !matches!(reduction.accumulator, CudaType::Element(_)) {
        return (1, Vec::new());
    }
    let ranges: Vec<Ranged> = statement.variables.iter().chain(&reduction.reduce.variables).copied().collect();
    let whole = |read: &Read| inside_everywhere(kernel, facts, read.array, read.subscripts, read.own);
    let packed = packs::along(lowering, &[reduction.reduce.body], &ranges, |read| match read.in_place {
        None if runs_along(lowering, read.subscripts, columns) && whole(read) => Verdict::Along,
        _ => Verdict::Apart,
    });
    let widest = packed.iter().map(|along| kernel.arrays[along.array].element.size()).max().unwrap_or(1);
    let extent = size::extent(kernel, facts, columns);
    let fits = |lanes: &i64| extent.as_ref().is_some_and(|extent| facts.multiple(extent, *lanes));
    // All or one: what half of them would gain is not worth a text of its own, but where elements are narrow.
    let narrow = widest <= 2;
    let lanes = [8, 4, 2].into_iter().filter(|lanes| lanes * widest as i64 <= 16);
    let lanes = lanes.take(if narrow { 2 } else { 1 }).find(fits);
    match lanes {
        Some(lanes) if !packed.is_empty() => (lanes, packed),
        _ if packed.len() <= MOST_SINGLE => (1, packed),
        _ => (1, Vec::new()),
    }
}

/// Whether the columns' variable is the last subscript.
fn runs_along(lowering: &Lowering, subscripts: &[Subscript], columns: &Ranged) -> bool {
    let alone = |subscript: &Subscript| lowering.kernel.exprs[subscript.index].kind == ExprKind::Variable(columns.variable);
    subscripts.split_last().is_some_and(|(last, before)| {
        let mentions = |s: &Subscript| walk::mentions(lowering.kernel, s.index, columns.variable);
        alone(last) && !before.iter().any(mentions)
    })
}

/// Whether the statement's result may be stored as packs: of its type and with its rows.
pub fn stores_packs(lowering: &Lowering, statement: &Statement, lanes: i64) -> bool {
    let element = lowering.kernel.arrays[statement.array].element;
    only_reduction(lowering.kernel, statement).is_some() && lanes > 1 && element.size() as i64 * lanes <= 16
}

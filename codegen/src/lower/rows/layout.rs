//! How threads lie over a row.

use super::tile::Tile;
use crate::target::Target;

/// Terms of a block of the canonical order.
pub const BLOCK: i64 = 4096;
/// Accumulators of a block.
pub const ACCUMULATORS: i64 = 128;

/// How threads lie over a row.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// `packs` of four accumulators a lane, `4 * lanes` elements apart; `steps` of 128 elements. Rows longer than a block of the canonical
    /// order have a warp for each.
    Lanes {
        lanes: i64,
        packs: i64,
        steps: i64,
        warps: i64,
    },
    /// `parts` accumulators a lane, `lanes` elements apart, and `steps` of all of them: neighbouring lanes have neighbouring elements, where
    /// rows do not allow packs.
    Strided {
        lanes: i64,
        parts: i64,
        steps: i64,
    },
    /// `groups` of 128 threads a block, an accumulator a thread, and a cluster of `blocks` a row.
    Registers {
        groups: i64,
        steps: i64,
        blocks: i64,
    },
    Reload {
        groups: i64,
    },
    /// Rows along a strided dimension: a tile of them.
    Columns(Tile),
}

/// Blocks of the largest cluster that every device with clusters runs.
const MOST_BLOCKS: i64 = 8;

/// Elements of the longest row that a cluster holds.
pub const LONGEST: i64 = MOST_BLOCKS * 8 * BLOCK;

/// Blocks of a launch that leave no more than two for most multiprocessors.
pub const FEW_BLOCKS: i64 = 256;

/// Registers of a multiprocessor; those that a thread held of its row where numbers of blocks were measured, and about as many for the
/// rest of its work.
const REGISTERS: i64 = 65536;
const MEASURED: i64 = 32;

/// What of rows moves between memory and registers.
#[derive(Clone, Copy)]
pub struct Moved {
    /// Bytes of the widest element.
    pub widest: usize,
    /// Whether elements move as packs of four.
    pub packed: bool,
    /// Bytes of all arrays for one position, if nothing but what is read must be held.
    pub held: Option<usize>,
    /// Whether all that leaves is a value for each row.
    pub reduced: bool,
}

impl Moved {
    /// Whether a lane can hold 128 positions, with registers for the rest of its work.
    fn fits_lanes(self) -> bool {
        self.packed && self.widest <= 2 && self.held.is_some_and(|bytes| bytes <= if self.reduced { 4 } else { 2 })
    }
}

impl Layout {
    /// The blocks that take a row.
    pub fn blocks(self) -> i64 {
        match self {
            Layout::Registers { blocks, .. } => blocks,
            Layout::Columns(tile) => tile.slices,
            _ => 1,
        }
    }
    /// The layout of contiguous rows. Longer rows than 512 elements are better off with a block each, unless its accesses were of 2 bytes
    /// or rows are only reduced. On an H200: softmax of 8,192×1,024 f32 19.3 µs, by blocks 17.5 µs; f16 13.4 µs, by blocks 14.4 µs;
    /// product of an f16 matrix 16,384×16,384 and a vector 123 µs, by blocks 160 µs; row sums of 16,384×1,024 f32 16.1 µs, by blocks
    /// 20.4 µs.
    pub fn choose(bound: Option<i64>, moved: Moved, target: Target) -> Layout {
        let clusters = if target.capability >= 90 { MOST_BLOCKS } else { 1 };
        let packed = moved.packed;
        let lanes_up_to = if packed && (moved.widest <= 2 || moved.reduced) { 1024 } else { 512 };
        match bound {
            // A lane has such a row by itself: of longer ones it would have few elements, and few loads in flight.
            Some(bound) if bound <= 4 && packed => Layout::Lanes { lanes: 1, packs: 1, steps: 1, warps: 1 },
            Some(bound) if bound <= 4 => Layout::Strided { lanes: 1, parts: bound, steps: 1 },
            Some(bound) if bound <= lanes_up_to && !packed => {
                let lanes = (bound / 4).clamp(4, 32);
                let within = bound.min(ACCUMULATORS);
                Layout::Strided { lanes, parts: within / lanes, steps: bound / within }
            }
            // About 16 elements a lane: enough loads in flight, few shuffles.
            Some(bound) if bound <= lanes_up_to => {
                let lanes = (bound / 16).clamp(2, 32);
                let within = bound.min(ACCUMULATORS);
                Layout::Lanes { lanes, packs: within / (4 * lanes), steps: bound / within, warps: 1 }
            }
            Some(bound) if bound <= 8 * BLOCK && moved.fits_lanes() => {
                Layout::Lanes { lanes: 32, packs: 1, steps: bound.min(BLOCK) / ACCUMULATORS, warps: (bound / BLOCK).max(1) }
            }
            Some(bound) if bound <= BLOCK => Layout::Registers { groups: 1, steps: bound / ACCUMULATORS, blocks: 1 },
            // Blocks of 512 threads, so that one loads while another one computes.
            Some(bound) if bound > 4 * BLOCK && bound <= clusters * 4 * BLOCK => {
                Layout::Registers { groups: 4, steps: 32, blocks: bound / (4 * BLOCK) }
            }
            Some(bound) if bound <= 8 * BLOCK => Layout::Registers { groups: bound / BLOCK, steps: 32, blocks: 1 },
            Some(bound) if bound <= clusters * 8 * BLOCK => Layout::Registers { groups: 8, steps: 32, blocks: bound / (8 * BLOCK) },
            Some(_) => Layout::Reload { groups: 8 },
            None => Layout::Reload { groups: 2 },
        }
    }
    pub fn threads(self) -> i64 {
        match self {
            Layout::Lanes { warps: warps @ 2.., .. } => 32 * warps,
            _ if self.is_long() => 128,
            Layout::Lanes { .. } | Layout::Strided { .. } => 256,
            Layout::Registers { groups, .. } | Layout::Reload { groups } => groups * ACCUMULATORS,
            Layout::Columns(tile) => tile.threads(),
        }
    }
    /// Threads of a block in x, y, z.
    pub fn block(self) -> [u32; 3] {
        match self {
            Layout::Columns(tile) => [tile.across as u32, tile.along as u32, 1],
            _ => [self.threads() as u32, 1, 1],
        }
    }
    /// The schedule's name in a plan.
    pub fn schedule(self) -> &'static str {
        if let Layout::Columns(_) = self { "columns" } else { "rows" }
    }
    /// Elements of a pack: neighbours in a row, or of neighbouring columns.
    pub fn pack(self) -> u32 {
        match self {
            Layout::Lanes { .. } => 4,
            Layout::Columns(tile) => tile.lanes as u32,
            _ => 1,
        }
    }
    /// Neighbouring rows of a thread.
    pub fn lanes(self) -> i64 {
        if let Layout::Columns(tile) = self { tile.lanes } else { 1 }
    }
    /// Blocks that should be resident at once, where `alone` says that nothing but the row is read. More leave too few registers for
    /// loads in flight, fewer leave multiprocessors idle at barriers. On an H200: layernorm 4096×4096, 10 blocks 38.9 µs, 8 blocks
    /// 36.4 µs; layernorm 128×131072, 2 blocks 55.3 µs, as many as fit 58.8 µs; softmax 128×131072, 3 blocks 50.8 µs, 2 blocks 54.1 µs.
    /// Where there are `few` blocks anyway, two leave each its registers. Where a thread holds more registers than those did, as many
    /// blocks as have room for them.
    pub fn resident(self, alone: bool, few: bool, held: i64) -> Option<u32> {
        let measured = match self {
            Layout::Registers { groups: 1, .. } => Some(8),
            Layout::Registers { groups: 2, blocks: 1, .. } => Some(4),
            Layout::Registers { groups: 4, .. } if alone && !few => Some(3),
            Layout::Registers { groups: 4, .. } => Some(2),
            _ if self.is_long() => None,
            Layout::Lanes { .. } | Layout::Strided { .. } => Some(5),
            Layout::Columns(tile) => return Some(tile.resident() as u32),
            _ => None,
        };
        if held <= MEASURED {
            return measured;
        }
        let fit = (REGISTERS / (self.threads() * (held + MEASURED))).max(1) as u32;
        measured.map(|most| most.min(fit))
    }
    pub fn rows_per_block(self) -> i64 {
        match self {
            Layout::Lanes { warps: 2.., .. } => 1,
            Layout::Lanes { lanes, .. } | Layout::Strided { lanes, .. } => self.threads() / lanes,
            Layout::Columns(tile) => tile.columns(),
            _ => 1,
        }
    }
    pub fn notes(self) -> Vec<String> {
        match self {
            Layout::Lanes { warps: 2.., .. } => vec![
                "Rows: a warp takes a block of the canonical order, packs of four neighbouring accumulators a lane, and holds it"
                    .into(),
                "in registers: each element is read once and written once. Warps meet through a few words of shared memory.".into(),
            ],
            Layout::Lanes { lanes: 1, .. } | Layout::Strided { lanes: 1, .. } => {
                vec!["Rows: a thread takes a short row and holds it in registers: each element is read once and written once.".into()]
            }
            Layout::Lanes { lanes, .. } => vec![
                format!(
                    "Rows: {lanes} lanes of a warp take a row, packs of four neighbouring accumulators each, and hold it in registers:"
                ),
                "each element is read once and written once. Partial results meet by shuffles.".into(),
            ],
            Layout::Strided { lanes, .. } => vec![
                format!(
                    "Rows: {lanes} lanes of a warp take a row, neighbouring lanes neighbouring elements, and hold it in registers:"
                ),
                "each element is read once and written once. Partial results meet by shuffles.".into(),
            ],
            Layout::Registers { blocks: 2.., .. } => vec![
                "Rows: a cluster of blocks takes a row and holds it in registers, one accumulator of the canonical order a".into(),
                "thread: each element is read once and written once. Warps meet through shared memory, blocks through each".into(),
                "other's.".into(),
            ],
            Layout::Registers { .. } => vec![
                "Rows: a block takes a row and holds it in registers, one accumulator of the canonical order a thread:".into(),
                "each element is read once and written once. Warps meet through a few words of shared memory.".into(),
            ],
            Layout::Reload { .. } => vec![
                "Rows: a block takes a row of any length, one accumulator of the canonical order a thread. Each pass reads".into(),
                "the row again, from the cache where it fits. Warps meet through shared memory.".into(),
            ],
            Layout::Columns(tile) => tile.notes(),
        }
    }
}

impl Layout {
    /// The length of the longest row that the layout holds.
    pub fn positions(self) -> Option<i64> {
        match self {
            Layout::Lanes { lanes, packs, steps, warps } => Some(4 * lanes * packs * steps * warps),
            Layout::Strided { lanes, parts, steps } => Some(lanes * parts * steps),
            Layout::Registers { groups: 1, steps, .. } => Some(ACCUMULATORS * steps),
            Layout::Registers { groups, blocks, .. } => Some(BLOCK * groups * blocks),
            Layout::Columns(tile) => Some(tile.longest()),
            Layout::Reload { .. } => None,
        }
    }
    /// The steps of a thread, and of how many neighbouring positions from the row's first one on a step is, if it is so for all threads
    /// of a row.
    pub fn steps(self) -> (i64, Option<i64>) {
        match self {
            Layout::Lanes { lanes, packs, steps, warps } => (packs * steps, (warps == 1).then_some(4 * lanes)),
            Layout::Strided { lanes, parts, steps } => (steps, Some(lanes * parts)),
            Layout::Registers { groups, steps, .. } => (steps, (groups == 1).then_some(ACCUMULATORS)),
            Layout::Columns(tile) => (tile.steps, None),
            Layout::Reload { .. } => (0, None),
        }
    }
    /// Whether a thread's steps are those of an accumulator of a whole block of the canonical order.
    pub fn takes_blocks(self) -> bool {
        matches!(self, Layout::Registers { .. }) || self.is_long()
    }
    /// Whether a lane has as many packs as its registers hold.
    fn is_long(self) -> bool {
        matches!(self, Layout::Lanes { packs: 1, steps: 9.., .. })
    }
    /// Elements that a thread holds of an array.
    pub fn per_thread(self) -> u32 {
        match self {
            Layout::Lanes { packs, steps, .. } => (4 * packs * steps) as u32,
            Layout::Strided { parts, steps, .. } => (parts * steps) as u32,
            Layout::Registers { steps, .. } => steps as u32,
            Layout::Columns(tile) => (tile.positions() * tile.lanes) as u32,
            Layout::Reload { .. } => 0,
        }
    }
}

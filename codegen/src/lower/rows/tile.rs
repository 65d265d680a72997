//! Columns held on chip: how threads lie over a tile of neighbouring columns, when rows run along a strided dimension.
//!
//! A thread holds `own` neighbouring accumulators of the canonical order for each of `lanes` neighbouring columns, and so every term
//! that they take. Threads of one place across, `along` of them, hold those of the same columns; `slices` blocks of a cluster share
//! the accumulators where a block's registers are too few for columns that make whole pieces of memory.

use std::collections::BTreeMap;

use gpukc_dsl::program::{ArrayId, ExprKind, Kernel, Ranged, Role, Subscript};
use gpukc_dsl::types::Reducer;

use super::layout::{ACCUMULATORS, BLOCK};
use crate::facts::Facts;
use crate::formula::Formula;
use crate::lower::group::{Numbering, only_reduction};
use crate::lower::read::{access, flat_coefficient};
use crate::plan::{Expr, int};
use crate::size;
use crate::target::Target;
use crate::walk;

/// Bytes of held elements in a thread's registers, and the threads that are resident on a multiprocessor when as many registers again
/// are left for the rest.
const HELD: [(i64, i64); 2] = [(128, 1024), (256, 512)];
/// Bytes of a thread's accumulators, of all its columns.
const ACCUMULATOR_BYTES: i64 = 64;
/// Threads of a block: the fewer, the more blocks there are of which one loads while another one computes.
const THREADS: i64 = 256;
/// Blocks of the largest cluster that every device with clusters runs.
const MOST_SLICES: i64 = 8;
/// Most threads of a block, most blocks of its cluster, and the bytes of neighbouring columns that it then reads of a row of memory, best
/// first: a large block waits less than a cluster does (softmax of 64×1024×1024 f32 in tiles of 32 columns: 158 µs, with a cluster of
/// 2 blocks 185 µs). An access of memory has 32 bytes.
const PIECES: [(i64, i64, i64); 4] = [(512, 1, 64), (1024, 1, 64), (512, MOST_SLICES, 64), (1024, MOST_SLICES, 64)];
/// Heights of short columns, each of which one thread holds as a whole: the heights that a text serves end at one of them.
const SHORT: [i64; 2] = [8, 16];

/// How threads lie over a tile of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Neighbouring columns of a thread, one access where it can be.
    pub lanes: i64,
    /// Threads along the columns.
    pub across: i64,
    /// Threads that share a column.
    pub along: i64,
    /// Accumulators of a column in one thread.
    pub own: i64,
    /// Terms that an accumulator takes.
    pub steps: i64,
    /// Blocks of terms of the canonical order.
    pub blocks: i64,
    /// Blocks of threads that share a column as a cluster, each a part of a block of terms.
    pub slices: i64,
    /// Threads that should be resident on a multiprocessor.
    resident_threads: i64,
}

impl Tile {
    /// Columns of a tile.
    pub fn columns(self) -> i64 {
        self.lanes * self.across
    }
    /// Threads of a block.
    pub fn threads(self) -> i64 {
        self.across * self.along
    }
    /// Positions of a column that a thread takes.
    pub fn positions(self) -> i64 {
        self.own * self.steps
    }
    /// The longest column that fits.
    pub fn longest(self) -> i64 {
        self.positions() * self.along * self.slices
    }
    /// Whether there are accumulators that no term reaches.
    pub fn settles(self) -> bool {
        self.blocks > 1 || self.own * self.along * self.slices < ACCUMULATORS
    }
    /// Where a slice of the cluster has its first term.
    pub fn first(self, slice: Expr) -> Expr {
        let (part, own) = (self.slices / self.blocks, self.own * self.along);
        match self.blocks {
            1 => slice * int(own),
            _ if part == 1 => slice * int(BLOCK),
            _ => slice.clone() / int(part) * int(BLOCK) + slice % int(part) * int(own),
        }
    }
    /// Blocks that should be resident on a multiprocessor.
    pub fn resident(self) -> i64 {
        (self.resident_threads / self.threads()).max(1)
    }
    /// Partial results of a column after the threads of each warp have met.
    pub fn partials(self) -> i64 {
        (self.threads() / 32.max(self.across)).max(1)
    }

    /// The layout for a group whose rows are columns, if a tile of whole columns fits on chip and something of it is used again.
    pub fn choose(
        kernel: &Kernel,
        facts: &Facts,
        target: Target,
        statements: &[usize],
        numbering: Numbering,
        extent: &Formula,
    ) -> Option<Tile> {
        let held = Held::of_group(kernel, facts, statements, numbering);
        if !held.again {
            return None;
        }
        let width = size::extent(kernel, facts, kernel.statements[*statements.first()?].variables.last()?)?;
        let whole = |lanes: i64| facts.aligned && facts.multiple(&width, lanes);
        if let Some(height) = SHORT.into_iter().find(|height| facts.below(extent, height + 1)) {
            return Some(Tile::of_short(height, &held, whole));
        }
        // A text serves many shapes, whichever power of two bounds them.
        let bound = match facts.bound(extent)? {
            ..=32 => 32,
            bound => bound.max(ACCUMULATORS),
        };
        let clusters = if target.capability >= 90 { MOST_SLICES } else { 1 };
        HELD.into_iter().find_map(|(bytes, resident)| Tile::with_registers(bound, &held, bytes, resident, clusters, whole))
    }

    /// The layout of columns that a thread holds as a whole.
    fn of_short(height: i64, held: &Held, whole: impl Fn(i64) -> bool) -> Tile {
        // Half as many threads as could hold so much: all of a column's elements are in use at once.
        let [(bytes, _), (_, resident_threads)] = HELD;
        let fits = |lanes: &i64| lanes * height * held.bytes.max(4) as i64 <= bytes && lanes * held.widest <= 16 && whole(*lanes);
        let lanes = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        Tile { lanes, across: THREADS, along: 1, own: height, steps: 1, blocks: 1, slices: 1, resident_threads }
    }

    /// The same where a thread holds so many bytes.
    fn with_registers(
        bound: i64,
        held: &Held,
        bytes: i64,
        resident_threads: i64,
        clusters: i64,
        whole: impl Fn(i64) -> bool,
    ) -> Option<Tile> {
        let blocks = (bound / BLOCK).max(1);
        let (steps, reach) = ((bound / blocks / ACCUMULATORS).max(1), bound.min(ACCUMULATORS));
        // A power of two.
        let most = ((bytes / held.bytes.max(4) as i64 + 1) as u64).next_power_of_two() as i64 / 2;
        let accumulators = (ACCUMULATOR_BYTES / held.accumulator).max(1);
        // All or one: what half of them would gain is not worth a text of its own.
        let lanes = [8, 4, 2, 1].into_iter().find(|lanes| {
            let bytes = lanes * held.widest;
            lanes * steps <= most && *lanes <= accumulators && bytes <= 16
        });
        let lanes = lanes.map(|lanes| if whole(lanes) { lanes } else { 1 })?;
        let own = (most / (lanes * steps)).min(accumulators / lanes).clamp(1, reach);
        PIECES.into_iter().filter(|(threads, ..)| *threads <= resident_threads).find_map(|(threads, most_slices, piece)| {
            let across = (piece / (lanes * held.widest)).max(1);
            let together = blocks * reach / own * across;
            let slices = (together / threads).max(blocks);
            let along = blocks * reach / own / slices;
            let across = across.max(THREADS / along);
            let tile = Tile { lanes, across, along, own, steps, blocks, slices, resident_threads };
            (slices <= most_slices.min(clusters) && tile.threads() <= threads).then_some(tile)
        })
    }

    /// What a reader of the text should know.
    pub fn notes(self) -> Vec<String> {
        let mut notes = vec![
            format!(
                "Columns: a block takes a tile of {} neighbouring columns and holds it in registers: each element is",
                self.columns()
            ),
            "read once and written once.".to_string(),
        ];
        if self.lanes > 1 {
            notes.push(format!("An access takes {} columns, so that few instructions carry many bytes.", self.lanes));
        }
        let threads = match self.own {
            1 => "A thread holds an accumulator of each of its columns".to_string(),
            own => format!("A thread holds {own} of the accumulators of each of its columns"),
        };
        notes.push(match (self.along, self.slices) {
            (1, 1) => format!("A thread has whole columns, of {} rows at most.", self.own),
            (along, 1) => format!("{threads}; the {along} that share a column meet by shuffles and in shared memory."),
            (along, _) => format!("{threads}; the {along} that share a column meet by shuffles and in shared memory, then"),
        });
        if self.slices > 1 {
            notes.push(format!("the {} blocks of a cluster in each other's.", self.slices));
        }
        notes
    }
}

/// What a group has in registers at a time.
struct Held {
    /// Bytes for each position, where they are most.
    bytes: usize,
    /// Whether anything is kept from one statement for another.
    again: bool,
    /// Bytes of the widest element that moves between memory and registers, and of the widest accumulator.
    widest: i64,
    accumulator: i64,
}

impl Held {
    fn of_group(kernel: &Kernel, facts: &Facts, statements: &[usize], numbering: Numbering) -> Held {
        // By array: where it comes into registers, whether by a load, and where it is used last.
        let mut spans: BTreeMap<ArrayId, (usize, bool, usize)> = BTreeMap::new();
        let (mut widest, mut accumulator) = (1, 1);
        for (place, number) in statements.iter().enumerate() {
            let statement = &kernel.statements[*number];
            let (rows, inner) = match only_reduction(kernel, statement) {
                Some((id, reduce)) => {
                    // The value of an argmin and its index.
                    let found = matches!(reduce.reducer, Reducer::Argmin | Reducer::Argmax);
                    accumulator = accumulator.max(if found { 16 } else { kernel.exprs[id].ty.size() as i64 });
                    (statement.variables.clone(), reduce.variables.clone())
                }
                None => numbering.split(&statement.variables),
            };
            if inner.is_empty() {
                continue;
            }
            for read in walk::reads(kernel, statement.value) {
                let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
                if place_of(kernel, facts, *array, subscripts, &rows, &inner).is_some() {
                    spans.entry(*array).or_insert((place, true, place)).2 = place;
                    widest = widest.max(kernel.arrays[*array].element.size() as i64);
                }
            }
            if only_reduction(kernel, statement).is_none() {
                spans.insert(statement.array, (place, false, place));
                let array = &kernel.arrays[statement.array];
                if array.role != Role::Let {
                    widest = widest.max(array.element.size() as i64);
                }
            }
        }
        let bytes = |live: &dyn Fn(&(usize, bool, usize)) -> bool| -> usize {
            spans.iter().filter(|(_, span)| live(span)).map(|(array, _)| kernel.arrays[*array].element.size().max(4)).sum()
        };
        let most = (0..statements.len()).map(|at| {
            let before = bytes(&|&(first, loaded, last)| (first < at || first == at && loaded) && last >= at);
            before.max(bytes(&|&(first, _, last)| first <= at && last > at))
        });
        Held { bytes: most.max().unwrap_or(0), again: spans.values().any(|(first, _, last)| first < last), widest, accumulator }
    }
}

/// Where a read lies, if each position of each row has an element of its own and neighbouring columns are neighbours: the steps of
/// the rows' variables, and of the position.
pub fn place_of(
    kernel: &Kernel,
    facts: &Facts,
    array: ArrayId,
    subscripts: &[Subscript],
    rows: &[Ranged],
    inner: &[Ranged],
) -> Option<Vec<Formula>> {
    let access = access(kernel, facts, array, subscripts)?;
    let step = flat_coefficient(kernel, facts, &access, inner)?;
    let mut place: Vec<Formula> = rows.iter().map(|range| access.coefficient(range.variable)).collect();
    let neighbours = place.last() == Some(&Formula::Constant(1)) && access.constant == Formula::Constant(0);
    let own = access.terms.iter().all(|(v, _)| rows.iter().chain(inner).any(|range| range.variable == *v));
    let whole = !place.contains(&Formula::Constant(0)) && step != Formula::Constant(0);
    place.push(step);
    (neighbours && own && whole).then_some(place)
}

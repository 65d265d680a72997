//! How much of each dim a block takes, so that it reads and writes long pieces of memory: the fastest dims of the output, and those
//! of whatever it reads in another order, whole as long as they are short, then a part of the next.

use gpukc_dsl::program::ArrayId;

use super::super::context::Lowering;
use super::dims::{Permutation, View, is_stored};
use crate::facts::Facts;
use crate::formula::Formula;

/// Elements of a piece that is long enough; extents below are taken whole, if pieces are not whole lines of the cache.
const REACH: i64 = 64;
/// Bytes of a run that both sides have in common, so that it need not be gathered.
const RUN: i64 = 128;
/// Elements of a tile, of one whose short dims are few, and how many dims' elements those have at most.
const MOST: i64 = 4096;
const MOST_LONG: i64 = 2048;
const LONG: i64 = 32;
/// From so many elements of all on, tiles of narrow ones have as many bytes as those of others.
const MANY: i64 = 1 << 23;
/// Fewer elements than this are left in a tile that takes in a further dim.
const FEW: i64 = 1024;
/// Fewer elements than this of all are not worth a tile of their own kind.
const FEW_POINTS: i64 = 1 << 16;
/// Elements along each side of a tile with three long sides.
const CUBE: i64 = 16;
/// Bytes of all tiles' elements at one place, so that the tiles fit shared memory.
const MOST_BYTES: usize = 8;
/// Constant extents of so few elements are told apart in a thread's registers, see `lanes`.
const IN_REGISTERS: i64 = 16;
/// Elements that parts of dims are multiples of where the other dims are few: pieces then begin where lines of the cache do.
const LINE: i64 = 32;

/// How a permutation is computed.
pub enum Form {
    /// Both sides run along a long dim of their own: a tile of these two.
    Square { across: usize },
    /// Some dims whole, and parts of some.
    Tile { whole: Vec<usize>, parts: Vec<usize> },
}

/// The dims in an order of memory, fastest first, and how many of them are taken whole.
struct Side {
    order: Vec<usize>,
    whole: usize,
}

impl Permutation {
    /// Leaves those reads permuted whose pieces are short if they are read as the output runs; `None` if none is left, or no form of
    /// tile fits. `size`: bytes of an element of the output.
    pub fn settle(&mut self, facts: &Facts, size: usize) -> Option<Form> {
        let order = self.output.order();
        let output = self.side(facts, order.clone(), size);
        let near: Vec<usize> = output.order.iter().take(output.whole + 1).copied().collect();
        let all = std::mem::take(&mut self.permuted);
        let (permuted, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|element| {
            let own = element.view.order();
            let theirs = order.iter().filter(|dim| own.contains(dim));
            let common: Vec<usize> = own.iter().zip(theirs).take_while(|(own, theirs)| own == theirs).map(|(dim, _)| *dim).collect();
            let run = REACH.min(RUN / element.ty.size() as i64);
            let short = common.len() < own.len() && facts.below(&self.extent(&common), run);
            short && near.iter().any(|dim| own.contains(dim))
        });
        self.alike.extend(rest);
        self.permuted = permuted;
        let bytes: usize = self.permuted.iter().map(|element| element.ty.size()).sum();
        if self.permuted.is_empty() || bytes > MOST_BYTES {
            return None;
        }
        let mut sides = vec![output];
        for element in &self.permuted {
            let own = element.view.order();
            if !sides.iter().any(|side| side.order == own) {
                sides.push(self.side(facts, own, element.ty.size()));
            }
        }
        self.tile(facts, &sides).or_else(|| self.square(facts, &sides))
    }

    /// The dims of an array whose elements have so many bytes.
    fn side(&self, facts: &Facts, order: Vec<usize>, size: usize) -> Side {
        let short = |count: &usize| {
            let extent = self.extent(&order[..*count]);
            let whole_lines = LINE * size as i64 >= RUN && facts.is(&extent, LINE);
            facts.below(&extent, REACH) && !whole_lines
        };
        let whole = (1..=order.len()).take_while(short).count();
        Side { order, whole }
    }

    fn square(&self, facts: &Facts, sides: &[Side]) -> Option<Form> {
        let (along, across) = (*sides[0].order.first()?, *sides[1].order.first()?);
        let thin = |dim: usize| facts.below(&self.dims[dim].extent, 16);
        let all = sides[1..].iter().all(|side| side.order.first() == Some(&across));
        (all && along != across && !thin(along) && !thin(across)).then_some(Form::Square { across })
    }

    fn tile(&self, facts: &Facts, sides: &[Side]) -> Option<Form> {
        let every: Vec<usize> = (0..self.dims.len()).collect();
        if !facts.at_least(&self.extent(&every), FEW_POINTS) {
            return None;
        }
        let mut whole: Vec<usize> = Vec::new();
        sides.iter().for_each(|side| add(&mut whole, &side.order[..side.whole]));
        let mut parts: Vec<usize> = Vec::new();
        for side in sides {
            let next = side.order.get(side.whole).filter(|dim| !whole.contains(dim));
            add(&mut parts, &next.into_iter().copied().collect::<Vec<_>>());
        }
        let literal = self.extent(&whole).constant().is_some_and(|extent| extent <= IN_REGISTERS);
        match (whole.len(), parts.len()) {
            (0, 3) => return Some(Form::Tile { whole, parts }),
            (0, _) | (_, 3..) => return None,
            _ if literal => return None,
            _ => {}
        }
        // What does not fill a tile is taken whole, and a part of the next dim with it.
        loop {
            let taken: Vec<usize> = whole.iter().chain(&parts).copied().collect();
            let next = self.output.order().into_iter().find(|dim| !taken.contains(dim));
            let Some(next) = next.filter(|_| facts.below(&self.extent(&taken), FEW)) else { break };
            (whole, parts) = (taken, vec![next]);
        }
        facts.below(&self.extent(&whole), MOST).then_some(Form::Tile { whole, parts })
    }
}

fn add(all: &mut Vec<usize>, dims: &[usize]) {
    for dim in dims {
        if !all.contains(dim) {
            all.push(*dim);
        }
    }
}

impl Permutation {
    /// How much of `across` makes a piece that is long enough, where `along` has a part of its own in the output's.
    fn reach(&self, (along, across): (usize, usize), whole: &[usize], many: i64) -> Formula {
        let faster = |order: Vec<usize>, part: usize| order.into_iter().take_while(|dim| *dim != part).collect::<Vec<_>>();
        let mut orders = self.permuted.iter().map(|element| faster(element.view.order(), across));
        let own = orders.find(|faster| faster.iter().all(|dim| whole.contains(dim))).unwrap_or_default();
        let others = self.extent(&faster(self.output.order(), along));
        let (own, held) = (self.extent(&own), self.extent(whole));
        if own.same_product(&held) && others.same_product(&held) {
            // Both pieces have the same short dims, which count once in the tile.
            return Formula::Constant(2 * REACH).plus(own.clone().minus(1)).div_floor(own);
        }
        Formula::Constant(REACH * many).div_floor(own).max(1)
    }
}

/// How much a block takes of a dim.
#[derive(Clone, PartialEq)]
pub enum Share {
    Whole,
    Part(Formula),
    One,
}

/// A tile of some dims.
pub struct Tile {
    pub shares: Vec<Share>,
    /// Most elements that it has.
    pub most: i64,
    /// Elements that are read and written together.
    pub read: i64,
    pub written: i64,
    /// Whether those that are written together lie side by side along the fastest dim.
    pub together: bool,
}

/// Neighbouring dims of a tile that lie in one piece in an array.
pub struct Run {
    /// Slowest first; all but the first are whole.
    pub dims: Vec<usize>,
    /// How far apart its elements lie.
    pub step: Formula,
}

impl Tile {
    pub fn of(lowering: &Lowering, permutation: &Permutation, output: ArrayId, form: (&[usize], &[usize])) -> Tile {
        let (facts, kernel) = (lowering.facts, lowering.kernel);
        let size = kernel.arrays[output].element.size();
        let alike = permutation.permuted.iter().all(|element| element.ty.size() == size);
        // A word of elements, if they are narrower.
        let word = (4 / size).max(1);
        let fits = permutation.permuted.len() * size * word <= MOST_BYTES;
        let word = if alike && fits && facts.aligned { word as i64 } else { 1 };
        let symbolic = Tile::with(facts, permutation, form, word);
        let packs = |view: &View| symbolic.has_packs(facts, permutation, view, word);
        let stored = |array| is_stored(lowering, array);
        let read = if permutation.permuted.iter().all(|element| stored(element.array) && packs(&element.view)) { word } else { 1 };
        let written = if packs(&permutation.output) { word } else { 1 };
        let tile = Tile::with(facts, permutation, form, read.max(written));
        let together = permutation.dims.len().checked_sub(1).is_some_and(|fastest| match tile.shares[fastest] {
            Share::Whole => facts.multiple(&permutation.dims[fastest].extent, written),
            _ => true,
        });
        Tile { read, written, together, ..tile }
    }

    /// The tile whose elements move so many together on one side at least.
    fn with(facts: &Facts, permutation: &Permutation, (whole, parts): (&[usize], &[usize]), lanes: i64) -> Tile {
        let mut shares = vec![Share::One; permutation.dims.len()];
        whole.iter().for_each(|dim| shares[*dim] = Share::Whole);
        let all: Vec<usize> = (0..permutation.dims.len()).collect();
        let many = if facts.at_least(&permutation.extent(&all), MANY) { lanes } else { 1 };
        let held = permutation.extent(whole);
        let at_most = |dim: usize, part: Formula| Share::Part(part.min(permutation.extent(&[dim])));
        let most = match parts {
            [] => MOST * many,
            [part] => {
                let (most, unit) = match () {
                    _ if facts.below(&held, LONG + 1) => (MOST_LONG * many, LINE),
                    _ if facts.below(&held, REACH + 1) => (MOST * many, LINE),
                    _ => (MOST * lanes, lanes),
                };
                shares[*part] = at_most(*part, Formula::Constant(most).div_floor(held).div_floor(unit).times(unit));
                most
            }
            [along, across] => {
                // One piece is as long as it has to be, and the other what that leaves.
                let taken = permutation.reach((*along, *across), whole, many).min(permutation.extent(&[*across]));
                let rest = Formula::Constant(MOST * many).div_floor(held.times(taken.clone()));
                shares[*across] = Share::Part(taken);
                shares[*along] = at_most(*along, rest.div_floor(lanes).times(lanes).max(1));
                MOST * many
            }
            _ => {
                parts.iter().for_each(|dim| shares[*dim] = Share::Part(CUBE.into()));
                CUBE * CUBE * CUBE
            }
        };
        Tile { shares, most, read: 1, written: 1, together: true }
    }

    /// The runs of an array in the tile, fastest first.
    pub fn runs(&self, permutation: &Permutation, view: &View) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut goes_on = false;
        for (number, axis) in view.0.iter().enumerate().rev() {
            let taken = axis.along.filter(|dim| self.shares[*dim] != Share::One);
            if let Some(dim) = taken {
                match runs.last_mut().filter(|_| goes_on) {
                    Some(run) => run.dims.insert(0, dim),
                    None => runs.push(Run { dims: vec![dim], step: view.step(number) }),
                }
            }
            goes_on = taken.is_some_and(|dim| self.shares[dim] == Share::Whole && axis.extent == permutation.dims[dim].extent);
        }
        runs
    }

    /// Whether the fastest run of an array is whole packs everywhere.
    fn has_packs(&self, facts: &Facts, permutation: &Permutation, view: &View, lanes: i64) -> bool {
        let runs = self.runs(permutation, view);
        let Some(run) = runs.first().filter(|run| run.step == Formula::Constant(1)) else { return false };
        let slowest = run.dims[0];
        let faster = permutation.extent(&run.dims[1..]);
        let by_tiles = match &self.shares[slowest] {
            // The only part of a tile is a multiple of packs, and so is one that nothing is faster than.
            Share::Part(_) => {
                let parts = self.shares.iter().filter(|share| matches!(share, Share::Part(_))).count();
                parts != 2 || run.dims.len() == 1 || facts.multiple(&faster, lanes)
            }
            _ => true,
        };
        by_tiles && facts.multiple(&permutation.extent(&run.dims), lanes) && view.begins_at_multiples(facts, run.dims.len(), lanes)
    }

    /// How many elements of a dim the tile has.
    pub fn count(&self, permutation: &Permutation, dim: usize) -> Formula {
        match &self.shares[dim] {
            Share::Whole => permutation.dims[dim].extent.clone(),
            Share::Part(part) => part.clone(),
            Share::One => Formula::Constant(1),
        }
    }
}

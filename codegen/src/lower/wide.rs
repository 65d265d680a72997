//! Maps whose results lie one after another as their variables count: a block takes a tile of them, a thread a few neighbours, which
//! it stores by 16-byte accesses; what it reads it loads first, as runs. The last tile goes element by element, and so do all tiles
//! of misaligned arrays.
//!
//! *Counted*: where some reads do not run along with the results, of rows whose width is no multiple of a pack, say, a thread counts the
//! variables on from one element to the next, and reads there one by one what lies side by side.

use gpukc_dsl::types::Type;

use gpukc_dsl::program::Statement;

use super::context::Lowering;
use super::group::is_flat;
use super::lanes::Lanes;
use super::map::{Results, store_at, suffix_of};
use super::packs::Read;
use super::runs::{Run, runs};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, call, int, name};

/// Threads of a block.
const THREADS: i64 = 256;
/// Below this cost an element's arithmetic needs few registers.
const LIGHT: u32 = 8;
/// Most packs that a thread holds.
const MOST_PACKS: i64 = 24;
/// Bytes that a thread has in flight, and most steps that it takes for their sake.
const IN_FLIGHT: i64 = 32;
const MOST_STEPS: i64 = 2;
/// Most elements of a thread whose arithmetic needs many registers.
const MOST_HEAVY: i64 = 16;
/// Most variables that a thread counts on.
const MOST_COUNTED: usize = 4;
/// Most packs of results of a thread.
const MOST_PARTS: i64 = 4;
/// Most elements of a thread.
pub const MOST_ELEMENTS: i64 = 48;

/// How a thread's elements lie over the variables.
pub struct Layout {
    /// Elements of a pack of results.
    pub lanes: i64,
    /// A thread's elements, and how many of them are at each position of the variables that run together.
    pub count: i64,
    pub each: i64,
    /// How many variables, the last ones, tell those apart.
    pub minors: usize,
    /// What the elements read, and how many reads differ among them and are in none of these.
    pub runs: Vec<Run>,
    pub apart: usize,
    /// Whether the variables are counted from element to element, though runs know only their common position.
    counted: bool,
}

/// A map by wide accesses.
pub struct Wide {
    pub layout: Layout,
    /// The element with which each result begins in its array.
    begins: Vec<Formula>,
    /// Steps of a thread, loads of all of which are in flight.
    unroll: i64,
    /// Threads of a block.
    threads: i64,
    /// Whether arithmetic takes most of the time: the last tile, which goes one by one, then takes much longer than others.
    heavy: bool,
}

impl Layout {
    /// How neighbours are laid over the variables from `rank` on, the last `minors` of them told apart in a thread; packs of results
    /// fit. They are as wide as the widest elements of what is stored and read in runs let them be.
    pub fn of(lowering: &Lowering, results: Results, rank: usize, minors: usize, fits: impl Fn(i64) -> bool) -> Option<Layout> {
        let split = results.variables().len().checked_sub(minors).filter(|split| *split > rank)?;
        let majors = &results.variables()[rank..split];
        let flat = results.values().all(|value| is_flat(lowering.kernel, lowering.facts, value, majors));
        if flat { Layout::over(lowering, results, (rank, minors), false, fits) } else { None }
    }

    /// The same, whether or not all values run along with the variables; where these are counted, in `let`s computed in place as well.
    fn over(
        lowering: &Lowering,
        results: Results,
        (rank, minors): (usize, usize),
        counted: bool,
        fits: impl Fn(i64) -> bool,
    ) -> Option<Layout> {
        let (kernel, facts) = (lowering.kernel, lowering.facts);
        let variables = results.variables();
        let split = variables.len().checked_sub(minors).filter(|split| *split > rank)?;
        let each = super::group::product(kernel, facts, &variables[split..])?.constant()?;
        if !(1..=MOST_ELEMENTS).contains(&each) {
            return None;
        }
        let of = |lanes: i64| {
            let count = (1..=MOST_PARTS).map(|parts| parts * lanes).find(|count| count % each == 0 && *count <= MOST_ELEMENTS)?;
            let own = Lanes { kernel, facts, own: variables, rank, minors, count, each };
            let (runs, apart) = runs(lowering, own, results, counted)?;
            Some(Layout { lanes, count, each, minors, runs, apart, counted })
        };
        let size = |array| kernel.arrays[array].element.size() as i64;
        let widest = results.arrays().map(size).max()?;
        let holds = |layout: &Layout| layout.runs.iter().all(|run| layout.lanes * size(run.array) <= 16);
        let fitting = || [16, 8, 4, 2, 1].into_iter().filter(|lanes| lanes * widest <= 16 && fits(*lanes));
        fitting().find_map(|lanes| of(lanes).filter(holds))
    }

    pub fn positions(&self) -> i64 {
        self.count / self.each
    }

    /// Packs of a result.
    fn parts(&self) -> i64 {
        self.count / self.lanes
    }

    pub fn lanes_of<'l>(&self, lowering: &Lowering<'l>, own: &'l [gpukc_dsl::program::Ranged], rank: usize) -> Lanes<'l> {
        Lanes { kernel: lowering.kernel, facts: lowering.facts, own, rank, minors: self.minors, count: self.count, each: self.each }
    }

    /// Bytes that the runs hold.
    pub fn bytes(&self, lowering: &Lowering) -> i64 {
        self.runs.iter().map(|run| run.bytes(lowering)).sum()
    }

    fn packs(&self) -> i64 {
        self.runs.iter().map(|run| run.packs).sum()
    }
}

/// The map by wide accesses, the last `minors` variables told apart in a thread, if it is one.
pub fn wide(lowering: &Lowering, results: Results, minors: usize) -> Option<Wide> {
    let begins = begins(lowering, results)?;
    let layout = Layout::of(lowering, results, 0, minors, |lanes| fits(lowering, &begins, lanes))?;
    if minors > 0 && layout.runs.is_empty() { None } else { Wide::of(lowering, results, layout, begins) }
}

/// The map by wide accesses in which a thread counts the variables on, if it is one.
pub fn counted(lowering: &Lowering, results: Results) -> Option<Wide> {
    let variables = results.variables();
    let begins = begins(lowering, results).filter(|_| (2..=MOST_COUNTED).contains(&variables.len()))?;
    let layout = Layout::over(lowering, results, (0, 0), true, |lanes| fits(lowering, &begins, lanes))?;
    let beside = layout.lanes > 1 && super::broadcast::all_beside(lowering, results, 1, true);
    if beside { Wide::of(lowering, results, layout, begins) } else { None }
}

/// The element with which each result begins in its array, if all lie one after another as their variables count.
fn begins(lowering: &Lowering, results: Results) -> Option<Vec<Formula>> {
    let (kernel, variables) = (lowering.kernel, results.variables());
    let launchable = variables.iter().all(|v| crate::size::extent(kernel, lowering.facts, v).is_some());
    if variables.is_empty() || !launchable || results.has_reduction(kernel) {
        return None;
    }
    let begin = |left: &Statement| {
        let left = Read { id: left.value, array: left.array, subscripts: &left.subscripts, own: variables, in_place: None };
        left.counted_from(lowering)
    };
    results.statements().iter().map(begin).collect()
}

/// Whether results begin at packs of so many elements. Where nothing is known of the call, its blocks ask.
fn fits(lowering: &Lowering, begins: &[Formula], lanes: i64) -> bool {
    lanes == 1 || begins.iter().all(|begin| lowering.facts.multiple(begin, lanes) || !lowering.facts.tells(begin))
}

impl Wide {
    fn of(lowering: &Lowering, results: Results, layout: Layout, begins: Vec<Formula>) -> Option<Wide> {
        let further = (results.statements().len() as i64 - 1) * layout.parts();
        if layout.packs() + further > MOST_PACKS {
            return None;
        }
        let light = results.cost(lowering.kernel) < LIGHT && !layout.counted;
        let unroll = match layout.bytes(lowering) {
            0 => 2,
            bytes => (IN_FLIGHT / bytes).clamp(1, MOST_STEPS),
        };
        // Steps are unrolled, and arithmetic takes registers and time to compile.
        let unroll = if light { unroll } else { unroll.min((MOST_HEAVY / layout.count).max(1)) };
        // Blocks of narrow elements would carry few bytes (10^7 sums of f16 on an H200: 17.3 to 16.1 µs).
        let threads = if layout.lanes >= 8 && light { 2 * THREADS } else { THREADS };
        Some(Wide { layout, begins, unroll, threads, heavy: !light })
    }
}

pub fn lower(lowering: &mut Lowering, results: Results, mut wide: Wide) -> Result<(), Error> {
    wide.threads = lowering.block_hint(results.first())?.map_or(wide.threads, i64::from);
    wide.unroll = lowering.unroll_hint(results.first())?.map_or(wide.unroll, i64::from);
    Tile { results, wide: &wide }.lower(lowering)
}

struct Tile<'a> {
    results: Results<'a>,
    wide: &'a Wide,
}

impl Tile<'_> {
    /// Positions of a block.
    fn positions(&self) -> i64 {
        self.wide.threads * self.wide.unroll * self.wide.layout.positions()
    }

    fn lower(&self, lowering: &mut Lowering) -> Result<(), Error> {
        let variables = self.results.variables();
        let majors = &variables[..variables.len() - self.wide.layout.minors];
        let positions = lowering.points(majors)?;
        let tile = self.positions();
        let ty = lowering.index_type();
        let count = lowering.size(&positions, "points");
        let again = lowering.passes_over(self.results.statements());
        if self.wide.heavy && !again {
            lowering.go_from_end();
        }
        let block = lowering.block_number().cast(ty);
        let first = lowering.local("tile", ty, block * lowering.index_constant(tile));
        let condition = self.condition(lowering, &first, &count)?;
        let (then, ()) = lowering.block(|lowering| self.elements(lowering, &first))?;
        let (otherwise, ()) = lowering.block(|lowering| self.one_by_one(lowering, &first, &count))?;
        lowering.push(Node::If { condition, then, otherwise });
        let mut notes = self.notes(lowering);
        match self.wide.heavy && !again {
            true => notes.push("Blocks go from the end: the last tile takes longest, so it comes first.".into()),
            false => notes.extend(lowering.block_order_note()),
        }
        let suffix = suffix_of(lowering, self.results);
        let grid = [positions.div_ceil(tile), 1.into(), 1.into()];
        lowering.end_launch(&suffix, "map", notes, grid, [self.wide.threads as u32, 1, 1]);
        Ok(())
    }

    /// That the block's tile is whole, and every pack in it aligned.
    fn condition(&self, lowering: &mut Lowering, first: &Expr, count: &Expr) -> Result<Expr, Error> {
        let (layout, tile) = (&self.wide.layout, self.positions());
        let mut all = vec![(first.clone() + int(tile)).binary("<=", count.clone())];
        for run in &layout.runs {
            let bind = |lowering: &mut Lowering, position: Expr| self.bind(lowering, position, &int(0));
            for condition in run.conditions(lowering, first, tile, &bind)? {
                if !all.contains(&condition) {
                    all.push(condition);
                }
            }
        }
        for (array, begin) in self.results.arrays().zip(&self.wide.begins).filter(|_| layout.lanes > 1) {
            let bytes = layout.lanes * lowering.kernel.arrays[array].element.size() as i64;
            let output = lowering.pointer(array);
            let aligned = call("is_aligned", vec![output, int(bytes)]);
            let begins = begin.constant().is_none().then(|| (lowering.size(begin, "offset") % int(layout.lanes)).binary("==", int(0)));
            all.extend([aligned].into_iter().chain(begins).filter(|condition| !all.contains(condition)).collect::<Vec<_>>());
        }
        self.unbind(lowering);
        Ok(all.into_iter().reduce(Expr::and).unwrap_or(Expr::Bool(true)))
    }

    fn bind(&self, lowering: &mut Lowering, position: Expr, lane: &Expr) {
        lowering.bind_lane(self.results.variables(), &self.wide.layout, 0, position, lane);
    }

    fn unbind(&self, lowering: &mut Lowering) {
        self.results.variables().iter().for_each(|range| drop(lowering.variables.remove(&range.variable)));
        (lowering.flat, lowering.element) = (None, None);
    }

    fn notes(&self, lowering: &Lowering) -> Vec<String> {
        let layout = &self.wide.layout;
        let bytes = self.results.arrays().map(|array| layout.lanes * lowering.kernel.arrays[array].element.size() as i64);
        let (least, most) = bytes.fold((i64::MAX, 0), |(least, most), bytes| (least.min(bytes), most.max(bytes)));
        let bytes = if least == most { most.to_string() } else { format!("{least} to {most}") };
        let several = if self.results.statements().len() > 1 { " of each result" } else { "" };
        let mut notes = vec![format!("Element-wise: a block takes one tile of {} elements{several}.", self.positions() * layout.each)];
        let together =
            format!("Neighbouring elements move together ({bytes} bytes a store), so that few instructions carry many bytes");
        if layout.counted {
            notes.push(format!("{together}."));
            notes.push("A thread finds the indices of its first element and counts them on. The last tile goes one by one.".into());
        } else if layout.lanes > 1 {
            notes.push(format!("{together};"));
            notes.push("all loads of a thread are issued before the first result is needed. The last tile goes one by one.".into());
        }
        notes
    }

    /// Where a thread's elements begin, at a step.
    fn position(&self, first: &Expr, step: Option<Expr>) -> Expr {
        let thread = name("threadIdx.x").cast(Type::I32);
        let thread = step.map_or(thread.clone(), |step| step * int(self.wide.threads) + thread);
        first.clone() + thread * int(self.wide.layout.positions())
    }

    /// The elements of a thread, of a tile that is whole.
    fn elements(&self, lowering: &mut Lowering, first: &Expr) -> Result<(), Error> {
        let (unroll, runs) = (self.wide.unroll, &self.wide.layout.runs);
        let ty = lowering.index_type();
        if unroll == 1 {
            let at = lowering.local("at", ty, self.position(first, None));
            self.bind(lowering, at.clone(), &int(0));
            lowering.settle_guards(runs)?;
            let held = runs.iter().map(|run| run.load(lowering)).collect::<Result<Vec<_>, _>>()?;
            return self.results(lowering, &held, at);
        }
        let held: Vec<Expr> = runs.iter().map(|run| run.declare(lowering, Some(unroll))).collect();
        let steps = [int(0), int(unroll), int(1)];
        if !runs.is_empty() {
            lowering.each("step", Type::I32, steps.clone(), Unroll::Full, |lowering, step| {
                let at = lowering.local("at", ty, self.position(first, Some(step.clone())));
                self.bind(lowering, at, &int(0));
                self.wide.layout.load(lowering, &held.iter().map(|held| held.clone().at(step.clone())).collect::<Vec<_>>())
            })?;
        }
        lowering.each("step", Type::I32, steps, Unroll::Full, |lowering, step| {
            let at = lowering.local("at", ty, self.position(first, Some(step.clone())));
            let held: Vec<Expr> = held.iter().map(|held| held.clone().at(step.clone())).collect();
            self.results(lowering, &held, at)
        })
    }

    /// Computes and stores a thread's elements from position `at` on, of runs that are loaded.
    fn results(&self, lowering: &mut Lowering, held: &[Expr], at: Expr) -> Result<(), Error> {
        self.bind(lowering, at.clone(), &int(0));
        let layout = &self.wide.layout;
        let counted = if layout.counted { self.count_from(lowering, &at)? } else { Vec::new() };
        let bind = |lowering: &mut Lowering, lane: &Expr| self.bind(lowering, at.clone(), lane);
        layout.results(lowering, self.results, held, (bind, |lowering| count_on(lowering, &counted)))
    }

    /// Declares the variables at a thread's first element, with their ends.
    fn count_from(&self, lowering: &mut Lowering, at: &Expr) -> Result<Vec<(Expr, Expr)>, Error> {
        let (ty, variables) = (lowering.index_type(), self.results.variables());
        let mut rest = at.clone();
        let mut counted = Vec::new();
        for (depth, range) in variables.iter().enumerate().rev() {
            let wish = lowering.kernel.variables[range.variable].name.clone();
            let formula = lowering.extent(range)?;
            let end = lowering.size(&formula, &format!("{wish}_extent"));
            let value = if depth == 0 { rest.clone() } else { rest.clone() % end.clone() };
            if depth > 0 {
                rest = rest / end.clone();
            }
            let variable = lowering.variable(&wish, ty, Some(value));
            lowering.variables.insert(range.variable, variable.clone());
            counted.push((variable, end));
        }
        Ok(counted)
    }

    /// The same without packs, a thread a position at a time.
    fn one_by_one(&self, lowering: &mut Lowering, first: &Expr, count: &Expr) -> Result<(), Error> {
        let ty = lowering.index_type();
        let (tile, each) = (self.positions(), self.wide.layout.each);
        let end = lowering.local("end", ty, call("minimum", vec![first.clone() + int(tile), count.clone()]));
        let lo = first.clone() + name("threadIdx.x").cast(Type::I32);
        lowering.each("i", ty, [lo, end, int(self.wide.threads)], Unroll::By(1), |lowering, position| {
            lowering.each("lane", Type::I32, [int(0), int(each), int(1)], Unroll::Full, |lowering, lane| {
                let single = Layout { count: each, runs: Vec::new(), ..self.wide.layout };
                lowering.bind_lane(self.results.variables(), &single, 0, position.clone(), &lane);
                if single.counted {
                    lowering.decode(self.results.variables(), position.clone())?;
                }
                store_at(lowering, self.results, |lowering, number| {
                    let begin = lowering.size(&self.wide.begins[number], "offset");
                    Ok(position.clone() * int(each) + lane.clone() + begin)
                })
            })
        })?;
        self.unbind(lowering);
        Ok(())
    }
}

impl Layout {
    /// Loads the runs at the current position.
    pub fn load(&self, lowering: &mut Lowering, held: &[Expr]) -> Result<(), Error> {
        lowering.settle_guards(&self.runs)?;
        self.runs.iter().zip(held).try_for_each(|(run, held)| run.load_into(lowering, held.clone()))?;
        lowering.computed.clear();
        Ok(())
    }

    /// Computes and stores a thread's elements, of runs that are loaded; `bind` binds the variables at an element, `go_on` ends it.
    pub fn results(
        &self,
        lowering: &mut Lowering,
        results: Results,
        held: &[Expr],
        (bind, go_on): (impl Fn(&mut Lowering, &Expr), impl Fn(&mut Lowering) -> Result<(), Error>),
    ) -> Result<(), Error> {
        let parts = self.parts();
        lowering.settle_guards(&self.runs)?;
        let declare = |lowering: &mut Lowering, array| match parts {
            1 => lowering.pack(array, self.lanes),
            _ => lowering.packs(array, self.lanes, parts),
        };
        let packs: Vec<Expr> = results.arrays().map(|array| declare(lowering, array)).collect();
        lowering.each("lane", Type::I32, [int(0), int(self.count), int(1)], Unroll::Full, |lowering, lane| {
            self.runs.iter().zip(held).for_each(|(run, held)| run.serve(lowering, held, &lane));
            bind(lowering, &lane);
            for (statement, pack) in results.statements().iter().zip(&packs) {
                let value = lowering.value(statement.value)?;
                let place = match parts {
                    1 => pack.clone().lane(lane.clone()),
                    _ => pack.clone().at(lane.clone() / int(self.lanes)).lane(lane.clone() % int(self.lanes)),
                };
                lowering.push(Node::Assign(place.clone(), value));
                lowering.chip.insert(statement.array, place);
            }
            go_on(lowering)
        })?;
        results.arrays().for_each(|array| drop(lowering.chip.remove(&array)));
        bind(lowering, &int(0));
        lowering.computed.clear();
        let mut offsets = Vec::new();
        for statement in results.statements() {
            let offset = lowering.flat_place(statement.array, &statement.subscripts)?;
            offsets.push(offset.ok_or_else(|| Error::Bug("neighbours that are not stored side by side".into()))?);
        }
        lowering.each("part", Type::I32, [int(0), int(parts), int(1)], Unroll::Full, |lowering, part| {
            for ((array, pack), offset) in results.arrays().zip(packs).zip(offsets) {
                let place = lowering.wide(array, self.lanes, offset + part.clone() * int(self.lanes));
                let pack = if parts > 1 { pack.at(part.clone()) } else { pack };
                lowering.push(Node::Assign(place, pack));
            }
            Ok(())
        })
    }
}

/// Counts variables on to the next element, the fastest first: each from 0 again at its end.
fn count_on(lowering: &mut Lowering, counted: &[(Expr, Expr)]) -> Result<(), Error> {
    let Some(((variable, end), slower)) = counted.split_first() else { return Ok(()) };
    lowering.push(Node::Assign(variable.clone(), variable.clone() + int(1)));
    if slower.is_empty() {
        return Ok(());
    }
    lowering.when(variable.clone().binary("==", end.clone()), |lowering| {
        lowering.push(Node::Assign(variable.clone(), int(0)));
        count_on(lowering, slower)
    })
}

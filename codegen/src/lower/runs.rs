//! Runs: what a thread's elements, neighbours of the left side, read of an array, where it is known how the reads go on from one
//! element to the next: neighbours too (`x[i]`), every few elements (`x[3 * i + 1]`), backwards (`x[n - 1 - i]`), several times the
//! same (`x[i / 2]`). A run moves as packs, and elements are picked from it in registers.
//!
//! A run begins at a multiple of its packs: positions are multiples of a thread's elements, extents by the facts; what depends on
//! the call alone may be tested by the block. It holds nothing but what the elements read and, at its ends, the rest of a pack.

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Ranged, Statement};
use gpukc_dsl::types::{BinaryOp, Type};

use super::context::{Flat, Lowering};
use super::group::is_flat;
use super::lanes::{Course, Holds, Lanes};
use super::map::{Results, is_identity};
use super::place::Place;
use super::read::{inside_everywhere, plus};
use super::wide::Layout;
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, call, int};
use crate::size;
use crate::walk;

/// Bytes of a wide access.
const WIDEST: i64 = 16;
/// Bytes of an array that a thread holds at most.
const MOST_HELD: i64 = 128;

/// See the module.
pub struct Run {
    pub array: ArrayId,
    /// Elements of a pack, and packs.
    pub unit: i64,
    pub packs: i64,
    /// Each read, and where in the run it finds its element, in terms of `lane`.
    reads: Vec<(ExprId, Expr)>,
    /// The variables that they stand under: the statement's, or those of a `let` computed in place.
    own: Vec<Ranged>,
    /// The run begins where the first of its reads is at the thread's first element, plus this.
    shift: i64,
    /// How much further the next thread's begins.
    by_thread: i64,
    /// Whether the run holds more than is read, at either end.
    wider: (bool, bool),
    /// Whether the call decides where its packs lie.
    depends_on_call: bool,
    /// What must hold, or must not, for the elements to be read.
    guards: Vec<(ExprId, bool)>,
}

/// Under which conditions an expression is evaluated.
#[derive(Clone)]
struct Guard {
    /// At which elements it is.
    lanes: Vec<bool>,
    /// If these hold, or don't, for all elements.
    together: Vec<(ExprId, bool)>,
    /// Whether that is all that decides it.
    sure: bool,
}

/// A read whose course is known.
struct Found {
    read: ExprId,
    array: ArrayId,
    own: Vec<Ranged>,
    course: Course,
    guard: Guard,
}

/// The runs that results read at a thread's elements, and how many reads differ from element to element and are in none. `None` if the
/// elements can't be computed together: a read may report its index, or a `let` is computed at other elements, or needs the variables one
/// by one where they are not `counted`.
pub fn runs(lowering: &Lowering, lanes: Lanes, results: Results, counted: bool) -> Option<(Vec<Run>, usize)> {
    let all = Guard { lanes: vec![true; lanes.count as usize], together: Vec::new(), sure: true };
    let (mut found, mut apart): (Vec<Found>, usize) = (Vec::new(), 0);
    let mut pending: Vec<_> = results.values().rev().map(|value| (value, lanes.own, all.clone())).collect();
    while let Some((id, own, guard)) = pending.pop() {
        let lanes = lanes.under(own);
        if let ExprKind::Read { array, .. } = &lowering.kernel.exprs[id].kind {
            match lowering.places.of(*array) {
                Place::Inline(number) => {
                    let inlined = &lowering.kernel.statements[number];
                    if computes_beside(&lanes, id, inlined, counted) {
                        pending.push((inlined.value, &inlined.variables, guard));
                    } else if lanes.tells_apart(id) {
                        return None;
                    }
                    continue;
                }
                // Registers hold what the launch itself defines.
                Place::Memory | Place::Scratch(_) if results.arrays().all(|own| own != *array) => {
                    match read(&lanes, id, *array, &guard)? {
                        Some(one) => found.push(one),
                        None => apart += usize::from(lanes.tells_apart(id)),
                    }
                }
                _ => {}
            }
        }
        pending.extend(below(&lanes, id, &guard).into_iter().rev().map(|(id, guard)| (id, own, guard)));
    }
    let mut runs = Vec::new();
    for group in group(found) {
        let reads = group.len();
        match Run::of(&lanes, group) {
            Some(run) => runs.push(run),
            None => apart += reads,
        }
    }
    Some((runs, apart))
}

/// Whether a `let` is read at the element itself, and its elements lie beside each other like the reader's, or its variables are known
/// at each.
fn computes_beside(lanes: &Lanes, read: ExprId, inlined: &Statement, counted: bool) -> bool {
    let ExprKind::Read { subscripts, .. } = &lanes.kernel.exprs[read].kind else { return false };
    is_identity(lanes.kernel, &inlined.subscripts, &inlined.variables)
        && is_identity(lanes.kernel, subscripts, lanes.own)
        && (counted || is_flat(lanes.kernel, lanes.facts, inlined.value, lanes.under(&inlined.variables).majors()))
}

/// A read of an array in memory; nothing if its elements are read one by one, `None` if it may report.
fn read(lanes: &Lanes, read: ExprId, array: ArrayId, guard: &Guard) -> Option<Option<Found>> {
    use gpukc_dsl::program::Bounds;
    let (kernel, facts) = (lanes.kernel, lanes.facts);
    let ExprKind::Read { subscripts, .. } = &kernel.exprs[read].kind else { return Some(None) };
    if subscripts.iter().any(|subscript| matches!(subscript.bounds, Bounds::Checked)) {
        return None;
    }
    let mut guard = guard.clone();
    if !guard.sure {
        if !inside_everywhere(kernel, facts, array, subscripts, lanes.own) {
            return Some(None);
        }
        guard = Guard { lanes: vec![true; guard.lanes.len()], together: Vec::new(), sure: true };
    }
    let course = lanes.offset(read).filter(|_| lanes.tells_apart(read) && guard.lanes.contains(&true));
    Some(course.map(|course| Found { read, array, own: lanes.own.to_vec(), course, guard }))
}

/// The operands, and when each is evaluated. What a reduction reads is not looked at.
fn below(lanes: &Lanes, id: ExprId, guard: &Guard) -> Vec<(ExprId, Guard)> {
    let kernel = lanes.kernel;
    match &kernel.exprs[id].kind {
        ExprKind::Reduce(_) => Vec::new(),
        ExprKind::If { condition, then, otherwise } => {
            let when = |holds| guard.and(lanes, *condition, holds);
            vec![(*condition, guard.clone()), (*then, when(true)), (*otherwise, when(false))]
        }
        ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
            vec![(*a, guard.clone()), (*b, guard.and(lanes, *a, *op == BinaryOp::And))]
        }
        _ => {
            let maybe = |guarded| if guarded { Guard { sure: false, ..guard.clone() } } else { guard.clone() };
            walk::operands(kernel, id).into_iter().map(|(operand, guarded)| (operand, maybe(guarded))).collect()
        }
    }
}

impl Guard {
    fn and(&self, lanes: &Lanes, condition: ExprId, wanted: bool) -> Guard {
        let mut guard = self.clone();
        match lanes.holds(condition) {
            Holds::ByLane(holds) => guard.lanes.iter_mut().zip(holds).for_each(|(own, holds)| *own &= holds == wanted),
            Holds::Together if guard.together.is_empty() || reads_what_is_there(lanes, condition) => {
                guard.together.push((condition, wanted));
            }
            Holds::Together | Holds::Unknown => guard.sure = false,
        }
        guard
    }
}

/// Whether a condition may be asked for all elements at once, even if it stands behind another one that does not hold.
fn reads_what_is_there(lanes: &Lanes, condition: ExprId) -> bool {
    let (kernel, facts) = (lanes.kernel, lanes.facts);
    walk::reads(kernel, condition).into_iter().all(|read| match &kernel.exprs[read].kind {
        ExprKind::Read { array, subscripts } => inside_everywhere(kernel, facts, *array, subscripts, lanes.own),
        _ => true,
    })
}

/// Reads of one array that have the same in common, under the same conditions.
fn group(found: Vec<Found>) -> Vec<Vec<Found>> {
    let mut groups: Vec<Vec<Found>> = Vec::new();
    for one in found {
        let same = |other: &Found| {
            other.array == one.array && other.guard.together == one.guard.together && other.course.runs_with(&one.course)
        };
        match groups.iter_mut().find(|group| group.first().is_some_and(same)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

impl Run {
    /// The run of some reads, if it takes less than they would one by one.
    fn of(lanes: &Lanes, group: Vec<Found>) -> Option<Run> {
        let first = group.first()?;
        let by_thread = first.course.by_thread()?;
        let bytes = lanes.kernel.arrays[first.array].element.size() as i64;
        let steps = || group.iter().flat_map(|found| found.course.steps.iter().zip(&found.guard.lanes).filter(|s| *s.1).map(|s| *s.0));
        let (low, high) = (steps().min()?, steps().max()?);
        let unit = [16, 8, 4, 2, 1].into_iter().find(|unit| {
            // What all threads read is mostly a short table, and nothing lies behind it.
            let whole = by_thread != 0 || low % unit == 0 && (high + 1) % unit == 0;
            whole && unit * bytes <= WIDEST && first.course.is_multiple(*unit, lanes.facts, lanes.rank == 0)
        })?;
        let begin = low.div_euclid(unit) * unit;
        let packs = (high - begin) / unit + 1;
        let end = begin + packs * unit;
        let saves = packs == 1 || unit > 1 && 2 * packs <= steps().count() as i64;
        let wider = (begin < low, end > high + 1);
        if !saves
            || packs * unit * bytes > MOST_HELD
            || (wider != (false, false) && lanes.rank > 0 && !stays(lanes, first, begin, end))
        {
            return None;
        }
        Some(Run {
            array: first.array,
            unit,
            packs,
            reads: group.iter().map(|found| (found.read, found.course.text_from(begin))).collect(),
            own: first.own.clone(),
            shift: begin - first.course.steps.first()?,
            by_thread,
            wider,
            depends_on_call: first.course.depends_on_call(),
            guards: first.guard.together.clone(),
        })
    }

    pub fn bytes(&self, lowering: &Lowering) -> i64 {
        self.packs * self.unit * lowering.kernel.arrays[self.array].element.size() as i64
    }

    /// Where it begins at the current position.
    pub fn begin(&self, lowering: &mut Lowering) -> Result<Expr, Error> {
        let Some((read, _)) = self.reads.first() else { return Err(Error::Bug("a run of nothing".into())) };
        let kernel = lowering.kernel;
        let ExprKind::Read { array, subscripts } = &kernel.exprs[*read].kind else {
            return Err(Error::Bug("a run of no read".into()));
        };
        let offset = lowering.at_element_of(&self.own, |lowering| match lowering.flat_place(*array, subscripts)? {
            Some(offset) => Ok(offset),
            None => {
                let (indices, _) = lowering.guarded_indices(*array, subscripts)?;
                lowering.row_major(*array, indices)
            }
        })?;
        Ok(plus(offset, self.shift))
    }

    /// Declares registers for the runs of several steps, or of one.
    pub fn declare(&self, lowering: &mut Lowering, steps: Option<i64>) -> Expr {
        let extents: Vec<u32> = steps.into_iter().chain((self.packs > 1).then_some(self.packs)).map(|n| n as u32).collect();
        let (wish, ty) = lowering.piece_of(self.array, self.unit);
        if extents.is_empty() { lowering.variable(&wish, ty, None) } else { lowering.registers(&wish, ty, extents) }
    }

    /// Loads the run at the current position into new registers, its [guards](Lowering::settle_guards) settled.
    pub fn load(&self, lowering: &mut Lowering) -> Result<Expr, Error> {
        if self.packs > 1 || !self.guards.is_empty() {
            let held = self.declare(lowering, None);
            self.load_into(lowering, held.clone())?;
            return Ok(held);
        }
        let begin = self.begin(lowering)?;
        let (wish, ty) = lowering.piece_of(self.array, self.unit);
        let pack = lowering.piece(self.array, self.unit, begin);
        Ok(lowering.local(&wish, ty, pack))
    }

    /// The same into registers that are declared.
    pub fn load_into(&self, lowering: &mut Lowering, held: Expr) -> Result<(), Error> {
        let mut condition: Option<Expr> = None;
        for (guard, wanted) in &self.guards {
            let value = lowering.value(*guard)?;
            let value = if *wanted { value } else { Expr::Unary("!", Box::new(value)) };
            condition = Some(condition.map_or(value.clone(), |all| all.and(value)));
        }
        lowering.when_some(condition, |lowering| {
            let begin = self.begin(lowering)?;
            if self.packs == 1 {
                let pack = lowering.piece(self.array, self.unit, begin);
                lowering.push(Node::Assign(held, pack));
                return Ok(());
            }
            lowering.each("part", Type::I32, [int(0), int(self.packs), int(1)], Unroll::Full, |lowering, part| {
                let pack = lowering.piece(self.array, self.unit, begin + part.clone() * int(self.unit));
                lowering.push(Node::Assign(held.at(part), pack));
                Ok(())
            })
        })
    }

    /// Whether a read takes its values from the run.
    pub fn serves(&self, read: ExprId) -> bool {
        self.reads.iter().any(|(own, _)| *own == read)
    }

    /// Lets the reads take their values from the run, at an element.
    pub fn serve(&self, lowering: &mut Lowering, held: &Expr, lane: &Expr) {
        for (read, place) in &self.reads {
            let mut place = at_lane(place, lane);
            if self.packs > 1 && operators(&place) > 2 {
                place = lowering.local("from", Type::I32, place);
            }
            let element = match (self.unit, self.packs) {
                (1, _) => held.clone(),
                (_, 1) => held.clone().lane(place),
                (unit, _) => held.clone().at(place.clone() / int(unit)).lane(place % int(unit)),
            };
            lowering.computed.insert(*read, element);
        }
    }

    /// What must hold for a block that computes whole packs from position `first` on, `positions` of them, each thread `own`: that
    /// packs are aligned, and that what they hold beyond the elements is there.
    pub fn conditions(
        &self,
        lowering: &mut Lowering,
        first: &Expr,
        positions: i64,
        bind: &impl Fn(&mut Lowering, Expr),
    ) -> Result<Vec<Expr>, Error> {
        let mut all = Vec::new();
        let bytes = self.unit * lowering.kernel.arrays[self.array].element.size() as i64;
        if self.unit > 1 {
            let pointer = lowering.pointer(self.array);
            all.push(call("is_aligned", vec![pointer, int(bytes)]));
            if self.depends_on_call {
                bind(lowering, int(0));
                let begin = match self.begin(lowering)? {
                    Expr::Binary("-", zero, begin) if zero.constant() == Some(0) => *begin,
                    begin => begin,
                };
                all.push((begin % int(self.unit)).binary("==", int(0)));
            }
        }
        let forwards = self.by_thread >= 0;
        // The first of the block's runs in memory begins where it does at the first position; going backwards, the last.
        let begin_at = |lowering: &mut Lowering, at_first: bool| {
            let position = if at_first { first.clone() } else { first.clone() + int(positions) };
            bind(lowering, position);
            self.begin(lowering).map(|begin| if at_first { begin } else { plus(begin, -self.by_thread) })
        };
        if self.wider.0 {
            let begin = begin_at(lowering, forwards)?;
            all.push(int(0).binary("<=", begin));
        }
        if self.wider.1 {
            let end = plus(begin_at(lowering, !forwards)?, self.unit * self.packs);
            let elements = lowering.elements(&lowering.kernel.arrays[self.array])?;
            all.push(end.binary("<=", lowering.size(&elements, "elements")));
        }
        Ok(all)
    }
}

/// Whether a run that holds more than its reads need stays within the row of the array that it lies in.
fn stays(lanes: &Lanes, first: &Found, begin: i64, end: i64) -> bool {
    let within = || {
        let ExprKind::Read { subscripts, .. } = &lanes.kernel.exprs[first.read].kind else { return None };
        let along = lanes.under(&first.own).course(subscripts.last()?.index)?;
        let beside = first.course.steps.first()? - along.steps.first()?;
        let by_thread = along.by_thread().filter(|_| along.is_by_thread_alone())?;
        let extent = super::group::product(lanes.kernel, lanes.facts, lanes.majors())?;
        let row = size::formula(lanes.kernel, lanes.facts, *lanes.kernel.arrays[first.array].shape.last()?)?;
        let rest = extent.times(by_thread).minus(row.times(lanes.positions()));
        let inside = begin >= beside && end - beside <= by_thread;
        Some(inside && by_thread == first.course.by_thread()? && lanes.facts.below(&rest, 1))
    };
    within().unwrap_or(false)
}

fn operators(text: &Expr) -> usize {
    if let Expr::Binary(_, a, b) = text { 1 + operators(a) + operators(b) } else { 0 }
}

/// A text in terms of `lane`, at an element.
pub fn at_lane(text: &Expr, lane: &Expr) -> Expr {
    match text {
        Expr::Name(text) if text == "lane" => lane.clone(),
        Expr::Binary(op, a, b) => at_lane(a, lane).binary(op, at_lane(b, lane)),
        other => other.clone(),
    }
}

impl Lowering<'_> {
    /// Binds variables at an element of a thread whose first is at `position`.
    pub fn bind_lane(&mut self, variables: &[Ranged], layout: &Layout, rank: usize, position: Expr, lane: &Expr) {
        let lanes = layout.lanes_of(self, variables, rank);
        let position = position + at_lane(&lanes.position_text(), lane);
        let minors = lanes.minor_texts().unwrap_or_default();
        let majors = lanes.majors().to_vec();
        if let [major] = majors.as_slice() {
            self.variables.insert(major.variable, position.clone());
        }
        for (range, _, _, text) in minors {
            self.variables.insert(range.variable, at_lane(&text, lane));
        }
        self.flat = Some(Flat { variables: majors, position });
        self.element = Some(variables.to_vec());
    }

    /// Computes the conditions that hold for all elements of a thread or for none.
    pub fn settle_guards(&mut self, runs: &[Run]) -> Result<(), Error> {
        for run in runs {
            for (guard, _) in &run.guards {
                if !self.computed.contains_key(guard) {
                    let value = self.at_element_of(&run.own, |lowering| lowering.value(*guard))?;
                    let value = if matches!(value, Expr::Name(_)) { value } else { self.local("holds", Type::Bool, value) };
                    self.computed.insert(*guard, value);
                }
            }
        }
        Ok(())
    }
}

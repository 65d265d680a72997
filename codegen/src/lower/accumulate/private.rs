//! Accumulations into arrays of few elements: every block has copies of its own in shared memory, where atomic operations are cheap; of
//! arrays of more elements than fit, of a range of them.

use gpukc_dsl::program::{ExprId, Statement};
use gpukc_dsl::types::{AccumulateOp, Type};

use super::{Container, THREADS, combine, combine_into, identity, iteration};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::{Flat, Lowering};
use crate::lower::group::{from_zero, is_flat};
use crate::lower::map::suffix;
use crate::lower::packs::{self, Along, Verdict};
use crate::plan::{Expr, Node, Unroll, call, int, name};
use crate::walk;

/// Blocks of a launch whose blocks have copies: enough to fill a GPU a few times.
const MOST_PRIVATE: i64 = 1 << 10;
/// Largest copy of an array in shared memory.
const PRIVATE_BYTES: i64 = 16 << 10;
/// Of arrays whose extents a call gives, those of at most so many elements have as many copies as they would have by themselves.
const FEW: i64 = 256;
/// Most for all copies of an array, where lanes have several.
const COPIES_BYTES: i64 = 32 << 10;

/// Threads and most blocks where copies are larger, and for all ranges together: few blocks fit a multiprocessor, of those of ranges one
/// (H200, 2^24 i32 into 100,000: 128 blocks 47 µs, 256 blocks 69 µs).
const LARGE_COPY_THREADS: i64 = 1024;
const MOST_LARGE: i64 = 1 << 8;
const MOST_RANGED: i64 = 1 << 7;
/// Iterations for each element from which larger copies pay (H200, 2^20 i32: into 20,000 6.4 µs instead of 19.6, into 50,000 9.5 instead
/// of 14.8).
const LARGE_COPY_POINTS: i64 = 1 << 4;
/// Most ranges that an array is cut into: all iterations are gone through for each. Where shared memory adds by itself and where it does
/// not, as floats (H200, 2^24 i32 into 250,000, five ranges: 89 µs instead of 175; f32 into 100,000, two: 83 instead of 219).
const MOST_RANGES: i64 = 8;
const MOST_RANGES_OF_FLOATS: i64 = 4;

/// What blocks have copies of, and how many.
pub struct Shape {
    /// Elements of an array, and how many of them at most a block has copies of: all, or those of a range.
    elements: Formula,
    width: i64,
    /// Ranges of so many elements; each has blocks of its own.
    ranges: Formula,
    /// Copies of each element in a block.
    copies: i64,
    threads: i64,
}

impl Shape {
    /// How every block gets a copy of the array, or of a range of it, if it is to: of a small one always; of a larger one if there is so
    /// much to accumulate that filling and emptying the copies does not count. Of an array whose extents a call gives, the text serves
    /// all that have as many elements.
    pub fn of(lowering: &Lowering, statement: &Statement, container: Container, points: &Formula) -> Result<Option<Shape>, Error> {
        let (facts, size) = (lowering.facts, container.wide.size() as i64);
        let elements = lowering.elements(&lowering.kernel.arrays[container.array].clone())?;
        let known = elements.constant();
        let fits = |bytes: i64| known.map_or(facts.below(&elements, bytes / size + 1), |n| (1..=bytes / size).contains(&n));
        if fits(PRIVATE_BYTES) {
            let width = known.unwrap_or(if facts.below(&elements, FEW + 1) { FEW } else { PRIVATE_BYTES / size });
            let copies = [32, 16, 8, 4, 2].into_iter().find(|copies| width * size * copies <= COPIES_BYTES).unwrap_or(1);
            return Ok(Some(Shape { elements, width, ranges: 1.into(), copies, threads: THREADS }));
        }
        let room = lowering.target.shared_bytes() / size;
        // What is accumulated is computed for each range.
        let is_cheap = !walk::has_reduction(lowering.kernel, statement.value);
        let most_ranges = match container.wide.is_float() {
            _ if !is_cheap => 1,
            true => MOST_RANGES_OF_FLOATS,
            false => MOST_RANGES,
        };
        let many = facts.at_least(&points.clone().minus(elements.clone().times(LARGE_COPY_POINTS)), 0);
        if !many || !fits(most_ranges * room * size) {
            return Ok(None);
        }
        let width = known.map_or(room, |count| (count + ranges_of(count, room) - 1) / ranges_of(count, room));
        let ranges = elements.clone().div_ceil(width);
        Ok(Some(Shape { elements, width, ranges, copies: 1, threads: LARGE_COPY_THREADS }))
    }

    /// Whether the text spells the number of elements.
    pub fn is_of_one_array(&self) -> bool {
        self.elements.constant().is_some()
    }

    /// Whether a block has copies of the whole array.
    fn is_whole(&self) -> bool {
        self.ranges.constant() == Some(1)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "Grid-stride. Every block accumulates in shared memory, where atomic operations are cheap, and combines what it".into(),
        ];
        notes.push(match self.copies {
            1 => "has into the array once.".into(),
            copies => {
                format!("has into the array once. Neighbouring lanes have {copies} copies side by side, so that they seldom meet.")
            }
        });
        if !self.is_whole() {
            notes.push(format!(
                "The array is larger than that: blocks of a range of {} elements go through all iterations and",
                self.width
            ));
            notes.push("take those of their range.".into());
        }
        notes
    }
}

fn ranges_of(count: i64, room: i64) -> i64 {
    (count + room - 1) / room
}

/// Few elements: every block accumulates copies of its own in shared memory, and combines them into the array at the end.
pub fn lower(
    lowering: &mut Lowering,
    statement: &Statement,
    container: Container,
    op: AccumulateOp,
    shape: &Shape,
) -> Result<(), Error> {
    let points = lowering.points(&statement.variables)?;
    let target = container.pointer(lowering, true);
    let wish = format!("{}_block", lowering.kernel.arrays[container.array].name.replace('.', "_"));
    let copy = lowering.shared(&wish, container.wide, vec![(shape.width * shape.copies) as u32]);
    let block = Private::begin(lowering, statement, container, op, shape);
    block.fill(lowering, &copy)?;
    lowering.push(Node::Barrier);
    block.iterations(lowering, &points, &copy)?;
    lowering.push(Node::Barrier);
    block.deliver(lowering, &copy, target)?;
    let what = suffix(lowering, statement);
    let most: Formula = match shape.threads {
        THREADS => MOST_PRIVATE.into(),
        _ if shape.is_whole() => MOST_LARGE.into(),
        _ => Formula::from(MOST_RANGED).div_floor(shape.ranges.clone()).max(1),
    };
    let grid = [points.div_ceil(16 * shape.threads).min(most), shape.ranges.clone(), 1.into()];
    lowering.end_launch(&what, "accumulate", shape.notes(), grid, [shape.threads as u32, 1, 1]);
    // Every block fills and empties copies.
    if let Some(launch) = lowering.plan.launches.last_mut() {
        launch.striding = true;
    }
    Ok(())
}

/// An accumulation into copies of a block.
struct Private<'a> {
    statement: &'a Statement,
    container: Container,
    op: AccumulateOp,
    copies: i64,
    threads: i64,
    /// How many elements the block has copies of.
    count: Expr,
    /// The first of them, where a block has a range of the array.
    first: Option<Expr>,
}

impl<'a> Private<'a> {
    /// Declares which elements the block has.
    fn begin(lowering: &mut Lowering, statement: &'a Statement, container: Container, op: AccumulateOp, shape: &Shape) -> Self {
        let Shape { copies, threads, .. } = *shape;
        let (ty, elements) = (lowering.index_type(), lowering.size(&shape.elements, "elements"));
        let (count, first) = if shape.is_whole() {
            (elements, None)
        } else {
            let first = lowering.local("range", ty, name("blockIdx.y").cast(ty) * int(shape.width));
            let count = call("minimum", vec![elements - first.clone(), lowering.index_constant(shape.width).cast(ty)]);
            (lowering.local("count", Type::I32, count.cast(Type::I32)), Some(first))
        };
        Private { statement, container, op, copies, threads, count, first }
    }

    /// Fills the copies with what an accumulation starts at.
    fn fill(&self, lowering: &mut Lowering, copy: &Expr) -> Result<(), Error> {
        let all = self.count.clone() * int(self.copies);
        let bounds = [name("threadIdx.x").cast(Type::I32), all, int(self.threads)];
        lowering.each("element", Type::I32, bounds, Unroll::By(1), |lowering, element| {
            lowering.push(Node::Assign(copy.clone().at(element), identity(self.op, self.container)));
            Ok(())
        })
    }

    /// All iterations of the block: packs of neighbouring ones where their inputs run along, then what is left.
    fn iterations(&self, lowering: &mut Lowering, points: &Formula, copy: &Expr) -> Result<(), Error> {
        let ty = lowering.index_type();
        let all = lowering.size(points, "points");
        let first = name("blockIdx.x").cast(ty) * int(self.threads) + name("threadIdx.x").cast(Type::I32);
        let step = name("gridDim.x").cast(ty) * int(self.threads);
        let wish = lowering.point_name(&self.statement.variables);
        let Some((lanes, along)) = along(lowering, self.statement) else {
            return lowering.each(&wish, ty, [first, all, step], Unroll::By(4), |lowering, point| {
                lowering.decode(&self.statement.variables, point)?;
                self.iteration(lowering, copy)
            });
        };
        let whole = lowering.local("packs", ty, all.clone() / int(lanes));
        lowering.each("pack", ty, [first.clone(), whole.clone(), step.clone()], Unroll::By(2), |lowering, pack| {
            let at = lowering.local("at", ty, pack * int(lanes));
            let packs: Vec<Expr> = along.iter().map(|along| lowering.load_pack(along.array, lanes, at.clone())).collect();
            lowering.each("lane", Type::I32, [int(0), int(lanes), int(1)], Unroll::Full, |lowering, lane| {
                for (along, pack) in along.iter().zip(&packs) {
                    lowering.take_from(along, &pack.clone().lane(lane.clone()));
                }
                self.at(lowering, at + lane, copy)
            })
        })?;
        lowering.computed.clear();
        lowering.each(&wish, ty, [whole * int(lanes) + first, all, step], Unroll::By(1), |lowering, point| {
            self.at(lowering, point, copy)
        })?;
        lowering.flat = None;
        Ok(())
    }

    /// The iteration of that number, whose variables run together.
    fn at(&self, lowering: &mut Lowering, position: Expr, copy: &Expr) -> Result<(), Error> {
        if let [range] = self.statement.variables.as_slice() {
            lowering.variables.insert(range.variable, position.clone());
        }
        lowering.flat = Some(Flat { variables: self.statement.variables.clone(), position });
        self.iteration(lowering, copy)
    }

    fn iteration(&self, lowering: &mut Lowering, copy: &Expr) -> Result<(), Error> {
        iteration(lowering, self.statement, self.container, |lowering, offset, value| {
            let Some(first) = &self.first else {
                let place = match self.copies {
                    1 => offset,
                    copies => offset * int(copies) + (name("threadIdx.x").cast(Type::I32) % int(copies)),
                };
                lowering.push(combine_into(copy.clone().at(place), value, self.op));
                return Ok(());
            };
            let ty = lowering.index_type();
            let place = lowering.local("place", ty, offset.cast(ty) - first.clone());
            let inside = int(0).binary("<=", place.clone()).and(place.clone().less(self.count.clone()));
            lowering.when(inside, |lowering| {
                lowering.push(combine_into(copy.clone().at(place), value, self.op));
                Ok(())
            })
        })
    }

    /// Combines the copies of each element, and the result into the array. Threads start at different copies, in different banks.
    fn deliver(&self, lowering: &mut Lowering, copy: &Expr, target: Expr) -> Result<(), Error> {
        let elements = [name("threadIdx.x").cast(Type::I32), self.count.clone(), int(self.threads)];
        let nothing = || identity(self.op, self.container);
        lowering.each("element", Type::I32, elements, Unroll::By(1), |lowering, element| {
            let own = if self.copies == 1 {
                copy.clone().at(element.clone())
            } else {
                let own = lowering.variable("own", self.container.wide, Some(nothing()));
                lowering.each("copy", Type::I32, [int(0), int(self.copies), int(1)], Unroll::By(4), |lowering, number| {
                    let turned = (number + element.clone()) % int(self.copies);
                    let one = copy.clone().at(element.clone() * int(self.copies) + turned);
                    let next = combine(self.op, own.clone(), one, self.container.wide);
                    lowering.push(Node::Assign(own.clone(), next));
                    Ok(())
                })?;
                own
            };
            let changed = own.clone().binary("!=", nothing());
            lowering.when(changed, |lowering| {
                let place = self.first.clone().map_or(element.clone(), |first| first + element);
                lowering.push(combine_into(target.at(place), own, self.op));
                Ok(())
            })
        })
    }
}

/// What runs along a statement's iterations, and by how many elements an access, if all can be said of their number alone.
fn along(lowering: &Lowering, statement: &Statement) -> Option<(i64, Vec<Along>)> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let roots: Vec<ExprId> = statement.subscripts.iter().map(|s| s.index).chain([statement.value]).collect();
    let variables = &statement.variables;
    let plain = |root: &ExprId| is_flat(kernel, facts, *root, variables) && !walk::has_reduction(kernel, *root);
    let from_zero = from_zero(kernel, facts, variables);
    if !facts.aligned || variables.is_empty() || !from_zero || !roots.iter().all(plain) {
        return None;
    }
    let along = packs::along(lowering, &roots, variables, |read| match read.in_place {
        Some(inlined) if read.is_along(lowering, inlined, 0) => Verdict::Enter,
        None if read.is_counted_through(lowering) => Verdict::Along,
        _ => Verdict::Apart,
    });
    let widest = along.iter().map(|along| kernel.arrays[along.array].element.size() as i64).max()?;
    (widest < 16).then_some((16 / widest, along))
}

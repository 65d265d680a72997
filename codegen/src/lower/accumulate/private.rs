//! Accumulations into arrays of few elements: every block has copies of its own in shared memory, where atomic operations are cheap.

use gpukc_dsl::program::{ExprId, Statement};
use gpukc_dsl::types::{AccumulateOp, Type};

use super::{Container, THREADS, combine, combine_into, identity, iteration};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::{Flat, Lowering};
use crate::lower::group::{from_zero, is_flat};
use crate::lower::map::suffix;
use crate::lower::packs::{self, Along, Verdict};
use crate::plan::{Expr, Node, Unroll, int, name};
use crate::walk;

/// Blocks of a launch whose blocks have copies: enough to fill a GPU a few times.
const MOST_PRIVATE: i64 = 1 << 10;
/// Largest copy of an array in shared memory.
const PRIVATE_BYTES: i64 = 16 << 10;
/// Most for all copies of an array, where lanes have several.
const COPIES_BYTES: i64 = 32 << 10;

/// Threads and most blocks where copies are larger: few blocks fit a multiprocessor.
const LARGE_COPY_THREADS: i64 = 1024;
const MOST_LARGE: i64 = 1 << 8;
/// Iterations for each element from which larger copies pay.
const LARGE_COPY_POINTS: i64 = 1 << 10;

/// Whether every block gets a copy of the array: a small one always, one that fits shared memory at all if there is so much to
/// accumulate that filling and emptying the copies does not count.
pub fn has_copies(lowering: &Lowering, container: Container, count: i64, points: &Formula) -> bool {
    let bytes = count.saturating_mul(container.wide.size() as i64);
    let many = lowering.facts.at_least(points, count.saturating_mul(LARGE_COPY_POINTS));
    count > 0 && (bytes <= PRIVATE_BYTES || bytes <= lowering.target.shared_bytes() && many)
}

/// Few elements: every block accumulates copies of its own in shared memory, and combines them into the array at the end.
pub fn lower(lowering: &mut Lowering, statement: &Statement, container: Container, op: AccumulateOp, count: i64) -> Result<(), Error> {
    let points = lowering.points(&statement.variables)?;
    let target = container.pointer(lowering, true);
    let bytes = count * container.wide.size() as i64;
    let copies = [32, 16, 8, 4, 2].into_iter().find(|copies| bytes * copies <= COPIES_BYTES).unwrap_or(1);
    let threads = if bytes > PRIVATE_BYTES { LARGE_COPY_THREADS } else { THREADS };
    let block = Private { statement, container, op, count, copies, threads };
    let wish = format!("{}_block", lowering.kernel.arrays[container.array].name.replace('.', "_"));
    let copy = lowering.shared(&wish, container.wide, vec![(count * copies) as u32]);
    let thread = || name("threadIdx.x").cast(Type::I32);
    lowering.each("element", Type::I32, [thread(), int(count * copies), int(threads)], Unroll::By(1), |lowering, element| {
        lowering.push(Node::Assign(copy.clone().at(element), identity(op, container)));
        Ok(())
    })?;
    lowering.push(Node::Barrier);
    block.iterations(lowering, &points, &copy)?;
    lowering.push(Node::Barrier);
    block.deliver(lowering, &copy, target)?;
    let mut notes =
        vec!["Grid-stride. Every block accumulates in shared memory, where atomic operations are cheap, and combines what it".into()];
    notes.push(match copies {
        1 => "has into the array once.".into(),
        _ => format!("has into the array once. Neighbouring lanes have {copies} copies side by side, so that they seldom meet."),
    });
    let what = suffix(lowering, statement);
    let most = if bytes > PRIVATE_BYTES { MOST_LARGE } else { MOST_PRIVATE };
    let grid = [points.div_ceil(16 * threads).min(most), 1.into(), 1.into()];
    lowering.end_launch(&what, "accumulate", notes, grid, [threads as u32, 1, 1]);
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
    count: i64,
    copies: i64,
    threads: i64,
}

impl Private<'_> {
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
            let place = match self.copies {
                1 => offset,
                copies => offset * int(copies) + (name("threadIdx.x").cast(Type::I32) % int(copies)),
            };
            lowering.push(combine_into(copy.clone().at(place), value, self.op));
            Ok(())
        })
    }

    /// Combines the copies of each element, and the result into the array. Threads start at different copies, in different banks.
    fn deliver(&self, lowering: &mut Lowering, copy: &Expr, target: Expr) -> Result<(), Error> {
        let elements = [name("threadIdx.x").cast(Type::I32), int(self.count), int(self.threads)];
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
                lowering.push(combine_into(target.at(element), own, self.op));
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

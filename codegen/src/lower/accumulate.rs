//! Accumulations (`h[k[i]] += e`): a thread per iteration combines its value into the array by an atomic operation.
//!
//! The array starts at the operator's identity or at its earlier definition. Types narrower than a word are accumulated in their
//! widened type in scratch memory and stored once, at the end; bool as an `int`. Integer results do not depend on the order; of
//! floats under `@deterministic`, a thread per element visits all iterations in ascending order instead.

use gpukc_dsl::program::{ArrayId, ExprId, Statement, StatementKind};
use gpukc_dsl::types::{AccumulateOp, Type};

use super::context::{Flat, Lowering};
use super::expr::{binary, cast, extreme, zero};
use super::group::{Group, is_flat};
use super::map::suffix;
use super::packs::{self, Along, Verdict};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, call, int, name};
use crate::walk;

/// Threads of a block.
const THREADS: i64 = 256;
/// Most blocks of a grid-stride launch.
const MOST_BLOCKS: i64 = 1 << 16;

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

/// Where an array is accumulated.
#[derive(Clone, Copy)]
struct Container {
    array: ArrayId,
    element: Type,
    /// The type that is accumulated in.
    wide: Type,
    /// Scratch memory of that type, if it is not the array's own.
    scratch: Option<usize>,
}

/// Lowers an accumulation.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        let StatementKind::Accumulate { op, from_identity } = statement.kind else {
            return Err(Error::Bug("an accumulation that is none".into()));
        };
        let same = |other: &Statement| other.array == statement.array && super::accumulates(other.kind);
        let statements = &lowering.kernel.statements;
        let is_first = !statements[..number].iter().any(same);
        let is_last = !statements[number + 1..].iter().any(same);
        let container = container(lowering, &statement, is_first)?;
        if is_first {
            begin(lowering, &statement, container, op, from_identity)?;
        }
        if statement.attributes.deterministic && container.element.is_float() {
            in_order(lowering, &statement, container, op)?;
        } else {
            atomically(lowering, &statement, container, op)?;
        }
        if is_last && container.scratch.is_some() {
            finish(lowering, &statement, container)?;
        }
    }
    Ok(())
}

fn container(lowering: &mut Lowering, statement: &Statement, is_first: bool) -> Result<Container, Error> {
    let array = lowering.kernel.arrays[statement.array].clone();
    let element = array.element;
    let wide = if element == Type::Bool { Type::I32 } else { element.widened() };
    let scratch = if wide == element {
        None
    } else {
        let wish = format!("{}_wide", array.name.replace('.', "_"));
        if is_first {
            let bytes = lowering.elements(&array)?.times(wide.size() as i64);
            Some(lowering.scratch(&wish, bytes))
        } else {
            lowering.plan.scratch.iter().position(|s| s.name == wish)
        }
    };
    Ok(Container { array: statement.array, element, wide, scratch })
}

impl Container {
    fn pointer(self, lowering: &mut Lowering, written: bool) -> Expr {
        match self.scratch {
            Some(scratch) => lowering.scratch_pointer(scratch, self.wide, written),
            None => lowering.pointer(self.array),
        }
    }
}

/// A grid-stride launch over a number of points.
fn over(
    lowering: &mut Lowering,
    points: &Formula,
    (wish, suffix): (&str, &str),
    notes: Vec<String>,
    write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>,
) -> Result<(), Error> {
    let ty = lowering.index_type();
    let count = lowering.size(points, "points");
    let lo = name("blockIdx.x").cast(ty) * int(THREADS) + name("threadIdx.x").cast(Type::I32);
    let step = name("gridDim.x").cast(ty) * int(THREADS);
    lowering.each(wish, ty, [lo, count, step], Unroll::By(1), write)?;
    let grid = [points.clone().div_ceil(THREADS).min(MOST_BLOCKS), 1.into(), 1.into()];
    lowering.end_launch(suffix, "accumulate", notes, grid, [THREADS as u32, 1, 1]);
    Ok(())
}

fn named(lowering: &Lowering, statement: &Statement, what: &str) -> String {
    let stem = suffix(lowering, statement);
    if stem.is_empty() { what.to_string() } else { format!("{stem}_{what}") }
}

/// Fills the container with what the array starts at.
fn begin(
    lowering: &mut Lowering,
    statement: &Statement,
    container: Container,
    op: AccumulateOp,
    from_identity: bool,
) -> Result<(), Error> {
    if !from_identity && container.scratch.is_none() {
        return Ok(());
    }
    let written: &[ArrayId] = if container.scratch.is_none() { &[container.array] } else { &[] };
    lowering.begin_launch(written);
    let elements = lowering.elements(&lowering.kernel.arrays[container.array].clone())?;
    let target = container.pointer(lowering, true);
    let what = named(lowering, statement, "start");
    over(lowering, &elements, ("element", &what), vec!["What the accumulation starts at.".into()], |lowering, point| {
        let value = if from_identity {
            identity(op, container)
        } else {
            let own = lowering.pointer(container.array).at(point.clone());
            cast(own, container.element, container.wide)
        };
        lowering.push(Node::Assign(target.at(point), value));
        Ok(())
    })
}

/// Converts the container to the array's own type.
fn finish(lowering: &mut Lowering, statement: &Statement, container: Container) -> Result<(), Error> {
    lowering.begin_launch(&[container.array]);
    let elements = lowering.elements(&lowering.kernel.arrays[container.array].clone())?;
    let source = container.pointer(lowering, false);
    let target = lowering.pointer(container.array);
    let what = named(lowering, statement, "store");
    let note = format!("The results, accumulated in {}, stored once as {}.", container.wide, container.element);
    over(lowering, &elements, ("element", &what), vec![note], |lowering, point| {
        let value = cast(source.at(point.clone()), container.wide, container.element);
        lowering.push(Node::Assign(target.at(point), value));
        Ok(())
    })
}

/// Evaluates the iteration whose variables are bound: `take` gets the element's offset and the value in the wide type.
fn iteration(
    lowering: &mut Lowering,
    statement: &Statement,
    container: Container,
    take: impl FnOnce(&mut Lowering, Expr, Expr) -> Result<(), Error>,
) -> Result<(), Error> {
    let (indices, conditions) = lowering.guarded_indices(statement.array, &statement.subscripts)?;
    let inside = conditions.into_iter().map(|inside| inside.condition).reduce(Expr::and);
    lowering.when_some(inside, |lowering| {
        let offset = lowering.row_major(statement.array, indices)?;
        let from = lowering.kernel.exprs[statement.value].ty;
        let value = lowering.value(statement.value)?;
        take(lowering, offset, cast(value, from, container.wide))
    })
}

fn atomically(lowering: &mut Lowering, statement: &Statement, container: Container, op: AccumulateOp) -> Result<(), Error> {
    let written: &[ArrayId] = if container.scratch.is_none() { &[container.array] } else { &[] };
    lowering.begin_launch(written);
    let elements = lowering.elements(&lowering.kernel.arrays[container.array].clone())?;
    let points = lowering.points(&statement.variables)?;
    if let Some(count) = elements.constant().filter(|n| has_copies(lowering, container, *n, &points)) {
        return privately(lowering, statement, container, op, count);
    }
    let target = container.pointer(lowering, true);
    let what = suffix(lowering, statement);
    let notes = vec!["A thread per iteration, grid-stride; values meet in the array by atomic operations.".into()];
    let wish = lowering.point_name(&statement.variables);
    over(lowering, &points, (&wish, &what), notes, |lowering, point| {
        lowering.decode(&statement.variables, point)?;
        iteration(lowering, statement, container, |lowering, offset, value| {
            lowering.push(combine_into(target.at(offset), value, op));
            Ok(())
        })
    })
}

/// Whether every block gets a copy of the array: a small one always, one that fits shared memory at all if there is so much to
/// accumulate that filling and emptying the copies does not count.
fn has_copies(lowering: &Lowering, container: Container, count: i64, points: &Formula) -> bool {
    let bytes = count.saturating_mul(container.wide.size() as i64);
    let many = lowering.facts.at_least(points, count.saturating_mul(LARGE_COPY_POINTS));
    count > 0 && (bytes <= PRIVATE_BYTES || bytes <= lowering.target.shared_bytes() && many)
}

/// `accumulate(&place, value, Functor());`
fn combine_into(place: Expr, value: Expr, op: AccumulateOp) -> Node {
    Node::Call("accumulate".into(), vec![Expr::Unary("&", Box::new(place)), value, call(functor(op), Vec::new())])
}

/// Few elements: every block accumulates copies of its own in shared memory, and combines them into the array at the end.
fn privately(lowering: &mut Lowering, statement: &Statement, container: Container, op: AccumulateOp, count: i64) -> Result<(), Error> {
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
    let from_zero = super::group::from_zero(kernel, facts, variables);
    if !facts.aligned || variables.is_empty() || !from_zero || !roots.iter().all(plain) {
        return None;
    }
    let along = packs::along(lowering, &roots, variables, |read| match read.in_place {
        None if read.is_counted_through(lowering) => Verdict::Along,
        _ => Verdict::Apart,
    })?;
    let widest = along.iter().map(|along| kernel.arrays[along.array].element.size() as i64).max()?;
    (widest < 16).then_some((16 / widest, along))
}

/// A thread per element visits every iteration in ascending order: the same bits every time, at a price.
fn in_order(lowering: &mut Lowering, statement: &Statement, container: Container, op: AccumulateOp) -> Result<(), Error> {
    let written: &[ArrayId] = if container.scratch.is_none() { &[container.array] } else { &[] };
    lowering.begin_launch(written);
    let ty = lowering.index_type();
    let elements = lowering.elements(&lowering.kernel.arrays[container.array].clone())?;
    let iterations = lowering.points(&statement.variables)?;
    let target = container.pointer(lowering, true);
    let what = suffix(lowering, statement);
    let notes = vec!["@deterministic: a thread per element takes its values in ascending order of the iterations.".into()];
    let existing = lowering.size(&elements, "elements");
    // One thread looks at the indices even where there is no element: all of them are out of range.
    over(lowering, &elements.max(1), ("element", &what), notes, |lowering, element| {
        let exists = element.clone().less(existing);
        let so_far = lowering.variable("so_far", container.wide, Some(zero(container.wide)));
        lowering.when(exists.clone(), |lowering| {
            lowering.push(Node::Assign(so_far.clone(), target.clone().at(element.clone())));
            Ok(())
        })?;
        let count = lowering.size(&iterations, "iterations");
        lowering.each("iteration", ty, [int(0), count, int(1)], Unroll::Default, |lowering, number| {
            lowering.decode(&statement.variables, number)?;
            iteration(lowering, statement, container, |lowering, offset, value| {
                lowering.when(offset.binary("==", element.clone()), |lowering| {
                    let next = combine(op, so_far.clone(), value, container.wide);
                    lowering.push(Node::Assign(so_far.clone(), next));
                    Ok(())
                })
            })
        })?;
        lowering.when(exists, |lowering| {
            lowering.push(Node::Assign(target.at(element), so_far));
            Ok(())
        })
    })
}

fn functor(op: AccumulateOp) -> &'static str {
    match op {
        AccumulateOp::Add => "Sum",
        AccumulateOp::Mul => "Product",
        AccumulateOp::Min => "Minimum",
        AccumulateOp::Max => "Maximum",
        AccumulateOp::Or => "BitOr",
        AccumulateOp::And => "BitAnd",
    }
}

fn combine(op: AccumulateOp, a: Expr, b: Expr, ty: Type) -> Expr {
    use gpukc_dsl::types::BinaryOp;
    match op {
        AccumulateOp::Add => binary(BinaryOp::Add, a, b, ty, false),
        AccumulateOp::Mul => binary(BinaryOp::Mul, a, b, ty, false),
        AccumulateOp::Min => call(extreme("minimum", ty), vec![a, b]),
        AccumulateOp::Max => call(extreme("maximum", ty), vec![a, b]),
        AccumulateOp::Or => a.binary("|", b),
        AccumulateOp::And => a.binary("&", b),
    }
}

/// The operator's identity, in the wide type; `min=` and `max=` start at the element type's own limits.
fn identity(op: AccumulateOp, container: Container) -> Expr {
    let (element, wide) = (container.element, container.wide);
    let (low, high) = element.integer_range();
    match op {
        AccumulateOp::Add | AccumulateOp::Or => zero(wide),
        AccumulateOp::Mul if wide.is_float() => Expr::Float(1.0, wide),
        AccumulateOp::Mul => Expr::Int(1, wide),
        AccumulateOp::And if element == Type::Bool => Expr::Int(1, wide),
        AccumulateOp::And if wide.is_signed() => Expr::Int(-1, wide),
        AccumulateOp::And => Expr::Int(wide.integer_range().1, wide),
        AccumulateOp::Min if wide.is_float() => Expr::Float(f64::INFINITY, wide),
        AccumulateOp::Max if wide.is_float() => Expr::Float(f64::NEG_INFINITY, wide),
        AccumulateOp::Min => Expr::Int(high, wide),
        AccumulateOp::Max => Expr::Int(low, wide),
    }
}

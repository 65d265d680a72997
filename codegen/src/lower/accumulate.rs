//! Accumulations (`h[k[i]] += e`): a thread per iteration combines its value into the array by an atomic operation; where rows are
//! accumulated (`y[s[i], j] += x[i, j]`), threads take pieces of them, and where the array is small, blocks have copies of it.
//!
//! The array starts at the operator's identity or at its earlier definition. Types narrower than a word are accumulated in their
//! widened type in scratch memory and stored once, at the end; bool as an `int`. Integer results do not depend on the order; of
//! floats under `@deterministic`, a thread per element visits all iterations in ascending order instead.

mod in_order;
mod private;
mod rows;

use gpukc_dsl::program::{ArrayId, Statement, StatementKind};
use gpukc_dsl::types::{AccumulateOp, Type};

use super::context::Lowering;
use super::expr::{binary, cast, extreme, zero};
use super::group::Group;
use super::map::suffix;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};

/// Threads of a block.
const THREADS: i64 = 256;
/// Most blocks of a grid-stride launch.
const MOST_BLOCKS: i64 = 1 << 16;

/// Bytes of a pack where all elements of a memory are stored.
const PACK_BYTES: i64 = 16;

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
            in_order::lower(lowering, &statement, container, op)?;
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

    /// What is written of the program's arrays where values are combined into it.
    fn written(&self) -> &[ArrayId] {
        if self.scratch.is_none() { std::slice::from_ref(&self.array) } else { &[] }
    }

    /// The type of `lanes` neighbouring values.
    fn piece(self, lanes: i64) -> CudaType {
        if lanes > 1 { CudaType::Pack(self.wide, lanes as u32) } else { self.wide.into() }
    }

    /// How many neighbouring elements an atomic operation of the hardware may combine.
    fn atomic_packs(self, lowering: &Lowering, op: AccumulateOp) -> &'static [i64] {
        let added = op == AccumulateOp::Add && self.wide == Type::F32;
        if added && lowering.target.has_vector_atomics() { &[4] } else { &[] }
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
    lowering.begin_launch(container.written());
    let target = (container.pointer(lowering, true), container.wide);
    let source = (!from_identity).then(|| (lowering.pointer(container.array), container.element));
    let what = named(lowering, statement, "start");
    let note = "What the accumulation starts at.".into();
    each_element(lowering, container, (&what, note), (source, target), |own| match own {
        Some(own) => cast(own, container.element, container.wide),
        None => identity(op, container),
    })
}

/// Converts the container to the array's own type.
fn finish(lowering: &mut Lowering, statement: &Statement, container: Container) -> Result<(), Error> {
    lowering.begin_launch(&[container.array]);
    let source = (container.pointer(lowering, false), container.wide);
    let target = (lowering.pointer(container.array), container.element);
    let what = named(lowering, statement, "store");
    let note = format!("The results, accumulated in {}, stored once as {}.", container.wide, container.element);
    each_element(lowering, container, (&what, note), (Some(source), target), |value| {
        cast(value.unwrap_or(zero(container.wide)), container.wide, container.element)
    })
}

/// Stores each element of a memory: its value, of what another memory has in its place. Packs of them, but for what is left at the end.
fn each_element(
    lowering: &mut Lowering,
    container: Container,
    (what, note): (&str, String),
    (source, target): (Option<(Expr, Type)>, (Expr, Type)),
    value: impl Fn(Option<Expr>) -> Expr,
) -> Result<(), Error> {
    let elements = lowering.elements(&lowering.kernel.arrays[container.array].clone())?;
    let widest = source.iter().chain([&target]).map(|(_, ty)| ty.size() as i64).max().unwrap_or(1);
    let lanes = if lowering.facts.aligned { PACK_BYTES / widest } else { 1 };
    let store = |lowering: &mut Lowering, element: Expr| {
        let own = source.clone().map(|(pointer, _)| pointer.at(element.clone()));
        lowering.push(Node::Assign(target.0.clone().at(element), value(own)));
        Ok(())
    };
    if lanes == 1 {
        return over(lowering, &elements, ("element", what), vec![note], store);
    }
    let wide =
        |(pointer, ty): &(Expr, Type), at: &Expr| Expr::Wide(*ty, lanes as u32, Box::new(pointer.clone()), Box::new(at.clone()));
    let count = lowering.size(&elements, "elements");
    over(lowering, &elements.div_ceil(lanes), ("pack", what), vec![note], |lowering, number| {
        let first = lowering.local("first", lowering.index_type(), number * int(lanes));
        let (then, ()) = lowering.block(|lowering| {
            let own = source.as_ref().map(|memory| {
                let pack = wide(memory, &first);
                lowering.local("own", CudaType::Pack(memory.1, lanes as u32), pack)
            });
            let values = lowering.variable("values", CudaType::Pack(target.1, lanes as u32), None);
            lowering.each("lane", Type::I32, [int(0), int(lanes), int(1)], Unroll::Full, |lowering, lane| {
                let value = value(own.map(|own| own.lane(lane.clone())));
                lowering.push(Node::Assign(values.clone().lane(lane), value));
                Ok(())
            })?;
            lowering.push(Node::Assign(wide(&target, &first), values));
            Ok(())
        })?;
        let (otherwise, ()) = lowering.block(|lowering| {
            let rest = [first.clone(), count.clone(), int(1)];
            lowering.each("element", lowering.index_type(), rest, Unroll::By(1), store)
        })?;
        lowering.push(Node::If { condition: (first + int(lanes)).binary("<=", count), then, otherwise });
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
    lowering.begin_launch(container.written());
    let points = lowering.points(&statement.variables)?;
    let rows = rows::shape(lowering, statement, container, container.atomic_packs(lowering, op));
    let private = private::Shape::of(lowering, statement, container, &points)?;
    match (private, rows) {
        // Rows of an array whose extents a call gives are better off as rows, which move as packs.
        (Some(shape), None) => return private::lower(lowering, statement, container, op, &shape),
        (Some(shape), _) if shape.is_of_one_array() => return private::lower(lowering, statement, container, op, &shape),
        (_, Some(shape)) => return rows::lower(lowering, statement, container, op, &shape),
        (None, None) => {}
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

/// `accumulate(&place, value, Functor());`
fn combine_into(place: Expr, value: Expr, op: AccumulateOp) -> Node {
    combine_by("accumulate", place, value, op)
}

/// The same by a device function, from a place on.
fn combine_by(function: &str, place: Expr, value: Expr, op: AccumulateOp) -> Node {
    Node::Call(function.into(), vec![Expr::Unary("&", Box::new(place)), value, call(functor(op), Vec::new())])
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

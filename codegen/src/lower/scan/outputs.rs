//! The outputs of a block: as packs of four where they lie side by side in a whole block; else one by one.
//!
//! An output is the scan's value at a term, in the exclusive scan the value at the term before: there a quad's first output comes
//! from the lane before, and the first one of a row of 128 is stored by the last lane of the row before.

use gpukc_dsl::program::{Direction, Statement};
use gpukc_dsl::types::Type;

use super::{Block, Scanned, Shape, four, wide};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::map::store_element;
use crate::lower::reduction::Reduction;
use crate::plan::{Expr, Node, Unroll, call, int, name};
use crate::walk;

/// What an output of a scan is stored by.
pub struct Output<'a> {
    pub statement: &'a Statement,
    pub shape: &'a Shape,
    pub reduction: &'a Reduction,
}

/// What storing the block's outputs takes.
struct Outputs<'a> {
    output: Output<'a>,
    block: &'a Block,
    scanned: &'a Scanned,
    before_block: Expr,
}

/// Stores the block's outputs, and by the first block those that take in no term.
pub fn store(
    lowering: &mut Lowering,
    statement: &Statement,
    shape: &Shape,
    reduction: &Reduction,
    block: &Block,
    scanned: &Scanned,
    before_block: Expr,
) -> Result<(), Error> {
    let output = Output { statement, shape, reduction };
    let outputs = Outputs { output, block, scanned, before_block };
    if outputs.are_side_by_side(lowering) {
        let (place, _) = outputs.first_place(lowering, block.start.clone())?;
        let element = lowering.kernel.arrays[statement.array].element;
        let mut condition = wide(block, vec![(place, element.size())]);
        let first = shape.index(lowering, block.start.clone());
        if let Some(inside) = outputs.output.inside(lowering, first) {
            condition = condition.and(inside);
        }
        let (then, ()) = lowering.block(|lowering| outputs.in_packs(lowering))?;
        let (otherwise, ()) = lowering.block(|lowering| outputs.one_by_one(lowering))?;
        lowering.push(Node::If { condition, then, otherwise });
    } else {
        outputs.one_by_one(lowering)?;
    }
    if shape.none_beyond() {
        return Ok(());
    }
    let first_block = block.number.constant().is_none().then(|| block.number.clone().binary("==", int(0)));
    let (thread, threads) = match block.span.scans {
        1 => (name("threadIdx.x").cast(Type::I32), block.span.threads().into()),
        _ => (block.lane.clone(), 32),
    };
    lowering.when_some(first_block.or(block.live.clone()), |lowering| outputs.output.beyond(lowering, thread, threads))
}

impl Output<'_> {
    /// Stores the output of that number, if there is one.
    pub fn store(&self, lowering: &mut Lowering, number: Expr, value: Expr) -> Result<(), Error> {
        self.bind(lowering, number, true);
        let index = lowering.variables.get(&self.shape.along.variable).cloned();
        let inside = index.and_then(|index| self.inside(lowering, index));
        lowering.when_some(inside, |lowering| {
            self.take(lowering, value);
            let pointer = lowering.pointer(self.statement.array);
            store_element(lowering, self.statement, pointer)
        })
    }

    /// Binds the axis to the output of that number.
    fn bind(&self, lowering: &mut Lowering, number: Expr, named: bool) {
        let index = self.shape.index(lowering, number);
        let bound = if named && !matches!(index, Expr::Name(_)) {
            let (wish, ty) = (lowering.kernel.variables[self.shape.along.variable].name.clone(), lowering.index_type());
            lowering.local(&wish, ty, index)
        } else {
            index
        };
        lowering.variables.insert(self.shape.along.variable, bound);
    }

    /// The scan has this value at the current output.
    fn take(&self, lowering: &mut Lowering, value: Expr) {
        let value = match value {
            value @ Expr::Element(..) => value,
            value => lowering.local(self.reduction.reduce.reducer.name(), self.reduction.accumulator.clone(), value),
        };
        self.shape.give(lowering, self.reduction, value);
    }

    /// Whether an index is one of the axis, where a range that starts or ends outside leaves that open.
    fn inside(&self, lowering: &mut Lowering, index: Expr) -> Option<Expr> {
        let shape = self.shape;
        match shape.scan.direction {
            Direction::Forward if shape.origin.constant().is_some_and(|lo| lo >= 0) => None,
            Direction::Forward => Some(int(0).binary("<=", index)),
            Direction::Backward if shape.origin == shape.extent => None,
            Direction::Backward => {
                let extent = lowering.size(&shape.extent, "extent");
                Some(index.less(extent))
            }
        }
    }

    /// Stores the outputs that take in no term, before the first forward, from the last backward: each `step`th by a thread.
    pub fn beyond(&self, lowering: &mut Lowering, first: Expr, step: i64) -> Result<(), Error> {
        let (shape, ty) = (self.shape, lowering.index_type());
        let exclusive = i64::from(!shape.scan.inclusive);
        let (lo, hi): (Formula, Formula) = match shape.scan.direction {
            Direction::Forward => (0.into(), shape.origin.clone().plus(exclusive).max(0).min(shape.extent.clone())),
            Direction::Backward => (shape.origin.clone().minus(exclusive).max(0), shape.extent.clone()),
        };
        let lo = lowering.size(&lo, "no_terms_from");
        let hi = lowering.size(&hi, "no_terms_to");
        let wish = lowering.kernel.variables[shape.along.variable].name.clone();
        lowering.each(&wish, ty, [lo + first, hi, int(step)], Unroll::Default, |lowering, index| {
            lowering.variables.insert(shape.along.variable, index);
            shape.give(lowering, self.reduction, self.reduction.identity.clone());
            let pointer = lowering.pointer(self.statement.array);
            store_element(lowering, self.statement, pointer)
        })
    }
}

impl Outputs<'_> {
    fn is_exclusive(&self) -> bool {
        !self.output.shape.scan.inclusive
    }

    /// Whether neighbouring terms have neighbouring outputs, which may be computed before it is known whether they are stored.
    fn are_side_by_side(&self, lowering: &Lowering) -> bool {
        let fastest = self.output.statement.variables.last().is_some_and(|v| v.variable == self.output.shape.along.variable);
        fastest && !(self.is_exclusive() && walk::can_fail(lowering.kernel, self.output.statement.value))
    }

    /// What stands before a row of 128 terms.
    fn before_row(&self, lowering: &mut Lowering, row: &Expr) -> Expr {
        let row = match self.block.span.scans {
            1 => self.block.warp.clone() * int(self.block.span.rows) + row.clone(),
            _ => row.clone(),
        };
        let before = call("lane_value", vec![self.scanned.before_rows.clone(), row]);
        let before = self.output.reduction.combine(self.before_block.clone(), before);
        lowering.local("before", self.output.reduction.accumulator.clone(), before)
    }

    fn one_by_one(&self, lowering: &mut Lowering) -> Result<(), Error> {
        let ty = lowering.index_type();
        self.block.span.each_row(lowering, |lowering, at| {
            let before = self.before_row(lowering, &at);
            let values = self.scanned.values.quad(lowering, &at);
            four(lowering, "quad", |lowering, quad| {
                let term = lowering.local("term", ty, self.block.quad(at.clone()) + quad.clone());
                let value = self.output.reduction.combine(before, values.term(quad));
                lowering.when(term.clone().less(self.block.stored.clone()), |lowering| {
                    self.output.store(lowering, term + int(i64::from(self.is_exclusive())), value)
                })
            })
        })
    }

    /// The output at the lowest address of the quad that starts with that number: the element and its offset.
    fn first_place(&self, lowering: &mut Lowering, number: Expr) -> Result<(Expr, Expr), Error> {
        let number = if self.is_reversed() { number + int(3) } else { number };
        self.output.bind(lowering, number, false);
        let mut indices = Vec::new();
        for subscript in &self.output.statement.subscripts {
            indices.push(lowering.index(subscript.index)?);
        }
        let offset = lowering.row_major(self.output.statement.array, indices)?;
        Ok((lowering.pointer(self.output.statement.array).at(offset.clone()), offset))
    }

    /// Whether later outputs lie at smaller addresses.
    fn is_reversed(&self) -> bool {
        self.output.shape.scan.direction == Direction::Backward
    }

    fn in_packs(&self, lowering: &mut Lowering) -> Result<(), Error> {
        self.block.span.each_row(lowering, |lowering, at| {
            let before = self.before_row(lowering, &at);
            let first = self.block.quad(at.clone());
            let there = self.block.span.quads.then(|| first.clone().less(self.block.stored.clone()));
            lowering.when_some(there, |lowering| self.quad_in_pack(lowering, at, before, first))
        })
    }

    /// The outputs of a quad.
    fn quad_in_pack(&self, lowering: &mut Lowering, at: Expr, before: Expr, first: Expr) -> Result<(), Error> {
        let pack = lowering.pack(self.output.statement.array, 4);
        let (_, offset) = self.first_place(lowering, first.clone())?;
        let place = Expr::Unary("&", Box::new(lowering.wide(self.output.statement.array, 4, offset)));
        let store = Node::Call("store_once".into(), vec![place, pack.clone()]);
        let values = self.scanned.values.quad(lowering, &at);
        let of_quad = |quad: Expr| self.output.reduction.combine(before.clone(), values.term(quad));
        if !self.is_exclusive() {
            self.pack(lowering, &first, &pack, of_quad)?;
            lowering.push(store);
            return Ok(());
        }
        let ty = self.output.reduction.accumulator.clone();
        let sums = lowering.registers(self.output.reduction.reduce.reducer.name(), ty, vec![5]);
        four(lowering, "quad", |lowering, quad| {
            lowering.push(Node::Assign(sums.clone().at(quad.clone() + int(1)), of_quad(quad)));
            Ok(())
        })?;
        let last = sums.clone().at(int(4));
        lowering.push(Node::Assign(sums.clone().at(int(0)), call("shuffle_up", vec![last.clone(), int(1)])));
        self.pack(lowering, &first, &pack, |quad| sums.clone().at(quad))?;
        self.shifted(lowering, &first, &pack, store)?;
        lowering.when(self.block.lane.clone().binary("==", int(31)), |lowering| self.output.store(lowering, first + int(4), last))
    }

    /// Computes the outputs of a quad.
    fn pack(&self, lowering: &mut Lowering, first: &Expr, pack: &Expr, value: impl FnOnce(Expr) -> Expr) -> Result<(), Error> {
        four(lowering, "quad", |lowering, quad| {
            self.output.bind(lowering, first.clone() + quad.clone(), self.asks_for_index(lowering));
            let lane = if self.is_reversed() { int(3) - quad.clone() } else { quad.clone() };
            self.output.take(lowering, value(quad));
            let result = lowering.value(self.output.statement.value)?;
            lowering.push(Node::Assign(pack.clone().lane(lane), result));
            Ok(())
        })
    }

    /// Whether what surrounds the scan mentions the axis.
    fn asks_for_index(&self, lowering: &Lowering) -> bool {
        let mut asks = false;
        walk::walk(lowering.kernel, self.output.statement.value, &mut |id| {
            asks |= lowering.kernel.exprs[id].kind == gpukc_dsl::program::ExprKind::Variable(self.output.shape.along.variable);
            id != self.output.shape.id
        });
        asks
    }

    /// Stores a quad of the exclusive scan; of a row's first quad, all but the first output.
    fn shifted(&self, lowering: &mut Lowering, first: &Expr, pack: &Expr, store: Node) -> Result<(), Error> {
        let (otherwise, ()) = lowering.block(|lowering| {
            lowering.each("quad", Type::I32, [int(1), int(4), int(1)], Unroll::Full, |lowering, quad| {
                let lane = if self.is_reversed() { int(3) - quad.clone() } else { quad.clone() };
                self.output.bind(lowering, first.clone() + quad, false);
                let mut indices = Vec::new();
                for subscript in &self.output.statement.subscripts {
                    indices.push(lowering.index(subscript.index)?);
                }
                let offset = lowering.row_major(self.output.statement.array, indices)?;
                let place = lowering.pointer(self.output.statement.array).at(offset);
                lowering.push(Node::Assign(place, pack.clone().lane(lane)));
                Ok(())
            })
        })?;
        let condition = self.block.lane.clone().binary(">", int(0));
        lowering.push(Node::If { condition, then: vec![store], otherwise });
        Ok(())
    }
}

impl Shape {
    /// Whether every output takes in a term.
    pub fn none_beyond(&self) -> bool {
        let exclusive = i64::from(!self.scan.inclusive);
        match self.scan.direction {
            Direction::Forward => self.origin.clone().plus(exclusive).constant().is_some_and(|first| first <= 0),
            Direction::Backward => self.origin.clone().minus(exclusive) == self.extent,
        }
    }
}

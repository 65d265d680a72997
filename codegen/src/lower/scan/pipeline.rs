//! Blocks that go on: while a block waits for what stands before its terms, it loads those of its next ticket, and it publishes their
//! total before it waits again. A turn has three stages, of two blocks of terms:
//!
//! 1. The terms *ahead*, loaded in the turn before, are scanned; their total is published, they are laid aside in shared memory.
//! 2. Those of the next ticket are loaded into the registers that this has made free.
//! 3. The first warp looks back for the terms *behind*, which were ahead in the turn before, and their outputs are stored.
//!
//! Waiting ends here as well: of all blocks that wait, the one that waits for the smallest ticket waits for none that another still
//! holds ahead, since that one would then wait for a smaller one.

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::Type;

use super::{
    Published, Scanned, Shape, Span, THREADS, Threads, Values, block, four, look_back, number, outputs, publish, rows_before,
    rows_running, scan_rows, terms, threads,
};
use crate::error::Error;
use crate::formula::Formula;
use crate::lower::context::Lowering;
use crate::lower::reduction::Reduction;
use crate::lower::split::bind_results;
use crate::plan::{CudaType, Expr, Node, call, int, name};

/// Blocks that should be resident, so that registers for the loads in flight and for looking back remain (2^28 f32 on an H200: 3 blocks
/// 735 µs, 4 blocks 682 µs, 5 blocks 730 µs); of accumulators of 8 bytes, what shared memory has room for.
const RESIDENT: [u32; 2] = [4, 3];
/// Bytes of the largest accumulator: two blocks of terms lie aside, in 32 KiB or 64 KiB.
const WIDEST: usize = 8;
/// Fewer blocks run at once anyway, and nothing is gained by going on (65,536 f32: 4.6 µs, going on 5.0 µs; 2^20: 8.9 and 8.6 µs).
const MANY: i64 = 128;

/// Whether blocks go on, where a scan has several; `all` is how many there are.
pub fn applies(lowering: &Lowering, reduction: &Reduction, all: &Formula) -> bool {
    let CudaType::Element(ty) = reduction.accumulator else { return false };
    // Before sm_80 a block has at most 64 KiB of shared memory.
    let fits = ty.size() <= WIDEST && (ty.size() < WIDEST || lowering.target.capability >= 80);
    fits && lowering.facts.bound(all).is_none_or(|bound| bound > MANY)
}

/// Shared memory and what goes from turn to turn.
struct Pipeline<'a> {
    statement: &'a Statement,
    shape: &'a Shape,
    reduction: &'a Reduction,
    published: &'a Published,
    rows: &'a Formula,
    threads: Threads,
    /// Tickets from here on stand for nothing.
    blocks: Expr,
    /// Two blocks of terms in packs of four, by turn.
    aside: Expr,
    pack: CudaType,
    row_total: Expr,
    totals: Expr,
    before_block: Expr,
    ticket: Expr,
    turn: Expr,
    /// The tickets of the terms to be loaded, of those in registers and of those laid aside in the turn before.
    next: Expr,
    ahead: Expr,
    behind: Expr,
    /// The terms ahead.
    values: Expr,
    /// What stands before each row of the terms behind.
    rows_before: Expr,
}

/// Lowers the launch's body.
pub fn lower(
    lowering: &mut Lowering,
    statement: &Statement,
    shape: &Shape,
    reduction: &Reduction,
    published: &Published,
    rows: &Formula,
) -> Result<(), Error> {
    let pipeline = Pipeline::begin(lowering, statement, shape, reduction, published, rows)?;
    let (turn, ()) = lowering.block(|lowering| pipeline.turn(lowering))?;
    let more = pipeline.is_some(&pipeline.next).binary("||", pipeline.is_some(&pipeline.behind));
    lowering.push(Node::While(more, turn));
    Ok(())
}

/// Ends the launch.
pub fn end(lowering: &mut Lowering, reduction: &Reduction, suffix: &str, mut notes: Vec<String>, grid: [Formula; 3]) {
    notes.push("Blocks go on to further terms: they load the next ones and publish their total while they wait.".into());
    lowering.end_launch(suffix, "scan", notes, grid, [THREADS, 1, 1]);
    if let Some(launch) = lowering.plan.launches.last_mut() {
        launch.striding = true;
        let wide = matches!(reduction.accumulator, CudaType::Element(ty) if ty.size() == WIDEST);
        launch.resident = Some(RESIDENT[usize::from(wide)]);
    }
}

impl<'a> Pipeline<'a> {
    fn begin(
        lowering: &mut Lowering,
        statement: &'a Statement,
        shape: &'a Shape,
        reduction: &'a Reduction,
        published: &'a Published,
        rows: &'a Formula,
    ) -> Result<Pipeline<'a>, Error> {
        let CudaType::Element(element) = reduction.accumulator else {
            return Err(Error::Bug("an accumulator that makes no packs".into()));
        };
        let (ty, pack) = (CudaType::Element(element), CudaType::Pack(element, 4));
        let all = lowering.size(&rows.clone().times(shape.blocks()), "all_blocks");
        // A grid has fewer than 2^31 blocks.
        let wide = lowering.index_type() == Type::I64 && all.constant().is_none();
        let blocks = if wide { lowering.local("all", Type::I32, all.cast(Type::I32)) } else { all };
        let aside = lowering.shared("aside", pack.clone(), vec![2, 4, THREADS]);
        let row_total = lowering.shared("row_total", ty.clone(), vec![32]);
        let totals = lowering.shared("totals", ty.clone(), vec![128]);
        let before_block = lowering.shared("before_block", ty.clone(), Vec::new());
        let ticket = lowering.shared("ticket", Type::I32, Vec::new());
        let threads = threads(lowering, Span::BLOCK);
        let values = lowering.registers("value", ty.clone(), vec![4, 4]);
        let rows_before = lowering.variable("rows_before", ty, Some(reduction.identity.clone()));
        let turn = lowering.variable("turn", Type::I32, Some(int(0)));
        lowering
            .push(Node::Comment("Tickets of terms to load, of those loaded, of those laid aside; none from this number on.".into()));
        let next = lowering.variable("next", Type::I32, Some(int(0)));
        let ahead = lowering.variable("ahead", Type::I32, Some(blocks.clone()));
        let behind = lowering.variable("behind", Type::I32, Some(blocks.clone()));
        Ok(Pipeline {
            statement,
            shape,
            reduction,
            published,
            rows,
            threads,
            blocks,
            aside,
            pack,
            row_total,
            totals,
            before_block,
            ticket,
            turn,
            next,
            ahead,
            behind,
            values,
            rows_before,
        })
    }

    fn turn(&self, lowering: &mut Lowering) -> Result<(), Error> {
        let this = self.turn.clone() % int(2);
        let other = (self.turn.clone() + int(1)) % int(2);
        self.take_ticket(lowering);
        lowering.when(self.is_some(&self.ahead), |lowering| {
            lowering.push(Node::Comment("What the turn before has loaded.".into()));
            scan_rows(lowering, self.reduction, &self.values, &self.row_total, &self.threads)
        })?;
        lowering.push(Node::Barrier);
        lowering.push(Node::Assign(self.next.clone(), self.ticket.clone()));
        let ty = self.reduction.accumulator.clone();
        let rows_ahead = lowering.variable("rows_ahead", ty, Some(self.reduction.identity.clone()));
        lowering.when(self.is_some(&self.ahead), |lowering| self.publish(lowering, &rows_ahead, &this))?;
        lowering.when(self.is_some(&self.next), |lowering| self.load(lowering))?;
        lowering.when(self.is_some(&self.behind).and(self.threads.warp.clone().binary("==", int(0))), |lowering| {
            let (row, block) = number(lowering, self.published, self.rows, self.behind.clone());
            let scan = self.published.scan(lowering, &row, &block);
            look_back(lowering, self.reduction, self.published.levels, scan, (self.totals.clone(), &self.before_block), &self.threads);
            Ok(())
        })?;
        lowering.push(Node::Barrier);
        lowering.when(self.is_some(&self.behind), |lowering| self.store(lowering, &other))?;
        for (place, value) in [(&self.behind, &self.ahead), (&self.ahead, &self.next), (&self.rows_before, &rows_ahead)] {
            lowering.push(Node::Assign(place.clone(), value.clone()));
        }
        lowering.push(Node::Assign(self.turn.clone(), self.turn.clone() + int(1)));
        Ok(())
    }

    /// The first thread asks for a ticket, until there are no more.
    fn take_ticket(&self, lowering: &mut Lowering) {
        let ticket = call("take_ticket", vec![self.published.pointer.clone()]);
        let ticket = self.is_some(&self.next).choose(ticket, self.blocks.clone());
        let take = Node::Assign(self.ticket.clone(), ticket);
        let first = name("threadIdx.x").binary("==", int(0));
        lowering.push(Node::If { condition: first, then: vec![take], otherwise: Vec::new() });
    }

    fn is_some(&self, ticket: &Expr) -> Expr {
        ticket.clone().less(self.blocks.clone())
    }

    fn block(&self, lowering: &mut Lowering, ticket: &Expr) -> super::Block {
        block(lowering, self.shape, Some(self.published), self.rows, Some(ticket.clone()), &self.threads)
    }

    /// Loads the next ticket's terms into the registers.
    fn load(&self, lowering: &mut Lowering) -> Result<(), Error> {
        lowering.push(Node::Comment("In flight while this block waits.".into()));
        let block = self.block(lowering, &self.next);
        bind_results(lowering, &self.shape.batch, &block.row)?;
        terms::load(lowering, self.shape, self.reduction, &block, &self.values)
    }

    /// Publishes the total of the terms ahead and lays them aside.
    fn publish(&self, lowering: &mut Lowering, rows_ahead: &Expr, this: &Expr) -> Result<(), Error> {
        lowering.push(Node::Comment("Others wait for the total. The terms make room for the next ones.".into()));
        let running = rows_running(lowering, self.reduction, &self.row_total, &self.threads);
        lowering.push(Node::Assign(rows_ahead.clone(), rows_before(self.reduction, &running)));
        lowering.when(name("threadIdx.x").binary("==", int(31)), |lowering| {
            let (row, block) = number(lowering, self.published, self.rows, self.ahead.clone());
            let scan = self.published.scan(lowering, &row, &block);
            publish(lowering, scan, running);
            Ok(())
        })?;
        four(lowering, "at", |lowering, at| {
            let pack = lowering.variable("laid", self.pack.clone(), None);
            four(lowering, "part", |lowering, part| {
                lowering.push(Node::Assign(pack.clone().lane(part.clone()), self.values.clone().at(at.clone()).at(part)));
                Ok(())
            })?;
            lowering.push(Node::Assign(self.aside.clone().at(this.clone()).at(at).at(name("threadIdx.x")), pack));
            Ok(())
        })
    }

    /// Stores the outputs of the terms behind.
    fn store(&self, lowering: &mut Lowering, other: &Expr) -> Result<(), Error> {
        let block = self.block(lowering, &self.behind);
        bind_results(lowering, &self.shape.batch, &block.row)?;
        let values = Values::Aside(self.aside.clone().at(other.clone()), self.pack.clone());
        let scanned = Scanned { values, before_rows: self.rows_before.clone() };
        outputs::store(lowering, self.statement, self.shape, self.reduction, &block, &scanned, self.before_block.clone())
    }
}

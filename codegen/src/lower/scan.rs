//! Scans: reductions whose range runs from one end to a left-side variable, in one pass over the terms, in the scan order of the
//! numeric contract.
//!
//! A block of threads takes 4,096 terms: a warp four rows of 128, a lane four neighbouring terms (a quad) of each. Quads are
//! scanned in the lane, quad totals across the warp, row totals by every warp for itself. Then the block publishes its total, and
//! its first warp waits for the totals of the blocks before, which it scans in the same order (`prelude/scans.cuh`).
//!
//! Waiting ends: a block takes its number when it starts, so that all blocks with smaller numbers have started too, and none
//! needs more than those. What is waited for are totals, which depend on their own block alone, and totals of totals: no block
//! waits for a chain of others, and no bit depends on timing. Rows of terms that one block covers need none of this, and no
//! more warps than their terms do ([`span`]).
//!
//! Where accumulators are small enough, blocks go on to further terms, which they load while they wait ([`pipeline`]). Along an axis
//! that others run faster than, blocks take tiles of neighbouring columns instead: where there are many, the whole axis ([`columns`]),
//! else pieces of it ([`pieces`]). Columns of few terms a thread takes by itself ([`short`]).

mod columns;
mod outputs;
mod pieces;
mod pipeline;
mod shape;
mod short;
mod span;
mod terms;
mod tile;

use gpukc_dsl::program::{ExprId, Kernel, Reduce, Statement};
use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::group::Group;
use super::reduction::Reduction;
use super::split::{BLOCK, bind_results};
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};
use shape::{Shape, shape};
use span::Span;

/// Threads of a block of 4,096 terms: eight warps of four rows each.
const THREADS: u32 = 256;
/// Steps of a Kogge–Stone scan over 32 values that one thread takes wait for 1 + 2 + 4 + 8 + 16 of them.
const WAITING: u32 = 31;

/// Whether this schedule takes the statement.
pub fn applies(kernel: &Kernel, facts: &Facts, statement: &Statement, reduce: &Reduce) -> bool {
    shape(kernel, facts, statement, ExprId::new(0), reduce).is_some()
}

/// Where a block of threads stands.
struct Block {
    /// Its row of terms, and its number in the row.
    row: Expr,
    number: Expr,
    /// Terms of a row, and those whose outputs are stored: none by threads without a row, which scan the first one's terms.
    terms: Expr,
    stored: Expr,
    /// Whether the thread has a row, where that is a question.
    live: Option<Expr>,
    /// Its first term, and the lane's.
    start: Expr,
    first: Expr,
    lane: Expr,
    warp: Expr,
    span: Span,
}

impl Block {
    /// The number of the first term of the lane's quad.
    fn quad(&self, at: Expr) -> Expr {
        self.first.clone() + at * int(128)
    }

    /// The same, but where there is no such term that of the last quad: no output that there is depends on what later terms are.
    fn quad_there(&self, lowering: &mut Lowering, at: Expr) -> Expr {
        let first = self.quad(at);
        if !self.span.quads {
            return first;
        }
        let ty = lowering.index_type();
        lowering.local("term", ty, call("minimum", vec![first, self.terms.clone() - int(4)]))
    }
}

/// What blocks publish, of launches whose rows of terms have several blocks.
struct Published {
    pointer: Expr,
    blocks: Expr,
    levels: i64,
}

/// A block's terms, scanned by themselves.
struct Scanned {
    /// Four rows of four terms, each with what stands before it in its row of 128.
    values: Values,
    /// By lane: what stands before that row in the block.
    before_rows: Expr,
}

/// Where a thread has its four rows of four terms.
enum Values {
    /// In an array of registers.
    Registers(Expr),
    /// Laid aside in shared memory: a pack for each row and thread.
    Aside(Expr, CudaType),
}

/// A lane's four terms of one row.
struct Quad {
    values: Expr,
    packed: bool,
}

impl Values {
    fn quad(&self, lowering: &mut Lowering, at: &Expr) -> Quad {
        match self {
            Values::Registers(values) => Quad { values: values.clone().at(at.clone()), packed: false },
            Values::Aside(laid, pack) => {
                let laid = laid.clone().at(at.clone()).at(name("threadIdx.x"));
                Quad { values: lowering.local("laid", pack.clone(), laid), packed: true }
            }
        }
    }
}

impl Quad {
    fn term(&self, number: Expr) -> Expr {
        if self.packed { self.values.clone().lane(number) } else { self.values.clone().at(number) }
    }
}

/// Lowers scans.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        let found = super::group::only_reduction_or_nested(lowering.kernel, &statement)
            .and_then(|(id, reduce)| shape(lowering.kernel, lowering.facts, &statement, id, reduce));
        let Some(shape) = found else { return Err(Error::Bug("a scan that is none".into())) };
        lower_scan(lowering, &statement, &shape)?;
    }
    Ok(())
}

fn lower_scan(lowering: &mut Lowering, statement: &Statement, shape: &Shape) -> Result<(), Error> {
    lowering.begin_launch(&[statement.array]);
    let reduction = shape.reduction(lowering)?;
    if let Some(layout) = short::Layout::choose(lowering, statement, shape, &reduction) {
        return short::lower(lowering, statement, shape, &reduction, layout);
    }
    if let Some(layout) = columns::Layout::choose(lowering, statement, shape, &reduction)? {
        return columns::lower(lowering, statement, shape, &reduction, layout);
    }
    if let Some(layout) = pieces::Layout::choose(lowering, statement, shape, &reduction)? {
        return pieces::lower(lowering, statement, shape, &reduction, layout);
    }
    let rows = lowering.points(&shape.batch)?;
    let published = published(lowering, shape, &reduction, &rows);
    let all = rows.clone().times(shape.blocks());
    let suffix = super::map::suffix(lowering, statement);
    if let Some(published) = published.as_ref().filter(|_| pipeline::applies(lowering, &reduction, &all)) {
        pipeline::lower(lowering, statement, shape, &reduction, published, &rows)?;
        pipeline::end(lowering, &reduction, &suffix, notes(Span::BLOCK, true), [all, 1.into(), 1.into()]);
        return Ok(());
    }
    let ticket = published.as_ref().map(|published| ticket(lowering, &published.pointer));
    let span = if published.is_none() { Span::of_shape(shape, lowering.facts, &rows) } else { Span::BLOCK };
    let threads = threads(lowering, span);
    let block = block(lowering, shape, published.as_ref(), &rows, ticket, &threads);
    bind_results(lowering, &shape.batch, &block.row)?;
    let values = lowering.registers("value", reduction.accumulator.clone(), vec![span.rows as u32, 4]);
    terms::load(lowering, shape, &reduction, &block, &values)?;
    let totals = lowering.shared("row_total", reduction.accumulator.clone(), vec![(span.scans * span.all_rows()) as u32]);
    scan_rows(lowering, &reduction, &values, &totals, &threads)?;
    lowering.push(Node::Barrier);
    let rows_running = rows_running(lowering, &reduction, &totals, &threads);
    let before_rows = lowering.local("rows_before", reduction.accumulator.clone(), rows_before(&reduction, &rows_running));
    let before_block = match &published {
        Some(published) => before_block(lowering, &reduction, published, &block, &threads, (&values, rows_running))?,
        None => reduction.identity.clone(),
    };
    let scanned = Scanned { values: Values::Registers(values), before_rows };
    outputs::store(lowering, statement, shape, &reduction, &block, &scanned, before_block)?;
    let blocks = if span.scans > 1 { all.div_ceil(span.scans) } else { all };
    lowering.end_launch(&suffix, "scan", notes(span, published.is_some()), [blocks, 1.into(), 1.into()], [span.threads(), 1, 1]);
    Ok(())
}

fn notes(span: Span, several: bool) -> Vec<String> {
    let terms = match span.all_rows() * 128 {
        4096 => "4,096".to_string(),
        terms => format!("up to {terms}"),
    };
    let rows = ["a row", "two rows", "three rows", "four rows"][(span.rows - 1) as usize];
    let mut notes = vec![
        format!(
            "Scan: a block takes {terms} terms, a warp {rows} of 128 of them, a lane four neighbouring terms of each; row totals meet"
        ),
        "in shared memory.".into(),
    ];
    if several {
        notes.push(
            "One pass: a block publishes its total, waits for the totals of the blocks before it and scans those in the same".into(),
        );
        notes.push("fixed order. It takes its number when it starts: all that it waits for have started too.".into());
    }
    notes
}

/// Memory for what blocks publish: a counter of tickets, then for each row of terms its blocks' totals, and a thirty-second more for
/// the levels above them.
fn published(lowering: &mut Lowering, shape: &Shape, reduction: &Reduction, rows: &Formula) -> Option<Published> {
    let levels = shape.levels(lowering.facts);
    if levels == 0 {
        return None;
    }
    let blocks = shape.blocks();
    let room = blocks.clone().plus(blocks.clone().div_floor(32));
    let wish = format!("{}_published", reduction.reduce.reducer.name());
    let pointer = lowering.published(&wish, rows.clone().times(room).times(words(reduction)).plus(1));
    let blocks = lowering.size(&blocks, "blocks");
    Some(Published { pointer, blocks, levels })
}

/// Words of 64 bits that a published accumulator takes.
fn words(reduction: &Reduction) -> i64 {
    match reduction.accumulator {
        CudaType::Element(ty) => ty.size().div_ceil(4) as i64,
        _ => 4,
    }
}

/// A thread's place in the block.
struct Threads {
    lane: Expr,
    warp: Expr,
    span: Span,
}

fn threads(lowering: &mut Lowering, span: Span) -> Threads {
    let lane = lowering.local("lane", Type::I32, name("threadIdx.x").cast(Type::I32) % int(32));
    let warp = lowering.local("warp", Type::I32, name("threadIdx.x").cast(Type::I32) / int(32));
    Threads { lane, warp, span }
}

/// The terms of the block that has this ticket, or this index where there are no tickets.
fn block(
    lowering: &mut Lowering,
    shape: &Shape,
    published: Option<&Published>,
    rows: &Formula,
    ticket: Option<Expr>,
    threads: &Threads,
) -> Block {
    let ty = lowering.index_type();
    let terms = lowering.size(&shape.terms, "terms");
    let single = rows.constant() == Some(1);
    let span = threads.span;
    let (mut stored, mut live) = (terms.clone(), None);
    let (row, number) = match published.zip(ticket) {
        None if single => (int(0), int(0)),
        None if span.scans > 1 => {
            let place = name("blockIdx.x").cast(ty) * int(span.scans) + threads.warp.clone();
            let place = lowering.local("place", ty, place);
            let count = lowering.size(rows, "rows");
            let there = lowering.local("live", Type::Bool, place.clone().less(count));
            stored = lowering.local("stored", ty, there.clone().choose(terms.clone(), int(0)));
            live = Some(there.clone());
            (lowering.local("row", ty, there.choose(place, int(0))), int(0))
        }
        None => (lowering.local("row", ty, name("blockIdx.x").cast(ty)), int(0)),
        Some((published, ticket)) => number(lowering, published, rows, ticket),
    };
    let start = match number.constant() {
        Some(_) => int(0),
        None => lowering.local("start", ty, number.clone() * int(BLOCK)),
    };
    let warp = if span.scans > 1 { int(0) } else { threads.warp.clone() };
    let first = start.clone() + warp * int(128 * span.rows) + threads.lane.clone() * int(4);
    let first = lowering.local("first", ty, first);
    Block { row, number, terms, stored, live, start, first, lane: threads.lane.clone(), warp: threads.warp.clone(), span }
}

/// Which row of terms a ticket stands for, and which block of it.
fn number(lowering: &mut Lowering, published: &Published, rows: &Formula, ticket: Expr) -> (Expr, Expr) {
    let ty = lowering.index_type();
    if rows.constant() == Some(1) {
        return (int(0), lowering.local("block", ty, ticket));
    }
    let row = lowering.local("row", ty, ticket.clone() / published.blocks.clone());
    (row, lowering.local("block", ty, ticket % published.blocks.clone()))
}

/// The block's number in the order in which blocks start.
fn ticket(lowering: &mut Lowering, published: &Expr) -> Expr {
    lowering.push(Node::Comment("Blocks are numbered as they start: those before this one are at work or done.".into()));
    let ticket = lowering.shared("ticket", Type::I32, Vec::new());
    let take = Node::Assign(ticket.clone(), call("take_ticket", vec![published.clone()]));
    let first = name("threadIdx.x").binary("==", int(0));
    lowering.push(Node::If { condition: first, then: vec![take], otherwise: Vec::new() });
    lowering.push(Node::Barrier);
    ticket
}

/// Visits four rows, or a quad.
fn four(lowering: &mut Lowering, wish: &str, write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>) -> Result<(), Error> {
    lowering.each(wish, Type::I32, [int(0), int(4), int(1)], Unroll::Full, write)
}

/// Scans the block's terms in place, each row for itself; the rows' totals go to shared memory.
fn scan_rows(lowering: &mut Lowering, reduction: &Reduction, values: &Expr, totals: &Expr, threads: &Threads) -> Result<(), Error> {
    let ty = reduction.accumulator.clone();
    threads.span.each_row(lowering, |lowering, at| {
        let value = |index: i64| values.clone().at(at.clone()).at(int(index));
        for quad in 1..4 {
            lowering.push(Node::Assign(value(quad), reduction.combine(value(quad - 1), value(quad))));
        }
        let running = call("kogge_stone", vec![value(3), reduction.functor()]);
        let running = lowering.local("running", ty.clone(), running);
        let before = call("lane_before", vec![running.clone(), reduction.identity.clone()]);
        let before = lowering.local("before", ty.clone(), before);
        four(lowering, "quad", |lowering, quad| {
            let place = values.clone().at(at.clone()).at(quad);
            let value = reduction.combine(before, place.clone());
            lowering.push(Node::Assign(place, value));
            Ok(())
        })?;
        let store = Node::Assign(totals.clone().at(threads.warp.clone() * int(threads.span.rows) + at.clone()), running);
        let last_lane = threads.lane.clone().binary("==", int(31));
        lowering.push(Node::If { condition: last_lane, then: vec![store], otherwise: Vec::new() });
        Ok(())
    })
}

/// By lane: the scan of the rows' totals up to that row. Lanes beyond the last row have what nobody asks for.
fn rows_running(lowering: &mut Lowering, reduction: &Reduction, totals: &Expr, threads: &Threads) -> Expr {
    let (lane, rows) = (threads.lane.clone(), threads.span.all_rows());
    let row = match threads.span.scans {
        1 if rows == 32 => lane,
        1 => lane % int(rows),
        _ => threads.warp.clone() * int(rows) + lane % int(rows),
    };
    let running = call("kogge_stone", vec![totals.clone().at(row), reduction.functor()]);
    lowering.local("rows_running", reduction.accumulator.clone(), running)
}

/// By lane: what stands before that row in the block.
fn rows_before(reduction: &Reduction, rows_running: &Expr) -> Expr {
    call("lane_before", vec![rows_running.clone(), reduction.identity.clone()])
}

/// Publishes the block's total, which one thread has.
fn publish(lowering: &mut Lowering, scan: [Expr; 4], total: Expr) {
    let arguments = scan.into_iter().chain([total]).collect();
    lowering.push(Node::Call("publish_block_total".into(), arguments));
}

impl Published {
    /// Which block of which scan: the arguments that tell it to the functions of the prelude.
    fn scan(&self, lowering: &Lowering, row: &Expr, block: &Expr) -> [Expr; 4] {
        // A grid has fewer than 2^31 blocks.
        let wide = lowering.index_type() == Type::I64;
        let number = |x: &Expr| if wide && x.constant().is_none() { x.clone().cast(Type::I32) } else { x.clone() };
        [self.pointer.clone(), number(row), number(&self.blocks), number(block)]
    }
}

/// A warp finds out what stands before a block; its first lane leaves that in `place`.
fn look_back(
    lowering: &mut Lowering,
    reduction: &Reduction,
    levels: i64,
    scan: [Expr; 4],
    (totals, place): (Expr, &Expr),
    threads: &Threads,
) {
    let rest = [totals, reduction.identity.clone(), reduction.functor()];
    let arguments = [int(levels)].into_iter().chain(scan).chain(rest).collect();
    let before = lowering.local("before", reduction.accumulator.clone(), call("scan_before_block", arguments));
    let store = Node::Assign(place.clone(), before);
    let first_lane = threads.lane.clone().binary("==", int(0));
    lowering.push(Node::If { condition: first_lane, then: vec![store], otherwise: Vec::new() });
}

/// Publishes the block's total and waits for what stands before the block, which the first warp finds out for all.
fn before_block(
    lowering: &mut Lowering,
    reduction: &Reduction,
    published: &Published,
    block: &Block,
    threads: &Threads,
    (values, rows_running): (&Expr, Expr),
) -> Result<Expr, Error> {
    let scan = published.scan(lowering, &block.row, &block.number);
    let ty = reduction.accumulator.clone();
    let aside = lowering.shared("aside", ty.clone(), vec![4, 4, 32]);
    let totals = lowering.shared("totals", ty.clone(), vec![128]);
    let before_block = lowering.shared("before_block", ty, Vec::new());
    lowering.when(name("threadIdx.x").binary("==", int(31)), |lowering| {
        publish(lowering, scan.clone(), rows_running);
        Ok(())
    })?;
    lowering.when(block.warp.clone().binary("==", int(0)), |lowering| {
        lowering.push(Node::Comment("Waiting takes registers: meanwhile the warp lays its terms aside.".into()));
        let each_value = |lowering: &mut Lowering, assign: fn(Expr, Expr) -> Node| {
            four(lowering, "at", |lowering, at| {
                four(lowering, "quad", |lowering, quad| {
                    let laid = aside.clone().at(at.clone()).at(quad.clone()).at(block.lane.clone());
                    lowering.push(assign(laid, values.clone().at(at).at(quad)));
                    Ok(())
                })
            })
        };
        each_value(lowering, Node::Assign)?;
        look_back(lowering, reduction, published.levels, scan, (totals, &before_block), threads);
        each_value(lowering, |laid, value| Node::Assign(value, laid))
    })?;
    lowering.push(Node::Barrier);
    Ok(before_block)
}

/// The condition for wide accesses: the block is whole, unless all quads are, and the quad that starts at the block's first term lies at a multiple of
/// its size, as then do all.
fn wide(block: &Block, places: Vec<(Expr, usize)>) -> Expr {
    let whole = (!block.span.quads).then(|| (block.start.clone() + int(BLOCK)).binary("<=", block.terms.clone()));
    let aligned = places.into_iter().map(|(place, element)| {
        let address = Expr::Unary("&", Box::new(place));
        call("is_aligned", vec![address, int(4 * element as i64)])
    });
    whole.into_iter().chain(aligned).reduce(Expr::and).unwrap_or(Expr::Bool(true))
}

//! A block of threads reduces terms of any number in the canonical order: 128 threads take a block of 4,096 of them, an accumulator a
//! thread; the values of the blocks are the terms of the next level, which every warp takes in.

use gpukc_dsl::types::Type;

use super::context::Lowering;
use super::reduction::Reduction;
use super::split::{ACCUMULATORS, BLOCK};
use crate::error::Error;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};

/// Blocks of terms whose values shared memory holds at a time.
const CHUNK: i64 = 256;

/// Reduces `extent` terms by `groups` of 128 threads; the total is in every thread. `take` takes the term of a number, which is called
/// `wish`, into an accumulator. All threads come here with the same extent.
pub fn total_of_block(
    lowering: &mut Lowering,
    reduction: &Reduction,
    extent: Expr,
    (groups, wish): (i64, &str),
    mut take: impl FnMut(&mut Lowering, Expr, Expr) -> Result<(), Error>,
) -> Result<Expr, Error> {
    let ty = lowering.index_type();
    let stem = reduction.reduce.reducer.name();
    // Free again after each reduction's last barrier, so all of one type share it.
    let key = format!("parts of warps, {:?}", reduction.accumulator);
    let quarters = match lowering.recall(&key) {
        Some(shared) => shared,
        None => {
            let shared = lowering.shared("of_warps", reduction.accumulator.clone(), vec![4 * CHUNK as u32]);
            lowering.remember(key, shared.clone());
            shared
        }
    };
    let levels = lowering.namer.fresh(&format!("{stem}_levels"));
    let element = match reduction.accumulator {
        CudaType::Best(ty) => CudaType::Class("CanonicalLevelsOfBest", ty),
        CudaType::Element(ty) => CudaType::Class("CanonicalLevels", ty),
        _ => return Err(Error::Bug("an accumulator of an unexpected type".into())),
    };
    let start = call("start_levels", vec![reduction.identity.clone()]);
    lowering.push(Node::Declare { ty: element, name: levels.clone(), value: Some(start), mutable: true });
    let blocks = lowering.local("blocks", ty, (extent.clone() + int(BLOCK - 1)) / int(BLOCK));
    lowering.each("chunk", ty, [int(0), blocks.clone(), int(CHUNK)], Unroll::By(1), |lowering, chunk| {
        let count = call("minimum", vec![(blocks - chunk.clone()).cast(Type::I32), int(CHUNK)]);
        let count = lowering.local("count", Type::I32, count);
        let lo = name("threadIdx.x").cast(Type::I32) / int(ACCUMULATORS);
        lowering.each("block", Type::I32, [lo, count.clone(), int(groups)], Unroll::By(1), |lowering, block| {
            let part = lowering.variable(&format!("{stem}_part"), reduction.accumulator.clone(), Some(reduction.identity.clone()));
            let thread = name("threadIdx.x").cast(Type::I32) % int(ACCUMULATORS);
            let first = (chunk.clone() + block.clone()) * int(BLOCK) + thread;
            let first = lowering.local("first", ty, first);
            let last = call("minimum", vec![first.clone() + int(BLOCK), extent.clone()]);
            let last = lowering.local("last", ty, last);
            lowering.each(wish, ty, [first, last, int(ACCUMULATORS)], Unroll::By(8), |lowering, term| {
                take(lowering, term, part.clone())
            })?;
            let at = block * int(4) + (name("threadIdx.x").cast(Type::I32) / int(32)) % int(4);
            deliver(lowering, part, reduction, quarters.clone(), at);
            Ok(())
        })?;
        lowering.push(Node::Barrier);
        lowering.push(Node::Call("take_blocks".into(), vec![name(levels.clone()), quarters.clone(), count, reduction.functor()]));
        lowering.push(Node::Barrier);
        Ok(())
    })?;
    Ok(call("finish_levels", vec![name(levels), reduction.functor()]))
}

/// Combines a warp's accumulators and lets its first lane store the result.
pub fn deliver(lowering: &mut Lowering, part: Expr, reduction: &Reduction, shared: Expr, at: Expr) {
    let combined = call("butterfly", vec![int(32), part.clone(), reduction.functor()]);
    lowering.push(Node::Assign(part.clone(), combined));
    let store = Node::Assign(shared.at(at), part);
    let first = (name("threadIdx.x") % int(32)).binary("==", int(0));
    lowering.push(Node::If { condition: first, then: vec![store], otherwise: Vec::new() });
}

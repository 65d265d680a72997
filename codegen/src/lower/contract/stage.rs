//! The way of a leaf's elements: from memory to registers, to a tile in shared memory, to a thread's fragment.

use gpukc_dsl::program::{ExprId, ExprKind, Ranged, VariableId};
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::expr::zero;
use super::shape::{Leaf, Shape, Side};
use super::{Block, SIDE, Tile};
use crate::error::Error;
use crate::plan::{CudaType, Expr, Node, Unroll, int, name};
use crate::walk;

/// A leaf's way through registers and shared memory.
pub struct Staged {
    ty: Type,
    side: Side,
    along_terms: bool,
    shared: Expr,
    ahead: Expr,
    /// Elements that a thread stages, and how many of them neighbour each other.
    count: i64,
    pack: i64,
    /// The read that fetches a pack by one access.
    wide: Option<ExprId>,
}

impl Staged {
    pub fn declare(lowering: &mut Lowering, leaf: &Leaf, tile: Tile) -> Result<Staged, Error> {
        let stem = walk::reads(lowering.kernel, leaf.exprs[0])
            .first()
            .and_then(|read| match &lowering.kernel.exprs[*read].kind {
                ExprKind::Read { array, .. } => Some(lowering.kernel.arrays[*array].name.replace('.', "_")),
                _ => None,
            })
            .unwrap_or("term".into());
        let count = tile.outer * tile.depth / (SIDE * SIDE);
        // Four words of padding keep 16-byte rows aligned and turned stores in different banks.
        let shared = lowering.shared(&format!("{stem}_tile"), leaf.ty, vec![2, tile.depth as u32, tile.outer as u32 + 4]);
        // Of a small tile a thread has less than a pack.
        let wide = leaf.wide.filter(|_| count % 4 == 0);
        let ahead = lowering.registers(&format!("{stem}_next"), leaf.ty, vec![count as u32]);
        Ok(Staged {
            ty: leaf.ty,
            side: leaf.side,
            along_terms: leaf.along_terms,
            shared,
            ahead,
            count,
            pack: if wide.is_some() { 4 } else { 1 },
            wide,
        })
    }

    /// Where in the tile the `step`-th pack that a thread stages starts: (term, outer).
    fn place(&self, tile: Tile, step: Expr) -> (Expr, Expr) {
        let number = name("threadIdx.x").cast(Type::I32) + step * int(SIDE * SIDE);
        if self.along_terms {
            let packs = int(tile.depth / self.pack);
            ((number.clone() % packs.clone()) * int(self.pack), number / packs)
        } else {
            let packs = int(tile.outer / self.pack);
            (number.clone() / packs.clone(), (number % packs) * int(self.pack))
        }
    }

    /// Visits the packs that a thread stages.
    fn packs(&self, lowering: &mut Lowering, mut write: impl FnMut(&mut Lowering, Expr) -> Result<(), Error>) -> Result<(), Error> {
        let bounds = [int(0), int(self.count / self.pack), int(1)];
        lowering.each("step", Type::I32, bounds, Unroll::Full, |lowering, step| write(lowering, step))
    }

    /// Computes the thread's elements of the tile whose first term is `start` into registers.
    pub fn fetch(&self, lowering: &mut Lowering, block: &Block, shape: &Shape, leaf: &Leaf, start: Expr) -> Result<(), Error> {
        let ty = lowering.index_type();
        let (range, tile_start, extent) = match self.side {
            Side::Row => (&shape.row, &block.row_tile, &block.row_extent),
            Side::Column => (&shape.column, &block.column_tile, &block.column_extent),
        };
        let computed = std::mem::take(&mut lowering.computed);
        let stem = |lowering: &Lowering, range: &Ranged| lowering.kernel.variables[range.variable].name.clone();
        let (outer_name, term_name) = (stem(lowering, range), stem(lowering, &shape.term));
        self.packs(lowering, |lowering, step| {
            let (term, outer) = self.place(block.tile, step.clone());
            let term = lowering.local(&term_name, ty, start.clone() + term);
            let outer = lowering.local(&outer_name, ty, tile_start.clone() + outer);
            lowering.variables.insert(shape.term.variable, term.clone());
            lowering.variables.insert(range.variable, outer.clone());
            let inside = term.clone().less(block.last.clone()).and(outer.clone().less(extent.clone()));
            let Some(read) = self.wide else {
                let place = self.ahead.clone().at(step);
                lowering.push(Node::Assign(place.clone(), zero(self.ty)));
                return lowering.when(inside, |lowering| {
                    let value = lowering.value(leaf.exprs[0])?;
                    lowering.push(Node::Assign(place, value));
                    Ok(())
                });
            };
            let along = if self.along_terms { (shape.term.variable, term) } else { (range.variable, outer) };
            self.fetch_pack(lowering, leaf, read, step, inside, along)
        })?;
        lowering.computed = computed;
        Ok(())
    }

    /// Fetches a pack of neighbouring elements by one access; zeros outside.
    fn fetch_pack(
        &self,
        lowering: &mut Lowering,
        leaf: &Leaf,
        read: ExprId,
        step: Expr,
        inside: Expr,
        (variable, first): (VariableId, Expr),
    ) -> Result<(), Error> {
        let ExprKind::Read { array, subscripts } = lowering.kernel.exprs[read].kind.clone() else {
            return Err(Error::Bug("a wide leaf without a read".into()));
        };
        let element = lowering.kernel.arrays[array].element;
        let parts = [int(0), int(self.pack), int(1)];
        let (then, ()) = lowering.block(|lowering| {
            let (indices, _) = lowering.guarded_indices(array, &subscripts)?;
            let offset = lowering.row_major(array, indices)?;
            let pointer = lowering.pointer(array);
            let wide = Expr::Wide(element, self.pack as u32, Box::new(pointer), Box::new(offset));
            let pack = lowering.local("pack", CudaType::Pack(element, self.pack as u32), wide);
            lowering.each("part", Type::I32, parts.clone(), Unroll::Full, |lowering, part| {
                lowering.variables.insert(variable, first.clone() + part.clone());
                lowering.computed.insert(read, pack.lane(part.clone()));
                let value = lowering.value(leaf.exprs[0])?;
                lowering.computed.clear();
                lowering.push(Node::Assign(self.ahead.clone().at(step.clone() * int(self.pack) + part), value));
                Ok(())
            })
        })?;
        let (otherwise, ()) = lowering.block(|lowering| {
            lowering.each("part", Type::I32, parts.clone(), Unroll::Full, |lowering, part| {
                lowering.push(Node::Assign(self.ahead.clone().at(step.clone() * int(self.pack) + part), zero(self.ty)));
                Ok(())
            })
        })?;
        lowering.push(Node::If { condition: inside, then, otherwise });
        Ok(())
    }

    /// Stores the registers to a buffer of the tile.
    pub fn store(&self, lowering: &mut Lowering, block: &Block, buffer: Expr) -> Result<(), Error> {
        self.packs(lowering, |lowering, step| {
            let (term, outer) = self.place(block.tile, step.clone());
            lowering.each("part", Type::I32, [int(0), int(self.pack), int(1)], Unroll::Full, |lowering, part| {
                let (term, outer) = if self.along_terms { (term + part.clone(), outer) } else { (term, outer + part.clone()) };
                let place = self.shared.clone().at(buffer.clone()).at(term).at(outer);
                lowering.push(Node::Assign(place, self.ahead.clone().at(step * int(self.pack) + part)));
                Ok(())
            })
        })
    }

    /// The thread's elements for one term, in registers.
    pub fn fragment(&self, lowering: &mut Lowering, block: &Block, buffer: Expr, term: Expr) -> Result<Expr, Error> {
        let per_thread = block.tile.per_thread();
        let start = if self.side == Side::Row { &block.down } else { &block.across };
        let wish = if self.side == Side::Row { "row_part" } else { "column_part" };
        let fragment = lowering.registers(wish, CudaType::Element(self.ty), vec![per_thread as u32]);
        let row = self.shared.clone().at(buffer).at(term);
        for quarter in 0..per_thread / 4 {
            let at = start.clone() + int(quarter * block.tile.outer / 2);
            let pack = Expr::Wide(self.ty, 4, Box::new(row.clone()), Box::new(at));
            let target = Expr::Wide(self.ty, 4, Box::new(fragment.clone()), Box::new(int(quarter * 4)));
            lowering.push(Node::Assign(target, pack));
        }
        Ok(fragment)
    }
}

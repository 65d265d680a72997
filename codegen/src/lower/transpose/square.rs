//! Transposes whose input and output each run along a long dimension of their own: a tile of these two, from all others one place.

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::map::suffix;
use super::dims::{Element, Permutation};
use super::wide;
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{Expr, Node, Unroll, int, name};

/// Threads of a block.
const THREADS: i64 = 256;

/// Elements of a tile along the input's contiguous dimension, and along the output's.
#[derive(Clone, Copy)]
pub struct Extents {
    across: i64,
    along: i64,
}

impl Extents {
    pub fn square(side: i64) -> Extents {
        Extents { across: side, along: side }
    }
    /// Long pieces of the output: where rows start anywhere, a piece that is written has a rim that it shares with another block
    /// (4093×8191 f32 on an H200: 64×64 104 µs, 32×128 91 µs, with tiles numbered along the output 78 µs).
    fn of_elements(lowering: &Lowering, along: &Formula) -> Extents {
        if lowering.facts.below(along, 65) { Extents::square(64) } else { Extents { across: 32, along: 128 } }
    }
}

/// A transpose of two long dims.
pub struct Square<'a> {
    pub permutation: &'a Permutation,
    /// The dim that what is permuted runs along, and the one that the output runs along.
    pub across: usize,
    pub along: usize,
}

/// Where a block's tile lies, and the launch's grid.
pub struct Tiles {
    /// Where the block is along all other dims.
    outer: Vec<Expr>,
    /// The first values of both variables in the tile, and their extents.
    across: Expr,
    along: Expr,
    across_extent: Expr,
    along_extent: Expr,
    pub blocks: Formula,
}

/// Lowers a transpose.
pub fn lower(lowering: &mut Lowering, statement: &Statement, permutation: &Permutation, across: usize) -> Result<(), Error> {
    let square = Square { permutation, across, along: permutation.dims.len() - 1 };
    match wide::lanes(lowering, statement, &square) {
        Some(lanes) => wide::lower(lowering, statement, &square, lanes),
        None => square.lower(lowering, statement),
    }
}

impl Square<'_> {
    pub fn extents(&self) -> [Formula; 2] {
        [self.across, self.along].map(|dim| self.permutation.dims[dim].extent.clone())
    }

    /// Numbers the tiles: along the output's contiguous dimension first, so that neighbours complete each other's lines of memory in
    /// the cache, then along the input's, then the rest.
    pub fn tiles(&self, lowering: &mut Lowering, tile: Extents) -> Tiles {
        let ty = lowering.index_type();
        let [across, along] = self.extents();
        let [across_name, along_name] = [self.across, self.along].map(|dim| self.permutation.name(lowering.kernel, &[dim]));
        let across_extent = lowering.size(&across, &format!("{across_name}_extent"));
        let along_extent = lowering.size(&along, &format!("{along_name}_extent"));
        let across_tiles = lowering.size(&across.clone().div_ceil(tile.across), &format!("{across_name}_tiles"));
        let along_tiles = lowering.size(&along.clone().div_ceil(tile.along), &format!("{along_name}_tiles"));
        let work = lowering.local("work", ty, name("blockIdx.x").cast(ty));
        let along_tile = lowering.local(&format!("{along_name}_tile"), ty, (work.clone() % along_tiles.clone()) * int(tile.along));
        let rest = lowering.local("rest", ty, work / along_tiles);
        let across_tile = (rest.clone() % across_tiles.clone()) * int(tile.across);
        let across_tile = lowering.local(&format!("{across_name}_tile"), ty, across_tile);
        let batch: Vec<usize> = (0..self.permutation.dims.len()).filter(|dim| ![self.across, self.along].contains(dim)).collect();
        let outer = if batch.is_empty() { int(0) } else { lowering.local("outer", ty, rest / across_tiles) };
        let blocks = across.div_ceil(tile.across).times(along.div_ceil(tile.along)).times(self.permutation.extent(&batch));
        let outer = self.decode(lowering, &batch, outer);
        Tiles { outer, across: across_tile, along: along_tile, across_extent, along_extent, blocks }
    }

    /// Where a number lies along some dims, the last of them fastest; 0 along all others.
    fn decode(&self, lowering: &mut Lowering, batch: &[usize], number: Expr) -> Vec<Expr> {
        let ty = lowering.index_type();
        let (mut at, mut rest) = (vec![int(0); self.permutation.dims.len()], number);
        for (depth, &dim) in batch.iter().enumerate().rev() {
            let wish = self.permutation.name(lowering.kernel, &[dim]);
            if depth == 0 {
                at[dim] = rest.clone();
                continue;
            }
            let extent = lowering.size(&self.permutation.extent(&[dim]), &format!("{wish}_extent"));
            at[dim] = lowering.local(&wish, ty, rest.clone() % extent.clone());
            rest = lowering.local("rest", ty, rest / extent);
        }
        at
    }

    fn lower(&self, lowering: &mut Lowering, statement: &Statement) -> Result<(), Error> {
        let [_, along] = self.extents();
        let size = Extents::of_elements(lowering, &along);
        let at = self.tiles(lowering, size);
        let mut staged = Vec::new();
        for element in &self.permutation.permuted {
            let wish = format!("{}_tile", lowering.kernel.arrays[element.array].name.replace('.', "_"));
            // A word of padding a row keeps the turned accesses in different banks.
            let pitch = size.across as u32 + (4 / element.ty.size() as u32).max(1);
            staged.push(lowering.shared(&wish, element.ty, vec![size.along as u32, pitch]));
        }
        self.load(lowering, &at, size, &staged)?;
        lowering.push(Node::Barrier);
        self.store(lowering, statement, &at, size, &staged)?;
        let notes = vec![
            format!(
                "Transpose: a {} x {} tile through shared memory, read along the input's contiguous dimension and written along",
                size.along, size.across
            ),
            "the output's. The padding keeps the turned accesses free of bank conflicts.".into(),
        ];
        let suffix = suffix(lowering, statement);
        lowering.end_launch(&suffix, "transpose", notes, [at.blocks, 1.into(), 1.into()], [THREADS as u32, 1, 1]);
        Ok(())
    }

    fn load(&self, lowering: &mut Lowering, tiles: &Tiles, size: Extents, staged: &[Expr]) -> Result<(), Error> {
        each_row(lowering, [size.along, size.across], |lowering, x, down| {
            let at = self.stand(lowering, tiles, x.clone(), down.clone());
            lowering.when(self.in_range(&at, tiles), |lowering| {
                self.permutation.bind_variables(lowering, &at)?;
                for (element, tile) in self.elements().zip(staged) {
                    let value = element.at(lowering, &at)?;
                    lowering.push(Node::Assign(tile.clone().at(down.clone()).at(x.clone()), value));
                }
                Ok(())
            })
        })
    }

    fn store(
        &self,
        lowering: &mut Lowering,
        statement: &Statement,
        tiles: &Tiles,
        size: Extents,
        staged: &[Expr],
    ) -> Result<(), Error> {
        each_row(lowering, [size.across, size.along], |lowering, x, down| {
            let at = self.stand(lowering, tiles, down.clone(), x.clone());
            lowering.when(self.in_range(&at, tiles), |lowering| {
                self.permutation.bind(lowering, &at)?;
                for (element, tile) in self.elements().zip(staged) {
                    let staged = tile.clone().at(x.clone()).at(down.clone());
                    lowering.computed.extend(element.reads.iter().map(|read| (*read, staged.clone())));
                }
                let value = lowering.value(statement.value)?;
                let offset = self.permutation.output.offset(lowering, statement.array, &at);
                let place = lowering.pointer(statement.array).at(offset);
                lowering.push(Node::Assign(place, value));
                Ok(())
            })
        })?;
        lowering.computed.clear();
        Ok(())
    }

    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.permutation.permuted.iter()
    }

    /// Where a place in the tile is along the dims, by names.
    pub fn stand(&self, lowering: &mut Lowering, tiles: &Tiles, across: Expr, along: Expr) -> Vec<Expr> {
        let ty = lowering.index_type();
        let mut at = tiles.outer.clone();
        for (dim, tile, within) in [(self.across, &tiles.across, across), (self.along, &tiles.along, along)] {
            let wish = self.permutation.name(lowering.kernel, &[dim]);
            at[dim] = lowering.local(&wish, ty, tile.clone() + within);
        }
        at
    }

    pub fn in_range(&self, at: &[Expr], tiles: &Tiles) -> Expr {
        at[self.across].clone().less(tiles.across_extent.clone()).and(at[self.along].clone().less(tiles.along_extent.clone()))
    }
}

/// Visits a thread's places in a tile of so many rows of so many elements: the place in the row, and the row.
fn each_row(
    lowering: &mut Lowering,
    [rows, row]: [i64; 2],
    write: impl FnOnce(&mut Lowering, Expr, Expr) -> Result<(), Error>,
) -> Result<(), Error> {
    let thread = || name("threadIdx.x").cast(Type::I32);
    let place = lowering.local("place", Type::I32, thread() % int(row));
    let own_row = lowering.local("own_row", Type::I32, thread() / int(row));
    lowering.each("row", Type::I32, [int(0), int(rows), int(THREADS / row)], Unroll::Full, |lowering, row| {
        let down = lowering.local("down", Type::I32, own_row + row);
        write(lowering, place, down)
    })
}

//! Wide transposes: 16 by 16 threads, each of which turns a square of packs in its registers. Global and shared memory are accessed
//! by packs on both sides; a pack lies in the shared tile at its row's place XOR its column's, so that neither the threads that
//! write a column of packs nor those that read a row of them meet in a bank.

use gpukc_dsl::program::{ArrayId, Statement};
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::map::suffix;
use super::dims::{Element, is_stored};
use super::square::{Extents, Square, Tiles};
use crate::error::Error;
use crate::plan::{CudaType, Expr, Node, Unroll, int, name};

/// Threads along each side of a block.
const SIDE: i64 = 16;
/// Static shared memory of a block.
const MOST_SHARED: i64 = 48 * 1024;

/// How many elements a pack has, if rows of every side are whole packs of at least four elements or 16 bytes.
pub fn lanes(lowering: &Lowering, statement: &Statement, square: &Square) -> Option<i64> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if !facts.aligned || !square.elements().all(|element| is_stored(lowering, element.array)) {
        return None;
    }
    let output = kernel.arrays[statement.array].element.size() as i64;
    let sizes: Vec<i64> = square.elements().map(|element| element.ty.size() as i64).chain([output]).collect();
    let widest = sizes.iter().copied().max()?;
    let tiles: i64 = sizes.iter().sum::<i64>() - output;
    let whole_rows = |lanes: i64| {
        square.extents().iter().all(|extent| facts.multiple(extent, lanes))
            && square.elements().all(|Element { view, .. }| {
                let contiguous = view.0.last().is_some_and(|axis| axis.along == Some(square.across));
                contiguous && view.begins_at_multiples(facts, 1, lanes)
            })
    };
    [8, 4, 2].into_iter().find(|lanes| {
        let fits = lanes * widest <= 16 && tiles * (SIDE * lanes) * (SIDE * lanes) <= MOST_SHARED;
        fits && (*lanes >= 4 || lanes * widest == 16) && whole_rows(*lanes)
    })
}

/// Lowers the statement with packs of that many elements.
pub fn lower(lowering: &mut Lowering, statement: &Statement, square: &Square, lanes: i64) -> Result<(), Error> {
    let side = SIDE * lanes;
    let tiles = square.tiles(lowering, Extents::square(side));
    let (x, y) = (name("threadIdx.x").cast(Type::I32), name("threadIdx.y").cast(Type::I32));
    let swizzled = lowering.local("swizzled", Type::I32, x.clone().binary("^", y.clone()));
    let mut staged = Vec::new();
    for element in square.elements() {
        let wish = format!("{}_tile", lowering.kernel.arrays[element.array].name.replace('.', "_"));
        staged.push(lowering.shared(&wish, CudaType::Pack(element.ty, lanes as u32), vec![side as u32, SIDE as u32]));
    }
    let [x, y] = [x * int(lanes), y * int(lanes)];
    let inner = Packs::begin(lowering, square, &tiles, lanes, [x.clone(), y.clone()]);
    lowering.when(square.in_range(&inner.first, &tiles), |lowering| {
        for (element, tile) in square.elements().zip(&staged) {
            let loaded = inner.load(lowering, element)?;
            inner.turn(lowering, loaded, tile.clone(), &swizzled, element.ty)?;
        }
        Ok(())
    })?;
    lowering.push(Node::Barrier);
    let outer = Packs::begin(lowering, square, &tiles, lanes, [y, x]);
    lowering.when(square.in_range(&outer.first, &tiles), |lowering| outer.store(lowering, statement, &staged, &swizzled))?;
    let suffix = suffix(lowering, statement);
    let notes = vec![
        format!("Transpose: a {side} x {side} tile through shared memory, read along the input's contiguous dimension and written"),
        format!(
            "along the output's, {lanes} elements at a time on every way; a thread turns a {lanes} x {lanes} square in its registers."
        ),
        "Where packs lie in the tile keeps both sides free of bank conflicts.".into(),
    ];
    lowering.end_launch(&suffix, "transpose", notes, [tiles.blocks, 1.into(), 1.into()], [SIDE as u32, SIDE as u32, 1]);
    Ok(())
}

/// A thread's square of packs in the tile.
struct Packs<'a> {
    square: &'a Square<'a>,
    lanes: i64,
    /// Its first place along the input's contiguous dimension, in the tile.
    across: Expr,
    /// Where its first element is along the dims.
    first: Vec<Expr>,
}

impl<'a> Packs<'a> {
    /// The square that begins there in the tile.
    fn begin(lowering: &mut Lowering, square: &'a Square, tiles: &Tiles, lanes: i64, [across, along]: [Expr; 2]) -> Packs<'a> {
        let first = square.stand(lowering, tiles, across.clone(), along);
        Packs { square, lanes, across, first }
    }

    fn each(
        &self,
        lowering: &mut Lowering,
        wish: &str,
        write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        lowering.each(wish, Type::I32, [int(0), int(self.lanes), int(1)], Unroll::Full, write)
    }

    /// A place in the square, without names: most are used once.
    fn place(&self, across: Option<Expr>, along: Option<Expr>) -> Vec<Expr> {
        let mut at = self.first.clone();
        for (dim, within) in [(self.square.across, across), (self.square.along, along)] {
            if let Some(within) = within {
                at[dim] = at[dim].clone() + within;
            }
        }
        at
    }

    fn wide(&self, lowering: &mut Lowering, array: ArrayId, offset: Expr) -> Expr {
        lowering.wide(array, self.lanes, offset)
    }

    /// Loads the packs of an element, one for each of the square's rows.
    fn load(&self, lowering: &mut Lowering, element: &Element) -> Result<Expr, Error> {
        let packs = lowering.packs(element.array, self.lanes, self.lanes);
        self.each(lowering, "row", |lowering, row| {
            let offset = element.view.offset(lowering, element.array, &self.place(None, Some(row.clone())));
            let wide = self.wide(lowering, element.array, offset);
            lowering.push(Node::Assign(packs.clone().at(row), wide));
            Ok(())
        })?;
        Ok(packs)
    }

    /// Writes the square's columns to the shared tile.
    fn turn(&self, lowering: &mut Lowering, packs: Expr, tile: Expr, swizzled: &Expr, element: Type) -> Result<(), Error> {
        self.each(lowering, "column", |lowering, column| {
            let turned = lowering.variable("turned", CudaType::Pack(element, self.lanes as u32), None);
            self.each(lowering, "row", |lowering, row| {
                let value = packs.at(row.clone()).lane(column.clone());
                lowering.push(Node::Assign(turned.clone().lane(row), value));
                Ok(())
            })?;
            let place = tile.at(self.across.clone() + column).at(swizzled.clone());
            lowering.push(Node::Assign(place, turned));
            Ok(())
        })
    }

    /// Stores the output's rows of the square.
    fn store(&self, lowering: &mut Lowering, statement: &Statement, tiles: &[Expr], swizzled: &Expr) -> Result<(), Error> {
        let permutation = self.square.permutation;
        self.each(lowering, "row", |lowering, row| {
            let down = self.across.clone() + row.clone();
            let mut packs = Vec::new();
            for (element, tile) in self.square.elements().zip(tiles) {
                let staged = tile.clone().at(down.clone()).at(swizzled.clone());
                packs.push(lowering.local("turned", CudaType::Pack(element.ty, self.lanes as u32), staged));
            }
            let result = lowering.pack(statement.array, self.lanes);
            self.each(lowering, "lane", |lowering, lane| {
                for (element, pack) in self.square.elements().zip(&packs) {
                    lowering.computed.extend(element.reads.iter().map(|read| (*read, pack.clone().lane(lane.clone()))));
                }
                permutation.bind(lowering, &self.place(Some(row.clone()), Some(lane.clone())))?;
                let value = lowering.value(statement.value)?;
                lowering.push(Node::Assign(result.clone().lane(lane), value));
                Ok(())
            })?;
            let offset = permutation.output.offset(lowering, statement.array, &self.place(Some(row), None));
            let place = self.wide(lowering, statement.array, offset);
            lowering.push(Node::Assign(place, result));
            Ok(())
        })?;
        lowering.computed.clear();
        Ok(())
    }
}

//! Wide transposes: 16 by 16 threads, each of which turns a square of packs in its registers. Global and shared memory are accessed
//! by packs on both sides; a pack lies in the shared tile at its row's place XOR its column's, so that neither the threads that
//! write a column of packs nor those that read a row of them meet in a bank.

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Ranged, Statement};
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::map::suffix;
use super::super::read::access;
use super::{Shape, Tile, Tiles, bind, in_range, tiles};
use crate::error::Error;
use crate::plan::{CudaType, Expr, Node, Unroll, int, name};

/// Threads along each side of a block.
const SIDE: i64 = 16;
/// Static shared memory of a block.
const MOST_SHARED: i64 = 48 * 1024;

/// How many elements a pack has, if rows of every side are whole packs of at least four elements or 16 bytes.
pub fn lanes(lowering: &Lowering, statement: &Statement, shape: &Shape) -> Option<i64> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if !facts.aligned {
        return None;
    }
    let output = kernel.arrays[statement.array].element.size() as i64;
    let sizes: Vec<i64> = shape.turned.iter().map(|same| kernel.exprs[same[0]].ty.size() as i64).chain([output]).collect();
    let widest = sizes.iter().copied().max()?;
    let tiles: i64 = sizes.iter().sum::<i64>() - output;
    let extents = [lowering.extent(&shape.across).ok()?, lowering.extent(&shape.along).ok()?];
    let whole_rows = |lanes: i64| {
        extents.iter().all(|extent| facts.multiple(extent, lanes))
            && shape.turned.iter().all(|same| {
                let ExprKind::Read { array, subscripts } = &kernel.exprs[same[0]].kind else { return false };
                access(kernel, facts, *array, subscripts).is_some_and(|access| {
                    let others = access.terms.iter().filter(|(variable, _)| *variable != shape.across.variable);
                    facts.multiple(&access.constant, lanes) && others.into_iter().all(|(_, step)| facts.multiple(step, lanes))
                })
            })
    };
    [8, 4, 2].into_iter().find(|lanes| {
        let fits = lanes * widest <= 16 && tiles * (SIDE * lanes) * (SIDE * lanes) <= MOST_SHARED;
        fits && (*lanes >= 4 || lanes * widest == 16) && whole_rows(*lanes)
    })
}

/// Lowers the statement with packs of that many elements.
pub fn lower(lowering: &mut Lowering, statement: &Statement, shape: &Shape, lanes: i64) -> Result<(), Error> {
    let side = SIDE * lanes;
    let at = tiles(lowering, statement, shape, Tile::square(side))?;
    let (x, y) = (name("threadIdx.x").cast(Type::I32), name("threadIdx.y").cast(Type::I32));
    let swizzled = lowering.local("swizzled", Type::I32, x.clone().binary("^", y.clone()));
    let mut tiles = Vec::new();
    for same in &shape.turned {
        let ExprKind::Read { array, .. } = &lowering.kernel.exprs[same[0]].kind else { continue };
        let (array, element) = (*array, lowering.kernel.exprs[same[0]].ty);
        let wish = format!("{}_tile", lowering.kernel.arrays[array].name.replace('.', "_"));
        let tile = lowering.shared(&wish, CudaType::Pack(element, lanes as u32), vec![side as u32, SIDE as u32]);
        tiles.push((tile, array, element));
    }
    let [x, y] = [x * int(lanes), y * int(lanes)];
    let inner = Square::begin(lowering, shape, &at, lanes, [x.clone(), y.clone()])?;
    lowering.when(in_range(lowering, shape, &at), |lowering| {
        for (same, (tile, array, element)) in shape.turned.iter().zip(&tiles) {
            let loaded = inner.load(lowering, shape, same[0], *array)?;
            inner.turn(lowering, loaded, tile.clone(), &swizzled, *element)?;
        }
        Ok(())
    })?;
    lowering.push(Node::Barrier);
    let outer = Square::begin(lowering, shape, &at, lanes, [y, x])?;
    lowering.when(in_range(lowering, shape, &at), |lowering| {
        let tiles: Vec<Expr> = tiles.iter().map(|(tile, ..)| tile.clone()).collect();
        outer.store(lowering, statement, shape, &tiles, &swizzled)
    })?;
    let suffix = suffix(lowering, statement);
    let notes = vec![
        format!("Transpose: a {side} x {side} tile through shared memory, read along the input's contiguous dimension and written"),
        format!(
            "along the output's, {lanes} elements at a time on every way; a thread turns a {lanes} x {lanes} square in its registers."
        ),
        "Where packs lie in the tile keeps both sides free of bank conflicts.".into(),
    ];
    lowering.end_launch(&suffix, "transpose", notes, [at.blocks, 1.into(), 1.into()], [SIDE as u32, SIDE as u32, 1]);
    Ok(())
}

/// A thread's square of the tile.
struct Square {
    lanes: i64,
    /// Its first place along the input's contiguous dimension, in the tile.
    across: Expr,
    /// The values of both variables at its first place.
    first: [Expr; 2],
}

impl Square {
    /// The square that begins there in the tile.
    fn begin(lowering: &mut Lowering, shape: &Shape, at: &Tiles, lanes: i64, [across, along]: [Expr; 2]) -> Result<Square, Error> {
        bind(lowering, shape, at, across.clone(), along)?;
        let value = |range: &Ranged| lowering.variables.get(&range.variable).cloned().unwrap_or(int(0));
        let first = [value(&shape.across), value(&shape.along)];
        Ok(Square { lanes, across, first })
    }

    fn each(
        &self,
        lowering: &mut Lowering,
        wish: &str,
        write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        lowering.each(wish, Type::I32, [int(0), int(self.lanes), int(1)], Unroll::Full, write)
    }

    /// Sets both variables to a place in the square, without names: most are used once.
    fn place(&self, lowering: &mut Lowering, shape: &Shape, across: Option<Expr>, along: Option<Expr>) {
        for (variable, first, within) in
            [(shape.across.variable, &self.first[0], across), (shape.along.variable, &self.first[1], along)]
        {
            let value = within.map_or(first.clone(), |within| first.clone() + within);
            lowering.variables.insert(variable, value);
        }
    }

    /// Loads the packs of a read, one for each of the square's rows.
    fn load(&self, lowering: &mut Lowering, shape: &Shape, read: ExprId, array: ArrayId) -> Result<Expr, Error> {
        let packs = lowering.packs(array, self.lanes, self.lanes);
        self.each(lowering, "row", |lowering, row| {
            self.place(lowering, shape, None, Some(row.clone()));
            let ExprKind::Read { subscripts, .. } = lowering.kernel.exprs[read].kind.clone() else { return Ok(()) };
            let (indices, _) = lowering.guarded_indices(array, &subscripts)?;
            let offset = lowering.row_major(array, indices)?;
            let wide = lowering.wide(array, self.lanes, offset);
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
    fn store(
        &self,
        lowering: &mut Lowering,
        statement: &Statement,
        shape: &Shape,
        tiles: &[Expr],
        swizzled: &Expr,
    ) -> Result<(), Error> {
        self.each(lowering, "row", |lowering, row| {
            let down = self.across.clone() + row.clone();
            let mut packs = Vec::new();
            for (same, tile) in shape.turned.iter().zip(tiles) {
                let ty = lowering.kernel.exprs[same[0]].ty;
                let staged = tile.clone().at(down.clone()).at(swizzled.clone());
                packs.push(lowering.local("turned", CudaType::Pack(ty, self.lanes as u32), staged));
            }
            let result = lowering.pack(statement.array, self.lanes);
            self.each(lowering, "lane", |lowering, lane| {
                for (same, pack) in shape.turned.iter().zip(&packs) {
                    lowering.computed.extend(same.iter().map(|read| (*read, pack.clone().lane(lane.clone()))));
                }
                self.place(lowering, shape, Some(row.clone()), Some(lane.clone()));
                let value = lowering.value(statement.value)?;
                lowering.push(Node::Assign(result.clone().lane(lane), value));
                Ok(())
            })?;
            self.place(lowering, shape, Some(row), None);
            let (indices, _) = lowering.guarded_indices(statement.array, &statement.subscripts)?;
            let offset = lowering.row_major(statement.array, indices)?;
            let place = lowering.wide(statement.array, self.lanes, offset);
            lowering.push(Node::Assign(place, result));
            Ok(())
        })?;
        lowering.computed.clear();
        Ok(())
    }
}

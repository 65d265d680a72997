//! Permutations of dims of which some are short: a block takes a box of them, the short ones whole. The box's elements are numbered in
//! the order of the input, in which they are read, and in that of the output, in which they are written; either way they are long
//! pieces of memory. A thread takes its numbers apart by multiplications. In shared memory the box lies as the input has it, a word of
//! padding behind every 32, so that no step through it keeps to one bank.

use gpukc_dsl::program::Statement;
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::map::suffix;
use super::dims::{Element, Permutation, is_stored};
use super::tile::{Run, Share, Tile};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node, Unroll, call, int, name};

/// Threads of a block.
const THREADS: i64 = 256;
/// Most steps of a thread that are unrolled.
const UNROLLED: i64 = 16;
/// Bits of the inverses that numbers are divided by, see `quotient` of the prelude.
const INVERSE: i64 = 1 << 30;

/// Lowers a permutation by a tile of some dims whole, and parts of some.
pub fn lower(
    lowering: &mut Lowering,
    statement: &Statement,
    permutation: &Permutation,
    (whole, parts): (&[usize], &[usize]),
) -> Result<(), Error> {
    let tile = Tile::of(lowering, permutation, statement.array, (whole, parts));
    let boxes = Boxes { permutation, statement, tile };
    let block = boxes.block(lowering);
    let staged: Vec<Expr> = permutation.permuted.iter().map(|element| boxes.stage(lowering, element)).collect();
    for (element, staged) in permutation.permuted.iter().zip(&staged) {
        boxes.load(lowering, &block, element, staged)?;
    }
    lowering.push(Node::Barrier);
    boxes.store(lowering, &block, &staged)?;
    let (suffix, notes) = (suffix(lowering, statement), boxes.notes(lowering, whole, parts));
    lowering.end_launch(&suffix, "transpose", notes, [block.blocks, 1.into(), 1.into()], [THREADS as u32, 1, 1]);
    Ok(())
}

struct Boxes<'a> {
    permutation: &'a Permutation,
    statement: &'a Statement,
    tile: Tile,
}

/// A block's box.
struct Block {
    /// Where it begins along each dim.
    first: Vec<Expr>,
    /// How many elements it has along dims of which it takes a part.
    rest: Vec<Option<Expr>>,
    blocks: Formula,
}

/// A digit of the numbers of a box's elements: what it is called, and how many values it has.
struct Digit {
    wish: String,
    dims: Vec<usize>,
    count: Formula,
}

/// A size inside of a box.
fn small(lowering: &mut Lowering, formula: &Formula, wish: &str) -> Expr {
    let size = lowering.size(formula, wish);
    if lowering.facts.narrow || size.constant().is_some() { size } else { size.cast(Type::I32) }
}

impl Boxes<'_> {
    fn name(&self, lowering: &Lowering, dims: &[usize]) -> String {
        self.permutation.name(lowering.kernel, dims)
    }

    /// How many elements of some dims the box has.
    fn count(&self, dims: &[usize]) -> Formula {
        dims.iter().fold(Formula::Constant(1), |count, dim| count.times(self.tile.count(self.permutation, *dim)))
    }

    /// Numbers the boxes in the order of the output, so that neighbours complete each other's lines of memory in the cache.
    fn block(&self, lowering: &mut Lowering) -> Block {
        let ty = lowering.index_type();
        let dims = self.permutation.dims.len();
        let (mut first, mut rest, mut blocks) = (vec![int(0); dims], vec![None; dims], Formula::Constant(1));
        let mut left = lowering.local("work", ty, name("blockIdx.x").cast(ty));
        let numbered: Vec<usize> = (0..dims).rev().filter(|dim| self.tile.shares[*dim] != Share::Whole).collect();
        for &dim in &numbered {
            let (wish, extent) = (self.name(lowering, &[dim]), self.permutation.extent(&[dim]));
            let part = self.tile.count(self.permutation, dim);
            let tiles = extent.clone().plus(part.clone().minus(1)).div_floor(part.clone());
            let mut number = left.clone();
            if numbered.last() != Some(&dim) {
                let tiles = lowering.size(&tiles, &format!("{wish}_tiles"));
                number = left.clone() % tiles.clone();
                left = lowering.local("rest", ty, left / tiles);
            }
            blocks = blocks.times(tiles);
            if self.tile.shares[dim] == Share::One {
                first[dim] = lowering.local(&wish, ty, number);
                continue;
            }
            let part = lowering.size(&part, &format!("{wish}_box"));
            let begin = lowering.local(&format!("{wish}_tile"), ty, number * part.clone());
            let extent = lowering.size(&extent, &format!("{wish}_extent"));
            // A constant part is of no type of its own yet.
            let part = if part.constant().is_some() { part.cast(ty) } else { part };
            let there = call("minimum", vec![part, extent - begin.clone()]);
            let there = if lowering.facts.narrow { there } else { there.cast(Type::I32) };
            rest[dim] = Some(lowering.local(&format!("{wish}_rest"), Type::I32, there));
            first[dim] = begin;
        }
        Block { first, rest, blocks }
    }

    /// Declares the box of an array in shared memory, in words.
    fn stage(&self, lowering: &mut Lowering, element: &Element) -> Expr {
        let wish = format!("{}_tile", lowering.kernel.arrays[element.array].name.replace('.', "_"));
        let lanes = lanes_of_word(element.ty);
        let words = self.tile.most / lanes;
        let ty = if lanes > 1 { CudaType::Pack(element.ty, lanes as u32) } else { element.ty.into() };
        lowering.shared(&wish, ty, vec![(words + (words >> padding(element.ty))) as u32])
    }

    /// Reads an array's box.
    fn load(&self, lowering: &mut Lowering, block: &Block, element: &Element, staged: &Expr) -> Result<(), Error> {
        let (array, stored) = (element.array, is_stored(lowering, element.array));
        let runs = self.runs(element, stored);
        let digits: Vec<Digit> = runs.iter().map(|run| self.digit(lowering, &run.dims)).collect();
        let ends = self.ends(lowering, block, &digits);
        let ty = lowering.index_type();
        let begin = element.view.offset(lowering, array, &block.first);
        let stem = lowering.kernel.arrays[array].name.replace('.', "_");
        let begin = lowering.local(&format!("{stem}_first"), ty, begin);
        let lanes = self.tile.read;
        self.each(lowering, lanes, |lowering, place| {
            let at = take_apart(lowering, place.clone(), &digits);
            lowering.when(inside(&at, &ends), |lowering| {
                if !stored {
                    let mut there = block.first.clone();
                    for (run, at) in runs.iter().zip(&at) {
                        there[run.dims[0]] = there[run.dims[0]].clone() + at.clone();
                    }
                    self.permutation.bind_variables(lowering, &there)?;
                    let value = lowering.value(element.reads[0])?;
                    let target = element_at(lowering, staged, element.ty, place);
                    lowering.push(Node::Assign(target, value));
                    return Ok(());
                }
                let mut offset = begin.clone();
                for (run, at) in runs.iter().zip(at).rev() {
                    offset = offset + at * lowering.size(&run.step, &format!("{stem}_step"));
                }
                let value = lowering.piece(array, lanes, offset);
                let target = match lanes {
                    1 => element_at(lowering, staged, element.ty, place),
                    lanes => word_at(lowering, staged, element.ty, place / int(lanes)),
                };
                lowering.push(Node::Assign(target, value));
                Ok(())
            })
        })?;
        lowering.computed.clear();
        Ok(())
    }

    /// The runs of an array; what is computed in place is asked for each dim by itself.
    fn runs(&self, element: &Element, stored: bool) -> Vec<Run> {
        if stored {
            return self.tile.runs(self.permutation, &element.view);
        }
        self.order(element).into_iter().map(|dim| Run { dims: vec![dim], step: Formula::Constant(1) }).collect()
    }

    /// The dims of an array's box, fastest first.
    fn order(&self, element: &Element) -> Vec<usize> {
        element.view.order().into_iter().filter(|dim| self.tile.shares[*dim] != Share::One).collect()
    }

    fn digit(&self, lowering: &Lowering, dims: &[usize]) -> Digit {
        let name = self.name(lowering, dims);
        let wish = if matches!(self.tile.shares[dims[0]], Share::Part(_)) { format!("{name}_within") } else { name };
        Digit { wish, dims: dims.to_vec(), count: self.count(dims) }
    }

    /// Where each digit ends, if that is to be asked: where the box takes a part, and at the end of all.
    fn ends(&self, lowering: &mut Lowering, block: &Block, digits: &[Digit]) -> Vec<Option<Expr>> {
        let mut ends = Vec::new();
        for (number, digit) in digits.iter().enumerate() {
            let (slowest, faster) = (digit.dims[0], self.count(&digit.dims[1..]));
            let name = self.name(lowering, &digit.dims);
            ends.push(match &block.rest[slowest] {
                Some(rest) if digit.dims.len() == 1 => Some(rest.clone()),
                Some(rest) => {
                    let end = rest.clone() * small(lowering, &faster, &format!("{name}_count"));
                    Some(lowering.local(&format!("{name}_end"), Type::I32, end))
                }
                None if number + 1 == digits.len() => Some(small(lowering, &digit.count, &format!("{name}_count"))),
                None => None,
            });
        }
        ends
    }

    /// Visits a thread's numbers in the box, each the first of so many.
    fn each(
        &self,
        lowering: &mut Lowering,
        lanes: i64,
        write: impl FnOnce(&mut Lowering, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let steps = (self.tile.most + THREADS * lanes - 1) / (THREADS * lanes);
        let unroll = if steps <= UNROLLED { Unroll::Full } else { Unroll::By(UNROLLED as u32) };
        lowering.each("step", Type::I32, [int(0), int(steps), int(1)], unroll, |lowering, step| {
            let number = step * int(THREADS) + name("threadIdx.x").cast(Type::I32);
            let number = lowering.local("place", Type::I32, number * int(lanes));
            write(lowering, number)
        })
    }

    /// Writes the output's box.
    fn store(&self, lowering: &mut Lowering, block: &Block, staged: &[Expr]) -> Result<(), Error> {
        let dims = self.permutation.output.order();
        let dims: Vec<usize> = dims.into_iter().filter(|dim| self.tile.shares[*dim] != Share::One).collect();
        let digits: Vec<Digit> = dims.iter().map(|dim| self.digit(lowering, &[*dim])).collect();
        let ends = self.ends(lowering, block, &digits);
        let (array, lanes) = (self.statement.array, self.tile.written);
        self.each(lowering, lanes, |lowering, number| {
            let place = take_apart(lowering, number.clone(), &digits);
            lowering.when(inside(&place, &ends), |lowering| {
                let at = self.stand(lowering, block, (&dims, &place));
                let offset = self.permutation.output.offset(lowering, array, &at);
                let value = match lanes {
                    1 => {
                        let from = self.from(lowering, (&dims, &place));
                        self.value(lowering, staged, from, &at)?
                    }
                    _ if self.tile.together => self.beside(lowering, staged, (&dims, &place), at)?,
                    _ => self.apart(lowering, block, staged, (&digits, number))?,
                };
                let target = lowering.piece(array, lanes, offset);
                lowering.push(Node::Assign(target, value));
                Ok(())
            })
        })?;
        lowering.computed.clear();
        Ok(())
    }

    /// Where a place in the box is along all dims.
    fn stand(&self, lowering: &mut Lowering, block: &Block, (dims, place): (&[usize], &[Expr])) -> Vec<Expr> {
        let mut at = block.first.clone();
        for (&dim, place) in dims.iter().zip(place) {
            let there = at[dim].clone() + place.clone();
            let wish = self.name(lowering, &[dim]);
            at[dim] = if there == *place { there } else { lowering.local(&wish, lowering.index_type(), there) };
        }
        at
    }

    /// A pack of values, the first of which is at this place, and the others beside it along the fastest dim.
    fn beside(
        &self,
        lowering: &mut Lowering,
        staged: &[Expr],
        (dims, place): (&[usize], &[Expr]),
        at: Vec<Expr>,
    ) -> Result<Expr, Error> {
        let first = self.from(lowering, (dims, place));
        let pitches: Vec<Expr> = self.permutation.permuted.iter().map(|element| self.pitch(lowering, element, dims[0])).collect();
        self.pack(lowering, |lowering, lane| {
            let from = first.iter().zip(&pitches).map(|(from, pitch)| from.clone() + lane.clone() * pitch.clone()).collect();
            let mut at = at.clone();
            at[dims[0]] = at[dims[0]].clone() + lane;
            self.value(lowering, staged, from, &at)
        })
    }

    /// A pack of values from this number on, each taken apart by itself.
    fn apart(
        &self,
        lowering: &mut Lowering,
        block: &Block,
        staged: &[Expr],
        (digits, number): (&[Digit], Expr),
    ) -> Result<Expr, Error> {
        let dims: Vec<usize> = digits.iter().map(|digit| digit.dims[0]).collect();
        self.pack(lowering, |lowering, lane| {
            let number = lowering.local("number", Type::I32, number + lane);
            let place = take_apart(lowering, number, digits);
            let from = self.from(lowering, (&dims, &place));
            let at = self.stand(lowering, block, (&dims, &place));
            self.value(lowering, staged, from, &at)
        })
    }

    fn pack(&self, lowering: &mut Lowering, value: impl FnOnce(&mut Lowering, Expr) -> Result<Expr, Error>) -> Result<Expr, Error> {
        let pack = lowering.pack(self.statement.array, self.tile.written);
        lowering.each("lane", Type::I32, [int(0), int(self.tile.written), int(1)], Unroll::Full, |lowering, lane| {
            let value = value(lowering, lane.clone())?;
            lowering.push(Node::Assign(pack.clone().lane(lane), value));
            Ok(())
        })?;
        Ok(pack)
    }

    /// How far apart neighbours along a dim lie in an array's box; 0 where it does not run along.
    fn pitch(&self, lowering: &mut Lowering, element: &Element, dim: usize) -> Expr {
        let order = self.order(element);
        let Some(number) = order.iter().position(|other| *other == dim) else { return int(0) };
        let wish = format!("{}_pitch", self.name(lowering, &order[..number]));
        small(lowering, &self.count(&order[..number]), &wish)
    }

    /// Which element of each array's box a place is.
    fn from(&self, lowering: &mut Lowering, (dims, place): (&[usize], &[Expr])) -> Vec<Expr> {
        let mut all = Vec::new();
        for element in &self.permutation.permuted {
            let mut from = int(0);
            for dim in self.order(element).into_iter().rev() {
                let Some(number) = dims.iter().position(|other| *other == dim) else { continue };
                from = from + place[number].clone() * self.pitch(lowering, element, dim);
            }
            all.push(if matches!(from, Expr::Name(_)) { from } else { lowering.local("from", Type::I32, from) });
        }
        all
    }

    /// The value of these elements, at a place.
    fn value(&self, lowering: &mut Lowering, staged: &[Expr], from: Vec<Expr>, at: &[Expr]) -> Result<Expr, Error> {
        self.permutation.bind(lowering, at)?;
        for ((element, staged), from) in self.permutation.permuted.iter().zip(staged).zip(from) {
            let from = if matches!(from, Expr::Name(_)) { from } else { lowering.local("from", Type::I32, from) };
            let value = element_at(lowering, staged, element.ty, from);
            lowering.computed.extend(element.reads.iter().map(|read| (*read, value.clone())));
        }
        lowering.value(self.statement.value)
    }

    fn notes(&self, lowering: &Lowering, whole: &[usize], parts: &[usize]) -> Vec<String> {
        let names = |dims: &[usize]| dims.iter().map(|dim| self.name(lowering, &[*dim])).collect::<Vec<_>>().join(", ");
        let taken = match (whole, parts) {
            ([], parts) => format!("parts of {}", names(parts)),
            (whole, []) => format!("all of {}", names(whole)),
            (whole, parts) => format!("all of {} and part of {}", names(whole), names(parts)),
        };
        let mut notes = vec![
            format!("Permutation: a box through shared memory, {taken}, read in the order of the input and written in that of"),
            "the output. The padding after every 32 words keeps steps through it from meeting in one bank.".into(),
        ];
        let lanes = self.tile.read.max(self.tile.written);
        if lanes > 1 {
            let ways = match (self.tile.read, self.tile.written) {
                (1, _) => "written",
                (_, 1) => "read",
                _ => "read and written",
            };
            notes.push(format!("{lanes} elements are {ways} together."));
        }
        notes
    }
}

/// Elements that a word of shared memory holds.
fn lanes_of_word(ty: Type) -> i64 {
    (4 / ty.size() as i64).max(1)
}

/// All words of a row of banks, as a power of two: of 8 bytes, 16 fill one.
fn padding(ty: Type) -> i64 {
    if ty.size() > 4 { 4 } else { 5 }
}

/// A word of a box; its number has a name.
fn word_at(lowering: &mut Lowering, staged: &Expr, ty: Type, word: Expr) -> Expr {
    let word = if matches!(word, Expr::Name(_)) { word } else { lowering.local("word", Type::I32, word) };
    staged.clone().at(word.clone() + word.binary(">>", int(padding(ty))))
}

/// An element of a box.
fn element_at(lowering: &mut Lowering, staged: &Expr, ty: Type, place: Expr) -> Expr {
    match lanes_of_word(ty) {
        1 => word_at(lowering, staged, ty, place),
        lanes => {
            let word = place.clone().binary(">>", int(lanes.ilog2().into()));
            word_at(lowering, staged, ty, word).lane(place.binary("&", int(lanes - 1)))
        }
    }
}

/// The digits of a number, fastest first.
fn take_apart(lowering: &mut Lowering, number: Expr, digits: &[Digit]) -> Vec<Expr> {
    let (mut at, mut rest) = (Vec::new(), number);
    for (place, digit) in digits.iter().enumerate() {
        let Some(next) = digits.get(place + 1) else {
            at.push(rest.clone());
            break;
        };
        let count = small(lowering, &digit.count, &format!("{}_box", digit.wish));
        let quotient = match count.constant() {
            Some(_) => rest.clone() / count.clone(),
            None => {
                let inverse = Formula::Constant(INVERSE).plus(digit.count.clone().minus(1)).div_floor(digit.count.clone());
                let inverse = small(lowering, &inverse, &format!("{}_inverse", digit.wish));
                call("quotient", vec![rest.clone(), inverse])
            }
        };
        let wish = if place + 2 == digits.len() { next.wish.clone() } else { "rest".into() };
        let quotient = lowering.local(&wish, Type::I32, quotient);
        at.push(lowering.local(&digit.wish, Type::I32, rest - quotient.clone() * count));
        rest = quotient;
    }
    at
}

/// Whether all digits are below their ends.
fn inside(at: &[Expr], ends: &[Option<Expr>]) -> Expr {
    let each = at.iter().zip(ends).filter_map(|(at, end)| Some(at.clone().less(end.clone()?)));
    each.reduce(Expr::and).unwrap_or(Expr::Bool(true))
}

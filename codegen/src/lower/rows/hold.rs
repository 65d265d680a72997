//! What threads hold of the rows that a statement reads, and how it comes into registers and leaves them.

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Kernel, Ranged, Statement, Subscript, VariableId};

use super::super::context::Lowering;
use super::super::expr::zero;
use super::super::group::{is_flat, only_reduction};
use super::super::map::is_identity;
use super::super::packs::{Along, Read, Verdict, along};
use super::super::place::Place;
use super::super::read::{access, flat_coefficient, inside_everywhere};
use super::layout::Layout;
use super::tile::place_of;
use super::visit::{Beyond, Held, Row, packs, positions};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node};
use crate::walk;

/// Arrays whose packs a lane holds beside those of the row.
const MOST_BESIDE: usize = 4;

/// Loads the statement's own-row inputs that no earlier statement has loaded, those of `let`s computed in place as well, all before the
/// first is used.
pub fn hold_inputs(lowering: &mut Lowering, row: &mut Row, statement: &Statement, inner: &[Ranged]) -> Result<(), Error> {
    if matches!(row.layout, Layout::Reload { .. }) || inner.is_empty() {
        return Ok(());
    }
    let evaluated = evaluated(lowering.kernel, statement);
    let own = Own { numbers: row.numbers.clone(), inner: inner.to_vec() };
    let mut pending = vec![(statement.value, evaluated, own)];
    while let Some((value, evaluated, own)) = pending.pop() {
        let sure = evaluated.map_or(Vec::new(), |root| walk::sure_reads(lowering.kernel, root));
        for read in walk::reads(lowering.kernel, value) {
            let ExprKind::Read { array, subscripts } = lowering.kernel.exprs[read].kind.clone() else { continue };
            if let Place::Inline(number) = lowering.places.of(array) {
                if let Some(below) = own.of_inlined(lowering, row, number, &subscripts) {
                    let value = lowering.kernel.statements[number].value;
                    pending.push((value, sure.contains(&read).then_some(value), below));
                }
                continue;
            }
            if lowering.places.of(array) == Place::OnChip || lowering.chip.contains_key(&array) || row.on_chip.contains_key(&array) {
                continue;
            }
            hold(lowering, row, &own, (array, read, &subscripts), sure.contains(&read))?;
        }
    }
    Ok(())
}

/// The variables of a statement, or of a `let` computed in place: those that number its rows, and those along the row.
struct Own {
    numbers: Vec<Ranged>,
    inner: Vec<Ranged>,
}

impl Own {
    fn all(&self, row: &Row) -> Vec<Ranged> {
        row.numbering.join(&self.numbers, &self.inner).copied().collect()
    }

    /// Those of a `let` that is read at these subscripts, if that is the element at hand, and runs along as a whole.
    fn of_inlined(&self, lowering: &Lowering, row: &Row, number: usize, subscripts: &[Subscript]) -> Option<Own> {
        let (kernel, inlined) = (lowering.kernel, &lowering.kernel.statements[number]);
        let here = is_identity(kernel, subscripts, &self.all(row)) && is_identity(kernel, &inlined.subscripts, &inlined.variables);
        let (numbers, inner) = here.then(|| row.numbering.split(&inlined.variables))?;
        is_flat(kernel, lowering.facts, inlined.value, &inner).then_some(Own { numbers, inner })
    }
}

/// Vectors that a statement reads along the row, where a pack of each serves a pack of the row: the weights of a layernorm.
pub fn beside(lowering: &Lowering, row: &Row, statement: &Statement, inner: &[Ranged]) -> Vec<Along> {
    let (Layout::Lanes { .. }, Some(root)) = (row.layout, evaluated(lowering.kernel, statement)) else { return Vec::new() };
    let rank = row.numbers.len();
    let all: Vec<Ranged> = row.numbering.join(&row.numbers, inner).copied().collect();
    let judge = |read: &Read| match read.in_place {
        Some(inlined) if read.is_along(lowering, inlined, rank) => Verdict::Enter,
        None if is_vector(lowering, read, rank) && !row.holds(lowering, read.array) => Verdict::Along,
        _ => Verdict::Apart,
    };
    let mut found = along(lowering, &[root], &all, judge);
    found.truncate(MOST_BESIDE);
    found
}

/// Whether a read's element is that of the position, in any row.
fn is_vector(lowering: &Lowering, read: &Read, rank: usize) -> bool {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let plain = is_plain(lowering, read.id);
    let inner = &read.own[rank..];
    let own = access(kernel, facts, read.array, read.subscripts).is_some_and(|access| {
        let own = |v: VariableId| inner.iter().any(|range| range.variable == v);
        flat_coefficient(kernel, facts, &access, inner) == Some(Formula::Constant(1))
            && access.constant == Formula::Constant(0)
            && access.terms.iter().all(|(v, _)| own(*v))
    });
    plain && own && kernel.arrays[read.array].element.size() <= 4
}

/// Whether a read asks nothing before it touches memory.
fn is_plain(lowering: &Lowering, read: ExprId) -> bool {
    match &lowering.kernel.exprs[read].kind {
        ExprKind::Read { subscripts, .. } => subscripts.iter().all(|s| matches!(s.bounds, Bounds::Proved | Bounds::Assumed)),
        _ => false,
    }
}

/// What a statement evaluates for each position whatever conditions say; `None` where a filter stands before it.
fn evaluated(kernel: &Kernel, statement: &Statement) -> Option<ExprId> {
    match only_reduction(kernel, statement) {
        Some((_, reduce)) if reduce.filter.is_some() => None,
        Some((_, reduce)) => Some(reduce.body),
        None => Some(statement.value),
    }
}

/// Holds what one read reads, if each position has an element of its own.
fn hold(
    lowering: &mut Lowering,
    row: &mut Row,
    own: &Own,
    (array, read, subscripts): (ArrayId, ExprId, &[Subscript]),
    sure: bool,
) -> Result<(), Error> {
    let Some(place) = own_place(lowering, row, array, subscripts, own) else { return Ok(()) };
    if !sure && !inside_everywhere(lowering.kernel, lowering.facts, array, subscripts, &own.all(row)) {
        return Ok(());
    }
    if let Some(held) = row.held.iter_mut().find(|held| held.array == array && held.place == place) {
        held.reads.push(read);
        held.last = row.at;
        return Ok(());
    }
    let numbers = std::mem::replace(&mut row.numbers, own.numbers.clone());
    lowering.variables.extend(own.numbers.iter().map(|range| range.variable).zip(row.rows.iter().cloned()));
    load_row(lowering, row, (array, read, place), &own.inner)?;
    row.numbers = numbers;
    Ok(())
}

/// Where a read of each position's own element lies: of contiguous rows at their number and position, of columns as
/// [`place_of`] has it, of rows in pieces by the steps of all variables that do not run along. `None` for any other read.
fn own_place(lowering: &Lowering, row: &Row, array: ArrayId, subscripts: &[Subscript], own: &Own) -> Option<Vec<Formula>> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if let Layout::Columns(_) = row.layout {
        return place_of(kernel, facts, array, subscripts, &own.numbers, &own.inner);
    }
    let all: Vec<Ranged> = own.numbers.iter().chain(&own.inner).copied().collect();
    let access = access(kernel, facts, array, subscripts)?;
    if access.constant != Formula::Constant(0) {
        return None;
    }
    let (slower, run) = match row.numbering.pieces {
        0 => all.split_at(0),
        pieces => all.split_at(own.numbers.len() + pieces),
    };
    let along = flat_coefficient(kernel, facts, &access, run) == Some(Formula::Constant(1));
    let place: Vec<Formula> = slower.iter().map(|range| access.coefficient(range.variable)).collect();
    let whole = access.terms.len() == all.len() && !place.contains(&Formula::Constant(0));
    // A lane has packs, which begin at multiples of four in every piece.
    let begins = !matches!(row.layout, Layout::Lanes { .. }) || place.iter().all(|step| facts.multiple(step, 4));
    (along && begins && (slower.is_empty() || whole)).then_some(place)
}

/// Whether a pack of the layout is one access of an array whose elements lie at this place.
fn moves_packs(lowering: &Lowering, row: &Row, array: ArrayId, place: &[Formula]) -> bool {
    let size = lowering.kernel.arrays[array].element.size() as i64;
    match row.layout {
        Layout::Lanes { .. } => size <= 4,
        Layout::Columns(tile) => {
            // All steps but that of the columns, which are neighbours.
            let steps = place.iter().enumerate().filter(|(at, _)| at + 2 != place.len());
            let whole = |step: &Formula| lowering.facts.multiple(step, tile.lanes);
            tile.lanes > 1 && lowering.facts.aligned && tile.lanes * size <= 16 && steps.into_iter().all(|(_, step)| whole(step))
        }
        _ => false,
    }
}

/// Whether the elements of a map leave as packs.
pub fn stores_packs(lowering: &Lowering, row: &Row, statement: &Statement, inner: &[Ranged]) -> bool {
    match row.layout {
        Layout::Columns(_) => {
            let own = Own { numbers: row.numbers.clone(), inner: inner.to_vec() };
            own_place(lowering, row, statement.array, &statement.subscripts, &own)
                .is_some_and(|place| moves_packs(lowering, row, statement.array, &place))
        }
        _ => moves_packs(lowering, row, statement.array, &[]),
    }
}

fn load_row(
    lowering: &mut Lowering,
    row: &mut Row,
    (array, read, place): (ArrayId, ExprId, Vec<Formula>),
    inner: &[Ranged],
) -> Result<(), Error> {
    let element = lowering.kernel.arrays[array].element;
    let wish = format!("{}_row", lowering.kernel.arrays[array].name.replace('.', "_"));
    let packed = moves_packs(lowering, row, array, &place);
    let pointer = lowering.pointer(array);
    let registers = if packed {
        let lanes = row.layout.pack();
        let registers = lowering.registers(&wish, CudaType::Pack(element, lanes), vec![row.layout.per_thread() / lanes]);
        let wish = match row.layout {
            Layout::Columns(_) => lowering.point_name(inner),
            _ => "j".into(),
        };
        packs(lowering, row, &wish, Beyond::Repeat, |lowering, pack, position| {
            let ExprKind::Read { subscripts, .. } = lowering.kernel.exprs[read].kind.clone() else { return Ok(()) };
            row.at_position(lowering, inner, position)?;
            let offset = match lowering.flat_place(array, &subscripts)? {
                Some(offset) => offset,
                None => return Err(Error::Bug("a row that does not run along".into())),
            };
            let wide = Expr::Wide(element, lanes, Box::new(pointer.clone()), Box::new(offset));
            lowering.push(Node::Assign(registers.clone().at(pack.slot), wide));
            Ok(())
        })?;
        registers
    } else {
        let registers = lowering.registers(&wish, element, vec![row.layout.per_thread()]);
        positions(lowering, row, inner, Beyond::Repeat, |lowering, spot| {
            // A load under a condition of its own needs no other address than the layout's.
            let beyond = spot.guard.filter(|guard| !guard.sure && is_plain(lowering, read));
            if let Some(guard) = &beyond {
                row.at_position(lowering, inner, guard.place.clone())?;
            }
            let value = lowering.value(read)?;
            let value = beyond.map_or(value.clone(), |guard| guard.condition.choose(value, zero(element)));
            lowering.push(Node::Assign(registers.clone().at(spot.slot), value));
            Ok(())
        })?;
        registers
    };
    row.held.push(Held { array, place, reads: vec![read], registers, packed, first: row.at, last: row.at });
    Ok(())
}

//! What threads hold of the rows that a statement reads, and how it comes into registers and leaves them.

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Ranged, Statement, Subscript};

use super::super::context::Lowering;
use super::super::group::only_reduction;
use super::super::place::Place;
use super::super::read::{access, flat_coefficient, inside_everywhere};
use super::layout::Layout;
use super::tile::place_of;
use super::visit::{Held, Row, at_position, packs, positions};
use crate::error::Error;
use crate::formula::Formula;
use crate::plan::{CudaType, Expr, Node};
use crate::walk;

/// Loads the statement's own-row inputs that no earlier statement has loaded, all before the first is used.
pub fn hold_inputs(lowering: &mut Lowering, row: &mut Row, statement: &Statement, inner: &[Ranged]) -> Result<(), Error> {
    if matches!(row.layout, Layout::Reload { .. }) || inner.is_empty() {
        return Ok(());
    }
    let (root, filtered) = match only_reduction(lowering.kernel, statement) {
        Some((_, reduce)) => (reduce.body, reduce.filter.is_some()),
        None => (statement.value, false),
    };
    let sure = if filtered { Vec::new() } else { walk::sure_reads(lowering.kernel, root) };
    for read in walk::reads(lowering.kernel, statement.value) {
        let ExprKind::Read { array, subscripts } = lowering.kernel.exprs[read].kind.clone() else { continue };
        let place = lowering.places.of(array);
        if !matches!(place, Place::Memory | Place::Scratch(_))
            || lowering.chip.contains_key(&array)
            || row.on_chip.contains_key(&array)
        {
            continue;
        }
        let all: Vec<Ranged> = row.numbers.iter().chain(inner).copied().collect();
        let Some(place) = own_place(lowering, row, array, &subscripts, inner) else { continue };
        if !sure.contains(&read) && !inside_everywhere(lowering.kernel, lowering.facts, array, &subscripts, &all) {
            continue;
        }
        if let Some(held) = row.held.iter_mut().find(|held| held.array == array && held.place == place) {
            held.reads.push(read);
            continue;
        }
        load_row(lowering, row, (array, read, place), inner)?;
    }
    Ok(())
}

/// Where a read of each position's own element lies: of contiguous rows at their number and position, of columns as
/// [`place_of`] has it. `None` for any other read.
fn own_place(lowering: &Lowering, row: &Row, array: ArrayId, subscripts: &[Subscript], inner: &[Ranged]) -> Option<Vec<Formula>> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    if let Layout::Columns(_) = row.layout {
        return place_of(kernel, facts, array, subscripts, &row.numbers, inner);
    }
    let all: Vec<Ranged> = row.numbers.iter().chain(inner).copied().collect();
    let access = access(kernel, facts, array, subscripts)?;
    let along = flat_coefficient(kernel, facts, &access, &all) == Some(Formula::Constant(1));
    (along && access.constant == Formula::Constant(0)).then(Vec::new)
}

/// Whether a pack of the layout is one access of an array whose elements lie at this place.
fn moves_packs(lowering: &Lowering, row: &Row, array: ArrayId, place: &[Formula]) -> bool {
    let size = lowering.kernel.arrays[array].element.size() as i64;
    match row.layout {
        Layout::Lanes { .. } => row.aligned && size <= 4,
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
        Layout::Columns(_) => own_place(lowering, row, statement.array, &statement.subscripts, inner)
            .is_some_and(|place| moves_packs(lowering, row, statement.array, &place)),
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
        packs(lowering, row, &wish, |lowering, pack, position| {
            let ExprKind::Read { subscripts, .. } = lowering.kernel.exprs[read].kind.clone() else { return Ok(()) };
            at_position(lowering, inner, position)?;
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
        positions(lowering, row, inner, |lowering, spot| {
            let value = lowering.value(read)?;
            lowering.push(Node::Assign(registers.clone().at(spot.slot), value));
            Ok(())
        })?;
        registers
    };
    row.held.push(Held { array, place, reads: vec![read], registers, packed });
    Ok(())
}

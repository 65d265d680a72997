//! Permutations: maps whose input and output run along different dimensions. A tile goes through shared memory, so that both sides
//! move whole pieces of memory: it is read in the order of the input and written in that of the output. Where both run along a long
//! dimension, see `transpose/square.rs`, and `transpose/wide.rs` for rows that are whole packs; where not, `transpose/boxes.rs`.

mod boxes;
mod dims;
mod square;
mod tile;
mod wide;

use gpukc_dsl::program::{Kernel, Statement};

use self::dims::Permutation;
use self::tile::Form;
use super::context::Lowering;
use super::group::Group;
use crate::error::Error;
use crate::facts::Facts;

fn form(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<(Permutation, Form)> {
    let mut permutation = Permutation::of(kernel, facts, statement)?;
    let form = permutation.settle(facts, kernel.arrays[statement.array].element.size())?;
    Some((permutation, form))
}

/// Whether this schedule takes the statement.
pub fn applies(kernel: &Kernel, facts: &Facts, statement: &Statement) -> bool {
    form(kernel, facts, statement).is_some()
}

/// Lowers a permutation.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    for &number in &group.statements {
        let statement = lowering.kernel.statements[number].clone();
        if matches!(lowering.places.of(statement.array), super::place::Place::Inline(_)) {
            continue;
        }
        let Some((permutation, form)) = form(lowering.kernel, lowering.facts, &statement) else {
            return Err(Error::Bug("a transpose that is none".into()));
        };
        lowering.begin_launch(&[statement.array]);
        match form {
            Form::Square { across } => square::lower(lowering, &statement, &permutation, across)?,
            Form::Tile { whole, parts } => boxes::lower(lowering, &statement, &permutation, (&whole, &parts))?,
        }
    }
    Ok(())
}

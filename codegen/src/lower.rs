//! A typed kernel to a plan: which arrays exist in memory, which schedule computes each statement, and the launches.
//!
//! 1. `group` cuts the statements into groups; a group of dependent row statements becomes one launch.
//! 2. `place` decides of each `let` whether it is computed where it is read, held on chip, or stored in scratch memory.
//! 3. Each group is lowered by its schedule, a file each: `map`, `transpose`, `rows`, `split`, `columns`, `ragged`, `contract`, and
//!    `serial` reductions inside any of them for what no schedule takes.
//! 4. Of each launch, `unused` takes out the locals that it names for nothing.

mod accumulate;
mod ahead;
mod broadcast;
mod by_rows;
mod columns;
mod context;
mod contract;
mod expr;
mod function;
mod gather;
mod group;
mod hints;
mod inline;
mod lanes;
mod levels;
mod map;
mod narrow;
mod packs;
mod place;
mod ragged;
mod read;
mod reduction;
mod rows;
mod runs;
mod scan;
mod split;
mod stencil;
mod through;
mod tiled;
mod transpose;
mod unused;
mod wide;

use gpukc_dsl::program::{Kernel, Program, StatementKind};
use gpukc_dsl::source::Span;

use crate::emit::DeviceFunction;
use crate::error::Error;
use crate::facts::Facts;
use crate::plan::Plan;
use crate::target::Target;

pub use group::{Group, Schedule, from_zero, is_plain};
pub use read::offset_of;

/// The plan of one kernel and the device functions that it calls.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The plan.
    pub plan: Plan,
    /// Functions of the program and of the mathematical library, callees first.
    pub functions: Vec<DeviceFunction>,
    /// By launch: the statements that it computes.
    pub spans: Vec<Span>,
}

/// Lowers a kernel whose [passes](crate::passes) have run. Its launches take none of the names in `taken`; functions have the
/// same names in all kernels of a program.
pub fn lower(program: &Program, kernel: &Kernel, target: Target, facts: &Facts, taken: &[String]) -> Result<Lowered, Error> {
    let groups = group::group(kernel, facts, target);
    let shared = group::share_variables(kernel, facts, &groups);
    let kernel = shared.as_ref().unwrap_or(kernel);
    let places = place::place(kernel, facts, &groups);
    let mut lowering = context::Lowering::new(program, kernel, target, facts, places, taken)?;
    let mut spans = Vec::new();
    for group in &groups {
        match group.schedule {
            Schedule::Map => map::lower(&mut lowering, group)?,
            Schedule::Transpose => transpose::lower(&mut lowering, group)?,
            Schedule::Rows => rows::lower(&mut lowering, group)?,
            Schedule::Split => split::lower(&mut lowering, group)?,
            Schedule::Columns => columns::lower(&mut lowering, group)?,
            Schedule::Contract => contract::lower(&mut lowering, group)?,
            Schedule::Ragged => ragged::lower(&mut lowering, group)?,
            Schedule::Scan => scan::lower(&mut lowering, group)?,
            Schedule::Accumulate => accumulate::lower(&mut lowering, group)?,
        }
        let statements = group.statements.iter().map(|&number| kernel.statements[number].span);
        if let Some(span) = statements.reduce(Span::to) {
            spans.resize(lowering.plan.launches.len(), span);
        }
    }
    lowering.refuse_hints_left()?;
    lowering.finish(spans)
}

/// Whether a statement accumulates.
fn accumulates(kind: StatementKind) -> bool {
    matches!(kind, StatementKind::Accumulate { .. })
}

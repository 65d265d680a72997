//! The reductions of a sweep: what each of them is, and what becomes of its values.

use gpukc_dsl::program::{ExprId, Ranged, Statement};

use super::Partials;
use crate::error::Error;
use crate::lower::context::Lowering;
use crate::lower::group::{Group, only_reduction};
use crate::lower::map::store_element;
use crate::lower::reduction::Reduction;
use crate::plan::{Expr, Node, int};
use crate::walk;

/// A statement that a reduction makes up.
pub struct Member {
    pub statement: Statement,
    /// The reduction in its value.
    pub id: ExprId,
    pub reduction: Reduction,
    /// What its values are called.
    pub stem: String,
}

impl Member {
    /// The variables of one of its terms: the result's, then those that are reduced.
    pub fn element(&self) -> Vec<Ranged> {
        self.statement.variables.iter().chain(&self.reduction.reduce.variables).copied().collect()
    }
}

/// The reductions of a group.
pub fn members(lowering: &Lowering, group: &Group) -> Result<Vec<Member>, Error> {
    let several = group.statements.len() > 1;
    let member = |&number: &usize| {
        let statement = lowering.kernel.statements[number].clone();
        let Some((id, _)) = only_reduction(lowering.kernel, &statement) else {
            return Err(Error::Bug("a statement of a sweep without a reduction".into()));
        };
        let reduction = lowering.reduction(id)?;
        let reducer = reduction.reduce.reducer.name();
        let array = lowering.kernel.arrays[statement.array].name.replace('.', "_");
        let stem = if several { format!("{array}_{reducer}") } else { reducer.to_owned() };
        Ok(Member { statement, id, reduction, stem })
    };
    group.statements.iter().map(member).collect()
}

/// Binds a statement's variables to the result of that number.
pub fn bind_results(lowering: &mut Lowering, variables: &[Ranged], result: &Expr) -> Result<(), Error> {
    match variables {
        [] => Ok(()),
        [range] => {
            lowering.variables.insert(range.variable, result.clone());
            Ok(())
        }
        _ => lowering.decode(variables, result.clone()),
    }
}

/// The same for all reductions of a sweep, whose results are numbered alike.
pub fn bind_all(lowering: &mut Lowering, members: &[Member], result: &Expr) -> Result<(), Error> {
    let Some((first, others)) = members.split_first() else { return Ok(()) };
    bind_results(lowering, &first.statement.variables, result)?;
    others.iter().for_each(|other| alike(lowering, &first.statement.variables, &other.statement.variables));
    Ok(())
}

/// Binds variables to what their counterparts are bound to.
pub fn alike(lowering: &mut Lowering, bound: &[Ranged], others: &[Ranged]) {
    for (bound, other) in bound.iter().zip(others) {
        if let Some(value) = lowering.variables.get(&bound.variable).cloned() {
            lowering.variables.insert(other.variable, value);
        }
    }
}

/// Stores a level's values: block results, or the final values with their epilogues where there is one block; `result` is what the
/// variables of the left sides are bound to for that, unless they are already.
pub fn finish_level(
    lowering: &mut Lowering,
    members: &[Member],
    totals: Vec<Expr>,
    targets: Option<&[Partials]>,
    result: Option<&Expr>,
    blocks: Expr,
    at: Expr,
) -> Result<(), Error> {
    let (last, ()) = lowering.block(|lowering| {
        if let Some(result) = result {
            bind_all(lowering, members, result)?;
        }
        for (number, (member, total)) in members.iter().zip(&totals).enumerate() {
            let Member { statement, .. } = member;
            lowering.computed.insert(member.id, member.reduction.finish(total.clone()));
            let pointer = lowering.pointer(statement.array);
            if members[number + 1..].iter().any(|later| walk::reads_array(lowering.kernel, &later.statement, statement.array)) {
                // Those after it that need it read it here, at the element that they have themselves.
                let array = &lowering.kernel.arrays[statement.array];
                let (wish, element) = (array.name.replace('.', "_"), array.element);
                let value = lowering.value(statement.value)?;
                let value = lowering.local(&format!("{wish}_here"), element, value);
                lowering.computed.insert(statement.value, value.clone());
                lowering.chip.insert(statement.array, value);
            }
            store_element(lowering, statement, pointer)?;
        }
        lowering.chip.clear();
        Ok(())
    })?;
    let Some(targets) = targets else {
        last.into_iter().for_each(|node| lowering.push(node));
        return Ok(());
    };
    let (more, ()) = lowering.block(|lowering| {
        for (target, total) in targets.iter().zip(totals) {
            target.write(lowering, at.clone(), total);
        }
        Ok(())
    })?;
    lowering.push(Node::If { condition: blocks.binary("==", int(1)), then: last, otherwise: more });
    Ok(())
}

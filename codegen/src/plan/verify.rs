//! The invariants of plans, one function each.

mod names;
mod uniform;

use std::collections::HashSet;

use crate::emit::scope::root;
use crate::error::Error;
use crate::kernel::Argument;
use crate::plan::{Expr, Launch, Memory, Node, OVERLAPPING, ParameterType, Plan, Unroll, shared, walk_nodes};

/// Checks every invariant; the first that is broken is a bug of ours.
pub fn verify(plan: &Plan) -> Result<(), Error> {
    entries_are_unique(plan)?;
    references_exist(plan)?;
    for launch in &plan.launches {
        let checks = [
            blocks_are_legal,
            clusters_are_legal,
            overlapping_launches_wait,
            names_are_declared,
            assignments_are_allowed,
            barriers_are_uniform,
            shared_memory_fits,
            full_unrolling_is_possible,
        ];
        for check in checks {
            check(launch).map_err(|problem| Error::Bug(format!("{}: {problem}", launch.entry)))?;
        }
    }
    Ok(())
}

type Check = Result<(), String>;

/// 1. Entries have names of their own.
fn entries_are_unique(plan: &Plan) -> Result<(), Error> {
    let mut seen = HashSet::new();
    match plan.launches.iter().find(|launch| !seen.insert(&launch.entry)) {
        Some(launch) => Err(Error::Bug(format!("two launches are called {}", launch.entry))),
        None => Ok(()),
    }
}

/// 2. Scratch memories and checked places that are referred to exist; what blocks publish starts as zeros.
fn references_exist(plan: &Plan) -> Result<(), Error> {
    for launch in &plan.launches {
        for parameter in &launch.parameters {
            if matches!(parameter.argument, Argument::Scratch(index) if index >= plan.scratch.len()) {
                return Err(Error::Bug(format!("{}: no scratch memory for {}", launch.entry, parameter.name)));
            }
            let zeroed = matches!(parameter.argument, Argument::Scratch(index) if plan.scratch[index].zeroed);
            if parameter.ty == ParameterType::Published && !zeroed {
                return Err(Error::Bug(format!("{}: {} is not zero before the launch", launch.entry, parameter.name)));
            }
        }
        let mut bad = None;
        walk_nodes(&launch.body, &mut |expr| {
            if let Expr::Call(function, arguments) = expr {
                let place = match function.as_str() {
                    "index_ok" => 2,
                    "range_ok" => 3,
                    _ => return,
                };
                if let Some(Expr::Int(site, _)) = arguments.get(place) {
                    bad = bad.or((*site < 0 || *site >= plan.sites.len() as i128).then_some(*site));
                }
            }
        });
        if let Some(site) = bad {
            return Err(Error::Bug(format!("{}: no place has the number {site}", launch.entry)));
        }
    }
    Ok(())
}

/// 3. A block has 1 to 1024 threads, within the limits of each direction.
fn blocks_are_legal(launch: &Launch) -> Check {
    let threads: u64 = launch.block.iter().map(|extent| u64::from(*extent)).product();
    let within = launch.block.iter().zip([1024, 1024, 64]).all(|(extent, limit)| (1..=limit).contains(extent));
    if !within || threads > 1024 {
        return Err(format!("a block of {:?} threads", launch.block));
    }
    if launch.striding && launch.cluster > 1 {
        return Err("clusters whose number is left open".into());
    }
    match launch.resident {
        Some(blocks) if blocks == 0 || u64::from(blocks) * threads > 2048 => Err(format!("{blocks} resident blocks")),
        _ => Ok(()),
    }
}

/// 4. Every name is declared before use, and once per scope.
fn names_are_declared(launch: &Launch) -> Check {
    names::check(launch)
}

/// 5. What is assigned to is a variable, an array's element or an output's.
fn assignments_are_allowed(launch: &Launch) -> Check {
    let mut writable: HashSet<&str> = HashSet::new();
    for parameter in &launch.parameters {
        if matches!(parameter.ty, ParameterType::Output(_)) {
            writable.insert(&parameter.name);
        }
    }
    let mut problem = None;
    walk_statements(&launch.body, &mut |node| match node {
        Node::Declare { name, mutable: true, .. } | Node::Array { name, .. } => drop(writable.insert(name)),
        Node::Assign(place, _) if !root(place).is_some_and(|name| writable.contains(name)) => {
            problem.get_or_insert(format!("{} is assigned to", root(place).unwrap_or("what is no place")));
        }
        _ => {}
    });
    problem.map_or(Ok(()), Err)
}

/// 6. All threads of a block reach the same barriers: none stands in a reduction, none where the thread decides whether or how
///    often it is reached, and none after a return that only some threads take.
fn barriers_are_uniform(launch: &Launch) -> Check {
    uniform::check(launch)
}

/// A launch that may begin early waits before anything else; one that may not doesn't.
fn overlapping_launches_wait(launch: &Launch) -> Check {
    let waits = |node: &Node, wanted| matches!(node, Node::Call(function, _) if function == wanted);
    let begins = OVERLAPPING.iter().enumerate().all(|(at, wanted)| launch.body.get(at).is_some_and(|node| waits(node, wanted)));
    if begins == launch.overlapping { Ok(()) } else { Err("whether it overlaps the launch before it is left open".into()) }
}

/// Clusters have a size that every device with clusters takes, and divide the grid.
fn clusters_are_legal(launch: &Launch) -> Check {
    match launch.cluster {
        1 | 2 | 4 | 8 => Ok(()),
        blocks => Err(format!("a cluster of {blocks} blocks")),
    }
}

/// 7. Shared memory fits: static arrays the static memory; dynamic ones lie in what the launch asks for, none on another.
fn shared_memory_fits(launch: &Launch) -> Check {
    let mut fixed = 0_usize;
    let mut end = 0_usize;
    let mut overlap = false;
    walk_statements(&launch.body, &mut |node| match node {
        Node::Array { ty, extents, memory: Memory::Shared, .. } => fixed = fixed.saturating_add(shared::bytes(ty, extents)),
        Node::Array { ty, extents, memory: Memory::Dynamic(at), .. } => {
            overlap |= (*at as usize) < end || at % 16 != 0;
            end = (*at as usize).saturating_add(shared::bytes(ty, extents));
        }
        _ => {}
    });
    if fixed > shared::STATIC_BYTES {
        return Err(format!("{fixed} bytes of static shared memory"));
    }
    if overlap || end > launch.dynamic_shared as usize {
        return Err(format!("arrays in dynamic shared memory end at {end} of {}, or lie on each other", launch.dynamic_shared));
    }
    Ok(())
}

/// 8. A loop that is unrolled completely has a constant trip count, and no loop stands still.
fn full_unrolling_is_possible(launch: &Launch) -> Check {
    let mut problem = None;
    walk_statements(&launch.body, &mut |node| {
        if let Node::For { variable, lo, hi, step, unroll, .. } = node {
            let constant = [lo, hi, step].iter().all(|bound| bound.constant().is_some());
            if *unroll == Unroll::Full && !constant {
                problem.get_or_insert(format!("the loop over {variable} can't be unrolled completely"));
            }
            if step.constant().is_some_and(|step| step <= 0) || *unroll == Unroll::By(0) {
                problem.get_or_insert(format!("the loop over {variable} has no legal step"));
            }
        }
    });
    problem.map_or(Ok(()), Err)
}

/// Visits every statement, outer ones first.
fn walk_statements<'a>(nodes: &'a [Node], visit: &mut impl FnMut(&'a Node)) {
    for node in nodes {
        visit(node);
        match node {
            Node::For { body, .. } | Node::While(_, body) | Node::Scope(body) | Node::Reduce { body, .. } => {
                walk_statements(body, visit);
            }
            Node::If { then, otherwise, .. } => {
                walk_statements(then, visit);
                walk_statements(otherwise, visit);
            }
            _ => {}
        }
    }
}

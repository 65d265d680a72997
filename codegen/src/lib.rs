//! Typed gk programs to CUDA C++ text. No files, no driver.
//!
//! `Program` → *passes* → `Program` → *lower* → [`plan::Plan`] → *emit* → [`kernel::Kernel`] (CUDA text and its contract).
//! Decisions are made in `lower`, by facts and by the program alone; `emit` only spells them.

pub mod emit;
pub mod error;
pub mod facts;
pub mod formula;
pub mod kernel;
pub mod lower;
pub mod passes;
pub mod plan;
pub mod size;
pub mod target;
pub mod walk;

use std::sync::Arc;

use gpukc_dsl::program::{ArrayId, Kernel as Typed, Program};
use gpukc_dsl::source::Source;

use error::Error;
use facts::Facts;
use kernel::{Argument, Kernel, Launch};
use lower::Lowered;
use target::Target;

/// The plan of one kernel, verified.
pub fn plan(program: &Program, kernel: &Typed, target: Target, facts: &Facts) -> Result<Lowered, Error> {
    plan_beside(program, kernel, target, facts, &[])
}

fn plan_beside(program: &Program, kernel: &Typed, target: Target, facts: &Facts, taken: &[String]) -> Result<Lowered, Error> {
    let mut rewritten = kernel.clone();
    passes::run(&mut rewritten, facts, |_, _| {});
    let lowered = lower::lower(program, &rewritten, target, facts, taken)?;
    plan::verify::verify(&lowered.plan)?;
    Ok(lowered)
}

/// CUDA text for one kernel and its contract. The text depends on the program, the target's family and the facts alone.
pub fn compile(program: &Program, kernel: &Typed, target: Target, facts: &Facts) -> Result<Kernel, Error> {
    Ok(emitted(kernel, plan(program, kernel, target, facts)?))
}

/// The same for a call whose result takes the memory of a parameter, which [`in_place`](gpukc_dsl::program::in_place) allows. A
/// launch that has both takes one pointer for them: two would be promised to be of different memory (`__restrict__`).
pub fn compile_in_place(
    program: &Program,
    kernel: &Typed,
    target: Target,
    facts: &Facts,
    parameter: ArrayId,
    result: ArrayId,
) -> Result<Kernel, Error> {
    let mut lowered = plan(program, kernel, target, facts)?;
    for launch in &mut lowered.plan.launches {
        let place = |id| launch.parameters.iter().position(|p| p.argument == Argument::Array(id));
        if let (Some(input), Some(output)) = (place(parameter), place(result)) {
            let (from, to) = (launch.parameters[input].name.clone(), launch.parameters[output].name.clone());
            launch.notes.push(format!("In place: `{to}` holds `{from}` at first."));
            plan::rename::rename(&mut launch.body, &from, &to);
            launch.parameters.remove(input);
        }
    }
    plan::verify::verify(&lowered.plan)?;
    Ok(emitted(kernel, lowered))
}

fn emitted(kernel: &Typed, lowered: Lowered) -> Kernel {
    let source = emit::emit(&lowered.plan, &lowered.functions);
    contract(kernel, lowered, source.into())
}

/// One CUDA text for several kernels of a program, each with what is known of its calls, and the contract of each, whose text
/// it is. With `lines`, the program's text, each line of a launch says which line of the program it stands for.
pub fn compile_file(
    program: &Program,
    kernels: &[(&Typed, Facts)],
    target: Target,
    lines: Option<&Source>,
) -> Result<Vec<Kernel>, Error> {
    let mut members: Vec<Lowered> = Vec::new();
    let mut taken = Vec::new();
    for (kernel, facts) in kernels {
        let lowered = plan_beside(program, kernel, target, facts, &taken)?;
        taken.extend(lowered.plan.launches.iter().map(|launch| launch.entry.clone()));
        members.push(lowered);
    }
    let source: Arc<str> = emit::emit_file(&members, lines)?.into();
    Ok(kernels.iter().zip(members).map(|((kernel, _), lowered)| contract(kernel, lowered, source.clone())).collect())
}

fn contract(kernel: &Typed, lowered: Lowered, source: Arc<str>) -> Kernel {
    let launches = lowered.plan.launches.iter().zip(&lowered.spans).map(|(launch, &span)| Launch {
        entry: launch.entry.clone(),
        grid: launch.grid.clone(),
        striding: launch.striding,
        block: launch.block,
        cluster: launch.cluster,
        shared_bytes: launch.dynamic_shared,
        overlapping: launch.overlapping,
        arguments: launch.parameters.iter().map(|p| p.argument.clone()).collect(),
        span,
    });
    Kernel {
        name: kernel.name.clone(),
        source,
        launches: launches.collect(),
        scratch: lowered.plan.scratch,
        sites: lowered.plan.sites,
    }
}

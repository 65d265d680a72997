//! A program on trial: checked, called, evaluated in several ways, and compiled to the texts that a device is to run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpukc_codegen::error::Error;
use gpukc_codegen::target::Target;
use gpukc_dsl::diagnostic::Severity;
use gpukc_dsl::program::{Kernel, Program};
use gpukc_dsl::source::Source;
use gpukc_verify::compare::{self, Evaluated};
use gpukc_verify::draw::{self, Call, Wish};
use gpukc_verify::rng::Rng;
use gpukc_verify::{Text, texts};

use crate::tree;

/// Why nothing, or nothing good, comes of a program.
#[derive(Clone, Debug)]
pub enum Ended {
    /// The checker refuses it: codes and messages.
    Rejected(Vec<String>),
    /// No call was found.
    Uncalled,
    /// Something of ours is wrong, in this call if it comes to that.
    Fault(String, Option<Box<(Program, Call)>>),
}

/// A checked program with calls and the evaluator's results.
pub struct Trial {
    /// Checked.
    pub program: Program,
    /// Calls, and what they give.
    pub calls: Vec<(Call, Evaluated)>,
}

impl Trial {
    /// The kernel on trial.
    pub fn kernel(&self) -> Option<&Kernel> {
        self.program.kernels.last()
    }

    /// The texts of the plan space for a call; equal ones once. And the last known limit that refused one.
    pub fn texts(&self, call: &Call, targets: &[Target]) -> Result<(Vec<Text>, Option<Error>), String> {
        let Some(kernel) = self.kernel() else { return Ok((Vec::new(), None)) };
        texts(&self.program, kernel, call, targets, false)
    }
}

/// Checks a program.
pub fn check(tree: &tree::Program) -> Result<Program, Ended> {
    let source = Source::new("random.gk", tree.to_string());
    let checked = catch_unwind(AssertUnwindSafe(|| gpukc_dsl::check(&source)));
    let Ok(checked) = checked else { return Err(Ended::Fault("the checker panics".into(), None)) };
    checked.program.ok_or_else(|| {
        let errors = checked.problems.iter().filter(|p| p.severity == Severity::Error);
        Ended::Rejected(errors.map(|p| format!("{}: {}", p.code, p.message)).collect())
    })
}

/// Compares the evaluator with itself in a call.
pub fn evaluate(program: &Program, call: &Call) -> Result<Evaluated, String> {
    let Some(kernel) = program.kernels.last() else { return Err("no kernel".into()) };
    let evaluated = catch_unwind(AssertUnwindSafe(|| compare::against_itself(program, kernel, call)));
    let result = evaluated.unwrap_or_else(|_| Err("the evaluator panics".into()));
    result.map_err(|error| format!("{error} [{}]", call.text(kernel)))
}

/// Checks a program, draws calls of it, and compares the evaluator with itself.
pub fn trial(tree: &tree::Program, seed: u64, wishes: &[Wish]) -> Result<Trial, Ended> {
    let program = check(tree)?;
    let mut calls = Vec::new();
    let mut rng = Rng::new(seed ^ 0xca11);
    for wish in wishes {
        let Some(kernel) = program.kernels.last() else { return Err(Ended::Uncalled) };
        let Some(call) = draw::draw(&program, kernel, &mut rng, *wish) else { continue };
        match evaluate(&program, &call) {
            Err(what) => return Err(Ended::Fault(what, Some(Box::new((program, call))))),
            Ok(results) => calls.push((call, results)),
        }
    }
    if calls.is_empty() { Err(Ended::Uncalled) } else { Ok(Trial { program, calls }) }
}

//! A kernel on trial: calls, what the evaluator gives for them in every way, and what every text gives on a device.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use gpukc_codegen::error::Error as CodegenError;
use gpukc_cpu::RunError;
use gpukc_dsl::program::{ArrayId, Kernel, Program};

use crate::compare::{self, Evaluated};
use crate::device::{Device, Job, Problem, Results};
use crate::draw::{self, Call, EXTENTS, Wish};
use crate::licence;
use crate::rng::Rng;
use crate::text::{Text, texts};

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How many calls.
    pub calls: usize,
    /// What calls and data follow from.
    pub seed: u64,
    /// When to stop, if a call has been made by then; else after the first.
    pub until: Option<Instant>,
}

/// What was compared, all of it equal.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Calls.
    pub calls: usize,
    /// Calls of which an index is reported.
    pub reports: usize,
    /// Distinct texts.
    pub texts: usize,
    /// Runs of texts on the device.
    pub runs: usize,
    /// Why some text is not there, if so: a known limit.
    pub limit: Option<String>,
    /// Whether some result may differ by licence and was compared with a tolerance.
    pub licensed: bool,
    /// Whether the time was over before all calls were made.
    pub cut: bool,
}

/// Something of ours is wrong.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What differs, for people.
    pub message: String,
    /// The call.
    pub call: Call,
    /// The text, if the evaluator itself is not to blame.
    pub text: Option<Text>,
}

/// Why a kernel is not verified.
#[derive(Clone, Debug)]
pub enum Stopped {
    /// Results differ.
    Difference(Box<Difference>),
    /// No call was found that the conditions allow.
    Uncalled,
    /// The machine lacks something.
    Machine(String),
}

/// Calls whose texts are compiled and run together.
const BATCH: usize = 6;

/// Compares the evaluator with itself and with every text of the plan space on a device, if there is one. `progress` is told how
/// many calls are done.
pub fn verify(
    program: &Program,
    kernel: &Kernel,
    device: Option<&dyn Device>,
    effort: &Effort,
    progress: &mut dyn FnMut(usize),
) -> Result<Verified, Stopped> {
    let mut trial =
        Trial { program, kernel, device, licensed: licence::licensed(kernel), sources: BTreeSet::new(), found: Verified::default() };
    trial.found.licensed = kernel.results.iter().any(|id| trial.licensed.contains(id));
    let mut rng = Rng::new(effort.seed);
    let mut number = 0;
    let over = || effort.until.is_some_and(|until| Instant::now() >= until);
    while number < effort.calls && !trial.found.cut {
        let mut batch = Vec::new();
        let end = (number + BATCH).min(effort.calls);
        while number < end && !trial.found.cut {
            batch.extend(trial.call(number, &mut rng)?);
            number += 1;
            trial.found.cut = number < effort.calls && trial.found.calls > 0 && over();
        }
        trial.compare(&batch)?;
        progress(number);
    }
    if trial.found.calls == 0 { Err(Stopped::Uncalled) } else { Ok(trial.found) }
}

struct Trial<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    device: Option<&'a dyn Device>,
    licensed: BTreeSet<ArrayId>,
    sources: BTreeSet<Arc<str>>,
    found: Verified,
}

/// A call, what it gives, and its texts.
struct Prepared {
    call: Call,
    expected: Evaluated,
    texts: Vec<Text>,
}

impl Trial<'_> {
    fn wish(&self, number: usize) -> Wish {
        // 17 has no factor in common with the number of extents: neighbouring calls have unlike extents, and all come by.
        let extent = EXTENTS[number * 17 % EXTENTS.len()];
        let [usual, large] = self.device.map_or([200_000, 4_000_000], Device::work);
        let work = if extent >= 8192 { large } else { usual };
        Wish { work, wild: number % 3 != 1 && !licence::is_fast(self.kernel), extent: Some(extent) }
    }

    /// Draws a call, evaluates it in every way, and makes its texts. None if the kernel refuses it or memory is short.
    fn call(&mut self, number: usize, rng: &mut Rng) -> Result<Option<Prepared>, Stopped> {
        let Some(call) = draw::draw(self.program, self.kernel, rng, self.wish(number)) else { return Ok(None) };
        let expected = match compare::against_itself(self.program, self.kernel, &call) {
            Err(message) => return Err(self.differs(message, &call, None)),
            Ok(Err(RunError::Memory { .. })) => return Ok(None),
            Ok(Err(error @ (RunError::Argument { .. } | RunError::Unsupported { .. }))) => {
                return Err(self.differs(format!("the evaluator: {error}"), &call, None));
            }
            Ok(expected) => expected,
        };
        self.found.calls += 1;
        self.found.reports += usize::from(expected.is_err());
        let Some(device) = self.device else { return Ok(Some(Prepared { call, expected, texts: Vec::new() })) };
        // A text for one shape is of no use to the next call; some calls have one.
        let made = texts(self.program, self.kernel, &call, device.targets(), number.is_multiple_of(4));
        let made = made.map_err(|message| self.differs(message, &call, None))?;
        if let Some(CodegenError::Limit { message, .. }) = made.1 {
            self.found.limit = Some(message);
        }
        Ok(Some(Prepared { call, expected, texts: made.0 }))
    }

    /// Runs the texts of some calls.
    fn compare(&mut self, batch: &[Prepared]) -> Result<(), Stopped> {
        let (Some(device), kernel) = (self.device, self.kernel) else { return Ok(()) };
        let all = batch.iter().flat_map(|prepared| prepared.texts.iter().map(move |text| (prepared, text)));
        let all = all.map(|(prepared, text)| (prepared, Job { text, kernel, call: &prepared.call }));
        let all: Vec<(&Prepared, Job)> = all.filter(|(_, job)| device.bears(job)).collect();
        let jobs: Vec<Job> = all.iter().map(|(_, job)| *job).collect();
        for ((prepared, job), found) in all.iter().zip(device.run(&jobs)) {
            self.found.runs += 1;
            self.sources.insert(job.text.cuda.source.clone());
            if let Err(Problem::Machine(what)) = found {
                return Err(Stopped::Machine(what));
            }
            if let Err(message) = agrees(kernel, &self.licensed, &prepared.expected, found) {
                return Err(self.differs(format!("the {} text: {message}", job.text.what), &prepared.call, Some(job.text)));
            }
        }
        self.found.texts = self.sources.len();
        Ok(())
    }

    fn differs(&self, message: String, call: &Call, text: Option<&Text>) -> Stopped {
        Stopped::Difference(Box::new(Difference { message, call: call.clone(), text: text.cloned() }))
    }
}

/// Equal results, or equal reports: of several indices that are out of range any may be reported.
pub fn agrees(kernel: &Kernel, licensed: &BTreeSet<ArrayId>, expected: &Evaluated, found: Results) -> Result<(), String> {
    match (expected, found) {
        (Ok(expected), Ok(found)) => {
            let found: Vec<&[u8]> = found.iter().map(Vec::as_slice).collect();
            compare::same_results(kernel, expected, &found, licensed)
        }
        (Err(RunError::OutOfRange { kernel: name, .. }), Err(Problem::Index { kernel: reported, index, extent, site })) => {
            if *name == reported && !(0..extent).contains(&index) {
                return Ok(());
            }
            Err(format!("reports index {index} for axis {} of {reported}'s {}, extent {extent}", site.axis, site.array))
        }
        (Ok(_), Err(Problem::Index { index, extent, site, .. })) => Err(format!(
            "reports index {index} for axis {} of {}, extent {extent}; the evaluator gives results",
            site.axis, site.array
        )),
        (Err(expected), Ok(_)) => Err(format!("gives results; the evaluator: {expected}")),
        (_, Err(Problem::Wrong(what) | Problem::Machine(what))) => Err(what),
        (Err(expected), Err(Problem::Index { .. })) => Err(format!("reports an index; the evaluator: {expected}")),
    }
}

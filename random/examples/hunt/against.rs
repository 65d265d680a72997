//! Trials against a device: what differs, and which text of which call it is.

use gpukc_random::trial::Trial;
use gpukc_verify::device::{Device, Job};
use gpukc_verify::draw::Call;
use gpukc_verify::licence;
use gpukc_verify::verify::agrees;

/// What was compared.
#[derive(Default)]
pub struct Compared {
    pub texts: usize,
    pub runs: usize,
    /// Calls of which a text is refused as a known limit.
    pub limits: usize,
}

/// A trial that differs.
pub struct Difference {
    /// Which trial.
    pub at: usize,
    pub call: Call,
    /// Which text.
    pub text: String,
    pub what: String,
}

/// Compares trials with a device; of each that differs the first difference. `only` the text of that name, if there is one.
pub fn differences(trials: &[&Trial], device: &dyn Device, only: Option<&str>, compared: &mut Compared) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut found: Vec<Difference> = Vec::new();
    for (at, trial) in trials.iter().enumerate() {
        for (call, expected) in &trial.calls {
            match trial.texts(call, device.targets()) {
                Err(what) => found.push(Difference { at, call: call.clone(), text: String::new(), what }),
                Ok((texts, limit)) => {
                    compared.limits += usize::from(limit.is_some());
                    compared.texts += texts.len();
                    let wanted = texts.iter().any(|text| Some(text.what.as_str()) == only);
                    let texts = texts.into_iter().filter(|text| !wanted || Some(text.what.as_str()) == only);
                    all.extend(texts.filter_map(|text| Some((at, trial.kernel()?, call, expected, text))));
                }
            }
        }
    }
    let jobs: Vec<Job> = all.iter().map(|(_, kernel, call, _, text)| Job { text, kernel, call }).collect();
    compared.runs += jobs.len();
    let results = device.run(&jobs);
    for ((at, kernel, call, expected, text), result) in all.iter().zip(results) {
        let outcome = agrees(kernel, &licence::licensed(kernel), expected, result);
        if let Err(error) = outcome {
            if !found.iter().any(|difference| difference.at == *at) {
                let what = format!("the {} text: {error} [{}]", text.what, call.text(kernel));
                found.push(Difference { at: *at, call: (*call).clone(), text: text.what.clone(), what });
            }
        }
    }
    found
}

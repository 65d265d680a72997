//! The texts of the plan space for a call: what every fact that lowering may ask about can make of a kernel.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gpukc_codegen::error::Error;
use gpukc_codegen::facts::Facts;
use gpukc_codegen::kernel::Kernel as Cuda;
use gpukc_codegen::target::Target;
use gpukc_dsl::program::{Kernel, Program};

use crate::draw::Call;

/// A text for a device.
#[derive(Clone, Debug)]
pub struct Text {
    /// Which: `general`, `call's`, `general sm_90a`…
    pub what: String,
    /// What its making knew.
    pub facts: Facts,
    /// CUDA and contract.
    pub cuda: Cuda,
}

/// The texts of the plan space for a call, made for each target; equal ones once, the alignment that they take aside. With
/// `literal` also the text that serves this shape only. And the last known limit that refused one.
pub fn texts(
    program: &Program,
    kernel: &Kernel,
    call: &Call,
    targets: &[Target],
    literal: bool,
) -> Result<(Vec<Text>, Option<Error>), String> {
    let known = Facts::of_call(kernel, &call.bindings);
    let mut variants = vec![
        ("general", Facts::default()),
        ("call's", known.clone()),
        ("call's 64-bit", Facts { narrow: false, ..known.clone() }),
        ("call's unaligned", Facts { aligned: false, ..known.clone() }),
        ("general aligned", Facts { aligned: true, narrow: known.narrow, ..Facts::default() }),
    ];
    if literal {
        variants.push(("shape's", Facts { literal: known.dims.clone(), ..known.clone() }));
    }
    let mut texts: Vec<Text> = Vec::new();
    let mut limit = None;
    let all = targets.iter().flat_map(|target| variants.iter().map(move |variant| (*target, variant.clone())));
    for (target, (what, facts)) in all {
        let what = if Some(&target) == targets.first() { what.to_owned() } else { format!("{what} {target}") };
        let made = catch_unwind(AssertUnwindSafe(|| gpukc_codegen::compile(program, kernel, target, &facts)));
        match made {
            Err(_) => return Err(format!("codegen panics on the {what} text")),
            Ok(Err(error @ Error::Limit { .. })) => limit = Some(error),
            Ok(Err(error)) => return Err(format!("the {what} text: {error}")),
            Ok(Ok(cuda)) => {
                let same = |text: &Text| {
                    text.cuda.source == cuda.source && format!("{:?}", text.cuda.launches) == format!("{:?}", cuda.launches)
                };
                match texts.iter_mut().find(|text| same(text)) {
                    // One text serves both; the harder use of it is tried.
                    Some(text) => text.facts.aligned &= facts.aligned,
                    None => texts.push(Text { what, facts, cuda }),
                }
            }
        }
    }
    Ok((texts, limit))
}

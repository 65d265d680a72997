//! Every case of `tests/cases`, stage by stage, as one named test each: `cargo test --test stages -- matmul`.
//!
//! A trial `NAME.program`, `NAME.plan` or `NAME.cuda` compares the stage's text with `tests/snapshots/NAME.STAGE.snap`; the body
//! of a CUDA snapshot is exactly what NVRTC receives. A missing snapshot fails, a stale one too; nothing is written here:
//! `cargo xtask accept` does, and the diff is the review.

mod common;

use std::collections::BTreeSet;
use std::process::ExitCode;

use common::{Case, files, root};
use gpukc_codegen as codegen;
use gpukc_codegen::error::Error;
use libtest_mimic::{Arguments, Failed, Trial};

/// Stages with a snapshot.
const STAGES: [&str; 3] = ["program", "plan", "cuda"];

fn main() -> ExitCode {
    let cases = Case::all();
    let expected: BTreeSet<String> = cases.iter().flat_map(stages).map(|name| format!("{name}.snap")).collect();
    if std::env::var_os("GPUKC_LIST_STALE").is_some() {
        stale(&expected).iter().for_each(|file| println!("stale: {file}"));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for case in cases {
        let names = stages(&case);
        let case = std::sync::Arc::new(case);
        for name in names {
            let case = case.clone();
            trials.push(Trial::test(name.clone(), move || stage(&case, name.rsplit('.').next().unwrap_or_default())));
        }
        trials.push(Trial::test(format!("{}.facts", case.name), move || facts(&case)));
    }
    trials.push(Trial::test("no stale snapshots", move || match stale(&expected).as_slice() {
        [] => Ok(()),
        files => Err(format!("these belong to no case (`cargo xtask accept` removes them): {}", files.join(", ")).into()),
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The names of a case's snapshots.
fn stages(case: &Case) -> Vec<String> {
    let limit = case.plan.contains_key("limit");
    STAGES.iter().filter(|stage| !limit || **stage != "cuda").map(|stage| format!("{}.{stage}", case.name)).collect()
}

/// Snapshots of stages that no case has.
fn stale(expected: &BTreeSet<String>) -> Vec<String> {
    let names = files("tests/snapshots", "snap").into_iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    // Those of single codes belong to diagnostics.rs.
    names.filter(|name| !name.starts_with("GK") && !expected.contains(name)).collect()
}

fn stage(case: &Case, stage: &str) -> Result<(), Failed> {
    let program = case.program();
    let kernel = case.kernel(&program);
    let text = match stage {
        "program" => gpukc_dsl::program::print::print(&program),
        "plan" => match codegen::plan(&program, kernel, case.target, &case.facts(kernel)) {
            Ok(lowered) => codegen::plan::print::print(&lowered.plan),
            Err(error @ Error::Limit { .. }) => format!("{error}\n"),
            Err(error) => return Err(error.to_string().into()),
        },
        _ => {
            codegen::compile(&program, kernel, case.target, &case.facts(kernel)).map_err(|error| error.to_string())?.source.to_string()
        }
    };
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(root().join("tests").join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_input_file(root().join("tests").join("cases").join(format!("{}.gk", case.name)));
    settings.bind(|| insta::assert_snapshot!(format!("{}.{stage}", case.name), text));
    Ok(())
}

/// What the case's header says of its plan.
fn facts(case: &Case) -> Result<(), Failed> {
    let program = case.program();
    let kernel = case.kernel(&program);
    // Every call that device.rs would make is one: it binds.
    for run in &case.runs {
        run.bind(kernel);
    }
    let planned = codegen::plan(&program, kernel, case.target, &case.facts(kernel));
    let planned = match planned {
        Err(Error::Limit { .. }) if case.plan.contains_key("limit") => return Ok(()),
        Ok(_) if case.plan.contains_key("limit") => return Err("the plan is no limit any more: give it snapshots".into()),
        other => other.map_err(|error| error.to_string())?,
    };
    let schedules: Vec<&str> = planned.plan.launches.iter().map(|launch| launch.schedule).collect();
    for (key, wanted) in &case.plan {
        let found = match key.as_str() {
            "schedules" => schedules.join(","),
            "launches" => schedules.len().to_string(),
            "scratch" => planned.plan.scratch.len().to_string(),
            "sites" => planned.plan.sites.len().to_string(),
            "block" => planned.plan.launches.iter().map(|l| l.block.iter().product::<u32>().to_string()).collect::<Vec<_>>().join(","),
            _ => return Err(format!("`{key}`: the facts are schedules, launches, block, scratch, sites and limit").into()),
        };
        if found != *wanted {
            return Err(format!("{key} is {found}, the header says {wanted}").into());
        }
    }
    Ok(())
}

//! `cargo xtask accept`: writes snapshots, removes stale ones, and shows what changed. The diff is the review.

use std::fs;

use crate::command::{Result, cargo, output, root, run};

/// Accepts the snapshots of all trials whose name contains `filter`; without a filter, or for `ui`, also what rustc says to users
/// of the macro, and the examples' texts.
pub fn accept(filter: &str) -> Result<()> {
    let mut tests = cargo(&["test", "--quiet", "--test", "stages", "--test", "diagnostics", "--"]);
    let _ = run(tests.arg(filter).env("INSTA_UPDATE", "always"));
    if filter.is_empty() || filter == "ui" {
        let _ = run(cargo(&["test", "--quiet", "--test", "ui", "--test", "examples"])
            .env("GPUKC_ACCEPT", "1")
            .env("INSTA_UPDATE", "always"));
    }
    // What the tests call stale belongs to no case any more.
    for name in ["stages", "diagnostics"] {
        let listed = output(cargo(&["test", "--quiet", "--test", name, "--"]).env("GPUKC_LIST_STALE", "1"))?;
        for file in listed.lines().filter_map(|line| line.strip_prefix("stale: ")) {
            let path = root().join("tests").join("snapshots").join(file);
            fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            eprintln!("removed tests/snapshots/{file}");
        }
    }
    // Refuses where texts have changed and the changelog does not say so; the rest is written all the same.
    let recorded = run(cargo(&["test", "--quiet", "--test", "changelog"]).env("GPUKC_ACCEPT", "1"));
    run(std::process::Command::new("git").args(["status", "--short", "--", "tests", "examples"]).current_dir(root()))?;
    recorded
}

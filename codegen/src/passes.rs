//! Rewritings of a typed kernel before it is planned, in the one order in which they run. Each keeps every bit.

use gpukc_dsl::program::Kernel;

use crate::facts::Facts;

mod center_windows;
mod extract;
mod hoist_reductions;
mod hoist_scans;
mod interleave;
mod split_planes;

/// A named rewriting.
pub struct Pass {
    /// A verb, as `--dump-after` takes it.
    pub name: &'static str,
    run: fn(&mut Kernel, &Facts),
}

/// The passes, in order.
pub const PASSES: &[Pass] = &[
    Pass { name: "interleave", run: interleave::run },
    Pass { name: "split_planes", run: split_planes::run },
    Pass { name: "center_windows", run: center_windows::run },
    Pass { name: "hoist_scans", run: hoist_scans::run },
    Pass { name: "hoist_reductions", run: hoist_reductions::run },
];

/// Runs every pass; `after` sees the kernel after each.
pub fn run(kernel: &mut Kernel, facts: &Facts, mut after: impl FnMut(&Pass, &Kernel)) {
    for pass in PASSES {
        (pass.run)(kernel, facts);
        after(pass, kernel);
    }
}

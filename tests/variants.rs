//! A loop over many shapes compiles few texts: what is known of a call chooses among schedules, and is coarse.

use std::collections::{BTreeMap, BTreeSet};

mod common;

use common::{Case, values};
use gpukc_codegen::facts::Facts;
use gpukc_codegen::target::Target;
use gpukc_dsl::program::{DimId, Kernel};

const HOPPER: Target = Target { capability: 90, specific: true };
/// Shapes that each kernel is called with.
const SHAPES: usize = 100;
/// Dims that differ from call to call; the rest, the heads of an attention say, are as large in all.
const VARYING: usize = 3;
const FIXED: i64 = 64;
/// Texts that they may get.
const MOST: usize = 30;

/// The extents of a call, of every order of magnitude: up to 2^24 where there is one, to 4,096 where there are two or more.
fn dims(kernel: &Kernel, call: usize) -> BTreeMap<DimId, i64> {
    let most = if kernel.dims.iter().count() == 1 { 24.0 } else { 12.0 };
    let extent = |nth: usize| {
        let random = values::mixed((call * 100 + nth) as u64) as f64 / u64::MAX as f64;
        2f64.powf(random * most) as i64
    };
    kernel.dims.iter().enumerate().map(|(nth, (id, _))| (id, if nth < VARYING { extent(nth) } else { FIXED })).collect()
}

#[test]
fn a_hundred_shapes_get_a_handful_of_texts() {
    let mut all = Vec::new();
    for case in Case::all().into_iter().filter(|case| !case.plan.contains_key("limit")) {
        let program = case.program();
        let kernel = case.kernel(&program);
        if kernel.dims.iter().count() == 0 {
            continue;
        }
        let texts: BTreeSet<String> = (0..SHAPES)
            .filter_map(|call| {
                let facts = Facts::of_sizes(kernel, dims(kernel, call), BTreeMap::new(), true);
                let text = gpukc_codegen::compile(&program, kernel, HOPPER, &facts);
                text.ok().map(|text| text.source.to_string())
            })
            .collect();
        all.push((texts.len(), case.name));
    }
    all.sort();
    all.iter().for_each(|(texts, name)| println!("{texts:4} {name}"));
    let (most, name) = all.last().expect("cases");
    assert!(*most <= MOST, "{name}: {most} texts for {SHAPES} shapes");
}

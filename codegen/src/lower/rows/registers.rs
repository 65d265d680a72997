//! How many registers a thread needs for what it holds of rows.

use gpukc_dsl::program::{ArrayId, Kernel, Statement};

use super::visit::Row;
use crate::walk;

/// While which statements a thread holds an array, by their places in the group.
struct Span {
    array: ArrayId,
    first: usize,
    last: usize,
    /// Whether it comes from memory, before the first statement: what a statement computes takes the place of what it reads last.
    loaded: bool,
}

/// Registers of 32 bits for what a thread holds, where they are most.
pub fn held(kernel: &Kernel, statements: &[Statement], row: &Row) -> i64 {
    let loaded = row.held.iter().map(|held| Span { array: held.array, first: held.first, last: held.last, loaded: true });
    let computed = row.on_chip.keys().filter_map(|array| {
        let first = statements.iter().position(|statement| statement.array == *array)?;
        let last = statements.iter().rposition(|statement| walk::reads_array(kernel, statement, *array)).unwrap_or(first);
        Some(Span { array: *array, first, last, loaded: false })
    });
    let spans: Vec<Span> = loaded.chain(computed).collect();
    let words = |live: &dyn Fn(&Span) -> bool| -> i64 {
        spans.iter().filter(|span| live(span)).map(|span| kernel.arrays[span.array].element.size().div_ceil(4) as i64).sum()
    };
    let most = (0..statements.len()).map(|at| {
        let before = words(&|span| (span.first < at || span.first == at && span.loaded) && span.last >= at);
        before.max(words(&|span| span.first <= at && span.last > at))
    });
    most.max().unwrap_or(0) * i64::from(row.layout.per_thread())
}

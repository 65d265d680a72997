//! How many registers a thread needs for what it holds of rows.

use gpukc_dsl::program::{ArrayId, Kernel, Statement};

use super::visit::Row;
use crate::walk;

/// While which statements a thread holds an array, by their places in the group.
struct Span {
    first: usize,
    last: usize,
    /// Whether it comes from memory, before the first statement: what a statement computes takes the place of what it reads last.
    loaded: bool,
    /// Registers for what a thread holds of it: packs share them, elements do not.
    words: i64,
}

/// Registers of 32 bits for what a thread holds, where they are most.
pub fn held(kernel: &Kernel, statements: &[Statement], row: &Row) -> i64 {
    let words = |array: ArrayId, packed: bool| {
        let (size, count) = (kernel.arrays[array].element.size() as u32, row.layout.per_thread());
        i64::from(if packed { (size * count).div_ceil(4) } else { size.div_ceil(4) * count })
    };
    let loaded = row.held.iter().map(|held| {
        let words = words(held.array, held.packed);
        Span { first: held.first, last: held.last, loaded: true, words }
    });
    let computed = row.on_chip.keys().filter_map(|array| {
        let first = statements.iter().position(|statement| statement.array == *array)?;
        let last = statements.iter().rposition(|statement| walk::reads_array(kernel, statement, *array)).unwrap_or(first);
        Some(Span { first, last, loaded: false, words: words(*array, false) })
    });
    let spans: Vec<Span> = loaded.chain(computed).collect();
    let words = |live: &dyn Fn(&Span) -> bool| -> i64 { spans.iter().filter(|span| live(span)).map(|span| span.words).sum() };
    let most = (0..statements.len()).map(|at| {
        let before = words(&|span| (span.first < at || span.first == at && span.loaded) && span.last >= at);
        before.max(words(&|span| span.first <= at && span.last > at))
    });
    most.max().unwrap_or(0)
}

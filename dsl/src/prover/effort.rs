//! A limit on how much work goes into proofs, counted and not timed, so that a text is always judged alike.

use std::cell::Cell;

/// What one question may cost.
const QUESTION: u64 = 4_000_000;
/// What all questions of a text may cost together.
const TEXT: u64 = 120_000_000;

thread_local! {
    static LEFT: Cell<(u64, u64)> = const { Cell::new((QUESTION, TEXT)) };
}

/// Starts a text.
pub(crate) fn start() {
    LEFT.set((QUESTION, TEXT));
}

/// Starts a question.
pub(crate) fn question() {
    let (_, text) = LEFT.get();
    LEFT.set((QUESTION, text));
}

/// Spends effort; `None` if there is none left.
pub(crate) fn spend(cost: usize) -> Option<()> {
    let (question, text) = LEFT.get();
    let cost = cost as u64 + 1;
    LEFT.set((question.saturating_sub(cost), text.saturating_sub(cost)));
    (question >= cost && text >= cost).then_some(())
}

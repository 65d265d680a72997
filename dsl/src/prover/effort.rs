//! A limit on how much work goes into proofs, counted and not timed, so that a text is always judged alike.

use std::cell::Cell;

/// What one question may cost.
const QUESTION: u64 = 8_000_000;
/// What all questions of a text about subscripts may cost together, which are checked elsewhere if they stay undecided; and
/// all others, of which some refuse the text.
const SUBSCRIPTS: u64 = 70_000_000;
const OTHERS: u64 = 40_000_000;
/// What a question may cost all the same when they have cost so much: most are easy.
const EASY: u64 = 40_000;

#[derive(Clone, Copy)]
struct Left {
    question: u64,
    subscripts: u64,
    others: u64,
    on_subscripts: bool,
}

const FULL: Left = Left { question: QUESTION, subscripts: SUBSCRIPTS, others: OTHERS, on_subscripts: false };

thread_local! {
    static LEFT: Cell<Left> = const { Cell::new(FULL) };
}

/// Starts a text.
pub(crate) fn start() {
    LEFT.set(FULL);
}

/// Starts a question.
pub(crate) fn question() {
    let left = LEFT.get();
    let text = if left.on_subscripts { left.subscripts } else { left.others };
    LEFT.set(Left { question: QUESTION.min(text.max(EASY)), ..left });
}

/// Does a part of a question, which may not use up the whole.
pub(crate) fn limited<T>(most: u64, part: impl FnOnce() -> T) -> T {
    let whole = LEFT.get().question;
    let most = most.min(whole);
    LEFT.set(Left { question: most, ..LEFT.get() });
    let answer = part();
    let spent = most - LEFT.get().question;
    LEFT.set(Left { question: whole - spent, ..LEFT.get() });
    answer
}

/// Answers questions about subscripts.
pub(crate) fn on_subscripts<T>(f: impl FnOnce() -> T) -> T {
    LEFT.set(Left { on_subscripts: true, ..LEFT.get() });
    let answers = f();
    LEFT.set(Left { on_subscripts: false, ..LEFT.get() });
    answers
}

/// Spends effort; `None` if there is none left.
pub(crate) fn spend(cost: usize) -> Option<()> {
    let mut left = LEFT.get();
    let cost = cost as u64 + 1;
    let enough = left.question >= cost;
    let text = if left.on_subscripts { &mut left.subscripts } else { &mut left.others };
    *text = text.saturating_sub(cost);
    left.question = left.question.saturating_sub(cost);
    LEFT.set(left);
    enough.then_some(())
}

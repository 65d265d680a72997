//! Scans, in the order of `docs/language.md`.

use pulp::NullaryFnOnce;

use crate::reduce::Combine;

const QUAD: usize = 4;
const LINES: usize = 32;
const ROW: usize = QUAD * LINES;
/// Terms of a block.
pub const BLOCK: usize = ROW * LINES;

/// `k[l] = k[l − d] ⊕ k[l]` for d = 1, 2, 4, 8, 16.
#[inline(always)]
fn kogge_stone<C: Combine>(k: &mut [C::Acc; LINES]) {
    for d in [1, 2, 4, 8, 16] {
        let before = *k;
        for l in d..LINES {
            k[l] = C::combine(before[l - d], before[l]);
        }
    }
}

/// What stands before each line: the identity, then the values of the lines before.
#[inline(always)]
fn shifted<C: Combine>(k: &[C::Acc; LINES]) -> [C::Acc; LINES] {
    let mut e = [C::identity(); LINES];
    e[1..].copy_from_slice(&k[..LINES - 1]);
    e
}

/// Scans a row to `w`; gives its total. Missing terms count as the identity.
// Two tables and their transposition: indices say it better than iterators.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn row<C: Combine>(terms: &mut [C::Acc; ROW]) -> C::Acc {
    let mut s = [[C::identity(); LINES]; QUAD];
    for l in 0..LINES {
        for q in 0..QUAD {
            s[q][l] = terms[l * QUAD + q];
        }
    }
    for q in 1..QUAD {
        for l in 0..LINES {
            s[q][l] = C::combine(s[q - 1][l], s[q][l]);
        }
    }
    let mut k = s[QUAD - 1];
    kogge_stone::<C>(&mut k);
    let e = shifted::<C>(&k);
    for l in 0..LINES {
        for q in 0..QUAD {
            terms[l * QUAD + q] = C::combine(e[l], s[q][l]);
        }
    }
    k[LINES - 1]
}

/// Scans up to 4,096 terms in place, with `p` before them; gives their own total.
pub struct Block<'a, C: Combine> {
    pub terms: &'a mut [C::Acc],
    pub p: C::Acc,
}
impl<C: Combine> NullaryFnOnce for Block<'_, C> {
    type Output = C::Acc;
    #[inline(always)]
    fn call(self) -> C::Acc {
        let mut totals = [C::identity(); LINES];
        for (part, total) in self.terms.chunks_mut(ROW).zip(&mut totals) {
            let mut terms = [C::identity(); ROW];
            terms[..part.len()].copy_from_slice(part);
            *total = row::<C>(&mut terms);
            part.copy_from_slice(&terms[..part.len()]);
        }
        kogge_stone::<C>(&mut totals);
        let before = shifted::<C>(&totals);
        for (part, &r) in self.terms.chunks_mut(ROW).zip(&before) {
            let front = C::combine(self.p, r);
            for value in part {
                *value = C::combine(front, *value);
            }
        }
        totals[LINES - 1]
    }
}

/// A Kogge–Stone scan of values that come one after the other.
struct Lines<C: Combine> {
    stages: [[C::Acc; LINES]; 6],
    next: usize,
}
impl<C: Combine> Lines<C> {
    fn new() -> Self {
        Lines { stages: [[C::identity(); LINES]; 6], next: 0 }
    }
    /// What stands before the next value.
    fn before(&self) -> C::Acc {
        if self.next == 0 { C::identity() } else { self.stages[5][self.next - 1] }
    }
    /// Takes in a value; gives the total when all lines are there, and starts anew.
    fn push(&mut self, value: C::Acc) -> Option<C::Acc> {
        let l = self.next;
        self.stages[0][l] = value;
        for (stage, d) in [1, 2, 4, 8, 16].into_iter().enumerate() {
            let own = self.stages[stage][l];
            self.stages[stage + 1][l] = if l >= d { C::combine(self.stages[stage][l - d], own) } else { own };
        }
        self.next = (l + 1) % LINES;
        (self.next == 0).then_some(self.stages[5][l])
    }
}

/// The scan of terms that come one after the other.
pub struct Online<C: Combine> {
    quad: C::Acc,
    inside: usize,
    quads: Lines<C>,
    rows: Lines<C>,
    p: C::Acc,
    blocks: Option<Box<Online<C>>>,
}
impl<C: Combine> Online<C> {
    pub fn new() -> Self {
        let none = C::identity();
        Online { quad: none, inside: 0, quads: Lines::new(), rows: Lines::new(), p: none, blocks: None }
    }
    /// Takes in a term; gives its inclusive value.
    pub fn push(&mut self, term: C::Acc) -> C::Acc {
        let s = if self.inside == 0 { term } else { C::combine(self.quad, term) };
        let w = C::combine(self.quads.before(), s);
        let value = C::combine(C::combine(self.p, self.rows.before()), w);
        self.quad = s;
        self.inside = (self.inside + 1) % QUAD;
        if self.inside == 0
            && let Some(row) = self.quads.push(s)
            && let Some(block) = self.rows.push(row)
        {
            self.p = self.blocks.get_or_insert_with(|| Box::new(Online::new())).push(block);
        }
        value
    }
}

/// The last value of the scan of some terms; the identity if there are none.
pub fn last<C: Combine>(terms: &[C::Acc]) -> C::Acc {
    let mut online = Online::<C>::new();
    terms.iter().fold(C::identity(), |_, &term| online.push(term))
}

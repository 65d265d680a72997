//! Scans, in the order of `docs/numerics.md`.

use crate::reduce::Combine;

const QUAD: usize = 4;
const ROW: usize = 128;
const BLOCK: usize = 4096;

/// `k[l] = k[l − d] ⊕ k[l]` for d = 1, 2, 4, 8, 16.
fn kogge_stone<C: Combine>(k: &mut [C::Acc; 32]) {
    for d in [1, 2, 4, 8, 16] {
        for l in (d..32).rev() {
            k[l] = C::combine(k[l - d], k[l]);
        }
    }
}

/// Scans up to 4,096 values in place: each becomes `R ⊕ w` of its own, with the two kept apart in `before` and `values`.
/// Gives the block's total.
fn block<C: Combine>(values: &mut [C::Acc], before: &mut [C::Acc; 32]) -> C::Acc {
    let mut rows = [C::identity(); 32];
    for (row, total) in values.chunks_mut(ROW).zip(&mut rows) {
        let mut k = [C::identity(); 32];
        for (quad, k) in row.chunks_mut(QUAD).zip(&mut k) {
            for s in 1..quad.len() {
                quad[s] = C::combine(quad[s - 1], quad[s]);
            }
            *k = quad[quad.len() - 1];
            // A quad that ends early goes on with identities.
            for _ in quad.len()..QUAD {
                *k = C::combine(*k, C::identity());
            }
        }
        kogge_stone::<C>(&mut k);
        for (l, quad) in row.chunks_mut(QUAD).enumerate() {
            let e = if l == 0 { C::identity() } else { k[l - 1] };
            for value in quad {
                *value = C::combine(e, *value);
            }
        }
        *total = k[31];
    }
    kogge_stone::<C>(&mut rows);
    before[0] = C::identity();
    before[1..].copy_from_slice(&rows[..31]);
    rows[31]
}

/// Scans a block in place, with `p` before it.
pub fn apply<C: Combine>(values: &mut [C::Acc], p: C::Acc) {
    let mut before = [C::identity(); 32];
    block::<C>(values, &mut before);
    for (row, &r) in values.chunks_mut(ROW).zip(&before) {
        let front = C::combine(p, r);
        for value in row {
            *value = C::combine(front, *value);
        }
    }
}

/// A block's total; what `values` hold afterwards is of no use.
pub fn total<C: Combine>(values: &mut [C::Acc]) -> C::Acc {
    block::<C>(values, &mut [C::identity(); 32])
}

/// Scans values in place.
pub fn inclusive<C: Combine>(values: &mut [C::Acc]) {
    let mut totals: Vec<C::Acc> = Vec::with_capacity(values.len().div_ceil(BLOCK));
    let mut scratch = vec![C::identity(); BLOCK];
    for block in values.chunks(BLOCK) {
        let scratch = &mut scratch[..block.len()];
        scratch.copy_from_slice(block);
        totals.push(total::<C>(scratch));
    }
    if totals.len() > 1 {
        inclusive::<C>(&mut totals);
    }
    let mut p = C::identity();
    for (block, &total) in values.chunks_mut(BLOCK).zip(&totals) {
        apply::<C>(block, p);
        p = total;
    }
}

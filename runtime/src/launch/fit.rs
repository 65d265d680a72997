//! What would fit where a call does not.

use gpukc_codegen::kernel;
use gpukc_dsl::call::{Bindings, integer};
use gpukc_dsl::program::{Kernel, Role};

use super::Call;

/// A dim that alone, made smaller, would make a call fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Its name.
    pub dim: String,
    /// Its value.
    pub value: i64,
    /// About the largest value at which the call would fit.
    pub largest: i64,
}

/// For each dim: how large it may be for arrays and scratch memory to fit into `free` bytes, the other dims as they are.
/// Dims that make no difference, or that would have to be 0, are left out.
pub fn fitting(kernel: &Kernel, cuda: &kernel::Kernel, bindings: &Bindings, free: u64) -> Vec<Fit> {
    // The driver hands memory out in pieces of megabytes.
    let room = u128::from(free / 16 * 15);
    let mut fits = Vec::new();
    for (id, dim) in kernel.dims.iter() {
        let Some(&value) = bindings.dims.get(id.index()) else { continue };
        let needed = |extent: i64| {
            let mut changed = bindings.clone();
            changed.dims[id.index()] = extent;
            bytes(kernel, cuda, changed)
        };
        let (mut low, mut high) = (0, value);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if needed(middle) <= room { low = middle } else { high = middle }
        }
        if low > 0 && needed(low) <= room {
            fits.push(Fit { dim: dim.name.clone(), value, largest: rounded(low) });
        }
    }
    fits
}

/// What a call takes on the device in all.
fn bytes(kernel: &Kernel, cuda: &kernel::Kernel, mut bindings: Bindings) -> u128 {
    let mut sum = 0u128;
    for (id, array) in kernel.arrays.iter() {
        let extents: Vec<i64> = array.shape.iter().map(|&extent| integer(kernel, &bindings, extent)).collect();
        if array.role != Role::Let {
            let elements = extents.iter().fold(1u128, |count, &extent| count.saturating_mul(u128::try_from(extent).unwrap_or(0)));
            sum = sum.saturating_add(elements.saturating_mul(array.element.size() as u128));
        }
        bindings.extents[id.index()] = extents;
    }
    let call = Call::new(kernel, &bindings);
    let scratch = cuda.scratch.iter().map(|scratch| u128::try_from(scratch.bytes.evaluate(&call)).unwrap_or(0));
    scratch.fold(sum, u128::saturating_add)
}

/// Three digits, downwards: the answer is about right, and should look so.
fn rounded(value: i64) -> i64 {
    let mut unit = 1;
    while value / unit >= 1000 {
        unit *= 10;
    }
    value / unit * unit
}

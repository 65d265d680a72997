//! A call of one program as a call of a smaller one, and smaller and plainer calls of the same.

use std::collections::BTreeMap;

use gpukc_cpu::Tensor;
use gpukc_dsl::call::Bindings;
use gpukc_dsl::program::{Kernel, Parameter};
use gpukc_dsl::types::Type;
use gpukc_verify::draw::{Call, bind};

/// The call as one of another kernel whose dims and parameters are some of the first one's, by name.
pub fn adapted(call: &Call, from: &Kernel, to: &Kernel) -> Option<Call> {
    let dims: BTreeMap<&str, i64> =
        from.dims.iter().map(|(_, dim)| dim.name.as_str()).zip(call.bindings.dims.iter().copied()).collect();
    let scalars: BTreeMap<&str, _> = from.scalars.iter().map(|(_, s)| s.name.as_str()).zip(&call.bindings.scalars).collect();
    let known = Bindings {
        dims: to.dims.iter().map(|(_, dim)| dims.get(dim.name.as_str()).copied()).collect::<Option<_>>()?,
        scalars: to.scalars.iter().map(|(_, s)| scalars.get(s.name.as_str()).map(|s| **s)).collect::<Option<_>>()?,
        extents: Vec::new(),
    };
    let bindings = bind(to, &known)?;
    let given: BTreeMap<&str, &Tensor> = names(from).zip(&call.arrays).collect();
    let arrays = names(to).map(|name| given.get(name).copied().cloned()).collect::<Option<Vec<Tensor>>>()?;
    fits(to, &bindings, &arrays).then_some(Call { bindings, arrays })
}

/// The names of the array parameters.
fn names(kernel: &Kernel) -> impl Iterator<Item = &str> {
    kernel.parameters.iter().filter_map(|parameter| match *parameter {
        Parameter::Array(id) => Some(kernel.arrays[id].name.as_str()),
        Parameter::Scalar(_) => None,
    })
}

fn extents<'b>(kernel: &Kernel, bindings: &'b Bindings) -> impl Iterator<Item = (Type, &'b [i64])> {
    let arrays = kernel.parameters.iter().filter_map(|parameter| match *parameter {
        Parameter::Array(id) => Some((kernel.arrays[id].element, id)),
        Parameter::Scalar(_) => None,
    });
    let all: Vec<_> = arrays.map(|(element, id)| (element, bindings.extents[id.index()].as_slice())).collect();
    all.into_iter()
}

fn fits(kernel: &Kernel, bindings: &Bindings, arrays: &[Tensor]) -> bool {
    extents(kernel, bindings).zip(arrays).all(|((element, extents), array)| array.element() == element && array.shape() == extents)
}

/// Calls with a smaller dim each.
pub fn smaller(kernel: &Kernel, call: &Call) -> Vec<Call> {
    let mut all = Vec::new();
    for (place, &value) in call.bindings.dims.iter().enumerate() {
        let mut tried = Vec::new();
        for less in [0, 1, 2, value / 4, value / 2, value - value / 4, value - 1] {
            if (0..value).contains(&less) && !tried.contains(&less) {
                tried.push(less);
                let mut dims = call.bindings.dims.clone();
                dims[place] = less;
                all.extend(resized(kernel, call, dims));
            }
        }
    }
    all
}

/// The call with other dims: arrays keep the elements at indices that remain, and have zeros at new ones.
fn resized(kernel: &Kernel, call: &Call, dims: Vec<i64>) -> Option<Call> {
    let bindings = bind(kernel, &Bindings { dims, scalars: call.bindings.scalars.clone(), extents: Vec::new() })?;
    let arrays = extents(kernel, &bindings).zip(&call.arrays).map(|((element, extents), array)| {
        let size = element.size();
        let count = extents.iter().product::<i64>() as usize;
        let mut bytes = vec![0; count * size];
        for (at, element) in bytes.chunks_mut(size).enumerate() {
            if let Some(from) = place(at as i64, extents, array.shape()) {
                element.copy_from_slice(&array.bytes()[from * size..(from + 1) * size]);
            }
        }
        Tensor::from_bytes(element, extents, &bytes)
    });
    let arrays = arrays.collect::<Option<Vec<Tensor>>>()?;
    Some(Call { bindings, arrays })
}

/// Where the element of that number stands in an array of another shape.
fn place(mut number: i64, extents: &[i64], other: &[i64]) -> Option<usize> {
    let mut index = vec![0; extents.len()];
    for (index, extent) in index.iter_mut().zip(extents).rev() {
        *index = number % extent;
        number /= extent;
    }
    let inside = index.iter().zip(other).all(|(index, extent)| index < extent);
    inside.then(|| index.iter().zip(other).fold(0, |offset, (index, extent)| offset * extent + index) as usize)
}

/// Calls in which an array is zero, one of its halves is, or, of at most 16 elements, one of them is.
pub fn plainer(call: &Call) -> Vec<Call> {
    let mut all = Vec::new();
    for (place, array) in call.arrays.iter().enumerate() {
        let (size, count) = (array.element().size(), array.len());
        let mut ranges = vec![0..count, 0..count / 2, count / 2..count];
        if count <= 16 {
            ranges.extend((0..count).map(|at| at..at + 1));
        }
        for range in ranges {
            let mut changed = call.clone();
            let bytes = &mut changed.arrays[place].bytes_mut()[range.start * size..range.end * size];
            if bytes.iter().any(|byte| *byte != 0) {
                bytes.fill(0);
                all.push(changed);
            }
        }
    }
    all
}

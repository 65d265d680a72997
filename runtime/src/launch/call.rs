//! What the caller of a kernel fixes.

use gpukc_dsl::call::{Bindings, Values, scalar_bits, scalar_value};
use gpukc_dsl::program::{self, DimId, Literal, Role, ScalarId};
use gpukc_dsl::types::Type;

/// What a call fixes: the values of dims and scalars, types and shapes of parameters and results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// By dim.
    pub dims: Vec<i64>,
    /// By scalar parameter.
    pub scalars: Vec<Scalar>,
    /// By array; what is neither a parameter nor a result may be `None`.
    pub arrays: Vec<Option<Shape>>,
}

/// The value of a scalar parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar {
    /// Its type.
    pub ty: Type,
    /// Its bits, in the low bytes.
    pub bits: u64,
}

/// Element type and extents of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The element's type.
    pub element: Type,
    /// The extents.
    pub extents: Vec<i64>,
}

impl Shape {
    /// Its size in bytes, if it is one.
    pub fn bytes(&self) -> Option<usize> {
        if self.extents.contains(&0) {
            return Some(0);
        }
        let count = self.extents.iter().try_fold(1usize, |count, &extent| count.checked_mul(usize::try_from(extent).ok()?))?;
        count.checked_mul(self.element.size()).filter(|&bytes| isize::try_from(bytes).is_ok())
    }
}

impl Call {
    /// A call whose arguments have been bound.
    pub fn new(kernel: &program::Kernel, bindings: &Bindings) -> Call {
        let scalar = |(scalar, &value): (&program::Scalar, &Literal)| Scalar { ty: scalar.ty, bits: scalar_bits(scalar.ty, value) };
        let array = |(array, extents): (&program::Array, &Vec<i64>)| {
            (array.role != Role::Let).then(|| Shape { element: array.element, extents: extents.clone() })
        };
        Call {
            dims: bindings.dims.clone(),
            scalars: kernel.scalars.iter().map(|(_, scalar)| scalar).zip(&bindings.scalars).map(scalar).collect(),
            arrays: kernel.arrays.iter().map(|(_, array)| array).zip(&bindings.extents).map(array).collect(),
        }
    }
}

impl Values for Call {
    fn dim(&self, id: DimId) -> Option<i64> {
        self.dims.get(id.index()).copied()
    }
    fn scalar(&self, id: ScalarId) -> Option<Literal> {
        self.scalars.get(id.index()).map(|scalar| scalar_value(scalar.ty, scalar.bits))
    }
}

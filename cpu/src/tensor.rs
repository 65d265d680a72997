//! Arrays in host memory: typed, aligned, row-major.

use gpukc_dsl::types::Type;

/// A type that elements are stored in. f16 and bf16 are stored as their bits, bool as 0 or 1.
pub trait Element: Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + bytemuck::Pod {
    /// Which storage it is.
    const STORE: Store;
    /// The elements, if they are stored in this type.
    fn slice(data: &Data) -> Option<&[Self]>;
    /// The elements, if they are stored in this type.
    fn slice_mut(data: &mut Data) -> Option<&mut Vec<Self>>;
    /// Takes the elements.
    fn wrap(values: Vec<Self>) -> Data;
}

/// The storages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Store {
    U8,
    I8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Store {
    /// How elements of a type are stored.
    pub fn of(ty: Type) -> Store {
        match ty {
            Type::Bool | Type::U8 => Store::U8,
            Type::I8 => Store::I8,
            Type::I16 => Store::I16,
            Type::U16 | Type::F16 | Type::Bf16 => Store::U16,
            Type::I32 => Store::I32,
            Type::U32 => Store::U32,
            Type::I64 => Store::I64,
            Type::U64 => Store::U64,
            Type::F32 => Store::F32,
            Type::F64 => Store::F64,
        }
    }
}

macro_rules! stores {
    ($($variant:ident $ty:ty),+ $(,)?) => {
        /// Elements by storage.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Data { $($variant(Vec<$ty>)),+ }

        $(impl Element for $ty {
            const STORE: Store = Store::$variant;
            fn slice(data: &Data) -> Option<&[Self]> {
                if let Data::$variant(values) = data { Some(values) } else { None }
            }
            fn slice_mut(data: &mut Data) -> Option<&mut Vec<Self>> {
                if let Data::$variant(values) = data { Some(values) } else { None }
            }
            fn wrap(values: Vec<Self>) -> Data {
                Data::$variant(values)
            }
        })+

        impl Data {
            /// The number of elements.
            pub fn len(&self) -> usize {
                match self { $(Data::$variant(values) => values.len()),+ }
            }
            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
            /// The storage.
            pub fn store(&self) -> Store {
                match self { $(Data::$variant(_) => Store::$variant),+ }
            }
            /// Zeros, or `None` if memory for them can't be had.
            pub fn zeros(store: Store, len: usize) -> Option<Data> {
                match store { $(Store::$variant => zeros::<$ty>(len).map(Data::$variant)),+ }
            }
            /// The bytes, in native order.
            pub fn bytes(&self) -> &[u8] {
                match self { $(Data::$variant(values) => bytemuck::cast_slice(values)),+ }
            }
            /// The bytes, in native order.
            pub fn bytes_mut(&mut self) -> &mut [u8] {
                match self { $(Data::$variant(values) => bytemuck::cast_slice_mut(values)),+ }
            }
        }
    };
}

stores! {
    U8 u8, I8 i8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64,
}

/// Zeros. What the system could never give is refused; the rest comes zeroed from the system, untouched.
fn zeros<T: Element>(len: usize) -> Option<Vec<T>> {
    if len.saturating_mul(size_of::<T>()) > 1 << 24 {
        // Only a trial: `vec![0; n]` alone gets pages that are zero already, but has no fallible form.
        Vec::<T>::new().try_reserve_exact(len).ok()?;
    }
    Some(vec![T::default(); len])
}

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    element: Type,
    shape: Vec<i64>,
    data: Data,
}

impl Tensor {
    /// Zeros of a type and shape; `None` if memory for them can't be had.
    pub fn zeros(element: Type, shape: &[i64]) -> Option<Tensor> {
        let len = shape.iter().try_fold(1usize, |len, &extent| len.checked_mul(usize::try_from(extent).ok()?));
        let len = if shape.contains(&0) { Some(0) } else { len };
        let data = Data::zeros(Store::of(element), len?)?;
        Some(Tensor { element, shape: shape.to_vec(), data })
    }
    /// From elements in row-major order. Panics if their number or storage does not suit the shape and type.
    pub fn new<T: Element>(element: Type, shape: &[i64], values: Vec<T>) -> Tensor {
        assert_eq!(Store::of(element), T::STORE, "{element} is not stored as {:?}", T::STORE);
        assert_eq!(shape.iter().product::<i64>(), values.len() as i64, "{} values for {shape:?}", values.len());
        Tensor { element, shape: shape.to_vec(), data: T::wrap(values) }
    }
    /// From bytes in native order; `None` if their number does not suit, or memory can't be had.
    pub fn from_bytes(element: Type, shape: &[i64], bytes: &[u8]) -> Option<Tensor> {
        let mut tensor = Tensor::zeros(element, shape)?;
        let own = tensor.data.bytes_mut();
        if own.len() != bytes.len() {
            return None;
        }
        own.copy_from_slice(bytes);
        Some(tensor)
    }
    /// The element type.
    pub fn element(&self) -> Type {
        self.element
    }
    /// The extents.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.data.len()
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }
    /// The elements.
    pub fn data(&self) -> &Data {
        &self.data
    }
    /// The elements.
    pub fn data_mut(&mut self) -> &mut Data {
        &mut self.data
    }
    /// The elements, row-major. Panics if they are stored otherwise.
    pub fn values<T: Element>(&self) -> &[T] {
        T::slice(&self.data).unwrap_or_else(|| panic!("{} is not stored as {:?}", self.element, T::STORE))
    }
    /// The elements, row-major. Panics if they are stored otherwise.
    pub fn values_mut<T: Element>(&mut self) -> &mut [T] {
        let element = self.element;
        T::slice_mut(&mut self.data).unwrap_or_else(|| panic!("{element} is not stored as {:?}", T::STORE))
    }
    /// The elements' bytes in native order, row-major.
    pub fn bytes(&self) -> &[u8] {
        self.data.bytes()
    }
    /// The elements' bytes in native order, row-major.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.data.bytes_mut()
    }
    pub(crate) fn from_parts(element: Type, shape: Vec<i64>, data: Data) -> Tensor {
        Tensor { element, shape, data }
    }
}

impl From<Vec<f32>> for Tensor {
    fn from(values: Vec<f32>) -> Tensor {
        Tensor::new(Type::F32, &[values.len() as i64], values)
    }
}
impl From<Vec<f64>> for Tensor {
    fn from(values: Vec<f64>) -> Tensor {
        Tensor::new(Type::F64, &[values.len() as i64], values)
    }
}
impl From<Vec<i32>> for Tensor {
    fn from(values: Vec<i32>) -> Tensor {
        Tensor::new(Type::I32, &[values.len() as i64], values)
    }
}
impl From<Vec<i64>> for Tensor {
    fn from(values: Vec<i64>) -> Tensor {
        Tensor::new(Type::I64, &[values.len() as i64], values)
    }
}

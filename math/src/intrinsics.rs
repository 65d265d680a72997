//! What the gk texts call and do not define: the same names are intrinsics of gk.

/// The operations on floats.
pub trait Float: Copy {
    /// The integer with the same bits.
    type Bits;
    fn mul_add_(self, b: Self, c: Self) -> Self;
    fn sqrt_(self) -> Self;
    fn abs_(self) -> Self;
    fn trunc_(self) -> Self;
    fn copysign_(self, sign: Self) -> Self;
    fn min_(self, bound: Self) -> Self;
    fn max_(self, bound: Self) -> Self;
    fn is_nan_(self) -> bool;
    fn to_bits_(self) -> Self::Bits;
}

macro_rules! float {
    ($t:ty, $bits:ty) => {
        impl Float for $t {
            type Bits = $bits;
            #[inline(always)]
            fn mul_add_(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn sqrt_(self) -> Self {
                self.sqrt()
            }
            #[inline(always)]
            fn abs_(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn trunc_(self) -> Self {
                self.trunc()
            }
            #[inline(always)]
            fn copysign_(self, sign: Self) -> Self {
                self.copysign(sign)
            }
            #[inline(always)]
            fn min_(self, bound: Self) -> Self {
                if bound < self { bound } else { self }
            }
            #[inline(always)]
            fn max_(self, bound: Self) -> Self {
                if bound > self { bound } else { self }
            }
            #[inline(always)]
            fn is_nan_(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn to_bits_(self) -> $bits {
                self.to_bits() as $bits
            }
        }
    };
}
float!(f32, i32);
float!(f64, i64);

/// The operations on integers that may overflow.
pub trait Int: Copy {
    fn wrapping_add_(self, b: Self) -> Self;
    fn wrapping_mul_(self, b: Self) -> Self;
}

macro_rules! int {
    ($($t:ty)*) => {$(
        impl Int for $t {
            #[inline(always)]
            fn wrapping_add_(self, b: Self) -> Self {
                self.wrapping_add(b)
            }
            #[inline(always)]
            fn wrapping_mul_(self, b: Self) -> Self {
                self.wrapping_mul(b)
            }
        }
    )*};
}
int!(i32 i64 u32 u64);

/// a * b + c, rounded once.
#[inline(always)]
pub fn mul_add<T: Float>(a: T, b: T, c: T) -> T {
    a.mul_add_(b, c)
}

/// The square root, correctly rounded.
#[inline(always)]
pub fn sqrt<T: Float>(x: T) -> T {
    x.sqrt_()
}

/// The argument without its sign.
#[inline(always)]
pub fn abs<T: Float>(x: T) -> T {
    x.abs_()
}

/// Rounds toward zero.
#[inline(always)]
pub fn trunc<T: Float>(x: T) -> T {
    x.trunc_()
}

/// The size of `x` with the sign of `sign`.
#[inline(always)]
pub fn copysign<T: Float>(x: T, sign: T) -> T {
    x.copysign_(sign)
}

/// The smaller of the two; `bound` is a number other than 0. A NaN stays NaN.
#[inline(always)]
pub fn min<T: Float>(x: T, bound: T) -> T {
    x.min_(bound)
}

/// The larger of the two, under the same conditions.
#[inline(always)]
pub fn max<T: Float>(x: T, bound: T) -> T {
    x.max_(bound)
}

/// Whether `x` is not a number.
#[inline(always)]
pub fn is_nan<T: Float>(x: T) -> bool {
    x.is_nan_()
}

/// The bits of `x`, as a signed integer.
#[inline(always)]
pub fn to_bits<T: Float>(x: T) -> T::Bits {
    x.to_bits_()
}

/// The f32 with the bits `i`.
#[inline(always)]
pub fn f32_from_bits(i: i32) -> f32 {
    f32::from_bits(i as u32)
}

/// The f64 with the bits `i`.
#[inline(always)]
pub fn f64_from_bits(i: i64) -> f64 {
    f64::from_bits(i as u64)
}

/// The upper 64 bits of the product.
#[inline(always)]
pub fn mul_high(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

/// The sum modulo 2^bits.
#[inline(always)]
pub fn wrapping_add<T: Int>(a: T, b: T) -> T {
    a.wrapping_add_(b)
}

/// The product modulo 2^bits.
#[inline(always)]
pub fn wrapping_mul<T: Int>(a: T, b: T) -> T {
    a.wrapping_mul_(b)
}

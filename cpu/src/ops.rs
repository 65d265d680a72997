//! What an operator does to one element, and the loops that do it to columns.
//!
//! A loop is compiled for the baseline and for AVX2 with fused multiply-add; [`pulp`] picks one when it runs.

use std::marker::PhantomData;

use gpukc_dsl::types::{BinaryOp, Builtin, Type, UnaryOp};
use pulp::NullaryFnOnce;

use crate::frame::{Frame, Lane, Reg};
use crate::half;
use crate::tensor::Store;

/// Applies an operation to registers: destination, then operands.
pub type Fn1 = fn(&mut Frame, u32, u32);
pub type Fn2 = fn(&mut Frame, u32, u32, u32);
pub type Fn3 = fn(&mut Frame, u32, u32, u32, u32);

pub trait Op1<A, O> {
    fn op(a: A) -> O;
}
pub trait Op2<A, B, O> {
    fn op(a: A, b: B) -> O;
}
pub trait Op3<A, B, C, O> {
    fn op(a: A, b: B, c: C) -> O;
}

struct Loop1<'a, A, O, F>(&'a [A], &'a mut [O], PhantomData<F>);
impl<A: Lane, O: Lane, F: Op1<A, O>> NullaryFnOnce for Loop1<'_, A, O, F> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Loop1(a, out, _) = self;
        for (out, &a) in out.iter_mut().zip(a) {
            *out = F::op(a);
        }
    }
}

struct Loop2<'a, A, B, O, F, const VA: bool, const VB: bool>(&'a [A], &'a [B], &'a mut [O], PhantomData<F>);
impl<A: Lane, B: Lane, O: Lane, F: Op2<A, B, O>, const VA: bool, const VB: bool> NullaryFnOnce for Loop2<'_, A, B, O, F, VA, VB> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Loop2(a, b, out, _) = self;
        let n = out.len();
        let (a, b) = (&a[..if VA { n } else { 1 }], &b[..if VB { n } else { 1 }]);
        let (a0, b0) = (a[0], b[0]);
        for k in 0..n {
            out[k] = F::op(if VA { a[k] } else { a0 }, if VB { b[k] } else { b0 });
        }
    }
}

struct Loop3<'a, A, B, C, O, F, const VA: bool, const VB: bool, const VC: bool>(
    &'a [A],
    &'a [B],
    &'a [C],
    &'a mut [O],
    PhantomData<F>,
);
impl<A: Lane, B: Lane, C: Lane, O: Lane, F: Op3<A, B, C, O>, const VA: bool, const VB: bool, const VC: bool> NullaryFnOnce
    for Loop3<'_, A, B, C, O, F, VA, VB, VC>
{
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Loop3(a, b, c, out, _) = self;
        let n = out.len();
        let (a, b, c) = (&a[..if VA { n } else { 1 }], &b[..if VB { n } else { 1 }], &c[..if VC { n } else { 1 }]);
        let (a0, b0, c0) = (a[0], b[0], c[0]);
        for k in 0..n {
            out[k] = F::op(if VA { a[k] } else { a0 }, if VB { b[k] } else { b0 }, if VC { c[k] } else { c0 });
        }
    }
}

fn run1<A: Lane, O: Lane, F: Op1<A, O>>(frame: &mut Frame, dst: u32, a: u32) {
    let mut out = frame.take::<O>(dst);
    let a = frame.get::<A>(a);
    let n = if out.len() == 1 { 1 } else { frame.n };
    frame.arch.dispatch(Loop1::<A, O, F>(a, &mut out[..n.min(a.len())], PhantomData));
    if a.len() < n {
        let value = out[0];
        out[1..n].fill(value);
    }
    frame.put(dst, out);
}

fn run2<A: Lane, B: Lane, O: Lane, F: Op2<A, B, O>>(frame: &mut Frame, dst: u32, a: u32, b: u32) {
    let mut out = frame.take::<O>(dst);
    let n = if out.len() == 1 { 1 } else { frame.n };
    let (a, b, arch) = (frame.get::<A>(a), frame.get::<B>(b), frame.arch);
    match (a.len() > 1, b.len() > 1) {
        (true, true) => arch.dispatch(Loop2::<A, B, O, F, true, true>(a, b, &mut out[..n], PhantomData)),
        (true, false) => arch.dispatch(Loop2::<A, B, O, F, true, false>(a, b, &mut out[..n], PhantomData)),
        (false, true) => arch.dispatch(Loop2::<A, B, O, F, false, true>(a, b, &mut out[..n], PhantomData)),
        (false, false) => {
            arch.dispatch(Loop2::<A, B, O, F, true, true>(a, b, &mut out[..1], PhantomData));
            let value = out[0];
            out[1..n].fill(value);
        }
    }
    frame.put(dst, out);
}

/// The same for operations with much code: operands that all lanes share are spread first.
fn run2_spread<A: Lane, B: Lane, O: Lane, F: Op2<A, B, O>>(frame: &mut Frame, dst: u32, a: u32, b: u32) {
    let mut out = frame.take::<O>(dst);
    let n = if out.len() == 1 { 1 } else { frame.n };
    let (a, b) = (frame.get::<A>(a), frame.get::<B>(b));
    let (mut wide_a, mut wide_b) = (Vec::new(), Vec::new());
    let used = a.len().max(b.len());
    let (a, b) = (spread(a, used, &mut wide_a), spread(b, used, &mut wide_b));
    frame.arch.dispatch(Loop2::<A, B, O, F, true, true>(a, b, &mut out[..used], PhantomData));
    let value = out[0];
    out[used..n].fill(value);
    frame.put(dst, out);
}

fn spread<'a, T: Lane>(lanes: &'a [T], n: usize, room: &'a mut Vec<T>) -> &'a [T] {
    if lanes.len() == n {
        return lanes;
    }
    room.resize(n, lanes[0]);
    room
}

fn run3<A: Lane, B: Lane, C: Lane, O: Lane, F: Op3<A, B, C, O>>(frame: &mut Frame, dst: u32, a: u32, b: u32, c: u32) {
    let mut out = frame.take::<O>(dst);
    let n = if out.len() == 1 { 1 } else { frame.n };
    let (a, b, c, arch) = (frame.get::<A>(a), frame.get::<B>(b), frame.get::<C>(c), frame.arch);
    let used = a.len().max(b.len()).max(c.len());
    let mut wide = Vec::new();
    let a = spread(a, used, &mut wide);
    let to = &mut out[..used];
    match (b.len() == used, c.len() == used) {
        (true, true) => arch.dispatch(Loop3::<A, B, C, O, F, true, true, true>(a, b, c, to, PhantomData)),
        (true, false) => arch.dispatch(Loop3::<A, B, C, O, F, true, true, false>(a, b, c, to, PhantomData)),
        (false, true) => arch.dispatch(Loop3::<A, B, C, O, F, true, false, true>(a, b, c, to, PhantomData)),
        (false, false) => arch.dispatch(Loop3::<A, B, C, O, F, true, false, false>(a, b, c, to, PhantomData)),
    }
    let value = out[0];
    out[used..n].fill(value);
    frame.put(dst, out);
}

/// A type of the language, with its storage and what is defined for all of them.
pub trait Tag: 'static {
    type E: Lane;
    const LEAST: Self::E;
    const GREATEST: Self::E;
    fn lt(a: Self::E, b: Self::E) -> bool;
    fn le(a: Self::E, b: Self::E) -> bool;
    fn eq(a: Self::E, b: Self::E) -> bool;
    /// NaN propagates, −0 is less than 0.
    fn min(a: Self::E, b: Self::E) -> Self::E;
    fn max(a: Self::E, b: Self::E) -> Self::E;
    fn nan(a: Self::E) -> bool;
}

/// A type that computes as itself.
pub trait Number: Tag {
    const ZERO: Self::E;
    const ONE: Self::E;
    fn add(a: Self::E, b: Self::E) -> Self::E;
    fn sub(a: Self::E, b: Self::E) -> Self::E;
    fn mul(a: Self::E, b: Self::E) -> Self::E;
    fn div(a: Self::E, b: Self::E) -> Self::E;
    fn rem(a: Self::E, b: Self::E) -> Self::E;
    fn neg(a: Self::E) -> Self::E;
    fn abs(a: Self::E) -> Self::E;
    fn sign(a: Self::E) -> Self::E;
    fn mul_add(a: Self::E, b: Self::E, c: Self::E) -> Self::E;
    fn div_floor(a: Self::E, b: Self::E) -> Self::E;
    fn mod_floor(a: Self::E, b: Self::E) -> Self::E;
}

/// An integer type or bool.
pub trait Bits: Tag {
    fn and(a: Self::E, b: Self::E) -> Self::E;
    fn or(a: Self::E, b: Self::E) -> Self::E;
    fn xor(a: Self::E, b: Self::E) -> Self::E;
    fn not(a: Self::E) -> Self::E;
    fn shl(a: Self::E, b: Self::E) -> Self::E;
    fn shr(a: Self::E, b: Self::E) -> Self::E;
    fn ones(a: Self::E) -> Self::E;
    fn zeros(a: Self::E) -> Self::E;
}

macro_rules! tags { ($($tag:ident)+) => { $(pub struct $tag;)+ }; }
tags! { Bool I8 I16 I32 I64 U8 U16 U32 U64 F16 Bf16 F32 F64 }

macro_rules! integer {
    ($tag:ident $ty:ident $unsigned:ident $signed:literal) => {
        impl Tag for $tag {
            type E = $ty;
            const LEAST: $ty = $ty::MIN;
            const GREATEST: $ty = $ty::MAX;
            #[inline(always)]
            fn lt(a: $ty, b: $ty) -> bool {
                a < b
            }
            #[inline(always)]
            fn le(a: $ty, b: $ty) -> bool {
                a <= b
            }
            #[inline(always)]
            fn eq(a: $ty, b: $ty) -> bool {
                a == b
            }
            #[inline(always)]
            fn min(a: $ty, b: $ty) -> $ty {
                a.min(b)
            }
            #[inline(always)]
            fn max(a: $ty, b: $ty) -> $ty {
                a.max(b)
            }
            #[inline(always)]
            fn nan(_: $ty) -> bool {
                false
            }
        }
        impl Number for $tag {
            const ZERO: $ty = 0;
            const ONE: $ty = 1;
            #[inline(always)]
            fn add(a: $ty, b: $ty) -> $ty {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn sub(a: $ty, b: $ty) -> $ty {
                a.wrapping_sub(b)
            }
            #[inline(always)]
            fn mul(a: $ty, b: $ty) -> $ty {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn div(a: $ty, b: $ty) -> $ty {
                if b == 0 { 0 } else { a.wrapping_div(b) }
            }
            #[inline(always)]
            fn rem(a: $ty, b: $ty) -> $ty {
                if b == 0 { 0 } else { a.wrapping_rem(b) }
            }
            #[inline(always)]
            fn neg(a: $ty) -> $ty {
                a.wrapping_neg()
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn abs(a: $ty) -> $ty {
                if a < 0 { a.wrapping_neg() } else { a }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn sign(a: $ty) -> $ty {
                ((a > 0) as $ty).wrapping_sub((a < 0) as $ty)
            }
            #[inline(always)]
            fn mul_add(a: $ty, b: $ty, c: $ty) -> $ty {
                a.wrapping_mul(b).wrapping_add(c)
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn div_floor(a: $ty, b: $ty) -> $ty {
                if b == 0 {
                    return 0;
                }
                let (q, r) = (a.wrapping_div(b), a.wrapping_rem(b));
                q.wrapping_sub((r != 0 && (r < 0) != (b < 0)) as $ty)
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn mod_floor(a: $ty, b: $ty) -> $ty {
                if b == 0 {
                    return 0;
                }
                let r = a.wrapping_rem(b);
                if r != 0 && (r < 0) != (b < 0) { r.wrapping_add(b) } else { r }
            }
        }
        impl Bits for $tag {
            #[inline(always)]
            fn and(a: $ty, b: $ty) -> $ty {
                a & b
            }
            #[inline(always)]
            fn or(a: $ty, b: $ty) -> $ty {
                a | b
            }
            #[inline(always)]
            fn xor(a: $ty, b: $ty) -> $ty {
                a ^ b
            }
            #[inline(always)]
            fn not(a: $ty) -> $ty {
                !a
            }
            #[inline(always)]
            fn shl(a: $ty, b: $ty) -> $ty {
                let inside = (b as $unsigned) < $ty::BITS as $unsigned;
                if inside { a.wrapping_shl(b as u32) } else { 0 }
            }
            #[inline(always)]
            fn shr(a: $ty, b: $ty) -> $ty {
                // Shifting by all bits but one, then by one more, shifts everything out, signs staying.
                let inside = (b as $unsigned) < $ty::BITS as $unsigned;
                let count = if inside { b as u32 } else { $ty::BITS - 1 };
                let shifted = a.wrapping_shr(count);
                if inside || $signed { shifted } else { 0 }
            }
            #[inline(always)]
            fn ones(a: $ty) -> $ty {
                a.count_ones() as $ty
            }
            #[inline(always)]
            fn zeros(a: $ty) -> $ty {
                a.leading_zeros() as $ty
            }
        }
    };
}
integer!(I8 i8 u8 true);
integer!(I16 i16 u16 true);
integer!(I32 i32 u32 true);
integer!(I64 i64 u64 true);
integer!(U8 u8 u8 false);
integer!(U16 u16 u16 false);
integer!(U32 u32 u32 false);
integer!(U64 u64 u64 false);

impl Tag for Bool {
    type E = u8;
    const LEAST: u8 = 0;
    const GREATEST: u8 = 1;
    #[inline(always)]
    fn lt(a: u8, b: u8) -> bool {
        a < b
    }
    #[inline(always)]
    fn le(a: u8, b: u8) -> bool {
        a <= b
    }
    #[inline(always)]
    fn eq(a: u8, b: u8) -> bool {
        a == b
    }
    #[inline(always)]
    fn min(a: u8, b: u8) -> u8 {
        a & b
    }
    #[inline(always)]
    fn max(a: u8, b: u8) -> u8 {
        a | b
    }
    #[inline(always)]
    fn nan(_: u8) -> bool {
        false
    }
}
impl Bits for Bool {
    #[inline(always)]
    fn and(a: u8, b: u8) -> u8 {
        a & b
    }
    #[inline(always)]
    fn or(a: u8, b: u8) -> u8 {
        a | b
    }
    #[inline(always)]
    fn xor(a: u8, b: u8) -> u8 {
        a ^ b
    }
    #[inline(always)]
    fn not(a: u8) -> u8 {
        a ^ 1
    }
    #[inline(always)]
    fn shl(a: u8, _: u8) -> u8 {
        a
    }
    #[inline(always)]
    fn shr(a: u8, _: u8) -> u8 {
        a
    }
    #[inline(always)]
    fn ones(a: u8) -> u8 {
        a
    }
    #[inline(always)]
    fn zeros(a: u8) -> u8 {
        a ^ 1
    }
}

macro_rules! float {
    ($tag:ident $ty:ident $math:ident $fmod:ident) => {
        impl Tag for $tag {
            type E = $ty;
            const LEAST: $ty = $ty::NEG_INFINITY;
            const GREATEST: $ty = $ty::INFINITY;
            #[inline(always)]
            fn lt(a: $ty, b: $ty) -> bool {
                a < b
            }
            #[inline(always)]
            fn le(a: $ty, b: $ty) -> bool {
                a <= b
            }
            #[inline(always)]
            fn eq(a: $ty, b: $ty) -> bool {
                a == b
            }
            #[inline(always)]
            fn min(a: $ty, b: $ty) -> $ty {
                let equal = $ty::from_bits(a.to_bits() | b.to_bits());
                let least = if a < b { a } else { b };
                let least = if a == b { equal } else { least };
                if a != a { a } else { least }
            }
            #[inline(always)]
            fn max(a: $ty, b: $ty) -> $ty {
                let equal = $ty::from_bits(a.to_bits() & b.to_bits());
                let most = if a > b { a } else { b };
                let most = if a == b { equal } else { most };
                if a != a { a } else { most }
            }
            #[inline(always)]
            fn nan(a: $ty) -> bool {
                a.is_nan()
            }
        }
        impl Number for $tag {
            const ZERO: $ty = 0.0;
            const ONE: $ty = 1.0;
            #[inline(always)]
            fn add(a: $ty, b: $ty) -> $ty {
                a + b
            }
            #[inline(always)]
            fn sub(a: $ty, b: $ty) -> $ty {
                a - b
            }
            #[inline(always)]
            fn mul(a: $ty, b: $ty) -> $ty {
                a * b
            }
            #[inline(always)]
            fn div(a: $ty, b: $ty) -> $ty {
                a / b
            }
            #[inline(always)]
            fn rem(a: $ty, b: $ty) -> $ty {
                a % b
            }
            #[inline(always)]
            fn neg(a: $ty) -> $ty {
                -a
            }
            #[inline(always)]
            fn abs(a: $ty) -> $ty {
                a.abs()
            }
            #[inline(always)]
            fn sign(a: $ty) -> $ty {
                let one = (1.0 as $ty).copysign(a);
                if a == 0.0 || a != a { a } else { one }
            }
            #[inline(always)]
            fn mul_add(a: $ty, b: $ty, c: $ty) -> $ty {
                a.mul_add(b, c)
            }
            #[inline(always)]
            fn div_floor(a: $ty, b: $ty) -> $ty {
                (a / b).floor()
            }
            #[inline(always)]
            fn mod_floor(a: $ty, b: $ty) -> $ty {
                let r = a % b;
                if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
            }
        }
    };
}
float!(F32 f32 f32 fmod_f32);
float!(F64 f64 f64 fmod_f64);

macro_rules! narrow {
    ($tag:ident $widen:path, $inf:literal) => {
        impl Tag for $tag {
            type E = u16;
            const LEAST: u16 = 0x8000 | $inf;
            const GREATEST: u16 = $inf;
            #[inline(always)]
            fn lt(a: u16, b: u16) -> bool {
                $widen(a) < $widen(b)
            }
            #[inline(always)]
            fn le(a: u16, b: u16) -> bool {
                $widen(a) <= $widen(b)
            }
            #[inline(always)]
            fn eq(a: u16, b: u16) -> bool {
                $widen(a) == $widen(b)
            }
            #[inline(always)]
            fn min(a: u16, b: u16) -> u16 {
                let (x, y) = ($widen(a), $widen(b));
                let least = if x < y { a } else { b };
                let least = if x == y { a | b } else { least };
                if x != x { a } else { least }
            }
            #[inline(always)]
            fn max(a: u16, b: u16) -> u16 {
                let (x, y) = ($widen(a), $widen(b));
                let most = if x > y { a } else { b };
                let most = if x == y { a & b } else { most };
                if x != x { a } else { most }
            }
            #[inline(always)]
            fn nan(a: u16) -> bool {
                a & 0x7fff > $inf
            }
        }
    };
}
narrow!(F16 half::f16_to_f32, 0x7c00);
narrow!(Bf16 half::bf16_to_f32, 0x7f80);

/// Casts, as Rust's `as`.
pub struct Cast<A, B>(PhantomData<(A, B)>);
macro_rules! cast {
    ($($a:ident $b:ident |$x:ident| $e:expr;)+) => { $(
        impl Op1<<$a as Tag>::E, <$b as Tag>::E> for Cast<$a, $b> {
            #[inline(always)]
            fn op($x: <$a as Tag>::E) -> <$b as Tag>::E { $e }
        }
    )+ };
}
macro_rules! casts {
    ($($a:ident)+) => { $(
        cast! {
            $a I8 |x| x as i8;
            $a I16 |x| x as i16;
            $a I32 |x| x as i32;
            $a I64 |x| x as i64;
            $a U8 |x| x as u8;
            $a U16 |x| x as u16;
            $a U32 |x| x as u32;
            $a U64 |x| x as u64;
            $a F32 |x| x as f32;
            $a F64 |x| x as f64;
            $a Bool |x| u8::from(x != 0 as <$a as Tag>::E);
            F16 $a |x| <Cast<F32, $a>>::op(half::f16_to_f32(x));
            Bf16 $a |x| <Cast<F32, $a>>::op(half::bf16_to_f32(x));
        }
    )+ };
}
casts! { Bool I8 I16 I32 I64 U8 U16 U32 U64 F32 F64 }
macro_rules! to_half {
    ($($a:ident)+) => { $(
        cast! {
            $a F16 |x| half::f32_to_f16(x as f32);
            $a Bf16 |x| half::f32_to_bf16(x as f32);
        }
    )+ };
}
// These are exact in f32.
to_half! { Bool I8 I16 U8 U16 F32 }
cast! {
    I32 F16 |x| half::f64_to_f16(f64::from(x));
    I32 Bf16 |x| half::f64_to_bf16(f64::from(x));
    U32 F16 |x| half::f64_to_f16(f64::from(x));
    U32 Bf16 |x| half::f64_to_bf16(f64::from(x));
    I64 F16 |x| half::f64_to_f16(half::odd_from_i64(x));
    I64 Bf16 |x| half::f64_to_bf16(half::odd_from_i64(x));
    U64 F16 |x| half::f64_to_f16(half::odd_from_u64(x));
    U64 Bf16 |x| half::f64_to_bf16(half::odd_from_u64(x));
    F64 F16 |x| half::f64_to_f16(x);
    F64 Bf16 |x| half::f64_to_bf16(x);
    F16 F16 |x| x;
    Bf16 Bf16 |x| x;
    F16 Bf16 |x| half::f32_to_bf16(half::f16_to_f32(x));
    Bf16 F16 |x| half::f32_to_f16(half::bf16_to_f32(x));
}

/// `select(condition, then, otherwise)`
pub struct Select;
impl<T: Lane> Op3<u8, T, T, T> for Select {
    #[inline(always)]
    fn op(c: u8, a: T, b: T) -> T {
        if c != 0 { a } else { b }
    }
}
/// Copies.
pub struct Copy;
impl<T: Lane> Op1<T, T> for Copy {
    #[inline(always)]
    fn op(a: T) -> T {
        a
    }
}

macro_rules! generic_ops {
    ($($name:ident $arity:ident $bound:ident ($($arg:ident),+) -> $out:ty, $e:expr;)+) => { $(
        pub struct $name<T>(PhantomData<T>);
        generic_ops!(@ $name $arity $bound ($($arg),+) $out, $e);
    )+ };
    (@ $name:ident Op1 $bound:ident ($a:ident) $out:ty, $e:expr) => {
        impl<T: $bound> Op1<T::E, $out> for $name<T> {
            #[inline(always)]
            fn op($a: T::E) -> $out { $e }
        }
    };
    (@ $name:ident Op2 $bound:ident ($a:ident, $b:ident) $out:ty, $e:expr) => {
        impl<T: $bound> Op2<T::E, T::E, $out> for $name<T> {
            #[inline(always)]
            fn op($a: T::E, $b: T::E) -> $out { $e }
        }
    };
    (@ $name:ident Op3 $bound:ident ($a:ident, $b:ident, $c:ident) $out:ty, $e:expr) => {
        impl<T: $bound> Op3<T::E, T::E, T::E, $out> for $name<T> {
            #[inline(always)]
            fn op($a: T::E, $b: T::E, $c: T::E) -> $out { $e }
        }
    };
}
generic_ops! {
    Lt Op2 Tag (a, b) -> u8, u8::from(T::lt(a, b));
    Le Op2 Tag (a, b) -> u8, u8::from(T::le(a, b));
    Eq Op2 Tag (a, b) -> u8, u8::from(T::eq(a, b));
    Ne Op2 Tag (a, b) -> u8, u8::from(!T::eq(a, b));
    Min Op2 Tag (a, b) -> T::E, T::min(a, b);
    Max Op2 Tag (a, b) -> T::E, T::max(a, b);
    Clamp Op3 Tag (a, b, c) -> T::E, T::min(T::max(a, b), c);
    Add Op2 Number (a, b) -> T::E, T::add(a, b);
    Sub Op2 Number (a, b) -> T::E, T::sub(a, b);
    Mul Op2 Number (a, b) -> T::E, T::mul(a, b);
    Div Op2 Number (a, b) -> T::E, T::div(a, b);
    Rem Op2 Number (a, b) -> T::E, T::rem(a, b);
    Neg Op1 Number (a) -> T::E, T::neg(a);
    Abs Op1 Number (a) -> T::E, T::abs(a);
    Sign Op1 Number (a) -> T::E, T::sign(a);
    MulAdd Op3 Number (a, b, c) -> T::E, T::mul_add(a, b, c);
    DivFloor Op2 Number (a, b) -> T::E, T::div_floor(a, b);
    ModFloor Op2 Number (a, b) -> T::E, T::mod_floor(a, b);
    And Op2 Bits (a, b) -> T::E, T::and(a, b);
    Or Op2 Bits (a, b) -> T::E, T::or(a, b);
    Xor Op2 Bits (a, b) -> T::E, T::xor(a, b);
    Shl Op2 Bits (a, b) -> T::E, T::shl(a, b);
    Shr Op2 Bits (a, b) -> T::E, T::shr(a, b);
    Not Op1 Bits (a) -> T::E, T::not(a);
    Ones Op1 Bits (a) -> T::E, T::ones(a);
    Zeros Op1 Bits (a) -> T::E, T::zeros(a);
}

macro_rules! math {
    ($($name:ident($($arg:ident),+) -> $out:ident, $m32:expr, $m64:expr;)+) => { $(
        pub struct $name;
        math!(@ $name f32 f32 ($($arg),+) $out, $m32);
        math!(@ $name f64 f64 ($($arg),+) $out, $m64);
    )+ };
    (@ $name:ident $ty:ident $o:ident ($a:ident) float, $e:expr) => {
        impl Op1<$ty, $ty> for $name {
            #[inline(always)]
            fn op($a: $ty) -> $ty { ($e)($a) }
        }
    };
    (@ $name:ident $ty:ident $o:ident ($a:ident) bool, $e:expr) => {
        impl Op1<$ty, u8> for $name {
            #[inline(always)]
            fn op($a: $ty) -> u8 { u8::from(($e)($a)) }
        }
    };
    (@ $name:ident $ty:ident $o:ident ($a:ident, $b:ident) float, $e:expr) => {
        impl Op2<$ty, $ty, $ty> for $name {
            #[inline(always)]
            fn op($a: $ty, $b: $ty) -> $ty { ($e)($a, $b) }
        }
    };
}
use gpukc_math::{f32 as m32, f64 as m64};
math! {
    Floor(a) -> float, f32::floor, f64::floor;
    Ceil(a) -> float, f32::ceil, f64::ceil;
    Trunc(a) -> float, f32::trunc, f64::trunc;
    Round(a) -> float, m32::round_f32, m64::round_f64;
    RoundTiesEven(a) -> float, f32::round_ties_even, f64::round_ties_even;
    Sqrt(a) -> float, f32::sqrt, f64::sqrt;
    Rsqrt(a) -> float, m32::rsqrt_f32, m64::rsqrt_f64;
    Cbrt(a) -> float, m32::cbrt_f32, m64::cbrt_f64;
    Exp(a) -> float, m32::exp_f32, m64::exp_f64;
    Exp2(a) -> float, m32::exp2_f32, m64::exp2_f64;
    Expm1(a) -> float, m32::expm1_f32, m64::expm1_f64;
    Log(a) -> float, m32::log_f32, m64::log_f64;
    Log2(a) -> float, m32::log2_f32, m64::log2_f64;
    Log10(a) -> float, m32::log10_f32, m64::log10_f64;
    Log1p(a) -> float, m32::log1p_f32, m64::log1p_f64;
    Pow(a, b) -> float, m32::pow_f32, m64::pow_f64;
    Sin(a) -> float, m32::sin_f32, m64::sin_f64;
    Cos(a) -> float, m32::cos_f32, m64::cos_f64;
    Tan(a) -> float, m32::tan_f32, m64::tan_f64;
    Asin(a) -> float, m32::asin_f32, m64::asin_f64;
    Acos(a) -> float, m32::acos_f32, m64::acos_f64;
    Atan(a) -> float, m32::atan_f32, m64::atan_f64;
    Atan2(a, b) -> float, m32::atan2_f32, m64::atan2_f64;
    Sinh(a) -> float, m32::sinh_f32, m64::sinh_f64;
    Cosh(a) -> float, m32::cosh_f32, m64::cosh_f64;
    Tanh(a) -> float, m32::tanh_f32, m64::tanh_f64;
    Erf(a) -> float, m32::erf_f32, m64::erf_f64;
    Erfc(a) -> float, m32::erfc_f32, m64::erfc_f64;
    Hypot(a, b) -> float, m32::hypot_f32, m64::hypot_f64;
    Copysign(a, b) -> float, f32::copysign, f64::copysign;
    IsNan(a) -> bool, f32::is_nan, f64::is_nan;
    IsInf(a) -> bool, f32::is_infinite, f64::is_infinite;
    IsFinite(a) -> bool, f32::is_finite, f64::is_finite;
}

macro_rules! single {
    ($($name:ident $a:ty => $o:ty, $e:expr;)+) => { $(
        pub struct $name;
        impl Op1<$a, $o> for $name {
            #[inline(always)]
            fn op(a: $a) -> $o { ($e)(a) }
        }
    )+ };
}
single! {
    ToBits32 f32 => i32, |a: f32| a.to_bits() as i32;
    ToBits64 f64 => i64, |a: f64| a.to_bits() as i64;
    FromBits32 i32 => f32, |a| f32::from_bits(a as u32);
    FromBits64 i64 => f64, |a| f64::from_bits(a as u64);
}
pub struct MulHigh;
impl Op2<u64, u64, u64> for MulHigh {
    #[inline(always)]
    fn op(a: u64, b: u64) -> u64 {
        ((u128::from(a) * u128::from(b)) >> 64) as u64
    }
}

/// Runs an expression with `$t` standing for the tag of a type.
#[macro_export]
#[doc(hidden)]
macro_rules! with_tag {
    ($ty:expr, $t:ident => $e:expr) => {
        match $ty {
            gpukc_dsl::types::Type::Bool => {
                type $t = $crate::ops::Bool;
                $e
            }
            gpukc_dsl::types::Type::I8 => {
                type $t = $crate::ops::I8;
                $e
            }
            gpukc_dsl::types::Type::I16 => {
                type $t = $crate::ops::I16;
                $e
            }
            gpukc_dsl::types::Type::I32 => {
                type $t = $crate::ops::I32;
                $e
            }
            gpukc_dsl::types::Type::I64 => {
                type $t = $crate::ops::I64;
                $e
            }
            gpukc_dsl::types::Type::U8 => {
                type $t = $crate::ops::U8;
                $e
            }
            gpukc_dsl::types::Type::U16 => {
                type $t = $crate::ops::U16;
                $e
            }
            gpukc_dsl::types::Type::U32 => {
                type $t = $crate::ops::U32;
                $e
            }
            gpukc_dsl::types::Type::U64 => {
                type $t = $crate::ops::U64;
                $e
            }
            gpukc_dsl::types::Type::F16 => {
                type $t = $crate::ops::F16;
                $e
            }
            gpukc_dsl::types::Type::Bf16 => {
                type $t = $crate::ops::Bf16;
                $e
            }
            gpukc_dsl::types::Type::F32 => {
                type $t = $crate::ops::F32;
                $e
            }
            gpukc_dsl::types::Type::F64 => {
                type $t = $crate::ops::F64;
                $e
            }
        }
    };
}
/// The same, for the types that compute as themselves and for the narrow integers; otherwise the last expression.
macro_rules! with_number {
    ($ty:expr, $t:ident => $e:expr, $else:expr) => {
        match $ty {
            Type::I32 => {
                type $t = I32;
                $e
            }
            Type::I64 => {
                type $t = I64;
                $e
            }
            Type::U32 => {
                type $t = U32;
                $e
            }
            Type::U64 => {
                type $t = U64;
                $e
            }
            Type::F32 => {
                type $t = F32;
                $e
            }
            Type::F64 => {
                type $t = F64;
                $e
            }
            _ => $else,
        }
    };
}
macro_rules! with_bits {
    ($ty:expr, $t:ident => $e:expr, $else:expr) => {
        match $ty {
            Type::Bool => {
                type $t = Bool;
                $e
            }
            Type::I8 => {
                type $t = I8;
                $e
            }
            Type::I16 => {
                type $t = I16;
                $e
            }
            Type::U8 => {
                type $t = U8;
                $e
            }
            Type::U16 => {
                type $t = U16;
                $e
            }
            Type::I32 => {
                type $t = I32;
                $e
            }
            Type::I64 => {
                type $t = I64;
                $e
            }
            Type::U32 => {
                type $t = U32;
                $e
            }
            Type::U64 => {
                type $t = U64;
                $e
            }
            _ => $else,
        }
    };
}

/// An operation that no checked program holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported(pub String);

fn unsupported<T>(what: impl std::fmt::Debug, ty: Type) -> Result<T, Unsupported> {
    Err(Unsupported(format!("{what:?} of {ty}")))
}

/// Negation and complement.
pub fn unary(op: UnaryOp, ty: Type) -> Result<Fn1, Unsupported> {
    match op {
        UnaryOp::Negate => {
            with_number!(ty, T => Ok(run1::<<T as Tag>::E, <T as Tag>::E, Neg<T>>), unsupported(op, ty))
        }
        UnaryOp::Not => with_bits!(ty, T => Ok(run1::<<T as Tag>::E, <T as Tag>::E, Not<T>>), unsupported(op, ty)),
    }
}

/// Binary operators; `swap` says that operands are to be exchanged. `&&` and `||` of evaluated operands.
pub fn binary(op: BinaryOp, ty: Type) -> Result<(Fn2, bool), Unsupported> {
    macro_rules! number {
        ($op:ident) => {
            with_number!(ty, T => Ok((run2::<<T as Tag>::E, <T as Tag>::E, <T as Tag>::E, $op<T>>, false)), unsupported(op, ty))
        };
    }
    macro_rules! bits {
        ($op:ident) => {
            with_bits!(ty, T => Ok((run2::<<T as Tag>::E, <T as Tag>::E, <T as Tag>::E, $op<T>>, false)), unsupported(op, ty))
        };
    }
    macro_rules! compare {
        ($op:ident, $swap:literal) => {
            with_tag!(ty, T => Ok((run2::<<T as Tag>::E, <T as Tag>::E, u8, $op<T>>, $swap)))
        };
    }
    match op {
        BinaryOp::Mul => number!(Mul),
        BinaryOp::Div => number!(Div),
        BinaryOp::Rem => number!(Rem),
        BinaryOp::Add => number!(Add),
        BinaryOp::Sub => number!(Sub),
        BinaryOp::Shl => bits!(Shl),
        BinaryOp::Shr => bits!(Shr),
        BinaryOp::BitAnd => bits!(And),
        BinaryOp::BitXor => bits!(Xor),
        BinaryOp::BitOr => bits!(Or),
        BinaryOp::And => Ok((run2::<u8, u8, u8, And<Bool>>, false)),
        BinaryOp::Or => Ok((run2::<u8, u8, u8, Or<Bool>>, false)),
        BinaryOp::Eq => compare!(Eq, false),
        BinaryOp::Ne => compare!(Ne, false),
        BinaryOp::Lt => compare!(Lt, false),
        BinaryOp::Le => compare!(Le, false),
        BinaryOp::Gt => compare!(Lt, true),
        BinaryOp::Ge => compare!(Le, true),
    }
}

/// Casts.
pub fn cast(from: Type, to: Type) -> Fn1 {
    with_tag!(from, A => with_tag!(to, B => run1::<<A as Tag>::E, <B as Tag>::E, Cast<A, B>>))
}

macro_rules! with_store {
    ($store:expr, $t:ident => $e:expr) => {
        match $store {
            Store::U8 => {
                type $t = u8;
                $e
            }
            Store::I8 => {
                type $t = i8;
                $e
            }
            Store::I16 => {
                type $t = i16;
                $e
            }
            Store::U16 => {
                type $t = u16;
                $e
            }
            Store::I32 => {
                type $t = i32;
                $e
            }
            Store::U32 => {
                type $t = u32;
                $e
            }
            Store::I64 => {
                type $t = i64;
                $e
            }
            Store::U64 => {
                type $t = u64;
                $e
            }
            Store::F32 => {
                type $t = f32;
                $e
            }
            Store::F64 => {
                type $t = f64;
                $e
            }
        }
    };
}
pub(crate) use with_store;

/// `select(condition, then, otherwise)` of a storage.
pub fn select(store: Store) -> Fn3 {
    with_store!(store, T => run3::<u8, T, T, T, Select>)
}

/// Copies a register of a storage.
pub fn copy(store: Store) -> Fn1 {
    with_store!(store, T => run1::<T, T, Copy>)
}

/// A built-in function.
#[derive(Clone, Copy)]
pub enum Function {
    One(Fn1),
    Two(Fn2),
    Three(Fn3),
}

/// The built-in function at a type (its first argument's).
pub fn builtin(builtin: Builtin, ty: Type) -> Result<Function, Unsupported> {
    use Function::*;
    macro_rules! any2 {
        ($op:ident) => {
            with_tag!(ty, T => Ok(Two(run2::<<T as Tag>::E, <T as Tag>::E, <T as Tag>::E, $op<T>>)))
        };
    }
    macro_rules! number {
        ($form:ident $run:ident $op:ident $($e:ident)+) => {
            with_number!(ty, T => Ok($form($run::<$($e!(T)),+, $op<T>>)), unsupported(builtin, ty))
        };
    }
    macro_rules! e {
        ($t:ident) => {
            <$t as Tag>::E
        };
    }
    macro_rules! bits {
        ($op:ident) => {
            with_bits!(ty, T => Ok(One(run1::<<T as Tag>::E, <T as Tag>::E, $op<T>>)), unsupported(builtin, ty))
        };
    }
    macro_rules! float {
        (1 $op:ident) => {
            match ty {
                Type::F32 => Ok(One(run1::<f32, f32, $op>)),
                Type::F64 => Ok(One(run1::<f64, f64, $op>)),
                _ => unsupported(builtin, ty),
            }
        };
        (2 $op:ident) => {
            match ty {
                Type::F32 => Ok(Two(run2_spread::<f32, f32, f32, $op>)),
                Type::F64 => Ok(Two(run2_spread::<f64, f64, f64, $op>)),
                _ => unsupported(builtin, ty),
            }
        };
        (bool $op:ident) => {
            match ty {
                Type::F32 => Ok(One(run1::<f32, u8, $op>)),
                Type::F64 => Ok(One(run1::<f64, u8, $op>)),
                _ => unsupported(builtin, ty),
            }
        };
    }
    match builtin {
        Builtin::Abs => number!(One run1 Abs e e),
        Builtin::Sign => number!(One run1 Sign e e),
        Builtin::Min => any2!(Min),
        Builtin::Max => any2!(Max),
        Builtin::Clamp => {
            with_tag!(ty, T => Ok(Three(run3::<<T as Tag>::E, <T as Tag>::E, <T as Tag>::E, <T as Tag>::E, Clamp<T>>)))
        }
        Builtin::Floor => float!(1 Floor),
        Builtin::Ceil => float!(1 Ceil),
        Builtin::Trunc => float!(1 Trunc),
        Builtin::Round => float!(1 Round),
        Builtin::RoundTiesEven => float!(1 RoundTiesEven),
        Builtin::Sqrt => float!(1 Sqrt),
        Builtin::Rsqrt => float!(1 Rsqrt),
        Builtin::Cbrt => float!(1 Cbrt),
        Builtin::Exp => float!(1 Exp),
        Builtin::Exp2 => float!(1 Exp2),
        Builtin::Expm1 => float!(1 Expm1),
        Builtin::Log => float!(1 Log),
        Builtin::Log2 => float!(1 Log2),
        Builtin::Log10 => float!(1 Log10),
        Builtin::Log1p => float!(1 Log1p),
        Builtin::Pow => float!(2 Pow),
        Builtin::Sin => float!(1 Sin),
        Builtin::Cos => float!(1 Cos),
        Builtin::Tan => float!(1 Tan),
        Builtin::Asin => float!(1 Asin),
        Builtin::Acos => float!(1 Acos),
        Builtin::Atan => float!(1 Atan),
        Builtin::Atan2 => float!(2 Atan2),
        Builtin::Sinh => float!(1 Sinh),
        Builtin::Cosh => float!(1 Cosh),
        Builtin::Tanh => float!(1 Tanh),
        Builtin::Erf => float!(1 Erf),
        Builtin::Erfc => float!(1 Erfc),
        Builtin::Hypot => float!(2 Hypot),
        Builtin::MulAdd => number!(Three run3 MulAdd e e e e),
        Builtin::Copysign => float!(2 Copysign),
        Builtin::IsNan => float!(bool IsNan),
        Builtin::IsInf => float!(bool IsInf),
        Builtin::IsFinite => float!(bool IsFinite),
        Builtin::CountOnes => bits!(Ones),
        Builtin::LeadingZeros => bits!(Zeros),
        Builtin::DivFloor => number!(Two run2 DivFloor e e e),
        Builtin::ModFloor => number!(Two run2 ModFloor e e e),
        Builtin::ToBits if ty == Type::F64 => Ok(One(run1::<f64, i64, ToBits64>)),
        Builtin::ToBits => Ok(One(run1::<f32, i32, ToBits32>)),
        Builtin::F32FromBits => Ok(One(run1::<i32, f32, FromBits32>)),
        Builtin::F64FromBits => Ok(One(run1::<i64, f64, FromBits64>)),
        Builtin::MulHigh => Ok(Two(run2::<u64, u64, u64, MulHigh>)),
        Builtin::WrappingAdd => number!(Two run2 Add e e e),
        Builtin::WrappingSub => number!(Two run2 Sub e e e),
        Builtin::WrappingMul => number!(Two run2 Mul e e e),
    }
}

/// Stores one value in a register that does not vary.
pub fn set(frame: &mut Frame, reg: Reg, bits: u64) {
    let index = reg.index as usize;
    match reg.store {
        Store::U8 => u8::pool_mut(frame)[index].fill(bits as u8),
        Store::I8 => i8::pool_mut(frame)[index].fill(bits as i8),
        Store::I16 => i16::pool_mut(frame)[index].fill(bits as i16),
        Store::U16 => u16::pool_mut(frame)[index].fill(bits as u16),
        Store::I32 => i32::pool_mut(frame)[index].fill(bits as i32),
        Store::U32 => u32::pool_mut(frame)[index].fill(bits as u32),
        Store::I64 => i64::pool_mut(frame)[index].fill(bits as i64),
        Store::U64 => u64::pool_mut(frame)[index].fill(bits),
        Store::F32 => f32::pool_mut(frame)[index].fill(f32::from_bits(bits as u32)),
        Store::F64 => f64::pool_mut(frame)[index].fill(f64::from_bits(bits)),
    }
}

// Integer arithmetic that wraps: computed without signs, where C++ defines every result.
template <class T> __device__ __forceinline__ T wrapping_add(T a, T b) {
    return (T)((unsigned long long)a + (unsigned long long)b);
}

template <class T> __device__ __forceinline__ T wrapping_sub(T a, T b) {
    return (T)((unsigned long long)a - (unsigned long long)b);
}

template <class T> __device__ __forceinline__ T wrapping_mul(T a, T b) {
    return (T)((unsigned long long)a * (unsigned long long)b);
}

template <class T> __device__ __forceinline__ T wrapping_neg(T a) {
    return (T)(0 - (unsigned long long)a);
}

// a / b towards zero. By zero: 0. The smallest number by -1 wraps to itself.
template <class T> __device__ __forceinline__ T divide(T a, T b) {
    constexpr bool is_signed = (T)-1 < (T)1;
    if (b == 0) return 0;
    return is_signed && b == (T)-1 ? wrapping_neg(a) : a / b;
}

// What divide leaves: it has the sign of a. By zero: 0.
template <class T> __device__ __forceinline__ T remainder(T a, T b) {
    constexpr bool is_signed = (T)-1 < (T)1;
    return b == 0 || (is_signed && b == (T)-1) ? 0 : a % b;
}

// a / b rounded down. By zero: 0.
template <class T> __device__ __forceinline__ T div_floor(T a, T b) {
    constexpr bool is_signed = (T)-1 < (T)1;
    bool inexact_below_zero = is_signed && (a ^ b) >> (8 * sizeof(T) - 1) != 0 && remainder(a, b) != 0;
    return divide(a, b) - (T)inexact_below_zero;
}

// What div_floor leaves: it has the sign of b. By zero: 0.
template <class T> __device__ __forceinline__ T mod_floor(T a, T b) {
    constexpr bool is_signed = (T)-1 < (T)1;
    T rest = remainder(a, b);
    return is_signed && rest != 0 && (rest ^ b) >> (8 * sizeof(T) - 1) != 0 ? rest + b : rest;
}

// a << b; a count outside the width, negative ones included, shifts everything out.
template <class T> __device__ __forceinline__ T shift_left(T a, T b) {
    return (Unsigned<T>)b < 8 * sizeof(T) ? (T)((Unsigned<T>)a << b) : 0;
}

// a >> b; a count outside the width shifts everything out and leaves 0, of a negative number -1.
template <class T> __device__ __forceinline__ T shift_right(T a, T b) {
    constexpr Unsigned<T> last = 8 * sizeof(T) - 1;
    if ((Unsigned<T>)b <= last) return a >> b;
    return (T)-1 < (T)1 ? a >> last : 0;
}

// |a|; the smallest number wraps to itself.
template <class T> __device__ __forceinline__ T absolute(T a) {
    return a < 0 ? wrapping_neg(a) : a;
}

// The upper half of the 128-bit product.
__device__ __forceinline__ unsigned long long mul_high(unsigned long long a, unsigned long long b) {
    return __umul64hi(a, b);
}

// How many bits are set.
__device__ __forceinline__ int count_ones_i8(signed char x) {
    return __popc((unsigned char)x);
}

__device__ __forceinline__ int count_ones_u8(unsigned char x) {
    return __popc(x);
}

__device__ __forceinline__ int count_ones_i16(short x) {
    return __popc((unsigned short)x);
}

__device__ __forceinline__ int count_ones_u16(unsigned short x) {
    return __popc(x);
}

__device__ __forceinline__ int count_ones_i32(int x) {
    return __popc(x);
}

__device__ __forceinline__ unsigned int count_ones_u32(unsigned int x) {
    return __popc(x);
}

__device__ __forceinline__ long long count_ones_i64(long long x) {
    return __popcll(x);
}

__device__ __forceinline__ unsigned long long count_ones_u64(unsigned long long x) {
    return __popcll(x);
}

// How many bits stand above the highest one that is set; of zero, the width.
__device__ __forceinline__ int leading_zeros_i8(signed char x) {
    return __clz((unsigned char)x) - 24;
}

__device__ __forceinline__ int leading_zeros_u8(unsigned char x) {
    return __clz(x) - 24;
}

__device__ __forceinline__ int leading_zeros_i16(short x) {
    return __clz((unsigned short)x) - 16;
}

__device__ __forceinline__ int leading_zeros_u16(unsigned short x) {
    return __clz(x) - 16;
}

__device__ __forceinline__ int leading_zeros_i32(int x) {
    return __clz(x);
}

__device__ __forceinline__ unsigned int leading_zeros_u32(unsigned int x) {
    return __clz(x);
}

__device__ __forceinline__ long long leading_zeros_i64(long long x) {
    return __clzll(x);
}

__device__ __forceinline__ unsigned long long leading_zeros_u64(unsigned long long x) {
    return __clzll(x);
}

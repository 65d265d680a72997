// 1, -1 or 0 with the sign of x; of zero and NaN, x itself.
template <class T> __device__ __forceinline__ T sign(T x) {
    if (x == 0 || x != x) return x;
    return x > 0 ? (T)1 : (T)-1;
}

// A half to a float: exact.
__device__ __forceinline__ float f16_to_f32(f16 x) {
#if defined(__CUDA_ARCH__)
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x));
    return result;
#else
    int magnitude = (x & 0x7fff) << 13, sign_bit = (x & 0x8000) << 16;
    // As a float the bits are 2^112 times too small; infinities and NaN have an exponent of their own.
    float scaled = bits_float(magnitude) * 0x1p112f;
    return bits_float((magnitude < 0x0f800000 ? float_bits(scaled) : magnitude | 0x7f800000) | sign_bit);
#endif
}

// A float to the nearest half, ties to even; NaN stays NaN.
__device__ __forceinline__ f16 f32_to_f16(float x) {
#if defined(__CUDA_ARCH__)
    f16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
    return result;
#else
    int magnitude = float_bits(x) & 0x7fffffff, sign_bit = float_bits(x) >> 16 & 0x8000;
    if (magnitude > 0x7f800000) return (f16)(sign_bit | 0x7fff);
    if (magnitude >= 0x47800000) return (f16)(sign_bit | 0x7c00);
    // Below 2^-14 the last bit stands for 2^-24, as it does in a float next to 0.5.
    int small = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000;
    if (magnitude < 0x38800000) return (f16)(sign_bit | small);
    return (f16)(sign_bit | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
#endif
}

// A bfloat16 to a float: exact.
__device__ __forceinline__ float bf16_to_f32(bf16 x) {
    return bits_float((int)((unsigned int)x << 16));
}

// A float to the nearest bfloat16, ties to even; NaN stays NaN.
__device__ __forceinline__ bf16 f32_to_bf16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(x));
    return result;
#else
    unsigned int bits = (unsigned int)float_bits(x);
    return x == x ? (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : (bf16)0x7fff;
#endif
}

// A double to a float whose last bit is odd if the conversion was inexact. Rounding that to a type with at
// least two bits less gives what rounding the double once gives.
__device__ __forceinline__ float round_to_odd(double x) {
    float nearest = (float)x;
    int bits = float_bits(nearest);
    if (x != x || nearest == x || (bits & 1) != 0) return nearest;
    return bits_float((nearest < x) == (x > 0) ? bits + 1 : bits - 1);
}

// Other types to the nearest half or bfloat16, each rounded once.
__device__ __forceinline__ f16 f64_to_f16(double x) {
    return f32_to_f16(round_to_odd(x));
}

__device__ __forceinline__ bf16 f64_to_bf16(double x) {
    return f32_to_bf16(round_to_odd(x));
}

// From 65520 up, a half is infinite.
__device__ __forceinline__ f16 i64_to_f16(long long x) {
    return f32_to_f16((float)(x > 65536 ? 65536 : x < -65536 ? -65536 : x));
}

__device__ __forceinline__ f16 u64_to_f16(unsigned long long x) {
    return f32_to_f16((float)(x > 65536 ? 65536 : x));
}

// Of the bits that a float has no room for, one remembers whether any is set.
__device__ __forceinline__ bf16 u64_to_bf16(unsigned long long x) {
    int surplus = 40 - __clzll((long long)x);
    if (surplus > 0) {
        unsigned long long kept = x >> surplus << surplus;
        x = kept == x ? kept : kept | 1ull << surplus;
    }
    return f32_to_bf16((float)x);
}

__device__ __forceinline__ bf16 i64_to_bf16(long long x) {
    unsigned long long magnitude = x < 0 ? 0 - (unsigned long long)x : (unsigned long long)x;
    return (bf16)(u64_to_bf16(magnitude) | (x < 0 ? 0x8000 : 0));
}

// A float to an integer, towards zero; beyond the limits, the limit; NaN gives 0.
template <class I, class F> __device__ __forceinline__ I saturate(F x, I lowest, I highest) {
    if (x >= (F)highest) return highest;
    if (x <= (F)lowest) return lowest;
    return x == x ? (I)x : 0;
}

template <class F> __device__ __forceinline__ signed char saturate_i8(F x) {
    return saturate<signed char>(x, -128, 127);
}

template <class F> __device__ __forceinline__ short saturate_i16(F x) {
    return saturate<short>(x, -32768, 32767);
}

template <class F> __device__ __forceinline__ int saturate_i32(F x) {
    return saturate<int>(x, -2147483647 - 1, 2147483647);
}

template <class F> __device__ __forceinline__ long long saturate_i64(F x) {
    return saturate<long long>(x, -9223372036854775807ll - 1, 9223372036854775807ll);
}

template <class F> __device__ __forceinline__ unsigned char saturate_u8(F x) {
    return saturate<unsigned char>(x, 0, 255);
}

template <class F> __device__ __forceinline__ unsigned short saturate_u16(F x) {
    return saturate<unsigned short>(x, 0, 65535);
}

template <class F> __device__ __forceinline__ unsigned int saturate_u32(F x) {
    return saturate<unsigned int>(x, 0, 4294967295u);
}

template <class F> __device__ __forceinline__ unsigned long long saturate_u64(F x) {
    return saturate<unsigned long long>(x, 0, 18446744073709551615ull);
}

// The smaller of two. Of floats: NaN if either is, and -0 below +0.
template <class T> __device__ __forceinline__ T minimum(T a, T b) {
    const auto x = +a, y = +b;
    return (T)(y < x ? y : x);
}

__device__ __forceinline__ float minimum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    // Equal numbers have equal bits, zeros aside: those differ in the sign.
    if (a == b) return bits_float(float_bits(a) | float_bits(b));
    return a < b || a != a ? a : b;
#endif
}

__device__ __forceinline__ double minimum(double a, double b) {
    double other = a < b || a != a ? a : b;
    return a == b ? bits_double(double_bits(a) | double_bits(b)) : other;
}

// The larger of two. Of floats: NaN if either is, and +0 above -0.
template <class T> __device__ __forceinline__ T maximum(T a, T b) {
    const auto x = +a, y = +b;
    return (T)(x < y ? y : x);
}

__device__ __forceinline__ float maximum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    // Equal numbers have equal bits, zeros aside: those differ in the sign.
    if (a == b) return bits_float(float_bits(a) & float_bits(b));
    return a > b || a != a ? a : b;
#endif
}

__device__ __forceinline__ double maximum(double a, double b) {
    double other = a > b || a != a ? a : b;
    return a == b ? bits_double(double_bits(a) & double_bits(b)) : other;
}

__device__ __forceinline__ f16 minimum_f16(f16 a, f16 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    f16 result;
    asm("min.NaN.f16 %0, %1, %2;" : "=h"(result) : "h"(a), "h"(b));
    return result;
#else
    return f32_to_f16(minimum(f16_to_f32(a), f16_to_f32(b)));
#endif
}

__device__ __forceinline__ f16 maximum_f16(f16 a, f16 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    f16 result;
    asm("max.NaN.f16 %0, %1, %2;" : "=h"(result) : "h"(a), "h"(b));
    return result;
#else
    return f32_to_f16(maximum(f16_to_f32(a), f16_to_f32(b)));
#endif
}

__device__ __forceinline__ bf16 minimum_bf16(bf16 a, bf16 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    bf16 result;
    asm("min.NaN.bf16 %0, %1, %2;" : "=h"(result) : "h"(a), "h"(b));
    return result;
#else
    return f32_to_bf16(minimum(bf16_to_f32(a), bf16_to_f32(b)));
#endif
}

__device__ __forceinline__ bf16 maximum_bf16(bf16 a, bf16 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    bf16 result;
    asm("max.NaN.bf16 %0, %1, %2;" : "=h"(result) : "h"(a), "h"(b));
    return result;
#else
    return f32_to_bf16(maximum(bf16_to_f32(a), bf16_to_f32(b)));
#endif
}

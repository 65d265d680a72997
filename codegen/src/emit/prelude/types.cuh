// An IEEE half, as its bits.
using f16 = unsigned short;

// A bfloat16, as its bits: the upper half of a float.
using bf16 = unsigned short;

// Neighbouring elements that move as one access.
template <class T, int N> struct alignas(sizeof(T) * N) Pack {
    T at[N];
};

// The unsigned type of the same width.
template <class T> struct UnsignedOf { using type = T; };
template <> struct UnsignedOf<int> { using type = unsigned int; };
template <> struct UnsignedOf<long long> { using type = unsigned long long; };
template <class T> using Unsigned = typename UnsignedOf<T>::type;

// A float as its bits, and back.
__device__ __forceinline__ int float_bits(float x) {
    return __float_as_int(x);
}

__device__ __forceinline__ float bits_float(int bits) {
    return __int_as_float(bits);
}

// A double as its bits, and back.
__device__ __forceinline__ long long double_bits(double x) {
    return __double_as_longlong(x);
}

__device__ __forceinline__ double bits_double(long long bits) {
    return __longlong_as_double(bits);
}

// Constants that have no literal.
__device__ __forceinline__ float infinity_f32() {
    return bits_float(0x7f800000);
}

__device__ __forceinline__ float nan_f32() {
    return bits_float(0x7fc00000);
}

__device__ __forceinline__ double infinity_f64() {
    return bits_double(0x7ff0000000000000);
}

__device__ __forceinline__ double nan_f64() {
    return bits_double(0x7ff8000000000000);
}

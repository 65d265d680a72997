// Bitwise or and and, for accumulations.
struct BitOr {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a | b; }
};

struct BitAnd {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a & b; }
};

// The unsigned type whose compare-and-swap serves a type of that many bytes.
template <int BYTES> struct Swappable { using type = unsigned int; };
template <> struct Swappable<8> { using type = unsigned long long; };

// Combines a value into memory: tries until no other thread has come between the reading and the writing.
template <class T, class Combine> __device__ __forceinline__ void accumulate(T* place, T value, Combine combine) {
    using Bits = typename Swappable<sizeof(T)>::type;
    union Word {
        Bits bits;
        T value;
    };
    Word seen;
    seen.bits = *(volatile Bits*)place;
    while (true) {
        Word next, found;
        next.value = combine(seen.value, value);
        if (next.bits == seen.bits) return;
        found.bits = atomicCAS((Bits*)place, seen.bits, next.bits);
        if (found.bits == seen.bits) return;
        seen = found;
    }
}

// On global memory atomicAdd takes subnormal floats for zero. With a value from 2^-100 on that changes nothing: what is
// subnormal is less than half a step of it, and the sum is zero or no smaller than the least normal number.
__device__ __forceinline__ void accumulate(float* place, float value, Sum combine) {
    if (fabsf(value) >= 0x1p-100f) {
        atomicAdd(place, value);
    } else {
        accumulate<float, Sum>(place, value, combine);
    }
}

// What the hardware combines by itself. Sums of integers wrap, whatever their sign.
__device__ __forceinline__ void accumulate(int* place, int value, Sum) {
    atomicAdd(place, value);
}

__device__ __forceinline__ void accumulate(unsigned int* place, unsigned int value, Sum) {
    atomicAdd(place, value);
}

__device__ __forceinline__ void accumulate(long long* place, long long value, Sum) {
    atomicAdd((unsigned long long*)place, (unsigned long long)value);
}

__device__ __forceinline__ void accumulate(unsigned long long* place, unsigned long long value, Sum) {
    atomicAdd(place, value);
}

__device__ __forceinline__ void accumulate(double* place, double value, Sum) {
    atomicAdd(place, value);
}

__device__ __forceinline__ void accumulate(int* place, int value, Minimum) {
    atomicMin(place, value);
}

__device__ __forceinline__ void accumulate(int* place, int value, Maximum) {
    atomicMax(place, value);
}

// Adds neighbouring floats to global memory, from a place on where a pack may lie: by one operation, which treats each as above.
__device__ __forceinline__ void accumulate_pack(float* place, Pack<float, 4> values, Sum combine) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1201
    const float low = fminf(fabsf(values.at[0]), fabsf(values.at[1]));
    const float high = fminf(fabsf(values.at[2]), fabsf(values.at[3]));
    if (fminf(low, high) >= 0x1p-100f) {
        atomicAdd((float4*)place, make_float4(values.at[0], values.at[1], values.at[2], values.at[3]));
        return;
    }
#endif
    #pragma unroll
    for (int lane = 0; lane < 4; lane++) accumulate(&place[lane], values.at[lane], combine);
}

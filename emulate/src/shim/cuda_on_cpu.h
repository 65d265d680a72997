// CUDA for g++ and clang++, as much of it as emitted texts use: what stands before an unmodified text so that it builds for
// the host. Threads, barriers and warps live in runner.cpp, which loads what is built here.
//
// It includes nothing: it compiles in no time, and no name of the C library can clash with a text's.
#pragma once

namespace cuda_on_cpu {

struct Index {
    unsigned int x, y, z;
};

// Where the running thread stands.
struct Here {
    Index thread, block, threads, blocks;
};

// How lanes of a warp exchange values.
enum Exchange { FROM_LANE, FROM_BELOW, FROM_ABOVE, FROM_XOR, BALLOT, WARP_BARRIER };

extern "C" {
extern Here cuda_on_cpu_here;
// All threads of the block meet. The line tells barriers apart.
void cuda_on_cpu_barrier(int line);
// All threads of the cluster meet.
void cuda_on_cpu_cluster_barrier(int line);
// What the block of that number in the cluster has at the same place of its shared memory.
const void* cuda_on_cpu_of_block(const void* place, unsigned int rank);
// All lanes that the mask names meet and give values.
unsigned long long cuda_on_cpu_exchange(int how, unsigned int mask, unsigned long long bits, unsigned int argument, int width);
}

template <class To, class From> inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

template <class T> inline T exchange(int how, unsigned int mask, T value, unsigned int argument, int width) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles 4 or 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = cuda_on_cpu_exchange(how, mask, bits, argument, width);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// What CUDA's overloads make of a type: narrow integers become int.
template <class T> struct Promoted { using type = decltype(T() + T()); };

// A launch gives its arguments as words; a function receives them by their types.
template <class Function> struct Entry;
template <class... Parameters> struct Entry<void(Parameters...)> {
    // The sizes of the parameters, then 0.
    static constexpr unsigned char sizes[] = {sizeof(Parameters)..., 0};
    static void call(void (*function)(), const unsigned long long* words) {
        next((void (*)(Parameters...))function, words);
    }

private:
    template <class T> static T take(const unsigned long long* word) {
        T value;
        __builtin_memcpy(&value, word, sizeof value);
        return value;
    }
    template <class... Taken> static void next(void (*function)(Parameters...), const unsigned long long* words, Taken... taken) {
        if constexpr (sizeof...(Taken) == sizeof...(Parameters)) {
            function(taken...);
        } else {
            next(function, words, taken..., take<Type<sizeof...(Taken), Parameters...>>(words + sizeof...(Taken)));
        }
    }
    template <unsigned long N, class First, class... Rest> struct Nth { using type = typename Nth<N - 1, Rest...>::type; };
    template <class First, class... Rest> struct Nth<0, First, Rest...> { using type = First; };
    template <unsigned long N, class... All> using Type = typename Nth<N, All...>::type;
};

// A `__global__` function, for the runner.
struct Listed {
    const char* name;
    void (*function)();
    void (*call)(void (*function)(), const unsigned long long* words);
    const unsigned char* sizes;
    // Where its text's shared memory lies.
    char *shared_begin, *shared_end;
};

}  // namespace cuda_on_cpu

// The runner needs no more than that.
#ifndef CUDA_ON_CPU_RUNNER

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section(CUDA_ON_CPU_SHARED)))

#define threadIdx (cuda_on_cpu_here.thread)
#define blockIdx (cuda_on_cpu_here.block)
#define blockDim (cuda_on_cpu_here.threads)
#define gridDim (cuda_on_cpu_here.blocks)
#define warpSize 32
using cuda_on_cpu::cuda_on_cpu_here;

#define __syncthreads() cuda_on_cpu::cuda_on_cpu_barrier(__LINE__)

// One arrives where one waits: nothing stands between the two.
#define __cluster_barrier_arrive() ((void)0)
#define __cluster_barrier_wait() cuda_on_cpu::cuda_on_cpu_cluster_barrier(__LINE__)
inline const void* __cluster_map_shared_rank(const void* place, unsigned int rank) {
    return cuda_on_cpu::cuda_on_cpu_of_block(place, rank);
}

inline void __syncwarp(unsigned int mask = 0xffffffffu) {
    cuda_on_cpu::cuda_on_cpu_exchange(cuda_on_cpu::WARP_BARRIER, mask, 0, 0, 32);
}
template <class T> inline typename cuda_on_cpu::Promoted<T>::type __shfl_sync(unsigned int mask, T value, int lane, int width = 32) {
    return cuda_on_cpu::exchange<typename cuda_on_cpu::Promoted<T>::type>(cuda_on_cpu::FROM_LANE, mask, value, (unsigned int)lane, width);
}
template <class T>
inline typename cuda_on_cpu::Promoted<T>::type __shfl_up_sync(unsigned int mask, T value, unsigned int distance, int width = 32) {
    return cuda_on_cpu::exchange<typename cuda_on_cpu::Promoted<T>::type>(cuda_on_cpu::FROM_BELOW, mask, value, distance, width);
}
template <class T>
inline typename cuda_on_cpu::Promoted<T>::type __shfl_down_sync(unsigned int mask, T value, unsigned int distance, int width = 32) {
    return cuda_on_cpu::exchange<typename cuda_on_cpu::Promoted<T>::type>(cuda_on_cpu::FROM_ABOVE, mask, value, distance, width);
}
template <class T>
inline typename cuda_on_cpu::Promoted<T>::type __shfl_xor_sync(unsigned int mask, T value, int distance, int width = 32) {
    return cuda_on_cpu::exchange<typename cuda_on_cpu::Promoted<T>::type>(cuda_on_cpu::FROM_XOR, mask, value, (unsigned int)distance, width);
}
inline unsigned int __ballot_sync(unsigned int mask, int predicate) {
    return (unsigned int)cuda_on_cpu::cuda_on_cpu_exchange(cuda_on_cpu::BALLOT, mask, predicate != 0, 0, 32);
}
inline int __any_sync(unsigned int mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned int mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

// Atomics. Threads of one process may be interrupted at barriers and shuffles only, but a race detector must see them.
template <class T> inline T atomicCAS(T* at, T expected, T value) {
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
namespace cuda_on_cpu {
template <class T, class Next> inline T update(T* at, Next next) {
    T seen, wanted;
    __atomic_load(at, &seen, __ATOMIC_RELAXED);
    do {
        wanted = next(seen);
    } while (!__atomic_compare_exchange(at, &seen, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return seen;
}
inline int sum(int a, int b) { return (int)((unsigned int)a + (unsigned int)b); }
inline unsigned int sum(unsigned int a, unsigned int b) { return a + b; }
inline unsigned long long sum(unsigned long long a, unsigned long long b) { return a + b; }
inline float sum(float a, float b) { return a + b; }
inline double sum(double a, double b) { return a + b; }
}  // namespace cuda_on_cpu
#define CUDA_ON_CPU_ATOMIC(T)                                                                                            \
    inline T atomicMin(T* at, T value) { return cuda_on_cpu::update(at, [=](T old) { return old < value ? old : value; }); } \
    inline T atomicMax(T* at, T value) { return cuda_on_cpu::update(at, [=](T old) { return old > value ? old : value; }); } \
    inline T atomicAnd(T* at, T value) { return cuda_on_cpu::update(at, [=](T old) { return old & value; }); }               \
    inline T atomicOr(T* at, T value) { return cuda_on_cpu::update(at, [=](T old) { return old | value; }); }                \
    inline T atomicXor(T* at, T value) { return cuda_on_cpu::update(at, [=](T old) { return old ^ value; }); }               \
    inline T atomicExch(T* at, T value) { return cuda_on_cpu::update(at, [=](T) { return value; }); }
CUDA_ON_CPU_ATOMIC(int)
CUDA_ON_CPU_ATOMIC(unsigned int)
CUDA_ON_CPU_ATOMIC(long long)
CUDA_ON_CPU_ATOMIC(unsigned long long)
#define CUDA_ON_CPU_ATOMIC_ADD(T) \
    inline T atomicAdd(T* at, T value) { return cuda_on_cpu::update(at, [=](T old) { return cuda_on_cpu::sum(old, value); }); }
CUDA_ON_CPU_ATOMIC_ADD(int)
CUDA_ON_CPU_ATOMIC_ADD(unsigned int)
CUDA_ON_CPU_ATOMIC_ADD(unsigned long long)
CUDA_ON_CPU_ATOMIC_ADD(float)
CUDA_ON_CPU_ATOMIC_ADD(double)
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Bits.
inline int __float_as_int(float x) { return cuda_on_cpu::same_bits<int>(x); }
inline unsigned int __float_as_uint(float x) { return cuda_on_cpu::same_bits<unsigned int>(x); }
inline float __int_as_float(int x) { return cuda_on_cpu::same_bits<float>(x); }
inline float __uint_as_float(unsigned int x) { return cuda_on_cpu::same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return cuda_on_cpu::same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return cuda_on_cpu::same_bits<double>(x); }
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned int __brev(unsigned int x) {
    unsigned int out = 0;
    for (int bit = 0; bit < 32; bit++) out |= (x >> bit & 1) << (31 - bit);
    return out;
}
inline unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned int)((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
template <class T> inline T __ldg(const T* at) { return *at; }

// Arithmetic that IEEE 754 defines. (The mathematical functions of gk come with the text.)
#define CUDA_ON_CPU_UNARY(name)                                        \
    inline float name##f(float x) { return __builtin_##name##f(x); }   \
    inline float name(float x) { return __builtin_##name##f(x); }      \
    inline double name(double x) { return __builtin_##name(x); }
CUDA_ON_CPU_UNARY(fabs)
CUDA_ON_CPU_UNARY(floor)
CUDA_ON_CPU_UNARY(ceil)
CUDA_ON_CPU_UNARY(trunc)
CUDA_ON_CPU_UNARY(rint)
CUDA_ON_CPU_UNARY(nearbyint)
CUDA_ON_CPU_UNARY(round)
CUDA_ON_CPU_UNARY(sqrt)
#define CUDA_ON_CPU_BINARY(name)                                                      \
    inline float name##f(float x, float y) { return __builtin_##name##f(x, y); }      \
    inline float name(float x, float y) { return __builtin_##name##f(x, y); }         \
    inline double name(double x, double y) { return __builtin_##name(x, y); }
CUDA_ON_CPU_BINARY(copysign)
CUDA_ON_CPU_BINARY(fmin)
CUDA_ON_CPU_BINARY(fmax)
CUDA_ON_CPU_BINARY(fmod)
inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
#define CUDA_ON_CPU_ROUNDED(name, op)                                 \
    inline float __f##name##_rn(float x, float y) { return x op y; }  \
    inline double __d##name##_rn(double x, double y) { return x op y; }
CUDA_ON_CPU_ROUNDED(add, +)
CUDA_ON_CPU_ROUNDED(sub, -)
CUDA_ON_CPU_ROUNDED(mul, *)
CUDA_ON_CPU_ROUNDED(div, /)
inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
template <class T> inline bool isnan(T x) { return x != x; }
template <class T> inline bool isinf(T x) { return __builtin_isinf(x); }
template <class T> inline bool isfinite(T x) { return __builtin_isfinite(x); }
template <class T> inline bool signbit(T x) { return __builtin_signbit(x); }
inline int abs(int x) { return x < 0 ? -x : x; }
inline long long llabs(long long x) { return x < 0 ? -x : x; }
template <class T> inline T min(T a, T b) { return b < a ? b : a; }
template <class T> inline T max(T a, T b) { return a < b ? b : a; }

#endif  // CUDA_ON_CPU_RUNNER

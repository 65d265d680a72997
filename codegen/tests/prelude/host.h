// What the prelude asks of CUDA, for the host.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <pthread.h>
#include <random>
#include <thread>
#include <vector>

#define __device__
#define __forceinline__ inline

struct ThreadIndex {
    unsigned int x;
};
static thread_local ThreadIndex threadIdx;

template <class To, class From> inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline int __float_as_int(float x) { return same_bits<int>(x); }
inline float __int_as_float(int x) { return same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long expected, unsigned long long value) {
    unsigned long long old = *at;
    if (old == expected) *at = value;
    return old;
}

// A warp is 32 threads that run `body` together.
static pthread_barrier_t warp_barrier;
static uint64_t warp_slots[32];

template <class T> inline T __shfl_xor_sync(unsigned int, T x, int distance) {
    uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof x);
    warp_slots[threadIdx.x] = bits;
    pthread_barrier_wait(&warp_barrier);
    bits = warp_slots[threadIdx.x ^ (unsigned int)distance];
    pthread_barrier_wait(&warp_barrier);
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

template <class Body> inline void run_warp(Body body) {
    pthread_barrier_init(&warp_barrier, nullptr, 32);
    std::vector<std::thread> lanes;
    for (unsigned int lane = 0; lane < 32; lane++) {
        lanes.emplace_back([=] {
            threadIdx.x = lane;
            body();
        });
    }
    for (std::thread& lane : lanes) lane.join();
    pthread_barrier_destroy(&warp_barrier);
}

#define CHECK(...)                                                    \
    do {                                                              \
        if (!(__VA_ARGS__)) {                                         \
            std::printf("line %d: %s\n", __LINE__, #__VA_ARGS__);     \
            std::exit(1);                                             \
        }                                                             \
    } while (false)

// Equal bits; any NaN equals any other.
template <class T> inline bool same(T a, T b) {
    return (a != a && b != b) || std::memcmp(&a, &b, sizeof a) == 0;
}

// How two partial results combine. Sums and products of integers wrap.
struct Sum {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
    __device__ __forceinline__ double operator()(double a, double b) const { return a + b; }
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const {
        return (T)((unsigned long long)a + (unsigned long long)b);
    }
};

struct Product {
    __device__ __forceinline__ float operator()(float a, float b) const { return a * b; }
    __device__ __forceinline__ double operator()(double a, double b) const { return a * b; }
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const {
        return (T)((unsigned long long)a * (unsigned long long)b);
    }
};

struct Minimum {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return minimum(a, b); }
};

struct Maximum {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return maximum(a, b); }
};

struct MinimumF16 {
    __device__ __forceinline__ f16 operator()(f16 a, f16 b) const { return minimum_f16(a, b); }
};

struct MaximumF16 {
    __device__ __forceinline__ f16 operator()(f16 a, f16 b) const { return maximum_f16(a, b); }
};

struct MinimumBf16 {
    __device__ __forceinline__ bf16 operator()(bf16 a, bf16 b) const { return minimum_bf16(a, b); }
};

struct MaximumBf16 {
    __device__ __forceinline__ bf16 operator()(bf16 a, bf16 b) const { return maximum_bf16(a, b); }
};

struct Any {
    __device__ __forceinline__ bool operator()(bool a, bool b) const { return a || b; }
};

struct All {
    __device__ __forceinline__ bool operator()(bool a, bool b) const { return a && b; }
};

// Where no term stands: ranges end below it.
__device__ __forceinline__ long long nowhere() {
    return 0x7fffffffffffffffLL;
}

// The best value so far and where it stands.
template <class T> struct Best {
    T value;
    long long index;
};

template <class T> __device__ __forceinline__ Best<T> best(T value, long long index) {
    return Best<T>{value, index};
}

template <class T> __device__ __forceinline__ Best<T> nothing(T any) {
    return Best<T>{any, nowhere()};
}

template <class T> __device__ __forceinline__ T value_of(Best<T> best) {
    return best.value;
}

template <class T> __device__ __forceinline__ long long place_of(Best<T> best) {
    return best.index;
}

// The place of the best term; of none, -1.
template <class T> __device__ __forceinline__ long long index_of(Best<T> best) {
    return best.index == nowhere() ? -1 : best.index;
}

// Whether a stands before b: b is nothing, or only a is NaN, or a's value is better; among equals, the
// smaller index.
template <class T> __device__ __forceinline__ bool precedes(Best<T> a, Best<T> b, bool better) {
    bool a_is_number = a.value == a.value, b_is_number = b.value == b.value;
    if (a.index == nowhere() || b.index == nowhere()) return b.index == nowhere();
    if (a_is_number != b_is_number) return b_is_number;
    return better || ((a.value == b.value || !a_is_number) && a.index < b.index);
}

// The better of two: the first NaN if there is one, else the best value, of equal ones the first.
struct FirstMinimum {
    template <class T> __device__ __forceinline__ Best<T> operator()(Best<T> a, Best<T> b) const {
        return precedes(a, b, a.value < b.value) ? a : b;
    }
};

struct FirstMaximum {
    template <class T> __device__ __forceinline__ Best<T> operator()(Best<T> a, Best<T> b) const {
        return precedes(a, b, a.value > b.value) ? a : b;
    }
};

// Takes a term into an argmin or argmax that has seen only terms before it: of equal ones the first stays, and a NaN
// stays for good.
template <class T> __device__ __forceinline__ Best<T> later_minimum(Best<T> so_far, T value, long long index) {
    bool first = so_far.index == nowhere(), is_number = so_far.value == so_far.value;
    return first || (is_number && !(value >= so_far.value)) ? Best<T>{value, index} : so_far;
}

template <class T> __device__ __forceinline__ Best<T> later_maximum(Best<T> so_far, T value, long long index) {
    bool first = so_far.index == nowhere(), is_number = so_far.value == so_far.value;
    return first || (is_number && !(value <= so_far.value)) ? Best<T>{value, index} : so_far;
}

// The value that the lane at the exclusive-or of lane number and distance holds. The whole warp takes part.
template <class T> __device__ __forceinline__ T shuffle_xor(T x, int distance) {
    return (T)__shfl_xor_sync(0xffffffffu, x, distance);
}

template <class T> __device__ __forceinline__ Best<T> shuffle_xor(Best<T> x, int distance) {
    return Best<T>{shuffle_xor(x.value, distance), shuffle_xor(x.index, distance)};
}

// Whether it holds in any lane of the warp. The whole warp takes part.
__device__ __forceinline__ bool any_lane(bool holds) {
    return __any_sync(0xffffffffu, holds) != 0;
}

// Combines the values of each LANES neighbouring lanes, neighbours first; all of them receive the result.
template <int LANES, class T, class Combine> __device__ __forceinline__ T butterfly(T x, Combine combine) {
    #pragma unroll
    for (int distance = 1; distance < LANES; distance *= 2) {
        x = combine(x, shuffle_xor(x, distance));
    }
    return x;
}

// The value of 4 * LANES accumulators of which each of LANES neighbouring lanes holds every LANES-th, neighbours first; all
// of them receive it. Lanes that meet share out what they hold: one goes on with some accumulators of both, the other one
// with the others, so that eight shuffles serve where a warp has four accumulators a lane.
template <int LANES, class T, class Combine>
__device__ __forceinline__ T butterfly_of_four(const T* own, Combine combine) {
    bool odd = threadIdx.x % 2 != 0, second = threadIdx.x / 2 % 2 != 0;
    T first = combine(odd ? own[2] : own[0], shuffle_xor(odd ? own[0] : own[2], 1));
    T last = combine(odd ? own[3] : own[1], shuffle_xor(odd ? own[1] : own[3], 1));
    T x = combine(second ? last : first, shuffle_xor(second ? first : last, 2));
    #pragma unroll
    for (int distance = 4; distance < LANES; distance *= 2) {
        x = combine(x, shuffle_xor(x, distance));
    }
    x = combine(x, shuffle_xor(x, 2));
    return combine(x, shuffle_xor(x, 1));
}

// Combines the values of the lanes of a warp that are a multiple of STRIDE apart, nearest first; all of them receive
// the result.
template <int STRIDE, class T, class Combine> __device__ __forceinline__ T butterfly_apart(T x, Combine combine) {
    #pragma unroll
    for (int distance = STRIDE; distance < 32; distance *= 2) {
        x = combine(x, shuffle_xor(x, distance));
    }
    return x;
}

// One thread reduces at most 4096 terms in the canonical order: 128 accumulators take every 128th term in
// turn, then neighbours combine, neighbours among those, and so on. So many neighbouring accumulators are
// visited TOGETHER, so that loads of neighbouring terms are in flight at once; pending holds the subtrees that
// wait for a right neighbour, as the bits of a binary counter do.
template <int TOGETHER, class T, class Combine, class Step>
__device__ __forceinline__ T canonical_block(int count, T identity, Combine combine, Step step) {
    T pending[8];
    int groups = ((count < 128 ? count : 128) + TOGETHER - 1) / TOGETHER;
    for (int group = 0; group < groups; group++) {
        T values[TOGETHER];
        #pragma unroll
        for (int part = 0; part < TOGETHER; part++) {
            values[part] = identity;
        }
        for (int first = group * TOGETHER; first < count; first += 128) {
            #pragma unroll
            for (int part = 0; part < TOGETHER; part++) {
                if (part == 0 || first + part < count) values[part] = step(values[part], first + part);
            }
        }
        #pragma unroll
        for (int width = TOGETHER / 2; width > 0; width /= 2) {
            #pragma unroll
            for (int at = 0; at < width; at++) {
                values[at] = combine(values[2 * at], values[2 * at + 1]);
            }
        }
        T value = values[0];
        bool carry = true;
        #pragma unroll
        for (int level = 0; level < 8; level++) {
            bool waiting = (group >> level & 1) != 0;
            if (carry && waiting) value = combine(pending[level], value);
            if (carry && !waiting) pending[level] = value;
            carry = carry && waiting;
        }
    }
    // The accumulators that are left out hold the identity.
    T result = identity;
    #pragma unroll
    for (int level = 0; level < 8; level++) {
        bool whole = groups == 1 << level && groups * TOGETHER == 128;
        if ((groups >> level & 1) != 0) result = whole ? pending[level] : combine(pending[level], result);
    }
    return result;
}

// One thread reduces up to 4096^LEVELS terms in the canonical order: the values of blocks of 4096 terms are
// the terms of a reduction in the same order. step takes a term into an accumulator.
template <int LEVELS, class T, class Combine, class Step, int TOGETHER = 4>
__device__ __forceinline__ T canonical(long long count, T identity, Combine combine, Step step) {
    if constexpr (LEVELS == 1) {
        return canonical_block<TOGETHER>((int)count, identity, combine, step);
    } else {
        long long blocks = (count + 4095) / 4096;
        T value = identity;
        auto take_block = [&](T accumulator, long long block) {
            long long first = 4096 * block, rest = count - first;
            auto take_term = [&](T partial, long long term) { return step(partial, first + term); };
            value = canonical_block<TOGETHER>(rest < 4096 ? (int)rest : 4096, identity, combine, take_term);
            return combine(accumulator, value);
        };
        T result = canonical<LEVELS - 1, T, Combine, decltype(take_block), 1>(blocks, identity, combine, take_block);
        return blocks > 1 ? result : value;
    }
}

// One thread reduces terms in runs: each run ascends with one accumulator; the runs, at most 4096^LEVELS,
// combine in the canonical order.
template <int LEVELS, class T, class Combine, class Step>
__device__ __forceinline__ T ascending_runs(
    long long count, long long run, T identity, Combine combine, Step step
) {
    auto take_run = [&](T accumulator, long long number) {
        long long first = run * number, end = first + run < count ? first + run : count;
        T partial = identity;
        for (long long term = first; term < end; term++) {
            partial = step(partial, term);
        }
        return combine(accumulator, partial);
    };
    return canonical<LEVELS, T, Combine, decltype(take_run), 1>((count + run - 1) / run, identity, combine, take_run);
}

// The length of a run that makes about as many runs as are wanted.
__device__ __forceinline__ long long run_length(long long terms, long long wanted_runs) {
    long long even = 128 * ((terms + 128 * wanted_runs - 1) / (128 * wanted_runs));
    return even < 512 ? 512 : even < 16384 ? even : 16384;
}

// A row of up to 4096^3 terms, reduced in the canonical order by a thread block. The values of blocks of
// 4096 terms are the terms of the second level, and those of its blocks the terms of the third. A lane
// holds four neighbouring accumulators of each; all warps hold the same.
template <class T> struct CanonicalLevels {
    T identity;
    T second[4], third[4];
    T only;            // the value of the first block of the highest level that has one
    long long blocks;  // taken so far
};

template <class T> using CanonicalLevelsOfBest = CanonicalLevels<Best<T>>;

template <class T> __device__ __forceinline__ CanonicalLevels<T> start_levels(T identity) {
    T none = identity;
    return CanonicalLevels<T>{identity, {none, none, none, none}, {none, none, none, none}, none, 0};
}

// The value of 128 accumulators, four neighbours in each lane.
template <class T, class Combine> __device__ __forceinline__ T value_of_lanes(const T* own, Combine combine) {
    return butterfly<32>(combine(combine(own[0], own[1]), combine(own[2], own[3])), combine);
}

// Ends a block of the second level: its value is a term of the third.
template <class T, class Combine>
__device__ __forceinline__ void end_second_level(CanonicalLevels<T>& levels, Combine combine) {
    int lane = (int)threadIdx.x % 32;
    long long term = (levels.blocks - 1) / 4096;
    T value = value_of_lanes(levels.second, combine);
    if (term == 0) levels.only = value;
    #pragma unroll
    for (int part = 0; part < 4; part++) {
        if (term % 128 == 4 * lane + part) levels.third[part] = combine(levels.third[part], value);
        levels.second[part] = levels.identity;
    }
}

// Takes the values of further blocks, each in four parts, one from each warp of the 128 threads that
// reduced it. All threads call it with the same count: a multiple of 128 that divides 4096, or at the end
// what is left.
template <class T, class Combine>
__device__ __forceinline__ void take_blocks(
    CanonicalLevels<T>& levels, const T* parts, int count, Combine combine
) {
    int lane = (int)threadIdx.x % 32;
    auto value = [&](int block) {
        const T* part = &parts[4 * block];
        return combine(combine(part[0], part[1]), combine(part[2], part[3]));
    };
    if (levels.blocks == 0 && count > 0) levels.only = value(0);
    for (int first = 4 * lane; first < count; first += 128) {
        #pragma unroll
        for (int part = 0; part < 4; part++) {
            if (first + part < count) levels.second[part] = combine(levels.second[part], value(first + part));
        }
    }
    levels.blocks += count;
    if (levels.blocks % 4096 == 0 && count > 0) end_second_level(levels, combine);
}

// The value of the row, in every thread.
template <class T, class Combine>
__device__ __forceinline__ T finish_levels(CanonicalLevels<T>& levels, Combine combine) {
    if (levels.blocks > 1 && levels.blocks % 4096 != 0) end_second_level(levels, combine);
    return levels.blocks <= 4096 ? levels.only : value_of_lanes(levels.third, combine);
}

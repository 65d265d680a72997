// The value that the lane a distance before holds; its own in the first lanes. The whole warp takes part.
template <class T> __device__ __forceinline__ T shuffle_up(T x, int distance) {
    return (T)__shfl_up_sync(0xffffffffu, x, distance);
}

template <class T> __device__ __forceinline__ Best<T> shuffle_up(Best<T> x, int distance) {
    return Best<T>{shuffle_up(x.value, distance), shuffle_up(x.index, distance)};
}

// The value that one lane holds, in every lane. The whole warp takes part.
template <class T> __device__ __forceinline__ T lane_value(T x, int lane) {
    return (T)__shfl_sync(0xffffffffu, x, lane);
}

template <class T> __device__ __forceinline__ Best<T> lane_value(Best<T> x, int lane) {
    return Best<T>{lane_value(x.value, lane), lane_value(x.index, lane)};
}

// Inclusive scan across a warp: each lane combines with the one 1, 2, 4, 8 and 16 before it.
template <class T, class Combine> __device__ __forceinline__ T kogge_stone(T x, Combine combine) {
    int lane = (int)threadIdx.x % 32;
    #pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        T before = shuffle_up(x, distance);
        if (lane >= distance) x = combine(before, x);
    }
    return x;
}

// The value of the lane before; in the first lane, the identity.
template <class T> __device__ __forceinline__ T lane_before(T x, T identity) {
    T before = shuffle_up(x, 1);
    return (int)threadIdx.x % 32 == 0 ? identity : before;
}

// Inclusive scan of up to 32 values in the order of kogge_stone, by one thread; gives the last.
template <class T, class Combine> __device__ __forceinline__ T last_of_kogge_stone(T* values, int count, Combine combine) {
    for (int distance = 1; distance < count; distance *= 2) {
        for (int at = count - 1; at >= distance; at--) {
            values[at] = combine(values[at - distance], values[at]);
        }
    }
    return values[count - 1];
}

// A row of up to 128 terms: its total as the rows after it see it, or what the scan has at its last term.
template <class T, class Combine, class Step>
__device__ T row_of_scan(long long first, int count, bool total, T identity, Combine combine, Step step) {
    T quads[32];
    int quad_count = (count + 3) / 4;
    for (int quad = 0; quad < quad_count; quad++) {
        int end = 4 * quad + 4 < count ? 4 * quad + 4 : count;
        T value = identity;
        for (int term = 4 * quad; term < end; term++) {
            value = step(value, first + term);
        }
        quads[quad] = value;
    }
    if (total) return last_of_kogge_stone(quads, 32, combine);
    T last = quads[quad_count - 1];
    return combine(quad_count > 1 ? last_of_kogge_stone(quads, quad_count - 1, combine) : identity, last);
}

// The same for a block of up to 4096 terms, with what stands before it.
template <class T, class Combine, class Step>
__device__ T block_of_scan(
    long long first, int count, bool total, T before, T identity, Combine combine, Step step
) {
    T rows[32];
    int whole = total ? 32 : (count - 1) / 128;
    T last = identity;
    for (int row = 0; row < (total ? 32 : whole + 1); row++) {
        bool ends = row == whole;
        int terms = ends ? count - 128 * row : 128;
        T value = row_of_scan(first + 128 * row, terms, !ends, identity, combine, step);
        if (ends) last = value;
        if (!ends) rows[row] = value;
    }
    T above = whole > 0 ? last_of_kogge_stone(rows, whole, combine) : identity;
    return total ? above : combine(combine(before, above), last);
}

// One thread computes what a scan has at the last of up to 4096^LEVELS terms: blocks of 4096, whose totals
// are the terms of a scan in the same order. step takes a term into an accumulator.
template <int LEVELS, class T, class Combine, class Step>
__device__ T last_of_scan(long long count, T identity, Combine combine, Step step) {
    if (count <= 0) return identity;
    T before = identity;
    long long block = (count - 1) / 4096;
    if constexpr (LEVELS > 1) {
        if (block > 0) {
            auto take_block = [&](T accumulator, long long number) {
                T total = block_of_scan(4096 * number, 4096, true, identity, identity, combine, step);
                return combine(accumulator, total);
            };
            before = last_of_scan<LEVELS - 1>(block, identity, combine, take_block);
        }
    }
    return block_of_scan(4096 * block, (int)(count - 4096 * block), false, before, identity, combine, step);
}

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

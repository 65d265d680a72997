// The nearest index within an extent.
template <class T> __device__ __forceinline__ T clamp_index(T index, T extent) {
    return index < 0 ? 0 : index < extent ? index : extent - 1;
}

// The index modulo an extent; 0 where there is nothing, which is out of range. A division takes longer than a load: it is for indices
// that are further outside than an extent.
template <class T> __device__ __forceinline__ T wrap_index(T index, T extent) {
    if (0 <= index && index < extent) return index;
    T beside = index < 0 ? index + extent : index - extent;
    if (0 <= beside && beside < extent) return beside;
    if (extent == 0) return 0;
    T rest = index % extent;
    return rest < 0 ? rest + extent : rest;
}

// The index reflected at both ends of an extent, the edge not repeated: 2 1 | 0 1 2 3 | 2 1.
template <class T> __device__ __forceinline__ T mirror_index(T index, T extent) {
    T last = extent - 1;
    if (last <= 0) return 0;
    if (0 <= index && index <= last) return index;
    T beside = index < -last ? -1 : index < 0 ? -index : last - (index - last);
    if (0 <= beside) return beside;
    T turn = index / last, rest = index % last;
    if (rest < 0) {
        turn -= 1;
        rest += last;
    }
    return turn % 2 == 0 ? rest : last - rest;
}

// The index reflected at both ends of an extent, the edge repeated: 1 0 | 0 1 2 3 | 3 2.
template <class T> __device__ __forceinline__ T symmetric_index(T index, T extent) {
    if (0 <= index && index < extent) return index;
    T beside = index < 0 ? -1 - index : extent - 1 - (index - extent);
    if (0 <= beside && beside < extent) return beside;
    if (extent == 0) return 0;
    T turn = index / extent, rest = index % extent;
    if (rest < 0) {
        turn -= 1;
        rest += extent;
    }
    return turn % 2 == 0 ? rest : extent - 1 - rest;
}

// Whether an index is within an extent. The first that is not is reported: {1, site, index, extent}.
__device__ __forceinline__ bool index_ok(
    long long index, long long extent, unsigned int site, unsigned long long* report
) {
    if (0 <= index && index < extent) return true;
    if (atomicCAS(&report[0], 0ull, 1ull) == 0) {
        report[1] = site;
        report[2] = (unsigned long long)index;
        report[3] = (unsigned long long)extent;
    }
    return false;
}

// The same for all indices of a range at once. An empty one has none that is outside.
__device__ __forceinline__ bool range_ok(
    long long begin, long long end, long long extent, unsigned int site, unsigned long long* report
) {
    if (begin >= end || (0 <= begin && end <= extent)) return true;
    return index_ok(0 <= begin && begin < extent ? extent : begin, extent, site, report);
}

// Whether a pointer is a multiple of this many bytes, a power of two.
__device__ __forceinline__ bool is_aligned(const void* pointer, int bytes) {
    return ((unsigned long long)pointer & (unsigned int)(bytes - 1)) == 0;
}

// The quotient of a number below 2^14 by a divisor that is at most 2^14, of which the inverse is passed: 2^30 by the divisor, rounded
// up.
__device__ __forceinline__ int quotient(int number, int inverse) {
    return (int)((unsigned long long)(unsigned int)number * (unsigned int)inverse >> 30);
}

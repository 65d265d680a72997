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

// Inclusive scan of up to 32 values in the order of kogge_stone, by one thread, one value after the other: gives that of
// this number. Each step combines a value with the one so many before it, which has waited since its own turn.
template <class T, class Combine>
__device__ __forceinline__ T kogge_stone_next(T x, int number, T* waiting, int stride, Combine combine) {
    T before[5];
    #pragma unroll
    for (int step = 0; step < 5; step++) {
        int distance = 1 << step;
        before[step] = number < distance ? x : waiting[stride * (distance - 1 + number % distance)];
    }
    #pragma unroll
    for (int step = 0; step < 5; step++) {
        int distance = 1 << step;
        waiting[stride * (distance - 1 + number % distance)] = x;
        if (number >= distance) x = combine(before[step], x);
    }
    return x;
}

// The number of a block in the order in which blocks start, whatever the scheduler makes of their indices: all with
// smaller numbers have started, so that waiting for them ends.
__device__ __forceinline__ int take_ticket(unsigned long long* counter) {
    return (int)atomicAdd(counter, 1ull);
}

// A value that one block publishes and others wait for: words of 64 bits, each 32 bits of the value above a mark. A word
// is written and read as a whole, so whoever sees the mark has the bits, in whatever order words arrive; no fence is
// needed. Memory of zeros is not published yet. (Volatile: neither cached nor read once for all.)
template <class T> struct Published {
    static constexpr int WORDS = ((int)sizeof(T) + 3) / 4;
    unsigned long long words[WORDS];
    union Bits {
        unsigned int of_word[WORDS];
        T value;
    };
    __device__ __forceinline__ void publish(T value) {
        Bits bits = {};
        bits.value = value;
        #pragma unroll
        for (int word = 0; word < WORDS; word++) {
            *(volatile unsigned long long*)&words[word] = (unsigned long long)bits.of_word[word] << 32 | 1;
        }
    }
    __device__ __forceinline__ void look_at(const Published* place) {
        #pragma unroll
        for (int word = 0; word < WORDS; word++) {
            words[word] = *(const volatile unsigned long long*)&place->words[word];
        }
    }
    __device__ __forceinline__ bool is_whole() const {
        bool whole = true;
        #pragma unroll
        for (int word = 0; word < WORDS; word++) {
            whole = whole && words[word] != 0;
        }
        return whole;
    }
    __device__ __forceinline__ T wait_for(const Published* place) {
        while (!is_whole()) look_at(place);
        return value();
    }
    __device__ __forceinline__ T value() const {
        Bits bits = {};
        #pragma unroll
        for (int word = 0; word < WORDS; word++) {
            bits.of_word[word] = (unsigned int)(words[word] >> 32);
        }
        return bits.value;
    }
};

// A warp waits for the first terms of a row of 128 and leaves them in shared memory, the identity in place of the rest.
// Neighbouring lanes look at neighbouring terms, all at once; only lanes that miss some look again.
template <class T>
__device__ __forceinline__ void wait_for_row(const Published<T>* terms, int count, T* row, T identity) {
    int lane = (int)threadIdx.x % 32;
    Published<T> seen[4];
    bool whole;
    do {
        #pragma unroll
        for (int part = 0; part < 4; part++) {
            if (lane + 32 * part < count) seen[part].look_at(&terms[lane + 32 * part]);
        }
        whole = true;
        #pragma unroll
        for (int part = 0; part < 4; part++) {
            whole = whole && (lane + 32 * part >= count || seen[part].is_whole());
        }
    } while (!whole);
    #pragma unroll
    for (int part = 0; part < 4; part++) {
        row[lane + 32 * part] = lane + 32 * part < count ? seen[part].value() : identity;
    }
    __syncwarp();
}

// What a scan has at the term before `index`, found by a warp in the terms that blocks publish, in the order of scans:
// quads, rows of 128, groups of 4096. Behind the terms lie the totals of rows, what stands before each group but the
// first, and the totals of groups, which are the terms of the level above. The term behind a row publishes the row's
// total before it waits for anything else; the one behind a group, what stands before the next.
template <int LEVELS, class T, class Combine>
__device__ __forceinline__ T scan_before(
    Published<T>* terms, int count, int index, T* row, T identity, Combine combine
) {
    if (index == 0) return identity;
    Published<T>* row_totals = terms + count;
    Published<T>* before_groups = row_totals + count / 128;
    int row_number = (index - 1) / 128, row_in_group = row_number % 32, group = row_number / 32;
    int in_row = index - 128 * row_number;
    int lane = (int)threadIdx.x % 32;
    // Lanes look at the totals of rows, the last one at what stands before the group. It is asked for early.
    bool looks = lane == 31 ? group > 0 : lane < row_in_group;
    const Published<T>* place = lane == 31 ? &before_groups[group - 1] : &row_totals[32 * group + lane];
    Published<T> above = {};
    if (looks) above.look_at(place);
    wait_for_row(terms + 128 * row_number, in_row, row, identity);
    T quad = row[4 * lane], last = quad;
    #pragma unroll
    for (int part = 1; part < 4; part++) {
        quad = combine(quad, row[4 * lane + part]);
        if (part <= (in_row - 1) % 4) last = quad;
    }
    T running = kogge_stone(quad, combine);
    T within_row = lane_value(combine(lane_before(running, identity), last), (in_row - 1) / 4);
    T row_total = lane_value(running, 31);
    if (in_row == 128 && lane == 0) row_totals[row_number].publish(row_total);
    T found = looks ? above.wait_for(place) : identity;
    T rows = lane < row_in_group ? found : lane == row_in_group ? row_total : identity;
    T rows_running = kogge_stone(rows, combine);
    T before_row = combine(lane_value(found, 31), lane_value(lane_before(rows_running, identity), row_in_group));
    T result = combine(before_row, within_row);
    if constexpr (LEVELS > 1) {
        if (in_row == 128 && row_in_group == 31) {
            Published<T>* group_totals = before_groups + count / 4096;
            T group_total = lane_value(rows_running, 31);
            if (lane == 0) group_totals[group].publish(group_total);
            __syncwarp();
            T next = scan_before<LEVELS - 1>(group_totals, count / 4096, group + 1, row, identity, combine);
            if (lane == 0) before_groups[group].publish(next);
        }
    }
    return result;
}

// What the blocks of a scan publish: behind the counter of tickets, each scan of so many blocks has a place for every total
// and a thirty-second more for what scan_before publishes itself.
template <class T>
__device__ __forceinline__ Published<T>* published_totals(unsigned long long* published, int scan, int blocks) {
    return (Published<T>*)(published + 1) + (long long)scan * (blocks + blocks / 32);
}

// One thread publishes a block's total.
template <class T>
__device__ __forceinline__ void publish_block_total(
    unsigned long long* published, int scan, int blocks, int block, T total
) {
    published_totals<T>(published, scan, blocks)[block].publish(total);
}

// A warp of a block that has published its total computes what stands before the block.
template <int LEVELS, class T, class Combine>
__device__ __forceinline__ T scan_before_block(
    unsigned long long* published, int scan, int blocks, int block, T* row, T identity, Combine combine
) {
    return scan_before<LEVELS>(published_totals<T>(published, scan, blocks), blocks, block, row, identity, combine);
}

// What blocks of threads publish that take pieces of several columns, of so many rows of 128 terms: for every column the totals of
// 32 rows a block of 4096 terms, then what blocks publish for scan_before.
template <class T>
__device__ __forceinline__ Published<T>* published_rows(unsigned long long* published, int column, int blocks) {
    return (Published<T>*)(published + 1) + (long long)column * (33 * blocks + blocks / 32);
}

// By lane: what stands before that row in its block of 32 rows, found by a warp for one column. The lanes of the piece's rows have
// the total of theirs, which others wait for, and for that of the block, once its last row is there.
template <class T, class Combine>
__device__ __forceinline__ T rows_before_in_block(
    unsigned long long* published, int column, int blocks, int piece, int rows, T total, T identity, Combine combine
) {
    int lane = (int)threadIdx.x % 32, pieces = 32 / rows, block = piece / pieces, first = piece % pieces * rows;
    Published<T>* row_totals = published_rows<T>(published, column, blocks);
    Published<T>* place = &row_totals[32 * block + lane];
    bool is_own = lane / rows == piece % pieces;
    if (is_own && first + rows < 32) place->publish(total);
    Published<T> before = {};
    T found = is_own ? total : lane < first ? before.wait_for(place) : identity;
    T running = kogge_stone(found, combine);
    if (first + rows == 32 && lane == 31) row_totals[32 * blocks + block].publish(running);
    return lane_before(running, identity);
}

// What stands before a block of 32 rows of a column, found by a warp.
template <int LEVELS, class T, class Combine>
__device__ __forceinline__ T scan_before_block_of_rows(
    unsigned long long* published, int column, int blocks, int block, T* room, T identity, Combine combine
) {
    __syncwarp();
    Published<T>* totals = published_rows<T>(published, column, blocks) + 32 * blocks;
    return scan_before<LEVELS>(totals, blocks, block, room, identity, combine);
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

// A pack that no other block asks for: the level-2 cache may give its line up first.
template <class T, int N> __device__ __forceinline__ Pack<T, N> load_once(const Pack<T, N>* from) {
#if defined(__CUDA_ARCH__)
    constexpr int BYTES = sizeof(Pack<T, N>);
    Pack<T, N> pack;
    if constexpr (BYTES % 16 == 0) {
        #pragma unroll
        for (int word = 0; word < BYTES / 16; word++) {
            ((int4*)&pack)[word] = __ldcs((const int4*)from + word);
        }
    } else if constexpr (BYTES == 8) {
        *(int2*)&pack = __ldcs((const int2*)from);
    } else {
        *(int*)&pack = __ldcs((const int*)from);
    }
    return pack;
#else
    return *from;
#endif
}

// The same for a pack that is written.
template <class T, int N> __device__ __forceinline__ void store_once(Pack<T, N>* to, Pack<T, N> pack) {
#if defined(__CUDA_ARCH__)
    constexpr int BYTES = sizeof(Pack<T, N>);
    if constexpr (BYTES % 16 == 0) {
        #pragma unroll
        for (int word = 0; word < BYTES / 16; word++) {
            __stcs((int4*)to + word, ((const int4*)&pack)[word]);
        }
    } else if constexpr (BYTES == 8) {
        __stcs((int2*)to, *(const int2*)&pack);
    } else {
        __stcs((int*)to, *(const int*)&pack);
    }
#else
    *to = pack;
#endif
}

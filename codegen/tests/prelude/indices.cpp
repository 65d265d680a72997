// Boundary rules against walking there, and the report.
template <class T> void check_extent(T n) {
    for (T i = -5 * n; i < 6 * n; i++) {
        CHECK(clamp_index(i, n) == (i < 0 ? 0 : i >= n ? n - 1 : i));
        T wrapped = i, mirrored = i, symmetric = i;
        while (wrapped < 0) wrapped += n;
        while (wrapped >= n) wrapped -= n;
        CHECK(wrap_index(i, n) == wrapped);
        while (n > 1 && (mirrored < 0 || mirrored >= n)) mirrored = mirrored < 0 ? -mirrored : 2 * (n - 1) - mirrored;
        CHECK(mirror_index(i, n) == (n == 1 ? 0 : mirrored));
        while (symmetric < 0 || symmetric >= n) symmetric = symmetric < 0 ? -1 - symmetric : 2 * n - 1 - symmetric;
        CHECK(symmetric_index(i, n) == symmetric);
    }
}

template <class T> void check_far(T lowest, T highest) {
    for (T extent : {(T)1, (T)2, (T)3, (T)10, highest}) {
        for (T index : {lowest, (T)(lowest + 1), highest, (T)(highest - 1)}) {
            __int128 n = extent, wide = index, last = n - 1;
            __int128 mirrored = n == 1 ? 0 : ((wide % (2 * last)) + 2 * last) % (2 * last);
            __int128 symmetric = ((wide % (2 * n)) + 2 * n) % (2 * n);
            CHECK(clamp_index(index, extent) == (index < 0 ? 0 : wide < n ? index : extent - 1));
            CHECK(wrap_index(index, extent) == (T)(((wide % n) + n) % n));
            CHECK(mirror_index(index, extent) == (T)(mirrored < n ? mirrored : 2 * last - mirrored));
            CHECK(symmetric_index(index, extent) == (T)(symmetric < n ? symmetric : 2 * n - 1 - symmetric));
        }
    }
}

int main() {
    for (int n = 1; n < 9; n++) {
        check_extent<int>(n);
        check_extent<long long>(n);
    }
    check_far<int>(INT32_MIN, INT32_MAX);
    check_far<long long>(INT64_MIN, INT64_MAX);

    unsigned long long report[4] = {};
    CHECK(index_ok(0, 1, 7, report) && index_ok(4, 5, 7, report) && report[0] == 0);
    CHECK(!index_ok(-3, 5, 8, report));
    CHECK(!index_ok(5, 5, 9, report) && !index_ok(0, 0, 9, report));
    CHECK(report[0] == 1 && report[1] == 8 && (long long)report[2] == -3 && report[3] == 5);

    const long long outside_of_five[][3] = {{-2, 3, -2}, {0, 6, 5}, {4, 9, 5}, {7, 9, 7}, {INT64_MIN, INT64_MAX, INT64_MIN}};
    for (auto& [begin, end, outside] : outside_of_five) {
        unsigned long long ranges[4] = {};
        CHECK(!range_ok(begin, end, 5, 3, ranges) && (long long)ranges[2] == outside && ranges[3] == 5);
    }
    unsigned long long none[4] = {};
    CHECK(range_ok(0, 5, 5, 3, none) && range_ok(2, 3, 5, 3, none) && range_ok(9, 9, 5, 3, none) && range_ok(9, -9, 5, 3, none));
    CHECK(range_ok(0, 0, 0, 3, none) && none[0] == 0);

    alignas(16) char bytes[16];
    CHECK(is_aligned(&bytes[0], 16) && is_aligned(&bytes[8], 8) && !is_aligned(&bytes[8], 16) && is_aligned(&bytes[1], 1));
    return 0;
}

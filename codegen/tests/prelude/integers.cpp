// Integer helpers against 128-bit arithmetic.
using Wide = __int128;

template <class T> T wrapped(Wide x) { return (T)(unsigned long long)x; }

template <class T> void check_pair(T a, T b) {
    constexpr bool is_signed = (T)-1 < (T)1;
    CHECK(wrapping_add(a, b) == wrapped<T>((Wide)a + b));
    CHECK(wrapping_sub(a, b) == wrapped<T>((Wide)a - b));
    CHECK(wrapping_mul(a, b) == wrapped<T>((Wide)((unsigned __int128)(Wide)a * (unsigned __int128)(Wide)b)));
    CHECK(wrapping_neg(a) == wrapped<T>(-(Wide)a));
    CHECK(divide(a, b) == (b == 0 ? 0 : wrapped<T>((Wide)a / b)));
    CHECK(remainder(a, b) == (b == 0 ? 0 : wrapped<T>((Wide)a % b)));
    Wide floor = b == 0 ? 0 : (Wide)a / b - ((Wide)a % b != 0 && ((Wide)a < 0) != ((Wide)b < 0));
    CHECK(div_floor(a, b) == wrapped<T>(floor));
    CHECK(mod_floor(a, b) == (b == 0 ? 0 : wrapped<T>((Wide)a - floor * b)));
    bool inside = (Wide)b >= 0 && (Wide)b < (Wide)(8 * sizeof(T));
    CHECK(shift_left(a, b) == (inside ? wrapped<T>((Wide)((unsigned __int128)(Wide)a << b)) : 0));
    CHECK(shift_right(a, b) == (inside ? wrapped<T>((Wide)a >> b) : is_signed && (Wide)a < 0 ? (T)-1 : 0));
    CHECK(minimum(a, b) == (a < b ? a : b) && maximum(a, b) == (a > b ? a : b));
    CHECK(sign(a) == (a > 0 ? 1 : a == 0 ? 0 : (T)-1));
    if constexpr (is_signed) CHECK(absolute(a) == wrapped<T>((Wide)a < 0 ? -(Wide)a : (Wide)a));
}

template <class T> void check_type() {
    std::vector<T> edges = {0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 65, 100};
    T top = (T)1 << (8 * sizeof(T) - 2);
    std::vector<T> all = edges;
    for (T edge : edges) {
        all.push_back((T)(0 - (unsigned long long)edge));
        all.push_back((T)((unsigned long long)top * 2 + edge));
        all.push_back((T)((unsigned long long)top * 2 - edge));
    }
    std::mt19937_64 random(1);
    for (int i = 0; i < 200; i++) all.push_back((T)(random() >> (random() % 64)));
    for (T a : all) {
        for (T b : all) check_pair(a, b);
    }
}

int main() {
    check_type<int>();
    check_type<unsigned int>();
    check_type<long long>();
    check_type<unsigned long long>();
    CHECK(mul_high(0xffffffffffffffffull, 0xffffffffffffffffull) == 0xfffffffffffffffeull);
    CHECK(count_ones_i8(-1) == 8 && count_ones_u8(7) == 3 && count_ones_i16(-1) == 16 && count_ones_u16(9) == 2);
    CHECK(count_ones_i32(-1) == 32 && count_ones_u32(6) == 2 && count_ones_i64(-1) == 64 && count_ones_u64(5) == 2);
    CHECK(leading_zeros_i8(0) == 8 && leading_zeros_i8(-1) == 0 && leading_zeros_i8(1) == 7 && leading_zeros_u8(16) == 3);
    CHECK(leading_zeros_i16(0) == 16 && leading_zeros_i16(-1) == 0 && leading_zeros_u16(1) == 15);
    CHECK(leading_zeros_i32(0) == 32 && leading_zeros_u32(1) == 31);
    CHECK(leading_zeros_i64(0) == 64 && leading_zeros_i64(-1) == 0 && leading_zeros_u64(1) == 63);
    return 0;
}

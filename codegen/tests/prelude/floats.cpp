// Conversions against exhaustive search and the host's own; selection and constants.

// The value of 16 bits with this many fraction bits.
double value_of(unsigned int bits, int exponent_bits, int fraction_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    double fraction = bits & ((1u << fraction_bits) - 1);
    double value = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                 : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    if (exponent == (1 << exponent_bits) - 1) value = fraction == 0 ? INFINITY : NAN;
    return bits & 0x8000 ? -value : value;
}

// The nearest of all values, ties to even, where the step beyond the largest counts as infinity. x: a long double, so that
// every integer of 64 bits is one.
unsigned int nearest(long double x, int exponent_bits, int fraction_bits) {
    unsigned int sign = std::signbit(x) ? 0x8000 : 0, infinite = ((1u << exponent_bits) - 1) << fraction_bits;
    long double magnitude = std::fabs(x);
    auto value = [&](unsigned int bits) {
        if (bits < infinite) return (long double)value_of(bits, exponent_bits, fraction_bits);
        return std::ldexp(1.0L, 1 << (exponent_bits - 1));
    };
    unsigned int low = 0, high = infinite;
    while (high - low > 1) {
        unsigned int middle = (low + high) / 2;
        (value(middle) <= magnitude ? low : high) = middle;
    }
    if (magnitude >= value(infinite)) return sign | infinite;
    long double below = magnitude - value(low), above = value(high) - magnitude;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

void check_double(double x) {
    CHECK(f64_to_f16(x) == nearest(x, 5, 10));
    CHECK(f64_to_bf16(x) == nearest(x, 8, 7));
    float narrow = (float)x;
    CHECK(f32_to_f16(narrow) == nearest(narrow, 5, 10));
    CHECK(f32_to_bf16(narrow) == nearest(narrow, 8, 7));
}

void check_integer(unsigned long long x) {
    CHECK(u64_to_f16(x) == nearest((long double)x, 5, 10));
    CHECK(u64_to_bf16(x) == nearest((long double)x, 8, 7));
    CHECK(i64_to_f16((long long)x) == nearest((long double)(long long)x, 5, 10));
    CHECK(i64_to_bf16((long long)x) == nearest((long double)(long long)x, 8, 7));
}

template <class I, class F> I rounded(F x, long double lowest, long double highest) {
    if (x != x) return 0;
    long double whole = std::trunc((long double)x);
    return whole < lowest ? (I)lowest : whole > highest ? (I)highest : (I)whole;
}

template <class F> void check_saturation(F x) {
    CHECK(saturate_i8(x) == rounded<signed char>(x, -128, 127));
    CHECK(saturate_u8(x) == rounded<unsigned char>(x, 0, 255));
    CHECK(saturate_i16(x) == rounded<short>(x, -32768, 32767));
    CHECK(saturate_u16(x) == rounded<unsigned short>(x, 0, 65535));
    CHECK(saturate_i32(x) == rounded<int>(x, -0x1p31L, 0x1p31L - 1));
    CHECK(saturate_u32(x) == rounded<unsigned int>(x, 0, 0x1p32L - 1));
    CHECK(saturate_i64(x) == rounded<long long>(x, -0x1p63L, 0x1p63L - 1));
    CHECK(saturate_u64(x) == rounded<unsigned long long>(x, 0, 0x1p64L - 1));
}

template <class F> F least(F a, F b) {
    if (a != a || b != b) return (F)NAN;
    return a < b || (a == b && std::signbit(a)) ? a : b;
}

template <class F> void check_selection(F a, F b) {
    CHECK(same(minimum(a, b), least(a, b)));
    CHECK(same(maximum(a, b), -least(-a, -b)));
    CHECK(same(sign(a), a != a || a == 0 ? a : a > 0 ? (F)1 : (F)-1));
}

int main() {
    std::vector<double> interesting = {0.0, 1.0, 0.5, 1.5, 65504, 65519.999, 65520, 65536, 1e9, 1e38, 3.3895e38, 3.4e38, 3.5e38,
        1e300, 1e-300, 0x1p-24, 0x1p-25, 0x1.8p-25, 0x1p-14, 0x1p-126, 0x1p-133, 0x1p-134, 0x1.8p-134, 0x1p-149, 0x1p-150,
        127.5, 128, 255.9, 32768, 65535.5, 0x1p31, 0x1p32, 0x1p63, 0x1p64, 2147483647, 4294967295.0, 0x1.fffffffffffffp62};
    for (unsigned int bits = 0; bits < 0x10000; bits++) {
        double half = value_of(bits, 5, 10), brain = value_of(bits, 8, 7);
        CHECK(same((double)f16_to_f32((f16)bits), half) && same((double)bf16_to_f32((bf16)bits), brain));
        // Values and what lies halfway between neighbours, and just beside that.
        for (double x : {half, brain, half + (value_of(bits + 1, 5, 10) - half) / 2, brain + (value_of(bits + 1, 8, 7) - brain) / 2}) {
            if (!std::isfinite(x)) continue;
            for (double y : {x, std::nextafter(x, INFINITY), std::nextafter(x, -INFINITY)}) check_double(y);
        }
    }
    std::mt19937_64 random(2);
    for (int i = 0; i < 200000; i++) {
        double x = same_bits<double>((uint64_t)random());
        if (std::isfinite(x)) check_double(x);
        check_integer(random() >> (random() % 64));
        unsigned int surplus = random() % 56;
        check_integer((random() >> 55 << surplus) + (1ull << surplus >> 1) + random() % 3 - 1);
        if (std::isfinite(x)) interesting.push_back(std::ldexp(x, (int)(random() % 80) - std::ilogb(x)));
    }
    for (unsigned long long x : {0ull, 1ull, 65519ull, 65520ull, 65521ull, 1ull << 63, ~0ull, ~0ull >> 1}) check_integer(x);
    CHECK(f64_to_f16(NAN) != f64_to_f16(NAN) + 1 && (f32_to_f16(NAN) & 0x7fff) > 0x7c00 && (f64_to_f16(NAN) & 0x7fff) > 0x7c00);
    CHECK((f32_to_bf16(NAN) & 0x7fff) > 0x7f80 && (f64_to_bf16(-NAN) & 0x7fff) > 0x7f80);
    CHECK(f32_to_f16(INFINITY) == 0x7c00 && f64_to_bf16(-INFINITY) == 0xff80);
    for (double x : interesting) {
        for (double y : {x, -x}) {
            check_double(y);
            check_saturation(y);
            check_saturation((float)y);
        }
    }
    std::vector<float> few = {0.0f, -0.0f, 1.0f, -1.0f, 2.5f, INFINITY, -INFINITY, NAN, -NAN, 0x1p-149f};
    for (float a : few) {
        check_saturation(a);
        check_saturation((double)a);
        for (float b : few) {
            check_selection(a, b);
            check_selection((double)a, (double)b);
            f16 half_a = f32_to_f16(a), half_b = f32_to_f16(b);
            bf16 brain_a = f32_to_bf16(a), brain_b = f32_to_bf16(b);
            CHECK(same(f16_to_f32(minimum_f16(half_a, half_b)), least(f16_to_f32(half_a), f16_to_f32(half_b))));
            CHECK(same(f16_to_f32(maximum_f16(half_a, half_b)), -least(-f16_to_f32(half_a), -f16_to_f32(half_b))));
            CHECK(same(bf16_to_f32(minimum_bf16(brain_a, brain_b)), least(bf16_to_f32(brain_a), bf16_to_f32(brain_b))));
            CHECK(same(bf16_to_f32(maximum_bf16(brain_a, brain_b)), -least(-bf16_to_f32(brain_a), -bf16_to_f32(brain_b))));
        }
    }
    CHECK(infinity_f32() == INFINITY && infinity_f64() == INFINITY && nan_f32() != nan_f32() && nan_f64() != nan_f64());
    CHECK(float_bits(1.0f) == 0x3f800000 && bits_float(0x40000000) == 2.0f);
    CHECK(double_bits(1.0) == 0x3ff0000000000000 && bits_double(0x4000000000000000) == 2.0);
    return 0;
}

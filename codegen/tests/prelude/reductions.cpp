// Serial reductions against a direct transcription of the numeric contract.

// The canonical order, with arrays. step takes a term into an accumulator.
template <class T, class Combine, class Step>
T block_value(long long first, long long count, T identity, Combine combine, Step step) {
    std::vector<T> accumulators(128, identity);
    for (long long term = 0; term < count; term++) {
        accumulators[term % 128] = step(accumulators[term % 128], first + term);
    }
    for (size_t width = 128; width > 1; width /= 2) {
        for (size_t a = 0; a < width / 2; a++) accumulators[a] = combine(accumulators[2 * a], accumulators[2 * a + 1]);
    }
    return accumulators[0];
}

template <class T, class Combine>
T expected(long long count, T identity, Combine combine, std::function<T(T, long long)> step) {
    if (count == 0) return identity;
    std::vector<T> values;
    for (long long first = 0; first < count; first += 4096) {
        values.push_back(block_value(first, std::min(4096ll, count - first), identity, combine, step));
    }
    if (values.size() == 1) return values[0];
    auto next = [&](T a, long long block) { return combine(a, values[block]); };
    return expected<T>((long long)values.size(), identity, combine, next);
}

template <class T, class Combine, class Step>
T expected_runs(long long count, long long run, T identity, Combine combine, Step step) {
    std::vector<T> values;
    for (long long first = 0; first < count; first += run) {
        T value = identity;
        for (long long term = first; term < std::min(count, first + run); term++) value = step(value, term);
        values.push_back(value);
    }
    auto next = [&](T a, long long index) { return combine(a, values[index]); };
    return expected<T>((long long)values.size(), identity, combine, next);
}

template <class Draw> void check_sums(Draw draw) {
    std::vector<float> x(700000), y(x.size());
    for (size_t i = 0; i < x.size(); i++) {
        x[i] = draw();
        y[i] = draw();
    }
    auto plain = [&](float a, long long term) { return a + x[term]; };
    auto fused = [&](float a, long long term) { return std::fma(x[term], y[term], a); };
    std::vector<long long> counts = {4000, 4095, 4096, 4097, 8192, 8193, 100000, 4096 * 128 - 1, 4096 * 128 + 5};
    for (long long count = 0; count < 300; count++) counts.push_back(count);
    for (long long count : counts) {
        CHECK(same(canonical<2>(count, 0.0f, Sum(), plain), expected<float>(count, 0.0f, Sum(), plain)));
        CHECK(same(canonical<3>(count, 0.0f, Sum(), fused), expected<float>(count, 0.0f, Sum(), fused)));
        if (count <= 4096) CHECK(same(canonical<1>(count, 0.0f, Sum(), fused), expected<float>(count, 0.0f, Sum(), fused)));
        for (long long run : {1ll, 3ll, 512ll}) {
            float wanted = expected_runs(count, run, 0.0f, Sum(), fused);
            CHECK(same(ascending_runs<2>(count, run, 0.0f, Sum(), fused), wanted));
        }
    }
    long long all = (long long)x.size();
    CHECK(same(canonical<2>(all, 0.0f, Sum(), plain), expected<float>(all, 0.0f, Sum(), plain)));
    CHECK(same(canonical<4>(all, 0.0f, Sum(), plain), expected<float>(all, 0.0f, Sum(), plain)));
}

int main() {
    std::mt19937_64 random(3);
    std::uniform_real_distribution<float> even(-1.0f, 1.0f);
    check_sums([&] { return even(random); });
    // Products that underflow to -0, so that it shows whether an accumulator has met an identity.
    check_sums([&] { return random() % 2 == 0 ? -0x1p-100f : 0x1p-100f; });
    check_sums([&] { return -0.0f; });

    std::vector<double> factors(70000);
    for (double& factor : factors) factor = 1.0 + (double)even(random) / 1000;
    auto times = [&](double a, long long term) { return a * factors[term]; };
    CHECK(same(canonical<2>(70000, 1.0, Product(), times), expected<double>(70000, 1.0, Product(), times)));

    // Levels above the second, on 2^24 + some blocks' worth of cheap terms: integers, exact in any order.
    auto count_up = [](long long a, long long term) { return a + term % 7; };
    long long many = 4096ll * 4096 + 12345, wanted = 0;
    for (long long term = 0; term < many; term++) wanted += term % 7;
    CHECK(canonical<3>(many, 0ll, Sum(), count_up) == wanted);
    CHECK((canonical<2, long long>(1000, INT64_MAX, Sum(), [](long long a, long long) { return a; }) != 1));

    for (long long terms : {0ll, 1ll, 511ll, 4096ll, 8192ll, 1000000ll, 1ll << 40}) {
        for (long long runs : {1ll, 2ll, 8ll, 1ll << 20}) {
            long long per_run = (terms + 128 * runs - 1) / (128 * runs) * 128;
            CHECK(run_length(terms, runs) == std::min(16384ll, std::max(512ll, per_run)));
        }
    }

    // The first NaN, else the best value, of equal ones the first; in any grouping.
    float values[] = {0.0f, -0.0f, 1.0f, -1.0f, NAN, INFINITY, 1.0f, NAN};
    std::vector<Best<float>> all = {nothing(0.0f)};
    // Ranges may begin below 0.
    for (int i = 0; i < 8; i++) all.push_back(best(values[i], (long long)i - 2));
    auto better = [](Best<float> a, Best<float> b, bool maximum) {
        if (a.index == nowhere()) return b;
        if (b.index == nowhere()) return a;
        if (a.value != a.value || b.value != b.value) {
            if (a.value == a.value) return b;
            if (b.value == b.value) return a;
        } else if (a.value != b.value) {
            return (a.value > b.value) == maximum ? a : b;
        }
        return a.index < b.index ? a : b;
    };
    for (Best<float> a : all) {
        for (Best<float> b : all) {
            CHECK(FirstMinimum()(a, b).index == better(a, b, false).index);
            CHECK(FirstMaximum()(a, b).index == better(a, b, true).index);
            for (Best<float> c : all) {
                CHECK(FirstMinimum()(FirstMinimum()(a, b), c).index == FirstMinimum()(a, FirstMinimum()(b, c)).index);
                CHECK(FirstMaximum()(FirstMaximum()(a, b), c).index == FirstMaximum()(a, FirstMaximum()(b, c)).index);
            }
        }
    }
    CHECK(index_of(FirstMaximum()(best(3, 5ll), best(3, 4ll))) == 4 && index_of(nothing(1)) == -1);
    CHECK(Any()(false, true) && !All()(false, true) && Minimum()(3, 4) == 3 && Maximum()(3.0f, NAN) != 3.0f);
    CHECK(MinimumF16()(0x0000, 0x8000) == 0x8000 && MaximumF16()(0x3c00, 0x4000) == 0x4000);
    CHECK(MinimumBf16()(0x0000, 0x8000) == 0x8000 && MaximumBf16()(0x3f80, 0x4000) == 0x4000);
    return 0;
}

// Butterflies, and rows that a block reduces in levels.
template <class T, class Combine, class Step> T canonical_of(long long count, T identity, Combine combine, Step step) {
    return canonical<4>(count, identity, combine, step);
}

int main() {
    static float x[32], sums[32], tops[32];
    static long long first[32];
    static double wide[32];
    static bool any[32];
    for (int lane = 0; lane < 32; lane++) x[lane] = (float)std::sin(lane * 1.7) * 3;
    run_warp([] {
        unsigned int lane = threadIdx.x;
        sums[lane] = butterfly<32>(x[lane], Sum());
        tops[lane] = butterfly<8>(x[lane], Maximum());
        wide[lane] = shuffle_xor((double)x[lane], 5);
        any[lane] = butterfly<4>(lane == 9, Any());
        first[lane] = index_of(butterfly<32>(best(x[lane] > 2 ? 1.0f : 0.0f, (long long)lane), FirstMaximum()));
    });
    float tree[32];
    std::memcpy(tree, x, sizeof x);
    for (int width = 16; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) tree[i] = tree[2 * i] + tree[2 * i + 1];
    }
    long long expected_first = 0;
    while (x[expected_first] <= 2) expected_first++;
    for (int lane = 0; lane < 32; lane++) {
        CHECK(same(sums[lane], tree[0]) && first[lane] == expected_first && wide[lane] == x[lane ^ 5]);
        CHECK(any[lane] == (lane >= 8 && lane < 12));
        float top = x[lane / 8 * 8];
        for (int i = 1; i < 8; i++) top = maximum(top, x[lane / 8 * 8 + i]);
        CHECK(same(tops[lane], top));
    }

    // Four accumulators a lane, each of another lane than its neighbours.
    static float own[32][4], four[32], four_of_eight[32];
    for (int at = 0; at < 128; at++) own[at % 32][at / 32] = (float)std::cos(at * 2.3) * 5;
    run_warp([] {
        unsigned int lane = threadIdx.x;
        four[lane] = butterfly_of_four<32>(own[lane], Sum());
        four_of_eight[lane] = butterfly_of_four<8>(own[lane], Sum());
    });
    auto tree_of = [](int first, int lanes) {
        float values[128];
        for (int at = 0; at < 4 * lanes; at++) values[at] = own[first + at % lanes][at / lanes];
        for (int width = 2 * lanes; width > 0; width /= 2) {
            for (int i = 0; i < width; i++) values[i] = values[2 * i] + values[2 * i + 1];
        }
        return values[0];
    };
    for (int lane = 0; lane < 32; lane++) {
        CHECK(same(four[lane], tree_of(0, 32)) && same(four_of_eight[lane], tree_of(lane / 8 * 8, 8)));
    }

    // Blocks whose parts are given: the first level is what the caller does.
    static std::vector<float> parts;
    std::mt19937_64 random(4);
    for (bool underflown : {false, true}) {
        for (long long blocks : {0, 1, 2, 3, 127, 128, 129, 255, 256, 257, 1000, 4095, 4096, 4097, 8192, 9000}) {
            parts.resize(4 * blocks + 4);
            for (float& part : parts) part = underflown ? -0.0f : (float)(random() % 1000000) / 999 - 300;
            auto take = [&](float a, long long b) {
                const float* part = &parts[4 * b];
                return a + ((part[0] + part[1]) + (part[2] + part[3]));
            };
            float wanted = blocks == 1 ? (parts[0] + parts[1]) + (parts[2] + parts[3])
                                       : canonical_of(blocks, 0.0f, Sum(), take);
            static float results[32];
            run_warp([=] {
                CanonicalLevels<float> levels = start_levels(0.0f);
                for (long long chunk = 0; chunk < blocks; chunk += 256) {
                    take_blocks(levels, &parts[4 * chunk], (int)(blocks - chunk < 256 ? blocks - chunk : 256), Sum());
                }
                results[threadIdx.x] = finish_levels(levels, Sum());
            });
            for (float result : results) CHECK(same(result, wanted));
        }
    }
    CanonicalLevelsOfBest<int> none = start_levels(nothing(0));
    CHECK(index_of(finish_levels(none, FirstMinimum())) == -1);
    return 0;
}

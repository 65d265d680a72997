// A wide access at an address that is no multiple of its width.
// mode: address
// finds: misaligned address
struct alignas(16) Four {
    float at[4];
};

extern "C" __global__ void planted(const float* x, float* y, int n) {
    int i = threadIdx.x;
    if (i < 100) {
        const Four four = *reinterpret_cast<const Four*>(x + 1 + 4 * i);
        y[i] = four.at[0];
    }
}

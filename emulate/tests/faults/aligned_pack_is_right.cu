// Right: wide accesses at multiples of their width, the rest one by one.
// mode: address
struct alignas(16) Four {
    float at[4];
};

extern "C" __global__ void planted(const float* x, float* y, int n) {
    int i = 4 * threadIdx.x;
    if (i + 4 <= n) *reinterpret_cast<Four*>(y + i) = *reinterpret_cast<const Four*>(x + i);
}

// Reads before a global array.
// mode: address
// finds: use-after-poison
extern "C" __global__ void planted(const float* x, float* y, int n) {
    int i = threadIdx.x;
    y[i] = x[i - 8];
}

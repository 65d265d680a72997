// Writes far beyond a global array, by a row that is not there.
// mode: address
// finds: use-after-poison
extern "C" __global__ void planted(const float* x, float* y, int n) {
    int i = threadIdx.x;
    y[i + 8 * n] = x[i];
}

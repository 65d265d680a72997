// Reads one element past the end of a global array.
// mode: address
// finds: use-after-poison
extern "C" __global__ void planted(const float* x, float* y, int n) {
    int i = threadIdx.x;
    y[i] = x[i + n - 255];
}

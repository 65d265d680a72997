// Reads far beyond a global array: what is there is no memory.
// mode: plain
// finds: a signal: 
extern "C" __global__ void planted(const float* x, float* y, int n) {
    int i = threadIdx.x;
    y[i] = x[i + 2 * n];
}

// No barrier between writing and reading shared memory.
// mode: thread
// finds: data race
extern "C" __global__ void planted(const float* x, float* y, int n) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[(threadIdx.x + 1) % 256];
}

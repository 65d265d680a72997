// A barrier that only some threads reach; the others end.
// mode: plain
// finds: divergent barrier
extern "C" __global__ void planted(const float* x, float* y, int n) {
    if (threadIdx.x >= 100) return;
    __syncthreads();
    y[threadIdx.x] = x[threadIdx.x];
}

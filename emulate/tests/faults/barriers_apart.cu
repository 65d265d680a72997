// Threads that wait at different barriers.
// mode: plain
// finds: divergent barrier
extern "C" __global__ void planted(const float* x, float* y, int n) {
    if (threadIdx.x < 128) {
        __syncthreads();
    } else {
        y[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
    }
}

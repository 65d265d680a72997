// Lanes exchange values through shared memory without a barrier of the warp.
// mode: thread
// block: 32
// finds: data race
extern "C" __global__ void planted(const float* x, float* y, int n) {
    __shared__ float tile[32];
    tile[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = tile[threadIdx.x ^ 1];
}

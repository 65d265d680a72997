// A shuffle is no barrier for shared memory.
// mode: thread
// block: 32
// finds: data race
extern "C" __global__ void planted(const float* x, float* y, int n) {
    __shared__ float tile[32];
    tile[threadIdx.x] = x[threadIdx.x];
    float other = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
    y[threadIdx.x] = tile[threadIdx.x ^ 1] + other;
}

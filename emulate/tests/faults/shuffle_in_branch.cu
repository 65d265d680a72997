// A shuffle of the whole warp that half of it does not reach.
// mode: plain
// finds: waits for its warp
extern "C" __global__ void planted(const float* x, float* y, int n) {
    float value = x[threadIdx.x];
    if (threadIdx.x % 2 == 0) value += __shfl_xor_sync(0xffffffffu, value, 2);
    __syncthreads();
    y[threadIdx.x] = value;
}

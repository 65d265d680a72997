// A shuffle of 32 lanes in a block that has 48 threads.
// mode: plain
// block: 48
// finds: lanes that the block does not have
extern "C" __global__ void planted(const float* x, float* y, int n) {
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
}

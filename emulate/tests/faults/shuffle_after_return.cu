// A shuffle's mask names lanes that have ended.
// mode: plain
// finds: shuffle
extern "C" __global__ void planted(const float* x, float* y, int n) {
    float value = x[threadIdx.x];
    if (threadIdx.x % 32 >= 20) return;
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, value, 1);
}

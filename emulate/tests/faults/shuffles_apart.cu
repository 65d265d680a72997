// Half a warp shuffles, half votes.
// mode: plain
// finds: lanes of a warp are at different shuffles
extern "C" __global__ void planted(const float* x, float* y, int n) {
    float value = x[threadIdx.x];
    if (threadIdx.x % 32 < 16) {
        value = __shfl_xor_sync(0xffffffffu, value, 1);
    } else {
        value = __ballot_sync(0xffffffffu, value > 3.0f);
    }
    y[threadIdx.x] = value;
}

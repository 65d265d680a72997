// A float to an integer that can't hold it.
// mode: address
// finds: outside the range
extern "C" __global__ void planted(const float* x, float* y, int n) {
    y[threadIdx.x] = (float)(int)(x[threadIdx.x] * 1e9f);
}

// Signed arithmetic that overflows, which CUDA does not define either.
// mode: address
// finds: signed integer overflow
extern "C" __global__ void planted(const float* x, float* y, int n) {
    int i = threadIdx.x + 2147483647 - 255;
    i += n / 1024;
    y[threadIdx.x] = (float)i;
}

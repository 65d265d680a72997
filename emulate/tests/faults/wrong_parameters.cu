// Parameters that are not the contract's.
// mode: plain
// finds: parameter 2 is not what the contract says
extern "C" __global__ void planted(const float* x, float* y, long long n) {
    y[threadIdx.x] = x[0];
}

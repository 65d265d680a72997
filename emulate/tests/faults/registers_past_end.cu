// Indexes a register array past its end.
// mode: address
// finds: out of bounds
extern "C" __global__ void planted(const float* x, float* y, int n) {
    float own[4];
    for (int k = 0; k < 4; k++) own[k] = x[k];
    y[threadIdx.x] = own[threadIdx.x % 5];
}

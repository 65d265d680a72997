// Threads add to one element without atomics.
// mode: thread
// finds: data race
extern "C" __global__ void planted(const float* x, float* y, int n) {
    y[0] += x[threadIdx.x];
}

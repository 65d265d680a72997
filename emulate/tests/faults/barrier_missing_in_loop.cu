// No barrier between reading a tile and writing the next.
// mode: thread
// finds: data race
extern "C" __global__ void planted(const float* x, float* y, int n) {
    __shared__ float tile[256];
    float sum = 0.0f;
    for (int k = 0; k < 4; k++) {
        tile[threadIdx.x] = x[256 * k + threadIdx.x];
        __syncthreads();
        sum += tile[255 - threadIdx.x];
    }
    y[threadIdx.x] = sum;
}

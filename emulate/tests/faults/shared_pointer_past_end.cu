// Writes past the end of a shared array, by a pointer.
// mode: address
// finds: global-buffer-overflow
extern "C" __global__ void planted(const float* x, float* y, int n) {
    __shared__ float tile[256];
    float* at = tile;
    at += threadIdx.x + 1;
    *at = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}

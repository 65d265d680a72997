// Writes one element past the end of a shared array.
// mode: address
// finds: index 256 out of bounds
extern "C" __global__ void planted(const float* x, float* y, int n) {
    __shared__ float tile[256];
    int i = threadIdx.x;
    tile[i + 1] = x[i];
    __syncthreads();
    y[i] = tile[i];
}

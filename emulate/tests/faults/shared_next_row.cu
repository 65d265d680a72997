// Reads the row after the last column: inside the shared array, outside its row.
// mode: address
// finds: index 16 out of bounds
extern "C" __global__ void planted(const float* x, float* y, int n) {
    __shared__ float tile[16][16];
    int i = threadIdx.x / 16, j = threadIdx.x % 16;
    tile[i][j] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = i < 15 ? tile[i][j + 1] : 0.0f;
}

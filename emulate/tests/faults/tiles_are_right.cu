// Right: barriers on both sides of the reads, a barrier of the warp, atomics, several blocks over the same shared memory.
// mode: thread
// grid: 4
extern "C" __global__ void planted(const float* x, float* y, int n) {
    __shared__ float tile[256];
    __shared__ int count;
    float sum = 0.0f;
    for (int k = 0; k < 4; k++) {
        tile[threadIdx.x] = x[256 * k + threadIdx.x];
        __syncthreads();
        sum += tile[255 - threadIdx.x];
        __syncthreads();
    }
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    atomicAdd(&count, 1);
    tile[threadIdx.x] = sum;
    __syncwarp();
    sum += tile[threadIdx.x ^ 1];
    __syncthreads();
    y[256 * blockIdx.x + threadIdx.x] = sum + (float)count;
}

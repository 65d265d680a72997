// A block reads what another of its cluster has not written yet.
// mode: plain
// grid: 4
// cluster: 4
// finds: a signal
extern "C" __global__ void __cluster_dims__(4, 1, 1) planted(const float* x, float* y, int n) {
    __shared__ float held[256];
    held[threadIdx.x] = 1.0f;
    __syncthreads();
    float next = *(const float*)__cluster_map_shared_rank(&held[threadIdx.x], (blockIdx.x + 1) % 4);
    float previous = *(const float*)__cluster_map_shared_rank(&held[threadIdx.x], (blockIdx.x + 3) % 4);
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    if (!(next == 1.0f && previous == 1.0f)) y[1ll << 40] = 0.0f;
}

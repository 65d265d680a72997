// The blocks of a cluster read what the others hold, and wait before they overwrite it.
// mode: plain
// grid: 8
// cluster: 4
extern "C" __global__ void __cluster_dims__(4, 1, 1) planted(const float* x, float* y, int n) {
    __shared__ float held[256];
    int rank = blockIdx.x % 4;
    held[threadIdx.x] = x[threadIdx.x] + blockIdx.x;
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    float total = 0.0f;
    for (int other = 0; other < 4; other++) {
        total += *(const float*)__cluster_map_shared_rank(&held[threadIdx.x], other);
    }
    float wanted = 4 * x[threadIdx.x] + 4 * (blockIdx.x - rank) + 6;
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    held[threadIdx.x] = 0.0f;
    if (total != wanted) y[1ll << 40] = 0.0f;
}

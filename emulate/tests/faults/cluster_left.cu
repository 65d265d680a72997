// A block of the cluster has ended, the others wait for it.
// mode: plain
// grid: 4
// cluster: 4
// finds: some blocks of a cluster wait for it, others have ended
extern "C" __global__ void __cluster_dims__(4, 1, 1) planted(const float* x, float* y, int n) {
    if (blockIdx.x == 2) return;
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
}

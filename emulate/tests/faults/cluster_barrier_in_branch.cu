// Some threads wait for the cluster, the others for their block.
// mode: plain
// cluster: 2
// grid: 2
// finds: divergent barrier
extern "C" __global__ void __cluster_dims__(2, 1, 1) planted(const float* x, float* y, int n) {
    if (threadIdx.x < 100) {
        __cluster_barrier_arrive();
        __cluster_barrier_wait();
    } else {
        __syncthreads();
    }
}

// Waits for all threads of a cluster of blocks, which then see what the others have written to shared
// memory.
__device__ __forceinline__ void cluster_barrier() {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
}

// What a block of the cluster has at the same place of its shared memory.
template <class T> __device__ __forceinline__ T of_block(const T* place, int block) {
    return *(const T*)__cluster_map_shared_rank(place, block);
}

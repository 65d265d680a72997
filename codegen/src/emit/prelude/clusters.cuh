// Waits for all threads of a cluster of blocks, which then see what the others have written to shared
// memory.
__device__ __forceinline__ void cluster_barrier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// What a block of the cluster has at the same place of its shared memory.
template <class T> __device__ __forceinline__ T of_block(const T* place, int block) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned long long there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(place), "r"(block));
    return *(const T*)there;
#else
    return *place;
#endif
}

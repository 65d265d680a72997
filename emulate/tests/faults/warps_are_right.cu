// Right: every shuffle and vote gives what CUDA says, else a trap.
// mode: plain
// grid: 2
// block: 64
extern "C" __global__ void planted(const float* x, float* y, int n) {
    const unsigned int whole = 0xffffffffu;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool good = __shfl_sync(whole, 100 * warp + lane, 7) == 100 * warp + 7;
    good = good && __shfl_up_sync(whole, lane, 3) == (lane < 3 ? lane : lane - 3);
    good = good && __shfl_down_sync(whole, lane, 3) == (lane > 28 ? lane : lane + 3);
    good = good && __shfl_xor_sync(whole, (double)lane, 5) == (double)(lane ^ 5);
    good = good && __shfl_down_sync(whole, lane, 1, 8) == (lane % 8 == 7 ? lane : lane + 1);
    good = good && __ballot_sync(whole, lane % 3 == 0) == 0x49249249u;
    good = good && __any_sync(whole, lane == 31) && !__all_sync(whole, lane == 31);
    good = good && __shfl_sync(whole, (short)-lane, 9) == -9;
    good = good && blockDim.x == 64 && gridDim.x == 2 && blockIdx.x < 2;
    if (!good) __builtin_trap();
    y[64 * blockIdx.x + threadIdx.x] = x[threadIdx.x];
}

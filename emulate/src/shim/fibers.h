// The threads of a block: each a fiber, which runs from one barrier or shuffle to the next. For runner.cpp alone, which is
// built without sanitizers and linked with them (MODE_ADDRESS or MODE_THREAD), so that only the texts are watched.
//
// The blocks of a cluster take turns, from one barrier of the cluster to the next. All have their shared memory at the same
// place: whose turn ends keeps a copy of it, in which the others read meanwhile.
#pragma once
#define CUDA_ON_CPU_RUNNER
#include "cuda_on_cpu.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

using namespace cuda_on_cpu;

extern "C" {
#ifdef MODE_ADDRESS
void __sanitizer_start_switch_fiber(void**, const void*, size_t);
void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
void __asan_poison_memory_region(const volatile void*, size_t);
void __asan_unpoison_memory_region(const volatile void*, size_t);
#endif
#ifdef MODE_THREAD
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned);
void __tsan_switch_to_fiber(void*, unsigned);
void __tsan_acquire(void*);
void __tsan_release(void*);
// A volatile access is meant to race.
#define VOLATILE(bytes)                                \
    void __tsan_volatile_read##bytes(void*) {}         \
    void __tsan_volatile_write##bytes(void*) {}        \
    void __tsan_unaligned_volatile_read##bytes(void*) {} \
    void __tsan_unaligned_volatile_write##bytes(void*) {}
VOLATILE(1)
VOLATILE(2)
VOLATILE(4)
VOLATILE(8)
VOLATILE(16)
#endif
}

namespace cuda_on_cpu {
extern "C" {
Here cuda_on_cpu_here;
}
}  // namespace cuda_on_cpu

namespace {

constexpr size_t STACK = 256 << 10, PAGE = 4096;
// Exit statuses of a job's process.
constexpr int FAULT = 67, CONTRACT = 68;

enum State { READY, AT_BARRIER, AT_EXCHANGE, AT_CLUSTER, DONE };
const char* const STATES[] = {"runs", "waits at a barrier", "waits for its warp", "waits for its cluster", "has ended"};

struct Warp {
    unsigned int mask, arrived, lanes, ended;
    int how, width;
    bool parity;
    uint64_t bits[32], result[32];
    unsigned int argument[32];
    char together[2];
};

struct alignas(64) Fiber {
    void* stack_pointer;
    char* stack;
    Index thread;
    unsigned int lane;
    Warp* warp;
    State state;
    int line;
#ifdef MODE_THREAD
    void* tsan;
#endif
#if !defined(__x86_64__)
    ucontext_t context;
#endif
};

struct Block {
    Index index;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    unsigned int done = 0, at_barrier = 0, at_cluster = 0;
    // Its shared memory, while another block of the cluster runs.
    std::vector<char> shared;
    char together[2];
    bool parity = false;
};

// A launch, as far as it has come: the blocks of a cluster, and which of them runs.
struct Run {
    std::vector<Block> cluster;
    Block* block = nullptr;
    Fiber* fiber = nullptr;
    std::vector<unsigned int> warp_order, lane_order;
    void* scheduler = nullptr;
    const Listed* entry = nullptr;
    const unsigned long long* arguments = nullptr;
    // What orders the turns of a cluster's blocks.
    char turn[2];
#ifdef MODE_ADDRESS
    const void* main_stack = nullptr;
    size_t main_size = 0;
#endif
#ifdef MODE_THREAD
    void* main_tsan = nullptr;
#endif
#if !defined(__x86_64__)
    ucontext_t context;
#endif
} run;

[[noreturn]] void fault(const char* what) {
    const Here& here = cuda_on_cpu_here;
    const char* name = run.entry ? run.entry->name : "?";
    const char* short_name = strchr(name, ':');
    fprintf(stderr, "%s: %s (block %u,%u,%u, thread %u,%u,%u)\n", short_name ? short_name + 1 : name, what, here.block.x, here.block.y,
            here.block.z, here.thread.x, here.thread.y, here.thread.z);
    fflush(stderr);
    _exit(FAULT);
}

[[noreturn]] void broken(const std::string& what) {
    fprintf(stderr, "%s\n", what.c_str());
    fflush(stderr);
    _exit(CONTRACT);
}

#if defined(__x86_64__)
// Leaves off here, and goes on where `load` has left off. By jumps, not by a call: processors then foresee where each of them goes,
// and threads that stand at the same place return to the same places.
inline __attribute__((always_inline)) void switch_to(void** save, void* load) {
    // The compiler may have put something below the stack pointer.
    asm volatile(R"(
        leaq -128(%%rsp), %%rsp
        pushq %%rbp
        leaq 1f(%%rip), %%rax
        pushq %%rax
        movq %%rsp, (%0)
        movq %1, %%rsp
        popq %%rax
        jmp *%%rax
    1:  popq %%rbp
        leaq 128(%%rsp), %%rsp
    )"
                 : "+D"(save), "+S"(load)
                 :
                 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3",
                   "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
}
#endif

// From a thread back to the scheduler.
void leave(State state) {
    Fiber* self = run.fiber;
    self->state = state;
    if (state == DONE) self->warp->ended |= 1u << self->lane;
#ifdef MODE_ADDRESS
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(state == DONE ? nullptr : &fake, run.main_stack, run.main_size);
#endif
#ifdef MODE_THREAD
    __tsan_switch_to_fiber(run.main_tsan, 1);
#endif
#if defined(__x86_64__)
    switch_to(&self->stack_pointer, run.scheduler);
#else
    swapcontext(&self->context, &run.context);
#endif
#ifdef MODE_ADDRESS
    __sanitizer_finish_switch_fiber(fake, &run.main_stack, &run.main_size);
#endif
}

void thread_main() {
#ifdef MODE_ADDRESS
    __sanitizer_finish_switch_fiber(nullptr, &run.main_stack, &run.main_size);
#endif
#ifdef MODE_THREAD
    __tsan_acquire(&run.turn[0]);
#endif
    run.entry->call(run.entry->function, run.arguments);
#ifdef MODE_THREAD
    __tsan_release(&run.turn[1]);
#endif
    leave(DONE);
    __builtin_trap();
}

void resume(Fiber& fiber) {
    run.fiber = &fiber;
    cuda_on_cpu_here.thread = fiber.thread;
#ifdef MODE_ADDRESS
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, fiber.stack, STACK);
#endif
#ifdef MODE_THREAD
    __tsan_switch_to_fiber(fiber.tsan, 1);
#endif
#if defined(__x86_64__)
    switch_to(&run.scheduler, fiber.stack_pointer);
#else
    swapcontext(&run.context, &fiber.context);
#endif
#ifdef MODE_ADDRESS
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

// Every waiting lane has given its value: each gets its own.
void deliver(Warp& warp) {
    unsigned int ballot = 0;
    for (unsigned int lane = 0; lane < 32 && warp.how == BALLOT; lane++) {
        ballot |= unsigned(warp.arrived >> lane & 1 && warp.bits[lane] != 0) << lane;
    }
    for (unsigned int lane = 0; lane < 32; lane++) {
        if (!(warp.arrived >> lane & 1)) continue;
        unsigned int width = (unsigned int)warp.width, first = lane & ~(width - 1), argument = warp.argument[lane], source = lane;
        switch (warp.how) {
            case FROM_LANE: source = first + (argument & (width - 1)); break;
            case FROM_BELOW: source = lane - first >= argument ? lane - argument : lane; break;
            case FROM_ABOVE: source = lane - first + argument < width ? lane + argument : lane; break;
            case FROM_XOR: source = (lane ^ argument) < first + width ? lane ^ argument : lane; break;
            default: break;
        }
        if (!(warp.arrived >> source & 1)) fault("a lane reads from a lane that takes no part in the shuffle");
        warp.result[lane] = warp.how == BALLOT ? ballot : warp.bits[source];
    }
}

// What is read before it is written shall be noticed: NaN, -1, true. (Of memset, sanitizers would ask whether it may.)
void conspicuous(char* begin, char* end) {
    using Word = unsigned long long __attribute__((aligned(1), may_alias));
    for (; end - begin >= 8; begin += 8) *(volatile Word*)begin = ~0ull;
    for (; begin != end; begin++) *(volatile char*)begin = (char)0xff;
}

void start_block(Block& block) {
    for (Fiber& fiber : block.fibers) {
        fiber.state = READY;
#if defined(__x86_64__)
        // Where to go on, and where thread_main would return to: nowhere. Stacks that began at the same place of a page would share
        // few lines of the cache.
        size_t number = (size_t)(&fiber - block.fibers.data());
        void** top = (void**)(fiber.stack + STACK - number % 32 * 128) - 2;
        top[0] = (void*)thread_main;
        top[1] = nullptr;
        fiber.stack_pointer = top;
#else
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack;
        fiber.context.uc_stack.ss_size = STACK;
        makecontext(&fiber.context, thread_main, 0);
#endif
    }
    for (Warp& warp : block.warps) warp.arrived = warp.ended = 0;
    block.done = block.at_barrier = block.at_cluster = 0;
    // A block without a cluster needs no copy.
    size_t bytes = (size_t)(run.entry->shared_end - run.entry->shared_begin);
    if (run.cluster.size() > 1) {
        block.shared.assign(bytes, (char)0xff);
    } else {
        conspicuous(run.entry->shared_begin, run.entry->shared_end);
    }
}

[[noreturn]] void stuck() {
    unsigned int counts[5] = {};
    for (const Fiber& fiber : run.block->fibers) counts[fiber.state]++;
    std::string what = counts[AT_EXCHANGE] ? "deadlock: lanes wait in a shuffle that others do not reach"
                                           : "divergent barrier: some threads wait, others have ended or wait elsewhere";
    for (State state : {AT_BARRIER, AT_EXCHANGE, AT_CLUSTER, DONE}) {
        for (const Fiber& fiber : run.block->fibers) {
            if (fiber.state != state) continue;
            what += "; " + std::to_string(counts[state]) + (counts[state] == 1 ? " thread " : " threads, like ") +
                    std::to_string(fiber.thread.x) + "," + std::to_string(fiber.thread.y) + "," + std::to_string(fiber.thread.z) + ": " +
                    STATES[state];
            if (state == AT_BARRIER || state == AT_CLUSTER) what += " at line " + std::to_string(fiber.line);
            break;
        }
    }
    fault(what.c_str());
}

// All threads of a block wait at one line, from where they go on.
void release(Block& block, const char* what) {
    for (Fiber& fiber : block.fibers) {
        if (fiber.line != block.fibers[0].line) {
            fault((std::string("divergent ") + what + ": threads wait at line " + std::to_string(block.fibers[0].line) + " and at line " +
                   std::to_string(fiber.line)).c_str());
        }
        fiber.state = READY;
    }
}

// Runs a block until its threads have ended or wait for the cluster.
void take_turn(Block& block) {
    unsigned int threads = (unsigned int)block.fibers.size();
    run.block = &block;
    cuda_on_cpu_here.block = block.index;
    if (!block.shared.empty()) memcpy(run.entry->shared_begin, block.shared.data(), block.shared.size());
#ifdef MODE_THREAD
    __tsan_release(&run.turn[0]);
#endif
    while (block.done + block.at_cluster < threads) {
        bool progress = false;
        // A warp runs until all its lanes wait for other warps.
        for (unsigned int w : run.warp_order) {
            for (bool again = true; again;) {
                again = false;
                for (unsigned int lane : run.lane_order) {
                    if (32 * w + lane >= threads) continue;
                    Fiber& fiber = block.fibers[32 * w + lane];
                    if (fiber.state != READY) continue;
                    resume(fiber);
                    progress = true;
                    again = again || block.warps[w].arrived == 0;
                    block.done += fiber.state == DONE;
                    block.at_barrier += fiber.state == AT_BARRIER;
                    block.at_cluster += fiber.state == AT_CLUSTER;
                }
            }
        }
        if (block.at_barrier == threads) {
            release(block, "barrier");
            block.at_barrier = 0;
            block.parity = !block.parity;
        } else if (!progress) {
            stuck();
        }
    }
    if (block.done != 0 && block.done != threads) stuck();
#ifdef MODE_THREAD
    // Another block comes after this one: blocks share static memory only here.
    __tsan_acquire(&run.turn[1]);
#endif
    if (!block.shared.empty()) memcpy(block.shared.data(), run.entry->shared_begin, block.shared.size());
}

// Runs the blocks of a cluster to their end.
void run_cluster() {
    for (Block& block : run.cluster) start_block(block);
    for (;;) {
        size_t ended = 0;
        for (Block& block : run.cluster) {
            take_turn(block);
            ended += block.at_cluster == 0;
        }
        if (ended == run.cluster.size()) return;
        if (ended != 0) fault("divergent barrier: some blocks of a cluster wait for it, others have ended");
        int line = run.cluster[0].fibers[0].line;
        for (Block& block : run.cluster) {
            release(block, "barrier of a cluster");
            block.at_cluster = 0;
            if (block.fibers[0].line != line) fault("divergent barrier: blocks of a cluster wait for it at several lines");
        }
    }
}

// An order of 0..n: ascending for seed 0, descending for 1, else shuffled.
void order(std::vector<unsigned int>& numbers, unsigned int n, uint64_t seed) {
    numbers.resize(n);
    for (unsigned int i = 0; i < n; i++) numbers[i] = seed == 1 ? n - 1 - i : i;
    uint64_t random = seed;
    for (unsigned int i = n; seed > 1 && i > 1; i--) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(numbers[i - 1], numbers[(random >> 33) % i]);
    }
}

// What a fiber runs on. A page guards each stack.
struct Stack {
    char* bottom;
    void* tsan;
};

// The first so many stacks. They are made once, and launch after launch, job after job runs on them.
const Stack* stacks(size_t count) {
    static std::vector<Stack> all;
    size_t each = PAGE + STACK, more = count > all.size() ? count - all.size() : 0;
    char* memory = more == 0 ? nullptr : (char*)mmap(nullptr, each * more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) broken("no memory for stacks");
    for (char* at = memory; at != memory + each * more; at += each) {
        mprotect(at, PAGE, PROT_NONE);
        all.push_back({at + PAGE, nullptr});
#ifdef MODE_THREAD
        all.back().tsan = __tsan_create_fiber(1);
#endif
    }
    return all.data();
}

// The fibers of a cluster's blocks.
void make_fibers(std::vector<Block>& cluster, const uint32_t* threads) {
    unsigned int count = threads[0] * threads[1] * threads[2];
    const Stack* stack = stacks(cluster.size() * count);
    for (Block& block : cluster) {
        block.fibers.assign(count, Fiber());
        block.warps.assign((count + 31) / 32, Warp());
        for (unsigned int i = 0; i < count; i++, stack++) {
            Fiber& fiber = block.fibers[i];
            fiber.stack = stack->bottom;
            fiber.thread = {i % threads[0], i / threads[0] % threads[1], i / (threads[0] * threads[1])};
            fiber.lane = i % 32;
            fiber.warp = &block.warps[i / 32];
            fiber.warp->lanes |= 1u << fiber.lane;
#ifdef MODE_THREAD
            fiber.tsan = stack->tsan;
#endif
        }
    }
}

}  // namespace

namespace cuda_on_cpu {

extern "C" __attribute__((visibility("default"))) void cuda_on_cpu_barrier(int line) {
    run.fiber->line = line;
#ifdef MODE_THREAD
    __tsan_release(&run.block->together[!run.block->parity]);
#endif
    leave(AT_BARRIER);
#ifdef MODE_THREAD
    __tsan_acquire(&run.block->together[run.block->parity]);
#endif
}

extern "C" __attribute__((visibility("default"))) void cuda_on_cpu_cluster_barrier(int line) {
    run.fiber->line = line;
#ifdef MODE_THREAD
    __tsan_release(&run.turn[1]);
#endif
    leave(AT_CLUSTER);
#ifdef MODE_THREAD
    __tsan_acquire(&run.turn[0]);
#endif
}

extern "C" __attribute__((visibility("default"))) const void* cuda_on_cpu_of_block(const void* place, unsigned int rank) {
    size_t offset = (size_t)((const char*)place - run.entry->shared_begin);
    if (offset >= run.block->shared.size()) fault("another block of the cluster is asked for what is not in shared memory");
    if (rank >= run.cluster.size()) fault("a cluster is asked for a block that it does not have");
    Block* other = &run.cluster[rank];
    return other == run.block ? place : other->shared.data() + offset;
}

extern "C" __attribute__((visibility("default"))) unsigned long long cuda_on_cpu_exchange(
    int how, unsigned int mask, unsigned long long bits, unsigned int argument, int width
) {
    Fiber* self = run.fiber;
    Warp& warp = *self->warp;
    if (!(mask >> self->lane & 1)) fault("a lane is not in the mask of its own shuffle");
    if (mask & ~warp.lanes) fault("a shuffle's mask names lanes that the block does not have");
    if (mask & warp.ended) fault("a shuffle's mask names a lane that has ended");
    if (warp.arrived == 0) {
        warp.mask = mask;
        warp.how = how;
        warp.width = width;
    } else if (warp.mask != mask || warp.how != how || warp.width != width) {
        fault("lanes of a warp are at different shuffles");
    } else if (how != FROM_LANE && warp.argument[__builtin_ctz(warp.arrived)] != argument) {
        fault("lanes of a warp shuffle over different distances");
    }
    warp.bits[self->lane] = bits;
    warp.argument[self->lane] = argument;
    warp.arrived |= 1u << self->lane;
#ifdef MODE_THREAD
    // Only __syncwarp orders memory.
    bool parity = warp.parity;
    if (how == WARP_BARRIER) __tsan_release(&warp.together[parity]);
#endif
    if (warp.arrived == mask) {
        deliver(warp);
        warp.arrived = 0;
        warp.parity = !warp.parity;
        for (unsigned int lane = 0; lane < 32; lane++) {
            if (mask >> lane & 1) self[(int)lane - (int)self->lane].state = READY;
        }
    } else {
        leave(AT_EXCHANGE);
    }
#ifdef MODE_THREAD
    if (how == WARP_BARRIER) __tsan_acquire(&warp.together[parity]);
#endif
    return warp.result[self->lane];
}

}  // namespace cuda_on_cpu

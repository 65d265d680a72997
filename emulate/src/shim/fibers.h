// The threads of a block: each a fiber, which runs from one barrier or shuffle to the next. For runner.cpp alone, which is
// built without sanitizers and linked with them (MODE_ADDRESS or MODE_THREAD), so that only the texts are watched.
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

enum State { READY, AT_BARRIER, AT_EXCHANGE, DONE };
const char* const STATES[] = {"runs", "waits at a barrier", "waits for its warp", "has ended"};

struct Warp {
    unsigned int mask, arrived, lanes;
    int how, width;
    bool parity;
    uint64_t bits[32], result[32];
    unsigned int argument[32];
    char together[2];
};

struct Fiber {
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
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    std::vector<unsigned int> warp_order, lane_order;
    Fiber* current = nullptr;
    void* scheduler = nullptr;
    const Listed* entry = nullptr;
    const unsigned long long* arguments = nullptr;
    char together[2];
    bool parity = false;
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
} block;

[[noreturn]] void fault(const char* what) {
    const Here& here = cuda_on_cpu_here;
    const char* name = block.entry ? block.entry->name : "?";
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
// Saves what a call must keep, then runs where `load` has left off.
extern "C" void cuda_on_cpu_switch(void** save, void* load);
asm(R"(
.text
.globl cuda_on_cpu_switch
.type cuda_on_cpu_switch,@function
cuda_on_cpu_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size cuda_on_cpu_switch,.-cuda_on_cpu_switch
)");
#endif

// From a thread back to the scheduler.
void leave(State state) {
    Fiber* self = block.current;
    self->state = state;
#ifdef MODE_ADDRESS
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(state == DONE ? nullptr : &fake, block.main_stack, block.main_size);
#endif
#ifdef MODE_THREAD
    __tsan_switch_to_fiber(block.main_tsan, 1);
#endif
#if defined(__x86_64__)
    cuda_on_cpu_switch(&self->stack_pointer, block.scheduler);
#else
    swapcontext(&self->context, &block.context);
#endif
#ifdef MODE_ADDRESS
    __sanitizer_finish_switch_fiber(fake, &block.main_stack, &block.main_size);
#endif
}

void thread_main() {
#ifdef MODE_ADDRESS
    __sanitizer_finish_switch_fiber(nullptr, &block.main_stack, &block.main_size);
#endif
#ifdef MODE_THREAD
    __tsan_acquire(&block.together[block.parity]);
#endif
    block.entry->call(block.entry->function, block.arguments);
#ifdef MODE_THREAD
    __tsan_release(&block.together[!block.parity]);
#endif
    leave(DONE);
    __builtin_trap();
}

void resume(Fiber& fiber) {
    block.current = &fiber;
    cuda_on_cpu_here.thread = fiber.thread;
#ifdef MODE_ADDRESS
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, fiber.stack, STACK);
#endif
#ifdef MODE_THREAD
    __tsan_switch_to_fiber(fiber.tsan, 1);
#endif
#if defined(__x86_64__)
    cuda_on_cpu_switch(&block.scheduler, fiber.stack_pointer);
#else
    swapcontext(&block.context, &fiber.context);
#endif
#ifdef MODE_ADDRESS
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

// Every waiting lane has given its value: each gets its own.
void deliver(Warp& warp) {
    unsigned int ballot = 0;
    for (unsigned int lane = 0; lane < 32; lane++) ballot |= unsigned(warp.arrived >> lane & 1 && warp.bits[lane] != 0) << lane;
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

void start_block(unsigned int threads) {
    for (unsigned int i = 0; i < threads; i++) {
        Fiber& fiber = block.fibers[i];
        fiber.state = READY;
#if defined(__x86_64__)
        // As if thread_main had been called from nowhere: a return address for the switch, six registers.
        void** top = (void**)(fiber.stack + STACK) - 2;
        *top = (void*)thread_main;
        memset(top - 6, 0, 6 * sizeof *top);
        fiber.stack_pointer = top - 6;
#else
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack;
        fiber.context.uc_stack.ss_size = STACK;
        makecontext(&fiber.context, thread_main, 0);
#endif
    }
    for (Warp& warp : block.warps) warp.arrived = 0;
    // What is read before it is written shall be noticed: NaN, -1, true.
    for (char* at = block.entry->shared_begin; at != block.entry->shared_end; at++) *at = (char)0xff;
#ifdef MODE_THREAD
    __tsan_release(&block.together[block.parity]);
#endif
}

[[noreturn]] void stuck() {
    unsigned int counts[4] = {};
    for (const Fiber& fiber : block.fibers) counts[fiber.state]++;
    std::string what = counts[AT_EXCHANGE] ? "deadlock: lanes wait in a shuffle that others do not reach"
                                           : "divergent barrier: some threads wait, others have ended";
    for (State state : {AT_BARRIER, AT_EXCHANGE, DONE}) {
        for (const Fiber& fiber : block.fibers) {
            if (fiber.state != state) continue;
            what += "; " + std::to_string(counts[state]) + (counts[state] == 1 ? " thread " : " threads, like ") +
                    std::to_string(fiber.thread.x) + "," + std::to_string(fiber.thread.y) + "," + std::to_string(fiber.thread.z) + ": " +
                    STATES[state];
            if (state == AT_BARRIER) what += " at line " + std::to_string(fiber.line);
            break;
        }
    }
    fault(what.c_str());
}

void run_block() {
    unsigned int threads = (unsigned int)block.fibers.size(), done = 0, waiting = 0;
    start_block(threads);
    while (done < threads) {
        bool progress = false;
        // A warp runs until all its lanes wait for other warps.
        for (unsigned int w : block.warp_order) {
            for (bool again = true; again;) {
                again = false;
                for (unsigned int lane : block.lane_order) {
                    if (32 * w + lane >= threads) continue;
                    Fiber& fiber = block.fibers[32 * w + lane];
                    if (fiber.state != READY) continue;
                    resume(fiber);
                    progress = true;
                    again = again || block.warps[w].arrived == 0;
                    done += fiber.state == DONE;
                    waiting += fiber.state == AT_BARRIER;
                }
            }
        }
        if (done == threads) break;
        if (waiting == threads) {
            for (Fiber& fiber : block.fibers) {
                if (fiber.line != block.fibers[0].line) {
                    fault(("divergent barrier: threads wait at line " + std::to_string(block.fibers[0].line) + " and at line " +
                           std::to_string(fiber.line)).c_str());
                }
                fiber.state = READY;
            }
            waiting = 0;
            block.parity = !block.parity;
        } else if (!progress) {
            stuck();
        }
    }
#ifdef MODE_THREAD
    // The next block comes after this one: blocks share static memory only here.
    __tsan_acquire(&block.together[!block.parity]);
#endif
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

void make_fibers(const uint32_t* threads) {
    unsigned int count = threads[0] * threads[1] * threads[2];
    block.fibers.assign(count, Fiber());
    block.warps.assign((count + 31) / 32, Warp());
    size_t each = STACK + PAGE;
    char* stacks = (char*)mmap(nullptr, each * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) broken("no memory for stacks");
    for (unsigned int i = 0; i < count; i++) {
        Fiber& fiber = block.fibers[i];
        mprotect(stacks + each * i, PAGE, PROT_NONE);
        fiber.stack = stacks + each * i + PAGE;
        fiber.thread = {i % threads[0], i / threads[0] % threads[1], i / (threads[0] * threads[1])};
        fiber.lane = i % 32;
        fiber.warp = &block.warps[i / 32];
        fiber.warp->lanes |= 1u << fiber.lane;
#ifdef MODE_THREAD
        fiber.tsan = __tsan_create_fiber(1);
#endif
    }
}

}  // namespace

namespace cuda_on_cpu {

extern "C" __attribute__((visibility("default"))) void cuda_on_cpu_barrier(int line) {
    block.current->line = line;
#ifdef MODE_THREAD
    __tsan_release(&block.together[!block.parity]);
#endif
    leave(AT_BARRIER);
#ifdef MODE_THREAD
    __tsan_acquire(&block.together[block.parity]);
#endif
}

extern "C" __attribute__((visibility("default"))) unsigned long long cuda_on_cpu_exchange(
    int how, unsigned int mask, unsigned long long bits, unsigned int argument, int width
) {
    Fiber* self = block.current;
    Warp& warp = *self->warp;
    if (!(mask >> self->lane & 1)) fault("a lane is not in the mask of its own shuffle");
    if (mask & ~warp.lanes) fault("a shuffle's mask names lanes that the block does not have");
    for (unsigned int lane = 0; lane < 32; lane++) {
        if (mask >> lane & 1 && self[(int)lane - (int)self->lane].state == DONE) fault("a shuffle's mask names a lane that has ended");
    }
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

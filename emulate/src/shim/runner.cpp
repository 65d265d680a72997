// Runs the launches of jobs: each block runs to its end. Jobs run one after the other in a process, until one of them ends it:
// those that are left have another one.
//
//   runner JOBS RESULTS SECONDS
//
// JOBS is what job.rs writes. Of job number n, RESULTS.n receives the output buffers, RESULTS.n.err what was said; RESULTS
// itself a line per job: how it ended its process, 0 if it did not.
#include "fibers.h"

#include <csignal>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace {

// A job's parts, read from bytes.
struct Reader {
    const char *at, *end;
    void need(size_t bytes) {
        if (size_t(end - at) < bytes) broken("a job is cut off");
    }
    uint64_t word() {
        need(8);
        uint64_t value;
        memcpy(&value, at, 8);
        at += 8;
        return value;
    }
    std::string text() {
        size_t length = word();
        need(length);
        std::string value(at, length);
        at += length;
        return value;
    }
};

constexpr size_t GUARD = 64 << 10;
constexpr char SPARE = (char)0xa5;

struct Buffer {
    char* data;
    size_t bytes;
    bool output;
    // What belongs to it, and no guard; what of that is not data stays as it is.
    char *begin, *end;

    void drop() const {
#ifdef MODE_ADDRESS
        __asan_unpoison_memory_region(begin - GUARD, GUARD + size_t(end - begin) + GUARD);
#endif
        munmap(begin - GUARD, GUARD + size_t(end - begin) + GUARD);
    }
};

// Memory between guards. With the address sanitizer it starts `offset` bytes beyond a multiple of 256. Otherwise pages guard it, and
// it starts so many bytes beyond a multiple of 16: as near to the guard before it as that allows (`low`), or to the one after it.
Buffer place_buffer(size_t bytes, size_t offset, bool low) {
    Buffer buffer = {};
    buffer.bytes = bytes;
#ifdef MODE_ADDRESS
    size_t body = offset + bytes;
#else
    offset %= 16;
    size_t body = (offset + bytes + PAGE - 1) / PAGE * PAGE;
#endif
    char* memory = (char*)mmap(nullptr, GUARD + body + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) broken("no memory for a buffer");
    buffer.begin = memory + GUARD;
    buffer.end = buffer.begin + body;
#ifdef MODE_ADDRESS
    (void)low;
    buffer.data = buffer.begin + offset;
    // Shadow bytes stand for 8: the first guard ends on such a border where the buffer begins between two.
    __asan_poison_memory_region(memory, (GUARD + offset) / 8 * 8);
    __asan_poison_memory_region(buffer.end, GUARD);
#else
    buffer.data = buffer.begin + (low ? 0 : (body - bytes - offset) / 16 * 16) + offset;
    memset(buffer.begin, SPARE, (size_t)(buffer.data - buffer.begin));
    memset(buffer.data + bytes, SPARE, (size_t)(buffer.end - buffer.data - bytes));
    mprotect(memory, GUARD, PROT_NONE);
    mprotect(buffer.end, GUARD, PROT_NONE);
#endif
    return buffer;
}

#ifndef MODE_ADDRESS
bool is_spare(const char* begin, const char* end) {
    return begin == end || (*begin == SPARE && memcmp(begin, begin + 1, size_t(end - begin) - 1) == 0);
}

void check_spare(const Buffer& buffer) {
    if (!is_spare(buffer.begin, buffer.data) || !is_spare(buffer.data + buffer.bytes, buffer.end)) fault("a write beside an array");
}
#else
void check_spare(const Buffer&) {}
#endif

Buffer make_buffer(Reader& in, bool low) {
    size_t bytes = in.word();
    uint64_t offset = in.word(), content = in.word();
    Buffer buffer = place_buffer(bytes, offset, low);
    buffer.output = in.word() != 0;
    if (content < 256) {
        if (content != 0) memset(buffer.data, (int)content, buffer.bytes);
    } else {
        in.need(buffer.bytes);
        memcpy(buffer.data, in.at, buffer.bytes);
        in.at += buffer.bytes;
    }
    return buffer;
}

void launch(Reader& in, const Listed* listed, const std::vector<Buffer>& buffers, uint64_t seed) {
    std::string name = in.text();
    for (; listed->name && name != listed->name; listed++) {}
    if (!listed->name) broken("no function " + name);
    uint32_t grid[3], threads[3];
    for (uint32_t& extent : grid) extent = (uint32_t)in.word();
    for (uint32_t& extent : threads) extent = (uint32_t)in.word();
    uint32_t together = (uint32_t)in.word();
    if (together == 0 || grid[0] % together != 0) broken(name + ": clusters do not divide the grid");
    std::vector<unsigned long long> arguments(in.word());
    for (size_t i = 0; i < arguments.size(); i++) {
        // A buffer's number, or a value of so many bytes.
        uint64_t bytes = in.word(), value = in.word();
        if (bytes == 0) {
            if (value >= buffers.size()) broken("an unknown buffer");
            value = (uint64_t)(uintptr_t)buffers[value].data;
            bytes = 8;
        }
        arguments[i] = value;
        if (listed->sizes[i] != bytes) broken(name + ": parameter " + std::to_string(i) + " is not what the contract says");
    }
    if (listed->sizes[arguments.size()] != 0) broken(name + " has more parameters than the contract");
    run.entry = listed;
    run.arguments = arguments.data();
    cuda_on_cpu_here.threads = {threads[0], threads[1], threads[2]};
    cuda_on_cpu_here.blocks = {grid[0], grid[1], grid[2]};
    run.cluster.assign(together, Block());
    make_fibers(run.cluster, threads);
    order(run.warp_order, (unsigned int)run.cluster[0].warps.size(), seed);
    order(run.lane_order, 32, seed);
#ifdef MODE_THREAD
    run.main_tsan = __tsan_get_current_fiber();
#endif
    // Clusters lie along x.
    uint64_t across = grid[0] / together, clusters = across * grid[1] * grid[2];
    for (uint64_t i = 0; i < clusters; i++) {
        uint64_t at = seed != 0 ? clusters - 1 - i : i;
        for (uint32_t rank = 0; rank < together; rank++) {
            run.cluster[rank].index = {
                uint32_t(at % across * together + rank), uint32_t(at / across % grid[1]), uint32_t(at / (across * grid[1]))
            };
        }
        run_cluster();
    }
}

#ifndef MODE_ADDRESS
// What pages guard is touched: by whom?
void touched(int) { fault("a signal: an access to what is no memory, or a trap"); }

void catch_signals() {
    static char stack[64 << 10];
    stack_t other = {};
    other.ss_sp = stack;
    other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_handler = touched;
    action.sa_flags = SA_ONSTACK;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(signal, &action, nullptr);
}
#endif

// A job: LIBRARY SEED, its buffers, its launches.
void run_job(Reader& in, const std::string& results) {
    std::string library = in.text();
    uint64_t seed = in.word();
    void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!loaded) broken(dlerror());
    const Listed* listed = (const Listed*)dlsym(loaded, "cuda_on_cpu_entries");
    if (!listed) broken("no functions in " + library);
    std::vector<Buffer> buffers(in.word());
    for (Buffer& buffer : buffers) buffer = make_buffer(in, seed % 2 == 1);
    for (uint64_t launches = in.word(); launches > 0; launches--) launch(in, listed, buffers, seed);
    for (const Buffer& buffer : buffers) check_spare(buffer);
    FILE* out = fopen(results.c_str(), "wb");
    if (!out) broken("can't write " + results);
    for (const Buffer& buffer : buffers) {
        if (buffer.output && fwrite(buffer.data, 1, buffer.bytes, out) != buffer.bytes) broken("can't write " + results);
    }
    if (fclose(out) != 0) broken("can't write " + results);
    for (const Buffer& buffer : buffers) buffer.drop();
}

}  // namespace

// Ends this process with the one that started it.
static void end_with_parent() {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

int main(int, char** arguments) {
    end_with_parent();
    std::string results = arguments[2];
    int file = open(arguments[1], O_RDONLY);
    off_t size = lseek(file, 0, SEEK_END);
    char* bytes = (char*)mmap(nullptr, (size_t)size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file < 0 || bytes == MAP_FAILED) broken("no jobs");
    Reader in = {bytes, bytes + size};
    std::vector<Reader> jobs(in.word(), in);
    for (Reader& job : jobs) {
        size_t length = in.word();
        in.need(length);
        job = {in.at, in.at + length};
        in.at += length;
    }
    FILE* summary = fopen(results.c_str(), "w");
    // How many jobs have ended, as their process counts them.
    size_t* ended = (size_t*)mmap(nullptr, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!summary || ended == MAP_FAILED) broken("can't write " + results);
    while (*ended < jobs.size()) {
        size_t next = *ended;
        pid_t child = fork();
        if (child == 0) {
            end_with_parent();
#ifndef MODE_ADDRESS
            catch_signals();
#endif
            for (; *ended < jobs.size(); ++*ended) {
                std::string own = results + "." + std::to_string(*ended);
                int said = open((own + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
                dup2(said, 2);
                close(said);
                alarm((unsigned int)atoi(arguments[3]));
                run_job(jobs[*ended], own);
            }
            _exit(0);
        }
        int status = -1;
        if (child < 0 || waitpid(child, &status, 0) < 0) broken("no process for jobs");
        for (; next < *ended; next++) fprintf(summary, "0\n");
        if (*ended == jobs.size()) break;
        fprintf(summary, "%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        ++*ended;
    }
    return fclose(summary) == 0 ? 0 : 1;
}

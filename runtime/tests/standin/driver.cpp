// A stand-in for the CUDA driver's library: it computes nothing, but keeps the books that a driver keeps, and answers mistakes
// as a driver would. Memory is the host's, filled with 0xa5. What it loads is the text that the stand-in for NVRTC wraps.
//
// Settings, all from the environment:
//   STANDIN_LOG        a file that gets a line per load, launch, replay of a graph, allocation and release of a device
//   STANDIN_DRIVER     the driver's CUDA version, 13.0
//   STANDIN_DEVICES    the compute capability of each device, "9.0"; CUDA_VISIBLE_DEVICES chooses among them
//   STANDIN_MEMORY     bytes of each device, 2^30
//   STANDIN_FAIL       CALL=CODE: that call fails; CALL#N=CODE: the Nth one does. Codes from 700 on are faults of a kernel:
//                      whatever is asked of the device later fails with the same code
//   STANDIN_REPORT     SITE INDEX EXTENT: every launch that has a report writes this to it
//
// A stream that is being captured takes launches and fills; whatever else is asked of it fails, and with it the capture.
//
// Compiled with -DOLD it lacks what drivers before CUDA 11.2 lack, and what came with 11.8; with -DBROKEN a function that every driver
// has.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

typedef int Status;
typedef unsigned long long Pointer;

enum : Status {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    FIRST_FAULT = 700,
};

struct Function {
    std::string name;
    std::vector<size_t> sizes;
    // The number of the parameter that is the report; none if it is the number of parameters.
    size_t report;
};

struct Module {
    std::map<std::string, Function *> functions;
};

// What was asked of a stream while it was captured.
struct Graph {
    std::vector<std::function<void()>> work;
    bool valid = true;
};

std::mutex lock;
std::vector<std::string> devices;
std::map<Pointer, size_t> allocations, pinned;
std::set<void *> modules, streams, events, graphs;
std::map<void *, Graph *> captures;
std::map<std::string, int> calls;
int retained = 0;
int process = 0;
Status fault = OK;
thread_local void *current = nullptr;
// The context of a device is the place of its number here.
char contexts[64];

std::string setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

void say(const std::string &line) {
    const char *path = getenv("STANDIN_LOG");
    if (!path) return;
    if (FILE *file = fopen(path, "a")) {
        fprintf(file, "%s\n", line.c_str());
        fclose(file);
    }
}

// Counts the call, and gives what it must fail with, if anything.
Status enter(const std::string &call, bool in_context) {
    if (process != getpid()) return NOT_INITIALIZED;
    if (in_context && !current) return INVALID_CONTEXT;
    if (in_context && fault) return fault;
    int count = ++calls[call];
    std::istringstream plan(setting("STANDIN_FAIL", ""));
    std::string item;
    while (plan >> item) {
        size_t equals = item.find('=');
        std::string name = item.substr(0, equals);
        Status code = atoi(item.c_str() + equals + 1);
        if (name != call && name != call + "#" + std::to_string(count)) continue;
        if (code >= FIRST_FAULT && code < 800) fault = code;
        return code;
    }
    return OK;
}

// Null is a stream that is always there.
bool is_stream(void *stream) { return !stream || streams.count(stream); }

bool is_allocated(Pointer pointer, size_t bytes) {
    auto after = allocations.upper_bound(pointer);
    if (after == allocations.begin()) return false;
    auto found = std::prev(after);
    return pointer + bytes <= found->first + found->second;
}

size_t used() {
    size_t sum = 0;
    for (auto &allocation : allocations) sum += allocation.second;
    return sum;
}

size_t total() { return strtoull(setting("STANDIN_MEMORY", "1073741824").c_str(), nullptr, 10); }

double version(const std::string &text) { return atof(text.c_str()); }

// The bytes of a parameter by its declaration.
size_t size_of(const std::string &parameter) {
    if (parameter.find('*') != std::string::npos) return 8;
    for (const char *name : {"long long", "double"})
        if (parameter.find(name) != std::string::npos) return 8;
    for (const char *name : {"char", "bool"})
        if (parameter.find(name) != std::string::npos) return 1;
    for (const char *name : {"short", "f16", "bf16", "half"})
        if (parameter.find(name) != std::string::npos) return 2;
    return 4;
}

// The `__global__` functions of a text and their parameters.
Module *read(const std::string &text) {
    Module *module = new Module;
    size_t at = 0;
    while ((at = text.find("__global__", at)) != std::string::npos) {
        size_t open = text.find('(', at), bounds = text.find("__launch_bounds__", at);
        if (bounds < open) open = text.find('(', text.find(')', open));
        size_t close = text.find(')', open), name = text.find_last_of(" \n", open);
        Function *function = new Function{text.substr(name + 1, open - name - 1), {}, 0};
        std::istringstream list(text.substr(open + 1, close - open - 1));
        std::string parameter;
        function->report = SIZE_MAX;
        while (std::getline(list, parameter, ',')) {
            if (parameter.find("unsigned long long* ") != std::string::npos) function->report = function->sizes.size();
            function->sizes.push_back(size_of(parameter));
        }
        module->functions[function->name] = function;
        at = close;
    }
    return module;
}

// Does it, or notes it if the stream is being captured.
Status enqueue(void *stream, std::function<void()> work) {
    auto capture = captures.find(stream);
    if (capture == captures.end()) work();
    else capture->second->work.push_back(work);
    return OK;
}

// What none but a stream that is not captured may be asked.
bool is_captured(void *stream) {
    auto capture = captures.find(stream);
    if (capture == captures.end()) return false;
    capture->second->valid = false;
    return true;
}

void report(Pointer to) {
    std::istringstream plan(setting("STANDIN_REPORT", ""));
    long long site, index, extent;
    if (!(plan >> site >> index >> extent)) return;
    long long words[] = {1, site, index, extent};
    memcpy((void *)to, words, sizeof words);
}

}  // namespace

#define CALL(name, in_context)                          \
    std::lock_guard<std::mutex> guard(lock);            \
    if (Status status = enter(name, in_context)) return status

extern "C" {

Status cuInit(unsigned) {
    std::lock_guard<std::mutex> guard(lock);
    if (process == 0) process = getpid();
    if (Status status = enter("cuInit", false)) return status;
    std::vector<std::string> all;
    std::istringstream list(setting("STANDIN_DEVICES", "9.0"));
    for (std::string item; list >> item;) all.push_back(item);
    devices = all;
    if (const char *visible = getenv("CUDA_VISIBLE_DEVICES")) {
        devices.clear();
        std::istringstream chosen(visible);
        // The first that is none hides the rest.
        for (std::string item; std::getline(chosen, item, ',');) {
            char *end;
            unsigned long number = strtoul(item.c_str(), &end, 10);
            if (item.empty() || *end || number >= all.size()) break;
            devices.push_back(all[number]);
        }
    }
    return devices.empty() ? NO_DEVICE : OK;
}

Status cuDriverGetVersion(int *value) {
    std::string text = setting("STANDIN_DRIVER", "13.0");
    int major = 0, minor = 0;
    sscanf(text.c_str(), "%d.%d", &major, &minor);
    *value = major * 1000 + minor * 10;
    return OK;
}

Status cuDeviceGetCount(int *count) {
    CALL("cuDeviceGetCount", false);
    *count = (int)devices.size();
    return OK;
}

Status cuDeviceGet(int *device, int ordinal) {
    CALL("cuDeviceGet", false);
    if (ordinal < 0 || ordinal >= (int)devices.size()) return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

Status cuDeviceGetName(char *name, int length, int device) {
    CALL("cuDeviceGetName", false);
    snprintf(name, length, "Stand-in %s", devices[device].c_str());
    return OK;
}

Status cuDeviceGetAttribute(int *value, int attribute, int device) {
    CALL("cuDeviceGetAttribute", false);
    int major = 0, minor = 0;
    sscanf(devices[device].c_str(), "%d.%d", &major, &minor);
    switch (attribute) {
    case 16: *value = 132; return OK;
    case 38: *value = 50 << 20; return OK;
    case 75: *value = major; return OK;
    case 76: *value = minor; return OK;
    case 97: *value = 227 << 10; return OK;
#ifdef OLD
    case 115: return INVALID_VALUE;
#else
    case 115: *value = 1; return OK;
#endif
    }
    return INVALID_VALUE;
}

Status cuDeviceTotalMem_v2(size_t *bytes, int) {
    CALL("cuDeviceTotalMem", false);
    *bytes = total();
    return OK;
}

Status cuDevicePrimaryCtxRetain(void **context, int device) {
    CALL("cuDevicePrimaryCtxRetain", false);
    if (device < 0 || device >= (int)devices.size()) return INVALID_DEVICE;
    retained++;
    *context = &contexts[device];
    return OK;
}

// Says what its users have left behind.
Status cuDevicePrimaryCtxRelease_v2(int) {
    CALL("cuDevicePrimaryCtxRelease", false);
    if (--retained == 0) {
        std::ostringstream line;
        line << "release allocations=" << allocations.size() << " modules=" << modules.size() << " streams=" << streams.size()
             << " events=" << events.size();
        if (!pinned.empty()) line << " pinned=" << pinned.size();
        if (!graphs.empty()) line << " graphs=" << graphs.size();
        say(line.str());
        fault = OK;
    }
    return OK;
}

Status cuCtxSetCurrent(void *context) {
    CALL("cuCtxSetCurrent", false);
    current = context;
    return OK;
}

Status cuCtxGetCurrent(void **context) {
    CALL("cuCtxGetCurrent", false);
    *context = current;
    return OK;
}

Status cuCtxSynchronize() {
    CALL("cuCtxSynchronize", true);
    return OK;
}

static Status allocate(Pointer *pointer, size_t bytes) {
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > total() - used()) return OUT_OF_MEMORY;
    void *memory = nullptr;
    if (posix_memalign(&memory, 256, bytes)) return OUT_OF_MEMORY;
    memset(memory, 0xa5, bytes);
    *pointer = (Pointer)memory;
    allocations[*pointer] = bytes;
    say("allocate " + std::to_string(bytes));
    return OK;
}

static Status release(Pointer pointer) {
    if (allocations.erase(pointer) == 0) return INVALID_VALUE;
    free((void *)pointer);
    return OK;
}

Status cuMemAlloc_v2(Pointer *pointer, size_t bytes) {
    CALL("cuMemAlloc", true);
    return allocate(pointer, bytes);
}

Status cuMemFree_v2(Pointer pointer) {
    CALL("cuMemFree", true);
    return release(pointer);
}

Status cuMemGetInfo_v2(size_t *free, size_t *all) {
    CALL("cuMemGetInfo", true);
    *free = total() - used();
    *all = total();
    return OK;
}

Status cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t bytes, void *stream) {
    CALL("cuMemcpyHtoDAsync", true);
    if (!is_allocated(to, bytes) || !is_stream(stream)) return INVALID_VALUE;
    if (is_captured(stream)) return CAPTURE_UNSUPPORTED;
    memcpy((void *)to, from, bytes);
    return OK;
}

Status cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t bytes, void *stream) {
    CALL("cuMemcpyDtoHAsync", true);
    if (!is_allocated(from, bytes) || !is_stream(stream)) return INVALID_VALUE;
    if (is_captured(stream)) return CAPTURE_UNSUPPORTED;
    memcpy(to, (void *)from, bytes);
    return OK;
}

Status cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void *stream) {
    CALL("cuMemcpyDtoDAsync", true);
    if (!is_allocated(to, bytes) || !is_allocated(from, bytes) || !is_stream(stream)) return INVALID_VALUE;
    memcpy((void *)to, (void *)from, bytes);
    return OK;
}

Status cuMemsetD8Async(Pointer to, unsigned char value, size_t bytes, void *stream) {
    CALL("cuMemsetD8Async", true);
    if (!is_allocated(to, bytes) || !is_stream(stream)) return INVALID_VALUE;
    return enqueue(stream, [=] { memset((void *)to, value, bytes); });
}

Status cuStreamCreate(void **stream, unsigned) {
    CALL("cuStreamCreate", true);
    streams.insert(*stream = new char);
    return OK;
}

Status cuStreamDestroy_v2(void *stream) {
    CALL("cuStreamDestroy", true);
    return streams.erase(stream) ? OK : INVALID_HANDLE;
}

Status cuStreamSynchronize(void *stream) {
    CALL("cuStreamSynchronize", true);
    if (is_captured(stream)) return CAPTURE_UNSUPPORTED;
    return is_stream(stream) ? OK : INVALID_HANDLE;
}

Status cuEventCreate(void **event, unsigned) {
    CALL("cuEventCreate", true);
    events.insert(*event = new char);
    return OK;
}

Status cuEventDestroy_v2(void *event) {
    CALL("cuEventDestroy", true);
    return events.erase(event) ? OK : INVALID_HANDLE;
}

Status cuEventRecord(void *event, void *stream) {
    CALL("cuEventRecord", true);
    return events.count(event) && is_stream(stream) ? OK : INVALID_HANDLE;
}

Status cuEventQuery(void *event) {
    CALL("cuEventQuery", true);
    return events.count(event) ? OK : INVALID_HANDLE;
}

Status cuStreamWaitEvent(void *stream, void *event, unsigned) {
    CALL("cuStreamWaitEvent", true);
    if (!is_stream(stream) || !events.count(event)) return INVALID_HANDLE;
    say("wait");
    return OK;
}

// Pinned memory is an allocation that is not counted as the device's.
Status cuMemHostAlloc(void **host, size_t bytes, unsigned) {
    CALL("cuMemHostAlloc", true);
    if (posix_memalign(host, 4096, bytes)) return OUT_OF_MEMORY;
    memset(*host, 0xa5, bytes);
    pinned[(Pointer)*host] = bytes;
    return OK;
}

Status cuMemHostGetDevicePointer_v2(Pointer *pointer, void *host, unsigned) {
    CALL("cuMemHostGetDevicePointer", true);
    *pointer = (Pointer)host;
    return pinned.count(*pointer) ? OK : INVALID_VALUE;
}

Status cuMemFreeHost(void *host) {
    CALL("cuMemFreeHost", true);
    if (pinned.erase((Pointer)host) == 0) return INVALID_VALUE;
    free(host);
    return OK;
}

Status cuEventSynchronize(void *event) {
    CALL("cuEventSynchronize", true);
    return events.count(event) ? OK : INVALID_HANDLE;
}

Status cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    CALL("cuEventElapsedTime", true);
    *milliseconds = 0.25f;
    return events.count(from) && events.count(to) ? OK : INVALID_HANDLE;
}

// Machine code must be of this device's generation and of no later CUDA; PTX must be of no later one.
Status cuModuleLoadData(void **module, const void *image) {
    CALL("cuModuleLoadData", true);
    const char *bytes = (const char *)image;
    bool machine_code = memcmp(bytes, "\x7f" "ELF", 4) == 0;
    char architecture[32], made_by[32];
    const char *head = machine_code ? bytes + 4 : bytes;
    if (sscanf(head, "// stand-in %31s NVRTC %31s\n", architecture, made_by) != 2) return INVALID_IMAGE;
    if (version(made_by) > version(setting("STANDIN_DRIVER", "13.0"))) return machine_code ? INVALID_IMAGE : UNSUPPORTED_PTX_VERSION;
    int of_code = atoi(strchr(architecture, '_') + 1), major = 0, minor = 0;
    sscanf(devices[(char *)current - contexts].c_str(), "%d.%d", &major, &minor);
    int of_device = major * 10 + minor;
    bool runs = machine_code ? of_code / 10 == of_device / 10 && of_code <= of_device : of_code <= of_device;
    if (!runs) return NO_BINARY_FOR_GPU;
    modules.insert(*module = read(head));
    say(std::string("load ") + architecture);
    return OK;
}

Status cuModuleUnload(void *module) {
    CALL("cuModuleUnload", true);
    return modules.erase(module) ? OK : INVALID_HANDLE;
}

Status cuModuleGetFunction(void **function, void *module, const char *name) {
    CALL("cuModuleGetFunction", true);
    auto &functions = ((Module *)module)->functions;
    auto found = functions.find(name);
    if (found == functions.end()) return NOT_FOUND;
    *function = found->second;
    return OK;
}

#ifndef BROKEN
static Status launch(void *handle, const unsigned *grid, const unsigned *block, unsigned shared, void *stream, void **arguments,
                     void **extra, const char *how) {
    unsigned threads = block[0] * block[1] * block[2];
    if (!is_stream(stream) || extra || !grid[0] || !grid[1] || !grid[2] || !threads || threads > 1024) return INVALID_VALUE;
    Function *function = (Function *)handle;
    std::ostringstream line;
    line << "launch " << function->name << " grid=" << grid[0] << "," << grid[1] << "," << grid[2] << " block=" << block[0] << ","
         << block[1] << "," << block[2] << " shared=" << shared << how << " parameters=";
    Pointer reports_to = 0;
    for (size_t at = 0; at < function->sizes.size(); at++) {
        unsigned long long value = 0;
        memcpy(&value, arguments[at], function->sizes[at]);
        bool memory = is_allocated(value, 1);
        line << (at ? "," : "");
        if (pinned.count(value)) line << "pinned:" << pinned[value];
        else if (memory && !allocations.count(value)) line << "inside";
        else if (memory) line << "memory:" << allocations[value];
        else line << function->sizes[at] << ":" << value;
        if ((memory || pinned.count(value)) && at == function->report) reports_to = value;
    }
    return enqueue(stream, [text = line.str(), reports_to] {
        if (reports_to) report(reports_to);
        say(text);
    });
}

Status cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                      void *stream, void **arguments, void **extra) {
    CALL("cuLaunchKernel", true);
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    return launch(handle, grid, block, shared, stream, arguments, extra, "");
}

#ifndef OLD
// As the driver has them: see cuda.h.
struct Attribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int allowed;
    } value;
};

struct Config {
    unsigned grid[3], block[3], shared;
    void *stream;
    Attribute *attributes;
    unsigned count;
};

Status cuLaunchKernelEx(const Config *config, void *handle, void **arguments, void **extra) {
    CALL("cuLaunchKernelEx", true);
    const int PROGRAMMATIC_STREAM_SERIALIZATION = 6;
    for (unsigned at = 0; at < config->count; at++) {
        if (config->attributes[at].id != PROGRAMMATIC_STREAM_SERIALIZATION || config->attributes[at].value.allowed != 1) return INVALID_VALUE;
    }
    const unsigned *grid = config->grid, *block = config->block;
    return launch(handle, grid, block, config->shared, config->stream, arguments, extra, config->count ? " overlapping" : "");
}
#endif
#endif

Status cuGetErrorName(Status code, const char **name) {
    static const std::map<Status, const char *> names = {
        {1, "CUDA_ERROR_INVALID_VALUE"},       {2, "CUDA_ERROR_OUT_OF_MEMORY"},      {3, "CUDA_ERROR_NOT_INITIALIZED"},
        {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"}, {100, "CUDA_ERROR_NO_DEVICE"},        {101, "CUDA_ERROR_INVALID_DEVICE"},
        {200, "CUDA_ERROR_INVALID_IMAGE"},     {201, "CUDA_ERROR_INVALID_CONTEXT"},  {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {214, "CUDA_ERROR_ECC_UNCORRECTABLE"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
        {400, "CUDA_ERROR_INVALID_HANDLE"},    {500, "CUDA_ERROR_NOT_FOUND"},        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
        {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},    {719, "CUDA_ERROR_LAUNCH_FAILED"},    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
        {999, "CUDA_ERROR_UNKNOWN"},
    };
    auto found = names.find(code);
    if (found == names.end()) return INVALID_VALUE;
    *name = found->second;
    return OK;
}

Status cuFuncSetAttribute(void *, int, int) {
    CALL("cuFuncSetAttribute", true);
    return OK;
}

Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *, int threads, size_t) {
    CALL("cuOccupancyMaxActiveBlocksPerMultiprocessor", true);
    *blocks = 2048 / threads;
    return OK;
}

Status cuFuncGetAttribute(int *value, int attribute, void *) {
    CALL("cuFuncGetAttribute", true);
    *value = attribute == 4 ? 32 : 0;
    return OK;
}

#ifndef OLD
Status cuStreamBeginCapture_v2(void *stream, unsigned) {
    CALL("cuStreamBeginCapture", true);
    if (!is_stream(stream) || captures.count(stream)) return INVALID_HANDLE;
    captures[stream] = new Graph;
    return OK;
}

Status cuStreamEndCapture(void *stream, void **graph) {
    CALL("cuStreamEndCapture", true);
    auto capture = captures.find(stream);
    if (capture == captures.end()) return INVALID_HANDLE;
    Graph *made = capture->second;
    captures.erase(capture);
    *graph = nullptr;
    if (!made->valid) return CAPTURE_INVALIDATED;
    graphs.insert(*graph = made);
    return OK;
}

Status cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
    CALL("cuGraphInstantiateWithFlags", true);
    if (!graphs.count(graph)) return INVALID_HANDLE;
    graphs.insert(*executable = new Graph(*(Graph *)graph));
    return OK;
}

Status cuGraphLaunch(void *executable, void *stream) {
    CALL("cuGraphLaunch", true);
    if (!graphs.count(executable) || !is_stream(stream)) return INVALID_HANDLE;
    say("replay");
    for (auto &work : ((Graph *)executable)->work) work();
    return OK;
}

static Status discard(void *graph) {
    if (!graphs.erase(graph)) return INVALID_HANDLE;
    delete (Graph *)graph;
    return OK;
}

Status cuGraphDestroy(void *graph) {
    CALL("cuGraphDestroy", true);
    return discard(graph);
}

Status cuGraphExecDestroy(void *executable) {
    CALL("cuGraphExecDestroy", true);
    return discard(executable);
}

Status cuMemAllocAsync(Pointer *pointer, size_t bytes, void *stream) {
    CALL("cuMemAllocAsync", true);
    if (is_captured(stream)) return CAPTURE_UNSUPPORTED;
    return is_stream(stream) ? allocate(pointer, bytes) : INVALID_HANDLE;
}

Status cuMemFreeAsync(Pointer pointer, void *stream) {
    CALL("cuMemFreeAsync", true);
    if (is_captured(stream)) return CAPTURE_UNSUPPORTED;
    return is_stream(stream) ? release(pointer) : INVALID_HANDLE;
}

Status cuDeviceGetDefaultMemPool(void **pool, int) {
    CALL("cuDeviceGetDefaultMemPool", false);
    *pool = contexts;
    return OK;
}

Status cuMemPoolSetAttribute(void *, int, void *) {
    CALL("cuMemPoolSetAttribute", false);
    return OK;
}

Status cuMemPoolTrimTo(void *, size_t) {
    CALL("cuMemPoolTrimTo", false);
    return OK;
}

Status cuFuncGetParamInfo(void *handle, size_t at, size_t *offset, size_t *size) {
    CALL("cuFuncGetParamInfo", true);
    Function *function = (Function *)handle;
    if (at >= function->sizes.size()) return INVALID_VALUE;
    *offset = 8 * at;
    *size = function->sizes[at];
    return OK;
}
#endif
}

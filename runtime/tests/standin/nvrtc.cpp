// A stand-in for NVRTC: what it "compiles" is the text itself, under a line that says for what and by which version, which the
// stand-in for the driver reads.
//
// Settings, all from the environment:
//   STANDIN_NVRTC_LOG    a file that gets a line when the library is loaded and for each call
//   STANDIN_NVRTC        its version, 13.0
//   STANDIN_ARCHITECTURES  what it compiles for, "75 80 86 89 90 100 120"
//   STANDIN_NVRTC_FAIL   "builtins": compiling fails for want of them; "reject": it fails with a message; "memory": out of memory
//   STANDIN_NVRTC_SLEEP  how long compiling takes, in milliseconds

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

enum : int { OK = 0, OUT_OF_MEMORY = 1, INVALID_OPTION = 5, COMPILATION = 6, BUILTIN_OPERATION_FAILURE = 7 };

struct Program {
    std::string source, log, cubin, ptx;
};

std::string setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

void say(const char *line) {
    const char *path = getenv("STANDIN_NVRTC_LOG");
    if (!path) return;
    if (FILE *file = fopen(path, "a")) {
        fprintf(file, "%s\n", line);
        fclose(file);
    }
}

std::vector<int> architectures() {
    std::istringstream list(setting("STANDIN_ARCHITECTURES", "75 80 86 89 90 100 120"));
    std::vector<int> all;
    for (int item; list >> item;) all.push_back(item);
    return all;
}

struct Loaded {
    Loaded() { say("loaded"); }
} loaded;

}  // namespace

extern "C" {

int nvrtcVersion(int *major, int *minor) {
    say("nvrtcVersion");
    sscanf(setting("STANDIN_NVRTC", "13.0").c_str(), "%d.%d", major, minor);
    return OK;
}

int nvrtcGetNumSupportedArchs(int *count) {
    *count = (int)architectures().size();
    return OK;
}

int nvrtcGetSupportedArchs(int *list) {
    for (int item : architectures()) *list++ = item;
    return OK;
}

const char *nvrtcGetErrorString(int status) {
    return status == COMPILATION ? "NVRTC_ERROR_COMPILATION" : status == OUT_OF_MEMORY ? "NVRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_ERROR";
}

int nvrtcCreateProgram(Program **program, const char *source, const char *, int, const char *const *, const char *const *) {
    say("nvrtcCreateProgram");
    *program = new Program{source, "", "", ""};
    return OK;
}

int nvrtcDestroyProgram(Program **program) {
    say("nvrtcDestroyProgram");
    delete *program;
    *program = nullptr;
    return OK;
}

int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    say("nvrtcCompileProgram");
    std::this_thread::sleep_for(std::chrono::milliseconds(atoi(setting("STANDIN_NVRTC_SLEEP", "0").c_str())));
    std::string failure = setting("STANDIN_NVRTC_FAIL", ""), architecture;
    if (failure == "builtins") return BUILTIN_OPERATION_FAILURE;
    if (failure == "memory") return OUT_OF_MEMORY;
    if (failure == "reject") {
        program->log = "kernel.cu(1): error: the stand-in rejects every text";
        return COMPILATION;
    }
    double version = atof(setting("STANDIN_NVRTC", "13.0").c_str());
    for (int at = 0; at < count; at++) {
        std::string option = options[at];
        bool known = option == "--minimal" ? version > 12.35 : option == "--no-cache" ? version > 12.85 : true;
        if (option.rfind("--gpu-architecture=", 0) == 0 && option.back() == 'a' && version < 12) known = false;
        if (!known) {
            program->log = "nvrtc: error: unrecognized option or value " + option + " found";
            return INVALID_OPTION;
        }
        const char *name = "--gpu-architecture=";
        if (!strncmp(options[at], name, strlen(name))) architecture = options[at] + strlen(name);
    }
    std::string head = "// stand-in " + architecture + " NVRTC " + setting("STANDIN_NVRTC", "13.0") + "\n";
    program->ptx = head + program->source;
    program->cubin = architecture.rfind("sm_", 0) == 0 ? "\x7f" "ELF" + program->ptx : "";
    program->log = "ptxas info    : Used 32 registers";
    return OK;
}

int nvrtcGetProgramLogSize(Program *program, size_t *size) {
    *size = program->log.size() + 1;
    return OK;
}

int nvrtcGetProgramLog(Program *program, char *log) {
    memcpy(log, program->log.c_str(), program->log.size() + 1);
    return OK;
}

int nvrtcGetCUBINSize(Program *program, size_t *size) {
    *size = program->cubin.empty() ? 0 : program->cubin.size() + 1;
    return OK;
}

int nvrtcGetCUBIN(Program *program, char *cubin) {
    if (!program->cubin.empty()) memcpy(cubin, program->cubin.c_str(), program->cubin.size() + 1);
    return OK;
}

int nvrtcGetPTXSize(Program *program, size_t *size) {
    *size = program->ptx.size() + 1;
    return OK;
}

int nvrtcGetPTX(Program *program, char *ptx) {
    memcpy(ptx, program->ptx.c_str(), program->ptx.size() + 1);
    return OK;
}
}

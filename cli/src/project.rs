//! `--emit project`: a folder that builds without gpukc. The kernels' text, a C++ function for each kernel that checks, allocates
//! and launches as `gpukc run` would, and a Makefile.

use std::fmt::Write;

use gpukc_codegen::emit::names::Namer;
use gpukc_codegen::facts::Facts;
use gpukc_codegen::kernel::{Argument, Kernel as Cuda, Launch};
use gpukc_codegen::target::Target;
use gpukc_dsl::program::{ArrayId, Kernel, Parameter, print};
use gpukc_dsl::types::Type;

use crate::cpp::{self, Names};
use crate::failure::Failure;

/// The files: names below the project's folder, and texts. `cuda` is for the least of the targets.
pub fn files(
    stem: &str,
    kernels: &[(&Kernel, Facts)],
    cuda: &[Cuda],
    least: Target,
    targets: &[Target],
) -> Result<Vec<(String, String)>, Failure> {
    let text = cuda.first().ok_or_else(|| Failure::bug("no text for some kernels"))?;
    let mut namer = Namer::new();
    let mut function = |((kernel, facts), cuda): (&(&Kernel, Facts), &Cuda)| {
        let name = namer.fresh(&kernel.name);
        Function::new(name, kernel, facts, cuda)
    };
    let functions: Vec<Function> = kernels.iter().zip(cuda).map(&mut function).collect::<Result<_, _>>()?;
    let stem = &text_name(stem);
    let mut header = format!("// Launches the kernels of {stem}.cu. Pointers are device pointers to row-major arrays.\n{HEADER}");
    let mut definitions = String::new();
    for function in &functions {
        let _ = write!(header, "\n{}{}", function.about, function.declarations());
        let _ = write!(definitions, "\n{}", function.definitions());
    }
    let source = format!("// See launch.h.\n#include \"launch.h\"\n\n#include \"{stem}.cu\"\n{}{definitions}", helpers(&definitions));
    Ok(vec![
        (format!("{stem}.cu"), text.source.to_string()),
        ("launch.h".to_owned(), header),
        ("launch.cu".to_owned(), source),
        ("Makefile".to_owned(), makefile(stem, least, targets)),
    ])
}

/// What some functions call, and nothing else, for compilers warn of it.
fn helpers(definitions: &str) -> String {
    let all = [
        cpp::helpers(definitions),
        if definitions.contains("gpukc_host::Memory ") { MEMORY.to_owned() } else { String::new() },
        if definitions.contains("gpukc_host::launch_overlapping(") { overlapping() } else { String::new() },
    ]
    .concat();
    match all.trim() {
        "" => String::new(),
        all => format!("\nnamespace {{\nnamespace gpukc_host {{\n\n{all}\n\n}}  // namespace gpukc_host\n}}  // namespace\n"),
    }
}

/// What the text's file is called: make and the shell read it as one word, and the launcher has a name of its own.
fn text_name(stem: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "_-.+".contains(letter);
    let name: String = stem.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect();
    if name.eq_ignore_ascii_case("launch") { "launch_kernels".to_owned() } else { name }
}

const HEADER: &str = "\
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

// An index that is data and was out of range: for which array and axis, the index, and the extent.
struct IndexReport {
    const char* array;
    int axis;
    int64_t index, extent;
};

// Where a kernel leaves the first such index; zero if there is none.
struct IndexCheck {
    unsigned long long words[4];
};

// Each function returns cudaErrorInvalidValue if a condition on its sizes does not hold. f16 and bf16 are bit patterns.
//
// `launch_` functions enqueue a kernel and return; graphs can capture them. Only where an index is data do they wait, and return
// cudaErrorAssert if it was out of range; `report` then says which. For these kernels `enqueue_` does not wait, and can be captured:
// `check` is memory of the caller's that the device can write (of cudaMallocHost or cudaMalloc) and that is zero at first. When
// the stream is done, `read_` tells, from a copy on the host, whether an index was out of range since the memory was zeroed.
";

const MEMORY: &str = "
// One piece of memory for a call, given back when it is over.
struct Memory {
    cudaStream_t stream;
    void* at = nullptr;
    explicit Memory(cudaStream_t stream) : stream(stream) {}
    cudaError_t take(int64_t bytes) { return bytes == 0 ? cudaSuccess : cudaMallocAsync(&at, size_t(bytes), stream); }
    ~Memory() {
        if (at) cudaFreeAsync(at, stream);
    }
};
";

/// What launches of code that waits for the launch in front by itself need. Code of earlier architectures would not wait.
fn overlapping() -> String {
    let first = Target::DEPENDENT_LAUNCHES;
    format!(
        "\n#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < {first}0\n\
         #error \"these kernels are made for sm_{first} and later\"\n\
         #endif\n{OVERLAPPING}"
    )
}

const OVERLAPPING: &str = "
// The blocks may be set up before the launch in front is over: the kernel waits for that by itself.
cudaError_t launch_overlapping(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    return cudaLaunchKernelExC(&config, kernel, arguments);
}
";

fn makefile(stem: &str, least: Target, targets: &[Target]) -> String {
    let architectures: Vec<String> = targets.iter().map(Target::to_string).collect();
    let architectures = architectures.join(" ");
    let compute = least.to_string().replacen("sm_", "compute_", 1);
    // Code that is made for one architecture's own instructions runs on no later one.
    let (which, later) = match least.specific {
        true => (format!("The text is made for {least} alone."), String::new()),
        false => (format!("The text is made for {least} and later."), format!(" -gencode arch={compute},code={compute}")),
    };
    format!(
        "# Builds lib{stem}.a: include launch.h, link it and the CUDA runtime. Needs nvcc, not gpukc.\n\
         NVCC ?= nvcc\n\
         # What to build for: make ARCH='sm_80 sm_90'. {which}\n\
         ARCH ?= {architectures}\n\
         GENCODE = $(foreach arch,$(ARCH),-gencode arch=$(arch:sm_%=compute_%),code=$(arch)){later}\n\
         # Nothing is contracted or approximated: the text says itself where it fuses.\n\
         OPTIONS := -std=c++17 -O3 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true\n\n\
         lib{stem}.a: launch.o\n\tar rcs $@ $<\n\n\
         launch.o: launch.cu launch.h {stem}.cu\n\t$(NVCC) $(OPTIONS) $(GENCODE) -c launch.cu -o $@\n\n\
         .PHONY: clean\nclean:\n\trm -f launch.o lib{stem}.a\n"
    )
}

/// A kernel's launcher.
struct Function {
    about: String,
    name: String,
    parameters: Vec<String>,
    /// The parameters' names.
    names: Vec<String>,
    body: String,
    /// What its checks may report, if it has any: initialisers of array and axis.
    sites: Option<String>,
}

/// Names that every function has or uses.
const OURS: [&str; 14] = [
    "stream",
    "report",
    "check",
    "error",
    "memory",
    "arguments",
    "blocks_x",
    "blocks_y",
    "blocks_z",
    "grid",
    "block",
    "Memory",
    "IndexReport",
    "IndexCheck",
];

/// What `int64_t`, `uint16_t` and so on an element is on the host.
fn host(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::I8 => "int8_t",
        Type::I16 => "int16_t",
        Type::I32 => "int32_t",
        Type::I64 => "int64_t",
        Type::U8 => "uint8_t",
        Type::U16 | Type::F16 | Type::Bf16 => "uint16_t",
        Type::U32 => "uint32_t",
        Type::U64 => "uint64_t",
        Type::F32 => "float",
        Type::F64 => "double",
    }
}

impl Function {
    fn new(name: String, kernel: &Kernel, facts: &Facts, cuda: &Cuda) -> Result<Function, Failure> {
        let mut namer = Namer::new();
        OURS.iter().for_each(|name| namer.reserve(name));
        // What is called and launched must not be hidden by a parameter.
        ["launch", "enqueue", "read"].iter().for_each(|verb| namer.reserve(&format!("{verb}_{name}")));
        cuda.launches.iter().for_each(|launch| namer.reserve(&launch.entry));
        for number in 0..cuda.scratch.len() {
            ["bytes", "scratch"].iter().for_each(|name| namer.reserve(&format!("{name}_{number}")));
        }
        for number in 0..cuda.launches.iter().map(|launch| launch.arguments.len()).max().unwrap_or(0) {
            namer.reserve(&format!("argument_{number}"));
        }
        let mut names = Names::default();
        let mut pointers: Vec<(ArrayId, String)> = Vec::new();
        let (mut parameters, mut all) = (Vec::new(), Vec::new());
        for parameter in &kernel.parameters {
            match *parameter {
                Parameter::Scalar(id) => {
                    let name = namer.local(&kernel.scalars[id].name);
                    parameters.push(format!("{} {name}", host(kernel.scalars[id].ty)));
                    all.push(name.clone());
                    names.scalars.insert(id, name);
                }
                Parameter::Array(id) => {
                    let name = namer.local(&kernel.arrays[id].name);
                    parameters.push(format!("const {}* {name}", host(kernel.arrays[id].element)));
                    all.push(name.clone());
                    pointers.push((id, name));
                }
            }
        }
        for &id in &kernel.results {
            let name = namer.local(&kernel.arrays[id].name);
            parameters.push(format!("{}* {name}", host(kernel.arrays[id].element)));
            all.push(name.clone());
            pointers.push((id, name));
        }
        for (id, dim) in kernel.dims.iter() {
            let name = namer.local(&dim.name);
            parameters.push(format!("int64_t {name}"));
            all.push(name.clone());
            names.dims.insert(id, name);
        }
        let writer = Writer { kernel, facts, cuda, names: &names, pointers: &pointers };
        Ok(Function {
            about: writer.about(),
            name,
            parameters,
            names: all,
            body: writer.body()?,
            sites: writer.reports().then(|| writer.sites()),
        })
    }

    fn declarations(&self) -> String {
        match self.sites {
            None => format!("{};\n", self.signature("launch", " = nullptr")),
            Some(_) => format!(
                "{};\n\n// The same, without waiting.\n{};\n{};\n",
                self.signature("launch", " = nullptr"),
                self.signature("enqueue", " = nullptr"),
                self.reader(" = nullptr")
            ),
        }
    }

    fn definitions(&self) -> String {
        let Some(sites) = &self.sites else { return format!("{} {{\n{}}}\n", self.signature("launch", ""), self.body) };
        let reading = format!(
            "    static const struct {{\n        const char* array;\n        int axis;\n    }} sites[] = {{{sites}}};\n    \
             const unsigned long long* words = check.words;\n    \
             if (words[0] == 0) return false;\n    \
             if (report && words[1] < sizeof sites / sizeof *sites) {{\n        \
             *report = {{sites[words[1]].array, sites[words[1]].axis, int64_t(words[2]), int64_t(words[3])}};\n    }}\n    \
             return true;\n"
        );
        let name = &self.name;
        let arguments: String = self.names.iter().map(|name| format!("{name}, ")).collect();
        let waiting = format!(
            "    gpukc_host::Memory memory(stream);\n    \
             IndexCheck check = {{}};\n    \
             cudaError_t error = memory.take(sizeof check);\n    \
             if (error == cudaSuccess) error = cudaMemsetAsync(memory.at, 0, sizeof check, stream);\n    \
             if (error == cudaSuccess) error = enqueue_{name}({arguments}(IndexCheck*)memory.at, stream);\n    \
             if (error == cudaSuccess) error = cudaMemcpyAsync(&check, memory.at, sizeof check, cudaMemcpyDeviceToHost, stream);\n    \
             if (error == cudaSuccess) error = cudaStreamSynchronize(stream);\n    \
             return error == cudaSuccess && read_{name}(check, report) ? cudaErrorAssert : error;\n"
        );
        [(self.signature("enqueue", ""), &self.body), (self.reader(""), &reading), (self.signature("launch", ""), &waiting)]
            .map(|(signature, body)| format!("{signature} {{\n{body}}}\n"))
            .join("\n")
    }

    /// `launch_NAME` or `enqueue_NAME`. `default` follows what may be left out.
    fn signature(&self, verb: &str, default: &str) -> String {
        let mut all = self.parameters.clone();
        let stream = format!("cudaStream_t stream{default}");
        match verb {
            "enqueue" => all.extend(["IndexCheck* check".to_owned(), stream]),
            _ => all.extend([stream, format!("IndexReport* report{default}")]),
        }
        format!("cudaError_t {verb}_{}(\n    {})", self.name, all.join(",\n    "))
    }

    fn reader(&self, default: &str) -> String {
        format!("bool read_{}(const IndexCheck& check, IndexReport* report{default})", self.name)
    }
}

struct Writer<'a> {
    kernel: &'a Kernel,
    facts: &'a Facts,
    cuda: &'a Cuda,
    names: &'a Names,
    pointers: &'a [(ArrayId, String)],
}

impl Writer<'_> {
    /// The comment before a declaration: what it computes, and the shapes.
    fn about(&self) -> String {
        let mut lines: Vec<String> = self.kernel.doc.clone();
        for (id, name) in self.pointers {
            let array = &self.kernel.arrays[*id];
            let extents: Vec<String> = array.shape.iter().map(|&extent| print::expr(self.kernel, extent)).collect();
            lines.push(format!("{name}: {}[{}]", array.element, extents.join(", ")));
        }
        let conditions = self.kernel.conditions.iter().map(|c| format!("where {}", print::expr(self.kernel, c.holds)));
        lines.extend(conditions);
        gpukc_codegen::emit::comment(&lines)
    }

    /// Whether it has checks of indices.
    fn reports(&self) -> bool {
        self.cuda.launches.iter().any(|launch| launch.arguments.contains(&Argument::Report))
    }

    fn sites(&self) -> String {
        let sites = self.cuda.sites.iter().map(|site| format!("{{\"{}\", {}}}", site.array.escape_default(), site.axis));
        sites.collect::<Vec<_>>().join(", ")
    }

    fn body(&self) -> Result<String, Failure> {
        let mut out = String::new();
        self.conditions(&mut out)?;
        out += "    cudaError_t error = cudaSuccess;\n";
        if !self.cuda.scratch.is_empty() {
            self.memory(&mut out)?;
        }
        for launch in &self.cuda.launches {
            self.launch(launch, &mut out)?;
        }
        out += "    return error;\n";
        Ok(out)
    }

    /// Scratch memory in pieces that start at multiples of 256 bytes, in one allocation.
    fn memory(&self, out: &mut String) -> Result<(), Failure> {
        out.push_str("    gpukc_host::Memory memory(stream);\n");
        let mut end = "0".to_owned();
        for (number, scratch) in self.cuda.scratch.iter().enumerate() {
            let _ = writeln!(out, "    const int64_t bytes_{number} = {};  // {}", self.size(&scratch.bytes)?, scratch.name);
            let _ = writeln!(out, "    const int64_t scratch_{number} = {end};");
            end = format!("scratch_{number} + (bytes_{number} + 255) / 256 * 256");
        }
        let _ = writeln!(out, "    if ((error = memory.take({end})) != cudaSuccess) return error;");
        for (number, _) in self.cuda.scratch.iter().enumerate().filter(|(_, scratch)| scratch.zeroed) {
            let zero = format!("cudaMemsetAsync((char*)memory.at + scratch_{number}, 0, size_t(bytes_{number}), stream)");
            let _ = writeln!(out, "    if ((error = {zero}) != cudaSuccess) return error;");
        }
        Ok(())
    }

    fn conditions(&self, out: &mut String) -> Result<(), Failure> {
        for (id, extent) in &self.facts.literal {
            let name = self.names.dims.get(id).cloned().unwrap_or_default();
            let _ = writeln!(out, "    if ({name} != {extent}) return cudaErrorInvalidValue;  // the text is for this extent");
        }
        let literal = |id| self.facts.literal.iter().any(|(known, _)| *known == id);
        let free = self.kernel.dims.iter().filter(|(id, _)| !literal(*id)).filter_map(|(id, _)| self.names.dims.get(&id));
        let negative: Vec<String> = free.map(|name| format!("{name} < 0")).collect();
        if !negative.is_empty() {
            let _ = writeln!(out, "    if ({}) return cudaErrorInvalidValue;", negative.join(" || "));
        }
        for condition in &self.kernel.conditions {
            let shown = print::expr(self.kernel, condition.holds);
            let holds = cpp::expr(&self.kernel.exprs, condition.holds, self.names)
                .ok_or_else(|| self.refused(&format!("the condition `{shown}`")))?;
            let _ = writeln!(out, "    if (!{holds}) return cudaErrorInvalidValue;");
        }
        Ok(())
    }

    fn refused(&self, what: &str) -> Failure {
        let message = format!("kernel `{}`: {what} cannot be written in C++ for a project yet", self.kernel.name);
        Failure::program(message).help("leave the kernel out (--kernel), or use --emit cuda")
    }

    fn size(&self, formula: &gpukc_codegen::formula::Formula) -> Result<String, Failure> {
        cpp::formula(formula, self.names).ok_or_else(|| self.refused(&format!("the size `{formula}`")))
    }

    fn launch(&self, launch: &Launch, out: &mut String) -> Result<(), Failure> {
        let grid = [0, 1, 2].map(|axis| self.size(&launch.grid[axis]));
        let [x, y, z] = grid;
        let (x, y, z) = (x?, y?, z?);
        let _ = writeln!(out, "    {{\n        const int64_t blocks_x = {x}, blocks_y = {y}, blocks_z = {z};");
        let mut arguments = Vec::new();
        for (number, argument) in launch.arguments.iter().enumerate() {
            let (ty, value) = self.argument(argument)?;
            let _ = writeln!(out, "        {ty} argument_{number} = {value};");
            arguments.push(format!("&argument_{number}"));
        }
        let _ = writeln!(out, "        void* arguments[] = {{{}}};", arguments.join(", "));
        let (entry, shared) = (&launch.entry, launch.shared_bytes);
        let [bx, by, bz] = launch.block;
        if shared > 0 {
            let attribute = "cudaFuncAttributeMaxDynamicSharedMemorySize";
            let _ = writeln!(
                out,
                "        if ((error = cudaFuncSetAttribute((const void*){entry}, {attribute}, {shared})) != cudaSuccess) return error;"
            );
        }
        out.push_str(
            "        if (blocks_x > 0x7fffffff || blocks_y > 65535 || blocks_z > 65535) return cudaErrorInvalidConfiguration;\n",
        );
        out.push_str("        if (blocks_x > 0 && blocks_y > 0 && blocks_z > 0) {\n");
        let _ = writeln!(
            out,
            "            const dim3 grid{{unsigned(blocks_x), unsigned(blocks_y), unsigned(blocks_z)}}, block{{{bx}, {by}, {bz}}};"
        );
        let call = if launch.overlapping { "gpukc_host::launch_overlapping" } else { "cudaLaunchKernel" };
        let _ = writeln!(out, "            error = {call}((const void*){entry}, grid, block, arguments, {shared}, stream);");
        out.push_str("            if (error != cudaSuccess) return error;\n        }\n    }\n");
        Ok(())
    }

    /// Type and value of a launch's argument.
    fn argument(&self, argument: &Argument) -> Result<(&'static str, String), Failure> {
        match argument {
            Argument::Array(id) => {
                let name = self.pointers.iter().find(|(array, _)| array == id).map(|(_, name)| name.clone());
                name.map(|name| ("const void*", name)).ok_or_else(|| Failure::bug("a launch takes an array that no caller gives"))
            }
            Argument::Scratch(number) => Ok(("const void*", format!("(char*)memory.at + scratch_{number}"))),
            Argument::Report => Ok(("const void*", "check".to_owned())),
            Argument::Scalar(id) => Ok((host(self.kernel.scalars[*id].ty), self.names.scalars.get(id).cloned().unwrap_or_default())),
            Argument::Size(formula, Type::I32) => Ok(("int", format!("int({})", self.size(formula)?))),
            Argument::Size(formula, _) => Ok(("long long", self.size(formula)?)),
        }
    }
}

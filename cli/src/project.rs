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

/// The files: names below the project's folder, and texts.
pub fn files(stem: &str, kernels: &[(&Kernel, Facts)], cuda: &[Cuda], targets: &[Target]) -> Result<Vec<(String, String)>, Failure> {
    let text = cuda.first().ok_or_else(|| Failure::bug("no text for some kernels"))?;
    let functions: Vec<Function> =
        kernels.iter().zip(cuda).map(|((kernel, facts), cuda)| Function::new(kernel, facts, cuda)).collect::<Result<_, _>>()?;
    let mut header = format!("// Launches the kernels of {stem}.cu. Pointers are device pointers to row-major arrays.\n{HEADER}");
    let mut source = format!(
        "// See launch.h.\n#include \"launch.h\"\n\n#include \"{stem}.cu\"\n\nnamespace {{\nnamespace gpukc_host {{\n\n{}{SOURCE}",
        cpp::HELPERS
    );
    for function in &functions {
        let _ = write!(header, "\n{}{};\n", function.about, function.signature(true));
        let _ = write!(source, "\n{} {{\n{}}}\n", function.signature(false), function.body);
    }
    Ok(vec![
        (format!("{stem}.cu"), text.source.to_string()),
        ("launch.h".to_owned(), header),
        ("launch.cu".to_owned(), source),
        ("Makefile".to_owned(), makefile(stem, targets)),
    ])
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

// Each function returns cudaErrorInvalidValue if a condition on its sizes does not hold, and cudaErrorAssert if an index that is
// data was out of range; `report` then says which. Launches that can report wait for their end. f16 and bf16 are bit patterns.
";

const SOURCE: &str = "
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

}  // namespace gpukc_host
}  // namespace
";

fn makefile(stem: &str, targets: &[Target]) -> String {
    let architectures: Vec<String> = targets
        .iter()
        .map(|target| {
            let name = target.to_string();
            format!("-gencode arch={},code={name}", name.replacen("sm_", "compute_", 1))
        })
        .collect();
    format!(
        "# Builds lib{stem}.a: include launch.h, link it and the CUDA runtime. Needs nvcc, not gpukc.\n\
         NVCC ?= nvcc\n\
         ARCHITECTURES ?= {}\n\
         # Nothing is contracted or approximated: the text says itself where it fuses.\n\
         OPTIONS := -std=c++17 -O3 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true\n\n\
         lib{stem}.a: launch.o\n\tar rcs $@ $<\n\n\
         launch.o: launch.cu launch.h {stem}.cu\n\t$(NVCC) $(OPTIONS) $(ARCHITECTURES) -c launch.cu -o $@\n\n\
         .PHONY: clean\nclean:\n\trm -f launch.o lib{stem}.a\n",
        architectures.join(" ")
    )
}

/// A kernel's launcher.
struct Function {
    about: String,
    name: String,
    parameters: Vec<String>,
    body: String,
}

/// Names that every function has or uses.
const OURS: [&str; 14] = [
    "stream",
    "report",
    "error",
    "memory",
    "arguments",
    "words",
    "sites",
    "report_at",
    "blocks_x",
    "blocks_y",
    "blocks_z",
    "grid",
    "block",
    "Memory",
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
    fn new(kernel: &Kernel, facts: &Facts, cuda: &Cuda) -> Result<Function, Failure> {
        let mut namer = Namer::new();
        OURS.iter().for_each(|name| namer.reserve(name));
        for number in 0..cuda.scratch.len() {
            ["bytes", "scratch"].iter().for_each(|name| namer.reserve(&format!("{name}_{number}")));
        }
        for number in 0..cuda.launches.iter().map(|launch| launch.arguments.len()).max().unwrap_or(0) {
            namer.reserve(&format!("argument_{number}"));
        }
        let mut names = Names::default();
        let mut pointers: Vec<(ArrayId, String)> = Vec::new();
        let mut parameters = Vec::new();
        for parameter in &kernel.parameters {
            match *parameter {
                Parameter::Scalar(id) => {
                    let name = namer.local(&kernel.scalars[id].name);
                    parameters.push(format!("{} {name}", host(kernel.scalars[id].ty)));
                    names.scalars.insert(id, name);
                }
                Parameter::Array(id) => {
                    let name = namer.local(&kernel.arrays[id].name);
                    parameters.push(format!("const {}* {name}", host(kernel.arrays[id].element)));
                    pointers.push((id, name));
                }
            }
        }
        for &id in &kernel.results {
            let name = namer.local(&kernel.arrays[id].name);
            parameters.push(format!("{}* {name}", host(kernel.arrays[id].element)));
            pointers.push((id, name));
        }
        for (id, dim) in kernel.dims.iter() {
            let name = namer.local(&dim.name);
            parameters.push(format!("int64_t {name}"));
            names.dims.insert(id, name);
        }
        let writer = Writer { kernel, facts, cuda, names: &names, pointers: &pointers };
        Ok(Function {
            about: writer.about(),
            name: format!("launch_{}", Namer::new().fresh(&kernel.name)),
            parameters,
            body: writer.body()?,
        })
    }

    fn signature(&self, declaration: bool) -> String {
        let [stream, report] = if declaration { [" = nullptr", " = nullptr"] } else { ["", ""] };
        let mut all = self.parameters.clone();
        all.push(format!("cudaStream_t stream{stream}"));
        all.push(format!("IndexReport* report{report}"));
        format!("cudaError_t {}(\n    {})", self.name, all.join(",\n    "))
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

    fn body(&self) -> Result<String, Failure> {
        let mut out = String::new();
        self.conditions(&mut out)?;
        let reports = self.cuda.launches.iter().any(|launch| launch.arguments.contains(&Argument::Report));
        out += "    cudaError_t error = cudaSuccess;\n";
        if reports || !self.cuda.scratch.is_empty() {
            self.memory(reports, &mut out)?;
        }
        for launch in &self.cuda.launches {
            self.launch(launch, &mut out)?;
        }
        if reports {
            self.report(&mut out);
        }
        out += "    return error;\n";
        Ok(out)
    }

    /// Scratch memory in pieces that start at multiples of 256 bytes, then the report, in one allocation.
    fn memory(&self, reports: bool, out: &mut String) -> Result<(), Failure> {
        out.push_str("    gpukc_host::Memory memory(stream);\n");
        let mut end = "0".to_owned();
        for (number, scratch) in self.cuda.scratch.iter().enumerate() {
            let _ = writeln!(out, "    const int64_t bytes_{number} = {};  // {}", self.size(&scratch.bytes)?, scratch.name);
            let _ = writeln!(out, "    const int64_t scratch_{number} = {end};");
            end = format!("scratch_{number} + (bytes_{number} + 255) / 256 * 256");
        }
        let _ = writeln!(out, "    const int64_t report_at = {end};");
        let _ =
            writeln!(out, "    if ((error = memory.take(report_at + {})) != cudaSuccess) return error;", if reports { 32 } else { 0 });
        let zero = |out: &mut String, at: &str, bytes: &str| {
            let _ = writeln!(
                out,
                "    if ((error = cudaMemsetAsync((char*)memory.at + {at}, 0, {bytes}, stream)) != cudaSuccess) return error;"
            );
        };
        for (number, _) in self.cuda.scratch.iter().enumerate().filter(|(_, scratch)| scratch.zeroed) {
            zero(out, &format!("scratch_{number}"), &format!("size_t(bytes_{number})"));
        }
        if reports {
            zero(out, "report_at", "32");
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
        let _ = writeln!(out, "            error = cudaLaunchKernel((const void*){entry}, grid, block, arguments, {shared}, stream);");
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
            Argument::Report => Ok(("const void*", "(char*)memory.at + report_at".to_owned())),
            Argument::Scalar(id) => Ok((host(self.kernel.scalars[*id].ty), self.names.scalars.get(id).cloned().unwrap_or_default())),
            Argument::Size(formula, Type::I32) => Ok(("int", format!("int({})", self.size(formula)?))),
            Argument::Size(formula, _) => Ok(("long long", self.size(formula)?)),
        }
    }

    fn report(&self, out: &mut String) {
        out.push_str(
            "    unsigned long long words[4] = {};\n    \
             error = cudaMemcpyAsync(words, (char*)memory.at + report_at, sizeof words, cudaMemcpyDeviceToHost, stream);\n    \
             if (error == cudaSuccess) error = cudaStreamSynchronize(stream);\n    \
             if (error == cudaSuccess && words[0] != 0) {\n",
        );
        let sites: Vec<String> =
            self.cuda.sites.iter().map(|site| format!("{{\"{}\", {}}}", site.array.escape_default(), site.axis)).collect();
        let _ = writeln!(out, "        static const struct {{\n            const char* array;\n            int axis;");
        let _ = writeln!(out, "        }} sites[] = {{{}}};", sites.join(", "));
        out.push_str(
            "        if (report && words[1] < sizeof sites / sizeof *sites) {\n            \
             *report = {sites[words[1]].array, sites[words[1]].axis, int64_t(words[2]), int64_t(words[3])};\n        }\n        \
             error = cudaErrorAssert;\n    }\n",
        );
    }
}

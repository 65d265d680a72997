//! Cases: `tests/cases/NAME.gk`, with a header of comments that says what is asked of them.
//!
//! ```text
//! // What the case is about.
//! // kernel: NAME                  which kernel; without it, the file's last
//! // shape: m=4096 n=4096          a call that the plan is specialised for; without it, the plan serves every call
//! // target: sm_90a                the architecture of its snapshots; without it, sm_80
//! // plan: schedules=rows launches=1    facts about the plan; `limit`: the plan is refused as a known limit of ours
//! // run: m=3 n=1000 k<50          a call for device.rs: dims and scalars; elements of `k` are below 50
//! ```
// Each test program uses a part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gpukc_codegen::facts::Facts;
use gpukc_codegen::target::Target;
use gpukc_cpu::{Argument, Options, Tensor};
use gpukc_dsl::call::{self, Bindings, CallArgument};
use gpukc_dsl::program::{Array, Kernel, Literal, Parameter, Program};
use gpukc_dsl::source::Source;
use gpukc_dsl::types::Type;

pub mod values;

/// The architecture that snapshots are planned for.
pub const TARGET: Target = Target { capability: 80, specific: false };

/// The project's root: where cargo says, so that the tests also run from a bundle on another machine.
pub fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

/// The files of a folder below the root with this ending, sorted.
pub fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let path = root().join(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| has_ending(path, ending)).collect();
    found.sort();
    found
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension == ending)
}

/// A case's text and what its header asks.
pub struct Case {
    pub name: String,
    pub source: Source,
    pub kernel: Option<String>,
    pub shape: Option<Setting>,
    pub target: Target,
    pub plan: BTreeMap<String, String>,
    pub runs: Vec<Setting>,
}

/// Values for dims and scalars, and limits for the elements of integer arrays.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    pub text: String,
    pub values: BTreeMap<String, f64>,
    pub below: BTreeMap<String, i64>,
}

impl Case {
    /// All cases.
    pub fn all() -> Vec<Case> {
        files("tests/cases", "gk").iter().map(|path| Case::read(path)).collect()
    }

    /// Reads a case.
    pub fn read(path: &Path) -> Case {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).unwrap();
        let mut case = Case {
            source: Source::new(format!("{name}.gk"), text.clone()),
            name,
            kernel: None,
            shape: None,
            target: TARGET,
            plan: BTreeMap::new(),
            runs: Vec::new(),
        };
        for line in text.lines().map_while(|line| line.strip_prefix("// ")) {
            match line.split_once(": ") {
                Some(("kernel", name)) => case.kernel = Some(name.to_owned()),
                Some(("shape", values)) => case.shape = Some(Setting::parse(values)),
                Some(("target", name)) => case.target = Target::parse(name).expect("an architecture"),
                Some(("run", values)) => case.runs.push(Setting::parse(values)),
                Some(("plan", facts)) => {
                    case.plan.extend(facts.split_whitespace().map(|fact| {
                        let (key, value) = fact.split_once('=').unwrap_or((fact, ""));
                        (key.to_owned(), value.to_owned())
                    }));
                }
                _ => {}
            }
        }
        case
    }

    /// The checked program; a refusal is drawn.
    pub fn program(&self) -> Program {
        checked(&self.source)
    }

    /// The kernel that the case is about.
    pub fn kernel<'p>(&self, program: &'p Program) -> &'p Kernel {
        match &self.kernel {
            Some(name) => program.kernel(name).unwrap_or_else(|| panic!("no kernel `{name}`")),
            None => program.kernels.last().expect("a kernel"),
        }
    }

    /// What the plan of the snapshots may know.
    pub fn facts(&self, kernel: &Kernel) -> Facts {
        self.shape.as_ref().map_or_else(Facts::default, |shape| Facts::of_call(kernel, &shape.bind(kernel)))
    }
}

/// Checks a text; a refusal is drawn.
pub fn checked(source: &Source) -> Program {
    let checked = gpukc_dsl::check(source);
    checked.program.unwrap_or_else(|| panic!("\n{}", gpukc_dsl::diagnostic::render::human(source, &checked.problems, false)))
}

/// Runs a kernel on the CPU device; `arrays` serve its array parameters in order.
pub fn on_cpu(program: &Program, kernel: &Kernel, bindings: &Bindings, arrays: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let mut arrays = arrays.iter();
    let arguments: Vec<Argument> = kernel
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Scalar(_) => Argument::Scalar,
            Parameter::Array(_) => Argument::Array(arrays.next().expect("an array for each parameter")),
        })
        .collect();
    gpukc_cpu::run(program, kernel, bindings, &arguments, &Options::default()).map_err(|error| error.to_string())
}

impl Setting {
    pub fn parse(text: &str) -> Setting {
        let mut setting = Setting { text: text.to_owned(), ..Setting::default() };
        for part in text.split_whitespace() {
            if let Some((name, value)) = part.split_once('=') {
                setting.values.insert(name.to_owned(), value.parse().unwrap_or_else(|_| panic!("`{part}`: no number")));
            } else if let Some((name, limit)) = part.split_once('<') {
                setting.below.insert(name.to_owned(), limit.parse().unwrap_or_else(|_| panic!("`{part}`: no number")));
            } else {
                panic!("`{part}`: write NAME=VALUE or NAME<LIMIT");
            }
        }
        setting
    }

    fn value(&self, name: &str) -> f64 {
        *self.values.get(name).unwrap_or_else(|| panic!("`{}` gives no value for `{name}`", self.text))
    }

    /// The call's dims, scalars and extents.
    pub fn bind(&self, kernel: &Kernel) -> Bindings {
        self.try_bind(kernel).unwrap_or_else(|error| panic!("`{}`: {error}", self.text))
    }

    /// The same, where the kernel may refuse the call.
    pub fn try_bind(&self, kernel: &Kernel) -> Result<Bindings, String> {
        let dims = kernel.dims.iter().map(|(_, dim)| self.value(&dim.name) as i64).collect();
        let scalar = |ty: Type, value: f64| match ty {
            Type::Bool => Literal::Bool(value != 0.0),
            ty if ty.is_float() => Literal::Float(value),
            _ => Literal::Int(value as i128),
        };
        // A shape may omit scalars that no extent depends on.
        let scalars = kernel.scalars.iter().map(|(_, s)| scalar(s.ty, self.values.get(&s.name).copied().unwrap_or(1.0))).collect();
        let known = Bindings { dims, scalars, extents: Vec::new() };
        let extent = |shape| match call::evaluate(kernel, &known, shape) {
            Some(Literal::Int(extent)) => Ok(extent as i64),
            other => Err(format!("an extent is {other:?}")),
        };
        let shape = |array: &Array| array.shape.iter().map(|&e| extent(e)).collect::<Result<Vec<_>, _>>();
        let shapes: Vec<Vec<i64>> = kernel.arrays.iter().map(|(_, array)| shape(array)).collect::<Result<_, _>>()?;
        let arguments: Vec<CallArgument> = kernel
            .parameters
            .iter()
            .map(|parameter| match *parameter {
                Parameter::Scalar(id) => CallArgument::Scalar(known.scalars[id.index()]),
                Parameter::Array(id) => CallArgument::Array { element: kernel.arrays[id].element, shape: &shapes[id.index()] },
            })
            .collect();
        call::bind(kernel, &arguments).map_err(|error| error.to_string())
    }

    /// Arrays for the parameters, filled with numbers that follow from the parameter's place alone.
    pub fn arrays(&self, kernel: &Kernel, bindings: &Bindings) -> Vec<Tensor> {
        let mut arrays = Vec::new();
        for (place, parameter) in kernel.parameters.iter().enumerate() {
            let Parameter::Array(id) = *parameter else { continue };
            let array = &kernel.arrays[id];
            let below = self.below.get(&array.name).copied();
            arrays.push(values::random(array.element, &bindings.extents[id.index()], place as u64, below));
        }
        arrays
    }
}

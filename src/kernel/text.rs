//! What a kernel is compiled to, to look at.

use super::prepare::compile;
use super::{Checked, Kernel};
use gpukc_codegen as codegen;
use gpukc_codegen::facts::Facts;
use gpukc_codegen::target::Target;
use gpukc_dsl::program::Kernel as Typed;

impl Kernel {
    /// The CUDA text that serves every call; a comment where there is none.
    pub fn cuda(&self) -> String {
        self.text(|checked, typed, target| Ok(compile(&checked.program, typed, target, &Facts::default(), None)?.source.to_string()))
    }

    /// The plan of the text that serves every call; a comment where there is none.
    pub fn plan(&self) -> String {
        self.text(|checked, typed, target| {
            let lowered = codegen::plan(&checked.program, typed, target, &Facts::default())?;
            Ok(codegen::plan::print::print(&lowered.plan))
        })
    }

    fn text(&self, make: impl Fn(&Checked, &Typed, Target) -> Result<String, codegen::error::Error>) -> String {
        const TARGET: Target = Target { capability: 90, specific: true };
        match self.checked() {
            Ok(checked) => make(checked, checked.typed(), TARGET).unwrap_or_else(|error| format!("// no text for GPUs: {error}\n")),
            Err(error) => format!("// no text for GPUs: {error}\n"),
        }
    }
}

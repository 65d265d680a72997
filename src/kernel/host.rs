//! Calls on the CPU in a GPU's place.

use super::{Checked, Given, Kernel};
use crate::cpu;
use crate::dsl::call::Bindings;
use crate::dsl::program::Parameter;
use crate::error::Error;
use crate::stream::Stream;
use crate::untyped::Untyped;

impl Kernel {
    pub(super) fn run_on_cpu(
        &self,
        checked: &Checked,
        stream: &Stream,
        given: &Given,
        bindings: &Bindings,
    ) -> Result<Vec<cpu::Tensor>, Error> {
        let typed = checked.typed();
        let mut tensors = Vec::with_capacity(checked.arrays.len());
        for array in given.arrays {
            if !array.gpu().is(stream.shared()) {
                return Err(Error::arguments(format!("{}: an array of another device, or of this one opened again", self.name)));
            }
            tensors.push(array.tensor()?);
        }
        let mut next = tensors.iter();
        let arguments: Vec<cpu::Argument> = typed
            .parameters
            .iter()
            .map(|parameter| match parameter {
                Parameter::Array(_) => next.next().map_or(cpu::Argument::Scalar, |tensor| cpu::Argument::Array(tensor)),
                Parameter::Scalar(_) => cpu::Argument::Scalar,
            })
            .collect();
        let results = cpu::run(&checked.program, typed, bindings, &arguments, &cpu::Options::default());
        results.map_err(|error| Error::run(error, &checked.source))
    }

    pub(super) fn write_on_cpu(&self, checked: &Checked, stream: &Stream, given: &Given, outputs: &[&Untyped]) -> Result<(), Error> {
        if outputs.iter().any(|output| !output.gpu().is(stream.shared())) {
            return Err(Error::arguments(format!("{}: an array of another device, or of this one opened again", self.name)));
        }
        let bindings = self.bind(checked, given)?;
        self.check_outputs(checked, &bindings, outputs)?;
        let results = self.run_on_cpu(checked, stream, given, &bindings)?;
        results.into_iter().zip(outputs).try_for_each(|(tensor, output)| output.set_tensor(tensor))
    }
}

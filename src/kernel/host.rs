//! Calls on the CPU in a GPU's place.

use super::{Checked, Given, Kernel};
use crate::error::Error;
use crate::stream::Stream;
use crate::untyped::Untyped;
use gpukc_cpu as cpu;
use gpukc_dsl::call::Bindings;
use gpukc_dsl::program::Parameter;

impl Kernel {
    pub(super) fn run_on_cpu(
        &self,
        checked: &Checked,
        stream: &Stream,
        arrays: &[&Untyped],
        bindings: &Bindings,
    ) -> Result<Vec<cpu::Tensor>, Error> {
        let typed = checked.typed();
        self.foreign(checked, stream, arrays, &[])?;
        let tensors = arrays.iter().map(|array| array.tensor()).collect::<Result<Vec<_>, _>>()?;
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

    pub(super) fn write_on_cpu(
        &self,
        checked: &Checked,
        stream: &Stream,
        given: &Given,
        arrays: &[&Untyped],
        outputs: &[&Untyped],
    ) -> Result<(), Error> {
        self.foreign(checked, stream, arrays, outputs)?;
        let bindings = self.bind(checked, given)?;
        self.check_outputs(checked, &bindings, outputs)?;
        let results = self.run_on_cpu(checked, stream, arrays, &bindings)?;
        results.into_iter().zip(outputs).try_for_each(|(tensor, output)| output.set_tensor(tensor))
    }
}

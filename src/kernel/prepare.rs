//! From a call that a device has not met to code that is loaded for it.

use std::sync::{Arc, PoisonError};

use super::{ALIGNMENT, Checked, Entry, Given, KEPT, Kernel, Key, Prepared};
use crate::error::Error;
use crate::gpu;
use crate::untyped::Extents;
use gpukc_codegen as codegen;
use gpukc_codegen::facts::Facts;
use gpukc_codegen::kernel::Kernel as Cuda;
use gpukc_codegen::target::Target;
use gpukc_dsl::program::{ArrayId, Kernel as Typed, Program};
use gpukc_runtime::compile::{Binary, Wanted};
use gpukc_runtime::launch::{Call, Layout, Loaded};

impl Checked {
    /// What a build script has made for a device: it serves every call, and needs no NVRTC.
    fn made_ahead(
        &self,
        device: Target,
        in_place: Option<(ArrayId, ArrayId)>,
    ) -> Result<Option<(Cuda, Binary)>, codegen::error::Error> {
        let Some(bundle) = &self.bundle else { return Ok(None) };
        for made in bundle.suiting(device) {
            let kernel = compile(&self.program, self.typed(), made, &Facts::default(), in_place)?;
            // There is none if the build script was of another version.
            if let Some(binary) = bundle.find(&kernel.source, made) {
                return Ok(Some((kernel, binary)));
            }
        }
        Ok(None)
    }
}

impl Kernel {
    /// The entry for a call: one that is there, or a new one.
    pub(super) fn entry(&self, checked: &Checked, cuda: &gpu::Cuda, given: &Given) -> Result<Arc<Entry>, Error> {
        let prepared = self.prepared(cuda);
        {
            let mut entries = prepared.entries();
            if let Some(at) = entries.iter().position(|entry| given.fits(&entry.key)) {
                // Those in use stay in front; one place at a time, so that two in turn don't move all.
                if at > 0 {
                    entries.swap(at, at - 1);
                    return Ok(entries[at - 1].clone());
                }
                return Ok(entries[0].clone());
            }
        }
        let entry = Arc::new(self.new_entry(checked, cuda, &prepared, given)?);
        let mut entries = prepared.entries();
        entries.insert(0, entry.clone());
        entries.truncate(KEPT);
        Ok(entry)
    }

    fn new_entry(&self, checked: &Checked, cuda: &gpu::Cuda, prepared: &Prepared, given: &Given) -> Result<Entry, Error> {
        let bindings = self.bind(checked, given)?;
        let typed = checked.typed();
        let device = cuda.queue.device().facts().target;
        let in_place = match (given.in_place, typed.results.as_slice()) {
            (Some(at), &[result]) => checked.arrays.get(at).map(|&parameter| (parameter, result)),
            (Some(_), _) => return Err(Error::bug("a call in place of a kernel with several results")),
            (None, _) => None,
        };
        let refused = |error| Error::compilation(error, self.name, &checked.source);
        let made = checked.made_ahead(device, in_place).map_err(refused)?;
        let (facts, kernel, binary) = match made {
            Some((kernel, binary)) => (Facts::default(), kernel, Some(binary)),
            None => {
                let mut facts = Facts::of_call(typed, &bindings);
                facts.scalars.retain(|id, _| checked.shaping.contains(id));
                facts.aligned &= given.aligned;
                let kernel = compile(&checked.program, typed, device, &facts, in_place).map_err(refused)?;
                (facts, kernel, None)
            }
        };
        let loaded = self.load(checked, cuda, prepared, &kernel, binary)?;
        let parameters: Vec<ArrayId> =
            checked.arrays.iter().copied().filter(|&id| in_place.is_none_or(|(parameter, _)| parameter != id)).collect();
        let alignment = if facts.aligned { ALIGNMENT } else { 1 };
        let layout = Layout::new(&loaded, &Call::new(typed, &bindings), &parameters, &typed.results, in_place, alignment)
            .map_err(|error| Error::device(error, Some(&checked.source)))?;
        let results = typed.results.iter().map(|id| Extents::new(&bindings.extents[id.index()])).collect::<Option<Vec<_>>>();
        let mut matter = kernel.sized_by();
        matter.extend(&checked.shaping);
        let key = Key {
            inputs: given.shapes.iter().map(|shape| **shape).collect(),
            scalars: matter.into_iter().filter_map(|id| Some((id, *given.scalars.get(id.index())?))).collect(),
            aligned: given.aligned,
            in_place: given.in_place,
        };
        Ok(Entry { key, layout, results: results.ok_or_else(|| Error::bug("a result with too many dims"))? })
    }

    /// The loaded code of a contract, compiled unless there is a binary. While it is compiled, other calls of this kernel that
    /// need new code wait.
    fn load(
        &self,
        checked: &Checked,
        cuda: &gpu::Cuda,
        prepared: &Prepared,
        kernel: &Cuda,
        binary: Option<Binary>,
    ) -> Result<Arc<Loaded>, Error> {
        let contract = format!("{kernel:?}");
        let mut variants = prepared.variants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, loaded)) = variants.iter().find(|(known, _)| *known == contract) {
            return Ok(loaded.clone());
        }
        let about = |error| Error::device(error, Some(&checked.source));
        let target = cuda.queue.device().facts().target;
        let compile = || cuda.compiler.compile(&kernel.source, self.name, target, Wanted::Binary, &[]);
        let binary = binary.map_or_else(compile, Ok).map_err(about)?;
        let loaded = Arc::new(Loaded::new(&cuda.queue, kernel, &binary, &checked.source).map_err(about)?);
        variants.push((contract, loaded.clone()));
        if variants.len() > KEPT {
            variants.remove(0);
        }
        Ok(loaded)
    }
}

/// The text for a call, perhaps one that is computed in place.
pub(crate) fn compile(
    program: &Program,
    kernel: &Typed,
    target: Target,
    facts: &Facts,
    in_place: Option<(ArrayId, ArrayId)>,
) -> Result<Cuda, codegen::error::Error> {
    match in_place {
        None => codegen::compile(program, kernel, target, facts),
        Some((parameter, result)) => codegen::compile_in_place(program, kernel, target, facts, parameter, result),
    }
}

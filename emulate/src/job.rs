//! Calls as the runner reads them, and its results: the host side of a launch, as `runtime` does it.

use std::borrow::Cow;

use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::{Argument, Kernel, Launch, REPORT_WORDS};
use gpukc_dsl::call::scalar_bits;
use gpukc_dsl::program::{ArrayId, Parameter, Role};
use gpukc_dsl::types::Type;

use crate::error::Error;
use crate::toolchain::Built;
use crate::{Call, Results};

const MAX_GRID: [i64; 3] = [0x7fff_ffff, 65_535, 65_535];

/// What memory holds at first; of inputs, their bytes.
const ZEROS: u64 = 0;
/// Read before it is written, it shall be noticed: NaN, -1, true.
const POISON: u64 = 0xff;
/// Results that are not written shall be noticed, by other bytes than copied poison.
const UNTOUCHED: u64 = 0xcb;
const GIVEN: u64 = 256;

/// The text as it is built. Dynamic shared memory alone is spelled in a way that C++ has nothing for: it becomes static memory of
/// the largest size that a launch of the text asks for.
pub fn source(text: &Kernel) -> Cow<'_, str> {
    const DYNAMIC: &str = "extern __shared__ __align__(16) unsigned char block_memory[];";
    match text.launches.iter().map(|launch| launch.shared_bytes).max() {
        Some(bytes) if bytes > 0 => {
            Cow::Owned(text.source.replace(DYNAMIC, &format!("__shared__ __align__(16) unsigned char block_memory[{bytes}];")))
        }
        _ => Cow::Borrowed(&text.source),
    }
}

/// Words and bytes of a job.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, value: u64) {
        self.0.extend(value.to_ne_bytes());
    }
    fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        self.0.extend(text.as_bytes());
    }
    fn buffer(&mut self, bytes: u64, offset: u64, content: u64, output: bool) {
        [bytes, offset, content, u64::from(output)].into_iter().for_each(|word| self.word(word));
    }
}

/// A call's buffers: arrays by id, then scratch memory, then the report.
struct Buffers {
    arrays: Vec<(ArrayId, u64)>,
    scratch: u64,
    report: u64,
}

/// The job that does a call.
pub fn encode(call: &Call, built: &Built) -> Result<Vec<u8>, Error> {
    let mut out = Writer::default();
    out.text(&built.library.to_string_lossy());
    out.word(call.order);
    let buffers = encode_buffers(call, &mut out)?;
    let mut launches = Vec::new();
    for launch in &call.text.launches {
        if let Some(grid) = grid(launch, call)? {
            launches.push((launch, grid));
        }
    }
    out.word(launches.len() as u64);
    for (launch, grid) in launches {
        out.text(&format!("{}:{}", built.index, launch.entry));
        grid.into_iter().for_each(|extent| out.word(extent as u64));
        launch.block.into_iter().for_each(|extent| out.word(u64::from(extent)));
        out.word(u64::from(launch.cluster));
        out.word(launch.arguments.len() as u64);
        for argument in &launch.arguments {
            let (bytes, value) = encode_argument(call, argument, &buffers)?;
            out.word(bytes as u64);
            out.word(value);
        }
    }
    Ok(out.0)
}

fn encode_buffers(call: &Call, out: &mut Writer) -> Result<Buffers, Error> {
    let kernel = call.kernel;
    let parameters = kernel.parameters.iter().filter_map(|parameter| match *parameter {
        Parameter::Array(id) => Some(id),
        Parameter::Scalar(_) => None,
    });
    let parameters: Vec<ArrayId> = parameters.collect();
    if parameters.len() != call.inputs.len() {
        return Err(Error::Tool(format!("{} inputs for {} parameters", call.inputs.len(), parameters.len())));
    }
    let results = if call.in_place.is_some() { &[][..] } else { &kernel.results };
    out.word((parameters.len() + results.len() + call.text.scratch.len() + 1) as u64);
    let mut arrays = Vec::new();
    for (place, &id) in parameters.iter().chain(results).enumerate() {
        let element = kernel.arrays[id].element.size() as u64;
        let bytes = bytes_of(call, id)?;
        let further = if call.aligned { 0 } else { element * (1 + place as u64 % 3) };
        let offset = 16 * (1 + place as u64 % 4) + further;
        match call.inputs.get(place) {
            Some(input) if input.len() as u64 != bytes => {
                return Err(Error::Tool(format!("`{}` has {} bytes instead of {bytes}", kernel.arrays[id].name, input.len())));
            }
            Some(input) => {
                out.buffer(bytes, offset, GIVEN, call.in_place == Some(id));
                out.0.extend(*input);
            }
            None => out.buffer(bytes, offset, UNTOUCHED, true),
        }
        arrays.push((id, place as u64));
    }
    let buffers = arrays.len() as u64;
    let shared = arrays.iter().find(|(id, _)| call.in_place == Some(*id)).map(|(_, place)| *place);
    if let (Some(place), &[result]) = (shared, kernel.results.as_slice()) {
        arrays.push((result, place));
    } else if call.in_place.is_some() {
        return Err(Error::Tool("in place of what is no parameter, or with several results".into()));
    }
    for scratch in &call.text.scratch {
        let bytes = scratch.bytes.evaluate(call.bindings);
        let fits = u64::try_from(bytes).ok().filter(|bytes| *bytes < 1 << 40);
        let bytes = fits.ok_or_else(|| Error::Contract(format!("scratch `{}` would have {bytes} bytes", scratch.name)))?;
        out.buffer(bytes, 0, if scratch.zeroed { ZEROS } else { POISON }, false);
    }
    out.buffer(8 * REPORT_WORDS as u64, 0, ZEROS, true);
    Ok(Buffers { arrays, scratch: buffers, report: buffers + call.text.scratch.len() as u64 })
}

fn bytes_of(call: &Call, id: ArrayId) -> Result<u64, Error> {
    let array = &call.kernel.arrays[id];
    let elements = call.bindings.extents.get(id.index()).map(|extents| extents.iter().product::<i64>());
    let bytes = elements.and_then(|elements| u64::try_from(elements).ok()).map(|elements| elements * array.element.size() as u64);
    bytes.ok_or_else(|| Error::Tool(format!("`{}` has no extents", array.name)))
}

/// The grid at this call; none if it is empty.
fn grid(launch: &Launch, call: &Call) -> Result<Option<[i64; 3]>, Error> {
    let grid = [0, 1, 2].map(|axis| launch.grid[axis].evaluate(call.bindings));
    if grid.contains(&0) {
        return Ok(None);
    }
    if let Some(axis) = (0..3).find(|axis| !(1..=MAX_GRID[*axis]).contains(&grid[*axis])) {
        return Err(Error::Contract(format!("`{}` would have {} blocks along axis {axis}", launch.entry, grid[axis])));
    }
    let threads: u64 = launch.block.iter().map(|extent| u64::from(*extent)).product();
    if !(1..=1024).contains(&threads) || launch.block[2] > 64 {
        return Err(Error::Contract(format!("`{}` has blocks of {:?}", launch.entry, launch.block)));
    }
    Ok(Some(grid))
}

/// A size in bytes and a value; of pointers, 0 and a buffer's number.
fn encode_argument(call: &Call, argument: &Argument, buffers: &Buffers) -> Result<(usize, u64), Error> {
    match argument {
        Argument::Array(id) => {
            let place = buffers.arrays.iter().find(|(array, _)| array == id).map(|(_, place)| *place);
            let role = call.kernel.arrays.iter().find(|(array, _)| array == id).map(|(_, array)| array.role);
            let what = if role == Some(Role::Let) { "an intermediate array" } else { "an unknown array" };
            Ok((0, place.ok_or_else(|| Error::Contract(format!("a launch takes {what}")))?))
        }
        Argument::Scratch(index) if *index < call.text.scratch.len() => Ok((0, buffers.scratch + *index as u64)),
        Argument::Scratch(_) => Err(Error::Contract("a launch takes an unknown scratch memory".into())),
        Argument::Report => Ok((0, buffers.report)),
        Argument::Scalar(id) => {
            let (ty, value) = (call.kernel.scalars[*id].ty, call.bindings.scalars.get(id.index()));
            let value = value.ok_or_else(|| Error::Tool("a scalar has no value".into()))?;
            Ok((ty.size(), scalar_bits(ty, *value)))
        }
        Argument::Size(formula, ty) => size(formula, *ty, call),
    }
}

fn size(formula: &Formula, ty: Type, call: &Call) -> Result<(usize, u64), Error> {
    let value = formula.evaluate(call.bindings);
    match ty {
        Type::I64 => Ok((8, value as u64)),
        Type::I32 if i32::try_from(value).is_ok() => Ok((4, u64::from(value as u32))),
        _ => Err(Error::Contract(format!("`{formula}` is {value}, which is no {ty}"))),
    }
}

/// What a job's output buffers say.
pub fn decode(call: &Call, bytes: Vec<u8>) -> Result<Results, Error> {
    let mut rest = bytes.as_slice();
    let mut take = |count: u64| {
        let (taken, left) = rest.split_at_checked(count as usize).ok_or_else(|| Error::Tool("results are cut off".into()))?;
        rest = left;
        Ok(taken)
    };
    let mut results = Vec::new();
    for &id in &call.kernel.results {
        results.push(take(bytes_of(call, id)?)?.to_vec());
    }
    let report = take(8 * REPORT_WORDS as u64)?;
    let words: Vec<u64> = report.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default())).collect();
    let &[reported, site, index, extent] = words.as_slice() else { return Err(Error::Tool("a report is cut off".into())) };
    if reported == 0 {
        return Ok(results);
    }
    let site = usize::try_from(site).ok().and_then(|site| call.text.sites.get(site));
    let site = site.ok_or_else(|| Error::Contract("an unknown place is reported".into()))?.clone();
    Err(Error::Index { kernel: call.text.name.clone(), site, index: index as i64, extent: extent as i64 })
}

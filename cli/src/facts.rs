//! `--shape` and `--call`: what `compile` is told of the calls that a text is for.

use std::collections::BTreeMap;

use gpukc_codegen::facts::Facts;
use gpukc_dsl::program::{DimId, Kernel, ScalarId};

use crate::failure::Failure;
use crate::inputs;

/// Each kernel with what is known of its calls.
pub fn of<'a>(
    kernels: Vec<&'a Kernel>,
    shape: &[String],
    call: &[String],
    misaligned: bool,
) -> Result<Vec<(&'a Kernel, Facts)>, Failure> {
    if call.is_empty() { of_shape(kernels, shape) } else { of_call(kernels, call, !misaligned) }
}

/// `--shape n=4096,m=512`: dims by name, spelled into the text. Each must be a dim of some kernel.
fn of_shape<'a>(kernels: Vec<&'a Kernel>, shape: &[String]) -> Result<Vec<(&'a Kernel, Facts)>, Failure> {
    let mut all: Vec<(&Kernel, Facts)> = kernels.into_iter().map(|kernel| (kernel, Facts::default())).collect();
    for part in shape {
        let (name, extent) = named_extent("--shape", part)?;
        let mut found = false;
        for (kernel, facts) in &mut all {
            if let Some(id) = dim(kernel, name) {
                if facts.literal.insert(id, extent).is_some() {
                    return Err(Failure::usage(format!("--shape gives `{name}` twice")));
                }
                found = true;
            }
        }
        if !found {
            let has = |kernel: &Kernel| format!("kernel `{}` has no dim `{name}`; it has {}", kernel.name, listed(&dims(kernel)));
            let all: Vec<String> = all.iter().map(|(kernel, _)| has(kernel)).collect();
            return Err(Failure::usage(format!("--shape {part}: {}", all.join("; "))));
        }
    }
    for (kernel, facts) in &mut all {
        // Only where all extents are spelled is it known how many bits an index needs.
        facts.narrow = Facts::of_sizes(kernel, facts.literal.clone(), BTreeMap::new(), false).narrow;
    }
    Ok(all)
}

/// `--call n=4096,k=3`: all dims and any integer parameters of one call, by name. They choose the text, and are not spelled into it.
fn of_call<'a>(kernels: Vec<&'a Kernel>, call: &[String], aligned: bool) -> Result<Vec<(&'a Kernel, Facts)>, Failure> {
    let mut values: Vec<(&str, &str, bool)> = Vec::new();
    for part in call {
        let (name, value) = inputs::split("--call", part, "VALUE")?;
        if values.iter().any(|(known, ..)| *known == name) {
            return Err(Failure::usage(format!("--call gives `{name}` twice")));
        }
        values.push((name, value, false));
    }
    let mut all = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        let (mut dims, mut scalars) = (Vec::new(), Vec::new());
        for (name, value, used) in &mut values {
            let part = format!("{name}={value}");
            match (dim(kernel, name), integer(kernel, name)) {
                (Some(id), _) => dims.push((id, named_extent("--call", &part)?.1)),
                (None, Some(id)) => {
                    let number = value.replace('_', "").parse::<i64>();
                    scalars.push((id, number.map_err(|_| Failure::usage(format!("--call {part}: this is no integer")))?));
                }
                (None, None) => continue,
            }
            *used = true;
        }
        let missing: Vec<&str> =
            kernel.dims.iter().filter(|(id, _)| dims.iter().all(|(known, _)| known != id)).map(|(_, dim)| dim.name.as_str()).collect();
        if !missing.is_empty() {
            return Err(Failure::usage(format!("--call: kernel `{}` also has {}", kernel.name, missing.join(", ")))
                .help("give all its dims, or choose another kernel with --kernel"));
        }
        all.push((kernel, Facts::of_sizes(kernel, dims.into_iter().collect(), scalars.into_iter().collect(), aligned)));
    }
    match values.iter().find(|(.., used)| !used) {
        None => Ok(all),
        Some((name, ..)) => {
            let has = |kernel: &Kernel| {
                let integers =
                    kernel.scalars.iter().filter(|(_, scalar)| scalar.ty.is_integer()).map(|(_, scalar)| scalar.name.as_str());
                let names: Vec<&str> = dims(kernel).into_iter().chain(integers).collect();
                format!("kernel `{}` has no dim and no integer `{name}`; it has {}", kernel.name, listed(&names))
            };
            let all: Vec<String> = all.iter().map(|(kernel, _)| has(kernel)).collect();
            Err(Failure::usage(format!("--call: {}", all.join("; "))))
        }
    }
}

/// A name and its extent.
fn named_extent<'a>(option: &str, part: &'a str) -> Result<(&'a str, i64), Failure> {
    let (name, extent) = inputs::split(option, part, "EXTENT")?;
    let extent = extent.replace('_', "").parse::<i64>().ok().filter(|&extent| extent >= 0);
    let extent = extent.ok_or_else(|| Failure::usage(format!("{option} {part}: an extent is a number, 0 or more")))?;
    Ok((name, extent))
}

fn dim(kernel: &Kernel, name: &str) -> Option<DimId> {
    kernel.dims.iter().find(|(_, dim)| dim.name == name).map(|(id, _)| id)
}

fn integer(kernel: &Kernel, name: &str) -> Option<ScalarId> {
    kernel.scalars.iter().find(|(_, scalar)| scalar.name == name && scalar.ty.is_integer()).map(|(id, _)| id)
}

fn dims(kernel: &Kernel) -> Vec<&str> {
    kernel.dims.iter().map(|(_, dim)| dim.name.as_str()).collect()
}

/// Names with commas.
pub fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

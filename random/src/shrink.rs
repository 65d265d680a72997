//! A smaller program, and a smaller call of it, in which something still happens.

use gpukc_dsl::program::Program as Typed;
use gpukc_dsl::types::Type;
use gpukc_verify::draw::Call;

use crate::smaller;
use crate::tree::{Expr, Form, Node, Program};
use crate::trial;

/// A program with a call.
#[derive(Clone, Debug)]
pub struct Specimen {
    /// The program.
    pub tree: Program,
    /// Checked.
    pub program: Typed,
    /// The call.
    pub call: Call,
}

/// Shrinks extents, then the program, then extents and data. `persists` gets candidates, the smaller ones first, and names one in
/// which the fault persists; it is asked at most so many times.
pub fn shrink(specimen: Specimen, mut rounds: usize, mut persists: impl FnMut(&[Specimen]) -> Option<usize>) -> Specimen {
    let mut best = specimen;
    for steps in [calls, programs, calls, data] {
        while rounds > 0 {
            let all = steps(&best);
            let mut found = None;
            for some in all.chunks(12).take(rounds) {
                rounds -= 1;
                found = persists(some).and_then(|at| some.get(at)).cloned();
                if found.is_some() {
                    break;
                }
            }
            match found {
                Some(smaller) => best = smaller,
                None => break,
            }
        }
    }
    best
}

fn calls(specimen: &Specimen) -> Vec<Specimen> {
    let Some(kernel) = specimen.program.kernels.last() else { return Vec::new() };
    smaller::smaller(kernel, &specimen.call).into_iter().map(|call| Specimen { call, ..specimen.clone() }).collect()
}

fn data(specimen: &Specimen) -> Vec<Specimen> {
    smaller::plainer(&specimen.call).into_iter().map(|call| Specimen { call, ..specimen.clone() }).collect()
}

fn programs(specimen: &Specimen) -> Vec<Specimen> {
    let Some(from) = specimen.program.kernels.last() else { return Vec::new() };
    let adapted = |tree: Program| {
        let program = trial::check(&tree).ok()?;
        let call = smaller::adapted(&specimen.call, from, program.kernels.last()?)?;
        Some(Specimen { tree, program, call })
    };
    candidates(&specimen.tree).into_iter().filter_map(adapted).collect()
}

/// Programs that are smaller by one step; those by a large step first.
fn candidates(program: &Program) -> Vec<Program> {
    let mut all: Vec<Program> = Vec::new();
    let mut add = |change: &dyn Fn(&mut Program)| {
        let mut smaller = program.clone();
        change(&mut smaller);
        if smaller != *program {
            all.push(smaller);
        }
    };
    for at in 0..program.kernel.results.len() {
        let name = &program.kernel.results[at].name;
        add(&|p| {
            p.kernel.results.remove(at);
            p.kernel.statements.retain(|s| s.name != *name);
        });
    }
    for at in (0..program.kernel.statements.len()).rev() {
        if program.kernel.statements[at].form == Form::Let {
            add(&|p| drop(p.kernel.statements.remove(at)));
        }
        if matches!(program.kernel.statements[at].form, Form::Accumulate(_)) {
            add(&|p| drop(p.kernel.statements.remove(at)));
        }
        add(&|p| p.kernel.statements[at].attribute = None);
    }
    let text = program.kernel.to_string();
    for (at, parameter) in program.kernel.parameters.iter().enumerate() {
        if words(&text).filter(|word| *word == parameter.name).count() == 1 {
            add(&|p| drop(p.kernel.parameters.remove(at)));
        }
    }
    for at in 0..program.items.len() {
        add(&|p| drop(p.items.remove(at)));
    }
    for at in 0..program.kernel.conditions.len() {
        add(&|p| drop(p.kernel.conditions.remove(at)));
    }
    for (at, statement) in program.kernel.statements.iter().enumerate() {
        for place in 0..statement.value.size() {
            for replacement in replacements(&statement.value, place) {
                add(&|p| replace(&mut p.kernel.statements[at].value, place, &replacement));
            }
        }
    }
    all
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// The expression at a place, counted in the order of the text.
fn at(e: &Expr, place: usize) -> Option<&Expr> {
    if place == 0 {
        return Some(e);
    }
    let mut left = place - 1;
    for part in e.parts() {
        let size = part.size();
        if left < size {
            return at(part, left);
        }
        left -= size;
    }
    None
}

fn replace(e: &mut Expr, place: usize, by: &Expr) {
    if place == 0 {
        *e = by.clone();
        return;
    }
    let mut left = place - 1;
    for part in e.parts_mut() {
        let size = part.size();
        if left < size {
            return replace(part, left, by);
        }
        left -= size;
    }
}

/// What may stand in an expression's place.
fn replacements(value: &Expr, place: usize) -> Vec<Expr> {
    let Some(e) = at(value, place) else { return Vec::new() };
    let mut all = Vec::new();
    if matches!(e.node, Node::Atom(_)) {
        return all;
    }
    let literal = match e.ty {
        Type::Bool => "true".to_owned(),
        ty if ty.is_float() => format!("1.0{ty}"),
        ty => format!("1{ty}"),
    };
    all.push(Expr::atom(e.ty, literal));
    for part in e.parts() {
        if part.ty == e.ty {
            all.push(part.clone());
        } else if !matches!(e.node, Node::Read(..) | Node::Cast(_)) && part.ty != Type::Bool && e.ty != Type::Bool {
            all.push(part.clone().cast(e.ty));
        }
    }
    if let Node::Reduce(reduce) = &e.node {
        if reduce.filter.is_some() {
            let mut plain = reduce.clone();
            plain.filter = None;
            all.push(Expr { ty: e.ty, node: Node::Reduce(plain) });
        }
        for at in 0..reduce.variables.len() {
            if reduce.variables.len() > 1 {
                let mut fewer = reduce.clone();
                fewer.variables.remove(at);
                all.push(Expr { ty: e.ty, node: Node::Reduce(fewer) });
            }
        }
    }
    all
}

//! What a permutation is made of: its dims, over which the output and what it reads lie each in an order of its own. Variables that
//! stay neighbours in all of them count as one dim, and so do their elements.

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Kernel, Ranged, Role, Statement, Subscript, VariableId};
use gpukc_dsl::types::Type;

use super::super::context::Lowering;
use super::super::place::Place;
use super::super::read::is_settled;
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::Formula;
use crate::plan::{Expr, int};
use crate::size;
use crate::walk;

/// Variables, slowest first, that count as one.
pub struct Dim {
    pub variables: Vec<Ranged>,
    pub extent: Formula,
}

/// An axis of an array, or several neighbouring ones: it runs along a dim from `offset` on, or stays there.
#[derive(Clone, PartialEq)]
pub struct Axis<D> {
    pub along: Option<D>,
    pub offset: Formula,
    pub extent: Formula,
}

/// How an array lies over the dims, by number, slowest first.
#[derive(Clone, PartialEq)]
pub struct View(pub Vec<Axis<usize>>);

/// An element that is read.
pub struct Element {
    pub array: ArrayId,
    pub ty: Type,
    pub view: View,
    pub reads: Vec<ExprId>,
}

/// A map whose output and reads lie over the same dims.
pub struct Permutation {
    /// In the order of the output.
    pub dims: Vec<Dim>,
    pub output: View,
    /// What is evaluated for every element, its variables in another order.
    pub permuted: Vec<Element>,
    /// What else is evaluated for every element, its variables in the same order.
    pub alike: Vec<Element>,
    /// The dims whose variables the value mentions one by one.
    apart: Vec<bool>,
}

type Axes = Vec<Axis<VariableId>>;

/// The axes of an array, if each is a variable plus what the call knows, or what the call knows alone.
fn axes(kernel: &Kernel, facts: &Facts, array: ArrayId, subscripts: &[Subscript]) -> Option<Axes> {
    let mut all: Axes = Vec::new();
    for (subscript, extent) in subscripts.iter().zip(&kernel.arrays[array].shape) {
        let index = size::linear(kernel, facts, subscript.index).filter(|_| is_settled(subscript))?;
        let along = match index.terms.as_slice() {
            [] => None,
            [(variable, Formula::Constant(1))] => Some(*variable),
            _ => return None,
        };
        if along.is_some() && all.iter().any(|axis| axis.along == along) {
            return None;
        }
        all.push(Axis { along, offset: index.constant, extent: size::formula(kernel, facts, *extent)? });
    }
    Some(all)
}

/// Whether a variable follows another wherever either of them stands, over the whole of an axis.
fn follows(axes: &Axes, slow: VariableId, fast: VariableId, extent: &Formula) -> bool {
    let place = |variable| axes.iter().position(|axis| axis.along == Some(variable));
    match (place(slow), place(fast)) {
        (None, None) => true,
        (Some(slow), Some(fast)) => fast == slow + 1 && axes[fast].extent == *extent && axes[fast].offset == Formula::Constant(0),
        _ => false,
    }
}

impl View {
    /// The axes over dims, if they run along all variables of each.
    fn of(axes: &Axes, dims: &[Dim]) -> Option<View> {
        let (mut view, mut rest) = (Vec::new(), axes.as_slice());
        while let [first, after @ ..] = rest {
            rest = after;
            let Some(variable) = first.along else {
                view.push(Axis { along: None, offset: first.offset.clone(), extent: first.extent.clone() });
                continue;
            };
            let number = dims.iter().position(|dim| dim.variables.first().is_some_and(|range| range.variable == variable))?;
            let mut axis = Axis { along: Some(number), offset: first.offset.clone(), extent: first.extent.clone() };
            let mut slower = first;
            for range in &dims[number].variables[1..] {
                let (next, after) = rest.split_first()?;
                let ahead = [slower.clone(), next.clone()].to_vec();
                if !follows(&ahead, slower.along?, range.variable, &next.extent) {
                    return None;
                }
                axis.offset = axis.offset.times(next.extent.clone());
                axis.extent = axis.extent.times(next.extent.clone());
                (slower, rest) = (next, after);
            }
            view.push(axis);
        }
        Some(View(view))
    }

    /// The dims, fastest first.
    pub fn order(&self) -> Vec<usize> {
        self.0.iter().rev().filter_map(|axis| axis.along).collect()
    }

    /// How far apart neighbours along an axis lie.
    pub fn step(&self, axis: usize) -> Formula {
        self.0[axis + 1..].iter().fold(Formula::Constant(1), |step, axis| step.times(axis.extent.clone()))
    }

    /// Whether rows begin at multiples of `lanes`: the steps of all axes but the `fast` last ones are, and so is where it begins.
    pub fn begins_at_multiples(&self, facts: &Facts, fast: usize, lanes: i64) -> bool {
        let slow = self.0.len() - fast;
        self.0.iter().enumerate().all(|(number, axis)| {
            let step = self.step(number);
            (number >= slow || axis.along.is_none() || facts.multiple(&step, lanes))
                && facts.multiple(&step.times(axis.offset.clone()), lanes)
        })
    }

    /// The row-major offset at these places along the dims.
    pub fn offset(&self, lowering: &mut Lowering, array: ArrayId, at: &[Expr]) -> Expr {
        let stem = lowering.kernel.arrays[array].name.replace('.', "_");
        let mut offset: Option<Expr> = None;
        for (number, axis) in self.0.iter().enumerate() {
            let place = axis.along.map_or(int(0), |dim| at[dim].clone());
            let index = place + lowering.size(&axis.offset, "offset");
            offset = Some(match offset {
                None => index,
                Some(before) => before * lowering.size(&axis.extent, &format!("{stem}_extent{number}")) + index,
            });
        }
        offset.unwrap_or(int(0))
    }
}

impl Permutation {
    /// The statement as a permutation: `None` if a read follows rules, which is left to stencils.
    pub fn of(kernel: &Kernel, facts: &Facts, statement: &Statement) -> Option<Permutation> {
        if walk::reads(kernel, statement.value).into_iter().any(|read| is_ruled(kernel, read)) {
            return None;
        }
        let found = axes(kernel, facts, statement.array, &statement.subscripts)?;
        let rank = |axis: &Axis<VariableId>| statement.variables.iter().position(|range| Some(range.variable) == axis.along);
        let (mut permuted, mut alike) = (Vec::<(ExprId, Axes)>::new(), Vec::<(ExprId, Axes)>::new());
        for read in walk::sure_reads(kernel, statement.value) {
            let ExprKind::Read { array, subscripts } = &kernel.exprs[read].kind else { continue };
            let Some(axes) = axes(kernel, facts, *array, subscripts) else { continue };
            let order: Vec<usize> = axes.iter().filter_map(rank).collect();
            if order.is_sorted() { alike.push((read, axes)) } else { permuted.push((read, axes)) }
        }
        let mut dims: Vec<Dim> = Vec::new();
        for range in &statement.variables {
            let extent = size::extent(kernel, facts, range)?;
            let joins = |dim: &Dim| {
                let Some(slow) = dim.variables.last() else { return false };
                let together = |axes: &Axes| follows(axes, slow.variable, range.variable, &extent);
                together(&found) && permuted.iter().all(|(_, axes)| together(axes))
            };
            match dims.last_mut().filter(|dim| joins(dim)) {
                Some(dim) => {
                    dim.variables.push(*range);
                    dim.extent = dim.extent.clone().times(extent);
                }
                None => dims.push(Dim { variables: vec![*range], extent }),
            }
        }
        let elements = |reads: Vec<(ExprId, Axes)>| elements(kernel, &dims, reads);
        let (permuted, alike, output) = (elements(permuted), elements(alike), View::of(&found, &dims)?);
        // A `let` may be computed where it is read, from its variables.
        let stored = |element: &&Element| kernel.arrays[element.array].role != Role::Let;
        let known: Vec<ExprId> = permuted.iter().chain(&alike).filter(stored).flat_map(|element| element.reads.clone()).collect();
        let apart = dims.iter().map(|dim| mentions_beside(kernel, statement.value, &known, &dim.variables)).collect();
        Some(Permutation { dims, output, permuted, alike, apart })
    }

    /// What dims are called.
    pub fn name(&self, kernel: &Kernel, dims: &[usize]) -> String {
        let variables = dims.iter().flat_map(|dim| &self.dims[*dim].variables);
        variables.map(|range| kernel.variables[range.variable].name.clone()).collect::<Vec<_>>().join("_")
    }

    /// The product of extents.
    pub fn extent(&self, dims: &[usize]) -> Formula {
        dims.iter().fold(Formula::Constant(1), |product, dim| product.times(self.dims[*dim].extent.clone()))
    }

    /// Binds the variables to a place, as far as the value mentions them.
    pub fn bind_variables(&self, lowering: &mut Lowering, at: &[Expr]) -> Result<(), Error> {
        for ((dim, place), apart) in self.dims.iter().zip(at).zip(&self.apart) {
            match dim.variables.as_slice() {
                [range] => drop(lowering.variables.insert(range.variable, place.clone())),
                variables if *apart => lowering.decode(variables, place.clone())?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The same, and the reads in the output's order.
    pub fn bind(&self, lowering: &mut Lowering, at: &[Expr]) -> Result<(), Error> {
        self.bind_variables(lowering, at)?;
        for element in &self.alike {
            if is_stored(lowering, element.array) {
                let value = element.at(lowering, at)?;
                lowering.computed.extend(element.reads.iter().map(|read| (*read, value.clone())));
            }
        }
        Ok(())
    }
}

/// Reads by what they read: several of the same element are one.
fn elements(kernel: &Kernel, dims: &[Dim], reads: Vec<(ExprId, Axes)>) -> Vec<Element> {
    let mut found: Vec<Element> = Vec::new();
    for (read, axes) in reads {
        let ExprKind::Read { array, .. } = kernel.exprs[read].kind else { continue };
        let Some(view) = View::of(&axes, dims) else { continue };
        match found.iter_mut().find(|element| element.array == array && element.view == view) {
            Some(element) => element.reads.push(read),
            None => found.push(Element { array, ty: kernel.exprs[read].ty, view, reads: vec![read] }),
        }
    }
    found
}

impl Element {
    /// The element there; the variables are bound.
    pub fn at(&self, lowering: &mut Lowering, at: &[Expr]) -> Result<Expr, Error> {
        if is_stored(lowering, self.array) {
            let offset = self.view.offset(lowering, self.array, at);
            return Ok(lowering.pointer(self.array).at(offset));
        }
        lowering.value(self.reads[0])
    }
}

/// Whether an array lies in memory, rather than being computed where it is read.
pub fn is_stored(lowering: &Lowering, array: ArrayId) -> bool {
    matches!(lowering.places.of(array), Place::Memory | Place::Scratch(_))
}

fn is_ruled(kernel: &Kernel, read: ExprId) -> bool {
    let ExprKind::Read { subscripts, .. } = &kernel.exprs[read].kind else { return false };
    subscripts.iter().any(|subscript| !matches!(subscript.bounds, Bounds::Proved))
}

/// Whether a value mentions variables elsewhere than in reads that are known.
fn mentions_beside(kernel: &Kernel, value: ExprId, known: &[ExprId], variables: &[Ranged]) -> bool {
    let mut found = false;
    walk::walk(kernel, value, &mut |id| {
        found |= matches!(kernel.exprs[id].kind, ExprKind::Variable(variable) if variables.iter().any(|v| v.variable == variable));
        !found && !known.contains(&id)
    });
    found
}

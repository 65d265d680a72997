//! Whether the definitions of an array define every element exactly once.
//!
//! On each axis a left side runs through an arithmetic progression. Axis by axis, in any order, the statements that run
//! through the same progression form a class, and the classes must divide the axis: one that fills it, segments that follow
//! one another, or one per residue of a common literal stride. What that does not decide is tried on small extents, for the
//! message.

use super::bounds;
use super::walk;
use crate::diagnostic::{Diagnostic, codes};
use crate::program::*;
use crate::prover::{self, Progression};
use std::collections::HashMap;

/// Nothing if the statements define each element once; else what is wrong.
pub(crate) fn check(kernel: &Kernel, array: ArrayId, statements: &[usize]) -> Option<Diagnostic> {
    let defines: Vec<&Statement> =
        statements.iter().map(|&index| &kernel.statements[index]).filter(|s| s.kind == StatementKind::Define).collect();
    if defines.is_empty() {
        return None; // accumulated from the identity
    }
    let rank = kernel.arrays[array].rank();
    if rank == 0 {
        return defines.get(1).map(|second| twice(kernel, array, defines[0], second, None));
    }
    let mut solver = prover::solver(kernel, &[]);
    let progressions = defines.iter().map(|statement| {
        let subscripts = statement.subscripts.iter();
        subscripts.map(|subscript| prover::progression(&mut solver, &statement.variables, subscript.index)).collect()
    });
    let proved = progressions
        .collect::<Option<Vec<Vec<Progression>>>>()
        .filter(|_| defines.iter().all(|statement| axes_are_independent(kernel, statement)))
        .is_some_and(|progressions| {
            let all: Vec<usize> = (0..defines.len()).collect();
            let axes: Vec<usize> = (0..rank).collect();
            divides(&mut solver, &kernel.arrays[array].shape, &progressions, &all, &axes)
        });
    if proved { None } else { Some(problem(kernel, array, &defines)) }
}

/// Whether no variable stands on two axes, and every variable stands on one.
fn axes_are_independent(kernel: &Kernel, statement: &Statement) -> bool {
    statement.variables.iter().all(|ranged| {
        statement.subscripts.iter().filter(|subscript| walk::mentions(kernel, subscript.index, ranged.variable)).count() == 1
    })
}

/// Whether statements divide the elements along some axes.
fn divides(
    solver: &mut prover::Solver,
    shape: &[ExprId],
    progressions: &[Vec<Progression>],
    statements: &[usize],
    axes: &[usize],
) -> bool {
    if axes.is_empty() {
        return statements.len() == 1;
    }
    // Whichever axis the statements divide is as good as any other to begin with.
    axes.iter().find_map(|&axis| {
        let mut classes: Vec<(&Progression, Vec<usize>)> = Vec::new();
        for &statement in statements {
            let own = &progressions[statement][axis];
            match classes.iter_mut().find(|(progression, _)| *progression == own) {
                Some((_, members)) => members.push(statement),
                None => classes.push((own, vec![statement])),
            }
        }
        let parts: Vec<&Progression> = classes.iter().map(|(progression, _)| *progression).collect();
        let others: Vec<usize> = axes.iter().copied().filter(|&other| other != axis).collect();
        let divided = prover::partition(solver, &parts, shape[axis]);
        divided.then(|| classes.iter().all(|(_, members)| divides(solver, shape, progressions, members, &others)))
    }) == Some(true)
}

fn twice(kernel: &Kernel, array: ArrayId, first: &Statement, second: &Statement, element: Option<(&[i128], String)>) -> Diagnostic {
    let name = &kernel.arrays[array].name;
    let message = match element {
        None => format!("`{name}` is defined twice"),
        Some((index, when)) => format!("`{}` is defined twice{when}", shown(name, index)),
    };
    let problem = Diagnostic::error(codes::DEFINED_TWICE, second.span, message, "again");
    let problem = if first.span == second.span { problem } else { problem.label(first.span, "first here") };
    problem.help("every element is defined exactly once; accumulations are written `+=`, `max=` and so on")
}

fn shown(name: &str, index: &[i128]) -> String {
    let index: Vec<String> = index.iter().map(i128::to_string).collect();
    if index.is_empty() { name.to_string() } else { format!("{name}[{}]", index.join(", ")) }
}

/// What is wrong.
fn problem(kernel: &Kernel, array: ArrayId, defines: &[&Statement]) -> Diagnostic {
    by_example(kernel, array, defines).unwrap_or_else(|| undecided(kernel, &kernel.arrays[array].name, defines))
}

/// What is wrong, by trying small extents.
pub(crate) fn by_example(kernel: &Kernel, array: ArrayId, defines: &[&Statement]) -> Option<Diagnostic> {
    let name = &kernel.arrays[array].name;
    Some(match try_small(kernel, array, defines)? {
        Found::Twice { first, second, index, when } => twice(kernel, array, defines[first], defines[second], Some((&index, when))),
        Found::Missing { index, when } => {
            let message = format!("nothing defines `{}`{when}", shown(name, &index));
            let last = defines.last().map_or(kernel.span, |statement| statement.span);
            let mut problem = Diagnostic::error(codes::NOT_COVERED, last, message, "does not define all elements");
            for statement in defines.iter().rev().skip(1) {
                problem = problem.label(statement.span, "nor does this");
            }
            problem.help(format!("together, the statements must define every element of `{name}`"))
        }
        Found::Outside { statement, axis, index, when } => {
            let statement = defines[statement];
            let span = statement.subscripts.get(axis).map_or(statement.span, |subscript| kernel.exprs[subscript.index].span);
            let message = format!("this defines `{}`{when}, which is no element", shown(name, &index));
            Diagnostic::error(codes::OUT_OF_RANGE, span, message, "outside of the array").help("rule it out with `where`")
        }
    })
}

/// Neither proved nor refuted: a subscript is not affine, or the parts do not fit together in a way that is understood.
fn undecided(kernel: &Kernel, name: &str, defines: &[&Statement]) -> Diagnostic {
    if let Some(span) = not_affine(kernel, defines) {
        let message = format!("which elements of `{name}` this defines is not decided: it is not affine");
        let problem = Diagnostic::error(codes::NOT_AFFINE, span, message, "not affine");
        return problem.help("a left side holds index variables, literals and sums of multiples of them; reads may hold anything");
    }
    let last = defines.last().map_or(kernel.span, |statement| statement.span);
    let message = format!("it can't be told whether every element of `{name}` is defined exactly once");
    Diagnostic::error(codes::NOT_COVERED, last, message, "not decided").help(
        "understood are whole axes, segments that follow one another, and residues of a literal stride, such as \
         `y[2 * i]` and `y[2 * i + 1]`",
    )
}

/// A subscript that is no sum of multiples of variables.
fn not_affine(kernel: &Kernel, defines: &[&Statement]) -> Option<crate::source::Span> {
    let mut solver = prover::solver(kernel, &[]);
    let mut subscripts = defines.iter().flat_map(|statement| statement.subscripts.iter().map(move |subscript| (statement, subscript)));
    let (_, subscript) = subscripts.find(|(statement, subscript)| {
        statement.variables.iter().any(|ranged| walk::mentions(kernel, subscript.index, ranged.variable))
            && prover::progression(&mut solver, &statement.variables, subscript.index).is_none()
    })?;
    Some(kernel.exprs[subscript.index].span)
}

enum Found {
    Twice { first: usize, second: usize, index: Vec<i128>, when: String },
    Missing { index: Vec<i128>, when: String },
    Outside { statement: usize, axis: usize, index: Vec<i128>, when: String },
}

fn try_small(kernel: &Kernel, array: ArrayId, defines: &[&Statement]) -> Option<Found> {
    let shape = kernel.arrays[array].shape.clone();
    let mut roots = shape.clone();
    for statement in defines {
        roots.extend(statement.subscripts.iter().map(|subscript| subscript.index));
        roots.extend(statement.variables.iter().flat_map(|ranged| [ranged.lo, ranged.hi]));
    }
    // What goes wrong in an array that has elements says more.
    let (mut found, mut found_empty) = (None, None);
    prover::try_dims(kernel, &roots, 4, &mut |trial| {
        let empty = shape.iter().any(|&extent| trial.value(extent) == Some(0));
        let case = one_case(kernel, &shape, defines, trial);
        if empty {
            found_empty = found_empty.take().or(case);
        } else {
            found = case;
        }
        found.is_some()
    });
    found.or(found_empty)
}

fn one_case(kernel: &Kernel, shape: &[ExprId], defines: &[&Statement], trial: &mut prover::Trial) -> Option<Found> {
    let extents = shape.iter().map(|&extent| trial.value(extent)).collect::<Option<Vec<i128>>>()?;
    if extents.iter().any(|&extent| extent < 0) || extents.iter().product::<i128>() > 4096 {
        return None;
    }
    let mut owner: HashMap<Vec<i128>, usize> = HashMap::new();
    let when = |trial: &prover::Trial, variables: Vec<(VariableId, i128)>| {
        bounds::when(
            kernel,
            &prover::Counterexample { value: 0, extent: 0, dims: trial.dims.clone(), scalars: trial.scalars.clone(), variables },
        )
    };
    for (at, statement) in defines.iter().enumerate() {
        let mut points = Vec::new();
        prover::each_point(trial, &statement.variables, &mut |trial| {
            let index: Option<Vec<i128>> = statement.subscripts.iter().map(|subscript| trial.value(subscript.index)).collect();
            let values =
                statement.variables.iter().filter_map(|ranged| Some((ranged.variable, *trial.variables.get(&ranged.variable)?)));
            if let Some(index) = index {
                points.push((index, values.collect::<Vec<_>>()));
            }
            points.len() <= 4096
        });
        for (index, values) in points {
            if let Some(axis) = index.iter().zip(&extents).position(|(&index, &extent)| index < 0 || index >= extent) {
                return Some(Found::Outside { statement: at, axis, index, when: when(trial, values) });
            }
            if let Some(&first) = owner.get(&index) {
                return Some(Found::Twice { first, second: at, index, when: when(trial, Vec::new()) });
            }
            owner.insert(index, at);
        }
    }
    let total = extents.iter().product::<i128>();
    if owner.len() as i128 == total {
        return None;
    }
    let mut index = vec![0; extents.len()];
    loop {
        if !owner.contains_key(&index) {
            return Some(Found::Missing { index, when: when(trial, Vec::new()) });
        }
        let mut axis = extents.len();
        loop {
            if axis == 0 {
                return None;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < extents[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

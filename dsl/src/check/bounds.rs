//! Subscripts: proved in range, refuted, or checked at the call or where they are evaluated.

use super::walk;
use crate::diagnostic::{Diagnostic, codes};
use crate::program::*;
use crate::prover::{self, Counterexample, Scope, Slope};
use crate::source::{Source, Span};
use crate::types::BinaryOp;

/// A subscript that dims, scalars and unguarded index variables decide, so that the call can check it.
#[derive(Clone, Debug)]
pub(crate) struct AtCall {
    pub(crate) array: ArrayId,
    pub(crate) axis: usize,
    pub(crate) index: ExprId,
    pub(crate) extent: ExprId,
    pub(crate) span: Span,
    pub(crate) ranges: Vec<Ranged>,
    /// How the index changes with each variable.
    pub(crate) slopes: Vec<Slope>,
}

/// At most so many variables may have a slope that is not known: each doubles the corners to be checked.
const MOST_EITHER: usize = 3;

/// A subscript that may leave its array, and where it stands.
struct Site {
    /// The read that it belongs to, or the statement's left side.
    read: Option<ExprId>,
    array: ArrayId,
    axis: usize,
    index: ExprId,
    scope: Vec<Scope>,
    /// Whether a boundary rule leads back into the array, if it has elements.
    rule: bool,
}

/// Decides the subscripts of a statement. Gives what is to be checked at the call.
pub(crate) fn check(kernel: &mut Kernel, source: &Source, statement: usize, problems: &mut Vec<Diagnostic>) -> Vec<AtCall> {
    let mut asked: Vec<AtCall> = Vec::new();
    let mut decided: Vec<(Option<ExprId>, usize, Bounds)> = Vec::new();
    for site in sites(kernel, statement) {
        let extent = kernel.arrays[site.array].shape[site.axis];
        if site.rule {
            problems.extend(empty(kernel, source, &site, extent));
            continue;
        }
        let bounds = decide(kernel, source, &site, extent, &mut asked, problems);
        decided.push((site.read, site.axis, bounds));
    }
    for (read, axis, bounds) in decided {
        let subscripts = match read {
            None => &mut kernel.statements[statement].subscripts,
            Some(id) => match &mut kernel.exprs[id].kind {
                ExprKind::Read { subscripts, .. } => subscripts,
                _ => continue,
            },
        };
        if let Some(subscript) = subscripts.get_mut(axis) {
            subscript.bounds = bounds;
        }
    }
    asked
}

/// A boundary rule has nothing to lead to where an array has no elements at any call.
fn empty(kernel: &Kernel, source: &Source, site: &Site, extent: ExprId) -> Option<Diagnostic> {
    if !prover::always_empty(kernel, extent) {
        return None;
    }
    let found = prover::counterexample(kernel, &site.scope, site.index, Some(extent))?;
    let name = &kernel.arrays[site.array].name;
    let span = kernel.exprs[site.index].span;
    let when = when(kernel, &telling(kernel, site, &found));
    let message = format!("`{name}[{}]` reads the empty array `{name}`{when}", source.slice(span));
    let extent = print::expr(kernel, extent);
    let label = format!("no element in an extent of {extent}");
    Some(Diagnostic::error(codes::OUT_OF_RANGE, span, message, label).help("a boundary rule leads to an element of the array"))
}

fn decide(
    kernel: &Kernel,
    source: &Source,
    site: &Site,
    extent: ExprId,
    asked: &mut Vec<AtCall>,
    problems: &mut Vec<Diagnostic>,
) -> Bounds {
    if prover::in_range(kernel, &site.scope, site.index, extent) {
        return Bounds::Proved;
    }
    let data = |root: ExprId| {
        walk::any(kernel, root, |kind| matches!(kind, ExprKind::Read { .. } | ExprKind::Reduce(_) | ExprKind::Call(..)))
    };
    let on_data = data(site.index)
        || site.scope.iter().any(|entry| match entry {
            Scope::Range(ranged) => (data(ranged.lo) || data(ranged.hi)) && walk::mentions(kernel, site.index, ranged.variable),
            Scope::Guard(condition, _) => data(*condition),
        });
    if data(site.index) {
        return Bounds::Checked;
    }
    if let Some(found) = prover::counterexample(kernel, &site.scope, site.index, Some(extent)) {
        report(problems, refuted(kernel, source, site, &found));
        return Bounds::Checked;
    }
    if on_data {
        return Bounds::Checked;
    }
    if let Some(at_call) = at_call(kernel, site, extent) {
        let same = |other: &AtCall| {
            other.array == at_call.array && other.axis == at_call.axis && source.slice(other.span) == source.slice(at_call.span)
        };
        if !asked.iter().any(|other| same(other) && other.ranges == at_call.ranges) {
            asked.push(at_call);
        }
        return Bounds::Proved;
    }
    let name = &kernel.arrays[site.array].name;
    let span = kernel.exprs[site.index].span;
    let text = source.slice(span);
    let message = format!("it is not proved that `{text}` stays inside of `{name}`");
    problems.push(
        Diagnostic::warning(codes::UNDECIDED, span, message, "checked when the kernel runs")
            .help("a `where` condition or an `if` may prove it; a boundary rule settles it; `| assume` takes the check out"),
    );
    Bounds::Checked
}

/// Reports a subscript; one that has been reported in the same words only adds its place, and its edit.
fn report(problems: &mut Vec<Diagnostic>, problem: Diagnostic) {
    let same = problems.iter_mut().find(|other| other.code == problem.code && other.message == problem.message);
    let Some(first) = same else { return problems.push(problem) };
    first.labels.push(crate::diagnostic::Label { span: problem.span(), text: "here too".into() });
    for (suggestion, more) in first.suggestions.iter_mut().zip(problem.suggestions) {
        suggestion.edits.extend(more.edits);
        suggestion.edits.sort();
    }
}

/// Whether the call can check a subscript exactly: linear in each of some variables that range over a box, no guards. Then
/// it is least and greatest at corners of the box.
fn at_call(kernel: &Kernel, site: &Site, extent: ExprId) -> Option<AtCall> {
    let mut ranges = Vec::new();
    for entry in &site.scope {
        let Scope::Range(ranged) = entry else { return None };
        if !walk::at_call(kernel, ranged.lo) || !walk::at_call(kernel, ranged.hi) {
            return None;
        }
        ranges.push(*ranged);
    }
    if walk::any(kernel, site.index, |kind| matches!(kind, ExprKind::Read { .. } | ExprKind::Reduce(_) | ExprKind::Call(..))) {
        return None;
    }
    let slope = |ranged: &Ranged| prover::slope(kernel, &site.scope, site.index, ranged.variable);
    let slopes = ranges.iter().map(slope).collect::<Option<Vec<_>>>()?;
    let either = slopes.iter().filter(|&&slope| slope == Slope::Either).count();
    let span = kernel.exprs[site.index].span;
    (either <= MOST_EITHER).then_some(AtCall { array: site.array, axis: site.axis, index: site.index, extent, span, ranges, slopes })
}

/// Collects the subscripts that are to be decided.
fn sites(kernel: &Kernel, statement: usize) -> Vec<Site> {
    let Statement { array, variables, subscripts, value, kind, .. } = &kernel.statements[statement];
    let scope: Vec<Scope> = variables.iter().map(|ranged| Scope::Range(*ranged)).collect();
    let mut sites = Vec::new();
    let mut work: Vec<(ExprId, Vec<Scope>)> = Vec::new();
    for (axis, subscript) in subscripts.iter().enumerate() {
        if *kind != StatementKind::Define {
            if subscript.bounds == Bounds::Checked {
                sites.push(Site { read: None, array: *array, axis, index: subscript.index, scope: scope.clone(), rule: false });
            }
            work.push((subscript.index, scope.clone()));
        }
    }
    work.push((*value, scope));
    while let Some((id, scope)) = work.pop() {
        match &kernel.exprs[id].kind {
            ExprKind::Read { array, subscripts } => {
                for (axis, subscript) in subscripts.iter().enumerate() {
                    let rule = matches!(subscript.bounds, Bounds::Clamp | Bounds::Wrap | Bounds::Mirror | Bounds::Symmetric);
                    if rule || subscript.bounds == Bounds::Checked {
                        sites.push(Site { read: Some(id), array: *array, axis, index: subscript.index, scope: scope.clone(), rule });
                    }
                    work.push((subscript.index, scope.clone()));
                }
            }
            ExprKind::Reduce(reduce) => {
                let mut inner = scope.clone();
                for ranged in &reduce.variables {
                    work.extend([(ranged.lo, scope.clone()), (ranged.hi, scope.clone())]);
                    inner.push(Scope::Range(*ranged));
                }
                if let Some(filter) = reduce.filter {
                    work.push((filter, inner.clone()));
                    inner.push(Scope::Guard(filter, true));
                }
                work.push((reduce.body, inner));
            }
            ExprKind::If { condition, then, otherwise } => {
                let with = |holds: bool| scope.iter().copied().chain([Scope::Guard(*condition, holds)]).collect();
                work.extend([(*then, with(true)), (*otherwise, with(false)), (*condition, scope.clone())]);
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let guarded = scope.iter().copied().chain([Scope::Guard(*a, *op == BinaryOp::And)]).collect();
                work.extend([(*a, scope), (*b, guarded)]);
            }
            kind => {
                let mut children = Vec::new();
                walk::children(kind, &mut children);
                work.extend(children.into_iter().map(|child| (child, scope.clone())));
            }
        }
    }
    sites.sort_by_key(|site| kernel.exprs[site.index].span);
    sites
}

/// ` when m = 3, n = 4`; nothing where it is always so.
pub(crate) fn when(kernel: &Kernel, found: &Counterexample) -> String {
    let dims = found.dims.iter().map(|(dim, value)| format!("{} = {value}", kernel.dims[*dim].name));
    let variables = found.variables.iter().map(|(variable, value)| format!("{} = {value}", kernel.variables[*variable].name));
    let scalars = found.scalars.iter().map(|(scalar, value)| format!("{} = {value}", kernel.scalars[*scalar].name));
    let all: Vec<String> = dims.chain(scalars).chain(variables).collect();
    if all.is_empty() { String::new() } else { format!(" when {}", all.join(", ")) }
}

/// What of a counterexample says something: below 0 the extents do not matter, and only variables count that the subscript
/// or a guard mentions.
fn telling(kernel: &Kernel, site: &Site, found: &Counterexample) -> Counterexample {
    let mut shown = found.clone();
    let guards = || site.scope.iter().filter_map(|entry| if let Scope::Guard(condition, _) = entry { Some(*condition) } else { None });
    if found.value < 0 {
        let mentions = |dim: DimId| {
            let mut roots = guards().chain([site.index]);
            roots.any(|root| walk::any(kernel, root, |kind| *kind == ExprKind::Dim(dim)))
        };
        shown.dims.retain(|dim, _| mentions(*dim));
        shown.scalars.clear();
    }
    let in_index = |variable: VariableId| walk::mentions(kernel, site.index, variable);
    let in_guard = |variable: VariableId| guards().any(|root| walk::mentions(kernel, root, variable));
    match shown.variables.iter().any(|(variable, _)| in_index(*variable)) {
        true => shown.variables.retain(|(variable, _)| in_index(*variable)),
        false => shown.variables.retain(|(variable, _)| in_guard(*variable)),
    }
    shown
}

fn refuted(kernel: &Kernel, source: &Source, site: &Site, found: &Counterexample) -> Diagnostic {
    let array = &kernel.arrays[site.array];
    let span = kernel.exprs[site.index].span;
    let index = source.slice(span);
    let element = |value: &str| {
        let all: Vec<&str> = (0..array.rank()).map(|axis| if axis == site.axis { value } else { "…" }).collect();
        format!("{}[{}]", array.name, all.join(", "))
    };
    let does = if site.read.is_some() { "reads" } else { "accumulates into" };
    let when = when(kernel, &telling(kernel, site, found));
    let message = format!("`{}` {does} {}{when}", element(index), element(&found.value.to_string()));
    let label = if found.value < 0 { "may be negative".to_string() } else { format!("beyond the extent, {}", found.extent) };
    if found.extent == 0 {
        let extent = print::expr(kernel, array.shape[site.axis]);
        let help = format!("there is nothing to read; rule it out with `where {extent} >= 1`");
        return Diagnostic::error(codes::OUT_OF_RANGE, span, message, "the array is empty").help(help);
    }
    let problem = Diagnostic::error(codes::OUT_OF_RANGE, span, message, label);
    if let (ExprKind::Literal(Literal::Int(back @ ..=-1)), true) = (&kernel.exprs[site.index].kind, site.read.is_some()) {
        let extent = print::expr(kernel, array.shape[site.axis]);
        return problem.suggest("negative indices do not count from the end", span, format!("{extent} - {}", -back));
    }
    let end = Span { start: span.end, end: span.end };
    if site.read.is_none() {
        let problem = problem.help("or rule it out with `where`");
        return problem.suggest("leave out what falls outside", end, " | drop");
    }
    problem
        .help("say what to read there with a boundary rule (clamp, wrap, mirror, symmetric or a value), or rule it out by `if` or `where`")
        .suggest("for example", end, " | clamp")
}

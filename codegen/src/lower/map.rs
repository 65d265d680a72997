//! A thread per element, or per few neighbouring elements: element-wise programs, gathers, and everything without a schedule
//! of its own, whose reductions each thread computes serially.
//!
//! *Wide*: where results lie one after another as the left side counts, by 16-byte accesses, see `wide`.
//! *By rows*: where they do within rows only, see `broadcast`; where data chooses the rows, see `gather`.
//! *Stencil*: where an array is read around the element, see `stencil`.
//! *Tiled*: over two and more dimensions, see `tiled`.
//! *Strided*: otherwise a grid-stride loop numbers the points of the left side, the fastest variable along neighbouring threads.
//!
//! Several results over the same space, see `group/together`, are computed element by element of each: what one reads of another is
//! still in a register.

use std::collections::BTreeSet;

use gpukc_dsl::program::{ArrayId, ExprId, ExprKind, Kernel, Ranged, Statement, Subscript};
use gpukc_dsl::types::Type;

use super::broadcast::Broadcast;
use super::context::Lowering;
use super::group::Group;
use super::place::Place;
use super::wide::Wide;
use crate::error::Error;
use crate::plan::{Expr, Node, Unroll, int, name};
use crate::walk;

/// Threads of a block.
const THREADS: i64 = 256;
/// Fewer points than this are spread over as many threads as there are: nothing but latency counts.
const FEW_POINTS: i64 = 1 << 16;
/// Most variables whose values are told apart in a thread.
const MOST_MINORS: usize = 2;
/// Most blocks of a grid-stride launch: more only cost scheduling.
const MOST_BLOCKS: i64 = 1 << 16;

/// Results over the same variables that one launch computes, an element of each at a time.
#[derive(Clone, Copy)]
pub struct Results<'s>(&'s [Statement]);

impl<'s> Results<'s> {
    /// One alone.
    pub fn of(statement: &'s Statement) -> Results<'s> {
        Results(std::slice::from_ref(statement))
    }

    pub fn statements(self) -> &'s [Statement] {
        self.0
    }

    /// The first, whose hints are those of all.
    pub fn first(self) -> &'s Statement {
        &self.0[0]
    }

    pub fn variables(self) -> &'s [Ranged] {
        &self.first().variables
    }

    pub fn values(self) -> impl DoubleEndedIterator<Item = ExprId> {
        self.0.iter().map(|statement| statement.value)
    }

    pub fn arrays(self) -> impl DoubleEndedIterator<Item = ArrayId> {
        self.0.iter().map(|statement| statement.array)
    }

    pub fn has_reduction(self, kernel: &Kernel) -> bool {
        self.values().any(|value| walk::has_reduction(kernel, value))
    }

    /// About how many instructions an element of each takes.
    pub fn cost(self, kernel: &Kernel) -> u32 {
        self.values().fold(0, |sum, value| sum.saturating_add(walk::cost(kernel, value)))
    }
}

/// How the elements of a map are shared out, where none is read around another and no row chosen by data.
enum Form {
    Wide(Wide),
    Rows(Broadcast),
    Tiled,
    Strided,
}

impl Form {
    /// Neighbours together, if they can be, by the form that tells fewest of them apart; where those read elements one by one, by one
    /// that moves all as packs.
    fn of(lowering: &Lowering, results: Results) -> Form {
        let mut first = None;
        for minors in 0..results.variables().len().clamp(1, MOST_MINORS + 1) {
            let wide = super::wide::wide(lowering, results, minors).map(|wide| (wide.layout.apart, Form::Wide(wide)));
            let rows = || super::broadcast::broadcast(lowering, results, minors).map(|rows| (rows.layout.apart, Form::Rows(rows)));
            match wide.or_else(rows) {
                Some((0, form)) => return form,
                Some((_, form)) => first = first.or(Some(form)),
                None => {}
            }
        }
        let by_elements = || if super::tiled::applies(lowering, results) { Form::Tiled } else { Form::Strided };
        let counted = || super::wide::counted(lowering, results).map(Form::Wide);
        first.or_else(counted).unwrap_or_else(by_elements)
    }

    fn moves_packs(&self) -> bool {
        matches!(self, Form::Wide(_) | Form::Rows(_))
    }
}

/// Lowers maps: those of a group together, as far as each keeps the form that serves it best.
pub fn lower(lowering: &mut Lowering, group: &Group) -> Result<(), Error> {
    let inlined = |number: &&usize| matches!(lowering.places.of(lowering.kernel.statements[**number].array), Place::Inline(_));
    let numbers = group.statements.iter().filter(|number| !inlined(number));
    let statements: Vec<Statement> = numbers.map(|number| lowering.kernel.statements[*number].clone()).collect();
    let mut rest = statements.as_slice();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(together(lowering, rest)?);
        lower_together(lowering, Results(now))?;
        rest = later;
    }
    Ok(())
}

/// How many of some maps, from the first on, share a launch: stencils and gathers have one of their own, and none moves by elements for
/// the others' sake where it could by packs.
fn together(lowering: &mut Lowering, maps: &[Statement]) -> Result<usize, Error> {
    let mut alone = Vec::new();
    for map in maps {
        begin(lowering, Results::of(map));
        let is_stencil = maps.len() > 1 && super::stencil::stencil(lowering, map)?.is_some();
        alone.push(is_stencil || super::gather::gather(lowering, map).is_some());
    }
    let packs = |maps: &[Statement]| Form::of(lowering, Results(maps)).moves_packs();
    let fits = |count: &usize| {
        let (before, next) = (&maps[..*count], &maps[*count..=*count]);
        let same_space = next[0].variables == maps[0].variables && !alone[0] && !alone[*count];
        same_space && (packs(&maps[..=*count]) || !packs(before) && !packs(next))
    };
    Ok((1..maps.len()).take_while(fits).count() + 1)
}

fn begin(lowering: &mut Lowering, results: Results) {
    lowering.begin_launch(&results.arrays().collect::<Vec<_>>());
    lowering.computes_over(results.variables());
}

fn lower_together(lowering: &mut Lowering, results: Results) -> Result<(), Error> {
    begin(lowering, results);
    if let [statement] = results.statements() {
        if let Some(stencil) = super::stencil::stencil(lowering, statement)? {
            return super::stencil::lower(lowering, statement, &stencil);
        }
    }
    if is_small(lowering, results) {
        return lower_strided(lowering, results);
    }
    if let [statement] = results.statements() {
        if let Some(gather) = super::gather::gather(lowering, statement) {
            return super::gather::lower(lowering, statement, &gather);
        }
    }
    match Form::of(lowering, results) {
        Form::Wide(wide) => super::wide::lower(lowering, results, wide),
        Form::Rows(shape) => super::broadcast::lower(lowering, results, &shape),
        Form::Tiled => super::tiled::lower(lowering, results),
        Form::Strided => lower_strided(lowering, results),
    }
}

/// The suffix of a launch's entry: the array's name, unless the launch is the kernel's only one.
pub fn suffix(lowering: &Lowering, statement: &Statement) -> String {
    suffix_of(lowering, Results::of(statement))
}

/// The same for the names of several arrays.
pub fn suffix_of(lowering: &Lowering, results: Results) -> String {
    if lowering.kernel.statements.len() == results.statements().len() {
        return String::new();
    }
    let mut names: Vec<String> = results.arrays().map(|array| lowering.kernel.arrays[array].name.replace('.', "_")).collect();
    names.dedup();
    names.join("_")
}

/// Whether a thread an element is best: neighbours together would leave most of the device idle.
fn is_small(lowering: &Lowering, results: Results) -> bool {
    let points = super::group::product(lowering.kernel, lowering.facts, results.variables());
    results.first().attributes.unroll.is_none() && points.is_some_and(|points| lowering.facts.below(&points, FEW_POINTS))
}

/// Whether subscripts are just these variables, in order.
pub fn is_identity(kernel: &Kernel, subscripts: &[Subscript], variables: &[Ranged]) -> bool {
    subscripts.len() == variables.len()
        && subscripts.iter().zip(variables).all(|(s, v)| kernel.exprs[s.index].kind == ExprKind::Variable(v.variable))
}

// ---- strided

fn lower_strided(lowering: &mut Lowering, results: Results) -> Result<(), Error> {
    let variables = results.variables();
    let points = lowering.points(variables)?;
    let ty = lowering.index_type();
    let suffix = suffix_of(lowering, results);
    let mut notes = vec!["A thread per element, grid-stride; neighbouring threads take neighbouring elements.".to_string()];
    if results.has_reduction(lowering.kernel) {
        notes.push("Each thread reduces its own terms, in the order that docs/language.md defines.".into());
    }
    if variables.is_empty() {
        lowering.flat = None;
        store_elements(lowering, results)?;
        let element = if results.statements().len() == 1 { "A single element" } else { "Single elements" };
        lowering.end_launch(&suffix, "map", vec![format!("{element}: one thread.")], [1.into(), 1.into(), 1.into()], [1, 1, 1]);
        return Ok(());
    }
    let count = lowering.size(&points, "points");
    let threads = lowering.block_hint(results.first())?.map_or(THREADS, i64::from);
    let lo = name("blockIdx.x").cast(ty) * int(threads) + name("threadIdx.x").cast(Type::I32);
    let step = name("gridDim.x").cast(ty) * int(threads);
    let wish = lowering.point_name(variables);
    lowering.each(&wish, ty, [lo, count, step], Unroll::By(1), |lowering, point| {
        lowering.decode(variables, point)?;
        store_elements(lowering, results)
    })?;
    let grid = [points.div_ceil(threads).min(MOST_BLOCKS), 1.into(), 1.into()];
    lowering.end_launch(&suffix, "map", notes, grid, [threads as u32, 1, 1]);
    Ok(())
}

/// Stores an element of each result; the variables are bound.
pub fn store_elements(lowering: &mut Lowering, results: Results) -> Result<(), Error> {
    if let [statement] = results.statements() {
        let pointer = lowering.pointer(statement.array);
        return store_element(lowering, statement, pointer);
    }
    store_at(lowering, results, |lowering, number| {
        let statement = &results.statements()[number];
        let (indices, _) = lowering.guarded_indices(statement.array, &statement.subscripts)?;
        lowering.row_major(statement.array, indices)
    })
}

/// Stores an element of each result, by number, at its offset. One that later results read stays in a register for them.
pub fn store_at(
    lowering: &mut Lowering,
    results: Results,
    offset: impl Fn(&mut Lowering, usize) -> Result<Expr, Error>,
) -> Result<(), Error> {
    for (number, statement) in results.statements().iter().enumerate() {
        let place = lowering.pointer(statement.array).at(offset(lowering, number)?);
        let mut value = lowering.value(statement.value)?;
        if lowering.arrays_read(results.values().skip(number + 1)).contains(&statement.array) {
            let (wish, ty) = lowering.piece_of(statement.array, 1);
            value = lowering.local(&wish, ty, value);
            lowering.chip.insert(statement.array, value.clone());
        }
        lowering.push(Node::Assign(place, value));
    }
    results.arrays().for_each(|array| drop(lowering.chip.remove(&array)));
    Ok(())
}

/// Stores a statement's value where its left side says; its variables are bound.
pub fn store_element(lowering: &mut Lowering, statement: &Statement, pointer: Expr) -> Result<(), Error> {
    let (indices, _) = lowering.guarded_indices(statement.array, &statement.subscripts)?;
    let offset = lowering.row_major(statement.array, indices)?;
    let value = lowering.value(statement.value)?;
    lowering.push(Node::Assign(pointer.at(offset), value));
    Ok(())
}

impl Lowering<'_> {
    /// What a loop over the points of some variables is called by: the variable, if there is one.
    pub fn point_name(&self, variables: &[Ranged]) -> String {
        match variables {
            [range] => self.kernel.variables[range.variable].name.clone(),
            _ => "point".into(),
        }
    }

    /// The arrays in memory or on chip that some values are computed from, through `let`s that are computed in place.
    pub fn arrays_read(&self, values: impl IntoIterator<Item = ExprId>) -> BTreeSet<ArrayId> {
        let (mut found, mut entered) = (BTreeSet::new(), BTreeSet::new());
        let mut pending: Vec<ExprId> = values.into_iter().collect();
        while let Some(value) = pending.pop() {
            for read in walk::reads(self.kernel, value) {
                let ExprKind::Read { array, .. } = self.kernel.exprs[read].kind else { continue };
                match self.places.of(array) {
                    Place::Inline(number) if entered.insert(number) => pending.push(self.kernel.statements[number].value),
                    Place::Inline(_) => {}
                    _ => drop(found.insert(array)),
                }
            }
        }
        found
    }

    /// Binds variables to the point of that number, the last variable fastest.
    pub fn decode(&mut self, variables: &[Ranged], point: Expr) -> Result<(), Error> {
        let ty = self.index_type();
        let mut rest = point;
        for (depth, range) in variables.iter().enumerate().rev() {
            let formula = self.extent(range)?;
            let wish = self.kernel.variables[range.variable].name.clone();
            let extent = self.size(&formula, &format!("{wish}_extent"));
            let lo = self.index(range.lo)?;
            let within = if depth == 0 { rest.clone() } else { rest.clone() % extent.clone() };
            let value = within + lo;
            let bound = if matches!(value, Expr::Name(_)) { value } else { self.local(&wish, ty, value) };
            self.variables.insert(range.variable, bound);
            if depth > 0 {
                rest = self.local("rest", ty, rest / extent);
            }
        }
        Ok(())
    }
}

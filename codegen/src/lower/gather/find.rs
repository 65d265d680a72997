//! Which maps are gathers, and how their rows are moved.

use gpukc_dsl::program::{ArrayId, Bounds, ExprId, ExprKind, Ranged, Statement, Subscript};

use crate::error::Error;
use crate::formula::Formula;
use crate::lower::by_rows::{self, IN_FLIGHT, Row, THREADS, row_of};
use crate::lower::context::Lowering;
use crate::lower::expr::zero;
use crate::lower::group::{from_zero, product};
use crate::lower::packs::{Along, Read};
use crate::lower::place::Place;
use crate::lower::read::{access, flat_coefficient};
use crate::plan::Expr;
use crate::walk;

/// Most pieces that a thread takes.
const MOST_STEPS: i64 = 4;
/// Most arrays whose rows are moved.
const MOST_MOVED: usize = 8;
/// Most of them that data chooses: each has a word of shared memory a row.
const MOST_CHOSEN: usize = 4;
/// Rows of fewer elements are no rows to speak of.
const SHORTEST: i64 = 4;

/// A map that moves rows.
pub struct Gather {
    /// How many of the left side's variables number the rows.
    pub rank: usize,
    /// Elements that move together.
    pub lanes: i64,
    /// Neighbouring threads that move a row.
    pub across: i64,
    /// Pieces that a thread takes, each of another row.
    pub steps: i64,
    /// Reads whose row data chooses.
    pub chosen: Vec<Chosen>,
    /// Reads that run along the left side's own row.
    pub along: Vec<Along>,
    /// Reads that may report and are the same along a row.
    pub shared: Vec<ExprId>,
}

/// A read along a row that data chooses.
pub struct Chosen {
    pub read: ExprId,
    pub array: ArrayId,
    pub row: Row,
    /// The boundary constant.
    constant_outside: Option<ExprId>,
}

impl Chosen {
    /// Finds where the row begins that the bound variables choose. Where it is outside, `found` stays as it is; gives whether it may be.
    pub fn find(&self, lowering: &mut Lowering, found: &Expr) -> Result<bool, Error> {
        let ExprKind::Read { subscripts, .. } = &lowering.kernel.exprs[self.read].kind else {
            return Err(Error::Bug("a row of what is no read".into()));
        };
        by_rows::find_row(lowering, self.array, subscripts, &self.row, found)
    }
    /// The element of a row that is outside.
    pub fn outside(&self, lowering: &mut Lowering) -> Result<Expr, Error> {
        match self.constant_outside {
            Some(constant) => lowering.value(constant),
            None => Ok(zero(lowering.kernel.arrays[self.array].element)),
        }
    }
}

impl Gather {
    pub fn rows_per_block(&self) -> i64 {
        THREADS / self.across * self.steps
    }
    pub fn positions(&self) -> i64 {
        self.across * self.lanes
    }
}

/// How the statement's rows are moved, if data chooses some of them: rows of as many of the last variables as possible.
pub fn gather(lowering: &Lowering, statement: &Statement) -> Option<Gather> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let variables = &statement.variables;
    let hinted = statement.attributes.block.is_some() || statement.attributes.unroll.is_some();
    if hinted || variables.len() < 2 || !from_zero(kernel, facts, variables) || walk::has_reduction(kernel, statement.value) {
        return None;
    }
    (1..variables.len()).find_map(|rank| by_rows(lowering, statement, rank))
}

fn by_rows(lowering: &Lowering, statement: &Statement, rank: usize) -> Option<Gather> {
    let (kernel, facts) = (lowering.kernel, lowering.facts);
    let (rows, inner) = statement.variables.split_at(rank);
    let (row_count, extent) = (product(kernel, facts, rows)?, product(kernel, facts, inner)?);
    let output = access(kernel, facts, statement.array, &statement.subscripts)?;
    if !facts.at_least(&extent, SHORTEST) || flat_coefficient(kernel, facts, &output, inner)? != Formula::Constant(1) {
        return None;
    }
    let mut found = Found { lowering, statement, inner, chosen: Vec::new(), along: Vec::new(), shared: Vec::new(), steps: Vec::new() };
    found.search()?;
    found.step_by(&output);
    found.steps.push(extent.clone());
    let moved = || found.chosen.iter().map(|chosen| chosen.array).chain(found.along.iter().map(|along| along.array));
    let count = moved().count();
    if found.chosen.is_empty() || found.chosen.len() > MOST_CHOSEN || count > MOST_MOVED {
        return None;
    }
    let sizes = moved().chain([statement.array]).map(|array| kernel.arrays[array].element.size() as i64);
    let widest = sizes.max()?;
    let whole = |lanes: &i64| lanes * widest <= 16 && found.steps.iter().all(|step| facts.multiple(step, *lanes));
    let lanes = [16, 8, 4, 2].into_iter().filter(|_| facts.aligned).find(whole).unwrap_or(1);
    let across = by_rows::across(facts, &extent.div_ceil(lanes));
    let steps = (IN_FLIGHT / (lanes * widest * count as i64)).clamp(1, MOST_STEPS);
    let steps = if facts.below(&row_count, THREADS / across * steps) { 1 } else { steps };
    let Found { chosen, along, shared, .. } = found;
    Some(Gather { rank, lanes, across, steps, chosen, along, shared })
}

/// What a search through a statement's value has found.
struct Found<'a> {
    lowering: &'a Lowering<'a>,
    statement: &'a Statement,
    inner: &'a [Ranged],
    chosen: Vec<Chosen>,
    along: Vec<Along>,
    shared: Vec<ExprId>,
    /// Steps from row to row that are to be whole pieces.
    steps: Vec<Formula>,
}

impl Found<'_> {
    /// Looks for reads that are evaluated at every element. `None` where several inner variables do not run together.
    fn search(&mut self) -> Option<()> {
        let kernel = self.lowering.kernel;
        let mut pending = vec![(self.statement.value, true)];
        while let Some((id, evaluated)) = pending.pop() {
            match &kernel.exprs[id].kind {
                ExprKind::Read { array, subscripts } => {
                    if evaluated && self.takes(id, *array, subscripts) {
                        continue;
                    }
                    let flat = || flat_coefficient(kernel, self.lowering.facts, &self.access(*array, subscripts)?, self.inner);
                    if self.inner.len() > 1 && self.varies(id) && flat().is_none() {
                        return None;
                    }
                    if !self.varies(id) || self.inner.len() > 1 {
                        continue;
                    }
                }
                ExprKind::Variable(variable) if self.inner.len() > 1 && self.inner.iter().any(|v| v.variable == *variable) => {
                    return None;
                }
                _ => {}
            }
            let below = walk::operands(kernel, id).into_iter().rev();
            pending.extend(below.map(|(operand, guarded)| (operand, evaluated && !guarded)));
        }
        Some(())
    }

    fn access(&self, array: ArrayId, subscripts: &[Subscript]) -> Option<crate::size::Linear> {
        access(self.lowering.kernel, self.lowering.facts, array, subscripts)
    }

    fn varies(&self, id: ExprId) -> bool {
        self.inner.iter().any(|v| walk::mentions(self.lowering.kernel, id, v.variable))
    }

    /// Whether a read is moved by rows, or shared by a row.
    fn takes(&mut self, id: ExprId, array: ArrayId, subscripts: &[Subscript]) -> bool {
        let (kernel, facts) = (self.lowering.kernel, self.lowering.facts);
        if !matches!(self.lowering.places.of(array), Place::Memory | Place::Scratch(_)) {
            return false;
        }
        if !self.varies(id) {
            let takes = walk::can_fail(kernel, id);
            self.shared.extend(takes.then_some(id));
            return takes;
        }
        if let Some(access) = self.access(array, subscripts) {
            if flat_coefficient(kernel, facts, &access, self.inner) != Some(Formula::Constant(1)) {
                return false;
            }
            self.step_by(&access);
            let read = Read { id, array, subscripts, own: &self.statement.variables, in_place: None };
            Along::of(self.lowering, &read).into_iter().for_each(|along| along.join(&mut self.along));
            return true;
        }
        let Some(chosen) = self.choosing(id, array, subscripts) else { return false };
        self.steps.extend([chosen.row.stride.clone(), chosen.row.constant.clone()]);
        self.chosen.push(chosen);
        true
    }

    /// A read whose first subscripts choose a row, and whose others run along it.
    fn choosing(&self, read: ExprId, array: ArrayId, subscripts: &[Subscript]) -> Option<Chosen> {
        let (kernel, facts) = (self.lowering.kernel, self.lowering.facts);
        let row = row_of(kernel, facts, array, subscripts, self.inner)?;
        let constants: Vec<ExprId> = subscripts[..row.choosing].iter().filter_map(constant).collect();
        let plain = |id: &ExprId| matches!(kernel.exprs[*id].kind, ExprKind::Literal(_));
        if constants.len() > 1 || !constants.iter().all(plain) {
            return None;
        }
        let constant_outside = constants.first().copied();
        Some(Chosen { read, array, row, constant_outside })
    }

    /// Notes the steps of an access from row to row, and where it begins.
    fn step_by(&mut self, access: &crate::size::Linear) {
        let inner = self.inner;
        let by_row = access.terms.iter().filter(|(variable, _)| !inner.iter().any(|v| v.variable == *variable));
        self.steps.extend(by_row.map(|(_, step)| step.clone()).chain([access.constant.clone()]));
    }
}

fn constant(subscript: &Subscript) -> Option<ExprId> {
    if let Bounds::Constant(value) = subscript.bounds { Some(value) } else { None }
}

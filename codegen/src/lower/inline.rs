//! `let`s that are computed where they are read.

use gpukc_dsl::program::{ArrayId, ExprKind, Ranged, Statement, Subscript, VariableId};

use super::context::{Flat, Lowering};
use crate::error::Error;
use crate::plan::Expr;

/// What stands among `own` where `variables` stand among `all`.
fn counterparts(variables: &[Ranged], all: &[Ranged], own: &[Ranged]) -> Vec<Ranged> {
    let place = |variable: &Ranged| all.iter().position(|other| other.variable == variable.variable);
    variables.iter().filter_map(|variable| own.get(place(variable)?).copied()).collect()
}

impl Lowering<'_> {
    /// A `let` that is computed where it is read: its value with the subscripts for its variables.
    pub fn inline(&mut self, array: ArrayId, statement: usize, subscripts: &[Subscript]) -> Result<Expr, Error> {
        let statement = &self.kernel.statements[statement];
        if let Some(flat) = self.flat.clone().filter(|flat| super::map::is_identity(self.kernel, subscripts, &flat.variables)) {
            let runs_along = super::group::is_flat(self.kernel, self.facts, statement.value, &statement.variables);
            let told_apart = flat.variables.iter().all(|v| self.variables.contains_key(&v.variable));
            return match runs_along {
                true => self.inline_along(array, statement, flat),
                false if told_apart && self.element.as_ref() == Some(&flat.variables) => self.inline_at_element(array, statement),
                false => self.inline_at(array, statement, flat),
            };
        }
        if let Some(all) = &self.element {
            if super::map::is_identity(self.kernel, subscripts, all) && self.runs_together(statement, all) {
                return self.inline_at_element(array, statement);
            }
        }
        let apart = self.tell_apart()?;
        let value = self.inline_there(array, statement, subscripts);
        apart.into_iter().for_each(|variable| drop(self.variables.remove(&variable)));
        value
    }

    /// Whether the variables of a `let` at the current element run together where those of [`Lowering::flat`] do.
    fn runs_together(&self, statement: &Statement, all: &[Ranged]) -> bool {
        let Some(flat) = self.flat.as_ref().filter(|flat| flat.variables.len() > 1) else { return true };
        let own: Vec<Ranged> = counterparts(&flat.variables, all, &statement.variables);
        own.len() == flat.variables.len() && super::group::is_flat(self.kernel, self.facts, statement.value, &own)
    }

    /// Binds variables that run together, each by itself; gives those that were not bound.
    fn tell_apart(&mut self) -> Result<Vec<VariableId>, Error> {
        let Some(flat) = self.flat.clone().filter(|flat| flat.variables.len() > 1) else { return Ok(Vec::new()) };
        let unbound: Vec<VariableId> = flat.variables.iter().map(|v| v.variable).filter(|v| !self.variables.contains_key(v)).collect();
        if !unbound.is_empty() {
            self.decode(&flat.variables, flat.position)?;
        }
        Ok(unbound)
    }

    /// The same at any element: its subscripts say where.
    fn inline_there(&mut self, array: ArrayId, statement: &Statement, subscripts: &[Subscript]) -> Result<Expr, Error> {
        let mut indices = Vec::new();
        for subscript in subscripts {
            indices.push(self.index(subscript.index)?);
        }
        let key = format!("{array:?}{indices:?}");
        if let Some(value) = self.recall(&key) {
            return Ok(value);
        }
        // The left side's subscripts are its variables, each once, in any order of the dims.
        let mut saved = Vec::new();
        for (target, index) in statement.subscripts.iter().zip(indices) {
            let ExprKind::Variable(variable) = self.kernel.exprs[target.index].kind else {
                return Err(Error::Bug("an inlined `let` has a left side that is not plain".into()));
            };
            saved.push((variable, self.variables.insert(variable, index)));
        }
        for (target, subscript) in statement.subscripts.iter().zip(subscripts) {
            if let (ExprKind::Variable(own), ExprKind::Variable(outer)) =
                (&self.kernel.exprs[target.index].kind, &self.kernel.exprs[subscript.index].kind)
            {
                self.stand_alike(*outer, *own);
            }
        }
        // What is known of expressions here holds at the current position only.
        let (computed, flat) = (std::mem::take(&mut self.computed), self.flat.take());
        let value = self.value(statement.value);
        (self.computed, self.flat) = (computed, flat);
        self.restore(saved);
        Ok(self.keep(array, key, value?))
    }

    /// Binds variables to what they were bound to.
    fn restore(&mut self, saved: Vec<(VariableId, Option<Expr>)>) {
        for (variable, before) in saved {
            match before {
                Some(index) => self.variables.insert(variable, index),
                None => self.variables.remove(&variable),
            };
        }
    }

    /// The same at the current element: what is known of expressions holds for it.
    fn inline_at_element(&mut self, array: ArrayId, statement: &Statement) -> Result<Expr, Error> {
        let position = self.flat.as_ref().map(|flat| flat.position.clone());
        let key = format!("{array:?} at element {position:?}");
        if let Some(value) = self.recall(&key) {
            return Ok(value);
        }
        let value = self.at_element_of(&statement.variables, |lowering| lowering.value(statement.value))?;
        Ok(self.keep(array, key, value))
    }

    /// Lets a `let`'s variable have the place in a tile that the reader's has.
    fn stand_alike(&mut self, outer: VariableId, own: VariableId) {
        if let Some(place) = self.tile_position.get(&outer).cloned() {
            self.tile_position.insert(own, place);
        }
    }

    /// Computes something under other variables, which stand for the current element's, one for one.
    pub fn at_element_of<R>(&mut self, own: &[Ranged], compute: impl FnOnce(&mut Self) -> Result<R, Error>) -> Result<R, Error> {
        let (element, flat) = (self.element.replace(own.to_vec()), self.flat.clone());
        for (outer, own) in element.iter().flatten().zip(own) {
            if let Some(index) = self.variables.get(&outer.variable).cloned() {
                self.variables.insert(own.variable, index);
            }
            self.stand_alike(outer.variable, own.variable);
        }
        if let (Some(flat), Some(all)) = (&mut self.flat, &element) {
            flat.variables = counterparts(&flat.variables, all, own);
        }
        let result = compute(self);
        (self.element, self.flat) = (element, flat);
        result
    }

    /// The same at the current position of [`Lowering::flat`].
    fn inline_along(&mut self, array: ArrayId, statement: &Statement, flat: Flat) -> Result<Expr, Error> {
        let key = format!("{array:?} at {:?}", flat.position);
        if let Some(value) = self.recall(&key) {
            return Ok(value);
        }
        for (outer, own) in flat.variables.iter().zip(&statement.variables) {
            if let Some(index) = self.variables.get(&outer.variable).cloned() {
                self.variables.insert(own.variable, index);
            }
        }
        let position = flat.position.clone();
        self.flat = Some(Flat { variables: statement.variables.clone(), position });
        let value = self.value(statement.value);
        self.flat = Some(flat);
        Ok(self.keep(array, key, value?))
    }

    /// The same where the value does not run along: its variables are told apart.
    fn inline_at(&mut self, array: ArrayId, statement: &Statement, flat: Flat) -> Result<Expr, Error> {
        let key = format!("{array:?} at {:?}", flat.position);
        if let Some(value) = self.recall(&key) {
            return Ok(value);
        }
        let saved: Vec<_> = statement.variables.iter().map(|v| (v.variable, self.variables.get(&v.variable).cloned())).collect();
        let computed = std::mem::take(&mut self.computed);
        self.flat = None;
        self.decode(&statement.variables, flat.position.clone())?;
        let value = self.value(statement.value);
        (self.computed, self.flat) = (computed, Some(flat));
        self.restore(saved);
        Ok(self.keep(array, key, value?))
    }

    /// Names the value of an inlined `let`, so that its other uses in this block share it.
    fn keep(&mut self, array: ArrayId, key: String, value: Expr) -> Expr {
        let array = &self.kernel.arrays[array];
        let value = match value {
            Expr::Name(_) | Expr::Int(..) | Expr::Float(..) | Expr::Bool(_) => value,
            value => self.local(&array.name.replace('.', "_"), array.element, value),
        };
        self.remember(key, value.clone());
        value
    }
}

//! Scopes and name lookup, with guesses for names that are not there.

use crate::arena::Id;
use crate::program::{ArrayId, DimId, LocalId, ScalarId, VariableId};
use crate::source::Span;
use std::collections::HashMap;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    Dim(DimId),
    Scalar(ScalarId),
    Array(ArrayId),
    Variable(VariableId),
    Local(LocalId),
    /// An entry of [`super::items::Items::constants`].
    Constant(usize),
    /// Something that an error has been reported for; uses are silent.
    Broken,
}

impl Binding {
    /// What to call it in a message.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Binding::Dim(_) => "a dim",
            Binding::Scalar(_) => "a scalar parameter",
            Binding::Array(_) => "an array",
            Binding::Variable(_) => "an index variable",
            Binding::Local(_) => "a local",
            Binding::Constant(_) => "a constant",
            Binding::Broken => "a name",
        }
    }
}

/// A binding and where it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) binding: Binding,
    pub(crate) span: Span,
}

/// Names in scope; an inner scope is undone by [`Names::leave`].
#[derive(Debug)]
pub(crate) struct Names<'c> {
    /// Those that every scope of the file has.
    outer: &'c HashMap<String, Entry>,
    table: HashMap<String, Vec<Entry>>,
    order: Vec<String>,
}

impl<'c> Names<'c> {
    /// Nothing is bound but what every scope has.
    pub(crate) fn new(outer: &'c HashMap<String, Entry>) -> Self {
        Names { outer, table: HashMap::new(), order: Vec::new() }
    }

    /// The innermost binding of a name.
    pub(crate) fn find(&self, name: &str) -> Option<Entry> {
        self.inner(name).or_else(|| self.outer.get(name).copied())
    }

    fn inner(&self, name: &str) -> Option<Entry> {
        self.table.get(name).and_then(|entries| entries.last()).copied()
    }

    /// Binds a name, hiding an outer one of the same name.
    pub(crate) fn bind(&mut self, name: &str, binding: Binding, span: Span) {
        self.table.entry(name.to_string()).or_default().push(Entry { binding, span });
        self.order.push(name.to_string());
    }

    /// A mark to go back to.
    pub(crate) fn enter(&self) -> usize {
        self.order.len()
    }

    /// Undoes all bindings since the mark.
    pub(crate) fn leave(&mut self, mark: usize) {
        while self.order.len() > mark {
            let Some(name) = self.order.pop() else { return };
            if let Some(entries) = self.table.get_mut(&name) {
                entries.pop();
            }
        }
    }

    /// All names in scope.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, Binding)> {
        let inner = self.table.iter().filter_map(|(name, entries)| Some((name.as_str(), entries.last()?.binding)));
        let outer = self.outer.iter().map(|(name, entry)| (name.as_str(), entry.binding));
        inner.chain(outer.filter(|(name, _)| self.inner(name).is_none()))
    }
}

/// The candidate that is most like `name`, if one is like it at all.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.len() / 3).clamp(1, 3);
    let best = candidates
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= limit && candidate.len() <= 64 && *candidate != name)
        .map(|candidate| (distance(name, candidate), candidate))
        .min()?;
    (best.0 <= limit && best.0 < name.len()).then_some(best.1)
}

/// Insertions, deletions, replacements and swaps of neighbours between two names.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

/// A handle of any arena by position.
pub(crate) fn id<T>(index: usize) -> Id<T> {
    Id::new(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses() {
        let names = ["value", "y", "n", "width"];
        assert_eq!(nearest("valeu", names.into_iter()), Some("value"));
        assert_eq!(nearest("widht", names.into_iter()), Some("width"));
        assert_eq!(nearest("z", names.into_iter()), None);
        assert_eq!(nearest("other", names.into_iter()), None);
    }
}

//! Arenas with typed handles: every IR node lives in one, and a handle of one arena can't index another.

use std::{fmt, hash, marker::PhantomData, ops};

/// A handle to a `T` in an [`Arena<T>`].
pub struct Id<T>(u32, PhantomData<fn() -> T>);

impl<T> Id<T> {
    /// The handle of the `index`-th element.
    pub fn new(index: usize) -> Self {
        Id(index as u32, PhantomData)
    }
    /// The position in the arena.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<T> hash::Hash for Id<T> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A growing list of `T`, read through [`Id<T>`].
#[derive(Clone, Debug)]
pub struct Arena<T>(Vec<T>);

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena(Vec::new())
    }
}

impl<T> Arena<T> {
    /// Stores `value` and gives its handle.
    pub fn push(&mut self, value: T) -> Id<T> {
        self.0.push(value);
        Id::new(self.0.len() - 1)
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Handles and elements, in order of insertion.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Id<T>, &T)> {
        self.0.iter().enumerate().map(|(index, value)| (Id::new(index), value))
    }
    /// All handles, in order of insertion.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = Id<T>> + use<T> {
        (0..self.0.len()).map(Id::new)
    }
}

impl<T> ops::Index<Id<T>> for Arena<T> {
    type Output = T;
    fn index(&self, id: Id<T>) -> &T {
        &self.0[id.index()]
    }
}
impl<T> ops::IndexMut<Id<T>> for Arena<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        &mut self.0[id.index()]
    }
}

//! Types that are not known yet: a literal's, and a local's that starts as one. Everything else has a type at once.

use crate::types::Type;

/// The type of an expression while its statement is being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    /// A type.
    Known(Type),
    /// A number whose type its use decides.
    Open(Open),
    /// Unknown because of an error that has been reported.
    Poison,
}

/// Handle of an open type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open(u32);

/// What an open type may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any number; `i64` unless a use says otherwise.
    Number,
    /// An integer.
    Integer,
    /// A float; `f32` unless a use says otherwise.
    Float,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Link(Open),
    Free { kind: Kind, arithmetic: bool },
    Bound(Type),
}

/// Why two types are not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clash;

/// The open types of one kernel or function.
#[derive(Debug, Default)]
pub(crate) struct Infer {
    states: Vec<State>,
}

impl Infer {
    /// A new open type.
    pub(crate) fn open(&mut self, kind: Kind) -> Ty {
        self.states.push(State::Free { kind, arithmetic: false });
        Ty::Open(Open(self.states.len() as u32 - 1))
    }

    fn root(&self, mut open: Open) -> Open {
        while let State::Link(next) = self.states[open.0 as usize] {
            open = next;
        }
        open
    }

    /// The type as far as it is known.
    pub(crate) fn resolve(&self, ty: Ty) -> Ty {
        let Ty::Open(open) = ty else { return ty };
        let root = self.root(open);
        match self.states[root.0 as usize] {
            State::Bound(ty) => Ty::Known(ty),
            _ => Ty::Open(root),
        }
    }

    /// What an open type may become.
    pub(crate) fn kind(&self, open: Open) -> Kind {
        match self.states[self.root(open).0 as usize] {
            State::Free { kind, .. } => kind,
            State::Bound(ty) if ty.is_float() => Kind::Float,
            _ => Kind::Integer,
        }
    }

    /// The type that an open type takes if nothing decides it.
    pub(crate) fn fallback(&self, open: Open) -> Type {
        match self.states[self.root(open).0 as usize] {
            State::Bound(ty) => ty,
            State::Free { kind: Kind::Float, .. } => Type::F32,
            _ => Type::I64,
        }
    }

    /// Narrows what an open type may become.
    pub(crate) fn restrict(&mut self, open: Open, to: Kind) -> Result<(), Clash> {
        let root = self.root(open);
        let State::Free { kind, .. } = &mut self.states[root.0 as usize] else { return Ok(()) };
        *kind = meet(*kind, to)?;
        Ok(())
    }

    /// Notes that arithmetic happens in this type, so that it is no storage type.
    pub(crate) fn computes(&mut self, open: Open) {
        let root = self.root(open);
        if let State::Free { arithmetic, .. } = &mut self.states[root.0 as usize] {
            *arithmetic = true;
        }
    }

    /// Decides an open type; gives the type that it took, which is wider than `ty` if arithmetic happens in it.
    pub(crate) fn bind(&mut self, open: Open, ty: Type) -> Result<Type, Clash> {
        let root = self.root(open);
        let State::Free { kind, arithmetic } = self.states[root.0 as usize] else { return Ok(ty) };
        let fits = match kind {
            Kind::Number => ty != Type::Bool,
            Kind::Integer => ty.is_integer(),
            Kind::Float => ty.is_float(),
        };
        if !fits {
            return Err(Clash);
        }
        let ty = if arithmetic { ty.widened() } else { ty };
        self.states[root.0 as usize] = State::Bound(ty);
        Ok(ty)
    }

    /// Makes one of two open types.
    pub(crate) fn join(&mut self, a: Open, b: Open) -> Result<(), Clash> {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return Ok(());
        }
        let (State::Free { kind: ka, arithmetic: aa }, State::Free { kind: kb, arithmetic: ab }) =
            (self.states[a.0 as usize], self.states[b.0 as usize])
        else {
            return Ok(());
        };
        self.states[b.0 as usize] = State::Free { kind: meet(ka, kb)?, arithmetic: aa || ab };
        self.states[a.0 as usize] = State::Link(b);
        Ok(())
    }
}

fn meet(a: Kind, b: Kind) -> Result<Kind, Clash> {
    match (a, b) {
        (Kind::Number, other) | (other, Kind::Number) => Ok(other),
        (a, b) if a == b => Ok(a),
        _ => Err(Clash),
    }
}

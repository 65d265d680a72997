//! Linear forms with numbers for coefficients; arithmetic modulo 2^64, as `i64` has it.

/// What a coefficient belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    Counter(u32),
    /// An `i64` register.
    Reg(u32),
}

/// `constant + Σ coefficient · atom`, atoms ascending, no coefficient 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lin {
    pub constant: i64,
    pub terms: Vec<(Atom, i64)>,
}

impl Lin {
    pub fn constant(constant: i64) -> Lin {
        Lin { constant, terms: Vec::new() }
    }
    pub fn atom(atom: Atom) -> Lin {
        Lin { constant: 0, terms: vec![(atom, 1)] }
    }
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }
    /// `self + factor · other`
    pub fn add(&self, other: &Lin, factor: i64) -> Lin {
        let mut sum = self.clone();
        sum.constant = sum.constant.wrapping_add(factor.wrapping_mul(other.constant));
        for &(atom, coefficient) in &other.terms {
            let coefficient = coefficient.wrapping_mul(factor);
            match sum.terms.binary_search_by_key(&atom, |term| term.0) {
                Ok(at) => sum.terms[at].1 = sum.terms[at].1.wrapping_add(coefficient),
                Err(at) => sum.terms.insert(at, (atom, coefficient)),
            }
        }
        sum.terms.retain(|term| term.1 != 0);
        sum
    }
    pub fn scale(&self, factor: i64) -> Lin {
        Lin::default().add(self, factor)
    }
}

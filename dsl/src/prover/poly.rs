//! Polynomials over atoms with integer coefficients; every operation gives up rather than overflow or grow without bound.

use std::collections::BTreeMap;

/// An indivisible integer: a dim, a variable, a quotient.
pub(crate) type Atom = u32;

/// A product of atoms, sorted.
pub(crate) type Monomial = Vec<Atom>;

/// The most terms of a polynomial.
const MAX_TERMS: usize = 64;
/// The largest coefficient.
const MAX_COEFFICIENT: i128 = 1 << 70;
/// The highest degree.
const MAX_DEGREE: usize = 8;

/// A sum of monomials with coefficients other than 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Poly {
    terms: BTreeMap<Monomial, i128>,
}

impl Poly {
    pub(crate) fn constant(value: i128) -> Poly {
        let mut poly = Poly::default();
        if value != 0 {
            poly.terms.insert(Vec::new(), value);
        }
        poly
    }

    pub(crate) fn atom(atom: Atom) -> Poly {
        Poly { terms: BTreeMap::from([(vec![atom], 1)]) }
    }

    pub(crate) fn terms(&self) -> impl Iterator<Item = (&Monomial, i128)> {
        self.terms.iter().map(|(monomial, &coefficient)| (monomial, coefficient))
    }

    pub(crate) fn coefficient(&self, monomial: &[Atom]) -> i128 {
        self.terms.get(monomial).copied().unwrap_or(0)
    }

    /// The value, if it is a constant.
    pub(crate) fn as_constant(&self) -> Option<i128> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new() as &Monomial).copied(),
            _ => None,
        }
    }

    /// The atom, if it is nothing else.
    pub(crate) fn as_atom(&self) -> Option<Atom> {
        let mut terms = self.terms.iter();
        match (terms.next(), terms.next()) {
            (Some((monomial, 1)), None) if monomial.len() == 1 => monomial.first().copied(),
            _ => None,
        }
    }

    pub(crate) fn atoms(&self) -> impl Iterator<Item = Atom> {
        self.terms.keys().flatten().copied()
    }

    pub(crate) fn mentions(&self, atom: Atom) -> bool {
        self.atoms().any(|other| other == atom)
    }

    /// `self + factor * other`
    pub(crate) fn plus(&self, other: &Poly, factor: i128) -> Option<Poly> {
        let mut sum = self.clone();
        for (monomial, coefficient) in &other.terms {
            let added = coefficient.checked_mul(factor)?;
            let value = sum.terms.get(monomial).copied().unwrap_or(0).checked_add(added)?;
            if value.abs() > MAX_COEFFICIENT {
                return None;
            }
            if value == 0 {
                sum.terms.remove(monomial);
            } else {
                sum.terms.insert(monomial.clone(), value);
            }
        }
        (sum.terms.len() <= MAX_TERMS).then_some(sum)
    }

    /// `self + value`
    pub(crate) fn shifted(&self, value: i128) -> Option<Poly> {
        self.plus(&Poly::constant(value), 1)
    }

    /// `-self - 1`: at least 0 exactly where `self` is negative.
    pub(crate) fn negated(&self) -> Option<Poly> {
        Poly::constant(-1).plus(self, -1)
    }

    pub(crate) fn times(&self, other: &Poly) -> Option<Poly> {
        let mut product = Poly::default();
        for (monomial, coefficient) in &other.terms {
            product = product.plus(&self.times_monomial(monomial)?, *coefficient)?;
        }
        Some(product)
    }

    pub(crate) fn times_monomial(&self, factor: &Monomial) -> Option<Poly> {
        let mut product = Poly::default();
        for (monomial, coefficient) in &self.terms {
            let mut joined = monomial.clone();
            joined.extend(factor);
            joined.sort_unstable();
            if joined.len() > MAX_DEGREE {
                return None;
            }
            product.terms.insert(joined, *coefficient);
        }
        Some(product)
    }

    /// Divided by a literal that divides every coefficient.
    pub(crate) fn divided(&self, by: i128) -> Option<Poly> {
        if by == 0 || self.terms.values().any(|coefficient| coefficient % by != 0) {
            return None;
        }
        let terms = self.terms.iter().map(|(monomial, coefficient)| (monomial.clone(), coefficient / by)).collect();
        Some(Poly { terms })
    }

    /// Divided by a polynomial, if that leaves nothing.
    pub(crate) fn divided_by(&self, by: &Poly) -> Option<Poly> {
        // Degree first, then the order of atoms: products keep this order, so leading terms divide leading terms.
        let leading = |poly: &Poly| {
            let term = poly.terms.iter().max_by_key(|(monomial, _)| (monomial.len(), *monomial));
            term.map(|(monomial, &coefficient)| (monomial.clone(), coefficient))
        };
        let (divisor, factor) = leading(by)?;
        let (mut rest, mut result) = (self.clone(), Poly::default());
        for _ in 0..MAX_TERMS {
            let Some((monomial, coefficient)) = leading(&rest) else { return Some(result) };
            if coefficient % factor != 0 {
                return None;
            }
            let step = Poly { terms: BTreeMap::from([(quotient(&monomial, &divisor)?, coefficient / factor)]) };
            rest = rest.plus(&step.times(by)?, -1)?;
            result = result.plus(&step, 1)?;
        }
        None
    }

    /// With an atom replaced by a polynomial.
    pub(crate) fn substitute(&self, atom: Atom, by: &Poly) -> Option<Poly> {
        let mut result = Poly::default();
        for (monomial, coefficient) in &self.terms {
            let mut rest = monomial.clone();
            rest.retain(|&other| other != atom);
            let mut term = Poly { terms: BTreeMap::from([(rest.clone(), *coefficient)]) };
            for _ in rest.len()..monomial.len() {
                term = term.times(by)?;
            }
            result = result.plus(&term, 1)?;
        }
        Some(result)
    }

    /// Divided by the greatest common divisor of its coefficients, the constant rounded down: the same integers satisfy
    /// `self >= 0`.
    pub(crate) fn tightened(mut self) -> Poly {
        let mut divisor = 0i128;
        for (_, coefficient) in self.terms.iter().filter(|(monomial, _)| !monomial.is_empty()) {
            divisor = gcd(divisor, coefficient.abs());
        }
        if divisor > 1 {
            for (monomial, coefficient) in self.terms.iter_mut() {
                *coefficient = if monomial.is_empty() { coefficient.div_euclid(divisor) } else { *coefficient / divisor };
            }
            self.terms.retain(|_, coefficient| *coefficient != 0);
        }
        self
    }
}

pub(crate) fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// `a / b`, if every factor of `b` is one of `a`.
pub(crate) fn quotient(a: &Monomial, b: &Monomial) -> Option<Monomial> {
    let mut rest = a.clone();
    for factor in b {
        let at = rest.iter().position(|other| other == factor)?;
        rest.remove(at);
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic() {
        let (x, y) = (Poly::atom(0), Poly::atom(1));
        let sum = x.plus(&y, 1).unwrap();
        let difference = x.plus(&y, -1).unwrap();
        let product = sum.times(&difference).unwrap();
        assert_eq!(product.coefficient(&[0, 0]), 1);
        assert_eq!(product.coefficient(&[1, 1]), -1);
        assert_eq!(product.coefficient(&[0, 1]), 0);
        assert_eq!(product.substitute(0, &y).unwrap(), Poly::default());
    }

    #[test]
    fn division() {
        let (x, y) = (Poly::atom(0), Poly::atom(1));
        let (a, b) = (x.plus(&y, -2).unwrap().shifted(1).unwrap(), y.shifted(3).unwrap());
        let product = a.times(&b).unwrap();
        assert_eq!(product.divided_by(&a), Some(b.clone()));
        assert_eq!(product.divided_by(&b), Some(a.clone()));
        assert_eq!(product.shifted(1).unwrap().divided_by(&a), None);
        assert_eq!(Poly::default().divided_by(&a), Some(Poly::default()));
        assert_eq!(a.divided_by(&Poly::default()), None);
    }

    #[test]
    fn tightening_rounds_the_constant_down() {
        let x = Poly::constant(-3).plus(&Poly::atom(0), 2).unwrap(); // 2x - 3 >= 0, so x >= 2
        assert_eq!(x.tightened(), Poly::atom(0).shifted(-2).unwrap());
    }
}

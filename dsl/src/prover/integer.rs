//! What follows because all values are integers: equalities are solved, and facts are cut down to the nearest integer.

use super::poly::{Atom, Poly};
use std::collections::{BTreeMap, BTreeSet};

/// The most equalities that are solved, and the most facts that are cut.
const MAX_SOLVED: usize = 24;
const MAX_CUTS: usize = 48;
/// What an operation on a polynomial costs, where a step of the simplex method costs 1.
const COST: usize = 50;

/// The facts with equalities solved and cuts added; `None` if that adds nothing. The divisors are atoms that are at least 1.
pub(crate) fn strengthened(facts: &[Poly], divisors: &[Atom]) -> Option<Vec<Poly>> {
    super::effort::spend(COST * facts.len())?;
    let mut strong = solved(facts)?;
    let changed = strong.len() != facts.len();
    strong = strong.into_iter().map(Poly::tightened).collect();
    let bounds = Bounds::of(&strong);
    let mut cuts: Vec<Poly> = Vec::new();
    for fact in &strong {
        super::effort::spend(COST * (1 + divisors.len()))?;
        cuts.extend(by_literals(fact, &bounds));
        cuts.extend(divisors.iter().filter_map(|&divisor| by_atom(fact, divisor, &strong, &bounds)));
        if cuts.len() > MAX_CUTS {
            break;
        }
    }
    cuts.retain(|cut| !strong.contains(cut));
    let grown = !cuts.is_empty();
    strong.extend(cuts);
    (changed || grown).then_some(strong)
}

/// Solves equalities, pairs of facts of which one is the negative of the other, for an atom that stands in them once and
/// alone, and puts its value in its place everywhere.
fn solved(facts: &[Poly]) -> Option<Vec<Poly>> {
    let mut facts = facts.to_vec();
    for _ in 0..MAX_SOLVED {
        let set: BTreeSet<&Poly> = facts.iter().collect();
        let equality = facts.iter().find_map(|fact| {
            let opposite = Poly::default().plus(fact, -1)?;
            if !set.contains(&opposite) {
                return None;
            }
            solution(fact)
        });
        let Some((atom, value)) = equality else { break };
        super::effort::spend(COST * facts.len())?;
        let Some(next) = facts.iter().map(|fact| fact.substitute(atom, &value)).collect::<Option<Vec<Poly>>>() else { break };
        facts = next.into_iter().filter(|fact| fact.as_constant().is_none_or(|value| value < 0)).collect();
    }
    Some(facts)
}

/// An atom of an equality and its value.
fn solution(equality: &Poly) -> Option<(Atom, Poly)> {
    let once = |atom: Atom| equality.atoms().filter(|&other| other == atom).count() == 1;
    let (atom, sign) = equality.terms().find_map(|(monomial, coefficient)| match monomial.as_slice() {
        [atom] if coefficient.abs() == 1 && once(*atom) => Some((*atom, coefficient)),
        _ => None,
    })?;
    let rest = equality.plus(&Poly::atom(atom), -sign)?;
    Some((atom, Poly::default().plus(&rest, -sign)?))
}

/// Constant bounds of atoms.
struct Bounds {
    lower: BTreeMap<Atom, i128>,
    upper: BTreeMap<Atom, i128>,
}

impl Bounds {
    fn of(facts: &[Poly]) -> Bounds {
        let mut bounds = Bounds { lower: BTreeMap::new(), upper: BTreeMap::new() };
        for fact in facts {
            let mut own = fact.terms().filter(|(monomial, _)| !monomial.is_empty());
            let (Some((monomial, factor)), None) = (own.next(), own.next()) else { continue };
            let ([atom], constant) = (monomial.as_slice(), fact.coefficient(&[])) else { continue };
            // factor * atom + constant >= 0
            if factor > 0 {
                let least = -constant.div_euclid(factor);
                bounds.lower.entry(*atom).and_modify(|bound| *bound = least.max(*bound)).or_insert(least);
            } else {
                let most = constant.div_euclid(-factor);
                bounds.upper.entry(*atom).and_modify(|bound| *bound = most.min(*bound)).or_insert(most);
            }
        }
        bounds
    }

    fn not_negative(&self, atom: Atom) -> bool {
        self.lower.get(&atom).is_some_and(|&least| least >= 0)
    }

    /// Whether a polynomial is at least 0 because each of its terms is.
    fn plainly(&self, poly: &Poly) -> bool {
        poly.terms().all(|(monomial, factor)| factor >= 0 && monomial.iter().all(|&atom| self.not_negative(atom)))
    }
}

/// `g * L + R >= 0` with R at most a constant says `L >= -R / g`, rounded up; for each literal g that it offers.
fn by_literals(fact: &Poly, bounds: &Bounds) -> Vec<Poly> {
    let mut literals: Vec<i128> = fact.terms().filter(|(monomial, _)| !monomial.is_empty()).map(|(_, factor)| factor.abs()).collect();
    literals.sort_unstable();
    literals.dedup();
    literals.into_iter().filter(|&literal| literal > 1).filter_map(|literal| by_literal(fact, literal, bounds)).collect()
}

fn by_literal(fact: &Poly, literal: i128, bounds: &Bounds) -> Option<Poly> {
    let mut whole = Poly::default();
    let mut most = 0i128;
    let mut rest = false;
    for (monomial, factor) in fact.terms() {
        match monomial.as_slice() {
            [] => most = most.checked_add(factor)?,
            _ if factor % literal == 0 => whole = whole.plus(&Poly::constant(1).times_monomial(monomial)?, factor)?,
            [atom] => {
                let bound = if factor > 0 { bounds.upper.get(atom)? } else { bounds.lower.get(atom)? };
                most = most.checked_add(factor.checked_mul(*bound)?)?;
                rest = true;
            }
            _ => return None,
        }
    }
    rest.then(|| whole.shifted(most)).flatten().map(Poly::tightened)
}

/// `d * L + R >= 0` says `L >= 1` if R is negative, and `L >= 0` if R is below d.
fn by_atom(fact: &Poly, divisor: Atom, facts: &[Poly], bounds: &Bounds) -> Option<Poly> {
    let (mut whole, mut rest) = (Poly::default(), Poly::default());
    for (monomial, factor) in fact.terms() {
        let one = Poly::constant(1);
        match super::poly::quotient(monomial, &vec![divisor]) {
            Some(left) => whole = whole.plus(&one.times_monomial(&left)?, factor)?,
            None => rest = rest.plus(&one.times_monomial(monomial)?, factor)?,
        }
    }
    if whole.as_constant().is_some() {
        return None;
    }
    let sure = |poly: &Poly| {
        if bounds.plainly(poly) || super::effort::spend(COST / 5 * facts.len()).is_none() {
            return bounds.plainly(poly);
        }
        facts.iter().any(|fact| poly.plus(fact, -1).is_some_and(|difference| bounds.plainly(&difference)))
    };
    if sure(&rest.negated()?) {
        return whole.shifted(-1);
    }
    let below = Poly::atom(divisor).plus(&rest, -1)?.shifted(-1)?;
    sure(&below).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(constant: i128, terms: &[(u32, i128)]) -> Poly {
        terms.iter().fold(Poly::constant(constant), |sum, &(atom, factor)| sum.plus(&Poly::atom(atom), factor).unwrap())
    }

    #[test]
    fn equalities_are_solved() {
        // x = 2 y + 1, x <= 2 z: so y < z
        let facts = [linear(-1, &[(0, 1), (1, -2)]), linear(1, &[(0, -1), (1, 2)]), linear(0, &[(0, -1), (2, 2)])];
        let strong = strengthened(&facts, &[]).unwrap();
        assert!(strong.contains(&linear(-1, &[(1, -1), (2, 1)])), "{strong:?}");
    }

    #[test]
    fn facts_are_cut() {
        // 4 y - 4 x - r - 1 >= 0 with r >= 0: so y > x
        let facts = [linear(-1, &[(0, -4), (1, 4), (2, -1)]), linear(0, &[(2, 1)])];
        let strong = strengthened(&facts, &[]).unwrap();
        assert!(strong.contains(&linear(-1, &[(0, -1), (1, 1)])), "{strong:?}");
        // d y - d x - r - 1 >= 0 likewise
        let product =
            |a: u32, b: u32, factor: i128| Poly::default().plus(&Poly::atom(a).times(&Poly::atom(b)).unwrap(), factor).unwrap();
        let fact = linear(-1, &[(2, -1)]).plus(&product(1, 3, 1), 1).unwrap().plus(&product(0, 3, 1), -1).unwrap();
        let strong = strengthened(&[fact, linear(0, &[(2, 1)])], &[3]).unwrap();
        assert!(strong.contains(&linear(-1, &[(0, -1), (1, 1)])), "{strong:?}");
    }
}

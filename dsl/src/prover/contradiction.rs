//! Whether facts contradict one another: in the reals, in the integers, and with products of facts.

use super::poly::{Atom, Monomial, Poly, quotient};
use super::{integer, simplex};
use std::collections::BTreeSet;

/// The most facts with their products.
const MAX_FACTS: usize = 160;

/// How much is done to find a contradiction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The facts as they are, in the reals.
    Linear,
    /// What follows for integers.
    Integer,
    /// Products of facts, for the monomials that occur.
    Products,
    /// Products for the monomials of products too.
    Closure,
}

/// Whether facts contradict one another, as far as some depth tells. The divisors are atoms that are at least 1.
pub(crate) fn contradiction(facts: &[Poly], divisors: &[Atom], depth: Depth) -> bool {
    // Where nothing is left to spend, nothing is begun.
    if super::effort::spend(facts.len()).is_none() {
        return false;
    }
    let with_products = |facts: &[Poly]| {
        let all = multiplied(facts, depth == Depth::Closure);
        all.len() > facts.len() && simplex::contradictory(&all)
    };
    let strengthened = || integer::strengthened(facts, divisors);
    match depth {
        Depth::Linear => simplex::contradictory(facts),
        Depth::Integer => strengthened().is_some_and(|strong| simplex::contradictory(&strong)),
        Depth::Products | Depth::Closure => with_products(facts) || strengthened().is_some_and(|strong| with_products(&strong)),
    }
}

/// The facts, and their products with atoms that are not negative, as far as their monomials occur elsewhere.
fn multiplied(facts: &[Poly], closure: bool) -> Vec<Poly> {
    let positive: BTreeSet<Atom> = facts.iter().filter_map(single_lower_bound).collect();
    let mut all = facts.to_vec();
    let mut seen: BTreeSet<Monomial> = BTreeSet::new();
    let mut work: Vec<Monomial> =
        facts.iter().flat_map(|fact| fact.terms().map(|(monomial, _)| monomial.clone())).filter(|m| m.len() > 1).collect();
    while let Some(target) = work.pop() {
        if !seen.insert(target.clone()) || target.len() > 5 {
            continue;
        }
        for fact in facts {
            for (monomial, _) in fact.terms().filter(|(monomial, _)| !monomial.is_empty() && monomial.len() < target.len()) {
                let Some(rest) = quotient(&target, monomial) else { continue };
                if rest.is_empty() || !rest.iter().all(|atom| positive.contains(atom)) || all.len() >= MAX_FACTS {
                    continue;
                }
                let Some(product) = fact.times_monomial(&rest) else { continue };
                if !all.contains(&product) {
                    if !closure {
                        all.push(product);
                        continue;
                    }
                    work.extend(product.terms().map(|(monomial, _)| monomial.clone()).filter(|m| m.len() > 1));
                    all.push(product);
                }
            }
        }
    }
    all
}

/// The atom of a fact `atom >= c` with c at least 0.
pub(crate) fn single_lower_bound(fact: &Poly) -> Option<Atom> {
    let mut found = None;
    for (monomial, coefficient) in fact.terms() {
        match monomial.as_slice() {
            [] if coefficient <= 0 => {}
            [atom] if coefficient > 0 && found.is_none() => found = Some(*atom),
            _ => return None,
        }
    }
    found
}

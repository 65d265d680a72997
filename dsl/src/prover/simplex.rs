//! Whether linear inequalities contradict one another: Farkas' lemma, by a simplex in exact fractions.

use super::poly::{Monomial, Poly, gcd};
use std::collections::BTreeMap;

/// The most pivots before giving up.
const MAX_PIVOTS: usize = 400;
/// In so many of them the steepest column is chosen.
const STEEPEST: usize = 120;

/// So many entries are filled in while one is computed.
const FILLING: usize = 8;

/// An exact fraction; the denominator is positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fraction {
    n: i128,
    d: i128,
}

impl Fraction {
    const ZERO: Fraction = Fraction { n: 0, d: 1 };

    fn new(n: i128, d: i128) -> Fraction {
        let divisor = gcd(n.abs(), d.abs()).max(1) * d.signum();
        Fraction { n: n / divisor, d: d / divisor }
    }

    fn times(self, other: Fraction) -> Option<Fraction> {
        if self.n == 0 || other.n == 0 {
            return Some(Fraction::ZERO);
        }
        let (a, b) = (Fraction::new(self.n, other.d), Fraction::new(other.n, self.d));
        Some(Fraction { n: a.n.checked_mul(b.n)?, d: a.d.checked_mul(b.d)? })
    }

    fn minus(self, other: Fraction) -> Option<Fraction> {
        if other.n == 0 {
            return Some(self);
        }
        let divisor = gcd(self.d, other.d);
        let (left, right) = (other.d / divisor, self.d / divisor);
        let n = self.n.checked_mul(left)?.checked_sub(other.n.checked_mul(right)?)?;
        Some(Fraction::new(n, self.d.checked_mul(left)?))
    }

    fn about(self) -> f64 {
        self.n as f64 / self.d as f64
    }

    fn over(self, other: Fraction) -> Option<Fraction> {
        self.times(Fraction::new(other.d, other.n))
    }
}

/// Whether no assignment of reals to monomials makes all of `facts` at least 0. `false` also where that was not found out.
pub(crate) fn contradictory(facts: &[Poly]) -> bool {
    search(facts).unwrap_or(false)
}

/// Looks for weights, none negative, with which the facts add up to -1.
fn search(facts: &[Poly]) -> Option<bool> {
    if facts.iter().any(|fact| fact.as_constant().is_some_and(|value| value < 0)) {
        return Some(true);
    }
    let facts: Vec<&Poly> = facts.iter().filter(|fact| fact.as_constant().is_none()).collect();
    let mut rows: BTreeMap<&Monomial, usize> = BTreeMap::new();
    let constant = Monomial::new();
    for fact in &facts {
        for (monomial, _) in fact.terms().filter(|(monomial, _)| !monomial.is_empty()) {
            let next = rows.len();
            rows.entry(monomial).or_insert(next);
        }
    }
    let height = rows.len() + 1;
    let width = facts.len();
    super::effort::spend(height * width / FILLING)?;
    // Columns: a weight per fact, then the right side. The last row asks for a constant of -1.
    let mut table = vec![vec![Fraction::ZERO; width + 1]; height];
    for (column, fact) in facts.iter().enumerate() {
        for (monomial, coefficient) in fact.terms() {
            if *monomial == constant {
                table[height - 1][column] = Fraction::new(-coefficient, 1);
            } else {
                table[rows[monomial]][column] = Fraction::new(coefficient, 1);
            }
        }
    }
    table[height - 1][width] = Fraction { n: 1, d: 1 };
    solve(table, width)
}

/// Phase one of the simplex method; the artificial variable of row `r` has the number `width + r`.
fn solve(mut table: Vec<Vec<Fraction>>, width: usize) -> Option<bool> {
    let height = table.len();
    let mut basis: Vec<usize> = (width..width + height).collect();
    // The cost row: minus the sum of the rows that hold artificial variables.
    let mut cost = vec![Fraction::ZERO; width + 1];
    for row in &table {
        for (sum, value) in cost.iter_mut().zip(row) {
            *sum = sum.minus(*value)?;
        }
    }
    for round in 0..MAX_PIVOTS {
        if cost[width].n == 0 {
            return Some(true);
        }
        // The steepest column is mostly the shortest way; the first one that descends never runs in circles.
        let mut falling = (0..width).filter(|&column| cost[column].n < 0);
        let column =
            if round < STEEPEST { falling.min_by(|&a, &b| cost[a].about().total_cmp(&cost[b].about())) } else { falling.next() };
        let Some(column) = column else { return Some(false) };
        let mut best: Option<(Fraction, usize)> = None;
        for row in 0..height {
            if table[row][column].n <= 0 {
                continue;
            }
            let ratio = table[row][width].over(table[row][column])?;
            let better = match best {
                None => true,
                Some((least, at)) => {
                    let difference = ratio.minus(least)?.n;
                    difference < 0 || difference == 0 && basis[row] < basis[at]
                }
            };
            if better {
                best = Some((ratio, row));
            }
        }
        let (_, pivot) = best?;
        super::effort::spend(height * width)?;
        let divisor = table[pivot][column];
        for value in table[pivot].iter_mut() {
            *value = value.over(divisor)?;
        }
        let pivot_row = table[pivot].clone();
        for (_, row) in table.iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
            eliminate(row, &pivot_row, column)?;
        }
        eliminate(&mut cost, &pivot_row, column)?;
        basis[pivot] = column;
    }
    None
}

fn eliminate(row: &mut [Fraction], pivot: &[Fraction], column: usize) -> Option<()> {
    let factor = row[column];
    if factor.n == 0 {
        return Some(());
    }
    for (value, &above) in row.iter_mut().zip(pivot) {
        *value = value.minus(factor.times(above)?)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(constant: i128, terms: &[(u32, i128)]) -> Poly {
        terms.iter().fold(Poly::constant(constant), |sum, &(atom, factor)| sum.plus(&Poly::atom(atom), factor).unwrap())
    }

    #[test]
    fn bounds_contradict() {
        // x >= 1, y >= x + 1, 3 >= 2y
        assert!(contradictory(&[linear(-1, &[(0, 1)]), linear(-1, &[(1, 1), (0, -1)]), linear(3, &[(1, -2)])]));
        // with 4 >= 2y they do not
        assert!(!contradictory(&[linear(-1, &[(0, 1)]), linear(-1, &[(1, 1), (0, -1)]), linear(4, &[(1, -2)])]));
        assert!(!contradictory(&[]));
        assert!(contradictory(&[Poly::constant(-1)]));
    }

    #[test]
    fn equalities_contradict() {
        // x = y, x = y + 1
        let facts = [linear(0, &[(0, 1), (1, -1)]), linear(0, &[(0, -1), (1, 1)]), linear(-1, &[(0, 1), (1, -1)])];
        assert!(contradictory(&facts));
        assert!(!contradictory(&facts[..2]));
    }
}

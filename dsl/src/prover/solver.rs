//! Facts about integers, and what follows from them.
//!
//! A fact is a polynomial that is at least 0. To prove a goal its negation is added, then products of facts with atoms that
//! are not negative, until the monomials that occur can cancel; a contradiction in the reals proves the goal. Quotients,
//! remainders, minima and maxima come with the inequalities that define them; where these are not enough, cases are split.

use super::contradiction::{Depth, contradiction, single_lower_bound};
use super::poly::{Atom, Poly};
use super::terms::{AtomKind, Term, Terms};
use crate::program::*;
use crate::types::{BinaryOp, UnaryOp};
use std::collections::BTreeSet;

/// The most facts.
const MAX_FACTS: usize = 160;
/// The most cases that one proof distinguishes.
const MAX_CASES: usize = 96;
/// The most conditions of a kernel that are taken up.
const MAX_CONDITIONS: usize = 256;
/// How deep conditions are looked into.
const MAX_CONDITION: usize = 64;

/// What may be spent on what helps to define a quotient.
const PLAIN: u64 = 300_000;

/// Alternatives of which one holds, each a list of facts.
type Split = Vec<Vec<Poly>>;

/// A set of facts.
pub(crate) struct Solver<'k> {
    pub(crate) terms: Terms<'k>,
    facts: Vec<Poly>,
    splits: Vec<Split>,
    /// Facts from comparisons whose arithmetic may wrap, until its atoms are known to be bounded.
    doubtful: Vec<(BTreeSet<Atom>, Split)>,
    /// Atoms whose definition has been added.
    defined: usize,
    pending: Vec<Atom>,
    /// 64-bit atoms that facts bound from both sides.
    tame: BTreeSet<Atom>,
    /// How many facts and such atoms there were when these were looked for.
    settled: (usize, usize),
    /// Atoms that divide, known to be at least 1.
    divisors: Vec<Atom>,
    cases: usize,
}

impl<'k> Solver<'k> {
    /// The facts that hold wherever a kernel runs: its arrays' extents are not negative, its conditions hold.
    pub(crate) fn new(kernel: &'k Kernel, results: bool) -> Self {
        Solver::with(Terms::new(kernel), results)
    }

    /// The same on terms that are set up already.
    pub(crate) fn with(terms: Terms<'k>, results: bool) -> Self {
        let kernel = terms.kernel;
        let mut solver = Solver {
            terms,
            facts: Vec::new(),
            splits: Vec::new(),
            doubtful: Vec::new(),
            defined: 0,
            pending: Vec::new(),
            tame: BTreeSet::new(),
            settled: (0, 0),
            divisors: Vec::new(),
            cases: 0,
        };
        for condition in kernel.conditions.iter().take(MAX_CONDITIONS) {
            solver.assume(condition.holds, true);
        }
        for (_, array) in kernel.arrays.iter() {
            if array.role == Role::Parameter || array.role == Role::Result && results {
                for &extent in array.shape.iter().filter(|&&extent| !matches!(kernel.exprs[extent].kind, ExprKind::Dim(_))) {
                    let term = solver.terms.term(extent);
                    if term.poly.as_constant().is_none() && solver.facts.len() < MAX_FACTS / 4 {
                        solver.fact(term, |poly| Some(poly.clone()));
                    }
                }
            }
        }
        solver
    }

    fn fact(&mut self, term: Term, f: impl Fn(&Poly) -> Option<Poly>) {
        if let Some(poly) = f(&term.poly) {
            self.add(term.risky, vec![vec![poly]]);
        }
    }

    /// Adds alternatives that a comparison of this risk gives.
    fn add(&mut self, risky: BTreeSet<Atom>, mut split: Split) {
        if !risky.is_subset(&self.tame) {
            if self.doubtful.len() < MAX_FACTS {
                self.doubtful.push((risky, split));
            }
        } else if split.len() == 1 {
            let room = MAX_FACTS.saturating_sub(self.facts.len());
            self.facts.extend(split.remove(0).into_iter().map(Poly::tightened).take(room));
        } else if self.splits.len() < MAX_CONDITION {
            self.splits.push(split);
        }
    }

    /// A variable lies in its range.
    pub(crate) fn range(&mut self, ranged: &Ranged) {
        let (lo, hi) = (self.terms.term(ranged.lo), self.terms.term(ranged.hi));
        let wild = [&lo, &hi].iter().any(|term| {
            !term.risky.is_subset(&self.tame)
                || term.poly.atoms().any(|a| !self.terms.atoms[a as usize].bounded && !self.tame.contains(&a))
        });
        if wild {
            self.terms.wild.insert(ranged.variable);
        }
        let variable = Poly::atom(self.terms.variable(ranged.variable));
        if let Some(above) = variable.plus(&lo.poly, -1) {
            self.add(lo.risky.clone(), vec![vec![above]]);
        }
        if let Some(below) = hi.poly.plus(&variable, -1).and_then(|poly| poly.shifted(-1)) {
            self.add(hi.risky.clone(), vec![vec![below]]);
        }
        if lo.poly.as_constant().is_some_and(|value| value >= 0) && hi.risky.is_subset(&self.tame) {
            self.define_atoms();
            self.factors(ranged.hi);
        }
    }

    /// A product is at least 1. Of its two factors, one that is not negative is at least 1, and so is the other then.
    fn factors(&mut self, product: ExprId) {
        let mut work = vec![product];
        while let Some(product) = work.pop() {
            let ExprKind::Binary(BinaryOp::Mul, a, b) = self.terms.kernel.exprs[product].kind else { continue };
            let (x, y) = (self.terms.term(a).poly, self.terms.term(b).poly);
            let bounded = |poly: &Poly| poly.atoms().all(|atom| self.is_tame(atom));
            if !bounded(&x) || !bounded(&y) || !(self.holds_plainly(&x) || self.holds_plainly(&y)) {
                continue;
            }
            let facts: Vec<Poly> =
                [x, y].iter().filter_map(|factor| factor.shifted(-1)).filter(|fact| fact.as_constant().is_none()).collect();
            self.add(BTreeSet::new(), vec![facts]);
            work.extend([a, b]);
        }
    }

    /// A condition holds, or does not.
    pub(crate) fn assume(&mut self, condition: ExprId, holds: bool) {
        let mut work = vec![(condition, holds)];
        let mut steps = 0;
        while let Some((id, holds)) = work.pop() {
            steps += 1;
            if steps > 4 * MAX_CONDITION {
                return;
            }
            match (&self.terms.kernel.exprs[id].kind, holds) {
                (ExprKind::Unary(UnaryOp::Not, inner), _) => work.push((*inner, !holds)),
                (ExprKind::Binary(BinaryOp::And, a, b), true) | (ExprKind::Binary(BinaryOp::Or, a, b), false) => {
                    work.extend([(*a, holds), (*b, holds)]);
                }
                (ExprKind::Literal(Literal::Bool(value)), _) if *value != holds => {
                    self.facts.push(Poly::constant(-1));
                }
                _ => {
                    if let Some((risky, split)) = self.alternatives(id, holds, 0) {
                        self.add(risky, split);
                    }
                }
            }
        }
        self.define_atoms();
    }

    /// What a condition says, as alternatives of facts.
    fn alternatives(&mut self, id: ExprId, holds: bool, depth: usize) -> Option<(BTreeSet<Atom>, Split)> {
        if depth > 6 {
            return None;
        }
        let ExprKind::Binary(op, a, b) = self.terms.kernel.exprs[id].kind else {
            return match self.terms.kernel.exprs[id].kind {
                ExprKind::Unary(UnaryOp::Not, inner) => self.alternatives(inner, !holds, depth + 1),
                ExprKind::Literal(Literal::Bool(value)) if value == holds => Some((BTreeSet::new(), vec![Vec::new()])),
                ExprKind::Literal(Literal::Bool(_)) => Some((BTreeSet::new(), Vec::new())),
                _ => None,
            };
        };
        match (op, holds) {
            (BinaryOp::And, false) | (BinaryOp::Or, true) => {
                let (x, y) = (self.alternatives(a, holds, depth + 1)?, self.alternatives(b, holds, depth + 1)?);
                let split: Split = x.1.into_iter().chain(y.1).collect();
                (split.len() <= 8).then(|| (x.0.union(&y.0).copied().collect(), split))
            }
            (BinaryOp::And, true) | (BinaryOp::Or, false) => {
                let (x, y) = (self.alternatives(a, holds, depth + 1), self.alternatives(b, holds, depth + 1));
                let (x, y) = match (x, y) {
                    (Some(x), Some(y)) => (x, y),
                    (one, other) => return one.or(other),
                };
                let split: Split = x.1.iter().flat_map(|x| y.1.iter().map(move |y| x.iter().chain(y).cloned().collect())).collect();
                (split.len() <= 8).then(|| (x.0.union(&y.0).copied().collect(), split))
            }
            _ if !op.is_comparison() || !self.terms.kernel.exprs[a].ty.is_integer() => None,
            _ => self.comparison(op, a, b, holds),
        }
    }

    fn comparison(&mut self, op: BinaryOp, a: ExprId, b: ExprId, holds: bool) -> Option<(BTreeSet<Atom>, Split)> {
        let (a, b) = (self.terms.term(a), self.terms.term(b));
        let risky: BTreeSet<Atom> = a.risky.union(&b.risky).copied().collect();
        let difference = a.poly.plus(&b.poly, -1)?; // a - b
        let opposite = b.poly.plus(&a.poly, -1)?;
        let above = |poly: &Poly| poly.shifted(-1);
        let split = match (op, holds) {
            (BinaryOp::Ge, true) | (BinaryOp::Lt, false) => vec![vec![difference]],
            (BinaryOp::Gt, true) | (BinaryOp::Le, false) => vec![vec![above(&difference)?]],
            (BinaryOp::Le, true) | (BinaryOp::Gt, false) => vec![vec![opposite]],
            (BinaryOp::Lt, true) | (BinaryOp::Ge, false) => vec![vec![above(&opposite)?]],
            (BinaryOp::Eq, true) | (BinaryOp::Ne, false) => vec![vec![difference, opposite]],
            (BinaryOp::Eq, false) | (BinaryOp::Ne, true) => vec![vec![above(&difference)?], vec![above(&opposite)?]],
            _ => return None,
        };
        Some((risky, split))
    }

    /// Adds what defines the atoms that have come up.
    fn define_atoms(&mut self) {
        self.tame_atoms();
        while self.defined < self.terms.atoms.len() && self.defined < 64 {
            let atom = self.defined as Atom;
            self.defined += 1;
            let info = self.terms.atoms[atom as usize].clone();
            if let Some((lo, hi)) = info.limits {
                self.between(atom, Some(lo), Some(hi));
            }
            match info.kind {
                AtomKind::Dim(_) => self.between(atom, Some(0), None),
                AtomKind::Quotient { .. } => self.pending.push(atom),
                AtomKind::Max(a, b) => self.define_choice(atom, &a, &b, 1),
                AtomKind::Min(a, b) => self.define_choice(atom, &a, &b, -1),
                AtomKind::If(condition, a, b) => self.define_if(atom, condition, &a, &b),
                _ => {}
            }
        }
        self.tame_atoms();
    }

    fn between(&mut self, atom: Atom, lo: Option<i128>, hi: Option<i128>) {
        let atom = Poly::atom(atom);
        let lo = lo.and_then(|lo| atom.shifted(lo.checked_neg()?));
        let hi = hi.and_then(|hi| Poly::constant(hi).plus(&atom, -1));
        self.facts.extend(lo.into_iter().chain(hi));
    }

    fn define_choice(&mut self, atom: Atom, a: &Poly, b: &Poly, sign: i128) {
        let atom = Poly::atom(atom);
        let over = |x: &Poly| atom.plus(x, -1).and_then(|poly| Poly::default().plus(&poly, sign));
        let (Some(over_a), Some(over_b)) = (over(a), over(b)) else { return };
        let zero = Poly::default();
        let (Some(under_a), Some(under_b)) = (zero.plus(&over_a, -1), zero.plus(&over_b, -1)) else { return };
        self.facts.extend([over_a, over_b]);
        if self.splits.len() < MAX_CONDITION {
            self.splits.push(vec![vec![under_a], vec![under_b]]);
        }
    }

    /// Where the condition holds the atom is the one, elsewhere the other.
    fn define_if(&mut self, atom: Atom, condition: ExprId, a: &Poly, b: &Poly) {
        let mut split: Split = Vec::new();
        let mut risk = BTreeSet::new();
        for (value, holds) in [(a, true), (b, false)] {
            let atom = Poly::atom(atom);
            let (Some(up), Some(down)) = (atom.plus(value, -1), value.plus(&atom, -1)) else { return };
            let (risky, alternatives) = self.alternatives(condition, holds, 0).unwrap_or((BTreeSet::new(), vec![Vec::new()]));
            risk.extend(risky);
            split.extend(alternatives.into_iter().map(|mut facts| {
                facts.extend([up.clone(), down.clone()]);
                facts
            }));
        }
        self.add(risk, split);
    }

    /// Quotients whose divisor is known to be positive get `n = q d + r` and the bounds of `r`.
    fn define_quotients(&mut self) {
        for _ in 0..2 {
            for atom in std::mem::take(&mut self.pending) {
                let AtomKind::Quotient { n, d, floor } = self.terms.atoms[atom as usize].kind.clone() else { continue };
                if self.define_quotient(atom, &n, &d, floor).is_none() {
                    self.pending.push(atom);
                }
            }
        }
        for atom in std::mem::take(&mut self.pending) {
            let AtomKind::Quotient { n, d, floor } = self.terms.atoms[atom as usize].kind.clone() else { continue };
            self.splits.extend(self.by_zero_or_not(atom, &n, &d, floor).filter(|_| self.splits.len() < MAX_CONDITION));
        }
        self.relate_remainders();
    }

    /// Division by what may be 0, and is not negative: as if it were not, or 0.
    fn by_zero_or_not(&self, q: Atom, n: &Poly, d: &Poly, floor: bool) -> Option<Split> {
        let remainder = AtomKind::Remainder { n: n.clone(), d: d.clone(), floor };
        let (q, r) = (Poly::atom(q), Poly::atom(self.terms.find(&remainder)?));
        let positive = self.holds_plainly(n);
        if !(floor || positive) || !self.holds_plainly(d) {
            return None;
        }
        let whole = q.times(d)?.plus(&r, 1)?;
        let above = d.shifted(-1)?;
        let mut divided = quotient_bounds(&self.facts, &q, n, d);
        divided.extend([n.plus(&whole, -1)?, whole.plus(n, -1)?, r.clone(), above.plus(&r, -1)?, above]);
        divided.extend(positive.then(|| q.clone()));
        let opposite = |poly: &Poly| Poly::default().plus(poly, -1);
        let zero = vec![opposite(d)?, opposite(&q)?, q, opposite(&r)?, r];
        Some(vec![divided, zero])
    }

    /// Remainders of one number by literals of which one divides the other: the smaller is the remainder of the larger.
    fn relate_remainders(&mut self) {
        let mut found = Vec::new();
        for (atom, info) in self.terms.atoms.iter().enumerate().take(64) {
            let AtomKind::Remainder { n, d, floor } = &info.kind else { continue };
            found.extend(d.as_constant().filter(|&d| d > 0).map(|d| (atom as Atom, n.clone(), d, *floor)));
        }
        for (large, n, by, floor) in &found {
            for (small, other, d, other_floor) in &found {
                if n != other || by == d || by % d != 0 || floor != other_floor || !self.facts_bound_below(*large) {
                    continue;
                }
                let q = Poly::atom(self.terms.divide_remainder(*large, *d));
                // large = d q + small, as both are remainders of a number that is not negative (or of rounding down)
                let difference = q.times(&Poly::constant(*d)).and_then(|poly| poly.plus(&Poly::atom(*small), 1));
                let Some(difference) = difference.and_then(|poly| poly.plus(&Poly::atom(*large), -1)) else { continue };
                self.facts.extend(Poly::default().plus(&difference, -1));
                self.facts.extend([difference, q]);
            }
        }
        self.defined = self.defined.max(self.terms.atoms.len());
    }

    /// Whether a fact says that an atom is not negative.
    fn facts_bound_below(&self, atom: Atom) -> bool {
        self.facts.iter().any(|fact| single_lower_bound(fact) == Some(atom))
    }

    fn define_quotient(&mut self, q: Atom, n: &Poly, d: &Poly, floor: bool) -> Option<()> {
        let remainder = AtomKind::Remainder { n: n.clone(), d: d.clone(), floor };
        let r = Poly::atom(self.terms.find(&remainder)?);
        let above = d.shifted(-1)?;
        if !self.holds_plainly(&above) {
            return None;
        }
        if let Some(atom) = Some(d).filter(|d| d.as_constant().is_none()).and_then(Poly::as_atom) {
            if !self.divisors.contains(&atom) {
                self.divisors.push(atom);
            }
        }
        let q = Poly::atom(q);
        let whole = q.times(d)?.plus(&r, 1)?;
        let (up, down) = (n.plus(&whole, -1)?, whole.plus(n, -1)?);
        let below = above.plus(&r, -1)?;
        if floor || self.holds_plainly(n) {
            self.facts.extend(quotient_bounds(&self.facts, &q, n, d));
            self.facts.extend([up, down, r.clone(), below]);
            if self.holds_plainly(n) {
                self.facts.push(q);
            }
        } else {
            let over = above.plus(&r, 1)?;
            self.facts.extend([up, down, below, over]);
            // The remainder has the sign of n.
            let not = n.negated()?;
            let minus_r = Poly::default().plus(&r, -1)?;
            self.splits.push(vec![vec![n.clone(), r, q.clone()], vec![not, minus_r, Poly::default().plus(&q, -1)?]]);
        }
        Some(())
    }

    fn holds_plainly(&self, goal: &Poly) -> bool {
        if let Some(value) = goal.as_constant() {
            return value >= 0;
        }
        let Some(not) = goal.negated() else { return false };
        let mut facts = self.facts.clone();
        facts.push(not);
        super::effort::limited(PLAIN, || {
            contradiction(&facts, &self.divisors, Depth::Linear) || contradiction(&facts, &self.divisors, Depth::Products)
        })
    }

    /// Finds 64-bit atoms that facts bound from both sides, and takes up the facts that this makes certain.
    fn tame_atoms(&mut self) {
        while self.settled != (self.facts.len(), self.tame.len()) {
            self.settled = (self.facts.len(), self.tame.len());
            let (mut above, mut below) = (BTreeSet::new(), BTreeSet::new());
            for fact in &self.facts {
                let mut wild = fact.atoms().filter(|&atom| !self.is_tame(atom));
                let (Some(atom), None) = (wild.next(), wild.next()) else { continue };
                match fact.coefficient(&[atom]).signum() {
                    1 => above.insert(atom),
                    -1 => below.insert(atom),
                    _ => continue,
                };
            }
            self.tame.extend(above.intersection(&below));
            let doubtful = std::mem::take(&mut self.doubtful);
            for (risky, split) in doubtful {
                self.add(risky, split);
            }
        }
    }

    fn is_tame(&self, atom: Atom) -> bool {
        self.terms.atoms[atom as usize].bounded || self.tame.contains(&atom)
    }

    /// Whether an expression's value is at least `least` and below `limit`, if given.
    pub(crate) fn proves_at_least(&mut self, value: ExprId, least: i128) -> bool {
        let term = self.terms.term(value);
        let goal = term.poly.shifted(least.saturating_neg());
        self.proves(term.risky, goal)
    }

    pub(crate) fn proves_below(&mut self, value: ExprId, limit: ExprId) -> bool {
        let (value, limit) = (self.terms.term(value), self.terms.term(limit));
        let risky = value.risky.union(&limit.risky).copied().collect();
        let goal = limit.poly.plus(&value.poly, -1).and_then(|poly| poly.shifted(-1));
        self.proves(risky, goal)
    }

    /// Whether a polynomial is at least 0.
    pub(crate) fn proves(&mut self, risky: BTreeSet<Atom>, goal: Option<Poly>) -> bool {
        super::effort::question();
        self.define_atoms();
        let Some(goal) = goal else { return false };
        if !risky.is_subset(&self.tame) {
            return false;
        }
        if let Some(value) = goal.as_constant() {
            return value >= 0 || self.impossible();
        }
        let Some(not) = goal.negated() else { return false };
        self.define_quotients();
        let mut facts = self.facts.clone();
        facts.push(not.tightened());
        self.refuted(&facts)
    }

    /// Whether the facts contradict one another.
    pub(crate) fn impossible(&mut self) -> bool {
        super::effort::question();
        self.define_atoms();
        self.define_quotients();
        let facts = self.facts.clone();
        self.refuted(&facts)
    }

    /// What is cheap is tried in all cases before what costs more is tried in any.
    fn refuted(&mut self, facts: &[Poly]) -> bool {
        [Depth::Linear, Depth::Integer, Depth::Products, Depth::Closure].into_iter().any(|depth| {
            contradiction(facts, &self.divisors, depth) || {
                self.cases = 0;
                let splits = std::mem::take(&mut self.splits);
                let found = self.split(facts, &splits, depth);
                self.splits = splits;
                found
            }
        })
    }

    fn split(&mut self, facts: &[Poly], splits: &[Split], depth: Depth) -> bool {
        let Some((first, rest)) = splits.split_first() else { return false };
        let mut all = true;
        for alternative in first {
            self.cases += 1;
            if self.cases > MAX_CASES {
                return false;
            }
            if super::effort::spend(facts.len()).is_none() {
                return false;
            }
            let mut facts = facts.to_vec();
            facts.extend(alternative.iter().cloned());
            if !contradiction(&facts, &self.divisors, depth) && !self.split(&facts, rest, depth) {
                all = false;
                break;
            }
        }
        all || self.split(facts, rest, depth)
    }
}

/// What bounds of `n`, which is `q d` and a remainder, say of `q`: `n < d e` that `q < e`, and `n >= d e` that `q >= e`.
fn quotient_bounds(facts: &[Poly], q: &Poly, n: &Poly, d: &Poly) -> Vec<Poly> {
    let below = |fact: &Poly| {
        let limit = fact.plus(n, 1)?.shifted(1)?.divided_by(d)?; // fact: limit * d - 1 - n
        limit.plus(q, -1)?.shifted(-1)
    };
    let above = |fact: &Poly| q.plus(&n.plus(fact, -1)?.divided_by(d)?, -1); // fact: n - least * d
    let found = facts.iter().flat_map(|fact| [below(fact), above(fact)]).flatten();
    found.filter(|bound| bound.as_constant().is_none()).take(8).collect()
}

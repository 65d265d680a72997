//! From typed expressions to polynomials: which parts are understood, and which are atoms.

use super::poly::{Atom, Poly};
use crate::check::walk;
use crate::program::*;
use crate::types::{BinaryOp, Builtin, Type, UnaryOp};
use std::collections::{BTreeSet, HashMap};

/// What an atom stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AtomKind {
    Dim(DimId),
    Scalar(ScalarId),
    Variable(VariableId),
    /// Quotient and remainder; rounding down, or towards zero.
    Quotient {
        n: Poly,
        d: Poly,
        floor: bool,
    },
    Remainder {
        n: Poly,
        d: Poly,
        floor: bool,
    },
    Max(Poly, Poly),
    Min(Poly, Poly),
    /// The second where the first, a condition, holds; else the third.
    If(ExprId, Poly, Poly),
    /// Anything else, by the first expression that is like it.
    Opaque(ExprId),
}

/// An atom and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct AtomInfo {
    pub(crate) kind: AtomKind,
    /// Whether sums and products with it can't leave 64 bits.
    pub(crate) bounded: bool,
    /// The limits of its type, if that is narrower than 64 bits.
    pub(crate) limits: Option<(i128, i128)>,
}

/// An expression's polynomial, and the unbounded atoms that stand under arithmetic in it: where they are large, the
/// arithmetic may wrap.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) poly: Poly,
    pub(crate) risky: BTreeSet<Atom>,
}

/// Atoms and polynomials of a kernel's expressions.
pub(crate) struct Terms<'k> {
    pub(crate) kernel: &'k Kernel,
    pub(crate) atoms: Vec<AtomInfo>,
    numbers: HashMap<AtomKind, Atom>,
    terms: HashMap<ExprId, Term>,
    alike: HashMap<String, ExprId>,
    first_alike: HashMap<ExprId, ExprId>,
    /// Variables whose range is known not to be bounded.
    pub(crate) wild: BTreeSet<VariableId>,
    /// Whether quotients, choices and the like take what may wrap for an unknown number, instead of passing the risk on.
    pub(crate) cautious: bool,
}

impl<'k> Terms<'k> {
    pub(crate) fn new(kernel: &'k Kernel) -> Self {
        Terms {
            kernel,
            atoms: Vec::new(),
            numbers: HashMap::new(),
            terms: HashMap::new(),
            alike: HashMap::new(),
            first_alike: HashMap::new(),
            wild: BTreeSet::new(),
            cautious: false,
        }
    }

    fn number(&mut self, kind: AtomKind, bounded: bool, limits: Option<(i128, i128)>) -> Atom {
        if let Some(&atom) = self.numbers.get(&kind) {
            return atom;
        }
        let atom = self.atoms.len() as Atom;
        self.atoms.push(AtomInfo { kind: kind.clone(), bounded, limits });
        self.numbers.insert(kind, atom);
        atom
    }

    pub(crate) fn find(&self, kind: &AtomKind) -> Option<Atom> {
        self.numbers.get(kind).copied()
    }

    pub(crate) fn variable(&mut self, variable: VariableId) -> Atom {
        let bounded = !self.wild.contains(&variable);
        self.number(AtomKind::Variable(variable), bounded, None)
    }

    fn bounded(&self, poly: &Poly) -> bool {
        poly.atoms().all(|atom| self.atoms[atom as usize].bounded)
    }

    fn unbounded<'p>(&'p self, poly: &'p Poly) -> impl Iterator<Item = Atom> + 'p {
        poly.atoms().filter(|&atom| !self.atoms[atom as usize].bounded)
    }

    /// The polynomial of an integer expression.
    pub(crate) fn term(&mut self, root: ExprId) -> Term {
        if let Some(term) = self.terms.get(&root) {
            return term.clone();
        }
        for id in walk::in_order(self.kernel, root) {
            if self.terms.contains_key(&id) {
                continue;
            }
            self.recognise(id);
            if self.kernel.exprs[id].ty.is_integer() {
                let term = self.build(id);
                self.terms.insert(id, term);
            }
        }
        self.terms.get(&root).cloned().unwrap_or_else(|| self.opaque(root))
    }

    /// Finds the first expression that is like this one.
    fn recognise(&mut self, id: ExprId) {
        if self.first_alike.contains_key(&id) {
            return;
        }
        let kind = walk::map(
            &self.kernel.exprs[id].kind,
            &mut |child| self.first_alike.get(&child).copied().unwrap_or(child),
            &mut |variable| variable,
            &mut |array| array,
        );
        let key = format!("{:?} {kind:?}", self.kernel.exprs[id].ty);
        let first = *self.alike.entry(key).or_insert(id);
        self.first_alike.insert(id, first);
    }

    fn opaque(&mut self, id: ExprId) -> Term {
        let id = self.first_alike.get(&id).copied().unwrap_or(id);
        let ty = self.kernel.exprs[id].ty;
        let narrow = ty.is_integer() && ty.bits() < 64;
        let atom = self.number(AtomKind::Opaque(id), narrow, narrow.then(|| ty.integer_range()));
        Term { poly: Poly::atom(atom), risky: BTreeSet::new() }
    }

    fn child(&self, id: ExprId) -> Option<Term> {
        self.terms.get(&id).cloned()
    }

    /// An operand of something that is not linear in it.
    fn operand(&mut self, id: ExprId) -> Option<Term> {
        let term = self.child(id)?;
        Some(if self.cautious && !term.risky.is_empty() { self.opaque(id) } else { term })
    }

    fn build(&mut self, id: ExprId) -> Term {
        let kernel = self.kernel;
        let expr = &kernel.exprs[id];
        self.understood(expr).unwrap_or_else(|| self.opaque(id))
    }

    fn understood(&mut self, expr: &Expr) -> Option<Term> {
        let simple = |poly| Some(Term { poly, risky: BTreeSet::new() });
        match &expr.kind {
            ExprKind::Literal(Literal::Int(value)) => simple(Poly::constant(*value)),
            ExprKind::Dim(dim) => simple(Poly::atom(self.number(AtomKind::Dim(*dim), true, None))),
            ExprKind::Variable(variable) => simple(Poly::atom(self.variable(*variable))),
            ExprKind::Scalar(scalar) => {
                let narrow = expr.ty.bits() < 64;
                simple(Poly::atom(self.number(AtomKind::Scalar(*scalar), narrow, narrow.then(|| expr.ty.integer_range()))))
            }
            // Casts that keep the value.
            ExprKind::Cast(inner) => {
                let from = self.kernel.exprs[*inner].ty;
                let (lo, hi) = from.integer_range();
                let (to_lo, to_hi) = expr.ty.integer_range();
                if from.is_integer() && to_lo <= lo && hi <= to_hi { self.child(*inner) } else { None }
            }
            _ if expr.ty != Type::I64 => None, // narrower arithmetic wraps early
            ExprKind::Unary(UnaryOp::Negate, a) => {
                let a = self.child(*a)?;
                self.arithmetic(&Term { poly: Poly::default(), risky: BTreeSet::new() }, &a, |zero, a| zero.plus(a, -1))
            }
            ExprKind::Binary(op, a, b) => {
                let linear = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl);
                let (a, b) = if linear { (self.child(*a)?, self.child(*b)?) } else { (self.operand(*a)?, self.operand(*b)?) };
                match op {
                    BinaryOp::Add => self.arithmetic(&a, &b, |a, b| a.plus(b, 1)),
                    BinaryOp::Sub => self.arithmetic(&a, &b, |a, b| a.plus(b, -1)),
                    BinaryOp::Mul => self.arithmetic(&a, &b, |a, b| a.times(b)),
                    BinaryOp::Div => Some(self.division(a, b, false, true)),
                    BinaryOp::Rem => Some(self.division(a, b, false, false)),
                    BinaryOp::Shl => match b.poly.as_constant() {
                        Some(count @ 0..=40) => self.arithmetic(&a, &b, |a, _| a.times(&Poly::constant(1 << count))),
                        _ => None,
                    },
                    BinaryOp::Shr => match b.poly.as_constant() {
                        Some(count @ 0..=40) => {
                            let power = Term { poly: Poly::constant(1 << count), risky: BTreeSet::new() };
                            Some(self.division(a, power, true, true))
                        }
                        _ => None,
                    },
                    BinaryOp::BitAnd => self.masked(a, b),
                    BinaryOp::BitXor => self.flipped(a, b),
                    _ => None,
                }
            }
            ExprKind::If { condition, then, otherwise } => {
                let (a, b) = (self.operand(*then)?, self.operand(*otherwise)?);
                let risky = a.risky.union(&b.risky).copied().collect();
                let bounded = self.bounded(&a.poly) && self.bounded(&b.poly);
                let condition = self.first_alike.get(condition).copied().unwrap_or(*condition);
                let atom = self.number(AtomKind::If(condition, a.poly, b.poly), bounded, None);
                Some(Term { poly: Poly::atom(atom), risky })
            }
            ExprKind::Builtin(builtin, arguments) => {
                let terms = arguments.iter().map(|&argument| self.operand(argument)).collect::<Option<Vec<_>>>()?;
                self.builtin(*builtin, terms)
            }
            _ => None,
        }
    }

    /// `x & (2^k - 1)` is the remainder by 2^k.
    fn masked(&mut self, a: Term, b: Term) -> Option<Term> {
        let (x, mask) = if b.poly.as_constant().is_some() { (a, b) } else { (b, a) };
        let size = mask.poly.as_constant()?.checked_add(1)?;
        let power = (1..=1 << 40).contains(&size) && size & (size - 1) == 0;
        power.then(|| self.division(x, Term { poly: Poly::constant(size), risky: BTreeSet::new() }, true, false))
    }

    /// `x ^ 2^k` adds 2^k where the bit is not set, and takes it away where it is.
    fn flipped(&mut self, a: Term, b: Term) -> Option<Term> {
        let (x, bit) = if b.poly.as_constant().is_some() { (a, b) } else { (b, a) };
        let bit = bit.poly.as_constant().filter(|bit| (1..=1 << 40).contains(bit) && bit & (bit - 1) == 0)?;
        let constant = |value| Term { poly: Poly::constant(value), risky: BTreeSet::new() };
        let above = self.division(x.clone(), constant(bit), true, true);
        let set = self.division(above, constant(2), true, false);
        let poly = x.poly.shifted(bit)?.plus(&set.poly, bit.checked_mul(-2)?)?;
        Some(Term { poly, risky: x.risky })
    }

    fn builtin(&mut self, builtin: Builtin, terms: Vec<Term>) -> Option<Term> {
        let mut terms = terms.into_iter();
        let mut next = || terms.next();
        match builtin {
            Builtin::Min => Some(self.choice(next()?, next()?, false)),
            Builtin::Max => Some(self.choice(next()?, next()?, true)),
            Builtin::Clamp => {
                let (x, lo, hi) = (next()?, next()?, next()?);
                let raised = self.choice(x, lo, true);
                Some(self.choice(raised, hi, false))
            }
            Builtin::Abs => {
                let x = next()?;
                let zero = Term { poly: Poly::default(), risky: BTreeSet::new() };
                let negative = self.arithmetic(&zero, &x, |zero, x| zero.plus(x, -1))?;
                Some(self.choice(x, negative, true))
            }
            Builtin::DivFloor => {
                let (a, b) = (next()?, next()?);
                Some(self.division(a, b, true, true))
            }
            Builtin::ModFloor => {
                let (a, b) = (next()?, next()?);
                Some(self.division(a, b, true, false))
            }
            _ => None,
        }
    }

    fn arithmetic(&self, a: &Term, b: &Term, f: impl Fn(&Poly, &Poly) -> Option<Poly>) -> Option<Term> {
        let poly = f(&a.poly, &b.poly)?;
        let mut risky: BTreeSet<Atom> = a.risky.union(&b.risky).copied().collect();
        risky.extend(self.unbounded(&a.poly));
        risky.extend(self.unbounded(&b.poly));
        Some(Term { poly, risky })
    }

    fn division(&mut self, a: Term, b: Term, floor: bool, quotient: bool) -> Term {
        let risky = a.risky.union(&b.risky).copied().collect();
        let (n, d) = (a.poly, b.poly);
        if let (Some(n), Some(d)) = (n.as_constant(), d.as_constant()) {
            let value = match (floor, d) {
                (_, 0) => (0, 0),
                (true, d) => {
                    let q = n.div_euclid(d) - i128::from(d < 0 && n.rem_euclid(d) != 0);
                    (q, n - q * d)
                }
                (false, d) => (n / d, n % d),
            };
            let poly = Poly::constant(if quotient { value.0 } else { value.1 });
            return Term { poly, risky };
        }
        if let Some(exact) = d.as_constant().and_then(|d| n.divided(d)) {
            return Term { poly: if quotient { exact } else { Poly::default() }, risky };
        }
        let bounded = self.bounded(&n) && self.bounded(&d);
        let q = self.number(AtomKind::Quotient { n: n.clone(), d: d.clone(), floor }, bounded, None);
        let r = self.number(AtomKind::Remainder { n, d, floor }, bounded, None);
        Term { poly: Poly::atom(if quotient { q } else { r }), risky }
    }

    /// The quotient and remainder of a remainder by a literal.
    pub(crate) fn divide_remainder(&mut self, remainder: Atom, d: i128) -> Atom {
        let (n, d) = (Poly::atom(remainder), Poly::constant(d));
        self.number(AtomKind::Remainder { n: n.clone(), d: d.clone(), floor: true }, true, None);
        self.number(AtomKind::Quotient { n, d, floor: true }, true, None)
    }

    fn choice(&mut self, a: Term, b: Term, max: bool) -> Term {
        let risky = a.risky.union(&b.risky).copied().collect();
        let (a, b) = (a.poly, b.poly);
        if let Some(difference) = a.plus(&b, -1).and_then(|difference| difference.as_constant()) {
            return Term { poly: if (difference >= 0) == max { a } else { b }, risky };
        }
        let bounded = self.bounded(&a) && self.bounded(&b);
        let (a, b) = if a <= b { (a, b) } else { (b, a) };
        let kind = if max { AtomKind::Max(a, b) } else { AtomKind::Min(a, b) };
        Term { poly: Poly::atom(self.number(kind, bounded, None)), risky }
    }
}

impl Terms<'_> {
    /// Whether an atom is a dim.
    pub(crate) fn is_dim(&self, atom: Atom) -> bool {
        matches!(self.atoms[atom as usize].kind, AtomKind::Dim(_))
    }

    /// Whether an atom is a scalar parameter.
    pub(crate) fn is_scalar(&self, atom: Atom) -> bool {
        matches!(self.atoms[atom as usize].kind, AtomKind::Scalar(_))
    }

    /// Whether an atom is that variable.
    pub(crate) fn is_variable(&self, atom: Atom, variable: VariableId) -> bool {
        self.atoms[atom as usize].kind == AtomKind::Variable(variable)
    }
}

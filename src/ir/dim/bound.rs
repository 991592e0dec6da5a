//! Proofs of order, and bounds in terms of free symbols.

use std::cmp::Ordering;

use super::interval::{self as iv, Interval};
use super::poly::{self, Atom, Mono, NodeKind, Term};
use super::{Dim, Repr, SymbolKind};

/// Largest polynomials whose atoms are shifted to start at 0.
const MAX_SHIFTED_TERMS: usize = 24;
const MAX_SHIFTED_DEGREE: u32 = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Lower,
    Upper,
}

impl Side {
    fn flipped(self) -> Self {
        match self {
            Self::Lower => Self::Upper,
            Self::Upper => Self::Lower,
        }
    }
}

impl Dim {
    /// The order of the values, only when it is proven to be the same under every binding.
    pub fn compare(&self, other: &Dim) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        match difference_range(self, other) {
            (Some(lo), _) if lo > 0 => Some(Ordering::Greater),
            (_, Some(hi)) if hi < 0 => Some(Ordering::Less),
            (Some(0), Some(0)) => Some(Ordering::Equal),
            _ => None,
        }
    }

    /// `true` if proven to be at least `other`, `false` if proven to be less.
    pub fn is_ge(&self, other: &Dim) -> Option<bool> {
        if self == other {
            return Some(true);
        }
        match difference_range(self, other) {
            (Some(lo), _) if lo >= 0 => Some(true),
            (_, Some(hi)) if hi < 0 => Some(false),
            _ => None,
        }
    }

    /// Whether the values are equal, when either is proven.
    pub fn is_eq(&self, other: &Dim) -> Option<bool> {
        if self == other {
            return Some(true);
        }
        match difference_range(self, other) {
            (Some(lo), _) if lo > 0 => Some(false),
            (_, Some(hi)) if hi < 0 => Some(false),
            (Some(0), Some(0)) => Some(true),
            _ => None,
        }
    }

    /// An expression in free symbols alone that is never below the value; `None` when none is known.
    pub fn upper_bound(&self) -> Option<Dim> {
        bound(self, Side::Upper)
    }

    /// An expression in free symbols alone that is never above the value; `None` when none is known.
    pub fn lower_bound(&self) -> Option<Dim> {
        bound(self, Side::Lower)
    }
}

/// Range of `a - b`, by the cheapest proof that tells the sign.
fn difference_range(a: &Dim, b: &Dim) -> Interval {
    if let (Some(x), Some(y)) = (a.as_const(), b.as_const()) {
        // Not by subtraction, which saturates.
        return match x.cmp(&y) {
            Ordering::Less => (None, Some(-1)),
            Ordering::Equal => (Some(0), Some(0)),
            Ordering::Greater => (Some(1), None),
        };
    }
    let difference = a - b;
    let decided = |r: Interval| r.0.is_some_and(|lo| lo >= 0) || r.1.is_some_and(|hi| hi < 0);
    let mut range = difference.range();
    if decided(range) {
        return range;
    }
    let negated = -&difference;
    range = iv::iv_intersect(range, (shifted_lower(&difference), shifted_lower(&negated).map(|lo| -lo)));
    if !decided(range) && !difference.is_free() {
        let lo = bound(&difference, Side::Lower).and_then(|d| d.range().0.or_else(|| shifted_lower(&d)));
        let hi = bound(&difference, Side::Upper);
        let hi = hi.and_then(|d| d.range().1.or_else(|| shifted_lower(&-d).map(|lo| -lo)));
        range = iv::iv_intersect(range, (lo, hi));
    }
    range
}

/// Lower bound that is found by writing each atom as its least value plus something not negative: if no
/// coefficient is negative then, the constant term is the bound. Proves `H*N >= N` for instance.
fn shifted_lower(dim: &Dim) -> Option<i128> {
    let terms = dim.terms();
    if terms.len() > MAX_SHIFTED_TERMS || terms.first()?.mono.degree > MAX_SHIFTED_DEGREE {
        return None;
    }
    let mut all = Vec::new();
    for term in terms.iter() {
        let mut product = vec![Term { mono: Mono::ONE, coef: term.coef }];
        for (atom, power) in &term.mono.factors {
            let shifted =
                [Term { mono: Mono::atom(atom.clone()), coef: 1 }, Term { mono: Mono::ONE, coef: atom.range().0? }];
            for _ in 0..*power {
                product = poly::products(&product, &shifted);
            }
        }
        all.extend(product);
    }
    if all.iter().any(|t| t.coef.abs() == iv::MAX) {
        return None;
    }
    poly::normalize(&mut all);
    let mut lo = 0;
    for term in &all {
        match (term.mono.is_one(), term.coef) {
            (true, coef) => lo = coef,
            (false, coef) if coef < 0 => return None,
            _ => {}
        }
    }
    (lo.abs() != iv::MAX).then_some(lo)
}

fn constant_bound(range: Interval, side: Side) -> Option<Dim> {
    if side == Side::Upper { range.1 } else { range.0 }.map(Dim::constant)
}

fn bound(dim: &Dim, side: Side) -> Option<Dim> {
    let poly = match &dim.0 {
        Repr::Const(_) => return Some(dim.clone()),
        Repr::Expr(poly) => poly,
    };
    if dim.is_free() {
        return Some(dim.clone());
    }
    let mut terms = Vec::new();
    for term in &poly.terms {
        let mono_side = if term.coef < 0 { side.flipped() } else { side };
        let Some(product) = bound_mono(&term.mono, mono_side) else {
            return constant_bound(poly.range, side);
        };
        terms.extend((product * term.coef).terms().iter().cloned());
    }
    Some(Dim::from_terms(terms)).filter(Dim::is_free).or_else(|| constant_bound(poly.range, side))
}

fn bound_mono(mono: &Mono, side: Side) -> Option<Dim> {
    if let Some(atom) = mono.single() {
        return bound_atom(atom, side);
    }
    let itself = mono.clone().into_dim();
    if itself.is_free() {
        return Some(itself);
    }
    // A product of factors that are not negative grows with each of them.
    let mut product = Dim::ONE;
    for (atom, power) in &mono.factors {
        if atom.range().0.is_none_or(|lo| lo < 0) {
            return constant_bound(mono.range(), side);
        }
        let Some(mut factor) = bound_atom(atom, side) else {
            return constant_bound(mono.range(), side);
        };
        if factor.range().0.is_none_or(|lo| lo < 0) {
            factor = factor.max(&Dim::ZERO);
        }
        product *= factor.pow(*power);
    }
    Some(product)
}

fn bound_atom(atom: &Atom, side: Side) -> Option<Dim> {
    let fallback = || constant_bound(atom.range(), side);
    let node = match atom {
        Atom::Sym(symbol) if symbol.kind() == SymbolKind::Free => return Some(symbol.into()),
        Atom::Sym(symbol) if side == Side::Upper => return symbol.hi().cloned().or_else(fallback),
        Atom::Sym(_) => return fallback(),
        Atom::Node(node) => node,
    };
    let found = match &node.kind {
        NodeKind::Floor(x, d) => bound_floor(x, d, side),
        NodeKind::Min(args) | NodeKind::Max(args) => {
            let is_min = matches!(node.kind, NodeKind::Min(_));
            let pick = |a: Dim, b: Dim| if is_min { a.min(&b) } else { a.max(&b) };
            let bounds = args.iter().map(|d| bound(d, side));
            // One operand is enough for what it bounds by itself.
            if is_min == (side == Side::Upper) {
                bounds.flatten().reduce(pick)
            } else {
                bounds.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().reduce(pick))
            }
        }
    };
    found.filter(Dim::is_free).or_else(fallback)
}

fn bound_floor(x: &Dim, d: &Dim, side: Side) -> Option<Dim> {
    if d.range().0.is_none_or(|lo| lo < 1) {
        return None;
    }
    let x = bound(x, side)?;
    if d.is_free() {
        return Some(x.floor_div(d));
    }
    // The quotient shrinks with a growing divisor only where the numerator is not negative.
    let (x, d) = match side {
        Side::Upper => (x.max(&Dim::ZERO), bound(d, Side::Lower)?),
        Side::Lower if x.range().0.is_some_and(|lo| lo >= 0) => (x, bound(d, Side::Upper)?),
        Side::Lower => return None,
    };
    d.range().0.filter(|lo| *lo >= 1)?;
    Some(x.floor_div(&d))
}

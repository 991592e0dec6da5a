//! Canonical polynomials over atoms: sorted terms, cached size, depth, hash and range.

use std::cmp::Ordering;
use std::sync::Arc;

use super::interval::{self as iv, Interval};
use super::range::terms_range;
use super::{Dim, Repr, Symbol, SymbolKind};
use crate::ir::stable_hash::Fnv;

/// Most terms of a polynomial at the top level.
const MAX_TERMS: usize = 256;
/// Most terms of a polynomial inside an atom.
const MAX_INNER_TERMS: usize = 64;
/// Deepest nesting of atoms.
const MAX_DEPTH: u32 = 24;
/// Most nodes of a whole expression, counted as a tree; a power counts as often as it multiplies.
const MAX_NODES: u32 = 2000;
/// Most products of terms that a multiplication expands.
const MAX_PRODUCTS: usize = 4096;

/// What cannot be expressed as a polynomial of its operands.
#[derive(PartialEq, Eq)]
pub(super) enum NodeKind {
    Floor(Dim, Dim),
    Min(Vec<Dim>),
    Max(Vec<Dim>),
}

impl NodeKind {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Floor(x, d), Self::Floor(y, e)) => x.structural_cmp(y).then_with(|| d.structural_cmp(e)),
            (Self::Min(a), Self::Min(b)) | (Self::Max(a), Self::Max(b)) => {
                a.iter().map(|d| &d.0).cmp(b.iter().map(|d| &d.0))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Floor(..) => 0,
            Self::Min(_) => 1,
            Self::Max(_) => 2,
        }
    }
}

pub(super) struct Node {
    pub(super) kind: NodeKind,
    hash: u64,
    nodes: u32,
    depth: u32,
    range: Interval,
}

impl Node {
    /// The atom as a dimension, or a constant or an opaque symbol in its stead.
    pub(super) fn make(kind: NodeKind) -> Dim {
        let (tag, range, args) = match &kind {
            NodeKind::Floor(x, d) => ("floor", iv::iv_floor_div(x.range(), d.range()), vec![x, d]),
            NodeKind::Min(args) => {
                let range = args.iter().map(Dim::range).reduce(iv::iv_min);
                ("min", range.unwrap_or((None, None)), args.iter().collect())
            }
            NodeKind::Max(args) => {
                let range = args.iter().map(Dim::range).reduce(iv::iv_max);
                ("max", range.unwrap_or((None, None)), args.iter().collect())
            }
        };
        if let (Some(lo), Some(hi)) = range
            && lo == hi
        {
            return Dim::constant(lo);
        }
        let hash = args.iter().fold(Fnv::new(tag), |h, d| h.word(d.stable_hash())).0;
        let nodes = args.iter().fold(1_u32, |n, d| n.saturating_add(d.nodes()));
        let depth = args.iter().map(|d| d.depth()).max().unwrap_or(0).saturating_add(1);
        if nodes > MAX_NODES || depth > MAX_DEPTH || args.iter().any(|d| d.terms().len() > MAX_INNER_TERMS) {
            return opaque(hash, range);
        }
        let node = Self { kind, hash, nodes, depth, range };
        Mono::atom(Atom::Node(Arc::new(node))).into_dim()
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.hash == other.hash && self.kind == other.kind)
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        if std::ptr::eq(self, other) { Ordering::Equal } else { self.kind.cmp(&other.kind) }
    }
}

/// A variable of the polynomials.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Atom {
    Sym(Symbol),
    Node(Arc<Node>),
}

impl Atom {
    pub(super) fn stable_hash(&self) -> u64 {
        match self {
            Self::Sym(s) => s.stable_hash(),
            Self::Node(n) => n.hash,
        }
    }

    fn nodes(&self) -> u32 {
        match self {
            Self::Sym(_) => 1,
            Self::Node(n) => n.nodes,
        }
    }

    fn depth(&self) -> u32 {
        match self {
            Self::Sym(_) => 0,
            Self::Node(n) => n.depth,
        }
    }

    pub(super) fn range(&self) -> Interval {
        match self {
            Self::Sym(s) => s.range(),
            Self::Node(n) => n.range,
        }
    }
}

/// A product of atoms with powers, sorted by atom. The order is graded and lexicographic, greatest first.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Mono {
    pub(super) degree: u32,
    pub(super) factors: Vec<(Atom, u32)>,
}

impl PartialOrd for Mono {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Mono {
    fn cmp(&self, other: &Self) -> Ordering {
        other.degree.cmp(&self.degree).then_with(|| {
            let factors = self.factors.iter().zip(&other.factors);
            let mut orders = factors.map(|((a, p), (b, q))| a.cmp(b).then_with(|| q.cmp(p)));
            orders.find(|o| o.is_ne()).unwrap_or_else(|| other.factors.len().cmp(&self.factors.len()))
        })
    }
}

impl Mono {
    pub(super) const ONE: Self = Self { degree: 0, factors: Vec::new() };

    pub(super) fn atom(atom: Atom) -> Self {
        Self { degree: 1, factors: vec![(atom, 1)] }
    }

    pub(super) fn into_dim(self) -> Dim {
        Dim::from_terms(vec![Term { mono: self, coef: 1 }])
    }

    pub(super) fn is_one(&self) -> bool {
        self.factors.is_empty()
    }

    /// Walks both sorted factor lists; `f` gets the atom and its power on either side.
    fn merge(&self, other: &Self, mut f: impl FnMut(&Atom, u32, u32) -> Option<u32>) -> Option<Self> {
        let (mut a, mut b) = (self.factors.iter().peekable(), other.factors.iter().peekable());
        let mut out = Self { degree: 0, factors: Vec::with_capacity(self.factors.len() + other.factors.len()) };
        loop {
            let order = match (a.peek(), b.peek()) {
                (None, None) => return Some(out),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((x, _)), Some((y, _))) => x.cmp(y),
            };
            let left = if order.is_le() { a.next() } else { None };
            let right = if order.is_ge() { b.next() } else { None };
            let Some((atom, _)) = left.or(right) else {
                return Some(out);
            };
            let power = f(atom, left.map_or(0, |x| x.1), right.map_or(0, |x| x.1))?;
            if power > 0 {
                out.degree = out.degree.saturating_add(power);
                out.factors.push((atom.clone(), power));
            }
        }
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        if self.is_one() {
            return other.clone();
        }
        self.merge(other, |_, p, q| Some(p.saturating_add(q))).unwrap_or(Self::ONE)
    }

    pub(super) fn divided(&self, other: &Self) -> Option<Self> {
        if other.is_one() {
            return Some(self.clone());
        }
        if other.degree > self.degree {
            return None;
        }
        self.merge(other, |_, p, q| p.checked_sub(q))
    }

    pub(super) fn common(&self, other: &Self) -> Self {
        self.merge(other, |_, p, q| Some(p.min(q))).unwrap_or(Self::ONE)
    }

    pub(super) fn range(&self) -> Interval {
        let ranges = self.factors.iter().map(|(a, p)| iv::iv_pow(a.range(), *p));
        ranges.reduce(iv::iv_mul).unwrap_or((Some(1), Some(1)))
    }

    /// The only factor, when its power is 1.
    pub(super) fn single(&self) -> Option<&Atom> {
        match self.factors.as_slice() {
            [(atom, 1)] => Some(atom),
            _ => None,
        }
    }
}

/// A monomial with its coefficient, which is not 0 in a canonical polynomial.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) mono: Mono,
    pub(super) coef: i128,
}

/// A canonical polynomial that is not a constant.
pub(super) struct Poly {
    pub(super) terms: Vec<Term>,
    pub(super) hash: u64,
    pub(super) nodes: u32,
    pub(super) depth: u32,
    pub(super) range: Interval,
}

impl PartialEq for Poly {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.hash == other.hash && self.terms == other.terms)
    }
}

impl Eq for Poly {}

impl PartialOrd for Poly {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Poly {
    fn cmp(&self, other: &Self) -> Ordering {
        if std::ptr::eq(self, other) { Ordering::Equal } else { self.terms.cmp(&other.terms) }
    }
}

/// Sorts, merges equal monomials and drops the terms that cancel.
pub(super) fn normalize(terms: &mut Vec<Term>) {
    terms.sort_by(|a, b| a.mono.cmp(&b.mono));
    terms.dedup_by(|next, kept| {
        let same = next.mono == kept.mono;
        if same {
            kept.coef = iv::add(kept.coef, next.coef);
        }
        same
    });
    terms.retain(|t| t.coef != 0);
}

/// All products of the terms, not normalized.
pub(super) fn products(a: &[Term], b: &[Term]) -> Vec<Term> {
    let mut out = Vec::with_capacity(a.len().saturating_mul(b.len()));
    for x in a {
        out.extend(b.iter().map(|y| Term { mono: x.mono.times(&y.mono), coef: iv::mul(x.coef, y.coef) }));
    }
    out
}

/// The symbol that stands for an expression past the size bound.
pub(super) fn opaque(hash: u64, range: Interval) -> Dim {
    let lo = range.0.unwrap_or(i128::MIN);
    let symbol = Symbol::new(&format!("expr_{hash:016x}"), SymbolKind::Opaque, lo, range.1.map(Dim::constant));
    Dim::from(&symbol)
}

impl Dim {
    /// The terms of the canonical polynomial; none for 0.
    pub(super) fn terms(&self) -> std::borrow::Cow<'_, [Term]> {
        match &self.0 {
            Repr::Const(0) => std::borrow::Cow::Borrowed(&[]),
            Repr::Const(c) => std::borrow::Cow::Owned(vec![Term { mono: Mono::ONE, coef: *c }]),
            Repr::Expr(poly) => std::borrow::Cow::Borrowed(&poly.terms),
        }
    }

    /// The canonical dimension of any list of terms.
    pub(super) fn from_terms(mut terms: Vec<Term>) -> Self {
        normalize(&mut terms);
        match terms.as_slice() {
            [] => return Self::ZERO,
            [only] if only.mono.is_one() => return Self::constant(only.coef),
            _ => {}
        }
        let mut hash = Fnv::new("sum");
        let (mut nodes, mut depth) = (0_u32, 0_u32);
        for term in &terms {
            hash = hash.int(term.coef);
            nodes = nodes.saturating_add(1);
            for (atom, power) in &term.mono.factors {
                hash = hash.word(atom.stable_hash()).word(u64::from(*power));
                nodes = nodes.saturating_add(atom.nodes().saturating_mul(*power));
                depth = depth.max(atom.depth());
            }
        }
        let range = terms_range(&terms, 3);
        if let (Some(lo), Some(hi)) = range
            && lo == hi
        {
            return Self::constant(lo);
        }
        if terms.len() > MAX_TERMS || nodes > MAX_NODES {
            return opaque(hash.0, range);
        }
        Self(Repr::Expr(Arc::new(Poly { terms, hash: hash.0, nodes, depth, range })))
    }

    pub(super) fn add_dim(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Repr::Const(a), Repr::Const(b)) => Self::constant(iv::add(*a, *b)),
            (_, Repr::Const(0)) => self.clone(),
            (Repr::Const(0), _) => other.clone(),
            _ => Self::from_terms([&*self.terms(), &*other.terms()].concat()),
        }
    }

    pub(super) fn mul_dim(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Repr::Const(a), Repr::Const(b)) => return Self::constant(iv::mul(*a, *b)),
            (Repr::Const(0), _) | (_, Repr::Const(0)) => return Self::ZERO,
            (_, Repr::Const(1)) => return self.clone(),
            (Repr::Const(1), _) => return other.clone(),
            _ => {}
        }
        let (a, b) = (self.terms(), other.terms());
        if a.len().saturating_mul(b.len()) > MAX_PRODUCTS {
            let (x, y) = (self.stable_hash(), other.stable_hash());
            let hash = Fnv::new("product").word(x.min(y)).word(x.max(y)).0;
            return opaque(hash, iv::iv_mul(self.range(), other.range()));
        }
        Self::from_terms(products(&a, &b))
    }

    pub(super) fn neg_dim(&self) -> Self {
        self.mul_dim(&Self::constant(-1))
    }

    pub(super) fn stable_hash(&self) -> u64 {
        match &self.0 {
            Repr::Const(c) => Fnv::new("const").int(*c).0,
            Repr::Expr(poly) => poly.hash,
        }
    }

    pub(super) fn nodes(&self) -> u32 {
        match &self.0 {
            Repr::Const(_) => 1,
            Repr::Expr(poly) => poly.nodes,
        }
    }

    pub(super) fn depth(&self) -> u32 {
        match &self.0 {
            Repr::Const(_) => 0,
            Repr::Expr(poly) => poly.depth,
        }
    }

    /// The only atom, when the dimension is nothing else.
    pub(super) fn as_atom(&self) -> Option<&Atom> {
        match &self.0 {
            Repr::Expr(poly) => match poly.terms.as_slice() {
                [term] if term.coef == 1 => term.mono.single(),
                _ => None,
            },
            Repr::Const(_) => None,
        }
    }

    pub(super) fn as_node(&self) -> Option<&NodeKind> {
        match self.as_atom() {
            Some(Atom::Node(node)) => Some(&node.kind),
            _ => None,
        }
    }
}

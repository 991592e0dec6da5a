//! Symbolic integers: the sizes of tensors and every cost that follows from them.
//!
//! A [`Dim`] is an immutable value in canonical form, so that equal expressions mostly compare equal: a sum of
//! monomials over symbols, floored quotients, minima and maxima. Arithmetic saturates at ±`i128::MAX`, division
//! is floored, and expressions past a size bound become opaque symbols that keep their proven range.

mod bound;
mod div;
mod interval;
mod ops;
mod parse;
mod poly;
mod print;
mod range;
mod symbol;
mod tape;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use interval as iv;
pub use parse::DimError;
use poly::{Atom, NodeKind, Poly, Term};
pub use symbol::{Symbol, SymbolKind};
pub use tape::Tape;

/// A symbolic integer in canonical form; cheap to clone, and mostly a constant.
///
/// `==` is equality of the canonical forms. There is no `Ord`, which would be taken for the order of the values:
/// that one is [`Dim::compare`], and [`Dim::structural_cmp`] sorts.
#[derive(Clone, PartialEq, Eq)]
pub struct Dim(Repr);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Repr {
    Const(i128),
    Expr(Arc<Poly>),
}

impl Hash for Dim {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Const(c) => c.hash(state),
            Repr::Expr(poly) => poly.hash.hash(state),
        }
    }
}

impl Default for Dim {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Dim {
    /// The constant 0.
    pub const ZERO: Self = Self::constant(0);
    /// The constant 1.
    pub const ONE: Self = Self::constant(1);

    /// A constant; `i128::MIN` saturates to `-i128::MAX`.
    pub const fn constant(value: i128) -> Self {
        Self(Repr::Const(iv::clamp(value)))
    }

    /// The value of a constant.
    pub fn as_const(&self) -> Option<i128> {
        match self.0 {
            Repr::Const(c) => Some(c),
            Repr::Expr(_) => None,
        }
    }

    /// The value of a constant that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_const()?.try_into().ok()
    }

    /// The value of a constant that fits and is not negative.
    pub fn as_usize(&self) -> Option<usize> {
        self.as_const()?.try_into().ok()
    }

    /// A total order of the canonical forms, for sorting alone: it says nothing about the values.
    pub fn structural_cmp(&self, other: &Dim) -> Ordering {
        self.0.cmp(&other.0)
    }

    /// The symbol, when the dimension is nothing but one.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match self.as_atom() {
            Some(Atom::Sym(symbol)) => Some(symbol),
            _ => None,
        }
    }

    /// The power with a constant exponent, by repeated squaring.
    #[must_use]
    pub fn pow(&self, exponent: u32) -> Self {
        if let Some(c) = self.as_const() {
            return Self::constant(iv::pow(c, exponent));
        }
        let mut out = Self::ONE;
        for bit in (0..u32::BITS - exponent.leading_zeros()).rev() {
            out = out.mul_dim(&out);
            if (exponent >> bit) & 1 == 1 {
                out = out.mul_dim(self);
            }
        }
        out
    }

    /// Interval that holds every value within the bounds of the symbols; `None` is unbounded.
    pub fn range(&self) -> (Option<i128>, Option<i128>) {
        match &self.0 {
            Repr::Const(c) => (Some(*c), Some(*c)),
            Repr::Expr(poly) => poly.range,
        }
    }

    /// The value under a binding. `None` if a symbol is unbound or a divisor is 0.
    pub fn eval(&self, lookup: &dyn Fn(&Symbol) -> Option<i128>) -> Option<i128> {
        let poly = match &self.0 {
            Repr::Const(c) => return Some(*c),
            Repr::Expr(poly) => poly,
        };
        let mut sum = 0;
        for term in &poly.terms {
            let mut product = term.coef;
            for (atom, power) in &term.mono.factors {
                product = iv::mul(product, iv::pow(eval_atom(atom, lookup)?, *power));
            }
            sum = iv::add(sum, product);
        }
        Some(sum)
    }

    /// Replaces the symbols for which `f` returns an expression; the others stay.
    #[must_use]
    pub fn substitute(&self, f: &dyn Fn(&Symbol) -> Option<Dim>) -> Dim {
        let poly = match &self.0 {
            Repr::Const(_) => return self.clone(),
            Repr::Expr(poly) => poly,
        };
        let mut terms: Vec<Term> = Vec::with_capacity(poly.terms.len());
        for term in &poly.terms {
            let factors = term.mono.factors.iter();
            let product = factors.fold(Self::constant(term.coef), |product, (atom, power)| {
                product.mul_dim(&substitute_atom(atom, f).pow(*power))
            });
            terms.extend(product.terms().iter().cloned());
        }
        Self::from_terms(terms)
    }

    /// Calls `f` for each occurrence of a symbol, in canonical order; not for those in bounds of symbols.
    pub fn for_each_symbol(&self, f: &mut dyn FnMut(&Symbol)) {
        self.any_symbol(&mut |symbol| {
            f(symbol);
            false
        });
    }

    /// Whether the symbol occurs.
    pub fn contains_symbol(&self, symbol: &Symbol) -> bool {
        self.any_symbol(&mut |s| s == symbol)
    }

    /// Whether all symbols are of kind [`SymbolKind::Free`].
    pub fn is_free(&self) -> bool {
        !self.any_symbol(&mut |s| s.kind() != SymbolKind::Free)
    }

    fn any_symbol(&self, f: &mut dyn FnMut(&Symbol) -> bool) -> bool {
        let poly = match &self.0 {
            Repr::Const(_) => return false,
            Repr::Expr(poly) => poly,
        };
        poly.terms.iter().flat_map(|t| &t.mono.factors).any(|(atom, _)| match atom {
            Atom::Sym(symbol) => f(symbol),
            Atom::Node(node) => match &node.kind {
                NodeKind::Floor(x, d) => x.any_symbol(f) || d.any_symbol(f),
                NodeKind::Min(args) | NodeKind::Max(args) => args.iter().any(|d| d.any_symbol(f)),
            },
        })
    }
}

fn eval_atom(atom: &Atom, lookup: &dyn Fn(&Symbol) -> Option<i128>) -> Option<i128> {
    let node = match atom {
        Atom::Sym(symbol) => return lookup(symbol).map(iv::clamp),
        Atom::Node(node) => node,
    };
    match &node.kind {
        NodeKind::Floor(x, d) => iv::floor_div(x.eval(lookup)?, d.eval(lookup)?),
        NodeKind::Min(args) => args.iter().map(|d| d.eval(lookup)).reduce(|a, b| Some(a?.min(b?)))?,
        NodeKind::Max(args) => args.iter().map(|d| d.eval(lookup)).reduce(|a, b| Some(a?.max(b?)))?,
    }
}

fn substitute_atom(atom: &Atom, f: &dyn Fn(&Symbol) -> Option<Dim>) -> Dim {
    let node = match atom {
        Atom::Sym(symbol) => return f(symbol).unwrap_or_else(|| Dim::from(symbol)),
        Atom::Node(node) => node,
    };
    match &node.kind {
        NodeKind::Floor(x, d) => x.substitute(f).floor_div(&d.substitute(f)),
        NodeKind::Min(args) => args.iter().map(|d| d.substitute(f)).reduce(|a, b| a.min(&b)).unwrap_or_default(),
        NodeKind::Max(args) => args.iter().map(|d| d.substitute(f)).reduce(|a, b| a.max(&b)).unwrap_or_default(),
    }
}

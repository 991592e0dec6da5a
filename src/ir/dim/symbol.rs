//! Named integers that are not known.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::Dim;
use super::interval::Interval;
use super::poly::{Atom, Mono};
use crate::ir::stable_hash::Fnv;

/// Deepest chain of bounds by symbols that have bounds by symbols.
const MAX_LEVEL: u32 = 32;

/// What is known about where a symbol comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SymbolKind {
    /// Dimension of a graph input, which the user can bind.
    Free,
    /// Depends on values of tensors.
    Data,
    /// An expression past the size bound, or one that is unknown.
    Opaque,
}

/// A named integer with proven bounds. Its identity is its name alone.
#[derive(Clone)]
pub struct Symbol(Arc<SymbolData>);

struct SymbolData {
    name: String,
    kind: SymbolKind,
    lo: i128,
    hi: Option<Dim>,
    range: Interval,
    hash: u64,
    level: u32,
}

impl Symbol {
    /// A symbol that is never below `lo` (`i128::MIN` is unbounded) nor above `hi`.
    ///
    /// The upper bound is kept in terms of free symbols, see [`Dim::upper_bound`].
    pub fn new(name: &str, kind: SymbolKind, lo: i128, hi: Option<Dim>) -> Self {
        let hi_const = hi.as_ref().and_then(|d| d.range().1);
        let mut level = 0;
        let mut hi = hi.and_then(|d| d.upper_bound());
        if let Some(d) = &hi {
            d.for_each_symbol(&mut |s| level = level.max(s.0.level + 1));
        }
        if level > MAX_LEVEL {
            hi = hi_const.map(Dim::constant);
            level = 0;
        }
        let lo_known = if lo == i128::MIN { None } else { Some(lo) };
        let hash = Fnv::new("symbol").bytes(name.as_bytes()).0;
        Self(Arc::new(SymbolData { name: name.to_owned(), kind, lo, hi, range: (lo_known, hi_const), hash, level }))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Where the symbol comes from.
    pub fn kind(&self) -> SymbolKind {
        self.0.kind
    }

    /// Proven lower bound; `i128::MIN` when unknown.
    pub fn lo(&self) -> i128 {
        self.0.lo
    }

    /// Proven upper bound, in terms of free symbols.
    pub fn hi(&self) -> Option<&Dim> {
        self.0.hi.as_ref()
    }

    /// Constant bounds; `None` is unbounded.
    pub fn range(&self) -> (Option<i128>, Option<i128>) {
        self.0.range
    }

    pub(super) fn stable_hash(&self) -> u64 {
        self.0.hash
    }
}

impl From<&Symbol> for Dim {
    fn from(symbol: &Symbol) -> Self {
        Mono::atom(Atom::Sym(symbol.clone())).into_dim()
    }
}

impl From<Symbol> for Dim {
    fn from(symbol: Symbol) -> Self {
        Self::from(&symbol)
    }
}

impl PartialEq for Symbol {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.hash == other.0.hash && self.0.name == other.0.name)
    }
}

impl Eq for Symbol {}

impl PartialOrd for Symbol {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Symbol {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.name.cmp(&other.0.name) }
    }
}

impl Hash for Symbol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

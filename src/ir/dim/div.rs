//! Division, minimum and maximum in canonical form.

use super::Dim;
use super::interval as iv;
use super::poly::{self, Mono, Node, NodeKind, Term};
use crate::ir::stable_hash::Fnv;

/// Rounds of rewriting; each one makes the quotient smaller, so that few are needed.
const MAX_ROUNDS: u32 = 64;
/// Most operands of a minimum or maximum.
const MAX_OPERANDS: usize = 32;
/// Most terms of a remainder during long division.
const MAX_REMAINDER: usize = 512;
/// Largest operands, in nodes, of which nested floors with symbolic divisors are merged.
const MAX_MERGED_NODES: u32 = 500;

/// One step of rewriting `floor(num/den)` to `out + floor(num/den)`.
struct Step {
    out: Dim,
    num: Dim,
    den: Dim,
}

impl Dim {
    /// Floored division. A divisor of the constant 0 gives an opaque symbol.
    #[must_use]
    pub fn floor_div(&self, divisor: &Dim) -> Dim {
        let (mut num, mut den, mut sum) = (self.clone(), divisor.clone(), Self::ZERO);
        for _ in 0..MAX_ROUNDS {
            if let Some(d) = den.as_const() {
                if d == 0 {
                    return unknown("floor_div", self, divisor);
                }
                if d == 1 {
                    return sum + num;
                }
                if let Some(quotient) = num.as_const().and_then(|n| iv::floor_div(n, d)) {
                    return sum + quotient;
                }
            }
            if let Some(quotient) = num.exact_div(&den) {
                return sum + quotient;
            }
            let Some(step) = rewrite(&num, &den) else { break };
            sum += step.out;
            (num, den) = (step.num, step.den);
        }
        sum + Node::make(NodeKind::Floor(num, den))
    }

    /// Division that rounds up. A divisor of the constant 0 gives an opaque symbol.
    #[must_use]
    pub fn ceil_div(&self, divisor: &Dim) -> Dim {
        if divisor.range().0 >= Some(1) {
            return (self + divisor - 1).floor_div(divisor);
        }
        -(-self).floor_div(divisor)
    }

    /// Floored remainder: its sign is that of the divisor. A divisor of the constant 0 gives an opaque symbol.
    #[must_use]
    pub fn modulo(&self, divisor: &Dim) -> Dim {
        if divisor.as_const() == Some(0) {
            return unknown("modulo", self, divisor);
        }
        self - divisor * self.floor_div(divisor)
    }

    /// The quotient of polynomials, if the division leaves no remainder for whatever values.
    pub fn exact_div(&self, divisor: &Dim) -> Option<Dim> {
        if let (Some(a), Some(b)) = (self.as_const(), divisor.as_const()) {
            return (a.checked_rem(b)? == 0).then(|| Self::constant(a / b));
        }
        let den = divisor.terms();
        let (den_first, den_last) = (den.first()?, den.last()?);
        let mut rest = self.terms().into_owned();
        let mut quotient = Vec::new();
        if let Some(last) = rest.last() {
            term_quotient(last, den_last)?;
        }
        while let Some(first) = rest.first() {
            let factor = term_quotient(first, den_first)?;
            if den.len() > 1 {
                let minus = [Term { mono: factor.mono.clone(), coef: -factor.coef }];
                rest.extend(poly::products(&minus, &den));
                poly::normalize(&mut rest);
                if rest.len() > MAX_REMAINDER || rest.first().is_some_and(|t| t.mono.degree > first_degree(self)) {
                    return None;
                }
                quotient.push(factor);
                if quotient.len() > MAX_REMAINDER {
                    return None;
                }
            } else {
                let all = rest.iter().map(|t| term_quotient(t, den_first)).collect::<Option<Vec<_>>>()?;
                return Some(Self::from_terms(all));
            }
        }
        Some(Self::from_terms(quotient))
    }

    /// The smaller value.
    #[must_use]
    pub fn min(&self, other: &Dim) -> Dim {
        extremum(self, other, true)
    }

    /// The greater value.
    #[must_use]
    pub fn max(&self, other: &Dim) -> Dim {
        extremum(self, other, false)
    }
}

fn first_degree(dim: &Dim) -> u32 {
    dim.terms().first().map_or(0, |t| t.mono.degree)
}

/// An unbounded symbol for a result that no integer is.
fn unknown(tag: &str, a: &Dim, b: &Dim) -> Dim {
    poly::opaque(Fnv::new(tag).word(a.stable_hash()).word(b.stable_hash()).0, (None, None))
}

fn term_quotient(a: &Term, b: &Term) -> Option<Term> {
    if a.coef.checked_rem(b.coef)? != 0 {
        return None;
    }
    Some(Term { mono: a.mono.divided(&b.mono)?, coef: a.coef.checked_div(b.coef)? })
}

/// The first rule that applies to the quotient.
fn rewrite(num: &Dim, den: &Dim) -> Option<Step> {
    let (lo, hi) = den.range();
    if hi.is_some_and(|hi| hi <= -1) {
        return Some(Step { out: Dim::ZERO, num: -num, den: -den });
    }
    let positive = lo.is_some_and(|lo| lo >= 1);
    take_multiples(num, den)
        .or_else(|| cancel_integer(num, den, positive))
        .or_else(|| if positive { cancel_monomial(num, den) } else { None })
        .or_else(|| if positive { merge_floors(num, den) } else { None })
        .or_else(|| {
            let small = positive && num.range().0 >= Some(0) && (den - num).range().0 >= Some(1);
            small.then(|| Step { out: Dim::ZERO, num: Dim::ZERO, den: den.clone() })
        })
}

/// Terms that a divisor of one term divides come out; the constant term leaves its remainder.
fn take_multiples(num: &Dim, den: &Dim) -> Option<Step> {
    let den_terms = den.terms();
    let [divisor] = &*den_terms else { return None };
    let (mut out, mut rest) = (Vec::new(), Vec::new());
    for term in num.terms().iter() {
        if let Some(quotient) = term_quotient(term, divisor) {
            out.push(quotient);
        } else if let (true, true, Some(quotient)) =
            (term.mono.is_one(), divisor.mono.is_one(), iv::floor_div(term.coef, divisor.coef))
        {
            if quotient != 0 {
                out.push(Term { mono: Mono::ONE, coef: quotient });
            }
            let remainder = iv::add(term.coef, -iv::mul(quotient, divisor.coef));
            rest.push(Term { mono: Mono::ONE, coef: remainder });
        } else {
            rest.push(term.clone());
        }
    }
    if out.is_empty() {
        return None;
    }
    Some(Step { out: Dim::from_terms(out), num: Dim::from_terms(rest), den: den.clone() })
}

/// A common factor of all coefficients cancels; for a positive divisor the constant term is floored.
fn cancel_integer(num: &Dim, den: &Dim, positive: bool) -> Option<Step> {
    let (num_terms, den_terms) = (num.terms(), den.terms());
    let counted = num_terms.iter().filter(|t| !(positive && t.mono.is_one()));
    let g = counted.chain(den_terms.iter()).fold(0, |g, t| iv::gcd(g, t.coef));
    if g <= 1 {
        return None;
    }
    let reduce = |terms: &[Term]| {
        let reduced = terms.iter().map(|t| Some(Term { mono: t.mono.clone(), coef: iv::floor_div(t.coef, g)? }));
        reduced.collect::<Option<Vec<_>>>().map(Dim::from_terms)
    };
    Some(Step { out: Dim::ZERO, num: reduce(&num_terms)?, den: reduce(&den_terms)? })
}

/// A common monomial of a divisor that is not 0 cancels.
fn cancel_monomial(num: &Dim, den: &Dim) -> Option<Step> {
    let (num_terms, den_terms) = (num.terms(), den.terms());
    let mut all = den_terms.iter().chain(num_terms.iter());
    let mut common = all.next()?.mono.clone();
    for term in all {
        if common.is_one() {
            return None;
        }
        common = common.common(&term.mono);
    }
    if common.is_one() {
        return None;
    }
    let reduce = |terms: &[Term]| {
        let reduced = terms.iter().map(|t| Some(Term { mono: t.mono.divided(&common)?, coef: t.coef }));
        reduced.collect::<Option<Vec<_>>>().map(Dim::from_terms)
    };
    Some(Step { out: Dim::ZERO, num: reduce(&num_terms)?, den: reduce(&den_terms)? })
}

/// `floor((floor(x/a)+c)/b)` is `floor((x+a*c)/(a*b))` for positive `a` and `b`.
fn merge_floors(num: &Dim, den: &Dim) -> Option<Step> {
    let terms = num.terms();
    let (first, shift) = match &*terms {
        [first] => (first, 0),
        [first, last] if last.mono.is_one() => (first, last.coef),
        _ => return None,
    };
    let inner = Dim::from_terms(vec![first.clone()]);
    let Some(NodeKind::Floor(x, a)) = inner.as_node() else {
        return None;
    };
    let merged = match (a.as_const(), den.as_const()) {
        (Some(a), Some(b)) => {
            a.checked_mul(shift)?;
            Dim::constant(a.checked_mul(b)?)
        }
        _ if shift == 0 && a.range().0 >= Some(1) && a.nodes() + den.nodes() < MAX_MERGED_NODES => a * den,
        _ => return None,
    };
    Some(Step { out: Dim::ZERO, num: x + a * shift, den: merged })
}

fn extremum(a: &Dim, b: &Dim, is_min: bool) -> Dim {
    if let (Some(x), Some(y)) = (a.as_const(), b.as_const()) {
        return Dim::constant(if is_min { x.min(y) } else { x.max(y) });
    }
    // Whether `x` makes `y` superfluous.
    let covers = |x: &Dim, y: &Dim| if is_min { y.is_ge(x) } else { x.is_ge(y) } == Some(true);
    let mut kept = operands(a, is_min);
    for new in operands(b, is_min) {
        if kept.iter().any(|old| *old == new || covers(old, &new)) {
            continue;
        }
        kept.retain(|old| !covers(&new, old));
        kept.push(new);
    }
    // The constant comes last, as it does in sums.
    kept.sort_by(|x, y| x.as_const().is_some().cmp(&y.as_const().is_some()).then_with(|| x.structural_cmp(y)));
    if let [only] = kept.as_slice() {
        return only.clone();
    }
    if kept.len() > MAX_OPERANDS {
        let ranges = kept.iter().map(Dim::range);
        let range = ranges.reduce(if is_min { iv::iv_min } else { iv::iv_max });
        let tag = Fnv::new(if is_min { "minimum" } else { "maximum" });
        let hash = kept.iter().fold(tag, |h, d| h.word(d.stable_hash())).0;
        return poly::opaque(hash, range.unwrap_or((None, None)));
    }
    Node::make(if is_min { NodeKind::Min(kept) } else { NodeKind::Max(kept) })
}

fn operands(dim: &Dim, is_min: bool) -> Vec<Dim> {
    match (dim.as_node(), is_min) {
        (Some(NodeKind::Min(args)), true) | (Some(NodeKind::Max(args)), false) => args.clone(),
        _ => vec![dim.clone()],
    }
}

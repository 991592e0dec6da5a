//! Ranges of sums, with floors bounded by their operands.

use super::Dim;
use super::interval::{self as iv, Interval};
use super::poly::{Atom, NodeKind, Term, normalize};

/// Range of a sum of terms. `fuel` limits how many levels of floors are bounded by their operands.
pub(super) fn terms_range(terms: &[Term], fuel: u32) -> Interval {
    let direct = terms.iter().fold((Some(0), Some(0)), |acc, t| iv::iv_add(acc, iv::iv_scale(t.mono.range(), t.coef)));
    if fuel == 0 || terms.len() < 2 {
        return direct;
    }
    relaxed_range(terms, fuel).map_or(direct, |r| iv::iv_intersect(direct, r))
}

/// A term that is a multiple of `floor(x/d)` with a constant `d`: `x` and `d`.
fn constant_floor(term: &Term) -> Option<(&Dim, i128)> {
    let Some(Atom::Node(node)) = term.mono.single() else {
        return None;
    };
    let NodeKind::Floor(x, d) = &node.kind else { return None };
    d.as_const().filter(|d| *d > 0).map(|d| (x, d))
}

/// Replaces floors by what bounds them, `(x-d+1)/d <= floor(x/d) <= x/d`, over a common denominator.
fn relaxed_range(terms: &[Term], fuel: u32) -> Option<Interval> {
    const MAX_SCALE: i128 = 1 << 40;
    const MAX_REPLACED: usize = 256;
    let floors: Vec<_> = terms.iter().filter_map(|t| Some((t.coef, constant_floor(t)?.1))).collect();
    if floors.is_empty() || floors.len() > 8 {
        return None;
    }
    let mut scale = 1_i128;
    for (coef, d) in floors {
        let denominator = d / gcd_nonzero(coef, d);
        scale = scale.checked_mul(denominator / gcd_nonzero(scale, denominator)).filter(|s| *s <= MAX_SCALE)?;
    }
    let mut replaced = Vec::with_capacity(terms.len() + 8);
    let mut slack = (Some(0), Some(0));
    for term in terms {
        let scaled = term.coef.checked_mul(scale)?;
        let Some((x, d)) = constant_floor(term) else {
            replaced.push(Term { mono: term.mono.clone(), coef: scaled });
            continue;
        };
        let factor = scaled.checked_div(d)?;
        for inner in x.terms().iter() {
            replaced.push(Term { mono: inner.mono.clone(), coef: inner.coef.checked_mul(factor)? });
        }
        slack = iv::iv_add(slack, iv::iv_scale((Some(1 - d), Some(0)), factor));
    }
    if replaced.len() > MAX_REPLACED {
        return None;
    }
    normalize(&mut replaced);
    let (lo, hi) = iv::iv_add(terms_range(&replaced, fuel - 1), slack);
    let lo = lo.and_then(|v| iv::floor_div(-iv::clamp(v), scale)).map(|v| -v);
    Some((lo, hi.and_then(|v| iv::floor_div(v, scale))))
}

fn gcd_nonzero(a: i128, b: i128) -> i128 {
    iv::gcd(a, b).max(1)
}

//! Intervals of integers with open ends, and the clamped integer arithmetic of the algebra.

/// Lower and upper bound; `None` is unbounded.
pub(super) type Interval = (Option<i128>, Option<i128>);

/// Largest magnitude of a constant; the range is symmetric, so that negation never overflows.
pub(super) const MAX: i128 = i128::MAX;

/// Clamps into `-MAX..=MAX`.
pub(super) const fn clamp(value: i128) -> i128 {
    if value == i128::MIN { -MAX } else { value }
}

pub(super) fn add(a: i128, b: i128) -> i128 {
    clamp(a.saturating_add(b))
}

pub(super) fn mul(a: i128, b: i128) -> i128 {
    clamp(a.saturating_mul(b))
}

pub(super) fn pow(a: i128, power: u32) -> i128 {
    clamp(a.saturating_pow(power))
}

/// Floored division; `None` for a divisor of 0.
pub(super) fn floor_div(a: i128, b: i128) -> Option<i128> {
    let quotient = clamp(a).checked_div(b)?;
    let remainder = clamp(a).checked_rem(b)?;
    Some(if remainder != 0 && ((remainder < 0) != (b < 0)) { quotient - 1 } else { quotient })
}

/// Greatest common divisor of the magnitudes.
pub(super) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (clamp(a).abs(), clamp(b).abs());
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    a
}

pub(super) fn iv_neg(a: Interval) -> Interval {
    (a.1.map(|x| -clamp(x)), a.0.map(|x| -clamp(x)))
}

pub(super) fn iv_add(a: Interval, b: Interval) -> Interval {
    let end = |x: Option<i128>, y: Option<i128>| x?.checked_add(y?);
    (end(a.0, b.0), end(a.1, b.1))
}

pub(super) fn iv_scale(a: Interval, factor: i128) -> Interval {
    let (lo, hi) = if factor < 0 { (a.1, a.0) } else { a };
    let end = |x: Option<i128>| if factor == 0 { Some(0) } else { x?.checked_mul(factor) };
    (end(lo), end(hi))
}

/// The values that lie in both.
pub(super) fn iv_intersect(a: Interval, b: Interval) -> Interval {
    let lo = match (a.0, b.0) {
        (Some(x), Some(y)) => Some(x.max(y)),
        (x, y) => x.or(y),
    };
    let hi = match (a.1, b.1) {
        (Some(x), Some(y)) => Some(x.min(y)),
        (x, y) => x.or(y),
    };
    (lo, hi)
}

/// An end of an interval: ordered so that the derived order is the numeric one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Below,
    At(i128),
    Above,
}

fn end_mul(a: End, b: End) -> End {
    let sign = |e: End| match e {
        End::Below => -1,
        End::At(v) => v.signum(),
        End::Above => 1,
    };
    let infinite = |s: i128| if s < 0 { End::Below } else { End::Above };
    match (a, b) {
        (End::At(x), End::At(y)) => x.checked_mul(y).map_or_else(|| infinite(sign(a) * sign(b)), End::At),
        _ if sign(a) * sign(b) == 0 => End::At(0),
        _ => infinite(sign(a) * sign(b)),
    }
}

pub(super) fn iv_mul(a: Interval, b: Interval) -> Interval {
    let ends = |i: Interval| (i.0.map_or(End::Below, End::At), i.1.map_or(End::Above, End::At));
    let ((al, ah), (bl, bh)) = (ends(a), ends(b));
    let products = [end_mul(al, bl), end_mul(al, bh), end_mul(ah, bl), end_mul(ah, bh)];
    let finite = |e: Option<End>| match e {
        Some(End::At(v)) => Some(v),
        _ => None,
    };
    (finite(products.iter().min().copied()), finite(products.iter().max().copied()))
}

pub(super) fn iv_pow(a: Interval, power: u32) -> Interval {
    let raise = |x: Option<i128>| x?.checked_pow(power);
    match a {
        _ if power == 1 => a,
        (Some(lo), _) if lo >= 0 => (raise(a.0).or(Some(0)), raise(a.1)),
        _ if !power.is_multiple_of(2) => (raise(a.0), raise(a.1)),
        (_, Some(hi)) if hi <= 0 => (raise(a.1).or(Some(0)), raise(a.0)),
        _ => {
            let hi = match (raise(a.0), raise(a.1)) {
                (Some(x), Some(y)) => Some(x.max(y)),
                _ => None,
            };
            (Some(0), hi)
        }
    }
}

/// Range of the floored quotient, over the divisors other than 0.
pub(super) fn iv_floor_div(x: Interval, d: Interval) -> Interval {
    match d {
        (Some(dl), dh) if dl >= 1 => {
            let lo = x.0.and_then(|lo| match dh {
                _ if lo < 0 => floor_div(lo, dl),
                Some(dh) => floor_div(lo, dh),
                None => Some(0),
            });
            let hi = x.1.and_then(|hi| match dh {
                _ if hi >= 0 => floor_div(hi, dl),
                Some(dh) => floor_div(hi, dh),
                None => Some(-1),
            });
            (lo, hi)
        }
        (_, Some(dh)) if dh <= -1 => iv_floor_div(iv_neg(x), iv_neg(d)),
        _ => match x {
            (Some(lo), Some(hi)) => {
                let magnitude = clamp(lo).abs().max(clamp(hi).abs());
                (Some(-magnitude), Some(magnitude))
            }
            _ => (None, None),
        },
    }
}

pub(super) fn iv_min(a: Interval, b: Interval) -> Interval {
    iv_neg(iv_max(iv_neg(a), iv_neg(b)))
}

pub(super) fn iv_max(a: Interval, b: Interval) -> Interval {
    let lo = iv_intersect((a.0, None), (b.0, None)).0;
    let hi = match (a.1, b.1) {
        (Some(x), Some(y)) => Some(x.max(y)),
        _ => None,
    };
    (lo, hi)
}

//! Arithmetic on single known elements: symbolic integers, reals and quotients, as a run would compute them.
//!
//! A result that is not certain is [`Scalar::Unknown`]. Nothing here knows tensors or operators.

use std::cmp::Ordering;

use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Scalar;

/// Reals that take part in symbolic products have at most this numerator and denominator, so that a product with a dim
/// is exact in single precision and no rounding hides in the symbol.
const EXACT_PART: i128 = 1 << 12;
/// Integers beside a symbol in a sum may be larger: up to what single precision holds exactly.
const EXACT_INTEGER: f64 = 16_777_216.0;
/// Largest denominator that is followed.
const DENOMINATOR_LIMIT: i128 = 1 << 40;
/// Largest exponent of a symbolic power.
const EXPONENT_LIMIT: i64 = 16;

/// A number as `f64`.
#[allow(clippy::cast_precision_loss, reason = "elements of a tensor of reals are rounded anyway")]
pub(super) fn to_real(number: i128) -> f64 {
    number as f64
}

/// A real that is an integer, as one; saturates.
#[allow(clippy::cast_possible_truncation, reason = "the cast saturates")]
pub(super) fn to_integer(number: f64) -> i128 {
    number as i128
}

/// A quotient in its simplest form: a real where the symbol is a number.
pub(super) fn quotient(numerator: Dim, denominator: i128) -> Scalar {
    if denominator <= 0 || denominator > DENOMINATOR_LIMIT {
        return Scalar::Unknown;
    }
    if let Some(number) = numerator.as_const() {
        return Scalar::Real(to_real(number) / to_real(denominator));
    }
    if denominator > 1
        && let Some(whole) = numerator.exact_div(&Dim::constant(denominator))
    {
        return Scalar::Quotient(whole, 1);
    }
    Scalar::Quotient(numerator, denominator)
}

/// An element as a fraction. Reals that are not short binary fractions have none.
fn fraction(scalar: &Scalar) -> Option<(Dim, i128)> {
    match scalar {
        Scalar::Integer(dim) => Some((dim.clone(), 1)),
        Scalar::Quotient(dim, denominator) => Some((dim.clone(), *denominator)),
        Scalar::Real(number) => {
            let scaled = number * to_real(EXACT_PART);
            if number.fract() == 0.0 && number.abs() <= EXACT_INTEGER {
                Some((Dim::constant(to_integer(*number)), 1))
            } else if scaled.fract() == 0.0 && scaled.abs() <= to_real(EXACT_PART * EXACT_PART) {
                let (mut numerator, mut denominator) = (to_integer(scaled), EXACT_PART);
                while numerator % 2 == 0 && denominator > 1 {
                    (numerator, denominator) = (numerator / 2, denominator / 2);
                }
                (numerator.abs() <= EXACT_PART).then(|| (Dim::constant(numerator), denominator))
            } else {
                None
            }
        }
        Scalar::Unknown => None,
    }
}

/// Two elements over one denominator.
fn common(a: &Scalar, b: &Scalar) -> Option<(Dim, Dim, i128)> {
    let ((a, a_den), (b, b_den)) = (fraction(a)?, fraction(b)?);
    if a_den == b_den {
        return Some((a, b, a_den));
    }
    let denominator = a_den.checked_mul(b_den)?;
    Some((a * b_den, b * a_den, denominator))
}

/// Applies the rule for integers, for numbers or for fractions, whichever fits both elements.
fn combine(
    a: &Scalar,
    b: &Scalar,
    integers: impl FnOnce(&Dim, &Dim) -> Scalar,
    reals: impl FnOnce(f64, f64) -> f64,
    fractions: impl FnOnce(&Scalar, &Scalar) -> Option<Scalar>,
) -> Scalar {
    match (a, b) {
        (Scalar::Unknown, _) | (_, Scalar::Unknown) => Scalar::Unknown,
        (Scalar::Integer(a), Scalar::Integer(b)) => integers(a, b),
        _ => match (a.as_real(), b.as_real()) {
            (Some(a), Some(b)) => Scalar::Real(reals(a, b)),
            _ => fractions(a, b).unwrap_or(Scalar::Unknown),
        },
    }
}

pub(super) fn add(a: &Scalar, b: &Scalar) -> Scalar {
    combine(
        a,
        b,
        |a, b| Scalar::Integer(a + b),
        |a, b| a + b,
        |a, b| {
            let (a, b, denominator) = common(a, b)?;
            Some(quotient(a + b, denominator))
        },
    )
}

pub(super) fn sub(a: &Scalar, b: &Scalar) -> Scalar {
    combine(
        a,
        b,
        |a, b| Scalar::Integer(a - b),
        |a, b| a - b,
        |a, b| {
            let (a, b, denominator) = common(a, b)?;
            Some(quotient(a - b, denominator))
        },
    )
}

pub(super) fn mul(a: &Scalar, b: &Scalar) -> Scalar {
    let zero = Scalar::Integer(Dim::ZERO);
    if *a == zero || *b == zero {
        return zero;
    }
    combine(
        a,
        b,
        |a, b| Scalar::Integer(a * b),
        |a, b| a * b,
        |a, b| {
            let ((a, a_den), (b, b_den)) = (fraction(a)?, fraction(b)?);
            Some(quotient(a * b, a_den.checked_mul(b_den)?))
        },
    )
}

/// Division; that of integers drops the fraction.
pub(super) fn div(a: &Scalar, b: &Scalar) -> Scalar {
    combine(
        a,
        b,
        integer_div,
        |a, b| a / b,
        |a, b| {
            let ((a, a_den), (b, b_den)) = (fraction(a)?, fraction(b)?);
            let (numerator, denominator) = (a * b_den, b * a_den);
            if let Some(whole) = numerator.exact_div(&denominator) {
                return Some(quotient(whole, 1));
            }
            match denominator.as_const()? {
                0 => None,
                number if number < 0 => Some(quotient(-numerator, number.checked_neg()?)),
                number => Some(quotient(numerator, number)),
            }
        },
    )
}

/// Division towards zero. Symbols that may be zero are taken as divisors that are not: a run would fail otherwise.
fn integer_div(a: &Dim, b: &Dim) -> Scalar {
    if let (Some(a), Some(b)) = (a.as_const(), b.as_const()) {
        return a.checked_div(b).map_or(Scalar::Unknown, |quotient| Scalar::Integer(Dim::constant(quotient)));
    }
    if b.as_const() == Some(0) {
        return Scalar::Unknown;
    }
    if let Some(quotient) = a.exact_div(b) {
        return Scalar::Integer(quotient);
    }
    match (sign(a), sign(b)) {
        (Some(Ordering::Less), Some(Ordering::Greater)) => Scalar::Integer(-(-a).floor_div(b)),
        (Some(_), Some(Ordering::Greater)) => Scalar::Integer(a.floor_div(b)),
        _ => Scalar::Unknown,
    }
}

/// `Greater` for what is proven not to be negative, `Less` for what is proven not to be positive.
fn sign(dim: &Dim) -> Option<Ordering> {
    match dim.range() {
        (Some(lo), _) if lo >= 0 => Some(Ordering::Greater),
        (_, Some(hi)) if hi <= 0 => Some(Ordering::Less),
        _ if dim.is_ge(&Dim::ZERO) == Some(true) => Some(Ordering::Greater),
        _ => None,
    }
}

/// Remainder with the sign of the divisor, or with the sign of the dividend where `truncated`.
pub(super) fn modulo(a: &Scalar, b: &Scalar, truncated: bool) -> Scalar {
    let integers = |a: &Dim, b: &Dim| match (a.as_const(), b.as_const()) {
        (_, Some(0)) => Scalar::Unknown,
        (Some(a), Some(b)) if truncated => Scalar::Integer(Dim::constant(a.checked_rem(b).unwrap_or(0))),
        _ if !truncated || (sign(a), sign(b)) == (Some(Ordering::Greater), Some(Ordering::Greater)) => {
            Scalar::Integer(a.modulo(b))
        }
        _ => Scalar::Unknown,
    };
    let reals = |a: f64, b: f64| {
        let rest = libm::fmod(a, b);
        if !truncated && rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
    };
    combine(a, b, integers, reals, |_, _| None)
}

pub(super) fn pow(a: &Scalar, b: &Scalar) -> Scalar {
    let exponent = match b {
        Scalar::Integer(dim) => dim.as_i64(),
        Scalar::Real(number) if number.fract() == 0.0 && number.abs() < 1e6 => i64::try_from(to_integer(*number)).ok(),
        _ => None,
    };
    match (a, exponent) {
        (Scalar::Integer(base), Some(exponent)) => match u32::try_from(exponent) {
            Ok(power) if exponent <= EXPONENT_LIMIT || base.as_const().is_some() => Scalar::Integer(base.pow(power)),
            _ => Scalar::Unknown,
        },
        (Scalar::Quotient(..), Some(exponent)) if (0..=EXPONENT_LIMIT).contains(&exponent) => {
            (0..exponent).fold(Scalar::Real(1.0), |product, _| mul(&product, a))
        }
        (Scalar::Real(a), _) => match b.as_real() {
            Some(b) => Scalar::Real(libm::pow(*a, b)),
            None => Scalar::Unknown,
        },
        _ => Scalar::Unknown,
    }
}

pub(super) fn min(a: &Scalar, b: &Scalar) -> Scalar {
    combine(
        a,
        b,
        |a, b| Scalar::Integer(a.min(b)),
        f64::min,
        |a, b| {
            let (a, b, denominator) = common(a, b)?;
            Some(quotient(a.min(&b), denominator))
        },
    )
}

pub(super) fn max(a: &Scalar, b: &Scalar) -> Scalar {
    combine(
        a,
        b,
        |a, b| Scalar::Integer(a.max(b)),
        f64::max,
        |a, b| {
            let (a, b, denominator) = common(a, b)?;
            Some(quotient(a.max(&b), denominator))
        },
    )
}

/// How two elements compare, where that is certain.
pub(super) fn compare(a: &Scalar, b: &Scalar) -> Option<Ordering> {
    if let (Scalar::Real(a), Scalar::Real(b)) = (a, b) {
        return a.partial_cmp(b);
    }
    let (a, b, _) = common(a, b)?;
    a.compare(&b)
}

/// Whether two elements are equal, where that is certain.
pub(super) fn equal(a: &Scalar, b: &Scalar) -> Option<bool> {
    match (a, b) {
        (Scalar::Unknown, _) | (_, Scalar::Unknown) => None,
        (Scalar::Real(a), Scalar::Real(b)) => Some(a == b),
        _ => {
            let (a, b, _) = common(a, b)?;
            a.is_eq(&b)
        }
    }
}

/// Whether `a < b`, or `a <= b` where `or_equal`.
pub(super) fn less(a: &Scalar, b: &Scalar, or_equal: bool) -> Option<bool> {
    if let (Scalar::Real(a), Scalar::Real(b)) = (a, b) {
        return Some(if or_equal { a <= b } else { a < b });
    }
    let (a, b, _) = common(a, b)?;
    if or_equal { b.is_ge(&a) } else { a.is_ge(&b).map(|greater| !greater) }
}

/// A truth value as an element.
pub(super) fn logical(truth: Option<bool>) -> Scalar {
    truth.map_or(Scalar::Unknown, |truth| Scalar::Integer(Dim::constant(i128::from(truth))))
}

/// Whether an element is not zero, where that is certain.
pub(super) fn truth(scalar: &Scalar) -> Option<bool> {
    match scalar {
        Scalar::Integer(dim) | Scalar::Quotient(dim, _) => dim.is_eq(&Dim::ZERO).map(|zero| !zero),
        Scalar::Real(number) => Some(*number != 0.0),
        Scalar::Unknown => None,
    }
}

pub(super) fn neg(scalar: &Scalar) -> Scalar {
    match scalar {
        Scalar::Integer(dim) => Scalar::Integer(-dim),
        Scalar::Real(number) => Scalar::Real(-number),
        Scalar::Quotient(dim, denominator) => Scalar::Quotient(-dim, *denominator),
        Scalar::Unknown => Scalar::Unknown,
    }
}

pub(super) fn floor(scalar: &Scalar) -> Scalar {
    match scalar {
        Scalar::Real(number) => Scalar::Real(number.floor()),
        Scalar::Quotient(dim, denominator) => quotient(dim.floor_div(&Dim::constant(*denominator)), 1),
        other => other.clone(),
    }
}

pub(super) fn ceil(scalar: &Scalar) -> Scalar {
    match scalar {
        Scalar::Real(number) => Scalar::Real(number.ceil()),
        Scalar::Quotient(dim, denominator) => quotient(dim.ceil_div(&Dim::constant(*denominator)), 1),
        other => other.clone(),
    }
}

/// To the nearest integer, halves to the even one.
pub(super) fn round(scalar: &Scalar) -> Scalar {
    match scalar {
        Scalar::Real(number) => Scalar::Real(libm::rint(*number)),
        Scalar::Quotient(_, 1) | Scalar::Integer(_) => scalar.clone(),
        Scalar::Quotient(dim, denominator) if denominator % 2 == 1 => {
            quotient((dim * 2 + *denominator).floor_div(&Dim::constant(denominator * 2)), 1)
        }
        Scalar::Quotient(..) | Scalar::Unknown => Scalar::Unknown,
    }
}

/// The integer part, as `Cast` to an integer type takes it.
pub(super) fn truncate(scalar: &Scalar) -> Scalar {
    match scalar {
        Scalar::Integer(_) => scalar.clone(),
        Scalar::Real(number) if number.is_finite() => Scalar::Integer(Dim::constant(to_integer(number.trunc()))),
        Scalar::Quotient(dim, 1) => Scalar::Integer(dim.clone()),
        Scalar::Quotient(dim, denominator) => match sign(dim) {
            Some(Ordering::Greater) => Scalar::Integer(dim.floor_div(&Dim::constant(*denominator))),
            Some(_) => Scalar::Integer(dim.ceil_div(&Dim::constant(*denominator))),
            None => Scalar::Unknown,
        },
        _ => Scalar::Unknown,
    }
}

/// The element as a tensor of this type holds it: reals rounded, integers wrapped where they are numbers.
pub(super) fn fit(element: Option<ElementType>, scalar: Scalar) -> Scalar {
    let Some(element) = element else { return scalar };
    match scalar {
        Scalar::Real(number) => round_to(element, number).map_or(Scalar::Unknown, Scalar::Real),
        Scalar::Integer(dim) => match dim.as_const() {
            Some(number) => Scalar::Integer(Dim::constant(wrap(element, number))),
            None => Scalar::Integer(dim),
        },
        other => other,
    }
}

fn wrap(element: ElementType, number: i128) -> i128 {
    let bits = element.bits();
    if !element.is_integer() || bits == 0 || bits > 64 {
        return number;
    }
    let modulus = 1_i128 << bits;
    let rest = number.rem_euclid(modulus);
    let signed = element.name().starts_with("int");
    if signed && rest >= modulus / 2 { rest - modulus } else { rest }
}

/// The nearest number that the type holds; `None` for types whose rounding is not followed.
pub(super) fn round_to(element: ElementType, number: f64) -> Option<f64> {
    match element {
        ElementType::Double => Some(number),
        ElementType::Float => Some(f64::from(single(number))),
        ElementType::Float16 => Some(short(number, 11, -14, 65_504.0)),
        ElementType::Bfloat16 => Some(short(number, 8, -126, f64::from(f32::MAX))),
        _ => None,
    }
}

#[allow(clippy::cast_possible_truncation, reason = "rounding to single precision is the purpose")]
fn single(number: f64) -> f32 {
    number as f32
}

/// The nearest binary float of so many significant bits.
fn short(number: f64, bits: i32, lowest_exponent: i32, largest: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let (_, exponent) = libm::frexp(number);
    let quantum = (exponent - 1).max(lowest_exponent) - (bits - 1);
    let rounded = libm::ldexp(libm::rint(libm::ldexp(number, -quantum)), quantum);
    if rounded.abs() > largest { f64::INFINITY.copysign(number) } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::free;

    fn int(number: i128) -> Scalar {
        Scalar::Integer(Dim::constant(number))
    }

    #[test]
    fn integer_division_drops_the_fraction() {
        assert_eq!(div(&int(-7), &int(2)), int(-3));
        assert_eq!(div(&int(7), &int(0)), Scalar::Unknown);
        let n = free("N");
        assert_eq!(div(&Scalar::Integer(n.clone()), &int(2)), Scalar::Integer(n.floor_div(&Dim::constant(2))));
        assert_eq!(div(&Scalar::Integer(&n - 9), &int(2)), Scalar::Unknown);
        assert_eq!(div(&Scalar::Integer(&n * 6 - 8), &int(2)), Scalar::Integer(&n * 3 - 4));
    }

    #[test]
    fn symbols_survive_a_detour_through_reals() {
        let n = free("N");
        let halved = mul(&Scalar::Quotient(n.clone(), 1), &Scalar::Real(0.5));
        assert_eq!(truncate(&floor(&halved)), Scalar::Integer(n.floor_div(&Dim::constant(2))));
        assert_eq!(truncate(&ceil(&halved)), Scalar::Integer(n.ceil_div(&Dim::constant(2))));
        assert_eq!(mul(&halved, &Scalar::Real(2.0)), Scalar::Quotient(n.clone(), 1));
        assert_eq!(mul(&Scalar::Quotient(n, 1), &Scalar::Real(0.7)), Scalar::Unknown);
    }

    #[test]
    fn comparisons_are_decided_only_where_proven() {
        let n = Scalar::Integer(free("N"));
        assert_eq!(equal(&n, &int(-1)), Some(false));
        assert_eq!(equal(&n, &int(3)), None);
        assert_eq!(less(&int(0), &n, false), Some(true));
        assert_eq!(less(&n, &int(1), false), Some(false));
        assert_eq!(less(&Scalar::Real(f64::NAN), &Scalar::Real(1.0), true), Some(false));
    }

    #[test]
    fn remainders_take_the_sign_that_the_operator_asks_for() {
        assert_eq!(modulo(&int(-7), &int(3), false), int(2));
        assert_eq!(modulo(&int(-7), &int(3), true), int(-1));
        assert_eq!(modulo(&Scalar::Real(-7.0), &Scalar::Real(3.0), false), Scalar::Real(2.0));
        assert_eq!(modulo(&int(7), &int(0), false), Scalar::Unknown);
    }

    #[test]
    fn numbers_are_held_as_the_element_type_holds_them() {
        assert_eq!(fit(Some(ElementType::Int8), int(130)), int(-126));
        assert_eq!(fit(Some(ElementType::Uint8), int(-1)), int(255));
        assert_eq!(round_to(ElementType::Float16, 2049.0), Some(2048.0));
        assert_eq!(round_to(ElementType::Float16, 1e6), Some(f64::INFINITY));
        assert_eq!(round_to(ElementType::Bfloat16, 257.0), Some(256.0));
        assert_eq!(round_to(ElementType::Float, 0.7), Some(f64::from(0.7_f32)));
    }

    #[test]
    fn halves_round_to_even() {
        assert_eq!(round(&Scalar::Real(2.5)), Scalar::Real(2.0));
        assert_eq!(round(&Scalar::Real(-1.5)), Scalar::Real(-2.0));
    }
}

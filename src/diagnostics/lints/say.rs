//! Numbers in messages: at most three significant digits, with a unit.

use crate::render::units;

/// Bytes: `97.7 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    units::bytes(i128::from(bytes))
}

/// Bytes that were computed: `97.7 MiB`.
pub(super) fn about_bytes(amount: f64) -> String {
    bytes(amount.clamp(0.0, u64::MAX as f64) as u64)
}

/// Milliseconds, or seconds from ten on.
pub(super) fn ms(ms: f64) -> String {
    if ms.is_finite() && ms >= 1e4 { format!("{} s", number(ms / 1e3)) } else { format!("{} ms", number(ms)) }
}

/// A share in percent: `94 %`, `1.5 %`, `0.012 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent >= 10.0 { format!("{percent:.0} %") } else { format!("{} %", significant(percent, 2)) }
}

/// A factor: `1.9 ×`.
pub(super) fn times(factor: f64) -> String {
    format!("{} ×", significant(factor, if factor < 2.0 { 3 } else { 2 }))
}

/// A number with at most three significant digits; large ones with a prefix.
pub(super) fn number(value: f64) -> String {
    if value.is_finite() && value.abs() >= 1e4 {
        return units::count(value as i128);
    }
    significant(value, 3)
}

/// What is counted: `1 layer`, `12 layers`, `1,200 kernels`.
pub(super) fn counted(count: f64, noun: &str) -> String {
    let text = number(count.round());
    if text == "1" { format!("1 {noun}") } else { format!("{text} {noun}s") }
}

/// A number rounded to so many significant digits, without zeros at the end of its fraction.
fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return units::UNKNOWN.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // Below a millionth nobody looks at digits.
    let exponent = (value.abs().log10().floor() as i32).max(-6);
    let decimals = digits - 1 - exponent;
    if decimals <= 0 {
        let unit = 10_f64.powi(-decimals);
        return format!("{:.0}", (value / unit).round() * unit);
    }
    let text = format!("{value:.*}", decimals.unsigned_abs() as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_at_most_three_significant_digits() {
        let cases = [(61.04, "61"), (0.012_34, "0.0123"), (2174.0, "2170"), (9.999, "10"), (12_345.0, "12.3 K")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(0.0), "0");
        assert_eq!(number(f64::NAN), "?");
        assert_eq!(number(f64::INFINITY), "?");
    }

    #[test]
    fn units_follow_the_size() {
        assert_eq!(ms(118.2), "118 ms");
        assert_eq!(ms(25_000.0), "25 s");
        assert_eq!(percent(0.943), "94 %");
        assert_eq!(percent(4.0 / 33_708.0), "0.012 %");
        assert_eq!(times(1.904), "1.9 ×");
        assert_eq!(times(12.34), "12 ×");
        assert_eq!(counted(1.0, "kernel"), "1 kernel");
        assert_eq!(counted(412.0, "kernel"), "412 kernels");
    }
}

//! Numbers with units, for people: at most three significant digits. A number that needs no rounding stands as it is.

use super::Style;

const PREFIXES: [&str; 11] = ["", "K", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q"];
const BYTE_UNITS: [&str; 11] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB", "RiB", "QiB"];

/// What stands for a number that is not known.
pub const UNKNOWN: &str = "?";

/// A count with a prefix: `999`, `4.09 G`, `25.6 M`.
#[must_use]
pub fn count(value: i128) -> String {
    let (digits, prefix) = scaled(value, 1000, &PREFIXES);
    if prefix.is_empty() { digits } else { format!("{digits} {prefix}") }
}

/// A count with a prefix, or `?`.
#[must_use]
pub fn count_or_unknown(value: Option<i128>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), count)
}

/// A count of a unit: `4.09 GMACs`, `12 FLOPs`, `? MACs`.
#[must_use]
pub fn of_unit(value: Option<i128>, unit: &str) -> String {
    match value {
        Some(value) => {
            let (digits, prefix) = scaled(value, 1000, &PREFIXES);
            format!("{digits} {prefix}{unit}")
        }
        None => format!("{UNKNOWN} {unit}"),
    }
}

/// Bytes: `512 B`, `97.7 MiB`.
#[must_use]
pub fn bytes(value: i128) -> String {
    let (digits, unit) = scaled(value, 1024, &BYTE_UNITS);
    format!("{digits} {unit}")
}

/// Bytes, or `?`.
#[must_use]
pub fn bytes_or_unknown(value: Option<i128>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), bytes)
}

/// A number for people: `118`, `6.4`, `0.042`, `2 170`, `1.23 M`; `?` where it is not finite.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !size.is_finite() {
        return UNKNOWN.to_owned();
    }
    if size >= 999_500.0 {
        return count(value as i128);
    }
    if size >= 999.5 {
        let step = if size < 9_995.0 {
            10.0
        } else if size < 99_950.0 {
            100.0
        } else {
            1000.0
        };
        return grouped((value / step).round() as i64 * step as i64);
    }
    // A number that needs no rounding stands as it is.
    let mut decimals = if value.fract() == 0.0 || size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else {
        2
    };
    // Below 1 two digits are enough to compare by; what is too small for that is as good as nothing.
    let mut least = 0.095;
    while size > 0.0 && size < least && decimals < 6 {
        least /= 10.0;
        decimals += 1;
    }
    // Adding 0 takes the sign off a zero.
    format!("{:.decimals$}", value + 0.0)
}

/// Milliseconds in the unit that suits them: `42 µs`, `118 ms`, `12.3 s`.
#[must_use]
pub fn duration(ms: f64, style: Style) -> String {
    let (factor, unit) = duration_unit(ms, style);
    format!("{} {unit}", number(ms * factor))
}

/// The unit that suits so many milliseconds, and what turns milliseconds into it.
pub(super) fn duration_unit(ms: f64, style: Style) -> (f64, &'static str) {
    if ms > 0.0 && ms < 0.095 {
        (1e3, if style.unicode { "µs" } else { "us" })
    } else if ms.is_finite() && ms >= 9_995.0 {
        (1e-3, "s")
    } else {
        (1.0, "ms")
    }
}

/// A share as percent: `86 %`.
#[must_use]
pub fn share(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 0.05 { "under 0.1 %".to_owned() } else { format!("{} %", number(percent)) }
}

/// Digits in groups of three.
fn grouped(value: i64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len() - index;
        if index > 0 && left.is_multiple_of(3) && !text.ends_with('-') {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1 file`, `2 files`.
#[must_use]
pub fn plural(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The value in the largest unit that leaves less than 1000, and the unit.
fn scaled(value: i128, base: u128, units: &'static [&'static str]) -> (String, &'static str) {
    let sign = if value < 0 { "-" } else { "" };
    let magnitude = value.unsigned_abs();
    let mut divisor: u128 = 1;
    for unit in units {
        let last = divisor.checked_mul(base).is_none() || units.last() == Some(unit);
        if let Some(digits) = three_digits(magnitude, divisor, last) {
            return (format!("{sign}{digits}"), unit);
        }
        divisor = divisor.saturating_mul(base);
    }
    (value.to_string(), "")
}

/// `magnitude / divisor` with at most three significant digits; `None` when it rounds to 1000 or more and a larger
/// unit is there.
fn three_digits(magnitude: u128, divisor: u128, last: bool) -> Option<String> {
    let (whole, rest) = (magnitude / divisor, magnitude % divisor);
    let decimals = match whole {
        // 0.98 MiB has as many digits as 980 KiB.
        0..10 => 2_u32,
        10..100 => 1,
        _ => 0,
    };
    // The unit above 999 is 1 or, among bytes, a little less: 1000 KiB is 0.98 MiB.
    let scale = 10_u128.pow(decimals);
    // rest < divisor <= 2^100, so nothing overflows.
    let rounded = whole * scale + (rest * scale + divisor / 2) / divisor;
    if rounded >= 1000 * scale && !last {
        return None;
    }
    let (whole, fraction) = (rounded / scale, rounded % scale);
    let exact = magnitude.is_multiple_of(divisor);
    Some(match decimals {
        _ if exact => whole.to_string(),
        0 => whole.to_string(),
        // Rounding 9.999 up makes 10.00, which is a digit too many.
        2 if whole >= 10 => format!("{whole}.{:01}", fraction / 10),
        1 if whole >= 100 => whole.to_string(),
        1 => format!("{whole}.{fraction:01}"),
        _ => format!("{whole}.{fraction:02}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits_and_exact_numbers_as_they_are() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1 K"),
            (1001, "1.00 K"),
            (1234, "1.23 K"),
            (9_999, "10.0 K"),
            (12_345, "12.3 K"),
            (99_950, "100 K"),
            (123_456, "123 K"),
            (999_499, "999 K"),
            (999_500, "1.00 M"),
            (25_557_032, "25.6 M"),
            (4_089_184_256, "4.09 G"),
            (-1234, "-1.23 K"),
        ];
        for (value, text) in cases {
            assert_eq!(count(value), text, "{value}");
        }
    }

    #[test]
    fn no_size_is_too_large() {
        assert_eq!(count(i128::MAX), "170141183 Q");
        assert_eq!(count(i128::MIN), "-170141183 Q");
        assert_eq!(bytes(i128::MAX), "134217728 QiB");
        assert_eq!(count(9_007_199_254_740_993), "9.01 P");
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        let cases = [
            (0.0, "0"),
            (0.0421, "0.042"),
            (0.000_042, "0.000042"),
            (0.42, "0.42"),
            (0.199, "0.20"),
            (-0.0, "0"),
            (3.0, "3"),
            (6.4, "6.40"),
            (9.996, "10.0"),
            (31.25, "31.2"),
            (99.96, "100"),
            (117.6, "118"),
            (999.6, "1 000"),
            (2_168.0, "2 170"),
            (-2_168.0, "-2 170"),
            (123_456.0, "123 000"),
            (999_499.0, "999 000"),
            (1_234_567.0, "1.23 M"),
            (f64::NAN, "?"),
            (f64::INFINITY, "?"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!(duration(0.0421, Style::PLAIN), "42.1 µs");
        assert_eq!(duration(0.0421, Style { color: false, unicode: false }), "42.1 us");
        assert_eq!(duration(0.0, Style::PLAIN), "0 ms");
        assert_eq!(duration(118.2, Style::PLAIN), "118 ms");
        assert_eq!(duration(12_300.0, Style::PLAIN), "12.3 s");
        assert_eq!(share(0.857), "85.7 %");
        assert_eq!(share(0.0001), "under 0.1 %");
    }

    #[test]
    fn bytes_count_in_powers_of_1024() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1000), "0.98 KiB");
        assert_eq!(bytes(1024), "1 KiB");
        assert_eq!(bytes(102_442_450), "97.7 MiB");
        assert_eq!(bytes(32 << 20), "32 MiB");
        assert_eq!(bytes((32 << 20) + 1), "32.0 MiB");
        assert_eq!(bytes(1_048_575), "1.00 MiB");
    }

    #[test]
    fn units_are_written_out_and_unknown_numbers_say_so() {
        assert_eq!(of_unit(Some(4_089_184_256), "MACs"), "4.09 GMACs");
        assert_eq!(of_unit(Some(12), "FLOPs"), "12 FLOPs");
        assert_eq!(of_unit(None, "MACs"), "? MACs");
    }
}

//! The report as JSON: everything, with every digit, and the same bytes for the same report.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};

/// Writes a report, of whatever form.
///
/// # Errors
/// Writing fails.
pub fn write(report: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(&mut *out, Rounded(PrettyFormatter::new()));
    report.serialize(&mut serializer)?;
    out.write_all(b"\n")
}

/// Rounds to nine significant digits: what lies behind them differs between machines and says nothing.
fn rounded(value: f64) -> f64 {
    // Adding 0 takes the sign off a zero.
    format!("{value:.8e}").parse().unwrap_or(value) + 0.0
}

/// The usual indented form with rounded floats. Those that are not finite never get here: the serializer writes `null`.
struct Rounded(PrettyFormatter<'static>);

impl Formatter for Rounded {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        self.0.write_f64(writer, rounded(value))
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;
    use crate::report::Throughput;

    #[test]
    fn integers_are_exact_and_bytes_are_the_same_on_every_run() {
        let text = || {
            let mut out = Vec::new();
            write(&sample::report(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(), text());
        assert!(text().contains("\"macs\": 288230376151711776,"));
        assert!(text().contains("\"bytes\": 73786976294838206460,"));
        assert!(!text().contains("excerpt"));
    }

    #[test]
    fn floats_have_nine_significant_digits_and_are_always_numbers() {
        for (value, expected) in [
            (104.602_690_620_804_11, 104.602_691),
            (0.123_456_789_012, 0.123_456_789),
            (-1.5, -1.5),
            (f64::MAX, 1.797_693_13e308),
            (f64::MIN_POSITIVE, 2.225_073_86e-308),
        ] {
            assert_eq!(rounded(value).to_bits(), f64::to_bits(expected), "{value}");
        }
        assert_eq!(rounded(-0.0).to_bits(), 0);
        let mut report = sample::report();
        report.models[0].throughput =
            Some(Throughput { samples_per_s: Some(f64::INFINITY), tokens_per_s: Some(f64::NAN) });
        let mut out = Vec::new();
        write(&report, &mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(value["models"][0]["throughput"]["samples_per_s"].is_null());
        assert!(value["models"][0]["throughput"]["tokens_per_s"].is_null());
    }

    #[test]
    fn the_form_is_that_of_any_other_indented_json() {
        let mut out = Vec::new();
        write(&sample::report(), &mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap().lines().count(),
            serde_json::to_string_pretty(&value).unwrap().lines().count()
        );
    }
}

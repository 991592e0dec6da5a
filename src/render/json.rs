//! The report as JSON: everything, with every digit, and the same bytes for the same report.

use std::io::{self, Write};

use crate::report::Report;

/// Writes the report.
///
/// # Errors
/// Writing fails.
pub fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

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
}

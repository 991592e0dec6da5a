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

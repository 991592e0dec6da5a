//! `dlcost schema`: the JSON Schema of the report, derived from the structs that are written.

use std::process::ExitCode;

use super::{Failure, output};
use crate::report::schema;

/// Print the JSON Schema of the JSON report.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) fn run(_: &Arguments) -> Result<ExitCode, Failure> {
    let schema = schema::of_report();
    output::to_stdout(|out| {
        serde_json::to_writer_pretty(&mut *out, &schema)?;
        out.write_all(b"\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

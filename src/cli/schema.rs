//! `dlcost schema`: the JSON Schema of the report, derived from the structs that are written.

use std::process::ExitCode;

use super::{Failure, output};
use crate::report::schema;

/// Print the JSON Schema of the JSON report.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Whose report
    #[arg(value_name = "COMMAND", default_value = "check")]
    command: Command,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Command {
    Check,
    Compare,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let schema = match arguments.command {
        Command::Check => schema::of_report(),
        Command::Compare => schema::of_comparison(),
    };
    output::to_stdout(|out| {
        serde_json::to_writer_pretty(&mut *out, &schema)?;
        out.write_all(b"\n")
    })?;
    Ok(ExitCode::SUCCESS)
}
